/* desired.c: see desired.h.
 *
 * The Service is checked before it is read: the checks, in their order, decide whether it is
 * refused, and the functions that read it rely on them.
 */
#include "providers/brightbox/desired.h"

#include <stdlib.h>

#include "base/ip.h"
#include "base/limits.h"
#include "base/names.h"
#include "base/buf.h"
#include "base/words.h"
#include "providers/brightbox/servers.h"

#define AWS_INTERVAL_KEY "service.beta.kubernetes.io/aws-load-balancer-healthcheck-interval"
#define INTERVAL_KEY BB_PREFIX "healthcheck-interval"

enum {
	HTTPS_PORT = 443,
	CLOUD_IP_ID_MIN = 5, /* characters behind "cip-" */
};

/* ---- annotations ---- */

/* The annotation if it is set and is one of the words; else the other text. */
static struct str
bb_word(const struct lb_spec *spec, const char *key, const char *const words[],
        const char *otherwise)
{
	const struct str *text = lb_annotation(spec, key);

	return text && words_have(words, *text) ? *text : str_c(otherwise);
}

static struct str
bb_text(const struct lb_spec *spec, const char *key)
{
	const struct str *text = lb_annotation(spec, key);

	return text ? *text : STR_EMPTY;
}

/* 0 if the annotation is not set. */
static uint32_t
bb_number(const struct lb_spec *spec, const char *key)
{
	int64_t number;

	return str_to_i64(bb_text(spec, key), 0, UINT32_MAX, &number) ? (uint32_t)number : 0;
}

static struct str
bb_listener_protocol(const struct lb_spec *spec)
{
	return bb_word(spec, BB_PREFIX "listener-protocol", bb_protocols, "http");
}

/* ---- checks of annotations ---- */

struct bb_annotation {
	const char *key;
	bool (*check)(const struct lb_spec *, const struct bb_annotation *, struct error *err);
	const char *what;         /* of an enumeration: its name in the message … */
	const char *type;         /* … and that of its type in the official program */
	const char *const *words; /* NULL at the end */
};

static bool
bb_check_number(const struct lb_spec *spec, const struct bb_annotation *annotation,
                struct error *err)
{
	CLEANUP(arena_fini) struct arena scratch = ARENA_INIT;
	struct str value = bb_text(spec, annotation->key);
	int64_t number;

	if (str_is_digits(value) && str_to_i64(value, 0, UINT32_MAX, &number))
		return true;
	return err_set(err, ERR_INVALID,
	               "\"%s\" needs to be a positive number (strconv.ParseUint: parsing %s: %s)",
	               annotation->key, quote_z(&scratch, value),
	               str_is_digits(value) ? "value out of range" : "invalid syntax");
}

static bool
bb_check_word(const struct lb_spec *spec, const struct bb_annotation *annotation, struct error *err)
{
	CLEANUP(arena_fini) struct arena scratch = ARENA_INIT;
	struct str value = bb_text(spec, annotation->key);

	if (words_have(annotation->words, value))
		return true;
	return err_set(err, ERR_INVALID,
	               "Invalid Load Balancer %s %s: %" STR_FMT " is not a valid %s.Enum",
	               annotation->what, quote_z(&scratch, value), STR_ARG(value),
	               annotation->type);
}

/* A word; "tcp" excludes SSL. */
static bool
bb_check_protocol(const struct lb_spec *spec, const struct bb_annotation *annotation,
                  struct error *err)
{
	if (!bb_check_word(spec, annotation, err))
		return false;
	if (!str_eq_c(bb_text(spec, annotation->key), "tcp"))
		return true;
	if (lb_annotation(spec, BB_PREFIX "ssl-ports"))
		return err_set(err, ERR_INVALID,
		               "SSL Ports are not supported with the tcp protocol");
	if (lb_annotation(spec, BB_PREFIX "ssl-domains"))
		return err_set(err, ERR_INVALID,
		               "SSL Domains are not supported with the tcp protocol");
	return true;
}

/* A path that reads the same in a URL: a query, a fragment or an escape would not. */
static bool
bb_is_path(struct str text)
{
	if (text.len > 0 && text.ptr[0] != '/')
		return false;
	for (size_t i = 0; i < text.len; i++) {
		if ((unsigned char)text.ptr[i] < 0x20 || text.ptr[i] == 0x7f ||
		    char_is_in(text.ptr[i], "?#%"))
			return false;
	}
	return true;
}

static bool
bb_check_path(const struct lb_spec *spec, const struct bb_annotation *annotation, struct error *err)
{
	return bb_is_path(bb_text(spec, annotation->key)) ||
	       err_set(err, ERR_INVALID, "\"%s\" needs to be a valid Url request path",
	               annotation->key);
}

static bool
bb_is_cloud_ip_id(struct str text)
{
	struct str rest = str_skip(text, 4);

	if (!str_starts(text, STR("cip-")) || rest.len < CLOUD_IP_ID_MIN)
		return false;
	for (size_t i = 0; i < rest.len; i++) {
		if (!char_is_in(rest.ptr[i], "0123456789abcdefghijklmnopqrstuvwxyz"))
			return false;
	}
	return true;
}

static bool
bb_check_cloud_ip(const struct lb_spec *spec, const struct bb_annotation *annotation,
                  struct error *err)
{
	return bb_is_cloud_ip_id(bb_text(spec, annotation->key)) ||
	       err_set(err, ERR_INVALID, "\"%s\" needs to match the pattern \"^cip-[0-9a-z]{5,}$\"",
	               annotation->key);
}

/* In ascending order of their keys: the first mistake in this order is the one that is reported. */
static const struct bb_annotation annotations[] = {
	{ AWS_INTERVAL_KEY, bb_check_number, NULL, NULL, NULL },
	{ BB_CLOUD_IP_KEY, bb_check_cloud_ip, NULL, NULL, NULL },
	{ BB_PREFIX "healthcheck-healthy-threshold", bb_check_number, NULL, NULL, NULL },
	{ INTERVAL_KEY, bb_check_number, NULL, NULL, NULL },
	{ BB_PREFIX "healthcheck-protocol", bb_check_word, "Healthcheck Protocol",
	  "healthchecktype", bb_check_types },
	{ BB_PREFIX "healthcheck-request", bb_check_path, NULL, NULL, NULL },
	{ BB_PREFIX "healthcheck-timeout", bb_check_number, NULL, NULL, NULL },
	{ BB_PREFIX "healthcheck-unhealthy-threshold", bb_check_number, NULL, NULL, NULL },
	{ BB_PREFIX "listener-idle-timeout", bb_check_number, NULL, NULL, NULL },
	{ BB_PREFIX "listener-protocol", bb_check_protocol, "Listener Protocol", "listenerprotocol",
	  bb_protocols },
	{ BB_PREFIX "listener-proxy-protocol", bb_check_word, "Listener Proxy Protocol",
	  "proxyprotocol", bb_proxy_protocols },
	{ BB_PREFIX "policy", bb_check_word, "Policy", "balancingpolicy", bb_policies },
};

static bool
bb_check_annotations(const struct lb_spec *spec, struct error *err)
{
	for (size_t i = 0; i < ARRAY_LEN(annotations); i++) {
		if (lb_annotation(spec, annotations[i].key) &&
		    !annotations[i].check(spec, &annotations[i], err))
			return false;
	}
	/* the last key: a rule about two annotations */
	if (lb_annotation(spec, BB_PREFIX "ssl-ports") &&
	    !lb_annotation(spec, BB_PREFIX "ssl-domains"))
		return err_set(err, ERR_INVALID,
		               "SSL needs a list of domains to certify. Add the \"" BB_PREFIX
		               "ssl-domains\" annotation");
	return true;
}

const char *const bb_annotation_names[] = {
	"cloudip-allocations",
	"healthcheck-healthy-threshold",
	"healthcheck-interval",
	"healthcheck-protocol",
	"healthcheck-request",
	"healthcheck-timeout",
	"healthcheck-unhealthy-threshold",
	"listener-idle-timeout",
	"listener-protocol",
	"listener-proxy-protocol",
	"policy",
	"ssl-domains",
	"ssl-ports",
	NULL,
};

const char *const bb_annotation_lists[] = { "ssl-domains", NULL };
const char *const bb_other_annotations[] = { AWS_INTERVAL_KEY, NULL };

/* ---- checks of the Service ---- */

static bool
bb_has_port(const struct lb_spec *spec, int32_t port)
{
	for (size_t i = 0; i < spec->n_ports; i++) {
		if (spec->ports[i].port == port)
			return true;
	}
	return false;
}

/* Affinity, ports, SSL, the address, then the annotations, as in the official controller. */
static bool
bb_check(const struct lb_spec *spec, struct error *err)
{
	bool has_ssl = lb_annotation(spec, BB_PREFIX "ssl-ports") ||
	               lb_annotation(spec, BB_PREFIX "ssl-domains");

	if (spec->has_client_ip_affinity)
		return err_set(err, ERR_INVALID, "unsupported load balancer affinity: ClientIP");
	if (spec->n_ports == 0)
		return err_set(err, ERR_INVALID, "requested load balancer with no ports");
	for (size_t i = 0; i < spec->n_ports; i++) {
		if (spec->ports[i].protocol != LB_TCP)
			return err_set(err, ERR_INVALID, "UDP nodeports are not supported");
	}
	if (has_ssl && !bb_has_port(spec, HTTPS_PORT) &&
	    str_eq_c(bb_listener_protocol(spec), "http"))
		return err_set(err, ERR_INVALID, "SSL support requires a Port definition for 443");
	if (spec->wanted_ip.len > 0 && lb_annotation(spec, BB_CLOUD_IP_KEY))
		return err_set(err, ERR_INVALID, "Remove obsolete field: spec.loadBalancerIP");
	return bb_check_annotations(spec, err);
}

/* ---- reading ---- */

/* Begins with the Service's name, or with a name made of its UID if it has none. */
struct str
bb_name(const struct lb_spec *spec, struct arena *arena)
{
	struct str namespace = spec->namespace.len > 0 ? spec->namespace : STR("default");
	struct str service = spec->service.len > 0 ? spec->service : spec->name;

	return arena_printf(arena, "%" STR_FMT ".%" STR_FMT ".%" STR_FMT, STR_ARG(service),
	                    STR_ARG(namespace), STR_ARG(spec->cluster));
}

/* Names of Services and namespaces have no dots, those of clusters may have some. */
bool
bb_name_parse(struct str name, struct arena *arena, struct str *ret_service,
              struct str *ret_cluster)
{
	struct str service, namespace, cluster, rest;

	if (!str_cut(name, '.', &service, &rest) || !str_cut(rest, '.', &namespace, &cluster) ||
	    !name_is_dns_label(service) || !name_is_dns_label(namespace) || cluster.len == 0)
		return false;
	*ret_service = arena_printf(arena, "%" STR_FMT "/%" STR_FMT, STR_ARG(namespace),
	                            STR_ARG(service));
	*ret_cluster = cluster;
	return true;
}

/* An element of ssl-ports is a number where it reads as one, else a name. */
static bool
bb_is_ssl_port(struct str listed, const struct lb_port *port)
{
	int64_t number;

	if (port->port == HTTPS_PORT)
		return true;
	if (listed.len == 0 || str_eq_c(listed, "*"))
		return false;
	for (struct str one, rest = listed; str_split(&rest, ',', &one);) {
		if (str_to_i64(one, INT32_MIN, INT32_MAX, &number)
		            ? number == port->port
		            : one.len > 0 && str_eq(one, port->name))
			return true;
	}
	return false;
}

static void
bb_read_listeners(const struct lb_spec *spec, struct arena *arena, struct bb_desired *ret)
{
	struct str protocol = bb_listener_protocol(spec);
	struct str ssl_ports = bb_text(spec, BB_PREFIX "ssl-ports");
	struct str proxy_protocol = bb_text(spec, BB_PREFIX "listener-proxy-protocol");
	uint32_t timeout_ms = bb_number(spec, BB_PREFIX "listener-idle-timeout");

	ret->listeners = arena_calloc(arena, spec->n_ports, sizeof(*ret->listeners));
	for (size_t i = 0; i < spec->n_ports; i++) {
		const struct lb_port *port = &spec->ports[i];
		bool is_https = str_eq_c(protocol, "https") ||
		                (!str_eq_c(protocol, "tcp") && bb_is_ssl_port(ssl_ports, port));

		ret->listeners[ret->n_listeners++] = (struct bb_listener){
			.protocol = is_https ? STR("https") : protocol,
			.in = port->port,
			.out = port->node_port,
			.timeout_ms = timeout_ms,
			.proxy_protocol = proxy_protocol,
		};
		ret->is_https |= is_https;
	}
}

/* With traffic policy Local, a health check of its own port on a node shows whether the node has
 * an endpoint. */
static void
bb_read_check(const struct lb_spec *spec, struct bb_check *ret)
{
	bool is_local = spec->traffic == LB_TRAFFIC_LOCAL && spec->health_check_node_port != 0;
	bool is_tcp = !is_local && str_eq_c(bb_listener_protocol(spec), "tcp");
	struct str request = bb_text(spec, BB_PREFIX "healthcheck-request");

	ret->type = bb_word(spec, BB_PREFIX "healthcheck-protocol", bb_check_types,
	                    is_tcp ? "tcp" : "http");
	ret->port = is_local ? spec->health_check_node_port : spec->ports[0].node_port;
	if (str_eq_c(ret->type, "tcp"))
		ret->request = STR("/");
	else
		ret->request = lb_annotation(spec, BB_PREFIX "healthcheck-request")
		                       ? request
		                       : STR("/healthz");
	ret->interval_ms = bb_number(spec, lb_annotation(spec, INTERVAL_KEY) ? INTERVAL_KEY
	                                                                     : AWS_INTERVAL_KEY);
	ret->timeout_ms = bb_number(spec, BB_PREFIX "healthcheck-timeout");
	ret->threshold_up = bb_number(spec, BB_PREFIX "healthcheck-healthy-threshold");
	ret->threshold_down = bb_number(spec, BB_PREFIX "healthcheck-unhealthy-threshold");
}

static int
bb_compare_strs(const void *a, const void *b)
{
	return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

/* Sorts them and removes duplicates. Returns their number. */
static size_t
bb_sort(struct str items[], size_t n)
{
	size_t n_kept = 0;

	qsort(items, n, sizeof(items[0]), bb_compare_strs);
	for (size_t i = 0; i < n; i++) {
		if (n_kept == 0 || !str_eq(items[i], items[n_kept - 1]))
			items[n_kept++] = items[i];
	}
	return n_kept;
}

/* A sorted copy without duplicates. */
static size_t
bb_sorted(const struct str items[], size_t n, struct arena *arena, struct str **ret)
{
	*ret = arena_calloc(arena, n, sizeof(**ret));
	for (size_t i = 0; i < n; i++)
		(*ret)[i] = items[i];
	return bb_sort(*ret, n);
}

size_t
bb_missing(const struct str items[], size_t n, const struct str others[], size_t n_others,
           struct arena *arena, struct str **ret)
{
	struct str *sorted;
	size_t n_sorted = bb_sorted(others, n_others, arena, &sorted), n_missing = 0;

	n = bb_sorted(items, n, arena, ret);
	for (size_t i = 0; i < n; i++) {
		if (!bsearch(&(*ret)[i], sorted, n_sorted, sizeof(*sorted), bb_compare_strs))
			(*ret)[n_missing++] = (*ret)[i];
	}
	return n_missing;
}

static struct str
bb_firewall_ports(const struct lb_spec *spec, struct arena *arena)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(SIZE_MAX / 2);

	for (size_t i = 0; i < spec->n_ports; i++)
		buf_addf(&text, "%s%d", i > 0 ? "," : "", spec->ports[i].node_port);
	if (spec->health_check_node_port != 0)
		buf_addf(&text, ",%d", spec->health_check_node_port);
	return arena_str(arena, buf_str(&text));
}

static void
bb_read_domains(const struct lb_spec *spec, struct arena *arena, struct bb_desired *ret)
{
	struct str listed = bb_text(spec, BB_PREFIX "ssl-domains");
	size_t n_max = 1;

	for (size_t i = 0; i < listed.len; i++)
		n_max += listed.ptr[i] == ',';
	ret->domains = arena_calloc(arena, n_max, sizeof(*ret->domains));
	for (struct str one, rest = listed; str_split(&rest, ',', &one);) {
		if (one.len > 0)
			ret->domains[ret->n_domains++] = one;
	}
}

/* A node of another cloud, or without a provider ID, is no member of balancers. */
static void
bb_read_servers(const struct lb_spec *spec, struct arena *arena, struct bb_desired *ret)
{
	const struct str prefix = STR(BB_PROVIDER_ID_PREFIX);

	ret->servers = arena_calloc(arena, spec->n_nodes, sizeof(*ret->servers));
	for (size_t i = 0; i < spec->n_nodes; i++) {
		struct str id = spec->nodes[i].provider_id;

		if (str_starts(id, prefix) && id.len > prefix.len)
			ret->servers[ret->n_servers++] = str_skip(id, prefix.len);
	}
	ret->n_servers = bb_sort(ret->servers, ret->n_servers);
}

bool
bb_desired_read(const struct lb_spec *spec, struct arena *arena, struct bb_desired *ret,
                struct error *err)
{
	if (!bb_check(spec, err))
		return false;
	*ret = (struct bb_desired){
		.name = bb_name(spec, arena),
		.policy = bb_text(spec, BB_PREFIX "policy"),
		.cloud_ip = bb_text(spec, BB_CLOUD_IP_KEY),
		.wanted_ip = spec->wanted_ip,
		.firewall_ports = bb_firewall_ports(spec, arena),
	};
	bb_read_listeners(spec, arena, ret);
	bb_read_check(spec, &ret->check);
	bb_read_domains(spec, arena, ret);
	bb_read_servers(spec, arena, ret);
	return true;
}

/* ---- the domains ---- */

void
bb_desired_domains(const struct bb_desired *desired, const struct bb_cloud_ip *ip,
                   struct arena *arena, struct str **ret, size_t *ret_n)
{
	const struct str names[] = { ip->fqdn, ip->reverse_dns };
	struct str *all = arena_calloc(arena, desired->n_domains + ARRAY_LEN(names), sizeof(*all));
	size_t n = desired->n_domains;

	for (size_t i = 0; i < n; i++)
		all[i] = desired->domains[i];
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (names[i].len > 0)
			all[n++] = names[i];
	}
	*ret = all;
	*ret_n = bb_sort(all, n);
}

/* ---- the body ---- */

static struct json_member
bb_if_set(const char *name, uint32_t number)
{
	return JSON_IF(number > 0, JSON_NUMBER(name, number));
}

/* An update without nodes contains an empty list, because without the member the old nodes would
 * stay. */
struct str
bb_desired_body(const struct bb_desired *desired, const struct str domains[], size_t n_domains,
                bool is_update, struct arena *arena)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(LIMIT_HTTP_REQUEST);
	const struct bb_check *check = &desired->check;

	json_begin_object(&body, NULL);
	json_add_text(&body, "name", desired->name);
	if (desired->n_servers > 0 || is_update) {
		json_begin_array(&body, "nodes");
		for (size_t i = 0; i < desired->n_servers; i++)
			json_add_object(&body, NULL, JSON_TEXT("node", desired->servers[i]));
		json_end_array(&body);
	}
	if (desired->policy.len > 0)
		json_add_text(&body, "policy", desired->policy);
	json_begin_array(&body, "listeners");
	for (size_t i = 0; i < desired->n_listeners; i++) {
		const struct bb_listener *listener = &desired->listeners[i];

		json_add_object(&body, NULL, JSON_TEXT("protocol", listener->protocol),
		                JSON_NUMBER("in", listener->in),
		                bb_if_set("out", (uint32_t)listener->out),
		                bb_if_set("timeout", listener->timeout_ms),
		                JSON_IF(listener->proxy_protocol.len > 0,
		                        JSON_TEXT("proxy_protocol", listener->proxy_protocol)));
	}
	json_end_array(&body);
	json_add_object(&body, "healthcheck", JSON_TEXT("type", check->type),
	                JSON_NUMBER("port", check->port), JSON_TEXT("request", check->request),
	                bb_if_set("interval", check->interval_ms),
	                bb_if_set("timeout", check->timeout_ms),
	                bb_if_set("threshold_up", check->threshold_up),
	                bb_if_set("threshold_down", check->threshold_down));
	if (desired->is_https)
		json_add_texts(&body, "domains", domains, n_domains);
	json_add_flag(&body, "https_redirect", desired->is_https);
	json_end_object(&body);
	return arena_str(arena, buf_str(&body));
}

/* ---- the balancer as it is ---- */

static int
bb_compare_listeners(const void *a, const void *b)
{
	return ((const struct bb_listener *)a)->in - ((const struct bb_listener *)b)->in;
}

struct bb_shown {
	struct bb_listener listener; /* the first member: bb_compare_listeners() compares them */
	bool is_added;
};

/* In the order of the Service's ports; others follow by their incoming port, which identifies a
 * listener of a balancer. A time-out that the Service leaves open, or that the API does not return,
 * is no difference. */
static void
bb_present_listeners(const struct bb_desired *desired, const struct bb_lb *lb, struct arena *arena,
                     struct bb_desired *ret)
{
	size_t n = lb->n_listeners;
	struct bb_shown *sorted = arena_calloc(arena, n, sizeof(*sorted));
	uint32_t timeout_ms = desired->n_listeners > 0 ? desired->listeners[0].timeout_ms : 0;

	ret->listeners = arena_calloc(arena, n, sizeof(*ret->listeners));
	for (size_t i = 0; i < n; i++) {
		sorted[i].listener = lb->listeners[i];
		if (timeout_ms == 0 || lb->listeners[i].timeout_ms == 0)
			sorted[i].listener.timeout_ms = timeout_ms;
	}
	qsort(sorted, n, sizeof(*sorted), bb_compare_listeners);
	for (size_t i = 0; i < desired->n_listeners; i++) {
		struct bb_shown *found = bsearch(&desired->listeners[i], sorted, n, sizeof(*sorted),
		                                 bb_compare_listeners);

		if (found && !found->is_added) {
			found->is_added = true;
			ret->listeners[ret->n_listeners++] = found->listener;
		}
	}
	for (size_t i = 0; i < n; i++) {
		if (!sorted[i].is_added)
			ret->listeners[ret->n_listeners++] = sorted[i].listener;
	}
}

/* Nodes and domains are sorted in the body. The API does not document that it keeps an order, and
 * the official controller sends the nodes in a different one. */
struct str
bb_desired_present(const struct bb_desired *desired, const struct bb_lb *lb, struct arena *arena)
{
	struct str *domains = arena_calloc(arena, lb->n_domains, sizeof(*domains));
	size_t n_domains;
	struct bb_desired is = {
		.name = lb->name,
		.policy = lb->policy,
		.check = lb->check,
		.is_https = lb->redirects_to_https,
	};

	is.n_servers = bb_sorted(lb->nodes, lb->n_nodes, arena, &is.servers);
	bb_present_listeners(desired, lb, arena, &is);
	for (size_t i = 0; i < lb->n_domains; i++)
		domains[i] = lb->domains[i].identifier;
	n_domains = bb_sort(domains, lb->n_domains);
	return bb_desired_body(&is, domains, n_domains, /*is_update=*/true, arena);
}
