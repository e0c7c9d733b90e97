/* base/fence.c: see fence.h. */
#include "base/fence.h"

#include <math.h>

#include "base/metrics.h"
#include "base/thread.h"

METRIC_FAMILY(
	remaining, METRIC_GAUGE, "ccmd_fence_remaining_seconds",
	"[ALPHA] How long this process may continue to change the cluster and the cloud if its lease is not renewed; 0: not the leader; +Inf: without leader election. The label names the Lease, and is \"none\" without election.",
	.labels = { "lease" });

void
fence_renew(struct fence *f, int64_t deadline_boot_ns)
{
	atomic_store(&f->deadline_boot_ns, deadline_boot_ns);
}

int64_t
fence_remaining_ns(struct fence *f, struct clock *clock)
{
	if (!f)
		return CLOCK_FOREVER;
	return clock_left(clock_boot(clock), atomic_load(&f->deadline_boot_ns));
}

/* The first change that a read-only process was about to make. */
static struct {
	pthread_mutex_t mu;
	bool is_set;        /* mu */
	struct error error; /* mu; if is_set */
} refused = { .mu = PTHREAD_MUTEX_INITIALIZER };

void
fence_note_refused(struct str what)
{
	WITH_LOCK(&refused.mu);

	if (refused.is_set)
		return;
	refused.is_set = true;
	err_set(&refused.error, ERR_INTERNAL,
	        "ccmd was about to make a change that it should only have noted: %" STR_FMT
	        ". Nothing was changed, but the result is not complete. Please report this bug",
	        STR_ARG(str_head(what, 200)));
}

bool
fence_find_refused(struct error *ret)
{
	WITH_LOCK(&refused.mu);

	if (refused.is_set)
		*ret = refused.error;
	return refused.is_set;
}

bool
fence_check(struct fence *f, struct clock *clock, struct error *err)
{
	if (f && atomic_load(&f->deadline_boot_ns) == FENCE_READ_ONLY.deadline_boot_ns) {
		fence_note_refused(STR("a hook or a write of a file"));
		return err_set(err, ERR_FORBIDDEN,
		               "not done, because this process changes nothing");
	}
	if (fence_remaining_ns(f, clock) == 0)
		return err_set(err, ERR_CANCELLED, "no longer the leader");
	return true;
}

/* The fence that the metrics export. */
static struct {
	struct fence *fence;
	struct clock *clock;
	struct metric *remaining;
} shown;

static void
set_remaining(void *arg)
{
	int64_t ns = fence_remaining_ns(shown.fence, shown.clock);

	(void)arg;
	metric_set(shown.remaining, ns == CLOCK_FOREVER ? INFINITY : clock_seconds(ns));
}

void
fence_show(struct fence *f, struct clock *clock, const char *lease)
{
	shown.fence = f;
	shown.clock = clock;
	shown.remaining = metric_of(&remaining, lease);
	metrics_on_scrape(set_remaining, NULL);
}
