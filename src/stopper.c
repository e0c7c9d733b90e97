/* stopper.c: a thread that waits for a signal or for the end of the start; see stopper.h. */
#include "stopper.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/log.h"
#include "base/notify.h"
#include "base/thread.h"
#include "base/wake.h"
#include "signals.h"

enum {
	LONGEST_STOP_MS = 2000,
};

struct stopper {
	struct cancel *cancel;
	int signal_fd, end_fd;
	bool is_stopped; /* written by the thread; read after it was joined */
	pthread_t thread;
};

static void *
stopper_thread(void *arg)
{
	struct stopper *s = arg;
	struct signalfd_siginfo info;
	struct pollfd fds[] = { { .fd = s->end_fd, .events = POLLIN },
		                { .fd = s->signal_fd, .events = POLLIN } };

	while (poll(fds, 2, /*timeout=*/-1) < 0)
		;
	if (fds[0].revents)
		return NULL;
	if (read(s->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		log_info("stopping", LOG_CSTR("signal", signals_name((int)info.ssi_signo)));
		notify_send("STOPPING=1");
		s->is_stopped = true;
		cancel_fire(s->cancel);
	}
	if (poll(fds, 1, LONGEST_STOP_MS) == 0)
		_exit(0);
	return NULL;
}

struct stopper *
stopper_new(struct cancel *cancel)
{
	struct stopper *s = xcalloc(1, sizeof(*s));

	s->cancel = cancel;
	s->signal_fd = signals_open(/*with_reload=*/false);
	s->end_fd = wake_open();
	MUST(s->end_fd < 0 ? -1 : 0);
	thread_start(&s->thread, "stopper", stopper_thread, s);
	return s;
}

bool
stopper_free(struct stopper *s)
{
	bool is_stopped;

	if (!s)
		return false;
	wake_ring(s->end_fd);
	thread_join(s->thread);
	is_stopped = s->is_stopped;
	close(s->signal_fd);
	close(s->end_fd);
	free(s);
	return is_stopped;
}
