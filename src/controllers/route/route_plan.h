/* controllers/route/route_plan.h: which routes are missing and which have to be removed
 * (docs/spec/framework.md, "Routes" and "NetworkUnavailable"). A pure function of plain values,
 * tested exhaustively. */
#ifndef CCMD_CONTROLLERS_ROUTE_ROUTE_PLAN_H
#define CCMD_CONTROLLERS_ROUTE_ROUTE_PLAN_H

#include "base/arena.h"
#include "cloud/route.h"

/** A node, and the pod CIDRs that are to be routed to it. */
struct route_node {
	struct str name, uid;
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
	struct route_need *create;
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

#endif
