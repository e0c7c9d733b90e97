#include "base/split.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"

/* Elements are noted one after another, each followed by ';'. */
static bool
note(void *arg, struct str item, struct error *err)
{
	struct buf *found = arg;

	(void)err;
	buf_add_str(found, item);
	buf_add_char(found, ';');
	return true;
}

/* Feeds the text in chunks of the given size. Each chunk is a copy of its own, so that reading
 * beyond it is seen by the sanitizer. */
static bool
feed(struct json_split *s, struct str text, size_t chunk, struct buf *found, struct error *err)
{
	bool ok = true;

	while (ok && text.len) {
		struct str part = str_head(text, chunk);
		char *copy = malloc(part.len);

		memcpy(copy, part.ptr, part.len);
		ok = json_split_feed(s, str_n(copy, part.len), note, found, err);
		free(copy);
		text = str_skip(text, chunk);
	}
	return ok;
}

/* The same whatever the chunks. */
static void
check(struct str text, const char *items, const char *head)
{
	for (size_t chunk = 1; chunk <= text.len; chunk++) {
		CLEANUP(json_split_freep)
		struct json_split *s = json_split_new(STR("items"), KIB(1));
		CLEANUP(buf_fini) struct buf found = BUF_INIT(KIB(4));
		struct error err = { 0 };
		struct str ret_head;

		if (!feed(s, text, chunk, &found, &err) || !json_split_end(s, &ret_head, &err))
			fail_msg("%" STR_FMT ": %s", STR_ARG(text), err.msg);
		assert_string_equal(found.ptr, items);
		assert_int_equal(ret_head.len, strlen(head));
		assert_memory_equal(ret_head.ptr, head, ret_head.len);
	}
}

static void
check_refused(struct str text, const char *msg)
{
	for (size_t chunk = 1; chunk <= text.len; chunk++) {
		CLEANUP(json_split_freep) struct json_split *s = json_split_new(STR("items"), 20);
		CLEANUP(buf_fini) struct buf found = BUF_INIT(KIB(4));
		struct error err = { 0 };
		struct str head = STR("before");

		if (feed(s, text, chunk, &found, &err) && json_split_end(s, &head, &err))
			fail_msg("%" STR_FMT " was taken", STR_ARG(text));
		assert_int_equal(err.code, ERR_INVALID);
		if (!strstr(err.msg, msg))
			fail_msg("%" STR_FMT ": %s", STR_ARG(text), err.msg);
		assert_int_equal(head.len, 6);
	}
}

static void
cuts_a_list(void **state)
{
	(void)state;
	check(STR("{\"kind\":\"List\",\"metadata\":{\"resourceVersion\":\"7\"},\"items\":[{\"a\":1},{\"b\":[{}]}]}\n"),
	      "{\"a\":1};{\"b\":[{}]};",
	      "{\"kind\":\"List\",\"metadata\":{\"resourceVersion\":\"7\"},\"items\":[]}");
	check(STR("{\"items\":[{}],\"metadata\":{}}"), "{};", "{\"items\":[],\"metadata\":{}}");
	check(STR("{\"items\":[]}"), "", "{\"items\":[]}");
}

static void
takes_any_element_and_spacing(void **state)
{
	(void)state;
	check(STR(" {\r\n\t\"items\" : [ 1 ,\"a, ]\" , null,true, [ [ ] ] , -1.5e3] , \"b\" : 2 } \n "),
	      "1;\"a, ]\";null;true;[ [ ] ];-1.5e3;", "{\"items\":[],\"b\":2}");
}

static void
strings_hide_brackets(void **state)
{
	(void)state;
	check(STR("{\"a\":\"}\\\"]\",\"items\":[{\"}{\":\"\\\\\"},{\"x\":\"\\\\\\\"]}\"}]}"),
	      "{\"}{\":\"\\\\\"};{\"x\":\"\\\\\\\"]}\"};", "{\"a\":\"}\\\"]\",\"items\":[]}");
}

static void
only_the_top_level_key_counts(void **state)
{
	(void)state;
	check(STR("{\"a\":{\"items\":[1]},\"b\":\"items\",\"items\":[{\"items\":[2]}],\"itemsx\":[3],\"item\":[]}"),
	      "{\"items\":[2]};",
	      "{\"a\":{\"items\":[1]},\"b\":\"items\",\"items\":[],\"itemsx\":[3],\"item\":[]}");
}

static void
absent_and_null_have_no_elements(void **state)
{
	(void)state;
	check(STR("{}"), "", "{}");
	check(STR("{\"kind\":\"Status\",\"code\":403}"), "", "{\"kind\":\"Status\",\"code\":403}");
	check(STR("{\"items\":null,\"a\":1}"), "", "{\"items\":null,\"a\":1}");
	check(STR("{\"items\": null }"), "", "{\"items\":null}");
}

static void
reads_an_escaped_key(void **state)
{
	(void)state;
	check(STR("{\"it\\u0065ms\":[1]}"), "1;", "{\"it\\u0065ms\":[]}");
	check(STR("{\"items\\\"\":[1]}"), "", "{\"items\\\"\":[1]}");
}

static void
refuses_what_is_no_list(void **state)
{
	(void)state;
	check_refused(STR("[]"), "unexpected byte 0x5b");
	check_refused(STR("null"), "unexpected byte 0x6e");
	check_refused(STR("{\"items\":{}}"), "items is not an array");
	check_refused(STR("{\"items\":\"\"}"), "items is not an array");
	check_refused(STR("{\"items\":[],\"items\":[]}"), "items occurs twice");
	check_refused(STR("{\"items\":null,\"items\":[]}"), "items occurs twice");
	check_refused(STR("{\"\\x\":1}"), "invalid JSON");
}

static void
refuses_wrong_punctuation(void **state)
{
	(void)state;
	check_refused(STR("{,}"), "unexpected");
	check_refused(STR("{\"a\" 1}"), "unexpected");
	check_refused(STR("{\"a\":}"), "unexpected");
	check_refused(STR("{\"a\":1 \"b\":2}"), "unexpected");
	check_refused(STR("{\"a\":1,}"), "unexpected");
	check_refused(STR("{\"a\":1]"), "unexpected");
	check_refused(STR("{\"items\":[,1]}"), "unexpected");
	check_refused(STR("{\"items\":[1,]}"), "unexpected");
	check_refused(STR("{\"items\":[1 2]}"), "unexpected");
	check_refused(STR("{\"items\":[1}"), "unexpected");
	check_refused(STR("{\"items\":[:]}"), "unexpected");
	check_refused(STR("{\"items\":[]]"), "unexpected");
}

static void
refuses_bytes_after_the_end(void **state)
{
	(void)state;
	check_refused(STR("{\"items\":[]}x"), "unexpected byte 0x78");
	check_refused(STR("{} {}"), "unexpected byte 0x7b");
	check_refused(STR("{}\0"), "unexpected byte 0x00");
}

static void
refuses_a_cut_list(void **state)
{
	struct str whole = STR("{\"a\":\"x\",\"items\":[{\"b\":1},2]}");

	(void)state;
	for (size_t len = 1; len < whole.len; len++)
		check_refused(str_head(whole, len), "ends in the middle");
}

static void
bounds_an_element(void **state)
{
	(void)state;
	check_refused(STR("{\"items\":[\"123456789012345678\",\"1234567890123456789\"]}"),
	              "larger than 20 bytes");
	check_refused(STR("{\"items\":[\"123456789012345678901234567890"), "larger than 20 bytes");
}

static void
an_element_may_be_as_large_as_allowed(void **state)
{
	(void)state;
	for (size_t chunk = 1; chunk < 40; chunk++) {
		CLEANUP(json_split_freep) struct json_split *s = json_split_new(STR("items"), 5);
		CLEANUP(buf_fini) struct buf found = BUF_INIT(KIB(1));
		struct error err;

		assert_true(feed(s, STR("{\"items\":[\"123\",[[]],12345 ]}"), chunk, &found, &err));
		assert_string_equal(found.ptr, "\"123\";[[]];12345;");
	}
}

static void
bounds_the_head(void **state)
{
	CLEANUP(json_split_freep) struct json_split *s = json_split_new(STR("items"), KIB(1));
	CLEANUP(buf_fini) struct buf found = BUF_INIT(KIB(1)), text = BUF_INIT(KIB(128));
	struct error err;

	(void)state;
	buf_add_c(&text, "{\"a\":\"");
	while (text.len < LIMIT_JSON_HEAD + 10)
		buf_add_c(&text, "0123456789abcdef");
	assert_false(feed(s, buf_str(&text), 1000, &found, &err));
	assert_int_equal(err.code, ERR_INVALID);
	assert_non_null(strstr(err.msg, "larger than 65536 bytes"));
}

static void
bounds_the_depth(void **state)
{
	CLEANUP(json_split_freep) struct json_split *s = json_split_new(STR("items"), KIB(1));
	CLEANUP(buf_fini) struct buf found = BUF_INIT(KIB(1)), text = BUF_INIT(KIB(1));
	struct error err;

	(void)state;
	buf_add_c(&text, "{\"items\":[");
	for (int i = 0; i < LIMIT_JSON_DEPTH; i++)
		buf_add_char(&text, '[');
	assert_true(feed(s, buf_str(&text), 7, &found, &err));
	assert_false(feed(s, STR("["), 1, &found, &err));
	assert_int_equal(err.code, ERR_INVALID);
}

static bool
stop(void *arg, struct str item, struct error *err)
{
	(void)item;
	++*(int *)arg;
	return err_set(err, ERR_GONE, "enough");
}

static void
stops_when_asked(void **state)
{
	CLEANUP(json_split_freep) struct json_split *s = json_split_new(STR("items"), KIB(1));
	struct error err;
	struct str head;
	int calls = 0;

	(void)state;
	assert_false(json_split_feed(s, STR("{\"items\":[1,2,3]}"), stop, &calls, &err));
	assert_int_equal(err.code, ERR_GONE);
	assert_false(json_split_feed(s, STR("{\"items\":[1]}"), stop, &calls, &err));
	assert_int_equal(err.code, ERR_INVALID);
	assert_int_equal(calls, 1);
	assert_false(json_split_end(s, &head, &err));
}

struct span {
	struct str chunk;
	int inside;
};

static bool
count_inside(void *arg, struct str item, struct error *err)
{
	struct span *span = arg;

	(void)err;
	span->inside += item.ptr >= span->chunk.ptr && item.ptr < span->chunk.ptr + span->chunk.len;
	return true;
}

static void
an_element_in_one_chunk_is_not_copied(void **state)
{
	(void)state;
	CLEANUP(json_split_freep) struct json_split *s = json_split_new(STR("items"), KIB(1));
	struct span span = { .chunk = STR("{\"items\":[{\"a\":1},[2],{\"cut\":") };
	struct error err;

	assert_true(json_split_feed(s, span.chunk, count_inside, &span, &err));
	span.chunk = STR("3},{}]}");
	assert_true(json_split_feed(s, span.chunk, count_inside, &span, &err));
	assert_int_equal(span.inside, 3);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cuts_a_list),
		cmocka_unit_test(takes_any_element_and_spacing),
		cmocka_unit_test(strings_hide_brackets),
		cmocka_unit_test(only_the_top_level_key_counts),
		cmocka_unit_test(absent_and_null_have_no_elements),
		cmocka_unit_test(reads_an_escaped_key),
		cmocka_unit_test(refuses_what_is_no_list),
		cmocka_unit_test(refuses_wrong_punctuation),
		cmocka_unit_test(refuses_bytes_after_the_end),
		cmocka_unit_test(refuses_a_cut_list),
		cmocka_unit_test(bounds_an_element),
		cmocka_unit_test(an_element_may_be_as_large_as_allowed),
		cmocka_unit_test(bounds_the_head),
		cmocka_unit_test(bounds_the_depth),
		cmocka_unit_test(stops_when_asked),
		cmocka_unit_test(an_element_in_one_chunk_is_not_copied),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
