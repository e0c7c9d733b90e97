/* base/notify.c: see notify.h. libsystemd would add more code than this file, and three libraries
 * that it depends on.
 */
#include "base/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"

#define NS_PER_US INT64_C(1000)
#define BACKLOG_WAIT_US 100000

static struct {
	int fd; /* -1: notifications are off */
	struct sockaddr_un address;
	socklen_t address_len;
	int64_t watchdog_ns;
} notify = { .fd = -1 };

/* An abstract name starts with a NUL and has no terminator. */
static bool
read_address(struct str text)
{
	bool is_abstract = str_starts(text, STR("@"));

	if (!is_abstract && !str_starts(text, STR("/")))
		return false;
	if (text.len < 2 || text.len >= sizeof(notify.address.sun_path))
		return false;
	notify.address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(notify.address.sun_path, text.ptr, text.len);
	if (is_abstract)
		notify.address.sun_path[0] = '\0';
	notify.address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + text.len +
	                                 !is_abstract);
	return true;
}

static bool
reconnect(void)
{
	return connect(notify.fd, (const struct sockaddr *)&notify.address, notify.address_len) ==
	       0;
}

void
notify_setup(void)
{
	const struct timeval timeout = { .tv_usec = BACKLOG_WAIT_US };
	const char *path = getenv("NOTIFY_SOCKET"), *pid = getenv("WATCHDOG_PID");
	int64_t owner, usec;

	if (notify.fd >= 0)
		close(notify.fd);
	notify.fd = -1;
	notify.watchdog_ns = 0;
	if (path && read_address(str_c(path)))
		notify.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (notify.fd >= 0) {
		(void)setsockopt(notify.fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
		(void)reconnect(); /* when this fails, notify_send() tries again */
		/* WATCHDOG_PID differs from the own process id when the variables were meant for
		 * the parent process; the watchdog stays off then. */
		if ((!pid || (str_to_i64(str_c(pid), 1, INT64_MAX, &owner) && owner == getpid())) &&
		    str_to_i64(str_c(getenv("WATCHDOG_USEC")), 1, INT64_MAX / NS_PER_US, &usec))
			notify.watchdog_ns = usec * NS_PER_US / 2;
	}
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
}

static bool
send_once(const char *state)
{
	return send(notify.fd, state, strlen(state), MSG_NOSIGNAL) >= 0;
}

/* A failed send is repeated once over a new connection, because the receiver may have been started
 * or restarted after notify_setup(). */
void
notify_send(const char *state)
{
	if (notify.fd < 0 || send_once(state) || errno == EAGAIN)
		return;
	if (reconnect())
		(void)send_once(state);
}

void
notify_reloading(void)
{
	char memory[64] = "";
	struct buf text = BUF_FIXED(memory);

	buf_addf(&text, "RELOADING=1\nMONOTONIC_USEC=%lld",
	         (long long)(clock_mono(&clock_real) / NS_PER_US));
	notify_send(text.ptr);
}

int64_t
notify_watchdog_ns(void)
{
	return notify.watchdog_ns;
}
