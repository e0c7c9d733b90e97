/* controllers/service/service_events.c: events about the load balancer of a Service
 * (docs/spec/framework.md, "Service events").
 *
 * The API server accepts 25 events about one object and one more every 5 min
 * (docs/spec/kube-client.md, "Event limits"). Repeated events would use up this quota. So work that
 * takes several attempts is announced once, and changed targets are reported less and less often
 * while they keep changing.
 */
#include "base/backoff.h"
#include "base/event_kind.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/metrics.h"
#include "controllers/service/service_internal.h"

EVENT_KIND(ensuring_event, SERVICE_COMPONENT, "EnsuringLoadBalancer", false, "Service",
           "Work on a load balancer begins.");
EVENT_KIND(ensured_event, SERVICE_COMPONENT, "EnsuredLoadBalancer", false, "Service",
           "The load balancer is as the Service wants it.");
EVENT_KIND(
	repaired_event, SERVICE_COMPONENT, "LoadBalancerRepaired", false, "Service",
	"Another client had changed or deleted the load balancer, and it is as the Service wants it again. The message says what was changed.");
EVENT_KIND(deleting_event, SERVICE_COMPONENT, "DeletingLoadBalancer", false, "Service",
           "The Service no longer wants its load balancer, which is being deleted.");
EVENT_KIND(deleted_event, SERVICE_COMPONENT, "DeletedLoadBalancer", false, "Service",
           "The load balancer was deleted.");
EVENT_KIND(updated_event, SERVICE_COMPONENT, "UpdatedLoadBalancer", false, "Service",
           "The load balancer has new targets because nodes changed.");
EVENT_KIND(unavailable_event, SERVICE_COMPONENT, "UnAvailableLoadBalancer", true, "Service",
           "There is no node that may be a target of the load balancer.");
EVENT_KIND(sync_failed_event, SERVICE_COMPONENT, "SyncLoadBalancerFailed", true, "Service",
           "The load balancer could not be made as the Service wants it. This is retried.");
EVENT_KIND(delete_failed_event, SERVICE_COMPONENT, "DeleteLoadBalancerFailed", true, "Service",
           "The load balancer could not be deleted. This is retried.");
EVENT_KIND(update_failed_event, SERVICE_COMPONENT, "UpdateLoadBalancerFailed", true, "Service",
           "The targets of the load balancer could not be changed. This is retried.");

EVENT_KIND(
	kept_event, SERVICE_COMPONENT, "LoadBalancerKept", true, "Service",
	"A Service vanished without being deleted, or was replaced by another one of the same name. Its load balancer is kept.");

METRIC_FAMILY(
	repairs_total, METRIC_COUNTER, "ccmd_load_balancer_repairs_total",
	"[ALPHA] Load balancers that another client had changed or deleted, and that were repaired.");

static const int64_t report_pause_ns = 60 * NS_PER_SEC;
/* the rate at which the API server accepts further events */
static const int64_t report_pause_max_ns = 300 * NS_PER_SEC;

/* Indexed by enum service_event. */
static const struct {
	const struct event_kind *kind;
	const char *text; /* of a failure: the text before the error message */
} events[] = {
	[SERVICE_ENSURING] = { &ensuring_event, "Ensuring load balancer" },
	[SERVICE_ENSURED] = { &ensured_event, "Ensured load balancer" },
	[SERVICE_REPAIRED] = { &repaired_event, "Repaired load balancer" },
	[SERVICE_DELETING] = { &deleting_event, "Deleting load balancer" },
	[SERVICE_DELETED] = { &deleted_event, "Deleted load balancer" },
	[SERVICE_SYNC_FAILED] = { &sync_failed_event, "Error syncing load balancer" },
	[SERVICE_DELETE_FAILED] = { &delete_failed_event, "Error deleting load balancer" },
};

static void
service_send_event(struct service_run *run, enum event_type type, const char *reason,
                   struct str message)
{
	const struct service *s = run->service;
	struct event_object object = { "v1", "Service", s->namespace, s->name, s->object.uid };

	recorder_event(run->c->env->recorder, SERVICE_COMPONENT, &object, type, reason, message);
}

/* ---- beginnings and ends ---- */

void
service_announce(struct service_run *run, enum service_event event)
{
	if (run->record->announced == event)
		return;
	run->record->announced = event;
	service_send_event(run, EVENT_NORMAL, events[event].kind->reason,
	                   str_c(events[event].text));
}

void
service_report_end(struct service_run *run, enum service_event event)
{
	run->record->announced = SERVICE_NOTHING;
	run->record->has_new_targets = false;
	service_send_event(run, EVENT_NORMAL, events[event].kind->reason,
	                   str_c(events[event].text));
}

void
service_report_repairs(struct service_run *run)
{
	CLEANUP(buf_fini) struct buf message = BUF_INIT(LIMIT_EVENT_MESSAGE);
	struct service_record *r = run->record;

	r->is_repairing = false;
	if (r->repairs.len == 0)
		return;
	buf_addf(&message, "%s, which differed from the Service: %s", events[SERVICE_REPAIRED].text,
	         r->repairs.ptr);
	service_send_event(run, EVENT_NORMAL, repaired_event.reason, buf_str(&message));
	metric_inc(metric_of(&repairs_total));
	log_info("load balancer repaired", LOG_STR("service", run->service->object.key),
	         LOG_STR("changes", buf_str(&r->repairs)));
	buf_reset(&r->repairs);
}

/* ---- failures ---- */

bool
service_is_failure(const struct error *err)
{
	return err->code != ERR_PENDING && err->code != ERR_THROTTLED && err->code != ERR_CANCELLED;
}

void
service_warn(struct service_run *run, enum service_event event, const struct error *err)
{
	CLEANUP(buf_fini) struct buf message = BUF_INIT(LIMIT_EVENT_MESSAGE);
	uint64_t warned_outage = run->record->warned_outage;

	if (!service_is_failure(err))
		return;
	buf_addf(&message, "%s: %s", events[event].text, err->msg);
	/* In an outage each attempt fails with the same text, possibly for hours, and would use up
	 * the event quota of the Service. */
	run->record->warned_outage = err->is_outage ? str_hash(buf_str(&message)) : 0;
	if (err->is_outage && run->record->warned_outage == warned_outage)
		return;
	service_send_event(run, EVENT_WARNING, events[event].kind->reason, buf_str(&message));
}

/* The event is about the Service that has the name now, because its users see it there; if no
 * Service has it, about the former one. */
void
service_warn_of_kept(struct service_run *run, const struct service *former)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_EVENT_MESSAGE);
	struct service_run about = *run;

	buf_addf(&text, "The load balancer of the former Service with UID %" STR_FMT,
	         STR_ARG(former->object.uid));
	for (uint32_t i = 0; i < former->n_ingress; i++) {
		const struct service_ingress *ingress = &former->ingress[i];

		buf_add_c(&text, i == 0 ? ", addresses " : " ");
		buf_add_str(&text, ingress->ip.len > 0 ? ingress->ip : ingress->hostname);
	}
	buf_add_c(
		&text,
		" is kept and goes on serving: that Service was not deleted, it vanished together with the finalizer " SERVICE_FINALIZER
		", as after a restore of the API server's data. If a Service with this UID is restored, it gets the load "
		"balancer back. If nothing needs the load balancer, delete it in the cloud: nothing in the cluster refers "
		"to it any more.");
	if (!about.service)
		about.service = former;
	service_send_event(&about, EVENT_WARNING, kept_event.reason, buf_str(&text));
}

void
service_warn_of_update(struct service_run *run, const struct target_list *targets,
                       const struct error *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_EVENT_MESSAGE);
	size_t n_shown = targets->n < 20 ? targets->n : 20;

	buf_add_c(&text, "Error updating load balancer with new hosts [");
	for (size_t i = 0; i < n_shown; i++) {
		buf_add_c(&text, i > 0 ? " " : "");
		buf_add_str(&text, targets->refs[i].name);
	}
	if (targets->n > n_shown)
		buf_addf(&text, " <%zu more>", targets->n - n_shown);
	buf_addf(&text, "] [node names limited, total number of nodes: %zu], error: %s", targets->n,
	         err->msg);
	service_send_event(run, EVENT_WARNING, update_failed_event.reason, buf_str(&text));
}

/* ---- targets ---- */

void
service_report_empty(struct service_run *run, size_t n_targets)
{
	if (n_targets == 0 && !run->record->is_empty_reported)
		service_send_event(run, EVENT_WARNING, unavailable_event.reason,
		                   STR("There are no available nodes for LoadBalancer"));
	run->record->is_empty_reported = n_targets == 0;
}

void
service_report_new_targets(struct service_run *run)
{
	struct service_record *r = run->record;
	int64_t now_ns = clock_mono(run->call->clock);

	if (!r->has_new_targets)
		return;
	if (now_ns < r->next_report_ns) {
		queue_add_after(run->c->queue, r->key, r->next_report_ns - now_ns);
		return;
	}
	/* Each pause is longer than the one before, unless targets have not changed for as long as
	 * the last pause. */
	if (r->report_pause_ns == 0 || now_ns - r->next_report_ns > r->report_pause_ns)
		r->report_pause_ns = report_pause_ns;
	else
		r->report_pause_ns = backoff_ns(r->report_pause_ns, 1, report_pause_max_ns);
	r->next_report_ns = clock_deadline(now_ns, r->report_pause_ns);
	r->has_new_targets = false;
	service_send_event(run, EVENT_NORMAL, updated_event.reason,
	                   STR("Updated load balancer with new hosts"));
}
