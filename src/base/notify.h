/* base/notify.h: what systemd is told, by a datagram to $NOTIFY_SOCKET (sd_notify(3)); nothing where that is not set.
 *
 * Threads: any.
 */
#ifndef CCMD_BASE_NOTIFY_H
#define CCMD_BASE_NOTIFY_H

#include "base/str.h"

/** Reads NOTIFY_SOCKET and WATCHDOG_USEC, and takes them out of the environment that children see. Before any thread. */
void notify_setup(void);
/** "READY=1", "STATUS=leading", "RELOADING=1\nMONOTONIC_USEC=…", "STOPPING=1", "WATCHDOG=1". Never fails or blocks. */
void notify_send(const char *state);
/** How often to send WATCHDOG=1: half of what systemd asks for, in nanoseconds; 0: not asked. */
int64_t notify_watchdog_ns(void);

#endif
