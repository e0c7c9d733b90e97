/* request.h: what a Service asks of us: its fields and annotations against the inventory (B.6). */
#ifndef CCMD_CLOUDLYCKE_REQUEST_H
#define CCMD_CLOUDLYCKE_REQUEST_H

#include "providers/cloudlycke/record.h"

#define CL_ANNOTATION(suffix) "service.beta.kubernetes.io/cloudlycke-load-balancer-" suffix

struct cl_request {
	struct cl_wish wish;
	struct cl_record draft; /* without addresses, targets and generation */
};

/** Views are of the spec, the schema, or in the arena. ERR_INVALID names what is wrong. */
NODISCARD bool cl_request_read(const struct cl_schema *schema, const struct lb_spec *spec,
                               struct arena *arena, struct cl_request *ret, struct error *err);

/** The pool that the Service names, or the default one. ERR_INVALID: there is no such pool, or not for its namespace. */
NODISCARD bool cl_request_pool(const struct cl_schema *schema, const struct lb_spec *spec,
                               struct arena *arena, const struct cl_pool **ret, struct error *err);
/** Could a Service of that namespace have been given the address, by any of the pools? */
bool cl_request_could_have(const struct cl_schema *schema, struct str namespace,
                           const struct ip *ip);

/** What can be told of a balancer from its Service alone, whatever is wrong with that: for those that exist already. Its
 * addresses are those of the status. */
void cl_request_recall(const struct lb_spec *spec, struct arena *arena,
                       struct cl_record *ret_draft);

#endif
