/* request.c: see request.h. */
#include "providers/cloudlycke/request.h"

#include "base/limits.h"
#include "providers/cloudlycke/check.h"
#include "providers/cloudlycke/quote.h"

/* ---- the pool ---------------------------------------------------------------------------------------- */

static const struct cl_pool *
pool_named(const struct cl_schema *schema, struct str name)
{
	for (size_t i = 0; i < schema->n_pools; i++) {
		if (str_eq(schema->pools[i].name, name))
			return &schema->pools[i];
	}
	return NULL;
}

static const struct cl_pool *
default_pool(const struct cl_schema *schema)
{
	for (size_t i = 0; i < schema->n_pools; i++) {
		if (schema->pools[i].is_default)
			return &schema->pools[i];
	}
	return schema->n_pools == 1 ? &schema->pools[0] : NULL;
}

static bool
is_open_to(const struct cl_pool *pool, struct str namespace)
{
	for (size_t i = 0; i < pool->namespaces.n; i++) {
		if (str_eq(pool->namespaces.items[i], namespace))
			return true;
	}
	return pool->namespaces.n == 0;
}

bool
cl_request_pool(const struct cl_schema *schema, const struct lb_spec *spec, struct arena *arena,
                const struct cl_pool **ret, struct error *err)
{
	const struct str *name = lb_annotation(spec, CL_ANNOTATION("pool"));
	const struct cl_pool *pool = name ? pool_named(schema, str_trim(*name))
	                                  : default_pool(schema);

	if (!pool && !name)
		return err_set(err, ERR_INVALID,
		               "no address pool: set one as default or use annotation \"%s\"",
		               CL_ANNOTATION("pool"));
	if (!pool)
		return err_set(err, ERR_INVALID, "address pool %s does not exist",
		               cl_q(arena, *name));
	if (!is_open_to(pool, spec->namespace))
		return err_set(err, ERR_INVALID, "address pool %s is not available to namespace %s",
		               cl_q(arena, pool->name), cl_q(arena, spec->namespace));
	*ret = pool;
	return true;
}

bool
cl_request_could_have(const struct cl_schema *schema, struct str namespace, const struct ip *ip)
{
	for (size_t i = 0; i < schema->n_pools; i++) {
		bool is_avoided;

		if (is_open_to(&schema->pools[i], namespace) &&
		    cl_pool_has(&schema->pools[i], ip, &is_avoided))
			return true;
	}
	return false;
}

/* ---- wanted addresses -------------------------------------------------------------------------------- */

static bool
add_wanted(struct cl_wish *wish, struct str text, struct arena *arena, struct error *err)
{
	struct ip ip;

	if (!ip_parse(text, &ip))
		return err_set(err, ERR_INVALID, "%s is not an IP address", cl_q(arena, text));
	for (size_t i = 0; i < wish->n_wanted; i++) {
		if (ip_family(&wish->wanted[i]) == ip_family(&ip))
			return err_set(
				err, ERR_INVALID,
				"more than one %s address is wanted; one of each family can be",
				ip_family(&ip) == IP_V4 ? "IPv4" : "IPv6");
	}
	wish->wanted[wish->n_wanted++] = ip;
	return true;
}

static bool
read_wanted(const struct lb_spec *spec, struct cl_wish *wish, struct arena *arena,
            struct error *err)
{
	const struct str *list = lb_annotation(spec, CL_ANNOTATION("addresses"));

	if (list && spec->wanted_ip.len > 0)
		return err_set(err, ERR_INVALID,
		               "annotation \"%s\" and spec.loadBalancerIP are both set: keep one",
		               CL_ANNOTATION("addresses"));
	if (spec->wanted_ip.len > 0)
		return add_wanted(wish, spec->wanted_ip, arena, err);
	if (!list || str_trim(*list).len == 0)
		return true;
	for (struct str part, rest = *list; str_split(&rest, ',', &part);) {
		if (!add_wanted(wish, str_trim(part), arena, err))
			return false;
	}
	return true;
}

/* ---- source ranges ----------------------------------------------------------------------------------- */

static struct ip_net
masked(struct ip_net net)
{
	for (unsigned i = net.bits; i < 128; i++)
		net.ip.bytes[i / 8] &= (uint8_t)~(0x80 >> i % 8);
	return net;
}

static struct str
net_text(const struct ip_net *net, struct arena *arena)
{
	char memory[80] = "";
	struct buf b = BUF_FIXED(memory);

	ip_format(&b, &net->ip);
	buf_addf(&b, "/%u", net->bits - (ip_family(&net->ip) == IP_V4 && net->bits >= 96 ? 96 : 0));
	return arena_str(arena, buf_str(&b));
}

static bool
has_text(const struct str *texts, size_t n, struct str text)
{
	for (size_t i = 0; i < n; i++) {
		if (str_eq(texts[i], text))
			return true;
	}
	return false;
}

/* framework.md 2.7: each must be a network; what is twice there counts once. The first that is none, or NULL. */
static const struct str *
read_ranges(const struct lb_spec *spec, struct arena *arena, struct cl_record *draft)
{
	struct str *ranges = arena_calloc(arena, spec->n_source_ranges + 1, sizeof(*ranges));
	const struct str *bad = NULL;
	size_t n = 0;

	for (size_t i = 0; i < spec->n_source_ranges; i++) {
		struct ip_net net;
		struct str text;

		if (!ip_net_parse(str_trim(spec->source_ranges[i]), &net)) {
			bad = bad ? bad : &spec->source_ranges[i];
			continue;
		}
		net = masked(net);
		text = net_text(&net, arena);
		if (!has_text(ranges, n, text))
			ranges[n++] = text;
	}
	draft->source_ranges = ranges;
	draft->n_source_ranges = n;
	return bad;
}

/* ---- names ------------------------------------------------------------------------------------------- */

static struct str
fill_template(const struct cl_pool *pool, const struct lb_spec *spec, struct arena *arena)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(4));
	struct str rest = pool->hostname_template, name = STR("{name}"), ns = STR("{namespace}");

	while (rest.len > 0) {
		size_t skip = 1;

		if (str_starts(rest, name))
			buf_add_str(&b, spec->service), skip = name.len;
		else if (str_starts(rest, ns))
			buf_add_str(&b, spec->namespace), skip = ns.len;
		else
			buf_add_char(&b, rest.ptr[0]);
		rest = str_skip(rest, skip);
	}
	return arena_str(arena, buf_str(&b));
}

/* What the API server would not take in a status is refused here, with the reason. */
static bool
read_hostname(const struct cl_pool *pool, const struct lb_spec *spec, struct arena *arena,
              struct str *ret, struct error *err)
{
	const struct str *given = lb_annotation(spec, CL_ANNOTATION("hostname"));
	struct str hostname = given ? str_trim(*given) : fill_template(pool, spec, arena);
	struct ip ip;

	if (hostname.len > 0 && (!cl_rule_node_name.is_valid(hostname) || ip_parse(hostname, &ip)))
		return err_set(err, ERR_INVALID, "hostname %s is not a DNS name",
		               cl_q(arena, hostname));
	*ret = hostname;
	return true;
}

static struct str
share_key(const struct lb_spec *spec)
{
	const struct str *key = lb_annotation(spec, CL_ANNOTATION("share"));

	return key ? str_trim(*key) : STR_EMPTY;
}

static bool
read_proxy(const struct lb_spec *spec, struct arena *arena, enum cl_proxy *ret, struct error *err)
{
	const struct str *text = lb_annotation(spec, CL_ANNOTATION("proxy-protocol"));

	if (!text || text->len == 0)
		return true;
	if (str_eq_c(*text, "v1"))
		*ret = CL_PROXY_V1;
	else if (str_eq_c(*text, "v2"))
		*ret = CL_PROXY_V2;
	else
		return err_set(err, ERR_INVALID, "annotation \"%s\": %s is not one of v1, v2",
		               CL_ANNOTATION("proxy-protocol"), cl_q(arena, *text));
	return true;
}

/* ---- all of it --------------------------------------------------------------------------------------- */

static struct cl_holding
holding_of(const struct lb_spec *spec)
{
	return (struct cl_holding){ .namespace = spec->namespace,
		                    .service = spec->service,
		                    .uid = spec->uid,
		                    .share_key = share_key(spec),
		                    .ports = spec->ports,
		                    .n_ports = spec->n_ports };
}

static struct cl_record
draft_of(const struct lb_spec *spec)
{
	return (struct cl_record){
		.holding = holding_of(spec),
		.cluster = spec->cluster,
		.name = spec->name,
		.pool = STR_EMPTY,
		.hostname = STR_EMPTY,
		.traffic = spec->traffic,
		.health_check_node_port = spec->health_check_node_port,
		.has_client_ip_affinity = spec->has_client_ip_affinity,
		.affinity_timeout_s = spec->has_client_ip_affinity ? spec->affinity_timeout_s : 0,
		.hook_error = STR_EMPTY,
	};
}

bool
cl_request_read(const struct cl_schema *schema, const struct lb_spec *spec, struct arena *arena,
                struct cl_request *ret, struct error *err)
{
	struct cl_request r = { .draft = draft_of(spec) };
	const struct str *bad;

	r.wish = (struct cl_wish){ .families = spec->families,
		                   .n_families = spec->n_families,
		                   .may_lack = spec->family_policy == LB_PREFER_DUAL_STACK };
	if (!cl_request_pool(schema, spec, arena, &r.wish.pool, err) ||
	    !read_wanted(spec, &r.wish, arena, err) ||
	    !read_hostname(r.wish.pool, spec, arena, &r.draft.hostname, err) ||
	    !read_proxy(spec, arena, &r.draft.proxy, err))
		return false;
	bad = read_ranges(spec, arena, &r.draft);
	if (bad)
		return err_set(err, ERR_INVALID, "source range %s is not a CIDR",
		               cl_q(arena, *bad));
	r.draft.pool = r.wish.pool->name;
	r.draft.ip_mode = r.wish.pool->ip_mode;
	*ret = r;
	return true;
}

static void
recall_addresses(const struct lb_status *status, struct cl_holding *h)
{
	struct ip ip;

	for (size_t i = 0; i < status->n_ingress && h->n_addresses < CL_FAMILIES; i++) {
		if (ip_parse(status->ingress[i].ip, &ip) &&
		    (h->n_addresses == 0 || ip_family(&ip) != ip_family(&h->addresses[0])))
			h->addresses[h->n_addresses++] = ip;
	}
}

void
cl_request_recall(const struct lb_spec *spec, struct arena *arena, struct cl_record *ret_draft)
{
	static const struct str nobody = { "0.0.0.0/32", 10 };
	struct error ignored;

	*ret_draft = draft_of(spec);
	recall_addresses(&spec->status, &ret_draft->holding);
	(void)!read_proxy(spec, arena, &ret_draft->proxy, &ignored);
	if (read_ranges(spec, arena, ret_draft) && ret_draft->n_source_ranges == 0) {
		ret_draft->source_ranges =
			&nobody; /* nothing that was closed is opened by a mistake */
		ret_draft->n_source_ranges = 1;
	}
}
