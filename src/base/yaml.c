/* base/yaml.c: builds a tree from the events of libyaml.
 *
 * The documents of libyaml itself are not used: they keep aliases, have no bounds, and have no line
 * numbers for keys. The functions here recurse at most LIMIT_YAML_DEPTH deep.
 */
#include "base/yaml.h"

#include <string.h>
#include <yaml.h>

#include "base/array.h"
#include "base/limits.h"
#include "base/words.h"

struct reader {
	yaml_parser_t parser;
	struct str text;
	struct arena *arena;
	int line; /* line of the latest event, or of the problem */
	size_t n_nodes;
	struct error *err;
};

static int
line_of(yaml_mark_t mark)
{
	return (int)mark.line + 1;
}

static bool
next_event(struct reader *r, yaml_event_t *ret)
{
	yaml_parser_t *p = &r->parser;

	if (yaml_parser_parse(p, ret)) {
		r->line = line_of(ret->start_mark);
		return true;
	}
	r->line = line_of(p->problem_mark);
	/* The reader of libyaml, which refuses invalid bytes, reports an offset in the text instead
	 * of a line. */
	if (p->error == YAML_READER_ERROR) {
		r->line = 1;
		for (size_t i = 0; i < p->problem_offset && i < r->text.len; i++)
			r->line += r->text.ptr[i] == '\n';
	}
	return err_set(r->err, ERR_INVALID, "%s", p->problem ? p->problem : "not YAML");
}

/* A kubeconfig contains secrets in scalars, so the final text of each scalar is overwritten.
 * Fragments may remain in freed memory, because libyaml reallocates the text while it reads. */
static void
event_fini(yaml_event_t *event)
{
	if (event->type == YAML_SCALAR_EVENT)
		explicit_bzero(event->data.scalar.value, event->data.scalar.length);
	yaml_event_delete(event);
}

/* Overwrites the raw input and the decoded text, for the same reason. */
static void
parser_fini(yaml_parser_t *p)
{
	explicit_bzero(p->raw_buffer.start, (size_t)(p->raw_buffer.end - p->raw_buffer.start));
	explicit_bzero(p->buffer.start, (size_t)(p->buffer.end - p->buffer.start));
	yaml_parser_delete(p);
}

/* Consumes an event whose content is not needed. */
static bool
skip_event(struct reader *r)
{
	yaml_event_t event;

	if (!next_event(r, &event))
		return false;
	event_fini(&event);
	return true;
}

/* The properties that begin a scalar, a list and a map; NULL: it has none. */
static void
event_properties(const yaml_event_t *event, const char **ret_anchor, const char **ret_tag)
{
	const yaml_char_t *anchor = NULL, *tag = NULL;

	if (event->type == YAML_SCALAR_EVENT) {
		anchor = event->data.scalar.anchor;
		tag = event->data.scalar.tag;
	} else if (event->type == YAML_SEQUENCE_START_EVENT) {
		anchor = event->data.sequence_start.anchor;
		tag = event->data.sequence_start.tag;
	} else if (event->type == YAML_MAPPING_START_EVENT) {
		anchor = event->data.mapping_start.anchor;
		tag = event->data.mapping_start.tag;
	}
	*ret_anchor = (const char *)anchor;
	*ret_tag = (const char *)tag;
}

static bool
check_event(struct reader *r, const yaml_event_t *event)
{
	static const char *const scalar_tags[] = {
		"!", YAML_STR_TAG, YAML_NULL_TAG, YAML_BOOL_TAG, YAML_INT_TAG, YAML_FLOAT_TAG, NULL,
	};
	const char *anchor, *tag;

	event_properties(event, &anchor, &tag);
	if (event->type == YAML_ALIAS_EVENT || anchor)
		return err_set(r->err, ERR_INVALID, "anchors and aliases are not supported");
	if (tag && (event->type != YAML_SCALAR_EVENT || !words_have(scalar_tags, str_c(tag))))
		return err_set(r->err, ERR_INVALID, "tag %s is not supported", tag);
	if (++r->n_nodes > LIMIT_YAML_NODES)
		return err_set(r->err, ERR_INVALID, "more than %d values", LIMIT_YAML_NODES);
	return true;
}

static struct str
scalar_text(struct reader *r, const yaml_event_t *event)
{
	return arena_str(r->arena,
	                 str_n((const char *)event->data.scalar.value, event->data.scalar.length));
}

/* The list or map that is being collected. */
struct parts {
	struct yaml_node *items;
	size_t n_items, cap_items;
	struct yaml_key *keys;
	size_t n_keys, cap_keys;
};

static void
parts_fini(struct parts *parts)
{
	free(parts->items);
	free(parts->keys);
}

static void *
keep(struct arena *arena, const void *from, size_t n, size_t size)
{
	void *to = arena_calloc(arena, n, size);

	if (n)
		memcpy(to, from, n * size);
	return to;
}

static bool read_node(struct reader *r, const yaml_event_t *event, unsigned depth,
                      struct yaml_node *ret);

/* Processes one event of a list or map: a key, a value, or its end (*ret_is_end). */
static bool
read_part(struct reader *r, bool is_map, unsigned depth, struct parts *parts, bool *ret_is_end)
{
	CLEANUP(event_fini) yaml_event_t event = { 0 };
	struct yaml_node node = { 0 };

	if (!next_event(r, &event))
		return false;
	*ret_is_end = event.type == YAML_MAPPING_END_EVENT || event.type == YAML_SEQUENCE_END_EVENT;
	if (*ret_is_end)
		return true;
	if (is_map && parts->n_keys == parts->n_items) {
		if (event.type != YAML_SCALAR_EVENT && event.type != YAML_ALIAS_EVENT)
			return err_set(r->err, ERR_INVALID, "a key is not a plain text");
		if (!check_event(r, &event))
			return false;
		ARRAY_PUSH(parts->keys, parts->n_keys, parts->cap_keys,
		           (struct yaml_key){ .text = scalar_text(r, &event), .line = r->line });
		return true;
	}
	if (!read_node(r, &event, depth, &node))
		return false;
	ARRAY_PUSH(parts->items, parts->n_items, parts->cap_items, node);
	return true;
}

static bool
read_parts(struct reader *r, unsigned depth, struct yaml_node *ret)
{
	CLEANUP(parts_fini) struct parts parts = { 0 };
	bool is_end = false;

	if (depth > LIMIT_YAML_DEPTH)
		return err_set(r->err, ERR_INVALID, "nested deeper than %d", LIMIT_YAML_DEPTH);
	while (!is_end) {
		if (!read_part(r, ret->kind == YAML_MAP, depth, &parts, &is_end))
			return false;
	}
	ret->n = parts.n_items;
	ret->items = keep(r->arena, parts.items, parts.n_items, sizeof(parts.items[0]));
	if (ret->kind == YAML_MAP)
		ret->keys = keep(r->arena, parts.keys, parts.n_keys, sizeof(parts.keys[0]));
	return true;
}

/* Is the scalar a string, whatever it looks like? A tag decides, or else quotes. */
static bool
is_text(const yaml_event_t *event)
{
	const char *anchor, *tag;

	event_properties(event, &anchor, &tag);
	if (tag)
		return strcmp(tag, "!") == 0 || strcmp(tag, YAML_STR_TAG) == 0;
	return event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
}

static bool
read_node(struct reader *r, const yaml_event_t *event, unsigned depth, struct yaml_node *ret)
{
	static const char *const nulls[] = { "", "~", "null", "Null", "NULL", NULL };

	if (!check_event(r, event))
		return false;
	ret->line = r->line;
	if (event->type != YAML_SCALAR_EVENT) {
		ret->kind = event->type == YAML_MAPPING_START_EVENT ? YAML_MAP : YAML_LIST;
		return read_parts(r, depth + 1, ret);
	}
	ret->text = scalar_text(r, event);
	ret->is_quoted = is_text(event);
	ret->kind = !ret->is_quoted && words_have(nulls, ret->text) ? YAML_NULL : YAML_SCALAR;
	return true;
}

/* Reads STREAM-START DOCUMENT-START node DOCUMENT-END STREAM-END; an empty stream has no document.
 */
static bool
read_stream(struct reader *r, struct yaml_node *ret)
{
	CLEANUP(event_fini) yaml_event_t start = { 0 }, root = { 0 }, end = { 0 };

	if (!skip_event(r) || !next_event(r, &start))
		return false;
	if (start.type == YAML_STREAM_END_EVENT) {
		*ret = (struct yaml_node){ .kind = YAML_NULL, .line = r->line, .text = STR_EMPTY };
		return true;
	}
	if (!next_event(r, &root) || !read_node(r, &root, 0, ret))
		return false;
	if (!skip_event(r) || !next_event(r, &end))
		return false;
	if (end.type != YAML_STREAM_END_EVENT)
		return err_set(r->err, ERR_INVALID, "more than one document");
	return true;
}

bool
yaml_parse(struct str text, struct arena *arena, struct yaml_node *ret, int *ret_line,
           struct error *err)
{
	struct reader r = { .text = text, .arena = arena, .err = err, .line = 1 };
	struct yaml_node root = { 0 };
	bool ok;

	if (str_starts(text, STR("\xff\xfe")) || str_starts(text, STR("\xfe\xff"))) {
		ok = err_set(err, ERR_INVALID, "the file is UTF-16, not UTF-8");
	} else if (!yaml_parser_initialize(&r.parser)) {
		r.line = 0;
		ok = err_set(err, ERR_INTERNAL, "libyaml has no memory");
	} else {
		yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
		yaml_parser_set_input_string(&r.parser, (const unsigned char *)text.ptr, text.len);
		ok = read_stream(&r, &root);
		parser_fini(&r.parser);
	}
	if (ok)
		*ret = root;
	else if (ret_line)
		*ret_line = r.line;
	return ok;
}

const struct yaml_node *
yaml_get(const struct yaml_node *node, struct str key)
{
	if (node->kind != YAML_MAP)
		return NULL;
	for (size_t i = 0; i < node->n; i++) {
		if (str_eq(node->keys[i].text, key))
			return &node->items[i];
	}
	return NULL;
}

static struct str
skip_digits(struct str s, const char *digits)
{
	while (s.len && strchr(digits, s.ptr[0]) && s.ptr[0])
		s = str_skip(s, 1);
	return s;
}

static bool
is_whole_number(struct str s, const char *digits)
{
	return s.len && skip_digits(s, digits).len == 0;
}

/* Returns true for digits with an optional point and exponent, as in YAML 1.2's core schema. */
static bool
is_decimal(struct str s)
{
	struct str rest = skip_digits(s, "0123456789");
	size_t n_digits = s.len - rest.len;
	struct str fraction;

	if (rest.len && rest.ptr[0] == '.') {
		fraction = str_skip(rest, 1);
		rest = skip_digits(fraction, "0123456789");
		n_digits += fraction.len - rest.len;
	}
	if (n_digits == 0)
		return false;
	if (rest.len && (rest.ptr[0] == 'e' || rest.ptr[0] == 'E')) {
		rest = str_skip(rest, 1);
		if (rest.len && (rest.ptr[0] == '+' || rest.ptr[0] == '-'))
			rest = str_skip(rest, 1);
		return is_whole_number(rest, "0123456789");
	}
	return rest.len == 0;
}

static bool
is_number(struct str s)
{
	if (str_starts(s, STR("0x")))
		return is_whole_number(str_skip(s, 2), "0123456789abcdefABCDEF");
	if (str_starts(s, STR("0o")))
		return is_whole_number(str_skip(s, 2), "01234567");
	if (str_eq_nocase(s, STR(".nan")))
		return true;
	if (s.len && (s.ptr[0] == '+' || s.ptr[0] == '-'))
		s = str_skip(s, 1);
	return str_eq_nocase(s, STR(".inf")) || is_decimal(s);
}

const char *
yaml_kind_name(const struct yaml_node *node)
{
	static const char *const names[] = {
		[YAML_NULL] = "null", [YAML_LIST] = "list", [YAML_MAP] = "map"
	};
	bool value;

	if (node->kind != YAML_SCALAR)
		return names[node->kind];
	if (node->is_quoted)
		return "string";
	if (yaml_to_bool(node, /*allow_yaml11=*/false, &value))
		return "boolean";
	return is_number(node->text) ? "number" : "string";
}

bool
yaml_to_bool(const struct yaml_node *node, bool allow_yaml11, bool *ret)
{
	static const char *const yes[] = { "true", "True", "TRUE", NULL };
	static const char *const no[] = { "false", "False", "FALSE", NULL };
	static const char *const yes_in_yaml11[] = { "true", "on", "yes" };
	static const char *const no_in_yaml11[] = { "false", "off", "no" };
	bool is_yes, is_no;

	if (node->kind != YAML_SCALAR || node->is_quoted)
		return false;
	is_yes = words_have(yes, node->text);
	is_no = words_have(no, node->text);
	for (size_t i = 0; allow_yaml11 && i < ARRAY_LEN(yes_in_yaml11); i++) {
		is_yes |= str_eq_nocase(node->text, str_c(yes_in_yaml11[i]));
		is_no |= str_eq_nocase(node->text, str_c(no_in_yaml11[i]));
	}
	if (is_yes || is_no)
		*ret = is_yes;
	return is_yes || is_no;
}
