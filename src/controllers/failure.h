/* controllers/failure.h: when the controllers retry failed work (docs/errors.md).
 *
 * A controller with a queue retries through the queue, with the limits that are given here. A loop
 * without a queue uses struct failure_pause.
 *
 * Threads: any.
 */
#ifndef CCMD_CONTROLLERS_FAILURE_H
#define CCMD_CONTROLLERS_FAILURE_H

#include <pthread.h>

#include "base/call.h"
#include "base/error.h"

#define FAILURE_MAX_NS (300 * NS_PER_SEC)

/** The longest pause between two attempts. It is long for answers about the object itself, which
 * change only after a user or another program has changed something; it is short for all other
 * errors, which may end at any moment. */
int64_t failure_max_ns(enum err_code code);

/** How long to wait in an outage before the next attempt: retry_after_ms if the error has it, else
 * 30 s. */
int64_t failure_outage_ns(const struct error *err);

/** The pause of a loop that retries without a queue. The end of an outage ends the pause. */
struct failure_pause {
	pthread_mutex_t mu;
	pthread_cond_t changed;
	unsigned n_releases; /* mu */
};

void failure_pause_init(struct failure_pause *);
void failure_pause_fini(struct failure_pause *);
/** The number of releases so far. Read it before an attempt: a release during the attempt then ends
 * the pause that follows. */
unsigned failure_pause_count(struct failure_pause *);
/** Sleeps for duration_ns, or until there were more releases than n_seen. False with ERR_CANCELLED
 * in *err. */
NODISCARD bool failure_pause_sleep(struct failure_pause *, struct call *call, unsigned n_seen,
                                   int64_t duration_ns, struct error *err);
void failure_pause_release(struct failure_pause *);

#endif
