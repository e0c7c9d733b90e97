/* Tests what actors and checks see of the model of kube-apiserver, and what happens to a server:
 * compaction, restarts, restores, a watch cache that is behind. Its answers to requests are
 * compared with those of kube-apiserver by tests/scenario/test_model_kube.py. */
#include "kube.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"

#define START_NS (INT64_C(1790000000) * 1000000000)
#define SECOND_NS INT64_C(1000000000)

struct world {
	struct kube_model *m;
	struct server *server;
	struct buf pushed; /* the lines of all streams */
	unsigned n_ended;
	unsigned n_changes;
	char last[200]; /* "USER_AGENT METHOD NAME VERSION-BEFORE>VERSION-AFTER" */
	struct server_response answer;
	uint64_t next_id;
};

static void
push(void *arg, uint64_t stream, struct str bytes)
{
	struct world *w = arg;

	(void)stream;
	buf_add_str(&w->pushed, bytes);
}

static void
end(void *arg, uint64_t stream)
{
	struct world *w = arg;

	(void)stream;
	w->n_ended++;
}

static void
note_change(void *arg, const struct kube_model_change *change)
{
	struct world *w = arg;
	const struct kube_model_object *one = change->after ? change->after : change->before;

	w->n_changes++;
	snprintf(w->last, sizeof(w->last), "%" STR_FMT " %s %" STR_FMT " %lld>%lld",
	         STR_ARG(change->user_agent), change->method, STR_ARG(one->name),
	         change->before ? (long long)change->before->version : 0LL,
	         change->after ? (long long)change->after->version : 0LL);
}

static int
make(void **state)
{
	struct world *w = test_calloc(1, sizeof(*w));

	w->m = kube_model_new(START_NS, 7);
	w->server = kube_model_server(w->m);
	w->server->sink = (struct server_sink){ push, end, w };
	kube_model_add_token(w->m, STR("token"));
	kube_model_set_observer(w->m, note_change, w);
	w->pushed = BUF_INIT(1 << 20);
	w->answer = (struct server_response){ .headers = BUF_INIT(4096),
		                              .body = BUF_INIT(1 << 20) };
	*state = w;
	return 0;
}

static int
unmake(void **state)
{
	struct world *w = *state;

	w->server->ops->free(w->server);
	buf_fini(&w->pushed);
	buf_fini(&w->answer.headers);
	buf_fini(&w->answer.body);
	test_free(w);
	return 0;
}

/* A request with a token. */
static int
ask(struct world *w, const char *token, const char *method, const char *target, const char *body)
{
	struct server_request sent = { .id = ++w->next_id,
		                       .method = method,
		                       .target = str_c(target),
		                       .accept = STR_EMPTY,
		                       .content_type = STR("application/merge-patch+json"),
		                       .token = str_c(token),
		                       .user_agent = STR("ccmd"),
		                       .body = str_c(body) };

	buf_reset(&w->answer.headers);
	buf_reset(&w->answer.body);
	w->answer.status = 0;
	w->answer.is_stream = false;
	w->server->ops->handle(w->server, &sent, &w->answer);
	return w->answer.status;
}

static bool
answered(const struct world *w, const char *part)
{
	return str_contains(buf_str(&w->answer.body), str_c(part));
}

static bool
pushed(const struct world *w, const char *part)
{
	return str_contains(buf_str(&w->pushed), str_c(part));
}

static const struct kube_model_object *
add_node(struct world *w, const char *name)
{
	struct kube_model_new_node wanted = { .name = str_c(name), .ip = STR("10.0.0.2") };

	assert_int_equal(kube_model_add_node(w->m, &wanted), 201);
	return kube_model_find(w->m, KUBE_MODEL_NODE, STR_EMPTY, str_c(name));
}

static void
watch_nodes_from(struct world *w, int64_t version)
{
	char target[200];

	snprintf(target, sizeof(target),
	         "/api/v1/nodes?watch=true&allowWatchBookmarks=true&timeoutSeconds=300"
	         "&resourceVersion=%lld",
	         (long long)version);
	assert_int_equal(ask(w, "token", "GET", target, ""), 200);
}

static void
test_a_node_as_its_kubelet_registers_it(void **state)
{
	struct world *w = *state;
	const struct kube_model_object *node = add_node(w, "n1");

	assert_true(str_contains(node->json,
	                         STR("node.cloudprovider.kubernetes.io/uninitialized")));
	assert_true(str_contains(node->json, STR("\"provided-node-ip\"")) ||
	            str_contains(node->json, STR("provided-node-ip\":\"10.0.0.2\"")));
	assert_non_null(kube_model_find(w->m, KUBE_MODEL_LEASE, STR("kube-node-lease"), STR("n1")));
	assert_int_equal(kube_model_set_ready(w->m, STR("n1"), "Unknown"), 200);
	node = kube_model_at(w->m, KUBE_MODEL_NODE, 0);
	assert_true(str_contains(node->json, STR("\"status\":\"Unknown\"")));
}

static void
test_a_write_is_reported_with_its_author(void **state)
{
	struct world *w = *state;
	int64_t version = add_node(w, "n1")->version;
	char wanted[100];

	assert_int_equal(ask(w, "token", "PATCH", "/api/v1/nodes/n1",
	                     "{\"metadata\":{\"labels\":{\"a\":\"b\"}}}"),
	                 200);
	snprintf(wanted, sizeof(wanted), "ccmd PATCH n1 %lld>%lld", (long long)version,
	         (long long)kube_model_version(w->m));
	assert_string_equal(w->last, wanted);
	assert_int_equal(ask(w, "token", "PATCH", "/api/v1/nodes/n1",
	                     "{\"metadata\":{\"labels\":{\"a\":\"b\"}}}"),
	                 200);
	assert_int_equal(w->n_changes, 3);
	assert_int_equal(kube_model_client(w->m, 1)->n_requests, 2);
	assert_int_equal(kube_model_client(w->m, 1)->n_changes, 1);
}

static void
test_only_known_tokens_are_allowed(void **state)
{
	struct world *w = *state;

	assert_int_equal(ask(w, "wrong", "GET", "/api/v1/nodes", ""), 401);
	assert_int_equal(ask(w, "", "GET", "/api/v1/nodes", ""), 403);
	assert_int_equal(ask(w, "", "GET", "/healthz", ""), 200);
	assert_int_equal(ask(w, "token", "GET", "/api/v1/nodes", ""), 200);
	kube_model_revoke_token(w->m, STR("token"));
	assert_int_equal(ask(w, "token", "GET", "/api/v1/nodes", ""), 401);
}

static void
test_a_watch_gets_each_change_once(void **state)
{
	struct world *w = *state;
	const struct kube_model_object *node;

	watch_nodes_from(w, kube_model_version(w->m));
	node = add_node(w, "n1");
	assert_true(pushed(w, "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Node\""));
	assert_false(pushed(w, "Lease"));
	buf_reset(&w->pushed);
	assert_int_equal(kube_model_delete(w->m, "person", node), 200);
	assert_true(pushed(w, "{\"type\":\"DELETED\",\"object\":{\"kind\":\"Node\""));
	assert_false(pushed(w, "ADDED"));
}

static void
test_a_watch_gets_bookmarks_and_ends(void **state)
{
	struct world *w = *state;

	watch_nodes_from(w, kube_model_version(w->m));
	assert_true(w->server->ops->next_ns(w->server) == START_NS + 60 * SECOND_NS);
	w->server->ops->advance(w->server, START_NS + 60 * SECOND_NS);
	assert_false(pushed(w, "BOOKMARK")); /* nothing has changed */
	kube_model_renew_node(w->m, STR("m1"));
	w->server->ops->advance(w->server, START_NS + 120 * SECOND_NS);
	assert_true(pushed(w, "BOOKMARK"));
	w->server->ops->advance(w->server, START_NS + 300 * SECOND_NS);
	assert_int_equal(w->n_ended, 1);
	assert_true(w->server->ops->next_ns(w->server) == CLOCK_FOREVER);
}

static void
test_compaction_ends_old_watches_and_lists(void **state)
{
	struct world *w = *state;
	int64_t old = kube_model_version(w->m);
	char target[200];

	add_node(w, "n1");
	snprintf(target, sizeof(target),
	         "/api/v1/nodes?resourceVersion=%lld&resourceVersionMatch=Exact", (long long)old);
	assert_int_equal(ask(w, "token", "GET", target, ""), 200);
	assert_true(answered(w, "\"items\":[]"));
	kube_model_compact(w->m, kube_model_version(w->m));
	assert_int_equal(ask(w, "token", "GET", target, ""), 410);
	watch_nodes_from(w, old);
	assert_true(answered(w, "\"type\":\"ERROR\"") && answered(w, "\"code\":410"));
	assert_false(w->answer.is_stream);
	watch_nodes_from(w, kube_model_version(w->m));
	assert_true(w->answer.is_stream);
}

static void
test_a_restart_ends_watches(void **state)
{
	struct world *w = *state;
	int64_t old = kube_model_version(w->m);

	watch_nodes_from(w, old);
	add_node(w, "n1");
	kube_model_restart(w->m);
	assert_int_equal(w->n_ended, 1);
	assert_int_equal(kube_model_n_watches(w->m), 0);
	watch_nodes_from(w, old);
	assert_true(answered(w, "\"code\":410"));
}

static void
test_a_cache_that_is_behind(void **state)
{
	struct world *w = *state;
	char target[200];

	watch_nodes_from(w, kube_model_version(w->m));
	kube_model_hold_cache(w->m);
	add_node(w, "n1");
	assert_false(pushed(w, "ADDED"));
	ask(w, "token", "GET", "/api/v1/nodes?resourceVersion=0", "");
	assert_true(answered(w, "\"items\":[]"));
	ask(w, "token", "GET", "/api/v1/nodes", "");
	assert_true(answered(w, "n1"));
	snprintf(target, sizeof(target), "/api/v1/nodes?resourceVersion=%lld",
	         (long long)kube_model_version(w->m));
	assert_int_equal(ask(w, "token", "GET", target, ""), 504);
	kube_model_release_cache(w->m);
	assert_true(pushed(w, "ADDED"));
	assert_int_equal(ask(w, "token", "GET", target, ""), 200);
}

/* The version goes back, so a watch from before the restore is in the future: it is silent until
 * the counter has passed it. */
static void
test_a_restore_from_a_backup(void **state)
{
	struct world *w = *state;
	struct kube_model_backup *backup;
	int64_t before, after;

	add_node(w, "n1");
	before = kube_model_version(w->m);
	backup = kube_model_backup(w->m);
	assert_int_equal(kube_model_delete(w->m, "person", kube_model_at(w->m, KUBE_MODEL_NODE, 0)),
	                 200);
	add_node(w, "n2");
	after = kube_model_version(w->m);
	kube_model_restore(w->m, backup, 0);
	assert_true(kube_model_version(w->m) == before);
	assert_int_equal(kube_model_count(w->m, KUBE_MODEL_NODE), 1);
	assert_true(str_eq_c(kube_model_at(w->m, KUBE_MODEL_NODE, 0)->name, "n1"));
	watch_nodes_from(w, after);
	assert_true(w->answer.is_stream);
	kube_model_change(w->m, "person", kube_model_at(w->m, KUBE_MODEL_NODE, 0),
	                  "{\"metadata\":{\"labels\":{\"a\":\"b\"}}}");
	assert_false(pushed(w, "MODIFIED"));
	add_node(w, "n3");
	add_node(w, "n4");
	assert_true(pushed(w, "n4"));
	kube_model_restore(w->m, backup, 1000);
	assert_true(kube_model_version(w->m) == before + 1000);
	kube_model_backup_free(backup);
}

static void
test_foreign_finalizers(void **state)
{
	struct world *w = *state;

	add_node(w, "n1");
	assert_true(kube_model_add_finalizer(w->m, "person",
	                                     kube_model_at(w->m, KUBE_MODEL_NODE, 0),
	                                     "a.example/b"));
	assert_false(kube_model_add_finalizer(w->m, "person",
	                                      kube_model_at(w->m, KUBE_MODEL_NODE, 0),
	                                      "a.example/b"));
	kube_model_delete(w->m, "person", kube_model_at(w->m, KUBE_MODEL_NODE, 0));
	assert_int_equal(kube_model_count(w->m, KUBE_MODEL_NODE), 1);
	assert_true(kube_model_remove_finalizer(w->m, "person",
	                                        kube_model_at(w->m, KUBE_MODEL_NODE, 0),
	                                        "a.example/b"));
	assert_int_equal(kube_model_count(w->m, KUBE_MODEL_NODE), 0);
}

/* An object that is held stays readable when it has been replaced and compacted. */
static void
test_an_object_is_held(void **state)
{
	struct world *w = *state;
	const struct kube_model_object *node = add_node(w, "n1");

	kube_model_hold(node);
	kube_model_delete(w->m, "person", node);
	kube_model_compact(w->m, kube_model_version(w->m));
	assert_true(str_eq_c(node->name, "n1") && str_contains(node->json, STR("n1")));
	kube_model_release(node);
}

static void
fill(struct world *w)
{
	static const char service[] = "{\"metadata\":{\"name\":\"web\"},\"spec\":{"
				      "\"type\":\"LoadBalancer\",\"ports\":[{\"port\":80}]}}";

	add_node(w, "n1");
	assert_int_equal(ask(w, "token", "POST", "/api/v1/namespaces/default/services", service),
	                 201);
	w->server->ops->advance(w->server, START_NS + SECOND_NS);
	kube_model_renew_node(w->m, STR("n1"));
}

static void
test_same_calls_same_answers(void **state)
{
	struct world *w = *state;
	void *other;
	struct world *o;

	make(&other);
	o = other;
	fill(w);
	fill(o);
	assert_string_equal(w->answer.body.ptr, o->answer.body.ptr);
	for (enum kube_model_kind kind = 0; kind < KUBE_MODEL_N_KINDS; kind++) {
		for (size_t i = 0; i < kube_model_count(w->m, kind); i++)
			assert_true(str_eq(kube_model_at(w->m, kind, i)->json,
			                   kube_model_at(o->m, kind, i)->json));
	}
	unmake(&other);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make, unmake)
	const struct CMUnitTest tests[] = {
		TEST(test_a_node_as_its_kubelet_registers_it),
		TEST(test_a_write_is_reported_with_its_author),
		TEST(test_only_known_tokens_are_allowed),
		TEST(test_a_watch_gets_each_change_once),
		TEST(test_a_watch_gets_bookmarks_and_ends),
		TEST(test_compaction_ends_old_watches_and_lists),
		TEST(test_a_restart_ends_watches),
		TEST(test_a_cache_that_is_behind),
		TEST(test_a_restore_from_a_backup),
		TEST(test_foreign_finalizers),
		TEST(test_an_object_is_held),
		TEST(test_same_calls_same_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
