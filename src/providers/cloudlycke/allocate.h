/* allocate.h: what a Service asks for, and which addresses it gets.
 *
 * Pure functions of the Service, the inventory, and the addresses that other Services have.
 *
 * Rules for the address of one family, in this order. A wanted address is given, or refused with
 * the reason. An address that the Service has already stays if it still fits. With a sharing key,
 * the Service gets the address of a Service with the same key and namespace if they have no port in
 * common. Otherwise it gets the lowest free address of the first listed block that has one.
 */
#ifndef CCMD_CLOUDLYCKE_ALLOCATE_H
#define CCMD_CLOUDLYCKE_ALLOCATE_H

#include "providers/cloudlycke/record.h"

struct cl_desired {
	const struct cl_pool *pool;
	const enum ip_family *families; /* in the order in which addresses are given */
	size_t n_families;
	bool may_lack; /* an address of one family is enough (PreferDualStack) */
	struct ip wanted[CL_FAMILIES];
	size_t n_wanted;
	/* what it has now; the others may include it, and it is skipped there by its UID */
	struct cl_holding self;
};

struct cl_grant {
	struct ip addresses[CL_FAMILIES];
	size_t n_addresses;
};

#define CL_ANNOTATION(suffix) "service.beta.kubernetes.io/cloudlycke-load-balancer-" suffix

struct cl_request {
	struct cl_desired desired;
	struct cl_record draft; /* without addresses, targets and generation */
};

/** Views are of the spec, the schema, or in the arena. ERR_INVALID names what is wrong. */
NODISCARD bool cl_request_read(const struct cl_schema *schema, const struct lb_spec *spec,
                               struct arena *arena, struct cl_request *ret, struct error *err);

/** The pool that the Service names, or the default one. ERR_INVALID: the pool does not exist, or
 * its namespace may not use it. */
NODISCARD bool cl_request_pool(const struct cl_schema *schema, const struct lb_spec *spec,
                               struct arena *arena, const struct cl_pool **ret, struct error *err);
/** Could any pool have given the address to a Service of that namespace? */
bool cl_request_could_have(const struct cl_schema *schema, struct str namespace,
                           const struct ip *ip);

/** The draft of a balancer that exists already, made from its Service alone and never refused. Its
 * addresses are those of the status. */
void cl_request_recall(const struct lb_spec *spec, struct arena *arena,
                       struct cl_record *ret_draft);

/** Is the address in the pool and usable? *ret_is_avoided: it is in the pool, but excluded (avoid,
 * avoidEdges). */
bool cl_pool_has(const struct cl_pool *pool, const struct ip *ip, bool *ret_is_avoided);
/** May both have the same address? *ret_port (may be NULL): the port that both want. */
bool cl_may_share(const struct cl_holding *a, const struct cl_holding *b,
                  const struct lb_port **ret_port);

/** ERR_INVALID with what an operator can do. *ret_is_full (may be NULL): true if the removal of
 * another Service would help. The arena is for messages. Cost: O(n log n) where a new address is
 * looked for. */
NODISCARD bool cl_allocate(const struct cl_desired *desired,
                           const struct cl_holding *const others[], size_t n, struct arena *arena,
                           struct cl_grant *ret, bool *ret_is_full, struct error *err);

#endif
