/* kube/elector.h: one leader among the replicas, by a Lease (docs/spec/kube-client.md, "Claiming a
 * Lease").
 *
 * A thread with an HTTP client of its own, so that nothing else can delay a renewal. A good renewal
 * moves the fence to its *start* + lease duration - 1 s; what changes anything outside asks the
 * fence (base/fence.h). Others' leases are judged by our own clock only: from when we saw them
 * change, for the duration they publish; clocks may differ by hours. Elapsed time is
 * CLOCK_BOOTTIME: a suspended or stopped leader wakes as a former one.
 *
 * A lost lease ends the process: _exit(1) within 500 ms, without waiting for anyone, since another
 * may already act. main arms a CLOCK_BOOTTIME timer with what `renewed` tells it, for the case that
 * this thread does not get to run.
 *
 * What loses a lease: no good renewal within the renew deadline, or before the fence's; another
 * holder, or none; a Lease that was deleted; a Lease that is older than before: the API server's
 * data was restored from a backup, and a leader that continued would wait for events that never
 * come. Client-go creates a deleted Lease again and continues; we do not, since another leader may
 * have been active in between. And a deleted Lease does not void what it promised: who has seen its
 * holder waits until it would have ended.
 */
#ifndef CCMD_KUBE_ELECTOR_H
#define CCMD_KUBE_ELECTOR_H

#include "base/health.h"
#include "kube/client.h"
#include "kube/recorder.h"

struct elector;

struct elector_config {
	struct kube_client
		*kube; /* without a fence; a request takes at most max(1 s, renew deadline / 2) */
	struct clock *clock;
	struct fence *fence;       /* closed; the elector opens it */
	struct recorder *recorder; /* "became leader", "stopped leading" on the Lease; NULL: none */
	const char *namespace, *name; /* live as long as the process: name is a label of metrics */
	struct str identity;          /* HOST_UUID, new for each process; copied */
	int64_t lease_duration_ns;    /* published, and counted, in whole seconds */
	int64_t renew_deadline_ns, retry_period_ns;
	/** On the elector's thread: once, when we lead and the fence is open. Must not block. */
	void (*started)(void *arg);
	/** On the elector's thread, when the lease is lost and the fence is closed: ends the
	 * process. (In tests it may return; the thread ends then.) */
	void (*lost)(void *arg, const char *why);
	/** On the elector's thread, after each renewal: the fence's new deadline, to arm a timer
	 * with. May be NULL. */
	void (*renewed)(void *arg, int64_t deadline_boot_ns);
	void *arg;
};

/** All that is wrong with the timings, a line each, as flags; true when nothing is. As in
 * client-go: all positive, lease duration > renew deadline > 1.2 x retry period. And ours: the
 * whole seconds of the lease duration exceed the retry period by more than 1 s, since the fence
 * closes that much earlier. */
bool elector_validate(int64_t lease_duration_ns, int64_t renew_deadline_ns, int64_t retry_period_ns,
                      struct buf *problems);

/** Appends "HOSTNAME_RANDOM-UUID". */
void elector_identity(struct buf *b);

/** Starts the thread; tries at once. */
struct elector *elector_new(const struct elector_config *config);

/** Stops trying or renewing; after that nothing is lost any more. With release, and if we lead,
 * closes the fence and gives the lease back: only when all work has ended. Returns when that is
 * done, or after timeout_ms. Call once. */
void elector_stop(struct elector *, bool release, int64_t timeout_ms);
/** Stops without a release where that was not done, and waits for the thread. NULL is fine. */
void elector_free(struct elector *);

bool elector_is_leader(const struct elector *);
/** The holder as last seen, appended; nothing when unknown. */
void elector_holder(const struct elector *, struct buf *b);

/** Appends the resourceVersion that the Lease had when we became the leader; nothing before that.
 * All writes of the previous leader to the same etcd have a lower version. */
void elector_version(const struct elector *, struct buf *b);

/** Was the Lease free when we took it: released by its last holder, after all of its work had
 * ended, or not existing? False if we waited until the lease of another holder had expired, and
 * while we do not lead. */
bool elector_was_handed_over(const struct elector *);

/** A health_check, with the elector as its argument: fails only if we believe to lead and have not
 * renewed for the lease duration and 20 s. */
health_check elector_health;

#endif
