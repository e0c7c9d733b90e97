/* operator/plan_nodes.c: see plan_nodes.h.
 *
 * A store has only the fields of a node that the controllers act on. They are written as JSON, the
 * merge patch is applied, and the result is parsed as if the API server had sent it.
 */
#include "operator/plan_nodes.h"

#include "base/limits.h"
#include "kube/node.h"

static void
add_metadata(struct buf *b, const struct node *node)
{
	json_begin_object(b, "metadata");
	json_add_text(b, "name", node_name(node));
	json_add_text(b, "uid", node->object.uid);
	json_add_text(b, "resourceVersion", node->object.resource_version);
	json_add_name(b, STR("creationTimestamp"));
	buf_add_char(b, '"');
	clock_format_rfc3339(b, node->created_wall_ns, /*micros=*/false);
	buf_add_char(b, '"');
	if (node->is_deleting)
		json_add_text(b, "deletionTimestamp", STR("2000-01-01T00:00:00Z")); /* any time */
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
}

static void
add_spec(struct buf *b, const struct node *node)
{
	json_begin_object(b, "spec");
	if (node_provider_id(node).len > 0)
		json_add_text(b, "providerID", node_provider_id(node));
	json_begin_array(b, "taints");
	for (uint32_t i = 0; i < node->n_taints; i++)
		json_add_raw(b, NULL, node->taints[i]->raw);
	json_end_array(b);
	json_add_texts(b, "podCIDRs", node->pod_cidrs, node->n_pod_cidrs);
	json_end_object(b);
}

static void
add_condition(struct buf *b, const char *type, const char *status, const char *reason)
{
	json_begin_object(b, NULL);
	json_add_text(b, "type", str_c(type));
	json_add_text(b, "status", str_c(status));
	json_add_text(b, "reason", str_c(reason));
	json_end_object(b);
}

static void
add_status(struct buf *b, const struct node *node)
{
	static const char *const ready[] = { [NODE_READY_UNKNOWN] = "Unknown",
		                             [NODE_READY_FALSE] = "False",
		                             [NODE_READY_TRUE] = "True" };

	json_begin_object(b, "status");
	json_begin_array(b, "addresses");
	for (uint32_t i = 0; i < node->n_addresses; i++) {
		json_begin_object(b, NULL);
		json_add_text(b, "type", node->addresses[i].type);
		json_add_text(b, "address", node->addresses[i].address);
		json_end_object(b);
	}
	json_end_array(b);
	json_begin_array(b, "conditions");
	add_condition(b, "Ready", ready[node->ready], "");
	if (node->network != NODE_NETWORK_OTHER)
		add_condition(b, "NetworkUnavailable",
		              node->network == NODE_NETWORK_ROUTED ? "False" : "True",
		              node->network == NODE_NETWORK_ROUTED ? "RouteCreated"
		                                                   : "NoRouteCreated");
	json_end_array(b);
	json_end_object(b);
}

/* The patched node. False: it cannot be read, which a valid patch does not cause. */
static bool
patch_object(const struct store *nodes, const struct node *node, struct str body,
             struct object **ret)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_JSON_ITEM);
	CLEANUP(buf_fini) struct buf patched = BUF_INIT(LIMIT_JSON_ITEM);
	CLEANUP(yyjson_doc_freep) yyjson_doc *old = NULL;
	CLEANUP(yyjson_doc_freep) yyjson_doc *patch = NULL;
	yyjson_mut_doc *merged;
	struct error ignored;
	char *json = NULL;
	size_t len = 0;

	json_begin_object(&text, NULL);
	add_metadata(&text, node);
	add_spec(&text, node);
	add_status(&text, node);
	json_end_object(&text);
	if (!json_parse(buf_str(&text), &old, &ignored) || !json_parse(body, &patch, &ignored))
		return false;
	merged = yyjson_mut_doc_new(NULL);
	yyjson_mut_doc_set_root(merged, yyjson_merge_patch(merged, yyjson_doc_get_root(old),
	                                                   yyjson_doc_get_root(patch)));
	json = yyjson_mut_write(merged, 0, &len);
	buf_add(&patched, json, len);
	free(json);
	yyjson_mut_doc_free(merged);
	if (!object_parse(store_kind(nodes), buf_str(&patched), ret, &ignored))
		return false;
	node_of(*ret)->heartbeat = node->heartbeat;
	return true;
}

void
plan_nodes_apply(struct store *nodes, struct str name, const struct dry_change *change)
{
	CLEANUP(object_unrefp) struct object *now = store_get(nodes, name);
	struct object *patched;
	struct error ignored;

	if (now && change->verb == DRY_DELETE)
		store_remove(nodes, now);
	else if (now && change->body.len > 0 &&
	         patch_object(nodes, node_of(now), change->body, &patched))
		(void)!store_put(nodes, patched, &ignored);
}
