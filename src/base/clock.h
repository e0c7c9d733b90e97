/* base/clock.h: the only source of time in the program.
 *
 * A clock offers three readings, all in nanoseconds:
 * - mono (CLOCK_MONOTONIC): durations and waiting.
 * - boot (CLOCK_BOOTTIME): decisions about elapsed real time (leases, proofs of absence). It
 *   continues while the machine is suspended; condition variables cannot wait on it.
 * - wall (CLOCK_REALTIME): only for times that are printed, sent, or compared with a time from
 *   outside, because an administrator may set it.
 *
 * Every wait on a condition variable goes through clock_wait(), so that tests can replace the clock
 * (tests/fake_clock.h).
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
	/* Waits on cond (initialised by cond_init()) with mutex held; returns false when the
	 * deadline has passed. */
	bool (*wait)(struct clock *, pthread_cond_t *, pthread_mutex_t *, int64_t deadline_mono_ns);
};

/** The clock of the system. */
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

/** For metrics. */
static inline double
clock_seconds(int64_t ns)
{
	return (double)ns / (double)NS_PER_SEC;
}

/** Waits until cond is signalled or the monotonic deadline passes (CLOCK_FOREVER: no deadline). It
 * may return early: callers check their condition in a loop. False: the deadline has passed. */
bool clock_wait(struct clock *c, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t deadline_ns);

/** now_ns + duration_ns, capped instead of overflowing; CLOCK_FOREVER stays CLOCK_FOREVER. */
int64_t clock_deadline(int64_t now_ns, int64_t duration_ns);

static inline int64_t
clock_earlier(int64_t a_ns, int64_t b_ns)
{
	return a_ns < b_ns ? a_ns : b_ns;
}

static inline int64_t
clock_later(int64_t a_ns, int64_t b_ns)
{
	return a_ns > b_ns ? a_ns : b_ns;
}

/** How long it is until at_ns: 0 if that has passed; CLOCK_FOREVER stays CLOCK_FOREVER. */
static inline int64_t
clock_left(int64_t now_ns, int64_t at_ns)
{
	return at_ns == CLOCK_FOREVER ? CLOCK_FOREVER : clock_later(at_ns - now_ns, 0);
}

/** Appends the time in RFC 3339 format, as Kubernetes formats Time ("2026-01-02T03:04:05Z") or,
 * when micros is true, MicroTime (with six digits of fraction). */
void clock_format_rfc3339(struct buf *b, int64_t wall_ns, bool micros);

/** Parses RFC 3339 with 0 to 9 digits of fraction and any offset. Returns false with *ret_wall_ns
 * untouched when the text is malformed or the year lies outside 1677 to 2262, the range of 64-bit
 * nanoseconds. */
NODISCARD bool clock_parse_rfc3339(struct str text, int64_t *ret_wall_ns);

/** Appends the duration in the format of Go: "1m30s", "250ms", "12h0m0s". */
void clock_format_duration(struct buf *b, int64_t ns);

#endif
