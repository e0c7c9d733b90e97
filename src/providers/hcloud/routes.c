/* routes.c: see routes.h.
 *
 * The mutex is held through requests, because the API refuses a change of a network while another
 * one runs. So changes of this process wait for each other here. The view of the network is read by
 * each listing, by a creation that finds it older than a minute, and after a refused change, to see
 * whether the change is still needed. Our own changes are noted in the view, so a run of the route
 * controller usually costs one reading.
 *
 * Two states stop further changes without a request:
 *
 * 	busy  the API refused a change because another one is running, or our own change has not
 * 	      ended after 30 s. Changes fail with ERR_PENDING until busy_boot_ns; the pauses grow
 * 	      from 2 s to 5 minutes while the network stays busy.
 * 	full  the API refused a route because the table has no room. Additions fail with the same
 * 	      error until a route is deleted, or the next listing.
 *
 * A route to another gateway is replaced by deleting it first, because the API permits one route
 * for each destination. If the process ends between the two changes, the next run adds the route.
 */
#include "providers/hcloud/routes.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/backoff.h"
#include "base/limits.h"
#include "base/thread.h"
#include "cloud/refusals.h"
#include "providers/hcloud/api.h"
#include "providers/hcloud/client.h"
#include "providers/hcloud/hcloud.h"
#include "providers/hcloud/network_view.h"

static const int64_t view_max_age_ns = 60 * NS_PER_SEC;
static const int64_t in_place_ns = 30 * NS_PER_SEC; /* the longest wait for one change */
static const int64_t busy_pause_ns = 2 * NS_PER_SEC;
static const int64_t busy_max_ns = 300 * NS_PER_SEC;

struct hz_routes {
	struct hz_routes_config config;
	pthread_mutex_t mu; /* held through requests: the network takes one change at a time */
	struct hz_network_view view; /* mu */
	int64_t busy_boot_ns;        /* mu; no change is sent before this time */
	unsigned n_busy;             /* mu; how often in succession the network was busy */
	struct refusals *refusals;
	bool is_full;      /* mu; set until the next listing or deletion */
	struct error full; /* mu; the API's refusal, if is_full */
};

/* ---- listing ---- */

/* Returns the node that runs on a member of the network, or NULL if the member is not a node. */
static const struct node_ref *
hz_routes_node_of(const struct hz_nodes *nodes, const struct hz_member *member)
{
	const struct node_ref *node = map_get(&nodes->by_id, map_key_i64(&member->id));

	return node ? node : map_get(&nodes->by_name, member->name);
}

/* Has one node the server's ID, and another one, which has no provider ID yet, the server's name?
 * The first one may have it by mistake, because its disk was copied. */
static bool
hz_routes_is_contested(const struct hz_nodes *nodes, const struct hz_member *member)
{
	return map_get(&nodes->by_id, map_key_i64(&member->id)) &&
	       map_get(&nodes->by_name, member->name);
}

/* For a command that may send few requests the nodes stand for the servers. */
static bool
hz_routes_read_view(struct hz_routes *r, struct call *call, struct error *err)
{
	const struct hz_routes_config *c = &r->config;

	if (c->host->requests)
		return hz_network_view_read_nodes(&r->view, c->api, call, c->network, c->host,
		                                  c->config->dialect, err);
	return hz_network_view_read(&r->view, c->api, call, c->network, err);
}

/* The name of a route starts with the gateway in the official controller, and with the destination
 * in the tutorial's. */
static struct str
hz_routes_name_of(const struct hz_routes *r, const struct hz_route *route, struct arena *arena)
{
	bool is_tutorial = r->config.config->dialect->is_tutorial;
	struct str first = is_tutorial ? route->destination : route->gateway;
	struct str second = is_tutorial ? route->gateway : route->destination;

	return arena_printf(arena, "%" STR_FMT "-%" STR_FMT, STR_ARG(first), STR_ARG(second));
}

/* A route whose gateway is not a member is a blackhole, which the route controller deletes. If the
 * view is not sure, the gateway may belong to a server that the view lacks: the route is then
 * fixed, and the route controller does not remove it. Neither does it remove one to a server that
 * two nodes claim. Otherwise it would create the route for the node of that name, remove it because
 * it leads to the node of that ID, and so on. */
static struct route
hz_routes_describe(const struct hz_routes *r, const struct hz_nodes *nodes,
                   const struct hz_route *route, struct arena *arena)
{
	const struct hz_member *member = map_get(&r->view.by_ip, route->gateway);
	const struct node_ref *node = member ? hz_routes_node_of(nodes, member) : NULL;

	return (struct route){
		.name = hz_routes_name_of(r, route, arena),
		.gateway = arena_str(arena, route->gateway),
		.target_node = node ? node->name : STR_EMPTY,
		.destination_cidr = arena_str(arena, route->destination),
		.is_blackhole = !member && r->view.is_sure,
		.is_fixed = member ? hz_routes_is_contested(nodes, member) : !r->view.is_sure,
	};
}

static bool
hz_routes_list(struct cloud *cloud, struct call *call, struct route_list *ret, struct error *err)
{
	struct hz_routes *r = hcloud_of(cloud)->routes;
	CLEANUP(hz_nodes_fini) struct hz_nodes nodes = HZ_NODES_INIT;
	struct arena *arena = call->arena;
	struct route_list list = { .n = 0 };
	struct str *subnets;
	WITH_LOCK(&r->mu);

	hz_count_operations("hcloud/ListRoutes", 1);
	if (!hz_routes_read_view(r, call, err))
		return err_wrap(err, "hcloud/ListRoutes");
	r->is_full = false;
	hz_nodes_read(r->config.host, r->config.config->dialect, arena, &nodes);
	list.routes = arena_calloc(arena, r->view.n_routes, sizeof(list.routes[0]));
	for (; list.n < r->view.n_routes; list.n++)
		list.routes[list.n] = hz_routes_describe(r, &nodes, &r->view.routes[list.n], arena);

	list.range = arena_str(arena, r->view.network.range);
	list.n_subnets = r->view.network.n_subnets;
	list.subnets = subnets = arena_calloc(arena, list.n_subnets, sizeof(*subnets));
	for (size_t i = 0; i < list.n_subnets; i++)
		subnets[i] = arena_str(arena, r->view.network.subnets[i]);
	*ret = list;
	return true;
}

/* ---- changing the network; with mu held ---- */

static bool
hz_routes_check_idle(const struct hz_routes *r, struct error *err)
{
	int64_t busy_ns = r->busy_boot_ns - clock_boot(r->config.host->clock);

	if (busy_ns <= 0)
		return true;
	return err_later(err, ERR_PENDING, busy_ns / NS_PER_MS + 1,
	                 "network %" PRId64 " is busy with another change", r->config.network);
}

/* The pauses grow, because the change that makes the network busy may never end. */
static void
hz_routes_note_busy(struct hz_routes *r, struct error *err)
{
	int64_t pause_ns = backoff_ns(busy_pause_ns, r->n_busy++, busy_max_ns);

	r->busy_boot_ns = clock_boot(r->config.host->clock) + pause_ns;
	err->code = ERR_PENDING;
	err->retry_after_ms = pause_ns / NS_PER_MS;
}

/* Sends one change and waits until it has ended, unless the API has refused the same change of the
 * same table within the last hour. ERR_PENDING means that the network is busy with this change or
 * with another one. */
static bool
hz_routes_change(struct hz_routes *r, struct call *call, const char *verb,
                 const struct hz_route *route, struct hz_done *done, struct error *err)
{
	/* what a refusal depends on, beside the destination */
	uint64_t looks = str_hash(route->gateway) + r->view.n_routes;

	*done = (struct hz_done){ .action = { .is_over = true } };
	if (!hz_routes_check_idle(r, err) ||
	    refusals_find(r->refusals, route->destination, verb, looks, err))
		return false;
	if (hz_change_route(r->config.api, call, r->config.network, verb, route, done, err) &&
	    hz_actions_wait(r->config.actions, call, done->action, in_place_ns, err)) {
		r->n_busy = 0;
		return true;
	}
	if (err->code == ERR_CONFLICT || err->code == ERR_PENDING)
		hz_routes_note_busy(r, err);
	else if ((err->code == ERR_INVALID || err->code == ERR_UNSUPPORTED) &&
	         !hz_is_code(done->code, "resource_limit_exceeded"))
		refusals_note(r->refusals, route->destination, verb, looks, err);
	return false;
}

/* Reads the network again after the API has refused a change with invalid_input. Returns true if
 * another client has added or removed the route since the last reading, so that the change is no
 * longer needed. */
static bool
hz_routes_recheck(struct hz_routes *r, struct call *call, const struct hz_route *route,
                  bool is_there)
{
	const struct hz_route *found;
	struct error ignored;

	if (!hz_network_view_read(&r->view, r->config.api, call, r->config.network, &ignored))
		return false;
	found = hz_route_to(&r->view, route->destination);
	return (found && str_eq(found->gateway, route->gateway)) == is_there;
}

static bool
hz_routes_add(struct hz_routes *r, struct call *call, const struct hz_route *route,
              struct error *err)
{
	struct hz_done done;

	if (r->is_full) {
		*err = r->full;
		return false;
	}
	if (hz_routes_change(r, call, "add_route", route, &done, err)) {
		hz_route_added(&r->view, route);
		return true;
	}
	if (hz_is_code(done.code, "invalid_input") &&
	    hz_routes_recheck(r, call, route, /*is_there=*/true))
		return true;
	err_wrap(err, "error adding route");
	r->is_full = hz_is_code(done.code, "resource_limit_exceeded");
	r->full = *err;
	return false;
}

static bool
hz_routes_delete(struct hz_routes *r, struct call *call, const struct hz_route *route,
                 struct error *err)
{
	struct hz_done done;
	bool is_gone;

	is_gone = hz_routes_change(r, call, "delete_route", route, &done, err) ||
	          err->code == ERR_NOT_FOUND;
	if (!is_gone && hz_is_code(done.code, "invalid_input"))
		is_gone = hz_routes_recheck(r, call, route, /*is_there=*/false);
	if (!is_gone)
		return err_wrap(err, "error deleting route");
	hz_route_removed(&r->view, route);
	r->is_full = false;
	return true;
}

/* ---- creating: with mu held ---- */

/* Which server is the node's: the one that its provider ID names, or, without one, the one of its
 * name. */
static bool
hz_routes_read_target(const struct hz_routes *r, const struct node_ref *node, struct hz_which *ret,
                      struct error *err)
{
	struct hz_id id = { .kind = HZ_CLOUD };

	if (node->provider_id.len > 0 &&
	    (!hz_id_parse(r->config.config->dialect, node->provider_id, &id, err) ||
	     id.kind != HZ_CLOUD))
		return err_set(err, ERR_UNSUPPORTED,
		               "node %" STR_FMT " is not a cloud server, routes are only supported "
		               "for cloud servers",
		               STR_ARG(node->name));
	*ret = (struct hz_which){ id.number, node->name };
	return true;
}

/* The server was not in the network at the last reading. Reads the server by itself, because it may
 * have been attached since, and because the error should say what is wrong with it; but at most
 * once in an hour while the node looks the same: if the server is attached to the network later,
 * the next listing shows it. */
static bool
hz_routes_ask_for_server(struct hz_routes *r, struct call *call, const struct node_ref *node,
                         struct hz_which which, struct str *ret, struct error *err)
{
	uint64_t looks = str_hash(node->provider_id) + node->n_addresses;
	struct hz_api *api = r->config.api;
	struct hz_server server;

	if (r->view.is_sure && refusals_find(r->refusals, node->name, "gateway", looks, err))
		return false;
	if (!hz_api_admit(api, HZ_URGENT, 1, err))
		return false;
	if (hz_find_server(api, call, call->arena, which, &server, err)) {
		*ret = hz_address_in(&server.private_nets, r->config.network);
		if (ret->len > 0)
			return true;
		err_set(err, ERR_INVALID,
		        "server %" STR_FMT " (%" PRId64 "): network with id %" PRId64
		        " not attached to this server",
		        STR_ARG(server.name), server.id, r->config.network);
	} else if (err->code == ERR_NOT_FOUND) {
		err_set(err, ERR_NOT_FOUND, "hcloud server for node %" STR_FMT " not found",
		        STR_ARG(node->name));
	}
	if (err->code == ERR_NOT_FOUND || err->code == ERR_INVALID)
		refusals_note(r->refusals, node->name, "gateway", looks, err);
	return false;
}

static bool
hz_routes_find_gateway(struct hz_routes *r, struct call *call, const struct node_ref *node,
                       struct str *ret, struct error *err)
{
	const struct hz_member *member;
	struct hz_which which;

	if (!hz_routes_read_target(r, node, &which, err))
		return false;
	member = hz_member_of(&r->view, which);
	hz_count_lookup("routes", r->config.config->cache_mode, member ? "hit" : "miss");
	if (!member)
		return hz_routes_ask_for_server(r, call, node, which, ret, err);
	*ret = arena_str(call->arena, member->ip);
	return true;
}

/* The gateway has to be an InternalIP of the node (docs/spec/hcloud.md, "Routes"). If the node has
 * no InternalIP yet, the error is ERR_PENDING: the route controller runs again when the node gets
 * one, and the route is created then. */
static bool
hz_routes_check_address(const struct node_ref *node, struct str gateway, struct error *err)
{
	bool has_any = false;

	for (size_t i = 0; i < node->n_addresses; i++) {
		if (!str_eq_c(node->addresses[i].type, "InternalIP"))
			continue;
		if (str_eq(node->addresses[i].address, gateway))
			return true;
		has_any = true;
	}
	return err_set(err, has_any ? ERR_INVALID : ERR_PENDING,
	               "IP %" STR_FMT " not part of routes target addresses", STR_ARG(gateway));
}

static bool
hz_routes_check_destination(const struct hz_routes *r, const struct node_ref *node,
                            struct str destination, struct error *err)
{
	CLEANUP(buf_fini) struct buf cluster = BUF_INIT(KIB(1));
	struct ip_net net;

	if (!ip_net_parse(destination, &net) || ip_net_has_host_bits(&net))
		return err_set(err, ERR_INVALID, "\"%" STR_FMT "\" is not a network",
		               STR_ARG(str_utf8_head(destination, 100)));
	if (ip_family(&net.ip) != IP_V4)
		return err_set(err, ERR_UNSUPPORTED,
		               "can't create route \"%" STR_FMT "\" via node \"%" STR_FMT
		               "\": private networks do not support IPv6",
		               STR_ARG(destination), STR_ARG(node->name));
	/* The route controller asks only for destinations within --cluster-cidr. This check makes
	 * sure that no other route of the network is ever changed. */
	if (ip_net_is_within(&net, &r->config.cluster_cidr))
		return true;
	ip_net_format(&cluster, &r->config.cluster_cidr);
	return err_set(err, ERR_INVALID,
	               "route CIDR %" STR_FMT " is not contained within cluster CIDR %s",
	               STR_ARG(destination), cluster.ptr);
}

/* Reads the network, unless the view is new enough. */
static bool
hz_routes_need_view(struct hz_routes *r, struct call *call, struct error *err)
{
	if (r->view.read_boot_ns >= 0 &&
	    clock_boot(call->clock) - r->view.read_boot_ns < view_max_age_ns)
		return true;
	return hz_network_view_read(&r->view, r->config.api, call, r->config.network, err);
}

/* A route to an existing node that has this pod CIDR is not replaced. The route controller does not
 * ask for another route in that case, but its list of routes may be older than our view. */
static bool
hz_routes_check_is_replaceable(const struct hz_routes *r, struct call *call,
                               const struct hz_route *known, struct error *err)
{
	CLEANUP(hz_nodes_fini) struct hz_nodes nodes = HZ_NODES_INIT;
	const struct hz_member *member = map_get(&r->view.by_ip, known->gateway);
	const struct node_ref *node;

	if (!member && !r->view.is_sure)
		return err_set(err, ERR_PENDING,
		               "it is not known whether gateway %" STR_FMT
		               " is a server: the list of servers is not complete",
		               STR_ARG(known->gateway));
	if (!member)
		return true;
	hz_nodes_read(r->config.host, r->config.config->dialect, call->arena, &nodes);
	node = hz_routes_node_of(&nodes, member);
	if (!node || !str_is_among(known->destination, node->pod_cidrs, node->n_pod_cidrs))
		return true;
	return err_set(err, ERR_EXISTS,
	               "it leads to node %" STR_FMT " via \"%" STR_FMT
	               "\", which has that pod CIDR, too",
	               STR_ARG(node->name), STR_ARG(known->gateway));
}

static bool
hz_routes_upsert(struct hz_routes *r, struct call *call, const struct hz_route *route,
                 struct error *err)
{
	const struct hz_route *known = hz_route_to(&r->view, route->destination);
	struct hz_route old = { .destination = route->destination };

	if (known && str_eq(known->gateway, route->gateway))
		return true;
	if (known) {
		old.gateway = arena_str(call->arena, known->gateway);
		if (!hz_routes_check_is_replaceable(r, call, known, err) ||
		    !hz_routes_delete(r, call, &old, err))
			return false;
	}
	return hz_routes_add(r, call, route, err);
}

/* The API refuses a destination that overlaps with a subnet (docs/spec/hcloud.md, "Routes"). */
static bool
hz_routes_check_subnets(const struct hz_routes *r, struct str destination, struct error *err)
{
	struct ip_net net, subnet;

	for (size_t i = 0; ip_net_parse(destination, &net) && i < r->view.network.n_subnets; i++) {
		if (ip_net_parse(r->view.network.subnets[i], &subnet) &&
		    (ip_net_is_within(&net, &subnet) || ip_net_is_within(&subnet, &net)))
			return err_set(err, ERR_INVALID,
			               "%" STR_FMT " overlaps with the subnet %" STR_FMT
			               " of network %" PRId64,
			               STR_ARG(destination), STR_ARG(r->view.network.subnets[i]),
			               r->config.network);
	}
	return true;
}

/* Without a request for the server: if the list of servers is complete, the network has no other.
 */
static bool
hz_routes_check_create(struct cloud *cloud, struct call *call, const struct node_ref *node,
                       struct str destination, struct error *err)
{
	struct hz_routes *r = hcloud_of(cloud)->routes;
	const struct hz_member *member;
	struct hz_which which;
	WITH_LOCK(&r->mu);

	if (!hz_routes_check_destination(r, node, destination, err) ||
	    !hz_routes_need_view(r, call, err) || !hz_routes_check_subnets(r, destination, err) ||
	    !hz_routes_read_target(r, node, &which, err))
		return false;
	member = hz_member_of(&r->view, which);
	if (member)
		return hz_routes_check_address(node, member->ip, err);
	if (!r->view.is_sure)
		return true;
	return err_set(err, ERR_NOT_FOUND,
	               "no route leads to node %" STR_FMT ": network %" PRId64
	               " has no server of %s, so the server is gone or not attached",
	               STR_ARG(node->name), r->config.network,
	               which.id > 0 ? "its provider ID" : "its name");
}

static bool
hz_routes_create(struct cloud *cloud, struct call *call, const struct node_ref *node,
                 struct str hint, struct str destination, struct error *err)
{
	struct hz_routes *r = hcloud_of(cloud)->routes;
	struct hz_route route = { .destination = destination };
	WITH_LOCK(&r->mu);

	(void)hint;
	hz_count_operations("hcloud/CreateRoute", 1);
	if (!hz_routes_check_destination(r, node, destination, err) ||
	    !hz_routes_need_view(r, call, err) ||
	    !hz_routes_find_gateway(r, call, node, &route.gateway, err) ||
	    !hz_routes_check_address(node, route.gateway, err))
		return err_wrap(err, "hcloud/CreateRoute");
	if (hz_routes_upsert(r, call, &route, err))
		return true;
	return err_wrap(err,
	                "hcloud/CreateRoute: error upserting route \"%" STR_FMT "\" via \"%" STR_FMT
	                "\"",
	                STR_ARG(destination), STR_ARG(route.gateway));
}

/* ---- removing ---- */

/* The name has the gateway before or behind the '-' (hz_routes_name_of()). Only the destination
 * has a '/', which decides. */
static bool
hz_routes_remove(struct cloud *cloud, struct call *call, const struct route *route,
                 struct error *err)
{
	struct hz_routes *r = hcloud_of(cloud)->routes;
	struct str first, second;
	struct hz_route named;
	bool is_gateway_first;
	WITH_LOCK(&r->mu);

	hz_count_operations("hcloud/DeleteRoute", 1);
	if (!str_cut(route->name, '-', &first, &second))
		return err_set(err, ERR_INVALID,
		               "hcloud/DeleteRoute: \"%" STR_FMT "\" is not a valid route name",
		               STR_ARG(route->name));
	is_gateway_first = str_index(second, '/') >= 0;
	named.gateway = is_gateway_first ? first : second;
	named.destination = is_gateway_first ? second : first;
	if (!hz_routes_delete(r, call, &named, err))
		return err_wrap(err, "hcloud/DeleteRoute");
	return true;
}

/* ---- life cycle ---- */

struct hz_routes *
hz_routes_new(const struct hz_routes_config *config)
{
	struct hz_routes *r = xcalloc(1, sizeof(*r));

	hz_count_operations("hcloud/newRoutes", 1);
	r->config = *config;
	r->view = HZ_NETWORK_VIEW_INIT;
	r->refusals = refusals_new(config->host->clock);
	mutex_init(&r->mu);
	return r;
}

void
hz_routes_free(struct hz_routes *r)
{
	if (!r)
		return;
	hz_network_view_fini(&r->view);
	refusals_free(r->refusals);
	mutex_destroy(&r->mu);
	free(r);
}

/* ---- the table ---- */

static unsigned
hz_routes_families(struct cloud *cloud)
{
	(void)cloud;
	return 1;
}

/* Apart from this controller only operators change the routes, so without changes of nodes one run
 * in an hour is enough. */
const struct route_ops hz_route_ops = {
	.families = hz_routes_families,
	.idle_period_ns = 3600 * NS_PER_SEC,
	.list = hz_routes_list,
	.create = hz_routes_create,
	.remove = hz_routes_remove,
	.check_create = hz_routes_check_create,
};
