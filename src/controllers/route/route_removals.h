/* controllers/route/route_removals.h: the history on which the decision about a removal
 * (route_guard.h) depends: since when runs have wanted it, how many routes were removed recently,
 * and which nodes were announced as leaving before they disappeared.
 *
 * A route names its destination, but not always its node: when a Node is gone, a provider may not
 * know to which node a machine belonged. So the pod CIDRs of nodes that left are stored until no
 * route leads to them.
 *
 * Threads: route_removals_expect() and route_removals_note() from any thread, the rest from the
 * controller's.
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

/** This node is gone. If it was announced as leaving, removals of its routes are expected. */
void route_removals_expect(struct route_removals *, const struct node *node);

/** The removals that a run holds for a later run. */
struct route_hold {
	const struct route **routes;
	size_t n;
	enum route_removal why;
	/* When the first of them is no longer held because of its age; CLOCK_FOREVER: never. */
	int64_t due_mono_ns;
};

/** Removes the held removals from the plan. */
struct route_hold route_removals_hold(struct route_removals *, struct arena *arena,
                                      const struct route *routes, size_t n_routes,
                                      struct route_plan *plan, size_t n_nodes);
/** Reports with an event that removals are held, and another that the cloud refused a creation
 * meanwhile: each once, until nothing is held any more. n_ours: routes that are ours. */
void route_removals_report(struct route_removals *, const struct route_hold *hold, size_t n_ours,
                           bool is_refused);
/** The i-th removal of the plan was done. */
void route_removals_note(struct route_removals *, const struct route_plan *plan, size_t i);

#endif
