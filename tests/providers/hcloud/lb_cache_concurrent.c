/* Many callers of the cache at the same time: threads, and a cloud that is slow. */
#include "providers/hcloud/lb_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "base/thread.h"
#include "providers/hcloud/lab.h"
#include "fake_clock.h"

enum {
	ASKERS = 8,
};

/* Has a balancer for each asker, "u0" to "u7" with the ids 1 to 8. The first request takes as long
 * as it is held. */
struct slow_cloud {
	struct http_client http;
	pthread_mutex_t mu;
	pthread_cond_t changed;
	bool is_held;                         /* mu */
	unsigned n_asked, n_of_all, n_in_air; /* mu */
	bool was_crowded;                     /* mu: two requests at the same time */
};

struct caller {
	pthread_t thread;
	struct hz_lb_cache *cache;
	struct cancel *cancel;
	struct clock *clock;
	char uid[8];
	enum hz_age age;
	int64_t id;       /* what follows is for after the join; 0: nothing was found */
	struct error err; /* id 0 */
};

static struct slow_cloud cloud;
static struct fake_clock *fake;
static struct cloud_host host;
static struct hz_api *api;
static struct hz_lb_cache *cache;
static struct cancel *cancel, *other_cancel;
static struct caller askers[ASKERS];

/* ---- the cloud ---- */

static void
add_lb(struct buf *b, unsigned i)
{
	buf_addf(b, "{\"id\":%u,\"name\":\"lb\",\"labels\":{\"hcloud-ccm/service-uid\":\"u%u\"}}",
	         i + 1, i);
}

/* The number of the one that is asked for; ASKERS: all are. */
static unsigned
wanted(struct str target)
{
	static const char of_one[] = "service-uid%3Du";
	const char *at = memmem(target.ptr, target.len, of_one, strlen(of_one));

	return at ? (unsigned)(at[strlen(of_one)] - '0') : ASKERS;
}

static bool
is_of_all(struct str target)
{
	return str_contains(target, STR("service-uid&"));
}

static void
answer(struct str target, struct buf *ret)
{
	unsigned one = wanted(target), first = one < ASKERS ? one : 0;
	unsigned n = one < ASKERS ? 1 : ASKERS;
	static const char by_id[] = "/load_balancers/";
	const char *at = memmem(target.ptr, target.len, by_id, strlen(by_id));

	if (at) {
		buf_add_c(ret, "{\"load_balancer\":");
		add_lb(ret, (unsigned)(at[strlen(by_id)] - '1'));
		buf_add_c(ret, "}");
		return;
	}
	buf_add_c(ret, "{\"load_balancers\":[");
	for (unsigned i = first; i < first + n; i++) {
		buf_add_c(ret, i > first ? "," : "");
		add_lb(ret, i);
	}
	buf_addf(ret, "],\"meta\":{\"pagination\":{\"next_page\":null,\"total_entries\":%u}}}", n);
}

static void
wake_cloud(void *arg)
{
	WITH_LOCK(&cloud.mu);

	(void)arg;
	cond_broadcast(&cloud.changed);
}

static bool
take_its_time(struct http_client *http, struct call *call, const struct http_request *request,
              struct http_response *response, struct error *err)
{
	WITH_HOOK(call->cancel, wake_cloud, NULL);
	WITH_LOCK(&cloud.mu);

	(void)http;
	*response = (struct http_response){ .status = 200,
		                            .ratelimit_limit = -1,
		                            .ratelimit_remaining = -1,
		                            .ratelimit_reset = -1 };
	response->body = BUF_INIT(LIMIT_HTTP_BODY);
	answer(request->target, &response->body); /* as it was when it was asked */
	cloud.n_asked++;
	cloud.n_of_all += is_of_all(request->target);
	cloud.was_crowded |= cloud.n_in_air++ > 0;
	while (cloud.is_held && !cancel_is_fired(call->cancel))
		clock_wait(call->clock, &cloud.changed, &cloud.mu, call->deadline_mono_ns);
	cloud.n_in_air--;
	return !cancel_is_fired(call->cancel) || err_set(err, ERR_CANCELLED, "cancelled");
}

static void
let_go(void)
{
	mutex_lock(&cloud.mu);
	cloud.is_held = false;
	mutex_unlock(&cloud.mu);
	wake_cloud(NULL);
}

/* ---- callers ---- */

static void *
ask(void *arg)
{
	struct caller *one = arg;
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	CLEANUP(hz_found_fini) struct hz_found found = HZ_FOUND_INIT;
	struct call call = { .clock = one->clock,
		             .cancel = one->cancel,
		             .deadline_mono_ns = CLOCK_FOREVER,
		             .arena = &arena };

	if (hz_lb_cache_find(one->cache, &call, str_c(one->uid), one->age, &found, &one->err) &&
	    found.n == 1)
		one->id = found.lbs[0]->id;
	return NULL;
}

static void
start(unsigned i, enum hz_age age, struct cancel *by)
{
	struct caller *one = &askers[i];

	*one = (struct caller){
		.cache = cache, .cancel = by, .clock = fake_clock_clock(fake), .age = age
	};
	(void)snprintf(one->uid, sizeof(one->uid), "u%u", i);
	hz_lb_cache_track(cache, &(struct lb_spec){ .namespace = STR("default"),
	                                            .service = str_c(one->uid),
	                                            .uid = str_c(one->uid) });
	thread_start(&one->thread, "asker", ask, one);
}

/* The first one's request is in the air, and all others wait for it to land. */
static void
start_all(enum hz_age age, struct cancel *first, struct cancel *others)
{
	start(0, age, first);
	fake_clock_settle(fake, 1);
	for (unsigned i = 1; i < ASKERS; i++)
		start(i, age, others);
	fake_clock_settle(fake, ASKERS);
}

static void
check_found(unsigned first)
{
	for (unsigned i = first; i < ASKERS; i++) {
		thread_join(askers[i].thread);
		assert_int_equal(askers[i].id, i + 1);
	}
}

static int
setup(void **state)
{
	static const struct http_ops ops = { .do_request = take_its_time };

	lab_setup(state);
	cloud = (struct slow_cloud){ .http = { &ops }, .is_held = true };
	mutex_init(&cloud.mu);
	cond_init(&cloud.changed);
	fake = fake_clock_new(0);
	host = (struct cloud_host){ .clock = fake_clock_clock(fake) };
	api = hz_api_new(&(struct hz_api_config){
		.http = &cloud.http, .base_url = STR("https://lab/v1"), .host = &host });
	cache = hz_lb_cache_new(api, fake_clock_clock(fake));
	cancel = cancel_new();
	other_cancel = cancel_new();
	return 0;
}

static int
teardown(void **state)
{
	hz_lb_cache_free(cache);
	hz_api_free(api);
	cancel_free(cancel);
	cancel_free(other_cancel);
	fake_clock_free(fake);
	cond_destroy(&cloud.changed);
	mutex_destroy(&cloud.mu);
	return lab_teardown(state);
}

/* ---- tests ---- */

static void
a_caller_that_comes_meanwhile_shares_the_next_reading(void **state)
{
	(void)state;
	start_all(HZ_FRESH, cancel, cancel);
	let_go();
	check_found(0);
	assert_int_equal(cloud.n_asked, 2);
	assert_int_equal(cloud.n_of_all, 0);
	assert_false(cloud.was_crowded);
}

static void
ask_again_later(void)
{
	start_all(HZ_FRESH, cancel, cancel);
	let_go();
	check_found(0);
	fake_clock_advance(fake, 11 * NS_PER_SEC);
	cloud.n_asked = cloud.n_of_all = 0;
	cloud.is_held = true;
	start_all(HZ_RECENT, cancel, cancel);
	let_go();
	check_found(0);
	assert_int_equal(cloud.n_asked, 2); /* the first caller's is by the id */
	assert_false(cloud.was_crowded);
}

static void
callers_that_look_again_share_a_list_of_all(void **state)
{
	(void)state;
	ask_again_later();
	assert_int_equal(cloud.n_of_all, 1);
}

static void
a_list_of_all_is_not_read_where_it_has_many_pages(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 250; i++) {
		char uid[16];

		(void)snprintf(uid, sizeof(uid), "other-%u", i);
		hz_lb_cache_track(cache, &(struct lb_spec){ .namespace = STR("default"),
		                                            .service = str_c(uid),
		                                            .uid = str_c(uid) });
	}
	ask_again_later();
	assert_int_equal(cloud.n_of_all, 0);
}

/* Another of the waiting callers reads for all. */
static void
a_cancelled_reader_holds_up_no_other_caller(void **state)
{
	(void)state;
	start_all(HZ_FRESH, other_cancel, cancel);
	cancel_fire(other_cancel);
	thread_join(askers[0].thread);
	assert_int_equal(askers[0].err.code, ERR_CANCELLED);
	let_go();
	check_found(1);
	assert_false(cloud.was_crowded);
}

static void
all_who_wait_can_be_cancelled(void **state)
{
	(void)state;
	start_all(HZ_FRESH, cancel, other_cancel);
	cancel_fire(other_cancel);
	for (unsigned i = 1; i < ASKERS; i++) {
		thread_join(askers[i].thread);
		assert_int_equal(askers[i].id, 0);
		assert_int_equal(askers[i].err.code, ERR_CANCELLED);
	}
	let_go();
	thread_join(askers[0].thread);
	assert_int_equal(askers[0].id, 1);
	assert_int_equal(cloud.n_asked, 1);
}

#define CROWDED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CROWDED(a_caller_that_comes_meanwhile_shares_the_next_reading),
		CROWDED(callers_that_look_again_share_a_list_of_all),
		CROWDED(a_list_of_all_is_not_read_where_it_has_many_pages),
		CROWDED(a_cancelled_reader_holds_up_no_other_caller),
		CROWDED(all_who_wait_can_be_cancelled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
