/* controllers/route/route_removals.h: what the decision about a removal (route_guard.h) needs to remember: since when runs have wanted
 * it, what was removed a short while ago, and which nodes were announced as leaving before they went.
 *
 * A route tells its destination and not always its node: where a Node is gone, a provider may not know whose the machine was.
 * So it is the pod CIDRs of nodes that left which are remembered, until there is no route to them.
 *
 * Threads: route_removals_expect() and route_removals_note() from any; the rest is of the thread that runs.
 */
#ifndef CCMD_CONTROLLERS_ROUTE_ROUTE_REMOVALS_H
#define CCMD_CONTROLLERS_ROUTE_ROUTE_REMOVALS_H

#include "controllers/env.h"
#include "controllers/route/route_guard.h"
#include "controllers/route/route_plan.h"
#include "kube/node.h"

struct route_removals;

struct route_removals *route_removals_new(struct controller_env *env);
void route_removals_free(struct route_removals *); /* NULL is fine */

/** This node is gone. If it was announced, its routes are expected to go, too. */
void route_removals_expect(struct route_removals *, const struct node *node);

/** What a run leaves for a later one. */
struct route_hold {
	size_t n; /* removals */
	enum route_removal why;
	int64_t due_mono_ns; /* when the first of them will have been agreed on; CLOCK_FOREVER: not by waiting */
};

/** Takes the removals that are not to be done now out of the plan. */
struct route_hold route_removals_hold(struct route_removals *, struct arena *arena,
                                      const struct route *routes, size_t n_routes,
                                      struct route_plan *plan, size_t n_nodes);
/** Reports with an event that removals are held, and another that the cloud refused a creation meanwhile: each once, until
 * nothing is held any more. n_ours: routes that are ours. */
void route_removals_report(struct route_removals *, const struct route_hold *hold, size_t n_ours,
                           bool is_refused);
/** The i-th removal of the plan was done. */
void route_removals_note(struct route_removals *, const struct route_plan *plan, size_t i);

#endif
