/* serve/connection.c: one client, from accept to close.
 *
 * 	HANDSHAKE -> HEAD -> BODY -> PENDING -> WRITING -> IDLE -> HEAD ...
 * 	                                           |
 * 	                                           +-> CLOSING
 *
 * A connection has a state, one deadline for that state, and the event of its socket that it waits
 * for. The deadline is set when the state begins, and bytes that arrive do not move it: otherwise a
 * client could keep a connection without limit by sending one byte now and then. Every deadline
 * closes the connection without an answer.
 *
 * In PENDING a handler has the request. Nothing is read then, so what a client sends ahead stays in
 * the kernel's buffer. A connection gets at most one request served in a turn of the loop, so that
 * pipelined requests cannot keep the loop from other connections.
 */
#include <errno.h>
#include <openssl/err.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "http/http.h"
#include "serve/internal.h"

enum {
	READ_BYTES = 4096,
	MAX_DISCARDS = 16, /* how often bytes are read and discarded in one turn of the loop */
	/* after this many at the same time, freed memory is returned to the kernel */
	MANY_CONNECTIONS = 16,
};

enum io {
	IO_DONE,
	IO_WANTS_READ,
	IO_WANTS_WRITE,
	IO_ENDED, /* closed, broken, or not TLS */
};

/* ---- bytes ---- */

static enum io
tls_outcome(struct connection *c, int result)
{
	if (result > 0)
		return IO_DONE;
	switch (SSL_get_error(c->ssl, result)) {
	case SSL_ERROR_WANT_READ:
		return IO_WANTS_READ;
	case SSL_ERROR_WANT_WRITE:
		return IO_WANTS_WRITE;
	default:
		return IO_ENDED;
	}
}

static enum io
plain_outcome(ssize_t result, enum io wants)
{
	if (result > 0)
		return IO_DONE;
	return result < 0 && (errno == EAGAIN || errno == EINTR) ? wants : IO_ENDED;
}

static enum io
connection_read(struct connection *c)
{
	size_t n = 0;
	enum io io;

	if (!buf_reserve(&c->in, READ_BYTES))
		return IO_ENDED;
	if (c->ssl) {
		ERR_clear_error();
		io = tls_outcome(c, SSL_read_ex(c->ssl, c->in.ptr + c->in.len, READ_BYTES, &n));
	} else {
		ssize_t got = recv(c->fd, c->in.ptr + c->in.len, READ_BYTES, 0);

		io = plain_outcome(got, IO_WANTS_READ);
		n = got > 0 ? (size_t)got : 0;
	}
	buf_grown(&c->in, n);
	return io;
}

static enum io
connection_write(struct connection *c, const char *bytes, size_t len, size_t *ret_n)
{
	ssize_t put;

	if (c->ssl) {
		ERR_clear_error();
		return tls_outcome(c, SSL_write_ex(c->ssl, bytes, len, ret_n));
	}
	put = send(c->fd, bytes, len, MSG_NOSIGNAL);
	*ret_n = put > 0 ? (size_t)put : 0;
	return plain_outcome(put, IO_WANTS_WRITE);
}

/* ---- states ---- */

static const enum connection_rank ranks[] = {
	[CONNECTION_HANDSHAKE] = RANK_WAITING, [CONNECTION_IDLE] = RANK_IDLE,
	[CONNECTION_HEAD] = RANK_WAITING,      [CONNECTION_BODY] = RANK_WAITING,
	[CONNECTION_PENDING] = RANK_PENDING,   [CONNECTION_WRITING] = RANK_WAITING,
	[CONNECTION_CLOSING] = RANK_IDLE,
};

/* deadline_ms: 0: the deadline stays as it is. */
static void
connection_enter(struct connection *c, enum connection_state state, int64_t deadline_ms)
{
	struct timeval tv = { .tv_sec = deadline_ms / MS_PER_SEC,
		              .tv_usec = deadline_ms % MS_PER_SEC * 1000 };

	TAILQ_REMOVE(c->list, c, link);
	c->state = state;
	c->list = &c->server->lists[ranks[state]];
	TAILQ_INSERT_TAIL(c->list, c, link);
	if (deadline_ms > 0)
		event_add(&c->timer, &tv);
}

/* Closes our direction and waits for the client to close its own. close() would make the kernel
 * answer further bytes of the client with a reset, and the client may see the reset before it has
 * read our answer. */
static void
connection_begin_close(struct connection *c)
{
	ERR_clear_error();
	if (c->ssl && SSL_is_init_finished(c->ssl))
		(void)SSL_shutdown(c->ssl);
	(void)shutdown(c->fd, SHUT_WR);
	buf_fini(&c->in);
	buf_fini(&c->out);
	connection_enter(c, CONNECTION_CLOSING, c->server->limits.linger_ms);
}

/* ---- steps: each does what it can, and returns what it waits for ---- */

/* A client that sends plain HTTP to this port gets an answer that explains it, as from Go's
 * net/http (server.go, conn.serve). */
static enum io
connection_shake_hands(struct connection *c)
{
	static const char plain_refusal[] = "HTTP/1.0 400 Bad Request\r\n\r\n"
					    "Client sent an HTTP request to an HTTPS server.\n";
	enum io io = IO_DONE;
	unsigned long code;

	if (c->ssl) {
		ERR_clear_error();
		io = tls_outcome(c, SSL_do_handshake(c->ssl));
	}
	if (io == IO_DONE)
		connection_enter(c, CONNECTION_HEAD, /*deadline_ms=*/0);
	code = ERR_peek_error();
	if (io != IO_ENDED || ERR_GET_LIB(code) != ERR_LIB_SSL ||
	    ERR_GET_REASON(code) != SSL_R_HTTP_REQUEST)
		return io;
	(void)send(c->fd, plain_refusal, sizeof(plain_refusal) - 1, MSG_NOSIGNAL);
	connection_begin_close(c);
	return IO_DONE;
}

static void
connection_refuse(struct connection *c, int status)
{
	char memory[64] = "";
	struct buf text = BUF_FIXED(memory); /* "400 Bad Request" */

	buf_addf(&text, "%d %s\n", status, http_status(status).text);
	answer_write(&c->out, &(struct server_response){ .status = status, .body = buf_str(&text) },
	             clock_wall(c->server->clock), /*is_head=*/false, /*closes=*/true);
	c->closes = true;
	connection_enter(c, CONNECTION_WRITING, c->server->limits.write_ms);
}

/* Passes the whole request to the handler. Bytes of a further request stay in c->in. */
static void
connection_hand_over(struct connection *c)
{
	struct server *s = c->server;
	struct server_request *r;
	int status = s->n_requests < s->limits.n_requests ? request_new(c, &r) : 503;

	if (status != 0) {
		connection_refuse(c, status);
		return;
	}
	buf_consume(&c->in, c->wanted);
	c->closes = !r->head.keeps_alive;
	c->request = r;
	s->n_requests++;
	event_del(&c->timer);
	connection_enter(c, CONNECTION_PENDING, /*deadline_ms=*/0);
	s->handle(s->arg, r);
}

/* Refuses the request, waits for more of its head, or begins its body, which gets a deadline of its
 * own. If "100 Continue" does not fit into the socket's buffer, the connection is closed: that
 * happens only to a client that does not read. */
static enum io
connection_parse_head(struct connection *c)
{
	static const char go_ahead[] = "HTTP/1.1 100 Continue\r\n\r\n";
	struct head head;
	int status = head_parse(buf_str(&c->in), c->n_searched, &head);
	size_t n = 0;

	c->n_searched = c->in.len;
	if (status > 0)
		connection_refuse(c, status);
	if (status != HEAD_WHOLE)
		return IO_DONE;
	c->wanted = head.len + head.body_len;
	if (c->in.len >= c->wanted)
		return IO_DONE;
	connection_enter(c, CONNECTION_BODY, c->server->limits.headers_ms);
	if (!head.expects_continue)
		return IO_DONE;
	(void)connection_write(c, go_ahead, sizeof(go_ahead) - 1, &n);
	return n == sizeof(go_ahead) - 1 ? IO_DONE : IO_ENDED;
}

/* Bytes that arrived together with the previous request are parsed before anything is read: they
 * are in c->in already, so the socket does not become readable for them. */
static enum io
connection_read_request(struct connection *c)
{
	enum io io = IO_DONE;

	if (c->state == CONNECTION_HEAD && c->wanted == 0 && c->in.len > 0)
		io = connection_parse_head(c);
	if (io != IO_DONE || c->state == CONNECTION_WRITING) /* or the request was refused */
		return io;
	if (c->wanted > 0 && c->in.len >= c->wanted) {
		connection_hand_over(c);
		return IO_DONE;
	}
	io = connection_read(c);
	if (c->in.len == 0 && io != IO_DONE)
		buf_fini(&c->in);
	/* the first bytes of another request */
	if (c->state == CONNECTION_IDLE && c->in.len > 0)
		connection_enter(c, CONNECTION_HEAD, c->server->limits.headers_ms);
	return io;
}

static enum io
connection_write_answer(struct connection *c)
{
	size_t n = 0;
	enum io io = connection_write(c, c->out.ptr + c->n_sent, c->out.len - c->n_sent, &n);

	c->n_sent += n;
	if (io != IO_DONE || c->n_sent < c->out.len)
		return io;
	if (c->closes) {
		connection_begin_close(c);
		return IO_DONE;
	}
	buf_fini(&c->out);
	c->n_sent = c->wanted = c->n_searched = 0;
	if (c->in.len > 0) {
		connection_enter(c, CONNECTION_HEAD, c->server->limits.headers_ms);
	} else {
		buf_fini(&c->in);
		connection_enter(c, CONNECTION_IDLE, c->server->limits.idle_ms);
	}
	return IO_DONE;
}

static enum io
connection_discard(struct connection *c)
{
	char bytes[READ_BYTES];
	enum io io = IO_DONE;

	for (int i = 0; i < MAX_DISCARDS && io == IO_DONE; i++)
		io = plain_outcome(recv(c->fd, bytes, sizeof(bytes), 0), IO_WANTS_READ);
	return io == IO_DONE ? IO_WANTS_READ : io;
}

/* ---- turns of the loop ---- */

static void connection_on_ready(evutil_socket_t fd, short what, void *arg);

static enum io
connection_step(struct connection *c)
{
	switch (c->state) {
	case CONNECTION_HANDSHAKE:
		return connection_shake_hands(c);
	case CONNECTION_IDLE:
	case CONNECTION_HEAD:
	case CONNECTION_BODY:
		return connection_read_request(c);
	case CONNECTION_WRITING:
		return connection_write_answer(c);
	case CONNECTION_CLOSING:
		return connection_discard(c);
	case CONNECTION_PENDING: /* nothing happens until connection_answer() */
		break;
	}
	return IO_DONE;
}

static void
connection_wait_for(struct connection *c, short what)
{
	event_assign(&c->ready, c->server->loop, c->fd, what, connection_on_ready, c);
	event_add(&c->ready, NULL);
}

static void
connection_run(struct connection *c)
{
	enum io io = IO_DONE;

	while (io == IO_DONE && c->state != CONNECTION_PENDING)
		io = connection_step(c);
	if (io == IO_ENDED)
		connection_free(c);
	else if (io != IO_DONE)
		connection_wait_for(c, io == IO_WANTS_READ ? EV_READ : EV_WRITE);
}

static void
connection_on_ready(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	connection_run(arg);
}

static void
connection_on_deadline(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	connection_free(arg);
}

void
connection_answer(struct connection *c)
{
	c->request = NULL;
	connection_enter(c, CONNECTION_WRITING, c->server->limits.write_ms);
	connection_run(c);
}

/* ---- life cycle ---- */

void
connection_new(struct server *s, int fd, const struct sockaddr_storage *peer)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)peer;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)peer;
	struct connection *c = xcalloc(1, sizeof(*c));

	*c = (struct connection){
		.server = s,
		.fd = fd,
		.ssl = s->tls ? tls_server_accept(s->tls, fd) : NULL,
		.in = BUF_INIT(LIMIT_SERVER_HEADERS + LIMIT_SERVER_BODY + READ_BYTES),
		.out = BUF_INIT(SIZE_MAX / 2),
		.list = &s->lists[RANK_WAITING],
	};
	if (peer->ss_family == AF_INET)
		inet_ntop(AF_INET, &v4->sin_addr, c->peer, sizeof(c->peer));
	else if (peer->ss_family == AF_INET6)
		inet_ntop(AF_INET6, &v6->sin6_addr, c->peer, sizeof(c->peer));
	if (ip_parse(str_c(c->peer), &c->source))
		c->source = ip_source(&c->source);
	event_assign(&c->ready, s->loop, fd, EV_READ, connection_on_ready, c);
	event_assign(&c->timer, s->loop, -1, 0, connection_on_deadline, c);
	TAILQ_INSERT_TAIL(c->list, c, link);
	s->n_connections++;
	if (s->n_connections > s->n_peak)
		s->n_peak = s->n_connections;
	connection_enter(c, CONNECTION_HANDSHAKE, s->limits.headers_ms);
	connection_run(c);
}

void
connection_free(struct connection *c)
{
	struct server *s = c->server;

	if (c->request)
		c->request->connection = NULL;
	TAILQ_REMOVE(c->list, c, link);
	event_del(&c->ready);
	event_del(&c->timer);
	SSL_free(c->ssl);
	close(c->fd);
	buf_fini(&c->in);
	buf_fini(&c->out);
	free(c);
	s->n_connections--;
	/* many handshakes at the same time leave about 60 kB each in the allocator; a probe now and
	 * then does not */
	if (s->n_peak >= MANY_CONNECTIONS && s->n_connections <= MANY_CONNECTIONS / 4) {
		s->n_peak = s->n_connections;
		thread_trim();
	}
}

static size_t
connection_count_source(const struct server *s, const struct ip *source)
{
	const struct connection *c;
	size_t n = 0;

	for (size_t i = 0; i < N_RANKS; i++) {
		TAILQ_FOREACH(c, &s->lists[i], link)
			n += ip_eq(&c->source, source);
	}
	return n;
}

/* Closes a connection of the address that has the most, so that one client cannot displace all
 * others. Connections whose request waits for a handler stay: if new connections closed them,
 * clients that connect most often would win. */
bool
connection_evict(struct server *s)
{
	struct connection *c, *victim = NULL;
	size_t most = 0;

	for (size_t i = 0; i < RANK_PENDING; i++) {
		TAILQ_FOREACH(c, &s->lists[i], link) {
			size_t n = connection_count_source(s, &c->source);

			if (n > most) {
				victim = c;
				most = n;
			}
		}
	}
	if (!victim)
		return false;
	connection_free(victim);
	return true;
}
