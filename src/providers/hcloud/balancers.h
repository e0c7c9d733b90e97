/* balancers.h: load balancers of the Hetzner Cloud, one for each Service (docs/spec/hcloud.md,
 * "Balancer of a Service").
 *
 * Ours is the one labelled with the Service's UID; one that bears the annotated name and is no live
 * Service's is adopted. One request makes a balancer with all that belongs to it; afterwards only
 * what differs is changed, and a settled one costs nothing.
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
	struct hz_robot *robot; /* NULL: none to ask */
	int64_t network;        /* 0: none */
	bool is_network_ours;   /* as in struct hz_instances_config */
};

struct hz_balancers *hz_balancers_new(const struct hz_balancers_config *config);
void hz_balancers_free(struct hz_balancers *); /* NULL is fine */
DEFINE_CLEANUP(struct hz_balancers, hz_balancers_free)

/** For a cloud that is the first member of a struct hcloud (hcloud.h) with balancers and cache. */
extern const struct balancer_ops hz_balancer_ops;

/* ---- the status of a Service ---- */

/** From the balancer as it is, in the arena. An annotation that cannot be read counts as not
 * there. */
void hz_lb_status(const struct hz_config *, const struct lb_spec *, const struct hz_lb *,
                  struct arena *, struct lb_status *ret);

/** Can the annotations about the status be read? ERR_INVALID, with the official controller's
 * message from its second operation on. Errors in them are reported when everything else is done;
 * neither targets nor deletion wait for it. */
NODISCARD bool hz_lb_status_check(const struct lb_spec *, struct error *err);

#endif
