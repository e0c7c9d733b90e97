#include "base/watchdog.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cancel.h"
#include "base/limits.h"
#include "base/thread.h"
#include "fake_clock.h"

static struct fake_clock *fake;
static struct clock *now;

static int
set_up(void **state)
{
	(void)state;
	fake = fake_clock_new(1785000000 * NS_PER_SEC);
	now = fake_clock_clock(fake);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	fake_clock_free(fake);
	return 0;
}

static void
check_late(const char *expected)
{
	CLEANUP(buf_fini) struct buf names = BUF_INIT(KIB(1));

	assert_int_equal(watchdog_late(now, &names), expected[0] != '\0');
	assert_string_equal(names.ptr, expected);
}

static void
seconds_pass(int n)
{
	fake_clock_advance(fake, n * NS_PER_SEC);
}

static void
promise(struct watchdog *p, int seconds)
{
	watchdog_until(p, clock_mono(now) + seconds * NS_PER_SEC);
}

static void
promise_here(int seconds)
{
	watchdog_promise(clock_mono(now) + seconds * NS_PER_SEC);
}

static void
a_thread_that_waits_for_work_is_never_late(void **state)
{
	struct watchdog *p = watchdog_new("looker");

	(void)state;
	watchdog_until(p, CLOCK_FOREVER);
	seconds_pass(1000000);
	check_late("");
	seconds_pass(1000000);
	check_late("");
	watchdog_free(p);
}

static void
a_broken_promise_is_late_after_the_tolerance(void **state)
{
	struct watchdog *p = watchdog_new("looker");

	(void)state;
	promise(p, 10);
	seconds_pass(39);
	check_late("");
	seconds_pass(2);
	check_late("");
	seconds_pass(2);
	check_late("looker (late by 33s)");
	promise(p, 10);
	seconds_pass(1);
	check_late("");
	watchdog_free(p);
}

/* All clocks went on while nothing ran: who wakes gets a moment to say so. */
static void
a_stopped_process_wakes_in_good_health(void **state)
{
	struct watchdog *p = watchdog_new("http");

	(void)state;
	promise(p, 5);
	check_late("");
	seconds_pass(3600);
	check_late("");
	check_late("");
	promise(p, 5);
	seconds_pass(1);
	check_late("");
	watchdog_free(p);
}

/* Late with one promise, then with the next: it works, if slowly. */
static void
another_promise_is_another_matter(void **state)
{
	struct watchdog *p = watchdog_new("worker");

	(void)state;
	promise(p, 1);
	seconds_pass(60);
	check_late("");
	promise(p, -100);
	seconds_pass(2);
	check_late("");
	seconds_pass(2);
	check_late("worker (late by 1m44s)");
	watchdog_free(p);
}

static void
decisions_are_a_second_apart(void **state)
{
	struct watchdog *p = watchdog_new("worker");

	(void)state;
	promise(p, -100);
	seconds_pass(1);
	check_late("");
	for (int i = 0; i < 9; i++) {
		fake_clock_advance(fake, 100 * NS_PER_MS);
		check_late("");
	}
	fake_clock_advance(fake, 100 * NS_PER_MS);
	check_late("worker (late by 1m42s)");
	watchdog_free(p);
}

static void
all_who_are_late_are_named(void **state)
{
	struct watchdog *a = watchdog_new("a"), *b = watchdog_new("b"), *c = watchdog_new("c");
	CLEANUP(buf_fini) struct buf reason = BUF_INIT(KIB(1));

	(void)state;
	promise(a, 0);
	promise(b, 1000);
	promise(c, 3);
	seconds_pass(60);
	check_late("");
	seconds_pass(1);
	check_late("c (late by 58s), a (late by 1m1s)");
	assert_false(watchdog_health(now, &reason));
	assert_string_equal(reason.ptr, "c (late by 58s), a (late by 1m1s)");
	watchdog_free(b);
	watchdog_free(a);
	check_late("c (late by 58s)");
	watchdog_free(c);
	check_late("");
	watchdog_until(NULL, 0);
	watchdog_free(NULL);
}

/* What a thread of its own says, step by step. */
struct speaker {
	pthread_mutex_t mu;
	pthread_cond_t cond;
	int step; /* mu */
};

static void
say(struct speaker *s, int step)
{
	WITH_LOCK(&s->mu);

	s->step = step;
	pthread_cond_broadcast(&s->cond);
}

static void
await(struct speaker *s, int step)
{
	WITH_LOCK(&s->mu);

	while (s->step < step)
		pthread_cond_wait(&s->cond, &s->mu);
}

static void *
work(void *arg)
{
	struct speaker *s = arg;

	watchdog_extend(0); /* nothing was promised */
	promise_here(10);
	watchdog_extend(clock_mono(now) + 40 * NS_PER_SEC);
	watchdog_extend(clock_mono(now) + 20 * NS_PER_SEC);
	say(s, 1);
	await(s, 2);
	return NULL;
}

static void
a_thread_is_known_by_its_name_until_it_ends(void **state)
{
	struct speaker s = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 };
	pthread_t thread;

	(void)state;
	thread_start(&thread, "node", work, &s);
	await(&s, 1);
	seconds_pass(71);
	check_late("");
	seconds_pass(1);
	check_late("node (late by 32s)");
	say(&s, 2);
	thread_join(thread);
	seconds_pass(1);
	check_late("");
}

static void *
sleep_long(void *cancel)
{
	struct error err;

	promise_here(10);
	assert_true(cancel_sleep(cancel, now, 1000 * NS_PER_SEC, &err));
	return NULL;
}

/* A wait that has an end is part of the promise. */
static void
a_sleeping_thread_is_expected_later(void **state)
{
	struct cancel *cancel = cancel_new();
	pthread_t thread;

	(void)state;
	thread_start(&thread, "sleeper", sleep_long, cancel);
	fake_clock_settle(fake, 1);
	seconds_pass(990);
	check_late("");
	seconds_pass(5);
	check_late("");
	seconds_pass(5);
	thread_join(thread);
	cancel_free(cancel);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_that_waits_for_work_is_never_late),
		cmocka_unit_test(a_broken_promise_is_late_after_the_tolerance),
		cmocka_unit_test(a_stopped_process_wakes_in_good_health),
		cmocka_unit_test(another_promise_is_another_matter),
		cmocka_unit_test(decisions_are_a_second_apart),
		cmocka_unit_test(all_who_are_late_are_named),
		cmocka_unit_test(a_thread_is_known_by_its_name_until_it_ends),
		cmocka_unit_test(a_sleeping_thread_is_expected_later),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
