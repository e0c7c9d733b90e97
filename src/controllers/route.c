/* controllers/route.c: see route.h.
 *
 * One thread runs the loop; a run lists the cloud's routes, plans (route_plan.h), and lets a few threads of its own make
 * and remove what differs, since a cloud may take seconds for each, and then write conditions. What failed is tried again
 * soon, a settled table is looked at seldom: nobody but us and a person at the cloud's console changes it, and nodes wake
 * us.
 */
#include "controllers/route.h"

#include "base/alloc.h"
#include "base/backoff.h"
#include "base/event_kind.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "controllers/failure.h"
#include "controllers/node_ref.h"
#include "controllers/notices.h"
#include "controllers/own_writes.h"
#include "controllers/route_plan.h"
#include "controllers/running.h"
#include "controllers/writes.h"
#include "kube/patch.h"

#define COMPONENT "route_controller" /* with an underscore, as upstream (framework.md E33) */

enum {
	RUN_TIMEOUT_S = 300,
	N_HELPERS = 8, /* pieces of work at the same time */
};

/* Changes of nodes within this time are one run; runs begin at most so often. */
static const int64_t coalesce_ns = 200 * NS_PER_MS;
static const int64_t run_pause_ns = NS_PER_SEC;

METRIC_FAMILY(syncs_total, METRIC_COUNTER, "route_controller_route_sync_total",
              "[ALPHA] Runs of the route controller.");

EVENT_KIND(failed_event, COMPONENT, "FailedToCreateRoute", true, "Node",
           "The route to a node's pods could not be made; it is tried again.");
EVENT_KIND(not_routed_event, COMPONENT, "PodCIDRNotRouted", true, "Node",
           "The cloud has no routes of the IP family of one of the node's pod CIDRs.");

struct route_controller {
	struct controller_env *env;
	struct route_controller_config config;
	const struct route_ops *ops;
	unsigned families;
	pthread_t thread;

	pthread_mutex_t mu;
	pthread_cond_t woken;
	_Atomic bool is_working; /* a run is under way */
	bool is_woken;           /* mu */
	bool is_settled;         /* mu; the last run left nothing to be tried again */

	unsigned n_failures;    /* the thread's: runs in a row */
	int64_t failure_max_ns; /* likewise: the longest pause after the last of them */
};

/* One run. */
struct run {
	struct route_controller *c;
	struct call *call;
	struct store_list all;
	struct route_node *nodes; /* of all, index by index */
	struct route_list routes;
	struct route_plan plan;
	struct condition *conditions; /* to be written */
	size_t n_conditions;

	pthread_mutex_t mu;
	bool *has_failed;       /* mu; of each node: a creation did */
	bool is_clean;          /* mu: nothing failed */
	int64_t retry_after_ns; /* mu: the longest that the cloud asked to wait; 0: it did not say */
	int64_t failure_max_ns; /* mu: the least of all failures' longest pauses */
};

struct condition {
	const struct node *node;
	enum node_network wanted;
};

/* ---- what there is ---- */

static unsigned
family_bit(struct str cidr)
{
	struct ip_net net;

	if (!ip_net_parse(cidr, &net))
		return 0;
	return ip_family(&net.ip) == IP_V4 ? 1 : 2;
}

/* Pod CIDRs that this cloud cannot route stay out of everything: they must not make a node unusable. */
static void
keep_offered(struct run *r, const struct node *node, struct route_node *ret)
{
	struct str *cidrs = arena_calloc(r->call->arena, node->n_pod_cidrs, sizeof(*cidrs));
	size_t n = 0;

	for (uint32_t i = 0; i < node->n_pod_cidrs; i++) {
		if (family_bit(node->pod_cidrs[i]) & r->c->families)
			cidrs[n++] = node->pod_cidrs[i];
	}
	if (n < node->n_pod_cidrs)
		notices_warn(
			r->c->env->notices, COMPONENT, node, not_routed_event.reason,
			STR("The cloud does not route pod CIDRs of this IP family; they are left to somebody else"));
	ret->pod_cidrs = cidrs;
	ret->n_pod_cidrs = n;
}

static void
collect_nodes(struct run *r)
{
	r->nodes = arena_calloc(r->call->arena, r->all.n, sizeof(r->nodes[0]));
	r->has_failed = arena_calloc(r->call->arena, r->all.n, sizeof(r->has_failed[0]));
	for (size_t i = 0; i < r->all.n; i++) {
		const struct node *node = node_of(r->all.objects[i]);

		r->nodes[i] = (struct route_node){ .name = node_name(node),
			                           .uid = node->object.uid,
			                           .addresses = node->addresses,
			                           .n_addresses = node->n_addresses };
		keep_offered(r, node, &r->nodes[i]);
	}
}

/* ---- making and removing ---- */

#define NO_NODE SIZE_MAX

static void
note_failure(struct run *r, size_t node, const struct error *err)
{
	WITH_LOCK(&r->mu);

	r->is_clean = false;
	if (err->retry_after_ms * NS_PER_MS > r->retry_after_ns)
		r->retry_after_ns = err->retry_after_ms * NS_PER_MS;
	if (failure_max_ns(err->code) < r->failure_max_ns)
		r->failure_max_ns = failure_max_ns(err->code);
	if (node != NO_NODE)
		r->has_failed[node] = true;
}

/* Waiting for the cloud is no failure, and at the end nobody wants to hear. */
static bool
is_worth_telling(const struct error *err)
{
	return err->code != ERR_CANCELLED && err->code != ERR_PENDING;
}

static void
tell_failure(struct run *r, const struct node *node, struct str cidr, int64_t took_ns,
             const struct error *err)
{
	CLEANUP(buf_fini) struct buf message = BUF_INIT(LIMIT_EVENT_MESSAGE);

	buf_addf(&message,
	         "Could not create route %" STR_FMT " %" STR_FMT " for node %" STR_FMT " after ",
	         STR_ARG(node->object.uid), STR_ARG(cidr), STR_ARG(node_name(node)));
	clock_format_duration(&message, took_ns);
	buf_addf(&message, ": %s", err->msg);
	node_event(r->c->env->recorder, COMPONENT, node, EVENT_WARNING, failed_event.reason,
	           buf_str(&message));
	if (err->is_outage)
		return;
	log_error("route not created, will retry", LOG_STR("node", node_name(node)),
	          LOG_STR("cidr", cidr), LOG_ERR(err));
}

static void
create_route(struct run *r, struct call *call, const struct route_need *need)
{
	const struct node *node = node_of(r->all.objects[need->node]);
	struct node_ref ref = node_ref_of(node);
	int64_t begun_ns = clock_mono(call->clock);
	struct error err;

	if (r->c->ops->create(r->c->env->cloud, call, &ref, node->object.uid, need->cidr, &err)) {
		log_info("route created", LOG_STR("node", node_name(node)),
		         LOG_STR("cidr", need->cidr));
		return;
	}
	note_failure(r, need->node, &err);
	if (is_worth_telling(&err))
		tell_failure(r, node, need->cidr, clock_mono(call->clock) - begun_ns, &err);
}

static void
remove_route(struct run *r, struct call *call, const struct route *route)
{
	struct error err;

	if (r->c->ops->remove(r->c->env->cloud, call, route, &err)) {
		log_info("route removed", LOG_STR("node", route->target_node),
		         LOG_STR("cidr", route->destination_cidr));
		return;
	}
	note_failure(r, NO_NODE, &err);
	if (is_worth_telling(&err) && !err.is_outage)
		log_error("route not removed, will retry", LOG_STR("node", route->target_node),
		          LOG_STR("cidr", route->destination_cidr), LOG_ERR(&err));
}

static void
do_removal(struct run *r, struct call *call, size_t i)
{
	remove_route(r, call, &r->routes.routes[r->plan.remove[i]]);
}

static void
do_creation(struct run *r, struct call *call, size_t i)
{
	create_route(r, call, &r->plan.create[i]);
}

/* Both at once: removals come first in the count, creations behind them. */
static void
do_either(struct run *r, struct call *call, size_t i)
{
	if (i < r->plan.n_remove)
		do_removal(r, call, i);
	else
		do_creation(r, call, i - r->plan.n_remove);
}

/* ---- a few threads ---- */

/* Pieces of work, numbered. */
struct crew {
	struct run *run;
	void (*work)(struct run *r, struct call *call, size_t i);
	size_t n;
	_Atomic size_t next;
};

static void *
help(void *arg)
{
	struct crew *crew = arg;
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct call call = *crew->run->call;

	call.arena = &arena;
	for (size_t i; !cancel_is_fired(call.cancel) && (i = crew->next++) < crew->n;) {
		crew->work(crew->run, &call, i);
		arena_reset(&arena);
	}
	return NULL;
}

/* Does n pieces on as many threads, N_HELPERS at most. What is not begun when it is all over never is. */
static void
share_out(struct run *r, size_t n, void (*work)(struct run *, struct call *, size_t i))
{
	struct crew crew = { .run = r, .work = work, .n = n };
	size_t n_threads = n < N_HELPERS ? n : N_HELPERS;
	pthread_t threads[N_HELPERS];

	for (size_t i = 0; i < n_threads; i++)
		thread_start(&threads[i], "route", help, &crew);
	for (size_t i = 0; i < n_threads; i++)
		thread_join(threads[i]);
}

static void
apply(struct run *r)
{
	if (r->plan.removes_first) {
		share_out(r, r->plan.n_remove, do_removal);
		share_out(r, r->plan.n_create, do_creation);
	} else {
		share_out(r, r->plan.n_remove + r->plan.n_create, do_either);
	}
}

/* ---- conditions ---- */

/* A node that is gone, or whose name is another's, needs none. */
static bool
write_condition(struct run *r, struct call *call, const struct condition *c, struct error *err)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(LIMIT_HTTP_REQUEST);

	patch_node_network(&body, c->node->object.uid, c->wanted, clock_wall(call->clock));
	return send_node_patch(r->c->env, call, c->node, "status", KUBE_PATCH_STRATEGIC,
	                       buf_str(&body), NULL, err) ||
	       err->code == ERR_NOT_FOUND;
}

static void
do_condition(struct run *r, struct call *call, size_t i)
{
	const struct condition *c = &r->conditions[i];
	struct error err;

	if (write_condition(r, call, c, &err))
		return;
	note_failure(r, NO_NODE, &err);
	if (is_worth_telling(&err) && err.code != ERR_CONFLICT)
		log_error("condition NetworkUnavailable not written, will retry",
		          LOG_STR("node", node_name(c->node)), LOG_ERR(&err));
}

/* What the store shows may be what was there before our own last write: whether another is due is found out later. */
static bool
differs(struct run *r, const struct node *node, enum node_network wanted)
{
	if (node->network != wanted)
		return true;
	if (own_writes_are_ahead(r->c->env->own_writes, node))
		note_failure(r, NO_NODE, &(struct error){ .code = ERR_PENDING });
	return false;
}

/* Whether a node whose pod CIDRs are all somebody else's to route can be reached is not ours to say. */
static bool
wants_condition(struct run *r, size_t i, enum node_network *ret)
{
	const struct node *node = node_of(r->all.objects[i]);

	if (r->plan.conditions[i] == ROUTE_CONDITION_UNTOUCHED ||
	    (node->n_pod_cidrs > 0 && r->nodes[i].n_pod_cidrs == 0))
		return false;
	*ret = r->plan.conditions[i] == ROUTE_CONDITION_NOT_CREATED || r->has_failed[i]
	               ? NODE_NETWORK_MISSING
	               : NODE_NETWORK_ROUTED;
	return differs(r, node, *ret);
}

static void
write_conditions(struct run *r)
{
	enum node_network wanted;

	if (cancel_is_fired(r->call->cancel)) /* some creations were never begun */
		return;
	r->conditions = arena_calloc(r->call->arena, r->all.n, sizeof(r->conditions[0]));
	for (size_t i = 0; i < r->all.n; i++) {
		if (wants_condition(r, i, &wanted))
			r->conditions[r->n_conditions++] = (struct condition){
				node_of(r->all.objects[i]), wanted
			};
	}
	share_out(r, r->n_conditions, do_condition);
}

/* ---- runs ---- */

static bool
plan_and_apply(struct run *r, struct error *err)
{
	struct route_controller *c = r->c;

	metric_inc(metric_of(&syncs_total));
	if (!c->ops->list(c->env->cloud, r->call, &r->routes, err))
		return err_wrap(err, "error listing routes");
	collect_nodes(r);
	r->plan = route_plan(r->call->arena, r->nodes, r->all.n, r->routes.routes, r->routes.n,
	                     c->config.cluster_cidrs, c->config.n_cluster_cidrs,
	                     c->ops->compares_addresses);
	apply(r);
	write_conditions(r);
	return true;
}

/* True when there is nothing left to be tried again. *ret_delay_ns: what the cloud asked to wait. */
static bool
run_once(struct route_controller *c, struct arena *arena, int64_t *ret_delay_ns)
{
	CLEANUP(store_list_free) struct store_list all = store_list(c->env->nodes);
	struct call call = {
		.clock = c->env->clock,
		.cancel = c->env->cancel,
		.deadline_mono_ns = clock_deadline(clock_mono(c->env->clock),
		                                   RUN_TIMEOUT_S * NS_PER_SEC),
		.arena = arena,
	};
	struct run r = { .c = c,
		         .call = &call,
		         .all = all,
		         .is_clean = true,
		         .failure_max_ns = FAILURE_MAX_NS };
	struct error err;

	PTHREAD_OK(pthread_mutex_init(&r.mu, NULL));
	if (!plan_and_apply(&r, &err)) {
		note_failure(&r, NO_NODE, &err);
		if (is_worth_telling(&err) && !err.is_outage)
			log_error("routes not reconciled, will retry", LOG_ERR(&err));
	}
	PTHREAD_OK(pthread_mutex_destroy(&r.mu));
	*ret_delay_ns = r.retry_after_ns;
	c->failure_max_ns = r.failure_max_ns;
	return r.is_clean;
}

/* What fails again and again, a full table say, is asked for more and more seldom. */
static int64_t
failure_delay_ns(struct route_controller *c)
{
	return backoff_spread_ns(c->config.period_ns, c->n_failures++, c->failure_max_ns);
}

/* The time to the next run, unless somebody wakes us. */
static int64_t
next_delay_ns(struct route_controller *c, bool is_clean, int64_t asked_ns)
{
	if (!is_clean)
		return asked_ns > 0 ? asked_ns : failure_delay_ns(c);
	c->n_failures = 0;
	return c->ops->idle_period_ns > c->config.period_ns ? c->ops->idle_period_ns
	                                                    : c->config.period_ns;
}

static void
raise_hand(void *arg)
{
	struct route_controller *c = arg;
	WITH_LOCK(&c->mu);

	PTHREAD_OK(pthread_cond_broadcast(&c->woken));
}

/* Until the deadline, or until woken; false when it is over. */
static bool
rest(struct route_controller *c, int64_t deadline_ns)
{
	WITH_LOCK(&c->mu);

	while (!c->is_woken && !cancel_is_fired(c->env->cancel)) {
		if (!clock_wait(c->env->clock, &c->woken, &c->mu, deadline_ns))
			break;
	}
	return !cancel_is_fired(c->env->cancel);
}

/* What comes together is one run, and what comes from here on is for the next. */
static bool
gather(struct route_controller *c, int64_t not_before_ns)
{
	int64_t pause_ns = not_before_ns - clock_mono(c->env->clock);
	struct error err;

	if (!cancel_sleep(c->env->cancel, c->env->clock,
	                  pause_ns > coalesce_ns ? pause_ns : coalesce_ns, &err))
		return false;
	mutex_lock(&c->mu);
	c->is_woken = false;
	c->is_settled = false;
	mutex_unlock(&c->mu);
	return true;
}

static void
note_run(struct route_controller *c, bool is_clean)
{
	WITH_LOCK(&c->mu);

	c->is_settled = is_clean;
}

static void
loop(struct route_controller *c, struct arena *arena)
{
	int64_t asked_ns, begun_ns = clock_mono(c->env->clock) - run_pause_ns;
	bool is_clean;

	do {
		if (!gather(c, begun_ns + run_pause_ns))
			return;
		begun_ns = clock_mono(c->env->clock); /* the period counts from start to start */
		c->is_working = true;
		is_clean = run_once(c, arena, &asked_ns);
		c->is_working = false;
		note_run(c, is_clean);
		arena_fini(arena);
	} while (rest(c, clock_deadline(begun_ns, next_delay_ns(c, is_clean, asked_ns))));
}

static void *
run_thread(void *arg)
{
	struct route_controller *c = arg;
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct call call = { c->env->clock, c->env->cancel, CLOCK_FOREVER, &arena };
	struct error err;

	cancel_hook(c->env->cancel, raise_hand, c);
	if (store_wait_synced(c->env->nodes, &call, &err))
		loop(c, &arena);
	cancel_unhook(c->env->cancel, raise_hand, c);
	return NULL;
}

/* ---- what leads to a run ---- */

void
route_controller_wake(struct route_controller *c)
{
	WITH_LOCK(&c->mu);

	c->is_woken = true;
	PTHREAD_OK(pthread_cond_signal(&c->woken));
}

/* A run under way may fail yet, with what was asked before: another follows it. */
void
route_controller_release(struct route_controller *c)
{
	WITH_LOCK(&c->mu);

	if (c->is_settled)
		return;
	c->is_woken = true;
	PTHREAD_OK(pthread_cond_signal(&c->woken));
}

/* A condition that somebody else wrote over is ours to write again; our own writes are no news. */
static bool
has_lost_condition(const struct node *old, const struct node *new)
{
	return old->network != new->network &&new->network == NODE_NETWORK_OTHER;
}

static void
on_node(void *arg, const struct object *object_old, const struct object *object_new)
{
	struct route_controller *c = arg;
	const struct node *old = (const struct node *)object_old,
			  *new = (const struct node *)object_new;

	if (!new)
		own_writes_forget(c->env->own_writes, node_name(old));
	if (!old || !new || !str_eq(object_old->uid, object_new->uid) ||
	    !node_pod_cidrs_equal(old, new) || !node_addresses_equal(old, new) ||
	    has_lost_condition(old, new) || !str_eq(node_provider_id(old), node_provider_id(new)))
		route_controller_wake(c);
}

/* ---- life ---- */

struct route_controller *
route_controller_new(struct controller_env *env, const struct route_controller_config *config)
{
	struct route_controller *c = xcalloc(1, sizeof(*c));

	c->env = env;
	c->config = *config;
	c->ops = env->cloud->ops->routes;
	c->families = c->ops->families(env->cloud);
	PTHREAD_OK(pthread_mutex_init(&c->mu, NULL));
	cond_init(&c->woken);
	metric_set(running_metric("route"), 1);
	store_add_handler(env->nodes, (struct store_handler){ on_node, c });
	thread_start(&c->thread, "routes", run_thread, c);
	return c;
}

bool
route_controller_is_working(const struct route_controller *c)
{
	return c->is_working;
}

void
route_controller_free(struct route_controller *c)
{
	if (!c)
		return;
	thread_join(c->thread);
	PTHREAD_OK(pthread_cond_destroy(&c->woken));
	PTHREAD_OK(pthread_mutex_destroy(&c->mu));
	free(c);
}
