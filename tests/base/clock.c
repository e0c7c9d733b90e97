#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/thread.h"

static void
the_real_one_moves_on(void **state)
{
	int64_t mono = clock_mono(&clock_real);
	int64_t boot = clock_boot(&clock_real);

	(void)state;
	assert_true(mono > 0);
	assert_true(boot > 0);
	assert_true(clock_mono(&clock_real) >= mono);
	assert_true(clock_boot(&clock_real) >= boot);
	assert_true(clock_wall(&clock_real) > INT64_C(1700000000) * NS_PER_SEC);
}

static bool
wait_until(int64_t deadline_ns)
{
	pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t cond;
	bool has_time = true;

	cond_init(&cond);
	mutex_lock(&mu);
	while (has_time)
		has_time = clock_wait(&clock_real, &cond, &mu, deadline_ns);
	mutex_unlock(&mu);
	cond_destroy(&cond);
	return has_time;
}

static void
waits_to_the_deadline(void **state)
{
	int64_t now = clock_mono(&clock_real);

	(void)state;
	assert_false(wait_until(now + 2 * NS_PER_MS));
	assert_true(clock_mono(&clock_real) >= now + 2 * NS_PER_MS);
	assert_false(wait_until(now));
	assert_false(wait_until(0));
	assert_false(wait_until(INT64_MIN));
}

struct flag {
	pthread_mutex_t mu;
	pthread_cond_t changed;
	bool is_up; /* mu */
};

static void *
raise_flag(void *arg)
{
	struct flag *flag = arg;
	WITH_LOCK(&flag->mu);

	flag->is_up = true;
	cond_signal(&flag->changed);
	return NULL;
}

static void
check_woken(int64_t deadline_ns)
{
	struct flag flag = { .mu = PTHREAD_MUTEX_INITIALIZER };
	bool has_time = true;
	pthread_t thread;

	cond_init(&flag.changed);
	thread_start(&thread, "raiser", raise_flag, &flag);
	mutex_lock(&flag.mu);
	while (!flag.is_up && has_time)
		has_time = clock_wait(&clock_real, &flag.changed, &flag.mu, deadline_ns);
	mutex_unlock(&flag.mu);
	thread_join(thread);
	assert_true(has_time);
	cond_destroy(&flag.changed);
}

static void
is_woken_by_a_signal(void **state)
{
	(void)state;
	check_woken(CLOCK_FOREVER);
	check_woken(clock_mono(&clock_real) + 60 * NS_PER_SEC);
}

static void
deadlines_do_not_overflow(void **state)
{
	(void)state;
	assert_true(clock_deadline(5, 3) == 8);
	assert_true(clock_deadline(5, -8) == -3);
	assert_true(clock_deadline(5, CLOCK_FOREVER) == CLOCK_FOREVER);
	assert_true(clock_deadline(-5, CLOCK_FOREVER) == CLOCK_FOREVER);
	assert_true(clock_deadline(5, CLOCK_FOREVER - 1) == CLOCK_FOREVER);
	assert_true(clock_deadline(-5, INT64_MIN) == INT64_MIN);
}

static void
check_format(int64_t wall_ns, const char *seconds, const char *micros)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(100);

	clock_format_rfc3339(&b, wall_ns, /*micros=*/false);
	assert_string_equal(b.ptr, seconds);
	buf_reset(&b);
	clock_format_rfc3339(&b, wall_ns, /*micros=*/true);
	assert_string_equal(b.ptr, micros);
}

static void
writes_rfc3339(void **state)
{
	(void)state;
	check_format(0, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z");
	check_format(INT64_C(1767323045678901999), "2026-01-02T03:04:05Z",
	             "2026-01-02T03:04:05.678901Z");
	check_format(-1, "1969-12-31T23:59:59Z", "1969-12-31T23:59:59.999999Z");
	check_format(-NS_PER_SEC, "1969-12-31T23:59:59Z", "1969-12-31T23:59:59.000000Z");
	check_format(INT64_MAX, "2262-04-11T23:47:16Z", "2262-04-11T23:47:16.854775Z");
	check_format(INT64_MIN, "1677-09-21T00:12:43Z", "1677-09-21T00:12:43.145224Z");
}

static void
check_parse(const char *text, int64_t expected)
{
	int64_t wall = 77;

	if (!clock_parse_rfc3339(str_c(text), &wall) || wall != expected)
		fail_msg("%s gave %lld", text, (long long)wall);
}

static void
reads_rfc3339(void **state)
{
	const int64_t then = INT64_C(1767323045) * NS_PER_SEC;

	(void)state;
	check_parse("1970-01-01T00:00:00Z", 0);
	check_parse("2026-01-02T03:04:05Z", then);
	check_parse("2026-01-02T03:04:05.6Z", then + 600 * NS_PER_MS);
	check_parse("2026-01-02T03:04:05.000001Z", then + 1000);
	check_parse("2026-01-02T03:04:05.123456789Z", then + 123456789);
	check_parse("2026-01-02T03:04:05+00:00", then);
	check_parse("2026-01-02T05:34:05+02:30", then);
	check_parse("2026-01-01T19:04:05.5-08:00", then + 500 * NS_PER_MS);
	check_parse("1969-12-31T23:59:59.999999999Z", -1);
	check_parse("2024-02-29T00:00:00Z", INT64_C(1709164800) * NS_PER_SEC);
	check_parse("2000-02-29T00:00:00Z", INT64_C(951782400) * NS_PER_SEC);
	check_parse("2262-04-11T23:47:16.854775807Z", INT64_MAX);
}

static void
refuses_other_times(void **state)
{
	static const char *const wrong[] = {
		"",
		"2026-01-02",
		"2026-01-02T03:04:05",
		"2026-01-02 03:04:05Z",
		"2026-1-2T03:04:05Z",
		"2026-01-02T03:04Z",
		"2026-01-02T03:04:05.Z",
		"2026-01-02T03:04:05.1234567890Z",
		"2026-01-02T03:04:05,5Z",
		"2026-01-02T03:04:05ZZ",
		" 2026-01-02T03:04:05Z",
		"2026-01-02T03:04:05+0100",
		"2026-01-02T03:04:05+01",
		"2026-01-02T03:04:05+24:00",
		"2026-01-02T03:04:05+01:60",
		"2026-01-02T24:00:00Z",
		"2026-01-02T03:60:00Z",
		"2026-01-02T03:04:60Z",
		"2026-00-02T03:04:05Z",
		"2026-13-02T03:04:05Z",
		"2026-01-00T03:04:05Z",
		"2026-01-32T03:04:05Z",
		"2026-04-31T03:04:05Z",
		"2026-02-29T03:04:05Z",
		"1900-02-29T03:04:05Z",
		"-026-01-02T03:04:05Z",
		"2026-01-02T-3:04:05Z",
		"2026-01-02T03:04:-5Z",
		"0001-01-01T00:00:00Z",
		"9999-12-31T23:59:59Z",
		"2262-04-11T23:47:16.854775808Z",
	};
	int64_t wall = 77;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		if (clock_parse_rfc3339(str_c(wrong[i]), &wall) || wall != 77)
			fail_msg("%s gave %lld", wrong[i], (long long)wall);
	}
}

static void
reads_what_it_writes(void **state)
{
	(void)state;
	for (int64_t second = -5000000000; second < 5000000000; second += 12345678) {
		CLEANUP(buf_fini) struct buf b = BUF_INIT(100);

		clock_format_rfc3339(&b, second * NS_PER_SEC + 123456000, /*micros=*/true);
		check_parse(b.ptr, second * NS_PER_SEC + 123456000);
	}
}

static void
check_duration(int64_t ns, const char *expected)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(100);
	int64_t again;

	clock_format_duration(&b, ns);
	assert_string_equal(b.ptr, expected);
	assert_true(str_to_duration_ns(buf_str(&b), &again));
	assert_true(again == ns);
}

/* The cases of Go's own test of Duration.String(), and what a CCM shows. */
static void
writes_durations_like_go(void **state)
{
	(void)state;
	check_duration(0, "0s");
	check_duration(1, "1ns");
	check_duration(1100, "1.1\xc2\xb5s");
	check_duration(2200000, "2.2ms");
	check_duration(250 * NS_PER_MS, "250ms");
	check_duration(3300 * NS_PER_MS, "3.3s");
	check_duration(90 * NS_PER_SEC, "1m30s");
	check_duration(5 * 60 * NS_PER_SEC + 5 * NS_PER_SEC, "5m5s");
	check_duration(5 * 60 * NS_PER_SEC + 5001 * NS_PER_MS, "5m5.001s");
	check_duration(5 * 3600 * NS_PER_SEC + 6 * 60 * NS_PER_SEC + 7001 * NS_PER_MS,
	               "5h6m7.001s");
	check_duration(12 * 3600 * NS_PER_SEC, "12h0m0s");
	check_duration(8 * 60 * NS_PER_SEC + 1, "8m0.000000001s");
	check_duration(-90 * NS_PER_SEC, "-1m30s");
	check_duration(-1, "-1ns");
	check_duration(INT64_MAX, "2562047h47m16.854775807s");
	check_duration(INT64_MIN, "-2562047h47m16.854775808s");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_real_one_moves_on),
		cmocka_unit_test(waits_to_the_deadline),
		cmocka_unit_test(is_woken_by_a_signal),
		cmocka_unit_test(deadlines_do_not_overflow),
		cmocka_unit_test(writes_rfc3339),
		cmocka_unit_test(reads_rfc3339),
		cmocka_unit_test(refuses_other_times),
		cmocka_unit_test(reads_what_it_writes),
		cmocka_unit_test(writes_durations_like_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
