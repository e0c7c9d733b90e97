/* file.h: the file while it is read: what the check of one part must know of others. For the tables only. */
#ifndef CCMD_CLOUDLYCKE_FILE_H
#define CCMD_CLOUDLYCKE_FILE_H

#include "providers/cloudlycke/reader.h"
#include "providers/cloudlycke/sections.h"

struct cl_file {
	struct cl_reader r;
	struct cl_schema *schema;
	struct cl_names *names;
	struct map types;    /* declared instance types */
	struct map pools;    /* by name */
	struct map routes;   /* static ones by name */
	struct map networks; /* static routes by destination */
	bool has_default_pool;
};

/* For tables: `IN(cl_machine, id)` is where a field's value goes. */
#define IN(type, member) .offset = offsetof(struct type, member)

static inline struct cl_file *
cl_file_of(struct cl_reader *r)
{
	return CONTAINER_OF(r, struct cl_file, r);
}

/** Is a name that must be unique in its list in use by item `before`, which is not NULL then? The list is an array of items
 * of `size` bytes that starts at `first` and that the file calls `list`. Complains. */
bool cl_is_taken(struct cl_reader *r, const struct yaml_node *node, struct str name,
                 const void *before, const char *list, const void *first, size_t size);
/** Adds such a name. */
void cl_claim(struct cl_reader *r, const struct yaml_node *node, struct map *names, struct str name,
              void *item, const char *list, const void *first, size_t size);

/* For cl_field.read. */
void cl_read_types(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                   void *into);
void cl_read_machines(struct cl_reader *r, const struct cl_field *field,
                      const struct yaml_node *node, void *into);
void cl_read_pools(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                   void *into);
void cl_read_balancers(struct cl_reader *r, const struct cl_field *field,
                       const struct yaml_node *node, void *into);
void cl_read_routes(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                    void *into);

#endif
