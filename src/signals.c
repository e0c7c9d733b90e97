/* signals.c: see signals.h. */
#include "signals.h"

#include <signal.h>
#include <sys/signalfd.h>

#include "base/thread.h"

static sigset_t
all_of(bool with_reload)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	if (with_reload)
		sigaddset(&set, SIGHUP);
	return set;
}

void
signals_block(void)
{
	sigset_t blocked = all_of(/*with_reload=*/true);

	MUST(pthread_sigmask(SIG_BLOCK, &blocked, NULL));
}

int
signals_open(bool with_reload)
{
	sigset_t wanted = all_of(with_reload);
	int fd;

	signals_block();
	fd = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
	MUST(fd < 0 ? -1 : 0); /* refused only when we have leaked thousands */
	return fd;
}
