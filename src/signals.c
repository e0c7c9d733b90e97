/* signals.c: see signals.h. */
#include "signals.h"

#include <signal.h>
#include <sys/signalfd.h>

#include "base/thread.h"

int
signals_open(bool with_reload)
{
	sigset_t wanted, blocked;
	int fd;

	sigemptyset(&wanted);
	sigaddset(&wanted, SIGTERM);
	sigaddset(&wanted, SIGINT);
	blocked = wanted;
	sigaddset(&blocked, SIGHUP);
	PTHREAD_OK(pthread_sigmask(SIG_BLOCK, &blocked, NULL));
	fd = signalfd(-1, with_reload ? &blocked : &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
	PTHREAD_OK(fd < 0 ? -1 : 0); /* refused only when we have leaked thousands */
	return fd;
}
