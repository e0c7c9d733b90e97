/* The text and the JSON of an explanation. */
#include "operator/explain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"

static struct buf out = BUF_INIT(MIB(1));
static const struct check check_one = { .code = "CCMD044",
	                                .group = "Nodes",
	                                .title = "Each node has its machine",
	                                .fault = "Nodes have no machine",
	                                .why = "" };

static struct explanation
bad_node(void)
{
	struct explanation e = {
		.what = { DESCRIBED_NODE, STR("a") },
		.exists = true,
		.identity = STR("a node"),
		.waits_for = STR("a look\nof \033[31m red"),
		.rows = { { "state", STR("not Ready"), STR("no such machine"), true },
		          { "addresses", STR("InternalIP \xc3\xa4"), STR_EMPTY, false } },
		.n_rows = 2,
	};

	report_begin(&e.problems, &check_one);
	report_find(&e.problems, "node", STR("a"), "gone");
	report_fix(&e.problems, "wait");
	return e;
}

static const char *
printed(const struct explanation *e, bool has_colours)
{
	buf_reset(&out);
	explain_print(e, has_colours, /*width=*/0, &out);
	return out.ptr;
}

static void
the_text_is_aligned_and_clean(void **state)
{
	struct explanation e = bad_node();

	(void)state;
	assert_string_equal(printed(&e, false), "node a\n"
	                                        "  is             a node\n"
	                                        "  waits for      a look of  [31m red\n"
	                                        "\n"
	                                        "Problems\n"
	                                        "  CCMD044        gone\n"
	                                        "                 fix: wait\n"
	                                        "\n"
	                                        "                 cluster       cloud\n"
	                                        "  state          not Ready     no such machine\n"
	                                        "  addresses      InternalIP \xc3\xa4  -\n");
	assert_non_null(strstr(printed(&e, true), "\033[31mCCMD044"));
	assert_non_null(strstr(printed(&e, true), "\033[33mno such machine\033[0m"));
	explanation_fini(&e);
}

static void
events_and_gaps_are_listed(void **state)
{
	struct leader_event events[25] = { 0 };
	struct explanation e = bad_node();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(events); i++)
		events[i] = (struct leader_event){ .time_s = 1767322800 + (int64_t)i,
			                           .type = STR("Warning"),
			                           .reason = STR("Held"),
			                           .source = STR("c"),
			                           .message = STR("m"),
			                           .count = i == 24 ? 7 : 1 };
	e.events = events;
	e.n_events = ARRAY_LEN(events);
	explain_note_gap(&(struct explanation){ .n_gaps = EXPLAIN_MAX_GAPS }, "x",
	                 &(struct error){ 0 }); /* there is no room: nothing happens */
	e.gaps[e.n_gaps++] = (struct explain_gap){ "events", STR("forbidden") };
	assert_non_null(strstr(printed(&e, false), "Events\n  5 earlier ones are not shown\n"
	                                           "  2026-01-02T03:00:05Z  Held: m\n"));
	assert_non_null(strstr(out.ptr, "  2026-01-02T03:00:24Z  Held (7 times): m\n"
	                                "\nNot known\n  - events: forbidden\n"));
	buf_reset(&out);
	explain_print_json(&e, &out);
	assert_non_null(strstr(out.ptr,
	                       "\"notKnown\":[{\"what\":\"events\",\"why\":\"forbidden\"}]"));
	assert_non_null(strstr(out.ptr,
	                       "{\"time\":1767322800,\"type\":\"Warning\",\"reason\":\"Held\","
	                       "\"source\":\"c\",\"message\":\"m\",\"count\":1}"));
	explanation_fini(&e);
}

static void
the_exit_code_is_that_of_the_worst(void **state)
{
	struct explanation e = { .exists = true };
	struct error err;

	(void)state;
	assert_int_equal(explain_exit_code(&e), 0);
	e.exists = false;
	assert_int_equal(explain_exit_code(&e), 1);
	e = bad_node();
	assert_int_equal(explain_exit_code(&e), 1);
	report_begin(&e.problems, &check_one);
	err_set(&err, ERR_UNAVAILABLE, "no answer");
	report_unknown(&e.problems, &err);
	assert_int_equal(explain_exit_code(&e), 2);
	assert_non_null(strstr(printed(&e, false), "Not known\n  - CCMD044: no answer\n"));
	explanation_fini(&e);
	e = (struct explanation){ .exists = true, .is_unknown = true };
	assert_int_equal(explain_exit_code(&e), 2);
}

static void
findings_about_other_objects_are_left_out(void **state)
{
	struct report report = { .only_kind = "node", .only_name = STR("a") };

	(void)state;
	report_begin(&report, &check_one);
	report_find(&report, "node", STR("b"), "gone");
	report_fix(&report, "wait");
	report_find(&report, "service", STR("a"), "gone");
	assert_int_equal(report_count(&report, RESULT_PROBLEM), 0);
	assert_int_equal(report.results[0].n_findings, 0);
	report_find(&report, "node", STR("a"), "gone");
	assert_int_equal(report_count(&report, RESULT_PROBLEM), 1);
	assert_int_equal(report.results[0].n_findings, 1);
	report_fini(&report);
}

static int
tear_down(void **state)
{
	(void)state;
	buf_fini(&out);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_text_is_aligned_and_clean),
		cmocka_unit_test(events_and_gaps_are_listed),
		cmocka_unit_test(the_exit_code_is_that_of_the_worst),
		cmocka_unit_test(findings_about_other_objects_are_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, tear_down);
}
