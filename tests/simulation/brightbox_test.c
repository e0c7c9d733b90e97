/* Tests what takes time in the model of the Brightbox API, and what actors and checks see of it.
 * Its answers to requests are compared with those of tests/sim by a scenario. */
#include "brightbox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/json.h"

#define START_NS (INT64_C(1790000000) * 1000000000)
#define SECOND_NS INT64_C(1000000000)
#define NEW_BALANCER \
	"{\"name\":\"x\",\"listeners\":[],\"healthcheck\":{\"type\":\"tcp\",\"port\":80}}"

struct world {
	struct brightbox *b;
	struct brightbox_account *a;
	int64_t now_ns;
	unsigned n_changes;
	char last[200]; /* "CLIENT COMMAND BEFORE>AFTER" */
};

static void
note_change(void *arg, const struct brightbox_change *change)
{
	struct world *w = arg;

	w->n_changes++;
	snprintf(w->last, sizeof(w->last), "%" STR_FMT " %" STR_FMT " %s>%s",
	         STR_ARG(change->client), STR_ARG(change->command), change->before ? "one" : "none",
	         change->after ? "one" : "none");
}

static int
make(void **state)
{
	struct world *w = test_calloc(1, sizeof(*w));

	w->now_ns = START_NS;
	w->b = brightbox_new(START_NS, 7);
	w->a = brightbox_add_account(w->b, "Example");
	brightbox_set_client(w->b, "cli-aaaaa", "secret", w->a);
	brightbox_set_observer(w->b, note_change, w);
	brightbox_settings(w->b)->change_min_ns = brightbox_settings(w->b)
	                                                  ->change_max_ns = SECOND_NS;
	*state = w;
	return 0;
}

static int
unmake(void **state)
{
	struct world *w = *state;

	brightbox_server(w->b)->ops->free(brightbox_server(w->b));
	test_free(w);
	return 0;
}

static int
request(struct world *w, const char *method, const char *target, const char *body)
{
	return brightbox_request(w->b, w->a, method, target, str_c(body));
}

static void
pass(struct world *w, int64_t ns)
{
	w->now_ns += ns;
	brightbox_server(w->b)->ops->advance(brightbox_server(w->b), w->now_ns);
}

/* A request with a client's token; token NULL: for a token, which is written to `ret`. */
static int
ask(struct world *w, const char *token, const char *target, char *ret, size_t size)
{
	struct server_response answer = { .headers = BUF_INIT(4096), .body = BUF_INIT(1 << 20) };
	struct server_request sent = { .method = token ? "GET" : "POST",
		                       .target = str_c(target),
		                       .token = str_c(token),
		                       /* cli-aaaaa:secret */
		                       .basic = token ? STR_EMPTY : STR("Y2xpLWFhYWFhOnNlY3JldA=="),
		                       .body = token ? STR_EMPTY
		                                     : STR("grant_type=client_credentials") };
	yyjson_doc *doc = NULL;
	struct error err;

	brightbox_server(w->b)->ops->handle(brightbox_server(w->b), &sent, &answer);
	assert_true(json_parse(buf_str(&answer.body), &doc, &err));
	snprintf(ret, size, "%" STR_FMT,
	         STR_ARG(json_view(yyjson_doc_get_root(doc), token ? "error" : "access_token")));
	yyjson_doc_free(doc);
	buf_fini(&answer.headers);
	buf_fini(&answer.body);
	return answer.status;
}

static struct brightbox_balancer *
add_balancer(struct world *w)
{
	assert_int_equal(request(w, "POST", "/load_balancers", NEW_BALANCER), 202);
	return BRIGHTBOX_BALANCER_AT(w->a, w->a->n_of[BRIGHTBOX_BALANCER] - 1);
}

static int
act(struct world *w, const char *method, const struct brightbox_object *o, const char *collection,
    const char *verb, const char *body)
{
	char target[100];

	snprintf(target, sizeof(target), "/%s/%" STR_FMT "%s", collection, STR_ARG(o->id), verb);
	return request(w, method, target, body);
}

static void
test_a_balancer_is_built_and_deleted_after_a_delay(void **state)
{
	struct world *w = *state;
	struct brightbox_balancer *lb = add_balancer(w);

	assert_string_equal(w->last, " POST load_balancers none>one");
	assert_true(str_eq_c(lb->status, "creating"));
	assert_int_equal(brightbox_server(w->b)->ops->next_ns(brightbox_server(w->b)),
	                 START_NS + SECOND_NS);
	pass(w, SECOND_NS);
	assert_true(str_eq_c(lb->status, "active"));
	assert_int_equal(act(w, "DELETE", &lb->base, "load_balancers", "", ""), 202);
	assert_true(str_eq_c(lb->status, "deleting"));
	assert_int_equal(act(w, "PUT", &lb->base, "load_balancers", "", "{}"), 409);
	pass(w, SECOND_NS);
	assert_true(str_eq_c(lb->status, "deleted"));
	pass(w, 3599 * SECOND_NS);
	assert_int_equal(w->a->n_of[BRIGHTBOX_BALANCER], 1);
	pass(w, SECOND_NS);
	assert_int_equal(w->a->n_of[BRIGHTBOX_BALANCER], 0);
	assert_string_equal(w->last, " DELETE load_balancers/{id} one>none");
}

static void
test_a_cloud_ip_is_free_when_its_balancer_is_gone(void **state)
{
	struct world *w = *state;
	struct brightbox_balancer *lb = add_balancer(w);
	struct brightbox_cloud_ip *ip;
	char body[100];

	assert_int_equal(request(w, "POST", "/cloud_ips", "{}"), 201);
	ip = BRIGHTBOX_CLOUD_IP_AT(w->a, 0);
	snprintf(body, sizeof(body), "{\"destination\":\"%" STR_FMT "\"}", STR_ARG(lb->base.id));
	assert_int_equal(act(w, "POST", &ip->base, "cloud_ips", "/map", body), 202);
	assert_int_equal(ip->balancer.len, 0);
	pass(w, SECOND_NS);
	assert_true(str_eq(ip->balancer, lb->base.id));
	assert_int_equal(act(w, "DELETE", &ip->base, "cloud_ips", "", ""), 409);
	assert_int_equal(act(w, "DELETE", &lb->base, "load_balancers", "", ""), 202);
	assert_true(str_eq(ip->balancer, lb->base.id));
	pass(w, SECOND_NS);
	assert_int_equal(ip->balancer.len, 0);
	brightbox_settings(w->b)->never_maps = true;
	lb = add_balancer(w);
	snprintf(body, sizeof(body), "{\"destination\":\"%" STR_FMT "\"}", STR_ARG(lb->base.id));
	assert_int_equal(act(w, "POST", &ip->base, "cloud_ips", "/map", body), 202);
	pass(w, 60 * SECOND_NS);
	assert_true(str_eq_c(ip->status, "unmapped"));
}

static void
test_a_domain_is_pending_at_first(void **state)
{
	struct world *w = *state;
	struct brightbox_balancer *lb = add_balancer(w);

	assert_int_equal(act(w, "PUT", &lb->base, "load_balancers", "",
	                     "{\"domains\":[\"a.example\"]}"),
	                 202);
	assert_true(str_eq_c(lb->domains[0].status, "pending"));
	pass(w, SECOND_NS);
	assert_true(str_eq_c(lb->domains[0].status, "valid"));
}

static void
test_a_token_ends(void **state)
{
	struct world *w = *state;
	char token[100], error[100];

	assert_int_equal(ask(w, NULL, "/token", token, sizeof(token)), 200);
	assert_ptr_equal(brightbox_account_of(w->b, str_c(token)), w->a);
	assert_int_equal(ask(w, token, "/1.0/accounts", error, sizeof(error)), 200);
	pass(w, 7200 * SECOND_NS);
	assert_int_equal(ask(w, token, "/1.0/accounts", error, sizeof(error)), 401);
	assert_string_equal(error, "expired_token");
	assert_null(brightbox_account_of(w->b, str_c(token)));
	assert_int_equal(ask(w, NULL, "/token", token, sizeof(token)), 200);
	brightbox_revoke_tokens(w->b, "cli-aaaaa");
	assert_int_equal(ask(w, token, "/1.0/accounts", error, sizeof(error)), 401);
	assert_string_equal(error, "invalid_token");
	brightbox_set_client(w->b, "cli-aaaaa", "other", w->a);
	assert_int_equal(ask(w, NULL, "/token", token, sizeof(token)), 401);
}

static void
test_limits_and_what_is_stuck(void **state)
{
	struct world *w = *state;
	struct brightbox_balancer *lb = add_balancer(w);

	w->a->limits[BRIGHTBOX_BALANCER] = 1;
	assert_int_equal(request(w, "POST", "/load_balancers", NEW_BALANCER), 403);
	lb->base.is_stuck = true;
	assert_int_equal(act(w, "DELETE", &lb->base, "load_balancers", "", ""), 409);
}

static void
test_a_server_is_deleted_and_forgotten(void **state)
{
	struct world *w = *state;
	struct brightbox_server *server = brightbox_add_server(w->b, w->a);

	assert_int_equal(act(w, "DELETE", &server->base, "servers", "", ""), 202);
	assert_true(str_eq_c(server->status, "deleting"));
	pass(w, SECOND_NS);
	assert_true(str_eq_c(server->status, "deleted"));
	assert_int_equal(act(w, "GET", &server->base, "servers", "", ""), 200);
	brightbox_forget_server(w->b, w->a, server);
	assert_string_equal(w->last, " forget server one>none");
	assert_int_equal(act(w, "GET", &server->base, "servers", "", ""), 404);
}

static void
test_what_it_does_not_know_is_named(void **state)
{
	struct world *w = *state;

	assert_int_equal(request(w, "GET", "/images", ""), 501);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_balancer_is_built_and_deleted_after_a_delay,
		                                make, unmake),
		cmocka_unit_test_setup_teardown(test_a_cloud_ip_is_free_when_its_balancer_is_gone,
		                                make, unmake),
		cmocka_unit_test_setup_teardown(test_a_domain_is_pending_at_first, make, unmake),
		cmocka_unit_test_setup_teardown(test_a_token_ends, make, unmake),
		cmocka_unit_test_setup_teardown(test_limits_and_what_is_stuck, make, unmake),
		cmocka_unit_test_setup_teardown(test_a_server_is_deleted_and_forgotten, make,
		                                unmake),
		cmocka_unit_test_setup_teardown(test_what_it_does_not_know_is_named, make, unmake),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
