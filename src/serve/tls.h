/* serve/tls.h: TLS for serve/server.h: one context, and the server's certificates.
 *
 * Threads: the loop's.
 */
#ifndef CCMD_SERVE_TLS_H
#define CCMD_SERVE_TLS_H

#include <openssl/ssl.h>

#include "serve/server.h"

struct tls_server;

/** Copies what it needs. ERR_INVALID, ERR_NOT_FOUND and ERR_FORBIDDEN name the file or the list. */
NODISCARD bool tls_server_new(const struct server_tls *config, struct clock *clock,
                              struct tls_server **ret, struct error *err);
void tls_server_free(struct tls_server *t);
/** Reads changed files again, and renews a self-signed certificate that is old. */
void tls_server_reload(struct tls_server *t);
/** A session for an accepted socket. */
SSL *tls_server_accept(struct tls_server *t, int fd);

#endif
