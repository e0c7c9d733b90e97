/* lb_wish.c: see lb_wish.h. What a Service wants of its balancer as a whole; of its ports: lb_wish_service.c. */
#include "providers/hcloud/lb_wish.h"

#include "base/ip.h"
#include "base/limits.h"
#include "providers/hcloud/lb_wish_internal.h"

#define DEFAULT_TYPE "lb11"
#define DEFAULT_CERTIFICATE "ccm-managed-certificate-"

#define SHAPE "hcops/LoadBalancerOps.ReconcileHCLB: hcops/LoadBalancerOps."
#define TARGETS "hcops/LoadBalancerOps.ReconcileHCLBTargets"

enum {
	LABEL_VALUE_MAX = 63,
};

/* ---- bounds ------------------------------------------------------------------------------------------ */

static bool
check_bounds(const struct lb_spec *spec, struct error *err)
{
	if (spec->n_ports > LIMIT_BALANCER_PORTS)
		return err_set(err, ERR_INVALID, "a Service with more than %d ports",
		               LIMIT_BALANCER_PORTS);
	for (size_t i = 0; i < spec->n_annotations; i++) {
		const struct label *one = &spec->annotations[i];

		if (one->value.len > LIMIT_BALANCER_TEXT && str_starts(one->key, STR(HZ_LB_PREFIX)))
			return err_set(err, ERR_INVALID,
			               "annotation %" STR_FMT " has more than %zu bytes",
			               STR_ARG(one->key), LIMIT_BALANCER_TEXT);
	}
	return true;
}

/* ---- nodes ------------------------------------------------------------------------------------------- */

static bool
read_selector(const struct lb_spec *spec, struct arena *arena, const struct selector **ret,
              struct error *err)
{
	struct hz_opt_str text = { .value = STR_EMPTY };

	hz_annotation_text(spec, HZ_LB_PREFIX "node-selector", &text);
	return selector_parse(text.value, arena, ret, err) ||
	       err_wrap(err, "unable to parse the node-selector annotation");
}

bool
hz_lb_selects(const struct lb_spec *spec, const struct node_ref *node)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	const struct selector *selector;
	struct error err;

	return !lb_annotation(spec, HZ_LB_PREFIX "node-selector") ||
	       !read_selector(spec, &arena, &selector, &err) ||
	       selector_matches(selector, node->labels, node->n_labels);
}

static bool
check_selector(const struct reader *r)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	const struct selector *selector;

	return read_selector(r->spec, &arena, &selector, r->err);
}

/* ---- its labels -------------------------------------------------------------------------------------- */

static bool
is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* --cluster-name may be any text. The API takes as a label's value what Kubernetes does and refuses the whole request
 * otherwise, so a name that is no such value is left out. */
static struct str
cluster_label(struct str name)
{
	if (name.len > LABEL_VALUE_MAX)
		return STR_EMPTY;
	for (size_t i = 0; i < name.len; i++) {
		bool is_inside = i > 0 && i + 1 < name.len;
		char c = name.ptr[i];

		if (!is_alnum(c) && !(is_inside && (c == '-' || c == '_' || c == '.')))
			return STR_EMPTY;
	}
	return name;
}

/* ---- its name, place and kind ------------------------------------------------------------------------ */

/* The annotation, also where it is empty, before the configuration. */
static struct str
text_or(const struct reader *r, const char *key, struct str otherwise)
{
	struct hz_opt_str text = { .value = otherwise };

	hz_annotation_text(r->spec, key, &text);
	return text.value;
}

static void
read_name(const struct reader *r)
{
	struct str name = text_or(r, HZ_LB_PREFIX "name", STR_EMPTY);

	r->wish->is_named = name.len > 0;
	r->wish->name = r->wish->is_named ? name : r->spec->name;
}

static void
read_place(const struct reader *r)
{
	struct hz_lb_wish *wish = r->wish;

	wish->location = text_or(r, HZ_LB_PREFIX "location", r->lb->location);
	wish->network_zone = text_or(r, HZ_LB_PREFIX "network-zone", r->lb->network_zone);
	if (wish->location.len > 0)
		wish->network_zone = STR_EMPTY;
}

bool
hz_lb_wish_has_place(const struct hz_lb_wish *wish, struct error *err)
{
	return wish->location.len > 0 || wish->network_zone.len > 0 ||
	       err_set(err, ERR_INVALID,
	               "hcops/LoadBalancerOps.Create: neither " HZ_LB_PREFIX
	               "location nor " HZ_LB_PREFIX "network-zone set");
}

static void
read_type(const struct reader *r)
{
	struct str type = text_or(r, HZ_LB_PREFIX "type", r->lb->type);

	r->wish->is_type_chosen = type.len > 0;
	r->wish->type = r->wish->is_type_chosen ? type : STR(DEFAULT_TYPE);
}

bool
hz_lb_has_type(const struct hz_config *config, const struct lb_spec *spec)
{
	struct reader r = { .lb = &config->lb, .spec = spec };

	return text_or(&r, HZ_LB_PREFIX "type", r.lb->type).len > 0;
}

static void
read_rdns(const struct reader *r, const char *key, struct hz_opt_str *ret)
{
	hz_annotation_text(r->spec, key, ret);
	ret->is_set = ret->value.len > 0;
}

/* That of the configuration is valid when trimmed and lower-cased; the official controller sends it as it is, for ever. */
static bool
read_algorithm(const struct reader *r)
{
	struct hz_opt_str algorithm = {
		.value = arena_lower(r->arena, str_trim(r->lb->algorithm)),
	};

	if (!hz_annotation_algorithm(r->spec, HZ_LB_PREFIX "algorithm-type", &algorithm, r->err))
		return err_wrap(r->err, SHAPE "changeAlgorithm");
	r->wish->algorithm = algorithm.value;
	return true;
}

/* ---- networks ---------------------------------------------------------------------------------------- */

static struct hz_opt_str
canonical(struct arena *arena, const struct ip *ip, int bits)
{
	char memory[64] = "";
	struct buf b = BUF_FIXED(memory);

	ip_format(&b, ip);
	if (bits >= 0)
		buf_addf(&b, "/%d", bits);
	return (struct hz_opt_str){ true, arena_str(arena, buf_str(&b)) };
}

static bool
read_private_ip(const struct reader *r)
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
	r->wish->private_ip = canonical(r->arena, &ip, -1);
	return true;
}

/* "10.0.1.5/24" asks for 10.0.1.0/24. */
static bool
read_subnet(const struct reader *r)
{
	struct str text = text_or(r, HZ_LB_PREFIX "private-subnet-ip-range", r->lb->private_subnet);
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
	r->wish->subnet = canonical(r->arena, &first, (int)net.bits - (is_v4 ? 96 : 0));
	return true;
}

static bool
read_public(const struct reader *r)
{
	enum hz_tri is_hidden = r->lb->hides_public;

	if (!hz_annotation_tri(r->spec, HZ_LB_PREFIX "disable-public-network", &is_hidden, r->err))
		return err_wrap(r->err, SHAPE "togglePublicInterface");
	if (is_hidden != HZ_UNSET)
		r->wish->is_public = is_hidden == HZ_YES ? HZ_NO : HZ_YES;
	return true;
}

static bool
read_networks(const struct reader *r)
{
	if (r->wish->network != 0 && (!read_private_ip(r) || !read_subnet(r)))
		return false;
	return read_public(r);
}

static bool
read_targets(const struct reader *r)
{
	r->wish->uses_private_ip = r->lb->uses_private_ip;
	if (!hz_annotation_bool(r->spec, HZ_LB_PREFIX "use-private-ip", &r->wish->uses_private_ip,
	                        r->err))
		return err_wrap(r->err, TARGETS);
	return !r->wish->uses_private_ip || r->wish->network != 0 ||
	       err_set(r->err, ERR_INVALID, TARGETS ": use private ip: missing network id");
}

/* ---- certificates ------------------------------------------------------------------------------------ */

/* Anything but a clear yes is no. */
static bool
is_staging(const struct reader *r)
{
	struct error ignored;
	bool is_yes = false;

	return hz_annotation_bool(r->spec, HZ_LB_PREFIX "http-managed-certificate-acme-staging",
	                          &is_yes, &ignored) &&
	       is_yes;
}

static bool
read_managed(const struct reader *r)
{
	struct hz_lb_wish *wish = r->wish;

	wish->certificate_name = text_or(r, HZ_LB_PREFIX "http-managed-certificate-name",
	                                 STR_EMPTY);
	if (wish->certificate_name.len == 0)
		wish->certificate_name = arena_printf(r->arena, DEFAULT_CERTIFICATE "%" STR_FMT,
		                                      STR_ARG(r->spec->uid));
	wish->is_staging = is_staging(r);
	if (!hz_annotation_list(r->spec, HZ_LB_PREFIX "http-managed-certificate-domains", r->arena,
	                        &wish->domains, &wish->n_domains) ||
	    wish->n_domains == 0)
		return err_set(r->err, ERR_INVALID,
		               SERVICES ": hcops/LoadBalancerOps.reconcileManagedCertificate: "
		                        "no domains for managed certificate");
	return true;
}

/* What is no number is a name. */
static void
read_uploaded(const struct reader *r)
{
	struct hz_lb_wish *wish = r->wish;
	struct str *elements;

	if (!hz_annotation_list(r->spec, HZ_LB_PREFIX "http-certificates", r->arena, &elements,
	                        &wish->n_certificates))
		return;
	wish->certificates = arena_calloc(r->arena, wish->n_certificates,
	                                  sizeof(*wish->certificates));
	for (size_t i = 0; i < wish->n_certificates; i++) {
		struct hz_certificate_ref *ref = &wish->certificates[i];

		ref->name = elements[i];
		if (!str_to_i64(elements[i], 1, INT64_MAX, &ref->id))
			ref->id = 0;
	}
}

static bool
read_certificates(const struct reader *r)
{
	struct str type = text_or(r, HZ_LB_PREFIX "certificate-type", STR_EMPTY);

	r->wish->is_managed = str_eq_c(type, "managed"); /* its case matters */
	if (r->wish->is_managed)
		return read_managed(r);
	read_uploaded(r);
	return true;
}

/* ---- all of it --------------------------------------------------------------------------------------- */

/* Of several mistakes the first counts: in the order in which the official controller comes across them. */
static bool
read_all(const struct reader *r)
{
	if (!check_selector(r))
		return false;
	read_name(r);
	read_place(r);
	read_type(r);
	read_rdns(r, HZ_LB_PREFIX "ipv4-rdns", &r->wish->ipv4_rdns);
	read_rdns(r, HZ_LB_PREFIX "ipv6-rdns", &r->wish->ipv6_rdns);
	return read_algorithm(r) && read_networks(r) && read_certificates(r) &&
	       hz_lb_wish_read_services(r) && read_targets(r);
}

bool
hz_lb_wish_read(const struct hz_config *config, int64_t network, const struct lb_spec *spec,
                struct arena *arena, struct hz_lb_wish *ret, struct error *err)
{
	struct hz_lb_wish wish = {
		.uid = spec->uid,
		.cluster = cluster_label(spec->cluster),
		.network = network,
	};
	struct reader r = {
		.lb = &config->lb,
		.spec = spec,
		.arena = arena,
		.wish = &wish,
		.err = err,
	};

	if (!check_bounds(spec, err) || !read_all(&r))
		return false;
	*ret = wish;
	return true;
}
