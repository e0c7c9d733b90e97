/* network_view.h: the private network at one moment: its routes, and which server has which address
 * in it.
 *
 * The network says which servers are attached to it, and so whether the list of servers can be
 * believed: one that lacks a member, or has it without an address, was read at a bad moment, or is
 * not ours.
 *
 * Threads: the owner's lock.
 */
#ifndef CCMD_HCLOUD_NETWORK_VIEW_H
#define CCMD_HCLOUD_NETWORK_VIEW_H

#include "base/map.h"
#include "providers/hcloud/client.h"

/** A server in the network. */
struct hz_member {
	int64_t id;
	struct str name, ip;
};

struct hz_network_view {
	struct arena arena; /* of all texts and members */
	struct hz_route *routes;
	size_t n_routes, cap;
	struct hz_member *members;
	size_t n_members;
	struct map by_ip;
	bool is_sure;         /* whoever is no member has no address in the network */
	int64_t read_boot_ns; /* when reading began; -1: never */
	size_t n_pages;       /* of the list of servers */
};

#define HZ_NETWORK_VIEW_INIT ((struct hz_network_view){ .read_boot_ns = -1, .n_pages = 1 })
/** For CLEANUP(hz_network_view_fini). */
void hz_network_view_fini(struct hz_network_view *);

/** Reads it again, as urgent work; twice where the first reading is not sure. On failure it stays
 * what it was.
 *
 * Cost: two requests, and one more for each further 50 servers of the project. */
NODISCARD bool hz_network_view_read(struct hz_network_view *, struct hz_api *, struct call *call,
                                    int64_t network, struct error *err);

/** NULL: no member. Names are unique in a project. */
const struct hz_member *hz_member_by_id(const struct hz_network_view *, int64_t id);
const struct hz_member *hz_member_by_name(const struct hz_network_view *, struct str name);
const struct hz_member *hz_member_by_ip(const struct hz_network_view *, struct str ip);

/** The route to that destination, of which there is one at most; NULL: none. */
const struct hz_route *hz_route_to(const struct hz_network_view *, struct str destination);
/** What we did: texts are copied. */
void hz_route_added(struct hz_network_view *, const struct hz_route *route);
void hz_route_removed(struct hz_network_view *, const struct hz_route *route);

#endif
