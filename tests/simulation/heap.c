/* tests/simulation/heap.c: see heap.h.
 *
 * Sizes are rounded up to one of a few, each with a list of unused blocks. What is allocated behind
 * all former blocks has not been used before. */
#include "heap.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "replica.h"

#define HEAP_SIZE ((size_t)1 << 30) /* of addresses; only what is used takes memory */
#define STEP ((size_t)16)
/* Up to this size, classes differ by STEP; above it there are four for each power of two. */
#define SMALL ((size_t)1 << 10)
#define IS_FREE SIZE_MAX

enum {
	SMALL_BITS = 10,
	N_SMALL = 64,
	N_CLASSES = N_SMALL + 4 * 20,
};

struct block {
	size_t size; /* IS_FREE: the block is unused */
	struct block *next;
	char bytes[];
};

static struct {
	size_t used;
	struct block *unused[N_CLASSES];
} heaps[N_REPLICAS];

static char *memory;

static void
stop(const char *what)
{
	(void)fprintf(stderr, "simulate: heap: %s\n", what);
	abort();
}

void
heap_start(unsigned heap)
{
	if (!memory) {
		memory = mmap(NULL, N_REPLICAS * HEAP_SIZE, PROT_READ | PROT_WRITE,
		              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (memory == MAP_FAILED)
			stop("no memory");
	}
	heaps[heap].used = 0;
	for (size_t i = 0; i < N_CLASSES; i++)
		heaps[heap].unused[i] = NULL;
}

/* Also returns the size to which this one is rounded up. */
static size_t
class_of(size_t size, size_t *ret_size)
{
	unsigned bits;
	size_t quarter, n;

	if (size <= SMALL) {
		n = size > 0 ? (size - 1) / STEP : 0;
		*ret_size = (n + 1) * STEP;
		return n;
	}
	bits = 63 - (unsigned)__builtin_clzl(size - 1); /* 2^bits < size <= 2^(bits + 1) */
	quarter = (size_t)1 << (bits - 2);
	n = (size - 1 - ((size_t)1 << bits)) / quarter;
	*ret_size = ((size_t)1 << bits) + (n + 1) * quarter;
	return N_SMALL + 4 * (bits - SMALL_BITS) + n;
}

static struct block *
block_of(const void *bytes)
{
	return (struct block *)((char *)(uintptr_t)bytes - offsetof(struct block, bytes));
}

void *
heap_alloc(unsigned heap, size_t size)
{
	size_t rounded, class;
	struct block *b;

	if (size > HEAP_SIZE / 2)
		return NULL;
	class = class_of(size, &rounded);
	b = heaps[heap].unused[class];
	if (b) {
		heaps[heap].unused[class] = b->next;
	} else {
		if (heaps[heap].used + sizeof(*b) + rounded > HEAP_SIZE)
			return NULL;
		b = (struct block *)(memory + heap * HEAP_SIZE + heaps[heap].used);
		heaps[heap].used += sizeof(*b) + rounded;
	}
	b->size = size;
	return b->bytes;
}

bool
heap_has(const void *block)
{
	return memory && (uintptr_t)block - (uintptr_t)memory < N_REPLICAS * HEAP_SIZE;
}

size_t
heap_size(const void *block)
{
	size_t size = block_of(block)->size;

	if (size == IS_FREE)
		stop("a block is used after it was freed");
	return size;
}

void
heap_free(void *block)
{
	struct block *b = block_of(block);
	size_t rounded, class = class_of(heap_size(block), &rounded);
	size_t heap = (size_t)((char *)b - memory) / HEAP_SIZE;

	b->size = IS_FREE;
	b->next = heaps[heap].unused[class];
	heaps[heap].unused[class] = b;
}

bool
heap_resize(void *block, size_t size)
{
	size_t before, after;

	if (class_of(heap_size(block), &before) != class_of(size, &after))
		return false;
	block_of(block)->size = size;
	return true;
}

size_t
heap_most(unsigned heap)
{
	return heaps[heap].used;
}
