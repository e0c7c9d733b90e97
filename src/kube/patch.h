/* kube/patch.h: the bodies of our writes to Nodes. Nodes are never written by PUT.
 *
 * Each patch names the state that it was computed from: always the UID, so that a node re-created
 * under the same name is not touched, and the resourceVersion if a list is sent whole. The server
 * answers 409 if either differs. Most are JSON merge patches: lists are replaced, null deletes, and
 * members that are not named stay. So two addresses of one type survive, which a strategic patch
 * would merge (docs/spec/kube-client.md, "Node addresses in patches").
 */
#ifndef CCMD_KUBE_PATCH_H
#define CCMD_KUBE_PATCH_H

#include "base/buf.h"
#include "kube/node.h"

struct node_patch {
	struct str uid;
	struct str resource_version; /* empty: not in the patch */
	const struct label *labels;
	size_t n_labels;
	struct str provider_id;   /* empty: not written */
	bool has_taints;          /* write taints; null if n_taints is 0 */
	const struct str *taints; /* each is the JSON of one taint */
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
