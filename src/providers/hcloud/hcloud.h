/* hcloud.h: the provider and its parts. provider.c makes them; the operations of a part, which are
 * called with a struct cloud, find the part here.
 *
 * Threads: constant after start().
 */
#ifndef CCMD_HCLOUD_HCLOUD_H
#define CCMD_HCLOUD_HCLOUD_H

#include "cloud/host.h"
#include "cloud/login.h"
#include "providers/hcloud/config.h"

struct hcloud {
	struct cloud cloud;
	struct cloud_config cloud_config;
	const struct cloud_host *host;
	struct hz_config *config;
	struct login *login, *robot_login;
	struct http_client *http, *robot_http;
	struct hz_api *api;
	struct hz_actions *actions;
	struct hz_robot *robot; /* NULL: Robot is not configured */
	struct hz_lb_cache *cache;
	struct hz_servers_known *servers_known; /* as the cache */
	struct hz_balancers *balancers;         /* NULL: disabled, as the cache */
	struct hz_routes *routes;               /* NULL: disabled */
	struct hz_instances *instances;
	int64_t network; /* its id; 0: none */
	bool is_network_ours;
};

static inline struct hcloud *
hcloud_of(struct cloud *cloud)
{
	return CONTAINER_OF(cloud, struct hcloud, cloud);
}

#endif
