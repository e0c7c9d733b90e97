/* controllers/describe.c: see describe.h. */
#include "controllers/describe.h"

#include "base/ip.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/metrics.h"
#include "base/recent.h"
#include "controllers/node_errors.h"
#include "kube/node.h"
#include "kube/store.h"

METRIC_FAMILY(
	problems, METRIC_GAUGE, "ccmd_doctor_problems",
	"[ALPHA] Objects that the leader has not been able to bring to their desired state, by the code of the check of ccmd doctor that reports them: nodes that are not initialised (CCMD041), deletions of nodes that are held (CCMD049), runs of the route controller that fail (CCMD050), Services without an address (CCMD060, or CCMD063 and CCMD067 if the cloud refuses them).",
	.labels = { "code" });

/* ---- paths ---- */

static bool
is_name(struct str name)
{
	return name.len > 0 && name.len <= LIMIT_NAME && str_index(name, '/') < 0;
}

bool
described_parse(struct str path, struct described *ret)
{
	struct str kind, namespace, name;
	struct ip_net net;

	if (!str_cut(path, '/', &kind, &ret->key))
		return false;
	if (str_eq_c(kind, "nodes")) {
		ret->kind = DESCRIBED_NODE;
		return is_name(ret->key);
	}
	if (str_eq_c(kind, "services")) {
		ret->kind = DESCRIBED_SERVICE;
		return str_cut(ret->key, '/', &namespace, &name) && is_name(namespace) &&
		       is_name(name);
	}
	ret->kind = DESCRIBED_ROUTE;
	return str_eq_c(kind, "routes") && ip_net_parse(ret->key, &net);
}

/* ---- JSON ---- */

/* Rounded up: what is due in a moment is not shown as due. */
static int64_t
seconds(int64_t ns)
{
	return ns / NS_PER_SEC + (ns % NS_PER_SEC > 0);
}

static void
add_queue(struct buf *json, struct queue *queue, struct str key)
{
	static const char *const states[] = { [QUEUE_IDLE] = "idle",
		                              [QUEUE_DELAYED] = "delayed",
		                              [QUEUE_WAITING] = "waiting",
		                              [QUEUE_WORKING] = "working" };
	struct queue_peek peek = queue_peek(queue, key);
	bool is_delayed = peek.state == QUEUE_DELAYED, is_waiting = peek.state == QUEUE_WAITING;

	json_add_object(json, "queue", JSON_TEXT("state", str_c(states[peek.state])),
	                JSON_NUMBER("failures", peek.n_failures),
	                JSON_IF(is_delayed, JSON_NUMBER("dueInSeconds", seconds(peek.due_in_ns))),
	                JSON_IF(is_delayed, JSON_FLAG("waitsForOutage", peek.is_parked)),
	                JSON_IF(is_waiting || peek.state == QUEUE_WORKING,
	                        JSON_NUMBER("sinceSeconds", seconds(peek.for_ns))),
	                JSON_IF(is_waiting, JSON_NUMBER("keysBefore", peek.n_before)));
}

static void
add_guard(struct buf *json, const struct lifecycle_candidate *c)
{
	static const char *const presences[] = { [PRESENCE_UNKNOWN] = "unknown",
		                                 [PRESENCE_PRESENT] = "present",
		                                 [PRESENCE_ABSENT] = "absent",
		                                 [PRESENCE_FOREIGN] = "foreign" };

	json_add_object(json, "guard", JSON_TEXT("machine", str_c(presences[c->presence])),
	                JSON_TEXT("verdict", str_c(guard_outcome_name(c->outcome))),
	                JSON_TEXT("heldBecause", str_c(c->hold_reason)),
	                JSON_NUMBER("looks", c->n_looks), JSON_NUMBER("failedLooks", c->n_failures),
	                JSON_NUMBER("absentLooks", c->n_absent),
	                JSON_IF(c->n_looks > 0,
	                        JSON_NUMBER("lookedSecondsAgo", seconds(c->looked_ago_ns))),
	                JSON_IF(c->n_absent > 0,
	                        JSON_NUMBER("absentForSeconds", seconds(c->absent_for_ns))),
	                JSON_NUMBER("nextLookInSeconds", seconds(c->next_look_in_ns)),
	                JSON_IF(c->deletable_in_ns != CLOCK_FOREVER,
	                        JSON_NUMBER("deletableInSeconds", seconds(c->deletable_in_ns))),
	                JSON_FLAG("isDeleted", c->is_deleted));
}

/* One object for each kind of work on the node whose last attempt failed. */
static void
add_errors(struct buf *json, struct node_errors *errors, struct str name, struct arena *arena)
{
	static const char *const works[] = { [NODE_WORK_SYNC] = "sync",
		                             [NODE_WORK_LIFECYCLE] = "lifecycle",
		                             [NODE_WORK_ADDRESSES] = "addresses" };
	struct node_error one;

	json_begin_array(json, "errors");
	for (size_t i = 0; i < ARRAY_LEN(works); i++) {
		if (!node_errors_get(errors, (enum node_work)i, name, arena, &one))
			continue;
		json_add_object(json, NULL, JSON_TEXT("work", str_c(works[i])),
		                JSON_TEXT("error", one.text),
		                JSON_NUMBER("failedSecondsAgo", seconds(one.failed_ago_ns)),
		                JSON_IF(one.retry_in_ns != CLOCK_FOREVER,
		                        JSON_NUMBER("nextInSeconds", seconds(one.retry_in_ns))));
	}
	json_end_array(json);
}

static void
describe_node(const struct describe_sources *s, struct str name, struct arena *arena,
              struct buf *json)
{
	CLEANUP(object_unrefp) struct object *object = store_get(s->nodes, name);
	struct lifecycle_candidate candidate;

	json_add_flag(json, "isKnown", object != NULL);
	if (s->node)
		add_queue(json, node_controller_queue(s->node), name);
	if (s->lifecycle && lifecycle_controller_candidate(s->lifecycle, arena, name, &candidate))
		add_guard(json, &candidate);
	add_errors(json, s->node_errors, name, arena);
}

static void
describe_service(const struct describe_sources *s, struct str key, struct arena *arena,
                 struct buf *json)
{
	CLEANUP(object_unrefp)
	struct object *object = s->services ? store_get(s->services, key) : NULL;
	struct service_memory memory;

	json_add_flag(json, "isKnown", object != NULL);
	if (!s->service)
		return;
	add_queue(json, service_controller_queue(s->service), key);
	if (!service_controller_remembers(s->service, arena, key, &memory))
		return;
	json_add_object(json, "memory", JSON_FLAG("hasBalancer", memory.has_balancer),
	                JSON_TEXT("error", memory.error),
	                JSON_IF(memory.error.len > 0,
	                        JSON_NUMBER("failedSecondsAgo", seconds(memory.failed_ago_ns))));
}

static void
add_route_run(const struct describe_sources *s, struct arena *arena, struct buf *json)
{
	struct route_outcome outcome = { .is_known = false };

	if (s->route)
		outcome = route_controller_outcome(s->route, arena);
	if (!outcome.is_known)
		return;
	json_add_object(json, "lastRun",
	                JSON_NUMBER("endedSecondsAgo", seconds(outcome.ended_ago_ns)),
	                JSON_NUMBER("nextInSeconds", seconds(outcome.next_run_in_ns)),
	                JSON_TEXT("error", outcome.error),
	                JSON_NUMBER("failures", outcome.n_failures),
	                JSON_NUMBER("heldRemovals", outcome.n_held),
	                JSON_FLAG("isHeldForNodes", outcome.is_held_for_nodes),
	                JSON_IF(outcome.n_held > 0 && outcome.held_for_ns != CLOCK_FOREVER,
	                        JSON_NUMBER("heldForSeconds", seconds(outcome.held_for_ns))));
}

static bool
is_pod_cidr(struct store *nodes, struct str cidr)
{
	CLEANUP(store_list_free) struct store_list all = store_list(nodes);

	for (size_t i = 0; i < all.n; i++) {
		const struct node *node = node_of(all.objects[i]);

		if (str_is_among(cidr, node->pod_cidrs, node->n_pod_cidrs))
			return true;
	}
	return false;
}

static void
describe_route(const struct describe_sources *s, struct str cidr, struct arena *arena,
               struct buf *json)
{
	json_add_flag(json, "isKnown", is_pod_cidr(s->nodes, cidr));
	add_route_run(s, arena, json);
}

/* ---- all objects in trouble ---- */

/* store NULL: nothing handles objects of that kind. */
static struct store_list
list_of(struct store *store)
{
	return store ? store_list(store) : (struct store_list){ 0 };
}

static bool
is_node_in_trouble(const struct describe_sources *s, struct str name, struct arena *arena)
{
	struct lifecycle_candidate candidate;
	struct node_error error;
	bool is_found = s->lifecycle &&
	                lifecycle_controller_candidate(s->lifecycle, arena, name, &candidate);

	for (size_t i = 0; i < NODE_N_WORKS && !is_found; i++)
		is_found = node_errors_get(s->node_errors, (enum node_work)i, name, arena, &error);
	return is_found;
}

static bool
is_service_in_trouble(const struct describe_sources *s, struct str key, struct arena *arena)
{
	struct service_memory memory;

	return s->service && service_controller_remembers(s->service, arena, key, &memory) &&
	       memory.error.len > 0;
}

/* Adds the objects of one kind that are in trouble. Returns how many are left out. */
static int64_t
add_troubled(const struct describe_sources *s, enum described_kind kind, struct arena *arena,
             struct buf *json)
{
	bool is_node = kind == DESCRIBED_NODE;
	CLEANUP(store_list_free)
	struct store_list all = list_of(is_node ? s->nodes : s->services);
	int64_t n = 0;

	json_begin_array(json, is_node ? "nodes" : "services");
	for (size_t i = 0; i < all.n; i++) {
		struct str key = all.objects[i]->key;

		if (!(is_node ? is_node_in_trouble : is_service_in_trouble)(s, key, arena) ||
		    n++ >= LIMIT_TROUBLES)
			continue;
		json_begin_object(json, NULL);
		json_add_text(json, "name", key);
		(is_node ? describe_node : describe_service)(s, key, arena, json);
		json_end_object(json);
	}
	json_end_array(json);
	return n > LIMIT_TROUBLES ? n - LIMIT_TROUBLES : 0;
}

/* ---- the metric ---- */

void
describe_count_problems(const struct describe_sources *sources)
{
	static const struct describe_sources none;
	const struct describe_sources *s = sources ? sources : &none;
	CLEANUP(store_list_free) struct store_list nodes = list_of(s->nodes);
	CLEANUP(store_list_free) struct store_list services = list_of(s->services);
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	size_t n_new = 0, n_held = 0, n_pending = 0, n_found = 0;
	struct lifecycle_candidate *found;
	struct node_error error;

	for (size_t i = 0; i < nodes.n; i++)
		n_new += node_is_new(node_of(nodes.objects[i])) &&
		         node_errors_get(s->node_errors, NODE_WORK_SYNC, nodes.objects[i]->key,
		                         &arena, &error);
	if (s->lifecycle)
		n_found = lifecycle_controller_candidates(s->lifecycle, &arena, &found);
	for (size_t i = 0; i < n_found; i++)
		n_held += found[i].hold_reason && !found[i].is_deleted;
	for (size_t i = 0; i < services.n; i++) {
		const struct service *service = service_of(services.objects[i]);

		n_pending += service->n_ingress == 0 && service_wants_balancer(service) &&
		             is_service_in_trouble(s, services.objects[i]->key, &arena);
	}
	metric_set(metric_of(&problems, "CCMD041"), (double)n_new);
	metric_set(metric_of(&problems, "CCMD049"), (double)n_held);
	metric_set(metric_of(&problems, "CCMD050"),
	           s->route && route_controller_outcome(s->route, &arena).error.len > 0);
	metric_set(metric_of(&problems, "CCMD060"), (double)n_pending);
}

/* ---- all of it ---- */

void
describe(const struct describe_sources *sources, const struct described *what, struct buf *json)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	int64_t cloud_ok_ns, n_left_out;

	json_begin_object(json, NULL);
	json_add_flag(json, "isLeading", sources != NULL);
	if (sources && recent_cloud_ago(&cloud_ok_ns))
		json_add_number(json, "cloudAnsweredSecondsAgo", seconds(cloud_ok_ns));
	if (sources && !what) {
		n_left_out = add_troubled(sources, DESCRIBED_NODE, &arena, json);
		n_left_out += add_troubled(sources, DESCRIBED_SERVICE, &arena, json);
		json_add_number(json, "leftOut", n_left_out);
		add_route_run(sources, &arena, json);
	} else if (sources && what->kind == DESCRIBED_NODE) {
		describe_node(sources, what->key, &arena, json);
	} else if (sources && what->kind == DESCRIBED_SERVICE) {
		describe_service(sources, what->key, &arena, json);
	} else if (sources) {
		describe_route(sources, what->key, &arena, json);
	}
	json_end_object(json);
	buf_add_char(json, '\n');
}
