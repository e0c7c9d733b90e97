#include "cloud/login.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"

static bool
header(struct login *login, struct buf *ret, uint64_t *ret_generation, struct error *err)
{
	struct http_auth *auth = login_auth(login);

	buf_reset(ret);
	return auth->authorize(auth, NULL, ret, ret_generation, err);
}

static void
a_token_is_a_bearer(void **state)
{
	CLEANUP(login_freep) struct login *login = NULL;
	CLEANUP(buf_fini) struct buf text = BUF_INIT(1000);
	struct login_secret token = { 0 };
	uint64_t generation;
	struct error err;

	(void)state;
	login_secret_set(&token, STR("abc"));
	login = login_new(&(struct login_config){ .secret = &token });
	assert_true(header(login, &text, &generation, &err));
	assert_string_equal(text.ptr, "Bearer abc");
	assert_false(login_auth(login)->rejected(login_auth(login), generation));
	login_secret_fini(&token);
}

static void
a_token_that_breaks_the_header_is_not_sent(void **state)
{
	CLEANUP(login_freep) struct login *login = NULL;
	CLEANUP(buf_fini) struct buf text = BUF_INIT(1000);
	struct login_secret token = { 0 };
	uint64_t generation;
	struct error err;

	(void)state;
	login_secret_set(&token, STR("abc\r\nX: y"));
	login = login_new(&(struct login_config){ .secret = &token });
	assert_false(header(login, &text, &generation, &err));
	assert_string_equal(err.msg, "authorization token contains invalid characters");
	assert_int_equal(text.len, 0);
	login_secret_fini(&token);
}

static void
a_key_may_have_a_header_of_its_own(void **state)
{
	CLEANUP(login_freep) struct login *login = NULL;
	CLEANUP(buf_fini) struct buf text = BUF_INIT(1000);
	struct login_secret key = { 0 };
	uint64_t generation;
	struct error err;

	(void)state;
	login_secret_set(&key, STR("abc"));
	login = login_new(&(struct login_config){ .secret = &key, .header = "X-Key" });
	assert_true(header(login, &text, &generation, &err));
	assert_string_equal(login_auth(login)->header, "X-Key");
	assert_string_equal(text.ptr, "abc");
	login_secret_fini(&key);
}

/* RFC 7617's example */
static void
user_and_password_are_basic(void **state)
{
	CLEANUP(login_freep) struct login *login = NULL;
	CLEANUP(buf_fini) struct buf text = BUF_INIT(1000);
	struct login_secret user = { 0 }, password = { 0 };
	uint64_t generation;
	struct error err;

	(void)state;
	login_secret_set(&user, STR("Aladdin"));
	login_secret_set(&password, STR("open sesame"));
	login = login_new(&(struct login_config){ .secret = &password, .user = &user });
	assert_true(header(login, &text, &generation, &err));
	assert_string_equal(text.ptr, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
	login_secret_fini(&user);
	login_secret_fini(&password);
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
	put(path, "old\n");
	assert_true(login_secret_read(&token, path, &err));
	login = login_new(&(struct login_config){ .secret = &token });
	assert_true(header(login, &text, &first, &err));
	assert_false(login_auth(login)->rejected(login_auth(login), first));
	put(path, "new\n");
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
