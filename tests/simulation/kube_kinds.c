/* kube_kinds.c: the kinds, and what Kubernetes checks and fills in for nodes, Leases and Events
 * (pkg/registry and pkg/apis of kubernetes/kubernetes). */
#include "kube_internal.h"

#include "base/names.h"

#define NOT_READY "node.kubernetes.io/not-ready"

/* ---- nodes ---- */

static bool
km_has_taint(yyjson_mut_val *taints, struct str key, struct str effect, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		yyjson_mut_val *taint = yyjson_mut_arr_get(taints, i);

		if (str_eq(km_text_at(taint, "key"), key) &&
		    str_eq(km_text_at(taint, "effect"), effect))
			return true;
	}
	return false;
}

/* The admission plugin TaintNodesByCondition. */
static void
km_admit_node(struct km_call *call, yyjson_mut_val *node)
{
	yyjson_mut_val *spec = km_at(node, "spec"), *taints = km_at(spec, "taints"), *taint;

	if (km_has_taint(taints, STR(NOT_READY), STR("NoSchedule"), km_length(taints)))
		return;
	if (!taints) {
		taints = yyjson_mut_arr(call->doc);
		km_put(call, spec, "taints", taints);
	}
	taint = yyjson_mut_obj(call->doc);
	km_put_text(call, taint, "key", STR(NOT_READY));
	km_put_text(call, taint, "effect", STR("NoSchedule"));
	yyjson_mut_arr_append(taints, taint);
}

static void
km_check_taint(struct km_call *call, yyjson_mut_val *taints, size_t i)
{
	yyjson_mut_val *taint = yyjson_mut_arr_get(taints, i);
	struct str key = km_text_at(taint, "key"), effect = km_text_at(taint, "effect");
	struct str field = KM_FIELD(call, "metadata.taints[%zu]", i);

	if (!name_is_label_key(key))
		km_problem(call, KM_INVALID, KM_FIELD(call, "%s.key", field.ptr),
		           km_quote(call, key), "is no name");
	if (!name_is_label_value(km_text_at(taint, "value")))
		km_problem(call, KM_INVALID, KM_FIELD(call, "%s.value", field.ptr),
		           km_quote(call, km_text_at(taint, "value")), "is no label value");
	if (effect.len == 0)
		km_problem(call, KM_REQUIRED, KM_FIELD(call, "%s.effect", field.ptr), STR_EMPTY,
		           "");
	else if (!str_eq_c(effect, "NoSchedule") && !str_eq_c(effect, "PreferNoSchedule") &&
	         !str_eq_c(effect, "NoExecute"))
		km_problem(call, KM_UNSUPPORTED, KM_FIELD(call, "%s.effect", field.ptr),
		           km_quote(call, effect),
		           "supported values: \"NoSchedule\", \"PreferNoSchedule\", "
		           "\"NoExecute\"");
	if (km_has_taint(taints, key, effect, i))
		km_problem(call, KM_DUPLICATE, field, km_quote(call, key),
		           "taints must be unique by key and effect pair");
}

static void
km_check_node_update(struct km_call *call, yyjson_mut_val *node, yyjson_mut_val *old)
{
	yyjson_mut_val *addresses = km_at(node, "status.addresses"), *spec = km_at(node, "spec");
	struct str id = km_text_at(spec, "providerID"), old_id = km_text_at(old, "spec.providerID");

	for (size_t i = 0; i < km_length(addresses); i++) {
		yyjson_mut_val *address = yyjson_mut_arr_get(addresses, i);
		bool is_double = false;

		for (size_t k = 0; k < i; k++)
			is_double = is_double ||
			            km_equals(yyjson_mut_arr_get(addresses, k), address);
		if (is_double)
			km_problem(call, KM_DUPLICATE, KM_FIELD(call, "status.addresses[%zu]", i),
			           KM_FIELD(call,
			                    "{\"Type\":%" STR_FMT ",\"Address\":%" STR_FMT "}",
			                    STR_ARG(km_quote(call, km_text_at(address, "type"))),
			                    STR_ARG(km_quote(call,
			                                     km_text_at(address, "address")))),
			           "");
	}
	if (km_at(old, "spec.podCIDRs") &&
	    !km_equals(km_at(old, "spec.podCIDRs"), km_at(spec, "podCIDRs")))
		km_problem(call, KM_FORBIDDEN, STR("spec.podCIDRs"), STR_EMPTY,
		           "node updates may not change podCIDR except from \"\" to valid");
	if (old_id.len > 0 && !str_eq(id, old_id))
		km_problem(call, KM_INVALID, STR("spec.providerID"), STR("null"),
		           id.len > 0 ? "field cannot be modified once set"
		                      : "field cannot be cleared once set");
}

static void
km_check_node(struct km_call *call, yyjson_mut_val *node, yyjson_mut_val *old)
{
	yyjson_mut_val *taints = km_at(node, "spec.taints");

	for (size_t i = 0; i < km_length(taints); i++)
		km_check_taint(call, taints, i);
	if (old)
		km_check_node_update(call, node, old);
}

/* ---- Leases ---- */

static void
km_check_lease(struct km_call *call, yyjson_mut_val *lease, yyjson_mut_val *old)
{
	int64_t duration_s = km_number_at(lease, "spec.leaseDurationSeconds");
	int64_t transitions = km_number_at(lease, "spec.leaseTransitions");

	(void)old;
	if (km_at(lease, "spec.leaseDurationSeconds") && duration_s <= 0)
		km_problem(call, KM_INVALID, STR("spec.leaseDurationSeconds"),
		           KM_FIELD(call, "%lld", (long long)duration_s), "must be greater than 0");
	if (transitions < 0)
		km_problem(call, KM_INVALID, STR("spec.leaseTransitions"),
		           KM_FIELD(call, "%lld", (long long)transitions),
		           "must be greater than or equal to 0");
}

/* ---- Events ---- */

/* Only Events without an eventTime: ccmd writes no others. */
static void
km_check_event(struct km_call *call, yyjson_mut_val *event, yyjson_mut_val *old)
{
	struct str involved = km_text_at(event, "involvedObject.namespace");
	struct str own = call->namespace;

	(void)old;
	if (!str_eq(involved.len > 0 ? involved : STR("default"), own))
		km_problem(call, KM_INVALID, STR("involvedObject.namespace"),
		           km_quote(call, involved), "does not match event.namespace");
}

/* ---- namespaces ---- */

static void
km_prepare_namespace(struct km_call *call, yyjson_mut_val *namespace, yyjson_mut_val *old)
{
	if (!old)
		km_put_text(call, km_at(namespace, "status"), "phase", STR("Active"));
}

/* ---- the kinds ---- */

const struct km_kind km_kinds[KUBE_MODEL_N_KINDS] = {
	[KUBE_MODEL_NODE] = { .name = "Node",
	                      .resource = "nodes",
	                      .group = "",
	                      .version = "v1",
	                      .prefix = "/api/v1/",
	                      .fields = km_node_fields,
	                      .has_status = true,
	                      .admit = km_admit_node,
	                      .check = km_check_node,
	                      .check_status = km_check_node_update },
	[KUBE_MODEL_SERVICE] = { .name = "Service",
	                         .resource = "services",
	                         .group = "",
	                         .version = "v1",
	                         .prefix = "/api/v1/",
	                         .fields = km_service_fields,
	                         .is_namespaced = true,
	                         .has_status = true,
	                         .may_create_by_put = true,
	                         .shows_deleted = true,
	                         .has_label_name = true,
	                         .set_defaults = km_default_service,
	                         .prepare = km_prepare_service,
	                         .check = km_check_service,
	                         .check_status = km_check_service_status },
	[KUBE_MODEL_LEASE] = { .name = "Lease",
	                       .resource = "leases",
	                       .group = "coordination.k8s.io",
	                       .version = "coordination.k8s.io/v1",
	                       .prefix = "/apis/coordination.k8s.io/v1/",
	                       .fields = km_lease_fields,
	                       .is_namespaced = true,
	                       .may_create_by_put = true,
	                       .needs_version = true,
	                       .check = km_check_lease },
	[KUBE_MODEL_EVENT] = { .name = "Event",
	                       .resource = "events",
	                       .group = "",
	                       .version = "v1",
	                       .prefix = "/api/v1/",
	                       .fields = km_event_fields,
	                       .is_namespaced = true,
	                       .may_create_by_put = true,
	                       .check = km_check_event },
	[KUBE_MODEL_NAMESPACE] = { .name = "Namespace",
	                           .resource = "namespaces",
	                           .group = "",
	                           .version = "v1",
	                           .prefix = "/api/v1/",
	                           .fields = km_namespace_fields,
	                           .has_status = true,
	                           .has_label_name = true,
	                           .prepare = km_prepare_namespace },
	[KUBE_MODEL_CONFIG_MAP] = { .name = "ConfigMap",
	                            .resource = "configmaps",
	                            .group = "",
	                            .version = "v1",
	                            .prefix = "/api/v1/",
	                            .fields = km_config_map_fields,
	                            .is_namespaced = true },
};
