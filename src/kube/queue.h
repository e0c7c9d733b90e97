/* kube/queue.h: keys waiting to be reconciled, each at most once.
 * A key that is added while a worker has it is handed out again after queue_done(), so no key is
 * ever worked on by two workers. Failed keys return later: the delay doubles up to a maximum, plus
 * up to two fifths at random (base/backoff.h).
 *
 * Threads: every function may be called from any thread.
 */
#ifndef CCMD_KUBE_QUEUE_H
#define CCMD_KUBE_QUEUE_H

#include "base/clock.h"
#include "base/error.h"
#include "base/metrics.h"

struct queue; /* opaque */

#define QUEUE_FOREVER CLOCK_FOREVER

struct queue_config {
	const char *name;      /* label of the workqueue_* metrics */
	int64_t base_delay_ns; /* of the first failure */
	int64_t max_delay_ns;
	struct clock *clock;
};

struct queue *queue_new(const struct queue_config *config);
/** All keys that were handed out must be done. NULL is allowed. */
void queue_free(struct queue *);
DEFINE_CLEANUP(struct queue, queue_free)

/** Adds a key, which is copied. It is handed out as soon as a worker is free. A key that is in the
 * queue already is not added again. */
void queue_add(struct queue *q, struct str key);
/** Adds the key after a delay; of several delays the earliest end counts. queue_add() adds it
 * immediately nevertheless. */
void queue_add_after(struct queue *q, struct str key, int64_t delay_ns);
/** Counts a failure of the key, adds it after the delay for that number, and returns the delay. */
int64_t queue_add_failed(struct queue *q, struct str key,
                         int64_t max_delay_ns /* 0: the queue's */);
/** Adds the key after the delay, or soon after the next queue_release(): for keys that wait
 * together for the end of an outage. No failure is counted. If the queue was released while the
 * key was worked on, the key is added soon. */
void queue_park(struct queue *q, struct str key, int64_t delay_ns);
/** Adds all parked keys within two seconds, at random times. A key that is due sooner for another
 * reason stays so. */
void queue_release(struct queue *q);
/** Forgets the failures of a key: call after success. */
void queue_forget(struct queue *q, struct str key);

enum queue_state {
	QUEUE_IDLE,    /* the key is not in the queue, but may have failures */
	QUEUE_DELAYED, /* it is due later */
	QUEUE_WAITING, /* it waits for a worker */
	QUEUE_WORKING, /* a worker has it */
};

/** What the queue knows about a key. Times are relative to the call. */
struct queue_peek {
	enum queue_state state;
	unsigned n_failures;
	bool is_parked;    /* DELAYED: until then, or until the next queue_release() */
	int64_t due_in_ns; /* DELAYED; 0: it is due */
	int64_t for_ns;    /* WAITING, WORKING: since then */
	size_t n_before;   /* WAITING: keys that are handed out before this one */
};

/** Cost: O(n) under the lock for a key that is WAITING. */
struct queue_peek queue_peek(struct queue *q, struct str key);

/** Waits for a key and lends it until queue_done().
 *
 * @param deadline_ns  monotonic; QUEUE_FOREVER waits without end
 * @param ret          the key; owned by the queue, valid until queue_done()
 * @return  true with *ret set. On false, err->code is
 *          ERR_TIMEOUT    the deadline passed
 *          ERR_CANCELLED  the queue was shut down: leave the worker loop
 *
 * Cost: O(log n) under one lock; sleeps without spinning.
 */
NODISCARD bool queue_get(struct queue *q, int64_t deadline_ns, struct str *ret, struct error *err);

/** For the loop of a worker: waits without a deadline. A thread that becomes idle after a burst
 * returns free memory to the system. *n_busy must be 0 at first and belongs to this function. False
 * when the queue was shut down. */
NODISCARD bool queue_get_trimming(struct queue *q, unsigned *n_busy, struct str *ret);
/** Returns the key to the queue; it is handed out again if it was added in the meantime. */
void queue_done(struct queue *q, struct str key);

/** No more keys are handed out, and waiting workers return. */
void queue_shut_down(struct queue *q);
/** Waits until no key is being worked on, and none waits to be handed out now; false when the
 * deadline (mono) passed first. Keys that are due later do not count, nor do any after
 * queue_shut_down(). */
bool queue_wait_idle(struct queue *q, int64_t deadline_ns);

#endif
