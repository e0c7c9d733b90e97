/* controllers/route/route_claims.c: which pod CIDRs of each node are to be routed.
 *
 * The pod CIDRs of all nodes are collected as claims, and route_plan.h decides them. A node whose
 * pod CIDR gets no route receives an event that says why. Claims are collected node by node, so
 * those of one node are next to each other.
 */
#include "base/event_kind.h"
#include "base/limits.h"
#include "base/map.h"
#include "controllers/event_dedup.h"
#include "controllers/node_ref.h"
#include "controllers/route/route_internal.h"

EVENT_KIND(
	not_routed_event, ROUTE_COMPONENT, "PodCIDRNotRouted", true, "Node",
	"A pod CIDR of the node gets no route: the cloud has no routes of that IP family, or the CIDR overlaps with one of another node that takes precedence.");
EVENT_KIND(
	outside_event, ROUTE_COMPONENT, "ClusterCIDRMisconfigured", true, "Node",
	"A pod CIDR of the node is not within --cluster-cidr: it gets no route, and routes to it are not changed.");

/* The claims of all nodes in one run. */
struct claims {
	struct controller_env *env;
	const struct route_controller_config *config;
	unsigned families; /* that the cloud has routes for; a sum: 1 is IPv4, 2 is IPv6 */
	struct arena *arena;
	const struct store_list *all;
	struct route_claim *claims;
	size_t n_claims;
};

enum cidr_place {
	CIDR_OTHER_FAMILY,
	CIDR_OUTSIDE, /* not within --cluster-cidr */
	CIDR_OURS,
};

static enum cidr_place
place_of(const struct claims *cs, const struct ip_net *cidr)
{
	if (!((ip_family(&cidr->ip) == IP_V4 ? 1U : 2U) & cs->families))
		return CIDR_OTHER_FAMILY;
	return ip_net_is_within_any(cidr, cs->config->cluster_cidrs, cs->config->n_cluster_cidrs)
	               ? CIDR_OURS
	               : CIDR_OUTSIDE;
}

/* ---- claims ---- */

/* Only pod CIDRs of our families and within --cluster-cidr are claims. Others are ignored entirely,
 * because an unusual pod CIDR must not make a node unusable. */
static void
collect_claims(struct claims *cs, const struct route_list *routes)
{
	struct map routed = MAP_INIT; /* the routes that lead to one of our nodes, by route_key() */
	struct ip_net net;
	size_t n = 0;

	for (size_t i = 0; i < routes->n; i++) {
		const struct route *route = &routes->routes[i];

		if (!route->is_blackhole && route->target_node.len > 0)
			map_put(&routed,
			        route_key(cs->arena, route->target_node, route->destination_cidr),
			        (void *)(uintptr_t)route);
	}
	for (size_t i = 0; i < cs->all->n; i++)
		n += node_of(cs->all->objects[i])->n_pod_cidrs;
	cs->claims = arena_calloc(cs->arena, n + 1, sizeof(cs->claims[0]));
	for (size_t i = 0; i < cs->all->n; i++) {
		const struct node *node = node_of(cs->all->objects[i]);

		for (uint32_t j = 0; j < node->n_pod_cidrs; j++) {
			struct str cidr = node->pod_cidrs[j], key;

			if (!ip_net_parse(cidr, &net) || place_of(cs, &net) != CIDR_OURS)
				continue;
			key = route_key(cs->arena, node_name(node), cidr);
			cs->claims[cs->n_claims++] = (struct route_claim){
				.node = i,
				.cidr = cidr,
				.net = net,
				.created_wall_ns = node->created_wall_ns,
				.uid = node->object.uid,
				.is_routed = map_get(&routed, key) != NULL,
			};
		}
	}
	map_fini(&routed);
	route_claims_decide(cs->arena, cs->claims, cs->n_claims);
}

/* ---- events about pod CIDRs that get no route ---- */

static void
report_outside(struct claims *cs, const struct node *node)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_EVENT_MESSAGE);

	for (uint32_t i = 0; i < node->n_pod_cidrs; i++) {
		struct ip_net net;

		if (!ip_net_parse(node->pod_cidrs[i], &net) || place_of(cs, &net) != CIDR_OUTSIDE)
			continue;
		buf_addf(&text, "%sroute CIDR %" STR_FMT " is not contained within cluster CIDR ",
		         text.len > 0 ? "; " : "", STR_ARG(node->pod_cidrs[i]));
		for (size_t j = 0; j < cs->config->n_cluster_cidrs; j++) {
			buf_add_c(&text, j > 0 ? "," : "");
			ip_net_format(&text, &cs->config->cluster_cidrs[j]);
		}
	}
	event_dedup_set(cs->env->event_dedup, ROUTE_COMPONENT, node, outside_event.reason,
	                buf_str(&text));
}

/* An invalid CIDR counts as one of another family. */
static bool
has_other_family(const struct claims *cs, const struct node *node)
{
	struct ip_net net;

	for (uint32_t i = 0; i < node->n_pod_cidrs; i++) {
		if (!ip_net_parse(node->pod_cidrs[i], &net) ||
		    place_of(cs, &net) == CIDR_OTHER_FAMILY)
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
		buf_addf(&text,
		         "%sPod CIDR %" STR_FMT
		         " is not routed to this node: it overlaps with %" STR_FMT
		         " of node %" STR_FMT ", which %s",
		         text.len > 0 ? ". " : "", STR_ARG(claims[i].cidr), STR_ARG(winner->cidr),
		         STR_ARG(node_name(node_of(cs->all->objects[winner->node]))),
		         route_claim_is_older(winner, &claims[i]) ? "is older" : "has its route");
	}
	event_dedup_set(cs->env->event_dedup, ROUTE_COMPONENT, node, not_routed_event.reason,
	                buf_str(&text));
}

/* ---- nodes ---- */

struct route_decision
route_decide(struct controller_env *env, const struct route_controller_config *config,
             struct arena *arena, const struct store_list *all, const struct route_list *routes)
{
	const struct route_ops *ops = env->cloud->routes;
	struct claims cs = {
		.env = env,
		.config = config,
		.families = ops->families(env->cloud),
		.arena = arena,
		.all = all,
	};
	struct route_decision ret = {
		.nodes = arena_calloc(arena, all->n, sizeof(ret.nodes[0])),
		.has_lost = arena_calloc(arena, all->n, sizeof(ret.has_lost[0])),
	};
	size_t at = 0;

	collect_claims(&cs, routes);
	for (size_t i = 0; i < all->n; i++) {
		const struct node *node = node_of(all->objects[i]);
		struct str *granted = arena_calloc(arena, node->n_pod_cidrs, sizeof(*granted));
		size_t first = at, n_granted = 0;

		for (; at < cs.n_claims && cs.claims[at].node == i; at++) {
			if (cs.claims[at].is_granted)
				granted[n_granted++] = cs.claims[at].cidr;
			else
				ret.has_lost[i] = true;
		}
		ret.nodes[i] = (struct route_node){ .name = node_name(node),
			                            .pod_cidrs = granted,
			                            .n_pod_cidrs = n_granted,
			                            .addresses = node->addresses,
			                            .n_addresses = node->n_addresses,
			                            .is_frozen = provider_ids_is_shared(env->nodes,
			                                                                node) };
		if (!env->event_dedup)
			continue;
		report_outside(&cs, node);
		report_not_routed(&cs, node, &cs.claims[first], at - first);
	}
	ret.plan = route_plan(arena, ret.nodes, all->n, routes->routes, routes->n,
	                      config->cluster_cidrs, config->n_cluster_cidrs,
	                      ops->compares_addresses);
	return ret;
}
