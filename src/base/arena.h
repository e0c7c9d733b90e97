/* base/arena.h: memory with one life time.
 *
 * A work item's parse trees, URLs and bodies come from its arena and go together with
 * arena_reset().
 * Threads: one thread at a time.
 */
#ifndef CCMD_BASE_ARENA_H
#define CCMD_BASE_ARENA_H

#include <stdarg.h>

#include "base/str.h"

struct arena_block;

struct arena {
	struct arena_block *block; /* newest first */
	size_t used;               /* bytes used of the newest block */
	size_t total;              /* bytes handed out since the last reset */
};

#define ARENA_INIT ((struct arena){ 0 })

/** Frees everything. For CLEANUP(arena_fini). */
void arena_fini(struct arena *a);
/** The same, and overwrites all of it first: for what held secrets. For CLEANUP(arena_wipe). */
void arena_wipe(struct arena *a);
/** Makes everything handed out invalid; keeps one small block for the next round (not under ASan,
 * which is to see who still uses what is gone). */
void arena_reset(struct arena *a);

/** Zeroed memory, aligned for any type. */
NODISCARD void *arena_alloc(struct arena *a, size_t size);
/** n * size, aborting on overflow. */
NODISCARD void *arena_calloc(struct arena *a, size_t n, size_t size);

/** A copy, terminated behind its end, so that ptr can serve as a C string. */
struct str arena_str(struct arena *a, struct str s);
char *arena_strz(struct arena *a, struct str s);
/** The same with its ASCII letters in lower case. */
struct str arena_lower(struct arena *a, struct str s);
struct str arena_printf(struct arena *a, const char *fmt, ...) PRINTF_LIKE(2, 3);

#define ARENA_NEW(arena, type) ((type *)arena_alloc((arena), sizeof(type)))

#endif
