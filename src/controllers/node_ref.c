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
	const struct label **copy = arena_calloc(arena, node->n_labels + 1, sizeof(copy[0]));

	for (size_t i = 0; i < node->n_labels; i++) {
		struct label *label = ARENA_NEW(arena, struct label);

		*label = copy_label(arena, node->labels[i]);
		copy[i] = label;
	}
	return copy;
}

static struct label *
copy_annotations(struct arena *arena, const struct node *node)
{
	struct label *copy = arena_calloc(arena, node->n_annotations + 1, sizeof(*copy));

	for (size_t i = 0; i < node->n_annotations; i++)
		copy[i] = copy_label(arena, &node->annotations[i]);
	return copy;
}

static struct address *
copy_addresses(struct arena *arena, const struct address *addresses, size_t n)
{
	struct address *copy = arena_calloc(arena, n + 1, sizeof(*copy));

	for (size_t i = 0; i < n; i++)
		copy[i] = (struct address){ arena_str(arena, addresses[i].type),
			                    arena_str(arena, addresses[i].address) };
	return copy;
}

static struct str *
copy_pod_cidrs(struct arena *arena, const struct node *node)
{
	struct str *copy = arena_calloc(arena, node->n_pod_cidrs + 1, sizeof(*copy));

	for (uint32_t i = 0; i < node->n_pod_cidrs; i++)
		copy[i] = arena_str(arena, node->pod_cidrs[i]);
	return copy;
}

struct node_ref
node_ref_copy(struct arena *arena, const struct node *node)
{
	struct node_ref ref = node_ref_of(node);

	ref.name = arena_str(arena, ref.name);
	ref.uid = arena_str(arena, ref.uid);
	ref.provider_id = arena_str(arena, ref.provider_id);
	ref.labels = copy_labels(arena, node);
	ref.annotations = copy_annotations(arena, node);
	ref.addresses = copy_addresses(arena, node->addresses, node->n_addresses);
	ref.pod_cidrs = copy_pod_cidrs(arena, node);
	return ref;
}
