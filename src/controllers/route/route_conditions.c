/* controllers/route/route_conditions.c: see route_conditions.h. What is known of a node is kept by a hash of its UID, 40 bytes each. */
#include "controllers/route/route_conditions.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/event_kind.h"
#include "base/limits.h"
#include "base/log.h"
#include "controllers/event_dedup.h"
#include "controllers/own_writes.h"
#include "controllers/pace.h"
#include "controllers/parallel.h"
#include "controllers/route/route.h"
#include "controllers/writes.h"
#include "kube/patch.h"

EVENT_KIND(
	contested_event, ROUTE_COMPONENT, "NetworkConditionContested", true, "Node",
	"Another component keeps changing the condition NetworkUnavailable, although the node's routes say otherwise; ccmd writes it again less and less often.");

/* Our own last write is on its way to the store: what the store shows says nothing yet. */
static const int64_t echo_ns = 10 * NS_PER_SEC;

/* What one node is to be told. */
struct known {
	uint64_t uid; /* a hash */
	struct pace pace;
	enum node_network wanted : 8;
	bool was_written; /* the last attempt succeeded: who differs now was changed back */
};

struct route_conditions {
	struct controller_env *env;
	struct known *all; /* sorted by uid */
	size_t n;
};

/* A pass over all nodes. */
struct pass {
	struct route_conditions *rc;
	struct {
		const struct node *node;
		struct known *known;
	} *due; /* to be written now */
	size_t n_due;
	int64_t next_mono_ns;
};

struct route_conditions *
route_conditions_new(struct controller_env *env)
{
	struct route_conditions *rc = xcalloc(1, sizeof(*rc));

	rc->env = env;
	return rc;
}

void
route_conditions_free(struct route_conditions *rc)
{
	if (!rc)
		return;
	free(rc->all);
	free(rc);
}

/* ---- what is known ---- */

static int
compare(const void *a, const void *b)
{
	const struct known *x = a, *y = b;

	return x->uid < y->uid ? -1 : x->uid > y->uid;
}

static struct known *
find_known(const struct route_conditions *rc, const struct node *node)
{
	struct known key = { .uid = str_hash(node->object.uid) };

	return rc->n > 0 ? bsearch(&key, rc->all, rc->n, sizeof(key), compare) : NULL;
}

void
route_conditions_set(struct route_conditions *rc, const struct route_verdict verdicts[], size_t n)
{
	struct known *all = xcalloc(n + 1, sizeof(*all));

	for (size_t i = 0; i < n; i++) {
		const struct known *before = find_known(rc, verdicts[i].node);

		if (before && before->wanted == verdicts[i].wanted)
			all[i] = *before;
		else if (before)
			all[i].pace = before->pace;
		all[i].uid = str_hash(verdicts[i].node->object.uid);
		all[i].wanted = verdicts[i].wanted;
	}
	if (n > 0)
		qsort(all, n, sizeof(*all), compare);
	free(rc->all);
	rc->all = all;
	rc->n = n;
}

/* ---- writing ---- */

static void
warn_of_rival(struct route_conditions *rc, const struct node *node, const struct known *known)
{
	bool is_routed = known->wanted == NODE_NETWORK_ROUTED;
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_EVENT_MESSAGE);

	buf_addf(
		&text,
		"Another component keeps changing the condition NetworkUnavailable: %s, so it is %s. It is written "
		"again every 5 minutes at most",
		is_routed ? "the node's routes exist" : "a route of this node is missing",
		is_routed ? "False" : "True (NoRouteCreated)");
	event_dedup_warn(rc->env->event_dedup, ROUTE_COMPONENT, node, contested_event.reason,
	                 buf_str(&text));
}

/* It differs; may it be written now? */
static bool
take_turn(struct pass *pass, const struct node *node, struct known *known)
{
	int64_t now_ns = clock_mono(pass->rc->env->clock);
	int64_t wait_ns = pace_take(&known->pace, now_ns);

	if (known->was_written && known->pace.n >= PACE_FREE)
		warn_of_rival(pass->rc, node, known);
	if (wait_ns == 0)
		return true;
	if (clock_deadline(now_ns, wait_ns) < pass->next_mono_ns)
		pass->next_mono_ns = clock_deadline(now_ns, wait_ns);
	return false;
}

/* What the store shows may be what was there before our own last write: whether another is due is found out later. */
static void
check(struct pass *pass, const struct node *node)
{
	struct controller_env *env = pass->rc->env;
	struct known *known = find_known(pass->rc, node);
	int64_t echo_due_ns = clock_deadline(clock_mono(env->clock), echo_ns);

	if (!known || known->wanted == NODE_NETWORK_OTHER)
		return;
	if (own_writes_are_ahead(env->own_writes, node)) {
		if (echo_due_ns < pass->next_mono_ns)
			pass->next_mono_ns = echo_due_ns;
	} else if (known->wanted != node->network && take_turn(pass, node, known)) {
		pass->due[pass->n_due].node = node;
		pass->due[pass->n_due++].known = known;
	}
}

/* A node that is gone, or whose name is another's, needs none. */
static bool
send(struct route_conditions *rc, struct call *call, const struct node *node,
     enum node_network wanted, struct error *err)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(LIMIT_HTTP_REQUEST);

	patch_node_network(&body, node->object.uid, wanted, clock_wall(call->clock));
	return send_node_patch(rc->env, call, node, "status", KUBE_PATCH_STRATEGIC, buf_str(&body),
	                       NULL, err) ||
	       err->code == ERR_NOT_FOUND;
}

static void
write_one(void *arg, struct call *call, size_t i)
{
	struct pass *pass = arg;
	const struct node *node = pass->due[i].node;
	struct known *known = pass->due[i].known;
	struct error err;

	known->was_written = send(pass->rc, call, node, known->wanted, &err);
	if (!known->was_written && err.code != ERR_CANCELLED && err.code != ERR_PENDING &&
	    err.code != ERR_CONFLICT)
		log_error("condition NetworkUnavailable not written, will retry",
		          LOG_STR("node", node_name(node)), LOG_ERR(&err));
}

static bool
has_unwritten(const struct pass *pass)
{
	for (size_t i = 0; i < pass->n_due; i++) {
		if (!pass->due[i].known->was_written)
			return true;
	}
	return false;
}

int64_t
route_conditions_write(struct route_conditions *rc, const struct call *call)
{
	CLEANUP(store_list_free) struct store_list all = store_list(rc->env->nodes);
	struct pass pass = { .rc = rc, .next_mono_ns = CLOCK_FOREVER };

	pass.due = arena_calloc(call->arena, all.n + 1, sizeof(*pass.due));
	for (size_t i = 0; i < all.n; i++)
		check(&pass, node_of(all.objects[i]));
	parallel_do(call, "route", pass.n_due, write_one, &pass);
	return has_unwritten(&pass) ? clock_mono(rc->env->clock) : pass.next_mono_ns;
}
