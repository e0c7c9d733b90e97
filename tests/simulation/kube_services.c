/* kube_services.c: what Kubernetes fills in and checks for Services (pkg/apis/core/v1/defaults.go,
 * pkg/registry/core/service and pkg/apis/core/validation).
 *
 * Addresses and ports are given out in order, and not used twice: 10.96.0.10, 10.96.0.11, …; 30000,
 * 30001, … Services of two families are not modelled. */
#include "kube_internal.h"

#include "base/ip.h"
#include "base/names.h"

enum {
	FIRST_ADDRESS = 10,
	FIRST_PORT = 30000,
	N_PORTS = 2768,
	AFFINITY_S = 10800,
};

static bool
km_is_type(yyjson_mut_val *service, const char *type)
{
	return str_eq_c(km_text_at(service, "spec.type"), type);
}

static bool
km_is_external(yyjson_mut_val *service)
{
	return km_is_type(service, "NodePort") || km_is_type(service, "LoadBalancer");
}

static bool
km_has_cluster_ip(yyjson_mut_val *service)
{
	return !km_is_type(service, "ExternalName");
}

static bool
km_needs_health_port(yyjson_mut_val *service)
{
	return km_is_type(service, "LoadBalancer") &&
	       str_eq_c(km_text_at(service, "spec.externalTrafficPolicy"), "Local");
}

/* ---- defaults ---- */

static void
km_default_text(struct km_call *call, yyjson_mut_val *object, const char *key, const char *text)
{
	if (km_text_at(object, key).len == 0)
		km_put_text(call, object, key, str_c(text));
}

static void
km_default_affinity(struct km_call *call, yyjson_mut_val *spec)
{
	yyjson_mut_val *config, *client;

	km_default_text(call, spec, "sessionAffinity", "None");
	if (str_eq_c(km_text_at(spec, "sessionAffinity"), "None"))
		km_put(call, spec, "sessionAffinityConfig", NULL);
	else if (!km_at(spec, "sessionAffinityConfig.clientIP.timeoutSeconds")) {
		client = yyjson_mut_obj(call->doc);
		config = yyjson_mut_obj(call->doc);
		km_put_number(call, client, "timeoutSeconds", AFFINITY_S);
		km_put(call, config, "clientIP", client);
		km_put(call, spec, "sessionAffinityConfig", config);
	}
}

static void
km_default_ports(struct km_call *call, yyjson_mut_val *ports)
{
	for (size_t i = 0; i < km_length(ports); i++) {
		yyjson_mut_val *port = yyjson_mut_arr_get(ports, i);
		yyjson_mut_val *target = km_at(port, "targetPort");

		km_default_text(call, port, "protocol", "TCP");
		if (!target || (yyjson_mut_is_int(target) && yyjson_mut_get_sint(target) == 0) ||
		    (yyjson_mut_is_str(target) && yyjson_mut_get_len(target) == 0))
			km_put_number(call, port, "targetPort", km_number_at(port, "port"));
	}
}

void
km_default_service(struct km_call *call, yyjson_mut_val *service)
{
	yyjson_mut_val *spec = km_at(service, "spec"), *ingress;

	km_default_affinity(call, spec);
	km_default_text(call, spec, "type", "ClusterIP");
	km_default_ports(call, km_at(spec, "ports"));
	if (km_is_external(service) || km_at(spec, "externalIPs"))
		km_default_text(call, spec, "externalTrafficPolicy", "Cluster");
	if (km_has_cluster_ip(service))
		km_default_text(call, spec, "internalTrafficPolicy", "Cluster");
	if (!km_is_type(service, "LoadBalancer"))
		return;
	if (!km_at(spec, "allocateLoadBalancerNodePorts"))
		km_put(call, spec, "allocateLoadBalancerNodePorts",
		       yyjson_mut_bool(call->doc, true));
	ingress = km_at(service, "status.loadBalancer.ingress");
	for (size_t i = 0; i < km_length(ingress); i++) {
		yyjson_mut_val *one = yyjson_mut_arr_get(ingress, i);

		if (km_at(one, "ip") && !km_at(one, "ipMode"))
			km_put_text(call, one, "ipMode", STR("VIP"));
	}
}

/* ---- what a change of the type drops ---- */

static bool
km_is_same(yyjson_mut_val *a, yyjson_mut_val *b, const char *path)
{
	return km_equals(km_at(a, path), km_at(b, path));
}

static void
km_drop_same(struct km_call *call, yyjson_mut_val *service, yyjson_mut_val *old, const char *key)
{
	const char *path = KM_FIELD(call, "spec.%s", key).ptr;

	if (km_is_same(service, old, path))
		km_put(call, km_at(service, "spec"), key, NULL);
}

static bool
km_has_node_port(yyjson_mut_val *ports, int64_t number)
{
	for (size_t i = 0; i < km_length(ports); i++) {
		if (km_number_at(yyjson_mut_arr_get(ports, i), "nodePort") == number)
			return true;
	}
	return false;
}

static void
km_drop_node_ports(struct km_call *call, yyjson_mut_val *service, yyjson_mut_val *old)
{
	yyjson_mut_val *ports = km_at(service, "spec.ports");

	for (size_t i = 0; i < km_length(ports); i++) {
		int64_t number = km_number_at(yyjson_mut_arr_get(ports, i), "nodePort");

		if (number != 0 && !km_has_node_port(km_at(old, "spec.ports"), number))
			return;
	}
	for (size_t i = 0; i < km_length(ports); i++)
		km_put(call, yyjson_mut_arr_get(ports, i), "nodePort", NULL);
}

static void
km_drop_dependent(struct km_call *call, yyjson_mut_val *service, yyjson_mut_val *old)
{
	if (km_has_cluster_ip(old) && !km_has_cluster_ip(service)) {
		km_drop_same(call, service, old, "clusterIP");
		km_drop_same(call, service, old, "clusterIPs");
		km_drop_same(call, service, old, "ipFamilies");
		km_drop_same(call, service, old, "ipFamilyPolicy");
	}
	if (km_is_external(old) && !km_is_external(service))
		km_drop_node_ports(call, service, old);
	if (km_needs_health_port(old) && !km_needs_health_port(service))
		km_drop_same(call, service, old, "healthCheckNodePort");
	if (km_is_type(old, "LoadBalancer") && !km_is_type(service, "LoadBalancer")) {
		km_drop_same(call, service, old, "allocateLoadBalancerNodePorts");
		km_drop_same(call, service, old, "loadBalancerClass");
	}
	if (km_is_external(old) && !km_is_external(service))
		km_drop_same(call, service, old, "externalTrafficPolicy");
	if (km_is_type(old, "ExternalName") != km_is_type(service, "ExternalName") &&
	    !km_has_cluster_ip(service))
		km_drop_same(call, service, old, "internalTrafficPolicy");
	if (!km_is_type(service, "LoadBalancer"))
		km_put(call, km_at(service, "status"), "loadBalancer", yyjson_mut_obj(call->doc));
}

/* ---- addresses and ports ---- */

static void
km_put_list(struct km_call *call, yyjson_mut_val *object, const char *key, struct str one)
{
	yyjson_mut_val *list = yyjson_mut_arr(call->doc);

	yyjson_mut_arr_add_strncpy(call->doc, list, one.ptr, one.len);
	km_put(call, object, key, list);
}

static void
km_give_address(struct km_call *call, yyjson_mut_val *spec)
{
	struct str given = km_text_at(spec, "clusterIP");
	bool is_headless = str_eq_c(given, "None"), has_selector = km_at(spec, "selector") != NULL;
	unsigned n;

	if (given.len == 0) {
		n = FIRST_ADDRESS + call->m->n_addresses++;
		given = KM_FIELD(call, "10.%u.%u.%u", 96 + (n >> 16 & 15), n >> 8 & 255, n & 255);
		km_put_text(call, spec, "clusterIP", given);
	}
	if (!km_at(spec, "clusterIPs"))
		km_put_list(call, spec, "clusterIPs", given);
	if (!km_at(spec, "ipFamilies")) {
		km_put_list(call, spec, "ipFamilies", STR("IPv4"));
		if (is_headless && !has_selector)
			yyjson_mut_arr_add_str(call->doc, km_at(spec, "ipFamilies"), "IPv6");
	}
	km_default_text(call, spec, "ipFamilyPolicy",
	                is_headless && !has_selector ? "RequireDualStack" : "SingleStack");
}

/* Are node ports chosen for the Service? */
static bool
km_wants_ports(yyjson_mut_val *service)
{
	return km_is_type(service, "NodePort") ||
	       (km_is_type(service, "LoadBalancer") &&
	        yyjson_mut_get_bool(km_at(service, "spec.allocateLoadBalancerNodePorts")));
}

static int64_t
km_next_port(struct km_call *call)
{
	return FIRST_PORT + call->m->n_ports++ % N_PORTS;
}

static void
km_give_ports(struct km_call *call, yyjson_mut_val *service)
{
	yyjson_mut_val *spec = km_at(service, "spec"), *ports = km_at(spec, "ports");

	for (size_t i = 0; km_wants_ports(service) && i < km_length(ports); i++) {
		yyjson_mut_val *port = yyjson_mut_arr_get(ports, i);

		if (km_number_at(port, "nodePort") == 0)
			km_put_number(call, port, "nodePort", km_next_port(call));
	}
	if (km_needs_health_port(service) && km_number_at(spec, "healthCheckNodePort") == 0)
		km_put_number(call, spec, "healthCheckNodePort", km_next_port(call));
}

/* A port without a number gets that which the port of its name had, unless another one has it. */
static void
km_keep_node_ports(struct km_call *call, yyjson_mut_val *ports, yyjson_mut_val *old_ports)
{
	for (size_t i = 0; i < km_length(ports); i++) {
		yyjson_mut_val *port = yyjson_mut_arr_get(ports, i);
		int64_t number = 0;

		if (km_at(port, "nodePort"))
			continue;
		for (size_t k = 0; k < km_length(old_ports); k++) {
			yyjson_mut_val *was = yyjson_mut_arr_get(old_ports, k);

			if (km_is_same(port, was, "name"))
				number = km_number_at(was, "nodePort");
		}
		if (number != 0 && !km_has_node_port(ports, number))
			km_put_number(call, port, "nodePort", number);
	}
}

/* A PUT that leaves out what the server had chosen keeps it. */
static void
km_keep_chosen(struct km_call *call, yyjson_mut_val *service, yyjson_mut_val *old)
{
	static const char *const keys[] = { "clusterIP", "clusterIPs", "ipFamilies",
		                            "ipFamilyPolicy" };
	yyjson_mut_val *spec = km_at(service, "spec"), *old_spec = km_at(old, "spec");

	for (size_t i = 0; km_has_cluster_ip(service) && i < ARRAY_LEN(keys); i++) {
		if (!km_at(spec, keys[i]))
			km_put(call, spec, keys[i], km_copy(call, km_at(old_spec, keys[i])));
	}
	if (km_needs_health_port(service) && km_needs_health_port(old) &&
	    !km_at(spec, "healthCheckNodePort"))
		km_put(call, spec, "healthCheckNodePort",
		       km_copy(call, km_at(old_spec, "healthCheckNodePort")));
	if (km_wants_ports(service) && km_wants_ports(old))
		km_keep_node_ports(call, km_at(spec, "ports"), km_at(old_spec, "ports"));
}

void
km_prepare_service(struct km_call *call, yyjson_mut_val *service, yyjson_mut_val *old)
{
	if (!old) {
		yyjson_mut_val *status = yyjson_mut_obj(call->doc);

		km_put(call, status, "loadBalancer", yyjson_mut_obj(call->doc));
		km_put(call, service, "status", status);
	} else {
		km_keep_chosen(call, service, old);
		km_drop_dependent(call, service, old);
	}
	if (km_has_cluster_ip(service))
		km_give_address(call, km_at(service, "spec"));
	if (km_is_external(service))
		km_give_ports(call, service);
}

/* ---- checks ---- */

static void
km_check_port(struct km_call *call, yyjson_mut_val *ports, size_t i)
{
	yyjson_mut_val *port = yyjson_mut_arr_get(ports, i);
	struct str name = km_text_at(port, "name");
	struct str field = KM_FIELD(call, "spec.ports[%zu]", i);
	int64_t number = km_number_at(port, "port");

	if (name.len == 0 && km_length(ports) > 1)
		km_problem(call, KM_REQUIRED, KM_FIELD(call, "%s.name", field.ptr), STR_EMPTY, "");
	if (name.len > 0 && !name_is_dns_label(name))
		km_problem(call, KM_INVALID, KM_FIELD(call, "%s.name", field.ptr),
		           km_quote(call, name), "is no DNS label");
	if (number < 1 || number > 65535)
		km_problem(call, KM_INVALID, KM_FIELD(call, "%s.port", field.ptr),
		           KM_FIELD(call, "%lld", (long long)number),
		           "must be between 1 and 65535, inclusive");
	for (size_t k = 0; k < i; k++) {
		yyjson_mut_val *other = yyjson_mut_arr_get(ports, k);

		if (name.len > 0 && km_is_same(port, other, "name"))
			km_problem(call, KM_DUPLICATE, KM_FIELD(call, "%s.name", field.ptr),
			           km_quote(call, name), "");
		if (km_is_same(port, other, "port") && km_is_same(port, other, "protocol"))
			km_problem(call, KM_DUPLICATE, field, km_quote(call, name), "");
	}
}

/* Members that must not be set, by the type of the Service. */
static void
km_check_type(struct km_call *call, yyjson_mut_val *service)
{
	static const char *const of_clusters[] = { "clusterIPs", "ipFamilies", "ipFamilyPolicy" };
	yyjson_mut_val *spec = km_at(service, "spec");
	bool is_balancer = km_is_type(service, "LoadBalancer");

	for (size_t i = 0; !km_has_cluster_ip(service) && i < ARRAY_LEN(of_clusters); i++) {
		if (km_at(spec, of_clusters[i]))
			km_problem(call, KM_FORBIDDEN, KM_FIELD(call, "spec.%s", of_clusters[i]),
			           STR_EMPTY, "may not be set for ExternalName services");
	}
	if (!km_has_cluster_ip(service) && km_text_at(spec, "externalName").len == 0)
		km_problem(call, KM_REQUIRED, STR("spec.externalName"), STR_EMPTY, "");
	if (km_is_external(service) && str_eq_c(km_text_at(spec, "clusterIP"), "None"))
		km_problem(call, KM_INVALID, STR("spec.clusterIPs[0]"), STR("\"None\""),
		           KM_FIELD(call, "may not be set to 'None' for %" STR_FMT " services",
		                    STR_ARG(km_text_at(spec, "type")))
		                   .ptr);
	if (!is_balancer && km_at(spec, "loadBalancerClass"))
		km_problem(call, KM_FORBIDDEN, STR("spec.loadBalancerClass"), STR_EMPTY,
		           "may only be used when `type` is 'LoadBalancer'");
	if (!is_balancer && km_at(spec, "allocateLoadBalancerNodePorts"))
		km_problem(call, KM_FORBIDDEN, STR("spec.allocateLoadBalancerNodePorts"), STR_EMPTY,
		           "may only be used when `type` is 'LoadBalancer'");
	if (!is_balancer && km_at(spec, "loadBalancerSourceRanges"))
		km_problem(call, KM_FORBIDDEN, STR("spec.LoadBalancerSourceRanges"), STR_EMPTY,
		           "may only be used when `type` is 'LoadBalancer'");
}

static void
km_check_policy(struct km_call *call, yyjson_mut_val *service, yyjson_mut_val *old)
{
	struct str policy = km_text_at(service, "spec.externalTrafficPolicy");
	bool is_external = km_is_external(service) || km_at(service, "spec.externalIPs");

	if (!is_external && policy.len > 0)
		km_problem(call, KM_INVALID, STR("spec.externalTrafficPolicy"),
		           km_quote(call, policy),
		           "may only be set for externally-accessible services");
	if (is_external && !str_eq_c(policy, "Cluster") && !str_eq_c(policy, "Local"))
		km_problem(call, KM_UNSUPPORTED, STR("spec.externalTrafficPolicy"),
		           km_quote(call, policy), "supported values: \"Cluster\", \"Local\"");
	if (old && km_needs_health_port(old) && km_needs_health_port(service) &&
	    !km_is_same(service, old, "spec.healthCheckNodePort"))
		km_problem(call, KM_FORBIDDEN, STR("spec.healthCheckNodePort"), STR_EMPTY,
		           "field is immutable");
	if (!km_needs_health_port(service) && km_at(service, "spec.healthCheckNodePort"))
		km_problem(call, KM_INVALID, STR("spec.healthCheckNodePort"),
		           KM_FIELD(call, "%lld",
		                    (long long)km_number_at(service, "spec.healthCheckNodePort")),
		           "may only be set when `type` is 'LoadBalancer' and "
		           "`externalTrafficPolicy` is 'Local'");
}

static bool
km_is_known_type(yyjson_mut_val *service)
{
	return km_is_external(service) || km_is_type(service, "ClusterIP") ||
	       km_is_type(service, "ExternalName");
}

void
km_check_service(struct km_call *call, yyjson_mut_val *service, yyjson_mut_val *old)
{
	yyjson_mut_val *spec = km_at(service, "spec"), *ports = km_at(spec, "ports");
	struct str class = km_text_at(spec, "loadBalancerClass");

	if (!km_is_known_type(service))
		km_problem(call, KM_UNSUPPORTED, STR("spec.type"),
		           km_quote(call, km_text_at(spec, "type")),
		           "supported values: \"ClusterIP\", \"ExternalName\", \"LoadBalancer\", "
		           "\"NodePort\"");
	if (km_has_cluster_ip(service) && km_length(ports) == 0 &&
	    !str_eq_c(km_text_at(spec, "clusterIP"), "None"))
		km_problem(call, KM_REQUIRED, STR("spec.ports"), STR_EMPTY, "");
	for (size_t i = 0; i < km_length(ports); i++)
		km_check_port(call, ports, i);
	if (old && km_is_type(old, "LoadBalancer") && km_is_type(service, "LoadBalancer") &&
	    !km_is_same(service, old, "spec.loadBalancerClass"))
		km_problem(call, KM_INVALID, STR("spec.loadBalancerClass"),
		           class.len > 0 ? km_quote(call, class) : STR("null"),
		           "may not change once set");
	if (old && km_has_cluster_ip(old) && km_has_cluster_ip(service) &&
	    !km_is_same(service, old, "spec.clusterIPs"))
		km_problem(call, KM_INVALID, STR("spec.clusterIPs[0]"), STR("[]"),
		           "may not change once set");
	km_check_type(call, service);
	km_check_policy(call, service, old);
}

static void
km_check_ingress(struct km_call *call, yyjson_mut_val *one, size_t i)
{
	struct str ip = km_text_at(one, "ip"), host = km_text_at(one, "hostname");
	struct str mode = km_text_at(one, "ipMode");
	struct str field = KM_FIELD(call, "status.loadBalancer.ingress[%zu]", i);
	struct ip parsed;

	if (ip.len > 0 && !ip_parse(ip, &parsed))
		km_problem(call, KM_INVALID, KM_FIELD(call, "%s.ip", field.ptr), km_quote(call, ip),
		           "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
	if (mode.len > 0 && ip.len == 0)
		km_problem(call, KM_FORBIDDEN, KM_FIELD(call, "%s.ipMode", field.ptr), STR_EMPTY,
		           "may not be specified when `ip` is not set");
	else if (mode.len > 0 && !str_eq_c(mode, "VIP") && !str_eq_c(mode, "Proxy"))
		km_problem(call, KM_UNSUPPORTED, KM_FIELD(call, "%s.ipMode", field.ptr),
		           km_quote(call, mode), "supported values: \"Proxy\", \"VIP\"");
	if (host.len > 0 && !name_is_dns_subdomain(host))
		km_problem(call, KM_INVALID, KM_FIELD(call, "%s.hostname", field.ptr),
		           km_quote(call, host), "is no DNS name");
	if (host.len > 0 && ip_parse(host, &parsed))
		km_problem(call, KM_INVALID, KM_FIELD(call, "%s.hostname", field.ptr),
		           km_quote(call, host), "must be a DNS name, not an IP address");
}

void
km_check_service_status(struct km_call *call, yyjson_mut_val *service, yyjson_mut_val *old)
{
	yyjson_mut_val *ingress = km_at(service, "status.loadBalancer.ingress");

	(void)old;
	if (!km_is_type(service, "LoadBalancer") && km_length(ingress) > 0) {
		km_problem(call, KM_FORBIDDEN, STR("status.loadBalancer.ingress"), STR_EMPTY,
		           "may only be used when `spec.type` is 'LoadBalancer'");
		return;
	}
	for (size_t i = 0; i < km_length(ingress); i++)
		km_check_ingress(call, yyjson_mut_arr_get(ingress, i), i);
}
