/* controllers/pace.h: when the controllers react to a change of an object, and when they retry
 * failed work.
 *
 * Another writer of an object (a controller, a script) may undo what we wrote as soon as it sees
 * the change. Each reaction that such a writer can cause is counted here: the first PACE_FREE
 * reactions are immediate, each further one waits until 10 s, 20 s, … up to 5 min have passed since
 * the previous one. After more than 10 min without a reaction the count begins at 0 again. A writer
 * that never pauses for that long causes at most PACE_HOUR reactions in an hour. docs/errors.md
 * lists the reactions.
 *
 * Threads: any; a struct pace belongs to its owner.
 */
#ifndef CCMD_CONTROLLERS_PACE_H
#define CCMD_CONTROLLERS_PACE_H

#include <pthread.h>

#include "base/call.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/map.h"
#include "kube/queue.h"

enum {
	PACE_FREE = 5,
	/* at most, in the first hour: 5 immediately, 5 within 310 s, then 10, one every 5 min; 12
	 * in each further hour. A writer that pauses for 10 min each time causes up to 9 in 12.5
	 * min. */
	PACE_HOUR = 20,
};

/** The pace of one reaction to one object; zeroed: no reaction yet. */
struct pace {
	int64_t last_mono_ns; /* the last reaction */
	unsigned n;           /* reactions since the last 10 min without any */
};

/** 0: react now; the reaction is counted. Else: how long to wait before the next call. */
int64_t pace_take(struct pace *, int64_t now_mono_ns);

/** The paces of many objects. An object without reactions for 10 min is forgotten. If there are
 * more than LIMIT_PACES, all are forgotten. Made by controller_memory_new(). */
struct paces {
	struct clock *clock;
	pthread_mutex_t mu;
	struct map all;        /* mu; struct paced */
	int64_t swept_mono_ns; /* mu */
};

struct paced {
	struct str key; /* "reaction/uid" */
	struct pace pace;
};

/** The same, for the object with that UID. reaction is a literal. */
int64_t paces_take(struct paces *, struct str uid, const char *reaction);
/** Counts a reaction now and returns how long to wait before it, without another call. Further
 * calls until then return the remaining time and count nothing: one reaction serves all of them. */
int64_t paces_reserve(struct paces *, struct str uid, const char *reaction);
/** What paces_take() would return, without counting: for reactions that are counted, by
 * paces_take(), only after they have succeeded. */
int64_t paces_look(struct paces *, struct str uid, const char *reaction);

/* ---- failures ----
 *
 * A controller with a queue retries failed work through the queue, with the limits that are given
 * here (docs/errors.md). A loop without a queue uses struct failure_pause.
 */

#define FAILURE_MAX_NS (300 * NS_PER_SEC)

/** The longest pause between two attempts. It is long for answers about the object itself, which
 * change only after a user or another program has changed something; it is short for all other
 * errors, which may end at any moment. */
int64_t failure_max_ns(enum err_code code);

/** The wait in an outage before the next attempt: the error's retry_after_ms, else 30 s. */
int64_t failure_outage_ns(const struct error *err);

/** Queues a key whose work has failed: for the end of the outage, for the time that the cloud
 * named, or for the next of the pauses that grow up to max_ns. Returns the delay; in an outage it
 * is retry_after_ms. */
int64_t failure_requeue(struct queue *, struct str key, const struct error *err, int64_t max_ns);

/** The pause of a loop that retries without a queue. The end of an outage ends the pause. */
struct failure_pause {
	pthread_mutex_t mu;
	pthread_cond_t changed;
	/* Read before an attempt: a release during the attempt ends the pause that follows. */
	_Atomic unsigned n_releases;
};

/** The pause is zeroed. */
void failure_pause_init(struct failure_pause *);
void failure_pause_fini(struct failure_pause *);
/** Sleeps for duration_ns, or until there were more releases than n_seen. False: ERR_CANCELLED. */
NODISCARD bool failure_pause_sleep(struct failure_pause *, struct call *call, unsigned n_seen,
                                   int64_t duration_ns, struct error *err);
void failure_pause_release(struct failure_pause *);

#endif
