#include "providers/hcloud/actions.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "base/thread.h"
#include "providers/hcloud/lab.h"
#include "fake_clock.h"

/* ---- reading ---- */

static bool
read_text(const char *text, struct hz_action *ret, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;

	assert_true(json_parse(str_c(text), &doc, err));
	return hz_action_read(yyjson_doc_get_root(doc), ret, err);
}

static void
check_read(const char *text, int64_t id, bool is_over)
{
	struct hz_action action;
	struct error err;

	assert_true(read_text(text, &action, &err));
	assert_int_equal(action.id, id);
	assert_int_equal(action.is_over, is_over);
}

static void
check_unread(const char *text, enum err_code code, const char *message)
{
	struct hz_action action;
	struct error err;

	assert_false(read_text(text, &action, &err));
	assert_int_equal(err.code, code);
	assert_string_equal(err.msg, message);
}

static void
reads_what_an_answer_started(void **state)
{
	(void)state;
	check_read("{\"action\":{\"id\":7,\"status\":\"running\",\"progress\":100}}", 7, false);
	check_read("{\"action\":{\"id\":7,\"status\":\"success\"}}", 7, true);
	check_read("{\"action\":{\"id\":7}}", 7, false);
	check_read("{\"action\":null}", 0, true);
	check_read("{}", 0, true);
	check_unread("{\"action\":{\"status\":\"success\"}}", ERR_UNAVAILABLE,
	             "the Hetzner Cloud API returned an action without id");
	check_unread("{\"action\":7}", ERR_UNAVAILABLE,
	             "the Hetzner Cloud API returned an action without id");
}

/* docs/spec/hcloud.md, "Error texts" */
static void
a_failure_is_in_the_apis_words(void **state)
{
	(void)state;
	check_unread("{\"action\":{\"id\":7,\"status\":\"error\",\"error\":{\"code\":\"conflict\","
	             "\"message\":\"busy\"}}}",
	             ERR_CONFLICT, "busy (conflict, 7)");
	check_unread("{\"action\":{\"id\":7,\"status\":\"error\",\"error\":{\"code\":"
	             "\"action_failed\",\"message\":\"Action failed\"}}}",
	             ERR_UNAVAILABLE, "Action failed (action_failed, 7)");
	check_unread("{\"action\":{\"id\":7,\"status\":\"error\",\"error\":null}}", ERR_INVALID,
	             "Unknown error (<unknown>, 7)");
}

/* ---- one who waits: the lab's clock is in a hurry ---- */

#define TARGET_OF(ids) "/actions?" ids "page=1&sort=status&sort=id"
#define TARGET TARGET_OF("id=7&")
#define LIST_OF(status) "{\"actions\":[{\"id\":7,\"status\":\"" status "\",\"error\":null}]}"
#define RUNNING LIST_OF("running")
#define SUCCESS LIST_OF("success")

static bool
wait_in(struct lab *lab, int64_t deadline_ms, struct hz_action action, struct error *err)
{
	CLEANUP(hz_actions_freep)
	struct hz_actions *actions = hz_actions_new(lab->api, &lab->fake.clock);
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct call call = lab_call(lab, &arena);

	if (deadline_ms > 0)
		call.deadline_mono_ns = lab->fake.now_ns + deadline_ms * NS_PER_MS;
	return hz_actions_wait(actions, &call, action, CLOCK_FOREVER, err);
}

static bool
wait_for_7(struct lab *lab, int64_t deadline_ms, struct error *err)
{
	return wait_in(lab, deadline_ms, (struct hz_action){ .id = 7 }, err);
}

static void
what_is_over_costs_nothing(void **state)
{
	struct lab *lab = *state;
	struct error err;

	assert_true(wait_in(lab, 0, (struct hz_action){ .id = 7, .is_over = true }, &err));
	assert_true(wait_in(lab, 0, (struct hz_action){ .id = 0 }, &err));
	assert_int_equal(lab->script.n_asked, 0);
}

static void
asks_less_and_less_often(void **state)
{
	static const int64_t ages_ms[] = { 100, 200, 400, 800, 1600, 3200, 6400, 11400, 16400 };
	struct lab *lab = *state;
	int64_t begun_ns = lab->fake.now_ns;
	struct error err;

	for (size_t i = 1; i < ARRAY_LEN(ages_ms); i++)
		lab_answer(lab, TARGET, 200, RUNNING);
	lab_answer(lab, TARGET, 200, SUCCESS);
	assert_true(wait_for_7(lab, 0, &err));
	assert_int_equal(lab->script.n_asked, ARRAY_LEN(ages_ms));
	assert_int_equal((lab->fake.now_ns - begun_ns) / NS_PER_MS,
	                 ages_ms[ARRAY_LEN(ages_ms) - 1]);
}

static void
comes_back_when_there_is_no_time(void **state)
{
	struct lab *lab = *state;
	int64_t begun_ns = lab->fake.now_ns;
	struct error err;

	lab_answer(lab, TARGET, 200, RUNNING);
	assert_false(wait_for_7(lab, 3000, &err));
	assert_int_equal(err.code, ERR_PENDING);
	assert_string_equal(err.msg, "action 7 is still under way");
	assert_int_equal(lab->script.n_asked, 5);
	assert_int_equal((lab->fake.now_ns - begun_ns) / NS_PER_MS, 1600);
	assert_in_range(err.retry_after_ms, 1600, 1601);
	assert_false(wait_for_7(lab, 50, &err));
	assert_int_equal(err.code, ERR_PENDING);
	assert_int_equal(lab->script.n_asked, 5);
}

static void
no_caller_is_held_for_ever(void **state)
{
	struct lab *lab = *state;
	int64_t begun_ns = lab->fake.now_ns;
	struct error err;

	lab_answer(lab, TARGET, 200, RUNNING);
	assert_false(wait_for_7(lab, 0, &err));
	assert_int_equal(err.code, ERR_PENDING);
	assert_in_range(lab->fake.now_ns - begun_ns, 290 * NS_PER_SEC, 300 * NS_PER_SEC);
	assert_int_equal(lab->script.n_asked, 65);
}

static void
check_failure(struct lab *lab, int status, const char *body, enum err_code code,
              const char *message)
{
	struct error err;

	lab->script.n_answers = 0;
	lab_answer(lab, TARGET, status, body);
	assert_false(wait_for_7(lab, 0, &err));
	assert_int_equal(err.code, code);
	assert_string_equal(err.msg, message);
}

static void
says_why_it_failed(void **state)
{
	struct lab *lab = *state;

	check_failure(
		lab, 200,
		"{\"actions\":[7,{\"id\":6},{\"id\":7,\"status\":\"error\",\"error\":{\"code\":"
		"\"ip_not_available\",\"message\":\"taken\"}}]}",
		ERR_INVALID, "taken (ip_not_available, 7)");
	check_failure(lab, 200, "{\"actions\":[]}", ERR_UNAVAILABLE, "actions not found: [7]");
	check_failure(lab, 401, LAB_ERROR("unauthorized"), ERR_UNAUTHORIZED,
	              "no (unauthorized) [GET " TARGET ", status 401]");
	check_failure(lab, 429, LAB_ERROR("rate_limit_exceeded"), ERR_THROTTLED,
	              "no (rate_limit_exceeded) [GET " TARGET ", status 429]");
	assert_int_equal(lab->script.n_asked, 4);
}

static void
a_bad_moment_of_the_cloud_passes(void **state)
{
	struct lab *lab = *state;
	struct error err;

	lab_answer(lab, TARGET, 503, LAB_ERROR("unavailable"));
	lab_answer(lab, TARGET, 200, "{}");
	lab_add(lab, (struct http_script_answer){ .target = TARGET, .code = ERR_UNAVAILABLE });
	lab_answer(lab, TARGET, 200, RUNNING);
	lab_answer(lab, TARGET, 200, SUCCESS);
	assert_true(wait_for_7(lab, 0, &err));
	assert_int_equal(lab->script.n_asked, 5);
	lab->script.n_answers = 0;
	lab_answer(lab, TARGET, 503, LAB_ERROR("unavailable"));
	assert_false(wait_for_7(lab, 150, &err));
	assert_int_equal(err.code, ERR_PENDING);
	assert_string_equal(err.msg, "action 7 is still under way: no (unavailable) [GET " TARGET
	                             ", status 503]");
}

/* The end of the outage is waited for then, not the next time to ask. */
static void
an_outage_is_not_taken_for_a_long_action(void **state)
{
	struct lab *lab = *state;
	int64_t begun_ns = lab->fake.now_ns;
	struct error err;

	lab_answer(lab, TARGET, 503, LAB_ERROR("unavailable"));
	assert_false(wait_for_7(lab, 3000, &err));
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	assert_true(err.is_outage);
	assert_true(str_starts(str_c(err.msg),
	                       STR("action 7 is still under way: the Hetzner Cloud API has been "
	                           "unavailable since ")));
	assert_true(lab->fake.now_ns - begun_ns < 3 * NS_PER_SEC);
	assert_int_equal(lab->script.n_asked, 3); /* two, and a probe after a second */
	lab->script.n_answers = 0;
	lab_answer(lab, TARGET, 200, SUCCESS);
	assert_true(wait_for_7(lab, 10000, &err));
}

/* A client that shuts down fails all requests this way, of every caller. */
static void
a_cancelled_request_ends_the_wait(void **state)
{
	struct lab *lab = *state;
	struct error err;

	lab_add(lab, (struct http_script_answer){ .target = TARGET, .code = ERR_CANCELLED });
	assert_false(wait_for_7(lab, 0, &err));
	assert_int_equal(err.code, ERR_CANCELLED);
	assert_int_equal(lab->script.n_asked, 1);
}

static void
the_reserve_is_not_for_waiting(void **state)
{
	struct lab *lab = *state;
	struct error err;

	lab_add(lab, (struct http_script_answer){ .target = TARGET,
	                                          .status = 200,
	                                          .body = RUNNING,
	                                          .limit = 3600,
	                                          .remaining = 10,
	                                          .reset_s = 1800003590 });
	assert_false(wait_for_7(lab, 0, &err));
	assert_int_equal(err.code, ERR_THROTTLED);
	assert_int_equal(lab->script.n_asked, 1);
}

/* ---- many who wait: threads, and a cloud that takes its time ---- */

enum {
	WAITERS_MAX = 60,
	FIRST_ID = 1000,
};

/* Knows the actions from FIRST_ID on. A request takes as long as it is held. */
struct slow_cloud {
	struct http_client http;
	pthread_mutex_t mu;
	pthread_cond_t changed;
	bool is_held;                 /* mu */
	bool is_running[WAITERS_MAX]; /* mu */
	unsigned n_asked, n_ids;      /* mu */
	struct cancel *asking;        /* mu; of who asked last */
};

struct waiting {
	pthread_t thread;
	struct hz_actions *actions;
	struct call call;
	struct hz_action action;
	bool is_joined;
	bool ok; /* what follows is for after the join */
	struct error err;
};

struct crowd {
	struct lab *lab;
	struct slow_cloud cloud;
	struct clock *clock;
	struct fake_clock *fake; /* NULL: the clock is the real one */
	struct cloud_host host;
	struct hz_api *api;
	struct hz_actions *actions;
	struct cancel *cancel;
	struct waiting waiters[WAITERS_MAX];
	size_t n;
};

static void
answer_ids(struct slow_cloud *c, struct str target, struct buf *ret)
{
	struct str rest = target, part;
	int64_t id;

	buf_add_c(ret, "{\"actions\":[");
	c->n_asked++;
	while (str_split(&rest, '=', &part)) {
		ptrdiff_t end = str_index(part, '&');

		if (end < 0 || !str_to_i64(str_head(part, (size_t)end), FIRST_ID, INT64_MAX, &id))
			continue;
		c->n_ids++;
		buf_addf(ret, "{\"id\":%" PRId64 ",\"status\":\"%s\"},", id,
		         c->is_running[id - FIRST_ID] ? "running" : "success");
	}
	buf_add_c(ret, "{}]}");
}

static void
wake_cloud(void *cloud)
{
	struct slow_cloud *c = cloud;
	WITH_LOCK(&c->mu);

	cond_broadcast(&c->changed);
}

static bool
hold(struct slow_cloud *c, struct call *call)
{
	while (c->is_held && !cancel_is_fired(call->cancel))
		clock_wait(call->clock, &c->changed, &c->mu, call->deadline_mono_ns);
	return !cancel_is_fired(call->cancel);
}

static bool
serve(struct slow_cloud *c, struct call *call, struct str target, struct buf *ret)
{
	WITH_LOCK(&c->mu);

	c->asking = call->cancel;
	answer_ids(c, target, ret); /* as it was when it was asked */
	return hold(c, call);
}

static bool
take_its_time(struct http_client *http, struct call *call, const struct http_request *request,
              struct http_response *response, struct error *err)
{
	struct slow_cloud *c = CONTAINER_OF(http, struct slow_cloud, http);
	bool ok;

	*response = (struct http_response){ .status = 200,
		                            .ratelimit_limit = -1,
		                            .ratelimit_remaining = -1,
		                            .ratelimit_reset = -1 };
	response->body = BUF_INIT(LIMIT_HTTP_BODY);
	cancel_hook(call->cancel, wake_cloud, c);
	ok = serve(c, call, request->target, &response->body);
	cancel_unhook(call->cancel, wake_cloud, c);
	return ok || err_set(err, ERR_CANCELLED, "cancelled");
}

static int
crowd_setup(struct crowd *w, struct fake_clock *fake, void **state)
{
	static const struct http_ops ops = { .do_request = take_its_time };

	memset(w, 0, sizeof(*w));
	lab_setup_open((void **)&w->lab);
	w->cloud.http.ops = &ops;
	mutex_init(&w->cloud.mu);
	cond_init(&w->cloud.changed);
	w->fake = fake;
	w->clock = fake ? fake_clock_clock(fake) : &clock_real;
	w->host = (struct cloud_host){ .clock = w->clock };
	w->api = hz_api_new(&(struct hz_api_config){
		.http = &w->cloud.http, .base_url = STR("https://lab/v1"), .host = &w->host });
	w->actions = hz_actions_new(w->api, w->clock);
	w->cancel = cancel_new();
	*state = w;
	return 0;
}

static int
fake_setup(void **state)
{
	static struct crowd w;

	return crowd_setup(&w, fake_clock_new(0), state);
}

static int
real_setup(void **state)
{
	static struct crowd w;

	return crowd_setup(&w, NULL, state);
}

static int
crowd_teardown(void **state)
{
	struct crowd *w = *state;

	hz_actions_free(w->actions);
	hz_api_free(w->api);
	cancel_free(w->cancel);
	fake_clock_free(w->fake);
	cond_destroy(&w->cloud.changed);
	mutex_destroy(&w->cloud.mu);
	return lab_teardown((void **)&w->lab);
}

static void *
wait_on_a_thread(void *arg)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct waiting *one = arg;

	one->call.arena = &arena;
	one->ok = hz_actions_wait(one->actions, &one->call, one->action, CLOCK_FOREVER, &one->err);
	return NULL;
}

/* One who waits for the next action, which runs on. */
static struct waiting *
start(struct crowd *w, struct cancel *cancel, int64_t deadline_ns)
{
	struct waiting *one = &w->waiters[w->n];

	mutex_lock(&w->cloud.mu);
	w->cloud.is_running[w->n] = true;
	mutex_unlock(&w->cloud.mu);
	*one = (struct waiting){
		.actions = w->actions,
		.call = { .clock = w->clock, .cancel = cancel, .deadline_mono_ns = deadline_ns },
		.action = { .id = FIRST_ID + (int64_t)w->n++ },
	};
	thread_start(&one->thread, "waiter", wait_on_a_thread, one);
	return one;
}

static void
start_many(struct crowd *w, size_t n)
{
	for (size_t i = 0; i < n; i++)
		start(w, w->cancel, CLOCK_FOREVER);
}

static void
finish(struct crowd *w, size_t n)
{
	WITH_LOCK(&w->cloud.mu);

	for (size_t i = 0; i < n; i++)
		w->cloud.is_running[i] = false;
}

static void
set_held(struct crowd *w, bool is_held)
{
	mutex_lock(&w->cloud.mu);
	w->cloud.is_held = is_held;
	mutex_unlock(&w->cloud.mu);
	wake_cloud(&w->cloud);
}

static struct cancel *
asking(struct crowd *w)
{
	WITH_LOCK(&w->cloud.mu);
	return w->cloud.asking;
}

static void
check_asked(struct crowd *w, unsigned n, unsigned n_ids)
{
	WITH_LOCK(&w->cloud.mu);

	assert_int_equal(w->cloud.n_asked, n);
	assert_int_equal(w->cloud.n_ids, n_ids);
}

static void
join(struct waiting *one)
{
	if (!one->is_joined)
		thread_join(one->thread);
	one->is_joined = true;
}

static void
join_first(struct crowd *w, size_t n)
{
	for (size_t i = 0; i < n; i++)
		join(&w->waiters[i]);
}

static void
join_all(struct crowd *w)
{
	join_first(w, w->n);
}

static size_t
count_ok(const struct crowd *w)
{
	size_t n = 0;

	for (size_t i = 0; i < w->n; i++)
		n += w->waiters[i].ok;
	return n;
}

static void
check_all_ok(const struct crowd *w)
{
	assert_int_equal(count_ok(w), w->n);
}

static void
one_asks_for_all(void **state)
{
	struct crowd *w = *state;

	start_many(w, 10);
	fake_clock_settle(w->fake, 10);
	fake_clock_advance(w->fake, 100 * NS_PER_MS);
	fake_clock_settle(w->fake, 10);
	check_asked(w, 1, 10);
	finish(w, 4);
	fake_clock_advance(w->fake, 100 * NS_PER_MS);
	join_first(w, 4);
	fake_clock_settle(w->fake, 6);
	check_asked(w, 2, 20);
	finish(w, 10);
	fake_clock_advance(w->fake, 200 * NS_PER_MS);
	join_all(w);
	check_all_ok(w);
	check_asked(w, 3, 26);
}

/* Who came later is asked for with the others, and then waits as long as its own age says. */
static void
the_young_go_along(void **state)
{
	struct crowd *w = *state;

	start_many(w, 1);
	fake_clock_settle(w->fake, 1);
	fake_clock_advance(w->fake, 50 * NS_PER_MS);
	start_many(w, 1);
	fake_clock_settle(w->fake, 2);
	fake_clock_advance(w->fake, 50 * NS_PER_MS);
	fake_clock_settle(w->fake, 2);
	check_asked(w, 1, 2);
	fake_clock_advance(w->fake, 50 * NS_PER_MS);
	fake_clock_settle(w->fake, 2);
	check_asked(w, 1, 2);
	finish(w, 2);
	fake_clock_advance(w->fake, 50 * NS_PER_MS);
	join_all(w);
	check_all_ok(w);
	check_asked(w, 2, 4);
}

static void
a_request_asks_for_25_at_most(void **state)
{
	struct crowd *w = *state;

	start_many(w, WAITERS_MAX);
	fake_clock_settle(w->fake, WAITERS_MAX);
	fake_clock_advance(w->fake, 100 * NS_PER_MS);
	fake_clock_settle(w->fake, WAITERS_MAX);
	check_asked(w, 3, 75);
	finish(w, WAITERS_MAX);
	fake_clock_advance(w->fake, 100 * NS_PER_MS);
	join_all(w);
	check_all_ok(w);
	check_asked(w, 6, 135);
}

/* It was not in the request, so it cannot be missing from the answer. */
static void
a_service_that_comes_meanwhile_is_not_missing(void **state)
{
	struct crowd *w = *state;

	set_held(w, true);
	start_many(w, 1);
	fake_clock_settle(w->fake, 1);
	fake_clock_advance(w->fake, 100 * NS_PER_MS);
	fake_clock_settle(w->fake, 1);
	start_many(w, 1);
	fake_clock_settle(w->fake, 2);
	set_held(w, false);
	fake_clock_settle(w->fake, 2);
	check_asked(w, 1, 1);
	finish(w, 2);
	fake_clock_advance(w->fake, 100 * NS_PER_MS);
	join_all(w);
	check_all_ok(w);
}

static size_t
count_failed(const struct crowd *w, enum err_code code)
{
	size_t n = 0;

	for (size_t i = 0; i < w->n; i++)
		n += !w->waiters[i].ok && w->waiters[i].err.code == code;
	return n;
}

/* The caller that asks is cancelled, and its request with it: the next caller asks immediately. */
static void
another_takes_over(void **state)
{
	struct crowd *w = *state;
	struct cancel *cancels[4], *cancelled;

	set_held(w, true);
	for (size_t i = 0; i < ARRAY_LEN(cancels); i++)
		start(w, cancels[i] = cancel_new(), CLOCK_FOREVER);
	fake_clock_settle(w->fake, 4);
	fake_clock_advance(w->fake, 100 * NS_PER_MS);
	fake_clock_settle(w->fake, 4);
	check_asked(w, 1, 4);
	finish(w, 4);
	cancelled = asking(w);
	cancel_fire(cancelled);
	for (size_t i = 0; i < ARRAY_LEN(cancels); i++) {
		if (cancels[i] == cancelled)
			join(&w->waiters[i]);
	}
	fake_clock_settle(w->fake, 3);
	check_asked(w, 2, 7);
	set_held(w, false);
	join_all(w);
	assert_int_equal(count_ok(w), 3);
	assert_int_equal(count_failed(w, ERR_CANCELLED), 1);
	for (size_t i = 0; i < ARRAY_LEN(cancels); i++)
		cancel_free(cancels[i]);
}

static void
a_deadline_ends_the_wait_for_a_slow_answer(void **state)
{
	struct crowd *w = *state;
	struct waiting *hasty;

	set_held(w, true);
	start_many(w, 1);
	fake_clock_settle(w->fake, 1);
	fake_clock_advance(w->fake, 100 * NS_PER_MS);
	fake_clock_settle(w->fake, 1);
	hasty = start(w, NULL, clock_mono(w->clock) + NS_PER_SEC);
	fake_clock_settle(w->fake, 2);
	fake_clock_advance(w->fake, NS_PER_SEC);
	join(hasty);
	assert_false(hasty->ok);
	assert_int_equal(hasty->err.code, ERR_PENDING);
	assert_int_equal(hasty->err.retry_after_ms, 1000);
	finish(w, 1);
	set_held(w, false);
	fake_clock_settle(w->fake, 1);
	fake_clock_advance(w->fake, 10 * NS_PER_SEC);
	join(&w->waiters[0]);
	assert_true(w->waiters[0].ok);
}

static void
cancelling_ends_all_waits(void **state)
{
	struct crowd *w = *state;

	start_many(w, 5);
	fake_clock_settle(w->fake, 5);
	cancel_fire(w->cancel);
	join_all(w);
	assert_int_equal(count_failed(w, ERR_CANCELLED), 5);
	check_asked(w, 0, 0);
}

/* In real time: all are in each other's way. */
static void
threads_wait_together(void **state)
{
	struct crowd *w = *state;

	start_many(w, WAITERS_MAX);
	for (size_t n = 0; n <= WAITERS_MAX; n += 10) {
		struct error err;

		finish(w, n);
		assert_true(cancel_sleep(NULL, w->clock, 5 * NS_PER_MS, &err));
	}
	join_all(w);
	check_all_ok(w);
}

#define IN_LAB(test) cmocka_unit_test_setup_teardown(test, lab_setup_open, lab_teardown)
#define IN_CROWD(test) cmocka_unit_test_setup_teardown(test, fake_setup, crowd_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_what_an_answer_started),
		cmocka_unit_test(a_failure_is_in_the_apis_words),
		IN_LAB(what_is_over_costs_nothing),
		IN_LAB(asks_less_and_less_often),
		IN_LAB(comes_back_when_there_is_no_time),
		IN_LAB(no_caller_is_held_for_ever),
		IN_LAB(says_why_it_failed),
		IN_LAB(a_bad_moment_of_the_cloud_passes),
		IN_LAB(an_outage_is_not_taken_for_a_long_action),
		IN_LAB(a_cancelled_request_ends_the_wait),
		IN_LAB(the_reserve_is_not_for_waiting),
		IN_CROWD(one_asks_for_all),
		IN_CROWD(the_young_go_along),
		IN_CROWD(a_request_asks_for_25_at_most),
		IN_CROWD(a_service_that_comes_meanwhile_is_not_missing),
		IN_CROWD(another_takes_over),
		IN_CROWD(a_deadline_ends_the_wait_for_a_slow_answer),
		IN_CROWD(cancelling_ends_all_waits),
		cmocka_unit_test_setup_teardown(threads_wait_together, real_setup, crowd_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
