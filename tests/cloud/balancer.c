#include "cloud/balancer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct lb_ingress ingress = { .ip = { "203.0.113.1", 11 } };

static void
check_needs(size_t n_ingress, const char *annotation, bool wanted)
{
	struct label gone = { STR(LB_ANNOTATION_GONE), str_c(annotation) };
	struct lb_spec spec = {
		.annotations = &gone,
		.n_annotations = annotation ? 1 : 0,
		.status = { (struct lb_ingress *)(uintptr_t)&ingress, n_ingress },
	};

	assert_int_equal(lb_needs_evidence(&spec), wanted);
}

static void
only_a_service_that_had_a_balancer_needs_evidence(void **state)
{
	(void)state;
	check_needs(0, NULL, false);
	check_needs(1, NULL, true);
}

static void
an_annotation_stands_in_for_evidence(void **state)
{
	(void)state;
	check_needs(1, "true", false);
	check_needs(1, "True", true);
	check_needs(1, "false", true);
	check_needs(1, "", true);
}

static void
any_evidence_will_do(void **state)
{
	const struct lb_evidence some[] = { { .n_machines = 1 },
		                            { .n_balancers = 2 },
		                            { .n_networks = 1 } };
	struct lb_evidence none = { 0 };
	struct error err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(some); i++)
		assert_true(lb_check_evidence(&some[i], &err));
	assert_false(lb_check_evidence(&none, &err));
	assert_int_equal(err.code, ERR_PENDING);
	assert_non_null(strstr(err.msg, "Check the credentials"));
	assert_non_null(strstr(err.msg, "ccmd.io/load-balancer-is-gone=true"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_a_service_that_had_a_balancer_needs_evidence),
		cmocka_unit_test(an_annotation_stands_in_for_evidence),
		cmocka_unit_test(any_evidence_will_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
