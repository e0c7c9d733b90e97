/* cloud/route.h: routes to the pods of each node, as a provider sees them.
 *
 * Threads: list() from one thread; create() and remove() for different routes at the same time.
 */
#ifndef CCMD_CLOUD_ROUTE_H
#define CCMD_CLOUD_ROUTE_H

#include "base/ip.h"
#include "cloud/cloud.h"

struct route {
	struct str name;        /* the provider's name for it; never compared */
	struct str gateway;     /* the address that it leads to; empty: not known */
	struct str target_node; /* empty: the target is not a node of this cluster */
	/* exactly the text that create() was given, because texts are compared */
	struct str destination_cidr;
	bool is_blackhole; /* its target is gone */
	/* create() began but did not finish, so it is unknown whether the route works */
	bool is_unfinished;
	bool is_fixed;                          /* not ours to remove */
	const struct address *target_addresses; /* if route_ops.compares_addresses */
	size_t n_target_addresses;
};

struct route_list {
	struct route *routes; /* in the call's arena */
	size_t n;
	/* Machines send only packets to this network along the routes, and none to its subnets.
	 * Empty: the cloud has no such limit. */
	struct str range;
	const struct str *subnets;
	size_t n_subnets;
};

struct route_ops {
	/** Which families of pod CIDRs can be routed. Pod CIDRs of other families are ignored in
	 * the plan and in the nodes' NetworkUnavailable condition, and one event reports that. */
	unsigned (*families)(struct cloud *); /* bits: 1 IPv4, 2 IPv6 */
	/* list() fills target_addresses; a route is created again if those of its node changed */
	bool compares_addresses;
	/** How old an answer of list() may be while nothing changes, so that an idle loop costs
	 * nothing; 0: the flag's period. */
	int64_t idle_period_ns;
	bool (*list)(struct cloud *, struct call *, struct route_list *ret, struct error *);
	/** hint: the node's UID. ERR_EXISTS is success where the route is the same. */
	bool (*create)(struct cloud *, struct call *, const struct node_ref *node, struct str hint,
	               struct str destination_cidr, struct error *);
	/** Removes a route as list() returned it. Succeeds if it is already gone. */
	bool (*remove)(struct cloud *, struct call *, const struct route *, struct error *);
	/** For a dry run, which does not call create(): what create() would fail with before it
	 * sends a change. NULL: that is not known. */
	bool (*check_create)(struct cloud *, struct call *, const struct node_ref *node,
	                     struct str destination_cidr, struct error *);
};

#endif
