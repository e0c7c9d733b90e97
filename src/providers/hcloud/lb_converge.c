/* lb_converge.c: see lb_converge.h. */
#include "providers/hcloud/lb_converge.h"

#include "base/event_kind.h"
#include "base/log.h"
#include "providers/hcloud/api.h"

#define IN_PLACE_NS (3 * NS_PER_SEC)

enum {
	BUSY_MS = 1000,
};

EVENT_KIND(
	deprecated_event, HZ_COMPONENT, "LoadBalancerTypeDeprecated", true, "Service",
	"hcloud: the load balancer's type cannot be ordered any more some day; the message has the date.");

/* ---- events ---- */

void
hz_lb_notify(const struct hz_lb_run *run, const struct event_kind *kind, const struct buf *text)
{
	const struct cloud_host *host = run->tools->host;

	host->service_event(host, run->spec,
	                    kind->is_warning ? HOST_EVENT_WARNING : HOST_EVENT_NORMAL, kind->reason,
	                    buf_str(text));
}

/* ---- what an error means ---- */

static bool
is_code(const char *code, const char *wanted)
{
	return str_eq_c(str_c(code), wanted);
}

bool
hz_lb_set_pending_if_busy(const char *code, struct error *err)
{
	if (!is_code(code, "locked") && !is_code(code, "conflict"))
		return false;
	err->code = ERR_PENDING;
	err->retry_after_ms = BUSY_MS;
	return false;
}

bool
hz_lb_is_refusal(const struct error *err)
{
	return err->code == ERR_INVALID || err->code == ERR_UNSUPPORTED || err->code == ERR_EXISTS;
}

void
hz_lb_note_refusal(struct hz_lb_run *run, const struct error *err)
{
	if (run->is_refused)
		return;
	run->is_refused = true;
	run->refusal = *err;
}

/* ---- one step ---- */

static bool
wait_in_place(struct hz_lb_run *run, struct hz_action action, struct error *err)
{
	struct call brief = *run->call;
	int64_t most_ns = clock_deadline(clock_mono(brief.clock), IN_PLACE_NS);

	if (brief.deadline_mono_ns > most_ns)
		brief.deadline_mono_ns = most_ns;
	return hz_actions_wait(run->tools->actions, &brief, action, err);
}

bool
hz_lb_wait(struct hz_lb_run *run, struct hz_action action, struct error *err)
{
	struct hz_lb_cache *cache = run->tools->cache;
	bool ok, runs_on;

	if (action.id == 0 || action.is_over)
		return true;
	ok = wait_in_place(run, action, err);
	runs_on = !ok && (err->code == ERR_PENDING || err->is_outage);
	hz_lb_cache_set_action(cache, run->spec->uid, runs_on ? action : (struct hz_action){ 0 });
	return ok;
}

static bool
send_step(struct hz_lb_run *run, const struct hz_step *step, struct hz_done *done,
          struct error *err)
{
	const struct hz_lb_tools *t = run->tools;

	if (!step->verb)
		return hz_put_lb(t->api, run->call, run->lb->id, step->body, done, err);
	return hz_act_on_lb(t->api, run->call, run->lb->id, step->verb, step->body, done, err);
}

/* What was read before the step, or while it was under way, is out of date. */
static bool
act(struct hz_lb_run *run, const struct hz_step *step, struct hz_done *done, struct error *err)
{
	bool ok;

	if (step->operation)
		hz_count_operations(step->operation, 1);
	hz_lb_cache_note_change(run->tools->cache, run->spec->uid, run->lb->id);
	ok = send_step(run, step, done, err) ? hz_lb_wait(run, done->action, err)
	                                     : hz_lb_set_pending_if_busy(done->code, err);
	hz_lb_cache_note_change(run->tools->cache, run->spec->uid, run->lb->id);
	return ok;
}

/* ---- shape ---- */

static void
notify_deprecated(struct hz_lb_run *run, const struct hz_lb_type *type)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(ERR_MSG_SIZE);
	CLEANUP(buf_fini) struct buf date = BUF_INIT(40);

	clock_format_rfc3339(&date, type->unavailable_wall_s * NS_PER_SEC, false);
	buf_addf(&b,
	         "Load Balancer Type \"%" STR_FMT
	         "\" is deprecated and will no longer be available for order as of %" STR_FMT,
	         STR_ARG(type->name), STR_ARG(str_head(buf_str(&date), 10)));
	hz_lb_notify(run, &deprecated_event, &b);
}

bool
hz_lb_find_type(struct hz_lb_run *run, struct hz_lb_type *ret, struct error *err)
{
	int64_t now_s = clock_wall(run->call->clock) / NS_PER_SEC;
	struct str name = run->desired.type;

	if (!hz_types_find(run->tools->types, run->call, run->call->arena, name, ret, err))
		return false;
	if (!ret->is_deprecated)
		return true;
	if (now_s > ret->unavailable_wall_s)
		return err_set(err, ERR_INVALID,
		               "Load Balancer Type \"%" STR_FMT
		               "\" is unavailable and can no longer be ordered",
		               STR_ARG(name));
	notify_deprecated(run, ret);
	return true;
}

/* A balancer that has the type keeps it, also when it can no longer be ordered; the official
 * controller stops there. */
static bool
wanted_type(struct hz_lb_run *run, struct hz_lb_type *ret, struct error *err)
{
	*ret = run->lb->type;
	if (!run->desired.is_type_chosen)
		return true;
	if (!str_eq(run->lb->type.name, run->desired.type))
		return hz_lb_find_type(run, ret, err);
	if (ret->is_deprecated)
		notify_deprecated(run, ret);
	return true;
}

/* The public interface stays while targets need it; they are changed next, and then it is tried
 * again (3.7 h). */
static bool
is_deadlock(const struct hz_step *step, const char *code)
{
	return step->verb && str_eq_c(str_c(step->verb), "disable_public_interface") &&
	       is_code(code, "targets_without_use_private_ip");
}

/* Without our label it is not ours to be changed in any other way. */
static bool
is_foreign(const struct hz_lb_run *run)
{
	return !str_eq(run->lb->uid, run->desired.uid);
}

static bool
shape_step(struct hz_lb_run *run, const struct hz_step *step, const struct hz_step **ret_later,
           struct error *err)
{
	struct hz_done done = { 0 };

	if (act(run, step, &done, err))
		return true;
	if (is_deadlock(step, done.code)) {
		*ret_later = step;
		return true;
	}
	err_wrap(err, "hcops/LoadBalancerOps.ReconcileHCLB");
	if (!hz_lb_is_refusal(err) || (!step->verb && is_foreign(run)))
		return false;
	hz_lb_note_refusal(run, err);
	return true;
}

/* *ret_later: to be done once the targets have changed; NULL: nothing. */
static bool
shape(struct hz_lb_run *run, bool *ret_has_changed, const struct hz_step **ret_later,
      struct error *err)
{
	struct hz_lb_type type;
	struct hz_steps steps;

	hz_count_operations("hcops/LoadBalancerOps.ReconcileHCLB", 1);
	if (!wanted_type(run, &type, err)) {
		if (!hz_lb_is_refusal(err))
			return false;
		hz_lb_note_refusal(run, err);
		type = run->lb->type;
	}
	hz_plan_shape(&run->desired, &type, run->lb, run->call->arena, &steps);
	for (size_t i = 0; i < steps.n; i++) {
		if (!shape_step(run, &steps.steps[i], ret_later, err))
			return false;
	}
	*ret_has_changed = steps.n > 0;
	return true;
}

/* ---- services ---- */

/* Waits for the managed certificate that the services use. It may take minutes to be issued, or be
 * refused: both are noted in the run, and only the services wait for it. *ret_is_issued: the
 * services may use it. */
static bool
await_certificate(struct hz_lb_run *run, bool *ret_is_issued, struct error *err)
{
	bool is_waiting = run->issuing.id != 0 && !run->issuing.is_over;

	*ret_is_issued = !is_waiting || wait_in_place(run, run->issuing, err);
	if (!is_waiting)
		return true;
	if (!*ret_is_issued && err->code == ERR_PENDING) {
		run->is_partial = true;
		run->missing = *err;
		return true;
	}
	if (!*ret_is_issued &&
	    err->is_outage) /* the certificate may still be issued: do not forget the order */
		return false;
	hz_certificates_forget(run->tools->certificates, run->desired.uid);
	if (*ret_is_issued)
		return true;
	err_wrap(err, "hcops/LoadBalancerOps.ReconcileHCLBServices: managed certificate");
	if (!hz_lb_is_refusal(err))
		return false;
	hz_lb_note_refusal(run, err);
	return true;
}

static bool
services(struct hz_lb_run *run, struct error *err)
{
	struct hz_steps steps;
	bool is_issued;

	if (!run->has_services)
		return true;
	if (!await_certificate(run, &is_issued, err))
		return false;
	if (!is_issued)
		return true;
	hz_count_operations("hcops/LoadBalancerOps.ReconcileHCLBServices", 1);
	hz_plan_services(&run->desired, run->lb, run->call->arena, &steps);
	for (size_t i = 0; i < steps.n; i++) {
		struct hz_done done = { 0 };

		if (act(run, &steps.steps[i], &done, err))
			continue;
		err_wrap(err, "hcops/LoadBalancerOps.ReconcileHCLBServices");
		if (!hz_lb_is_refusal(err))
			return false;
		hz_lb_note_refusal(run, err);
	}
	return true;
}

/* ---- targets ---- */

/* Is the error about that one target, so that others may do? */
static bool
is_verdict(const char *code, const struct error *err)
{
	if (is_code(code, "load_balancer_not_attached_to_network") ||
	    is_code(code, "load_balancer_public_interface_disabled"))
		return false;
	return hz_lb_is_refusal(err) || is_code(code, "robot_unavailable");
}

/* May adding the target succeed later without a change in the cluster? Not for a server that is
 * gone. */
static bool
is_target_retryable(const char *code)
{
	return !is_code(code, "invalid_input") && !is_code(code, "cloud_resource_ip_not_allowed");
}

static bool
is_adding(const struct hz_step *step)
{
	return str_eq_c(str_c(step->verb), "add_target");
}

static bool
is_full(const struct hz_lb_run *run, size_t n_targets)
{
	int64_t most = run->lb->type.max_targets;

	return most > 0 && n_targets >= (size_t)most;
}

static bool
wrap_target(struct hz_lb_run *run, const struct hz_step *step, struct error *err)
{
	const struct node_ref *node = hz_targets_node(&run->targets, step->target);

	return err_wrap(err, "hcops/LoadBalancerOps.ReconcileHCLBTargets: target %" STR_FMT,
	                STR_ARG(node ? node->name : STR("of no node")));
}

/* What is no target of it, or no server any more, need not be removed. */
static bool
remove_target(struct hz_lb_run *run, const struct hz_step *step, struct error *err)
{
	struct hz_done done = { 0 };

	if (act(run, step, &done, err))
		return true;
	if (!is_code(done.code, "invalid_input"))
		return wrap_target(run, step, err);
	log_debug("a target that cannot be removed is gone, ignoring", LOG_ERR(err));
	return true;
}

static bool
add_target(struct hz_lb_run *run, const struct hz_step *step, bool *ret_is_added, struct error *err)
{
	const struct node_ref *node = hz_targets_node(&run->targets, step->target);
	struct hz_aim aim = { run->tools->config, run->tools->host, run->tools->robot };
	struct hz_done done = { 0 };

	*ret_is_added = act(run, step, &done, err) || is_code(done.code, "target_already_defined");
	if (*ret_is_added)
		return true;
	if (is_code(done.code, "resource_limit_exceeded")) {
		hz_targets_exceeded(&aim, run->spec, node);
		return true;
	}
	if (!node || !is_verdict(done.code, err))
		return wrap_target(run, step, err);
	hz_targets_refused(&run->targets, &aim, run->spec, node, is_target_retryable(done.code),
	                   err);
	return true;
}

static bool
target_step(struct hz_lb_run *run, const struct hz_step *step, size_t *n_targets, struct error *err)
{
	struct hz_aim aim = { run->tools->config, run->tools->host, run->tools->robot };
	bool is_added = false;

	if (!is_adding(step)) {
		*n_targets -= *n_targets > 0;
		return remove_target(run, step, err);
	}
	if (is_full(run, *n_targets)) {
		hz_targets_exceeded(&aim, run->spec, hz_targets_node(&run->targets, step->target));
		return true;
	}
	if (!add_target(run, step, &is_added, err))
		return false;
	*n_targets += is_added;
	return true;
}

static bool
targets(struct hz_lb_run *run, struct error *err)
{
	struct hz_aim aim = { run->tools->config, run->tools->host, run->tools->robot };
	size_t n_targets = run->lb->n_targets;
	struct hz_steps steps;

	hz_count_operations("hcops/LoadBalancerOps.ReconcileHCLBTargets", 1);
	hz_targets_read(&aim, run->call, run->spec, &run->desired, run->lb, &run->targets);
	hz_plan_targets(run->targets.targets, run->targets.n, run->lb, run->call->arena, &steps);
	for (size_t i = 0; i < steps.n; i++) {
		if (!target_step(run, &steps.steps[i], &n_targets, err))
			return false;
	}
	return true;
}

/* ---- all of it ---- */

bool
hz_lb_refresh(struct hz_lb_run *run, struct error *err)
{
	const struct hz_lb_tools *t = run->tools;
	struct hz_found found = HZ_FOUND_INIT;

	if (!hz_lb_cache_find(t->cache, run->call, run->spec->uid, HZ_RECENT, &found, err))
		return false;
	hz_found_fini(&run->found);
	run->found = found;
	if (found.n > 1)
		return err_set(
			err, ERR_INVALID,
			"%zu load balancers carry the label of this Service: non-unique result",
			found.n);
	if (found.n == 0)
		return err_set(err, ERR_NOT_FOUND, "load balancer not found");
	run->lb = found.lbs[0];
	return true;
}

static bool
retry_later(struct hz_lb_run *run, const struct hz_step *step, struct error *err)
{
	const struct hz_step *ignored = NULL;

	return shape_step(run, step, &ignored, err) && hz_lb_refresh(run, err);
}

bool
hz_lb_converge(struct hz_lb_run *run, struct error *err)
{
	const struct hz_step *later = NULL;
	bool has_changed = false;

	if (!shape(run, &has_changed, &later, err) || (has_changed && !hz_lb_refresh(run, err)))
		return false;
	return targets(run, err) && services(run, err) && (!later || retry_later(run, later, err));
}
