/* cloudlycke.h: the provider and its parts. provider.c creates the parts. The functions of a part
 * that get a struct cloud find the part here.
 *
 * Threads: constant after start().
 */
#ifndef CCMD_CLOUDLYCKE_CLOUDLYCKE_H
#define CCMD_CLOUDLYCKE_CLOUDLYCKE_H

#include "cloud/cloud.h"
#include "providers/cloudlycke/haproxy.h"
#include "providers/cloudlycke/hook.h"
#include "providers/cloudlycke/watcher.h"

struct cloudlycke {
	struct cloud cloud;
	struct cloud_config config;
	/* owns the texts in cloud.needs: the inventory that they come from may be replaced */
	struct arena arena;
	struct cl_loader *loader;
	struct cl_watcher *watcher;
	struct cl_state *state;        /* NULL: neither balancers nor routes are offered */
	struct cl_hook *balancer_hook; /* NULL: none */
	struct cl_haproxy *haproxy;    /* NULL: none */
	struct cl_routes_run *routes;  /* NULL: not offered */
	/* the watcher reads the file again when it changes, and not only on SIGHUP */
	bool is_watched;
};

static inline struct cloudlycke *
cloudlycke_of(struct cloud *cloud)
{
	return CONTAINER_OF(cloud, struct cloudlycke, cloud);
}

/** Offers load balancers if the inventory has loadBalancers: addresses from a pool, which a hook,
 * HAProxy, both or neither serve. The host outlives the cloud. ERR_UNSUPPORTED: HAProxy on this
 * host with several replicas. */
NODISCARD bool cl_balancers_open(struct cloudlycke *, const struct cl_balancers *config,
                                 const struct cloud_host *host, struct error *err);

/** Offers routes if the inventory has them. The host outlives the cloud. */
void cl_routes_open(struct cloudlycke *, const struct cl_routes *config,
                    const struct cloud_host *host);
void cl_routes_close(struct cl_routes_run *); /* NULL is fine */

#endif
