/* base/watchdog.h: threads that say when they will be heard of next.
 *
 * A thread that works says by when it will have come up for air; one that waits for work promises
 * nothing. It counts as stuck WATCHDOG_TOLERANCE_NS past the moment it named itself. A cloud or an
 * API server that cannot be reached makes nobody stuck: requests have deadlines, and those are what
 * is promised.
 *
 * A process that was stopped (SIGSTOP, a frozen cgroup, a suspended machine) finds every promise
 * broken when it wakes: so watchdog_late() counts a promise only if it was already due at the
 * previous check, and checks are at least a second apart; those in between repeat the last answer.
 *
 * Threads: every function may be called from any thread. Telling takes no lock.
 */
#ifndef CCMD_BASE_WATCHDOG_H
#define CCMD_BASE_WATCHDOG_H

#include "base/clock.h"
#include "base/health.h"

#define WATCHDOG_TOLERANCE_NS (30 * NS_PER_SEC)
/** What a worker promises for one work item. Whatever waits in between, with a deadline, extends
 * it: requests, sleeps, programs that are run. */
#define WATCHDOG_WORK_NS (120 * NS_PER_SEC)

struct watchdog;

/** name: of the thread, a literal. */
struct watchdog *watchdog_new(const char *name);
/** NULL is fine, here and below. */
void watchdog_free(struct watchdog *);

/** I am heard of again by then. CLOCK_FOREVER: I wait for work. */
void watchdog_until(struct watchdog *, int64_t deadline_mono_ns);

/** The same for the calling thread, whose watchdog is made at the first call, named like the
 * thread, and ends with it. */
void watchdog_promise(int64_t deadline_mono_ns);
/** The calling thread is about to wait until then at most: its promise, if it made one, is as late
 * at least. */
void watchdog_extend(int64_t deadline_mono_ns);

/** Appends the names of those who are stuck, separated by ", ", and how late they are; true when
 * there are any. */
bool watchdog_late(struct clock *, struct buf *names);

/** The same as a check, "progress" by name; its argument is the struct clock. */
health_check watchdog_health;

#endif
