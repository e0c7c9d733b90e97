/* domains.h: do the names of a certificate lead to the balancer?
 *
 * Brightbox orders a certificate for them. The order fails if they do not, and certificate
 * authorities limit the number of failed orders. So the names are looked up first, for every
 * Service, as the official controller does.
 *
 * Threads: any. A lookup blocks its caller for 10 s at most, and all lookups of a Service together
 * for 20 s, because their name server may be slow.
 */
#ifndef CCMD_BRIGHTBOX_DOMAINS_H
#define CCMD_BRIGHTBOX_DOMAINS_H

#include "base/call.h"
#include "providers/brightbox/wire.h"

/** Resolves each domain; one of its addresses has to be the cloud IP's.
 *
 * @param hosts_file  of the format of /etc/hosts, looked at before the resolver; empty: none
 * @return  On false, err->code is ERR_INVALID, or as in resolve_host()
 */
NODISCARD bool bb_domains_check(struct call *, struct str hosts_file, const struct bb_cloud_ip *ip,
                                const struct str domains[], size_t n, struct error *err);

#endif
