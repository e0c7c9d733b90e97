/* controllers/node_errors.h: why the last attempt at some work on a node failed, for `ccmd
 * explain`.
 *
 * Only nodes whose last attempt failed have an entry: success removes it, as does the end of the
 * node. At most LIMIT_NODE_ERRORS entries are stored. When there are more, the one that failed
 * longest ago is dropped.
 *
 * Threads: any.
 */
#ifndef CCMD_CONTROLLERS_NODE_ERRORS_H
#define CCMD_CONTROLLERS_NODE_ERRORS_H

#include <pthread.h>
#include <sys/queue.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/map.h"

enum node_work {
	NODE_WORK_SYNC,      /* initialisation, labels, and addresses that are known to differ */
	NODE_WORK_ADDRESSES, /* the periodic comparison of addresses */
	NODE_WORK_LIFECYCLE, /* looks, the shutdown taint, deletion */
	NODE_N_WORKS,
};

struct node_errors {
	struct clock *clock;
	pthread_mutex_t mu;
	struct map by_name[NODE_N_WORKS];      /* mu */
	TAILQ_HEAD(, stored_error) by_failure; /* mu; all of them, the oldest failure first */
	size_t n;                              /* mu */
};

void node_errors_init(struct node_errors *, struct clock *clock);
void node_errors_fini(struct node_errors *);

/** An attempt has failed. ERR_CANCELLED is not noted. Returns for how long all attempts have
 * failed; 0 for the first one.
 * @param name      of the node; empty: the attempt was for all nodes together
 * @param retry_ns  from now to the next attempt; CLOCK_FOREVER: a queue, or the deletion guard,
 *                  knows that
 */
int64_t node_errors_note(struct node_errors *, enum node_work work, struct str name,
                         const struct error *err, int64_t retry_ns);
/** An attempt was successful. */
void node_errors_clear(struct node_errors *, enum node_work work, struct str name);
/** The node is gone. */
void node_errors_forget(struct node_errors *, struct str name);

/** Times are relative to the call. */
struct node_error {
	struct str text; /* at most LIMIT_NODE_ERROR bytes */
	int64_t failed_ago_ns;
	int64_t retry_in_ns; /* 0: it is due; CLOCK_FOREVER: as in node_errors_note() */
};

/** The failure for this node, else that for all nodes together. False: there is none. */
bool node_errors_get(struct node_errors *, enum node_work work, struct str name,
                     struct arena *arena, struct node_error *ret);

#endif
