/* controllers/route/route_internal.h: what the files behind controllers/route/route.h share.
 *
 * 	route.c             the loop and its runs, which call the other files
 * 	route_claims.c      which pod CIDRs of each node are to be routed
 * 	route_plan.c        the decisions, as pure functions (route_plan.h)
 * 	route_removals.c    the history of removals, which may be held back
 * 	route_conditions.c  the condition NetworkUnavailable
 *
 * Threads: the controller's, except route_removals_expect(), route_removals_note() and
 * route_removals_note_unconfirmed(), which any thread may call.
 */
#ifndef CCMD_CONTROLLERS_ROUTE_ROUTE_INTERNAL_H
#define CCMD_CONTROLLERS_ROUTE_ROUTE_INTERNAL_H

#include "base/map.h"
#include "controllers/route/route.h"
#include "controllers/route/route_plan.h"
#include "kube/node.h"

/* ---- route_removals.c ---- */

struct route_removals {
	struct controller_env *env;
	struct map wanted; /* struct wanted_removal */
	uint64_t n_runs;
	bool is_hold_reported; /* an event has reported that removals are held */
	/* an event has reported that a route could not be created meanwhile */
	bool is_full_reported;

	pthread_mutex_t mu;
	struct map expected;    /* mu; struct expected_removal */
	struct map unconfirmed; /* mu; struct unconfirmed_removal */
	int64_t *done_boot_ns;  /* mu; the times of removals within the window that count */
	size_t n_done, done_cap;
};

void route_removals_init(struct route_removals *, struct controller_env *env);
void route_removals_fini(struct route_removals *);

/** This node is gone. If it was announced as leaving, removals of its routes are expected. */
void route_removals_expect(struct route_removals *, const struct node *node);
/** This node exists: the removal of its routes is not expected, even if a former node with the same
 * pod CIDR was announced as leaving. */
void route_removals_claim(struct route_removals *, const struct node *node);

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
/** The cloud has not confirmed the i-th removal of the plan, but may have executed it. */
void route_removals_note_unconfirmed(struct route_removals *, struct arena *arena,
                                     const struct route *routes, const struct route_plan *plan,
                                     size_t i);

/* ---- route_conditions.c ---- */

struct route_conditions {
	struct controller_env *env;
	struct condition_state *all; /* owned; sorted by uid */
	size_t n;
};

/** The result of a run for one node. */
struct route_result {
	const struct node *node;
	enum node_network wanted; /* NODE_NETWORK_OTHER: another component decides */
};

/** Replaces the results of the previous run. Nodes without a result are not written to. */
void route_conditions_set(struct route_conditions *, const struct route_result results[], size_t n);
/** Writes the conditions of nodes that differ from the results. Returns when to call it again
 * (mono), unless a node changes before; CLOCK_FOREVER: never. */
int64_t route_conditions_write(struct route_conditions *, const struct call *call);

#endif
