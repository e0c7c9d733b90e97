/* routes.h: routes to the pods of machines: the inventory's static ones, and those that the
 * controller asked for.
 *
 * A route that the controller asks for is written to the state file and then passed to a hook.
 * Until its hook has succeeded it is listed as unfinished, so that the controller asks for it
 * again. Without a hook the routes are there for other programs that read the state file.
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

/* As in struct route_ops. */
NODISCARD bool cl_routes_list(struct cl_routes_run *, struct call *call, struct route_list *ret,
                              struct error *err);
/** ERR_INVALID: the node is no machine, or the destination is not within --cluster-cidr;
 * ERR_EXISTS: another node has a route to an overlapping destination. */
NODISCARD bool cl_routes_create(struct cl_routes_run *, struct call *call,
                                const struct node_ref *node, struct str hint,
                                struct str destination, struct error *err);
/** ERR_INVALID: it is static. */
NODISCARD bool cl_routes_remove(struct cl_routes_run *, struct call *call,
                                const struct route *route, struct error *err);

#endif
