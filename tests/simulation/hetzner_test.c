/* Tests what actors and checks see of the model of Hetzner's API. Its answers to requests are
 * compared with those of tests/sim by a scenario. */
#include "hetzner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"

#define START_NS (INT64_C(1790000000) * 1000000000)
#define SECOND_NS INT64_C(1000000000)

struct world {
	struct hetzner *h;
	struct hetzner_project *p;
	struct hetzner_network *net;
	unsigned n_changes;
	char last[200]; /* "USER_AGENT COMMAND NAME-BEFORE>NAME-AFTER" */
	struct server_response answer;
};

static void
note_change(void *arg, const struct hetzner_change *change)
{
	struct world *w = arg;

	w->n_changes++;
	snprintf(w->last, sizeof(w->last), "%" STR_FMT " %" STR_FMT " %" STR_FMT ">%" STR_FMT,
	         STR_ARG(change->user_agent), STR_ARG(change->command),
	         STR_ARG(change->before ? change->before->name : STR_EMPTY),
	         STR_ARG(change->after ? change->after->name : STR_EMPTY));
}

static int
make(void **state)
{
	struct world *w = test_calloc(1, sizeof(*w));

	w->h = hetzner_new(START_NS, 7);
	w->p = hetzner_add_project(w->h, STR("token"));
	w->net = hetzner_add_network(w->h, w->p, STR("net"), STR("10.0.0.0/8"), STR("10.0.0.0/16"));
	hetzner_set_observer(w->h, note_change, w);
	w->answer = (struct server_response){ .headers = BUF_INIT(4096),
		                              .body = BUF_INIT(1 << 20) };
	*state = w;
	return 0;
}

static int
unmake(void **state)
{
	struct world *w = *state;
	struct server *server = hetzner_server(w->h);

	buf_fini(&w->answer.headers);
	buf_fini(&w->answer.body);
	server->ops->free(server);
	test_free(w);
	return 0;
}

static struct hetzner_server *
add_server(struct world *w, const char *name)
{
	struct hetzner_new_server wanted = { .name = str_c(name), .network = w->net };
	struct hetzner_server *server = hetzner_add_server(w->h, w->p, &wanted);

	assert_non_null(server);
	return server;
}

static int
request(struct world *w, const char *method, const char *target, const char *body)
{
	return hetzner_request(w->h, w->p, "person", method, target, str_c(body));
}

/* A request with a token. */
static int
ask(struct world *w, const char *token, const char *method, const char *target, const char *body)
{
	struct server_request sent = { .method = method,
		                       .target = str_c(target),
		                       .content_type = STR("application/json"),
		                       .token = str_c(token),
		                       .user_agent = STR("ccmd"),
		                       .body = str_c(body) };

	buf_reset(&w->answer.headers);
	buf_reset(&w->answer.body);
	w->answer.status = 0;
	hetzner_server(w->h)->ops->handle(hetzner_server(w->h), &sent, &w->answer);
	return w->answer.status;
}

static void
pass(struct world *w, int64_t ns)
{
	hetzner_server(w->h)->ops->advance(hetzner_server(w->h), hetzner_now(w->h) + ns);
}

static int64_t
next(struct world *w)
{
	return hetzner_server(w->h)->ops->next_ns(hetzner_server(w->h));
}

static struct hetzner_balancer *
add_balancer(struct world *w, const char *name)
{
	char body[200];

	snprintf(body, sizeof(body),
	         "{\"name\":\"%s\",\"load_balancer_type\":\"lb11\",\"location\":\"fsn1\"}", name);
	assert_int_equal(request(w, "POST", "/load_balancers", body), 201);
	return (struct hetzner_balancer *)hetzner_find_named(w->p, HETZNER_BALANCER, str_c(name));
}

static const char *
of(const struct hetzner_balancer *lb, const char *action)
{
	static char target[100];

	snprintf(target, sizeof(target), "/load_balancers/%lld%s", (long long)lb->base.id, action);
	return target;
}

static const char target_body[] = "{\"type\":\"server\",\"server\":{\"id\":%lld}}";

static void
add_target(struct world *w, const struct hetzner_balancer *lb, const struct hetzner_server *server)
{
	char body[100];

	snprintf(body, sizeof(body), target_body, (long long)server->base.id);
	assert_int_equal(request(w, "POST", of(lb, "/actions/add_target"), body), 201);
}

/* ---- actors ---- */

static void
test_a_replaced_server_keeps_its_name_and_private_address(void **state)
{
	struct world *w = *state;
	struct hetzner_server *old = add_server(w, "n1"), *new;
	int64_t id = old->base.id;

	add_server(w, "n2");
	new = hetzner_replace_server(w->h, w->p, old);
	assert_non_null(new);
	assert_true(new->base.id > id);
	assert_true(str_eq_c(new->base.name, "n1"));
	assert_true(str_eq_c(new->networks[0].ip, "10.0.0.2"));
	assert_null(hetzner_find(w->p, HETZNER_SERVER, id));
	assert_int_equal(w->p->n_of[HETZNER_SERVER], 2);
}

static void
test_names_are_unique(void **state)
{
	struct world *w = *state;
	struct hetzner_new_server wanted = { .name = STR("n1") };

	add_server(w, "n1");
	assert_null(hetzner_add_server(w->h, w->p, &wanted));
}

static void
test_a_deleted_server_is_no_target(void **state)
{
	struct world *w = *state;
	struct hetzner_server *one = add_server(w, "n1"), *two = add_server(w, "n2");
	struct hetzner_balancer *lb = add_balancer(w, "lb");

	add_target(w, lb, one);
	add_target(w, lb, two);
	hetzner_delete_server(w->h, w->p, one);
	assert_int_equal(lb->n_targets, 1);
	hetzner_settings(w->h)->targets_outlive_servers = true;
	hetzner_delete_server(w->h, w->p, two);
	assert_int_equal(lb->n_targets, 1);
	hetzner_drop_dead_targets(w->h, w->p);
	assert_int_equal(lb->n_targets, 0);
}

static void
test_a_detached_server_is_no_private_target(void **state)
{
	struct world *w = *state;
	struct hetzner_server *server = add_server(w, "n1");
	struct hetzner_balancer *lb = add_balancer(w, "lb");
	char body[100];

	snprintf(body, sizeof(body), "{\"network\":%lld}", (long long)w->net->base.id);
	assert_int_equal(request(w, "POST", of(lb, "/actions/attach_to_network"), body), 201);
	snprintf(body, sizeof(body),
	         "{\"type\":\"server\",\"server\":{\"id\":%lld},\"use_private_ip\":true}",
	         (long long)server->base.id);
	assert_int_equal(request(w, "POST", of(lb, "/actions/add_target"), body), 201);
	hetzner_detach(w->h, w->p, server, w->net);
	assert_int_equal(server->n_networks, 0);
	assert_int_equal(lb->n_targets, 0);
	assert_true(hetzner_attach(w->h, w->p, server, w->net, STR("10.0.0.9")));
	assert_false(hetzner_attach(w->h, w->p, server, w->net, STR_EMPTY));
	snprintf(body, sizeof(body), "/networks/%lld", (long long)w->net->base.id);
	assert_int_equal(request(w, "DELETE", body, ""), 204);
	assert_int_equal(request(w, "DELETE", body, ""), 404);
	assert_int_equal(server->n_networks, 0);
	assert_int_equal(lb->n_networks, 0);
}

/* ---- tokens and limits ---- */

static void
test_a_token_sees_its_project_until_it_is_revoked(void **state)
{
	struct world *w = *state;

	hetzner_add_project(w->h, STR("other"));
	add_server(w, "n1");
	assert_int_equal(ask(w, "other", "GET", "/v1/servers", ""), 200);
	assert_true(str_contains(buf_str(&w->answer.body), STR("\"total_entries\":0")));
	assert_int_equal(ask(w, "token", "GET", "/v1/servers", ""), 200);
	assert_true(str_contains(buf_str(&w->answer.body), STR("\"total_entries\":1")));
	hetzner_revoke_token(w->h, STR("token"));
	assert_int_equal(ask(w, "token", "GET", "/v1/servers", ""), 401);
	assert_int_equal(ask(w, "", "GET", "/v1/servers", ""), 401);
	hetzner_add_token(w->h, w->p, STR("reader"), false);
	assert_int_equal(ask(w, "reader", "GET", "/v1/servers", ""), 200);
	assert_int_equal(ask(w, "reader", "POST", "/v1/load_balancers", "{}"), 403);
}

static void
test_the_budget_fills_again(void **state)
{
	struct world *w = *state;

	w->p->rate_limit = 3600;
	hetzner_drain_budget(w->h, w->p, 1);
	assert_int_equal(ask(w, "token", "GET", "/v1/locations", ""), 200);
	assert_int_equal(ask(w, "token", "GET", "/v1/locations", ""), 429);
	assert_true(str_contains(buf_str(&w->answer.headers), STR("RateLimit-Remaining: 0\r\n")));
	assert_int_equal(request(w, "GET", "/locations", ""), 200);
	pass(w, SECOND_NS);
	assert_int_equal(ask(w, "token", "GET", "/v1/locations", ""), 200);
}

static void
test_the_quota_of_balancers(void **state)
{
	struct world *w = *state;

	w->p->max_balancers = 1;
	add_balancer(w, "a");
	assert_int_equal(ask(w, "token", "POST", "/v1/load_balancers",
	                     "{\"name\":\"b\",\"load_balancer_type\":\"lb11\","
	                     "\"location\":\"fsn1\"}"),
	                 403);
	assert_true(str_contains(buf_str(&w->answer.body), STR("resource_limit_exceeded")));
}

static void
test_what_the_model_lacks_says_so(void **state)
{
	struct world *w = *state;

	assert_int_equal(ask(w, "token", "GET", "/v1/volumes", ""), 501);
	assert_true(str_contains(buf_str(&w->answer.body),
	                         STR("the model does not have: GET /v1/volumes")));
}

/* ---- actions ---- */

static void
test_an_action_takes_its_time(void **state)
{
	struct world *w = *state;
	struct hetzner_balancer *lb = add_balancer(w, "lb");

	hetzner_settings(w->h)->action_min_ns = SECOND_NS;
	hetzner_settings(w->h)->action_max_ns = 2 * SECOND_NS;
	assert_int_equal(request(w, "DELETE", of(lb, ""), ""), 201);
	assert_true(next(w) >= START_NS + SECOND_NS && next(w) <= START_NS + 2 * SECOND_NS);
	assert_int_equal(request(w, "DELETE", of(lb, ""), ""), 423);
	assert_int_equal(w->p->n_of[HETZNER_BALANCER], 1);
	pass(w, 2 * SECOND_NS);
	assert_int_equal(w->p->n_of[HETZNER_BALANCER], 0);
	assert_int_equal(request(w, "DELETE", of(lb, ""), ""), 404);
	assert_true(next(w) == CLOCK_FOREVER);
}

static void
test_deletion_as_it_was(void **state)
{
	struct world *w = *state;
	struct hetzner_balancer *lb = add_balancer(w, "lb");

	hetzner_settings(w->h)->action_min_ns = SECOND_NS;
	hetzner_settings(w->h)->deletes_without_action = true;
	assert_int_equal(request(w, "DELETE", of(lb, ""), ""), 204);
	assert_int_equal(w->p->n_of[HETZNER_BALANCER], 0);
}

static void
test_actions_that_fail_or_hang(void **state)
{
	struct world *w = *state;
	struct hetzner_balancer *lb = add_balancer(w, "lb");

	hetzner_doom_actions(w->h, w->p, "change_algorithm", HETZNER_FAILS, 1);
	hetzner_doom_actions(w->h, w->p, NULL, HETZNER_HANGS, 1);
	assert_int_equal(request(w, "POST", of(lb, "/actions/change_algorithm"),
	                         "{\"type\":\"least_connections\"}"),
	                 201);
	assert_true(str_eq_c(lb->algorithm, "round_robin"));
	assert_int_equal(request(w, "POST", of(lb, "/actions/change_algorithm"),
	                         "{\"type\":\"least_connections\"}"),
	                 201);
	pass(w, 86400 * SECOND_NS);
	assert_true(str_eq_c(lb->algorithm, "round_robin"));
	assert_int_equal(request(w, "PUT", of(lb, ""), "{\"name\":\"x\"}"), 409);
	hetzner_release(w->h, w->p);
	assert_true(str_eq_c(lb->algorithm, "least_connections"));
}

static void
test_a_locked_resource(void **state)
{
	struct world *w = *state;
	struct hetzner_balancer *lb = add_balancer(w, "lb");

	hetzner_lock(w->h, w->p, &lb->base, 10 * SECOND_NS);
	assert_int_equal(request(w, "POST", of(lb, "/actions/enable_public_interface"), ""), 423);
	pass(w, 10 * SECOND_NS);
	assert_int_equal(request(w, "POST", of(lb, "/actions/enable_public_interface"), ""), 201);
}

/* ---- Primary IPs ---- */

#define WITH_IP                                                                                 \
	"{\"name\":\"%s\",\"load_balancer_type\":\"lb11\",\"location\":\"%s\",\"public_net\":{" \
	"\"%s\":%lld}}"

static int
create_with(struct world *w, const char *name, const char *location, const char *family, int64_t id)
{
	char body[300];

	snprintf(body, sizeof(body), WITH_IP, name, location, family, (long long)id);
	return request(w, "POST", "/load_balancers", body);
}

static void
test_a_balancer_gives_its_primary_ips_back(void **state)
{
	struct world *w = *state;
	struct hetzner_primary_ip *v4 = hetzner_add_primary_ip(w->h, w->p, STR("v4"), false, NULL);
	struct hetzner_primary_ip *v6 = hetzner_add_primary_ip(w->h, w->p, STR("v6"), true, NULL);
	struct hetzner_balancer *lb;

	v6->goes_with_it = true;
	assert_int_equal(create_with(w, "six", "fsn1", "ipv6", v6->base.id), 201);
	assert_int_equal(create_with(w, "lb", "fsn1", "ipv4", v4->base.id), 201);
	lb = HETZNER_BALANCER_AT(w->p, 1);
	assert_true(str_eq(lb->ipv4, v4->ip));
	assert_int_equal(lb->ipv4_id, v4->base.id);
	assert_int_equal(v4->balancer, lb->base.id);
	assert_true(str_ends(HETZNER_BALANCER_AT(w->p, 0)->ipv6, STR("::1")));
	assert_int_equal(create_with(w, "two", "fsn1", "ipv4", v4->base.id), 422);
	assert_int_equal(request(w, "DELETE", of(lb, ""), ""), 201);
	assert_int_equal(v4->balancer, 0);
	assert_int_equal(request(w, "DELETE", of(HETZNER_BALANCER_AT(w->p, 0), ""), ""), 201);
	assert_int_equal(w->p->n_of[HETZNER_PRIMARY_IP], 1);
}

static void
test_primary_ips_that_a_balancer_cannot_have(void **state)
{
	struct world *w = *state;
	struct hetzner_primary_ip *v4 = hetzner_add_primary_ip(w->h, w->p, STR("v4"), false, NULL);

	assert_int_equal(create_with(w, "lb", "fsn1", "ipv4", 0), 422);
	assert_int_equal(create_with(w, "lb", "fsn1", "ipv4", 7), 422);
	assert_int_equal(create_with(w, "lb", "fsn1", "ipv6", v4->base.id), 422);
	assert_int_equal(create_with(w, "lb", "nbg1", "ipv4", v4->base.id), 422);
	hetzner_settings(w->h)->refuses_primary_ips = true;
	assert_int_equal(create_with(w, "lb", "fsn1", "ipv4", v4->base.id), 422);
	assert_int_equal(w->p->n_of[HETZNER_BALANCER], 0);
	assert_int_equal(v4->balancer, 0);
}

/* ---- checks ---- */

static void
test_the_observer_sees_who_changed_what(void **state)
{
	struct world *w = *state;
	struct hetzner_balancer *lb = add_balancer(w, "lb");
	unsigned n_changes;

	assert_int_equal(ask(w, "token", "PUT", "/v1/load_balancers/1", "{}"), 404);
	hetzner_settings(w->h)->action_min_ns = SECOND_NS;
	n_changes = w->n_changes;
	assert_int_equal(request(w, "PUT", of(lb, ""), "{\"name\":\"new\"}"), 200);
	assert_string_equal(w->last, "person PUT lb>new");
	assert_int_equal(request(w, "DELETE", of(lb, ""), ""), 201);
	assert_int_equal(w->n_changes, n_changes + 1);
	pass(w, SECOND_NS);
	assert_string_equal(w->last, "person delete_load_balancer new>");
	hetzner_rename_server(w->h, w->p, add_server(w, "n1"), STR("n2"));
	assert_string_equal(w->last, " rename n1>n2");
	assert_int_equal(w->n_changes, n_changes + 4);
}

static void
test_a_copy_is_a_snapshot(void **state)
{
	struct world *w = *state;
	struct hetzner_balancer *lb = add_balancer(w, "lb"), copy;

	add_target(w, lb, add_server(w, "n1"));
	copy = *lb;
	hetzner_delete_server(w->h, w->p, HETZNER_SERVER_AT(w->p, 0));
	assert_int_equal(lb->n_targets, 0);
	assert_int_equal(copy.n_targets, 1);
	assert_true(copy.targets[0].server > 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make, unmake)
		TEST(test_a_replaced_server_keeps_its_name_and_private_address),
		TEST(test_names_are_unique),
		TEST(test_a_deleted_server_is_no_target),
		TEST(test_a_detached_server_is_no_private_target),
		TEST(test_a_token_sees_its_project_until_it_is_revoked),
		TEST(test_the_budget_fills_again),
		TEST(test_the_quota_of_balancers),
		TEST(test_what_the_model_lacks_says_so),
		TEST(test_an_action_takes_its_time),
		TEST(test_deletion_as_it_was),
		TEST(test_actions_that_fail_or_hang),
		TEST(test_a_locked_resource),
		TEST(test_a_balancer_gives_its_primary_ips_back),
		TEST(test_primary_ips_that_a_balancer_cannot_have),
		TEST(test_the_observer_sees_who_changed_what),
		TEST(test_a_copy_is_a_snapshot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
