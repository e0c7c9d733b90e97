/* controllers/node/labels.h: which labels a node should get. Pure functions
 * (docs/spec/framework.md, "Labels at initialisation" and "Labels afterwards"). */
#ifndef CCMD_CONTROLLERS_NODE_LABELS_H
#define CCMD_CONTROLLERS_NODE_LABELS_H

#include "cloud/cloud.h"
#include "kube/node.h"

struct label_list {
	struct label *items;
	size_t n;
};

/** At initialisation: type, zone and region under their beta and GA names, overwriting; further
 * labels of the cloud where the node has no such key and the key is not Kubernetes' own. Only
 * those that differ from the node's are listed. The array is in the arena, texts are borrowed from
 * the instance. */
struct label_list labels_plan(const struct node *node, const struct instance *instance,
                              struct arena *arena);

/** Later: the GA labels follow the beta ones, which are the source of truth. Only those that
 * differ. */
struct label_list labels_reconcile(const struct node *node, struct arena *arena);

/** Is that key Kubernetes' own, (^|\.)(kubernetes|k8s)\.io/ ? Clouds may not set those. */
bool labels_is_reserved(struct str key);

#endif
