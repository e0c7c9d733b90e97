/* controllers/route/route.h: the route controller: it makes the pods of every node reachable
 * through the network of the cloud.
 *
 * A run compares the whole table of routes with the nodes. Runs happen at the start, after
 * failures, and when a node is added, removed, or changes its pod CIDRs or addresses. Otherwise
 * they are as rare as --route-reconciliation-period and the provider's own idle period permit, so
 * an idle cluster costs few requests. A run creates and removes several routes at the same time.
 *
 * Threads: the controller has its own; all functions may be called from any thread.
 */
#ifndef CCMD_CONTROLLERS_ROUTE_ROUTE_H
#define CCMD_CONTROLLERS_ROUTE_ROUTE_H

#include "base/ip.h"
#include "controllers/env.h"
#include "controllers/route/route_plan.h"

#define ROUTE_COMPONENT "route_controller" /* with an underscore, as in the Go controllers */

struct route_controller;

struct route_controller_config {
	int64_t period_ns;                  /* --route-reconciliation-period */
	const struct ip_net *cluster_cidrs; /* --cluster-cidr, at least one */
	size_t n_cluster_cidrs;
};

/** Subscribes to the store of nodes and starts the thread, which waits until the store has synced.
 * Must be called before the reflector starts, so that no change is missed. */
struct route_controller *route_controller_new(struct controller_env *env,
                                              const struct route_controller_config *config);
/** Something changed in the cloud: a run is due now. is_outage_over: an API of the cloud is
 * available again, so it is due only if the last one has left work. */
void route_controller_wake(struct route_controller *, bool is_outage_over);
/** For use after the cancel token has fired: is a run under way, so that the API server or the
 * cloud may still execute a request of it? */
bool route_controller_is_working(const struct route_controller *);

/** How the last run ended. Times are relative to the call. */
struct route_outcome {
	bool is_known;          /* a run has ended */
	struct str error;       /* its last failure, in the arena; empty: nothing failed */
	unsigned n_failures;    /* runs in a row that failed */
	size_t n_held;          /* removals that are held back */
	bool is_held_for_nodes; /* because the cluster shows no nodes; else because of their number
	                         */
	int64_t held_for_ns; /* if any is held: until then; CLOCK_FOREVER: until that is corrected
	                      */
	int64_t ended_ago_ns, next_run_in_ns;
};
struct route_outcome route_controller_outcome(struct route_controller *, struct arena *);

/* ---- the decision without a history, also for commands that change nothing (operator/) ---- */

/** What a run changes, if it holds no removal back. Views are of the nodes or in the arena. */
struct route_decision {
	struct route_node *nodes; /* index by index, with the pod CIDRs that are to be routed */
	bool *has_lost;           /* for each node: one of its pod CIDRs is another node's */
	struct route_plan plan;
};

/** all: the nodes of env->nodes. routes: as env->cloud lists them. Without env->event_dedup, no
 * events are sent. */
struct route_decision route_decide(struct controller_env *env,
                                   const struct route_controller_config *, struct arena *,
                                   const struct store_list *all, const struct route_list *routes);

/** Joins the thread; the cancel token must have fired. NULL is fine. */
void route_controller_free(struct route_controller *);

#endif
