#include "base/version.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/utsname.h>

#include <cmocka.h>

static void
check(const char *whole, const char *numbers)
{
	assert_true(str_eq_c(version_get(), whole));
	assert_true(str_eq_c(version_numbers(), numbers));
}

static void
is_our_own_until_another_is_set(void **state)
{
	char text[] = "v1.36.3-rc.1+build";

	(void)state;
	check("v" CCMD_VERSION, CCMD_VERSION);
	version_set(version_get());
	check("v" CCMD_VERSION, CCMD_VERSION);
	version_set(str_c(text));
	text[1] = '9';
	check("v1.36.3-rc.1+build", "1.36.3");
}

static void
major_and_minor_are_the_first_two_numbers(void **state)
{
	static const char *const texts[] = { "v1.36.3", "v1.36.0-rc.1+build", "v1.36." };
	struct str major, minor;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		version_split(str_c(texts[i]), &major, &minor);
		assert_true(str_eq_c(major, "1"));
		assert_true(str_eq_c(minor, "36"));
	}
}

static void
commits_are_shortened(void **state)
{
	(void)state;
	assert_true(str_eq_c(version_commit(), "unknown"));
	version_set_commit(STR("0123456789ab"));
	assert_true(str_eq_c(version_commit(), "0123456"));
	version_set_commit(STR("0123"));
	assert_true(str_eq_c(version_commit(), "0123"));
	version_set_commit(STR_EMPTY);
	assert_true(str_eq_c(version_commit(), "unknown"));
}

/* The names are those of Go. */
static void
the_platform_is_the_one_it_was_built_for(void **state)
{
	static const struct {
		const char *machine, *platform;
	} known[] = {
		{ "x86_64", "linux/amd64" },    { "aarch64", "linux/arm64" },
		{ "ppc64le", "linux/ppc64le" }, { "s390x", "linux/s390x" },
		{ "riscv64", "linux/riscv64" }, { "loongarch64", "linux/loong64" },
	};
	struct utsname own;

	(void)state;
	assert_int_equal(uname(&own), 0);
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		/* a program of 32 bits runs on the kernel of its larger sibling */
		if (sizeof(void *) == 8 && strcmp(own.machine, known[i].machine) == 0)
			assert_string_equal(version_platform().ptr, known[i].platform);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_our_own_until_another_is_set),
		cmocka_unit_test(major_and_minor_are_the_first_two_numbers),
		cmocka_unit_test(commits_are_shortened),
		cmocka_unit_test(the_platform_is_the_one_it_was_built_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
