/* tests/flags/parse.c: the command line, as people type it. */
#include <unistd.h>

#include "base/version.h"
#include "cloud/cloud.h"
#include "line.h"

#define UNEXPECTED(arg) \
	"unexpected argument \"" arg "\"; ccmd takes flags, or a command (ccmd help lists them)"

static void
values_are_read_in_all_spellings(void **state)
{
	const struct options *o = &line_options;

	(void)state;
	assert_int_equal(PARSE("--cluster-name=a=b", "--kubeconfig", "/x"), FLAGS_RUN);
	assert_string_equal(o->cluster_name, "a=b");
	assert_string_equal(o->kubeconfig, "/x");
	assert_int_equal(PARSE("-v=4", "--leader_elect=false", "--node_monitor_period=1h2m3s"),
	                 FLAGS_RUN);
	assert_int_equal(o->verbosity, 4);
	assert_false(o->election.is_enabled);
	assert_true(o->node_monitor_period_ns == 3723 * NS_PER_SEC);
	assert_int_equal(PARSE("-v", "2", "--node-delete-guard=F"), FLAGS_RUN);
	assert_int_equal(o->verbosity, 2);
	assert_false(o->guard.is_enabled);
	assert_int_equal(PARSE("-v7", "--kube-api-qps=12.5", "--logging-format=json"), FLAGS_RUN);
	assert_int_equal(o->verbosity, 7);
	assert_true(o->kube_api_qps == 12.5);
	assert_int_equal(o->log_format, LOG_JSON);
	assert_int_equal(PARSE("--v=3", "--leader-elect", "--concurrent-node-syncs=5"), FLAGS_RUN);
	assert_int_equal(o->verbosity, 3);
	assert_int_equal(o->n_node_workers, 5);
	assert_true(o->election.is_enabled);
	assert_int_equal(PARSE("--sandbox=off", "--secure-port=0", "--bind-address", "::"),
	                 FLAGS_RUN);
	assert_int_equal(o->sandbox, SANDBOX_OFF);
	assert_int_equal(o->serving.secure.port, 0);
	assert_true(str_eq_c(o->serving.secure.address, "::"));
}

static void
the_last_value_counts(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--concurrent-node-syncs=5", "--concurrent-node-syncs=auto",
	                       "--kube-api-qps=3", "--kube-api-qps=auto", "--cluster-name=a",
	                       "--cluster-name=b"),
	                 FLAGS_RUN);
	assert_int_equal(line_options.n_node_workers, 0);
	assert_true(line_options.kube_api_qps == 0);
	assert_string_equal(line_options.cluster_name, "b");
}

static void
expect_list(const struct str_list *list, const char *wanted)
{
	CLEANUP(buf_fini) struct buf joined = BUF_INIT(KIB(1));

	for (size_t i = 0; i < list->n; i++)
		buf_addf(&joined, "%" STR_FMT ";", STR_ARG(list->items[i]));
	assert_string_equal(joined.ptr, wanted);
}

static void
lists_grow_by_commas_and_by_repetition(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--webhooks=a,b", "--webhooks", "c"), FLAGS_RUN);
	expect_list(&line_options.shown.webhooks, "a;b;c;");
	expect_list(&line_options.access.config.allow_paths, "/healthz;/readyz;/livez;");
	assert_int_equal(PARSE("--authorization-always-allow-paths="), FLAGS_RUN);
	assert_int_equal(line_options.access.config.allow_paths.n, 0);
	assert_int_equal(PARSE("--authorization-always-allow-paths=",
	                       "--authorization-always-allow-paths=/a,/b*"),
	                 FLAGS_RUN);
	expect_list(&line_options.access.config.allow_paths, "/a;/b*;"); /* the default is gone */
}

static void
what_is_no_flag_is_named(void **state)
{
	(void)state;
	EXPECT_PROBLEMS("unknown flag: --frobnicate", "--frobnicate=1");
	EXPECT_PROBLEMS("unknown flag: -x", "-x");
	EXPECT_PROBLEMS("unknown flag: --", "--=1");
	EXPECT_PROBLEMS(
		"unknown flag: --logtostderr (removed in Kubernetes 1.26; the log goes to standard error)",
		"--logtostderr=true");
	EXPECT_PROBLEMS("flag needs an argument: --kubeconfig", "--kubeconfig");
	EXPECT_PROBLEMS("flag needs an argument: -v", "-v");
	EXPECT_PROBLEMS(UNEXPECTED("serve"), "serve");
	EXPECT_PROBLEMS(UNEXPECTED("-"), "-");
	EXPECT_PROBLEMS(UNEXPECTED("false"), "--leader-elect", "false");
	EXPECT_PROBLEMS(UNEXPECTED("--version"), "--", "--version");
}

/* One mistake is one problem: the value is read as that of the flag that was meant. */
static void
the_flag_that_was_meant_is_named(void **state)
{
	(void)state;
	EXPECT_PROBLEMS("unknown flag: --cluster-nam; did you mean --cluster-name?",
	                "--cluster-nam", "prod");
	EXPECT_PROBLEMS("unknown flag: --hlep; did you mean --help?", "--hlep");
	assert_int_equal(line_out.len, 0);
	EXPECT_PROBLEMS("unknown flag: --frobnicate", "--frobnicate");
}

/* A wrong value, and what is wanted instead, for each kind. */
static void
what_a_value_should_be_is_said(void **state)
{
	static const struct {
		const char *argument, *problem;
	} cases[] = {
		{ "--leader-elect=perhaps",
		  "\"perhaps\" for \"--leader-elect\": want true or false" },
		{ "--concurrent-node-syncs=0",
		  "\"0\" for \"--concurrent-node-syncs\": want a number from 1 to 1000, or auto" },
		{ "--node-delete-breaker-percent=101",
		  "\"101\" for \"--node-delete-breaker-percent\": want a number from 0 to 100" },
		{ "--node-delete-breaker-min=-1",
		  "\"-1\" for \"--node-delete-breaker-min\": want a number, 0 or more" },
		{ "-v=loud", "\"loud\" for \"-v\": want a number, 0 or more" },
		{ "--secure-port=65536",
		  "\"65536\" for \"--secure-port\": want a port from 0 to 65535" },
		{ "--kube-api-qps=-1",
		  "\"-1\" for \"--kube-api-qps\": want a number above 0, or auto" },
		{ "--kube-api-burst=0",
		  "\"0\" for \"--kube-api-burst\": want a number above 0, or auto" },
		{ "--node-delete-min-age=60",
		  "\"60\" for \"--node-delete-min-age\": want a duration such as 300ms, 12s or 1h30m" },
		{ "--node-monitor-period=-5s",
		  "\"-5s\" for \"--node-monitor-period\": want a duration such as 300ms, 12s or 1h30m, or auto" },
		{ "--route-reconciliation-period=0s",
		  "\"0s\" for \"--route-reconciliation-period\": want a duration above 0, such as 300ms, 12s or 1h30m" },
		{ "--log-flush-frequency=0",
		  "\"0\" for \"--log-flush-frequency\": want a duration above 0, such as 300ms, 12s or 1h30m" },
		{ "--bind-address=localhost",
		  "\"localhost\" for \"--bind-address\": want an IP address" },
		{ "--logging-format=xml", "\"xml\" for \"--logging-format\": want text or json" },
		{ "--sandbox=on", "\"on\" for \"--sandbox\": want auto or off" },
		{ "--version=1.2.3",
		  "\"1.2.3\" for \"--version\": want true, false, raw or a version such as v1.36.3" },
		{ "--webhook-secure-port=x",
		  "\"x\" for \"--webhook-secure-port\": want a port from 0 to 65535" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		CLEANUP(buf_fini) struct buf wanted = BUF_INIT(KIB(1));

		buf_addf(&wanted, "invalid argument %s\n", cases[i].problem);
		assert_int_equal(PARSE(cases[i].argument), FLAGS_BAD);
		assert_string_equal(line_problems.ptr, wanted.ptr);
	}
}

static void
all_problems_are_reported_together(void **state)
{
	CLEANUP(buf_fini) struct buf wanted = BUF_INIT(KIB(1));

	(void)state;
	buf_add_c(&wanted, "unknown flag: --frobnicate\n"
	                   "invalid argument \"perhaps\" for \"--profiling\": want true or false\n"
	                   "--cloud-provider cannot be empty (one of: ");
	cloud_list(&wanted);
	buf_add_c(
		&wanted,
		")\n--controllers: \"foo\" is not in the list of known controllers " KNOWN_CONTROLLERS
		"\n");
	assert_int_equal(PARSE("--frobnicate", "--profiling=perhaps",
	                       "--cloud-provider=", "--controllers=-foo"),
	                 FLAGS_BAD);
	assert_string_equal(line_problems.ptr, wanted.ptr);
	buf_reset(&wanted);
	buf_add_c(&wanted, "unknown cloud provider \"acme\" (one of: ");
	cloud_list(&wanted);
	buf_add_c(&wanted, ")\n");
	assert_int_equal(PARSE("--cloud-provider=acme"), FLAGS_BAD);
	assert_string_equal(line_problems.ptr, wanted.ptr);
}

static void
upstream_flags_without_a_counterpart_are_noted_once(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--min-resync-period=1h", "--vmodule=a=1", "--vmodule=b=2",
	                       "--webhook-tls-sni-cert-key=a",
	                       "--concurrent-node-status-updates=3"),
	                 FLAGS_RUN);
	assert_string_equal(line_notes.ptr, "--min-resync-period\n--vmodule\n"
	                                    "--webhook-tls-sni-cert-key\n"
	                                    "--concurrent-node-status-updates\n");
	assert_string_equal(line_warnings.ptr, "");
	assert_int_equal(line_options.shown.n_status_workers, 3);
}

static void
flags_of_front_proxies_are_noted_once(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--requestheader-allowed-names=a",
	                       "--requestheader-client-ca-file=/nowhere",
	                       "--requestheader-uid-headers=x-uid",
	                       "--requestheader-allowed-names=b"),
	                 FLAGS_RUN);
	assert_string_equal(line_notes.ptr, "--requestheader-allowed-names\n"
	                                    "--requestheader-client-ca-file\n"
	                                    "--requestheader-uid-headers\n");
	assert_string_equal(line_warnings.ptr, "");
}

static void
leader_migration_is_noted_and_its_file_not_read(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--enable-leader-migration", "--leader-migration-config=/nowhere"),
	                 FLAGS_RUN);
	assert_string_equal(line_notes.ptr,
	                    "--enable-leader-migration\n--leader-migration-config\n");
	assert_string_equal(line_warnings.ptr, "");
	EXPECT_PROBLEMS(
		"invalid argument \"perhaps\" for \"--enable-leader-migration\": want true or false",
		"--enable-leader-migration=perhaps");
}

static void
deprecated_flags_are_warned_of(void **state)
{
	(void)state;
	EXPECT_WARNINGS(
		"--allow-untagged-cloud is deprecated and has no effect: no supported cloud needs a cluster ID\n"
		"--port is deprecated and has no effect: there is no insecure port: see --secure-port\n"
		"--address is deprecated and has no effect: there is no insecure port: see --bind-address\n"
		"--node-sync-period is deprecated and has no effect: upstream does not read it either\n",
		"--allow_untagged_cloud", "--port=0", "--address=127.0.0.1",
		"--node-sync-period=10s");
	assert_string_equal(line_notes.ptr, "");
}

static void
help_and_version_end_it(void **state)
{
	char platform[64];

	(void)state;
	snprintf(platform, sizeof(platform), ", Platform:\"%s\"}\n", version_platform().ptr);
	assert_int_equal(PARSE("--help"), FLAGS_HELP);
	assert_int_equal(PARSE("-h", "--frobnicate"), FLAGS_HELP);
	assert_int_equal(PARSE("--version"), FLAGS_VERSION);
	assert_string_equal(line_out.ptr, "ccmd v" CCMD_VERSION "\n");
	assert_int_equal(PARSE("--version=raw", "--version=v1.36.3-rc.1+b"), FLAGS_VERSION);
	assert_true(str_starts(
		buf_str(&line_out),
		STR("version.Info{Major:\"1\", Minor:\"36\", GitVersion:\"v1.36.3-rc.1+b\", ")));
	assert_non_null(strstr(line_out.ptr, platform));
	assert_int_equal(PARSE("--version", "--frobnicate"), FLAGS_BAD);
}

static void
the_reported_version_can_be_replaced(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--version=false"), FLAGS_RUN);
	assert_true(str_eq_c(line_options.version, "v" CCMD_VERSION));
	assert_int_equal(PARSE("--version=v1.36.3"), FLAGS_RUN);
	assert_true(str_eq_c(line_options.version, "v1.36.3"));
	assert_int_equal(PARSE("--version=v1.36"), FLAGS_BAD);
	assert_int_equal(PARSE("--version=v1.36.3\r\nX: y"), FLAGS_BAD);
}

/* ---- flags_log() ---- */

static void
every_flag_is_logged_with_its_value(void **state)
{
	char memory[KIB(32)];
	int ends[2];
	ssize_t n;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	log_set_fd(ends[1]);
	assert_int_equal(PARSE("--controllers=*", "--controllers=-route", "--cluster-name=a \"b\""),
	                 FLAGS_RUN);
	flags_log(&line_options); /* not at verbosity 0 */
	log_setup(LOG_LOGFMT, 1);
	flags_log(&line_options);
	close(ends[1]);
	n = read(ends[0], memory, sizeof(memory) - 1);
	close(ends[0]);
	log_setup(LOG_LOGFMT, 0);
	log_set_fd(2);
	assert_true(n > 0);
	memory[n] = '\0';
	assert_non_null(strstr(memory, "debug FLAG: --cloud-provider=\"cloudlycke\"\n"));
	assert_non_null(strstr(memory, "FLAG: --controllers=\"*,-route\"\n"));
	assert_non_null(strstr(memory, "FLAG: --kube-api-qps=\"auto\"\n"));
	assert_non_null(strstr(memory, "FLAG: --v=\"0\"\n"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_are_read_in_all_spellings),
		cmocka_unit_test(the_last_value_counts),
		cmocka_unit_test(lists_grow_by_commas_and_by_repetition),
		cmocka_unit_test(what_is_no_flag_is_named),
		cmocka_unit_test(the_flag_that_was_meant_is_named),
		cmocka_unit_test(what_a_value_should_be_is_said),
		cmocka_unit_test(all_problems_are_reported_together),
		cmocka_unit_test(upstream_flags_without_a_counterpart_are_noted_once),
		cmocka_unit_test(flags_of_front_proxies_are_noted_once),
		cmocka_unit_test(leader_migration_is_noted_and_its_file_not_read),
		cmocka_unit_test(deprecated_flags_are_warned_of),
		cmocka_unit_test(help_and_version_end_it),
		cmocka_unit_test(the_reported_version_can_be_replaced),
		cmocka_unit_test(every_flag_is_logged_with_its_value),
	};

	return cmocka_run_group_tests(tests, NULL, line_fini);
}
