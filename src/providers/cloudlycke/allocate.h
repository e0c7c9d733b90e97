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

#define CL_ANNOTATION(suffix) "service.beta.kubernetes.io/cloudlycke-load-balancer-" suffix

struct cl_request {
	const struct cl_pool *pool;
	const enum ip_family *families; /* in the order in which addresses are given */
	size_t n_families;
	bool may_lack; /* an address of one family is enough (PreferDualStack) */
	struct cl_addresses wanted;
	struct cl_record_values values; /* without addresses, targets and the hook's progress */
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

/** The values of a balancer that exists already, made from its Service alone and never refused. Its
 * addresses are those of the status. */
void cl_values_from_status(const struct lb_spec *spec, struct arena *arena,
                           struct cl_record_values *ret);

/** May both have the same address? *ret_port (may be NULL): the port that both want. */
bool cl_may_share(const struct cl_allocation *a, const struct cl_allocation *b,
                  const struct lb_port **ret_port);

/** present: the addresses that the Service has now. The others may include the Service: it is
 * skipped there by its UID. ERR_INVALID with what an operator can do; *ret_is_full is then true if
 * the removal of another Service would help. The arena is for messages. Cost: O(n log n) where a
 * new address is looked for. */
NODISCARD bool cl_allocate(const struct cl_request *request, const struct cl_addresses *present,
                           const struct cl_allocation *const others[], size_t n,
                           struct arena *arena, struct cl_addresses *ret, bool *ret_is_full,
                           struct error *err);

#endif
