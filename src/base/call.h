/* base/call.h: the context of a work item: its deadline, its cancellation and its memory.
 *
 * A worker fills one struct call per work item and passes it to every function that can wait.
 * Callees pass it on and never store it. Memory from the arena is valid until the work item is
 * done.
 *
 * Threads: a call belongs to the thread that works on the item; its cancel token may be fired from
 * any thread.
 */
#ifndef CCMD_BASE_CALL_H
#define CCMD_BASE_CALL_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/dry_run.h"

/** What a cloud's API has answered to the requests of one function of a provider (cloud/rest.h). */
struct call_answers {
	int last_status;  /* 0: there was no request; -1: the last one got no answer */
	bool has_success; /* a request was answered with a 2xx */
	/* Set by the provider, with ERR_NOT_FOUND: the requested object does not exist, and the
	 * cloud has reported that in another way than by a 404. */
	bool is_absent;
};

struct call {
	struct clock *clock;
	struct cancel *cancel; /* NULL: the work cannot be cancelled */
	/* CLOCK_FOREVER: only the timeouts of the single operations apply */
	int64_t deadline_mono_ns;
	struct arena *arena;
	/* NULL: changes are made. Else they are only noted, as changes for this object. */
	const struct dry_item *dry;
	struct call_answers answers;
	/* a user waits for it, so a look for machines is not postponed for the rate limit */
	bool is_urgent;
	/* NULL: the caller does not need it. Else a provider adds each of its changes with
	 * call_note_change(). */
	struct buf *changes;
};

/** Adds a short name of a change to call->changes, unless it is there already. */
void call_note_change(const struct call *call, const char *what);

/** Returns the earlier of the call's deadline and the end of timeout_ns from now, on clock_real:
 * for waits in the kernel (sockets, child processes), which cannot use a test clock. */
int64_t call_deadline_real(const struct call *call, int64_t timeout_ns);

/* ---- pieces of work that mostly wait for answers, on a few threads ---- */

typedef void parallel_fn(void *arg, struct call *call, size_t i);

/** Calls work for the pieces first to end - 1 and waits for them. Each thread has a call with an
 * arena of its own, which is reset after each piece. No piece is begun after the call was
 * cancelled.
 *
 * @param name  of the threads, at most 15 bytes
 */
void parallel_run(const char *name, const struct call *call, size_t first, size_t end,
                  parallel_fn *work, void *arg);

#endif
