/* kube/service_patch.h: bodies of the writes we make to Services, all to their /status (framework.md 11.5).
 *
 * Strategic merge patches. The UID is named always, so that a Service re-created under the same name is not touched. The
 * finalizer is removed by name from the list, never by clearing it.
 */
#ifndef CCMD_KUBE_SERVICE_PATCH_H
#define CCMD_KUBE_SERVICE_PATCH_H

#include "kube/service.h"

/** Appends the patch that adds or removes our finalizer. */
void service_patch_finalizer(struct buf *b, const struct service *, bool wanted);

/** Appends the patch of status.loadBalancer; none: cleared. */
void service_patch_status(struct buf *b, const struct service *,
                          const struct service_ingress *ingress, size_t n);

/** Is what the Service says already that? In order; ports that others set do not count. An API server that drops ipMode,
 * as 1.28 does, must not make a difference for ever: a missing one equals any, unless the server is known to keep it. */
bool service_status_equals(const struct service *, const struct service_ingress *ingress, size_t n);

/** Appends "/api/v1/namespaces/NS/services/NAME/status". */
void service_patch_path(struct buf *b, const struct service *);

#endif
