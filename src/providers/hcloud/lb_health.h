/* lb_health.h: which targets of load balancers are healthy, for the metric and for the commands of
 * operators.
 *
 * The metric shows the balancers as they were read last, because a scrape makes no request: after
 * each change of a Service or of its nodes, and once in each --load-balancer-drift-period.
 *
 * Threads: any.
 */
#ifndef CCMD_HCLOUD_LB_HEALTH_H
#define CCMD_HCLOUD_LB_HEALTH_H

#include "base/map.h"
#include "providers/hcloud/lb_cache.h"

struct hcloud;
struct lb_listed;

/** Begins and ends the metric. */
void hz_health_open(struct hz_lb_cache *);
void hz_health_close(struct hz_lb_cache *);

/** The names of the nodes by the ids of their servers, in the arena. */
struct map hz_health_names(const struct hz_config *, const struct cloud_host *, struct arena *);

/** Sets the members about the health of targets, and about blocked addresses.
 *
 * @param names  of hz_health_names(); a server without a node has its id */
void hz_health_describe(const struct hz_lb *, const struct map *names, struct arena *,
                        struct lb_listed *ret);

#endif
