#include "base/names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"

static struct str
letters(size_t n)
{
	static char text[LIMIT_NAME + 1];

	memset(text, 'a', sizeof(text));
	return str_n(text, n);
}

static void
letters_digits_and_others_are_accepted(void **state)
{
	(void)state;
	assert_true(name_has_only(STR(""), ""));
	assert_true(name_has_only(STR("aZ09"), ""));
	assert_true(name_has_only(STR("a-b.c"), "-."));
	assert_false(name_has_only(STR("a-b"), "."));
	assert_false(name_has_only(STR("a\0b"), "."));
	assert_false(name_has_only(STR("\xc3\xa4"), "."));
}

static void
dns_labels_are_short_and_in_lower_case(void **state)
{
	(void)state;
	assert_true(name_is_dns_label(STR("a")));
	assert_true(name_is_dns_label(STR("1-web")));
	assert_true(name_is_dns_label(letters(63)));
	assert_false(name_is_dns_label(letters(64)));
	assert_false(name_is_dns_label(STR("")));
	assert_false(name_is_dns_label(STR("-a")));
	assert_false(name_is_dns_label(STR("a-")));
	assert_false(name_is_dns_label(STR("Web")));
	assert_false(name_is_dns_label(STR("a.b")));
	assert_false(name_is_dns_label(STR("a\0b")));
	assert_false(name_is_dns_label(STR("\xc3\xa4")));
}

static void
only_the_whole_of_a_subdomain_is_bounded(void **state)
{
	(void)state;
	assert_true(name_is_dns_subdomain(STR("a.b-c.1")));
	assert_true(name_is_dns_subdomain(letters(LIMIT_NAME)));
	assert_false(name_is_dns_subdomain(letters(LIMIT_NAME + 1)));
	assert_false(name_is_dns_subdomain(STR("")));
	assert_false(name_is_dns_subdomain(STR("a..b")));
	assert_false(name_is_dns_subdomain(STR("a.b.")));
	assert_false(name_is_dns_subdomain(STR("a.-b")));
	assert_false(name_is_dns_subdomain(STR("A.b")));
	assert_false(name_is_dns_subdomain(STR("a_b")));
}

static void
values_of_labels_may_be_empty(void **state)
{
	(void)state;
	assert_true(name_is_label_value(STR("")));
	assert_true(name_is_label_value(STR("Big_1.x-y")));
	assert_true(name_is_label_value(letters(63)));
	assert_false(name_is_label_value(letters(64)));
	assert_false(name_is_label_value(STR("_a")));
	assert_false(name_is_label_value(STR("a.")));
	assert_false(name_is_label_value(STR("a/b")));
	assert_false(name_is_label_value(STR("a b")));
}

static void
keys_of_labels_may_have_a_prefix(void **state)
{
	(void)state;
	assert_true(name_is_label_key(STR("Zone_1")));
	assert_true(name_is_label_key(STR("example.com/Zone")));
	assert_false(name_is_label_key(STR("")));
	assert_false(name_is_label_key(STR("/zone")));
	assert_false(name_is_label_key(STR("example.com/")));
	assert_false(name_is_label_key(STR("Example.com/zone")));
	assert_false(name_is_label_key(STR("a/b/c")));
	assert_false(name_is_label_key(letters(64)));
}

static void
reserved_names_are_those_of_the_regular_expression(void **state)
{
	static const char *const reserved[] = { "kubernetes.io/x", "k8s.io/x",
		                                "topology.kubernetes.io/x", "foo.k8s.io/x" };
	static const char *const free_names[] = {
		"app.k8snio/x", "k8snio/x",          "topology.k8s.cp/x", "mykubernetes.io/x", "x",
		"k8s.io",       "example.com/k8s.io"
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(reserved); i++)
		assert_true(name_is_reserved_label(str_c(reserved[i])));
	for (size_t i = 0; i < ARRAY_LEN(free_names); i++)
		assert_false(name_is_reserved_label(str_c(free_names[i])));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(letters_digits_and_others_are_accepted),
		cmocka_unit_test(dns_labels_are_short_and_in_lower_case),
		cmocka_unit_test(only_the_whole_of_a_subdomain_is_bounded),
		cmocka_unit_test(values_of_labels_may_be_empty),
		cmocka_unit_test(keys_of_labels_may_have_a_prefix),
		cmocka_unit_test(reserved_names_are_those_of_the_regular_expression),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
