/* cloudlycke.h: the provider and its parts. provider.c makes them; functions that are called with
 * the cloud, in a part's own file, find it here.
 *
 * Threads: constant after start().
 */
#ifndef CCMD_CLOUDLYCKE_CLOUDLYCKE_H
#define CCMD_CLOUDLYCKE_CLOUDLYCKE_H

#include "cloud/cloud.h"
#include "providers/cloudlycke/balancers.h"
#include "providers/cloudlycke/routes.h"
#include "providers/cloudlycke/watcher.h"

struct cloudlycke {
	struct cloud cloud;
	struct cloud_config config;
	/* of the texts in cloud.needs: the inventory that they come from is replaced */
	struct arena arena;
	struct cl_loader *loader;
	struct cl_watcher *watcher;
	struct cl_state *state;             /* of the next two; NULL: neither is there */
	struct cl_balancers_run *balancers; /* NULL: not offered */
	struct cl_routes_run *routes;       /* NULL: not offered */
	bool is_watched; /* the file may change at any time, and not only on request */
};

static inline struct cloudlycke *
cloudlycke_of(struct cloud *cloud)
{
	return CONTAINER_OF(cloud, struct cloudlycke, cloud);
}

#endif
