/* tests/simulation/foreign.c: what does not belong to ccmd stays as it is: the fields of Nodes and
 * Services that others write, and routes outside of the cluster's pod network.
 *
 * Routes within it are ccmd's, but it must not remove one that a Node has needed for five minutes,
 * or remove more than three within ten minutes that no Node needs, unless none has needed them for
 * five minutes (src/controllers/route/route_plan.h). */
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/json.h"
#include "world.h"

/* ---- fields ---- */

static bool
is_one_of(struct str text, const char *const list[])
{
	for (; *list; list++) {
		if (str_eq_c(text, *list))
			return true;
	}
	return false;
}

/* Are all members that are not ours in the other object, with the same value? */
static bool
has_members(yyjson_val *of, yyjson_val *in, const char *const ours[])
{
	yyjson_val *key, *value;
	size_t i, n;

	yyjson_obj_foreach(of, i, n, key, value)
	{
		if (!is_one_of(json_text(key), ours) &&
		    !yyjson_equals(value, json_key(in, json_text(key))))
			return false;
	}
	return true;
}

static bool
are_same_but(yyjson_val *a, yyjson_val *b, const char *const ours[])
{
	return has_members(a, b, ours) && has_members(b, a, ours);
}

/* An item of a list: taints have a key, conditions a type, finalizers are texts. */
static bool
is_our_item(yyjson_val *item)
{
	static const char *const ours[] = { "node.cloudprovider.kubernetes.io/uninitialized",
		                            "node.cloudprovider.kubernetes.io/shutdown",
		                            "NetworkUnavailable", FINALIZER, NULL };
	struct str name = STR_EMPTY;

	if (yyjson_is_str(item))
		name = json_text(item);
	else if (json_str(item, "key", &name) != JSON_FOUND)
		(void)json_str(item, "type", &name);
	return is_one_of(name, ours);
}

static bool
has_items(yyjson_val *of, yyjson_val *in)
{
	yyjson_val *item, *other;
	size_t i, n, j, m;

	yyjson_arr_foreach(of, i, n, item)
	{
		bool is_found = is_our_item(item);

		yyjson_arr_foreach(in, j, m, other)
		{
			is_found = is_found || yyjson_equals(item, other);
		}
		if (!is_found)
			return false;
	}
	return true;
}

static bool
are_items_same(yyjson_val *before, yyjson_val *after, const char *path)
{
	return has_items(json_at(before, path), json_at(after, path)) &&
	       has_items(json_at(after, path), json_at(before, path));
}

static const char *
changed_field(enum kube_model_kind kind, yyjson_val *before, yyjson_val *after)
{
	static const char *const none[] = { NULL };
	static const char *const spec[] = { "providerID", "taints", NULL };
	static const char *const labels[] = { "beta.kubernetes.io/instance-type",
		                              "node.kubernetes.io/instance-type",
		                              "failure-domain.beta.kubernetes.io/zone",
		                              "failure-domain.beta.kubernetes.io/region",
		                              "topology.kubernetes.io/zone",
		                              "topology.kubernetes.io/region",
		                              "instance.hetzner.cloud/provided-by",
		                              NULL };
	bool is_node = kind == KUBE_MODEL_NODE;

	if (!are_same_but(json_at(before, "metadata.labels"), json_at(after, "metadata.labels"),
	                  is_node ? labels : none))
		return "metadata.labels";
	if (!are_same_but(json_at(before, "metadata.annotations"),
	                  json_at(after, "metadata.annotations"), none))
		return "metadata.annotations";
	if (!are_same_but(json_at(before, "spec"), json_at(after, "spec"), is_node ? spec : none))
		return "spec";
	if (!are_items_same(before, after, "metadata.finalizers"))
		return "metadata.finalizers";
	if (!are_items_same(before, after, "spec.taints"))
		return "spec.taints";
	if (!are_items_same(before, after, "status.conditions"))
		return "status.conditions";
	return NULL;
}

void
foreign_check_write(const struct kube_model_change *c)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	const char *field;

	if (!c->before || !c->after ||
	    (c->before->kind != KUBE_MODEL_NODE && c->before->kind != KUBE_MODEL_SERVICE))
		return;
	field = changed_field(c->before->kind, object_json(&arena, c->before),
	                      object_json(&arena, c->after));
	if (field)
		fail("ccmd changes what others have written into %s of %" STR_FMT, field,
		     STR_ARG(c->before->name));
}

/* ---- routes ---- */

static bool
is_pod_route(const struct hetzner_route *route)
{
	return str_starts(route->destination, STR(POD_NETWORK));
}

static bool
has_route(const struct hetzner_network *network, const struct hetzner_route *route)
{
	for (size_t i = 0; i < network->n_routes; i++) {
		if (str_eq(network->routes[i].destination, route->destination) &&
		    str_eq(network->routes[i].gateway, route->gateway))
			return true;
	}
	return false;
}

static void
check_foreign_routes(const struct hetzner_network *of, const struct hetzner_network *in)
{
	for (size_t i = 0; i < of->n_routes; i++) {
		if (!is_pod_route(&of->routes[i]) && !has_route(in, &of->routes[i]))
			fail("ccmd changes the route to %" STR_FMT
			     ", which is not in the pod network",
			     STR_ARG(of->routes[i].destination));
	}
}

/* ---- removals of routes ---- */

#define AGREED_NS (5 * MINUTE_NS)
#define LATE_NS (30 * NS_PER_SEC) /* a replica may have measured a time so much later */

enum {
	BREAKER_MIN = 3,
};

/* When a pod CIDR was given, lost or routed the last time, or an address in the network was. */
struct seen {
	char text[24];
	int64_t at_ns;
	bool was_announced; /* the Node that had the CIDR was to be deleted */
	char gateway[20];   /* the address in the network of the Node that had the CIDR last */
};

static struct seen seen[128];
static size_t n_seen;

/* A route that a replica has removed, and that no Node needed. */
static struct {
	unsigned replica, incarnation;
	int64_t at_ns;
} removals[64]; /* a ring */
static size_t n_removals;

/* NULL if there is no more room. */
static struct seen *
seen_of(struct str text)
{
	for (size_t i = 0; i < n_seen; i++) {
		if (str_eq_c(text, seen[i].text))
			return &seen[i];
	}
	if (n_seen == ARRAY_LEN(seen))
		return NULL;
	snprintf(seen[n_seen].text, sizeof(seen[0].text), "%" STR_FMT, STR_ARG(text));
	return &seen[n_seen++];
}

static void
note_seen(struct str text, bool was_announced)
{
	struct seen *one = text.len > 0 ? seen_of(text) : NULL;

	if (!one)
		return;
	one->at_ns = schedule_now_ns();
	one->was_announced = was_announced;
}

/* The Node with this provider ID loses the CIDR. */
static void
note_gateway(struct str cidr, struct str provider_id)
{
	int64_t server = world.sim->number_of(provider_id);
	struct seen *one = seen_of(cidr);

	if (!one)
		return;
	one->gateway[0] = 0;
	for (size_t i = 0; i < world.n_machines; i++) {
		if (server != 0 && world.machines[i].server == server)
			snprintf(one->gateway, sizeof(one->gateway), "%s", world.machines[i].ip);
	}
}

static int64_t
age_of(struct str text)
{
	const struct seen *one = seen_of(text);

	return one ? schedule_now_ns() - one->at_ns : 0;
}

void
foreign_note_node(const struct kube_model_change *c)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	yyjson_val *before = c->before ? object_json(&arena, c->before) : NULL;
	yyjson_val *after = c->after ? object_json(&arena, c->after) : NULL;
	struct str old = STR_EMPTY, new = STR_EMPTY;

	if (before)
		old = json_text_at(&arena, before, "spec.podCIDR");
	if (after)
		new = json_text_at(&arena, after, "spec.podCIDR");
	if (before && after && str_eq(old, new) &&
	    str_eq(json_text_at(&arena, before, "spec.providerID"),
	           json_text_at(&arena, after, "spec.providerID")))
		return;
	note_seen(new, false);
	note_seen(old, c->before && str_contains(c->before->json, STR(AUTOSCALER_TAINT)));
	if (old.len > 0)
		note_gateway(old, json_text_at(&arena, before, "spec.providerID"));
}

void
foreign_note_server(const struct hetzner_change *c)
{
	const struct hetzner_server *ends[] = { (const struct hetzner_server *)c->before,
		                                (const struct hetzner_server *)c->after };

	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		for (size_t k = 0; ends[i] && k < ends[i]->n_networks; k++)
			note_seen(ends[i]->networks[k].ip, false);
	}
}

/* The Node that has this pod CIDR, and runs on this machine of the network; with another gateway
 * any Node that has it. NULL: there is none. */
static const struct kube_model_object *
node_of_route(struct str cidr, struct str gateway)
{
	for (size_t i = 0; i < world.n_machines; i++) {
		CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
		const struct machine *m = &world.machines[i];
		const struct hetzner_server *server = machine_server(m);
		const struct kube_model_object *o = machine_node(m);
		yyjson_val *node = o ? object_json(&arena, o) : NULL;

		if (!node || !str_eq(json_text_at(&arena, node, "spec.podCIDR"), cidr))
			continue;
		if (gateway.len == 0 ||
		    (server && server->n_networks > 0 && str_eq(server->networks[0].ip, gateway) &&
		     world.sim->number_of(json_text_at(&arena, node, "spec.providerID")) ==
		             m->server))
			return o;
	}
	return NULL;
}

static void
check_removal(const struct hetzner_route *route, const struct replica *r)
{
	const struct kube_model_object *node = node_of_route(route->destination, route->gateway);
	const struct seen *last = seen_of(route->destination);
	int64_t now_ns = schedule_now_ns();
	unsigned n = 0;

	if (world.was_restored)
		return;
	if (node && age_of(route->destination) > AGREED_NS && age_of(route->gateway) > AGREED_NS)
		fail("the route to %" STR_FMT " is removed, which node %" STR_FMT " needs",
		     STR_ARG(route->destination), STR_ARG(node->name));
	if (!last || last->was_announced || node_of_route(route->destination, STR_EMPTY))
		return;
	/* It was planned when a Node with another gateway still had the CIDR, and is a replacement.
	 */
	if (!str_eq_c(route->gateway, last->gateway) && age_of(route->destination) < LATE_NS)
		return;
	for (size_t i = 0; i < n_removals && i < ARRAY_LEN(removals); i++)
		n += removals[i].replica == r->index && removals[i].incarnation == r->incarnation &&
		     now_ns - removals[i].at_ns < 10 * MINUTE_NS - LATE_NS;
	if (n >= BREAKER_MIN && age_of(route->destination) < AGREED_NS - LATE_NS)
		fail("the route to %" STR_FMT " is removed, although too many have been",
		     STR_ARG(route->destination));
	removals[n_removals % ARRAY_LEN(removals)].replica = r->index;
	removals[n_removals % ARRAY_LEN(removals)].incarnation = r->incarnation;
	removals[n_removals++ % ARRAY_LEN(removals)].at_ns = now_ns;
}

void
foreign_note_network(const struct hetzner_change *c)
{
	const struct hetzner_network *before = (const struct hetzner_network *)c->before;
	const struct hetzner_network *after = (const struct hetzner_network *)c->after;

	for (size_t i = 0; after && i < after->n_routes; i++) {
		if (!before || !has_route(before, &after->routes[i]))
			note_seen(after->routes[i].destination, false);
	}
}

void
foreign_check_network(const struct hetzner_change *c)
{
	const struct hetzner_network *before = (const struct hetzner_network *)c->before;
	const struct hetzner_network *after = (const struct hetzner_network *)c->after;

	if (!before || !after) {
		fail("ccmd adds or deletes a network");
		return;
	}
	check_foreign_routes(before, after);
	check_foreign_routes(after, before);
	for (size_t i = 0; i < before->n_routes; i++) {
		if (is_pod_route(&before->routes[i]) && !has_route(after, &before->routes[i]))
			check_removal(&before->routes[i],
			              replica_at(str_ends(c->token, STR("-b")) ? 1 : 0));
	}
}

/* ---- routes at the end ---- */

/* The address of the node's machine in the network; empty: it has none. */
static struct str
gateway_of(const struct kube_model_object *node)
{
	for (size_t i = 0; i < world.n_machines; i++) {
		const struct machine *m = &world.machines[i];
		const struct hetzner_server *server = machine_server(m);

		if (server && server->n_networks > 0 && str_eq_c(node->name, m->name))
			return server->networks[0].ip;
	}
	return STR_EMPTY;
}

static bool
has_pod_cidr(const struct kube_model_object *node, struct str cidr)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;

	return str_eq(json_text_at(&arena, object_json(&arena, node), "spec.podCIDR"), cidr);
}

static bool
is_needed(const struct hetzner_route *route)
{
	for (size_t i = 0; i < kube_model_count(world.kube, KUBE_MODEL_NODE); i++) {
		const struct kube_model_object *o = kube_model_at(world.kube, KUBE_MODEL_NODE, i);

		if (has_pod_cidr(o, route->destination) && str_eq(gateway_of(o), route->gateway))
			return true;
	}
	return false;
}

/* Does another Node with this pod CIDR have the route to it? */
static bool
is_taken(struct str cidr)
{
	for (size_t i = 0; i < world.network->n_routes; i++) {
		if (str_eq(world.network->routes[i].destination, cidr))
			return is_needed(&world.network->routes[i]);
	}
	return false;
}

static void
check_node_route(const struct kube_model_object *o, struct buf *why)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct hetzner_route wanted = {
		.destination = json_text_at(&arena, object_json(&arena, o), "spec.podCIDR"),
		.gateway = gateway_of(o),
	};

	if (str_starts(wanted.destination, STR(POD_NETWORK)) &&
	    !has_route(world.network, &wanted) && !is_taken(wanted.destination))
		buf_addf(why, "node %" STR_FMT " has no route to %" STR_FMT ". ", STR_ARG(o->name),
		         STR_ARG(wanted.destination));
}

void
foreign_check_routes(struct buf *why)
{
	/* after a restore two Nodes may have the same pod CIDR */
	if (!world.network || world.was_restored)
		return;
	for (size_t i = 0; i < kube_model_count(world.kube, KUBE_MODEL_NODE); i++)
		check_node_route(kube_model_at(world.kube, KUBE_MODEL_NODE, i), why);
	for (size_t i = 0; i < world.network->n_routes; i++) {
		const struct hetzner_route *route = &world.network->routes[i];

		if (is_pod_route(route) && !is_needed(route))
			buf_addf(why, "the route to %" STR_FMT " leads to no node that needs it. ",
			         STR_ARG(route->destination));
	}
}
