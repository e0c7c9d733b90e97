/* base/yaml.h: a bounded YAML document as a tree that knows its line numbers.
 *
 * libyaml does the work. Aliases and anchors are refused (a few lines of them can grow without
 * end), as are several documents in one file, non-scalar keys, more depth than LIMIT_YAML_DEPTH and
 * more nodes than LIMIT_YAML_NODES. Everything lives in the caller's arena.
 *
 * Scalars keep their text and whether they were quoted: `on` is the text "on" and may be read as a
 * bool or a string, "on" in quotes only as a string. The tags !!str and ! count as quotes, !!null,
 * !!bool, !!int and !!float as their absence; all others are refused. "<<" is a key like any other.
 * JSON is read as YAML.
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
	struct yaml_key *keys;   /* YAML_MAP: n keys, in the file's order; may hold duplicates */
};

struct yaml_key {
	struct str text;
	int line;
};

/** False with ERR_INVALID, in libyaml's words where it is libyaml that refuses; *ret_line (may be
 * NULL) is the line of the problem, 0 when unknown. An empty text gives a YAML_NULL node.
 * *ret_line is written on failure only. */
NODISCARD bool yaml_parse(struct str text, struct arena *arena, struct yaml_node *ret,
                          int *ret_line, struct error *err);

/** The first value with that key, or NULL; also NULL when node is not a map. */
const struct yaml_node *yaml_get(const struct yaml_node *node, struct str key);

/** "list", "map", "string", "boolean", "number" or "null": what a reader of the file would call
 * it. */
const char *yaml_kind_name(const struct yaml_node *node);

/** An unquoted true/false; with allow_yaml11 also on/off/yes/no in any case. */
NODISCARD bool yaml_to_bool(const struct yaml_node *node, bool allow_yaml11, bool *ret);

#endif
