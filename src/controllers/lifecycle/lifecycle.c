/* controllers/lifecycle/lifecycle.c: candidates, rounds, and the thread that runs them; see
 * lifecycle.h.
 *
 * One round goes over all nodes of the store, keeps a candidate for each node that is not Ready,
 * asks the cloud one question about all candidates that are due, and acts on the answer. Between
 * rounds the thread sleeps until the next candidate is due or a node changes. A round without due
 * candidates costs no request, so it may run as often as nodes change.
 */
#include "base/alloc.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/watchdog.h"
#include "base/thread.h"
#include "controllers/lifecycle/internal.h"
#include "controllers/lookup.h"
#include "controllers/node_errors.h"
#include "controllers/pace.h"

METRIC_FAMILY(
	held_nodes, METRIC_GAUGE, "ccmd_nodes_held",
	"[ALPHA] Nodes whose machine is gone, and that are not deleted because the proof is not complete.");

static const double seconds[] = { .001, .002, .004,  .008,  .016,  .032,  .064,  .128,
	                          .256, .512, 1.024, 2.048, 4.096, 8.192, 16.384 };

METRIC_FAMILY(round_seconds, METRIC_HISTOGRAM,
              "cloud_node_lifecycle_controller_monitor_nodes_duration_seconds",
              "[ALPHA] Duration of a round over the nodes that are not ready.",
              METRIC_BUCKETS(seconds));

/* Changes within this time are handled by one round: 5,000 nodes that join cause a few dozen
 * rounds, not 15,000. */
static const int64_t coalesce_ns = 250 * NS_PER_MS;
/* After so long without a change the memory that a burst of work needed is given back. */
static const int64_t quiet_ns = 2 * NS_PER_SEC;

/* ---- candidates ---- */

/* Returns when to look first at a node (mono); 0: now.
 *
 * Nodes join by hundreds, and none of them is Ready at first. A node that is too young to be
 * deleted is therefore not looked at before two looks could prove anything. Its age compares two
 * clocks, the API server's and ours: if they differ, the wait is still no longer than that age.
 *
 * A node that alternates between Ready and not Ready becomes a candidate again and again. It must
 * not be looked at more often than a node that stays not Ready. */
static int64_t
first_due_ns(const struct lifecycle_controller *c, const struct node *node)
{
	const struct guard_config *guard = &c->config.guard;
	bool is_young = guard->is_enabled && node_is_new(node);
	int64_t min_ns = is_young ? guard->min_age_ns - guard->confirm_ns : 0;
	int64_t young_ns = min_ns - (clock_wall(c->env->clock) - node->created_wall_ns);
	int64_t paced_ns = paces_take(c->env->paces, node->object.uid, "not ready");
	int64_t wait_ns = clock_later(clock_earlier(paced_ns, GUARD_LOOK_S * NS_PER_SEC),
	                              clock_earlier(young_ns, min_ns));

	return wait_ns > 0 ? clock_deadline(clock_mono(c->env->clock), wait_ns) : 0;
}

static bool
is_of_earlier_round(const void *candidate, const void *round)
{
	return ((const struct candidate *)candidate)->round != *(const uint64_t *)round;
}

static void
set_held_nodes(void *controller)
{
	struct lifecycle_controller *c = controller;
	struct str uid;
	void *value;
	size_t n = 0;
	WITH_LOCK(&c->mu);

	for (size_t pos = 0; map_next(&c->candidates, &pos, &uid, &value);) {
		const struct candidate_state *shown = &((struct candidate *)value)->shown;

		n += shown->hold_reason && !shown->is_deleted;
	}
	metric_set(metric_of(&held_nodes), (double)n);
}

/* ---- rounds ---- */

/* Tracks every node that is not Ready. Nodes that are Ready lose their shutdown taint, and their
 * candidate. */
static void
lifecycle_collect(struct round *r, enum lifecycle_due due)
{
	struct lifecycle_controller *c = r->c;

	r->checks = arena_calloc(r->call->arena, r->all.n + 1, sizeof(*r->checks));
	for (size_t i = 0; i < r->all.n; i++) {
		struct node *node = node_of(r->all.objects[i]);
		struct candidate *candidate;
		bool is_unanswered;

		if (node->ready == NODE_READY_TRUE) {
			lifecycle_remove_shutdown_taint(r, node);
			continue;
		}
		candidate = map_get(&c->candidates, node->object.uid);
		if (!candidate) {
			mutex_lock(&c->mu);
			candidate = map_add(&c->candidates, node->object.uid, sizeof(*candidate));
			mutex_unlock(&c->mu);
			candidate->now.due_mono_ns = first_due_ns(c, node);
			candidate->now.deletable_boot_ns = CLOCK_FOREVER;
		}
		candidate->round = c->n_rounds;
		r->checks[r->n_checks++] = (struct node_check){ node, candidate };
		/* The last look left open whether the machine exists: the whole look failed, or one
		 * of several APIs did not answer. */
		is_unanswered = candidate->now.n_failures > 0 ||
		                (candidate->now.n_looks > 0 &&
		                 candidate->now.presence == PRESENCE_UNKNOWN);
		if (due == LIFECYCLE_ALL_DUE || (due == LIFECYCLE_FAILED_DUE && is_unanswered))
			candidate->now.due_mono_ns = 0;
	}
	/* the others are gone or Ready */
	WITH_LOCK(&c->mu);
	map_free_obsolete(&c->candidates, is_of_earlier_round, &c->n_rounds, free);
}

static bool
is_due(const struct round *r, const struct node_check *check)
{
	return check->candidate->now.due_mono_ns <= clock_mono(r->c->env->clock);
}

/* Asks one question about all candidates that are due, then decides about each. The breaker has to
 * know how many nodes would be deleted before the first of them is. */
static void
lifecycle_check_due(struct round *r)
{
	struct node_check *due = arena_calloc(r->call->arena, r->n_checks + 1, sizeof(*due));
	size_t n = 0;

	for (size_t i = 0; i < r->n_checks; i++) {
		if (is_due(r, &r->checks[i]))
			due[n++] = r->checks[i];
	}
	if (n == 0)
		return;
	lifecycle_check_candidates(r, due, n);
	lifecycle_count_proven(r);
	for (size_t i = 0; i < n; i++) {
		if (is_due(r, &due[i])) /* not postponed */
			lifecycle_decide(r, &due[i]);
	}
	/* Other threads see a copy, so they never wait for a round, which may take long. */
	WITH_LOCK(&r->c->mu);
	for (size_t i = 0; i < r->n_checks; i++)
		r->checks[i].candidate->shown = r->checks[i].candidate->now;
}

/* Returns when the next round is due (mono). */
static int64_t
lifecycle_round(struct lifecycle_controller *c, struct arena *arena, enum lifecycle_due due)
{
	CLEANUP(store_list_free) struct store_list all = store_list(c->env->nodes);
	struct call call = env_call(c->env, arena, LOOKUP_WORK_TIMEOUT_S * NS_PER_SEC);
	struct round r = { .c = c, .call = &call, .all = all };
	int64_t begun_ns = clock_mono(c->env->clock), now_ns = clock_boot(c->env->clock), next_ns;
	const struct guard_config *guard = &c->config.guard;
	size_t n_kept = 0;

	call.dry = dry_item_new(c->env, "node", STR_EMPTY, STR_EMPTY, arena);
	c->n_rounds++;

	/* The deletions of the previous leader are not recorded anywhere. If they counted as none,
	 * and the leader changed every minute, each leader could delete breaker_min nodes. */
	if (c->config.may_follow_crash && now_ns - c->began_boot_ns <= guard->breaker_window_ns)
		r.n_assumed = guard->breaker_min;
	for (size_t i = 0; i < c->n_deletions; i++) {
		if (c->deletions_boot_ns[i] >= now_ns - guard->breaker_window_ns)
			c->deletions_boot_ns[n_kept++] = c->deletions_boot_ns[i];
	}
	c->n_deletions = n_kept;

	lifecycle_collect(&r, due);
	lifecycle_check_due(&r);
	metric_observe(metric_of(&round_seconds),
	               clock_seconds(clock_mono(c->env->clock) - begun_ns));

	next_ns = CLOCK_FOREVER;
	if (r.must_retry)
		next_ns = clock_deadline(clock_mono(c->env->clock), LIFECYCLE_RETRY_NS);
	for (size_t i = 0; i < r.n_checks; i++)
		next_ns = clock_earlier(next_ns, r.checks[i].candidate->now.due_mono_ns);
	return next_ns;
}

/* ---- the thread ---- */

/* Sleeps until the next look is due or a node changes. *ret says which candidates are due now,
 * whatever their due_mono_ns is. Returns false when cancelled. */
static bool
lifecycle_wait(struct lifecycle_controller *c, int64_t due_ns, enum lifecycle_due *ret)
{
	int64_t quiet_at = clock_deadline(clock_mono(c->env->clock), quiet_ns);
	bool is_quiet = false;
	WITH_LOCK(&c->mu);

	while (!c->is_dirty && !cancel_is_fired(c->env->cancel) &&
	       clock_mono(c->env->clock) < due_ns) {
		bool is_late = !clock_wait(c->env->clock, &c->changed, &c->mu,
		                           is_quiet || due_ns < quiet_at ? due_ns : quiet_at);

		if (is_late && !is_quiet) {
			is_quiet = true;
			mutex_unlock(&c->mu);
			lookup_forget(c->env->lookup);
			thread_trim();
			mutex_lock(&c->mu);
		}
	}
	*ret = c->due;
	c->due = LIFECYCLE_NONE_DUE;
	c->is_dirty = false;
	return !cancel_is_fired(c->env->cancel);
}

void
lifecycle_controller_wake(struct lifecycle_controller *c, enum lifecycle_due due)
{
	WITH_LOCK(&c->mu);

	c->is_dirty = true;
	if (due > c->due)
		c->due = due;
	cond_signal(&c->changed);
}

static void *
lifecycle_thread(void *arg)
{
	struct lifecycle_controller *c = arg;
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct call call = env_call(c->env, &arena, CLOCK_FOREVER);
	enum lifecycle_due due = LIFECYCLE_NONE_DUE;
	struct error err;
	int64_t next_ns;
	WITH_WAKE(c->env->cancel, &c->mu, &c->changed);

	if (!store_wait_synced(c->env->nodes, &call, &err))
		return NULL;
	do {
		watchdog_promise(clock_deadline(clock_mono(c->env->clock), WATCHDOG_WORK_NS));
		c->is_working = true;
		next_ns = lifecycle_round(c, &arena, due);
		settling_note(c->env->settling, SETTLING_LIFECYCLE);
		c->is_working = false;
		arena_reset(&arena);
		watchdog_promise(CLOCK_FOREVER);
		if (!cancel_sleep(c->env->cancel, c->env->clock, coalesce_ns, &err))
			break;
	} while (lifecycle_wait(c, next_ns, &due));
	return NULL;
}

/* ---- wiring ---- */

/* Any thread: which node changed does not matter, since a round goes over all of them. */
static void
lifecycle_on_change(void *arg, const struct object *old, const struct object *new)
{
	struct lifecycle_controller *c = arg;

	if (!new)
		node_errors_forget(c->env->node_errors, old->key);
	lifecycle_controller_wake(c, LIFECYCLE_NONE_DUE);
}

struct lifecycle_controller *
lifecycle_controller_new(struct controller_env *env, const struct lifecycle_config *config)
{
	struct lifecycle_controller *c = xcalloc(1, sizeof(*c));

	*c = (struct lifecycle_controller){ .env = env,
		                            .config = *config,
		                            .candidates = MAP_OF(struct candidate, uid),
		                            .began_boot_ns = clock_boot(env->clock) };
	mutex_init(&c->mu);
	cond_init(&c->changed);
	store_add_handler(env->nodes, (struct store_handler){ lifecycle_on_change, c });
	lifecycle_start_counters();
	metrics_on_scrape(set_held_nodes, c);
	thread_start(&c->thread, "lifecycle", lifecycle_thread, c);
	return c;
}

/* ---- what other threads see ---- */

/* With mu held. False: the node has not been looked at. */
static bool
describe_candidate(struct lifecycle_controller *c, struct arena *arena, const struct object *node,
                   struct lifecycle_candidate *ret)
{
	const struct candidate *candidate = map_get(&c->candidates, node->uid);
	const struct candidate_state *shown = candidate ? &candidate->shown : NULL;
	int64_t now_ns = clock_boot(c->env->clock);

	if (!shown || shown->n_looks + shown->n_failures == 0)
		return false;
	*ret = (struct lifecycle_candidate){
		.name = arena_str(arena, node->key),
		.uid = arena_str(arena, node->uid),
		.presence = shown->presence,
		.outcome = shown->outcome,
		.hold_reason = shown->hold_reason,
		.n_looks = shown->n_looks,
		.n_failures = shown->n_failures,
		.n_absent = shown->track.n_absent,
		.is_deleted = shown->is_deleted,
		.looked_ago_ns = shown->n_looks > 0 ? now_ns - shown->looked_boot_ns : 0,
		.absent_for_ns = shown->track.n_absent > 0 ? now_ns - shown->track.first_boot_ns
		                                           : 0,
		.next_look_in_ns = clock_left(clock_mono(c->env->clock), shown->due_mono_ns),
		.deletable_in_ns = clock_left(now_ns, shown->deletable_boot_ns),
	};
	return true;
}

size_t
lifecycle_controller_candidates(struct lifecycle_controller *c, struct arena *arena,
                                struct lifecycle_candidate **ret)
{
	CLEANUP(store_list_free) struct store_list all = store_list(c->env->nodes);
	size_t n = 0;
	WITH_LOCK(&c->mu);

	*ret = arena_calloc(arena, c->candidates.count + 1, sizeof(**ret));
	for (size_t i = 0; i < all.n && n < c->candidates.count; i++)
		n += describe_candidate(c, arena, all.objects[i], &(*ret)[n]);
	return n;
}

bool
lifecycle_controller_candidate(struct lifecycle_controller *c, struct arena *arena, struct str name,
                               struct lifecycle_candidate *ret)
{
	CLEANUP(object_unrefp) struct object *node = store_get(c->env->nodes, name);
	WITH_LOCK(&c->mu);

	return node && describe_candidate(c, arena, node, ret);
}

bool
lifecycle_controller_is_working(const struct lifecycle_controller *c)
{
	return c->is_working;
}

void
lifecycle_controller_free(struct lifecycle_controller *c)
{
	if (!c)
		return;
	thread_join(c->thread);
	metrics_off_scrape(set_held_nodes, c);
	map_free_all(&c->candidates, free);
	free(c->deletions_boot_ns);
	cond_destroy(&c->changed);
	mutex_destroy(&c->mu);
	free(c);
}
