/* tests/kube/patch.c: the bytes of the patches (docs/spec/kube-client.md, "Node addresses in
 * patches"; docs/spec/framework.md, "Service patches"), and when none need be sent. */
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
names_what_it_was_computed_from(void **state)
{
	(void)state;
	check(patch_node, &(struct node_patch){ .uid = STR("u") },
	      "{\"metadata\":{\"uid\":\"u\"}}");
	check(patch_node, &(struct node_patch){ .uid = STR("u"), .resource_version = STR("7") },
	      "{\"metadata\":{\"uid\":\"u\",\"resourceVersion\":\"7\"}}");
	check(patch_node_status,
	      &(struct node_patch){ .uid = STR("u"), .resource_version = STR("7") },
	      "{\"metadata\":{\"uid\":\"u\",\"resourceVersion\":\"7\"},\"status\":{\"addresses\":[]}}");
}

static void
initialises_a_node(void **state)
{
	const struct label labels[] = { { STR("zone"), STR("z1") }, { STR("type"), STR("a\"b") } };
	const struct str taints[] = { STR("{\"key\":\"a\"}"), STR("{\"key\":\"b\"}") };

	(void)state;
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
says_whether_the_network_is_there(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(4));

	(void)state;
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
writes_parts_alone(void **state)
{
	const struct label label = { STR("k"), STR("v") };

	(void)state;
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
writes_addresses_as_they_are(void **state)
{
	const struct address addresses[] = { { STR("InternalIP"), STR("10.0.0.1") },
		                             { STR("InternalIP"), STR("fd00::1") },
		                             { STR("Hostname"), STR("a") } };

	(void)state;
	check(patch_node_status,
	      &(struct node_patch){ .uid = STR("u"), .addresses = addresses, .n_addresses = 3 },
	      "{\"metadata\":{\"uid\":\"u\"},\"status\":{\"addresses\":["
	      "{\"type\":\"InternalIP\",\"address\":\"10.0.0.1\"},{\"type\":\"InternalIP\",\"address\":\"fd00::1\"},"
	      "{\"type\":\"Hostname\",\"address\":\"a\"}]}}");
}

static void
makes_paths(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(4));

	(void)state;
	patch_node_path(&b, STR("worker-1.example"), NULL);
	assert_string_equal(b.ptr, "/api/v1/nodes/worker-1.example");
	buf_reset(&b);
	patch_node_path(&b, STR("../x?y"), "status");
	assert_string_equal(b.ptr, "/api/v1/nodes/..%2Fx%3Fy/status");
}

/* ---- Services ---- */

static struct str finalizers[] = { STR("foo"), STR(SERVICE_FINALIZER), STR("bar") };

#define OURS "\"" SERVICE_FINALIZER "\""

static void
check_claim(struct str *list, uint32_t n, const char *expected)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(4));
	struct service s = { .object.uid = STR("u"), .finalizers = list, .n_finalizers = n };

	patch_service_claim(&b, &s);
	assert_string_equal(b.ptr, expected);
}

static void
a_finalizer_is_added_by_name(void **state)
{
	(void)state;
	check_claim(NULL, 0,
	            "{\"metadata\":{\"uid\":\"u\",\"$setElementOrder/finalizers\":[" OURS
	            "],\"finalizers\":[" OURS "]}}");
	check_claim(finalizers, 1,
	            "{\"metadata\":{\"uid\":\"u\",\"$setElementOrder/finalizers\":[\"foo\"," OURS
	            "],\"finalizers\":[" OURS "]}}");
}

static void
check_release(const struct service *s, const char *expected)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(4));

	assert_int_equal(patch_service_release(&b, s, /*is_stale=*/false), expected[0] != '\0');
	assert_string_equal(b.ptr, expected);
}

static void
a_finalizer_is_removed_by_name_and_the_status_with_it(void **state)
{
	struct service_ingress ingress = { .ip = STR("192.0.2.1") };
	struct service s = { .object = { .uid = STR("u"), .resource_version = STR("7") },
		             .has_finalizer = true,
		             .finalizers = finalizers,
		             .n_finalizers = 3 };

	(void)state;
	check_release(
		&s,
		"{\"metadata\":{\"uid\":\"u\",\"resourceVersion\":\"7\",\"$setElementOrder/finalizers\":[\"foo\",\"bar\"],"
		"\"$deleteFromPrimitiveList/finalizers\":[" OURS "]}}");
	s.finalizers++;
	s.n_finalizers = 1;
	s.ingress = &ingress;
	s.n_ingress = 1;
	check_release(
		&s,
		"{\"metadata\":{\"uid\":\"u\",\"resourceVersion\":\"7\",\"$setElementOrder/finalizers\":[],"
		"\"$deleteFromPrimitiveList/finalizers\":[" OURS "]},"
		"\"status\":{\"loadBalancer\":{\"ingress\":null}}}");
	s.is_deleting = true; /* another finalizer may hold it */
	check_release(
		&s,
		"{\"metadata\":{\"uid\":\"u\",\"resourceVersion\":\"7\",\"$setElementOrder/finalizers\":[],"
		"\"$deleteFromPrimitiveList/finalizers\":[" OURS "]},"
		"\"status\":{\"loadBalancer\":{\"ingress\":null}}}");
	s.has_finalizer = s.is_deleting = false;
	check_release(&s, "{\"metadata\":{\"uid\":\"u\",\"resourceVersion\":\"7\"},"
	                  "\"status\":{\"loadBalancer\":{\"ingress\":null}}}");
	s.n_ingress = 0;
	check_release(&s, "");
}

static void
a_state_that_may_be_old_is_released_in_any_case(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(4));
	struct service s = { .object = { .uid = STR("u"), .resource_version = STR("7") } };

	(void)state;
	assert_true(patch_service_release(&b, &s, /*is_stale=*/true));
	assert_string_equal(
		b.ptr,
		"{\"metadata\":{\"uid\":\"u\",\"resourceVersion\":\"7\",\"$setElementOrder/finalizers\":[],"
		"\"$deleteFromPrimitiveList/finalizers\":[" OURS "]},"
		"\"status\":{\"loadBalancer\":{\"ingress\":null}}}");
}

static void
statuses_are_written_whole(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(4));
	struct service s = { .object.uid = STR("u") };
	const struct service_ingress ingress[] = {
		{ .ip = STR("192.0.2.1"), .ip_mode = STR("VIP") },
		{ .ip = STR("2001:db8::1"), .ip_mode = STR("Proxy"), .hostname = STR("lb") },
		{ .hostname = STR("only.example") },
	};

	(void)state;
	patch_service_status(&b, &s, ingress, 3);
	assert_string_equal(
		b.ptr, "{\"metadata\":{\"uid\":\"u\"},\"status\":{\"loadBalancer\":{\"ingress\":["
		       "{\"ip\":\"192.0.2.1\",\"ipMode\":\"VIP\"},"
		       "{\"ip\":\"2001:db8::1\",\"ipMode\":\"Proxy\",\"hostname\":\"lb\"},"
		       "{\"hostname\":\"only.example\"}]}}}");
	buf_reset(&b);
	patch_service_status(&b, &s, NULL, 0);
	assert_string_equal(
		b.ptr,
		"{\"metadata\":{\"uid\":\"u\"},\"status\":{\"loadBalancer\":{\"ingress\":null}}}");
}

static void
a_status_that_says_so_already_is_left_alone(void **state)
{
	struct service_ingress said[] = {
		{ .ip = STR("192.0.2.1"), .ip_mode = STR("VIP"), .ports = STR("[]") }
	};
	struct service s = { .ingress = said, .n_ingress = 1 };
	struct service_ingress wanted = { .ip = STR("192.0.2.1"), .ip_mode = STR("VIP") };

	(void)state;
	assert_true(service_status_equals(&s, &wanted, 1));
	said[0].ip_mode = STR_EMPTY; /* dropped by an old API server */
	assert_true(service_status_equals(&s, &wanted, 1));
	said[0].ip_mode = STR("Proxy");
	assert_false(service_status_equals(&s, &wanted, 1));
	said[0].ip_mode = STR("VIP");
	wanted.ip = STR("192.0.2.2");
	assert_false(service_status_equals(&s, &wanted, 1));
	assert_false(service_status_equals(&s, &wanted, 0));
}

static void
paths_are_escaped(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(4));
	struct service s = { .namespace = STR("a b"), .name = STR("web") };

	(void)state;
	patch_service_path(&b, &s);
	assert_string_equal(b.ptr, "/api/v1/namespaces/a%20b/services/web/status");
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
		cmocka_unit_test(a_finalizer_is_added_by_name),
		cmocka_unit_test(a_finalizer_is_removed_by_name_and_the_status_with_it),
		cmocka_unit_test(a_state_that_may_be_old_is_released_in_any_case),
		cmocka_unit_test(statuses_are_written_whole),
		cmocka_unit_test(a_status_that_says_so_already_is_left_alone),
		cmocka_unit_test(paths_are_escaped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
