/* kube_schema.c: the members of each kind, as k8s.io/api declares them, and what decoding to Go and
 * encoding again does to an object. Members that nothing in the simulation sends are left out; they
 * are dropped like unknown ones. */
#include "kube_internal.h"

#include <string.h>

/* ---- the members ---- */

static const struct km_field owner_fields[] = {
	{ .name = "apiVersion", .zero = KM_ALWAYS },
	{ .name = "kind", .zero = KM_ALWAYS },
	{ .name = "name", .zero = KM_ALWAYS },
	{ .name = "uid", .zero = KM_ALWAYS },
	{ .name = "controller", .type = KM_FLAG, .zero = KM_POINTER },
	{ .name = "blockOwnerDeletion", .type = KM_FLAG, .zero = KM_POINTER },
	{ 0 },
};

static const struct km_field meta_fields[] = {
	{ .name = "name" },
	{ .name = "generateName" },
	{ .name = "namespace" },
	{ .name = "uid" },
	{ .name = "resourceVersion" },
	{ .name = "generation", .type = KM_NUMBER },
	{ .name = "creationTimestamp", .type = KM_TIME },
	{ .name = "deletionTimestamp", .type = KM_TIME },
	{ .name = "deletionGracePeriodSeconds", .type = KM_NUMBER, .zero = KM_POINTER },
	{ .name = "labels", .type = KM_MAP },
	{ .name = "annotations", .type = KM_MAP },
	{ .name = "ownerReferences", .type = KM_LIST, .of = owner_fields, .merge_key = "uid" },
	{ .name = "finalizers", .type = KM_TEXTS, .merge_key = "" },
	{ 0 },
};

#define OBJECT_FIELDS                                                                       \
	{ .name = "kind", .zero = KM_ALWAYS }, { .name = "apiVersion", .zero = KM_ALWAYS }, \
	{                                                                                   \
		.name = "metadata", .type = KM_OBJECT, .of = meta_fields, .zero = KM_ALWAYS \
	}

static const struct km_field taint_fields[] = {
	{ .name = "key", .zero = KM_ALWAYS },
	{ .name = "value" },
	{ .name = "effect", .zero = KM_ALWAYS },
	{ .name = "timeAdded", .type = KM_TIME },
	{ 0 },
};

static const struct km_field node_spec_fields[] = {
	{ .name = "podCIDR" },
	{ .name = "podCIDRs", .type = KM_TEXTS, .merge_key = "" },
	{ .name = "providerID" },
	{ .name = "unschedulable", .type = KM_FLAG },
	{ .name = "taints", .type = KM_LIST, .of = taint_fields },
	{ .name = "externalID" },
	{ 0 },
};

static const struct km_field node_condition_fields[] = {
	{ .name = "type", .zero = KM_ALWAYS },
	{ .name = "status", .zero = KM_ALWAYS },
	{ .name = "lastHeartbeatTime", .type = KM_TIME, .zero = KM_ALWAYS },
	{ .name = "lastTransitionTime", .type = KM_TIME, .zero = KM_ALWAYS },
	{ .name = "reason" },
	{ .name = "message" },
	{ 0 },
};

static const struct km_field address_fields[] = {
	{ .name = "type", .zero = KM_ALWAYS },
	{ .name = "address", .zero = KM_ALWAYS },
	{ 0 },
};

static const struct km_field endpoint_fields[] = {
	{ .name = "Port", .type = KM_NUMBER, .zero = KM_ALWAYS },
	{ 0 },
};

static const struct km_field daemon_fields[] = {
	{ .name = "kubeletEndpoint", .type = KM_OBJECT, .of = endpoint_fields, .zero = KM_ALWAYS },
	{ 0 },
};

static const struct km_field system_fields[] = {
	{ .name = "machineID", .zero = KM_ALWAYS },
	{ .name = "systemUUID", .zero = KM_ALWAYS },
	{ .name = "bootID", .zero = KM_ALWAYS },
	{ .name = "kernelVersion", .zero = KM_ALWAYS },
	{ .name = "osImage", .zero = KM_ALWAYS },
	{ .name = "containerRuntimeVersion", .zero = KM_ALWAYS },
	{ .name = "kubeletVersion", .zero = KM_ALWAYS },
	{ .name = "kubeProxyVersion", .zero = KM_ALWAYS },
	{ .name = "operatingSystem", .zero = KM_ALWAYS },
	{ .name = "architecture", .zero = KM_ALWAYS },
	{ 0 },
};

static const struct km_field image_fields[] = {
	{ .name = "names", .type = KM_TEXTS },
	{ .name = "sizeBytes", .type = KM_NUMBER },
	{ 0 },
};

static const struct km_field node_status_fields[] = {
	{ .name = "capacity", .type = KM_MAP },
	{ .name = "allocatable", .type = KM_MAP },
	{ .name = "phase" },
	{ .name = "conditions", .type = KM_LIST, .of = node_condition_fields, .merge_key = "type" },
	{ .name = "addresses", .type = KM_LIST, .of = address_fields, .merge_key = "type" },
	{ .name = "daemonEndpoints", .type = KM_OBJECT, .of = daemon_fields, .zero = KM_ALWAYS },
	{ .name = "nodeInfo", .type = KM_OBJECT, .of = system_fields, .zero = KM_ALWAYS },
	{ .name = "images", .type = KM_LIST, .of = image_fields },
	{ .name = "volumesInUse", .type = KM_TEXTS },
	{ 0 },
};

const struct km_field km_node_fields[] = {
	OBJECT_FIELDS,
	{ .name = "spec", .type = KM_OBJECT, .of = node_spec_fields, .zero = KM_ALWAYS },
	{ .name = "status", .type = KM_OBJECT, .of = node_status_fields, .zero = KM_ALWAYS },
	{ 0 },
};

static const struct km_field port_fields[] = {
	{ .name = "name" },
	{ .name = "protocol" },
	{ .name = "appProtocol", .zero = KM_POINTER },
	{ .name = "port", .type = KM_NUMBER, .zero = KM_ALWAYS },
	{ .name = "targetPort", .type = KM_NUMBER_OR_TEXT },
	{ .name = "nodePort", .type = KM_NUMBER },
	{ 0 },
};

static const struct km_field client_ip_fields[] = {
	{ .name = "timeoutSeconds", .type = KM_NUMBER, .zero = KM_POINTER },
	{ 0 },
};

static const struct km_field affinity_fields[] = {
	{ .name = "clientIP", .type = KM_OBJECT, .of = client_ip_fields, .zero = KM_POINTER },
	{ 0 },
};

static const struct km_field service_spec_fields[] = {
	{ .name = "ports", .type = KM_LIST, .of = port_fields, .merge_key = "port" },
	{ .name = "selector", .type = KM_MAP },
	{ .name = "clusterIP" },
	{ .name = "clusterIPs", .type = KM_TEXTS },
	{ .name = "type" },
	{ .name = "externalIPs", .type = KM_TEXTS },
	{ .name = "sessionAffinity" },
	{ .name = "loadBalancerIP" },
	{ .name = "loadBalancerSourceRanges", .type = KM_TEXTS },
	{ .name = "externalName" },
	{ .name = "externalTrafficPolicy" },
	{ .name = "healthCheckNodePort", .type = KM_NUMBER },
	{ .name = "publishNotReadyAddresses", .type = KM_FLAG },
	{ .name = "sessionAffinityConfig",
	  .type = KM_OBJECT,
	  .of = affinity_fields,
	  .zero = KM_POINTER },
	{ .name = "ipFamilies", .type = KM_TEXTS },
	{ .name = "ipFamilyPolicy", .zero = KM_POINTER },
	{ .name = "allocateLoadBalancerNodePorts", .type = KM_FLAG, .zero = KM_POINTER },
	{ .name = "loadBalancerClass", .zero = KM_POINTER },
	{ .name = "internalTrafficPolicy", .zero = KM_POINTER },
	{ 0 },
};

static const struct km_field port_status_fields[] = {
	{ .name = "port", .type = KM_NUMBER, .zero = KM_ALWAYS },
	{ .name = "protocol", .zero = KM_ALWAYS },
	{ .name = "error", .zero = KM_POINTER },
	{ 0 },
};

static const struct km_field ingress_fields[] = {
	{ .name = "ip" },
	{ .name = "hostname" },
	{ .name = "ipMode", .zero = KM_POINTER },
	{ .name = "ports", .type = KM_LIST, .of = port_status_fields },
	{ 0 },
};

static const struct km_field balancer_fields[] = {
	{ .name = "ingress", .type = KM_LIST, .of = ingress_fields },
	{ 0 },
};

static const struct km_field condition_fields[] = {
	{ .name = "type", .zero = KM_ALWAYS },
	{ .name = "status", .zero = KM_ALWAYS },
	{ .name = "observedGeneration", .type = KM_NUMBER },
	{ .name = "lastTransitionTime", .type = KM_TIME, .zero = KM_ALWAYS },
	{ .name = "reason", .zero = KM_ALWAYS },
	{ .name = "message", .zero = KM_ALWAYS },
	{ 0 },
};

static const struct km_field service_status_fields[] = {
	{ .name = "loadBalancer", .type = KM_OBJECT, .of = balancer_fields, .zero = KM_ALWAYS },
	{ .name = "conditions", .type = KM_LIST, .of = condition_fields, .merge_key = "type" },
	{ 0 },
};

const struct km_field km_service_fields[] = {
	OBJECT_FIELDS,
	{ .name = "spec", .type = KM_OBJECT, .of = service_spec_fields, .zero = KM_ALWAYS },
	{ .name = "status", .type = KM_OBJECT, .of = service_status_fields, .zero = KM_ALWAYS },
	{ 0 },
};

static const struct km_field lease_spec_fields[] = {
	{ .name = "holderIdentity", .zero = KM_POINTER },
	{ .name = "leaseDurationSeconds", .type = KM_NUMBER, .zero = KM_POINTER },
	{ .name = "acquireTime", .type = KM_MICRO_TIME },
	{ .name = "renewTime", .type = KM_MICRO_TIME },
	{ .name = "leaseTransitions", .type = KM_NUMBER, .zero = KM_POINTER },
	{ 0 },
};

const struct km_field km_lease_fields[] = {
	OBJECT_FIELDS,
	{ .name = "spec", .type = KM_OBJECT, .of = lease_spec_fields, .zero = KM_ALWAYS },
	{ 0 },
};

static const struct km_field reference_fields[] = {
	{ .name = "kind" },       { .name = "namespace" },
	{ .name = "name" },       { .name = "uid" },
	{ .name = "apiVersion" }, { .name = "resourceVersion" },
	{ .name = "fieldPath" },  { 0 },
};

static const struct km_field source_fields[] = {
	{ .name = "component" },
	{ .name = "host" },
	{ 0 },
};

static const struct km_field series_fields[] = {
	{ .name = "count", .type = KM_NUMBER },
	{ .name = "lastObservedTime", .type = KM_MICRO_TIME, .zero = KM_ALWAYS },
	{ 0 },
};

const struct km_field km_event_fields[] = {
	OBJECT_FIELDS,
	{ .name = "involvedObject", .type = KM_OBJECT, .of = reference_fields, .zero = KM_ALWAYS },
	{ .name = "reason" },
	{ .name = "message" },
	{ .name = "source", .type = KM_OBJECT, .of = source_fields, .zero = KM_ALWAYS },
	{ .name = "firstTimestamp", .type = KM_TIME, .zero = KM_ALWAYS },
	{ .name = "lastTimestamp", .type = KM_TIME, .zero = KM_ALWAYS },
	{ .name = "count", .type = KM_NUMBER },
	{ .name = "type" },
	{ .name = "eventTime", .type = KM_MICRO_TIME, .zero = KM_ALWAYS },
	{ .name = "series", .type = KM_OBJECT, .of = series_fields, .zero = KM_POINTER },
	{ .name = "action" },
	{ .name = "related", .type = KM_OBJECT, .of = reference_fields, .zero = KM_POINTER },
	{ .name = "reportingComponent", .zero = KM_ALWAYS },
	{ .name = "reportingInstance", .zero = KM_ALWAYS },
	{ 0 },
};

static const struct km_field namespace_spec_fields[] = {
	{ .name = "finalizers", .type = KM_TEXTS },
	{ 0 },
};

static const struct km_field namespace_status_fields[] = {
	{ .name = "phase" },
	{ 0 },
};

const struct km_field km_namespace_fields[] = {
	OBJECT_FIELDS,
	{ .name = "spec", .type = KM_OBJECT, .of = namespace_spec_fields, .zero = KM_ALWAYS },
	{ .name = "status", .type = KM_OBJECT, .of = namespace_status_fields, .zero = KM_ALWAYS },
	{ 0 },
};

const struct km_field km_config_map_fields[] = {
	OBJECT_FIELDS,
	{ .name = "immutable", .type = KM_FLAG, .zero = KM_POINTER },
	{ .name = "data", .type = KM_MAP },
	{ .name = "binaryData", .type = KM_MAP },
	{ 0 },
};

/* ---- decoding ---- */

static bool
km_mistyped(struct km_call *call, const struct km_field *field)
{
	if (call->mistyped.len == 0)
		call->mistyped = str_c(field->name);
	return false;
}

/* Times have six digits of fraction, or are cut to seconds. */
static bool
km_decode_time(struct km_call *call, const struct km_field *field, yyjson_mut_val *in,
               yyjson_mut_val **ret)
{
	char array[64] = "";
	struct buf text = BUF_FIXED(array);
	bool is_micro = field->type == KM_MICRO_TIME;
	struct str given = km_text(in), before, fraction;
	int64_t wall_ns;

	if (!yyjson_mut_is_str(in) || !clock_parse_rfc3339(given, &wall_ns))
		return km_mistyped(call, field);
	if (is_micro &&
	    (!str_cut(given, '.', &before, &fraction) || fraction.len < 7 ||
	     !str_is_digits(str_head(fraction, 6)) || str_is_digits(str_head(fraction, 7))))
		return km_mistyped(call, field);
	if (given.len == (is_micro ? 27 : 20) && given.ptr[given.len - 1] == 'Z') {
		*ret = yyjson_mut_val_mut_copy(call->doc, in); /* as Go writes it */
		return true;
	}
	clock_format_rfc3339(&text, wall_ns, is_micro);
	*ret = yyjson_mut_strncpy(call->doc, text.ptr, text.len);
	return true;
}

static bool
km_decode_map(struct km_call *call, const struct km_field *field, yyjson_mut_val *in,
              yyjson_mut_val **ret)
{
	yyjson_mut_obj_iter it = yyjson_mut_obj_iter_with(in);
	yyjson_mut_val *key, *map = yyjson_mut_obj(call->doc);

	while ((key = yyjson_mut_obj_iter_next(&it))) {
		yyjson_mut_val *value = yyjson_mut_obj_iter_get_val(key);

		if (yyjson_mut_is_null(value))
			value = yyjson_mut_str(call->doc, "");
		if (!yyjson_mut_is_str(value))
			return km_mistyped(call, field);
		yyjson_mut_obj_add(map, yyjson_mut_val_mut_copy(call->doc, key),
		                   yyjson_mut_val_mut_copy(call->doc, value));
	}
	*ret = map;
	return true;
}

static bool
km_decode_list(struct km_call *call, const struct km_field *field, yyjson_mut_val *in,
               yyjson_mut_val **ret)
{
	yyjson_mut_arr_iter it = yyjson_mut_arr_iter_with(in);
	yyjson_mut_val *item, *list = yyjson_mut_arr(call->doc);

	while ((item = yyjson_mut_arr_iter_next(&it))) {
		yyjson_mut_val *decoded;

		if (field->type == KM_TEXTS) {
			if (!yyjson_mut_is_str(item))
				return km_mistyped(call, field);
			decoded = yyjson_mut_val_mut_copy(call->doc, item);
		} else if (!yyjson_mut_is_obj(item)) {
			return km_mistyped(call, field);
		} else if (!km_decode(call, field->of, item, &decoded)) {
			return false;
		}
		yyjson_mut_arr_append(list, decoded);
	}
	*ret = list;
	return true;
}

static bool
km_decode_value(struct km_call *call, const struct km_field *field, yyjson_mut_val *in,
                yyjson_mut_val **ret)
{
	bool is_right = true;

	switch (field->type) {
	case KM_TIME:
	case KM_MICRO_TIME:
		return km_decode_time(call, field, in, ret);
	case KM_MAP:
		return yyjson_mut_is_obj(in) ? km_decode_map(call, field, in, ret)
		                             : km_mistyped(call, field);
	case KM_TEXTS:
	case KM_LIST:
		return yyjson_mut_is_arr(in) ? km_decode_list(call, field, in, ret)
		                             : km_mistyped(call, field);
	case KM_OBJECT:
		return yyjson_mut_is_obj(in) ? km_decode(call, field->of, in, ret)
		                             : km_mistyped(call, field);
	case KM_TEXT:
		is_right = yyjson_mut_is_str(in);
		break;
	case KM_NUMBER:
		is_right = yyjson_mut_is_int(in);
		break;
	case KM_FLAG:
		is_right = yyjson_mut_is_bool(in);
		break;
	case KM_NUMBER_OR_TEXT:
		is_right = yyjson_mut_is_int(in) || yyjson_mut_is_str(in);
		break;
	case KM_ANY:
		break;
	}
	if (!is_right)
		return km_mistyped(call, field);
	*ret = yyjson_mut_val_mut_copy(call->doc, in);
	return true;
}

/* Is it the value that Go omits? */
static bool
km_is_zero(const struct km_field *field, yyjson_mut_val *value)
{
	switch (field->type) {
	case KM_TEXT:
		return yyjson_mut_get_len(value) == 0;
	case KM_NUMBER:
		return yyjson_mut_get_sint(value) == 0;
	case KM_FLAG:
		return !yyjson_mut_get_bool(value);
	case KM_MAP:
	case KM_OBJECT:
		return yyjson_mut_obj_size(value) == 0;
	case KM_TEXTS:
	case KM_LIST:
		return yyjson_mut_arr_size(value) == 0;
	case KM_TIME:
	case KM_MICRO_TIME:
	case KM_NUMBER_OR_TEXT:
	case KM_ANY:
		return false;
	}
	return false;
}

/* What stands for an absent member that is always shown. */
static bool
km_zero(struct km_call *call, const struct km_field *field, yyjson_mut_val **ret)
{
	if (field->type == KM_OBJECT)
		return km_decode(call, field->of, yyjson_mut_obj(call->doc), ret);
	if (field->type == KM_TEXT)
		*ret = yyjson_mut_str(call->doc, "");
	else if (field->type == KM_NUMBER)
		*ret = yyjson_mut_int(call->doc, 0);
	else
		*ret = yyjson_mut_null(call->doc);
	return true;
}

bool
km_decode(struct km_call *call, const struct km_field *fields, yyjson_mut_val *in,
          yyjson_mut_val **ret)
{
	yyjson_mut_val *out = yyjson_mut_obj(call->doc);
	yyjson_mut_obj_iter it = yyjson_mut_obj_iter_with(in);

	for (const struct km_field *field = fields; field->name; field++) {
		/* the members mostly have the order of the fields */
		yyjson_mut_val *value = yyjson_mut_obj_iter_get(&it, field->name), *decoded;

		if (value && !yyjson_mut_is_null(value)) {
			if (!km_decode_value(call, field, value, &decoded))
				return false;
			if (field->zero == KM_OMIT && km_is_zero(field, decoded))
				continue;
		} else if (field->zero == KM_ALWAYS) {
			if (!km_zero(call, field, &decoded))
				return false;
		} else {
			continue;
		}
		yyjson_mut_obj_add_val(call->doc, out, field->name, decoded);
	}
	*ret = out;
	return true;
}
