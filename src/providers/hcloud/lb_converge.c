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

#include <inttypes.h>

#include "base/event_kind.h"
#include "base/limits.h"
#include "base/log.h"
#include "providers/hcloud/api.h"

#define WAIT_IN_PLACE_NS (3 * NS_PER_SEC)

enum {
	BUSY_MS = 1000,
	/* All services of a balancer have the same settings, so what is wrong with the second is
	 * probably wrong with all. */
	SERVICE_REFUSALS_MAX = 2,
};

EVENT_KIND(
	deprecated_event, HZ_COMPONENT, "LoadBalancerTypeDeprecated", true, "Service",
	"hcloud: the load balancer's type is deprecated; the message says from when on it cannot be ordered any more.");

EVENT_KIND(
	ports_event, HZ_COMPONENT, "LoadBalancerPortsLeftOut", true, "Service",
	"hcloud: the Service has more ports than its load balancer can have services; the message names the limit and the ports that are not served.");

/* ---- events ---- */

void
hz_lb_report_once(const struct hz_lb_run *run, const struct event_kind *event, const char *kind,
                  const struct error *why)
{
	struct refusals *refusals = run->tools->refusals;
	uint64_t looks = str_hash(str_c(why->msg));
	struct error ignored;

	if (run->call->dry) {
		dry_kept(run->call->dry, why);
		return;
	}
	if (refusals_find(refusals, run->spec->uid, kind, looks, &ignored))
		return;
	refusals_note(refusals, run->spec->uid, kind, looks, why);
	host_report_service(run->tools->host, run->spec, event, "%s", why->msg);
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

bool
hz_lb_tolerate_refusal(struct hz_lb_run *run, const struct error *err)
{
	if (!hz_lb_is_refusal(err))
		return false;
	if (run->refusal.code == ERR_NONE)
		run->refusal = *err;
	return true;
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
	ok = hz_actions_wait(t->actions, run->call, action, WAIT_IN_PLACE_NS, err);
	is_running = !ok && (err->code == ERR_PENDING || err->is_outage);
	hz_lb_cache_set_action(t->cache, run->spec->uid,
	                       is_running ? action : (struct hz_action){ 0 },
	                       /*has_failed=*/!ok && !is_running);
	return ok;
}

/* The change is noted before and after the step, because a reading of the balancer that began
 * before the step, or during it, may not show the result. */
static bool
hz_lb_send_step(struct hz_lb_run *run, const struct hz_step *step, struct hz_done *done,
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
	ok = hz_change_lb(t->api, run->call, id, step->verb, step->body, done, err);
	ok = ok ? hz_lb_wait(run, done->action, err) : hz_lb_set_pending_if_busy(done->code, err);
	hz_lb_cache_note_change(t->cache, run->spec->uid, id);
	if (ok)
		call_note_change(run->call, step->verb ? step->verb : "update");
	return ok;
}

/* The hash of a request, and of everything on which its refusal may depend. */
static uint64_t
hz_lb_looks(const struct hz_lb_run *run, struct str request)
{
	const struct hz_lb *lb = run->lb;

	return str_hash(arena_printf(run->call->arena, "%" STR_FMT " %" STR_FMT " %zu %d %zu %zu",
	                             STR_ARG(lb->type.name), STR_ARG(request), lb->nets.n,
	                             lb->is_public, run->desired.n_services, run->spec->n_nodes));
}

/* Sends the step, unless the API has refused the same for this Service within the last hour. Steps
 * for targets are refused because of the server or of the number of targets, so
 * hz_lb_converge_targets() remembers their refusals. */
static bool
hz_lb_do_step(struct hz_lb_run *run, const struct hz_step *step, struct hz_done *done,
              struct error *err)
{
	struct refusals *refusals = run->tools->refusals;
	const char *kind = step->verb ? step->verb : "PUT";
	uint64_t looks = hz_lb_looks(run, step->body);
	struct str object = run->spec->uid;

	if (step->target)
		return hz_lb_send_step(run, step, done, err);
	if (step->listen_port > 0)
		object = arena_printf(run->call->arena, "%" STR_FMT " %" PRId64, STR_ARG(object),
		                      step->listen_port);
	if (refusals_find(refusals, object, kind, looks, err))
		return false;
	if (hz_lb_send_step(run, step, done, err))
		return true;
	if (hz_lb_is_refusal(err) && !hz_is_code(done->code, "resource_limit_exceeded"))
		refusals_note(refusals, object, kind, looks, err);
	return false;
}

/* ---- the type ---- */

static void
hz_lb_notify_deprecated(struct hz_lb_run *run, const struct hz_lb_type *type)
{
	CLEANUP(buf_fini) struct buf date = BUF_INIT(40);

	if (run->call->changes)
		return; /* the Service has not changed since this was reported */
	clock_format_rfc3339(&date, type->unavailable_wall_s * NS_PER_SEC, false);
	host_report_service(
		run->tools->host, run->spec, &deprecated_event,
		"Load Balancer Type \"%" STR_FMT
		"\" is deprecated and will no longer be available for order as of %" STR_FMT,
		STR_ARG(type->name), STR_ARG(str_head(buf_str(&date), 10)));
}

bool
hz_lb_find_type(struct hz_lb_run *run, struct hz_lb_type *ret, struct error *err)
{
	if (!hz_types_find(run->tools->catalog, run->call, run->call->arena, run->desired.type, ret,
	                   err))
		return false;
	if (!ret->is_deprecated)
		return true;
	if (clock_wall(run->call->clock) / NS_PER_SEC > ret->unavailable_wall_s)
		return err_set(err, ERR_INVALID,
		               "Load Balancer Type \"%" STR_FMT
		               "\" is unavailable and can no longer be ordered",
		               STR_ARG(run->desired.type));
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
	return hz_lb_tolerate_refusal(run, err);
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
	struct hz_done done = { 0 };

	if (hz_lb_do_step(run, step, &done, err))
		return true;
	err_wrap(err, "hcops/LoadBalancerOps.ReconcileHCLB");
	if (!step->verb && !str_eq(run->lb->uid, run->desired.uid))
		return false;
	return hz_lb_tolerate_refusal(run, err);
}

/* *ret_postponed: the step that is left for when the targets have changed, or NULL. */
static bool
hz_lb_converge_shape(struct hz_lb_run *run, const struct hz_step **ret_postponed, struct error *err)
{
	struct hz_lb *result = ARENA_NEW(run->call->arena, struct hz_lb);
	struct hz_lb_type type;
	struct hz_steps steps;

	*ret_postponed = NULL;
	hz_count_operations("hcops/LoadBalancerOps.ReconcileHCLB", 1);
	if (!hz_lb_choose_type(run, &type, err))
		return false;
	hz_plan_shape(&run->desired, &type, run->lb, run->call->arena, &steps, result);
	for (size_t i = 0; i < steps.n; i++) {
		const struct hz_step *step = &steps.steps[i];

		if (hz_lb_must_follow_targets(run, step))
			*ret_postponed = step;
		else if (!hz_lb_do_shape_step(run, step, err))
			return false;
	}
	if (steps.n == 0)
		return true;
	/* Targets and services depend on the shape, so the balancer is read again. In a dry run the
	 * steps were not made. */
	if (!run->call->dry)
		return hz_lb_refresh(run, HZ_RECENT, err);
	run->lb = result;
	return true;
}

/* ---- targets ---- */

static bool
hz_lb_wrap_target(const struct hz_lb_run *run, const struct hz_step *step, struct error *err)
{
	const struct node_ref *node = hz_targets_node(&run->targets, step->target);

	return err_wrap(err, "hcops/LoadBalancerOps.ReconcileHCLBTargets: target %" STR_FMT,
	                STR_ARG(node ? node->name : STR("of no node")));
}

/* Room for further targets or services. The type's limit is not always known; then the API's
 * refusal shows it, and what follows is not sent. */
struct room {
	const char *kind;                 /* of the refusal, for refusals.h */
	size_t n, max;                    /* max 0: not known */
	bool is_full;                     /* the API has refused one more than n */
	const struct node_ref **left_out; /* of targets: those for which there was no room */
	size_t n_left_out;
};

static uint64_t
room_looks(const struct hz_lb_run *run, const struct room *room)
{
	return hz_lb_looks(run, arena_printf(run->call->arena, "%zu", room->n));
}

static struct room
room_of(const struct hz_lb_run *run, const char *kind, size_t n, int64_t max)
{
	struct room room = { .kind = kind, .n = n, .max = max > 0 ? (size_t)max : 0 };
	struct error ignored;

	room.is_full = refusals_find(run->tools->refusals, run->spec->uid, kind,
	                             room_looks(run, &room), &ignored);
	return room;
}

static struct str
limit_of_type(const struct hz_lb_run *run, size_t max, const char *what)
{
	return arena_printf(run->call->arena,
	                    "a load balancer of type \"%" STR_FMT "\" has at most %zu %s",
	                    STR_ARG(run->lb->type.name), max, what);
}

static bool
room_is_left(const struct room *room)
{
	return !room->is_full && (room->max == 0 || room->n < room->max);
}

static void
room_note_full(const struct hz_lb_run *run, struct room *room, const struct error *why)
{
	room->is_full = true;
	refusals_note(run->tools->refusals, run->spec->uid, room->kind, room_looks(run, room), why);
}

/* node NULL: an address that stays a target without a node. */
static void
room_leave_out(struct room *room, const struct node_ref *node)
{
	if (node)
		room->left_out[room->n_left_out++] = node;
}

/* The target, as the object of refused removals. */
static struct str
hz_lb_target_object(const struct hz_lb_run *run, const struct hz_lb_target *target)
{
	struct str key = hz_target_key(target, /*is_private=*/false, run->call->arena);

	return arena_printf(run->call->arena, "%" STR_FMT " %" STR_FMT, STR_ARG(run->spec->uid),
	                    STR_ARG(key));
}

/* The API answers invalid_input if the balancer does not have the target, or if the server does not
 * exist any more. Either way there is nothing to remove. The balancer may show the target for long,
 * so the removal is not requested again within an hour, unless the target was added since. */
static bool
hz_lb_remove_target(struct hz_lb_run *run, const struct hz_step *step, struct error *err)
{
	struct str object = hz_lb_target_object(run, step->target);
	struct refusals *refusals = run->tools->refusals;
	struct hz_done done = { 0 };
	struct error ignored;

	if (refusals_find(refusals, object, "remove_target", 0, &ignored) ||
	    hz_lb_send_step(run, step, &done, err))
		return true;
	if (!hz_is_code(done.code, "invalid_input"))
		return hz_lb_wrap_target(run, step, err);
	refusals_note(refusals, object, "remove_target", 0, err);
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

static bool
hz_lb_add_target(struct hz_lb_run *run, const struct hz_step *step, struct room *room,
                 struct error *err)
{
	const struct node_ref *node = step->target->node;
	struct hz_done done = { 0 };

	if (step->target->type == HZ_TARGET_IP && run->targets.is_robot_unavailable)
		return true;
	if (!room_is_left(room)) {
		room_leave_out(room, node);
		return true;
	}
	if (run->call->dry && hz_dry_refuses_target(run, run->lb, step->target))
		return true;
	if (hz_lb_do_step(run, step, &done, err) ||
	    hz_is_code(done.code, "target_already_defined")) {
		refusals_forget(run->tools->refusals, hz_lb_target_object(run, step->target),
		                "remove_target");
		room->n++;
		return true;
	}
	if (hz_is_code(done.code, "resource_limit_exceeded")) {
		room_note_full(run, room, err);
		room_leave_out(room, node);
		return true;
	}
	if (node && hz_lb_is_target_error(done.code, err)) {
		hz_targets_refused(&run->targets, &run->tools->targets, run->call, run->spec,
		                   step->target, /*is_retryable=*/!hz_lb_is_refusal(err), err);
		return true;
	}
	if (hz_lb_is_refusal(err))
		refusals_note(run->tools->refusals, run->spec->uid, step->verb,
		              hz_lb_looks(run, STR_EMPTY), err);
	return hz_lb_wrap_target(run, step, err);
}

/* Sends an Event for each node that is left out: when these nodes change, and otherwise every 5
 * minutes. A dry run notes them instead. */
static void
hz_lb_report_left_out(struct hz_lb_run *run, const struct room *room)
{
	CLEANUP(buf_fini) struct buf names = BUF_INIT(SIZE_MAX / 2);
	struct str limit = STR("the load balancer takes no more targets");
	struct error why;

	for (size_t i = 0; i < room->n_left_out; i++)
		buf_addf(&names, "%s%" STR_FMT, i > 0 ? ", " : "",
		         STR_ARG(room->left_out[i]->name));
	if (run->call->dry && names.len > 0) {
		if (room->max > 0)
			limit = limit_of_type(run, room->max, "targets");
		err_set(&why, ERR_INVALID, "%" STR_FMT ": these nodes are left out: %s",
		        STR_ARG(limit), names.ptr);
		dry_kept(run->call->dry, &why);
	} else if (hz_lb_cache_should_report(run->tools->cache, run->spec->uid, HZ_NOTICE_TARGETS,
	                                     str_hash(buf_str(&names)))) {
		for (size_t i = 0; i < room->n_left_out; i++)
			hz_targets_exceeded(&run->tools->targets, run->spec, room->left_out[i]);
	}
}

/* A target may be refused because of its server, which concerns all Services, or because of the
 * balancer, which concerns all targets of this Service. */
static bool
hz_lb_converge_targets(struct hz_lb_run *run, struct error *err)
{
	struct room room = room_of(run, "max_targets", run->lb->n_targets,
	                           run->lb->type.max_targets);
	struct hz_steps steps;

	hz_count_operations("hcops/LoadBalancerOps.ReconcileHCLBTargets", 1);
	hz_targets_read(&run->tools->targets, run->call, run->spec, &run->desired, run->lb,
	                &run->targets);
	hz_plan_targets(run->targets.targets, run->targets.n, run->lb, run->call->arena, &steps);
	room.left_out = arena_calloc(run->call->arena, steps.n, sizeof(const void *));
	for (size_t i = 0; i < steps.n; i++) {
		const struct hz_step *step = &steps.steps[i];

		if (!str_eq_c(str_c(step->verb), "add_target")) {
			room.n -= room.n > 0;
			if (!hz_lb_remove_target(run, step, err))
				return false;
			continue;
		}
		if (refusals_find(run->tools->refusals, run->spec->uid, step->verb,
		                  hz_lb_looks(run, STR_EMPTY), err))
			return hz_lb_wrap_target(run, step, err);
		if (!hz_lb_add_target(run, step, &room, err))
			return false;
	}
	hz_lb_report_left_out(run, &room);
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
	*ret_is_issued = hz_actions_wait(t->actions, run->call, run->issuing, WAIT_IN_PLACE_NS,
	                                 err);
	if (!*ret_is_issued && err->code == ERR_PENDING) {
		hz_lb_note_missing(run, err);
		return true;
	}
	if (!*ret_is_issued && err->is_outage)
		return false;
	hz_certificates_forget(t->catalog, run->desired.uid);
	if (*ret_is_issued)
		return true;
	err_wrap(err, "hcops/LoadBalancerOps.ReconcileHCLBServices: managed certificate");
	return hz_lb_tolerate_refusal(run, err);
}

static void
hz_lb_notify_ports(struct hz_lb_run *run, struct str limit, struct str ports)
{
	struct error why;

	err_set(&why, ERR_INVALID, "%" STR_FMT ": these ports are not served: %" STR_FMT,
	        STR_ARG(limit), STR_ARG(ports));
	hz_lb_report_once(run, &ports_event, "ports", &why);
}

/* Adds or changes one service, or removes it. *n_refused: how many steps were refused already. */
static bool
hz_lb_do_service_step(struct hz_lb_run *run, const struct hz_step *step, struct room *room,
                      unsigned *n_refused, struct error *err)
{
	bool is_addition = str_eq_c(str_c(step->verb), "add_service");
	bool is_removal = str_eq_c(str_c(step->verb), "delete_service");
	struct hz_done done = { 0 };

	if (*n_refused >= SERVICE_REFUSALS_MAX && !is_removal)
		return true;
	if (hz_lb_do_step(run, step, &done, err)) {
		room->n += is_addition;
		room->n -= is_removal && room->n > 0;
		return true;
	}
	err_wrap(err, "hcops/LoadBalancerOps.ReconcileHCLBServices");
	if (is_addition && hz_is_code(done.code, "resource_limit_exceeded")) {
		room_note_full(run, room, err);
		return true;
	}
	++*n_refused;
	return hz_lb_tolerate_refusal(run, err);
}

static bool
hz_lb_converge_services(struct hz_lb_run *run, struct error *err)
{
	CLEANUP(buf_fini) struct buf left_out = BUF_INIT(LIMIT_EVENT_MESSAGE);
	const struct hz_lb_type *type = &run->lb->type;
	struct arena *arena = run->call->arena;
	unsigned n_refused = 0;
	struct hz_steps steps;
	struct room room;
	bool is_issued;

	if (!run->has_services)
		return true;
	if (!hz_lb_await_certificate(run, &is_issued, err))
		return false;
	if (!is_issued)
		return true;
	hz_count_operations("hcops/LoadBalancerOps.ReconcileHCLBServices", 1);
	hz_plan_fit_services(&run->desired, type->max_services, run->lb, arena, &left_out);
	if (left_out.len > 0)
		hz_lb_notify_ports(run, limit_of_type(run, (size_t)type->max_services, "services"),
		                   buf_str(&left_out));
	buf_reset(&left_out);
	room = room_of(run, "max_services", run->lb->n_services, /*max=*/0);
	hz_plan_services(&run->desired, run->lb, arena, &steps);
	for (size_t i = 0; i < steps.n; i++) {
		const struct hz_step *step = &steps.steps[i];
		bool is_addition = str_eq_c(str_c(step->verb), "add_service");

		if ((!is_addition || room_is_left(&room)) &&
		    !hz_lb_do_service_step(run, step, &room, &n_refused, err))
			return false;
		if (is_addition && !room_is_left(&room))
			buf_addf(&left_out, "%s%" PRId64, left_out.len > 0 ? ", " : "",
			         step->listen_port);
	}
	if (left_out.len > 0 && room.n < run->lb->n_services) {
		err_set(err, ERR_PENDING, "services were removed, which makes room for others");
		hz_lb_note_missing(run, err);
	} else if (left_out.len > 0) {
		hz_lb_notify_ports(run,
		                   STR("the API permits no further services of this load balancer"),
		                   buf_str(&left_out));
	}
	return true;
}

/* ---- the run ---- */

/* In a dry run: reports an annotation with another location, because a load balancer cannot be
 * moved. A number is the location's ID. */
static void
hz_lb_note_location(const struct hz_lb_run *run)
{
	const struct str *wanted = lb_annotation(run->spec, HZ_LB_PREFIX "location");
	struct error why;

	if (!run->call->dry || !wanted || wanted->len == 0 || str_is_digits(*wanted) ||
	    run->lb->location.len == 0 || str_eq(*wanted, run->lb->location))
		return;
	err_set(&why, ERR_INVALID,
	        HZ_LB_PREFIX
	        "location: \"%" STR_FMT
	        "\" has no effect on an existing load balancer, which stays in %" STR_FMT
	        ". Remove the annotation, or delete the Service and create it again; the new load balancer has another address",
	        STR_ARG(*wanted), STR_ARG(run->lb->location));
	dry_kept(run->call->dry, &why);
}

bool
hz_lb_converge(struct hz_lb_run *run, struct error *err)
{
	const struct hz_step *postponed;

	hz_lb_note_location(run);
	if (!hz_lb_converge_shape(run, &postponed, err) || !hz_lb_converge_targets(run, err) ||
	    !hz_lb_converge_services(run, err))
		return false;
	if (postponed && (!hz_lb_do_shape_step(run, postponed, err) ||
	                  (!run->call->dry && !hz_lb_refresh(run, HZ_RECENT, err))))
		return false;
	if (run->targets.missing.code != ERR_NONE)
		hz_lb_note_missing(run, &run->targets.missing);
	if (run->refusal.code == ERR_NONE)
		return true;
	*err = run->refusal;
	return false;
}
