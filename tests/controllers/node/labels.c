/* tests/controllers/node/labels.c: which labels a node gets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "controllers/node/labels.h"

static struct arena arena;

static const char *
text_of(struct label_list list)
{
	struct buf b = BUF_INIT(4096);
	struct str text;

	for (size_t i = 0; i < list.n; i++)
		buf_addf(&b, "%s%" STR_FMT "=%" STR_FMT, i ? " " : "", STR_ARG(list.items[i].key),
		         STR_ARG(list.items[i].value));
	text = arena_str(&arena, buf_str(&b));
	buf_fini(&b);
	return text.ptr;
}

static struct node
node_with(const struct label *labels, size_t n)
{
	const struct label **each = arena_calloc(&arena, n, sizeof(*each));

	for (size_t i = 0; i < n; i++)
		each[i] = &labels[i];
	return (struct node){ .object.key = STR("n1"), .labels = each, .n_labels = (uint32_t)n };
}

static void
type_zone_and_region_are_written_under_both_names(void **state)
{
	struct label old[] = { { STR("topology.kubernetes.io/zone"), STR("z1") },
		               { STR("beta.kubernetes.io/instance-type"), STR("old") } };
	struct node node = node_with(old, 2);
	struct instance instance = { .zone = STR("z1"), .region = STR("r1"), .type = STR("t1") };

	(void)state;
	assert_string_equal(
		text_of(labels_plan(&node, &instance, &arena)),
		"failure-domain.beta.kubernetes.io/zone=z1 "
		"failure-domain.beta.kubernetes.io/region=r1 topology.kubernetes.io/region=r1 "
		"beta.kubernetes.io/instance-type=t1 node.kubernetes.io/instance-type=t1");
}

static void
what_the_cloud_does_not_say_is_left_alone(void **state)
{
	struct label old[] = { { STR("topology.kubernetes.io/zone"), STR("z1") } };
	struct node node = node_with(old, 1);
	struct instance instance = { .zone = STR_EMPTY, .region = STR_EMPTY, .type = STR_EMPTY };

	(void)state;
	assert_string_equal(text_of(labels_plan(&node, &instance, &arena)), "");
	instance.region = STR("r1");
	assert_string_equal(
		text_of(labels_plan(&node, &instance, &arena)),
		"failure-domain.beta.kubernetes.io/region=r1 topology.kubernetes.io/region=r1");
}

static void
additional_labels_never_override_nor_take_kubernetes_names(void **state)
{
	struct label old[] = { { STR("example.com/rack"), STR("mine") },
		               { STR("same"), STR("v") } };
	const struct label more[] = { { STR("example.com/rack"), STR("r1") },
		                      { STR("same"), STR("v") },
		                      { STR("kubernetes.io/x"), STR("v") },
		                      { STR("foo.k8s.io/x"), STR("v") },
		                      { STR("node.kubernetes.io/x"), STR("v") },
		                      { STR("app.k8snio/x"), STR("v") },
		                      { STR("mykubernetes.io/x"), STR("v") },
		                      { STR("topology.k8s.cp/x"), STR("v") },
		                      { STR("plain"), STR("") } };
	struct node node = node_with(old, 2);
	struct instance instance = { .zone = STR_EMPTY,
		                     .region = STR_EMPTY,
		                     .type = STR_EMPTY,
		                     .labels = more,
		                     .n_labels = ARRAY_LEN(more) };

	(void)state;
	log_set_fd(-1);
	assert_string_equal(text_of(labels_plan(&node, &instance, &arena)),
	                    "app.k8snio/x=v mykubernetes.io/x=v topology.k8s.cp/x=v plain=");
}

static void
ga_labels_follow_the_beta_ones(void **state)
{
	struct label old[] = { { STR("failure-domain.beta.kubernetes.io/zone"), STR("z1") },
		               { STR("topology.kubernetes.io/zone"), STR("changed by hand") },
		               { STR("beta.kubernetes.io/instance-type"), STR("t1") },
		               { STR("topology.kubernetes.io/region"),
		                 STR("ga only: left alone") } };
	struct node node = node_with(old, 4);

	(void)state;
	assert_string_equal(text_of(labels_reconcile(&node, &arena)),
	                    "topology.kubernetes.io/zone=z1 node.kubernetes.io/instance-type=t1");
	old[1].value = STR("z1");
	node.n_labels = 2;
	assert_string_equal(text_of(labels_reconcile(&node, &arena)), "");
	old[0].key = STR("failure-domain.beta.kubernetes.io/region");
	node.n_labels = 1;
	assert_string_equal(text_of(labels_reconcile(&node, &arena)),
	                    "topology.kubernetes.io/region=z1");
}

static int
fini(void **state)
{
	(void)state;
	arena_fini(&arena);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(type_zone_and_region_are_written_under_both_names),
		cmocka_unit_test(what_the_cloud_does_not_say_is_left_alone),
		cmocka_unit_test(additional_labels_never_override_nor_take_kubernetes_names),
		cmocka_unit_test(ga_labels_follow_the_beta_ones),
	};

	return cmocka_run_group_tests(tests, NULL, fini);
}
