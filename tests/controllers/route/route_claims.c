/* tests/controllers/route/route_claims.c: which node may have a pod CIDR, against a naive model;
 * and the decisions of the breaker. */
#include "controllers/route/route_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static struct arena arena;

static int
tear_down(void **state)
{
	(void)state;
	arena_fini(&arena);
	return 0;
}

static struct route_claim
claim(size_t node, const char *cidr, int64_t created_s, const char *uid)
{
	struct route_claim c = { .node = node,
		                 .cidr = str_c(cidr),
		                 .created_wall_ns = created_s * NS_PER_SEC,
		                 .uid = str_c(uid) };

	assert_true(ip_net_parse(c.cidr, &c.net));
	return c;
}

/* ---- claims ---- */

static bool
overlaps(const struct route_claim *a, const struct route_claim *b)
{
	return ip_net_is_within(&a->net, &b->net) || ip_net_is_within(&b->net, &a->net);
}

static bool
goes_before(const struct route_claim *a, const struct route_claim *b)
{
	if (a->is_routed != b->is_routed)
		return a->is_routed;
	return a->created_wall_ns < b->created_wall_ns ||
	       (a->created_wall_ns == b->created_wall_ns && str_cmp(a->uid, b->uid) < 0);
}

/* The rule once more, claim by claim: a claim is granted if it overlaps with no granted claim that
 * goes before it. */
static void
check(const struct route_claim *claims, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		bool is_wanted = true;

		for (size_t j = 0; j < n && !claims[i].is_routed; j++)
			is_wanted = is_wanted && !(j != i && claims[j].is_granted &&
			                           goes_before(&claims[j], &claims[i]) &&
			                           overlaps(&claims[j], &claims[i]));
		assert_int_equal(claims[i].is_granted, is_wanted);
		assert_int_equal(!claims[i].lost_to, is_wanted);
		if (claims[i].lost_to)
			assert_true(claims[i].lost_to->is_granted &&
			            overlaps(claims[i].lost_to, &claims[i]));
	}
}

static void
any_claims_are_decided_by_the_rule(void **state)
{
	static const char *const cidrs[] = {
		"0.0.0.0/0",      "10.244.0.0/16", "10.244.0.0/17",   "10.244.1.0/24",
		"10.244.1.0/25",  "10.244.1.9/25", "10.244.1.128/25", "10.244.2.0/24",
		"10.244.3.0/24",  "::/0",          "fd00::/48",       "fd00::/64",
		"fd00:0:0:1::/64"
	};
	static const char *const uids[] = { "a", "b", "c", "d", "e", "f", "g", "h", "i", "j" };

	(void)state;
	srand(11);
	for (int round = 0; round < 20000; round++) {
		struct route_claim claims[10];
		size_t n = (size_t)rand() % 11;

		for (size_t i = 0; i < n; i++) {
			claims[i] = claim(i, cidrs[(size_t)rand() % ARRAY_LEN(cidrs)], rand() % 4,
			                  uids[i]);
			claims[i].is_routed = rand() % 5 == 0;
		}
		route_claims_decide(&arena, claims, n);
		check(claims, n);
		arena_reset(&arena);
	}
}

/* ---- the breaker ---- */

static enum route_removal
wanted(const struct route_removal_facts *f)
{
	if (f->n_nodes == 0)
		return ROUTE_REMOVAL_NO_NODES;
	if (f->is_expected || f->n_going <= 3 || 5 * f->n_going <= f->n_table)
		return ROUTE_REMOVAL_DONE;
	return f->agreed_ns >= 300 * NS_PER_SEC ? ROUTE_REMOVAL_DONE : ROUTE_REMOVAL_TOO_MANY;
}

static void
all_removals_are_decided_by_the_rule(void **state)
{
	static const int64_t agreed_ns[] = { 0, 1, 300 * NS_PER_SEC - 1, 300 * NS_PER_SEC,
		                             INT64_MAX };
	static const size_t n_nodes[] = { 0, 1, 5000 };
	size_t n = 0;

	(void)state;
	for (size_t table = 0; table <= 60; table++) {
		for (size_t going = 0; going <= table; going++) {
			for (size_t i = 0; i < ARRAY_LEN(agreed_ns) * ARRAY_LEN(n_nodes) * 2; i++) {
				struct route_removal_facts f = {
					.n_nodes = n_nodes[i / 2 % 3],
					.n_table = table,
					.n_going = going,
					.is_expected = i % 2,
					.agreed_ns = agreed_ns[i / 6],
				};

				assert_int_equal(route_removal_decide(&f), wanted(&f));
				n++;
			}
		}
	}
	assert_true(n > 50000);
}

#define TEST(name) cmocka_unit_test_teardown(name, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(any_claims_are_decided_by_the_rule),
		TEST(all_removals_are_decided_by_the_rule),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
