/* base/thread.h: threads, locks and condition variables whose misuse aborts.
 *
 * The wrapped pthread calls fail only through a bug in this program (an uninitialised mutex, a
 * mutex that another thread holds), so none of the wrappers returns a result.
 *
 * Threads: every function may be called from any thread.
 */
#ifndef CCMD_BASE_THREAD_H
#define CCMD_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/macros.h"

/** Starts a thread with a 256 KiB stack, all signals blocked and a name of at most 15 bytes, which
 * `ps -L` and `top -H` show. Aborts when the system cannot create more threads. */
void thread_start(pthread_t *ret, const char *name, void *(*run)(void *), void *arg);
/** The same for threads that the program can do without. Returns 0, or the error number when the
 * system cannot create more threads. */
NODISCARD int thread_try_start(pthread_t *ret, const char *name, void *(*run)(void *), void *arg);
void thread_join(pthread_t thread);

/** Returns free memory to the system, including the blocks that the C library caches for the
 * calling thread. It is meant for a thread that has finished a large piece of work and becomes
 * idle: the call takes about a millisecond. */
void thread_trim(void);

static inline void
mutex_init(pthread_mutex_t *m)
{
	MUST(pthread_mutex_init(m, NULL));
}

static inline void
mutex_destroy(pthread_mutex_t *m)
{
	MUST(pthread_mutex_destroy(m));
}

static inline void
mutex_lock(pthread_mutex_t *m)
{
	MUST(pthread_mutex_lock(m));
}

static inline void
mutex_unlock(pthread_mutex_t *m)
{
	MUST(pthread_mutex_unlock(m));
}

/** A condition variable that waits on CLOCK_MONOTONIC; wait on it through clock_wait(). */
void cond_init(pthread_cond_t *c);

static inline void
cond_destroy(pthread_cond_t *c)
{
	MUST(pthread_cond_destroy(c));
}

static inline void
cond_signal(pthread_cond_t *c)
{
	MUST(pthread_cond_signal(c));
}

static inline void
cond_broadcast(pthread_cond_t *c)
{
	MUST(pthread_cond_broadcast(c));
}

static inline pthread_mutex_t *
mutex_lock_scoped(pthread_mutex_t *m)
{
	mutex_lock(m);
	return m;
}

static inline void
mutex_unlockp(pthread_mutex_t **m)
{
	mutex_unlock(*m);
}

/** Holds the mutex until the end of the scope. */
#define WITH_LOCK(mutex) WITH_LOCK_NAMED(mutex, __LINE__)
#define WITH_LOCK_NAMED(mutex, id) WITH_LOCK_NAMED_(mutex, id)
#define WITH_LOCK_NAMED_(mutex, id) \
	CLEANUP(mutex_unlockp) UNUSED pthread_mutex_t *locked_##id = mutex_lock_scoped(mutex)

#endif
