#include "http/internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SEC NS_PER_SEC

static void
fill(struct gate *g, unsigned n)
{
	int64_t at_ns;

	for (unsigned i = 0; i < n; i++)
		assert_true(gate_enter(g, 0, &at_ns));
	assert_false(gate_enter(g, 0, &at_ns));
	assert_int_equal(at_ns, CLOCK_FOREVER);
}

static void
succeed(struct gate *g, int n)
{
	int64_t at_ns;

	for (int i = 0; i < n; i++) {
		assert_true(gate_enter(g, 0, &at_ns));
		gate_leave(g, GATE_SUCCESS, 0, 0);
	}
}

static void
throttle(struct gate *g, int64_t now_ns)
{
	int64_t at_ns;

	assert_true(gate_enter(g, now_ns, &at_ns));
	gate_leave(g, GATE_THROTTLED, 0, now_ns);
}

static void
starts_with_four(void **state)
{
	struct gate g;

	(void)state;
	gate_init(&g, 0, 0, 0);
	fill(&g, 4);
	gate_leave(&g, GATE_FAILURE, 0, 0);
	fill(&g, 1);
}

static void
grows_to_its_bound(void **state)
{
	struct gate g;

	(void)state;
	gate_init(&g, 0, 0, 0);
	succeed(&g, 99);
	assert_int_equal(g.limit, 4);
	succeed(&g, 1);
	assert_int_equal(g.limit, 5);
	succeed(&g, 10000);
	fill(&g, LIMIT_GATE_MAX);
}

static void
halves_once_a_second(void **state)
{
	struct gate g;

	(void)state;
	gate_init(&g, 0, 0, 0);
	throttle(&g, 0);
	assert_int_equal(g.limit, 2);
	throttle(&g, SEC - 1);
	assert_int_equal(g.limit, 2);
	throttle(&g, SEC);
	throttle(&g, 2 * SEC);
	throttle(&g, 3 * SEC);
	assert_int_equal(g.limit, 1);
}

static void
throttling_starts_the_count_again(void **state)
{
	struct gate g;

	(void)state;
	gate_init(&g, 0, 0, 0);
	succeed(&g, 99);
	throttle(&g, 0);
	succeed(&g, 99);
	assert_int_equal(g.limit, 2);
	succeed(&g, 1);
	assert_int_equal(g.limit, 3);
}

static void
is_closed_as_long_as_was_asked(void **state)
{
	struct gate g;
	int64_t at_ns;

	(void)state;
	gate_init(&g, 0, 0, 0);
	assert_true(gate_enter(&g, 0, &at_ns));
	assert_true(gate_enter(&g, 0, &at_ns));
	gate_leave(&g, GATE_THROTTLED, 3 * SEC, 0);
	gate_leave(&g, GATE_FAILURE, SEC, 0); /* a shorter one does not open it earlier */
	assert_false(gate_enter(&g, 2 * SEC, &at_ns));
	assert_int_equal(at_ns, 3 * SEC);
	assert_true(gate_enter(&g, 3 * SEC, &at_ns));
	gate_leave(&g, GATE_THROTTLED, INT64_MAX, 3 * SEC);
	assert_false(gate_enter(&g, 3 * SEC, &at_ns));
	assert_int_equal(at_ns, (3 + LIMIT_RETRY_AFTER_S) * SEC);
}

static void
keeps_to_a_rate(void **state)
{
	struct gate g;
	int64_t at_ns;

	(void)state;
	gate_init(&g, 10, 2, 0);
	for (int i = 0; i < 2; i++) {
		assert_true(gate_enter(&g, 0, &at_ns));
		gate_leave(&g, GATE_SUCCESS, 0, 0);
	}
	assert_false(gate_enter(&g, 0, &at_ns));
	assert_in_range(at_ns, SEC / 10, SEC / 10 + 10);
	assert_true(gate_enter(&g, at_ns, &at_ns));
	gate_leave(&g, GATE_SUCCESS, 0, at_ns);
	/* however long it was idle, no more than the burst */
	for (int i = 0; i < 2; i++)
		assert_true(gate_enter(&g, 100 * SEC, &at_ns));
	assert_false(gate_enter(&g, 100 * SEC, &at_ns));
}

static void
takes_any_rate(void **state)
{
	struct gate g;
	int64_t at_ns;

	(void)state;
	gate_init(&g, 1e-12, -5, 0);
	assert_true(gate_enter(&g, 0, &at_ns));
	assert_false(gate_enter(&g, 0, &at_ns));
	assert_true(at_ns > SEC && at_ns < CLOCK_FOREVER);
	gate_init(&g, -1, 0, 0);
	fill(&g, 4);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(starts_with_four),
		cmocka_unit_test(grows_to_its_bound),
		cmocka_unit_test(halves_once_a_second),
		cmocka_unit_test(throttling_starts_the_count_again),
		cmocka_unit_test(is_closed_as_long_as_was_asked),
		cmocka_unit_test(keeps_to_a_rate),
		cmocka_unit_test(takes_any_rate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
