#include "providers/hcloud/routes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/thread.h"
#include "providers/hcloud/lab.h"

/* Two nodes, each with a server in the network. */
static struct {
	struct lab *lab;
	struct arena arena;
	struct hz_actions *actions;
	struct hz_routes *routes;
	struct address addresses[2];
	struct node_ref nodes[2];
	struct error err;
} story;

static void
open_routes(const struct hz_dialect *dialect)
{
	struct ip_net cidr;

	hz_routes_free(TAKE(story.routes));
	hz_actions_free(TAKE(story.actions));
	lab_open(story.lab, dialect, 4711);
	assert_true(ip_net_parse(STR("10.244.0.0/16"), &cidr));
	story.actions = hz_actions_new(story.lab->api, &story.lab->fake.clock);
	story.routes = hz_routes_new(&(struct hz_routes_config){ .config = story.lab->config,
	                                                         .host = &story.lab->fake.host,
	                                                         .api = story.lab->api,
	                                                         .actions = story.actions,
	                                                         .network = 4711,
	                                                         .cluster_cidr = cidr });
}

static int
setup(void **state)
{
	int result = lab_setup(state);

	story.lab = *state;
	story.addresses[0] = (struct address){ STR("InternalIP"), STR("10.0.0.1") };
	story.addresses[1] = (struct address){ STR("InternalIP"), STR("10.0.0.2") };
	for (size_t i = 0; i < 2; i++)
		story.nodes[i] = (struct node_ref){ .addresses = &story.addresses[i],
			                            .n_addresses = 1 };
	story.nodes[0].name = STR("n1");
	story.nodes[0].provider_id = STR("hcloud://1");
	story.nodes[1].name = STR("n2");
	story.nodes[1].provider_id = STR("hcloud://2");
	story.lab->fake.nodes = story.nodes;
	story.lab->fake.n_nodes = 2;
	open_routes(&hz_official);
	return result;
}

static int
teardown(void **state)
{
	hz_routes_free(TAKE(story.routes));
	hz_actions_free(TAKE(story.actions));
	arena_fini(&story.arena);
	return lab_teardown(state);
}

#define NETWORK(routes) \
	"{\"network\":{\"id\":4711,\"name\":\"net\",\"routes\":[" routes "],\"servers\":[1,2]}}"
#define ROUTE(destination, gateway) \
	"{\"destination\":\"" destination "\",\"gateway\":\"" gateway "\"}"
#define SERVER(id, name, ip)                                                                    \
	"{\"id\":" #id ",\"name\":\"" name "\",\"private_net\":[{\"network\":4711,\"ip\":\"" ip \
	"\"}]}"
#define TWO SERVER(1, "n1", "10.0.0.1") "," SERVER(2, "n2", "10.0.0.2")
#define ADD "/networks/4711/actions/add_route"
#define DELETE "/networks/4711/actions/delete_route"
#define ACTION(status) "{\"action\":{\"id\":70,\"status\":\"" status "\"}}"
#define WATCH "/actions?id=70&page=1&sort=status&sort=id"
#define WATCHED(status) "{\"actions\":[{\"id\":70,\"status\":\"" status "\"}]}"

static void
answer(const char *target, int status, const char *body)
{
	lab_answer(story.lab, target, status, body);
}

static void
forget_answers(void)
{
	story.lab->script.n_answers = 0;
	buf_reset(&story.lab->script.asked);
}

static bool
list(struct route_list *ret)
{
	struct hcloud cloud = { .routes = story.routes };
	struct call call = lab_call(story.lab, &story.arena);

	return hz_route_ops.list(&cloud.cloud, &call, ret, &story.err);
}

/* The cloud as it is, and a first look at it. */
static struct route_list
look(const char *network, const char *servers)
{
	struct route_list found;

	answer("/networks/4711", 200, network);
	answer(LAB_PAGE_1, 200, servers);
	assert_true(list(&found));
	buf_reset(&story.lab->script.asked);
	return found;
}

static struct route_list
look_at(const char *network)
{
	return look(network, LAB_LIST(TWO, "null", "2"));
}

static bool
create(size_t node, const char *destination)
{
	struct hcloud cloud = { .routes = story.routes };
	struct call call = lab_call(story.lab, &story.arena);

	return hz_route_ops.create(&cloud.cloud, &call, &story.nodes[node], /*hint=*/STR_EMPTY,
	                           str_c(destination), &story.err);
}

static bool
remove_named(const char *name)
{
	struct call call = lab_call(story.lab, &story.arena);
	struct route route = { .name = str_c(name) };
	struct hcloud cloud = { .routes = story.routes };

	return hz_route_ops.remove(&cloud.cloud, &call, &route, &story.err);
}

static void
check_refused(size_t node, const char *destination, enum err_code code, const char *message)
{
	assert_false(create(node, destination));
	assert_int_equal(story.err.code, code);
	assert_string_equal(story.err.msg, message);
}

static void
check_asked(const char *targets)
{
	lab_check_asked(story.lab, targets);
}

/* ---- listing ---- */

static void
check_route(const struct route *route, const char *name, const char *node, const char *destination)
{
	assert_string_equal(route->name.ptr, name);
	assert_true(str_eq_c(route->target_node, node));
	assert_string_equal(route->destination_cidr.ptr, destination);
}

static void
routes_lead_to_nodes(void **state)
{
	struct route_list found = look_at(NETWORK(ROUTE("10.244.1.0/24",
	                                                "10.0.0.1") "," ROUTE("0.0.0.0/0",
	                                                                      "10.0.0.2")));

	(void)state;
	assert_int_equal(found.n, 2);
	check_route(&found.routes[0], "10.0.0.1-10.244.1.0/24", "n1", "10.244.1.0/24");
	check_route(&found.routes[1], "10.0.0.2-0.0.0.0/0", "n2", "0.0.0.0/0");
	assert_false(found.routes[0].is_blackhole || found.routes[0].is_fixed);
}

/* docs/spec/hcloud.md, "Routes": a name that drifted made a route come and go. */
static void
the_provider_id_says_which_node(void **state)
{
	struct route_list found;

	(void)state;
	story.nodes[0].name = STR("other");
	story.nodes[1].provider_id = STR_EMPTY;
	found = look_at(NETWORK(ROUTE("10.244.1.0/24", "10.0.0.1") "," ROUTE("10.244.2.0/24",
	                                                                     "10.0.0.2")));
	check_route(&found.routes[0], "10.0.0.1-10.244.1.0/24", "other", "10.244.1.0/24");
	check_route(&found.routes[1], "10.0.0.2-10.244.2.0/24", "n2", "10.244.2.0/24");
	story.nodes[0].provider_id = STR("hcloud://7");
	story.nodes[1].provider_id = STR("hcloud://1");
	forget_answers();
	found = look_at(NETWORK(ROUTE("10.244.1.0/24", "10.0.0.1") "," ROUTE("10.244.2.0/24",
	                                                                     "10.0.0.2")));
	check_route(&found.routes[0], "10.0.0.1-10.244.1.0/24", "n2", "10.244.1.0/24");
	check_route(&found.routes[1], "10.0.0.2-10.244.2.0/24", "", "10.244.2.0/24");
	assert_false(found.routes[1].is_blackhole);
}

static void
a_gateway_that_is_no_servers_is_a_blackhole(void **state)
{
	struct route_list found = look_at(NETWORK(ROUTE("10.244.1.0/24", "10.0.0.7")));

	(void)state;
	check_route(&found.routes[0], "10.0.0.7-10.244.1.0/24", "", "10.244.1.0/24");
	assert_true(found.routes[0].is_blackhole);
	assert_false(found.routes[0].is_fixed);
}

/* A list that lacks servers, or a token that sees none, must remove no route. */
static void
what_cannot_be_known_is_kept(void **state)
{
	struct route_list found = look(NETWORK(ROUTE("10.244.1.0/24", "10.0.0.1")),
	                               LAB_LIST("", "null", "0"));

	(void)state;
	assert_false(found.routes[0].is_blackhole);
	assert_true(found.routes[0].is_fixed);
}

/* n1 has the provider ID of n2's server, and n2 has none yet. */
static void
a_route_to_a_server_that_two_nodes_claim_is_kept(void **state)
{
	struct route_list found;

	(void)state;
	story.nodes[0].provider_id = STR("hcloud://2");
	story.nodes[1].provider_id = STR_EMPTY;
	found = look_at(NETWORK(ROUTE("10.244.2.0/24", "10.0.0.2")));
	assert_true(found.routes[0].is_fixed);
	assert_true(create(1, "10.244.2.0/24"));
	check_asked("");

	story.nodes[0].provider_id = STR("hcloud://1");
	forget_answers();
	found = look_at(NETWORK(ROUTE("10.244.2.0/24", "10.0.0.2")));
	check_route(&found.routes[0], "10.0.0.2-10.244.2.0/24", "n2", "10.244.2.0/24");
	assert_false(found.routes[0].is_fixed);
}

static void
no_list_without_the_network(void **state)
{
	struct route_list found;

	(void)state;
	answer("/networks/4711", 404, LAB_NOT_FOUND);
	assert_false(list(&found));
	assert_string_equal(story.err.msg, "hcloud/ListRoutes: network not found: 4711: server not "
	                                   "found (not_found) [GET /networks/4711, status 404]");
}

/* ---- creating ---- */

static void
creates_a_route(void **state)
{
	(void)state;
	look_at(NETWORK(""));
	answer(ADD, 201, ACTION("running"));
	answer(WATCH, 200, WATCHED("running"));
	answer(WATCH, 200, WATCHED("success"));
	assert_true(create(0, "10.244.1.0/24"));
	check_asked("POST " ADD
	            " {\"destination\":\"10.244.1.0/24\",\"gateway\":\"10.0.0.1\"}\n" WATCH
	            "\n" WATCH "\n");
	assert_true(create(0, "10.244.1.0/24"));
	check_asked("");
	assert_string_equal(story.lab->fake.events.ptr, "");
}

static void
what_is_there_is_not_made_again(void **state)
{
	(void)state;
	look_at(NETWORK(ROUTE("10.244.1.0/24", "10.0.0.1")));
	assert_true(create(0, "10.244.1.0/24"));
	check_asked("");
}

/* docs/spec/hcloud.md, "Routes" */
static void
a_stale_gateway_is_replaced(void **state)
{
	(void)state;
	look_at(NETWORK(ROUTE("10.244.1.0/24", "10.0.0.7")));
	answer(DELETE, 201, ACTION("success"));
	answer(ADD, 201, ACTION("success"));
	assert_true(create(0, "10.244.1.0/24"));
	check_asked("POST " DELETE " {\"destination\":\"10.244.1.0/24\",\"gateway\":\"10.0.0.7\"}\n"
	            "POST " ADD " {\"destination\":\"10.244.1.0/24\",\"gateway\":\"10.0.0.1\"}\n");
}

static void
a_node_without_a_provider_id_is_found_by_name(void **state)
{
	(void)state;
	story.nodes[1].provider_id = STR_EMPTY;
	look_at(NETWORK(""));
	answer(ADD, 201, ACTION("success"));
	assert_true(create(1, "10.244.2.0/24"));
	check_asked("POST " ADD " {\"destination\":\"10.244.2.0/24\",\"gateway\":\"10.0.0.2\"}\n");
}

static void
a_server_that_has_just_joined_is_asked_for(void **state)
{
	(void)state;
	look_at(NETWORK(""));
	story.nodes[1].provider_id = STR("hcloud://3");
	answer("/servers/3", 200, "{\"server\":" SERVER(3, "n2", "10.0.0.2") "}");
	answer(ADD, 201, ACTION("success"));
	assert_true(create(1, "10.244.2.0/24"));
	check_asked("/servers/3\nPOST " ADD
	            " {\"destination\":\"10.244.2.0/24\",\"gateway\":\"10.0.0.2\"}\n");
}

static void
an_old_look_is_renewed(void **state)
{
	(void)state;
	look_at(NETWORK(""));
	answer(ADD, 201, ACTION("success"));
	story.lab->fake.now_ns += 61 * NS_PER_SEC;
	assert_true(create(0, "10.244.1.0/24"));
	check_asked("/networks/4711\n" LAB_PAGE_1 "\nPOST " ADD
	            " {\"destination\":\"10.244.1.0/24\",\"gateway\":\"10.0.0.1\"}\n");
}

static void
says_which_nodes_can_have_none(void **state)
{
	(void)state;
	look_at(NETWORK(""));
	check_refused(0, "fd00:10:1::/64", ERR_UNSUPPORTED,
	              "hcloud/CreateRoute: can't create route \"fd00:10:1::/64\" via node \"n1\": "
	              "private networks do not support IPv6");
	check_refused(0, "10.244.1.5/24", ERR_INVALID,
	              "hcloud/CreateRoute: \"10.244.1.5/24\" is not a network");
	story.nodes[0].provider_id = STR("hrobot://1");
	check_refused(0, "10.244.1.0/24", ERR_UNSUPPORTED,
	              "hcloud/CreateRoute: node n1 is not a cloud server, routes are only "
	              "supported for cloud servers");
	story.nodes[0].provider_id = STR("aws:///x");
	assert_false(create(0, "10.244.1.0/24"));
	assert_int_equal(story.err.code, ERR_UNSUPPORTED);
	check_asked("");
}

static void
says_what_is_wrong_with_a_server(void **state)
{
	(void)state;
	look_at(NETWORK(""));
	story.nodes[0].provider_id = STR("hcloud://7");
	answer("/servers/7", 404, LAB_NOT_FOUND);
	answer("/servers/7", 200,
	       "{\"server\":{\"id\":7,\"name\":\"n7\",\"private_net\":[{\"network\":99,\"ip\":"
	       "\"10.0.0.1\"}]}}");
	check_refused(0, "10.244.1.0/24", ERR_NOT_FOUND,
	              "hcloud/CreateRoute: hcloud server for node n1 not found");
	story.lab->fake.now_ns += 3600 * NS_PER_SEC;
	check_refused(0, "10.244.1.0/24", ERR_INVALID,
	              "hcloud/CreateRoute: server n7 (7): network with id 4711 not attached to "
	              "this server");
}

static void
the_node_must_have_the_address(void **state)
{
	(void)state;
	look_at(NETWORK(""));
	story.addresses[0].address = STR("10.0.0.9");
	check_refused(0, "10.244.1.0/24", ERR_INVALID,
	              "hcloud/CreateRoute: IP 10.0.0.1 not part of routes target addresses");
	/* it has no address yet: this is not reported */
	story.addresses[0] = (struct address){ STR("ExternalIP"), STR("10.0.0.1") };
	check_refused(0, "10.244.1.0/24", ERR_PENDING,
	              "hcloud/CreateRoute: IP 10.0.0.1 not part of routes target addresses");
	check_asked("");
}

/* Even if a route to it exists: that one is not ours. */
static void
a_pod_cidr_outside_of_the_clusters_is_refused(void **state)
{
	(void)state;
	look_at(NETWORK(ROUTE("0.0.0.0/0", "10.0.0.254")));
	check_refused(
		0, "0.0.0.0/0", ERR_INVALID,
		"hcloud/CreateRoute: route CIDR 0.0.0.0/0 is not contained within cluster CIDR "
		"10.244.0.0/16");
	check_refused(
		0, "10.245.0.0/24", ERR_INVALID,
		"hcloud/CreateRoute: route CIDR 10.245.0.0/24 is not contained within cluster "
		"CIDR 10.244.0.0/16");
	check_asked("");
	assert_string_equal(story.lab->fake.events.ptr, "");
}

/* The route controller does not ask for this, unless what it saw has changed meanwhile. */
static void
a_live_nodes_route_is_not_taken_away(void **state)
{
	const struct str cidr = STR("10.244.1.0/24");

	(void)state;
	story.nodes[1].pod_cidrs = &cidr;
	story.nodes[1].n_pod_cidrs = 1;
	look_at(NETWORK(ROUTE("10.244.1.0/24", "10.0.0.2")));
	check_refused(
		0, "10.244.1.0/24", ERR_EXISTS,
		"hcloud/CreateRoute: error upserting route \"10.244.1.0/24\" via \"10.0.0.1\": it "
		"leads to node n2 via \"10.0.0.2\", which has that pod CIDR, too");
	check_asked("");
	story.nodes[1].n_pod_cidrs = 0;
	answer(DELETE, 201, ACTION("success"));
	answer(ADD, 201, ACTION("success"));
	assert_true(create(0, "10.244.1.0/24"));
}

/* The next look may show which server has the gateway. */
static void
a_route_with_an_unknown_gateway_is_not_taken_away(void **state)
{
	(void)state;
	look(NETWORK(ROUTE("10.244.1.0/24", "10.0.0.2")),
	     LAB_LIST(SERVER(1, "n1", "10.0.0.1"), "null", "1"));
	assert_false(create(0, "10.244.1.0/24"));
	assert_int_equal(story.err.code, ERR_PENDING);
	check_asked("");
}

/* ---- refusals ---- */

#define UPSERTING "hcloud/CreateRoute: error upserting route \"10.244.1.0/24\" via \"10.0.0.1\": "

static void
a_refusal_names_the_fields(void **state)
{
	(void)state;
	look_at(NETWORK(""));
	answer(ADD, 422,
	       "{\"error\":{\"code\":\"invalid_input\",\"message\":\"bad\",\"details\":{\"fields\":["
	       "{\"name\":\"destination\",\"messages\":[\"overlaps\"]}]}}}");
	check_refused(0, "10.244.1.0/24", ERR_INVALID,
	              UPSERTING
	              "error adding route: bad (invalid_input): invalid fields: destination "
	              "(overlaps) [POST " ADD ", status 422]");
}

static unsigned
n_posted(const char *target)
{
	unsigned n = 0;

	for (const char *at = story.lab->script.asked.ptr; (at = strstr(at, target)); at++)
		n++;
	return n;
}

/* The route controller tries again every 5 minutes, for each node. */
static void
a_refused_route_is_sent_once_an_hour(void **state)
{
	(void)state;
	look_at(NETWORK(""));
	answer(ADD, 422, LAB_ERROR("invalid_input"));
	for (int i = 0; i < 12; i++) {
		check_refused(0, "10.244.1.0/24", ERR_INVALID,
		              UPSERTING "error adding route: no (invalid_input) [POST " ADD
		                        ", status 422]");
		story.lab->fake.now_ns += 299 * NS_PER_SEC;
	}
	assert_int_equal(n_posted("POST " ADD), 1);
	story.lab->fake.now_ns += 12 * NS_PER_SEC;
	assert_false(create(0, "10.244.1.0/24"));
	assert_int_equal(n_posted("POST " ADD), 2);
}

static void
a_route_is_sent_again_when_the_table_has_changed(void **state)
{
	(void)state;
	look_at(NETWORK(""));
	answer(ADD, 422, LAB_ERROR("invalid_input"));
	assert_false(create(0, "10.244.1.0/24"));
	look_at(NETWORK(ROUTE("10.244.9.0/24", "10.0.0.2")));
	answer(ADD, 201, ACTION("success"));
	assert_true(create(0, "10.244.1.0/24"));
}

/* A server outside of the network. */
static void
a_node_without_a_gateway_is_asked_for_once_an_hour(void **state)
{
	(void)state;
	look_at(NETWORK(""));
	story.nodes[0].provider_id = STR("hcloud://7");
	answer("/servers/7", 200, "{\"server\":{\"id\":7,\"name\":\"n7\",\"private_net\":[]}}");
	for (int i = 0; i < 12; i++) {
		assert_false(create(0, "10.244.1.0/24"));
		story.lab->fake.now_ns += 299 * NS_PER_SEC;
	}
	assert_int_equal(n_posted("/servers/7"), 1);
}

/* By a request whose answer was lost, or by another process. */
static void
a_route_that_came_meanwhile_is_success(void **state)
{
	(void)state;
	look_at(NETWORK(""));
	forget_answers();
	answer(ADD, 422, LAB_ERROR("invalid_input"));
	answer("/networks/4711", 200, NETWORK(ROUTE("10.244.1.0/24", "10.0.0.1")));
	answer(LAB_PAGE_1, 200, LAB_LIST(TWO, "null", "2"));
	assert_true(create(0, "10.244.1.0/24"));
}

static void
a_full_table_is_asked_once_a_run(void **state)
{
	(void)state;
	look_at(NETWORK(""));
	answer(ADD, 403, LAB_ERROR("resource_limit_exceeded"));
	assert_false(create(0, "10.244.1.0/24"));
	check_refused(1, "10.244.2.0/24", ERR_INVALID,
	              "hcloud/CreateRoute: error upserting route \"10.244.2.0/24\" via "
	              "\"10.0.0.2\": error adding route: no (resource_limit_exceeded) [POST " ADD
	              ", status 403]");
	check_asked("POST " ADD " {\"destination\":\"10.244.1.0/24\",\"gateway\":\"10.0.0.1\"}\n");
	look_at(NETWORK(""));
	assert_false(create(1, "10.244.2.0/24"));
	check_asked("POST " ADD " {\"destination\":\"10.244.2.0/24\",\"gateway\":\"10.0.0.2\"}\n");
	answer(DELETE, 201, ACTION("success"));
	assert_true(remove_named("10.0.0.7-10.244.7.0/24"));
	buf_reset(&story.lab->script.asked);
	assert_false(create(1, "10.244.2.0/24"));
	check_asked("POST " ADD " {\"destination\":\"10.244.2.0/24\",\"gateway\":\"10.0.0.2\"}\n");
}

static void
a_busy_network_is_left_alone(void **state)
{
	static const int64_t pauses_ms[] = { 2000, 4000, 8000 };

	(void)state;
	look_at(NETWORK(""));
	answer(ADD, 409, LAB_ERROR("conflict"));
	for (size_t i = 0; i < ARRAY_LEN(pauses_ms); i++) {
		assert_false(create(0, "10.244.1.0/24"));
		assert_int_equal(story.err.code, ERR_PENDING);
		assert_int_equal(story.err.retry_after_ms, pauses_ms[i]);
		buf_reset(&story.lab->script.asked);
		check_refused(1, "10.244.2.0/24", ERR_PENDING,
		              "hcloud/CreateRoute: error upserting route \"10.244.2.0/24\" via "
		              "\"10.0.0.2\": error adding route: network 4711 is busy with another "
		              "change");
		check_asked("");
		story.lab->fake.now_ns += pauses_ms[i] * NS_PER_MS;
	}
	forget_answers();
	answer(ADD, 201, ACTION("success"));
	answer("/networks/4711", 200, NETWORK(""));
	answer(LAB_PAGE_1, 200, LAB_LIST(TWO, "null", "2"));
	assert_true(create(0, "10.244.1.0/24"));
}

static void
an_action_without_an_end_blocks_no_worker(void **state)
{
	int64_t begun_ns;

	(void)state;
	look_at(NETWORK(""));
	answer(ADD, 201, ACTION("running"));
	answer(WATCH, 200, WATCHED("running"));
	begun_ns = story.lab->fake.now_ns;
	assert_false(create(0, "10.244.1.0/24"));
	assert_int_equal(story.err.code, ERR_PENDING);
	assert_in_range(story.lab->fake.now_ns - begun_ns, 20 * NS_PER_SEC, 30 * NS_PER_SEC);
	assert_false(create(1, "10.244.2.0/24"));
	assert_int_equal(story.err.code, ERR_PENDING);
}

static void
an_action_that_fails_is_reported(void **state)
{
	(void)state;
	look_at(NETWORK(""));
	answer(ADD, 201,
	       "{\"action\":{\"id\":70,\"status\":\"error\",\"error\":{\"code\":\"action_failed\","
	       "\"message\":\"Action failed\"}}}");
	check_refused(0, "10.244.1.0/24", ERR_UNAVAILABLE,
	              UPSERTING "error adding route: Action failed (action_failed, 70)");
}

/* ---- removing ---- */

#define GOODBYE "POST " DELETE " {\"destination\":\"10.244.1.0/24\",\"gateway\":\"10.0.0.1\"}\n"

static void
removes_by_either_name(void **state)
{
	(void)state;
	answer(DELETE, 201, ACTION("success"));
	assert_true(remove_named("10.0.0.1-10.244.1.0/24"));
	check_asked(GOODBYE);
	assert_true(remove_named("10.244.1.0/24-10.0.0.1"));
	check_asked(GOODBYE);
	assert_false(remove_named("what"));
	assert_string_equal(story.err.msg,
	                    "hcloud/DeleteRoute: \"what\" is not a valid route name");
}

static void
what_is_gone_is_removed(void **state)
{
	(void)state;
	answer(DELETE, 404, LAB_NOT_FOUND);
	assert_true(remove_named("10.0.0.1-10.244.1.0/24"));
	forget_answers();
	answer(DELETE, 422, LAB_ERROR("invalid_input"));
	answer("/networks/4711", 200, NETWORK(ROUTE("10.244.1.0/24", "10.0.0.2")));
	answer(LAB_PAGE_1, 200, LAB_LIST(TWO, "null", "2"));
	assert_true(remove_named("10.0.0.1-10.244.1.0/24"));
	assert_false(remove_named("10.0.0.2-10.244.1.0/24"));
	assert_int_equal(story.err.code, ERR_INVALID);
}

/* ---- the tutorial's, and threads ---- */

static void
the_tutorial_names_them_the_other_way_round(void **state)
{
	struct route_list found;

	(void)state;
	setenv("HCLOUD_NETWORK", "4711", 1);
	story.nodes[0].provider_id = STR("hcloud-from-scratch://1");
	open_routes(&hz_tutorial);
	found = look_at(NETWORK(ROUTE("10.244.1.0/24", "10.0.0.1")));
	check_route(&found.routes[0], "10.244.1.0/24-10.0.0.1", "n1", "10.244.1.0/24");
}

static void *
make_some(void *number)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	size_t node = (uintptr_t)number;
	struct hcloud cloud = { .routes = story.routes };
	struct call call = lab_call(story.lab, &arena);
	bool ok = true;
	struct error err;

	for (int i = 0; i < 20; i++) {
		struct str destination = arena_printf(&arena, "10.244.%d.0/24",
		                                      (int)node * 100 + i);

		ok &= hz_route_ops.create(&cloud.cloud, &call, &story.nodes[node],
		                          /*hint=*/STR_EMPTY, destination, &err);
	}
	return ok ? &story : NULL;
}

/* The lab takes one request at a time as well, and knows no locks. */
static void
changes_wait_for_each_other(void **state)
{
	pthread_t threads[2];
	void *ok;

	(void)state;
	look_at(NETWORK(""));
	answer(ADD, 201, ACTION("success"));
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		thread_start(&threads[i], "routes", make_some, (void *)i);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
		MUST(pthread_join(threads[i], &ok));
		assert_non_null(ok);
	}
	assert_int_equal(story.lab->script.n_asked, 42);
}

#define IN_LAB(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		IN_LAB(routes_lead_to_nodes),
		IN_LAB(the_provider_id_says_which_node),
		IN_LAB(a_gateway_that_is_no_servers_is_a_blackhole),
		IN_LAB(what_cannot_be_known_is_kept),
		IN_LAB(a_route_to_a_server_that_two_nodes_claim_is_kept),
		IN_LAB(no_list_without_the_network),
		IN_LAB(creates_a_route),
		IN_LAB(what_is_there_is_not_made_again),
		IN_LAB(a_stale_gateway_is_replaced),
		IN_LAB(a_node_without_a_provider_id_is_found_by_name),
		IN_LAB(a_server_that_has_just_joined_is_asked_for),
		IN_LAB(an_old_look_is_renewed),
		IN_LAB(says_which_nodes_can_have_none),
		IN_LAB(says_what_is_wrong_with_a_server),
		IN_LAB(the_node_must_have_the_address),
		IN_LAB(a_pod_cidr_outside_of_the_clusters_is_refused),
		IN_LAB(a_live_nodes_route_is_not_taken_away),
		IN_LAB(a_route_with_an_unknown_gateway_is_not_taken_away),
		IN_LAB(a_refusal_names_the_fields),
		IN_LAB(a_refused_route_is_sent_once_an_hour),
		IN_LAB(a_route_is_sent_again_when_the_table_has_changed),
		IN_LAB(a_node_without_a_gateway_is_asked_for_once_an_hour),
		IN_LAB(a_route_that_came_meanwhile_is_success),
		IN_LAB(a_full_table_is_asked_once_a_run),
		IN_LAB(a_busy_network_is_left_alone),
		IN_LAB(an_action_without_an_end_blocks_no_worker),
		IN_LAB(an_action_that_fails_is_reported),
		IN_LAB(removes_by_either_name),
		IN_LAB(what_is_gone_is_removed),
		IN_LAB(the_tutorial_names_them_the_other_way_round),
		IN_LAB(changes_wait_for_each_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
