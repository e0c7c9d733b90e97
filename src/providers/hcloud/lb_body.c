/* lb_body.c: see lb_body.h. */
#include "providers/hcloud/lb_body.h"

#include <inttypes.h>

#include "base/json.h"

/* ---- members ----------------------------------------------------------------------------------------- */

/* Between an object's members, and between a list's elements. */
static void
separate(struct buf *b)
{
	if (b->len > 0 && b->ptr[b->len - 1] != '{' && b->ptr[b->len - 1] != '[')
		buf_add_char(b, ',');
}

static void
start_member(struct buf *b, const char *key)
{
	separate(b);
	buf_addf(b, "\"%s\":", key);
}

static void
add_text(struct buf *b, const char *key, struct str text)
{
	start_member(b, key);
	json_add_str(b, text);
}

static void
add_opt_text(struct buf *b, const char *key, const struct hz_opt_str *text)
{
	if (text->is_set)
		add_text(b, key, text->value);
}

static void
add_number(struct buf *b, const char *key, int64_t number)
{
	start_member(b, key);
	buf_addf(b, "%" PRId64, number);
}

static void
add_opt_number(struct buf *b, const char *key, const struct hz_opt_i64 *number)
{
	if (number->is_set)
		add_number(b, key, number->value);
}

static void
add_bool(struct buf *b, const char *key, bool is_so)
{
	start_member(b, key);
	buf_add_c(b, is_so ? "true" : "false");
}

static void
add_tri(struct buf *b, const char *key, enum hz_tri is_so)
{
	if (is_so != HZ_UNSET)
		add_bool(b, key, is_so == HZ_YES);
}

static void
add_texts(struct buf *b, const char *key, const struct str texts[], size_t n)
{
	start_member(b, key);
	buf_add_char(b, '[');
	for (size_t i = 0; i < n; i++) {
		separate(b);
		json_add_str(b, texts[i]);
	}
	buf_add_char(b, ']');
}

static void
add_numbers(struct buf *b, const char *key, const int64_t numbers[], size_t n)
{
	start_member(b, key);
	buf_add_char(b, '[');
	for (size_t i = 0; i < n; i++) {
		separate(b);
		buf_addf(b, "%" PRId64, numbers[i]);
	}
	buf_add_char(b, ']');
}

/* ---- services ---------------------------------------------------------------------------------------- */

static void
add_http(struct buf *b, const struct hz_lb_http *http)
{
	start_member(b, "http");
	buf_add_char(b, '{');
	add_opt_text(b, "cookie_name", &http->cookie_name);
	add_opt_number(b, "cookie_lifetime", &http->cookie_lifetime_s);
	if (http->has_certificates)
		add_numbers(b, "certificates", http->certificates, http->n_certificates);
	add_tri(b, "redirect_http", http->redirects);
	add_tri(b, "sticky_sessions", http->is_sticky);
	add_opt_number(b, "timeout_idle", &http->timeout_idle_s);
	buf_add_char(b, '}');
}

static void
add_http_check(struct buf *b, const struct hz_lb_check *check)
{
	start_member(b, "http");
	buf_add_char(b, '{');
	add_opt_text(b, "domain", &check->domain);
	add_opt_text(b, "path", &check->path);
	if (check->has_status_codes)
		add_texts(b, "status_codes", check->status_codes, check->n_status_codes);
	add_tri(b, "tls", check->is_tls);
	buf_add_char(b, '}');
}

static void
add_check(struct buf *b, const struct hz_lb_check *check)
{
	start_member(b, "health_check");
	buf_add_char(b, '{');
	add_text(b, "protocol", check->protocol);
	add_number(b, "port", check->port);
	add_opt_number(b, "interval", &check->interval_s);
	add_opt_number(b, "timeout", &check->timeout_s);
	add_opt_number(b, "retries", &check->retries);
	if (!str_eq_c(check->protocol, "tcp"))
		add_http_check(b, check);
	buf_add_char(b, '}');
}

void
hz_body_service(struct buf *b, const struct hz_lb_service *s)
{
	buf_add_char(b, '{');
	add_text(b, "protocol", s->protocol);
	add_number(b, "listen_port", s->listen_port);
	add_number(b, "destination_port", s->destination_port);
	add_tri(b, "proxyprotocol", s->proxy_protocol);
	if (s->has_http)
		add_http(b, &s->http);
	add_check(b, &s->check);
	buf_add_char(b, '}');
}

static void
add_services(struct buf *b, const struct hz_lb_wish *wish)
{
	start_member(b, "services");
	buf_add_char(b, '[');
	for (size_t i = 0; i < wish->n_services; i++) {
		separate(b);
		hz_body_service(b, &wish->services[i]);
	}
	buf_add_char(b, ']');
}

/* ---- targets ----------------------------------------------------------------------------------------- */

static void
add_target_name(struct buf *b, const struct hz_lb_target *target)
{
	bool is_ip = target->type == HZ_TARGET_IP;

	add_text(b, "type", is_ip ? STR("ip") : STR("server"));
	start_member(b, is_ip ? "ip" : "server");
	buf_add_char(b, '{');
	if (is_ip)
		add_text(b, "ip", target->ip);
	else
		add_number(b, "id", target->server);
	buf_add_char(b, '}');
}

void
hz_body_target_name(struct buf *b, const struct hz_lb_target *target)
{
	buf_add_char(b, '{');
	add_target_name(b, target);
	buf_add_char(b, '}');
}

void
hz_body_target(struct buf *b, const struct hz_lb_target *target)
{
	buf_add_char(b, '{');
	add_target_name(b, target);
	if (target->type == HZ_TARGET_SERVER)
		add_bool(b, "use_private_ip", target->uses_private_ip);
	buf_add_char(b, '}');
}

static void
add_targets(struct buf *b, const struct hz_lb_target targets[], size_t n)
{
	start_member(b, "targets");
	buf_add_char(b, '[');
	for (size_t i = 0; i < n; i++) {
		separate(b);
		hz_body_target(b, &targets[i]);
	}
	buf_add_char(b, ']');
}

/* ---- a new balancer ---------------------------------------------------------------------------------- */

static void
add_label(struct buf *b, struct str key, struct str value)
{
	separate(b);
	json_add_str(b, key);
	buf_add_char(b, ':');
	json_add_str(b, value);
}

static void
add_own_labels(struct buf *b, const struct hz_lb_wish *wish)
{
	add_label(b, STR(HZ_LABEL_UID), wish->uid);
	if (wish->cluster.len > 0)
		add_label(b, STR(HZ_LABEL_CLUSTER), wish->cluster);
}

static void
add_algorithm(struct buf *b, struct str algorithm)
{
	start_member(b, "algorithm");
	buf_add_char(b, '{');
	add_text(b, "type", algorithm);
	buf_add_char(b, '}');
}

static void
add_head(struct buf *b, const struct hz_lb_wish *wish, const struct hz_lb_type *type)
{
	add_text(b, "name", wish->name);
	add_number(b, "load_balancer_type", type->id);
	if (wish->algorithm.len > 0)
		add_algorithm(b, wish->algorithm);
	if (wish->location.len > 0)
		add_text(b, "location", wish->location);
	if (wish->network_zone.len > 0)
		add_text(b, "network_zone", wish->network_zone);
	start_member(b, "labels");
	buf_add_char(b, '{');
	add_own_labels(b, wish);
	buf_add_char(b, '}');
	add_tri(b, "public_interface", wish->is_public);
}

/* An address or a subnet can only be asked for when it is attached later. */
static bool
names_network(const struct hz_lb_wish *wish)
{
	return wish->network != 0 && !wish->private_ip.is_set && !wish->subnet.is_set;
}

static size_t
count_first_targets(const struct hz_lb_wish *wish, const struct hz_lb_type *type, size_t n)
{
	size_t max = type->max_targets > 0 ? (size_t)type->max_targets : n;
	bool is_reachable = wish->uses_private_ip ? names_network(wish) : wish->is_public != HZ_NO;

	if (!is_reachable)
		return 0;
	return n < max ? n : max;
}

static void
add_parts(struct buf *b, const struct hz_lb_wish *wish, const struct hz_lb_target targets[],
          size_t n_targets)
{
	if (names_network(wish))
		add_number(b, "network", wish->network);
	if (wish->n_services > 0)
		add_services(b, wish);
	if (n_targets > 0)
		add_targets(b, targets, n_targets);
}

void
hz_body_create(struct buf *b, const struct hz_lb_wish *wish, const struct hz_lb_type *type,
               const struct hz_lb_target targets[], size_t n_targets, bool without_parts)
{
	buf_add_char(b, '{');
	add_head(b, wish, type);
	if (!without_parts)
		add_parts(b, wish, targets, count_first_targets(wish, type, n_targets));
	buf_add_char(b, '}');
}

/* ---- the rest ---------------------------------------------------------------------------------------- */

void
hz_body_number(struct buf *b, const char *key, int64_t number)
{
	buf_add_char(b, '{');
	add_number(b, key, number);
	buf_add_char(b, '}');
}

void
hz_body_text(struct buf *b, const char *key, struct str text)
{
	buf_add_char(b, '{');
	add_text(b, key, text);
	buf_add_char(b, '}');
}

void
hz_body_rdns(struct buf *b, struct str ip, struct str dns_ptr)
{
	buf_add_char(b, '{');
	add_text(b, "ip", ip);
	add_text(b, "dns_ptr", dns_ptr);
	buf_add_char(b, '}');
}

static bool
is_own_label(struct str key)
{
	return str_eq_c(key, HZ_LABEL_UID) || str_eq_c(key, HZ_LABEL_CLUSTER);
}

static void
add_all_labels(struct buf *b, const struct hz_lb *lb, const struct hz_lb_wish *wish)
{
	start_member(b, "labels");
	buf_add_char(b, '{');
	for (size_t i = 0; i < lb->n_labels; i++) {
		if (!is_own_label(lb->labels[i].key))
			add_label(b, lb->labels[i].key, lb->labels[i].value);
	}
	add_own_labels(b, wish);
	buf_add_char(b, '}');
}

void
hz_body_put(struct buf *b, const struct hz_lb *lb, struct str name, bool is_relabelled,
            const struct hz_lb_wish *wish)
{
	buf_add_char(b, '{');
	if (name.len > 0)
		add_text(b, "name", name);
	if (is_relabelled)
		add_all_labels(b, lb, wish);
	buf_add_char(b, '}');
}

void
hz_body_attach(struct buf *b, const struct hz_lb_wish *wish)
{
	buf_add_char(b, '{');
	add_number(b, "network", wish->network);
	add_opt_text(b, "ip", &wish->private_ip);
	add_opt_text(b, "ip_range", &wish->subnet);
	buf_add_char(b, '}');
}

void
hz_body_certificate(struct buf *b, const struct hz_lb_wish *wish)
{
	buf_add_char(b, '{');
	add_text(b, "name", wish->certificate_name);
	add_text(b, "type", STR("managed"));
	add_texts(b, "domain_names", wish->domains, wish->n_domains);
	start_member(b, "labels");
	buf_add_char(b, '{');
	add_label(b, STR(HZ_LABEL_UID), wish->uid);
	if (wish->is_staging)
		add_label(b, STR("HC-Use-Staging-CA"), STR("true"));
	buf_add_c(b, "}}");
}
