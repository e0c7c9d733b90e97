#include "providers/hcloud/network_view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "providers/hcloud/lab.h"

static struct arena arena;
static struct hz_network_view view;

static int
setup(void **state)
{
	int result = lab_setup(state);

	view = HZ_NETWORK_VIEW_INIT;
	lab_open(*state, &hz_official, 4711);
	return result;
}

static int
teardown(void **state)
{
	hz_network_view_fini(&view);
	arena_fini(&arena);
	return lab_teardown(state);
}

#define NETWORK(routes, servers)                                                                   \
	"{\"network\":{\"id\":4711,\"name\":\"net\",\"routes\":[" routes "],\"servers\":[" servers \
	"]}}"
#define ROUTE(destination, gateway) \
	"{\"destination\":\"" destination "\",\"gateway\":\"" gateway "\"}"
#define SERVER(id, name, net, ip)                                                     \
	"{\"id\":" #id ",\"name\":\"" name                                            \
	"\",\"private_net\":[{\"network\":99,\"ip\":\"10.9.0.2\"},{\"network\":" #net \
	",\"ip\":\"" ip "\",\"alias_ips\":[\"10.0.0.9\"]}]}"
#define TWO SERVER(1, "n1", 4711, "10.0.0.1") "," SERVER(2, "n2", 4711, "10.0.0.2")

static bool
read_view(struct lab *lab, struct error *err)
{
	struct call call = lab_call(lab, &arena);

	return hz_network_view_read(&view, lab->api, &call, 4711, err);
}

static void
check_read(struct lab *lab, bool is_sure, unsigned n_asked)
{
	struct error err;

	lab->script.n_asked = 0;
	assert_true(read_view(lab, &err));
	assert_int_equal(view.is_sure, is_sure);
	assert_int_equal(lab->script.n_asked, n_asked);
}

static void
reads_routes_and_members(void **state)
{
	struct lab *lab = *state;
	const struct hz_member *member;

	lab_answer(lab, "/networks/4711", 200,
	           NETWORK(ROUTE("10.244.1.0/24", "10.0.0.1") "," ROUTE("0.0.0.0/0", "10.0.0.7"),
	                   "1,2"));
	lab_answer(lab, LAB_PAGE_1, 200,
	           LAB_LIST(TWO "," SERVER(3, "n3", 98, "10.0.0.3"), "null", "3"));
	check_read(lab, true, 2);
	assert_int_equal(view.n_routes, 2);
	assert_string_equal(hz_route_to(&view, STR("10.244.1.0/24"))->gateway.ptr, "10.0.0.1");
	assert_null(hz_route_to(&view, STR("10.244.2.0/24")));
	assert_int_equal(view.n_members, 2);
	member = map_get(&view.by_ip, STR("10.0.0.2"));
	assert_int_equal(member->id, 2);
	assert_string_equal(member->name.ptr, "n2");
	assert_ptr_equal(hz_member_of(&view, HZ_BY_ID(2)), member);
	assert_ptr_equal(hz_member_of(&view, HZ_BY_NAME(STR("n2"))), member);
	assert_null(map_get(&view.by_ip, STR("10.0.0.9")));
	assert_null(map_get(&view.by_ip, STR("10.9.0.2")));
	assert_null(hz_member_of(&view, HZ_BY_ID(3)));
}

static void
a_list_that_lacks_a_member_is_read_again(void **state)
{
	struct lab *lab = *state;

	lab_answer(lab, "/networks/4711", 200, NETWORK("", "1,2"));
	lab_answer(lab, LAB_PAGE_1, 200, LAB_LIST(SERVER(1, "n1", 4711, "10.0.0.1"), "null", "1"));
	lab_answer(lab, LAB_PAGE_1, 200, LAB_LIST(TWO, "null", "2"));
	check_read(lab, true, 4);
	assert_int_equal(view.n_members, 2);
}

/* Also one of another project, which is empty, and one whose total says otherwise. */
static void
a_list_that_cannot_be_believed_is_not_sure(void **state)
{
	static const char *const lists[] = {
		LAB_LIST(SERVER(1, "n1", 4711, "10.0.0.1"), "null", "1"),
		LAB_LIST(SERVER(1, "n1", 4711, "10.0.0.1") "," SERVER(2, "n2", 98, "10.0.0.2"),
		         "null", "2"),
		LAB_LIST(TWO, "null", "3"),
		LAB_LIST("", "null", "0"),
	};
	struct lab *lab = *state;

	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		lab->script.n_answers = 0;
		lab_answer(lab, "/networks/4711", 200, NETWORK("", "1,2"));
		lab_answer(lab, LAB_PAGE_1, 200, lists[i]);
		check_read(lab, false, 4);
	}
	lab->script.n_answers = 0;
	lab_answer(lab, "/networks/4711", 200, NETWORK("", ""));
	lab_answer(lab, LAB_PAGE_1, 200, LAB_LIST("", "null", "0"));
	check_read(lab, false, 4);
}

static void
a_failure_leaves_what_was_known(void **state)
{
	struct lab *lab = *state;
	struct error err;

	lab_answer(lab, "/networks/4711", 200, NETWORK(ROUTE("10.244.1.0/24", "10.0.0.1"), "1,2"));
	lab_answer(lab, LAB_PAGE_1, 200, LAB_LIST(TWO, "null", "2"));
	check_read(lab, true, 2);
	lab->script.n_answers = 0;
	lab_answer(lab, "/networks/4711", 404, LAB_NOT_FOUND);
	assert_false(read_view(lab, &err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_string_equal(err.msg, "network not found: 4711: server not found (not_found) "
	                             "[GET /networks/4711, status 404]");
	lab->script.n_answers = 0;
	lab_answer(lab, "/networks/4711", 200, NETWORK("", "1,2"));
	lab_answer(lab, LAB_PAGE_1, 503, LAB_ERROR("unavailable"));
	assert_false(read_view(lab, &err));
	assert_int_equal(view.n_routes, 1);
	assert_int_equal(view.n_members, 2);
}

static void
what_we_did_is_known(void **state)
{
	struct lab *lab = *state;
	struct hz_route first = { STR("10.244.1.0/24"), STR("10.0.0.1") };
	struct hz_route other = { STR("10.244.1.0/24"), STR("10.0.0.2") };

	lab_answer(lab, "/networks/4711", 200, NETWORK("", "1,2"));
	lab_answer(lab, LAB_PAGE_1, 200, LAB_LIST(TWO, "null", "2"));
	check_read(lab, true, 2);
	hz_route_added(&view, &first);
	hz_route_removed(&view, &other);
	assert_string_equal(hz_route_to(&view, STR("10.244.1.0/24"))->gateway.ptr, "10.0.0.1");
	hz_route_removed(&view, &first);
	assert_null(hz_route_to(&view, STR("10.244.1.0/24")));
}

#define IN_LAB(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		IN_LAB(reads_routes_and_members),
		IN_LAB(a_list_that_lacks_a_member_is_read_again),
		IN_LAB(a_list_that_cannot_be_believed_is_not_sure),
		IN_LAB(a_failure_leaves_what_was_known),
		IN_LAB(what_we_did_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
