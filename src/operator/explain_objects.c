/* operator/explain_objects.c: what is said about a node, a Service and a route; see explain.h.
 *
 * A sentence about what ccmd waits for is taken from the leader if it has answered, because only it
 * knows the history. Otherwise it follows from the present state, with the functions that the
 * controllers use.
 */
#include "controllers/service/service.h"
#include "flags/flags.h"
#include "operator/explain.h"
#include "operator/facts.h"

/* Reads these parts. False: they cannot be read, and it is noted that this is not known. */
static bool
read_or_note(struct explanation *e, unsigned parts, const char *what)
{
	struct error err;

	if (view_need(e->view, parts, &err))
		return true;
	explain_note_gap(e, what, &err);
	e->is_unknown = true;
	return false;
}

static struct str
keep(struct explanation *e, const struct buf *text)
{
	return arena_str(&e->view->arena, buf_str(text));
}

/* Begins another part of a sentence. */
static struct buf *
add_part(struct buf *text)
{
	buf_add_c(text, text->len > 0 ? "; " : "");
	return text;
}

/* A failure that the leader remembers. */
static struct str
retry_text(struct explanation *e, struct str failure)
{
	return arena_printf(&e->view->arena, "a retry, because: %" STR_FMT, STR_ARG(failure));
}

/* What the leader's queue does with the object next; nothing, if that is not known. work is what a
 * worker does with it: "initialise it". */
static struct str
queue_next(struct explanation *e, const char *work)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(4));
	yyjson_val *queue = json_at(explain_leader(e), "queue");
	int64_t failures = json_i64_or(queue, "failures", 0);
	struct str state = json_view(queue, "state");

	if (str_eq_c(state, "working"))
		return STR("a worker handles it now");
	if (str_eq_c(state, "waiting"))
		return arena_printf(&e->view->arena, "a worker handles it after %lld others",
		                    (long long)json_i64_or(queue, "keysBefore", 0));
	if (!str_eq_c(state, "delayed"))
		return STR_EMPTY;
	buf_addf(&text, "the next attempt to %s is in %lld s", work,
	         (long long)json_i64_or(queue, "dueInSeconds", 0));
	if (yyjson_is_true(json_at(queue, "waitsForOutage")))
		buf_add_c(&text, ", or when the cloud is available again");
	else if (failures > 0)
		buf_addf(&text, ", after %lld that failed", (long long)failures);
	return keep(e, &text);
}

/* When the object of explain_raw() was created. */
static struct str
creation_time(struct explanation *e, yyjson_val *raw)
{
	return explain_since(e, json_view(raw, "metadata.creationTimestamp"));
}

/* ---- nodes ---- */

/* Why the leader's last attempt to do this work on the node failed; NULL: it did not. */
static yyjson_val *
find_failure(struct explanation *e, const char *work)
{
	yyjson_val *errors = json_at(explain_leader(e), "errors"), *one;
	size_t i, n;

	yyjson_arr_foreach(errors, i, n, one)
	{
		if (str_eq_c(json_view(one, "work"), work))
			return one;
	}
	return NULL;
}

/* A retry, with the reason; or the other text, if nothing failed. */
static struct str
failure_text_or(struct explanation *e, yyjson_val *failure, struct str other)
{
	struct str error = json_view(failure, "error");

	return error.len > 0 ? retry_text(e, error) : other;
}

static struct str
node_identity(const struct node_facts *f)
{
	if (f->machine && f->machine->presence == PRESENCE_FOREIGN && !node_is_new(f->node))
		return STR("a node of another cloud, which ccmd leaves alone");
	if (node_is_new(f->node))
		return STR("a new node, which ccmd has to initialise");
	if (node_provider_id(f->node).len == 0)
		return STR(
			"a node that ccmd did not initialise: its kubelet runs without --cloud-provider=external");
	return STR("a node that ccmd keeps in step with its machine");
}

static struct str
node_state(struct explanation *e, const struct node *node)
{
	static const char *const names[] = { [NODE_READY_UNKNOWN] = "not Ready (silent)",
		                             [NODE_READY_FALSE] = "not Ready",
		                             [NODE_READY_TRUE] = "Ready" };
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(4));
	yyjson_val *raw = explain_raw(e, "/api/v1/nodes", node_name(node));
	yyjson_val *conditions = json_at(raw, "status.conditions"), *condition;
	size_t i, n;

	buf_add_c(&text, names[node->ready]);
	yyjson_arr_foreach(conditions, i, n, condition)
	{
		struct str since = json_view(condition, "lastTransitionTime");

		if (str_eq_c(json_view(condition, "type"), "Ready") && since.len > 0)
			buf_addf(&text, " since %" STR_FMT, STR_ARG(explain_since(e, since)));
	}
	if (node_is_new(node))
		buf_addf(add_part(&text), "tainted since its creation, %" STR_FMT,
		         STR_ARG(creation_time(e, raw)));
	if (node_taint(node, STR(NODE_TAINT_SHUTDOWN)))
		buf_add_c(add_part(&text), "its machine is shut down");
	if (node->is_deleting)
		buf_add_c(add_part(&text), "being deleted");
	return keep(e, &text);
}

static struct str
new_node_waits_for(struct explanation *e, const struct node_facts *f)
{
	yyjson_val *failure = find_failure(e, "sync");

	if (!f->machine)
		return failure_text_or(e, failure, STR_EMPTY);
	switch (f->machine->presence) {
	case PRESENCE_ABSENT:
		return STR("a machine of this name in the cloud");
	case PRESENCE_UNKNOWN:
	case PRESENCE_FOREIGN:
		return arena_str(&e->view->arena, f->machine->error);
	case PRESENCE_PRESENT:
		break;
	}
	if (f->addresses_err.code != ERR_NONE)
		return arena_str(&e->view->arena, str_c(f->addresses_err.msg));
	return failure_text_or(e, failure, STR("the leader: its machine is found"));
}

/* By the verdict of the leader's deletion guard, unless it says why the node is held. */
static struct str
guarded_node_waits_for(yyjson_val *guard)
{
	static const struct {
		const char *verdict, *text;
	} verdicts[] = {
		{ "keep", "its kubelet: the cloud has its machine" },
		{ "unconfirmed", "a second check that does not find its machine" },
		{ "kubelet_alive", "its kubelet to be silent" },
		{ "young", "the node to be old enough to be deleted" },
		{ "foreign", "nothing: ccmd leaves nodes of other clouds alone" },
		{ "delete", "the end of its deletion" },
	};
	struct str verdict = json_view(guard, "verdict"), held = json_view(guard, "heldBecause");

	if (held.len > 0)
		return held;
	for (size_t i = 0; i < ARRAY_LEN(verdicts); i++) {
		if (str_eq_c(verdict, verdicts[i].verdict))
			return str_c(verdicts[i].text);
	}
	return STR_EMPTY;
}

static struct str
node_waits_for(struct explanation *e, const struct node_facts *f)
{
	static const char *const works[] = { "lifecycle", "sync", "addresses" };
	yyjson_val *guard = json_at(explain_leader(e), "guard"), *failure = NULL;

	if (node_is_new(f->node))
		return new_node_waits_for(e, f);
	for (size_t i = 0; i < ARRAY_LEN(works) && !failure; i++)
		failure = find_failure(e, works[i]);
	if (f->node->ready == NODE_READY_TRUE || failure)
		return failure_text_or(e, failure, STR("nothing"));
	if (f->machine && f->machine->presence == PRESENCE_PRESENT &&
	    f->machine->power == POWER_OFF)
		return STR("its machine, which is switched off");
	if (guard)
		return guarded_node_waits_for(guard);
	if (f->machine && f->machine->presence == PRESENCE_ABSENT)
		return STR("the proof that its machine is gone");
	return STR("its kubelet");
}

/* What the leader does next: its queue, its deletion guard, and work that is in neither. */
static struct str
node_next(struct explanation *e, const struct node *node)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(4));
	yyjson_val *guard = json_at(explain_leader(e), "guard");
	int64_t failed = json_i64_or(guard, "failedLooks", 0), seconds;

	buf_add_str(&text, queue_next(e, node_is_new(node) ? "initialise it"
	                                                   : "update its labels and addresses"));
	if (json_i64(guard, "nextLookInSeconds", &seconds) == JSON_FOUND) {
		buf_addf(add_part(&text), "the next check of its machine is in %lld s",
		         (long long)seconds);
		if (failed > 0)
			buf_addf(&text, ", after %lld that failed", (long long)failed);
		if (json_i64(guard, "deletableInSeconds", &seconds) == JSON_FOUND)
			buf_addf(
				add_part(&text),
				"the node is deleted in %lld s at the earliest, if no check finds it until then",
				(long long)seconds);
	}
	if (json_i64(find_failure(e, "lifecycle"), "nextInSeconds", &seconds) == JSON_FOUND)
		buf_addf(add_part(&text), "its shutdown taint is removed in %lld s",
		         (long long)seconds);
	if (json_i64(find_failure(e, "addresses"), "nextInSeconds", &seconds) == JSON_FOUND)
		buf_addf(add_part(&text), "its addresses are compared again in %lld s",
		         (long long)seconds);
	return keep(e, &text);
}

static struct str
machine_state(struct explanation *e, const struct instance *machine)
{
	switch (machine->presence) {
	case PRESENCE_ABSENT:
		return STR("no such machine");
	case PRESENCE_FOREIGN:
	case PRESENCE_UNKNOWN:
		return arena_printf(&e->view->arena, "unknown: %" STR_FMT, STR_ARG(machine->error));
	case PRESENCE_PRESENT:
		break;
	}
	return machine->power == POWER_OFF  ? STR("exists, is shut down")
	       : machine->power == POWER_ON ? STR("exists, runs")
	                                    : STR("exists");
}

/* A new node is expected to differ: its initialisation sets what is missing. */
static void
compare_node(struct explanation *e, const struct node_facts *f)
{
	static const struct instance nothing = { .presence = PRESENCE_UNKNOWN };
	const struct instance *m = f->machine ? f->machine : &nothing;
	const struct node *node = f->node;
	bool is_new = node_is_new(node);

	explain_add_row(e, "state",
	                node->ready == NODE_READY_TRUE ? STR("Ready") : STR("not Ready"),
	                f->machine ? machine_state(e, m) : STR_EMPTY,
	                m->presence == PRESENCE_ABSENT);
	explain_add_row(e, "provider ID", node_provider_id(node), m->provider_id,
	                !is_new && m->presence == PRESENCE_PRESENT &&
	                        !str_eq(node_provider_id(node), m->provider_id));
	explain_add_row(e, "addresses",
	                facts_addresses(&e->view->arena, node->addresses, node->n_addresses),
	                facts_addresses(&e->view->arena, m->addresses, m->n_addresses),
	                !is_new && f->has_other_addresses);
	for (size_t i = 0; i < FACTS_LABELS; i++) {
		const struct label_facts *label = &f->labels[i];

		explain_add_row(e, label->name, label->has, label->wanted,
		                !is_new && label->differs);
	}
}

void
explain_node(struct explanation *e)
{
	struct view *v = e->view;
	const struct instance *machine = NULL;
	const struct node *node;
	struct node_facts f;
	size_t i;

	if (!read_or_note(e, VIEW_NODES, "the node"))
		return;
	i = view_find(&v->nodes.list, e->what.key);
	if (i == v->nodes.n) {
		e->identity = STR("the cluster has no node of this name");
		return;
	}
	e->exists = true;
	node = v->nodes.items[i];
	if (read_or_note(e, VIEW_LOOK, "its machine in the cloud"))
		machine = &v->look->instances[i];
	f = facts_of_node(node, machine, &v->arena);
	e->uid = node->object.uid;
	e->created_s = node->created_wall_ns / NS_PER_SEC;
	e->state = node_state(e, node);
	e->identity = node_identity(&f);
	e->waits_for = node_waits_for(e, &f);
	e->next = node_next(e, node);
	compare_node(e, &f);
}

/* ---- Services ---- */

static struct str
list_ingress(struct explanation *e, const struct service *s)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(8));

	for (uint32_t i = 0; i < s->n_ingress; i++) {
		buf_add_c(&text, i > 0 ? ", " : "");
		buf_add_str(&text,
		            s->ingress[i].ip.len > 0 ? s->ingress[i].ip : s->ingress[i].hostname);
	}
	return keep(e, &text);
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
	struct arena *arena = &e->view->arena;
	struct str path = arena_printf(arena, "/api/v1/namespaces/%" STR_FMT "/services",
	                               STR_ARG(s->namespace));
	struct str created = creation_time(e, explain_raw(e, path.ptr, s->name));

	if (s->is_deleting)
		return STR("being deleted");
	if (!service_wants_balancer(s))
		return arena_printf(arena, "created %" STR_FMT, STR_ARG(created));
	if (s->n_ingress > 0)
		return arena_printf(arena, "served at %" STR_FMT, STR_ARG(list_ingress(e, s)));
	return arena_printf(arena, "pending since its creation, %" STR_FMT, STR_ARG(created));
}

static struct str
service_waits_for(struct explanation *e, const struct service *s)
{
	struct view *v = e->view;
	struct str failure = json_view(explain_leader(e), "memory.error");
	struct lb_spec spec;
	struct error err;

	if (!service_wants_balancer(s) && !service_needs_cleanup(s))
		return STR("nothing");
	if (s->is_deleting && !facts_releases_service(v, s))
		return STR("the controller of its class, which has to remove the finalizer");
	if (s->is_deleting && !controllers_enabled(v->options, "service-lb-controller"))
		return STR("the service controller, which --controllers switches off");
	if (!v->cloud->balancers)
		return STR("nothing: the cloud, as it is configured, has no load balancers");
	if (failure.len > 0)
		return retry_text(e, failure);
	if (s->is_deleting)
		return STR("the removal of its load balancer");
	spec = service_spec(s, v->options->cluster_name, &v->arena);
	if (!balancer_check(v->cloud, &v->call, &spec, &err))
		return arena_printf(&v->arena, "a change of the Service: %s", err.msg);
	if (view_need(v, VIEW_NODES, &err) && facts_count_targets(v, s, NULL) == 0)
		return STR("a node that may be its target");
	return s->n_ingress > 0 ? STR("nothing") : STR("its load balancer");
}

/* Finds its balancer; NULL: there is none. False: which ones there are cannot be seen. */
static bool
find_balancer(struct explanation *e, const struct service *s, const struct lb_listed **ret)
{
	struct view *v = e->view;
	const struct balancer_ops *ops = v->cloud->balancers;
	struct error err;

	*ret = NULL;
	if (!ops || (!ops->list && !ops->list_local))
		return false;
	if (!view_need(v, VIEW_BALANCERS, &err)) {
		explain_note_gap(e, "its load balancer in the cloud", &err);
		e->is_unknown |= err.code != ERR_UNSUPPORTED;
		return false;
	}
	for (size_t i = 0; i < v->n_balancers && !*ret; i++) {
		if (v->balancers[i].is_balancer && facts_is_of_service(&v->balancers[i], s))
			*ret = &v->balancers[i];
	}
	return true;
}

static struct str
addresses_text(struct explanation *e, const struct lb_listed *lb)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(8));

	for (size_t i = 0; i < lb->n_addresses; i++)
		buf_addf(&text, "%s%" STR_FMT, i > 0 ? ", " : "", STR_ARG(lb->addresses[i]));
	return keep(e, &text);
}

static struct str
targets_text(struct explanation *e, const struct lb_listed *lb)
{
	if (!lb->has_targets)
		return STR_EMPTY;
	return arena_printf(&e->view->arena, "%zu", lb->n_targets);
}

static struct str
health_text(struct explanation *e, const struct lb_listed *lb)
{
	return arena_printf(&e->view->arena, "healthy: %zu, unhealthy: %zu%s%" STR_FMT,
	                    lb->n_healthy, lb->n_unhealthy, lb->unhealthy.len > 0 ? "; " : "",
	                    STR_ARG(lb->unhealthy));
}

static void
compare_service(struct explanation *e, const struct service *s)
{
	struct view *v = e->view;
	const struct balancer_ops *ops = v->cloud->balancers;
	struct error ignored;
	/* the nodes first: the cloud names them */
	bool has_targets = ops && view_need(v, VIEW_NODES, &ignored);
	const struct lb_listed *lb;
	bool can_list = find_balancer(e, s, &lb);
	bool is_local = can_list && ops && !ops->list;
	struct str missing = STR_EMPTY;

	if (can_list)
		missing = is_local ? STR("none on this machine") : STR("none");
	explain_add_row(e, "load balancer",
	                s->has_finalizer ? STR("claimed by the finalizer") : STR("not claimed"),
	                lb ? lb->id : missing, can_list && !is_local && !lb && s->n_ingress > 0);
	explain_add_row(e, "addresses", list_ingress(e, s), lb ? addresses_text(e, lb) : missing,
	                false);
	if (has_targets)
		explain_add_row(e, "targets",
		                arena_printf(&v->arena, "eligible nodes: %zu",
		                             facts_count_targets(v, s, NULL)),
		                lb ? targets_text(e, lb) : missing,
		                lb && lb->has_targets && lb->n_targets == 0);
	if (lb && lb->has_health)
		explain_add_row(e, "health", STR_EMPTY, health_text(e, lb),
		                lb->n_unhealthy > 0 && lb->n_healthy == 0);
	if (lb)
		explain_add_row(e, "blocked addresses", STR_EMPTY, lb->blocked, true);
}

static const struct service *
find_service(const struct view_services *services, struct str key)
{
	size_t i = view_find(&services->list, key);

	return i < services->n ? services->items[i] : NULL;
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
	const struct service *s;

	if (!read_or_note(e, VIEW_SERVICES, "the Service"))
		return;
	s = find_service(&e->view->services, e->what.key);
	if (!s) {
		e->identity = STR("the cluster has no Service of this name");
		return;
	}
	e->exists = true;
	e->uid = s->object.uid;
	e->identity = service_identity(s);
	e->state = service_state(e, s);
	e->next = queue_next(e, service_work(s));
	if (!read_or_note(e, VIEW_CLOUD, "its load balancer in the cloud"))
		return;
	e->waits_for = service_waits_for(e, s);
	if (service_wants_balancer(s) || service_needs_cleanup(s))
		compare_service(e, s);
}

/* ---- routes ---- */

/* Does the route lead to the node that has this pod CIDR? */
static bool
is_routed(const struct node *owner, const struct route *route)
{
	return owner && route && !route->is_blackhole && !route->is_unfinished &&
	       str_eq(route->target_node, node_name(owner));
}

static struct str
route_state(const struct node *owner, const struct route *route)
{
	if (is_routed(owner, route))
		return STR("routed");
	if (!route)
		return STR("the cloud has no route to it");
	if (route->is_blackhole || route->target_node.len == 0)
		return STR("the route leads to no node");
	if (route->is_unfinished)
		return STR("the route was begun and not finished");
	return STR("the route leads to another node");
}

static struct str
route_waits_for(struct explanation *e, const struct node *owner, const struct route *route)
{
	yyjson_val *last = json_at(explain_leader(e), "lastRun");
	struct str failure = json_view(last, "error");
	int64_t n_held = json_i64_or(last, "heldRemovals", 0);

	if (is_routed(owner, route))
		return STR("nothing");
	if (failure.len > 0)
		return retry_text(e, failure);
	if (owner)
		return STR("the next run of the route controller");
	if (n_held > 0 && yyjson_is_true(json_at(last, "isHeldForNodes")))
		return STR("a node: while the cluster shows none, no route is removed");
	if (n_held > 0)
		return arena_printf(&e->view->arena,
		                    "5 minutes of agreement: %lld routes would be removed together",
		                    (long long)n_held);
	return route ? STR("its removal") : STR("nothing");
}

void
explain_route(struct explanation *e)
{
	struct view *v = e->view;
	const struct node *owner;
	const struct route *route;
	struct str node = STR_EMPTY;
	int64_t seconds;

	if (!read_or_note(e, VIEW_NODES, "the nodes") ||
	    !read_or_note(e, VIEW_CLOUD, "the routes of the cloud"))
		return;
	if (!options_want_routes(v->options) || !v->cloud->routes) {
		e->exists = facts_owner_of_cidr(v, e->what.key) != NULL;
		e->identity = STR("nothing of ccmd: the route controller does not run");
		return;
	}
	if (!read_or_note(e, VIEW_ROUTES, "the routes of the cloud"))
		return;
	owner = facts_owner_of_cidr(v, e->what.key);
	route = facts_route_to(v, e->what.key);
	e->exists = owner || route;
	if (owner) {
		node = node_name(owner);
		e->problems.only_kind = "node";
		e->problems.only_name = node;
		e->identity = arena_printf(&v->arena, "the pod CIDR of the node %" STR_FMT,
		                           STR_ARG(node));
	} else {
		e->problems.only_kind = "route";
		e->problems.only_name = e->what.key;
		e->identity = STR("no pod CIDR of a node");
	}
	e->state = route_state(owner, route);
	e->waits_for = route_waits_for(e, owner, route);
	if (json_i64(explain_leader(e), "lastRun.nextInSeconds", &seconds) == JSON_FOUND)
		e->next = arena_printf(
			&v->arena,
			"the table of routes is compared again in %lld s, or when a node changes",
			(long long)seconds);
	explain_add_row(e, "destination", owner ? e->what.key : STR_EMPTY,
	                route ? route->destination_cidr : STR("none"), owner && !route);
	explain_add_row(e, "node", node, route ? route->target_node : STR("none"),
	                owner && route && !str_eq(route->target_node, node));
}
