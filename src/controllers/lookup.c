/* controllers/lookup.c: batches of nodes, and the looks that answer them; see lookup.h.
 *
 * A batch is a set of nodes, by UID, that one look answers. The lookup knows at most three: callers
 * join `pending` while another look runs; `running` is the batch whose look runs, on the thread of
 * the first caller that found none running; `done` is the last successful one, kept for callers for
 * whom it is young enough.
 */
#include "controllers/lookup.h"

#include <assert.h>

#include "base/array.h"
#include "base/event_kind.h"
#include "base/map.h"
#include "base/single_flight.h"
#include "base/watchdog.h"
#include "base/thread.h"
#include "controllers/node_ref.h"

#define COMPONENT "cloud-node-controller"

EVENT_KIND(
	duplicate_event, COMPONENT, "DuplicateProviderID", true, "Node",
	"Two nodes have the provider ID of one machine. Neither is changed or deleted until one of them is removed, and the routes, addresses and targets of the machine stay as they are.");

/* id, name of the other node */
#define DUPLICATE_TEXT                                           \
	"provider ID \"%" STR_FMT "\" belongs to node %" STR_FMT \
	" too: neither is changed or deleted until one of them is removed"

struct batch {
	unsigned n_refs; /* mu of the lookup's flight */
	uint64_t run;    /* its number among the flight's runs */
	int64_t not_before_boot_ns;
	/* references, until the look is done; the position is the index in the look */
	struct node **nodes;
	size_t n, cap;
	struct arena arena;       /* done: the keys of by_uid, and provider_ids */
	struct str *provider_ids; /* done: by position */
	struct map by_uid;        /* UID -> position + 1, as a pointer, because NULL means "none" */
	bool is_good;
	struct look *look;  /* is_good */
	struct error error; /* else */
};

struct lookup {
	struct lookup_config config;
	struct single_flight flight;            /* one look at a time */
	struct batch *pending, *running, *done; /* the flight's mu; each holds a reference */
	struct map absent; /* struct absent_node; the thread that runs a look has it */
};

/* A new node that a look has found absent. */
struct absent_node {
	struct str uid;
};

/* ---- batches: under the lookup's lock, or owned by one thread ---- */

static struct batch *
batch_ref(struct batch *b)
{
	b->n_refs++;
	return b;
}

static void
unref_nodes(struct batch *b)
{
	for (size_t i = 0; i < b->n; i++)
		object_unref(&b->nodes[i]->object);
	free(TAKE(b->nodes));
	b->n = b->cap = 0;
}

static void
batch_unref(struct batch *b)
{
	if (!b || --b->n_refs > 0)
		return;
	unref_nodes(b);
	map_fini(&b->by_uid);
	arena_fini(&b->arena);
	look_unref(b->look);
	free(b);
}

static bool
batch_index(const struct batch *b, const struct node *node, size_t *ret)
{
	uintptr_t position = (uintptr_t)map_get(&b->by_uid, node->object.uid);

	if (position == 0)
		return false;
	*ret = position - 1;
	return true;
}

static void
batch_add(struct batch *b, struct node *node)
{
	size_t position;

	if (!batch_index(b, node, &position)) {
		object_ref(&node->object);
		ARRAY_PUSH(b->nodes, b->n, b->cap, node);
		map_put(&b->by_uid, node->object.uid, (void *)(uintptr_t)b->n);
		return;
	}
	/* A provider ID is set once and never changes, so a snapshot that has it is the newer one.
	 * With it the look also finds a machine that would seem absent if it were looked for by
	 * name. */
	if (node_provider_id(node).len == 0 ||
	    str_eq(node_provider_id(b->nodes[position]), node_provider_id(node)))
		return;
	object_ref(&node->object);
	map_put(&b->by_uid, node->object.uid,
	        (void *)(uintptr_t)(position + 1)); /* the key is a view of the node as well */
	object_unref(&b->nodes[position]->object);
	b->nodes[position] = node;
}

/* Does this batch, whose look is done, answer the question? */
static bool
batch_covers(const struct batch *b, struct node *const nodes[], size_t n,
             int64_t not_before_boot_ns)
{
	size_t position;

	if (!b || b->not_before_boot_ns < not_before_boot_ns)
		return false;
	for (size_t i = 0; i < n; i++) {
		/* Another snapshot of the same node is good enough unless its provider ID differs.
		 */
		if (!batch_index(b, nodes[i], &position) ||
		    !str_eq(b->provider_ids[position], node_provider_id(nodes[i])))
			return false;
	}
	return true;
}

/* ---- duplicates ---- */

/* Warns that the node and the other one have the same provider ID. That ID, not the text, decides
 * whether the event is sent again: with more than two such nodes, the other one is not always the
 * same. */
static void
warn_duplicate(struct lookup *l, const struct node *node, const struct node *other, struct str id)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(ERR_MSG_SIZE);

	buf_addf(&text, DUPLICATE_TEXT, STR_ARG(id), STR_ARG(node_name(other)));
	event_dedup_warn_as(l->config.event_dedup, COMPONENT, node, duplicate_event.reason, id,
	                    buf_str(&text));
}

/* Makes the answer UNKNOWN if another node has the machine's provider ID. Both nodes are warned if
 * both have it. A node without a provider ID, whose machine was found by name, does not harm the
 * other one. */
static void
refuse_duplicate(struct lookup *l, struct batch *b, size_t i)
{
	const struct instance *instance = &b->look->instances[i];
	const struct node *node = b->nodes[i];
	struct str id = instance->presence == PRESENCE_PRESENT ? instance->provider_id
	                                                       : node_provider_id(node);
	CLEANUP(object_unrefp)
	struct object *other = provider_ids_find_other(l->config.nodes, node, id);
	CLEANUP(buf_fini) struct buf text = BUF_INIT(ERR_MSG_SIZE);

	if (!other) {
		event_dedup_clear(l->config.event_dedup, node, duplicate_event.reason);
		return;
	}
	buf_addf(&text, DUPLICATE_TEXT, STR_ARG(id), STR_ARG(other->key));
	warn_duplicate(l, node, node_of(other), id);
	if (str_eq(node_provider_id(node), id))
		warn_duplicate(l, node_of(other), node, id);
	look_set_error(b->look, i, PRESENCE_UNKNOWN, ERR_EXISTS, buf_str(&text));
}

/* ---- from pending to done ---- */

/* The node controller will ask for uninitialised nodes next: one look answers for all of them.
 * Those that were absent already are asked for again by their own attempts only: if each of n such
 * nodes asked for all of them, an attempt of each would cost n * n requests. */
static void
add_new_nodes(struct lookup *l, struct batch *b)
{
	CLEANUP(store_list_free) struct store_list all = store_list(l->config.nodes);
	struct map absent = MAP_OF(struct absent_node, uid);

	for (size_t i = 0; i < all.n; i++) {
		struct node *node = node_of(all.objects[i]);

		if (!node_is_new(node))
			continue;
		if (map_get(&l->absent, node->object.uid))
			map_add(&absent, node->object.uid, sizeof(struct absent_node));
		else
			batch_add(b, node);
	}
	map_free_all(&l->absent, free);
	l->absent = absent;
}

/* Asks the provider about the pending batch, on the thread of one caller. With the lock held, and
 * no batch running; the lock is released meanwhile, because no other thread touches a running
 * batch. */
static void
lookup_start(struct lookup *l, struct call *call)
{
	struct batch *b = l->running = TAKE(l->pending);
	struct map by_uid = MAP_INIT;
	struct node_ref *refs;

	single_flight_begin(&l->flight);
	b->not_before_boot_ns = clock_boot(l->config.clock);
	mutex_unlock(&l->flight.mu);

	if (l->config.adds_new_nodes)
		add_new_nodes(l, b);
	refs = arena_calloc(call->arena, b->n, sizeof(*refs));
	for (size_t i = 0; i < b->n; i++)
		refs[i] = node_ref_of(b->nodes[i]);
	b->is_good = cloud_look(l->config.cloud, call, refs, b->n, b->not_before_boot_ns, &b->look,
	                        &b->error);
	for (size_t i = 0; b->is_good && i < b->n; i++) {
		refuse_duplicate(l, b, i);
		if (l->config.adds_new_nodes && node_is_new(b->nodes[i]) &&
		    b->look->instances[i].presence == PRESENCE_ABSENT)
			map_add(&l->absent, b->nodes[i]->object.uid, sizeof(struct absent_node));
	}

	/* Only what the nodes of later callers are compared with is kept. If the nodes were kept,
	 * thousands of old snapshots would stay in memory beside the new ones in the store, and
	 * fragment the heap. */
	b->provider_ids = arena_calloc(&b->arena, b->n, sizeof(b->provider_ids[0]));
	for (size_t i = 0; i < b->n; i++) {
		b->provider_ids[i] = arena_str(&b->arena, node_provider_id(b->nodes[i]));
		map_put(&by_uid, arena_str(&b->arena, b->nodes[i]->object.uid),
		        (void *)(uintptr_t)(i + 1));
	}
	map_fini(&b->by_uid);
	b->by_uid = by_uid;
	unref_nodes(b);

	mutex_lock(&l->flight.mu);
	l->running = NULL;
	if (b->is_good) {
		batch_unref(l->done);
		l->done = batch_ref(b);
	}
	single_flight_end(&l->flight);
	batch_unref(b);
}

/* Waits until the batch is done, or runs it. With the lock held. */
static bool
wait_done(struct lookup *l, struct call *call, struct batch *b, struct error *err)
{
	bool is_turn;

	watchdog_extend(call->deadline_mono_ns);
	if (!single_flight_wait(&l->flight, call, b->run, "a check of the cloud", &is_turn, err))
		return false;
	if (is_turn)
		lookup_start(l, call);
	return true;
}

bool
lookup_machines(struct lookup *l, struct call *call, struct node *const nodes[], size_t n,
                int64_t not_before_boot_ns, struct lookup_result *ret, struct error *err)
{
	WITH_HOOK(call->cancel, single_flight_wake, &l->flight);
	WITH_LOCK(&l->flight.mu);
	struct batch *b;
	bool ok;

	/* The running batch may include these nodes, because each look also asks about
	 * uninitialised nodes: waits for it before another look is started. It waits for this batch
	 * only, because other callers may start the next look immediately after it. */
	if (l->running && l->running->not_before_boot_ns >= not_before_boot_ns) {
		b = batch_ref(l->running);
		ok = wait_done(l, call, b, err);
		batch_unref(b);
		if (!ok)
			return false;
	}

	if (batch_covers(l->done, nodes, n, not_before_boot_ns)) {
		b = batch_ref(l->done);
	} else {
		/* The running batch cannot be searched: its own thread may still add nodes to it.
		 */
		if (!l->pending) {
			l->pending = xcalloc(1, sizeof(*l->pending));
			l->pending->n_refs = 1;
			l->pending->run = single_flight_next(&l->flight);
		}
		for (size_t i = 0; i < n; i++)
			batch_add(l->pending, nodes[i]);
		b = batch_ref(l->pending);
	}
	ok = wait_done(l, call, b, err);
	if (ok && !b->is_good) {
		*err = b->error;
		ok = false;
	}
	if (ok) {
		ret->look = look_ref(b->look);
		ret->index = arena_calloc(&ret->arena, n, sizeof(*ret->index));
	}
	for (size_t i = 0; ok && i < n; i++) {
		bool is_there = batch_index(b, nodes[i], &ret->index[i]);

		assert(is_there);
		(void)is_there;
	}
	batch_unref(b);
	return ok;
}

/* ---- life cycle and the rest ---- */

struct lookup *
lookup_new(const struct lookup_config *config)
{
	struct lookup *l = xcalloc(1, sizeof(*l));

	*l = (struct lookup){ .config = *config, .absent = MAP_OF(struct absent_node, uid) };
	single_flight_init(&l->flight);
	return l;
}

void
lookup_free(struct lookup *l)
{
	if (!l)
		return;
	batch_unref(l->pending);
	batch_unref(l->done);
	map_free_all(&l->absent, free);
	single_flight_fini(&l->flight);
	free(l);
}

void
lookup_forget(struct lookup *l)
{
	WITH_LOCK(&l->flight.mu);
	batch_unref(l->done);
	l->done = NULL;
}

void
lookup_result_fini(struct lookup_result *a)
{
	look_unref(a->look);
	arena_fini(&a->arena);
	*a = LOOKUP_RESULT_INIT;
}

const struct instance *
lookup_result_at(const struct lookup_result *a, size_t i)
{
	return &a->look->instances[a->index[i]];
}
