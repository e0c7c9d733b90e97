/* kube/patch.c: see patch.h. The JSON is written directly: a patch is small and has a fixed shape.
 * Raw taints are copied as the server sent them, so unknown members survive. */
#include "kube/patch.h"

#include "base/clock.h"
#include "http/url.h"

static void
add_labels(struct buf *b, const struct node_patch *p)
{
	json_begin_object(b, "labels");
	for (size_t i = 0; i < p->n_labels; i++) {
		json_add_name(b, p->labels[i].key);
		json_add_text(b, NULL, p->labels[i].value);
	}
	json_end_object(b);
}

/* Begins the patch with the state that it was computed from. The object "metadata" is left open. */
static void
add_origin(struct buf *b, const struct node_patch *p)
{
	json_begin_object(b, NULL);
	json_begin_object(b, "metadata");
	json_add_text(b, "uid", p->uid);
	if (p->resource_version.len > 0)
		json_add_text(b, "resourceVersion", p->resource_version);
}

static void
add_taints(struct buf *b, const struct node_patch *p)
{
	if (p->n_taints == 0) {
		json_add_raw(b, "taints", STR("null"));
		return;
	}
	json_begin_array(b, "taints");
	for (size_t i = 0; i < p->n_taints; i++)
		json_add_raw(b, NULL, p->taints[i]);
	json_end_array(b);
}

static void
add_spec(struct buf *b, const struct node_patch *p)
{
	bool has_id = p->provider_id.len > 0;

	if (!has_id && !p->has_taints)
		return;
	json_begin_object(b, "spec");
	if (has_id)
		json_add_text(b, "providerID", p->provider_id);
	if (p->has_taints)
		add_taints(b, p);
	json_end_object(b);
}

void
patch_node(struct buf *b, const struct node_patch *p)
{
	add_origin(b, p);
	if (p->n_labels > 0)
		add_labels(b, p);
	json_end_object(b);
	add_spec(b, p);
	json_end_object(b);
}

void
patch_node_status(struct buf *b, const struct node_patch *p)
{
	add_origin(b, p);
	buf_add_c(b, "},\"status\":{\"addresses\":[");
	for (size_t i = 0; i < p->n_addresses; i++) {
		json_begin_object(b, NULL);
		json_add_text(b, "type", p->addresses[i].type);
		json_add_text(b, "address", p->addresses[i].address);
		json_end_object(b);
	}
	buf_add_c(b, "]}}");
}

void
patch_node_network(struct buf *b, struct str uid, enum node_network network, int64_t now_wall_ns)
{
	bool is_routed = network == NODE_NETWORK_ROUTED;

	buf_add_c(b, "{\"metadata\":{");
	json_add_text(b, "uid", uid);
	buf_addf(
		b,
		"},\"status\":{\"conditions\":[{\"type\":\"NetworkUnavailable\",\"status\":\"%s\",\"reason\":\"%s\","
		"\"message\":\"%s\",\"lastHeartbeatTime\":\"",
		is_routed ? "False" : "True", is_routed ? "RouteCreated" : "NoRouteCreated",
		is_routed ? "RouteController created a route"
			  : "RouteController failed to create a route");
	clock_format_rfc3339(b, now_wall_ns, false);
	buf_add_c(b, "\",\"lastTransitionTime\":\"");
	clock_format_rfc3339(b, now_wall_ns, false);
	buf_add_c(b, "\"}]}}");
}

void
patch_node_path(struct buf *b, struct str name, const char *subresource)
{
	buf_add_c(b, "/api/v1/nodes/");
	url_add_escaped(b, name);
	if (subresource) {
		buf_add_char(b, '/');
		buf_add_c(b, subresource);
	}
}
