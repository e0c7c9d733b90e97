#include "operator/facts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct arena arena = ARENA_INIT;

static const struct address addresses[] = { { STR("InternalIP"), STR("10.0.0.1") },
	                                    { STR("Hostname"), STR("a") } };

static int
tear_down(void **state UNUSED)
{
	arena_fini(&arena);
	return 0;
}

/* Made on a given day, with one pod CIDR. */
static struct object *
parse_node(const char *name, int day, const char *cidr)
{
	static struct node_kind kind;
	struct object *object = NULL;
	struct error err;

	kind = node_kind;
	kind.keeps_routes = true;
	if (!object_parse(
		    &kind.kind,
		    arena_printf(
			    &arena,
			    "{\"metadata\":{\"name\":\"%s\",\"uid\":\"u-%s\",\"resourceVersion\":\"1\","
			    "\"creationTimestamp\":\"2026-01-%02dT00:00:00Z\","
			    "\"labels\":{\"topology.kubernetes.io/zone\":\"z1\","
			    "\"node.kubernetes.io/instance-type\":\"old\"}},"
			    "\"spec\":{\"podCIDRs\":[\"%s\"]},"
			    "\"status\":{\"addresses\":[{\"type\":\"InternalIP\",\"address\":\"10.0.0.1\"},"
			    "{\"type\":\"Hostname\",\"address\":\"a\"}]}}",
			    name, name, day, cidr),
		    &object, &err))
		fail_msg("%s", err.msg);
	return object;
}

static void
compares_a_node_with_its_machine(void **state UNUSED)
{
	CLEANUP(object_unrefp) struct object *object = parse_node("a", 1, "10.244.1.0/24");
	struct address moved = { STR("InternalIP"), STR("10.0.0.2") };
	struct instance machine = { .presence = PRESENCE_PRESENT,
		                    .type = STR("new"),
		                    .zone = STR("z1"),
		                    .addresses = addresses,
		                    .n_addresses = ARRAY_LEN(addresses) };
	struct node_facts f = facts_of_node(node_of(object), &machine, &arena);

	assert_int_equal(f.addresses_err.code, ERR_NONE);
	assert_false(f.has_other_addresses);
	assert_string_equal(f.labels[0].name, "type");
	assert_true(f.labels[0].differs && str_eq_c(f.labels[0].has, "old"));
	assert_false(f.labels[1].differs);
	/* the machine has no region, so the node keeps what it has */
	assert_false(f.labels[2].differs);

	machine.addresses = &moved;
	machine.n_addresses = 1;
	f = facts_of_node(node_of(object), &machine, &arena);
	assert_true(f.has_other_addresses);

	f = facts_of_node(node_of(object), /*machine=*/NULL, &arena);
	assert_false(f.has_other_addresses || f.labels[0].differs);
}

static void
lists_addresses(void **state UNUSED)
{
	struct str text = facts_addresses(&arena, addresses, ARRAY_LEN(addresses));

	assert_string_equal(text.ptr, "InternalIP 10.0.0.1, Hostname a");
}

/* The oldest node has a pod CIDR, unless the controller routes it to another one. */
static void
finds_the_owner_of_a_pod_cidr(void **state UNUSED)
{
	CLEANUP(object_unrefp) struct object *younger = parse_node("a", 2, "10.244.1.0/24");
	CLEANUP(object_unrefp) struct object *older = parse_node("b", 1, "10.244.1.0/24");
	const struct node *nodes[] = { node_of(younger), node_of(older) };
	struct str cidr = STR("10.244.1.0/24");
	struct route_node routed[] = { { .pod_cidrs = &cidr, .n_pod_cidrs = 1 },
		                       { .n_pod_cidrs = 0 } };
	struct view v = { .nodes = { .items = nodes, .n = 2 } };

	assert_ptr_equal(facts_owner_of_cidr(&v, cidr), node_of(older));
	assert_null(facts_owner_of_cidr(&v, STR("10.244.2.0/24")));
	v.route_run.nodes = routed;
	assert_ptr_equal(facts_owner_of_cidr(&v, cidr), node_of(younger));
}

static void
finds_the_route_to_a_pod_cidr(void **state UNUSED)
{
	struct route routes[] = { { .destination_cidr = STR("10.244.1.0/24") },
		                  { .destination_cidr = STR("10.244.2.0/24") } };
	struct view v = { .routes = { .routes = routes, .n = 2 } };

	assert_ptr_equal(facts_route_to(&v, STR("10.244.2.0/24")), &routes[1]);
	assert_null(facts_route_to(&v, STR("10.244.3.0/24")));
}

/* A Service that was deleted and created again has its name, but not its UID. */
static void
a_uid_decides_to_which_service_a_balancer_belongs(void **state UNUSED)
{
	struct service s = { .object = { .key = STR("default/web"), .uid = STR("u2") } };
	struct lb_listed by_name = { .service = STR("default/web") };
	struct lb_listed of_former = { .service = STR("default/web"), .uid = STR("u1") };
	struct lb_listed by_uid = { .service = STR("default/other"), .uid = STR("u2") };

	assert_true(facts_is_of_service(&by_name, &s));
	assert_false(facts_is_of_service(&of_former, &s));
	assert_true(facts_is_of_service(&by_uid, &s));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(compares_a_node_with_its_machine),
		cmocka_unit_test(lists_addresses),
		cmocka_unit_test(finds_the_owner_of_a_pod_cidr),
		cmocka_unit_test(finds_the_route_to_a_pod_cidr),
		cmocka_unit_test(a_uid_decides_to_which_service_a_balancer_belongs),
	};

	return cmocka_run_group_tests(tests, NULL, tear_down);
}
