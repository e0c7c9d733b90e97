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

/* "a" and the UID without dashes, up to 32 characters: the default name in upstream
 * (docs/spec/framework.md, "Load balancer names"). */
static struct str
default_name(struct str uid, struct arena *arena)
{
	char *name = arena_alloc(arena, MAX_NAME);
	size_t n = 0;

	name[n++] = 'a';
	for (size_t i = 0; i < uid.len && n < MAX_NAME; i++) {
		if (uid.ptr[i] != '-')
			name[n++] = uid.ptr[i];
	}
	return str_n(name, n);
}

static void
add_ports(struct lb_spec *spec, const struct service *s, struct arena *arena)
{
	struct lb_port *ports = arena_calloc(arena, s->n_ports, sizeof(*ports));

	for (uint32_t i = 0; i < s->n_ports; i++) {
		struct str protocol = s->ports[i].protocol;

		ports[i] = (struct lb_port){
			.name = s->ports[i].name,
			.app_protocol = s->ports[i].app_protocol,
			.protocol_text = protocol,
			.protocol = str_eq_c(protocol, "UDP")    ? LB_UDP
			            : str_eq_c(protocol, "SCTP") ? LB_SCTP
			                                         : LB_TCP,
			.port = s->ports[i].port,
			.node_port = s->ports[i].node_port,
		};
	}
	spec->ports = ports;
	spec->n_ports = s->n_ports;
}

/* The field decides; without it the annotation does. The texts are passed on unchecked: the
 * provider checks them (docs/spec/framework.md, "Source ranges"). */
static void
add_source_ranges(struct lb_spec *spec, const struct service *s, struct arena *arena)
{
	const struct str *annotation = service_annotation(s, STR(ANNOTATION_SOURCE_RANGES));
	struct str rest, part, *ranges;
	size_t n = 0;

	spec->source_ranges = s->source_ranges;
	spec->n_source_ranges = s->n_source_ranges;
	if (s->n_source_ranges > 0 || !annotation || str_trim(*annotation).len == 0)
		return;
	rest = str_trim(*annotation);
	ranges = arena_calloc(arena, rest.len + 1, sizeof(*ranges));
	while (str_split(&rest, ',', &part))
		ranges[n++] = str_trim(part);
	spec->source_ranges = ranges;
	spec->n_source_ranges = n;
}

static void
add_families(struct lb_spec *spec, const struct service *s, struct arena *arena)
{
	enum ip_family *families = arena_calloc(arena, s->n_families + 1, sizeof(*families));

	for (uint32_t i = 0; i < s->n_families; i++)
		families[i] = str_eq_c(s->families[i], "IPv6") ? IP_V6 : IP_V4;
	if (s->n_families == 0)
		families[0] = IP_V4;
	spec->families = families;
	spec->n_families = s->n_families > 0 ? s->n_families : 1;
	if (str_eq_c(s->family_policy, "RequireDualStack"))
		spec->family_policy = LB_REQUIRE_DUAL_STACK;
	else if (str_eq_c(s->family_policy, "PreferDualStack"))
		spec->family_policy = LB_PREFER_DUAL_STACK;
}

static void
add_status(struct lb_spec *spec, const struct service *s, struct arena *arena)
{
	struct lb_ingress *ingress = arena_calloc(arena, s->n_ingress, sizeof(*ingress));

	for (uint32_t i = 0; i < s->n_ingress; i++) {
		const struct service_ingress *from = &s->ingress[i];

		ingress[i] = (struct lb_ingress){
			.ip = from->ip,
			.hostname = from->hostname,
			.ip_mode = from->ip.len == 0                  ? LB_IP_MODE_NONE
			           : str_eq_c(from->ip_mode, "Proxy") ? LB_IP_MODE_PROXY
			                                              : LB_IP_MODE_VIP,
		};
	}
	spec->status = (struct lb_status){ ingress, s->n_ingress };
}

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
	struct lb_spec spec = {
		.cluster = str_c(cluster_name),
		.namespace = s->namespace,
		.service = s->name,
		.uid = s->object.uid,
		.name = default_name(s->object.uid, arena),
		.annotations = s->annotations,
		.n_annotations = s->n_annotations,
		.wanted_ip = s->load_balancer_ip,
		.traffic = str_eq_c(s->traffic_policy, "Local") ? LB_TRAFFIC_LOCAL
		                                                : LB_TRAFFIC_CLUSTER,
		.health_check_node_port = s->health_check_node_port,
		.has_client_ip_affinity = str_eq_c(s->session_affinity, "ClientIP"),
		.affinity_timeout_s = s->affinity_timeout_s,
		.is_leaving = s->is_deleting || !service_wants_balancer(s),
	};

	add_ports(&spec, s, arena);
	add_source_ranges(&spec, s, arena);
	add_families(&spec, s, arena);
	add_status(&spec, s, arena);
	return spec;
}
