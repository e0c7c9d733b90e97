/* token.h: the access token of the Brightbox API, which is requested with the credentials by OAuth
 * 2 (RFC 6749) and is valid for two hours (docs/spec/brightbox.md, "Authentication").
 *
 * All requests share one token. The caller that finds it missing or about to expire renews it, on
 * its own thread; the others wait for that result. When the API refuses a token that has not
 * expired, it is renewed once and the request is sent again. Credentials that come from files are
 * read again before each request. If they have changed, a new token is requested; until the API has
 * given it, the old one stays in use while it is valid.
 *
 * Threads: any.
 */
#ifndef CCMD_BRIGHTBOX_TOKEN_H
#define CCMD_BRIGHTBOX_TOKEN_H

#include "cloud/host.h"
#include "http/http.h"
#include "providers/brightbox/config.h"

#define BB_TOKEN_TARGET "/token/"

struct bb_token; /* opaque */

/** No request is made yet. config is borrowed, and its credentials are read and changed only here
 * from now on. ERR_INVALID: the URL cannot be used. */
NODISCARD bool bb_token_new(const struct cloud_host *host, struct bb_config *config,
                            struct bb_token **ret, struct error *err);
void bb_token_free(struct bb_token *); /* NULL is fine */
DEFINE_CLEANUP(struct bb_token, bb_token_free)

/** For http_config.auth; lives as long as the token. */
struct http_auth *bb_token_auth(struct bb_token *);

/** Requests a token unless there is one, to find out at the start whether the credentials are
 * valid. ERR_UNAUTHORIZED: they are not. */
NODISCARD bool bb_token_fetch(struct bb_token *, struct call *, struct error *err);

#endif
