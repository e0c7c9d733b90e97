/* base/resolve.h: the addresses of a host name, by the system's resolver and in bounded time.
 *
 * getaddrinfo() has no deadline, and a silent name server blocks it for half a minute. So it runs
 * on a thread of its own, which is left running when it takes too long: its result is dropped then.
 * At most LIMIT_LOOKUPS such threads exist.
 *
 * Threads: any.
 */
#ifndef CCMD_BASE_RESOLVE_H
#define CCMD_BASE_RESOLVE_H

#include "base/cancel.h"
#include "base/ip.h"

enum {
	RESOLVE_MAX = 16, /* addresses of a name; others are not returned */
};

/** Resolves a name, or reads an address. The addresses are in the resolver's order.
 *
 * @param cancel  NULL: the look-up cannot be cancelled
 * @return  true with at least one address. On false, err->code is
 *          ERR_TIMEOUT      it took longer than timeout_ms
 *          ERR_CANCELLED
 *          ERR_UNAVAILABLE  too many lookups run already
 *          ERR_INVALID      the resolver failed, or the name does not exist; the message has
 *                           the resolver's text
 */
NODISCARD bool resolve_host(struct str name, int64_t timeout_ms, struct cancel *cancel,
                            struct ip ret[RESOLVE_MAX], size_t *ret_n, struct error *err);

#endif
