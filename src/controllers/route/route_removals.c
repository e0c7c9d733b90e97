/* controllers/route/route_removals.c: holds removals back that may be a mistake.
 *
 * This is the history on which the decision about a removal (route_plan.h) depends: since when runs
 * have wanted it, how many routes were removed recently, and which nodes were announced as leaving
 * before they disappeared. A removal is identified by the destination and the name of its route.
 * Its history ends with the first run that does not want it.
 *
 * A route names its destination, but not always its node: when a Node is gone, a provider may not
 * know to which node a machine belonged. So the pod CIDRs of nodes that left are stored until no
 * route leads to them.
 */
#include "base/alloc.h"
#include "base/array.h"
#include "base/event_kind.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/map.h"
#include "base/thread.h"
#include "controllers/host.h"
#include "controllers/route/route_internal.h"

EVENT_KIND(
	held_event, ROUTE_COMPONENT, "RouteRemovalsHeld", true, "Pod or Namespace kube-system",
	"Routes that lead to no node are not removed yet: too many would be removed together, or the cluster shows no nodes. A second event says that a route could not be created meanwhile, because the table may be full of held routes.");

/* A removal that was wanted in the last run. */
struct wanted_removal {
	struct str key; /* "destination name" */
	uint64_t run;   /* the last run that wanted it; the first run has 1 */
	int64_t since_boot_ns;
};

/* The cloud was asked for this removal, and did not confirm it. */
struct unconfirmed_removal {
	struct str key; /* "destination name" */
};

/* The node with this pod CIDR was announced as leaving, and is gone. */
struct expected_removal {
	struct str destination;
};

void
route_removals_init(struct route_removals *rr, struct controller_env *env)
{
	*rr = (struct route_removals){ .env = env,
		                       .wanted = MAP_OF(struct wanted_removal, key),
		                       .unconfirmed = MAP_OF(struct unconfirmed_removal, key),
		                       .expected = MAP_OF(struct expected_removal, destination) };
	mutex_init(&rr->mu);
}

void
route_removals_fini(struct route_removals *rr)
{
	map_free_all(&rr->wanted, free);
	map_free_all(&rr->unconfirmed, free);
	map_free_all(&rr->expected, free);
	free(rr->done_boot_ns);
	mutex_destroy(&rr->mu);
}

/* ---- expected removals ---- */

void
route_removals_expect(struct route_removals *rr, const struct node *node)
{
	WITH_LOCK(&rr->mu);

	for (uint32_t i = 0; i < node->n_pod_cidrs && node_is_leaving(node); i++)
		map_add(&rr->expected, node->pod_cidrs[i], sizeof(struct expected_removal));
}

void
route_removals_claim(struct route_removals *rr, const struct node *node)
{
	WITH_LOCK(&rr->mu);

	for (uint32_t i = 0; i < node->n_pod_cidrs && rr->expected.count > 0; i++)
		free(map_remove(&rr->expected, node->pod_cidrs[i]));
}

/* Marks those of the plan, and forgets destinations to which no route exists any more. */
static void
mark_expected(struct route_removals *rr, const struct route *routes, size_t n_routes,
              struct route_plan *plan)
{
	struct map kept = MAP_OF(struct expected_removal, destination);
	WITH_LOCK(&rr->mu);

	for (size_t i = 0; i < plan->n_remove; i++) {
		if (map_get(&rr->expected, routes[plan->remove[i]].destination_cidr))
			plan->is_expected[i] = true;
	}
	for (size_t i = 0; i < n_routes && rr->expected.count > 0; i++) {
		struct expected_removal *e = map_remove(&rr->expected, routes[i].destination_cidr);

		if (e)
			map_put(&kept, e->destination, e);
	}
	map_free_all(&rr->expected, free);
	rr->expected = kept;
}

/* ---- for how long, and how many ---- */

static struct str
removal_key(struct arena *arena, const struct route *route)
{
	return arena_printf(arena, "%" STR_FMT " %" STR_FMT, STR_ARG(route->destination_cidr),
	                    STR_ARG(route->name));
}

/* Returns since when runs have wanted this removal (boot). */
static int64_t
wanted_since(struct route_removals *rr, struct arena *arena, const struct route *route,
             int64_t now_ns)
{
	struct wanted_removal *wanted = map_add(&rr->wanted, removal_key(arena, route),
	                                        sizeof(*wanted));

	if (wanted->run == 0)
		wanted->since_boot_ns = now_ns;
	wanted->run = rr->n_runs;
	return wanted->since_boot_ns;
}

static bool
is_of_earlier_run(const void *track, const void *run)
{
	return ((const struct wanted_removal *)track)->run != *(const uint64_t *)run;
}

void
route_removals_note(struct route_removals *rr, const struct route_plan *plan, size_t i)
{
	WITH_LOCK(&rr->mu);

	if (!plan->is_expected[i])
		ARRAY_PUSH(rr->done_boot_ns, rr->n_done, rr->done_cap, clock_boot(rr->env->clock));
}

void
route_removals_note_unconfirmed(struct route_removals *rr, struct arena *arena,
                                const struct route *routes, const struct route_plan *plan, size_t i)
{
	WITH_LOCK(&rr->mu);

	if (!plan->is_expected[i])
		map_add(&rr->unconfirmed, removal_key(arena, &routes[plan->remove[i]]),
		        sizeof(struct unconfirmed_removal));
}

/* A removal that was not confirmed was executed nevertheless if the route is no longer listed. */
static void
note_executed(struct route_removals *rr, struct arena *arena, const struct route *routes,
              size_t n_routes)
{
	WITH_LOCK(&rr->mu);

	for (size_t i = 0; i < n_routes && rr->unconfirmed.count > 0; i++)
		free(map_remove(&rr->unconfirmed, removal_key(arena, &routes[i])));
	for (size_t i = 0; i < rr->unconfirmed.count; i++)
		ARRAY_PUSH(rr->done_boot_ns, rr->n_done, rr->done_cap, clock_boot(rr->env->clock));
	map_free_all(&rr->unconfirmed, free);
}

/* Counts the removals that the breaker still has to count. */
static size_t
count_done(struct route_removals *rr, int64_t now_ns)
{
	size_t n = 0;
	WITH_LOCK(&rr->mu);

	for (size_t i = 0; i < rr->n_done; i++) {
		if (now_ns - rr->done_boot_ns[i] < ROUTE_BREAKER_WINDOW_S * NS_PER_SEC)
			rr->done_boot_ns[n++] = rr->done_boot_ns[i];
	}
	rr->n_done = n;
	return n;
}

/* ---- the decision ---- */

/* Decides each removal of the plan. The plan keeps those that are not held. */
static struct route_hold
decide_all(struct route_removals *rr, struct arena *arena, const struct route *routes,
           struct route_plan *plan, struct route_removal_facts facts)
{
	struct route_hold hold = { .routes = arena_calloc(arena, plan->n_remove + 1,
		                                          sizeof(const void *)),
		                   .due_mono_ns = CLOCK_FOREVER };
	int64_t now_ns = clock_boot(rr->env->clock), due_ns;
	size_t n_kept = 0;

	for (size_t i = 0; i < plan->n_remove; i++) {
		const struct route *route = &routes[plan->remove[i]];
		enum route_removal result;

		facts.is_expected = plan->is_expected[i];
		facts.agreed_ns = now_ns - wanted_since(rr, arena, route, now_ns);
		result = route_removal_decide(&facts);
		if (result == ROUTE_REMOVAL_DONE) {
			plan->is_expected[n_kept] = plan->is_expected[i];
			plan->remove[n_kept++] = plan->remove[i];
			continue;
		}
		hold.routes[hold.n++] = route;
		hold.why = result;
		if (result == ROUTE_REMOVAL_NO_NODES)
			continue;
		due_ns = clock_deadline(clock_mono(rr->env->clock),
		                        ROUTE_BREAKER_AGREEMENT_S * NS_PER_SEC - facts.agreed_ns);
		hold.due_mono_ns = clock_earlier(hold.due_mono_ns, due_ns);
	}
	plan->n_remove = n_kept;
	return hold;
}

struct route_hold
route_removals_hold(struct route_removals *rr, struct arena *arena, const struct route *routes,
                    size_t n_routes, struct route_plan *plan, size_t n_nodes)
{
	struct route_removal_facts facts = { .n_nodes = n_nodes };
	struct route_hold hold;
	size_t n_done;

	rr->n_runs++;
	note_executed(rr, arena, routes, n_routes);
	n_done = count_done(rr, clock_boot(rr->env->clock));
	facts.n_table = plan->n_ours + n_done;
	facts.n_going = n_done;
	mark_expected(rr, routes, n_routes, plan);
	for (size_t i = 0; i < plan->n_remove; i++)
		facts.n_going += !plan->is_expected[i];
	hold = decide_all(rr, arena, routes, plan, facts);
	/* the history of a removal that this run did not want has ended */
	map_free_obsolete(&rr->wanted, is_of_earlier_run, &rr->n_runs, free);
	return hold;
}

/* ---- events ---- */

static void
send_held_event(struct route_removals *rr, struct str text)
{
	struct event_object object = host_ourselves();

	recorder_event(rr->env->recorder, ROUTE_COMPONENT, &object, EVENT_WARNING,
	               held_event.reason, text);
	log_warn("routes are not removed yet", LOG_STR("reason", text));
}

void
route_removals_report(struct route_removals *rr, const struct route_hold *hold, size_t n_ours,
                      bool is_refused)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_EVENT_MESSAGE);

	if (hold->n == 0) {
		rr->is_hold_reported = rr->is_full_reported = false;
		return;
	}
	if (!rr->is_hold_reported) {
		buf_addf(&text, "%zu of %zu routes lead to no node, but are not removed: ", hold->n,
		         n_ours);
		if (hold->why == ROUTE_REMOVAL_NO_NODES)
			buf_add_c(&text, "the cluster shows no nodes at all");
		else
			buf_addf(
				&text,
				"more than %d and %d %% of them would be removed together. Those that stay without a node "
				"for %d minutes are removed then",
				ROUTE_BREAKER_MIN, ROUTE_BREAKER_PERCENT,
				ROUTE_BREAKER_AGREEMENT_S / 60);
		send_held_event(rr, buf_str(&text));
		rr->is_hold_reported = true;
	}
	if (is_refused && !rr->is_full_reported) {
		buf_reset(&text);
		buf_addf(
			&text,
			"A route could not be created while %zu routes that lead to no node are not removed: the table may be "
			"full. Remove them by hand, or wait for %d minutes",
			hold->n, ROUTE_BREAKER_AGREEMENT_S / 60);
		send_held_event(rr, buf_str(&text));
		rr->is_full_reported = true;
	}
}
