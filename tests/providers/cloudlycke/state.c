/* Changes of several Services at a time: what shares a write, what others see meanwhile, and what a
 * failure undoes.
 *
 * The state file asks the fence before each write, and the fence asks the clock: so the clock is
 * where writes are held up.
 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/thread.h"
#include "providers/cloudlycke/lab.h"
#include "providers/cloudlycke/state.h"

#define PATIENCE_NS (10 * NS_PER_SEC)

enum {
	CHANGERS_MAX = 40,
};

/* One Service's record, given to the state by a thread of its own. */
struct changer {
	struct world *world;
	pthread_t thread;
	char uid[16];
	char address[16]; /* empty: the record goes */
	bool is_done;
	struct error err;
};

struct world {
	struct clock clock; /* first: see held_boot() */
	struct fence fence;
	char *path;
	struct lab *lab;
	struct cl_state *state;
	struct cl_targets *targets;
	struct changer changers[CHANGERS_MAX];
	size_t n_changers;
	pthread_mutex_t mu;
	pthread_cond_t changed;
	bool is_held;      /* mu: writes have to wait */
	bool is_refused;   /* mu: writes fail */
	unsigned n_writes; /* mu: begun */
	char text[200];    /* of written() */
};

/* ---- the clock that writes ask ---- */

static int64_t
held_boot(struct clock *clock)
{
	struct world *w = CONTAINER_OF(clock, struct world, clock);
	WITH_LOCK(&w->mu);

	w->n_writes++;
	cond_broadcast(&w->changed);
	while (w->is_held)
		clock_wait(&clock_real, &w->changed, &w->mu, CLOCK_FOREVER);
	return w->is_refused ? CLOCK_FOREVER : 0;
}

static int64_t
real_mono(struct clock *clock)
{
	(void)clock;
	return clock_mono(&clock_real);
}

static bool
real_wait(struct clock *clock, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t deadline_ns)
{
	(void)clock;
	return clock_wait(&clock_real, cond, mutex, deadline_ns);
}

static void
hold(struct world *w, bool is_held)
{
	WITH_LOCK(&w->mu);

	w->is_held = is_held;
	cond_broadcast(&w->changed);
}

static void
wait_writes(struct world *w, unsigned n)
{
	int64_t deadline_ns = clock_mono(&clock_real) + PATIENCE_NS;
	WITH_LOCK(&w->mu);

	while (w->n_writes < n)
		assert_true(clock_wait(&clock_real, &w->changed, &w->mu, deadline_ns));
}

/* ---- life ---- */

static void
open_state(struct world *w, const struct cloud_host *host)
{
	const struct cl_schema schema = { .state.file = str_c(w->path) };
	struct error err;

	if (!cl_state_open(&schema, CL_STATE_NOW, host, &w->state, &err))
		fail_msg("%s", err.msg);
}

static void
world_init(struct world *w, void **state)
{
	struct lab *lab = *state;
	CLEANUP(buf_fini) struct buf path = BUF_INIT(200);

	*w = (struct world){ .clock = { real_mono, held_boot, NULL, real_wait } };
	w->lab = lab;
	mutex_init(&w->mu);
	cond_init(&w->changed);
	w->fence.deadline_boot_ns = CLOCK_FOREVER - 1;
	lab->host.clock = &w->clock;
	lab->host.fence = &w->fence;
	buf_addf(&path, "%s/state.json", lab->folder);
	w->path = buf_take(&path);
	w->targets = cl_targets_new(NULL, 0);
	open_state(w, &lab->host);
}

/* What another process would read. */
static void
reopen(struct world *w)
{
	const struct cloud_host *host = w->state->host;

	cl_state_free(TAKE(w->state));
	open_state(w, host);
}

static void
world_fini(struct world *w)
{
	cl_state_free(w->state);
	cl_targets_unref(w->targets);
	free(w->path);
	cond_destroy(&w->changed);
	mutex_destroy(&w->mu);
}

/* ---- changes ---- */

static struct cl_record *
record_of(const struct changer *c)
{
	struct cl_record_values values = { .name = str_c(c->uid), .targets = c->world->targets };
	struct cl_addresses *addresses = &values.allocation.addresses;

	if (!c->address[0])
		return NULL;
	values.allocation.uid = str_c(c->uid);
	if (!ip_parse(str_c(c->address), &addresses->items[addresses->n++]))
		abort();
	return cl_record_new(&values);
}

static void *
run_change(void *arg)
{
	struct changer *c = arg;
	WITH_LOCK(&c->world->state->mu);

	c->is_done = cl_state_change(c->world->state, str_c(c->uid), record_of(c), &c->err);
	return NULL;
}

static size_t
count_waiting(struct world *w)
{
	size_t n = 0;
	WITH_LOCK(&w->state->mu);

	for (const struct cl_change *c = w->state->changes; c; c = c->older)
		n += c->next != NULL;
	return n + w->state->records.count;
}

static struct changer *
start(struct world *w, const char *uid, const char *address)
{
	struct changer *c = &w->changers[w->n_changers++];

	c->world = w;
	(void)snprintf(c->uid, sizeof(c->uid), "%s", uid);
	(void)snprintf(c->address, sizeof(c->address), "%s", address);
	thread_start(&c->thread, "changer", run_change, c);
	return c;
}

/* From now on a Service waits for an address. */
static void
await_address(struct world *w)
{
	WITH_LOCK(&w->state->mu);

	w->state->has_waiting = true;
}

/* One more that waits for the write after the one that is held. */
static void
start_waiting(struct world *w, const char *uid, const char *address)
{
	size_t n = count_waiting(w);

	start(w, uid, address);
	while (count_waiting(w) == n)
		sched_yield();
}

static void
join(struct world *w)
{
	while (w->n_changers > 0)
		thread_join(w->changers[--w->n_changers].thread);
}

/* "a=10.0.0.1 b=10.0.0.2": what is written, sorted by name. */
static const char *
written(struct world *w)
{
	struct buf b = BUF_FIXED(w->text);
	struct cl_record **all;
	uint64_t version;
	size_t n;

	w->text[0] = '\0';
	all = cl_state_list(w->state, &n, &version);
	for (size_t i = 0; i < n; i++) {
		const struct cl_record_values *values = &all[i]->values;

		buf_addf(&b, "%s%" STR_FMT "=", i > 0 ? " " : "", STR_ARG(values->name));
		ip_format(&b, &values->allocation.addresses.items[0]);
	}
	cl_records_free(all, n);
	return w->text;
}

/* ---- tests ---- */

static void
changes_during_a_write_share_the_next(void **state)
{
	CLEANUP(world_fini) struct world w;
	bool is_busy;

	world_init(&w, state);
	hold(&w, true);
	start(&w, "a", "10.0.0.1");
	wait_writes(&w, 1);
	start_waiting(&w, "b", "10.0.0.2");
	start_waiting(&w, "c", "10.0.0.3");
	start_waiting(&w, "d", "10.0.0.4");
	assert_string_equal(written(&w), "");
	assert_int_equal(w.state->version, 1);
	hold(&w, false);
	join(&w);
	assert_string_equal(written(&w), "a=10.0.0.1 b=10.0.0.2 c=10.0.0.3 d=10.0.0.4");
	assert_int_equal(w.n_writes, 2);
	assert_int_equal(w.state->version, 5);
	for (size_t i = 0; i < 4; i++)
		assert_true(w.changers[i].is_done);
	(void)cl_state_version(w.state, &is_busy);
	assert_false(is_busy);
}

static void
both_addresses_are_taken_until_it_is_written(void **state)
{
	CLEANUP(world_fini) struct world w;

	world_init(&w, state);
	start(&w, "a", "10.0.0.1");
	join(&w);
	hold(&w, true);
	start_waiting(&w, "a", "10.0.0.2");
	assert_int_equal(count_waiting(&w), 2);
	assert_string_equal(written(&w), "a=10.0.0.1");
	await_address(&w);
	assert_int_equal(lab_count_wakes(w.lab), 0);
	hold(&w, false);
	join(&w);
	assert_int_equal(count_waiting(&w), 1);
	assert_string_equal(written(&w), "a=10.0.0.2");
	assert_int_equal(lab_count_wakes(w.lab), 1);
	await_address(&w);
	start(&w, "a", "");
	join(&w);
	assert_string_equal(written(&w), "");
	assert_int_equal(lab_count_wakes(w.lab), 2);
}

static void
a_write_that_fails_is_undone_for_all_changes_in_it(void **state)
{
	CLEANUP(world_fini) struct world w;

	world_init(&w, state);
	start(&w, "a", "10.0.0.1");
	join(&w);
	hold(&w, true);
	start(&w, "b", "10.0.0.2");
	wait_writes(&w, 2);
	start_waiting(&w, "a", "10.0.0.3");
	start_waiting(&w, "c", "10.0.0.4");
	await_address(&w);
	w.is_refused = true;
	hold(&w, false);
	join(&w);
	assert_string_equal(written(&w), "a=10.0.0.1");
	assert_int_equal(w.n_writes, 4);             /* each of the three has tried */
	assert_int_equal(lab_count_wakes(w.lab), 1); /* what was not to be is free for others */
	for (size_t i = 0; i < 3; i++) {
		assert_false(w.changers[i].is_done);
		assert_int_equal(w.changers[i].err.code, ERR_CANCELLED);
	}
	w.is_refused = false;
	start(&w, "c", "10.0.0.4");
	join(&w);
	assert_string_equal(written(&w), "a=10.0.0.1 c=10.0.0.4");
}

/* Whatever their order, each ends with its own, and the file has them all. */
static void
many_changes_at_the_same_time(void **state)
{
	CLEANUP(world_fini) struct world w;
	char text[2][16];

	world_init(&w, state);
	for (unsigned i = 0; i < CHANGERS_MAX; i++) {
		(void)snprintf(text[0], sizeof(text[0]), "u%u", i);
		(void)snprintf(text[1], sizeof(text[1]), "10.0.0.%u", i + 1);
		start(&w, text[0], text[1]);
	}
	join(&w);
	assert_int_equal(w.state->version, 1 + CHANGERS_MAX);
	assert_true(w.n_writes <= CHANGERS_MAX);
	reopen(&w);
	assert_int_equal(count_waiting(&w), CHANGERS_MAX);
}

/* A routes' change is written together with those of balancers, and undone with them. */
static void
routes_share_the_write_and_its_failure(void **state)
{
	CLEANUP(world_fini) struct world w;
	CLEANUP(buf_fini) struct buf routes = BUF_INIT(100);
	struct error err;

	world_init(&w, state);
	assert_true(cl_state_write_routes(w.state, STR("{\"k\":[]}"), &err));
	reopen(&w);
	start(&w, "a", "10.0.0.1");
	join(&w);
	w.is_refused = true;
	assert_false(cl_state_write_routes(w.state, STR("{\"k\":[1]}"), &err));
	w.is_refused = false;
	start(&w, "b", "10.0.0.2");
	join(&w);
	cl_state_routes(w.state, &routes);
	assert_string_equal(routes.ptr, "{\"k\":[]}");
	reopen(&w);
	buf_reset(&routes);
	cl_state_routes(w.state, &routes);
	assert_string_equal(routes.ptr, "{\"k\":[]}");
	assert_string_equal(written(&w), "a=10.0.0.1 b=10.0.0.2");
}

/* Ports and nodes are not in the file: a change of them alone costs no write. */
static void
a_change_that_the_file_does_not_have_is_not_written(void **state)
{
	CLEANUP(world_fini) struct world w;
	struct cl_record *record;
	struct error err;

	world_init(&w, state);
	start(&w, "a", "10.0.0.1");
	join(&w);
	for (unsigned i = 0; i < 2; i++) {
		struct cl_record_values values =
			((struct cl_record *)map_get(&w.state->records, STR("a")))->values;
		WITH_LOCK(&w.state->mu);

		values.input = 7;
		values.hook.generation += i;
		record = cl_record_new(&values);
		assert_true(cl_state_change(w.state, STR("a"), record, &err));
		assert_ptr_equal(map_get(&w.state->records, STR("a")), record);
		assert_int_equal(w.n_writes, 1 + i);
		assert_int_equal(w.state->version, 3); /* HAProxy has nothing to do for a hook's
		                                          generation */
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, lab_setup, lab_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(changes_during_a_write_share_the_next),
		TEST(both_addresses_are_taken_until_it_is_written),
		TEST(a_write_that_fails_is_undone_for_all_changes_in_it),
		TEST(many_changes_at_the_same_time),
		TEST(routes_share_the_write_and_its_failure),
		TEST(a_change_that_the_file_does_not_have_is_not_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
