/* controllers/route/route_conditions.c: the condition NetworkUnavailable of nodes.
 *
 * A run of the route controller finds out which condition each node is to have. Writing it needs no
 * further request to the cloud, however often another component overwrites it. If all routes of a
 * node exist, every False is left as it is: a CNI that writes a reason of its own means the same.
 * (The Go framework overwrites it: cloud-provider, controllers/route/route_controller.go,
 * updateNetworkingCondition(). Cilium then overwrites that, without end.) All other conditions are
 * written, at the pace of pace.h for each node, with one event if another component keeps changing
 * them back.
 *
 * The state of a node takes 40 bytes. It is found by a hash of the UID in a sorted array, because
 * there is one for each of thousands of nodes.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/event_kind.h"
#include "base/limits.h"
#include "base/log.h"
#include "controllers/event_dedup.h"
#include "controllers/pace.h"
#include "controllers/route/route_internal.h"
#include "controllers/writes.h"
#include "kube/patch.h"

EVENT_KIND(
	contested_event, ROUTE_COMPONENT, "NetworkConditionContested", true, "Node",
	"Another component keeps changing the condition NetworkUnavailable, although it contradicts the routes of the node. ccmd writes the condition again less and less often.");

/* When to check a node again whose state in the store is older than our own last write. */
static const int64_t echo_ns = 10 * NS_PER_SEC;

/* The condition of a new node is written after its initialisation, or when this time has passed: at
 * the same time, the write of one would make the write of the other fail with a conflict. */
static const int64_t initialise_ns = 10 * NS_PER_SEC;

/* The condition that one node is to have. */
struct condition_state {
	uint64_t uid; /* a hash */
	struct pace pace;
	enum node_network wanted : 8; /* a bit-field to save memory */
	/* the last write succeeded: if the node differs, another writer changed it */
	bool was_written;
};

/* A pass over all nodes. */
struct pass {
	struct route_conditions *rc;
	struct {
		const struct node *node;
		struct condition_state *state;
	} *due; /* to be written now */
	size_t n_due;
	int64_t next_mono_ns;
};

/* ---- the desired conditions ---- */

static int
compare_uids(const void *a, const void *b)
{
	const struct condition_state *x = a, *y = b;

	return x->uid < y->uid ? -1 : x->uid > y->uid;
}

static struct condition_state *
find_state(const struct route_conditions *rc, const struct node *node)
{
	struct condition_state key = { .uid = str_hash(node->object.uid) };

	return rc->n > 0 ? bsearch(&key, rc->all, rc->n, sizeof(key), compare_uids) : NULL;
}

void
route_conditions_set(struct route_conditions *rc, const struct route_result results[], size_t n)
{
	struct condition_state *all = xcalloc(n + 1, sizeof(*all));

	for (size_t i = 0; i < n; i++) {
		const struct condition_state *before = find_state(rc, results[i].node);

		if (before && before->wanted == results[i].wanted)
			all[i] = *before;
		else if (before)
			all[i].pace = before->pace;
		all[i].uid = str_hash(results[i].node->object.uid);
		all[i].wanted = results[i].wanted;
	}
	if (n > 0)
		qsort(all, n, sizeof(*all), compare_uids);
	free(rc->all);
	rc->all = all;
	rc->n = n;
}

/* ---- writing ---- */

static void
warn_contested(struct route_conditions *rc, const struct node *node,
               const struct condition_state *state)
{
	bool is_routed = state->wanted == NODE_NETWORK_ROUTED;
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_EVENT_MESSAGE);

	buf_addf(
		&text,
		"Another component keeps changing the condition NetworkUnavailable: %s, so it should be %s. It is "
		"written again less and less often, at least every 5 minutes",
		is_routed ? "the node's routes exist" : "a route of this node is missing",
		is_routed ? "False" : "True (NoRouteCreated)");
	event_dedup_warn(rc->env->event_dedup, ROUTE_COMPONENT, node, contested_event.reason,
	                 buf_str(&text));
}

/* Adds the node to those that are due if its condition has to be written now. */
static void
conditions_check_node(struct pass *pass, const struct node *node)
{
	struct controller_env *env = pass->rc->env;
	struct condition_state *state = find_state(pass->rc, node);
	int64_t now_ns = clock_mono(env->clock), wait_ns;
	int64_t new_ns = node->object.seen_boot_ns + initialise_ns - clock_boot(env->clock);

	if (!state || state->wanted == NODE_NETWORK_OTHER)
		return;
	if (own_writes_are_ahead(env->own_writes, node)) {
		/* the store still shows the state before our own last write */
		wait_ns = echo_ns;
	} else if (node_is_new(node) && new_ns > 0) {
		/* the node controller may be about to write */
		wait_ns = new_ns;
	} else if (state->wanted == node->network) {
		return;
	} else {
		wait_ns = pace_take(&state->pace, now_ns);
		if (state->was_written && state->pace.n >= PACE_FREE)
			warn_contested(pass->rc, node, state);
	}
	if (wait_ns == 0) {
		pass->due[pass->n_due].node = node;
		pass->due[pass->n_due++].state = state;
	} else {
		pass->next_mono_ns = clock_earlier(pass->next_mono_ns,
		                                   clock_deadline(now_ns, wait_ns));
	}
}

static void
write_condition(void *arg, struct call *call, size_t i)
{
	struct pass *pass = arg;
	const struct node *node = pass->due[i].node;
	struct condition_state *state = pass->due[i].state;
	CLEANUP(buf_fini) struct buf body = BUF_INIT(LIMIT_HTTP_REQUEST);
	struct node_write write = { .env = pass->rc->env, .call = call, .node = node };
	struct error err;

	patch_node_network(&body, node->object.uid, state->wanted, clock_wall(call->clock));
	state->was_written = node_write_send(&write, "status", KUBE_PATCH_STRATEGIC, buf_str(&body),
	                                     NULL, &err);
	/* A node that is gone or has been replaced by another one of the same name needs no
	 * condition. */
	if (!state->was_written && err.code == ERR_NOT_FOUND)
		state->was_written = true;
	if (!state->was_written && err.code != ERR_CANCELLED && err.code != ERR_PENDING &&
	    err.code != ERR_CONFLICT)
		log_error("condition NetworkUnavailable cannot be written, will retry",
		          LOG_STR("node", node_name(node)), LOG_ERR(&err));
}

int64_t
route_conditions_write(struct route_conditions *rc, const struct call *call)
{
	CLEANUP(store_list_free) struct store_list all = store_list(rc->env->nodes);
	struct pass pass = { .rc = rc, .next_mono_ns = CLOCK_FOREVER };

	pass.due = arena_calloc(call->arena, all.n + 1, sizeof(*pass.due));
	for (size_t i = 0; i < all.n; i++)
		conditions_check_node(&pass, node_of(all.objects[i]));
	parallel_run("route", call, 0, pass.n_due, write_condition, &pass);
	for (size_t i = 0; i < pass.n_due; i++) {
		if (!pass.due[i].state->was_written)
			return clock_mono(rc->env->clock);
	}
	return pass.next_mono_ns;
}
