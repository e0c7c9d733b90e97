/* base/fence.h: may this process still act?
 *
 * With leader election, only the holder of the lease may change anything. The fence holds the
 * moment, on CLOCK_BOOTTIME, after which our right to act may have passed to somebody else: the
 * *start* of the last good renewal + lease duration - 1 s. Everything that changes something
 * outside asks first: the HTTP client for anything but a GET, hooks and file writes by
 * fence_check(). Without election it never expires.
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

/** Open for ever. */
#define FENCE_OPEN ((struct fence){ CLOCK_FOREVER })
/** Closed until the first renewal. */
#define FENCE_CLOSED ((struct fence){ 0 })

void fence_renew(struct fence *, int64_t deadline_boot_ns);
/** Nanoseconds left, 0 when past; CLOCK_FOREVER when it never expires. NULL is open. */
int64_t fence_remaining_ns(struct fence *, struct clock *);
/** False with ERR_CANCELLED when past. NULL is open. */
NODISCARD bool fence_check(struct fence *, struct clock *, struct error *err);

/** Shows it in the metrics, from now on and for ever. */
void fence_show(struct fence *, struct clock *);

#endif
