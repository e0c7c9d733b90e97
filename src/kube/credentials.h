/* kube/credentials.h: the Authorization header of our requests, kept fresh.
 *
 * A token file is read again when the last read is 50 s old, and at once after a 401. A failed or
 * empty read keeps the last good token and is logged at a limited rate. Implements struct
 * http_auth. Threads: any.
 */
#ifndef CCMD_KUBE_CREDENTIALS_H
#define CCMD_KUBE_CREDENTIALS_H

#include "kube/config.h"
#include "http/http.h"

struct credentials;

/** ERR_NOT_FOUND, ERR_FORBIDDEN, ERR_INVALID when the token file cannot be read now or is empty.
 * Over plain http no credential is ever sent: a warning is logged, and authorize() adds nothing. */
NODISCARD bool credentials_new(const struct kube_config *config, struct clock *clock,
                               struct credentials **ret, struct error *err);
/** Takes over the credentials of fresh, which was created from another configuration, and leaves
 * the old ones in fresh. */
void credentials_adopt(struct credentials *, struct credentials *fresh);
void credentials_free(struct credentials *);
DEFINE_CLEANUP(struct credentials, credentials_free)

struct http_auth *credentials_auth(struct credentials *);

#endif
