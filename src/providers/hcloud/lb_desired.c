/* lb_desired.c: see lb_desired.h.
 *
 * hz_lb_desired_read() reads the settings in the order of the official controller: if several
 * annotations are wrong, the one that it reads first is reported. All ports of a Service have the
 * same settings; they are read once, and only if there is a port that a balancer can serve, because
 * without such a port mistakes in the settings have no effect.
 */
#include "providers/hcloud/lb_desired.h"

#include "base/ip.h"
#include "base/names.h"
#include "providers/hcloud/api.h"
#include "providers/hcloud/config.h"

enum {
	WHY_MAX = 700,
};

#define DEFAULT_TYPE "lb11"
#define DEFAULT_CERTIFICATE "ccm-managed-certificate-"

/* The official controller's names of operations, in error texts and in its metric. */
#define SHAPE "hcops/LoadBalancerOps.ReconcileHCLB: hcops/LoadBalancerOps."
#define SERVICES "hcops/LoadBalancerOps.ReconcileHCLBServices"
#define TARGETS "hcops/LoadBalancerOps.ReconcileHCLBTargets"
#define BUILDER "hcops/hclbServiceOptsBuilder."
#define OPTIONS SERVICES ": " BUILDER "buildAddServiceOpts: " BUILDER "extract"
#define CHECKS SERVICES ": " BUILDER "buildAddServiceOpts: " BUILDER "extractHealthCheck"
#define STRINGS "annotation/Name.StringsFromService"

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

/* ---- values of annotations ---- */

enum value_type {
	TEXT,      /* of a struct hz_opt_str; any text is valid */
	BOOL,      /* of a bool */
	OPT_BOOL,  /* of an enum hz_opt_bool */
	INT,       /* of a struct hz_opt_i64 */
	SECONDS,   /* likewise: a duration, cut to whole seconds */
	PROTOCOL,  /* of a struct str: one of its words, whatever the case */
	ALGORITHM, /* likewise */
};

static const struct value_kind {
	const char *operation; /* reads a value of this type; NULL: it is not counted */
	const char *check;     /* compares a word, as the next */
	const char *const *words;
} value_kinds[] = {
	[TEXT] = { NULL },
	[BOOL] = { "annotation/Name.BoolFromService" },
	[OPT_BOOL] = { "annotation/Name.BoolFromService" },
	[INT] = { "annotation/Name.IntFromService" },
	[SECONDS] = { "annotation/Name.DurationFromService" },
	[PROTOCOL] = { "annotation/Name.LBSvcProtocolFromService",
	               "annotation/validateServiceProtocol",
	               (const char *const[]){ "tcp", "http", "https", NULL } },
	[ALGORITHM] = { "annotation/Name.LBAlgorithmTypeFromService",
	                "annotation/validateAlgorithmType",
	                (const char *const[]){ "round_robin", "least_connections", NULL } },
};

static bool
hz_desired_read_word(const char *key, struct str text, const struct value_kind *kind,
                     struct str *ret, struct error *err)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;

	hz_count_operations(kind->check, 1);
	for (const char *const *word = kind->words; *word; word++) {
		if (str_eq_nocase(text, str_c(*word))) {
			*ret = str_c(*word);
			return true;
		}
	}
	text = arena_lower(&arena, text);
	return err_set(err, ERR_INVALID, "%s: %s: invalid: %" STR_FMT " (%s)", kind->operation,
	               kind->check, STR_ARG(text), key);
}

/* Reads the annotation into *ret, which keeps its value, the default, if there is none. On false,
 * err->code is ERR_INVALID, with the official controller's text. */
static bool
hz_desired_read_value(const struct lb_spec *spec, const char *key, enum value_type type, void *ret,
                      struct error *err)
{
	const struct value_kind *kind = &value_kinds[type];
	const struct str *text = lb_annotation(spec, key);
	char memory[WHY_MAX] = "";
	struct buf why = BUF_FIXED(memory);
	bool is_yes = false;
	int64_t number;

	if (kind->operation)
		hz_count_operations(kind->operation, 1);
	if (!text)
		return true;
	switch (type) {
	case TEXT:
		*(struct hz_opt_str *)ret = (struct hz_opt_str){ true, *text };
		return true;
	case BOOL:
		if (!hz_parse_bool(*text, ret, &why))
			break;
		return true;
	case OPT_BOOL:
		if (!hz_parse_bool(*text, &is_yes, &why))
			break;
		*(enum hz_opt_bool *)ret = is_yes ? HZ_YES : HZ_NO;
		return true;
	case INT:
		if (!hz_parse_int(*text, &number, &why))
			break;
		*(struct hz_opt_i64 *)ret = (struct hz_opt_i64){ true, number };
		return true;
	case SECONDS:
		/* A number without unit means seconds, as the documents of the official controller
		 * say; it refuses it. Its text does not name the annotation; here the name follows
		 * in brackets. */
		if (!str_to_i64(*text, INT64_MIN, INT64_MAX, &number)) {
			if (!hz_parse_duration(*text, &number, &why))
				return err_set(err, ERR_INVALID, "%s: %s (%s)", kind->operation,
				               why.ptr, key);
			number /= NS_PER_SEC;
		}
		*(struct hz_opt_i64 *)ret = (struct hz_opt_i64){ true, number };
		return true;
	case PROTOCOL:
	case ALGORITHM:
		return hz_desired_read_word(key, *text, kind, ret, err);
	}
	return err_set(err, ERR_INVALID, "%s: %s: %s", kind->operation, key, why.ptr);
}

bool
hz_annotation_bool(const struct lb_spec *spec, const char *key, bool *ret, struct error *err)
{
	return hz_desired_read_value(spec, key, BOOL, ret, err);
}

/* The annotation, even if it is empty; if it is absent, the other text. */
static struct str
hz_desired_text_or(const struct lb_spec *spec, const char *key, struct str otherwise)
{
	const struct str *text = lb_annotation(spec, key);

	return text ? *text : otherwise;
}

/* The elements, trimmed, without empty ones. False: the annotation is absent. */
static bool
hz_desired_read_list(const struct lb_spec *spec, const char *key, struct arena *arena,
                     struct str **ret, size_t *ret_n)
{
	const struct str *text = lb_annotation(spec, key);
	size_t most = 1;

	hz_count_operations(STRINGS, 1);
	if (!text)
		return false;
	for (size_t i = 0; i < text->len; i++)
		most += text->ptr[i] == ',';
	*ret = arena_calloc(arena, most, sizeof(**ret));
	*ret_n = 0;
	for (struct str element, rest = *text; str_split(&rest, ',', &element);) {
		element = str_trim(element);
		if (element.len > 0)
			(*ret)[(*ret_n)++] = element;
	}
	return true;
}

/* ---- nodes ---- */

const struct hz_selector *
hz_lb_selection(const struct lb_spec *spec, struct arena *arena)
{
	struct str text = hz_desired_text_or(spec, HZ_LB_PREFIX "node-selector", STR_EMPTY);
	const struct hz_selector *selector;
	struct error ignored;

	return hz_selector_parse(text, arena, &selector, &ignored) ? selector : NULL;
}

bool
hz_lb_selects(const struct hz_selector *selector, const struct node_ref *node)
{
	return !selector || hz_selector_matches(selector, node->labels, node->n_labels);
}

/* ---- networks ---- */

struct reader {
	const struct hz_lb_config *lb;
	const struct lb_spec *spec;
	struct arena *arena;
	struct hz_lb_desired *desired;
};

/* The address and the subnet of a balancer in a network, in canonical form. */
static bool
hz_desired_read_private(const struct reader *r, struct error *err)
{
	const struct str *address = lb_annotation(r->spec, HZ_LB_PREFIX "private-ipv4");
	struct str subnet = hz_desired_text_or(r->spec, HZ_LB_PREFIX "private-subnet-ip-range",
	                                       r->lb->private_subnet);
	struct ip_net net;
	struct ip ip, last;

	if (address) {
		if (!ip_parse(*address, &ip))
			return err_set(err, ERR_INVALID,
			               SHAPE "attachToNetwork: could not parse private IPv4 "
			                     "'%" STR_FMT "'",
			               STR_ARG(*address));
		r->desired->private_ip = (struct hz_opt_str){ true, ip_text(r->arena, &ip) };
	}
	if (subnet.len > 0) {
		if (!ip_net_parse(subnet, &net))
			return err_set(err, ERR_INVALID,
			               SHAPE "attachToNetwork: could not parse private subnet IP "
			                     "range '%" STR_FMT "'",
			               STR_ARG(subnet));
		/* "10.0.1.5/24" asks for 10.0.1.0/24. */
		ip_net_span(&net, &ip, &last);
		net.ip = ip;
		r->desired->subnet = (struct hz_opt_str){ true, ip_net_text(r->arena, &net) };
	}
	return true;
}

static struct hz_primary_ref
hz_desired_primary_ip(const struct lb_spec *spec, const char *key)
{
	struct hz_primary_ref ref = {
		.is_set = lb_annotation(spec, key) != NULL,
		.text = hz_desired_text_or(spec, key, STR_EMPTY),
	};

	(void)!str_to_i64(str_trim(ref.text), 1, INT64_MAX, &ref.id);
	return ref;
}

/* ---- certificates ---- */

static bool
hz_desired_read_managed(const struct reader *r, struct error *err)
{
	struct hz_lb_desired *desired = r->desired;
	struct error ignored;

	desired->certificate_name = hz_desired_text_or(r->spec,
	                                               HZ_LB_PREFIX "http-managed-certificate-name",
	                                               STR_EMPTY);
	if (desired->certificate_name.len == 0)
		desired->certificate_name = arena_printf(r->arena, DEFAULT_CERTIFICATE "%" STR_FMT,
		                                         STR_ARG(r->spec->uid));
	if (!hz_annotation_bool(r->spec, HZ_LB_PREFIX "http-managed-certificate-acme-staging",
	                        &desired->is_staging, &ignored))
		desired->is_staging = false; /* a value that cannot be read counts as no */
	if (!hz_desired_read_list(r->spec, HZ_LB_PREFIX "http-managed-certificate-domains",
	                          r->arena, &desired->domains, &desired->n_domains) ||
	    desired->n_domains == 0)
		return err_set(err, ERR_INVALID,
		               SERVICES ": hcops/LoadBalancerOps.reconcileManagedCertificate: "
		                        "no domains for managed certificate");
	return true;
}

static bool
hz_desired_read_certificates(const struct reader *r, struct error *err)
{
	struct hz_lb_desired *desired = r->desired;
	struct str *elements;

	/* its case matters */
	desired->is_managed = str_eq_c(hz_desired_text_or(r->spec, HZ_LB_PREFIX "certificate-type",
	                                                  STR_EMPTY),
	                               "managed");
	if (desired->is_managed)
		return hz_desired_read_managed(r, err);
	if (!hz_desired_read_list(r->spec, HZ_LB_PREFIX "http-certificates", r->arena, &elements,
	                          &desired->n_certificates))
		return true;
	desired->certificates = arena_calloc(r->arena, desired->n_certificates,
	                                     sizeof(*desired->certificates));
	for (size_t i = 0; i < desired->n_certificates; i++) {
		struct hz_certificate_ref *ref = &desired->certificates[i];

		/* an element that is not a number is a name */
		ref->name = elements[i];
		(void)!str_to_i64(elements[i], 1, INT64_MAX, &ref->id);
	}
	return true;
}

/* ---- ports ---- */

/* What all ports have in common. */
struct model {
	struct hz_lb_service service;
	struct hz_opt_i64 check_port;
};

enum group {
	PORT,
	CHECK,
	HTTP_CHECK,
};

#define SERVICE(field) offsetof(struct model, service.field)

/* In the order in which the official controller reads them. */
static const struct setting {
	enum group group;
	const char *key;
	enum value_type type;
	size_t offset; /* in struct model */
} settings[] = {
	{ PORT, HZ_LB_PREFIX "uses-proxyprotocol", OPT_BOOL, SERVICE(proxy_protocol) },
	{ PORT, HZ_LB_PREFIX "protocol", PROTOCOL, SERVICE(protocol) },
	{ PORT, HZ_LB_PREFIX "http-cookie-name", TEXT, SERVICE(http.cookie_name) },
	{ PORT, HZ_LB_PREFIX "http-cookie-lifetime", SECONDS, SERVICE(http.cookie_lifetime_s) },
	{ PORT, HZ_LB_PREFIX "http-timeout-idle", SECONDS, SERVICE(http.timeout_idle_s) },
	{ PORT, HZ_LB_PREFIX "http-redirect-http", OPT_BOOL, SERVICE(http.redirects) },
	{ PORT, HZ_LB_PREFIX "http-sticky-sessions", OPT_BOOL, SERVICE(http.is_sticky) },
	{ CHECK, HZ_LB_PREFIX "health-check-protocol", PROTOCOL, SERVICE(check.protocol) },
	{ CHECK, HZ_LB_PREFIX "health-check-port", INT, offsetof(struct model, check_port) },
	{ CHECK, HZ_LB_PREFIX "health-check-interval", SECONDS, SERVICE(check.interval_s) },
	{ CHECK, HZ_LB_PREFIX "health-check-timeout", SECONDS, SERVICE(check.timeout_s) },
	{ CHECK, HZ_LB_PREFIX "health-check-retries", INT, SERVICE(check.retries) },
	{ HTTP_CHECK, HZ_LB_PREFIX "health-check-http-domain", TEXT, SERVICE(check.domain) },
	{ HTTP_CHECK, HZ_LB_PREFIX "health-check-http-path", TEXT, SERVICE(check.path) },
	{ HTTP_CHECK, HZ_LB_PREFIX "health-check-http-validate-certificate", OPT_BOOL,
	  SERVICE(check.is_tls) },
};

static bool
hz_desired_read_group(const struct lb_spec *spec, enum group group, struct model *model,
                      struct error *err)
{
	for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
		const struct setting *s = &settings[i];

		if (s->group == group &&
		    !hz_desired_read_value(spec, s->key, s->type, (char *)model + s->offset, err))
			return false;
	}
	return true;
}

static bool
hz_desired_read_check(const struct reader *r, struct model *model, struct error *err)
{
	struct hz_lb_check *check = &model->service.check;
	bool has_protocol = lb_annotation(r->spec, HZ_LB_PREFIX "health-check-protocol") != NULL;

	hz_count_operations(BUILDER "extractHealthCheck", 1);

	/* The values of the configuration, for absent annotations. A value that is not configured
	 * either is the cloud's default. */
	check->interval_s = (struct hz_opt_i64){ r->lb->health_interval_ns != 0,
		                                 r->lb->health_interval_ns / NS_PER_SEC };
	check->timeout_s = (struct hz_opt_i64){ r->lb->health_timeout_ns != 0,
		                                r->lb->health_timeout_ns / NS_PER_SEC };
	check->retries = (struct hz_opt_i64){ r->lb->health_retries != 0, r->lb->health_retries };

	check->protocol = model->service.protocol;
	if (!hz_desired_read_group(r->spec, CHECK, model, err))
		return false;
	if (!str_eq_c(check->protocol, "tcp")) {
		check->has_status_codes = hz_desired_read_list(r->spec,
		                                               HZ_LB_PREFIX "http-status-codes",
		                                               r->arena, &check->status_codes,
		                                               &check->n_status_codes);
		if (!hz_desired_read_group(r->spec, HTTP_CHECK, model, err))
			return false;
		/* lb_desired.h says what https means. */
		if (has_protocol && str_eq_c(check->protocol, "https"))
			check->is_tls = HZ_YES;
		else if (has_protocol && check->is_tls == HZ_UNSET)
			check->is_tls = HZ_NO; /* switches TLS off if the check was https before */
		check->protocol = STR("http");
	}

	/* Annotations with details of http alone do not ask for a check. */
	if (!has_protocol && !model->check_port.is_set && !check->interval_s.is_set &&
	    !check->timeout_s.is_set && !check->retries.is_set)
		*check = (struct hz_lb_check){ .protocol = STR("tcp") };
	return true;
}

static bool
hz_desired_read_services(const struct reader *r, struct error *err)
{
	const struct lb_port *ports = r->spec->ports;
	struct hz_lb_desired *desired = r->desired;
	struct model model = {
		.service = { .protocol = STR("tcp"), .proxy_protocol = r->lb->uses_proxy_protocol },
	};
	struct hz_lb_http *http = &model.service.http;

	desired->n_services = r->spec->n_ports;
	desired->services = arena_calloc(r->arena, desired->n_services, sizeof(*desired->services));
	if (desired->n_services == 0)
		return true;

	hz_count_operations(BUILDER "extract", 1);
	if (!hz_desired_read_group(r->spec, PORT, &model, err))
		return err_wrap(err, OPTIONS);
	http->has_certificates = desired->is_managed ||
	                         lb_annotation(r->spec, HZ_LB_PREFIX "http-certificates");
	model.service.has_http = http->has_certificates || http->cookie_name.is_set ||
	                         http->cookie_lifetime_s.is_set || http->timeout_idle_s.is_set ||
	                         http->redirects != HZ_UNSET || http->is_sticky != HZ_UNSET;
	if (!hz_desired_read_check(r, &model, err))
		return err_wrap(err, CHECKS);

	for (size_t i = 0; i < desired->n_services; i++) {
		struct hz_lb_service *s = &desired->services[i];

		*s = model.service;
		s->listen_port = ports[i].port;
		s->destination_port = ports[i].node_port;
		s->check.port = model.check_port.is_set ? model.check_port.value
		                                        : ports[i].node_port;
	}
	return true;
}

/* ---- the desired balancer ---- */

bool
hz_lb_desired_read(const struct hz_config *config, int64_t network, const struct lb_spec *spec,
                   struct arena *arena, struct hz_lb_desired *ret, struct error *err)
{
	const struct hz_lb_config *lb = &config->lb;
	struct hz_lb_desired d = { .uid = spec->uid, .network = network };
	struct reader r = { .lb = lb, .spec = spec, .arena = arena, .desired = &d };
	const struct hz_selector *selector;
	enum hz_opt_bool is_hidden = lb->hides_public;

	if (!hz_selector_parse(hz_desired_text_or(spec, HZ_LB_PREFIX "node-selector", STR_EMPTY),
	                       arena, &selector, err))
		return err_wrap(err, "unable to parse the node-selector annotation");

	/* --cluster-name may be any text. The API permits the same label values as Kubernetes, and
	 * refuses the whole request otherwise, so another name is left out. */
	d.cluster = name_is_label_value(spec->cluster) ? spec->cluster : STR_EMPTY;

	/* name, place and type */
	d.name = hz_desired_text_or(spec, HZ_LB_PREFIX "name", STR_EMPTY);
	d.is_named = d.name.len > 0;
	if (!d.is_named)
		d.name = spec->name;
	d.location = hz_desired_text_or(spec, HZ_LB_PREFIX "location", lb->location);
	d.network_zone = hz_desired_text_or(spec, HZ_LB_PREFIX "network-zone", lb->network_zone);
	if (d.location.len > 0)
		d.network_zone = STR_EMPTY;
	d.type = hz_desired_text_or(spec, HZ_LB_PREFIX "type", lb->type);
	d.is_type_chosen = d.type.len > 0;
	if (!d.is_type_chosen)
		d.type = STR(DEFAULT_TYPE);

	/* rDNS, algorithm and networks */
	d.ipv4_rdns.value = hz_desired_text_or(spec, HZ_LB_PREFIX "ipv4-rdns", STR_EMPTY);
	d.ipv4_rdns.is_set = d.ipv4_rdns.value.len > 0;
	d.ipv6_rdns.value = hz_desired_text_or(spec, HZ_LB_PREFIX "ipv6-rdns", STR_EMPTY);
	d.ipv6_rdns.is_set = d.ipv6_rdns.value.len > 0;
	/* The value of the configuration is trimmed and lower-cased here. The official controller
	 * sends it as it is, and the API refuses it each time. */
	d.algorithm = arena_lower(arena, str_trim(lb->algorithm));
	if (!hz_desired_read_value(spec, HZ_LB_PREFIX "algorithm-type", ALGORITHM, &d.algorithm,
	                           err))
		return err_wrap(err, SHAPE "changeAlgorithm");
	d.primary_ips[HZ_FAMILY_V4] = hz_desired_primary_ip(spec, HZ_LB_PREFIX "public-net-ipv4");
	d.primary_ips[HZ_FAMILY_V6] = hz_desired_primary_ip(spec, HZ_LB_PREFIX "public-net-ipv6");
	if (network != 0 && !hz_desired_read_private(&r, err))
		return false;
	if (!hz_desired_read_value(spec, HZ_LB_PREFIX "disable-public-network", OPT_BOOL,
	                           &is_hidden, err))
		return err_wrap(err, SHAPE "togglePublicInterface");
	if (is_hidden != HZ_UNSET)
		d.is_public = is_hidden == HZ_YES ? HZ_NO : HZ_YES;

	/* services and targets */
	if (!hz_desired_read_certificates(&r, err) || !hz_desired_read_services(&r, err))
		return false;
	d.uses_private_ip = lb->uses_private_ip;
	if (!hz_annotation_bool(spec, HZ_LB_PREFIX "use-private-ip", &d.uses_private_ip, err))
		return err_wrap(err, TARGETS);
	if (d.uses_private_ip && network == 0)
		return err_set(err, ERR_INVALID,
		               TARGETS
		               ": use private ip: missing network id: HCLOUD_NETWORK is not set");
	*ret = d;
	return true;
}

bool
hz_lb_has_type(const struct hz_config *config, const struct lb_spec *spec)
{
	return hz_desired_text_or(spec, HZ_LB_PREFIX "type", config->lb.type).len > 0;
}

bool
hz_lb_desired_has_place(const struct hz_lb_desired *desired, struct error *err)
{
	if (desired->location.len > 0 || desired->network_zone.len > 0)
		return true;
	return err_set(err, ERR_INVALID,
	               "hcops/LoadBalancerOps.Create: neither " HZ_LB_PREFIX
	               "location nor " HZ_LB_PREFIX "network-zone set");
}
