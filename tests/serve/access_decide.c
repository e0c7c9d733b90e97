/* Every combination of what a caller can show, against rules that are written down here once more, in another way. */
#include "serve/access_decide.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"

static struct access_proof
good(const char *common_name)
{
	return (struct access_proof){ ACCESS_PROOF_GOOD, { .common_name = str_c(common_name) } };
}

static struct access_proof
bad(void)
{
	return (struct access_proof){ .verdict = ACCESS_PROOF_BAD };
}

static void
assert_str(struct str s, const char *expected)
{
	if (!str_eq_c(s, expected))
		fail_msg("\"%.*s\" instead of \"%s\"", STR_ARG(s), expected);
}

static struct access_proof
none(void)
{
	return (struct access_proof){ .verdict = ACCESS_PROOF_NONE };
}

static struct access_user *
known_user(struct access_proof client)
{
	struct access_user *user = NULL;
	struct str token;

	assert_int_equal(access_identify(&client, STR_EMPTY, /*can_review=*/true, &user, &token),
	                 ACCESS_KNOWN);
	return user;
}

/* --- the whole table ------------------------------------------------------------------------------- */

enum client {
	CLIENT_NONE,
	CLIENT_BAD,
	CLIENT_NAMED,
	CLIENT_NAMELESS,
	N_CLIENTS,
};

enum authorization {
	AUTH_NONE,
	AUTH_TOKEN,
	AUTH_BASIC,
	AUTH_EMPTY,
	N_AUTHS,
};

struct combination {
	enum client client;
	enum authorization auth;
	bool can_review;
};

static struct access_proof
client_proof(enum client client)
{
	switch (client) {
	case CLIENT_BAD:
		return bad();
	case CLIENT_NAMED:
		return good("certified");
	case CLIENT_NAMELESS:
		return good("");
	default:
		return none();
	}
}

/* Who it must be: the name, "token", or "refused". */
static const char *
expected(const struct combination *c)
{
	if (c->client == CLIENT_NAMED)
		return "certified";
	if (c->can_review && c->auth == AUTH_TOKEN)
		return "token";
	return c->client == CLIENT_BAD ? "refused" : ACCESS_ANONYMOUS;
}

static void
check_combination(const struct combination *c)
{
	static const char *const authorizations[] = { "", "Bearer abc", "Basic abc", "Bearer  " };
	CLEANUP(access_user_unrefp) struct access_user *user = NULL;
	struct access_proof client = client_proof(c->client);
	struct str token = STR_EMPTY;

	switch (access_identify(&client, str_c(authorizations[c->auth]), c->can_review, &user,
	                        &token)) {
	case ACCESS_KNOWN:
		assert_str(user->name, expected(c));
		return;
	case ACCESS_HAS_TOKEN:
		assert_string_equal(expected(c), "token");
		assert_str(token, "abc");
		return;
	case ACCESS_REFUSED:
		assert_string_equal(expected(c), "refused");
		return;
	}
}

static void
every_combination(void **state UNUSED)
{
	for (int i = 0; i < N_CLIENTS * N_AUTHS * 2; i++) {
		struct combination c = {
			.client = (enum client)(i / 2 % N_CLIENTS),
			.auth = (enum authorization)(i / 2 / N_CLIENTS),
			.can_review = i & 1,
		};

		check_combination(&c);
	}
}

/* --- who they are ---------------------------------------------------------------------------------- */

static void
anonymous_is_not_authenticated(void **state UNUSED)
{
	CLEANUP(access_user_unrefp) struct access_user *user = known_user(none());

	assert_str(user->name, "system:anonymous");
	assert_int_equal(user->n_groups, 1);
	assert_str(user->groups[0], "system:unauthenticated");
}

static void
organizations_are_groups(void **state UNUSED)
{
	struct str groups[] = { STR("dev"), STR("ops") };
	struct access_proof client = good("jane");
	CLEANUP(access_user_unrefp) struct access_user *user = NULL;

	client.peer.organizations = groups;
	client.peer.n_organizations = 2;
	user = known_user(client);
	assert_str(user->name, "jane");
	assert_int_equal(user->n_groups, 3);
	assert_str(user->groups[0], "dev");
	assert_str(user->groups[1], "ops");
	assert_str(user->groups[2], "system:authenticated");
}

static void
an_unauthenticated_user_stays_so(void **state UNUSED)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct access_draft d = ACCESS_DRAFT_INIT(&arena);
	CLEANUP(access_user_unrefp) struct access_user *user = NULL;
	struct error err;

	access_draft_name(&d, STR("system:anonymous"));
	access_draft_group(&d, STR("system:unauthenticated"));
	assert_true(access_user_new(&d, &user, &err));
	assert_false(access_user_is_in(user, "system:authenticated"));
}

/* Else the caller would be somebody with fewer groups than the certificate says. */
static void
too_many_groups_are_refused(void **state UNUSED)
{
	static struct str groups[LIMIT_USER_BYTES / sizeof(struct str)];
	struct access_proof client = good("jane");
	struct access_user *user;
	struct str token;

	for (size_t i = 0; i < ARRAY_LEN(groups); i++)
		groups[i] = STR("many");
	client.peer.organizations = groups;
	client.peer.n_organizations = ARRAY_LEN(groups);
	assert_int_equal(access_identify(&client, STR_EMPTY, true, &user, &token), ACCESS_REFUSED);
}

static void
extras_are_bounded(void **state UNUSED)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct access_draft d = ACCESS_DRAFT_INIT(&arena);
	struct access_user *user;
	struct error err;

	access_draft_name(&d, STR("jane"));
	for (int i = 0; i < LIMIT_USER_EXTRAS; i++)
		access_draft_extra(&d, STR("k"), STR("v"));
	assert_false(d.is_over);
	access_draft_extra(&d, STR("k"), STR("v"));
	assert_false(access_user_new(&d, &user, &err));
	assert_int_equal(err.code, ERR_INVALID);
}

static void
tokens_are_found(void **state UNUSED)
{
	static const struct {
		const char *header, *token;
	} cases[] = {
		{ "Bearer abc", "abc" },     { "bearer abc", "abc" }, { "  BEARER abc  ", "abc" },
		{ "Bearer abc def", "abc" }, { "Bearer", "" },        { "Bearer  abc", "" },
		{ "Bearerabc", "" },         { "Negotiate abc", "" }, { "", "" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct access_proof client = none();
		CLEANUP(access_user_unrefp) struct access_user *user = NULL;
		struct str token = STR_EMPTY;

		(void)access_identify(&client, str_c(cases[i].header), true, &user, &token);
		assert_str(token, cases[i].token);
	}
}

/* --- rights ---------------------------------------------------------------------------------------- */

static bool
is_free(const char *path, const char *pattern)
{
	CLEANUP(access_user_unrefp) struct access_user *user = access_user_anonymous();
	struct str item = str_c(pattern);

	return access_is_free(user, str_c(path), (struct access_list){ &item, 1 });
}

static void
paths_that_are_always_allowed(void **state UNUSED)
{
	assert_true(is_free("/healthz", "/healthz"));
	assert_true(is_free("/healthz", "healthz"));
	assert_false(is_free("/healthz/x", "/healthz"));
	assert_false(is_free("/health", "/healthz"));
	assert_false(is_free("/Healthz", "/healthz"));
	assert_true(is_free("/healthz/x", "/healthz/*"));
	assert_false(is_free("/healthz", "/healthz/*"));
	assert_true(is_free("/healthzy", "/healthz*"));
	assert_true(is_free("/anything/at/all", "*"));
	assert_true(is_free("/anything", "/*"));
	assert_true(is_free("/", "/"));
	assert_true(is_free("/", ""));
	assert_false(is_free("/metrics", "/"));
	assert_false(is_free("//metrics", "/metrics"));
	assert_false(is_free("/metrics/../healthz", "/healthz"));
}

static void
masters_may_everything(void **state UNUSED)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct access_draft d = ACCESS_DRAFT_INIT(&arena);
	CLEANUP(access_user_unrefp) struct access_user *user = NULL;
	struct error err;

	access_draft_name(&d, STR("root"));
	access_draft_group(&d, STR("system:masters"));
	assert_true(access_user_new(&d, &user, &err));
	assert_true(access_is_free(user, STR("/metrics"), (struct access_list){ 0 }));
}

static void
a_star_ends_a_path(void **state UNUSED)
{
	struct str wrong[] = { STR("/healthz"), STR("/a*b") };
	struct str twice = STR("/a**");
	struct error err;

	assert_false(access_paths_check((struct access_list){ wrong, 2 }, &err));
	assert_int_equal(err.code, ERR_INVALID);
	assert_non_null(strstr(err.msg, "/a*b"));
	assert_false(access_paths_check((struct access_list){ &twice, 1 }, &err));
	assert_true(access_paths_check((struct access_list){ wrong, 1 }, &err));
}

static void
refusals_are_worded_as_kubernetes_does(void **state UNUSED)
{
	CLEANUP(access_user_unrefp) struct access_user *user = access_user_anonymous();
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1000);

	access_add_refusal(&b, user, STR("get"), STR("/metrics"), STR_EMPTY);
	assert_str(buf_str(&b),
	           "forbidden: User \"system:anonymous\" cannot get path \"/metrics\"");
	buf_reset(&b);
	access_add_refusal(&b, user, STR("get"), STR("/\n\"x"), STR("because"));
	assert_str(buf_str(&b),
	           "forbidden: User \"system:anonymous\" cannot get path \"/\\n\\\"x\": because");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_combination),
		cmocka_unit_test(anonymous_is_not_authenticated),
		cmocka_unit_test(organizations_are_groups),
		cmocka_unit_test(an_unauthenticated_user_stays_so),
		cmocka_unit_test(too_many_groups_are_refused),
		cmocka_unit_test(extras_are_bounded),
		cmocka_unit_test(tokens_are_found),
		cmocka_unit_test(paths_that_are_always_allowed),
		cmocka_unit_test(masters_may_everything),
		cmocka_unit_test(a_star_ends_a_path),
		cmocka_unit_test(refusals_are_worded_as_kubernetes_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
