/* cloud/balancer.h: load balancers, as a provider sees them.
 *
 * One Service of type LoadBalancer wants one balancer. The controller says what is wanted (struct
 * lb_spec); the provider compares that with its cloud and changes what differs. Everything may be
 * run twice, and by two processes at once during a rolling update: the second run changes nothing,
 * a balancer is never made twice, and one that is not ours is never touched.
 *
 * Errors: ERR_PENDING with retry_after_ms: the cloud is still at it, come back then; no failure.
 * ERR_THROTTLED likewise. ERR_INVALID, ERR_UNSUPPORTED: the Service asks for what cannot be; its
 * owner is told, and it is tried again more and more seldom, at least every 5 minutes. Everything
 * else is tried again with back-off.
 *
 * Threads: functions for different Services run at the same time; of one Service, one after the
 * other.
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
	LB_TRAFFIC_LOCAL, /* only nodes with an endpoint answer; health_check_node_port tells which
	                   */
};

enum lb_family_policy {
	LB_SINGLE_STACK,
	LB_PREFER_DUAL_STACK,
	LB_REQUIRE_DUAL_STACK,
};

/** How kube-proxy treats traffic to an ingress address: VIP, the packets keep it; Proxy, they come
 * from the balancer. */
enum lb_ip_mode {
	LB_IP_MODE_NONE, /* an ingress without an address */
	LB_IP_MODE_VIP,
	LB_IP_MODE_PROXY,
};

struct lb_ingress {
	struct str ip, hostname; /* one of them may be empty */
	enum lb_ip_mode ip_mode;
};

struct lb_status {
	struct lb_ingress *ingress; /* what ensure() gives is in the call's arena */
	size_t n_ingress;
};

/** A Service and its nodes. All views are borrowed for the length of the call. */
struct lb_spec {
	struct str cluster; /* --cluster-name */
	struct str namespace, service, uid;
	struct str name; /* "a" + the UID without dashes, cut to 32 bytes: the default name of a
	                    balancer */
	const struct label *annotations;
	size_t n_annotations;
	const struct lb_port *ports;
	size_t n_ports;
	const struct str *source_ranges; /* spec.loadBalancerSourceRanges, else the annotation's,
	                                    trimmed; none: all */
	size_t n_source_ranges;
	const enum ip_family *families; /* spec.ipFamilies, in order; at least one */
	size_t n_families;
	enum lb_family_policy family_policy;
	struct str wanted_ip; /* spec.loadBalancerIP; empty: none */
	enum lb_traffic traffic;
	int32_t health_check_node_port; /* 0: none */
	bool has_client_ip_affinity;
	int32_t affinity_timeout_s;
	struct lb_status status; /* what the Service says now */
	bool is_leaving;         /* the Service is being deleted or wants no balancer any more */
	const struct node_ref
		*nodes; /* those that selects() named, sorted by name; empty for deletion */
	size_t n_nodes;
};

/** The value of an annotation, or NULL. */
const struct str *lb_annotation(const struct lb_spec *, const char *key);

/* ---- a balancer that is not found ----
 *
 * With credentials of another project a provider sees none of our balancers, as if all of them had
 * been deleted. If it believed that, it would create a second balancer for each Service in that
 * project, and release Services whose balancers still run and are paid for. So if a Service has a
 * status, but no balancer with its UID is found, the provider looks for evidence that its
 * credentials are those of the cluster's project. Without evidence it holds the Service: it neither
 * creates nor adopts a balancer, does not report it as removed, returns ERR_PENDING, and sends a
 * Warning event with the text of lb_check_evidence(). */

/** An annotation by which an operator confirms with "true" that the Service's balancer no longer
 * exists. */
#define LB_ANNOTATION_GONE "ccmd.io/load-balancer-is-gone"
/** The reason of that event, and its description for EVENT_KIND(). */
#define LB_HELD_REASON "LoadBalancerHeld"
#define LB_HELD_WHEN                                                                            \
	"the Service's load balancer is not found, and nothing shows that the credentials are " \
	"those of the cluster's project; nothing is made or released."

/** Things found that only the cluster's own project has. They count only if the request for them
 * began after the one that found no balancer. */
struct lb_evidence {
	unsigned n_machines;  /* of our nodes, by provider ID */
	unsigned n_balancers; /* with the UID of a live Service of this cluster */
	/* Networks with the configured id. A name proves nothing, because other projects may use
	 * it, too. */
	unsigned n_networks;
};

/** Is evidence needed to conclude that this Service has no balancer? Not if it has no status,
 * because then it never had a balancer, and not if LB_ANNOTATION_GONE confirms it. */
bool lb_needs_evidence(const struct lb_spec *);
/** One piece of evidence is enough. ERR_PENDING: there is none; the message is for the event and
 * says what to do. */
NODISCARD bool lb_check_evidence(const struct lb_evidence *, struct error *err);

/* ---- what a cloud's balancers cannot do ----
 *
 * A Service may ask for more than a cloud's balancers can do. If a provider passed over that in
 * silence, a Service with source ranges would look restricted and be open. So the table of a
 * provider says for each feature what happens, and what it does not mention is refused. The
 * framework acts on it before the provider is called, for ensure() and for create() and change().
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
	LB_DUAL_STACK, /* addresses of both families; PreferDualStack is content with one */
	LB_CHOSEN_IP,  /* spec.loadBalancerIP */
	LB_N_FEATURES,
};

enum lb_support {
	LB_REFUSE,    /* ERR_UNSUPPORTED; the Service gets no balancer, or keeps the one it has */
	LB_LEAVE_OUT, /* it is removed from struct lb_spec, and a Warning event reports it */
	LB_IGNORE,    /* it is removed without an event */
	LB_PASS,      /* the provider gets it, and does it or handles it in its own way */
};

/* ---- the table of a provider ---- */

/** Designated initialisers for `features` of a provider that handles all of them by itself. */
#define LB_PASSES_ALL                                                                      \
	[LB_UDP_PORTS] = LB_PASS, [LB_SCTP_PORTS] = LB_PASS, [LB_SEVERAL_PORTS] = LB_PASS, \
	[LB_PORTS_WITHOUT_NODE_PORT] = LB_PASS, [LB_SOURCE_RANGES] = LB_PASS,              \
	[LB_LOCAL_TRAFFIC] = LB_PASS, [LB_CLIENT_AFFINITY] = LB_PASS, [LB_IPV6] = LB_PASS, \
	[LB_DUAL_STACK] = LB_PASS, [LB_CHOSEN_IP] = LB_PASS

/** How far `ensure` came when it returns true. */
enum lb_outcome {
	LB_DONE,
	LB_ELSEWHERE, /* another controller handles this Service: no status is written */
	LB_PARTIAL, /* it serves, and its status is written; what is missing is in *err, as after a
	               failure, and tried again */
};

/** A balancer that find() or create() returned, in the call's arena. A provider that needs more
 * for change() and destroy() embeds it (CONTAINER_OF). */
struct balancer {
	struct str id;           /* for messages */
	struct lb_status status; /* its addresses. None: it has none yet, so ask again soon */
};

/** Either ensure() and remove(), and if that is cheaper update_nodes(); or find(), create(),
 * change() and destroy(), of which the framework makes the other three. */
struct balancer_ops {
	/** What its balancers can do, by enum lb_feature: { [LB_IPV6] = LB_PASS, … }. */
	enum lb_support features[LB_N_FEATURES];
	/** Its balancers lead to nodes' addresses: another address is another target. Else only
	 * names and provider IDs count. */
	bool uses_addresses;
	/** Is that node a target of that Service? Pure and cheap; NULL: every node that the
	 * framework's own rules admit (docs/spec/framework.md, "Targets"). If the cloud has a
	 * provider_id_prefix, nodes of other clouds and nodes without a provider ID never get
	 * here. */
	bool (*selects)(struct cloud *, const struct lb_spec *, const struct node_ref *node);

	/* ---- a cloud that does everything by itself ---- */

	/** Makes it so: creates, changes, or finds it as it should be. */
	bool (*ensure)(struct cloud *, struct call *, const struct lb_spec *, enum lb_outcome *ret,
	               struct lb_status *ret_status, struct error *);
	/** Only the nodes changed. ERR_NOT_FOUND: there is no such balancer; the controller ensures
	 * instead. NULL: ensure() is called. */
	bool (*update_nodes)(struct cloud *, struct call *, const struct lb_spec *, struct error *);
	/** Removes it and what is left of half-made ones. Already gone is success. Never depends on
	 * annotations being valid; only uid, name, namespace, service and cluster are to be
	 * trusted to be there. *ret_found: there was something. */
	bool (*remove)(struct cloud *, struct call *, const struct lb_spec *, bool *ret_found,
	               struct error *);

	/* ---- a plain cloud ---- */

	/** Looks for the balancer of a Service: by a label with its UID if the cloud has labels,
	 * else by spec->name, which is made of the UID and so unique. ERR_NOT_FOUND: the cloud says
	 * that there is none. Only uid, name, namespace, service and cluster are to be trusted. */
	bool (*find)(struct cloud *, struct call *, const struct lb_spec *, struct balancer **ret,
	             struct error *);
	/** Makes it, with ports and nodes. It was not found before; ERR_EXISTS: another process was
	 * faster, so it is looked for again. */
	bool (*create)(struct cloud *, struct call *, const struct lb_spec *, struct balancer **ret,
	               struct error *);
	/** Compares ports and nodes of the balancer that find() returned with spec and changes what
	 * differs: nothing, most of the time. May update its status. ERR_NOT_FOUND: it went
	 * meanwhile. */
	bool (*change)(struct cloud *, struct call *, const struct lb_spec *, struct balancer *,
	               struct error *);
	/** Deletes it. ERR_NOT_FOUND, already gone, is success. */
	bool (*destroy)(struct cloud *, struct call *, const struct lb_spec *,
	                const struct balancer *, struct error *);

	/* ---- any of them ---- */

	/** All Services that want a balancer of this controller or still carry its finalizer, once
	 * after each start, before any other call: a provider that stores no addresses itself
	 * rebuilds them from statuses. A status is no proof: any user who may patch it can write
	 * any address there. Services of another class are not included, nor are Services that are
	 * being deleted without our finalizer. NULL: not needed. */
	bool (*adopt)(struct cloud *, struct call *, const struct lb_spec *const specs[], size_t n,
	              struct error *);
	/** The Service with that UID no longer exists, but its balancer is kept. A provider that
	 * caches which Services are live removes this one; it changes nothing in the cloud. NULL:
	 * not needed. */
	void (*forget)(struct cloud *, struct str uid);
};

/** For an ensure() or remove() that found no balancer: looks for the machines of nodes, which only
 * the credentials of the cluster's project show, unless the Service needs no evidence. ERR_PENDING:
 * there is none, and an event has reported it. */
NODISCARD bool balancer_check_project(struct cloud *, struct call *, const struct lb_spec *,
                                      struct error *err);

/* ---- for the controllers: the operations of cloud->balancers, with all that is said above ---- */

/** Composed of find(), create() and change(), it holds a Service whose balancer is not found (see
 * above), with the cloud's machines of nodes as evidence. */
NODISCARD bool balancer_ensure(struct cloud *, struct call *, const struct lb_spec *,
                               enum lb_outcome *ret, struct lb_status *ret_status,
                               struct error *err);
NODISCARD bool balancer_update_nodes(struct cloud *, struct call *, const struct lb_spec *,
                                     struct error *err);
NODISCARD bool balancer_remove(struct cloud *, struct call *, const struct lb_spec *,
                               bool *ret_found, struct error *err);

#endif
