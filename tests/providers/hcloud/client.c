#include "providers/hcloud/client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "providers/hcloud/lab.h"

static void
finds_a_server_by_its_exact_name(void **state)
{
	struct lab *lab = *state;
	struct call call = lab_call(lab, &lab->arena);
	struct hz_server server;
	struct error err;

	lab_answer(lab, "/servers?name=n1", 200,
	           LAB_LIST(LAB_SERVER(3, "N1") ",7," LAB_SERVER(4, "n1"), "null", "3"));
	assert_true(hz_find_server(lab->api, &call, &lab->arena, STR("n1"), &server, &err));
	assert_int_equal(server.id, 4);
	assert_string_equal(hz_address_in(&server.private_nets, 99).ptr, "10.9.0.2");
	assert_int_equal(hz_address_in(&server.private_nets, 98).len, 0);
	lab_answer(lab, "/servers?name=n2", 200, LAB_LIST(LAB_SERVER(3, "N2"), "null", "1"));
	assert_false(hz_find_server(lab->api, &call, &lab->arena, STR("n2"), &server, &err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_string_equal(err.msg, "none of the servers has the name \"n2\"");
}

static void
finds_a_network_by_its_exact_name(void **state)
{
	struct lab *lab = *state;
	struct call call = lab_call(lab, &lab->arena);
	struct hz_network network;
	struct error err;

	lab_answer(lab, "/networks?name=lan", 200,
	           "{\"networks\":[{\"id\":8,\"name\":\"Lan\"},{\"id\":9,\"name\":\"lan\"}]}");
	assert_true(hz_find_network(lab->api, &call, &lab->arena, STR("lan"), false, &network,
	                            &err));
	assert_int_equal(network.id, 9);
	lab_answer(lab, "/networks?name=wan", 200, "{\"networks\":[{\"id\":8,\"name\":\"Wan\"}]}");
	assert_false(hz_find_network(lab->api, &call, &lab->arena, STR("wan"), false, &network,
	                             &err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
}

#define IN_LAB(test) cmocka_unit_test_setup_teardown(test, lab_setup_open, lab_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		IN_LAB(finds_a_server_by_its_exact_name),
		IN_LAB(finds_a_network_by_its_exact_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
