/* pools.c: see pools.h. */
#include "providers/cloudlycke/pools.h"

#include "base/array.h"
#include "providers/cloudlycke/quote.h"

#define POOL_MAX_V4 INT64_C(1048576)

enum {
	BLOCKS_MAX = 1000,
};

/* ---- reading a block --------------------------------------------------------------------------------- */

static bool
parse_network(struct str text, struct cl_block *ret)
{
	struct ip_net net;

	if (!ip_net_parse(text, &net))
		return false;
	*ret = (struct cl_block){ 0 };
	ip_net_span(&net, &ret->first, &ret->last);
	ret->has_edges = ip_family(&net.ip) == IP_V4 && net.bits < 127;
	return true;
}

/* True when it is two addresses; whether they make a range is checked with a message of its own. */
static bool
parse_range(struct str text, struct cl_block *ret)
{
	struct str first, last;

	*ret = (struct cl_block){ 0 };
	return str_cut(text, '-', &first, &last) && ip_parse(str_trim(first), &ret->first) &&
	       ip_parse(str_trim(last), &ret->last);
}

static bool
parse_single(struct str text, struct cl_block *ret)
{
	*ret = (struct cl_block){ 0 };
	if (!ip_parse(text, &ret->first))
		return false;
	ret->last = ret->first;
	return true;
}

static void
read_block(struct cl_reader *r, UNUSED const struct cl_field *field, const struct yaml_node *node,
           void *item)
{
	struct cl_block block;
	struct str text;

	if (!cl_expect_string(r, node, &text))
		return;
	if (!parse_single(text, &block) && !parse_network(text, &block) &&
	    !parse_range(text, &block))
		cl_complain_of(r, node, text, "is not an address, range or CIDR");
	else if (ip_family(&block.first) != ip_family(&block.last))
		cl_complain(r, node, "range %s mixes address families", cl_q(&r->scratch, text));
	else if (ip_cmp(&block.first, &block.last) > 0)
		cl_complain(r, node, "range %s is descending", cl_q(&r->scratch, text));
	else
		*(struct cl_block *)item = block;
}

void
cl_read_blocks(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
               void *into)
{
	struct cl_blocks *blocks = into;

	blocks->items = cl_new_list(r, node, BLOCKS_MAX, sizeof(struct cl_block), &blocks->n);
	cl_read_items(r, field, node, blocks->n, blocks->items, sizeof(struct cl_block),
	              read_block);
	if (field->is_required && node->kind == YAML_LIST && node->n == 0)
		cl_complain(r, node, "required");
}

/* ---- checking them against each other ---------------------------------------------------------------- */

/* A block with its place in the file. */
struct placed {
	const struct cl_block *block;
	size_t pool, element;
};

/* The address of a machine. */
struct taken {
	struct ip ip;
	const struct cl_machine *machine;
};

struct check {
	struct cl_reader *r;
	const struct yaml_node *node; /* the list of pools */
	const struct cl_schema *schema;
	struct placed *placed; /* by first address */
	size_t n_placed, cap_placed;
	struct taken *taken; /* by address */
	size_t n_taken, cap_taken;
};

static void
check_fini(struct check *c)
{
	free(c->placed);
	free(c->taken);
}

static int
by_first(const void *a, const void *b)
{
	const struct placed *x = a, *y = b;
	int order = ip_cmp(&x->block->first, &y->block->first);

	if (order == 0)
		order = (x->pool > y->pool) - (x->pool < y->pool);
	return order;
}

static int
by_ip(const void *a, const void *b)
{
	const struct taken *x = a, *y = b;

	return ip_cmp(&x->ip, &y->ip);
}

/* A problem about one element of a pool's addresses. */
static const struct yaml_node *
enter_block(struct check *c, const struct placed *at, size_t *ret_len)
{
	const struct yaml_node *list = yaml_get(&c->node->items[at->pool], STR("addresses"));

	*ret_len = cl_enter_item(c->r, at->pool);
	cl_enter(c->r, "addresses");
	cl_enter_item(c->r, at->element);
	return &list->items[at->element];
}

static const char *
ip_text(struct check *c, const struct ip *ip)
{
	char memory[64] = "";
	struct buf b = BUF_FIXED(memory);

	ip_format(&b, ip);
	return arena_strz(&c->r->scratch, buf_str(&b));
}

static int64_t
count_v4(const struct cl_block *block)
{
	int64_t first = 0, last = 0;

	if (ip_family(&block->first) != IP_V4)
		return 0;
	for (size_t i = 12; i < 16; i++) {
		first = first << 8 | block->first.bytes[i];
		last = last << 8 | block->last.bytes[i];
	}
	return last - first + 1;
}

static void
check_size(struct check *c, size_t i)
{
	const struct cl_pool *pool = &c->schema->pools[i];
	int64_t total = 0;
	size_t len;

	for (size_t k = 0; k < pool->addresses.n; k++)
		total += count_v4(&pool->addresses.items[k]);
	if (total <= POOL_MAX_V4)
		return;
	len = cl_enter_item(c->r, i);
	cl_complain(c->r, &c->node->items[i], "pool %s holds more than %d IPv4 addresses",
	            cl_q(&c->r->scratch, pool->name), (int)POOL_MAX_V4);
	cl_leave(c->r, len);
}

static void
complain_overlap(struct check *c, const struct placed *before, const struct placed *at)
{
	size_t len;
	const struct yaml_node *node = enter_block(c, at, &len);

	cl_complain(c->r, node, "pool %s overlaps pool %s at %s",
	            cl_q(&c->r->scratch, c->schema->pools[at->pool].name),
	            cl_q(&c->r->scratch, c->schema->pools[before->pool].name),
	            ip_text(c, &at->block->first));
	cl_leave(c->r, len);
}

static bool
ends_later(const struct placed *a, const struct placed *b)
{
	return !b || ip_cmp(&a->block->last, &b->block->last) > 0;
}

/* Sweeps over all blocks and remembers, of those before, which one ends last, and which of another pool does. */
static void
check_overlaps(struct check *c)
{
	const struct placed *reach = NULL, *other = NULL;

	for (size_t i = 0; i < c->n_placed; i++) {
		const struct placed *at = &c->placed[i];
		bool is_same = reach && reach->pool == at->pool;
		const struct placed *before = is_same ? other : reach;

		if (before && ip_cmp(&at->block->first, &before->block->last) <= 0)
			complain_overlap(c, before, at);
		if (ends_later(at, reach)) {
			other = is_same ? other : reach;
			reach = at;
		} else if (!is_same && ends_later(at, other)) {
			other = at;
		}
	}
}

static bool
is_avoided(const struct cl_pool *pool, const struct cl_block *block, const struct ip *ip)
{
	if (pool->avoids_edges && block->has_edges &&
	    (ip_eq(ip, &block->first) || ip_eq(ip, &block->last)))
		return true;
	for (size_t i = 0; i < pool->avoid.n; i++) {
		const struct cl_block *avoid = &pool->avoid.items[i];

		if (ip_cmp(ip, &avoid->first) >= 0 && ip_cmp(ip, &avoid->last) <= 0)
			return true;
	}
	return false;
}

/* The first of the machines' addresses that is not below ip. */
static size_t
first_taken(const struct check *c, const struct ip *ip)
{
	size_t low = 0, high = c->n_taken;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (ip_cmp(&c->taken[middle].ip, ip) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void
check_machines(struct check *c, const struct placed *at)
{
	const struct cl_pool *pool = &c->schema->pools[at->pool];

	for (size_t i = first_taken(c, &at->block->first); i < c->n_taken; i++) {
		const struct taken *taken = &c->taken[i];
		const struct yaml_node *node;
		size_t len;

		if (ip_cmp(&taken->ip, &at->block->last) > 0)
			return;
		if (is_avoided(pool, at->block, &taken->ip) ||
		    (i > 0 && ip_eq(&taken->ip, &taken[-1].ip)))
			continue;
		node = enter_block(c, at, &len);
		cl_complain(c->r, node, "address %s belongs to machine %s", ip_text(c, &taken->ip),
		            cl_q(&c->r->scratch, taken->machine->name));
		cl_leave(c->r, len);
	}
}

static void
collect_blocks(struct check *c)
{
	for (size_t i = 0; i < c->schema->n_pools; i++) {
		const struct cl_blocks *blocks = &c->schema->pools[i].addresses;

		for (size_t k = 0; k < blocks->n; k++) {
			/* one that could not be read is [::, ::], which no machine has */
			if (!ip_is_unspecified(&blocks->items[k].last))
				ARRAY_PUSH(c->placed, c->n_placed, c->cap_placed,
				           (struct placed){ &blocks->items[k], i, k });
		}
	}
	if (c->n_placed > 0)
		qsort(c->placed, c->n_placed, sizeof(c->placed[0]), by_first);
}

static void
collect_taken(struct check *c)
{
	struct ip ip;

	for (size_t i = 0; i < c->schema->n_machines; i++) {
		const struct cl_machine *machine = &c->schema->machines[i];

		for (size_t k = 0; k < machine->n_addresses; k++) {
			if (str_ends(machine->addresses[k].type, STR("IP")) &&
			    ip_parse(machine->addresses[k].address, &ip))
				ARRAY_PUSH(c->taken, c->n_taken, c->cap_taken,
				           (struct taken){ ip, machine });
		}
	}
	if (c->n_taken > 0)
		qsort(c->taken, c->n_taken, sizeof(c->taken[0]), by_ip);
}

void
cl_check_pools(struct cl_reader *r, const struct yaml_node *node, const struct cl_schema *schema)
{
	CLEANUP(check_fini) struct check c = { .r = r, .node = node, .schema = schema };

	collect_blocks(&c);
	collect_taken(&c);
	for (size_t i = 0; i < schema->n_pools; i++)
		check_size(&c, i);
	check_overlaps(&c);
	for (size_t i = 0; i < c.n_placed; i++)
		check_machines(&c, &c.placed[i]);
}
