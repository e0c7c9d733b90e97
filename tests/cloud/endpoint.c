/* When an endpoint is down, which requests are sent then, and with which error the others fail. */
#include "cloud/endpoint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/thread.h"
#include "fake_clock.h"

#define WALL_NS (INT64_C(1767322800) * NS_PER_SEC) /* 2026-01-02T03:00:00Z */

enum {
	THREADS = 8,
	ROUNDS = 20000,
};

struct story {
	struct cloud_host host;
	struct fake_clock *fake;
	struct endpoint *endpoint;
	_Atomic unsigned n_woken;
};

static struct story *story;

static void
note_requeue(const struct cloud_host *host, enum host_requeue what, struct str key)
{
	(void)host;
	if (what == HOST_REQUEUE_RECOVERED && key.len == 0)
		story->n_woken++;
}

static int
set_up(void **state)
{
	(void)state;
	story = xcalloc(1, sizeof(*story));
	story->fake = fake_clock_new(WALL_NS);
	story->host = (struct cloud_host){ .clock = fake_clock_clock(story->fake),
		                           .requeue = note_requeue };
	story->endpoint = endpoint_new(&(struct endpoint_config){ "the lab", &story->host });
	log_set_fd(-1);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	endpoint_free(story->endpoint);
	fake_clock_free(story->fake);
	free(TAKE(story));
	return 0;
}

static void
pass_time(int64_t ms)
{
	fake_clock_advance(story->fake, ms * NS_PER_MS);
}

static struct endpoint_pass
enter(void)
{
	struct endpoint_pass pass = { 0 };
	struct error err;

	if (!endpoint_enter(story->endpoint, &pass, &err))
		fail_msg("%s", err.msg);
	return pass;
}

static struct error
fail_with(struct endpoint_pass pass, enum err_code code, int status, const char *text)
{
	struct error err;

	err_set(&err, code, "%s", text);
	err.http_status = status;
	endpoint_leave(story->endpoint, &pass, ENDPOINT_FAILED, &err);
	return err;
}

static struct error
fail_once(void)
{
	return fail_with(enter(), ERR_UNAVAILABLE, 0, "connection refused");
}

static void
answer(struct endpoint_pass pass)
{
	endpoint_leave(story->endpoint, &pass, ENDPOINT_ANSWERED, NULL);
}

static struct error
refused(void)
{
	struct endpoint_pass pass;
	struct error err = { .code = ERR_NONE };

	assert_false(endpoint_enter(story->endpoint, &pass, &err));
	assert_true(err.is_outage);
	return err;
}

static bool
is_down(void)
{
	struct error err;
	bool down = true;

	if (!endpoint_check(story->endpoint, &down, &err))
		assert_true(down);
	return down;
}

static void
go_down(void)
{
	fail_once();
	assert_true(fail_once().is_outage);
}

/* ---- up and down ---- */

static void
one_failure_is_about_one_request(void **state)
{
	struct error err = fail_once();

	(void)state;
	assert_false(err.is_outage);
	assert_string_equal(err.msg, "connection refused");
	assert_false(is_down());
	answer(enter());
	fail_once();
	assert_false(is_down());
	assert_int_equal(story->n_woken, 0);
}

static void
two_failures_in_a_row_are_an_outage(void **state)
{
	struct error err;

	(void)state;
	fail_once();
	pass_time(5000);
	err = fail_once();
	assert_true(err.is_outage);
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	assert_string_equal(
		err.msg,
		"the lab has been unavailable since 2026-01-02T03:00:00Z: connection refused");
	assert_string_equal(refused().msg, err.msg);
}

/* Requests that were sent before the last answer, and fail after it, are old. */
static void
a_failure_from_before_an_answer_does_not_count(void **state)
{
	struct endpoint_pass first = enter(), second = enter(), third = enter();

	(void)state;
	fail_with(first, ERR_TIMEOUT, 0, "no answer");
	answer(second);
	fail_with(third, ERR_TIMEOUT, 0, "no answer");
	fail_once();
	assert_false(is_down());
}

static void
an_answer_ends_an_outage_and_wakes_the_host(void **state)
{
	(void)state;
	go_down();
	pass_time(1000);
	answer(enter());
	assert_false(is_down());
	assert_int_equal(story->n_woken, 1);
	answer(enter());
	assert_int_equal(story->n_woken, 1);
}

/* The answer to a request that was under way when the endpoint went down proves as much as the
 * answer to a probe. */
static void
any_answer_ends_an_outage(void **state)
{
	struct endpoint_pass slow = enter();

	(void)state;
	go_down();
	answer(slow);
	assert_false(is_down());
	assert_int_equal(story->n_woken, 1);
}

static void
a_cancelled_probe_proves_nothing(void **state)
{
	struct endpoint_pass probe;

	(void)state;
	go_down();
	pass_time(1000);
	probe = enter();
	endpoint_leave(story->endpoint, &probe, ENDPOINT_UNKNOWN, NULL);
	assert_true(is_down());
	assert_true(enter().is_probe);
}

/* ---- probes ---- */

static void
there_is_one_probe_at_a_time(void **state)
{
	struct endpoint_pass probe;

	(void)state;
	go_down();
	refused();
	pass_time(1000);
	probe = enter();
	assert_true(probe.is_probe);
	refused();
	pass_time(14000);
	refused();
	fail_with(probe, ERR_TIMEOUT, 0, "no answer");
	refused();
}

/* With a caller every 100 ms, there are probes after 1, 2, 4, 8, 16 s, and then every 30 s. */
static void
an_outage_of_half_an_hour_costs_two_requests_a_minute(void **state)
{
	unsigned n_first = 0, n_rest = 0;

	(void)state;
	go_down();
	for (unsigned i = 1; i <= 18000; i++) {
		struct endpoint_pass pass;
		struct error err;

		pass_time(100);
		if (!endpoint_enter(story->endpoint, &pass, &err))
			continue;
		fail_with(pass, ERR_UNAVAILABLE, 0, "connection refused");
		if (i <= 310)
			n_first++;
		else
			n_rest++;
	}
	assert_int_equal(n_first, 5);
	assert_in_range(n_rest, 57, 59);
}

/* A caller that comes back at the time in its error finds a probe due, and few other callers. */
static void
refused_callers_come_back_one_after_the_other(void **state)
{
	(void)state;
	go_down();
	for (int64_t i = 0; i < 10; i++)
		assert_int_equal(refused().retry_after_ms, 1000 + 1000 * i + 1);
	for (unsigned i = 0; i < 1000; i++)
		refused();
	assert_int_equal(refused().retry_after_ms, 301001);
}

/* Otherwise an object whose requests always fail would send the probe each time. */
static void
a_failed_caller_comes_back_after_a_refused_one(void **state)
{
	struct endpoint_pass probe;
	int64_t probe_ms;

	(void)state;
	go_down();
	pass_time(1000);
	probe = enter();
	probe_ms = fail_with(probe, ERR_UNAVAILABLE, 500, "500").retry_after_ms;
	assert_int_equal(probe_ms, 2000 + 1000 + 1);
	assert_true(refused().retry_after_ms < probe_ms);
}

static void
a_new_outage_begins_with_short_pauses(void **state)
{
	(void)state;
	go_down();
	for (unsigned i = 0; i < 10; i++) {
		pass_time(30000);
		fail_once();
	}
	pass_time(30000);
	answer(enter());
	go_down();
	assert_int_equal(refused().retry_after_ms, 1001);
}

/* ---- errors ---- */

static void
a_refused_token_stays_unauthorized(void **state)
{
	struct error err;

	(void)state;
	fail_with(enter(), ERR_UNAUTHORIZED, 401, "unable to authenticate");
	fail_with(enter(), ERR_UNAUTHORIZED, 401, "unable to authenticate");
	err = refused();
	assert_int_equal(err.code, ERR_UNAUTHORIZED);
	assert_int_equal(err.http_status, 401);
	assert_non_null(strstr(err.msg, "unable to authenticate"));
}

/* A request's id, a path and the like differ each time; the cause is the same. */
static void
the_text_changes_only_with_the_cause(void **state)
{
	struct error err;

	(void)state;
	fail_with(enter(), ERR_UNAVAILABLE, 503, "first");
	fail_with(enter(), ERR_UNAVAILABLE, 503, "second");
	assert_non_null(strstr(refused().msg, "Z: second"));
	pass_time(1000);
	err = fail_with(enter(), ERR_UNAVAILABLE, 503, "third");
	assert_non_null(strstr(err.msg, "Z: second"));
	pass_time(2000);
	err = fail_with(enter(), ERR_UNAUTHORIZED, 401, "fourth");
	assert_non_null(strstr(err.msg, "Z: fourth"));
	assert_string_equal(refused().msg, err.msg);
}

static void
the_cause_of_another_outage_is_forgotten(void **state)
{
	(void)state;
	go_down();
	pass_time(1000);
	answer(enter());
	fail_with(enter(), ERR_UNAVAILABLE, 0, "no route to host");
	fail_with(enter(), ERR_UNAVAILABLE, 0, "no route to host");
	assert_string_equal(
		refused().msg,
		"the lab has been unavailable since 2026-01-02T03:00:01Z: no route to host");
}

static void
limits_of_waiting_do_not_count_outages(void **state)
{
	int64_t begun_ns = endpoint_uptime_ns(story->endpoint);

	(void)state;
	pass_time(10000);
	go_down();
	pass_time(600000);
	assert_int_equal(endpoint_uptime_ns(story->endpoint) - begun_ns, 10 * NS_PER_SEC);
	answer(enter());
	pass_time(5000);
	go_down();
	pass_time(60000);
	assert_int_equal(endpoint_uptime_ns(story->endpoint) - begun_ns, 15 * NS_PER_SEC);
}

/* ---- threads ---- */

static _Atomic unsigned n_probing, n_most_probing, n_sent;

static void
note_probing(void)
{
	unsigned n = ++n_probing;

	if (n > n_most_probing)
		n_most_probing = n;
}

/* The lab answers every other minute. */
static enum endpoint_outcome
outcome_now(void)
{
	int64_t minute = clock_boot(story->host.clock) / (60 * NS_PER_SEC);

	return minute % 2 == 0 ? ENDPOINT_ANSWERED : ENDPOINT_FAILED;
}

static void *
send_many(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct endpoint_pass pass;
		struct error err;

		if (i % 50 == 0)
			pass_time(500);
		if (!endpoint_enter(story->endpoint, &pass, &err))
			continue;
		n_sent++;
		if (pass.is_probe)
			note_probing();
		err_set(&err, ERR_UNAVAILABLE, "no");
		if (pass.is_probe)
			n_probing--;
		endpoint_leave(story->endpoint, &pass, outcome_now(), &err);
	}
	return NULL;
}

static void
many_threads_share_it(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	for (unsigned i = 0; i < THREADS; i++)
		thread_start(&threads[i], "sender", send_many, NULL);
	for (unsigned i = 0; i < THREADS; i++)
		thread_join(threads[i]);
	assert_int_equal(n_most_probing, 1);
	assert_true(n_sent > 0);
	assert_true(story->n_woken > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_failure_is_about_one_request),
		TEST(two_failures_in_a_row_are_an_outage),
		TEST(a_failure_from_before_an_answer_does_not_count),
		TEST(an_answer_ends_an_outage_and_wakes_the_host),
		TEST(any_answer_ends_an_outage),
		TEST(a_cancelled_probe_proves_nothing),
		TEST(there_is_one_probe_at_a_time),
		TEST(an_outage_of_half_an_hour_costs_two_requests_a_minute),
		TEST(refused_callers_come_back_one_after_the_other),
		TEST(a_failed_caller_comes_back_after_a_refused_one),
		TEST(a_new_outage_begins_with_short_pauses),
		TEST(a_refused_token_stays_unauthorized),
		TEST(the_text_changes_only_with_the_cause),
		TEST(the_cause_of_another_outage_is_forgotten),
		TEST(limits_of_waiting_do_not_count_outages),
		TEST(many_threads_share_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
