/* signals.c: signal sets and the descriptor; see signals.h. */
#include "signals.h"

#include <signal.h>
#include <sys/signalfd.h>

#include "base/thread.h"

static sigset_t
signal_set(bool with_reload)
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
	sigset_t blocked = signal_set(/*with_reload=*/true);

	MUST(pthread_sigmask(SIG_BLOCK, &blocked, NULL));
}

int
signals_open(bool with_reload)
{
	sigset_t wanted = signal_set(with_reload);
	int fd;

	signals_block();
	fd = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
	MUST(fd < 0 ? -1 : 0); /* refused only if the program has leaked thousands of descriptors */
	return fd;
}

/* glibc's sigabbrev_np() does not exist in musl. */
const char *
signals_name(int signal)
{
	return signal == SIGTERM ? "TERM" : signal == SIGINT ? "INT" : "HUP";
}
