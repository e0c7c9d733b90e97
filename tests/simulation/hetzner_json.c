/* hetzner_json.c: resources as the API shows them. hetzner_balancer_json.c has services and
 * targets. */
#include <assert.h>
#include <stdio.h>

#include "hetzner_internal.h"

#define INCLUDED_TRAFFIC (INT64_C(20) << 40)

const char *const hm_kind_names[HETZNER_N_KINDS] = {
	[HETZNER_SERVER] = "server",          [HETZNER_NETWORK] = "network",
	[HETZNER_BALANCER] = "load_balancer", [HETZNER_CERTIFICATE] = "certificate",
	[HETZNER_PRIMARY_IP] = "primary_ip",
};
const char *const hm_kind_plurals[HETZNER_N_KINDS] = {
	[HETZNER_SERVER] = "servers",          [HETZNER_NETWORK] = "networks",
	[HETZNER_BALANCER] = "load_balancers", [HETZNER_CERTIFICATE] = "certificates",
	[HETZNER_PRIMARY_IP] = "primary_ips",
};

/* ---- small things ---- */

static void
hm_add_null(struct buf *b, const char *name)
{
	json_add_raw(b, name, STR("null"));
}

void
hm_add_text_or_null(struct buf *b, const char *name, struct str text)
{
	if (text.ptr)
		json_add_text(b, name, text);
	else
		hm_add_null(b, name);
}

/* "2026-01-02T03:04:05+00:00" */
void
hm_add_stamp(struct buf *b, const char *name, int64_t wall_ns)
{
	char array[64] = "";
	struct buf stamp = BUF_FIXED(array);

	if (wall_ns == 0) {
		hm_add_null(b, name);
		return;
	}
	clock_format_rfc3339(&stamp, wall_ns, false);
	buf_truncate(&stamp, stamp.len - 1);
	buf_add_c(&stamp, "+00:00");
	json_add_text(b, name, buf_str(&stamp));
}

static void
hm_add_common(struct buf *b, const struct hetzner_resource *resource)
{
	json_add_number(b, "id", resource->id);
	json_add_text(b, "name", resource->name);
	json_begin_object(b, "labels");
	for (size_t i = 0; i < resource->n_labels; i++) {
		json_add_name(b, resource->labels[i].key);
		json_add_text(b, NULL, resource->labels[i].value);
	}
	json_end_object(b);
	hm_add_stamp(b, "created", resource->created_ns);
}

static void
hm_add_traffic(struct buf *b)
{
	json_add_number(b, "included_traffic", INCLUDED_TRAFFIC);
	json_add_number(b, "outgoing_traffic", 0);
	json_add_number(b, "ingoing_traffic", 0);
}

/* ---- the catalog ---- */

void
hm_add_location(struct buf *b, const char *name, const struct hetzner_location *location)
{
	json_begin_object(b, name);
	json_add_number(b, "id", location->id);
	json_add_text(b, "name", str_c(location->name));
	json_add_text(b, "description", str_c(location->description));
	json_add_text(b, "country", str_c(location->country));
	json_add_text(b, "city", str_c(location->city));
	json_add_raw(b, "latitude", str_c(location->latitude));
	json_add_raw(b, "longitude", str_c(location->longitude));
	json_add_text(b, "network_zone", str_c(location->zone));
	json_end_object(b);
}

static void
hm_add_price(struct buf *b, const char *name, double price)
{
	char text[32];

	snprintf(text, sizeof(text), "%.4f", price);
	json_begin_object(b, name);
	json_add_text(b, "net", str_c(text));
	json_add_text(b, "gross", str_c(text));
	json_end_object(b);
}

/* The same everywhere. Most answers contain prices, so each text is made once. */
static void
hm_add_prices(struct buf *b, double monthly)
{
	static struct {
		double monthly;
		struct buf text;
	} made[8];
	struct buf *text;
	size_t k = 0;

	while (made[k].text.len > 0 && made[k].monthly != monthly)
		k++;
	assert(k + 1 < ARRAY_LEN(made));
	text = &made[k].text;
	made[k].monthly = monthly;
	if (text->len == 0) {
		*text = (struct buf)BUF_INIT(1 << 20);
		for (size_t i = 0; i < HM_N_LOCATIONS; i++) {
			json_begin_object(text, NULL);
			json_add_text(text, "location", str_c(hm_locations[i].name));
			hm_add_price(text, "price_hourly", monthly / 720);
			hm_add_price(text, "price_monthly", monthly);
			json_add_number(text, "included_traffic", INCLUDED_TRAFFIC);
			hm_add_price(text, "price_per_tb_traffic", 1);
			json_end_object(text);
		}
	}
	json_begin_array(b, "prices");
	buf_add_str(b, buf_str(text));
	json_end_array(b);
}

/* "CX22" for "cx22" */
static void
hm_add_upper(struct buf *b, const char *name, const char *text)
{
	char upper[16] = "";

	for (size_t i = 0; i + 1 < sizeof(upper) && text[i]; i++)
		upper[i] = (char)(text[i] >= 'a' && text[i] <= 'z' ? text[i] - 'a' + 'A' : text[i]);
	json_add_text(b, name, str_c(upper));
}

void
hm_add_balancer_type(struct buf *b, const char *name, const struct hetzner_balancer_type *type)
{
	json_begin_object(b, name);
	json_add_number(b, "id", type->id);
	json_add_text(b, "name", str_c(type->name));
	hm_add_upper(b, "description", type->name);
	json_add_number(b, "max_connections", type->max_connections);
	json_add_number(b, "max_services", type->max_services);
	json_add_number(b, "max_targets", type->max_targets);
	json_add_number(b, "max_assigned_certificates", type->max_certificates);
	hm_add_prices(b, type->price);
	hm_add_null(b, "deprecated");
	if (type->unavailable_ns == 0) {
		hm_add_null(b, "deprecation");
	} else {
		json_begin_object(b, "deprecation");
		hm_add_stamp(b, "announced", type->announced_ns);
		hm_add_stamp(b, "unavailable_after", type->unavailable_ns);
		json_end_object(b);
	}
	json_end_object(b);
}

static void
hm_add_type_locations(struct buf *b)
{
	static struct buf text; /* it never changes */

	if (text.len == 0) {
		text = (struct buf)BUF_INIT(1 << 20);
		for (size_t i = 0; i < HM_N_LOCATIONS; i++) {
			json_begin_object(&text, NULL);
			json_add_number(&text, "id", hm_locations[i].id);
			json_add_text(&text, "name", str_c(hm_locations[i].name));
			hm_add_null(&text, "deprecation");
			json_add_flag(&text, "available", true);
			json_add_flag(&text, "recommended", true);
			json_end_object(&text);
		}
	}
	json_begin_array(b, "locations");
	buf_add_str(b, buf_str(&text));
	json_end_array(b);
}

void
hm_add_server_type(struct buf *b, const char *name, const struct hetzner_server_type *type)
{
	json_begin_object(b, name);
	json_add_number(b, "id", type->id);
	json_add_text(b, "name", str_c(type->name));
	hm_add_upper(b, "description", type->name);
	json_add_text(b, "category", STR("Shared vCPU"));
	json_add_number(b, "cores", type->cores);
	json_add_number(b, "memory", type->memory_gb);
	json_add_number(b, "disk", type->disk_gb);
	hm_add_prices(b, type->price);
	json_add_text(b, "storage_type", STR("local"));
	json_add_text(b, "cpu_type", STR("shared"));
	json_add_text(b, "architecture", str_c(type->architecture));
	json_add_flag(b, "deprecated", false);
	hm_add_null(b, "deprecation");
	hm_add_type_locations(b);
	json_end_object(b);
}

/* Every server has the same image. */
void
hm_add_image(struct buf *b, const char *name)
{
	json_add_raw(b, name,
	             STR("{\"id\":114690387,\"type\":\"system\",\"status\":\"available\","
	                 "\"name\":\"debian-12\",\"description\":\"debian-12\","
	                 "\"image_size\":null,\"disk_size\":5,"
	                 "\"created\":\"2025-08-10T09:00:00+00:00\",\"created_from\":null,"
	                 "\"bound_to\":null,\"os_flavor\":\"debian\",\"os_version\":\"12\","
	                 "\"rapid_deploy\":true,\"protection\":{\"delete\":false},"
	                 "\"deprecated\":null,\"deleted\":null,\"labels\":{},"
	                 "\"architecture\":\"x86\"}"));
}

/* ---- servers ---- */

static void
hm_add_ipv4(struct buf *b, const struct hetzner_server *server)
{
	char reverse[64];
	struct ip ip;

	if (!server->ipv4.ptr || !ip_parse(server->ipv4, &ip)) {
		hm_add_null(b, "ipv4");
		return;
	}
	snprintf(reverse, sizeof(reverse), "static.%d.%d.%d.%d.clients.your-server.de",
	         ip.bytes[15], ip.bytes[14], ip.bytes[13], ip.bytes[12]);
	json_begin_object(b, "ipv4");
	json_add_number(b, "id", server->base.id + 1);
	json_add_text(b, "ip", server->ipv4);
	json_add_flag(b, "blocked", false);
	json_add_text(b, "dns_ptr", str_c(reverse));
	json_end_object(b);
}

static void
hm_add_public_net(struct buf *b, const struct hetzner_server *server)
{
	json_begin_object(b, "public_net");
	hm_add_ipv4(b, server);
	if (server->ipv6.ptr) {
		json_begin_object(b, "ipv6");
		json_add_number(b, "id", server->base.id + 2);
		json_add_text(b, "ip", server->ipv6);
		json_add_flag(b, "blocked", false);
		json_add_raw(b, "dns_ptr", STR("[]"));
		json_end_object(b);
	} else {
		hm_add_null(b, "ipv6");
	}
	json_add_raw(b, "floating_ips", STR("[]"));
	json_add_raw(b, "firewalls", STR("[]"));
	json_end_object(b);
}

static void
hm_add_private_nets(struct buf *b, const struct hetzner_server *server)
{
	unsigned tail = (unsigned)server->base.id & 0xffffff;
	char mac[32];

	snprintf(mac, sizeof(mac), "86:00:00:%02x:%02x:%02x", tail >> 16, tail >> 8 & 255,
	         tail & 255);
	json_begin_array(b, "private_net");
	for (size_t i = 0; i < server->n_networks; i++) {
		json_begin_object(b, NULL);
		json_add_number(b, "network", server->networks[i].network);
		json_add_text(b, "ip", server->networks[i].ip);
		json_add_raw(b, "alias_ips", STR("[]"));
		json_add_text(b, "mac_address", str_c(mac));
		json_end_object(b);
	}
	json_end_array(b);
}

static bool
hm_has_server(const struct hetzner_balancer *lb, int64_t server)
{
	for (size_t i = 0; i < lb->n_targets; i++) {
		if (lb->targets[i].type == HETZNER_TARGET_SERVER && lb->targets[i].server == server)
			return true;
	}
	return false;
}

static void
hm_add_server(const struct hm_project *p, struct buf *b, const struct hetzner_server *server)
{
	json_add_text(b, "status", server->status);
	hm_add_public_net(b, server);
	hm_add_private_nets(b, server);
	hm_add_server_type(b, "server_type", server->type);
	hm_add_location(b, "location", server->location);
	hm_add_image(b, "image");
	hm_add_null(b, "iso");
	json_add_flag(b, "rescue_enabled", false);
	json_add_flag(b, "locked", hm_is_busy(p, &server->base));
	hm_add_null(b, "backup_window");
	hm_add_traffic(b);
	json_begin_object(b, "protection");
	json_add_flag(b, "delete", server->base.is_protected);
	json_add_flag(b, "rebuild", false);
	json_end_object(b);
	json_add_raw(b, "volumes", STR("[]"));
	json_begin_array(b, "load_balancers");
	for (size_t i = 0; i < p->base.n_of[HETZNER_BALANCER]; i++) {
		if (hm_has_server(HETZNER_BALANCER_AT(&p->base, i), server->base.id))
			json_add_number(b, NULL, HETZNER_BALANCER_AT(&p->base, i)->base.id);
	}
	json_end_array(b);
	json_add_number(b, "primary_disk_size", server->type->disk_gb);
	hm_add_null(b, "placement_group");
}

/* ---- networks ---- */

static void
hm_add_members(const struct hm_project *p, struct buf *b, const struct hetzner_network *network)
{
	json_begin_array(b, "servers");
	for (size_t i = 0; i < p->base.n_of[HETZNER_SERVER]; i++) {
		const struct hetzner_server *one = HETZNER_SERVER_AT(&p->base, i);

		if (hm_member_of(one->networks, one->n_networks, network->base.id))
			json_add_number(b, NULL, one->base.id);
	}
	json_end_array(b);
	json_begin_array(b, "load_balancers");
	for (size_t i = 0; i < p->base.n_of[HETZNER_BALANCER]; i++) {
		const struct hetzner_balancer *one = HETZNER_BALANCER_AT(&p->base, i);

		if (hm_member_of(one->networks, one->n_networks, network->base.id))
			json_add_number(b, NULL, one->base.id);
	}
	json_end_array(b);
}

static void
hm_add_network(const struct hm_project *p, struct buf *b, const struct hetzner_network *network)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;

	json_add_text(b, "ip_range", network->ip_range);
	json_begin_array(b, "subnets");
	for (size_t i = 0; i < network->n_subnets; i++) {
		json_begin_object(b, NULL);
		json_add_text(b, "type", network->subnets[i].type);
		json_add_text(b, "ip_range", network->subnets[i].ip_range);
		json_add_text(b, "network_zone", network->subnets[i].zone);
		json_add_text(b, "gateway", hm_ipv4_text(&arena, hm_gateway(network)));
		hm_add_null(b, "vswitch_id");
		json_end_object(b);
	}
	json_end_array(b);
	json_begin_array(b, "routes");
	for (size_t i = 0; i < network->n_routes; i++) {
		json_begin_object(b, NULL);
		json_add_text(b, "destination", network->routes[i].destination);
		json_add_text(b, "gateway", network->routes[i].gateway);
		json_end_object(b);
	}
	json_end_array(b);
	hm_add_members(p, b, network);
	json_begin_object(b, "protection");
	json_add_flag(b, "delete", network->base.is_protected);
	json_end_object(b);
	json_add_flag(b, "expose_routes_to_vswitch", false);
}

/* ---- certificates ---- */

static bool
hm_uses(const struct hetzner_balancer *lb, int64_t certificate)
{
	for (size_t i = 0; i < lb->n_services; i++) {
		for (size_t k = 0; k < lb->services[i].n_certificates; k++) {
			if (lb->services[i].certificates[k] == certificate)
				return true;
		}
	}
	return false;
}

static void
hm_add_certificate(const struct hm_project *p, struct buf *b, const struct hetzner_certificate *one)
{
	bool is_issued = str_eq_c(one->issuance, "completed");

	json_add_text(b, "type", one->is_managed ? STR("managed") : STR("uploaded"));
	hm_add_null(b, "certificate");
	hm_add_null(b, "fingerprint");
	hm_add_stamp(b, "not_valid_before", one->valid_from_ns);
	hm_add_stamp(b, "not_valid_after", one->valid_to_ns);
	json_add_texts(b, "domain_names", one->domains, one->n_domains);
	json_begin_object(b, "status");
	json_add_text(b, "issuance", one->issuance);
	json_add_text(b, "renewal", is_issued ? STR("scheduled") : STR("unavailable"));
	hm_add_null(b, "error");
	json_end_object(b);
	json_begin_array(b, "used_by");
	for (size_t i = 0; i < p->base.n_of[HETZNER_BALANCER]; i++) {
		const struct hetzner_balancer *lb = HETZNER_BALANCER_AT(&p->base, i);

		if (!hm_uses(lb, one->base.id))
			continue;
		json_begin_object(b, NULL);
		json_add_number(b, "id", lb->base.id);
		json_add_text(b, "type", STR("load_balancer"));
		json_end_object(b);
	}
	json_end_array(b);
}

/* ---- balancers ---- */

static void
hm_add_end(const struct hm_project *p, struct buf *b, const char *name, struct str ip,
           struct str dns_ptr, int64_t id)
{
	json_begin_object(b, name);
	hm_add_text_or_null(b, "ip", ip);
	hm_add_text_or_null(b, "dns_ptr", dns_ptr);
	if (!p->settings->refuses_primary_ips) {
		if (id > 0)
			json_add_number(b, "id", id);
		else
			hm_add_null(b, "id");
		json_add_flag(b, "blocked", hm_is_blocked(p, id));
	}
	json_end_object(b);
}

static void
hm_add_balancer(const struct hm_project *p, struct buf *b, const struct hetzner_balancer *lb)
{
	hm_add_location(b, "location", lb->location);
	hm_add_balancer_type(b, "load_balancer_type", lb->type);
	json_begin_object(b, "algorithm");
	json_add_text(b, "type", lb->algorithm);
	json_end_object(b);
	json_begin_object(b, "protection");
	json_add_flag(b, "delete", lb->base.is_protected);
	json_end_object(b);
	json_begin_object(b, "public_net");
	json_add_flag(b, "enabled", lb->is_public);
	hm_add_end(p, b, "ipv4", lb->ipv4, lb->ipv4_ptr, lb->ipv4_id);
	hm_add_end(p, b, "ipv6", lb->ipv6, lb->ipv6_ptr, lb->ipv6_id);
	json_end_object(b);
	json_begin_array(b, "private_net");
	for (size_t i = 0; i < lb->n_networks; i++) {
		json_begin_object(b, NULL);
		json_add_number(b, "network", lb->networks[i].network);
		json_add_text(b, "ip", lb->networks[i].ip);
		json_end_object(b);
	}
	json_end_array(b);
	hm_add_services(b, lb);
	hm_add_targets(p, b, lb);
	hm_add_traffic(b);
}

/* ---- any resource ---- */

void
hm_add_resource_json(const struct hm_project *p, struct buf *b, const char *name,
                     const struct hetzner_resource *resource)
{
	json_begin_object(b, name);
	hm_add_common(b, resource);
	switch (resource->kind) {
	case HETZNER_SERVER:
		hm_add_server(p, b, (const struct hetzner_server *)resource);
		break;
	case HETZNER_NETWORK:
		hm_add_network(p, b, (const struct hetzner_network *)resource);
		break;
	case HETZNER_BALANCER:
		hm_add_balancer(p, b, (const struct hetzner_balancer *)resource);
		break;
	case HETZNER_CERTIFICATE:
		hm_add_certificate(p, b, (const struct hetzner_certificate *)resource);
		break;
	case HETZNER_PRIMARY_IP:
		hm_add_primary_ip(b, (const struct hetzner_primary_ip *)resource);
		break;
	case HETZNER_N_KINDS:
		abort();
	}
	json_end_object(b);
}
