/* base/cancel.h: "stop what you are doing", fired once.
 *
 * Whoever can block registers a hook that wakes it. Firing runs the hooks on the firing thread,
 * after the flag is up; they must not block, nor hook or unhook. A hook may take a lock; nobody may
 * hold that lock while hooking or unhooking. NULL instead of a token is one that never fires.
 *
 * Threads: every function may be called from any thread.
 */
#ifndef CCMD_BASE_CANCEL_H
#define CCMD_BASE_CANCEL_H

#include "base/clock.h"
#include "base/error.h"

struct cancel;

struct cancel *cancel_new(void);
/** Every hook must be gone. NULL is fine. */
void cancel_free(struct cancel *);
DEFINE_CLEANUP(struct cancel, cancel_free)

void cancel_fire(struct cancel *);
bool cancel_is_fired(const struct cancel *);

/** Runs fn(arg) when fired; at once, on this thread, if that has already happened. */
void cancel_hook(struct cancel *, void (*fn)(void *), void *arg);
/** After this returns the hook does not run any more. No effect when it is not there. */
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

/** Hooks until the end of the scope. Comes before the WITH_LOCK() of what the hook locks. */
#define WITH_HOOK(cancel, fn, arg) \
	CLEANUP(cancel_unhookp)    \
	UNUSED struct cancel_hooked hooked = cancel_hook_scoped(cancel, fn, arg)

/** Sleeps for duration_ns. False with ERR_CANCELLED in *err when fired before it passed. */
NODISCARD bool cancel_sleep(struct cancel *, struct clock *, int64_t duration_ns,
                            struct error *err);

#endif
