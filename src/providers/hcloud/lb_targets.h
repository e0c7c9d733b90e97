/* lb_targets.h: a Service's nodes as targets of its balancer: cloud servers by id, dedicated
 * servers by address (docs/spec/hcloud.md, "Targets").
 *
 * A node that cannot be a target gets an Event that says why. Other nodes are not affected. If the
 * API has refused a server, or the server is known to lack the address that a target needs, no
 * Service tries it again until its addresses change, or an hour has passed. A server that is a
 * target already stays one.
 *
 * Which targets are healthy is in two metrics, and shown by `ccmd explain` and `ccmd doctor`.
 *
 * Threads: any.
 */
#ifndef CCMD_HCLOUD_LB_TARGETS_H
#define CCMD_HCLOUD_LB_TARGETS_H

#include "base/map.h"
#include "cloud/host.h"
#include "cloud/refusals.h"
#include "providers/hcloud/lb_desired.h"
#include "providers/hcloud/robot.h"

struct hz_lb_cache;
struct lb_listed;

/* ---- servers as they were read last ---- */

/* The controllers of nodes read each server every few minutes. How it can be reached is noted here,
 * so that a server without the needed address is not tried as a target of each load balancer: the
 * API would refuse it. A server that was not read for an hour is forgotten, and all of them are
 * when LIMIT_MACHINES are known. */

struct hz_servers_known;

struct hz_servers_known *hz_servers_known_new(void);
void hz_servers_known_free(struct hz_servers_known *); /* NULL is fine */

/** network: the one of the cluster; 0: none. now_ns: mono. */
void hz_servers_known_note(struct hz_servers_known *, const struct hz_server *, int64_t network,
                           int64_t now_ns);
/** The reason for which the server cannot be a target: "has no public IPv4 address"; private: "is
 * not attached to the network". NULL: no reason is known. */
const char *hz_servers_known_obstacle(struct hz_servers_known *, int64_t id, bool is_private);

/* ---- the targets of a Service ---- */

struct hz_targets_config {
	const struct hz_config *config;
	const struct cloud_host *host;
	struct hz_robot *robot; /* NULL: Robot is not configured */
	struct refusals *refusals;
	struct hz_servers_known *servers_known; /* NULL: not known */
};

/** What a balancer's targets should be; in the arena. */
struct hz_targets {
	struct hz_lb_target *targets; /* in the order of the nodes */
	size_t n;
	/* the API cannot check addresses of dedicated servers now: no further ones are sent */
	bool is_robot_unavailable;
	/* of the first node that is not a target now but may be one in another run; code ERR_NONE:
	 * no such node */
	struct error missing;
};

/** lb: the balancer as it is now; NULL: it does not exist yet. */
void hz_targets_read(const struct hz_targets_config *, struct call *, const struct lb_spec *,
                     const struct hz_lb_desired *, const struct hz_lb *lb, struct hz_targets *ret);

/** The node of a target of these or of the balancer, or NULL. */
const struct node_ref *hz_targets_node(const struct hz_targets *, const struct hz_lb_target *);

/** The API refused that target of a node, which an Event reports; why is the API's error.
 * is_retryable: another run may succeed, so the node counts as missing; otherwise the refusal is
 * remembered. */
void hz_targets_refused(struct hz_targets *, const struct hz_targets_config *, struct call *,
                        const struct lb_spec *, const struct hz_lb_target *, bool is_retryable,
                        const struct error *why);
/** The balancer has as many targets already as its type permits: an Event on the node. */
void hz_targets_exceeded(const struct hz_targets_config *, const struct lb_spec *,
                         const struct node_ref *node);

/* ---- health ---- */

/* A scrape sends no request: the metrics show each balancer as it was read last, which is after a
 * change of its Service or of the Service's nodes, and once in each --load-balancer-drift-period.
 */

/** Registers the metrics, and removes them. */
void hz_health_open(struct hz_lb_cache *);
void hz_health_close(struct hz_lb_cache *);

/** Sets the members of *ret about the health of targets and about blocked addresses. A server
 * without a node is shown with its ID. */
void hz_health_describe(const struct hz_lb *, const struct hz_nodes *, struct arena *,
                        struct lb_listed *ret);

#endif
