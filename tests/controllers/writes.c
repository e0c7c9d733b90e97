/* Writes to a node: what is sent, and what happens when somebody else was faster. The clock jumps
 * to the end of every wait, so that all of it runs on the test's thread. */
#include "controllers/writes.h"

#include "controllers/rig.h"
#include "jumping_clock.h"

#define PATH "/api/v1/nodes/a"

static struct rig *rig;
static struct node *node;
static struct jumping_clock time_now = JUMPING_CLOCK_INIT;

static int
set_up(void **state)
{
	(void)state;
	rig = rig_new();
	rig->call.clock = &time_now.clock;
	rig->kube.clock = &time_now.clock;
	time_now.now_ns = 0;
	node = rig_parse(rig, &(struct rig_node){ .name = "a" });
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	object_unref(&node->object);
	rig_free(rig);
	return 0;
}

static void
say(enum http_method method, unsigned times, int status, const char *body)
{
	fake_api_rule(rig->api,
	              (struct api_rule){
			      .method = method, .times = times, .status = status, .body = body });
}

/* The node that the server has by now. */
static void
server_has(const struct rig_node *live)
{
	say(HTTP_GET, 0, 200, rig_json(rig, live));
}

static size_t
n_sent(enum http_method method)
{
	return fake_api_count(rig->api, method, PATH);
}

static const char *
patch(size_t i)
{
	return fake_api_nth(rig->api, HTTP_PATCH, PATH, i)->body;
}

/* ---- node_write ---- */

/* Sends the version that it sees, and counts. */
static bool
write_version(const struct node_write *w, struct error *err)
{
	(*(int *)w->arg)++;
	return node_write_send(w, NULL, KUBE_PATCH_MERGE, w->node->object.resource_version, NULL,
	                       err);
}

static bool
write_it(unsigned attempts, int *n_calls, struct error *err)
{
	*n_calls = 0;
	return node_write(&(struct node_write){ .env = &rig->env,
	                                        .call = &rig->call,
	                                        .node = node,
	                                        .write = write_version,
	                                        .arg = n_calls,
	                                        .attempts = attempts,
	                                        .pause_ms = 100 },
	                  err);
}

static void
what_works_is_sent_once(void **state)
{
	struct error err;
	int n;

	(void)state;
	assert_true(write_it(5, &n, &err));
	assert_int_equal(n, 1);
	assert_string_equal(patch(0), "7");
	assert_int_equal(n_sent(HTTP_GET), 0);
	assert_int_equal(time_now.now_ns, 0);
}

static void
after_a_conflict_it_is_computed_from_the_live_node(void **state)
{
	struct error err;
	int n;

	(void)state;
	say(HTTP_PATCH, 1, 409, NULL);
	server_has(&(struct rig_node){ .name = "a", .version = "9" });
	assert_true(write_it(5, &n, &err));
	assert_int_equal(n, 2);
	assert_string_equal(patch(0), "7");
	assert_string_equal(patch(1), "9");
	assert_int_equal(n_sent(HTTP_GET), 1);
	assert_in_range(time_now.now_ns, 100 * NS_PER_MS, 200 * NS_PER_MS);
}

static void
attempts_are_bounded(void **state)
{
	struct error err;
	int n;

	(void)state;
	say(HTTP_PATCH, 0, 409, NULL);
	server_has(&(struct rig_node){ .name = "a", .version = "9" });
	assert_false(write_it(3, &n, &err));
	assert_int_equal(err.code, ERR_CONFLICT);
	assert_int_equal(n, 3);
	assert_int_equal(n_sent(HTTP_GET), 2);
}

static void
a_node_that_is_gone_needs_nothing(void **state)
{
	struct error err;
	int n;

	(void)state;
	say(HTTP_PATCH, 0, 404, NULL);
	assert_true(write_it(5, &n, &err));
	assert_int_equal(n, 1);
}

static void
a_node_gone_after_a_conflict_needs_nothing(void **state)
{
	struct error err;
	int n;

	(void)state;
	say(HTTP_PATCH, 0, 409, NULL);
	say(HTTP_GET, 0, 404, NULL);
	assert_true(write_it(5, &n, &err));
	assert_int_equal(n, 1);
}

static void
another_node_of_that_name_is_left_alone(void **state)
{
	struct error err;
	int n;

	(void)state;
	say(HTTP_PATCH, 0, 409, NULL);
	server_has(&(struct rig_node){ .name = "a", .uid = "u-new", .version = "9" });
	assert_true(write_it(5, &n, &err));
	assert_int_equal(n, 1);
}

static void
other_failures_are_passed_up(void **state)
{
	static const struct {
		int status;
		enum err_code code;
	} cases[] = { { 403, ERR_FORBIDDEN }, { 422, ERR_INVALID }, { 500, ERR_UNAVAILABLE } };
	struct error err;
	int n;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		fake_api_forget_rules(rig->api);
		say(HTTP_PATCH, 0, cases[i].status, NULL);
		assert_false(write_it(5, &n, &err));
		assert_int_equal(err.code, cases[i].code);
		assert_int_equal(n, 1);
	}
}

static void
a_failing_read_is_passed_up(void **state)
{
	struct error err;
	int n;

	(void)state;
	say(HTTP_PATCH, 0, 409, NULL);
	say(HTTP_GET, 0, 500, NULL);
	assert_false(write_it(5, &n, &err));
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	assert_non_null(strstr(err.msg, "read after a conflict"));
	fake_api_forget_rules(rig->api);
	say(HTTP_PATCH, 0, 409, NULL);
	say(HTTP_GET, 0, 200, "{\"metadata\":{}}");
	assert_false(write_it(5, &n, &err));
	assert_int_equal(err.code, ERR_INVALID);
}

static void
nothing_is_sent_after_a_cancellation(void **state)
{
	struct error err;
	int n;

	(void)state;
	say(HTTP_PATCH, 0, 409, NULL);
	cancel_fire(rig->cancel);
	assert_false(write_it(5, &n, &err));
	assert_int_equal(err.code, ERR_CANCELLED);
	assert_int_equal(n, 1);
}

/* ---- node_write_send ---- */

static bool
send_patch(struct str *ret_version, struct error *err)
{
	return node_write_send(&(struct node_write){ .env = &rig->env,
	                                             .call = &rig->call,
	                                             .node = node },
	                       "status", KUBE_PATCH_MERGE, STR("{}"), ret_version, err);
}

static void
the_new_version_is_read(void **state)
{
	struct str version = STR_EMPTY;
	struct error err;

	(void)state;
	assert_true(send_patch(&version, &err));
	assert_true(str_eq_c(version, "1001"));
	assert_string_equal(fake_api_nth(rig->api, HTTP_PATCH, PATH, 0)->target, PATH "/status");
}

static void
an_answer_without_a_version_is_an_error(void **state)
{
	static const char *const bodies[] = { "{}", "{\"metadata\":{\"resourceVersion\":7}}", "[]",
		                              "{\"metadata\":{\"resourceVersion\":\"\"}}",
		                              "nonsense" };
	struct str version = STR("untouched");
	struct error err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		fake_api_forget_rules(rig->api);
		say(HTTP_PATCH, 0, 200, bodies[i]);
		assert_false(send_patch(&version, &err));
		assert_true(str_eq_c(version, "untouched"));
	}
}

/* ---- the shutdown taint ---- */

#define HEAD "{\"metadata\":{\"uid\":\"u-a\",\"resourceVersion\":\"7\"},\"spec\":{\"taints\":"
#define KEPT \
	"{\"key\":\"k\",\"value\":\"v\",\"effect\":\"NoExecute\",\"timeAdded\":\"2026-01-01T00:00:00Z\",\"x\":{\"n\":[1]}}"

/* The body sent for a node with these taints; NULL: none was. */
static const char *
taint(const char *taints, bool wanted)
{
	struct node *n = rig_parse(rig, &(struct rig_node){ .name = "a", .taints = taints });
	size_t before = n_sent(HTTP_PATCH);
	struct error err;

	assert_true(write_shutdown_taint(&rig->env, &rig->call, n, wanted, &err));
	object_unref(&n->object);
	assert_in_range(n_sent(HTTP_PATCH) - before, 0, 1);
	return n_sent(HTTP_PATCH) > before ? patch(before) : NULL;
}

static void
the_taint_is_appended(void **state)
{
	(void)state;
	assert_string_equal(taint(NULL, true), HEAD "[" RIG_SHUTDOWN "]}}");
	assert_string_equal(taint(KEPT, true), HEAD "[" KEPT "," RIG_SHUTDOWN "]}}");
	assert_string_equal(fake_api_nth(rig->api, HTTP_PATCH, PATH, 0)->target, PATH);
}

static void
the_taint_is_there_already(void **state)
{
	(void)state;
	assert_null(taint(RIG_SHUTDOWN, true));
	assert_null(taint(KEPT "," RIG_SHUTDOWN, true));
	assert_null(taint("{\"key\":\"" NODE_TAINT_SHUTDOWN
	                  "\",\"value\":\"\",\"effect\":\"NoSchedule\",\"timeAdded\":null}",
	                  true));
}

static void
a_taint_of_that_key_and_effect_is_replaced_in_place(void **state)
{
	const char *valued = "{\"key\":\"" NODE_TAINT_SHUTDOWN
			     "\",\"value\":\"v\",\"effect\":\"NoSchedule\"}," KEPT;
	const char *timed =
		"{\"key\":\"" NODE_TAINT_SHUTDOWN
		"\",\"effect\":\"NoSchedule\",\"timeAdded\":\"2026-01-01T00:00:00Z\"}," KEPT;

	(void)state;
	assert_string_equal(taint(valued, true), HEAD "[" RIG_SHUTDOWN "," KEPT "]}}");
	assert_string_equal(taint(timed, true), HEAD "[" RIG_SHUTDOWN "," KEPT "]}}");
	assert_string_equal(taint(valued, false), HEAD "[" KEPT "]}}");
}

#define OTHER_EFFECT "{\"key\":\"" NODE_TAINT_SHUTDOWN "\",\"effect\":\"NoExecute\"}"

static void
another_effect_is_another_taint(void **state)
{
	(void)state;
	assert_string_equal(taint(OTHER_EFFECT, true),
	                    HEAD "[" OTHER_EFFECT "," RIG_SHUTDOWN "]}}");
	assert_string_equal(taint(OTHER_EFFECT "," RIG_SHUTDOWN, false),
	                    HEAD "[" OTHER_EFFECT "]}}");
	assert_null(taint(OTHER_EFFECT, false));
}

static void
the_taint_is_removed(void **state)
{
	(void)state;
	assert_string_equal(taint(RIG_SHUTDOWN, false), HEAD "null}}");
	assert_string_equal(taint(RIG_SHUTDOWN "," KEPT, false), HEAD "[" KEPT "]}}");
	assert_null(taint(KEPT, false));
	assert_null(taint(NULL, false));
}

static void
after_a_conflict_the_live_taints_count(void **state)
{
	struct error err;

	(void)state;
	say(HTTP_PATCH, 1, 409, NULL);
	server_has(&(struct rig_node){ .name = "a", .version = "9", .taints = KEPT });
	assert_true(write_shutdown_taint(&rig->env, &rig->call, node, true, &err));
	assert_string_equal(
		patch(1),
		"{\"metadata\":{\"uid\":\"u-a\",\"resourceVersion\":\"9\"},\"spec\":{\"taints\":[" KEPT
		"," RIG_SHUTDOWN "]}}");
}

static void
after_a_conflict_nothing_may_be_left_to_do(void **state)
{
	struct error err;

	(void)state;
	say(HTTP_PATCH, 1, 409, NULL);
	server_has(&(struct rig_node){ .name = "a", .version = "9", .taints = RIG_SHUTDOWN });
	assert_true(write_shutdown_taint(&rig->env, &rig->call, node, true, &err));
	assert_int_equal(n_sent(HTTP_PATCH), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_works_is_sent_once),
		TEST(after_a_conflict_it_is_computed_from_the_live_node),
		TEST(attempts_are_bounded),
		TEST(a_node_that_is_gone_needs_nothing),
		TEST(a_node_gone_after_a_conflict_needs_nothing),
		TEST(another_node_of_that_name_is_left_alone),
		TEST(other_failures_are_passed_up),
		TEST(a_failing_read_is_passed_up),
		TEST(nothing_is_sent_after_a_cancellation),
		TEST(the_new_version_is_read),
		TEST(an_answer_without_a_version_is_an_error),
		TEST(the_taint_is_appended),
		TEST(the_taint_is_there_already),
		TEST(a_taint_of_that_key_and_effect_is_replaced_in_place),
		TEST(another_effect_is_another_taint),
		TEST(the_taint_is_removed),
		TEST(after_a_conflict_the_live_taints_count),
		TEST(after_a_conflict_nothing_may_be_left_to_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
