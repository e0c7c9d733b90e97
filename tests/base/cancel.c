#include "base/cancel.h"

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/thread.h"
#include "fake_clock.h"

static void
count(void *arg)
{
	++*(int *)arg;
}

static void
hooks_run_once(void **state)
{
	CLEANUP(cancel_freep) struct cancel *c = cancel_new();
	int counts[20] = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(counts); i++)
		cancel_hook(c, count, &counts[i]);
	cancel_unhook(c, count, &counts[3]);
	assert_false(cancel_is_fired(c));
	cancel_fire(c);
	assert_true(cancel_is_fired(c));
	cancel_fire(c);
	for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
		assert_int_equal(counts[i], i != 3);
		cancel_unhook(c, count, &counts[i]);
	}
}

static void
a_late_hook_runs_immediately(void **state)
{
	CLEANUP(cancel_freep) struct cancel *c = cancel_new();
	int n = 0;

	(void)state;
	cancel_fire(c);
	cancel_hook(c, count, &n);
	assert_int_equal(n, 1);
	cancel_unhook(c, count, &n);
	cancel_fire(c);
	assert_int_equal(n, 1);
}

static void
see_flag(void *arg)
{
	void **seen = arg;

	seen[1] = cancel_is_fired(seen[0]) ? arg : NULL;
}

static void
hooks_see_the_flag(void **state)
{
	CLEANUP(cancel_freep) struct cancel *c = cancel_new();
	void *seen[2] = { c, NULL };

	(void)state;
	cancel_hook(c, see_flag, seen);
	cancel_fire(c);
	cancel_unhook(c, see_flag, seen);
	assert_non_null(seen[1]);
}

static void
without_a_token_the_wait_is_not_cancelled(void **state)
{
	struct error err;
	int n = 0;

	(void)state;
	assert_false(cancel_is_fired(NULL));
	cancel_hook(NULL, count, &n);
	cancel_unhook(NULL, count, &n);
	assert_true(cancel_sleep(NULL, &clock_real, NS_PER_MS, &err));
	cancel_free(NULL);
	assert_int_equal(n, 0);
}

struct slow {
	struct cancel *c;
	sem_t is_entered;
	sem_t may_leave;
	sem_t is_unhooking;
	int n; /* not atomic: what unhooking promises is the only thing that orders its uses */
};

static void
slow_hook(void *arg)
{
	struct slow *slow = arg;

	sem_post(&slow->is_entered);
	sem_wait(&slow->may_leave);
	slow->n = 1;
}

static void *
fire(void *arg)
{
	cancel_fire(arg);
	return NULL;
}

static void *
unhook(void *arg)
{
	struct slow *slow = arg;

	sem_post(&slow->is_unhooking);
	cancel_unhook(slow->c, slow_hook, slow);
	return slow->n ? slow : NULL;
}

static void
unhooking_waits_for_the_hook(void **state)
{
	CLEANUP(cancel_freep) struct cancel *c = cancel_new();
	struct slow slow = { .c = c };
	pthread_t firing, unhooking;
	struct error err;
	void *saw_it;

	(void)state;
	sem_init(&slow.is_entered, 0, 0);
	sem_init(&slow.may_leave, 0, 0);
	sem_init(&slow.is_unhooking, 0, 0);
	cancel_hook(c, slow_hook, &slow);
	thread_start(&firing, "firing", fire, c);
	sem_wait(&slow.is_entered);
	thread_start(&unhooking, "unhooking", unhook, &slow);
	sem_wait(&slow.is_unhooking);
	assert_true(cancel_sleep(NULL, &clock_real, 2 * NS_PER_MS, &err)); /* time to do it wrong */
	sem_post(&slow.may_leave);
	MUST(pthread_join(unhooking, &saw_it));
	thread_join(firing);
	assert_non_null(saw_it);
}

static void
sleeps_that_long(void **state)
{
	CLEANUP(cancel_freep) struct cancel *c = cancel_new();
	int64_t start = clock_mono(&clock_real);
	struct error err;

	(void)state;
	assert_true(cancel_sleep(c, &clock_real, 2 * NS_PER_MS, &err));
	assert_true(clock_mono(&clock_real) - start >= 2 * NS_PER_MS);
	assert_true(cancel_sleep(c, &clock_real, 0, &err));
	assert_true(cancel_sleep(c, &clock_real, -5, &err));
	cancel_fire(c);
	assert_false(cancel_sleep(c, &clock_real, CLOCK_FOREVER, &err));
	assert_int_equal(err.code, ERR_CANCELLED);
}

struct sleeper {
	struct cancel *c;
	struct clock *clock;
	int64_t duration_ns;
	bool is_slept;
	struct error err;
	pthread_t thread;
};

static void *
sleep_as_told(void *arg)
{
	struct sleeper *s = arg;

	s->is_slept = cancel_sleep(s->c, s->clock, s->duration_ns, &s->err);
	return NULL;
}

static void
start_sleepers(struct sleeper *sleepers, size_t n, struct cancel *c, struct clock *clock,
               int64_t duration_ns)
{
	for (size_t i = 0; i < n; i++) {
		sleepers[i] = (struct sleeper){ .c = c,
			                        .clock = clock,
			                        .duration_ns = duration_ns };
		thread_start(&sleepers[i].thread, "sleeper", sleep_as_told, &sleepers[i]);
	}
}

static void
firing_wakes_all(void **state)
{
	(void)state;
	/* again and again: they are met before, while and after they fall asleep */
	for (int round = 0; round < 100; round++) {
		CLEANUP(cancel_freep) struct cancel *c = cancel_new();
		struct sleeper sleepers[4];

		start_sleepers(sleepers, ARRAY_LEN(sleepers), c, &clock_real, CLOCK_FOREVER);
		cancel_fire(c);
		for (size_t i = 0; i < ARRAY_LEN(sleepers); i++) {
			thread_join(sleepers[i].thread);
			assert_false(sleepers[i].is_slept);
			assert_int_equal(sleepers[i].err.code, ERR_CANCELLED);
		}
	}
}

static void
sleeps_on_the_clock_it_is_given(void **state)
{
	CLEANUP(cancel_freep) struct cancel *c = cancel_new();
	struct fake_clock *fake = fake_clock_new(0);
	struct sleeper sleepers[2];

	(void)state;
	start_sleepers(&sleepers[0], 1, c, fake_clock_clock(fake), 3600 * NS_PER_SEC);
	start_sleepers(&sleepers[1], 1, c, fake_clock_clock(fake), 7200 * NS_PER_SEC);
	fake_clock_settle(fake, 2);
	fake_clock_advance(fake, 3600 * NS_PER_SEC);
	thread_join(sleepers[0].thread);
	fake_clock_settle(fake, 1);
	cancel_fire(c);
	thread_join(sleepers[1].thread);
	assert_true(sleepers[0].is_slept);
	assert_false(sleepers[1].is_slept);
	fake_clock_free(fake);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hooks_run_once),
		cmocka_unit_test(a_late_hook_runs_immediately),
		cmocka_unit_test(hooks_see_the_flag),
		cmocka_unit_test(without_a_token_the_wait_is_not_cancelled),
		cmocka_unit_test(unhooking_waits_for_the_hook),
		cmocka_unit_test(sleeps_that_long),
		cmocka_unit_test(firing_wakes_all),
		cmocka_unit_test(sleeps_on_the_clock_it_is_given),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
