/* The server's side is fake: authorities are texts that start with "CA ". */
#include "serve/authorities.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/limits.h"
#include "kube/fake_http.h"
#include "serve/fake_server.h"
#include "fake_clock.h"

#define MAP(client) "{\"kind\":\"ConfigMap\",\"data\":{\"client-ca-file\":\"" client "\"}}"

static struct fake_clock *clock_;
static struct fake_http *http;
static struct kube_client client;
static struct arena arena;
static struct call call;
static struct authorities_config config;
static struct authorities *source;
static char folder[64];

static int
set_up(void **state)
{
	(void)state;
	clock_ = fake_clock_new(NS_PER_SEC);
	http = fake_http_new();
	arena = ARENA_INIT;
	client = (struct kube_client){ .http = fake_http_client(http),
		                       .clock = fake_clock_clock(clock_) };
	call = (struct call){ .clock = fake_clock_clock(clock_),
		              .deadline_mono_ns = CLOCK_FOREVER,
		              .arena = &arena };
	config = (struct authorities_config){ .client = &client,
		                              .clock = fake_clock_clock(clock_),
		                              .client_ca_file = STR_EMPTY };
	source = NULL;
	memcpy(folder, "/tmp/ccmd-auth-XXXXXX", sizeof("/tmp/ccmd-auth-XXXXXX"));
	assert_non_null(mkdtemp(folder));
	return 0;
}

static struct str
path_of(const char *name)
{
	return arena_printf(&arena, "%s/%s", folder, name);
}

static int
tear_down(void **state)
{
	(void)state;
	authorities_free(source);
	(void)unlink(path_of("client").ptr);
	assert_int_equal(rmdir(folder), 0);
	arena_fini(&arena);
	fake_http_free(http);
	fake_clock_free(clock_);
	return 0;
}

static struct str
write_file(const char *name, const char *content)
{
	struct error err;

	if (!file_replace(path_of(name).ptr, str_c(content), 0600, &err))
		fail_msg("%s", err.msg);
	return path_of(name);
}

static void
open_authorities(void)
{
	struct error err;

	if (!authorities_new(&config, &call, &source, &err))
		fail_msg("%s", err.msg);
}

static struct error
open_fails(enum err_code code)
{
	struct error err = { .msg = "" };

	assert_false(authorities_new(&config, &call, &source, &err));
	assert_int_equal(err.code, code);
	assert_null(source);
	return err;
}

static bool
trusts_client(const char *issuer)
{
	CLEANUP(trust_unrefp) struct trust *trust = authorities_get(source);
	struct server_request request = { .issuer = issuer };
	struct peer_name peer;
	struct error err;

	return trust && server_request_verify(&request, trust, &arena, &peer, &err);
}

static int64_t
now_ns(void)
{
	return clock_mono(fake_clock_clock(clock_));
}

static int64_t
advance_and_refresh(int64_t seconds)
{
	fake_clock_advance(clock_, seconds * NS_PER_SEC);
	return (authorities_refresh(source, &call) - now_ns()) / NS_PER_SEC;
}

static void
authorities_come_from_the_map(void **state)
{
	(void)state;
	fake_http_answer(http, 200, MAP("CA one"));
	open_authorities();
	assert_string_equal(
		fake_http_request(http, 0)->target,
		"/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication");
	assert_true(trusts_client("one") && !trusts_client("two"));
}

static void
a_file_wins_over_the_map_which_is_not_read(void **state)
{
	(void)state;
	config.client_ca_file = write_file("client", "CA file");
	open_authorities();
	assert_true(trusts_client("file"));
	assert_int_equal(advance_and_refresh(400), 60);
	assert_int_equal(fake_http_count(http), 0);
}

static void
nothing_to_follow_is_never_due(void **state)
{
	(void)state;
	config.skip_lookup = true;
	open_authorities();
	assert_false(trusts_client("one"));
	assert_int_equal(authorities_refresh(source, &call), CLOCK_FOREVER);
	assert_int_equal(authorities_recheck(source), CLOCK_FOREVER);
	assert_int_equal(fake_http_count(http), 0);
}

static void
a_map_that_is_not_there_is_a_warning(void **state)
{
	(void)state;
	fake_http_answer(http, 404, "{\"kind\":\"Status\",\"reason\":\"NotFound\"}");
	fake_http_answer(http, 200, MAP("CA one"));
	open_authorities();
	assert_false(trusts_client("one"));
	(void)advance_and_refresh(300);
	assert_true(trusts_client("one"));
}

static void
a_map_that_must_not_be_read_is_fatal(void **state)
{
	struct error err;

	(void)state;
	fake_http_answer(http, 403, "{\"kind\":\"Status\",\"reason\":\"Forbidden\"}");
	err = open_fails(ERR_FORBIDDEN);
	assert_non_null(strstr(err.msg, "extension-apiserver-authentication-reader"));
	config.tolerate_lookup_failure = true;
	open_authorities();
	assert_false(trusts_client("one"));
}

static void
other_failures_are_fatal_unless_tolerated(void **state)
{
	(void)state;
	fake_http_add(http, (struct fake_answer){ .code = ERR_UNAVAILABLE });
	open_fails(ERR_UNAVAILABLE);
	config.tolerate_lookup_failure = true;
	open_authorities();
	fake_http_answer(http, 200, MAP("CA one"));
	(void)advance_and_refresh(300);
	(void)advance_and_refresh(300);
	assert_true(trusts_client("one"));
}

static void
a_map_of_nonsense_is_fatal_unless_tolerated(void **state)
{
	(void)state;
	fake_http_answer(http, 200, MAP("nonsense"));
	open_fails(ERR_INVALID);
	config.tolerate_lookup_failure = true;
	open_authorities();
	assert_false(trusts_client("one"));
}

static void
a_bad_file_is_fatal_always(void **state)
{
	(void)state;
	config.tolerate_lookup_failure = true;
	config.client_ca_file = path_of("client");
	open_fails(ERR_NOT_FOUND);
	(void)write_file("client", "");
	open_fails(ERR_INVALID);
	(void)write_file("client", "nonsense");
	open_fails(ERR_INVALID);
}

static void
the_map_is_read_every_five_minutes(void **state)
{
	(void)state;
	fake_http_answer(http, 200, MAP("CA one"));
	fake_http_answer(http, 200, MAP("CA two"));
	open_authorities();
	assert_int_equal(advance_and_refresh(299), 1);
	assert_int_equal(fake_http_count(http), 1);
	assert_int_equal(advance_and_refresh(1), 300);
	assert_true(trusts_client("two") && !trusts_client("one"));
}

static void
the_file_is_read_every_minute(void **state)
{
	(void)state;
	config.skip_lookup = true;
	config.client_ca_file = write_file("client", "CA one");
	open_authorities();
	(void)write_file("client", "CA two");
	assert_int_equal(advance_and_refresh(59), 1);
	assert_true(trusts_client("one"));
	assert_int_equal(advance_and_refresh(1), 60);
	assert_true(trusts_client("two") && !trusts_client("one"));
}

static void
the_last_good_map_stays(void **state)
{
	(void)state;
	fake_http_answer(http, 200, MAP("CA one"));
	fake_http_answer(http, 403, "");
	fake_http_answer(http, 200, "nonsense");
	fake_http_answer(http, 200, MAP("nonsense"));
	fake_http_answer(http, 200, MAP("CA new"));
	open_authorities();
	for (int i = 0; i < 3; i++) {
		(void)advance_and_refresh(300);
		assert_true(trusts_client("one"));
	}
	(void)advance_and_refresh(300);
	assert_true(trusts_client("new") && !trusts_client("one"));
}

static void
the_last_good_file_stays(void **state)
{
	(void)state;
	config.client_ca_file = write_file("client", "CA file");
	open_authorities();
	(void)write_file("client", "nonsense");
	(void)advance_and_refresh(60);
	assert_true(trusts_client("file"));
	assert_int_equal(unlink(path_of("client").ptr), 0);
	(void)advance_and_refresh(60);
	assert_true(trusts_client("file"));
	(void)write_file("client", "CA other");
	(void)advance_and_refresh(60);
	assert_true(trusts_client("other") && !trusts_client("file"));
}

static void
a_recheck_reads_again_but_not_often(void **state)
{
	(void)state;
	fake_http_answer(http, 200, MAP("CA one"));
	fake_http_answer(http, 200, MAP("CA two"));
	open_authorities();
	fake_clock_advance(clock_, NS_PER_SEC);
	assert_int_equal(authorities_recheck(source), now_ns());
	assert_int_equal(authorities_refresh(source, &call), now_ns() + 300 * NS_PER_SEC);
	assert_true(trusts_client("two"));
	assert_int_equal(authorities_recheck(source), now_ns() + 10 * NS_PER_SEC);
	assert_int_equal(authorities_recheck(source), now_ns() + 10 * NS_PER_SEC);
	assert_int_equal(advance_and_refresh(9), 1);
	assert_int_equal(fake_http_count(http), 2);
	assert_int_equal(advance_and_refresh(1), 300);
	assert_int_equal(fake_http_count(http), 3);
}

/* ---- the ConfigMap ---- */

static void
assert_str(struct str s, const char *expected)
{
	if (!str_eq_c(s, expected))
		fail_msg("\"%.*s\" instead of \"%s\"", STR_ARG(s), expected);
}

static struct str
read_map(const char *body)
{
	struct str client_ca_pem = STR_EMPTY;
	struct error err;

	if (!authorities_read_map(str_c(body), &arena, &client_ca_pem, &err))
		fail_msg("%s", err.msg);
	return client_ca_pem;
}

static void
what_kubeadm_writes(void **state)
{
	(void)state;
	assert_str(read_map("{\"kind\":\"ConfigMap\",\"data\":{"
	                    "\"client-ca-file\":\"-----BEGIN\\n\","
	                    "\"requestheader-allowed-names\":\"[\\\"front-proxy-client\\\"]\","
	                    "\"requestheader-client-ca-file\":\"-----BEGIN 2\\n\"}}"),
	           "-----BEGIN");
}

static void
keys_may_be_absent(void **state)
{
	(void)state;
	assert_str(read_map("{\"kind\":\"ConfigMap\"}"), "");
	assert_str(read_map("{\"kind\":\"ConfigMap\",\"data\":null}"), "");
	assert_str(read_map("{\"kind\":\"ConfigMap\",\"data\":{}}"), "");
	assert_str(
		read_map("{\"kind\":\"ConfigMap\",\"data\":{\"client-ca-file\":\"\",\"other\":7}}"),
		"");
}

static void
check_hostile(const char *body)
{
	struct str client_ca_pem = STR("untouched");
	struct error err = { .code = ERR_NONE };

	if (authorities_read_map(str_c(body), &arena, &client_ca_pem, &err))
		fail_msg("accepted: %s", body);
	assert_int_equal(err.code, ERR_INVALID);
	assert_str(client_ca_pem, "untouched");
}

static void
what_cannot_be_is_refused(void **state)
{
	(void)state;
	check_hostile("");
	check_hostile("{}");
	check_hostile("{\"kind\":\"Pod\",\"data\":{}}");
	check_hostile("{\"kind\":\"ConfigMap\",\"data\":[]}");
	check_hostile("{\"kind\":\"ConfigMap\",\"data\":{\"client-ca-file\":7}}");
	check_hostile("{\"kind\":\"ConfigMap\",\"data\":{\"client-ca-file\":{}}}");
}

static void
authorities_are_bounded(void **state)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(LIMIT_CREDENTIAL + KIB(1));

	(void)state;
	buf_add_c(&body, "{\"kind\":\"ConfigMap\",\"data\":{\"client-ca-file\":\"");
	for (size_t i = 0; i < LIMIT_CREDENTIAL; i++)
		buf_add_char(&body, 'a');
	buf_add_c(&body, "\"}}");
	assert_int_equal(read_map(body.ptr).len, LIMIT_CREDENTIAL);
	buf_truncate(&body, body.len - 3);
	buf_add_c(&body, "a\"}}");
	check_hostile(body.ptr);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(authorities_come_from_the_map),
		TEST(a_file_wins_over_the_map_which_is_not_read),
		TEST(nothing_to_follow_is_never_due),
		TEST(a_map_that_is_not_there_is_a_warning),
		TEST(a_map_that_must_not_be_read_is_fatal),
		TEST(other_failures_are_fatal_unless_tolerated),
		TEST(a_map_of_nonsense_is_fatal_unless_tolerated),
		TEST(a_bad_file_is_fatal_always),
		TEST(the_map_is_read_every_five_minutes),
		TEST(the_file_is_read_every_minute),
		TEST(the_last_good_map_stays),
		TEST(the_last_good_file_stays),
		TEST(a_recheck_reads_again_but_not_often),
		TEST(what_kubeadm_writes),
		TEST(keys_may_be_absent),
		TEST(what_cannot_be_is_refused),
		TEST(authorities_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
