/* controllers/node/labels.c: compares the labels of a node with those of its machine; see labels.h.
 */
#include "controllers/node/labels.h"

#include "base/log.h"
#include "base/names.h"

/* The beta label is the source of truth, as in the Go controllers (docs/spec/framework.md, "Labels
 * afterwards"). */
static const struct {
	struct str beta, ga;
} label_pairs[] = {
	{ STR("failure-domain.beta.kubernetes.io/zone"), STR("topology.kubernetes.io/zone") },
	{ STR("failure-domain.beta.kubernetes.io/region"), STR("topology.kubernetes.io/region") },
	{ STR("beta.kubernetes.io/instance-type"), STR("node.kubernetes.io/instance-type") },
};

static void
set_label(const struct node *node, struct label_list *list, struct str key, struct str value)
{
	const struct str *now = node_label(node, key);

	if (!now || !str_eq(*now, value))
		list->items[list->n++] = (struct label){ key, value };
}

struct label_list
labels_plan(const struct node *node, const struct instance *instance, struct arena *arena)
{
	const struct str values[] = { instance->zone, instance->region, instance->type };
	struct label_list list = { arena_calloc(arena,
		                                instance->n_labels + 2 * ARRAY_LEN(label_pairs),
		                                sizeof(struct label)),
		                   0 };

	_Static_assert(ARRAY_LEN(values) == ARRAY_LEN(label_pairs), "one value a pair");
	for (size_t i = 0; i < ARRAY_LEN(label_pairs); i++) {
		if (values[i].len == 0)
			continue;
		set_label(node, &list, label_pairs[i].beta, values[i]);
		set_label(node, &list, label_pairs[i].ga, values[i]);
	}
	for (size_t i = 0; i < instance->n_labels; i++) {
		const struct label *label = &instance->labels[i];
		const struct str *now = node_label(node, label->key);

		if (name_is_reserved_label(label->key))
			log_warn("label from the cloud is reserved for Kubernetes, ignoring",
			         LOG_STR("node", node_name(node)), LOG_STR("label", label->key));
		else if (now && !str_eq(*now, label->value))
			log_warn("label from the cloud differs from the node's, ignoring",
			         LOG_STR("node", node_name(node)), LOG_STR("label", label->key));
		else
			set_label(node, &list, label->key, label->value);
	}
	return list;
}

struct label_list
labels_reconcile(const struct node *node, struct arena *arena)
{
	struct label_list list = {
		arena_calloc(arena, ARRAY_LEN(label_pairs), sizeof(struct label)), 0
	};

	for (size_t i = 0; i < ARRAY_LEN(label_pairs); i++) {
		const struct str *beta = node_label(node, label_pairs[i].beta);

		if (beta)
			set_label(node, &list, label_pairs[i].ga, *beta);
	}
	return list;
}
