#include "serve/auth_config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"

static struct arena arena;

static int
set_up(void **state UNUSED)
{
	arena = ARENA_INIT;
	return 0;
}

static int
tear_down(void **state UNUSED)
{
	arena_fini(&arena);
	return 0;
}

static void
assert_str(struct str s, const char *expected)
{
	if (!str_eq_c(s, expected))
		fail_msg("\"%.*s\" instead of \"%s\"", STR_ARG(s), expected);
}

static struct auth_data
read(const char *body)
{
	struct auth_data data;
	struct error err;

	if (!auth_data_read(str_c(body), &arena, &data, &err))
		fail_msg("%s", err.msg);
	return data;
}

static void
what_kubeadm_writes(void **state UNUSED)
{
	struct auth_data d =
		read("{\"kind\":\"ConfigMap\",\"data\":{"
	             "\"client-ca-file\":\"-----BEGIN\\n\","
	             "\"requestheader-allowed-names\":\"[\\\"front-proxy-client\\\"]\","
	             "\"requestheader-client-ca-file\":\"-----BEGIN 2\\n\","
	             "\"requestheader-extra-headers-prefix\":\"[\\\"X-Remote-Extra-\\\"]\","
	             "\"requestheader-group-headers\":\"[\\\"X-Remote-Group\\\",\\\"X-G\\\"]\","
	             "\"requestheader-uid-headers\":\"[\\\"X-Remote-Uid\\\"]\","
	             "\"requestheader-username-headers\":\"[\\\"X-Remote-User\\\"]\"}}");

	assert_str(d.client_ca_pem, "-----BEGIN");
	assert_str(d.front_ca_pem, "-----BEGIN 2");
	assert_int_equal(d.names.proxies.n, 1);
	assert_str(d.names.proxies.items[0], "front-proxy-client");
	assert_int_equal(d.names.group_headers.n, 2);
	assert_str(d.names.group_headers.items[1], "X-G");
	assert_str(d.names.uid_headers.items[0], "X-Remote-Uid");
	assert_string_equal(d.names.username_headers.items[0].ptr, "X-Remote-User");
	assert_str(d.names.extra_prefixes.items[0], "X-Remote-Extra-");
}

static void
keys_may_be_absent(void **state UNUSED)
{
	static const char *const bodies[] = {
		"{\"kind\":\"ConfigMap\"}",
		"{\"kind\":\"ConfigMap\",\"data\":null}",
		"{\"kind\":\"ConfigMap\",\"data\":{}}",
		"{\"kind\":\"ConfigMap\",\"data\":{\"client-ca-file\":\"\",\"requestheader-allowed-names\":\"\"}}",
		"{\"kind\":\"ConfigMap\",\"data\":{\"requestheader-allowed-names\":\"null\",\"other\":7}}",
		"{\"kind\":\"ConfigMap\",\"data\":{\"requestheader-allowed-names\":\"[]\"}}",
	};

	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		struct auth_data d = read(bodies[i]);

		assert_int_equal(d.client_ca_pem.len + d.front_ca_pem.len, 0);
		assert_int_equal(d.names.proxies.n + d.names.username_headers.n, 0);
	}
}

static void
check_hostile(const char *body)
{
	struct auth_data data = { .client_ca_pem = STR("untouched") };
	struct error err = { .code = ERR_NONE };

	if (auth_data_read(str_c(body), &arena, &data, &err))
		fail_msg("accepted: %s", body);
	assert_int_equal(err.code, ERR_INVALID);
	assert_str(data.client_ca_pem, "untouched");
}

static void
what_cannot_be_is_refused_whole(void **state UNUSED)
{
	check_hostile("");
	check_hostile("{}");
	check_hostile("{\"kind\":\"Pod\",\"data\":{}}");
	check_hostile("{\"kind\":\"ConfigMap\",\"data\":[]}");
	check_hostile("{\"kind\":\"ConfigMap\",\"data\":{\"client-ca-file\":7}}");
	check_hostile("{\"kind\":\"ConfigMap\",\"data\":{\"requestheader-client-ca-file\":{}}}");
	check_hostile(
		"{\"kind\":\"ConfigMap\",\"data\":{\"requestheader-allowed-names\":[\"a\"]}}");
	check_hostile("{\"kind\":\"ConfigMap\",\"data\":{\"requestheader-allowed-names\":\"a\"}}");
	check_hostile("{\"kind\":\"ConfigMap\",\"data\":{\"requestheader-allowed-names\":\"{}\"}}");
	check_hostile(
		"{\"kind\":\"ConfigMap\",\"data\":{\"requestheader-allowed-names\":\"[7]\"}}");
	check_hostile(
		"{\"kind\":\"ConfigMap\",\"data\":{\"requestheader-allowed-names\":\"[null]\"}}");
	check_hostile(
		"{\"kind\":\"ConfigMap\",\"data\":{\"requestheader-allowed-names\":\"[\\\"\\\"]\"}}");
	check_hostile(
		"{\"kind\":\"ConfigMap\",\"data\":{\"requestheader-allowed-names\":\"[\\\"a\\\\u0000b\\\"]\"}}");
	check_hostile(
		"{\"kind\":\"ConfigMap\",\"data\":{\"requestheader-allowed-names\":\"[\\\"a\\\"\"}}");
	check_hostile(
		"{\"kind\":\"ConfigMap\",\"data\":{\"requestheader-username-headers\":\"[\\\"\\\"]\"}}");
	check_hostile(
		"{\"kind\":\"ConfigMap\",\"data\":{\"requestheader-username-headers\":\"[\\\"a b\\\"]\"}}");
	check_hostile(
		"{\"kind\":\"ConfigMap\",\"data\":{\"requestheader-group-headers\":\"[\\\"a:b\\\"]\"}}");
	check_hostile(
		"{\"kind\":\"ConfigMap\",\"data\":{\"requestheader-uid-headers\":\"[\\\"a\\\\r\\\\nb\\\"]\"}}");
	check_hostile(
		"{\"kind\":\"ConfigMap\",\"data\":{\"requestheader-extra-headers-prefix\":\"[\\\"\\\"]\"}}");
	check_hostile(
		"{\"kind\":\"ConfigMap\",\"data\":{\"requestheader-extra-headers-prefix\":\"[[]]\"}}");
}

static void
lists_are_bounded(void **state UNUSED)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(KIB(4));

	buf_add_c(&body,
	          "{\"kind\":\"ConfigMap\",\"data\":{\"requestheader-allowed-names\":\"[\\\"a\\\"");
	for (int i = 1; i < LIMIT_HEADER_NAMES; i++)
		buf_add_c(&body, ",\\\"a\\\"");
	buf_add_c(&body, "]\"}}");
	assert_int_equal(read(body.ptr).names.proxies.n, LIMIT_HEADER_NAMES);
	buf_truncate(&body, body.len - 4);
	buf_add_c(&body, ",\\\"a\\\"]\"}}");
	check_hostile(body.ptr);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_kubeadm_writes),
		TEST(keys_may_be_absent),
		TEST(what_cannot_be_is_refused_whole),
		TEST(lists_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
