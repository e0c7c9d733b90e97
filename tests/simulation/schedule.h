/* tests/simulation/schedule.h: threads that run one at a time, simulated time, and the seed.
 *
 * A thread of a replica is a fiber: it has its own stack, and runs until it waits or yields to
 * another fiber. The seed decides which runnable fiber is next. When all fibers wait, the clock
 * advances to the next deadline, or to the next entry of the agenda: calls of functions, each with
 * its time.
 *
 * Everything outside of the replicas (answers of servers, failures of machines, actions of people)
 * runs between fibers, never in one. Nothing here reads a clock or a random number of the system,
 * so the same seed gives the same history.
 *
 * One process simulates one history, so the state is static.
 *
 * Threads: none.
 */
#ifndef CCMD_TESTS_SIMULATION_SCHEDULE_H
#define CCMD_TESTS_SIMULATION_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "base/str.h"

struct replica;
struct fiber;

/* ---- random numbers ---- */

struct rng {
	uint64_t state;
};

uint64_t rng_next(struct rng *);
/** From 0 to n - 1. */
uint64_t rng_below(struct rng *, uint64_t n);
/** From lo to hi, both included. */
int64_t rng_between(struct rng *, int64_t lo, int64_t hi);
bool rng_chance(struct rng *, unsigned per_mille);
/** Each purpose has its own sequence: more numbers for one purpose do not change the others. */
struct rng rng_of(uint64_t seed, const char *purpose, uint64_t number);
/** FNV-1a, goes on from `hash`. */
uint64_t hash_bytes(uint64_t hash, const char *bytes, size_t n);

/* ---- life cycle ---- */

/** Must be called once, before anything else. */
void schedule_start(uint64_t seed);
/** How often a fiber yields at a lock, in thousandths. */
void schedule_set_yields(unsigned per_mille);
/** Since the start. */
int64_t schedule_now_ns(void);
/** Calls fn(arg) at that time, between fibers. What is due at the same time runs in the order of
 * the calls. */
void schedule_at(int64_t at_ns, void (*fn)(void *arg), void *arg);
/** Runs fibers and the agenda until that time or until a failure. */
void schedule_run_until(int64_t until_ns);

/* ---- fibers ---- */

/** The fiber belongs to a replica and starts soon. When run() returns, fibers that wait for the
 * channel of this fiber (its address) are woken. */
struct fiber *fiber_new(struct replica *, void *(*run)(void *arg), void *arg);
/** The fiber that runs; NULL: none does, but a function of the agenda. */
struct fiber *fiber_self(void);
struct replica *fiber_replica(const struct fiber *);
const char *fiber_name(const struct fiber *); /* as pthread_getname_np() */
void fiber_set_name(struct fiber *, const char *name);
bool fiber_has_ended(const struct fiber *);
/** Values of pthread_setspecific(), by key. */
void **fiber_specific(struct fiber *, unsigned key);
/** Counts locks that the fiber holds: a crash while one is held is a case of its own. */
void fiber_count_lock(struct fiber *, int change);
bool fiber_holds_lock(const struct replica *);

/** Lets others run. */
void fiber_yield(void);
/** Yields if the seed says so. */
void fiber_may_yield(void);
/** Waits until the channel is woken or the time is reached; false: the time was reached. */
bool fiber_wait(const void *channel, int64_t until_ns);
/** Wakes one fiber that waits on the channel, chosen by the seed, or all. */
void fiber_wake(const void *channel, bool all);
/** Ends all fibers of a replica without running them. Does not return if the caller is one. */
void fiber_drop(struct replica *);
/** Threads of that name do not run until then, as if the system gave them no time. */
void fiber_hold(struct replica *, const char *name, int64_t until_ns);
/** Its machine was suspended: what its threads wait for, by CLOCK_MONOTONIC, comes so much later.
 * Not that of the main thread, whose loop also waits by CLOCK_BOOTTIME: it looks at both clocks. */
void fiber_postpone(const struct replica *, int64_t by_ns);
/** The replica is no longer paused: wakes the fibers that the world would have woken meanwhile. */
void fiber_resume(struct replica *);

/* ---- the trace ---- */

enum trace_level {
	TRACE_NOTHING,
	TRACE_HISTORY,
	TRACE_ALL, /* with renewals of Leases */
};

/** Adds a line to the history: it counts for the hash, and is printed if the level permits it. */
void trace(const char *format, ...) PRINTF_LIKE(1, 2);
/** The same for lines that are printed with TRACE_ALL only; for the hash only their time counts. */
void trace_detail(const char *format, ...) PRINTF_LIKE(1, 2);
uint64_t trace_hash(void);
void trace_print(enum trace_level);
/** Ends the history: a check failed. The first failure counts. */
void fail(const char *format, ...) PRINTF_LIKE(1, 2);
/** NULL: none. */
const char *failure(void);

#endif
