#include "providers/hcloud/selector.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
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
selects_what_holds_all_requirements(void **state)
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

	(void)state;
	check_all(texts, ARRAY_LEN(texts), true);
}

static void
passes_over_where_one_does_not_hold(void **state)
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
		"pool>1", /* its value is not a number */
		"pool<1",
		"pool=web,missing",
		"missing,pool=web",
		"in",
		"in in (in)",
		"topology.kubernetes.io/zone=nbg1-dc3",
	};

	(void)state;
	check_all(texts, ARRAY_LEN(texts), false);
}

/* As Go's parser reads it: the end where a token could start, and the end of a token. */
static void
nul_ends_tokens_and_the_text(void **state)
{
	static const char ended[] = "pool\0\0,missing", cut[] = "pool\0=\0web\0,gpu",
			  other[] = "pool\0=\0db";

	(void)state;
	assert_true(select_n(ended, sizeof(ended) - 1));
	assert_true(select_n(cut, sizeof(cut) - 1));
	assert_false(select_n(other, sizeof(other) - 1));
}

static void
check_bad(const char *text, size_t position, const char *problem)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	const struct hz_selector *selector = NULL;
	char expected[ERR_MSG_SIZE];
	struct error err;

	if (hz_selector_parse(str_c(text), &arena, &selector, &err))
		fail_msg("%s: was taken", text);
	snprintf(expected, sizeof(expected), "selector \"%s\", position %zu: %s", text, position,
	         problem);
	assert_int_equal(err.code, ERR_INVALID);
	assert_string_equal(err.msg, expected);
	assert_null(selector);
}

static void
reports_where_and_what_was_expected(void **state)
{
	(void)state;
#define OPERATOR "expected =, ==, !=, in, notin, < or >"
#define END "expected ',' or the end"
	check_bad(",", 1, "expected a key");
	check_bad("  =a", 3, "expected a key");
	check_bad("a,", 3, "expected a key after ','");
	check_bad("a,,b", 3, "expected a key after ','");
	check_bad("a=b c", 5, END);
	check_bad("!a=b", 3, END);
	check_bad("a in (b) c", 10, END);
	check_bad("!", 2, "expected a key");
	check_bad("!!a", 2, "expected a key");
	check_bad("a b", 3, OPERATOR);
	check_bad("a!", 2, OPERATOR);
	check_bad("a (b)", 3, OPERATOR);
	check_bad("a=(", 3, "expected a value");
	check_bad("a===b", 4, "expected a value");
	check_bad("a<=1", 3, "expected a value");
	check_bad("a in", 5, "expected '('");
	check_bad("a in b", 6, "expected '('");
	check_bad("a in (", 7, "expected ',' or ')'");
	check_bad("a in (b", 8, "expected ',' or ')'");
	check_bad("a in (b c)", 9, "expected ',' or ')'");
	check_bad("a in (b=c)", 8, "expected ',' or ')'");
}

#define LONG "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define RULE                                                                                  \
	": at most 63 letters, digits, '-', '_' and '.', the first and the last a letter or " \
	"digit"

static void
reports_what_is_wrong_with_a_key(void **state)
{
	static const char *const keys[] = {
		"-a", "a-", "a$b", LONG, "x/", "/a", "X/a", "x_y/a", "x..y/a", "-x/a", "a/b/c",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		check_bad(keys[i], 1,
		          "not the key of a label, such as pool or example.com/pool" RULE);
	check_bad("pool=web, !a$b", 12,
	          "not the key of a label, such as pool or example.com/pool" RULE);
}

static void
reports_what_is_wrong_with_a_value(void **state)
{
	(void)state;
#define NUMBER "< and > compare with an integer"
	check_bad("a=b/c", 3, "not the value of a label" RULE);
	check_bad("a in (b,-)", 9, "not the value of a label" RULE);
	check_bad("a=" LONG, 3, "not the value of a label" RULE);
	check_bad("a>b", 3, NUMBER);
	check_bad("a<", 3, NUMBER);
	check_bad("a< ,b", 4, NUMBER);
	check_bad("a>1_0", 3, NUMBER);
	check_bad("a>9223372036854775808", 3, NUMBER);
	check_bad("a>-1", 3, "not the value of a label" RULE);
}

/* A log line or an event shows the text: quotes and line feeds in it are escaped. */
static void
quotes_the_selector(void **state)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	const struct hz_selector *selector;
	struct error err;

	(void)state;
	assert_false(hz_selector_parse(STR("\"\n="), &arena, &selector, &err));
	assert_true(str_starts(str_c(err.msg), STR("selector \"\\\"\\n=\", position 1: ")));
}

static void
long_prefixes_are_refused(void **state)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	const struct hz_selector *selector;
	struct error err;
	char key[256];

	(void)state;
	memset(key, 'a', sizeof(key));
	memcpy(key + 254, "/b", 2);
	assert_false(hz_selector_parse(str_n(key, 256), &arena, &selector, &err));
	assert_non_null(strstr(err.msg, "position 1: not the key of a label"));
	assert_true(hz_selector_parse(str_n(key + 1, 255), &arena, &selector, &err));
}

static void
takes_text_up_to_its_limit(void **state)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	char *text = malloc(LIMIT_SELECTOR + 1);
	const struct hz_selector *selector;
	struct error err;

	(void)state;
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
takes_requirements_up_to_their_limit(void **state)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_SELECTOR);
	const struct hz_selector *selector;
	struct error err;

	(void)state;
	for (size_t i = 0; i < LIMIT_SELECTOR_REQUIREMENTS; i++)
		buf_addf(&text, "%s!z", i > 0 ? "," : "");
	assert_true(hz_selector_parse(buf_str(&text), &arena, &selector, &err));
	assert_true(hz_selector_matches(selector, labels, ARRAY_LEN(labels)));
	buf_add_c(&text, ",!z");
	assert_false(hz_selector_parse(buf_str(&text), &arena, &selector, &err));
	assert_int_equal(err.code, ERR_INVALID);
	assert_string_equal(err.msg, "a selector of more than 64 requirements");
}

static void
finds_a_value_wherever_it_is_in_the_list(void **state)
{
	(void)state;
	assert_true(select_n("pool in (x,web,a,)", 18));
	assert_true(select_n("pool in (web,web,z)", 19));
	assert_true(select_n("pool in (,z,m,a,web)", 20));
	assert_false(select_n("pool in (,z,m,a,wec)", 20));
	assert_false(select_n("pool notin (z,m,web,a)", 22));
}

static void
keeps_no_view_of_the_text(void **state)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	const struct hz_selector *selector;
	char text[] = "pool=web";
	struct error err;

	(void)state;
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
		cmocka_unit_test(reports_where_and_what_was_expected),
		cmocka_unit_test(reports_what_is_wrong_with_a_key),
		cmocka_unit_test(reports_what_is_wrong_with_a_value),
		cmocka_unit_test(quotes_the_selector),
		cmocka_unit_test(long_prefixes_are_refused),
		cmocka_unit_test(takes_text_up_to_its_limit),
		cmocka_unit_test(takes_requirements_up_to_their_limit),
		cmocka_unit_test(finds_a_value_wherever_it_is_in_the_list),
		cmocka_unit_test(keeps_no_view_of_the_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
