/* What failed for a node is remembered until it succeeds, within bounds. */
#include "controllers/node_errors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "fake_clock.h"

static struct fake_clock *fake;
static struct node_errors errors;
static struct arena arena;

static int
set_up(void **state)
{
	(void)state;
	fake = fake_clock_new(INT64_C(1767322800) * NS_PER_SEC);
	errors = (struct node_errors){ .n = 0 };
	node_errors_init(&errors, fake_clock_clock(fake));
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	node_errors_fini(&errors);
	fake_clock_free(fake);
	arena_fini(&arena);
	return 0;
}

static void
note(enum node_work work, const char *name, const char *text)
{
	struct error err;

	err_set(&err, ERR_UNAVAILABLE, "%s", text);
	node_errors_note(&errors, work, str_c(name), &err, CLOCK_FOREVER);
}

/* NULL: nothing is remembered. */
static const char *
text_of(enum node_work work, const char *name)
{
	struct node_error one;

	return node_errors_get(&errors, work, str_c(name), &arena, &one)
	               ? arena_strz(&arena, one.text)
	               : NULL;
}

static void
the_last_failure_is_remembered_until_success(void **state)
{
	(void)state;
	assert_null(text_of(NODE_WORK_SYNC, "a"));
	note(NODE_WORK_SYNC, "a", "first");
	note(NODE_WORK_SYNC, "a", "second");
	note(NODE_WORK_LIFECYCLE, "a", "third");
	assert_string_equal(text_of(NODE_WORK_SYNC, "a"), "second");
	assert_string_equal(text_of(NODE_WORK_LIFECYCLE, "a"), "third");
	assert_null(text_of(NODE_WORK_SYNC, "b"));
	node_errors_clear(&errors, NODE_WORK_SYNC, STR("a"));
	assert_null(text_of(NODE_WORK_SYNC, "a"));
	assert_string_equal(text_of(NODE_WORK_LIFECYCLE, "a"), "third");
	note(NODE_WORK_SYNC, "a", "fourth");
	node_errors_forget(&errors, STR("a"));
	assert_null(text_of(NODE_WORK_SYNC, "a"));
	assert_null(text_of(NODE_WORK_LIFECYCLE, "a"));
}

static void
a_failure_for_all_nodes_is_that_of_each(void **state)
{
	(void)state;
	note(NODE_WORK_ADDRESSES, "", "all");
	note(NODE_WORK_ADDRESSES, "a", "own");
	assert_string_equal(text_of(NODE_WORK_ADDRESSES, "a"), "own");
	assert_string_equal(text_of(NODE_WORK_ADDRESSES, "b"), "all");
	node_errors_forget(&errors, STR("b"));
	assert_string_equal(text_of(NODE_WORK_ADDRESSES, "b"), "all");
	node_errors_clear(&errors, NODE_WORK_ADDRESSES, STR_EMPTY);
	assert_null(text_of(NODE_WORK_ADDRESSES, "b"));
}

static void
the_end_of_the_program_is_no_failure(void **state)
{
	struct error err;

	(void)state;
	err_set(&err, ERR_CANCELLED, "cancelled");
	node_errors_note(&errors, NODE_WORK_SYNC, STR("a"), &err, CLOCK_FOREVER);
	assert_null(text_of(NODE_WORK_SYNC, "a"));
}

static void
times_are_relative_to_the_question(void **state)
{
	struct node_error one;
	struct error err;

	(void)state;
	err_set(&err, ERR_INVALID, "x");
	node_errors_note(&errors, NODE_WORK_ADDRESSES, STR("a"), &err, 300 * NS_PER_SEC);
	note(NODE_WORK_SYNC, "a", "y");
	fake_clock_advance(fake, 10 * NS_PER_SEC);
	assert_true(node_errors_get(&errors, NODE_WORK_ADDRESSES, STR("a"), &arena, &one));
	assert_int_equal(one.failed_ago_ns, 10 * NS_PER_SEC);
	assert_int_equal(one.retry_in_ns, 290 * NS_PER_SEC);
	fake_clock_advance(fake, 1000 * NS_PER_SEC);
	assert_true(node_errors_get(&errors, NODE_WORK_ADDRESSES, STR("a"), &arena, &one));
	assert_int_equal(one.retry_in_ns, 0);
	assert_true(node_errors_get(&errors, NODE_WORK_SYNC, STR("a"), &arena, &one));
	assert_true(one.retry_in_ns == CLOCK_FOREVER);
}

static const char *
nth_name(unsigned i)
{
	return arena_strz(&arena, arena_printf(&arena, "n%u", i));
}

/* Node 1 has failed again, so node 2 is the one that failed longest ago. */
static void
the_oldest_of_too_many_is_dropped(void **state)
{
	(void)state;
	for (unsigned i = 1; i <= LIMIT_NODE_ERRORS; i++)
		note(NODE_WORK_SYNC, nth_name(i), "x");
	note(NODE_WORK_SYNC, "n1", "again");
	assert_non_null(text_of(NODE_WORK_SYNC, "n2"));
	note(NODE_WORK_LIFECYCLE, "other", "x");
	assert_null(text_of(NODE_WORK_SYNC, "n2"));
	assert_non_null(text_of(NODE_WORK_SYNC, "n1"));
	assert_non_null(text_of(NODE_WORK_SYNC, "n3"));
	assert_non_null(text_of(NODE_WORK_LIFECYCLE, "other"));
}

static void
a_long_text_is_cut_between_characters(void **state)
{
	char text[LIMIT_NODE_ERROR + 2];
	const char *cut;

	(void)state;
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	memcpy(text + LIMIT_NODE_ERROR - 1, "\xc3\xa4", 2);
	note(NODE_WORK_SYNC, "a", text);
	cut = text_of(NODE_WORK_SYNC, "a");
	assert_int_equal(strlen(cut), LIMIT_NODE_ERROR - 1);
	assert_int_equal(cut[strlen(cut) - 1], 'a');
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_last_failure_is_remembered_until_success),
		TEST(a_failure_for_all_nodes_is_that_of_each),
		TEST(the_end_of_the_program_is_no_failure),
		TEST(times_are_relative_to_the_question),
		TEST(the_oldest_of_too_many_is_dropped),
		TEST(a_long_text_is_cut_between_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
