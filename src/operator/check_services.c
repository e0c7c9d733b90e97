/* operator/check_services.c: Services of type LoadBalancer. */
#include <string.h>

#include "base/words.h"
#include "controllers/service/service.h"
#include "controllers/service/targets.h"
#include "operator/doctor.h"

#define DEFAULT_CLUSTER "kubernetes" /* of --cluster-name */

/* True with *ret, unless the check is skipped or could not run. */
static bool
get_services(struct doctor *d, struct report *r, const struct view_services **ret,
             const struct balancer_ops **ret_ops)
{
	struct cloud *cloud;
	struct error err;

	if (!view_services(d->view, ret, &err) || !view_cloud(d->view, &cloud, &err)) {
		report_unknown(r, &err);
		return false;
	}
	if (!cloud->balancers)
		report_skip(r, "the cloud, as it is configured, has no load balancers");
	*ret_ops = cloud->balancers;
	return cloud->balancers != NULL;
}

void
check_pending_services(struct doctor *d, struct report *r)
{
	const struct view_services *services;
	const struct balancer_ops *ops;

	if (!get_services(d, r, &services, &ops))
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

/* May any node of this cluster be the target of a load balancer? */
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
	const struct balancer_ops *ops;
	bool is_any_eligible;
	struct error err;

	if (!get_services(d, r, &services, &ops))
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

/* ---- annotations ---- */

static void
check_annotation(struct report *r, struct arena *arena, const struct balancer_ops *ops,
                 const struct service *s, const struct label *annotation)
{
	struct str key = annotation->key, value = annotation->value, meant;
	struct str prefix = str_c(ops->annotation_prefix), rest = str_skip(key, prefix.len);
	struct finding *finding;
	const char *nearest;

	if (!str_starts(key, prefix) || words_have(ops->annotations, rest))
		return;
	nearest = words_nearest(ops->annotations, rest);
	meant = nearest ? arena_printf(arena, "%s%s", ops->annotation_prefix, nearest) : STR_EMPTY;
	finding = report_find(r, "service", s->object.key,
	                      "no annotation of this cloud is called %" STR_FMT, STR_ARG(key));
	if (!nearest || service_annotation(s, meant))
		report_command(r, finding,
		               "kubectl -n %" STR_FMT " annotate service %" STR_FMT " %" STR_FMT
		               "-",
		               STR_ARG(s->namespace), STR_ARG(s->name), STR_ARG(key));
	else if (report_is_plain(value))
		report_command(r, finding,
		               "kubectl -n %" STR_FMT " annotate service %" STR_FMT " %" STR_FMT
		               "=%" STR_FMT " %" STR_FMT "-",
		               STR_ARG(s->namespace), STR_ARG(s->name), STR_ARG(meant),
		               STR_ARG(value), STR_ARG(key));
	else
		report_fix(r, finding, "write %" STR_FMT " instead", STR_ARG(meant));
}

void
check_annotation_names(struct doctor *d, struct report *r)
{
	const struct view_services *services;
	const struct balancer_ops *ops;

	if (!get_services(d, r, &services, &ops))
		return;
	if (!ops->annotation_prefix) {
		report_skip(r, "this cloud does not declare the names of its annotations");
		return;
	}
	for (size_t i = 0; i < services->n; i++) {
		const struct service *s = services->items[i];

		for (uint32_t j = 0; service_wants_balancer(s) && j < s->n_annotations; j++)
			check_annotation(r, view_call(d->view)->arena, ops, s, &s->annotations[j]);
	}
}

void
check_service_specs(struct doctor *d, struct report *r)
{
	const struct options *o = view_options(d->view);
	const struct view_services *services;
	const struct balancer_ops *ops;
	struct cloud *cloud;
	struct error err;

	if (!get_services(d, r, &services, &ops) || !view_cloud(d->view, &cloud, &err))
		return;
	for (size_t i = 0; i < services->n; i++) {
		const struct service *s = services->items[i];
		struct call *call = view_call(d->view);
		struct lb_spec spec;

		if (!service_wants_balancer(s) || s->is_deleting)
			continue;
		spec = service_spec(s, o->cluster_name, call->arena);
		if (!balancer_check(cloud, call, &spec, &err))
			report_fix(r, report_find(r, "service", s->object.key, "%s", err.msg),
			           "kubectl -n %" STR_FMT " edit service %" STR_FMT,
			           STR_ARG(s->namespace), STR_ARG(s->name));
	}
	doctor_find_refused_services(d, r);
	doctor_find_unknown_names(d, r);
}

/* ---- the balancers in the cloud ---- */

/* True with the list, unless the check is skipped or could not run. */
static bool
get_balancers(struct doctor *d, struct report *r, const struct view_services **ret_services,
              const struct lb_listed **ret, size_t *ret_n)
{
	const struct balancer_ops *ops;
	struct error err;

	if (!get_services(d, r, ret_services, &ops))
		return false;
	if (!ops->list) {
		report_skip(r, "the load balancers of this cloud cannot be listed");
		return false;
	}
	if (!view_balancers(d->view, ret, ret_n, &err)) {
		report_unknown(r, &err);
		return false;
	}
	return true;
}

static bool
is_of_service(const struct lb_listed *one, const struct service *s)
{
	return one->uid.len > 0 ? str_eq(one->uid, s->object.uid)
	                        : str_eq(one->service, s->object.key);
}

static bool
has_balancer(const struct service *s, struct str cluster, const struct lb_listed lbs[], size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (lbs[i].is_balancer && is_of_service(&lbs[i], s) &&
		    (lbs[i].uid.len > 0 || str_eq(lbs[i].cluster, cluster)))
			return true;
	}
	return false;
}

/* Services without an address are reported by check_pending_services(). */
void
check_balancers(struct doctor *d, struct report *r)
{
	struct str cluster = str_c(view_options(d->view)->cluster_name);
	const struct view_services *services;
	const struct lb_listed *lbs;
	size_t n;

	if (!get_balancers(d, r, &services, &lbs, &n))
		return;
	for (size_t i = 0; i < services->n; i++) {
		const struct service *s = services->items[i];

		if (!service_wants_balancer(s) || s->is_deleting || s->n_ingress == 0 ||
		    has_balancer(s, cluster, lbs, n))
			continue;
		report_fix(
			r,
			report_find(r, "service", s->object.key,
		                    "it has an address, but the cloud has no load balancer for it"),
			"check that the credentials are those of the cluster's project; if the load balancer was deleted: kubectl -n %" STR_FMT
			" annotate service %" STR_FMT " " LB_ANNOTATION_GONE "=true",
			STR_ARG(s->namespace), STR_ARG(s->name));
	}
}

static void
find_forwarding(struct report *r, const struct service *s, const struct lb_listed *lb)
{
	if (lb->n_unhealthy > 0 && lb->n_healthy == 0)
		report_fix(
			r,
			report_find(r, "service", s->object.key,
		                    "no target of its load balancer is healthy: %" STR_FMT,
		                    STR_ARG(lb->unhealthy)),
			"check that its pods are ready, and that the load balancer can reach the nodes at these ports");
	if (lb->blocked.len > 0)
		report_fix(r,
		           report_find(r, "service", s->object.key,
		                       "the cloud has blocked its address %" STR_FMT,
		                       STR_ARG(lb->blocked)),
		           "ask the cloud's support why");
}

/* It is normal that some targets are unhealthy: with externalTrafficPolicy Local, nodes without a
 * pod of the Service are. */
void
check_forwarding(struct doctor *d, struct report *r)
{
	const struct view_services *services;
	const struct lb_listed *lbs;
	bool has_health = false;
	size_t n;

	if (!get_balancers(d, r, &services, &lbs, &n))
		return;
	for (size_t i = 0; i < services->n; i++) {
		for (size_t j = 0; j < n; j++) {
			if (lbs[j].is_balancer && is_of_service(&lbs[j], services->items[i]))
				find_forwarding(r, services->items[i], &lbs[j]);
		}
	}
	for (size_t j = 0; j < n; j++)
		has_health |= lbs[j].has_health;
	if (n > 0 && !has_health)
		report_skip(r, "this cloud does not report the health of targets");
}

/* A Service of the same name may be of another type by now. */
static bool
has_service(const struct view_services *services, const struct lb_listed *one)
{
	for (size_t i = 0; i < services->n; i++) {
		const struct service *s = services->items[i];

		if (is_of_service(one, s) &&
		    (one->uid.len > 0 || service_wants_balancer(s) || s->has_finalizer))
			return true;
	}
	return false;
}

static void
find_orphan(struct report *r, const struct lb_listed *one)
{
	struct finding *finding;

	if (one->uid.len > 0)
		finding = report_find(r, one->what, one->id,
		                      "no Service of this cluster has its UID %" STR_FMT
		                      "%s%" STR_FMT,
		                      STR_ARG(one->uid), one->cost.len > 0 ? "; it costs " : "",
		                      STR_ARG(one->cost));
	else
		finding = report_find(r, one->what, one->id,
		                      "no Service %" STR_FMT
		                      " of this cluster asks for it%s%" STR_FMT,
		                      STR_ARG(one->service), one->cost.len > 0 ? "; it costs " : "",
		                      STR_ARG(one->cost));
	report_fix(r, finding, "delete it in the cloud, if nothing else uses it");
}

/* A balancer without the name of a cluster, or with the default name, may belong to any cluster of
 * the project. */
void
check_orphans(struct doctor *d, struct report *r)
{
	const char *cluster = view_options(d->view)->cluster_name;
	const struct view_services *services;
	const struct lb_listed *lbs;
	size_t n;

	if (!get_balancers(d, r, &services, &lbs, &n))
		return;
	if (strcmp(cluster, DEFAULT_CLUSTER) == 0) {
		report_skip(
			r,
			"--cluster-name has its default, which other clusters of the project may have as well");
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (str_eq_c(lbs[i].cluster, cluster) && !has_service(services, &lbs[i]))
			find_orphan(r, &lbs[i]);
	}
}
