#include "base/map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

enum {
	N_KEYS = 500,
};

static struct key {
	char text[20];
	bool is_in; /* the model that the map is compared with */
	int walked;
} keys[N_KEYS];

static int
make_keys(void **state UNUSED)
{
	for (int i = 0; i < N_KEYS; i++) {
		keys[i] = (struct key){ 0 };
		(void)snprintf(keys[i].text, sizeof(keys[i].text), "node-%d", i);
	}
	return 0;
}

static struct str
text_of(const struct key *key)
{
	return str_c(key->text);
}

static void
an_empty_one_has_nothing(void **state UNUSED)
{
	struct map m = MAP_INIT;
	struct str key;
	void *value;
	size_t pos = 0;

	assert_null(map_get(&m, STR("x")));
	assert_null(map_remove(&m, STR("x")));
	assert_false(map_next(&m, &pos, &key, &value));
	map_fini(&m);
}

static void
putting_replaces_key_and_value(void **state UNUSED)
{
	CLEANUP(map_fini) struct map m = MAP_INIT;
	struct str first = str_c(keys[1].text);
	char again[] = "node-1";
	struct str key;
	void *value;
	size_t pos = 0;

	assert_null(map_put(&m, first, &keys[1]));
	assert_ptr_equal(map_put(&m, str_c(again), &keys[2]), &keys[1]);
	assert_int_equal(m.count, 1);
	assert_ptr_equal(map_get(&m, first), &keys[2]);
	assert_true(map_next(&m, &pos, &key, &value));
	assert_ptr_equal(key.ptr, again); /* the old key may go */
	assert_ptr_equal(value, &keys[2]);
	assert_false(map_next(&m, &pos, &key, &value));
}

static void
the_empty_key_is_one(void **state UNUSED)
{
	CLEANUP(map_fini) struct map m = MAP_INIT;
	struct str none = { NULL, 0 };

	assert_null(map_get(&m, STR("")));
	assert_null(map_put(&m, none, &keys[0]));
	assert_ptr_equal(map_get(&m, STR("")), &keys[0]);
	assert_ptr_equal(map_get(&m, none), &keys[0]);
	assert_ptr_equal(map_remove(&m, STR("")), &keys[0]);
	assert_null(map_get(&m, none));
}

static void
check_like_model(const struct map *m)
{
	struct str key;
	void *value;
	size_t n = 0;

	for (size_t i = 0; i < N_KEYS; i++) {
		keys[i].walked = 0;
		n += keys[i].is_in;
		assert_ptr_equal(map_get(m, text_of(&keys[i])), keys[i].is_in ? &keys[i] : NULL);
	}
	assert_int_equal(m->count, n);
	for (size_t pos = 0; map_next(m, &pos, &key, &value);)
		((struct key *)value)->walked++;
	for (size_t i = 0; i < N_KEYS; i++)
		assert_int_equal(keys[i].walked, keys[i].is_in);
}

static unsigned
next_number(void)
{
	static unsigned seed = 1; /* the same numbers in each run */

	seed = seed * 1103515245 + 12345;
	return seed >> 16;
}

static void
behaves_like_a_list(void **state UNUSED)
{
	CLEANUP(map_fini) struct map m = MAP_INIT;

	for (int step = 0; step < 20000; step++) {
		struct key *key = &keys[next_number() % N_KEYS];
		bool is_put = next_number() % 100 <
		              (step / 5000 % 2 ? 20u : 80u); /* fills and drains */
		void *before = is_put ? map_put(&m, text_of(key), key)
		                      : map_remove(&m, text_of(key));

		assert_ptr_equal(before, key->is_in ? key : NULL);
		key->is_in = is_put;
		if (step % 500 == 0)
			check_like_model(&m);
	}
	check_like_model(&m);
	assert_true(m.cap <= 1024);
}

static void
gives_memory_back_when_it_empties(void **state UNUSED)
{
	CLEANUP(map_fini) struct map m = MAP_INIT;

	for (size_t i = 0; i < N_KEYS; i++)
		(void)map_put(&m, text_of(&keys[i]), &keys[i]);
	assert_int_equal(m.cap, 1024);
	for (size_t i = 0; i < N_KEYS; i++) {
		assert_ptr_equal(map_remove(&m, text_of(&keys[i])), &keys[i]);
		assert_null(map_get(&m, text_of(&keys[i])));
		for (size_t k = i + 1; k < N_KEYS; k++)
			assert_ptr_equal(map_get(&m, text_of(&keys[k])), &keys[k]);
	}
	assert_int_equal(m.count, 0);
	assert_true(m.cap <= 64);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_one_has_nothing),
		cmocka_unit_test(putting_replaces_key_and_value),
		cmocka_unit_test(the_empty_key_is_one),
		cmocka_unit_test(behaves_like_a_list),
		cmocka_unit_test(gives_memory_back_when_it_empties),
	};

	return cmocka_run_group_tests(tests, make_keys, NULL);
}
