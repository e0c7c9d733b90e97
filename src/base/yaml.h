/* base/yaml.h: parses a bounded YAML document into a tree with line numbers.
 *
 * The parser is libyaml. Aliases and anchors are refused (a few lines of them can expand without
 * limit), as are several documents in one file, non-scalar keys, nesting deeper than
 * LIMIT_YAML_DEPTH and more than LIMIT_YAML_NODES nodes. The tree lives in the caller's arena.
 *
 * Scalars keep their text and whether they were quoted: `on` is the text "on" and may be read as a
 * bool or a string, "on" in quotes only as a string. The tags !!str and ! have the effect of
 * quotes; !!null, !!bool, !!int and !!float that of their absence; all other tags are refused. "<<"
 * is an ordinary key. JSON is accepted as YAML.
 *
 * Threads: every function may be called from any thread; the arena belongs to the caller.
 */
#ifndef CCMD_BASE_YAML_H
#define CCMD_BASE_YAML_H

#include "base/arena.h"
#include "base/error.h"

enum yaml_kind {
	YAML_NULL, /* empty, ~ or null, unquoted */
	YAML_SCALAR,
	YAML_LIST,
	YAML_MAP,
};

struct yaml_node {
	enum yaml_kind kind;
	bool is_quoted;
	int line;                /* from 1 */
	struct str text;         /* YAML_SCALAR and YAML_NULL: as written, unescaped */
	size_t n;                /* YAML_LIST, YAML_MAP */
	struct yaml_node *items; /* YAML_LIST: n elements; YAML_MAP: n values */
	struct yaml_key
		*keys; /* YAML_MAP: n keys, in the order of the file; may contain duplicates */
};

struct yaml_key {
	struct str text;
	int line;
};

/** Returns false with ERR_INVALID; when libyaml refuses the text, the message is that of libyaml.
 * *ret_line (may be NULL) is written on failure only: the line of the problem, or 0 when it is
 * unknown. An empty text gives a YAML_NULL node. */
NODISCARD bool yaml_parse(struct str text, struct arena *arena, struct yaml_node *ret,
                          int *ret_line, struct error *err);

/** Returns the first value with that key; NULL when the key is absent or node is not a map. */
const struct yaml_node *yaml_get(const struct yaml_node *node, struct str key);

/** Returns "list", "map", "string", "boolean", "number" or "null": the term for messages to the
 * author of the file. */
const char *yaml_kind_name(const struct yaml_node *node);

/** Reads an unquoted true or false; with allow_yaml11 also on, off, yes and no in any case. */
NODISCARD bool yaml_to_bool(const struct yaml_node *node, bool allow_yaml11, bool *ret);

#endif
