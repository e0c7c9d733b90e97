/* servers.c: see servers.h. */
#include "providers/brightbox/servers.h"

#include "base/ip.h"
#include "base/buf.h"
#include "base/words.h"
#include "providers/brightbox/brightbox.h"

enum {
	IP_TEXT_BYTES = 64,
};

static const char *const states[] = { "creating", "active", "inactive",    "deleting",
	                              "deleted",  "failed", "unavailable", NULL };

bool
bb_server_exists(const struct bb_server *server)
{
	return !str_eq_c(server->status, "deleted") && !str_eq_c(server->status, "failed");
}

/* ---- addresses ---- */

/* Adds the address in its canonical spelling. whose: "Server has invalid IPv4 address: srv-aaaaa".
 */
static bool
bb_add_ip(struct arena *arena, struct instance *instance, struct address *addresses,
          struct str text, enum ip_family family, const char *whose, struct str id,
          struct error *err)
{
	char memory[IP_TEXT_BYTES] = "";
	struct buf canonical = BUF_FIXED(memory);
	struct ip ip;

	if (!ip_parse(text, &ip))
		return err_set(err, ERR_UNAVAILABLE,
		               "%s has invalid IPv%d address: %" STR_FMT " (%s)", whose,
		               (int)family, STR_ARG(id), quote_z(arena, text));
	ip_format(&canonical, &ip);
	addresses[instance->n_addresses++] = (struct address){
		STR("ExternalIP"),
		arena_str(arena, buf_str(&canonical)),
	};
	return true;
}

static void
bb_add_name(struct instance *instance, struct address *addresses, const char *type, struct str name)
{
	if (name.len > 0)
		addresses[instance->n_addresses++] = (struct address){ str_c(type), name };
}

/* The official controller's order, which its users see. Interface addresses are private and count
 * as external ones there, too. */
static bool
bb_add_addresses(const struct bb_server *server, struct arena *arena, struct instance *instance,
                 struct error *err)
{
	struct address *addresses = arena_calloc(arena,
	                                         2 + 2 * server->n_interfaces +
	                                                 2 * server->n_cloud_ips,
	                                         sizeof(*addresses));

	instance->addresses = addresses;
	bb_add_name(instance, addresses, "Hostname", server->hostname);
	bb_add_name(instance, addresses, "ExternalDNS", server->fqdn);
	for (size_t i = 0; i < server->n_interfaces; i++) {
		const struct bb_interface *one = &server->interfaces[i];

		if (!bb_add_ip(arena, instance, addresses, one->ipv4, IP_V4, "Server", server->id,
		               err) ||
		    !bb_add_ip(arena, instance, addresses, one->ipv6, IP_V6, "Server", server->id,
		               err))
			return false;
	}
	for (size_t i = 0; i < server->n_cloud_ips; i++) {
		const struct bb_server_cloud_ip *one = &server->cloud_ips[i];

		if (!bb_add_ip(arena, instance, addresses, one->public_ip, IP_V4, "Cloud IP",
		               one->id, err))
			return false;
		bb_add_name(instance, addresses, "ExternalDNS", one->fqdn);
	}
	return true;
}

/* ---- a server ---- */

/* The region is the zone without its last part: "gb1" of "gb1-a". */
static bool
bb_region(struct str zone, struct str *ret, struct error *err)
{
	struct str last;

	if (!str_cut_last(zone, '-', ret, &last))
		return err_set(err, ERR_UNAVAILABLE, "unexpected zone: %" STR_FMT, STR_ARG(zone));
	return true;
}

bool
bb_server_describe(const struct bb_server *server, struct arena *arena, struct machine *ret,
                   struct error *err)
{
	bool is_off = str_eq_c(server->status, "inactive") ||
	              str_eq_c(server->status, "unavailable");

	*ret = (struct machine){
		.id = server->id,
		.name = server->id,
		.instance = {
			.power = is_off ? POWER_OFF : POWER_ON,
			.type = server->type,
			.zone = server->zone,
			.region = STR_EMPTY,
		},
	};
	if (!words_have(states, server->status))
		return err_set(err, ERR_UNAVAILABLE,
		               "Instance %" STR_FMT ": Unrecognised status %s", STR_ARG(server->id),
		               quote_z(arena, server->status));
	if (!bb_add_addresses(server, arena, &ret->instance, err))
		return false;
	if (server->zone.len == 0 || server->type.len == 0)
		return err_set(err, ERR_UNAVAILABLE, "server %" STR_FMT " has no %s",
		               STR_ARG(server->id), server->zone.len == 0 ? "zone" : "server type");
	return bb_region(server->zone, &ret->instance.region, err);
}

bool
bb_servers_get(struct cloud *cloud, struct call *call, struct str id, struct machine *ret,
               struct error *err)
{
	struct bb_server server;

	if (!bb_get_server(brightbox_of(cloud)->client, call, id, &server, err))
		return false;
	if (!bb_server_exists(&server)) {
		call->answers.is_absent = true;
		return err_set(err, ERR_NOT_FOUND, "server %" STR_FMT " is %" STR_FMT, STR_ARG(id),
		               STR_ARG(server.status));
	}
	return bb_server_describe(&server, call->arena, ret, err);
}

bool
bb_servers_list(struct cloud *cloud, struct call *call, struct machine_list *ret, struct error *err)
{
	struct bb_server *servers;
	struct error ignored;
	size_t n;

	if (!bb_list_servers(brightbox_of(cloud)->client, call, &servers, &n, err))
		return false;
	for (size_t i = 0; i < n; i++) {
		struct machine machine;

		if (bb_server_exists(&servers[i]) &&
		    bb_server_describe(&servers[i], call->arena, &machine, &ignored))
			*machine_list_add(ret) = machine;
	}
	ret->is_complete = true;
	return true;
}
