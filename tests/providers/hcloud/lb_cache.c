#include "providers/hcloud/lb_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "providers/hcloud/lab.h"

#define QUERY(query) "/load_balancers?label_selector=" query "&page=1&per_page=50&sort=id%3Aasc"
#define ALL QUERY("hcloud-ccm%2Fservice-uid")
#define OF(uid) QUERY("hcloud-ccm%2Fservice-uid%3D" uid)
#define LB(id, uid) \
	"{\"id\":" #id ",\"name\":\"lb\",\"labels\":{\"hcloud-ccm/service-uid\":\"" uid "\"}}"
#define LBS(items, total)             \
	"{\"load_balancers\":[" items \
	"],\"meta\":{\"pagination\":{\"next_page\":null,\"total_entries\":" total "}}}"
#define ONE(id, uid) "{\"load_balancer\":" LB(id, uid) "}"

struct story {
	struct lab *lab;
	struct arena arena;
	struct hz_lb_cache *cache;
};

static struct story story;

static int
setup(void **state)
{
	int result = lab_setup(state);

	story.lab = *state;
	lab_open(story.lab, &hz_official, 0);
	story.cache = hz_lb_cache_new(story.lab->api, &story.lab->fake.clock);
	return result;
}

static int
teardown(void **state)
{
	hz_lb_cache_free(story.cache);
	arena_fini(&story.arena);
	return lab_teardown(state);
}

static void
pass(int64_t seconds)
{
	story.lab->fake.now_ns += seconds * NS_PER_SEC;
}

/* The id of the only balancer found, 0 where there is none, -1 where there are several, and what
 * was asked for it. */
static void
check_found(const char *uid, enum hz_age age, int64_t wanted, const char *asked)
{
	CLEANUP(hz_found_fini) struct hz_found found = HZ_FOUND_INIT;
	struct call call = lab_call(story.lab, &story.arena);
	struct error err;

	if (!hz_lb_cache_find(story.cache, &call, str_c(uid), age, &found, &err))
		fail_msg("%s", err.msg);
	assert_int_equal(found.n > 1 ? -1 : found.n == 1 ? found.lbs[0]->id : 0, wanted);
	lab_check_asked(story.lab, asked);
}

static void
track(const char *namespace, const char *service, const char *uid)
{
	hz_lb_cache_track(story.cache, &(struct lb_spec){ .namespace = str_c(namespace),
	                                                  .service = str_c(service),
	                                                  .uid = str_c(uid) });
}

static void
adopt(const char *const uids[], size_t n)
{
	struct call call = lab_call(story.lab, &story.arena);
	struct lb_spec specs[4] = { 0 };
	const struct lb_spec *pointers[4];
	struct error err;

	for (size_t i = 0; i < n; i++) {
		specs[i].uid = specs[i].service = str_c(uids[i]);
		specs[i].namespace = STR("default");
		pointers[i] = &specs[i];
	}
	if (!hz_lb_cache_adopt(story.cache, &call, pointers, n, &err))
		fail_msg("%s", err.msg);
}

static void
one_list_answers_for_all_after_a_start(void **state)
{
	(void)state;
	lab_answer(story.lab, ALL, 200, LBS(LB(1, "a") "," LB(2, "b"), "2"));
	adopt((const char *const[]){ "a", "b" }, 2);
	lab_check_asked(story.lab, ALL "\n");
	pass(50);
	check_found("a", HZ_RECENT, 1, "");
	check_found("b", HZ_RECENT, 2, "");
	assert_true(hz_lb_cache_state(story.cache, STR("a")).is_live);
	assert_false(hz_lb_cache_state(story.cache, STR("c")).is_live);
}

/* "b 0/1, a 1/1": in no defined order, so by counting. */
static void
check_health(size_t n_services, size_t n_healthy, size_t n_targets)
{
	struct hz_service_health *rows;
	size_t n;

	hz_lb_cache_health(story.cache, &story.arena, &rows, &n);
	assert_int_equal(n, n_services);
	for (size_t i = 0; i < n; i++) {
		assert_true(str_eq_c(rows[i].namespace, "default"));
		n_healthy -= rows[i].n_healthy;
		n_targets -= rows[i].n_targets;
	}
	assert_int_equal(n_healthy, 0);
	assert_int_equal(n_targets, 0);
}

#define SICK(id, uid, status)                                                               \
	"{\"id\":" #id ",\"labels\":{\"hcloud-ccm/service-uid\":\"" uid "\"},\"targets\":[" \
	"{\"type\":\"ip\",\"health_status\":[{\"status\":\"" status "\"}]}]}"

static void
health_is_that_of_each_services_last_reading(void **state)
{
	(void)state;
	check_health(0, 0, 0);
	lab_answer(story.lab, ALL, 200,
	           LBS(SICK(1, "a", "healthy") "," SICK(2, "b", "healthy") "," SICK(3, "stranger",
	                                                                            "healthy"),
	               "3"));
	adopt((const char *const[]){ "a", "b" }, 2);
	check_health(2, 2, 2);
	pass(100);
	lab_answer(story.lab, OF("a"), 200, LBS(SICK(1, "a", "unhealthy"), "1"));
	check_found("a", HZ_FRESH, 1, ALL "\n" OF("a") "\n");
	check_health(2, 1, 2);
	lab_answer(story.lab, ALL, 200,
	           LBS(SICK(1, "a", "healthy") "," SICK(2, "b", "unknown"), "2"));
	adopt((const char *const[]){ "a", "b" }, 2);
	check_health(2, 1, 2);
	hz_lb_cache_untrack(story.cache, STR("a"));
	check_health(1, 0, 1);
}

static void
nothing_is_asked_where_no_service_is(void **state)
{
	(void)state;
	adopt(NULL, 0);
	lab_check_asked(story.lab, "");
}

static void
an_absence_is_always_read_again(void **state)
{
	(void)state;
	lab_answer(story.lab, ALL, 200, LBS(LB(1, "a"), "1"));
	lab_answer(story.lab, OF("b"), 200, LBS("", "0"));
	adopt((const char *const[]){ "a", "b" }, 2);
	lab_check_asked(story.lab, ALL "\n");
	pass(1);
	check_found("b", HZ_RECENT, 0, OF("b") "\n");
	pass(1);
	check_found("b", HZ_RECENT, 0, OF("b") "\n");
}

static void
an_old_balancer_is_read_again_by_its_id(void **state)
{
	(void)state;
	lab_answer(story.lab, OF("a"), 200, LBS(LB(1, "a"), "1"));
	lab_answer(story.lab, "/load_balancers/1", 200, ONE(1, "a"));
	track("default", "a", "a");
	check_found("a", HZ_RECENT, 1, OF("a") "\n");
	pass(9);
	check_found("a", HZ_RECENT, 1, "");
	pass(2);
	check_found("a", HZ_RECENT, 1, "/load_balancers/1\n");
	pass(1);
	check_found("a", HZ_FRESH, 1, OF("a") "\n");
}

static void
a_balancer_that_we_changed_is_read_again(void **state)
{
	(void)state;
	lab_answer(story.lab, OF("a"), 200, LBS(LB(1, "a"), "1"));
	lab_answer(story.lab, "/load_balancers/1", 200, ONE(1, "a"));
	track("default", "a", "a");
	check_found("a", HZ_RECENT, 1, OF("a") "\n");
	pass(1);
	hz_lb_cache_note_change(story.cache, STR("a"), 0);
	check_found("a", HZ_RECENT, 1, "/load_balancers/1\n");
}

/* What was made just now is known by its id. */
static void
what_we_made_is_asked_for_by_its_id(void **state)
{
	(void)state;
	lab_answer(story.lab, "/load_balancers/7", 200, ONE(7, "a"));
	hz_lb_cache_note_change(story.cache, STR("a"), 7);
	check_found("a", HZ_RECENT, 7, "/load_balancers/7\n");
}

/* By its id it is found no more, or is another Service's by now: then the label decides. */
static void
an_id_that_misleads(void **state)
{
	(void)state;
	lab_answer(story.lab, "/load_balancers/7", 404, LAB_NOT_FOUND);
	lab_answer(story.lab, "/load_balancers/8", 200, ONE(8, "b"));
	lab_answer(story.lab, OF("a"), 200, LBS(LB(9, "a"), "1"));
	hz_lb_cache_note_change(story.cache, STR("a"), 7);
	check_found("a", HZ_RECENT, 9, "/load_balancers/7\n" OF("a") "\n");
	pass(1);
	hz_lb_cache_note_change(story.cache, STR("a"), 8);
	check_found("a", HZ_RECENT, 9, "/load_balancers/8\n" OF("a") "\n");
}

static void
several_with_one_label(void **state)
{
	(void)state;
	lab_answer(story.lab, OF("a"), 200, LBS(LB(1, "a") "," LB(2, "a"), "2"));
	check_found("a", HZ_RECENT, -1, OF("a") "\n");
}

static void
a_failure_is_reported_and_the_next_caller_asks_again(void **state)
{
	CLEANUP(hz_found_fini) struct hz_found found = HZ_FOUND_INIT;
	struct call call = lab_call(story.lab, &story.arena);
	struct error err;

	(void)state;
	lab_answer(story.lab, OF("a"), 503, LAB_ERROR("unavailable"));
	assert_false(hz_lb_cache_find(story.cache, &call, STR("a"), HZ_RECENT, &found, &err));
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	buf_reset(&story.lab->script.asked);
	lab_answer(story.lab, OF("a"), 200, LBS(LB(1, "a"), "1"));
	check_found("a", HZ_RECENT, 1, OF("a") "\n");
}

#define LB_AT(id, uid, is_public, ipv4, ipv6, private)                                         \
	"{\"id\":" #id ",\"name\":\"lb\",\"labels\":{\"hcloud-ccm/service-uid\":\"" uid "\"}," \
	"\"public_net\":{\"enabled\":" is_public ",\"ipv4\":{\"ip\":\"" ipv4                   \
	"\"},\"ipv6\":{\"ip\":\"" ipv6                                                         \
	"\"}},\"private_net\":[{\"network\":4711,\"ip\":\"" private "\"}]}"

static void
check_serving(const char *service_address, unsigned wanted)
{
	struct call call = lab_call(story.lab, &story.arena);
	struct error err;
	unsigned n = 7;

	story.lab->fake.service_address = service_address;
	assert_true(hz_lb_cache_count_serving(story.cache, &call, &story.lab->fake.host, &n, &err));
	assert_int_equal(n, wanted);
}

/* What another project may have too proves nothing: name, label, private address. */
static void
only_public_addresses_of_live_services_prove_the_project(void **state)
{
	(void)state;
	lab_answer(story.lab, ALL, 200,
	           LBS(LB_AT(1, "a", "true", "192.0.2.1", "2001:db8::1",
	                     "10.0.0.5") "," LB_AT(2, "b", "false", "192.0.2.2", "2001:db8::2",
	                                           "10.0.0.6"),
	               "2"));
	adopt((const char *const[]){ "a", "b" }, 2);
	check_serving(NULL, 0);
	check_serving("192.0.2.1", 1);
	check_serving("2001:db8::1", 1);
	check_serving("10.0.0.5", 0);
	check_serving("192.0.2.2", 0); /* its public interface is off */
	check_serving("192.0.2.3", 0);
}

static void
a_service_that_came_back_under_another_uid_replaces_the_former(void **state)
{
	(void)state;
	track("default", "web", "u-1");
	track("other", "web", "u-2");
	track("default", "web", "u-3");
	assert_false(hz_lb_cache_state(story.cache, STR("u-1")).is_live);
	assert_true(hz_lb_cache_state(story.cache, STR("u-2")).is_live);
	assert_true(hz_lb_cache_state(story.cache, STR("u-3")).is_live);
	hz_lb_cache_untrack(story.cache, STR("u-1"));
	track("default", "web", "u-4");
	assert_false(hz_lb_cache_state(story.cache, STR("u-3")).is_live);
}

static void
check_namesake(const char *namespace, const char *service, const char *wanted)
{
	struct lb_spec spec = { .namespace = str_c(namespace), .service = str_c(service) };
	CLEANUP(buf_fini) struct buf found = BUF_INIT(100);
	struct lb_spec other;

	if (hz_lb_cache_find_namesake(story.cache, &spec, &story.arena, &other))
		buf_addf(&found, "%" STR_FMT "/%" STR_FMT " %" STR_FMT, STR_ARG(other.namespace),
		         STR_ARG(other.service), STR_ARG(other.uid));
	assert_string_equal(found.ptr, wanted);
}

static void
a_namesake_is_another_live_service_with_the_same_text(void **state)
{
	(void)state;
	track("a-b", "c", "u-1");
	track("x", "a-b-c", "u-2");
	check_namesake("a-b", "c", "");
	check_namesake("a", "b-c", "a-b/c u-1");
	check_namesake("a", "b-d", "");
	check_namesake("a", "b-c-d", "");
	track("a", "b-c", "u-3");
	check_namesake("a-b", "c", "a/b-c u-3");
	hz_lb_cache_untrack(story.cache, STR("u-3"));
	check_namesake("a-b", "c", "");
}

static void
an_action_is_kept_for_five_minutes(void **state)
{
	struct hz_action action = { .id = 70 };

	(void)state;
	hz_lb_cache_set_action(story.cache, STR("a"), action, false);
	pass(299);
	hz_lb_cache_set_action(story.cache, STR("a"), action, false);
	assert_int_equal(hz_lb_cache_state(story.cache, STR("a")).action.id, 70);
	pass(1);
	hz_lb_cache_set_action(story.cache, STR("a"), action, false);
	assert_int_equal(hz_lb_cache_state(story.cache, STR("a")).action.id, 0);
}

static void
what_is_reported_once(void **state)
{
	(void)state;
	assert_true(hz_lb_cache_should_report(story.cache, STR("a"), HZ_NOTICE_REFUSAL, 1));
	assert_false(hz_lb_cache_should_report(story.cache, STR("a"), HZ_NOTICE_REFUSAL, 1));
	hz_lb_cache_end_refusal(story.cache, STR("a"));
	assert_true(hz_lb_cache_should_report(story.cache, STR("a"), HZ_NOTICE_REFUSAL, 1));
	assert_true(hz_lb_cache_should_report(story.cache, STR("a"), HZ_NOTICE_TYPE, 0));
	assert_false(hz_lb_cache_should_report(story.cache, STR("a"), HZ_NOTICE_TYPE, 0));
	hz_lb_cache_untrack(story.cache, STR("a"));
	assert_true(hz_lb_cache_should_report(story.cache, STR("a"), HZ_NOTICE_TYPE, 0));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_list_answers_for_all_after_a_start),
		TEST(health_is_that_of_each_services_last_reading),
		TEST(nothing_is_asked_where_no_service_is),
		TEST(an_absence_is_always_read_again),
		TEST(an_old_balancer_is_read_again_by_its_id),
		TEST(a_balancer_that_we_changed_is_read_again),
		TEST(what_we_made_is_asked_for_by_its_id),
		TEST(an_id_that_misleads),
		TEST(several_with_one_label),
		TEST(a_failure_is_reported_and_the_next_caller_asks_again),
		TEST(only_public_addresses_of_live_services_prove_the_project),
		TEST(a_service_that_came_back_under_another_uid_replaces_the_former),
		TEST(a_namesake_is_another_live_service_with_the_same_text),
		TEST(an_action_is_kept_for_five_minutes),
		TEST(what_is_reported_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
