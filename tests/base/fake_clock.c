#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/thread.h"

#include <cmocka.h>

#include "fake_clock.h"

enum {
	N_THREADS = 8,
};

/* A thread that does a piece of work when it is given one, or when its deadline passes. */
struct worker {
	struct clock *clock;
	struct worker *next; /* gets a piece for each one done; NULL: the last of its chain */
	pthread_t thread;
	int64_t period_ns;
	pthread_mutex_t mu;
	pthread_cond_t changed;
	int64_t deadline_ns; /* mu */
	int n_given;         /* mu */
	int n_done;          /* mu */
	int n_timeouts;      /* mu */
	bool is_ended;       /* mu */
};

static void
give(struct worker *w)
{
	WITH_LOCK(&w->mu);
	w->n_given++;
	cond_signal(&w->changed);
}

static void
work(struct worker *w)
{
	w->n_done++;
	mutex_unlock(&w->mu);
	if (w->next)
		give(w->next);
	mutex_lock(&w->mu);
}

static void *
run(void *arg)
{
	struct worker *w = arg;
	WITH_LOCK(&w->mu);

	while (!w->is_ended) {
		if (w->n_done < w->n_given) {
			work(w);
		} else if (!clock_wait(w->clock, &w->changed, &w->mu, w->deadline_ns)) {
			w->n_timeouts++;
			w->deadline_ns = clock_deadline(w->deadline_ns, w->period_ns);
		}
	}
	return NULL;
}

static void
start(struct worker *w, struct fake_clock *fake, int64_t first_ns, int64_t period_ns,
      struct worker *next)
{
	*w = (struct worker){
		.clock = fake_clock_clock(fake),
		.next = next,
		.deadline_ns = clock_deadline(clock_mono(fake_clock_clock(fake)), first_ns),
		.period_ns = period_ns,
	};
	mutex_init(&w->mu);
	cond_init(&w->changed);
	thread_start(&w->thread, "worker", run, w);
}

static void
stop(struct worker *w)
{
	mutex_lock(&w->mu);
	w->is_ended = true;
	cond_signal(&w->changed);
	mutex_unlock(&w->mu);
	thread_join(w->thread);
	cond_destroy(&w->changed);
	mutex_destroy(&w->mu);
}

static int
timeouts_of(struct worker *w)
{
	WITH_LOCK(&w->mu);
	return w->n_timeouts;
}

static int
done_by(struct worker *w)
{
	WITH_LOCK(&w->mu);
	return w->n_done;
}

static void
stands_still_until_moved(void **state)
{
	struct fake_clock *fake = fake_clock_new(77);
	struct clock *clock = fake_clock_clock(fake);
	int64_t mono = clock_mono(clock);
	int64_t boot = clock_boot(clock);

	(void)state;
	assert_true(clock_wall(clock) == 77);
	assert_true(mono != boot);
	fake_clock_advance(fake, 10);
	assert_true(clock_mono(clock) == mono + 10);
	assert_true(clock_boot(clock) == boot + 10);
	assert_true(clock_wall(clock) == 87);
	fake_clock_jump_wall(fake, -50);
	assert_true(clock_wall(clock) == 37);
	assert_true(clock_mono(clock) == mono + 10);
	fake_clock_suspend(fake, 5);
	assert_true(clock_mono(clock) == mono + 10);
	assert_true(clock_boot(clock) == boot + 15);
	assert_true(clock_wall(clock) == 42);
	fake_clock_free(fake);
	fake_clock_free(NULL);
}

static void
wakes_threads_that_are_due(void **state)
{
	struct fake_clock *fake = fake_clock_new(0);
	struct worker early, late;

	(void)state;
	start(&early, fake, 10, CLOCK_FOREVER, NULL);
	start(&late, fake, 20, CLOCK_FOREVER, NULL);
	fake_clock_settle(fake, 2);
	fake_clock_advance(fake, 9);
	fake_clock_settle(fake, 2);
	assert_int_equal(timeouts_of(&early), 0);
	fake_clock_advance(fake, 1);
	fake_clock_settle(fake, 2);
	assert_int_equal(timeouts_of(&early), 1);
	assert_int_equal(timeouts_of(&late), 0);
	fake_clock_advance(fake, 100);
	fake_clock_settle(fake, 2);
	assert_int_equal(timeouts_of(&early), 1);
	assert_int_equal(timeouts_of(&late), 1);
	stop(&early);
	stop(&late);
	fake_clock_free(fake);
}

static void
a_past_deadline_does_not_wait(void **state)
{
	struct fake_clock *fake = fake_clock_new(0);
	struct clock *clock = fake_clock_clock(fake);
	pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t cond;

	(void)state;
	cond_init(&cond);
	mutex_lock(&mu);
	assert_false(clock_wait(clock, &cond, &mu, clock_mono(clock)));
	assert_false(clock_wait(clock, &cond, &mu, INT64_MIN));
	mutex_unlock(&mu);
	cond_destroy(&cond);
	fake_clock_free(fake);
}

/* Each advance is one period: a lost wake-up would hang, a missed one would count too few. */
static void
no_wake_up_is_lost(void **state)
{
	struct fake_clock *fake = fake_clock_new(0);
	struct worker workers[N_THREADS];

	(void)state;
	for (int i = 0; i < N_THREADS; i++)
		start(&workers[i], fake, 1 + i, 1 + i, NULL);
	fake_clock_settle(fake, N_THREADS);
	for (int round = 0; round < 100; round++) {
		fake_clock_advance(fake, 1);
		fake_clock_settle(fake, N_THREADS);
	}
	for (int i = 0; i < N_THREADS; i++) {
		assert_int_equal(timeouts_of(&workers[i]), 100 / (1 + i));
		stop(&workers[i]);
	}
	fake_clock_free(fake);
}

static void
one_long_step_is_many_short_ones(void **state)
{
	struct fake_clock *fake = fake_clock_new(0);
	struct worker w;

	(void)state;
	start(&w, fake, 1, 1, NULL);
	fake_clock_advance(fake, 1000);
	fake_clock_settle(fake, 1);
	assert_int_equal(timeouts_of(&w), 1000);
	stop(&w);
	fake_clock_free(fake);
}

static void
settling_covers_signals(void **state)
{
	struct fake_clock *fake = fake_clock_new(0);
	struct worker chain[N_THREADS];

	(void)state;
	for (int i = N_THREADS - 1; i >= 0; i--)
		start(&chain[i], fake, CLOCK_FOREVER, 0, i < N_THREADS - 1 ? &chain[i + 1] : NULL);
	for (int round = 1; round <= 50; round++) {
		give(&chain[0]);
		fake_clock_settle(fake, N_THREADS);
		for (int i = 0; i < N_THREADS; i++)
			assert_int_equal(done_by(&chain[i]), round);
	}
	for (int i = 0; i < N_THREADS; i++)
		stop(&chain[i]);
	fake_clock_free(fake);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stands_still_until_moved),
		cmocka_unit_test(wakes_threads_that_are_due),
		cmocka_unit_test(a_past_deadline_does_not_wait),
		cmocka_unit_test(no_wake_up_is_lost),
		cmocka_unit_test(one_long_step_is_many_short_ones),
		cmocka_unit_test(settling_covers_signals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
