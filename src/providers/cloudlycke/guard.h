/* guard.h: may a new state of the file take the place of the present one?
 *
 * A file that can delete nodes is edited by people and written by programs that crash. A file that
 * loses many machines at once, or loses machines and its own end, counts as an accident.
 */
#ifndef CCMD_CLOUDLYCKE_GUARD_H
#define CCMD_CLOUDLYCKE_GUARD_H

#include "providers/cloudlycke/inventory.h"

struct cl_changes {
	size_t n_before; /* machines that were there and not terminated */
	size_t n_added;
	size_t n_removed; /* gone or terminated */
	size_t n_changed;
};

void cl_compare(const struct cl_inventory *before, const struct cl_inventory *after,
                struct cl_changes *ret);

/** False with the reason, "would remove …". The limit is that of the new file, so that one edit can
 * both raise it and use it. */
NODISCARD bool cl_guard(const struct cl_inventory *before, const struct cl_inventory *after,
                        const struct cl_changes *changes, struct buf *why);

/** Are the address pools the same? */
bool cl_pools_eq(const struct cl_schema *a, const struct cl_schema *b);

/** Appends the names, "a,b", of fields that differ and that are fixed at start. */
void cl_changes_at_restart(const struct cl_schema *before, const struct cl_schema *after,
                           struct buf *b);

#endif
