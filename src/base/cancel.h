/* base/cancel.h: a cancellation token, fired at most once.
 *
 * A thread that blocks registers a hook that wakes it. cancel_fire() sets the flag first and then
 * runs the hooks on the firing thread, so that a woken thread sees the flag. Hooks run under the
 * lock of the token: they must not block, and must not add or remove hooks. A hook may take another
 * lock; a thread that holds that lock must not add or remove hooks, because the two locks would be
 * taken in both orders. Wherever a token is optional, NULL stands for a token that never fires.
 *
 * Threads: every function may be called from any thread.
 */
#ifndef CCMD_BASE_CANCEL_H
#define CCMD_BASE_CANCEL_H

#include "base/clock.h"
#include "base/error.h"

struct cancel;

struct cancel *cancel_new(void);
/** All hooks must have been removed. NULL is allowed. */
void cancel_free(struct cancel *);
DEFINE_CLEANUP(struct cancel, cancel_free)

void cancel_fire(struct cancel *);
bool cancel_is_fired(const struct cancel *);

/** Runs fn(arg) when the token fires. If it has fired already, fn(arg) runs immediately, on the
 * calling thread. */
void cancel_hook(struct cancel *, void (*fn)(void *), void *arg);
/** Removes a hook. When this returns, the hook is not running and will not run. Has no effect when
 * the hook is not registered. */
void cancel_unhook(struct cancel *, void (*fn)(void *), void *arg);

struct cancel_hooked {
	struct cancel *cancel;
	void (*fn)(void *);
	void *arg;
};

static inline struct cancel_hooked
cancel_hook_scoped(struct cancel *cancel, void (*fn)(void *), void *arg)
{
	cancel_hook(cancel, fn, arg);
	return (struct cancel_hooked){ cancel, fn, arg };
}

static inline void
cancel_unhookp(struct cancel_hooked *h)
{
	cancel_unhook(h->cancel, h->fn, h->arg);
}

/** Registers the hook until the end of the scope. It must precede the WITH_LOCK() of the mutex that
 * the hook locks: scopes end in reverse order, so the mutex is released before the hook is
 * removed. */
#define WITH_HOOK(cancel, fn, arg) \
	CLEANUP(cancel_unhookp)    \
	UNUSED struct cancel_hooked hooked = cancel_hook_scoped(cancel, fn, arg)

/** The threads that wait on a condition variable. */
struct cancel_waiters {
	pthread_mutex_t *mu;
	pthread_cond_t *cond;
};

/** The hook of WITH_WAKE(). */
void cancel_wake(void *waiters);

/** Wakes the threads that wait on cond when the token fires, until the end of the scope. Like
 * WITH_HOOK(), it must precede the WITH_LOCK() of mu. */
#define WITH_WAKE(cancel, mu, cond)                       \
	struct cancel_waiters waiters = { (mu), (cond) }; \
	WITH_HOOK(cancel, cancel_wake, &waiters)

/** Sleeps for duration_ns. Returns false with ERR_CANCELLED in *err when the token fires first. */
NODISCARD bool cancel_sleep(struct cancel *, struct clock *, int64_t duration_ns,
                            struct error *err);

#endif
