/* Requests to the API, and the texts of its errors: sections "Configuration",
 * "Authentication" and "Requests" of docs/spec/brightbox.md. */
#include "providers/brightbox/client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/thread.h"
#include "cloud/fake_host.h"
#include "cloud/http_script.h"
#include "http/loopback.h"
#include "providers/brightbox/token.h"

/* ---- an API that answers from a script ---- */

struct world {
	struct fake_host fake;
	struct http_script script;
	struct bb_client *client;
	struct arena arena;
	struct call call;
	struct error err;
};

static void
open_client(struct world *w, const char *account)
{
	struct bb_config config = {
		.has_user = true,
		.api_url = STR("https://h/"),
		.account = str_c(account),
	};

	bb_client_free(TAKE(w->client));
	assert_true(bb_client_new(&w->fake.host, &config, NULL, &w->client, &w->err));
}

static int
setup(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));

	log_set_fd(-1);
	fake_host_init(&w->fake);
	http_script_init(&w->script);
	w->fake.host.http = &w->script.client;
	w->call = fake_host_call(&w->fake, &w->arena);
	open_client(w, "");
	*state = w;
	return 0;
}

static int
teardown(void **state)
{
	struct world *w = *state;

	bb_client_free(w->client);
	http_script_fini(&w->script);
	fake_host_fini(&w->fake);
	arena_fini(&w->arena);
	free(w);
	return 0;
}

/* The answer to whatever comes next. */
static void
answer(struct world *w, int status, const char *body)
{
	w->script.n_answers = 0;
	http_script_answer(&w->script, "/*", status, body);
}

static const struct change creation = { .request = "POST /cloud_ips",
	                                .body = STR("{\"name\":\"web\"}") };
static const struct change unmapping = { .request = "POST /cloud_ips/{id}/unmap",
	                                 .id = STR("cip-11111") };
static const struct change mapping = { .request = "POST /cloud_ips/{id}/map",
	                               .id = STR("cip-11111"),
	                               .body = STR("{\"destination\":\"lba-11111\"}") };
static const struct change deletion = { .request = "DELETE /load_balancers/{id}",
	                                .id = STR("lba-11111") };

/* A call, its arguments behind client and call, must succeed with that request. */
#define SENDS(w, body, request, function, ...)                                                 \
	do {                                                                                   \
		answer(w, 200, body);                                                          \
		if (!function((w)->client, &(w)->call, __VA_ARGS__ __VA_OPT__(, ) & (w)->err)) \
			fail_msg(#function ": %s", (w)->err.msg);                              \
		http_script_check_asked(&(w)->script, request "\n");                           \
	} while (0)

/* ---- one request for each call ---- */

static void
requests_about_accounts_and_servers(void **state)
{
	struct world *w = *state;
	struct bb_server server, *servers;
	struct str account;
	size_t n;

	SENDS(w, "[{\"id\":\"acc-11111\"},{\"id\":\"acc-22222\"}]", "/accounts", bb_first_account,
	      &account);
	assert_true(str_eq_c(account, "acc-11111"));
	SENDS(w, "{\"id\":\"srv-11111\"}", "/servers/srv-11111", bb_get_server, STR("srv-11111"),
	      &server);
	assert_true(str_eq_c(server.id, "srv-11111"));
	SENDS(w, "[{\"id\":\"srv-11111\"},{\"id\":\"srv-22222\"}]", "/servers", bb_list_servers,
	      &servers, &n);
	assert_int_equal(n, 2);
	assert_true(str_eq_c(servers[1].id, "srv-22222"));
}

static void
requests_about_load_balancers(void **state)
{
	struct world *w = *state;
	struct bb_lb lb, *lbs;
	size_t n;

	SENDS(w, "[{\"id\":\"lba-11111\"}]", "/load_balancers", bb_list_lbs, &lbs, &n);
	assert_true(n == 1 && str_eq_c(lbs[0].id, "lba-11111"));
	SENDS(w, "{\"id\":\"lba-11111\"}", "/load_balancers/lba-11111", bb_get_lb, STR("lba-11111"),
	      &lb);
}

static void
requests_about_cloud_ips(void **state)
{
	struct world *w = *state;
	struct bb_cloud_ip ip, *ips;
	size_t n;

	SENDS(w, "[{\"id\":\"cip-11111\"}]", "/cloud_ips", bb_list_cloud_ips, &ips, &n);
	assert_true(n == 1 && str_eq_c(ips[0].id, "cip-11111"));
	SENDS(w, "{\"id\":\"cip-11111\"}", "/cloud_ips/cip-11111", bb_get_cloud_ip,
	      STR("cip-11111"), &ip);
}

static void
requests_about_server_groups(void **state)
{
	struct world *w = *state;
	struct bb_group *groups;
	size_t n;

	SENDS(w, "[{\"id\":\"grp-11111\"}]", "/server_groups", bb_list_groups, &groups, &n);
	assert_true(n == 1 && str_eq_c(groups[0].id, "grp-11111"));
}

static void
requests_about_the_firewall(void **state)
{
	struct world *w = *state;
	struct bb_policy *policies;
	size_t n;

	SENDS(w, "[{\"id\":\"fwp-11111\"}]", "/firewall_policies", bb_list_policies, &policies, &n);
	assert_true(n == 1 && str_eq_c(policies[0].id, "fwp-11111"));
}

/* ---- URLs ---- */

static void
a_reference_replaces_the_last_segment_of_the_base(void **state)
{
	static const struct {
		const char *base, *root;
	} rows[] = {
		{ "https://h", "https://h/1.0" },
		{ "https://h/", "https://h/1.0" },
		{ "https://h/p/", "https://h/p/1.0" },
		{ "https://h/p", "https://h/1.0" },
		{ "https://h:8443/p/q", "https://h:8443/p/1.0" },
		{ "h", "h/1.0" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(buf_fini) struct buf url = BUF_INIT(KIB(1));

		bb_url_resolve(&url, str_c(rows[i].base), "1.0");
		assert_string_equal(url.ptr, rows[i].root);
	}
}

static void
a_user_names_the_account_in_each_request(void **state)
{
	struct world *w = *state;
	struct bb_lb *lbs;
	struct str id;
	size_t n;

	open_client(w, "acc-1&x");
	SENDS(w, "[]", "/load_balancers?account_id=acc-1%26x", bb_list_lbs, &lbs, &n);
	SENDS(w, "{\"id\":\"cip-11111\"}",
	      "POST /cloud_ips?account_id=acc-1%26x {\"name\":\"web\"}", bb_send, &creation, &id);
	assert_true(str_eq_c(id, "cip-11111"));
	SENDS(w, "{}", "POST /cloud_ips/cip-11111/unmap?account_id=acc-1%26x", bb_send, &unmapping,
	      NULL);
	SENDS(w, "{}", "DELETE /load_balancers/lba-11111?account_id=acc-1%26x", bb_send, &deletion,
	      NULL);
}

/* An id may come from a node's provider ID, which any kubelet writes. */
static void
an_id_cannot_leave_its_place_in_the_url(void **state)
{
	struct world *w = *state;
	struct bb_server server;

	SENDS(w, "{\"id\":\"x\"}", "/servers/..%2Faccounts%3Fa%3D1%23%25", bb_get_server,
	      STR("../accounts?a=1#%"), &server);
}

/* ---- errors ---- */

static bool
get_server(struct world *w)
{
	struct bb_server server;

	return bb_get_server(w->client, &w->call, STR("srv-11111"), &server, &w->err);
}

/* With a client of its own, since failures in a row count as an outage. */
static void
check_failure(struct world *w, int status, const char *body, enum err_code code, const char *msg)
{
	open_client(w, "");
	answer(w, status, body);
	assert_false(get_server(w));
	assert_string_equal(w->err.msg, msg);
	assert_int_equal(w->err.code, code);
}

static void
errors_have_the_texts_of_the_api(void **state)
{
	static const struct {
		int status;
		const char *body, *text;
		enum err_code code;
	} rows[] = {
		{ 401,
		  "{\"error\":\"invalid_token\",\"error_description\":\"The OAuth token can not be "
		  "found\"}",
		  "401 invalid_token, The OAuth token can not be found", ERR_UNAUTHORIZED },
		{ 404, "{\"error_name\":\"missing_resource\",\"errors\":[\"Resource not found\"]}",
		  "404 missing_resource: Resource not found", ERR_NOT_FOUND },
		{ 409,
		  "{\"error_name\":\"resource_conflict\",\"errors\":[\"Unable to action the request "
		  "due to conflicting states\"]}",
		  "409 resource_conflict: Unable to action the request due to conflicting states",
		  ERR_CONFLICT },
		{ 422, "{\"error_name\":\"unprocessable_entity\",\"errors\":[\"a\",\"b\",7]}",
		  "422 unprocessable_entity: a: b", ERR_INVALID },
		{ 403, "{\"error_name\":\"Forbidden\"}", "403 Forbidden", ERR_FORBIDDEN },
		{ 400, "{\"error_name\":\"bad_request\",\"errors\":[]}", "400 bad_request",
		  ERR_INVALID },
		{ 400, "{\"error\":\"e\",\"error_description\":\"d\",\"error_name\":\"n\"}",
		  "400 e, d", ERR_INVALID },
		{ 502, "<html>no</html>", "502 Bad Gateway (the response is not JSON, 15 bytes)",
		  ERR_UNAVAILABLE },
		{ 503, NULL, "503 Service Unavailable", ERR_UNAVAILABLE },
		{ 401, "{}", "401 Unauthorized", ERR_UNAUTHORIZED },
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char msg[200];

		snprintf(msg, sizeof(msg), "GET /servers/srv-11111: %s", rows[i].text);
		check_failure(w, rows[i].status, rows[i].body, rows[i].code, msg);
	}
}

/* A page of a proxy proves nothing about a server. */
static void
only_a_404_of_the_api_means_that_something_is_gone(void **state)
{
	struct world *w = *state;

	check_failure(w, 404, "<html>nginx</html>", ERR_UNAVAILABLE,
	              "GET /servers/srv-11111: 404 Not Found (the response is not JSON, 18 bytes)");
	check_failure(w, 404, "{}", ERR_NOT_FOUND, "GET /servers/srv-11111: 404 Not Found");
	check_failure(w, 410, "{\"error_name\":\"gone\"}", ERR_GONE,
	              "GET /servers/srv-11111: 410 gone");
}

static void
an_answer_that_cannot_be_understood_is_an_error(void **state)
{
	struct world *w = *state;
	struct bb_lb *lbs;
	size_t n;

	check_failure(w, 200, "{\"id\":\"srv-11111\",\"status\":7}", ERR_UNAVAILABLE,
	              "GET /servers/srv-11111: server: status cannot be understood");
	check_failure(w, 200, "[]", ERR_UNAVAILABLE,
	              "GET /servers/srv-11111: a server is not an object");
	check_failure(w, 200, "", ERR_UNAVAILABLE,
	              "GET /servers/srv-11111: a server is not an object");
	answer(w, 200, "{}");
	assert_false(bb_list_lbs(w->client, &w->call, &lbs, &n, &w->err));
	assert_string_equal(w->err.msg, "GET load_balancers: the response is not a list");
	answer(w, 200, "[{\"id\":\"lba-1\"},{\"id\":\"\"}]");
	assert_false(bb_list_lbs(w->client, &w->call, &lbs, &n, &w->err));
	assert_string_equal(w->err.msg, "GET load_balancers: a load balancer has no id");
}

static void
an_answer_with_anything_behind_it_is_an_error(void **state)
{
	struct world *w = *state;

	answer(w, 200, "{\"id\":\"srv-11111\"} {}");
	assert_false(get_server(w));
	assert_int_equal(w->err.code, ERR_UNAVAILABLE);
	answer(w, 200, "{\"id\":\"srv-11111\"");
	assert_false(get_server(w));
	assert_int_equal(w->err.code, ERR_UNAVAILABLE);
}

static void
no_account_is_an_error(void **state)
{
	struct world *w = *state;
	struct str account;

	answer(w, 200, "[]");
	assert_false(bb_first_account(w->client, &w->call, &account, &w->err));
	assert_string_equal(w->err.msg, "no accounts visible to these credentials");
	assert_int_equal(w->err.code, ERR_INVALID);
}

/* ---- an API behind a socket ---- */

/* Its tokens are "t1", "t2", … of which it accepts one. */
struct api {
	struct loopback *server;
	pthread_mutex_t mu;
	unsigned n_tokens;       /* mu; requested so far */
	unsigned accepted;       /* the number of the token */
	const char *status;      /* of all other answers; NULL: 200 */
	const char *headers;     /* of these answers */
	const char *token_error; /* the answer to token requests; NULL: a token */
	struct buf asked;        /* mu; request lines, with the header Authorization */
};

struct online {
	struct fake_host fake;
	struct bb_config config;
	struct bb_token *token;
	struct bb_client *client;
	struct arena arena;
	struct call call;
	struct error err;
	struct api api;
};

/* The value of a header, or an empty text. */
static struct str
header_of(const struct visit *v, const char *name)
{
	struct str key, value;

	for (struct str line, rest = v->head; str_split(&rest, '\n', &line);) {
		if (str_cut(str_trim(line), ':', &key, &value) && str_eq_nocase(key, str_c(name)))
			return str_trim(value);
	}
	return STR_EMPTY;
}

static bool
answer_token(struct visit *v, struct api *api)
{
	char body[100];

	if (!str_starts(header_of(v, "User-Agent"), STR("ccmd/")))
		return visit_reply(v, "400 Bad Request", "", "{\"error\":\"headers\"}");
	api->n_tokens++;
	if (api->token_error)
		return visit_reply(v, "401 Unauthorized", "", api->token_error);
	snprintf(body, sizeof(body), "{\"access_token\":\"t%u\",\"expires_in\":7200}",
	         api->n_tokens);
	return visit_reply(v, "200 OK", "", body);
}

static bool
answer_visit(struct visit *v)
{
	struct api *api = v->arg;
	struct str line = STR_EMPTY, rest = v->head;
	struct str authorization = header_of(v, "Authorization");
	char accepted[32];
	WITH_LOCK(&api->mu);

	(void)str_split(&rest, '\r', &line);
	buf_addf(&api->asked, "%" STR_FMT " %" STR_FMT "\n", STR_ARG(line), STR_ARG(authorization));
	if (str_starts(line, STR("POST /token/ ")))
		return answer_token(v, api);
	snprintf(accepted, sizeof(accepted), "Bearer t%u", api->accepted);
	if (!str_eq_c(authorization, accepted))
		return visit_reply(v, "401 Unauthorized",
		                   "WWW-Authenticate: OAuth error=\"invalid_token\"\r\n",
		                   "{\"error\":\"invalid_token\",\"error_description\":\"no\"}");
	if (!str_eq_c(header_of(v, "Accept"), "application/json") ||
	    (v->body.len > 0 && !str_eq_c(header_of(v, "Content-Type"), "application/json")) ||
	    !str_starts(header_of(v, "User-Agent"), STR("ccmd/")))
		return visit_reply(v, "400 Bad Request", "", "{\"error_name\":\"headers\"}");
	return visit_reply(v, api->status ? api->status : "200 OK",
	                   api->headers ? api->headers : "", "{\"id\":\"x-11111\"}");
}

/* url: behind the host; "/" */
static void
go_online(struct online *o, const char *url, const char *account)
{
	o->api.server = loopback_new(answer_visit, &o->api, NULL);
	o->config.api_url = arena_printf(&o->arena, "http://127.0.0.1:%d%s",
	                                 loopback_port(o->api.server), url);
	assert_true(bb_token_new(&o->fake.host, &o->config, &o->token, &o->err));
	o->config.has_user = account[0];
	o->config.account = str_c(account);
	assert_true(bb_client_new(&o->fake.host, &o->config, bb_token_auth(o->token), &o->client,
	                          &o->err));
	o->config.has_user = false;
}

static int
setup_online(void **state)
{
	struct online *o = xcalloc(1, sizeof(*o));

	log_set_fd(-1);
	fake_host_init(&o->fake);
	o->fake.host.clock = &clock_real;
	login_secret_set(&o->config.client, STR("cli aaaaa"));
	login_secret_set(&o->config.client_secret, STR("s:+%"));
	o->call = (struct call){ .clock = &clock_real,
		                 .deadline_mono_ns = CLOCK_FOREVER,
		                 .arena = &o->arena };
	o->api = (struct api){ .accepted = 1, .asked = BUF_INIT(KIB(16)) };
	mutex_init(&o->api.mu);
	*state = o;
	return 0;
}

static int
teardown_online(void **state)
{
	struct online *o = *state;

	bb_client_free(o->client);
	bb_token_free(o->token);
	loopback_free(o->api.server);
	bb_config_fini(&o->config);
	mutex_destroy(&o->api.mu);
	buf_fini(&o->api.asked);
	fake_host_fini(&o->fake);
	arena_fini(&o->arena);
	free(o);
	return 0;
}

static bool
get_online(struct online *o)
{
	struct bb_server server;

	return bb_get_server(o->client, &o->call, STR("srv-11111"), &server, &o->err);
}

static void
check_online(struct online *o, const char *asked)
{
	struct str seen;

	mutex_lock(&o->api.mu);
	seen = arena_str(&o->arena, buf_str(&o->api.asked));
	buf_reset(&o->api.asked);
	mutex_unlock(&o->api.mu);
	assert_string_equal(seen.ptr, asked);
}

/* "cli+aaaaa:s%3A%2B%25" */
#define TOKEN_REQUEST(path) "POST " path "token/ HTTP/1.1 Basic Y2xpK2FhYWFhOnMlM0ElMkIlMjU=\n"

static void
requests_carry_the_token(void **state)
{
	struct online *o = *state;

	go_online(o, "/", "");
	assert_true(get_online(o));
	assert_true(bb_send(o->client, &o->call, &unmapping, NULL, &o->err));
	assert_true(bb_send(o->client, &o->call, &mapping, NULL, &o->err));
	check_online(o, TOKEN_REQUEST("/") "GET /1.0/servers/srv-11111 HTTP/1.1 Bearer t1\n"
	                                   "POST /1.0/cloud_ips/cip-11111/unmap HTTP/1.1 "
	                                   "Bearer t1\n"
	                                   "POST /1.0/cloud_ips/cip-11111/map HTTP/1.1 "
	                                   "Bearer t1\n");
}

static void
the_token_is_requested_without_the_account(void **state)
{
	struct online *o = *state;

	go_online(o, "/p", "acc-11111");
	assert_true(get_online(o));
	check_online(o, TOKEN_REQUEST("/") "GET /1.0/servers/srv-11111?account_id=acc-11111 "
	                                   "HTTP/1.1 Bearer t1\n");
}

/* Whatever its method is: a request that is refused was not executed. */
static void
a_request_with_a_refused_token_is_repeated_with_another_one(void **state)
{
	struct online *o = *state;

	go_online(o, "/", "");
	o->api.accepted = 2;
	assert_true(bb_send(o->client, &o->call, &unmapping, NULL, &o->err));
	check_online(o,
	             TOKEN_REQUEST("/") "POST /1.0/cloud_ips/cip-11111/unmap HTTP/1.1 "
	                                "Bearer t1\n" TOKEN_REQUEST(
						"/") "POST /1.0/cloud_ips/cip-11111/unmap HTTP/1.1 "
	                                             "Bearer t2\n");
}

static void
a_request_that_is_refused_twice_fails(void **state)
{
	struct online *o = *state;

	go_online(o, "/", "");
	o->api.accepted = 0;
	assert_false(get_online(o));
	assert_string_equal(o->err.msg, "GET /servers/srv-11111: 401 invalid_token, no");
	assert_int_equal(o->err.code, ERR_UNAUTHORIZED);
	check_online(
		o,
		TOKEN_REQUEST("/") "GET /1.0/servers/srv-11111 HTTP/1.1 Bearer "
				   "t1\n" TOKEN_REQUEST(
					   "/") "GET /1.0/servers/srv-11111 HTTP/1.1 Bearer t2\n");
}

static void
a_request_without_a_token_names_the_reason(void **state)
{
	struct online *o = *state;

	go_online(o, "/", "");
	o->api.token_error = "{\"error\":\"invalid_client\"}";
	assert_false(get_online(o));
	assert_string_equal(o->err.msg, "GET /servers/srv-11111: oauth2: \"invalid_client\"");
	assert_int_equal(o->err.code, ERR_UNAUTHORIZED);
	check_online(o, TOKEN_REQUEST("/"));
}

static void
a_throttled_request_says_when_to_come_back(void **state)
{
	struct online *o = *state;

	go_online(o, "/", "");
	o->api.status = "429 Too Many Requests";
	o->api.headers = "Retry-After: 7\r\n";
	assert_false(get_online(o));
	assert_int_equal(o->err.code, ERR_THROTTLED);
	assert_int_equal(o->err.retry_after_ms, 7000);
}

static void
an_overloaded_api_says_when_to_come_back(void **state)
{
	struct online *o = *state;

	go_online(o, "/", "");
	o->api.status = "503 Service Unavailable";
	o->api.headers = "Retry-After: 30\r\n";
	assert_false(get_online(o));
	assert_int_equal(o->err.code, ERR_UNAVAILABLE);
	assert_int_equal(o->err.retry_after_ms, 30000);
}

/* Elements are counted before memory for all of them is allocated. */
static void
refuses_an_object_with_too_many_parts(void **state)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(MIB(1));
	struct world *w = *state;
	struct bb_lb lb;

	buf_add_c(&body, "{\"id\":\"lba-11111\",\"nodes\":[{}");
	for (size_t i = 0; i < LIMIT_CLOUD_ELEMENTS; i++)
		buf_add_c(&body, ",{}");
	buf_add_c(&body, "]}");
	http_script_answer(&w->script, "/*", 200, body.ptr);
	assert_false(bb_get_lb(w->client, &w->call, STR("lba-11111"), &lb, &w->err));
	assert_int_equal(w->err.code, ERR_UNAVAILABLE);
	assert_non_null(strstr(w->err.msg, "its lists have 100001 elements"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define ONLINE(name) cmocka_unit_test_setup_teardown(name, setup_online, teardown_online)
		TEST(requests_about_accounts_and_servers),
		TEST(requests_about_load_balancers),
		TEST(requests_about_cloud_ips),
		TEST(requests_about_server_groups),
		TEST(requests_about_the_firewall),
		TEST(a_reference_replaces_the_last_segment_of_the_base),
		TEST(a_user_names_the_account_in_each_request),
		TEST(an_id_cannot_leave_its_place_in_the_url),
		TEST(errors_have_the_texts_of_the_api),
		TEST(only_a_404_of_the_api_means_that_something_is_gone),
		TEST(an_answer_that_cannot_be_understood_is_an_error),
		TEST(an_answer_with_anything_behind_it_is_an_error),
		TEST(refuses_an_object_with_too_many_parts),
		TEST(no_account_is_an_error),
		ONLINE(requests_carry_the_token),
		ONLINE(the_token_is_requested_without_the_account),
		ONLINE(a_request_with_a_refused_token_is_repeated_with_another_one),
		ONLINE(a_request_that_is_refused_twice_fails),
		ONLINE(a_request_without_a_token_names_the_reason),
		ONLINE(a_throttled_request_says_when_to_come_back),
		ONLINE(an_overloaded_api_says_when_to_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
