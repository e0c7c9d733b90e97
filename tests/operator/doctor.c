#include "operator/doctor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/limits.h"

/* Codes are in order, so none is used twice, and the checks of a group are neighbours. */
static void
codes_are_unique(void **state UNUSED)
{
	for (size_t i = 0; i < doctor_n_checks; i++) {
		int64_t number;

		assert_true(str_starts(str_c(doctor_checks[i].code), STR("CCMD")));
		assert_true(str_to_i64(str_skip(str_c(doctor_checks[i].code), 4), 1, 999, &number));
		assert_true(i == 0 || strcmp(doctor_checks[i - 1].code, doctor_checks[i].code) < 0);
	}
	for (size_t i = 1; i < doctor_n_checks; i++) {
		bool is_new = strcmp(doctor_checks[i - 1].group, doctor_checks[i].group) != 0;

		for (size_t j = i + 1; is_new && j < doctor_n_checks; j++)
			assert_string_not_equal(doctor_checks[j].group, doctor_checks[i - 1].group);
	}
}

static void
texts_are_sentences(void **state UNUSED)
{
	for (size_t i = 0; i < doctor_n_checks; i++) {
		assert_false(str_ends(str_c(doctor_checks[i].title), STR(".")));
		assert_false(str_ends(str_c(doctor_checks[i].fault), STR(".")));
		assert_true(str_ends(str_c(doctor_checks[i].why), STR(".")));
		assert_true(doctor_checks[i].run || doctor_checks[i].each_node ||
		            doctor_checks[i].each_service);
	}
}

/* Each code has its section, with the fault in its heading, and an anchor that stays. */
static void
every_check_is_documented(void **state UNUSED)
{
	CLEANUP(buf_fini) struct buf page = BUF_INIT(MIB(1));
	CLEANUP(buf_fini) struct buf section = BUF_INIT(KIB(1));
	struct error err;

	assert_true(file_read("docs/doctor.md", &page, &err));
	for (size_t i = 0; i < doctor_n_checks; i++) {
		buf_reset(&section);
		buf_addf(&section, "<a id=\"ccmd%s\"></a>\n\n### %s: %s\n",
		         doctor_checks[i].code + strlen("CCMD"), doctor_checks[i].code,
		         doctor_checks[i].fault);
		if (!strstr(page.ptr, section.ptr))
			fail_msg("docs/doctor.md has no section for %s: %s", doctor_checks[i].code,
			         doctor_checks[i].fault);
	}
}

static void
knows_the_names_of_controllers(void **state UNUSED)
{
	assert_true(view_is_controller(STR("ccmd")));
	assert_true(view_is_controller(STR("hcloud-cloud-controller-manager")));
	assert_true(view_is_controller(STR("brightbox-cloud-controller-manager")));
	assert_true(view_is_controller(STR("openstack-cloud-controller-manager")));
	assert_true(view_is_controller(STR("my-ccm")));
	assert_false(view_is_controller(STR("kubelet")));
	assert_false(view_is_controller(STR("kube-controller-manager")));
	assert_false(view_is_controller(STR("kubectl")));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(codes_are_unique),
		cmocka_unit_test(texts_are_sentences),
		cmocka_unit_test(every_check_is_documented),
		cmocka_unit_test(knows_the_names_of_controllers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
