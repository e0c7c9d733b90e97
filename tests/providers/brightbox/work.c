/* The work that one Service can cause in brightbox: ensure() against a small account. */
#include "work.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/limits.h"
#include "providers/brightbox/account.h"
#include "providers/brightbox/desired.h"

enum {
	PORTS = LIMIT_BALANCER_PORTS / 2,
	NODES = 1000,
};

static struct arena arena = ARENA_INIT;

static struct lb_port *
make_ports(const struct lb_port *model, size_t n, size_t *n_bytes)
{
	struct lb_port *ports = arena_calloc(&arena, n, sizeof(*ports));

	for (size_t i = 0; i < n; i++) {
		ports[i] = *model;
		ports[i].port = (int32_t)i + 1;
		*n_bytes += sizeof("{\"port\":80,\"nodePort\":30000,\"protocol\":\"TCP\"}");
	}
	return ports;
}

/* ensure() until nothing is left to do. */
static struct work
ports_of_a_service(size_t n)
{
	struct account account = { 0 };
	struct process process;
	struct lb_spec spec = account_service();
	struct lb_status status;
	struct work work = { 0 };
	struct error err;

	process_start(&process, &account);
	spec.ports = make_ports(&spec.ports[0], n, &work.n_bytes);
	spec.n_ports = n;
	for (int i = 0; i < 3; i++)
		work.n_branches += WORK((void)!process_ensure(&process, &spec, &status, &arena,
		                                              &err));
	process_end(&process);
	account_fini(&account);
	arena_reset(&arena);
	return work;
}

static struct work
nodes_and_annotations_of_a_service(size_t n)
{
	struct node_ref *nodes = arena_calloc(&arena, n, sizeof(*nodes));
	struct label *annotations = arena_calloc(&arena, n, sizeof(*annotations));
	struct lb_spec spec = account_service();
	struct bb_desired desired;
	struct work work = { 0 };
	struct error err;

	for (size_t i = 0; i < n; i++) {
		nodes[i].provider_id = arena_printf(&arena, "brightbox://srv-%05zu", i);
		annotations[i].key = arena_printf(&arena, BB_PREFIX "%06zu", i);
		annotations[i].value = STR("v");
		work.n_bytes += nodes[i].provider_id.len + annotations[i].key.len;
	}
	spec.nodes = nodes;
	spec.annotations = annotations;
	spec.n_nodes = spec.n_annotations = n;
	work.n_branches = WORK(assert_true(bb_desired_read(&spec, &arena, &desired, &err)));
	arena_reset(&arena);
	return work;
}

static void
services(void **state)
{
	(void)state;
	/* most of it is for requests, whatever the number of ports */
	work_check("ports", ports_of_a_service, PORTS, 1000);
	work_check("nodes and annotations", nodes_and_annotations_of_a_service, NODES, 10);
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
