#include "operator/report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/limits.h"

static const struct check first = {
	.code = "CCMD001",
	.group = "API server",
	.title = "It responds",
	.fault = "It does not respond",
	.why = "Else nothing works.",
	.fix = FIX_EITHER,
	.causes = { "CCMD050" },
	.subject = "the server",
};
static const struct check second = {
	.code = "CCMD002",
	.group = "API server",
	.title = "It is new",
	.fault = "It is old",
	.why = "Old ones differ.",
	.causes = { "CCMD001" },
};
static const struct check third = {
	.code = "CCMD040",
	.group = "Nodes",
	.title = "All are well",
	.fault = "Some are not well",
	.why = "Pods need them.",
	.fix = FIX_EITHER,
	.causes = { "CCMD001" },
};
static const struct check last = {
	.code = "CCMD050",
	.group = "Nodes",
	.title = "The name exists",
	.fault = "The name does not exist",
	.why = "It is needed.",
	.causes = { "CCMD001" },
	.subject = "the name",
};

#define REPORT(r)                                           \
	CLEANUP(report_fini) struct report r = REPORT_INIT; \
	CLEANUP(buf_fini) struct buf out = BUF_INIT(MIB(1))

static void
exit_codes(void **state UNUSED)
{
	struct error err;
	REPORT(r);

	report_begin(&r, &first);
	assert_int_equal(report_exit_code(&r), 0);
	report_begin(&r, &second);
	report_skip(&r, "there is no need");
	assert_int_equal(report_exit_code(&r), 0);
	report_begin(&r, &first);
	report_note(&r, "flag", STR("--x"), "has no effect");
	assert_int_equal(report_exit_code(&r), 0);
	report_begin(&r, &third);
	report_find(&r, "node", STR("n1"), "it is gone");
	assert_int_equal(report_exit_code(&r), 1);
	report_begin(&r, &first);
	err_set(&err, ERR_UNAVAILABLE, "connection refused");
	report_unknown(&r, &err);
	assert_int_equal(report_exit_code(&r), 2);
	(void)out;
}

static void
prints_text(void **state UNUSED)
{
	struct error err;
	REPORT(r);

	err_set(&err, ERR_UNAVAILABLE, "connection refused");
	report_begin(&r, &first);
	report_unknown(&r, &err);
	err_set(&err, ERR_UNAVAILABLE, "reset");
	report_begin(&r, &second);
	report_unknown(&r, &err);
	report_begin(&r, &third);
	report_find(&r, "node", STR("n1"), "it is gone");
	report_command(&r, "kubectl delete node n1");
	report_find(&r, "", STR_EMPTY, "all are gone");
	report_fix(&r, "find out why");
	report_print(&r, /*has_colours=*/false, /*shows_all=*/false, /*width=*/0, &out);
	assert_string_equal(out.ptr,
	                    "1 problem; 0 checks are ok, 2 could not run. --all shows them.\n"
	                    "\n"
	                    "API server\n"
	                    "  unknown  CCMD001  It responds\n"
	                    "           could not check: connection refused\n"
	                    "  unknown  CCMD002  It is new\n"
	                    "           could not check: reset\n"
	                    "\n"
	                    "Nodes\n"
	                    "  problem  CCMD040  Some are not well\n"
	                    "           Pods need them.\n"
	                    "           - node n1: it is gone\n"
	                    "             run: kubectl delete node n1\n"
	                    "           - all are gone\n"
	                    "             fix: find out why\n");
}

static void
wraps_all_but_commands(void **state UNUSED)
{
	REPORT(r);

	report_begin(&r, &third);
	report_find(&r, "node", STR("n1"), "one two three four five six seven eight nine ten");
	report_command(&r, "kubectl label node n1 --overwrite topology.kubernetes.io/zone=fsn1");
	report_print(&r, false, false, /*width=*/40, &out);
	assert_non_null(strstr(out.ptr, "           - node n1: one two three four\n"
	                                "             five six seven eight nine\n"
	                                "             ten\n"
	                                "             run: kubectl label node n1 --overwrite "));
}

static void
shows_findings_that_are_alike_in_one_line(void **state UNUSED)
{
	static const char *const names[] = { "n1", "n2", "n3", "n4" };
	REPORT(r);

	report_begin(&r, &third);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		report_find(&r, "node", str_c(names[i]), "it is gone");
		report_command(&r, "kubectl delete node %s", names[i]);
	}
	report_print(&r, false, false, 0, &out);
	assert_non_null(strstr(out.ptr, "- 4 nodes: n1 … n4: it is gone\n"
	                                "             run, for n1: kubectl delete node n1\n"));
	buf_reset(&out);
	report_print(&r, false, true, 0, &out);
	assert_non_null(strstr(out.ptr, "- node n3: it is gone\n"));
}

/* What follows from one cause is one line with its number. */
static void
names_the_cause_once(void **state UNUSED)
{
	struct error err;
	REPORT(r);

	report_begin(&r, &first);
	report_find(&r, "", STR_EMPTY, "connection refused");
	report_begin(&r, &second);
	err_set(&err, ERR_UNAVAILABLE, "list: connection refused");
	report_unknown(&r, &err);
	report_begin(&r, &third);
	report_find(&r, "node", STR("n1"), "it is gone");
	report_command(&r, "kubectl delete node n1");
	report_find_causes(&r);
	assert_int_equal(r.results[1].result, RESULT_UNKNOWN);
	assert_int_equal(r.results[2].result, RESULT_SKIPPED);
	report_print(&r, false, false, 0, &out);
	assert_non_null(strstr(out.ptr, "           2 checks need the server (CCMD001)\n"));
	assert_null(strstr(out.ptr, "CCMD002"));
	assert_null(strstr(out.ptr, "kubectl delete"));
}

/* The last check is a cause of the first only if it has a finding. */
static void
a_later_check_may_be_the_cause(void **state UNUSED)
{
	struct error err;
	REPORT(r);

	err_set(&err, ERR_NOT_FOUND, "no such name");
	for (int is_found = 0; is_found < 2; is_found++) {
		report_fini(&r);
		report_begin(&r, &first);
		report_find(&r, "", STR_EMPTY, "it does not start: no such name");
		report_begin(&r, &second);
		report_unknown(&r, &err);
		report_begin(&r, &last);
		if (is_found)
			report_find(&r, "variable", STR("NAME"), "it names nothing");
		else
			report_unknown(&r, &err);
		report_find_causes(&r);
		assert_ptr_equal(r.results[0].cause, is_found ? &last : NULL);
		assert_ptr_equal(r.results[1].cause, is_found ? &last : &first);
		assert_ptr_equal(r.results[2].cause, is_found ? NULL : &first);
		assert_int_equal(report_exit_code(&r), 2);
	}
	(void)out;
}

static void
gives_one_reason_once(void **state UNUSED)
{
	struct error err;
	REPORT(r);

	err_set(&err, ERR_UNAVAILABLE, "list: 500");
	for (int i = 0; i < 3; i++) {
		report_begin(&r, &last);
		report_unknown(&r, &err);
	}
	report_find_causes(&r);
	report_print(&r, false, false, 0, &out);
	assert_string_equal(strstr(out.ptr, "  unknown"),
	                    "  unknown  CCMD050  The name exists\n"
	                    "           could not check: list: 500\n"
	                    "           2 checks need the name (CCMD050)\n");
}

/* A check that has problems as well marks its notes. */
static void
prints_notes(void **state UNUSED)
{
	REPORT(r);

	report_begin(&r, &first);
	report_note(&r, "flag", STR("--x"), "has no effect");
	report_fix(&r, "remove it");
	report_begin(&r, &second);
	report_note(&r, "right", STR("leases"), "may not get leases");
	report_find(&r, "right", STR("nodes"), "may not list nodes");
	report_note(&r, "right", STR("leases"), "may not list leases");
	report_print(&r, false, false, 0, &out);
	assert_non_null(strstr(out.ptr, "  note     CCMD001  It does not respond\n"
	                                "           Else nothing works.\n"
	                                "           - flag --x: has no effect\n"
	                                "             fix: remove it\n"));
	assert_non_null(strstr(out.ptr, "  problem  CCMD002  It is old\n"
	                                "           Old ones differ.\n"
	                                "           - note: right leases: may not get leases\n"
	                                "           - right nodes: may not list nodes\n"));
	assert_non_null(strstr(out.ptr, "1 problem, 1 note; 0 checks are ok. "));
	assert_int_equal(report_exit_code(&r), 1);
}

static void
shows_skipped_checks_and_those_that_are_ok_if_all_are_wanted(void **state UNUSED)
{
	REPORT(r);

	report_begin(&r, &first);
	report_skip(&r, "there is no need");
	report_begin(&r, &second);
	report_print(&r, false, false, 0, &out);
	assert_string_equal(out.ptr, "No problems; 1 check is ok. --all shows them.\n");
	buf_reset(&out);
	report_print(&r, false, true, 0, &out);
	assert_non_null(strstr(out.ptr, "ok       CCMD002"));
	assert_non_null(strstr(out.ptr, "skipped  CCMD001"));
	assert_non_null(strstr(out.ptr, "not checked: there is no need"));
}

static void
colours_only_the_mark(void **state UNUSED)
{
	REPORT(r);

	report_begin(&r, &first);
	report_print(&r, true, true, 0, &out);
	assert_non_null(strstr(out.ptr, "  \033[32mok      \033[0m CCMD001  It responds\n"));
}

static void
bounds_the_findings(void **state UNUSED)
{
	REPORT(r);

	report_begin(&r, &third);
	for (size_t i = 0; i < LIMIT_FINDINGS + 5; i++) {
		report_find(&r, "node", STR("n"), "%zu", i);
		report_fix(&r, "wait");
	}
	assert_int_equal(r.results[0].n_findings, LIMIT_FINDINGS);
	assert_int_equal(r.results[0].n_dropped, 5);
	report_print(&r, false, false, 0, &out);
	assert_non_null(strstr(out.ptr, "and 995 more; --all shows them\n"));
}

/* A finding survives a later failure of its check: what was found is true. */
static void
keeps_findings_of_a_check_that_fails(void **state UNUSED)
{
	struct error err;
	REPORT(r);

	report_begin(&r, &third);
	report_find(&r, "node", STR("n1"), "it is gone");
	err_set(&err, ERR_UNAVAILABLE, "connection refused");
	report_unknown(&r, &err);
	assert_int_equal(r.results[0].result, RESULT_PROBLEM);
	assert_int_equal(report_exit_code(&r), 2);
	report_print(&r, false, false, 0, &out);
	assert_non_null(strstr(out.ptr, "could not check: connection refused"));
	assert_non_null(strstr(out.ptr, "- node n1: it is gone"));
}

static void
cleans_foreign_text(void **state UNUSED)
{
	struct error err;
	REPORT(r);

	report_begin(&r, &third);
	report_find(&r, "load balancer", STR("a\033b"), "it says %s", "a\033[31m\nb\xff");
	assert_string_equal(r.results[0].findings[0].message.ptr, "it says a [31m b?");
	assert_string_equal(r.results[0].findings[0].name.ptr, "a b");
	err_set(&err, ERR_UNAVAILABLE, "a\nb\033c");
	report_unknown(&r, &err);
	assert_string_equal(r.results[0].reason.ptr, "a b c");
	(void)out;
}

static void
knows_what_is_plain_for_a_shell(void **state UNUSED)
{
	assert_true(report_is_plain(STR("fsn1-dc14")));
	assert_true(report_is_plain(STR("/etc/ccmd/a_b.key,x:1")));
	assert_false(report_is_plain(STR("a b")));
	assert_false(report_is_plain(STR("$(reboot)")));
	assert_false(report_is_plain(STR("a;b")));
	assert_false(report_is_plain(STR_EMPTY));
}

static void
prints_json(void **state UNUSED)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct error err;
	REPORT(r);

	report_begin(&r, &third);
	report_find(&r, "node", STR("n1"), "it is \"gone\"");
	report_fix(&r, "wait");
	report_print_json(&r, NULL, &out);
	assert_true(json_parse(buf_str(&out), &doc, &err));
	assert_string_equal(
		out.ptr,
		"{\"exitCode\":1,\"checks\":[{\"code\":\"CCMD040\",\"group\":\"Nodes\","
		"\"title\":\"All are well\",\"fault\":\"Some are not well\",\"why\":\"Pods need them.\",\"result\":\"problem\","
		"\"reason\":\"\",\"cause\":\"\",\"findings\":[{\"kind\":\"node\",\"name\":\"n1\","
		"\"message\":\"it is \\\"gone\\\"\",\"fix\":\"wait\",\"fixIsCommand\":false,"
		"\"isNote\":false}],\"findingsLeftOut\":0}]}\n");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exit_codes),
		cmocka_unit_test(prints_text),
		cmocka_unit_test(wraps_all_but_commands),
		cmocka_unit_test(shows_findings_that_are_alike_in_one_line),
		cmocka_unit_test(names_the_cause_once),
		cmocka_unit_test(a_later_check_may_be_the_cause),
		cmocka_unit_test(gives_one_reason_once),
		cmocka_unit_test(prints_notes),
		cmocka_unit_test(shows_skipped_checks_and_those_that_are_ok_if_all_are_wanted),
		cmocka_unit_test(colours_only_the_mark),
		cmocka_unit_test(bounds_the_findings),
		cmocka_unit_test(keeps_findings_of_a_check_that_fails),
		cmocka_unit_test(cleans_foreign_text),
		cmocka_unit_test(knows_what_is_plain_for_a_shell),
		cmocka_unit_test(prints_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
