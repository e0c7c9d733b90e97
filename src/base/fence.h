/* base/fence.h: decides whether this process may still change anything.
 *
 * With leader election, only the holder of the lease may make changes. The fence stores the time,
 * on CLOCK_BOOTTIME, after which another process may hold the lease: the *start* of the last
 * successful renewal + lease duration - 1 s. Every change outside of this process checks the fence
 * first: the HTTP client for every request but GET, hooks and file writes through fence_check().
 * Without leader election the fence never expires.
 *
 * Threads: every function may be called from any thread; reading takes no lock.
 */
#ifndef CCMD_BASE_FENCE_H
#define CCMD_BASE_FENCE_H

#include <stdatomic.h>

#include "base/clock.h"
#include "base/error.h"

struct fence {
	_Atomic int64_t deadline_boot_ns;
};

/** Open without limit. */
#define FENCE_OPEN ((struct fence){ CLOCK_FOREVER })
/** Closed until the first renewal. */
#define FENCE_CLOSED ((struct fence){ 0 })
/** Closed for ever: this process must not change anything. It is no reason to end a worker's loop,
 * so fence_check() fails with ERR_FORBIDDEN. */
#define FENCE_READ_ONLY ((struct fence){ -1 })

void fence_renew(struct fence *, int64_t deadline_boot_ns);
/** Returns the nanoseconds left, 0 after the deadline, or CLOCK_FOREVER when the fence never
 * expires. NULL is an open fence. */
int64_t fence_remaining_ns(struct fence *, struct clock *);
/** Returns false with ERR_CANCELLED after the deadline, with ERR_FORBIDDEN if the fence is
 * FENCE_READ_ONLY. NULL is an open fence. */
NODISCARD bool fence_check(struct fence *, struct clock *, struct error *err);

/** Notes that this process, which must not change anything, was about to make the change `what`. */
void fence_note_refused(struct str what);
/** Was anything noted, by fence_check() of a FENCE_READ_ONLY or by the HTTP client? *ret is then
 * ERR_INTERNAL and names the first change. */
bool fence_find_refused(struct error *ret);

/** Exports the fence in the metrics until the process ends; fence and clock must live that long.
 * Called once.
 *
 * @param lease  "namespace/name" of the Lease, or "none"
 */
void fence_show(struct fence *, struct clock *, const char *lease);

#endif
