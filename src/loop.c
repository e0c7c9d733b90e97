/* loop.c: the event loop of main's thread; see loop.h.
 *
 * Each source is a descriptor that becomes readable: a signalfd, an eventfd for wake-ups, and a
 * timerfd on CLOCK_BOOTTIME for the end of the lease. libevent's own timers use CLOCK_MONOTONIC,
 * which stands still while the machine sleeps; they are only used for periodic work.
 */
#include "loop.h"

#include <assert.h>
#include <event2/event.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "base/wake.h"
#include "signals.h"

enum {
	MAX_TIMERS = 8,
};

struct timer {
	struct event *event;
	void (*fn)(void *arg);
	void *arg;
};

struct loop {
	struct loop_handlers handlers;
	struct event_base *base;
	struct event *signal, *wake, *expiry;
	struct timer timers[MAX_TIMERS];
	unsigned n_timers;
};

/* ---- events ---- */

static void
loop_on_signal(evutil_socket_t fd, short what, void *arg)
{
	struct loop *loop = arg;
	struct signalfd_siginfo info;

	(void)what;
	if (read(fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		loop->handlers.signalled(loop->handlers.arg, (int)info.ssi_signo);
}

static void
loop_on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct loop *loop = arg;

	(void)what;
	if (wake_drain(fd))
		loop->handlers.woken(loop->handlers.arg);
}

static void
loop_on_expiry(evutil_socket_t fd, short what, void *arg)
{
	struct loop *loop = arg;
	uint64_t n;

	(void)what;
	/* nothing to read: another thread has just set a later time by loop_set_expiry() */
	if (read(fd, &n, sizeof(n)) == (ssize_t)sizeof(n))
		loop->handlers.expired(loop->handlers.arg);
}

static void
loop_on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct timer *timer = arg;

	(void)fd;
	(void)what;
	timer->fn(timer->arg);
}

/* ---- life cycle ---- */

/* Calls fn when the descriptor is readable, and owns it. The kernel refuses one only if the program
 * has leaked thousands of them. */
static struct event *
loop_watch(struct loop *loop, int fd, event_callback_fn fn)
{
	struct event *event = event_new(loop->base, fd, EV_READ | EV_PERSIST, fn, loop);

	MUST(fd < 0 ? -1 : 0);
	MUST(event_add(event, NULL));
	return event;
}

static void
loop_unwatch(struct event *event)
{
	int fd = event_get_fd(event);

	event_free(event);
	close(fd);
}

struct loop *
loop_new(const struct loop_handlers *handlers)
{
	struct loop *loop = xcalloc(1, sizeof(*loop));

	loop->handlers = *handlers;
	loop->base = event_base_new();
	loop->signal = loop_watch(loop, signals_open(/*with_reload=*/true), loop_on_signal);
	loop->wake = loop_watch(loop, wake_open(), loop_on_wake);
	loop->expiry = loop_watch(loop, timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK),
	                          loop_on_expiry);
	return loop;
}

void
loop_free(struct loop *loop)
{
	if (!loop)
		return;
	for (unsigned i = 0; i < loop->n_timers; i++)
		event_free(loop->timers[i].event);
	loop_unwatch(loop->signal);
	loop_unwatch(loop->wake);
	loop_unwatch(loop->expiry);
	event_base_free(loop->base);
	free(loop);
}

struct event_base *
loop_base(struct loop *loop)
{
	return loop->base;
}

void
loop_every(struct loop *loop, int64_t period_ns, void (*fn)(void *arg), void *arg)
{
	struct timer *timer = &loop->timers[loop->n_timers++];
	struct timeval period = { period_ns / NS_PER_SEC, period_ns % NS_PER_SEC / 1000 };

	assert(loop->n_timers <= MAX_TIMERS);
	*timer = (struct timer){ .fn = fn, .arg = arg };
	timer->event = event_new(loop->base, -1, EV_PERSIST, loop_on_timer, timer);
	MUST(event_add(timer->event, &period));
}

void
loop_wake(struct loop *loop)
{
	wake_ring(event_get_fd(loop->wake));
}

void
loop_set_expiry(struct loop *loop, int64_t deadline_boot_ns)
{
	struct itimerspec at = { .it_value = { deadline_boot_ns / NS_PER_SEC,
		                               deadline_boot_ns % NS_PER_SEC } };

	MUST(timerfd_settime(event_get_fd(loop->expiry), TFD_TIMER_ABSTIME, &at, NULL));
}

void
loop_run(struct loop *loop)
{
	event_base_dispatch(loop->base);
}

void
loop_end(struct loop *loop)
{
	event_base_loopbreak(loop->base);
}
