/* base/limits.h: all limits of this program, on one page.
 *
 * Every queue, every cache and every size that comes from outside has its bound here. Memory is
 * allocated only after the size has been checked against one of these limits.
 *
 * Threads: not relevant; these are constants only.
 */
#ifndef CCMD_BASE_LIMITS_H
#define CCMD_BASE_LIMITS_H

#define KIB(n) ((size_t)(n) << 10)
#define MIB(n) ((size_t)(n) << 20)

/* clang-format off */

/* JSON and YAML */
#define LIMIT_JSON_DEPTH     128       /* nesting of any document */
#define LIMIT_JSON_VALUES    1000000   /* of one answer of a cloud; each takes 16 bytes, and more where it is read */
#define LIMIT_JSON_ITEM      MIB(16)   /* one element of a list; etcd stores at most about 1.5 MiB per object */
#define LIMIT_JSON_HEAD      KIB(64)   /* a list's own metadata */
#define LIMIT_YAML_DEPTH     32
#define LIMIT_YAML_NODES     2000000
#define LIMIT_INVENTORY_FILE MIB(16)
#define LIMIT_KUBECONFIG     MIB(4)
#define LIMIT_KUBECONFIGS    32        /* files that $KUBECONFIG names */
#define LIMIT_FILE_WAIT_MS   10000     /* wait for the writer of a pipe that stands in the place of a file */
#define LIMIT_CREDENTIAL     KIB(256)  /* a token, certificate, key or CA file */

/* HTTP */
#define LIMIT_HTTP_BODY     MIB(16)    /* a response that is not a stream */
#define LIMIT_HTTP_HEADERS  KIB(64)    /* all headers of a response */
#define LIMIT_HTTP_REQUEST  MIB(4)     /* the body of a request that this program sends */
#define LIMIT_HTTP_URL      KIB(8)
#define LIMIT_STREAM_BUFFER KIB(256)   /* bytes of a stream that its reader has not taken; beyond that the stream is paused */
#define LIMIT_WATCH_LINE    MIB(16)    /* one watch event */
#define LIMIT_LIST_BODY     MIB(1024)  /* a whole list, streamed: stops a server that sends without end */
#define LIMIT_RETRY_AFTER_S 60         /* longest wait that is accepted from a Retry-After header */
#define LIMIT_LOOKUPS       16         /* host names that are resolved at the same time */
#define LIMIT_GATE_MAX      8          /* concurrent requests per client */

/* Kubernetes */
#define LIMIT_OBJECTS       200000     /* objects of one kind in a store */
#define LIMIT_NAME          253        /* names of Kubernetes objects */
#define LIMIT_INTERN        4096       /* texts shared by many objects; further ones are kept in each object */
#define LIMIT_INTERN_BYTES  317        /* the longest shared text: a label key with its prefix */
#define LIMIT_POD_CIDRS     16         /* of one node; the API server accepts two */
#define LIMIT_TAINTS_JSON   MIB(2)     /* the raw taints of one node */
#define LIMIT_SELECTOR      KIB(16)    /* a label selector's text */
#define LIMIT_SELECTOR_REQUIREMENTS 64 /* of a label selector, each of which searches the labels of a node */
#define LIMIT_EVENT_QUEUE   1000       /* events waiting to be written; further ones are dropped and counted */
#define LIMIT_EVENT_CACHE   4096       /* event groups remembered for aggregation */
#define LIMIT_EVENT_MESSAGE 1024       /* bytes of an event's message */
#define LIMIT_DRY_OBJECTS   20000      /* objects whose changes --dry-run has logged and remembers */
#define LIMIT_DRY_CHANGES   200        /* changes of one of them */
#define LIMIT_DRY_TEXT      KIB(16)    /* of what one change changes, in the log */
#define LIMIT_PACES         20000      /* (object, reaction) pairs whose reactions are counted (pace.h) */
#define LIMIT_NODE_ERRORS  500         /* failures of work on nodes that are remembered (node_errors.h) */
#define LIMIT_TROUBLES     500         /* nodes, and Services, in trouble that the leader lists */
#define LIMIT_DESCRIPTION  MIB(2)      /* what the leader says about them, as JSON */
#define LIMIT_NODE_ERROR   300         /* bytes of the text of one */
#define LIMIT_EVENT_DEDUP  10000      /* (node, reason) pairs remembered, so that an event is not repeated */

/* metrics */
#define LIMIT_METRIC_SERIES 200        /* series of one family */
#define LIMIT_METRICS_TEXT  MIB(4)     /* the complete text of one page */
#define LIMIT_HEALTH_CHECKS 32
#define LIMIT_HEALTH_TEXT   KIB(64)

/* child processes */
#define LIMIT_CHILD_OUTPUT MIB(1)      /* standard output of an exec plugin or hook */
#define LIMIT_CHILD_STDERR KIB(4)      /* the end of standard error, for messages */

/* the HTTP server of this program */
#define LIMIT_SERVER_CONNECTIONS 64
#define LIMIT_SERVER_HEADERS     KIB(32)
#define LIMIT_SERVER_FIELDS      100   /* headers of a request */
#define LIMIT_SERVER_BODY        KIB(64)
#define LIMIT_SERVER_REQUESTS    128   /* requests in progress; further ones are refused with 503 */
#define LIMIT_SERVER_HEADERS_MS  5000  /* from accept to the last header, including the TLS handshake */
#define LIMIT_SERVER_WRITE_MS    30000 /* a response that the client does not read */
#define LIMIT_SERVER_IDLE_MS     90000 /* between two requests */
#define LIMIT_SERVER_LINGER_MS   2000  /* after the response, until the client closes the connection */
#define LIMIT_SERVER_LOOKUP_MS   3000  /* to resolve the name of the address to listen on */
#define LIMIT_SERVER_PENDING     48    /* requests that wait for an access review; fewer than the connections */
#define LIMIT_SERVER_UNAUTHENTICATED 40 /* pending requests of callers that are not authenticated (yet) */
#define LIMIT_SERVER_PER_SOURCE  8     /* pending requests of one client address or user; 429 beyond */
#define LIMIT_SERVER_KNOWN_TOKENS 64   /* tokens remembered as valid, for longer than cached reviews */
#define LIMIT_ACCESS_CACHE       4096  /* cached answers, per kind: TokenReview, SubjectAccessReview */
#define LIMIT_ACCESS_CACHE_BYTES MIB(1) /* bytes of all cached answers, per kind */
#define LIMIT_REVIEW_BYTES       10000 /* attributes of one SubjectAccessReview; larger answers are not cached */
#define LIMIT_USER_BYTES         KIB(256) /* name, groups and extras of one caller */
#define LIMIT_USER_EXTRAS        256   /* values of the extras */

/* providers */
#define LIMIT_MACHINES 100000          /* machines in an inventory */
#define LIMIT_CLOUD_PAGE 1000          /* elements of one page of a cloud's list; pages have some dozens */
#define LIMIT_CLOUD_ELEMENTS 100000    /* elements of all lists in one answer of a cloud; up to some hundred bytes each where it is read */
#define LIMIT_CLOUD_BALANCERS 10000    /* load balancers, their types or certificates in a cloud's list */
#define LIMIT_STATE_FILE MIB(64)       /* state that a provider stores for its next start */
#define LIMIT_HAPROXY_FILE MIB(32)     /* HAProxy's configuration for all Services; those without room are left out */
#define LIMIT_BALANCER_PORTS 200       /* ports of one Service; clouds allow some dozens per load balancer */
#define LIMIT_BALANCER_RANGES 1000     /* source ranges of one Service */
#define LIMIT_BALANCER_PARTS 250000    /* its ports x (source ranges + nodes) */
#define LIMIT_BALANCER_ANNOTATIONS 200 /* annotations of one Service with the prefix of its cloud */
#define LIMIT_BALANCER_TEXT KIB(16)    /* one annotation that configures a load balancer */
#define LIMIT_BALANCER_NAMES 50        /* domains or certificates in one such annotation */
#define LIMIT_UNSETTLED 10000          /* Services that wait for their cloud and are stored for that (brightbox/unsettled.h) */
#define LIMIT_PROBLEMS 20              /* problems of one file that are reported */
#define LIMIT_REFUSALS 5000            /* requests that the cloud has refused and that are not sent again (refusals.h) */
#define LIMIT_CREATIONS 256            /* balancers that were asked for and may not be visible yet (cloud/cloud.h) */
#define LIMIT_CERTIFICATES 1000        /* certificates of load balancers whose ids are remembered */

/* commands for operators */
#define LIMIT_FINDINGS 1000            /* findings of one check; further ones are counted */
#define LIMIT_REPORT   MIB(64)         /* the text or JSON that a command prints */
#define LIMIT_PROCESS_TEXT MIB(4)      /* the command line or the environment of the running controller */
#define LIMIT_PROCESSES 64             /* processes among which a command looks for the controller */
#define LIMIT_PROCESS_GROUPS 64        /* groups of the running controller that a command takes over */
#define LIMIT_PLAN     MIB(32)         /* changes that ccmd plan collects; further ones are counted */

/* clang-format on */

#endif
