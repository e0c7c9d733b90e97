#include "operator/local.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const char page[] = "# HELP a_total Things.\n"
			   "# TYPE a_total counter\n"
			   "a_total{code=\"200\",method=\"GET\"} 5\n"
			   "a_total{code=\"404\",method=\"GET\"} 2\n"
			   "a_total{code=\"<error>\",method=\"PATCH\"} 1\n"
			   "b 1.5e+06\n"
			   "c{name=\"x y}\"} -3\n"
			   "d +Inf\n"
			   "e{} 7\n";

static void
reads_samples(void **state UNUSED)
{
	struct str rest = str_c(page);
	struct sample sample;

	assert_true(samples_next(&rest, NULL, &sample));
	assert_true(str_eq_c(sample.name, "a_total"));
	assert_true(sample.value == 5);
	assert_true(str_eq_c(sample_label(&sample, "code"), "200"));
	assert_true(str_eq_c(sample_label(&sample, "method"), "GET"));
	assert_true(str_eq_c(sample_label(&sample, "other"), ""));
	assert_true(samples_next(&rest, NULL, &sample) && samples_next(&rest, NULL, &sample));
	assert_true(samples_next(&rest, NULL, &sample));
	assert_true(str_eq_c(sample.name, "b") && sample.labels.len == 0);
	assert_true(sample.value == 1.5e6);
	assert_true(samples_next(&rest, NULL, &sample));
	assert_true(str_eq_c(sample_label(&sample, "name"), "x y}"));
	assert_true(sample.value == -3);
	assert_true(samples_next(&rest, NULL, &sample));
	assert_true(str_eq_c(sample.name, "e") && sample.value == 7);
	assert_false(samples_next(&rest, NULL, &sample));
}

static void
finds_one(void **state UNUSED)
{
	double value = 9;

	assert_true(samples_find(str_c(page), "a_total", NULL, STR_EMPTY, &value) && value == 5);
	assert_true(samples_find(str_c(page), "a_total", "code", STR("404"), &value) && value == 2);
	assert_false(samples_find(str_c(page), "a_total", "code", STR("4"), &value));
	assert_false(samples_find(str_c(page), "d", NULL, STR_EMPTY, &value));
	assert_true(value == 2);
}

static void
adds_up(void **state UNUSED)
{
	assert_true(samples_sum(str_c(page), "a_total", NULL, NULL) == 8);
	assert_true(samples_sum(str_c(page), "a_total", "code", "4") == 2);
	assert_true(samples_sum(str_c(page), "a_total", "code", "<") == 1);
	assert_true(samples_sum(str_c(page), "none", NULL, NULL) == 0);
}

/* The answer may be that of any server. */
static void
skips_everything_else(void **state UNUSED)
{
	static const char *const lines[] = {
		"",
		" ",
		" 1",
		"a",
		"a ",
		"a b",
		"a{ 1",
		"a{b} ",
		"a{b=\"c\"}1",
		"a 1 2",
		"<html> 1x",
		"a{b=\"c\" 1",
		"{} NaN",
		"a 1e999999999",
		"a \"1\"",
		"a [1]",
		"a 00000000000000000000000000000000000000000000001",
	};

	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		struct str rest = str_c(lines[i]);
		struct sample sample;

		if (samples_next(&rest, NULL, &sample))
			fail_msg("\"%s\" was read as a sample", lines[i]);
	}
}

static void
survives_odd_labels(void **state UNUSED)
{
	static const char *const labels[] = { "=",        "a",        "a=", "a=\"", "a=\"b",
		                              "a=\"b\"x", "a=\"b\",", ",,", "\"=\"" };

	for (size_t i = 0; i < ARRAY_LEN(labels); i++) {
		struct sample sample = { .name = STR("x"), .labels = str_c(labels[i]) };

		assert_true(str_eq_c(sample_label(&sample, "z"), ""));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_samples),
		cmocka_unit_test(finds_one),
		cmocka_unit_test(adds_up),
		cmocka_unit_test(skips_everything_else),
		cmocka_unit_test(survives_odd_labels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
