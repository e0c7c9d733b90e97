/* The transport is scripted and can be held; the clock is ours. */
#include "serve/reviewer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"
#include "base/thread.h"
#include "kube/fake_http.h"
#include "fake_clock.h"

#define YES_TOKEN                                                       \
	"{\"kind\":\"TokenReview\",\"status\":{\"authenticated\":true," \
	"\"user\":{\"username\":\"jane\"}}}"
#define NO_TOKEN "{\"kind\":\"TokenReview\",\"status\":{\"error\":\"invalid\"}}"
#define YES_RIGHTS "{\"kind\":\"SubjectAccessReview\",\"status\":{\"allowed\":true}}"
#define NO_RIGHTS "{\"kind\":\"SubjectAccessReview\",\"status\":{\"allowed\":false}}"

#define TTL_NS (10 * NS_PER_SEC)

struct fixture {
	struct fake_clock *clock;
	struct fake_http *http;
	struct kube_client client;
	struct reviewer *r;

	/* a transport in front of the scripted one, which can be held */
	struct http_client gate;
	pthread_mutex_t mu;
	pthread_cond_t changed; /* mu */
	bool is_held;           /* mu */
	unsigned n_held;        /* mu */

	atomic_int n_done, n_yes, n_no, n_failed, n_upkeeps;
	int64_t upkeep_every_ns;
};

static bool
pass_gate(struct http_client *client, struct call *call, const struct http_request *request,
          struct http_response *response, struct error *err)
{
	struct fixture *f = CONTAINER_OF(client, struct fixture, gate);

	mutex_lock(&f->mu);
	f->n_held++;
	cond_broadcast(&f->changed);
	while (f->is_held)
		MUST(pthread_cond_wait(&f->changed, &f->mu));
	f->n_held--;
	mutex_unlock(&f->mu);
	return http_do(fake_http_client(f->http), call, request, response, err);
}

static void
hold(struct fixture *f)
{
	WITH_LOCK(&f->mu);

	f->is_held = true;
}

static void
wait_held(struct fixture *f)
{
	WITH_LOCK(&f->mu);

	while (f->n_held == 0)
		MUST(pthread_cond_wait(&f->changed, &f->mu));
}

static void
let_go(struct fixture *f)
{
	WITH_LOCK(&f->mu);

	f->is_held = false;
	cond_broadcast(&f->changed);
}

static int64_t
upkeep(void *arg, struct call *call)
{
	struct fixture *f = arg;

	atomic_fetch_add(&f->n_upkeeps, 1);
	return clock_deadline(clock_mono(call->clock), f->upkeep_every_ns);
}

static int
set_up(void **state)
{
	static const struct http_ops ops = { .do_request = pass_gate };
	struct fixture *f = calloc(1, sizeof(*f));

	f->gate.ops = &ops;
	mutex_init(&f->mu);
	cond_init(&f->changed);
	f->clock = fake_clock_new(NS_PER_SEC);
	f->http = fake_http_new();
	f->client = (struct kube_client){ .http = &f->gate, .clock = fake_clock_clock(f->clock) };
	f->upkeep_every_ns = CLOCK_FOREVER;
	f->r = reviewer_new(&(struct reviewer_config){ .tokens = &f->client,
	                                               .rights = &f->client,
	                                               .clock = fake_clock_clock(f->clock),
	                                               .token_ttl_ns = TTL_NS,
	                                               .authorized_ttl_ns = 2 * TTL_NS,
	                                               .unauthorized_ttl_ns = TTL_NS / 2,
	                                               .upkeep = upkeep,
	                                               .arg = f });
	*state = f;
	return 0;
}

static int
tear_down(void **state)
{
	struct fixture *f = *state;

	let_go(f); /* a test that failed may hold it */
	if (f->r) {
		reviewer_stop(f->r);
		reviewer_free(f->r);
	}
	fake_http_free(f->http);
	fake_clock_free(f->clock);
	cond_destroy(&f->changed);
	mutex_destroy(&f->mu);
	free(f);
	return 0;
}

static void
count(struct fixture *f, const struct review_answer *answer)
{
	atomic_int *counts[] = { &f->n_yes, &f->n_no, &f->n_failed };

	atomic_fetch_add(counts[answer->verdict], 1);
	atomic_fetch_add(&f->n_done, 1);
}

static void
on_done(void *arg, const struct review_answer *answer)
{
	count(arg, answer);
}

/* Asks; counts an answer from the cache as well. */
static enum reviewer_start
ask_token_from(struct fixture *f, const char *peer, const char *token)
{
	CLEANUP(review_answer_unrefp) struct review_answer *answer = NULL;
	enum reviewer_start start = reviewer_token(f->r, str_c(peer), str_c(token), &answer,
	                                           on_done, f);

	if (start == REVIEWER_KNOWS)
		count(f, answer);
	return start;
}

static enum reviewer_start
ask_token(struct fixture *f, const char *token)
{
	return ask_token_from(f, "192.0.2.1", token);
}

static enum reviewer_start
ask_rights(struct fixture *f, const char *path)
{
	CLEANUP(access_user_unrefp) struct access_user *user = access_user_anonymous();
	CLEANUP(review_answer_unrefp) struct review_answer *answer = NULL;
	enum reviewer_start start = reviewer_rights(f->r, STR("192.0.2.1"), user, STR("get"),
	                                            str_c(path), &answer, on_done, f);

	if (start == REVIEWER_KNOWS)
		count(f, answer);
	return start;
}

/* Returns when the thread has nothing to do. */
static void
settle(struct fixture *f)
{
	fake_clock_settle(f->clock, 1);
}

static void
answers_are_kept_for_a_while(void **state)
{
	struct fixture *f = *state;

	fake_http_answer(f->http, 201, YES_TOKEN);
	assert_int_equal(ask_token(f, "a"), REVIEWER_ASKS);
	settle(f);
	assert_int_equal(f->n_yes, 1);
	fake_clock_advance(f->clock, TTL_NS - 1);
	assert_int_equal(ask_token(f, "a"), REVIEWER_KNOWS);
	assert_int_equal(f->n_yes, 2);
	assert_int_equal(ask_token(f, "b"), REVIEWER_ASKS);
	settle(f);
	fake_clock_advance(f->clock, TTL_NS + 1);
	assert_int_equal(ask_token(f, "a"), REVIEWER_ASKS);
	settle(f);
	assert_int_equal(fake_http_count(f->http), 3);
}

static void
a_no_is_kept_too(void **state)
{
	struct fixture *f = *state;

	fake_http_answer(f->http, 201, NO_TOKEN);
	assert_int_equal(ask_token(f, "a"), REVIEWER_ASKS);
	settle(f);
	assert_int_equal(ask_token(f, "a"), REVIEWER_KNOWS);
	assert_int_equal(f->n_no, 2);
	assert_int_equal(fake_http_count(f->http), 1);
}

static void
rights_have_two_times_to_live(void **state)
{
	struct fixture *f = *state;

	fake_http_answer(f->http, 201, YES_RIGHTS);
	fake_http_answer(f->http, 201, NO_RIGHTS);
	assert_int_equal(ask_rights(f, "/yes"), REVIEWER_ASKS);
	settle(f);
	assert_int_equal(ask_rights(f, "/no"), REVIEWER_ASKS);
	settle(f);
	fake_clock_advance(f->clock, TTL_NS / 2 - 1);
	assert_int_equal(ask_rights(f, "/no"), REVIEWER_KNOWS);
	fake_clock_advance(f->clock, 1);
	assert_int_equal(ask_rights(f, "/no"), REVIEWER_ASKS);
	settle(f);
	fake_clock_advance(f->clock, TTL_NS);
	assert_int_equal(ask_rights(f, "/yes"), REVIEWER_KNOWS);
	fake_clock_advance(f->clock, 3 * TTL_NS);
	assert_int_equal(ask_rights(f, "/yes"), REVIEWER_ASKS);
	settle(f);
}

static void
large_questions_are_not_kept(void **state)
{
	struct fixture *f = *state;
	char path[LIMIT_REVIEW_BYTES + 1];

	memset(path, 'a', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	fake_http_answer(f->http, 201, YES_RIGHTS);
	assert_int_equal(ask_rights(f, path), REVIEWER_ASKS);
	settle(f);
	assert_int_equal(ask_rights(f, path), REVIEWER_ASKS);
	settle(f);
	assert_int_equal(f->n_yes, 2);
}

static void
askers_of_one_token_share_a_call(void **state)
{
	struct fixture *f = *state;

	fake_http_answer(f->http, 201, YES_TOKEN);
	hold(f);
	for (int i = 0; i < 4; i++)
		assert_int_equal(ask_token(f, "a"), REVIEWER_ASKS);
	wait_held(f);
	for (int i = 0; i < 4; i++)
		assert_int_equal(ask_token(f, "a"), REVIEWER_ASKS);
	let_go(f);
	settle(f);
	assert_int_equal(f->n_yes, 8);
	assert_int_equal(fake_http_count(f->http), 1);
}

static void
a_token_and_rights_of_the_same_text_are_two(void **state)
{
	struct fixture *f = *state;
	const char *body =
		"{\"apiVersion\":\"authorization.k8s.io/v1\",\"kind\":\"SubjectAccessReview\","
		"\"spec\":{\"user\":\"system:anonymous\",\"groups\":[\"system:unauthenticated\"],"
		"\"nonResourceAttributes\":{\"path\":\"/\",\"verb\":\"get\"}}}";

	fake_http_answer(f->http, 201, YES_RIGHTS);
	fake_http_answer(f->http, 201, NO_TOKEN);
	assert_int_equal(ask_rights(f, "/"), REVIEWER_ASKS);
	settle(f);
	assert_int_equal(ask_token(f, body), REVIEWER_ASKS);
	settle(f);
	assert_int_equal(f->n_no, 1);
}

static void
a_failure_is_repeated_and_not_kept(void **state)
{
	struct fixture *f = *state;
	int64_t waits_ms[] = { 500, 750, 1125, 1687 };

	fake_http_answer(f->http, 500, "");
	fake_http_add(f->http, (struct fake_answer){ .code = ERR_UNAVAILABLE });
	fake_http_answer(f->http, 429, "");
	fake_http_add(f->http, (struct fake_answer){ .code = ERR_TIMEOUT });
	fake_http_answer(f->http, 500, "");
	assert_int_equal(ask_token(f, "a"), REVIEWER_ASKS);
	for (size_t i = 0; i < ARRAY_LEN(waits_ms); i++) {
		settle(f);
		assert_int_equal(fake_http_count(f->http), i + 1);
		fake_clock_advance(f->clock, waits_ms[i] * NS_PER_MS - NS_PER_MS);
		settle(f);
		assert_int_equal(fake_http_count(f->http), i + 1);
		assert_int_equal(f->n_done, 0);
		fake_clock_advance(f->clock, waits_ms[i] * NS_PER_MS / 5 + 2 * NS_PER_MS);
	}
	settle(f);
	assert_int_equal(fake_http_count(f->http), 5);
	assert_int_equal(f->n_failed, 1);
	assert_int_equal(ask_token(f, "a"), REVIEWER_ASKS);
}

static void
a_passing_failure_is_not_noticed(void **state)
{
	struct fixture *f = *state;

	fake_http_answer(f->http, 500, "");
	fake_http_answer(f->http, 201, YES_TOKEN);
	assert_int_equal(ask_token(f, "a"), REVIEWER_ASKS);
	settle(f);
	assert_int_equal(ask_token(f, "a"), REVIEWER_ASKS);
	fake_clock_advance(f->clock, NS_PER_SEC);
	settle(f);
	assert_int_equal(f->n_yes, 2);
	assert_int_equal(fake_http_count(f->http), 2);
}

static void
a_refusal_is_final(void **state)
{
	struct fixture *f = *state;

	fake_http_answer(f->http, 403, "{\"kind\":\"Status\",\"reason\":\"Forbidden\"}");
	fake_http_answer(f->http, 201, "{\"kind\":\"TokenReview\"}");
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ask_token(f, "a"), REVIEWER_ASKS);
		settle(f);
	}
	assert_int_equal(f->n_failed, 2);
	assert_int_equal(fake_http_count(f->http), 2);
}

static void
others_have_their_turn_meanwhile(void **state)
{
	struct fixture *f = *state;

	fake_http_answer(f->http, 500, "");
	fake_http_answer(f->http, 201, YES_TOKEN);
	assert_int_equal(ask_token(f, "a"), REVIEWER_ASKS);
	settle(f);
	assert_int_equal(ask_token(f, "b"), REVIEWER_ASKS);
	settle(f);
	assert_int_equal(f->n_yes, 1);
}

/* Fills the share of an address with unknown tokens. */
static void
fill_share(struct fixture *f, const char *peer)
{
	char token[64];

	for (int i = 0; i < LIMIT_SERVER_PER_SOURCE; i++) {
		snprintf(token, sizeof(token), "%s/%d", peer, i);
		assert_int_equal(ask_token_from(f, peer, token), REVIEWER_ASKS);
	}
	assert_int_equal(ask_token_from(f, peer, "one more"), REVIEWER_SOURCE_BUSY);
	assert_int_equal(ask_token_from(f, peer, token), REVIEWER_SOURCE_BUSY);
}

static void
an_address_has_a_share(void **state)
{
	struct fixture *f = *state;

	fake_http_answer(f->http, 201, NO_TOKEN);
	hold(f);
	fill_share(f, "192.0.2.1");
	assert_int_equal(ask_token_from(f, "::ffff:192.0.2.1", "mapped"), REVIEWER_SOURCE_BUSY);
	assert_int_equal(ask_rights(f, "/anonymous"), REVIEWER_SOURCE_BUSY);
	fill_share(f, "2001:db8::1");
	assert_int_equal(ask_token_from(f, "2001:db8::2", "same network"), REVIEWER_SOURCE_BUSY);
	assert_int_equal(ask_token_from(f, "2001:db8:0:1::2", "another network"), REVIEWER_ASKS);
	let_go(f);
	settle(f);
	assert_int_equal(f->n_no, 2 * LIMIT_SERVER_PER_SOURCE + 1);
	assert_int_equal(ask_token_from(f, "192.0.2.1", "one more"), REVIEWER_ASKS);
}

/* A caller with one request waits for one of each other address, not for all of them. */
static void
addresses_take_turns(void **state)
{
	struct fixture *f = *state;
	size_t n_served;

	fake_http_answer(f->http, 201, NO_TOKEN);
	hold(f);
	fill_share(f, "192.0.2.1");
	wait_held(f);
	fill_share(f, "192.0.2.2");
	assert_int_equal(ask_token_from(f, "192.0.2.3", "honest"), REVIEWER_ASKS);
	let_go(f);
	settle(f);
	for (n_served = 0; !strstr(fake_http_request(f->http, n_served)->body, "\"honest\"");)
		n_served++;
	assert_in_range(n_served, 1, 3);
}

/* Even if the attacker is behind the same address. */
static void
a_good_token_is_answered_while_it_is_renewed(void **state)
{
	struct fixture *f = *state;

	fake_http_answer(f->http, 201, YES_TOKEN);
	fake_http_answer(f->http, 201, NO_TOKEN);
	assert_int_equal(ask_token(f, "good"), REVIEWER_ASKS);
	settle(f);
	fake_clock_advance(f->clock, TTL_NS);
	hold(f);
	fill_share(f, "192.0.2.1");
	for (int i = 0; i < 3; i++)
		assert_int_equal(ask_token(f, "good"), REVIEWER_KNOWS);
	assert_int_equal(f->n_yes, 4);
	let_go(f);
	settle(f);
	assert_int_equal(fake_http_count(f->http), 1 + LIMIT_SERVER_PER_SOURCE + 1);
	assert_non_null(strstr(fake_http_request(f->http, 2)->body, "\"good\""));
	assert_int_equal(ask_token(f, "good"), REVIEWER_KNOWS); /* the API server says no now */
	assert_int_equal(f->n_yes, 4);
}

static void
a_stale_answer_ends_when_it_cannot_be_renewed(void **state)
{
	struct fixture *f = *state;

	fake_http_answer(f->http, 201, YES_TOKEN);
	fake_http_answer(f->http, 403, "");
	assert_int_equal(ask_token(f, "good"), REVIEWER_ASKS);
	settle(f);
	fake_clock_advance(f->clock, 2 * TTL_NS - 1);
	assert_int_equal(ask_token(f, "good"), REVIEWER_KNOWS);
	settle(f);
	assert_int_equal(f->n_yes, 2);
	fake_clock_advance(f->clock, 1);
	assert_int_equal(ask_token(f, "good"), REVIEWER_ASKS);
	settle(f);
	assert_int_equal(f->n_failed, 1);
}

/* Like Prometheus, which scrapes every minute, behind the attacker's address. */
static void
a_token_that_was_good_has_a_share_of_its_own(void **state)
{
	struct fixture *f = *state;

	fake_http_answer(f->http, 201, YES_TOKEN);
	fake_http_answer(f->http, 201, NO_TOKEN);
	assert_int_equal(ask_token(f, "good"), REVIEWER_ASKS);
	settle(f);
	fake_clock_advance(f->clock, 60 * NS_PER_SEC);
	hold(f);
	fill_share(f, "192.0.2.1");
	assert_int_equal(ask_token(f, "good"), REVIEWER_ASKS);
	let_go(f);
	settle(f);
	fake_clock_advance(f->clock, 60 * NS_PER_SEC); /* now it has been refused */
	hold(f);
	fill_share(f, "192.0.2.1");
	assert_int_equal(ask_token(f, "good"), REVIEWER_SOURCE_BUSY);
	let_go(f);
}

static void
many_addresses_leave_room_for_known_callers(void **state)
{
	struct fixture *f = *state;
	char peer[32];

	fake_http_answer(f->http, 201, YES_TOKEN);
	fake_http_answer(f->http, 201, NO_TOKEN);
	assert_int_equal(ask_token(f, "good"), REVIEWER_ASKS);
	settle(f);
	fake_clock_advance(f->clock, 60 * NS_PER_SEC);
	hold(f);
	for (int i = 0; i < LIMIT_SERVER_UNAUTHENTICATED / LIMIT_SERVER_PER_SOURCE; i++) {
		snprintf(peer, sizeof(peer), "198.51.100.%d", i);
		fill_share(f, peer);
	}
	assert_int_equal(ask_token(f, "stranger"), REVIEWER_BUSY);
	assert_int_equal(ask_token(f, "good"), REVIEWER_ASKS);
	for (int i = LIMIT_SERVER_UNAUTHENTICATED + 1; i < LIMIT_SERVER_PENDING; i++)
		assert_int_equal(ask_token(f, "good"), REVIEWER_ASKS);
	assert_int_equal(ask_token(f, "good"), REVIEWER_SOURCE_BUSY);
	let_go(f);
	settle(f);
	assert_int_equal(ask_token(f, "stranger"), REVIEWER_ASKS);
}

/* Requests for a user's rights count for that user, whatever the address. */
static void
a_user_has_a_share_of_their_own(void **state)
{
	struct fixture *f = *state;
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	CLEANUP(access_user_unrefp) struct access_user *user = NULL;
	struct access_draft d = ACCESS_DRAFT_INIT(&arena);
	struct review_answer *answer;
	struct error err;
	char path[8] = "/a";

	access_draft_name(&d, STR("jane"));
	assert_true(access_user_new(&d, &user, &err));
	fake_http_answer(f->http, 201, NO_TOKEN);
	hold(f);
	fill_share(f, "192.0.2.1");
	for (int i = 0; i < LIMIT_SERVER_PER_SOURCE; i++, path[1]++)
		assert_int_equal(reviewer_rights(f->r, STR("192.0.2.1"), user, STR("get"),
		                                 str_c(path), &answer, on_done, f),
		                 REVIEWER_ASKS);
	assert_int_equal(reviewer_rights(f->r, STR("192.0.2.9"), user, STR("get"), str_c(path),
	                                 &answer, on_done, f),
	                 REVIEWER_SOURCE_BUSY);
	let_go(f);
	settle(f);
}

static void
stopping_answers_all_who_wait(void **state)
{
	struct fixture *f = *state;

	fake_http_add(f->http, (struct fake_answer){ .hangs = true });
	assert_int_equal(ask_token(f, "a"), REVIEWER_ASKS);
	fake_http_wait(f->http, 1);
	assert_int_equal(ask_token(f, "a"), REVIEWER_ASKS);
	assert_int_equal(ask_rights(f, "/"), REVIEWER_ASKS);
	reviewer_stop(f->r);
	assert_int_equal(f->n_failed, 3);
	assert_int_equal(ask_token(f, "a"), REVIEWER_KNOWS);
	assert_int_equal(f->n_failed, 4);
	reviewer_free(TAKE(f->r));
}

static void
upkeep_happens_when_it_is_due(void **state)
{
	struct fixture *f = *state;

	settle(f);
	assert_int_equal(f->n_upkeeps, 1);
	fake_clock_advance(f->clock, NS_PER_SEC);
	reviewer_upkeep_by(f->r, clock_mono(fake_clock_clock(f->clock)) + NS_PER_SEC);
	settle(f);
	assert_int_equal(f->n_upkeeps, 1);
	fake_clock_advance(f->clock, NS_PER_SEC);
	settle(f);
	assert_int_equal(f->n_upkeeps, 2);
}

/* ---- with many threads ---- */

enum {
	N_THREADS = 4,
	N_ROUNDS = 200,
};

static void *
ask_often(void *arg)
{
	struct fixture *f = arg;
	char token[] = "a";

	for (int i = 0; i < N_ROUNDS; i++) {
		token[0] = (char)('a' + i % 7);
		while (ask_token(f, token) >= REVIEWER_BUSY)
			sched_yield();
	}
	return NULL;
}

static void
no_waiting_thread_is_forgotten(void **state)
{
	struct fixture *f = *state;
	pthread_t threads[N_THREADS];

	fake_http_answer(f->http, 201, YES_TOKEN);
	for (int i = 0; i < N_THREADS; i++)
		thread_start(&threads[i], "asker", ask_often, f);
	for (int i = 0; i < N_THREADS; i++)
		thread_join(threads[i]);
	settle(f);
	assert_int_equal(f->n_yes, N_THREADS * N_ROUNDS);
	assert_int_equal(fake_http_count(f->http), 7);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(answers_are_kept_for_a_while),
		TEST(a_no_is_kept_too),
		TEST(rights_have_two_times_to_live),
		TEST(large_questions_are_not_kept),
		TEST(askers_of_one_token_share_a_call),
		TEST(a_token_and_rights_of_the_same_text_are_two),
		TEST(a_failure_is_repeated_and_not_kept),
		TEST(a_passing_failure_is_not_noticed),
		TEST(a_refusal_is_final),
		TEST(others_have_their_turn_meanwhile),
		TEST(an_address_has_a_share),
		TEST(addresses_take_turns),
		TEST(a_good_token_is_answered_while_it_is_renewed),
		TEST(a_stale_answer_ends_when_it_cannot_be_renewed),
		TEST(a_token_that_was_good_has_a_share_of_its_own),
		TEST(many_addresses_leave_room_for_known_callers),
		TEST(a_user_has_a_share_of_their_own),
		TEST(stopping_answers_all_who_wait),
		TEST(upkeep_happens_when_it_is_due),
		TEST(no_waiting_thread_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
