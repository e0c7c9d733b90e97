/* controllers/settling.h: which loops of the controllers have ended their first run.
 *
 * `ccmd plan` waits until every controller has handled all objects once. A controller with a queue
 * has done so when the queue is idle (queue_wait_idle()). The loops without a queue are noted here.
 * A first run that failed has ended as well.
 *
 * Threads: any.
 */
#ifndef CCMD_CONTROLLERS_SETTLING_H
#define CCMD_CONTROLLERS_SETTLING_H

#include "base/clock.h"
#include "base/error.h"

enum settling_part {
	SETTLING_ADDRESSES =
		1, /* the addresses of all nodes were compared, and nodes to change queued */
	SETTLING_LIFECYCLE = 2, /* all nodes that are not Ready were checked */
	SETTLING_ADOPTION = 4,  /* the provider was asked to adopt existing balancers */
	SETTLING_ROUTES = 8,    /* all routes, and the conditions of nodes, were compared */
};

struct settling;

struct settling *settling_new(struct clock *clock);
void settling_free(struct settling *); /* NULL is fine */

/** Notes that the first run of this part has ended. Later calls have no effect. NULL is fine. */
void settling_note(struct settling *, enum settling_part part);
/** Waits for the first runs of all these parts (a union of enum settling_part) until the deadline
 * (mono). Fails with ERR_TIMEOUT. */
NODISCARD bool settling_wait(struct settling *, unsigned parts, int64_t deadline_ns,
                             struct error *err);

#endif
