/* lb_converge.c: see lb_converge.h.
 *
 * A run compares the balancer as it was read with what the Service asks for, and sends one request
 * for each difference (lb_plan.h). The order is: shape (name, label, type, networks, public
 * interface), targets, services. Services are last because they may have to wait for a certificate,
 * which takes minutes.
 *
 * A run may end at any step, by a crash or a failure: each request changes one thing, and the next
 * run reads the balancer again and plans only what is still different. The label is set by the
 * first step, so that a balancer that is being adopted is found by its label from then on.
 *
 * What a failed request means for the run:
 *
 * 	busy (locked, conflict)   ERR_PENDING: the run ends, and another one follows soon
 * 	refusal                   noted; the run goes on and fails with the first one at its end
 * 	refusal of a target       an Event on its node; the run goes on and does not fail for it
 * 	anything else             the run ends
 *
 * The API allows only one order in one case: the public interface cannot be disabled while a target
 * uses it. That step follows the targets and services then.
 */
#include "providers/hcloud/lb_converge.h"

#include "base/event_kind.h"
#include "base/log.h"
#include "providers/hcloud/api.h"
#include "providers/hcloud/lb_dry.h"

#define WAIT_IN_PLACE_NS (3 * NS_PER_SEC)

enum {
	BUSY_MS = 1000,
};

EVENT_KIND(
	deprecated_event, HZ_COMPONENT, "LoadBalancerTypeDeprecated", true, "Service",
	"hcloud: the load balancer's type is deprecated; the message says from when on it cannot be ordered any more.");

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

bool
hz_lb_set_pending_if_busy(const char *code, struct error *err)
{
	if (!hz_is_code(code, "locked") && !hz_is_code(code, "conflict"))
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
	if (run->refusal.code == ERR_NONE)
		run->refusal = *err;
}

static void
hz_lb_note_missing(struct hz_lb_run *run, const struct error *err)
{
	if (run->missing.code == ERR_NONE)
		run->missing = *err;
}

/* ---- reading the balancer ---- */

bool
hz_lb_refresh(struct hz_lb_run *run, enum hz_age age, struct error *err)
{
	struct hz_found found = HZ_FOUND_INIT;

	if (!hz_lb_cache_find(run->tools->cache, run->call, run->spec->uid, age, &found, err))
		return false;
	hz_found_fini(&run->found);
	run->found = found;
	if (found.n > 1)
		return err_set(
			err, ERR_EXISTS,
			"%zu load balancers carry the label of this Service: non-unique result",
			found.n);
	if (found.n == 0)
		return err_set(err, ERR_NOT_FOUND, "load balancer not found");
	run->lb = found.lbs[0];
	return true;
}

/* ---- one step ---- */

bool
hz_lb_wait(struct hz_lb_run *run, struct hz_action action, struct error *err)
{
	const struct hz_lb_tools *t = run->tools;
	bool ok, is_running;

	if (action.id == 0 || action.is_over)
		return true;
	ok = hz_actions_wait_at_most(t->actions, run->call, action, WAIT_IN_PLACE_NS, err);
	is_running = !ok && (err->code == ERR_PENDING || err->is_outage);
	hz_lb_cache_set_action(t->cache, run->spec->uid,
	                       is_running ? action : (struct hz_action){ 0 });
	return ok;
}

/* The change is noted before and after the step, because a reading of the balancer that began
 * before the step, or during it, may not show the result. */
static bool
hz_lb_do_step(struct hz_lb_run *run, const struct hz_step *step, struct hz_done *done,
              struct error *err)
{
	const struct hz_lb_tools *t = run->tools;
	int64_t id = run->lb->id;
	bool ok;

	if (run->call->dry) {
		hz_dry_note_step(run, step);
		return true;
	}
	if (step->operation)
		hz_count_operations(step->operation, 1);
	hz_lb_cache_note_change(t->cache, run->spec->uid, id);
	ok = step->verb ? hz_act_on_lb(t->api, run->call, id, step->verb, step->body, done, err)
	                : hz_put_lb(t->api, run->call, id, step->body, done, err);
	ok = ok ? hz_lb_wait(run, done->action, err) : hz_lb_set_pending_if_busy(done->code, err);
	hz_lb_cache_note_change(t->cache, run->spec->uid, id);
	return ok;
}

/* ---- the type ---- */

static void
hz_lb_notify_deprecated(struct hz_lb_run *run, const struct hz_lb_type *type)
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
	hz_lb_notify_deprecated(run, ret);
	return true;
}

/* The type that the balancer should have. A balancer that has the desired type already keeps it
 * even if the type can no longer be ordered; the official controller fails in this case. A desired
 * type that cannot be ordered counts as a refusal, and the balancer keeps its own type. */
static bool
hz_lb_choose_type(struct hz_lb_run *run, struct hz_lb_type *ret, struct error *err)
{
	struct hz_lb_type found;

	*ret = run->lb->type;
	if (!run->desired.is_type_chosen)
		return true;
	if (str_eq(run->lb->type.name, run->desired.type)) {
		if (run->lb->type.is_deprecated)
			hz_lb_notify_deprecated(run, &run->lb->type);
		return true;
	}
	if (hz_lb_find_type(run, &found, err)) {
		*ret = found;
		return true;
	}
	if (!hz_lb_is_refusal(err))
		return false;
	hz_lb_note_refusal(run, err);
	return true;
}

/* ---- shape: all but targets and services ---- */

/* The API does not disable the public interface while targets that are servers need it. */
static bool
hz_lb_must_follow_targets(const struct hz_lb_run *run, const struct hz_step *step)
{
	const struct hz_lb *lb = run->lb;

	if (!step->verb || !str_eq_c(str_c(step->verb), "disable_public_interface"))
		return false;
	for (size_t i = 0; i < lb->n_targets; i++) {
		if (lb->targets[i].type != HZ_TARGET_IP && !lb->targets[i].uses_private_ip)
			return true;
	}
	return false;
}

/* Without the Service's label the balancer is not ours, so if the step that sets it is refused,
 * nothing else of the balancer may be changed. */
static bool
hz_lb_do_shape_step(struct hz_lb_run *run, const struct hz_step *step, struct error *err)
{
	bool has_our_label = str_eq(run->lb->uid, run->desired.uid);
	struct hz_done done = { 0 };

	if (hz_lb_do_step(run, step, &done, err))
		return true;
	err_wrap(err, "hcops/LoadBalancerOps.ReconcileHCLB");
	if (!hz_lb_is_refusal(err) || (!step->verb && !has_our_label))
		return false;
	hz_lb_note_refusal(run, err);
	return true;
}

/* Reads the balancer after the steps of its shape, on which targets and services depend. In a dry
 * run the steps were not made, so their result is computed. */
static bool
hz_lb_refresh_shape(struct hz_lb_run *run, const struct hz_lb_type *type, struct error *err)
{
	struct hz_lb *result;

	if (!run->call->dry)
		return hz_lb_refresh(run, HZ_RECENT, err);
	result = ARENA_NEW(run->call->arena, struct hz_lb);
	hz_plan_shape_result(&run->desired, type, run->lb, run->call->arena, result);
	run->lb = result;
	return true;
}

/* *ret_postponed: the step that is left for when the targets have changed, or NULL. */
static bool
hz_lb_converge_shape(struct hz_lb_run *run, const struct hz_step **ret_postponed, struct error *err)
{
	struct hz_lb_type type;
	struct hz_steps steps;

	*ret_postponed = NULL;
	hz_count_operations("hcops/LoadBalancerOps.ReconcileHCLB", 1);
	if (!hz_lb_choose_type(run, &type, err))
		return false;
	hz_plan_shape(&run->desired, &type, run->lb, run->call->arena, &steps);
	for (size_t i = 0; i < steps.n; i++) {
		const struct hz_step *step = &steps.steps[i];

		if (hz_lb_must_follow_targets(run, step))
			*ret_postponed = step;
		else if (!hz_lb_do_shape_step(run, step, err))
			return false;
	}
	return steps.n == 0 || hz_lb_refresh_shape(run, &type, err);
}

/* ---- targets ---- */

static bool
hz_lb_wrap_target(const struct hz_lb_run *run, const struct hz_step *step, struct error *err)
{
	const struct node_ref *node = hz_targets_node(&run->targets, step->target);

	return err_wrap(err, "hcops/LoadBalancerOps.ReconcileHCLBTargets: target %" STR_FMT,
	                STR_ARG(node ? node->name : STR("of no node")));
}

/* The API answers invalid_input if the balancer does not have the target, or if the server does not
 * exist any more. Either way there is nothing to remove. */
static bool
hz_lb_remove_target(struct hz_lb_run *run, const struct hz_step *step, struct error *err)
{
	struct hz_done done = { 0 };

	if (hz_lb_do_step(run, step, &done, err))
		return true;
	if (!hz_is_code(done.code, "invalid_input"))
		return hz_lb_wrap_target(run, step, err);
	log_debug("a target that cannot be removed is gone, ignoring", LOG_ERR(err));
	return true;
}

/* Does the error concern that target alone, so that others may still be added? Two errors concern
 * the balancer's own network interfaces and so all targets. */
static bool
hz_lb_is_target_error(const char *code, const struct error *err)
{
	if (hz_is_code(code, "load_balancer_not_attached_to_network") ||
	    hz_is_code(code, "load_balancer_public_interface_disabled"))
		return false;
	return hz_lb_is_refusal(err) || hz_is_code(code, "robot_unavailable");
}

/* May adding the target succeed later without a change in the cluster? Not for a server that is
 * gone. */
static bool
hz_lb_is_target_retryable(const char *code)
{
	return !hz_is_code(code, "invalid_input") &&
	       !hz_is_code(code, "cloud_resource_ip_not_allowed");
}

/* *n_targets: how many targets the balancer has. */
static bool
hz_lb_add_target(struct hz_lb_run *run, const struct hz_step *step, size_t *n_targets,
                 struct error *err)
{
	const struct hz_targets_config *config = &run->tools->targets;
	const struct node_ref *node = hz_targets_node(&run->targets, step->target);
	int64_t max = run->lb->type.max_targets;
	struct hz_done done = { 0 };

	if (max > 0 && *n_targets >= (size_t)max) {
		hz_targets_exceeded(config, run->spec, node);
		return true;
	}
	if (hz_lb_do_step(run, step, &done, err) ||
	    hz_is_code(done.code, "target_already_defined")) {
		++*n_targets;
		return true;
	}
	if (hz_is_code(done.code, "resource_limit_exceeded")) {
		hz_targets_exceeded(config, run->spec, node);
		return true;
	}
	if (!node || !hz_lb_is_target_error(done.code, err))
		return hz_lb_wrap_target(run, step, err);
	hz_targets_refused(&run->targets, config, run->spec, node,
	                   hz_lb_is_target_retryable(done.code), err);
	return true;
}

static bool
hz_lb_converge_targets(struct hz_lb_run *run, struct error *err)
{
	size_t n_targets = run->lb->n_targets;
	struct hz_steps steps;

	hz_count_operations("hcops/LoadBalancerOps.ReconcileHCLBTargets", 1);
	hz_targets_read(&run->tools->targets, run->call, run->spec, &run->desired, run->lb,
	                &run->targets);
	hz_plan_targets(run->targets.targets, run->targets.n, run->lb, run->call->arena, &steps);
	for (size_t i = 0; i < steps.n; i++) {
		const struct hz_step *step = &steps.steps[i];

		if (str_eq_c(str_c(step->verb), "add_target")) {
			if (!hz_lb_add_target(run, step, &n_targets, err))
				return false;
		} else {
			n_targets -= n_targets > 0;
			if (!hz_lb_remove_target(run, step, err))
				return false;
		}
	}
	return true;
}

/* ---- services ---- */

/* Waits for the managed certificate that the services use. It may take minutes to be issued, or be
 * refused: both are noted in the run, and only the services wait for it. An outage of the API ends
 * the run; the order of the certificate is not forgotten then, because it may still be issued. A
 * dry run does not wait: it assumes that the certificate is issued.
 *
 * *ret_is_issued: the services may use it. */
static bool
hz_lb_await_certificate(struct hz_lb_run *run, bool *ret_is_issued, struct error *err)
{
	const struct hz_lb_tools *t = run->tools;

	*ret_is_issued = true;
	if (run->issuing.id == 0 || run->issuing.is_over || run->call->dry)
		return true;
	*ret_is_issued = hz_actions_wait_at_most(t->actions, run->call, run->issuing,
	                                         WAIT_IN_PLACE_NS, err);
	if (!*ret_is_issued && err->code == ERR_PENDING) {
		hz_lb_note_missing(run, err);
		return true;
	}
	if (!*ret_is_issued && err->is_outage)
		return false;
	hz_certificates_forget(t->certificates, run->desired.uid);
	if (*ret_is_issued)
		return true;
	err_wrap(err, "hcops/LoadBalancerOps.ReconcileHCLBServices: managed certificate");
	if (!hz_lb_is_refusal(err))
		return false;
	hz_lb_note_refusal(run, err);
	return true;
}

static bool
hz_lb_converge_services(struct hz_lb_run *run, struct error *err)
{
	struct hz_steps steps;
	bool is_issued;

	if (!run->has_services)
		return true;
	if (!hz_lb_await_certificate(run, &is_issued, err))
		return false;
	if (!is_issued)
		return true;
	hz_count_operations("hcops/LoadBalancerOps.ReconcileHCLBServices", 1);
	hz_plan_services(&run->desired, run->lb, run->call->arena, &steps);
	for (size_t i = 0; i < steps.n; i++) {
		struct hz_done done = { 0 };

		if (hz_lb_do_step(run, &steps.steps[i], &done, err))
			continue;
		err_wrap(err, "hcops/LoadBalancerOps.ReconcileHCLBServices");
		if (!hz_lb_is_refusal(err))
			return false;
		hz_lb_note_refusal(run, err);
	}
	return true;
}

/* ---- the run ---- */

bool
hz_lb_converge(struct hz_lb_run *run, struct error *err)
{
	const struct hz_step *postponed;

	if (!hz_lb_converge_shape(run, &postponed, err) || !hz_lb_converge_targets(run, err) ||
	    !hz_lb_converge_services(run, err))
		return false;
	if (postponed && !hz_lb_do_shape_step(run, postponed, err))
		return false;
	if (postponed && !run->call->dry && !hz_lb_refresh(run, HZ_RECENT, err))
		return false;
	if (run->targets.missing.code != ERR_NONE)
		hz_lb_note_missing(run, &run->targets.missing);
	if (run->refusal.code == ERR_NONE)
		return true;
	*err = run->refusal;
	return false;
}
