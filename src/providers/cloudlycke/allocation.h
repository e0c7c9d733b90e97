/* allocation.h: which addresses a Service gets.
 *
 * Pure: what is asked for and what others hold go in, addresses or a reason come out. Rules, in this order: an address
 * that the Service has and that still fits stays; a wanted one is given or refused with the reason; with a sharing key, one
 * that a Service of the same key and namespace has, where no port is wanted twice; else the lowest that is free, first
 * listed block first (B.6).
 */
#ifndef CCMD_CLOUDLYCKE_ALLOCATION_H
#define CCMD_CLOUDLYCKE_ALLOCATION_H

#include "base/arena.h"
#include "cloud/balancer.h"
#include "providers/cloudlycke/inventory.h"

enum {
	CL_FAMILIES = 2, /* at most one address of each */
};

/** What one Service holds. All views are borrowed. */
struct cl_holding {
	struct str namespace, service, uid;
	struct str share_key; /* empty: shares with nobody */
	const struct lb_port *ports;
	size_t n_ports;
	struct ip addresses[CL_FAMILIES];
	size_t n_addresses;
};

struct cl_wish {
	const struct cl_pool *pool;
	const enum ip_family *families; /* in the order in which addresses are given */
	size_t n_families;
	bool may_lack; /* one family is enough (PreferDualStack) */
	struct ip wanted[CL_FAMILIES];
	size_t n_wanted;
	struct cl_holding
		self; /* what it has now; its own entry among the holdings is skipped, by UID */
};

struct cl_grant {
	struct ip addresses[CL_FAMILIES];
	size_t n_addresses;
};

/** Is the address in the pool, and not one of those never handed out? */
bool cl_pool_has(const struct cl_pool *pool, const struct ip *ip, bool *ret_is_avoided);
bool cl_holding_has(const struct cl_holding *h, const struct ip *ip);
/** May both have the same address? *ret_port (may be NULL): the port that both want. */
bool cl_may_share(const struct cl_holding *a, const struct cl_holding *b,
                  const struct lb_port **ret_port);

/** ERR_INVALID with what is to be done about it. *ret_is_full (may be NULL): true where another Service's going would
 * help. The arena is for messages. Cost: O(n log n) where a new address is looked for. */
NODISCARD bool cl_allocate(const struct cl_wish *wish, const struct cl_holding *const others[],
                           size_t n, struct arena *arena, struct cl_grant *ret, bool *ret_is_full,
                           struct error *err);

#endif
