/* From a request to an outcome: the server is fake, the API server scripted, the clock ours. */
#include "serve/access.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "kube/fake_http.h"
#include "serve/fake_server.h"

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

static const struct str allow_paths[] = { { "/healthz", 8 } };

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
		                            .allow_paths = allow_paths,
		                            .n_allow_paths = 1 };
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

/* Even those that the ConfigMap names for front proxies, and behind a front proxy's certificate. */
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
those_who_wait_at_the_end_are_refused(void **state)
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
a_wrong_path_is_told_at_the_start(void **state)
{
	struct fixture *f = *state;
	struct str wrong = STR("/a*b");
	struct error err;

	f->config.allow_paths = &wrong;
	assert_false(access_new(&f->config, &f->access, &err));
	assert_int_equal(err.code, ERR_INVALID);
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
		TEST(those_who_wait_at_the_end_are_refused),
		TEST(a_wrong_path_is_told_at_the_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
