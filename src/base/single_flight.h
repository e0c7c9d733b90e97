/* base/single_flight.h: one run of a piece of work serves all threads that need its result.
 *
 * Runs are numbered from 1 and happen one after the other. A caller chooses the run whose result it
 * accepts: the present one, if that began late enough, else the next one. It then waits for the end
 * of that run. If the run could begin but has not, single_flight_wait() returns with *ret_is_turn
 * set, and this caller does the work, on its own thread and without the lock. A caller that gives
 * up before that (deadline, cancellation) leaves the run to another caller.
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
 * The hook is registered before the lock is taken, and so is removed after the lock was released: a
 * token that fires takes its own lock and then mu, so a thread that holds mu must neither register
 * nor remove a hook.
 *
 * Threads: mu protects the struct and the result that its user stores beside it. All functions but
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

/** Called without mu, before any other use and after the last one. */
void single_flight_init(struct single_flight *);
void single_flight_fini(struct single_flight *);

/** The number of the present run; 0: no run is active. */
uint64_t single_flight_running(const struct single_flight *);
/** The number of the first run that begins after this call. */
uint64_t single_flight_next(const struct single_flight *);

/** Waits until a run has ended.
 *
 * @param run      the number of the run: at most single_flight_next()
 * @param what     the result that the caller waits for, for the error message: "the answer"
 * @param ret_is_turn  false: the run has ended; true: it has not begun and no other run is active:
 *                 the caller must begin it. NULL if the run has begun already
 * @return  false with ERR_CANCELLED or ERR_TIMEOUT, according to the call's token and deadline */
NODISCARD bool single_flight_wait(struct single_flight *, const struct call *call, uint64_t run,
                                  const char *what, bool *ret_is_turn, struct error *err);

/** Begins the next run, while no other is active; the caller or its thread does the work. */
void single_flight_begin(struct single_flight *);
/** Ends the run, whose result is stored: wakes all threads that wait for it. */
void single_flight_end(struct single_flight *);

/** A hook for WITH_HOOK(), whose argument is the struct. Called without mu. */
void single_flight_wake(void *flight);

#endif
