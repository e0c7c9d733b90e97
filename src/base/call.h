/* base/call.h: what a piece of work carries along: how long it may take, who may stop it, its
 * memory.
 *
 * A worker fills one per work item and passes it down; pass it on, keep none of it. Memory from the
 * arena is valid until the work item is done.
 */
#ifndef CCMD_BASE_CALL_H
#define CCMD_BASE_CALL_H

#include "base/arena.h"
#include "base/cancel.h"
#include "base/clock.h"

struct call {
	struct clock *clock;
	struct cancel *cancel;    /* NULL: nobody can stop it */
	int64_t deadline_mono_ns; /* CLOCK_FOREVER: the parts' own time-outs only */
	struct arena *arena;
};

/** The earlier of the call's deadline and the end of timeout_ns from now, by clock_real: for what
 * waits in the kernel (sockets, child processes), which knows no other clock. */
int64_t call_deadline_real(const struct call *call, int64_t timeout_ns);

#endif
