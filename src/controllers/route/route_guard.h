/* controllers/route/route_guard.h: which pod CIDRs may be routed, and which routes may be removed now.
 *
 * A kubelet writes its own Node, and may give it any pod CIDR as long as it has none (NodeRestriction and validation let it):
 * 0.0.0.0/0, or that of another node. So a pod CIDR is only a claim. One is granted if no other claim that overlaps with it
 * goes before it: one that has its route already, then that of the older node. The API server sets creation times, so a
 * stolen kubelet cannot make its node older.
 *
 * Removals have the breaker that deletions of nodes have (guard.h), since an API server without our nodes (a fresh one, or
 * one of another cluster) looks exactly like nodes that are gone, and without routes no pod reaches another.
 *
 * Pure functions of plain values, tested exhaustively.
 */
#ifndef CCMD_CONTROLLERS_ROUTE_ROUTE_GUARD_H
#define CCMD_CONTROLLERS_ROUTE_ROUTE_GUARD_H

#include "base/arena.h"
#include "base/clock.h"
#include "base/ip.h"

/** A pod CIDR that a node has in its spec. */
struct route_claim {
	size_t node; /* the caller's */
	struct str cidr;
	struct ip_net net;       /* the same; host bits are cleared by route_claims_decide() */
	int64_t created_wall_ns; /* the node's age and UID decide who goes first */
	struct str uid;
	bool is_routed; /* there is a route to this node for it, which nobody takes away while the node lives */

	bool is_granted; /* the answer */
	const struct route_claim
		*lost_to; /* one that is granted and overlaps; NULL: it is granted */

	struct route_claim *outer; /* the narrowest claim that this one is within */
	struct route_claim *inner; /* a granted claim that is within this one, or is this one */
};

/** Decides all claims. Granted ones do not overlap, except where routes of two live nodes do already.
 *
 * Cost: O(n log n), and O(n) more for each of n claims that are nested in each other. */
void route_claims_decide(struct arena *arena, struct route_claim claims[], size_t n);

/** Is a's node older than b's? Of one age, the lower UID counts as older. */
bool route_claim_is_older(const struct route_claim *a, const struct route_claim *b);

enum {
	ROUTE_BREAKER_MIN = 3,        /* so many within the window are never too many */
	ROUTE_BREAKER_PERCENT = 20,   /* nor is this share of the table */
	ROUTE_BREAKER_WINDOW_S = 600, /* removals so far apart are not "at once" */
	ROUTE_BREAKER_AGREEMENT_S =
		300, /* runs must have agreed so long where there are too many */
};

/** Everything that the decision about one removal depends on. */
struct route_removal_facts {
	size_t n_nodes; /* that the cluster shows */
	size_t n_table; /* our routes, and those removed within the window */
	size_t n_going; /* removals that count: done within the window, or due now */
	bool is_expected; /* a live node needs the destination, or its node was announced as leaving */
	int64_t agreed_ns; /* for how long runs have wanted this removal */
};

enum route_removal {
	ROUTE_REMOVAL_DONE,
	ROUTE_REMOVAL_TOO_MANY, /* held until runs have agreed for ROUTE_BREAKER_AGREEMENT_S */
	ROUTE_REMOVAL_NO_NODES, /* held until the cluster shows a node */
};

enum route_removal route_removal_decide(const struct route_removal_facts *facts);

#endif
