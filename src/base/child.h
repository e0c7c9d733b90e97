/* base/child.h: runs external programs, bounded in time and output.
 *
 * A program is started from an argument vector, never through a shell. It gets a session of its
 * own, /dev/null as standard input unless the caller provides input, the standard error of this
 * process, and no other descriptors. Its process group is killed when the deadline passes (after
 * SIGTERM and a grace period, if one is set) or when the call is cancelled, and the child is reaped
 * here. A process that is blocked in the kernel may survive SIGKILL for a while: child_run() stops
 * waiting, and a later call reaps it. A program has ended when its own process has ended: processes
 * that it left in the background continue, and their later output is discarded.
 *
 * Threads: every function may be called from any thread; the caller waits for the program.
 */
#ifndef CCMD_BASE_CHILD_H
#define CCMD_BASE_CHILD_H

#include "base/buf.h"
#include "base/call.h"
#include "base/error.h"

struct child_spec {
	const char *const
		*argv; /* argv[0] is looked up in PATH when it has no '/'; NULL at the end */
	const char *const *env; /* "NAME=value" on top of our environment, later wins; NULL: none */
	struct str input;       /* written to its standard input, followed by end of file */
	int64_t timeout_ms;     /* 0: 60 s; an earlier deadline of the call takes precedence */
	/* after the timeout: time between SIGTERM and SIGKILL; 0: SIGKILL immediately, as is always
	 * the case on cancellation */
	int64_t grace_ms;
	size_t max_output; /* of standard output; 0: LIMIT_CHILD_OUTPUT */
	/* standard error is kept (the last LIMIT_CHILD_STDERR bytes) instead of passed through */
	bool take_stderr;
};

struct child_result {
	int exit_code;  /* -1: terminated by a signal */
	int signal;     /* 0: none */
	struct buf out; /* yours */
	struct buf err; /* yours; with take_stderr */
};

#define CHILD_RESULT_INIT ((struct child_result){ .out = BUF_INIT(0), .err = BUF_INIT(0) })
void child_result_fini(struct child_result *);

/** Runs the program and waits for its end. Returns true whatever its exit code. On false, err->code
 * is
 *    ERR_NOT_FOUND    the program (or its interpreter) does not exist
 *    ERR_FORBIDDEN    the program may not be executed
 *    ERR_TIMEOUT      the program did not end in time
 *    ERR_CANCELLED    the call was cancelled
 *    ERR_INVALID      the program wrote more than max_output bytes */
NODISCARD bool child_run(struct call *call, const struct child_spec *spec, struct child_result *ret,
                         struct error *err);

#endif
