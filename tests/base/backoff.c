#include "base/backoff.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/macros.h"

static void
doubles_up_to_the_most(void **state UNUSED)
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
never_comes_back_before_the_delay(void **state UNUSED)
{
	int64_t least, most;

	sample(5000, 0, 300000, &least, &most);
	assert_in_range(least, 5000, 5020);
	assert_in_range(most, 6980, 7000);
	sample(100, 1, 1000, &least, &most);
	assert_in_range(least, 200, 202);
	assert_in_range(most, 278, 280);
}

/* Those that failed together are spread at the longest delay, too, and none waits for longer. */
static void
spreads_below_the_longest_delay(void **state UNUSED)
{
	int64_t least, most;

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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(doubles_up_to_the_most),
		cmocka_unit_test(never_comes_back_before_the_delay),
		cmocka_unit_test(spreads_below_the_longest_delay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
