/* base/backoff.h: how long to wait before the next attempt, and what to report after the last one.
 *
 * Threads: any.
 */
#ifndef CCMD_BASE_BACKOFF_H
#define CCMD_BASE_BACKOFF_H

#include <stdint.h>

#include "base/error.h"

/** first_ns, doubled n_times, but at most most_ns. */
int64_t backoff_ns(int64_t first_ns, unsigned n_times, int64_t most_ns);
/** The delay of backoff_ns() plus up to two fifths of it, chosen at random, so that callers that
 * failed together do not retry together: 5 to 7 s for 5 s, as in the Go controllers. The result
 * never exceeds most_ns: the range is shifted down then, e.g. to 214 to 300 s for most_ns = 300
 * s. */
int64_t backoff_spread_ns(int64_t first_ns, unsigned n_times, int64_t most_ns);

/** The failed attempts of one operation. The last attempt often has little time left, and its
 * error, a timeout, hides the cause of the other failures. */
struct attempts {
	int64_t begun_ns; /* mono: start of the first attempt; set by the caller */
	unsigned n;       /* failed attempts */
	/* The most informative of their errors: the last one that is no timeout, else the first
	 * one. */
	struct error why;
};

/** Call it after each failed attempt. */
void attempts_note(struct attempts *, const struct error *err);
/** Call it after the last attempt, with its error. After several attempts the message becomes the
 * most informative one, followed by the number of attempts and their duration; these come last, so
 * that alerts that match the beginning still work. Code and status stay those of the last attempt,
 * because they decide whether the request may have had an effect. ERR_CANCELLED is left as it is.
 * Returns false. */
bool attempts_end(const struct attempts *, int64_t now_ns, struct error *err);

#endif
