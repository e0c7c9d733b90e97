/* check.c: see check.h.
 *
 * Three parts: predicates for names, labels and numbers; the rules that tables of fields refer to;
 * and the comparison of pools with each other and with machines, which sorts all blocks by their
 * first address and all machine addresses by value, and passes over each once.
 */
#include "providers/cloudlycke/check.h"

#include "base/array.h"
#include "base/names.h"
#include "base/quote.h"

#define POOL_MAX_V4 INT64_C(1048576)

enum {
	LABELS_MAX = 64,
	PATH_LENGTH_MAX = 1024,
	BLOCKS_MAX = 1000,
};

/* ---- names ---- */

static bool
is_dns_name(struct str s)
{
	if (s.len > LIMIT_NAME)
		return false;
	for (struct str part, rest = s; str_split(&rest, '.', &part);) {
		if (!name_is_word(part, char_is_alnum, "-_", 63))
			return false;
	}
	return true;
}

static bool
is_machine_id(struct str s)
{
	if (s.len == 0 || s.len > LIMIT_NAME || !char_is_alnum(s.ptr[0]))
		return false;
	for (size_t i = 0; i < s.len; i++) {
		if (!char_is_alnum(s.ptr[i]) && !char_is_in(s.ptr[i], "._/-"))
			return false;
	}
	return true;
}

/* ---- labels ---- */

static bool
is_in_domain(struct str s, struct str domain)
{
	struct str parent;

	if (str_eq(s, domain))
		return true;
	parent = str_skip(s, s.len > domain.len ? s.len - domain.len - 1 : s.len);
	return parent.len > 0 && parent.ptr[0] == '.' && str_eq(str_skip(parent, 1), domain);
}

static bool
is_reserved_label(struct str key)
{
	struct str domain, name;

	if (!str_cut(key, '/', &domain, &name))
		return false;
	if (str_eq(domain, STR("node.kubernetes.io")))
		return str_eq(name, STR("instance-type")) || str_eq(name, STR("windows-build"));
	return is_in_domain(domain, STR("kubernetes.io")) || is_in_domain(domain, STR("k8s.io"));
}

static bool
check_label(struct cl_reader *r, const struct yaml_node *at, struct str key)
{
	if (!name_is_label_key(key))
		cl_complain_of(r, at, key, "is not a valid label key");
	else if (is_reserved_label(key))
		cl_complain(r, at, "label %s is reserved", quote_z(&r->scratch, key));
	else
		return true;
	return false;
}

static bool
has_label(const struct cl_machine *machine, struct str key)
{
	for (size_t i = 0; i < machine->n_labels; i++) {
		if (str_eq(machine->labels[i].key, key))
			return true;
	}
	return false;
}

static void
read_label(struct cl_reader *r, const struct yaml_key *key, const struct yaml_node *node,
           struct cl_machine *machine)
{
	static const struct cl_field value = { .rule = &cl_rule_label_value };
	const struct yaml_node at = { .line = key->line };
	struct label *label = &machine->labels[machine->n_labels];
	size_t len;

	if (!check_label(r, &at, key->text))
		return;
	if (has_label(machine, key->text)) {
		cl_complain(r, &at, "duplicate field %s", quote_z(&r->scratch, key->text));
		return;
	}
	label->key = cl_keep(r, key->text);
	label->value = STR_EMPTY;
	machine->n_labels++;
	len = cl_enter(r, label->key.ptr);
	cl_read_string(r, &value, node, &label->value);
	cl_leave(r, len);
}

void
cl_read_labels(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
               void *into)
{
	struct cl_machine *machine = CONTAINER_OF((struct label **)into, struct cl_machine, labels);

	(void)field;
	if (!cl_expect(r, node, "map"))
		return;
	if (node->n > LABELS_MAX) {
		cl_complain(r, node, "has more than %d elements", LABELS_MAX);
		return;
	}
	machine->labels = arena_calloc(r->keep, node->n, sizeof(machine->labels[0]));
	for (size_t i = 0; i < node->n; i++)
		read_label(r, &node->keys[i], &node->items[i], machine);
}

/* ---- addresses ---- */

static const char *const address_types[] = {
	"Hostname", "InternalIP", "ExternalIP", "InternalDNS", "ExternalDNS", NULL,
};

static bool
is_address_type(struct str s)
{
	for (size_t i = 0; address_types[i]; i++) {
		if (str_eq_c(s, address_types[i]))
			return true;
	}
	return false;
}

static void
read_ip(struct cl_reader *r, const struct yaml_node *node, struct str text, struct str *into)
{
	char memory[64] = "";
	struct buf canonical = BUF_FIXED(memory);
	struct ip ip;

	if (!ip_parse(text, &ip)) {
		cl_complain_of(r, node, text, "is not an IP address");
		return;
	}
	ip_format(&canonical, &ip);
	*into = cl_keep(r, buf_str(&canonical));
}

void
cl_read_address(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                void *into)
{
	struct address *address = CONTAINER_OF((struct str *)into, struct address, address);
	struct str text;

	(void)field;
	if (!cl_expect_string(r, node, &text) || address->type.len == 0)
		return;
	if (str_ends(address->type, STR("IP")))
		read_ip(r, node, text, &address->address);
	else if (!is_dns_name(text))
		cl_complain_of(r, node, text, "is not a DNS name");
	else
		address->address = cl_keep(r, text);
}

/* ---- words and numbers ---- */

/* A file that went through a YAML 1.1 program has true for on and false for off. */
void
cl_read_power(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
              void *into)
{
	bool is_on;

	if (yaml_to_bool(node, /*allow_yaml11=*/true, &is_on))
		*(int *)into = is_on ? CL_POWER_ON : CL_POWER_OFF;
	else
		cl_read_choice(r, field, node, into);
}

void
cl_read_percent(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                void *into)
{
	struct str text;

	(void)field;
	if (!cl_expect_string(r, node, &text))
		return;
	if (!str_ends(text, STR("%")) || !str_to_i64(str_head(text, text.len - 1), 0, 100, into))
		cl_complain_of(r, node, text, "is not a percentage from 0% to 100%");
}

void
cl_read_count(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
              void *into)
{
	int64_t count;

	(void)field;
	(void)into;
	if (cl_expect(r, node, "number") && !str_to_i64(node->text, 1, INT32_MAX, &count))
		cl_complain_of(r, node, node->text, "is not a whole number of at least 1");
}

static bool
is_quantity(struct str s)
{
	static const char *const suffixes[] = {
		"", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
	};
	struct str suffix = s, whole, fraction;
	int64_t value;

	while (suffix.len > 0 &&
	       ((suffix.ptr[0] >= '0' && suffix.ptr[0] <= '9') || suffix.ptr[0] == '.'))
		suffix = str_skip(suffix, 1);
	s = str_head(s, s.len - suffix.len);
	if (str_cut(s, '.', &whole, &fraction)) {
		if (!str_to_i64(fraction, 0, INT64_MAX, &value))
			return false;
		s = whole;
	}
	for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
		if (str_eq_c(suffix, suffixes[i]))
			return str_to_i64(s, 0, INT64_MAX, &value);
	}
	return false;
}

void
cl_read_quantity(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                 void *into)
{
	(void)field;
	(void)into;
	if (strcmp(yaml_kind_name(node), "number") != 0 && !cl_expect(r, node, "string"))
		return;
	if (!is_quantity(node->text))
		cl_complain_of(r, node, node->text, "is not a quantity");
}

void
cl_read_hook(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
             void *into)
{
	struct str text;

	(void)field;
	if (!cl_expect_string(r, node, &text))
		return;
	if (!str_starts(text, STR("/")))
		cl_complain(r, node, "hook %s is not an absolute path", quote_z(&r->scratch, text));
	else
		*(struct str *)into = cl_keep(r, text);
}

static bool
is_plain_path(struct str s)
{
	for (size_t i = 0; i < s.len; i++) {
		if (!char_is_alnum(s.ptr[i]) && !char_is_in(s.ptr[i], "._-/"))
			return false;
	}
	return str_starts(s, STR("/")) && !str_ends(s, STR("/")) && s.len <= PATH_LENGTH_MAX;
}

void
cl_read_plain_path(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                   void *into)
{
	struct str text;

	(void)field;
	if (!cl_expect_string(r, node, &text))
		return;
	if (!is_plain_path(text))
		cl_complain_of(r, node, text,
		               "is not an absolute path of letters, digits and ._-/");
	else
		*(struct str *)into = cl_keep(r, text);
}

void
cl_read_command(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                void *into)
{
	if (node->kind == YAML_LIST && node->n == 0)
		cl_complain(r, node, "required");
	else
		cl_read_strings(r, field, node, into);
}

/* ---- host names of load balancers ---- */

/* Replaces {name} and {namespace} by "x", the shortest that they can become. */
static void
fill_template(struct str text, struct buf *b)
{
	static const struct str marks[] = { { "{name}", 6 }, { "{namespace}", 11 } };

	while (text.len > 0) {
		size_t skip = 0;

		for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
			if (str_starts(text, marks[i]))
				skip = marks[i].len;
		}
		buf_add_char(b, skip > 0 ? 'x' : text.ptr[0]);
		text = str_skip(text, skip > 0 ? skip : 1);
	}
}

static bool
is_hostname_template(struct str text)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(LIMIT_NAME);

	fill_template(text, &b);
	return buf_ok(&b) && name_is_dns_subdomain(buf_str(&b));
}

/* ---- the rules ---- */

static const char *const powers[] = { "on", "off", "suspended", "terminated", "unknown", NULL };
static const char *const unknown_machines[] = { "absent", "error", NULL };
static const char *const ip_modes[] = { "VIP", "Proxy", NULL };

const struct cl_rule cl_rule_node_name = {
	.is_valid = name_is_dns_subdomain,
	.complaint = "is not a valid node name",
};
const struct cl_rule cl_rule_machine_id = {
	.is_valid = is_machine_id,
	.complaint = "is not a valid machine id",
};
const struct cl_rule cl_rule_label_value = {
	.is_valid = name_is_label_value,
	.complaint = "is not a valid label value",
};
const struct cl_rule cl_rule_address_type = {
	.is_valid = is_address_type,
	.complaint = "is not one of Hostname, InternalIP, ExternalIP, InternalDNS, ExternalDNS",
};
const struct cl_rule cl_rule_pool_name = {
	.is_valid = name_is_dns_label,
	.complaint = "is not a valid pool name",
};
const struct cl_rule cl_rule_namespace = {
	.is_valid = name_is_dns_label,
	.complaint = "is not a valid namespace",
};
const struct cl_rule cl_rule_hostname_template = {
	.is_valid = is_hostname_template,
	.complaint = "is not a valid hostname template",
};

const struct cl_rule cl_rule_power = {
	.choices = powers,
	.complaint = "is not one of on, off, suspended, terminated, unknown",
};
const struct cl_rule cl_rule_unknown_machines = {
	.choices = unknown_machines,
	.complaint = "is not one of absent, error",
};
const struct cl_rule cl_rule_ip_mode = {
	.choices = ip_modes,
	.complaint = "is not one of VIP, Proxy",
};

const struct cl_rule cl_rule_debounce = {
	.min = 0,
	.max = 60 * NS_PER_SEC,
	.complaint = "is not within 0s and 1m",
};
const struct cl_rule cl_rule_poll = {
	.min = 0,
	.max = 24 * 60 * 60 * NS_PER_SEC,
	.complaint = "is not within 0s and 24h",
};
const struct cl_rule cl_rule_hook_timeout = {
	.min = NS_PER_MS,
	.max = 60 * 60 * NS_PER_SEC,
	.complaint = "is not within 1ms and 1h",
};

/* ---- a block of addresses ---- */

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

/* True for two addresses with "-" between them, in whatever order: a descending range has a message
 * of its own. */
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
read_block(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
           void *item)
{
	struct cl_block block;
	struct str text;

	(void)field;
	if (!cl_expect_string(r, node, &text))
		return;
	if (!parse_single(text, &block) && !parse_network(text, &block) &&
	    !parse_range(text, &block))
		cl_complain_of(r, node, text, "is not an address, range or CIDR");
	else if (ip_family(&block.first) != ip_family(&block.last))
		cl_complain(r, node, "range %s mixes address families", quote_z(&r->scratch, text));
	else if (ip_cmp(&block.first, &block.last) > 0)
		cl_complain(r, node, "range %s is descending", quote_z(&r->scratch, text));
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

/* ---- pools compared with each other and with machines ---- */

/* A block with its position in the file. */
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
	            quote_z(&c->r->scratch, pool->name), (int)POOL_MAX_V4);
	cl_leave(c->r, len);
}

static void
complain_overlap(struct check *c, const struct placed *before, const struct placed *at)
{
	size_t len;
	const struct yaml_node *node = enter_block(c, at, &len);

	cl_complain(c->r, node, "pool %s overlaps pool %s at %s",
	            quote_z(&c->r->scratch, c->schema->pools[at->pool].name),
	            quote_z(&c->r->scratch, c->schema->pools[before->pool].name),
	            cl_ip_text(&at->block->first, &c->r->scratch));
	cl_leave(c->r, len);
}

static bool
ends_later(const struct placed *a, const struct placed *b)
{
	return !b || ip_cmp(&a->block->last, &b->block->last) > 0;
}

/* Goes through all blocks by their first address. A block overlaps one of another pool if it begins
 * before the end of some earlier block of another pool; so two earlier blocks are enough: `reach`,
 * which ends last, and `other`, which ends last among those of pools other than that of `reach`. */
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
		cl_complain(c->r, node, "address %s belongs to machine %s",
		            cl_ip_text(&taken->ip, &c->r->scratch),
		            quote_z(&c->r->scratch, taken->machine->name));
		cl_leave(c->r, len);
	}
}

static void
collect_blocks(struct check *c)
{
	for (size_t i = 0; i < c->schema->n_pools; i++) {
		const struct cl_blocks *blocks = &c->schema->pools[i].addresses;

		for (size_t k = 0; k < blocks->n; k++) {
			/* a block that could not be read is [::, ::], and no machine has that */
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
