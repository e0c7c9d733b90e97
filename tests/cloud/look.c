#include "cloud/cloud.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void
starts_unknown(void **state)
{
	CLEANUP(look_unrefp) struct look *look = look_new(2, 42);

	(void)state;
	assert_int_equal(look->n, 2);
	assert_int_equal(look->started_boot_ns, 42);
	assert_int_equal(look->n_anchors, 0);
	for (size_t i = 0; i < look->n; i++) {
		assert_int_equal(look->instances[i].presence, PRESENCE_UNKNOWN);
		assert_int_equal(look->instances[i].error_code, ERR_INTERNAL);
		assert_true(look->instances[i].error.len > 0);
		assert_non_null(look->instances[i].zone.ptr);
	}
}

static void
keeps_the_text_of_an_error(void **state)
{
	CLEANUP(look_unrefp) struct look *look = look_new(1, 0);
	char text[] = "token of another project";

	(void)state;
	look_set_error(look, 0, PRESENCE_FOREIGN, ERR_FORBIDDEN, str_c(text));
	memset(text, 'x', sizeof(text) - 1);
	assert_int_equal(look->instances[0].presence, PRESENCE_FOREIGN);
	assert_int_equal(look->instances[0].error_code, ERR_FORBIDDEN);
	assert_true(str_eq_c(look->instances[0].error, "token of another project"));
}

static void
count(void *owner)
{
	unsigned *n_released = owner;

	(*n_released)++;
}

static void
lets_its_owner_go_with_the_last_reference(void **state)
{
	struct look *look = look_new(0, 0);
	unsigned n_released = 0;

	(void)state;
	look->release = count;
	look->owner = &n_released;
	assert_ptr_equal(look_ref(look), look);
	look_unref(look);
	assert_int_equal(n_released, 0);
	look_unref(look);
	assert_int_equal(n_released, 1);
	look_unref(NULL);
}

/* Looks are made of thousands of these. */
static void
an_instance_is_small(void **state)
{
	(void)state;
	assert_true(sizeof(struct instance) <= 128);
}

static void
clouds_are_found_by_name(void **state)
{
	CLEANUP(buf_fini) struct buf list = BUF_INIT(1000);

	(void)state;
	assert_non_null(cloud_find(STR("cloudlycke")));
	assert_string_equal(cloud_find(STR("cloudlycke"))->name, "cloudlycke");
	assert_null(cloud_find(STR("Cloudlycke")));
	assert_null(cloud_find(STR_EMPTY));
	cloud_list(&list);
	assert_non_null(strstr(list.ptr, "cloudlycke"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(starts_unknown),
		cmocka_unit_test(keeps_the_text_of_an_error),
		cmocka_unit_test(lets_its_owner_go_with_the_last_reference),
		cmocka_unit_test(an_instance_is_small),
		cmocka_unit_test(clouds_are_found_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
