/* cloudlycke.h: the provider and its parts. provider.c creates the parts. The functions of a part
 * that get a struct cloud find the part here.
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
	/* owns the texts in cloud.needs, because the inventory that they come from may be replaced
	 */
	struct arena arena;
	struct cl_loader *loader;
	struct cl_watcher *watcher;
	struct cl_state *state;             /* of the next two; NULL: neither is offered */
	struct cl_balancers_run *balancers; /* NULL: not offered */
	struct cl_routes_run *routes;       /* NULL: not offered */
	/* the watcher reads the file again when it changes, and not only on SIGHUP */
	bool is_watched;
};

static inline struct cloudlycke *
cloudlycke_of(struct cloud *cloud)
{
	return CONTAINER_OF(cloud, struct cloudlycke, cloud);
}

#endif
