/* From a request to an outcome: the server is fake, the API server scripted, the clock ours. */
#include "serve/access.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"
#include "kube/fake_http.h"
#include "serve/fake_server.h"
#include "fake_clock.h"

#define MAP                                                                                                    \
	"{\"kind\":\"ConfigMap\",\"data\":{\"client-ca-file\":\"CA client\",\"requestheader-client-ca-file\":" \
	"\"CA front\",\"requestheader-username-headers\":\"[\\\"X-Remote-User\\\"]\"}}"
#define YES_TOKEN                                                       \
	"{\"kind\":\"TokenReview\",\"status\":{\"authenticated\":true," \
	"\"user\":{\"username\":\"jane\"}}}"
#define NO_TOKEN "{\"kind\":\"TokenReview\",\"status\":{\"error\":\"invalid\"}}"
#define YES_RIGHTS "{\"kind\":\"SubjectAccessReview\",\"status\":{\"allowed\":true}}"
#define NO_RIGHTS "{\"kind\":\"SubjectAccessReview\",\"status\":{\"allowed\":false}}"

#define TTL_NS (10 * NS_PER_SEC)

static struct str allow_paths[] = { { "/healthz", 8 } };

struct fixture {
	struct fake_clock *clock;
	struct fake_http *http;
	struct kube_client client;
	struct access_config config;
	struct access *access;

	int n_answers;
	enum access_outcome outcome;
	char message[200];
};

static int
set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->clock = fake_clock_new(NS_PER_SEC);
	f->http = fake_http_new();
	f->client = (struct kube_client){ .http = fake_http_client(f->http),
		                          .clock = fake_clock_clock(f->clock) };
	f->config = (struct access_config){ .authentication = &f->client,
		                            .authorization = &f->client,
		                            .clock = fake_clock_clock(f->clock),
		                            .token_ttl_ns = TTL_NS,
		                            .authorized_ttl_ns = TTL_NS,
		                            .unauthorized_ttl_ns = TTL_NS,
		                            .client_ca_file = STR_EMPTY,
		                            .allow_paths = { allow_paths, 1 } };
	*state = f;
	return 0;
}

static int
tear_down(void **state)
{
	struct fixture *f = *state;

	access_free(f->access);
	fake_http_free(f->http);
	fake_clock_free(f->clock);
	free(f);
	return 0;
}

static void
open_access(struct fixture *f)
{
	struct error err;

	if (f->config.authentication)
		fake_http_answer(f->http, 200, MAP);
	if (!access_new(&f->config, &f->access, &err))
		fail_msg("%s", err.msg);
}

static void
on_done(void *arg, struct server_request *request, enum access_outcome outcome, struct str message)
{
	struct fixture *f = arg;
	struct buf text = { 0 };

	assert_non_null(request);
	memset(f->message, 0, sizeof(f->message));
	text = (struct buf)BUF_FIXED(f->message);
	buf_add_str(&text, message);
	f->outcome = outcome;
	f->n_answers++;
}

/* Asks, and lets the thread do its work. */
static enum access_outcome
check(struct fixture *f, struct server_request request)
{
	int n_before;

	fake_clock_settle(f->clock, 1);
	n_before = f->n_answers;
	access_check(f->access, &request, on_done, f);
	fake_clock_settle(f->clock, 1);
	assert_int_equal(f->n_answers, n_before + 1);
	return f->outcome;
}

static struct server_request
get(const char *path)
{
	return (struct server_request){ .method = SERVER_GET, .path = path };
}

static struct server_request
get_with_token(const char *path)
{
	return (struct server_request){ .method = SERVER_GET,
		                        .path = path,
		                        .headers = { { "Authorization", "Bearer abc" } } };
}

static void
healthz_is_open(void **state)
{
	struct fixture *f = *state;

	open_access(f);
	assert_int_equal(check(f, get("/healthz")), ACCESS_ALLOWED);
	assert_int_equal(fake_http_count(f->http), 1);
}

static void
anonymous_is_asked_about(void **state)
{
	struct fixture *f = *state;

	open_access(f);
	fake_http_answer(f->http, 201, NO_RIGHTS);
	assert_int_equal(check(f, get("/metrics")), ACCESS_FORBIDDEN);
	assert_string_equal(f->message,
	                    "forbidden: User \"system:anonymous\" cannot get path \"/metrics\"");
	assert_non_null(strstr(fake_http_request(f->http, 1)->body,
	                       "\"groups\":[\"system:unauthenticated\"]"));
}

static void
a_token_is_reviewed_then_rights(void **state)
{
	struct fixture *f = *state;

	open_access(f);
	fake_http_answer(f->http, 201, YES_TOKEN);
	fake_http_answer(f->http, 201, YES_RIGHTS);
	assert_int_equal(check(f, get_with_token("/metrics")), ACCESS_ALLOWED);
	assert_non_null(strstr(fake_http_request(f->http, 2)->body, "\"user\":\"jane\""));
	assert_non_null(strstr(fake_http_request(f->http, 2)->body,
	                       "\"groups\":[\"system:authenticated\"]"));
	assert_int_equal(check(f, get_with_token("/metrics")), ACCESS_ALLOWED);
	assert_int_equal(fake_http_count(f->http), 3);
}

static void
a_bad_token_is_refused_even_where_all_may_go(void **state)
{
	struct fixture *f = *state;

	open_access(f);
	fake_http_answer(f->http, 201, NO_TOKEN);
	assert_int_equal(check(f, get_with_token("/healthz")), ACCESS_UNAUTHORIZED);
	assert_string_equal(f->message, "Unauthorized");
}

static void
outside_of_a_cluster_tokens_mean_nothing(void **state)
{
	struct fixture *f = *state;

	f->config.authentication = f->config.authorization = NULL;
	open_access(f);
	assert_int_equal(check(f, get_with_token("/healthz")), ACCESS_ALLOWED);
	assert_int_equal(check(f, get_with_token("/metrics")), ACCESS_FORBIDDEN);
	assert_int_equal(fake_http_count(f->http), 0);
}

/* The token is a credential of the caller, and anyone who can read the connection could use it. */
static void
a_token_is_not_sent_over_plain_http(void **state)
{
	struct fixture *f = *state;

	f->client.is_plain = true;
	open_access(f);
	assert_int_equal(fake_http_count(f->http), 1); /* the ConfigMap */
	assert_int_equal(check(f, get_with_token("/healthz")), ACCESS_ALLOWED);
	assert_int_equal(fake_http_count(f->http), 1);
}

static void
masters_by_certificate(void **state)
{
	struct fixture *f = *state;
	struct server_request request = get("/metrics");

	open_access(f);
	request.issuer = "client";
	request.common_name = "admin";
	request.organization = "system:masters";
	assert_int_equal(check(f, request), ACCESS_ALLOWED);
	assert_int_equal(fake_http_count(f->http), 1);
}

/* Headers of front proxies are ignored, even with the names of the ConfigMap and a front proxy's
 * certificate. */
static void
headers_say_nothing_about_the_caller(void **state)
{
	struct fixture *f = *state;
	struct server_request request = get("/metrics");

	open_access(f);
	request.headers[0] = (struct fake_header){ "X-Remote-User", "root" };
	request.headers[1] = (struct fake_header){ "X-Remote-Group", "system:masters" };
	fake_http_answer(f->http, 201, NO_RIGHTS);
	assert_int_equal(check(f, request), ACCESS_FORBIDDEN);
	assert_non_null(strstr(f->message, "system:anonymous"));
	request.issuer = "client";
	request.common_name = "proxy";
	assert_int_equal(check(f, request), ACCESS_FORBIDDEN);
	assert_non_null(strstr(f->message, "\"proxy\""));
	request.issuer = "front";
	assert_int_equal(check(f, request), ACCESS_UNAUTHORIZED);
}

static void
a_changed_authority_is_noticed_when_it_is_missed(void **state)
{
	struct fixture *f = *state;
	struct server_request request = get("/metrics");

	open_access(f);
	fake_http_answer(f->http, 200,
	                 "{\"kind\":\"ConfigMap\",\"data\":{\"client-ca-file\":\"CA new\"}}");
	request.issuer = "new";
	request.common_name = "admin";
	request.organization = "system:masters";
	assert_int_equal(check(f, request), ACCESS_UNAUTHORIZED);
	assert_int_equal(check(f, request), ACCESS_ALLOWED);
	request.issuer = "other";
	for (int i = 0; i < 5; i++)
		assert_int_equal(check(f, request), ACCESS_UNAUTHORIZED);
	assert_int_equal(fake_http_count(f->http), 2);
}

static void
without_an_api_server_it_closes_when_answers_grow_old(void **state)
{
	struct fixture *f = *state;

	open_access(f);
	fake_http_answer(f->http, 201, YES_TOKEN);
	fake_http_answer(f->http, 201, YES_RIGHTS);
	fake_http_answer(f->http, 403, "");
	assert_int_equal(check(f, get_with_token("/metrics")), ACCESS_ALLOWED);
	fake_clock_advance(f->clock, TTL_NS - 1);
	assert_int_equal(check(f, get_with_token("/metrics")), ACCESS_ALLOWED);
	fake_clock_advance(f->clock, TTL_NS);
	assert_int_equal(check(f, get_with_token("/metrics")), ACCESS_ALLOWED);
	fake_clock_advance(f->clock, 1);
	assert_int_equal(check(f, get_with_token("/metrics")), ACCESS_UNAUTHORIZED);
	assert_int_equal(check(f, get("/metrics")), ACCESS_FORBIDDEN);
	assert_int_equal(check(f, get("/healthz")), ACCESS_ALLOWED);
}

static void
verbs_are_those_of_http(void **state)
{
	static const struct {
		enum server_method method;
		const char *verb;
	} cases[] = {
		{ SERVER_HEAD, "\"verb\":\"head\"" },   { SERVER_POST, "\"verb\":\"post\"" },
		{ SERVER_PUT, "\"verb\":\"put\"" },     { SERVER_DELETE, "\"verb\":\"delete\"" },
		{ SERVER_OTHER, "\"verb\":\"other\"" },
	};
	struct fixture *f = *state;

	open_access(f);
	fake_http_answer(f->http, 201, NO_RIGHTS);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct server_request request = { .method = cases[i].method, .path = "/x" };

		assert_int_equal(check(f, request), ACCESS_FORBIDDEN);
		assert_non_null(strstr(fake_http_request(f->http, i + 1)->body, cases[i].verb));
	}
}

static void
callers_that_wait_at_the_end_are_refused(void **state)
{
	struct fixture *f = *state;
	struct server_request request = get_with_token("/metrics");

	open_access(f);
	fake_clock_settle(f->clock, 1);
	fake_http_add(f->http, (struct fake_answer){ .hangs = true });
	access_check(f->access, &request, on_done, f);
	fake_http_wait(f->http, 2);
	assert_int_equal(f->n_answers, 0);
	access_free(TAKE(f->access));
	assert_int_equal(f->n_answers, 1);
	assert_int_equal(f->outcome, ACCESS_UNAUTHORIZED);
}

static void
a_wrong_path_is_refused_at_the_start(void **state)
{
	struct fixture *f = *state;
	struct str wrong = STR("/a*b");
	struct error err;

	f->config.allow_paths.items = &wrong;
	assert_false(access_new(&f->config, &f->access, &err));
	assert_int_equal(err.code, ERR_INVALID);
}

/* ---- rules: every combination of what a caller can show, against rules written down here once
 * more, in another way ---- */

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

/* ---- the whole table ---- */

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
every_combination(void **state)
{
	(void)state;
	for (int i = 0; i < N_CLIENTS * N_AUTHS * 2; i++) {
		struct combination c = {
			.client = (enum client)(i / 2 % N_CLIENTS),
			.auth = (enum authorization)(i / 2 / N_CLIENTS),
			.can_review = i & 1,
		};

		check_combination(&c);
	}
}

/* ---- who they are ---- */

static void
anonymous_is_not_authenticated(void **state)
{
	CLEANUP(access_user_unrefp) struct access_user *user = known_user(none());

	(void)state;
	assert_str(user->name, "system:anonymous");
	assert_int_equal(user->n_groups, 1);
	assert_str(user->groups[0], "system:unauthenticated");
}

static void
organizations_are_groups(void **state)
{
	struct str groups[] = { STR("dev"), STR("ops") };
	struct access_proof client = good("jane");
	CLEANUP(access_user_unrefp) struct access_user *user = NULL;

	(void)state;
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
an_unauthenticated_user_stays_so(void **state)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct access_draft d = ACCESS_DRAFT_INIT(&arena);
	CLEANUP(access_user_unrefp) struct access_user *user = NULL;
	struct error err;

	(void)state;
	access_draft_name(&d, STR("system:anonymous"));
	access_draft_group(&d, STR("system:unauthenticated"));
	assert_true(access_user_new(&d, &user, &err));
	assert_false(access_user_is_in(user, "system:authenticated"));
}

/* Otherwise the caller would have fewer groups than the certificate. */
static void
too_many_groups_are_refused(void **state)
{
	static struct str groups[LIMIT_USER_BYTES / sizeof(struct str)];
	struct access_proof client = good("jane");
	struct access_user *user;
	struct str token;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(groups); i++)
		groups[i] = STR("many");
	client.peer.organizations = groups;
	client.peer.n_organizations = ARRAY_LEN(groups);
	assert_int_equal(access_identify(&client, STR_EMPTY, true, &user, &token), ACCESS_REFUSED);
}

static void
extras_are_bounded(void **state)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct access_draft d = ACCESS_DRAFT_INIT(&arena);
	struct access_user *user;
	struct error err;

	(void)state;
	access_draft_name(&d, STR("jane"));
	for (int i = 0; i < LIMIT_USER_EXTRAS; i++)
		access_draft_extra(&d, STR("k"), STR("v"));
	assert_false(d.is_over);
	access_draft_extra(&d, STR("k"), STR("v"));
	assert_false(access_user_new(&d, &user, &err));
	assert_int_equal(err.code, ERR_INVALID);
}

static void
tokens_are_found(void **state)
{
	static const struct {
		const char *header, *token;
	} cases[] = {
		{ "Bearer abc", "abc" },     { "bearer abc", "abc" }, { "  BEARER abc  ", "abc" },
		{ "Bearer abc def", "abc" }, { "Bearer", "" },        { "Bearer  abc", "" },
		{ "Bearerabc", "" },         { "Negotiate abc", "" }, { "", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct access_proof client = none();
		CLEANUP(access_user_unrefp) struct access_user *user = NULL;
		struct str token = STR_EMPTY;

		(void)access_identify(&client, str_c(cases[i].header), true, &user, &token);
		assert_str(token, cases[i].token);
	}
}

/* ---- rights ---- */

static bool
is_free(const char *path, const char *pattern)
{
	CLEANUP(access_user_unrefp) struct access_user *user = access_user_anonymous();
	struct str item = str_c(pattern);

	return access_is_free(user, str_c(path), (struct str_list){ &item, 1 });
}

static void
paths_that_are_always_allowed(void **state)
{
	(void)state;
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
masters_are_allowed_everything(void **state)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct access_draft d = ACCESS_DRAFT_INIT(&arena);
	CLEANUP(access_user_unrefp) struct access_user *user = NULL;
	struct error err;

	(void)state;
	access_draft_name(&d, STR("root"));
	access_draft_group(&d, STR("system:masters"));
	assert_true(access_user_new(&d, &user, &err));
	assert_true(access_is_free(user, STR("/metrics"), (struct str_list){ 0 }));
}

static void
refusals_have_the_words_of_kubernetes(void **state)
{
	CLEANUP(access_user_unrefp) struct access_user *user = access_user_anonymous();
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1000);

	(void)state;
	access_add_refusal(&b, user, STR("get"), STR("/metrics"), STR_EMPTY);
	assert_str(buf_str(&b),
	           "forbidden: User \"system:anonymous\" cannot get path \"/metrics\"");
	buf_reset(&b);
	access_add_refusal(&b, user, STR("get"), STR("/\n\"x"), STR("because"));
	assert_str(buf_str(&b),
	           "forbidden: User \"system:anonymous\" cannot get path \"/\\n\\\"x\": because");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(healthz_is_open),
		TEST(anonymous_is_asked_about),
		TEST(a_token_is_reviewed_then_rights),
		TEST(a_bad_token_is_refused_even_where_all_may_go),
		TEST(outside_of_a_cluster_tokens_mean_nothing),
		TEST(a_token_is_not_sent_over_plain_http),
		TEST(masters_by_certificate),
		TEST(headers_say_nothing_about_the_caller),
		TEST(a_changed_authority_is_noticed_when_it_is_missed),
		TEST(without_an_api_server_it_closes_when_answers_grow_old),
		TEST(verbs_are_those_of_http),
		TEST(callers_that_wait_at_the_end_are_refused),
		TEST(a_wrong_path_is_refused_at_the_start),
		cmocka_unit_test(every_combination),
		cmocka_unit_test(anonymous_is_not_authenticated),
		cmocka_unit_test(organizations_are_groups),
		cmocka_unit_test(an_unauthenticated_user_stays_so),
		cmocka_unit_test(too_many_groups_are_refused),
		cmocka_unit_test(extras_are_bounded),
		cmocka_unit_test(tokens_are_found),
		cmocka_unit_test(paths_that_are_always_allowed),
		cmocka_unit_test(masters_are_allowed_everything),
		cmocka_unit_test(refusals_have_the_words_of_kubernetes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
