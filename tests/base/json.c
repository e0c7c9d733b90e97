#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"

static yyjson_doc *
parse(const char *text)
{
	struct error err = { 0 };
	yyjson_doc *doc = NULL;

	if (!json_parse(str_c(text), &doc, &err))
		fail_msg("%s: %s", text, err.msg);
	return doc;
}

#define WITH_JSON(root, text)                                     \
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc_ = parse(text); \
	yyjson_val *root = yyjson_doc_get_root(doc_)

static void
check_refused(struct str text, const char *msg)
{
	yyjson_doc *doc = NULL;
	struct error err = { 0 };

	assert_false(json_parse(text, &doc, &err));
	assert_int_equal(err.code, ERR_INVALID);
	if (!strstr(err.msg, msg))
		fail_msg("%s: %s", text.ptr, err.msg);
	assert_null(doc);
}

static void
refuses_what_is_not_json(void **state)
{
	(void)state;
	check_refused(STR(""), "empty");
	check_refused(STR("{\"a\" 1}"), "at byte 5");
	check_refused(STR("{} {}"), "at byte 3");
	check_refused(STR("[1"), "at byte 2");
	check_refused(STR("\"\xff\""), "at byte 1");
	check_refused(STR("[\0]"), "at byte 1");
}

static void
nest(struct buf *b, int depth)
{
	for (int i = 1; i < depth; i++)
		buf_add_c(b, i % 2 ? "[{}," : "{\"a\":0,\"b\":");
	buf_add_c(b, "[]");
	for (int i = depth - 1; i > 0; i--)
		buf_add_char(b, i % 2 ? ']' : '}');
}

static void
bounds_the_depth(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(64));
	yyjson_doc *doc = NULL;
	struct error err;

	(void)state;
	nest(&b, LIMIT_JSON_DEPTH);
	assert_true(json_parse(buf_str(&b), &doc, &err));
	yyjson_doc_free(doc);
	buf_reset(&b);
	nest(&b, LIMIT_JSON_DEPTH + 1);
	check_refused(buf_str(&b), "deeper than 128");
}

/* An answer of 16 MiB could otherwise take hundreds of megabytes. */
static void
bounds_the_number_of_values(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MIB(4));
	yyjson_doc *doc = NULL;
	struct error err;

	(void)state;
	buf_add_c(&b, "{\"\":0");
	for (size_t i = 3; i + 2 < LIMIT_JSON_VALUES; i += 2)
		buf_add_c(&b, ",\"\":0");
	buf_add_char(&b, '}');
	assert_true(json_parse_answer(buf_str(&b), &doc, &err));
	assert_int_equal(yyjson_doc_get_val_count(doc), LIMIT_JSON_VALUES - 1);
	yyjson_doc_free(TAKE(doc));
	b.len--;
	buf_add_c(&b, ",\"\":0}");
	assert_false(json_parse_answer(buf_str(&b), &doc, &err));
	assert_string_equal(err.msg, "invalid JSON: more than 1000000 values");
	/* an object of the API server would fail the list of all objects */
	assert_true(json_parse(buf_str(&b), &doc, &err));
	yyjson_doc_free(TAKE(doc));
}

/* Elements of all lists count, however many lists there are. */
static void
bounds_the_elements_of_an_answer(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MIB(4));
	yyjson_doc *doc = NULL;
	struct error err;

	(void)state;
	buf_add_c(&b, "{\"a\":[[]");
	for (size_t i = 2; i < LIMIT_CLOUD_ELEMENTS; i++)
		buf_add_c(&b, ",{}");
	buf_add_c(&b, "],\"b\":[0]}");
	assert_true(json_parse_answer(buf_str(&b), &doc, &err));
	yyjson_doc_free(TAKE(doc));
	b.len -= 2;
	buf_add_c(&b, ",0]}");
	assert_true(json_parse(buf_str(&b), &doc, &err));
	yyjson_doc_free(TAKE(doc));
	assert_false(json_parse_answer(buf_str(&b), &doc, &err));
	assert_int_equal(err.code, ERR_INVALID);
	assert_string_equal(err.msg, "its lists have 100001 elements, more than 100000");
}

static void
siblings_are_not_depth(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(64));
	yyjson_doc *doc = NULL;
	struct error err;

	(void)state;
	buf_add_c(&b, "[[]");
	for (int i = 0; i < 1000; i++)
		buf_add_c(&b, ",[[{}]],{\"a\":{}}");
	buf_add_c(&b, "]");
	assert_true(json_parse(buf_str(&b), &doc, &err));
	yyjson_doc_free(doc);
}

static void
walks_dots(void **state)
{
	WITH_JSON(root, "{\"a\":{\"b\":{\"c\":7,\"n\":null},\"s\":\"x\"},\"d.e\":1}");

	(void)state;
	assert_int_equal(yyjson_get_int(json_at(root, "a.b.c")), 7);
	assert_ptr_equal(json_at(root, ""), root);
	assert_null(json_at(root, "a.b.n"));
	assert_null(json_at(root, "a.b.n.x"));
	assert_null(json_at(root, "a.s.x"));
	assert_null(json_at(root, "a.x.c"));
	assert_null(json_at(root, "d.e"));
	assert_non_null(json_key(root, STR("d.e")));
	assert_null(json_key(root, STR("d")));
	assert_null(json_key(NULL, STR("d")));
	assert_null(json_at(NULL, "a"));
	assert_null(json_at(NULL, ""));
}

static void
the_last_duplicate_wins(void **state)
{
	WITH_JSON(root, "{\"a\":1,\"b\":5,\"a\":2,\"b\":null}");

	(void)state;
	assert_int_equal(yyjson_get_int(json_at(root, "a")), 2);
	assert_null(json_at(root, "b"));
}

static void
distinguishes_absent_from_mistyped(void **state)
{
	WITH_JSON(root, "{\"s\":\"x\\u0000y\",\"b\":true,\"a\":[1],\"o\":{},\"n\":null}");
	struct str s = STR("before");
	yyjson_val *val = NULL;
	bool b = false;

	(void)state;
	assert_int_equal(json_str(root, "s", &s), JSON_FOUND);
	assert_true(str_eq(s, STR("x\0y")));
	assert_int_equal(json_str(root, "b", &s), JSON_MISTYPED);
	assert_int_equal(json_str(root, "n", &s), JSON_ABSENT);
	assert_int_equal(s.len, 3);
	assert_int_equal(json_bool(root, "b", &b), JSON_FOUND);
	assert_true(b);
	assert_int_equal(json_bool(root, "s", &b), JSON_MISTYPED);
	assert_int_equal(json_bool(root, "x", &b), JSON_ABSENT);
	assert_int_equal(json_array(root, "a", &val), JSON_FOUND);
	assert_int_equal(yyjson_arr_size(val), 1);
	assert_int_equal(json_array(root, "o", &val), JSON_MISTYPED);
	assert_int_equal(json_array(root, "n", &val), JSON_ABSENT);
	assert_int_equal(json_object(root, "o", &val), JSON_FOUND);
	assert_true(yyjson_is_obj(val));
	assert_int_equal(json_object(root, "a", &val), JSON_MISTYPED);
	assert_int_equal(json_object(root, "x.y", &val), JSON_ABSENT);
}

static void
a_text_is_copied_or_empty(void **state)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	WITH_JSON(root, "{\"s\":\"x\",\"b\":true,\"empty\":\"\"}");
	struct str found = STR_EMPTY;

	(void)state;
	assert_int_equal(json_str(root, "s", &found), JSON_FOUND);
	assert_string_equal(json_text_at(&arena, root, "s").ptr, "x");
	assert_ptr_not_equal(json_text_at(&arena, root, "s").ptr, found.ptr);
	assert_string_equal(json_text_at(&arena, root, "b").ptr, "");
	assert_ptr_equal(json_view(root, "s").ptr, found.ptr);
	assert_string_equal(json_view(root, "b").ptr, "");
	assert_string_equal(json_view(NULL, "s").ptr, "");
	assert_string_equal(json_text_at(&arena, root, "empty").ptr, "");
	assert_string_equal(json_text_at(&arena, NULL, "s").ptr, "");
}

static void
integers_never_pass_through_doubles(void **state)
{
	(void)state;
	WITH_JSON(root,
	          "{\"max\":9223372036854775807,\"min\":-9223372036854775808,"
	          "\"over\":9223372036854775808,\"under\":-9223372036854775809,"
	          "\"huge\":123456789012345678901234567890,\"real\":1.0,\"exp\":1e2,\"n\":null}");
	int64_t v = 5;

	assert_int_equal(json_i64(root, "over", &v), JSON_MISTYPED);
	assert_int_equal(json_i64(root, "under", &v), JSON_MISTYPED);
	assert_int_equal(json_i64(root, "huge", &v), JSON_MISTYPED);
	assert_int_equal(json_i64(root, "real", &v), JSON_MISTYPED);
	assert_int_equal(json_i64(root, "exp", &v), JSON_MISTYPED);
	assert_int_equal(json_i64(root, "n", &v), JSON_ABSENT);
	assert_int_equal(v, 5);
	assert_int_equal(json_i64(root, "max", &v), JSON_FOUND);
	assert_true(v == INT64_MAX);
	assert_int_equal(json_i64(root, "min", &v), JSON_FOUND);
	assert_true(v == INT64_MIN);
}

static void
check_kept(const char *text)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(4));
	WITH_JSON(root, text);

	json_add_value(&b, root);
	assert_string_equal(b.ptr, text);
}

static void
carries_what_it_does_not_understand(void **state)
{
	(void)state;
	check_kept(
		"[{\"key\":\"k\",\"timeAdded\":\"2026-01-02T03:04:05Z\",\"effect\":\"NoExecute\"}]");
	check_kept(
		"{\"b\":[1,-2,0.5,123456789012345678901234567890,-1e999],\"a\":{\"b\":[],\"c\":{}}}");
	check_kept("[18446744073709551615,null,true,false,\"/\xc3\xa9\\u0000\\\"\\\\\\n\"]");
	check_kept("{\"a\":1,\"a\":2}");
	check_kept("\"text\"");
}

static void
check_string(struct str s, const char *expected)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(4));

	json_add_str(&b, s);
	assert_string_equal(b.ptr, expected);
}

static void
writes_strings(void **state)
{
	(void)state;
	check_string(STR(""), "\"\"");
	check_string(STR("plain/text"), "\"plain/text\"");
	check_string(STR("\"\\\b\n\r\t\0\x1f\x7f"),
	             "\"\\\"\\\\\\u0008\\n\\r\\t\\u0000\\u001f\x7f\"");
	check_string(STR("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"),
	             "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
}

#define BAD "\xef\xbf\xbd"

static void
replaces_broken_utf8(void **state)
{
	(void)state;
	check_string(STR("a\xff-"), "\"a" BAD "-\"");
	check_string(STR("\xc3"), "\"" BAD "\"");
	check_string(STR("\xe2\x82"), "\"" BAD BAD "\"");
	check_string(STR("\xf0\x9f\x98"), "\"" BAD BAD BAD "\"");
	check_string(STR("\xc0\x80"), "\"" BAD BAD "\""); /* overlong */
	check_string(STR("\xe0\x9f\xbf"), "\"" BAD BAD BAD "\"");
	check_string(STR("\xed\xa0\x80"), "\"" BAD BAD BAD "\"");         /* a surrogate */
	check_string(STR("\xf4\x90\x80\x80"), "\"" BAD BAD BAD BAD "\""); /* above U+10FFFF */
	check_string(STR("\xc3\""), "\"" BAD "\\\"\"");
}

static void
writes_members(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(200);

	(void)state;
	json_begin_object(&b, NULL);
	json_add_text(&b, "name", STR("{"));
	json_add_text(&b, "namespace", STR_EMPTY);
	json_add_object(&b, "inner", JSON_TEXT("say", STR("\"no\"")));
	json_add_members(&b, JSON_NUMBER("low", INT64_MIN), JSON_FLAG("yes", true),
	                 JSON_FLAG("no", false), JSON_IF(false, JSON_NUMBER("left", 1)),
	                 JSON_IF(true, JSON_NUMBER("kept", 2)));
	json_add_raw(&b, "raw", STR("null"));
	json_add_name(&b, STR("a\"b["));
	json_add_text(&b, NULL, STR("["));
	json_begin_object(&b, "empty");
	json_end_object(&b);
	json_end_object(&b);
	assert_string_equal(b.ptr,
	                    "{\"name\":\"{\",\"namespace\":\"\","
	                    "\"inner\":{\"say\":\"\\\"no\\\"\"},"
	                    "\"low\":-9223372036854775808,\"yes\":true,\"no\":false,\"kept\":2,"
	                    "\"raw\":null,\"a\\\"b[\":\"[\",\"empty\":{}}");
}

static void
writes_elements(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(200);
	struct str texts[] = { STR("a"), STR("[") };

	(void)state;
	json_begin_array(&b, NULL);
	json_begin_object(&b, NULL);
	json_add_texts(&b, "texts", texts, ARRAY_LEN(texts));
	json_add_texts(&b, "none", NULL, 0);
	json_end_object(&b);
	json_begin_object(&b, NULL);
	json_end_object(&b);
	json_begin_array(&b, NULL);
	json_end_array(&b);
	json_add_number(&b, NULL, 1);
	json_add_flag(&b, NULL, false);
	json_add_raw(&b, NULL, STR("{}"));
	json_end_array(&b);
	assert_string_equal(b.ptr, "[{\"texts\":[\"a\",\"[\"],\"none\":[]},{},[],1,false,{}]");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refuses_what_is_not_json),
		cmocka_unit_test(bounds_the_depth),
		cmocka_unit_test(bounds_the_number_of_values),
		cmocka_unit_test(bounds_the_elements_of_an_answer),
		cmocka_unit_test(siblings_are_not_depth),
		cmocka_unit_test(walks_dots),
		cmocka_unit_test(the_last_duplicate_wins),
		cmocka_unit_test(distinguishes_absent_from_mistyped),
		cmocka_unit_test(a_text_is_copied_or_empty),
		cmocka_unit_test(integers_never_pass_through_doubles),
		cmocka_unit_test(carries_what_it_does_not_understand),
		cmocka_unit_test(writes_strings),
		cmocka_unit_test(replaces_broken_utf8),
		cmocka_unit_test(writes_members),
		cmocka_unit_test(writes_elements),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
