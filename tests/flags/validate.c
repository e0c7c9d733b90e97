/* tests/flags/validate.c: options that need, or rule out, each other. */
#include "line.h"

static void
lease_times_fit_each_other(void **state)
{
	(void)state;
	EXPECT_PROBLEMS(
		"--leader-elect-lease-duration must be greater than --leader-elect-renew-deadline",
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
a_bad_cluster_cidr_is_no_problem_of_the_command_line(void **state UNUSED)
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

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(PARSE(cases[i].flag), FLAGS_RUN);
		assert_int_equal(line_options.routes.n_cidrs, 0);
		assert_string_equal(line_options.routes.cidr_problem, cases[i].problem);
	}
	assert_int_equal(PARSE("--cluster-cidr=10.244.0.0/16"), FLAGS_RUN);
	assert_string_equal(line_options.routes.cidr_problem, "");
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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lease_times_fit_each_other),
		cmocka_unit_test(the_lock_is_a_lease_with_a_name),
		cmocka_unit_test(pod_networks_are_one_or_one_of_each_family),
		cmocka_unit_test(a_bad_cluster_cidr_is_no_problem_of_the_command_line),
		cmocka_unit_test(half_of_the_clouds_limit_is_the_largest_reserve),
		cmocka_unit_test(a_path_has_a_star_at_its_end),
	};

	return cmocka_run_group_tests(tests, NULL, line_fini);
}
