/* controllers/route/route_guard.h: which pod CIDRs may be routed, and which routes may be removed
 * now.
 *
 * A kubelet writes its own Node, and may give it any pod CIDR while it has none (NodeRestriction
 * and validation permit that): 0.0.0.0/0, or the CIDR of another node. So a pod CIDR is only a
 * claim. A claim is granted if it overlaps with no claim of higher precedence: claims that have
 * their route already come first, then claims of older nodes. The API server sets creation times,
 * so a compromised kubelet cannot make its node older.
 *
 * Removals have a breaker like deletions of nodes (guard.h), because an API server without our
 * nodes (a fresh one, or one of another cluster) looks exactly as if all nodes were gone, and
 * without routes pods cannot reach each other.
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
	size_t node; /* an index of the caller */
	struct str cidr;
	struct ip_net net;       /* the CIDR, parsed; route_claims_decide() clears its host bits */
	int64_t created_wall_ns; /* of the node; age and UID decide the precedence */
	struct str uid;          /* of the node */
	bool is_routed;          /* its route to this node exists, and stays while the node lives */

	bool is_granted; /* the decision */
	const struct route_claim
		*lost_to; /* a granted claim that overlaps with it; NULL: this claim is granted */

	struct route_claim *outer; /* the narrowest claim that this one is within */
	struct route_claim *inner; /* a granted claim that is within this one, or is this one */
};

/** Decides all claims. Granted claims do not overlap, except where existing routes of two live
 * nodes overlap.
 *
 * Cost: O(n log n); claims that are all nested in each other cost O(n) each. */
void route_claims_decide(struct arena *arena, struct route_claim claims[], size_t n);

/** Is a's node older than b's? If both have the same age, the lower UID counts as older. */
bool route_claim_is_older(const struct route_claim *a, const struct route_claim *b);

enum {
	ROUTE_BREAKER_MIN = 3,        /* up to this number within the window is never too many */
	ROUTE_BREAKER_PERCENT = 20,   /* neither is up to this share of the table */
	ROUTE_BREAKER_WINDOW_S = 600, /* removals within this time are counted together */
	/* too many removals wait until runs have wanted them for this long */
	ROUTE_BREAKER_AGREEMENT_S = 300,
};

/** Everything that the decision about one removal depends on. */
struct route_removal_facts {
	size_t n_nodes; /* that the cluster shows */
	size_t n_table; /* our routes, including those removed within the window */
	size_t n_going; /* unexpected removals: done within the window, or due now */
	/* a live node has the destination among its pod CIDRs, or the node that had it was
	 * announced as leaving */
	bool is_expected;
	int64_t agreed_ns; /* for how long runs have wanted this removal */
};

enum route_removal {
	ROUTE_REMOVAL_DONE,
	ROUTE_REMOVAL_TOO_MANY, /* held until runs have agreed for ROUTE_BREAKER_AGREEMENT_S */
	ROUTE_REMOVAL_NO_NODES, /* held until the cluster shows a node */
};

enum route_removal route_removal_decide(const struct route_removal_facts *facts);

#endif
