/* private_nets.h: the private networks that a server or a balancer is in (hcloud.md 5.2).
 *
 * Threads: plain values, in the arena of whoever read them.
 */
#ifndef CCMD_HCLOUD_PRIVATE_NETS_H
#define CCMD_HCLOUD_PRIVATE_NETS_H

#include "base/json.h"

struct hz_private_net {
	int64_t network;
	struct str ip; /* empty: it has none yet */
};

struct hz_private_nets {
	struct hz_private_net *items;
	size_t n;
};

/** Reads "private_net" of either. What names no network is left out. */
void hz_private_nets_read(struct arena *, yyjson_val *of, struct hz_private_nets *ret);
/** The address in that network; empty: none. */
struct str hz_address_in(const struct hz_private_nets *, int64_t network);

#endif
