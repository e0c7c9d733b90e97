/* kube/patch.h: the bodies of our writes to Nodes and Services, which are never written by PUT.
 *
 * Each patch names the UID, so that an object re-created under the same name is not touched. The
 * server answers 409 if it differs.
 *
 * Most patches of nodes are JSON merge patches: lists are replaced, null deletes, and members that
 * are not named stay. So two addresses of one type survive, which a strategic patch would merge
 * (docs/spec/kube-client.md, "Node addresses in patches"). Because lists are replaced, a patch with
 * a list also names the resourceVersion that it was computed from.
 *
 * Patches of Services go to their /status and are strategic merge patches (docs/spec/framework.md,
 * "Service patches"). The finalizer is removed from its list by its name; the list is never
 * replaced, because other controllers have finalizers in it.
 */
#ifndef CCMD_KUBE_PATCH_H
#define CCMD_KUBE_PATCH_H

#include "base/buf.h"
#include "kube/node.h"
#include "kube/service.h"

/* ---- nodes ---- */

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

/* ---- Services ---- */

/** Appends the patch that adds our finalizer. */
void patch_service_claim(struct buf *b, const struct service *);

/** Appends the patch that releases a Service whose balancer is gone: it removes our finalizer and
 * clears status.loadBalancer. The status is cleared even if the Service is being deleted, because
 * another finalizer may hold it for long while its address belongs to another Service already.
 * Both happen in one write, so that no reader sees one without the other: the API server also
 * changes finalizers by /status, and deletes a Service that loses its last one this way. False,
 * with nothing appended, if the Service has neither a finalizer of ours nor a status. is_stale: the
 * Service as we know it may be older than our own last write to it, so the patch does both in any
 * case. The version is a precondition: if the Service has got another class since, its finalizer
 * may be that of another controller. */
bool patch_service_release(struct buf *b, const struct service *, bool is_stale);

/** Appends the patch of status.loadBalancer. Without ingress it is cleared. */
void patch_service_status(struct buf *b, const struct service *,
                          const struct service_ingress *ingress, size_t n);

/** Does the Service have this status already? The order counts; ports that other clients set do
 * not. A missing ipMode equals any, because API servers up to 1.28 drop it, and the status would be
 * written again and again. Newer API servers never leave it out of an ingress with an address
 * (docs/spec/framework.md, "Status of a Service"). */
bool service_status_equals(const struct service *, const struct service_ingress *ingress, size_t n);

/** Appends "/api/v1/namespaces/NS/services/NAME/status". */
void patch_service_path(struct buf *b, const struct service *);

#endif
