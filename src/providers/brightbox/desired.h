/* desired.h: what a Service needs at Brightbox: its load balancer, its cloud IP and its firewall
 * rule (docs/spec/brightbox.md, "Annotations" and "The desired load balancer").
 *
 * Everything is read and checked before any request is made, with the official controller's
 * messages. That controller checks annotations in random order; here they are checked in the order
 * of their keys, so that the message about a Service with two mistakes is always the same.
 *
 * Threads: pure, plain values. Texts are views of the spec, or in the arena.
 */
#ifndef CCMD_BRIGHTBOX_DESIRED_H
#define CCMD_BRIGHTBOX_DESIRED_H

#include "cloud/balancer.h"
#include "providers/brightbox/wire.h"

#define BB_PREFIX "service.beta.kubernetes.io/brightbox-load-balancer-"
#define BB_CLOUD_IP_KEY BB_PREFIX "cloudip-allocations"

struct bb_desired {
	/* Names the balancer, the server group, the firewall policy and a cloud IP of ours. */
	struct str name;
	struct str policy; /* empty: as it is, or the API's default */
	struct bb_listener *listeners;
	size_t n_listeners;
	struct bb_check check;
	bool is_https; /* a listener is https, so the balancer needs a certificate for its domains
	                */
	struct str *domains; /* those of the annotation */
	size_t n_domains;
	struct str cloud_ip;  /* an id, by annotation; empty: none */
	struct str wanted_ip; /* spec.loadBalancerIP; empty: none */
	struct str *servers;  /* ids of the nodes' servers, sorted, each once */
	size_t n_servers;
	struct str firewall_ports; /* "30080,30443" */
};

/** What follows BB_PREFIX in all annotations that are read; NULL at the end. */
extern const char *const bb_annotation_names[];
/** Those of them that are lists of domains; NULL at the end. */
extern const char *const bb_annotation_lists[];
/** The keys without BB_PREFIX that are read; NULL at the end. */
extern const char *const bb_other_annotations[];

/** The name that links a Service to what it has at Brightbox. */
struct str bb_name(const struct lb_spec *, struct arena *);
/** The reverse of bb_name(). False: a name of another kind. *ret_service is "namespace/name". */
NODISCARD bool bb_name_parse(struct str name, struct arena *, struct str *ret_service,
                             struct str *ret_cluster);

/** @return  On false, err->code is ERR_INVALID */
NODISCARD bool bb_desired_read(const struct lb_spec *, struct arena *, struct bb_desired *ret,
                               struct error *err);

/** The domains of the balancer's certificate: those of the annotation and the names of the cloud
 * IP, sorted, each once. Empty names are left out, since no name server knows them. */
void bb_desired_domains(const struct bb_desired *, const struct bb_cloud_ip *, struct arena *,
                        struct str **ret, size_t *ret_n);

/** The body of POST and PUT of a balancer. Domains are in it only where a listener is https. */
struct str bb_desired_body(const struct bb_desired *, const struct str domains[], size_t n_domains,
                           bool is_update, struct arena *);

/** The balancer as it is, in the form of the body that changes it to what is desired.
 * Nodes, listeners and domains are sets: they are brought into the order of that body. */
struct str bb_desired_present(const struct bb_desired *, const struct bb_lb *, struct arena *);

/** Those of `items` that are not in `others`, sorted, each once; in the arena. Cost: O(n log n). */
size_t bb_missing(const struct str items[], size_t n, const struct str others[], size_t n_others,
                  struct arena *, struct str **ret);

#endif
