/* controllers/node_ref.h: a node as providers see it, which know nothing of Kubernetes objects.
 *
 * Threads: any.
 */
#ifndef CCMD_CONTROLLERS_NODE_REF_H
#define CCMD_CONTROLLERS_NODE_REF_H

#include "cloud/cloud.h"
#include "kube/node.h"

/** Its texts and lists are views of the node, which must outlive it. */
struct node_ref node_ref_of(const struct node *node);
/** The same with copies of all texts and lists, in the arena. */
struct node_ref node_ref_copy(struct arena *arena, const struct node *node);

#endif
