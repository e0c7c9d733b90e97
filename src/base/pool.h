/* base/pool.h: blocks that live long, beside others of nearly their size.
 *
 * For objects stored by the thousand that grow as they are replaced: with malloc() old and new ones
 * lie in between each other, and the old ones leave holes that fit nothing and free no page. Here
 * blocks whose sizes differ by less than 16 bytes share chunks of 64 kB; a chunk goes back as a
 * whole, and the next one fits in its place whatever its blocks' size.
 *
 * Threads: any.
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
	LIST_HEAD(, pool_chunk) open[POOL_LARGEST / POOL_STEP]; /* mu; by size: with a free block */
};

#define POOL_INIT { .mu = PTHREAD_MUTEX_INITIALIZER }

/** Uninitialised memory, aligned for pointers and int64_t; give it back with pool_free(). */
NODISCARD void *pool_alloc(struct pool *pool, size_t size);
/** NULL is fine. */
void pool_free(struct pool *pool, void *memory);
/** The bytes that a block takes, with what is kept beside it. */
size_t pool_bytes(const void *memory);

#endif
