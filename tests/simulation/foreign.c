/* tests/simulation/foreign.c: what does not belong to ccmd stays as it is: the fields of Nodes and
 * Services that others write, and routes outside of the cluster's pod network.
 *
 * Routes within it are ccmd's, but it must not remove one that a Node has needed for two minutes,
 * or remove more than three within ten minutes that no Node needs, unless none has needed them for
 * five minutes (src/controllers/route/route_plan.h). It must not request a route that the API
 * refuses because of another one, or that leads to an address that is not the Node's. */
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/ip.h"
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
#define NEEDED_NS (2 * MINUTE_NS)
#define LATE_NS (30 * NS_PER_SEC) /* a replica may have measured a time so much later */

enum {
	BREAKER_MIN = 3,
};

/* When a pod CIDR was given, lost or routed the last time, or an address in the network was given
 * or lost. */
struct seen {
	char text[24];
	int64_t at_ns;
	bool was_announced; /* the Node that had the CIDR was to be deleted */
	char gateway[20];   /* the address in the network of the Node that had the CIDR last */
};

static struct seen seen[128];
static size_t n_seen;

/* Since when a Node has had this pod CIDR and its present provider ID. */
static struct held {
	char node[24], cidr[24];
	int64_t since_ns;
} held[64];
static size_t n_held;

/* Since when the network has had, or not had, a route to this pod CIDR via this address. */
static struct routed {
	char destination[24], gateway[20];
	bool is_there;
	int64_t since_ns;
} routed[128];
static size_t n_routed;

/* When a replica has read the network the last time: the beginning of a run. */
static int64_t listed_ns[N_REPLICAS];

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

static void
note_held(struct str node, struct str cidr)
{
	size_t i = 0;

	while (i < n_held && !str_eq_c(node, held[i].node))
		i++;
	if (i == ARRAY_LEN(held))
		return;
	n_held += i == n_held;
	held[i] = (struct held){ .since_ns = schedule_now_ns() };
	snprintf(held[i].node, sizeof(held[i].node), "%" STR_FMT, STR_ARG(node));
	snprintf(held[i].cidr, sizeof(held[i].cidr), "%" STR_FMT, STR_ARG(cidr));
}

static const struct routed *
find_routed(struct str destination, struct str gateway)
{
	for (size_t i = 0; i < n_routed; i++) {
		if (str_eq_c(destination, routed[i].destination) &&
		    str_eq_c(gateway, routed[i].gateway))
			return &routed[i];
	}
	return NULL;
}

static void
note_routed(const struct hetzner_route *route, bool is_there)
{
	size_t i = 0;

	while (i < n_routed && !(str_eq_c(route->destination, routed[i].destination) &&
	                         str_eq_c(route->gateway, routed[i].gateway)))
		i++;
	if (i == ARRAY_LEN(routed))
		return;
	n_routed += i == n_routed;
	routed[i] = (struct routed){ .is_there = is_there, .since_ns = schedule_now_ns() };
	snprintf(routed[i].destination, sizeof(routed[i].destination), "%" STR_FMT,
	         STR_ARG(route->destination));
	snprintf(routed[i].gateway, sizeof(routed[i].gateway), "%" STR_FMT,
	         STR_ARG(route->gateway));
}

/* For how long the network has had the route; 0: it does not have it. */
static int64_t
route_age(const struct hetzner_route *route)
{
	const struct routed *one = find_routed(route->destination, route->gateway);

	return one && one->is_there ? schedule_now_ns() - one->since_ns : 0;
}

/* An address in the network that the Node with this pod CIDR had until then. */
static struct {
	char cidr[24], ip[20];
	int64_t until_ns;
} former[64]; /* a ring */
static size_t n_former;

static bool
has_address(yyjson_val *node, struct str cidr, struct str ip)
{
	yyjson_arr_iter iter = yyjson_arr_iter_with(json_at(node, "status.addresses"));
	yyjson_val *one;

	if (!str_eq(json_text(json_at(node, "spec.podCIDR")), cidr))
		return false;
	while ((one = yyjson_arr_iter_next(&iter))) {
		if (str_eq_c(json_text(json_key(one, STR("type"))), "InternalIP") &&
		    str_eq(json_text(json_key(one, STR("address"))), ip))
			return true;
	}
	return false;
}

static void
note_former_addresses(yyjson_val *before, yyjson_val *after)
{
	yyjson_arr_iter iter = yyjson_arr_iter_with(json_at(before, "status.addresses"));
	struct str cidr = json_text(json_at(before, "spec.podCIDR"));
	yyjson_val *one;

	while (cidr.len > 0 && (one = yyjson_arr_iter_next(&iter))) {
		struct str ip = json_text(json_key(one, STR("address")));
		size_t i = n_former % ARRAY_LEN(former);

		if (!has_address(before, cidr, ip) || has_address(after, cidr, ip))
			continue;
		snprintf(former[i].cidr, sizeof(former[i].cidr), "%" STR_FMT, STR_ARG(cidr));
		snprintf(former[i].ip, sizeof(former[i].ip), "%" STR_FMT, STR_ARG(ip));
		former[i].until_ns = schedule_now_ns();
		n_former++;
	}
}

void
foreign_note_node(const struct kube_model_change *c)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	yyjson_val *before = c->before ? object_json(&arena, c->before) : NULL;
	yyjson_val *after = c->after ? object_json(&arena, c->after) : NULL;
	const struct kube_model_object *node = c->after ? c->after : c->before;
	struct str old = STR_EMPTY, new = STR_EMPTY;

	if (!node)
		return;
	if (before)
		note_former_addresses(before, after);
	if (before)
		old = json_text_at(&arena, before, "spec.podCIDR");
	if (after)
		new = json_text_at(&arena, after, "spec.podCIDR");
	if (before && after && str_eq(old, new) &&
	    str_eq(json_text_at(&arena, before, "spec.providerID"),
	           json_text_at(&arena, after, "spec.providerID")))
		return;
	note_held(node->name, new);
	note_seen(new, false);
	note_seen(old, before && node_is_announced(before));
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

/* For how long a Node has needed the route that leads to its machine, although another Node may
 * have the same pod CIDR since; 0: the Node does not need it. */
static int64_t
needed_for(const struct hetzner_route *route, const struct kube_model_object *node)
{
	int64_t age_ns = clock_earlier(route_age(route), age_of(route->gateway));

	for (size_t i = 0; node && i < n_held; i++) {
		if (str_eq_c(node->name, held[i].node) &&
		    str_eq_c(route->destination, held[i].cidr))
			return clock_earlier(age_ns, schedule_now_ns() - held[i].since_ns);
	}
	return 0;
}

/* What a replica has removed. */
static struct {
	char destination[24], gateway[20];
	unsigned replica, incarnation;
	int64_t at_ns;
	bool is_known; /* it has got the answer that the removal has ended */
} removed[16];         /* a ring */
static size_t n_removed;

/* The last removal that a replica has requested: it requests one after the other. */
static struct {
	char destination[24], gateway[20];
	int64_t at_ns;
} asked[N_REPLICAS];

/* ccmd waits for 30 s until a removal has ended. */
#define SLOW_NS (25 * NS_PER_SEC)

static void
note_removed(const struct hetzner_route *route, const struct replica *r)
{
	size_t i = n_removed % ARRAY_LEN(removed);

	if (!str_eq_c(route->destination, asked[r->index].destination) ||
	    !str_eq_c(route->gateway, asked[r->index].gateway) ||
	    schedule_now_ns() - asked[r->index].at_ns > SLOW_NS)
		return;
	n_removed++;
	snprintf(removed[i].destination, sizeof(removed[i].destination), "%" STR_FMT,
	         STR_ARG(route->destination));
	snprintf(removed[i].gateway, sizeof(removed[i].gateway), "%" STR_FMT,
	         STR_ARG(route->gateway));
	removed[i].replica = r->index;
	removed[i].incarnation = r->incarnation;
	removed[i].at_ns = schedule_now_ns();
	removed[i].is_known = false;
}

static void
check_removal(const struct hetzner_route *route, const struct replica *r)
{
	const struct seen *last = seen_of(route->destination);
	int64_t now_ns = schedule_now_ns();
	unsigned n = 0;

	if (world.was_restored || world.is_removal_late)
		return;
	if (!last || last->was_announced || node_of_route(route->destination, STR_EMPTY))
		return;
	/* It was planned when a Node still had the CIDR, and is a replacement. */
	if (last->at_ns >= listed_ns[r->index] ||
	    (!str_eq_c(route->gateway, last->gateway) && age_of(route->destination) < LATE_NS))
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
		if (before && has_route(before, &after->routes[i]))
			continue;
		note_seen(after->routes[i].destination, false);
		note_routed(&after->routes[i], true);
	}
	for (size_t i = 0; before && i < before->n_routes; i++) {
		if (!after || !has_route(after, &before->routes[i]))
			note_routed(&before->routes[i], false);
	}
}

void
foreign_check_network(const struct hetzner_change *c)
{
	const struct hetzner_network *before = (const struct hetzner_network *)c->before;
	const struct hetzner_network *after = (const struct hetzner_network *)c->after;

	const struct replica *r = replica_at(str_ends(c->token, STR("-b")) ? 1 : 0);

	if (!before || !after) {
		fail("ccmd adds or deletes a network");
		return;
	}
	check_foreign_routes(before, after);
	check_foreign_routes(after, before);
	for (size_t i = 0; i < before->n_routes; i++) {
		if (!is_pod_route(&before->routes[i]) || has_route(after, &before->routes[i]))
			continue;
		check_removal(&before->routes[i], r);
		note_removed(&before->routes[i], r);
	}
}

/* ---- requests for routes ---- */

#define VIEW_NS (6 * MINUTE_NS) /* a run may take five minutes */

static int64_t incomplete_ns = -MINUTE_NS; /* when a list of servers lacked some the last time */

/* When a request had the token of another project the last time. */
static int64_t strange_ns = -AGREED_NS;

void
foreign_note_incomplete(void)
{
	incomplete_ns = schedule_now_ns();
}

/* Did the replica know to which Nodes the routes lead, when it read the network? */
static bool
are_lists_complete(const struct replica *r)
{
	for (size_t i = 0; i < world.n_machines; i++) {
		if (world.machines[i].copied_until_ns > 0)
			return false;
	}
	return hetzner_settings(world.cloud)->unlisted_server == 0 &&
	       hetzner_settings(world.cloud)->hidden_server == 0 &&
	       hetzner_settings(world.cloud)->per_page_max == 0 &&
	       listed_ns[r->index] - incomplete_ns > MINUTE_NS;
}

/* The Node with this pod CIDR that is older than the other one; NULL: there is none. The API server
 * writes the same time for Nodes that it creates in one second. */
static const struct kube_model_object *
find_older(struct str cidr, const struct kube_model_object *other)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct str created = json_text_at(&arena, object_json(&arena, other),
	                                  "metadata.creationTimestamp");

	for (size_t i = 0; i < kube_model_count(world.kube, KUBE_MODEL_NODE); i++) {
		const struct kube_model_object *o = kube_model_at(world.kube, KUBE_MODEL_NODE, i);
		yyjson_val *node = object_json(&arena, o);

		if (str_eq(json_text_at(&arena, node, "spec.podCIDR"), cidr) &&
		    str_cmp(json_text_at(&arena, node, "metadata.creationTimestamp"), created) <= 0)
			return o;
	}
	return NULL;
}

/* ccmd must know a route that has been there for two minutes. Its destination cannot be used for
 * another gateway. A destination that overlaps with it cannot be used either, and is not requested
 * if a Node needs the route: that Node's pod CIDR takes precedence over all that overlap with it
 * (src/controllers/route/route_plan.h). If ccmd does not know that the route leads to the Node, the
 * pod CIDR of an older Node takes precedence. */
static void
check_addition(const struct replica *r, struct str destination, const struct hetzner_route *route)
{
	const struct kube_model_object *node = node_of_route(route->destination, route->gateway);
	struct ip_net a, b;

	if (str_eq(destination, route->destination) && route_age(route) > NEEDED_NS)
		fail("a route to %" STR_FMT " is requested, and there is one already",
		     STR_ARG(destination));
	if (needed_for(route, node) > NEEDED_NS && ip_net_parse(destination, &a) &&
	    ip_net_parse(route->destination, &b) &&
	    (ip_net_is_within(&a, &b) || ip_net_is_within(&b, &a)) &&
	    (are_lists_complete(r) || !find_older(destination, node)))
		fail("a route to %" STR_FMT " is requested, which overlaps with that of node "
		     "%" STR_FMT,
		     STR_ARG(destination), STR_ARG(node->name));
}

/* A route leads to an address of its Node (docs/spec/hcloud.md, "Routes"). */
static void
check_gateway(struct str destination, struct str gateway)
{
	for (size_t i = 0; i < kube_model_count(world.kube, KUBE_MODEL_NODE); i++) {
		CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
		const struct kube_model_object *o = kube_model_at(world.kube, KUBE_MODEL_NODE, i);

		if (has_address(object_json(&arena, o), destination, gateway))
			return;
	}
	for (size_t i = 0; i < n_former && i < ARRAY_LEN(former); i++) {
		if (str_eq_c(destination, former[i].cidr) && str_eq_c(gateway, former[i].ip) &&
		    schedule_now_ns() - former[i].until_ns < VIEW_NS)
			return;
	}
	if (!world.was_restored)
		fail("a route to %" STR_FMT " via %" STR_FMT
		     " is requested, which is no address of its node",
		     STR_ARG(destination), STR_ARG(gateway));
}

/* The removal of a route that a Node needs. (It may be carried out much later.) */
static void
check_needed(const struct hetzner_route *route)
{
	const struct kube_model_object *node = node_of_route(route->destination, route->gateway);

	if (needed_for(route, node) > NEEDED_NS && !world.was_restored)
		fail("the route to %" STR_FMT " is removed, which node %" STR_FMT " needs",
		     STR_ARG(route->destination), STR_ARG(node->name));
}

/* A replica does not remove again what it knows to have removed. */
static void
check_vain_removal(const struct net_request *n, struct str destination, struct str gateway)
{
	for (size_t i = 0; i < n_removed && i < ARRAY_LEN(removed); i++) {
		const struct routed *last = find_routed(destination, gateway);

		if (removed[i].is_known && removed[i].replica == n->replica->index &&
		    removed[i].incarnation == n->incarnation && last && !last->is_there &&
		    last->since_ns == removed[i].at_ns &&
		    str_eq_c(destination, removed[i].destination) &&
		    str_eq_c(gateway, removed[i].gateway))
			fail("replica %s removes the route to %" STR_FMT " again", n->replica->name,
			     STR_ARG(destination));
	}
}

/* A list of actions shows that removals have ended. */
void
foreign_note_answer(const struct net_request *n)
{
	if (!str_starts(n->request->target, STR("/v1/actions?")))
		return;
	for (size_t i = 0; i < n_removed && i < ARRAY_LEN(removed); i++)
		removed[i].is_known = removed[i].is_known ||
		                      (removed[i].replica == n->replica->index &&
		                       n->sent_ns > removed[i].at_ns);
}

void
foreign_check_request(const struct net_request *n)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct str target = n->request->target, destination, gateway;
	bool is_addition = str_ends(target, STR("/actions/add_route"));
	struct error err;

	/* with the token of another project, the answer 404 says nothing about the routes */
	if (n->host == HOST_CLOUD && !world.sim->is_own_token(n->request->token))
		strange_ns = schedule_now_ns();
	if (strcmp(n->request->method, "GET") == 0 && str_starts(target, STR("/v1/networks/")))
		listed_ns[n->replica->index] = n->sent_ns;
	if (n->host != HOST_CLOUD || !world.network || schedule_now_ns() - strange_ns < AGREED_NS ||
	    !(is_addition || str_ends(target, STR("/actions/delete_route"))) ||
	    !json_parse(n->request->body, &doc, &err))
		return;
	destination = json_text(json_key(yyjson_doc_get_root(doc), STR("destination")));
	gateway = json_text(json_key(yyjson_doc_get_root(doc), STR("gateway")));
	if (!is_addition) {
		check_vain_removal(n, destination, gateway);
		snprintf(asked[n->replica->index].destination, sizeof(asked[0].destination),
		         "%" STR_FMT, STR_ARG(destination));
		snprintf(asked[n->replica->index].gateway, sizeof(asked[0].gateway), "%" STR_FMT,
		         STR_ARG(gateway));
		asked[n->replica->index].at_ns = schedule_now_ns();
		check_needed(&(struct hetzner_route){ destination, gateway });
		return;
	}
	check_gateway(destination, gateway);
	for (size_t i = 0; i < world.network->n_routes; i++)
		check_addition(n->replica, destination, &world.network->routes[i]);
}

/* ---- the condition NetworkUnavailable ---- */

static struct str
unavailable(yyjson_val *node)
{
	yyjson_arr_iter iter = yyjson_arr_iter_with(json_at(node, "status.conditions"));
	struct str status = STR_EMPTY;
	yyjson_val *one;

	while ((one = yyjson_arr_iter_next(&iter))) {
		if (str_eq_c(json_text(json_key(one, STR("type"))), "NetworkUnavailable"))
			status = json_text(json_key(one, STR("status")));
	}
	return status;
}

/* Is there a route to this pod CIDR, or was there one recently? */
static bool
was_routed(struct str cidr)
{
	for (size_t i = 0; i < n_routed; i++) {
		if (str_eq_c(cidr, routed[i].destination) &&
		    (routed[i].is_there || schedule_now_ns() - routed[i].since_ns < AGREED_NS))
			return true;
	}
	return false;
}

/* "False" says that the Node has its routes. */
void
foreign_check_condition(const struct kube_model_change *c)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	yyjson_val *before, *after;
	struct str cidr;

	if (!world.network || !c->after || world.was_restored)
		return;
	before = object_json(&arena, c->before);
	after = object_json(&arena, c->after);
	cidr = json_text_at(&arena, after, "spec.podCIDR");
	if (str_starts(cidr, STR(POD_NETWORK)) && str_eq_c(unavailable(after), "False") &&
	    !str_eq_c(unavailable(before), "False") && !was_routed(cidr))
		fail("the network of node %" STR_FMT " is said to be available, and there is no "
		     "route to %" STR_FMT,
		     STR_ARG(c->after->name), STR_ARG(cidr));
}

/* ---- routes at the end ---- */

/* Problems that stay. The routes of a cluster without faults are correct after twenty minutes:
 * ccmd removes routes that are too many after five, and then makes those that they prevented. */
#define LATE_MAX_NS (20 * MINUTE_NS)

static struct {
	char text[100];
	int64_t since_ns, seen_ns;
} problems[64];

static void
note_problem(struct str text)
{
	int64_t now_ns = schedule_now_ns();
	size_t free_place = ARRAY_LEN(problems);

	for (size_t i = 0; i < ARRAY_LEN(problems); i++) {
		bool is_old = now_ns - problems[i].seen_ns > MINUTE_NS || !problems[i].text[0];

		if (is_old)
			free_place = i;
		if (is_old || !str_eq_c(text, problems[i].text))
			continue;
		problems[i].seen_ns = now_ns;
		if (now_ns - problems[i].since_ns > LATE_MAX_NS)
			fail("for twenty minutes, %s", problems[i].text);
		return;
	}
	if (free_place == ARRAY_LEN(problems))
		return;
	snprintf(problems[free_place].text, sizeof(problems[0].text), "%" STR_FMT, STR_ARG(text));
	problems[free_place].since_ns = problems[free_place].seen_ns = now_ns;
}

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

	size_t begin = why->len;

	if (!str_starts(wanted.destination, STR(POD_NETWORK)) ||
	    has_route(world.network, &wanted) || is_taken(wanted.destination))
		return;
	buf_addf(why, "node %" STR_FMT " has no route to %" STR_FMT ". ", STR_ARG(o->name),
	         STR_ARG(wanted.destination));
	note_problem(str_skip(buf_str(why), begin));
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
		size_t begin = why->len;

		if (!is_pod_route(route) || is_needed(route))
			continue;
		buf_addf(why, "the route to %" STR_FMT " leads to no node that needs it. ",
		         STR_ARG(route->destination));
		note_problem(str_skip(buf_str(why), begin));
	}
}
