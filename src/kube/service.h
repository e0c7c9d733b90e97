/* kube/service.h: the fields of a Service that we act on.
 * A Service takes one allocation, usually below a kilobyte. Of Services that do not concern us
 * (neither of type LoadBalancer nor with our finalizer) only key, UID, version and type are kept,
 * so that a change of type is noticed. The others have the annotations that struct service_kind
 * names, and a hash of all annotations, because the controller compares the balancer again when any
 * of them changes.
 */
#ifndef CCMD_KUBE_SERVICE_H
#define CCMD_KUBE_SERVICE_H

#include "base/label.h"
#include "kube/object.h"

#define SERVICE_FINALIZER "service.kubernetes.io/load-balancer-cleanup"

struct service_port {
	struct str name, protocol, app_protocol;
	struct str target_port; /* as JSON: 80 and "80" differ */
	int32_t port, node_port;
	bool has_app_protocol;
};

struct service_ingress {
	struct str ip, hostname, ip_mode;
	struct str ports; /* as JSON; empty: none */
};

struct service {
	struct object object;       /* key: "namespace/name" */
	struct str namespace, name; /* views of the key */
	bool is_load_balancer;      /* spec.type */
	bool has_class;             /* spec.loadBalancerClass is present, even if empty */
	bool is_deleting;
	bool has_finalizer; /* ours */
	uint32_t n_finalizers;
	struct str *finalizers; /* all, in order */
	uint32_t n_annotations, n_ports, n_source_ranges, n_external_ips, n_families, n_ingress;
	struct label *annotations; /* those that struct service_kind names */
	uint64_t annotations_hash; /* of all annotations, in any order */
	struct service_port *ports;
	struct str *source_ranges, *external_ips, *families;
	struct str family_policy;    /* "SingleStack", …; empty: none */
	struct str session_affinity; /* "None", "ClientIP" */
	struct str affinity_config;  /* as JSON; empty: none */
	int32_t affinity_timeout_s;  /* 0: none */
	struct str load_balancer_ip;
	struct str traffic_policy; /* spec.externalTrafficPolicy */
	int32_t health_check_node_port;
	struct service_ingress *ingress; /* status.loadBalancer.ingress */
};

/** The kind of Services, with the annotations that its objects have. */
struct service_kind {
	struct kind kind;
	/* Keys of annotations to keep; NULL at the end. NULL: all annotations are kept. */
	const char *const *annotations;
	const char *const *cloud_annotations; /* further keys; NULL: none */
	/* Annotations with this prefix are kept, too, up to LIMIT_BALANCER_ANNOTATIONS and one
	 * more, which shows that there are too many. NULL: none. */
	const char *annotation_prefix;
};

/** Keeps all annotations. To keep less, copy it and set them before the first Service is parsed. */
extern const struct service_kind service_kind;

static inline struct service *
service_of(struct object *o)
{
	return (struct service *)o;
}

/** NULL when the Service does not have that key, or its kind does not keep it. */
const struct str *service_annotation(const struct service *, struct str key);

/** Type LoadBalancer, without a class (docs/spec/framework.md, "Wanted balancers"). */
bool service_wants_balancer(const struct service *);
/** Is this IP address or host name in the status of this Service, which wants a balancer and is not
 * being deleted? */
bool service_is_served_at(const struct service *, struct str address);
/** Does the Service have our finalizer although it is being deleted or has another type? Other
 * controllers use the same finalizer: on a Service of another class it is ours only if we had a
 * balancer for that Service. */
bool service_needs_cleanup(const struct service *);
/** Must the balancer be compared again? See docs/spec/framework.md, "Service changes". */
bool service_needs_update(const struct service *old, const struct service *new);

#endif
