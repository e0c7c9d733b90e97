/* The transport is scripted, and the clock jumps to the end of every wait. */
#include "kube/client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"
#include "base/metrics.h"
#include "kube/fake_http.h"
#include "jumping_clock.h"

#define INVALID(field)                                                                     \
	"{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":\"Invalid\",\"code\":422," \
	"\"message\":\"the message\",\"details\":{\"causes\":[{\"field\":\"" field "\"}]}}"
#define STATUS(reason, code)                                                                             \
	"{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"message\":\"the message\"," \
	"\"reason\":\"" reason "\",\"code\":" #code "}"

static struct fake_http *http;
static struct kube_client client;
static struct call call;
static struct arena arena;
static struct jumping_clock time_now = JUMPING_CLOCK_INIT;

static int
set_up(void **state)
{
	(void)state;
	time_now.now_ns = NS_PER_SEC;
	http = fake_http_new();
	arena = ARENA_INIT;
	client = (struct kube_client){ .http = fake_http_client(http),
		                       .clock = &time_now.clock,
		                       .host = "api:6443" };
	call = (struct call){ .clock = &time_now.clock,
		              .deadline_mono_ns = CLOCK_FOREVER,
		              .arena = &arena };
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	arena_fini(&arena);
	fake_http_free(http);
	return 0;
}

static void
assert_str(struct str s, const char *expected)
{
	assert_int_equal(s.len, strlen(expected));
	assert_memory_equal(s.ptr, expected, s.len);
}

static int64_t
waited_ns(void)
{
	return time_now.now_ns - NS_PER_SEC;
}

static bool
get(struct str *ret, struct error *err)
{
	return kube_get(&client, &call, STR("/api/v1/nodes/a"), ret, err);
}

static void
must_get(const char *expected)
{
	struct error err = { .msg = "" };
	struct str body = STR_EMPTY;

	if (!get(&body, &err))
		fail_msg("%s", err.msg);
	assert_str(body, expected);
}

static struct error
get_fails(enum err_code code)
{
	struct error err = { .msg = "" };
	struct str body = STR("untouched");

	assert_false(get(&body, &err));
	assert_int_equal(err.code, code);
	assert_str(body, "untouched");
	return err;
}

/* ---- what is sent ---- */

static void
get_sends_no_body(void **state)
{
	const struct fake_request *r;

	(void)state;
	fake_http_answer(http, 200, "{\"kind\":\"Node\"}");
	must_get("{\"kind\":\"Node\"}");
	r = fake_http_request(http, 0);
	assert_int_equal(r->method, HTTP_GET);
	assert_int_equal(r->class, HTTP_WORK);
	assert_string_equal(r->target, "/api/v1/nodes/a");
	assert_string_equal(r->accept, "");
	assert_string_equal(r->content_type, "");
}

static void
patch_names_its_kind_and_what_it_wants(void **state)
{
	const struct kube_patch merge = { STR("/p"), KUBE_PATCH_MERGE, STR("{\"a\":1}"),
		                          KUBE_ANSWER_META, false };
	const struct kube_patch strategic = { STR("/p"), KUBE_PATCH_STRATEGIC, STR("{}"),
		                              KUBE_ANSWER_FULL, false };
	const struct fake_request *r;
	struct str body = STR_EMPTY;
	struct error err;

	(void)state;
	fake_http_answer(http, 200, "{}");
	assert_true(kube_patch(&client, &call, &merge, &body, &err));
	assert_str(body, "{}");
	r = fake_http_request(http, 0);
	assert_int_equal(r->method, HTTP_PATCH);
	assert_string_equal(r->accept,
	                    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
	assert_string_equal(r->content_type, "application/merge-patch+json");
	assert_string_equal(r->body, "{\"a\":1}");
	assert_false(r->can_replay);

	assert_true(kube_patch(&client, &call, &strategic, /*ret_body=*/NULL, &err));
	r = fake_http_request(http, 1);
	assert_string_equal(r->accept, "");
	assert_string_equal(r->content_type, "application/strategic-merge-patch+json");
}

static void
post_may_be_replayed_only_in_the_background(void **state)
{
	const struct fake_request *r;
	struct error err;

	(void)state;
	fake_http_answer(http, 201, "{}");
	assert_true(kube_post(&client, &call, STR("/p"), HTTP_WORK, STR("{}"), NULL, &err));
	r = fake_http_request(http, 0);
	assert_int_equal(r->method, HTTP_POST);
	assert_string_equal(r->content_type, "application/json");
	assert_false(r->can_replay);

	assert_true(kube_post(&client, &call, STR("/p"), HTTP_BACKGROUND, STR("{}"), NULL, &err));
	r = fake_http_request(http, 1);
	assert_int_equal(r->class, HTTP_BACKGROUND);
	assert_true(r->can_replay);
}

static void
background_patch_is_strategic(void **state)
{
	const struct fake_request *r;
	struct error err;

	(void)state;
	fake_http_answer(http, 200, "");
	assert_true(kube_patch(&client, &call,
	                       &(struct kube_patch){ .path = STR("/p"),
	                                             .type = KUBE_PATCH_STRATEGIC,
	                                             .body = STR("{\"count\":2}"),
	                                             .answer = KUBE_ANSWER_META,
	                                             .is_background = true },
	                       NULL, &err));
	r = fake_http_request(http, 0);
	assert_int_equal(r->method, HTTP_PATCH);
	assert_int_equal(r->class, HTTP_BACKGROUND);
	assert_string_equal(r->content_type, "application/strategic-merge-patch+json");
	assert_string_equal(r->body, "{\"count\":2}");
}

static void
delete_names_uid_and_version(void **state)
{
	const struct fake_request *r;
	struct error err;

	(void)state;
	fake_http_answer(http, 200, "{\"kind\":\"Status\",\"status\":\"Success\"}");
	assert_true(kube_delete(&client, &call, STR("/api/v1/nodes/a"), STR("u-1"), STR("7"),
	                        &err));
	r = fake_http_request(http, 0);
	assert_int_equal(r->method, HTTP_DELETE);
	assert_string_equal(r->content_type, "application/json");
	assert_string_equal(
		r->body,
		"{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\",\"preconditions\":{\"uid\":\"u-1\",\"resourceVersion\":\"7\"}}");

	fake_http_answer(http, 409, STATUS("Conflict", 409));
	assert_false(kube_delete(&client, &call, STR("/api/v1/nodes/a"), STR("u-1"), STR("7"),
	                         &err));
	assert_int_equal(err.code, ERR_CONFLICT);
}

/* ---- what comes back ---- */

static void
the_reason_decides(void **state)
{
	static const struct {
		int status;
		const char *body;
		enum err_code code;
	} cases[] = {
		{ 401, STATUS("Unauthorized", 401), ERR_UNAUTHORIZED },
		{ 403, STATUS("Forbidden", 403), ERR_FORBIDDEN },
		{ 404, STATUS("NotFound", 404), ERR_NOT_FOUND },
		{ 409, STATUS("AlreadyExists", 409), ERR_EXISTS },
		{ 409, STATUS("Conflict", 409), ERR_CONFLICT },
		{ 409, STATUS("", 409), ERR_CONFLICT },
		{ 410, STATUS("Expired", 410), ERR_GONE },
		{ 410, STATUS("Gone", 410), ERR_GONE },
		{ 422, STATUS("Invalid", 422), ERR_INVALID },
		{ 422, INVALID("spec.providerID"), ERR_INVALID },
		{ 422, INVALID("metadata.uid"), ERR_CONFLICT }, /* another object has the name */
		{ 400, STATUS("BadRequest", 400), ERR_INVALID },
		{ 429, STATUS("TooManyRequests", 429), ERR_THROTTLED },
		{ 500, STATUS("InternalError", 500), ERR_UNAVAILABLE },
		{ 500, STATUS("ServerTimeout", 500), ERR_TIMEOUT },
		{ 504, STATUS("Timeout", 504), ERR_TIMEOUT },
		{ 503, STATUS("ServiceUnavailable", 503), ERR_UNAVAILABLE },
		{ 415, STATUS("UnsupportedMediaType", 415), ERR_INVALID },
		{ 404, STATUS("SomethingNew", 404), ERR_NOT_FOUND },
		{ 404, "{\"kind\":\"Status\",\"reason\":7}", ERR_NOT_FOUND },
		{ 404, "404 page not found", ERR_NOT_FOUND },
		{ 502, "<html>Bad Gateway</html>", ERR_UNAVAILABLE },
		{ 503, "", ERR_UNAVAILABLE },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct error err;

		fake_http_answer(http, cases[i].status, cases[i].body);
		err = get_fails(cases[i].code);
		assert_int_equal(err.http_status, cases[i].status);
		assert_non_null(strstr(err.msg, "GET /api/v1/nodes/a: "));
		if (strstr(cases[i].body, "the message"))
			assert_non_null(strstr(err.msg, "the message"));
	}
}

static void
a_failure_may_hide_behind_200(void **state)
{
	(void)state;
	fake_http_answer(http, 200, STATUS("Forbidden", 403));
	get_fails(ERR_FORBIDDEN);
	fake_http_answer(http, 200, "{\"kind\":\"Status\",\"status\":\"Failure\"}");
	get_fails(ERR_INTERNAL);
	fake_http_answer(http, 200, "{\"kind\":\"Node\",\"a\":[\"Status\",\"Failure\"]}");
	must_get("{\"kind\":\"Node\",\"a\":[\"Status\",\"Failure\"]}");
}

static void
an_object_is_never_empty(void **state)
{
	(void)state;
	fake_http_answer(http, 200, "");
	get_fails(ERR_INTERNAL);
}

static void
other_2xx_and_redirects_fail(void **state)
{
	(void)state;
	fake_http_answer(http, 206, "{}");
	must_get("{}");
	fake_http_answer(http, 302, "");
	assert_int_equal(get_fails(ERR_INVALID).http_status, 302);
}

static void
the_status_may_say_when_to_come_back(void **state)
{
	(void)state;
	fake_http_answer(http, 429,
	                 "{\"kind\":\"Status\",\"reason\":\"TooManyRequests\","
	                 "\"details\":{\"retryAfterSeconds\":1000000}}");
	assert_int_equal(get_fails(ERR_THROTTLED).retry_after_ms, LIMIT_RETRY_AFTER_S * 1000);
}

/* ---- retries ---- */

static void
a_retry_after_is_obeyed(void **state)
{
	(void)state;
	fake_http_add(http, (struct fake_answer){ .status = 429, .retry_after_ms = 2000 });
	fake_http_add(http, (struct fake_answer){ .status = 503, .retry_after_ms = 3000 });
	fake_http_answer(http, 200, "{}");
	must_get("{}");
	assert_int_equal(fake_http_count(http), 3);
	assert_in_range(waited_ns(), 5 * NS_PER_SEC, 6 * NS_PER_SEC);
}

static void
without_retry_after_there_is_no_retry(void **state)
{
	(void)state;
	fake_http_answer(http, 503, "");
	get_fails(ERR_UNAVAILABLE);
	fake_http_add(http, (struct fake_answer){ .status = 404, .retry_after_ms = 2000 });
	get_fails(ERR_NOT_FOUND);
	fake_http_add(http, (struct fake_answer){ .code = ERR_UNAVAILABLE });
	get_fails(ERR_UNAVAILABLE);
	assert_int_equal(fake_http_count(http), 3);
	assert_int_equal(waited_ns(), 0);
}

static void
ten_retries_are_enough(void **state)
{
	(void)state;
	fake_http_add(http, (struct fake_answer){ .status = 429, .retry_after_ms = 1000 });
	assert_int_equal(get_fails(ERR_THROTTLED).retry_after_ms, 1000);
	assert_int_equal(fake_http_count(http), 11);
	assert_in_range(waited_ns(), 10 * NS_PER_SEC, 12 * NS_PER_SEC);
}

static void
a_wait_beyond_the_deadline_is_not_begun(void **state)
{
	(void)state;
	call.deadline_mono_ns = time_now.now_ns + 2 * NS_PER_SEC;
	fake_http_add(http, (struct fake_answer){ .status = 429, .retry_after_ms = 2000 });
	get_fails(ERR_THROTTLED);
	assert_int_equal(fake_http_count(http), 1);
	assert_int_equal(waited_ns(), 0);
}

static void
a_retry_without_time_does_not_hide_the_refusal(void **state)
{
	static const char before[] = "503 overloaded (2 attempts in ";
	struct error err;
	const char *took;

	(void)state;
	fake_http_add(http, (struct fake_answer){
				    .status = 503, .body = "overloaded", .retry_after_ms = 2000 });
	fake_http_add(http, (struct fake_answer){ .code = ERR_TIMEOUT });
	err = get_fails(ERR_TIMEOUT);
	took = strstr(err.msg, before);
	assert_non_null(took);
	/* seconds: the pause, and up to as long again by chance */
	assert_in_range(took[strlen(before)], '2', '4');
}

static void
a_wait_ends_when_cancelled(void **state)
{
	CLEANUP(cancel_freep) struct cancel *cancel = cancel_new();

	(void)state;
	call.cancel = cancel;
	cancel_fire(cancel);
	fake_http_add(http, (struct fake_answer){ .status = 429, .retry_after_ms = 2000 });
	get_fails(ERR_CANCELLED);
	assert_int_equal(fake_http_count(http), 1);
}

/* ---- health ---- */

static void
waits_until_healthy(void **state)
{
	struct error err;

	(void)state;
	fake_http_add(http, (struct fake_answer){ .code = ERR_UNAVAILABLE });
	fake_http_answer(http, 500, "[-]etcd failed");
	fake_http_answer(http, 200, "ok");
	assert_true(kube_wait_healthy(&client, &call, 10000, &err));
	assert_string_equal(fake_http_request(http, 2)->target, "/healthz");
	assert_int_equal(waited_ns(), 2 * NS_PER_SEC);
}

static void
does_not_wait_for_ever(void **state)
{
	struct error err;

	(void)state;
	fake_http_answer(http, 500, "[-]etcd failed");
	assert_false(kube_wait_healthy(&client, &call, 10000, &err));
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	assert_non_null(strstr(err.msg,
	                       "the API server was not healthy for 10s: GET /healthz: 500"));
	assert_non_null(strstr(err.msg, " (10 attempts in 9s)"));
	assert_int_equal(fake_http_count(http), 10);
}

static void
a_last_attempt_without_time_does_not_hide_why(void **state)
{
	struct error err;

	(void)state;
	fake_http_add(http, (struct fake_answer){ .code = ERR_TIMEOUT });
	fake_http_answer(http, 500, "[-]etcd failed");
	fake_http_add(http, (struct fake_answer){ .code = ERR_TIMEOUT });
	assert_false(kube_wait_healthy(&client, &call, 10000, &err));
	assert_non_null(strstr(err.msg, "[-]etcd failed (10 attempts in 9s)"));
}

static void
stops_waiting_when_cancelled(void **state)
{
	CLEANUP(cancel_freep) struct cancel *cancel = cancel_new();
	struct error err;

	(void)state;
	call.cancel = cancel;
	cancel_fire(cancel);
	assert_false(kube_wait_healthy(&client, &call, 10000, &err));
	assert_int_equal(err.code, ERR_CANCELLED);
	assert_int_equal(fake_http_count(http), 1);
}

/* ---- metrics ---- */

static void
requests_are_counted(void **state)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(MIB(1));

	(void)state;
	client.host = "counted:6443";
	fake_http_add(http, (struct fake_answer){ .status = 429, .retry_after_ms = 2000 });
	fake_http_answer(http, 200, "{}");
	fake_http_add(http, (struct fake_answer){ .code = ERR_UNAVAILABLE });
	must_get("{}");
	get_fails(ERR_UNAVAILABLE);
	metrics_write_page(&text, METRICS_MAIN, METRICS_TEXT);
	assert_non_null(strstr(
		text.ptr,
		"rest_client_requests_total{code=\"200\",host=\"counted:6443\",method=\"GET\"} 1\n"));
	assert_non_null(strstr(
		text.ptr,
		"rest_client_requests_total{code=\"<error>\",host=\"counted:6443\",method=\"GET\"} 1\n"));
	assert_non_null(strstr(
		text.ptr,
		"rest_client_request_retries_total{code=\"429\",host=\"counted:6443\",verb=\"GET\"} 1\n"));
	assert_non_null(strstr(text.ptr,
	                       "rest_client_request_duration_seconds_bucket{host=\"counted:6443\","
	                       "verb=\"GET\",le=\"1\"} 1\n"));
	assert_non_null(strstr(text.ptr,
	                       "rest_client_request_duration_seconds_bucket{host=\"counted:6443\","
	                       "verb=\"GET\",le=\"4\"} 2\n"));
}

#define SCRIPTED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		SCRIPTED(get_sends_no_body),
		SCRIPTED(patch_names_its_kind_and_what_it_wants),
		SCRIPTED(post_may_be_replayed_only_in_the_background),
		SCRIPTED(background_patch_is_strategic),
		SCRIPTED(delete_names_uid_and_version),
		SCRIPTED(the_reason_decides),
		SCRIPTED(a_failure_may_hide_behind_200),
		SCRIPTED(an_object_is_never_empty),
		SCRIPTED(other_2xx_and_redirects_fail),
		SCRIPTED(the_status_may_say_when_to_come_back),
		SCRIPTED(a_retry_after_is_obeyed),
		SCRIPTED(a_retry_without_time_does_not_hide_the_refusal),
		SCRIPTED(without_retry_after_there_is_no_retry),
		SCRIPTED(ten_retries_are_enough),
		SCRIPTED(a_wait_beyond_the_deadline_is_not_begun),
		SCRIPTED(a_wait_ends_when_cancelled),
		SCRIPTED(waits_until_healthy),
		SCRIPTED(does_not_wait_for_ever),
		SCRIPTED(a_last_attempt_without_time_does_not_hide_why),
		SCRIPTED(stops_waiting_when_cancelled),
		SCRIPTED(requests_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
