/* kube/credentials.h: the Authorization header of our requests, kept up to date.
 *
 * A token file is read again when the last read is 50 s old, and immediately after a 401. If a read
 * fails or the file is empty, the last good token stays in use, and a warning is logged at a
 * limited rate. Implements struct http_auth. Threads: any.
 */
#ifndef CCMD_KUBE_CREDENTIALS_H
#define CCMD_KUBE_CREDENTIALS_H

#include "kube/config.h"
#include "http/http.h"

struct credentials;

/** ERR_NOT_FOUND, ERR_FORBIDDEN or ERR_INVALID when the token file cannot be read or is empty.
 * Credentials are never sent over plain http: a warning is logged, and authorize() adds nothing. */
NODISCARD bool credentials_new(const struct kube_config *config, struct clock *clock,
                               struct credentials **ret, struct error *err);
/** Exchanges the credentials with those of fresh, which was created from a newer configuration. The
 * caller then frees fresh, with the old credentials. */
void credentials_adopt(struct credentials *, struct credentials *fresh);
void credentials_free(struct credentials *);
DEFINE_CLEANUP(struct credentials, credentials_free)

struct http_auth *credentials_auth(struct credentials *);

#endif
