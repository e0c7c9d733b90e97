/* lb_desired.c: see lb_desired.h.
 *
 * First the types of annotations, then one reader for each group of settings. If several
 * annotations are wrong, the one that the official controller reads first is reported, so the order
 * of the readers matters. All ports of a Service have the same settings; they are read once, and
 * only if there is a port that a balancer can serve, because without such a port mistakes in the
 * settings have no effect.
 */
#include "providers/hcloud/lb_desired.h"

#include "base/ip.h"
#include "base/names.h"
#include "providers/hcloud/api.h"
#include "providers/hcloud/config.h"

enum {
	WHY_MAX = 700,
};

/* The official controller's names of operations, in error texts and in its metric. */
#define BOOL "annotation/Name.BoolFromService"
#define INT "annotation/Name.IntFromService"
#define DURATION "annotation/Name.DurationFromService"
#define PROTOCOL "annotation/Name.LBSvcProtocolFromService"
#define ALGORITHM "annotation/Name.LBAlgorithmTypeFromService"
#define STRINGS "annotation/Name.StringsFromService"

static const struct str *
hz_annotation_look_up(const struct lb_spec *spec, const char *key, const char *operation)
{
	hz_count_operations(operation, 1);
	return lb_annotation(spec, key);
}

const char *const hz_lb_annotations[] = {
	"algorithm-type",
	"certificate-type",
	"disable-private-ingress",
	"disable-public-network",
	"health-check-http-domain",
	"health-check-http-path",
	"health-check-http-validate-certificate",
	"health-check-interval",
	"health-check-port",
	"health-check-protocol",
	"health-check-retries",
	"health-check-timeout",
	"hostname",
	"http-certificates",
	"http-cookie-lifetime",
	"http-cookie-name",
	"http-managed-certificate-acme-staging",
	"http-managed-certificate-domains",
	"http-managed-certificate-name",
	"http-redirect-http",
	"http-status-codes",
	"http-sticky-sessions",
	"http-timeout-idle",
	"ipv4-rdns",
	"ipv6-disabled",
	"ipv6-rdns",
	"location",
	"name",
	"network-zone",
	"node-selector",
	"private-ipv4",
	"private-subnet-ip-range",
	"protocol",
	"public-net-ipv4",
	"public-net-ipv6",
	"type",
	"use-private-ip",
	"uses-proxyprotocol",
	NULL,
};

const char *const hz_lb_annotation_lists[] = { "http-certificates",
	                                       "http-managed-certificate-domains", NULL };

/* ---- annotations: numbers and booleans ---- */

static bool
hz_annotation_set_unreadable(const char *operation, const char *key, const struct buf *why,
                             struct error *err)
{
	return err_set(err, ERR_INVALID, "%s: %s: %s", operation, key, why->ptr);
}

bool
hz_annotation_bool(const struct lb_spec *spec, const char *key, bool *ret, struct error *err)
{
	const struct str *text = hz_annotation_look_up(spec, key, BOOL);
	char memory[WHY_MAX] = "";
	struct buf why = BUF_FIXED(memory);

	return !text || hz_parse_bool(*text, ret, &why) ||
	       hz_annotation_set_unreadable(BOOL, key, &why, err);
}

bool
hz_annotation_tri(const struct lb_spec *spec, const char *key, enum hz_tri *ret, struct error *err)
{
	bool is_yes = false;

	if (!hz_annotation_bool(spec, key, &is_yes, err))
		return false;
	if (lb_annotation(spec, key))
		*ret = is_yes ? HZ_YES : HZ_NO;
	return true;
}

bool
hz_annotation_int(const struct lb_spec *spec, const char *key, struct hz_opt_i64 *ret,
                  struct error *err)
{
	const struct str *text = hz_annotation_look_up(spec, key, INT);
	char memory[WHY_MAX] = "";
	struct buf why = BUF_FIXED(memory);
	int64_t value;

	if (!text)
		return true;
	if (!hz_parse_int(*text, &value, &why))
		return hz_annotation_set_unreadable(INT, key, &why, err);
	*ret = (struct hz_opt_i64){ true, value };
	return true;
}

/* The official controller's text does not name the annotation; here it follows in brackets. */
static bool
hz_annotation_set_no_duration(const char *key, const struct buf *why, struct error *err)
{
	return err_set(err, ERR_INVALID, DURATION ": %s (%s)", why->ptr, key);
}

bool
hz_annotation_seconds(const struct lb_spec *spec, const char *key, struct hz_opt_i64 *ret,
                      struct error *err)
{
	const struct str *text = hz_annotation_look_up(spec, key, DURATION);
	char memory[WHY_MAX] = "";
	struct buf why = BUF_FIXED(memory);
	int64_t value;

	if (!text)
		return true;
	if (!str_to_i64(*text, INT64_MIN, INT64_MAX, &value)) {
		if (!hz_parse_duration(*text, &value, &why))
			return hz_annotation_set_no_duration(key, &why, err);
		value /= NS_PER_SEC;
	}
	*ret = (struct hz_opt_i64){ true, value };
	return true;
}

/* ---- words ---- */

/* The text must equal one of the words, which are in lower case, without regard to its own case.
 * NULL ends the list of words. */
static bool
hz_annotation_read_word(struct str text, const char *operation, const char *const words[],
                        struct hz_opt_str *ret)
{
	hz_count_operations(operation, 1);
	for (; *words; words++) {
		if (str_eq_nocase(text, str_c(*words))) {
			*ret = (struct hz_opt_str){ true, str_c(*words) };
			return true;
		}
	}
	return false;
}

/* where: the official controller's functions that read and check the annotation. */
static bool
hz_annotation_set_unknown_word(const char *where, const char *key, struct str text,
                               struct error *err)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;

	text = arena_lower(&arena, text);
	return err_set(err, ERR_INVALID, "%s: invalid: %" STR_FMT " (%s)", where, STR_ARG(text),
	               key);
}

bool
hz_annotation_protocol(const struct lb_spec *spec, const char *key, struct hz_opt_str *ret,
                       struct error *err)
{
	static const char *const protocols[] = { "tcp", "http", "https", NULL };
	const struct str *text = hz_annotation_look_up(spec, key, PROTOCOL);

	return !text ||
	       hz_annotation_read_word(*text, "annotation/validateServiceProtocol", protocols,
	                               ret) ||
	       hz_annotation_set_unknown_word(PROTOCOL ": annotation/validateServiceProtocol", key,
	                                      *text, err);
}

bool
hz_annotation_algorithm(const struct lb_spec *spec, const char *key, struct hz_opt_str *ret,
                        struct error *err)
{
	static const char *const algorithms[] = { "round_robin", "least_connections", NULL };
	const struct str *text = hz_annotation_look_up(spec, key, ALGORITHM);

	return !text ||
	       hz_annotation_read_word(*text, "annotation/validateAlgorithmType", algorithms,
	                               ret) ||
	       hz_annotation_set_unknown_word(ALGORITHM ": annotation/validateAlgorithmType", key,
	                                      *text, err);
}

/* ---- texts ---- */

void
hz_annotation_text(const struct lb_spec *spec, const char *key, struct hz_opt_str *ret)
{
	const struct str *text = lb_annotation(spec, key);

	if (text)
		*ret = (struct hz_opt_str){ true, *text };
}

static size_t
hz_annotation_count_elements(struct str text)
{
	size_t n = 0;

	for (struct str element; str_split(&text, ',', &element);)
		n += str_trim(element).len > 0;
	return n;
}

bool
hz_annotation_list(const struct lb_spec *spec, const char *key, struct arena *arena,
                   struct str **ret, size_t *ret_n)
{
	const struct str *text = hz_annotation_look_up(spec, key, STRINGS);
	struct str *elements;
	size_t n = 0;

	if (!text)
		return false;
	elements = arena_calloc(arena, hz_annotation_count_elements(*text), sizeof(*elements));
	for (struct str element, rest = *text; str_split(&rest, ',', &element);) {
		element = str_trim(element);
		if (element.len > 0)
			elements[n++] = element;
	}
	*ret = elements;
	*ret_n = n;
	return true;
}

#define DEFAULT_TYPE "lb11"
#define DEFAULT_CERTIFICATE "ccm-managed-certificate-"

#define SERVICES "hcops/LoadBalancerOps.ReconcileHCLBServices"
#define SHAPE "hcops/LoadBalancerOps.ReconcileHCLB: hcops/LoadBalancerOps."
#define TARGETS "hcops/LoadBalancerOps.ReconcileHCLBTargets"

struct reader {
	const struct hz_lb_config *lb;
	const struct lb_spec *spec;
	struct arena *arena;
	struct hz_lb_desired *desired;
	struct error *err;
};

/* ---- nodes ---- */

static bool
hz_desired_read_selector(const struct lb_spec *spec, struct arena *arena,
                         const struct hz_selector **ret, struct error *err)
{
	struct hz_opt_str text = { .value = STR_EMPTY };

	hz_annotation_text(spec, HZ_LB_PREFIX "node-selector", &text);
	return hz_selector_parse(text.value, arena, ret, err) ||
	       err_wrap(err, "unable to parse the node-selector annotation");
}

const struct hz_selector *
hz_lb_selection(const struct lb_spec *spec, struct arena *arena)
{
	const struct hz_selector *selector = NULL;
	struct error ignored;

	if (lb_annotation(spec, HZ_LB_PREFIX "node-selector") &&
	    !hz_desired_read_selector(spec, arena, &selector, &ignored))
		return NULL;
	return selector;
}

bool
hz_lb_selects(const struct hz_selector *selector, const struct node_ref *node)
{
	return !selector || hz_selector_matches(selector, node->labels, node->n_labels);
}

static bool
hz_desired_check_selector(const struct reader *r)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	const struct hz_selector *selector;

	return hz_desired_read_selector(r->spec, &arena, &selector, r->err);
}

/* ---- labels ---- */

/* --cluster-name may be any text. The API permits the same label values as Kubernetes, and refuses
 * the whole request otherwise, so another name is left out. */
static struct str
hz_desired_cluster_label(struct str name)
{
	return name_is_label_value(name) ? name : STR_EMPTY;
}

/* ---- name, place and type ---- */

/* The annotation, even if it is empty; if it is absent, the value of the configuration. */
static struct str
hz_desired_text_or(const struct reader *r, const char *key, struct str otherwise)
{
	struct hz_opt_str text = { .value = otherwise };

	hz_annotation_text(r->spec, key, &text);
	return text.value;
}

static void
hz_desired_read_name(const struct reader *r)
{
	struct str name = hz_desired_text_or(r, HZ_LB_PREFIX "name", STR_EMPTY);

	r->desired->is_named = name.len > 0;
	r->desired->name = r->desired->is_named ? name : r->spec->name;
}

static void
hz_desired_read_place(const struct reader *r)
{
	struct hz_lb_desired *desired = r->desired;

	desired->location = hz_desired_text_or(r, HZ_LB_PREFIX "location", r->lb->location);
	desired->network_zone = hz_desired_text_or(r, HZ_LB_PREFIX "network-zone",
	                                           r->lb->network_zone);
	if (desired->location.len > 0)
		desired->network_zone = STR_EMPTY;
}

bool
hz_lb_desired_has_place(const struct hz_lb_desired *desired, struct error *err)
{
	return desired->location.len > 0 || desired->network_zone.len > 0 ||
	       err_set(err, ERR_INVALID,
	               "hcops/LoadBalancerOps.Create: neither " HZ_LB_PREFIX
	               "location nor " HZ_LB_PREFIX "network-zone set");
}

static void
hz_desired_read_type(const struct reader *r)
{
	struct str type = hz_desired_text_or(r, HZ_LB_PREFIX "type", r->lb->type);

	r->desired->is_type_chosen = type.len > 0;
	r->desired->type = r->desired->is_type_chosen ? type : STR(DEFAULT_TYPE);
}

bool
hz_lb_has_type(const struct hz_config *config, const struct lb_spec *spec)
{
	struct reader r = { .lb = &config->lb, .spec = spec };

	return hz_desired_text_or(&r, HZ_LB_PREFIX "type", r.lb->type).len > 0;
}

static void
hz_desired_read_rdns(const struct reader *r, const char *key, struct hz_opt_str *ret)
{
	hz_annotation_text(r->spec, key, ret);
	ret->is_set = ret->value.len > 0;
}

/* The value of the configuration is trimmed and lower-cased here. The official controller sends it
 * as it is, and the API refuses it each time. */
static bool
hz_desired_read_algorithm(const struct reader *r)
{
	struct hz_opt_str algorithm = {
		.value = arena_lower(r->arena, str_trim(r->lb->algorithm)),
	};

	if (!hz_annotation_algorithm(r->spec, HZ_LB_PREFIX "algorithm-type", &algorithm, r->err))
		return err_wrap(r->err, SHAPE "changeAlgorithm");
	r->desired->algorithm = algorithm.value;
	return true;
}

/* ---- networks ---- */

static struct hz_opt_str
hz_desired_canonical(struct arena *arena, const struct ip *ip, int bits)
{
	char memory[64] = "";
	struct buf b = BUF_FIXED(memory);

	ip_format(&b, ip);
	if (bits >= 0)
		buf_addf(&b, "/%d", bits);
	return (struct hz_opt_str){ true, arena_str(arena, buf_str(&b)) };
}

static bool
hz_desired_read_private_ip(const struct reader *r)
{
	struct hz_opt_str text = { 0 };
	struct ip ip;

	hz_annotation_text(r->spec, HZ_LB_PREFIX "private-ipv4", &text);
	if (!text.is_set)
		return true;
	if (!ip_parse(text.value, &ip))
		return err_set(r->err, ERR_INVALID,
		               SHAPE "attachToNetwork: could not parse private IPv4 '%" STR_FMT "'",
		               STR_ARG(text.value));
	r->desired->private_ip = hz_desired_canonical(r->arena, &ip, -1);
	return true;
}

/* "10.0.1.5/24" asks for 10.0.1.0/24. */
static bool
hz_desired_read_subnet(const struct reader *r)
{
	struct str text = hz_desired_text_or(r, HZ_LB_PREFIX "private-subnet-ip-range",
	                                     r->lb->private_subnet);
	struct ip first, last;
	struct ip_net net;
	bool is_v4;

	if (text.len == 0)
		return true;
	if (!ip_net_parse(text, &net))
		return err_set(r->err, ERR_INVALID,
		               SHAPE "attachToNetwork: could not parse private subnet IP range "
		                     "'%" STR_FMT "'",
		               STR_ARG(text));
	ip_net_span(&net, &first, &last);
	is_v4 = str_index(text, ':') < 0;
	r->desired->subnet = hz_desired_canonical(r->arena, &first,
	                                          (int)net.bits - (is_v4 ? 96 : 0));
	return true;
}

static bool
hz_desired_read_public(const struct reader *r)
{
	enum hz_tri is_hidden = r->lb->hides_public;

	if (!hz_annotation_tri(r->spec, HZ_LB_PREFIX "disable-public-network", &is_hidden, r->err))
		return err_wrap(r->err, SHAPE "togglePublicInterface");
	if (is_hidden != HZ_UNSET)
		r->desired->is_public = is_hidden == HZ_YES ? HZ_NO : HZ_YES;
	return true;
}

static void
hz_desired_read_primary_ip(const struct reader *r, const char *key, struct hz_primary_ref *ret)
{
	const struct str *text = lb_annotation(r->spec, key);

	if (!text)
		return;
	*ret = (struct hz_primary_ref){ .is_set = true, .text = *text };
	if (!str_to_i64(str_trim(*text), 1, INT64_MAX, &ret->id))
		ret->id = 0;
}

static bool
hz_desired_read_networks(const struct reader *r)
{
	hz_desired_read_primary_ip(r, HZ_LB_PREFIX "public-net-ipv4",
	                           &r->desired->primary_ips[HZ_FAMILY_V4]);
	hz_desired_read_primary_ip(r, HZ_LB_PREFIX "public-net-ipv6",
	                           &r->desired->primary_ips[HZ_FAMILY_V6]);
	if (r->desired->network != 0 &&
	    (!hz_desired_read_private_ip(r) || !hz_desired_read_subnet(r)))
		return false;
	return hz_desired_read_public(r);
}

static bool
hz_desired_read_targets(const struct reader *r)
{
	r->desired->uses_private_ip = r->lb->uses_private_ip;
	if (!hz_annotation_bool(r->spec, HZ_LB_PREFIX "use-private-ip",
	                        &r->desired->uses_private_ip, r->err))
		return err_wrap(r->err, TARGETS);
	return !r->desired->uses_private_ip || r->desired->network != 0 ||
	       err_set(r->err, ERR_INVALID, TARGETS ": use private ip: missing network id");
}

/* ---- certificates ---- */

/* A value that cannot be read counts as no. */
static bool
hz_desired_is_staging(const struct reader *r)
{
	struct error ignored;
	bool is_yes = false;

	return hz_annotation_bool(r->spec, HZ_LB_PREFIX "http-managed-certificate-acme-staging",
	                          &is_yes, &ignored) &&
	       is_yes;
}

static bool
hz_desired_read_managed(const struct reader *r)
{
	struct hz_lb_desired *desired = r->desired;

	desired->certificate_name = hz_desired_text_or(r,
	                                               HZ_LB_PREFIX "http-managed-certificate-name",
	                                               STR_EMPTY);
	if (desired->certificate_name.len == 0)
		desired->certificate_name = arena_printf(r->arena, DEFAULT_CERTIFICATE "%" STR_FMT,
		                                         STR_ARG(r->spec->uid));
	desired->is_staging = hz_desired_is_staging(r);
	if (!hz_annotation_list(r->spec, HZ_LB_PREFIX "http-managed-certificate-domains", r->arena,
	                        &desired->domains, &desired->n_domains) ||
	    desired->n_domains == 0)
		return err_set(r->err, ERR_INVALID,
		               SERVICES ": hcops/LoadBalancerOps.reconcileManagedCertificate: "
		                        "no domains for managed certificate");
	return true;
}

/* An element that is not a number is a name. */
static void
hz_desired_read_uploaded(const struct reader *r)
{
	struct hz_lb_desired *desired = r->desired;
	struct str *elements;

	if (!hz_annotation_list(r->spec, HZ_LB_PREFIX "http-certificates", r->arena, &elements,
	                        &desired->n_certificates))
		return;
	desired->certificates = arena_calloc(r->arena, desired->n_certificates,
	                                     sizeof(*desired->certificates));
	for (size_t i = 0; i < desired->n_certificates; i++) {
		struct hz_certificate_ref *ref = &desired->certificates[i];

		ref->name = elements[i];
		if (!str_to_i64(elements[i], 1, INT64_MAX, &ref->id))
			ref->id = 0;
	}
}

static bool
hz_desired_read_certificates(const struct reader *r)
{
	struct str type = hz_desired_text_or(r, HZ_LB_PREFIX "certificate-type", STR_EMPTY);

	r->desired->is_managed = str_eq_c(type, "managed"); /* its case matters */
	if (r->desired->is_managed)
		return hz_desired_read_managed(r);
	hz_desired_read_uploaded(r);
	return true;
}

/* ---- settings of ports, as tables ---- */

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
hz_desired_read_field(const struct reader *r, const struct field *f, void *to)
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
hz_desired_read_fields(const struct reader *r, const struct field fields[], size_t n, void *into)
{
	for (size_t i = 0; i < n; i++) {
		if (!hz_desired_read_field(r, &fields[i], (char *)into + fields[i].offset))
			return false;
	}
	return true;
}

static bool
hz_desired_has_any(const struct reader *r, const struct field fields[], size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (lb_annotation(r->spec, fields[i].key))
			return true;
	}
	return false;
}

/* ---- protocols and http ---- */

static bool
hz_desired_read_protocols(const struct reader *r, struct hz_lb_service *s)
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
hz_desired_read_service_http(const struct reader *r, struct hz_lb_service *s)
{
	s->http.has_certificates = r->desired->is_managed ||
	                           lb_annotation(r->spec, HZ_LB_PREFIX "http-certificates");
	s->has_http = s->http.has_certificates ||
	              hz_desired_has_any(r, http_fields, ARRAY_LEN(http_fields));
	return hz_desired_read_fields(r, http_fields, ARRAY_LEN(http_fields), &s->http);
}

static bool
hz_desired_read_service_options(const struct reader *r, struct hz_lb_service *s)
{
	hz_count_operations(BUILDER "extract", 1);
	return (hz_desired_read_protocols(r, s) && hz_desired_read_service_http(r, s)) ||
	       err_wrap(r->err, OPTIONS);
}

/* ---- health checks ---- */

/* The values of the configuration, for absent annotations. A value that is not configured either is
 * the cloud's default. */
static void
hz_desired_set_defaults(const struct reader *r, struct hz_lb_check *check)
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

/* Is a health check asked for? Annotations with details of http alone do not count. */
static bool
hz_desired_is_check_wanted(const struct hz_lb_check *check, const struct hz_opt_str *protocol,
                           const struct hz_opt_i64 *port)
{
	return protocol->is_set || port->is_set || check->interval_s.is_set ||
	       check->timeout_s.is_set || check->retries.is_set;
}

static bool
hz_desired_read_http_check(const struct reader *r, struct hz_lb_check *check)
{
	check->has_status_codes = hz_annotation_list(r->spec, HZ_LB_PREFIX "http-status-codes",
	                                             r->arena, &check->status_codes,
	                                             &check->n_status_codes);
	return hz_desired_read_fields(r, http_check_fields, ARRAY_LEN(http_check_fields), check);
}

/* lb_desired.h says what https means. */
static bool
hz_desired_resolve_check(const struct reader *r, const struct hz_opt_str *protocol,
                         struct hz_lb_check *check)
{
	if (str_eq_c(protocol->value, "tcp")) {
		check->protocol = protocol->value;
		return true;
	}
	check->protocol = STR("http");
	if (!hz_desired_read_http_check(r, check))
		return false;
	if (protocol->is_set && str_eq_c(protocol->value, "https"))
		check->is_tls = HZ_YES;
	else if (protocol->is_set && check->is_tls == HZ_UNSET)
		check->is_tls = HZ_NO; /* switches TLS off if the check was https before */
	return true;
}

static bool
hz_desired_read_check(const struct reader *r, struct hz_lb_service *s, struct hz_opt_i64 *port)
{
	struct hz_opt_str protocol = { .value = s->protocol };

	hz_count_operations(BUILDER "extractHealthCheck", 1);
	hz_desired_set_defaults(r, &s->check);
	if (!hz_annotation_protocol(r->spec, HZ_LB_PREFIX "health-check-protocol", &protocol,
	                            r->err) ||
	    !hz_annotation_int(r->spec, HZ_LB_PREFIX "health-check-port", port, r->err) ||
	    !hz_desired_read_fields(r, check_fields, ARRAY_LEN(check_fields), &s->check) ||
	    !hz_desired_resolve_check(r, &protocol, &s->check))
		return err_wrap(r->err, CHECKS);
	if (!hz_desired_is_check_wanted(&s->check, &protocol, port))
		s->check = (struct hz_lb_check){ .protocol = STR("tcp") };
	return true;
}

/* ---- ports ---- */

static void
hz_desired_read_ports(const struct reader *r)
{
	struct hz_lb_desired *desired = r->desired;
	const struct lb_port *ports = r->spec->ports;

	desired->n_services = r->spec->n_ports;
	desired->services = arena_calloc(r->arena, desired->n_services, sizeof(*desired->services));
	for (size_t i = 0; i < desired->n_services; i++)
		desired->services[i] = (struct hz_lb_service){
			.listen_port = ports[i].port,
			.destination_port = ports[i].node_port,
		};
}

static void
hz_desired_set_ports(struct hz_lb_service *s, const struct hz_lb_service *model,
                     struct hz_opt_i64 check_port)
{
	int64_t listen_port = s->listen_port, destination_port = s->destination_port;

	*s = *model;
	s->listen_port = listen_port;
	s->destination_port = destination_port;
	s->check.port = check_port.is_set ? check_port.value : destination_port;
}

static bool
hz_desired_read_services(const struct reader *r)
{
	struct hz_opt_i64 check_port = { 0 };
	struct hz_lb_service model = { 0 };

	hz_desired_read_ports(r);
	if (r->desired->n_services == 0)
		return true;
	if (!hz_desired_read_service_options(r, &model) ||
	    !hz_desired_read_check(r, &model, &check_port))
		return false;
	for (size_t i = 0; i < r->desired->n_services; i++)
		hz_desired_set_ports(&r->desired->services[i], &model, check_port);
	return true;
}

/* ---- the desired balancer ---- */

/* In the order in which the official controller would report mistakes. */
static bool
hz_desired_read_all(const struct reader *r)
{
	if (!hz_desired_check_selector(r))
		return false;
	hz_desired_read_name(r);
	hz_desired_read_place(r);
	hz_desired_read_type(r);
	hz_desired_read_rdns(r, HZ_LB_PREFIX "ipv4-rdns", &r->desired->ipv4_rdns);
	hz_desired_read_rdns(r, HZ_LB_PREFIX "ipv6-rdns", &r->desired->ipv6_rdns);
	return hz_desired_read_algorithm(r) && hz_desired_read_networks(r) &&
	       hz_desired_read_certificates(r) && hz_desired_read_services(r) &&
	       hz_desired_read_targets(r);
}

bool
hz_lb_desired_read(const struct hz_config *config, int64_t network, const struct lb_spec *spec,
                   struct arena *arena, struct hz_lb_desired *ret, struct error *err)
{
	struct hz_lb_desired desired = {
		.uid = spec->uid,
		.cluster = hz_desired_cluster_label(spec->cluster),
		.network = network,
	};
	struct reader r = {
		.lb = &config->lb,
		.spec = spec,
		.arena = arena,
		.desired = &desired,
		.err = err,
	};

	if (!hz_desired_read_all(&r))
		return false;
	*ret = desired;
	return true;
}
