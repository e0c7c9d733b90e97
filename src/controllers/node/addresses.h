/* controllers/node/addresses.h: which addresses a node is to have. Pure functions
 * (docs/spec/framework.md, "Provided node IP" and "Addresses"). */
#ifndef CCMD_CONTROLLERS_NODE_ADDRESSES_H
#define CCMD_CONTROLLERS_NODE_ADDRESSES_H

#include "cloud/cloud.h"
#include "kube/node.h"

struct address_list {
	struct address *items;
	size_t n;
};

/** Plans the list to write. It has the addresses of the cloud. If the cloud names no Hostname,
 * those of the node are appended. If the kubelet was started with --node-ip, the addresses that
 * match it come first, and other addresses of their types are dropped. An empty list means that the
 * cloud gave no addresses: the node keeps its own.
 *
 * ERR_INVALID: the annotation is malformed, or names an IP that is not among the cloud's addresses.
 * Views point into node and instance; the array is in the arena. */
NODISCARD bool addresses_plan(const struct node *node, const struct instance *instance,
                              struct arena *arena, struct address_list *ret, struct error *err);

/** Are the lists equal, type by type? The order within a type counts, because the first address of
 * a type is the one that is used. The order between types means nothing, and a difference only
 * there is not worth a write. */
bool addresses_equal(const struct address *a, size_t n_a, const struct address *b, size_t n_b);

#endif
