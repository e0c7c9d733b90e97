#include "base/words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void
check_nearest(const char *word, const char *wanted)
{
	static const char *const known[] = { "fsn1", "ash", "location", "network-zone", NULL };
	const char *found = words_nearest(known, str_c(word));

	assert_string_equal(found ? found : "none", wanted);
}

static void
suggests_only_what_is_similar(void **state UNUSED)
{
	check_nearest("fns1", "fsn1");
	check_nearest("fsn2", "fsn1");
	check_nearest("nbg1", "none");
	check_nearest("hil", "none");
	check_nearest("x", "none");
	check_nearest("", "none");
	check_nearest("locaton", "location");
	check_nearest("network-zones", "network-zone");
	check_nearest("certificate", "none");
}

static void
finds_words(void **state UNUSED)
{
	static const char *const known[] = { "one", "two", NULL };

	assert_true(words_have(known, STR("two")));
	assert_false(words_have(known, STR("tw")));
	assert_false(words_have(known, STR_EMPTY));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(suggests_only_what_is_similar),
		cmocka_unit_test(finds_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
