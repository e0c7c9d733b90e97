#include "providers/hcloud/lb_targets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "providers/hcloud/lab.h"

#define ROBOT_LIST                                                                                   \
	"[{\"server\":{\"server_number\":321,\"server_name\":\"bm1\",\"server_ip\":\"203.0.113.9\"," \
	"\"server_ipv6_net\":\"2a01:4f8:111:4221::\",\"product\":\"AX41\",\"dc\":\"FSN1-DC14\"}},"   \
	"{\"server\":{\"server_number\":322,\"server_name\":\"bm2\",\"server_ip\":null,"             \
	"\"server_ipv6_net\":\"2a01:4f8:111:4222::\",\"product\":\"AX41\",\"dc\":\"FSN1-DC14\"}}]"

static const struct address internal[] = { { { "InternalIP", 10 }, { "10.1.0.2", 8 } } };

struct story {
	struct lab *lab;
	struct arena arena;
	struct lb_spec spec;
	struct hz_lb_desired desired;
	struct hz_targets targets;
	struct refusals *refusals;
	struct hz_servers_known *servers_known;
	char text[500];
};

static struct node_ref
node(const char *name, const char *provider_id)
{
	return (struct node_ref){ .name = str_c(name),
		                  .uid = STR("u"),
		                  .provider_id = str_c(provider_id) };
}

static void
begin(struct story *s, void **state, bool has_robot)
{
	s->lab = *state;
	s->lab->fake.host.service_event = lab_record_service_event;
	setenv("ROBOT_ENABLED", has_robot ? "true" : "false", 1);
	lab_open(s->lab, &hz_official, 0);
	s->spec.service = STR("web");
	s->refusals = refusals_new(&s->lab->fake.clock);
	s->servers_known = hz_servers_known_new();
}

/* "1 2p 10.0.0.1(stays)": servers by id, p by their private address; addresses. */
static const char *
read_targets(struct story *s, const struct node_ref nodes[], size_t n, const struct hz_lb *lb)
{
	struct hz_targets_config config = { .config = s->lab->config,
		                            .host = &s->lab->fake.host,
		                            .robot = s->lab->robot,
		                            .refusals = s->refusals,
		                            .servers_known = s->servers_known };
	struct call call = lab_call(s->lab, &s->arena);
	struct buf b = BUF_FIXED(s->text);

	s->text[0] = '\0';
	buf_reset(&s->lab->fake.events);
	s->spec.nodes = nodes;
	s->spec.n_nodes = n;
	hz_targets_read(&config, &call, &s->spec, &s->desired, lb, &s->targets);
	for (size_t i = 0; i < s->targets.n; i++) {
		const struct hz_lb_target *t = &s->targets.targets[i];

		buf_add_c(&b, i > 0 ? " " : "");
		if (t->type == HZ_TARGET_SERVER)
			buf_addf(&b, "%d%s", (int)t->server, t->uses_private_ip ? "p" : "");
		else
			buf_addf(&b, "%" STR_FMT "%s", STR_ARG(t->ip),
			         s->targets.targets[i].node ? "" : "(stays)");
	}
	return s->text;
}

static void
end(struct story *s)
{
	refusals_free(s->refusals);
	hz_servers_known_free(s->servers_known);
	arena_fini(&s->arena);
}

static void
test_cloud_servers(void **state)
{
	struct story s = { 0 };
	const struct node_ref nodes[] = { node("a", "hcloud://7"), node("b", "hcloud://5"),
		                          node("c", "hcloud://7") };

	begin(&s, state, false);
	assert_string_equal(read_targets(&s, nodes, 3, NULL), "7 5");
	assert_true(str_eq_c(hz_targets_node(&s.targets, &s.targets.targets[1])->name, "b"));
	s.desired.uses_private_ip = true;
	assert_string_equal(read_targets(&s, nodes, 3, NULL), "7p 5p");
	assert_string_equal(s.lab->fake.events.ptr, "");
	assert_int_equal(s.targets.missing.code, ERR_NONE);
	end(&s);
}

/* The official controller stops at the second; and at the third it takes one for the other. */
static void
test_ids_that_are_none_of_ours(void **state)
{
	struct story s = { 0 };
	const struct node_ref nodes[] = { node("a", "aws:///i-1"), node("b", "hcloud://x"),
		                          node("c", "hcloud://5") };

	begin(&s, state, false);
	assert_string_equal(read_targets(&s, nodes, 3, NULL), "5");
	assert_string_equal(
		s.lab->fake.events.ptr,
		"a UnknownProviderIDPrefix: Node could not be added to Load Balancer for service web "
		"because the provider ID does not match any known format\n"
		"b InvalidProviderID: Node could not be added to Load Balancer for service web: "
		"unable to parse server id: hcloud://x\n");
	assert_int_equal(s.targets.missing.code, ERR_NONE);
	end(&s);
}

static void
test_dedicated_servers(void **state)
{
	struct story s = { 0 };
	const struct node_ref nodes[] = { node("bm1", "hrobot://321"), node("c", "hcloud://321"),
		                          node("bm2", "hcloud://bm-322"),
		                          node("bm3", "hrobot://323") };

	lab_use_robot(*state);
	begin(&s, state, true);
	lab_answer(s.lab, "/server", 200, ROBOT_LIST);
	assert_string_equal(read_targets(&s, nodes, 4, NULL), "203.0.113.9 321");
	assert_string_equal(
		s.lab->fake.events.ptr,
		"bm2 LoadBalancerTargetRefused: Node could not be added to Load Balancer "
		"for service web: the dedicated server has no IPv4 address\n"
		"bm3 ServerNotFound: No server with id 323 was found in Robot\n");
	assert_int_equal(s.targets.missing.code, ERR_NONE);
	end(&s);
}

static void
test_dedicated_servers_while_robot_is_off(void **state)
{
	struct story s = { 0 };
	const struct node_ref nodes[] = { node("bm1", "hrobot://321"), node("c", "hcloud://5") };
	struct hz_lb_target old = { .type = HZ_TARGET_IP, .ip = STR("203.0.113.9") };
	struct hz_lb lb = { .targets = &old, .n_targets = 1 };

	begin(&s, state, false);
	assert_string_equal(read_targets(&s, nodes, 2, &lb), "5");
	assert_string_equal(s.lab->fake.events.ptr,
	                    "bm1 ServerNotFound: No server with id 321 was found in Robot\n");
	assert_int_equal(s.targets.missing.code, ERR_NONE);
	end(&s);
}

static void
test_a_robot_that_does_not_answer_takes_nothing_away(void **state)
{
	struct story s = { 0 };
	const struct node_ref nodes[] = { node("bm1", "hrobot://321"), node("c", "hcloud://5") };
	struct hz_lb_target old[] = { { .type = HZ_TARGET_IP, .ip = STR("203.0.113.9") },
		                      { .type = HZ_TARGET_SERVER, .server = 9 } };
	struct hz_lb lb = { .targets = old, .n_targets = 2 };

	lab_use_robot(*state);
	begin(&s, state, true);
	lab_add(s.lab, (struct http_script_answer){ .target = "/server", .code = ERR_UNAVAILABLE });
	assert_string_equal(read_targets(&s, nodes, 2, &lb), "5 203.0.113.9(stays)");
	assert_int_not_equal(s.targets.missing.code, ERR_NONE);
	assert_int_equal(s.targets.missing.code, ERR_UNAVAILABLE);
	assert_non_null(strstr(s.targets.missing.msg,
	                       "target bm1: failed to get list of dedicated"));
	end(&s);
}

/* What the official controller left: the private address came beside the public one. */
static void
test_private_addresses_of_dedicated_servers(void **state)
{
	struct story s = { 0 };
	struct node_ref nodes[] = { node("bm1", "hrobot://321") };
	struct hz_lb_target old = { .type = HZ_TARGET_IP, .ip = STR("203.0.113.9") };
	struct hz_lb lb = { .targets = &old, .n_targets = 1 };

	lab_use_robot(*state);
	begin(&s, state, true);
	lab_answer(s.lab, "/server", 200, ROBOT_LIST);
	s.desired.uses_private_ip = true;
	assert_string_equal(read_targets(&s, nodes, 1, NULL), "203.0.113.9");
	assert_string_equal(
		s.lab->fake.events.ptr,
		"web InternalIPNotConfigured: hcops/LoadBalancerOps.ReconcileHCLBTargets: load balancer "
		"web has set `use-private-ip: true`, but no InternalIP found for node bm1. Continuing "
		"with ExternalIP.\n");
	nodes[0].addresses = internal;
	nodes[0].n_addresses = 1;
	assert_string_equal(read_targets(&s, nodes, 1, NULL), "10.1.0.2");
	assert_string_equal(read_targets(&s, nodes, 1, &lb), "10.1.0.2 203.0.113.9(stays)");
	end(&s);
}

static void
test_private_addresses_without_a_login_for_robot(void **state)
{
	struct story s = { 0 };
	struct node_ref nodes[] = { node("bm1", "hrobot://321") };

	begin(&s, state, true);
	s.desired.uses_private_ip = true;
	assert_string_equal(read_targets(&s, nodes, 1, NULL), "");
	assert_string_equal(
		s.lab->fake.events.ptr,
		"web InternalIPNotConfigured: no InternalIP found for Robot node bm1 "
		"(id=321), cannot add as LB target without Robot credentials; skipping\n");
	nodes[0].addresses = internal;
	nodes[0].n_addresses = 1;
	assert_string_equal(read_targets(&s, nodes, 1, NULL), "10.1.0.2");
	s.desired.uses_private_ip = false;
	assert_string_equal(read_targets(&s, nodes, 1, NULL), "");
	assert_string_equal(s.lab->fake.events.ptr,
	                    "bm1 ServerNotFound: No server with id 321 was found in Robot\n");
	end(&s);
}

/* Else the table would grow for ever where machines come and go. */
static void
test_servers_that_nobody_reads_are_forgotten(void **state)
{
	struct hz_servers_known *known = hz_servers_known_new();

	(void)state;
	hz_servers_known_note(known, &(struct hz_server){ .id = 1 }, 0, NS_PER_SEC);
	hz_servers_known_note(known, &(struct hz_server){ .id = 2 }, 0, 1800 * NS_PER_SEC);
	hz_servers_known_note(known, &(struct hz_server){ .id = 3 }, 0, 3602 * NS_PER_SEC);
	assert_null(hz_servers_known_obstacle(known, 1, false));
	assert_non_null(hz_servers_known_obstacle(known, 2, false));
	assert_non_null(hz_servers_known_obstacle(known, 3, false));
	hz_servers_known_free(known);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_cloud_servers, lab_setup, lab_teardown),
		cmocka_unit_test(test_servers_that_nobody_reads_are_forgotten),
		cmocka_unit_test_setup_teardown(test_ids_that_are_none_of_ours, lab_setup,
		                                lab_teardown),
		cmocka_unit_test_setup_teardown(test_dedicated_servers, lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(test_dedicated_servers_while_robot_is_off,
		                                lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(
			test_a_robot_that_does_not_answer_takes_nothing_away, lab_setup,
			lab_teardown),
		cmocka_unit_test_setup_teardown(test_private_addresses_of_dedicated_servers,
		                                lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(test_private_addresses_without_a_login_for_robot,
		                                lab_setup, lab_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
