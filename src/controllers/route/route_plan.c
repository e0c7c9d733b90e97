/* controllers/route/route_plan.c: decides claims, compares the routes of the cloud with the pod
 * CIDRs of the nodes, and decides removals; see route_plan.h. */
#include "controllers/route/route_plan.h"

#include <stdlib.h>

#include "base/map.h"

/* ---- claims ----
 *
 * Two networks are either nested or disjoint, so claims sorted by address, wider ones first, form a
 * tree in depth-first order: the claims that contain a claim are found by following outer. A
 * granted claim is entered as inner in all claims that contain it, so both kinds of overlap are
 * found without comparing each claim with each other.
 */

static int
compare_networks(const void *a, const void *b)
{
	const struct route_claim *x = *(struct route_claim *const *)a;
	const struct route_claim *y = *(struct route_claim *const *)b;
	int order = (int)ip_family(&x->net.ip) - (int)ip_family(&y->net.ip);

	if (order == 0)
		order = ip_cmp(&x->net.ip, &y->net.ip);
	if (order == 0)
		order = (int)x->net.bits - (int)y->net.bits;
	return order;
}

bool
route_claim_is_older(const struct route_claim *a, const struct route_claim *b)
{
	if (a->created_wall_ns != b->created_wall_ns)
		return a->created_wall_ns < b->created_wall_ns;
	return str_cmp(a->uid, b->uid) < 0;
}

static int
compare_precedence(const void *a, const void *b)
{
	const struct route_claim *x = *(struct route_claim *const *)a;
	const struct route_claim *y = *(struct route_claim *const *)b;

	if (x->is_routed != y->is_routed)
		return x->is_routed ? -1 : 1;
	return route_claim_is_older(x, y) ? -1 : route_claim_is_older(y, x);
}

/* Finds for each claim the narrowest one that it is within. */
static void
nest_claims(struct route_claim *claims[], size_t n)
{
	qsort(claims, n, sizeof(claims[0]), compare_networks);
	for (size_t i = 1; i < n; i++) {
		struct route_claim *outer = claims[i - 1];

		while (outer && !ip_net_is_within(&claims[i]->net, &outer->net))
			outer = outer->outer;
		claims[i]->outer = outer;
	}
}

/* Returns a granted claim that overlaps with this one, inside of it or around it; NULL: none. */
static const struct route_claim *
find_granted(const struct route_claim *claim)
{
	if (claim->inner)
		return claim->inner;
	for (const struct route_claim *c = claim->outer; c; c = c->outer) {
		if (c->is_granted)
			return c;
	}
	return NULL;
}

static void
grant(struct route_claim *claim)
{
	claim->is_granted = true;
	for (struct route_claim *c = claim; c && !c->inner; c = c->outer)
		c->inner = claim;
}

void
route_claims_decide(struct arena *arena, struct route_claim claims[], size_t n)
{
	struct route_claim **sorted = arena_calloc(arena, n + 1, sizeof(struct route_claim *));
	struct ip last;

	for (size_t i = 0; i < n; i++) {
		ip_net_span(&claims[i].net, &claims[i].net.ip, &last);
		sorted[i] = &claims[i];
	}
	nest_claims(sorted, n);
	qsort(sorted, n, sizeof(sorted[0]), compare_precedence);
	for (size_t i = 0; i < n; i++) {
		struct route_claim *claim = sorted[i];

		if (!claim->is_routed)
			claim->lost_to = find_granted(claim);
		if (!claim->lost_to)
			grant(claim);
	}
}

/* ---- the plan ----
 *
 * Two tables make this linear: routes by "node CIDR", and nodes by name. A blackhole counts as a
 * missing route: it is removed, and the route that it stood for is created in the same run, after
 * the removal. (Upstream notices that one period later; our next run may be an hour away.) An
 * unfinished route also counts as missing, but stays where it is wanted, and its creation is
 * requested again.
 */

enum action {
	ACTION_KEEP = 1,
	ACTION_ADD,
	ACTION_UPDATE,
};

/* What is planned for one pod CIDR of one node. */
struct planned_cidr {
	enum action action;
	struct route_need need;
};

struct planner {
	struct arena *arena;
	const struct route_node *nodes;
	const struct route *routes;
	size_t n_routes;
	bool compares_addresses;
	struct map by_target; /* "node CIDR" -> the first of these routes that works */
	struct map targets;   /* name of a node that any route leads to -> the route */
	struct map frozen;    /* name of a frozen node -> the node */
	struct map entries;   /* "node CIDR" -> struct planned_cidr */
	struct map live;      /* CIDR of a node -> struct planned_cidr */
	struct map needed;    /* CIDR for which a route is to be created -> struct planned_cidr */
};

static void
planner_fini(struct planner *p)
{
	map_fini(&p->by_target);
	map_fini(&p->targets);
	map_fini(&p->frozen);
	map_fini(&p->entries);
	map_fini(&p->live);
	map_fini(&p->needed);
}

struct str
route_key(struct arena *arena, struct str node, struct str cidr)
{
	return arena_printf(arena, "%" STR_FMT " %" STR_FMT, STR_ARG(node), STR_ARG(cidr));
}

static void
make_tables(struct planner *p, size_t n_nodes)
{
	for (size_t i = 0; i < p->n_routes; i++) {
		const struct route *route = &p->routes[i];
		struct str key = route_key(p->arena, route->target_node, route->destination_cidr);

		if (route->target_node.len == 0)
			continue;
		map_put(&p->targets, route->target_node, (void *)(uintptr_t)route);
		if (!route->is_blackhole && !route->is_unfinished && !map_get(&p->by_target, key))
			map_put(&p->by_target, key, (void *)(uintptr_t)route);
	}
	for (size_t i = 0; i < n_nodes; i++) {
		if (p->nodes[i].is_frozen)
			map_put(&p->frozen, p->nodes[i].name, (void *)(uintptr_t)&p->nodes[i]);
	}
}

/* Compares them as sets, because their order has no meaning. */
static bool
are_addresses_equal(const struct route_node *node, const struct route *route)
{
	if (node->n_addresses != route->n_target_addresses)
		return false;
	for (size_t i = 0; i < node->n_addresses; i++) {
		size_t k = 0;

		while (k < route->n_target_addresses &&
		       !address_eq(&route->target_addresses[k], &node->addresses[i]))
			k++;
		if (k == route->n_target_addresses)
			return false;
	}
	return true;
}

static void
plan_one(struct planner *p, size_t i, struct str cidr, struct route_plan *plan)
{
	const struct route_node *node = &p->nodes[i];
	struct str key = route_key(p->arena, node->name, cidr);
	const struct route *route = map_get(&p->by_target, key);
	struct planned_cidr *entry = ARENA_NEW(p->arena, struct planned_cidr);

	entry->need = (struct route_need){ i, cidr };
	if (node->is_frozen)
		entry->action = ACTION_KEEP;
	else if (!route)
		entry->action = ACTION_ADD;
	else if (p->compares_addresses && !are_addresses_equal(node, route))
		entry->action = ACTION_UPDATE;
	else
		entry->action = ACTION_KEEP;
	map_put(&p->live, cidr, entry);
	if (map_put(&p->entries, key, entry) || entry->action == ACTION_KEEP)
		return;
	map_put(&p->needed, cidr, entry);
	plan->create[plan->n_create++] = entry->need;
}

/* Does the route belong to a frozen node? If a node needs the destination, the route belongs to
 * that node, otherwise to the node to whose machine it leads. */
static bool
is_frozen(const struct planner *p, const struct route *route)
{
	const struct planned_cidr *live = map_get(&p->live, route->destination_cidr);

	if (live)
		return p->nodes[live->need.node].is_frozen;
	return map_get(&p->frozen, route->target_node) != NULL;
}

static void
plan_removals(struct planner *p, const struct ip_net *cidrs, size_t n_cidrs,
              struct route_plan *plan)
{
	plan->remove = arena_calloc(p->arena, p->n_routes, sizeof(plan->remove[0]));
	plan->is_expected = arena_calloc(p->arena, p->n_routes, sizeof(plan->is_expected[0]));
	plan->removes_first = p->compares_addresses;
	for (size_t i = 0; i < p->n_routes; i++) {
		const struct route *route = &p->routes[i];
		const struct planned_cidr *entry = map_get(&p->entries,
		                                           route_key(p->arena, route->target_node,
		                                                     route->destination_cidr));
		struct ip_net net;
		bool stays;

		if (route->is_fixed || !ip_net_parse(route->destination_cidr, &net) ||
		    !ip_net_is_within_any(&net, cidrs, n_cidrs))
			continue;
		plan->n_ours++;
		/* it is as it should be, or will be after its creation is requested again */
		stays = entry && !route->is_blackhole &&
		        (entry->action == ACTION_KEEP ||
		         (entry->action == ACTION_ADD && route->is_unfinished));
		if (stays || is_frozen(p, route))
			continue;
		plan->is_expected[plan->n_remove] = map_get(&p->live, route->destination_cidr) !=
		                                    NULL;
		plan->remove[plan->n_remove++] = i;
		if (map_get(&p->needed, route->destination_cidr))
			plan->removes_first = true;
	}
}

static enum route_condition
condition_of(const struct planner *p, const struct route_node *node)
{
	if (node->is_frozen)
		return ROUTE_CONDITION_UNTOUCHED;
	if (node->n_pod_cidrs > 0)
		return ROUTE_CONDITION_BY_RESULT;
	return map_get(&p->targets, node->name) ? ROUTE_CONDITION_NOT_CREATED
	                                        : ROUTE_CONDITION_UNTOUCHED;
}

struct route_plan
route_plan(struct arena *arena, const struct route_node nodes[], size_t n_nodes,
           const struct route routes[], size_t n_routes, const struct ip_net cluster_cidrs[],
           size_t n_cluster_cidrs, bool compares_addresses)
{
	CLEANUP(planner_fini)
	struct planner p = {
		.arena = arena,
		.nodes = nodes,
		.routes = routes,
		.n_routes = n_routes,
		.compares_addresses = compares_addresses,
	};
	struct route_plan plan = { 0 };
	size_t n = 0;

	make_tables(&p, n_nodes);

	/* creations, then removals, which depend on them */
	for (size_t i = 0; i < n_nodes; i++)
		n += nodes[i].n_pod_cidrs;
	plan.create = arena_calloc(arena, n, sizeof(plan.create[0]));
	for (size_t i = 0; i < n_nodes; i++) {
		for (size_t j = 0; j < nodes[i].n_pod_cidrs; j++)
			plan_one(&p, i, nodes[i].pod_cidrs[j], &plan);
	}
	plan_removals(&p, cluster_cidrs, n_cluster_cidrs, &plan);

	plan.conditions = arena_calloc(arena, n_nodes, sizeof(plan.conditions[0]));
	for (size_t i = 0; i < n_nodes; i++)
		plan.conditions[i] = condition_of(&p, &nodes[i]);
	return plan;
}

/* ---- the breaker of removals ---- */

enum route_removal
route_removal_decide(const struct route_removal_facts *f)
{
	bool is_too_many = f->n_going > ROUTE_BREAKER_MIN &&
	                   (uint64_t)f->n_going * 100 >
	                           (uint64_t)f->n_table * ROUTE_BREAKER_PERCENT;

	if (f->n_nodes == 0)
		return ROUTE_REMOVAL_NO_NODES;
	if (f->is_expected || !is_too_many)
		return ROUTE_REMOVAL_DONE;
	return f->agreed_ns < ROUTE_BREAKER_AGREEMENT_S * NS_PER_SEC ? ROUTE_REMOVAL_TOO_MANY
	                                                             : ROUTE_REMOVAL_DONE;
}
