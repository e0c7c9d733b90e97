/* explicit_bzero() is defined here, in front of the C library's, to see what is overwritten. */
#include "base/secret.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"

static size_t n_wiped;
static size_t last_wiped_len;

void
explicit_bzero(void *bytes, size_t len)
{
	volatile char *at = bytes;

	for (size_t i = 0; i < len; i++)
		at[i] = '\0';
	n_wiped++;
	last_wiped_len = len;
}

/* What it is called with _FORTIFY_SOURCE. */
void __explicit_bzero_chk(void *bytes, size_t len, size_t room);

void
__explicit_bzero_chk(void *bytes, size_t len, size_t room)
{
	(void)room;
	explicit_bzero(bytes, len);
}

static int
forget(void **state)
{
	(void)state;
	n_wiped = 0;
	last_wiped_len = 0;
	return 0;
}

static void
keeps_a_copy(void **state)
{
	CLEANUP(secret_fini) struct secret s = SECRET_NONE;
	char token[] = "tok\0en";

	(void)state;
	assert_false(secret_is_set(&s));
	assert_int_equal(secret_expose(&s).len, 0);
	assert_non_null(secret_expose(&s).ptr);
	secret_set(&s, str_n(token, 6));
	memset(token, 'x', sizeof(token));
	assert_true(secret_is_set(&s));
	assert_true(str_eq(secret_expose(&s), STR("tok\0en")));
	assert_int_equal(secret_expose(&s).ptr[6], '\0');
}

static void
wipes_what_it_gives_up(void **state)
{
	struct secret s = SECRET_NONE;

	(void)state;
	secret_set(&s, STR("first"));
	assert_int_equal(n_wiped, 0);
	secret_set(&s, STR("second"));
	assert_int_equal(n_wiped, 1);
	assert_int_equal(last_wiped_len, 5);
	secret_fini(&s);
	assert_int_equal(n_wiped, 2);
	assert_int_equal(last_wiped_len, 6);
	assert_false(secret_is_set(&s));
	secret_fini(&s);
	assert_int_equal(n_wiped, 2);
}

static void
can_be_set_to_a_part_of_itself(void **state)
{
	CLEANUP(secret_fini) struct secret s = SECRET_NONE;

	(void)state;
	secret_set(&s, STR("token\n"));
	secret_set(&s, str_trim(secret_expose(&s)));
	assert_true(str_eq(secret_expose(&s), STR("token")));
}

static bool
are_equal(const struct str *a, const struct str *b)
{
	CLEANUP(secret_fini) struct secret left = SECRET_NONE;
	CLEANUP(secret_fini) struct secret right = SECRET_NONE;

	if (a)
		secret_set(&left, *a);
	if (b)
		secret_set(&right, *b);
	return secret_eq(&left, &right);
}

static void
compares(void **state)
{
	(void)state;
	assert_true(are_equal(&STR("abc"), &STR("abc")));
	assert_false(are_equal(&STR("abc"), &STR("abd")));
	assert_false(are_equal(&STR("abc"), &STR("xbc")));
	assert_false(are_equal(&STR("abc"), &STR("ab")));
	assert_true(are_equal(&STR("\xff\0"), &STR("\xff\0")));
	assert_false(are_equal(&STR("\xff\0"), &STR("\xff\x80")));
	assert_true(are_equal(NULL, NULL));
	assert_true(are_equal(&STR(""), &STR("")));
	assert_false(are_equal(&STR(""), NULL)); /* an empty one is not none */
	assert_false(are_equal(NULL, &STR("a")));
}

static void
buffers_can_be_wiped(void **state)
{
	struct buf b = BUF_INIT(100);

	(void)state;
	buf_add_c(&b, "token");
	buf_truncate(&b, 1);
	buf_wipe(&b);
	assert_int_equal(n_wiped, 1);
	assert_true(last_wiped_len >= 5);
	buf_wipe(&b);
	assert_int_equal(n_wiped, 1);
}

/* What it grew out of is wiped as well, so nothing but the last memory is left to see. */
static void
buffers_for_secrets_leave_nothing_behind(void **state)
{
	struct buf b = BUF_SECRET(1000);
	char *token;

	(void)state;
	for (int i = 0; i < 300; i++)
		buf_add_char(&b, 'x');
	assert_int_equal(b.len, 300);
	assert_int_equal(n_wiped, 3); /* 64, 128 and 256 bytes */
	buf_reset(&b);
	buf_fini(&b);
	assert_int_equal(n_wiped, 4);
	assert_int_equal(last_wiped_len, 512);
	buf_add_c(&b, "again");
	buf_fini(&b);
	assert_int_equal(n_wiped, 5);
	buf_add_c(&b, "token");
	token = buf_take(&b);
	assert_string_equal(token, "token");
	assert_true(b.is_secret);
	free(token);
}

static void
arenas_can_be_wiped(void **state)
{
	struct arena a = ARENA_INIT;

	(void)state;
	arena_str(&a, STR("token"));
	assert_non_null(arena_alloc(&a, 100000));
	arena_wipe(&a);
	assert_int_equal(n_wiped, 2);
	assert_null(a.block);
	arena_wipe(&a);
	assert_int_equal(n_wiped, 2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(keeps_a_copy, forget),
		cmocka_unit_test_setup(wipes_what_it_gives_up, forget),
		cmocka_unit_test_setup(can_be_set_to_a_part_of_itself, forget),
		cmocka_unit_test_setup(compares, forget),
		cmocka_unit_test_setup(buffers_can_be_wiped, forget),
		cmocka_unit_test_setup(buffers_for_secrets_leave_nothing_behind, forget),
		cmocka_unit_test_setup(arenas_can_be_wiped, forget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
