#include "operator/command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/limits.h"
#include "operator/plan.h"

static struct arena arena;
static struct buf problems = BUF_INIT(KIB(4));
static struct command_line line;

static int
count(char *const argv[])
{
	int n = 0;

	while (argv[n])
		n++;
	return n;
}

#define ARGV(...) ((char *[]){ __VA_ARGS__, NULL })

static bool
parse(char *argv[])
{
	buf_reset(&problems);
	return command_parse(count(argv), argv, &arena, &line, &problems);
}

static bool
is_given(char *argv[])
{
	return command_is_given(count(argv), argv);
}

static int
tear_down(void **state UNUSED)
{
	arena_fini(&arena);
	buf_fini(&problems);
	return 0;
}

/* The command line of a Go program must never be taken for a command. */
static void
the_controller_runs_without_a_command(void **state UNUSED)
{
	assert_false(is_given(ARGV("ccmd")));
	assert_false(is_given(ARGV("ccmd", "--cloud-provider=hcloud")));
	assert_false(is_given(ARGV("ccmd", "--cluster-name", "doctor")));
	assert_false(is_given(ARGV("ccmd", "--leader-elect", "false")));
	assert_true(is_given(ARGV("ccmd", "nothing")));
	assert_true(is_given(ARGV("ccmd", "doctor")));
	assert_true(is_given(ARGV("ccmd", "--kubeconfig", "x", "-ojson", "-o", "json", "plan")));
	assert_true(is_given(ARGV("/usr/bin/ccmd", "help")));
	assert_true(is_given(ARGV("/usr/local/bin/kubectl-ccmd")));
	assert_true(is_given(ARGV("kubectl-ccmd", "nothing")));
	assert_true(is_given(ARGV("kubectl-ccmd", "doctor", "--version")));
	assert_false(is_given(ARGV("kubectl-ccmd", "--version")));
	assert_false(is_given(ARGV("kubectl-ccmd", "--version=raw")));
}

static void
cuts_its_own_flags(void **state UNUSED)
{
	assert_true(parse(ARGV("ccmd", "doctor", "--kubeconfig", "x", "-o", "json", "--all",
	                       "-v=1")));
	assert_true(strcmp(line.output, "json") == 0 && line.is_all && !line.wants_help);
	assert_int_equal(line.argc, 4);
	assert_string_equal(line.argv[0], "ccmd");
	assert_string_equal(line.argv[1], "--kubeconfig");
	assert_string_equal(line.argv[2], "x");
	assert_string_equal(line.argv[3], "-v=1");
	assert_null(line.argv[4]);
	assert_true(parse(ARGV("ccmd", "doctor", "--output=json")));
	assert_string_equal(line.output, "json");
	assert_true(parse(ARGV("ccmd", "doctor", "-o=text")));
	assert_string_equal(line.output, "text");
	assert_true(parse(ARGV("ccmd", "doctor", "-h")) && line.wants_help);
	assert_true(parse(ARGV("ccmd", "doctor", "-ojson", "--all=false")));
	assert_true(strcmp(line.output, "json") == 0 && !line.is_all);
	assert_true(parse(ARGV("ccmd", "-v", "1", "-o", "json", "plan", "--cluster-name",
	                       "nodes")));
	assert_string_equal(line.command->name, "plan");
	assert_string_equal(line.output, "json");
	assert_int_equal(line.argc, 5);
	assert_int_equal(line.scope, PLAN_ALL);
}

static void
plans_a_part(void **state UNUSED)
{
	assert_true(parse(ARGV("ccmd", "plan", "services", "--v=1")));
	assert_int_equal(line.scope, PLAN_SERVICES);
	assert_int_equal(line.argc, 2);
	assert_true(parse(ARGV("ccmd", "plan", "--cloud-config", "nodes")));
	assert_int_equal(line.scope, PLAN_ALL);
	assert_int_equal(line.argc, 3);
	assert_true(parse(ARGV("ccmd", "plan", "--output", "json", "svc")));
	assert_int_equal(line.scope, PLAN_SERVICES);
	assert_true(parse(ARGV("ccmd", "plan", "node")));
	assert_int_equal(line.scope, PLAN_NODES);
	assert_false(parse(ARGV("ccmd", "plan", "pods")));
	assert_false(parse(ARGV("ccmd", "plan", "node/x")));
	assert_false(parse(ARGV("ccmd", "plan", "nodes", "routes")));
}

static void
expect_object(char *argv[], enum described_kind kind, const char *key)
{
	assert_true(parse(argv));
	assert_int_equal(line.object.kind, kind);
	assert_true(str_eq_c(line.object.key, key));
}

/* kubectl takes all of these. */
static void
names_an_object_as_kubectl_does(void **state UNUSED)
{
	expect_object(ARGV("ccmd", "explain", "nodes", "a"), DESCRIBED_NODE, "a");
	expect_object(ARGV("ccmd", "explain", "no/a"), DESCRIBED_NODE, "a");
	expect_object(ARGV("ccmd", "explain", "-ojson", "node/a"), DESCRIBED_NODE, "a");
	expect_object(ARGV("ccmd", "explain", "svc", "--v", "1", "x/web"), DESCRIBED_SERVICE,
	              "x/web");
	expect_object(ARGV("ccmd", "explain", "service/x/web"), DESCRIBED_SERVICE, "x/web");
	expect_object(ARGV("ccmd", "explain", "service", "web"), DESCRIBED_SERVICE, "default/web");
	expect_object(ARGV("ccmd", "explain", "svc/web", "-n", "x"), DESCRIBED_SERVICE, "x/web");
	expect_object(ARGV("ccmd", "explain", "-nx", "svc", "web"), DESCRIBED_SERVICE, "x/web");
	expect_object(ARGV("ccmd", "explain", "route", "10.0.0.0/24"), DESCRIBED_ROUTE,
	              "10.0.0.0/24");
	expect_object(ARGV("ccmd", "explain", "routes/10.0.0.0/24"), DESCRIBED_ROUTE,
	              "10.0.0.0/24");
}

static void
explains_one_object(void **state UNUSED)
{
	assert_true(parse(ARGV("ccmd", "explain", "service", "default/web", "--url", "https://h:1",
	                       "--ca=file", "--cloud-provider=hcloud", "--v=1")));
	assert_int_equal(line.object.kind, DESCRIBED_SERVICE);
	assert_true(str_eq_c(line.object.key, "default/web"));
	assert_string_equal(line.leader.url, "https://h:1");
	assert_string_equal(line.leader.ca_file, "file");
	assert_int_equal(line.argc, 3);
	assert_string_equal(line.argv[2], "--v=1");
	assert_false(parse(ARGV("ccmd", "explain", "node", "a", "rest")));
	assert_true(parse(ARGV("ccmd", "explain", "--help")));
	assert_true(line.wants_help);
	assert_false(parse(ARGV("ccmd", "explain")));
	assert_false(parse(ARGV("ccmd", "explain", "node")));
	assert_false(parse(ARGV("ccmd", "explain", "node", "--v=1")));
	assert_false(parse(ARGV("ccmd", "explain", "pod", "a")));
	assert_false(parse(ARGV("ccmd", "explain", "route", "10.0.0.0")));
	assert_non_null(strstr(problems.ptr, "route CIDR"));
	assert_true(parse(ARGV("ccmd", "status", "--url=x")));
	assert_string_equal(line.argv[1], "--url=x"); /* not a flag of status */
}

#define PLAN_USAGE "ccmd plan [nodes|services|routes|all] [FLAG...]\n"
#define EXPLAIN_USAGE "ccmd explain (node NAME|service [NAMESPACE/]NAME|route CIDR) [FLAG...]\n"

static void
expect_problem(char *argv[], const char *problem)
{
	assert_false(parse(argv));
	assert_string_equal(problems.ptr, problem);
}

static void
refuses_what_it_does_not_know(void **state UNUSED)
{
	assert_false(parse(ARGV("ccmd", "doctor", "-o", "yaml")));
	assert_string_equal(problems.ptr,
	                    "ccmd doctor: --output is \"yaml\" instead of text or json\n");
	assert_false(parse(ARGV("ccmd", "doctor", "-o")));
	assert_false(parse(ARGV("ccmd", "doctor", "--as-service-account=ccmd")));
	assert_string_equal(
		problems.ptr,
		"ccmd doctor: --as-service-account is \"ccmd\" instead of NAMESPACE/NAME\n");
	expect_problem(ARGV("ccmd", "plan", "everything"),
	               "ccmd plan: unexpected argument \"everything\"; usage: " PLAN_USAGE);
	expect_problem(
		ARGV("ccmd", "plan", "rotes"),
		"ccmd plan: unexpected argument \"rotes\"; did you mean routes? usage: " PLAN_USAGE);
	expect_problem(
		ARGV("ccmd", "doctor", "extra"),
		"ccmd doctor: unexpected argument \"extra\"; usage: ccmd doctor [FLAG...]\n");
	expect_problem(ARGV("ccmd", "explain"),
	               "ccmd explain: an argument is missing; usage: " EXPLAIN_USAGE);
	expect_problem(ARGV("ccmd", "explain", "svc"),
	               "ccmd explain: service: [NAMESPACE/]NAME is missing; usage: " EXPLAIN_USAGE);
	expect_problem(
		ARGV("ccmd", "explain", "route", "10.0.0.0"),
		"ccmd explain: route is \"10.0.0.0\" instead of CIDR; usage: " EXPLAIN_USAGE);
	expect_problem(ARGV("kubectl-ccmd", "nothing"),
	               "ccmd has no command \"nothing\"; ccmd help lists them\n");
	expect_problem(
		ARGV("ccmd", "doctr"),
		"ccmd has no command \"doctr\"; did you mean doctor? ccmd help lists them\n");
	expect_problem(ARGV("ccmd", "doctor", "--outptu", "json"),
	               "ccmd doctor: unknown flag: --outptu; did you mean --output?\n");
}

/* Flags of the controller are left to flags_parse(), with what it suggests for them. */
static void
leaves_flags_of_the_controller_alone(void **state UNUSED)
{
	assert_true(parse(ARGV("ccmd", "plan", "--cloud-provder", "hcloud", "--nosuch")));
	assert_int_equal(line.argc, 4);
	assert_string_equal(line.argv[2], "hcloud");
}

static void
a_plugin_uses_the_kubeconfig_of_kubectl(void **state UNUSED)
{
	setenv("HOME", "/home/me", 1);
	unsetenv("KUBECONFIG");
	assert_true(parse(ARGV("kubectl-ccmd", "doctor")));
	assert_string_equal(line.argv[1], "--kubeconfig=/home/me/.kube/config");
	assert_false(line.kubeconfig_is_list);
	setenv("KUBECONFIG", "/tmp/config:/tmp/other", 1);
	assert_true(parse(ARGV("kubectl-ccmd", "doctor")));
	assert_string_equal(line.argv[1], "--kubeconfig=/tmp/config:/tmp/other");
	assert_true(line.kubeconfig_is_list);
	assert_true(parse(ARGV("kubectl-ccmd", "doctor", "--kubeconfig=/mine")));
	assert_int_equal(line.argc, 2);
	assert_false(line.kubeconfig_is_list);
	assert_true(parse(ARGV("kubectl-ccmd", "doctor", "--master=http://x")));
	assert_int_equal(line.argc, 2);
	assert_true(parse(ARGV("ccmd", "doctor")));
	assert_int_equal(line.argc, 1);
}

static void
helps(void **state UNUSED)
{
	CLEANUP(buf_fini) struct buf out = BUF_INIT(KIB(16));

	assert_true(parse(ARGV("kubectl-ccmd", "--help")));
	assert_true(parse(ARGV("kubectl-ccmd", "-h")) && line.topic.len == 0);
	assert_true(parse(ARGV("ccmd", "help", "doctor")));
	assert_string_equal(line.topic.ptr, "doctor");
	assert_true(command_help(STR_EMPTY, &out));
	assert_non_null(strstr(out.ptr, "ccmd doctor"));
	buf_reset(&out);
	assert_true(command_help(STR("doctor"), &out));
	assert_non_null(strstr(out.ptr, "\nUsage: ccmd doctor [FLAG...]\n"));
	assert_non_null(strstr(out.ptr, "\n      --all             Show all checks, "));
	assert_non_null(strstr(out.ptr,
	                       "NAMESPACE/NAME\n                        Check the rights"));
	assert_non_null(strstr(out.ptr, "\n  -o, --output json     Print JSON.\n"));
	buf_reset(&out);
	assert_true(command_help(STR("explain"), &out));
	assert_non_null(strstr(out.ptr,
	                       " (node NAME|service [NAMESPACE/]NAME|route CIDR) [FLAG...]\n"));
	assert_false(command_help(STR("nothing"), &out));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_controller_runs_without_a_command),
		cmocka_unit_test(cuts_its_own_flags),
		cmocka_unit_test(refuses_what_it_does_not_know),
		cmocka_unit_test(leaves_flags_of_the_controller_alone),
		cmocka_unit_test(names_an_object_as_kubectl_does),
		cmocka_unit_test(plans_a_part),
		cmocka_unit_test(explains_one_object),
		cmocka_unit_test(a_plugin_uses_the_kubeconfig_of_kubectl),
		cmocka_unit_test(helps),
	};

	return cmocka_run_group_tests(tests, NULL, tear_down);
}
