/* tests/kube/service_patch.c: the bytes of docs/spec/framework.md, "Service patches", and when no
 * byte need be sent. */
#include "kube/service_patch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"

static struct str finalizers[] = { STR("foo"), STR(SERVICE_FINALIZER), STR("bar") };

#define OURS "\"" SERVICE_FINALIZER "\""

static void
check_claim(struct str *list, uint32_t n, const char *expected)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(4));
	struct service s = { .object.uid = STR("u"), .finalizers = list, .n_finalizers = n };

	service_patch_claim(&b, &s);
	assert_string_equal(b.ptr, expected);
}

static void
a_finalizer_is_added_by_name(void **state UNUSED)
{
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

	assert_int_equal(service_patch_release(&b, s, /*is_stale=*/false), expected[0] != '\0');
	assert_string_equal(b.ptr, expected);
}

static void
a_finalizer_is_removed_by_name_and_the_status_with_it(void **state UNUSED)
{
	struct service_ingress ingress = { .ip = STR("192.0.2.1") };
	struct service s = { .object.uid = STR("u"),
		             .has_finalizer = true,
		             .finalizers = finalizers,
		             .n_finalizers = 3 };

	check_release(
		&s,
		"{\"metadata\":{\"uid\":\"u\",\"$setElementOrder/finalizers\":[\"foo\",\"bar\"],"
		"\"$deleteFromPrimitiveList/finalizers\":[" OURS "]}}");
	s.finalizers++;
	s.n_finalizers = 1;
	s.ingress = &ingress;
	s.n_ingress = 1;
	check_release(&s, "{\"metadata\":{\"uid\":\"u\",\"$setElementOrder/finalizers\":[],"
	                  "\"$deleteFromPrimitiveList/finalizers\":[" OURS "]},"
	                  "\"status\":{\"loadBalancer\":{\"ingress\":null}}}");
	s.is_deleting = true; /* another finalizer may hold it */
	check_release(&s, "{\"metadata\":{\"uid\":\"u\",\"$setElementOrder/finalizers\":[],"
	                  "\"$deleteFromPrimitiveList/finalizers\":[" OURS "]},"
	                  "\"status\":{\"loadBalancer\":{\"ingress\":null}}}");
	s.has_finalizer = s.is_deleting = false;
	check_release(&s, "{\"metadata\":{\"uid\":\"u\"},"
	                  "\"status\":{\"loadBalancer\":{\"ingress\":null}}}");
	s.n_ingress = 0;
	check_release(&s, "");
}

static void
a_state_that_may_be_old_is_released_in_any_case(void **state UNUSED)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(4));
	struct service s = { .object.uid = STR("u") };

	assert_true(service_patch_release(&b, &s, /*is_stale=*/true));
	assert_string_equal(b.ptr,
	                    "{\"metadata\":{\"uid\":\"u\",\"$setElementOrder/finalizers\":[],"
	                    "\"$deleteFromPrimitiveList/finalizers\":[" OURS "]},"
	                    "\"status\":{\"loadBalancer\":{\"ingress\":null}}}");
}

static void
statuses_are_written_whole(void **state UNUSED)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(4));
	struct service s = { .object.uid = STR("u") };
	const struct service_ingress ingress[] = {
		{ .ip = STR("192.0.2.1"), .ip_mode = STR("VIP") },
		{ .ip = STR("2001:db8::1"), .ip_mode = STR("Proxy"), .hostname = STR("lb") },
		{ .hostname = STR("only.example") },
	};

	service_patch_status(&b, &s, ingress, 3);
	assert_string_equal(
		b.ptr, "{\"metadata\":{\"uid\":\"u\"},\"status\":{\"loadBalancer\":{\"ingress\":["
		       "{\"ip\":\"192.0.2.1\",\"ipMode\":\"VIP\"},"
		       "{\"ip\":\"2001:db8::1\",\"ipMode\":\"Proxy\",\"hostname\":\"lb\"},"
		       "{\"hostname\":\"only.example\"}]}}}");
	buf_reset(&b);
	service_patch_status(&b, &s, NULL, 0);
	assert_string_equal(
		b.ptr,
		"{\"metadata\":{\"uid\":\"u\"},\"status\":{\"loadBalancer\":{\"ingress\":null}}}");
}

static void
a_status_that_says_so_already_is_left_alone(void **state UNUSED)
{
	struct service_ingress said[] = {
		{ .ip = STR("192.0.2.1"), .ip_mode = STR("VIP"), .ports = STR("[]") }
	};
	struct service s = { .ingress = said, .n_ingress = 1 };
	struct service_ingress wanted = { .ip = STR("192.0.2.1"), .ip_mode = STR("VIP") };

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
paths_are_escaped(void **state UNUSED)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(4));
	struct service s = { .namespace = STR("a b"), .name = STR("web") };

	service_patch_path(&b, &s);
	assert_string_equal(b.ptr, "/api/v1/namespaces/a%20b/services/web/status");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_finalizer_is_added_by_name),
		cmocka_unit_test(a_finalizer_is_removed_by_name_and_the_status_with_it),
		cmocka_unit_test(a_state_that_may_be_old_is_released_in_any_case),
		cmocka_unit_test(statuses_are_written_whole),
		cmocka_unit_test(a_status_that_says_so_already_is_left_alone),
		cmocka_unit_test(paths_are_escaped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
