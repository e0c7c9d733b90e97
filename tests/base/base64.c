#include "base/base64.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

/* RFC 4648, section 10. */
static const char *const vectors[][2] = {
	{ "", "" },
	{ "f", "Zg==" },
	{ "fo", "Zm8=" },
	{ "foo", "Zm9v" },
	{ "foob", "Zm9vYg==" },
	{ "fooba", "Zm9vYmE=" },
	{ "foobar", "Zm9vYmFy" },
	{ "\xff\xfe\xfb\xef", "//777w==" },
};

static void
encodes_and_decodes(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
		CLEANUP(buf_fini) struct buf text = BUF_INIT(100), bytes = BUF_INIT(100);

		base64_add(&text, str_c(vectors[i][0]));
		assert_string_equal(text.ptr, vectors[i][1]);
		assert_true(base64_decode(buf_str(&text), &bytes));
		assert_string_equal(bytes.ptr, vectors[i][0]);
	}
}

static void
folded_lines_are_fine(void **state)
{
	CLEANUP(buf_fini) struct buf bytes = BUF_INIT(100);

	(void)state;
	assert_true(base64_decode(STR(" Zm9v\r\n\tYmFy\n"), &bytes));
	assert_string_equal(bytes.ptr, "foobar");
}

static void
anything_else_is_refused(void **state)
{
	static const char *const wrong[] = { "Z",        "Zg",   "Zg=", "Zg===",
		                             "Zg==Zg==", "Z-==", "=",   "Zm9v!" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		CLEANUP(buf_fini) struct buf bytes = BUF_INIT(100);

		assert_false(base64_decode(str_c(wrong[i]), &bytes));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(encodes_and_decodes),
		cmocka_unit_test(folded_lines_are_fine),
		cmocka_unit_test(anything_else_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
