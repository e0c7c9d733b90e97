/* sections.h: the schema of an inventory file as tables, and what concerns several of its parts. */
#ifndef CCMD_CLOUDLYCKE_SECTIONS_H
#define CCMD_CLOUDLYCKE_SECTIONS_H

#include "base/arena.h"
#include "base/map.h"
#include "providers/cloudlycke/reader.h"
#include "providers/cloudlycke/schema.h"

/** Where names lead: to a struct cl_machine of the schema, which also holds the keys. */
struct cl_names {
	struct map by_name, by_alias, by_id;
};

/** The machine with that name or alias, or NULL. */
struct cl_machine *cl_names_find(const struct cl_names *names, struct str name_or_alias);

/** Reads and checks a whole file into *ret and *names. What is kept goes to the arena. Whether it may be used
 * is for the problems to say. */
void cl_read_schema(struct str text, struct arena *keep, struct cl_problems *problems,
                    struct cl_names *names, struct cl_schema *ret);

#endif
