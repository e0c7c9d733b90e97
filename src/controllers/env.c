/* controllers/env.c: see env.h. */
#include "controllers/env.h"

#include "base/alloc.h"
#include "base/thread.h"

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

struct settling *
settling_new(struct clock *clock)
{
	struct settling *s = xcalloc(1, sizeof(*s));

	s->clock = clock;
	mutex_init(&s->mu);
	cond_init(&s->changed);
	return s;
}

void
settling_free(struct settling *s)
{
	if (!s)
		return;
	cond_destroy(&s->changed);
	mutex_destroy(&s->mu);
	free(s);
}

void
settling_note(struct settling *s, enum settling_part part)
{
	if (!s)
		return;
	mutex_lock(&s->mu);
	s->parts |= part;
	cond_broadcast(&s->changed);
	mutex_unlock(&s->mu);
}

bool
settling_wait(struct settling *s, unsigned parts, int64_t deadline_ns, struct error *err)
{
	size_t i = 0;
	WITH_LOCK(&s->mu);

	while ((s->parts & parts) != parts) {
		if (clock_wait(s->clock, &s->changed, &s->mu, deadline_ns) ||
		    (s->parts & parts) == parts)
			continue;
		while (!(settling_names[i].part & parts & ~s->parts))
			i++;
		return err_set(err, ERR_TIMEOUT, "%s: not done in time", settling_names[i].what);
	}
	return true;
}
