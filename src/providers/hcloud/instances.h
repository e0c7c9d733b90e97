/* instances.h: finds the machines of nodes, in the cloud and at Robot, with as few requests as
 * possible (docs/spec/hcloud.md, "Finding a machine").
 *
 * The servers of a few nodes are read by id; those of many nodes by the pages of one list, if
 * HCLOUD_SERVER_CACHE_MODE permits it. A server that the list lacks is read by id before it counts
 * as ABSENT, and only the API's own `not_found` makes it so. After any other failure no further
 * request is sent, and all nodes without an answer are UNKNOWN.
 *
 * Threads: any; in practice one look at a time (controllers/lookup.h).
 */
#ifndef CCMD_HCLOUD_INSTANCES_H
#define CCMD_HCLOUD_INSTANCES_H

#include "providers/hcloud/describe.h"
#include "providers/hcloud/lb_cache.h"
#include "providers/hcloud/lb_targets.h"

struct hz_instances;

struct hz_instances_config {
	const struct hz_config *config;
	const struct cloud_host *host;
	struct hz_api *api;
	struct hz_robot *robot;                 /* NULL: Robot is not configured */
	struct hz_lb_cache *cache;              /* NULL: no load balancers */
	struct hz_servers_known *servers_known; /* NULL: nobody needs it */
	int64_t network;                        /* 0: none */
	/* it proves that the token opens our project: it was configured by id, or this machine is
	 * attached to it */
	bool is_network_ours;
};

struct hz_instances *hz_instances_new(const struct hz_instances_config *config);
void hz_instances_free(struct hz_instances *); /* NULL is fine */
DEFINE_CLEANUP(struct hz_instances, hz_instances_free)

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
