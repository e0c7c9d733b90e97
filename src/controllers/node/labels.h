/* controllers/node/labels.h: which labels a node is to get. Pure functions
 * (docs/spec/framework.md, "Labels at initialisation" and "Labels afterwards"). */
#ifndef CCMD_CONTROLLERS_NODE_LABELS_H
#define CCMD_CONTROLLERS_NODE_LABELS_H

#include "cloud/cloud.h"
#include "kube/node.h"

struct label_list {
	struct label *items;
	size_t n;
};

/** The labels at initialisation: type, zone and region under their beta and GA names, which replace
 * those of the node; and further labels of the cloud, unless the node has the key already or the
 * key is reserved. Only labels that differ from the node's are listed. The array is in the arena;
 * texts are borrowed from the instance. */
struct label_list labels_plan(const struct node *node, const struct instance *instance,
                              struct arena *arena);

/** The labels after that: GA labels follow the beta ones, which are the source of truth. Only
 * labels that differ are listed. */
struct label_list labels_reconcile(const struct node *node, struct arena *arena);

#endif
