/* base/backoff.h: how long to wait before the next attempt, and which error to report after the
 * last attempt.
 *
 * Threads: the delay functions may be called from any thread; a struct attempts belongs to the
 * thread that makes the attempts.
 */
#ifndef CCMD_BASE_BACKOFF_H
#define CCMD_BASE_BACKOFF_H

#include <stdint.h>

#include "base/error.h"

/** Returns first_ns doubled n_times, but at most most_ns. */
int64_t backoff_ns(int64_t first_ns, unsigned n_times, int64_t most_ns);
/** Returns the delay of backoff_ns() plus a random part of up to two fifths of it, so that callers
 * that failed together do not retry together: 5 to 7 s for 5 s, as in the Go controllers. The
 * result never exceeds most_ns: near that bound the range is shifted down, e.g. to 214 to 300 s
 * for most_ns = 300 s. */
int64_t backoff_spread_ns(int64_t first_ns, unsigned n_times, int64_t most_ns);

/** The failed attempts of one operation. The last attempt often has little time left, and its
 * error, a timeout, hides the cause of the other failures. */
struct attempts {
	int64_t begun_ns; /* mono: start of the first attempt; set by the caller */
	unsigned n;       /* failed attempts */
	/* The most informative error: the last one that is not a timeout, or the first one if all
	 * are timeouts. */
	struct error why;
};

/** The caller reports each failed attempt here. */
void attempts_note(struct attempts *, const struct error *err);
/** The caller calls this after the last attempt, with the error of that attempt. After several
 * attempts the message becomes the most informative one, followed by the number of attempts and
 * their duration. The additions come last so that alerts that match the beginning of the message
 * still work. Code and status stay those of the last attempt, because they decide whether the
 * request may have had an effect. ERR_CANCELLED is left unchanged. Returns false. */
bool attempts_end(const struct attempts *, int64_t now_ns, struct error *err);

#endif
