#include "serve/review_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"

static struct digest
digest_number(size_t n)
{
	struct digest d = { { 0 } };

	memcpy(d.bytes, &n, sizeof(n));
	return d;
}

static void
put(struct review_cache *c, size_t n, enum review_verdict verdict, int64_t now_ns, int64_t until_ns)
{
	CLEANUP(review_answer_unrefp)
	struct review_answer *a = review_answer_new(verdict, NULL, STR_EMPTY);
	struct digest key = digest_number(n);

	review_cache_put(c, &key, a, now_ns, until_ns);
}

enum {
	STALE = 100,
};

/* The verdict, STALE, or -1. */
static int
get(struct review_cache *c, size_t n, int64_t now_ns)
{
	struct digest key = digest_number(n);
	bool is_stale = false;
	CLEANUP(review_answer_unrefp)
	struct review_answer *a = review_cache_get(c, &key, now_ns, &is_stale);

	return !a ? -1 : is_stale ? STALE : (int)a->verdict;
}

static void
gives_what_was_put_until_it_is_old(void **state UNUSED)
{
	CLEANUP(review_cache_fini) struct review_cache c = REVIEW_CACHE_INIT;

	assert_int_equal(get(&c, 1, 0), -1);
	put(&c, 1, REVIEW_YES, 0, 10);
	put(&c, 2, REVIEW_NO, 0, 5);
	assert_int_equal(get(&c, 1, 9), REVIEW_YES);
	assert_int_equal(get(&c, 2, 4), REVIEW_NO);
	assert_int_equal(get(&c, 2, 5), -1);
	assert_int_equal(get(&c, 1, 20), -1);
	assert_int_equal(c.entries.count, 0);
	assert_int_equal(c.bytes, 0);
}

static void
a_yes_is_stale_for_as_long_as_it_was_good(void **state UNUSED)
{
	CLEANUP(review_cache_fini) struct review_cache c = REVIEW_CACHE_INIT;

	put(&c, 1, REVIEW_YES, 10, 15);
	put(&c, 2, REVIEW_NO, 10, 15);
	put(&c, 3, REVIEW_YES, 10, CLOCK_FOREVER - 1);
	assert_int_equal(get(&c, 1, 14), REVIEW_YES);
	assert_int_equal(get(&c, 1, 15), STALE);
	assert_int_equal(get(&c, 2, 15), -1);
	assert_int_equal(get(&c, 1, 19), STALE);
	assert_int_equal(get(&c, 1, 20), -1);
	assert_int_equal(get(&c, 3, 20), REVIEW_YES);
}

static void
a_no_replaces_a_stale_yes(void **state UNUSED)
{
	CLEANUP(review_cache_fini) struct review_cache c = REVIEW_CACHE_INIT;

	put(&c, 1, REVIEW_YES, 10, 15);
	put(&c, 1, REVIEW_NO, 16, 21);
	assert_int_equal(get(&c, 1, 17), REVIEW_NO);
	assert_int_equal(get(&c, 1, 21), -1);
}

static void
a_time_to_live_of_nothing_keeps_nothing(void **state UNUSED)
{
	CLEANUP(review_cache_fini) struct review_cache c = REVIEW_CACHE_INIT;

	put(&c, 1, REVIEW_YES, 5, 5);
	assert_int_equal(c.entries.count, 0);
	put(&c, 1, REVIEW_YES, 5, 6);
	put(&c, 1, REVIEW_NO, 5, 5);
	assert_int_equal(get(&c, 1, 5), -1);
}

static void
a_new_answer_replaces_the_old(void **state UNUSED)
{
	CLEANUP(review_cache_fini) struct review_cache c = REVIEW_CACHE_INIT;

	put(&c, 1, REVIEW_YES, 0, 10);
	put(&c, 1, REVIEW_NO, 0, 10);
	assert_int_equal(get(&c, 1, 0), REVIEW_NO);
	assert_int_equal(c.entries.count, 1);
}

static void
the_one_not_used_for_longest_goes(void **state UNUSED)
{
	CLEANUP(review_cache_fini) struct review_cache c = REVIEW_CACHE_INIT;
	size_t most = 0;

	for (size_t i = 0; i < 3 * LIMIT_ACCESS_CACHE; i++) {
		put(&c, i, REVIEW_YES, 0, 10);
		assert_int_equal(get(&c, 0, 0), REVIEW_YES);
		most = c.entries.count > most ? c.entries.count : most;
		assert_in_range(c.bytes, 1, LIMIT_ACCESS_CACHE_BYTES);
	}
	assert_in_range(most, 2, LIMIT_ACCESS_CACHE);
	assert_int_equal(get(&c, 1, 0), -1);
	assert_int_equal(get(&c, 3 * LIMIT_ACCESS_CACHE - 1, 0), REVIEW_YES);
}

static struct access_user *
large_user(void)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct access_draft d = ACCESS_DRAFT_INIT(&arena);
	struct access_user *user;
	struct error err;

	access_draft_name(&d, STR("a"));
	for (size_t i = 0; i < LIMIT_USER_BYTES / 64; i++)
		access_draft_group(&d, STR("0123456789"));
	assert_true(access_user_new(&d, &user, &err));
	return user;
}

static void
large_answers_leave_less_room(void **state UNUSED)
{
	CLEANUP(review_cache_fini) struct review_cache c = REVIEW_CACHE_INIT;

	for (size_t i = 0; i < 20; i++) {
		CLEANUP(review_answer_unrefp)
		struct review_answer *a = review_answer_new(REVIEW_YES, large_user(), STR_EMPTY);
		struct digest key = digest_number(i);

		review_cache_put(&c, &key, a, 0, 10);
		assert_in_range(c.bytes, 1, LIMIT_ACCESS_CACHE_BYTES);
	}
	assert_in_range(c.entries.count, 1, 4);
	assert_int_equal(get(&c, 19, 0), REVIEW_YES);
}

static void
the_old_go_when_others_come(void **state UNUSED)
{
	CLEANUP(review_cache_fini) struct review_cache c = REVIEW_CACHE_INIT;

	for (size_t i = 0; i < 100; i++)
		put(&c, i, i % 2 ? REVIEW_YES : REVIEW_NO, 0, 10);
	put(&c, 100, REVIEW_YES, 20, 30);
	assert_int_equal(c.entries.count, 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gives_what_was_put_until_it_is_old),
		cmocka_unit_test(a_yes_is_stale_for_as_long_as_it_was_good),
		cmocka_unit_test(a_no_replaces_a_stale_yes),
		cmocka_unit_test(a_time_to_live_of_nothing_keeps_nothing),
		cmocka_unit_test(a_new_answer_replaces_the_old),
		cmocka_unit_test(the_one_not_used_for_longest_goes),
		cmocka_unit_test(large_answers_leave_less_room),
		cmocka_unit_test(the_old_go_when_others_come),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
