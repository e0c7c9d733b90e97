/* base/recent.c: see recent.h. */
#include "base/recent.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/thread.h"

#define SLOT_NS (RECENT_SLOT_S * NS_PER_SEC)

METRIC_FAMILY(
	recent_requests, METRIC_GAUGE, "ccmd_recent_requests",
	"[ALPHA] Attempts of requests in the last 5 minutes, by server (api_server, cloud) and result (ok; failed: no response, or a status of 400 or more).",
	.labels = { "server", "result" });

enum result {
	OK,
	FAILED,
	N_RESULTS,
};

static const char *const server_names[] = {
	[RECENT_API_SERVER] = "api_server", [RECENT_CLOUD] = "cloud"
};
static const char *const result_names[] = { [OK] = "ok", [FAILED] = "failed" };

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct recent counts[RECENT_SERVERS][N_RESULTS]; /* mu */
static _Atomic int64_t cloud_ok_ns;                     /* CLOCK_BOOTTIME; 0: never */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Makes the slot of now_ns the newest one. Slots that have become too old are emptied for reuse. */
static void
advance(struct recent *r, int64_t now_ns)
{
	int64_t slot = now_ns / SLOT_NS, n = slot - r->last;

	for (int64_t i = 0; i < n && i < RECENT_SLOTS; i++)
		r->slots[(slot - i) % RECENT_SLOTS] = 0;
	if (n > 0)
		r->last = slot;
}

void
recent_add(struct recent *r, int64_t now_ns)
{
	advance(r, now_ns);
	r->slots[r->last % RECENT_SLOTS]++;
}

size_t
recent_sum(struct recent *r, int64_t now_ns)
{
	size_t sum = 0;

	advance(r, now_ns);
	for (size_t i = 0; i < RECENT_SLOTS; i++)
		sum += r->slots[i];
	return sum;
}

static void
set_gauges(void *arg)
{
	int64_t now_ns = clock_boot(&clock_real);
	WITH_LOCK(&mu);

	(void)arg;
	for (enum recent_server server = 0; server < RECENT_SERVERS; server++) {
		for (enum result result = OK; result < N_RESULTS; result++)
			metric_set(metric_of(&recent_requests, server_names[server],
			                     result_names[result]),
			           (double)recent_sum(&counts[server][result], now_ns));
	}
}

static void
show_in_metrics(void)
{
	metrics_on_scrape(set_gauges, NULL);
}

void
recent_count(enum recent_server server, int status)
{
	enum result result = status == 0 || status >= 400 ? FAILED : OK;

	pthread_once(&once, show_in_metrics);
	WITH_LOCK(&mu);
	recent_add(&counts[server][result], clock_boot(&clock_real));
}

void
recent_note_cloud(void)
{
	atomic_store(&cloud_ok_ns, clock_boot(&clock_real));
}

bool
recent_cloud_ago(int64_t *ret_ns)
{
	int64_t then_ns = atomic_load(&cloud_ok_ns);

	if (then_ns == 0)
		return false;
	*ret_ns = clock_boot(&clock_real) - then_ns;
	return true;
}
