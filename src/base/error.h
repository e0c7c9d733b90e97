/* base/error.h: what went wrong, by value.
 *
 * A function that can fail returns bool and fills *err exactly when it returns false; its outputs
 * are written on success only. err_set() and err_wrap() return false, so that failing is one line:
 *
 * 	if (!hz_lb_create(hz, call, spec, &lb, err))
 * 		return err_wrap(err, "create load balancer %" STR_FMT, STR_ARG(spec->name));
 *
 * Nothing here allocates, and nothing is shared between threads. The message reaches logs and
 * Events: write it for whoever runs `kubectl describe`. Foreign text goes through %s, never as a
 * format.
 */
#ifndef CCMD_BASE_ERROR_H
#define CCMD_BASE_ERROR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

/** What a caller may branch on. The worker loop turns these into behaviour (docs/errors.md). */
enum err_code {
	ERR_NONE = 0,    /* no error; never returned by a failing function */
	ERR_CANCELLED,   /* we are shutting down, or the fence is down */
	ERR_TIMEOUT,     /* a deadline of ours passed */
	ERR_UNAVAILABLE, /* the other side cannot be reached or is not able to answer now */
	ERR_THROTTLED,   /* the other side asked us to slow down; see retry_after_ms */
	ERR_PENDING,     /* under way in the cloud: come back after retry_after_ms, not a failure */
	ERR_UNAUTHORIZED, /* credentials are missing or were refused */
	ERR_FORBIDDEN,    /* credentials are known but not allowed to do this */
	ERR_NOT_FOUND,
	ERR_EXISTS,
	ERR_GONE,     /* a resource version is too old: list again */
	ERR_CONFLICT, /* somebody else changed it since we looked */
	ERR_INVALID,  /* what we were given cannot work until somebody changes it */
	ERR_UNSUPPORTED,
	ERR_INTERNAL,
};

enum {
	ERR_MSG_SIZE = 1000,
};

struct error {
	enum err_code code;
	int http_status;        /* 0 when no response arrived */
	int64_t retry_after_ms; /* 0: back off as usual */
	bool is_outage; /* an API is unavailable for all callers: not a failure of this object */
	char msg[ERR_MSG_SIZE]; /* for people; cut at a UTF-8 boundary, always terminated */
};

/** Sets code and message, clears the rest. Returns false. */
bool err_set(struct error *err, enum err_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/** Puts "what we were doing: " before the message; code and the rest stay. Returns false. */
bool err_wrap(struct error *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

/** Like err_set() with ": <text of errnum>" after the message. The code follows errnum: ENOENT is
 * ERR_NOT_FOUND, EACCES and EPERM are ERR_FORBIDDEN, ETIMEDOUT is ERR_TIMEOUT, all others
 * ERR_INTERNAL.
 * Returns false. */
bool err_errno(struct error *err, int errnum, const char *fmt, ...) PRINTF_LIKE(3, 4);

#ifdef __clang_analyzer__
/* It sees one file at a time. */
#define err_set(...) (err_set(__VA_ARGS__), false)
#define err_wrap(...) (err_wrap(__VA_ARGS__), false)
#define err_errno(...) (err_errno(__VA_ARGS__), false)
#endif

/** A short name in lower case ("not found"), for logs and metric labels; never NULL. */
const char *err_code_name(enum err_code code);

/** Aborts with a log line unless a call that can fail only by our own mistake returned 0. The
 * reason is its result, as pthread calls return it, or errno where the result is -1. */
#define MUST(call) must_return_zero((call), #call, __FILE__, __LINE__)
void must_return_zero(int result, const char *what, const char *file, int line);

#endif
