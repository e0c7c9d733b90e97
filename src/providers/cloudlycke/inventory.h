/* inventory.h: one state of the file, checked, indexed and never changed.
 *
 * Counted, so that a look can go on using the one it began with while a newer one takes its place.
 */
#ifndef CCMD_CLOUDLYCKE_INVENTORY_H
#define CCMD_CLOUDLYCKE_INVENTORY_H

#include <stdatomic.h>

#include "providers/cloudlycke/sections.h"

struct cl_inventory {
	_Atomic unsigned n_refs;
	struct arena arena;
	struct cl_schema schema;
	struct cl_names names;
	struct map by_host;  /* Hostname addresses that are no name or alias */
	bool ends_with_line; /* the text's last line is whole */
	bool ends_with_mark; /* its last line is "...", the end of a YAML document */
};

/** Reads a file's text. NULL when there are problems. One reference. */
struct cl_inventory *cl_inventory_parse(struct str text, struct cl_problems *problems);
struct cl_inventory *cl_inventory_ref(struct cl_inventory *);
void cl_inventory_unref(struct cl_inventory *); /* NULL is fine */
DEFINE_CLEANUP(struct cl_inventory, cl_inventory_unref)

/** The machine with exactly that id, or NULL. */
const struct cl_machine *cl_inventory_by_id(const struct cl_inventory *, struct str id);

/** By name or alias, else by Hostname address. False when several machines have that Hostname: then *ids gets
 * theirs, "a, b". *ret is NULL when there is none. */
NODISCARD bool cl_inventory_by_name(const struct cl_inventory *, struct str name,
                                    const struct cl_machine **ret, struct buf *ids);

#endif
