#include "serve/endpoints.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/version.h"
#include "serve/build_info.h"

/* A server that is asked and answers in memory; and an access that says what the test wants. */
struct server_request {
	enum server_method method;
	struct str path, body;
	const char *accept;
	struct str excludes[3];
	bool is_verbose;

	unsigned n_replies;
	int status;
	char type[100];
	const char *allow, *retry_after;
	struct buf answer;
};

enum server_method
server_request_method(const struct server_request *r)
{
	return r->method;
}

struct str
server_request_path(const struct server_request *r)
{
	return r->path;
}

struct str
server_request_body(const struct server_request *r)
{
	return r->body;
}

struct str
server_request_peer(const struct server_request *r)
{
	(void)r;
	return STR("192.0.2.7");
}

bool
server_request_parameter(const struct server_request *r, const char *name, size_t n,
                         struct arena *arena, struct str *ret)
{
	(void)arena;
	if (strcmp(name, "verbose") == 0)
		return n == 0 && r->is_verbose;
	assert_string_equal(name, "exclude");
	if (n >= ARRAY_LEN(r->excludes) || !r->excludes[n].ptr)
		return false;
	*ret = r->excludes[n];
	return true;
}

bool
server_request_header(const struct server_request *r, const char *name, size_t n, struct str *ret)
{
	assert_string_equal(name, "Accept");
	if (n > 0 || !r->accept)
		return false;
	*ret = str_c(r->accept);
	return true;
}

void
server_reply(struct server_request *r, const struct server_response *response)
{
	r->n_replies++;
	r->status = response->status;
	snprintf(r->type, sizeof(r->type), "%s",
	         response->content_type ? response->content_type : "text");
	for (size_t i = 0; response->headers && response->headers[i]; i += 2) {
		bool is_allow = strcmp(response->headers[i], "Allow") == 0;

		assert_true(is_allow || strcmp(response->headers[i], "Retry-After") == 0);
		*(is_allow ? &r->allow : &r->retry_after) = response->headers[i + 1];
	}
	r->answer = BUF_INIT(MIB(4));
	buf_add_str(&r->answer, response->body);
}

struct access {
	enum access_outcome outcome;
	const char *message;
	unsigned n_asked;
};

void
access_check(struct access *access, struct server_request *request,
             void (*done)(void *arg, struct server_request *, enum access_outcome, struct str),
             void *arg)
{
	access->n_asked++;
	done(arg, request, access->outcome, str_c(access->message ? access->message : ""));
}

/* ---- the rig ---- */

static struct access access_of_all;
static bool is_leading;
static struct endpoints_config config;

static bool
leads(void *arg, struct buf *reason)
{
	(void)arg;
	if (!is_leading)
		buf_add_c(reason, "not renewed for 40s");
	return is_leading;
}

static void
configz(void *arg, struct buf *json)
{
	buf_addf(json, "{\"kind\":\"%s\"}", (const char *)arg);
}

static bool
describe(void *arg, struct str path, struct buf *json)
{
	assert_ptr_equal(arg, &config);
	buf_addf(json, "{\"%" STR_FMT "\"}", STR_ARG(path));
	return !str_starts(path, STR("nodes/none"));
}

static int
set_up(void **state)
{
	static char kind[] = "CloudControllerManagerConfiguration";

	(void)state;
	access_of_all = (struct access){ .outcome = ACCESS_ALLOWED };
	is_leading = true;
	config = (struct endpoints_config){
		.access = &access_of_all,
		.health = health_new(),
		.configz = configz,
		.arg = kind,
		.describe = describe,
		.describe_arg = &config,
		.is_profiling = true,
	};
	health_add(config.health, "leaderElection", HEALTH_HEALTHZ | HEALTH_LIVEZ, leads, NULL);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	health_free(config.health);
	return 0;
}

static void
check(struct server_request *r, int status, const char *type, const char *body)
{
	endpoints_handle(&config, r);
	assert_int_equal(r->n_replies, 1);
	assert_int_equal(r->status, status);
	assert_string_equal(r->type, type);
	if (body)
		assert_string_equal(r->answer.ptr, body);
	buf_fini(&r->answer);
}

static void
check_get(const char *path, int status, const char *type, const char *body)
{
	check(&(struct server_request){ .path = str_c(path) }, status, type, body);
}

/* ---- tests ---- */

static void
health_is_reported_as_kubernetes_does(void **state)
{
	(void)state;
	check_get("/healthz", 200, "text", "ok");
	check_get("/livez", 200, "text", "ok");
	check_get("/readyz", 200, "text", "ok");
	check(&(struct server_request){ .path = STR("/livez"), .is_verbose = true }, 200, "text",
	      "[+]leaderElection ok\nlivez check passed\n");
	check(&(struct server_request){ .path = STR("/healthz"), .method = SERVER_HEAD }, 200,
	      "text", "ok");
	is_leading = false;
	check_get("/livez", 500, "text",
	          "[-]leaderElection failed: reason withheld\nlivez check failed\n");
	check_get("/readyz", 200, "text", "ok");
	check(
		&(struct server_request){
			.path = STR("/healthz"),
			.is_verbose = true,
			.excludes = { STR("leaderElection"), STR("x") },
		},
		200, "text",
		"[+]leaderElection excluded: ok\n"
		"warn: some health checks cannot be excluded: no matches for \"x\"\n"
		"healthz check passed\n");
}

static void
one_check_has_a_path(void **state)
{
	(void)state;
	check_get("/livez/leaderElection", 200, "text", "ok");
	check_get("/readyz/ping", 200, "text", "ok");
	check_get("/readyz/leaderElection", 404, "text", "404 page not found\n");
	check_get("/livez/", 404, "text", "404 page not found\n");
	is_leading = false;
	check_get("/healthz/leaderElection", 500, "text",
	          "internal server error: not renewed for 40s\n");
}

static void
metrics_have_the_requested_format(void **state)
{
	struct server_request r = { .path = STR("/metrics") };

	(void)state;
	build_info_setup();
	endpoints_handle(&config, &r);
	assert_string_equal(r.type, "text/plain; version=0.0.4; charset=utf-8");
	assert_non_null(strstr(r.answer.ptr,
	                       "\nkubernetes_build_info{build_date=\"1970-01-01T00:00:00Z\","
	                       "compiler=\""));
	assert_non_null(strstr(r.answer.ptr, ",git_version=\"v" CCMD_VERSION
	                                     "\",go_version=\"\",major=\"0\",minor=\"1\","
	                                     "platform=\"linux/"));
	assert_null(strstr(r.answer.ptr, "kubernetes_healthcheck"));
	buf_fini(&r.answer);
	r.accept = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
	r.n_replies = 0;
	endpoints_handle(&config, &r);
	assert_string_equal(r.type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
	assert_true(str_ends(buf_str(&r.answer), STR("\n# EOF\n")));
	buf_fini(&r.answer);
}

static void
slis_are_separate_and_can_be_reset(void **state)
{
	struct server_request r = { .path = STR("/metrics/slis") };

	(void)state;
	check_get("/livez", 200, "text", "ok");
	endpoints_handle(&config, &r);
	assert_non_null(strstr(r.answer.ptr, "kubernetes_healthcheck{name=\"leaderElection\","
	                                     "type=\"livez\"} 1\n"));
	buf_fini(&r.answer);
	check(&(struct server_request){ .path = STR("/metrics/slis"), .method = SERVER_DELETE },
	      200, "text", "metrics reset\n");
	check_get("/metrics/slis", 200, "text/plain; version=0.0.4; charset=utf-8", "");
}

static void
version_and_configuration_are_served(void **state)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct server_request r = { .path = STR("/version") };
	struct str text;
	struct error err;

	(void)state;
	check_get("/configz", 200, "application/json",
	          "{\"cloudcontrollermanager.config.k8s.io\":"
	          "{\"kind\":\"CloudControllerManagerConfiguration\"}}");
	endpoints_handle(&config, &r);
	assert_string_equal(r.type, "application/json");
	assert_true(json_parse(buf_str(&r.answer), &doc, &err));
	assert_int_equal(json_str(yyjson_doc_get_root(doc), "gitVersion", &text), JSON_FOUND);
	assert_true(str_eq(text, version_get()));
	assert_int_equal(json_str(yyjson_doc_get_root(doc), "platform", &text), JSON_FOUND);
	assert_true(str_starts(text, STR("linux/")));
	buf_fini(&r.answer);
}

static void
objects_are_described(void **state)
{
	(void)state;
	check_get("/debug/objects/nodes/a", 200, "application/json", "{\"nodes/a\"}");
	check_get("/debug/objects/services/a/b", 200, "application/json", "{\"services/a/b\"}");
	check_get("/debug/objects/routes/10.0.0.0/8", 200, "application/json",
	          "{\"routes/10.0.0.0/8\"}");
	check_get("/debug/objects/nodes/none", 404, "text", "404 page not found\n");
	check_get("/debug/objects/nodes/", 404, "text", "404 page not found\n");
	check_get("/debug/objects/pods/a", 404, "text", "404 page not found\n");
	check_get("/debug/objects/", 404, "text", "404 page not found\n");
	access_of_all.outcome = ACCESS_FORBIDDEN;
	check_get("/debug/objects/nodes/a", 403, "application/json", NULL);
	config.access = NULL;
	check_get("/debug/objects/nodes/a", 404, "text", "404 page not found\n");
}

static void
verbosity_can_be_put(void **state)
{
	struct server_request put = { .path = STR("/debug/flags/v"),
		                      .method = SERVER_PUT,
		                      .body = STR("4\n") };

	(void)state;
	log_set_fd(-1);
	check(&put, 200, "text", "successfully set klog.logging.verbosity to 4");
	assert_true(log_is_debug());
	put = (struct server_request){ .path = put.path, .method = put.method, .body = STR("0") };
	check(&put, 200, "text", "successfully set klog.logging.verbosity to 0");
	assert_false(log_is_debug());
	put = (struct server_request){ .path = put.path, .method = put.method, .body = STR("-1") };
	check(&put, 400, "text", "the body is not a level from 0 to 100\n");
	config.is_profiling = false;
	put.n_replies = 0;
	check(&put, 404, "text", "404 page not found\n");
	log_set_fd(STDERR_FILENO);
}

static void
other_paths_and_methods_are_refused(void **state)
{
	struct server_request post = { .path = STR("/metrics"), .method = SERVER_POST };

	(void)state;
	check_get("/", 404, "text", "404 page not found\n");
	check_get("/metrics/", 404, "text", "404 page not found\n");
	check_get("/healthzz", 404, "text", "404 page not found\n");
	check_get("/debug/pprof/", 404, "text", "404 page not found\n");
	check(&post, 405, "text", "Method Not Allowed\n");
	assert_string_equal(post.allow, "GET, HEAD");
	check(&(struct server_request){ .path = STR("/metrics"), .method = SERVER_OTHER }, 405,
	      "text", "Method Not Allowed\n");
	check_get("/debug/flags/v", 405, "text", "Method Not Allowed\n");
}

static void
refusals_are_status_objects(void **state)
{
	(void)state;
	access_of_all = (struct access){
		.outcome = ACCESS_FORBIDDEN,
		.message = "forbidden: User \"x\" cannot get path \"/nowhere\""
	};
	check_get(
		"/nowhere", 403, "application/json",
		"{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","
		"\"message\":\"forbidden: User \\\"x\\\" cannot get path \\\"/nowhere\\\"\","
		"\"reason\":\"Forbidden\",\"details\":{},\"code\":403}\n");
	access_of_all = (struct access){ .outcome = ACCESS_UNAUTHORIZED,
		                         .message = "Unauthorized" };
	check_get(
		"/healthz", 401, "application/json",
		"{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","
		"\"message\":\"Unauthorized\",\"reason\":\"Unauthorized\",\"code\":401}\n");
	assert_int_equal(access_of_all.n_asked, 1);
}

static void
a_caller_with_too_many_requests_gets_a_time_to_retry(void **state)
{
	struct server_request r = { .path = STR("/metrics") };

	(void)state;
	access_of_all = (struct access){ .outcome = ACCESS_TOO_MANY, .message = "too many" };
	endpoints_handle(&config, &r);
	assert_int_equal(r.status, 429);
	assert_string_equal(r.retry_after, "1");
	assert_string_equal(
		r.answer.ptr,
		"{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},"
		"\"status\":\"Failure\",\"message\":\"too many\",\"reason\":\"TooManyRequests\","
		"\"details\":{\"retryAfterSeconds\":1},\"code\":429}\n");
	buf_fini(&r.answer);
}

static void
a_plain_listener_has_only_metrics(void **state)
{
	(void)state;
	config.access = NULL;
	check_get("/metrics", 200, "text/plain; version=0.0.4; charset=utf-8", NULL);
	check_get("/metrics/slis", 404, "text", "404 page not found\n");
	check_get("/configz", 404, "text", "404 page not found\n");
	check_get("/healthz", 404, "text", "404 page not found\n");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_caller_with_too_many_requests_gets_a_time_to_retry, set_up, tear_down),
		cmocka_unit_test_setup_teardown(health_is_reported_as_kubernetes_does, set_up,
		                                tear_down),
		cmocka_unit_test_setup_teardown(one_check_has_a_path, set_up, tear_down),
		cmocka_unit_test_setup_teardown(metrics_have_the_requested_format, set_up,
		                                tear_down),
		cmocka_unit_test_setup_teardown(slis_are_separate_and_can_be_reset, set_up,
		                                tear_down),
		cmocka_unit_test_setup_teardown(version_and_configuration_are_served, set_up,
		                                tear_down),
		cmocka_unit_test_setup_teardown(objects_are_described, set_up, tear_down),
		cmocka_unit_test_setup_teardown(verbosity_can_be_put, set_up, tear_down),
		cmocka_unit_test_setup_teardown(other_paths_and_methods_are_refused, set_up,
		                                tear_down),
		cmocka_unit_test_setup_teardown(refusals_are_status_objects, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_plain_listener_has_only_metrics, set_up,
		                                tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
