/* When routes are made and removed, how often the cloud is asked, and which conditions nodes get.
 */
#include "base/limits.h"
#include "base/metrics.h"
#include "controllers/pace.h"
#include "controllers/rig.h"
#include "fake_clock.h"

#define CIDR_A "10.244.1.0/24"
#define CIDR_B "10.244.2.0/24"
#define CIDR_V6 "fd00:10:1::/64"
#define ROUTED "\"status\":\"False\",\"reason\":\"RouteCreated\""
#define CNI_IS_UP "\"status\":\"False\",\"reason\":\"CiliumIsUp\""
#define MISSING "\"status\":\"True\",\"reason\":\"NoRouteCreated\""

enum {
	PERIOD_S = 10,
	RETRY_S = 14, /* the period and up to two fifths, after a failure */
	IDLE_S = 3600,
};

static struct rig *rig;

static const struct rig_node node_a = { .name = "a", .pod_cidrs = "\"" CIDR_A "\"" };
static const struct rig_node node_b = { .name = "b", .pod_cidrs = "\"" CIDR_B "\"" };

static const struct fake_routes_config both = { .families = 3, .idle_period_ns = 0 };
static const struct fake_routes_config idle = { .families = 3,
	                                        .idle_period_ns = IDLE_S * NS_PER_SEC };
static const struct fake_routes_config only_v4 = { .families = 1 };

static int
tear_down(void **state)
{
	(void)state;
	rig_free(rig);
	return 0;
}

static void
start(const struct fake_routes_config *config)
{
	rig = rig_new();
	rig_start_routes(rig, PERIOD_S, *config);
}

static void
begin(void)
{
	rig_sync(rig);
	rig_run(rig, 1);
}

static size_t
calls(const char *begin_with)
{
	return fake_routes_calls(rig->routes, begin_with);
}

static void
add_route(const char *node, const char *cidr)
{
	fake_routes_add(rig->routes, (struct route){ .target_node = str_c(node),
	                                             .destination_cidr = str_c(cidr) });
}

/* Runs so far, as they are counted for people. */
static int64_t
counted_runs(void)
{
	CLEANUP(buf_fini) struct buf all = BUF_INIT(MIB(1));
	const struct str name = STR("route_controller_route_sync_total{");
	struct str series, count;
	int64_t one, n = 0;

	metrics_write_page(&all, METRICS_MAIN, METRICS_TEXT);
	for (struct str line, rest = buf_str(&all); str_split(&rest, '\n', &line);) {
		if (!str_starts(line, name))
			continue;
		assert_true(str_cut(line, ' ', &series, &count));
		assert_true(str_to_i64(count, 0, INT64_MAX, &one));
		n += one;
	}
	return n;
}

static size_t
n_patches(void)
{
	return fake_api_count(rig->api, HTTP_PATCH, "/api/v1/nodes/");
}

static const char *
patch(size_t i)
{
	return fake_api_nth(rig->api, HTTP_PATCH, "/api/v1/nodes/", i)->body;
}

static void
put_version(struct rig_node node, const char *version)
{
	node.version = version;
	rig_put(rig, &node);
}

/* As the node is when our condition has come back. */
static void
put_routed(struct rig_node node, const char *version)
{
	node.network = ROUTED;
	put_version(node, version);
}

/* ---- what is done ---- */

static void
every_pod_cidr_gets_a_route_and_every_node_its_condition(void **state)
{
	(void)state;
	start(&both);
	rig_put(rig,
	        &(struct rig_node){ .name = "a", .pod_cidrs = "\"" CIDR_A "\",\"" CIDR_V6 "\"" });
	rig_put(rig, &node_b);
	rig_put(rig, &(struct rig_node){ .name = "bare" });
	begin();
	assert_true(fake_routes_has(rig->routes, "a", CIDR_A));
	assert_true(fake_routes_has(rig->routes, "a", CIDR_V6));
	assert_true(fake_routes_has(rig->routes, "b", CIDR_B));
	assert_int_equal(calls("list"), 1);
	assert_int_equal(calls("create"), 3);
	assert_int_equal(n_patches(), 2);
	assert_int_equal(fake_api_count(rig->api, HTTP_PATCH, "/api/v1/nodes/b/status"), 1);
	assert_non_null(strstr(patch(0), "\"status\":{\"conditions\":[{\"type\":"
	                                 "\"NetworkUnavailable\",\"status\":\"False\",\"reason\":"
	                                 "\"RouteCreated\",\"message\":"
	                                 "\"RouteController created a route\""));
}

static void
nothing_is_written_when_all_is_right(void **state)
{
	(void)state;
	start(&both);
	put_routed(node_a, "7");
	add_route("a", CIDR_A);
	begin();
	rig_run(rig, 600);
	assert_int_equal(n_patches(), 0);
	assert_int_equal(calls("create"), 0);
	assert_int_equal(calls("remove"), 0);
	assert_in_range(calls("list"), 55, 62); /* every period */
}

static void
routes_of_others_are_left_alone(void **state)
{
	(void)state;
	start(&both);
	rig_put(rig, &(struct rig_node){ .name = "bare" });
	add_route("gone", "10.244.9.0/24");  /* ours */
	add_route("", "10.244.8.0/24");      /* ours */
	add_route("gone", "fd00:10:9::/64"); /* ours */
	add_route("gone", "192.168.0.0/24");
	add_route("gone", "10.0.0.0/8");
	add_route("gone", "10.244.0.0/15"); /* wider, though it begins there */
	add_route("gone", "10.245.255.0/24");
	add_route("gone", "nonsense");
	fake_routes_add(rig->routes, (struct route){ .target_node = STR("gone"),
	                                             .destination_cidr = STR("10.244.7.0/24"),
	                                             .is_fixed = true });
	begin();
	assert_int_equal(calls("remove"), 3);
	assert_int_equal(fake_routes_count(rig->routes), 6);
}

static void
a_blackhole_is_removed_and_created_again(void **state)
{
	(void)state;
	start(&both);
	rig_put(rig, &node_a);
	fake_routes_add(rig->routes, (struct route){ .target_node = STR("a"),
	                                             .destination_cidr = STR(CIDR_A),
	                                             .is_blackhole = true });
	begin();
	assert_int_equal(calls(NULL), 3);
	assert_string_equal(fake_routes_nth(rig->routes, 1), "remove a " CIDR_A);
	assert_string_equal(fake_routes_nth(rig->routes, 2), "create a " CIDR_A);
	assert_true(fake_routes_has(rig->routes, "a", CIDR_A));
}

static void
a_cidr_that_moved_is_removed_first(void **state)
{
	(void)state;
	start(&both);
	rig_put(rig, &node_a);
	add_route("b", CIDR_A);
	begin();
	assert_string_equal(fake_routes_nth(rig->routes, 1), "remove b " CIDR_A);
	assert_string_equal(fake_routes_nth(rig->routes, 2), "create a " CIDR_A);
}

static void
routes_are_made_eight_at_a_time(void **state)
{
	(void)state;
	start(&both);
	for (int i = 0; i < 20; i++) {
		char name[16], cidrs[32];

		(void)snprintf(name, sizeof(name), "n%d", i);
		(void)snprintf(cidrs, sizeof(cidrs), "\"10.244.%d.0/24\"", i);
		rig_put(rig, &(struct rig_node){ .name = name, .pod_cidrs = cidrs });
	}
	fake_routes_fault(rig->routes, (struct fake_fault){ .call = "create", .hangs = true });
	store_end_list(rig->env.nodes);
	rig_settle(rig);
	fake_clock_advance(rig->fake, 200 * NS_PER_MS);
	rig_settle_with(rig, 7); /* eight wait, and the thread that waits for them is not seen */
	assert_int_equal(calls("create"), 8);
	fake_routes_forget_faults(rig->routes);
	rig_settle(rig);
	assert_int_equal(calls("create"), 20);
	assert_int_equal(fake_routes_count(rig->routes), 20);
	assert_in_range(fake_routes_most_at_once(rig->routes), 8, 8);
}

/* ---- when ---- */

static void
nodes_wake_it_immediately(void **state)
{
	(void)state;
	start(&idle);
	put_routed(node_a, "7");
	add_route("a", CIDR_A);
	begin();
	fake_routes_forget_calls(rig->routes);
	rig_put(rig, &node_b); /* comes */
	rig_run(rig, 1);
	assert_true(fake_routes_has(rig->routes, "b", CIDR_B));
	rig_remove(rig, "b"); /* goes */
	rig_run(rig, 1);
	assert_false(fake_routes_has(rig->routes, "b", CIDR_B));
	put_routed((struct rig_node){ .name = "a", .pod_cidrs = "\"" CIDR_B "\"" }, "8");
	rig_run(rig, 1); /* has another CIDR */
	assert_true(fake_routes_has(rig->routes, "a", CIDR_B));
	assert_false(fake_routes_has(rig->routes, "a", CIDR_A));
	assert_int_equal(fake_routes_count(rig->routes), 1);
	assert_int_equal(calls("list"), 3);
}

static void
an_idle_cluster_costs_nothing(void **state)
{
	int64_t before = counted_runs();

	(void)state;
	start(&idle);
	put_routed(node_a, "7");
	add_route("a", CIDR_A);
	begin();
	fake_routes_forget_calls(rig->routes);
	for (int i = 0; i < 50; i++) { /* nodes live */
		char version[16];

		(void)snprintf(version, sizeof(version), "%d", 10 + i);
		put_routed((struct rig_node){ .name = "a",
		                              .pod_cidrs = "\"" CIDR_A "\"",
		                              .ready = i % 2 ? "True" : "False" },
		           version);
		rig_run(rig, 60);
	}
	assert_int_equal(calls(NULL), 0);
	assert_int_equal(counted_runs(), before + 1);
	rig_run(rig, IDLE_S);
	assert_int_equal(calls(NULL), 1);
	assert_int_equal(counted_runs(), before + 2);
}

static void
many_changes_are_a_run_a_second(void **state)
{
	(void)state;
	start(&idle);
	begin();
	for (int i = 0; i < 100; i++) {
		char version[16];

		(void)snprintf(version, sizeof(version), "%d", 10 + i);
		if (i % 2 == 0)
			put_version(node_b, version);
		else
			rig_remove(rig, "b");
		rig_advance_ms(rig, 100);
	}
	assert_in_range(calls("list"), 5, 12);
}

static void
a_provider_may_wake_it(void **state)
{
	(void)state;
	start(&idle);
	begin();
	route_controller_wake(rig->routing, /*is_outage_over=*/false);
	rig_run(rig, 1);
	assert_int_equal(calls("list"), 2);
}

/* ---- what goes wrong ---- */

static void
a_failure_is_reported_and_tried_less_and_less_often(void **state)
{
	(void)state;
	start(&idle);
	rig_put(rig, &node_a);
	put_routed(node_b, "7");
	fake_routes_fault(rig->routes,
	                  (struct fake_fault){ .call = "create a", .code = ERR_INVALID });
	begin();
	assert_true(fake_routes_has(rig->routes, "b",
	                            CIDR_B)); /* the other routes are not affected */
	assert_int_equal(fake_api_events(rig->api, "FailedToCreateRoute", "a"), 1);
	assert_non_null(strstr(fake_api_last_event(rig->api, "FailedToCreateRoute"),
	                       "Could not create route u-a " CIDR_A " for node a after 0s: "
	                       "the fake cloud fails"));
	assert_int_equal(n_patches(), 1);
	assert_non_null(strstr(patch(0), "\"status\":\"True\",\"reason\":\"NoRouteCreated\""));
	rig_run(rig, 700); /* 10, 20, 40 … */
	fake_routes_forget_calls(rig->routes);
	rig_run(rig, 3000);
	assert_in_range(calls("create a"), 10, 14); /* every 5 min, less up to a quarter */
	fake_routes_forget_faults(rig->routes);
	rig_run(rig, 301);
	assert_true(fake_routes_has(rig->routes, "a", CIDR_A));
	put_version(node_a, "8"); /* nothing in it matters: no run begins … */
	fake_routes_forget_calls(rig->routes);
	rig_run(rig, 60);
	assert_int_equal(calls(NULL), 0); /* … and nothing is left to be tried again */
}

static void
a_list_that_fails_changes_nothing(void **state)
{
	(void)state;
	start(&idle);
	rig_put(rig, &node_a);
	fake_routes_fault(rig->routes, (struct fake_fault){ .call = "list",
	                                                    .code = ERR_UNAVAILABLE,
	                                                    .times = 1 });
	begin();
	assert_int_equal(calls(NULL), 1);
	assert_int_equal(n_patches(), 0);
	rig_run(rig, RETRY_S);
	assert_true(fake_routes_has(rig->routes, "a", CIDR_A));
}

static void
the_cloud_says_when_to_come_back(void **state)
{
	(void)state;
	start(&idle);
	rig_put(rig, &node_a);
	fake_routes_fault(rig->routes, (struct fake_fault){ .call = "create",
	                                                    .code = ERR_PENDING,
	                                                    .retry_after_ms = 3000,
	                                                    .times = 1 });
	begin();
	assert_int_equal(fake_api_events(rig->api, "FailedToCreateRoute", "a"), 0);
	rig_run(rig, 1);
	assert_int_equal(calls("create"), 1);
	rig_run(rig, 2);
	assert_true(fake_routes_has(rig->routes, "a", CIDR_A));
}

static void
a_condition_that_could_not_be_written_is_written_later(void **state)
{
	(void)state;
	start(&idle);
	rig_put(rig, &node_a);
	fake_api_rule(rig->api, (struct api_rule){ .method = HTTP_PATCH,
	                                           .part = "/nodes/a/status",
	                                           .times = 1,
	                                           .status = 500 });
	begin();
	assert_int_equal(n_patches(), 1);
	rig_run(rig, RETRY_S);
	assert_int_equal(n_patches(), 2);
}

/* The watch is behind: the store shows what was there before our write, which says nothing about
 * what is. */
static void
a_condition_is_put_right_however_late_the_store_hears(void **state)
{
	(void)state;
	start(&idle);
	put_routed(node_a, "7");
	fake_routes_fault(rig->routes, (struct fake_fault){ .call = "create a",
	                                                    .code = ERR_UNAVAILABLE,
	                                                    .times = 1 });
	begin();
	assert_non_null(strstr(patch(0), "NoRouteCreated"));
	rig_run(rig, RETRY_S);
	assert_true(fake_routes_has(rig->routes, "a", CIDR_A));
	assert_int_equal(n_patches(), 1);
	put_version((struct rig_node){ .name = "a",
	                               .pod_cidrs = "\"" CIDR_A "\"",
	                               .network = MISSING },
	            "1001"); /* now it does */
	rig_run(rig, 2 * RETRY_S);
	assert_int_equal(n_patches(), 2);
	assert_non_null(strstr(patch(1), "\"reason\":\"RouteCreated\""));
}

/* ---- conditions (docs/spec/framework.md, "NetworkUnavailable") ---- */

/* A CNI that writes False with a reason of its own means the same as we do. */
static void
any_false_is_left_alone_where_all_routes_exist(void **state)
{
	(void)state;
	start(&idle);
	rig_put(rig, &(struct rig_node){
			     .name = "a", .pod_cidrs = "\"" CIDR_A "\"", .network = CNI_IS_UP });
	begin();
	assert_true(fake_routes_has(rig->routes, "a", CIDR_A));
	rig_run(rig, 60);
	assert_int_equal(n_patches(), 0);
	put_version((struct rig_node){ .name = "a",
	                               .pod_cidrs = "\"" CIDR_A "\"",
	                               .network = "\"status\":\"True\",\"reason\":\"CNIIsDown\"" },
	            "9");
	rig_run(rig, 5);
	assert_int_equal(n_patches(), 1);
	assert_non_null(strstr(patch(0), "\"reason\":\"RouteCreated\""));
}

/* For an hour: every 5 s, the node is shown with each of these conditions. */
static void
fight(const char *cidr, const char *ours, const char *theirs)
{
	struct rig_node node = { .name = "a", .pod_cidrs = cidr };
	char version[16];

	for (int i = 0; i < 720; i++) {
		(void)snprintf(version, sizeof(version), "%d", 100000 + 2 * i);
		node.network = ours;
		put_version(node, version);
		rig_run(rig, 2);
		(void)snprintf(version, sizeof(version), "%d", 100001 + 2 * i);
		node.network = theirs;
		put_version(node, version);
		rig_run(rig, 3);
	}
}

static void
another_writer_costs_nothing_where_all_routes_exist(void **state)
{
	(void)state;
	start(&idle);
	put_routed(node_a, "7");
	add_route("a", CIDR_A);
	begin();
	fake_routes_forget_calls(rig->routes);
	fight("\"" CIDR_A "\"", ROUTED, CNI_IS_UP);
	assert_int_equal(n_patches(), 0);
	assert_in_range(calls(NULL), 0, 1); /* the regular run of that hour */
}

static void
another_writer_is_corrected_less_and_less_often(void **state)
{
	size_t alone;

	(void)state;
	start(&idle);
	fake_routes_fault(rig->routes,
	                  (struct fake_fault){ .call = "create a", .code = ERR_INVALID });
	put_version((struct rig_node){ .name = "a",
	                               .pod_cidrs = "\"" CIDR_A "\"",
	                               .network = MISSING },
	            "7");
	begin();
	rig_run(rig, 3600);
	alone = calls("list");
	assert_int_equal(n_patches(), 0);
	rig_free(rig);
	start(&idle);
	fake_routes_fault(rig->routes,
	                  (struct fake_fault){ .call = "create a", .code = ERR_INVALID });
	put_version((struct rig_node){ .name = "a",
	                               .pod_cidrs = "\"" CIDR_A "\"",
	                               .network = MISSING },
	            "7");
	begin();
	fight("\"" CIDR_A "\"", MISSING, CNI_IS_UP);
	assert_in_range(n_patches(), 10, PACE_HOUR);
	assert_in_range(calls("list"), 1,
	                alone + 3); /* random pauses may add a few, the other writer adds none */
	assert_int_equal(fake_api_events(rig->api, "NetworkConditionContested", "a"), 1);
}

static void
a_condition_that_cannot_be_written_costs_no_look(void **state)
{
	(void)state;
	start(&idle);
	rig_put(rig, &node_a);
	fake_api_rule(rig->api, (struct api_rule){ .method = HTTP_PATCH,
	                                           .part = "/nodes/a/status",
	                                           .status = 500 });
	begin();
	rig_run(rig, 3000);
	assert_int_equal(calls("list"), 1);
	assert_in_range(n_patches(), 10, PACE_HOUR);
	assert_int_equal(fake_api_events(rig->api, "NetworkConditionContested", "a"), 0);
}

static void
a_node_that_changes_back_and_forth_costs_few_looks(void **state)
{
	static const char *const addresses[] = {
		"{\"type\":\"InternalIP\",\"address\":\"10.0.0.1\"}",
		"{\"type\":\"InternalIP\",\"address\":\"10.0.0.2\"}",
	};

	(void)state;
	start(&idle);
	put_routed(node_a, "7");
	add_route("a", CIDR_A);
	begin();
	fake_routes_forget_calls(rig->routes);
	for (int i = 0; i < 1800; i++) {
		char version[16];

		(void)snprintf(version, sizeof(version), "%d", 10 + i);
		put_routed((struct rig_node){ .name = "a",
		                              .pod_cidrs = "\"" CIDR_A "\"",
		                              .addresses = addresses[i % 2] },
		           version);
		rig_run(rig, 2);
	}
	assert_in_range(calls("list"), 10, PACE_HOUR + 1);
	rig_put(rig, &node_b); /* another node need not wait */
	rig_run(rig, 2);
	assert_true(fake_routes_has(rig->routes, "b", CIDR_B));
}

static void
a_node_without_pod_cidrs_that_has_a_route_has_none(void **state)
{
	(void)state;
	start(&idle);
	rig_put(rig, &(struct rig_node){ .name = "a" });
	rig_put(rig, &(struct rig_node){ .name = "b", .network = MISSING });
	add_route("a", CIDR_A);
	add_route("b", CIDR_B);
	begin();
	assert_int_equal(calls("remove"), 2);
	assert_int_equal(n_patches(), 1);
	assert_non_null(strstr(patch(0), "NoRouteCreated"));
}

static void
families_that_are_not_offered_stay_out(void **state)
{
	(void)state;
	start(&only_v4);
	rig_put(rig,
	        &(struct rig_node){ .name = "a", .pod_cidrs = "\"" CIDR_A "\",\"" CIDR_V6 "\"" });
	rig_put(rig, &(struct rig_node){ .name = "six", .pod_cidrs = "\"" CIDR_V6 "\"" });
	add_route("six", CIDR_B); /* left over: it goes, and says nothing about the node */
	begin();
	rig_run(rig, 60);
	assert_int_equal(calls("create"), 1);
	assert_int_equal(calls("remove"), 1);
	assert_int_equal(fake_api_count(rig->api, HTTP_PATCH, "/nodes/six"), 0);
	assert_int_equal(fake_api_events(rig->api, "PodCIDRNotRouted", "a"), 1);
	assert_int_equal(fake_api_events(rig->api, "PodCIDRNotRouted", "six"), 1);
	assert_int_equal(fake_api_count(rig->api, HTTP_PATCH, "/events/"), 0); /* once each */
}

/* ---- whose pod CIDR it is ---- */

static void
pod_cidrs_outside_of_the_cluster_are_never_routed(void **state)
{
	(void)state;
	start(&both);
	add_route("", "0.0.0.0/0");
	add_route("", "10.244.0.0/15");
	rig_put(rig, &(struct rig_node){ .name = "evil", .pod_cidrs = "\"0.0.0.0/0\",\"::/0\"" });
	rig_put(rig, &(struct rig_node){ .name = "wide", .pod_cidrs = "\"10.244.0.0/15\"" });
	rig_put(rig, &node_a);
	begin();
	rig_run(rig, 60);
	assert_int_equal(calls("create"), 1);
	assert_true(fake_routes_has(rig->routes, "a", CIDR_A));
	assert_int_equal(calls("remove"), 0);
	assert_int_equal(fake_api_count(rig->api, HTTP_PATCH, "/nodes/evil"), 0);
	assert_int_equal(fake_api_events(rig->api, "ClusterCIDRMisconfigured", "evil"), 1);
	assert_int_equal(fake_api_events(rig->api, "ClusterCIDRMisconfigured", "wide"), 1);
	assert_non_null(strstr(fake_api_last_event(rig->api, "ClusterCIDRMisconfigured"),
	                       " is not contained within cluster CIDR 10.244.0.0/16,fd00:10::/32"));
	assert_int_equal(fake_api_events(rig->api, "PodCIDRNotRouted", NULL), 0);
	assert_int_equal(fake_api_count(rig->api, HTTP_PATCH, "/events/"), 0); /* once each */
}

static void
an_older_node_keeps_its_pod_cidr(void **state)
{
	(void)state;
	start(&both);
	rig_put(rig,
	        &(struct rig_node){ .name = "evil", .pod_cidrs = "\"" CIDR_A "\"", .age_s = 10 });
	rig_put(rig,
	        &(struct rig_node){ .name = "wide", .pod_cidrs = "\"10.244.0.0/16\"", .age_s = 5 });
	rig_put(rig, &node_a);
	begin();
	rig_run(rig, 60);
	assert_int_equal(calls("create"), 1);
	assert_true(fake_routes_has(rig->routes, "a", CIDR_A));
	assert_int_equal(fake_api_events(rig->api, "PodCIDRNotRouted", "evil"), 1);
	assert_non_null(strstr(fake_api_last_event(rig->api, "PodCIDRNotRouted"),
	                       "is not routed to this node: it overlaps with " CIDR_A
	                       " of node a, which is older"));
	assert_int_equal(fake_api_events(rig->api, "PodCIDRNotRouted", "wide"), 1);
	assert_int_equal(fake_api_count(rig->api, HTTP_PATCH, "/events/"), 0);
	assert_int_equal(n_patches(), 3); /* the others have no route */
	rig_remove(rig, "a");
	rig_remove(rig, "wide");
	rig_run(rig, 2);
	assert_true(fake_routes_has(rig->routes, "evil", CIDR_A)); /* no other node has it now */
	assert_false(fake_routes_has(rig->routes, "a", CIDR_A));
}

/* Not even an older node gets it: with the stolen kubelet of one that had no pod CIDR, an attacker
 * could ask for any. */
static void
a_live_node_keeps_the_route_that_it_has(void **state)
{
	(void)state;
	start(&both);
	put_routed(node_b, "7");
	add_route("b", CIDR_B);
	rig_put(rig,
	        &(struct rig_node){ .name = "evil", .pod_cidrs = "\"" CIDR_B "\"", .age_s = 7200 });
	begin();
	rig_run(rig, 60);
	assert_int_equal(calls("remove") + calls("create"), 0);
	assert_true(fake_routes_has(rig->routes, "b", CIDR_B));
	assert_non_null(strstr(fake_api_last_event(rig->api, "PodCIDRNotRouted"),
	                       "of node b, which has its route"));
	assert_int_equal(fake_api_events(rig->api, "PodCIDRNotRouted", "b"), 0);
	assert_int_equal(fake_api_count(rig->api, HTTP_PATCH, "/nodes/b"), 0);
}

/* ---- removals that look like a mistake ---- */

#define LEAVING "{\"key\":\"ToBeDeletedByClusterAutoscaler\",\"effect\":\"NoSchedule\"}"

enum {
	N_FLEET = 10,
};

/* Nodes n0 to n9, each with its route. */
static void
start_fleet(const char *taints)
{
	static char names[N_FLEET][16], cidrs[N_FLEET][40];

	start(&idle);
	for (int i = 0; i < N_FLEET; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "n%d", i);
		(void)snprintf(cidrs[i], sizeof(cidrs[i]), "\"10.244.%d.0/24\"", i);
		put_routed((struct rig_node){ .name = names[i],
		                              .pod_cidrs = cidrs[i],
		                              .taints = taints },
		           "7");
		fake_routes_add(rig->routes,
		                (struct route){ .target_node = str_c(names[i]),
		                                .destination_cidr = str_n(cidrs[i] + 1,
		                                                          strlen(cidrs[i]) - 2) });
	}
	begin();
	assert_int_equal(calls(NULL), 1);
}

static void
remove_nodes(int from, int to)
{
	for (int i = from; i < to; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "n%d", i);
		rig_remove(rig, name);
	}
}

static void
a_few_routes_are_removed_immediately(void **state)
{
	(void)state;
	start_fleet(NULL);
	remove_nodes(0, 3);
	rig_run(rig, 1);
	assert_int_equal(calls("remove"), 3);
	assert_int_equal(fake_api_events(rig->api, "RouteRemovalsHeld", NULL), 0);
}

/* A run is made for these removals: the next regular one is an hour away. */
static void
many_removals_wait_for_five_minutes(void **state)
{
	(void)state;
	start_fleet(NULL);
	remove_nodes(0, 4);
	rig_run(rig, 299);
	assert_int_equal(calls("remove"), 0);
	assert_int_equal(calls("list"), 2);
	assert_int_equal(fake_api_events(rig->api, "RouteRemovalsHeld", NULL), 1);
	assert_non_null(strstr(
		fake_api_last_event(rig->api, "RouteRemovalsHeld"),
		"4 of 10 routes lead to no node, but are not removed: more than 3 and 20 % of them"));
	rig_run(rig, 4);
	assert_int_equal(calls("remove"), 4);
	assert_int_equal(calls("list"), 3);
	assert_int_equal(fake_routes_count(rig->routes), 6);
	rig_run(rig, 600);
	assert_int_equal(calls("list"), 3);
}

static void
removals_of_the_last_minutes_count(void **state)
{
	(void)state;
	start_fleet(NULL);
	remove_nodes(0, 3);
	rig_run(rig, 120);
	assert_int_equal(calls("remove"), 3);
	remove_nodes(3, 4);
	rig_run(rig, 120);
	assert_int_equal(calls("remove"), 3);
	rig_run(rig, 400);
	assert_int_equal(calls("remove"), 4);
}

/* A cloud may take long, or its answer may be lost. */
static void
removals_that_are_not_confirmed_count(void **state)
{
	(void)state;
	start_fleet(NULL);
	fake_routes_fault(rig->routes, (struct fake_fault){ .call = "remove",
	                                                    .code = ERR_PENDING,
	                                                    .times = 1,
	                                                    .is_late = true });
	remove_nodes(0, 1);
	rig_run(rig, 60);
	assert_int_equal(calls("remove"), 1);
	assert_int_equal(fake_routes_count(rig->routes), N_FLEET - 1);
	remove_nodes(1, 4);
	rig_run(rig, 60);
	assert_int_equal(calls("remove"), 1);
}

static void
nodes_that_come_back_keep_their_routes(void **state)
{
	(void)state;
	start_fleet(NULL);
	remove_nodes(0, 4);
	rig_run(rig, 200);
	for (int i = 0; i < 4; i++) {
		char name[16], cidr[40];

		(void)snprintf(name, sizeof(name), "n%d", i);
		(void)snprintf(cidr, sizeof(cidr), "\"10.244.%d.0/24\"", i);
		put_routed((struct rig_node){ .name = name, .uid = name, .pod_cidrs = cidr }, "9");
	}
	rig_run(rig, 50);
	remove_nodes(0, 4);
	rig_run(rig, 200); /* they have been away for 200 s twice, and never for 300 */
	assert_int_equal(calls("remove") + calls("create"), 0);
	rig_run(rig, 103);
	assert_int_equal(calls("remove"), 4);
	assert_int_equal(fake_api_events(rig->api, "RouteRemovalsHeld", NULL), 1);
	assert_int_equal(fake_api_count(rig->api, HTTP_PATCH, "/events/"),
	                 1); /* the same once more */
}

static void
routes_of_nodes_that_were_announced_do_not_wait(void **state)
{
	(void)state;
	start_fleet(LEAVING);
	remove_nodes(0, 5);
	rig_run(rig, 1);
	assert_int_equal(calls("remove"), 5);
	put_routed((struct rig_node){ .name = "n5", .pod_cidrs = "\"10.244.5.0/24\"" }, "8");
	put_routed((struct rig_node){ .name = "n6", .pod_cidrs = "\"10.244.6.0/24\"" }, "8");
	put_routed((struct rig_node){ .name = "n7", .pod_cidrs = "\"10.244.7.0/24\"" }, "8");
	remove_nodes(5, 8);
	rig_run(rig, 1);
	assert_int_equal(calls("remove"), 8); /* the five do not count */
}

/* The nodes that have their pod CIDRs now were not announced. */
static void
an_announcement_is_not_for_the_next_node_of_the_cidr(void **state)
{
	char name[16], cidr[40];

	(void)state;
	start_fleet(LEAVING);
	remove_nodes(0, 5);
	for (int i = 0; i < 5; i++) {
		(void)snprintf(name, sizeof(name), "late%d", i);
		(void)snprintf(cidr, sizeof(cidr), "\"10.244.%d.0/24\"", i);
		rig_put(rig, &(struct rig_node){ .name = name, .pod_cidrs = cidr });
	}
	rig_run(rig, 1);
	assert_int_equal(calls("remove"), 5);
	for (int i = 0; i < 5; i++) {
		(void)snprintf(name, sizeof(name), "late%d", i);
		rig_remove(rig, name);
	}
	rig_run(rig, 60);
	assert_int_equal(calls("remove"), 5);
}

static void
routes_that_a_live_node_needs_do_not_wait(void **state)
{
	(void)state;
	start(&idle);
	for (int i = 0; i < N_FLEET; i++) {
		static char cidrs[N_FLEET][40];
		char name[16], cidr[40];

		(void)snprintf(name, sizeof(name), "n%d", i);
		(void)snprintf(cidrs[i], sizeof(cidrs[i]), "10.244.%d.0/24", i);
		(void)snprintf(cidr, sizeof(cidr), "\"10.244.%d.0/24\"", i);
		rig_put(rig, &(struct rig_node){ .name = name, .pod_cidrs = cidr });
		add_route("gone", cidrs[i]);
	}
	begin();
	assert_int_equal(calls("remove"), N_FLEET);
	assert_int_equal(calls("create"), N_FLEET);
}

static void
without_nodes_nothing_is_removed(void **state)
{
	(void)state;
	start(&idle);
	add_route("x", CIDR_A);
	begin();
	rig_run(rig, 2 * IDLE_S);
	assert_int_equal(calls("remove"), 0);
	assert_int_equal(fake_api_events(rig->api, "RouteRemovalsHeld", NULL), 1);
	assert_non_null(strstr(fake_api_last_event(rig->api, "RouteRemovalsHeld"),
	                       "the cluster shows no nodes at all"));
	rig_put(rig, &node_b);
	rig_run(rig, 1);
	assert_int_equal(calls("remove"), 1);
	assert_true(fake_routes_has(rig->routes, "b", CIDR_B));
}

static void
a_table_that_held_removals_fill_is_reported(void **state)
{
	(void)state;
	start_fleet(NULL);
	fake_routes_fault(rig->routes,
	                  (struct fake_fault){ .call = "create", .code = ERR_INVALID });
	remove_nodes(0, 5);
	rig_put(rig, &(struct rig_node){ .name = "late", .pod_cidrs = "\"10.244.99.0/24\"" });
	rig_run(rig, 60);
	assert_int_equal(fake_api_events(rig->api, "RouteRemovalsHeld", NULL), 2);
	assert_non_null(strstr(fake_api_last_event(rig->api, "RouteRemovalsHeld"),
	                       "A route could not be created while 5 routes"));
}

/* ---- the end ---- */

static void
it_ends_during_a_run(void **state)
{
	(void)state;
	start(&idle);
	rig_put(rig, &node_a);
	rig_put(rig, &node_b);
	fake_routes_fault(rig->routes, (struct fake_fault){ .call = "create", .hangs = true });
	store_end_list(rig->env.nodes);
	rig_settle(rig);
	fake_clock_advance(rig->fake, 200 * NS_PER_MS);
	rig_settle_with(rig, 1);
	cancel_fire(rig->cancel);
	route_controller_free(rig->routing);
	rig->routing = NULL;
	assert_int_equal(n_patches(), 0); /* what is not known is not said */
	assert_int_equal(fake_api_events(rig->api, "FailedToCreateRoute", NULL), 0);
}

#define TEST(name) cmocka_unit_test_teardown(name, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_pod_cidr_gets_a_route_and_every_node_its_condition),
		TEST(nothing_is_written_when_all_is_right),
		TEST(routes_of_others_are_left_alone),
		TEST(a_blackhole_is_removed_and_created_again),
		TEST(a_cidr_that_moved_is_removed_first),
		TEST(routes_are_made_eight_at_a_time),
		TEST(nodes_wake_it_immediately),
		TEST(an_idle_cluster_costs_nothing),
		TEST(many_changes_are_a_run_a_second),
		TEST(a_provider_may_wake_it),
		TEST(a_failure_is_reported_and_tried_less_and_less_often),
		TEST(a_list_that_fails_changes_nothing),
		TEST(the_cloud_says_when_to_come_back),
		TEST(a_condition_that_could_not_be_written_is_written_later),
		TEST(a_condition_is_put_right_however_late_the_store_hears),
		TEST(any_false_is_left_alone_where_all_routes_exist),
		TEST(another_writer_costs_nothing_where_all_routes_exist),
		TEST(another_writer_is_corrected_less_and_less_often),
		TEST(a_condition_that_cannot_be_written_costs_no_look),
		TEST(a_node_that_changes_back_and_forth_costs_few_looks),
		TEST(a_node_without_pod_cidrs_that_has_a_route_has_none),
		TEST(families_that_are_not_offered_stay_out),
		TEST(pod_cidrs_outside_of_the_cluster_are_never_routed),
		TEST(an_older_node_keeps_its_pod_cidr),
		TEST(a_live_node_keeps_the_route_that_it_has),
		TEST(a_few_routes_are_removed_immediately),
		TEST(many_removals_wait_for_five_minutes),
		TEST(removals_of_the_last_minutes_count),
		TEST(removals_that_are_not_confirmed_count),
		TEST(nodes_that_come_back_keep_their_routes),
		TEST(routes_of_nodes_that_were_announced_do_not_wait),
		TEST(an_announcement_is_not_for_the_next_node_of_the_cidr),
		TEST(routes_that_a_live_node_needs_do_not_wait),
		TEST(without_nodes_nothing_is_removed),
		TEST(a_table_that_held_removals_fill_is_reported),
		TEST(it_ends_during_a_run),
	};

	return cmocka_run_group_tests_name("route", tests, NULL, NULL);
}
