#include "base/single_flight.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sched.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/thread.h"

enum {
	CALLERS = 8,
};

struct world {
	struct single_flight flight;
	bool is_gated;  /* mu; runs wait for it to be false */
	int n_inside;   /* mu; runs under way */
	int n_overlaps; /* mu; runs that began beside another one */
	int n_runs;     /* mu */
	int n_waiting;  /* mu; callers that have named their run */
};

struct caller {
	struct world *w;
	struct call call;
	pthread_t thread;
	bool is_ok, did_run;
	struct error err;
};

static void
work(struct world *w)
{
	single_flight_begin(&w->flight);
	w->n_runs++;
	w->n_overlaps += w->n_inside++ > 0;
	while (w->is_gated)
		(void)clock_wait(&clock_real, &w->flight.changed, &w->flight.mu, CLOCK_FOREVER);
	mutex_unlock(&w->flight.mu);
	mutex_lock(&w->flight.mu);
	w->n_inside--;
	single_flight_end(&w->flight);
}

static bool
ask_locked(struct caller *c)
{
	struct world *w = c->w;
	uint64_t run = single_flight_next(&w->flight);

	w->n_waiting++;
	if (!single_flight_wait(&w->flight, &c->call, run, "the work", &c->did_run, &c->err))
		return false;
	if (c->did_run)
		work(w);
	return true;
}

static void *
ask(void *arg)
{
	struct caller *c = arg;
	WITH_HOOK(c->call.cancel, single_flight_wake, &c->w->flight);
	WITH_LOCK(&c->w->flight.mu);

	c->is_ok = ask_locked(c);
	return NULL;
}

static void
start(struct caller *c, struct world *w, struct cancel *cancel, int64_t deadline_ns)
{
	*c = (struct caller){ .w = w, .call = { &clock_real, cancel, deadline_ns, NULL } };
	thread_start(&c->thread, "caller", ask, c);
}

/* Until n callers have named their run and n_runs runs have begun. */
static void
await(struct world *w, int n_waiting, int n_runs)
{
	WITH_LOCK(&w->flight.mu);

	while (w->n_waiting < n_waiting || w->n_runs < n_runs) {
		mutex_unlock(&w->flight.mu);
		sched_yield();
		mutex_lock(&w->flight.mu);
	}
}

static void
set_gate(struct world *w, bool is_gated)
{
	WITH_LOCK(&w->flight.mu);

	w->is_gated = is_gated;
	cond_broadcast(&w->flight.changed);
}

static int
setup(void **state)
{
	static struct world w;

	w = (struct world){ .is_gated = true };
	single_flight_init(&w.flight);
	*state = &w;
	return 0;
}

static int
teardown(void **state)
{
	struct world *w = *state;

	assert_int_equal(w->n_overlaps, 0);
	single_flight_fini(&w->flight);
	return 0;
}

static void
callers_during_a_run_share_the_next(void **state)
{
	struct world *w = *state;
	struct caller first, others[CALLERS];
	int n_did_run = 0;

	start(&first, w, NULL, CLOCK_FOREVER);
	await(w, 1, 1);
	for (size_t i = 0; i < CALLERS; i++)
		start(&others[i], w, NULL, CLOCK_FOREVER);
	await(w, 1 + CALLERS, 1);
	set_gate(w, false);
	thread_join(first.thread);
	assert_true(first.is_ok && first.did_run);
	for (size_t i = 0; i < CALLERS; i++) {
		thread_join(others[i].thread);
		assert_true(others[i].is_ok);
		n_did_run += others[i].did_run;
	}
	assert_int_equal(n_did_run, 1);
	assert_int_equal(w->n_runs, 2);
}

static void
a_run_under_way_can_be_waited_for(void **state)
{
	struct world *w = *state;
	struct call call = { .clock = &clock_real, .deadline_mono_ns = CLOCK_FOREVER };
	struct caller first;
	struct error err;

	assert_int_equal(single_flight_running(&w->flight), 0);
	start(&first, w, NULL, CLOCK_FOREVER);
	await(w, 1, 1);
	mutex_lock(&w->flight.mu);
	assert_int_equal(single_flight_running(&w->flight), 1);
	w->is_gated = false;
	cond_broadcast(&w->flight.changed);
	assert_true(single_flight_wait(&w->flight, &call, 1, "the work", NULL, &err));
	assert_int_equal(single_flight_running(&w->flight), 0);
	mutex_unlock(&w->flight.mu);
	thread_join(first.thread);
}

static void
a_caller_that_gives_up_leaves_its_run_to_another(void **state)
{
	CLEANUP(cancel_freep) struct cancel *cancel = cancel_new();
	struct world *w = *state;
	struct caller first, cancelled, late, last;

	start(&first, w, NULL, CLOCK_FOREVER);
	await(w, 1, 1);
	start(&cancelled, w, cancel, CLOCK_FOREVER);
	start(&late, w, NULL, clock_mono(&clock_real) + NS_PER_MS);
	start(&last, w, NULL, CLOCK_FOREVER);
	await(w, 4, 1);
	cancel_fire(cancel);
	thread_join(cancelled.thread);
	thread_join(late.thread);
	assert_false(cancelled.is_ok);
	assert_int_equal(cancelled.err.code, ERR_CANCELLED);
	assert_string_equal(cancelled.err.msg, "cancelled while waiting for the work");
	assert_false(late.is_ok);
	assert_int_equal(late.err.code, ERR_TIMEOUT);
	set_gate(w, false);
	thread_join(first.thread);
	thread_join(last.thread);
	assert_true(last.is_ok && last.did_run);
	assert_int_equal(w->n_runs, 2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(callers_during_a_run_share_the_next, setup,
		                                teardown),
		cmocka_unit_test_setup_teardown(a_run_under_way_can_be_waited_for, setup, teardown),
		cmocka_unit_test_setup_teardown(a_caller_that_gives_up_leaves_its_run_to_another,
		                                setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
