/* tests/loop.c: what wakes main's loop. */
#include "loop.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/thread.h"

struct seen {
	struct loop *loop;
	int signals[8], n_signals;
	int n_woken, n_expired, n_ticks;
	int end_after; /* things that happen until the loop ends */
};

static void
happened(struct seen *s)
{
	if (--s->end_after == 0)
		loop_end(s->loop);
}

static void
on_signal(void *arg, int signal)
{
	struct seen *s = arg;

	s->signals[s->n_signals++] = signal;
	happened(s);
}

static void
on_woken(void *arg)
{
	struct seen *s = arg;

	s->n_woken++;
	happened(s);
}

static void
on_expired(void *arg)
{
	struct seen *s = arg;

	s->n_expired++;
	happened(s);
}

static void
on_tick(void *arg)
{
	struct seen *s = arg;

	s->n_ticks++;
	happened(s);
}

static void
begin(struct seen *s, int end_after)
{
	*s = (struct seen){ .end_after = end_after };
	s->loop = loop_new(&(struct loop_handlers){ on_signal, on_woken, on_expired, s });
}

static void
signals_arrive_in_the_loop(void **state)
{
	struct seen s;

	(void)state;
	begin(&s, 2);
	kill(getpid(), SIGHUP); /* blocked, so it waits */
	kill(getpid(), SIGTERM);
	loop_run(s.loop);
	assert_int_equal(s.n_signals, 2);
	assert_int_equal(s.signals[0] + s.signals[1], SIGHUP + SIGTERM);
	loop_free(s.loop);
}

static void *
wake_often(void *loop)
{
	for (int i = 0; i < 100; i++)
		loop_wake(loop);
	return NULL;
}

static void
another_thread_wakes_it_once_at_least(void **state)
{
	pthread_t thread;
	struct seen s;

	(void)state;
	begin(&s, 1);
	thread_start(&thread, "waker", wake_often, s.loop);
	loop_run(s.loop);
	thread_join(thread);
	assert_int_equal(s.n_woken, 1);
	loop_free(s.loop);
}

static void
an_expiry_that_is_put_off_waits(void **state)
{
	int64_t begun_ns = clock_boot(&clock_real);
	struct seen s;

	(void)state;
	begin(&s, 1);
	loop_set_expiry(s.loop, begun_ns + 10 * NS_PER_MS);
	loop_set_expiry(s.loop, begun_ns + 60 * NS_PER_MS);
	loop_run(s.loop);
	assert_int_equal(s.n_expired, 1);
	assert_true(clock_boot(&clock_real) - begun_ns >= 60 * NS_PER_MS);
	loop_free(s.loop);
}

static void
an_expiry_in_the_past_fires_immediately(void **state)
{
	struct seen s;

	(void)state;
	begin(&s, 1);
	loop_set_expiry(s.loop, clock_boot(&clock_real) - NS_PER_SEC);
	loop_run(s.loop);
	assert_int_equal(s.n_expired, 1);
	loop_free(s.loop);
}

static void
timers_come_again(void **state)
{
	struct seen s;

	(void)state;
	begin(&s, 3);
	loop_every(s.loop, 5 * NS_PER_MS, on_tick, &s);
	loop_run(s.loop);
	assert_int_equal(s.n_ticks, 3);
	loop_free(s.loop);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(signals_arrive_in_the_loop),
		cmocka_unit_test(another_thread_wakes_it_once_at_least),
		cmocka_unit_test(an_expiry_that_is_put_off_waits),
		cmocka_unit_test(an_expiry_in_the_past_fires_immediately),
		cmocka_unit_test(timers_come_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
