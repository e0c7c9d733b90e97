#include "kube/patch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"

static void
check(void (*build)(struct buf *, const struct node_patch *), const struct node_patch *patch,
      const char *expected)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(4));

	build(&b, patch);
	assert_string_equal(b.ptr, expected);
}

static void
names_what_it_was_computed_from(void **state UNUSED)
{
	check(patch_node, &(struct node_patch){ .uid = STR("u") },
	      "{\"metadata\":{\"uid\":\"u\"}}");
	check(patch_node, &(struct node_patch){ .uid = STR("u"), .resource_version = STR("7") },
	      "{\"metadata\":{\"uid\":\"u\",\"resourceVersion\":\"7\"}}");
	check(patch_node_status,
	      &(struct node_patch){ .uid = STR("u"), .resource_version = STR("7") },
	      "{\"metadata\":{\"uid\":\"u\",\"resourceVersion\":\"7\"},\"status\":{\"addresses\":[]}}");
}

static void
initialises_a_node(void **state UNUSED)
{
	const struct label labels[] = { { STR("zone"), STR("z1") }, { STR("type"), STR("a\"b") } };
	const struct str taints[] = { STR("{\"key\":\"a\"}"), STR("{\"key\":\"b\"}") };

	check(patch_node,
	      &(struct node_patch){ .uid = STR("u"),
	                            .resource_version = STR("7"),
	                            .labels = labels,
	                            .n_labels = 2,
	                            .provider_id = STR("hcloud://1"),
	                            .has_taints = true,
	                            .taints = taints,
	                            .n_taints = 2 },
	      "{\"metadata\":{\"uid\":\"u\",\"resourceVersion\":\"7\",\"labels\":{\"zone\":\"z1\",\"type\":\"a\\\"b\"}},"
	      "\"spec\":{\"providerID\":\"hcloud://1\",\"taints\":[{\"key\":\"a\"},{\"key\":\"b\"}]}}");
}

static void
says_whether_the_network_is_there(void **state UNUSED)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(4));

	patch_node_network(&b, STR("u"), NODE_NETWORK_ROUTED, 0);
	assert_string_equal(
		b.ptr,
		"{\"metadata\":{\"uid\":\"u\"},\"status\":{\"conditions\":[{\"type\":\"NetworkUnavailable\","
		"\"status\":\"False\",\"reason\":\"RouteCreated\",\"message\":\"RouteController created a route\","
		"\"lastHeartbeatTime\":\"1970-01-01T00:00:00Z\",\"lastTransitionTime\":\"1970-01-01T00:00:00Z\"}]}}");
	buf_reset(&b);
	patch_node_network(&b, STR("u"), NODE_NETWORK_MISSING, 0);
	assert_non_null(strstr(b.ptr, "\"status\":\"True\",\"reason\":\"NoRouteCreated\""));
}

static void
writes_parts_alone(void **state UNUSED)
{
	const struct label label = { STR("k"), STR("v") };

	check(patch_node, &(struct node_patch){ .uid = STR("u"), .labels = &label, .n_labels = 1 },
	      "{\"metadata\":{\"uid\":\"u\",\"labels\":{\"k\":\"v\"}}}");
	check(patch_node, &(struct node_patch){ .uid = STR("u"), .provider_id = STR("x://1") },
	      "{\"metadata\":{\"uid\":\"u\"},\"spec\":{\"providerID\":\"x://1\"}}");
	check(patch_node, &(struct node_patch){ .uid = STR("u"), .has_taints = true },
	      "{\"metadata\":{\"uid\":\"u\"},\"spec\":{\"taints\":null}}");
}

/* Two addresses of one type must survive (docs/spec/kube-client.md,
 * "Node addresses in patches"). */
static void
writes_addresses_as_they_are(void **state UNUSED)
{
	const struct address addresses[] = { { STR("InternalIP"), STR("10.0.0.1") },
		                             { STR("InternalIP"), STR("fd00::1") },
		                             { STR("Hostname"), STR("a") } };

	check(patch_node_status,
	      &(struct node_patch){ .uid = STR("u"), .addresses = addresses, .n_addresses = 3 },
	      "{\"metadata\":{\"uid\":\"u\"},\"status\":{\"addresses\":["
	      "{\"type\":\"InternalIP\",\"address\":\"10.0.0.1\"},{\"type\":\"InternalIP\",\"address\":\"fd00::1\"},"
	      "{\"type\":\"Hostname\",\"address\":\"a\"}]}}");
}

static void
makes_paths(void **state UNUSED)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(4));

	patch_node_path(&b, STR("worker-1.example"), NULL);
	assert_string_equal(b.ptr, "/api/v1/nodes/worker-1.example");
	buf_reset(&b);
	patch_node_path(&b, STR("../x?y"), "status");
	assert_string_equal(b.ptr, "/api/v1/nodes/..%2Fx%3Fy/status");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_what_it_was_computed_from),
		cmocka_unit_test(initialises_a_node),
		cmocka_unit_test(says_whether_the_network_is_there),
		cmocka_unit_test(writes_parts_alone),
		cmocka_unit_test(writes_addresses_as_they_are),
		cmocka_unit_test(makes_paths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
