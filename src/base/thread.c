/* base/thread.c: see thread.h. */
#include "base/thread.h"

#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/log.h"

/* Sanitizers make stack frames several times as large. */
#define STACK_SIZE (HAS_SANITIZER ? MIB(2) : KIB(256))

struct start {
	void *(*run)(void *);
	void *arg;
	char name[16];
};

static void *
begin(void *arg)
{
	struct start start = *(struct start *)arg;

	free(arg);
	/* The thread sets its own name: a short-lived thread could end before its creator sets it.
	 */
	(void)pthread_setname_np(pthread_self(), start.name);
	return start.run(start.arg);
}

int
thread_try_start(pthread_t *ret, const char *name, void *(*run)(void *), void *arg)
{
	struct start *start = xcalloc(1, sizeof(*start));
	pthread_attr_t attr;
	sigset_t all, before;
	int result;

	start->run = run;
	start->arg = arg;
	memcpy(start->name, name, strnlen(name, sizeof(start->name) - 1));
	/* The new thread inherits the mask, so that it never receives a signal. */
	sigfillset(&all);
	MUST(pthread_sigmask(SIG_SETMASK, &all, &before));
	MUST(pthread_attr_init(&attr));
	MUST(pthread_attr_setstacksize(&attr, STACK_SIZE));
	result = pthread_create(ret, &attr, begin, start);
	MUST(pthread_attr_destroy(&attr));
	MUST(pthread_sigmask(SIG_SETMASK, &before, NULL));
	if (result != 0)
		free(start);
	return result;
}

void
thread_start(pthread_t *ret, const char *name, void *(*run)(void *), void *arg)
{
	MUST(thread_try_start(ret, name, run, arg));
}

void
thread_join(pthread_t thread)
{
	MUST(pthread_join(thread, NULL));
}

void
cond_init(pthread_cond_t *c)
{
	pthread_condattr_t attr;

	MUST(pthread_condattr_init(&attr));
	MUST(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC));
	MUST(pthread_cond_init(c, &attr));
	MUST(pthread_condattr_destroy(&attr));
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
 * occupied: with 5,000 nodes, 0.3 of 8.3 MiB of anonymous memory (docs/dev/optimisation.md, "Where
 * memory goes"). No call empties the cache directly, but glibc releases the cache of a thread that
 * ends to the common heap. So as many blocks of every cached size as the cache can hold are
 * allocated, which malloc() serves from the cache first, and a short-lived thread frees them. */
static void
empty_cache(void)
{
	struct cached *taken = NULL;
	pthread_t thread;

	for (size_t size = CACHED_STEP + CACHED_STEP / 2; size <= CACHED_MOST;
	     size += CACHED_STEP) {
		for (int i = 0; i < CACHED_EACH; i++) {
			struct cached *block = malloc(size);

			if (!block)
				break;
			block->next = taken;
			taken = block;
		}
	}
	if (thread_try_start(&thread, "free", free_cached, taken) == 0)
		thread_join(thread);
	else
		free_cached(taken);
}

#endif

void
thread_trim(void)
{
#if defined(__GLIBC__) && !HAS_SANITIZER
	empty_cache();
#endif
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}
