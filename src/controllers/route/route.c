/* controllers/route/route.c: the loop of the route controller, and what one run does; see route.h.
 *
 * A run lists the routes of the cloud, decides which pod CIDRs are to be routed (route_claims.c),
 * plans the differences (route_plan.h), holds back removals that may be a mistake
 * (route_removals.c), and lets a few threads create and remove routes, because a cloud may take
 * seconds for each. Failures are retried soon; a table without failures is checked rarely, because
 * only this program and people at the console of the cloud change it. The conditions of nodes are
 * written after a run, and whenever another client has changed them, from the results of the last
 * run (route_conditions.c); that needs no request to the cloud.
 */
#include "base/alloc.h"
#include "base/backoff.h"
#include "base/event_kind.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "controllers/event_dedup.h"
#include "controllers/node_ref.h"
#include "controllers/writes.h"
#include "controllers/pace.h"
#include "controllers/route/route_internal.h"

enum {
	RUN_TIMEOUT_S = 300,
};

/* Changes of nodes within coalesce_ns are handled by one run. Between the starts of two runs there
 * is at least run_pause_ns. */
static const int64_t coalesce_ns = 200 * NS_PER_MS;
static const int64_t run_pause_ns = NS_PER_SEC;

METRIC_FAMILY(
	syncs_total, METRIC_COUNTER, "route_controller_route_sync_total",
	"[ALPHA] Runs of the route controller. outcome: error if something failed, changed if a route was created or removed, else noop. trigger: node_change, or periodic.",
	.labels = { "outcome", "trigger" });

EVENT_KIND(failed_event, ROUTE_COMPONENT, "FailedToCreateRoute", true, "Node",
           "The route to the pods of the node could not be created. This is retried.");

struct route_controller {
	struct controller_env *env;
	struct route_controller_config config;
	const struct route_ops *ops;
	pthread_t thread;

	pthread_mutex_t mu;
	pthread_cond_t woken;
	_Atomic bool is_working;     /* a run is under way */
	bool is_woken;               /* mu; a run is due now */
	bool is_settled;             /* mu; the last run has ended and left nothing to retry */
	bool has_changed_conditions; /* mu; the condition of a node may have to be written */
	int64_t paced_mono_ns;       /* mu; when a run is due for nodes whose changes are paced */
	/* mu; how the last run ended */
	struct last_run {
		bool is_known, is_held_for_nodes;
		char *error; /* owned; NULL: nothing failed */
		unsigned n_failures;
		size_t n_held;
		int64_t ended_mono_ns, due_mono_ns, held_mono_ns;
	} last_run;

	struct route_removals removals;

	/* the rest belongs to the thread */
	struct route_conditions conditions;
	unsigned n_failures; /* runs that failed, in a row */
};

/* What one run works on. */
struct route_run {
	struct route_controller *c;
	struct call *call;
	struct store_list all;
	struct route_node *nodes; /* the nodes of all, index by index */
	struct route_list routes;
	struct route_plan plan;
	struct route_hold hold;
	_Atomic bool has_changed; /* a route was created or removed */

	pthread_mutex_t mu;
	bool *has_failed;       /* mu; for each node: one of its routes is missing */
	bool is_clean;          /* mu: nothing failed */
	bool is_refused;        /* mu: the cloud refused a creation */
	struct error err;       /* mu: the last failure, unless is_clean */
	int64_t retry_after_ns; /* mu: the longest time that the cloud asked to wait; 0: none */
	/* mu: the longest permitted pause: the smallest of those of all failures */
	int64_t failure_max_ns;
};

/* ---- creating and removing routes ---- */

/* For a failure that is not about one node. */
#define NO_NODE SIZE_MAX

/* Is this error worth an event or a line in the log? Waiting for the cloud is not, nor is a
 * cancelled call. */
static bool
is_reportable(const struct error *err)
{
	return err->code != ERR_CANCELLED && err->code != ERR_PENDING;
}

static void
route_note_failure(struct route_run *r, size_t node, const struct error *err)
{
	WITH_LOCK(&r->mu);

	r->is_clean = false;
	r->err = *err;
	r->retry_after_ns = clock_later(r->retry_after_ns, err->retry_after_ms * NS_PER_MS);
	r->failure_max_ns = clock_earlier(r->failure_max_ns, failure_max_ns(err->code));
	if (node == NO_NODE)
		return;
	r->has_failed[node] = true;
	r->is_refused |= is_reportable(err);
}

/* A provider does not create or remove a route in a dry run, so the requests that it would send are
 * not known: one change stands for them. */
static void
route_note_change(const struct call *call, enum dry_verb verb, struct str cidr, struct str target)
{
	bool is_new = verb == DRY_CREATE;
	struct dry_field field = { STR("target"), is_new ? STR_EMPTY : target,
		                   is_new ? target : STR_EMPTY };

	dry_note(call->dry, &(struct dry_change){
				    .verb = verb,
				    .what = "route",
				    .name = cidr,
				    .request = is_new ? STR("create route") : STR("remove route"),
				    .is_cloud = true,
				    .fields = &field,
				    .n_fields = 1,
			    });
}

static void
report_not_created(const struct route_run *r, const struct node *node, struct str cidr,
                   int64_t took_ns, const struct error *err)
{
	CLEANUP(buf_fini) struct buf message = BUF_INIT(LIMIT_EVENT_MESSAGE);

	buf_addf(&message,
	         "Could not create route %" STR_FMT " %" STR_FMT " for node %" STR_FMT " after ",
	         STR_ARG(node->object.uid), STR_ARG(cidr), STR_ARG(node_name(node)));
	clock_format_duration(&message, took_ns);
	buf_addf(&message, ": %s", err->msg);
	node_event(r->c->env->recorder, ROUTE_COMPONENT, node, EVENT_WARNING, failed_event.reason,
	           buf_str(&message));
	if (!err->is_outage) /* which is in the log already */
		log_error("route not created, will retry", LOG_STR("node", node_name(node)),
		          LOG_STR("cidr", cidr), LOG_ERR(err));
}

static void
route_create(struct route_run *r, struct call *call, const struct route_need *need)
{
	const struct node *node = node_of(r->all.objects[need->node]);
	const struct route_ops *ops = r->c->ops;
	struct cloud *cloud = r->c->env->cloud;
	struct node_ref ref = node_ref_of(node);
	int64_t begun_ns = clock_mono(call->clock);
	struct error err;

	call->dry = dry_item_new(r->c->env, "route", need->cidr, node->object.resource_version,
	                         call->arena);
	if (call->dry) {
		if (!ops->check_create || ops->check_create(cloud, call, &ref, need->cidr, &err)) {
			route_note_change(call, DRY_CREATE, need->cidr, node_name(node));
			return;
		}
		route_note_failure(r, need->node, &err);
		dry_failed(call->dry, &err);
		return;
	}
	if (ops->create(cloud, call, &ref, node->object.uid, need->cidr, &err)) {
		r->has_changed = true;
		log_info("route created", LOG_STR("node", node_name(node)),
		         LOG_STR("cidr", need->cidr));
		return;
	}
	route_note_failure(r, need->node, &err);
	if (is_reportable(&err))
		report_not_created(r, node, need->cidr, clock_mono(call->clock) - begun_ns, &err);
}

static void
route_remove(struct route_run *r, struct call *call, size_t i)
{
	const struct route *route = &r->routes.routes[r->plan.remove[i]];
	struct error err;

	call->dry = dry_item_new(r->c->env, "route", route->destination_cidr, STR_EMPTY,
	                         call->arena);
	if (call->dry) {
		/* not noted in removals: the route stays, and every run would count it again */
		route_note_change(call, DRY_DELETE, route->destination_cidr,
		                  route->target_node.len > 0 ? route->target_node : route->name);
		return;
	}
	if (r->c->ops->remove(r->c->env->cloud, call, route, &err)) {
		r->has_changed = true;
		route_removals_note(&r->c->removals, &r->plan, i);
		log_info("route removed", LOG_STR("node", route->target_node),
		         LOG_STR("cidr", route->destination_cidr));
		return;
	}
	route_removals_note_unconfirmed(&r->c->removals, call->arena, r->routes.routes, &r->plan,
	                                i);
	route_note_failure(r, NO_NODE, &err);
	dry_failed(call->dry, &err);
	if (is_reportable(&err) && !err.is_outage)
		log_error("route not removed, will retry", LOG_STR("node", route->target_node),
		          LOG_STR("cidr", route->destination_cidr), LOG_ERR(&err));
}

/* The i-th change of the plan: the removals, then the creations. */
static void
route_apply_change(void *arg, struct call *call, size_t i)
{
	struct route_run *r = arg;

	if (i < r->plan.n_remove)
		route_remove(r, call, i);
	else
		route_create(r, call, &r->plan.create[i - r->plan.n_remove]);
}

/* ---- conditions ---- */

/* The condition that a node is to have after this run. If none of its pod CIDRs is ours to route,
 * another component routes them, and writes the condition. Whether a frozen node has its routes is
 * not known. */
static enum node_network
wanted_condition(const struct route_run *r, size_t i)
{
	const struct node *node = node_of(r->all.objects[i]);

	if (r->nodes[i].is_frozen)
		return NODE_NETWORK_OTHER;
	if (r->has_failed[i])
		return NODE_NETWORK_MISSING;
	if (r->plan.conditions[i] == ROUTE_CONDITION_UNTOUCHED ||
	    (node->n_pod_cidrs > 0 && r->nodes[i].n_pod_cidrs == 0))
		return NODE_NETWORK_OTHER;
	return r->plan.conditions[i] == ROUTE_CONDITION_NOT_CREATED ? NODE_NETWORK_MISSING
	                                                            : NODE_NETWORK_ROUTED;
}

static void
route_note_held(const struct route_run *r)
{
	bool is_forever = r->hold.due_mono_ns == CLOCK_FOREVER;
	int64_t wait_ns = r->hold.due_mono_ns - clock_mono(r->c->env->clock);
	struct dry_hold held = {
		.wait_ns = is_forever ? CLOCK_FOREVER : wait_ns,
		.verdict = is_forever ? "no_nodes" : "too_many",
		.condition = is_forever ? "the cluster shows no nodes at all"
		                        : "it still leads to no node",
	};

	for (size_t i = 0; i < r->hold.n; i++) {
		const struct dry_item *item = dry_item_new(r->c->env, "route",
		                                           r->hold.routes[i]->destination_cidr,
		                                           STR_EMPTY, r->call->arena);

		if (item)
			dry_held(item, &held);
	}
}

/* ---- runs ---- */

static bool
route_plan_and_apply(struct route_run *r, struct error *err)
{
	struct route_controller *c = r->c;
	struct arena *arena = r->call->arena;
	struct route_plan *plan = &r->plan;
	struct route_decision decision;
	struct route_result *results;
	size_t n_first;

	if (!c->ops->list(c->env->cloud, r->call, &r->routes, err))
		return err_wrap(err, "error listing routes");
	decision = route_decide(c->env, &c->config, arena, &r->all, &r->routes);
	r->nodes = decision.nodes;
	r->has_failed = decision.has_lost;
	r->plan = decision.plan;
	r->hold = route_removals_hold(&c->removals, arena, r->routes.routes, r->routes.n, plan,
	                              r->all.n);
	route_note_held(r);

	n_first = plan->removes_first ? plan->n_remove : 0;
	parallel_run("route", r->call, 0, n_first, route_apply_change, r);
	parallel_run("route", r->call, n_first, plan->n_remove + plan->n_create, route_apply_change,
	             r);
	route_removals_report(&c->removals, &r->hold, plan->n_ours, r->is_refused);

	/* When cancelled, some creations were not begun, so nothing is known about their nodes. */
	if (cancel_is_fired(r->call->cancel))
		return true;
	results = arena_calloc(arena, r->all.n, sizeof(*results));
	for (size_t i = 0; i < r->all.n; i++)
		results[i] = (struct route_result){ node_of(r->all.objects[i]),
			                            wanted_condition(r, i) };
	route_conditions_set(&c->conditions, results, r->all.n);
	return true;
}

static struct call
call_for_run(const struct route_controller *c, struct arena *arena)
{
	struct call call = env_call(c->env, arena, RUN_TIMEOUT_S * NS_PER_SEC);

	call.dry = dry_item_new(c->env, "route", STR_EMPTY, STR_EMPTY, arena);
	return call;
}

/* Returns the time from the start of this run to the start of the next one, unless the loop is
 * woken before. The pause grows while runs fail, for example because the table is full. */
static int64_t
route_next_delay_ns(struct route_controller *c, const struct route_run *r)
{
	if (r->is_clean) {
		c->n_failures = 0;
		return clock_later(c->ops->idle_period_ns, c->config.period_ns);
	}
	if (r->retry_after_ns > 0)
		return r->retry_after_ns;
	return backoff_spread_ns(c->config.period_ns, c->n_failures++, r->failure_max_ns);
}

static void
route_note_end(struct route_controller *c, const struct route_run *r, int64_t due_mono_ns)
{
	WITH_LOCK(&c->mu);

	c->is_settled = r->is_clean;
	free(c->last_run.error);
	c->last_run = (struct last_run){
		.is_known = true,
		.error = r->is_clean ? NULL : xstrndup(r->err.msg, strlen(r->err.msg)),
		.n_failures = c->n_failures,
		.n_held = r->hold.n,
		.is_held_for_nodes = r->hold.why == ROUTE_REMOVAL_NO_NODES,
		.held_mono_ns = r->hold.due_mono_ns,
		.ended_mono_ns = clock_mono(c->env->clock),
		.due_mono_ns = due_mono_ns,
	};
}

/* Returns when the next run is due (mono). Periods are counted from the start of a run.
 *
 * @param is_woken  the run does not only come because its time has come
 */
static int64_t
route_run_once(struct route_controller *c, struct arena *arena, bool is_woken)
{
	CLEANUP(store_list_free) struct store_list all = store_list(c->env->nodes);
	int64_t begun_ns = clock_mono(c->env->clock), due_ns;
	struct call call = call_for_run(c, arena);
	struct route_run r = { .c = c,
		               .call = &call,
		               .all = all,
		               .hold = { .due_mono_ns = CLOCK_FOREVER },
		               .is_clean = true,
		               .failure_max_ns = FAILURE_MAX_NS };
	const char *outcome = "noop";
	struct error err;

	mutex_lock(&c->mu);
	c->is_settled = false;
	mutex_unlock(&c->mu);
	mutex_init(&r.mu);
	if (!route_plan_and_apply(&r, &err)) {
		route_note_failure(&r, NO_NODE, &err);
		dry_failed(call.dry, &err);
		if (is_reportable(&err) && !err.is_outage)
			log_error("routes not reconciled, will retry", LOG_ERR(&err));
	}
	mutex_destroy(&r.mu);
	if (!r.is_clean)
		outcome = "error";
	else if (r.has_changed)
		outcome = "changed";
	metric_inc(metric_of(&syncs_total, outcome, is_woken ? "node_change" : "periodic"));
	due_ns = clock_earlier(clock_deadline(begun_ns, route_next_delay_ns(c, &r)),
	                       r.hold.due_mono_ns);
	route_note_end(c, &r, due_ns);
	return due_ns;
}

/* ---- the loop ---- */

/* Waits until the deadline (mono), or until there is something to do. False: cancelled. */
static bool
route_wait(struct route_controller *c, int64_t deadline_ns)
{
	WITH_LOCK(&c->mu);

	while (!c->is_woken && !c->has_changed_conditions && !cancel_is_fired(c->env->cancel)) {
		int64_t due_ns = clock_earlier(c->paced_mono_ns, deadline_ns);

		if (clock_mono(c->env->clock) >= due_ns ||
		    !clock_wait(c->env->clock, &c->woken, &c->mu, due_ns))
			break;
	}
	return !cancel_is_fired(c->env->cancel);
}

/* Waits for a moment, so that changes within a short time share one run; later changes are for the
 * next run. *ret_is_woken: a run is wanted now, even if its time has not come. False: cancelled. */
static bool
route_gather_changes(struct route_controller *c, int64_t not_before_ns, bool *ret_is_woken)
{
	int64_t pause_ns = not_before_ns - clock_mono(c->env->clock);
	struct error err;

	if (!cancel_sleep(c->env->cancel, c->env->clock, clock_later(pause_ns, coalesce_ns), &err))
		return false;
	WITH_LOCK(&c->mu);
	*ret_is_woken = c->is_woken || clock_mono(c->env->clock) >= c->paced_mono_ns;
	if (*ret_is_woken)
		c->paced_mono_ns = CLOCK_FOREVER;
	c->is_woken = c->has_changed_conditions = false;
	return true;
}

/* Conditions are written in each turn, but a turn does not need a run, and so no request to the
 * cloud: often just another client has changed a condition. */
static void *
route_thread(void *arg)
{
	struct route_controller *c = arg;
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct call call = env_call(c->env, &arena, CLOCK_FOREVER);
	int64_t begun_ns, run_due_ns, conditions_due_ns;
	bool is_woken, is_running;
	struct error err;
	WITH_WAKE(c->env->cancel, &c->mu, &c->woken);

	is_running = store_wait_synced(c->env->nodes, &call, &err);
	begun_ns = run_due_ns = clock_mono(c->env->clock) - run_pause_ns;
	while (is_running && route_gather_changes(c, begun_ns + run_pause_ns, &is_woken)) {
		begun_ns = clock_mono(c->env->clock);
		c->is_working = true;
		if (is_woken || begun_ns >= run_due_ns)
			run_due_ns = route_run_once(c, &arena, is_woken);
		call = call_for_run(c, &arena);
		conditions_due_ns = route_conditions_write(&c->conditions, &call);
		settling_note(c->env->settling, SETTLING_ROUTES);
		c->is_working = false;
		arena_fini(&arena);
		is_running = route_wait(c, clock_earlier(run_due_ns, conditions_due_ns));
	}
	return NULL;
}

/* ---- what leads to a run ---- */

/* A run that is under way may still fail because of a request that it sent during the outage. Such
 * a run is not settled, so another one follows. */
void
route_controller_wake(struct route_controller *c, bool is_outage_over)
{
	WITH_LOCK(&c->mu);

	if (is_outage_over && c->is_settled)
		return;
	c->is_woken = true;
	cond_signal(&c->woken);
}

/* Each run costs requests to the cloud, so a node that changes back and forth must not cause runs
 * without limit. */
static void
route_wake_paced(struct route_controller *c, const struct node *node)
{
	int64_t wait_ns = paces_reserve(c->env->paces, node->object.uid, "route");
	int64_t due_ns = clock_deadline(clock_mono(c->env->clock), wait_ns);
	WITH_LOCK(&c->mu);

	if (wait_ns == 0)
		c->is_woken = true;
	else
		c->paced_mono_ns = clock_earlier(c->paced_mono_ns, due_ns);
	cond_signal(&c->woken);
}

/* Do the routes to this node need another target or other destinations? */
static bool
has_new_target(const struct node *old, const struct node *current)
{
	return !object_texts_equal(old->pod_cidrs, old->n_pod_cidrs, current->pod_cidrs,
	                           current->n_pod_cidrs) ||
	       !node_addresses_equal(old, current) ||
	       !str_eq(node_provider_id(old), node_provider_id(current));
}

static void
route_on_node(void *arg, const struct object *object_old, const struct object *object)
{
	struct route_controller *c = arg;
	const struct node *old = (const struct node *)object_old,
			  *current = (const struct node *)object;

	if (!current) {
		own_writes_forget(c->env->own_writes, node_name(old));
		route_removals_expect(&c->removals, old);
	} else {
		route_removals_claim(&c->removals, current);
	}
	if (!old || !current || !str_eq(object_old->uid, object->uid))
		route_controller_wake(c, /*is_outage_over=*/false);
	else if (has_new_target(old, current))
		route_wake_paced(c, current);
	if (!old || !current)
		return;
	if (old->network != current->network || (node_is_new(old) && !node_is_new(current))) {
		WITH_LOCK(&c->mu);
		c->has_changed_conditions = true;
		cond_signal(&c->woken);
	}
}

/* ---- life cycle ---- */

struct route_controller *
route_controller_new(struct controller_env *env, const struct route_controller_config *config)
{
	struct route_controller *c = xcalloc(1, sizeof(*c));

	*c = (struct route_controller){ .env = env,
		                        .config = *config,
		                        .ops = env->cloud->routes,
		                        .paced_mono_ns = CLOCK_FOREVER,
		                        .conditions.env = env };
	route_removals_init(&c->removals, env);
	mutex_init(&c->mu);
	cond_init(&c->woken);
	store_add_handler(env->nodes, (struct store_handler){ route_on_node, c });
	thread_start(&c->thread, "routes", route_thread, c);
	return c;
}

bool
route_controller_is_working(const struct route_controller *c)
{
	return c->is_working;
}

struct route_outcome
route_controller_outcome(struct route_controller *c, struct arena *arena)
{
	int64_t now_ns = clock_mono(c->env->clock);
	const struct last_run *last = &c->last_run;
	WITH_LOCK(&c->mu);

	return (struct route_outcome){
		.is_known = last->is_known,
		.error = arena_str(arena, str_c(last->error)),
		.n_failures = last->n_failures,
		.n_held = last->n_held,
		.is_held_for_nodes = last->is_held_for_nodes,
		.held_for_ns = clock_left(now_ns, last->held_mono_ns),
		.ended_ago_ns = now_ns - last->ended_mono_ns,
		.next_run_in_ns = clock_left(now_ns, last->due_mono_ns),
	};
}

void
route_controller_free(struct route_controller *c)
{
	if (!c)
		return;
	thread_join(c->thread);
	route_removals_fini(&c->removals);
	free(c->conditions.all);
	free(c->last_run.error);
	cond_destroy(&c->woken);
	mutex_destroy(&c->mu);
	free(c);
}
