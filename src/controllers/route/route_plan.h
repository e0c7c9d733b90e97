/* controllers/route/route_plan.h: which pod CIDRs may be routed, which routes are missing, and
 * which have to be removed, now or later (docs/spec/framework.md, "Routes" and
 * "NetworkUnavailable").
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
#ifndef CCMD_CONTROLLERS_ROUTE_ROUTE_PLAN_H
#define CCMD_CONTROLLERS_ROUTE_ROUTE_PLAN_H

#include "base/arena.h"
#include "base/clock.h"
#include "base/ip.h"
#include "cloud/route.h"

/* ---- claims ---- */

/** A pod CIDR that a node has in its spec. */
struct route_claim {
	size_t node; /* an index of the caller */
	struct str cidr;
	struct ip_net net;       /* the CIDR, parsed; route_claims_decide() clears its host bits */
	int64_t created_wall_ns; /* of the node; age and UID decide the precedence */
	struct str uid;          /* of the node */
	bool is_routed;          /* its route to this node exists, and stays while the node lives */

	/* set by route_claims_decide(), zero before */
	bool is_granted;
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

/* ---- the plan ---- */

/** The key of a route: "node CIDR". Neither a node's name nor a CIDR contains a blank. */
struct str route_key(struct arena *, struct str node, struct str cidr);

/** A node, and the pod CIDRs that are to be routed to it. */
struct route_node {
	struct str name;
	const struct str *pod_cidrs;
	size_t n_pod_cidrs;
	const struct address *addresses;
	size_t n_addresses;
	/* another node has its provider ID, so routes to its machine are neither made nor removed,
	 * except where another node needs their destination */
	bool is_frozen;
};

/** A route that has to be created. */
struct route_need {
	size_t node; /* its index */
	struct str cidr;
};

/** What the plan means for the condition NetworkUnavailable of a node. */
enum route_condition {
	/* the node has neither pod CIDRs nor a route, or is frozen: the condition is not ours to
	 * write */
	ROUTE_CONDITION_UNTOUCHED,
	ROUTE_CONDITION_BY_RESULT,   /* routes exist, unless one of the creations fails */
	ROUTE_CONDITION_NOT_CREATED, /* the node has no pod CIDRs, but a route leads to it */
};

struct route_plan {
	struct route_need *create; /* in the order of the nodes */
	size_t n_create;
	size_t *remove; /* indices of listed routes */
	/* For each removal: a live node has its destination among its pod CIDRs, so the removal is
	 * not a mistake. route_removals_hold() sets further ones. */
	bool *is_expected;
	size_t n_remove;
	size_t n_ours;                    /* listed routes that are ours */
	enum route_condition *conditions; /* one per node */
	/* creations begin when all removals have ended: some are for the same CIDR */
	bool removes_first;
};

/** Makes the plan; all its memory is in the arena. Only routes to destinations within one of
 * cluster_cidrs (--cluster-cidr) are ours and may be removed. compares_addresses: a route whose
 * target addresses differ from the node's is replaced. */
struct route_plan route_plan(struct arena *, const struct route_node nodes[], size_t n_nodes,
                             const struct route routes[], size_t n_routes,
                             const struct ip_net cluster_cidrs[], size_t n_cluster_cidrs,
                             bool compares_addresses);

/* ---- the breaker of removals ---- */

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
