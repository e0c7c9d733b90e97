/* controllers/node/node.c: the cloud node controller; see node.h.
 *
 * One queue of node names, and a few workers. What a worker does with a name depends only on the
 * present state of the node, so a name may be queued at any time and for any reason: an
 * uninitialised node is initialised; any other node gets its labels reconciled and, if the periodic
 * comparison has marked it as stale, its addresses. Failures come back through the queue, later
 * each time.
 */
#include "controllers/node/node.h"

#include "base/alloc.h"
#include "base/event_kind.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/map.h"
#include "base/metrics.h"
#include "base/watchdog.h"
#include "base/thread.h"
#include "controllers/node/addresses.h"
#include "controllers/node/labels.h"
#include "controllers/lookup.h"
#include "controllers/node_errors.h"
#include "controllers/pace.h"
#include "controllers/writes.h"
#include "kube/patch.h"
#include "kube/queue.h"

#define COMPONENT "cloud-node-controller"

EVENT_KIND(
	synced_event, COMPONENT, "Synced", false, "Node",
	"The node was initialised. If another client puts the taint of uninitialised nodes back, it is sent once more, and then no longer.");
EVENT_KIND(
	failed_event, COMPONENT, "FailedToInitializeNode", true, "Node",
	"The node is not initialised, because a user has to correct what the message says, or because all attempts have failed for two minutes. If its machine is not found, that is reported only when the node is at least 30 s old.");

enum {
	INIT_ATTEMPTS = 20,
	INIT_PAUSE_MS = 50,
	LABEL_ATTEMPTS = 5,
	LABEL_PAUSE_MS = 100,
};

static const int64_t failure_base_ns = 100 * NS_PER_MS;
/* A cloud may need this long after the creation of a node to list its machine. */
static const int64_t machine_delay_ns = 30 * NS_PER_SEC;
/* When all attempts have failed for this long, a failure of any kind is an event. */
static const int64_t lasting_failure_ns = 120 * NS_PER_SEC;
/* by then the watch has delivered our own write, or it was undone */
static const int64_t echo_ns = 5 * NS_PER_SEC;
/* the least pause before addresses are compared again after a refusal by the rate limit */
static const int64_t refresh_retry_min_ns = 5 * NS_PER_SEC;

static const double delays[] = { 1, 4, 16, 64, 256, 1024 };

METRIC_FAMILY(taint_removal_delay, METRIC_HISTOGRAM,
              "node_controller_cloud_provider_taint_removal_delay_seconds",
              "[ALPHA] Age of nodes when the taint of uninitialised nodes was removed.",
              METRIC_BUCKETS(delays));
METRIC_FAMILY(initial_sync_delay, METRIC_HISTOGRAM,
              "node_controller_initial_node_sync_delay_seconds",
              "[ALPHA] Age of nodes when they were initialised.", METRIC_BUCKETS(delays));

METRIC_FAMILY(uninitialized, METRIC_GAUGE, "ccmd_nodes_uninitialized",
              "[ALPHA] Nodes with the taint node.cloudprovider.kubernetes.io/uninitialized.");
METRIC_FAMILY(
	uninitialized_age, METRIC_GAUGE, "ccmd_nodes_uninitialized_oldest_seconds",
	"[ALPHA] Age of the oldest node with the taint node.cloudprovider.kubernetes.io/uninitialized; 0: there is none.");

struct node_controller {
	struct controller_env *env;
	struct node_controller_config config;
	struct queue *queue;
	pthread_t *workers;
	pthread_t refresher;
	struct failure_pause refresh_pause;
	pthread_mutex_t mu;
	struct map stale;          /* mu; struct stale_node */
	int64_t refreshed_boot_ns; /* mu; when the last refresh began */
};

/* A node whose addresses differ from the cloud's. */
struct stale_node {
	struct str name;
};

/* ---- initialisation ---- */

/* Addresses are written before the taint is removed, so that no pod is scheduled to a node without
 * addresses. *ret_version is the resource version that the patch of the taints has to name: that
 * patch fails with a conflict if another client has written since the state from which the taints
 * were computed. */
static bool
write_addresses(const struct node_write *w, const struct instance *instance,
                struct str *ret_version, struct error *err)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(LIMIT_HTTP_REQUEST);
	const struct node *node = w->node;
	struct address_list list;

	*ret_version = node->object.resource_version;
	if (!addresses_plan(node, instance, w->call->arena, &list, err))
		return false;
	if (list.n == 0 || addresses_equal(list.items, list.n, node->addresses, node->n_addresses))
		return true;
	patch_node_status(&body, &(struct node_patch){
					 .uid = node->object.uid,
					 .resource_version = node->object.resource_version,
					 .addresses = list.items,
					 .n_addresses = list.n,
				 });
	if (!node_write_send(w, "status", KUBE_PATCH_MERGE, buf_str(&body), ret_version, err))
		return err_wrap(err, "write addresses");
	if (!w->call->dry)
		log_debug("node addresses written", LOG_STR("node", node_name(node)),
		          LOG_I64("addresses", (int64_t)list.n));
	return true;
}

struct init {
	const struct instance *instance;
	bool has_written;
};

static bool
write_initial(const struct node_write *w, struct error *err)
{
	struct init *init = w->arg;
	const struct node *node = w->node;
	CLEANUP(buf_fini) struct buf body = BUF_INIT(LIMIT_HTTP_REQUEST);
	struct label_list labels;
	struct str version, *taints;
	size_t n_taints = 0;

	if (!node_is_new(node))
		return true; /* another client removed the taint, after a conflict */
	if (!write_addresses(w, init->instance, &version, err))
		return false;

	/* Everything else in one patch: labels, the provider ID, and the taints without that of
	 * uninitialised nodes. */
	labels = labels_plan(node, init->instance, w->call->arena);
	taints = arena_calloc(w->call->arena, node->n_taints + 1, sizeof(*taints));
	for (size_t i = 0; i < node->n_taints; i++) {
		if (!str_eq_c(node->taints[i]->key, NODE_TAINT_UNINITIALIZED))
			taints[n_taints++] = node->taints[i]->raw;
	}
	patch_node(&body, &(struct node_patch){
				  .uid = node->object.uid,
				  .resource_version = version,
				  .labels = labels.items,
				  .n_labels = labels.n,
				  .provider_id = node_provider_id(node).len > 0
	                                                 ? STR_EMPTY
	                                                 : init->instance->provider_id,
				  .has_taints = true,
				  .taints = taints,
				  .n_taints = n_taints,
			  });
	if (!node_write_send(w, NULL, KUBE_PATCH_MERGE, buf_str(&body), NULL, err))
		return err_wrap(err, "write provider ID, labels and taints");
	init->has_written = true;
	return true;
}

/* Turns the answer of a look into an error, unless the machine exists. */
static bool
require_present(const struct node *node, const struct instance *instance, struct error *err)
{
	switch (instance->presence) {
	case PRESENCE_PRESENT:
		break;
	case PRESENCE_ABSENT:
		return err_set(err, ERR_NOT_FOUND, "no machine of the cloud is this node");
	case PRESENCE_UNKNOWN:
	case PRESENCE_FOREIGN:
		err_set(err, instance->error_code, "%" STR_FMT, STR_ARG(instance->error));
		err->is_outage = instance->is_outage;
		return false;
	}
	if (instance->provider_id.len == 0 && node_provider_id(node).len == 0)
		return err_set(err, ERR_INVALID,
		               "cloud provider does not set node provider ID for node %" STR_FMT,
		               STR_ARG(node_name(node)));
	return true;
}

/* Fails if a request about the machine failed. An answer that cannot be used until a user corrects
 * something is not such a failure; ERR_EXISTS: the machine is another node's too. */
static bool
require_answer(const struct node *node, const struct instance *instance, struct error *err)
{
	if (instance->presence != PRESENCE_UNKNOWN || instance->error_code == ERR_INVALID ||
	    instance->error_code == ERR_EXISTS)
		return true;
	return require_present(node, instance, err);
}

/* Queues the node for later, and returns true, if another writer has undone this reaction so often
 * that it has to wait. */
static bool
node_postpone(struct node_controller *c, const struct node *node, const char *reaction)
{
	int64_t wait_ns = paces_look(c->env->paces, node->object.uid, reaction);

	if (wait_ns == 0)
		return false;
	queue_add_after(c->queue, node_name(node), wait_ns);
	return true;
}

/* The first attempt accepts any look that began after the node was seen, so that nodes which join
 * together share one. A retry needs a new look: an old answer may be why the last attempt failed.
 */
static bool
find_machine(struct node_controller *c, struct call *call, struct node *node,
             struct lookup_result *ret, struct error *err)
{
	bool is_retry = queue_peek(c->queue, node_name(node)).n_failures > 0;
	int64_t not_before = is_retry ? clock_boot(c->env->clock) : node->object.seen_boot_ns;

	return lookup_machines(c->env->lookup, call, &node, 1, not_before, ret, err) &&
	       require_present(node, lookup_result_at(ret, 0), err);
}

static void
report_initialised(struct node_controller *c, const struct node *node)
{
	double age_s = clock_seconds(clock_wall(c->env->clock) - node->created_wall_ns);

	metric_observe(metric_of(&taint_removal_delay), age_s);
	metric_observe(metric_of(&initial_sync_delay), age_s);
	if (node_provider_id(node).len == 0 ||
	    event_dedup_is_new(c->env->event_dedup, node, synced_event.reason))
		node_event(c->env->recorder, COMPONENT, node, EVENT_NORMAL, synced_event.reason,
		           STR("Node synced successfully"));
	log_info("node initialised", LOG_STR("node", node_name(node)));
}

static bool
node_initialise(struct node_controller *c, struct call *call, struct node *node, struct error *err)
{
	CLEANUP(lookup_result_fini) struct lookup_result answer = LOOKUP_RESULT_INIT;
	struct init init = { 0 };

	if (!find_machine(c, call, node, &answer, err))
		return err_wrap(err, "failed to get instance metadata for node %" STR_FMT,
		                STR_ARG(node_name(node)));
	init.instance = lookup_result_at(&answer, 0);
	if (!node_write(&(struct node_write){ .env = c->env,
	                                      .call = call,
	                                      .node = node,
	                                      .write = write_initial,
	                                      .arg = &init,
	                                      .attempts = INIT_ATTEMPTS,
	                                      .pause_ms = INIT_PAUSE_MS },
	                err))
		return err_wrap(err, "failed to initialize node %" STR_FMT,
		                STR_ARG(node_name(node)));
	event_dedup_clear(c->env->event_dedup, node, failed_event.reason);
	if (!init.has_written)
		return true;

	/* A node joins without a provider ID, and has one from then on, which cannot be removed. So
	 * only a node that has one already may be initialised for the second time, and only such
	 * nodes are remembered. */
	if (node_provider_id(node).len > 0)
		(void)paces_take(c->env->paces, node->object.uid, "initialise");
	if (!call->dry)
		report_initialised(c, node);
	return true;
}

/* ---- initialised nodes ---- */

/* This patch names no resource version: its labels depend on other labels only, and a concurrent
 * write to anything else must not make it fail. */
static bool
write_labels(const struct node_write *w, struct error *err)
{
	const struct node *node = w->node;
	struct label_list labels = labels_reconcile(node, w->call->arena);
	CLEANUP(buf_fini) struct buf body = BUF_INIT(LIMIT_HTTP_REQUEST);

	if (labels.n == 0)
		return true;
	patch_node(&body, &(struct node_patch){ .uid = node->object.uid,
	                                        .labels = labels.items,
	                                        .n_labels = labels.n });
	if (!node_write_send(w, NULL, KUBE_PATCH_MERGE, buf_str(&body), NULL, err))
		return err_wrap(err, "failed update labels for node %" STR_FMT,
		                STR_ARG(node_name(node)));
	if (!w->call->dry)
		log_info("node labels follow the beta labels", LOG_STR("node", node_name(node)),
		         LOG_I64("labels", (int64_t)labels.n));
	return true;
}

static bool
write_new_addresses(const struct node_write *w, struct error *err)
{
	struct str version;

	return write_addresses(w, w->arg, &version, err);
}

/* since_ns: a look that began then or later shows the addresses (boot). */
static bool
refresh_addresses(struct node_controller *c, struct call *call, struct node *node, int64_t since_ns,
                  struct error *err)
{
	CLEANUP(lookup_result_fini) struct lookup_result answer = LOOKUP_RESULT_INIT;
	struct instance *instance;

	if (!lookup_machines(c->env->lookup, call, &node, 1, since_ns, &answer, err))
		return false;
	instance = &answer.look->instances[answer.index[0]];
	if (!require_answer(node, instance, err))
		return false;
	if (instance->presence != PRESENCE_PRESENT)
		return true; /* the lifecycle controller deals with it */
	return node_write(&(struct node_write){ .env = c->env,
	                                        .call = call,
	                                        .node = node,
	                                        .write = write_new_addresses,
	                                        .arg = instance,
	                                        .attempts = LABEL_ATTEMPTS,
	                                        .pause_ms = LABEL_PAUSE_MS },
	                  err);
}

static void
set_stale(struct node_controller *c, struct str name, bool is_stale)
{
	WITH_LOCK(&c->mu);

	if (is_stale)
		map_add(&c->stale, name, sizeof(struct stale_node));
	else
		free(map_remove(&c->stale, name));
}

static bool
node_maintain(struct node_controller *c, struct call *call, struct node *node, struct error *err)
{
	bool has_labels = labels_reconcile(node, call->arena).n > 0, is_stale;
	int64_t since_ns;

	if (has_labels && !node_postpone(c, node, "labels")) {
		if (!node_write(&(struct node_write){ .env = c->env,
		                                      .call = call,
		                                      .node = node,
		                                      .write = write_labels,
		                                      .attempts = LABEL_ATTEMPTS,
		                                      .pause_ms = LABEL_PAUSE_MS },
		                err))
			return false;
		(void)paces_take(c->env->paces, node->object.uid, "labels");
	}
	mutex_lock(&c->mu);
	is_stale = map_get(&c->stale, node_name(node)) != NULL;
	since_ns = c->refreshed_boot_ns;
	mutex_unlock(&c->mu);
	if (!is_stale)
		return true;
	if (!refresh_addresses(c, call, node, since_ns, err))
		return err_wrap(err, "refresh addresses of node %" STR_FMT,
		                STR_ARG(node_name(node)));
	set_stale(c, node_name(node), false);
	return true;
}

/* ---- workers ---- */

static bool
node_reconcile(struct node_controller *c, struct call *call, struct str name, struct error *err)
{
	CLEANUP(object_unrefp) struct object *object = store_get(c->env->nodes, name);
	struct node *node = object ? node_of(object) : NULL;

	if (!node) {
		set_stale(c, name, false);
		own_writes_forget(c->env->own_writes, name);
		return true;
	}
	if (own_writes_are_ahead(c->env->own_writes, node)) {
		/* The watch event of our write queues the name again. The delayed key is for the
		 * case that the write was undone meanwhile. */
		queue_add_after(c->queue, name, echo_ns);
		return true;
	}
	if (!node_is_new(node))
		return node_maintain(c, call, node, err);
	if (node_postpone(c, node, "initialise"))
		return true;
	return node_initialise(c, call, node, err);
}

/* Must a person correct something before another attempt can succeed? */
static bool
is_for_operator(enum err_code code)
{
	return code == ERR_INVALID || code == ERR_UNSUPPORTED || code == ERR_NOT_FOUND ||
	       code == ERR_UNAUTHORIZED || code == ERR_FORBIDDEN;
}

/* A cloud may list a machine some time after its kubelet has created the Node: that is not yet
 * worth an error. The age compares two clocks, the API server's and ours; if they differ by more
 * than that time, the failure is reported immediately. */
static bool
is_machine_awaited(const struct node_controller *c, const struct node *new_node,
                   const struct error *err)
{
	int64_t age_ns = clock_wall(c->env->clock) - new_node->created_wall_ns;

	return err->code == ERR_NOT_FOUND && age_ns > -machine_delay_ns &&
	       age_ns < machine_delay_ns;
}

/* Is such a failure worth an event of a new node? An outage is not: it concerns all nodes. */
static bool
is_worth_event(const struct error *err, int64_t lasting_ns)
{
	if (is_for_operator(err->code))
		return true;
	/* for example because an answer of the cloud is not understood */
	return !err->is_outage && lasting_ns >= lasting_failure_ns;
}

/* The only place in this controller that turns an error code into behaviour (docs/errors.md). */
static void
node_handle_failure(struct node_controller *c, struct str name, const struct error *err)
{
	CLEANUP(object_unrefp) struct object *object = store_get(c->env->nodes, name);
	bool is_new = object && node_is_new(node_of(object));
	int64_t delay_ns, lasting_ns;

	if (err->code == ERR_CANCELLED)
		return;
	lasting_ns = node_errors_note(c->env->node_errors, NODE_WORK_SYNC, name, err,
	                              CLOCK_FOREVER);
	delay_ns = failure_requeue(c->queue, name, err, failure_max_ns(err->code));

	if (err->code == ERR_PENDING)
		return;
	if (is_new && is_machine_awaited(c, node_of(object), err)) {
		log_debug("the machine of a new node is not listed yet, will retry",
		          LOG_STR("node", name), LOG_ERR(err), LOG_DURATION("in", delay_ns));
		return;
	}
	if (!err->is_outage) /* which is in the log once */
		log_error("syncing node failed, will retry", LOG_STR("node", name), LOG_ERR(err),
		          LOG_DURATION("in", delay_ns));
	if (is_new && is_worth_event(err, lasting_ns))
		event_dedup_warn(c->env->event_dedup, COMPONENT, node_of(object),
		                 failed_event.reason, str_c(err->msg));
}

static void *
node_worker(void *arg)
{
	struct node_controller *c = arg;
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct call call = env_call(c->env, &arena, CLOCK_FOREVER);
	unsigned n_busy = 0;
	struct error err;
	struct str name;

	if (!store_wait_synced(c->env->nodes, &call, &err))
		return NULL;
	while (queue_get_trimming(c->queue, &n_busy, &name)) {
		call = env_call(c->env, &arena, LOOKUP_WORK_TIMEOUT_S * NS_PER_SEC);
		call.dry = dry_item_find(c->env, c->env->nodes, "node", name, &arena);
		if (node_reconcile(c, &call, name, &err)) {
			queue_forget(c->queue, name);
			node_errors_clear(c->env->node_errors, NODE_WORK_SYNC, name);
		} else {
			dry_failed(call.dry, &err);
			node_handle_failure(c, name, &err);
		}
		arena_reset(&arena);
		queue_done(c->queue, name);
	}
	return NULL;
}

/* ---- the periodic comparison of addresses ---- */

/* Returns true if the addresses that the node should have differ from those it has. If that cannot
 * be said, the reason is noted. */
static bool
compare_addresses(struct node_controller *c, const struct node *node,
                  const struct instance *instance, struct arena *arena)
{
	struct address_list list;
	struct error err;
	bool is_answered = require_answer(node, instance, &err);

	node_errors_clear(c->env->node_errors, NODE_WORK_ADDRESSES, node_name(node));
	if (is_answered && instance->presence != PRESENCE_PRESENT)
		return false;
	if (is_answered && addresses_plan(node, instance, arena, &list, &err))
		return list.n > 0 &&
		       !addresses_equal(list.items, list.n, node->addresses, node->n_addresses);

	node_errors_note(c->env->node_errors, NODE_WORK_ADDRESSES, node_name(node), &err,
	                 c->config.refresh_period_ns);
	dry_failed(dry_item_new(c->env, "node", node_name(node), node->object.resource_version,
	                        arena),
	           &err);
	if (is_answered)
		log_warn("addresses of a node cannot be refreshed, leaving them as they are",
		         LOG_STR("node", node_name(node)), LOG_ERR(&err));
	return false;
}

/* One question about all initialised nodes. Nodes whose addresses differ are marked as stale and
 * queued. A worker writes the addresses, because the queue lets only one worker at a time handle a
 * node. */
static bool
mark_stale(struct node_controller *c, struct call *call, struct error *err)
{
	CLEANUP(store_list_free) struct store_list all = store_list(c->env->nodes);
	CLEANUP(lookup_result_fini) struct lookup_result answer = LOOKUP_RESULT_INIT;
	int64_t since_ns = clock_boot(c->env->clock);
	struct node **nodes = arena_calloc(call->arena, all.n, sizeof(struct node *));
	size_t n = 0;

	for (size_t i = 0; i < all.n; i++) {
		if (!node_is_new(node_of(all.objects[i])))
			nodes[n++] = node_of(all.objects[i]);
	}
	if (n == 0)
		return true;
	if (!lookup_machines(c->env->lookup, call, nodes, n, since_ns, &answer, err))
		return false;
	mutex_lock(&c->mu);
	c->refreshed_boot_ns = since_ns;
	mutex_unlock(&c->mu);
	for (size_t i = 0; i < n; i++) {
		if (!compare_addresses(c, nodes[i], lookup_result_at(&answer, i), call->arena))
			continue;
		set_stale(c, node_name(nodes[i]), true);
		queue_add(c->queue, node_name(nodes[i]));
	}
	return true;
}

static void *
node_refresher(void *arg)
{
	struct node_controller *c = arg;
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct call call = env_call(c->env, &arena, CLOCK_FOREVER);
	const int64_t period_ns = c->config.refresh_period_ns;
	bool ok, is_stopped = false;
	int64_t delay_ns;
	unsigned n_seen;
	struct error err;

	if (!store_wait_synced(c->env->nodes, &call, &err))
		return NULL;
	while (!is_stopped) {
		n_seen = c->refresh_pause.n_releases;
		watchdog_promise(clock_deadline(clock_mono(c->env->clock), WATCHDOG_WORK_NS));
		call.dry = dry_item_new(c->env, "node", STR_EMPTY, STR_EMPTY, &arena);
		ok = mark_stale(c, &call, &err);
		/* A rate limit says when the cloud may be asked again. After a whole period it may
		 * be used up again, and addresses would stay outdated for a long time. */
		delay_ns = period_ns;
		if (!ok && !err.is_outage && err.retry_after_ms > 0)
			delay_ns = clock_earlier(clock_later(err.retry_after_ms * NS_PER_MS,
			                                     refresh_retry_min_ns),
			                         period_ns);
		if (ok) {
			node_errors_clear(c->env->node_errors, NODE_WORK_ADDRESSES, STR_EMPTY);
		} else {
			dry_failed(call.dry, &err);
			node_errors_note(c->env->node_errors, NODE_WORK_ADDRESSES, STR_EMPTY, &err,
			                 delay_ns);
		}
		settling_note(c->env->settling, SETTLING_ADDRESSES);
		if (!ok && err.code != ERR_CANCELLED && !err.is_outage)
			log_error("addresses cannot be refreshed, will retry", LOG_ERR(&err),
			          LOG_DURATION("in", delay_ns));
		arena_fini(&arena);
		watchdog_promise(CLOCK_FOREVER);

		/* the end of an outage ends the pause, too */
		if (!ok && err.is_outage)
			is_stopped = !failure_pause_sleep(&c->refresh_pause, &call, n_seen,
			                                  delay_ns, &err);
		else
			is_stopped = !cancel_sleep(c->env->cancel, c->env->clock, delay_ns, &err);
	}
	return NULL;
}

/* ---- wiring ---- */

static void
node_on_change(void *arg, const struct object *old, const struct object *new)
{
	struct node_controller *c = arg;
	struct object *other = NULL;

	if (new) {
		queue_add(c->queue, new->key);
		return;
	}
	node_errors_forget(c->env->node_errors, old->key);
	/* A new node may have waited because this one had its provider ID, too. */
	if (store_find(c->env->nodes, node_provider_id((const struct node *)old), &other, 1) > 0) {
		queue_add(c->queue, other->key);
		object_unref(other);
	}
}

static void
set_uninitialized(void *controller)
{
	struct node_controller *c = controller;
	CLEANUP(store_list_free) struct store_list all = store_list(c->env->nodes);
	int64_t now_ns = clock_wall(c->env->clock), oldest_ns = now_ns;
	size_t n = 0;

	for (size_t i = 0; i < all.n; i++) {
		const struct node *node = node_of(all.objects[i]);

		if (!node_is_new(node))
			continue;
		n++;
		if (node->created_wall_ns > 0 && node->created_wall_ns < oldest_ns)
			oldest_ns = node->created_wall_ns;
	}
	metric_set(metric_of(&uninitialized), (double)n);
	metric_set(metric_of(&uninitialized_age), clock_seconds(now_ns - oldest_ns));
}

struct node_controller *
node_controller_new(struct controller_env *env, const struct node_controller_config *config)
{
	struct node_controller *c = xcalloc(1, sizeof(*c));

	*c = (struct node_controller){
		.env = env,
		.config = *config,
		.stale = MAP_OF(struct stale_node, name),
		.queue = queue_new(&(struct queue_config){ "Nodes", failure_base_ns, FAILURE_MAX_NS,
		                                           env->clock }),
		.workers = xcalloc(config->n_workers, sizeof(*c->workers)),
	};
	mutex_init(&c->mu);
	failure_pause_init(&c->refresh_pause);
	store_add_handler(env->nodes, (struct store_handler){ node_on_change, c });
	for (unsigned i = 0; i < config->n_workers; i++)
		thread_start(&c->workers[i], "node", node_worker, c);
	thread_start(&c->refresher, "addresses", node_refresher, c);
	metrics_on_scrape(set_uninitialized, c);
	return c;
}

void
node_controller_wake(struct node_controller *c)
{
	CLEANUP(store_list_free) struct store_list all = store_list(c->env->nodes);

	for (size_t i = 0; i < all.n; i++) {
		if (node_is_new(node_of(all.objects[i])))
			queue_add(c->queue, all.objects[i]->key);
	}
}

void
node_controller_release(struct node_controller *c)
{
	queue_release(c->queue);
	failure_pause_release(&c->refresh_pause);
}

struct queue *
node_controller_queue(struct node_controller *c)
{
	return c->queue;
}

void
node_controller_free(struct node_controller *c)
{
	if (!c)
		return;
	metrics_off_scrape(set_uninitialized, c);
	for (unsigned i = 0; i < c->config.n_workers; i++)
		thread_join(c->workers[i]);
	thread_join(c->refresher);
	queue_free(c->queue);
	map_free_all(&c->stale, free);
	failure_pause_fini(&c->refresh_pause);
	mutex_destroy(&c->mu);
	free(c->workers);
	free(c);
}
