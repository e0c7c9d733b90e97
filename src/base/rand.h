/* base/rand.h: random numbers from the kernel, for jitter and identifiers.
 *
 * Threads: every function may be called from any thread.
 */
#ifndef CCMD_BASE_RAND_H
#define CCMD_BASE_RAND_H

#include <stdint.h>

#include "base/buf.h"

uint64_t rand_u64(void);
/** Returns a uniformly distributed number in [lo, hi), or lo when hi <= lo. */
int64_t rand_between(int64_t lo, int64_t hi);
/** Returns a random duration between d and 2 * d, to spread retries that would coincide. */
int64_t rand_jitter(int64_t d);
/** Appends a random (version 4) UUID. */
void rand_uuid(struct buf *b);

#endif
