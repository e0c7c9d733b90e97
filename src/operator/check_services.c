/* operator/check_services.c: Services of type LoadBalancer. */
#include <string.h>

#include "base/words.h"
#include "controllers/service/service.h"
#include "flags/flags.h"
#include "operator/doctor.h"
#include "operator/facts.h"
#include "operator/leader.h"

enum {
	NEW_S = 60,       /* the pods of a younger Service may still start */
	DELETION_S = 300, /* a balancer is removed within this time */
	CLASS_S = 600,    /* likewise, the controller of a class has acted */
};

#define DEFAULT_CLUSTER "kubernetes" /* of --cluster-name */
/* Any new value of an annotation makes ccmd compare the balancer. */
#define REPAIR "ccmd.io/repair=$(date +%%s)"

/* ---- what needs no balancer in the cloud ---- */

void
check_pending_services(struct doctor *d, struct report *r, const struct checked_service *c)
{
	struct str why;

	if (!c->is_wanted || c->service->n_ingress > 0)
		return;
	why = leader_failure(d->view, r, DESCRIBED_SERVICE, c->key, c->service->object.uid);
	report_find(r, "service", c->key, "%s%" STR_FMT,
	            c->service->has_finalizer || why.len > 0
	                    ? "its load balancer is not ready"
	                    : "no controller has begun to create its load balancer",
	            STR_ARG(why));
	leader_report_fix(d->view, r, why.len > 0, NULL);
}

#define EXCLUDE "node.kubernetes.io/exclude-from-external-load-balancers"

void
check_targets(struct doctor *d, struct report *r, const struct checked_service *c)
{
	const struct view_nodes *nodes = &d->view->nodes;
	size_t n_excluded = 0, n_new = 0;

	if (!c->is_wanted || facts_count_targets(d->view, c->service, NULL) > 0)
		return;
	for (size_t i = 0; i < nodes->n; i++) {
		n_excluded += node_label(nodes->items[i], STR(EXCLUDE)) != NULL;
		n_new += node_is_new(nodes->items[i]);
	}
	report_find(r, "service", c->key,
	            "no node may be its target: of %zu nodes, %zu have the label " EXCLUDE
	            ", and %zu are not initialised",
	            nodes->n, n_excluded, n_new);
	report_fix(r, "%s",
	           n_excluded > 0 ? "remove the label from the nodes that should serve: "
	                            "kubectl label node NAME " EXCLUDE "-"
	           : n_new > 0    ? "see why the nodes are not initialised (CCMD041)"
	                          : "add nodes of this cloud, or correct the annotation by "
	                            "which the Service selects nodes");
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

/* A Service that is refused has no address because of that: one fault, one finding. */
static void
replace_pending(struct report *r, const struct service *s)
{
	report_replace(r, "CCMD060", "service", s->object.key);
}

/* A Service that balancer_check() permits, but that the cloud refuses. A load balancer that belongs
 * to another owner is left to check_refused_balancers(). */
static void
report_refused_service(struct report *r, const struct service_trial *trial)
{
	const struct service *s = trial->service;

	if (trial->kept.len > 0) {
		report_find(r, "service", s->object.key, "%" STR_FMT, STR_ARG(trial->kept));
		report_fix(r, "kubectl -n %" STR_FMT " edit service %" STR_FMT,
		           STR_ARG(s->namespace), STR_ARG(s->name));
	}
	if (is_incomplete(r, trial) || trial->code == ERR_EXISTS || !is_refusal(trial->code))
		return;
	report_find(r, "service", s->object.key, "%" STR_FMT, STR_ARG(trial->error));
	replace_pending(r, s);
	report_fix(r,
	           "correct the Service, or the configuration of the cloud: kubectl -n %" STR_FMT
	           " describe service %" STR_FMT,
	           STR_ARG(s->namespace), STR_ARG(s->name));
}

/* A name that does not exist is also why the cloud refuses the Service. */
void
check_service_specs(struct doctor *d, struct report *r)
{
	struct view *v = d->view;
	bool has_trials = v->cloud->balancers->list && doctor_needs(d, r, VIEW_TRIALS);
	bool has_names = doctor_needs(d, r, VIEW_SETTINGS);

	for (size_t i = 0, next = 0; i < v->services.n; i++) {
		const struct service *s = v->services.items[i];
		const struct service_trial *trial = NULL;
		struct lb_spec spec;
		struct error err;

		if (!service_wants_balancer(s) || s->is_deleting)
			continue;
		if (has_trials && v->trials[next].service == s)
			trial = &v->trials[next++];
		spec = service_spec(s, v->options->cluster_name, &v->arena);
		if (!balancer_check(v->cloud, &v->call, &spec, &err)) {
			report_find(r, "service", s->object.key, "%s", err.msg);
			replace_pending(r, s);
			report_fix(r, "kubectl -n %" STR_FMT " edit service %" STR_FMT,
			           STR_ARG(s->namespace), STR_ARG(s->name));
		} else if (has_names && doctor_report_unknown_names(d, r, s)) {
			replace_pending(r, s);
		} else if (trial) {
			report_refused_service(r, trial);
		}
	}
}

/* Balancers that do not exist yet are reported by check_pending_services() and check_balancers().
 */
void
check_changed_balancers(struct doctor *d, struct report *r, const struct checked_service *c)
{
	const struct service *s = c->service;
	const struct service_trial *trial = c->trial;
	struct str why;

	if (!trial || is_incomplete(r, trial) || trial->changes.len == 0 || trial->is_new ||
	    s->n_ingress == 0)
		return;
	why = leader_failure(d->view, r, DESCRIBED_SERVICE, c->key, s->object.uid);
	report_find(r, "service", c->key, "its load balancer differs: %" STR_FMT "%" STR_FMT,
	            STR_ARG(trial->changes), STR_ARG(why));
	if (why.len > 0)
		leader_report_fix(d->view, r, /*is_failing=*/true, NULL);
	else if (trial->has_values)
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

/* Other refusals are reported by report_refused_service(). */
void
check_refused_balancers(struct doctor *d, struct report *r, const struct checked_service *c)
{
	const struct service *s = c->service;

	(void)d;
	if (!c->trial || is_incomplete(r, c->trial) || c->trial->code != ERR_EXISTS)
		return;
	report_find(r, "service", c->key, "%" STR_FMT, STR_ARG(c->trial->error));
	replace_pending(r, s);
	report_fix(r,
	           "correct the Service, or the load balancer: kubectl -n %" STR_FMT
	           " describe service %" STR_FMT,
	           STR_ARG(s->namespace), STR_ARG(s->name));
}

/* ---- the balancers in the cloud ---- */

static bool
has_balancer(const struct view *v, const struct service *s)
{
	for (size_t i = 0; i < v->n_balancers; i++) {
		const struct lb_listed *lb = &v->balancers[i];

		if (lb->is_balancer && facts_is_of_service(lb, s) &&
		    (lb->uid.len > 0 || str_eq_c(lb->cluster, v->options->cluster_name)))
			return true;
	}
	return false;
}

/* Services without an address are reported by check_pending_services(). */
void
check_balancers(struct doctor *d, struct report *r, const struct checked_service *c)
{
	const struct service *s = c->service;

	if (!c->is_wanted || s->n_ingress == 0 || has_balancer(d->view, s))
		return;
	report_find(r, "service", c->key,
	            "it has an address, but the cloud has no load balancer for it");
	report_fix(
		r,
		"check that the credentials are those of the cluster's project; if the load balancer was deleted: kubectl -n %" STR_FMT
		" annotate service %" STR_FMT " " LB_ANNOTATION_GONE "=true",
		STR_ARG(s->namespace), STR_ARG(s->name));
}

/* Appends the annotations that decide what the load balancer sends to its targets. */
static void
add_protocol_annotations(const struct view *v, const struct service *s, struct buf *b)
{
	const char *prefix = v->cloud->balancers->annotation_prefix;

	for (uint32_t i = 0; prefix && i < s->n_annotations; i++) {
		struct str key = s->annotations[i].key;

		if (str_starts(key, str_c(prefix)) &&
		    (str_contains(key, STR("proxy")) || str_contains(key, STR("protocol")) ||
		     str_contains(key, STR("health-check"))))
			buf_addf(
				b, "%s%" STR_FMT "=%" STR_FMT,
				b->len > 0
					? ", "
					: "; the pods have to accept what the load balancer sends with ",
				STR_ARG(key), STR_ARG(s->annotations[i].value));
	}
}

static void
report_health(const struct view *v, struct report *r, const struct service *s,
              const struct lb_listed *lb)
{
	CLEANUP(buf_fini) struct buf annotations = BUF_INIT(KIB(4));

	/* with Local, nodes without a pod of the Service are unhealthy (check_endpoints()) */
	if (lb->n_unhealthy == 0 || (lb->n_healthy > 0 && str_eq_c(s->traffic_policy, "Local")))
		return;
	if (lb->n_healthy == 0)
		report_find(r, "service", s->object.key,
		            "no target of its load balancer is healthy: %" STR_FMT,
		            STR_ARG(lb->unhealthy));
	else
		report_note(r, "service", s->object.key,
		            "%zu of %zu targets of its load balancer are unhealthy: %" STR_FMT,
		            lb->n_unhealthy, lb->n_unhealthy + lb->n_healthy,
		            STR_ARG(lb->unhealthy));
	add_protocol_annotations(v, s, &annotations);
	report_fix(
		r,
		"check that its pods are ready, and that the load balancer can reach the nodes at these ports%s",
		annotations.ptr);
}

void
check_forwarding(struct doctor *d, struct report *r)
{
	const struct view *v = d->view;
	bool has_health = false;

	for (size_t i = 0; i < v->services.n; i++) {
		const struct service *s = v->services.items[i];

		for (size_t j = 0; j < v->n_balancers; j++) {
			const struct lb_listed *lb = &v->balancers[j];

			if (!lb->is_balancer || !facts_is_of_service(lb, s))
				continue;
			report_health(v, r, s, lb);
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

/* The pods of a new Service may still start, unless the cloud finds no healthy target. */
static bool
may_start(struct view *v, size_t i)
{
	struct error ignored;

	if (view_now_s(v) - v->services.more[i].created_s > NEW_S)
		return false;
	if (!v->cloud->balancers->list || !view_need(v, VIEW_BALANCERS, &ignored))
		return true;
	for (size_t j = 0; j < v->n_balancers; j++) {
		const struct lb_listed *lb = &v->balancers[j];

		if (facts_is_of_service(lb, v->services.items[i]) && lb->n_unhealthy > 0 &&
		    lb->n_healthy == 0)
			return false;
	}
	return true;
}

/* With externalTrafficPolicy Local, only nodes with an endpoint take traffic. */
static void
report_endpoints(struct view *v, struct report *r, size_t i)
{
	const struct service *s = v->services.items[i];
	const struct view_endpoints *endpoints = &v->services.endpoints[i];
	size_t n_targets = facts_count_targets(v, s, NULL), n_serving;

	if (endpoints->n_ready == 0) {
		if (may_start(v, i))
			return;
		report_find(r, "service", s->object.key, "%s",
		            endpoints->n == 0
		                    ? "it has no endpoints, so requests to it fail"
		                    : "none of its endpoints is ready, so requests to it fail");
		report_fix(
			r,
			"compare its selector with the labels of its pods, and see whether they are ready: kubectl -n %" STR_FMT
			" describe service %" STR_FMT,
			STR_ARG(s->namespace), STR_ARG(s->name));
		return;
	}
	n_serving = facts_count_targets(v, s, endpoints);
	if (!str_eq_c(s->traffic_policy, "Local") || n_targets == 0 || n_serving == n_targets)
		return;
	if (n_serving == 0) {
		if (may_start(v, i))
			return;
		report_find(
			r, "service", s->object.key,
			"externalTrafficPolicy is Local, and no target runs one of its ready pods, so requests to it fail");
		report_fix(
			r,
			"let its pods run on nodes that may be targets, or set externalTrafficPolicy: Cluster");
	} else {
		report_note(
			r, "service", s->object.key,
			"externalTrafficPolicy is Local, and %zu of %zu targets run one of its ready pods; the cloud reports the others as unhealthy, as intended",
			n_serving, n_targets);
	}
}

void
check_endpoints(struct doctor *d, struct report *r)
{
	struct view *v = d->view;
	struct error err;

	if (!view_need(v, VIEW_ENDPOINTS, &err)) {
		if (err.code == ERR_FORBIDDEN)
			report_skip_refused(r, "endpointslices");
		else
			report_unknown(r, &err);
		return;
	}
	for (size_t i = 0; i < v->services.n; i++) {
		const struct service *s = v->services.items[i];

		if (service_wants_balancer(s) && !s->is_deleting && s->n_ingress > 0)
			report_endpoints(v, r, i);
	}
}

/* ---- what has no effect ---- */

/* A Service that is being deleted, and that ccmd will not release. The controller of its class may
 * do that any moment. */
static void
report_deletion(struct view *v, struct report *r, const struct checked_service *c)
{
	int64_t age_s = view_now_s(v) - c->more->deleted_s;

	if (!facts_releases_service(v, c->service))
		(age_s > DELETION_S ? report_find : report_note)(
			r, "service", c->key,
			"it waits for the controller of the class \"%" STR_FMT
			"\", which has not removed its finalizer for %lld s; ccmd will not remove it",
			STR_ARG(c->more->class), (long long)age_s);
	else if (!v->cloud->balancers || !controllers_enabled(v->options, "service-lb-controller"))
		report_find(
			r, "service", c->key,
			"it is being deleted, but no controller removes its finalizer: the service controller is switched off, by --controllers or in the settings of the cloud");
	else
		return;
	report_fix(
		r,
		"start that controller; or, if it has no load balancer any more: kubectl -n %" STR_FMT
		" patch service %" STR_FMT
		" --type=merge -p '{\"metadata\":{\"finalizers\":null}}'",
		STR_ARG(c->service->namespace), STR_ARG(c->service->name));
}

static void
report_left_out(struct view *v, struct report *r, const struct service *s)
{
	CLEANUP(buf_fini) struct buf names = BUF_INIT(KIB(1));
	struct lb_spec spec = service_spec(s, v->options->cluster_name, &v->arena), fitted;
	bool is_open, lacks_ports;

	balancer_leave_out(v->cloud, &v->call, &spec, &fitted, &names);
	is_open = fitted.n_source_ranges < spec.n_source_ranges;
	lacks_ports = fitted.n_ports < spec.n_ports;
	if (names.len == 0)
		return;
	if (is_open || lacks_ports)
		report_find(r, "service", s->object.key,
		            "load balancers of %s do not support %s%s%s", v->cloud->ops->name,
		            names.ptr, is_open ? "; the Service is open to all addresses" : "",
		            lacks_ports ? "; these ports are not served" : "");
	else
		report_note(r, "service", s->object.key, "load balancers of %s do not support %s",
		            v->cloud->ops->name, names.ptr);
	report_fix(r, "remove it from the Service%s",
	           is_open ? ", and restrict the access at the pods, with externalTrafficPolicy: "
	                     "Local and a NetworkPolicy, or by a firewall of the cloud"
	                   : "");
}

static void
report_useless(struct view *v, struct report *r, const struct service *s)
{
	const struct balancer_ops *ops = v->cloud->balancers;

	for (const struct lb_useless *u = ops->useless_annotations; u && u->key; u++) {
		struct str key = arena_printf(&v->arena, "%s%s", ops->annotation_prefix, u->key);
		struct str beside = arena_printf(&v->arena, "%s%s", ops->annotation_prefix,
		                                 u->beside);
		const struct str *other = service_annotation(s, beside);

		if (!service_annotation(s, key) ||
		    (other ? u->value && !str_eq_c(*other, u->value) : !u->is_default))
			continue;
		report_find(r, "service", s->object.key,
		            "the annotation %" STR_FMT " has no effect %s%" STR_FMT "%s%" STR_FMT,
		            STR_ARG(key), other ? "together with " : "without ", STR_ARG(beside),
		            other ? "=" : "", STR_ARG(other ? *other : STR_EMPTY));
		report_fix(r, "remove it, or change the other one");
	}
}

void
check_effects(struct doctor *d, struct report *r, const struct checked_service *c)
{
	struct view *v = d->view;
	const struct service *s = c->service;
	int64_t age_s = view_now_s(v) - c->more->created_s;

	if (s->is_deleting && s->has_finalizer)
		report_deletion(v, r, c);
	if (s->is_load_balancer && s->has_class && !s->is_deleting && s->n_ingress == 0 &&
	    age_s > CLASS_S) {
		report_find(r, "service", c->key,
		            "no controller has served its class \"%" STR_FMT
		            "\" for %lld s; ccmd serves Services without a class",
		            STR_ARG(c->more->class), (long long)age_s);
		report_fix(
			r,
			"install the controller of this class, or create the Service again without spec.loadBalancerClass");
	}
	if (v->cloud->balancers && c->is_wanted) {
		report_left_out(v, r, s);
		report_useless(v, r, s);
	}
}

/* A controller that serves Services without a class, too, and by whose name in managedFields it is
 * recognised. */
static const struct other_writer {
	const char *manager, *fix;
} other_writers[] = {
	{ "controller", "MetalLB: start its controller with --lb-class=NAME" },
	{ "cilium", "Cilium: set defaultLBServiceIPAM to none in its configuration" },
	{ "k3s", "the service load balancer of k3s: start k3s with --disable=servicelb" },
	{ "kube-vip", "kube-vip: set lb_class_only to true in its environment" },
};

void
check_address_writers(struct doctor *d, struct report *r, const struct checked_service *c)
{
	struct str writer = c->more->writer;

	(void)d;
	for (size_t i = 0; c->is_wanted && i < ARRAY_LEN(other_writers); i++) {
		if (!str_starts(writer, str_c(other_writers[i].manager)))
			continue;
		report_find(r, "service", c->key,
		            "another controller, %" STR_FMT ", has written its addresses",
		            STR_ARG(writer));
		report_fix(
			r,
			"let only one of the two serve Services without a class. If the other one is %s",
			other_writers[i].fix);
	}
}

/* A Service of the same name may be of another type by now. */
static bool
has_service(const struct view_services *services, const struct lb_listed *one)
{
	for (size_t i = 0; i < services->n; i++) {
		const struct service *s = services->items[i];

		if (facts_is_of_service(one, s) &&
		    (one->uid.len > 0 || service_wants_balancer(s) || s->has_finalizer))
			return true;
	}
	return false;
}

/* A balancer without the name of a cluster, or with the default name, may belong to any cluster of
 * the project. */
void
check_orphans(struct doctor *d, struct report *r)
{
	const struct view *v = d->view;

	if (strcmp(v->options->cluster_name, DEFAULT_CLUSTER) == 0) {
		report_skip(
			r,
			"--cluster-name has its default, which other clusters of the project may have as well");
		return;
	}
	for (size_t i = 0; i < v->n_balancers; i++) {
		const struct lb_listed *one = &v->balancers[i];
		const char *costs = one->cost.len > 0 ? "; it costs " : "";

		if (!str_eq_c(one->cluster, v->options->cluster_name) ||
		    has_service(&v->services, one))
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
		report_fix(r, "%sdelete it in the cloud, if nothing else uses it",
		           one->is_protected ? "it is protected: remove the protection, and " : "");
	}
}
