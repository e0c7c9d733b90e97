/* allocation.c: see allocation.h. */
#include "providers/cloudlycke/allocation.h"

#include <stdlib.h>
#include <string.h>

#include "providers/cloudlycke/quote.h"

/* One family of one wish. */
struct search {
	const struct cl_wish *wish;
	const struct cl_holding *const *others;
	size_t n;
	struct arena *arena;
	enum ip_family family;
	struct ip *taken; /* by others, sorted; NULL: not collected yet */
	size_t n_taken;
};

/* ---- addresses of a pool ----------------------------------------------------------------------------- */

static bool
block_has(const struct cl_block *block, const struct ip *ip)
{
	return ip_cmp(ip, &block->first) >= 0 && ip_cmp(ip, &block->last) <= 0;
}

static bool
is_edge(const struct cl_pool *pool, const struct cl_block *block, const struct ip *ip)
{
	return pool->avoids_edges && block->has_edges &&
	       (ip_eq(ip, &block->first) || ip_eq(ip, &block->last));
}

/* The block of `avoid` that holds it, or NULL. */
static const struct cl_block *
avoided_by(const struct cl_pool *pool, const struct ip *ip)
{
	for (size_t i = 0; i < pool->avoid.n; i++) {
		if (block_has(&pool->avoid.items[i], ip))
			return &pool->avoid.items[i];
	}
	return NULL;
}

/* An address can be the edge of one block and in the middle of another. */
bool
cl_pool_has(const struct cl_pool *pool, const struct ip *ip, bool *ret_is_avoided)
{
	bool is_listed = false, is_usable = false;

	for (size_t i = 0; i < pool->addresses.n; i++) {
		const struct cl_block *block = &pool->addresses.items[i];

		if (!block_has(block, ip))
			continue;
		is_listed = true;
		is_usable = is_usable || !is_edge(pool, block, ip);
	}
	*ret_is_avoided = is_listed && (!is_usable || avoided_by(pool, ip));
	return is_listed && !*ret_is_avoided;
}

static bool
is_usable(const struct cl_pool *pool, const struct ip *ip)
{
	bool is_avoided;

	return cl_pool_has(pool, ip, &is_avoided);
}

/* False at the end of all addresses. */
static bool
increment(struct ip *ip)
{
	for (size_t i = sizeof(ip->bytes); i-- > 0;) {
		if (++ip->bytes[i] != 0)
			return true;
	}
	return false;
}

/* ---- who has what ------------------------------------------------------------------------------------ */

bool
cl_holding_has(const struct cl_holding *h, const struct ip *ip)
{
	for (size_t i = 0; i < h->n_addresses; i++) {
		if (ip_eq(&h->addresses[i], ip))
			return true;
	}
	return false;
}

static const struct lb_port *
common_port(const struct cl_holding *a, const struct cl_holding *b)
{
	for (size_t i = 0; i < a->n_ports; i++) {
		for (size_t k = 0; k < b->n_ports; k++) {
			if (a->ports[i].port == b->ports[k].port &&
			    a->ports[i].protocol == b->ports[k].protocol)
				return &a->ports[i];
		}
	}
	return NULL;
}

bool
cl_may_share(const struct cl_holding *a, const struct cl_holding *b,
             const struct lb_port **ret_port)
{
	const struct lb_port *port = NULL;
	bool are_friends = a->share_key.len > 0 && str_eq(a->share_key, b->share_key) &&
	                   str_eq(a->namespace, b->namespace);

	if (are_friends)
		port = common_port(a, b);
	if (ret_port)
		*ret_port = port;
	return are_friends && !port;
}

/* The first of the others that has the address and does not share it; NULL: none. */
static const struct cl_holding *
rival_for(const struct search *s, const struct ip *ip, const struct lb_port **ret_port)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct cl_holding *other = s->others[i];

		if (!str_eq(other->uid, s->wish->self.uid) && cl_holding_has(other, ip) &&
		    !cl_may_share(&s->wish->self, other, ret_port))
			return other;
	}
	return NULL;
}

static bool
is_free(const struct search *s, const struct ip *ip)
{
	return !rival_for(s, ip, NULL);
}

static int
by_value(const void *a, const void *b)
{
	return ip_cmp(a, b);
}

static void
collect_taken(struct search *s)
{
	s->taken = arena_calloc(s->arena, s->n * CL_FAMILIES + 1, sizeof(s->taken[0]));
	for (size_t i = 0; i < s->n; i++) {
		const struct cl_holding *other = s->others[i];

		for (size_t k = 0; k < other->n_addresses; k++) {
			if (!str_eq(other->uid, s->wish->self.uid) &&
			    ip_family(&other->addresses[k]) == s->family)
				s->taken[s->n_taken++] = other->addresses[k];
		}
	}
	qsort(s->taken, s->n_taken, sizeof(s->taken[0]), by_value);
}

static bool
is_taken(const struct search *s, const struct ip *ip)
{
	return bsearch(ip, s->taken, s->n_taken, sizeof(s->taken[0]), by_value) != NULL;
}

/* ---- what it has ------------------------------------------------------------------------------------- */

static const struct ip *
wanted_of(const struct search *s)
{
	for (size_t i = 0; i < s->wish->n_wanted; i++) {
		if (ip_family(&s->wish->wanted[i]) == s->family)
			return &s->wish->wanted[i];
	}
	return NULL;
}

static bool
find_kept(const struct search *s, struct ip *ret)
{
	const struct cl_holding *self = &s->wish->self;

	for (size_t i = 0; i < self->n_addresses; i++) {
		const struct ip *ip = &self->addresses[i];

		if (ip_family(ip) == s->family && is_usable(s->wish->pool, ip) && is_free(s, ip)) {
			*ret = *ip;
			return true;
		}
	}
	return false;
}

/* ---- a wanted one ------------------------------------------------------------------------------------ */

static const char *
ip_text(const struct search *s, const struct ip *ip)
{
	char memory[64] = "";
	struct buf b = BUF_FIXED(memory);

	ip_format(&b, ip);
	return arena_strz(s->arena, buf_str(&b));
}

static bool
refuse_rival(const struct search *s, const struct ip *ip, const struct cl_holding *rival,
             const struct lb_port *port, struct error *err)
{
	if (port)
		return err_set(err, ERR_INVALID,
		               "address \"%s\" cannot be shared: port %d/%" STR_FMT
		               " is used by %" STR_FMT "/%" STR_FMT,
		               ip_text(s, ip), (int)port->port, STR_ARG(port->protocol_text),
		               STR_ARG(rival->namespace), STR_ARG(rival->service));
	return err_set(err, ERR_INVALID, "address \"%s\" is already used by %" STR_FMT "/%" STR_FMT,
	               ip_text(s, ip), STR_ARG(rival->namespace), STR_ARG(rival->service));
}

static bool
check_wanted(const struct search *s, const struct ip *ip, bool *ret_is_full, struct error *err)
{
	const struct lb_port *port = NULL;
	const struct cl_holding *rival;
	bool is_avoided;

	if (!cl_pool_has(s->wish->pool, ip, &is_avoided))
		return err_set(err, ERR_INVALID, "address \"%s\" is %s pool %s", ip_text(s, ip),
		               is_avoided ? "reserved in" : "not in",
		               cl_q(s->arena, s->wish->pool->name));
	rival = rival_for(s, ip, &port);
	*ret_is_full = rival != NULL;
	return !rival || refuse_rival(s, ip, rival, port, err);
}

/* ---- a new one --------------------------------------------------------------------------------------- */

/* The lowest that a Service of the same sharing key has. */
static bool
find_shared(const struct search *s, struct ip *ret)
{
	bool is_found = false;

	for (size_t i = 0; i < s->n; i++) {
		const struct cl_holding *other = s->others[i];

		if (str_eq(other->uid, s->wish->self.uid) ||
		    !cl_may_share(&s->wish->self, other, NULL))
			continue;
		for (size_t k = 0; k < other->n_addresses; k++) {
			const struct ip *ip = &other->addresses[k];

			if (ip_family(ip) != s->family || (is_found && ip_cmp(ip, ret) >= 0) ||
			    !is_usable(s->wish->pool, ip) || !is_free(s, ip))
				continue;
			*ret = *ip;
			is_found = true;
		}
	}
	return is_found;
}

/* Steps over what is avoided and what is taken, block by block: a pool may hold 2^64 addresses. */
static bool
find_free_in(const struct search *s, const struct cl_block *block, struct ip *ret)
{
	struct ip ip = block->first;

	while (ip_cmp(&ip, &block->last) <= 0) {
		const struct cl_block *avoid = avoided_by(s->wish->pool, &ip);

		if (avoid) {
			ip = avoid->last;
		} else if (!is_edge(s->wish->pool, block, &ip) && !is_taken(s, &ip)) {
			*ret = ip;
			return true;
		}
		if (!increment(&ip))
			return false;
	}
	return false;
}

static bool
find_free(struct search *s, struct ip *ret)
{
	const struct cl_blocks *blocks = &s->wish->pool->addresses;

	collect_taken(s);
	for (size_t i = 0; i < blocks->n; i++) {
		if (ip_family(&blocks->items[i].first) == s->family &&
		    find_free_in(s, &blocks->items[i], ret))
			return true;
	}
	return false;
}

/* When none is free, every usable one is in use. */
static size_t
count_used(const struct search *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_taken; i++) {
		if ((i == 0 || !ip_eq(&s->taken[i], &s->taken[i - 1])) &&
		    is_usable(s->wish->pool, &s->taken[i]))
			n++;
	}
	return n;
}

/* ---- all of it --------------------------------------------------------------------------------------- */

static bool
allocate_family(struct search *s, struct ip *ret, bool *ret_is_full, struct error *err)
{
	const struct ip *wanted = wanted_of(s);
	size_t n_used;

	if (wanted) {
		*ret = *wanted;
		return check_wanted(s, wanted, ret_is_full, err);
	}
	if (find_kept(s, ret) || (s->wish->self.share_key.len > 0 && find_shared(s, ret)) ||
	    find_free(s, ret))
		return true;
	*ret_is_full = true;
	n_used = count_used(s);
	return err_set(err, ERR_INVALID,
	               "address pool %s has no free %s address (%zu of %zu in use)",
	               cl_q(s->arena, s->wish->pool->name), s->family == IP_V4 ? "IPv4" : "IPv6",
	               n_used, n_used);
}

static bool
has_family(const struct cl_wish *wish, enum ip_family family)
{
	for (size_t i = 0; i < wish->n_families; i++) {
		if (wish->families[i] == family)
			return true;
	}
	return false;
}

static bool
check_families(const struct cl_wish *wish, struct arena *arena, struct error *err)
{
	struct search s = { .arena = arena };

	for (size_t i = 0; i < wish->n_wanted; i++) {
		if (!has_family(wish, ip_family(&wish->wanted[i])))
			return err_set(err, ERR_INVALID,
			               "address \"%s\" is of none of the Service's IP families",
			               ip_text(&s, &wish->wanted[i]));
	}
	return true;
}

/* With PreferDualStack one family may have to do without; a wanted address may not. */
static bool
allocate_all(const struct cl_wish *wish, struct search *s, struct cl_grant *grant,
             bool *ret_is_full, struct error *err)
{
	for (size_t i = 0; i < wish->n_families && i < CL_FAMILIES; i++) {
		s->family = wish->families[i];
		s->n_taken = 0;
		if (allocate_family(s, &grant->addresses[grant->n_addresses], ret_is_full, err))
			grant->n_addresses++;
		else if (!wish->may_lack || wanted_of(s))
			return false;
	}
	return grant->n_addresses > 0;
}

bool
cl_allocate(const struct cl_wish *wish, const struct cl_holding *const others[], size_t n,
            struct arena *arena, struct cl_grant *ret, bool *ret_is_full, struct error *err)
{
	struct search s = { .wish = wish, .others = others, .n = n, .arena = arena };
	struct cl_grant grant = { .n_addresses = 0 };
	bool is_full = false, is_done;

	is_done = check_families(wish, arena, err) && allocate_all(wish, &s, &grant, &is_full, err);
	if (ret_is_full)
		*ret_is_full = is_full;
	if (is_done)
		*ret = grant;
	return is_done;
}
