/* tests/flags/validate.c: names that must exist, and options that need or exclude each other. */
#include "line.h"

static void
lease_times_fit_each_other(void **state)
{
	(void)state;
	EXPECT_PROBLEMS(
		"--leader-elect-lease-duration (10s) must be greater than --leader-elect-renew-deadline (10s)",
		"--leader-elect-lease-duration=10s");
	EXPECT_PROBLEMS(
		"--leader-elect-renew-deadline must be greater than 1.2 times --leader-elect-retry-period",
		"--leader-elect-renew-deadline=12s", "--leader-elect-retry-period=10s");
	EXPECT_PROBLEMS("--leader-elect-retry-period must be greater than zero",
	                "--leader-elect-retry-period=0s");
	assert_int_equal(PARSE("--leader-elect-lease-duration=3s",
	                       "--leader-elect-renew-deadline=2s",
	                       "--leader-elect-retry-period=1s"),
	                 FLAGS_RUN);
	assert_true(line_options.election.lease_duration_ns == 3 * NS_PER_SEC);
	assert_true(line_options.election.renew_deadline_ns == 2 * NS_PER_SEC);
	assert_true(line_options.election.retry_period_ns == NS_PER_SEC);
}

static void
the_lock_is_a_lease_with_a_name(void **state)
{
	(void)state;
	EXPECT_PROBLEMS("resourceLock value must be \"leases\"\n"
	                "--leader-elect-resource-name cannot be empty\n"
	                "--leader-elect-resource-namespace cannot be empty",
	                "--leader-elect-resource-lock=configmaps",
	                "--leader-elect-resource-name=", "--leader-elect-resource-namespace=");
	assert_int_equal(PARSE("--leader-elect=false", "--leader-elect-resource-lock=x",
	                       "--leader-elect-lease-duration=0s"),
	                 FLAGS_RUN);
}

static void
pod_networks_are_one_or_one_of_each_family(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--cluster-cidr= 10.244.0.0/16,fd00::/56 "), FLAGS_RUN);
	assert_int_equal(line_options.routes.n_cidrs, 2);
	assert_int_equal(ip_family(&line_options.routes.cidrs[1].ip), IP_V6);
	assert_int_equal(PARSE("--cluster-cidr="), FLAGS_RUN);
	assert_int_equal(line_options.routes.n_cidrs, 0);
}

/* Only the route controller reads it, so only the start of that controller fails. */
static void
a_bad_cluster_cidr_is_no_problem_of_the_command_line(void **state)
{
	static const struct {
		const char *flag, *problem;
	} cases[] = {
		{ "--cluster-cidr=10.244.0.0",
		  "cluster CIDR \"10.244.0.0\" is not a CIDR, e.g. 10.244.0.0/16" },
		{ "--cluster-cidr=10.0.0.0/8, fd00::/56",
		  "cluster CIDR \" fd00::/56\" is not a CIDR, e.g. 10.244.0.0/16" },
		{ "--cluster-cidr=10.0.0.0/8,11.0.0.0/8",
		  "cluster CIDR \"10.0.0.0/8,11.0.0.0/8\" has two CIDRs of one IP family, e.g. "
		  "10.244.0.0/16,fd00:10::/48 is right" },
		{ "--cluster-cidr=10.0.0.0/8,fd00::/56,11.0.0.0/8",
		  "cluster CIDR \"10.0.0.0/8,fd00::/56,11.0.0.0/8\" has more than one CIDR of each IP "
		  "family" },
		{ "--cluster-cidr=,10.0.0.0/8",
		  "cluster CIDR \"\" is not a CIDR, e.g. 10.244.0.0/16" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(PARSE(cases[i].flag), FLAGS_RUN);
		assert_int_equal(line_options.routes.n_cidrs, 0);
		assert_string_equal(line_options.routes.cidr_problem, cases[i].problem);
	}
	assert_int_equal(PARSE("--cluster-cidr=10.244.0.0/16"), FLAGS_RUN);
	assert_string_equal(line_options.routes.cidr_problem, "");
}

static void
a_bad_cluster_cidr_is_reported_beside_other_problems(void **state)
{
	(void)state;
	EXPECT_PROBLEMS(
		"--leader-elect-retry-period must be greater than zero\n"
		"--cluster-cidr: cluster CIDR \"10.0.0.0/33\" is not a CIDR, e.g. 10.244.0.0/16",
		"--cluster-cidr=10.0.0.0/33", "--leader-elect-retry-period=0s");
	EXPECT_PROBLEMS("--leader-elect-retry-period must be greater than zero",
	                "--cluster-cidr=10.0.0.0/33", "--leader-elect-retry-period=0s",
	                "--configure-cloud-routes=false");
}

static void
half_of_the_clouds_limit_is_the_largest_reserve(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--cloud-rate-limit-reserve=50%"), FLAGS_RUN);
	assert_int_equal(line_options.cloud_reserve_percent, 50);
	assert_int_equal(PARSE("--cloud-rate-limit-reserve=0"), FLAGS_RUN);
	assert_int_equal(line_options.cloud_reserve_percent, 0);
	EXPECT_PROBLEMS("--cloud-rate-limit-reserve: 51 is more than 50 percent",
	                "--cloud-rate-limit-reserve=51%");
}

static void
a_path_has_a_star_at_its_end(void **state)
{
	(void)state;
	EXPECT_PROBLEMS(
		"--authorization-always-allow-paths: only a trailing * is allowed in \"/a*b\"",
		"--authorization-always-allow-paths=/a*,/a*b");
}

/* ---- --controllers ---- */

static const char *const canonical[] = {
	"cloud-node-controller",
	"cloud-node-lifecycle-controller",
	"service-lb-controller",
	"node-route-controller",
};

/* docs/spec/framework.md, "Enabling controllers": one letter a controller, in the order above. */
static void
the_first_hit_wins(void **state)
{
	static const struct {
		const char *list, *enabled;
	} cases[] = {
		{ "*", "yyyy" },
		{ "", "nnnn" },
		{ "service", "nnyn" },
		{ "service-lb-controller,cloud-node", "ynyn" },
		{ "-route", "nnnn" }, /* without *, everything is off */
		{ "*,-route", "yyyn" },
		{ "-route,*", "yyyn" },
		{ "*,-node-route-controller", "yyyn" },
		{ "-route,route,*", "yyyn" },
		{ "route,-route", "nnny" },
		{ "cloud-node-lifecycle,-cloud-node", "nynn" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(PARSE("--controllers", cases[i].list), FLAGS_RUN);
		for (size_t c = 0; c < ARRAY_LEN(canonical); c++)
			assert_int_equal(controllers_enabled(&line_options, canonical[c]),
			                 cases[i].enabled[c] == 'y');
	}
}

static void
the_flag_may_be_repeated(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--controllers=*", "--controllers=-service,-route"), FLAGS_RUN);
	assert_true(controllers_enabled(&line_options, "cloud-node-controller"));
	assert_false(controllers_enabled(&line_options, "service-lb-controller"));
	assert_false(controllers_enabled(&line_options, "node-route-controller"));
}

static void
an_unknown_name_is_shown_without_its_dash(void **state)
{
	(void)state;
	EXPECT_PROBLEMS(
		"--controllers: \"service-controller\" is not in the list of known controllers " KNOWN_CONTROLLERS
		"\n"
		"--controllers: \"nodeipam\" is not in the list of known controllers " KNOWN_CONTROLLERS
		"\n"
		"--controllers: \"\" is not in the list of known controllers " KNOWN_CONTROLLERS
		"\n"
		"--controllers: \"*\" is not in the list of known controllers " KNOWN_CONTROLLERS
		"",
		"--controllers=service-controller,-nodeipam,,-*");
}

/* ---- --feature-gates ---- */

#define WATCH "CloudControllerManagerWatchBasedRoutesReconciliation"

static void
gates_that_change_nothing_are_accepted(void **state)
{
	(void)state;
	EXPECT_WARNINGS("", "--feature-gates=" WATCH "=True");
	EXPECT_WARNINGS("", "--feature-gates=" WATCH "=true", "--feature-gates=" WATCH "=0");
}

static void
groups_of_gates_are_accepted(void **state)
{
	(void)state;
	EXPECT_WARNINGS("", "--feature-gates=" WATCH "=false,AllAlpha=true,AllBeta=false");
	EXPECT_WARNINGS("", "--feature-gates=AllAlpha=1");
}

static void
other_gates_are_ignored_with_a_warning_each(void **state)
{
	(void)state;
	EXPECT_WARNINGS(
		"feature gate NativeHistograms has no meaning here, ignoring it\n"
		"feature gate RemoteRequestHeaderUID has no meaning here, ignoring it\n"
		"feature gate Frobnicate has no meaning here, ignoring it\n",
		"--feature-gates=NativeHistograms=true,RemoteRequestHeaderUID=true,Frobnicate=false");
}

static void
malformed_ones_are_refused(void **state)
{
	(void)state;
	EXPECT_PROBLEMS("--feature-gates: missing bool value for AllAlpha\n"
	                "--feature-gates: invalid value of AllBeta=perhaps: want true or false\n"
	                "--feature-gates: missing bool value for ",
	                "--feature-gates=AllAlpha,AllBeta=perhaps,");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lease_times_fit_each_other),
		cmocka_unit_test(the_lock_is_a_lease_with_a_name),
		cmocka_unit_test(pod_networks_are_one_or_one_of_each_family),
		cmocka_unit_test(a_bad_cluster_cidr_is_no_problem_of_the_command_line),
		cmocka_unit_test(a_bad_cluster_cidr_is_reported_beside_other_problems),
		cmocka_unit_test(half_of_the_clouds_limit_is_the_largest_reserve),
		cmocka_unit_test(a_path_has_a_star_at_its_end),
		cmocka_unit_test(the_first_hit_wins),
		cmocka_unit_test(the_flag_may_be_repeated),
		cmocka_unit_test(an_unknown_name_is_shown_without_its_dash),
		cmocka_unit_test(gates_that_change_nothing_are_accepted),
		cmocka_unit_test(groups_of_gates_are_accepted),
		cmocka_unit_test(other_gates_are_ignored_with_a_warning_each),
		cmocka_unit_test(malformed_ones_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, line_fini);
}
