#include "operator/report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/limits.h"

static const struct check first = { "CCMD001",
	                            "API server",
	                            "It responds",
	                            "It does not respond",
	                            "Else nothing works.",
	                            NULL,
	                            FIX_EITHER,
	                            0 };
static const struct check second = { "CCMD002",          "API server", "It is new", "It is old",
	                             "Old ones differ.", NULL,         FIX_BY_HAND, 0 };
static const struct check third = { "CCMD040",         "Nodes", "All are well", "Some are not well",
	                            "Pods need them.", NULL,    FIX_EITHER,     0 };

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
	report_begin(&r, &second);
	report_unknown(&r, &err);
	report_begin(&r, &third);
	report_find(&r, "node", STR("n1"), "it is gone");
	report_command(&r, "kubectl delete node n1");
	report_find(&r, "", STR_EMPTY, "all are gone");
	report_fix(&r, "find out why");
	report_print(&r, /*has_colours=*/false, /*shows_all=*/false, &out);
	assert_string_equal(out.ptr,
	                    "API server\n"
	                    "  unknown  CCMD001  It responds\n"
	                    "           could not check: connection refused\n"
	                    "  unknown  CCMD002  It is new\n"
	                    "           could not check: see CCMD001\n"
	                    "\n"
	                    "Nodes\n"
	                    "  problem  CCMD040  Some are not well\n"
	                    "           - node n1: it is gone\n"
	                    "             run: kubectl delete node n1\n"
	                    "           - all are gone\n"
	                    "             fix: find out why\n"
	                    "           Why: Pods need them.\n"
	                    "           More: docs/doctor.md, \"CCMD040\"\n"
	                    "\n"
	                    "1 of 3 checks found a problem, 2 could not run, 0 did not apply.\n");
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
	report_print(&r, false, false, &out);
	assert_non_null(strstr(out.ptr, "  note     CCMD001  It does not respond\n"
	                                "           - flag --x: has no effect\n"
	                                "             fix: remove it\n"));
	assert_non_null(strstr(out.ptr, "  problem  CCMD002  It is old\n"
	                                "           - note: right leases: may not get leases\n"
	                                "           - right nodes: may not list nodes\n"));
	assert_non_null(strstr(out.ptr, "1 of 2 checks found a problem, 0 could not run, 0 did not "
	                                "apply. 1 found only notes, which need no attention.\n"));
	assert_int_equal(report_exit_code(&r), 1);
}

static void
shows_skipped_checks_if_all_are_wanted(void **state UNUSED)
{
	REPORT(r);

	report_begin(&r, &first);
	report_skip(&r, "there is no need");
	report_print(&r, false, false, &out);
	assert_null(strstr(out.ptr, "CCMD001"));
	buf_reset(&out);
	report_print(&r, false, true, &out);
	assert_non_null(strstr(out.ptr, "skipped  CCMD001"));
	assert_non_null(strstr(out.ptr, "not checked: there is no need"));
}

static void
colours_only_the_mark(void **state UNUSED)
{
	REPORT(r);

	report_begin(&r, &first);
	report_print(&r, true, false, &out);
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
	report_print(&r, false, false, &out);
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
	report_print(&r, false, false, &out);
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
	report_print_json(&r, &out);
	assert_true(json_parse(buf_str(&out), &doc, &err));
	assert_string_equal(
		out.ptr,
		"{\"exitCode\":1,\"checks\":[{\"code\":\"CCMD040\",\"group\":\"Nodes\","
		"\"title\":\"All are well\",\"why\":\"Pods need them.\",\"result\":\"problem\","
		"\"reason\":\"\",\"findings\":[{\"kind\":\"node\",\"name\":\"n1\","
		"\"message\":\"it is \\\"gone\\\"\",\"fix\":\"wait\",\"fixIsCommand\":false,"
		"\"isNote\":false}],\"findingsLeftOut\":0}]}\n");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exit_codes),
		cmocka_unit_test(prints_text),
		cmocka_unit_test(prints_notes),
		cmocka_unit_test(shows_skipped_checks_if_all_are_wanted),
		cmocka_unit_test(colours_only_the_mark),
		cmocka_unit_test(bounds_the_findings),
		cmocka_unit_test(keeps_findings_of_a_check_that_fails),
		cmocka_unit_test(cleans_foreign_text),
		cmocka_unit_test(knows_what_is_plain_for_a_shell),
		cmocka_unit_test(prints_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
