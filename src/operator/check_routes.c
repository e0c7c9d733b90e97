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

/* False: the check was skipped or could not run. True with the nodes. */
static bool
has_routes(struct doctor *d, struct report *r)
{
	if (!options_want_routes(d->view->options)) {
		report_skip(r, "the route controller is disabled");
		return false;
	}
	if (!doctor_needs(d, r, VIEW_CLOUD))
		return false;
	if (!d->view->cloud->routes) {
		report_skip(r, "the cloud, as it is configured, has no routes");
		return false;
	}
	return doctor_needs(d, r, VIEW_NODES);
}

/* A machine sends packets to pods outside of the cloud's network by its public interface, where
 * they are lost, whatever the routes are. */
static void
check_network(struct doctor *d, struct report *r)
{
	const struct route_options *o = &d->view->options->routes;
	const struct route_list *list = &d->view->routes;
	struct ip_net range, subnet;

	if (!doctor_needs(d, r, VIEW_ROUTES))
		return;
	for (size_t i = 0; ip_net_parse(list->range, &range) && i < o->n_cidrs; i++) {
		const struct ip_net *pods = &o->cidrs[i];

		if (ip_family(&pods->ip) != ip_family(&range.ip))
			continue;
		if (!ip_net_is_within(pods, &range)) {
			report_find(r, "network", list->range,
			            "it does not contain the pods' network, %s", o->cluster_cidr);
			report_fix(
				r,
				"choose the private network or the pod CIDRs so that it does, and "
				"register the nodes again");
		}
		for (size_t j = 0; j < list->n_subnets; j++) {
			if (!ip_net_parse(list->subnets[j], &subnet) ||
			    (!ip_net_is_within(&subnet, pods) && !ip_net_is_within(pods, &subnet)))
				continue;
			report_find(r, "network", list->subnets[j],
			            "this subnet overlaps with the pods' network, %s",
			            o->cluster_cidr);
			report_fix(r, "use pod CIDRs outside of the subnets");
		}
	}
}

void
check_cluster_cidr(struct doctor *d, struct report *r)
{
	const struct route_options *o = &d->view->options->routes;
	const struct view_nodes *nodes = &d->view->nodes;

	if (!has_routes(d, r))
		return;
	check_network(d, r);
	for (size_t i = 0; i < nodes->n; i++) {
		const struct node *node = nodes->items[i];

		for (uint32_t j = 0; j < node->n_pod_cidrs; j++) {
			struct ip_net net;

			if (!ip_net_parse(node->pod_cidrs[j], &net) ||
			    ip_net_is_within_any(&net, o->cidrs, o->n_cidrs))
				continue;
			report_find(r, "node", node_name(node),
			            "its pod CIDR %" STR_FMT " is outside of %s",
			            STR_ARG(node->pod_cidrs[j]), o->cluster_cidr);
			report_fix(r, "give ccmd the --cluster-cidr of kube-controller-manager");
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

/* Two networks overlap only if one contains the other. So, in the order of their first addresses,
 * it is enough to compare each network with the one before it that ends last. */
void
check_pod_cidrs(struct doctor *d, struct report *r)
{
	const struct view_nodes *nodes = &d->view->nodes;
	struct pod_cidr *cidrs, *widest = NULL;
	size_t n_all = 0, n = 0;

	if (!has_routes(d, r))
		return;
	for (size_t i = 0; i < nodes->n; i++)
		n_all += nodes->items[i]->n_pod_cidrs;
	cidrs = arena_calloc(&d->view->arena, n_all + 1, sizeof(*cidrs));
	for (size_t i = 0; i < nodes->n; i++) {
		const struct node *node = nodes->items[i];

		for (uint32_t j = 0; j < node->n_pod_cidrs; j++) {
			struct ip_net net;

			if (!ip_net_parse(node->pod_cidrs[j], &net))
				continue;
			cidrs[n] = (struct pod_cidr){ .node = node, .text = node->pod_cidrs[j] };
			ip_net_span(&net, &cidrs[n].first, &cidrs[n].last);
			n++;
		}
	}
	qsort(cidrs, n, sizeof(*cidrs), compare_pod_cidrs);
	for (size_t i = 0; i < n; i++) {
		if (widest && ip_cmp(&cidrs[i].first, &widest->last) <= 0) {
			report_find(r, "node", node_name(cidrs[i].node),
			            "its pod CIDR %" STR_FMT " overlaps with %" STR_FMT
			            " of node %" STR_FMT,
			            STR_ARG(cidrs[i].text), STR_ARG(widest->text),
			            STR_ARG(node_name(widest->node)));
			report_fix(
				r,
				"delete the newer of the two nodes and let its kubelet register again");
		}
		if (!widest || ip_cmp(&cidrs[i].last, &widest->last) > 0)
			widest = &cidrs[i];
	}
}

/* ---- the cloud's routes ---- */
/* The owner of each pod CIDR, and its route. */
struct route_table {
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

/* False: the check was skipped or could not run. */
static bool
get_route_table(struct doctor *d, struct report *r, struct route_table *ret)
{
	const struct view_nodes *nodes = &d->view->nodes;
	const struct route_list *list = &d->view->routes;
	struct arena *arena = &d->view->arena;

	if (!has_routes(d, r) || !doctor_needs(d, r, VIEW_ROUTES))
		return false;
	for (size_t i = 0; i < list->n; i++)
		map_put(&ret->by_destination, cidr_key(list->routes[i].destination_cidr, arena),
		        &list->routes[i]);
	for (size_t i = 0; i < nodes->n; i++) {
		const struct node *node = nodes->items[i];

		for (uint32_t j = 0; j < node->n_pod_cidrs; j++)
			map_put(&ret->owners, cidr_key(node->pod_cidrs[j], arena),
			        (void *)(uintptr_t)node);
	}
	return true;
}

/* Does the controller create a route for this pod CIDR? */
static bool
wants_route(const struct view *v, struct str cidr)
{
	const struct route_options *o = &v->options->routes;
	struct ip_net net;

	return ip_net_parse(cidr, &net) && ip_net_is_within_any(&net, o->cidrs, o->n_cidrs) &&
	       (v->cloud->routes->families(v->cloud) & (ip_family(&net.ip) == IP_V4 ? 1U : 2U));
}

static void
check_route(struct report *r, const struct route *route, const struct node *node, struct str cidr)
{
	if (!route)
		report_find(r, "node", node_name(node),
		            "the cloud has no route to its pod CIDR %" STR_FMT, STR_ARG(cidr));
	else if (!str_eq(route->target_node, node_name(node)) && !route->is_fixed)
		report_find(r, "node", node_name(node),
		            "the route to its pod CIDR %" STR_FMT " leads to %s%" STR_FMT,
		            STR_ARG(cidr), route->target_node.len > 0 ? "node " : "something else",
		            STR_ARG(route->target_node));
	else
		return;
	report_fix(r,
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
	CLEANUP(route_table_fini) struct route_table t = { 0 };
	struct view *v = d->view;

	if (!get_route_table(d, r, &t) || !doctor_needs(d, r, VIEW_LOOK))
		return;
	for (size_t i = 0; i < v->nodes.n; i++) {
		const struct node *node = v->nodes.items[i];
		int64_t age_s = view_now_s(v) - node->created_wall_ns / NS_PER_SEC;

		if (node_is_new(node) || age_s < NEW_S ||
		    doctor_is_unanswered(r, node, &v->look->instances[i]) ||
		    v->look->instances[i].presence != PRESENCE_PRESENT)
			continue;
		for (uint32_t j = 0; j < node->n_pod_cidrs; j++) {
			struct str cidr = node->pod_cidrs[j], key = cidr_key(cidr, &v->arena);

			if (wants_route(v, cidr) && map_get(&t.owners, key) == node)
				check_route(r, map_get(&t.by_destination, key), node, cidr);
		}
	}
}

/* Every route within --cluster-cidr belongs to the controller. It removes a route without a node
 * within seconds, unless it would remove too many together (controllers/route/route_removals.c). */
void
check_orphaned_routes(struct doctor *d, struct report *r)
{
	CLEANUP(route_table_fini) struct route_table t = { 0 };
	const struct route_options *o = &d->view->options->routes;

	if (!get_route_table(d, r, &t))
		return;
	for (size_t i = 0; i < d->view->routes.n; i++) {
		const struct route *route = &d->view->routes.routes[i];
		struct ip_net net;

		if (route->is_fixed || !ip_net_parse(route->destination_cidr, &net) ||
		    !ip_net_is_within_any(&net, o->cidrs, o->n_cidrs) ||
		    map_get(&t.owners, cidr_key(route->destination_cidr, &d->view->arena)))
			continue;
		report_find(r, "route", route->destination_cidr,
		            "no node has this pod CIDR%s%" STR_FMT,
		            route->target_node.len > 0 ? "; the route leads to node " : "",
		            STR_ARG(route->target_node));
		report_fix(r, "it is removed " NEXT_TIME
		              "; if it stays, delete it in the cloud's network");
	}
}
