/* Several threads need an access token together: section "Authentication" of
 * docs/spec/brightbox.md. */
#include "providers/brightbox/token.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/thread.h"
#include "cloud/fake_host.h"
#include "cloud/http_hold.h"
#include "cloud/http_script.h"
#include "fake_clock.h"

enum {
	CALLERS = 8,
};

struct world {
	struct fake_clock *clock;
	struct http_script script;
	struct http_hold hold;
	struct fake_host fake;
	struct bb_config config;
	struct bb_token *token;
	char path[32]; /* the file of the client's secret */
};

struct caller {
	struct world *w;
	struct cancel *cancel;
	int64_t deadline_ns; /* mono */
	pthread_t thread;
	bool is_good;
	struct error err;
	char header[100];
};

static void
write_secret(struct world *w, const char *text)
{
	FILE *file = fopen(w->path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

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
	login_secret_set(&w->config.client, STR("cli-aaaaa"));
	snprintf(w->path, sizeof(w->path), "/tmp/ccmd-bb-XXXXXX");
	close(mkstemp(w->path));
	write_secret(w, "first");
	assert_true(login_secret_read(&w->config.client_secret, w->path, &err));
	assert_true(bb_token_new(&w->fake.host, &w->config, &w->token, &err));
	*state = w;
	return 0;
}

static int
teardown(void **state)
{
	struct world *w = *state;

	unlink(w->path);
	bb_token_free(w->token);
	bb_config_fini(&w->config);
	http_hold_fini(&w->hold);
	http_script_fini(&w->script);
	fake_host_fini(&w->fake);
	fake_clock_free(w->clock);
	free(w);
	return 0;
}

static void *
authorize(void *arg)
{
	struct caller *c = arg;
	struct call call = { .clock = fake_clock_clock(c->w->clock),
		             .cancel = c->cancel,
		             .deadline_mono_ns = c->deadline_ns };
	struct http_auth *auth = bb_token_auth(c->w->token);
	struct buf header = BUF_FIXED(c->header);
	uint64_t generation;

	c->is_good = auth->authorize(auth, &call, &header, &generation, &c->err);
	return NULL;
}

/* Returns when all callers wait: one for its request, the others for that one. */
static void
start(struct world *w, struct caller callers[], unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		callers[i].w = w;
		if (callers[i].deadline_ns == 0)
			callers[i].deadline_ns = CLOCK_FOREVER;
		thread_start(&callers[i].thread, "caller", authorize, &callers[i]);
		fake_clock_settle(w->clock, i + 1);
	}
}

static void
join(struct caller callers[], unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		thread_join(callers[i].thread);
}

static void
check_header(const struct caller *c, const char *header)
{
	if (!c->is_good)
		fail_msg("%s", c->err.msg);
	assert_string_equal(c->header, header);
}

static void
check_failed(const struct caller *c, enum err_code code, const char *msg)
{
	assert_false(c->is_good);
	assert_int_equal(c->err.code, code);
	assert_string_equal(c->err.msg, msg);
}

static void
all_callers_share_one_request(void **state)
{
	struct caller callers[CALLERS] = { 0 };
	struct world *w = *state;

	http_script_answer(&w->script, "POST /token/", 200,
	                   "{\"access_token\":\"t1\",\"expires_in\":7200}");
	start(w, callers, CALLERS);
	http_hold_release(&w->hold, CALLERS);
	join(callers, CALLERS);
	for (int i = 0; i < CALLERS; i++)
		check_header(&callers[i], "Bearer t1");
	assert_int_equal(http_hold_arrived(&w->hold), 1);
}

/* Its life is shorter than the margin, so it counts as expired when it arrives. */
static void
all_callers_use_a_token_with_a_short_life(void **state)
{
	struct caller callers[CALLERS] = { 0 };
	struct world *w = *state;

	http_script_answer(&w->script, "POST /token/", 200,
	                   "{\"access_token\":\"t1\",\"expires_in\":5}");
	start(w, callers, CALLERS);
	http_hold_release(&w->hold, CALLERS);
	join(callers, CALLERS);
	for (int i = 0; i < CALLERS; i++)
		check_header(&callers[i], "Bearer t1");
	assert_int_equal(http_hold_arrived(&w->hold), 1);
}

static void
all_callers_share_a_refusal(void **state)
{
	struct caller callers[CALLERS] = { 0 };
	struct world *w = *state;

	http_script_answer(&w->script, "POST /token/", 401, "{\"error\":\"invalid_client\"}");
	start(w, callers, CALLERS);
	http_hold_release(&w->hold, CALLERS);
	join(callers, CALLERS);
	for (int i = 0; i < CALLERS; i++)
		check_failed(&callers[i], ERR_UNAUTHORIZED, "oauth2: \"invalid_client\"");
	assert_int_equal(http_hold_arrived(&w->hold), 1);
}

/* That is no failure of the API: the next caller sends the request. */
static void
a_cancelled_request_is_repeated_for_the_others(void **state)
{
	CLEANUP(cancel_freep) struct cancel *cancel = cancel_new();
	struct caller callers[CALLERS] = { { .cancel = cancel } };
	struct world *w = *state;

	http_script_answer(&w->script, "POST /token/", 200,
	                   "{\"access_token\":\"t1\",\"expires_in\":7200}");
	start(w, callers, CALLERS);
	cancel_fire(cancel);
	thread_join(callers[0].thread);
	check_failed(&callers[0], ERR_CANCELLED, "cancelled");
	http_hold_release(&w->hold, CALLERS);
	join(callers + 1, CALLERS - 1);
	for (int i = 1; i < CALLERS; i++)
		check_header(&callers[i], "Bearer t1");
	assert_int_equal(http_hold_arrived(&w->hold), 2);
}

static void
a_request_whose_caller_ran_out_of_time_is_repeated_for_the_others(void **state)
{
	struct world *w = *state;
	int64_t now_ns = clock_mono(fake_clock_clock(w->clock));
	struct caller callers[] = { { .deadline_ns = now_ns + NS_PER_SEC }, { .err = { 0 } } };

	http_script_answer(&w->script, "POST /token/", 200,
	                   "{\"access_token\":\"t1\",\"expires_in\":7200}");
	start(w, callers, 2);
	fake_clock_advance(w->clock, 2 * NS_PER_SEC);
	thread_join(callers[0].thread);
	check_failed(&callers[0], ERR_TIMEOUT, "timed out");
	http_hold_release(&w->hold, 1);
	thread_join(callers[1].thread);
	check_header(&callers[1], "Bearer t1");
	assert_int_equal(http_hold_arrived(&w->hold), 2);
}

static void
a_caller_that_gives_up_stops_only_itself(void **state)
{
	CLEANUP(cancel_freep) struct cancel *cancel = cancel_new();
	struct world *w = *state;
	int64_t now_ns = clock_mono(fake_clock_clock(w->clock));
	struct caller callers[] = {
		{ .err = { 0 } },
		{ .cancel = cancel },
		{ .deadline_ns = now_ns + NS_PER_SEC },
	};

	http_script_answer(&w->script, "POST /token/", 200,
	                   "{\"access_token\":\"t1\",\"expires_in\":7200}");
	start(w, callers, 3);
	cancel_fire(cancel);
	thread_join(callers[1].thread);
	check_failed(&callers[1], ERR_CANCELLED, "cancelled while waiting for an access token");
	fake_clock_advance(w->clock, 2 * NS_PER_SEC);
	thread_join(callers[2].thread);
	check_failed(&callers[2], ERR_TIMEOUT, "timed out waiting for an access token");
	http_hold_release(&w->hold, 1);
	thread_join(callers[0].thread);
	check_header(&callers[0], "Bearer t1");
	assert_int_equal(http_hold_arrived(&w->hold), 1);
}

static void
the_last_token_is_used_while_new_credentials_are_tried(void **state)
{
	struct caller first = { 0 }, renewing = { 0 }, others[CALLERS] = { 0 };
	struct world *w = *state;

	http_script_answer(&w->script, "POST /token/", 200,
	                   "{\"access_token\":\"t1\",\"expires_in\":7200}");
	http_script_answer(&w->script, "POST /token/", 200,
	                   "{\"access_token\":\"t2\",\"expires_in\":7200}");
	start(w, &first, 1);
	http_hold_release(&w->hold, 1);
	thread_join(first.thread);
	write_secret(w, "second");
	start(w, &renewing, 1);
	for (int i = 0; i < CALLERS; i++) {
		others[i].w = w;
		others[i].deadline_ns = CLOCK_FOREVER;
		thread_start(&others[i].thread, "caller", authorize, &others[i]);
		thread_join(others[i].thread);
		check_header(&others[i], "Bearer t1");
	}
	http_hold_release(&w->hold, 1);
	thread_join(renewing.thread);
	check_header(&renewing, "Bearer t2");
	assert_int_equal(http_hold_arrived(&w->hold), 2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(all_callers_share_one_request),
		TEST(all_callers_use_a_token_with_a_short_life),
		TEST(all_callers_share_a_refusal),
		TEST(a_cancelled_request_is_repeated_for_the_others),
		TEST(a_request_whose_caller_ran_out_of_time_is_repeated_for_the_others),
		TEST(a_caller_that_gives_up_stops_only_itself),
		TEST(the_last_token_is_used_while_new_credentials_are_tried),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
