/* operator/view.h: what a command sees of the cluster and of its cloud: the facts that doctor and
 * explain print, and that status prints about the Lease.
 *
 * A command gets the flags of the controller and reads with the same credentials, but changes
 * nothing: all HTTP clients are restricted (http_set_read_only()), and the cloud gets a closed
 * fence, which also stops hooks and file writes. Its Events are dropped.
 *
 * view_need() reads a part (the nodes, the Services, the Lease, the cloud …) when it is first
 * needed, and at most once. If that failed, later calls fail with the same error: a server that
 * does not answer is not asked again for every check. Checks that need other parts are not
 * affected.
 *
 * Threads: one, apart from the cloud's own.
 */
#ifndef CCMD_OPERATOR_VIEW_H
#define CCMD_OPERATOR_VIEW_H

#include "base/map.h"
#include "cloud/balancer.h"
#include "controllers/host.h"
#include "controllers/route/route.h"
#include "flags/options.h"
#include "kube/client.h"
#include "kube/connection.h"
#include "kube/lease.h"
#include "kube/node.h"
#include "kube/service.h"
#include "kube/store.h"

/** The parts, in the order in which several are read. Each reads first what it depends on. */
enum view_part {
	VIEW_CONNECTION = 1 << 0, /* by the kubeconfig, whether or not the server answers */
	VIEW_SERVER = 1 << 1,     /* GET /version; all other reads from the server begin with it */
	VIEW_NODES = 1 << 2,
	VIEW_SERVICES = 1 << 3,
	VIEW_LEASE = 1 << 4,
	VIEW_LOADED = 1 << 5, /* the configuration of the cloud */
	VIEW_CLOUD = 1 << 6,  /* the cloud, started as the controller does it */
	/* The settings of the cloud that name something of it. If the cloud could not be started,
	 * that may be because of such a setting. */
	VIEW_SETTINGS = 1 << 7,
	/* A look for the machines of all nodes. Fails if the cloud gave no answer about any. */
	VIEW_LOOK = 1 << 8,
	VIEW_BALANCERS = 1 << 9, /* what the cloud has for Services; only if it can list that */
	VIEW_ROUTES = 1 << 10,   /* and what a run would change; only if cloud->routes */
	VIEW_TRIALS = 1 << 11,   /* a dry run for each Service; only if cloud->balancers */
	/* All machines of the cloud, by whatever name; ERR_UNSUPPORTED: it does not list them. */
	VIEW_MACHINES = 1 << 12,
	VIEW_ENDPOINTS = 1 << 13, /* of the Services that want a balancer; may be forbidden */
	VIEW_LEADER = 1 << 14,    /* what the leader knows (leader.h) */
	VIEW_EVENTS = 1 << 15,    /* of Services and Nodes: warnings, and two writers */
};

struct described;

struct view_server {
	struct str url;
	struct str version; /* "v1.36.3"; empty: the answer names none */
	int64_t minor;      /* 36; 0: the answer names none */
	int64_t skew_s;     /* the server's clock minus ours; 0 also if the answer has no date */
	int64_t took_ns;    /* from the request to the response */
};

/** All nodes, sorted by name. All members are about the same nodes, index by index. */
struct view_nodes {
	const struct node **items;
	struct node_ref *refs; /* as a provider sees them */
	size_t n;
	struct store_list list;
	struct store *store;
};

/** What struct service leaves out of a Service of type LoadBalancer, or one that is being deleted.
 */
struct view_service {
	struct str class;  /* spec.loadBalancerClass; empty: none */
	struct str writer; /* the manager that wrote its addresses last; empty: unknown */
	int64_t created_s;
	int64_t deleted_s; /* 0: it is not being deleted */
};

/** The endpoints in its EndpointSlices. A Service with addresses of two families has them twice. */
struct view_endpoints {
	size_t n, n_ready;
	/* of the ready ones; index by index as the nodes, and one for other nodes. NULL: the
	 * Service wants no balancer */
	bool *is_on_node;
};

struct view_services {
	const struct service **items;     /* sorted by key */
	struct view_service *more;        /* index by index, as the items */
	struct view_endpoints *endpoints; /* likewise; VIEW_ENDPOINTS */
	struct map by_key;                /* struct view_service, while the Services are read */
	size_t n;
	struct store_list list;
	struct store *store;
};

/** The last write of a cloud controller manager to a Node or Service, as managedFields say. */
struct view_writer {
	struct str manager; /* the User-Agent before its '/': "ccmd" */
	const char *kind;   /* "node" or "service": the object that it wrote last */
	struct str name;
	int64_t time_s;
};

/** Two processes of ccmd that have both sent events about one object, the first also after the
 * second had begun: they work at the same time. */
struct view_conflict {
	const char *kind;               /* "service"; NULL: none was found */
	struct str name, first, second; /* the object, and the identities of the processes */
	int64_t last_s;                 /* Unix time, until which both have done so */
};

struct view_lease {
	struct str name; /* "namespace/name" */
	bool exists;
	bool has_holder;
	struct lease lease;
	struct str manager; /* of the last write; empty: unknown */
	int64_t written_s;  /* Unix time of it, by the server's clock; 0: unknown */
	int64_t renewed_s; /* Unix time, by the holder's clock, but not after written_s; 0: never */
	int64_t ahead_s;   /* how far the holder's clock was ahead of the server's; else 0 */
	int64_t behind_s;  /* how far it is behind, if it renews the Lease nevertheless; else 0 */
	int64_t wait_s;    /* how long a replica of ccmd waits for the holder after that */
	int64_t late_s;    /* for how long the Lease could have been taken; else 0 or less */
};

enum {
	VIEW_MAX_WRITERS = 16, /* different controllers; more than anybody runs */
	VIEW_MAX_LOOKS = 20,
	VIEW_MAX_WITNESSES = 2, /* that a command about one object looks for */
	VIEW_MAX_REQUESTS = 10, /* that it sends to the cloud */
	VIEW_N_PARTS = 16,
};

/** What the leader is asked, and where; set before VIEW_LEADER is read. */
struct view_question {
	const struct described *what; /* NULL: all objects in trouble */
	const char *url;              /* --url; NULL: the process of this machine */
	const char *ca_file;          /* --ca */
};

/** Each member may be used when its part has been read. Texts live as long as the view. */
struct view {
	const struct options *options;
	struct call call; /* for requests and texts */

	struct kube_connection *connection; /* VIEW_CONNECTION */
	struct kube_client *kube;           /* VIEW_SERVER: for further requests */
	struct view_server server;
	struct view_nodes nodes;
	struct view_services services;
	/* VIEW_NODES and VIEW_SERVICES: one for each manager */
	struct view_writer writers[VIEW_MAX_WRITERS];
	size_t n_writers;
	struct view_lease lease;
	struct cloud *cloud; /* VIEW_LOADED, VIEW_CLOUD */
	struct cloud_setting *settings;
	size_t n_settings;
	struct look *look; /* index by index as the nodes */
	struct machine_list machines;
	struct lb_listed *balancers;
	size_t n_balancers;
	struct route_list routes;
	struct route_decision route_run; /* what a run of the controller would change */
	struct service_trial *trials;    /* facts.h */
	size_t n_trials;
	struct view_question ask;
	yyjson_doc *leader;  /* its answer */
	struct map warnings; /* struct leader_event by the UID of the object */
	struct map senders;  /* struct leader_sender by the UID of the object */
	struct view_conflict conflict;

	/* for view.c */
	struct arena arena;
	yyjson_doc **docs; /* of view_get_items() */
	size_t n_docs, docs_cap;
	struct {
		bool is_read, has_failed;
		struct error err;
	} parts[VIEW_N_PARTS];
	struct node_kind node_kind;
	struct fence fence; /* closed */
	struct host_requests requests;
	struct recorder *recorder; /* drops events */
	struct host *host;
	struct targets *targets;            /* NULL: not needed yet */
	struct look *looks[VIEW_MAX_LOOKS]; /* those that the look was merged from */
	size_t n_looks;
};

/** Restricts this process to requests that change nothing, apart from the login of that cloud. Call
 * it before view_new(). */
void view_restrict(const struct cloud_ops *);
/** The only POSTs besides the login that view_restrict() permits: they ask about the rights of
 * these credentials, and of another user. */
#define VIEW_OWN_REVIEWS "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
#define VIEW_ACCESS_REVIEWS "/apis/authorization.k8s.io/v1/subjectaccessreviews"

/** options must outlive the view. Nothing is read yet. */
struct view *view_new(const struct options *options);
void view_free(struct view *); /* NULL is fine */
DEFINE_CLEANUP(struct view, view_free)

/** Enters the seccomp filter, unless --sandbox=off, or a credential plugin or programs of the cloud
 * are configured. Reads the kubeconfig and the configuration of the cloud, and makes no request.
 *
 * @param cloud  loaded by the caller; NULL: the view loads its own
 */
void view_confine(struct view *, const struct cloud *cloud);

/** Reads these parts (a union of enum view_part), each once. False: the first that cannot be read,
 * now or before, has this error. */
NODISCARD bool view_need(struct view *, unsigned parts, struct error *err);

/** Adds the members by which reports can be told apart: time, version, cluster and context. */
void view_add_json(struct view *, struct buf *out);

/** The index of the node or the Service with this key; their number if there is none. */
size_t view_find(const struct store_list *sorted, struct str key);

/** Unix time by the server's clock. */
int64_t view_now_s(const struct view *);
/** Reads the list at that path and calls each() for each item, which is valid during the call only.
 * Only one item is in memory at a time. */
NODISCARD bool view_list(struct view *, const char *path,
                         bool (*each)(void *arg, yyjson_val *item, struct error *err), void *arg,
                         struct error *err);
/** Lists all objects of the store's kind into the store, whose handlers are called. kind: "node" or
 * "service", for messages. The view's own nodes and Services are not affected. */
NODISCARD bool view_fill(struct view *, const char *kind, struct store *, struct error *err);

/** Reads a small list. *ret, its items, lives as long as the view. */
NODISCARD bool view_get_items(struct view *, struct str path, yyjson_val **ret, struct error *err);
/** The same for the pods of the chart and of deploy/, with their namespace. The controller's own
 * account may not list them. */
NODISCARD bool view_list_pods(struct view *, struct str *ret_namespace, yyjson_val **ret,
                              struct error *err);

/** The manager of the newest entry in managedFields, and the Unix time of it; empty and 0: unknown.
 * field: the path of what the entry must have; "": any entry counts. */
struct str view_last_manager(yyjson_val *object, const char *field, struct arena *,
                             int64_t *ret_time_s);

/** The Unix time of a member that is a time; 0: it is none. */
int64_t view_time_s(yyjson_val *object, const char *path);

/** Is this the name under which ccmd or another cloud controller manager writes? */
bool view_is_controller(struct str manager);

#endif
