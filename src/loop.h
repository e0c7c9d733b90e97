/* loop.h: what main's thread waits on: signals, messages from other threads, timers, and the
 * server's sockets.
 *
 * libevent's loop with its signals left alone: they are read from a signalfd, so no handler
 * interrupts anything.
 *
 * Threads: everything on main's thread, except what says otherwise.
 */
#ifndef CCMD_LOOP_H
#define CCMD_LOOP_H

#include <stdint.h>

struct event_base;
struct loop;

/** Called on main's thread. */
struct loop_handlers {
	void (*signalled)(void *arg, int signal); /* SIGTERM, SIGINT, SIGHUP */
	void (*woken)(void *arg);                 /* after loop_wake(), once or more */
	void (*expired)(void *arg);               /* the moment of loop_set_expiry() has passed */
	void *arg;
};

/** From here on the signals are blocked and wait for the loop. */
struct loop *loop_new(const struct loop_handlers *handlers);
void loop_free(struct loop *); /* NULL is fine; the server and timers on it are gone by then */

/** For the server, which adds its own events. */
struct event_base *loop_base(struct loop *);

/** Calls fn(arg) every period_ns until the loop is freed. */
void loop_every(struct loop *, int64_t period_ns, void (*fn)(void *arg), void *arg);

/** Any thread: woken() runs soon. */
void loop_wake(struct loop *);
/** Any thread: expired() runs once CLOCK_BOOTTIME, which goes on while the machine sleeps, has
 * reached that. A later call replaces an earlier one. */
void loop_set_expiry(struct loop *, int64_t deadline_boot_ns);

/** Runs until loop_end(). */
void loop_run(struct loop *);
void loop_end(struct loop *);

#endif
