#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void
check(struct str text, const char *expected)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1000);

	quote_add(&b, text);
	assert_string_equal(b.ptr, expected);
}

static void
text_is_quoted_as_go_does(void **state UNUSED)
{
	check(STR_EMPTY, "\"\"");
	check(STR("a \"b\" \\ \t\n\r\v"), "\"a \\\"b\\\" \\\\ \\t\\n\\r\\v\"");
	check(STR("\0\x1b\x7f\xff\xc3"), "\"\\x00\\x1b\\x7f\\xff\\xc3\"");
	check(STR("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"),
	      "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
}

/* A terminal obeys C1 characters, some viewers end a line at U+2028, and U+202E shows the rest of
 * the line in reverse. */
static void
what_a_terminal_must_not_get_is_escaped(void **state UNUSED)
{
	check(STR("\xc2\x9b\xc2\x85"), "\"\\u009b\\u0085\"");
	check(STR("\xe2\x80\xa8\xe2\x80\xa9"), "\"\\u2028\\u2029\"");
	check(STR("\xe2\x80\x8e\xe2\x80\xae\xe2\x81\xa6\xe2\x81\xa9\xd8\x9c"),
	      "\"\\u200e\\u202e\\u2066\\u2069\\u061c\"");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_is_quoted_as_go_does),
		cmocka_unit_test(what_a_terminal_must_not_get_is_escaped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
