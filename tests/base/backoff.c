#include "base/backoff.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/macros.h"

static void
doubles_up_to_the_most(void **state)
{
	static const struct {
		int64_t first;
		unsigned n;
		int64_t most, delay;
	} rows[] = {
		{ 5, 0, 100, 5 },
		{ 5, 1, 100, 10 },
		{ 5, 4, 100, 80 },
		{ 5, 5, 100, 100 },
		{ 5, UINT_MAX, 100, 100 },
		{ 200, 0, 100, 100 },
		{ 0, UINT_MAX, 100, 0 },
		{ 1, UINT_MAX, INT64_MAX, INT64_MAX },
		{ INT64_MAX / 2 + 1, 1, INT64_MAX, INT64_MAX },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(backoff_ns(rows[i].first, rows[i].n, rows[i].most), rows[i].delay);
}

static void
sample(int64_t first, unsigned n_times, int64_t limit, int64_t *least, int64_t *most)
{
	*least = INT64_MAX;
	*most = 0;
	for (int i = 0; i < 10000; i++) {
		int64_t delay = backoff_spread_ns(first, n_times, limit);

		*least = delay < *least ? delay : *least;
		*most = delay > *most ? delay : *most;
	}
}

static void
never_comes_back_before_the_delay(void **state)
{
	int64_t least, most;

	(void)state;
	sample(5000, 0, 300000, &least, &most);
	assert_in_range(least, 5000, 5020);
	assert_in_range(most, 6980, 7000);
	sample(100, 1, 1000, &least, &most);
	assert_in_range(least, 200, 202);
	assert_in_range(most, 278, 280);
}

/* Objects that failed together are spread at the longest delay as well, and none waits for longer
 * than that. */
static void
spreads_below_the_longest_delay(void **state)
{
	int64_t least, most;

	(void)state;
	sample(5000, 20, 7000, &least, &most);
	assert_in_range(least, 5000, 5020);
	assert_in_range(most, 6980, 7000);
	sample(6500, 0, 7000, &least, &most);
	assert_in_range(least, 5000, 5020);
	assert_in_range(most, 6980, 7000);
	assert_int_equal(backoff_spread_ns(0, 3, 100), 0);
	assert_in_range(backoff_spread_ns(INT64_MAX - 1, 0, INT64_MAX), INT64_MAX / 7 * 5 - 7,
	                INT64_MAX);
}

/* ---- several attempts ---- */

static void
fail_with(struct attempts *a, enum err_code code, const char *msg, struct error *err)
{
	err_set(err, code, "%s", msg);
	attempts_note(a, err);
}

static void
a_late_timeout_hides_no_other_error(void **state)
{
	struct attempts a = { .begun_ns = NS_PER_SEC };
	struct error err;

	(void)state;
	fail_with(&a, ERR_TIMEOUT, "no answer in time", &err);
	fail_with(&a, ERR_UNAVAILABLE, "connection reset", &err);
	fail_with(&a, ERR_UNAVAILABLE, "connection refused", &err);
	fail_with(&a, ERR_TIMEOUT, "timed out while waiting for its turn", &err);
	err.retry_after_ms = 7;
	assert_false(attempts_end(&a, NS_PER_SEC + 9834 * NS_PER_MS, &err));
	assert_string_equal(err.msg, "connection refused (4 attempts in 9.8s)");
	assert_int_equal(err.code, ERR_TIMEOUT); /* the last may have had an effect */
	assert_int_equal(err.retry_after_ms, 7);
}

static void
the_first_of_timeouts_says_most(void **state)
{
	struct attempts a = { 0 };
	struct error err;

	(void)state;
	fail_with(&a, ERR_TIMEOUT, "no answer in time", &err);
	fail_with(&a, ERR_TIMEOUT, "timed out while waiting for its turn", &err);
	assert_false(attempts_end(&a, 2 * NS_PER_SEC, &err));
	assert_string_equal(err.msg, "no answer in time (2 attempts in 2s)");
}

static void
one_attempt_and_a_cancelled_one_stay_as_they_are(void **state)
{
	struct attempts a = { 0 };
	struct error err;

	(void)state;
	fail_with(&a, ERR_UNAVAILABLE, "connection refused", &err);
	assert_false(attempts_end(&a, NS_PER_SEC, &err));
	assert_string_equal(err.msg, "connection refused");
	fail_with(&a, ERR_CANCELLED, "cancelled", &err);
	assert_false(attempts_end(&a, NS_PER_SEC, &err));
	assert_string_equal(err.msg, "cancelled");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(doubles_up_to_the_most),
		cmocka_unit_test(never_comes_back_before_the_delay),
		cmocka_unit_test(spreads_below_the_longest_delay),
		cmocka_unit_test(a_late_timeout_hides_no_other_error),
		cmocka_unit_test(the_first_of_timeouts_says_most),
		cmocka_unit_test(one_attempt_and_a_cancelled_one_stay_as_they_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
