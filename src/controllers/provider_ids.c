/* controllers/provider_ids.c: finds nodes by the store's index of provider IDs; see provider_ids.h.
 */
#include "controllers/provider_ids.h"

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
