/* tests/simulation/serve_model.c: puts a model on a loopback port, so that a test can compare its
 * answers with those of the real server.
 *
 *     serve_model kube|hetzner|former-hetzner|brightbox|example PORT [TOKEN]
 *
 * former-hetzner deletes balancers without an action, as the API did until October 2026.
 *
 * It speaks as much HTTP/1.1 as the clients of the tests: requests with Content-Length, answers
 * with Content-Length, and streams in chunks. Connections are kept. It prints its port once it
 * listens (0: a free one), and ends when its standard input does.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "brightbox.h"
#include "example.h"
#include "hetzner.h"
#include "kube.h"

enum {
	MAX_MESSAGE = 1 << 26,
	READ_SIZE = 1 << 16,
	SEED = 1,
};

struct client {
	int fd;
	struct buf in, out;
	uint64_t stream; /* 0: none is open */
};

static struct client *clients;
static size_t n_clients, cap_clients;
static uint64_t last_id;

__attribute__((noreturn)) static void
fail(const char *what)
{
	perror(what);
	exit(1);
}

/* ---- answers ---- */

static struct client *
find_stream(uint64_t stream)
{
	for (size_t i = 0; i < n_clients; i++) {
		if (clients[i].stream == stream)
			return &clients[i];
	}
	return NULL;
}

static void
add_chunk(struct client *client, struct str bytes)
{
	if (bytes.len == 0)
		return;
	buf_addf(&client->out, "%zx\r\n", bytes.len);
	buf_add_str(&client->out, bytes);
	buf_add_c(&client->out, "\r\n");
}

/* The first lines of a stream arrive before its answer is written: handle() keeps them. */
static struct buf early = BUF_INIT(MAX_MESSAGE);

static void
push(void *arg, uint64_t stream, struct str bytes)
{
	struct client *client = find_stream(stream);

	(void)arg;
	if (client)
		add_chunk(client, bytes);
	else
		buf_add_str(&early, bytes);
}

static void
end(void *arg, uint64_t stream)
{
	struct client *client = find_stream(stream);

	(void)arg;
	if (!client)
		return;
	buf_add_c(&client->out, "0\r\n\r\n");
	client->stream = 0;
}

static void
add_answer(struct client *client, uint64_t id, const struct server_response *answer)
{
	buf_addf(&client->out, "HTTP/1.1 %d Answer\r\n", answer->status);
	buf_add_str(&client->out, buf_str(&answer->headers));
	if (!answer->is_stream) {
		buf_addf(&client->out, "Content-Length: %zu\r\n\r\n", answer->body.len);
		buf_add_str(&client->out, buf_str(&answer->body));
		return;
	}
	client->stream = id;
	buf_add_c(&client->out, "Transfer-Encoding: chunked\r\n\r\n");
	add_chunk(client, buf_str(&answer->body));
	add_chunk(client, buf_str(&early));
	buf_reset(&early);
}

/* ---- requests ---- */

/* The header's value; empty: absent. */
static struct str
header(struct str head, const char *name)
{
	struct str line, key, value;

	while (str_split(&head, '\n', &line)) {
		if (str_cut(line, ':', &key, &value) && str_eq_nocase(key, str_c(name)))
			return str_trim(value);
	}
	return STR_EMPTY;
}

/* What follows the scheme, e.g. "Bearer "; empty: the header has another one. */
static struct str
authorization(struct str head, struct str scheme)
{
	struct str value = header(head, "Authorization");

	return str_starts(value, scheme) ? str_skip(value, scheme.len) : STR_EMPTY;
}

static void
serve(struct server *server, struct client *client, struct str head, struct str body)
{
	struct server_response answer = { .headers = BUF_INIT(MAX_MESSAGE),
		                          .body = BUF_INIT(MAX_MESSAGE) };
	struct str first = head, rest, method = STR_EMPTY, target = STR_EMPTY, version;
	char name[16] = "";
	struct server_request request = {
		.id = ++last_id,
		.method = name,
		.accept = header(head, "Accept"),
		.content_type = header(head, "Content-Type"),
		.token = authorization(head, STR("Bearer ")),
		.basic = authorization(head, STR("Basic ")),
		.user_agent = header(head, "User-Agent"),
		.body = body,
	};

	str_cut(head, '\n', &first, &rest);
	str_cut(first, ' ', &method, &rest);
	str_cut(rest, ' ', &target, &version);
	memcpy(name, method.ptr, method.len < sizeof(name) ? method.len : sizeof(name) - 1);
	request.target = target;
	server->ops->advance(server, clock_wall(&clock_real));
	server->ops->handle(server, &request, &answer);
	add_answer(client, request.id, &answer);
	buf_fini(&answer.headers);
	buf_fini(&answer.body);
}

/* Serves the requests that are complete. */
static void
serve_input(struct server *server, struct client *client)
{
	for (;;) {
		struct str all = buf_str(&client->in);
		char *head_end = memmem(all.ptr, all.len, "\r\n\r\n", 4);
		int64_t length = 0;
		size_t head_len;

		if (!head_end)
			return;
		head_len = (size_t)(head_end - all.ptr) + 4;
		if (!str_to_i64(header(str_head(all, head_len), "Content-Length"), 0, MAX_MESSAGE,
		                &length))
			length = 0;
		if (all.len - head_len < (size_t)length)
			return;
		serve(server, client, str_head(all, head_len),
		      str_n(all.ptr + head_len, (size_t)length));
		buf_consume(&client->in, head_len + (size_t)length);
	}
}

/* ---- sockets ---- */

static int
listen_on(const char *port)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	int64_t number = 0;

	if (!str_to_i64(str_c(port), 0, UINT16_MAX, &number))
		fail(port);
	address.sin_port = htons((uint16_t)number);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, (struct sockaddr *)&address, len) < 0 || listen(fd, 16) < 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &len) < 0)
		fail("listen");
	printf("%d\n", ntohs(address.sin_port));
	fflush(stdout);
	return fd;
}

static void
accept_client(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd >= 0)
		ARRAY_PUSH(clients, n_clients, cap_clients,
		           (struct client){ .fd = fd,
		                            .in = BUF_INIT(MAX_MESSAGE),
		                            .out = BUF_INIT(MAX_MESSAGE) });
}

static void
drop_client(struct server *server, size_t i)
{
	struct client *client = &clients[i];

	if (client->stream)
		server->ops->closed(server, client->stream);
	close(client->fd);
	buf_fini(&client->in);
	buf_fini(&client->out);
	clients[i] = clients[--n_clients];
}

/* False: the connection has ended. */
static bool
receive(struct client *client)
{
	ssize_t n;

	if (!buf_reserve(&client->in, READ_SIZE))
		return false;
	n = read(client->fd, client->in.ptr + client->in.len, READ_SIZE);
	if (n > 0)
		buf_grown(&client->in, (size_t)n);
	return n > 0 || (n < 0 && errno == EAGAIN);
}

static bool
transmit(struct client *client)
{
	ssize_t n;

	if (client->out.len == 0)
		return true;
	n = send(client->fd, client->out.ptr, client->out.len, MSG_NOSIGNAL);
	if (n > 0)
		buf_consume(&client->out, (size_t)n);
	return n > 0 || errno == EAGAIN;
}

static int
wait_ms(const struct server *server)
{
	int64_t next_ns = server->ops->next_ns(server), left_ns;

	if (next_ns == CLOCK_FOREVER)
		return -1;
	left_ns = next_ns - clock_wall(&clock_real);
	return left_ns <= 0 ? 0 : (int)(left_ns / 1000000) + 1;
}

/* Waits for input, and serves it. False: standard input has ended. */
static bool
run_once(struct server *server, int listener)
{
	struct pollfd *fds = xcalloc(n_clients + 2, sizeof(*fds));
	size_t n = n_clients;
	bool goes_on;

	fds[0] = (struct pollfd){ .fd = STDIN_FILENO, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = listener, .events = POLLIN };
	for (size_t i = 0; i < n; i++)
		fds[i + 2] = (struct pollfd){
			.fd = clients[i].fd,
			.events = (short)(POLLIN | (clients[i].out.len ? POLLOUT : 0))
		};
	if (poll(fds, n + 2, wait_ms(server)) < 0 && errno != EINTR)
		fail("poll");
	server->ops->advance(server, clock_wall(&clock_real));
	for (size_t i = n; i > 0; i--) {
		short found = fds[i + 1].revents;
		struct client *client = &clients[i - 1];

		if (found & (POLLIN | POLLHUP | POLLERR) && !receive(client)) {
			drop_client(server, i - 1);
			continue;
		}
		serve_input(server, client);
	}
	for (size_t i = n_clients; i > 0; i--) {
		if (!transmit(&clients[i - 1]))
			drop_client(server, i - 1);
	}
	if (fds[1].revents & POLLIN)
		accept_client(listener);
	goes_on = fds[0].revents == 0;
	free(fds);
	return goes_on;
}

/* The project is not empty: the API has no request that makes servers or networks here. */
static struct server *
make_hetzner(int64_t now_ns, struct str token, bool is_former)
{
	static const char *const names[] = { "m1", "m2", "m3" };
	struct hetzner *h = hetzner_new(now_ns, SEED);
	struct hetzner_project *p = hetzner_add_project(h, token);
	struct hetzner_network *net = hetzner_add_network(h, p, STR("net"), STR("10.0.0.0/8"),
	                                                  STR("10.0.0.0/16"));

	p->rate_limit = 1000000;
	hetzner_settings(h)->deletes_without_action = is_former;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		hetzner_add_server(h, p,
		                   &(struct hetzner_new_server){
					   .name = str_c(names[i]),
					   .network = i < 2 ? net : NULL, /* m3 has none */
				   });
	return hetzner_server(h);
}

/* An account with three servers, and an API client whose id and secret are both the token. */
static struct server *
make_brightbox(int64_t now_ns, struct str token)
{
	struct brightbox *b = brightbox_new(now_ns, SEED);
	struct brightbox_account *a = brightbox_add_account(b, "Example");

	brightbox_set_client(b, token.ptr, token.ptr, a);
	brightbox_add_user(b, "user@example.com", token.ptr, a);
	for (int i = 0; i < 3; i++)
		(void)brightbox_add_server(b, a);
	return brightbox_server(b);
}

static struct server *
make_example(int64_t now_ns, struct str token)
{
	struct example *e = example_new(now_ns);

	example_set_token(e, token, example_add_account(e));
	return example_server(e);
}

static struct server *
make_model(const char *kind, struct str token)
{
	int64_t now_ns = clock_wall(&clock_real);
	struct kube_model *kube;

	if (strcmp(kind, "kube") == 0) {
		kube = kube_model_new(now_ns, SEED);
		kube_model_add_token(kube, token);
		return kube_model_server(kube);
	}
	if (strcmp(kind, "hetzner") == 0)
		return make_hetzner(now_ns, token, /*is_former=*/false);
	if (strcmp(kind, "former-hetzner") == 0)
		return make_hetzner(now_ns, token, /*is_former=*/true);
	if (strcmp(kind, "brightbox") == 0)
		return make_brightbox(now_ns, token);
	if (strcmp(kind, "example") == 0)
		return make_example(now_ns, token);
	return NULL;
}

int
main(int argc, char **argv)
{
	struct server *server;
	int listener;

	server = argc < 3 ? NULL : make_model(argv[1], str_c(argc > 3 ? argv[3] : "token"));
	if (!server) {
		fprintf(stderr,
		        "usage: serve_model kube|hetzner|former-hetzner|brightbox|example PORT [TOKEN]\n");
		return 2;
	}
	server->sink = (struct server_sink){ push, end, NULL };
	listener = listen_on(argv[2]);
	while (run_once(server, listener))
		;
	while (n_clients > 0)
		drop_client(server, n_clients - 1);
	free(clients);
	close(listener);
	server->ops->free(server);
	buf_fini(&early);
	return 0;
}
