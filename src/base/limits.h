/* base/limits.h: how large we can grow, on one page.
 *
 * Everything that waits or is stored, and every size that comes from outside, has its bound here.
 * Memory is allocated only after the size was checked against one of these.
 */
#ifndef CCMD_BASE_LIMITS_H
#define CCMD_BASE_LIMITS_H

#define KIB(n) ((size_t)(n) << 10)
#define MIB(n) ((size_t)(n) << 20)

/* clang-format off */

/* JSON and YAML */
#define LIMIT_JSON_DEPTH     128       /* nesting of any document */
#define LIMIT_JSON_ITEM      MIB(16)   /* one element of a list; etcd holds at most about 1.5 MiB an object */
#define LIMIT_JSON_HEAD      KIB(64)   /* a list's own metadata */
#define LIMIT_YAML_DEPTH     32
#define LIMIT_YAML_NODES     2000000
#define LIMIT_INVENTORY_FILE MIB(16)
#define LIMIT_KUBECONFIG     MIB(4)
#define LIMIT_FILE_WAIT_MS   10000     /* for a pipe in the place of a file, until its writer ends */
#define LIMIT_CREDENTIAL     KIB(256)  /* a token, certificate, key or CA file */

/* HTTP */
#define LIMIT_HTTP_BODY     MIB(16)    /* an answer that is not a stream */
#define LIMIT_HTTP_HEADERS  KIB(64)    /* all headers of an answer */
#define LIMIT_HTTP_REQUEST  MIB(4)     /* a request body of ours */
#define LIMIT_HTTP_URL      KIB(8)
#define LIMIT_STREAM_BUFFER KIB(256)   /* bytes of a stream that wait for their reader; then it is paused */
#define LIMIT_WATCH_LINE    MIB(16)    /* one watch event */
#define LIMIT_LIST_BODY     MIB(1024)  /* a whole list, streamed: ends a server that never stops */
#define LIMIT_RETRY_AFTER_S 60         /* longest wait we accept from a Retry-After header */
#define LIMIT_LOOKUPS       16         /* host names that are resolved at the same time */
#define LIMIT_GATE_MAX      8          /* requests under way at once, per client */

/* Kubernetes */
#define LIMIT_OBJECTS       200000     /* objects of one kind in a store */
#define LIMIT_NAME          253        /* names of Kubernetes objects */
#define LIMIT_INTERN        4096       /* texts shared by many objects; further ones are kept in each object */
#define LIMIT_INTERN_BYTES  317        /* the longest of them: a label key with its prefix */
#define LIMIT_POD_CIDRS     16         /* of one node; the API server lets two through */
#define LIMIT_TAINTS_JSON   MIB(2)     /* the raw taints of one node */
#define LIMIT_SELECTOR      KIB(16)    /* a label selector's text */
#define LIMIT_EVENT_QUEUE   1000       /* events waiting to be written; further ones are dropped and counted */
#define LIMIT_EVENT_CACHE   4096       /* event groups remembered for aggregation */
#define LIMIT_EVENT_MESSAGE 1024       /* bytes of an event's message */
#define LIMIT_PACES         20000      /* (object, reaction) pairs whose reactions are counted (pace.h) */
#define LIMIT_EVENT_DEDUP  10000      /* (node, reason) pairs remembered, so as not to repeat an event */

/* metrics */
#define LIMIT_METRIC_SERIES 200        /* series of one family */
#define LIMIT_METRICS_TEXT  MIB(4)     /* all of them, written */
#define LIMIT_HEALTH_CHECKS 32
#define LIMIT_HEALTH_TEXT   KIB(64)

/* programs we start */
#define LIMIT_CHILD_OUTPUT MIB(1)      /* standard output of an exec plugin or hook */
#define LIMIT_CHILD_STDERR KIB(4)      /* its last words, for messages */

/* our server */
#define LIMIT_SERVER_CONNECTIONS 64
#define LIMIT_SERVER_HEADERS     KIB(32)
#define LIMIT_SERVER_FIELDS      100   /* headers of a request */
#define LIMIT_SERVER_BODY        KIB(64)
#define LIMIT_SERVER_REQUESTS    128   /* requests that are not answered yet; further ones are refused with 503 */
#define LIMIT_SERVER_HEADERS_MS  5000  /* from accept to the last header, the handshake included */
#define LIMIT_SERVER_WRITE_MS    30000 /* an answer that its client does not take */
#define LIMIT_SERVER_IDLE_MS     90000 /* between two requests */
#define LIMIT_SERVER_LINGER_MS   2000  /* after our last word, until the client closes */
#define LIMIT_SERVER_LOOKUP_MS   3000  /* to resolve the name of the address to listen on */
#define LIMIT_SERVER_PENDING     48    /* requests that wait for a review; fewer than the connections */
#define LIMIT_SERVER_UNAUTHENTICATED 40 /* of these, requests of callers who are not authenticated (yet) */
#define LIMIT_SERVER_PER_SOURCE  8     /* of these, requests of one client address or user; 429 beyond */
#define LIMIT_SERVER_KNOWN_TOKENS 64   /* tokens remembered as valid, for longer than cached reviews */
#define LIMIT_ACCESS_CACHE       4096  /* answers of TokenReview and SubjectAccessReview, each */
#define LIMIT_ACCESS_CACHE_BYTES MIB(1) /* all of them together, each */
#define LIMIT_REVIEW_BYTES       10000 /* of one SubjectAccessReview's attributes; larger ones are not kept */
#define LIMIT_USER_BYTES         KIB(256) /* name, groups and extras of one caller */
#define LIMIT_USER_EXTRAS        256   /* values of the extras */

/* providers */
#define LIMIT_MACHINES 100000          /* machines in an inventory */
#define LIMIT_CLOUD_BALANCERS 10000    /* load balancers, their types or certificates in a cloud's list */
#define LIMIT_STATE_FILE MIB(64)       /* what a provider writes down for its next start */
#define LIMIT_HAPROXY_FILE MIB(256)    /* a configuration that we write */
#define LIMIT_BALANCER_PORTS 200       /* of one Service, whose balancer the cloud gives at most some dozens */
#define LIMIT_BALANCER_TEXT KIB(16)    /* of one annotation about it */
#define LIMIT_PROBLEMS 20              /* problems of one file that are shown */
#define LIMIT_CERTIFICATES 1000        /* certificates of load balancers whose ids are remembered */

/* clang-format on */

#endif
