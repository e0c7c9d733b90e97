/* loop.h: the event loop of main's thread: signals, wake-ups from other threads, timers, and the
 * sockets of the server.
 *
 * It is libevent's loop. libevent's own signal handling is not used: signals are read from a
 * signalfd, so no handler interrupts anything.
 *
 * Threads: main's, except where a function says otherwise.
 */
#ifndef CCMD_LOOP_H
#define CCMD_LOOP_H

#include <stdint.h>

struct event_base;
struct loop;

/** All are called on main's thread. */
struct loop_handlers {
	void (*signalled)(void *arg, int signal); /* SIGTERM, SIGINT, SIGHUP */
	void (*woken)(void *arg);                 /* after one or more calls of loop_wake() */
	void (*expired)(void *arg);               /* the time of loop_set_expiry() has passed */
	void *arg;
};

/** From now on the signals are blocked, and wait until the loop reads them. */
struct loop *loop_new(const struct loop_handlers *handlers);
void loop_free(struct loop *); /* NULL is fine; the server must be gone */

/** libevent's loop, to which the server adds its own events. */
struct event_base *loop_base(struct loop *);

/** Calls fn(arg) every period_ns, as long as the loop runs. */
void loop_every(struct loop *, int64_t period_ns, void (*fn)(void *arg), void *arg);

/** Any thread: woken() is called soon. */
void loop_wake(struct loop *);
/** Any thread: expired() is called when CLOCK_BOOTTIME, which also counts while the machine sleeps,
 * has reached that time. A later call replaces an earlier one. */
void loop_set_expiry(struct loop *, int64_t deadline_boot_ns);

/** Runs until loop_end(). */
void loop_run(struct loop *);
void loop_end(struct loop *);

#endif
