/* http/events.c: the sockets and the timer of libcurl, on one epoll descriptor.
 *
 * curl_multi_perform() polls every transfer in every turn: with a watch and eight running requests
 * that is nine system calls, most of them without result. With curl_multi_socket_action() libcurl
 * only handles a socket that is ready, or its timer when it is due.
 *
 * An eventfd in the same epoll set lets other threads wake the loop.
 */
#include <sys/epoll.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/wake.h"
#include "http/internal.h"

enum {
	READY_MAX = 16, /* sockets taken from the kernel in one call */
};

/* libcurl adds a socket, changes the events that it waits for, or removes it. known is NULL for a
 * new socket; the pointer that is assigned here is passed as known in later calls for the same
 * socket. */
static int
on_socket(CURL *easy, curl_socket_t fd, int what, void *client, void *known)
{
	struct curl_client *c = client;
	struct epoll_event event = {
		.events = ((what & CURL_POLL_IN) ? (uint32_t)EPOLLIN : 0) |
		          ((what & CURL_POLL_OUT) ? (uint32_t)EPOLLOUT : 0),
		.data.fd = fd,
	};

	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		/* fails if the socket is closed already: closing it removed it from the set */
		epoll_ctl(c->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
		return 0;
	}
	curl_multi_assign(c->multi, fd, c);
	if (known && epoll_ctl(c->epoll_fd, EPOLL_CTL_MOD, fd, &event) == 0)
		return 0;
	return epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static int
on_timer(CURLM *multi, long timeout_ms, void *client)
{
	struct curl_client *c = client;

	(void)multi;
	c->timer_ns = timeout_ms < 0 ? CLOCK_FOREVER
	                             : clock_mono(&clock_real) + timeout_ms * NS_PER_MS;
	return 0;
}

void
events_start(struct curl_client *c)
{
	struct epoll_event event = { .events = EPOLLIN };

	c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	c->wake_fd = wake_open();
	event.data.fd = c->wake_fd;
	if (c->epoll_fd < 0 || c->wake_fd < 0 ||
	    epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, c->wake_fd, &event) != 0)
		alloc_fail(1, sizeof(event)); /* the system has no descriptor or no memory left */
	c->timer_ns = CLOCK_FOREVER;
	curl_multi_setopt(c->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	curl_multi_setopt(c->multi, CURLMOPT_SOCKETDATA, c);
	curl_multi_setopt(c->multi, CURLMOPT_TIMERFUNCTION, on_timer);
	curl_multi_setopt(c->multi, CURLMOPT_TIMERDATA, c);
}

void
events_stop(struct curl_client *c)
{
	close(c->wake_fd);
	close(c->epoll_fd);
}

void
events_wake(struct curl_client *c)
{
	wake_ring(c->wake_fd);
}

void
events_run_timer(struct curl_client *c)
{
	int n_running;

	if (c->timer_ns > clock_mono(&clock_real))
		return;
	c->timer_ns = CLOCK_FOREVER;
	curl_multi_socket_action(c->multi, CURL_SOCKET_TIMEOUT, 0, &n_running);
}

void
events_wait(struct curl_client *c, int timeout_ms)
{
	struct epoll_event ready[READY_MAX];
	int n = epoll_wait(c->epoll_fd, ready, READY_MAX, timeout_ms);

	for (int i = 0; i < n; i++) {
		uint32_t events = ready[i].events;
		int n_running;

		if (ready[i].data.fd == c->wake_fd) {
			(void)wake_drain(c->wake_fd);
			continue;
		}
		curl_multi_socket_action(c->multi, ready[i].data.fd,
		                         (events & (EPOLLIN | EPOLLHUP) ? CURL_CSELECT_IN : 0) |
		                                 (events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
		                                 (events & EPOLLERR ? CURL_CSELECT_ERR : 0),
		                         &n_running);
	}
}
