/* serve/server.c: see server.h and internal.h.
 *
 * Three sources of events on the loop: the listening socket, an eventfd by which other threads
 * report that a request has its answer, and a timer that ends a pause of the listener. What happens
 * on a connection is in connection.c.
 *
 * A request may be answered when its connection, or the whole server, is gone: the outbox, where
 * answers wait for the loop, is counted and outlives both.
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/resolve.h"
#include "base/wake.h"
#include "serve/internal.h"

enum {
	BACKLOG = 128,
};

const struct server_limits server_limits = {
	.n_connections = LIMIT_SERVER_CONNECTIONS,
	.n_requests = LIMIT_SERVER_REQUESTS,
	.headers_ms = LIMIT_SERVER_HEADERS_MS,
	.write_ms = LIMIT_SERVER_WRITE_MS,
	.idle_ms = LIMIT_SERVER_IDLE_MS,
	.linger_ms = LIMIT_SERVER_LINGER_MS,
	.lookup_ms = LIMIT_SERVER_LOOKUP_MS,
};

/* ---- answers that come back from handlers ---- */

void
outbox_unref(struct outbox *o)
{
	if (!ref_drop(&o->refs))
		return;
	mutex_destroy(&o->mu);
	free(o);
}

void
server_reply(struct server_request *r, const struct server_response *response)
{
	struct outbox *o = r->outbox;
	bool is_gone;

	answer_write(&r->answer, response, clock_wall(r->clock), r->head.method == SERVER_HEAD,
	             !r->head.keeps_alive);
	mutex_lock(&o->mu);
	is_gone = o->fd < 0;
	if (!is_gone) {
		if (STAILQ_EMPTY(&o->answered))
			wake_ring(o->fd);
		STAILQ_INSERT_TAIL(&o->answered, r, link);
	}
	mutex_unlock(&o->mu);
	if (is_gone)
		request_free(r);
}

/* The list is taken as a whole: delivering may lead to further answers, which would keep the loop
 * from its other events. They are delivered in the next turn, because they ring the eventfd again:
 * it was read before the list was emptied. */
static void
server_on_answers(evutil_socket_t fd, short what, void *arg)
{
	struct server *s = arg;
	STAILQ_HEAD(, server_request) answered = STAILQ_HEAD_INITIALIZER(answered);

	(void)what;
	if (!wake_drain(fd))
		return;
	mutex_lock(&s->outbox->mu);
	STAILQ_CONCAT(&answered, &s->outbox->answered);
	mutex_unlock(&s->outbox->mu);
	while (!STAILQ_EMPTY(&answered)) {
		struct server_request *r = STAILQ_FIRST(&answered);
		struct connection *c = r->connection;

		STAILQ_REMOVE_HEAD(&answered, link);
		s->n_requests--;
		if (c) {
			c->out = r->answer;
			r->answer = BUF_INIT(0);
		}
		request_free(r);
		if (c) /* else the connection no longer exists, and the answer is dropped */
			connection_answer(c);
	}
}

/* ---- the listener ---- */

static void
server_on_resume(evutil_socket_t fd, short what, void *arg)
{
	struct server *s = arg;

	(void)fd;
	(void)what;
	event_add(&s->accepting, NULL);
}

/* Accepts one connection in a turn. A loop until EAGAIN would close a connection too many: without
 * a free descriptor, accept() reports the shortage even if no client is waiting. */
static void
server_on_accept(evutil_socket_t fd, short what, void *arg)
{
	static const struct timeval second = { .tv_sec = 1 };
	struct server *s = arg;
	struct sockaddr_storage peer;
	socklen_t len = sizeof(peer);
	const int on = 1;
	int client = accept4(fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

	(void)what;
	if (client < 0) {
		bool is_shortage = errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
		                   errno == ENOMEM;

		/* A connection is closed. If none may be closed, the listener pauses for a second:
		 * the socket stays readable, so the loop would spin. */
		if (is_shortage && !connection_evict(s)) {
			event_del(&s->accepting);
			event_add(&s->resuming, &second);
		}
		return;
	}
	/* sends pending answers first: then their connections may be closed */
	if (s->n_connections >= s->limits.n_connections)
		server_on_answers(s->outbox->fd, EV_READ, s);
	if (s->n_connections >= s->limits.n_connections && !connection_evict(s)) {
		close(client);
		return;
	}
	(void)setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	connection_new(s, client, &peer);
}

/* ---- the address to listen on ---- */

/* Of several addresses of the name, the first IPv4 one is chosen, as by Go, else the first. */
static bool
server_address(const struct server_config *config, int64_t lookup_ms, struct sockaddr_storage *ret,
               struct error *err)
{
	uint16_t port = htons((uint16_t)config->port);
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;
	struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
	struct ip all[RESOLVE_MAX];
	size_t n, i = 0;

	if (!resolve_host(config->address, lookup_ms, /*cancel=*/NULL, all, &n, err))
		return err_wrap(err, "address to listen on");
	while (i < n && ip_family(&all[i]) != IP_V4)
		i++;
	*ret = (struct sockaddr_storage){ 0 };
	if (i < n) {
		v4->sin_family = AF_INET;
		v4->sin_port = port;
		memcpy(&v4->sin_addr, all[i].bytes + 12, 4);
	} else {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = port;
		memcpy(&v6->sin6_addr, all[0].bytes, 16);
	}
	return true;
}

static bool
server_bind_failed(const struct server_config *config, struct error *err)
{
	if (errno == EADDRINUSE)
		return err_set(err, ERR_EXISTS, "port %d at %" STR_FMT " is taken", config->port,
		               STR_ARG(config->address));
	err_errno(err, errno, "listen on port %d at %" STR_FMT, config->port,
	          STR_ARG(config->address));
	if (err->code != ERR_FORBIDDEN)
		err->code = ERR_INVALID;
	return false;
}

/* As in Go (net, setDefaultListenerSockopts and setDefaultSockopts): an address in TIME_WAIT can be
 * bound again, and "::" accepts IPv4 as well, whatever net.ipv6.bindv6only is set to. */
static bool
server_listen(struct server *s, const struct server_config *config, struct error *err)
{
	const int on = 1, off = 0;
	struct sockaddr_storage own;
	struct sockaddr *address = (struct sockaddr *)&own;
	socklen_t len;
	bool is_v6;

	if (!server_address(config, s->limits.lookup_ms, &own, err))
		return false;
	is_v6 = own.ss_family == AF_INET6;
	len = is_v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	s->fd = socket(own.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (s->fd < 0)
		return server_bind_failed(config, err);
	(void)setsockopt(s->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (is_v6)
		(void)setsockopt(s->fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (config->share_port)
		(void)setsockopt(s->fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	if (bind(s->fd, address, len) != 0 || listen(s->fd, BACKLOG) != 0)
		return server_bind_failed(config, err);

	/* the port that the kernel chose for port 0 */
	if (getsockname(s->fd, address, &len) == 0)
		s->port = ntohs(is_v6 ? ((struct sockaddr_in6 *)&own)->sin6_port
		                      : ((struct sockaddr_in *)&own)->sin_port);
	return true;
}

/* ---- life cycle ---- */

/* Answers that come later are dropped by server_reply(). */
static void
outbox_close(struct outbox *o)
{
	mutex_lock(&o->mu);
	if (o->fd >= 0)
		close(o->fd);
	o->fd = -1;
	mutex_unlock(&o->mu);
	while (!STAILQ_EMPTY(&o->answered)) {
		struct server_request *r = STAILQ_FIRST(&o->answered);

		STAILQ_REMOVE_HEAD(&o->answered, link);
		request_free(r);
	}
	outbox_unref(o);
}

DEFINE_CLEANUP(struct server, server_free)

bool
server_new(const struct server_config *config, struct server **ret, struct error *err)
{
	CLEANUP(server_freep) struct server *s = xcalloc(1, sizeof(*s));
	struct outbox *o = xcalloc(1, sizeof(*o));

	ref_init(&o->refs);
	mutex_init(&o->mu);
	STAILQ_INIT(&o->answered);
	o->fd = -1;
	*s = (struct server){
		.limits = config->limits ? *config->limits : server_limits,
		.loop = config->loop,
		.clock = config->clock,
		.handle = config->handle,
		.arg = config->arg,
		.fd = -1,
		.outbox = o,
	};
	for (size_t i = 0; i < N_RANKS; i++)
		TAILQ_INIT(&s->lists[i]);

	if (!config->tls.is_plain && !tls_server_new(&config->tls, config->clock, &s->tls, err))
		return false;
	o->fd = wake_open();
	if (o->fd < 0)
		return err_errno(err, errno, "eventfd");
	if (!server_listen(s, config, err))
		return false;
	event_assign(&s->accepting, s->loop, s->fd, EV_READ | EV_PERSIST, server_on_accept, s);
	event_assign(&s->resuming, s->loop, -1, 0, server_on_resume, s);
	event_assign(&s->answering, s->loop, o->fd, EV_READ | EV_PERSIST, server_on_answers, s);
	event_add(&s->accepting, NULL);
	event_add(&s->answering, NULL);
	*ret = TAKE(s);
	return true;
}

void
server_free(struct server *s)
{
	if (!s)
		return;
	if (event_initialized(&s->accepting)) { /* the server was opened */
		event_del(&s->accepting);
		event_del(&s->resuming);
		event_del(&s->answering);
	}
	for (size_t i = 0; i < N_RANKS; i++) {
		while (!TAILQ_EMPTY(&s->lists[i]))
			connection_free(TAILQ_FIRST(&s->lists[i]));
	}
	outbox_close(s->outbox);
	if (s->fd >= 0)
		close(s->fd);
	tls_server_free(s->tls);
	free(s);
}

int
server_port(const struct server *s)
{
	return s->port;
}

void
server_reload(struct server *s)
{
	if (s->tls)
		tls_server_reload(s->tls);
}
