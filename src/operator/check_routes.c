/* operator/check_routes.c: pod CIDRs, and the routes to them. */
#include <stdlib.h>

#include "flags/flags.h"
#include "operator/doctor.h"
#include "operator/facts.h"
#include "operator/leader.h"

enum {
	NEW_S = 60, /* a younger node may have no route yet */
};

/* A run of the route controller compares all routes. */
#define NEXT_TIME \
	"when a node changes or the routes are compared again (at Hetzner once an hour), or the leader is restarted"

/* ---- pod CIDRs ---- */

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
			report_find(
				r, "network", list->range,
				"it does not contain the pods' network, %s, so the machines do not use the routes; ccmd does not repeat requests because of this",
				o->cluster_cidr);
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

/* Reports a pod CIDR whose route the controller would create. */
static void
report_missing_route(struct view *v, struct report *r, const struct node *node, struct str cidr)
{
	const struct route *route = facts_route_to(v, cidr);
	struct str why;

	/* the cloud does not say to which machine a fixed route leads: it may be this one */
	if (route && route->is_fixed)
		return;
	why = leader_failure(v, r, DESCRIBED_ROUTE, cidr, node->object.uid);
	if (!route)
		report_find(r, "node", node_name(node),
		            "the cloud has no route to its pod CIDR %" STR_FMT "%" STR_FMT,
		            STR_ARG(cidr), STR_ARG(why));
	else if (!str_eq(route->target_node, node_name(node)))
		report_find(r, "node", node_name(node),
		            "the route to its pod CIDR %" STR_FMT " leads to %s%" STR_FMT
		            "%" STR_FMT,
		            STR_ARG(cidr), route->target_node.len > 0 ? "node " : "something else",
		            STR_ARG(route->target_node), STR_ARG(why));
	else
		report_find(r, "node", node_name(node),
		            "the route to its pod CIDR %" STR_FMT
		            " has to be created again%" STR_FMT,
		            STR_ARG(cidr), STR_ARG(why));
	leader_report_fix(
		v, r, why.len > 0,
		"it is created " NEXT_TIME
		"; if the network plugin needs no routes: --configure-cloud-routes=false");
}

/* The controller has yet to create the routes of new nodes, and to remove those of nodes whose
 * machine is gone, so these are not reported. Where pod CIDRs overlap, check_pod_cidrs() reports
 * that. */
void
check_node_routes(struct doctor *d, struct report *r)
{
	struct view *v = d->view;
	const struct route_plan *plan = &v->route_run.plan;
	size_t next = 0; /* of plan->create */

	if (!doctor_needs(d, r, VIEW_LOOK))
		return;
	for (size_t i = 0; i < v->nodes.n; i++) {
		const struct node *node = v->nodes.items[i];
		int64_t age_s = view_now_s(v) - node->created_wall_ns / NS_PER_SEC;
		bool is_compared = !node_is_new(node) && age_s >= NEW_S &&
		                   !doctor_is_unanswered(r, node, &v->look->instances[i]) &&
		                   v->look->instances[i].presence == PRESENCE_PRESENT;

		for (; next < plan->n_create && plan->create[next].node == i; next++) {
			if (is_compared)
				report_missing_route(v, r, node, plan->create[next].cidr);
		}
	}
}

static void
report_orphaned_route(struct doctor *d, struct report *r, const struct route *route)
{
	struct str held = leader_held_routes(d->view), target = STR("a machine");
	const struct machine *machine = NULL;

	if (route->target_node.len > 0) {
		report_find(r, "route", route->destination_cidr,
		            "no node has this pod CIDR; the route leads to node %" STR_FMT
		            "%" STR_FMT,
		            STR_ARG(route->target_node), STR_ARG(held));
		report_fix(r, "it is removed " NEXT_TIME
		              "; if it stays, delete it in the cloud's network");
		return;
	}
	if (doctor_has_machines(d, r))
		machine = facts_machine_at(d->view, route->gateway);
	if (machine)
		target = arena_printf(&d->view->arena, "machine %" STR_FMT, STR_ARG(machine->name));
	report_find(r, "route", route->destination_cidr,
	            "no node has this pod CIDR; the route leads to %" STR_FMT
	            " that is not a node of this cluster%" STR_FMT,
	            STR_ARG(target), STR_ARG(held));
	report_fix(
		r,
		"if another cluster has made it, give each cluster of this network a --cluster-cidr of its own: ccmd removes the route " NEXT_TIME);
}

/* Every route within --cluster-cidr belongs to the controller. It removes a route without a node
 * within seconds, unless it would remove too many together (controllers/route/route_plan.h). */
void
check_orphaned_routes(struct doctor *d, struct report *r)
{
	struct view *v = d->view;
	const struct route_plan *plan = &v->route_run.plan;

	for (size_t i = 0; i < plan->n_remove; i++) {
		const struct route *route = &v->routes.routes[plan->remove[i]];

		/* if one has, its node gets another route */
		if (!facts_owner_of_cidr(v, route->destination_cidr))
			report_orphaned_route(d, r, route);
	}
}

/* ---- nodes without routes ---- */

void
check_missing_cidrs(struct doctor *d, struct report *r)
{
	const struct view_nodes *nodes = &d->view->nodes;
	size_t n_with = 0;

	for (size_t i = 0; i < nodes->n; i++)
		n_with += nodes->items[i]->n_pod_cidrs > 0;
	for (size_t i = 0; i < nodes->n; i++) {
		const struct node *node = nodes->items[i];
		int64_t age_s = view_now_s(d->view) - node->created_wall_ns / NS_PER_SEC;

		/* a new node gets its pod CIDR within seconds, if any does */
		if (node->n_pod_cidrs > 0 || node_is_new(node) || (n_with > 0 && age_s < NEW_S))
			continue;
		report_find(r, "node", node_name(node), "it has no pod CIDR, so it gets no route%s",
		            node->network == NODE_NETWORK_MISSING
		                    ? ", and NetworkUnavailable stays True"
		                    : "");
		report_fix(
			r,
			"start kube-controller-manager with --allocate-node-cidrs=true and --cluster-cidr=%s; or, if the network plugin needs no routes, ccmd with --configure-cloud-routes=false; then the plugin, or a person, has to clear NetworkUnavailable (CCMD054)",
			d->view->options->routes.cluster_cidr);
	}
}

/* While the route controller works, check_node_routes() reports a missing route. */
void
check_network_conditions(struct doctor *d, struct report *r)
{
	const struct view *v = d->view;

	if (options_want_routes(v->options) && v->cloud->routes) {
		report_skip(r, "the route controller maintains these conditions");
		return;
	}
	for (size_t i = 0; i < v->nodes.n; i++) {
		const struct node *node = v->nodes.items[i];

		if (node->network != NODE_NETWORK_MISSING)
			continue;
		report_find(
			r, "node", node_name(node),
			"NetworkUnavailable is True with the reason NoRouteCreated, but the route controller, which would change it, is disabled");
		report_fix(
			r,
			"if the network plugin needs no routes: kubectl patch node %" STR_FMT
			" --subresource=status -p '{\"status\":{\"conditions\":[{\"type\":\"NetworkUnavailable\",\"status\":\"False\",\"reason\":\"RouteCreated\"}]}}'",
			STR_ARG(node_name(node)));
	}
}
