/* tests/flags.c: the command line, as people type it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"
#include "flags.h"

static struct buf out = { .ptr = buf_empty, .max = KIB(64) };
static struct buf problems = { .ptr = buf_empty, .max = KIB(64) };
static struct buf notes = { .ptr = buf_empty, .max = KIB(64) };
static struct options options;

/* Up to eight arguments, behind a cloud that exists. */
static enum flags_outcome
parse(const char *a, const char *b, const char *c)
{
	char *argv[] = { (char *)"ccmd", (char *)"--cloud-provider=cloudlycke",
		         (char *)(uintptr_t)a, (char *)(uintptr_t)b, (char *)(uintptr_t)c };
	int argc = 2 + (a != NULL) + (b != NULL) + (c != NULL);

	buf_reset(&out);
	buf_reset(&problems);
	buf_reset(&notes);
	return flags_parse(argc, argv, &options, &out, &problems, &notes);
}

static void
expect_problem(const char *a, const char *b, const char *wanted)
{
	assert_int_equal(parse(a, b, NULL), FLAGS_BAD);
	assert_string_equal(problems.ptr, wanted);
}

static void
defaults_are_those_of_the_design(void **state)
{
	(void)state;
	assert_int_equal(parse(NULL, NULL, NULL), FLAGS_RUN);
	assert_string_equal(options.cluster_name, "kubernetes");
	assert_true(options.node_refresh_period_ns == 300 * NS_PER_SEC);
	assert_true(options.node_monitor_period_ns == 0);
	assert_true(options.n_node_workers == 0);
	assert_true(options.kube_api_qps == 0);
	assert_true(options.leader_elect);
	assert_memory_equal(&options.guard, &guard_defaults, sizeof(guard_defaults));
}

static void
values_are_read_in_all_spellings(void **state)
{
	(void)state;
	assert_int_equal(parse("--cluster-name=a=b", "--kubeconfig", "/x"), FLAGS_RUN);
	assert_string_equal(options.cluster_name, "a=b");
	assert_string_equal(options.kubeconfig, "/x");
	assert_int_equal(parse("-v=4", "--leader_elect=false", "--node_monitor_period=1h2m3s"),
	                 FLAGS_RUN);
	assert_int_equal(options.verbosity, 4);
	assert_false(options.leader_elect);
	assert_true(options.node_monitor_period_ns == 3723 * NS_PER_SEC);
	assert_int_equal(parse("-v", "2", "--node-delete-guard=F"), FLAGS_RUN);
	assert_int_equal(options.verbosity, 2);
	assert_false(options.guard.is_enabled);
	assert_int_equal(parse("-v7", "--kube-api-qps=12.5", "--logging-format=json"), FLAGS_RUN);
	assert_int_equal(options.verbosity, 7);
	assert_true(options.kube_api_qps == 12.5);
	assert_int_equal(options.log_format, LOG_JSON);
	assert_int_equal(parse("--v=3", "--leader-elect", "--concurrent-node-syncs=5"), FLAGS_RUN);
	assert_int_equal(options.n_node_workers, 5);
	assert_true(options.leader_elect);
	assert_int_equal(parse("--kube-api-qps=auto", "--concurrent-node-syncs=auto", NULL),
	                 FLAGS_RUN);
}

static void
problems_are_one_clear_line_each(void **state)
{
	(void)state;
	expect_problem("--frobnicate=1", NULL, "unknown flag: --frobnicate\n");
	expect_problem("-x", NULL, "unknown flag: -x\n");
	expect_problem("--kubeconfig", NULL, "flag needs an argument: --kubeconfig\n");
	expect_problem("serve", NULL, "ccmd takes no arguments, got \"serve\"\n");
	expect_problem("--leader-elect", "false", "ccmd takes no arguments, got \"false\"\n");
	expect_problem("--leader-elect=perhaps", NULL,
	               "invalid argument \"perhaps\" for \"--leader-elect\": want true or false\n");
	expect_problem(
		"--node-delete-min-age=60", "--concurrent-node-syncs=0",
		"invalid argument \"60\" for \"--node-delete-min-age\": want a duration such as 300ms, 12s or 1h30m\n"
		"invalid argument \"0\" for \"--concurrent-node-syncs\": want a number from 1 to 1000\n");
	expect_problem("--kube-api-qps=-1", NULL,
	               "invalid argument \"-1\" for \"--kube-api-qps\": want a number above 0\n");
	expect_problem("--cloud-provider=acme", NULL,
	               "unknown cloud provider \"acme\" (one of: cloudlycke)\n");
	expect_problem("--cloud-provider=", NULL,
	               "--cloud-provider cannot be empty (one of: cloudlycke)\n");
}

static void
upstream_flags_without_a_counterpart_are_accepted_and_noted(void **state)
{
	(void)state;
	assert_int_equal(parse("--allow-untagged-cloud", "--cluster-cidr=10.0.0.0/8",
	                       "--secure-port=0"),
	                 FLAGS_RUN);
	assert_string_equal(notes.ptr, "--allow-untagged-cloud\n--cluster-cidr\n--secure-port\n");
	expect_problem(
		"--allow-untagged-cloud=perhaps", NULL,
		"invalid argument \"perhaps\" for \"--allow-untagged-cloud\": want true or false\n");
}

static void
help_and_version_end_it(void **state)
{
	(void)state;
	assert_int_equal(parse("--help", NULL, NULL), FLAGS_DONE);
	assert_non_null(strstr(out.ptr, "--node-delete-confirm-interval\n"));
	assert_int_equal(parse("-h", "--frobnicate", NULL), FLAGS_DONE);
	assert_int_equal(parse("--version", NULL, NULL), FLAGS_DONE);
	assert_string_equal(out.ptr, "ccmd v" CCMD_VERSION "\n");
}

static int
fini(void **state)
{
	(void)state;
	buf_fini(&out);
	buf_fini(&problems);
	buf_fini(&notes);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_are_those_of_the_design),
		cmocka_unit_test(values_are_read_in_all_spellings),
		cmocka_unit_test(problems_are_one_clear_line_each),
		cmocka_unit_test(upstream_flags_without_a_counterpart_are_accepted_and_noted),
		cmocka_unit_test(help_and_version_end_it),
	};

	return cmocka_run_group_tests(tests, NULL, fini);
}
