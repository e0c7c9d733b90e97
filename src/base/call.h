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
#include "base/cancel.h"
#include "base/clock.h"
#include "base/dry_run.h"

struct call {
	struct clock *clock;
	struct cancel *cancel; /* NULL: the work cannot be cancelled */
	/* CLOCK_FOREVER: only the timeouts of the single operations apply */
	int64_t deadline_mono_ns;
	struct arena *arena;
	/* NULL: changes are made. Else they are only noted, as changes for this object. */
	const struct dry_item *dry;
};

/** Returns the earlier of the call's deadline and the end of timeout_ns from now, on clock_real:
 * for waits in the kernel (sockets, child processes), which cannot use a test clock. */
int64_t call_deadline_real(const struct call *call, int64_t timeout_ns);

#endif
