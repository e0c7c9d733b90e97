/* kube/patch.c: see patch.h. The JSON is written directly, because a patch is small and has a fixed
 * shape. Taints are copied as the server sent them, so members that are not known here survive. */
#include "kube/patch.h"

#include "base/json.h"
#include "http/url.h"

/* ---- nodes ---- */

/* Begins the patch with the state that it was computed from. The object "metadata" is left open. */
static void
node_begin(struct buf *b, const struct node_patch *p)
{
	json_begin_object(b, NULL);
	json_begin_object(b, "metadata");
	json_add_members(b, JSON_TEXT("uid", p->uid),
	                 JSON_IF(p->resource_version.len > 0,
	                         JSON_TEXT("resourceVersion", p->resource_version)));
}

static void
node_add_spec(struct buf *b, const struct node_patch *p)
{
	if (p->provider_id.len == 0 && !p->has_taints)
		return;
	json_begin_object(b, "spec");
	json_add_members(b,
	                 JSON_IF(p->provider_id.len > 0, JSON_TEXT("providerID", p->provider_id)),
	                 JSON_IF(p->has_taints && p->n_taints == 0,
	                         JSON_RAW("taints", STR("null"))));
	if (p->has_taints && p->n_taints > 0) {
		json_begin_array(b, "taints");
		for (size_t i = 0; i < p->n_taints; i++)
			json_add_raw(b, NULL, p->taints[i]);
		json_end_array(b);
	}
	json_end_object(b);
}

void
patch_node(struct buf *b, const struct node_patch *p)
{
	node_begin(b, p);
	if (p->n_labels > 0) {
		json_begin_object(b, "labels");
		for (size_t i = 0; i < p->n_labels; i++) {
			json_add_name(b, p->labels[i].key);
			json_add_text(b, NULL, p->labels[i].value);
		}
		json_end_object(b);
	}
	json_end_object(b);
	node_add_spec(b, p);
	json_end_object(b);
}

void
patch_node_status(struct buf *b, const struct node_patch *p)
{
	node_begin(b, p);
	buf_add_c(b, "},\"status\":{\"addresses\":[");
	for (size_t i = 0; i < p->n_addresses; i++) {
		json_add_object(b, NULL, JSON_TEXT("type", p->addresses[i].type),
		                JSON_TEXT("address", p->addresses[i].address));
	}
	buf_add_c(b, "]}}");
}

void
patch_node_network(struct buf *b, struct str uid, enum node_network network, int64_t now_wall_ns)
{
	bool is_routed = network == NODE_NETWORK_ROUTED;

	json_begin_object(b, NULL);
	json_add_object(b, "metadata", JSON_TEXT("uid", uid));
	buf_add_c(b, ",\"status\":{\"conditions\":[");
	json_add_object(b, NULL, JSON_TEXT("type", STR("NetworkUnavailable")),
	                JSON_TEXT("status", is_routed ? STR("False") : STR("True")),
	                JSON_TEXT("reason",
	                          is_routed ? STR("RouteCreated") : STR("NoRouteCreated")),
	                JSON_TEXT("message",
	                          is_routed ? STR("RouteController created a route")
	                                    : STR("RouteController failed to create a route")),
	                JSON_TIME("lastHeartbeatTime", now_wall_ns),
	                JSON_TIME("lastTransitionTime", now_wall_ns));
	buf_add_c(b, "]}}");
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

/* ---- Services ---- */

/* Adds the order that the list is to have after the patch: all other finalizers as they are, then
 * ours if it is wanted. */
static void
service_add_order(struct buf *b, const struct service *s, bool wanted)
{
	json_begin_array(b, "$setElementOrder/finalizers");
	for (uint32_t i = 0; i < s->n_finalizers; i++) {
		if (!str_eq_c(s->finalizers[i], SERVICE_FINALIZER))
			json_add_text(b, NULL, s->finalizers[i]);
	}
	if (wanted)
		json_add_text(b, NULL, STR(SERVICE_FINALIZER));
	json_end_array(b);
}

/* Begins the patch and leaves the object "metadata" open. */
static void
service_begin(struct buf *b, const struct service *s)
{
	buf_add_c(b, "{\"metadata\":{");
	json_add_text(b, "uid", s->object.uid);
}

void
patch_service_claim(struct buf *b, const struct service *s)
{
	service_begin(b, s);
	service_add_order(b, s, /*wanted=*/true);
	buf_add_c(b, ",\"finalizers\":[\"" SERVICE_FINALIZER "\"]}}");
}

bool
patch_service_release(struct buf *b, const struct service *s, bool is_stale)
{
	/* the status of a Service of another class is its controller's */
	bool has_status = !s->has_class && (is_stale || s->n_ingress > 0);
	bool has_finalizer = is_stale || s->has_finalizer;

	if (!has_finalizer && !has_status)
		return false;
	service_begin(b, s);
	json_add_text(b, "resourceVersion", s->object.resource_version);
	if (has_finalizer) {
		service_add_order(b, s, /*wanted=*/false);
		buf_add_c(b,
		          ",\"$deleteFromPrimitiveList/finalizers\":[\"" SERVICE_FINALIZER "\"]");
	}
	buf_add_c(b, has_status ? "},\"status\":{\"loadBalancer\":{\"ingress\":null}}}" : "}}");
	return true;
}

void
patch_service_status(struct buf *b, const struct service *s, const struct service_ingress *ingress,
                     size_t n)
{
	service_begin(b, s);
	buf_add_c(b, "},\"status\":{\"loadBalancer\":{\"ingress\":");
	if (n > 0)
		json_begin_array(b, NULL);
	for (size_t i = 0; i < n; i++) {
		const struct service_ingress *one = &ingress[i];

		json_add_object(b, NULL, JSON_IF(one->ip.len > 0, JSON_TEXT("ip", one->ip)),
		                JSON_IF(one->ip_mode.len > 0, JSON_TEXT("ipMode", one->ip_mode)),
		                JSON_IF(one->hostname.len > 0,
		                        JSON_TEXT("hostname", one->hostname)));
	}
	buf_add_c(b, n > 0 ? "]}}}" : "null}}}");
}

bool
service_status_equals(const struct service *s, const struct service_ingress *ingress, size_t n)
{
	if (s->n_ingress != n)
		return false;
	for (size_t i = 0; i < n; i++) {
		const struct service_ingress *is = &s->ingress[i], *wanted = &ingress[i];

		if (!str_eq(is->ip, wanted->ip) || !str_eq(is->hostname, wanted->hostname))
			return false;
		/* Kubernetes 1.28 has no such field and drops it */
		if (is->ip_mode.len > 0 && !str_eq(is->ip_mode, wanted->ip_mode))
			return false;
	}
	return true;
}

void
patch_service_path(struct buf *b, const struct service *s)
{
	buf_add_c(b, "/api/v1/namespaces/");
	url_add_escaped(b, s->namespace);
	buf_add_c(b, "/services/");
	url_add_escaped(b, s->name);
	buf_add_c(b, "/status");
}
