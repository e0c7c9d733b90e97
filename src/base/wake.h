/* base/wake.h: waking a thread that waits in poll(), epoll_wait() or an event loop.
 *
 * A wake is an eventfd that does not block: it stays readable from the first wake_ring() until
 * wake_drain(), however often it was rung meanwhile. Set what the thread is to find before ringing,
 * and look for it after draining: what is set in between rings again.
 *
 * Threads: wake_ring() may be called from any thread while the descriptor is open.
 */
#ifndef CCMD_BASE_WAKE_H
#define CCMD_BASE_WAKE_H

#include <stdbool.h>
#include <sys/eventfd.h>

#include "base/macros.h"

/** The descriptor; close() it. -1 with errno when there is none left. */
NODISCARD static inline int
wake_open(void)
{
	return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

/** Never waits. It could fail only with a counter that is full, which is readable all the same. */
static inline void
wake_ring(int fd)
{
	(void)eventfd_write(fd, 1);
}

/** False when it was not rung since the last time. */
static inline bool
wake_drain(int fd)
{
	eventfd_t n;

	return eventfd_read(fd, &n) == 0;
}

#endif
