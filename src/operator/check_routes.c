/* operator/check_routes.c: pod CIDRs, and the routes to them. */
#include <stdlib.h>

#include "flags/flags.h"
#include "operator/doctor.h"

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

void
check_cluster_cidr(struct doctor *d, struct report *r)
{
	const struct options *o = view_options(d->view);
	const struct view_nodes *nodes;

	if (!has_routes(d, r) || !doctor_get_nodes(d, r, &nodes))
		return;
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

/* Two networks overlap only if one contains the other. So in the order of their first addresses it
 * is enough to compare each one with the one before it that reaches furthest. */
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
