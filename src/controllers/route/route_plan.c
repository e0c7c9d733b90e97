/* controllers/route/route_plan.c: compares the routes of the cloud with the pod CIDRs of the nodes;
 * see route_plan.h.
 *
 * Two tables make this linear: routes by "node CIDR", and nodes by name. A blackhole counts as a
 * missing route: it is removed, and the route that it stood for is created in the same run, after
 * the removal. (Upstream notices that one period later; our next run may be an hour away.) An
 * unfinished route also counts as missing, but stays where it is wanted, and its creation is
 * requested again.
 */
#include "controllers/route/route_plan.h"

#include "base/map.h"

enum action {
	ACTION_KEEP = 1,
	ACTION_ADD,
	ACTION_UPDATE,
};

/* What is planned for one pod CIDR of one node. */
struct entry {
	enum action action;
	struct route_need need;
};

struct planner {
	struct arena *arena;
	const struct route_node *nodes;
	size_t n_nodes;
	const struct route *routes;
	size_t n_routes;
	bool compares_addresses;
	struct map by_target; /* "node CIDR" -> the first of these routes that works */
	struct map targets;   /* name of a node that any route leads to -> the route */
	struct map frozen;    /* name of a frozen node -> the node */
	struct map entries;   /* "node CIDR" -> struct entry */
	struct map live;      /* CIDR of a node -> struct entry */
	struct map needed;    /* CIDR for which a route is to be created -> struct entry */
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

/* The key of a route. Neither a node's name nor a CIDR contains a blank. */
static struct str
route_key(struct planner *p, struct str node, struct str cidr)
{
	return arena_printf(p->arena, "%" STR_FMT " %" STR_FMT, STR_ARG(node), STR_ARG(cidr));
}

static void
index_routes(struct planner *p)
{
	for (size_t i = 0; i < p->n_routes; i++) {
		const struct route *route = &p->routes[i];
		struct str key = route_key(p, route->target_node, route->destination_cidr);

		if (route->target_node.len == 0)
			continue;
		map_put(&p->targets, route->target_node, (void *)(uintptr_t)route);
		if (!route->is_blackhole && !route->is_unfinished && !map_get(&p->by_target, key))
			map_put(&p->by_target, key, (void *)(uintptr_t)route);
	}
}

static bool
has_address(const struct route *route, const struct address *address)
{
	for (size_t i = 0; i < route->n_target_addresses; i++) {
		if (str_eq(route->target_addresses[i].type, address->type) &&
		    str_eq(route->target_addresses[i].address, address->address))
			return true;
	}
	return false;
}

/* Compares them as sets, because their order has no meaning. */
static bool
are_addresses_equal(const struct route_node *node, const struct route *route)
{
	if (node->n_addresses != route->n_target_addresses)
		return false;
	for (size_t i = 0; i < node->n_addresses; i++) {
		if (!has_address(route, &node->addresses[i]))
			return false;
	}
	return true;
}

static enum action
decide_route(const struct planner *p, const struct route_node *node, struct str key)
{
	const struct route *route = map_get(&p->by_target, key);

	if (node->is_frozen)
		return ACTION_KEEP;
	if (!route)
		return ACTION_ADD;
	if (!p->compares_addresses || are_addresses_equal(node, route))
		return ACTION_KEEP;
	return ACTION_UPDATE;
}

static void
plan_one(struct planner *p, size_t node, struct str cidr, struct route_plan *plan)
{
	struct str key = route_key(p, p->nodes[node].name, cidr);
	struct entry *entry = ARENA_NEW(p->arena, struct entry);

	entry->action = decide_route(p, &p->nodes[node], key);
	entry->need = (struct route_need){ node, cidr };
	map_put(&p->live, cidr, entry);
	if (map_put(&p->entries, key, entry) || entry->action == ACTION_KEEP)
		return;
	map_put(&p->needed, cidr, entry);
	plan->create[plan->n_create++] = entry->need;
}

static void
plan_creations(struct planner *p, struct route_plan *plan)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n_nodes; i++) {
		n += p->nodes[i].n_pod_cidrs;
		if (p->nodes[i].is_frozen)
			map_put(&p->frozen, p->nodes[i].name, (void *)(uintptr_t)&p->nodes[i]);
	}
	plan->create = arena_calloc(p->arena, n, sizeof(plan->create[0]));
	for (size_t i = 0; i < p->n_nodes; i++) {
		for (size_t j = 0; j < p->nodes[i].n_pod_cidrs; j++)
			plan_one(p, i, p->nodes[i].pod_cidrs[j], plan);
	}
}

static bool
is_ours(const struct route *route, const struct ip_net *cidrs, size_t n)
{
	struct ip_net net;

	return !route->is_fixed && ip_net_parse(route->destination_cidr, &net) &&
	       ip_net_is_within_any(&net, cidrs, n);
}

/* Is this route as it should be, or will it be after its creation is requested again? */
static bool
stays(const struct route *route, const struct entry *entry)
{
	if (!entry || route->is_blackhole)
		return false;
	return entry->action == ACTION_KEEP ||
	       (entry->action == ACTION_ADD && route->is_unfinished);
}

/* Does the route belong to a frozen node? If a node needs the destination, the route belongs to
 * that node, otherwise to the node to whose machine it leads. */
static bool
is_frozen(const struct planner *p, const struct route *route)
{
	const struct entry *live = map_get(&p->live, route->destination_cidr);

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
		const struct entry *entry = map_get(&p->entries,
		                                    route_key(p, route->target_node,
		                                              route->destination_cidr));

		if (!is_ours(route, cidrs, n_cidrs))
			continue;
		plan->n_ours++;
		if (stays(route, entry) || is_frozen(p, route))
			continue;
		plan->is_expected[plan->n_remove] = map_get(&p->live, route->destination_cidr) !=
		                                    NULL;
		plan->remove[plan->n_remove++] = i;
		if (map_get(&p->needed, route->destination_cidr))
			plan->removes_first = true;
	}
}

static void
plan_conditions(struct planner *p, struct route_plan *plan)
{
	plan->conditions = arena_calloc(p->arena, p->n_nodes, sizeof(plan->conditions[0]));
	for (size_t i = 0; i < p->n_nodes; i++) {
		if (p->nodes[i].is_frozen)
			plan->conditions[i] = ROUTE_CONDITION_UNTOUCHED;
		else if (p->nodes[i].n_pod_cidrs > 0)
			plan->conditions[i] = ROUTE_CONDITION_BY_RESULT;
		else if (map_get(&p->targets, p->nodes[i].name))
			plan->conditions[i] = ROUTE_CONDITION_NOT_CREATED;
		else
			plan->conditions[i] = ROUTE_CONDITION_UNTOUCHED;
	}
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
		.n_nodes = n_nodes,
		.routes = routes,
		.n_routes = n_routes,
		.compares_addresses = compares_addresses,
	};
	struct route_plan plan = { 0 };

	index_routes(&p);
	plan_creations(&p, &plan);
	plan_removals(&p, cluster_cidrs, n_cluster_cidrs, &plan);
	plan_conditions(&p, &plan);
	return plan;
}
