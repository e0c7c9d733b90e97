/* operator/check_services.c: Services of type LoadBalancer. */
#include <string.h>

#include "base/words.h"
#include "controllers/service/service.h"
#include "operator/doctor.h"
#include "operator/facts.h"

#define DEFAULT_CLUSTER "kubernetes" /* of --cluster-name */
/* Any new value of an annotation makes ccmd compare the balancer. */
#define REPAIR "ccmd.io/repair=$(date +%%s)"

/* Does the cloud have load balancers? If not, the check is skipped. */
static bool
has_balancers(struct doctor *d, struct report *r)
{
	if (!d->view->cloud->balancers)
		report_skip(r, "the cloud, as it is configured, has no load balancers");
	return d->view->cloud->balancers != NULL;
}

/* Reads one of the parts that need a list of the balancers. False: the check is skipped, or could
 * not run. */
static bool
get_listed(struct doctor *d, struct report *r, enum view_part part)
{
	if (!has_balancers(d, r))
		return false;
	if (!d->view->cloud->balancers->list) {
		report_skip(r, "the load balancers of this cloud cannot be listed");
		return false;
	}
	return doctor_needs(d, r, part);
}

/* Does ccmd handle the Service now? */
static bool
is_wanted(const struct service *s)
{
	return service_wants_balancer(s) && !s->is_deleting;
}

/* ---- what needs no balancer in the cloud ---- */

void
check_pending_services(struct doctor *d, struct report *r)
{
	if (!has_balancers(d, r))
		return;
	for (size_t i = 0; i < d->view->services.n; i++) {
		const struct service *s = d->view->services.items[i];

		if (!is_wanted(s) || s->n_ingress > 0)
			continue;
		report_find(r, "service", s->object.key, "%s",
		            s->has_finalizer
		                    ? "its load balancer is not ready"
		                    : "no controller has begun to create its load balancer");
		report_fix(r, "read its events: kubectl -n %" STR_FMT " describe service %" STR_FMT,
		           STR_ARG(s->namespace), STR_ARG(s->name));
	}
}

void
check_targets(struct doctor *d, struct report *r)
{
	if (!has_balancers(d, r) || !doctor_needs(d, r, VIEW_NODES))
		return;
	for (size_t i = 0; i < d->view->services.n; i++) {
		const struct service *s = d->view->services.items[i];

		if (!is_wanted(s) || facts_count_targets(d->view, s) > 0)
			continue;
		report_find(r, "service", s->object.key, "no node may be its target");
		report_fix(
			r,
			"initialise the nodes, and remove the label node.kubernetes.io/exclude-from-external-load-balancers from those that should serve");
	}
}

static void
check_annotation(struct view *v, struct report *r, const struct service *s,
                 const struct label *annotation)
{
	const struct balancer_ops *ops = v->cloud->balancers;
	struct str key = annotation->key, value = annotation->value, meant;
	struct str prefix = str_c(ops->annotation_prefix), rest = str_skip(key, prefix.len);
	const char *nearest;

	if (!str_starts(key, prefix) || words_have(ops->annotations, rest))
		return;
	report_find(r, "service", s->object.key, "no annotation of this cloud is called %" STR_FMT,
	            STR_ARG(key));
	nearest = words_nearest(ops->annotations, rest);
	meant = nearest ? arena_printf(&v->arena, "%s%s", ops->annotation_prefix, nearest)
	                : STR_EMPTY;
	if (!nearest || service_annotation(s, meant))
		report_command(r,
		               "kubectl -n %" STR_FMT " annotate service %" STR_FMT " %" STR_FMT
		               "-",
		               STR_ARG(s->namespace), STR_ARG(s->name), STR_ARG(key));
	else if (report_is_plain(value))
		report_command(r,
		               "kubectl -n %" STR_FMT " annotate service %" STR_FMT " %" STR_FMT
		               "=%" STR_FMT " %" STR_FMT "-",
		               STR_ARG(s->namespace), STR_ARG(s->name), STR_ARG(meant),
		               STR_ARG(value), STR_ARG(key));
	else
		report_fix(r, "write %" STR_FMT " instead", STR_ARG(meant));
}

void
check_annotation_names(struct doctor *d, struct report *r)
{
	struct view *v = d->view;

	if (!has_balancers(d, r))
		return;
	if (!v->cloud->balancers->annotation_prefix) {
		report_skip(r, "this cloud does not declare the names of its annotations");
		return;
	}
	for (size_t i = 0; i < v->services.n; i++) {
		const struct service *s = v->services.items[i];

		for (uint32_t j = 0; service_wants_balancer(s) && j < s->n_annotations; j++)
			check_annotation(v, r, s, &s->annotations[j]);
	}
}

/* ---- trials ---- */

/* Does the cloud refuse this Service? Other errors are failures of a request. ERR_EXISTS: the load
 * balancer belongs to another owner. */
static bool
is_refusal(enum err_code code)
{
	return code == ERR_INVALID || code == ERR_UNSUPPORTED || code == ERR_EXISTS ||
	       code == ERR_NOT_FOUND;
}

/* Did the trial end before it could compare everything? The check is UNKNOWN for the Service then.
 * A trial that ends in ERR_PENDING has compared everything that can be compared now. */
static bool
is_incomplete(struct report *r, const struct service_trial *trial)
{
	struct error err;

	if (trial->code == ERR_NONE || trial->code == ERR_PENDING || is_refusal(trial->code))
		return false;
	err_set(&err, trial->code, "%" STR_FMT, STR_ARG(trial->error));
	report_unknown_about(r, "service", trial->service->object.key, &err);
	return true;
}

/* Services that balancer_check() permits, but that the cloud refuses. A load balancer that belongs
 * to another owner is left to check_refused_balancers(). */
static void
report_refused_services(struct doctor *d, struct report *r)
{
	struct view *v = d->view;

	if (!v->cloud->balancers->list || !doctor_needs(d, r, VIEW_TRIALS))
		return;
	for (size_t i = 0; i < v->n_trials; i++) {
		const struct service_trial *trial = &v->trials[i];
		const struct service *s = trial->service;
		struct lb_spec spec = service_spec(s, v->options->cluster_name, &v->arena);
		struct error ignored;

		if (trial->kept.len > 0) {
			report_find(r, "service", s->object.key, "%" STR_FMT, STR_ARG(trial->kept));
			report_fix(r, "choose one of the two");
		}
		if (is_incomplete(r, trial) || trial->code == ERR_EXISTS ||
		    !is_refusal(trial->code) ||
		    !balancer_check(v->cloud, &v->call, &spec, &ignored))
			continue;
		report_find(r, "service", s->object.key, "%" STR_FMT, STR_ARG(trial->error));
		report_fix(
			r,
			"correct the Service, or the configuration of the cloud: kubectl -n %" STR_FMT
			" describe service %" STR_FMT,
			STR_ARG(s->namespace), STR_ARG(s->name));
	}
}

void
check_service_specs(struct doctor *d, struct report *r)
{
	struct view *v = d->view;

	if (!has_balancers(d, r))
		return;
	for (size_t i = 0; i < v->services.n; i++) {
		const struct service *s = v->services.items[i];
		struct lb_spec spec;
		struct error err;

		if (!is_wanted(s))
			continue;
		spec = service_spec(s, v->options->cluster_name, &v->arena);
		if (balancer_check(v->cloud, &v->call, &spec, &err))
			continue;
		report_find(r, "service", s->object.key, "%s", err.msg);
		report_fix(r, "kubectl -n %" STR_FMT " edit service %" STR_FMT,
		           STR_ARG(s->namespace), STR_ARG(s->name));
	}
	report_refused_services(d, r);
	doctor_report_unknown_names(d, r);
}

/* Balancers that do not exist yet are reported by check_pending_services() and check_balancers().
 */
void
check_changed_balancers(struct doctor *d, struct report *r)
{
	if (!get_listed(d, r, VIEW_TRIALS))
		return;
	for (size_t i = 0; i < d->view->n_trials; i++) {
		const struct service_trial *trial = &d->view->trials[i];
		const struct service *s = trial->service;

		if (is_incomplete(r, trial) || trial->changes.len == 0 || trial->is_new ||
		    s->n_ingress == 0)
			continue;
		report_find(r, "service", s->object.key, "its load balancer differs: %" STR_FMT,
		            STR_ARG(trial->changes));
		if (trial->has_values)
			report_fix(
				r,
				"to keep it, set it by an annotation of the Service; to undo it: kubectl -n %" STR_FMT
				" annotate service %" STR_FMT " --overwrite " REPAIR,
				STR_ARG(s->namespace), STR_ARG(s->name));
		else
			report_command(r,
			               "kubectl -n %" STR_FMT " annotate service %" STR_FMT
			               " --overwrite " REPAIR,
			               STR_ARG(s->namespace), STR_ARG(s->name));
	}
}

/* Other refusals are reported by report_refused_services(). */
void
check_refused_balancers(struct doctor *d, struct report *r)
{
	if (!get_listed(d, r, VIEW_TRIALS))
		return;
	for (size_t i = 0; i < d->view->n_trials; i++) {
		const struct service_trial *trial = &d->view->trials[i];
		const struct service *s = trial->service;

		if (is_incomplete(r, trial) || trial->code != ERR_EXISTS)
			continue;
		report_find(r, "service", s->object.key, "%" STR_FMT, STR_ARG(trial->error));
		report_fix(r,
		           "correct the Service, or the load balancer: kubectl -n %" STR_FMT
		           " describe service %" STR_FMT,
		           STR_ARG(s->namespace), STR_ARG(s->name));
	}
}

/* ---- the balancers in the cloud ---- */

/* Services without an address are reported by check_pending_services(). */
void
check_balancers(struct doctor *d, struct report *r)
{
	const struct view *v = d->view;

	if (!get_listed(d, r, VIEW_BALANCERS))
		return;
	for (size_t i = 0; i < v->services.n; i++) {
		const struct service *s = v->services.items[i];
		bool has_balancer = false;

		for (size_t j = 0; j < v->n_balancers; j++) {
			const struct lb_listed *lb = &v->balancers[j];

			has_balancer |= lb->is_balancer && facts_is_of_service(lb, s) &&
			                (lb->uid.len > 0 ||
			                 str_eq_c(lb->cluster, v->options->cluster_name));
		}
		if (!is_wanted(s) || s->n_ingress == 0 || has_balancer)
			continue;
		report_find(r, "service", s->object.key,
		            "it has an address, but the cloud has no load balancer for it");
		report_fix(
			r,
			"check that the credentials are those of the cluster's project; if the load balancer was deleted: kubectl -n %" STR_FMT
			" annotate service %" STR_FMT " " LB_ANNOTATION_GONE "=true",
			STR_ARG(s->namespace), STR_ARG(s->name));
	}
}

/* It is normal that some targets are unhealthy: with externalTrafficPolicy Local, nodes without a
 * pod of the Service are. */
void
check_forwarding(struct doctor *d, struct report *r)
{
	const struct view *v = d->view;
	bool has_health = false;

	if (!get_listed(d, r, VIEW_BALANCERS))
		return;
	for (size_t i = 0; i < v->services.n; i++) {
		const struct service *s = v->services.items[i];

		for (size_t j = 0; j < v->n_balancers; j++) {
			const struct lb_listed *lb = &v->balancers[j];

			if (!lb->is_balancer || !facts_is_of_service(lb, s))
				continue;
			if (lb->n_unhealthy > 0 && lb->n_healthy == 0) {
				report_find(r, "service", s->object.key,
				            "no target of its load balancer is healthy: %" STR_FMT,
				            STR_ARG(lb->unhealthy));
				report_fix(
					r,
					"check that its pods are ready, and that the load balancer can reach the nodes at these ports");
			}
			if (lb->blocked.len > 0) {
				report_find(r, "service", s->object.key,
				            "the cloud has blocked its address %" STR_FMT,
				            STR_ARG(lb->blocked));
				report_fix(r, "ask the cloud's support why");
			}
		}
	}
	for (size_t j = 0; j < v->n_balancers; j++)
		has_health |= v->balancers[j].has_health;
	if (v->n_balancers > 0 && !has_health)
		report_skip(r, "this cloud does not report the health of targets");
}

/* A balancer without the name of a cluster, or with the default name, may belong to any cluster of
 * the project. */
void
check_orphans(struct doctor *d, struct report *r)
{
	const struct view *v = d->view;

	if (!get_listed(d, r, VIEW_BALANCERS))
		return;
	if (strcmp(v->options->cluster_name, DEFAULT_CLUSTER) == 0) {
		report_skip(
			r,
			"--cluster-name has its default, which other clusters of the project may have as well");
		return;
	}
	for (size_t i = 0; i < v->n_balancers; i++) {
		const struct lb_listed *one = &v->balancers[i];
		const char *costs = one->cost.len > 0 ? "; it costs " : "";
		bool has_service = false;

		for (size_t j = 0; j < v->services.n; j++) {
			const struct service *s = v->services.items[j];

			/* a Service of the same name may be of another type by now */
			has_service |= facts_is_of_service(one, s) &&
			               (one->uid.len > 0 || service_wants_balancer(s) ||
			                s->has_finalizer);
		}
		if (!str_eq_c(one->cluster, v->options->cluster_name) || has_service)
			continue;
		if (one->uid.len > 0)
			report_find(r, one->what, one->id,
			            "no Service of this cluster has its UID %" STR_FMT
			            "%s%" STR_FMT,
			            STR_ARG(one->uid), costs, STR_ARG(one->cost));
		else
			report_find(r, one->what, one->id,
			            "no Service %" STR_FMT
			            " of this cluster asks for it%s%" STR_FMT,
			            STR_ARG(one->service), costs, STR_ARG(one->cost));
		report_fix(r, "delete it in the cloud, if nothing else uses it");
	}
}
