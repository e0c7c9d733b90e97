#include "base/pool.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "base/thread.h"

enum {
	N_BLOCKS = 2000,
};

static struct pool pool = POOL_INIT;
static unsigned char *blocks[N_BLOCKS];

static size_t
nth_size(size_t i)
{
	return i * 37 % 3000;
}

static void
fill(size_t i)
{
	blocks[i] = pool_alloc(&pool, nth_size(i));
	memset(blocks[i], (int)(i % 251), nth_size(i));
}

static void
check_and_free(size_t i)
{
	for (size_t k = 0; k < nth_size(i); k++)
		assert_int_equal(blocks[i][k], i % 251);
	pool_free(&pool, blocks[i]);
}

static void
blocks_do_not_overlap(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_BLOCKS; i++)
		fill(i);
	for (size_t i = 0; i < N_BLOCKS; i += 2)
		check_and_free(i);
	for (size_t i = 0; i < N_BLOCKS; i += 2)
		fill(i);
	for (size_t i = N_BLOCKS; i-- > 0;)
		check_and_free(i);
	pool_free(&pool, NULL);
}

static void
blocks_are_aligned(void **state)
{
	(void)state;
	for (size_t size = 0; size < 2 * POOL_LARGEST; size++) {
		void *memory = pool_alloc(&pool, size);

		assert_int_equal((uintptr_t)memory % sizeof(int64_t), 0);
		pool_free(&pool, memory);
	}
}

static size_t
bytes_in_use(void)
{
	return mallinfo2().uordblks;
}

static void
empty_chunks_go_back(void **state)
{
	size_t before = bytes_in_use();

	(void)state;
	for (size_t i = 0; i < N_BLOCKS; i++)
		blocks[i] = pool_alloc(&pool, 500);
	for (size_t i = 0; i < N_BLOCKS; i++)
		pool_free(&pool, blocks[i]);
	assert_true(bytes_in_use() <= before);
	for (size_t i = 0; i < ARRAY_LEN(pool.open); i++)
		assert_null(LIST_FIRST(&pool.open[i]));
}

static void
little_is_wasted(void **state)
{
	size_t before = bytes_in_use();

	(void)state;
	for (size_t i = 0; i < N_BLOCKS; i++)
		blocks[i] = pool_alloc(&pool, 500);
	assert_true(bytes_in_use() - before <= N_BLOCKS * 550);
	for (size_t i = 0; i < N_BLOCKS; i++)
		pool_free(&pool, blocks[i]);
}

/* The holder of the last reference frees the block: here, the other thread. */
static void *
replace_blocks(void *arg)
{
	_Atomic(void *) *slots = arg;

	for (size_t i = 0; i < 20000; i++) {
		unsigned char *memory = pool_alloc(&pool, 100 + i % 200);

		*memory = 1;
		pool_free(&pool, atomic_exchange(&slots[i % 50], memory));
	}
	return NULL;
}

static void
threads_may_share_it(void **state)
{
	static _Atomic(void *) slots[50];
	pthread_t threads[2];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		thread_start(&threads[i], "replace", replace_blocks, slots);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		thread_join(threads[i]);
	for (size_t i = 0; i < ARRAY_LEN(slots); i++)
		pool_free(&pool, slots[i]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_do_not_overlap), cmocka_unit_test(blocks_are_aligned),
		cmocka_unit_test(empty_chunks_go_back),  cmocka_unit_test(little_is_wasted),
		cmocka_unit_test(threads_may_share_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
