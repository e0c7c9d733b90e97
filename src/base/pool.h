/* base/pool.h: an allocator for long-lived blocks of similar sizes.
 *
 * It is meant for objects that are stored by the thousand and grow when they are replaced. With
 * malloc(), old and new objects are interleaved, and the old ones leave holes that are too small
 * for the new ones and free no page: with 5,000 nodes, 0.9 of 10 MiB of anonymous memory
 * (docs/dev/optimisation.md, "Where memory goes"). Here, blocks whose sizes differ by less than 16
 * bytes share chunks of 64 kB. An empty chunk is freed as a whole and can be reused for any block
 * size.
 *
 * Threads: every function may be called from any thread.
 */
#ifndef CCMD_BASE_POOL_H
#define CCMD_BASE_POOL_H

#include <pthread.h>
#include <sys/queue.h>

#include "base/macros.h"

#define POOL_STEP ((size_t)16)
#define POOL_LARGEST ((size_t)2048) /* larger blocks come from malloc() */

struct pool_chunk;

struct pool {
	pthread_mutex_t mu;
	LIST_HEAD(, pool_chunk) open[POOL_LARGEST / POOL_STEP]; /* mu; chunks with free blocks */
};

#define POOL_INIT { .mu = PTHREAD_MUTEX_INITIALIZER }

/** Returns uninitialised memory, aligned for pointers and int64_t; release it with pool_free(). */
NODISCARD void *pool_alloc(struct pool *pool, size_t size);
/** Releases the memory. NULL is allowed. */
void pool_free(struct pool *pool, void *memory);
/** Returns the bytes that a block occupies, including its header. */
size_t pool_bytes(const void *memory);

#endif
