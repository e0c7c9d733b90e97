/* controllers/service/service_adopt.c: what a provider has to know about all Services before it is
 * asked for the first one.
 *
 * A provider that hands out addresses itself has to know which ones are in use. Without that
 * knowledge it might hand out one a second time, so it is retried until it succeeds, and no Service
 * is worked on before. An event says what is in the way: once, and again when the reason changes or
 * after 5 min.
 */
#include "base/backoff.h"
#include "base/event_kind.h"
#include "base/limits.h"
#include "base/log.h"
#include "controllers/host.h"
#include "controllers/service/service_internal.h"

EVENT_KIND(
	failed_event, SERVICE_COMPONENT, "AdoptLoadBalancersFailed", true,
	"Pod or Namespace kube-system",
	"The existing load balancers could not be read, so no Service is reconciled. Reading them is retried.");

static const int64_t pause_ns = 5 * NS_PER_SEC;
static const int64_t pause_max_ns = 60 * NS_PER_SEC;
static const int64_t remind_ns = 300 * NS_PER_SEC;

/* A failure that lasts, and what was reported about it. */
struct adopt_failure {
	unsigned n_pauses;
	uint64_t reported;      /* a hash of the message that was reported */
	int64_t next_report_ns; /* mono: the same message is reported again then */
};

bool
service_adopt_all(struct cloud *cloud, struct call *call, struct store *services,
                  const char *cluster_name, struct error *err)
{
	CLEANUP(store_list_free) struct store_list all = store_list(services);
	const struct lb_spec **specs = arena_calloc(call->arena, all.n, sizeof(*specs));
	size_t n = 0;

	if (!cloud->balancers->adopt)
		return true;
	for (size_t i = 0; i < all.n; i++) {
		const struct service *s = service_of(all.objects[i]);
		struct error ignored;
		struct lb_spec *spec;

		/* Another controller writes the status of a Service of another class. A Service
		 * that is being deleted without our finalizer has no balancer any more, although
		 * its status may still show an address that another Service has by now. */
		if (s->has_class ||
		    (!s->has_finalizer && (s->is_deleting || !service_wants_balancer(s))))
			continue;
		spec = ARENA_NEW(call->arena, struct lb_spec);
		*spec = service_spec(s, cluster_name, call->arena);
		/* The provider gets a Service beyond the limits without its ports and ranges: the
		 * Service keeps its addresses, and does not prevent the adoption of the others. Its
		 * balancer is neither made nor changed until it is corrected. */
		if (!balancer_check_limits(cloud, spec, &ignored))
			spec->n_ports = spec->n_source_ranges = 0;
		specs[n++] = spec;
	}
	return cloud->balancers->adopt(cloud, call, specs, n, err);
}

bool
service_adopt(struct service_controller *c, struct call *call, struct error *err)
{
	call->dry = dry_item_new(c->env, "service", STR_EMPTY, STR_EMPTY, call->arena);
	return service_adopt_all(c->env->cloud, call, c->env->services, c->config.cluster_name,
	                         err);
}

/* ---- failures ---- */

static void
service_report_failed_adoption(struct service_controller *c, struct adopt_failure *t,
                               const struct error *err)
{
	CLEANUP(buf_fini) struct buf message = BUF_INIT(LIMIT_EVENT_MESSAGE);
	struct event_object object = host_ourselves();
	int64_t now_ns = clock_mono(c->env->clock);
	uint64_t hash = str_hash(str_c(err->msg));

	if (!service_is_failure(err) ||
	    (hash == t->reported && (err->is_outage || now_ns < t->next_report_ns)))
		return;
	t->reported = hash;
	t->next_report_ns = clock_deadline(now_ns, remind_ns);
	log_error("load balancers that exist cannot be taken over, will retry", LOG_ERR(err));
	buf_addf(&message, "Load balancers that exist cannot be taken over: %s", err->msg);
	recorder_event(c->env->recorder, SERVICE_COMPONENT, &object, EVENT_WARNING,
	               failed_event.reason, buf_str(&message));
}

/* Returns false when cancelled. */
static bool
adopt_until_done(struct service_controller *c, struct call *call, struct error *err)
{
	unsigned n_seen = c->adopt_pause.n_releases;
	struct adopt_failure t = { 0 };
	int64_t delay_ns;

	while (!service_adopt(c, call, err)) {
		service_report_failed_adoption(c, &t, err);
		dry_failed(call->dry, err);
		settling_note(c->env->settling, SETTLING_ADOPTION);
		delay_ns = err->retry_after_ms > 0
		                   ? err->retry_after_ms * NS_PER_MS
		                   : backoff_spread_ns(pause_ns, t.n_pauses++, pause_max_ns);
		if (!failure_pause_sleep(&c->adopt_pause, call, n_seen, delay_ns, err))
			return false;
		n_seen = c->adopt_pause.n_releases;
		arena_reset(call->arena);
	}
	return true;
}

/* ---- the first worker adopts ---- */

/* The first worker adopts, the others wait for it. If it is cancelled, the queue is shut down, so
 * that the others end as well. */
bool
service_begin(struct service_controller *c, struct call *call)
{
	struct error err;
	bool is_first;

	mutex_lock(&c->mu);
	is_first = c->adoption == ADOPT_WANTED;
	if (is_first)
		c->adoption = ADOPT_RUNNING;
	while (!is_first && c->adoption != ADOPT_DONE)
		clock_wait(c->env->clock, &c->adopted, &c->mu, CLOCK_FOREVER);
	mutex_unlock(&c->mu);
	if (!is_first)
		return false;
	balancer_begin(c->env->cloud, call);
	if (!adopt_until_done(c, call, &err))
		queue_shut_down(c->queue);
	mutex_lock(&c->mu);
	c->adoption = ADOPT_DONE;
	cond_broadcast(&c->adopted);
	mutex_unlock(&c->mu);
	settling_note(c->env->settling, SETTLING_ADOPTION);
	return true;
}
