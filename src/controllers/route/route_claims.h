/* controllers/route/route_claims.h: which pod CIDRs of each node are to be routed.
 *
 * The pod CIDRs of all nodes are collected as claims, and route_guard.h decides them. A node whose
 * pod CIDR gets no route receives an event that says why.
 *
 * Threads: one.
 */
#ifndef CCMD_CONTROLLERS_ROUTE_ROUTE_CLAIMS_H
#define CCMD_CONTROLLERS_ROUTE_ROUTE_CLAIMS_H

#include "base/ip.h"
#include "controllers/env.h"
#include "controllers/route/route_plan.h"

/** Which pod CIDRs may be routed at all. */
struct route_scope {
	unsigned families; /* that the cloud has routes for; a sum: 1 is IPv4, 2 is IPv6 */
	const struct ip_net *cluster_cidrs; /* --cluster-cidr */
	size_t n_cluster_cidrs;
};

/** Fills ret_nodes with all nodes, index by index, and those of their pod CIDRs whose claims are
 * granted. ret_has_lost[i] is set for a node that lost a claim, and is left as it is for others.
 * Views are of the nodes or in the arena. */
void route_claims_collect(struct controller_env *env, const struct route_scope *scope,
                          struct arena *arena, const struct store_list *all,
                          const struct route_list *routes, struct route_node ret_nodes[],
                          bool ret_has_lost[]);

#endif
