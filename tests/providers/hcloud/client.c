#include "providers/hcloud/client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"
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
	assert_true(hz_find_server(lab->api, &call, &lab->arena, HZ_BY_NAME(STR("n1")), &server,
	                           &err));
	assert_int_equal(server.id, 4);
	assert_string_equal(hz_address_in(&server.private_nets, 99).ptr, "10.9.0.2");
	assert_int_equal(hz_address_in(&server.private_nets, 98).len, 0);
	lab_answer(lab, "/servers?name=n2", 200, LAB_LIST(LAB_SERVER(3, "N2"), "null", "1"));
	assert_false(hz_find_server(lab->api, &call, &lab->arena, HZ_BY_NAME(STR("n2")), &server,
	                            &err));
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
	assert_true(hz_find_network(lab->api, &call, &lab->arena, HZ_BY_NAME(STR("lan")), false,
	                            &network, &err));
	assert_int_equal(network.id, 9);
	lab_answer(lab, "/networks?name=wan", 200, "{\"networks\":[{\"id\":8,\"name\":\"Wan\"}]}");
	assert_false(hz_find_network(lab->api, &call, &lab->arena, HZ_BY_NAME(STR("wan")), false,
	                             &network, &err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
}

/* Elements are counted before memory for all of them is allocated. */
static void
refuses_a_page_that_is_too_long(void **state)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(KIB(64));
	CLEANUP(hz_servers_fini) struct hz_servers servers = HZ_SERVERS_INIT;
	struct lab *lab = *state;
	struct call call = lab_call(lab, &lab->arena);
	struct error err;

	buf_add_c(&body, "{\"servers\":[0");
	for (size_t i = 0; i < LIMIT_CLOUD_PAGE; i++)
		buf_add_c(&body, ",0");
	buf_add_c(&body, "]}");
	lab_answer(lab, LAB_PAGE_1, 200, body.ptr);
	assert_false(hz_servers_read_page(lab->api, &call, &servers, &err));
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	assert_true(str_ends(str_c(err.msg), STR("more than 1000 servers on one page")));
}

#define IN_LAB(test) cmocka_unit_test_setup_teardown(test, lab_setup_open, lab_teardown)

/* ---- provider IDs ---- */

static void
check(const struct hz_dialect *dialect, const char *text, enum hz_kind kind, int64_t number)
{
	struct error err;
	struct hz_id id;

	if (!hz_id_parse(dialect, str_c(text), &id, &err))
		fail_msg("%s: %s", text, err.msg);
	assert_int_equal(id.kind, kind);
	assert_int_equal(id.number, number);
}

static void
check_bad(const struct hz_dialect *dialect, const char *text, enum err_code code, const char *msg)
{
	struct error err;
	struct hz_id id;

	assert_false(hz_id_parse(dialect, str_c(text), &id, &err));
	assert_int_equal(err.code, code);
	if (msg)
		assert_string_equal(err.msg, msg);
}

/* docs/spec/hcloud.md, "Provider IDs" */
static void
reads_all_forms(void **state)
{
	(void)state;
	check(&hz_official, "hcloud://1234", HZ_CLOUD, 1234);
	check(&hz_official, "hcloud://+5", HZ_CLOUD, 5);
	check(&hz_official, "hcloud://9007199254740991", HZ_CLOUD, 9007199254740991);
	check(&hz_official, "hcloud://hcloud://1", HZ_CLOUD, 1);
	check(&hz_official, "hrobot://321", HZ_ROBOT, 321);
	check(&hz_official, "hcloud://bm-321", HZ_ROBOT, 321);
}

static void
says_what_is_wrong(void **state)
{
#define EXPECTED                                                      \
	"Provider ID does not have one of the the expected prefixes " \
	"(hcloud://, hrobot://, hcloud://bm-): "
	(void)state;
	check_bad(&hz_official, "", ERR_UNSUPPORTED, EXPECTED);
	check_bad(&hz_official, "aws:///i-1", ERR_UNSUPPORTED, EXPECTED "aws:///i-1");
	check_bad(&hz_official, "hcloud-from-scratch://1", ERR_UNSUPPORTED, NULL);
	check_bad(&hz_official, "hcloud://", ERR_INVALID,
	          "providerID is missing a serverID: hcloud://");
	check_bad(&hz_official, "hcloud://bm-", ERR_INVALID,
	          "providerID is missing a serverID: hcloud://bm-");
	check_bad(&hz_official, "hcloud://x", ERR_INVALID, "unable to parse server id: hcloud://x");
	check_bad(&hz_official, "hcloud://1x", ERR_INVALID, NULL);
	check_bad(&hz_official, "hcloud://9223372036854775808", ERR_INVALID, NULL);
	check_bad(&hz_official, "hcloud://+-1", ERR_INVALID, NULL);
	/* no server has such a number, and that must not become "not found" */
	check_bad(&hz_official, "hcloud://-1", ERR_INVALID, NULL);
	check_bad(&hz_official, "hcloud://0", ERR_INVALID, NULL);
}

static void
the_tutorials_read_each_other(void **state)
{
	(void)state;
	check(&hz_tutorial, "hcloud-from-scratch://7", HZ_CLOUD, 7);
	check(&hz_tutorial, "ccm-from-scratch://7", HZ_CLOUD, 7);
	check(&hz_tutorial_text, "hcloud-from-scratch://7", HZ_CLOUD, 7);
	check_bad(&hz_tutorial, "hcloud://7", ERR_UNSUPPORTED, NULL);
	check_bad(&hz_tutorial, "hrobot://7", ERR_UNSUPPORTED, NULL);
}

static void
check_written(const struct hz_dialect *dialect, struct hz_id id, const char *text)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;

	assert_string_equal(hz_id_text(&arena, dialect, id).ptr, text);
}

static void
writes_each_its_own(void **state)
{
	(void)state;
	check_written(&hz_official, (struct hz_id){ HZ_CLOUD, 7 }, "hcloud://7");
	check_written(&hz_official, (struct hz_id){ HZ_ROBOT, 7 }, "hrobot://7");
	check_written(&hz_tutorial, (struct hz_id){ HZ_CLOUD, 7 }, "hcloud-from-scratch://7");
	check_written(&hz_tutorial_text, (struct hz_id){ HZ_CLOUD, 7 }, "ccm-from-scratch://7");
}

/* ---- the metadata service ---- */

/* docs/spec/hcloud.md, "Metadata" */
static const char text[] = "- ip: 10.0.0.2\n"
			   "  alias_ips: []\n"
			   "  interface_num: 1\n"
			   "  mac_address: 86:00:00:98:40:6e\n"
			   "  network_id: 1234\n"
			   "  network_name: nw\n"
			   "  network: 10.0.0.0/8\n"
			   "  subnet: 10.0.0.0/24\n"
			   "  gateway: 10.0.0.1\n"
			   "- network_id: 99\n"
			   "  ip: 10.9.0.2\r\n"
			   "  network_id: 4711";

static void
finds_the_networks(void **state)
{
	(void)state;
	assert_true(hz_metadata_names_network(str_c(text), 1234));
	assert_true(hz_metadata_names_network(str_c(text), 99));
	/* the last line, which the official controller does not see */
	assert_true(hz_metadata_names_network(str_c(text), 4711));
}

static void
finds_no_others(void **state)
{
	(void)state;
	assert_false(hz_metadata_names_network(str_c(text), 123));
	assert_false(hz_metadata_names_network(str_c(text), 12345));
	assert_false(hz_metadata_names_network(str_c(text), 1));
	assert_false(hz_metadata_names_network(STR_EMPTY, 1));
	assert_false(hz_metadata_names_network(STR("x_network_id: 5\nnetwork_id: 6 7\n"), 5));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		IN_LAB(finds_a_server_by_its_exact_name),
		IN_LAB(finds_a_network_by_its_exact_name),
		IN_LAB(refuses_a_page_that_is_too_long),
		cmocka_unit_test(reads_all_forms),
		cmocka_unit_test(says_what_is_wrong),
		cmocka_unit_test(the_tutorials_read_each_other),
		cmocka_unit_test(writes_each_its_own),
		cmocka_unit_test(finds_the_networks),
		cmocka_unit_test(finds_no_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
