/* serve/internal.h: what the files of the server share.
 *
 * 	server.c       life, the listener, answers that come back from handlers
 * 	connection.c   one connection: its states, its deadlines, which one is closed if there are
 * 	               too many
 * 	request.c      what a handler reads and writes
 * 	head.c         the head of a request: a pure function
 * 	tls.c          the TLS context, certificates, and which one is used for a name
 * 	self_signed.c  a certificate if none is configured
 * 	trust.c        the user name and groups of a client certificate
 *
 * libevent's evhttp is not used. In version 2.1 it hides a connection until its first request is
 * complete, and does not show when it ends. So neither a bound on the number of connections nor one
 * deadline for handshake and head can be kept. Its time-outs start again with each byte, a NUL cuts
 * a header's value, and its own refusals are HTML that no handler sees. The part of HTTP that is
 * needed here (heads of bounded size, lengths, no chunks) is one pure function. libevent's loop and
 * timers are used.
 */
#ifndef CCMD_SERVE_INTERNAL_H
#define CCMD_SERVE_INTERNAL_H

#include <arpa/inet.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/queue.h>

#include "base/ip.h"
#include "base/ref.h"
#include "base/secret.h"
#include "base/thread.h"
#include "serve/head.h"
#include "serve/server.h"

struct server_limits {
	unsigned n_connections;
	unsigned n_requests; /* that handlers have */
	int64_t headers_ms;  /* from accept to the last header; the same again for the body */
	int64_t write_ms;    /* until the client has read an answer */
	int64_t idle_ms;     /* between requests */
	int64_t linger_ms;   /* after the last answer, until the client closes */
	int64_t lookup_ms;   /* to resolve the name of the address to listen on */
};

extern const struct server_limits server_limits; /* from base/limits.h */

/* Where answers wait for the loop. It lives until the last request is answered, so that another
 * thread can answer after the server was freed. */
struct outbox {
	struct ref refs; /* of the server and of each request */
	pthread_mutex_t mu;
	STAILQ_HEAD(, server_request) answered; /* mu */
	int fd;                                 /* mu; a wake; -1: the server is gone */
};

void outbox_unref(struct outbox *o);

struct tls_server;

enum connection_state {
	CONNECTION_HANDSHAKE,
	CONNECTION_IDLE, /* between requests */
	CONNECTION_HEAD,
	CONNECTION_BODY,
	CONNECTION_PENDING, /* a handler has the request */
	CONNECTION_WRITING,
	CONNECTION_CLOSING, /* all is sent; waiting for the client to close */
};

TAILQ_HEAD(connections, connection);

struct connection {
	TAILQ_ENTRY(connection) link;
	struct connections *list; /* of server->lists */
	struct server *server;
	SSL *ssl; /* NULL: plain */
	struct event ready, timer;
	struct buf in, out;
	size_t n_sent;                  /* of out */
	size_t n_searched;              /* bytes of in that were searched for the end of the head */
	size_t wanted;                  /* bytes of the whole request; 0: not known yet */
	struct server_request *request; /* PENDING */
	enum connection_state state;
	int fd;
	bool closes; /* after the answer */
	char peer[INET6_ADDRSTRLEN];
	struct ip source; /* ip_source() of the peer */
};

/* The order in which connections are closed if there are too many; in each rank, the one that has
 * been in it for longest comes first. */
enum connection_rank {
	RANK_IDLE,    /* has no request */
	RANK_WAITING, /* the client has to send or to read bytes */
	RANK_PENDING, /* its request waits for a handler; never closed for another connection */
	N_RANKS,
};

struct server {
	struct server_limits limits;
	struct event_base *loop;
	struct clock *clock;
	void (*handle)(void *arg, struct server_request *);
	void *arg;
	struct tls_server *tls; /* NULL: plain */
	struct outbox *outbox;
	struct event accepting, resuming, answering;
	struct connections lists[N_RANKS];
	unsigned n_connections;
	unsigned n_peak;     /* most connections since memory was last given back */
	unsigned n_requests; /* that handlers have, including those of closed connections */
	int fd;
	int port;
};

/** Takes over the descriptor. */
void connection_new(struct server *s, int fd, const struct sockaddr_storage *peer);
void connection_free(struct connection *c);
/** Closes one connection to make room for another; false if the requests of all connections wait
 * for a handler. */
bool connection_evict(struct server *s);
/** Sends c->out, the answer to the pending request; then closes c, or waits for the next request,
 * as c->closes says. May free c. */
void connection_answer(struct connection *c);

/** Makes a request of the first c->wanted bytes of c->in, which it copies. Returns 0, or the status
 * to refuse it with. */
int request_new(struct connection *c, struct server_request **ret);
void request_free(struct server_request *r);

/** Appends an answer; NULL headers are none. */
void answer_write(struct buf *b, const struct server_response *response, int64_t wall_ns,
                  bool is_head, bool closes);

struct server_request {
	STAILQ_ENTRY(server_request) link; /* outbox->mu */
	struct server *server;
	struct outbox *outbox;
	struct clock *clock;
	struct connection *connection; /* only for the loop's thread; NULL once it is gone */
	char *bytes;                   /* head and body; the path is decoded in place */
	struct head head;
	struct str path, body;
	X509 *certificate; /* NULL: the client sent none */
	STACK_OF(X509) * chain;
	struct buf answer; /* head and body, after server_reply() */
	char peer[INET6_ADDRSTRLEN];
};

/* ---- TLS: one context, and the server's certificates; on the loop's thread ---- */

/** Copies what it needs. ERR_INVALID, ERR_NOT_FOUND and ERR_FORBIDDEN name the file or the list. */
NODISCARD bool tls_server_new(const struct server_tls *config, struct clock *clock,
                              struct tls_server **ret, struct error *err);
void tls_server_free(struct tls_server *t);
/** Reads changed files again, and renews a self-signed certificate that is old. */
void tls_server_reload(struct tls_server *t);
/** A session for an accepted socket. */
SSL *tls_server_accept(struct tls_server *t, int fd);

/* ---- a certificate if none is configured ---- */

/** A P-256 key and its certificate for these host names and addresses (NULL at the end), valid from
 * an hour before wall_ns for a year (docs/spec/framework.md, "Self-signed certificate").
 * ERR_INVALID: a name is not a host name or address. */
NODISCARD bool self_signed_new(const char *const *names, int64_t wall_ns, X509 **ret_cert,
                               EVP_PKEY **ret_key, struct error *err);
/** Was it made by self_signed_new(), in any process, and is more than 80 % of its life over? */
bool self_signed_is_due(const X509 *cert, int64_t wall_ns);
/** As PEM. */
void self_signed_write(X509 *cert, EVP_PKEY *key, struct buf *ret_cert, struct secret *ret_key);

#endif
