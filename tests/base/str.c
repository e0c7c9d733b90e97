#include "base/str.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static const struct str none = { NULL, 0 };

static void
check(struct str s, const char *text)
{
	if (!str_eq_c(s, text))
		fail_msg("\"%" STR_FMT "\" is not \"%s\"", STR_ARG(s), text);
}

static void
views_are_never_null(void **state)
{
	(void)state;
	assert_non_null(str_c(NULL).ptr);
	assert_non_null(str_n(NULL, 0).ptr);
	assert_int_equal(str_c(NULL).len, 0);
	check(str_n("abc", 2), "ab");
	assert_int_equal(STR("a\0b").len, 3);
}

static void
packs_texts_behind_one_another(void **state)
{
	char block[6] = "......", *at = block;
	struct str first = str_pack(&at, STR("ab")), second = str_pack(&at, none);
	struct str third = str_pack(&at, STR("cde"));

	(void)state;
	check(first, "ab");
	check(second, "");
	check(third, "cde");
	assert_ptr_equal(third.ptr, block + 2);
	assert_memory_equal(block, "abcde.", sizeof(block));
}

static void
compares(void **state)
{
	(void)state;
	assert_true(str_eq(none, STR_EMPTY));
	assert_true(str_eq(STR("a\0b"), STR("a\0b")));
	assert_false(str_eq(STR("a\0b"), STR("a\0c")));
	assert_false(str_eq(STR("a"), STR("ab")));
	assert_true(str_eq_nocase(STR("Content-TYPE"), STR("content-type")));
	assert_false(str_eq_nocase(STR("a@"), STR("a`"))); /* 32 apart as letters are */
	assert_false(str_eq_nocase(STR("a["), STR("a{")));
	assert_false(str_eq_nocase(STR("a"), STR("ab")));
}

static void
orders(void **state)
{
	(void)state;
	assert_int_equal(str_cmp(none, STR_EMPTY), 0);
	assert_true(str_cmp(STR("a"), STR("b")) < 0);
	assert_true(str_cmp(STR("b"), STR("ab")) > 0);
	assert_true(str_cmp(STR("a"), STR("ab")) < 0);
	assert_true(str_cmp(STR("ab"), none) > 0);
	assert_true(str_cmp(STR("\xff"), STR("a")) > 0);
}

static void
looks_at_ends(void **state)
{
	(void)state;
	assert_true(str_starts(STR("hcloud://1"), STR("hcloud://")));
	assert_true(str_starts(STR("a"), none));
	assert_true(str_starts(none, none));
	assert_false(str_starts(STR("hcl"), STR("hcloud")));
	assert_false(str_starts(STR("hcloud"), STR("cloud")));
	assert_true(str_ends(STR("a.b"), STR(".b")));
	assert_true(str_ends(STR("a.b"), none));
	assert_false(str_ends(STR("b"), STR("a.b")));
	assert_false(str_ends(STR("a.bc"), STR(".b")));
}

static void
finds(void **state)
{
	(void)state;
	assert_int_equal(str_index(STR("a=b=c"), '='), 1);
	assert_int_equal(str_index(STR("abc"), '='), -1);
	assert_int_equal(str_index(none, '='), -1);
	assert_true(str_contains(STR("a\0bc"), STR("\0b")));
	assert_true(str_contains(none, none));
	assert_false(str_contains(STR("ab"), STR("abc")));
	assert_false(str_contains(none, STR("a")));
}

static void
takes_parts(void **state)
{
	(void)state;
	check(str_skip(STR("abc"), 1), "bc");
	check(str_skip(STR("abc"), 4), "");
	check(str_skip(none, 4), "");
	check(str_head(STR("abc"), 2), "ab");
	check(str_head(STR("abc"), 5), "abc");
	check(str_trim(STR(" \t\r\n\v\fa b \n")), "a b");
	check(str_trim(STR(" \n ")), "");
	check(str_trim(none), "");
	check(str_trim(STR("\xa0x")), "\xa0x"); /* a space in Latin-1 only */
}

static void
check_split(struct str text, const char *const *parts)
{
	struct str rest = text;
	struct str part;

	for (; *parts; parts++) {
		assert_true(str_split(&rest, ',', &part));
		check(part, *parts);
	}
	assert_false(str_split(&rest, ',', &part));
	assert_false(str_split(&rest, ',', &part));
}

static void
splits(void **state)
{
	(void)state;
	check_split(STR("a,b,,c"), (const char *const[]){ "a", "b", "", "c", NULL });
	check_split(STR("a"), (const char *const[]){ "a", NULL });
	check_split(STR(""), (const char *const[]){ "", NULL });
	check_split(STR(","), (const char *const[]){ "", "", NULL });
	check_split(STR("a,"), (const char *const[]){ "a", "", NULL });
}

static void
cuts(void **state)
{
	struct str before = STR("?");
	struct str after = STR("?");

	(void)state;
	assert_false(str_cut(STR("ab"), ':', &before, &after));
	check(before, "?");
	check(after, "?");
	assert_true(str_cut(STR("a:b:c"), ':', &before, &after));
	check(before, "a");
	check(after, "b:c");
	assert_true(str_cut(STR(":"), ':', &before, &after));
	check(before, "");
	check(after, "");
	assert_true(str_cut_last(STR("a:b:c"), ':', &before, &after));
	check(before, "a:b");
	check(after, "c");
	assert_false(str_cut_last(STR("ab"), ':', &before, &after));
	assert_false(str_cut_last(STR_EMPTY, ':', &before, &after));
	check(before, "a:b");
	check(after, "c");
}

static void
check_number(const char *text, int64_t expected)
{
	int64_t value = 77;

	if (!str_to_i64(str_c(text), INT64_MIN, INT64_MAX, &value) || value != expected)
		fail_msg("%s gave %lld", text, (long long)value);
}

static void
check_no_number(struct str text)
{
	int64_t value = 77;

	if (str_to_i64(text, INT64_MIN, INT64_MAX, &value) || value != 77)
		fail_msg("%" STR_FMT " gave %lld", STR_ARG(text), (long long)value);
}

static void
reads_numbers(void **state)
{
	(void)state;
	check_number("0", 0);
	check_number("-0", 0);
	check_number("007", 7);
	check_number("9223372036854775807", INT64_MAX);
	check_number("-9223372036854775808", INT64_MIN);
}

static void
refuses_other_numbers(void **state)
{
	static const char *const wrong[] = {
		"",
		"-",
		"+1",
		" 1",
		"1 ",
		"1x",
		"x",
		"0x1",
		"1.0",
		"--1",
		"1-",
		"1e3",
		"9223372036854775808",
		"-9223372036854775809",
		"18446744073709551617",
		"99999999999999999999",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
		check_no_number(str_c(wrong[i]));
	check_no_number(STR("1\0"));
	check_no_number(none);
}

static void
numbers_have_a_range(void **state)
{
	int64_t value;

	(void)state;
	assert_true(str_to_i64(STR("65535"), 1, 65535, &value));
	assert_false(str_to_i64(STR("65536"), 1, 65535, &value));
	assert_true(str_to_i64(STR("1"), 1, 65535, &value));
	assert_false(str_to_i64(STR("0"), 1, 65535, &value));
	assert_false(str_to_i64(STR("-1"), 0, 65535, &value));
}

static void
check_duration(const char *text, int64_t expected)
{
	int64_t ns = 77;

	if (!str_to_duration_ns(str_c(text), &ns) || ns != expected)
		fail_msg("%s gave %lld", text, (long long)ns);
}

/* The cases, and the results, of Go's own test of ParseDuration. */
static void
reads_durations(void **state)
{
	(void)state;
	check_duration("0", 0);
	check_duration("5s", 5 * NS_PER_SEC);
	check_duration("30s", 30 * NS_PER_SEC);
	check_duration("1478s", 1478 * NS_PER_SEC);
	check_duration("-5s", -5 * NS_PER_SEC);
	check_duration("+5s", 5 * NS_PER_SEC);
	check_duration("-0", 0);
	check_duration("+0", 0);
	check_duration("5.0s", 5 * NS_PER_SEC);
	check_duration("5.6s", 5600 * NS_PER_MS);
	check_duration("5.s", 5 * NS_PER_SEC);
	check_duration(".5s", 500 * NS_PER_MS);
	check_duration("1.0s", NS_PER_SEC);
	check_duration("1.00s", NS_PER_SEC);
	check_duration("1.004s", 1004 * NS_PER_MS);
	check_duration("1.0040s", 1004 * NS_PER_MS);
	check_duration("100.00100s", 100001 * NS_PER_MS);
	check_duration("10ns", 10);
	check_duration("11us", 11000);
	check_duration("12\xc2\xb5s", 12000);
	check_duration("12\xce\xbcs", 12000);
	check_duration("13ms", 13 * NS_PER_MS);
	check_duration("14s", 14 * NS_PER_SEC);
	check_duration("15m", 15 * 60 * NS_PER_SEC);
	check_duration("16h", 16 * 3600 * NS_PER_SEC);
	check_duration("3h30m", 12600 * NS_PER_SEC);
	check_duration("10.5s4m", 250500 * NS_PER_MS);
	check_duration("-2m3.4s", -123400 * NS_PER_MS);
	check_duration("1h2m3s4ms5us6ns", 3723 * NS_PER_SEC + 4005006);
	check_duration("39h9m14.425s", 140954425 * NS_PER_MS);
}

static void
reads_durations_to_the_last_bit(void **state)
{
	(void)state;
	check_duration("52763797000ns", INT64_C(52763797000));
	check_duration("0.3333333333333333333h", 20 * 60 * NS_PER_SEC);
	check_duration("9007199254740993ns", (INT64_C(1) << 53) + 1);
	check_duration("9223372036854775807ns", INT64_MAX);
	check_duration("9223372036854775.807us", INT64_MAX);
	check_duration("9223372036s854ms775us807ns", INT64_MAX);
	check_duration("-9223372036854775808ns", INT64_MIN);
	check_duration("-9223372036854775.808us", INT64_MIN);
	check_duration("-9223372036s854ms775us808ns", INT64_MIN);
	check_duration("-2562047h47m16.854775808s", INT64_MIN);
	check_duration("0.100000000000000000000h", 360 * NS_PER_SEC);
	check_duration("0.830103483285477580700h", INT64_C(2988372539827));
}

static void
refuses_other_durations(void **state)
{
	static const char *const wrong[] = {
		"",
		"3",
		"-",
		"s",
		".",
		"-.",
		".s",
		"+.s",
		"1d",
		"\x85\x85",
		"1s ",
		" 1s",
		"1h-1m",
		"1hh",
		"1 s",
		"00",
		"1.2.3s",
		"3000000h",
		"5124096h",
		"9223372036854775808ns",
		"9223372036854775.808us",
		"9223372036854ms775us808ns",
		"-9223372036854775809ns",
		"99999999999999999999s",
		"9223372036s855ms",
		"1\xb5s",
		"1S",
	};
	int64_t ns = 77;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		if (str_to_duration_ns(str_c(wrong[i]), &ns) || ns != 77)
			fail_msg("%s gave %lld", wrong[i], (long long)ns);
	}
	assert_false(str_to_duration_ns(none, &ns));
}

/* From the authors' own list. */
/* ---- characters, and words ---- */

static void
reads_booleans_as_go_does(void **state)
{
	static const char *const yes[] = { "1", "t", "T", "TRUE", "true", "True" };
	static const char *const no[] = { "0", "f", "F", "FALSE", "false", "False" };
	static const char *const others[] = { "", "yes", "tRUE", "true ", "2", "on" };
	bool value = false;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
		assert_true(str_to_bool(str_c(yes[i]), &value) && value);
		assert_true(str_to_bool(str_c(no[i]), &value) && !value);
		assert_false(str_to_bool(str_c(others[i]), &value));
		assert_false(value);
	}
}

static void
distinguishes_characters(void **state)
{
	(void)state;
	assert_true(str_is_digits(STR("0189")));
	assert_false(str_is_digits(STR("")));
	assert_false(str_is_digits(STR("1/")));
	assert_false(str_is_digits(STR("1:")));
	assert_true(str_is_visible(STR("!a~")));
	assert_true(str_is_visible(STR("")));
	assert_false(str_is_visible(STR("a b")));
	assert_false(str_is_visible(STR("a\r\nb")));
	assert_false(str_is_visible(STR("a\x7f")));
	assert_false(str_is_visible(STR("\xc3\xa4")));
}

static void
reads_hexadecimal_digits(void **state)
{
	(void)state;
	assert_int_equal(str_hex_digit('0'), 0);
	assert_int_equal(str_hex_digit('9'), 9);
	assert_int_equal(str_hex_digit('a'), 10);
	assert_int_equal(str_hex_digit('F'), 15);
	assert_int_equal(str_hex_digit('g'), -1);
	assert_int_equal(str_hex_digit('@'), -1);
	assert_int_equal(str_hex_digit('/'), -1);
	assert_int_equal(str_hex_digit(':'), -1);
	assert_int_equal(str_hex_digit('\x10'), -1);
}

static void
nul_is_in_no_set_of_characters(void **state)
{
	(void)state;
	assert_true(char_is_in('a', "ba"));
	assert_false(char_is_in('c', "ba"));
	assert_false(char_is_in('\0', "ba"));
	assert_false(char_is_in('\0', ""));
}

static void
hashes_as_fnv1a(void **state)
{
	(void)state;
	assert_true(str_hash(STR("")) == UINT64_C(0xcbf29ce484222325));
	assert_true(str_hash(STR("a")) == UINT64_C(0xaf63dc4c8601ec8c));
	assert_true(str_hash(STR("foobar")) == UINT64_C(0x85944171f73967e8));
}

static void
measures_utf8(void **state)
{
	static const char *const wrong[] = {
		"\x80",
		"\xbf",
		"\xc0\x80",
		"\xc1\xbf",
		"\xc2",
		"\xc2\x41",
		"\xc2\xc2",
		"\xe0\x80\x80",
		"\xe0\x9f\xbf",
		"\xed\xa0\x80",
		"\xed\xbf\xbf",
		"\xe2\x82",
		"\xe2\x82\x41",
		"\xf0\x8f\xbf\xbf",
		"\xf0\x9f\x98",
		"\xf4\x90\x80\x80",
		"\xf5\x80\x80\x80",
		"\xff",
		"\xfe",
	};

	(void)state;
	assert_int_equal(str_utf8_len(none), 0);
	assert_int_equal(str_utf8_len(STR("\0")), 1);
	assert_int_equal(str_utf8_len(STR("ab")), 1);
	assert_int_equal(str_utf8_len(STR("\xc3\xa4z")), 2);
	assert_int_equal(str_utf8_len(STR("\xe0\xa0\x80")), 3);
	assert_int_equal(str_utf8_len(STR("\xed\x9f\xbf")), 3);
	assert_int_equal(str_utf8_len(STR("\xe2\x82\xac")), 3);
	assert_int_equal(str_utf8_len(STR("\xf0\x90\x80\x80")), 4);
	assert_int_equal(str_utf8_len(STR("\xf4\x8f\xbf\xbf")), 4);
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
		assert_int_equal(str_utf8_len(str_c(wrong[i])), 0);
}

static void
heads_keep_characters_whole(void **state)
{
	struct str text = STR("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z"); /* at 0, 1, 3, 6, 10 */
	static const size_t heads[] = { 0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11 };

	(void)state;
	for (size_t max = 0; max < ARRAY_LEN(heads); max++)
		assert_int_equal(str_utf8_head(text, max).len, heads[max]);
	assert_int_equal(str_utf8_head(none, 0).len, 0);
	assert_int_equal(str_utf8_head(STR("\x80\x80\x80\x80\x80\x80"), 5).len, 5); /* no UTF-8 */
	assert_int_equal(str_utf8_head(STR("a\x80\x80\x80\x80\x80"), 5).len, 5);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(views_are_never_null),
		cmocka_unit_test(packs_texts_behind_one_another),
		cmocka_unit_test(compares),
		cmocka_unit_test(orders),
		cmocka_unit_test(looks_at_ends),
		cmocka_unit_test(finds),
		cmocka_unit_test(takes_parts),
		cmocka_unit_test(splits),
		cmocka_unit_test(cuts),
		cmocka_unit_test(reads_numbers),
		cmocka_unit_test(refuses_other_numbers),
		cmocka_unit_test(numbers_have_a_range),
		cmocka_unit_test(reads_durations),
		cmocka_unit_test(reads_durations_to_the_last_bit),
		cmocka_unit_test(refuses_other_durations),
		cmocka_unit_test(reads_booleans_as_go_does),
		cmocka_unit_test(distinguishes_characters),
		cmocka_unit_test(reads_hexadecimal_digits),
		cmocka_unit_test(nul_is_in_no_set_of_characters),
		cmocka_unit_test(hashes_as_fnv1a),
		cmocka_unit_test(measures_utf8),
		cmocka_unit_test(heads_keep_characters_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
