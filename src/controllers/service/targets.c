/* controllers/service/targets.c: the nodes behind load balancers; see targets.h.
 *
 * Building the set takes a pass over all nodes, so it happens without the lock. A generation
 * number, which each change of a node increments, shows whether the set is still current when it is
 * complete. An outdated set is used by the caller that built it, whose Service is queued again by
 * that change, but it is not kept.
 */
#include "controllers/service/targets.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/ref.h"
#include "base/thread.h"
#include "controllers/node_ref.h"

#define TAINT_AUTOSCALER "ToBeDeletedByClusterAutoscaler"
#define LABEL_EXCLUDE "node.kubernetes.io/exclude-from-external-load-balancers"

/* All eligible nodes at one moment; immutable, counted. */
struct target_set {
	struct ref refs;
	size_t n;
	struct object *nodes[];
};

struct targets {
	struct store *nodes;
	pthread_mutex_t mu;
	struct target_set *current; /* mu; NULL: has to be built */
	uint64_t generation;        /* mu: counts changes */
};

/* ---- which nodes ---- */

/* A label whose value is not a boolean excludes the node (docs/spec/framework.md, "Targets"). */
static bool
is_included(const struct node *node)
{
	const struct str *value = node_label(node, STR(LABEL_EXCLUDE));
	bool is_excluded = true;

	return !value || (str_to_bool(*value, &is_excluded) && !is_excluded);
}

bool
target_is_eligible(const struct node *node)
{
	return !node->is_deleting && is_included(node) && !node_taint(node, STR(TAINT_AUTOSCALER));
}

/* Has the autoscaler decided to keep the node after all? A comparison for another reason may have
 * taken it out of the targets meanwhile. */
static bool
is_kept(const struct node *old, const struct node *new)
{
	return node_taint(old, STR(TAINT_AUTOSCALER)) && !node_taint(new, STR(TAINT_AUTOSCALER));
}

bool
target_change_matters(const struct node *old, const struct node *new,
                      const struct balancer_ops *ops)
{
	if (!old || !new)
		return true;
	return is_included(old) != is_included(new) || is_kept(old, new) ||
	       !str_eq(node_provider_id(old), node_provider_id(new)) ||
	       (ops->selects && !node_labels_equal(old, new)) ||
	       (ops->uses_addresses && !node_addresses_equal(old, new));
}

/* ---- the set ---- */

static void
set_unref(struct target_set *set)
{
	if (!set || !ref_drop(&set->refs))
		return;
	for (size_t i = 0; i < set->n; i++)
		object_unref(set->nodes[i]);
	free(set);
}

static uint64_t
add_to_hash(uint64_t hash, struct str name, struct str provider_id)
{
	/* A different odd factor for each text: another order, or a character that moves from one
	 * text to the other, gives another hash. */
	hash = hash * UINT64_C(0x9e3779b97f4a7c15) + str_hash(name);
	return hash * UINT64_C(0xc2b2ae3d27d4eb4f) + str_hash(provider_id) + 1;
}

static int
compare_names(const void *a, const void *b)
{
	struct object *const *x = a, *const *y = b;

	return str_cmp((*x)->key, (*y)->key);
}

static struct target_set *
make_set(struct store *nodes)
{
	CLEANUP(store_list_free) struct store_list all = store_list(nodes);
	struct target_set *set = xmalloc(sizeof(*set) + all.n * sizeof(set->nodes[0]));

	set->n = 0;
	ref_init(&set->refs);
	/* Of several nodes with one provider ID only the oldest is a target, so another node that
	 * gets the ID of a target's machine changes nothing. */
	for (size_t i = 0; i < all.n; i++) {
		if (target_is_eligible(node_of(all.objects[i])) &&
		    !provider_ids_has_older(nodes, node_of(all.objects[i])))
			set->nodes[set->n++] = object_ref(all.objects[i]);
	}
	qsort(set->nodes, set->n, sizeof(set->nodes[0]), compare_names);
	return set;
}

/* Returns a reference to the current set, or NULL and the generation that a new one would belong
 * to. */
static struct target_set *
get_current_set(struct targets *t, uint64_t *ret_generation)
{
	WITH_LOCK(&t->mu);

	*ret_generation = t->generation;
	if (t->current)
		ref_take(&t->current->refs);
	return t->current;
}

/* Keeps the set for other callers, unless a node changed while it was built. */
static void
keep_set(struct targets *t, struct target_set *set, uint64_t generation)
{
	WITH_LOCK(&t->mu);

	if (t->current || t->generation != generation)
		return;
	ref_take(&set->refs);
	t->current = set;
}

static struct target_set *
take_set(struct targets *t)
{
	uint64_t generation;
	struct target_set *set = get_current_set(t, &generation);

	if (!set) {
		set = make_set(t->nodes);
		keep_set(t, set, generation);
	}
	return set;
}

void
targets_invalidate(struct targets *t)
{
	struct target_set *old;

	mutex_lock(&t->mu);
	old = TAKE(t->current);
	t->generation++;
	mutex_unlock(&t->mu);
	set_unref(old);
}

/* ---- the targets of one Service ---- */

void
target_list_fini(struct target_list *list)
{
	set_unref(list->set);
}

struct target_list
targets_select(struct targets *t, struct cloud *cloud, const struct lb_spec *spec,
               struct arena *arena)
{
	const struct balancer_ops *ops = cloud->balancers;
	struct target_list list = { .set = take_set(t) };
	const void *selection = NULL;

	if (ops->prepare_selection)
		selection = ops->prepare_selection(cloud, spec, arena);
	list.refs = arena_calloc(arena, list.set->n, sizeof(list.refs[0]));
	for (size_t i = 0; i < list.set->n; i++) {
		struct node_ref ref = node_ref_of(node_of(list.set->nodes[i]));

		if (cloud_is_foreign(cloud, ref.provider_id) ||
		    (ops->selects && !ops->selects(cloud, selection, &ref)))
			continue;
		list.refs[list.n++] = ref;
		list.hash = add_to_hash(list.hash, ref.name, ref.provider_id);
		for (size_t j = 0; ops->uses_addresses && j < ref.n_addresses; j++)
			list.hash = add_to_hash(list.hash, ref.addresses[j].type,
			                        ref.addresses[j].address);
	}
	return list;
}

/* ---- life cycle ---- */

struct targets *
targets_new(struct store *nodes)
{
	struct targets *t = xcalloc(1, sizeof(*t));

	t->nodes = nodes;
	mutex_init(&t->mu);
	return t;
}

void
targets_free(struct targets *t)
{
	if (!t)
		return;
	set_unref(t->current);
	mutex_destroy(&t->mu);
	free(t);
}
