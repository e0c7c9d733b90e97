#include "serve/digest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

/* RFC 4231, test case 1; its key is padded with zeros to the block by HMAC itself. */
static void
is_hmac_sha256(void **state)
{
	static const unsigned char expected[] = {
		0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53, 0x5c, 0xa8, 0xaf,
		0xce, 0xaf, 0x0b, 0xf1, 0x2b, 0x88, 0x1d, 0xc2, 0x00, 0xc9, 0x83,
		0x3d, 0xa7, 0x26, 0xe9, 0x37, 0x6c, 0x2e, 0x32, 0xcf, 0xf7,
	};
	struct digest_key key = { { 0 } };
	struct digest d;

	(void)state;
	memset(key.bytes, 0x0b, 20);
	d = digest_of(&key, STR("Hi There"));
	assert_memory_equal(d.bytes, expected, sizeof(expected));
}

static void
depends_on_key_and_text(void **state)
{
	struct digest_key one, two;
	struct digest a, b, c;

	(void)state;
	digest_key_init(&one);
	digest_key_init(&two);
	assert_memory_not_equal(one.bytes, two.bytes, sizeof(one.bytes));
	a = digest_of(&one, STR("a"));
	b = digest_of(&one, STR("b"));
	c = digest_of(&two, STR("a"));
	assert_false(str_eq(digest_str(&a), digest_str(&b)));
	assert_false(str_eq(digest_str(&a), digest_str(&c)));
	b = digest_of(&one, STR("a"));
	assert_true(str_eq(digest_str(&a), digest_str(&b)));
	digest_key_fini(&one);
	assert_int_equal(one.bytes[0] | one.bytes[DIGEST_SIZE - 1], 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_hmac_sha256),
		cmocka_unit_test(depends_on_key_and_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
