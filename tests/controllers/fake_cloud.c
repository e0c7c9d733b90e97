/* tests/controllers/fake_cloud.c: see fake_cloud.h. */
#include "controllers/fake_cloud.h"

#include <stdio.h>

#include "base/array.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/thread.h"

struct named_machine {
	char *name;
	struct fake_machine machine;
};

struct asked {
	int64_t started_boot_ns;
	size_t n;
	struct buf names; /* and provider IDs: ",a,fake://a,b," */
};

struct fake_cloud {
	struct cloud cloud;
	struct cloud_ops ops;
	void *balancers, *routes;
	struct clock *clock;
	pthread_mutex_t mu;
	pthread_cond_t released;
	struct map machines;       /* mu; name -> struct named_machine */
	enum err_code failure;     /* mu */
	unsigned n_anchors;        /* mu */
	fake_mood_fn *mood;        /* mu */
	void *mood_arg;            /* mu */
	bool is_holding;           /* mu */
	unsigned n_released;       /* mu */
	struct asked *asked;       /* mu */
	size_t n_asked, cap_asked; /* mu */
};

static struct fake_cloud *
fake_of(struct cloud *c)
{
	return CONTAINER_OF(c, struct fake_cloud, cloud);
}

/* ---- a look ---- */

static void
note(struct fake_cloud *f, const struct node_ref refs[], size_t n, int64_t started_boot_ns)
{
	struct asked asked = { started_boot_ns, n, BUF_INIT(MIB(1)) };

	buf_add_char(&asked.names, ',');
	for (size_t i = 0; i < n; i++)
		buf_addf(&asked.names, "%" STR_FMT ",%" STR_FMT ",", STR_ARG(refs[i].name),
		         STR_ARG(refs[i].provider_id));
	ARRAY_PUSH(f->asked, f->n_asked, f->cap_asked, asked);
}

static void
describe(struct look *look, struct instance *instance, const struct fake_machine *m,
         struct str name)
{
	instance->presence = m->presence;
	instance->power = m->power;
	instance->realm = m->realm;
	instance->error = STR_EMPTY;
	instance->error_code = ERR_NONE;
	instance->provider_id = m->provider_id ? str_c(m->provider_id)
	                                       : arena_printf(&look->arena, "fake://%" STR_FMT,
	                                                      STR_ARG(name));
	instance->type = str_c(m->type);
	instance->zone = str_c(m->zone);
	instance->region = str_c(m->region);
	instance->addresses = m->addresses;
	instance->n_addresses = m->n_addresses;
	instance->labels = m->labels;
	instance->n_labels = m->n_labels;
}

static void
answer(struct fake_cloud *f, struct look *look, size_t i, struct str name)
{
	const struct named_machine *named = map_get(&f->machines, name);
	struct fake_machine m = named ? named->machine : MACHINE_GONE;

	if (m.presence == PRESENCE_PRESENT || m.presence == PRESENCE_ABSENT)
		describe(look, &look->instances[i], &m, name);
	else
		look_set_error(look, i, m.presence, m.error_code, STR("the fake cloud says so"));
}

static void
wake(void *arg)
{
	struct fake_cloud *f = arg;
	WITH_LOCK(&f->mu);

	cond_broadcast(&f->released);
}

static bool
wait_released(struct fake_cloud *f, struct call *call, struct error *err)
{
	while (f->is_holding && f->n_released == 0) {
		if (cancel_is_fired(call->cancel))
			return err_set(err, ERR_CANCELLED, "cancelled");
		if (!clock_wait(f->clock, &f->released, &f->mu, call->deadline_mono_ns))
			return err_set(err, ERR_TIMEOUT, "held for too long");
	}
	if (f->is_holding)
		f->n_released--;
	return true;
}

static bool
look_locked(struct fake_cloud *f, struct call *call, const struct node_ref refs[], size_t n,
            struct look **ret, struct error *err)
{
	CLEANUP(look_unrefp) struct look *look = look_new(n, clock_boot(f->clock));
	WITH_LOCK(&f->mu);

	note(f, refs, n, look->started_boot_ns);
	if (!wait_released(f, call, err))
		return false;
	if (f->failure != ERR_NONE)
		return err_set(err, f->failure, "the fake cloud fails");
	for (size_t i = 0; i < n; i++)
		answer(f, look, i, refs[i].name);
	look->n_anchors = f->n_anchors;
	if (f->mood && !f->mood(f->mood_arg, look, err))
		return false;
	*ret = TAKE(look);
	return true;
}

static bool
look_now(struct cloud *cloud, struct call *call, const struct node_ref refs[], size_t n,
         int64_t not_before_boot_ns, struct look **ret, struct error *err)
{
	struct fake_cloud *f = fake_of(cloud);
	WITH_HOOK(call->cancel, wake, f);

	(void)not_before_boot_ns;
	return look_locked(f, call, refs, n, ret, err);
}

/* Consistent with what a look would answer. */
static bool
can_find(struct cloud *cloud, struct str provider_id, unsigned *ret_realm)
{
	struct fake_cloud *f = fake_of(cloud);
	struct str prefix = STR("fake://");
	const struct named_machine *named;
	WITH_LOCK(&f->mu);

	if (!str_starts(provider_id, prefix))
		return false;
	named = map_get(&f->machines, str_skip(provider_id, prefix.len));
	*ret_realm = named ? named->machine.realm : 0;
	return !named || named->machine.presence != PRESENCE_FOREIGN;
}

/* ---- life cycle ---- */

struct fake_cloud *
fake_cloud_new(struct clock *clock)
{
	struct fake_cloud *f = xcalloc(1, sizeof(*f));

	f->ops = (struct cloud_ops){ .name = "fake", .look = look_now, .can_find = can_find };
	f->cloud.ops = &f->ops;
	f->clock = clock;
	mutex_init(&f->mu);
	cond_init(&f->released);
	return f;
}

void
fake_cloud_free(struct fake_cloud *f)
{
	struct str name;
	void *value;

	for (size_t pos = 0; map_next(&f->machines, &pos, &name, &value);) {
		struct named_machine *named = value;

		free(named->name);
		free(named);
	}
	map_fini(&f->machines);
	for (size_t i = 0; i < f->n_asked; i++)
		buf_fini(&f->asked[i].names);
	free(f->asked);
	cond_destroy(&f->released);
	mutex_destroy(&f->mu);
	free(f);
}

struct cloud *
fake_cloud_cloud(struct fake_cloud *f)
{
	return &f->cloud;
}

void
fake_cloud_offer_balancers(struct fake_cloud *f, const struct balancer_ops *ops, void *state)
{
	f->cloud.balancers = ops;
	f->balancers = state;
}

void
fake_cloud_offer_routes(struct fake_cloud *f, const struct route_ops *ops, void *state)
{
	f->cloud.routes = ops;
	f->routes = state;
}

void
fake_cloud_name_prefix(struct fake_cloud *f)
{
	f->ops.provider_id_prefix = "fake://";
}

void *
fake_cloud_balancers(struct cloud *cloud)
{
	return fake_of(cloud)->balancers;
}

void *
fake_cloud_routes(struct cloud *cloud)
{
	return fake_of(cloud)->routes;
}

/* ---- what it is like ---- */

void
fake_cloud_set(struct fake_cloud *f, const char *name, struct fake_machine machine)
{
	struct named_machine *named;
	WITH_LOCK(&f->mu);

	named = map_get(&f->machines, str_c(name));
	if (!named) {
		named = xcalloc(1, sizeof(*named));
		named->name = xstrdup(name);
		map_put(&f->machines, str_c(named->name), named);
	}
	named->machine = machine;
}

void
fake_cloud_fail(struct fake_cloud *f, enum err_code code)
{
	WITH_LOCK(&f->mu);

	f->failure = code;
}

void
fake_cloud_anchors(struct fake_cloud *f, unsigned n)
{
	WITH_LOCK(&f->mu);

	f->n_anchors = n;
}

void
fake_cloud_mood(struct fake_cloud *f, fake_mood_fn *mood, void *arg)
{
	WITH_LOCK(&f->mu);

	f->mood = mood;
	f->mood_arg = arg;
}

void
fake_cloud_hold(struct fake_cloud *f)
{
	WITH_LOCK(&f->mu);

	f->is_holding = true;
}

void
fake_cloud_release(struct fake_cloud *f, unsigned n)
{
	WITH_LOCK(&f->mu);

	f->n_released += n;
	cond_broadcast(&f->released);
}

void
fake_cloud_let_go(struct fake_cloud *f)
{
	WITH_LOCK(&f->mu);

	f->is_holding = false;
	cond_broadcast(&f->released);
}

/* ---- what it was asked ---- */

size_t
fake_cloud_looks(struct fake_cloud *f)
{
	WITH_LOCK(&f->mu);

	return f->n_asked;
}

static const struct asked *
nth_asked(const struct fake_cloud *f, size_t i)
{
	if (i < f->n_asked)
		return &f->asked[i];
	(void)fprintf(stderr, "look %zu never happened\n", i);
	abort();
}

int64_t
fake_cloud_started_ns(struct fake_cloud *f, size_t i)
{
	WITH_LOCK(&f->mu);

	return nth_asked(f, i)->started_boot_ns;
}

size_t
fake_cloud_asked(struct fake_cloud *f, size_t i)
{
	WITH_LOCK(&f->mu);

	return nth_asked(f, i)->n;
}

bool
fake_cloud_has_asked(struct fake_cloud *f, size_t i, const char *what)
{
	CLEANUP(buf_fini) struct buf wanted = BUF_INIT(KIB(1));
	WITH_LOCK(&f->mu);

	buf_addf(&wanted, ",%s,", what);
	return str_contains(buf_str(&nth_asked(f, i)->names), buf_str(&wanted));
}
