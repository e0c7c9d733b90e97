#include "kube/object.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"
#include "kube/node.h"

/* The event, with the document it points into. */
static yyjson_doc *
read_line(const char *line, struct watch_event *ret)
{
	struct error err = { 0 };
	yyjson_doc *doc = NULL;

	if (!json_parse(str_c(line), &doc, &err) ||
	    !watch_read(&node_kind.kind, yyjson_doc_get_root(doc), ret, &err))
		fail_msg("%s: %s", line, err.msg);
	return doc;
}

static void
check_type(const char *line, enum watch_type type, const char *version)
{
	struct watch_event event;
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = read_line(line, &event);

	if (event.type != type)
		fail_msg("%s: %s", line, event.type_name);
	assert_true(str_eq_c(event.resource_version, version));
	assert_non_null(doc);
}

#define NODE "{\"kind\":\"Node\",\"metadata\":{\"resourceVersion\":\"7\"}}"

static void
reads_events(void **state)
{
	(void)state;
	check_type("{\"type\":\"ADDED\",\"object\":" NODE "}", WATCH_ADDED, "7");
	check_type("{\"type\":\"MODIFIED\",\"object\":" NODE "}", WATCH_MODIFIED, "7");
	check_type("{\"object\":" NODE ",\"type\":\"DELETED\",\"more\":1}", WATCH_DELETED, "7");
	check_type("{\"type\":\"BOOKMARK\",\"object\":" NODE "}", WATCH_BOOKMARK, "7");
	check_type("{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\"}}", WATCH_ERROR, "");
}

static void
recognises_events_to_skip(void **state)
{
	(void)state;
	check_type(
		"{\"type\":\"ADDED\",\"object\":{\"kind\":\"Pod\",\"metadata\":{\"resourceVersion\":\"7\"}}}",
		WATCH_SKIPPED, "");
	check_type("{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Node\",\"metadata\":{}}}",
	           WATCH_SKIPPED, "");
	check_type(
		"{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Node\",\"metadata\":{\"resourceVersion\":7}}}",
		WATCH_SKIPPED, "");
	check_type("{\"type\":\"DELETED\"}", WATCH_SKIPPED, "");
}

static void
refuses_what_is_no_event(void **state)
{
	static const char *const lines[] = { "[]", "{}", "{\"type\":1}", "{\"type\":\"added\"}",
		                             "{\"type\":\"ADDED\",\"object\":1}" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
		struct watch_event event;
		struct error err = { 0 };

		assert_true(json_parse(str_c(lines[i]), &doc, &err));
		assert_false(watch_read(&node_kind.kind, yyjson_doc_get_root(doc), &event, &err));
		assert_int_equal(err.code, ERR_INVALID);
	}
}

static struct error
status_error(const char *status)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct error err = { 0 };

	assert_true(json_parse(str_c(status), &doc, &err));
	assert_false(watch_status_error(yyjson_doc_get_root(doc), &err));
	return err;
}

static void
says_why_a_watch_ends(void **state)
{
	struct error err = status_error("{\"kind\":\"Status\",\"message\":\"too old: 1 (2)\","
	                                "\"reason\":\"Expired\",\"code\":410}");

	(void)state;
	assert_int_equal(err.code, ERR_GONE);
	assert_int_equal(err.http_status, 410);
	assert_non_null(strstr(err.msg, "too old: 1 (2)"));
	err = status_error(
		"{\"code\":429,\"reason\":\"TooManyRequests\",\"details\":{\"retryAfterSeconds\":3}}");
	assert_int_equal(err.code, ERR_THROTTLED);
	assert_int_equal(err.retry_after_ms, 3000);
	err = status_error("{\"code\":429,\"details\":{\"retryAfterSeconds\":99999999999}}");
	assert_int_equal(err.retry_after_ms, LIMIT_RETRY_AFTER_S * MS_PER_SEC);
	err = status_error("{\"code\":99999999999}");
	assert_int_equal(err.http_status, 0);
	err = status_error("{\"message\":[],\"code\":\"410\",\"details\":7}");
	assert_int_not_equal(err.code, ERR_NONE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_events),
		cmocka_unit_test(recognises_events_to_skip),
		cmocka_unit_test(refuses_what_is_no_event),
		cmocka_unit_test(says_why_a_watch_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
