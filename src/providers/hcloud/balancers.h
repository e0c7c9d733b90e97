/* balancers.h: load balancers of the Hetzner Cloud, one for each Service (docs/spec/hcloud.md,
 * "Balancer of a Service").
 *
 * A Service's balancer has a label with the Service's UID. A balancer without it is adopted if it
 * has the name in the Service's annotation and does not belong to another live Service
 * (lb_adopt.c). One request creates a balancer with all its parts; afterwards only what differs is
 * changed, and a balancer without differences costs no request that changes anything.
 *
 * Threads: as cloud/balancer.h says.
 */
#ifndef CCMD_HCLOUD_BALANCERS_H
#define CCMD_HCLOUD_BALANCERS_H

#include "cloud/balancer.h"
#include "cloud/host.h"
#include "providers/hcloud/config.h"
#include "providers/hcloud/lb_cache.h"
#include "providers/hcloud/lb_wire.h"
#include "providers/hcloud/robot.h"

struct hz_balancers;

struct hz_balancers_config {
	const struct hz_config *config;
	const struct cloud_host *host;
	struct hz_api *api;
	struct hz_actions *actions;
	struct hz_lb_cache *cache;
	struct hz_servers_known *servers_known; /* NULL: not known */
	struct hz_robot *robot;                 /* NULL: Robot is not configured */
	int64_t network;                        /* 0: none */
};

struct hz_balancers *hz_balancers_new(const struct hz_balancers_config *config);
void hz_balancers_free(struct hz_balancers *); /* NULL is fine */
DEFINE_CLEANUP(struct hz_balancers, hz_balancers_free)

/** For a cloud that is the first member of a struct hcloud (hcloud.h) with balancers and cache. */
extern const struct balancer_ops hz_balancer_ops;

/* ---- the status of a Service ---- */

/** Makes the status from the balancer as it is; texts are in the arena. An annotation that cannot
 * be read counts as absent. */
void hz_lb_status(const struct hz_config *, const struct lb_spec *, const struct hz_lb *,
                  struct arena *, struct lb_status *ret);

/** Can the annotations about the status be read? ERR_INVALID, with the official controller's
 * message from its second operation on. Errors in them are reported when everything else is done;
 * neither targets nor deletion wait for it. */
NODISCARD bool hz_lb_status_check(const struct lb_spec *, struct error *err);

#endif
