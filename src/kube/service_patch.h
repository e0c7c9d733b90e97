/* kube/service_patch.h: the bodies of our writes to Services, all to their /status
 * (docs/spec/framework.md, "Service patches").
 *
 * They are strategic merge patches. Each names the UID, so that a Service re-created under the same
 * name is not touched. The finalizer is removed from the list by its name; the list is never
 * replaced, because other controllers have finalizers in it.
 */
#ifndef CCMD_KUBE_SERVICE_PATCH_H
#define CCMD_KUBE_SERVICE_PATCH_H

#include "kube/service.h"

/** Appends the patch that adds our finalizer. */
void service_patch_claim(struct buf *b, const struct service *);

/** Appends the patch that releases a Service whose balancer is gone: it removes our finalizer and
 * clears status.loadBalancer. The status is cleared even if the Service is being deleted, because
 * another finalizer may hold it for long while its address belongs to another Service already.
 * Both happen in one write, so that no reader sees one without the other: the API server also
 * changes finalizers by /status, and deletes a Service that loses its last one this way. False,
 * with nothing appended, if there is neither. is_stale: the Service as we know it may be older
 * than our own last write to it, so the patch does both in any case. */
bool service_patch_release(struct buf *b, const struct service *, bool is_stale);

/** Appends the patch of status.loadBalancer. Without ingress it is cleared. */
void service_patch_status(struct buf *b, const struct service *,
                          const struct service_ingress *ingress, size_t n);

/** Does the Service have this status already? The order counts; ports that other clients set do
 * not. A missing ipMode equals any, because API servers up to 1.28 drop it, and the status would be
 * written again and again. Newer API servers never leave it out of an ingress with an address
 * (docs/spec/framework.md, "Status of a Service"). */
bool service_status_equals(const struct service *, const struct service_ingress *ingress, size_t n);

/** Appends "/api/v1/namespaces/NS/services/NAME/status". */
void service_patch_path(struct buf *b, const struct service *);

#endif
