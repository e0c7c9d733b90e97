/* cloud/balancer.h: load balancers, as a provider sees them.
 *
 * Each Service of type LoadBalancer has one balancer. The controller describes the desired balancer
 * (struct lb_spec); the provider compares that with its cloud and changes what differs. Every
 * operation may be run twice, even by two processes at the same time during a rolling update: the
 * second run changes nothing, no second balancer is created for a Service, and a balancer that is
 * not ours is never touched.
 *
 * Errors: ERR_PENDING: the cloud has not finished yet. The controller tries again after
 * retry_after_ms and does not count a failure; 0: after a part of the time that the Service has
 * waited already, and after five minutes it is a failure. Each function may return it; its comment
 * has the meaning. ERR_THROTTLED with retry_after_ms likewise. ERR_INVALID,
 * ERR_UNSUPPORTED: the Service asks for something that is not possible. An event says so, and the
 * pauses between further attempts grow to 5 minutes. All other errors are retried with back-off.
 *
 * Threads: functions for different Services may run at the same time, those for one Service never
 * do.
 */
#ifndef CCMD_CLOUD_BALANCER_H
#define CCMD_CLOUD_BALANCER_H

#include "base/ip.h"
#include "cloud/cloud.h"

enum lb_protocol {
	LB_TCP,
	LB_UDP,
	LB_SCTP,
};

struct lb_port {
	struct str name;          /* empty: none */
	struct str app_protocol;  /* empty: none */
	struct str protocol_text; /* "TCP", for messages */
	enum lb_protocol protocol;
	int32_t port, node_port; /* node_port 0: none allocated */
};

enum lb_traffic {
	LB_TRAFFIC_CLUSTER,
	/* only nodes with an endpoint take traffic: those where health_check_node_port says so */
	LB_TRAFFIC_LOCAL,
};

enum lb_family_policy {
	LB_SINGLE_STACK,
	LB_PREFER_DUAL_STACK,
	LB_REQUIRE_DUAL_STACK,
};

/** The destination address of packets that arrive at a node (ipMode in the Service's status). VIP:
 * still the ingress address. Proxy: the node's own address, because the balancer forwards them. */
enum lb_ip_mode {
	LB_IP_MODE_NONE, /* for an ingress that has only a hostname */
	LB_IP_MODE_VIP,
	LB_IP_MODE_PROXY,
};

struct lb_ingress {
	struct str ip, hostname; /* one of them may be empty */
	enum lb_ip_mode ip_mode;
};

struct lb_status {
	struct lb_ingress *ingress; /* ensure() returns it in the call's arena */
	size_t n_ingress;
};

/** A Service and its nodes. All views are borrowed for the length of the call. */
struct lb_spec {
	struct str cluster; /* --cluster-name */
	struct str namespace, service, uid;
	/* "a" + the UID without dashes, cut to 32 bytes: the default name of a balancer */
	struct str name;
	const struct label *annotations;
	size_t n_annotations;
	const struct lb_port *ports;
	size_t n_ports;
	/* spec.loadBalancerSourceRanges, else the annotation's, trimmed; none: all */
	const struct str *source_ranges;
	size_t n_source_ranges;
	const enum ip_family *families; /* spec.ipFamilies, in order; at least one */
	size_t n_families;
	enum lb_family_policy family_policy;
	struct str wanted_ip; /* spec.loadBalancerIP; empty: none */
	enum lb_traffic traffic;
	int32_t health_check_node_port; /* 0: none */
	bool has_client_ip_affinity;
	int32_t affinity_timeout_s;
	struct lb_status status; /* the Service's present status.loadBalancer */
	bool is_leaving;         /* the Service is being deleted or wants no balancer any more */
	/* the Service has changed since the last ensure(): the balancer has to be read again */
	bool is_changed;
	/* those that selects() accepted, sorted by name; empty when the balancer is removed */
	const struct node_ref *nodes;
	size_t n_nodes;
};

/** The value of an annotation, or NULL. */
const struct str *lb_annotation(const struct lb_spec *, const char *key);

/* ---- a balancer that is not found ----
 *
 * With credentials of another project a provider sees none of our balancers, as if all of them had
 * been deleted. If it believed that, it would create a second balancer for each Service in that
 * project, and release Services whose balancers still run and are paid for. So if no balancer with
 * the UID of a Service is found although the Service has a status, or is to be released, the
 * provider asks for evidence that its credentials are those of the cluster's project. Search and
 * evidence have to be of the same project, so if the credentials were replaced since the search
 * began, the provider fails (login_check_same()), or looks for the balancer again. Without evidence
 * the Service is held: the provider neither creates nor adopts a balancer, does not report it as
 * removed, and returns the error, from which an event follows.
 *
 * Evidence is what only the cluster's own project has: the machine of a node, by its provider ID,
 * or an anchor (struct look). A positive result is not stored, because the credentials may be
 * replaced at any time. A negative one is valid for a minute, because many Services may be held at
 * the same time, and their searches must not use up the rate limit. */

/** With "true", an operator confirms that the Service's balancer no longer exists. */
#define LB_ANNOTATION_GONE "ccmd.io/load-balancer-is-gone"

/** Is evidence needed to conclude that this Service has no balancer? Not if LB_ANNOTATION_GONE
 * confirms it, and not if the Service has no status and stays: later runs search again for a
 * balancer that was not completed. When the Service leaves, there are no later runs. */
bool lb_needs_evidence(const struct lb_spec *);
/** For an ensure() or remove() that found no balancer. Unless lb_needs_evidence() is false, looks
 * for evidence in requests that begin now, one search at a time. A failed request is neither
 * evidence nor its absence, but an error. An ensure() then checks that the credentials are the same
 * as before its search; for remove() the framework does that.
 *
 * ERR_PENDING: there is none (is_held), and the message says what to do; or it is being looked for.
 * Any later look that finds a machine by its provider ID requeues all Services. */
NODISCARD bool balancer_check_project(struct cloud *, struct call *, const struct lb_spec *,
                                      struct error *err);

/* ---- what a cloud's balancers cannot do ----
 *
 * A Service may ask for more than a cloud's balancers can do. If a provider ignored that silently,
 * a Service with source ranges would look restricted but be open to everyone. So the table of a
 * provider says for each feature what happens; a feature that the table does not mention is
 * refused. The framework applies the table before it calls ensure(), update_nodes(), create() or
 * change().
 */

enum lb_feature {
	LB_UDP_PORTS,
	LB_SCTP_PORTS,
	LB_SEVERAL_PORTS,
	LB_PORTS_WITHOUT_NODE_PORT, /* spec.allocateLoadBalancerNodePorts: false */
	LB_SOURCE_RANGES,           /* spec.loadBalancerSourceRanges */
	LB_LOCAL_TRAFFIC,           /* spec.externalTrafficPolicy: Local */
	LB_CLIENT_AFFINITY,         /* spec.sessionAffinity: ClientIP */
	LB_IPV6,
	LB_DUAL_STACK, /* addresses of both families; PreferDualStack accepts one */
	LB_CHOSEN_IP,  /* spec.loadBalancerIP */
	LB_N_FEATURES,
};

enum lb_support {
	LB_REFUSE,    /* ERR_UNSUPPORTED; the Service gets no balancer, or keeps the one it has */
	LB_LEAVE_OUT, /* it is removed from struct lb_spec, and a Warning event reports it once */
	LB_IGNORE,    /* it is removed without an event */
	LB_PASS,      /* it stays in struct lb_spec, and the provider handles it */
};

/* ---- limits ----
 *
 * A tenant chooses how many ports and ranges a Service has, so work for a Service must not grow
 * without bound. A Service beyond the limits of base/limits.h is refused before the provider is
 * called, except for its removal. Other Services are not affected.
 */

/** Is the Service within the limits? ERR_INVALID: the message is for the event, and names the
 * number and the limit. */
NODISCARD bool balancer_check_limits(const struct cloud *, const struct lb_spec *,
                                     struct error *err);

/* ---- the table of a provider ---- */

/** Designated initialisers for `features` of a provider that handles all of them by itself. */
#define LB_PASSES_ALL                                                                      \
	[LB_UDP_PORTS] = LB_PASS, [LB_SCTP_PORTS] = LB_PASS, [LB_SEVERAL_PORTS] = LB_PASS, \
	[LB_PORTS_WITHOUT_NODE_PORT] = LB_PASS, [LB_SOURCE_RANGES] = LB_PASS,              \
	[LB_LOCAL_TRAFFIC] = LB_PASS, [LB_CLIENT_AFFINITY] = LB_PASS, [LB_IPV6] = LB_PASS, \
	[LB_DUAL_STACK] = LB_PASS, [LB_CHOSEN_IP] = LB_PASS

/** What ensure() has done when it returns true. */
enum lb_outcome {
	LB_DONE,
	LB_NOT_OURS, /* another controller handles this Service: no status is written */
	/* the balancer works, and its status is written; *err says what is missing, and that is
	 * retried as after a failure */
	LB_PARTIAL,
};

/** A balancer that find() or create() returned, in the call's arena. A provider that needs more
 * for change() and destroy() embeds it (CONTAINER_OF). */
struct balancer {
	struct str id; /* for messages */
	/* its addresses; empty: none is assigned yet, so the controller asks again soon */
	struct lb_status status;
};

/** Something in the cloud that belongs to a Service, which may not exist any more. */
struct lb_listed {
	const char *what;   /* "load balancer", "server group"; a constant */
	bool is_balancer;   /* else a part of one, such as an address */
	struct str id;      /* for messages: the name or the number by which a user finds it */
	struct str uid;     /* of the Service; empty: the cloud only knows its name */
	struct str service; /* "namespace/name"; empty: the cloud only knows its UID */
	struct str cluster; /* the name of the cluster; empty: it is not marked with one */
	/* what it costs, "5.39 a month"; empty: the API does not report it */
	struct str cost;
	/* of a balancer */
	const struct str *addresses;
	size_t n_addresses, n_targets;
	bool has_targets;  /* else their number is not known */
	bool is_protected; /* against deletion, until a person removes the protection */
	/* Of the targets; what is neither is not checked yet. A target that stands for several
	 * machines counts as these. */
	size_t n_healthy, n_unhealthy;
	bool has_health;      /* else nothing is known of it */
	struct str unhealthy; /* which ones and why, the first few; empty: none, or not told */
	struct str blocked;   /* addresses that the cloud has blocked, "203.0.113.7"; empty: none */
};

/** An annotation that has no effect if another one has that value, or, if it is the default, is
 * absent. Both are without the prefix. */
struct lb_useless {
	const char *key, *beside;
	const char *value; /* NULL: any */
	bool is_default;
};

/** A provider sets either ensure() and remove(), with update_nodes() if that is cheaper when only
 * nodes change; or find(), create(), change() and destroy(), from which the framework builds the
 * other three. */
struct balancer_ops {
	/** What its balancers can do, by enum lb_feature: { [LB_IPV6] = LB_PASS, … }. */
	enum lb_support features[LB_N_FEATURES];
	/** The targets of its balancers are addresses of nodes, so a changed address is a changed
	 * target. Otherwise only changes of names and provider IDs matter. */
	bool uses_addresses;
	/** Is that node a target? Pure and cheap, because it is called for each node in each run of
	 * a Service; NULL: every node that the framework's own rules admit
	 * (docs/spec/framework.md, "Targets"). If the cloud has a provider_id_prefix, nodes of
	 * other clouds and nodes without a provider ID never get here.
	 * @param selection  what prepare_selection() returned for the Service */
	bool (*selects)(struct cloud *, const void *selection, const struct node_ref *node);
	/** Reads what selects() has to know about the Service, once for all nodes. Pure; the result
	 * is in the arena or the spec. NULL: selects() gets NULL. */
	const void *(*prepare_selection)(struct cloud *, const struct lb_spec *, struct arena *);

	/* ---- a provider with its own ensure() ---- */

	/** Once in each --load-balancer-drift-period the framework calls adopt() and then ensure()
	 * for all Services, to repair balancers that other clients have changed or deleted. adopt()
	 * has to read all balancers, and ensure() to compare with that reading and to note each
	 * change with call_note_change(). False: the framework does not do this. */
	bool finds_drift;
	/** Creates the balancer, or changes what differs from the spec, if anything does. */
	bool (*ensure)(struct cloud *, struct call *, const struct lb_spec *, enum lb_outcome *ret,
	               struct lb_status *ret_status, struct error *);
	/** Updates the targets when only the nodes have changed. ERR_NOT_FOUND: the balancer does
	 * not exist; the controller then calls ensure(). NULL: ensure() is called. */
	bool (*update_nodes)(struct cloud *, struct call *, const struct lb_spec *, struct error *);
	/** Removes the balancer, and what an interrupted ensure() left behind. Succeeds if it is
	 * already gone. Must not depend on annotations, which may be invalid: only uid, name,
	 * namespace, service and cluster are always set. *ret_found: there was something to remove.
	 */
	bool (*remove)(struct cloud *, struct call *, const struct lb_spec *, bool *ret_found,
	               struct error *);

	/* ---- a driver: a provider without ensure() ---- */

	/** Looks for the balancer of a Service: by a label with its UID if the cloud has labels,
	 * else by spec->name, which is made of the UID and so unique. ERR_NOT_FOUND: the cloud says
	 * that it does not exist, by a list without it or a 404 (cloud/rest.h, "absence").
	 * ERR_PENDING: that is not known yet, so nothing is created, and the Service is not
	 * released. May only depend on uid, name, namespace, service and cluster, as remove(). */
	bool (*find)(struct cloud *, struct call *, const struct lb_spec *, struct balancer **ret,
	             struct error *);
	/** Creates it, with ports and nodes, after find() has not found it. ERR_EXISTS: another
	 * process was faster, so the framework calls find() again. ERR_PENDING: it was asked for.
	 * The next run calls find(), which must see it by then, unless creation_hidden_ms says
	 * otherwise. A job that has failed is another error; the next run creates it again. */
	bool (*create)(struct cloud *, struct call *, const struct lb_spec *, struct balancer **ret,
	               struct error *);
	/** Compares ports and nodes of the balancer that find() returned with spec and changes what
	 * differs: nothing, most of the time. In a dry run it calls balancer_note() instead. May
	 * update its status. ERR_NOT_FOUND, after a 404: it was deleted meanwhile. ERR_PENDING: the
	 * change was asked for and has not ended, or one thing has to end before the next one is
	 * changed; the next run calls find() and change() again. */
	bool (*change)(struct cloud *, struct call *, const struct lb_spec *, struct balancer *,
	               struct error *);
	/** Deletes it. ERR_NOT_FOUND is success if find() does not find it any more. ERR_PENDING:
	 * it was asked for; the Service is not released, and the next run calls find() and, as long
	 * as that finds it, destroy() again. */
	bool (*destroy)(struct cloud *, struct call *, const struct lb_spec *,
	                const struct balancer *, struct error *);

	/** How long after the call of create() the balancer may exist without find() seeing it. For
	 * that time ERR_NOT_FOUND of find() concludes nothing: the balancer is not asked for a
	 * second time, and the Service is not released. A new leader does not know what the former
	 * one asked for, so the same holds for that time after its start. 0: it is visible when
	 * create() returns, whether with true or with an error. */
	int64_t creation_hidden_ms;

	/* ---- optional, for both kinds ---- */

	/** Called once after each start, before any other call, with all Services that want a
	 * balancer of this controller or still carry its finalizer. A provider that does not store
	 * which addresses it has assigned learns that from their statuses. A status is no proof:
	 * any user who may patch it can write any address there. Services of another class are not
	 * included, nor are Services that are being deleted without our finalizer. Of a Service
	 * beyond the limits, ports and source ranges are left out. NULL: not needed. */
	bool (*adopt)(struct cloud *, struct call *, const struct lb_spec *const specs[], size_t n,
	              struct error *);
	/** The Service with that UID no longer exists, but its balancer is kept. A provider that
	 * caches which Services are live removes this one; it changes nothing in the cloud. NULL:
	 * not needed. */
	void (*forget)(struct cloud *, struct str uid);

	/* ---- optional, for commands that change nothing (operator/) ---- */

	/** The prefix of this cloud's annotations ("example.com/"), and what follows it in each key
	 * that the provider reads ("type"), NULL at the end. Other keys with this prefix are
	 * mistakes. NULL: keys are not checked. */
	const char *annotation_prefix;
	const char *const *annotations;
	/** The keys of all annotations that the provider reads without that prefix; NULL at the
	 * end. A provider with a prefix sees no other annotations. NULL: none. */
	const char *const *other_annotations;
	/** Annotations without effect beside another one; the last has no key. NULL: none. */
	const struct lb_useless *useless_annotations;
	/** Those of `annotations` that are lists of which each element costs a request or a lookup,
	 * such as domains; NULL at the end. Each has at most LIMIT_BALANCER_NAMES. NULL: none. */
	const char *const *annotation_lists;
	/** Can the provider understand what the Service asks for? Pure: it uses nothing but the
	 * Service and the configuration. ERR_INVALID: with the message that ensure() would have.
	 * NULL: that is not checked. */
	bool (*check)(struct cloud *, struct call *, const struct lb_spec *, struct error *);
	/** Lists what the project has for Services, by a label with the UID or by a name that is
	 * made of the Service's, in the call's arena. NULL: that cannot be seen. */
	bool (*list)(struct cloud *, struct call *, struct lb_listed **ret, size_t *ret_n,
	             struct error *);
	/** In place of list(), for a cloud whose balancers are in files of the machine that serves
	 * them: lists those of this machine. Another machine may have others, so a balancer that is
	 * missing proves nothing. ERR_UNSUPPORTED: no file has them. */
	bool (*list_local)(struct cloud *, struct call *, struct lb_listed **ret, size_t *ret_n,
	                   struct error *);
};

/* ---- dry runs (base/dry_run.h) ----
 *
 * If call->dry is set, nothing may be changed: code that would send a write calls balancer_note()
 * instead, and continues as if the write had succeeded. ensure(), update_nodes(), remove() and
 * change() ask for call->dry themselves. create() and destroy() are not called in a dry run. */

/** In a dry run, in place of an address that the cloud would assign. */
#define LB_NEW_ADDRESS STR("(new address)")
/** Notes a change of a balancer.
 * @param name     of the balancer, or its id
 * @param request  "PUT /balancers/9"; empty: it is not one HTTP request, or which one is not known
 */
void balancer_note(const struct call *, enum dry_verb, struct str name, struct str request,
                   const struct dry_field fields[], size_t n);

/* ---- for the controllers: the operations of cloud->balancers, with the rules above ---- */

/** To be called when this process begins to work on Services (balancer_ops.creation_hidden_ms). */
void balancer_begin(struct cloud *, const struct call *);
/** For a driver (find(), create() and change()) this also holds a Service whose balancer is
 * not found; machines of nodes are the evidence. */
NODISCARD bool balancer_ensure(struct cloud *, struct call *, const struct lb_spec *,
                               enum lb_outcome *ret, struct lb_status *ret_status,
                               struct error *err);
/** Sends a Warning event that names what the table leaves out of the Service, unless the last one
 * had the same text. *reported: the caller keeps it for the Service; 0 before the first call. */
void balancer_report_left_out(struct cloud *, struct call *, const struct lb_spec *,
                              uint64_t *reported);
/** Reduces a copy of what the Service asks for to what the balancers can do, and appends the names
 * of what is left out with an event: "spec.loadBalancerSourceRanges, ports of protocol UDP". A
 * refused feature stays in *ret. */
void balancer_leave_out(struct cloud *, struct call *, const struct lb_spec *, struct lb_spec *ret,
                        struct buf *names);
/** Would balancer_ensure() refuse the Service before it makes a request? ERR_UNSUPPORTED,
 * ERR_INVALID: why. Changes nothing. */
NODISCARD bool balancer_check(struct cloud *, struct call *, const struct lb_spec *,
                              struct error *err);
NODISCARD bool balancer_update_nodes(struct cloud *, struct call *, const struct lb_spec *,
                                     struct error *err);
NODISCARD bool balancer_remove(struct cloud *, struct call *, const struct lb_spec *,
                               bool *ret_found, struct error *err);

/** How long a Service has waited for its cloud; all zero: it does not wait. */
struct lb_wait {
	int64_t waited_ns;        /* outages do not count */
	int64_t pending_mono_ns;  /* the end of the last run, if it was ERR_PENDING; else 0 */
	int64_t reported_mono_ns; /* the last report of the wait; 0: none */
};

/** To be called after each of these operations that failed, or has a partial result. ERR_PENDING
 * without retry_after_ms gets a part of the time that the Service has waited, and every five
 * minutes becomes ERR_TIMEOUT; if it is held, an event reports that instead. */
void balancer_note_wait(struct cloud *, const struct lb_spec *, struct lb_wait *,
                        int64_t now_mono_ns, struct error *err);

#endif
