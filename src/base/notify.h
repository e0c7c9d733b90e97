/* base/notify.h: notifies systemd about the state of the process (sd_notify(3)).
 *
 * Messages are datagrams to $NOTIFY_SOCKET; without that variable every function does nothing. The
 * socket is connected once, before the sandbox is entered, so the sandbox needs no rule for it. The
 * address is a path that starts with '/' or an abstract name that starts with '@'; others, such as
 * vsock, are ignored.
 *
 * Threads: notify_setup() is called before the first thread starts; the others may be called from
 * any thread.
 */
#ifndef CCMD_BASE_NOTIFY_H
#define CCMD_BASE_NOTIFY_H

#include <stdint.h>

/** Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and removes them from the environment, so
 * that child processes do not inherit them. */
void notify_setup(void);
/** Sends "READY=1", "STATUS=leading", "STOPPING=1" or "WATCHDOG=1", or several separated by line
 * feeds. It never fails: when the queue of systemd is full, it waits for at most 100 ms and then
 * drops the message. */
void notify_send(const char *state);
/** Sends "RELOADING=1" with the time that Type=notify-reload requires; "READY=1" must follow. */
void notify_reloading(void);
/** Returns the interval of WATCHDOG=1 in nanoseconds, half of the interval that systemd requests;
 * 0: not requested. */
int64_t notify_watchdog_ns(void);

#endif
