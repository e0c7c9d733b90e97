/* base/notify.h: what systemd is told, by a datagram to $NOTIFY_SOCKET (sd_notify(3)); nothing
 * where that is not set.
 *
 * The socket is connected once, before the sandbox, which then needs no way to it. An address
 * starts with '/' (a path) or '@' (an abstract name); others, such as vsock, are left alone.
 *
 * Threads: notify_setup() before the first one, the others from any.
 */
#ifndef CCMD_BASE_NOTIFY_H
#define CCMD_BASE_NOTIFY_H

#include <stdint.h>

/** Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and takes them out of the environment that
 * children see. */
void notify_setup(void);
/** "READY=1", "STATUS=leading", "STOPPING=1", "WATCHDOG=1"; several with line feeds between. Never
 * fails; waits for at most 100 ms where systemd has a backlog, and then the text is lost. */
void notify_send(const char *state);
/** "RELOADING=1" with the time that Type=notify-reload wants; "READY=1" must follow. */
void notify_reloading(void);
/** How often to send WATCHDOG=1: half of what systemd asks for, in nanoseconds; 0: not asked. */
int64_t notify_watchdog_ns(void);

#endif
