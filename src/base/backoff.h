/* base/backoff.h: how long to wait before what failed is tried again, and what is reported when it fails for good.
 *
 * Threads: any.
 */
#ifndef CCMD_BASE_BACKOFF_H
#define CCMD_BASE_BACKOFF_H

#include <stdint.h>

#include "base/error.h"

/** first_ns, doubled n_times, but at most most_ns. */
int64_t backoff_ns(int64_t first_ns, unsigned n_times, int64_t most_ns);
/** The same and up to two fifths more, chosen at random, so that what failed together does not come back together: 5 to 7 s
 * for 5 s, as in the Go controllers. Near most_ns the range is as wide and ends there: for 300 s at most, 214 to 300 s. */
int64_t backoff_spread_ns(int64_t first_ns, unsigned n_times, int64_t most_ns);

/** Attempts at one thing. The last one often has little time left, and its error, a timeout, hides why the others failed. */
struct attempts {
	int64_t begun_ns; /* mono: the first began; by the caller */
	unsigned n;       /* failed */
	struct error
		why; /* of their errors the one that says most: a timeout only where there is no other */
};

/** To be called after each attempt that failed. */
void attempts_note(struct attempts *, const struct error *err);
/** In the end, with the last error: after several attempts the message becomes the one that says most, with their number and
 * how long they took behind it, where it breaks no alert that matches the beginning. Code and status stay those of the last attempt, which decide whether it may have had an effect. An
 * error ERR_CANCELLED is left as it is. Returns false. */
bool attempts_end(const struct attempts *, int64_t now_ns, struct error *err);

#endif
