/* controllers/route/route_claims.c: collects claims, and reports those that get no route; see
 * route_claims.h.
 *
 * Claims are collected node by node, so those of one node are next to each other.
 */
#include "controllers/route/route_claims.h"

#include "base/event_kind.h"
#include "base/limits.h"
#include "base/map.h"
#include "controllers/event_dedup.h"
#include "controllers/provider_ids.h"
#include "controllers/route/route.h"
#include "controllers/route/route_guard.h"

EVENT_KIND(
	not_routed_event, ROUTE_COMPONENT, "PodCIDRNotRouted", true, "Node",
	"A pod CIDR of the node gets no route: the cloud has no routes of that IP family, or the CIDR overlaps with one of another node that takes precedence.");
EVENT_KIND(
	outside_event, ROUTE_COMPONENT, "ClusterCIDRMisconfigured", true, "Node",
	"A pod CIDR of the node is not within --cluster-cidr: it gets no route, and routes to it are not changed.");

/* The claims of all nodes in one run. */
struct claims {
	struct controller_env *env;
	const struct route_scope *scope;
	struct arena *arena;
	const struct store_list *all;
	const struct route_list *routes;
	struct route_node *nodes; /* of all, index by index */
	bool *has_lost;           /* likewise */
	struct route_claim *claims;
	size_t n_claims;
};

/* ---- claims ---- */

static unsigned
family_bit(struct str cidr)
{
	struct ip_net net;

	if (!ip_net_parse(cidr, &net))
		return 0;
	return ip_family(&net.ip) == IP_V4 ? 1 : 2;
}

/* Routes that lead to one of our nodes, by "node CIDR". */
static void
claims_index_routes(const struct claims *cs, struct map *ret)
{
	for (size_t i = 0; i < cs->routes->n; i++) {
		const struct route *route = &cs->routes->routes[i];

		if (!route->is_blackhole && route->target_node.len > 0)
			map_put(ret,
			        arena_printf(cs->arena, "%" STR_FMT " %" STR_FMT,
			                     STR_ARG(route->target_node),
			                     STR_ARG(route->destination_cidr)),
			        (void *)(uintptr_t)route);
	}
}

static void
add_claim(struct claims *cs, const struct map *routes, size_t i, struct str cidr,
          const struct ip_net *net)
{
	const struct node *node = node_of(cs->all->objects[i]);
	struct str key = arena_printf(cs->arena, "%" STR_FMT " %" STR_FMT, STR_ARG(node_name(node)),
	                              STR_ARG(cidr));

	cs->claims[cs->n_claims++] = (struct route_claim){
		.node = i,
		.cidr = cidr,
		.net = *net,
		.created_wall_ns = node->created_wall_ns,
		.uid = node->object.uid,
		.is_routed = map_get(routes, key) != NULL,
	};
}

/* Only pod CIDRs of our families and within --cluster-cidr are claims. Others are ignored entirely,
 * because an unusual pod CIDR must not make a node unusable. */
static void
collect_claims(struct claims *cs)
{
	const struct route_scope *scope = cs->scope;
	struct map routes = MAP_INIT;
	size_t n = 0;

	for (size_t i = 0; i < cs->all->n; i++)
		n += node_of(cs->all->objects[i])->n_pod_cidrs;
	cs->claims = arena_calloc(cs->arena, n + 1, sizeof(cs->claims[0]));
	claims_index_routes(cs, &routes);
	for (size_t i = 0; i < cs->all->n; i++) {
		const struct node *node = node_of(cs->all->objects[i]);

		for (uint32_t j = 0; j < node->n_pod_cidrs; j++) {
			struct ip_net net;

			if ((family_bit(node->pod_cidrs[j]) & scope->families) &&
			    ip_net_parse(node->pod_cidrs[j], &net) &&
			    ip_net_is_within_any(&net, scope->cluster_cidrs,
			                         scope->n_cluster_cidrs))
				add_claim(cs, &routes, i, node->pod_cidrs[j], &net);
		}
	}
	map_fini(&routes);
	route_claims_decide(cs->arena, cs->claims, cs->n_claims);
}

/* ---- events about pod CIDRs that get no route ---- */

/* Begins another part of a message. */
static void
begin_part(struct buf *b, const char *separator)
{
	if (b->len > 0)
		buf_add_c(b, separator);
}

static void
report_outside(struct claims *cs, const struct node *node)
{
	const struct route_scope *scope = cs->scope;
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_EVENT_MESSAGE);

	for (uint32_t i = 0; i < node->n_pod_cidrs; i++) {
		struct ip_net net;

		if (!(family_bit(node->pod_cidrs[i]) & scope->families) ||
		    !ip_net_parse(node->pod_cidrs[i], &net) ||
		    ip_net_is_within_any(&net, scope->cluster_cidrs, scope->n_cluster_cidrs))
			continue;
		begin_part(&text, "; ");
		buf_addf(&text, "route CIDR %" STR_FMT " is not contained within cluster CIDR ",
		         STR_ARG(node->pod_cidrs[i]));
		for (size_t j = 0; j < scope->n_cluster_cidrs; j++) {
			buf_add_c(&text, j > 0 ? "," : "");
			ip_net_format(&text, &scope->cluster_cidrs[j]);
		}
	}
	if (text.len > 0)
		event_dedup_warn(cs->env->event_dedup, ROUTE_COMPONENT, node, outside_event.reason,
		                 buf_str(&text));
	else
		event_dedup_clear(cs->env->event_dedup, node, outside_event.reason);
}

static bool
has_other_family(const struct claims *cs, const struct node *node)
{
	for (uint32_t i = 0; i < node->n_pod_cidrs; i++) {
		if (!(family_bit(node->pod_cidrs[i]) & cs->scope->families))
			return true;
	}
	return false;
}

/* claims: the n claims of this node. */
static void
report_not_routed(struct claims *cs, const struct node *node, const struct route_claim *claims,
                  size_t n)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_EVENT_MESSAGE);

	if (has_other_family(cs, node))
		buf_add_c(
			&text,
			"The cloud has no routes for pod CIDRs of this IP family; another component "
			"has to route them");
	for (size_t i = 0; i < n; i++) {
		const struct route_claim *winner = claims[i].lost_to;

		if (!winner)
			continue;
		begin_part(&text, ". ");
		buf_addf(&text,
		         "Pod CIDR %" STR_FMT
		         " is not routed to this node: it overlaps with %" STR_FMT
		         " of node %" STR_FMT ", which %s",
		         STR_ARG(claims[i].cidr), STR_ARG(winner->cidr),
		         STR_ARG(node_name(node_of(cs->all->objects[winner->node]))),
		         route_claim_is_older(winner, &claims[i]) ? "is older" : "has its route");
	}
	if (text.len > 0)
		event_dedup_warn(cs->env->event_dedup, ROUTE_COMPONENT, node,
		                 not_routed_event.reason, buf_str(&text));
	else
		event_dedup_clear(cs->env->event_dedup, node, not_routed_event.reason);
}

/* ---- nodes ---- */

/* Gives the node those of its pod CIDRs whose claim is granted. If a claim is lost, the node's
 * condition says that a route is missing. */
static void
keep_granted(struct claims *cs, size_t i, const struct route_claim *claims, size_t n)
{
	struct str *cidrs = arena_calloc(cs->arena, n, sizeof(*cidrs));
	size_t n_kept = 0;

	for (size_t j = 0; j < n; j++) {
		if (claims[j].is_granted)
			cidrs[n_kept++] = claims[j].cidr;
		else
			cs->has_lost[i] = true;
	}
	cs->nodes[i].pod_cidrs = cidrs;
	cs->nodes[i].n_pod_cidrs = n_kept;
}

void
route_claims_collect(struct controller_env *env, const struct route_scope *scope,
                     struct arena *arena, const struct store_list *all,
                     const struct route_list *routes, struct route_node ret_nodes[],
                     bool ret_has_lost[])
{
	struct claims cs = { .env = env,
		             .scope = scope,
		             .arena = arena,
		             .all = all,
		             .routes = routes,
		             .nodes = ret_nodes,
		             .has_lost = ret_has_lost };
	size_t at = 0;

	collect_claims(&cs);
	for (size_t i = 0; i < all->n; i++) {
		const struct node *node = node_of(all->objects[i]);
		size_t first = at;

		while (at < cs.n_claims && cs.claims[at].node == i)
			at++;
		ret_nodes[i] = (struct route_node){ .name = node_name(node),
			                            .uid = node->object.uid,
			                            .addresses = node->addresses,
			                            .n_addresses = node->n_addresses,
			                            .is_frozen = provider_ids_is_shared(env->nodes,
			                                                                node) };
		keep_granted(&cs, i, &cs.claims[first], at - first);
		report_outside(&cs, node);
		report_not_routed(&cs, node, &cs.claims[first], at - first);
	}
}
