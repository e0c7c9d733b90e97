/* The access token and its requests: section "Authentication" of docs/spec/brightbox.md. */
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
	char path[32]; /* a file with the password; "": none */
};

static void
open_token(struct rig *rig, const char *client, const char *user)
{
	login_secret_set(&rig->config.client, str_c(client));
	login_secret_set(&rig->config.client_secret, STR("s3%+%"));
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

static void
write_password(struct rig *rig, const char *text)
{
	FILE *file = fopen(rig->path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

/* A user whose password is in a file. */
static int
setup_file(void **state)
{
	int result = setup(state);
	struct rig *rig = *state;

	snprintf(rig->path, sizeof(rig->path), "/tmp/ccmd-bb-XXXXXX");
	close(mkstemp(rig->path));
	write_password(rig, "first");
	login_secret_set(&rig->config.client, STR("app-dkmch"));
	login_secret_set(&rig->config.client_secret, STR("secret-of the client"));
	login_secret_set(&rig->config.user, STR("me"));
	assert_true(login_secret_read(&rig->config.password, rig->path, &rig->err));
	rig->config.has_user = true;
	assert_true(bb_token_new(&rig->fake.host, &rig->config, &rig->token, &rig->err));
	return result;
}

static int
teardown(void **state)
{
	struct rig *rig = *state;

	if (rig->path[0])
		unlink(rig->path);
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
		{ 502, "<html>no",
		  "oauth2: cannot fetch token: 502 Bad Gateway Response: (8 bytes that are not JSON)",
		  ERR_UNAVAILABLE },
		{ 401, "{}", "oauth2: cannot fetch token: 401 Unauthorized Response: {}",
		  ERR_UNAUTHORIZED },
		{ 429, "",
		  "oauth2: cannot fetch token: 429 Too Many Requests Response: ", ERR_THROTTLED },
		{ 404, "{}", "oauth2: cannot fetch token: 404 Not Found Response: {}",
		  ERR_UNAUTHORIZED },
		{ 200, "{}", "oauth2: server response missing access_token", ERR_UNAVAILABLE },
		{ 200, "", "oauth2: server response missing access_token", ERR_UNAVAILABLE },
		{ 200, "{\"access_token\":\"a b\"}",
		  "oauth2: the access_token in the server response has blanks or other characters "
		  "that a header cannot have, or more than 4096 bytes",
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

#define PASSWORD_FORM(password) \
	"grant_type=password&password=" password "&scope=infrastructure+orbit&username=me"

/* The refresh token belongs to the old password. */
static void
a_new_password_is_used_by_the_next_request(void **state)
{
	struct rig *rig = *state;

	answer(rig, 200, "{\"access_token\":\"t1\",\"expires_in\":7200,\"refresh_token\":\"r1\"}");
	answer(rig, 200, "{\"access_token\":\"t2\",\"expires_in\":7200}");
	check_header(rig, "Bearer t1");
	check_asked(rig, PASSWORD_FORM("first"));
	write_password(rig, "second\n");
	check_header(rig, "Bearer t2");
	check_asked(rig, PASSWORD_FORM("second"));
	check_header(rig, "Bearer t2");
	check_asked(rig, "");
}

/* For example, the file was written before the API knew the new password. */
static void
the_last_token_is_used_while_a_new_password_is_refused(void **state)
{
	struct rig *rig = *state;

	answer(rig, 200, "{\"access_token\":\"t1\",\"expires_in\":7200,\"refresh_token\":\"r1\"}");
	answer(rig, 401, "{\"error\":\"invalid_client\"}");
	answer(rig, 401, "{\"error\":\"invalid_client\"}");
	answer(rig, 200, "{\"access_token\":\"t2\",\"expires_in\":7200}");
	check_header(rig, "Bearer t1");
	check_asked(rig, PASSWORD_FORM("first"));
	write_password(rig, "second");
	check_header(rig, "Bearer t1");
	check_asked(rig, PASSWORD_FORM("second"));
	check_header(rig, "Bearer t1");
	check_asked(rig, "");
	rig->fake.now_ns += 10 * NS_PER_SEC;
	check_header(rig, "Bearer t1");
	check_asked(rig, PASSWORD_FORM("second"));
	write_password(rig, "third");
	check_header(rig, "Bearer t2");
	check_asked(rig, PASSWORD_FORM("third"));
}

static void
a_new_password_that_is_refused_fails_requests_when_the_token_has_ended(void **state)
{
	struct rig *rig = *state;

	answer(rig, 200, "{\"access_token\":\"t1\",\"expires_in\":7200}");
	answer(rig, 401, "{\"error\":\"invalid_client\"}");
	check_header(rig, "Bearer t1");
	write_password(rig, "second");
	check_header(rig, "Bearer t1");
	rig->fake.now_ns += 7200 * NS_PER_SEC;
	assert_false(authorize(rig));
	assert_string_equal(rig->err.msg, "oauth2: \"invalid_client\"");
	assert_int_equal(rig->err.code, ERR_UNAUTHORIZED);
}

/* Even if the last refusal was a moment ago. */
static void
a_refused_request_is_repeated_if_there_is_a_new_password(void **state)
{
	struct rig *rig = *state;

	answer(rig, 200, "{\"access_token\":\"t1\",\"expires_in\":7200}");
	answer(rig, 200, "{\"access_token\":\"t2\",\"expires_in\":7200}");
	answer(rig, 200, "{\"access_token\":\"t3\",\"expires_in\":7200}");
	check_header(rig, "Bearer t1");
	assert_true(reject(rig));
	check_header(rig, "Bearer t2");
	assert_false(reject(rig));
	write_password(rig, "second");
	assert_true(reject(rig));
	check_header(rig, "Bearer t3");
}

/* It is probably being replaced at this moment. */
static void
a_missing_or_empty_file_changes_nothing(void **state)
{
	struct rig *rig = *state;

	answer(rig, 200, GOOD);
	check_header(rig, "Bearer t1");
	check_asked(rig, PASSWORD_FORM("first"));
	write_password(rig, "");
	check_header(rig, "Bearer t1");
	unlink(rig->path);
	check_header(rig, "Bearer t1");
	rig->fake.now_ns += 7200 * NS_PER_SEC;
	check_header(rig, "Bearer t1");
	check_asked(rig, PASSWORD_FORM("first"));
}

/* ---- secrets ---- */

/* Whatever the API answers. */
static void
no_error_and_no_line_of_the_log_has_a_secret(void **state)
{
	static const struct {
		int status;
		const char *body;
	} rows[] = {
		{ 401, "{\"error\":\"invalid_client\"}" },
		{ 500, "" },
		{ 502, "<html>grant_type=password&amp;password=secret-3&amp;scope" },
		{ 502, "<html>Authorization: app-dkmch:secret-of+the+client" },
		{ 401, "{\"error\":\"app-dkmch:secret-of the client\"}" },
		{ 200, "{\"refresh_token\":\"secret-refresh\"}" },
		{ 200, "{\"access_token\":\"secret access\"}" },
		{ 200, "access_token=secret%01access" },
	};
	char path[] = "/tmp/ccmd-bb-log-XXXXXX", lines[KIB(4)] = "";
	int fd = mkstemp(path);
	struct rig *rig = *state;

	unlink(path);
	log_set_fd(fd);
	answer(rig, 200, "{\"access_token\":\"secret-1\",\"refresh_token\":\"secret-r\"}");
	write_password(rig, "secret-2");
	check_header(rig, "Bearer secret-1");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		answer(rig, rows[i].status, rows[i].body);
		write_password(rig, i % 2 == 0 ? "secret-3" : "secret-4");
		check_header(rig, "Bearer secret-1");
		(void)reject(rig);
		assert_false(authorize(rig));
		assert_null(strstr(rig->err.msg, "secret-"));
		assert_null(strstr(rig->err.msg, "secret access"));
		answer(rig, 200, "{\"access_token\":\"secret-1\"}");
		write_password(rig, "secret-5");
		check_header(rig, "Bearer secret-1");
		rig->fake.now_ns += 31 * NS_PER_SEC;
	}
	log_set_fd(-1);
	assert_true(pread(fd, lines, sizeof(lines) - 1, 0) > 0);
	close(fd);
	assert_non_null(strstr(lines, "credentials were replaced"));
	assert_non_null(strstr(lines, "keeping the last one"));
	assert_null(strstr(lines, "secret-"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define CLIENT(name) cmocka_unit_test_setup_teardown(name, setup_client, teardown)
#define USER(name) cmocka_unit_test_setup_teardown(name, setup_user, teardown)
#define PASSWORD_FILE(name) cmocka_unit_test_setup_teardown(name, setup_file, teardown)
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
		PASSWORD_FILE(a_new_password_is_used_by_the_next_request),
		PASSWORD_FILE(the_last_token_is_used_while_a_new_password_is_refused),
		PASSWORD_FILE(
			a_new_password_that_is_refused_fails_requests_when_the_token_has_ended),
		PASSWORD_FILE(a_refused_request_is_repeated_if_there_is_a_new_password),
		PASSWORD_FILE(a_missing_or_empty_file_changes_nothing),
		PASSWORD_FILE(no_error_and_no_line_of_the_log_has_a_secret),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
