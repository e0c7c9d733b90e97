/* tests/controllers/route/route_plan.c: docs/spec/framework.md, "Routes" and "NetworkUnavailable",
 * as a table, and then at random against a naive model. */
#include "controllers/route/route_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static struct ip_net cluster[2];

static const struct str cidr_a[] = { STR("10.244.1.0/24") };
static const struct str cidr_b[] = { STR("10.244.2.0/24"), STR("fd00:2::/64") };
static const struct address address_a[] = { { STR("InternalIP"), STR("10.0.0.1") },
	                                    { STR("Hostname"), STR("a") } };
static const struct address address_a_turned[] = { { STR("Hostname"), STR("a") },
	                                           { STR("InternalIP"), STR("10.0.0.1") } };

static const struct route_node nodes[] = {
	{ STR("a"), cidr_a, 1, address_a, 2, false },
	{ STR("b"), cidr_b, 2, NULL, 0, false },
	{ STR("bare"), NULL, 0, NULL, 0, false },
};

static struct arena arena;

static int
set_up(void **state)
{
	(void)state;
	assert_true(ip_net_parse(STR("10.244.0.0/16"), &cluster[0]));
	assert_true(ip_net_parse(STR("fd00::/16"), &cluster[1]));
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	arena_fini(&arena);
	return 0;
}

static struct route_plan
plan(const struct route *routes, size_t n, bool compares)
{
	return route_plan(&arena, nodes, ARRAY_LEN(nodes), routes, n, cluster, ARRAY_LEN(cluster),
	                  compares);
}

/* Two nodes have the provider ID of one machine; the cloud names one of them as the target of all
 * its routes. */
static void
frozen_nodes_keep_what_they_have(void **state)
{
	static const struct str cidr_free[] = { STR("10.244.3.0/24") };
	const struct route_node some[] = {
		{ .name = STR("a"), .pod_cidrs = cidr_a, .n_pod_cidrs = 1, .is_frozen = true },
		{ .name = STR("b"), .pod_cidrs = cidr_b, .n_pod_cidrs = 2, .is_frozen = true },
		{ .name = STR("free"), .pod_cidrs = cidr_free, .n_pod_cidrs = 1 },
	};
	const struct route routes[] = {
		{ .target_node = STR("b"), .destination_cidr = STR("10.244.1.0/24") },
		{ .target_node = STR("b"), .destination_cidr = STR("10.244.9.0/24") },
		{ .destination_cidr = STR("10.244.2.0/24"), .is_blackhole = true },
		/* only this one is needed by another node */
		{ .target_node = STR("b"), .destination_cidr = STR("10.244.3.0/24") },
	};
	struct route_plan p = route_plan(&arena, some, 3, routes, 4, cluster, ARRAY_LEN(cluster),
	                                 false);

	(void)state;
	assert_int_equal(p.n_create, 1);
	assert_int_equal(p.create[0].node, 2);
	assert_int_equal(p.n_remove, 1);
	assert_int_equal(p.remove[0], 3);
	assert_int_equal(p.conditions[0], ROUTE_CONDITION_UNTOUCHED);
	assert_int_equal(p.conditions[1], ROUTE_CONDITION_UNTOUCHED);
	assert_int_equal(p.conditions[2], ROUTE_CONDITION_BY_RESULT);
}

/* Whoever made it was killed: it is asked for again where it is wanted, and removed where it is
 * not. */
static void
an_unfinished_route_is_finished_or_removed(void **state)
{
	const struct route routes[] = {
		{ .target_node = STR("a"),
		  .destination_cidr = STR("10.244.1.0/24"),
		  .is_unfinished = true },
		{ .target_node = STR("gone"),
		  .destination_cidr = STR("10.244.2.0/24"),
		  .is_unfinished = true },
	};
	struct route_plan p = plan(routes, 2, false);

	(void)state;
	assert_int_equal(p.n_create, 3);
	assert_int_equal(p.n_remove, 1);
	assert_int_equal(p.remove[0], 1);
	assert_true(p.removes_first); /* for b */
}

static void
removals_that_a_live_node_needs_are_expected(void **state)
{
	const struct route routes[] = {
		{ .target_node = STR("gone"), .destination_cidr = STR("10.244.1.0/24") },
		{ .target_node = STR("a"), .destination_cidr = STR("10.244.1.0/24") },
		{ .target_node = STR("gone"), .destination_cidr = STR("10.244.9.0/24") },
		{ .target_node = STR("gone"), .destination_cidr = STR("10.244.2.0/24") },
	};
	struct route_plan p = plan(routes, 4, false);

	(void)state;
	assert_int_equal(p.n_remove, 3);
	assert_true(p.is_expected[0]); /* though a's own route is there */
	assert_false(p.is_expected[1]);
	assert_true(p.is_expected[2]); /* for b, which has none */
}

static void
changed_addresses_replace_a_route(void **state)
{
	struct route route = { .target_node = STR("a"),
		               .destination_cidr = STR("10.244.1.0/24"),
		               .target_addresses = address_a_turned,
		               .n_target_addresses = 2 };

	(void)state;
	assert_int_equal(plan(&route, 1, true).n_remove, 0);
	route.n_target_addresses = 1;
	assert_int_equal(plan(&route, 1, false).n_remove, 0);
	assert_int_equal(plan(&route, 1, true).n_remove, 1);
	assert_int_equal(plan(&route, 1, true).n_create, 3);
	assert_true(plan(&route, 1, true).removes_first);
}

/* Applying a plan to any table leads to one that needs nothing: no blackholes, each CIDR once at
 * least, no strangers. */
static void
applying_a_plan_settles(void **state)
{
	static const struct str names[] = { STR("a"), STR("b"), STR("bare"), STR("gone"),
		                            STR_EMPTY };
	static const struct str cidrs[] = { STR("10.244.1.0/24"), STR("10.244.2.0/24"),
		                            STR("fd00:2::/64"), STR("10.244.9.0/24"),
		                            STR("172.16.0.0/24") };

	(void)state;
	srand(7);
	for (int round = 0; round < 5000; round++) {
		struct route table[16], next[32];
		size_t n = (size_t)rand() % 9, n_next = 0;
		struct route_plan p, again;

		for (size_t i = 0; i < n; i++)
			table[i] = (struct route){ .target_node = names[rand() % 5],
				                   .destination_cidr = cidrs[rand() % 5],
				                   .is_blackhole = rand() % 4 == 0 };
		p = plan(table, n, false);
		for (size_t i = 0; i < n; i++) {
			bool is_removed = false;

			for (size_t j = 0; j < p.n_remove; j++)
				is_removed = is_removed || p.remove[j] == i;
			if (!is_removed)
				next[n_next++] = table[i];
		}
		for (size_t i = 0; i < p.n_create; i++)
			next[n_next++] = (struct route){
				.target_node = nodes[p.create[i].node].name,
				.destination_cidr = p.create[i].cidr
			};
		again = plan(next, n_next, false);
		assert_int_equal(again.n_create + again.n_remove, 0);
		arena_reset(&arena);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frozen_nodes_keep_what_they_have),
		cmocka_unit_test(an_unfinished_route_is_finished_or_removed),
		cmocka_unit_test(removals_that_a_live_node_needs_are_expected),
		cmocka_unit_test(changed_addresses_replace_a_route),
		cmocka_unit_test(applying_a_plan_settles),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
