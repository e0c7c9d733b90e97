/* controllers/service/service.c: what leads to work on a Service, and the workers; see service.h.
 *
 * The handlers of the stores put reasons into the record of a Service and its key into the queue.
 * The worker that gets the key takes all its reasons together. There may be thousands of nodes and
 * hundreds of Services, so a change of a node does not go over all Services itself: it queues one
 * key, KEY_ALL_SERVICES, whose worker gives every Service a reason to compare its targets.
 */
#include "base/alloc.h"
#include "base/limits.h"
#include "base/log.h"
#include "controllers/pace.h"
#include "controllers/service/service_internal.h"

enum {
	WORK_TIMEOUT_S = 120,
};

/* docs/spec/framework.md, "Service retries" */
static const int64_t failure_base_ns = 5 * NS_PER_SEC;
/* The longest pause before a failed clean-up is retried (docs/spec/framework.md, "Service
 * retries"). */
static const int64_t cleanup_max_ns = 30 * NS_PER_SEC;
static const int64_t pass_pause_ns = NS_PER_SEC;

/* The key of a pass over all Services. No Service can have it, because their keys contain a slash.
 */
#define KEY_ALL_SERVICES STR("nodes")
/* The key of a comparison of all balancers with their Services. */
#define KEY_DRIFT STR("drift")

METRIC_FAMILY(pass_seconds, METRIC_HISTOGRAM, "service_controller_nodesync_latency_seconds",
              "[ALPHA] Duration of a pass that queues all Services because nodes changed.",
              .buckets = (const double[]){ 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096,
                                           8192, 16384 },
              .n_buckets = 15);

METRIC_FAMILY(
	failing, METRIC_GAUGE, "ccmd_services_failing",
	"[ALPHA] Services whose load balancer is not as they ask for, because the last attempt "
	"failed or the cloud has not finished.");
METRIC_FAMILY(
	failing_age, METRIC_GAUGE, "ccmd_services_failing_longest_seconds",
	"[ALPHA] For how long all attempts for one of these Services have failed; the longest "
	"time; 0: there is none.");

/* ---- records ---- */

static void
record_free(void *record)
{
	struct service_record *r = record;

	object_unref(r->vanished);
	object_unref(r->service_with_balancer);
	buf_fini(&r->repairs);
	free(r->written_version);
	free(r->failure);
	free(r);
}

static bool
is_same_service(const struct object *a, const struct object *b)
{
	return a && b && str_eq(a->uid, b->uid);
}

/* With the lock held. Several Services of one name may vanish before a worker gets the key. The
 * last state of the Service that has the balancer decides whether the balancer is removed. While no
 * balancer is recorded yet, because a worker is still creating it, the first vanished Service
 * counts. */
static void
remember_removed_service(struct service_record *r, const struct object *old)
{
	if (r->vanished && !is_same_service(r->service_with_balancer, old))
		return;
	object_unref(r->vanished);
	r->vanished = object_ref((struct object *)(uintptr_t)old);
}

/* This run has not done its work: the next one gets everything that this one was given. */
static void
record_put_back(struct service_controller *c, struct service_record *r, unsigned reasons,
                struct object *vanished)
{
	WITH_LOCK(&c->mu);

	r->reasons |= reasons;
	if (vanished)
		remember_removed_service(r, vanished);
}

/* Any thread. */
static void
service_queue(struct service_controller *c, struct str key, unsigned reasons, int64_t delay_ns)
{
	struct service_record *r;

	mutex_lock(&c->mu);
	r = map_add(&c->records, key, sizeof(*r));
	if (!r->repairs.ptr) /* it is new */
		r->repairs = BUF_INIT(LIMIT_EVENT_MESSAGE / 2);
	r->reasons |= reasons;
	mutex_unlock(&c->mu);
	if (delay_ns > 0)
		queue_add_after(c->queue, key, delay_ns);
	else
		queue_add(c->queue, key);
}

/* ---- what leads to work ---- */

/* Does the Service have a balancer of this controller, or does it need one? */
static bool
service_is_ours(const struct service *s)
{
	return service_wants_balancer(s) || service_needs_cleanup(s);
}

static bool
needs_sync(const struct service *old, const struct service *current)
{
	/* A Service gets another class while it still has our finalizer. Its type was another one
	 * in between, which may have been too short, or before our time, for the removal of its
	 * balancer. */
	if (current->has_class && current->has_finalizer && !(old && old->has_class))
		return true;
	if (!old)
		return service_is_ours(current);
	return service_needs_update(old, current) || service_needs_cleanup(current);
}

/* Has another client removed our finalizer? It is added again, because without it the balancer
 * would be left behind when the Service is deleted. */
static bool
has_lost_finalizer(const struct service *old, const struct service *current)
{
	return old->has_finalizer && !current->has_finalizer && !current->is_deleting &&
	       service_wants_balancer(current);
}

static void
service_on_change(void *arg, const struct object *object_old, const struct object *object)
{
	struct service_controller *c = arg;
	const struct service *old = (const struct service *)object_old,
			     *current = (const struct service *)object;
	struct service_record *r;

	/* A Service has left the store. Without a record it had no balancer. */
	if (old && !is_same_service(object_old, object)) {
		mutex_lock(&c->mu);
		r = map_get(&c->records, object_old->key);
		if (r)
			remember_removed_service(r, object_old);
		mutex_unlock(&c->mu);
		if (r)
			queue_add(c->queue, object_old->key);
	}
	if (!current)
		return;
	if (needs_sync(old, current)) {
		service_queue(c, object->key, REASON_FULL, 0);
	} else if (old && has_lost_finalizer(old, current)) {
		/* a client that keeps doing that must not cause a request to the cloud each time */
		service_queue(c, object->key, REASON_FULL,
		              paces_reserve(c->env->paces, object->uid, "finalizer"));
	} else if (!service_is_ours(current)) {
		mutex_lock(&c->mu);
		r = map_get(&c->records, object->key);
		mutex_unlock(&c->mu);
		/* our finalizer was removed: a worker drops the record */
		if (r)
			queue_add(c->queue, object->key);
	}
}

static void
service_on_node(void *arg, const struct object *object_old, const struct object *object_new)
{
	struct service_controller *c = arg;
	const struct node *old = (const struct node *)object_old,
			  *new = (const struct node *)object_new;
	int64_t wait_ns = 0;

	targets_invalidate(c->targets);
	if (!target_change_matters(old, new, c->ops))
		return;
	/* A node that changes back and forth must not change the targets of all balancers every
	 * second. */
	if (old && new)
		wait_ns = paces_reserve(c->env->paces, object_new->uid, "targets");
	if (wait_ns > 0)
		queue_add_after(c->queue, KEY_ALL_SERVICES, wait_ns);
	else
		queue_add(c->queue, KEY_ALL_SERVICES);
}

/* ---- changed nodes ---- */

/* Does the Service have, or get, a balancer with targets? */
static bool
uses_targets(const struct service *s)
{
	return service_wants_balancer(s) && !s->is_deleting;
}

static void
service_queue_all(struct service_controller *c, bool (*is_affected)(const struct service *),
                  unsigned reason)
{
	CLEANUP(store_list_free) struct store_list all = store_list(c->env->services);

	for (size_t i = 0; i < all.n; i++) {
		if (is_affected(service_of(all.objects[i])))
			service_queue(c, all.objects[i]->key, reason, 0);
	}
}

/* The first pass is immediate, later ones come at most once a second. */
static void
service_queue_after_node_change(struct service_controller *c)
{
	int64_t begun_ns = clock_mono(c->env->clock), wait_ns;

	mutex_lock(&c->mu);
	wait_ns = c->next_pass_ns - begun_ns;
	if (wait_ns <= 0)
		c->next_pass_ns = begun_ns + pass_pause_ns;
	mutex_unlock(&c->mu);
	if (wait_ns > 0) {
		queue_add_after(c->queue, KEY_ALL_SERVICES, wait_ns);
		return;
	}
	service_queue_all(c, uses_targets, REASON_NODES);
	metric_observe(metric_of(&pass_seconds),
	               clock_seconds(clock_mono(c->env->clock) - begun_ns));
}

/* ---- balancers that other clients changed ---- */

/* Queues the next comparison, unless it is switched off. */
static void
service_plan_drift(struct service_controller *c)
{
	if (c->ops->finds_drift && c->config.drift_period_ns > 0 && !c->env->dry)
		queue_add_after(c->queue, KEY_DRIFT, c->config.drift_period_ns);
}

/* One reading of all balancers serves all Services. A failed one is retried after pauses that grow,
 * up to the queue's longest one or the period. */
static void
service_compare_all(struct service_controller *c, struct call *call)
{
	struct error err;
	int64_t delay_ns;

	if (service_adopt(c, call, &err)) {
		queue_forget(c->queue, KEY_DRIFT);
		service_plan_drift(c);
		service_queue_all(c, uses_targets, REASON_DRIFT);
		return;
	}
	if (err.code == ERR_CANCELLED)
		return;
	if (err.is_outage) {
		queue_park(c->queue, KEY_DRIFT, failure_outage_ns(&err));
		return;
	}
	delay_ns = err.retry_after_ms * NS_PER_MS;
	if (delay_ns > 0)
		queue_add_after(c->queue, KEY_DRIFT, delay_ns);
	else
		delay_ns = queue_add_failed(c->queue, KEY_DRIFT, c->config.drift_period_ns);
	if (service_is_failure(&err))
		log_warn("load balancers are not compared with their services, will retry",
		         LOG_ERR(&err), LOG_DURATION("in", delay_ns));
}

/* ---- one Service ---- */

/* Postpones a run that comes too early, and returns true. (The queue must be given the time again:
 * of several times for one key it keeps only the earliest.) */
static bool
service_postpone(struct service_run *run, struct object *vanished)
{
	const struct service_record *r = run->record;
	int64_t now_ns = clock_mono(run->call->clock), due_ns = now_ns;
	bool is_retry = (run->reasons & REASON_RETRY) && !(run->reasons & REASON_FULL);

	if (r->next_update_ns > now_ns && run->reasons == REASON_NODES) {
		/* targets were updated a moment ago */
		due_ns = r->next_update_ns;
	} else if (r->retry_ns > now_ns && is_retry &&
	           (r->is_retry_fixed || !service_sync_has_new_targets(run))) {
		/* The last run failed, and nothing happened since that another attempt could profit
		 * from: the Service is unchanged, and so are its targets. */
		due_ns = r->retry_ns;
	}
	if (due_ns == now_ns)
		return false;
	record_put_back(run->c, run->record, run->reasons, vanished);
	queue_add_after(run->c->queue, r->key, due_ns - now_ns);
	return true;
}

static bool
service_reconcile(struct service_controller *c, struct call *call, struct str key,
                  struct error *err)
{
	CLEANUP(object_unrefp) struct object *object = NULL;
	CLEANUP(object_unrefp) struct object *vanished = NULL;
	struct service_run run = { .c = c, .call = call };
	bool has_former, is_needed, is_done = false, is_synced = true;
	struct service_record *r;

	/* Reasons are taken before the Service is read from the store: a change in between is a
	 * reason for the next run. */
	mutex_lock(&c->mu);
	r = run.record = map_get(&c->records, key);
	if (r) {
		run.reasons = r->reasons;
		r->reasons = 0;
		vanished = TAKE(r->vanished);
	}
	mutex_unlock(&c->mu);
	if (!r)
		return true; /* a late retry of work that was done meanwhile */
	object = store_get(c->env->services, key);
	run.service = object ? service_of(object) : NULL;
	has_former = r->service_with_balancer && !is_same_service(r->service_with_balancer, object);
	/* The vanished Service had no balancer. If kept, it would be mistaken for the last
	 * state of the Service that has its name now. */
	if (!has_former)
		object_unref(TAKE(vanished));

	/* Another Service has the name of the one whose balancer we have. What happens to that
	 * balancer depends on the last state of the former Service. The store calls
	 * service_on_change() with it shortly after replacing the Service, and that queues the key
	 * again. */
	if (object && has_former && !vanished) {
		record_put_back(c, r, run.reasons, NULL);
		return true;
	}
	if (object && service_postpone(&run, vanished))
		return true;

	/* A Service that vanished comes first, then the one that has its name now. */
	if (vanished && has_former)
		is_synced = service_sync_former(&run, service_of(vanished), err);
	if (is_synced && object)
		is_synced = service_sync(&run, &is_done, err);
	if (!is_synced) {
		record_put_back(c, r, REASON_RETRY, vanished);
		return false;
	}
	queue_forget(c->queue, key);
	r->wait = (struct lb_wait){ 0 };
	if (object)
		r->n_conflicts = 0;

	/* The record is dropped unless there is a new reason meanwhile. A record that knows of a
	 * balancer stays: the store removes a Service a moment before it calls
	 * service_on_change(), which needs the record. */
	is_needed = object && (!is_done || service_is_stale(&run));
	WITH_LOCK(&c->mu);
	free(TAKE(r->failure));
	if (!is_needed && r->reasons == 0 && !r->vanished && !r->service_with_balancer)
		record_free(map_remove(&c->records, key));
	return true;
}

/* ---- workers ---- */

/* Stores the failure, and when the next attempt is due: a new reason need not wait for the end of
 * an outage, because during it a call fails without a request. */
static void
record_note_failure(struct service_controller *c, struct str key, const struct error *err,
                    int64_t delay_ns)
{
	struct service_record *r;
	WITH_LOCK(&c->mu);

	r = map_get(&c->records, key);
	if (!r)
		return;
	r->failed_mono_ns = clock_mono(c->env->clock);
	if (!r->failure)
		r->failing_mono_ns = r->failed_mono_ns;
	r->retry_ns = clock_deadline(r->failed_mono_ns, err->is_outage ? 0 : delay_ns);
	r->is_retry_fixed = !err->is_outage && !service_is_failure(err) && err->retry_after_ms > 0;
	free(r->failure);
	r->failure = xstrndup(err->msg, strlen(err->msg));
}

/* The only place in this controller that turns an error code into behaviour (docs/errors.md). */
static void
service_handle_failure(struct service_controller *c, struct str key, const struct error *err)
{
	CLEANUP(object_unrefp) struct object *object = store_get(c->env->services, key);
	bool is_removal = !object || service_needs_cleanup(service_of(object));
	int64_t delay_ns;

	if (err->code == ERR_CANCELLED)
		return;
	delay_ns = failure_requeue(c->queue, key, err,
	                           is_removal ? cleanup_max_ns : failure_max_ns(err->code));
	record_note_failure(c, key, err, delay_ns);
	if (err->is_outage || err->code == ERR_PENDING)
		return; /* an outage is in the log once */
	if (err->code == ERR_THROTTLED)
		log_warn("service waits for the cloud's rate limit", LOG_STR("service", key),
		         LOG_ERR(err), LOG_DURATION("in", delay_ns));
	else
		log_error("processing service failed, will retry", LOG_STR("service", key),
		          LOG_ERR(err), LOG_DURATION("in", delay_ns));
}

void
service_work_on(struct service_controller *c, struct arena *arena, struct str key)
{
	struct call call = env_call(c->env, arena, WORK_TIMEOUT_S * NS_PER_SEC);
	struct error err;

	call.dry = dry_item_find(c->env, c->env->services, "service", key, arena);
	if (str_eq(key, KEY_ALL_SERVICES)) {
		service_queue_after_node_change(c);
	} else if (str_eq(key, KEY_DRIFT)) {
		service_compare_all(c, &call);
	} else if (!service_reconcile(c, &call, key, &err)) {
		dry_failed(call.dry, &err);
		service_handle_failure(c, key, &err);
	}
	arena_reset(arena);
	queue_done(c->queue, key);
}

static void *
service_worker(void *arg)
{
	struct service_controller *c = arg;
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct call call = env_call(c->env, &arena, CLOCK_FOREVER);
	unsigned n_busy = 0;
	struct error err;
	struct str key;

	if (!store_wait_synced(c->env->nodes, &call, &err) ||
	    !store_wait_synced(c->env->services, &call, &err))
		return NULL;
	if (service_begin(c, &call))
		service_plan_drift(c);
	arena_reset(&arena);
	while (queue_get_trimming(c->queue, &n_busy, &key))
		service_work_on(c, &arena, key);
	return NULL;
}

/* ---- life cycle ---- */

static void
set_failing(void *controller)
{
	struct service_controller *c = controller;
	int64_t now_ns = clock_mono(c->env->clock), longest_ns = 0;
	struct str key;
	void *value;
	size_t n = 0;
	WITH_LOCK(&c->mu);

	for (size_t pos = 0; map_next(&c->records, &pos, &key, &value);) {
		const struct service_record *r = value;

		if (!r->failure)
			continue;
		n++;
		longest_ns = clock_later(longest_ns, now_ns - r->failing_mono_ns);
	}
	metric_set(metric_of(&failing), (double)n);
	metric_set(metric_of(&failing_age), clock_seconds(longest_ns));
}

struct service_controller *
service_controller_new(struct controller_env *env, const struct service_controller_config *config)
{
	struct service_controller *c = xcalloc(1, sizeof(*c));

	*c = (struct service_controller){
		.env = env,
		.config = *config,
		.ops = env->cloud->balancers,
		.records = MAP_OF(struct service_record, key),
		.queue = queue_new(&(struct queue_config){ "service", failure_base_ns,
		                                           FAILURE_MAX_NS, env->clock }),
		.targets = targets_new(env->nodes),
		.workers = xcalloc(config->n_workers, sizeof(*c->workers)),
	};
	mutex_init(&c->mu);
	cond_init(&c->adopted);
	failure_pause_init(&c->adopt_pause);
	store_add_handler(env->services, (struct store_handler){ service_on_change, c });
	store_add_handler(env->nodes, (struct store_handler){ service_on_node, c });
	for (unsigned i = 0; i < config->n_workers; i++)
		thread_start(&c->workers[i], "service", service_worker, c);
	metrics_on_scrape(set_failing, c);
	return c;
}

bool
service_controller_has_adopted(struct service_controller *c)
{
	WITH_LOCK(&c->mu);

	return c->adoption == ADOPT_DONE;
}

void
service_controller_wake(struct service_controller *c, struct str key)
{
	CLEANUP(object_unrefp)
	struct object *object = key.len > 0 ? store_get(c->env->services, key) : NULL;

	if (object && service_is_ours(service_of(object)))
		service_queue(c, key, REASON_FULL, 0);
	else if (key.len == 0)
		service_queue_all(c, service_is_ours, REASON_FULL);
}

void
service_controller_release(struct service_controller *c)
{
	queue_release(c->queue);
	failure_pause_release(&c->adopt_pause);
}

struct queue *
service_controller_queue(struct service_controller *c)
{
	return c->queue;
}

bool
service_controller_remembers(struct service_controller *c, struct arena *arena, struct str key,
                             struct service_memory *ret)
{
	const struct service_record *r;
	WITH_LOCK(&c->mu);

	r = map_get(&c->records, key);
	if (!r)
		return false;
	*ret = (struct service_memory){ .has_balancer = r->service_with_balancer != NULL,
		                        .error = STR_EMPTY };
	if (r->failure) {
		ret->error = arena_str(arena, str_c(r->failure));
		ret->failed_ago_ns = clock_mono(c->env->clock) - r->failed_mono_ns;
	}
	return true;
}

void
service_controller_free(struct service_controller *c)
{
	if (!c)
		return;
	metrics_off_scrape(set_failing, c);
	for (unsigned i = 0; i < c->config.n_workers; i++)
		thread_join(c->workers[i]);
	queue_free(c->queue);
	map_free_all(&c->records, record_free);
	targets_free(c->targets);
	failure_pause_fini(&c->adopt_pause);
	mutex_destroy(&c->mu);
	cond_destroy(&c->adopted);
	free(c->workers);
	free(c);
}
