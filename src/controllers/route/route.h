/* controllers/route/route.h: the route controller: pods of every node are reachable through the
 * cloud's network.
 *
 * One thread. It runs at start, at once when a node comes, goes, or changes its pod CIDRs or
 * addresses, after failures, and else only as often as --route-reconciliation-period and the
 * provider's own idle period both allow: an idle cluster costs a provider nothing it has not asked
 * for. Routes are created and removed by a few threads at a time.
 */
#ifndef CCMD_CONTROLLERS_ROUTE_ROUTE_H
#define CCMD_CONTROLLERS_ROUTE_ROUTE_H

#include "base/ip.h"
#include "controllers/env.h"

#define ROUTE_COMPONENT "route_controller" /* with an underscore, as in the Go controllers */

struct route_controller;

struct route_controller_config {
	int64_t period_ns;                  /* --route-reconciliation-period */
	const struct ip_net *cluster_cidrs; /* --cluster-cidr, at least one */
	size_t n_cluster_cidrs;
};

/** Subscribes to the store of nodes and starts its thread. Before the reflector starts. */
struct route_controller *route_controller_new(struct controller_env *env,
                                              const struct route_controller_config *config);
/** Something changed in the cloud. */
void route_controller_wake(struct route_controller *);
/** An API of the cloud is available again: work that waits for the end of an outage is due. */
void route_controller_release(struct route_controller *);
/** Once the token is fired: was it at work, so that a request of its may still come through? */
bool route_controller_is_working(const struct route_controller *);
/** Joins the thread, after the token. NULL is fine. */
void route_controller_free(struct route_controller *);

#endif
