/* kube/service_account.h: tokens of a service account of kube-system (docs/spec/framework.md,
 * "Service accounts").
 *
 * Asked for by TokenRequest, for an hour, with the credentials of the client given; the account and
 * its namespace are made when missing. A token is renewed when a fifth of its life is left, by
 * whoever comes first, while others go on with the old one.
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
/** NULL is fine. */
void service_account_free(struct service_account *);
DEFINE_CLEANUP(struct service_account, service_account_free)

/** Appends a token that holds. *ret_generation changes with it. ERR_UNAUTHORIZED, with the reason,
 * when none could be had in four tries; ERR_TIMEOUT, ERR_CANCELLED. */
NODISCARD bool service_account_token(struct service_account *, const struct call *call,
                                     struct buf *ret, uint64_t *ret_generation, struct error *err);

/** The server refused that generation: true when it is worth to ask for a token once more, which is
 * at most once a second. */
bool service_account_rejected(struct service_account *, uint64_t generation);

#endif
