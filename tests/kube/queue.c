#include "kube/queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/limits.h"
#include "base/thread.h"
#include "fake_clock.h"

#define BASE_NS (8 * NS_PER_MS)
#define MAX_NS (1000 * NS_PER_MS)

struct fixture {
	struct fake_clock *clock;
	struct queue *q;
};

static int
set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->clock = fake_clock_new(NS_PER_SEC);
	f->q = queue_new(&(struct queue_config){ .name = "test",
	                                         .base_delay_ns = BASE_NS,
	                                         .max_delay_ns = MAX_NS,
	                                         .clock = fake_clock_clock(f->clock) });
	*state = f;
	return 0;
}

static int
tear_down(void **state)
{
	struct fixture *f = *state;

	queue_free(f->q);
	fake_clock_free(f->clock);
	free(f);
	return 0;
}

/* The keys that wait to be handed out now. */
static unsigned long
count_waiting(void)
{
	static const char name[] = "workqueue_depth{name=\"test\"} ";
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MIB(1));
	const char *at;

	metrics_write_page(&b, METRICS_MAIN, METRICS_TEXT);
	at = strstr(b.ptr, name);
	assert_non_null(at);
	return strtoul(at + strlen(name), NULL, 10);
}

/* A key that is there now. */
static struct str
get(struct fixture *f)
{
	struct str key = STR_EMPTY;
	struct error err;

	if (!queue_get(f->q, /*deadline_ns=*/0, &key, &err))
		fail_msg("%s", err.msg);
	return key;
}

static void
check_get(struct fixture *f, const char *expected)
{
	struct str key = get(f);

	assert_true(str_eq_c(key, expected));
	queue_done(f->q, key);
}

static void
check_empty(struct fixture *f)
{
	struct str key;
	struct error err;

	assert_false(queue_get(f->q, /*deadline_ns=*/0, &key, &err));
	assert_int_equal(err.code, ERR_TIMEOUT);
}

static void
keeps_the_order(void **state)
{
	struct fixture *f = *state;

	queue_add(f->q, STR("b"));
	queue_add(f->q, STR("a"));
	queue_add(f->q, STR("c"));
	assert_int_equal(count_waiting(), 3);
	check_get(f, "b");
	check_get(f, "a");
	check_get(f, "c");
	check_empty(f);
}

static void
hands_a_waiting_key_out_once(void **state)
{
	struct fixture *f = *state;

	queue_add(f->q, STR("a"));
	queue_add(f->q, STR("a"));
	assert_int_equal(count_waiting(), 1);
	check_get(f, "a");
	check_empty(f);
}

static void
hands_a_re_added_key_out_after_it_is_done(void **state)
{
	struct fixture *f = *state;
	struct str key;

	queue_add(f->q, STR("a"));
	key = get(f);
	queue_add(f->q, STR("a"));
	queue_add(f->q, STR("a"));
	check_empty(f);
	assert_int_equal(count_waiting(), 0);
	queue_done(f->q, key);
	check_get(f, "a");
	check_empty(f);
}

static void
copies_keys(void **state)
{
	struct fixture *f = *state;
	char text[] = "a\0b";

	queue_add(f->q, str_n(text, 3));
	text[2] = 'x';
	struct str key = get(f);
	assert_true(str_eq(key, STR("a\0b")));
	queue_done(f->q, key);
}

static void
hands_out_later(void **state)
{
	struct fixture *f = *state;

	queue_add_after(f->q, STR("c"), 30 * NS_PER_SEC);
	queue_add_after(f->q, STR("a"), 10 * NS_PER_SEC);
	queue_add_after(f->q, STR("b"), 20 * NS_PER_SEC);
	queue_add_after(f->q, STR("now"), 0);
	assert_int_equal(count_waiting(), 1);
	check_get(f, "now");
	check_empty(f);
	fake_clock_advance(f->clock, 10 * NS_PER_SEC - 1);
	check_empty(f);
	fake_clock_advance(f->clock, 1);
	check_get(f, "a");
	check_empty(f);
	fake_clock_advance(f->clock, 60 * NS_PER_SEC);
	check_get(f, "b");
	check_get(f, "c");
}

static void
takes_the_earliest_of_several_times(void **state)
{
	struct fixture *f = *state;

	queue_add_after(f->q, STR("a"), 20 * NS_PER_SEC);
	queue_add_after(f->q, STR("a"), 10 * NS_PER_SEC);
	queue_add_after(f->q, STR("a"), 30 * NS_PER_SEC);
	fake_clock_advance(f->clock, 10 * NS_PER_SEC);
	check_get(f, "a");
	fake_clock_advance(f->clock, 60 * NS_PER_SEC);
	check_empty(f);
}

/* As in client-go, a plain addition does not remove the delayed one. */
static void
keeps_a_later_time_beside_a_plain_add(void **state)
{
	struct fixture *f = *state;

	queue_add_after(f->q, STR("a"), NS_PER_SEC);
	queue_add(f->q, STR("a"));
	check_get(f, "a");
	fake_clock_advance(f->clock, NS_PER_SEC);
	check_get(f, "a");
	check_empty(f);
}

static void
keeps_a_key_that_falls_due_while_worked_on(void **state)
{
	struct fixture *f = *state;
	struct str key;

	queue_add_after(f->q, STR("a"), NS_PER_SEC);
	queue_add(f->q, STR("a"));
	key = get(f);
	fake_clock_advance(f->clock, NS_PER_SEC);
	check_empty(f);
	queue_done(f->q, key);
	check_get(f, "a");
}

static void
sorts_many_times(void **state)
{
	struct fixture *f = *state;
	struct error err;
	struct str key, last = STR_EMPTY;
	char text[16];

	for (unsigned i = 0; i < 1000; i++) {
		unsigned place = i * 7919 % 1000;

		(void)snprintf(text, sizeof(text), "%04u", place);
		queue_add_after(f->q, str_c(text), (1 + place) * NS_PER_MS);
	}
	for (unsigned i = 0; i < 1000; i++) {
		fake_clock_advance(f->clock, NS_PER_MS);
		assert_true(queue_get(f->q, /*deadline_ns=*/0, &key, &err));
		assert_true(i == 0 || str_cmp(last, key) < 0);
		(void)snprintf(text, sizeof(text), "%04u", i);
		assert_true(str_eq_c(key, text));
		last = str_c(text);
		queue_done(f->q, key);
	}
	check_empty(f);
}

static void
waits_longer_after_each_failure(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 0; i < 12; i++) {
		int64_t least = BASE_NS << i < MAX_NS ? BASE_NS << i : MAX_NS;
		int64_t most = least + least / 5 * 2 < MAX_NS ? least + least / 5 * 2 : MAX_NS;
		int64_t delay = queue_add_failed(f->q, STR("a"), /*max_delay_ns=*/0);

		if (most == MAX_NS)
			least = MAX_NS - MAX_NS / 7 * 2;
		assert_in_range(delay, least, most);
		assert_int_equal(queue_peek(f->q, STR("a")).n_failures, i + 1);
		fake_clock_advance(f->clock, delay);
		check_get(f, "a");
	}
	assert_true(queue_add_failed(f->q, STR("a"), 10 * NS_PER_MS) <= 10 * NS_PER_MS);
	queue_forget(f->q, STR("a"));
	assert_int_equal(queue_peek(f->q, STR("a")).n_failures, 0);
	assert_int_equal(queue_peek(f->q, STR("b")).n_failures, 0);
	queue_forget(f->q, STR("b"));
	assert_in_range(queue_add_failed(f->q, STR("a"), /*max_delay_ns=*/0), BASE_NS,
	                BASE_NS / 5 * 7);
}

static void
does_not_bring_failures_back_together(void **state)
{
	struct fixture *f = *state;
	int64_t first = queue_add_failed(f->q, STR("a"), 0);
	bool differs = false;

	for (struct str rest = STR("bcdefghijklmnopqrstuvwxyz"); rest.len > 0;
	     rest = str_skip(rest, 1))
		differs |= queue_add_failed(f->q, str_head(rest, 1), 0) != first;
	assert_true(differs);
}

/* ---- several threads ---- */

struct worker {
	struct fixture *f;
	pthread_t thread;
	struct str key;
	struct error err;
	bool is_ok;
};

static void *
get_one(void *arg)
{
	struct worker *w = arg;

	w->is_ok = queue_get(w->f->q, QUEUE_FOREVER, &w->key, &w->err);
	if (w->is_ok)
		queue_done(w->f->q, w->key);
	return NULL;
}

static void
start(struct worker *w, struct fixture *f, unsigned n_waiting)
{
	*w = (struct worker){ .f = f };
	thread_start(&w->thread, "worker", get_one, w);
	fake_clock_settle(f->clock, n_waiting);
}

/* ---- parked keys ---- */

static int64_t
ms_until(struct fixture *f, const char *key, int64_t most_ms)
{
	for (int64_t ms = 0; ms <= most_ms; ms++) {
		struct str got;
		struct error err;

		if (queue_get(f->q, /*deadline_ns=*/0, &got, &err)) {
			assert_true(str_eq_c(got, key));
			queue_done(f->q, got);
			return ms;
		}
		fake_clock_advance(f->clock, NS_PER_MS);
	}
	return -1;
}

static void
a_parked_key_comes_back_by_itself(void **state)
{
	struct fixture *f = *state;

	queue_park(f->q, STR("a"), 5000 * NS_PER_MS);
	assert_int_equal(ms_until(f, "a", 6000), 5000);
	assert_int_equal(queue_peek(f->q, STR("a")).n_failures, 0);
	check_empty(f);
}

static void
a_release_brings_parked_keys_within_two_seconds(void **state)
{
	enum { N = 200 };
	struct fixture *f = *state;
	size_t n_first = 0;
	char key[8];

	for (unsigned i = 0; i < N; i++) {
		(void)snprintf(key, sizeof(key), "%u", i);
		queue_park(f->q, str_c(key), (300 + i * 7 % N) * NS_PER_SEC);
	}
	queue_release(f->q);
	fake_clock_advance(f->clock, NS_PER_SEC);
	for (struct str got; queue_get(f->q, 0, &got, &(struct error){ 0 }); n_first++)
		queue_done(f->q, got);
	assert_in_range(n_first, N / 4, 3 * N / 4); /* spread */
	fake_clock_advance(f->clock, NS_PER_SEC);
	for (struct str got; queue_get(f->q, 0, &got, &(struct error){ 0 }); n_first++)
		queue_done(f->q, got);
	assert_int_equal(n_first, N);
}

/* Neither keys that failed for a reason of their own, nor keys for which the cloud named a time. */
static void
a_release_leaves_other_times_alone(void **state)
{
	struct fixture *f = *state;

	queue_add_after(f->q, STR("a"), 5000 * NS_PER_MS);
	queue_release(f->q);
	assert_int_equal(ms_until(f, "a", 6000), 5000);
	for (int i = 0; i < 20; i++) {
		queue_add_failed(f->q, STR("b"), 0);
		(void)ms_until(f, "b", 2000);
	}
	queue_add_failed(f->q, STR("b"), 0);
	queue_release(f->q);
	assert_in_range(ms_until(f, "b", 2000), 700, 1000);
}

static void
a_released_key_is_parked_no_more(void **state)
{
	struct fixture *f = *state;

	queue_add_failed(f->q, STR("a"), 0); /* so that it stays known in between */
	(void)ms_until(f, "a", 2000);
	queue_park(f->q, STR("a"), 5000 * NS_PER_MS);
	assert_int_equal(ms_until(f, "a", 6000), 5000);
	queue_add_after(f->q, STR("a"), 5000 * NS_PER_MS);
	queue_release(f->q);
	assert_int_equal(ms_until(f, "a", 6000), 5000);
}

/* The cause of its failure was over when it was parked. */
static void
a_release_while_a_key_is_worked_on_is_not_lost(void **state)
{
	struct fixture *f = *state;
	struct str key;

	queue_add(f->q, STR("a"));
	key = get(f);
	queue_release(f->q);
	queue_park(f->q, key, 300 * NS_PER_SEC);
	queue_done(f->q, key);
	assert_in_range(ms_until(f, "a", 2001), 1, 2001);
	queue_add(f->q, STR("a"));
	key = get(f);
	queue_park(f->q, key, 300 * NS_PER_SEC);
	queue_done(f->q, key);
	assert_int_equal(ms_until(f, "a", 10000), -1);
}

static void
wakes_a_waiting_worker(void **state)
{
	struct fixture *f = *state;
	struct worker w;

	start(&w, f, 1);
	queue_add(f->q, STR("a"));
	thread_join(w.thread);
	assert_true(w.is_ok);
}

/* Both wait for the first time; a sooner one must reach them. */
static void
wakes_workers_for_a_sooner_time(void **state)
{
	struct fixture *f = *state;
	struct worker one, two;

	queue_add_after(f->q, STR("late"), 60 * NS_PER_SEC);
	start(&one, f, 1);
	start(&two, f, 2);
	queue_add_after(f->q, STR("a"), NS_PER_SEC);
	queue_add_after(f->q, STR("b"), NS_PER_SEC);
	/* wherever they are, time does not pass before they have looked again */
	fake_clock_advance(f->clock, NS_PER_SEC);
	thread_join(one.thread);
	thread_join(two.thread);
	assert_true(one.is_ok && two.is_ok);
}

/* The worker that waits for its time may be the one that gets another key, and does not come back.
 */
static void
a_delayed_key_is_left_to_a_waiting_worker(void **state)
{
	struct fixture *f = *state;
	struct worker one, two;

	for (int i = 0; i < 20; i++) {
		queue_add_after(f->q, STR("late"), 10 * NS_PER_SEC);
		start(&one, f, 1);
		start(&two, f, 2);
		queue_add(f->q, STR("a"));
		assert_true(queue_wait_idle(f->q, QUEUE_FOREVER));
		fake_clock_advance(f->clock, 10 * NS_PER_SEC);
		thread_join(one.thread);
		thread_join(two.thread);
		assert_true(one.is_ok && two.is_ok);
	}
}

static void *
get_all(void *arg)
{
	struct fixture *f = arg;
	unsigned n_busy = 0;
	struct str key;

	while (queue_get_trimming(f->q, &n_busy, &key))
		queue_done(f->q, key);
	return NULL;
}

/* A worker that was busy wakes once to give memory back, sleeps again, and is there for the next
 * key. */
static void
rests_after_a_burst(void **state)
{
	struct fixture *f = *state;
	pthread_t thread;
	char text[16];

	for (int i = 0; i < 300; i++) {
		(void)snprintf(text, sizeof(text), "%d", i);
		queue_add(f->q, str_c(text));
	}
	thread_start(&thread, "worker", get_all, f);
	fake_clock_settle(f->clock, 1);
	assert_int_equal(count_waiting(), 0);
	fake_clock_advance(f->clock, 10 * NS_PER_SEC);
	fake_clock_settle(f->clock, 1);
	fake_clock_advance(f->clock, 10 * NS_PER_SEC);
	queue_add(f->q, STR("a"));
	fake_clock_settle(f->clock, 1);
	assert_int_equal(count_waiting(), 0);
	queue_shut_down(f->q);
	thread_join(thread);
}

static void
gives_up_at_the_deadline(void **state)
{
	struct fixture *f = *state;
	struct error err;
	struct str key;

	assert_false(queue_get(f->q, clock_mono(fake_clock_clock(f->clock)), &key, &err));
	assert_int_equal(err.code, ERR_TIMEOUT);
}

static void
shuts_down(void **state)
{
	struct fixture *f = *state;
	struct worker w;
	struct str key;
	struct error err;

	start(&w, f, 1);
	queue_shut_down(f->q);
	thread_join(w.thread);
	assert_false(w.is_ok);
	assert_int_equal(w.err.code, ERR_CANCELLED);
	queue_add(f->q, STR("a"));
	queue_add_after(f->q, STR("a"), NS_PER_SEC);
	(void)queue_add_failed(f->q, STR("a"), 0);
	assert_int_equal(count_waiting(), 0);
	assert_false(queue_get(f->q, QUEUE_FOREVER, &key, &err));
	assert_int_equal(err.code, ERR_CANCELLED);
}

static void
hands_nothing_out_after_shut_down(void **state)
{
	struct fixture *f = *state;
	struct str key;
	struct error err;

	queue_add(f->q, STR("a"));
	queue_shut_down(f->q);
	assert_false(queue_get(f->q, QUEUE_FOREVER, &key, &err));
}

static void
waits_until_nothing_is_worked_on(void **state)
{
	struct fixture *f = *state;
	int64_t now_ns = clock_mono(fake_clock_clock(f->clock));
	struct str key;

	queue_add(f->q, STR("a"));
	key = get(f);
	queue_shut_down(f->q);
	assert_false(queue_wait_idle(f->q, now_ns));
	queue_done(f->q, key);
	assert_true(queue_wait_idle(f->q, now_ns));
}

static void
waits_for_keys_that_are_due_now(void **state)
{
	struct fixture *f = *state;
	int64_t now_ns = clock_mono(fake_clock_clock(f->clock));
	struct str key;

	queue_add(f->q, STR("a"));
	queue_add_after(f->q, STR("later"), NS_PER_SEC);
	assert_false(queue_wait_idle(f->q, now_ns));
	key = get(f);
	queue_add(f->q, key);
	queue_done(f->q, key);
	assert_false(queue_wait_idle(f->q, now_ns));
	queue_done(f->q, get(f));
	assert_true(queue_wait_idle(f->q, now_ns));
}

enum {
	N_KEYS = 50,
	N_ADDS = 5000,
};

struct crowd {
	struct queue *q;
	_Atomic int busy[N_KEYS]; /* who works on a key */
	_Atomic int n_clashes, n_done;
};

static void *
work(void *arg)
{
	struct crowd *c = arg;
	struct error err;
	struct str key;
	int64_t i = 0;

	while (queue_get(c->q, QUEUE_FOREVER, &key, &err)) {
		if (!str_to_i64(key, 0, N_KEYS - 1, &i) || c->busy[i]++ > 0)
			c->n_clashes++;
		c->busy[i]--;
		c->n_done++;
		if (c->n_done % 7 == 0)
			(void)queue_add_failed(c->q, key, 0);
		else
			queue_forget(c->q, key);
		queue_done(c->q, key);
	}
	return NULL;
}

static void
never_works_on_a_key_twice_at_the_same_time(void **state)
{
	struct crowd c = { .q = queue_new(&(struct queue_config){ .name = "crowd",
		                                                  .base_delay_ns = 1000,
		                                                  .max_delay_ns = 100000,
		                                                  .clock = &clock_real }) };
	pthread_t threads[4];
	char text[16];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		thread_start(&threads[i], "worker", work, &c);
	for (unsigned i = 0; i < N_ADDS; i++) {
		(void)snprintf(text, sizeof(text), "%u", i * 31 % N_KEYS);
		queue_add(c.q, str_c(text));
	}
	assert_true(queue_wait_idle(c.q, CLOCK_FOREVER));
	queue_shut_down(c.q);
	assert_true(queue_wait_idle(c.q, CLOCK_FOREVER));
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		thread_join(threads[i]);
	assert_int_equal(c.n_clashes, 0);
	assert_true(c.n_done >= N_KEYS);
	queue_free(c.q);
}

/* ---- wake-ups ---- */

/* The real clock, which counts the threads that wait and how often one was woken. */
static _Atomic unsigned n_asleep, n_wakes;

static int64_t
counting_now(struct clock *c)
{
	(void)c;
	return clock_mono(&clock_real);
}

static bool
counting_wait(struct clock *c, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t deadline_ns)
{
	bool is_in_time;

	(void)c;
	n_asleep++;
	is_in_time = clock_wait(&clock_real, cond, mutex, deadline_ns);
	n_asleep--;
	n_wakes++;
	return is_in_time;
}

/* The worker of the first key works until another one has the second. */
static void *
work_on_one_of_two(void *arg)
{
	struct crowd *c = arg;
	struct error err;
	struct str key;

	while (queue_get(c->q, QUEUE_FOREVER, &key, &err)) {
		c->n_done++;
		while (c->n_done < 2)
			sched_yield();
		queue_forget(c->q, key);
		queue_done(c->q, key);
	}
	return NULL;
}

static void
idle_workers_sleep_through_keys_of_others(void **state)
{
	struct clock clock = { counting_now, counting_now, counting_now, counting_wait };
	struct queue_config config = {
		.name = "sleepers", .base_delay_ns = 1, .max_delay_ns = 1, .clock = &clock
	};
	struct crowd c = { .q = queue_new(&config) };
	pthread_t threads[10];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		thread_start(&threads[i], "worker", work_on_one_of_two, &c);
	while (n_asleep < ARRAY_LEN(threads))
		sched_yield();
	n_wakes = 0;
	queue_add_after(c.q, STR("1"), 10 * NS_PER_MS);
	queue_add_after(c.q, STR("2"), 20 * NS_PER_MS);
	while (c.n_done < 2 || n_asleep < ARRAY_LEN(threads))
		sched_yield();
	/* a worker for each key, one that begins to watch the time, and one that goes on with it */
	assert_in_range(n_wakes, 2, 6);
	queue_shut_down(c.q);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		thread_join(threads[i]);
	queue_free(c.q);
}

/* The metrics of client-go (docs/spec/kube-client.md, "Work queue"). */
static void
counts(void **state)
{
	struct fixture *f = *state;
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MIB(1));
	struct queue *q = queue_new(&(struct queue_config){ .name = "counted",
	                                                    .base_delay_ns = BASE_NS,
	                                                    .max_delay_ns = MAX_NS,
	                                                    .clock = fake_clock_clock(f->clock) });
	struct error err;
	struct str key;

	queue_add(q, STR("a"));
	queue_add(q, STR("a"));
	queue_add(q, STR("b"));
	fake_clock_advance(f->clock, 2 * NS_PER_SEC);
	assert_true(queue_get(q, 0, &key, &err));
	fake_clock_advance(f->clock, 20 * NS_PER_SEC);
	(void)queue_add_failed(q, key, 0);
	queue_done(q, key);
	metrics_write_page(&b, METRICS_MAIN, METRICS_TEXT);
	queue_free(q);
	assert_non_null(strstr(b.ptr, "workqueue_depth{name=\"counted\"} 1\n"));
	assert_non_null(strstr(b.ptr, "workqueue_adds_total{name=\"counted\"} 2\n"));
	assert_non_null(strstr(b.ptr, "workqueue_retries_total{name=\"counted\"} 1\n"));
	assert_non_null(strstr(
		b.ptr, "workqueue_queue_duration_seconds_bucket{name=\"counted\",le=\"1\"} 0\n"));
	assert_non_null(strstr(
		b.ptr, "workqueue_queue_duration_seconds_bucket{name=\"counted\",le=\"10\"} 1\n"));
	assert_non_null(strstr(b.ptr,
	                       "workqueue_work_duration_seconds_sum{name=\"counted\"} 20\n"));
}

/* ---- peeking ---- */

static void
a_peek_shows_where_a_key_is(void **state)
{
	struct fixture *f = *state;
	struct queue_peek peek = queue_peek(f->q, STR("a"));
	struct str key;

	assert_int_equal(peek.state, QUEUE_IDLE);
	assert_int_equal(peek.n_failures, 0);
	queue_add(f->q, STR("first"));
	queue_add(f->q, STR("a"));
	fake_clock_advance(f->clock, 3 * NS_PER_SEC);
	peek = queue_peek(f->q, STR("a"));
	assert_int_equal(peek.state, QUEUE_WAITING);
	assert_int_equal(peek.n_before, 1);
	assert_int_equal(peek.for_ns, 3 * NS_PER_SEC);
	check_get(f, "first");
	key = get(f);
	fake_clock_advance(f->clock, NS_PER_SEC);
	peek = queue_peek(f->q, STR("a"));
	assert_int_equal(peek.state, QUEUE_WORKING);
	assert_int_equal(peek.for_ns, NS_PER_SEC);
	queue_add_failed(f->q, key, /*max_delay_ns=*/0);
	queue_park(f->q, STR("parked"), 5 * NS_PER_SEC);
	queue_done(f->q, key);
	peek = queue_peek(f->q, STR("a"));
	assert_int_equal(peek.state, QUEUE_DELAYED);
	assert_int_equal(peek.n_failures, 1);
	assert_in_range(peek.due_in_ns, BASE_NS / 2, 2 * BASE_NS);
	assert_false(peek.is_parked);
	peek = queue_peek(f->q, STR("parked"));
	assert_int_equal(peek.due_in_ns, 5 * NS_PER_SEC);
	assert_true(peek.is_parked);
	fake_clock_advance(f->clock, 6 * NS_PER_SEC);
	assert_int_equal(queue_peek(f->q, STR("parked")).due_in_ns, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(keeps_the_order),
		TEST(hands_a_waiting_key_out_once),
		TEST(hands_a_re_added_key_out_after_it_is_done),
		TEST(copies_keys),
		TEST(hands_out_later),
		TEST(takes_the_earliest_of_several_times),
		TEST(keeps_a_later_time_beside_a_plain_add),
		TEST(keeps_a_key_that_falls_due_while_worked_on),
		TEST(sorts_many_times),
		TEST(waits_longer_after_each_failure),
		TEST(does_not_bring_failures_back_together),
		TEST(a_parked_key_comes_back_by_itself),
		TEST(a_release_brings_parked_keys_within_two_seconds),
		TEST(a_release_leaves_other_times_alone),
		TEST(a_released_key_is_parked_no_more),
		TEST(a_release_while_a_key_is_worked_on_is_not_lost),
		TEST(wakes_a_waiting_worker),
		TEST(wakes_workers_for_a_sooner_time),
		TEST(a_delayed_key_is_left_to_a_waiting_worker),
		TEST(rests_after_a_burst),
		TEST(gives_up_at_the_deadline),
		TEST(shuts_down),
		TEST(hands_nothing_out_after_shut_down),
		TEST(waits_until_nothing_is_worked_on),
		TEST(waits_for_keys_that_are_due_now),
		TEST(never_works_on_a_key_twice_at_the_same_time),
		TEST(a_peek_shows_where_a_key_is),
		cmocka_unit_test(idle_workers_sleep_through_keys_of_others),
		TEST(counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
