/* base/cancel.c: see cancel.h.
 *
 * Hooks run under the lock that cancel_unhook() takes. cancel_unhook() therefore waits for a
 * running hook, and its caller may free the hook's argument afterwards.
 */
#include "base/cancel.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/watchdog.h"
#include "base/thread.h"

struct hook {
	void (*fn)(void *);
	void *arg;
};

struct cancel {
	atomic_bool is_fired; /* written under mu, read without it */
	pthread_mutex_t mu;
	struct hook *hooks; /* mu */
	size_t n_hooks;     /* mu */
	size_t hooks_cap;   /* mu */
};

struct cancel *
cancel_new(void)
{
	struct cancel *c = xcalloc(1, sizeof(*c));

	mutex_init(&c->mu);
	return c;
}

void
cancel_free(struct cancel *c)
{
	if (!c)
		return;
	assert(c->n_hooks == 0);
	mutex_destroy(&c->mu);
	free(c->hooks);
	free(c);
}

void
cancel_fire(struct cancel *c)
{
	WITH_LOCK(&c->mu);

	if (atomic_exchange(&c->is_fired, true))
		return;
	for (size_t i = 0; i < c->n_hooks; i++)
		c->hooks[i].fn(c->hooks[i].arg);
}

bool
cancel_is_fired(const struct cancel *c)
{
	return c && atomic_load(&c->is_fired);
}

void
cancel_hook(struct cancel *c, void (*fn)(void *), void *arg)
{
	if (!c)
		return;
	WITH_LOCK(&c->mu);
	if (cancel_is_fired(c))
		fn(arg);
	else
		ARRAY_PUSH(c->hooks, c->n_hooks, c->hooks_cap, ((struct hook){ fn, arg }));
}

void
cancel_unhook(struct cancel *c, void (*fn)(void *), void *arg)
{
	if (!c)
		return;
	WITH_LOCK(&c->mu);
	for (size_t i = 0; i < c->n_hooks; i++) {
		if (c->hooks[i].fn == fn && c->hooks[i].arg == arg) {
			c->hooks[i] = c->hooks[--c->n_hooks];
			return;
		}
	}
}

/* ---- sleeping ---- */

/* The lock prevents the signal from falling between the waiter's check of the flag and its wait,
 * where it would be lost. */
void
cancel_wake(void *waiters)
{
	const struct cancel_waiters *w = waiters;
	WITH_LOCK(w->mu);

	cond_broadcast(w->cond);
}

bool
cancel_sleep(struct cancel *c, struct clock *clock, int64_t duration_ns, struct error *err)
{
	pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t woken;
	struct cancel_waiters self = { &mu, &woken };
	int64_t deadline_ns = clock_deadline(clock_mono(clock), duration_ns);

	watchdog_extend(deadline_ns);
	cond_init(&woken);
	cancel_hook(c, cancel_wake, &self);
	mutex_lock(&mu);
	while (!cancel_is_fired(c) && clock_wait(clock, &woken, &mu, deadline_ns))
		;
	mutex_unlock(&mu);
	cancel_unhook(c, cancel_wake, &self);
	cond_destroy(&woken);
	mutex_destroy(&mu);
	if (cancel_is_fired(c))
		return err_set(err, ERR_CANCELLED, "cancelled");
	return true;
}
