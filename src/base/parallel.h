/* base/parallel.h: pieces of work that mostly wait for answers, on a few threads.
 *
 * Threads: any.
 */
#ifndef CCMD_BASE_PARALLEL_H
#define CCMD_BASE_PARALLEL_H

#include "base/call.h"

typedef void parallel_fn(void *arg, struct call *call, size_t i);

/** Calls work for the pieces first to end - 1 and waits for them. Each thread has an arena of its
 * own, which is reset after each piece. No piece is begun after the call was cancelled.
 *
 * @param name  of the threads, at most 15 bytes
 */
void parallel_run(const char *name, const struct call *call, size_t first, size_t end,
                  parallel_fn *work, void *arg);

#endif
