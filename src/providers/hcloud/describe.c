/* describe.c: see describe.h.
 *
 * A description is built from a server as the API sends it, the configuration, and, for some
 * addresses, the node as it is now. The order of the addresses is that of the official controller
 * (docs/spec/hcloud.md, "Machine addresses"), so that a node does not change when one controller
 * replaces the other.
 */
#include "providers/hcloud/describe.h"

#include "base/event_kind.h"
#include "base/ip.h"
#include "base/names.h"
#include "providers/hcloud/client.h"

EVENT_KIND(
	internal_ip_event, HZ_COMPONENT, "MisconfiguredInternalIP", true, "Node",
	"hcloud: an InternalIP that the kubelet of a dedicated server reports is not kept, because its family is not configured or the address is an ExternalIP as well.");

enum {
	ADDRESSES_MAX = 4, /* of a cloud server: name, IPv4, IPv6, private address */
};

/* The addresses collected so far. The caller has allocated room for all of them. */
struct addresses {
	struct arena *arena;
	struct address *items;
	size_t n;
};

static void
hz_describe_add_address(struct addresses *a, struct str type, struct str address)
{
	if (address.len > 0)
		a->items[a->n++] = (struct address){ type, arena_str(a->arena, address) };
}

static void
hz_describe_set_label(const struct hcloud *hz, struct arena *arena, struct str value,
                      struct instance *ret)
{
	struct label *label = ARENA_NEW(arena, struct label);

	*label = (struct label){ STR("instance.hetzner.cloud/provided-by"), value };
	ret->labels = label;
	ret->n_labels = hz->config->dialect->is_tutorial ? 0 : 1;
}

/* ---- servers of the cloud ---- */

/* Returns the data centre of a location, which nodes of existing clusters have in the label of
 * their zone. The API no longer names data centres, hence the table (docs/spec/hcloud.md, "Machine
 * type and place"). */
static struct str
hz_describe_zone_of(struct str location)
{
	static const struct {
		const char *location, *zone;
	} known[] = {
		{ "nbg1", "nbg1-dc3" }, { "hel1", "hel1-dc2" }, { "fsn1", "fsn1-dc14" },
		{ "ash", "ash-dc1" },   { "hil", "hil-dc1" },   { "sin", "sin-dc1" },
	};

	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		if (str_eq_c(location, known[i].location))
			return str_c(known[i].zone);
	}
	return location;
}

/* An annotation of the node replaces the IPv6 address (docs/spec/hcloud.md, "Machine addresses").
 * Returns false if the node has no such annotation, or its value is not a usable address. */
static bool
hz_describe_annotated_ipv6(const struct hcloud *hz, const struct node_ref *ref, struct ip *ret)
{
	for (size_t i = 0; !hz->config->dialect->is_tutorial && i < ref->n_annotations; i++) {
		if (str_eq_c(ref->annotations[i].key, HZ_ANNOTATION_IPV6))
			return ip_parse(ref->annotations[i].value, ret) &&
			       ip_family(ret) == IP_V6 && !ip_is_unspecified(ret);
	}
	return false;
}

static enum power
hz_describe_power_of(const struct hz_dialect *dialect, struct str status)
{
	if (status.len == 0)
		return POWER_UNKNOWN;
	if (dialect->is_off_unless_running)
		return str_eq_c(status, "running") ? POWER_ON : POWER_OFF;
	return str_eq_c(status, "off") ? POWER_OFF : POWER_ON;
}

void
hz_describe_cloud(const struct hcloud *hz, struct arena *arena, const struct node_ref *ref,
                  const struct hz_server *server, struct instance *ret)
{
	const struct hz_dialect *dialect = hz->config->dialect;
	struct str region = server->location, zone = hz_describe_zone_of(server->location);
	struct addresses a = { .arena = arena };
	bool has_ipv6 = (hz->config->families & HZ_IPV6) != 0;
	struct ip_net net;
	struct ip ip;

	if (dialect->has_wide_regions) {
		region = server->network_zone;
		zone = server->location;
	}
	*ret = (struct instance){
		.presence = PRESENCE_PRESENT,
		.power = hz_describe_power_of(dialect, server->status),
		.realm = HZ_REALM_CLOUD,
		.error = STR_EMPTY,
		.provider_id = hz_id_text(arena, dialect, (struct hz_id){ HZ_CLOUD, server->id }),
		.type = arena_str(arena, server->type),
		.region = arena_str(arena, region),
		.zone = hz->config->has_zone_label ? arena_str(arena, zone) : STR_EMPTY,
	};
	hz_describe_set_label(hz, arena, STR("cloud"), ret);

	a.items = arena_calloc(arena, ADDRESSES_MAX, sizeof(*a.items));
	hz_describe_add_address(&a, STR("Hostname"), server->name);
	if ((hz->config->families & HZ_IPV4) && ip_parse(server->ipv4, &ip) &&
	    !ip_is_unspecified(&ip))
		hz_describe_add_address(&a, STR("ExternalIP"), server->ipv4);
	if (has_ipv6 && hz_describe_annotated_ipv6(hz, ref, &ip)) {
		hz_describe_add_address(&a, STR("ExternalIP"), ip_text(arena, &ip));
	} else if (has_ipv6 && ip_net_parse(server->ipv6, &net) && !ip_is_unspecified(&net.ip)) {
		/* The API names the server's network. The server has its first host address; the
		 * tutorial's controller uses the base address. */
		if (!dialect->has_all_families)
			net.ip.bytes[15] |= 1;
		hz_describe_add_address(&a, STR("ExternalIP"), ip_text(arena, &net.ip));
	}
	hz_describe_add_address(&a, STR("InternalIP"),
	                        hz_address_in(&server->private_nets, hz->network));
	ret->addresses = a.items;
	ret->n_addresses = a.n;
}

/* ---- dedicated servers ---- */

/* Returns the product as the value of a label, which permits no blanks and few other characters:
 * "Robot Server™ 1" becomes "Robot-Server-1". */
static struct str
hz_describe_type_of(struct arena *arena, struct str product)
{
	char *copy = arena_strz(arena, product);
	size_t n = 0;

	for (size_t i = 0; i < product.len; i++) {
		char c = product.ptr[i] == ' ' ? '-' : product.ptr[i];

		if (char_is_alnum(c) || char_is_in(c, "_.-"))
			copy[n++] = c;
	}
	return str_n(copy, n);
}

/* Returns why an InternalIP that the kubelet reports is left out, or NULL if it is kept. */
static const char *
hz_describe_problem_with(const struct hcloud *hz, const struct addresses *a, struct str text)
{
	struct ip ip;
	bool is_v4 = ip_parse(text, &ip) && ip_family(&ip) == IP_V4;

	if (is_v4 && hz->config->families == HZ_IPV6)
		return "is IPv4 even though IPv6 only is configured";
	if (!is_v4 && hz->config->families == HZ_IPV4)
		return "is IPv6 even though IPv4 only is configured";
	for (size_t i = 0; i < a->n; i++) {
		if (str_eq(a->items[i].address, text))
			return "already exists as an ExternalIP";
	}
	return NULL;
}

static void
hz_describe_forward_internal(const struct hcloud *hz, struct addresses *a,
                             const struct node_ref *ref)
{
	for (size_t i = 0; i < ref->n_addresses; i++) {
		struct str text = ref->addresses[i].address;
		const char *problem;

		if (!str_eq_c(ref->addresses[i].type, "InternalIP"))
			continue;
		problem = hz_describe_problem_with(hz, a, text);
		if (!problem)
			hz_describe_add_address(a, STR("InternalIP"), text);
		else
			host_report(hz->host, ref, &internal_ip_event,
			            "Configured InternalIP %s. As a result, %" STR_FMT
			            " is not added as an InternalIP",
			            problem, STR_ARG(text));
	}
}

void
hz_describe_robot(const struct hcloud *hz, struct arena *arena, const struct node_ref *ref,
                  const struct hz_robot_server *server, struct instance *ret)
{
	struct addresses a = { .arena = arena };
	bool has_ipv6 = (hz->config->families & HZ_IPV6) != 0;
	struct str rest;
	struct ip ip;

	*ret = (struct instance){
		.presence = PRESENCE_PRESENT,
		.realm = HZ_REALM_ROBOT,
		.error = STR_EMPTY,
		.provider_id = hz_id_text(arena, hz->config->dialect,
		                          (struct hz_id){ HZ_ROBOT, server->number }),
		.type = hz_describe_type_of(arena, server->product),
		.zone = arena_lower(arena, server->dc),
	};
	if (!str_cut(ret->zone, '-', &ret->region, &rest))
		ret->region = ret->zone;
	hz_describe_set_label(hz, arena, STR("robot"), ret);
	a.items = arena_calloc(arena, 3 + ref->n_addresses, sizeof(*a.items));
	hz_describe_add_address(&a, STR("Hostname"), server->name);
	if (has_ipv6 && hz_describe_annotated_ipv6(hz, ref, &ip)) {
		hz_describe_add_address(&a, STR("ExternalIP"), ip_text(arena, &ip));
	} else if (has_ipv6 && server->ipv6_net.len > 0) {
		/* Robot names the network, "2a01:4f8:111:4221::". The server has the first host
		 * address of it, which is this text with the digit 1 behind it. */
		hz_describe_add_address(&a, STR("ExternalIP"),
		                        arena_printf(arena, "%" STR_FMT "1",
		                                     STR_ARG(server->ipv6_net)));
	}
	if (hz->config->families & HZ_IPV4)
		hz_describe_add_address(&a, STR("ExternalIP"), server->ipv4);
	if (hz->config->forwards_internal_ips)
		hz_describe_forward_internal(hz, &a, ref);
	ret->addresses = a.items;
	ret->n_addresses = a.n;
}
