/* haproxy_stats.c: see haproxy_stats.h. */
#include "providers/cloudlycke/haproxy_stats.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"

enum {
	ANSWER_S = 2,
	READ_SIZE = 16384,
};

static void
close_fd(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static int
connect_to(struct str path)
{
	struct timeval limit = { .tv_sec = ANSWER_S };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd;

	if (path.len >= sizeof(address.sun_path))
		return -1;
	memcpy(address.sun_path, path.ptr, path.len);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	close(fd);
	return -1;
}

/* Until it closes, or the time is up. */
static bool
read_answer(int fd, struct clock *clock, struct buf *answer)
{
	int64_t deadline_ns = clock_mono(clock) + ANSWER_S * NS_PER_SEC;

	while (buf_reserve(answer, READ_SIZE) && clock_mono(clock) < deadline_ns) {
		ssize_t n = read(fd, answer->ptr + answer->len, READ_SIZE);

		if (n == 0)
			return true;
		if (n < 0 && errno != EINTR)
			return false;
		buf_grown(answer, n > 0 ? (size_t)n : 0);
	}
	return false;
}

static bool
ask(struct str path, struct clock *clock, struct buf *answer)
{
	static const char question[] = "show servers state\n";
	CLEANUP(close_fd) int fd = connect_to(path);

	return fd >= 0 && write(fd, question, strlen(question)) == (ssize_t)strlen(question) &&
	       read_answer(fd, clock, answer) && str_starts(buf_str(answer), STR("1\n"));
}

void
cl_haproxy_keep_server_state(struct str socket, struct clock *clock)
{
	CLEANUP(buf_fini) struct buf answer = BUF_INIT(LIMIT_HAPROXY_FILE);
	CLEANUP(buf_fini) struct buf path = BUF_INIT(KIB(4));
	struct error err;

	if (socket.len == 0)
		return;
	buf_add_str(&path, socket);
	buf_add_c(&path, ".state");
	if (!ask(socket, clock, &answer))
		log_debug("HAProxy's view of its servers is not known, ignoring",
		          LOG_STR("socket", socket));
	else if (!file_replace(path.ptr, buf_str(&answer), 0600, &err))
		log_warn("HAProxy's view of its servers cannot be kept, ignoring", LOG_ERR(&err));
}
