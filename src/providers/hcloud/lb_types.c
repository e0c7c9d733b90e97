/* lb_types.c: see lb_types.h. */
#include "providers/hcloud/lb_types.h"

#include "base/alloc.h"
#include "base/metrics.h"
#include "base/thread.h"

#define MAX_AGE_NS (3600 * NS_PER_SEC)
/* A type that the last list lacks may be new, but a Service with a misspelt one must not cause a request at each of its tries. */
#define MISS_AGE_NS (60 * NS_PER_SEC)

METRIC_FAMILY(cache, METRIC_COUNTER,
              "cloud_controller_manager_load_balancer_type_cache_requests_total",
              "[ALPHA] Load balancer types looked for, by whether an answer was at hand.",
              .labels = { "subsystem", "mode", "result" });

struct hz_types {
	struct hz_api *api;
	struct clock *clock;
	pthread_mutex_t
		listing; /* held during a request, so that there is one at a time; before mu */
	pthread_mutex_t
		mu; /* never held during a request: a type that is known is found meanwhile */
	struct arena arena;       /* mu; of the list */
	struct hz_lb_type *types; /* mu; NULL: never listed */
	size_t n;                 /* mu */
	int64_t listed_ns;        /* mu; when the request of the list began */
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
set_missing(struct error *err, struct str name)
{
	return err_set(err, ERR_INVALID,
	               "error getting load balancer type: load balancer type not found: %" STR_FMT,
	               STR_ARG(name));
}

/* What the last list says about the name, with that answer as the result. *ret_is_known false: it is too old to say. */
static bool
recall(struct hz_types *t, struct arena *arena, struct str name, bool *ret_is_known,
       struct hz_lb_type *ret, struct error *err)
{
	const struct hz_lb_type *type;
	int64_t age_ns;
	WITH_LOCK(&t->mu);

	type = find(t, name);
	age_ns = clock_mono(t->clock) - t->listed_ns;
	*ret_is_known = t->types && age_ns < (type ? MAX_AGE_NS : MISS_AGE_NS);
	if (!*ret_is_known || !type)
		return set_missing(err, name);
	*ret = *type;
	ret->name = arena_str(arena, type->name);
	return true;
}

static bool
list(struct hz_types *t, struct call *call, struct error *err)
{
	int64_t begun_ns = clock_mono(t->clock);
	struct arena arena = ARENA_INIT;
	struct hz_lb_type *types;
	size_t n;

	if (!hz_list_lb_types(t->api, call, &arena, &types, &n, err)) {
		arena_fini(&arena);
		return err_wrap(err, "error getting load balancer type");
	}
	mutex_lock(&t->mu);
	arena_fini(&t->arena);
	t->arena = arena;
	t->types = types;
	t->n = n;
	t->listed_ns = begun_ns;
	mutex_unlock(&t->mu);
	return true;
}

bool
hz_types_find(struct hz_types *t, struct call *call, struct arena *arena, struct str name,
              struct hz_lb_type *ret, struct error *err)
{
	bool is_known, is_found = recall(t, arena, name, &is_known, ret, err);

	metric_inc(metric_of(&cache, "load_balancer", "all", is_known ? "hit" : "miss"));
	if (is_known)
		return is_found;
	WITH_LOCK(&t->listing);
	/* another caller may have listed while this one waited */
	is_found = recall(t, arena, name, &is_known, ret, err);
	if (is_known)
		return is_found;
	if (!list(t, call, err))
		return false;
	return recall(t, arena, name, &is_known, ret, err);
}

struct hz_types *
hz_types_new(struct hz_api *api, struct clock *clock)
{
	struct hz_types *t = xcalloc(1, sizeof(*t));

	t->api = api;
	t->clock = clock;
	PTHREAD_OK(pthread_mutex_init(&t->listing, NULL));
	PTHREAD_OK(pthread_mutex_init(&t->mu, NULL));
	return t;
}

void
hz_types_free(struct hz_types *t)
{
	if (!t)
		return;
	arena_fini(&t->arena);
	PTHREAD_OK(pthread_mutex_destroy(&t->listing));
	PTHREAD_OK(pthread_mutex_destroy(&t->mu));
	free(t);
}
