/* base/pool.c: see pool.h.
 *
 * Each block is preceded by a pointer to its chunk, which is NULL for a block from malloc(). A free
 * block holds a pointer to the next free block of its chunk instead. The memory after the first
 * n_cut blocks was never touched, so a chunk with few blocks occupies few pages. Full chunks are
 * not on any list.
 *
 * Under ASan each block comes from malloc(), so that ASan detects uses after free.
 */
#include "base/pool.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/thread.h"

#define CHUNK_SIZE KIB(64)

struct block {
	union {
		struct pool_chunk *chunk; /* in use */
		struct block *next;       /* free */
	};
	char bytes[];
};

struct pool_chunk {
	LIST_ENTRY(pool_chunk) link; /* on pool.open while a block of the chunk is free */
	struct block *free;
	unsigned n_used, n_cut;
	unsigned class;
};

static size_t
size_of(unsigned class)
{
	return (class + 1) * POOL_STEP;
}

/* ---- chunks ---- */

static bool
is_full(const struct pool_chunk *chunk)
{
	return chunk->n_used == (CHUNK_SIZE - sizeof(*chunk)) / size_of(chunk->class);
}

/* ---- blocks ---- */

void *
pool_alloc(struct pool *p, size_t size)
{
	unsigned class = (unsigned)((sizeof(struct block) + size - 1) / POOL_STEP);
	struct pool_chunk *chunk;
	struct block *block;

	if (size > POOL_LARGEST - sizeof(*block) || HAS_ASAN) {
		block = xmalloc(sizeof(*block) + size);
		block->chunk = NULL;
		return block->bytes;
	}
	WITH_LOCK(&p->mu);
	chunk = LIST_FIRST(&p->open[class]);
	if (!chunk) {
		chunk = xmalloc(CHUNK_SIZE);
		*chunk = (struct pool_chunk){ .class = class };
		LIST_INSERT_HEAD(&p->open[class], chunk, link);
	}
	block = chunk->free;
	if (block)
		chunk->free = block->next;
	else
		block = (struct block *)((char *)(chunk + 1) + chunk->n_cut++ * size_of(class));
	chunk->n_used++;
	block->chunk = chunk;
	if (is_full(chunk))
		LIST_REMOVE(chunk, link);
	return block->bytes;
}

static struct block *
block_of(const void *memory)
{
	return (struct block *)((uintptr_t)memory - offsetof(struct block, bytes));
}

size_t
pool_bytes(const void *memory)
{
	struct block *block = block_of(memory);

	return block->chunk ? size_of(block->chunk->class) : malloc_usable_size(block);
}

void
pool_free(struct pool *p, void *memory)
{
	struct pool_chunk *chunk;
	struct block *block;

	if (!memory)
		return;
	block = block_of(memory);
	chunk = block->chunk;
	if (!chunk) {
		free(block);
		return;
	}
	WITH_LOCK(&p->mu);
	if (is_full(chunk))
		LIST_INSERT_HEAD(&p->open[chunk->class], chunk, link);
	block->next = chunk->free;
	chunk->free = block;
	if (--chunk->n_used > 0)
		return;
	LIST_REMOVE(chunk, link);
	free(chunk);
}
