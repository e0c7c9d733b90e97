/* base/arena.c: see arena.h.
 *
 * Block sizes double from 4 KiB to 64 KiB; a larger allocation gets a block of its own size. Most
 * work items fit into the first block. arena_reset() keeps that block, so an idle worker holds 4
 * KiB and a busy worker seldom calls malloc(). Texts are not aligned: an inventory keeps four short
 * texts per machine, and padding would cost more than the texts.
 */
#include "base/arena.h"

#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"

#define BLOCK_FIRST KIB(4)
#define BLOCK_MAX KIB(64)

struct arena_block {
	struct arena_block *older;
	size_t cap;
	alignas(max_align_t) char bytes[];
};

static void
free_newest(struct arena *a)
{
	struct arena_block *older = a->block->older;

	free(a->block);
	a->block = older;
}

void
arena_fini(struct arena *a)
{
	while (a->block)
		free_newest(a);
	*a = ARENA_INIT;
}

void
arena_wipe(struct arena *a)
{
	for (struct arena_block *block = a->block; block; block = block->older)
		explicit_bzero(block->bytes, block->cap);
	arena_fini(a);
}

void
arena_reset(struct arena *a)
{
	/* ASan reports uses after the reset if no block is kept */
	while (a->block && (HAS_ASAN || a->block->older || a->block->cap != BLOCK_FIRST))
		free_newest(a);
	a->used = 0;
	a->total = 0;
}

static size_t
aligned(size_t size)
{
	size_t mask = alignof(max_align_t) - 1;

	return (size + mask) & ~mask;
}

/* The memory is not zeroed. The size must not be 0. */
static void *
take(struct arena *a, size_t size)
{
	void *memory;

	if (size > PTRDIFF_MAX - sizeof(struct arena_block) - alignof(max_align_t))
		alloc_fail(1, size);
	if (!a->block || size > a->block->cap - a->used) {
		size_t cap = a->block ? a->block->cap * 2 : BLOCK_FIRST;
		struct arena_block *block;

		if (cap > BLOCK_MAX)
			cap = BLOCK_MAX;
		if (cap < size)
			cap = size;
		cap = aligned(cap);
		block = xmalloc(sizeof(*block) + cap);
		block->older = a->block;
		block->cap = cap;
		a->block = block;
		a->used = 0;
	}
	memory = a->block->bytes + a->used;
	a->used += size;
	a->total += size;
	return memory;
}

void *
arena_alloc(struct arena *a, size_t size)
{
	if (size == 0)
		size = 1;
	/* This stays within the block, because the block size is aligned too. */
	a->used = aligned(a->used);
	return memset(take(a, size), 0, size);
}

void *
arena_calloc(struct arena *a, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes))
		alloc_fail(n, size);
	return arena_alloc(a, bytes);
}

char *
arena_strz(struct arena *a, struct str s)
{
	char *copy = take(a, s.len + 1);

	if (s.len > 0)
		memcpy(copy, s.ptr, s.len);
	copy[s.len] = '\0';
	return copy;
}

struct str
arena_str(struct arena *a, struct str s)
{
	return (struct str){ arena_strz(a, s), s.len };
}

struct str
arena_lower(struct arena *a, struct str s)
{
	char *copy = arena_strz(a, s);

	for (size_t i = 0; i < s.len; i++) {
		if (copy[i] >= 'A' && copy[i] <= 'Z')
			copy[i] = (char)(copy[i] - 'A' + 'a');
	}
	return str_n(copy, s.len);
}

struct str
arena_printf(struct arena *a, const char *fmt, ...)
{
	size_t room = a->block ? a->block->cap - a->used : 0;
	va_list args;
	char *text;
	int len;

	va_start(args, fmt);
	len = vsnprintf(room > 0 ? a->block->bytes + a->used : NULL, room, fmt, args);
	va_end(args);
	if (len < 0)
		return STR_EMPTY;
	text = take(a, (size_t)len + 1);
	if ((size_t)len < room)
		return (struct str){ text, (size_t)len };
	va_start(args, fmt);
	(void)vsnprintf(text, (size_t)len + 1, fmt, args);
	va_end(args);
	return (struct str){ text, (size_t)len };
}
