/* lb_health.h: which targets of load balancers are healthy, for two metrics and for `ccmd explain`
 * and `ccmd doctor`.
 *
 * A scrape sends no request: the metrics show each balancer as it was read last, which is after a
 * change of its Service or of the Service's nodes, and once in each --load-balancer-drift-period.
 *
 * Threads: any.
 */
#ifndef CCMD_HCLOUD_LB_HEALTH_H
#define CCMD_HCLOUD_LB_HEALTH_H

#include "base/map.h"
#include "providers/hcloud/lb_cache.h"

struct hcloud;
struct lb_listed;

/** Registers the metrics, and removes them. */
void hz_health_open(struct hz_lb_cache *);
void hz_health_close(struct hz_lb_cache *);

/** Maps the IDs of servers to the names of their nodes, in the arena. */
struct map hz_health_names(const struct hz_config *, const struct cloud_host *, struct arena *);

/** Sets the members of *ret about the health of targets and about blocked addresses.
 *
 * @param names  the result of hz_health_names(); a server without a node is shown with its ID */
void hz_health_describe(const struct hz_lb *, const struct map *names, struct arena *,
                        struct lb_listed *ret);

#endif
