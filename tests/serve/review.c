#include "serve/review.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"
#include "kube/fake_http.h"

#define TOKEN_REVIEW(status) "{\"kind\":\"TokenReview\",\"status\":" status "}"
#define RIGHTS(status) "{\"kind\":\"SubjectAccessReview\",\"status\":" status "}"

static void
assert_str(struct str s, const char *expected)
{
	if (!str_eq_c(s, expected))
		fail_msg("\"%.*s\" instead of \"%s\"", STR_ARG(s), expected);
}

static struct access_user *
user_with_everything(void)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct access_draft d = ACCESS_DRAFT_INIT(&arena);
	struct access_user *user;
	struct error err;

	access_draft_name(&d, STR("ja\"ne"));
	access_draft_uid(&d, STR("u-1"));
	access_draft_group(&d, STR("dev"));
	access_draft_extra(&d, STR("a"), STR("1"));
	access_draft_extra(&d, STR("b"), STR("2"));
	access_draft_extra(&d, STR("a"), STR("3"));
	assert_true(access_user_new(&d, &user, &err));
	return user;
}

/* ---- what is asked ---- */

static void
a_token_is_one_string(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1000);

	(void)state;
	review_add_token(&b, STR("a\"b"));
	assert_str(buf_str(&b), "{\"apiVersion\":\"authentication.k8s.io/v1\","
	                        "\"kind\":\"TokenReview\",\"spec\":{\"token\":\"a\\\"b\"}}");
}

static void
rights_name_all_of_the_user(void **state)
{
	CLEANUP(access_user_unrefp) struct access_user *user = user_with_everything();
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1000);

	(void)state;
	review_add_rights(&b, user, STR("get"), STR("/metrics"));
	assert_str(buf_str(&b),
	           "{\"apiVersion\":\"authorization.k8s.io/v1\",\"kind\":\"SubjectAccessReview\","
	           "\"spec\":{\"user\":\"ja\\\"ne\",\"uid\":\"u-1\","
	           "\"groups\":[\"dev\",\"system:authenticated\"],"
	           "\"extra\":{\"a\":[\"1\",\"3\"],\"b\":[\"2\"]},"
	           "\"nonResourceAttributes\":{\"path\":\"/metrics\",\"verb\":\"get\"}}}");
}

static void
rights_of_a_user_without_groups_and_extras(void **state)
{
	CLEANUP(access_user_unrefp) struct access_user *user = access_user_anonymous();
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1000);

	(void)state;
	review_add_rights(&b, user, STR("get"), STR("/"));
	assert_str(
		buf_str(&b),
		"{\"apiVersion\":\"authorization.k8s.io/v1\",\"kind\":\"SubjectAccessReview\","
		"\"spec\":{\"user\":\"system:anonymous\",\"groups\":[\"system:unauthenticated\"],"
		"\"nonResourceAttributes\":{\"path\":\"/\",\"verb\":\"get\"}}}");
}

/* ---- what is answered ---- */

static struct review_answer *
token_answer(const char *body)
{
	struct review_answer *answer;
	struct error err;

	if (!review_read_token(str_c(body), &answer, &err))
		fail_msg("%s", err.msg);
	return answer;
}

static void
a_user_is_read(void **state)
{
	CLEANUP(review_answer_unrefp)
	struct review_answer *a = token_answer(TOKEN_REVIEW(
		"{\"authenticated\":true,\"user\":{\"username\":\"jane\",\"uid\":\"u\","
		"\"groups\":[\"dev\",\"system:authenticated\"],"
		"\"extra\":{\"k\":[\"1\",\"2\"],\"none\":null,\"empty\":[]}}}"));

	(void)state;
	assert_int_equal(a->verdict, REVIEW_YES);
	assert_str(a->user->name, "jane");
	assert_str(a->user->uid, "u");
	assert_int_equal(a->user->n_groups, 2);
	assert_int_equal(a->user->n_extras, 2);
	assert_str(a->user->extras[1].value, "2");
}

static void
an_unknown_token_is_no(void **state)
{
	static const char *const bodies[] = {
		TOKEN_REVIEW("{}"),
		TOKEN_REVIEW("{\"user\":{}}"),
		TOKEN_REVIEW("{\"authenticated\":null}"),
		TOKEN_REVIEW("{\"authenticated\":false,\"user\":{\"username\":\"jane\"}}"),
		TOKEN_REVIEW("{\"user\":{\"username\":7},\"error\":\"invalid bearer token\"}"),
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		CLEANUP(review_answer_unrefp) struct review_answer *a = token_answer(bodies[i]);

		assert_int_equal(a->verdict, REVIEW_NO);
		assert_null(a->user);
	}
}

static void
hostile_token_answers_are_errors(void **state)
{
	static const char *const bodies[] = {
		"",
		"x",
		"[]",
		"null",
		"{}",
		"{\"status\":{\"authenticated\":true,\"user\":{\"username\":\"a\"}}}",
		"{\"kind\":\"Pod\",\"status\":{\"authenticated\":true,\"user\":{\"username\":\"a\"}}}",
		"{\"kind\":\"TokenReview\"}",
		TOKEN_REVIEW("null"),
		TOKEN_REVIEW("[]"),
		TOKEN_REVIEW("true"),
		TOKEN_REVIEW("{\"authenticated\":\"true\"}"),
		TOKEN_REVIEW("{\"authenticated\":1,\"user\":{\"username\":\"a\"}}"),
		TOKEN_REVIEW("{\"authenticated\":true}"),
		TOKEN_REVIEW("{\"authenticated\":true,\"user\":{}}"),
		TOKEN_REVIEW("{\"authenticated\":true,\"user\":\"jane\"}"),
		TOKEN_REVIEW("{\"authenticated\":true,\"user\":{\"username\":\"\"}}"),
		TOKEN_REVIEW("{\"authenticated\":true,\"user\":{\"username\":[\"a\"]}}"),
		TOKEN_REVIEW("{\"authenticated\":true,\"user\":{\"username\":\"a\",\"uid\":1}}"),
		TOKEN_REVIEW(
			"{\"authenticated\":true,\"user\":{\"username\":\"a\",\"groups\":\"b\"}}"),
		TOKEN_REVIEW(
			"{\"authenticated\":true,\"user\":{\"username\":\"a\",\"groups\":[1]}}"),
		TOKEN_REVIEW(
			"{\"authenticated\":true,\"user\":{\"username\":\"a\",\"groups\":[null]}}"),
		TOKEN_REVIEW("{\"authenticated\":true,\"user\":{\"username\":\"a\",\"extra\":[]}}"),
		TOKEN_REVIEW(
			"{\"authenticated\":true,\"user\":{\"username\":\"a\",\"extra\":{\"k\":\"v\"}}}"),
		TOKEN_REVIEW(
			"{\"authenticated\":true,\"user\":{\"username\":\"a\",\"extra\":{\"k\":[{}]}}}"),
		TOKEN_REVIEW("{\"error\":{}}"),
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		struct review_answer *a = NULL;
		struct error err = { .code = ERR_NONE };

		assert_false(review_read_token(str_c(bodies[i]), &a, &err));
		assert_int_equal(err.code, ERR_INVALID);
		assert_null(a);
	}
}

static void
huge_groups_are_an_error(void **state)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(MIB(4));
	struct review_answer *a = NULL;
	struct error err;

	(void)state;
	buf_add_c(&body, "{\"kind\":\"TokenReview\",\"status\":{\"authenticated\":true,"
	                 "\"user\":{\"username\":\"a\",\"groups\":[\"\"");
	for (size_t i = 0; i < LIMIT_USER_BYTES / sizeof(struct label); i++)
		buf_add_c(&body, ",\"\"");
	buf_add_c(&body, "]}}}");
	assert_false(review_read_token(buf_str(&body), &a, &err));
	assert_int_equal(err.code, ERR_INVALID);
	assert_non_null(strstr(err.msg, "too many groups"));
}

static void
rights_are_allowed_and_not_denied(void **state)
{
	static const struct {
		const char *body;
		int verdict;
	} cases[] = {
		{ RIGHTS("{\"allowed\":true}"), REVIEW_YES },
		{ RIGHTS("{\"allowed\":true,\"denied\":false}"), REVIEW_YES },
		{ RIGHTS("{\"allowed\":true,\"denied\":true}"), REVIEW_NO },
		{ RIGHTS("{\"allowed\":false}"), REVIEW_NO },
		{ RIGHTS("{\"denied\":true}"), REVIEW_NO },
		{ RIGHTS("{}"), REVIEW_NO },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		CLEANUP(review_answer_unrefp) struct review_answer *a = NULL;
		struct error err;

		assert_true(review_read_rights(str_c(cases[i].body), &a, &err));
		assert_int_equal(a->verdict, cases[i].verdict);
	}
}

static void
hostile_rights_are_errors(void **state)
{
	static const char *const bodies[] = {
		"{\"status\":{\"allowed\":true}}",
		TOKEN_REVIEW("{\"allowed\":true}"),
		RIGHTS("null"),
		RIGHTS("{\"allowed\":\"yes\"}"),
		RIGHTS("{\"allowed\":1}"),
		RIGHTS("{\"allowed\":true,\"denied\":\"no\"}"),
		RIGHTS("{\"allowed\":true,\"denied\":0}"),
		RIGHTS("{\"allowed\":true,\"reason\":[]}"),
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		struct review_answer *a = NULL;
		struct error err;

		assert_false(review_read_rights(str_c(bodies[i]), &a, &err));
		assert_int_equal(err.code, ERR_INVALID);
		assert_null(a);
	}
}

static void
a_long_reason_is_cut(void **state)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(KIB(2));
	CLEANUP(review_answer_unrefp) struct review_answer *a = NULL;
	struct error err;

	(void)state;
	buf_add_c(&body, "{\"kind\":\"SubjectAccessReview\",\"status\":{\"reason\":\"");
	for (int i = 0; i < 300; i++)
		buf_add_c(&body, "ä");
	buf_add_c(&body, "\"}}");
	assert_true(review_read_rights(buf_str(&body), &a, &err));
	assert_int_equal(strlen(a->reason), 198);
}

/* ---- asking ---- */

static void
a_token_is_sent_and_its_answer_read(void **state)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	CLEANUP(review_answer_unrefp) struct review_answer *a = NULL;
	CLEANUP(secret_fini) struct secret token = SECRET_NONE;
	struct fake_http *http = fake_http_new();
	struct kube_client client = { .http = fake_http_client(http), .clock = &clock_real };
	struct call call = { .clock = &clock_real,
		             .deadline_mono_ns = CLOCK_FOREVER,
		             .arena = &arena };
	struct error err;

	(void)state;
	secret_set(&token, STR("abc"));
	fake_http_answer(http, 201,
	                 TOKEN_REVIEW("{\"authenticated\":true,\"user\":{\"username\":\"a\"}}"));
	assert_true(review_token(&client, &call, &token, &a, &err));
	assert_int_equal(a->verdict, REVIEW_YES);
	assert_string_equal(fake_http_request(http, 0)->target,
	                    "/apis/authentication.k8s.io/v1/tokenreviews");
	assert_non_null(strstr(fake_http_request(http, 0)->body, "{\"token\":\"abc\"}"));
	assert_false(fake_http_request(http, 0)->can_replay);
	assert_int_equal(arena.total, 0);
	fake_http_free(http);
}

/* ---- the cache ---- */

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
answers_are_cached_until_they_expire(void **state)
{
	CLEANUP(review_cache_fini) struct review_cache c = REVIEW_CACHE_INIT(c);

	(void)state;
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
a_yes_is_stale_for_as_long_as_it_was_good(void **state)
{
	CLEANUP(review_cache_fini) struct review_cache c = REVIEW_CACHE_INIT(c);

	(void)state;
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
a_no_replaces_a_stale_yes(void **state)
{
	CLEANUP(review_cache_fini) struct review_cache c = REVIEW_CACHE_INIT(c);

	(void)state;
	put(&c, 1, REVIEW_YES, 10, 15);
	put(&c, 1, REVIEW_NO, 16, 21);
	assert_int_equal(get(&c, 1, 17), REVIEW_NO);
	assert_int_equal(get(&c, 1, 21), -1);
}

static void
with_a_time_to_live_of_0_nothing_is_cached(void **state)
{
	CLEANUP(review_cache_fini) struct review_cache c = REVIEW_CACHE_INIT(c);

	(void)state;
	put(&c, 1, REVIEW_YES, 5, 5);
	assert_int_equal(c.entries.count, 0);
	put(&c, 1, REVIEW_YES, 5, 6);
	put(&c, 1, REVIEW_NO, 5, 5);
	assert_int_equal(get(&c, 1, 5), -1);
}

static void
a_new_answer_replaces_the_old(void **state)
{
	CLEANUP(review_cache_fini) struct review_cache c = REVIEW_CACHE_INIT(c);

	(void)state;
	put(&c, 1, REVIEW_YES, 0, 10);
	put(&c, 1, REVIEW_NO, 0, 10);
	assert_int_equal(get(&c, 1, 0), REVIEW_NO);
	assert_int_equal(c.entries.count, 1);
}

static void
the_least_recently_used_answer_is_removed(void **state)
{
	CLEANUP(review_cache_fini) struct review_cache c = REVIEW_CACHE_INIT(c);
	size_t most = 0;

	(void)state;
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
the_cache_is_bounded_by_size(void **state)
{
	CLEANUP(review_cache_fini) struct review_cache c = REVIEW_CACHE_INIT(c);

	(void)state;
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
expired_answers_are_removed_when_others_are_added(void **state)
{
	CLEANUP(review_cache_fini) struct review_cache c = REVIEW_CACHE_INIT(c);

	(void)state;
	for (size_t i = 0; i < 100; i++)
		put(&c, i, i % 2 ? REVIEW_YES : REVIEW_NO, 0, 10);
	put(&c, 100, REVIEW_YES, 20, 30);
	assert_int_equal(c.entries.count, 1);
}

/* ---- keyed hashes ---- */

/* RFC 4231, test case 1; its key is padded with zeros to the block by HMAC itself. */
static void
is_hmac_sha256(void **state)
{
	static const unsigned char expected[] = {
		0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53, 0x5c, 0xa8, 0xaf,
		0xce, 0xaf, 0x0b, 0xf1, 0x2b, 0x88, 0x1d, 0xc2, 0x00, 0xc9, 0x83,
		0x3d, 0xa7, 0x26, 0xe9, 0x37, 0x6c, 0x2e, 0x32, 0xcf, 0xf7,
	};
	struct digest_key key = { { 0 } };
	struct digest d;

	(void)state;
	memset(key.bytes, 0x0b, 20);
	d = digest_of(&key, STR("Hi There"));
	assert_memory_equal(d.bytes, expected, sizeof(expected));
}

static void
depends_on_key_and_text(void **state)
{
	struct digest_key one, two;
	struct digest a, b, c;

	(void)state;
	digest_key_init(&one);
	digest_key_init(&two);
	assert_memory_not_equal(one.bytes, two.bytes, sizeof(one.bytes));
	a = digest_of(&one, STR("a"));
	b = digest_of(&one, STR("b"));
	c = digest_of(&two, STR("a"));
	assert_false(str_eq(digest_str(&a), digest_str(&b)));
	assert_false(str_eq(digest_str(&a), digest_str(&c)));
	b = digest_of(&one, STR("a"));
	assert_true(str_eq(digest_str(&a), digest_str(&b)));
	digest_key_fini(&one);
	assert_int_equal(one.bytes[0] | one.bytes[DIGEST_SIZE - 1], 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_token_is_one_string),
		cmocka_unit_test(rights_name_all_of_the_user),
		cmocka_unit_test(rights_of_a_user_without_groups_and_extras),
		cmocka_unit_test(a_user_is_read),
		cmocka_unit_test(an_unknown_token_is_no),
		cmocka_unit_test(hostile_token_answers_are_errors),
		cmocka_unit_test(huge_groups_are_an_error),
		cmocka_unit_test(rights_are_allowed_and_not_denied),
		cmocka_unit_test(hostile_rights_are_errors),
		cmocka_unit_test(a_long_reason_is_cut),
		cmocka_unit_test(a_token_is_sent_and_its_answer_read),
		cmocka_unit_test(answers_are_cached_until_they_expire),
		cmocka_unit_test(a_yes_is_stale_for_as_long_as_it_was_good),
		cmocka_unit_test(a_no_replaces_a_stale_yes),
		cmocka_unit_test(with_a_time_to_live_of_0_nothing_is_cached),
		cmocka_unit_test(a_new_answer_replaces_the_old),
		cmocka_unit_test(the_least_recently_used_answer_is_removed),
		cmocka_unit_test(the_cache_is_bounded_by_size),
		cmocka_unit_test(expired_answers_are_removed_when_others_are_added),
		cmocka_unit_test(is_hmac_sha256),
		cmocka_unit_test(depends_on_key_and_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
