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

static struct str
read(const char *body)
{
	struct str client_ca_pem = STR_EMPTY;
	struct error err;

	if (!auth_data_read(str_c(body), &arena, &client_ca_pem, &err))
		fail_msg("%s", err.msg);
	return client_ca_pem;
}

static void
what_kubeadm_writes(void **state UNUSED)
{
	assert_str(read("{\"kind\":\"ConfigMap\",\"data\":{"
	                "\"client-ca-file\":\"-----BEGIN\\n\","
	                "\"requestheader-allowed-names\":\"[\\\"front-proxy-client\\\"]\","
	                "\"requestheader-client-ca-file\":\"-----BEGIN 2\\n\"}}"),
	           "-----BEGIN");
}

static void
keys_may_be_absent(void **state UNUSED)
{
	assert_str(read("{\"kind\":\"ConfigMap\"}"), "");
	assert_str(read("{\"kind\":\"ConfigMap\",\"data\":null}"), "");
	assert_str(read("{\"kind\":\"ConfigMap\",\"data\":{}}"), "");
	assert_str(read("{\"kind\":\"ConfigMap\",\"data\":{\"client-ca-file\":\"\",\"other\":7}}"),
	           "");
}

static void
check_hostile(const char *body)
{
	struct str client_ca_pem = STR("untouched");
	struct error err = { .code = ERR_NONE };

	if (auth_data_read(str_c(body), &arena, &client_ca_pem, &err))
		fail_msg("accepted: %s", body);
	assert_int_equal(err.code, ERR_INVALID);
	assert_str(client_ca_pem, "untouched");
}

static void
what_cannot_be_is_refused(void **state UNUSED)
{
	check_hostile("");
	check_hostile("{}");
	check_hostile("{\"kind\":\"Pod\",\"data\":{}}");
	check_hostile("{\"kind\":\"ConfigMap\",\"data\":[]}");
	check_hostile("{\"kind\":\"ConfigMap\",\"data\":{\"client-ca-file\":7}}");
	check_hostile("{\"kind\":\"ConfigMap\",\"data\":{\"client-ca-file\":{}}}");
}

static void
authorities_are_bounded(void **state UNUSED)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(LIMIT_CREDENTIAL + KIB(1));

	buf_add_c(&body, "{\"kind\":\"ConfigMap\",\"data\":{\"client-ca-file\":\"");
	for (size_t i = 0; i < LIMIT_CREDENTIAL; i++)
		buf_add_char(&body, 'a');
	buf_add_c(&body, "\"}}");
	assert_int_equal(read(body.ptr).len, LIMIT_CREDENTIAL);
	buf_truncate(&body, body.len - 3);
	buf_add_c(&body, "a\"}}");
	check_hostile(body.ptr);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_kubeadm_writes),
		TEST(keys_may_be_absent),
		TEST(what_cannot_be_is_refused),
		TEST(authorities_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
