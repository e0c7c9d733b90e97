/* operator/view.h: what a command sees of the cluster and of its cloud.
 *
 * A command gets the flags of the controller and reads with the same credentials, but changes
 * nothing: all HTTP clients are restricted (http_set_read_only()), and the cloud gets a closed
 * fence, which also stops hooks and file writes. Its Events are dropped.
 *
 * Each part (nodes, Services, the Lease, the cloud …) is read when it is first needed, and at most
 * once. If that failed, later calls fail with the same error: a server that does not answer is not
 * asked again for every check. Checks that need other parts are not affected.
 *
 * Threads: one, apart from the cloud's own.
 */
#ifndef CCMD_OPERATOR_VIEW_H
#define CCMD_OPERATOR_VIEW_H

#include "cloud/balancer.h"
#include "cloud/route.h"
#include "flags/options.h"
#include "kube/client.h"
#include "kube/connection.h"
#include "kube/lease.h"
#include "kube/node.h"
#include "kube/service.h"
#include "kube/store.h"

struct view;

/** Restricts this process to requests that change nothing, apart from the login of that cloud. Call
 * it before view_new(). */
void view_restrict(const struct cloud_ops *);
/** The only POSTs besides the login that view_restrict() permits: they ask about the rights of
 * these credentials, and of another user. */
#define VIEW_OWN_REVIEWS "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
#define VIEW_ACCESS_REVIEWS "/apis/authorization.k8s.io/v1/subjectaccessreviews"

/** Enters the seccomp filter, unless --sandbox=off, or a credential plugin or programs of the cloud
 * are configured. Reads the kubeconfig and the configuration of the cloud, and makes no request.
 *
 * @param cloud  loaded by the caller; NULL: the view loads its own
 */
void view_confine(struct view *, const struct cloud *cloud);

/** options must outlive the view. Nothing is read yet. */
struct view *view_new(const struct options *options);
void view_free(struct view *); /* NULL is fine */
DEFINE_CLEANUP(struct view, view_free)

const struct options *view_options(const struct view *);
/** For requests and texts; its memory lives as long as the view. */
struct call *view_call(struct view *);

/* ---- the API server ---- */

struct view_server {
	struct str url;
	struct str version; /* "v1.36.3"; empty: the answer names none */
	int64_t minor;      /* 36; 0: the answer names none */
	int64_t skew_s;     /* the server's clock minus ours; 0 also if the answer has no date */
};

/** GET /version. Every other read from the API server begins with this, and fails if it failed. */
NODISCARD bool view_server(struct view *, const struct view_server **ret, struct error *err);
/** Unix time by the server's clock. */
int64_t view_now_s(struct view *);
/** A client for further requests. Fails as view_server() does. */
NODISCARD bool view_client(struct view *, struct kube_client **ret, struct error *err);
/** Reads the list at that path and calls each() for each item, whose text is valid during the call
 * only. Only one item is in memory at a time. */
NODISCARD bool view_list(struct view *, const char *path,
                         bool (*each)(void *arg, struct str item, struct error *err), void *arg,
                         struct error *err);
/** The connection, whether or not the server answers; for the files that it names. */
NODISCARD bool view_connection(struct view *, struct kube_connection **ret, struct error *err);

/** A write to a Node or Service, as its managedFields say. */
struct view_writer {
	struct str manager; /* the User-Agent before its '/': "ccmd" */
	const char *kind;   /* "node" or "service": the object that it wrote last */
	struct str name;
	int64_t time_s;
};

/** All nodes, sorted by name. */
struct view_nodes {
	const struct node **items;
	struct node_ref *refs; /* the same nodes, as a provider sees them */
	size_t n;
	struct store *store;           /* likewise */
	const struct store_list *list; /* likewise, index by index */
};
NODISCARD bool view_nodes(struct view *, const struct view_nodes **ret, struct error *err);

struct view_services {
	const struct service **items; /* sorted by key */
	size_t n;
	struct store *store; /* the same Services */
};
NODISCARD bool view_services(struct view *, const struct view_services **ret, struct error *err);

/** Lists all objects of the store's kind into the store, whose handlers are called. kind: "node" or
 * "service", for messages. The view's own nodes and Services are not affected. */
NODISCARD bool view_fill(struct view *, const char *kind, struct store *, struct error *err);

/** The last write of each cloud controller manager to any node or Service. Reads the nodes and the
 * Services. */
NODISCARD bool view_writers(struct view *, const struct view_writer **ret, size_t *ret_n,
                            struct error *err);

struct view_lease {
	bool exists;
	struct lease lease;
	struct str manager; /* of the last write; empty: unknown */
	int64_t renewed_s;  /* Unix time; 0: never */
};
NODISCARD bool view_lease(struct view *, const struct view_lease **ret, struct error *err);

/* ---- the cloud ---- */

/** Loads the cloud for a command. The caller owns it, and starts it with a closed fence. */
NODISCARD bool view_load_cloud(const struct options *, struct cloud **ret, struct error *err);
/** The listener that the cloud wants for its metrics. The cloud is loaded, but not started. */
NODISCARD bool view_cloud_listener(struct view *, const struct cloud_listener **ret,
                                   struct error *err);
/** The cloud, loaded and started as the controller does it. */
NODISCARD bool view_cloud(struct view *, struct cloud **ret, struct error *err);
/** The settings of the cloud that name something of it; none, if the cloud has no list_settings().
 * If the cloud could not be started, that may be because of such a setting. */
NODISCARD bool view_settings(struct view *, const struct cloud_setting **ret, size_t *ret_n,
                             struct error *err);
/** A look for the machines of all nodes, in the order of view_nodes(). Fails if the cloud gave no
 * answer about any of them. */
NODISCARD bool view_look(struct view *, const struct look **ret, struct error *err);

/** The routes of the cloud; only if cloud->routes. */
NODISCARD bool view_routes(struct view *, struct route_list *ret, struct error *err);

/** What the cloud has for Services; only if cloud->balancers has list(). */
NODISCARD bool view_balancers(struct view *, const struct lb_listed **ret, size_t *ret_n,
                              struct error *err);

/** Is this the name under which ccmd or another cloud controller manager writes? */
bool view_is_controller(struct str manager);

#endif
