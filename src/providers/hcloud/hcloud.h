/* hcloud.h: the provider and its parts. provider.c makes them; the operations of a part, which are
 * called with a struct cloud, find the part here.
 *
 * Threads: constant after start(), except for the two last members.
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
	int64_t network;                        /* its id; 0: none */
	/* the network proves that the token opens our project: it was configured by id, or this
	 * machine is attached to it */
	bool is_network_ours;
	/* of instances.c */
	_Atomic int64_t n_listed;    /* servers at the last list; 0: no list was read yet */
	_Atomic size_t next_confirm; /* index of the node that is confirmed first next time */
};

static inline struct hcloud *
hcloud_of(struct cloud *cloud)
{
	return CONTAINER_OF(cloud, struct hcloud, cloud);
}

/* ---- instances.c: the machines of nodes, in the cloud and at Robot ----
 *
 * They are found with as few requests as possible (docs/spec/hcloud.md, "Finding a machine"). The
 * servers of a few nodes are read by id; those of many nodes by the pages of one list, if
 * HCLOUD_SERVER_CACHE_MODE permits it. A server that the list lacks is read by id before it counts
 * as ABSENT, and only the API's own `not_found` makes it so. After any other failure no further
 * request is sent, and all nodes without an answer are UNKNOWN.
 *
 * Threads: any; in practice one look at a time (controllers/lookup.h).
 */

/** cloud_ops.can_find. */
bool hz_instances_can_find(struct cloud *, struct str provider_id, unsigned *ret_realm);
/** cloud_ops.look. */
NODISCARD bool hz_instances_look(struct cloud *, struct call *, const struct node_ref refs[],
                                 size_t n, int64_t not_before_boot_ns, struct look **ret,
                                 struct error *err);
/** cloud_ops.list_machines: the servers of the cloud and of Robot. */
NODISCARD bool hz_instances_list(struct cloud *, struct call *, struct machine_list *ret,
                                 struct error *);
/** cloud_ops.count_anchors. */
NODISCARD bool hz_instances_count_anchors(struct cloud *, struct call *, unsigned *ret,
                                          struct error *err);

#endif
