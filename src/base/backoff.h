/* base/backoff.h: how long to wait before what failed is tried again.
 *
 * Threads: any.
 */
#ifndef CCMD_BASE_BACKOFF_H
#define CCMD_BASE_BACKOFF_H

#include <stdint.h>

/** first_ns, doubled n_times, but at most most_ns. */
int64_t backoff_ns(int64_t first_ns, unsigned n_times, int64_t most_ns);
/** The same, less up to a quarter by chance: who failed together need not come back together. */
int64_t backoff_spread_ns(int64_t first_ns, unsigned n_times, int64_t most_ns);

#endif
