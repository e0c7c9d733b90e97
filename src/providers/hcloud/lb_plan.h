/* lb_plan.h: what must be done so that a balancer is as it is wanted: nothing where it is so
 * already (docs/spec/hcloud.md, "Changing a balancer").
 *
 * What nobody asks for is left as it is, also where it was asked for once: an annotation that goes
 * away switches nothing off, as with the official controller. Its users set such members by hand,
 * and nothing tells theirs from what an annotation left behind. Owned at any time are the label,
 * the set of services with their ports and protocol, the health check's protocol and port, all
 * targets but selectors, and the networks.
 *
 * Threads: pure.
 */
#ifndef CCMD_HCLOUD_LB_PLAN_H
#define CCMD_HCLOUD_LB_PLAN_H

#include "providers/hcloud/lb_desired.h"

/** One request. */
struct hz_step {
	const char *verb; /* "add_service", a constant; NULL: the PUT of name and labels */
	struct str body;  /* JSON; empty: none */
	const char *
		operation; /* what the official controller's count calls it; NULL: it counts none */
	/* What it is about, for messages and for what a refusal means. */
	int64_t listen_port;               /* of steps about services */
	const struct hz_lb_target *target; /* of steps about targets */
};

struct hz_steps {
	struct hz_step *steps;
	size_t n;
};

/** Name, labels, rDNS, algorithm, type, networks, public interface: docs/spec/hcloud.md,
 * "Changing a balancer", in that order. rDNS waits for addresses.
 * @param type  the wanted one, as the cloud lists it */
void hz_plan_shape(const struct hz_lb_desired *, const struct hz_lb_type *type,
                   const struct hz_lb *, struct arena *, struct hz_steps *ret);

/** Services to add and to change, in the Service's order, then those to remove. Where both together
 * would exceed the limit of the balancer's type, the removals come first. Certificates must have
 * been put in. */
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
