/* lb_adopt.h: two decisions about a Service that has no balancer with its label: whether it may
 * adopt a balancer that has the right name, and whether the token's project is the one in which to
 * create a balancer.
 *
 * A balancer with the name that a Service's annotation asks for is adopted, unless it belongs to
 * another live Service, or HCLOUD_LOAD_BALANCERS_ADOPTION forbids it.
 *
 * With a token of another project none of our balancers is found, as if all of them had been
 * deleted. Before a balancer is created for a Service that had one (lb_needs_evidence()), this
 * module therefore looks for something that only our project has: the network by its id, the
 * machine of a node, any balancer of this cluster. The first one found ends the search, so that in
 * the right project one request is usually enough. A positive result is not stored, because the
 * token may be replaced at any time. A negative result is stored for a minute, because many
 * Services may be held at the same time, and their searches must not use up the rate limit.
 *
 * Threads: any; a run belongs to one thread. No request is made under a lock.
 */
#ifndef CCMD_HCLOUD_LB_ADOPT_H
#define CCMD_HCLOUD_LB_ADOPT_H

#include "providers/hcloud/lb_converge.h"

/** The value of a label of the balancer; empty: it does not have the label. */
struct str hz_lb_label_of(const struct hz_lb *, const char *key);

struct hz_evidence;

struct hz_evidence_config {
	const struct hz_config *config;
	const struct cloud_host *host;
	struct hz_api *api;
	struct hz_lb_cache *cache;
	/* no other project has it: configured by its id, or we are attached to it; 0: none */
	int64_t network;
};

struct hz_evidence *hz_evidence_new(const struct hz_evidence_config *config);
void hz_evidence_free(struct hz_evidence *); /* NULL is fine */
DEFINE_CLEANUP(struct hz_evidence, hz_evidence_free)

/** Adopts the balancer that has the desired name, as run->lb.
 *
 * @return  On false, err->code is ERR_NOT_FOUND if no balancer has the name, and ERR_INVALID if the
 * one that has it must not be adopted, which an Event reports. */
NODISCARD bool hz_lb_adopt(struct hz_lb_run *run, struct error *err);
/** ERR_INVALID: in the tutorial's dialect two live Services have the same name for their balancers;
 * both get an Event. */
NODISCARD bool hz_lb_check_name(const struct hz_lb_run *run, struct error *err);
/** No balancer has the Service's label: is this the project of the cluster? If it is, the caller
 * has to look for the balancer again (balancer.h). If it is not, the result is false with
 * err->is_held set, and nothing may be created or removed. False without it: the check failed, so
 * the answer is unknown. */
NODISCARD bool hz_lb_check_project(const struct hz_lb_run *run, struct error *err);

#endif
