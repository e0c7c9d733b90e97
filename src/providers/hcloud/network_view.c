/* network_view.c: see network_view.h.
 *
 * A reading consists of the network, then all pages of servers. The API has no request for both
 * together, so a server may be attached or deleted in between. The network's own list of attached
 * servers shows that: the view is sure only if each of them is in the list of servers with an
 * address in the network. If the view is not sure, it is read once more; after that the owner has
 * to use a view that is not sure.
 *
 * A reading goes into a fresh view, which replaces the present one only if all requests succeeded.
 */
#include "providers/hcloud/network_view.h"

#include <inttypes.h>

#include "base/array.h"
#include "base/ip.h"
#include "providers/hcloud/api.h"
#include "providers/hcloud/client.h"

enum {
	ATTEMPTS = 2, /* readings, if the first one is not sure */
};

void
hz_network_view_fini(struct hz_network_view *v)
{
	free(v->routes);
	map_fini(&v->by_ip);
	arena_fini(&v->arena);
}

/* ---- finding ---- */

const struct hz_member *
hz_member_of(const struct hz_network_view *v, struct hz_which which)
{
	for (size_t i = 0; i < v->n_members; i++) {
		const struct hz_member *one = &v->members[i];

		if (which.id > 0 ? one->id == which.id : str_eq(one->name, which.name))
			return one;
	}
	return NULL;
}

/* ---- routes ---- */

const struct hz_route *
hz_route_to(const struct hz_network_view *v, struct str destination)
{
	for (size_t i = 0; i < v->n_routes; i++) {
		if (str_eq(v->routes[i].destination, destination))
			return &v->routes[i];
	}
	return NULL;
}

void
hz_route_added(struct hz_network_view *v, const struct hz_route *route)
{
	struct hz_route copy = { arena_str(&v->arena, route->destination),
		                 arena_str(&v->arena, route->gateway) };

	ARRAY_PUSH(v->routes, v->n_routes, v->cap, copy);
}

void
hz_route_removed(struct hz_network_view *v, const struct hz_route *route)
{
	for (size_t i = 0; i < v->n_routes; i++) {
		if (str_eq(v->routes[i].destination, route->destination) &&
		    str_eq(v->routes[i].gateway, route->gateway)) {
			v->routes[i] = v->routes[--v->n_routes];
			return;
		}
	}
}

/* ---- reading ---- */

/* Reads the network into an empty view. */
static bool
hz_view_read_network(struct hz_network_view *v, struct hz_api *api, struct call *call, int64_t id,
                     struct error *err)
{
	v->read_boot_ns = clock_boot(call->clock);
	hz_count_operations("hcloud/reloadNetwork", 1);
	if (!hz_find_network(api, call, &v->arena, HZ_BY_ID(id), /*retries_at_start=*/false,
	                     &v->network, err)) {
		if (err->code == ERR_NOT_FOUND)
			err_wrap(err, "network not found: %" PRId64, id);
		return false;
	}
	for (size_t i = 0; i < v->network.n_routes; i++)
		hz_route_added(v, &v->network.routes[i]);
	return true;
}

static void
hz_view_add_member(struct hz_network_view *v, int64_t id, struct str name, struct str ip)
{
	struct hz_member *member = &v->members[v->n_members++];

	*member = (struct hz_member){ id, arena_str(&v->arena, name), arena_str(&v->arena, ip) };
	map_put(&v->by_ip, member->ip, member);
}

/* A network without any member counts as not sure: it is more likely that the list of servers is
 * that of another project than that a cluster has no server in its network. */
static bool
hz_view_is_sure(const struct hz_network_view *v, const struct hz_servers *servers, int64_t network)
{
	for (size_t i = 0; i < v->network.n_servers; i++) {
		struct hz_which which = HZ_BY_ID(v->network.servers[i]);
		const struct hz_server *server = hz_servers_find(servers, which);

		if (!server || hz_address_in(&server->private_nets, network).len == 0)
			return false;
	}
	return servers->is_complete && v->n_members > 0;
}

/* Reads the network, then all pages of servers, into an empty view. */
static bool
hz_view_read_once(struct hz_network_view *v, struct hz_api *api, struct call *call, int64_t id,
                  struct error *err)
{
	CLEANUP(hz_servers_fini) struct hz_servers servers = HZ_SERVERS_INIT;
	size_t pos = 0;
	struct str key;
	void *value;

	if (!hz_view_read_network(v, api, call, id, err))
		return false;
	for (v->n_pages = 0; servers.pages.next > 0; v->n_pages++) {
		if (!hz_servers_read_page(api, call, &servers, err))
			return err_wrap(err, "failed to list hcloud servers");
	}
	v->members = arena_calloc(&v->arena, servers.by_id.count, sizeof(*v->members));
	while (map_next(&servers.by_id, &pos, &key, &value)) {
		const struct hz_server *server = value;
		struct str ip = hz_address_in(&server->private_nets, id);

		if (ip.len > 0)
			hz_view_add_member(v, server->id, server->name, ip);
	}
	v->is_sure = hz_view_is_sure(v, &servers, id);
	return true;
}

bool
hz_network_view_read_nodes(struct hz_network_view *v, struct hz_api *api, struct call *call,
                           int64_t network, const struct cloud_host *host,
                           const struct hz_dialect *dialect, struct error *err)
{
	CLEANUP(hz_network_view_fini) struct hz_network_view fresh = HZ_NETWORK_VIEW_INIT;
	struct hz_network_view old = *v;
	struct ip_net range = { 0 };
	struct node_ref *nodes;
	size_t n;

	if (!hz_view_read_network(&fresh, api, call, network, err))
		return false;
	host->nodes(host, call->arena, &nodes, &n);
	fresh.members = arena_calloc(&fresh.arena, n, sizeof(*fresh.members));
	for (size_t i = 0; ip_net_parse(fresh.network.range, &range) && i < n; i++) {
		struct hz_id id = { .kind = HZ_CLOUD };
		struct str internal = STR_EMPTY;
		struct error ignored;
		struct ip ip;

		for (size_t j = 0; j < nodes[i].n_addresses && internal.len == 0; j++) {
			const struct address *a = &nodes[i].addresses[j];

			if (str_eq_c(a->type, "InternalIP") && ip_parse(a->address, &ip) &&
			    ip_net_contains(&range, &ip))
				internal = a->address;
		}
		if (internal.len > 0 && (nodes[i].provider_id.len == 0 ||
		                         hz_id_parse(dialect, nodes[i].provider_id, &id, &ignored)))
			hz_view_add_member(&fresh, id.number, nodes[i].name, internal);
	}
	*v = fresh;
	fresh = old;
	return true;
}

bool
hz_network_view_read(struct hz_network_view *v, struct hz_api *api, struct call *call,
                     int64_t network, struct error *err)
{
	for (int n = 0; n < ATTEMPTS; n++) {
		CLEANUP(hz_network_view_fini) struct hz_network_view fresh = HZ_NETWORK_VIEW_INIT;
		struct hz_network_view old = *v;

		if (!hz_api_admit(api, HZ_URGENT, 1 + v->n_pages, err) ||
		    !hz_view_read_once(&fresh, api, call, network, err))
			return false;
		*v = fresh;
		fresh = old;
		if (v->is_sure)
			break;
	}
	return true;
}
