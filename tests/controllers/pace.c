/* tests/controllers/pace.c: how often we react to one object. */
#include "controllers/pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/macros.h"
#include "controllers/env.h"
#include "fake_clock.h"

/* Somebody changes the object every interval_ms. */
static unsigned
reactions(struct pace *pace, int64_t *now_ns, int64_t interval_ms, int64_t seconds)
{
	int64_t end_ns = *now_ns + seconds * NS_PER_SEC;
	unsigned n = 0;

	for (; *now_ns < end_ns; *now_ns += interval_ms * NS_PER_MS)
		n += pace_take(pace, *now_ns) == 0;
	return n;
}

static void
the_first_ones_are_immediate(void **state)
{
	struct pace pace = { 0 };

	(void)state;
	for (int i = 0; i < PACE_FREE; i++)
		assert_int_equal(pace_take(&pace, 5), 0);
	assert_int_equal(pace_take(&pace, 5), 10 * NS_PER_SEC);
	assert_int_equal(pace_take(&pace, 5 + 4 * NS_PER_SEC), 6 * NS_PER_SEC);
	assert_int_equal(pace_take(&pace, 5 + 10 * NS_PER_SEC), 0);
	assert_int_equal(pace_take(&pace, 5 + 10 * NS_PER_SEC), 20 * NS_PER_SEC);
}

static void
reactions_in_an_hour_are_bounded_however_fast_the_changes(void **state)
{
	static const int64_t intervals_ms[] = { 100, 1000, 5000, 30000, 240000 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(intervals_ms); i++) {
		struct pace pace = { 0 };
		int64_t now_ns = 1;

		assert_in_range(reactions(&pace, &now_ns, intervals_ms[i], 3600), 1, PACE_HOUR);
		assert_in_range(reactions(&pace, &now_ns, intervals_ms[i], 3600), 1, 12);
	}
}

/* Whatever documents promise is what happens. */
static void
as_many_reactions_as_promised_are_possible(void **state)
{
	struct pace busy = { 0 }, pausing = { 0 };
	int64_t now_ns = 1;

	(void)state;
	assert_int_equal(reactions(&busy, &now_ns, 1000, 3600), PACE_HOUR);
	assert_int_equal(reactions(&busy, &now_ns, 1000, 3600), 12);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(reactions(&pausing, &now_ns, 100, 151), 9);
		now_ns += 600 * NS_PER_SEC;
	}
}

static void
after_a_quiet_while_it_begins_afresh(void **state)
{
	struct pace pace = { 0 };
	int64_t now_ns = 1;

	(void)state;
	(void)reactions(&pace, &now_ns, 1000, 3600);
	now_ns += 601 * NS_PER_SEC;
	for (int i = 0; i < PACE_FREE; i++)
		assert_int_equal(pace_take(&pace, now_ns), 0);
}

static void
objects_and_reactions_are_counted_apart(void **state)
{
	struct fake_clock *fake = fake_clock_new(0);
	struct controller_env env = { .clock = fake_clock_clock(fake) };
	struct controller_memory *memory = controller_memory_new(&env);
	struct paces *ps = env.paces;

	(void)state;
	for (int i = 0; i < PACE_FREE; i++)
		assert_int_equal(paces_take(ps, STR("u-1"), "taint"), 0);
	assert_int_equal(paces_take(ps, STR("u-1"), "taint"), 10 * NS_PER_SEC);
	assert_int_equal(paces_take(ps, STR("u-1"), "label"), 0);
	assert_int_equal(paces_take(ps, STR("u-2"), "taint"), 0);
	fake_clock_advance(fake, 10 * NS_PER_SEC);
	assert_int_equal(paces_take(ps, STR("u-1"), "taint"), 0);
	controller_memory_free(memory);
	fake_clock_free(fake);
}

/* A reaction that is reserved covers all changes before it. */
static void
a_reserved_reaction_is_counted_once(void **state)
{
	struct fake_clock *fake = fake_clock_new(0);
	struct controller_env env = { .clock = fake_clock_clock(fake) };
	struct controller_memory *memory = controller_memory_new(&env);
	struct paces *ps = env.paces;

	(void)state;
	fake_clock_advance(fake, NS_PER_SEC);
	for (int i = 0; i < PACE_FREE; i++)
		assert_int_equal(paces_reserve(ps, STR("u"), "run"), 0);
	assert_int_equal(paces_look(ps, STR("u"), "run"), 10 * NS_PER_SEC);
	assert_int_equal(paces_reserve(ps, STR("u"), "run"), 10 * NS_PER_SEC);
	fake_clock_advance(fake, 4 * NS_PER_SEC);
	assert_int_equal(paces_reserve(ps, STR("u"), "run"), 6 * NS_PER_SEC);
	fake_clock_advance(fake, 6 * NS_PER_SEC);
	assert_int_equal(paces_reserve(ps, STR("u"), "run"), 20 * NS_PER_SEC);
	controller_memory_free(memory);
	fake_clock_free(fake);
}

/* However many objects there are, memory is used for a bounded number of them. */
static void
memory_is_bounded(void **state)
{
	struct fake_clock *fake = fake_clock_new(0);
	struct controller_env env = { .clock = fake_clock_clock(fake) };
	struct controller_memory *memory = controller_memory_new(&env);
	struct paces *ps = env.paces;

	(void)state;
	for (int i = 0; i < 2 * LIMIT_PACES + 1; i++) {
		char uid[16];

		(void)snprintf(uid, sizeof(uid), "u-%d", i);
		assert_int_equal(paces_take(ps, str_c(uid), "taint"), 0);
	}
	assert_in_range(ps->all.count, 1, LIMIT_PACES);
	fake_clock_advance(fake, 601 * NS_PER_SEC);
	assert_int_equal(paces_take(ps, STR("another"), "taint"), 0);
	assert_int_equal(ps->all.count, 1);
	controller_memory_free(memory);
	fake_clock_free(fake);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_ones_are_immediate),
		cmocka_unit_test(reactions_in_an_hour_are_bounded_however_fast_the_changes),
		cmocka_unit_test(as_many_reactions_as_promised_are_possible),
		cmocka_unit_test(after_a_quiet_while_it_begins_afresh),
		cmocka_unit_test(objects_and_reactions_are_counted_apart),
		cmocka_unit_test(a_reserved_reaction_is_counted_once),
		cmocka_unit_test(memory_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
