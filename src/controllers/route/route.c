/* controllers/route/route.c: see route.h.
 *
 * One thread runs the loop. A run lists the cloud's routes, decides which pod CIDRs are to be routed (route_guard.h), plans
 * (route_plan.h), holds back removals that look like a mistake (route_removals.h), and lets a few threads make and remove what
 * differs, since a cloud may take seconds for each. What failed is tried again soon, a settled table is looked at seldom:
 * nobody but us and a person at the cloud's console changes it, and nodes wake us. Conditions of nodes are written after a run, and
 * whenever somebody changed them, from what the last run found out (route_conditions.h).
 */
#include "controllers/route/route.h"

#include "base/alloc.h"
#include "base/backoff.h"
#include "base/event_kind.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/map.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "controllers/failure.h"
#include "controllers/host.h"
#include "controllers/node_ref.h"
#include "controllers/event_dedup.h"
#include "controllers/own_writes.h"
#include "controllers/pace.h"
#include "controllers/parallel.h"
#include "controllers/route/route_conditions.h"
#include "controllers/route/route_guard.h"
#include "controllers/route/route_plan.h"
#include "controllers/route/route_removals.h"
#include "controllers/running.h"

#define COMPONENT "route_controller" /* with an underscore, as upstream (framework.md E33) */

enum {
	RUN_TIMEOUT_S = 300,
};

/* Changes of nodes within this time are one run; runs begin at most so often. */
static const int64_t coalesce_ns = 200 * NS_PER_MS;
static const int64_t run_pause_ns = NS_PER_SEC;

METRIC_FAMILY(syncs_total, METRIC_COUNTER, "route_controller_route_sync_total",
              "[ALPHA] Runs of the route controller.");

EVENT_KIND(failed_event, COMPONENT, "FailedToCreateRoute", true, "Node",
           "The route to a node's pods could not be made; it is tried again.");
EVENT_KIND(
	not_routed_event, COMPONENT, "PodCIDRNotRouted", true, "Node",
	"One of the node's pod CIDRs gets no route: the cloud has none of that IP family, or another node has a pod CIDR that overlaps with it and goes first.");
EVENT_KIND(
	outside_event, COMPONENT, "ClusterCIDRMisconfigured", true, "Node",
	"One of the node's pod CIDRs is not within --cluster-cidr: it gets no route, and routes to it are not changed.");
EVENT_KIND(
	held_event, COMPONENT, "RouteRemovalsHeld", true, "Pod, or Namespace kube-system",
	"Routes that lead to no node are not removed yet: too many would be removed together, or the cluster shows no nodes. A second event says that a route could not be made meanwhile, since the held ones may fill the table.");

struct route_controller {
	struct controller_env *env;
	struct route_controller_config config;
	const struct route_ops *ops;
	unsigned families;
	pthread_t thread;

	pthread_mutex_t mu;
	pthread_cond_t woken;
	_Atomic bool is_working;     /* a run is under way */
	bool is_woken;               /* mu; for a run */
	bool is_settled;             /* mu; the last run left nothing to be tried again */
	bool has_changed_conditions; /* mu; of nodes */
	int64_t paced_mono_ns;       /* mu; a run is due then, for nodes that change too often */

	struct route_removals *removals;

	/* the thread's */
	struct route_conditions *conditions;
	unsigned n_failures; /* runs in a row */
	bool is_hold_told;   /* that removals are held */
	bool is_full_told;   /* that a route could not be made meanwhile */
};

/* One run. */
struct run {
	struct route_controller *c;
	struct call *call;
	struct store_list all;
	struct route_node *nodes; /* of all, index by index */
	struct route_claim *claims;
	size_t n_claims;
	struct route_list routes;
	struct route_plan plan;
	struct route_hold hold;

	pthread_mutex_t mu;
	bool *has_failed;       /* mu; of each node: a route of its own is missing */
	bool is_clean;          /* mu: nothing failed */
	bool is_refused;        /* mu: the cloud refused a creation */
	int64_t retry_after_ns; /* mu: the longest that the cloud asked to wait; 0: it did not say */
	int64_t failure_max_ns; /* mu: the least of all failures' longest pauses */
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

/* Routes that lead to one of our nodes, by "node CIDR". */
static void
index_routes(const struct run *r, struct map *ret)
{
	for (size_t i = 0; i < r->routes.n; i++) {
		const struct route *route = &r->routes.routes[i];

		if (!route->is_blackhole && route->target_node.len > 0)
			map_put(ret,
			        arena_printf(r->call->arena, "%" STR_FMT " %" STR_FMT,
			                     STR_ARG(route->target_node),
			                     STR_ARG(route->destination_cidr)),
			        (void *)(uintptr_t)route);
	}
}

static void
add_claim(struct run *r, const struct map *routes, size_t i, struct str cidr,
          const struct ip_net *net)
{
	const struct node *node = node_of(r->all.objects[i]);
	struct str key = arena_printf(r->call->arena, "%" STR_FMT " %" STR_FMT,
	                              STR_ARG(node_name(node)), STR_ARG(cidr));

	r->claims[r->n_claims++] = (struct route_claim){
		.node = i,
		.cidr = cidr,
		.net = *net,
		.created_wall_ns = node->created_wall_ns,
		.uid = node->object.uid,
		.is_routed = map_get(routes, key) != NULL,
	};
}

/* Pod CIDRs that are none of ours stay out of everything: they must not make a node unusable. */
static void
collect_claims(struct run *r)
{
	const struct route_controller_config *config = &r->c->config;
	struct map routes = MAP_INIT;
	size_t n = 0;

	for (size_t i = 0; i < r->all.n; i++)
		n += node_of(r->all.objects[i])->n_pod_cidrs;
	r->claims = arena_calloc(r->call->arena, n + 1, sizeof(r->claims[0]));
	index_routes(r, &routes);
	for (size_t i = 0; i < r->all.n; i++) {
		const struct node *node = node_of(r->all.objects[i]);

		for (uint32_t j = 0; j < node->n_pod_cidrs; j++) {
			struct ip_net net;

			if ((family_bit(node->pod_cidrs[j]) & r->c->families) &&
			    ip_net_parse(node->pod_cidrs[j], &net) &&
			    ip_net_is_within_any(&net, config->cluster_cidrs,
			                         config->n_cluster_cidrs))
				add_claim(r, &routes, i, node->pod_cidrs[j], &net);
		}
	}
	map_fini(&routes);
	route_claims_decide(r->call->arena, r->claims, r->n_claims);
}

/* ---- what nodes are told about pod CIDRs that get no route ---- */

static void
add_part(struct buf *b, const char *separator)
{
	if (b->len > 0)
		buf_add_c(b, separator);
}

static void
tell_outside(struct run *r, const struct node *node)
{
	const struct route_controller_config *config = &r->c->config;
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_EVENT_MESSAGE);

	for (uint32_t i = 0; i < node->n_pod_cidrs; i++) {
		struct ip_net net;

		if (!(family_bit(node->pod_cidrs[i]) & r->c->families) ||
		    !ip_net_parse(node->pod_cidrs[i], &net) ||
		    ip_net_is_within_any(&net, config->cluster_cidrs, config->n_cluster_cidrs))
			continue;
		add_part(&text, "; ");
		buf_addf(&text, "route CIDR %" STR_FMT " is not contained within cluster CIDR ",
		         STR_ARG(node->pod_cidrs[i]));
		for (size_t j = 0; j < config->n_cluster_cidrs; j++) {
			buf_add_c(&text, j > 0 ? "," : "");
			ip_net_format(&text, &config->cluster_cidrs[j]);
		}
	}
	if (text.len > 0)
		event_dedup_warn(r->c->env->event_dedup, COMPONENT, node, outside_event.reason,
		                 buf_str(&text));
	else
		event_dedup_clear(r->c->env->event_dedup, node, outside_event.reason);
}

static bool
has_other_family(const struct run *r, const struct node *node)
{
	for (uint32_t i = 0; i < node->n_pod_cidrs; i++) {
		if (!(family_bit(node->pod_cidrs[i]) & r->c->families))
			return true;
	}
	return false;
}

/* claims: the node's. */
static void
tell_not_routed(struct run *r, const struct node *node, const struct route_claim *claims, size_t n)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_EVENT_MESSAGE);

	if (has_other_family(r, node))
		buf_add_c(&text,
		          "The cloud does not route pod CIDRs of this IP family; they are left to "
		          "somebody else");
	for (size_t i = 0; i < n; i++) {
		const struct route_claim *winner = claims[i].lost_to;

		if (!winner)
			continue;
		add_part(&text, ". ");
		buf_addf(&text,
		         "Pod CIDR %" STR_FMT
		         " is not routed to this node: it overlaps with %" STR_FMT
		         " of node %" STR_FMT ", which %s",
		         STR_ARG(claims[i].cidr), STR_ARG(winner->cidr),
		         STR_ARG(node_name(node_of(r->all.objects[winner->node]))),
		         route_claim_is_older(winner, &claims[i]) ? "is older" : "has its route");
	}
	if (text.len > 0)
		event_dedup_warn(r->c->env->event_dedup, COMPONENT, node, not_routed_event.reason,
		                 buf_str(&text));
	else
		event_dedup_clear(r->c->env->event_dedup, node, not_routed_event.reason);
}

/* ---- nodes ---- */

/* Only pod CIDRs whose claim is granted. One that lost has no route that leads to it, and the node's condition says so. */
static void
keep_granted(struct run *r, size_t i, const struct route_claim *claims, size_t n)
{
	struct str *cidrs = arena_calloc(r->call->arena, n, sizeof(*cidrs));
	size_t n_kept = 0;

	for (size_t j = 0; j < n; j++) {
		if (claims[j].is_granted)
			cidrs[n_kept++] = claims[j].cidr;
		else
			r->has_failed[i] = true;
	}
	r->nodes[i].pod_cidrs = cidrs;
	r->nodes[i].n_pod_cidrs = n_kept;
}

static void
collect_nodes(struct run *r)
{
	size_t at = 0;

	r->nodes = arena_calloc(r->call->arena, r->all.n, sizeof(r->nodes[0]));
	r->has_failed = arena_calloc(r->call->arena, r->all.n, sizeof(r->has_failed[0]));
	collect_claims(r);
	for (size_t i = 0; i < r->all.n; i++) {
		const struct node *node = node_of(r->all.objects[i]);
		size_t first = at;

		while (at < r->n_claims && r->claims[at].node == i)
			at++;
		r->nodes[i] = (struct route_node){ .name = node_name(node),
			                           .uid = node->object.uid,
			                           .addresses = node->addresses,
			                           .n_addresses = node->n_addresses };
		keep_granted(r, i, &r->claims[first], at - first);
		tell_outside(r, node);
		tell_not_routed(r, node, &r->claims[first], at - first);
	}
}

/* ---- making and removing ---- */

#define NO_NODE SIZE_MAX

/* Waiting for the cloud is no failure, and at the end nobody wants to hear. */
static bool
is_worth_telling(const struct error *err)
{
	return err->code != ERR_CANCELLED && err->code != ERR_PENDING;
}

static void
note_failure(struct run *r, size_t node, const struct error *err)
{
	WITH_LOCK(&r->mu);

	r->is_clean = false;
	if (err->retry_after_ms * NS_PER_MS > r->retry_after_ns)
		r->retry_after_ns = err->retry_after_ms * NS_PER_MS;
	if (failure_max_ns(err->code) < r->failure_max_ns)
		r->failure_max_ns = failure_max_ns(err->code);
	if (node == NO_NODE)
		return;
	r->has_failed[node] = true;
	r->is_refused |= is_worth_telling(err);
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
remove_route(struct run *r, struct call *call, size_t i)
{
	const struct route *route = &r->routes.routes[r->plan.remove[i]];
	struct error err;

	if (r->c->ops->remove(r->c->env->cloud, call, route, &err)) {
		route_removals_note(r->c->removals, &r->plan, i);
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
do_removal(void *arg, struct call *call, size_t i)
{
	remove_route(arg, call, i);
}

static void
do_creation(void *arg, struct call *call, size_t i)
{
	struct run *r = arg;

	create_route(r, call, &r->plan.create[i]);
}

/* Both at once: removals come first in the count, creations behind them. */
static void
do_either(void *arg, struct call *call, size_t i)
{
	const struct run *r = arg;

	if (i < r->plan.n_remove)
		do_removal(arg, call, i);
	else
		do_creation(arg, call, i - r->plan.n_remove);
}

static void
apply(struct run *r)
{
	const struct route_plan *plan = &r->plan;

	if (plan->removes_first) {
		parallel_do(r->call, "route", plan->n_remove, do_removal, r);
		parallel_do(r->call, "route", plan->n_create, do_creation, r);
	} else {
		parallel_do(r->call, "route", plan->n_remove + plan->n_create, do_either, r);
	}
}

/* ---- removals that are held ---- */

static void
send_held_event(struct route_controller *c, struct str text)
{
	struct event_object object = host_ourselves();

	recorder_event(c->env->recorder, COMPONENT, &object, EVENT_WARNING, held_event.reason,
	               text);
	log_warn("routes are not removed yet", LOG_STR("reason", text));
}

static void
tell_hold(struct route_controller *c, const struct run *r)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_EVENT_MESSAGE);

	buf_addf(&text, "%zu of %zu routes lead to no node, but are not removed: ", r->hold.n,
	         r->plan.n_ours);
	if (r->hold.why == ROUTE_REMOVAL_NO_NODES)
		buf_add_c(&text, "the cluster shows no nodes at all");
	else
		buf_addf(
			&text,
			"more than %d and %d %% of them would go at once. Those that stay without a node "
			"for %d minutes are removed then",
			ROUTE_BREAKER_MIN, ROUTE_BREAKER_PERCENT, ROUTE_BREAKER_AGREEMENT_S / 60);
	send_held_event(c, buf_str(&text));
}

static void
tell_full(struct route_controller *c, const struct run *r)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_EVENT_MESSAGE);

	buf_addf(
		&text,
		"A route could not be made while %zu routes that lead to no node are not removed: the table may be "
		"full of them. Remove them by hand, or wait for %d minutes",
		r->hold.n, ROUTE_BREAKER_AGREEMENT_S / 60);
	send_held_event(c, buf_str(&text));
}

/* Once each, until nothing is held any more. */
static void
tell_held(struct run *r)
{
	struct route_controller *c = r->c;

	if (r->hold.n > 0 && !c->is_hold_told)
		tell_hold(c, r);
	if (r->hold.n > 0 && r->is_refused && !c->is_full_told)
		tell_full(c, r);
	c->is_hold_told = r->hold.n > 0;
	c->is_full_told = r->hold.n > 0 && (c->is_full_told || r->is_refused);
}

/* ---- conditions ---- */

/* Whether a node whose pod CIDRs are all somebody else's to route can be reached is not ours to say. */
static enum node_network
wanted_condition(const struct run *r, size_t i)
{
	const struct node *node = node_of(r->all.objects[i]);

	if (r->has_failed[i])
		return NODE_NETWORK_MISSING;
	if (r->plan.conditions[i] == ROUTE_CONDITION_UNTOUCHED ||
	    (node->n_pod_cidrs > 0 && r->nodes[i].n_pod_cidrs == 0))
		return NODE_NETWORK_OTHER;
	return r->plan.conditions[i] == ROUTE_CONDITION_NOT_CREATED ? NODE_NETWORK_MISSING
	                                                            : NODE_NETWORK_ROUTED;
}

static void
set_conditions(struct run *r)
{
	struct route_verdict *verdicts;

	if (cancel_is_fired(r->call->cancel)) /* some creations were never begun */
		return;
	verdicts = arena_calloc(r->call->arena, r->all.n, sizeof(*verdicts));
	for (size_t i = 0; i < r->all.n; i++)
		verdicts[i] = (struct route_verdict){ node_of(r->all.objects[i]),
			                              wanted_condition(r, i) };
	route_conditions_set(r->c->conditions, verdicts, r->all.n);
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
	r->hold = route_removals_hold(c->removals, r->call->arena, r->routes.routes, r->routes.n,
	                              &r->plan, r->all.n);
	apply(r);
	tell_held(r);
	set_conditions(r);
	return true;
}

static struct call
call_for_run(const struct route_controller *c, struct arena *arena)
{
	return (struct call){
		.clock = c->env->clock,
		.cancel = c->env->cancel,
		.deadline_mono_ns = clock_deadline(clock_mono(c->env->clock),
		                                   RUN_TIMEOUT_S * NS_PER_SEC),
		.arena = arena,
	};
}

/* What fails again and again, a full table say, is asked for more and more seldom. */
static int64_t
failure_delay_ns(struct route_controller *c, const struct run *r)
{
	return backoff_spread_ns(c->config.period_ns, c->n_failures++, r->failure_max_ns);
}

/* From the start of this run to the next, unless somebody wakes us. */
static int64_t
next_delay_ns(struct route_controller *c, const struct run *r)
{
	if (!r->is_clean)
		return r->retry_after_ns > 0 ? r->retry_after_ns : failure_delay_ns(c, r);
	c->n_failures = 0;
	return c->ops->idle_period_ns > c->config.period_ns ? c->ops->idle_period_ns
	                                                    : c->config.period_ns;
}

static void
note_settled(struct route_controller *c, bool is_settled)
{
	WITH_LOCK(&c->mu);

	c->is_settled = is_settled;
}

/* Returns when the next run is due; the period counts from start to start. */
static int64_t
run_once(struct route_controller *c, struct arena *arena)
{
	CLEANUP(store_list_free) struct store_list all = store_list(c->env->nodes);
	int64_t begun_ns = clock_mono(c->env->clock), due_ns;
	struct call call = call_for_run(c, arena);
	struct run r = { .c = c,
		         .call = &call,
		         .all = all,
		         .hold = { .due_mono_ns = CLOCK_FOREVER },
		         .is_clean = true,
		         .failure_max_ns = FAILURE_MAX_NS };
	struct error err;

	note_settled(c, false);
	PTHREAD_OK(pthread_mutex_init(&r.mu, NULL));
	if (!plan_and_apply(&r, &err)) {
		note_failure(&r, NO_NODE, &err);
		if (is_worth_telling(&err) && !err.is_outage)
			log_error("routes not reconciled, will retry", LOG_ERR(&err));
	}
	PTHREAD_OK(pthread_mutex_destroy(&r.mu));
	note_settled(c, r.is_clean);
	due_ns = clock_deadline(begun_ns, next_delay_ns(c, &r));
	return r.hold.due_mono_ns < due_ns ? r.hold.due_mono_ns : due_ns;
}

static int64_t
write_conditions(struct route_controller *c, struct arena *arena)
{
	struct call call = call_for_run(c, arena);

	return route_conditions_write(c->conditions, &call);
}

/* ---- the loop ---- */

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

	while (!c->is_woken && !c->has_changed_conditions && !cancel_is_fired(c->env->cancel)) {
		int64_t due_ns = c->paced_mono_ns < deadline_ns ? c->paced_mono_ns : deadline_ns;

		if (clock_mono(c->env->clock) >= due_ns ||
		    !clock_wait(c->env->clock, &c->woken, &c->mu, due_ns))
			break;
	}
	return !cancel_is_fired(c->env->cancel);
}

/* What comes together is one run, and what comes from here on is for the next. *ret_is_woken: a run is wanted, whatever is due. */
static bool
gather(struct route_controller *c, int64_t not_before_ns, bool *ret_is_woken)
{
	int64_t pause_ns = not_before_ns - clock_mono(c->env->clock);
	struct error err;

	if (!cancel_sleep(c->env->cancel, c->env->clock,
	                  pause_ns > coalesce_ns ? pause_ns : coalesce_ns, &err))
		return false;
	mutex_lock(&c->mu);
	*ret_is_woken = c->is_woken || clock_mono(c->env->clock) >= c->paced_mono_ns;
	if (*ret_is_woken)
		c->paced_mono_ns = CLOCK_FOREVER;
	c->is_woken = c->has_changed_conditions = false;
	mutex_unlock(&c->mu);
	return true;
}

/* A condition that somebody changed needs no run, and so no look at the cloud. */
static void
loop(struct route_controller *c, struct arena *arena)
{
	int64_t begun_ns = clock_mono(c->env->clock) - run_pause_ns;
	int64_t run_due_ns = begun_ns, conditions_due_ns;
	bool is_woken;

	do {
		if (!gather(c, begun_ns + run_pause_ns, &is_woken))
			return;
		begun_ns = clock_mono(c->env->clock);
		c->is_working = true;
		if (is_woken || begun_ns >= run_due_ns)
			run_due_ns = run_once(c, arena);
		conditions_due_ns = write_conditions(c, arena);
		c->is_working = false;
		arena_fini(arena);
	} while (rest(c, run_due_ns < conditions_due_ns ? run_due_ns : conditions_due_ns));
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

static void
look_at_conditions(struct route_controller *c)
{
	WITH_LOCK(&c->mu);

	c->has_changed_conditions = true;
	PTHREAD_OK(pthread_cond_signal(&c->woken));
}

/* Each run costs requests to the cloud, so one node that changes back and forth must not cause them without end. */
static void
wake_at_its_pace(struct route_controller *c, const struct node *node)
{
	int64_t wait_ns = paces_reserve(c->env->paces, node->object.uid, "route");
	int64_t due_ns = clock_deadline(clock_mono(c->env->clock), wait_ns);
	WITH_LOCK(&c->mu);

	if (wait_ns == 0)
		c->is_woken = true;
	else if (due_ns < c->paced_mono_ns)
		c->paced_mono_ns = due_ns;
	PTHREAD_OK(pthread_cond_signal(&c->woken));
}

static bool
is_other_target(const struct node *old, const struct node *new)
{
	return !node_pod_cidrs_equal(old, new) || !node_addresses_equal(old, new) ||
	       !str_eq(node_provider_id(old), node_provider_id(new));
}

static void
on_node(void *arg, const struct object *object_old, const struct object *object_new)
{
	struct route_controller *c = arg;
	const struct node *old = (const struct node *)object_old,
			  *new = (const struct node *)object_new;

	if (!new) {
		own_writes_forget(c->env->own_writes, node_name(old));
		route_removals_expect(c->removals, old);
	}
	if (!old || !new || !str_eq(object_old->uid, object_new->uid))
		route_controller_wake(c);
	else if (is_other_target(old, new))
		wake_at_its_pace(c, new);
	if (old && new && old->network != new->network)
		look_at_conditions(c);
}

/* ---- life ---- */

struct route_controller *
route_controller_new(struct controller_env *env, const struct route_controller_config *config)
{
	struct route_controller *c = xcalloc(1, sizeof(*c));

	c->env = env;
	c->config = *config;
	c->ops = env->cloud->routes;
	c->families = c->ops->families(env->cloud);
	c->paced_mono_ns = CLOCK_FOREVER;
	c->removals = route_removals_new(env->clock);
	c->conditions = route_conditions_new(env);
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
	route_removals_free(c->removals);
	route_conditions_free(c->conditions);
	PTHREAD_OK(pthread_cond_destroy(&c->woken));
	PTHREAD_OK(pthread_mutex_destroy(&c->mu));
	free(c);
}
