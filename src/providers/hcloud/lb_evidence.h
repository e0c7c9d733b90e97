/* lb_evidence.h: does the token open the project of this cluster?
 *
 * With a token of another project none of our balancers is found, as if all of them were gone. Before that is believed for a
 * Service that had one (lb_needs_evidence()), this module looks for something that only our project has: the network by its
 * id, the machine of a node, any balancer of this cluster. The first one found ends the search, so that in the right project
 * one request is usually enough. A found result is not remembered, because the token may be replaced at any time. An empty
 * result is remembered for a minute, because many Services may be held at the same time, and their searches must not use up
 * the rate limit.
 *
 * Threads: any. No request is made under the lock.
 */
#ifndef CCMD_HCLOUD_LB_EVIDENCE_H
#define CCMD_HCLOUD_LB_EVIDENCE_H

#include "cloud/balancer.h"
#include "cloud/host.h"
#include "providers/hcloud/config.h"
#include "providers/hcloud/lb_cache.h"

struct hz_evidence;

struct hz_evidence_config {
	const struct hz_config *config;
	const struct cloud_host *host;
	struct hz_api *api;
	struct hz_lb_cache *cache;
	int64_t network; /* no other project has it: configured by its id, or we are attached to it; 0: none */
};

struct hz_evidence *hz_evidence_new(const struct hz_evidence_config *config);
void hz_evidence_free(struct hz_evidence *); /* NULL is fine */
DEFINE_CLEANUP(struct hz_evidence, hz_evidence_free)

/** Looks for evidence in requests that begin now, and so after the one that found no balancer.
 *
 * @return  On false the result is unknown. ERR_PENDING: another thread is searching. */
NODISCARD bool hz_evidence_look(struct hz_evidence *, struct call *, struct lb_evidence *ret,
                                struct error *err);

#endif
