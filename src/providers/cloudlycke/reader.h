/* reader.h: reads a YAML tree into structs by tables of fields, and lists its problems.
 *
 * A table names the fields of a map, how each is read, where its value goes and what a value must
 * look like. Every mistake becomes a problem with line and path, and reading goes on: unknown,
 * duplicate and missing fields and wrong types are found here, the rules for values and what
 * concerns several parts of the file in inventory.c. Fields are read in the order
 * of the table, whatever their order in the file, so a field may rely on those before it.
 *
 * A field that is null counts as left out.
 */
#ifndef CCMD_CLOUDLYCKE_READER_H
#define CCMD_CLOUDLYCKE_READER_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/yaml.h"

/* ---- problems ---- */

/** E.g. `inventory.yaml:14: machines[0].id: required`. All problems are counted, the first
 * LIMIT_PROBLEMS by line are kept: an operator who fixes a file needs the whole list, not one line
 * per attempt. */
struct cl_problem {
	int line;
	char *text; /* "<file>:<line>: <path>: <message>" */
};

struct cl_problems {
	const char *file; /* its name in messages */
	size_t n;         /* found */
	size_t n_kept;
	struct cl_problem kept[LIMIT_PROBLEMS];
};

#define CL_PROBLEMS_INIT(name) ((struct cl_problems){ .file = (name) })

/** For CLEANUP(cl_problems_fini). */
void cl_problems_fini(struct cl_problems *p);

/** Appends the first `most` problems, with "; " between them, and " (and N more)" if any. */
void cl_problems_text(const struct cl_problems *p, size_t most, struct buf *b);

/* ---- reading ---- */

struct cl_reader {
	struct cl_problems *problems;
	struct arena *keep;   /* of the inventory */
	struct arena scratch; /* the tree and the quoted texts: freed when the file has been read */
	struct map interned;  /* texts that many machines share, to their one copy */
	struct buf path;      /* "machines[0].id" */
	/* the list whose items are being read */
	char *items;
	size_t item_size;
};

/** What a text must look like. */
struct cl_rule {
	bool (*is_valid)(struct str);
	const char *complaint;      /* "is not a valid node name", after the quoted text */
	const char *what;           /* "hook ", before it; NULL: nothing */
	const char *const *choices; /* or the words allowed, NULL-terminated */
	int64_t min, max;           /* cl_read_duration() */
};

struct cl_field;

/** Puts a value at `into`, or adds a problem and leaves it. */
typedef void cl_read_fn(struct cl_reader *, const struct cl_field *, const struct yaml_node *,
                        void *into);

struct cl_field {
	const char *name;
	cl_read_fn *read;
	size_t offset; /* of the value in the struct that the map is read into */
	const struct cl_rule *rule;
	bool is_required;
	/* cl_read_struct(): the fields of the map */
	const struct cl_field *fields;
	size_t n_fields;
	/* cl_read_list() */
	size_t n_offset; /* of the number of items, in the same struct as their array */
	size_t item_size, most;
	cl_read_fn *read_item;
	const void *initial; /* what an item is before it is read; NULL: zeros */
	bool is_not_empty;
	int unique_in; /* for read functions of inventory.c */
};

/** A problem at the present path, in the line of the node; 0: unknown. Foreign text in the message
 * has gone through quote_z(). */
void cl_add_problem(struct cl_reader *r, const struct yaml_node *node, const char *fmt, ...)
	PRINTF_LIKE(3, 4);
/** `"text" complaint`. */
void cl_add_value_problem(struct cl_reader *r, const struct yaml_node *at, struct str text,
                          const char *complaint);
/** Lengthens the path by ".name" or "[i]". Returns its former length, for cl_leave(). */
size_t cl_enter(struct cl_reader *r, const char *name);
size_t cl_enter_item(struct cl_reader *r, size_t i);
void cl_leave(struct cl_reader *r, size_t len);

/** False with a problem when the node is of another kind: "string", "list", "map", "boolean",
 * "number". A string's text is node->text, a view of the tree. */
bool cl_expect(struct cl_reader *r, const struct yaml_node *node, const char *kind);

/** A copy that lives as long as the inventory; equal texts share one. */
struct str cl_keep(struct cl_reader *r, struct str text);

/* ---- for cl_field.read ---- */

/** A map by the field's own table, into the struct at `into`. */
cl_read_fn cl_read_struct;
/** A list of at most `most` items, into an array that lives as long as the inventory. When the node
 * is not a list or is too long, there are no items. */
cl_read_fn cl_read_list;

cl_read_fn cl_read_string;
cl_read_fn cl_read_bool;
cl_read_fn cl_read_choice;   /* into int: the index of the word */
cl_read_fn cl_read_duration; /* into int64_t, in nanoseconds */
cl_read_fn cl_read_percent;  /* into int64_t */
/* Informative values, which are checked and not kept. */
cl_read_fn cl_read_count;
cl_read_fn cl_read_quantity;

#endif
