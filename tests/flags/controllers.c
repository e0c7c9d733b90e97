/* tests/flags/controllers.c: which controllers --controllers asks for. */
#include "line.h"

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
		"--controllers: \"service-controller\" is not in the list of known controllers\n"
		"--controllers: \"nodeipam\" is not in the list of known controllers\n"
		"--controllers: \"\" is not in the list of known controllers\n"
		"--controllers: \"*\" is not in the list of known controllers",
		"--controllers=service-controller,-nodeipam,,-*");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_hit_wins),
		cmocka_unit_test(the_flag_may_be_repeated),
		cmocka_unit_test(an_unknown_name_is_shown_without_its_dash),
	};

	return cmocka_run_group_tests(tests, NULL, line_fini);
}
