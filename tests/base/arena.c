#include "base/arena.h"

#include <setjmp.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"

static void
check_zero(const char *memory, size_t size)
{
	for (size_t i = 0; i < size; i++)
		assert_int_equal(memory[i], 0);
}

static void
memory_is_zeroed_and_aligned(void **state)
{
	CLEANUP(arena_fini) struct arena a = ARENA_INIT;

	(void)state;
	for (int round = 0; round < 3; round++) {
		for (size_t size = 0; size < 200; size++) {
			char *memory = arena_alloc(&a, size);

			assert_non_null(memory);
			assert_int_equal((uintptr_t)memory % alignof(max_align_t), 0);
			check_zero(memory, size);
			memset(memory, 0xff, size);
		}
		arena_reset(&a);
	}
}

static void
pieces_do_not_overlap(void **state)
{
	CLEANUP(arena_fini) struct arena a = ARENA_INIT;
	unsigned char *pieces[500];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
		pieces[i] = arena_alloc(&a, i * 3);
		memset(pieces[i], (int)(i % 251), i * 3);
	}
	for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
		for (size_t k = 0; k < i * 3; k++)
			assert_int_equal(pieces[i][k], i % 251);
	}
}

static void
large_pieces_fit(void **state)
{
	CLEANUP(arena_fini) struct arena a = ARENA_INIT;

	(void)state;
	for (size_t size = KIB(1); size <= MIB(1); size *= 2) {
		char *memory = arena_alloc(&a, size);

		check_zero(memory, size);
		memset(memory, 1, size);
	}
	assert_true(a.total >= MIB(2) - KIB(1));
}

static void
a_reset_keeps_little(void **state)
{
	CLEANUP(arena_fini) struct arena a = ARENA_INIT;
	struct arena_block *first;

	(void)state;
	arena_reset(&a);
	assert_null(a.block);
	assert_non_null(arena_alloc(&a, 1));
	first = a.block;
	assert_non_null(arena_alloc(&a, MIB(1)));
	arena_reset(&a);
	assert_int_equal(a.total, 0);
	assert_ptr_equal(a.block, HAS_ASAN ? NULL : first);
	arena_fini(&a);
	assert_non_null(arena_alloc(&a, MIB(1)));
	arena_reset(&a);
	assert_null(a.block);
}

static void
copies_are_terminated(void **state)
{
	CLEANUP(arena_fini) struct arena a = ARENA_INIT;
	struct str copy = arena_str(&a, str_head(STR("worker-1"), 6));

	(void)state;
	assert_string_equal(copy.ptr, "worker");
	assert_int_equal(copy.len, 6);
	assert_string_equal(arena_strz(&a, STR("x")), "x");
	assert_string_equal(arena_str(&a, (struct str){ NULL, 0 }).ptr, "");
}

static void
lowers_ascii_only(void **state)
{
	CLEANUP(arena_fini) struct arena a = ARENA_INIT;
	struct str text = arena_lower(&a, STR("AZ az-@[\xc3\x84"));

	(void)state;
	assert_true(str_eq_c(text, "az az-@[\xc3\x84"));
	assert_string_equal(text.ptr, "az az-@[\xc3\x84");
}

static void
prints(void **state)
{
	CLEANUP(arena_fini) struct arena a = ARENA_INIT;
	struct str text = arena_printf(&a, "%s/%d", "lb", 7);

	(void)state;
	assert_true(str_eq_c(text, "lb/7"));
	assert_string_equal(text.ptr, "lb/7");
	text = arena_printf(&a, "%*d", 10000, 1);
	assert_int_equal(text.len, 10000);
	assert_int_equal(strlen(text.ptr), 10000);
}

static void
makes_arrays_and_structs(void **state)
{
	CLEANUP(arena_fini) struct arena a = ARENA_INIT;
	struct str *one = ARENA_NEW(&a, struct str);
	struct str *many = arena_calloc(&a, 100, sizeof(*many));

	(void)state;
	assert_null(one->ptr);
	for (int i = 0; i < 100; i++)
		assert_null(many[i].ptr);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_is_zeroed_and_aligned),
		cmocka_unit_test(pieces_do_not_overlap),
		cmocka_unit_test(large_pieces_fit),
		cmocka_unit_test(a_reset_keeps_little),
		cmocka_unit_test(copies_are_terminated),
		cmocka_unit_test(lowers_ascii_only),
		cmocka_unit_test(prints),
		cmocka_unit_test(makes_arrays_and_structs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
