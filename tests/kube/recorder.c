/* The transport is scripted, and the clock stands still until it is advanced. */
#include "kube/recorder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"
#include "base/metrics.h"
#include "kube/fake_http.h"
#include "fake_clock.h"

#define WALL_NS (INT64_C(1767322800) * NS_PER_SEC) /* 2026-01-02T03:00:00Z */
#define STATUS(reason, code) \
	"{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":\"" reason "\",\"code\":" #code "}"

static struct fake_http *http;
static struct fake_clock *fake;
static struct kube_client client;
static struct recorder *recorder;
static const struct event_object node = {
	"v1", "Node", { "", 0 }, { "worker-1", 8 }, { "u-1", 3 }
};

static int
set_up(void **state)
{
	(void)state;
	http = fake_http_new();
	fake = fake_clock_new(WALL_NS);
	client = (struct kube_client){ .http = fake_http_client(http),
		                       .clock = fake_clock_clock(fake),
		                       .host = "api:6443" };
	recorder = recorder_new(&client, "host_1", fake_clock_clock(fake));
	return 0;
}

/* Waits for everything that is queued. */
static void
flush(void)
{
	recorder_free(TAKE(recorder), /*flush_ms=*/60000);
}

static int
tear_down(void **state)
{
	(void)state;
	if (recorder)
		flush();
	fake_clock_free(fake);
	fake_http_free(http);
	return 0;
}

static void
tell(const char *message)
{
	recorder_event(recorder, "cloud-node-controller", &node, EVENT_NORMAL, "Synced",
	               str_c(message));
}

/* Returns when the n-th request was answered, and the thread waits again. */
static void
wait_for(size_t n)
{
	fake_http_wait(http, n);
	fake_clock_settle(fake, 1);
}

static void
without_a_client_events_are_dropped(void **state)
{
	(void)state;
	flush();
	recorder = recorder_new(/*client=*/NULL, "", fake_clock_clock(fake));
	tell("a");
	flush();
	assert_int_equal(fake_http_count(http), 0);
}

static double
counter(const char *name)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(MIB(1));
	int64_t value = 0;
	struct str rest;

	metrics_write_page(&text, METRICS_MAIN, METRICS_TEXT);
	for (struct str line, lines = buf_str(&text); str_split(&lines, '\n', &line);) {
		if (!str_starts(line, str_c(name)) ||
		    str_index(line, ' ') != (ptrdiff_t)strlen(name))
			continue;
		rest = str_skip(line, strlen(name) + 1);
		assert_true(str_to_i64(rest, 0, INT64_MAX, &value));
	}
	return (double)value;
}

static int64_t
count_of(size_t i)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct error err;
	int64_t count = 0;

	assert_true(json_parse(str_c(fake_http_request(http, i)->body), &doc, &err));
	assert_int_equal(json_i64(yyjson_doc_get_root(doc), "count", &count), JSON_FOUND);
	return count;
}

static void
check_message(size_t i, const char *expected)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct str message = STR_EMPTY;
	struct error err;

	assert_true(json_parse(str_c(fake_http_request(http, i)->body), &doc, &err));
	assert_int_equal(json_str(yyjson_doc_get_root(doc), "message", &message), JSON_FOUND);
	assert_int_equal(message.len, strlen(expected));
	assert_memory_equal(message.ptr, expected, message.len);
}

static enum http_method
method_of(size_t i)
{
	return fake_http_request(http, i)->method;
}

/* ---- the object ---- */

static void
a_new_event_is_created(void **state)
{
	const struct fake_request *r;

	(void)state;
	tell("Node synced \"successfully\"");
	flush();
	r = fake_http_request(http, 0);
	assert_int_equal(r->method, HTTP_POST);
	assert_int_equal(r->class, HTTP_BACKGROUND);
	assert_string_equal(r->target, "/api/v1/namespaces/default/events");
	assert_string_equal(
		r->body,
		"{\"apiVersion\":\"v1\",\"kind\":\"Event\","
		"\"metadata\":{\"name\":\"worker-1.1886cab91172e000\",\"namespace\":\"default\"},"
		"\"involvedObject\":{\"kind\":\"Node\",\"name\":\"worker-1\",\"uid\":\"u-1\",\"apiVersion\":\"v1\"},"
		"\"reason\":\"Synced\",\"message\":\"Node synced \\\"successfully\\\"\","
		"\"source\":{\"component\":\"cloud-node-controller\"},"
		"\"firstTimestamp\":\"2026-01-02T03:00:00Z\",\"lastTimestamp\":\"2026-01-02T03:00:00Z\",\"count\":1,"
		"\"type\":\"Normal\",\"eventTime\":null,"
		"\"reportingComponent\":\"cloud-node-controller\",\"reportingInstance\":\"host_1\"}");
	assert_int_equal(fake_http_count(http), 1);
}

static void
a_service_has_a_namespace(void **state)
{
	const struct event_object service = { "v1", "Service", STR("shop"), STR("web"),
		                              STR("u-2") };
	const struct fake_request *r;

	(void)state;
	recorder_event(recorder, "service-controller", &service, EVENT_WARNING,
	               "SyncLoadBalancerFailed", STR("no"));
	flush();
	r = fake_http_request(http, 0);
	assert_string_equal(r->target, "/api/v1/namespaces/shop/events");
	assert_non_null(strstr(r->body,
	                       "\"involvedObject\":{\"kind\":\"Service\",\"namespace\":\"shop\","));
	assert_non_null(strstr(r->body, "\"type\":\"Warning\""));
}

static void
a_name_that_is_no_dns_name_is_hashed(void **state)
{
	const struct event_object odd = { "v1", "Node", STR_EMPTY, STR("A/../B"), STR_EMPTY };

	(void)state;
	recorder_event(recorder, "c", &odd, EVENT_NORMAL, "R", STR("m"));
	flush();
	assert_null(strstr(fake_http_request(http, 0)->body, "{\"name\":\"A/"));
	assert_non_null(strstr(fake_http_request(http, 0)->body, ".1886cab91172e000\""));
}

static void
events_of_one_moment_have_different_names(void **state)
{
	(void)state;
	tell("one");
	tell("two");
	flush();
	assert_non_null(strstr(fake_http_request(http, 0)->body, "worker-1.1886cab91172e000\""));
	assert_non_null(strstr(fake_http_request(http, 1)->body, "worker-1.1886cab91172e001\""));
}

static void
a_long_message_is_cut_between_characters(void **state)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(4));

	(void)state;
	while (text.len < LIMIT_EVENT_MESSAGE - 1)
		buf_add_char(&text, 'a');
	buf_add_c(&text, "\xc3\xa4\xc3\xa4");
	tell(text.ptr);
	flush();
	buf_truncate(&text, LIMIT_EVENT_MESSAGE - 1);
	check_message(0, text.ptr);
}

/* ---- correlation ---- */

static void
a_repeat_raises_the_count(void **state)
{
	const struct fake_request *r;

	(void)state;
	tell("same");
	wait_for(1);
	fake_clock_advance(fake, 5 * NS_PER_SEC);
	tell("same");
	tell("same");
	flush();
	assert_int_equal(fake_http_count(http), 3);
	r = fake_http_request(http, 1);
	assert_int_equal(r->method, HTTP_PATCH);
	assert_int_equal(r->class, HTTP_BACKGROUND);
	assert_string_equal(r->target,
	                    "/api/v1/namespaces/default/events/worker-1.1886cab91172e000");
	assert_string_equal(
		r->body,
		"{\"count\":2,\"lastTimestamp\":\"2026-01-02T03:00:05Z\",\"message\":\"same\"}");
	assert_int_equal(count_of(2), 3);
}

static void
other_objects_types_and_reasons_are_others(void **state)
{
	const struct event_object other = { "v1", "Node", STR_EMPTY, STR("worker-1"), STR("u-2") };

	(void)state;
	tell("same");
	recorder_event(recorder, "cloud-node-controller", &node, EVENT_WARNING, "Synced",
	               STR("same"));
	recorder_event(recorder, "cloud-node-controller", &node, EVENT_NORMAL, "Other",
	               STR("same"));
	recorder_event(recorder, "other-controller", &node, EVENT_NORMAL, "Synced", STR("same"));
	recorder_event(recorder, "cloud-node-controller", &other, EVENT_NORMAL, "Synced",
	               STR("same"));
	flush();
	assert_int_equal(fake_http_count(http), 5);
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(method_of(i), HTTP_POST);
}

static void
a_forgotten_event_is_created_again(void **state)
{
	(void)state;
	fake_http_answer(http, 201, "{}");
	fake_http_answer(http, 404, STATUS("NotFound", 404));
	fake_http_answer(http, 201, "{}");
	tell("same");
	wait_for(1);
	fake_clock_advance(fake, 5 * NS_PER_SEC);
	tell("same");
	flush();
	assert_int_equal(fake_http_count(http), 3);
	assert_int_equal(method_of(2), HTTP_POST);
	assert_int_equal(count_of(2), 2);
	assert_non_null(strstr(fake_http_request(http, 2)->body, "\"worker-1.1886cab91172e000\""));
	assert_non_null(strstr(fake_http_request(http, 2)->body,
	                       "\"firstTimestamp\":\"2026-01-02T03:00:00Z\","
	                       "\"lastTimestamp\":\"2026-01-02T03:00:05Z\""));
}

static void
after_an_hour_a_repeat_is_new(void **state)
{
	(void)state;
	tell("same");
	wait_for(1);
	fake_clock_advance(fake, 3601 * NS_PER_SEC);
	fake_clock_settle(fake, 1);
	tell("same");
	flush();
	assert_int_equal(method_of(1), HTTP_POST);
	assert_int_equal(count_of(1), 1);
}

static void
tell_number(int i)
{
	char text[32] = "";
	struct buf b = BUF_FIXED(text);

	buf_addf(&b, "message %d", i);
	tell(text);
}

static void
ten_different_messages_are_combined(void **state)
{
	(void)state;
	for (int i = 1; i <= 11; i++)
		tell_number(i);
	tell_number(1);
	flush();
	assert_int_equal(fake_http_count(http), 12);
	for (size_t i = 0; i < 10; i++)
		assert_int_equal(method_of(i), HTTP_POST);
	check_message(8, "message 9");
	check_message(9, "(combined from similar events): message 10");
	assert_non_null(strstr(fake_http_request(http, 9)->body, "\"reportingComponent\":\"\""));
	assert_int_equal(method_of(10), HTTP_PATCH);
	assert_int_equal(count_of(10), 2);
	check_message(10, "(combined from similar events): message 11");
	check_message(11, "(combined from similar events): message 1");
	assert_string_equal(fake_http_request(http, 10)->target,
	                    fake_http_request(http, 11)->target);
}

static void
the_window_ends(void **state)
{
	(void)state;
	for (int i = 1; i <= 9; i++)
		tell_number(i);
	wait_for(9);
	fake_clock_advance(fake, 601 * NS_PER_SEC);
	fake_clock_settle(fake, 1);
	tell_number(10);
	flush();
	check_message(9, "message 10");
}

static void
floods_are_dropped(void **state)
{
	const struct event_object other = { "v1", "Node", STR_EMPTY, STR("worker-2"), STR("u-2") };
	double dropped;

	(void)state;
	dropped = counter("ccmd_events_dropped_total{reason=\"spam\"}");
	for (int i = 0; i < 30; i++)
		tell("same");
	recorder_event(recorder, "cloud-node-controller", &other, EVENT_NORMAL, "Synced",
	               STR("same"));
	wait_for(26);
	fake_clock_advance(fake, 299 * NS_PER_SEC);
	tell("same");
	recorder_event(recorder, "cloud-node-controller", &other, EVENT_NORMAL, "Synced",
	               STR("same"));
	wait_for(27);
	fake_clock_advance(fake, NS_PER_SEC);
	tell("same");
	flush();
	assert_int_equal(fake_http_count(http), 28);
	assert_int_equal(count_of(24), 25);
	assert_int_equal(count_of(27), 32); /* those that were dropped count */
	assert_true(counter("ccmd_events_dropped_total{reason=\"spam\"}") == dropped + 6);
}

static void
tell_of(const char *name)
{
	const struct event_object object = { "v1", "Node", STR_EMPTY, str_c(name), STR("u") };

	recorder_event(recorder, "c", &object, EVENT_NORMAL, "R", STR("m"));
}

static void
what_was_not_used_for_longest_is_forgotten(void **state)
{
	size_t n = 1;

	(void)state;
	tell("same");
	for (int i = 0; i < LIMIT_EVENT_CACHE + 500; i++) {
		char name[32] = "";
		struct buf b = BUF_FIXED(name);

		buf_addf(&b, "n-%d", i);
		tell_of(name);
		n++;
		if (i % 2000 == 0) {
			tell_of("kept");
			n++;
		}
		if (i % 500 == 0)
			wait_for(n);
	}
	wait_for(n);
	tell_of("kept");
	tell("same");
	flush();
	assert_int_equal(method_of(n), HTTP_PATCH);
	assert_int_equal(method_of(n + 1), HTTP_POST);
}

/* ---- failures ---- */

static void
a_lost_connection_is_tried_again(void **state)
{
	double written = counter("ccmd_events_written_total");

	(void)state;
	fake_http_add(http, (struct fake_answer){ .code = ERR_UNAVAILABLE });
	fake_http_add(http, (struct fake_answer){ .code = ERR_TIMEOUT });
	fake_http_answer(http, 201, "{}");
	tell("m");
	wait_for(1);
	fake_clock_advance(fake, 10 * NS_PER_SEC);
	wait_for(2);
	fake_clock_advance(fake, 9 * NS_PER_SEC);
	fake_clock_settle(fake, 1);
	assert_int_equal(fake_http_count(http), 2);
	fake_clock_advance(fake, NS_PER_SEC);
	wait_for(3);
	flush();
	assert_int_equal(fake_http_count(http), 3);
	assert_string_equal(fake_http_request(http, 0)->body, fake_http_request(http, 2)->body);
	assert_true(counter("ccmd_events_written_total") == written + 1);
}

static void
after_twelve_tries_it_is_dropped(void **state)
{
	double failed = counter("ccmd_events_dropped_total{reason=\"failed\"}");

	(void)state;
	fake_http_add(http, (struct fake_answer){ .code = ERR_UNAVAILABLE });
	tell("m");
	for (size_t i = 1; i <= 11; i++) {
		wait_for(i);
		fake_clock_advance(fake, 10 * NS_PER_SEC);
	}
	wait_for(12);
	fake_clock_advance(fake, 10 * NS_PER_SEC);
	flush();
	assert_int_equal(fake_http_count(http), 12);
	assert_true(counter("ccmd_events_dropped_total{reason=\"failed\"}") == failed + 1);
}

static void
what_the_server_says_is_final(void **state)
{
	double failed = counter("ccmd_events_dropped_total{reason=\"failed\"}");
	double written = counter("ccmd_events_written_total");

	(void)state;
	fake_http_answer(http, 403, STATUS("Forbidden", 403));
	fake_http_answer(http, 500, STATUS("InternalError", 500));
	fake_http_answer(http, 502, "<html>");
	fake_http_answer(http, 409, STATUS("AlreadyExists", 409));
	for (int i = 0; i < 4; i++)
		tell_number(i);
	flush();
	assert_int_equal(fake_http_count(http), 4);
	assert_true(counter("ccmd_events_dropped_total{reason=\"failed\"}") == failed + 3);
	assert_true(counter("ccmd_events_written_total") == written + 1);
}

/* ---- bounds and the end ---- */

static void
a_full_queue_drops_the_new(void **state)
{
	double full = counter("ccmd_events_dropped_total{reason=\"queue_full\"}");
	double shutdown = counter("ccmd_events_dropped_total{reason=\"shutdown\"}");

	(void)state;
	fake_http_add(http, (struct fake_answer){ .hangs = true });
	tell("hangs");
	fake_http_wait(http, 1);
	for (int i = 0; i < LIMIT_EVENT_QUEUE + 7; i++)
		tell("waits");
	assert_true(counter("ccmd_events_dropped_total{reason=\"queue_full\"}") == full + 7);
	recorder_free(TAKE(recorder), /*flush_ms=*/0);
	/* the filter lets 25 through to the cancelled client */
	assert_true(counter("ccmd_events_dropped_total{reason=\"shutdown\"}") >= shutdown + 1);
}

/* Even if the queue is full, because at the end there may be no time for the other events. Their
 * order is kept. */
static void
what_goes_first_is_written_first(void **state)
{
	double full = counter("ccmd_events_dropped_total{reason=\"queue_full\"}");

	(void)state;
	fake_http_add(http, (struct fake_answer){ .code = ERR_UNAVAILABLE });
	fake_http_answer(http, 201, "{}");
	tell("lost");
	wait_for(1);
	for (int i = 0; i < LIMIT_EVENT_QUEUE; i++)
		tell_of("n");
	recorder_event_first(recorder, "c", &node, EVENT_NORMAL, "R", STR("leads"));
	recorder_event_first(recorder, "c", &node, EVENT_NORMAL, "R", STR("leads no more"));
	assert_true(counter("ccmd_events_dropped_total{reason=\"queue_full\"}") == full);
	flush();
	check_message(1, "leads");
	check_message(2, "leads no more");
	assert_true(fake_http_count(http) > 3);
}

static void
retries_are_abandoned_at_the_end(void **state)
{
	double shutdown = counter("ccmd_events_dropped_total{reason=\"shutdown\"}");

	(void)state;
	fake_http_add(http, (struct fake_answer){ .code = ERR_UNAVAILABLE });
	fake_http_answer(http, 201, "{}");
	tell("lost");
	wait_for(1);
	tell("written");
	flush();
	assert_int_equal(fake_http_count(http), 2);
	check_message(1, "written");
	assert_true(counter("ccmd_events_dropped_total{reason=\"shutdown\"}") == shutdown + 1);
}

static void *
free_recorder(void *arg)
{
	recorder_free(arg, /*flush_ms=*/2000);
	return NULL;
}

static void
flushing_ends_at_its_deadline(void **state)
{
	pthread_t thread;

	(void)state;
	fake_http_add(http, (struct fake_answer){ .hangs = true });
	tell("hangs");
	wait_for(1);
	assert_int_equal(pthread_create(&thread, NULL, free_recorder, TAKE(recorder)), 0);
	fake_clock_settle(fake, 2);
	fake_clock_advance(fake, 2 * NS_PER_SEC);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void *
tell_often(void *arg)
{
	(void)arg;
	for (int i = 0; i < 100; i++)
		tell_number(i);
	return NULL;
}

static void
many_threads_may_report(void **state)
{
	pthread_t threads[4];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, tell_often, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	flush();
	assert_int_equal(fake_http_count(http), 25);
}

#define SCRIPTED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		SCRIPTED(without_a_client_events_are_dropped),
		SCRIPTED(a_new_event_is_created),
		SCRIPTED(a_service_has_a_namespace),
		SCRIPTED(a_name_that_is_no_dns_name_is_hashed),
		SCRIPTED(events_of_one_moment_have_different_names),
		SCRIPTED(a_long_message_is_cut_between_characters),
		SCRIPTED(a_repeat_raises_the_count),
		SCRIPTED(other_objects_types_and_reasons_are_others),
		SCRIPTED(a_forgotten_event_is_created_again),
		SCRIPTED(after_an_hour_a_repeat_is_new),
		SCRIPTED(ten_different_messages_are_combined),
		SCRIPTED(the_window_ends),
		SCRIPTED(floods_are_dropped),
		SCRIPTED(what_was_not_used_for_longest_is_forgotten),
		SCRIPTED(a_lost_connection_is_tried_again),
		SCRIPTED(after_twelve_tries_it_is_dropped),
		SCRIPTED(what_the_server_says_is_final),
		SCRIPTED(a_full_queue_drops_the_new),
		SCRIPTED(what_goes_first_is_written_first),
		SCRIPTED(retries_are_abandoned_at_the_end),
		SCRIPTED(flushing_ends_at_its_deadline),
		SCRIPTED(many_threads_may_report),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
