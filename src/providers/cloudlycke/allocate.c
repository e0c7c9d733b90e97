/* allocate.c: see allocate.h.
 *
 * Three parts, in the order in which they are used: what a Service asks for (its pool, wanted
 * addresses, source ranges, host name), who else has an address, and the search for one of each
 * family. A million IPv4 addresses may be taken, so the search looks them up in a sorted array.
 */
#include "providers/cloudlycke/allocate.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/names.h"
#include "base/buf.h"
#include "providers/cloudlycke/pools.h"

/* ---- the pool of a Service ---- */

static bool
is_open_to(const struct cl_pool *pool, struct str namespace)
{
	for (size_t i = 0; i < pool->namespaces.n; i++) {
		if (str_eq(pool->namespaces.items[i], namespace))
			return true;
	}
	return pool->namespaces.n == 0;
}

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
		               quote_z(arena, *name));
	if (!is_open_to(pool, spec->namespace))
		return err_set(err, ERR_INVALID, "address pool %s is not available to namespace %s",
		               quote_z(arena, pool->name), quote_z(arena, spec->namespace));
	*ret = pool;
	return true;
}

bool
cl_request_could_have(const struct cl_schema *schema, struct str namespace, const struct ip *ip)
{
	for (size_t i = 0; i < schema->n_pools; i++) {
		if (is_open_to(&schema->pools[i], namespace) &&
		    cl_pool_has(&schema->pools[i], ip, NULL))
			return true;
	}
	return false;
}

/* ---- wanted addresses ---- */

static bool
add_wanted(struct cl_addresses *wanted, struct str text, struct arena *arena, struct error *err)
{
	struct ip ip;

	if (!ip_parse(text, &ip))
		return err_set(err, ERR_INVALID, "%s is not an IP address", quote_z(arena, text));
	if (cl_addresses_of(wanted, ip_family(&ip)))
		return err_set(err, ERR_INVALID,
		               "more than one %s address is wanted; one of each family can be",
		               ip_family(&ip) == IP_V4 ? "IPv4" : "IPv6");
	wanted->items[wanted->n++] = ip;
	return true;
}

static bool
read_wanted(const struct lb_spec *spec, struct arena *arena, struct cl_addresses *wanted,
            struct error *err)
{
	const struct str *list = lb_annotation(spec, CL_ANNOTATION("addresses"));

	if (list && spec->wanted_ip.len > 0)
		return err_set(err, ERR_INVALID,
		               "annotation \"%s\" and spec.loadBalancerIP are both set: keep one",
		               CL_ANNOTATION("addresses"));
	if (spec->wanted_ip.len > 0)
		return add_wanted(wanted, spec->wanted_ip, arena, err);
	if (!list || str_trim(*list).len == 0)
		return true;
	for (struct str part, rest = *list; str_split(&rest, ',', &part);) {
		if (!add_wanted(wanted, str_trim(part), arena, err))
			return false;
	}
	return true;
}

/* ---- source ranges ---- */

/* By text; equal ones in the order of the list, into which both point. */
static int
by_text(const void *a, const void *b)
{
	const struct str *const *x = a, *const *y = b;
	int order = str_cmp(**x, **y);

	return order != 0 ? order : (*x > *y) - (*x < *y);
}

/* Removes texts that occur earlier in the list; the others stay in their order. */
static size_t
drop_duplicates(struct str *texts, size_t n, struct arena *arena)
{
	struct str **sorted = arena_calloc(arena, n + 1, sizeof(struct str *));
	size_t n_kept = 0;

	for (size_t i = 0; i < n; i++)
		sorted[i] = &texts[i];
	qsort(sorted, n, sizeof(sorted[0]), by_text);
	for (size_t i = n; i-- > 1;) {
		if (str_eq(*sorted[i], *sorted[i - 1]))
			*sorted[i] = STR_EMPTY;
	}
	for (size_t i = 0; i < n; i++) {
		if (texts[i].len > 0)
			texts[n_kept++] = texts[i];
	}
	return n_kept;
}

/* Each must be a network; duplicates count once (docs/spec/framework.md, "Source ranges"). Returns
 * the first that is not a network, or NULL. */
static const struct str *
read_ranges(const struct lb_spec *spec, struct arena *arena, struct cl_record_values *values)
{
	struct str *ranges = arena_calloc(arena, spec->n_source_ranges + 1, sizeof(*ranges));
	const struct str *bad = NULL;
	size_t n = 0;

	for (size_t i = 0; i < spec->n_source_ranges; i++) {
		struct ip_net net;
		struct ip last;

		if (!ip_net_parse(str_trim(spec->source_ranges[i]), &net)) {
			bad = bad ? bad : &spec->source_ranges[i];
			continue;
		}
		ip_net_span(&net, &net.ip, &last); /* without host bits */
		ranges[n++] = cl_net_text(&net, arena);
	}
	values->source_ranges = ranges;
	values->n_source_ranges = drop_duplicates(ranges, n, arena);
	return bad;
}

/* ---- names and protocols ---- */

/* Refuses a name that the API server would not accept in a status. */
static bool
read_hostname(const struct cl_pool *pool, const struct lb_spec *spec, struct arena *arena,
              struct str *ret, struct error *err)
{
	CLEANUP(buf_fini) struct buf filled = BUF_INIT(KIB(4));
	const struct str *given = lb_annotation(spec, CL_ANNOTATION("hostname"));
	struct str hostname;
	struct ip ip;

	if (!given)
		cl_fill_template(&filled, pool->hostname_template, spec->service, spec->namespace);
	hostname = given ? str_trim(*given) : arena_str(arena, buf_str(&filled));
	if (hostname.len > 0 && (!name_is_dns_subdomain(hostname) || ip_parse(hostname, &ip)))
		return err_set(err, ERR_INVALID, "hostname %s is not a DNS name",
		               quote_z(arena, hostname));
	*ret = hostname;
	return true;
}

static bool
read_proxy(const struct lb_spec *spec, struct arena *arena, enum cl_proxy *ret, struct error *err)
{
	const struct str *text = lb_annotation(spec, CL_ANNOTATION("proxy-protocol"));
	bool is_v1 = text && str_eq_c(*text, "v1"), is_v2 = text && str_eq_c(*text, "v2");

	if (text && text->len > 0 && !is_v1 && !is_v2)
		return err_set(err, ERR_INVALID, "annotation \"%s\": %s is not one of v1, v2",
		               CL_ANNOTATION("proxy-protocol"), quote_z(arena, *text));
	*ret = is_v1 ? CL_PROXY_V1 : is_v2 ? CL_PROXY_V2 : CL_PROXY_NONE;
	return true;
}

/* ---- a whole request ---- */

/* What needs no check. */
static struct cl_record_values
begin_values(const struct lb_spec *spec)
{
	const struct str *share_key = lb_annotation(spec, CL_ANNOTATION("share"));

	return (struct cl_record_values){
		.allocation = { .namespace = spec->namespace,
		                .service = spec->service,
		                .uid = spec->uid,
		                .share_key = share_key ? str_trim(*share_key) : STR_EMPTY,
		                .ports = spec->ports,
		                .n_ports = spec->n_ports },
		.cluster = spec->cluster,
		.name = spec->name,
		.pool = STR_EMPTY,
		.hostname = STR_EMPTY,
		.traffic = spec->traffic,
		.health_check_node_port = spec->health_check_node_port,
		.has_client_ip_affinity = spec->has_client_ip_affinity,
		.affinity_timeout_s = spec->has_client_ip_affinity ? spec->affinity_timeout_s : 0,
		.hook.error = STR_EMPTY,
	};
}

bool
cl_request_read(const struct cl_schema *schema, const struct lb_spec *spec, struct arena *arena,
                struct cl_request *ret, struct error *err)
{
	struct cl_request r = { .families = spec->families,
		                .n_families = spec->n_families,
		                .may_lack = spec->family_policy == LB_PREFER_DUAL_STACK,
		                .values = begin_values(spec) };
	const struct str *bad;

	if (!cl_request_pool(schema, spec, arena, &r.pool, err) ||
	    !read_wanted(spec, arena, &r.wanted, err) ||
	    !read_hostname(r.pool, spec, arena, &r.values.hostname, err) ||
	    !read_proxy(spec, arena, &r.values.proxy, err))
		return false;
	bad = read_ranges(spec, arena, &r.values);
	if (bad)
		return err_set(err, ERR_INVALID, "source range %s is not a CIDR",
		               quote_z(arena, *bad));
	r.values.pool = r.pool->name;
	r.values.ip_mode = r.pool->ip_mode;
	*ret = r;
	return true;
}

void
cl_values_from_status(const struct lb_spec *spec, struct arena *arena, struct cl_record_values *ret)
{
	static const struct str no_client = { "0.0.0.0/32", 10 };
	struct cl_addresses *addresses = &ret->allocation.addresses;
	struct error ignored;
	struct ip ip;

	*ret = begin_values(spec);
	for (size_t i = 0; i < spec->status.n_ingress && addresses->n < CL_FAMILIES; i++) {
		if (ip_parse(spec->status.ingress[i].ip, &ip) &&
		    !cl_addresses_of(addresses, ip_family(&ip)))
			addresses->items[addresses->n++] = ip;
	}
	(void)!read_proxy(spec, arena, &ret->proxy, &ignored);
	if (read_ranges(spec, arena, ret) && ret->n_source_ranges == 0) {
		/* a mistake in the ranges must not open the port to all clients */
		ret->source_ranges = &no_client;
		ret->n_source_ranges = 1;
	}
}

/* ---- who else has an address ---- */

/* The search for an address of one family. */
struct search {
	const struct cl_request *request;
	const struct cl_addresses *present;
	const struct cl_allocation *const *others;
	size_t n;
	struct arena *arena;
	enum ip_family family;
};

/* A port and protocol may be used by one of them: TCP 53 and UDP 53 can share an address. The ports
 * of one are collected in a set first: this runs for many pairs of Services, with the lock held. */
bool
cl_may_share(const struct cl_allocation *a, const struct cl_allocation *b,
             const struct lb_port **ret_port)
{
	uint64_t set[LB_SCTP + 1][(UINT16_MAX + 1) / 64];

	if (ret_port)
		*ret_port = NULL;
	if (a->share_key.len == 0 || !str_eq(a->share_key, b->share_key) ||
	    !str_eq(a->namespace, b->namespace))
		return false;
	memset(set, 0, sizeof(set));
	for (size_t i = 0; i < b->n_ports; i++) {
		uint16_t port = (uint16_t)b->ports[i].port;

		set[b->ports[i].protocol][port / 64] |= UINT64_C(1) << port % 64;
	}
	for (size_t i = 0; i < a->n_ports; i++) {
		uint16_t port = (uint16_t)a->ports[i].port;

		if (!(set[a->ports[i].protocol][port / 64] >> port % 64 & 1))
			continue;
		if (ret_port)
			*ret_port = &a->ports[i];
		return false;
	}
	return true;
}

static bool
is_self(const struct search *s, const struct cl_allocation *other)
{
	return str_eq(other->uid, s->request->values.allocation.uid);
}

/* The first other Service that has the address and does not share it; NULL: none. The ports and the
 * sharing key of an orphan are not known: a Service that has had the address together with it keeps
 * the address, and no other Service gets it. */
static const struct cl_allocation *
find_other_holder(const struct search *s, const struct ip *ip, const struct lb_port **ret_port)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct cl_allocation *other = s->others[i];

		if (is_self(s, other) || !cl_addresses_have(&other->addresses, ip))
			continue;
		if (other->is_orphan
		            ? !cl_addresses_have(s->present, ip)
		            : !cl_may_share(&s->request->values.allocation, other, ret_port))
			return other;
	}
	return NULL;
}

static bool
is_available(const struct search *s, const struct ip *ip)
{
	return cl_pool_has(s->request->pool, ip, NULL) && !find_other_holder(s, ip, NULL);
}

/* ---- an address of one family ---- */

static bool
check_wanted(const struct search *s, const struct ip *ip, bool *ret_is_full, struct error *err)
{
	const char *text = cl_ip_text(ip, s->arena);
	const struct lb_port *port = NULL;
	const struct cl_allocation *other;
	bool is_avoided;

	if (!cl_pool_has(s->request->pool, ip, &is_avoided))
		return err_set(err, ERR_INVALID, "address \"%s\" is %s pool %s", text,
		               is_avoided ? "reserved in" : "not in",
		               quote_z(s->arena, s->request->pool->name));
	other = find_other_holder(s, ip, &port);
	*ret_is_full = other != NULL;
	if (!other)
		return true;
	if (port)
		return err_set(err, ERR_INVALID,
		               "address \"%s\" cannot be shared: port %d/%" STR_FMT
		               " is used by %" STR_FMT "/%" STR_FMT,
		               text, (int)port->port, STR_ARG(port->protocol_text),
		               STR_ARG(other->namespace), STR_ARG(other->service));
	return err_set(err, ERR_INVALID, "address \"%s\" is already used by %" STR_FMT "/%" STR_FMT,
	               text, STR_ARG(other->namespace), STR_ARG(other->service));
}

/* The address that the Service has already. It is given up when its pool no longer has it, or when
 * another Service has it, too, and does not share it. */
static bool
find_kept(const struct search *s, struct ip *ret)
{
	for (size_t i = 0; i < s->present->n; i++) {
		const struct ip *ip = &s->present->items[i];

		if (ip_family(ip) == s->family && is_available(s, ip)) {
			*ret = *ip;
			return true;
		}
	}
	return false;
}

/* The lowest address of a Service with the same sharing key. */
static bool
find_shared(const struct search *s, struct ip *ret)
{
	bool is_found = false;

	for (size_t i = 0; i < s->n; i++) {
		const struct cl_allocation *other = s->others[i];
		const struct ip *ip = cl_addresses_of(&other->addresses, s->family);

		if (!ip || is_self(s, other) || (is_found && ip_cmp(ip, ret) >= 0))
			continue;
		if (cl_may_share(&s->request->values.allocation, other, NULL) &&
		    is_available(s, ip)) {
			*ret = *ip;
			is_found = true;
		}
	}
	return is_found;
}

static bool
find_free(const struct search *s, struct ip *ret, struct error *err)
{
	struct ip *taken = arena_calloc(s->arena, s->n * CL_FAMILIES + 1, sizeof(*taken));
	const struct cl_pool *pool = s->request->pool;
	size_t n_taken = 0, n_used = 0;

	/* Sorted, so that each address is looked up instead of compared with those of every
	 * Service, which would take long where a large pool is nearly full. */
	for (size_t i = 0; i < s->n; i++) {
		const struct cl_addresses *others = &s->others[i]->addresses;

		for (size_t k = 0; k < others->n && !is_self(s, s->others[i]); k++) {
			if (ip_family(&others->items[k]) == s->family)
				taken[n_taken++] = others->items[k];
		}
	}
	qsort(taken, n_taken, sizeof(taken[0]), cl_ip_order);
	if (cl_pool_find(pool, s->family, taken, n_taken, ret))
		return true;
	/* None is free, so the usable addresses in use are all that the pool has. */
	for (size_t i = 0; i < n_taken; i++) {
		if ((i == 0 || !ip_eq(&taken[i], &taken[i - 1])) &&
		    cl_pool_has(pool, &taken[i], NULL))
			n_used++;
	}
	return err_set(err, ERR_INVALID,
	               "address pool %s has no free %s address (%zu of %zu in use)",
	               quote_z(s->arena, pool->name), s->family == IP_V4 ? "IPv4" : "IPv6", n_used,
	               n_used);
}

static bool
allocate_family(const struct search *s, struct ip *ret, bool *ret_is_full, struct error *err)
{
	const struct ip *wanted = cl_addresses_of(&s->request->wanted, s->family);

	if (wanted) {
		*ret = *wanted;
		return check_wanted(s, wanted, ret_is_full, err);
	}
	if (find_kept(s, ret) || find_shared(s, ret) || find_free(s, ret, err))
		return true;
	*ret_is_full = true;
	return false;
}

/* ---- all families ---- */

static bool
has_family(const struct cl_request *request, enum ip_family family)
{
	for (size_t i = 0; i < request->n_families; i++) {
		if (request->families[i] == family)
			return true;
	}
	return false;
}

/* With PreferDualStack, a family without a free address is left out, unless an address of it is
 * wanted. */
bool
cl_allocate(const struct cl_request *request, const struct cl_addresses *present,
            const struct cl_allocation *const others[], size_t n, struct arena *arena,
            struct cl_addresses *ret, bool *ret_is_full, struct error *err)
{
	struct search s = {
		.request = request, .present = present, .others = others, .n = n, .arena = arena
	};
	struct cl_addresses found = { .n = 0 };

	*ret_is_full = false;
	for (size_t i = 0; i < request->wanted.n; i++) {
		const struct ip *wanted = &request->wanted.items[i];

		if (!has_family(request, ip_family(wanted)))
			return err_set(err, ERR_INVALID,
			               "address \"%s\" is of none of the Service's IP families",
			               cl_ip_text(wanted, arena));
	}
	for (size_t i = 0; i < request->n_families && i < CL_FAMILIES; i++) {
		s.family = request->families[i];
		if (allocate_family(&s, &found.items[found.n], ret_is_full, err))
			found.n++;
		else if (!request->may_lack || cl_addresses_of(&request->wanted, s.family))
			return false;
	}
	if (found.n == 0)
		return false; /* with the error of the last family */
	*ret = found;
	return true;
}
