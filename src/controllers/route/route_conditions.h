/* controllers/route/route_conditions.h: the condition NetworkUnavailable of nodes.
 *
 * A run of the route controller finds out what each node is to be told; writing it needs no further look at the cloud, however often
 * somebody else writes over it. Where all routes of a node exist, any False is left as it is: a CNI that writes its own reason says
 * the same as we do. (The Go framework writes over it: cloud-provider, controllers/route/route_controller.go,
 * updateNetworkingCondition(). Cilium then writes over that, without end.) Everything else is written, at the pace of pace.h for each
 * node, with one event where somebody keeps changing it back.
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

/** What a run found out about a node. */
struct route_verdict {
	const struct node *node;
	enum node_network wanted; /* NODE_NETWORK_OTHER: not ours to say */
};

/** Replaces what is known: nodes that are not among them are not written to. */
void route_conditions_set(struct route_conditions *, const struct route_verdict verdicts[],
                          size_t n);
/** Writes the conditions of those nodes that differ from what is known. Returns when there may be more to write (mono), unless a node
 * changes before; CLOCK_FOREVER: never. */
int64_t route_conditions_write(struct route_conditions *, const struct call *call);

#endif
