/* controllers/route/route_plan.h: which routes are missing, which are too many
 * (docs/spec/framework.md, "Routes" and "NetworkUnavailable"). A pure function of plain values,
 * tested exhaustively. */
#ifndef CCMD_CONTROLLERS_ROUTE_ROUTE_PLAN_H
#define CCMD_CONTROLLERS_ROUTE_ROUTE_PLAN_H

#include "base/arena.h"
#include "cloud/route.h"

/** A node and what it is to be reached for. */
struct route_node {
	struct str name, uid;
	const struct str *pod_cidrs; /* to be routed */
	size_t n_pod_cidrs;
	const struct address *addresses;
	size_t n_addresses;
};

struct route_need {
	size_t node; /* index */
	struct str cidr;
};

enum route_condition {
	ROUTE_CONDITION_UNTOUCHED,   /* neither pod CIDRs nor a route */
	ROUTE_CONDITION_BY_RESULT,   /* created, unless one of its creations fails */
	ROUTE_CONDITION_NOT_CREATED, /* no pod CIDRs, though some route targets it */
};

struct route_plan {
	struct route_need *create;
	size_t n_create;
	size_t *remove; /* indices of listed routes */
	/* For each removal: a live node has that destination. route_removals_hold() sets further
	 * ones. */
	bool *is_expected;
	size_t n_remove;
	size_t n_ours;                    /* listed routes that are ours */
	enum route_condition *conditions; /* one per node */
	bool removes_first; /* creations begin when all removals have ended: some are for the same
	                       CIDR */
};

/** All memory in the arena. cluster_cidrs: --cluster-cidr: only routes to destinations within one
 * of them are ours and may be removed. */
struct route_plan route_plan(struct arena *, const struct route_node nodes[], size_t n_nodes,
                             const struct route routes[], size_t n_routes,
                             const struct ip_net cluster_cidrs[], size_t n_cluster_cidrs,
                             bool compares_addresses);

#endif
