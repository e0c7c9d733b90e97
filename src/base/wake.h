/* base/wake.h: waking a thread that waits in poll(), epoll_wait() or an event loop.
 *
 * A wake is an eventfd that does not block: it stays readable from the first wake_ring() until
 * wake_drain(), however often it was rung meanwhile. The caller sets its flag or queues its item
 * before wake_ring(), and the woken thread looks for it after wake_drain(): an item that is added
 * in between rings again, so none is missed.
 *
 * Threads: wake_ring() may be called from any thread while the descriptor is open.
 */
#ifndef CCMD_BASE_WAKE_H
#define CCMD_BASE_WAKE_H

#include <stdbool.h>
#include <sys/eventfd.h>

#include "base/macros.h"

/** Returns the descriptor, which the caller closes; -1 with errno if the system has none left. */
NODISCARD static inline int
wake_open(void)
{
	return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

/** Never blocks. If the counter is full, it fails, and the descriptor is readable anyway. */
static inline void
wake_ring(int fd)
{
	(void)eventfd_write(fd, 1);
}

/** Makes the descriptor unreadable. Returns false when it was not rung since the last call. */
static inline bool
wake_drain(int fd)
{
	eventfd_t n;

	return eventfd_read(fd, &n) == 0;
}

#endif
