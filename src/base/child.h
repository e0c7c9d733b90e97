/* base/child.h: programs we start, bounded in time and output.
 *
 * An argument vector, never a shell. The child gets a session of its own, /dev/null as input unless
 * given some, our standard error, and none of our descriptors. It is killed with its whole group
 * when the deadline passes (after a SIGTERM and a grace period, where it is given one) or the call
 * is cancelled, and reaped here. A process that waits in the kernel may not even end then: it is
 * left alone and reaped in a later call. Ended means that the program itself did: what it left
 * behind goes on, and what that writes later is nobody's.
 *
 * Threads: any; the caller waits.
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
	struct str input;       /* written to its standard input, which is then closed */
	int64_t timeout_ms;     /* 0: 60 s; the call's deadline cuts it short */
	int64_t grace_ms;  /* past that: SIGTERM, and SIGKILL so much later; 0: SIGKILL at once.
	                      Whoever cancels does not wait */
	size_t max_output; /* of standard output; 0: LIMIT_CHILD_OUTPUT */
	bool take_stderr;  /* standard error is kept (the last LIMIT_CHILD_STDERR bytes) instead of
	                      passed through */
};

struct child_result {
	int exit_code;  /* -1: ended by a signal */
	int signal;     /* 0: none */
	struct buf out; /* yours */
	struct buf err; /* yours; with take_stderr */
};

#define CHILD_RESULT_INIT ((struct child_result){ .out = BUF_INIT(0), .err = BUF_INIT(0) })
void child_result_fini(struct child_result *);

/** Runs it to its end. True whatever its exit code. On false, err->code is
 *    ERR_NOT_FOUND    there is no such program (or its interpreter)
 *    ERR_FORBIDDEN    it may not be executed
 *    ERR_TIMEOUT      it did not end in time
 *    ERR_CANCELLED
 *    ERR_INVALID      it wrote more than max_output */
NODISCARD bool child_run(struct call *call, const struct child_spec *spec, struct child_result *ret,
                         struct error *err);

#endif
