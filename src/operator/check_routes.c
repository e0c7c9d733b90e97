/* operator/check_routes.c: pod CIDRs, and the routes to them. */
#include <stdlib.h>

#include "base/limits.h"
#include "base/map.h"
#include "flags/flags.h"
#include "operator/doctor.h"

enum {
	NEW_S = 60, /* a younger node may have no route yet */
};

/* A run of the route controller compares all routes. */
#define NEXT_TIME \
	"when a node changes or the routes are compared again (at Hetzner once an hour), or the leader is restarted"

/* ---- pod CIDRs ---- */

/* False: the check was skipped or could not run. */
static bool
has_routes(struct doctor *d, struct report *r)
{
	const struct options *o = view_options(d->view);
	struct cloud *cloud;
	struct error err;

	if (!options_want_routes(o)) {
		report_skip(r, "the route controller is disabled");
		return false;
	}
	if (!view_cloud(d->view, &cloud, &err)) {
		report_unknown(r, &err);
		return false;
	}
	if (!cloud->routes) {
		report_skip(r, "the cloud, as it is configured, has no routes");
		return false;
	}
	return true;
}

/* A machine sends packets to pods outside of the cloud's network by its public interface, where
 * they are lost, whatever the routes are. */
static void
check_network(struct doctor *d, struct report *r)
{
	const struct route_options *o = &view_options(d->view)->routes;
	struct route_list list;
	struct ip_net range, subnet;
	struct error err;

	if (!view_routes(d->view, &list, &err)) {
		report_unknown(r, &err);
		return;
	}
	for (size_t i = 0; ip_net_parse(list.range, &range) && i < o->n_cidrs; i++) {
		const struct ip_net *pods = &o->cidrs[i];

		if (ip_family(&pods->ip) != ip_family(&range.ip))
			continue;
		if (!ip_net_is_within(pods, &range))
			report_fix(
				r,
				report_find(r, "network", list.range,
			                    "it does not contain the pods' network, %s",
			                    o->cluster_cidr),
				"choose the private network or the pod CIDRs so that it does, and "
				"register the nodes again");
		for (size_t j = 0; j < list.n_subnets; j++) {
			if (ip_net_parse(list.subnets[j], &subnet) &&
			    (ip_net_is_within(&subnet, pods) || ip_net_is_within(pods, &subnet)))
				report_fix(r,
				           report_find(r, "network", list.subnets[j],
				                       "this subnet overlaps with the pods' "
				                       "network, %s",
				                       o->cluster_cidr),
				           "use pod CIDRs outside of the subnets");
		}
	}
}

void
check_cluster_cidr(struct doctor *d, struct report *r)
{
	const struct options *o = view_options(d->view);
	const struct view_nodes *nodes;

	if (!has_routes(d, r) || !doctor_get_nodes(d, r, &nodes))
		return;
	check_network(d, r);
	for (size_t i = 0; i < nodes->n; i++) {
		const struct node *node = nodes->items[i];

		for (uint32_t j = 0; j < node->n_pod_cidrs; j++) {
			struct ip_net net;

			if (!ip_net_parse(node->pod_cidrs[j], &net) ||
			    ip_net_is_within_any(&net, o->routes.cidrs, o->routes.n_cidrs))
				continue;
			report_fix(r,
			           report_find(r, "node", node_name(node),
			                       "its pod CIDR %" STR_FMT " is outside of %s",
			                       STR_ARG(node->pod_cidrs[j]), o->routes.cluster_cidr),
			           "give ccmd the --cluster-cidr of kube-controller-manager");
		}
	}
}

struct pod_cidr {
	const struct node *node;
	struct str text;
	struct ip first, last;
};

static int
compare_pod_cidrs(const void *a, const void *b)
{
	const struct pod_cidr *x = a, *y = b;
	int order = ip_cmp(&x->first, &y->first);

	return order != 0 ? order : str_cmp(node_name(x->node), node_name(y->node));
}

static size_t
collect_pod_cidrs(const struct view_nodes *nodes, struct pod_cidr *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < nodes->n; i++) {
		for (uint32_t j = 0; j < nodes->items[i]->n_pod_cidrs; j++) {
			struct str text = nodes->items[i]->pod_cidrs[j];
			struct ip_net net;

			if (!ip_net_parse(text, &net))
				continue;
			ret[n] = (struct pod_cidr){ .node = nodes->items[i], .text = text };
			ip_net_span(&net, &ret[n].first, &ret[n].last);
			n++;
		}
	}
	return n;
}

/* Two networks overlap only if one contains the other. So, in the order of their first addresses,
 * it is enough to compare each network with the one before it that ends last. */
void
check_pod_cidrs(struct doctor *d, struct report *r)
{
	const struct view_nodes *nodes;
	struct pod_cidr *cidrs, *widest = NULL;
	size_t n = 0;

	if (!has_routes(d, r) || !doctor_get_nodes(d, r, &nodes))
		return;
	for (size_t i = 0; i < nodes->n; i++)
		n += nodes->items[i]->n_pod_cidrs;
	cidrs = arena_calloc(view_call(d->view)->arena, n + 1, sizeof(*cidrs));
	n = collect_pod_cidrs(nodes, cidrs);
	qsort(cidrs, n, sizeof(*cidrs), compare_pod_cidrs);
	for (size_t i = 0; i < n; i++) {
		if (widest && ip_cmp(&cidrs[i].first, &widest->last) <= 0)
			report_fix(
				r,
				report_find(r, "node", node_name(cidrs[i].node),
			                    "its pod CIDR %" STR_FMT " overlaps with %" STR_FMT
			                    " of node %" STR_FMT,
			                    STR_ARG(cidrs[i].text), STR_ARG(widest->text),
			                    STR_ARG(node_name(widest->node))),
				"delete the newer of the two nodes and let its kubelet register again");
		if (!widest || ip_cmp(&cidrs[i].last, &widest->last) > 0)
			widest = &cidrs[i];
	}
}

/* ---- the cloud's routes ---- */

/* The owner of each pod CIDR, and what the cloud has. */
struct route_table {
	struct route_list list;
	const struct view_nodes *nodes;
	struct map by_destination; /* of struct route */
	struct map owners;         /* of struct node, by pod CIDR */
};

static void
route_table_fini(struct route_table *t)
{
	map_fini(&t->by_destination);
	map_fini(&t->owners);
}

/* The same key for all spellings of a network. */
static struct str
cidr_key(struct str cidr, struct arena *arena)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_NAME);
	struct ip_net net;

	if (!ip_net_parse(cidr, &net))
		return cidr;
	ip_net_format(&text, &net);
	return arena_str(arena, buf_str(&text));
}

static bool
get_route_table(struct doctor *d, struct report *r, struct route_table *ret)
{
	struct arena *arena = view_call(d->view)->arena;
	struct error err;

	if (!has_routes(d, r))
		return false;
	if (!view_nodes(d->view, &ret->nodes, &err) || !view_routes(d->view, &ret->list, &err)) {
		report_unknown(r, &err);
		return false;
	}
	for (size_t i = 0; i < ret->list.n; i++)
		map_put(&ret->by_destination, cidr_key(ret->list.routes[i].destination_cidr, arena),
		        &ret->list.routes[i]);
	for (size_t i = 0; i < ret->nodes->n; i++) {
		const struct node *node = ret->nodes->items[i];

		for (uint32_t j = 0; j < node->n_pod_cidrs; j++)
			map_put(&ret->owners, cidr_key(node->pod_cidrs[j], arena),
			        (void *)(uintptr_t)node);
	}
	return true;
}

/* Does the controller create a route for this pod CIDR? */
static bool
wants_route(struct doctor *d, struct cloud *cloud, struct str cidr)
{
	const struct route_options *o = &view_options(d->view)->routes;
	struct ip_net net;

	return ip_net_parse(cidr, &net) && ip_net_is_within_any(&net, o->cidrs, o->n_cidrs) &&
	       (cloud->routes->families(cloud) & (ip_family(&net.ip) == IP_V4 ? 1U : 2U));
}

static void
check_route(struct report *r, const struct route_table *t, const struct node *node, struct str cidr,
            struct arena *arena)
{
	const struct route *route = map_get(&t->by_destination, cidr_key(cidr, arena));
	struct finding *finding;

	if (!route)
		finding = report_find(r, "node", node_name(node),
		                      "the cloud has no route to its pod CIDR %" STR_FMT,
		                      STR_ARG(cidr));
	else if (!str_eq(route->target_node, node_name(node)) && !route->is_fixed)
		finding = report_find(r, "node", node_name(node),
		                      "the route to its pod CIDR %" STR_FMT " leads to %s%" STR_FMT,
		                      STR_ARG(cidr),
		                      route->target_node.len > 0 ? "node " : "something else",
		                      STR_ARG(route->target_node));
	else
		return;
	report_fix(r, finding,
	           "read the events: kubectl describe node %" STR_FMT
	           "; without one, it is created " NEXT_TIME,
	           STR_ARG(node_name(node)));
}

/* The controller has yet to create the routes of new nodes, and to remove those of nodes whose
 * machine is gone, so these are not compared. Where two nodes have one pod CIDR, check_pod_cidrs()
 * reports that. */
void
check_node_routes(struct doctor *d, struct report *r)
{
	CLEANUP(route_table_fini) struct route_table t = { .list = { .n = 0 } };
	struct arena *arena = view_call(d->view)->arena;
	const struct look *look;
	struct cloud *cloud;
	struct error err;

	if (!get_route_table(d, r, &t))
		return;
	if (!view_cloud(d->view, &cloud, &err) || !view_look(d->view, &look, &err)) {
		report_unknown(r, &err);
		return;
	}
	for (size_t i = 0; i < t.nodes->n; i++) {
		const struct node *node = t.nodes->items[i];
		int64_t age_s = view_now_s(d->view) - node->created_wall_ns / NS_PER_SEC;

		if (node_is_new(node) || age_s < NEW_S ||
		    doctor_is_unanswered(r, node, &look->instances[i]) ||
		    look->instances[i].presence != PRESENCE_PRESENT)
			continue;
		for (uint32_t j = 0; j < node->n_pod_cidrs; j++) {
			struct str cidr = node->pod_cidrs[j];

			if (wants_route(d, cloud, cidr) &&
			    map_get(&t.owners, cidr_key(cidr, arena)) == node)
				check_route(r, &t, node, cidr, arena);
		}
	}
}

/* Every route within --cluster-cidr belongs to the controller. It removes a route without a node
 * within seconds, unless it would remove too many together (controllers/route/route_removals.h). */
void
check_orphaned_routes(struct doctor *d, struct report *r)
{
	CLEANUP(route_table_fini) struct route_table t = { .list = { .n = 0 } };
	const struct route_options *o = &view_options(d->view)->routes;
	struct arena *arena = view_call(d->view)->arena;

	if (!get_route_table(d, r, &t))
		return;
	for (size_t i = 0; i < t.list.n; i++) {
		const struct route *route = &t.list.routes[i];
		struct ip_net net;

		if (route->is_fixed || !ip_net_parse(route->destination_cidr, &net) ||
		    !ip_net_is_within_any(&net, o->cidrs, o->n_cidrs) ||
		    map_get(&t.owners, cidr_key(route->destination_cidr, arena)))
			continue;
		report_fix(r,
		           report_find(r, "route", route->destination_cidr,
		                       "no node has this pod CIDR%s%" STR_FMT,
		                       route->target_node.len > 0 ? "; the route leads to node "
		                                                  : "",
		                       STR_ARG(route->target_node)),
		           "it is removed " NEXT_TIME
		           "; if it stays, delete it in the cloud's network");
	}
}
