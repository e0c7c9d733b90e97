/* wire.c: see wire.h.
 *
 * Each object is described by a table of its members: path in the JSON, type, place in the struct,
 * and the words of an enumeration. One function reads them all, so that no member is read more
 * leniently than another.
 */
#include "providers/brightbox/wire.h"

#include <stddef.h>

#include "base/limits.h"
#include "base/words.h"

enum member_type {
	MEMBER_TEXT,
	MEMBER_WORD, /* a text out of a list */
	MEMBER_FLAG,
	MEMBER_PORT,   /* int32_t */
	MEMBER_NUMBER, /* uint32_t */
	MEMBER_LIST,   /* pointer and count of structs that another table describes */
	MEMBER_IDS,    /* the ids of a list of objects: pointer and count of struct str */
};

struct bb_object;

struct member {
	const char *path;
	enum member_type type;
	size_t at;                      /* in the struct */
	size_t count_at;                /* of MEMBER_LIST and MEMBER_IDS */
	const char *const *words;       /* of MEMBER_WORD; NULL at the end */
	const struct bb_object *object; /* of MEMBER_LIST */
};

struct bb_object {
	const char *name; /* for messages */
	size_t size;
	const struct member *members;
	size_t n_members;
	bool has_id; /* an object without an id is an error */
};

static const char *const lb_states[] = { "creating", "active", "deleting", "deleted",
	                                 "failing",  "failed", NULL };
static const char *const ip_states[] = { "mapped", "unmapped", NULL };
const char *const bb_policies[] = { "least-connections", "round-robin", "source-address", NULL };
const char *const bb_protocols[] = { "tcp", "http", "https", NULL };
const char *const bb_proxy_protocols[] = { "v1", "v2", "v2-ssl", "v2-ssl-cn", NULL };
const char *const bb_check_types[] = { "tcp", "http", NULL };

#define TEXT(type, path, field) { path, MEMBER_TEXT, offsetof(type, field), 0, NULL, NULL }
#define WORD(type, path, field, words) { path, MEMBER_WORD, offsetof(type, field), 0, words, NULL }
#define FLAG(type, path, field) { path, MEMBER_FLAG, offsetof(type, field), 0, NULL, NULL }
#define PORT(type, path, field) { path, MEMBER_PORT, offsetof(type, field), 0, NULL, NULL }
#define NUMBER(type, path, field) { path, MEMBER_NUMBER, offsetof(type, field), 0, NULL, NULL }
#define LIST(type, path, field, object) \
	{ path, MEMBER_LIST, offsetof(type, field), offsetof(type, n_##field), NULL, object }
#define IDS(type, path, field) \
	{ path, MEMBER_IDS, offsetof(type, field), offsetof(type, n_##field), NULL, NULL }
#define OBJECT(name, type, members, has_id) \
	{ name, sizeof(type), members, ARRAY_LEN(members), has_id }

static const struct member interface_members[] = {
	TEXT(struct bb_interface, "ipv4_address", ipv4),
	TEXT(struct bb_interface, "ipv6_address", ipv6),
};
static const struct bb_object interface_object = OBJECT("interface", struct bb_interface,
                                                        interface_members, false);

static const struct member server_ip_members[] = {
	TEXT(struct bb_server_cloud_ip, "id", id),
	TEXT(struct bb_server_cloud_ip, "public_ip", public_ip),
	TEXT(struct bb_server_cloud_ip, "fqdn", fqdn),
};
static const struct bb_object server_ip_object = OBJECT("cloud IP", struct bb_server_cloud_ip,
                                                        server_ip_members, true);

static const struct member server_members[] = {
	TEXT(struct bb_server, "id", id),
	TEXT(struct bb_server, "status", status),
	TEXT(struct bb_server, "hostname", hostname),
	TEXT(struct bb_server, "fqdn", fqdn),
	TEXT(struct bb_server, "zone.handle", zone),
	TEXT(struct bb_server, "server_type.handle", type),
	LIST(struct bb_server, "interfaces", interfaces, &interface_object),
	LIST(struct bb_server, "cloud_ips", cloud_ips, &server_ip_object),
};
const struct bb_object bb_server_object = OBJECT("server", struct bb_server, server_members, true);

/* The cloud IPs in the answer about a balancer have the same members, except load_balancer. */
static const struct member cloud_ip_members[] = {
	TEXT(struct bb_cloud_ip, "id", id),
	TEXT(struct bb_cloud_ip, "name", name),
	WORD(struct bb_cloud_ip, "status", status, ip_states),
	TEXT(struct bb_cloud_ip, "public_ipv4", public_ipv4),
	TEXT(struct bb_cloud_ip, "public_ipv6", public_ipv6),
	TEXT(struct bb_cloud_ip, "fqdn", fqdn),
	TEXT(struct bb_cloud_ip, "reverse_dns", reverse_dns),
	TEXT(struct bb_cloud_ip, "load_balancer.id", lb_id),
	TEXT(struct bb_cloud_ip, "load_balancer.name", lb_name),
};
const struct bb_object bb_cloud_ip_object = OBJECT("cloud IP", struct bb_cloud_ip, cloud_ip_members,
                                                   true);

static const struct member listener_members[] = {
	WORD(struct bb_listener, "protocol", protocol, bb_protocols),
	PORT(struct bb_listener, "in", in),
	PORT(struct bb_listener, "out", out),
	NUMBER(struct bb_listener, "timeout", timeout_ms),
	WORD(struct bb_listener, "proxy_protocol", proxy_protocol, bb_proxy_protocols),
};
static const struct bb_object listener_object = OBJECT("listener", struct bb_listener,
                                                       listener_members, false);

static const struct member domain_members[] = {
	TEXT(struct bb_domain, "identifier", identifier),
	TEXT(struct bb_domain, "status", status),
	TEXT(struct bb_domain, "last_message", last_message),
};
static const struct bb_object domain_object = OBJECT("domain", struct bb_domain, domain_members,
                                                     false);

static const struct member lb_members[] = {
	TEXT(struct bb_lb, "id", id),
	TEXT(struct bb_lb, "name", name),
	WORD(struct bb_lb, "status", status, lb_states),
	WORD(struct bb_lb, "policy", policy, bb_policies),
	FLAG(struct bb_lb, "https_redirect", redirects_to_https),
	IDS(struct bb_lb, "nodes", nodes),
	LIST(struct bb_lb, "listeners", listeners, &listener_object),
	WORD(struct bb_lb, "healthcheck.type", check.type, bb_check_types),
	PORT(struct bb_lb, "healthcheck.port", check.port),
	TEXT(struct bb_lb, "healthcheck.request", check.request),
	NUMBER(struct bb_lb, "healthcheck.interval", check.interval_ms),
	NUMBER(struct bb_lb, "healthcheck.timeout", check.timeout_ms),
	NUMBER(struct bb_lb, "healthcheck.threshold_up", check.threshold_up),
	NUMBER(struct bb_lb, "healthcheck.threshold_down", check.threshold_down),
	LIST(struct bb_lb, "acme.domains", domains, &domain_object),
	LIST(struct bb_lb, "cloud_ips", cloud_ips, &bb_cloud_ip_object),
};
const struct bb_object bb_lb_object = OBJECT("load balancer", struct bb_lb, lb_members, true);

static const struct member group_members[] = {
	TEXT(struct bb_group, "id", id),
	TEXT(struct bb_group, "name", name),
	IDS(struct bb_group, "servers", servers),
};
const struct bb_object bb_group_object = OBJECT("server group", struct bb_group, group_members,
                                                true);

static const struct member rule_members[] = {
	TEXT(struct bb_rule, "id", id),
	TEXT(struct bb_rule, "protocol", protocol),
	TEXT(struct bb_rule, "source", source),
	TEXT(struct bb_rule, "destination_port", destination_port),
	TEXT(struct bb_rule, "description", description),
};
const struct bb_object bb_rule_object = OBJECT("firewall rule", struct bb_rule, rule_members, true);

static const struct member policy_members[] = {
	TEXT(struct bb_policy, "id", id),
	TEXT(struct bb_policy, "name", name),
	TEXT(struct bb_policy, "server_group.id", group),
	LIST(struct bb_policy, "rules", rules, &bb_rule_object),
};
const struct bb_object bb_policy_object = OBJECT("firewall policy", struct bb_policy,
                                                 policy_members, true);

/* ---- the reader ---- */

/* False if the member is there but is not a text. */
static bool
bb_text_read(yyjson_val *val, const char *path, struct arena *arena, struct str *ret)
{
	struct str text = STR_EMPTY;

	if (json_str(val, path, &text) == JSON_MISTYPED)
		return false;
	*ret = arena_str(arena, text);
	return true;
}

static bool
bb_number_read(yyjson_val *val, const char *path, int64_t max, int64_t *ret)
{
	*ret = 0;
	return json_i64(val, path, ret) != JSON_MISTYPED && *ret >= 0 && *ret <= max;
}

static bool
bb_ids_read(yyjson_val *list, struct arena *arena, struct str **ret, size_t *ret_n)
{
	struct str *ids = arena_calloc(arena, yyjson_arr_size(list), sizeof(*ids));
	yyjson_val *one;
	size_t i, n;

	yyjson_arr_foreach(list, i, n, one)
	{
		if (!bb_text_read(one, "id", arena, &ids[i]) || ids[i].len == 0)
			return false;
	}
	*ret = ids;
	*ret_n = yyjson_arr_size(list);
	return true;
}

bool
bb_list_read(yyjson_val *list, const struct bb_object *object, struct arena *arena, void **ret,
             size_t *ret_n, struct error *err)
{
	size_t limit = object == &bb_lb_object ? LIMIT_CLOUD_BALANCERS : LIMIT_MACHINES;
	yyjson_val *one;
	size_t i, n;
	char *made;

	if (yyjson_arr_size(list) > limit)
		return err_set(err, ERR_UNAVAILABLE,
		               "the Brightbox API returned %zu of one list's elements (%s), more "
		               "than %zu",
		               yyjson_arr_size(list), object->name, limit);
	made = arena_calloc(arena, yyjson_arr_size(list), object->size);
	yyjson_arr_foreach(list, i, n, one)
	{
		if (!bb_object_read(one, object, arena, made + i * object->size, err))
			return false;
	}
	*ret = made;
	*ret_n = yyjson_arr_size(list);
	return true;
}

static bool
bb_member_read(yyjson_val *val, const struct member *member, struct arena *arena, char *ret,
               struct error *err)
{
	void *at = ret + member->at;
	yyjson_val *list = NULL;
	int64_t number;
	bool is_good = true;

	switch (member->type) {
	case MEMBER_TEXT:
		is_good = bb_text_read(val, member->path, arena, at);
		break;
	case MEMBER_WORD:
		is_good = bb_text_read(val, member->path, arena, at) &&
		          (((struct str *)at)->len == 0 ||
		           words_have(member->words, *(struct str *)at));
		break;
	case MEMBER_FLAG:
		is_good = json_bool(val, member->path, at) != JSON_MISTYPED;
		break;
	case MEMBER_PORT:
		is_good = bb_number_read(val, member->path, UINT16_MAX, &number);
		*(int32_t *)at = (int32_t)number;
		break;
	case MEMBER_NUMBER:
		is_good = bb_number_read(val, member->path, UINT32_MAX, &number);
		*(uint32_t *)at = (uint32_t)number;
		break;
	case MEMBER_LIST:
		if (json_array(val, member->path, &list) == JSON_MISTYPED)
			is_good = false;
		else
			return bb_list_read(list, member->object, arena, at,
			                    (size_t *)(void *)(ret + member->count_at), err);
		break;
	case MEMBER_IDS:
		is_good = json_array(val, member->path, &list) != JSON_MISTYPED &&
		          bb_ids_read(list, arena, at, (size_t *)(void *)(ret + member->count_at));
		break;
	}
	if (!is_good)
		return err_set(err, ERR_UNAVAILABLE, "%s cannot be understood", member->path);
	return true;
}

bool
bb_object_read(yyjson_val *val, const struct bb_object *object, struct arena *arena, void *ret,
               struct error *err)
{
	if (!yyjson_is_obj(val))
		return err_set(err, ERR_UNAVAILABLE, "a %s is not an object", object->name);
	for (size_t i = 0; i < object->n_members; i++) {
		if (!bb_member_read(val, &object->members[i], arena, ret, err))
			return err_wrap(err, "%s", object->name);
	}
	/* The id is the first member of all structs that have one. */
	if (object->has_id && ((const struct str *)ret)->len == 0)
		return err_set(err, ERR_UNAVAILABLE, "a %s has no id", object->name);
	return true;
}

bool
bb_lb_is_alive(const struct bb_lb *lb)
{
	return str_eq_c(lb->status, "active") || str_eq_c(lb->status, "creating");
}

bool
bb_lb_has_failed(const struct bb_lb *lb)
{
	return str_eq_c(lb->status, "failing") || str_eq_c(lb->status, "failed");
}
