/* Any bytes of a connection: each request that a handler gets is well formed, each is answered, and
 * nothing is left in the end. The bytes go through a pair of sockets, like those of a plain
 * connection. */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "serve/internal.h"

enum {
	LONGEST = 128 << 10,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
look(const struct server_request *r)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct str value, path = server_request_path(r);

	assert(path.len > 0 && (path.ptr[0] == '/' || str_eq_c(path, "*")));
	assert(memchr(path.ptr, '\0', path.len) == NULL);
	assert(server_request_body(r).len <= LIMIT_SERVER_BODY);
	for (size_t n = 0; server_request_parameter(r, "a", n, &arena, &value); n++)
		assert(str_index(value, '\0') < 0);
	for (size_t i = 0; i < r->head.n_fields; i++) {
		struct str name = r->head.fields[i].name;

		value = r->head.fields[i].value;
		assert(name.len > 0 && str_index(name, ':') < 0);
		assert(str_index(value, '\n') < 0 && str_index(value, '\0') < 0);
	}
}

static void
handle(void *arg, struct server_request *r)
{
	(void)arg;
	look(r);
	server_reply(r, &(struct server_response){ .status = 200, .body = server_request_path(r) });
}

static struct server *
make_server(void)
{
	struct server_config config = { .address = STR("127.0.0.1"),
		                        .tls.is_plain = true,
		                        .loop = event_base_new(),
		                        .clock = &clock_real,
		                        .handle = handle };
	struct server *server;
	struct error err;

	signal(SIGPIPE, SIG_IGN);
	if (!server_new(&config, &server, &err)) {
		fprintf(stderr, "%s\n", err.msg);
		abort();
	}
	return server;
}

/* Sends, takes the answers, and closes when all is sent. */
static void
converse(struct server *server, int fd, const uint8_t *data, size_t size)
{
	char answers[65536];
	size_t sent = 0;

	while (server->n_connections > 0) {
		ssize_t n = sent < size ? send(fd, data + sent, size - sent, MSG_NOSIGNAL) : 0;

		sent += n > 0 ? (size_t)n : 0;
		if (sent == size)
			(void)shutdown(fd, SHUT_WR);
		(void)event_base_loop(server->loop, EVLOOP_NONBLOCK);
		while (recv(fd, answers, sizeof(answers), 0) > 0)
			;
		if (n < 0 && errno == EPIPE)
			sent = size;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct server *server;
	struct sockaddr_storage peer = { .ss_family = AF_INET };
	int pair[2];

	if (!server)
		server = make_server();
	if (size > LONGEST)
		return 0;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
		abort();
	connection_new(server, pair[0], &peer);
	converse(server, pair[1], data, size);
	close(pair[1]);
	assert(server->n_requests == 0);
	return 0;
}
