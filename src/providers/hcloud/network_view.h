/* network_view.h: the private network as it was read last: its routes, and the address of each
 * server in it.
 *
 * The network has a list of attached servers, which shows whether the list of servers is reliable.
 * If that lacks a member, or has it without an address, it was read during a change, or belongs to
 * another project.
 *
 * Threads: the owner's lock.
 */
#ifndef CCMD_HCLOUD_NETWORK_VIEW_H
#define CCMD_HCLOUD_NETWORK_VIEW_H

#include "base/map.h"
#include "cloud/host.h"
#include "providers/hcloud/client.h"
#include "providers/hcloud/config.h"

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
	struct hz_network network; /* as it was read; `routes` above also has our own changes */
	struct map by_ip;          /* members */
	bool is_sure;              /* all servers with an address in the network are members */
	int64_t read_boot_ns;      /* when reading began; -1: never */
	size_t n_pages;            /* of the list of servers */
};

#define HZ_NETWORK_VIEW_INIT ((struct hz_network_view){ .read_boot_ns = -1, .n_pages = 1 })
/** For CLEANUP(hz_network_view_fini). */
void hz_network_view_fini(struct hz_network_view *);

/** Reads it again, as urgent work; twice if the first reading is not sure. On failure the view
 * stays as it was.
 *
 * Cost: two requests, and one more for each further 50 servers of the project. */
NODISCARD bool hz_network_view_read(struct hz_network_view *, struct hz_api *, struct call *call,
                                    int64_t network, struct error *err);

/** Reads the network alone, for a command that sends few requests. The members are the nodes with
 * an InternalIP in the network, so the view is not sure. */
NODISCARD bool hz_network_view_read_nodes(struct hz_network_view *, struct hz_api *,
                                          struct call *call, int64_t network,
                                          const struct cloud_host *host,
                                          const struct hz_dialect *dialect, struct error *err);

/** NULL: not a member. Names are unique in a project. */
const struct hz_member *hz_member_of(const struct hz_network_view *, struct hz_which which);

/** The route to that destination, of which there is at most one; NULL: none. */
const struct hz_route *hz_route_to(const struct hz_network_view *, struct str destination);
/** Notes our own change. Texts are copied. */
void hz_route_added(struct hz_network_view *, const struct hz_route *route);
void hz_route_removed(struct hz_network_view *, const struct hz_route *route);

#endif
