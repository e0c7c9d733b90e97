/* base/dry_run.c: the receiver that logs changes; see dry_run.h. A hash of each logged change is
 * kept. */
#include "base/dry_run.h"

#include <sys/queue.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/map.h"
#include "base/thread.h"

/* An object, and the changes that were logged for its present version. */
struct logged {
	TAILQ_ENTRY(logged) next;
	struct str key; /* behind this struct */
	uint64_t version;
	uint64_t *changes; /* owned */
	size_t n, cap;
};

struct dry_log {
	struct dry_run run;
	pthread_mutex_t mu;
	struct map objects;                       /* mu; by "KIND NAME" */
	TAILQ_HEAD(logged_list, logged) in_order; /* mu; the one seen first comes first */
};

/* ---- what was logged ---- */

static void
forget_first(struct dry_log *log)
{
	struct logged *l = TAILQ_FIRST(&log->in_order);

	TAILQ_REMOVE(&log->in_order, l, next);
	map_remove(&log->objects, l->key);
	free(l->changes);
	free(l);
}

/* Returns false if this change was logged for this version of the object already. Beyond
 * LIMIT_DRY_CHANGES, the oldest changes of the object are forgotten. */
static bool
remember(struct dry_log *log, struct str object, uint64_t version, uint64_t change)
{
	struct logged *l;
	WITH_LOCK(&log->mu);

	l = map_get(&log->objects, object);
	if (!l) {
		if (log->objects.count >= LIMIT_DRY_OBJECTS)
			forget_first(log);
		l = map_add(&log->objects, object, sizeof(*l));
		TAILQ_INSERT_TAIL(&log->in_order, l, next);
	}
	if (l->version != version)
		l->n = 0;
	l->version = version;
	for (size_t i = 0; i < l->n; i++) {
		if (l->changes[i] == change)
			return false;
	}
	if (l->n == LIMIT_DRY_CHANGES)
		memmove(l->changes, l->changes + 1, --l->n * sizeof(l->changes[0]));
	ARRAY_PUSH(l->changes, l->n, l->cap, change);
	return true;
}

/* ---- one change ---- */

/* "label a: x -> y; taint b: NoSchedule (removed); provider ID: c (new)" */
static void
add_fields(struct buf *b, const struct dry_change *change)
{
	for (size_t i = 0; i < change->n_fields; i++) {
		const struct dry_field *f = &change->fields[i];

		buf_addf(b, "%s%" STR_FMT ": ", i > 0 ? "; " : "", STR_ARG(f->name));
		if (f->old.len > 0 && f->new.len > 0)
			buf_addf(b, "%" STR_FMT " -> %" STR_FMT, STR_ARG(f->old), STR_ARG(f->new));
		else if (f->old.len > 0)
			buf_addf(b, "%" STR_FMT " (removed)", STR_ARG(f->old));
		else
			buf_addf(b, "%" STR_FMT " (new)", STR_ARG(f->new));
	}
}

static void
dry_log_note(struct dry_run *run, const struct dry_item *item, const struct dry_change *change)
{
	static const char *const messages[] = { [DRY_CREATE] = "would create",
		                                [DRY_CHANGE] = "would change",
		                                [DRY_DELETE] = "would delete" };
	struct dry_log *log = CONTAINER_OF(run, struct dry_log, run);
	CLEANUP(buf_fini) struct buf fields = BUF_INIT(LIMIT_DRY_TEXT);
	CLEANUP(buf_fini) struct buf all = BUF_INIT(LIMIT_DRY_TEXT * 2);
	CLEANUP(buf_fini) struct buf object = BUF_INIT(KIB(1));

	add_fields(&fields, change);
	buf_addf(&object, "%s %" STR_FMT, item->kind, STR_ARG(item->name));
	buf_addf(&all, "%d %s %" STR_FMT "\n%" STR_FMT "\n%" STR_FMT, (int)change->verb,
	         change->what, STR_ARG(change->name), STR_ARG(change->request),
	         STR_ARG(buf_str(&fields)));
	if (!remember(log, buf_str(&object), str_hash(item->version), str_hash(buf_str(&all))))
		return;
	log_write(LOG_INFO, messages[change->verb],
	          (const struct log_field[]){
			  LOG_CSTR("what", change->what),
			  LOG_STR("name", change->name.len > 0 ? change->name : item->name),
			  LOG_STR("request", change->request),
			  LOG_CSTR("to", change->is_cloud ? "cloud" : "API server"),
			  LOG_STR("for", buf_str(&object)),
			  LOG_STR("changes", buf_str(&fields)),
		  },
	          change->n_fields > 0 ? 6 : 5);
}

/* ---- life cycle ---- */

struct dry_run *
dry_log_new(void)
{
	struct dry_log *log = xcalloc(1, sizeof(*log));

	log->run.note = dry_log_note;
	log->objects = MAP_OF(struct logged, key);
	mutex_init(&log->mu);
	TAILQ_INIT(&log->in_order);
	return &log->run;
}

void
dry_log_free(struct dry_run *run)
{
	struct dry_log *log;

	if (!run)
		return;
	log = CONTAINER_OF(run, struct dry_log, run);
	while (!TAILQ_EMPTY(&log->in_order))
		forget_first(log);
	map_fini(&log->objects);
	mutex_destroy(&log->mu);
	free(log);
}
