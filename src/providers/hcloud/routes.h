/* routes.h: routes to pods, in the private network of HCLOUD_NETWORK (docs/spec/hcloud.md,
 * "Routes").
 *
 * The gateway of a node's route is the address that the node's server has in the network. The
 * provider ID says which server that is, or the name, if a node has no provider ID. One reading
 * consists of the network and the list of servers; routes that are created soon after it are
 * compared with it, and nothing is read again. A route whose gateway does not belong to a server is
 * a blackhole only if the list has all servers that are attached to the network.
 *
 * A network permits one change at a time, so changes wait here for each other, instead of being
 * refused by the API. If a change does not end, or the table is full, no other change of the same
 * run is sent.
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
