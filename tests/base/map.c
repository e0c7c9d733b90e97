#include "base/map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <unistd.h>

#include <cmocka.h>

enum {
	N_KEYS = 500,
};

static struct key {
	char text[20];
	struct str name; /* the same */
	bool is_in;      /* the model that the map is compared with */
	int walked;
} keys[N_KEYS];

static int
make_keys(void **state)
{
	(void)state;
	for (int i = 0; i < N_KEYS; i++) {
		keys[i] = (struct key){ 0 };
		(void)snprintf(keys[i].text, sizeof(keys[i].text), "node-%d", i);
		keys[i].name = str_c(keys[i].text);
	}
	return 0;
}

static void
an_empty_one_has_nothing(void **state)
{
	struct map m = MAP_INIT;
	struct str key;
	void *value;
	size_t pos = 0;

	(void)state;
	assert_null(map_get(&m, STR("x")));
	assert_null(map_remove(&m, STR("x")));
	assert_false(map_next(&m, &pos, &key, &value));
	map_fini(&m);
}

static void
putting_replaces_key_and_value(void **state)
{
	CLEANUP(map_fini) struct map m = MAP_INIT;
	struct str first = str_c(keys[1].text);
	char again[] = "node-1";
	struct str key;
	void *value;
	size_t pos = 0;

	(void)state;
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
the_empty_key_is_one(void **state)
{
	CLEANUP(map_fini) struct map m = MAP_INIT;
	struct str none = { NULL, 0 };

	(void)state;
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
		assert_ptr_equal(map_get(m, keys[i].name), keys[i].is_in ? &keys[i] : NULL);
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
check_many_changes(struct map of_kind)
{
	CLEANUP(map_fini) struct map m = of_kind;

	(void)make_keys(NULL);
	for (int step = 0; step < 20000; step++) {
		struct key *key = &keys[next_number() % N_KEYS];
		bool is_put = next_number() % 100 <
		              (step / 5000 % 2 ? 20u : 80u); /* fills and drains */
		void *before = is_put ? map_put(&m, key->name, key) : map_remove(&m, key->name);

		assert_ptr_equal(before, key->is_in ? key : NULL);
		key->is_in = is_put;
		if (step % 500 == 0)
			check_like_model(&m);
	}
	check_like_model(&m);
	assert_true(m.cap <= 1024);
}

static void
behaves_like_a_list(void **state)
{
	(void)state;
	check_many_changes(MAP_INIT);
	check_many_changes(MAP_OF(struct key, name));
}

static void
check_emptying(struct map of_kind)
{
	CLEANUP(map_fini) struct map m = of_kind;

	for (size_t i = 0; i < N_KEYS; i++)
		(void)map_put(&m, keys[i].name, &keys[i]);
	assert_int_equal(m.cap, 1024);
	for (size_t i = 0; i < N_KEYS; i++) {
		assert_ptr_equal(map_remove(&m, keys[i].name), &keys[i]);
		assert_null(map_get(&m, keys[i].name));
		for (size_t k = i + 1; k < N_KEYS; k++)
			assert_ptr_equal(map_get(&m, keys[k].name), &keys[k]);
	}
	assert_int_equal(m.count, 0);
	assert_true(m.cap <= 64);
}

static void
gives_memory_back_when_it_empties(void **state)
{
	(void)state;
	check_emptying(MAP_INIT);
	check_emptying(MAP_OF(struct key, name));
}

/* The key of what was replaced may go; after map_fini() it is a map of the same kind. */
static void
values_may_bring_their_key(void **state)
{
	CLEANUP(map_fini) struct map m = MAP_OF(struct key, name);
	struct key other = { .name = STR("node-1") };
	struct str key;
	void *value;
	size_t pos = 0;

	(void)state;
	assert_null(map_get(&m, STR("node-1")));
	assert_null(map_put(&m, keys[1].name, &keys[1]));
	assert_ptr_equal(map_put(&m, other.name, &other), &keys[1]);
	assert_true(map_next(&m, &pos, &key, &value));
	assert_ptr_equal(key.ptr, other.name.ptr);
	assert_ptr_equal(value, &other);
	assert_false(map_next(&m, &pos, &key, &value));
	map_fini(&m);
	assert_true(m.key_at > 0);
	assert_null(map_put(&m, keys[2].name, &keys[2]));
	assert_ptr_equal(map_get(&m, STR("node-2")), &keys[2]);
}

static int n_freed;

static void
count_freed(void *value)
{
	((struct key *)value)->is_in = false;
	n_freed++;
}

/* Is its number a multiple of this one? */
static bool
is_multiple(const void *key, const void *number)
{
	return ((const struct key *)key - keys) % *(const int *)number == 0;
}

static void
obsolete_values_are_freed_and_the_others_stay(void **state)
{
	struct map maps[] = { MAP_INIT, MAP_OF(struct key, name) };
	int numbers[] = { 7, 3, 2, 1 };

	(void)state;
	for (size_t m = 0; m < ARRAY_LEN(maps); m++) {
		for (int i = 0; i < N_KEYS; i++) {
			keys[i].is_in = true;
			map_put(&maps[m], keys[i].name, &keys[i]);
		}
		for (size_t n = 0; n < ARRAY_LEN(numbers); n++) {
			map_free_obsolete(&maps[m], is_multiple, &numbers[n], count_freed);
			for (int i = 0; i < N_KEYS; i++) {
				if (i % numbers[n] == 0)
					assert_false(keys[i].is_in);
				assert_ptr_equal(map_get(&maps[m], keys[i].name),
				                 keys[i].is_in ? &keys[i] : NULL);
			}
		}
		assert_int_equal(maps[m].count, 0);
		assert_true(maps[m].cap < N_KEYS / 2);
		map_fini(&maps[m]);
	}
	assert_int_equal(n_freed, 2 * N_KEYS);
}

static void
all_values_are_freed(void **state)
{
	struct map m = MAP_OF(struct key, name);

	(void)state;
	n_freed = 0;
	for (int i = 0; i < N_KEYS; i++)
		map_put(&m, keys[i].name, &keys[i]);
	map_free_all(&m, count_freed);
	assert_int_equal(n_freed, N_KEYS);
	assert_int_equal(m.count, 0);
	map_put(&m, keys[0].name, &keys[0]);
	assert_ptr_equal(map_get(&m, keys[0].name), &keys[0]);
	map_fini(&m);
}

static void
an_added_value_has_its_own_key(void **state)
{
	struct map m = MAP_OF(struct key, name);
	char name[] = "web";
	struct key *value = map_add(&m, str_c(name), sizeof(*value));

	(void)state;
	assert_false(value->is_in);
	value->is_in = true;
	name[0] = 'x';
	assert_null(map_get(&m, str_c(name)));
	assert_ptr_equal(map_add(&m, STR("web"), sizeof(*value)), value);
	assert_true(value->is_in);
	assert_int_equal(m.count, 1);
	map_free_all(&m, free);
}

static void
print_order(void)
{
	CLEANUP(map_fini) struct map m = MAP_INIT;
	struct str key;
	void *value;

	for (size_t i = 0; i < 100; i++)
		(void)map_put(&m, keys[i].name, &keys[i]);
	for (size_t pos = 0; map_next(&m, &pos, &key, &value);)
		printf("%" STR_FMT " ", STR_ARG(key));
}

static void
read_order(char text[4000])
{
	char command[64];
	FILE *child;

	snprintf(command, sizeof(command), "/proc/%d/exe order", (int)getpid());
	child = popen(command, "r");
	assert_non_null(child);
	text[fread(text, 1, 3999, child)] = '\0';
	assert_int_equal(pclose(child), 0);
}

/* So an attacker cannot choose names that collide. */
static void
the_order_is_another_one_in_each_process(void **state)
{
	char one[4000], two[4000];

	(void)state;
	read_order(one);
	read_order(two);
	assert_true(strlen(one) > 100);
	assert_int_equal(strlen(one), strlen(two));
	assert_string_not_equal(one, two);
}

int
main(int argc, char **argv)
{
	(void)argv;
	if (argc > 1) {
		(void)make_keys(NULL);
		print_order();
		return 0;
	}

	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_one_has_nothing),
		cmocka_unit_test(putting_replaces_key_and_value),
		cmocka_unit_test(the_empty_key_is_one),
		cmocka_unit_test(behaves_like_a_list),
		cmocka_unit_test(gives_memory_back_when_it_empties),
		cmocka_unit_test(values_may_bring_their_key),
		cmocka_unit_test(obsolete_values_are_freed_and_the_others_stay),
		cmocka_unit_test(all_values_are_freed),
		cmocka_unit_test(an_added_value_has_its_own_key),
		cmocka_unit_test(the_order_is_another_one_in_each_process),
	};

	return cmocka_run_group_tests(tests, make_keys, NULL);
}
