/* base/error.h: errors, passed by value.
 *
 * A function that can fail returns bool and fills *err exactly when it returns false; it writes its
 * outputs on success only. err_set() and err_wrap() return false, so that a failure takes one line:
 *
 * 	if (!hz_lb_create(hz, call, spec, &lb, err))
 * 		return err_wrap(err, "create load balancer %" STR_FMT, STR_ARG(spec->name));
 *
 * The functions never allocate memory, so errors can be reported when memory runs out. The message
 * reaches logs and Events: write it for a user of `kubectl describe`. Foreign text is passed as an
 * argument for %s, never as the format.
 *
 * Threads: every function may be called from any thread; a struct error belongs to its caller.
 */
#ifndef CCMD_BASE_ERROR_H
#define CCMD_BASE_ERROR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

/** The codes that callers may branch on. The worker loop derives its behaviour from them
 * (docs/errors.md). */
enum err_code {
	ERR_NONE = 0,     /* no error; never returned by a failing function */
	ERR_CANCELLED,    /* the process is shutting down, or the fence is closed */
	ERR_TIMEOUT,      /* a deadline of this program passed */
	ERR_UNAVAILABLE,  /* the server cannot be reached or cannot answer now */
	ERR_THROTTLED,    /* the server asked for fewer requests; see retry_after_ms */
	ERR_PENDING,      /* in progress in the cloud, not a failure: retry after retry_after_ms */
	ERR_UNAUTHORIZED, /* credentials are missing or were refused */
	ERR_FORBIDDEN,    /* credentials are known but not allowed to do this */
	ERR_NOT_FOUND,
	ERR_EXISTS,
	ERR_GONE,     /* a resource version is too old: a new list is required */
	ERR_CONFLICT, /* another client changed the object since it was read */
	ERR_INVALID,  /* the input cannot work until a user changes it */
	ERR_UNSUPPORTED,
	ERR_INTERNAL,
};

enum {
	ERR_MSG_SIZE = 1000,
};

struct error {
	enum err_code code;
	int http_status;        /* 0 when no response arrived */
	int64_t retry_after_ms; /* 0: the usual backoff applies */
	bool is_outage; /* an API is unavailable for all callers: not a failure of this object */
	bool is_held;   /* ERR_PENDING: until a person has corrected something */
	char msg[ERR_MSG_SIZE]; /* for people; truncated at a UTF-8 boundary, always terminated */
};

/** Sets code and message and clears the other fields. Returns false. */
bool err_set(struct error *err, enum err_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/** As err_set(), and sets retry_after_ms. */
bool err_later(struct error *err, enum err_code code, int64_t retry_after_ms, const char *fmt, ...)
	PRINTF_LIKE(4, 5);

/** Puts "what was attempted: " before the message and keeps the other fields. Returns false. */
bool err_wrap(struct error *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

/** Works like err_set(), with ": <text of errnum>" after the message. The code follows errnum:
 * ENOENT becomes ERR_NOT_FOUND, EACCES and EPERM become ERR_FORBIDDEN, ETIMEDOUT becomes
 * ERR_TIMEOUT, all others become ERR_INTERNAL. Returns false. */
bool err_errno(struct error *err, int errnum, const char *fmt, ...) PRINTF_LIKE(3, 4);

/** Describes an error number of the system, e.g. "Connection refused"; NULL where it has no
 * description. Constant text: any thread may call it, whatever the locale is. */
const char *err_errno_text(int errnum);

#ifdef __clang_analyzer__
/* The analyzer sees one file at a time and does not know that these functions return false. */
#define err_set(...) (err_set(__VA_ARGS__), false)
#define err_later(...) (err_later(__VA_ARGS__), false)
#define err_wrap(...) (err_wrap(__VA_ARGS__), false)
#define err_errno(...) (err_errno(__VA_ARGS__), false)
#endif

/** Returns a short name in lower case ("not found") for logs and metric labels; never NULL. */
const char *err_code_name(enum err_code code);

/** Aborts with a log line unless the call returned 0: for calls that fail only through a bug in
 * this program. The reason in the log line is the result, as pthread calls return it, or errno
 * where the result is -1. */
#define MUST(call) must_return_zero((call), #call, __FILE__, __LINE__)
void must_return_zero(int result, const char *what, const char *file, int line);

#endif
