/* lb_wire.c: see lb_wire.h.
 *
 * Reading functions (hz_wire_…, hz_…_read) copy from an answer of the API into the structs, and
 * writing functions (hz_body_…) append a request body to a buffer. A member has three states:
 * unset, set to false or to an empty value, and set to another value. The difference between the
 * first two matters in a request, because the API does not change what the body lacks.
 *
 * The body that creates a balancer may have services and targets, which saves the requests that add
 * them. It cannot have everything: see hz_body_create().
 */
#include "providers/hcloud/lb_wire.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/ip.h"
#include "base/json.h"
#include "providers/hcloud/lb_desired.h"

/* ---- reading: members that may be missing ---- */

static enum hz_opt_bool
hz_wire_flag_at(yyjson_val *val, const char *path)
{
	bool is_true;

	if (json_bool(val, path, &is_true) != JSON_FOUND)
		return HZ_UNSET;
	return is_true ? HZ_YES : HZ_NO;
}

static struct hz_opt_i64
hz_wire_number_at(yyjson_val *val, const char *path)
{
	struct hz_opt_i64 number = { 0 };

	number.is_set = json_i64(val, path, &number.value) == JSON_FOUND;
	return number;
}

static struct hz_opt_str
hz_wire_text_at(struct arena *arena, yyjson_val *val, const char *path)
{
	struct hz_opt_str text = { .value = STR_EMPTY };

	text.is_set = json_str(val, path, &text.value) == JSON_FOUND;
	text.value = arena_str(arena, text.value);
	return text;
}

static bool
hz_wire_read_id(yyjson_val *val, const char *what, int64_t *ret, struct error *err)
{
	if (json_i64(val, "id", ret) == JSON_FOUND && *ret > 0)
		return true;
	return err_set(err, ERR_UNAVAILABLE, "the Hetzner Cloud API returned a %s without id",
	               what);
}

/* ---- reading: services ---- */

static void
hz_wire_read_http(struct arena *arena, yyjson_val *val, struct hz_lb_http *ret)
{
	yyjson_val *list = json_at(val, "certificates"), *one;
	size_t i, n;

	*ret = (struct hz_lb_http){
		.cookie_name = hz_wire_text_at(arena, val, "cookie_name"),
		.cookie_lifetime_s = hz_wire_number_at(val, "cookie_lifetime"),
		.timeout_idle_s = hz_wire_number_at(val, "timeout_idle"),
		.redirects = hz_wire_flag_at(val, "redirect_http"),
		.is_sticky = hz_wire_flag_at(val, "sticky_sessions"),
		.has_certificates = yyjson_is_arr(list),
		.certificates = arena_calloc(arena, yyjson_arr_size(list), sizeof(int64_t)),
	};
	yyjson_arr_foreach(list, i, n, one)
	{
		if (json_i64(one, "", &ret->certificates[ret->n_certificates]) == JSON_FOUND)
			ret->n_certificates++;
	}
}

static void
hz_wire_read_check(struct arena *arena, yyjson_val *val, struct hz_lb_check *ret)
{
	yyjson_val *list = json_at(val, "http.status_codes"), *one;
	size_t i, n;

	*ret = (struct hz_lb_check){
		.protocol = json_text_at(arena, val, "protocol"),
		.interval_s = hz_wire_number_at(val, "interval"),
		.timeout_s = hz_wire_number_at(val, "timeout"),
		.retries = hz_wire_number_at(val, "retries"),
		.domain = hz_wire_text_at(arena, val, "http.domain"),
		.path = hz_wire_text_at(arena, val, "http.path"),
		.is_tls = hz_wire_flag_at(val, "http.tls"),
		.has_status_codes = yyjson_is_arr(list),
		.status_codes = arena_calloc(arena, yyjson_arr_size(list), sizeof(struct str)),
	};
	json_i64(val, "port", &ret->port);
	yyjson_arr_foreach(list, i, n, one)
		ret->status_codes[ret->n_status_codes++] = json_text_at(arena, one, "");
}

static void
hz_wire_read_services(struct arena *arena, yyjson_val *val, struct hz_lb *ret)
{
	yyjson_val *list = json_at(val, "services"), *one, *http;
	size_t i, n;

	ret->services = arena_calloc(arena, yyjson_arr_size(list), sizeof(*ret->services));
	yyjson_arr_foreach(list, i, n, one)
	{
		struct hz_lb_service *s = &ret->services[ret->n_services];

		if (json_i64(one, "listen_port", &s->listen_port) != JSON_FOUND)
			continue;
		json_i64(one, "destination_port", &s->destination_port);
		s->protocol = json_text_at(arena, one, "protocol");
		s->proxy_protocol = hz_wire_flag_at(one, "proxyprotocol");
		s->has_http = json_object(one, "http", &http) == JSON_FOUND;
		if (s->has_http)
			hz_wire_read_http(arena, http, &s->http);
		hz_wire_read_check(arena, json_at(one, "health_check"), &s->check);
		ret->n_services++;
	}
}

/* ---- reading: targets ---- */

static struct hz_lb_target
hz_wire_read_target(struct arena *arena, yyjson_val *val)
{
	struct hz_lb_target target = { .type = HZ_TARGET_SELECTOR,
		                       .ip = STR_EMPTY,
		                       .detail = STR_EMPTY };
	yyjson_val *health = json_at(val, "health_status"), *one;
	struct str type = json_view(val, "type");
	size_t i, n, n_healthy = 0;

	if (str_eq_c(type, "server") && json_i64(val, "server.id", &target.server) == JSON_FOUND)
		target.type = HZ_TARGET_SERVER;
	if (str_eq_c(type, "ip")) {
		target.ip = json_text_at(arena, val, "ip.ip");
		target.type = HZ_TARGET_IP;
	}
	json_bool(val, "use_private_ip", &target.uses_private_ip);

	/* The API reports the health for each port. */
	yyjson_arr_foreach(health, i, n, one)
	{
		struct str status = json_view(one, "status");

		n_healthy += str_eq_c(status, "healthy");
		if (!str_eq_c(status, "unhealthy") || target.health == HZ_UNHEALTHY)
			continue;
		target.health = HZ_UNHEALTHY;
		json_i64(one, "listen_port", &target.failing_port);
		target.detail = json_text_at(arena, one, "detail");
		json_i64(one, "http_status_code", &target.http_status);
	}
	if (n_healthy > 0 && n_healthy == n)
		target.health = HZ_HEALTHY;
	return target;
}

static void
hz_wire_read_targets(struct arena *arena, yyjson_val *val, struct hz_lb *ret)
{
	yyjson_val *list = json_at(val, "targets"), *one;
	size_t i, n;

	ret->targets = arena_calloc(arena, yyjson_arr_size(list), sizeof(*ret->targets));
	yyjson_arr_foreach(list, i, n, one)
	{
		struct hz_lb_target *target = &ret->targets[ret->n_targets++];
		yyjson_val *servers = json_at(one, "targets"), *server;
		size_t j, m;

		*target = hz_wire_read_target(arena, one);
		if (target->type != HZ_TARGET_SELECTOR)
			ret->n_of_health[target->health]++;
		yyjson_arr_foreach(servers, j, m, server)
		{
			ret->n_of_health[hz_wire_read_target(arena, server).health]++;
		}
	}
}

/* ---- reading: a type ---- */

static struct hz_lb_type
hz_wire_read_type(struct arena *arena, yyjson_val *val)
{
	struct hz_lb_type type = { .name = json_text_at(arena, val, "name") };
	yyjson_val *deprecation;
	int64_t wall_ns;

	json_i64(val, "id", &type.id);
	json_i64(val, "max_targets", &type.max_targets);
	json_i64(val, "max_services", &type.max_services);
	type.is_deprecated = json_object(val, "deprecation", &deprecation) == JSON_FOUND;
	if (type.is_deprecated) {
		type.unavailable_wall_s = INT64_MAX; /* no end is known */
		if (clock_parse_rfc3339(json_view(deprecation, "unavailable_after"), &wall_ns))
			type.unavailable_wall_s = wall_ns / NS_PER_SEC;
	}
	return type;
}

/* ---- reading: a balancer ---- */

static void
hz_wire_read_labels(struct arena *arena, yyjson_val *val, struct hz_lb *ret)
{
	yyjson_val *map, *key, *value;
	size_t i, n;

	if (json_object(val, "labels", &map) != JSON_FOUND)
		return;
	ret->labels = arena_calloc(arena, yyjson_obj_size(map), sizeof(*ret->labels));
	yyjson_obj_foreach(map, i, n, key, value)
	{
		ret->labels[ret->n_labels++] = (struct label){
			.key = arena_str(arena, json_text(key)),
			.value = json_text_at(arena, value, ""),
		};
	}
}

static struct hz_public_address
hz_wire_read_address(struct arena *arena, yyjson_val *val)
{
	struct hz_public_address end = { .ip = json_text_at(arena, val, "ip"),
		                         .dns_ptr = json_text_at(arena, val, "dns_ptr") };

	json_i64(val, "id", &end.id);
	json_bool(val, "blocked", &end.is_blocked);
	return end;
}

/* A type has a price for each location. */
static struct str
hz_wire_read_price(struct arena *arena, yyjson_val *val)
{
	yyjson_val *prices = json_at(val, "load_balancer_type.prices"), *price;
	struct str location = json_view(val, "location.name");
	size_t i, n;

	yyjson_arr_foreach(prices, i, n, price)
	{
		if (str_eq(json_view(price, "location"), location))
			return json_text_at(arena, price, "price_monthly.net");
	}
	return STR_EMPTY;
}

bool
hz_lb_read(yyjson_val *val, struct arena *arena, void *ret, struct error *err)
{
	struct hz_lb lb = {
		.type = hz_wire_read_type(arena, json_at(val, "load_balancer_type")),
		.location = json_text_at(arena, val, "location.name"),
		.monthly_price = hz_wire_read_price(arena, val),
		.name = json_text_at(arena, val, "name"),
		.uid = json_text_at(arena, val, "labels." HZ_LABEL_UID),
		.algorithm = json_text_at(arena, val, "algorithm.type"),
		.is_protected = hz_wire_flag_at(val, "protection.delete") == HZ_YES,
		.is_public = hz_wire_flag_at(val, "public_net.enabled") != HZ_NO,
		.ipv4 = hz_wire_read_address(arena, json_at(val, "public_net.ipv4")),
		.ipv6 = hz_wire_read_address(arena, json_at(val, "public_net.ipv6")),
	};

	if (!hz_wire_read_id(val, "load balancer", &lb.id, err))
		return false;
	hz_wire_read_labels(arena, val, &lb);
	hz_private_nets_read(arena, val, &lb.nets);
	hz_wire_read_services(arena, val, &lb);
	hz_wire_read_targets(arena, val, &lb);
	*(struct hz_lb *)ret = lb;
	return true;
}

/* The API assigns public addresses also to a balancer whose public interface is disabled. */
void
hz_lb_read_request(yyjson_val *body, const struct hz_lb_type *type, struct arena *arena,
                   struct hz_lb *ret)
{
	struct hz_private_net *net = ARENA_NEW(arena, struct hz_private_net);

	*net = (struct hz_private_net){ .ip = HZ_NEW_PRIVATE_IP };
	*ret = (struct hz_lb){
		.name = json_text_at(arena, body, "name"),
		.uid = json_text_at(arena, body, "labels." HZ_LABEL_UID),
		.type = *type,
		.algorithm = json_text_at(arena, body, "algorithm.type"),
		.is_public = hz_wire_flag_at(body, "public_interface") != HZ_NO,
		.ipv4 = { .ip = STR("(new IPv4 address)") },
		.ipv6 = { .ip = STR("(new IPv6 address)") },
	};
	if (json_i64(body, "network", &net->network) == JSON_FOUND)
		ret->nets = (struct hz_private_nets){ net, 1 };
	hz_wire_read_labels(arena, body, ret);
	hz_wire_read_services(arena, body, ret);
	hz_wire_read_targets(arena, body, ret);
}

/* ---- reading: types and certificates ---- */

bool
hz_lb_type_read(yyjson_val *val, struct arena *arena, void *ret, struct error *err)
{
	struct hz_lb_type type = hz_wire_read_type(arena, val);

	if (!hz_wire_read_id(val, "load balancer type", &type.id, err))
		return false;
	*(struct hz_lb_type *)ret = type;
	return true;
}

bool
hz_certificate_read(yyjson_val *val, struct arena *arena, void *ret, struct error *err)
{
	struct hz_certificate read = {
		.name = json_text_at(arena, val, "name"),
		.uid = json_text_at(arena, val, "labels." HZ_LABEL_UID),
		.is_managed = str_eq_c(json_view(val, "type"), "managed"),
		.is_failed = str_eq_c(json_view(val, "status.issuance"), "failed"),
	};

	if (!hz_wire_read_id(val, "certificate", &read.id, err))
		return false;
	*(struct hz_certificate *)ret = read;
	return true;
}

struct str
hz_target_key(const struct hz_lb_target *target, bool is_private, struct arena *arena)
{
	struct ip ip;

	if (target->type == HZ_TARGET_SERVER)
		return arena_printf(arena, "server %" PRId64 "%s", target->server,
		                    is_private ? " private" : "");
	if (!ip_parse(target->ip, &ip))
		return arena_printf(arena, "%d %" STR_FMT, (int)target->type, STR_ARG(target->ip));
	return arena_printf(arena, "ip %s", ip_text(arena, &ip).ptr);
}

struct str
hz_lb_label_of(const struct hz_lb *lb, const char *key)
{
	for (size_t i = 0; i < lb->n_labels; i++) {
		if (str_eq_c(lb->labels[i].key, key))
			return lb->labels[i].value;
	}
	return STR_EMPTY;
}

/* ---- writing: members ---- */

static struct json_member
hz_opt_text(const char *key, const struct hz_opt_str *text)
{
	return JSON_IF(text->is_set, JSON_TEXT(key, text->value));
}

static struct json_member
hz_opt_number(const char *key, const struct hz_opt_i64 *number)
{
	return JSON_IF(number->is_set, JSON_NUMBER(key, number->value));
}

static struct json_member
hz_opt_flag(const char *key, enum hz_opt_bool is_so)
{
	return JSON_IF(is_so != HZ_UNSET, JSON_FLAG(key, is_so == HZ_YES));
}

/* ---- writing: services ---- */

/* One that is still to be issued is in notes of a dry run only. */
static void
hz_body_add_certificates(struct buf *b, const int64_t ids[], size_t n)
{
	json_begin_array(b, "certificates");
	for (size_t i = 0; i < n; i++) {
		if (ids[i] == HZ_DRY_ID)
			json_add_text(b, NULL, STR("(to be issued)"));
		else
			json_add_number(b, NULL, ids[i]);
	}
	json_end_array(b);
}

static void
hz_body_add_http(struct buf *b, const struct hz_lb_http *http)
{
	json_begin_object(b, "http");
	json_add_members(b, hz_opt_text("cookie_name", &http->cookie_name),
	                 hz_opt_number("cookie_lifetime", &http->cookie_lifetime_s));
	if (http->has_certificates)
		hz_body_add_certificates(b, http->certificates, http->n_certificates);
	json_add_members(b, hz_opt_flag("redirect_http", http->redirects),
	                 hz_opt_flag("sticky_sessions", http->is_sticky),
	                 hz_opt_number("timeout_idle", &http->timeout_idle_s));
	json_end_object(b);
}

static void
hz_body_add_check(struct buf *b, const struct hz_lb_check *check)
{
	json_begin_object(b, "health_check");
	json_add_members(b, JSON_TEXT("protocol", check->protocol),
	                 JSON_NUMBER("port", check->port),
	                 hz_opt_number("interval", &check->interval_s),
	                 hz_opt_number("timeout", &check->timeout_s),
	                 hz_opt_number("retries", &check->retries));
	if (!str_eq_c(check->protocol, "tcp")) {
		json_begin_object(b, "http");
		json_add_members(b, hz_opt_text("domain", &check->domain),
		                 hz_opt_text("path", &check->path));
		if (check->has_status_codes)
			json_add_texts(b, "status_codes", check->status_codes,
			               check->n_status_codes);
		json_add_members(b, hz_opt_flag("tls", check->is_tls));
		json_end_object(b);
	}
	json_end_object(b);
}

void
hz_body_service(struct buf *b, const struct hz_lb_service *s)
{
	json_begin_object(b, NULL);
	json_add_members(b, JSON_TEXT("protocol", s->protocol),
	                 JSON_NUMBER("listen_port", s->listen_port),
	                 JSON_NUMBER("destination_port", s->destination_port),
	                 hz_opt_flag("proxyprotocol", s->proxy_protocol));
	if (s->has_http)
		hz_body_add_http(b, &s->http);
	hz_body_add_check(b, &s->check);
	json_end_object(b);
}

/* ---- writing: targets ---- */

void
hz_body_target(struct buf *b, const struct hz_lb_target *target, bool is_removed)
{
	bool is_ip = target->type == HZ_TARGET_IP;

	json_begin_object(b, NULL);
	json_add_text(b, "type", is_ip ? STR("ip") : STR("server"));
	if (is_ip)
		json_add_object(b, "ip", JSON_TEXT("ip", target->ip));
	else
		json_add_object(b, "server", JSON_NUMBER("id", target->server));
	if (target->type == HZ_TARGET_SERVER && !is_removed)
		json_add_flag(b, "use_private_ip", target->uses_private_ip);
	json_end_object(b);
}

/* ---- writing: a new balancer ---- */

/* The labels that the balancer has from other tools, and ours. */
static void
hz_body_add_labels(struct buf *b, const struct label labels[], size_t n,
                   const struct hz_lb_desired *desired)
{
	json_begin_object(b, "labels");
	for (size_t i = 0; i < n; i++) {
		if (str_eq_c(labels[i].key, HZ_LABEL_UID) ||
		    str_eq_c(labels[i].key, HZ_LABEL_CLUSTER))
			continue;
		json_add_name(b, labels[i].key);
		json_add_text(b, NULL, labels[i].value);
	}
	json_add_text(b, HZ_LABEL_UID, desired->uid);
	if (desired->cluster.len > 0)
		json_add_text(b, HZ_LABEL_CLUSTER, desired->cluster);
	json_end_object(b);
}

/* Returns how many of the n targets the request that creates the balancer has. The API refuses more
 * targets than the type permits, and targets that the new balancer cannot reach: by their private
 * address without the network, or by their public one without the public interface. */
static size_t
hz_body_count_targets(const struct hz_lb_desired *desired, const struct hz_lb_type *type,
                      bool has_network, size_t n)
{
	if (desired->uses_private_ip && !has_network)
		return 0;
	if (!desired->uses_private_ip && desired->is_public == HZ_NO)
		return 0;
	if (type->max_targets > 0 && n > (size_t)type->max_targets)
		return (size_t)type->max_targets;
	return n;
}

void
hz_body_create(struct buf *b, const struct hz_lb_desired *desired, const struct hz_lb_type *type,
               const struct hz_lb_target targets[], size_t n_targets, bool without_parts)
{
	const struct hz_primary_ref *ipv4 = &desired->primary_ips[HZ_FAMILY_V4];
	const struct hz_primary_ref *ipv6 = &desired->primary_ips[HZ_FAMILY_V6];
	/* The API accepts an address or a subnet in the network only in the action
	 * attach_to_network, so a balancer for which one of them is asked is attached after it was
	 * created. */
	bool has_network = desired->network != 0 && !desired->private_ip.is_set &&
	                   !desired->subnet.is_set;

	json_begin_object(b, NULL);
	json_add_members(b, JSON_TEXT("name", desired->name),
	                 JSON_NUMBER("load_balancer_type", type->id));
	if (desired->algorithm.len > 0)
		json_add_object(b, "algorithm", JSON_TEXT("type", desired->algorithm));
	json_add_members(b,
	                 JSON_IF(desired->location.len > 0,
	                         JSON_TEXT("location", desired->location)),
	                 JSON_IF(desired->network_zone.len > 0,
	                         JSON_TEXT("network_zone", desired->network_zone)));
	hz_body_add_labels(b, NULL, 0, desired);
	json_add_members(b, hz_opt_flag("public_interface", desired->is_public));
	if (ipv4->is_set || ipv6->is_set)
		json_add_object(b, "public_net",
		                JSON_IF(ipv4->is_set, JSON_NUMBER("ipv4", ipv4->id)),
		                JSON_IF(ipv6->is_set, JSON_NUMBER("ipv6", ipv6->id)));
	if (without_parts) {
		json_end_object(b);
		return;
	}

	if (has_network)
		json_add_number(b, "network", desired->network);
	if (desired->n_services > 0) {
		json_begin_array(b, "services");
		for (size_t i = 0; i < desired->n_services; i++)
			hz_body_service(b, &desired->services[i]);
		json_end_array(b);
	}
	n_targets = hz_body_count_targets(desired, type, has_network, n_targets);
	if (n_targets > 0) {
		json_begin_array(b, "targets");
		for (size_t i = 0; i < n_targets; i++)
			hz_body_target(b, &targets[i], /*is_removed=*/false);
		json_end_array(b);
	}
	json_end_object(b);
}

/* ---- writing: other requests ---- */

void
hz_body_put(struct buf *b, const struct hz_lb *lb, struct str name, bool is_relabelled,
            const struct hz_lb_desired *desired)
{
	json_begin_object(b, NULL);
	if (name.len > 0)
		json_add_text(b, "name", name);
	if (is_relabelled) /* a PUT replaces all labels */
		hz_body_add_labels(b, lb->labels, lb->n_labels, desired);
	json_end_object(b);
}

void
hz_body_attach(struct buf *b, const struct hz_lb_desired *desired)
{
	json_add_object(b, NULL, JSON_NUMBER("network", desired->network),
	                hz_opt_text("ip", &desired->private_ip),
	                hz_opt_text("ip_range", &desired->subnet));
}

void
hz_body_certificate(struct buf *b, const struct hz_lb_desired *desired)
{
	json_begin_object(b, NULL);
	json_add_members(b, JSON_TEXT("name", desired->certificate_name),
	                 JSON_TEXT("type", STR("managed")));
	json_add_texts(b, "domain_names", desired->domains, desired->n_domains);
	json_add_object(b, "labels", JSON_TEXT(HZ_LABEL_UID, desired->uid),
	                JSON_IF(desired->is_staging, JSON_TEXT("HC-Use-Staging-CA", STR("true"))));
	json_end_object(b);
}
