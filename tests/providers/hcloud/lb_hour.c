/* An hour of Services that the cloud refuses something, on a fake clock: how many requests they
 * cost. The cloud is simulated as far as load balancers need it; the pauses are the service
 * controller's. */
#include "providers/hcloud/balancers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/backoff.h"
#include "providers/hcloud/lab.h"

enum {
	SERVICES = 20,
	NODES = 20,
	PORTS = 100,
	FIRST_LB = 100,
	HOUR_S = 3600,
};

/* A balancer of the cloud; that of Service i has the id FIRST_LB + i. */
struct balancer_made {
	bool exists;
	int64_t ports[PORTS], servers[NODES];
	size_t n_ports, n_servers;
};

struct service_made {
	struct lb_spec spec;
	struct lb_wait wait;
	char uid[32], name[32];
	int64_t due_ns;
	unsigned n_failed;
	bool is_settled;
};

static struct {
	struct lab *lab;
	struct arena arena;
	struct hz_actions *actions;
	struct hz_lb_cache *cache;
	struct hz_servers_known *known;
	struct hz_balancers *balancers;
	struct lb_port ports[PORTS];
	struct node_ref nodes[NODES];
	char provider_ids[NODES][32];
	struct service_made services[SERVICES];
	size_t n_services;
	/* the cloud */
	struct balancer_made lbs[SERVICES];
	size_t max_services, max_targets; /* 0: no limit */
	bool tells_limits, servers_lack_ipv4, is_project_full, is_locked;
	const char *refused_verb; /* NULL: none */
	unsigned n_reads, n_changes, n_refused;
} world;

/* ---- the cloud ---- */

static bool
refuse(struct http_response *r, int status, const char *code)
{
	world.n_refused++;
	r->status = status;
	buf_addf(&r->body, "{\"error\":{\"code\":\"%s\",\"message\":\"no\",\"details\":null}}",
	         code);
	return true;
}

static void
add_lb(struct buf *b, size_t i)
{
	const struct balancer_made *lb = &world.lbs[i];

	buf_addf(
		b,
		"{\"id\":%zu,\"name\":\"au-%zu\",\"labels\":{\"hcloud-ccm/service-uid\":\"u-%zu\"},"
		"\"public_net\":{\"enabled\":true,\"ipv4\":{\"ip\":\"203.0.113.1\",\"dns_ptr\":"
		"null},\"ipv6\":{\"ip\":null,\"dns_ptr\":null}},\"private_net\":[],"
		"\"algorithm\":{\"type\":\"round_robin\"},\"protection\":{\"delete\":false},"
		"\"load_balancer_type\":{\"id\":1,\"name\":\"lb11\"",
		FIRST_LB + i, i, i);
	if (world.tells_limits)
		buf_addf(b, ",\"max_services\":%zu", world.max_services);
	buf_add_c(b, "},\"services\":[");
	for (size_t k = 0; k < lb->n_ports; k++)
		buf_addf(
			b,
			"%s{\"protocol\":\"tcp\",\"listen_port\":%d,\"destination_port\":%d,"
			"\"proxyprotocol\":false,\"health_check\":{\"protocol\":\"tcp\",\"port\":%d,"
			"\"interval\":15,\"timeout\":10,\"retries\":3}}",
			k > 0 ? "," : "", (int)lb->ports[k], (int)lb->ports[k] + 30000,
			(int)lb->ports[k] + 30000);
	buf_add_c(b, "],\"targets\":[");
	for (size_t k = 0; k < lb->n_servers; k++)
		buf_addf(b,
		         "%s{\"type\":\"server\",\"server\":{\"id\":%d},\"use_private_ip\":false}",
		         k > 0 ? "," : "", (int)lb->servers[k]);
	buf_add_c(b, "]}");
}

static void
answer_list(struct str target, struct http_response *r)
{
	struct str uid;
	size_t n = 0;

	r->status = 200;
	buf_add_c(&r->body, "{\"load_balancers\":[");
	for (size_t i = 0; i < world.n_services; i++) {
		uid = arena_printf(&world.arena, "%%3Du-%zu&", i);
		if (!world.lbs[i].exists ||
		    (str_contains(target, STR("%3D")) && !str_contains(target, uid)))
			continue;
		buf_add_c(&r->body, n++ > 0 ? "," : "");
		add_lb(&r->body, i);
	}
	buf_addf(&r->body,
	         "],\"meta\":{\"pagination\":{\"next_page\":null,\"total_entries\":%zu}}}", n);
}

static bool
answer_get(struct str target, struct http_response *r)
{
	static const struct str one = STR("/load_balancers/");
	int64_t id;

	world.n_reads++;
	r->status = 200;
	if (str_starts(target, STR("/load_balancers?"))) {
		answer_list(target, r);
	} else if (str_starts(target, one) &&
	           str_to_i64(str_skip(target, one.len), FIRST_LB, FIRST_LB + SERVICES, &id)) {
		buf_add_c(&r->body, "{\"load_balancer\":");
		add_lb(&r->body, (size_t)id - FIRST_LB);
		buf_add_c(&r->body, "}");
	} else if (str_starts(target, STR("/load_balancer_types"))) {
		buf_add_c(&r->body, "{\"load_balancer_types\":[{\"id\":1,\"name\":\"lb11\"}],"
		                    "\"meta\":{\"pagination\":{\"next_page\":null}}}");
	} else if (str_starts(target, STR("/certificates"))) {
		buf_add_c(&r->body, "{\"certificates\":[],\"meta\":{\"pagination\":{\"next_page\":"
		                    "null,\"total_entries\":0}}}");
	} else {
		fail_msg("unexpected: %" STR_FMT, STR_ARG(target));
	}
	return true;
}

/* The number after `key` in a body. */
static int64_t
number_in(struct str body, const char *key)
{
	const char *at = strstr(body.ptr, key);

	if (!at)
		fail_msg("no %s in %" STR_FMT, key, STR_ARG(body));
	return strtoll(at + strlen(key), NULL, 10);
}

static bool
answer_action(struct str target, struct str body, struct http_response *r)
{
	struct balancer_made *lb = &world.lbs[number_in(target, "/load_balancers/") - FIRST_LB];

	if (world.is_locked)
		return refuse(r, 423, "locked");
	if (world.refused_verb && str_ends(target, str_c(world.refused_verb)))
		return refuse(r, 422, "invalid_input");
	if (str_ends(target, STR("/add_service"))) {
		if (world.max_services > 0 && lb->n_ports >= world.max_services)
			return refuse(r, 403, "resource_limit_exceeded");
		lb->ports[lb->n_ports++] = number_in(body, "\"listen_port\":");
	} else if (str_ends(target, STR("/add_target"))) {
		if (world.servers_lack_ipv4)
			return refuse(r, 422, "missing_ipv4");
		if (world.max_targets > 0 && lb->n_servers >= world.max_targets)
			return refuse(r, 403, "resource_limit_exceeded");
		lb->servers[lb->n_servers++] = number_in(body, "\"id\":");
	}
	r->status = 201;
	buf_add_c(&r->body, "{\"action\":{\"id\":70,\"status\":\"success\"}}");
	return true;
}

static bool
do_request(struct http_client *client, struct call *call, const struct http_request *request,
           struct http_response *r, struct error *err)
{
	(void)client;
	(void)call;
	(void)err;
	r->ratelimit_limit = r->ratelimit_remaining = r->ratelimit_reset = -1;
	if (request->method == HTTP_GET)
		return answer_get(request->target, r);
	world.n_changes++;
	if (str_eq_c(request->target, "/load_balancers"))
		return refuse(r, 403,
		              world.is_project_full ? "resource_limit_exceeded" : "unexpected");
	if (str_eq_c(request->target, "/certificates"))
		return refuse(r, 422, "invalid_input");
	return answer_action(request->target, request->body, r);
}

/* ---- the cluster ---- */

static int
setup(void **state)
{
	static const struct http_ops ops = { .do_request = do_request };
	int result = lab_setup(state);

	memset(&world, 0, sizeof(world));
	world.lab = *state;
	world.lab->script.client.ops = &ops;
	world.lab->fake.host.service_event = lab_record_service_event;
	setenv("HCLOUD_LOAD_BALANCERS_LOCATION", "fsn1", 1);
	setenv("HCLOUD_LOAD_BALANCERS_TYPE", "lb11", 1);
	lab_open(world.lab, &hz_official, 0);
	world.known = hz_servers_known_new();
	world.cache = hz_lb_cache_new(world.lab->api, &world.lab->fake.clock);
	world.actions = hz_actions_new(world.lab->api, &world.lab->fake.clock);
	world.balancers = hz_balancers_new(&(struct hz_balancers_config){
		.config = world.lab->config,
		.host = &world.lab->fake.host,
		.api = world.lab->api,
		.actions = world.actions,
		.cache = world.cache,
		.servers_known = world.known,
	});
	for (int i = 0; i < PORTS; i++)
		world.ports[i] = (struct lb_port){ .protocol_text = STR("TCP"),
			                           .port = 80 + i,
			                           .node_port = 30080 + i };
	for (size_t i = 0; i < NODES; i++) {
		snprintf(world.provider_ids[i], sizeof(world.provider_ids[i]), "hcloud://%zu",
		         i + 1);
		world.nodes[i] = (struct node_ref){ .name = str_c(world.provider_ids[i]),
			                            .uid = str_c(world.provider_ids[i]),
			                            .provider_id = str_c(world.provider_ids[i]) };
	}
	return result;
}

static int
teardown(void **state)
{
	hz_balancers_free(world.balancers);
	hz_actions_free(world.actions);
	hz_lb_cache_free(world.cache);
	hz_servers_known_free(world.known);
	arena_fini(&world.arena);
	return lab_teardown(state);
}

static void
put_services(size_t n, size_t n_ports, size_t n_nodes, bool have_balancers)
{
	world.n_services = n;
	for (size_t i = 0; i < n; i++) {
		struct service_made *s = &world.services[i];

		snprintf(s->uid, sizeof(s->uid), "u-%zu", i);
		snprintf(s->name, sizeof(s->name), "au-%zu", i);
		s->spec = (struct lb_spec){ .cluster = STR("kubernetes"),
			                    .namespace = STR("default"),
			                    .service = str_c(s->uid),
			                    .uid = str_c(s->uid),
			                    .name = str_c(s->name),
			                    .ports = world.ports,
			                    .n_ports = n_ports,
			                    .nodes = world.nodes,
			                    .n_nodes = n_nodes };
		world.lbs[i] = (struct balancer_made){ .exists = have_balancers,
			                               .ports = { 80 },
			                               .n_ports = 1 };
	}
}

/* As the service controller does (docs/errors.md). */
static void
sync_service(struct service_made *s)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct hcloud cloud = { .cloud.host = &world.lab->fake.host, .balancers = world.balancers };
	struct call call = lab_call(world.lab, &arena);
	enum lb_outcome outcome = LB_DONE;
	struct lb_status status;
	struct error err;
	bool ok = hz_balancer_ops.ensure(&cloud.cloud, &call, &s->spec, &outcome, &status, &err);
	int64_t now_ns = world.lab->fake.now_ns;

	s->is_settled = ok && outcome == LB_DONE;
	if (s->is_settled)
		s->wait = (struct lb_wait){ 0 };
	else
		balancer_note_wait(&cloud.cloud, &s->spec, &s->wait, now_ns, &err);
	if (s->is_settled)
		s->due_ns = INT64_MAX;
	else if (err.code == ERR_PENDING || err.code == ERR_THROTTLED)
		s->due_ns = now_ns + err.retry_after_ms * NS_PER_MS;
	else
		s->due_ns = now_ns + backoff_ns(5 * NS_PER_SEC, s->n_failed++,
		                                err.code == ERR_INVALID ? 300 * NS_PER_SEC
		                                                        : 60 * NS_PER_SEC);
}

static void
run_an_hour(const char *what)
{
	int64_t end_ns = world.lab->fake.now_ns + HOUR_S * NS_PER_SEC;

	world.n_reads = world.n_changes = world.n_refused = 0;
	for (size_t i = 0; i < world.n_services; i++)
		world.services[i].due_ns = world.lab->fake.now_ns;
	for (;;) {
		struct service_made *next = &world.services[0];

		for (size_t i = 1; i < world.n_services; i++) {
			if (world.services[i].due_ns < next->due_ns)
				next = &world.services[i];
		}
		if (next->due_ns >= end_ns)
			break;
		if (next->due_ns > world.lab->fake.now_ns)
			world.lab->fake.now_ns = next->due_ns;
		sync_service(next);
	}
	world.lab->fake.now_ns = end_ns;
	print_message("%s: %u changes (%u refused), %u reads in an hour\n", what, world.n_changes,
	              world.n_refused, world.n_reads);
}

/* All Services with all balancers, as the service controller does once an hour. */
static void
compare(void)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct hcloud cloud = { .cache = world.cache };
	struct call call = lab_call(world.lab, &arena);
	const struct lb_spec *specs[SERVICES];
	struct error err;

	for (size_t i = 0; i < world.n_services; i++)
		specs[i] = &world.services[i].spec;
	if (!hz_balancer_ops.adopt(&cloud.cloud, &call, specs, world.n_services, &err))
		fail_msg("%s", err.msg);
	for (size_t i = 0; i < world.n_services; i++)
		sync_service(&world.services[i]);
}

static unsigned
n_events(const char *reason)
{
	unsigned n = 0;

	for (const char *at = world.lab->fake.events.ptr; (at = strstr(at, reason)); at++)
		n++;
	return n;
}

/* ---- nothing to do ---- */

/* With the lists of servers (idle_fifty_servers_cost_a_list_each_period in tests/hcloud_hour.c) at
 * most 15 requests in an idle hour. */
static void
the_comparison_of_twenty_services_costs_one_list(void **state)
{
	(void)state;
	put_services(SERVICES, 1, NODES, true);
	run_an_hour("20 Services, 20 nodes");
	world.n_reads = world.n_changes = 0;
	compare();
	for (size_t i = 0; i < SERVICES; i++)
		assert_true(world.services[i].is_settled);
	assert_int_equal(world.n_reads, 1);
	assert_int_equal(world.n_changes, 0);
}

/* ---- ports ---- */

static void
ports_beyond_the_types_limit_are_not_sent(void **state)
{
	(void)state;
	put_services(1, PORTS, 0, true);
	world.lbs[0].ports[0] = 170; /* it stays, as it serves already */
	world.max_services = 5;
	world.tells_limits = true;
	run_an_hour("100 ports, limit 5 known");
	assert_true(world.services[0].is_settled);
	assert_int_equal(world.n_changes, 4);
	assert_int_equal(world.n_refused, 0);
	assert_int_equal(world.lbs[0].ports[1], 80);
	assert_int_equal(world.lbs[0].ports[4], 83);
	assert_int_equal(n_events("LoadBalancerPortsLeftOut"), 1);
	assert_non_null(
		strstr(world.lab->fake.events.ptr,
	               "a load balancer of type \"lb11\" has at most 5 services: these ports "
	               "are not served: 84, 85, "));
}

static void
a_limit_that_is_not_known_costs_one_refusal(void **state)
{
	(void)state;
	put_services(1, PORTS, 0, true);
	world.max_services = 5;
	run_an_hour("100 ports, limit 5 not known");
	assert_true(world.services[0].is_settled);
	assert_int_equal(world.n_refused, 1);
	assert_int_equal(world.n_changes, 5);
	assert_int_equal(n_events("LoadBalancerPortsLeftOut"), 1);
	world.services[0].due_ns = 0;
	sync_service(&world.services[0]);
	assert_int_equal(world.n_refused, 2); /* another hour has begun */
	sync_service(&world.services[0]);
	assert_int_equal(world.n_refused, 2);
}

static void
services_that_are_refused_are_not_sent_again(void **state)
{
	(void)state;
	put_services(1, PORTS, 0, true);
	world.refused_verb = "/add_service";
	run_an_hour("100 ports, each refused");
	assert_false(world.services[0].is_settled);
	assert_int_equal(world.n_changes, 2);
}

/* ---- targets ---- */

static void
a_server_that_is_refused_is_tried_once_for_all_services(void **state)
{
	(void)state;
	put_services(SERVICES, 1, NODES, true);
	world.servers_lack_ipv4 = true;
	run_an_hour("20 Services, 20 nodes without IPv4, not known");
	for (size_t i = 0; i < SERVICES; i++)
		assert_true(world.services[i].is_settled);
	assert_int_equal(world.n_changes, NODES);
	assert_int_equal(n_events("LoadBalancerTargetRefused"), NODES);
}

static void
a_server_known_to_lack_the_address_is_not_tried(void **state)
{
	(void)state;
	put_services(SERVICES, 1, NODES, true);
	world.servers_lack_ipv4 = true;
	for (int64_t id = 1; id <= NODES; id++)
		hz_servers_known_note(world.known, &(struct hz_server){ .id = id }, /*network=*/0,
		                      /*now_ns=*/0);
	run_an_hour("20 Services, 20 nodes without IPv4, known");
	for (size_t i = 0; i < SERVICES; i++)
		assert_true(world.services[i].is_settled);
	assert_int_equal(world.n_changes, 0);
	assert_int_equal(n_events("LoadBalancerTargetRefused"), NODES);
	assert_int_equal(n_events("has no public IPv4 address"), NODES);
}

/* The cloud may show a target for long whose server it does not have any more. */
static void
a_dead_target_is_removed_once(void **state)
{
	(void)state;
	put_services(1, 1, 0, true);
	world.lbs[0].servers[world.lbs[0].n_servers++] = 99;
	world.refused_verb = "/remove_target";
	run_an_hour("a dead target");
	for (int i = 0; i < 5; i++) {
		world.services[0].due_ns = 0;
		sync_service(&world.services[0]);
	}
	assert_true(world.services[0].is_settled);
	assert_in_range(world.n_refused, 1, 2); /* another hour has begun */
}

static void
targets_beyond_a_limit_that_is_not_known_cost_one_refusal(void **state)
{
	(void)state;
	put_services(1, 1, NODES, true);
	world.max_targets = 5;
	run_an_hour("20 nodes, limit of 5 targets not known");
	assert_true(world.services[0].is_settled);
	assert_int_equal(world.n_changes, 6);
	assert_int_equal(n_events("MaxTargetsReached"), NODES - 5);
	sync_service(&world.services[0]);
	assert_int_equal(world.n_changes, 7); /* another hour has begun */
	for (size_t i = 0; i < 10; i++)
		sync_service(&world.services[0]);
	assert_int_equal(world.n_changes, 7);
	assert_int_equal(n_events("MaxTargetsReached"), 2 * (NODES - 5));
}

static void
a_node_whose_addresses_change_is_tried_again(void **state)
{
	static const struct address address = { { "ExternalIP", 10 }, { "203.0.113.9", 11 } };

	(void)state;
	put_services(1, 1, 1, true);
	world.servers_lack_ipv4 = true;
	sync_service(&world.services[0]);
	world.servers_lack_ipv4 = false;
	sync_service(&world.services[0]);
	assert_int_equal(world.lbs[0].n_servers, 0);
	world.nodes[0].addresses = &address;
	world.nodes[0].n_addresses = 1;
	sync_service(&world.services[0]);
	assert_int_equal(world.lbs[0].n_servers, 1);
}

/* ---- the rest ---- */

static const struct label rdns[] = {
	{ STR("load-balancer.hetzner.cloud/ipv4-rdns"), STR("not a name") },
};
static const struct label managed[] = {
	{ STR("load-balancer.hetzner.cloud/certificate-type"), STR("managed") },
	{ STR("load-balancer.hetzner.cloud/http-managed-certificate-domains"), STR("a.example") },
	{ STR("load-balancer.hetzner.cloud/protocol"), STR("https") },
};
static const struct label algorithm[] = {
	{ STR("load-balancer.hetzner.cloud/algorithm-type"), STR("least_connections") },
};

static void
annotate(const struct label annotations[], size_t n)
{
	world.services[0].spec.annotations = annotations;
	world.services[0].spec.n_annotations = n;
}

static void
a_refused_setting_is_sent_once(void **state)
{
	(void)state;
	put_services(1, 1, 0, true);
	annotate(rdns, ARRAY_LEN(rdns));
	world.refused_verb = "/change_dns_ptr";
	run_an_hour("rDNS refused");
	assert_false(world.services[0].is_settled);
	assert_int_equal(world.n_changes, 1);
}

static void
another_value_is_sent(void **state)
{
	static const struct label other[] = {
		{ STR("load-balancer.hetzner.cloud/ipv4-rdns"), STR("a.example") },
	};

	(void)state;
	put_services(1, 1, 0, true);
	annotate(rdns, ARRAY_LEN(rdns));
	world.refused_verb = "/change_dns_ptr";
	run_an_hour("rDNS refused");
	annotate(other, ARRAY_LEN(other));
	world.n_changes = 0;
	sync_service(&world.services[0]);
	assert_int_equal(world.n_changes, 1);
}

static void
a_refused_certificate_is_ordered_once(void **state)
{
	(void)state;
	put_services(1, 1, 0, true);
	annotate(managed, ARRAY_LEN(managed));
	run_an_hour("certificate refused");
	assert_false(world.services[0].is_settled);
	assert_int_equal(world.n_changes, 1);
}

/* One request with all parts, one without. */
static void
a_full_project_is_asked_for_one_service(void **state)
{
	(void)state;
	put_services(SERVICES, 1, 0, false);
	world.is_project_full = true;
	run_an_hour("20 Services, project full");
	assert_int_equal(world.n_changes, 2);
}

static void
a_balancer_that_stays_locked_is_tried_less_and_less_often(void **state)
{
	unsigned n_first;

	(void)state;
	put_services(1, 1, 0, true);
	annotate(algorithm, ARRAY_LEN(algorithm));
	world.is_locked = true;
	run_an_hour("locked, first hour");
	n_first = world.n_changes;
	assert_in_range(n_first, 10, 70);
	run_an_hour("locked, second hour");
	assert_in_range(world.n_changes, 5, 30);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_comparison_of_twenty_services_costs_one_list),
		TEST(ports_beyond_the_types_limit_are_not_sent),
		TEST(a_limit_that_is_not_known_costs_one_refusal),
		TEST(services_that_are_refused_are_not_sent_again),
		TEST(a_server_that_is_refused_is_tried_once_for_all_services),
		TEST(a_server_known_to_lack_the_address_is_not_tried),
		TEST(a_dead_target_is_removed_once),
		TEST(targets_beyond_a_limit_that_is_not_known_cost_one_refusal),
		TEST(a_node_whose_addresses_change_is_tried_again),
		TEST(a_refused_setting_is_sent_once),
		TEST(another_value_is_sent),
		TEST(a_refused_certificate_is_ordered_once),
		TEST(a_full_project_is_asked_for_one_service),
		TEST(a_balancer_that_stays_locked_is_tried_less_and_less_often),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
