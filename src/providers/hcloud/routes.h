/* routes.h: routes to pods, in the private network of HCLOUD_NETWORK (docs/spec/hcloud.md,
 * "Routes").
 *
 * A route's gateway is the address that a node's server has in the network; which server is a
 * node's is told by provider IDs, and by the name where a node has none. One look is the network
 * and the servers' list; what is created right after it is compared with that look, not asked for
 * again. A route whose gateway is no server's is a blackhole only if the list has all servers that
 * the network says are attached to it.
 *
 * A network takes one change at a time, so changes wait for each other here and not by being
 * refused. After one that does not end, and while the table is full, the others of the same run are
 * not tried.
 *
 * Threads: as in struct route_ops.
 */
#ifndef CCMD_HCLOUD_ROUTES_H
#define CCMD_HCLOUD_ROUTES_H

#include "cloud/route.h"
#include "providers/hcloud/actions.h"
#include "providers/hcloud/config.h"

struct hz_routes;

struct hz_routes_config {
	const struct hz_config *config;
	const struct cloud_host *host;
	struct hz_api *api;
	struct hz_actions *actions;
	int64_t network;
	struct ip_net cluster_cidr; /* of IPv4 */
};

/** Everything in config is borrowed. */
struct hz_routes *hz_routes_new(const struct hz_routes_config *config);
void hz_routes_free(struct hz_routes *); /* NULL is fine */
DEFINE_CLEANUP(struct hz_routes, hz_routes_free)

/** For a cloud that is the first member of a struct hcloud (hcloud.h) with routes. ERR_PENDING
 * while the network is busy with another change. */
extern const struct route_ops hz_route_ops;

#endif
