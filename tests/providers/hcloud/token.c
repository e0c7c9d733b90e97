#include "providers/hcloud/token.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"

static bool
header(struct hz_login *login, struct buf *ret, uint64_t *ret_generation, struct error *err)
{
	struct http_auth *auth = hz_login_auth(login);

	buf_reset(ret);
	return auth->authorize(auth, NULL, ret, ret_generation, err);
}

static void
a_token_is_a_bearer(void **state)
{
	CLEANUP(hz_login_freep) struct hz_login *login = NULL;
	CLEANUP(buf_fini) struct buf text = BUF_INIT(1000);
	struct hz_source token = { 0 };
	uint64_t generation;
	struct error err;

	(void)state;
	secret_set(&token.value, STR("abc"));
	login = hz_login_new(NULL, &token);
	assert_true(header(login, &text, &generation, &err));
	assert_string_equal(text.ptr, "Bearer abc");
	assert_false(hz_login_auth(login)->rejected(hz_login_auth(login), generation));
	hz_source_fini(&token);
}

static void
a_token_that_breaks_the_header_is_not_sent(void **state)
{
	CLEANUP(hz_login_freep) struct hz_login *login = NULL;
	CLEANUP(buf_fini) struct buf text = BUF_INIT(1000);
	struct hz_source token = { 0 };
	uint64_t generation;
	struct error err;

	(void)state;
	secret_set(&token.value, STR("abc\r\nX: y"));
	login = hz_login_new(NULL, &token);
	assert_false(header(login, &text, &generation, &err));
	assert_string_equal(err.msg, "authorization token contains invalid characters");
	assert_int_equal(text.len, 0);
	hz_source_fini(&token);
}

/* RFC 7617's example */
static void
user_and_password_are_basic(void **state)
{
	CLEANUP(hz_login_freep) struct hz_login *login = NULL;
	CLEANUP(buf_fini) struct buf text = BUF_INIT(1000);
	struct hz_source user = { 0 }, password = { 0 };
	uint64_t generation;
	struct error err;

	(void)state;
	secret_set(&user.value, STR("Aladdin"));
	secret_set(&password.value, STR("open sesame"));
	login = hz_login_new(&user, &password);
	assert_true(header(login, &text, &generation, &err));
	assert_string_equal(text.ptr, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
	hz_source_fini(&user);
	hz_source_fini(&password);
}

static void
put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void
a_replaced_file_is_used_at_once(void **state)
{
	CLEANUP(hz_login_freep) struct hz_login *login = NULL;
	CLEANUP(buf_fini) struct buf text = BUF_INIT(1000), problems = BUF_INIT(1000);
	char path[] = "/tmp/ccmd-login-XXXXXX";
	struct hz_source token;
	uint64_t first, second;
	struct error err;

	(void)state;
	log_set_fd(-1);
	clearenv();
	close(mkstemp(path));
	put(path, "old\n");
	setenv("X_FILE", path, 1);
	hz_source_load(&token, "X", &problems);
	login = hz_login_new(NULL, &token);
	assert_true(header(login, &text, &first, &err));
	assert_false(hz_login_auth(login)->rejected(hz_login_auth(login), first));
	put(path, "new\n");
	/* after a 401: there is another one */
	assert_true(hz_login_auth(login)->rejected(hz_login_auth(login), first));
	assert_true(header(login, &text, &second, &err));
	assert_string_equal(text.ptr, "Bearer new");
	assert_int_not_equal(first, second);
	hz_source_fini(&token);
	unlink(path);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_token_is_a_bearer),
		cmocka_unit_test(a_token_that_breaks_the_header_is_not_sent),
		cmocka_unit_test(user_and_password_are_basic),
		cmocka_unit_test(a_replaced_file_is_used_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
