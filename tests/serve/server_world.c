#include "serve/server_world.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"

enum {
	READ_TIMEOUT_S = 15,
};

/* ---- handlers, on the loop's thread: they must not assert ---- */

static void
reply(struct server_request *r, struct str body)
{
	server_reply(r, &(struct server_response){ .status = 200, .body = body });
}

static void
reply_big(struct server_request *r)
{
	char *bytes = xcalloc(1, BIG_BYTES);

	memset(bytes, 'x', BIG_BYTES);
	reply(r, str_n(bytes, BIG_BYTES));
	free(bytes);
}

static void
reply_echo(struct server_request *r)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MIB(1));
	struct str value;

	buf_addf(&b, "method %d\npath %" STR_FMT "\nquery %" STR_FMT "\npeer %" STR_FMT "\n",
	         (int)server_request_method(r), STR_ARG(server_request_path(r)),
	         STR_ARG(r->head.query), STR_ARG(server_request_peer(r)));
	for (size_t i = 0; server_request_parameter(r, "p", i, &arena, &value); i++)
		buf_addf(&b, "p %zu [%" STR_FMT "]\n", i, STR_ARG(value));
	for (size_t i = 0; server_request_header(r, "x-a", i, &value); i++)
		buf_addf(&b, "x-a %zu [%" STR_FMT "]\n", i, STR_ARG(value));
	buf_addf(&b, "body [%" STR_FMT "]\n", STR_ARG(server_request_body(r)));
	reply(r, buf_str(&b));
}

static void
reply_verify(struct server_world *w, struct server_request *r)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MIB(1));
	struct peer_name name;
	struct error err;

	if (server_request_verify(r, w->trust, &arena, &name, &err)) {
		buf_addf(&b, "CN=%" STR_FMT, STR_ARG(name.common_name));
		for (size_t i = 0; i < name.n_organizations; i++)
			buf_addf(&b, " O=%" STR_FMT, STR_ARG(name.organizations[i]));
	} else {
		buf_addf(&b, "%s: %s", err_code_name(err.code), err.msg);
	}
	buf_addf(&b, " shown=%d", server_request_has_certificate(r));
	reply(r, buf_str(&b));
}

static void *
answer_later(void *arg)
{
	reply(arg, STR("later"));
	return NULL;
}

static void
reply_later(struct server_request *r)
{
	pthread_t thread;

	thread_start(&thread, "later", answer_later, r);
	MUST(pthread_detach(thread));
}

static void
hold(struct server_world *w, struct server_request *r)
{
	WITH_LOCK(&w->mu);
	w->held[w->n_held++] = r;
	cond_broadcast(&w->changed);
}

static void
handle(void *arg, struct server_request *r)
{
	struct str path = server_request_path(r);

	if (str_eq_c(path, "/hold"))
		hold(arg, r);
	else if (str_eq_c(path, "/later"))
		reply_later(r);
	else if (str_eq_c(path, "/verify"))
		reply_verify(arg, r);
	else if (str_eq_c(path, "/big"))
		reply_big(r);
	else if (str_eq_c(path, "/"))
		reply(r, STR("ok"));
	else
		reply_echo(r);
}

/* ---- the world ---- */

static void
on_stop(evutil_socket_t fd, short what, void *arg)
{
	uint64_t count;

	(void)what;
	if (read(fd, &count, sizeof(count)) > 0)
		event_base_loopbreak(arg);
}

static void *
run_loop(void *arg)
{
	event_base_dispatch(arg);
	return NULL;
}

void
server_world_init(struct server_world *w)
{
	signal(SIGPIPE, SIG_IGN);
	*w = (struct server_world){ .limits = server_limits, .stop_fd = eventfd(0, EFD_CLOEXEC) };
	w->loop = event_base_new();
	w->stopping = event_new(w->loop, w->stop_fd, EV_READ | EV_PERSIST, on_stop, w->loop);
	event_add(w->stopping, NULL);
	mutex_init(&w->mu);
	cond_init(&w->changed);
	w->config = (struct server_config){ .address = STR("127.0.0.1"),
		                            .tls.is_plain = true,
		                            .loop = w->loop,
		                            .clock = &clock_real,
		                            .handle = handle,
		                            .arg = w };
}

void
server_world_start(struct server_world *w)
{
	w->config.limits = &w->limits;
	if (!server_new(&w->config, &w->server, &w->err))
		fail_msg("%s", w->err.msg);
	w->port = server_port(w->server);
	server_world_go_on(w);
}

void
server_world_go_on(struct server_world *w)
{
	thread_start(&w->thread, "loop", run_loop, w->loop);
	w->is_running = true;
}

void
server_world_stop(struct server_world *w)
{
	const uint64_t one = 1;

	if (!w->is_running)
		return;
	assert_int_equal(write(w->stop_fd, &one, sizeof(one)), sizeof(one));
	thread_join(w->thread);
	w->is_running = false;
}

/* Between two looks the server has time to do what it is waited for. */
void
server_world_wait_connections(struct server_world *w, size_t n)
{
	int64_t deadline_ns = clock_mono(&clock_real) + READ_TIMEOUT_S * NS_PER_SEC;
	size_t n_now;

	do {
		usleep(10000);
		server_world_stop(w);
		n_now = w->server->n_connections;
		server_world_go_on(w);
	} while (n_now != n && clock_mono(&clock_real) < deadline_ns);
	assert_int_equal(n_now, n);
}

void
server_world_fini(struct server_world *w)
{
	server_world_stop(w);
	server_free(w->server);
	server_world_release(w);
	trust_unref(w->trust);
	event_free(w->stopping);
	event_base_free(w->loop);
	close(w->stop_fd);
	cond_destroy(&w->changed);
	mutex_destroy(&w->mu);
}

void
server_world_wait_held(struct server_world *w, size_t n)
{
	WITH_LOCK(&w->mu);
	while (w->n_held < n)
		(void)clock_wait(&clock_real, &w->changed, &w->mu, CLOCK_FOREVER);
}

void
server_world_release(struct server_world *w)
{
	WITH_LOCK(&w->mu);
	while (w->n_held > 0)
		reply(w->held[--w->n_held], STR("released"));
}

/* ---- clients ---- */

struct client
client_open(int port)
{
	return client_open_from("127.0.0.1", port);
}

struct client
client_open_from(const char *address, int port)
{
	struct sockaddr_in from = { .sin_family = AF_INET };
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	struct client c = { .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };
	struct timeval timeout = { .tv_sec = READ_TIMEOUT_S };

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(inet_pton(AF_INET, address, &from.sin_addr), 1);
	setsockopt(c.fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &(int){ 1 }, sizeof(int));
	assert_int_equal(bind(c.fd, (struct sockaddr *)&from, sizeof(from)), 0);
	setsockopt(c.fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	assert_int_equal(connect(c.fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return c;
}

bool
client_open_tls(int port, SSL_CTX *ctx, const char *name, struct client *ret)
{
	*ret = client_open(port);
	ret->ssl = SSL_new(ctx);
	SSL_set_fd(ret->ssl, ret->fd);
	if (name)
		SSL_set_tlsext_host_name(ret->ssl, name);
	if (SSL_connect(ret->ssl) == 1)
		return true;
	client_close(ret);
	return false;
}

void
client_close(struct client *c)
{
	SSL_free(c->ssl);
	if (c->fd >= 0)
		close(c->fd);
	*c = (struct client){ .fd = -1 };
}

/* A server that closes meanwhile is not a failure here: the test checks the answer, or that there
 * is none. */
void
client_send(struct client *c, const char *text)
{
	if (c->ssl)
		(void)SSL_write(c->ssl, text, (int)strlen(text));
	else
		(void)send(c->fd, text, strlen(text), MSG_NOSIGNAL);
}

/* At most max bytes, and 0 when the connection ended. */
static size_t
read_some(struct client *c, size_t max, struct buf *b)
{
	char bytes[65536];
	size_t len = max < sizeof(bytes) ? max : sizeof(bytes);
	ssize_t n = c->ssl ? SSL_read(c->ssl, bytes, (int)len) : recv(c->fd, bytes, len, 0);

	buf_add(b, bytes, n > 0 ? (size_t)n : 0);
	return n > 0 ? (size_t)n : 0;
}

static bool
is_at_body(const struct buf *b)
{
	return str_ends(buf_str(b), STR("\r\n\r\n"));
}

static size_t
length_of(const struct buf *b)
{
	const char *at = strstr(b->ptr, "Content-Length: ");
	struct str value = str_c(at ? strchr(at, ' ') + 1 : "");
	int64_t len = 0;

	value.len = strcspn(value.ptr, "\r");
	assert_true(!at || str_to_i64(value, 0, BIG_BYTES, &len));
	return (size_t)len;
}

int
client_answer(struct client *c, struct buf *answer)
{
	CLEANUP(buf_fini) struct buf own = BUF_INIT(MIB(9));
	struct buf *b = answer ? answer : &own;
	int64_t status = 0;

	buf_reset(b);
	while (!is_at_body(b)) {
		if (read_some(c, 1, b) == 0)
			return 0;
	}
	assert_true(str_to_i64(str_head(str_skip(buf_str(b), strlen("HTTP/1.1 ")), 3), 100, 599,
	                       &status));
	for (size_t n, left = length_of(b); left > 0; left -= n) {
		n = read_some(c, left, b);
		if (n == 0)
			return 0;
	}
	return (int)status;
}

bool
client_is_closed(struct client *c, int64_t within_ms)
{
	int64_t deadline = clock_mono(&clock_real) + within_ms * NS_PER_MS;
	struct pollfd p = { .fd = c->fd, .events = POLLIN };
	char bytes[4096];

	for (int64_t left; (left = deadline - clock_mono(&clock_real)) > 0;) {
		if (poll(&p, 1, (int)(left / NS_PER_MS) + 1) == 1 &&
		    recv(c->fd, bytes, sizeof(bytes), 0) <= 0)
			return true;
	}
	return false;
}

void
assert_is_served(const struct server_world *w)
{
	int64_t start = clock_mono(&clock_real);

	assert_status(w, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 200);
	assert_true(clock_mono(&clock_real) - start < SOON_MS * NS_PER_MS);
}

void
assert_status(const struct server_world *w, const char *text, int status)
{
	struct client c = client_open(w->port);

	client_send(&c, text);
	assert_int_equal(client_answer(&c, NULL), status);
	client_close(&c);
}
