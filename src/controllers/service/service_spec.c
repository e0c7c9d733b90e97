/* controllers/service/service_spec.c: a Service as a provider sees it (cloud/balancer.h).
 *
 * Defaults that the API server fills in are filled in here as well, so that a provider never has to
 * distinguish an empty field from its default.
 */
#include "controllers/service/service_internal.h"

#define ANNOTATION_SOURCE_RANGES "service.beta.kubernetes.io/load-balancer-source-ranges"

enum {
	MAX_NAME = 32,
};

struct service_kind
service_kind_of(const struct cloud *cloud)
{
	static const char *const framework[] = { ANNOTATION_SOURCE_RANGES, LB_ANNOTATION_GONE,
		                                 NULL };
	struct service_kind kind = service_kind;

	if (cloud->balancers && cloud->balancers->annotation_prefix) {
		kind.annotations = framework;
		kind.cloud_annotations = cloud->balancers->other_annotations;
		kind.annotation_prefix = cloud->balancers->annotation_prefix;
	}
	return kind;
}

struct lb_spec
service_spec(const struct service *s, const char *cluster_name, struct arena *arena)
{
	const struct str *annotation = service_annotation(s, STR(ANNOTATION_SOURCE_RANGES));
	struct lb_port *ports = arena_calloc(arena, s->n_ports, sizeof(*ports));
	enum ip_family *families = arena_calloc(arena, s->n_families + 1, sizeof(*families));
	struct lb_ingress *status = arena_calloc(arena, s->n_ingress, sizeof(*status));
	struct str uid = s->object.uid, rest, part, *ranges;
	char *name = arena_alloc(arena, MAX_NAME);
	size_t n = 0;
	struct lb_spec spec = {
		.cluster = str_c(cluster_name),
		.namespace = s->namespace,
		.service = s->name,
		.uid = uid,
		.annotations = s->annotations,
		.n_annotations = s->n_annotations,
		.ports = ports,
		.n_ports = s->n_ports,
		.source_ranges = s->source_ranges,
		.n_source_ranges = s->n_source_ranges,
		.families = families,
		.n_families = s->n_families > 0 ? s->n_families : 1,
		.family_policy = str_eq_c(s->family_policy, "RequireDualStack")
		                         ? LB_REQUIRE_DUAL_STACK
		                 : str_eq_c(s->family_policy, "PreferDualStack")
		                         ? LB_PREFER_DUAL_STACK
		                         : LB_SINGLE_STACK,
		.wanted_ip = s->load_balancer_ip,
		.traffic = str_eq_c(s->traffic_policy, "Local") ? LB_TRAFFIC_LOCAL
		                                                : LB_TRAFFIC_CLUSTER,
		.health_check_node_port = s->health_check_node_port,
		.has_client_ip_affinity = str_eq_c(s->session_affinity, "ClientIP"),
		.affinity_timeout_s = s->affinity_timeout_s,
		.status = { status, s->n_ingress },
		.is_leaving = s->is_deleting || !service_wants_balancer(s),
	};

	/* The default name in upstream: "a" and the UID without dashes, up to 32 characters
	 * (docs/spec/framework.md, "Load balancer names"). */
	name[n++] = 'a';
	for (size_t i = 0; i < uid.len && n < MAX_NAME; i++) {
		if (uid.ptr[i] != '-')
			name[n++] = uid.ptr[i];
	}
	spec.name = str_n(name, n);

	for (uint32_t i = 0; i < s->n_ports; i++) {
		const struct service_port *port = &s->ports[i];

		ports[i] = (struct lb_port){
			.name = port->name,
			.app_protocol = port->app_protocol,
			.protocol_text = port->protocol,
			.protocol = str_eq_c(port->protocol, "UDP")    ? LB_UDP
			            : str_eq_c(port->protocol, "SCTP") ? LB_SCTP
			                                               : LB_TCP,
			.port = port->port,
			.node_port = port->node_port,
		};
	}

	/* The field decides; without it the annotation does. The texts are passed on unchecked: the
	 * provider checks them (docs/spec/framework.md, "Source ranges"). */
	rest = annotation && s->n_source_ranges == 0 ? str_trim(*annotation) : STR_EMPTY;
	if (rest.len > 0) {
		ranges = arena_calloc(arena, rest.len + 1, sizeof(*ranges));
		spec.source_ranges = ranges;
		while (str_split(&rest, ',', &part))
			ranges[spec.n_source_ranges++] = str_trim(part);
	}

	families[0] = IP_V4;
	for (uint32_t i = 0; i < s->n_families; i++)
		families[i] = str_eq_c(s->families[i], "IPv6") ? IP_V6 : IP_V4;

	for (uint32_t i = 0; i < s->n_ingress; i++) {
		const struct service_ingress *from = &s->ingress[i];

		status[i] = (struct lb_ingress){ .ip = from->ip, .hostname = from->hostname };
		if (from->ip.len > 0)
			status[i].ip_mode = str_eq_c(from->ip_mode, "Proxy") ? LB_IP_MODE_PROXY
			                                                     : LB_IP_MODE_VIP;
	}
	return spec;
}
