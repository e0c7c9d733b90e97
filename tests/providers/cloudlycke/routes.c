/* Routes of an inventory: what is listed, written down, passed to a hook, and refused. */
#include "providers/cloudlycke/lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/limits.h"
#include "cloud/route.h"

#define ops cloudlycke_cloud

#define MACHINES_AT(ip)                                                               \
	"machines:\n"                                                                 \
	"- {name: n1, id: m-1, addresses: [{type: ExternalIP, address: 192.0.2.1}, "  \
	"{type: InternalIP, address: " ip "}]}\n"                                     \
	"- {name: n2, id: m-2, addresses: [{type: InternalIP, address: 10.0.0.2}]}\n" \
	"- {name: gone, id: m-3, power: terminated}\n"
#define MACHINES MACHINES_AT("10.0.0.1")

static const char *machines;
static struct lab *lab;
static struct fence fence;
static struct cloud *cloud;
static struct arena arena;
static struct error err;

static int
set_up(void **state)
{
	if (lab_setup(state) != 0)
		return 1;
	lab = *state;
	machines = MACHINES;
	fence = FENCE_OPEN;
	lab->host.fence = &fence;
	lab->host.clock = &clock_real;
	return 0;
}

static int
tear_down(void **state)
{
	ops.close(cloud);
	cloud = NULL;
	arena_fini(&arena);
	return lab_teardown(state);
}

static void
open_with(const char *routes)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(64));

	ops.close(cloud);
	buf_addf(&text, "%sstate: {file: %s/state.json}\nroutes: %s\n", machines, lab->folder,
	         routes);
	lab_write(lab, text.ptr);
	cloud = lab_open(lab);
}

/* A program that appends its input to "inputs", and fails while there is a file "broken". */
static void
open_with_hook(void)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(64)), path = BUF_INIT(KIB(1));

	buf_addf(
		&text,
		"#!/bin/sh\ncat >>%s/inputs\ntest ! -e %s/broken || { echo no way >&2; exit 1; }\n",
		lab->folder, lab->folder);
	lab_put(lab, "hook", text.ptr);
	buf_addf(&path, "%s/hook", lab->folder);
	assert_int_equal(chmod(path.ptr, 0755), 0);
	buf_reset(&text);
	buf_addf(&text, "{hook: %s}", path.ptr);
	open_with(text.ptr);
}

static void
repair_hook(void)
{
	CLEANUP(buf_fini) struct buf path = BUF_INIT(KIB(1));

	buf_addf(&path, "%s/broken", lab->folder);
	assert_int_equal(unlink(path.ptr), 0);
}

static struct call
call(void)
{
	return (struct call){ .clock = &clock_real,
		              .deadline_mono_ns = CLOCK_FOREVER,
		              .arena = &arena };
}

static bool
create(const char *name, const char *provider_id, const char *cidr)
{
	struct node_ref node = { .name = str_c(name), .provider_id = str_c(provider_id) };
	struct call c = call();

	return cloud->routes->create(cloud, &c, &node, STR("uid"), str_c(cidr), &err);
}

static bool
remove_route(const char *name, const char *cidr, bool is_fixed)
{
	struct route route = { .name = STR("r"),
		               .target_node = str_c(name),
		               .destination_cidr = str_c(cidr),
		               .is_fixed = is_fixed };
	struct call c = call();

	return cloud->routes->remove(cloud, &c, &route, &err);
}

/* "name target cidr [blackhole] [unfinished] [fixed];" for each. */
static const char *
listed(void)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(64));
	struct route_list list;
	struct call c = call();

	if (!cloud->routes->list(cloud, &c, &list, &err))
		return "";
	for (size_t i = 0; i < list.n; i++)
		buf_addf(&b, "%" STR_FMT " %" STR_FMT " %" STR_FMT "%s%s%s;",
		         STR_ARG(list.routes[i].name), STR_ARG(list.routes[i].target_node),
		         STR_ARG(list.routes[i].destination_cidr),
		         list.routes[i].is_blackhole ? " blackhole" : "",
		         list.routes[i].is_unfinished ? " unfinished" : "",
		         list.routes[i].is_fixed ? " fixed" : "");
	return arena_strz(&arena, buf_str(&b));
}

static const char *
content(const char *name)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(64)), path = BUF_INIT(KIB(1));

	buf_addf(&path, "%s/%s", lab->folder, name);
	if (!file_read(path.ptr, &b, &err))
		return "";
	return arena_strz(&arena, buf_str(&b));
}

/* ---- tests ---- */

static void
routes_are_offered_where_the_inventory_has_them(void **state)
{
	(void)state;
	lab_write(lab, MACHINES);
	cloud = lab_open(lab);
	assert_null(cloud->routes);
	open_with("{}");
	assert_non_null(cloud->routes);
	assert_null(cloud->balancers);
}

static void
created_routes_are_listed_after_the_static_ones_and_kept(void **state)
{
	static const char *const all =
		"fixed n2 10.9.0.0/16 fixed;lost gone 10.8.0.0/16 blackhole fixed;"
		"kubernetes-uid n1 10.244.1.0/24;kubernetes-uid n1 fd00:1::/64;";

	(void)state;
	open_with("{static: [{name: fixed, targetNode: n2, destinationCIDR: 10.9.0.0/16}, "
	          "{name: lost, targetNode: gone, destinationCIDR: 10.8.0.0/16}]}");
	assert_true(create("n1", "cloudlycke://m-1", "10.244.1.0/24"));
	assert_true(create("n1", "", "fd00:1::/64"));
	assert_true(create("n1", "", "fd00:1::/64")); /* again: nothing */
	assert_string_equal(listed(), all);
	open_with("{static: [{name: fixed, targetNode: n2, destinationCIDR: 10.9.0.0/16}, "
	          "{name: lost, targetNode: gone, destinationCIDR: 10.8.0.0/16}]}");
	assert_string_equal(listed(), all);
	assert_true(remove_route("n1", "fd00:1::/64", false));
	assert_true(remove_route("n1", "fd00:1::/64", false)); /* already gone */
	assert_null(strstr(listed(), "fd00"));
	assert_null(strstr(content("state.json"), "fd00"));
}

static void
impossible_routes_are_refused(void **state)
{
	(void)state;
	open_with("{static: [{name: r, targetNode: n2, destinationCIDR: 10.9.0.0/16}]}");
	assert_false(create("n7", "", "10.244.7.0/24"));
	assert_int_equal(err.code, ERR_INVALID);
	assert_string_equal(err.msg, "target node \"n7\" is not a machine");
	assert_true(create("n1", "", "10.244.1.0/24"));
	assert_false(create("n2", "", "10.244.1.0/24"));
	assert_int_equal(err.code, ERR_EXISTS);
	assert_string_equal(err.msg, "destination \"10.244.1.0/24\" is already routed to \"n1\"");
	assert_false(create("n1", "", "10.9.0.0/16"));
	assert_string_equal(err.msg, "destination \"10.9.0.0/16\" is already routed to \"n2\"");
	assert_true(create("n2", "", "10.9.0.0/16")); /* it is there */
	assert_false(remove_route("n2", "10.9.0.0/16", true));
	assert_string_equal(err.msg, "route \"r\" is static");
	assert_true(remove_route("n2", "10.244.1.0/24", false)); /* that one is n1's */
	assert_string_equal(listed(), "r n2 10.9.0.0/16 fixed;kubernetes-uid n1 10.244.1.0/24;");
}

/* A kubelet may write any pod CIDR into its Node, and the hook changes the routes of its host. */
static void
no_hook_gets_a_destination_outside_of_the_cluster(void **state)
{
	static const struct {
		const char *cidr, *message;
	} cases[] = {
		{ "0.0.0.0/0",
		  "destination \"0.0.0.0/0\" is not contained within the cluster CIDR" },
		{ "::/0", "destination \"::/0\" is not contained within the cluster CIDR" },
		{ "10.244.0.0/15",
		  "destination \"10.244.0.0/15\" is not contained within the cluster CIDR" },
		{ "10.244.1.7/24", "destination \"10.244.1.7/24\" has host bits set" },
		{ "10.244.1.0", "destination \"10.244.1.0\" is not a CIDR" },
	};

	(void)state;
	open_with_hook();
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_false(create("n1", "", cases[i].cidr));
		assert_int_equal(err.code, ERR_INVALID);
		assert_string_equal(err.msg, cases[i].message);
	}
	assert_string_equal(content("inputs"), "");
	assert_string_equal(listed(), "");
}

static void
a_part_of_another_nodes_network_is_refused(void **state)
{
	(void)state;
	open_with_hook();
	assert_true(create("n1", "", "10.244.1.0/24"));
	assert_false(create("n2", "", "10.244.1.128/25"));
	assert_int_equal(err.code, ERR_EXISTS);
	assert_string_equal(err.msg, "destination \"10.244.1.128/25\" is already routed to \"n1\"");
	assert_false(create("n2", "", "10.244.0.0/16"));
	assert_int_equal(err.code, ERR_EXISTS);
	assert_null(strstr(content("inputs"), "\"n2\""));
}

static void
a_machine_that_is_gone_leaves_a_blackhole(void **state)
{
	(void)state;
	open_with("{}");
	assert_true(create("other-name", "cloudlycke://m-1", "10.244.1.0/24"));
	assert_true(create("n2", "", "10.244.2.0/24"));
	assert_null(strstr(listed(), "blackhole"));
	ops.close(cloud);
	cloud = NULL;
	{
		CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(64));

		buf_addf(&text,
		         "machines: [{name: n2, id: m-2, power: terminated}]\n"
		         "state: {file: %s/state.json}\nroutes: {}\n",
		         lab->folder);
		lab_write(lab, text.ptr);
	}
	cloud = lab_open(lab);
	assert_string_equal(listed(), "kubernetes-uid other-name 10.244.1.0/24 blackhole;"
	                              "kubernetes-uid n2 10.244.2.0/24 blackhole;");
}

static void
a_hook_runs_for_creation_and_for_removal(void **state)
{
	(void)state;
	open_with_hook();
	assert_true(create("n1", "", "10.244.1.0/24"));
	assert_true(create("n1", "", "10.244.1.0/24"));
	assert_true(remove_route("n1", "10.244.1.0/24", false));
	assert_string_equal(
		content("inputs"),
		"{\"action\":\"route-ensure\",\"cluster\":\"kubernetes\",\"name\":\"kubernetes-uid\","
		"\"targetNode\":\"n1\",\"machine\":\"m-1\",\"destinationCIDR\":\"10.244.1.0/24\","
		"\"addresses\":[\"10.0.0.1\"]}\n"
		"{\"action\":\"route-delete\",\"cluster\":\"kubernetes\",\"name\":\"kubernetes-uid\","
		"\"targetNode\":\"n1\",\"machine\":\"m-1\",\"destinationCIDR\":\"10.244.1.0/24\","
		"\"addresses\":[\"10.0.0.1\"]}\n");
}

static void
a_route_whose_hook_fails_is_not_listed(void **state)
{
	(void)state;
	open_with_hook();
	lab_put(lab, "broken", "");
	assert_false(create("n1", "", "10.244.1.0/24"));
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	assert_string_equal(err.msg, "route hook failed: no way");
	assert_string_equal(listed(), "");
	assert_null(strstr(content("state.json"), "10.244.1.0"));
}

static void
a_route_whose_hook_fails_to_remove_it_stays(void **state)
{
	(void)state;
	open_with_hook();
	assert_true(create("n1", "", "10.244.1.0/24"));
	lab_put(lab, "broken", "");
	assert_false(remove_route("n1", "10.244.1.0/24", false));
	assert_string_equal(err.msg, "route hook failed: no way");
	assert_string_equal(listed(), "kubernetes-uid n1 10.244.1.0/24;");
}

/* It stays where it was, as far as the hook is concerned, until that has done its work. */
static void
a_machine_with_another_address_runs_the_hook_again(void **state)
{
	(void)state;
	open_with_hook();
	assert_true(create("n1", "", "10.244.1.0/24"));
	machines = MACHINES_AT("10.0.0.9");
	open_with_hook();
	assert_string_equal(listed(), "kubernetes-uid n1 10.244.1.0/24 unfinished;");
	lab_put(lab, "broken", "");
	assert_false(create("n1", "", "10.244.1.0/24"));
	assert_string_equal(listed(), "kubernetes-uid n1 10.244.1.0/24 unfinished;");
	repair_hook();
	lab_put(lab, "inputs", "");
	assert_true(create("n1", "", "10.244.1.0/24"));
	assert_true(create("n1", "", "10.244.1.0/24")); /* the hook is up to date */
	assert_string_equal(
		content("inputs"),
		"{\"action\":\"route-ensure\",\"cluster\":\"kubernetes\",\"name\":\"kubernetes-uid\","
		"\"targetNode\":\"n1\",\"machine\":\"m-1\",\"destinationCIDR\":\"10.244.1.0/24\","
		"\"addresses\":[\"10.0.0.9\"]}\n");
	assert_string_equal(listed(), "kubernetes-uid n1 10.244.1.0/24;");
	assert_null(strstr(content("state.json"), "10.0.0.1\""));
}

/* The process ended between the two writes. */
static void
a_route_whose_hook_did_not_end_is_asked_for_again(void **state)
{
	(void)state;
	lab_put(lab, "state.json",
	        "{\"version\":1,\"generation\":1,\"loadBalancers\":{},\"routes\":{"
	        "\"kubernetes\":[{\"name\":\"kubernetes-uid\",\"targetNode\":\"n1\","
	        "\"machine\":\"m-1\",\"destinationCIDR\":\"10.244.1.0/24\",\"pending\":true}],"
	        "\"other\":[{\"name\":\"x\",\"targetNode\":\"n1\","
	        "\"destinationCIDR\":\"10.244.1.0/24\"}]}}");
	open_with_hook();
	assert_string_equal(listed(), "kubernetes-uid n1 10.244.1.0/24 unfinished;");
	assert_true(create("n1", "", "10.244.1.0/24"));
	assert_non_null(strstr(content("inputs"), "route-ensure"));
	assert_string_equal(listed(), "kubernetes-uid n1 10.244.1.0/24;");
	assert_null(strstr(content("state.json"), "pending"));
	assert_non_null(strstr(content("state.json"), "\"other\":[{\"name\":\"x\"")); /* not ours */
}

/* What its hook may have done is undone, and the network is free for another node. */
static void
a_route_whose_hook_did_not_end_can_be_removed(void **state)
{
	(void)state;
	lab_put(lab, "state.json",
	        "{\"version\":1,\"generation\":1,\"loadBalancers\":{},\"routes\":{"
	        "\"kubernetes\":[{\"name\":\"kubernetes-uid\",\"targetNode\":\"n1\","
	        "\"machine\":\"m-1\",\"destinationCIDR\":\"10.244.1.0/24\",\"pending\":true}]}}");
	open_with_hook();
	assert_string_equal(listed(), "kubernetes-uid n1 10.244.1.0/24 unfinished;");
	assert_true(remove_route("n1", "10.244.1.0/24", false));
	assert_non_null(strstr(content("inputs"), "route-delete"));
	assert_true(create("n2", "", "10.244.1.0/24"));
	assert_string_equal(listed(), "kubernetes-uid n2 10.244.1.0/24;");
}

static void
a_state_that_cannot_be_written_changes_nothing(void **state)
{
	(void)state;
	open_with("{}");
	assert_true(create("n1", "", "10.244.1.0/24"));
	fence_renew(&fence, 1); /* another leads */
	assert_false(create("n2", "", "10.244.2.0/24"));
	assert_false(remove_route("n1", "10.244.1.0/24", false));
	assert_string_equal(listed(), "kubernetes-uid n1 10.244.1.0/24;");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(routes_are_offered_where_the_inventory_has_them),
		TEST(created_routes_are_listed_after_the_static_ones_and_kept),
		TEST(impossible_routes_are_refused),
		TEST(no_hook_gets_a_destination_outside_of_the_cluster),
		TEST(a_part_of_another_nodes_network_is_refused),
		TEST(a_machine_that_is_gone_leaves_a_blackhole),
		TEST(a_hook_runs_for_creation_and_for_removal),
		TEST(a_route_whose_hook_fails_is_not_listed),
		TEST(a_route_whose_hook_fails_to_remove_it_stays),
		TEST(a_machine_with_another_address_runs_the_hook_again),
		TEST(a_route_whose_hook_did_not_end_is_asked_for_again),
		TEST(a_route_whose_hook_did_not_end_can_be_removed),
		TEST(a_state_that_cannot_be_written_changes_nothing),
	};

	return cmocka_run_group_tests_name("cloudlycke routes", tests, NULL, NULL);
}
