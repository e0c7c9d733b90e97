/* controllers/node_errors.c: see node_errors.h. */
#include "controllers/node_errors.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "base/thread.h"

struct stored_error {
	TAILQ_ENTRY(stored_error) link;
	struct str name, text; /* in memory */
	int64_t first_mono_ns; /* when the first of the failures in a row was */
	int64_t failed_mono_ns;
	int64_t retry_mono_ns;
	enum node_work work;
	char memory[];
};

void
node_errors_init(struct node_errors *e, struct clock *clock)
{
	e->clock = clock;
	mutex_init(&e->mu);
	TAILQ_INIT(&e->by_failure);
	for (size_t i = 0; i < NODE_N_WORKS; i++)
		e->by_name[i] = MAP_OF(struct stored_error, name);
}

/* With the lock held. NULL is fine. */
static void
drop_stored(struct node_errors *e, struct stored_error *stored)
{
	if (!stored)
		return;
	map_remove(&e->by_name[stored->work], stored->name);
	TAILQ_REMOVE(&e->by_failure, stored, link);
	e->n--;
	free(stored);
}

void
node_errors_fini(struct node_errors *e)
{
	while (!TAILQ_EMPTY(&e->by_failure))
		drop_stored(e, TAILQ_FIRST(&e->by_failure));
	for (size_t i = 0; i < NODE_N_WORKS; i++)
		map_fini(&e->by_name[i]);
	mutex_destroy(&e->mu);
}

int64_t
node_errors_note(struct node_errors *e, enum node_work work, struct str name,
                 const struct error *err, int64_t retry_ns)
{
	struct str text = str_utf8_head(str_c(err->msg), LIMIT_NODE_ERROR);
	int64_t now_ns = clock_mono(e->clock), first_ns = now_ns;
	struct stored_error *stored;
	char *at;
	WITH_LOCK(&e->mu);

	if (err->code == ERR_CANCELLED)
		return 0;
	stored = map_get(&e->by_name[work], name);
	if (stored)
		first_ns = stored->first_mono_ns;
	drop_stored(e, stored);
	if (e->n >= LIMIT_NODE_ERRORS)
		drop_stored(e, TAILQ_FIRST(&e->by_failure));
	stored = xmalloc(sizeof(*stored) + name.len + text.len);
	*stored = (struct stored_error){ .first_mono_ns = first_ns,
		                         .failed_mono_ns = now_ns,
		                         .retry_mono_ns = clock_deadline(now_ns, retry_ns),
		                         .work = work };
	at = stored->memory;
	stored->name = str_pack(&at, name);
	stored->text = str_pack(&at, text);
	map_put(&e->by_name[work], stored->name, stored);
	TAILQ_INSERT_TAIL(&e->by_failure, stored, link);
	e->n++;
	return now_ns - first_ns;
}

void
node_errors_clear(struct node_errors *e, enum node_work work, struct str name)
{
	WITH_LOCK(&e->mu);

	drop_stored(e, map_get(&e->by_name[work], name));
}

void
node_errors_forget(struct node_errors *e, struct str name)
{
	WITH_LOCK(&e->mu);

	for (size_t i = 0; i < NODE_N_WORKS; i++)
		drop_stored(e, map_get(&e->by_name[i], name));
}

bool
node_errors_get(struct node_errors *e, enum node_work work, struct str name, struct arena *arena,
                struct node_error *ret)
{
	const struct stored_error *stored;
	int64_t now_ns = clock_mono(e->clock);
	WITH_LOCK(&e->mu);

	stored = map_get(&e->by_name[work], name);
	if (!stored)
		stored = map_get(&e->by_name[work], STR_EMPTY);
	if (!stored)
		return false;
	*ret = (struct node_error){
		.text = arena_str(arena, stored->text),
		.failed_ago_ns = now_ns - stored->failed_mono_ns,
		.retry_in_ns = clock_left(now_ns, stored->retry_mono_ns),
	};
	return true;
}
