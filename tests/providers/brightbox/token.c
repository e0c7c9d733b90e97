#include "providers/brightbox/token.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/thread.h"
#include "cloud/fake_host.h"
#include "cloud/http_script.h"

#define GOOD "{\"access_token\":\"t1\",\"expires_in\":7200}"
#define CLIENT_FORM "grant_type=client_credentials&scope=infrastructure+orbit"

struct rig {
	struct http_script script;
	struct fake_host fake;
	struct bb_config config;
	struct bb_token *token;
	struct arena arena;
	struct error err;
	char header[200];
	uint64_t generation;
};

static void
open_token(struct rig *rig, const char *client, const char *user)
{
	login_secret_set(&rig->config.client, str_c(client));
	login_secret_set(&rig->config.client_secret, STR("s"));
	login_secret_set(&rig->config.user, str_c(user ? user : ""));
	login_secret_set(&rig->config.password, str_c(user ? "p w&=" : ""));
	rig->config.has_user = user;
	assert_true(bb_token_new(&rig->fake.host, &rig->config, &rig->token, &rig->err));
}

static int
setup(void **state)
{
	struct rig *rig = xcalloc(1, sizeof(*rig));

	log_set_fd(-1);
	http_script_init(&rig->script);
	fake_host_init(&rig->fake);
	rig->fake.host.http = &rig->script.client;
	*state = rig;
	return 0;
}

static int
setup_client(void **state)
{
	int result = setup(state);

	open_token(*state, "cli-aaaaa", NULL);
	return result;
}

static int
setup_user(void **state)
{
	int result = setup(state);

	open_token(*state, "app-dkmch", "me@example.com");
	return result;
}

static int
teardown(void **state)
{
	struct rig *rig = *state;

	bb_token_free(rig->token);
	bb_config_fini(&rig->config);
	http_script_fini(&rig->script);
	fake_host_fini(&rig->fake);
	arena_fini(&rig->arena);
	free(rig);
	return 0;
}

static void
answer(struct rig *rig, int status, const char *body)
{
	http_script_answer(&rig->script, "POST /token/", status, body);
}

static bool
authorize(struct rig *rig)
{
	struct http_auth *auth = bb_token_auth(rig->token);
	struct call call = fake_host_call(&rig->fake, &rig->arena);
	struct buf header = BUF_FIXED(rig->header);

	buf_reset(&header);
	return auth->authorize(auth, &call, &header, &rig->generation, &rig->err);
}

static void
check_header(struct rig *rig, const char *header)
{
	if (!authorize(rig))
		fail_msg("%s", rig->err.msg);
	assert_string_equal(rig->header, header);
}

static void
check_asked(struct rig *rig, const char *form)
{
	CLEANUP(buf_fini) struct buf line = BUF_INIT(KIB(4));

	if (form[0])
		buf_addf(&line, "POST /token/ %s\n", form);
	http_script_check_asked(&rig->script, line.ptr);
}

static bool
reject(struct rig *rig)
{
	struct http_auth *auth = bb_token_auth(rig->token);

	return auth->rejected(auth, rig->generation);
}

/* ---- requests ---- */

static void
an_api_client_asks_with_its_own_grant(void **state)
{
	struct rig *rig = *state;

	answer(rig, 200, GOOD);
	check_header(rig, "Bearer t1");
	check_asked(rig, CLIENT_FORM);
	check_header(rig, "Bearer t1");
	check_asked(rig, "");
}

static void
a_user_asks_with_the_password_then_with_the_refresh_token(void **state)
{
	struct rig *rig = *state;

	answer(rig, 200, "{\"access_token\":\"t1\",\"expires_in\":7200,\"refresh_token\":\"r/1\"}");
	check_header(rig, "Bearer t1");
	check_asked(rig, "grant_type=password&password=p+w%26%3D&scope=infrastructure+orbit&"
	                 "username=me%40example.com");
	rig->fake.now_ns += 7200 * NS_PER_SEC;
	answer(rig, 200, "{\"access_token\":\"t2\",\"expires_in\":7200}");
	check_header(rig, "Bearer t2");
	check_asked(rig, "grant_type=refresh_token&refresh_token=r%2F1");
}

static void
a_refresh_token_that_is_refused_gives_way_to_the_password(void **state)
{
	struct rig *rig = *state;

	answer(rig, 200, "{\"access_token\":\"t1\",\"expires_in\":60,\"refresh_token\":\"r1\"}");
	answer(rig, 401, "{\"error\":\"invalid_client\"}");
	answer(rig, 200, "{\"access_token\":\"t2\",\"expires_in\":60}");
	check_header(rig, "Bearer t1");
	rig->fake.now_ns += 60 * NS_PER_SEC;
	buf_reset(&rig->script.asked);
	check_header(rig, "Bearer t2");
	assert_int_equal(rig->script.n_asked, 3);
	assert_non_null(strstr(rig->script.asked.ptr, "grant_type=password"));
}

/* ---- answers ---- */

static void
an_answer_may_be_a_form(void **state)
{
	struct rig *rig = *state;

	answer(rig, 200, "access_token=a%2Fb%3D&token_type=bearer&expires_in=60&scope=x+y");
	check_header(rig, "Bearer a/b=");
	rig->fake.now_ns += 49 * NS_PER_SEC;
	check_header(rig, "Bearer a/b=");
	assert_int_equal(rig->script.n_asked, 1);
	rig->fake.now_ns += 2 * NS_PER_SEC;
	check_header(rig, "Bearer a/b=");
	assert_int_equal(rig->script.n_asked, 2);
}

static void
a_token_ends_ten_seconds_early(void **state)
{
	struct rig *rig = *state;

	answer(rig, 200, "{\"access_token\":\"t1\",\"expires_in\":\"7200\"}");
	check_header(rig, "Bearer t1");
	rig->fake.now_ns += 7189 * NS_PER_SEC;
	check_header(rig, "Bearer t1");
	assert_int_equal(rig->script.n_asked, 1);
	rig->fake.now_ns += 2 * NS_PER_SEC;
	check_header(rig, "Bearer t1");
	assert_int_equal(rig->script.n_asked, 2);
}

static void
a_token_without_an_end_is_kept(void **state)
{
	struct rig *rig = *state;

	answer(rig, 200, "{\"access_token\":\"t1\"}");
	check_header(rig, "Bearer t1");
	rig->fake.now_ns += 1000000 * NS_PER_SEC;
	check_header(rig, "Bearer t1");
	assert_int_equal(rig->script.n_asked, 1);
}

/* One whose life is shorter than the margin is used once, instead of renewed for ever. */
static void
a_short_life_is_used_once(void **state)
{
	struct rig *rig = *state;

	answer(rig, 200, "{\"access_token\":\"t1\",\"expires_in\":5}");
	check_header(rig, "Bearer t1");
	assert_int_equal(rig->script.n_asked, 1);
	check_header(rig, "Bearer t1");
	assert_int_equal(rig->script.n_asked, 2);
}

static void
a_life_beyond_all_measure_is_bounded(void **state)
{
	struct rig *rig = *state;

	answer(rig, 200, "{\"access_token\":\"t1\",\"expires_in\":9223372036854775807}");
	check_header(rig, "Bearer t1");
	check_header(rig, "Bearer t1");
	assert_int_equal(rig->script.n_asked, 1);
}

static void
refusals_have_the_words_of_oauth2(void **state)
{
	static const struct {
		int status;
		const char *body, *msg;
		enum err_code code;
	} rows[] = {
		{ 401, "{\"error\":\"invalid_client\"}", "oauth2: \"invalid_client\"",
		  ERR_UNAUTHORIZED },
		{ 400,
		  "{\"error\":\"unauthorized_client\",\"error_description\":\"The grant is not "
		  "allowed.\"}",
		  "oauth2: \"unauthorized_client\" \"The grant is not allowed.\"",
		  ERR_UNAUTHORIZED },
		{ 502, "<html>no", "oauth2: cannot fetch token: 502 Bad Gateway Response: <html>no",
		  ERR_UNAVAILABLE },
		{ 401, "{}", "oauth2: cannot fetch token: 401 Unauthorized Response: {}",
		  ERR_UNAUTHORIZED },
		{ 429, "",
		  "oauth2: cannot fetch token: 429 Too Many Requests Response: ", ERR_THROTTLED },
		{ 404, "{}", "oauth2: cannot fetch token: 404 Not Found Response: {}",
		  ERR_UNAUTHORIZED },
		{ 200, "{}", "oauth2: server response missing access_token", ERR_UNAVAILABLE },
		{ 200, "", "oauth2: server response missing access_token", ERR_UNAVAILABLE },
		{ 200, "{\"access_token\":\"a b\"}", "oauth2: the access token cannot be one",
		  ERR_UNAVAILABLE },
	};
	struct rig *rig = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		answer(rig, rows[i].status, rows[i].body);
		assert_false(authorize(rig));
		assert_string_equal(rig->err.msg, rows[i].msg);
		assert_int_equal(rig->err.code, rows[i].code);
	}
}

/* ---- a 401 ---- */

static void
a_refused_token_is_renewed_once(void **state)
{
	struct rig *rig = *state;

	answer(rig, 200, GOOD);
	answer(rig, 200, "{\"access_token\":\"t2\",\"expires_in\":7200}");
	check_header(rig, "Bearer t1");
	assert_true(reject(rig));
	check_header(rig, "Bearer t2");
	assert_false(reject(rig)); /* the token was not the reason */
	rig->fake.now_ns += 31 * NS_PER_SEC;
	assert_true(reject(rig));
}

/* A request that was sent with the last token is repeated with the present one. */
static void
a_refusal_of_an_older_token_renews_nothing(void **state)
{
	struct rig *rig = *state;
	uint64_t first;

	answer(rig, 200, GOOD);
	check_header(rig, "Bearer t1");
	first = rig->generation;
	assert_true(reject(rig));
	check_header(rig, "Bearer t1");
	rig->generation = first;
	assert_true(reject(rig));
	check_header(rig, "Bearer t1");
	assert_int_equal(rig->script.n_asked, 2);
}

/* ---- files ---- */

static void
files_are_read_again_before_each_renewal(void **state)
{
	char path[] = "/tmp/ccmd-bb-XXXXXX";
	FILE *file = fdopen(mkstemp(path), "w");
	struct rig *rig = *state;

	fputs("first", file);
	fclose(file);
	login_secret_set(&rig->config.client, STR("app-dkmch"));
	login_secret_set(&rig->config.client_secret, STR("s"));
	login_secret_set(&rig->config.user, STR("me"));
	assert_true(login_secret_read(&rig->config.password, path, &rig->err));
	rig->config.has_user = true;
	assert_true(bb_token_new(&rig->fake.host, &rig->config, &rig->token, &rig->err));
	answer(rig, 200, "{\"access_token\":\"t1\",\"expires_in\":60,\"refresh_token\":\"r1\"}");
	check_header(rig, "Bearer t1");
	file = fopen(path, "w");
	fputs("second\n", file);
	fclose(file);
	rig->fake.now_ns += 60 * NS_PER_SEC;
	buf_reset(&rig->script.asked);
	check_header(rig, "Bearer t1");
	check_asked(rig, "grant_type=password&password=second&scope=infrastructure+orbit&"
	                 "username=me");
	unlink(path);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define CLIENT(name) cmocka_unit_test_setup_teardown(name, setup_client, teardown)
#define USER(name) cmocka_unit_test_setup_teardown(name, setup_user, teardown)
		CLIENT(an_api_client_asks_with_its_own_grant),
		USER(a_user_asks_with_the_password_then_with_the_refresh_token),
		USER(a_refresh_token_that_is_refused_gives_way_to_the_password),
		CLIENT(an_answer_may_be_a_form),
		CLIENT(a_token_ends_ten_seconds_early),
		CLIENT(a_token_without_an_end_is_kept),
		CLIENT(a_short_life_is_used_once),
		CLIENT(a_life_beyond_all_measure_is_bounded),
		CLIENT(refusals_have_the_words_of_oauth2),
		CLIENT(a_refused_token_is_renewed_once),
		CLIENT(a_refusal_of_an_older_token_renews_nothing),
		cmocka_unit_test_setup_teardown(files_are_read_again_before_each_renewal, setup,
		                                teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
