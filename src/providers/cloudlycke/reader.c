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
#include "base/quote.h"
#include "base/words.h"

enum {
	PROBLEM_MAX = 900, /* bytes of one problem: it fits a struct error */
	STRINGS_MAX = 256, /* aliases of a machine, namespaces of a pool */
};

/* ---- problems ---- */

void
cl_problems_fini(struct cl_problems *p)
{
	for (size_t i = 0; i < p->n_kept; i++)
		free(p->kept[i].text);
	*p = CL_PROBLEMS_INIT(p->file);
}

/* The index for a problem of that line: problems are sorted by line, then in the order in which
 * they were found. */
static size_t
index_for_line(const struct cl_problems *p, int line)
{
	size_t i = p->n_kept;

	while (i > 0 && p->kept[i - 1].line > line)
		i--;
	return i;
}

static void
insert_problem(struct cl_problems *p, size_t at, struct cl_problem problem)
{
	if (p->n_kept == ARRAY_LEN(p->kept))
		free(p->kept[--p->n_kept].text);
	memmove(&p->kept[at + 1], &p->kept[at], (p->n_kept - at) * sizeof(p->kept[0]));
	p->kept[at] = problem;
	p->n_kept++;
}

/* Quoted texts have no control characters, but the messages of the YAML parser may have. */
static void
drop_controls(char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			*text = '?';
	}
}

void
cl_problems_addv(struct cl_problems *p, int line, struct str path, const char *fmt, va_list args)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(PROBLEM_MAX);
	size_t at;

	if (line < 1)
		line = 1;
	p->n++;
	at = index_for_line(p, line);
	if (at == ARRAY_LEN(p->kept))
		return;
	buf_addf(&b, "%s:%d: ", p->file, line);
	if (path.len > 0)
		buf_addf(&b, "%" STR_FMT ": ", STR_ARG(path));
	buf_addv(&b, fmt, args);
	drop_controls(b.ptr);
	insert_problem(p, at, (struct cl_problem){ line, buf_take(&b) });
}

void
cl_problems_add(struct cl_problems *p, int line, struct str path, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	cl_problems_addv(p, line, path, fmt, args);
	va_end(args);
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
cl_complain(struct cl_reader *r, const struct yaml_node *at, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	cl_problems_addv(r->problems, at->line, buf_str(&r->path), fmt, args);
	va_end(args);
}

void
cl_complain_of(struct cl_reader *r, const struct yaml_node *at, struct str text,
               const char *complaint)
{
	cl_complain(r, at, "%s %s", quote_z(&r->scratch, text), complaint);
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
	cl_complain(r, node, "expected %s, got %s", kind, got);
	return false;
}

bool
cl_expect_string(struct cl_reader *r, const struct yaml_node *node, struct str *ret)
{
	if (!cl_expect(r, node, "string"))
		return false;
	*ret = node->text;
	return true;
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

/* ---- maps ---- */

/* The index of the field, or n. */
static size_t
find_field(const struct cl_field *fields, size_t n, struct str key)
{
	size_t i = 0;

	while (i < n && !str_eq_c(key, fields[i].name))
		i++;
	return i;
}

static void
complain_of_unknown(struct cl_reader *r, const struct yaml_node *at, struct str key,
                    const struct cl_field *fields, size_t n)
{
	struct nearest nearest = nearest_to(key);
	const char *quoted = quote_z(&r->scratch, key);

	for (size_t i = 0; i < n; i++)
		nearest_compare(&nearest, fields[i].name);
	if (nearest.found)
		cl_complain(r, at, "unknown field %s; did you mean \"%s\"?", quoted, nearest.found);
	else
		cl_complain(r, at, "unknown field %s", quoted);
}

static void
check_keys(struct cl_reader *r, const struct yaml_node *map, const struct cl_field *fields,
           size_t n)
{
	uint64_t seen = 0;

	assert(n < 64);
	for (size_t i = 0; i < map->n; i++) {
		const struct yaml_node at = { .line = map->keys[i].line };
		struct str key = map->keys[i].text;
		size_t found = find_field(fields, n, key);

		if (found == n)
			complain_of_unknown(r, &at, key, fields, n);
		else if (seen >> found & 1)
			cl_complain(r, &at, "duplicate field %s", quote_z(&r->scratch, key));
		seen |= UINT64_C(1) << found;
	}
}

static void
read_field(struct cl_reader *r, const struct yaml_node *map, const struct cl_field *field,
           void *into)
{
	const struct yaml_node *node = yaml_get(map, str_c(field->name));
	size_t len = cl_enter(r, field->name);

	if (node && node->kind != YAML_NULL)
		field->read(r, field, node, (char *)into + field->offset);
	else if (field->is_required)
		cl_complain(r, node ? node : map, "required");
	cl_leave(r, len);
}

void
cl_read_map(struct cl_reader *r, const struct yaml_node *node, const struct cl_field *fields,
            size_t n, void *into)
{
	if (r->path.len == 0 && node->kind == YAML_NULL) {
		cl_complain(r, node,
		            "is empty; an inventory has apiVersion: cloudlycke.io/v1alpha1, kind: "
		            "Inventory and a list of machines");
		return;
	}
	if (!cl_expect(r, node, "map"))
		return;
	check_keys(r, node, fields, n);
	for (size_t i = 0; i < n; i++)
		read_field(r, node, &fields[i], into);
}

void
cl_read_struct(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
               void *into)
{
	cl_read_map(r, node, field->fields, field->n_fields, into);
}

/* ---- lists ---- */

void *
cl_new_list(struct cl_reader *r, const struct yaml_node *node, size_t most, size_t size,
            size_t *ret_n)
{
	*ret_n = 0;
	if (!cl_expect(r, node, "list"))
		return NULL;
	if (node->n > most) {
		cl_complain(r, node, "has more than %zu elements", most);
		return NULL;
	}
	*ret_n = node->n;
	return arena_calloc(r->keep, node->n, size);
}

void
cl_read_items(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
              size_t n, void *items, size_t size,
              void (*each)(struct cl_reader *, const struct cl_field *, const struct yaml_node *,
                           void *))
{
	for (size_t i = 0; i < n; i++) {
		size_t len = cl_enter_item(r, i);

		each(r, field, &node->items[i], (char *)items + i * size);
		cl_leave(r, len);
	}
}

void
cl_read_strings(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                void *into)
{
	struct str_list *strings = into;

	strings->items = cl_new_list(r, node, STRINGS_MAX, sizeof(struct str), &strings->n);
	cl_read_items(r, field, node, strings->n, strings->items, sizeof(struct str),
	              cl_read_string);
}

/* ---- single values ---- */

void
cl_read_string(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
               void *into)
{
	const struct cl_rule *rule = field->rule;
	struct str text;

	if (!cl_expect_string(r, node, &text))
		return;
	if (rule && !rule->is_valid(text))
		cl_complain_of(r, node, text, rule->complaint);
	else
		*(struct str *)into = cl_keep(r, text);
}

void
cl_read_bool(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
             void *into)
{
	bool value;

	(void)field;
	if (!cl_expect(r, node, "boolean"))
		return;
	if (yaml_to_bool(node, /*allow_yaml11=*/false, &value))
		*(bool *)into = value;
}

void
cl_read_choice(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
               void *into)
{
	const struct cl_rule *rule = field->rule;
	struct str text;

	if (!cl_expect_string(r, node, &text))
		return;
	for (int i = 0; rule->choices[i]; i++) {
		if (str_eq_c(text, rule->choices[i])) {
			*(int *)into = i;
			return;
		}
	}
	cl_complain_of(r, node, text, rule->complaint);
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
		cl_complain_of(r, node, node->text, "is not a duration");
	else if (value < rule->min || value > rule->max)
		cl_complain_of(r, node, node->text, rule->complaint);
	else
		*(int64_t *)into = value;
}
