#include "providers/hcloud/lb_catalog.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "providers/hcloud/lab.h"

#define LIST "/load_balancer_types?page=1&per_page=50"
#define TYPES(more)                                                                  \
	"{\"load_balancer_types\":[{\"id\":1,\"name\":\"lb11\"}" more "],\"meta\":{" \
	"\"pagination\":{\"next_page\":null,\"total_entries\":null}}}"

static struct {
	struct lab *lab;
	struct arena arena;
	struct hz_catalog *types;
	struct http_client slow; /* answers as the lab does, after it has found a type itself */
	bool looks_meanwhile, has_found;
	struct error err;
} world;

static int
setup(void **state)
{
	int result = lab_setup_open(state);

	world.lab = *state;
	world.types = hz_catalog_new(world.lab->api, &world.lab->fake.clock);
	return result;
}

static int
teardown(void **state)
{
	hz_catalog_free(world.types);
	arena_fini(&world.arena);
	return lab_teardown(state);
}

static bool
find(const char *name)
{
	struct call call = lab_call(world.lab, &world.arena);
	struct hz_lb_type type;

	return hz_types_find(world.types, &call, &world.arena, str_c(name), &type, &world.err) &&
	       str_eq_c(type.name, name);
}

static void
one_list_serves_for_an_hour(void **state)
{
	(void)state;
	lab_answer(world.lab, LIST, 200, TYPES(""));
	assert_true(find("lb11"));
	world.lab->fake.now_ns += 3599 * NS_PER_SEC;
	assert_true(find("lb11"));
	assert_int_equal(world.lab->script.n_asked, 1);
	world.lab->fake.now_ns += NS_PER_SEC;
	assert_true(find("lb11"));
	assert_int_equal(world.lab->script.n_asked, 2);
}

static void
a_type_that_is_missing_is_asked_for_once_a_minute(void **state)
{
	(void)state;
	lab_answer(world.lab, LIST, 200, TYPES(""));
	lab_answer(world.lab, LIST, 200, TYPES(",{\"id\":2,\"name\":\"lb12\"}"));
	for (unsigned i = 0; i < 20; i++) {
		assert_false(find("lb12"));
		assert_int_equal(world.err.code, ERR_INVALID);
	}
	assert_string_equal(world.err.msg, "error getting load balancer type: "
	                                   "load balancer type not found: lb12");
	assert_int_equal(world.lab->script.n_asked, 1);
	world.lab->fake.now_ns += 60 * NS_PER_SEC;
	assert_true(find("lb12"));
	assert_int_equal(world.lab->script.n_asked, 2);
}

static bool
find_meanwhile(struct http_client *client, struct call *call, const struct http_request *request,
               struct http_response *response, struct error *err)
{
	(void)client;
	world.has_found = world.looks_meanwhile && find("lb11");
	return http_do(&world.lab->script.client, call, request, response, err);
}

/* The lookup is made by the same thread, in the middle of the request: if it had to wait, it would
 * wait for ever. */
static void
a_known_type_does_not_wait_for_a_request(void **state)
{
	struct http_ops ops = *world.lab->script.client.ops;
	struct hz_api_config config = {
		.http = &world.slow,
		.base_url = STR("https://api.example.com"),
		.host = &world.lab->fake.host,
	};
	struct hz_api *api;

	(void)state;
	ops.do_request = find_meanwhile;
	world.slow.ops = &ops;
	api = hz_api_new(&config);
	hz_catalog_free(world.types);
	world.types = hz_catalog_new(api, &world.lab->fake.clock);
	lab_answer(world.lab, LIST, 200, TYPES(""));
	assert_true(find("lb11"));
	world.lab->fake.now_ns += 60 * NS_PER_SEC;
	world.looks_meanwhile = true;
	assert_false(find("lb12"));
	assert_true(world.has_found);
	world.looks_meanwhile = false;
	hz_api_free(api);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_list_serves_for_an_hour),
		TEST(a_type_that_is_missing_is_asked_for_once_a_minute),
		TEST(a_known_type_does_not_wait_for_a_request),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
