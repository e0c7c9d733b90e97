#include "providers/hcloud/api.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/metrics.h"
#include "providers/hcloud/lab.h"

/* GET /x, or a POST; true when it went well. */
static bool
ask(struct lab *lab, enum http_method method, bool retries_at_start, struct error *err)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	CLEANUP(hz_answer_fini) struct hz_answer answer = HZ_ANSWER_INIT;
	struct call call = lab_call(lab, &arena);
	struct hz_request request = { .method = method,
		                      .target = STR("/x"),
		                      .body = STR_EMPTY,
		                      .retries_at_start = retries_at_start };

	return hz_api_do(lab->api, &call, &request, &answer, err);
}

static void
check(struct lab *lab, enum http_method method, int status, const char *body, unsigned n_asked,
      enum err_code code)
{
	struct error err;

	lab_open(lab, &hz_official, 0); /* several failures are an outage */
	lab->script.n_answers = 0;
	lab->script.n_asked = 0;
	lab_answer(lab, "/x", status, body);
	assert_false(ask(lab, method, false, &err));
	assert_int_equal(err.code, code);
	assert_int_equal(lab->script.n_asked, n_asked);
}

/* docs/spec/hcloud.md, "Retries" */
static void
retries_what_may_heal(void **state)
{
	check(*state, HTTP_GET, 409, LAB_ERROR("conflict"), 3, ERR_CONFLICT);
	check(*state, HTTP_GET, 502, LAB_ERROR("bad_gateway"), 3, ERR_UNAVAILABLE);
	check(*state, HTTP_GET, 504, LAB_ERROR("timeout"), 3, ERR_TIMEOUT);
	check(*state, HTTP_GET, 502, "<html>", 3, ERR_UNAVAILABLE);
	check(*state, HTTP_GET, 504, "", 3, ERR_TIMEOUT);
}

static void
several_attempts_are_reported_behind_the_error(void **state)
{
	struct lab *lab = *state;
	struct error err;

	lab_answer(lab, "/x", 502, "<html>");
	assert_false(ask(lab, HTTP_GET, false, &err));
	assert_non_null(strstr(err.msg, " (3 attempts in "));
	lab->script.n_answers = 0;
	lab_answer(lab, "/x", 503, LAB_ERROR("unavailable"));
	assert_false(ask(lab, HTTP_GET, false, &err));
	assert_null(strstr(err.msg, "attempts"));
}

static void
retries_nothing_else(void **state)
{
	check(*state, HTTP_GET, 423, LAB_ERROR("locked"), 1, ERR_CONFLICT);
	check(*state, HTTP_GET, 500, LAB_ERROR("server_error"), 1, ERR_UNAVAILABLE);
	check(*state, HTTP_GET, 503, LAB_ERROR("unavailable"), 1, ERR_UNAVAILABLE);
	check(*state, HTTP_GET, 401, LAB_ERROR("unauthorized"), 1, ERR_UNAUTHORIZED);
	check(*state, HTTP_GET, 403, LAB_ERROR("token_readonly"), 1, ERR_FORBIDDEN);
	check(*state, HTTP_GET, 409, LAB_ERROR("uniqueness_error"), 1, ERR_EXISTS);
	check(*state, HTTP_GET, 422, LAB_ERROR("invalid_input"), 1, ERR_INVALID);
	check(*state, HTTP_GET, 409, "", 1, ERR_INVALID);
	check(*state, HTTP_GET, 404, LAB_NOT_FOUND, 1, ERR_NOT_FOUND);
	check(*state, HTTP_GET, 404, "no JSON", 1, ERR_INVALID);
	check(*state, HTTP_GET, 200, "no JSON", 1, ERR_UNAVAILABLE);
}

/* It may have been done, and would be done twice. */
static void
a_change_is_not_sent_twice(void **state)
{
	check(*state, HTTP_POST, 504, LAB_ERROR("timeout"), 1, ERR_TIMEOUT);
	check(*state, HTTP_POST, 502, "", 1, ERR_UNAVAILABLE);
	check(*state, HTTP_POST, 409, LAB_ERROR("conflict"), 3, ERR_CONFLICT);
}

static void
past_the_rate_limit_no_worker_is_blocked(void **state)
{
	struct lab *lab = *state;
	int64_t begun_ns = lab->fake.now_ns;
	struct error err;

	lab_answer(lab, "/x", 429, LAB_ERROR("rate_limit_exceeded"));
	assert_false(ask(lab, HTTP_GET, false, &err));
	assert_int_equal(err.code, ERR_THROTTLED);
	assert_int_equal(lab->script.n_asked, 1);
	assert_int_equal(lab->fake.now_ns, begun_ns);
	assert_in_range(err.retry_after_ms, 180000, 182000); /* the reserve, and one */
	assert_false(hz_api_admit(lab->api, HZ_URGENT, 1, &err));
}

static void
at_start_it_is_patient(void **state)
{
	struct lab *lab = *state;
	int64_t begun_ns = lab->fake.now_ns;
	struct error err;

	for (int i = 0; i < 5; i++)
		lab_answer(lab, "/x", 429, LAB_ERROR("rate_limit_exceeded"));
	lab_answer(lab, "/x", 200, "{}");
	assert_true(ask(lab, HTTP_GET, true, &err));
	assert_int_equal(lab->script.n_asked, 6);
	/* 1, 1-2, 1-4, 1-8 and 1-16 s */
	assert_in_range(lab->fake.now_ns - begun_ns, 5 * NS_PER_SEC, 31 * NS_PER_SEC);
}

static void
errors_are_in_the_apis_words(void **state)
{
	struct lab *lab = *state;
	struct error err;

	lab_answer(lab, "/x", 401,
	           "{\"error\":{\"code\":\"unauthorized\",\"message\":\"unable to "
	           "authenticate\\nmore\"}}");
	assert_false(ask(lab, HTTP_GET, false, &err));
	assert_string_equal(err.msg,
	                    "unable to authenticate more (unauthorized) [GET /x, status 401]");
	lab->script.n_answers = 0;
	lab_open(lab, &hz_official, 0);
	lab_answer(lab, "/x", 418, "I am a teapot");
	assert_false(ask(lab, HTTP_GET, false, &err));
	assert_string_equal(err.msg,
	                    "hcloud: server responded with status code 418 [GET /x, status 418]");
}

#define FIELDS(fields)                                                                       \
	"{\"error\":{\"code\":\"invalid_input\",\"message\":\"invalid input\",\"details\":{" \
	"\"fields\":" fields "}}}"

static void
check_message(struct lab *lab, const char *body, const char *correlation_id, const char *message)
{
	struct error err;

	lab->script.n_answers = 0;
	lab->script.correlation_id = correlation_id;
	lab_answer(lab, "/x", 422, body);
	assert_false(ask(lab, HTTP_POST, false, &err));
	assert_string_equal(err.msg, message);
}

/* docs/spec/hcloud.md, "Services" and "Error texts" */
static void
invalid_fields_and_the_correlation_id_are_named(void **state)
{
	check_message(*state,
	              FIELDS("[{\"name\":\"name\",\"messages\":[\"is taken\",\"is odd\"]},"
	                     "{\"name\":\"type\",\"messages\":[]},{\"name\":7},7]"),
	              NULL,
	              "invalid input (invalid_input): invalid fields: name (is taken, is odd), "
	              "type (), , [POST /x, status 422]");
	check_message(*state, FIELDS("[]"), "4d17a7",
	              "invalid input (invalid_input, 4d17a7) [POST /x, status 422]");
	check_message(*state, FIELDS("7"), "",
	              "invalid input (invalid_input) [POST /x, status 422]");
	check_message(*state, LAB_ERROR("ip_not_owned"), "4d17a7",
	              "no (ip_not_owned, 4d17a7) [POST /x, status 422]");
}

static void
changes_leave_the_reserve_to_others(void **state)
{
	struct lab *lab = *state;
	struct error err;

	lab_add(lab, (struct http_script_answer){ .target = "/x",
	                                          .status = 200,
	                                          .body = "{}",
	                                          .limit = 3600,
	                                          .remaining = 181,
	                                          .reset_s = 1800003419 });
	assert_true(ask(lab, HTTP_POST, false, &err));
	assert_true(ask(lab, HTTP_DELETE, false, &err));
	lab->script.answers[0].remaining = 180;
	assert_true(ask(lab, HTTP_PUT, false, &err));
	assert_false(ask(lab, HTTP_POST, false, &err));
	assert_int_equal(err.code, ERR_THROTTLED);
	/* not as soon as one request is permitted: hz_budget_rest() */
	assert_in_range(err.retry_after_ms, 19000, 21000);
	assert_int_equal(lab->script.n_asked, 3);
	assert_true(ask(lab, HTTP_GET, false, &err)); /* it has been admitted */
}

/* ---- failures are reported ---- */

static void
a_wrong_token_is_reported_once(void **state)
{
	struct lab *lab = *state;
	struct error err;

	lab_answer(lab, "/x", 401, LAB_ERROR("unauthorized"));
	for (int i = 0; i < 20; i++)
		assert_false(ask(lab, HTTP_GET, false, &err));
	assert_string_equal(
		lab->fake.events.ptr,
		"- HetznerTokenRefused: The Hetzner Cloud API refuses the token, so nodes and load balancers stay as "
		"they are. Put a valid one into HCLOUD_TOKEN, or into the file HCLOUD_TOKEN_FILE, which is read without "
		"a restart. The API's response: no (unauthorized) [GET /x, status 401]\n");
	buf_reset(&lab->fake.events);
	lab->script.n_answers = 0;
	lab_answer(lab, "/x", 404, LAB_NOT_FOUND);
	lab->fake.now_ns += NS_PER_SEC;
	assert_false(ask(lab, HTTP_GET, false, &err));
	assert_string_equal(lab->fake.events.ptr,
	                    "- Normal HetznerAnswers: The Hetzner Cloud API responds again\n");
}

static bool
is_read_only_shown(void)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(1000000);

	metrics_write_page(&text, METRICS_MAIN, METRICS_TEXT);
	return strstr(text.ptr, "\nccmd_cloud_credentials_read_only 1\n") != NULL;
}

static void
check_change(struct lab *lab, enum http_method method, int status, const char *body)
{
	struct error err;

	lab->script.n_answers = 0;
	lab_answer(lab, "/x", status, body);
	lab->fake.now_ns += NS_PER_SEC;
	assert_int_equal(ask(lab, method, false, &err), status == 200);
}

static void
check_read_only_token(struct lab *lab, const char *body)
{
	check_change(lab, HTTP_GET, 200, "{}");
	assert_false(is_read_only_shown());
	for (int i = 0; i < 20; i++) {
		check_change(lab, HTTP_POST, 403, body);
		check_change(lab, HTTP_GET, 200, "{}");
		check_change(lab, HTTP_PUT, 422, LAB_ERROR("invalid_input"));
		assert_true(is_read_only_shown());
	}
	assert_ptr_equal(strstr(lab->fake.events.ptr, "- HetznerTokenRefused: The token may only "
	                                              "read, so load balancers and routes stay"),
	                 lab->fake.events.ptr);
	assert_null(strstr(lab->fake.events.ptr + 1, "- Hetzner"));
	assert_null(strstr(lab->fake.events.ptr, "HetznerAnswers"));
	buf_reset(&lab->fake.events);
	check_change(lab, HTTP_DELETE, 200, "{}");
	assert_false(is_read_only_shown());
	assert_string_equal(
		lab->fake.events.ptr,
		"- Normal HetznerAnswers: The Hetzner Cloud API accepts changes again\n");
	buf_reset(&lab->fake.events);
}

/* GETs succeed meanwhile. */
static void
a_token_that_may_only_read_is_reported_once(void **state)
{
	check_read_only_token(*state, LAB_ERROR("forbidden"));
	check_read_only_token(*state, LAB_ERROR("token_readonly"));
}

static void
silence_is_reported_after_a_minute(void **state)
{
	struct lab *lab = *state;
	struct error err;

	lab_answer(lab, "/x", 503, "<html>");
	for (int i = 0; i < 6; i++) {
		assert_false(ask(lab, HTTP_GET, false, &err));
		assert_string_equal(lab->fake.events.ptr, "");
		lab->fake.now_ns += 10 * NS_PER_SEC;
	}
	lab->fake.now_ns += 10 * NS_PER_SEC;
	assert_false(ask(lab, HTTP_GET, false, &err));
	assert_non_null(strstr(lab->fake.events.ptr, "- HetznerUnavailable: "));
	assert_non_null(
		strstr(lab->fake.events.ptr,
	               "hcloud: server responded with status code 503 [GET /x, status 503]\n"));
}

/* A refusal of one request is an answer, also that of a token that may only read. The rate limit
 * has an Event of its own. */
static void
an_answer_is_not_a_failure(void **state)
{
	static const char *const bodies[] = { LAB_ERROR("rate_limit_exceeded"), LAB_ERROR("locked"),
		                              LAB_ERROR("protected"), LAB_ERROR("token_readonly"),
		                              LAB_ERROR("invalid_input") };
	struct lab *lab = *state;
	struct error err;

	for (size_t i = 0; i < 10 * ARRAY_LEN(bodies); i++) {
		lab->script.n_answers = 0;
		lab_answer(lab, "/x", i % ARRAY_LEN(bodies) ? 422 : 429,
		           bodies[i % ARRAY_LEN(bodies)]);
		assert_false(ask(lab, HTTP_GET, false, &err));
		lab->fake.now_ns += 30 * NS_PER_SEC;
	}
	assert_ptr_equal(strstr(lab->fake.events.ptr, "- HetznerRateLimit: "),
	                 lab->fake.events.ptr);
	assert_null(strstr(lab->fake.events.ptr + 1, "- Hetzner"));
}

static void
each_attempt_is_counted(void **state)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(1000000);

	check(*state, HTTP_GET, 521, "", 1, ERR_UNAVAILABLE);
	metrics_write_page(&text, METRICS_MAIN, METRICS_TEXT);
	assert_non_null(strstr(text.ptr, "hcloud_api_requests_total{api_endpoint=\"/x\","
	                                 "code=\"521\",method=\"get\"} 1\n"));
	assert_non_null(strstr(text.ptr, "hcloud_api_in_flight_requests 0\n"));
}

/* ---- the dump ---- */

static void
check_body(const char *body, const char *shown)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(10000);

	hz_dump_body(&b, str_c(body));
	assert_string_equal(b.ptr, shown);
}

static void
secrets_are_blackened(void **state)
{
	(void)state;
	check_body("{\"a\":\"b\"}", "{\"a\":\"b\"}");
	check_body("{\"private_key\":\"---\\\"x\\\\\",\"a\":1}",
	           "{\"private_key\":\"REDACTED\",\"a\":1}");
	check_body("{\"root_password\" : \n \"x\"}", "{\"root_password\" : \n \"REDACTED\"}");
	check_body("{\"root_password\":null}", "{\"root_password\":null}");
	check_body("{\"password\":\"cut", "{\"password\":\"REDACTED");
	check_body("{\"password\":\"cut\\", "{\"password\":\"REDACTED");
	check_body("\"password\"", "\"password\"");
}

static void
a_request_is_shown_without_its_token(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(10000);
	struct http_request request = { .method = HTTP_POST,
		                        .target = STR("/x"),
		                        .content_type = "application/json",
		                        .body = STR("{}") };

	(void)state;
	hz_dump_request(&b, STR("https://api/v1"), &request);
	assert_string_equal(b.ptr, "--- Request:\nPOST https://api/v1/x HTTP/1.1\nAccept: "
	                           "application/json\nAuthorization: REDACTED\nContent-Type: "
	                           "application/json\n\n{}\n\n\n");
}

#define IN_LAB(test) cmocka_unit_test_setup_teardown(test, lab_setup_open, lab_teardown)

/* ---- outages ---- */

/* Callers come as fast as they can, for half an hour, with GETs, which are retried, and with
 * changes. */
static void
an_outage_is_probed_now_and_then(void **state)
{
	struct lab *lab = *state;
	struct error err;

	lab_answer(lab, "/x", 502, "<html>");
	for (int i = 0; i < 18000; i++) {
		assert_false(ask(lab, i % 2 ? HTTP_GET : HTTP_POST, false, &err));
		lab->fake.now_ns += 100 * NS_PER_MS;
	}
	assert_true(err.is_outage);
	assert_in_range(lab->script.n_asked, 60, 70);
	assert_int_equal(lab->fake.n_recovered, 0);
	lab->script.n_answers = 0;
	lab_answer(lab, "/x", 200, "{}");
	lab->fake.now_ns += 30 * NS_PER_SEC;
	assert_true(ask(lab, HTTP_GET, false, &err));
	assert_int_equal(lab->fake.n_recovered, 1);
}

/* Requests that were never answered are not taken from the budget, so no caller waits for it to
 * recover afterwards. */
static void
an_outage_costs_no_budget(void **state)
{
	struct lab *lab = *state;
	struct error err;

	lab_add(lab,
	        (struct http_script_answer){ .target = "/x",
	                                     .status = 200,
	                                     .body = "{}",
	                                     .limit = 3600,
	                                     .remaining = 2000,
	                                     .reset_s = lab->fake.now_ns / NS_PER_SEC + 1600 });
	lab_add(lab, (struct http_script_answer){ .target = "/x", .code = ERR_UNAVAILABLE });
	assert_true(ask(lab, HTTP_GET, false, &err));
	for (int i = 0; i < 1800; i++) {
		/* a list of 5,000 servers */
		if (hz_api_admit(lab->api, HZ_URGENT, 100, &err))
			assert_false(ask(lab, HTTP_GET, false, &err));
		assert_int_equal(err.code, ERR_UNAVAILABLE);
		lab->fake.now_ns += NS_PER_SEC;
	}
	lab->script.n_answers = 0;
	lab_answer(lab, "/x", 200, "{}");
	lab->fake.now_ns += 30 * NS_PER_SEC;
	assert_true(ask(lab, HTTP_GET, false, &err));
	assert_true(hz_api_admit(lab->api, HZ_URGENT, 2000, &err));
}

static void
answers_about_one_thing_are_no_outage(void **state)
{
	static const struct {
		int status;
		const char *body;
	} answers[] = {
		{ 404, LAB_NOT_FOUND },
		{ 403, LAB_ERROR("forbidden") },
		{ 409, LAB_ERROR("uniqueness_error") },
		{ 422, LAB_ERROR("invalid_input") },
		{ 423, LAB_ERROR("locked") },
		{ 429, LAB_ERROR("rate_limit_exceeded") },
	};
	struct lab *lab = *state;
	struct error err;

	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		lab->script.n_answers = 0;
		lab->script.n_asked = 0;
		lab_answer(lab, "/x", answers[i].status, answers[i].body);
		for (int n = 0; n < 5; n++) {
			assert_false(ask(lab, HTTP_GET, false, &err));
			assert_false(err.is_outage);
		}
		assert_int_equal(lab->script.n_asked, 5);
	}
}

/* A caller with little time left that waits for a busy API learns nothing about it. */
static void
the_end_of_a_callers_time_is_no_outage(void **state)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct lab *lab = *state;
	struct call call = lab_call(lab, &arena);
	struct hz_request request = { .target = STR("/x"), .body = STR_EMPTY };

	call.deadline_mono_ns = lab->fake.now_ns;
	lab_add(lab, (struct http_script_answer){ .target = "/x", .code = ERR_TIMEOUT });
	for (int n = 0; n < 5; n++) {
		CLEANUP(hz_answer_fini) struct hz_answer answer = HZ_ANSWER_INIT;
		struct error err;

		assert_false(hz_api_do(lab->api, &call, &request, &answer, &err));
		assert_false(err.is_outage);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		IN_LAB(retries_what_may_heal),
		IN_LAB(several_attempts_are_reported_behind_the_error),
		IN_LAB(retries_nothing_else),
		IN_LAB(a_change_is_not_sent_twice),
		IN_LAB(past_the_rate_limit_no_worker_is_blocked),
		IN_LAB(at_start_it_is_patient),
		IN_LAB(errors_are_in_the_apis_words),
		IN_LAB(invalid_fields_and_the_correlation_id_are_named),
		IN_LAB(changes_leave_the_reserve_to_others),
		IN_LAB(a_wrong_token_is_reported_once),
		IN_LAB(a_token_that_may_only_read_is_reported_once),
		IN_LAB(silence_is_reported_after_a_minute),
		IN_LAB(an_answer_is_not_a_failure),
		IN_LAB(each_attempt_is_counted),
		IN_LAB(an_outage_is_probed_now_and_then),
		IN_LAB(an_outage_costs_no_budget),
		IN_LAB(answers_about_one_thing_are_no_outage),
		IN_LAB(the_end_of_a_callers_time_is_no_outage),
		cmocka_unit_test(secrets_are_blackened),
		cmocka_unit_test(a_request_is_shown_without_its_token),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
