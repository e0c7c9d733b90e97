/* Every combination of what a caller can show, against rules that are written down here once more, in another way. */
#include "serve/access_decide.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"
#include "serve/fake_server.h"

static struct str proxies[] = { { "front-proxy-client", 18 } };
static struct str username_headers[] = { { "x-remote-user", 13 }, { "x-other-user", 12 } };
static struct str uid_headers[] = { { "x-remote-uid", 12 } };
static struct str group_headers[] = { { "x-remote-group", 14 } };
static struct str extra_prefixes[] = { { "x-remote-extra-", 15 } };

static const struct access_names names = {
	.proxies = { proxies, 1 },
	.username_headers = { username_headers, 2 },
	.uid_headers = { uid_headers, 1 },
	.group_headers = { group_headers, 1 },
	.extra_prefixes = { extra_prefixes, 1 },
};

static bool
get_header(void *arg, const char *name, size_t n, struct str *ret)
{
	return server_request_header(arg, name, n, ret);
}

static bool
next_header(void *arg, const char *prefix, size_t *iterator, struct str *ret_name,
            struct str *ret_value)
{
	return server_request_next_header(arg, prefix, iterator, ret_name, ret_value);
}

static struct access_view
view_of(struct server_request *request)
{
	return (struct access_view){
		.verb = STR("get"),
		.path = STR("/metrics"),
		.headers = { request, get_header, next_header },
	};
}

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

static struct access_user *
known_user(const struct access_view *v, const struct access_names *n)
{
	struct access_user *user = NULL;
	struct str token;

	assert_int_equal(access_identify(v, n, /*can_review=*/true, &user, &token), ACCESS_KNOWN);
	return user;
}

/* --- the whole table ------------------------------------------------------------------------------- */

enum front {
	FRONT_NONE,
	FRONT_BAD,
	FRONT_ALLOWED,
	FRONT_OTHER_NAME,
	N_FRONTS,
};

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
	enum front front;
	enum client client;
	enum authorization auth;
	bool names_user, can_review;
};

static struct access_proof
front_proof(enum front front)
{
	switch (front) {
	case FRONT_BAD:
		return bad();
	case FRONT_ALLOWED:
		return good("front-proxy-client");
	case FRONT_OTHER_NAME:
		return good("somebody");
	default:
		return (struct access_proof){ .verdict = ACCESS_PROOF_NONE };
	}
}

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
		return (struct access_proof){ .verdict = ACCESS_PROOF_NONE };
	}
}

static void
fill_request(const struct combination *c, struct server_request *r)
{
	static const char *const authorizations[] = { NULL, "Bearer abc", "Basic abc", "Bearer  " };
	size_t n = 0;

	*r = (struct server_request){ 0 };
	if (c->names_user)
		r->headers[n++] = (struct fake_header){ "X-Remote-User", "forwarded" };
	if (c->auth != AUTH_NONE)
		r->headers[n++] = (struct fake_header){ "authorization", authorizations[c->auth] };
}

/* Who it must be: the name, "token", or "refused". */
static const char *
expected(const struct combination *c)
{
	bool is_any_wrong = c->front == FRONT_BAD || c->front == FRONT_OTHER_NAME ||
	                    c->client == CLIENT_BAD;

	if (c->front == FRONT_ALLOWED && c->names_user)
		return "forwarded";
	if (c->client == CLIENT_NAMED)
		return "certified";
	if (c->can_review && c->auth == AUTH_TOKEN)
		return "token";
	return is_any_wrong ? "refused" : ACCESS_ANONYMOUS;
}

static void
check_combination(const struct combination *c)
{
	CLEANUP(access_user_unrefp) struct access_user *user = NULL;
	struct server_request request;
	struct access_view view = view_of(&request);
	struct str token = STR_EMPTY;

	fill_request(c, &request);
	view.front = front_proof(c->front);
	view.client = client_proof(c->client);
	switch (access_identify(&view, &names, c->can_review, &user, &token)) {
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
	for (int i = 0; i < N_FRONTS * N_CLIENTS * N_AUTHS * 4; i++) {
		int rest = i / 4;
		struct combination c = {
			.front = (enum front)(rest % N_FRONTS),
			.client = (enum client)(rest / N_FRONTS % N_CLIENTS),
			.auth = (enum authorization)(rest / N_FRONTS / N_CLIENTS),
			.names_user = i & 1,
			.can_review = i & 2,
		};

		check_combination(&c);
	}
}

/* --- who they are ---------------------------------------------------------------------------------- */

static void
anonymous_is_not_authenticated(void **state UNUSED)
{
	struct server_request request = { 0 };
	struct access_view view = view_of(&request);
	CLEANUP(access_user_unrefp) struct access_user *user = known_user(&view, &names);

	assert_str(user->name, "system:anonymous");
	assert_int_equal(user->n_groups, 1);
	assert_str(user->groups[0], "system:unauthenticated");
}

static void
forged_headers_are_nothing(void **state UNUSED)
{
	struct server_request request = { .headers = { { "X-Remote-User", "admin" },
		                                       { "X-Remote-Group", "system:masters" } } };
	struct access_view view = view_of(&request);
	CLEANUP(access_user_unrefp) struct access_user *user = known_user(&view, &names);

	assert_str(user->name, "system:anonymous");
	assert_false(access_user_is_in(user, "system:masters"));
}

static void
a_client_certificate_gives_no_right_to_headers(void **state UNUSED)
{
	struct server_request request = { .headers = { { "X-Remote-User", "admin" },
		                                       { "X-Remote-Group", "system:masters" } } };
	struct access_view view = view_of(&request);
	struct str groups[] = { STR("dev"), STR("ops") };
	CLEANUP(access_user_unrefp) struct access_user *user = NULL;

	view.front = bad();
	view.client = good("jane");
	view.client.peer.organizations = groups;
	view.client.peer.n_organizations = 2;
	user = known_user(&view, &names);
	assert_str(user->name, "jane");
	assert_int_equal(user->n_groups, 3);
	assert_str(user->groups[0], "dev");
	assert_str(user->groups[1], "ops");
	assert_str(user->groups[2], "system:authenticated");
}

static void
a_front_proxy_speaks_for_others(void **state UNUSED)
{
	struct server_request request = {
		.headers = { { "x-other-user", "second" },
		             { "X-REMOTE-USER", "jane" },
		             { "X-Remote-Group", "dev" },
		             { "x-remote-group", "" },
		             { "X-Remote-Group", "ops" },
		             { "X-Remote-Extra-Example.com%2FScope", "a" },
		             { "X-Remote-Uid", "u-1" },
		             { "x-remote-extra-example.com%2fscope", "b" } },
	};
	struct access_view view = view_of(&request);
	CLEANUP(access_user_unrefp) struct access_user *user = NULL;

	view.front = good("front-proxy-client");
	view.client = good("front-proxy-client");
	user = known_user(&view, &names);
	assert_str(user->name, "jane");
	assert_str(user->uid, "u-1");
	assert_int_equal(user->n_groups, 3);
	assert_str(user->groups[0], "dev");
	assert_str(user->groups[1], "ops");
	assert_int_equal(user->n_extras, 2);
	assert_str(user->extras[0].key, "example.com/scope");
	assert_str(user->extras[0].value, "a");
	assert_str(user->extras[1].key, "example.com/scope");
	assert_str(user->extras[1].value, "b");
}

static void
what_cannot_be_decoded_stays(void **state UNUSED)
{
	struct server_request request = { .headers = { { "x-remote-user", "jane" },
		                                       { "x-remote-extra-a%2", "v" },
		                                       { "x-remote-extra-B%zz", "v" },
		                                       { "x-remote-extra-", "v" } } };
	struct access_view view = view_of(&request);
	CLEANUP(access_user_unrefp) struct access_user *user = NULL;

	view.front = good("front-proxy-client");
	user = known_user(&view, &names);
	assert_int_equal(user->n_extras, 3);
	assert_str(user->extras[0].key, "a%2");
	assert_str(user->extras[1].key, "b%zz");
	assert_str(user->extras[2].key, "");
}

static void
no_list_of_proxies_means_any(void **state UNUSED)
{
	struct server_request request = { .headers = { { "x-remote-user", "jane" } } };
	struct access_view view = view_of(&request);
	struct access_names any = names;
	CLEANUP(access_user_unrefp) struct access_user *user = NULL;

	any.proxies = (struct access_list){ 0 };
	view.front = good("whoever");
	user = known_user(&view, &any);
	assert_str(user->name, "jane");
}

static void
forwarded_anonymous_stays_so(void **state UNUSED)
{
	struct server_request request = { .headers = { { "x-remote-user", "system:anonymous" },
		                                       { "x-remote-group",
		                                         "system:unauthenticated" } } };
	struct access_view view = view_of(&request);
	CLEANUP(access_user_unrefp) struct access_user *user = NULL;

	view.front = good("front-proxy-client");
	user = known_user(&view, &names);
	assert_false(access_user_is_in(user, "system:authenticated"));
}

static bool
endless_header(void *arg, const char *name UNUSED, size_t n, struct str *ret)
{
	*ret = str_c(arg);
	return n < LIMIT_USER_BYTES;
}

static bool
no_header(void *arg UNUSED, const char *prefix UNUSED, size_t *iterator UNUSED,
          struct str *ret_name UNUSED, struct str *ret_value UNUSED)
{
	return false;
}

/* Else the proxy's own name would take the place of the one it gives. */
static void
too_many_groups_are_refused(void **state UNUSED)
{
	char text[] = "many";
	struct access_view view = { .headers = { text, endless_header, no_header } };
	struct access_user *user;
	struct str token;

	view.front = good("front-proxy-client");
	view.client = good("front-proxy-client");
	assert_int_equal(access_identify(&view, &names, true, &user, &token), ACCESS_REFUSED);
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
		struct server_request request = { .headers = {
							  { "Authorization", cases[i].header } } };
		struct access_view view = view_of(&request);
		CLEANUP(access_user_unrefp) struct access_user *user = NULL;
		struct str token = STR_EMPTY;

		(void)access_identify(&view, &names, true, &user, &token);
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
		cmocka_unit_test(forged_headers_are_nothing),
		cmocka_unit_test(a_client_certificate_gives_no_right_to_headers),
		cmocka_unit_test(a_front_proxy_speaks_for_others),
		cmocka_unit_test(what_cannot_be_decoded_stays),
		cmocka_unit_test(no_list_of_proxies_means_any),
		cmocka_unit_test(forwarded_anonymous_stays_so),
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
