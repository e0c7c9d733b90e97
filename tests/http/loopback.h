/* tests/http/loopback.h: a small HTTP server in threads of this process, which answers as a test
 * wants.
 *
 * One thread a connection, so that a handler may be slow, silent or rude. Handlers run on those
 * threads: they must not assert.
 */
#ifndef CCMD_TESTS_NET_LOOPBACK_H
#define CCMD_TESTS_NET_LOOPBACK_H

#include <openssl/ssl.h>

#include "base/buf.h"
#include "base/secret.h"

struct loopback;

/* A request as it came in. */
struct visit {
	struct loopback *server;
	void *arg;
	int fd;
	SSL *ssl;         /* NULL: plain */
	int connection;   /* from 1 */
	int request;      /* on this connection, from 1 */
	int all;          /* on this server, from 1 */
	struct buf bytes; /* head and body */
	struct str head;
	struct str body;
};

/* False closes the connection. */
typedef bool (*loopback_fn)(struct visit *v);

struct identity {
	struct buf cert_pem;
	struct secret key_pem;
};

/** A key and a certificate signed with it, for localhost, 127.0.0.1 and api.test. */
void identity_init(struct identity *ret);
void identity_fini(struct identity *id);

/** identity NULL: plain http. Client certificates are asked for, and any is taken. */
struct loopback *loopback_new(loopback_fn handle, void *arg, const struct identity *identity);
void loopback_free(struct loopback *server);
int loopback_port(const struct loopback *server);
int loopback_connections(struct loopback *server); /* ever made */
int loopback_open(struct loopback *server);        /* now */
int loopback_requests(struct loopback *server);

/** False when the client is gone. */
bool visit_write(struct visit *v, struct str bytes);
bool visit_writes(struct visit *v, const char *text);
/** A whole answer: visit_reply(v, "200 OK", "X-A: b\r\n", "body") */
bool visit_reply(struct visit *v, const char *status, const char *headers, const char *body);
/** Has the head this line? Compared as it is, without regard for case. */
bool visit_has(const struct visit *v, const char *line);
/** Waits until the client closes; for handlers that never answer. */
void visit_wait_gone(struct visit *v);

#endif
