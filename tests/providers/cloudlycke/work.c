/* The work that one Service can cause in cloudlycke. */
#include "work.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/limits.h"
#include "providers/cloudlycke/haproxy.h"
#include "providers/cloudlycke/lab.h"

enum {
	RANGES = 10000,
	PORTS = LIMIT_BALANCER_PORTS / 2,
	NODES = 500,
	SERVICES = 2000,
};

static struct arena arena = ARENA_INIT;

/* With n ports, n ranges of which half are there twice, and n addresses in the status. */
static struct lb_spec
spec_of(const char *uid, size_t n_ports, size_t n_ranges, size_t *n_bytes)
{
	static const enum ip_family families[] = { IP_V4 };
	static const struct label share = {
		{ CL_ANNOTATION("share"), sizeof(CL_ANNOTATION("share")) - 1 }, { "key", 3 }
	};
	struct lb_port *ports = arena_calloc(&arena, n_ports + 1, sizeof(*ports));
	struct str *ranges = arena_calloc(&arena, n_ranges + 1, sizeof(*ranges));
	struct lb_ingress *ingress = arena_calloc(&arena, n_ranges + 1, sizeof(*ingress));

	for (size_t i = 0; i < n_ports; i++) {
		ports[i] = (struct lb_port){ .port = (int32_t)i + 1,
			                     .node_port = 30000,
			                     .protocol_text = STR("TCP"),
			                     .name = STR("p") };
		*n_bytes += sizeof("{\"port\":80,\"nodePort\":30000,\"protocol\":\"TCP\"}");
	}
	for (size_t i = 0; i < n_ranges; i++) {
		size_t k = i / 2;

		ranges[i] = arena_printf(&arena, "10.%zu.%zu.7/24", k >> 8, k & 255);
		ingress[i].ip = arena_printf(&arena, "10.%zu.%zu.7", k >> 8, k & 255);
		*n_bytes += ranges[i].len + ingress[i].ip.len;
	}
	return (struct lb_spec){ .cluster = STR("kubernetes"),
		                 .namespace = STR("default"),
		                 .service = str_c(uid),
		                 .uid = str_c(uid),
		                 .name = str_c(uid),
		                 .annotations = &share,
		                 .n_annotations = 1,
		                 .ports = ports,
		                 .n_ports = n_ports,
		                 .source_ranges = ranges,
		                 .n_source_ranges = n_ranges,
		                 .families = families,
		                 .n_families = 1,
		                 .status = { ingress, n_ranges } };
}

static struct work
ranges_and_addresses(size_t n)
{
	struct work work = { 0 };
	struct lb_spec spec = spec_of("a", 1, n, &work.n_bytes);
	struct cl_record_values values;

	work.n_branches = WORK(cl_values_from_status(&spec, &arena, &values));
	assert_int_equal(values.n_source_ranges, n / 2);
	arena_reset(&arena);
	return work;
}

static struct work
ports_of_services_that_share(size_t n)
{
	struct work work = { 0 };
	struct lb_spec one = spec_of("a", n, 1, &work.n_bytes);
	struct lb_spec other = spec_of("b", n, 1, &work.n_bytes);
	struct lb_port *ports = (struct lb_port *)(uintptr_t)other.ports;
	struct cl_record_values a, b;

	for (size_t i = 0; i < n; i++)
		ports[i].port += 1000;
	cl_values_from_status(&one, &arena, &a);
	cl_values_from_status(&other, &arena, &b);
	work.n_branches = WORK(assert_true(cl_may_share(&a.allocation, &b.allocation, NULL)));
	arena_reset(&arena);
	return work;
}

/* HAProxy has a frontend for each port and a server for each port and node, so that much text is
 * needed. */
static struct work
haproxys_file(size_t n)
{
	struct work work = { 0 };
	struct lb_spec spec = spec_of("a", PORTS, 100, &work.n_bytes);
	struct node_ref *nodes = arena_calloc(&arena, n, sizeof(*nodes));
	struct address *addresses = arena_calloc(&arena, n, sizeof(*addresses));
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_HAPROXY_FILE);
	struct cl_record_values values;
	struct cl_record *record;

	for (size_t i = 0; i < n; i++) {
		addresses[i] = (struct address){ STR("InternalIP"), STR("10.9.0.1") };
		nodes[i] = (struct node_ref){ .name = arena_printf(&arena, "n%06zu", i),
			                      .provider_id = STR("cloudlycke://m"),
			                      .addresses = &addresses[i],
			                      .n_addresses = 1 };
	}
	cl_values_from_status(&spec, &arena, &values);
	values.targets = cl_targets_new(nodes, n);
	record = cl_record_new(&values);
	work.n_branches = WORK(cl_haproxy_file(&text, &record, 1, STR_EMPTY));
	work.n_bytes = text.len;
	cl_targets_unref(values.targets);
	cl_record_unref(record);
	arena_reset(&arena);
	return work;
}

static void
no_nodes(const struct cloud_host *host, struct arena *nodes, struct node_ref **ret, size_t *ret_n)
{
	(void)host;
	(void)nodes;
	*ret = NULL;
	*ret_n = 0;
}

/* Each has an address of its own, and a place in HAProxy's file. */
static struct work
adoption(size_t n)
{
	struct cl_block block = { 0 };
	struct cl_pool pool = { .name = STR("p"), .addresses = { &block, 1 } };
	const struct cl_schema schema = { .pools = &pool,
		                          .n_pools = 1,
		                          .balancers.haproxy.is_present = true };
	const struct cloud_host host = { .clock = &clock_real, .nodes = no_nodes };
	const struct lb_spec **specs = arena_calloc(&arena, n, sizeof(*specs));
	CLEANUP(cl_state_freep) struct cl_state *state = NULL;
	struct work work = { 0 };
	struct error err;

	assert_true(ip_parse(STR("10.0.0.0"), &block.first));
	assert_true(ip_parse(STR("10.255.255.255"), &block.last));
	for (size_t i = 0; i < n; i++) {
		struct lb_spec *spec = ARENA_NEW(&arena, struct lb_spec);

		*spec = spec_of(arena_printf(&arena, "%zu", i).ptr, 1, 1, &work.n_bytes);
		spec->status.ingress[0].ip = arena_printf(&arena, "10.%zu.%zu.7", i >> 8, i & 255);
		specs[i] = spec;
	}
	assert_true(cl_state_open(&schema, CL_STATE_NOW, &host, &state, &err));
	work.n_branches = WORK(assert_true(cl_state_adopt(state, &schema, specs, n, &arena, &err)));
	assert_int_equal(state->records.count, n);
	cl_state_free(TAKE(state));
	arena_reset(&arena);
	return work;
}

static void
services(void **state)
{
	(void)state;
	work_check("ranges, and addresses in a status", ranges_and_addresses, RANGES, 60);
	work_check("ports of two Services that share an address", ports_of_services_that_share,
	           PORTS, 10);
	work_check("HAProxy's file", haproxys_file, NODES, 20);
	work_check("Services that are adopted", adoption, SERVICES, 200);
	arena_fini(&arena);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(services),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
