/* base/watchdog.h: detects threads that are stuck.
 *
 * A working thread promises a time by which it will report again; a thread that waits for work
 * promises nothing. A thread counts as stuck WATCHDOG_TOLERANCE_NS after the promised time. An
 * unreachable cloud or API server makes no thread stuck: requests have deadlines, and the promises
 * include these.
 *
 * After a pause of the whole process (SIGSTOP, a frozen cgroup, a suspended machine) every promise
 * is overdue. watchdog_late() therefore counts a promise only if it was already overdue at the
 * previous check. Checks are at least a second apart; a call in between repeats the last result.
 *
 * Threads: every function may be called from any thread. Reporting takes no lock, except at the
 * first watchdog_promise() of a thread.
 */
#ifndef CCMD_BASE_WATCHDOG_H
#define CCMD_BASE_WATCHDOG_H

#include "base/clock.h"
#include "base/health.h"

#define WATCHDOG_TOLERANCE_NS (30 * NS_PER_SEC)
/** The promise of a worker for one work item. Every wait with a deadline (requests, sleeps, child
 * processes) extends it. */
#define WATCHDOG_WORK_NS (120 * NS_PER_SEC)

struct watchdog;

/** Creates a watchdog; name is the name of the thread. */
struct watchdog *watchdog_new(const char *name);
/** NULL is allowed, here and below. */
void watchdog_free(struct watchdog *);

/** Promises that the thread reports again by then. CLOCK_FOREVER: it waits for work. */
void watchdog_until(struct watchdog *, int64_t deadline_mono_ns);

/** Makes a promise for the calling thread. The first call creates its watchdog, with the name of
 * the thread; the watchdog is freed when the thread ends. */
void watchdog_promise(int64_t deadline_mono_ns);
/** Reports that the calling thread is about to wait until this deadline at most: its promise, if it
 * made one, is extended to that time. */
void watchdog_extend(int64_t deadline_mono_ns);

/** Appends the names of the stuck threads, separated by ", ", and how late they are. Returns true
 * when a thread is stuck. */
bool watchdog_late(struct clock *, struct buf *names);

/** Runs watchdog_late() as a health check, named "progress"; its argument is the struct clock. */
health_check watchdog_health;

#endif
