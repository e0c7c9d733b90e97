/* tests/flags/gates.c: --feature-gates. */
#include "line.h"

#define WATCH "CloudControllerManagerWatchBasedRoutesReconciliation"

static void
gates_of_ours_are_honoured(void **state)
{
	(void)state;
	EXPECT_WARNINGS("", "--leader-elect");
	assert_false(line_options.gates.watch_routes);
	EXPECT_WARNINGS("", "--feature-gates=" WATCH "=True");
	assert_true(line_options.gates.watch_routes);
	EXPECT_WARNINGS("", "--feature-gates=" WATCH "=true", "--feature-gates=" WATCH "=false");
	assert_false(line_options.gates.watch_routes);
}

static void
a_gate_by_its_name_wins_over_its_group(void **state)
{
	(void)state;
	EXPECT_WARNINGS("", "--feature-gates=" WATCH "=false,AllAlpha=true,AllBeta=false");
	assert_false(line_options.gates.watch_routes);
	EXPECT_WARNINGS("", "--feature-gates=AllAlpha=true");
	assert_true(line_options.gates.watch_routes);
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
		cmocka_unit_test(gates_of_ours_are_honoured),
		cmocka_unit_test(a_gate_by_its_name_wins_over_its_group),
		cmocka_unit_test(other_gates_are_ignored_with_a_warning_each),
		cmocka_unit_test(malformed_ones_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, line_fini);
}
