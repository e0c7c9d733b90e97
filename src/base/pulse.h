/* base/pulse.h: threads that say when they will be heard of next.
 *
 * A thread that works says by when it will have come up for air; one that waits for work promises
 * nothing. It counts as stuck PULSE_TOLERANCE_NS past the moment it named itself. A cloud or an API
 * server that cannot be reached makes nobody stuck: requests have deadlines, and those are what is
 * promised.
 *
 * A process that was stopped (SIGSTOP, a frozen cgroup, a suspended machine) finds every promise
 * broken when it wakes: so pulse_late() judges a promise only if it was already due at the previous
 * check, and checks are at least a second apart; those in between repeat the last answer.
 *
 * Threads: every function may be called from any thread. Telling takes no lock.
 */
#ifndef CCMD_BASE_PULSE_H
#define CCMD_BASE_PULSE_H

#include "base/clock.h"
#include "base/health.h"

#define PULSE_TOLERANCE_NS (30 * NS_PER_SEC)
/** What a worker promises for one work item. Whatever waits in between, with a deadline, extends
 * it: requests, sleeps, programs that are run. */
#define PULSE_WORK_NS (120 * NS_PER_SEC)

struct pulse;

/** name: of the thread, a literal. */
struct pulse *pulse_new(const char *name);
/** NULL is fine, here and below. */
void pulse_free(struct pulse *);

/** I am heard of again by then. CLOCK_FOREVER: I wait for work. */
void pulse_until(struct pulse *, int64_t deadline_mono_ns);

/** The same for the calling thread, whose pulse is made at the first call, named like the thread,
 * and ends with it. */
void pulse_promise(int64_t deadline_mono_ns);
/** The calling thread is about to wait until then at most: its promise, if it made one, is as late
 * at least. */
void pulse_extend(int64_t deadline_mono_ns);

/** Appends the names of those who are stuck, separated by ", ", and how late they are; true when
 * there are any. */
bool pulse_late(struct clock *, struct buf *names);

/** The same as a check, "progress" by name; its argument is the struct clock. */
health_check pulse_health;

#endif
