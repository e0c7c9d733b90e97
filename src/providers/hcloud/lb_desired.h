/* lb_desired.h: the load balancer that a Service asks for. A value comes from its annotation, else
 * from the environment, else it is the default.
 *
 * All annotations are read before the first change. Error texts are the official controller's from
 * its second operation on ("hcops/LoadBalancerOps.ReconcileHCLB: ..."); the caller puts the first
 * one in front ("hcloud/loadBalancers.EnsureLoadBalancer").
 *
 * Some values are read more leniently than by the official controller: durations without a unit are
 * seconds, as its documents say; elements of lists are trimmed and empty ones dropped; an empty
 * name, rDNS or subnet range counts as absent. A health check over https is one over http with TLS,
 * since the API has no other; where its protocol is not set, and the Service's own is https, it is
 * plain http, since the balancer terminates TLS and its targets use http.
 *
 * Threads: any. Nothing is changed except the count of operations (api.h).
 */
#ifndef CCMD_HCLOUD_LB_DESIRED_H
#define CCMD_HCLOUD_LB_DESIRED_H

#include "providers/hcloud/selector.h"
#include "cloud/balancer.h"
#include "providers/hcloud/lb_wire.h"

/* ---- annotations ---- */

#define HZ_LB_PREFIX "load-balancer.hetzner.cloud/"

/** Reads an annotation. If it is absent, *ret keeps its value, which is the default. On false,
 * err->code is ERR_INVALID, and the text is the official controller's. */
NODISCARD bool hz_annotation_bool(const struct lb_spec *, const char *key, bool *ret,
                                  struct error *err);

/** What follows HZ_LB_PREFIX in all annotations that are read; NULL at the end. */
extern const char *const hz_lb_annotations[];

/** Those of them that name domains or certificates; NULL at the end. */
extern const char *const hz_lb_annotation_lists[];

/* ---- the desired balancer ---- */

/** An element of http-certificates. */
struct hz_certificate_ref {
	int64_t id; /* 0: by name */
	struct str name;
};

enum hz_family {
	HZ_FAMILY_V4,
	HZ_FAMILY_V6,
	HZ_N_FAMILIES,
};

/** An annotation that asks for a Primary IP. What it says matters only while a balancer is created,
 * so a text that is not an ID is no error here: hz_primary_check_annotations(). */
struct hz_primary_ref {
	bool is_set;
	struct str text;
	int64_t id;    /* 0: the text is not a positive number */
	struct str ip; /* as the cloud has it; empty: not read yet */
};

struct hz_lb_desired {
	struct str uid;
	/* the value of HZ_LABEL_CLUSTER; empty: the name cannot be a label's value */
	struct str cluster;
	struct str name; /* the annotation, or the default */
	bool is_named;   /* by the annotation; then an existing balancer is renamed */
	struct str location, network_zone; /* not both */
	struct str type;                   /* "lb11" by default */
	bool is_type_chosen;               /* else an existing balancer keeps its own */
	struct str algorithm;              /* empty: left as it is */
	enum hz_opt_bool is_public;
	struct hz_primary_ref primary_ips[HZ_N_FAMILIES];
	bool uses_private_ip;
	int64_t network; /* 0: none */
	/* Of a balancer in a network; canonical. */
	struct hz_opt_str private_ip, subnet;
	struct hz_opt_str ipv4_rdns, ipv6_rdns; /* never empty */
	bool is_managed;                        /* its certificate is ordered, and found by uid */
	struct str certificate_name;            /* if is_managed, as the next three */
	struct str *domains;                    /* at least one */
	size_t n_domains;
	bool is_staging;
	/* Uploaded certificates; lb_catalog.h sets their ids in services[].http.certificates, as
	 * the id of a managed one. */
	struct hz_certificate_ref *certificates;
	size_t n_certificates;
	struct hz_lb_service *services; /* in the Service's order */
	size_t n_services;
};

/** Reads what the Service asks for; all its ports are TCP (hz_balancer_ops). *ret has views of the
 * spec and of the configuration.
 *
 * @param network  HCLOUD_NETWORK's id, or 0
 * @return  On false, err->code is ERR_INVALID
 */
NODISCARD bool hz_lb_desired_read(const struct hz_config *, int64_t network, const struct lb_spec *,
                                  struct arena *, struct hz_lb_desired *ret, struct error *err);

/** Does an annotation or the configuration set the type? Otherwise it is the default type. */
bool hz_lb_has_type(const struct hz_config *, const struct lb_spec *);

/** Is a location or network zone set, in which a balancer can be created? If not, ERR_INVALID. An
 * existing balancer needs neither. */
NODISCARD bool hz_lb_desired_has_place(const struct hz_lb_desired *, struct error *err);

/** Reads the annotation node-selector into the arena. NULL selects all nodes: there is no
 * annotation, or it cannot be read. hz_lb_desired_read() fails for the latter before anything is
 * changed, and an Event "no available nodes" beside that error would mislead. */
const struct hz_selector *hz_lb_selection(const struct lb_spec *, struct arena *);
/** Cost: called for each node and Service; less than a microsecond for usual selectors. */
bool hz_lb_selects(const struct hz_selector *, const struct node_ref *);

#endif
