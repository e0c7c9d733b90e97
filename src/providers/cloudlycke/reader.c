/* reader.c: see reader.h.
 *
 * One buffer holds the path of the value that is being read ("machines[0].addresses[1]"): each
 * level appends its name or index on the way in and truncates the buffer on the way out, so a
 * problem finds its path there. Texts that many machines have, such as zones and types, are stored
 * once.
 */
#include "providers/cloudlycke/reader.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/words.h"

enum {
	PROBLEM_MAX = 900, /* bytes of one problem: it fits a struct error */
};

/* ---- problems ---- */

void
cl_problems_fini(struct cl_problems *p)
{
	for (size_t i = 0; i < p->n_kept; i++)
		free(p->kept[i].text);
	*p = CL_PROBLEMS_INIT(p->file);
}

void
cl_problems_text(const struct cl_problems *p, size_t most, struct buf *b)
{
	size_t n = p->n_kept < most ? p->n_kept : most;

	for (size_t i = 0; i < n; i++)
		buf_addf(b, "%s%s", i > 0 ? "; " : "", p->kept[i].text);
	if (p->n > n)
		buf_addf(b, " (and %zu more)", p->n - n);
}

/* ---- problems at the present path ---- */

void
cl_add_problem(struct cl_reader *r, const struct yaml_node *node, const char *fmt, ...)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(PROBLEM_MAX);
	struct cl_problems *p = r->problems;
	int line = node->line < 1 ? 1 : node->line;
	size_t at = p->n_kept;

	p->n++;
	/* sorted by line, then in the order in which they were found */
	while (at > 0 && p->kept[at - 1].line > line)
		at--;
	if (at == ARRAY_LEN(p->kept))
		return;
	buf_addf(&b, "%s:%d: ", p->file, line);
	if (r->path.len > 0)
		buf_addf(&b, "%s: ", r->path.ptr);
	BUF_ADD_ARGS(&b, fmt);
	/* Quoted texts have no control characters, but the messages of the YAML parser may have. */
	for (char *c = b.ptr; *c; c++) {
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	}
	if (p->n_kept == ARRAY_LEN(p->kept))
		free(p->kept[--p->n_kept].text);
	memmove(&p->kept[at + 1], &p->kept[at], (p->n_kept - at) * sizeof(p->kept[0]));
	p->kept[at] = (struct cl_problem){ line, buf_take(&b) };
	p->n_kept++;
}

void
cl_add_value_problem(struct cl_reader *r, const struct yaml_node *at, struct str text,
                     const char *complaint)
{
	cl_add_problem(r, at, "%s %s", quote_z(&r->scratch, text), complaint);
}

size_t
cl_enter(struct cl_reader *r, const char *name)
{
	size_t len = r->path.len;

	buf_addf(&r->path, "%s%s", len > 0 ? "." : "", name);
	return len;
}

size_t
cl_enter_item(struct cl_reader *r, size_t i)
{
	size_t len = r->path.len;

	buf_addf(&r->path, "[%zu]", i);
	return len;
}

void
cl_leave(struct cl_reader *r, size_t len)
{
	buf_truncate(&r->path, len);
}

bool
cl_expect(struct cl_reader *r, const struct yaml_node *node, const char *kind)
{
	const char *got = yaml_kind_name(node);

	if (strcmp(got, kind) == 0)
		return true;
	cl_add_problem(r, node, "expected %s, got %s", kind, got);
	return false;
}

/* ---- texts that are kept ---- */

struct interned {
	struct str text;
};

struct str
cl_keep(struct cl_reader *r, struct str text)
{
	struct interned *known = map_get(&r->interned, text);

	if (text.len == 0)
		return STR_EMPTY;
	if (!known) {
		known = ARENA_NEW(&r->scratch, struct interned);
		known->text = arena_str(r->keep, text);
		map_put(&r->interned, known->text, known);
	}
	return known->text;
}

/* ---- maps and lists ---- */

/* The index of the field with that name, or n. */
static size_t
find_field(const struct cl_field *fields, size_t n, struct str name)
{
	size_t i = 0;

	while (i < n && !str_eq_c(name, fields[i].name))
		i++;
	return i;
}

static void
add_unknown_field(struct cl_reader *r, const struct yaml_node *at, struct str key,
                  const struct cl_field *fields, size_t n)
{
	struct nearest nearest = nearest_to(key);
	const char *quoted = quote_z(&r->scratch, key);

	for (size_t i = 0; i < n; i++)
		nearest_compare(&nearest, fields[i].name);
	if (nearest.found)
		cl_add_problem(r, at, "unknown field %s; did you mean \"%s\"?", quoted,
		               nearest.found);
	else
		cl_add_problem(r, at, "unknown field %s", quoted);
}

void
cl_read_struct(struct cl_reader *r, const struct cl_field *whole, const struct yaml_node *map,
               void *into)
{
	const struct cl_field *fields = whole->fields;
	size_t n = whole->n_fields;
	uint64_t seen = 0;

	if (r->path.len == 0 && map->kind == YAML_NULL) {
		cl_add_problem(r, map,
		               "is empty; an inventory has apiVersion: cloudlycke.io/v1alpha1, "
		               "kind: Inventory and a list of machines");
		return;
	}
	if (!cl_expect(r, map, "map"))
		return;

	/* Unknown and duplicate keys. */
	assert(n < 64);
	for (size_t i = 0; i < map->n; i++) {
		const struct yaml_node at = { .line = map->keys[i].line };
		struct str key = map->keys[i].text;
		size_t found = find_field(fields, n, key);

		if (found == n)
			add_unknown_field(r, &at, key, fields, n);
		else if (seen >> found & 1)
			cl_add_problem(r, &at, "duplicate field %s", quote_z(&r->scratch, key));
		seen |= UINT64_C(1) << found;
	}

	/* The values, in the order of the table. */
	for (size_t i = 0; i < n; i++) {
		const struct cl_field *field = &fields[i];
		const struct yaml_node *node = yaml_get(map, str_c(field->name));
		size_t len = cl_enter(r, field->name);

		if (node && node->kind != YAML_NULL)
			field->read(r, field, node, (char *)into + field->offset);
		else if (field->is_required)
			cl_add_problem(r, node ? node : map, "required");
		cl_leave(r, len);
	}
}

void
cl_read_list(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
             void *into)
{
	char *outer = r->items, *items;
	size_t outer_size = r->item_size;

	if (!cl_expect(r, node, "list"))
		return;
	if (node->n > field->most) {
		cl_add_problem(r, node, "has more than %zu elements", field->most);
		return;
	}
	if (field->is_not_empty && node->n == 0)
		cl_add_problem(r, node, "required");
	items = arena_calloc(r->keep, node->n, field->item_size);
	memcpy(into, &items, sizeof(items));
	memcpy((char *)into - field->offset + field->n_offset, &node->n, sizeof(node->n));
	r->items = items;
	r->item_size = field->item_size;
	for (size_t i = 0; i < node->n; i++) {
		size_t len = cl_enter_item(r, i);

		if (field->initial)
			memcpy(items + i * field->item_size, field->initial, field->item_size);
		field->read_item(r, field, &node->items[i], items + i * field->item_size);
		cl_leave(r, len);
	}
	r->items = outer;
	r->item_size = outer_size;
}

/* ---- single values ---- */

void
cl_read_string(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
               void *into)
{
	const struct cl_rule *rule = field->rule;

	if (!cl_expect(r, node, "string"))
		return;
	if (rule &&
	    (rule->choices ? !words_have(rule->choices, node->text) : !rule->is_valid(node->text)))
		cl_add_problem(r, node, "%s%s %s", rule->what ? rule->what : "",
		               quote_z(&r->scratch, node->text), rule->complaint);
	else
		*(struct str *)into = cl_keep(r, node->text);
}

void
cl_read_bool(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
             void *into)
{
	(void)field;
	if (cl_expect(r, node, "boolean"))
		(void)!yaml_to_bool(node, /*allow_yaml11=*/false, into);
}

void
cl_read_choice(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
               void *into)
{
	const struct cl_rule *rule = field->rule;

	if (!cl_expect(r, node, "string"))
		return;
	for (int i = 0; rule->choices[i]; i++) {
		if (str_eq_c(node->text, rule->choices[i])) {
			*(int *)into = i;
			return;
		}
	}
	cl_add_value_problem(r, node, node->text, rule->complaint);
}

/* "poll: 0" is a number in YAML, and a duration without unit as Go reads it. */
void
cl_read_duration(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                 void *into)
{
	const struct cl_rule *rule = field->rule;
	int64_t value;

	if (strcmp(yaml_kind_name(node), "number") != 0 && !cl_expect(r, node, "string"))
		return;
	if (!str_to_duration_ns(node->text, &value))
		cl_add_value_problem(r, node, node->text, "is not a duration");
	else if (value < rule->min || value > rule->max)
		cl_add_value_problem(r, node, node->text, rule->complaint);
	else
		*(int64_t *)into = value;
}

void
cl_read_percent(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                void *into)
{
	struct str text = node->text;

	(void)field;
	if (!cl_expect(r, node, "string"))
		return;
	if (!str_ends(text, STR("%")) || !str_to_i64(str_head(text, text.len - 1), 0, 100, into))
		cl_add_value_problem(r, node, text, "is not a percentage from 0% to 100%");
}

void
cl_read_count(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
              void *into)
{
	int64_t count;

	(void)field;
	(void)into;
	if (cl_expect(r, node, "number") && !str_to_i64(node->text, 1, INT32_MAX, &count))
		cl_add_value_problem(r, node, node->text, "is not a whole number of at least 1");
}

void
cl_read_quantity(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                 void *into)
{
	static const char *const suffixes[] = {
		"", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", NULL,
	};
	struct str suffix = node->text, whole, fraction = STR("0");
	int64_t value;

	(void)field;
	(void)into;
	if (strcmp(yaml_kind_name(node), "number") != 0 && !cl_expect(r, node, "string"))
		return;
	while (suffix.len > 0 && char_is_in(suffix.ptr[0], "0123456789."))
		suffix = str_skip(suffix, 1);
	whole = str_head(node->text, node->text.len - suffix.len);
	(void)str_cut(whole, '.', &whole, &fraction);
	if (!words_have(suffixes, suffix) || !str_to_i64(whole, 0, INT64_MAX, &value) ||
	    !str_to_i64(fraction, 0, INT64_MAX, &value))
		cl_add_value_problem(r, node, node->text, "is not a quantity");
}
