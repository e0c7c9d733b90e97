/* kube/elector.h: one leader among the replicas, by a Lease (docs/spec/kube-client.md, "Claiming a
 * Lease").
 * The elector has a thread and an HTTP client of its own, so that no other request can delay a
 * renewal. A good renewal moves the fence to its *start* + lease duration - 1 s; every action that
 * changes something outside asks the fence first (base/fence.h). The lease of another holder is
 * measured only on our own clock, from when we saw it change, because clocks may differ by hours:
 * for the duration it publishes, but at most for 5 min or twice our own, whichever is longer.
 * Elapsed time is CLOCK_BOOTTIME, so a process that was suspended or stopped knows afterwards that
 * its lease is over.
 *
 * A lost lease ends the process: _exit(1) within 500 ms, without waiting for other threads, because
 * another leader may already be active. main arms a CLOCK_BOOTTIME timer with the deadline passed
 * to `renewed`, in case this thread does not get to run.
 *
 * A lease is lost when
 * - it was not renewed within the renew deadline, or before the fence closes;
 * - it has another holder, or none;
 * - it was deleted: client-go creates it again and continues, but another leader may have been
 * active in between;
 * - its version is older than before: the API server's data was restored from a backup, and a
 * leader that continued would wait for events that never come.
 *
 * A replica that has seen the holder of a deleted Lease waits until that lease would have ended, by
 * the same bounds, before it takes over.
 */
#ifndef CCMD_KUBE_ELECTOR_H
#define CCMD_KUBE_ELECTOR_H

#include "base/health.h"
#include "base/limits.h"
#include "kube/client.h"
#include "kube/recorder.h"

struct elector;

struct elector_config {
	struct kube_client *kube; /* without a fence */
	struct clock *clock;
	struct fence *fence;       /* closed; the elector opens it */
	struct recorder *recorder; /* for the events of the Lease; NULL: none */
	const char *namespace,
		*name;             /* must live as long as the process: name is a metrics label */
	struct str identity;       /* HOST_UUID, new for each process; copied */
	int64_t lease_duration_ns; /* published, and counted, in whole seconds */
	int64_t renew_deadline_ns, retry_period_ns;
	/** Called once on the elector's thread, when we lead and the fence is open. Must not block.
	 */
	void (*started)(void *arg);
	/** Called on the elector's thread, when the lease is lost and the fence is closed. It ends
	 * the process; in tests it may return, and the thread ends. */
	void (*lost)(void *arg, const char *why);
	/** Called on the elector's thread after each renewal, with the fence's new deadline. May be
	 * NULL. */
	void (*renewed)(void *arg, int64_t deadline_boot_ns);
	void *arg;
};

/** Checks the timings: appends a line for each problem, which names the flag, and returns true if
 * there is none. As in client-go, all are positive, and lease duration > renew deadline > 1.2 x
 * retry period. In addition the lease duration, in whole seconds, exceeds the retry period by more
 * than 1 s, because the fence closes that much earlier. */
bool elector_validate(int64_t lease_duration_ns, int64_t renew_deadline_ns, int64_t retry_period_ns,
                      struct buf *problems);

/** How long a replica waits for a holder that does not renew the Lease: for the duration that the
 * holder published, or own_ns if it published none, but for no longer than 5 minutes, or twice
 * own_ns if that is longer. */
int64_t elector_wait_ns(int64_t own_ns, int64_t published_s);

/** Appends "HOSTNAME_RANDOM-UUID". */
void elector_identity(struct buf *b);

/** Starts the thread, which tries to take the Lease immediately. */
struct elector *elector_new(const struct elector_config *config);

/** Stops trying and renewing; `lost` is not called after that. With release, and if we lead, the
 * fence is closed and the lease is given back; all work must have ended. Returns when that is done,
 * or after timeout_ms. Call once. */
void elector_stop(struct elector *, bool release, int64_t timeout_ms);
/** Stops without a release if elector_stop() was not called, waits for the thread and frees the
 * elector. NULL is allowed. */
void elector_free(struct elector *);

struct elector_term {
	bool is_leader;
	/* We lead with a Lease that was free when we took it: it did not exist, or its last holder
	 * had released it, which happens only after all of the holder's work has ended. False if we
	 * waited until the lease of another holder had expired. */
	bool was_handed_over;
	/* the resourceVersion that the Lease had when we became the leader; "" before that. All
	 * writes of the previous leader to the same etcd have a lower version. */
	char version[LIMIT_NAME + 1];
};

struct elector_term elector_term(const struct elector *);

/** A health_check with the elector as its argument. It fails only if this process counts as the
 * leader but has not renewed for the lease duration and 20 s. */
health_check elector_health;

#endif
