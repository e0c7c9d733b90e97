/* brightbox_objects.c: the objects of an account, and their JSON.
 *
 * Members that are simple values are in tables, which serve answers and bodies. The functions
 * bm_write_… append what refers to other objects. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/ip.h"
#include "brightbox_internal.h"

/* ---- tables ---- */

#define MEMBER(kind, type, name, field, is_brief) \
	{ name, BM_##type, offsetof(struct brightbox_##kind, field), NULL, is_brief }
#define BRIEF(kind, type, name, field) MEMBER(kind, type, name, field, true)
#define FULL(kind, type, name, field) MEMBER(kind, type, name, field, false)
#define RAW(name, json) { name, BM_RAW, 0, json, false }
#define END { NULL, BM_RAW, 0, NULL, false }

static const struct bm_member zone_members[] = { FULL(zone, TEXT, "handle", handle), END };

static const struct bm_member type_members[] = {
	FULL(type, TEXT, "name", base.name),        FULL(type, TEXT, "status", status),
	FULL(type, TEXT, "handle", handle),         FULL(type, TEXT, "storage_type", storage),
	FULL(type, NUMBER, "cores", cores),         FULL(type, NUMBER, "ram", ram),
	FULL(type, NUMBER, "disk_size", disk_size), END,
};

static const struct bm_member server_members[] = {
	BRIEF(server, TEXT, "name", base.name),
	BRIEF(server, TEXT, "status", status),
	BRIEF(server, FLAG, "locked", is_locked),
	BRIEF(server, TEXT, "hostname", hostname),
	BRIEF(server, TEXT, "fqdn", fqdn),
	BRIEF(server, TIME, "created_at", base.created_ns),
	BRIEF(server, TIME, "started_at", base.created_ns),
	BRIEF(server, TIME, "deleted_at", deleted_ns),
	RAW("user_data", "null"),
	RAW("compatibility_mode", "false"),
	RAW("disk_encrypted", "false"),
	RAW("console_url", "null"),
	RAW("console_token", "null"),
	RAW("console_token_expires", "null"),
	RAW("snapshots_schedule", "null"),
	RAW("snapshots_schedule_next_at", "null"),
	RAW("snapshots_retention", "null"),
	RAW("image", "null"),
	RAW("snapshots", "[]"),
	RAW("volumes", "[]"),
	END,
};

static const struct bm_member balancer_members[] = {
	BRIEF(balancer, TEXT, "name", base.name),
	BRIEF(balancer, TEXT, "status", status),
	BRIEF(balancer, FLAG, "locked", is_locked),
	BRIEF(balancer, NUMBER, "buffer_size", buffer_size),
	BRIEF(balancer, FLAG, "https_redirect", https_redirect),
	BRIEF(balancer, TIME, "created_at", base.created_ns),
	BRIEF(balancer, TIME, "deleted_at", deleted_ns),
	FULL(balancer, TEXT, "policy", policy),
	FULL(balancer, TEXT, "ssl_minimum_version", ssl_minimum_version),
	RAW("certificate", "null"),
	END,
};

const struct bm_member bm_listener_members[] = {
	FULL(listener, TEXT, "protocol", protocol),
	FULL(listener, NUMBER, "in", in),
	FULL(listener, NUMBER, "out", out),
	FULL(listener, NUMBER, "timeout", timeout),
	FULL(listener, TEXT, "proxy_protocol", proxy_protocol),
	END,
};

const struct bm_member bm_check_members[] = {
	FULL(check, TEXT, "type", type),
	FULL(check, NUMBER, "port", port),
	FULL(check, TEXT, "request", request),
	FULL(check, NUMBER, "interval", interval),
	FULL(check, NUMBER, "timeout", timeout),
	FULL(check, NUMBER, "threshold_up", up),
	FULL(check, NUMBER, "threshold_down", down),
	END,
};

static const struct bm_member domain_members[] = {
	FULL(domain, TEXT, "identifier", identifier),
	FULL(domain, TEXT, "status", status),
	FULL(domain, TEXT, "last_message", message),
	END,
};

static const struct bm_member cloud_ip_members[] = {
	BRIEF(cloud_ip, TEXT, "name", base.name),
	BRIEF(cloud_ip, TEXT, "status", status),
	BRIEF(cloud_ip, TEXT, "public_ip", ipv4),
	BRIEF(cloud_ip, TEXT, "public_ipv4", ipv4),
	BRIEF(cloud_ip, TEXT, "public_ipv6", ipv6),
	BRIEF(cloud_ip, TEXT, "fqdn", fqdn),
	BRIEF(cloud_ip, TEXT, "reverse_dns", reverse_dns),
	BRIEF(cloud_ip, TEXT, "mode", mode),
	RAW("port_translators", "[]"),
	RAW("database_server", "null"),
	END,
};

static const struct bm_member group_members[] = {
	BRIEF(group, TEXT, "name", base.name),
	BRIEF(group, TEXT, "description", description),
	BRIEF(group, TIME, "created_at", base.created_ns),
	BRIEF(group, FLAG, "default", is_default),
	BRIEF(group, TEXT, "fqdn", fqdn),
	END,
};

static const struct bm_member policy_members[] = {
	BRIEF(policy, TEXT, "name", base.name),
	BRIEF(policy, TEXT, "description", description),
	BRIEF(policy, TIME, "created_at", base.created_ns),
	BRIEF(policy, FLAG, "default", is_default),
	END,
};

static const struct bm_member rule_members[] = {
	BRIEF(rule, TEXT, "source", source),
	BRIEF(rule, TEXT, "source_port", source_port),
	BRIEF(rule, TEXT, "destination", destination),
	BRIEF(rule, TEXT, "destination_port", destination_port),
	BRIEF(rule, TEXT, "protocol", protocol),
	BRIEF(rule, TEXT, "icmp_type_name", icmp_type),
	BRIEF(rule, TEXT, "description", description),
	BRIEF(rule, TIME, "created_at", base.created_ns),
	END,
};

/* ---- writing ---- */

static void
bm_write_member(struct buf *out, const struct bm_member *member, const char *thing)
{
	const void *at = thing + member->at;
	const struct str *text = at;

	switch (member->type) {
	case BM_TEXT:
		if (text->ptr)
			json_add_text(out, member->name, *text);
		else
			json_add_raw(out, member->name, STR("null"));
		break;
	case BM_FLAG:
		json_add_flag(out, member->name, *(const bool *)at);
		break;
	case BM_NUMBER:
		json_add_number(out, member->name, *(const int64_t *)at);
		break;
	case BM_TIME:
		if (*(const int64_t *)at > 0)
			json_add_time(out, member->name, *(const int64_t *)at, /*micros=*/false);
		else
			json_add_raw(out, member->name, STR("null"));
		break;
	case BM_RAW:
		json_add_raw(out, member->name, str_c(member->raw));
		break;
	}
}

static void
bm_write_members(struct buf *out, const struct bm_member members[], const void *thing,
                 bool is_brief)
{
	for (; members->name; members++) {
		if (members->is_brief || !is_brief)
			bm_write_member(out, members, thing);
	}
}

static void
bm_write_things(struct buf *out, const char *name, const struct bm_member members[],
                const void *things, size_t n, size_t size)
{
	json_begin_array(out, name);
	for (size_t i = 0; i < n; i++) {
		json_begin_object(out, NULL);
		bm_write_members(out, members, (const char *)things + i * size, false);
		json_end_object(out);
	}
	json_end_array(out);
}

/* Begins an object; the caller ends it. */
static void
bm_begin(struct buf *out, const char *name, const char *type, const char *collection, struct str id)
{
	json_begin_object(out, name);
	json_add_text(out, "id", id);
	json_add_text(out, "resource_type", str_c(type));
	buf_addf(out, ",\"url\":\"https://api." BM_REGION ".brightbox.com/1.0/%s/%" STR_FMT "\"",
	         collection, STR_ARG(id));
}

void
bm_write_account(const struct bm_account *a, struct buf *out, const char *name)
{
	bm_begin(out, name, "account", "accounts", a->base.id);
	json_add_text(out, "name", a->base.name);
	json_add_text(out, "status", STR("active"));
	json_end_object(out);
}

/* ---- references ---- */

static const struct {
	const char *code, *type, *collection;
	const struct bm_member *members;
	size_t size;
} kinds[BRIGHTBOX_N_KINDS] = {
	[BRIGHTBOX_ZONE] = { "zon", "zone", "zones", zone_members, sizeof(struct brightbox_zone) },
	[BRIGHTBOX_TYPE] = { "typ", "server_type", "server_types", type_members,
	                     sizeof(struct brightbox_type) },
	[BRIGHTBOX_SERVER] = { "srv", "server", "servers", server_members,
	                       sizeof(struct brightbox_server) },
	[BRIGHTBOX_BALANCER] = { "lba", "load_balancer", "load_balancers", balancer_members,
	                         sizeof(struct brightbox_balancer) },
	[BRIGHTBOX_CLOUD_IP] = { "cip", "cloud_ip", "cloud_ips", cloud_ip_members,
	                         sizeof(struct brightbox_cloud_ip) },
	[BRIGHTBOX_GROUP] = { "grp", "server_group", "server_groups", group_members,
	                      sizeof(struct brightbox_group) },
	[BRIGHTBOX_POLICY] = { "fwp", "firewall_policy", "firewall_policies", policy_members,
	                       sizeof(struct brightbox_policy) },
	[BRIGHTBOX_RULE] = { "fwr", "firewall_rule", "firewall_rules", rule_members,
	                     sizeof(struct brightbox_rule) },
};

const char *
bm_collection(enum brightbox_kind kind)
{
	return kinds[kind].collection;
}

static void
bm_begin_object(struct buf *out, const char *name, const struct brightbox_object *o, bool is_brief)
{
	bm_begin(out, name, kinds[o->kind].type, kinds[o->kind].collection, o->id);
	bm_write_members(out, kinds[o->kind].members, o, is_brief);
}

/* What another object's answer shows of this one; null: it does not exist. */
static void
bm_write_brief(struct buf *out, const char *name, const struct brightbox_object *o)
{
	if (!o) {
		json_add_raw(out, name, STR("null"));
		return;
	}
	bm_begin_object(out, name, o, /*is_brief=*/true);
	json_end_object(out);
}

static void
bm_write_brief_id(const struct bm_account *a, struct buf *out, const char *name,
                  enum brightbox_kind kind, struct str id)
{
	bm_write_brief(out, name, id.len > 0 ? brightbox_find(&a->base, kind, id) : NULL);
}

/* The objects of a kind that refer to the one with this id by the member at that place. */
static void
bm_write_referring(const struct bm_account *a, struct buf *out, const char *name,
                   enum brightbox_kind kind, size_t at, struct str id)
{
	json_begin_array(out, name);
	for (size_t i = 0; i < a->base.n_of[kind]; i++) {
		const struct brightbox_object *o = a->base.of[kind][i];

		if (str_eq(*(const struct str *)((const char *)o + at), id))
			bm_write_brief(out, NULL, o);
	}
	json_end_array(out);
}

static void
bm_write_ids(const struct bm_account *a, struct buf *out, const char *name, const struct str ids[],
             size_t n)
{
	json_begin_array(out, name);
	for (size_t i = 0; i < n; i++)
		bm_write_brief_id(a, out, NULL, BRIGHTBOX_SERVER, ids[i]);
	json_end_array(out);
}

/* ---- whole objects ---- */

static void
bm_write_server(const struct bm_account *a, struct buf *out, const struct brightbox_server *s)
{
	json_begin_array(out, "interfaces");
	bm_begin(out, NULL, "interface", "interfaces", s->interface);
	json_add_text(out, "mac_address", s->mac);
	json_add_text(out, "ipv4_address", s->ipv4);
	json_add_text(out, "ipv6_address", s->ipv6);
	json_end_object(out);
	json_end_array(out);
	bm_begin_object(out, "zone", &s->zone->base, /*is_brief=*/false);
	json_end_object(out);
	bm_begin_object(out, "server_type", &s->type->base, /*is_brief=*/false);
	json_end_object(out);
	bm_write_referring(a, out, "cloud_ips", BRIGHTBOX_CLOUD_IP,
	                   offsetof(struct brightbox_cloud_ip, interface), s->interface);
	json_begin_array(out, "server_groups");
	for (size_t i = 0; i < a->base.n_of[BRIGHTBOX_GROUP]; i++) {
		const struct brightbox_group *group = BRIGHTBOX_GROUP_AT(&a->base, i);

		for (size_t k = 0; k < group->n_servers; k++) {
			if (str_eq(group->servers[k], s->base.id))
				bm_write_brief(out, NULL, &group->base);
		}
	}
	json_end_array(out);
}

static void
bm_write_balancer(const struct bm_account *a, struct buf *out, const struct brightbox_balancer *lb)
{
	bm_write_things(out, "listeners", bm_listener_members, lb->listeners, lb->n_listeners,
	                sizeof(lb->listeners[0]));
	json_begin_object(out, "healthcheck");
	bm_write_members(out, bm_check_members, &lb->check, false);
	json_end_object(out);
	json_begin_object(out, "acme");
	json_add_raw(out, "certificate", STR("null"));
	bm_write_things(out, "domains", domain_members, lb->domains, lb->n_domains,
	                sizeof(lb->domains[0]));
	json_end_object(out);
	bm_write_referring(a, out, "cloud_ips", BRIGHTBOX_CLOUD_IP,
	                   offsetof(struct brightbox_cloud_ip, balancer), lb->base.id);
	bm_write_ids(a, out, "nodes", lb->nodes, lb->n_nodes);
}

static const struct brightbox_object *
bm_server_of(const struct bm_account *a, struct str interface)
{
	for (size_t i = 0; i < a->base.n_of[BRIGHTBOX_SERVER]; i++) {
		const struct brightbox_server *server = BRIGHTBOX_SERVER_AT(&a->base, i);

		if (interface.len > 0 && str_eq(server->interface, interface))
			return &server->base;
	}
	return NULL;
}

static void
bm_write_cloud_ip(const struct bm_account *a, struct buf *out, const struct brightbox_cloud_ip *ip)
{
	bm_write_brief(out, "server", bm_server_of(a, ip->interface));
	if (ip->interface.len > 0) {
		bm_begin(out, "interface", "interface", "interfaces", ip->interface);
		json_end_object(out);
	} else {
		json_add_raw(out, "interface", STR("null"));
	}
	bm_write_brief_id(a, out, "load_balancer", BRIGHTBOX_BALANCER, ip->balancer);
	bm_write_brief_id(a, out, "server_group", BRIGHTBOX_GROUP, ip->group);
}

static void
bm_write_group(const struct bm_account *a, struct buf *out, const struct brightbox_group *group)
{
	const struct brightbox_object *policy = NULL;

	for (size_t i = a->base.n_of[BRIGHTBOX_POLICY]; i-- > 0;) {
		const struct brightbox_policy *one = (const struct brightbox_policy *)
		                                             a->base.of[BRIGHTBOX_POLICY][i];

		if (str_eq(one->group, group->base.id))
			policy = &one->base;
	}
	bm_write_ids(a, out, "servers", group->servers, group->n_servers);
	bm_write_brief(out, "firewall_policy", policy);
}

void
bm_write(const struct bm_account *a, struct buf *out, const struct brightbox_object *o)
{
	bm_begin_object(out, NULL, o, /*is_brief=*/false);
	if (o->kind != BRIGHTBOX_ZONE && o->kind != BRIGHTBOX_TYPE && o->kind != BRIGHTBOX_RULE)
		bm_write_account(a, out, "account");
	if (o->kind == BRIGHTBOX_SERVER)
		bm_write_server(a, out, (const struct brightbox_server *)o);
	else if (o->kind == BRIGHTBOX_BALANCER)
		bm_write_balancer(a, out, (const struct brightbox_balancer *)o);
	else if (o->kind == BRIGHTBOX_CLOUD_IP)
		bm_write_cloud_ip(a, out, (const struct brightbox_cloud_ip *)o);
	else if (o->kind == BRIGHTBOX_GROUP)
		bm_write_group(a, out, (const struct brightbox_group *)o);
	else if (o->kind == BRIGHTBOX_RULE)
		bm_write_brief_id(a, out, "firewall_policy", BRIGHTBOX_POLICY,
		                  ((const struct brightbox_rule *)o)->policy);
	if (o->kind == BRIGHTBOX_POLICY) {
		bm_write_brief_id(a, out, "server_group", BRIGHTBOX_GROUP,
		                  ((const struct brightbox_policy *)o)->group);
		bm_write_referring(a, out, "rules", BRIGHTBOX_RULE,
		                   offsetof(struct brightbox_rule, policy), o->id);
	}
	json_end_object(out);
}

/* ---- reading ---- */

void
bm_read(struct brightbox *b, const struct bm_member members[], yyjson_val *body, void *thing)
{
	for (; members->name; members++) {
		yyjson_val *value = yyjson_obj_get(body, members->name);
		void *at = (char *)thing + members->at;

		if (value && members->type == BM_TEXT)
			*(struct str *)at = yyjson_is_null(value)
			                            ? (struct str){ NULL, 0 }
			                            : arena_str(&b->arena, json_text(value));
		else if (value && members->type == BM_FLAG)
			*(bool *)at = yyjson_get_bool(value);
		else if (value && members->type == BM_NUMBER)
			*(int64_t *)at = yyjson_get_sint(value);
	}
}

void
bm_read_object(struct brightbox *b, yyjson_val *body, struct brightbox_object *o)
{
	bm_read(b, kinds[o->kind].members, body, o);
}

/* ---- making ---- */

struct str
bm_new_id(struct brightbox *b, const char *code)
{
	static const char alphabet[] = "0123456789abcdefghijklmnopqrstuvwxyz";
	char id[] = "....-.....";
	uint64_t random = model_random(&b->random);

	snprintf(id, sizeof(id), "%s-", code);
	for (size_t i = strlen(id); i + 1 < sizeof(id); i++, random /= 36)
		id[i] = alphabet[random % 36];
	id[strlen(code) + 6] = '\0';
	return arena_str(&b->arena, str_c(id));
}

static struct str
bm_fqdn(struct brightbox *b, struct str id)
{
	return arena_printf(&b->arena, "%" STR_FMT "." BM_REGION ".brightbox.com", STR_ARG(id));
}

static void
bm_init_server(struct brightbox *b, struct bm_account *a, struct brightbox_server *s)
{
	unsigned n = a->n_addresses++;

	s->status = STR("active");
	s->hostname = s->base.id;
	s->fqdn = bm_fqdn(b, s->base.id);
	s->zone = (const struct brightbox_zone *)a->base.of[BRIGHTBOX_ZONE][0];
	s->type = (const struct brightbox_type *)a->base.of[BRIGHTBOX_TYPE][0];
	s->interface = bm_new_id(b, "int");
	s->mac = arena_printf(&b->arena, "02:24:19:%02x:%02x:%02x", n >> 16 & 255, n >> 8 & 255,
	                      n & 255);
	s->ipv4 = arena_printf(&b->arena, "10.240.%u.%u", (n + 2) >> 8 & 255, (n + 2) & 255);
	s->ipv6 = arena_printf(&b->arena, "2a02:1348:178:4c6:24:19ff:fe00:%x", n & 0xffff);
}

const struct brightbox_check bm_usual_check = { { "http", 4 }, { "/", 1 }, 80, 5000, 5000, 3, 3 };

static void
bm_init_balancer(struct brightbox_balancer *lb)
{
	lb->status = STR("creating");
	lb->policy = STR("least-connections");
	lb->buffer_size = 4096;
	lb->ssl_minimum_version = STR("TLSv1.2");
	lb->check = bm_usual_check;
}

static void
bm_init_cloud_ip(struct brightbox *b, struct bm_account *a, struct brightbox_cloud_ip *ip)
{
	unsigned n = 1 + a->n_addresses++;

	ip->status = STR("unmapped");
	ip->ipv4 = arena_printf(&b->arena, "109.107.%u.%u", 32 + (n >> 8), n & 255);
	ip->ipv6 = arena_printf(&b->arena, "2a02:1348:ffff:ffff::6d6b:%x",
	                        (32 + (n >> 8)) << 8 | (n & 255));
	ip->fqdn = bm_fqdn(b, ip->base.id);
	ip->reverse_dns = arena_printf(&b->arena, "cip-109-107-%u-%u." BM_REGION ".brightbox.com",
	                               32 + (n >> 8), n & 255);
	ip->mode = STR("nat");
}

struct brightbox_object *
bm_add(struct brightbox *b, struct bm_account *a, enum brightbox_kind kind)
{
	struct brightbox_object *o = arena_calloc(&b->arena, 1, kinds[kind].size);

	o->kind = kind;
	o->id = bm_new_id(b, kinds[kind].code);
	o->created_ns = b->now_ns;
	if (kind == BRIGHTBOX_SERVER)
		bm_init_server(b, a, (struct brightbox_server *)o);
	else if (kind == BRIGHTBOX_BALANCER)
		bm_init_balancer((struct brightbox_balancer *)o);
	else if (kind == BRIGHTBOX_CLOUD_IP)
		bm_init_cloud_ip(b, a, (struct brightbox_cloud_ip *)o);
	else if (kind == BRIGHTBOX_GROUP)
		((struct brightbox_group *)o)->fqdn = bm_fqdn(b, o->id);
	ARRAY_PUSH(a->base.of[kind], a->base.n_of[kind], a->cap_of[kind], o);
	return o;
}

void
bm_vanish(struct brightbox *b, struct brightbox_object *o, const struct bm_effect *e)
{
	struct brightbox_account *a = &e->account->base;
	struct brightbox_object **all = a->of[o->kind];
	size_t i = 0;

	while (all[i] != o)
		i++;
	a->n_of[o->kind]--;
	memmove(&all[i], &all[i + 1], (a->n_of[o->kind] - i) * sizeof(*all));
	bm_report(b, e->account, &e->who, o, NULL);
}

const struct brightbox_object *
bm_copy(struct brightbox *b, const struct brightbox_object *o)
{
	void *copy = arena_calloc(&b->arena, 1, kinds[o->kind].size);

	memcpy(copy, o, kinds[o->kind].size);
	return copy;
}

bool
bm_eq(const struct brightbox_object *copy, const struct brightbox_object *o)
{
	return memcmp(copy, o, kinds[o->kind].size) == 0;
}

struct brightbox_object *
brightbox_find(const struct brightbox_account *a, enum brightbox_kind kind, struct str id)
{
	for (size_t i = 0; i < a->n_of[kind]; i++) {
		if (str_eq(a->of[kind][i]->id, id))
			return a->of[kind][i];
	}
	return NULL;
}
