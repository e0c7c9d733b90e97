/* controllers/node_ref.h: a node as providers see it, which know nothing of Kubernetes objects, and
 * nodes that have the same provider ID.
 *
 * Threads: any.
 */
#ifndef CCMD_CONTROLLERS_NODE_REF_H
#define CCMD_CONTROLLERS_NODE_REF_H

#include "cloud/cloud.h"
#include "kube/node.h"
#include "kube/store.h"

/** Its texts and lists are views of the node, which must outlive it. */
struct node_ref node_ref_of(const struct node *node);
/** The same with copies of all texts and lists, in the arena. */
struct node_ref node_ref_copy(struct arena *arena, const struct node *node);

/* ---- the same provider ID ----
 *
 * A provider ID names one machine, so at most one of the nodes that have it is right, and it is not
 * known which. Until only one of them is left, the machine's routes, addresses and targets stay as
 * they are, and none of the nodes is initialised or deleted: a node with the ID of another node's
 * machine must not harm that node.
 */

/** Returns a reference to the oldest other node that has this provider ID, or NULL. */
struct object *provider_ids_find_other(struct store *nodes, const struct node *node,
                                       struct str provider_id);
/** Does another node have the provider ID of this node? */
bool provider_ids_is_shared(struct store *nodes, const struct node *node);
/** Does an older node have the provider ID of this node? Of up to 16 nodes with one provider ID,
 * this is false for exactly one. */
bool provider_ids_has_older(struct store *nodes, const struct node *node);

#endif
