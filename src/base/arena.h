/* base/arena.h: memory for many small objects that are released together.
 *
 * The parse trees, URLs and bodies of a work item are allocated from its arena and become invalid
 * together with arena_reset(). Single objects are never freed. Allocation aborts when memory runs
 * out, like base/alloc.h.
 *
 * Threads: an arena is used by one thread at a time; it has no lock.
 */
#ifndef CCMD_BASE_ARENA_H
#define CCMD_BASE_ARENA_H

#include <stdarg.h>

#include "base/str.h"

struct arena_block;

struct arena {
	struct arena_block *block; /* newest first */
	size_t used;               /* bytes used in the newest block */
	size_t total;              /* bytes handed out since the last reset */
};

#define ARENA_INIT ((struct arena){ 0 })

/** Frees everything. For CLEANUP(arena_fini). */
void arena_fini(struct arena *a);
/** Overwrites all memory, then frees it like arena_fini(): for arenas that held secrets. For
 * CLEANUP(arena_wipe). */
void arena_wipe(struct arena *a);
/** Invalidates everything that was allocated. One small block is kept for the next work item,
 * except under ASan, which can then report uses of invalid memory. */
void arena_reset(struct arena *a);

/** Returns zeroed memory, aligned for any type. */
NODISCARD void *arena_alloc(struct arena *a, size_t size);
/** Returns n * size bytes like arena_alloc(); aborts when the product overflows. */
NODISCARD void *arena_calloc(struct arena *a, size_t n, size_t size);

/** Returns a copy of s. A terminator follows its last byte, so ptr can be used as a C string. */
struct str arena_str(struct arena *a, struct str s);
char *arena_strz(struct arena *a, struct str s);
/** Returns a copy of s with its ASCII letters in lower case. */
struct str arena_lower(struct arena *a, struct str s);
struct str arena_printf(struct arena *a, const char *fmt, ...) PRINTF_LIKE(2, 3);

#define ARENA_NEW(arena, type) ((type *)arena_alloc((arena), sizeof(type)))

#endif
