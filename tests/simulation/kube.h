/* tests/simulation/kube.h: a model of kube-apiserver and its etcd.
 *
 * It answers the requests that ccmd and the actors of the simulation send: nodes, Services, Leases,
 * Events, namespaces and ConfigMaps, with get, list, watch, create, update, patch and delete, the
 * subresource status, and /healthz, /livez, /readyz and /version. Defaults, validation, patches,
 * preconditions and finalizers are those of Kubernetes 1.37: tests/scenario/test_model_kube.py
 * sends the same requests to both. A request for something else that Kubernetes has is answered
 * with 501 and a text that names it.
 *
 * It has no managedFields. A real server writes a new version of an object even if only its
 * managedFields change, for example after a PATCH that omits a number which the server had chosen.
 * The model does not.
 *
 * The model has one counter of versions, like etcd. Reads without a version see the newest state;
 * lists with a version, and watches, see the watch cache, which the simulation can stop updating.
 *
 * All other writers are actors: kubelets, users, other controllers. For them, the simulation sends
 * requests with kube_model_request(), under the same rules as for ccmd's requests, or calls the
 * functions at the end.
 *
 * The JSON of an object never changes: a write replaces the struct kube_model_object. A pointer to
 * it is valid until the object is written the next time, or kube_model_hold() keeps it.
 *
 * Threads: none. All functions are called from one thread.
 */
#ifndef CCMD_TESTS_SIMULATION_KUBE_H
#define CCMD_TESTS_SIMULATION_KUBE_H

#include "base/label.h"
#include "server.h"

struct kube_model;
struct kube_model_backup;

enum kube_model_kind {
	KUBE_MODEL_NODE,
	KUBE_MODEL_SERVICE,
	KUBE_MODEL_LEASE,
	KUBE_MODEL_EVENT,
	KUBE_MODEL_NAMESPACE,
	KUBE_MODEL_CONFIG_MAP,
	KUBE_MODEL_N_KINDS,
};

struct kube_model_object {
	enum kube_model_kind kind;
	int64_t version;            /* its resourceVersion */
	struct str namespace, name; /* namespace empty: the kind has none */
	struct str uid;
	struct str json; /* as GET answers it, without managedFields */
};

/* ---- life cycle ---- */

/** A cluster with the namespaces default, kube-system, kube-public and kube-node-lease. The clock
 * starts at wall_ns. The same calls give the same answers.
 *
 * @param seed  of the UIDs
 */
struct kube_model *kube_model_new(int64_t wall_ns, uint64_t seed);
struct server *kube_model_server(struct kube_model *);
/** Leases are kept in an etcd of their own (kube-apiserver --etcd-servers-overrides), which has
 * this version. Must be called before the first one is written. A restore does not concern them. */
void kube_model_separate_leases(struct kube_model *, int64_t version);
/** A request with this token is allowed everything. One with another token is answered with 401,
 * one without a token may only ask for health and version. */
void kube_model_add_token(struct kube_model *, struct str token);
/** The token is refused from now on. */
void kube_model_revoke_token(struct kube_model *, struct str token);

/* ---- reading ---- */

/** NULL: it does not exist. */
const struct kube_model_object *kube_model_find(const struct kube_model *, enum kube_model_kind,
                                                struct str namespace, struct str name);
size_t kube_model_count(const struct kube_model *, enum kube_model_kind);
/** The i-th, ordered by namespace and name; i is less than kube_model_count(). */
const struct kube_model_object *kube_model_at(const struct kube_model *, enum kube_model_kind,
                                              size_t i);
/** Keeps an object until kube_model_release(). */
void kube_model_hold(const struct kube_model_object *);
void kube_model_release(const struct kube_model_object *);
/** The version of the last write. */
int64_t kube_model_version(const struct kube_model *);
size_t kube_model_n_watches(const struct kube_model *);

/* ---- writes, for checks ---- */

/** One write that changed something. The pointers are valid during the call. */
struct kube_model_change {
	int64_t version, wall_ns;
	struct str token, user_agent;           /* of the request; token empty: an actor */
	const char *method;                     /* "PATCH" */
	bool is_status;                         /* the request was for the subresource status */
	const struct kube_model_object *before; /* NULL: it was created */
	const struct kube_model_object *after;  /* NULL: it was deleted */
};

typedef void kube_model_observe(void *arg, const struct kube_model_change *change);
/** Called after each write. A restore from a backup is not reported. */
void kube_model_set_observer(struct kube_model *, kube_model_observe *observe, void *arg);

/** What the clients with a token and user agent have sent, reads excluded. */
struct kube_model_client {
	struct str token, user_agent;
	int64_t n_requests; /* POST, PUT, PATCH and DELETE */
	int64_t n_refused;  /* of these, answered with 4xx or 5xx */
	int64_t n_changes;  /* of these, changed an object */
};

/** In the order of their first request. */
size_t kube_model_n_clients(const struct kube_model *);
const struct kube_model_client *kube_model_client(const struct kube_model *, size_t i);

/* ---- what happens to the server ---- */

/** Drops the history before that version: watches from older versions and lists of older versions
 * are answered with 410. The API server does it every five minutes; the model only here. */
void kube_model_compact(struct kube_model *, int64_t version);
/** All watches end, and the watch cache begins with the newest state: what a restart does. */
void kube_model_restart(struct kube_model *);
/** The watch cache stays at its present version, until it is released: lists with a version are
 * old, lists of a newer version are refused with 504, and watches are silent. */
void kube_model_hold_cache(struct kube_model *);
void kube_model_release_cache(struct kube_model *);

struct kube_model_backup *kube_model_backup(const struct kube_model *);
/** All objects are as they were, and the version, too, plus `bump`. The API server restarts. */
void kube_model_restore(struct kube_model *, const struct kube_model_backup *backup, int64_t bump);
void kube_model_backup_free(struct kube_model_backup *);

/* ---- actors ---- */

/** A request by somebody else, who may do everything. The body is JSON; that of a PATCH is a merge
 * patch, or a strategic one when is_strategic is set.
 *
 * @param user_agent  who it is, as the observer sees it
 * @param ret_body    is appended to; NULL: not wanted
 * @return  the status of the answer
 */
struct kube_model_request {
	const char *user_agent, *method, *target;
	struct str body;
	bool is_strategic;
};

int kube_model_request(struct kube_model *, const struct kube_model_request *request,
                       struct buf *ret_body);

struct kube_model_new_node {
	struct str name;
	struct str ip;          /* InternalIP, and --node-ip; empty: none */
	struct str provider_id; /* empty: none */
	const struct label *labels;
	size_t n_labels;
	bool is_initialised; /* without the taint of --cloud-provider=external */
};

/** A kubelet registers its Node, Ready, and its Lease. Returns the status of the answer: 409 if the
 * Node exists. */
int kube_model_add_node(struct kube_model *, const struct kube_model_new_node *wanted);
/** A kubelet renews its Lease, or creates it. */
void kube_model_renew_node(struct kube_model *, struct str name);
/** Sets the condition Ready, as a kubelet or the node lifecycle controller does.
 *
 * @param ready  "True", "False" or "Unknown"
 */
int kube_model_set_ready(struct kube_model *, struct str name, const char *ready);

/** Changes an object by a merge patch. "{\"metadata\":{\"labels\":{\"a\":null}}}" */
int kube_model_change(struct kube_model *, const char *user_agent,
                      const struct kube_model_object *object, const char *merge_patch);
/** Without preconditions. An object with finalizers stays, with a deletionTimestamp. */
int kube_model_delete(struct kube_model *, const char *user_agent,
                      const struct kube_model_object *object);
/** False: it has the finalizer already, or not at all; or it is refused. */
bool kube_model_add_finalizer(struct kube_model *, const char *user_agent,
                              const struct kube_model_object *object, const char *finalizer);
bool kube_model_remove_finalizer(struct kube_model *, const char *user_agent,
                                 const struct kube_model_object *object, const char *finalizer);

#endif
