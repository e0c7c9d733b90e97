/* operator/plan_nodes.h: nodes as they will be after the changes of a plan.
 *
 * What the controllers of Services and routes do depends on the nodes: a node that was initialised
 * becomes a target, and one that was deleted loses its route. So the changes of nodes are applied
 * to the store of the nodes, where these controllers, which run afterwards, find them.
 *
 * Threads: any; one call at a time.
 */
#ifndef CCMD_OPERATOR_PLAN_NODES_H
#define CCMD_OPERATOR_PLAN_NODES_H

#include "base/dry_run.h"
#include "kube/store.h"

/** Applies a change of a node to the store, or removes the node. Changes of which the body is not
 * known, and of nodes that the store does not have, have no effect. The store's handlers are
 * called. */
void plan_nodes_apply(struct store *nodes, struct str name, const struct dry_change *change);

#endif
