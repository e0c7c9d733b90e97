/* controllers/failure.h: when what failed is tried again: what the controllers have in common (docs/errors.md).
 *
 * Threads: any.
 */
#ifndef CCMD_CONTROLLERS_FAILURE_H
#define CCMD_CONTROLLERS_FAILURE_H

#include <pthread.h>

#include "base/call.h"
#include "base/error.h"

#define FAILURE_MAX_NS (300 * NS_PER_SEC)

/** The longest pause between two attempts. What the other side has answered about this object changes only when somebody changes
 * something; everything else may be over at any moment. */
int64_t failure_max_ns(enum err_code code);

/** How long to wait in an outage before asking again: until the next probe, where the error says when that is. */
int64_t failure_outage_ns(const struct error *err);

/** The pause of a loop that tries again by itself, without a queue. The end of an outage ends it. */
struct failure_pause {
	pthread_mutex_t mu;
	pthread_cond_t changed;
	unsigned n_releases; /* mu */
};

void failure_pause_init(struct failure_pause *);
void failure_pause_fini(struct failure_pause *);
/** To be read before an attempt: a release during the attempt ends the pause after it, too. */
unsigned failure_pause_count(struct failure_pause *);
/** Sleeps for duration_ns, or until there were more releases than n_seen. False with ERR_CANCELLED in *err. */
NODISCARD bool failure_pause_sleep(struct failure_pause *, struct call *call, unsigned n_seen,
                                   int64_t duration_ns, struct error *err);
void failure_pause_release(struct failure_pause *);

#endif
