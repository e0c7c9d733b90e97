/* routes.h: routes to the pods of machines: the inventory's static ones, and those that the
 * controller asked for.
 *
 * A route that the controller asks for is written to the state file and then passed to a hook.
 * Until its hook has succeeded it is listed as unfinished, so that the controller asks for it
 * again. Without a hook, the routes are only for other programs that read the state file.
 *
 * Threads: as cloud/route.h says.
 */
#ifndef CCMD_CLOUDLYCKE_ROUTES_H
#define CCMD_CLOUDLYCKE_ROUTES_H

#include "cloud/host.h"
#include "cloud/route.h"
#include "providers/cloudlycke/loader.h"
#include "providers/cloudlycke/state.h"

struct cl_routes_run;

/** The loader, the state and host outlive it. NULL when the inventory has no routes. */
struct cl_routes_run *cl_routes_open(const struct cloud_config *config,
                                     const struct cloud_host *host, struct cl_loader *loader,
                                     struct cl_state *state);
void cl_routes_close(struct cl_routes_run *); /* NULL is fine */

/** For the cloud of a struct cloudlycke (cloudlycke.h) with routes. create: ERR_INVALID, the node
 * is not a machine of the inventory, or the destination is not within --cluster-cidr; ERR_EXISTS,
 * another node has a route to an overlapping destination. remove: ERR_INVALID, it is static. */
extern const struct route_ops cl_route_ops;

#endif
