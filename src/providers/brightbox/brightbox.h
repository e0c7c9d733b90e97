/* brightbox.h: the provider and its parts. provider.c creates the parts. Functions that get a
 * struct cloud find them by brightbox_of().
 *
 * Threads: constant after start().
 */
#ifndef CCMD_BRIGHTBOX_BRIGHTBOX_H
#define CCMD_BRIGHTBOX_BRIGHTBOX_H

#include "cloud/cloud.h"
#include "providers/brightbox/balancers.h"
#include "providers/brightbox/config.h"

struct bb_token;

struct brightbox {
	struct cloud cloud;
	struct bb_config config;
	struct bb_token *token;
	struct bb_client *client;
	struct bb_views *views;
	struct bb_balancers *balancers;
};

static inline struct brightbox *
brightbox_of(struct cloud *cloud)
{
	return CONTAINER_OF(cloud, struct brightbox, cloud);
}

#endif
