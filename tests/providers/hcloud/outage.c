#include "providers/hcloud/outage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"

static bool
note_at(struct hz_outage *o, enum hz_reception reception, int64_t s)
{
	return hz_outage_note(o, reception, s * NS_PER_SEC);
}

static void
a_cloud_that_answers_is_no_news(void **state)
{
	struct hz_outage o = { 0 };

	(void)state;
	assert_false(note_at(&o, HZ_ANSWERED, 0));
	assert_false(note_at(&o, HZ_ANSWERED, 10000));
}

static void
a_refused_token_is_told_at_once_and_once(void **state)
{
	struct hz_outage o = { 0 };

	(void)state;
	assert_true(note_at(&o, HZ_REFUSED, 0));
	for (int64_t s = 1; s < 1800; s++)
		assert_false(note_at(&o, HZ_REFUSED, s));
	assert_true(note_at(&o, HZ_ANSWERED, 1800));
	assert_false(note_at(&o, HZ_ANSWERED, 1801));
	assert_true(note_at(&o, HZ_REFUSED, 1802));
}

static void
silence_is_told_after_a_minute(void **state)
{
	struct hz_outage o = { 0 };

	(void)state;
	assert_false(note_at(&o, HZ_UNANSWERED, 0));
	assert_false(note_at(&o, HZ_UNANSWERED, 59));
	assert_false(note_at(&o, HZ_ANSWERED, 59));
	assert_false(note_at(&o, HZ_UNANSWERED, 61));
	assert_false(note_at(&o, HZ_UNANSWERED, 120));
	assert_true(note_at(&o, HZ_UNANSWERED, 121));
	assert_false(note_at(&o, HZ_UNANSWERED, 122));
	assert_true(note_at(&o, HZ_ANSWERED, 123));
}

/* Events are kept for an hour. */
static void
what_lasts_is_told_again(void **state)
{
	struct hz_outage o = { 0 };
	unsigned n_told = 0;

	(void)state;
	for (int64_t s = 0; s <= 6 * 3600; s += 65)
		n_told += note_at(&o, HZ_REFUSED, s);
	assert_in_range(n_told, 11, 13);
}

static void
another_trouble_is_news(void **state)
{
	struct hz_outage o = { 0 };

	(void)state;
	assert_false(note_at(&o, HZ_UNANSWERED, 0));
	assert_true(note_at(&o, HZ_UNANSWERED, 70));
	assert_true(note_at(&o, HZ_REFUSED, 71));
	assert_false(note_at(&o, HZ_UNANSWERED, 72));
	assert_true(note_at(&o, HZ_UNANSWERED, 132));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cloud_that_answers_is_no_news),
		cmocka_unit_test(a_refused_token_is_told_at_once_and_once),
		cmocka_unit_test(silence_is_told_after_a_minute),
		cmocka_unit_test(what_lasts_is_told_again),
		cmocka_unit_test(another_trouble_is_news),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
