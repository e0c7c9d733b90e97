/* lb_status.h: what a Service's status says of its load balancer (hcloud.md 3.9s).
 *
 * Threads: any.
 */
#ifndef CCMD_HCLOUD_LB_STATUS_H
#define CCMD_HCLOUD_LB_STATUS_H

#include "cloud/balancer.h"
#include "providers/hcloud/lb_wire.h"

/** From the balancer as it is, in the arena. An annotation that cannot be read counts as not there. */
void hz_lb_status(const struct hz_config *, const struct lb_spec *, const struct hz_lb *,
                  struct arena *, struct lb_status *ret);

/** Can the annotations about the status be read? ERR_INVALID, with the official controller's message from its second
 * operation on. Their owner is to be told when everything else is done; neither targets nor deletion wait for it. */
NODISCARD bool hz_lb_status_check(const struct lb_spec *, struct error *err);

#endif
