/* base/single_flight.h: several threads want the same work done; one run of it serves them all.
 *
 * Runs are numbered from 1 and happen one after the other. A caller names the run that will answer
 * it: the one under way where that began late enough, else the next one. It then waits for the end
 * of that run. If nobody has begun that run when it may begin, the waiting caller is told to do so:
 * the work is done on the thread of a caller, without the lock, and a caller that gives up before
 * its turn (deadline, cancellation) leaves the run to another one.
 *
 * 	WITH_HOOK(call->cancel, single_flight_wake, &x->flight);
 * 	WITH_LOCK(&x->flight.mu);
 *
 * 	run = single_flight_next(&x->flight);
 * 	if (!single_flight_wait(&x->flight, call, run, "the answer", &is_turn, err))
 * 		return false;
 * 	if (is_turn) {
 * 		single_flight_begin(&x->flight);
 * 		mutex_unlock(&x->flight.mu);
 * 		…the work…
 * 		mutex_lock(&x->flight.mu);
 * 		…keep the result…
 * 		single_flight_end(&x->flight);
 * 	}
 *
 * The hook goes first, and so is undone last: a token that fires takes its own lock and then mu,
 * hence it must not be taken or given back by somebody who holds mu.
 *
 * Threads: mu guards the struct and whatever its user stores beside it. All functions but
 * single_flight_wake() are called with mu held.
 */
#ifndef CCMD_BASE_SINGLE_FLIGHT_H
#define CCMD_BASE_SINGLE_FLIGHT_H

#include <pthread.h>

#include "base/call.h"
#include "base/error.h"

struct single_flight {
	pthread_mutex_t mu;
	pthread_cond_t changed;    /* a run has ended, or a token has fired */
	uint64_t n_begun, n_ended; /* mu; they differ while a run is under way */
};

/** Without mu, before any other use and after the last one. */
void single_flight_init(struct single_flight *);
void single_flight_fini(struct single_flight *);

/** The number of the run under way; 0: there is none. */
uint64_t single_flight_running(const struct single_flight *);
/** The number of the first run that begins after this call. */
uint64_t single_flight_next(const struct single_flight *);

/** Waits until a run has ended.
 *
 * @param run      its number: at most single_flight_next()
 * @param what     is waited for, in the message
 * @param ret_is_turn  false: the run has ended; true: it has not begun, nothing runs, and the
 *                 caller is to begin it. NULL where `run` has begun already
 * @return  false with ERR_CANCELLED or ERR_TIMEOUT, by the call */
NODISCARD bool single_flight_wait(struct single_flight *, const struct call *call, uint64_t run,
                                  const char *what, bool *ret_is_turn, struct error *err);

/** The next run begins; the caller, or a thread it starts, does the work. Nothing runs. */
void single_flight_begin(struct single_flight *);
/** The run has ended, and its result is stored: wakes everybody who waits for it. */
void single_flight_end(struct single_flight *);

/** For WITH_HOOK() around what waits; its argument is the struct. Without mu. */
void single_flight_wake(void *flight);

#endif
