/* base/clock.h: the one place that knows what time it is.
 *
 * mono   CLOCK_MONOTONIC: durations and waiting
 * boot   CLOCK_BOOTTIME: decisions about elapsed real time (leases, proofs of absence); it goes on
 * while the machine is suspended, which condition variables cannot wait on wall   CLOCK_REALTIME:
 * only for what is printed, sent, or compared with a time from outside
 *
 * All in nanoseconds. Every wait in the program goes through clock_wait(), so that tests can
 * replace the clock: the fake one keeps its waiters, and advancing it wakes them.
 *
 * Threads: every function may be called from any thread.
 */
#ifndef CCMD_BASE_CLOCK_H
#define CCMD_BASE_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

#define CLOCK_FOREVER INT64_MAX

struct clock {
	int64_t (*mono_ns)(struct clock *);
	int64_t (*boot_ns)(struct clock *);
	int64_t (*wall_ns)(struct clock *);
	/* waits on cond (initialised by cond_init()) with mutex held; false when the deadline
	 * passed */
	bool (*wait)(struct clock *, pthread_cond_t *, pthread_mutex_t *, int64_t deadline_mono_ns);
};

/** The real one. */
extern struct clock clock_real;

static inline int64_t
clock_mono(struct clock *c)
{
	return c->mono_ns(c);
}

static inline int64_t
clock_boot(struct clock *c)
{
	return c->boot_ns(c);
}

static inline int64_t
clock_wall(struct clock *c)
{
	return c->wall_ns(c);
}

/** Waits until cond is signalled or the monotonic deadline passes (CLOCK_FOREVER: no deadline). May
 * wake early: check the condition in a loop. Returns false when the deadline has passed. */
bool clock_wait(struct clock *c, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t deadline_ns);

/** now + duration without overflow; CLOCK_FOREVER stays. */
int64_t clock_deadline(int64_t now_ns, int64_t duration_ns);

/** Appends "2026-01-02T03:04:05Z"; with six digits of fraction when micros is true. Kubernetes Time
 * and MicroTime. */
void clock_format_rfc3339(struct buf *b, int64_t wall_ns, bool micros);

/** Reads RFC 3339 with 0 to 9 digits of fraction and any offset; false with *ret untouched when
 * malformed or outside of 1677 to 2262, which is what the nanoseconds reach. */
NODISCARD bool clock_parse_rfc3339(struct str text, int64_t *ret_wall_ns);

/** Appends as Go prints durations: "1m30s", "250ms", "12h0m0s". */
void clock_format_duration(struct buf *b, int64_t ns);

#endif
