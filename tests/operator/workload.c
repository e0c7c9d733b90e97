/* What is taken from the controller's Deployment, and what is not. */
#include "operator/workload.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"

static struct arena arena;
static struct buf notes = BUF_INIT(KIB(64));
static yyjson_doc *doc;

static int
tear_down(void **state)
{
	(void)state;
	yyjson_doc_free(TAKE(doc));
	buf_reset(&notes);
	unsetenv("HCLOUD_TOKEN");
	return 0;
}

static struct running
take(const char *container)
{
	struct running ret;
	struct error err;

	assert_true(json_parse(str_c(container), &doc, &err));
	workload_take(yyjson_doc_get_root(doc), &arena, &ret, &notes);
	return ret;
}

static void
flags_are_taken_but_for_those_of_the_pod(void **state)
{
	static const char *const wanted[] = { "ccmd", "--cloud-provider=hcloud", "--cluster-name",
		                              "mine", "--v=1" };
	struct running running = take(
		"{\"args\":[\"--cloud-provider=hcloud\",\"--kubeconfig=/evil\",\"--cluster-name\","
		"\"mine\",\"--authentication-kubeconfig\",\"/evil\",\"--cert-dir=/run/ccmd\","
		"\"--cloud-config=/etc/ccmd/cloud.yaml\",\"--master=https://evil\",\"--x=$(NAME)\","
		"\"--tls-private-key-file=/k\",\"--v=1\"]}");

	(void)state;
	assert_int_equal(running.argc, ARRAY_LEN(wanted));
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
		assert_string_equal(running.argv[i], wanted[i]);
	assert_null(running.argv[running.argc]);
	assert_non_null(strstr(notes.ptr, "argument --kubeconfig=/evil\n"));
	assert_non_null(strstr(notes.ptr, "argument /evil\n"));
}

#define ENVIRONMENT                                                                              \
	"{\"env\":[{\"name\":\"HCLOUD_NETWORK\",\"value\":\"net\"},"                             \
	"{\"name\":\"HCLOUD_ENDPOINT\",\"value\":\"https://evil\"},"                             \
	"{\"name\":\"LD_PRELOAD\",\"value\":\"/evil\"},{\"name\":\"PATH\",\"value\":\"/evil\"}," \
	"{\"name\":\"https_proxy\",\"value\":\"evil\"},"                                         \
	"{\"name\":\"ROBOT_PASSWORD_FILE\",\"value\":\"/etc/ccmd/robot\"},"                      \
	"{\"name\":\"HCLOUD_TOKEN\",\"valueFrom\":{\"secretKeyRef\":{\"name\":\"s\",\"key\":\"k\"}}}]}"

static void
plain_variables_of_the_cloud_are_taken(void **state)
{
	static const char wanted[] = "HCLOUD_NETWORK=net";
	struct running running = take(ENVIRONMENT);

	(void)state;
	assert_int_equal(running.environment.len, sizeof(wanted));
	assert_memory_equal(running.environment.ptr, wanted, sizeof(wanted));
	assert_non_null(strstr(notes.ptr, "HCLOUD_TOKEN is in the Secret s, key k, which is not "
	                                  "read: set HCLOUD_TOKEN or HCLOUD_TOKEN_FILE\n"));
	assert_non_null(strstr(notes.ptr, "set HCLOUD_ENDPOINT here if"));
	assert_non_null(strstr(notes.ptr, "set ROBOT_PASSWORD here if"));
	assert_null(strstr(notes.ptr, "LD_PRELOAD"));
}

static void
a_secret_that_the_caller_has_is_not_named(void **state)
{
	(void)state;
	setenv("HCLOUD_TOKEN", "x", 1);
	(void)take(ENVIRONMENT);
	assert_null(strstr(notes.ptr, "HCLOUD_TOKEN"));
}

static void
the_image_tells_the_container(void **state)
{
	(void)state;
	assert_true(str_eq_c(workload_image_name(STR("r.io:5000/x/ccmd:v1@sha256:00")), "ccmd"));
	assert_true(str_eq_c(workload_image_name(STR("localhost/ccmd")), "ccmd"));
	(void)take("{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"image\":\"x/proxy\"},"
	           "{\"image\":\"x/ccmd:1\",\"name\":\"c\"}]}}}}");
	assert_true(str_eq_c(json_view(workload_container(yyjson_doc_get_root(doc)), "name"), "c"));
}

static int
end(void **state)
{
	(void)state;
	arena_fini(&arena);
	buf_fini(&notes);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(flags_are_taken_but_for_those_of_the_pod, tear_down),
		cmocka_unit_test_teardown(plain_variables_of_the_cloud_are_taken, tear_down),
		cmocka_unit_test_teardown(a_secret_that_the_caller_has_is_not_named, tear_down),
		cmocka_unit_test_teardown(the_image_tells_the_container, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, end);
}
