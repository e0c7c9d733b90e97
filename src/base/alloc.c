/* base/alloc.c: see alloc.h. */
#include "base/alloc.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/thread.h"

void
alloc_fail(size_t n, size_t size)
{
	/* log_write() needs no memory beyond the stack */
	log_error("out of memory", LOG_I64("count", (int64_t)n),
	          LOG_I64("size_bytes", (int64_t)size));
	abort();
}

void *
xcalloc(size_t n, size_t size)
{
	void *memory = calloc(n ? n : 1, size ? size : 1);

	if (!memory)
		alloc_fail(n, size);
	return memory;
}

void *
xmalloc(size_t size)
{
	void *memory = malloc(size ? size : 1);

	if (!memory)
		alloc_fail(1, size);
	return memory;
}

void *
xreallocarray(void *ptr, size_t n, size_t size)
{
	/* never zero bytes: realloc() may free then, and NULL would look like a failure */
	void *memory = reallocarray(ptr, n ? n : 1, size ? size : 1);

	if (!memory)
		alloc_fail(n, size);
	return memory;
}

char *
xstrndup(const char *text, size_t len)
{
	char *copy = xmalloc(len + 1);

	if (len > 0)
		memcpy(copy, text, len);
	copy[len] = '\0';
	return copy;
}

char *
xstrdup(const char *text)
{
	return xstrndup(text, strlen(text));
}

/* ---- giving back ---- */

#if defined(__GLIBC__) && !HAS_SANITIZER

enum {
	CACHED_MOST = 1032, /* bytes of the largest block that glibc keeps for a thread */
	CACHED_STEP = 16,
	CACHED_EACH = 7,
};

struct cached {
	struct cached *next;
};

/* Whatever the size, all that the thread has of it, or as much again from elsewhere. */
static struct cached *
take_cached(void)
{
	struct cached *taken = NULL;

	for (size_t size = CACHED_STEP + CACHED_STEP / 2; size <= CACHED_MOST;
	     size += CACHED_STEP) {
		for (int i = 0; i < CACHED_EACH; i++) {
			struct cached *block = malloc(size);

			if (!block)
				return taken;
			block->next = taken;
			taken = block;
		}
	}
	return taken;
}

static void *
free_cached(void *arg)
{
	struct cached *block = arg;

	while (block) {
		struct cached *next = block->next;

		free(block);
		block = next;
	}
	return NULL;
}

/* glibc keeps some freed blocks of each small size for the thread that freed them, up to 200 kB,
 * and for as long as that thread lives, however little it does. There they lie between others and
 * hold on to whole pages. No call lets go of them, but the end of a thread does: what it has kept
 * goes back to all. */
static void
empty_cache(void)
{
	struct cached *taken = take_cached();
	pthread_t thread;

	if (thread_try_start(&thread, "free", free_cached, taken))
		thread_join(thread);
	else
		free_cached(taken);
}

#else

static void
empty_cache(void)
{
}

#endif

void
alloc_trim(void)
{
	empty_cache();
	malloc_trim(0);
}
