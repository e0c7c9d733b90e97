#include "base/version.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void
check(const char *whole, const char *numbers)
{
	assert_true(str_eq_c(version_get(), whole));
	assert_true(str_eq_c(version_numbers(), numbers));
}

static void
is_our_own_until_another_is_set(void **state UNUSED)
{
	char text[] = "v1.36.3-rc.1+build";

	check("v" CCMD_VERSION, CCMD_VERSION);
	version_set(version_get());
	check("v" CCMD_VERSION, CCMD_VERSION);
	version_set(str_c(text));
	text[1] = '9';
	check("v1.36.3-rc.1+build", "1.36.3");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_our_own_until_another_is_set),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
