/* tests/serve/server_world.h: a server on a loop in a thread of its own, and blocking clients for
 * it.
 */
#ifndef CCMD_TESTS_NET_SERVER_WORLD_H
#define CCMD_TESTS_NET_SERVER_WORLD_H

#include <openssl/ssl.h>

#include "serve/internal.h"

/* Paths: "/" answers "ok"; "/echo" with what came in; "/big" with BIG_BYTES; "/later" from another
 * thread; "/hold" when server_world_release() is called; "/verify" with who the certificate says
 * one is. */
struct server_world {
	struct event_base *loop;
	struct event *stopping;
	struct server *server;
	struct server_config config;
	struct server_limits limits;
	struct trust *trust;
	pthread_t thread;
	bool is_running;
	int stop_fd;
	int port;
	pthread_mutex_t mu;
	pthread_cond_t changed;
	struct server_request *held[512]; /* mu */
	size_t n_held;                    /* mu */
	struct error err;
};

enum {
	BIG_BYTES = 8 << 20,
	SOON_MS = 4000, /* a slow machine's; by the server's own deadlines a place becomes free
	                   after 5 s */
};

/** Plain on 127.0.0.1, with the real limits. */
void server_world_init(struct server_world *w);
void server_world_fini(struct server_world *w);

#define SERVER_WORLD(w)                                   \
	CLEANUP(server_world_fini) struct server_world w; \
	server_world_init(&w)

/** Opens the server as w->config and w->limits say, and runs it. */
void server_world_start(struct server_world *w);
/** Waits until so many connections are open. */
void server_world_wait_connections(struct server_world *w, size_t n);
/** Ends the loop and its thread; the server stays. */
void server_world_stop(struct server_world *w);
/** Runs it again. */
void server_world_go_on(struct server_world *w);
/** Waits until so many requests to "/hold" are held. */
void server_world_wait_held(struct server_world *w, size_t n);
/** Answers the pending requests. */
void server_world_release(struct server_world *w);

struct client {
	int fd;
	SSL *ssl; /* NULL: plain */
};

/** Connects; reads that take longer than 15 s fail. */
struct client client_open(int port);
/** From another address of 127.0.0.0/8. */
struct client client_open_from(const char *address, int port);
/** With a handshake: name is for SNI; cert and key may be NULL. False, with *c closed, when it
 * fails. */
bool client_open_tls(int port, SSL_CTX *ctx, const char *name, struct client *ret);
void client_close(struct client *c);
void client_send(struct client *c, const char *text);
/** Reads one answer; its status, 0 when the connection ended first. answer may be NULL. */
int client_answer(struct client *c, struct buf *answer);
/** Waits until the server closes, at most for so long. */
bool client_is_closed(struct client *c, int64_t within_ms);
/** A connection of its own; fails the test unless "/" is answered soon. */
void assert_is_served(const struct server_world *w);
/** Sends the text on a connection of its own, and asserts the status. */
void assert_status(const struct server_world *w, const char *text, int status);

#endif
