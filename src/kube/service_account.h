/* kube/service_account.h: tokens of a service account of kube-system (docs/spec/framework.md,
 * "Service accounts").
 * Tokens are requested with TokenRequest, for an hour, with the credentials of the given client.
 * The account and its namespace are created if they are missing. When a fifth of a token's life is
 * left, the first request that needs it renews it, while other requests continue with the old one.
 *
 * Threads: any.
 */
#ifndef CCMD_KUBE_SERVICE_ACCOUNT_H
#define CCMD_KUBE_SERVICE_ACCOUNT_H

#include "kube/client.h"

struct service_account;

/** name and client must outlive it. */
struct service_account *service_account_new(const char *name, struct kube_client *client,
                                            struct clock *clock);
/** NULL is allowed. */
void service_account_free(struct service_account *);
DEFINE_CLEANUP(struct service_account, service_account_free)

/** Appends a valid token. *ret_generation changes with it. ERR_UNAUTHORIZED, with the reason, after
 * four failed attempts to get one; ERR_TIMEOUT; ERR_CANCELLED. */
NODISCARD bool service_account_token(struct service_account *, const struct call *call,
                                     struct buf *ret, uint64_t *ret_generation, struct error *err);

/** Reports that the server refused that generation. True if a new token should be requested, which
 * is the case at most once a second. */
bool service_account_rejected(struct service_account *, uint64_t generation);

#endif
