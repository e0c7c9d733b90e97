/* brightbox.h: the provider and its parts. provider.c creates the parts. Functions that get a
 * struct cloud find them by brightbox_of().
 *
 * Threads: constant after start().
 */
#ifndef CCMD_BRIGHTBOX_BRIGHTBOX_H
#define CCMD_BRIGHTBOX_BRIGHTBOX_H

#include "cloud/cloud.h"
#include "cloud/balancer.h"
#include "cloud/host.h"
#include "cloud/refusals.h"
#include "providers/brightbox/config.h"
#include "providers/brightbox/unsettled.h"
#include "providers/brightbox/view.h"

struct bb_token;

struct brightbox {
	struct cloud cloud;
	struct bb_config config;
	/* from here on NULL before start() */
	const struct cloud_host *host;
	struct bb_token *token;
	struct bb_client *client;
	struct bb_views *views;
	struct bb_unsettled_table *unsettled;
	struct refusals *refusals;
};

static inline struct brightbox *
brightbox_of(struct cloud *cloud)
{
	return CONTAINER_OF(cloud, struct brightbox, cloud);
}

/** Load balancers, in balancers.c. At most one run at a time for each Service. */
extern const struct balancer_ops bb_balancer_ops;

/** cloud_ops.count_anchors. Counts, by one request, the balancers that have a cloud IP in the
 * status of a live Service of this cluster: evidence that the credentials are those of the
 * cluster's account. */
NODISCARD bool bb_balancers_count_serving(struct cloud *, struct call *, unsigned *ret,
                                          struct error *err);

#endif
