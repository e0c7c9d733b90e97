/* guard.h: may a changed inventory file take effect?
 *
 * A file that can delete nodes is edited by people and written by programs that crash. A change
 * that removes many machines together, or that removes machines and the end of the file, counts as
 * an accident.
 */
#ifndef CCMD_CLOUDLYCKE_GUARD_H
#define CCMD_CLOUDLYCKE_GUARD_H

#include "providers/cloudlycke/inventory.h"

struct cl_changes {
	size_t n_before; /* machines that were there and not terminated */
	size_t n_added;
	size_t n_removed; /* not listed any more, or terminated */
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
