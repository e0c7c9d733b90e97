/* operator/check_services.c: Services of type LoadBalancer. */
#include "controllers/service/targets.h"
#include "cloud/balancer.h"
#include "operator/doctor.h"

/* True with *ret, unless the check is skipped or could not run. */
static bool
get_services(struct doctor *d, struct report *r, const struct view_services **ret)
{
	struct cloud *cloud;
	struct error err;

	if (!view_services(d->view, ret, &err) || !view_cloud(d->view, &cloud, &err)) {
		report_unknown(r, &err);
		return false;
	}
	if (!cloud->balancers)
		report_skip(r, "the cloud, as it is configured, has no load balancers");
	return cloud->balancers != NULL;
}

void
check_pending_services(struct doctor *d, struct report *r)
{
	const struct view_services *services;

	if (!get_services(d, r, &services))
		return;
	for (size_t i = 0; i < services->n; i++) {
		const struct service *s = services->items[i];

		if (!service_wants_balancer(s) || s->is_deleting || s->n_ingress > 0)
			continue;
		report_fix(r,
		           report_find(
				   r, "service", s->object.key, "%s",
				   s->has_finalizer
					   ? "its load balancer is not ready"
					   : "no controller has begun to create its load balancer"),
		           "read its events: kubectl -n %" STR_FMT " describe service %" STR_FMT,
		           STR_ARG(s->namespace), STR_ARG(s->name));
	}
}

/* Is a node of this cluster a target of any load balancer? */
static bool
has_targets(struct doctor *d, bool *ret, struct error *err)
{
	const struct view_nodes *nodes;

	*ret = false;
	if (!view_nodes(d->view, &nodes, err))
		return false;
	for (size_t i = 0; i < nodes->n; i++)
		*ret |= target_is_eligible(nodes->items[i]) && !node_is_new(nodes->items[i]);
	return true;
}

void
check_targets(struct doctor *d, struct report *r)
{
	const struct view_services *services;
	bool is_any_eligible;
	struct error err;

	if (!get_services(d, r, &services))
		return;
	if (!has_targets(d, &is_any_eligible, &err)) {
		report_unknown(r, &err);
		return;
	}
	for (size_t i = 0; i < services->n && !is_any_eligible; i++) {
		const struct service *s = services->items[i];

		if (service_wants_balancer(s) && !s->is_deleting)
			report_fix(
				r,
				report_find(r, "service", s->object.key,
			                    "no node may be its target"),
				"initialise the nodes, and remove the label node.kubernetes.io/exclude-from-external-load-balancers from those that should serve");
	}
}
