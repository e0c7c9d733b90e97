/* lb_targets.h: a Service's nodes as targets of its balancer: cloud servers by id, dedicated
 * servers by address (docs/spec/hcloud.md, "Targets").
 *
 * A node that cannot be a target gets an Event that says so, and stops no other.
 *
 * Threads: any.
 */
#ifndef CCMD_HCLOUD_LB_TARGETS_H
#define CCMD_HCLOUD_LB_TARGETS_H

#include "cloud/host.h"
#include "providers/hcloud/lb_desired.h"
#include "providers/hcloud/robot.h"

struct hz_aim {
	const struct hz_config *config;
	const struct cloud_host *host;
	struct hz_robot *robot; /* NULL: none to ask */
};

/** What a balancer's targets should be; in the arena. */
struct hz_targets {
	struct hz_lb_target *targets;  /* in the order of the nodes */
	const struct node_ref **nodes; /* of each; NULL: it is to stay as it is */
	size_t n;
	bool is_partial;     /* a node is missing that may be a target another time */
	struct error reason; /* is_partial: of the first of them */
};

/** lb: as it is now; NULL: there is none yet. */
void hz_targets_read(const struct hz_aim *, struct call *, const struct lb_spec *,
                     const struct hz_lb_desired *, const struct hz_lb *lb, struct hz_targets *ret);

/** The node of a target, or NULL. */
const struct node_ref *hz_targets_node(const struct hz_targets *, const struct hz_lb_target *);

/** The API refused that node: an event says so; where is_retryable, the whole is partial. why is
 * the API's. */
void hz_targets_refused(struct hz_targets *, const struct hz_aim *, const struct lb_spec *,
                        const struct node_ref *node, bool is_retryable, const struct error *why);
/** There are as many targets already as the balancer's type allows. */
void hz_targets_exceeded(const struct hz_aim *, const struct lb_spec *,
                         const struct node_ref *node);

#endif
