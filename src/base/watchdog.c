/* base/watchdog.c: see watchdog.h. */
#include "base/watchdog.h"

#include <assert.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "base/metrics.h"
#include "base/thread.h"

#define CHECK_EVERY_NS NS_PER_SEC

METRIC_FAMILY(stuck, METRIC_GAUGE, "ccmd_stuck_threads",
              "[ALPHA] Threads that had not reported in time at the last health check.");

enum {
	NAME_SIZE = 16,
};

struct watchdog {
	char name[NAME_SIZE];
	_Atomic int64_t deadline_ns; /* mono */
	/* mu; the promise that was overdue at the last check, or CLOCK_FOREVER */
	int64_t overdue_ns;
	bool is_stuck;         /* mu */
	struct watchdog *next; /* mu */
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct watchdog *watchdogs; /* mu; the newest first */
static struct clock *checked_by;   /* mu; the clock of the last check, NULL before any */
static int64_t checked_ns;         /* mu; mono */

struct watchdog *
watchdog_new(const char *name)
{
	struct watchdog *p = xcalloc(1, sizeof(*p));

	memcpy(p->name, name, strnlen(name, NAME_SIZE - 1));
	p->deadline_ns = p->overdue_ns = CLOCK_FOREVER;
	WITH_LOCK(&mu);
	p->next = watchdogs;
	watchdogs = p;
	return p;
}

void
watchdog_free(struct watchdog *p)
{
	struct watchdog **at = &watchdogs;

	if (!p)
		return;
	WITH_LOCK(&mu);
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	free(p);
}

void
watchdog_until(struct watchdog *p, int64_t deadline_mono_ns)
{
	if (p)
		atomic_store_explicit(&p->deadline_ns, deadline_mono_ns, memory_order_relaxed);
}

/* ---- the watchdog of the calling thread ---- */

static pthread_once_t own_once = PTHREAD_ONCE_INIT;
static pthread_key_t own_key; /* its destructor frees the watchdog when the thread ends */
static _Thread_local struct watchdog *own;

static void
free_own(void *watchdog)
{
	own = NULL;
	watchdog_free(watchdog);
}

static void
make_own_key(void)
{
	MUST(pthread_key_create(&own_key, free_own));
}

void
watchdog_promise(int64_t deadline_mono_ns)
{
	char name[NAME_SIZE] = "";

	if (!own) {
		MUST(pthread_once(&own_once, make_own_key));
		(void)pthread_getname_np(pthread_self(), name, sizeof(name));
		own = watchdog_new(name);
		MUST(pthread_setspecific(own_key, own));
	}
	watchdog_until(own, deadline_mono_ns);
}

void
watchdog_extend(int64_t deadline_mono_ns)
{
	if (own && deadline_mono_ns > atomic_load(&own->deadline_ns))
		watchdog_until(own, deadline_mono_ns);
}

/* ---- checking ---- */

/* A thread is stuck when the same promise is overdue at two checks. */
static void
check(struct watchdog *p, int64_t now_ns)
{
	int64_t deadline_ns = atomic_load_explicit(&p->deadline_ns, memory_order_relaxed);
	bool is_overdue = now_ns > clock_deadline(deadline_ns, WATCHDOG_TOLERANCE_NS);

	p->is_stuck = is_overdue && p->overdue_ns == deadline_ns;
	p->overdue_ns = is_overdue ? deadline_ns : CLOCK_FOREVER;
}

bool
watchdog_late(struct clock *clock, struct buf *names)
{
	int64_t now_ns;
	size_t n = 0;
	WITH_LOCK(&mu);

	now_ns = clock_mono(clock);
	if (checked_by != clock || now_ns - checked_ns >= CHECK_EVERY_NS) {
		checked_by = clock;
		checked_ns = now_ns;
		for (struct watchdog *p = watchdogs; p; p = p->next)
			check(p, now_ns);
	}

	for (struct watchdog *p = watchdogs; p; p = p->next) {
		if (!p->is_stuck)
			continue;
		buf_addf(names, "%s%s (late by ", n++ ? ", " : "", p->name);
		clock_format_duration(names,
		                      (checked_ns - p->overdue_ns) / NS_PER_SEC * NS_PER_SEC);
		buf_add_char(names, ')');
	}
	metric_set(metric_of(&stuck), (double)n);
	return n > 0;
}

bool
watchdog_health(void *clock, struct buf *reason)
{
	return !watchdog_late(clock, reason);
}
