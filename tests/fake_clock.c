/* fake_clock.c: see fake_clock.h.
 *
 * A waiting thread is on the list from before it gives up its mutex until after it has it back.
 * Whoever wakes it holds our lock, so that it cannot leave the list (and take its condition
 * variable along), and its mutex, so that it is not between entering the list and sleeping, where a
 * wake-up would be lost. Since the waiter takes these two in the other order, its mutex is only
 * tried, again and again.
 */
#include "fake_clock.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/thread.h"

struct waiter {
	struct waiter *next;
	pthread_cond_t *cond;
	pthread_mutex_t *mutex;
	int64_t deadline_ns;
	bool is_woken; /* by us; it has not left the list yet */
};

struct fake_clock {
	struct clock clock;
	pthread_mutex_t mu;
	pthread_cond_t changed;
	int64_t mono_ns;        /* mu */
	int64_t boot_ns;        /* mu */
	int64_t wall_ns;        /* mu */
	struct waiter *waiters; /* mu */
};

static struct fake_clock *
fake_of(struct clock *c)
{
	return CONTAINER_OF(c, struct fake_clock, clock);
}

static int64_t
fake_mono(struct clock *c)
{
	WITH_LOCK(&fake_of(c)->mu);
	return fake_of(c)->mono_ns;
}

static int64_t
fake_boot(struct clock *c)
{
	WITH_LOCK(&fake_of(c)->mu);
	return fake_of(c)->boot_ns;
}

static int64_t
fake_wall(struct clock *c)
{
	WITH_LOCK(&fake_of(c)->mu);
	return fake_of(c)->wall_ns;
}

static bool
is_due(const struct fake_clock *fake, int64_t deadline_ns)
{
	return deadline_ns != CLOCK_FOREVER && deadline_ns <= fake->mono_ns;
}

static bool
enter(struct fake_clock *fake, struct waiter *w)
{
	WITH_LOCK(&fake->mu);

	if (is_due(fake, w->deadline_ns))
		return false;
	w->next = fake->waiters;
	fake->waiters = w;
	cond_broadcast(&fake->changed);
	return true;
}

/* False when the deadline has passed. */
static bool
leave(struct fake_clock *fake, const struct waiter *w)
{
	struct waiter **at = &fake->waiters;
	WITH_LOCK(&fake->mu);

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	cond_broadcast(&fake->changed);
	return !is_due(fake, w->deadline_ns);
}

static bool
fake_wait(struct clock *c, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t deadline_ns)
{
	struct waiter w = { .cond = cond, .mutex = mutex, .deadline_ns = deadline_ns };

	if (!enter(fake_of(c), &w))
		return false;
	MUST(pthread_cond_wait(cond, mutex));
	return leave(fake_of(c), &w);
}

struct fake_clock *
fake_clock_new(int64_t wall_ns)
{
	struct fake_clock *fake = xcalloc(1, sizeof(*fake));

	fake->clock = (struct clock){
		.mono_ns = fake_mono,
		.boot_ns = fake_boot,
		.wall_ns = fake_wall,
		.wait = fake_wait,
	};
	mutex_init(&fake->mu);
	cond_init(&fake->changed);
	/* not zero, and not the same: code that mixes them up, or takes 0 for "never", shall fail
	 */
	fake->mono_ns = 1000 * NS_PER_SEC;
	fake->boot_ns = 2000 * NS_PER_SEC;
	fake->wall_ns = wall_ns;
	return fake;
}

void
fake_clock_free(struct fake_clock *fake)
{
	if (!fake)
		return;
	cond_destroy(&fake->changed);
	mutex_destroy(&fake->mu);
	free(fake);
}

struct clock *
fake_clock_clock(struct fake_clock *fake)
{
	return &fake->clock;
}

static bool
try_wake(struct waiter *w)
{
	if (pthread_mutex_trylock(w->mutex) != 0)
		return false;
	w->is_woken = true;
	cond_broadcast(w->cond);
	mutex_unlock(w->mutex);
	return true;
}

/* One pass over the list; false when a waiter's mutex was taken. */
static bool
wake_once(struct fake_clock *fake, bool only_due)
{
	bool is_done = true;
	WITH_LOCK(&fake->mu);

	for (struct waiter *w = fake->waiters; w; w = w->next) {
		if (!w->is_woken && (!only_due || is_due(fake, w->deadline_ns)) && !try_wake(w))
			is_done = false;
	}
	return is_done;
}

static void
wake(struct fake_clock *fake, bool only_due)
{
	while (!wake_once(fake, only_due))
		sched_yield();
}

void
fake_clock_advance(struct fake_clock *fake, int64_t ns)
{
	mutex_lock(&fake->mu);
	fake->mono_ns += ns;
	fake->boot_ns += ns;
	fake->wall_ns += ns;
	mutex_unlock(&fake->mu);
	wake(fake, /*only_due=*/true);
}

void
fake_clock_jump_wall(struct fake_clock *fake, int64_t ns)
{
	WITH_LOCK(&fake->mu);
	fake->wall_ns += ns;
}

void
fake_clock_suspend(struct fake_clock *fake, int64_t ns)
{
	WITH_LOCK(&fake->mu);
	fake->boot_ns += ns;
	fake->wall_ns += ns;
}

static bool
is_settled(const struct fake_clock *fake, unsigned n_threads)
{
	unsigned n = 0;

	for (const struct waiter *w = fake->waiters; w; w = w->next) {
		if (w->is_woken || is_due(fake, w->deadline_ns))
			return false;
		n++;
	}
	return n >= n_threads;
}

/* A thread that somebody signalled but that did not run yet looks like one that waits. So all are
 * woken and must come back, and as often as there are threads: what one of them does may make the
 * next one move. */
void
fake_clock_settle(struct fake_clock *fake, unsigned n_threads)
{
	for (unsigned round = 0; round <= n_threads; round++) {
		mutex_lock(&fake->mu);
		while (!is_settled(fake, n_threads))
			MUST(pthread_cond_wait(&fake->changed, &fake->mu));
		mutex_unlock(&fake->mu);
		if (round < n_threads)
			wake(fake, /*only_due=*/false);
	}
}
