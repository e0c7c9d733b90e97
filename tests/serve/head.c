#include "serve/head.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"

static int
parse(const char *text)
{
	struct head head;

	return head_parse(str_c(text), 0, &head);
}

static void
waits_for_the_end(void **state)
{
	static const char text[] = "\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n";
	struct head head;

	(void)state;
	for (size_t i = 0; i < sizeof(text) - 1; i++)
		assert_int_equal(head_parse(str_n(text, i), 0, &head), HEAD_MORE);
	for (size_t i = 0; i < sizeof(text) - 1; i++) {
		assert_int_equal(head_parse(str_c(text), i, &head), HEAD_WHOLE);
		assert_int_equal(head.len, sizeof(text) - 1);
	}
	assert_int_equal(head_parse(STR("GET / HTTP/1.1\r\nHost: x\r\n\r\nmore\r\n\r\n"), 0, &head),
	                 HEAD_WHOLE);
	assert_int_equal(head.len, 27);
}

static void
reads_targets(void **state)
{
	struct head head;

	(void)state;
	assert_int_equal(head_parse(STR("GET http://h:1/p/q?a=b?c HTTP/1.1\r\nHost:x\r\n\r\n"), 0,
	                            &head),
	                 HEAD_WHOLE);
	assert_true(str_eq_c(head.path, "/p/q"));
	assert_true(str_eq_c(head.query, "a=b?c"));
	assert_int_equal(head_parse(STR("GET http://h HTTP/1.1\r\nHost:x\r\n\r\n"), 0, &head),
	                 HEAD_WHOLE);
	assert_true(str_eq_c(head.path, "/"));
	assert_int_equal(head_parse(STR("GET /?u=http://h HTTP/1.0\r\n\r\n"), 0, &head),
	                 HEAD_WHOLE);
	assert_true(str_eq_c(head.query, "u=http://h"));
	assert_int_equal(head_parse(STR("OPTIONS * HTTP/1.0\r\n\r\n"), 0, &head), HEAD_WHOLE);
	assert_int_equal(head.method, SERVER_OTHER);
	assert_int_equal(parse("GET relative HTTP/1.0\r\n\r\n"), 400);
	assert_int_equal(parse("GET /a b HTTP/1.0\r\n\r\n"), 400);
	assert_int_equal(parse("GET /\x01 HTTP/1.0\r\n\r\n"), 400);
	assert_int_equal(parse("GET  / HTTP/1.0\r\n\r\n"), 400);
	assert_int_equal(parse("GET /\r\n\r\n"), 400);
	assert_int_equal(parse("\r\n\r\n\r\n\r\n\r\n\r\n"), 400);
}

static void
refuses_what_can_be_read_in_two_ways(void **state)
{
	(void)state;
	assert_int_equal(parse("GET / HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n"), 400);
	assert_int_equal(parse("GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n"), 400);
	assert_int_equal(parse("GET / HTTP/1.1\r\nHost: x\r\nA: b\nC: d\r\n\r\n"), 400);
	assert_int_equal(parse("GET / HTTP/1.1\r\nHost: x\r\nA: b\rC: d\r\n\r\n"), 400);
	assert_int_equal(parse("GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"), 400);
	assert_int_equal(parse("GET / HTTP/1.1\r\n\r\n"), 400);
	assert_int_equal(parse("GET / HTTP/1.1\r\nHost: x\r\nnothing\r\n\r\n"), 400);
	assert_int_equal(head_parse(STR("GET / HTTP/1.0\r\nA: b\0c\r\n\r\n"), 0,
	                            &(struct head){ 0 }),
	                 400);
	assert_int_equal(head_parse(STR("GET / HTTP/1.0\r\nA: \0b\r\n\r\n"), 0,
	                            &(struct head){ 0 }),
	                 400);
	assert_int_equal(head_parse(STR("GET / HTTP/1.0\r\nA: b \0\0\r\n\r\n"), 0,
	                            &(struct head){ 0 }),
	                 400);
	assert_int_equal(parse("PUT / HTTP/1.0\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n"),
	                 400);
	assert_int_equal(
		parse("PUT / HTTP/1.0\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"),
		411);
	assert_int_equal(parse("PUT / HTTP/1.0\r\nContent-Length: +1\r\n\r\n"), 400);
	assert_int_equal(parse("PUT / HTTP/1.0\r\nContent-Length: -1\r\n\r\n"), 400);
	assert_int_equal(parse("PUT / HTTP/1.0\r\nContent-Length: 0x1\r\n\r\n"), 400);
	assert_int_equal(parse("PUT / HTTP/1.0\r\nContent-Length:\r\n\r\n"), 400);
	assert_int_equal(parse("PUT / HTTP/1.0\r\nContent-Length: 99999999999999999999\r\n\r\n"),
	                 413);
}

static void
knows_when_to_keep_a_connection(void **state)
{
	struct head head;

	(void)state;
	assert_int_equal(head_parse(STR("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), 0, &head),
	                 HEAD_WHOLE);
	assert_true(head.keeps_alive);
	assert_int_equal(
		head_parse(STR("GET / HTTP/1.1\r\nHost: x\r\nconnection: te, Close\r\n\r\n"), 0,
	                   &head),
		HEAD_WHOLE);
	assert_false(head.keeps_alive);
	assert_int_equal(head_parse(STR("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"), 0,
	                            &head),
	                 HEAD_WHOLE);
	assert_false(head.keeps_alive);
}

static void
add_fields(struct buf *b, size_t n, size_t len)
{
	buf_add_c(b, "GET / HTTP/1.0\r\n");
	for (size_t i = 0; i < n; i++) {
		buf_add_c(b, "A: ");
		for (size_t j = 0; j < len; j++)
			buf_add_char(b, 'a');
		buf_add_c(b, "\r\n");
	}
}

static void
bounds_number_and_size(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MIB(1));
	struct head head;

	(void)state;
	add_fields(&b, LIMIT_SERVER_FIELDS, 1);
	buf_add_c(&b, "\r\n");
	assert_int_equal(head_parse(buf_str(&b), 0, &head), HEAD_WHOLE);
	buf_reset(&b);
	add_fields(&b, LIMIT_SERVER_FIELDS + 1, 1);
	buf_add_c(&b, "\r\n");
	assert_int_equal(head_parse(buf_str(&b), 0, &head), 431);
	buf_reset(&b);
	add_fields(&b, 1, LIMIT_SERVER_HEADERS);
	assert_int_equal(head_parse(buf_str(&b), 0, &head), 431);
	assert_int_equal(head_parse(str_head(buf_str(&b), LIMIT_SERVER_HEADERS), 0, &head),
	                 HEAD_MORE);
}

static void
assert_decoded(const char *in, bool is_form, const char *out)
{
	char room[100];
	size_t len;

	assert_true(percent_decode(str_c(in), is_form, room, &len));
	assert_true(str_eq_c(str_n(room, len), out));
}

static void
decodes_once(void **state)
{
	char room[100];
	size_t len;

	(void)state;
	assert_decoded("/a%2fb%2525+", false, "/a/b%25+");
	assert_decoded("a+%e4%BD", true, "a \xe4\xbd");
	assert_false(percent_decode(STR("%00"), false, room, &len));
	assert_false(percent_decode(STR("a%"), false, room, &len));
	assert_false(percent_decode(STR("a%2"), false, room, &len));
	assert_false(percent_decode(STR("%g0"), false, room, &len));
	assert_false(percent_decode(STR("%0g"), false, room, &len));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(waits_for_the_end),
		cmocka_unit_test(reads_targets),
		cmocka_unit_test(refuses_what_can_be_read_in_two_ways),
		cmocka_unit_test(knows_when_to_keep_a_connection),
		cmocka_unit_test(bounds_number_and_size),
		cmocka_unit_test(decodes_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
