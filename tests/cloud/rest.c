#include "cloud/rest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/metrics.h"
#include "cloud/fake_host.h"
#include "cloud/http_script.h"

struct world {
	struct fake_host fake;
	struct http_script script;
	struct rest *rest;
	struct arena arena;
	struct call call;
	struct error err;
	struct buf read; /* the items of a list, each followed by a space */
};

static void
open_rest(struct world *w, bool has_plain_404)
{
	rest_free(TAKE(w->rest));
	assert_true(rest_new(&(struct rest_config){ .host = &w->fake.host,
	                                            .name = "toy",
	                                            .base_url = STR("https://toy.example/v1"),
	                                            .has_plain_404 = has_plain_404 },
	                     &w->rest, &w->err));
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
	w->read = BUF_INIT(10000);
	open_rest(w, false);
	*state = w;
	return 0;
}

static int
teardown(void **state)
{
	struct world *w = *state;

	rest_free(w->rest);
	http_script_fini(&w->script);
	fake_host_fini(&w->fake);
	arena_fini(&w->arena);
	buf_fini(&w->read);
	free(w);
	return 0;
}

/* ---- requests ---- */

static bool
get(struct world *w, yyjson_doc **ret)
{
	struct http_request request = { .method = HTTP_GET, .target = STR("/machines/7") };

	return rest_do(w->rest, &w->call, &request, ret, &w->err);
}

static void
check_failure(struct world *w, int status, const char *body, enum err_code code,
              const char *message)
{
	yyjson_doc *doc = NULL;

	w->script.n_answers = 0;
	http_script_answer(&w->script, "/machines/7", status, body);
	open_rest(w, false); /* since none of these is about outages */
	assert_false(get(w, &doc));
	assert_null(doc);
	assert_string_equal(w->err.msg, message);
	assert_int_equal(w->err.code, code);
}

static void
an_answer_is_a_document(void **state)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct world *w = *state;
	struct str name;

	http_script_answer(&w->script, "/machines/7", 200, "{\"name\": \"n7\"}");
	assert_true(get(w, &doc));
	assert_int_equal(json_str(yyjson_doc_get_root(doc), "name", &name), JSON_FOUND);
	assert_true(str_eq_c(name, "n7"));
}

static void
a_command_about_one_object_sends_few_requests(void **state)
{
	struct host_requests requests = { .max = 2 };
	struct world *w = *state;
	yyjson_doc *doc = NULL;

	w->fake.host.requests = &requests;
	http_script_answer(&w->script, "/machines/7", 204, NULL);
	http_script_answer(&w->script, "/machines/7", 204, NULL);
	assert_true(get(w, &doc));
	assert_true(get(w, &doc));
	assert_false(get(w, &doc));
	assert_int_equal(w->err.code, ERR_UNAVAILABLE);
	assert_non_null(strstr(w->err.msg, "at most 2 requests"));
	http_script_check_asked(&w->script, "/machines/7\n/machines/7\n");
}

static void
an_answer_without_a_body_is_no_document(void **state)
{
	yyjson_doc *doc = (yyjson_doc *)state;
	struct world *w = *state;
	struct http_request request = { .method = HTTP_POST,
		                        .target = STR("/machines"),
		                        .body = STR("{}") };

	http_script_answer(&w->script, "/machines/7", 204, NULL);
	assert_true(get(w, &doc));
	assert_null(doc);
	http_script_answer(&w->script, "POST /machines", 200, "not JSON, and not wanted");
	assert_true(rest_do(w->rest, &w->call, &request, NULL, &w->err));
	http_script_check_asked(&w->script, "/machines/7\nPOST /machines {}\n");
}

static void
an_error_ends_with_the_message_of_the_api(void **state)
{
	struct world *w = *state;

	check_failure(w, 409, "{\"error\": {\"message\": \"it is locked\"}}", ERR_CONFLICT,
	              "GET /machines/7: 409 it is locked");
	check_failure(w, 422, "{\"message\": \"no such size\"}", ERR_INVALID,
	              "GET /machines/7: 422 no such size");
	check_failure(w, 403, "{\"detail\": \"read only\"}", ERR_FORBIDDEN,
	              "GET /machines/7: 403 read only");
	check_failure(w, 500, "{\"error\": \"oops\"}", ERR_UNAVAILABLE,
	              "GET /machines/7: 500 oops");
	check_failure(w, 502, "bad\ngateway", ERR_UNAVAILABLE,
	              "GET /machines/7: 502 Bad Gateway (the response is not JSON, 11 bytes)");
}

static void
requests_are_counted(void **state)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(64));
	struct world *w = *state;
	yyjson_doc *doc = NULL;

	http_script_answer(&w->script, "/machines/7", 422, "{}");
	http_script_add(&w->script, (struct http_script_answer){ .target = "/machines/7",
	                                                         .code = ERR_UNAVAILABLE });
	assert_false(get(w, &doc));
	assert_false(get(w, &doc));
	metrics_write_page(&text, METRICS_MAIN, METRICS_TEXT);
	assert_non_null(strstr(
		text.ptr, "ccmd_cloud_requests_total{cloud=\"toy\",code=\"422\",method=\"GET\"}"));
	assert_null(strstr(text.ptr, "{cloud=\"toy\",code=\"error\",method=\"GET\"} 0\n"));
}

static void
a_2xx_that_is_not_json_is_no_answer(void **state)
{
	struct world *w = *state;
	yyjson_doc *doc = NULL;

	http_script_answer(&w->script, "/machines/7", 200, "<html>Please log in</html>");
	assert_false(get(w, &doc));
	assert_int_equal(w->err.code, ERR_UNAVAILABLE);
}

/* A node may be deleted for it. */
static void
a_404_counts_only_in_the_words_of_the_api(void **state)
{
	struct world *w = *state;
	yyjson_doc *doc = NULL;

	check_failure(w, 404, "{\"message\": \"no machine 7\"}", ERR_NOT_FOUND,
	              "GET /machines/7: 404 no machine 7");
	check_failure(w, 404, "<html>nginx</html>", ERR_UNAVAILABLE,
	              "GET /machines/7: 404 Not Found (the response is not JSON, 18 bytes)");
	check_failure(w, 404, NULL, ERR_UNAVAILABLE, "GET /machines/7: 404 Not Found");
	open_rest(w, true);
	assert_false(get(w, &doc));
	assert_int_equal(w->err.code, ERR_NOT_FOUND);
}

static void
the_call_remembers_what_was_answered(void **state)
{
	static const struct http_script_answer answers[] = {
		{ .target = "/machines/7", .status = 404, .body = "{}" },
		{ .target = "/machines/7", .status = 200, .body = "{}" },
		{ .target = "/machines/7", .status = 404, .body = "{}" },
		{ .target = "/machines/7", .code = ERR_TIMEOUT },
	};
	static const int statuses[] = { 404, 200, 404, -1 };
	struct world *w = *state;
	yyjson_doc *doc = NULL;

	for (size_t i = 0; i < ARRAY_LEN(answers); i++)
		http_script_add(&w->script, answers[i]);
	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		(void)get(w, &doc);
		assert_int_equal(w->call.answers.last_status, statuses[i]);
		assert_int_equal(w->call.answers.has_success, i > 0);
		yyjson_doc_free(TAKE(doc));
	}
	rest_forget_answers(&w->call);
	assert_int_equal(w->call.answers.last_status, 0);
	assert_false(w->call.answers.has_success);
}

static void
a_throttled_request_says_when_to_come_back(void **state)
{
	struct world *w = *state;
	yyjson_doc *doc = NULL;

	http_script_add(&w->script, (struct http_script_answer){ .target = "/machines/7",
	                                                         .status = 429,
	                                                         .retry_after_ms = 7000 });
	assert_false(get(w, &doc));
	assert_int_equal(w->err.code, ERR_THROTTLED);
	assert_int_equal(w->err.retry_after_ms, 7000);
}

static void
ids_are_escaped(void **state)
{
	struct world *w = *state;
	struct str target = rest_target(&w->call, "/machines/", STR("a/../b?c"), "/power");

	assert_true(str_eq_c(target, "/machines/a%2F..%2Fb%3Fc/power"));
}

/* ---- outages ---- */

static void
during_an_outage_only_probes_are_sent(void **state)
{
	struct world *w = *state;
	yyjson_doc *doc = NULL;

	http_script_answer(&w->script, "/machines/7", 503, NULL);
	assert_false(get(w, &doc));
	assert_false(get(w, &doc));
	assert_true(w->err.is_outage);
	assert_false(get(w, &doc));
	assert_int_equal(w->script.n_asked, 2);
	w->script.n_answers = 0;
	http_script_answer(&w->script, "/machines/7", 404, "{}");
	w->fake.now_ns += 2 * NS_PER_SEC;
	assert_false(get(w, &doc));
	assert_int_equal(w->err.code, ERR_NOT_FOUND);
	assert_int_equal(w->fake.n_recovered, 1);
}

static void
a_failure_of_one_request_is_no_outage(void **state)
{
	static const struct http_script_answer answers[] = {
		{ .target = "/machines/7", .code = ERR_CANCELLED },
		{ .target = "/machines/7", .code = ERR_INVALID },
		{ .target = "/machines/7", .status = 403, .body = "{}" },
		{ .target = "/machines/7", .status = 429 },
		{ .target = "/machines/7", .status = 501 },
	};
	struct world *w = *state;
	yyjson_doc *doc = NULL;

	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		w->script.n_answers = 0;
		http_script_add(&w->script, answers[i]);
		for (int n = 0; n < 3; n++) {
			assert_false(get(w, &doc));
			assert_false(w->err.is_outage);
		}
	}
}

/* ---- lists ---- */

static bool
read_item(void *arg, struct call *call, yyjson_val *item, struct error *err)
{
	struct world *w = arg;
	int64_t number;

	assert_ptr_equal(call, &w->call);
	if (json_i64(item, "", &number) != JSON_FOUND)
		return err_set(err, ERR_INVALID, "no number");
	buf_addf(&w->read, "%d ", (int)number);
	return true;
}

static bool
read_list(struct world *w, const struct rest_list *list, bool *ret_is_complete)
{
	buf_reset(&w->read);
	return rest_list(w->rest, &w->call, list, read_item, w, ret_is_complete, &w->err);
}

static void
check_list(struct world *w, const struct rest_list *list, const char *items, bool is_complete)
{
	bool is_so = !is_complete;

	if (!read_list(w, list, &is_so))
		fail_msg("%s", w->err.msg);
	assert_string_equal(w->read.ptr, items);
	assert_int_equal(is_so, is_complete);
	assert_true(read_list(w, list, NULL));
	buf_reset(&w->script.asked);
	w->script.n_answers = 0;
}

static void
one_page_is_the_whole_list(void **state)
{
	struct rest_list list = { .target = "/list", .items = "" };
	struct world *w = *state;

	http_script_answer(&w->script, "/list", 200, "[1, 2]");
	check_list(w, &list, "1 2 ", true);
	http_script_answer(&w->script, "/list", 200, "[]");
	check_list(w, &list, "", true);
	list = (struct rest_list){ .target = "/list", .items = "a.b", .total = "n" };
	http_script_answer(&w->script, "/list", 200, "{\"a\": {\"b\": [1]}, \"n\": 1}");
	check_list(w, &list, "1 ", true);
	http_script_answer(&w->script, "/list", 200, "{\"a\": {\"b\": [1]}, \"n\": 2}");
	check_list(w, &list, "1 ", false);
}

static const struct rest_list offsets = { .target = "/list?sort=id",
	                                  .items = "items",
	                                  .paging = REST_OFFSET,
	                                  .page_key = "offset",
	                                  .size_key = "limit",
	                                  .page_size = 2,
	                                  .total = "total" };

#define OFFSET(n) "/list?sort=id&offset=" #n "&limit=2"

static void
a_list_by_offset_is_complete_when_its_pages_agree(void **state)
{
	struct world *w = *state;

	http_script_answer(&w->script, OFFSET(0), 200, "{\"items\": [1, 2], \"total\": 4}");
	http_script_answer(&w->script, OFFSET(2), 200, "{\"items\": [3, 4], \"total\": 4}");
	check_list(w, &offsets, "1 2 3 4 ", true);
	/* one was deleted meanwhile, and another one slipped through */
	http_script_answer(&w->script, OFFSET(0), 200, "{\"items\": [1, 2], \"total\": 4}");
	http_script_answer(&w->script, OFFSET(2), 200, "{\"items\": [4], \"total\": 3}");
	check_list(w, &offsets, "1 2 4 ", false);
	http_script_answer(&w->script, OFFSET(0), 200, "{\"items\": [1, 2], \"total\": 3}");
	http_script_answer(&w->script, OFFSET(2), 200, "{\"items\": [], \"total\": 3}");
	check_list(w, &offsets, "1 2 ", false);
	http_script_answer(&w->script, OFFSET(0), 200, "{\"items\": [1, 2], \"total\": 3}");
	http_script_answer(&w->script, OFFSET(2), 200, "{\"items\": [3]}");
	check_list(w, &offsets, "1 2 3 ", false);
	/* one was made meanwhile, and the last two pages agree */
	http_script_answer(&w->script, OFFSET(0), 200, "{\"items\": [1, 2], \"total\": 4}");
	http_script_answer(&w->script, OFFSET(2), 200, "{\"items\": [3, 4], \"total\": 5}");
	http_script_answer(&w->script, OFFSET(4), 200, "{\"items\": [5], \"total\": 5}");
	check_list(w, &offsets, "1 2 3 4 5 ", false);
}

static void
without_a_total_pages_by_number_are_never_complete(void **state)
{
	static const struct rest_list list = { .target = "/list",
		                               .items = "",
		                               .paging = REST_PAGE_NUMBER,
		                               .page_key = "page",
		                               .page_size = 2 };
	struct world *w = *state;

	http_script_answer(&w->script, "/list?page=1", 200, "[1]");
	check_list(w, &list, "1 ", true);
	http_script_answer(&w->script, "/list?page=1", 200, "[1, 2]");
	http_script_answer(&w->script, "/list?page=2", 200, "[3]");
	check_list(w, &list, "1 2 3 ", false);
	http_script_answer(&w->script, "/list?page=1", 200, "[1, 2]");
	http_script_answer(&w->script, "/list?page=2", 200, "[]");
	check_list(w, &list, "1 2 ", false);
}

static const struct rest_list tokens = { .target = "/list",
	                                 .items = "items",
	                                 .paging = REST_NEXT_TOKEN,
	                                 .page_key = "token",
	                                 .next = "next" };

static void
a_list_by_token_ends_without_one(void **state)
{
	static const char *const ends[] = { "null", "\"\"", "0", "false" };
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		char last[100];

		snprintf(last, sizeof(last), "{\"items\": [3], \"next\": %s}", ends[i]);
		http_script_answer(&w->script, "/list", 200, "{\"items\": [1], \"next\": \"a b\"}");
		http_script_answer(&w->script, "/list?token=a%20b", 200,
		                   "{\"items\": [2], \"next\": 5}");
		http_script_answer(&w->script, "/list?token=5", 200, last);
		check_list(w, &tokens, "1 2 3 ", true);
	}
}

/* With a wrong name every list would be its first page, and nodes of the others be deleted. */
static void
a_list_by_token_that_does_not_name_the_next_page_is_an_error(void **state)
{
	static const struct {
		const char *body, *message;
	} rows[] = {
		{ "{\"items\": [1], \"nxt\": \"a\"}", "GET /list: no \"next\"" },
		{ "{\"items\": [1], \"next\": {\"id\": 2}}",
		  "GET /list: \"next\" is no text or number" },
		{ "{\"items\": [1], \"next\": 18446744073709551615}",
		  "GET /list: \"next\" is no text or number" },
		{ "{\"items\": [1], \"next\": true}", "GET /list: \"next\" is no text or number" },
	};
	struct rest_list nested = tokens;
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		w->script.n_answers = 0;
		http_script_answer(&w->script, "/list", 200, rows[i].body);
		assert_false(read_list(w, &tokens, NULL));
		assert_int_equal(w->err.code, ERR_UNAVAILABLE);
		assert_string_equal(w->err.msg, rows[i].message);
	}
	nested.next = "meta.next";
	w->script.n_answers = 0;
	http_script_answer(&w->script, "/list", 200, "{\"items\": [1], \"meta\": null}");
	assert_false(read_list(w, &nested, NULL));
	assert_string_equal(w->err.msg, "GET /list: no \"meta.next\"");
	w->script.n_answers = 0;
	http_script_answer(&w->script, "/list", 200,
	                   "{\"items\": [1], \"meta\": {\"next\": null}}");
	check_list(w, &nested, "1 ", true);
}

static void
an_api_may_leave_out_the_token_on_the_last_page(void **state)
{
	struct rest_list list = tokens;
	struct world *w = *state;

	list.next_may_be_absent = true;
	http_script_answer(&w->script, "/list", 200, "{\"items\": [1], \"next\": \"a\"}");
	http_script_answer(&w->script, "/list?token=a", 200, "{\"items\": [2]}");
	check_list(w, &list, "1 2 ", true);
}

static void
a_list_without_end_is_given_up(void **state)
{
	struct world *w = *state;

	http_script_answer(&w->script, "/list*", 200, "{\"items\": [1], \"next\": \"a\"}");
	assert_false(read_list(w, &tokens, NULL));
	assert_int_equal(w->err.code, ERR_UNAVAILABLE);
	assert_int_equal(w->script.n_asked, 2);
}

static void
what_has_no_items_is_no_list(void **state)
{
	static const char *const bodies[] = { "{}", "[]", "{\"items\": {}}", "{\"items\": null}",
		                              NULL };
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		w->script.n_answers = 0;
		http_script_answer(&w->script, "/list", 200, bodies[i]);
		assert_false(read_list(w, &tokens, NULL));
		assert_int_equal(w->err.code, ERR_UNAVAILABLE);
		assert_string_equal(w->err.msg, "GET /list: no array \"items\"");
	}
}

/* A list that does not exist says nothing about what it would contain. */
static void
a_404_of_a_list_is_not_about_its_items(void **state)
{
	struct rest_list list = { .target = "/list", .items = "" };
	struct world *w = *state;

	http_script_answer(&w->script, "/list", 404, "{\"message\": \"no such page\"}");
	assert_false(read_list(w, &list, NULL));
	assert_int_equal(w->err.code, ERR_UNAVAILABLE);
}

static void
an_item_may_end_the_list(void **state)
{
	struct world *w = *state;

	http_script_answer(&w->script, "/list", 200, "{\"items\": [1, \"x\", 3]}");
	assert_false(read_list(w, &tokens, NULL));
	assert_string_equal(w->err.msg, "no number");
	assert_string_equal(w->read.ptr, "1 ");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(an_answer_is_a_document),
		TEST(a_command_about_one_object_sends_few_requests),
		TEST(an_answer_without_a_body_is_no_document),
		TEST(an_error_ends_with_the_message_of_the_api),
		TEST(requests_are_counted),
		TEST(a_2xx_that_is_not_json_is_no_answer),
		TEST(a_404_counts_only_in_the_words_of_the_api),
		TEST(the_call_remembers_what_was_answered),
		TEST(a_throttled_request_says_when_to_come_back),
		TEST(ids_are_escaped),
		TEST(during_an_outage_only_probes_are_sent),
		TEST(a_failure_of_one_request_is_no_outage),
		TEST(one_page_is_the_whole_list),
		TEST(a_list_by_offset_is_complete_when_its_pages_agree),
		TEST(without_a_total_pages_by_number_are_never_complete),
		TEST(a_list_by_token_ends_without_one),
		TEST(a_list_by_token_that_does_not_name_the_next_page_is_an_error),
		TEST(an_api_may_leave_out_the_token_on_the_last_page),
		TEST(a_list_without_end_is_given_up),
		TEST(what_has_no_items_is_no_list),
		TEST(a_404_of_a_list_is_not_about_its_items),
		TEST(an_item_may_end_the_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
