/* base/thread.c: see thread.h. */
#include "base/thread.h"

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

static int
create(pthread_t *ret, struct start *start)
{
	pthread_attr_t attr;
	int result;

	MUST(pthread_attr_init(&attr));
	MUST(pthread_attr_setstacksize(&attr, STACK_SIZE));
	result = pthread_create(ret, &attr, begin, start);
	MUST(pthread_attr_destroy(&attr));
	return result;
}

static int
try_start(pthread_t *ret, const char *name, void *(*run)(void *), void *arg)
{
	struct start *start = xcalloc(1, sizeof(*start));
	sigset_t all, before;
	int result;

	start->run = run;
	start->arg = arg;
	memcpy(start->name, name, strnlen(name, sizeof(start->name) - 1));
	/* The new thread inherits the mask, so that it never receives a signal. */
	sigfillset(&all);
	MUST(pthread_sigmask(SIG_SETMASK, &all, &before));
	result = create(ret, start);
	MUST(pthread_sigmask(SIG_SETMASK, &before, NULL));
	if (result != 0)
		free(start);
	return result;
}

void
thread_start(pthread_t *ret, const char *name, void *(*run)(void *), void *arg)
{
	MUST(try_start(ret, name, run, arg));
}

bool
thread_try_start(pthread_t *ret, const char *name, void *(*run)(void *), void *arg)
{
	return try_start(ret, name, run, arg) == 0;
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
