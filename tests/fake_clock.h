/* fake_clock.h: a clock that tests advance by hand.
 *
 * It keeps the threads that wait on it, and advancing it wakes them.
 *
 * Threads: every function may be called from any thread.
 */
#ifndef CCMD_FAKE_CLOCK_H
#define CCMD_FAKE_CLOCK_H

#include "base/clock.h"

struct fake_clock;

/** A clock that stands still at the given wall time until it is advanced. */
struct fake_clock *fake_clock_new(int64_t wall_ns);
void fake_clock_free(struct fake_clock *);
struct clock *fake_clock_clock(struct fake_clock *);
/** Moves all three clocks and wakes threads whose deadline has passed. Hold no mutex that a waiter
 * waits with. */
void fake_clock_advance(struct fake_clock *, int64_t ns);
/** Moves only the wall clock, as an administrator would. */
void fake_clock_jump_wall(struct fake_clock *, int64_t ns);
/** What a suspended machine sees: boot and wall clock moved on, the monotonic one did not. Nobody
 * wakes. */
void fake_clock_suspend(struct fake_clock *, int64_t ns);
/** Returns when n threads or more are waiting on this clock and none of them is due. All are woken
 * early as often as there are threads, so that what was signalled in another way has been acted on
 * as well. */
void fake_clock_settle(struct fake_clock *, unsigned n_threads);

#endif
