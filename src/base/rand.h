/* base/rand.h: randomness for jitter and identifiers, from the kernel. Threads: any. */
#ifndef CCMD_BASE_RAND_H
#define CCMD_BASE_RAND_H

#include <stdint.h>

#include "base/buf.h"

uint64_t rand_u64(void);
/** Uniform in [lo, hi); lo when hi <= lo. */
int64_t rand_between(int64_t lo, int64_t hi);
/** d as it is up to twice as long: spreads what would otherwise come back together. */
int64_t rand_jitter(int64_t d);
/** Appends a random (version 4) UUID. */
void rand_uuid(struct buf *b);

#endif
