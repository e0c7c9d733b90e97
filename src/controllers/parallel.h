/* controllers/parallel.h: runs many pieces of work on a few threads, while the caller waits.
 *
 * For work that mostly waits for answers. Each thread has an arena of its own, which is reset after
 * each piece.
 */
#ifndef CCMD_CONTROLLERS_PARALLEL_H
#define CCMD_CONTROLLERS_PARALLEL_H

#include "base/call.h"

enum {
	PARALLEL_THREADS = 8,
};

typedef void parallel_work_fn(void *arg, struct call *call, size_t i);

/** Calls work for the pieces 0 to n - 1. No piece is begun after the call was cancelled. name: of
 * the threads. */
void parallel_do(const struct call *call, const char *name, size_t n, parallel_work_fn *work,
                 void *arg);

#endif
