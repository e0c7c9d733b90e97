/* kube/patch.h: bodies of the writes we make to Nodes. Never a PUT.
 *
 * Each names what it was computed from: the UID always, so that a node re-created under the same
 * name is not touched, and the resourceVersion where a list is sent whole. The server answers 409
 * when either differs. JSON merge patches: lists are replaced, nulls delete, anything unnamed
 * stays; so two addresses of one type survive, which a strategic patch would merge
 * (docs/spec/kube-client.md, "Node addresses in patches").
 */
#ifndef CCMD_KUBE_PATCH_H
#define CCMD_KUBE_PATCH_H

#include "base/buf.h"
#include "kube/node.h"

struct node_patch {
	struct str uid;
	struct str resource_version; /* empty: not named */
	const struct label *labels;
	size_t n_labels;
	struct str provider_id; /* empty: not written */
	bool has_taints;
	const struct str
		*taints; /* raw JSON, each one taint; has_taints with n_taints 0 writes null */
	size_t n_taints;
	const struct address *addresses; /* only for /status */
	size_t n_addresses;
};

/** Appends the merge patch for /api/v1/nodes/NAME: labels, provider ID, taints. */
void patch_node(struct buf *b, const struct node_patch *patch);
/** Appends the merge patch for /api/v1/nodes/NAME/status: addresses. */
void patch_node_status(struct buf *b, const struct node_patch *patch);
/** Appends the strategic merge patch for /api/v1/nodes/NAME/status that writes the
 * NetworkUnavailable condition, ROUTED or MISSING; other conditions stay. */
void patch_node_network(struct buf *b, struct str uid, enum node_network network,
                        int64_t now_wall_ns);
/** Appends "/api/v1/nodes/NAME" and the sub-resource when not NULL, escaped. */
void patch_node_path(struct buf *b, struct str name, const char *subresource);

#endif
