/* The work that one Service can cause in the example. */
#include "work.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/limits.h"
#include "cloud/balancer.h"
#include "cloud/fake_host.h"
#include "cloud/http_script.h"

enum {
	PORTS = LIMIT_BALANCER_PORTS / 2,
	NODES = 1000,
};

extern const struct cloud_ops example_cloud;

/* Creates the balancer of a Service with that many ports and nodes. */
static struct work
ensure(size_t n_ports, size_t n_nodes)
{
	static const enum ip_family families[] = { IP_V4 };
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct lb_port *ports = arena_calloc(&arena, n_ports, sizeof(*ports));
	struct node_ref *nodes = arena_calloc(&arena, n_nodes, sizeof(*nodes));
	struct lb_spec spec = { .namespace = STR("default"),
		                .service = STR("web"),
		                .uid = STR("u"),
		                .name = STR("lb"),
		                .ports = ports,
		                .n_ports = n_ports,
		                .nodes = nodes,
		                .n_nodes = n_nodes,
		                .families = families,
		                .n_families = 1 };
	struct http_script script;
	struct fake_host fake;
	struct cloud *cloud;
	struct call call;
	struct lb_status status;
	enum lb_outcome outcome;
	struct work work = { 0 };
	struct error err;

	setenv("EXAMPLE_URL", "http://127.0.0.1:1", 1);
	setenv("EXAMPLE_TOKEN", "secret", 1);
	http_script_init(&script);
	fake_host_init(&fake);
	fake.host.http = &script.client;
	call = fake_host_call(&fake, &arena);
	assert_true(example_cloud.load(&(struct cloud_config){ 0 }, &cloud, &err));
	cloud->host = &fake.host;
	assert_true(example_cloud.start(cloud, &fake.host, &err));
	http_script_answer(&script, "/balancers?page=1&size=50", 200,
	                   "{\"balancers\":[],\"total\":0}");
	http_script_answer(&script, "POST /balancers", 201,
	                   "{\"id\":\"9\",\"name\":\"lb\",\"ip\":\"198.51.100.9\","
	                   "\"ports\":[],\"targets\":[]}");
	for (size_t i = 0; i < n_ports; i++) {
		ports[i] = (struct lb_port){ .port = (int32_t)i + 1, .node_port = 30000 };
		work.n_bytes += sizeof("{\"port\":80,\"nodePort\":30000,\"protocol\":\"TCP\"}");
	}
	for (size_t i = 0; i < n_nodes; i++) {
		nodes[i].provider_id = arena_printf(&arena, "example://%zu", i);
		work.n_bytes += nodes[i].provider_id.len;
	}
	work.n_branches = WORK(if (!balancer_ensure(cloud, &call, &spec, &outcome, &status, &err))
	                               fail_msg("%s", err.msg););
	example_cloud.close(cloud);
	fake_host_fini(&fake);
	http_script_fini(&script);
	return work;
}

static struct work
ports_of_a_service(size_t n)
{
	return ensure(n, 2);
}

static struct work
nodes_of_a_service(size_t n)
{
	return ensure(1, n);
}

static void
services(void **state)
{
	(void)state;
	work_check("ports", ports_of_a_service, PORTS, 100);
	work_check("nodes", nodes_of_a_service, NODES, 100);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(services),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
