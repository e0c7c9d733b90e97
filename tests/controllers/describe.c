/* What the endpoint says about objects, and which paths name one. */
#include "controllers/describe.h"

#include "base/limits.h"
#include "controllers/rig.h"

static struct rig *rig;

static int
tear_down(void **state)
{
	(void)state;
	rig_free(rig);
	rig = NULL;
	return 0;
}

static struct describe_sources
sources_of_rig(void)
{
	return (struct describe_sources){ .nodes = rig->env.nodes,
		                          .services = rig->env.services,
		                          .node_errors = rig->env.node_errors,
		                          .node = rig->nodes,
		                          .lifecycle = rig->lifecycle,
		                          .service = rig->balancing,
		                          .route = rig->routing };
}

/* path: NULL: all objects in trouble. */
static const char *
describe_path(const char *path)
{
	struct describe_sources sources = sources_of_rig();
	CLEANUP(buf_fini) struct buf json = BUF_INIT(KIB(4));
	struct described what;

	if (path && !described_parse(str_c(path), &what))
		fail_msg("%s names no object", path);
	describe(&sources, path ? &what : NULL, &json);
	return arena_strz(&rig->arena, buf_str(&json));
}

/* The value of ccmd_doctor_problems for the code. */
static void
assert_counted(const char *code, int n)
{
	struct describe_sources sources = sources_of_rig();

	describe_count_problems(&sources);
	rig_assert_metric(rig,
	                  arena_printf(&rig->arena, "ccmd_doctor_problems{code=\"%s\"}", code).ptr,
	                  n);
}

/* ---- paths ---- */

static void
assert_parsed(const char *path, enum described_kind kind, const char *key)
{
	struct described what;

	assert_true(described_parse(str_c(path), &what));
	assert_int_equal(what.kind, kind);
	assert_true(str_eq_c(what.key, key));
}

static void
paths_name_objects(void **state)
{
	(void)state;
	assert_parsed("nodes/worker-1", DESCRIBED_NODE, "worker-1");
	assert_parsed("services/default/web", DESCRIBED_SERVICE, "default/web");
	assert_parsed("routes/10.244.1.0/24", DESCRIBED_ROUTE, "10.244.1.0/24");
	assert_parsed("routes/fd00:10::/64", DESCRIBED_ROUTE, "fd00:10::/64");
}

static void
other_paths_name_none(void **state)
{
	static const char *const paths[] = {
		"",
		"nodes",
		"nodes/",
		"nodes/a/b",
		"node/a",
		"services/a",
		"services/a/",
		"services//b",
		"services/a/b/",
		"services/a/b/c",
		"routes/",
		"routes/10.0.0",
		"routes/10.0.0.0",
		"routes/a/b",
		"pods/a/b",
		"pods/10.0.0.0/8",
		"/nodes/a",
		"Nodes/a",
		"routes/10.0.0.0/",
		"nodes//",
		"services///",
	};
	char longest[300] = "nodes/";
	struct described what;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		if (described_parse(str_c(paths[i]), &what))
			fail_msg("%s names an object", paths[i]);
	}
	memset(longest + 6, 'a', 253);
	assert_true(described_parse(str_c(longest), &what));
	longest[6 + 253] = 'a';
	assert_false(described_parse(str_c(longest), &what));
}

/* ---- answers ---- */

static void
a_standby_says_that_it_does_not_lead(void **state)
{
	CLEANUP(buf_fini) struct buf json = BUF_INIT(KIB(1));
	struct described what = { DESCRIBED_NODE, STR("a") };

	(void)state;
	describe(NULL, &what, &json);
	assert_string_equal(json.ptr, "{\"isLeading\":false}\n");
}

static void
a_node_with_a_held_deletion(void **state)
{
	(void)state;
	rig = rig_new();
	rig_start_lifecycle(rig, &guard_defaults);
	fake_cloud_set(rig->cloud, "w", MACHINE_ON);
	rig_put(rig, &(struct rig_node){ .name = "w", .provider_id = "fake://w" });
	rig_put(rig,
	        &(struct rig_node){ .name = "a", .provider_id = "fake://a", .ready = "Unknown" });
	rig_sync(rig);
	rig_advance_ms(rig, 3000);
	assert_string_equal(
		describe_path("nodes/a"),
		"{\"isLeading\":true,\"isKnown\":true,\"guard\":{\"machine\":\"absent\","
		"\"verdict\":\"unconfirmed\",\"heldBecause\":\"\",\"looks\":1,\"failedLooks\":0,"
		"\"absentLooks\":1,\"lookedSecondsAgo\":3,\"absentForSeconds\":3,"
		"\"nextLookInSeconds\":9,\"deletableInSeconds\":9,\"isDeleted\":false},"
		"\"errors\":[]}\n");
	assert_string_equal(
		describe_path(NULL),
		"{\"isLeading\":true,\"nodes\":[{\"name\":\"a\",\"isKnown\":true,\"guard\":{"
		"\"machine\":\"absent\",\"verdict\":\"unconfirmed\",\"heldBecause\":\"\","
		"\"looks\":1,\"failedLooks\":0,\"absentLooks\":1,\"lookedSecondsAgo\":3,"
		"\"absentForSeconds\":3,\"nextLookInSeconds\":9,\"deletableInSeconds\":9,"
		"\"isDeleted\":false},\"errors\":[]}],\"services\":[],\"leftOut\":0}\n");
	assert_string_equal(describe_path("nodes/w"),
	                    "{\"isLeading\":true,\"isKnown\":true,\"errors\":[]}\n");
	assert_string_equal(describe_path("nodes/none"),
	                    "{\"isLeading\":true,\"isKnown\":false,\"errors\":[]}\n");
}

static void
a_new_node_without_a_machine(void **state)
{
	const char *text;

	(void)state;
	rig = rig_new();
	rig_start_nodes(rig, 1);
	rig_put(rig, &(struct rig_node){ .name = "a", .taints = RIG_UNINITIALIZED });
	rig_sync(rig);
	text = describe_path("nodes/a");
	if (!strstr(text, "\"queue\":{\"state\":\"delayed\",\"failures\":1,\"dueInSeconds\":1,"
	                  "\"waitsForOutage\":false}") ||
	    !strstr(text,
	            "\"errors\":[{\"work\":\"sync\",\"error\":\"failed to get instance metadata "
	            "for node a: no machine of the cloud is this node\","
	            "\"failedSecondsAgo\":0}]"))
		fail_msg("%s", text);
	assert_counted("CCMD041", 1);
	fake_cloud_set(rig->cloud, "a", MACHINE_ON);
	rig_run(rig, 1);
	assert_non_null(strstr(describe_path("nodes/a"), "\"errors\":[]"));
	assert_counted("CCMD041", 0);
}

static void
a_node_that_cannot_be_looked_at(void **state)
{
	const char *text;

	(void)state;
	rig = rig_new();
	rig_start_lifecycle(rig, &guard_defaults);
	fake_cloud_fail(rig->cloud, ERR_UNAVAILABLE);
	rig_put(rig,
	        &(struct rig_node){ .name = "a", .provider_id = "fake://a", .ready = "Unknown" });
	rig_sync(rig);
	text = describe_path("nodes/a");
	if (!strstr(text, "\"failedLooks\":1") || !strstr(text, "\"nextLookInSeconds\":5") ||
	    !strstr(text, "\"errors\":[{\"work\":\"lifecycle\",\"error\":\""))
		fail_msg("%s", text);
	rig_remove(rig, "a");
	assert_non_null(strstr(describe_path("nodes/a"), "\"errors\":[]"));
	rig_put(rig,
	        &(struct rig_node){ .name = "b", .provider_id = "fake://b", .ready = "Unknown" });
	rig_advance_ms(rig, 500);
	assert_non_null(strstr(describe_path("nodes/b"), "\"work\":\"lifecycle\""));
	fake_cloud_fail(rig->cloud, ERR_NONE);
	rig_run(rig, 10);
	assert_non_null(strstr(describe_path("nodes/b"), "\"errors\":[]"));
}

/* No queue has the work that a node which is Ready and initialised needs. */
static void
a_node_that_is_ready_and_has_failures(void **state)
{
	struct address address = { STR("InternalIP"), STR("10.0.0.1") };
	const struct rig_node bad = {
		.name = "a",
		.provider_id = "fake://a",
		.taints = RIG_SHUTDOWN,
		.annotations = "\"alpha.kubernetes.io/provided-node-ip\":\"10.0.0.9\"",
	};
	const char *text;

	(void)state;
	rig = rig_new();
	rig_start_nodes(rig, 1);
	rig_start_lifecycle(rig, &guard_defaults);
	fake_cloud_set(rig->cloud, "a",
	               (struct fake_machine){ .presence = PRESENCE_PRESENT,
	                                      .power = POWER_ON,
	                                      .addresses = &address,
	                                      .n_addresses = 1 });
	fake_api_rule(rig->api, (struct api_rule){ .method = HTTP_PATCH, .code = ERR_FORBIDDEN });
	rig_put(rig, &bad);
	rig_sync(rig);
	rig_advance_ms(rig, 500);
	text = describe_path("nodes/a");
	if (!strstr(text, "{\"work\":\"addresses\",\"error\":\"") ||
	    !strstr(text, "\"nextInSeconds\":300}") ||
	    !strstr(text, "{\"work\":\"lifecycle\",\"error\":\"") ||
	    !strstr(text, "\"nextInSeconds\":5}"))
		fail_msg("%s", text);
	fake_api_forget_rules(rig->api);
	rig_put(rig, &(struct rig_node){ .name = "a", .version = "8", .provider_id = "fake://a" });
	rig_run(rig, RIG_REFRESH_S + 1);
	assert_non_null(strstr(describe_path("nodes/a"), "\"errors\":[]"));
}

static void
a_service_whose_balancer_fails(void **state)
{
	const char *text;

	(void)state;
	rig = rig_new();
	rig_start_services(rig, 1, /*selects=*/false);
	rig_put(rig, &(struct rig_node){ .name = "a", .provider_id = "fake://a" });
	fake_balancers_fault(rig->balancers, (struct fake_fault){ .call = "ensure",
	                                                          .code = ERR_UNAVAILABLE,
	                                                          .times = 1 });
	fake_services_put(rig->services, &(struct fake_service){ .name = "web" });
	rig_sync_services(rig);
	rig_deliver(rig);
	text = describe_path("services/default/web");
	assert_non_null(strstr(describe_path(NULL),
	                       "\"services\":[{\"name\":\"default/web\",\"isKnown\":true,"));
	if (!strstr(text, "\"queue\":{\"state\":\"delayed\",\"failures\":1,") ||
	    !strstr(text, "\"memory\":{\"hasBalancer\":true,\"error\":\"") ||
	    strstr(text, "\"error\":\"\"") || !strstr(text, "\"failedSecondsAgo\":0"))
		fail_msg("%s", text);
	assert_counted("CCMD060", 1);
	rig_run(rig, 60);
	assert_counted("CCMD060", 0);
	text = describe_path("services/default/web");
	if (!strstr(text, "\"queue\":{\"state\":\"idle\",\"failures\":0}") ||
	    !strstr(text, "\"memory\":{\"hasBalancer\":true,\"error\":\"\"}"))
		fail_msg("%s", text);
}

static void
a_route_that_cannot_be_created(void **state)
{
	const char *text;

	(void)state;
	rig = rig_new();
	rig_start_routes(rig, /*period_s=*/10, (struct fake_routes_config){ .families = 3 });
	fake_routes_fault(rig->routes,
	                  (struct fake_fault){ .call = "create", .code = ERR_UNAVAILABLE });
	rig_put(rig, &(struct rig_node){ .name = "a",
	                                 .provider_id = "fake://a",
	                                 .pod_cidrs = "\"10.244.1.0/24\"" });
	rig_sync(rig);
	rig_run(rig, 1);
	text = describe_path("routes/10.244.1.0/24");
	if (!strstr(text, "\"isKnown\":true,\"lastRun\":{\"endedSecondsAgo\":1,") ||
	    strstr(text, "\"error\":\"\"") || !strstr(text, "\"failures\":1,\"heldRemovals\":0"))
		fail_msg("%s", text);
	assert_non_null(strstr(describe_path("routes/10.244.9.0/24"), "\"isKnown\":false"));
	assert_counted("CCMD050", 1);
}

#define TEST(name) cmocka_unit_test_teardown(name, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(paths_name_objects),
		TEST(other_paths_name_none),
		TEST(a_standby_says_that_it_does_not_lead),
		TEST(a_node_with_a_held_deletion),
		TEST(a_new_node_without_a_machine),
		TEST(a_node_that_cannot_be_looked_at),
		TEST(a_node_that_is_ready_and_has_failures),
		TEST(a_service_whose_balancer_fails),
		TEST(a_route_that_cannot_be_created),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
