#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void
check(const struct buf *b, const char *content)
{
	assert_string_equal(b->ptr, content);
	assert_int_equal(b->len, strlen(content));
}

static void
an_empty_one_is_a_string(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(10);

	(void)state;
	check(&b, "");
	buf_add(&b, NULL, 0);
	buf_add_c(&b, "");
	buf_addf(&b, "%s", "");
	buf_grown(&b, 0);
	buf_reset(&b);
	buf_consume(&b, 3);
	buf_truncate(&b, 0);
	check(&b, "");
	assert_int_equal(b.cap, 0);
	assert_true(buf_ok(&b));
}

static void
all_ways_to_add(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1000);

	(void)state;
	buf_add_c(&b, "a");
	buf_add_str(&b, STR("bc"));
	buf_add_char(&b, 'd');
	buf_addf(&b, "%d%s", 42, "!");
	buf_add(&b, "x\0y", 3);
	assert_int_equal(b.len, 10);
	assert_memory_equal(b.ptr, "abcd42!x\0y", 11);
	assert_true(str_eq(buf_str(&b), STR("abcd42!x\0y")));
}

static void
foreign_text_stays_on_one_line(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1000);

	(void)state;
	buf_add_clean(&b, STR("a\nb\x1b[0m\xff \xc3\xa9 \xc3"));
	check(&b, "a b [0m? \xc3\xa9 ?");
	/* CSI as one C1 character, DEL, a line separator, and the characters that reverse the text
	 */
	buf_reset(&b);
	buf_add_clean(&b, STR("a\xc2\x9b"
	                      "2J\x7f\xe2\x80\xa8\xe2\x80\xae"
	                      "b\xe2\x81\xa6\xd8\x9c"));
	check(&b, "a 2J   b  ");
}

static void
grows_to_its_bound(void **state)
{
	(void)state;
	for (size_t max = 0; max < 300; max++) {
		CLEANUP(buf_fini) struct buf b = BUF_INIT(max);

		for (size_t i = 0; i < max; i++)
			buf_add_char(&b, 'x');
		assert_true(buf_ok(&b));
		assert_true(b.cap <= max + 1);
		buf_add_char(&b, 'y');
		assert_false(buf_ok(&b));
		assert_int_equal(b.len, max);
		assert_int_equal(strlen(b.ptr), max);
	}
}

static void
keeps_the_front_of_what_is_too_long(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(5);

	(void)state;
	buf_add_c(&b, "abc");
	buf_add_c(&b, "defg");
	check(&b, "abcde");
	buf_consume(&b, 2);
	buf_add_c(&b, "h"); /* there is room, but it would leave a hole */
	check(&b, "cde");
	assert_false(buf_ok(&b));
	buf_reset(&b);
	assert_true(buf_ok(&b));
	buf_addf(&b, "%s-%d", "abc", 1234);
	check(&b, "abc-1");
	assert_false(buf_ok(&b));
	buf_addf(&b, "x");
	check(&b, "abc-1");
}

static void
can_be_written_in_place(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(100);

	(void)state;
	buf_add_c(&b, "ab");
	assert_false(buf_reserve(&b, 99));
	assert_true(buf_ok(&b));
	assert_true(buf_reserve(&b, 98));
	memset(b.ptr + b.len, 'c', 98);
	buf_grown(&b, 3);
	check(&b, "abccc");
	assert_true(buf_reserve(&b, 0));
}

static void
can_be_shortened(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(100);

	(void)state;
	buf_add_c(&b, "abcdef");
	buf_truncate(&b, 9);
	check(&b, "abcdef");
	buf_truncate(&b, 5);
	check(&b, "abcde");
	buf_consume(&b, 2);
	check(&b, "cde");
	buf_consume(&b, 0);
	buf_consume(&b, 3);
	check(&b, "");
	buf_add_c(&b, "x");
	buf_consume(&b, 7);
	check(&b, "");
}

static void
hands_its_memory_over(void **state)
{
	struct buf b = BUF_INIT(100);
	char *empty = buf_take(&b);
	char *text;

	(void)state;
	buf_add_c(&b, "abc");
	text = buf_take(&b);
	assert_string_equal(empty, "");
	assert_string_equal(text, "abc");
	check(&b, "");
	assert_int_equal(b.max, 100);
	free(empty);
	free(text);
}

static void
can_live_in_an_array(void **state)
{
	char memory[8] = "";
	struct buf b = BUF_FIXED(memory);

	(void)state;
	buf_add_c(&b, "abc");
	buf_addf(&b, "%d", 456789);
	assert_ptr_equal(b.ptr, memory);
	check(&b, "abc4567");
	assert_false(buf_ok(&b));
}

static void
survives_its_end(void **state)
{
	struct buf b;

	(void)state;
	b = BUF_INIT(20);
	buf_add_c(&b, "secret");
	buf_wipe(&b);
	check(&b, "");
	buf_wipe(&b);
	buf_add_c(&b, "again");
	check(&b, "again");
	buf_fini(&b);
	buf_fini(&b);
	check(&b, "");
	assert_int_equal(b.max, 20);
}

/* ---- Base64 ---- */

/* RFC 4648, section 10. */
static const char *const vectors[][2] = {
	{ "", "" },
	{ "f", "Zg==" },
	{ "fo", "Zm8=" },
	{ "foo", "Zm9v" },
	{ "foob", "Zm9vYg==" },
	{ "fooba", "Zm9vYmE=" },
	{ "foobar", "Zm9vYmFy" },
	{ "\xff\xfe\xfb\xef", "//777w==" },
};

static void
base64_encodes_and_decodes(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
		CLEANUP(buf_fini) struct buf text = BUF_INIT(100), bytes = BUF_INIT(100);

		base64_add(&text, str_c(vectors[i][0]));
		assert_string_equal(text.ptr, vectors[i][1]);
		assert_true(base64_decode(buf_str(&text), &bytes));
		assert_string_equal(bytes.ptr, vectors[i][0]);
	}
}

static void
folded_base64_is_fine(void **state)
{
	CLEANUP(buf_fini) struct buf bytes = BUF_INIT(100);

	(void)state;
	assert_true(base64_decode(STR(" Zm9v\r\n\tYmFy\n"), &bytes));
	assert_string_equal(bytes.ptr, "foobar");
}

static void
what_is_not_base64_is_refused(void **state)
{
	static const char *const wrong[] = { "Z",        "Zg",   "Zg=", "Zg===",
		                             "Zg==Zg==", "Z-==", "=",   "Zm9v!" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		CLEANUP(buf_fini) struct buf bytes = BUF_INIT(100);

		assert_false(base64_decode(str_c(wrong[i]), &bytes));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_one_is_a_string),
		cmocka_unit_test(all_ways_to_add),
		cmocka_unit_test(grows_to_its_bound),
		cmocka_unit_test(keeps_the_front_of_what_is_too_long),
		cmocka_unit_test(can_be_written_in_place),
		cmocka_unit_test(can_be_shortened),
		cmocka_unit_test(foreign_text_stays_on_one_line),
		cmocka_unit_test(hands_its_memory_over),
		cmocka_unit_test(can_live_in_an_array),
		cmocka_unit_test(survives_its_end),
		cmocka_unit_test(base64_encodes_and_decodes),
		cmocka_unit_test(folded_base64_is_fine),
		cmocka_unit_test(what_is_not_base64_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
