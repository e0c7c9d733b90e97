/* tests/cloud/refusals.c: refused requests are not repeated until something changes. */
#include "cloud/refusals.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/limits.h"
#include "cloud/login.h"
#include "fake_clock.h"

enum {
	LOOKS = 1,
	LOOKS_OTHERWISE = 2,
	HOUR_S = 3600,
};

static struct fake_clock *fake;
static struct refusals *refusals;

static int
setup(void **state)
{
	(void)state;
	fake = fake_clock_new(0);
	refusals = refusals_new(fake_clock_clock(fake));
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	refusals_free(refusals);
	fake_clock_free(fake);
	return 0;
}

static void
refuse(const char *object, const char *kind, const char *text)
{
	struct error err;

	err_set(&err, ERR_INVALID, "%s", text);
	err.http_status = 422;
	refusals_note(refusals, str_c(object), kind, LOOKS, &err);
}

static bool
is_refused(const char *object, const char *kind, uint64_t looks)
{
	struct error err;

	return refusals_find(refusals, str_c(object), kind, looks, &err);
}

static void
a_refusal_is_returned_as_it_was_for_an_hour(void **state)
{
	struct error err;

	(void)state;
	refuse("7", "add_target", "no public IPv4");
	fake_clock_advance(fake, 600 * NS_PER_SEC);
	assert_true(refusals_find(refusals, STR("7"), "add_target", LOOKS, &err));
	assert_int_equal(err.code, ERR_INVALID);
	assert_int_equal(err.http_status, 422);
	assert_false(err.is_outage);
	assert_string_equal(err.msg, "no public IPv4");
	assert_int_equal(err.retry_after_ms, 3000 * 1000);
	fake_clock_advance(fake, 3000 * NS_PER_SEC - 1);
	assert_true(is_refused("7", "add_target", LOOKS));
	fake_clock_advance(fake, 1);
	assert_false(is_refused("7", "add_target", LOOKS));
}

static void
an_object_that_looks_different_is_tried_again(void **state)
{
	(void)state;
	refuse("7", "add_target", "no public IPv4");
	assert_false(is_refused("7", "add_target", LOOKS_OTHERWISE));
	assert_true(is_refused("7", "add_target", LOOKS));
}

/* Another project may not be full, for example. */
static void
what_other_credentials_were_refused_is_tried_again(void **state)
{
	(void)state;
	refuse("7", "add_target", "no");
	login_note_replaced();
	assert_false(is_refused("7", "add_target", LOOKS));
	refuse("7", "add_target", "no");
	assert_true(is_refused("7", "add_target", LOOKS));
}

static void
objects_and_kinds_are_stored_apart(void **state)
{
	(void)state;
	refuse("7", "add_target", "no");
	assert_false(is_refused("8", "add_target", LOOKS));
	assert_false(is_refused("7", "add_service", LOOKS));
	refusals_forget(refusals, STR("7"), "add_service");
	assert_true(is_refused("7", "add_target", LOOKS));
	refusals_forget(refusals, STR("7"), "add_target");
	assert_false(is_refused("7", "add_target", LOOKS));
	assert_int_equal(refusals_count(refusals), 0);
}

static void
a_newer_refusal_takes_the_place_of_an_older_one(void **state)
{
	struct error err;

	(void)state;
	refuse("7", "add_target", "no");
	fake_clock_advance(fake, (HOUR_S - 1) * NS_PER_SEC);
	refuse("7", "add_target", "still no");
	fake_clock_advance(fake, (HOUR_S - 1) * NS_PER_SEC);
	assert_true(refusals_find(refusals, STR("7"), "add_target", LOOKS, &err));
	assert_string_equal(err.msg, "still no");
	assert_int_equal(refusals_count(refusals), 1);
}

/* Those that are stored stay; expired ones make room. */
static void
the_number_is_bounded(void **state)
{
	char object[20];

	(void)state;
	for (int i = 0; i < LIMIT_REFUSALS + 10; i++) {
		snprintf(object, sizeof(object), "%d", i);
		refuse(object, "add_target", "no");
	}
	assert_int_equal(refusals_count(refusals), LIMIT_REFUSALS);
	assert_true(is_refused("0", "add_target", LOOKS));
	assert_false(is_refused(object, "add_target", LOOKS));
	fake_clock_advance(fake, HOUR_S * NS_PER_SEC);
	refuse(object, "add_target", "no");
	assert_int_equal(refusals_count(refusals), 1);
	assert_true(is_refused(object, "add_target", LOOKS));
	for (int i = 0; i < LIMIT_REFUSALS; i++) {
		snprintf(object, sizeof(object), "%d", i);
		refuse(object, "add_target", "no");
	}
	login_note_replaced();
	refuse("another", "add_target", "no");
	assert_int_equal(refusals_count(refusals), 1);
}

static void
an_object_with_an_endless_name_is_not_stored(void **state)
{
	char *name = malloc(KIB(10) + 1);

	(void)state;
	memset(name, 'a', KIB(10));
	name[KIB(10)] = '\0';
	refuse(name, "add_target", "no");
	assert_false(is_refused(name, "add_target", LOOKS));
	assert_int_equal(refusals_count(refusals), 0);
	free(name);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_refusal_is_returned_as_it_was_for_an_hour),
		TEST(an_object_that_looks_different_is_tried_again),
		TEST(what_other_credentials_were_refused_is_tried_again),
		TEST(objects_and_kinds_are_stored_apart),
		TEST(a_newer_refusal_takes_the_place_of_an_older_one),
		TEST(the_number_is_bounded),
		TEST(an_object_with_an_endless_name_is_not_stored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
