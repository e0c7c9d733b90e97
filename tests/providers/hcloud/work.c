/* The work that one Service, or one node for all Services, can cause in hcloud. */
#include "work.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/limits.h"
#include "providers/hcloud/lb_desired.h"
#include "providers/hcloud/config.h"
#include "providers/hcloud/lb_targets.h"

enum {
	NODES = 500,
	TARGETS = 10000,
	LABELS = 10000,
	PORTS = LIMIT_BALANCER_PORTS / 2,
};

static struct arena arena = ARENA_INIT;

/* The longest selector that is accepted: a list of values takes most of its bytes. */
static struct str
long_selector(void)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(LIMIT_SELECTOR);

	for (size_t i = 1; i < LIMIT_SELECTOR_REQUIREMENTS; i++)
		buf_add_c(&b, "!z,");
	buf_add_c(&b, "k000000 in (");
	for (size_t i = 0; b.len < LIMIT_SELECTOR - 10; i++)
		buf_addf(&b, "v%zu,", i);
	buf_add_char(&b, ')');
	assert_true(buf_ok(&b));
	return arena_str(&arena, buf_str(&b));
}

static struct node_ref
node_with(size_t n_labels, size_t *n_bytes)
{
	struct label *labels = arena_calloc(&arena, n_labels, sizeof(*labels));
	const struct label **list = arena_calloc(&arena, n_labels, sizeof(const struct label *));

	for (size_t i = 0; i < n_labels; i++) {
		labels[i] = (struct label){ arena_printf(&arena, "k%06zu", i), STR("w") };
		list[i] = &labels[i];
		*n_bytes += labels[i].key.len + labels[i].value.len;
	}
	return (struct node_ref){ .provider_id = STR("hcloud://1"),
		                  .labels = list,
		                  .n_labels = n_labels };
}

static struct work
select_nodes(size_t n_nodes, size_t n_labels)
{
	struct label selector = { STR(HZ_LB_PREFIX "node-selector"), long_selector() };
	struct lb_spec spec = { .annotations = &selector, .n_annotations = 1 };
	struct work work = { .n_bytes = selector.value.len };
	const struct hz_selector *selection;

	work.n_branches = WORK(selection = hz_lb_selection(&spec, &arena));
	assert_non_null(selection);
	for (size_t i = 0; i < n_nodes; i++) {
		struct node_ref node = node_with(n_labels, &work.n_bytes);

		work.n_branches += WORK((void)hz_lb_selects(selection, &node));
	}
	arena_reset(&arena);
	return work;
}

static struct work
nodes_to_select_from(size_t n)
{
	return select_nodes(n, 10);
}

static struct work
a_node_with_labels_to_select_by(size_t n)
{
	return select_nodes(1, n);
}

static struct work
ports_and_annotations(size_t n)
{
	struct lb_port *ports = arena_calloc(&arena, n, sizeof(*ports));
	struct label *annotations = arena_calloc(&arena, n, sizeof(*annotations));
	struct lb_spec spec = { .uid = STR("u"),
		                .annotations = annotations,
		                .n_annotations = n,
		                .ports = ports,
		                .n_ports = n };
	struct hz_config config = { 0 };
	struct hz_lb_desired desired;
	struct work work = { 0 };
	struct error err;

	for (size_t i = 0; i < n; i++) {
		ports[i] = (struct lb_port){ .port = (int32_t)i + 1, .node_port = 30000 };
		annotations[i].key = arena_printf(&arena, HZ_LB_PREFIX "%06zu", i);
		annotations[i].value = STR("v");
		work.n_bytes += annotations[i].key.len +
		                sizeof("{\"port\":80,\"nodePort\":30000,\"protocol\":\"TCP\"}");
	}
	work.n_branches = WORK(assert_true(hz_lb_desired_read(&config, 0, &spec, &arena, &desired,
	                                                      &err)));
	arena_reset(&arena);
	return work;
}

/* All of them are targets of the balancer already, in the opposite order. */
static struct work
nodes_as_targets(size_t n)
{
	struct node_ref *nodes = arena_calloc(&arena, n, sizeof(*nodes));
	struct hz_lb_target *targets = arena_calloc(&arena, n, sizeof(*targets));
	struct lb_spec spec = { .uid = STR("u"), .nodes = nodes, .n_nodes = n };
	struct hz_lb lb = { .targets = targets, .n_targets = n };
	struct hz_config config = { .dialect = &hz_official };
	struct hz_targets_config targets_config = { .config = &config };
	struct hz_lb_desired desired = { 0 };
	struct call call = { .arena = &arena };
	struct hz_targets found;
	struct work work = { 0 };

	for (size_t i = 0; i < n; i++) {
		nodes[i].provider_id = arena_printf(&arena, "hcloud://%zu", i + 1);
		targets[n - 1 - i] = (struct hz_lb_target){ .type = HZ_TARGET_SERVER,
			                                    .server = (int64_t)i + 1 };
		work.n_bytes += nodes[i].provider_id.len;
	}
	work.n_branches = WORK({
		hz_targets_read(&targets_config, &call, &spec, &desired, &lb, &found);
		for (size_t i = 0; i < found.n; i++)
			assert_ptr_equal(hz_targets_node(&found, &found.targets[i]), &nodes[i]);
	});
	assert_int_equal(found.n, n);
	arena_reset(&arena);
	return work;
}

static void
selections(void **state)
{
	(void)state;
	work_check("nodes to select from", nodes_to_select_from, NODES, 64);
	work_check("a node with labels to select by", a_node_with_labels_to_select_by, LABELS, 64);
}

static void
services(void **state)
{
	(void)state;
	work_check("ports and annotations", ports_and_annotations, PORTS, 10);
	work_check("nodes as targets", nodes_as_targets, TARGETS, 20);
	arena_fini(&arena);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(selections),
		cmocka_unit_test(services),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
