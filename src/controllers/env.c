/* controllers/env.c: see env.h. */
#include "controllers/env.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "controllers/event_dedup.h"
#include "controllers/node_errors.h"
#include "controllers/pace.h"
#include "controllers/writes.h"

struct call
env_call(const struct controller_env *env, struct arena *arena, int64_t timeout_ns)
{
	return (struct call){ .clock = env->clock,
		              .cancel = env->cancel,
		              .deadline_mono_ns = clock_deadline(clock_mono(env->clock),
		                                                 timeout_ns),
		              .arena = arena };
}

const struct dry_item *
dry_item_new(const struct controller_env *env, const char *kind, struct str name,
             struct str version, struct arena *arena)
{
	struct dry_item *item;

	if (!env->dry)
		return NULL;
	item = arena_calloc(arena, 1, sizeof(*item));
	*item = (struct dry_item){ .run = env->dry,
		                   .kind = kind,
		                   .name = arena_str(arena, name),
		                   .version = arena_str(arena, version) };
	return item;
}

const struct dry_item *
dry_item_find(const struct controller_env *env, struct store *store, const char *kind,
              struct str key, struct arena *arena)
{
	CLEANUP(object_unrefp) struct object *object = env->dry ? store_get(store, key) : NULL;

	return dry_item_new(env, kind, key, object ? object->resource_version : STR_EMPTY, arena);
}

/* ---- first runs ---- */

static const struct {
	enum settling_part part;
	const char *what;
} settling_names[] = {
	{ SETTLING_ADDRESSES, "compare the addresses of all nodes" },
	{ SETTLING_LIFECYCLE, "check the nodes that are not Ready" },
	{ SETTLING_ADOPTION, "adopt existing load balancers" },
	{ SETTLING_ROUTES, "compare the routes" },
};

struct settling {
	struct clock *clock;
	pthread_mutex_t mu;
	pthread_cond_t changed;
	unsigned parts; /* mu; whose first run has ended */
};

void
settling_note(struct settling *s, enum settling_part part)
{
	WITH_LOCK(&s->mu);

	s->parts |= part;
	cond_broadcast(&s->changed);
}

bool
settling_wait(struct settling *s, unsigned parts, int64_t deadline_ns, struct error *err)
{
	WITH_LOCK(&s->mu);

	while ((parts & ~s->parts) && clock_wait(s->clock, &s->changed, &s->mu, deadline_ns))
		continue;
	for (size_t i = 0; i < ARRAY_LEN(settling_names); i++) {
		if (settling_names[i].part & parts & ~s->parts)
			return err_set(err, ERR_TIMEOUT, "%s: not done in time",
			               settling_names[i].what);
	}
	return true;
}

/* ---- what the controllers remember together ---- */

struct controller_memory {
	struct event_dedup event_dedup;
	struct node_errors node_errors;
	struct own_writes own_writes;
	struct paces paces;
	struct settling settling;
};

struct controller_memory *
controller_memory_new(struct controller_env *env)
{
	struct controller_memory *m = xcalloc(1, sizeof(*m));

	*m = (struct controller_memory){
		.event_dedup = { .recorder = env->recorder,
		                 .last = MAP_OF(struct sent_event, key) },
		.own_writes = { .clock = env->clock },
		.paces = { .clock = env->clock, .all = MAP_OF(struct paced, key) },
		.settling = { .clock = env->clock },
	};
	mutex_init(&m->event_dedup.mu);
	node_errors_init(&m->node_errors, env->clock);
	mutex_init(&m->own_writes.mu);
	mutex_init(&m->paces.mu);
	mutex_init(&m->settling.mu);
	cond_init(&m->settling.changed);

	env->event_dedup = &m->event_dedup;
	env->node_errors = &m->node_errors;
	env->own_writes = &m->own_writes;
	env->paces = &m->paces;
	env->settling = &m->settling;
	return m;
}

void
controller_memory_free(struct controller_memory *m)
{
	if (!m)
		return;
	map_free_all(&m->event_dedup.last, free);
	mutex_destroy(&m->event_dedup.mu);
	node_errors_fini(&m->node_errors);
	map_free_all(&m->own_writes.entries, free);
	mutex_destroy(&m->own_writes.mu);
	map_free_all(&m->paces.all, free);
	mutex_destroy(&m->paces.mu);
	cond_destroy(&m->settling.changed);
	mutex_destroy(&m->settling.mu);
	free(m);
}
