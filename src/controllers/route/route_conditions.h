/* controllers/route/route_conditions.h: the condition NetworkUnavailable of nodes.
 *
 * A run of the route controller finds out which condition each node is to have. Writing it needs no
 * further request to the cloud, however often another component overwrites it. If all routes of a
 * node exist, every False is left as it is: a CNI that writes a reason of its own means the same.
 * (The Go framework overwrites it: cloud-provider, controllers/route/route_controller.go,
 * updateNetworkingCondition(). Cilium then overwrites that, without end.) All other conditions are
 * written, at the pace of pace.h for each node, with one event if another component keeps changing
 * them back.
 *
 * Threads: one.
 */
#ifndef CCMD_CONTROLLERS_ROUTE_ROUTE_CONDITIONS_H
#define CCMD_CONTROLLERS_ROUTE_ROUTE_CONDITIONS_H

#include "controllers/env.h"
#include "kube/node.h"

struct route_conditions;

struct route_conditions *route_conditions_new(struct controller_env *env);
void route_conditions_free(struct route_conditions *); /* NULL is fine */

/** The result of a run for one node. */
struct route_result {
	const struct node *node;
	enum node_network wanted; /* NODE_NETWORK_OTHER: another component decides */
};

/** Replaces the results of the previous run. Nodes without a result are not written to. */
void route_conditions_set(struct route_conditions *, const struct route_result results[], size_t n);
/** Writes the conditions of nodes that differ from the results. Returns when to call it again
 * (mono), unless a node changes before; CLOCK_FOREVER: never. */
int64_t route_conditions_write(struct route_conditions *, const struct call *call);

#endif
