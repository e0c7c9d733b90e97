/* operator/check_balancers.c: load balancers, compared with what their Services ask for.
 *
 * A trial is a dry run of the controller's own function for one Service (base/dry_run.h): it notes
 * what it would change, and returns the error that it would have. So the checks find exactly what
 * the controller would find.
 */
#include "base/limits.h"
#include "cloud/balancer.h"
#include "controllers/service/service.h"
#include "controllers/service/targets.h"
#include "operator/doctor.h"

/* Any new value of an annotation makes ccmd compare the balancer. */
#define REPAIR "ccmd.io/repair=$(date +%%s)"

enum {
	MAX_DIFFERENCES = 5, /* in one message */
};

/* What the trial of one Service found. Texts are in the view's arena. */
struct doctor_trial {
	const struct service *service;
	bool is_new;        /* a balancer would be created */
	bool has_values;    /* a value differs, which an annotation may keep as it is */
	struct str changes; /* empty: none */
	enum err_code code; /* ERR_NONE: the trial succeeded */
	struct str error;
	struct str kept; /* what can never be changed; empty: nothing */
};

/* Collects the changes of one trial. */
struct collector {
	struct dry_run run;
	struct doctor_trial *trial;
	struct buf *text;
	struct arena *kept_in; /* of the view */
	size_t n;              /* differences */
};

/* ---- the trials ---- */

static void
add_field(struct buf *b, const struct dry_field *field)
{
	if (field->old.len == 0)
		buf_addf(b, "%" STR_FMT " %" STR_FMT " is missing", STR_ARG(field->name),
		         STR_ARG(field->new));
	else if (field->new.len == 0)
		buf_addf(b, "%" STR_FMT " %" STR_FMT " is not asked for", STR_ARG(field->name),
		         STR_ARG(field->old));
	else
		buf_addf(b, "%" STR_FMT " is %" STR_FMT " instead of %" STR_FMT,
		         STR_ARG(field->name), STR_ARG(field->old), STR_ARG(field->new));
}

static void
collect(struct dry_run *run, const struct dry_item *item, const struct dry_change *change)
{
	struct collector *c = CONTAINER_OF(run, struct collector, run);
	bool is_balancer = str_eq_c(str_c(change->what), "load balancer");

	(void)item;
	if (!change->is_cloud)
		return;
	c->trial->is_new |= is_balancer && change->verb == DRY_CREATE;
	for (size_t i = 0; i < change->n_fields; i++) {
		c->trial->has_values |= change->fields[i].old.len > 0 &&
		                        change->fields[i].new.len > 0;
		if (c->n++ >= MAX_DIFFERENCES)
			continue;
		buf_add_c(c->text, c->text->len > 0 ? "; " : "");
		if (!is_balancer)
			buf_addf(c->text, "%s: ", change->what);
		add_field(c->text, &change->fields[i]);
	}
	if (change->n_fields == 0)
		buf_addf(c->text, "%s%s would be %s", c->text->len > 0 ? "; " : "", change->what,
		         change->verb == DRY_CREATE   ? "created"
		         : change->verb == DRY_DELETE ? "deleted"
		                                      : "changed");
}

/* If there are several, only the first is kept: one is enough to report. */
static void
collect_kept(struct dry_run *run, const struct dry_item *item, const struct error *why)
{
	struct collector *c = CONTAINER_OF(run, struct collector, run);

	(void)item;
	if (c->trial->kept.len == 0)
		c->trial->kept = arena_str(c->kept_in, str_c(why->msg));
}

static void
try_service(struct doctor *d, struct cloud *cloud, struct targets *targets,
            struct doctor_trial *trial)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_EVENT_MESSAGE);
	struct arena *kept = view_call(d->view)->arena;
	struct collector collector = { .run = { .note = collect, .kept = collect_kept },
		                       .trial = trial,
		                       .text = &text,
		                       .kept_in = kept };
	struct dry_item item = { .run = &collector.run,
		                 .kind = "service",
		                 .name = trial->service->object.key,
		                 .version = STR_EMPTY };
	struct lb_spec spec = service_spec(trial->service, view_options(d->view)->cluster_name,
	                                   &arena);
	CLEANUP(target_list_fini)
	struct target_list nodes = targets_select(targets, cloud, &spec, &arena);
	struct call call = *view_call(d->view);
	struct lb_status status;
	enum lb_outcome outcome;
	struct error err = { .code = ERR_NONE };

	call.arena = &arena;
	call.dry = &item;
	spec.nodes = nodes.refs;
	spec.n_nodes = nodes.n;
	trial->error = trial->kept = STR_EMPTY;
	if (!balancer_ensure(cloud, &call, &spec, &outcome, &status, &err)) {
		trial->code = err.code;
		trial->error = arena_str(kept, str_c(err.msg));
	}
	if (collector.n > MAX_DIFFERENCES)
		buf_addf(&text, "; and %zu more", collector.n - MAX_DIFFERENCES);
	trial->changes = arena_str(kept, buf_str(&text));
}

static bool
run_trials(struct doctor *d, struct cloud *cloud, struct error *err)
{
	struct doctor_trials *t = &d->trials;
	const struct view_services *services;
	const struct view_nodes *nodes;
	struct targets *targets;

	if (!view_services(d->view, &services, err) || !view_nodes(d->view, &nodes, err))
		return false;
	t->items = arena_calloc(view_call(d->view)->arena, services->n + 1, sizeof(*t->items));
	for (size_t i = 0; i < services->n; i++) {
		const struct service *s = services->items[i];

		if (service_wants_balancer(s) && !s->is_deleting)
			t->items[t->n++].service = s;
	}
	/* a provider needs them, for example, to find the Service to which a balancer belongs */
	if (!service_adopt_all(cloud, view_call(d->view), services->store,
	                       view_options(d->view)->cluster_name, err))
		return false;
	targets = targets_new(nodes->store);
	for (size_t i = 0; i < t->n; i++)
		try_service(d, cloud, targets, &t->items[i]);
	targets_free(targets);
	return true;
}

/* Runs the trials once, for all checks. */
static bool
run_trials_once(struct doctor *d, struct cloud *cloud)
{
	struct doctor_trials *t = &d->trials;

	if (!t->are_done) {
		t->are_done = true;
		t->has_failed = !run_trials(d, cloud, &t->err);
	}
	return !t->has_failed;
}

/* True with d->trials, unless the check is skipped or could not run. */
static bool
get_trials(struct doctor *d, struct report *r)
{
	struct cloud *cloud;
	struct error err;

	if (!view_cloud(d->view, &cloud, &err)) {
		report_unknown(r, &err);
		return false;
	}
	if (!cloud->balancers || !cloud->balancers->list) {
		report_skip(r, cloud->balancers
		                       ? "the load balancers of this cloud cannot be listed"
		                       : "the cloud, as it is configured, has no load balancers");
		return false;
	}
	if (run_trials_once(d, cloud))
		return true;
	report_unknown(r, &d->trials.err);
	return false;
}

/* ---- the checks ---- */

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
has_failed(struct report *r, const struct doctor_trial *trial)
{
	struct error err;

	if (trial->code == ERR_NONE || trial->code == ERR_PENDING || is_refusal(trial->code))
		return false;
	err_set(&err, trial->code, "%" STR_FMT, STR_ARG(trial->error));
	report_unknown_about(r, "service", trial->service->object.key, &err);
	return true;
}

/* Balancers that do not exist yet are reported by check_pending_services() and check_balancers().
 */
void
check_changed_balancers(struct doctor *d, struct report *r)
{
	if (!get_trials(d, r))
		return;
	for (size_t i = 0; i < d->trials.n; i++) {
		const struct doctor_trial *trial = &d->trials.items[i];
		const struct service *s = trial->service;
		struct finding *finding;

		if (has_failed(r, trial) || trial->changes.len == 0 || trial->is_new ||
		    s->n_ingress == 0)
			continue;
		finding = report_find(r, "service", s->object.key,
		                      "its load balancer differs: %" STR_FMT,
		                      STR_ARG(trial->changes));
		if (trial->has_values)
			report_fix(
				r, finding,
				"to keep it, set it by an annotation of the Service; to undo it: kubectl -n %" STR_FMT
				" annotate service %" STR_FMT " --overwrite " REPAIR,
				STR_ARG(s->namespace), STR_ARG(s->name));
		else
			report_command(r, finding,
			               "kubectl -n %" STR_FMT " annotate service %" STR_FMT
			               " --overwrite " REPAIR,
			               STR_ARG(s->namespace), STR_ARG(s->name));
	}
}

/* Other refusals are reported by doctor_find_refused_services(). */
void
check_refused_balancers(struct doctor *d, struct report *r)
{
	if (!get_trials(d, r))
		return;
	for (size_t i = 0; i < d->trials.n; i++) {
		const struct doctor_trial *trial = &d->trials.items[i];
		const struct service *s = trial->service;

		if (has_failed(r, trial) || trial->code != ERR_EXISTS)
			continue;
		report_fix(r,
		           report_find(r, "service", s->object.key, "%" STR_FMT,
		                       STR_ARG(trial->error)),
		           "correct the Service, or the load balancer: kubectl -n %" STR_FMT
		           " describe service %" STR_FMT,
		           STR_ARG(s->namespace), STR_ARG(s->name));
	}
}

void
doctor_find_refused_services(struct doctor *d, struct report *r)
{
	struct call *call = view_call(d->view);
	struct cloud *cloud;
	struct error ignored;

	if (!view_cloud(d->view, &cloud, &ignored) || !cloud->balancers ||
	    !cloud->balancers->list || !get_trials(d, r))
		return;
	for (size_t i = 0; i < d->trials.n; i++) {
		const struct doctor_trial *trial = &d->trials.items[i];
		const struct service *s = trial->service;
		struct lb_spec spec = service_spec(s, view_options(d->view)->cluster_name,
		                                   call->arena);

		if (trial->kept.len > 0)
			report_fix(r,
			           report_find(r, "service", s->object.key, "%" STR_FMT,
			                       STR_ARG(trial->kept)),
			           "choose one of the two");
		if (has_failed(r, trial) || trial->code == ERR_EXISTS || !is_refusal(trial->code) ||
		    !balancer_check(cloud, call, &spec, &ignored))
			continue;
		report_fix(
			r,
			report_find(r, "service", s->object.key, "%" STR_FMT,
		                    STR_ARG(trial->error)),
			"correct the Service, or the configuration of the cloud: kubectl -n %" STR_FMT
			" describe service %" STR_FMT,
			STR_ARG(s->namespace), STR_ARG(s->name));
	}
}
