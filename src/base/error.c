/* base/error.c: see error.h.
 *
 * Every message is formatted into a local array first, for two reasons: the old message may be
 * among the arguments, and a message that is too long for struct error can be truncated at a
 * character boundary.
 */
#include "base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/str.h"

/* The macros of error.h exist for the analyzer only. */
#undef err_set
#undef err_later
#undef err_wrap
#undef err_errno

/* One byte more than fits, so that set_text() can detect a cut through a character. */
#define TEXT_SIZE (ERR_MSG_SIZE + 1)

static void
set_text(struct error *err, const struct buf *text)
{
	struct str msg = str_utf8_head(buf_str(text), ERR_MSG_SIZE - 1);

	memcpy(err->msg, msg.ptr, msg.len);
	err->msg[msg.len] = '\0';
}

static void
set_new(struct error *err, enum err_code code, const struct buf *text)
{
	*err = (struct error){ .code = code };
	set_text(err, text);
}

bool
err_set(struct error *err, enum err_code code, const char *fmt, ...)
{
	char memory[TEXT_SIZE] = "";
	struct buf text = BUF_FIXED(memory);

	BUF_ADD_ARGS(&text, fmt);
	set_new(err, code, &text);
	return false;
}

bool
err_later(struct error *err, enum err_code code, int64_t retry_after_ms, const char *fmt, ...)
{
	char memory[TEXT_SIZE] = "";
	struct buf text = BUF_FIXED(memory);

	BUF_ADD_ARGS(&text, fmt);
	set_new(err, code, &text);
	err->retry_after_ms = retry_after_ms;
	return false;
}

bool
err_wrap(struct error *err, const char *fmt, ...)
{
	char memory[TEXT_SIZE] = "";
	struct buf text = BUF_FIXED(memory);

	BUF_ADD_ARGS(&text, fmt);
	buf_add_c(&text, ": ");
	buf_add_c(&text, err->msg);
	set_text(err, &text);
	return false;
}

static enum err_code
code_of_errno(int errnum)
{
	switch (errnum) {
	case ENOENT:
		return ERR_NOT_FOUND;
	case EACCES:
	case EPERM:
		return ERR_FORBIDDEN;
	case ETIMEDOUT:
		return ERR_TIMEOUT;
	default:
		return ERR_INTERNAL;
	}
}

/* glibc's strerror() translates the text into a buffer; musl's returns constants, and it has no
 * strerrordesc_np(). */
const char *
err_errno_text(int errnum)
{
#ifdef __GLIBC__
	return strerrordesc_np(errnum);
#else
	return strerror(errnum);
#endif
}

bool
err_errno(struct error *err, int errnum, const char *fmt, ...)
{
	char memory[TEXT_SIZE] = "";
	struct buf text = BUF_FIXED(memory);
	const char *reason = err_errno_text(errnum);

	BUF_ADD_ARGS(&text, fmt);
	if (reason)
		buf_addf(&text, ": %s", reason);
	else
		buf_addf(&text, ": error %d", errnum);
	set_new(err, code_of_errno(errnum), &text);
	return false;
}

const char *
err_code_name(enum err_code code)
{
	static const char *const names[] = {
		[ERR_NONE] = "none",
		[ERR_CANCELLED] = "cancelled",
		[ERR_TIMEOUT] = "timeout",
		[ERR_UNAVAILABLE] = "unavailable",
		[ERR_THROTTLED] = "throttled",
		[ERR_PENDING] = "pending",
		[ERR_UNAUTHORIZED] = "unauthorized",
		[ERR_FORBIDDEN] = "forbidden",
		[ERR_NOT_FOUND] = "not found",
		[ERR_EXISTS] = "exists",
		[ERR_GONE] = "gone",
		[ERR_CONFLICT] = "conflict",
		[ERR_INVALID] = "invalid",
		[ERR_UNSUPPORTED] = "unsupported",
		[ERR_INTERNAL] = "internal",
	};

	if ((size_t)code >= ARRAY_LEN(names))
		return "unknown";
	return names[code];
}

void
must_return_zero(int result, const char *what, const char *file, int line)
{
	const char *reason;

	if (result == 0)
		return;
	reason = err_errno_text(result == -1 ? errno : result);
	log_error("a call failed that cannot fail without a bug", LOG_CSTR("call", what),
	          LOG_CSTR("reason", reason), LOG_CSTR("file", file), LOG_I64("line", line));
	abort();
}
