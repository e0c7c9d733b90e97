#include "cloud/login.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/log.h"

static bool
header(struct login *login, struct buf *ret, uint64_t *ret_generation, struct error *err)
{
	struct http_auth *auth = login_auth(login);

	buf_reset(ret);
	return auth->authorize(auth, NULL, ret, ret_generation, err);
}

/* Checks the header that a login sends. user and header_name may be NULL; expected NULL: the login
 * refuses to send the secret. */
static void
check_header(const char *user, const char *header_name, const char *secret, const char *expected)
{
	CLEANUP(login_freep) struct login *login = NULL;
	CLEANUP(buf_fini) struct buf text = BUF_INIT(1000);
	struct login_secret user_text = { 0 }, secret_text = { 0 };
	struct login_config config = { .secret = &secret_text, .header = header_name };
	uint64_t generation;
	struct error err;

	login_secret_set(&secret_text, str_c(secret));
	if (user) {
		login_secret_set(&user_text, str_c(user));
		config.user = &user_text;
	}
	login = login_new(&config);
	if (expected) {
		assert_true(header(login, &text, &generation, &err));
		assert_string_equal(text.ptr, expected);
		assert_false(login_auth(login)->rejected(login_auth(login), generation));
	} else {
		assert_false(header(login, &text, &generation, &err));
		assert_string_equal(err.msg, "authorization token contains invalid characters");
		assert_int_equal(text.len, 0);
	}
	if (header_name)
		assert_string_equal(login_auth(login)->header, header_name);
	login_secret_fini(&user_text);
	login_secret_fini(&secret_text);
}

static void
a_token_is_a_bearer(void **state)
{
	(void)state;
	check_header(/*user=*/NULL, /*header_name=*/NULL, "abc", "Bearer abc");
}

static void
a_token_that_breaks_the_header_is_not_sent(void **state)
{
	(void)state;
	check_header(/*user=*/NULL, /*header_name=*/NULL, "abc\r\nX: y", /*expected=*/NULL);
}

static void
a_key_may_have_a_header_of_its_own(void **state)
{
	(void)state;
	check_header(/*user=*/NULL, "X-Key", "abc", "abc");
}

/* RFC 7617's example */
static void
user_and_password_are_basic(void **state)
{
	(void)state;
	check_header("Aladdin", /*header_name=*/NULL, "open sesame",
	             "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
}

static void
a_replaced_file_is_used_immediately(void **state)
{
	CLEANUP(login_freep) struct login *login = NULL;
	CLEANUP(buf_fini) struct buf text = BUF_INIT(1000);
	char path[] = "/tmp/ccmd-login-XXXXXX";
	struct login_secret token;
	uint64_t first, second;
	struct error err;

	(void)state;
	log_set_fd(-1);
	close(mkstemp(path));
	assert_true(file_replace(path, STR("old\n"), 0600, &err));
	assert_true(login_secret_read(&token, path, &err));
	login = login_new(&(struct login_config){ .secret = &token });
	assert_true(header(login, &text, &first, &err));
	assert_false(login_auth(login)->rejected(login_auth(login), first));
	assert_true(file_replace(path, STR("new\n"), 0600, &err));
	/* after a 401: there is another one */
	assert_true(login_auth(login)->rejected(login_auth(login), first));
	assert_true(header(login, &text, &second, &err));
	assert_string_equal(text.ptr, "Bearer new");
	assert_int_not_equal(first, second);
	login_secret_fini(&token);
	unlink(path);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_token_is_a_bearer),
		cmocka_unit_test(a_token_that_breaks_the_header_is_not_sent),
		cmocka_unit_test(a_key_may_have_a_header_of_its_own),
		cmocka_unit_test(user_and_password_are_basic),
		cmocka_unit_test(a_replaced_file_is_used_immediately),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
