/* controllers/parallel.h: many pieces of work on a few threads, while the caller waits.
 *
 * For work that is mostly waiting for answers. Each thread has an arena of its own, emptied after each piece.
 */
#ifndef CCMD_CONTROLLERS_PARALLEL_H
#define CCMD_CONTROLLERS_PARALLEL_H

#include "base/call.h"

enum {
	PARALLEL_THREADS = 8,
};

typedef void parallel_work_fn(void *arg, struct call *call, size_t i);

/** Does the pieces 0 to n - 1. Once the call is cancelled no further piece is begun. name is the threads'. */
void parallel_do(const struct call *call, const char *name, size_t n, parallel_work_fn *work,
                 void *arg);

#endif
