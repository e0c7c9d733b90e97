/* base/backoff.h: how long to wait before what failed is tried again.
 *
 * Threads: any.
 */
#ifndef CCMD_BASE_BACKOFF_H
#define CCMD_BASE_BACKOFF_H

#include <stdint.h>

/** first_ns, doubled n_times, but at most most_ns. */
int64_t backoff_ns(int64_t first_ns, unsigned n_times, int64_t most_ns);
/** The same and up to two fifths more, chosen at random, so that what failed together does not come back together: 5 to 7 s
 * for 5 s, as in the Go controllers. Near most_ns the range is as wide and ends there: for 300 s at most, 214 to 300 s. */
int64_t backoff_spread_ns(int64_t first_ns, unsigned n_times, int64_t most_ns);

#endif
