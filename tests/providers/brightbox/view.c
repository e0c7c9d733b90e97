/* The lists that all Services share, read by one thread or by several: sections "Requests" and
 * "Load balancers" of docs/spec/brightbox.md. */
#include "providers/brightbox/view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/thread.h"
#include "cloud/fake_host.h"
#include "cloud/http_hold.h"
#include "cloud/http_script.h"
#include "fake_clock.h"

#define FOUR_LISTS "/load_balancers\n/cloud_ips\n/server_groups\n/firewall_policies\n"

enum {
	CALLERS = 8,
	LISTS = 4,
	ALL = 1000, /* requests; more than a test needs */
};

struct world {
	struct fake_clock *clock;
	struct http_script script;
	struct http_hold hold;
	struct fake_host fake;
	struct bb_client *client;
	struct bb_views *views;
};

static int
setup(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));
	struct error err;

	log_set_fd(-1);
	w->clock = fake_clock_new(0);
	http_script_init(&w->script);
	http_hold_init(&w->hold, &w->script.client);
	fake_host_init(&w->fake);
	w->fake.host.http = &w->hold.client;
	w->fake.host.clock = fake_clock_clock(w->clock);
	assert_true(bb_client_new(&w->fake.host,
	                          &(struct bb_config){ .api_url = STR("https://h/") }, NULL,
	                          &w->client, &err));
	w->views = bb_views_new(w->client, w->fake.host.clock);
	*state = w;
	return 0;
}

static int
teardown(void **state)
{
	struct world *w = *state;

	bb_views_free(w->views);
	bb_client_free(w->client);
	http_hold_fini(&w->hold);
	http_script_fini(&w->script);
	fake_host_fini(&w->fake);
	fake_clock_free(w->clock);
	free(w);
	return 0;
}

/* Balancers, and nothing else. */
static void
answer(struct world *w, int status, const char *lbs)
{
	http_script_answer(&w->script, "/load_balancers", status, lbs);
}

static void
answer_others(struct world *w)
{
	http_script_answer(&w->script, "/cloud_ips", 200, "[]");
	http_script_answer(&w->script, "/server_groups", 200, "[]");
	http_script_answer(&w->script, "/firewall_policies", 200, "[]");
}

static void
let_pass(struct world *w)
{
	answer_others(w);
	http_hold_release(&w->hold, ALL);
}

/* ---- one caller ---- */

/* first 0: one that may be ten seconds old. */
static bool
get_view(struct world *w, struct call *call, uint64_t first, struct bb_view **ret,
         struct error *err)
{
	return first > 0 ? bb_views_get(w->views, call, first, ret, err)
	                 : bb_views_get_recent(w->views, call, 0, 10 * NS_PER_SEC, ret, err);
}

static struct bb_view *
get_since(struct world *w, uint64_t first)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct call call = { .clock = fake_clock_clock(w->clock),
		             .deadline_mono_ns = CLOCK_FOREVER,
		             .arena = &arena };
	struct bb_view *view = NULL;
	struct error err;

	if (!get_view(w, &call, first, &view, &err))
		fail_msg("%s", err.msg);
	return view;
}

static struct bb_view *
get(struct world *w, bool is_fresh)
{
	return get_since(w, is_fresh ? bb_views_next(w->views) : 0);
}

static void
check_reads(struct world *w, bool is_fresh, const char *requests)
{
	bb_view_unref(get(w, is_fresh));
	http_script_check_asked(&w->script, requests);
}

static void
services_share_the_lists_for_ten_seconds(void **state)
{
	struct world *w = *state;

	answer(w, 200, "[]");
	let_pass(w);
	check_reads(w, false, FOUR_LISTS);
	fake_clock_advance(w->clock, 10 * NS_PER_SEC);
	check_reads(w, false, "");
	fake_clock_advance(w->clock, NS_PER_SEC);
	check_reads(w, false, FOUR_LISTS);
}

/* A Service that waits for the cloud needs a view that it has not seen, and accepts an older one of
 * another Service. */
static void
those_that_wait_share_views_that_they_have_not_seen(void **state)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct world *w = *state;
	struct call call = { .clock = fake_clock_clock(w->clock),
		             .deadline_mono_ns = CLOCK_FOREVER,
		             .arena = &arena };
	struct bb_view *view;
	struct error err;

	answer(w, 200, "[]");
	let_pass(w);
	check_reads(w, false, FOUR_LISTS);
	fake_clock_advance(w->clock, 100 * NS_PER_SEC);
	assert_true(bb_views_get_recent(w->views, &call, 0, 150 * NS_PER_SEC, &view, &err));
	assert_int_equal(view->number, 1);
	bb_view_unref(view);
	http_script_check_asked(&w->script, "");
	assert_true(bb_views_get_recent(w->views, &call, 1, 150 * NS_PER_SEC, &view, &err));
	assert_int_equal(view->number, 2);
	bb_view_unref(view);
	http_script_check_asked(&w->script, FOUR_LISTS);
}

static void
lists_are_read_again_after_a_change(void **state)
{
	struct world *w = *state;

	answer(w, 200, "[]");
	let_pass(w);
	check_reads(w, false, FOUR_LISTS);
	bb_views_outdate(w->views);
	check_reads(w, false, FOUR_LISTS);
	check_reads(w, false, "");
}

/* Before a balancer is created, the list must show what another process may just have created. */
static void
a_caller_can_demand_lists_of_now(void **state)
{
	struct world *w = *state;

	answer(w, 200, "[]");
	let_pass(w);
	check_reads(w, true, FOUR_LISTS);
	check_reads(w, true, FOUR_LISTS);
}

static void
lists_read_since_a_run_began_are_as_good_as_new_ones(void **state)
{
	struct world *w = *state;
	uint64_t began;

	answer(w, 200, "[]");
	let_pass(w);
	check_reads(w, false, FOUR_LISTS);
	began = bb_views_next(w->views);
	bb_view_unref(get_since(w, began));
	http_script_check_asked(&w->script, FOUR_LISTS);
	bb_view_unref(get_since(w, began));
	http_script_check_asked(&w->script, "");
}

static void
lists_in_use_stay_as_they_are(void **state)
{
	CLEANUP(bb_view_unrefp) struct bb_view *first = NULL;
	CLEANUP(bb_view_unrefp) struct bb_view *second = NULL;
	struct world *w = *state;

	answer(w, 200, "[{\"id\":\"lba-11111\"}]");
	answer(w, 200, "[{\"id\":\"lba-22222\"}]");
	let_pass(w);
	first = get(w, true);
	second = get(w, true);
	bb_views_free(TAKE(w->views));
	assert_true(str_eq_c(first->lbs[0].id, "lba-11111"));
	assert_true(str_eq_c(second->lbs[0].id, "lba-22222"));
}

/* Nothing is concluded from three lists. */
static void
each_list_is_needed(void **state)
{
	static const char *const targets[LISTS] = { "/load_balancers", "/cloud_ips",
		                                    "/server_groups", "/firewall_policies" };
	struct world *w = *state;

	http_hold_release(&w->hold, ALL);
	for (size_t i = 0; i < LISTS; i++) {
		CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
		struct call call = { .clock = fake_clock_clock(w->clock),
			             .deadline_mono_ns = CLOCK_FOREVER,
			             .arena = &arena };
		struct bb_view *view = NULL;
		struct error err;

		w->script.n_answers = 0;
		http_script_answer(&w->script, targets[i], 409, "{\"error_name\":\"no\"}");
		answer(w, 200, "[]");
		answer_others(w);
		assert_false(get_view(w, &call, 0, &view, &err));
		assert_int_equal(err.code, ERR_CONFLICT);
		assert_null(view);
	}
}

/* ---- several callers ---- */

struct caller {
	struct world *w;
	struct cancel *cancel;
	int64_t deadline_ns; /* mono; 0: none */
	bool is_fresh;
	pthread_t thread;
	bool is_good;
	struct error err;
	size_t n_lbs; /* in the view */
};

static void *
caller_run(void *arg)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	CLEANUP(bb_view_unrefp) struct bb_view *view = NULL;
	struct caller *c = arg;
	struct call call = { .clock = fake_clock_clock(c->w->clock),
		             .cancel = c->cancel,
		             .deadline_mono_ns = c->deadline_ns ? c->deadline_ns : CLOCK_FOREVER,
		             .arena = &arena };

	c->is_good = get_view(c->w, &call, c->is_fresh ? bb_views_next(c->w->views) : 0, &view,
	                      &c->err);
	if (c->is_good)
		c->n_lbs = view->n_lbs;
	return NULL;
}

/* Returns when all callers wait: one for its request, the others for that one. */
static void
start(struct world *w, struct caller callers[], unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		callers[i].w = w;
		thread_start(&callers[i].thread, "caller", caller_run, &callers[i]);
		fake_clock_settle(w->clock, i + 1);
	}
}

static void
check_good(const struct caller *c, size_t n_lbs)
{
	if (!c->is_good)
		fail_msg("%s", c->err.msg);
	assert_int_equal(c->n_lbs, n_lbs);
}

static void
check_failed(const struct caller *c, enum err_code code, const char *msg)
{
	assert_false(c->is_good);
	assert_int_equal(c->err.code, code);
	assert_string_equal(c->err.msg, msg);
}

static void
join_good(struct caller callers[], unsigned n, size_t n_lbs)
{
	for (unsigned i = 0; i < n; i++) {
		thread_join(callers[i].thread);
		check_good(&callers[i], n_lbs);
	}
}

static void
many_services_share_one_reading(void **state)
{
	struct caller callers[CALLERS] = { 0 };
	struct world *w = *state;

	answer(w, 200, "[{\"id\":\"lba-11111\"}]");
	start(w, callers, CALLERS);
	let_pass(w);
	join_good(callers, CALLERS, 1);
	http_script_check_asked(&w->script, FOUR_LISTS);
}

static void
callers_that_demand_lists_of_now_share_the_next_reading(void **state)
{
	struct caller callers[CALLERS] = { 0 };
	struct world *w = *state;

	answer(w, 200, "[]");
	answer(w, 200, "[{\"id\":\"lba-11111\"}]");
	for (int i = 1; i < CALLERS; i++)
		callers[i].is_fresh = true;
	start(w, callers, CALLERS);
	let_pass(w);
	join_good(callers, 1, 0);
	join_good(callers + 1, CALLERS - 1, 1);
	http_script_check_asked(&w->script, FOUR_LISTS FOUR_LISTS);
}

/* The change was made while the lists were read: they may lack it. */
static void
a_reading_during_a_change_answers_nobody(void **state)
{
	struct caller callers[3] = { 0 };
	struct world *w = *state;

	answer(w, 200, "[]");
	answer(w, 200, "[{\"id\":\"lba-11111\"}]");
	start(w, callers, 2);
	bb_views_outdate(w->views);
	callers[2].w = w;
	thread_start(&callers[2].thread, "caller", caller_run, &callers[2]);
	fake_clock_settle(w->clock, 3);
	let_pass(w);
	join_good(callers, 3, 1);
	http_script_check_asked(&w->script, FOUR_LISTS FOUR_LISTS);
}

/* Otherwise no Service would ever see lists that take longer than they may be old. */
static void
a_reading_that_takes_long_is_used(void **state)
{
	struct caller callers[CALLERS] = { 0 };
	struct world *w = *state;

	answer(w, 200, "[{\"id\":\"lba-11111\"}]");
	start(w, callers, CALLERS);
	fake_clock_advance(w->clock, 15 * NS_PER_SEC);
	let_pass(w);
	join_good(callers, CALLERS, 1);
	http_script_check_asked(&w->script, FOUR_LISTS);
}

static void
a_failure_is_shared_and_the_next_caller_reads_again(void **state)
{
	struct caller callers[CALLERS] = { 0 };
	struct world *w = *state;

	answer(w, 403, "{\"error\":\"a\",\"error_description\":\"b\"}");
	answer(w, 200, "[]");
	start(w, callers, CALLERS);
	let_pass(w);
	for (int i = 0; i < CALLERS; i++) {
		thread_join(callers[i].thread);
		check_failed(&callers[i], ERR_FORBIDDEN, "GET /load_balancers: 403 a, b");
	}
	http_script_check_asked(&w->script, "/load_balancers\n");
	check_reads(w, false, FOUR_LISTS);
}

static void
a_cancelled_reading_is_repeated_for_the_others(void **state)
{
	CLEANUP(cancel_freep) struct cancel *cancel = cancel_new();
	struct caller callers[CALLERS] = { { .cancel = cancel } };
	struct world *w = *state;

	answer(w, 200, "[{\"id\":\"lba-11111\"}]");
	start(w, callers, CALLERS);
	cancel_fire(cancel);
	thread_join(callers[0].thread);
	check_failed(&callers[0], ERR_CANCELLED, "GET /load_balancers: cancelled");
	let_pass(w);
	join_good(callers + 1, CALLERS - 1, 1);
	http_script_check_asked(&w->script, FOUR_LISTS);
}

static void
a_caller_that_gives_up_stops_only_itself(void **state)
{
	CLEANUP(cancel_freep) struct cancel *cancel = cancel_new();
	struct world *w = *state;
	struct caller callers[] = {
		{ .err = { 0 } },
		{ .cancel = cancel },
		{ .deadline_ns = clock_mono(fake_clock_clock(w->clock)) + NS_PER_SEC },
	};

	answer(w, 200, "[{\"id\":\"lba-11111\"}]");
	start(w, callers, 3);
	cancel_fire(cancel);
	thread_join(callers[1].thread);
	check_failed(&callers[1], ERR_CANCELLED,
	             "cancelled while waiting for the lists of the account");
	fake_clock_advance(w->clock, NS_PER_SEC);
	thread_join(callers[2].thread);
	check_failed(&callers[2], ERR_TIMEOUT, "timed out waiting for the lists of the account");
	let_pass(w);
	join_good(callers, 1, 1);
	http_script_check_asked(&w->script, FOUR_LISTS);
}

/* ---- finding ---- */

static void
a_balancer_is_found_by_its_trimmed_name_while_it_is_alive(void **state)
{
	CLEANUP(bb_view_unrefp) struct bb_view *view = NULL;
	const struct str name = STR("web.default.k");
	struct world *w = *state;
	const struct bb_lb *lb;

	answer(w, 200,
	       "[{\"id\":\"lba-1\",\"status\":\"failed\",\"name\":\"web.default.k\"},"
	       "{\"id\":\"lba-2\",\"status\":\"active\",\"name\":\"web.default.k2\"},"
	       "{\"id\":\"lba-3\",\"status\":\"active\","
	       "\"name\":\" web.default.k #type:container \"},"
	       "{\"id\":\"lba-4\",\"status\":\"deleting\",\"name\":\"web.default.k\"},"
	       "{\"id\":\"lba-5\",\"status\":\"creating\",\"name\":\"web.default.k\"},"
	       "{\"id\":\"lba-6\",\"status\":\"deleted\",\"name\":\"web.default.k\"},"
	       "{\"id\":\"lba-7\",\"status\":\"failing\",\"name\":\"web.default.k\"}]");
	let_pass(w);
	view = get(w, false);
	lb = bb_view_next(view, name, bb_lb_is_alive, NULL);
	assert_true(lb && str_eq_c(lb->id, "lba-3"));
	lb = bb_view_next(view, name, bb_lb_is_alive, lb);
	assert_true(lb && str_eq_c(lb->id, "lba-5"));
	assert_null(bb_view_next(view, name, bb_lb_is_alive, lb));
	lb = bb_view_next(view, name, bb_lb_has_failed, NULL);
	assert_true(lb && str_eq_c(lb->id, "lba-1"));
	lb = bb_view_next(view, name, bb_lb_has_failed, lb);
	assert_true(lb && str_eq_c(lb->id, "lba-7"));
}

static void
groups_and_policies_are_found_by_their_exact_names(void **state)
{
	CLEANUP(bb_view_unrefp) struct bb_view *view = NULL;
	struct world *w = *state;

	answer(w, 200, "[]");
	http_script_answer(&w->script, "/cloud_ips", 200, "[]");
	http_script_answer(&w->script, "/server_groups", 200,
	                   "[{\"id\":\"grp-1\",\"name\":\"web \"},{\"id\":\"grp-2\","
	                   "\"name\":\"web\"},{\"id\":\"grp-3\",\"name\":\"web\"}]");
	http_script_answer(&w->script, "/firewall_policies", 200,
	                   "[{\"id\":\"fwp-1\",\"name\":null},{\"id\":\"fwp-2\","
	                   "\"name\":\"web\"}]");
	http_hold_release(&w->hold, ALL);
	view = get(w, false);
	assert_true(str_eq_c(bb_view_group(view, STR("web"))->id, "grp-2"));
	assert_null(bb_view_group(view, STR("Web")));
	assert_true(str_eq_c(bb_view_policy(view, STR("web"))->id, "fwp-2"));
	assert_null(bb_view_policy(view, STR("web#type:container")));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(services_share_the_lists_for_ten_seconds),
		TEST(those_that_wait_share_views_that_they_have_not_seen),
		TEST(lists_are_read_again_after_a_change),
		TEST(a_caller_can_demand_lists_of_now),
		TEST(lists_read_since_a_run_began_are_as_good_as_new_ones),
		TEST(lists_in_use_stay_as_they_are),
		TEST(each_list_is_needed),
		TEST(many_services_share_one_reading),
		TEST(callers_that_demand_lists_of_now_share_the_next_reading),
		TEST(a_reading_during_a_change_answers_nobody),
		TEST(a_reading_that_takes_long_is_used),
		TEST(a_failure_is_shared_and_the_next_caller_reads_again),
		TEST(a_cancelled_reading_is_repeated_for_the_others),
		TEST(a_caller_that_gives_up_stops_only_itself),
		TEST(a_balancer_is_found_by_its_trimmed_name_while_it_is_alive),
		TEST(groups_and_policies_are_found_by_their_exact_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
