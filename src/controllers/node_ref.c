/* controllers/node_ref.c: see node_ref.h. */
#include "controllers/node_ref.h"

struct node_ref
node_ref_of(const struct node *node)
{
	return (struct node_ref){
		.name = node_name(node),
		.uid = node->object.uid,
		.provider_id = node_provider_id(node),
		.labels = node->labels,
		.n_labels = node->n_labels,
		.annotations = node->annotations,
		.n_annotations = node->n_annotations,
		.addresses = node->addresses,
		.n_addresses = node->n_addresses,
		.pod_cidrs = node->pod_cidrs,
		.n_pod_cidrs = node->n_pod_cidrs,
		.is_ready = node->ready == NODE_READY_TRUE,
		.is_new = node_is_new(node),
	};
}

static struct label
copy_label(struct arena *arena, const struct label *label)
{
	return (struct label){ arena_str(arena, label->key), arena_str(arena, label->value) };
}

static const struct label *const *
copy_labels(struct arena *arena, const struct node *node)
{
	const struct label **labels = arena_calloc(arena, node->n_labels + 1, sizeof(labels[0]));
	struct label *copies = arena_calloc(arena, node->n_labels + 1, sizeof(copies[0]));

	for (size_t i = 0; i < node->n_labels; i++) {
		copies[i] = copy_label(arena, node->labels[i]);
		labels[i] = &copies[i];
	}
	return labels;
}

struct node_ref
node_ref_copy(struct arena *arena, const struct node *node)
{
	struct node_ref ref = node_ref_of(node);
	struct label *annotations = arena_calloc(arena, ref.n_annotations + 1,
	                                         sizeof(*annotations));
	struct address *addresses = arena_calloc(arena, ref.n_addresses + 1, sizeof(*addresses));
	struct str *pod_cidrs = arena_calloc(arena, ref.n_pod_cidrs + 1, sizeof(*pod_cidrs));

	for (size_t i = 0; i < ref.n_annotations; i++)
		annotations[i] = copy_label(arena, &ref.annotations[i]);
	for (size_t i = 0; i < ref.n_addresses; i++)
		addresses[i] = (struct address){ arena_str(arena, ref.addresses[i].type),
			                         arena_str(arena, ref.addresses[i].address) };
	for (size_t i = 0; i < ref.n_pod_cidrs; i++)
		pod_cidrs[i] = arena_str(arena, ref.pod_cidrs[i]);

	ref.name = arena_str(arena, ref.name);
	ref.uid = arena_str(arena, ref.uid);
	ref.provider_id = arena_str(arena, ref.provider_id);
	ref.labels = copy_labels(arena, node);
	ref.annotations = annotations;
	ref.addresses = addresses;
	ref.pod_cidrs = pod_cidrs;
	return ref;
}

/* ---- the same provider ID ---- */

enum {
	MAX_FOUND = 16, /* of more nodes with one ID, the others are not compared */
};

static bool
is_older(const struct node *a, const struct node *b)
{
	if (a->created_wall_ns != b->created_wall_ns)
		return a->created_wall_ns < b->created_wall_ns;
	return str_cmp(a->object.uid, b->object.uid) < 0;
}

struct object *
provider_ids_find_other(struct store *nodes, const struct node *node, struct str provider_id)
{
	struct object *found[MAX_FOUND];
	struct object *oldest = NULL;
	size_t n = provider_id.len > 0 ? store_find(nodes, provider_id, found, MAX_FOUND) : 0;

	for (size_t i = 0; i < n && i < MAX_FOUND; i++) {
		bool is_other = !str_eq(found[i]->uid, node->object.uid);

		if (is_other && (!oldest || is_older(node_of(found[i]), node_of(oldest)))) {
			object_unref(oldest);
			oldest = object_ref(found[i]);
		}
		object_unref(found[i]);
	}
	return oldest;
}

bool
provider_ids_is_shared(struct store *nodes, const struct node *node)
{
	CLEANUP(object_unrefp)
	struct object *other = provider_ids_find_other(nodes, node, node_provider_id(node));

	return other != NULL;
}

bool
provider_ids_has_older(struct store *nodes, const struct node *node)
{
	CLEANUP(object_unrefp)
	struct object *other = provider_ids_find_other(nodes, node, node_provider_id(node));

	return other && is_older(node_of(other), node);
}
