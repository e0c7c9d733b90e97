/* operator/plan_print.c: a plan as text, and as JSON; see plan.h. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"
#include "operator/plan.h"

enum {
	RFC3339_DATE = sizeof("2026-01-02T") - 1,
	RFC3339_TIME = sizeof("03:04:05") - 1,
};

/* ---- the order, and what belongs together ---- */

/* The order of the kinds; others come first. */
static int
kind_rank(const char *kind)
{
	static const char *const kinds[] = { "node", "service", "route" };

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		if (strcmp(kind, kinds[i]) == 0)
			return (int)i + 1;
	}
	return 0;
}

static int
compare_objects(const void *a, const void *b)
{
	const struct plan_object *x = *(struct plan_object *const *)a,
				 *y = *(struct plan_object *const *)b;
	int ranks = kind_rank(x->kind) - kind_rank(y->kind);

	return ranks != 0 ? ranks : str_cmp(x->key, y->key);
}

/* The caller frees the array. */
static struct plan_object **
sorted_objects(const struct plan *p)
{
	struct plan_object **sorted = xcalloc(p->n + 1, sizeof(*sorted));

	for (size_t i = 0; i < p->n; i++)
		sorted[i] = p->objects[i];
	qsort(sorted, p->n, sizeof(*sorted), compare_objects);
	return sorted;
}

/* Is it the cluster object that changes, rather than something that belongs to it? */
static bool
is_own(const struct plan_object *object, const struct plan_change *change)
{
	return strcmp(change->what, object->kind) == 0 &&
	       (change->name.len == 0 || str_eq(change->name, object->name));
}

static bool
is_same_thing(const struct plan_object *object, const struct plan_change *a,
              const struct plan_change *b)
{
	if (is_own(object, a) || is_own(object, b))
		return is_own(object, a) && is_own(object, b);
	return strcmp(a->what, b->what) == 0 && str_eq(a->name, b->name);
}

/* Several requests may change one thing, which is printed once. */
static bool
is_first_of_thing(const struct plan_object *object, const struct plan_change *change)
{
	const struct plan_change *other = STAILQ_FIRST(&object->changes);

	while (!is_same_thing(object, other, change))
		other = STAILQ_NEXT(other, next);
	return other == change;
}

/* What happens to the thing as a whole: a thing that is created stays so if further requests change
 * it. */
static enum dry_verb
verb_of_thing(const struct plan_object *object, const struct plan_change *first)
{
	enum dry_verb verb = first->verb;

	for (const struct plan_change *c = first; c; c = STAILQ_NEXT(c, next)) {
		if (is_same_thing(object, c, first) && c->verb != DRY_CHANGE)
			verb = c->verb;
	}
	return verb;
}

struct totals {
	size_t n_things[DRY_DELETE + 1]; /* by what happens to them */
	size_t n_steps, n_failures, n_staying;
};

static struct totals
count_all(const struct plan *p)
{
	struct totals t = { .n_steps = 0 };
	const struct plan_change *c;

	for (size_t i = 0; i < p->n; i++) {
		const struct plan_object *object = p->objects[i];

		STAILQ_FOREACH(c, &object->changes, next) {
			if (is_first_of_thing(object, c))
				t.n_things[verb_of_thing(object, c)]++;
		}
		t.n_steps += object->has_step;
		t.n_failures += object->error.len > 0;
		t.n_staying += object->stays.len > 0;
	}
	return t;
}

int
plan_exit_code(const struct plan *p)
{
	bool has_work = p->n_left_out > 0;

	for (size_t i = 0; i < p->n; i++) {
		const struct plan_object *object = p->objects[i];

		if (object->error.len > 0)
			return 2;
		has_work |= object->has_step || !STAILQ_EMPTY(&object->changes);
	}
	return has_work ? 1 : 0;
}

/* ---- text ---- */

static const struct {
	const char *name, *mark, *colour;
} verbs[] = {
	[DRY_CREATE] = { "create", "+", "\033[32m" },
	[DRY_CHANGE] = { "change", "~", "\033[33m" },
	[DRY_DELETE] = { "delete", "-", "\033[31m" },
};
#define COLOUR_OF_ERRORS "\033[1;31m"

struct printer {
	struct buf *out;
	bool has_colours;
	int64_t now_wall_ns;
};

static void
print_mark(const struct printer *to, const char *indent, const char *colour, const char *mark)
{
	buf_addf(to->out, "%s%s%s%s ", indent, to->has_colours ? colour : "", mark,
	         to->has_colours ? "\033[0m" : "");
}

static void
print_verb(const struct printer *to, const char *indent, enum dry_verb verb)
{
	print_mark(to, indent, verbs[verb].colour, verbs[verb].mark);
}

/* "+ label x: y", "~ algorithm: a -> b"; a member without values has the verb of its change. */
static void
print_field(const struct printer *to, const char *indent, const struct dry_field *field,
            enum dry_verb verb)
{
	if (field->old.len > 0)
		verb = field->new.len > 0 ? DRY_CHANGE : DRY_DELETE;
	else if (field->new.len > 0)
		verb = DRY_CREATE;
	print_verb(to, indent, verb);
	buf_addf(to->out, "%" STR_FMT "%s%" STR_FMT "%s%" STR_FMT "\n", STR_ARG(field->name),
	         field->old.len + field->new.len > 0 ? ": " : "", STR_ARG(field->old),
	         verb == DRY_CHANGE && field->old.len > 0 ? " -> " : "", STR_ARG(field->new));
}

/* The members of one thing that any of its requests changes. */
static void
print_fields(const struct printer *to, const char *indent, const struct plan_object *object,
             const struct plan_change *first)
{
	for (const struct plan_change *c = first; c; c = STAILQ_NEXT(c, next)) {
		for (size_t i = 0; is_same_thing(object, c, first) && i < c->n_fields; i++)
			print_field(to, indent, &c->fields[i], c->verb);
	}
}

/* Without a name it is all objects of the kind. */
static void
print_object_name(const struct printer *to, const struct plan_object *object)
{
	if (object->name.len > 0)
		buf_addf(to->out, "%s %" STR_FMT, object->kind, STR_ARG(object->name));
	else
		buf_addf(to->out, "all %ss", object->kind);
}

/* All other refusals are known without a request. */
static const char *
refusal_text(const struct plan_object *object, const struct plan_change *first)
{
	return first->is_cloud && verb_of_thing(object, first) == DRY_CREATE
	               ? " (may be refused: quota)"
	               : "";
}

/* The change of the object itself; NULL: there is none. */
static const struct plan_change *
find_own(const struct plan_object *object)
{
	const struct plan_change *c;

	STAILQ_FOREACH(c, &object->changes, next) {
		if (is_own(object, c))
			return c;
	}
	return NULL;
}

/* The object, then what belongs to it. An object that is only the reason for changes of other
 * things has no mark. */
static void
print_changes(const struct printer *to, const struct plan_object *object)
{
	const struct plan_change *own = find_own(object), *c;

	if (own)
		print_verb(to, "", verb_of_thing(object, own));
	else
		buf_add_c(to->out, "  ");
	print_object_name(to, object);
	buf_addf(to->out, "%s\n", own ? refusal_text(object, own) : "");
	if (own)
		print_fields(to, "    ", object, own);
	STAILQ_FOREACH(c, &object->changes, next) {
		if (is_own(object, c) || !is_first_of_thing(object, c))
			continue;
		print_verb(to, "    ", verb_of_thing(object, c));
		buf_addf(to->out, "%s%s%" STR_FMT "%s\n", c->what, c->name.len > 0 ? " " : "",
		         STR_ARG(c->name), refusal_text(object, c));
		print_fields(to, "        ", object, c);
	}
}

/* "- node n: not before 16:40:10 UTC (in 30s), if … (unconfirmed)" */
static void
print_step(const struct printer *to, const struct plan_object *object)
{
	CLEANUP(buf_fini) struct buf time = BUF_INIT(KIB(1));
	const struct plan_step *step = &object->step;
	int64_t at_ns = step->not_before_wall_ns, left_ns = at_ns - to->now_wall_ns;

	print_verb(to, "", step->verb);
	print_object_name(to, object);
	if (at_ns > 0) {
		clock_format_rfc3339(&time, at_ns, /*micros=*/false);
		buf_addf(to->out, ": not before %" STR_FMT " UTC",
		         STR_ARG(str_head(str_skip(buf_str(&time), RFC3339_DATE), RFC3339_TIME)));
	}
	if (at_ns > 0 && left_ns > 0) {
		buf_add_c(to->out, " (in ");
		clock_format_duration(to->out,
		                      (left_ns + NS_PER_SEC - 1) / NS_PER_SEC * NS_PER_SEC);
		buf_add_char(to->out, ')');
	}
	buf_addf(to->out, "%s%" STR_FMT " (%s)\n",
	         at_ns > 0 ? ", if " : ": held: ", STR_ARG(step->condition), step->verdict);
}

static void
print_staying(const struct printer *to, const struct plan_object *object)
{
	print_mark(to, "", COLOUR_OF_ERRORS, "!");
	print_object_name(to, object);
	buf_addf(to->out, ": %s as it is: %" STR_FMT,
	         STAILQ_EMPTY(&object->changes) ? "stays" : "partly stays", STR_ARG(object->stays));
	if (object->n_stays > 1)
		buf_addf(to->out, " (and %zu more)", object->n_stays - 1);
	buf_add_char(to->out, '\n');
}

static void
print_error(const struct printer *to, const struct plan_object *object)
{
	print_mark(to, "", COLOUR_OF_ERRORS, "!");
	print_object_name(to, object);
	buf_addf(to->out, ": could not be computed: %" STR_FMT "\n", STR_ARG(object->error));
}

static void
print_object(const struct printer *to, const struct plan_object *object)
{
	if (!STAILQ_EMPTY(&object->changes))
		print_changes(to, object);
	if (object->last_failure.len > 0)
		buf_addf(to->out, "    so far, %" STR_FMT "\n", STR_ARG(object->last_failure));
	if (object->has_step)
		print_step(to, object);
	if (object->stays.len > 0)
		print_staying(to, object);
	if (object->error.len > 0)
		print_error(to, object);
}

static const char *
plural(size_t n)
{
	return n == 1 ? "" : "s";
}

static void
print_summary(const struct plan *p, struct buf *out)
{
	struct totals t = count_all(p);

	if (p->n_cloud + p->n_server == 0 && t.n_steps == 0 && t.n_failures == 0)
		buf_add_c(out, "Nothing to do.\n");
	if (p->n_cloud + p->n_server > 0)
		buf_addf(
			out,
			"%zu to create, %zu to change, %zu to delete: %zu request%s that change%s the cloud, %zu write%s to the API server.\n",
			t.n_things[DRY_CREATE], t.n_things[DRY_CHANGE], t.n_things[DRY_DELETE],
			p->n_cloud, plural(p->n_cloud), p->n_cloud == 1 ? "s" : "", p->n_server,
			plural(p->n_server));
	if (p->n_left_out > 0)
		buf_addf(out, "%zu more, which %s not shown.\n", p->n_left_out,
		         p->n_left_out == 1 ? "is" : "are");
	if (t.n_steps > 0)
		buf_addf(out, "%zu deletion%s to wait.\n", t.n_steps,
		         t.n_steps == 1 ? " has" : "s have");
	if (t.n_staying > 0)
		buf_addf(out, "%zu stay%s as %s until somebody corrects something.\n", t.n_staying,
		         t.n_staying == 1 ? "s" : "", t.n_staying == 1 ? "it is" : "they are");
	if (t.n_failures > 0)
		buf_addf(out, "%zu could not be computed.\n", t.n_failures);
}

void
plan_print(const struct plan *p, bool has_colours, int64_t now_wall_ns, struct buf *out)
{
	struct printer to = { out, has_colours, now_wall_ns };
	struct plan_object **objects = sorted_objects(p);

	for (size_t i = 0; i < p->n; i++)
		print_object(&to, objects[i]);
	for (size_t i = 0; i < p->n_skipped; i++)
		buf_addf(out, "  %s are left out: %s\n", p->skipped[i].what, p->skipped[i].reason);
	if (p->n + p->n_skipped > 0)
		buf_add_char(out, '\n');
	print_summary(p, out);
	free(objects);
}

/* ---- JSON ---- */

static void
add_change_json(const struct plan_change *c, struct buf *out)
{
	json_begin_object(out, NULL);
	json_add_members(out, JSON_TEXT("action", str_c(verbs[c->verb].name)),
	                 JSON_TEXT("what", str_c(c->what)), JSON_TEXT("name", c->name));
	json_begin_array(out, "fields");
	for (size_t i = 0; i < c->n_fields; i++)
		json_add_object(out, NULL, JSON_TEXT("name", c->fields[i].name),
		                JSON_TEXT("old", c->fields[i].old),
		                JSON_TEXT("new", c->fields[i].new));
	json_end_array(out);
	json_add_members(out, JSON_TEXT("request", c->request), JSON_FLAG("isCloud", c->is_cloud),
	                 JSON_FLAG("mayExceedQuota", c->is_cloud && c->verb == DRY_CREATE));
	json_end_object(out);
}

static void
add_object_json(const struct plan_object *object, struct buf *out)
{
	CLEANUP(buf_fini) struct buf time = BUF_INIT(KIB(1));
	const struct plan_step *step = &object->step;
	const struct plan_change *c;

	json_begin_object(out, NULL);
	json_add_members(out, JSON_TEXT("kind", str_c(object->kind)),
	                 JSON_TEXT("name", object->name));
	json_begin_array(out, "changes");
	STAILQ_FOREACH(c, &object->changes, next)
		add_change_json(c, out);
	json_end_array(out);
	if (step->not_before_wall_ns > 0)
		clock_format_rfc3339(&time, step->not_before_wall_ns, /*micros=*/false);
	if (object->has_step)
		json_add_object(out, "later", JSON_TEXT("action", str_c(verbs[step->verb].name)),
		                JSON_TEXT("notBefore", buf_str(&time)),
		                JSON_TEXT("verdict", str_c(step->verdict)),
		                JSON_TEXT("condition", step->condition));
	json_add_members(out, JSON_TEXT("staysBecause", object->stays),
	                 JSON_TEXT("error", object->error),
	                 JSON_TEXT("lastFailure", object->last_failure));
	json_end_object(out);
}

void
plan_print_json(const struct plan *p, struct buf *out)
{
	struct plan_object **objects = sorted_objects(p);
	struct totals t = count_all(p);

	json_begin_object(out, NULL);
	json_add_number(out, "exitCode", plan_exit_code(p));
	json_begin_array(out, "objects");
	for (size_t i = 0; i < p->n; i++)
		add_object_json(objects[i], out);
	json_end_array(out);
	json_begin_array(out, "skipped");
	for (size_t i = 0; i < p->n_skipped; i++)
		json_add_object(out, NULL, JSON_TEXT("what", str_c(p->skipped[i].what)),
		                JSON_TEXT("reason", str_c(p->skipped[i].reason)));
	json_end_array(out);
	json_add_members(out, JSON_NUMBER("toCreate", t.n_things[DRY_CREATE]),
	                 JSON_NUMBER("toChange", t.n_things[DRY_CHANGE]),
	                 JSON_NUMBER("toDelete", t.n_things[DRY_DELETE]),
	                 JSON_NUMBER("cloudRequests", p->n_cloud),
	                 JSON_NUMBER("serverWrites", p->n_server),
	                 JSON_NUMBER("leftOut", p->n_left_out));
	json_end_object(out);
	buf_add_char(out, '\n');
	free(objects);
}
