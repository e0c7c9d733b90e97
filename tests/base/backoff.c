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
spreads_over_the_last_quarter(void **state UNUSED)
{
	int64_t least = INT64_MAX, most = 0;

	for (int i = 0; i < 10000; i++) {
		int64_t delay = backoff_spread_ns(100, 1, 1000);

		least = delay < least ? delay : least;
		most = delay > most ? delay : most;
	}
	assert_in_range(least, 150, 152);
	assert_in_range(most, 198, 200);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(doubles_up_to_the_most),
		cmocka_unit_test(spreads_over_the_last_quarter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
