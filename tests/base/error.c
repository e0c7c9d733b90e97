#include "base/error.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

/* Every euro sign takes three bytes: 999 of them do not fill the message evenly with a letter in
 * front. */
static const char *
euros(char first)
{
	static char text[3 * ERR_MSG_SIZE];
	size_t at = 0;

	if (first)
		text[at++] = first;
	for (; at + 4 < sizeof(text); at += 3)
		memcpy(text + at, "\xe2\x82\xac", 4);
	return text;
}

static void
setting_replaces_all(void **state)
{
	struct error err = { .code = ERR_GONE, .http_status = 410, .retry_after_ms = 5 };

	(void)state;
	assert_false(err_set(&err, ERR_INVALID, "%s of %d", "two", 3));
	assert_int_equal(err.code, ERR_INVALID);
	assert_int_equal(err.http_status, 0);
	assert_int_equal(err.retry_after_ms, 0);
	assert_string_equal(err.msg, "two of 3");
}

static void
wrapping_adds_in_front(void **state)
{
	struct error err;

	(void)state;
	err_set(&err, ERR_THROTTLED, "rate limit");
	err.http_status = 429;
	err.retry_after_ms = 1000;
	assert_false(err_wrap(&err, "create load balancer %s", "web"));
	assert_false(err_wrap(&err, "%s", "100%s"));
	assert_int_equal(err.code, ERR_THROTTLED);
	assert_int_equal(err.http_status, 429);
	assert_int_equal(err.retry_after_ms, 1000);
	assert_string_equal(err.msg, "100%s: create load balancer web: rate limit");
}

static void
messages_may_hold_themselves(void **state)
{
	struct error err;

	(void)state;
	err_set(&err, ERR_INVALID, "inner");
	err_set(&err, ERR_INTERNAL, "<%s>", err.msg);
	assert_string_equal(err.msg, "<inner>");
	err_wrap(&err, "[%s]", err.msg);
	assert_string_equal(err.msg, "[<inner>]: <inner>");
}

static void
cuts_between_characters(void **state)
{
	struct error err;

	(void)state;
	err_set(&err, ERR_INVALID, "%s", euros('\0'));
	assert_int_equal(strlen(err.msg), 999);
	err_set(&err, ERR_INVALID, "%s", euros('x'));
	assert_int_equal(strlen(err.msg), 997);
	err_wrap(&err, "y");
	assert_int_equal(strlen(err.msg), 997 + 2 - 2); /* "y: x" and 331 signs */
	err_wrap(&err, "%s", euros('z'));
	assert_int_equal(strlen(err.msg), 997);
}

static void
fills_the_message(void **state)
{
	char text[ERR_MSG_SIZE + 5];
	struct error err;

	(void)state;
	memset(text, 'a', sizeof(text));
	for (int len = ERR_MSG_SIZE - 2; len < ERR_MSG_SIZE + 5; len++) {
		err_set(&err, ERR_INVALID, "%.*s", len, text);
		assert_int_equal(strlen(err.msg), len < ERR_MSG_SIZE ? len : ERR_MSG_SIZE - 1);
	}
}

static void
check_errno(int errnum, enum err_code code, const char *msg)
{
	struct error err = { .http_status = 1 };

	assert_false(err_errno(&err, errnum, "open %s", "/x"));
	assert_int_equal(err.code, code);
	assert_int_equal(err.http_status, 0);
	assert_string_equal(err.msg, msg);
}

static void
reads_errno(void **state)
{
	(void)state;
	check_errno(ENOENT, ERR_NOT_FOUND, "open /x: No such file or directory");
	check_errno(EACCES, ERR_FORBIDDEN, "open /x: Permission denied");
	check_errno(EPERM, ERR_FORBIDDEN, "open /x: Operation not permitted");
	check_errno(ETIMEDOUT, ERR_TIMEOUT, "open /x: Connection timed out");
	check_errno(EIO, ERR_INTERNAL, "open /x: Input/output error");
	check_errno(98765, ERR_INTERNAL, "open /x: error 98765");
}

static void
every_code_has_a_name(void **state)
{
	(void)state;
	for (int code = ERR_NONE; code <= ERR_INTERNAL; code++) {
		const char *name = err_code_name((enum err_code)code);

		assert_non_null(name);
		assert_string_not_equal(name, "unknown");
		for (int other = 0; other < code; other++)
			assert_string_not_equal(name, err_code_name((enum err_code)other));
	}
	assert_string_equal(err_code_name(ERR_NOT_FOUND), "not found");
	assert_string_equal(err_code_name((enum err_code)(ERR_INTERNAL + 1)), "unknown");
	assert_string_equal(err_code_name((enum err_code) - 1), "unknown");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(setting_replaces_all),
		cmocka_unit_test(wrapping_adds_in_front),
		cmocka_unit_test(messages_may_hold_themselves),
		cmocka_unit_test(cuts_between_characters),
		cmocka_unit_test(fills_the_message),
		cmocka_unit_test(reads_errno),
		cmocka_unit_test(every_code_has_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
