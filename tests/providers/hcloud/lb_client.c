#include "providers/hcloud/lb_client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"
#include "providers/hcloud/lab.h"

#define PAGE(n, query) \
	"/load_balancers?label_selector=" query "&page=" #n "&per_page=50&sort=id%3Aasc"
#define OURS "hcloud-ccm%2Fservice-uid"
#define LB(id, name) "{\"id\":" #id ",\"name\":\"" name "\"}"
#define LIST(name, items, next, total)                                            \
	"{\"" name "\":[" items "],\"meta\":{\"pagination\":{\"next_page\":" next \
	",\"total_entries\":" total "}}}"
#define LBS(items, next, total) LIST("load_balancers", items, next, total)
#define ACTION "{\"action\":{\"id\":70,\"status\":\"running\"}}"

/* ---- reading ---- */

static bool
list(struct lab *lab, struct str uid, struct hz_lb_list *ret, struct error *err)
{
	struct call call = lab_call(lab, &lab->arena);

	return hz_list_lbs(lab->api, &call, &lab->arena, uid, ret, err);
}

static void
lists_all_pages(void **state)
{
	struct lab *lab = *state;
	struct hz_lb_list found;
	struct error err;

	lab_answer(lab, PAGE(1, OURS), 200, LBS(LB(1, "a") "," LB(2, "b"), "2", "3"));
	lab_answer(lab, PAGE(2, OURS), 200, LBS(LB(2, "b") "," LB(5, "c"), "null", "3"));
	assert_true(list(lab, STR_EMPTY, &found, &err));
	assert_int_equal(found.n, 3);
	assert_int_equal(found.lbs[0].id, 1);
	assert_int_equal(found.lbs[2].id, 5);
	assert_string_equal(found.lbs[2].name.ptr, "c");
	lab_check_asked(lab, PAGE(1, OURS) "\n" PAGE(2, OURS) "\n");
}

static void
check_unlisted(struct lab *lab, const char *body, enum err_code code, unsigned n_asked)
{
	struct hz_lb_list found = { .n = 7 };
	struct error err;

	lab->script.n_answers = 0;
	lab->script.n_asked = 0;
	lab_answer(lab, "/load_balancers*", 200, body);
	assert_false(list(lab, STR_EMPTY, &found, &err));
	assert_int_equal(err.code, code);
	assert_int_equal(lab->script.n_asked, n_asked);
	assert_int_equal(found.n, 7);
}

/* Otherwise a second balancer would be made. */
static void
a_list_that_is_not_found_is_not_empty(void **state)
{
	struct lab *lab = *state;
	struct call call = lab_call(lab, &lab->arena);
	struct hz_lb_list found;
	struct hz_lb lb;
	struct error err;

	lab_answer(lab, "/load_balancers?*", 404, LAB_NOT_FOUND);
	assert_false(list(lab, STR("u-1"), &found, &err));
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	assert_false(hz_find_lb(lab->api, &call, &lab->arena, HZ_BY_NAME(STR("web")), &lb, &err));
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	lab_answer(lab, "/load_balancers/7", 404, LAB_NOT_FOUND);
	assert_false(hz_find_lb(lab->api, &call, &lab->arena, HZ_BY_ID(7), &lb, &err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
}

static void
a_list_is_whole_or_none(void **state)
{
	check_unlisted(*state, LBS(LB(1, "a"), "null", "2"), ERR_CONFLICT, 3);
	check_unlisted(*state, LBS(LB(1, "a"), "1", "2"), ERR_UNAVAILABLE, 1);
	check_unlisted(*state, LBS(LB(1, "a"), "3", "2"), ERR_UNAVAILABLE, 1);
	check_unlisted(*state, LBS(LB(1, "a"), "-1", "2"), ERR_UNAVAILABLE, 1);
	check_unlisted(*state, LBS(LB(1, "a") ",{\"name\":\"b\"}", "null", "2"), ERR_UNAVAILABLE,
	               1);
	check_unlisted(*state, "{\"load_balancers\":null}", ERR_UNAVAILABLE, 1);
	check_unlisted(*state, "{\"load_balancers\":[" LB(1, "a") "]}", ERR_UNAVAILABLE, 1);
	check_unlisted(*state, "{\"load_balancers\":[" LB(1, "a") "],\"meta\":{\"pagination\":{}}}",
	               ERR_UNAVAILABLE, 1);
}

static void
a_missing_total_is_named(void **state)
{
	struct lab *lab = *state;
	struct hz_lb_list found;
	struct error err;

	lab_answer(lab, PAGE(1, OURS), 200, "{\"load_balancers\":[]}");
	assert_false(list(lab, STR_EMPTY, &found, &err));
	assert_true(str_ends(str_c(err.msg), STR("has no meta.pagination.total_entries")));
}

static void
refuses_a_list_that_is_too_long(void **state)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(MIB(2));
	struct lab *lab = *state;
	struct hz_lb_list found;
	struct error err;

	for (size_t page = 1; page <= LIMIT_CLOUD_BALANCERS / LIMIT_CLOUD_PAGE + 1; page++) {
		buf_reset(&body);
		buf_add_c(&body, "{\"load_balancers\":[");
		for (size_t i = 0; i < LIMIT_CLOUD_PAGE; i++)
			buf_addf(&body, "%s{\"id\":%zu}", i > 0 ? "," : "",
			         page * LIMIT_CLOUD_PAGE + i);
		buf_addf(&body,
		         "],\"meta\":{\"pagination\":{\"next_page\":%zu,"
		         "\"total_entries\":20000}}}",
		         page + 1);
		lab_answer(lab, "/load_balancers?*", 200, arena_strz(&lab->arena, buf_str(&body)));
	}
	assert_false(list(lab, STR_EMPTY, &found, &err));
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	assert_non_null(strstr(err.msg, "has more than 10000 elements"));
}

static void
a_list_that_changed_is_read_again(void **state)
{
	struct lab *lab = *state;
	struct hz_lb_list found;
	struct error err;

	lab_answer(lab, PAGE(1, OURS), 200, LBS(LB(1, "a"), "2", "3"));
	lab_answer(lab, PAGE(2, OURS), 200, LBS(LB(5, "c"), "null", "3"));
	lab_answer(lab, PAGE(1, OURS), 200, LBS(LB(1, "a") "," LB(5, "c"), "null", "2"));
	assert_true(list(lab, STR_EMPTY, &found, &err));
	assert_int_equal(found.n, 2);
	assert_int_equal(lab->script.n_asked, 3);
}

static void
gets_one_by_id(void **state)
{
	struct lab *lab = *state;
	struct call call = lab_call(lab, &lab->arena);
	struct hz_lb lb;
	struct error err;

	lab_answer(lab, "/load_balancers/5", 200, "{\"load_balancer\":" LB(5, "c") "}");
	lab_answer(lab, "/load_balancers/6", 200, "{\"load_balancer\":" LB(5, "c") "}");
	lab_answer(lab, "/load_balancers/7", 404, LAB_NOT_FOUND);
	assert_true(hz_find_lb(lab->api, &call, &lab->arena, HZ_BY_ID(5), &lb, &err));
	assert_string_equal(lb.name.ptr, "c");
	assert_false(hz_find_lb(lab->api, &call, &lab->arena, HZ_BY_ID(6), &lb, &err));
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	assert_false(hz_find_lb(lab->api, &call, &lab->arena, HZ_BY_ID(7), &lb, &err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
}

/* Elements are counted before memory for all of them is allocated. */
static void
refuses_one_with_too_many_parts(void **state)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(MIB(1));
	struct lab *lab = *state;
	struct call call = lab_call(lab, &lab->arena);
	struct hz_lb lb;
	struct error err;

	buf_add_c(&body, "{\"load_balancer\":{\"id\":5,\"name\":\"c\",\"targets\":[0");
	for (size_t i = 0; i < LIMIT_CLOUD_ELEMENTS; i++)
		buf_add_c(&body, ",0");
	buf_add_c(&body, "]}}");
	lab_answer(lab, "/load_balancers/5", 200, body.ptr);
	assert_false(hz_find_lb(lab->api, &call, &lab->arena, HZ_BY_ID(5), &lb, &err));
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	assert_non_null(strstr(err.msg, "its lists have 100001 elements"));
}

static void
finds_one_by_its_exact_name(void **state)
{
	struct lab *lab = *state;
	struct call call = lab_call(lab, &lab->arena);
	struct hz_lb lb;
	struct error err;

	lab_answer(lab, "/load_balancers?name=a%20b", 200,
	           LBS(LB(4, "A b") ",7," LB(5, "a b"), "null", "3"));
	assert_true(hz_find_lb(lab->api, &call, &lab->arena, HZ_BY_NAME(STR("a b")), &lb, &err));
	assert_int_equal(lb.id, 5);
	lab_answer(lab, "/load_balancers?name=c", 200, LBS(LB(4, "C"), "null", "1"));
	assert_false(hz_find_lb(lab->api, &call, &lab->arena, HZ_BY_NAME(STR("c")), &lb, &err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_string_equal(err.msg, "none of the load_balancers has the name \"c\"");
}

/* ---- changes ---- */

static void
a_refusal_has_a_code(void **state)
{
	struct lab *lab = *state;
	struct call call = lab_call(lab, &lab->arena);
	struct hz_done done;
	struct hz_lb lb;
	struct error err;

	lab_answer(lab, "POST /load_balancers", 409, LAB_ERROR("uniqueness_error"));
	assert_false(hz_create_lb(lab->api, &call, &lab->arena, STR("{}"), &lb, &done, &err));
	assert_int_equal(err.code, ERR_EXISTS);
	assert_string_equal(done.code, "uniqueness_error");
	assert_true(done.action.is_over);
	lab_answer(lab, "/load_balancers/5/actions/add_target", 201,
	           "{\"action\":{\"id\":71,\"status\":\"error\",\"error\":{\"code\":\"locked\","
	           "\"message\":\"busy\"}}}");
	assert_false(hz_change_lb(lab->api, &call, 5, "add_target", STR("{}"), &done, &err));
	assert_string_equal(done.code, "locked");
	assert_string_equal(err.msg, "busy (locked, 71)");
}

static void
acts_with_and_without_a_body(void **state)
{
	struct lab *lab = *state;
	struct call call = lab_call(lab, &lab->arena);
	struct hz_done done;
	struct error err;

	lab_answer(lab, "POST /load_balancers/5/actions/*", 201, ACTION);
	assert_true(hz_change_lb(lab->api, &call, 5, "change_type", STR("{\"a\":1}"), &done, &err));
	assert_int_equal(done.action.id, 70);
	assert_string_equal(done.code, "");
	assert_true(hz_change_lb(lab->api, &call, 5, "enable_public_interface", STR_EMPTY, &done,
	                         &err));
	lab_check_asked(lab, "POST /load_balancers/5/actions/change_type {\"a\":1}\n"
	                     "POST /load_balancers/5/actions/enable_public_interface\n");
}

/* ---- types and certificates ---- */

#define CERTIFICATES(items) LIST("certificates", items, "null", "1")
#define OF_UID "/certificates?label_selector=" OURS "%3Du-1&page=1&per_page=50&sort=id%3Aasc"

static void
finds_certificates(void **state)
{
	struct lab *lab = *state;
	struct call call = lab_call(lab, &lab->arena);
	struct hz_certificate found;
	struct error err;

	lab_answer(lab, "/certificates?name=c", 200, CERTIFICATES(LB(9, "c")));
	assert_true(hz_find_certificate(lab->api, &call, &lab->arena, STR("c"), &found, &err));
	assert_int_equal(found.id, 9);
	lab_answer(lab, OF_UID, 200, CERTIFICATES(LB(9, "c")));
	lab_answer(lab, OF_UID, 200, CERTIFICATES(""));
	lab_answer(lab, OF_UID, 200, CERTIFICATES(LB(9, "c") "," LB(10, "d")));
	assert_true(hz_find_certificate_of(lab->api, &call, &lab->arena, STR("u-1"), &found, &err));
	assert_int_equal(found.id, 9);
	assert_false(hz_find_certificate_of(lab->api, &call, &lab->arena, STR("u-1"), &found,
	                                    &err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_false(hz_find_certificate_of(lab->api, &call, &lab->arena, STR("u-1"), &found,
	                                    &err));
	assert_int_equal(err.code, ERR_CONFLICT);
}

#define IN_LAB(test) cmocka_unit_test_setup_teardown(test, lab_setup_open, lab_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		IN_LAB(lists_all_pages),
		IN_LAB(a_list_that_is_not_found_is_not_empty),
		IN_LAB(a_list_is_whole_or_none),
		IN_LAB(a_missing_total_is_named),
		IN_LAB(refuses_a_list_that_is_too_long),
		IN_LAB(a_list_that_changed_is_read_again),
		IN_LAB(gets_one_by_id),
		IN_LAB(refuses_one_with_too_many_parts),
		IN_LAB(finds_one_by_its_exact_name),
		IN_LAB(a_refusal_has_a_code),
		IN_LAB(acts_with_and_without_a_body),
		IN_LAB(finds_certificates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
