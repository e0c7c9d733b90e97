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
	/* log_write() works without heap memory: it builds the line on the stack. */
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
	/* The size is never zero: realloc() may free the memory then, and its NULL would look like
	 * a failure. */
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

/* ---- returning memory to the system ---- */

#if defined(__GLIBC__) && !HAS_SANITIZER

enum {
	CACHED_MOST = 1032, /* bytes of the largest block that glibc caches per thread */
	CACHED_STEP = 16,
	CACHED_EACH = 7,
};

struct cached {
	struct cached *next;
};

/* Allocates as many blocks of every cached size as the cache can hold. malloc() serves them from
 * the cache of the thread first, so the cache is empty afterwards. */
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

/* glibc caches some freed blocks of each small size for the thread that freed them, up to 200 kB,
 * for as long as the thread lives. These blocks lie between blocks in use and keep whole pages
 * occupied. No call empties the cache directly, but glibc releases the cache of a thread that ends
 * to the common heap. The cached blocks are therefore handed to a short-lived thread, which frees
 * them. */
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
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}
