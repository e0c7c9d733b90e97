/* lb_wish.h: what a Service wants of its load balancer: annotations, before environment, before defaults (hcloud.md 3.1 to 3.8).
 *
 * All of it is read before anything is touched. Messages are the official controller's from its second operation on
 * ("hcops/LoadBalancerOps.ReconcileHCLB: ..."): the caller puts its own in front ("hcloud/loadBalancers.EnsureLoadBalancer").
 *
 * What is read more kindly than there: durations without a unit are seconds, as its documents say; elements of lists are
 * trimmed and empty ones dropped; an empty name, rDNS or subnet range counts as not there. A health check over https is one
 * over http with TLS, since the API knows no other; where the protocol is not asked for, and the Service's own is https, it is
 * plain http, since the balancer ends TLS and its targets speak http.
 *
 * Threads: any.
 */
#ifndef CCMD_HCLOUD_LB_WISH_H
#define CCMD_HCLOUD_LB_WISH_H

#include "base/selector.h"
#include "providers/hcloud/annotation.h"

/** An element of http-certificates. */
struct hz_certificate_ref {
	int64_t id; /* 0: by name */
	struct str name;
};

struct hz_lb_wish {
	struct str uid;
	struct str
		cluster; /* the value of HZ_LABEL_CLUSTER; empty: the name cannot be a label's value */
	struct str name;                   /* the annotation, or the default */
	bool is_named;                     /* the annotation: an existing one is renamed */
	struct str location, network_zone; /* not both */
	struct str type;                   /* "lb11" by default */
	bool is_type_chosen;               /* else an existing balancer keeps its own */
	struct str algorithm;              /* empty: left as it is */
	enum hz_tri is_public;
	bool uses_private_ip;
	int64_t network; /* 0: none */
	/* Of a balancer in a network; canonical. */
	struct hz_opt_str private_ip, subnet;
	struct hz_opt_str ipv4_rdns, ipv6_rdns; /* never empty */
	bool is_managed;                        /* its certificate, which is found by uid */
	struct str certificate_name;            /* of a managed one, as the next three */
	struct str *domains;                    /* at least one */
	size_t n_domains;
	bool is_staging;
	/* Uploaded ones; whoever looks them up puts their ids in services[].http.certificates, as that of a managed one. */
	struct hz_certificate_ref *certificates;
	size_t n_certificates;
	struct hz_lb_service *services; /* in the Service's order */
	size_t n_services;
	const struct lb_port **unsupported; /* ports that are not TCP: one event each */
	size_t n_unsupported;
};

/** Reads it. Views of the spec and of the configuration remain.
 *
 * @param network  HCLOUD_NETWORK's id, or 0
 * @return  On false, err->code is ERR_INVALID
 */
NODISCARD bool hz_lb_wish_read(const struct hz_config *, int64_t network, const struct lb_spec *,
                               struct arena *, struct hz_lb_wish *ret, struct error *err);

/** Is a type chosen for it, by annotation or configuration? Else it is the default one. */
bool hz_lb_has_type(const struct hz_config *, const struct lb_spec *);

/** Does it say where a balancer is to be made? An existing one needs no place. ERR_INVALID. */
NODISCARD bool hz_lb_wish_has_place(const struct hz_lb_wish *, struct error *err);

/** Does node-selector let the node in? One that cannot be read lets all in: hz_lb_wish_read() fails for it before anything is
 * touched, and "no available nodes" beside that error would mislead. Cost: called for each node and Service; about a microsecond
 * for usual selectors. */
bool hz_lb_selects(const struct lb_spec *, const struct node_ref *);

#endif
