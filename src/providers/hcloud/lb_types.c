/* lb_types.c: see lb_types.h. */
#include "providers/hcloud/lb_types.h"

#include "base/alloc.h"
#include "base/metrics.h"
#include "base/thread.h"

#define MAX_AGE_NS (3600 * NS_PER_SEC)

METRIC_FAMILY(cache, METRIC_COUNTER,
              "cloud_controller_manager_load_balancer_type_cache_requests_total",
              "[ALPHA] Load balancer types looked for, by whether an answer was at hand.",
              .labels = { "subsystem", "mode", "result" });

struct hz_types {
	struct hz_api *api;
	struct clock *clock;
	pthread_mutex_t mu;
	struct arena arena;       /* mu; of the list */
	struct hz_lb_type *types; /* mu; NULL: never listed */
	size_t n;                 /* mu */
	int64_t listed_ns;        /* mu */
};

static const struct hz_lb_type *
find(const struct hz_types *t, struct str name)
{
	for (size_t i = 0; i < t->n; i++) {
		if (str_eq(t->types[i].name, name))
			return &t->types[i];
	}
	return NULL;
}

static bool
is_young(const struct hz_types *t)
{
	return t->types && clock_mono(t->clock) - t->listed_ns < MAX_AGE_NS;
}

static bool
list(struct hz_types *t, struct call *call, struct error *err)
{
	struct arena arena = ARENA_INIT;
	struct hz_lb_type *types;
	size_t n;

	if (!hz_list_lb_types(t->api, call, &arena, &types, &n, err)) {
		arena_fini(&arena);
		return err_wrap(err, "error getting load balancer type");
	}
	arena_fini(&t->arena);
	t->arena = arena;
	t->types = types;
	t->n = n;
	t->listed_ns = clock_mono(t->clock);
	return true;
}

bool
hz_types_find(struct hz_types *t, struct call *call, struct arena *arena, struct str name,
              struct hz_lb_type *ret, struct error *err)
{
	const struct hz_lb_type *type;
	WITH_LOCK(&t->mu);

	type = is_young(t) ? find(t, name) : NULL;
	metric_inc(metric_of(&cache, "load_balancer", "all", type ? "hit" : "miss"));
	if (!type && !list(t, call, err))
		return false;
	type = type ? type : find(t, name);
	if (!type)
		return err_set(err, ERR_INVALID,
		               "error getting load balancer type: "
		               "load balancer type not found: %" STR_FMT,
		               STR_ARG(name));
	*ret = *type;
	ret->name = arena_str(arena, type->name);
	return true;
}

struct hz_types *
hz_types_new(struct hz_api *api, struct clock *clock)
{
	struct hz_types *t = xcalloc(1, sizeof(*t));

	t->api = api;
	t->clock = clock;
	PTHREAD_OK(pthread_mutex_init(&t->mu, NULL));
	return t;
}

void
hz_types_free(struct hz_types *t)
{
	if (!t)
		return;
	arena_fini(&t->arena);
	PTHREAD_OK(pthread_mutex_destroy(&t->mu));
	free(t);
}
