/* pools.c: see pools.h. */
#include "providers/cloudlycke/pools.h"

#include <stdlib.h>

#include "base/buf.h"

#define POOL_MAX_V4 INT64_C(1048576)

/* ---- reading ---- */

void
cl_read_block(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
              void *into)
{
	struct cl_block block = { .has_edges = false };
	struct str text = node->text, first, last;
	struct ip_net net;

	(void)field;
	if (!cl_expect(r, node, "string"))
		return;
	if (ip_parse(text, &block.first)) {
		block.last = block.first;
	} else if (ip_net_parse(text, &net)) {
		ip_net_span(&net, &block.first, &block.last);
		block.has_edges = ip_family(&net.ip) == IP_V4 && net.bits < 127;
	} else if (!str_cut(text, '-', &first, &last) || !ip_parse(str_trim(first), &block.first) ||
	           !ip_parse(str_trim(last), &block.last)) {
		cl_add_value_problem(r, node, text, "is not an address, range or CIDR");
		return;
	}
	if (ip_family(&block.first) != ip_family(&block.last))
		cl_add_problem(r, node, "range %s mixes address families",
		               quote_z(&r->scratch, text));
	else if (ip_cmp(&block.first, &block.last) > 0)
		cl_add_problem(r, node, "range %s is descending", quote_z(&r->scratch, text));
	else
		*(struct cl_block *)into = block;
}

void
cl_fill_template(struct buf *b, struct str hostname_template, struct str name, struct str namespace)
{
	const struct str marks[] = { STR("{name}"), STR("{namespace}") };
	const struct str values[] = { name, namespace };
	struct str rest = hostname_template;

	while (rest.len > 0) {
		size_t i = 0;

		while (i < ARRAY_LEN(marks) && !str_starts(rest, marks[i]))
			i++;
		if (i < ARRAY_LEN(marks))
			buf_add_str(b, values[i]);
		else
			buf_add_char(b, rest.ptr[0]);
		rest = str_skip(rest, i < ARRAY_LEN(marks) ? marks[i].len : 1);
	}
}

/* ---- finding ---- */

int
cl_ip_order(const void *a, const void *b)
{
	return ip_cmp(a, b);
}

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
	bool is_listed = false, is_usable = false, is_avoided;

	for (size_t i = 0; i < pool->addresses.n; i++) {
		const struct cl_block *block = &pool->addresses.items[i];

		if (!block_has(block, ip))
			continue;
		is_listed = true;
		is_usable = is_usable || !is_edge(pool, block, ip);
	}
	is_avoided = is_listed && (!is_usable || avoided_by(pool, ip));
	if (ret_is_avoided)
		*ret_is_avoided = is_avoided;
	return is_listed && !is_avoided;
}

bool
cl_pool_find(const struct cl_pool *pool, enum ip_family family, const struct ip taken[],
             size_t n_taken, struct ip *ret)
{
	for (size_t i = 0; i < pool->addresses.n; i++) {
		const struct cl_block *block = &pool->addresses.items[i];
		bool is_in = ip_family(&block->first) == family;

		for (struct ip ip = block->first; is_in && ip_cmp(&ip, &block->last) <= 0;) {
			const struct cl_block *avoid = avoided_by(pool, &ip);
			size_t at = sizeof(ip.bytes);

			if (avoid) {
				ip = avoid->last;
			} else if (!is_edge(pool, block, &ip) &&
			           !bsearch(&ip, taken, n_taken, sizeof(taken[0]), cl_ip_order)) {
				*ret = ip;
				return true;
			}
			/* the next one, unless it was the last of all addresses */
			while (at > 0 && ++ip.bytes[at - 1] == 0)
				at--;
			is_in = at > 0;
		}
	}
	return false;
}

/* ---- pools compared with each other and with machines ---- */

/* A block with its position in the file. */
struct placed {
	const struct cl_block *block;
	size_t pool, element;
};

/* The address of a machine. */
struct taken {
	struct ip ip; /* the first member, by which they are sorted */
	const struct cl_machine *machine;
};

static int
by_first(const void *a, const void *b)
{
	const struct placed *x = a, *y = b;
	int order = ip_cmp(&x->block->first, &y->block->first);

	if (order == 0)
		order = (x->pool > y->pool) - (x->pool < y->pool);
	return order;
}

/* Sorted by their first address. */
static struct placed *
collect_blocks(const struct cl_schema *schema, struct arena *arena, size_t *ret_n)
{
	struct placed *placed;
	size_t n = 0;

	for (size_t i = 0; i < schema->n_pools; i++)
		n += schema->pools[i].addresses.n;
	placed = arena_calloc(arena, n, sizeof(*placed));
	n = 0;
	for (size_t i = 0; i < schema->n_pools; i++) {
		const struct cl_blocks *blocks = &schema->pools[i].addresses;

		for (size_t k = 0; k < blocks->n; k++) {
			/* a block that could not be read is [::, ::], and no machine has that */
			if (!ip_is_unspecified(&blocks->items[k].last))
				placed[n++] = (struct placed){ &blocks->items[k], i, k };
		}
	}
	qsort(placed, n, sizeof(placed[0]), by_first);
	*ret_n = n;
	return placed;
}

/* Sorted. */
static struct taken *
collect_machines(const struct cl_schema *schema, struct arena *arena, size_t *ret_n)
{
	struct taken *taken;
	size_t n = 0;
	struct ip ip;

	for (size_t i = 0; i < schema->n_machines; i++)
		n += schema->machines[i].n_addresses;
	taken = arena_calloc(arena, n, sizeof(*taken));
	n = 0;
	for (size_t i = 0; i < schema->n_machines; i++) {
		const struct cl_machine *machine = &schema->machines[i];

		for (size_t k = 0; k < machine->n_addresses; k++) {
			if (str_ends(machine->addresses[k].type, STR("IP")) &&
			    ip_parse(machine->addresses[k].address, &ip))
				taken[n++] = (struct taken){ ip, machine };
		}
	}
	qsort(taken, n, sizeof(taken[0]), cl_ip_order);
	*ret_n = n;
	return taken;
}

/* For a problem of one element of a pool's addresses. Returns the element. */
static const struct yaml_node *
enter_block(struct cl_reader *r, const struct yaml_node *pools, const struct placed *at,
            size_t *ret_len)
{
	*ret_len = cl_enter_item(r, at->pool);
	cl_enter(r, "addresses");
	cl_enter_item(r, at->element);
	return &yaml_get(&pools->items[at->pool], STR("addresses"))->items[at->element];
}

static int64_t
count_v4(const struct cl_block *block)
{
	int64_t n = 0;

	if (ip_family(&block->first) != IP_V4)
		return 0;
	for (size_t i = 12; i < 16; i++)
		n = n * 256 + block->last.bytes[i] - block->first.bytes[i];
	return n + 1;
}

static void
report_overlap(struct cl_reader *r, const struct yaml_node *pools, const struct cl_schema *schema,
               const struct placed *before, const struct placed *at)
{
	size_t len;
	const struct yaml_node *element = enter_block(r, pools, at, &len);

	cl_add_problem(r, element, "pool %s overlaps pool %s at %s",
	               quote_z(&r->scratch, schema->pools[at->pool].name),
	               quote_z(&r->scratch, schema->pools[before->pool].name),
	               cl_ip_text(&at->block->first, &r->scratch));
	cl_leave(r, len);
}

static bool
ends_later(const struct placed *a, const struct placed *b)
{
	return !b || ip_cmp(&a->block->last, &b->block->last) > 0;
}

/* A block overlaps one of another pool if it begins before the end of some earlier block of another
 * pool; so two earlier blocks are enough: `reach`, which ends last, and `other`, which ends last
 * among those of pools other than that of `reach`. */
static void
check_overlaps(struct cl_reader *r, const struct yaml_node *pools, const struct cl_schema *schema,
               const struct placed placed[], size_t n)
{
	const struct placed *reach = NULL, *other = NULL;

	for (size_t i = 0; i < n; i++) {
		const struct placed *at = &placed[i];
		bool is_same = reach && reach->pool == at->pool;
		const struct placed *before = is_same ? other : reach;

		if (before && ip_cmp(&at->block->first, &before->block->last) <= 0)
			report_overlap(r, pools, schema, before, at);
		if (ends_later(at, reach)) {
			other = is_same ? other : reach;
			reach = at;
		} else if (!is_same && ends_later(at, other)) {
			other = at;
		}
	}
}

/* taken: the addresses of machines from the block's first one on. */
static void
check_block(struct cl_reader *r, const struct yaml_node *pools, const struct cl_schema *schema,
            const struct placed *at, const struct taken taken[], size_t n)
{
	const struct cl_pool *pool = &schema->pools[at->pool];
	const struct yaml_node *element;
	size_t len;

	for (size_t i = 0; i < n && ip_cmp(&taken[i].ip, &at->block->last) <= 0; i++) {
		const struct ip *ip = &taken[i].ip;
		bool is_repeated = i > 0 && ip_eq(ip, &taken[i - 1].ip);

		if (is_repeated || is_edge(pool, at->block, ip) || avoided_by(pool, ip))
			continue;
		element = enter_block(r, pools, at, &len);
		cl_add_problem(r, element, "address %s belongs to machine %s",
		               cl_ip_text(ip, &r->scratch),
		               quote_z(&r->scratch, taken[i].machine->name));
		cl_leave(r, len);
	}
}

/* Both are sorted: the addresses of machines below the block's first one are below those of all
 * further blocks, too. */
static void
check_machines(struct cl_reader *r, const struct yaml_node *pools, const struct cl_schema *schema,
               const struct placed placed[], size_t n)
{
	size_t n_taken, next = 0;
	const struct taken *taken = collect_machines(schema, &r->scratch, &n_taken);

	for (size_t i = 0; i < n; i++) {
		while (next < n_taken && ip_cmp(&taken[next].ip, &placed[i].block->first) < 0)
			next++;
		check_block(r, pools, schema, &placed[i], &taken[next], n_taken - next);
	}
}

void
cl_check_pools(struct cl_reader *r, const struct yaml_node *node, const struct cl_schema *schema)
{
	size_t n, len;
	const struct placed *placed = collect_blocks(schema, &r->scratch, &n);

	for (size_t i = 0; i < schema->n_pools; i++) {
		const struct cl_pool *pool = &schema->pools[i];
		int64_t total = 0;

		for (size_t k = 0; k < pool->addresses.n; k++)
			total += count_v4(&pool->addresses.items[k]);
		if (total <= POOL_MAX_V4)
			continue;
		len = cl_enter_item(r, i);
		cl_add_problem(r, &node->items[i], "pool %s holds more than %d IPv4 addresses",
		               quote_z(&r->scratch, pool->name), (int)POOL_MAX_V4);
		cl_leave(r, len);
	}
	check_overlaps(r, node, schema, placed, n);
	check_machines(r, node, schema, placed, n);
}
