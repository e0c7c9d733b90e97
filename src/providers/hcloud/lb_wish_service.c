/* lb_wish_service.c: what a Service wants for its ports: the same for each, but for the numbers (hcloud.md 3.8).
 *
 * Annotations are read once and only where there is a port that a balancer can have: without, nobody minds their mistakes.
 */
#include "providers/hcloud/lb_wish_internal.h"
#include "providers/hcloud/operations.h"

#define BUILDER "hcops/hclbServiceOptsBuilder."
#define OPTIONS SERVICES ": " BUILDER "buildAddServiceOpts: " BUILDER "extract"
#define CHECKS SERVICES ": " BUILDER "buildAddServiceOpts: " BUILDER "extractHealthCheck"

enum field_type {
	TEXT,
	TRUTH,
	NUMBER,
	SECONDS,
};

struct field {
	const char *key;
	enum field_type type;
	size_t offset;
};

#define HTTP(field) offsetof(struct hz_lb_http, field)
#define CHECK(field) offsetof(struct hz_lb_check, field)

/* In the order in which the official controller reads them. */
static const struct field http_fields[] = {
	{ HZ_LB_PREFIX "http-cookie-name", TEXT, HTTP(cookie_name) },
	{ HZ_LB_PREFIX "http-cookie-lifetime", SECONDS, HTTP(cookie_lifetime_s) },
	{ HZ_LB_PREFIX "http-timeout-idle", SECONDS, HTTP(timeout_idle_s) },
	{ HZ_LB_PREFIX "http-redirect-http", TRUTH, HTTP(redirects) },
	{ HZ_LB_PREFIX "http-sticky-sessions", TRUTH, HTTP(is_sticky) },
};

static const struct field check_fields[] = {
	{ HZ_LB_PREFIX "health-check-interval", SECONDS, CHECK(interval_s) },
	{ HZ_LB_PREFIX "health-check-timeout", SECONDS, CHECK(timeout_s) },
	{ HZ_LB_PREFIX "health-check-retries", NUMBER, CHECK(retries) },
};

static const struct field http_check_fields[] = {
	{ HZ_LB_PREFIX "health-check-http-domain", TEXT, CHECK(domain) },
	{ HZ_LB_PREFIX "health-check-http-path", TEXT, CHECK(path) },
	{ HZ_LB_PREFIX "health-check-http-validate-certificate", TRUTH, CHECK(is_tls) },
};

static bool
read_field(const struct reader *r, const struct field *f, void *to)
{
	switch (f->type) {
	case TEXT:
		hz_annotation_text(r->spec, f->key, to);
		return true;
	case TRUTH:
		return hz_annotation_tri(r->spec, f->key, to, r->err);
	case NUMBER:
		return hz_annotation_int(r->spec, f->key, to, r->err);
	case SECONDS:
		return hz_annotation_seconds(r->spec, f->key, to, r->err);
	}
	return false;
}

static bool
read_fields(const struct reader *r, const struct field fields[], size_t n, void *into)
{
	for (size_t i = 0; i < n; i++) {
		if (!read_field(r, &fields[i], (char *)into + fields[i].offset))
			return false;
	}
	return true;
}

static bool
is_any_there(const struct reader *r, const struct field fields[], size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (lb_annotation(r->spec, fields[i].key))
			return true;
	}
	return false;
}

/* ---- protocols and http ------------------------------------------------------------------------------ */

static bool
read_protocols(const struct reader *r, struct hz_lb_service *s)
{
	struct hz_opt_str protocol = { .value = STR("tcp") };

	s->proxy_protocol = r->lb->uses_proxy_protocol;
	if (!hz_annotation_tri(r->spec, HZ_LB_PREFIX "uses-proxyprotocol", &s->proxy_protocol,
	                       r->err) ||
	    !hz_annotation_protocol(r->spec, HZ_LB_PREFIX "protocol", &protocol, r->err))
		return false;
	s->protocol = protocol.value;
	return true;
}

static bool
read_http(const struct reader *r, struct hz_lb_service *s)
{
	s->http.has_certificates = r->wish->is_managed ||
	                           lb_annotation(r->spec, HZ_LB_PREFIX "http-certificates");
	s->has_http = s->http.has_certificates ||
	              is_any_there(r, http_fields, ARRAY_LEN(http_fields));
	return read_fields(r, http_fields, ARRAY_LEN(http_fields), &s->http);
}

static bool
read_options(const struct reader *r, struct hz_lb_service *s)
{
	hz_count_operations(BUILDER "extract", 1);
	return (read_protocols(r, s) && read_http(r, s)) || err_wrap(r->err, OPTIONS);
}

/* ---- health checks ----------------------------------------------------------------------------------- */

/* What a check is made with where the annotation is not there; none of ours: the cloud's own. */
static void
set_defaults(const struct reader *r, struct hz_lb_check *check)
{
	const struct hz_lb_config *lb = r->lb;

	if (lb->health_interval_ns != 0)
		check->interval_s = (struct hz_opt_i64){ true,
			                                 lb->health_interval_ns / NS_PER_SEC };
	if (lb->health_timeout_ns != 0)
		check->timeout_s = (struct hz_opt_i64){ true, lb->health_timeout_ns / NS_PER_SEC };
	if (lb->health_retries != 0)
		check->retries = (struct hz_opt_i64){ true, lb->health_retries };
}

/* Details of http alone do not make a check another than the default one. */
static bool
is_check_wanted(const struct hz_lb_check *check, const struct hz_opt_str *protocol,
                const struct hz_opt_i64 *port)
{
	return protocol->is_set || port->is_set || check->interval_s.is_set ||
	       check->timeout_s.is_set || check->retries.is_set;
}

static bool
read_http_check(const struct reader *r, struct hz_lb_check *check)
{
	check->has_status_codes = hz_annotation_list(r->spec, HZ_LB_PREFIX "http-status-codes",
	                                             r->arena, &check->status_codes,
	                                             &check->n_status_codes);
	return read_fields(r, http_check_fields, ARRAY_LEN(http_check_fields), check);
}

/* lb_wish.h says what https means. */
static bool
resolve_check(const struct reader *r, const struct hz_opt_str *protocol, struct hz_lb_check *check)
{
	if (str_eq_c(protocol->value, "tcp")) {
		check->protocol = protocol->value;
		return true;
	}
	check->protocol = STR("http");
	if (!read_http_check(r, check))
		return false;
	if (protocol->is_set && str_eq_c(protocol->value, "https"))
		check->is_tls = HZ_YES;
	else if (protocol->is_set && check->is_tls == HZ_UNSET)
		check->is_tls = HZ_NO; /* it may have been https before */
	return true;
}

static bool
read_check(const struct reader *r, struct hz_lb_service *s, struct hz_opt_i64 *port)
{
	struct hz_opt_str protocol = { .value = s->protocol };

	hz_count_operations(BUILDER "extractHealthCheck", 1);
	set_defaults(r, &s->check);
	if (!hz_annotation_protocol(r->spec, HZ_LB_PREFIX "health-check-protocol", &protocol,
	                            r->err) ||
	    !hz_annotation_int(r->spec, HZ_LB_PREFIX "health-check-port", port, r->err) ||
	    !read_fields(r, check_fields, ARRAY_LEN(check_fields), &s->check) ||
	    !resolve_check(r, &protocol, &s->check))
		return err_wrap(r->err, CHECKS);
	if (!is_check_wanted(&s->check, &protocol, port))
		s->check = (struct hz_lb_check){ .protocol = STR("tcp") };
	return true;
}

/* ---- ports ------------------------------------------------------------------------------------------- */

static void
sort_out(const struct reader *r)
{
	struct hz_lb_wish *wish = r->wish;
	size_t n = r->spec->n_ports;

	wish->services = arena_calloc(r->arena, n, sizeof(*wish->services));
	wish->unsupported = arena_calloc(r->arena, n, sizeof(struct lb_port *));
	for (size_t i = 0; i < n; i++) {
		const struct lb_port *port = &r->spec->ports[i];

		if (port->protocol != LB_TCP) {
			wish->unsupported[wish->n_unsupported++] = port;
			continue;
		}
		wish->services[wish->n_services++] = (struct hz_lb_service){
			.listen_port = port->port,
			.destination_port = port->node_port,
		};
	}
}

static void
set_ports(struct hz_lb_service *s, const struct hz_lb_service *model, struct hz_opt_i64 check_port)
{
	int64_t listen_port = s->listen_port, destination_port = s->destination_port;

	*s = *model;
	s->listen_port = listen_port;
	s->destination_port = destination_port;
	s->check.port = check_port.is_set ? check_port.value : destination_port;
}

bool
hz_lb_wish_read_services(const struct reader *r)
{
	struct hz_opt_i64 check_port = { 0 };
	struct hz_lb_service model = { 0 };

	sort_out(r);
	if (r->wish->n_services == 0)
		return true;
	if (!read_options(r, &model) || !read_check(r, &model, &check_port))
		return false;
	for (size_t i = 0; i < r->wish->n_services; i++)
		set_ports(&r->wish->services[i], &model, check_port);
	return true;
}
