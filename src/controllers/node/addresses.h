/* controllers/node/addresses.h: which addresses a node should have. Pure functions
 * (docs/spec/framework.md, "Provided node IP" and "Addresses"). */
#ifndef CCMD_CONTROLLERS_NODE_ADDRESSES_H
#define CCMD_CONTROLLERS_NODE_ADDRESSES_H

#include "cloud/cloud.h"
#include "kube/node.h"

struct address_list {
	struct address *items;
	size_t n;
};

/** The list to write: the cloud's addresses; the node's own Hostname entries behind them where the
 * cloud names none; then, where the kubelet was given --node-ip, only the matching ones of those
 * types, first. An empty list means that the cloud gave none: the node keeps what it has.
 *
 * ERR_INVALID when the annotation is malformed, or names an IP that the cloud does not list; also
 * with an empty list from the cloud. Views point into node and instance; the array is in the
 * arena. */
NODISCARD bool addresses_plan(const struct node *node, const struct instance *instance,
                              struct arena *arena, struct address_list *ret, struct error *err);

/** Are they the same, type by type? Within a type the order counts, between types it does not: an
 * order that differs only there would be written at every turn for nothing. */
bool addresses_equal(const struct address *a, size_t n_a, const struct address *b, size_t n_b);

#endif
