/* operator/plan.c: collects the changes of a dry run; see plan.h.
 *
 * All text is cleaned when it is stored, because names, labels and errors come from other programs
 * and are printed on a terminal. An object has few changes, so they are searched one by one.
 */
#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/thread.h"
#include "operator/plan.h"

enum {
	LONGEST_TEXT = 4096,
};

/* ---- collecting ---- */

/* A copy as one line without control characters. */
static struct str
clean_copy(struct plan *p, struct str text)
{
	CLEANUP(buf_fini) struct buf clean = BUF_INIT(LONGEST_TEXT);

	buf_add_clean(&clean, text);
	return arena_str(&p->arena, buf_str(&clean));
}

/* Finds the object, or adds it. NULL: LIMIT_PLAN is reached, and what was to be noted is only
 * counted. */
static struct plan_object *
plan_object_make(struct plan *p, const char *kind, struct str name)
{
	CLEANUP(buf_fini) struct buf key = BUF_INIT(LONGEST_TEXT);
	struct plan_object *object;

	buf_addf(&key, "%s %" STR_FMT, kind, STR_ARG(name));
	object = map_get(&p->by_key, buf_str(&key));
	if (object)
		return object;
	if (p->arena.total >= LIMIT_PLAN) {
		p->n_left_out++;
		return NULL;
	}
	object = ARENA_NEW(&p->arena, struct plan_object);
	object->key = arena_str(&p->arena, buf_str(&key));
	object->kind = kind;
	object->name = clean_copy(p, name);
	STAILQ_INIT(&object->changes);
	map_put(&p->by_key, object->key, object);
	ARRAY_PUSH(p->objects, p->n, p->cap, object);
	return object;
}

static struct plan_change *
copy_change(struct plan *p, const struct dry_item *item, const struct dry_change *from)
{
	struct plan_change *to = ARENA_NEW(&p->arena, struct plan_change);

	*to = (struct plan_change){
		.verb = from->verb,
		.is_cloud = from->is_cloud,
		.what = from->what,
		.name = clean_copy(p, from->name),
		.request = clean_copy(p, from->request),
		.version = clean_copy(p, item->version),
		.fields = arena_calloc(&p->arena, from->n_fields + 1, sizeof(to->fields[0])),
		.n_fields = from->n_fields,
	};
	for (size_t i = 0; i < from->n_fields; i++)
		to->fields[i] = (struct dry_field){ .name = clean_copy(p, from->fields[i].name),
			                            .old = clean_copy(p, from->fields[i].old),
			                            .new = clean_copy(p, from->fields[i].new) };
	return to;
}

/* Do both change the same members of the same thing? */
static bool
is_same_request(const struct plan_change *a, const struct plan_change *b)
{
	if (a->verb != b->verb || strcmp(a->what, b->what) != 0 || !str_eq(a->name, b->name) ||
	    !str_eq(a->request, b->request) || a->n_fields != b->n_fields)
		return false;
	for (size_t i = 0; i < a->n_fields; i++) {
		if (!str_eq(a->fields[i].name, b->fields[i].name))
			return false;
	}
	return true;
}

static bool
has_same_values(const struct plan_change *a, const struct plan_change *b)
{
	for (size_t i = 0; i < a->n_fields; i++) {
		if (!str_eq(a->fields[i].old, b->fields[i].old) ||
		    !str_eq(a->fields[i].new, b->fields[i].new))
			return false;
	}
	return true;
}

/* Returns true if the object has this change already, which then has the new values. Two requests
 * that were computed from the same version and differ only in values are two changes: for example,
 * they add two targets. */
static bool
merge_change(struct plan_object *object, const struct plan_change *new)
{
	struct plan_change *old;

	STAILQ_FOREACH(old, &object->changes, next) {
		if (is_same_request(old, new) &&
		    (has_same_values(old, new) || !str_eq(old->version, new->version))) {
			old->fields = new->fields;
			old->version = new->version;
			return true;
		}
	}
	return false;
}

static void
plan_note_change(struct dry_run *run, const struct dry_item *item, const struct dry_change *change)
{
	struct plan *p = CONTAINER_OF(run, struct plan, dry);
	struct plan_object *object;
	struct plan_change *new;
	WITH_LOCK(&p->mu);

	object = plan_object_make(p, item->kind, item->name);
	if (object && p->arena.total >= LIMIT_PLAN) {
		p->n_left_out++;
	} else if (object) {
		new = copy_change(p, item, change);
		if (merge_change(object, new))
			return;
		STAILQ_INSERT_TAIL(&object->changes, new, next);
	}
	if (change->is_cloud)
		p->n_cloud++;
	else
		p->n_server++;
}

/* Some errors last until somebody corrects something. Such an answer is about one object; about all
 * of a kind nothing is known then. */
void
plan_note_failure(struct plan *p, const char *kind, struct str name, const struct error *err)
{
	bool is_lasting = err->code == ERR_NOT_FOUND || err->code == ERR_INVALID ||
	                  err->code == ERR_UNSUPPORTED || err->code == ERR_EXISTS;
	struct plan_object *object;
	WITH_LOCK(&p->mu);

	object = plan_object_make(p, kind, name);
	if (!object)
		return;
	if (name.len == 0 || !is_lasting)
		object->error = clean_copy(p, str_c(err->msg));
	else if (object->n_stays++ == 0)
		object->stays = clean_copy(p, str_c(err->msg));
}

static void
plan_note_failed(struct dry_run *run, const struct dry_item *item, const struct error *err)
{
	plan_note_failure(CONTAINER_OF(run, struct plan, dry), item->kind, item->name, err);
}

void
plan_note_step(struct plan *p, const char *kind, struct str name, const struct plan_step *step)
{
	struct plan_object *object;
	WITH_LOCK(&p->mu);

	object = plan_object_make(p, kind, name);
	if (!object)
		return;
	object->has_step = true;
	object->step = *step;
	object->step.condition = clean_copy(p, step->condition);
}

static void
plan_note_held(struct dry_run *run, const struct dry_item *item, const struct dry_hold *hold)
{
	struct plan_step step = { .verb = DRY_DELETE,
		                  .verdict = hold->verdict,
		                  .condition = str_c(hold->condition) };

	if (hold->wait_ns != CLOCK_FOREVER)
		step.not_before_wall_ns = clock_wall(&clock_real) + hold->wait_ns;
	plan_note_step(CONTAINER_OF(run, struct plan, dry), item->kind, item->name, &step);
}

void
plan_note_last_failure(struct plan *p, struct plan_object *object, struct str text)
{
	object->last_failure = clean_copy(p, text);
}

void
plan_note_skipped(struct plan *p, const char *what, const char *reason)
{
	WITH_LOCK(&p->mu);

	if (p->n_skipped == PLAN_MAX_SKIPPED)
		return;
	p->skipped[p->n_skipped].what = what;
	p->skipped[p->n_skipped++].reason = reason;
}

/* ---- life cycle ---- */

struct plan *
plan_new(void)
{
	struct plan *p = xcalloc(1, sizeof(*p));

	p->dry = (struct dry_run){ .note = plan_note_change,
		                   .failed = plan_note_failed,
		                   .held = plan_note_held };
	p->by_key = MAP_OF(struct plan_object, key);
	mutex_init(&p->mu);
	return p;
}

void
plan_free(struct plan *p)
{
	if (!p)
		return;
	map_fini(&p->by_key);
	free(p->objects);
	arena_fini(&p->arena);
	mutex_destroy(&p->mu);
	free(p);
}

struct dry_run *
plan_dry_run(struct plan *p)
{
	return &p->dry;
}
