/* lb_plan.h: the requests that make a balancer what its Service asks for; none if it is so already
 * (docs/spec/hcloud.md, "Changing a balancer").
 *
 * A setting that the Service does not ask for is left as it is, even if an annotation asked for it
 * before: removing an annotation resets nothing, as with the official controller. Its users set
 * such members by hand, and a setting made by hand looks the same as one that an annotation left
 * behind. Always set are the label, the list of services with their ports and protocols, the
 * protocol and port of health checks, all targets except selectors, and the networks.
 *
 * Threads: pure.
 */
#ifndef CCMD_HCLOUD_LB_PLAN_H
#define CCMD_HCLOUD_LB_PLAN_H

#include "base/dry_run.h"
#include "providers/hcloud/lb_desired.h"

/** One request. */
struct hz_step {
	const char *verb;      /* as "add_service", a constant; NULL: the PUT of name and labels */
	struct str body;       /* JSON; empty: the request has no body */
	const char *operation; /* its name in the official controller's metric; NULL: not counted */
	int64_t listen_port;   /* of steps for services */
	const struct hz_lb_target *target; /* of steps for targets */
	/* What a dry run notes (cloud/change.h). Steps for targets have no fields: the names of
	 * nodes are not known here. `present` is set by update_service; what its body does not
	 * have, the API leaves as it is. */
	struct str present;
	struct dry_field *fields;
	size_t n_fields;
};

struct hz_steps {
	struct hz_step *steps;
	size_t n;
};

/** Name, labels, rDNS, algorithm, type, networks, public interface, in the order of
 * docs/spec/hcloud.md, "Changing a balancer". rDNS is left out while the balancer has no addresses.
 * @param type        the desired type, as the cloud lists it
 * @param ret_result  the balancer after these steps, for which the same plan has no steps: in a dry
 *                    run it takes the place of a new reading */
void hz_plan_shape(const struct hz_lb_desired *, const struct hz_lb_type *type,
                   const struct hz_lb *, struct arena *, struct hz_steps *ret,
                   struct hz_lb *ret_result);

/** All members of a service, for notes: "protocol tcp, listen_port 80, ..." */
struct str hz_plan_service_text(const struct hz_lb_service *, struct arena *);

/** Leaves out services so that at most max remain (0: no limit): services that the balancer does
 * not have yet before those that it has, and highest ports first. The others keep their order, in a
 * new list.
 *
 * @param lb            as it is now; NULL: it does not exist yet
 * @param ret_left_out  appended: "8080, 8081", the ports that are left out */
void hz_plan_fit_services(struct hz_lb_desired *, int64_t max, const struct hz_lb *lb,
                          struct arena *, struct buf *ret_left_out);

/** Services to add and to change, in the Service's order, then those to remove. If both together
 * would exceed the limit of the balancer's type, the removals come first. The ids of certificates
 * must be set. */
void hz_plan_services(const struct hz_lb_desired *, const struct hz_lb *, struct arena *,
                      struct hz_steps *ret);

/** Targets to remove, in the balancer's order, then those to add, in the order given, each once,
 * even if a list repeats it. A server that changes between its public and its private address is
 * added again right after its removal and before the next removal, so that the other servers can
 * serve meanwhile. The caller checks how many targets the balancer's type permits. The steps point
 * into both lists. */
void hz_plan_targets(const struct hz_lb_target wanted[], size_t n, const struct hz_lb *,
                     struct arena *, struct hz_steps *ret);

#endif
