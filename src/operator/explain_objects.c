/* operator/explain_objects.c: what is said about a node, a Service and a route; see explain.h.
 *
 * A sentence about what ccmd waits for is taken from the leader if it has answered, because only it
 * knows the history. Otherwise it follows from the present state, with the functions that the
 * controllers use.
 */
#include "controllers/node/addresses.h"
#include "controllers/service/service.h"
#include "controllers/service/targets.h"
#include "flags/flags.h"
#include "operator/explain.h"

static struct arena *
arena_of(struct explanation *e)
{
	return view_call(e->view)->arena;
}

static void
note_unknown(struct explanation *e, const char *what, const struct error *err)
{
	explain_note_gap(e, what, err);
	e->is_unknown = true;
}

/* "a, and b"; either may be empty. */
static struct str
join(struct explanation *e, struct str a, struct str b)
{
	if (a.len == 0 || b.len == 0)
		return a.len > 0 ? a : b;
	return arena_printf(arena_of(e), "%" STR_FMT "; %" STR_FMT, STR_ARG(a), STR_ARG(b));
}

/* A failure that the leader remembers. */
static struct str
a_retry(struct explanation *e, struct str failure)
{
	return arena_printf(arena_of(e), "a retry, because: %" STR_FMT, STR_ARG(failure));
}

/* ---- nodes ---- */

/* Work on the node whose last attempt failed, as the leader remembers it. */
static yyjson_val *
find_failure(struct explanation *e, const char *work)
{
	yyjson_val *errors = NULL, *one;
	size_t i, n;

	(void)json_array(explain_leader(e), "errors", &errors);
	yyjson_arr_foreach(errors, i, n, one)
	{
		struct str its = STR_EMPTY;

		(void)json_str(one, "work", &its);
		if (str_eq_c(its, work))
			return one;
	}
	return NULL;
}

/* A retry, with the reason; or the other text, if nothing failed. */
static struct str
retry_or(struct explanation *e, yyjson_val *failure, struct str other)
{
	struct str error = STR_EMPTY;

	(void)json_str(failure, "error", &error);
	return error.len > 0 ? a_retry(e, error) : other;
}

/* A node, and its machine; NULL: the cloud was not reached. */
struct subject {
	const struct node *node;
	const struct instance *machine;
};

/* The time of the last change of the node's condition Ready. */
static struct str
ready_since(struct explanation *e, const struct node *node)
{
	yyjson_val *conditions = NULL, *condition, *raw;
	struct error err;
	size_t i, n;

	raw = explain_raw(e, "/api/v1/nodes", node_name(node), &err);
	(void)json_array(raw, "status.conditions", &conditions);
	yyjson_arr_foreach(conditions, i, n, condition)
	{
		struct str type = STR_EMPTY, since = STR_EMPTY;

		(void)json_str(condition, "type", &type);
		(void)json_str(condition, "lastTransitionTime", &since);
		if (str_eq_c(type, "Ready"))
			return explain_since(e, since);
	}
	return STR_EMPTY;
}

static struct str
creation_time(struct explanation *e)
{
	yyjson_val *items = NULL;
	struct str created = STR_EMPTY;

	if (e->raw)
		(void)json_array(yyjson_doc_get_root(e->raw), "items", &items);
	(void)json_str(yyjson_arr_get_first(items), "metadata.creationTimestamp", &created);
	return explain_since(e, created);
}

static struct str
node_identity(const struct subject *s)
{
	if (s->machine && s->machine->presence == PRESENCE_FOREIGN && !node_is_new(s->node))
		return STR("a node of another cloud, which ccmd leaves alone");
	if (node_is_new(s->node))
		return STR("a new node, which ccmd has to initialise");
	if (node_provider_id(s->node).len == 0)
		return STR(
			"a node that ccmd did not initialise: its kubelet runs without --cloud-provider=external");
	return STR("a node that ccmd keeps in step with its machine");
}

static struct str
node_state(struct explanation *e, const struct subject *s)
{
	static const char *const names[] = { [NODE_READY_UNKNOWN] = "not Ready (silent)",
		                             [NODE_READY_FALSE] = "not Ready",
		                             [NODE_READY_TRUE] = "Ready" };
	struct str since = ready_since(e, s->node), created = creation_time(e);
	struct str ready = arena_printf(arena_of(e), "%s%s%" STR_FMT, names[s->node->ready],
	                                since.len > 0 ? " since " : "", STR_ARG(since));

	if (node_is_new(s->node))
		ready = join(e, ready,
		             arena_printf(arena_of(e), "tainted since its creation, %" STR_FMT,
		                          STR_ARG(created)));
	if (node_taint(s->node, STR(NODE_TAINT_SHUTDOWN)))
		ready = join(e, ready, STR("its machine is shut down"));
	return s->node->is_deleting ? join(e, ready, STR("being deleted")) : ready;
}

static struct str
new_node_waits_for(struct explanation *e, const struct subject *s)
{
	yyjson_val *failure = find_failure(e, "sync");
	struct address_list addresses;
	struct error err;

	if (!s->machine)
		return retry_or(e, failure, STR_EMPTY);
	switch (s->machine->presence) {
	case PRESENCE_ABSENT:
		return STR("a machine of this name in the cloud");
	case PRESENCE_UNKNOWN:
	case PRESENCE_FOREIGN:
		return arena_str(arena_of(e), s->machine->error);
	case PRESENCE_PRESENT:
		break;
	}
	if (!addresses_plan(s->node, s->machine, arena_of(e), &addresses, &err))
		return arena_str(arena_of(e), str_c(err.msg));
	return retry_or(e, failure, STR("the leader: its machine is found"));
}

/* By the guard's verdict. */
static struct str
guarded_node_waits_for(yyjson_val *guard)
{
	static const struct {
		const char *verdict, *text;
	} texts[] = {
		{ "keep", "its kubelet: the cloud has its machine" },
		{ "unconfirmed", "a second look that does not find its machine" },
		{ "kubelet_alive", "its kubelet to be silent" },
		{ "young", "the node to be old enough to be deleted" },
		{ "foreign", "nothing: ccmd leaves nodes of other clouds alone" },
		{ "delete", "the end of its deletion" },
	};
	struct str verdict = STR_EMPTY, held = STR_EMPTY;

	(void)json_str(guard, "verdict", &verdict);
	(void)json_str(guard, "heldBecause", &held);
	if (held.len > 0)
		return held;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		if (str_eq_c(verdict, texts[i].verdict))
			return str_c(texts[i].text);
	}
	return STR_EMPTY;
}

static struct str
node_waits_for(struct explanation *e, const struct subject *s)
{
	static const char *const works[] = { "lifecycle", "sync", "addresses" };
	yyjson_val *guard = json_at(explain_leader(e), "guard"), *failure = NULL;

	if (node_is_new(s->node))
		return new_node_waits_for(e, s);
	for (size_t i = 0; i < ARRAY_LEN(works) && !failure; i++)
		failure = find_failure(e, works[i]);
	if (s->node->ready == NODE_READY_TRUE || failure)
		return retry_or(e, failure, STR("nothing"));
	if (s->machine && s->machine->presence == PRESENCE_PRESENT &&
	    s->machine->power == POWER_OFF)
		return STR("its machine, which is switched off");
	if (guard)
		return guarded_node_waits_for(guard);
	if (s->machine && s->machine->presence == PRESENCE_ABSENT)
		return STR("the proof that its machine is gone (docs/deletion.md)");
	return STR("its kubelet");
}

/* What the deletion guard does next. */
static struct str
guard_next(struct explanation *e)
{
	yyjson_val *guard = json_at(explain_leader(e), "guard");
	int64_t look_s = 0, delete_s = 0, failed = 0;
	struct str text;

	if (json_i64(guard, "nextLookInSeconds", &look_s) != JSON_FOUND)
		return STR_EMPTY;
	(void)json_i64(guard, "failedLooks", &failed);
	text = arena_printf(arena_of(e), "the next look for its machine is in %lld s",
	                    (long long)look_s);
	if (failed > 0)
		text = arena_printf(arena_of(e), "%" STR_FMT ", after %lld that failed",
		                    STR_ARG(text), (long long)failed);
	if (json_i64(guard, "deletableInSeconds", &delete_s) != JSON_FOUND)
		return text;
	return arena_printf(
		arena_of(e),
		"%" STR_FMT
		"; the node is deleted in %lld s at the earliest, if no look finds it until then",
		STR_ARG(text), (long long)delete_s);
}

/* The work on a node that is neither in the queue nor a matter of the deletion guard. */
static struct str
node_retry_next(struct explanation *e)
{
	struct str text = STR_EMPTY;
	int64_t seconds;

	if (json_i64(find_failure(e, "lifecycle"), "nextInSeconds", &seconds) == JSON_FOUND)
		text = arena_printf(arena_of(e), "its shutdown taint is removed in %lld s",
		                    (long long)seconds);
	if (json_i64(find_failure(e, "addresses"), "nextInSeconds", &seconds) == JSON_FOUND)
		text = join(e, text,
		            arena_printf(arena_of(e), "its addresses are compared again in %lld s",
		                         (long long)seconds));
	return text;
}

static struct str
list_addresses(struct explanation *e, const struct address *addresses, size_t n)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(8));

	for (size_t i = 0; i < n; i++)
		buf_addf(&text, "%s%" STR_FMT " %" STR_FMT, i > 0 ? ", " : "",
		         STR_ARG(addresses[i].type), STR_ARG(addresses[i].address));
	return arena_str(arena_of(e), buf_str(&text));
}

static void
add_label_row(struct explanation *e, const struct subject *s, const char *name, const char *key,
              struct str in_cloud)
{
	const struct str *has = node_label(s->node, str_c(key));

	explain_add_row(e, name, has ? *has : STR_EMPTY, in_cloud,
	                in_cloud.len > 0 && !node_is_new(s->node) &&
	                        !(has && str_eq(*has, in_cloud)));
}

static struct str
machine_state(struct explanation *e, const struct instance *machine)
{
	switch (machine->presence) {
	case PRESENCE_ABSENT:
		return STR("no such machine");
	case PRESENCE_FOREIGN:
	case PRESENCE_UNKNOWN:
		return arena_printf(arena_of(e), "unknown: %" STR_FMT, STR_ARG(machine->error));
	case PRESENCE_PRESENT:
		break;
	}
	return machine->power == POWER_OFF  ? STR("exists, is shut down")
	       : machine->power == POWER_ON ? STR("exists, runs")
	                                    : STR("exists");
}

static void
compare_node(struct explanation *e, const struct subject *s)
{
	static const struct instance nothing = { .presence = PRESENCE_UNKNOWN };
	const struct instance *m = s->machine ? s->machine : &nothing;
	const struct node *node = s->node;
	bool is_there = m->presence == PRESENCE_PRESENT;
	struct address_list wanted = { 0 };
	struct error ignored;

	explain_add_row(e, "state",
	                node->ready == NODE_READY_TRUE ? STR("Ready") : STR("not Ready"),
	                s->machine ? machine_state(e, m) : STR_EMPTY,
	                s->machine && m->presence == PRESENCE_ABSENT);
	explain_add_row(e, "provider ID", node_provider_id(node), m->provider_id,
	                is_there && !node_is_new(node) &&
	                        !str_eq(node_provider_id(node), m->provider_id));
	explain_add_row(e, "addresses", list_addresses(e, node->addresses, node->n_addresses),
	                list_addresses(e, m->addresses, m->n_addresses),
	                is_there && !node_is_new(node) &&
	                        addresses_plan(node, m, arena_of(e), &wanted, &ignored) &&
	                        wanted.n > 0 &&
	                        !addresses_equal(wanted.items, wanted.n, node->addresses,
	                                         node->n_addresses));
	add_label_row(e, s, "type", "node.kubernetes.io/instance-type", m->type);
	add_label_row(e, s, "zone", "topology.kubernetes.io/zone", m->zone);
	add_label_row(e, s, "region", "topology.kubernetes.io/region", m->region);
}

static bool
find_node(struct explanation *e, struct subject *ret, struct error *err)
{
	const struct view_nodes *nodes;
	const struct look *look;
	struct error look_err;
	bool has_looked;

	*ret = (struct subject){ 0 };
	if (!view_nodes(e->view, &nodes, err))
		return false;
	for (size_t i = 0; i < nodes->n && !ret->node; i++) {
		if (!str_eq(node_name(nodes->items[i]), e->what.key))
			continue;
		ret->node = nodes->items[i];
		has_looked = view_look(e->view, &look, &look_err);
		if (has_looked)
			ret->machine = &look->instances[i];
		else
			note_unknown(e, "its machine in the cloud", &look_err);
	}
	return true;
}

void
explain_node(struct explanation *e)
{
	struct subject s;
	struct error err;

	if (!find_node(e, &s, &err)) {
		note_unknown(e, "the node", &err);
		return;
	}
	e->exists = s.node != NULL;
	if (!e->exists) {
		e->identity = STR("the cluster has no node of this name");
		return;
	}
	e->uid = s.node->object.uid;
	e->created_s = s.node->created_wall_ns / NS_PER_SEC;
	e->state = node_state(e, &s);
	e->identity = node_identity(&s);
	e->waits_for = node_waits_for(e, &s);
	e->next = join(e,
	               explain_queue(e, node_is_new(s.node) ? "initialise it"
	                                                    : "update its labels and addresses"),
	               join(e, guard_next(e), node_retry_next(e)));
	compare_node(e, &s);
}

/* ---- Services ---- */

static const struct service *
find_service(const struct view_services *services, struct str key)
{
	for (size_t i = 0; i < services->n; i++) {
		if (str_eq(services->items[i]->object.key, key))
			return services->items[i];
	}
	return NULL;
}

static struct str
list_ingress(struct explanation *e, const struct service *s)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(8));

	for (uint32_t i = 0; i < s->n_ingress; i++) {
		buf_add_c(&text, i > 0 ? ", " : "");
		buf_add_str(&text,
		            s->ingress[i].ip.len > 0 ? s->ingress[i].ip : s->ingress[i].hostname);
	}
	return arena_str(arena_of(e), buf_str(&text));
}

static struct str
service_identity(const struct service *s)
{
	if (service_needs_cleanup(s))
		return STR("a Service whose load balancer has to be removed");
	if (!s->is_load_balancer)
		return STR(
			"a Service that is not of type LoadBalancer, and so needs nothing of ccmd");
	if (s->has_class)
		return STR("a Service of another controller: it has a loadBalancerClass");
	return STR("a Service of type LoadBalancer");
}

static struct str
service_state(struct explanation *e, const struct service *s)
{
	struct str created;
	struct error err;

	(void)explain_raw(e,
	                  arena_strz(arena_of(e),
	                             arena_printf(arena_of(e),
	                                          "/api/v1/namespaces/%" STR_FMT "/services",
	                                          STR_ARG(s->namespace))),
	                  s->name, &err);
	created = creation_time(e);
	if (s->is_deleting)
		return STR("being deleted");
	if (!service_wants_balancer(s))
		return arena_printf(arena_of(e), "created %" STR_FMT, STR_ARG(created));
	if (s->n_ingress > 0)
		return arena_printf(arena_of(e), "served at %" STR_FMT,
		                    STR_ARG(list_ingress(e, s)));
	return arena_printf(arena_of(e), "pending since its creation, %" STR_FMT, STR_ARG(created));
}

/* The nodes that may be targets of any load balancer. */
static bool
count_targets(struct explanation *e, size_t *ret, struct error *err)
{
	const struct view_nodes *nodes;

	*ret = 0;
	if (!view_nodes(e->view, &nodes, err))
		return false;
	for (size_t i = 0; i < nodes->n; i++)
		*ret += target_is_eligible(nodes->items[i]) && !node_is_new(nodes->items[i]);
	return true;
}

static struct str
service_waits_for(struct explanation *e, const struct service *s, struct cloud *cloud)
{
	struct str failure = STR_EMPTY;
	struct lb_spec spec;
	struct error err;
	size_t n;

	if (!service_wants_balancer(s) && !service_needs_cleanup(s))
		return STR("nothing");
	if (!cloud->balancers)
		return STR("nothing: the cloud, as it is configured, has no load balancers");
	(void)json_str(explain_leader(e), "memory.error", &failure);
	if (failure.len > 0)
		return a_retry(e, failure);
	spec = service_spec(s, view_options(e->view)->cluster_name, arena_of(e));
	if (!s->is_deleting && !balancer_check(cloud, view_call(e->view), &spec, &err))
		return arena_printf(arena_of(e), "a change of the Service: %s", err.msg);
	if (!s->is_deleting && count_targets(e, &n, &err) && n == 0)
		return STR("a node that may be its target");
	if (s->is_deleting)
		return STR("the removal of its load balancer");
	return s->n_ingress > 0 ? STR("nothing") : STR("its load balancer");
}

static struct str
list_texts(struct explanation *e, const struct str *texts, size_t n)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(8));

	for (size_t i = 0; i < n; i++)
		buf_addf(&text, "%s%" STR_FMT, i > 0 ? ", " : "", STR_ARG(texts[i]));
	return arena_str(arena_of(e), buf_str(&text));
}

static struct str
number_of(struct explanation *e, size_t n)
{
	return arena_printf(arena_of(e), "%zu", n);
}

/* True with the balancer, or with NULL if there is none. False: which ones there are cannot be
 * seen. */
static bool
find_balancer(struct explanation *e, const struct service *s, struct cloud *cloud,
              const struct lb_listed **ret)
{
	const struct balancer_ops *ops = cloud->balancers;
	const struct lb_listed *all;
	struct error err;
	size_t n;

	*ret = NULL;
	if (!ops || (!ops->list && !ops->list_local))
		return false;
	if (!view_balancers(e->view, &all, &n, &err)) {
		explain_note_gap(e, "its load balancer in the cloud", &err);
		e->is_unknown |= err.code != ERR_UNSUPPORTED;
		return false;
	}
	for (size_t i = 0; i < n && !*ret; i++) {
		if (all[i].is_balancer &&
		    (str_eq(all[i].uid, s->object.uid) || str_eq(all[i].service, s->object.key)))
			*ret = &all[i];
	}
	return true;
}

static struct str
health_of(struct explanation *e, const struct lb_listed *lb)
{
	return arena_printf(arena_of(e), "healthy: %zu, unhealthy: %zu%s%" STR_FMT, lb->n_healthy,
	                    lb->n_unhealthy, lb->unhealthy.len > 0 ? "; " : "",
	                    STR_ARG(lb->unhealthy));
}

static void
compare_service(struct explanation *e, const struct service *s, struct cloud *cloud)
{
	struct error ignored;
	size_t n_nodes;
	bool has_nodes = count_targets(e, &n_nodes, &ignored); /* first: the cloud names them */
	const struct lb_listed *lb;
	bool can_list = find_balancer(e, s, cloud, &lb);
	bool is_local = can_list && !cloud->balancers->list;
	struct str missing = is_local   ? STR("none on this machine")
	                     : can_list ? STR("none")
	                                : STR_EMPTY;

	explain_add_row(e, "load balancer",
	                s->has_finalizer ? STR("claimed by the finalizer") : STR("not claimed"),
	                lb ? lb->id : missing, can_list && !is_local && !lb && s->n_ingress > 0);
	explain_add_row(e, "addresses", list_ingress(e, s),
	                lb ? list_texts(e, lb->addresses, lb->n_addresses) : missing, false);
	if (has_nodes)
		explain_add_row(e, "targets",
		                arena_printf(arena_of(e), "eligible nodes: %zu", n_nodes),
		                !lb               ? missing
		                : lb->has_targets ? number_of(e, lb->n_targets)
		                                  : STR_EMPTY,
		                lb && lb->has_targets && lb->n_targets == 0);
	if (lb && lb->has_health)
		explain_add_row(e, "health", STR_EMPTY, health_of(e, lb),
		                lb->n_unhealthy > 0 && lb->n_healthy == 0);
	if (lb)
		explain_add_row(e, "blocked addresses", STR_EMPTY, lb->blocked, true);
}

static const char *
service_work(const struct service *s)
{
	if (service_needs_cleanup(s))
		return "remove its load balancer";
	return s->n_ingress > 0 ? "update its load balancer" : "set up its load balancer";
}

void
explain_service(struct explanation *e)
{
	const struct view_services *services;
	const struct service *s;
	struct cloud *cloud;
	struct error err;

	if (!view_services(e->view, &services, &err)) {
		note_unknown(e, "the Service", &err);
		return;
	}
	s = find_service(services, e->what.key);
	e->exists = s != NULL;
	if (!s) {
		e->identity = STR("the cluster has no Service of this name");
		return;
	}
	e->uid = s->object.uid;
	e->identity = service_identity(s);
	e->state = service_state(e, s);
	e->next = explain_queue(e, service_work(s));
	if (!view_cloud(e->view, &cloud, &err)) {
		note_unknown(e, "its load balancer in the cloud", &err);
		return;
	}
	e->waits_for = service_waits_for(e, s, cloud);
	if (service_wants_balancer(s) || service_needs_cleanup(s))
		compare_service(e, s, cloud);
}

/* ---- routes ---- */

/* The oldest of the nodes with that pod CIDR: younger ones get no route (route_guard.h). */
static const struct node *
find_owner(const struct view_nodes *nodes, struct str cidr)
{
	const struct node *owner = NULL;

	for (size_t i = 0; i < nodes->n; i++) {
		const struct node *node = nodes->items[i];

		for (uint32_t j = 0; j < node->n_pod_cidrs; j++) {
			if (str_eq(node->pod_cidrs[j], cidr) &&
			    (!owner || node->created_wall_ns < owner->created_wall_ns))
				owner = node;
		}
	}
	return owner;
}

static const struct route *
find_route(const struct route_list *list, struct str cidr)
{
	for (size_t i = 0; i < list->n; i++) {
		if (str_eq(list->routes[i].destination_cidr, cidr))
			return &list->routes[i];
	}
	return NULL;
}

static struct str
route_state(const struct node *owner, const struct route *route)
{
	if (!route)
		return STR("the cloud has no route to it");
	if (route->is_blackhole || route->target_node.len == 0)
		return STR("the route leads to no node");
	if (route->is_unfinished)
		return STR("the route was begun and not finished");
	return owner && str_eq(route->target_node, node_name(owner))
	               ? STR("routed")
	               : STR("the route leads to another node");
}

static struct str
route_waits_for(struct explanation *e, const struct node *owner, const struct route *route)
{
	yyjson_val *last = json_at(explain_leader(e), "lastRun");
	struct str failure = STR_EMPTY;
	bool is_held_for_nodes = false;
	int64_t n_held = 0;

	(void)json_str(last, "error", &failure);
	(void)json_i64(last, "heldRemovals", &n_held);
	(void)json_bool(last, "isHeldForNodes", &is_held_for_nodes);
	if (owner && str_eq_c(route_state(owner, route), "routed"))
		return STR("nothing");
	if (failure.len > 0)
		return a_retry(e, failure);
	if (owner)
		return STR("the next run of the route controller");
	if (n_held > 0 && is_held_for_nodes)
		return STR("a node: while the cluster shows none, no route is removed");
	if (n_held > 0)
		return arena_printf(arena_of(e),
		                    "5 minutes of agreement: %lld routes would be removed together",
		                    (long long)n_held);
	return route ? STR("its removal") : STR("nothing");
}

static struct str
route_next(struct explanation *e)
{
	int64_t seconds;

	if (json_i64(explain_leader(e), "lastRun.nextInSeconds", &seconds) != JSON_FOUND)
		return STR_EMPTY;
	return arena_printf(
		arena_of(e),
		"the table of routes is compared again in %lld s, or when a node changes",
		(long long)seconds);
}

static void
explain_found_route(struct explanation *e, const struct node *owner,
                    const struct route_list *routes)
{
	const struct route *route = find_route(routes, e->what.key);

	e->exists = owner || route;
	e->problems.only_kind = owner ? "node" : "route";
	e->problems.only_name = owner ? node_name(owner) : e->what.key;
	e->identity = owner ? arena_printf(arena_of(e), "the pod CIDR of the node %" STR_FMT,
	                                   STR_ARG(node_name(owner)))
	                    : STR("no pod CIDR of a node");
	e->state = route_state(owner, route);
	e->waits_for = route_waits_for(e, owner, route);
	e->next = route_next(e);
	explain_add_row(e, "destination", owner ? e->what.key : STR_EMPTY,
	                route ? route->destination_cidr : STR("none"), owner && !route);
	explain_add_row(e, "node", owner ? node_name(owner) : STR_EMPTY,
	                route ? route->target_node : STR("none"),
	                owner && route && !str_eq(route->target_node, node_name(owner)));
}

void
explain_route(struct explanation *e)
{
	struct route_list routes = { 0 };
	const struct view_nodes *nodes;
	struct cloud *cloud;
	struct error err;

	if (!view_nodes(e->view, &nodes, &err)) {
		note_unknown(e, "the nodes", &err);
		return;
	}
	if (!view_cloud(e->view, &cloud, &err)) {
		note_unknown(e, "the routes of the cloud", &err);
		return;
	}
	if (!options_want_routes(view_options(e->view)) || !cloud->routes) {
		e->exists = find_owner(nodes, e->what.key) != NULL;
		e->identity = STR("nothing of ccmd: the route controller does not run");
		return;
	}
	if (cloud->routes->list(cloud, view_call(e->view), &routes, &err))
		explain_found_route(e, find_owner(nodes, e->what.key), &routes);
	else
		note_unknown(e, "the routes of the cloud", &err);
}
