/* tests/simulation/target.h: reads the target of a request, for the models.
 *
 * Threads: none.
 */
#ifndef CCMD_TESTS_SIMULATION_TARGET_H
#define CCMD_TESTS_SIMULATION_TARGET_H

#include "base/arena.h"
#include "base/str.h"

struct target_pair {
	struct str name, value;
};

/** Decodes %XX; an incomplete one stays as it is.
 *
 * @param is_query  '+' means a space */
struct str target_unescape(struct arena *, struct str text, bool is_query);

/** The parameters, decoded, in their order.
 *
 * @param query  the part behind '?' */
struct target_pair *target_read_query(struct arena *, struct str query, size_t *ret_n);

/** Compares a path with a pattern, element by element; "{id}" stands for any one.
 *
 * @param ret_id  the element that {id} stands for; empty: the pattern has none */
bool target_matches(const char *pattern, struct str path, struct str *ret_id);

#endif
