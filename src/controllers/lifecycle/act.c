/* controllers/lifecycle/act.c: what follows from a look: taints, deletions, and the events that say
 * why a node is not deleted.
 *
 * lifecycle_decide() collects everything the decision depends on as plain values (struct
 * guard_facts), lets the guard decide, and carries the decision out. A node that is held back gets
 * one Warning event for each reason, so that an operator who waits for the deletion sees what is
 * missing.
 */
#include "base/array.h"
#include "base/backoff.h"
#include "base/event_kind.h"
#include "base/limits.h"
#include "base/log.h"
#include "controllers/lifecycle/internal.h"
#include "controllers/dry_write.h"
#include "controllers/event_dedup.h"
#include "controllers/node_errors.h"
#include "controllers/pace.h"
#include "controllers/writes.h"
#include "kube/patch.h"

enum {
	/* The number of conflicts in a row that is reported like any other failure. */
	CONFLICTS_REPORTED = 3,
};

EVENT_KIND(deleting_event, LIFECYCLE_COMPONENT, "DeletingNode", false, "Node",
           "It is proven that the machine of the node is gone: the node is being deleted.");
EVENT_KIND(
	deleting_failed_event, LIFECYCLE_COMPONENT, "DeletingNodeFailed", true, "Node",
	"The API server refused to delete a node whose machine is gone. The deletion is retried.");
EVENT_KIND(
	held_event, LIFECYCLE_COMPONENT, "NodeDeletionHeld", true, "Node",
	"The cloud does not know the machine of a node that is not ready, but the proof that it is gone is not complete. The message says what is missing.");
EVENT_KIND(
	foreign_event, LIFECYCLE_COMPONENT, "ForeignProviderID", true, "Node",
	"The provider ID of a node that is not ready belongs to another cloud: ccmd never deletes this node.");

METRIC_FAMILY(
	outcomes, METRIC_COUNTER, "ccmd_node_deletion_decisions_total",
	"[ALPHA] Decisions about nodes that are not ready, by the outcome of the deletion guard.",
	.labels = { "outcome" });

void
lifecycle_start_counters(void)
{
	for (int i = 0; i < GUARD_N_OUTCOMES; i++)
		(void)metric_of(&outcomes, guard_outcome_name((enum guard_outcome)i));
}

METRIC_FAMILY(
	last_deletion, METRIC_GAUGE, "ccmd_node_last_deletion_timestamp_seconds",
	"[ALPHA] When a node was last deleted because its machine is gone; Unix time; 0: never.");

/* ---- facts ---- */

/* now: the newest known state of the node. check->node is as old as the round, which may have
 * waited long for the cloud; the kubelet may have reported meanwhile. It may also have reported
 * before the round; if this round's look failed, the proof of absence is older than that report.
 */
static struct guard_facts
facts_of(struct round *r, const struct node_check *check, const struct node *now)
{
	return (struct guard_facts){
		.is_ready = now->ready == NODE_READY_TRUE,
		.has_new_heartbeat = now->heartbeat != check->candidate->now.heartbeat,
		.is_foreign = check->candidate->now.presence == PRESENCE_FOREIGN,
		.has_provider_id = node_provider_id(check->node).len > 0,
		.is_announced = node_is_leaving(check->node),
		.age_ns = clock_wall(r->c->env->clock) - check->node->created_wall_ns,
		.track = check->candidate->now.track,
		.n_nodes = (unsigned)r->all.n,
		.n_going = (unsigned)r->c->n_deletions + r->n_assumed + r->n_proven,
		.group_first_boot_ns = r->group_first_boot_ns,
	};
}

void
lifecycle_count_proven(struct round *r)
{
	r->n_proven = 0;
	r->group_first_boot_ns = 0;
	for (size_t i = 0; i < r->n_checks; i++) {
		struct guard_facts facts = facts_of(r, &r->checks[i], r->checks[i].node);

		if (r->checks[i].candidate->is_counted || facts.is_announced ||
		    guard_prove(&r->c->config.guard, &facts) != GUARD_DELETE)
			continue;
		r->n_proven++;
		r->group_first_boot_ns = clock_later(r->group_first_boot_ns,
		                                     facts.track.first_boot_ns);
	}
}

/* ---- the shutdown taint ---- */

void
lifecycle_add_shutdown_taint(struct round *r, const struct node_check *check)
{
	struct error err;

	/* The watch has not shown our last write yet, which may have been this one. */
	if (own_writes_are_ahead(r->c->env->own_writes, check->node)) {
		check->candidate->is_unfinished = true;
		return;
	}
	if (write_shutdown_taint(r->c->env, r->call, check->node, true, &err))
		return;
	r->must_retry = true;
	check->candidate->is_unfinished = true;
	node_errors_note(r->c->env->node_errors, NODE_WORK_LIFECYCLE, node_name(check->node), &err,
	                 CLOCK_FOREVER);
	log_error("shutdown taint cannot be added, will retry",
	          LOG_STR("node", node_name(check->node)), LOG_ERR(&err));
}

void
lifecycle_remove_shutdown_taint(struct round *r, const struct node *node)
{
	struct node_errors *errors = r->c->env->node_errors;
	bool has_taint = false;
	struct error err;

	for (size_t i = 0; i < node->n_taints; i++)
		has_taint |= taint_is_shutdown(node->taints[i]);
	if (!has_taint) {
		node_errors_clear(errors, NODE_WORK_LIFECYCLE, node_name(node));
		return;
	}
	/* The watch has not shown our last write yet, or another writer keeps adding the taint
	 * again. A round costs no request. */
	if (own_writes_are_ahead(r->c->env->own_writes, node) ||
	    paces_look(r->c->env->paces, node->object.uid, "shutdown taint") > 0) {
		r->must_retry = true;
		return;
	}
	if (write_shutdown_taint(r->c->env, r->call, node, false, &err)) {
		(void)paces_take(r->c->env->paces, node->object.uid, "shutdown taint");
		return;
	}
	r->must_retry = true;
	node_errors_note(errors, NODE_WORK_LIFECYCLE, node_name(node), &err, LIFECYCLE_RETRY_NS);
	log_error("shutdown taint cannot be removed, will retry", LOG_STR("node", node_name(node)),
	          LOG_ERR(&err));
}

/* ---- deletion ---- */

static void
add_deletion(struct lifecycle_controller *c, struct candidate *candidate)
{
	candidate->is_counted = true;
	ARRAY_PUSH(c->deletions_boot_ns, c->n_deletions, c->deletions_cap,
	           clock_boot(c->env->clock));
}

/* The breaker counts each node once, either as proven or as deleted. */
static void
count_deletion(struct round *r, const struct node_check *check)
{
	if (check->candidate->is_counted || node_is_leaving(check->node))
		return;
	r->n_proven--;
	add_deletion(r->c, check->candidate);
}

/* If the response of a DELETE is lost, the request is repeated. If the node has finalizers, it is
 * marked for deletion by then, so the second request conflicts with the first. */
static void
count_former_deletion(struct round *r, struct candidate *candidate)
{
	if (candidate->has_conflicted && !candidate->is_counted)
		add_deletion(r->c, candidate);
}

/* A DELETE that is repeated before the watch shows the first one is not logged again. */
static void
note_deletion(struct round *r, const struct node_check *check)
{
	if (check->candidate->now.is_deleted)
		return;
	check->candidate->now.is_deleted = true;
	if (r->call->dry)
		return;
	metric_set(metric_of(&last_deletion), clock_seconds(clock_wall(r->c->env->clock)));
	log_info("node deleted, its machine is gone", LOG_STR("node", node_name(check->node)),
	         LOG_STR("provider_id", node_provider_id(check->node)));
}

/* A repeated DELETE sends no second event. */
static void
report_deleting(struct round *r, const struct node_check *check)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(4));

	if (check->candidate->is_deletion_reported)
		return;
	check->candidate->is_deletion_reported = true;
	buf_addf(&text,
	         "Deleting node %" STR_FMT " because it does not exist in the cloud provider",
	         STR_ARG(node_name(check->node)));
	node_event(r->c->env->recorder, LIFECYCLE_COMPONENT, check->node, EVENT_NORMAL,
	           deleting_event.reason, buf_str(&text));
}

static void
report_deleting_failed(struct round *r, const struct node_check *check, const struct error *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(4));
	struct str name = node_name(check->node);

	buf_addf(&text, "Failed deleting node %" STR_FMT ": %s", STR_ARG(name), err->msg);
	event_dedup_warn(r->c->env->event_dedup, LIFECYCLE_COMPONENT, check->node,
	                 deleting_failed_event.reason, buf_str(&text));
	node_errors_note(r->c->env->node_errors, NODE_WORK_LIFECYCLE, name, err, CLOCK_FOREVER);
	log_error("node cannot be deleted, will retry", LOG_STR("node", name), LOG_ERR(err));
}

static bool
send_delete(struct round *r, const struct node *node, struct error *err)
{
	CLEANUP(buf_fini) struct buf path = BUF_INIT(LIMIT_HTTP_URL);

	patch_node_path(&path, node_name(node), NULL);
	if (r->call->dry) {
		dry_write_node_delete(r->call, node, buf_str(&path));
		return true;
	}
	return kube_delete(r->c->env->kube, r->call, buf_str(&path), node->object.uid,
	                   node->object.resource_version, err) ||
	       err->code == ERR_NOT_FOUND;
}

/* A node that is marked for deletion already stays until its finalizers are removed: a further
 * request would have no effect.
 *
 * The resource version on which the decision is based is a precondition of the DELETE. A kubelet
 * that came back writes its status, which changes the version, and the API server knows that before
 * our watch delivers it; the Lease does not help where it is missing or forbidden. A DELETE
 * conflicts only if another client writes between our last watch event and the request. The next
 * round looks at the node again with its new state, so only a repeated conflict is a failure. */
static void
lifecycle_delete(struct round *r, const struct node_check *check, const struct node *now)
{
	struct candidate *candidate = check->candidate;
	struct error err;

	if (now->is_deleting) {
		count_former_deletion(r, candidate);
		return;
	}
	candidate->n_deletes++;
	candidate->has_conflicted = false;
	if (send_delete(r, now, &err)) {
		candidate->n_conflicts = 0;
		count_deletion(r, check);
		report_deleting(r, check);
		note_deletion(r, check);
		return;
	}
	/* Without an answer, or after a 5xx, the node may be deleted all the same. */
	if (err.http_status == 0 || err.http_status >= 500)
		count_deletion(r, check);
	candidate->has_conflicted = err.code == ERR_CONFLICT && !node_is_leaving(check->node);
	if (err.code != ERR_CONFLICT)
		candidate->n_conflicts = 0;
	else if (++candidate->n_conflicts < CONFLICTS_REPORTED)
		return;
	report_deleting(r, check);
	report_deleting_failed(r, check, &err);
}

/* ---- decisions ---- */

/* Why a node is not deleted although its machine seems gone; NULL: no event is needed, e.g. because
 * the absence has only just been seen. */
static const char *
hold_reason(const struct round *r, const struct node_check *check, enum guard_outcome outcome)
{
	switch (outcome) {
	case GUARD_NO_WITNESS:
		return check->candidate->asked.n_asked == 0
		               ? "no other node has a provider ID by which its machine could be found, so the response may come "
		                 "from a wrong token, project or inventory"
		               : "no machine of the other nodes that were checked was found either, so the response may come from a "
		                 "wrong token, project or inventory";
	case GUARD_KUBELET_ALIVE:
		return "its kubelet still renews its lease or its heartbeat";
	case GUARD_NAMELESS:
		return "it has no provider ID, so a wrong node name would look the same; it is deleted if the machine stays absent";
	case GUARD_BREAKER:
		return r->n_assumed > 0
		               ? "the previous leader exited without releasing its Lease, so it is unknown how many nodes it "
		                 "deleted, and one more may be too many; it is deleted if further checks agree"
		               : "too many nodes would be deleted together; they are deleted if further checks agree";
	default:
		return NULL;
	}
}

/* The numbers in the text may change with each look; a change of them alone sends no further
 * event. */
static void
report_held(struct round *r, const struct node_check *check, enum guard_outcome outcome,
            const char *reason)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(4));
	const struct asked_witnesses *asked = &check->candidate->asked;
	struct str name = node_name(check->node);

	buf_addf(&text,
	         "Not deleting node %" STR_FMT ": the cloud says that its machine is gone, but %s",
	         STR_ARG(name), reason);
	if (outcome == GUARD_NO_WITNESS && asked->n_asked > 0)
		buf_addf(&text, " (checked: %u, absent: %u, unknown: %u)", asked->n_asked,
		         asked->n_absent, asked->n_asked - asked->n_absent);
	buf_addf(&text, ". If it is really gone: kubectl delete node %" STR_FMT, STR_ARG(name));
	event_dedup_warn_as(r->c->env->event_dedup, LIFECYCLE_COMPONENT, check->node,
	                    held_event.reason, str_c(reason), buf_str(&text));
}

static void
report_foreign(struct round *r, const struct node_check *check)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(4));

	buf_addf(&text,
	         "Provider ID \"%" STR_FMT
	         "\" does not belong to this cloud: the node is left alone",
	         STR_ARG(node_provider_id(check->node)));
	event_dedup_warn(r->c->env->event_dedup, LIFECYCLE_COMPONENT, check->node,
	                 foreign_event.reason, buf_str(&text));
}

/* Returns the time from this look to the next. A DELETE that was sent, or a write that failed or
 * has to wait, brings the next look forward. */
static int64_t
look_pause_ns(const struct round *r, const struct node_check *check,
              const struct guard_facts *facts, enum guard_outcome outcome)
{
	const struct lifecycle_config *config = &r->c->config;
	const struct candidate *candidate = check->candidate;
	int64_t delay_ns = guard_next_look_ns(&config->guard, facts, candidate->now.n_looks,
	                                      config->period_ns);
	int64_t retry_ns = clock_earlier(delay_ns, LIFECYCLE_RETRY_NS);

	if (outcome == GUARD_DELETE && !check->node->is_deleting)
		return backoff_ns(retry_ns, candidate->n_deletes, LIFECYCLE_RETRY_MAX_NS);
	return candidate->is_unfinished ? retry_ns : delay_ns;
}

void
lifecycle_decide(struct round *r, const struct node_check *check)
{
	struct lifecycle_controller *c = r->c;
	CLEANUP(object_unrefp)
	struct object *object = store_get(c->env->nodes, node_name(check->node));
	struct candidate *candidate = check->candidate;
	struct guard_facts facts;
	enum guard_outcome outcome;

	if (!object || !str_eq(object->uid, check->node->object.uid))
		return; /* the node is gone: the next round drops the candidate */
	/* The announcement was withdrawn during the look, so the breaker has to count the node: the
	 * next round does, which is due immediately. */
	if (node_is_leaving(check->node) && !node_is_leaving(node_of(object)))
		return;
	facts = facts_of(r, check, node_of(object));
	outcome = guard_decide(&c->config.guard, &facts);

	candidate->now.due_mono_ns = clock_deadline(clock_mono(c->env->clock),
	                                            look_pause_ns(r, check, &facts, outcome));
	candidate->is_unfinished = false;
	candidate->now.outcome = outcome;
	candidate->now.hold_reason = hold_reason(r, check, outcome);
	candidate->now.deletable_boot_ns = guard_not_before_ns(&c->config.guard, &facts,
	                                                       clock_boot(c->env->clock));
	metric_inc(metric_of(&outcomes, guard_outcome_name(outcome)));
	if (candidate->now.hold_reason)
		report_held(r, check, outcome, candidate->now.hold_reason);
	else
		event_dedup_clear(c->env->event_dedup, check->node, held_event.reason);
	if (outcome == GUARD_FOREIGN) {
		report_foreign(r, check);
	} else if (outcome == GUARD_DELETE) {
		lifecycle_delete(r, check, node_of(object));
	} else { /* a later deletion counts its attempts and reports itself from the beginning */
		candidate->n_deletes = candidate->n_conflicts = 0;
		candidate->is_deletion_reported = false;
	}
}
