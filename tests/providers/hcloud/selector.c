#include "providers/hcloud/selector.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"

/* A node's labels. */
static const struct label pool = { STR("pool"), STR("web") }, gpu = { STR("gpu"), STR("") },
			  slots = { STR("slots"), STR("12") },
			  zone = { STR("topology.kubernetes.io/zone"), STR("fsn1-dc14") };
static const struct label *const labels[] = { &pool, &gpu, &slots, &zone };

static bool
select_n(const char *text, size_t len)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	const struct hz_selector *selector;
	struct error err;

	if (!hz_selector_parse(str_n(text, len), &arena, &selector, &err))
		fail_msg("%s: %s", text, err.msg);
	return hz_selector_matches(selector, labels, ARRAY_LEN(labels));
}

static void
check_all(const char *const texts[], size_t n, bool is_selected)
{
	for (size_t i = 0; i < n; i++) {
		if (select_n(texts[i], strlen(texts[i])) != is_selected)
			fail_msg("%s: %s", texts[i], is_selected ? "not selected" : "selected");
	}
}

static void
selects_what_holds_all_requirements(void **state UNUSED)
{
	static const char *const texts[] = {
		"",
		"  \t\r\n",
		"pool",
		"pool=web",
		"pool==web",
		" pool = web ",
		"pool!=db",
		"pool in (web)",
		"pool in(db,web)",
		"pool in ( db , web )",
		"pool notin (db)",
		"gpu",
		"gpu=",
		"gpu==",
		"gpu=,pool=web",
		"gpu in ()",
		"gpu in (,a)",
		"gpu in (a,)",
		"gpu in (a,,b)",
		"gpu in (,)",
		"!missing",
		"missing!=a",
		"missing!=",
		"missing notin (a,b)",
		"slots>11",
		"slots<13",
		"slots > 11 , slots < 13",
		"slots>0011",
		"topology.kubernetes.io/zone=fsn1-dc14,pool=web,!missing",
		"pool,gpu,slots",
		"in!=notin", /* words, where no operator is expected */
		"notin notin (in,notin)",
	};

	check_all(texts, ARRAY_LEN(texts), true);
}

static void
passes_over_where_one_does_not_hold(void **state UNUSED)
{
	static const char *const texts[] = {
		"missing",
		"missing=",
		"missing=a",
		"missing in (a)",
		"missing in ()",
		"missing>1",
		"missing<1",
		"!pool",
		"! gpu",
		"pool=Web",
		"pool=we",
		"pool=",
		"pool!=web",
		"pool in (db,app)",
		"pool in ()",
		"pool notin (web)",
		"pool notin (db,web)",
		"gpu!=",
		"gpu notin ()",
		"slots>12",
		"slots<12",
		"pool>1", /* its value is no number */
		"pool<1",
		"pool=web,missing",
		"missing,pool=web",
		"in",
		"in in (in)",
		"topology.kubernetes.io/zone=nbg1-dc3",
	};

	check_all(texts, ARRAY_LEN(texts), false);
}

/* As Go's parser reads it: the end where a token could start, and the end of a token. */
static void
nul_ends_tokens_and_the_text(void **state UNUSED)
{
	static const char ended[] = "pool\0\0,missing", cut[] = "pool\0=\0web\0,gpu",
			  other[] = "pool\0=\0db";

	assert_true(select_n(ended, sizeof(ended) - 1));
	assert_true(select_n(cut, sizeof(cut) - 1));
	assert_false(select_n(other, sizeof(other) - 1));
}

static void
check_bad(const char *text, const char *msg)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	const struct hz_selector *selector = NULL;
	struct error err;

	if (hz_selector_parse(str_c(text), &arena, &selector, &err))
		fail_msg("%s: was taken", text);
	assert_int_equal(err.code, ERR_INVALID);
	assert_string_equal(err.msg, msg);
	assert_null(selector);
}

static void
says_what_it_found_and_expected(void **state UNUSED)
{
#define IN "unable to parse requirement: "
#define OPERATORS "in, notin, =, ==, !=, gt, lt"
	check_bad(",", "found ',', expected: !, identifier, or 'end of string'");
	check_bad("=a", "found '=', expected: !, identifier, or 'end of string'");
	check_bad("a,", "found '', expected: identifier after ','");
	check_bad("a,,b", "found ',', expected: identifier after ','");
	check_bad("a=b c", "found 'c', expected: ',' or 'end of string'");
	check_bad("!a=b", "found '=', expected: ',' or 'end of string'");
	check_bad("a in (b) c", "found 'c', expected: ',' or 'end of string'");
	check_bad("!", IN "found '', expected: identifier");
	check_bad("!!a", IN "found '!', expected: identifier");
	check_bad("a b", IN "found 'b', expected: " OPERATORS);
	check_bad("a!", IN "found '!', expected: " OPERATORS);
	check_bad("a (b)", IN "found '(', expected: " OPERATORS);
	check_bad("a=(", IN "found '(', expected: identifier");
	check_bad("a===b", IN "found '=', expected: identifier");
	check_bad("a<=1", IN "found '=', expected: identifier");
	check_bad("a in", IN "found '', expected: '('");
	check_bad("a in b", IN "found 'b', expected: '('");
	check_bad("a in (", IN "found '', expected: ',', ')' or identifier");
	check_bad("a in (b", IN "found '', expected: ',', ')' or identifier");
	check_bad("a in (b c)", IN "found 'c', expected: ',', ')' or identifier");
	check_bad("a in (b=c)", IN "found '=', expected: ',', ')' or identifier");
}

static void
says_what_is_wrong_with_a_key(void **state UNUSED)
{
#define RULE                                                        \
	"must consist of alphanumeric characters, '-', '_' or '.'," \
	" and must start and end with an alphanumeric character"
#define BAD(key) IN "<nil>: Invalid value: \"" key "\": "
#define SUBDOMAIN                                                                             \
	"prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric " \
	"characters, '-' or '.', and must start and end with an alphanumeric character"
#define LONG "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	check_bad("-a", BAD("-a") "name part " RULE);
	check_bad("a-", BAD("a-") "name part " RULE);
	check_bad("a$b", BAD("a$b") "name part " RULE);
	check_bad("\"", BAD("\\\"") "name part " RULE);
	check_bad(LONG, BAD(LONG) "name part must be no more than 63 bytes");
	check_bad("x/", BAD("x/") "name part must be non-empty; name part " RULE);
	check_bad("/a", BAD("/a") "prefix part must be non-empty");
	check_bad("X/a", BAD("X/a") SUBDOMAIN);
	check_bad("x_y/a", BAD("x_y/a") SUBDOMAIN);
	check_bad("x..y/a", BAD("x..y/a") SUBDOMAIN);
	check_bad("-x/a", BAD("-x/a") SUBDOMAIN);
	check_bad(
		"a/b/c",
		BAD("a/b/c") "a valid label key " RULE
			     " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')");
}

static void
says_what_is_wrong_with_a_value(void **state UNUSED)
{
#define VALUE_RULE                                                                               \
	"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' " \
	"or '.', and must start and end with an alphanumeric character"
#define NUMBER "for 'Gt', 'Lt' operators, the value must be an integer"
	check_bad("a=b/c", IN "values[a]: Invalid value: \"b/c\": " VALUE_RULE);
	check_bad("a in (b,-)", IN "values[a]: Invalid value: \"-\": " VALUE_RULE);
	check_bad("a=" LONG,
	          IN "values[a]: Invalid value: \"" LONG "\": must be no more than 63 bytes");
	check_bad("a>b", IN "values[a]: Invalid value: \"b\": " NUMBER);
	check_bad("a<", IN "values[a]: Invalid value: \"\": " NUMBER);
	check_bad("a>1_0", IN "values[a]: Invalid value: \"1_0\": " NUMBER);
	check_bad("a>9223372036854775808",
	          IN "values[a]: Invalid value: \"9223372036854775808\": " NUMBER);
	check_bad("a>-1", IN "values[a]: Invalid value: \"-1\": " VALUE_RULE);
}

static void
long_prefixes_are_refused(void **state UNUSED)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	const struct hz_selector *selector;
	struct error err;
	char key[256];

	memset(key, 'a', sizeof(key));
	memcpy(key + 254, "/b", 2);
	assert_false(hz_selector_parse(str_n(key, 256), &arena, &selector, &err));
	assert_non_null(strstr(err.msg, "prefix part must be no more than 253 bytes"));
	assert_true(hz_selector_parse(str_n(key + 1, 255), &arena, &selector, &err));
}

static void
takes_text_up_to_its_limit(void **state UNUSED)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	char *text = malloc(LIMIT_SELECTOR + 1);
	const struct hz_selector *selector;
	struct error err;

	memset(text, ',', LIMIT_SELECTOR + 1);
	memcpy(text, "gpu in (", 8);
	text[LIMIT_SELECTOR - 1] = ')';
	assert_true(hz_selector_parse(str_n(text, LIMIT_SELECTOR), &arena, &selector, &err));
	assert_true(hz_selector_matches(selector, labels, ARRAY_LEN(labels)));
	assert_false(hz_selector_parse(str_n(text, LIMIT_SELECTOR + 1), &arena, &selector, &err));
	assert_int_equal(err.code, ERR_INVALID);
	assert_string_equal(err.msg, "a selector of more than 16384 bytes");
	free(text);
}

static void
keeps_no_view_of_the_text(void **state UNUSED)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	const struct hz_selector *selector;
	char text[] = "pool=web";
	struct error err;

	assert_true(hz_selector_parse(str_c(text), &arena, &selector, &err));
	memset(text, 'x', sizeof(text));
	assert_true(hz_selector_matches(selector, labels, ARRAY_LEN(labels)));
	assert_false(hz_selector_matches(selector, NULL, 0));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(selects_what_holds_all_requirements),
		cmocka_unit_test(passes_over_where_one_does_not_hold),
		cmocka_unit_test(nul_ends_tokens_and_the_text),
		cmocka_unit_test(says_what_it_found_and_expected),
		cmocka_unit_test(says_what_is_wrong_with_a_key),
		cmocka_unit_test(says_what_is_wrong_with_a_value),
		cmocka_unit_test(long_prefixes_are_refused),
		cmocka_unit_test(takes_text_up_to_its_limit),
		cmocka_unit_test(keeps_no_view_of_the_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
