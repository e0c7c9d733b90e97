/* operator/plan_run.c: runs the controllers for `ccmd plan`; see plan.h.
 *
 * Everything is made as main.c makes it for the controller, with five differences: all HTTP clients
 * refuse changes (view_restrict()), the fence is read-only, events are dropped, changes are noted
 * (manager_config.dry), and each store is filled by one list instead of by a reflector. A reflector
 * repeats a list that fails; a plan has to report the failure.
 *
 * With --use-service-account-credentials the controllers act as accounts of their own. A token
 * is created by a POST, which a plan must not send, so a plan reads everything with the credentials
 * that it was given.
 */
#include "operator/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/thread.h"
#include "controllers/host.h"
#include "flags/controllers.h"
#include "operator/leader.h"
#include "operator/progress.h"

#define SETTLE_NS (120 * NS_PER_SEC)

/* All parts, in the order in which they are created. */
struct runner {
	struct dry_run dry; /* for the controllers of nodes */
	pthread_mutex_t mu; /* held while a change is applied to the nodes */
	struct plan *plan;
	struct view *view;
	unsigned scope;
	struct fence fence; /* read-only */
	struct controller_parts parts;
	struct service_kind service_kind;
	struct store *services; /* NULL: none were listed */
	struct manager *manager;
};

/* kind: as in struct dry_item. */
static const struct {
	const char *name, *kind;
	unsigned scope;
} scopes[] = {
	{ "nodes", "node", PLAN_NODES },
	{ "services", "service", PLAN_SERVICES },
	{ "routes", "route", PLAN_ROUTES },
	{ "all", NULL, PLAN_ALL },
};

bool
plan_parse_scope(struct str text, unsigned *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(scopes); i++) {
		if (str_eq_c(text, scopes[i].name)) {
			*ret = scopes[i].scope;
			return true;
		}
	}
	return false;
}

/* Notes that these objects could not be computed, and leaves them out of what follows. scope: of
 * enum plan_scope. */
static void
fail_scope(struct runner *r, unsigned scope, const struct error *err)
{
	for (size_t i = 0; i < ARRAY_LEN(scopes); i++) {
		if (scopes[i].kind && (scope & scopes[i].scope))
			plan_note_failure(r->plan, scopes[i].kind, STR_EMPTY, err);
	}
	r->scope &= ~scope;
}

/* ---- the controllers ---- */

/* What each of them is about. */
static const struct {
	unsigned scope;
	const char *objects;
} controllers[N_CONTROLLERS] = {
	[CONTROLLER_NODE] = { PLAN_NODES, "nodes" },
	[CONTROLLER_LIFECYCLE] = { PLAN_NODES, "deletions of nodes" },
	[CONTROLLER_SERVICE] = { PLAN_SERVICES, "services" },
	[CONTROLLER_ROUTE] = { PLAN_ROUTES, "routes" },
};

/* Starts the controllers of these objects that belong to the plan. scope: of enum plan_scope. */
static void
start_controllers(struct runner *r, unsigned scope, struct dry_run *dry)
{
	const struct options *o = r->view->options;
	struct manager_config config = controllers_config(o, &r->parts);

	config.services = r->services;
	config.dry = dry;
	for (enum controller which = 0; which < N_CONTROLLERS; which++) {
		if ((r->scope & scope & controllers[which].scope) &&
		    !controllers_why_not(o, r->parts.cloud, which))
			config.clients[which] = r->view->kube;
	}
	r->manager = manager_new(&config);
	manager_start(r->manager, STR_EMPTY, /*may_follow_crash=*/false);
}

static bool
wait_settled(struct runner *r, struct error *err)
{
	return manager_wait_settled(r->manager, clock_deadline(clock_mono(&clock_real), SETTLE_NS),
	                            err);
}

/* ---- what the leader knows ---- */

/* The leader has looked at the node for longer, so its word counts, if it has the same answer of
 * the cloud. */
static void
prefer_leader(struct runner *r, struct lifecycle_candidate *c)
{
	yyjson_val *guard = json_at(leader_about(r->view, DESCRIBED_NODE, c->name), "guard");
	struct str held = json_view(guard, "heldBecause");
	int64_t seconds;

	if (!str_eq_c(json_view(guard, "machine"), "absent"))
		return;
	for (enum guard_outcome o = 0; o < GUARD_N_OUTCOMES; o++) {
		if (str_eq_c(json_view(guard, "verdict"), guard_outcome_name(o)))
			c->outcome = o;
	}
	c->hold_reason = held.len > 0 ? arena_strz(&r->view->arena, held) : NULL;
	c->deletable_in_ns = CLOCK_FOREVER;
	if (json_i64(guard, "deletableInSeconds", &seconds) == JSON_FOUND)
		c->deletable_in_ns = seconds * NS_PER_SEC;
}

/* Removals of routes are held from when the leader first saw them. */
static void
prefer_leader_for_route(struct view *v, struct plan_step *step)
{
	yyjson_val *run = json_at(leader_about(v, DESCRIBED_ROUTE, STR_EMPTY), "lastRun");
	int64_t seconds;

	if (step->not_before_wall_ns > 0 && json_i64(run, "heldForSeconds", &seconds) == JSON_FOUND)
		step->not_before_wall_ns = clock_wall(&clock_real) + seconds * NS_PER_SEC;
}

/* The changes of an object at which the leader has failed will hardly succeed. */
static void
note_leader(struct plan *plan, struct view *v)
{
	for (size_t i = 0; i < plan->n; i++) {
		struct plan_object *o = plan->objects[i];
		enum described_kind kind = DESCRIBED_NODE;

		while (kind < DESCRIBED_ROUTE && strcmp(leader_kinds[kind], o->kind) != 0)
			kind++;
		if (o->has_step && kind == DESCRIBED_ROUTE)
			prefer_leader_for_route(v, &o->step);
		if (!STAILQ_EMPTY(&o->changes))
			plan_note_last_failure(plan, o, leader_last_failure(v, kind, o->name));
	}
}

/* Notes the deletions that have to wait. */
static void
note_candidates(struct runner *r)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct lifecycle_candidate *candidates;
	size_t n = manager_candidates(r->manager, &arena, &candidates);

	for (size_t i = 0; i < n; i++) {
		struct lifecycle_candidate *c = &candidates[i];
		CLEANUP(buf_fini) struct buf condition = BUF_INIT(KIB(4));
		struct plan_step step = { .verb = DRY_DELETE };

		if (c->presence != PRESENCE_ABSENT || c->is_deleted || c->outcome == GUARD_DELETE)
			continue;
		prefer_leader(r, c);
		step.verdict = guard_outcome_name(c->outcome);
		if (c->deletable_in_ns != CLOCK_FOREVER) {
			step.not_before_wall_ns = clock_wall(&clock_real) + c->deletable_in_ns;
			buf_add_c(&condition, "its machine is absent at the next check, too");
		}
		if (c->hold_reason)
			buf_addf(&condition, "%s%s", condition.len > 0 ? "; " : "", c->hold_reason);
		step.condition = buf_str(&condition);
		plan_note_step(r->plan, "node", c->name, &step);
	}
}

/* ---- nodes as they will be ---- */

/* The node as JSON, as far as a store has it: the members that the controllers act on. */
static void
add_node(struct buf *b, const struct node *node)
{
	static const char *const ready[] = { [NODE_READY_UNKNOWN] = "Unknown",
		                             [NODE_READY_FALSE] = "False",
		                             [NODE_READY_TRUE] = "True" };
	bool is_routed = node->network == NODE_NETWORK_ROUTED;

	json_begin_object(b, NULL);

	json_begin_object(b, "metadata");
	json_add_members(b, JSON_TEXT("name", node_name(node)), JSON_TEXT("uid", node->object.uid),
	                 JSON_TEXT("resourceVersion", node->object.resource_version),
	                 JSON_TIME("creationTimestamp", node->created_wall_ns),
	                 JSON_IF(node->is_deleting, /* any time */
	                         JSON_TEXT("deletionTimestamp", STR("2000-01-01T00:00:00Z"))));
	json_begin_object(b, "labels");
	for (uint32_t i = 0; i < node->n_labels; i++) {
		json_add_name(b, node->labels[i]->key);
		json_add_str(b, node->labels[i]->value);
	}
	json_end_object(b);
	json_begin_object(b, "annotations");
	for (uint32_t i = 0; i < node->n_annotations; i++) {
		json_add_name(b, node->annotations[i].key);
		json_add_str(b, node->annotations[i].value);
	}
	json_end_object(b);
	json_end_object(b);

	json_begin_object(b, "spec");
	if (node_provider_id(node).len > 0)
		json_add_text(b, "providerID", node_provider_id(node));
	json_begin_array(b, "taints");
	for (uint32_t i = 0; i < node->n_taints; i++)
		json_add_raw(b, NULL, node->taints[i]->raw);
	json_end_array(b);
	json_add_texts(b, "podCIDRs", node->pod_cidrs, node->n_pod_cidrs);
	json_end_object(b);

	json_begin_object(b, "status");
	json_begin_array(b, "addresses");
	for (uint32_t i = 0; i < node->n_addresses; i++)
		json_add_object(b, NULL, JSON_TEXT("type", node->addresses[i].type),
		                JSON_TEXT("address", node->addresses[i].address));
	json_end_array(b);
	json_begin_array(b, "conditions");
	json_add_object(b, NULL, JSON_TEXT("type", STR("Ready")),
	                JSON_TEXT("status", str_c(ready[node->ready])));
	if (node->network != NODE_NETWORK_OTHER)
		json_add_object(b, NULL, JSON_TEXT("type", STR("NetworkUnavailable")),
		                JSON_TEXT("status", is_routed ? STR("False") : STR("True")),
		                JSON_TEXT("reason",
		                          is_routed ? STR("RouteCreated") : STR("NoRouteCreated")));
	json_end_array(b);
	json_end_object(b);

	json_end_object(b);
}

/* The node after a merge patch, parsed as if the API server had sent it. False: it cannot be read,
 * which a valid patch does not cause. */
static bool
apply_patch(const struct kind *kind, const struct node *node, struct str body, struct object **ret)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_JSON_ITEM);
	CLEANUP(buf_fini) struct buf patched = BUF_INIT(LIMIT_JSON_ITEM);
	CLEANUP(yyjson_doc_freep) yyjson_doc *old = NULL;
	CLEANUP(yyjson_doc_freep) yyjson_doc *patch = NULL;
	yyjson_mut_doc *merged;
	struct error ignored;
	char *json;
	size_t len = 0;

	add_node(&text, node);
	if (!json_parse(buf_str(&text), &old, &ignored) || !json_parse(body, &patch, &ignored))
		return false;
	merged = yyjson_mut_doc_new(NULL);
	yyjson_mut_doc_set_root(merged, yyjson_merge_patch(merged, yyjson_doc_get_root(old),
	                                                   yyjson_doc_get_root(patch)));
	json = yyjson_mut_write(merged, 0, &len);
	buf_add(&patched, json, len);
	free(json);
	yyjson_mut_doc_free(merged);
	if (!object_parse(kind, buf_str(&patched), ret, &ignored))
		return false;
	node_of(*ret)->heartbeat = node->heartbeat;
	return true;
}

/* What the controllers of Services and routes do depends on the nodes: a node that was initialised
 * becomes a target, and one that was deleted loses its route. So the changes of nodes are applied
 * to the store, where these controllers, which run afterwards, find them. A change of which the
 * body is not known has no effect. */
static void
note_node_change(struct dry_run *run, const struct dry_item *item, const struct dry_change *change)
{
	struct runner *r = CONTAINER_OF(run, struct runner, dry);
	struct dry_run *plan = plan_dry_run(r->plan);
	CLEANUP(object_unrefp) struct object *now = NULL;
	struct object *patched;
	struct error ignored;
	WITH_LOCK(&r->mu);

	plan->note(plan, item, change);
	now = store_get(r->parts.nodes, item->name);
	if (now && change->verb == DRY_DELETE)
		store_remove(r->parts.nodes, now);
	else if (now && change->body.len > 0 &&
	         apply_patch(&r->parts.node_kind.kind, node_of(now), change->body, &patched))
		(void)!store_put(r->parts.nodes, patched, &ignored);
}

/* ---- the run ---- */

static void
note_node_failure(struct dry_run *run, const struct dry_item *item, const struct error *err)
{
	struct dry_run *plan = plan_dry_run(CONTAINER_OF(run, struct runner, dry)->plan);

	plan->failed(plan, item, err);
}

static void
note_skipped(struct runner *r)
{
	for (enum controller which = 0; which < N_CONTROLLERS; which++) {
		const char *reason = controllers_why_not(r->view->options, r->parts.cloud, which);

		if (reason && (r->scope & controllers[which].scope))
			plan_note_skipped(r->plan, controllers[which].objects, reason);
	}
}

/* The Services are needed even for a plan of the nodes: the balancer of a Service may be the
 * witness for a deletion. */
static void
list_services(struct runner *r)
{
	struct error err;

	if (controllers_why_not(r->view->options, r->parts.cloud, CONTROLLER_SERVICE))
		return;
	r->service_kind = service_kind_of(r->parts.cloud);
	r->services = store_new(&r->service_kind.kind, &clock_real);
	if (!view_fill(r->view, "service", r->services, &err)) {
		fail_scope(r, PLAN_SERVICES, &err);
		store_free(TAKE(r->services));
	}
}

static bool
run_controllers(struct runner *r, struct error *err)
{
	const struct options *o = r->view->options;

	if (!controllers_load_cloud(o, /*is_read_only=*/true, &r->parts.cloud, err))
		return false;
	view_confine(r->view, r->parts.cloud);
	if (!view_need(r->view, VIEW_SERVER, err) ||
	    !controllers_start_cloud(&r->parts, o, &r->fence, /*events=*/NULL, err) ||
	    !controllers_check_cluster_cidr(o, r->parts.cloud, err))
		return false;
	note_skipped(r);
	list_services(r);

	/* the nodes; their controllers subscribe to the store before it is filled */
	start_controllers(r, PLAN_NODES, &r->dry);
	if (!view_fill(r->view, "node", r->parts.nodes, err) || !wait_settled(r, err))
		return false;
	note_candidates(r);
	(void)manager_stop(r->manager, /*grace_ns=*/0);
	manager_free(TAKE(r->manager));

	/* The other objects. The stores have all of them already, so no event queues the Services:
	 * they are queued here. The route controller compares all routes when it starts. */
	if (!(r->scope & (PLAN_SERVICES | PLAN_ROUTES)))
		return true;
	start_controllers(r, PLAN_SERVICES | PLAN_ROUTES, plan_dry_run(r->plan));
	r->parts.cloud->host->requeue(r->parts.cloud->host, HOST_REQUEUE_SERVICES, STR_EMPTY);
	return wait_settled(r, err);
}

void
plan_run(struct plan *plan, struct view *view, unsigned scope)
{
	struct runner r = { .dry = { .note = note_node_change, .failed = note_node_failure },
		            .plan = plan,
		            .view = view,
		            .scope = scope,
		            .fence = FENCE_READ_ONLY };
	struct error err;

	mutex_init(&r.mu);
	(void)progress_set("running the controllers");
	if (!run_controllers(&r, &err))
		fail_scope(&r, r.scope, &err);
	note_leader(plan, view);

	/* in the order of main.c */
	if (r.manager)
		(void)manager_stop(r.manager, /*grace_ns=*/0);
	if (r.parts.cloud)
		r.parts.cloud->ops->close(r.parts.cloud);
	recorder_free(r.parts.recorder, /*flush_ms=*/0);
	manager_free(r.manager);
	host_free(r.parts.host);
	store_free(r.services);
	store_free(r.parts.nodes);
	mutex_destroy(&r.mu);

	/* Code that does not check call->dry may ignore that its request was refused. The plan must
	 * not seem to be complete then. */
	if (fence_find_refused(&err))
		fail_scope(&r, scope, &err);
}
