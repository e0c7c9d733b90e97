#include "base/rand.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void
all_bits_change(void **state)
{
	uint64_t ones = 0;
	uint64_t zeros = 0;

	(void)state;
	for (int i = 0; i < 200; i++) {
		uint64_t value = rand_u64();

		ones |= value;
		zeros |= ~value;
	}
	assert_true(ones == UINT64_MAX);
	assert_true(zeros == UINT64_MAX);
}

static void
a_range_is_covered_evenly(void **state)
{
	int counts[10] = { 0 };

	(void)state;
	for (int i = 0; i < 10000; i++) {
		int64_t value = rand_between(-5, 5);

		assert_in_range(value + 5, 0, 9);
		counts[value + 5]++;
	}
	for (int i = 0; i < 10; i++)
		assert_in_range(counts[i], 700, 1300); /* ten standard deviations */
}

static void
odd_ranges(void **state)
{
	bool has_negative = false;
	bool has_positive = false;

	(void)state;
	assert_true(rand_between(3, 3) == 3);
	assert_true(rand_between(3, 2) == 3);
	assert_true(rand_between(INT64_MAX, INT64_MIN) == INT64_MAX);
	assert_true(rand_between(3, 4) == 3);
	assert_true(rand_between(INT64_MAX - 1, INT64_MAX) == INT64_MAX - 1);
	for (int i = 0; i < 200; i++) {
		int64_t value = rand_between(INT64_MIN, INT64_MAX);

		has_negative |= value < 0;
		has_positive |= value > 0;
	}
	assert_true(has_negative && has_positive);
}

static void
jitter_lengthens(void **state)
{
	int64_t least = INT64_MAX;
	int64_t most = 0;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		int64_t d = rand_jitter(1000);

		least = d < least ? d : least;
		most = d > most ? d : most;
	}
	assert_in_range(least, 1000, 1050);
	assert_in_range(most, 1950, 2000);
	assert_true(rand_jitter(0) == 0);
	assert_true(rand_jitter(-5) == -5);
	assert_true(rand_jitter(INT64_MAX) == INT64_MAX);
}

static void
uuids_have_their_form(void **state)
{
	CLEANUP(buf_fini) struct buf last = BUF_INIT(100);

	(void)state;
	for (int round = 0; round < 100; round++) {
		CLEANUP(buf_fini) struct buf b = BUF_INIT(100);

		rand_uuid(&b);
		assert_int_equal(b.len, 36);
		for (size_t i = 0; i < b.len; i++) {
			bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;

			assert_non_null(strchr(is_dash ? "-" : "0123456789abcdef", b.ptr[i]));
		}
		assert_int_equal(b.ptr[14], '4');
		assert_non_null(strchr("89ab", b.ptr[19]));
		assert_string_not_equal(b.ptr, last.ptr);
		buf_reset(&last);
		buf_add_str(&last, buf_str(&b));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_bits_change),
		cmocka_unit_test(a_range_is_covered_evenly),
		cmocka_unit_test(odd_ranges),
		cmocka_unit_test(jitter_lengthens),
		cmocka_unit_test(uuids_have_their_form),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
