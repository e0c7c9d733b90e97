/* record.c: see record.h.
 *
 * A record lives in one piece of memory of exactly its size: there may be many, and most are small.
 */
#include "providers/cloudlycke/record.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/limits.h"
#include "providers/cloudlycke/inventory.h"

/* ---- holdings ---- */

bool
cl_holding_has(const struct cl_holding *h, const struct ip *ip)
{
	for (size_t i = 0; i < h->n_addresses; i++) {
		if (ip_eq(&h->addresses[i], ip))
			return true;
	}
	return false;
}

bool
cl_holding_addresses_eq(const struct cl_holding *a, const struct cl_holding *b)
{
	bool is_eq = a->n_addresses == b->n_addresses;

	for (size_t i = 0; is_eq && i < a->n_addresses; i++)
		is_eq = ip_eq(&a->addresses[i], &b->addresses[i]);
	return is_eq;
}

/* ---- targets ---- */

static void
hash_text(uint64_t *hash, struct str text)
{
	*hash = (*hash ^ str_hash(text)) * UINT64_C(0x100000001b3);
}

static void
add_target(struct cl_targets *t, const struct cl_target *from)
{
	struct cl_target *to = &t->items[t->n++];
	struct ip *copy = arena_calloc(&t->arena, from->n_addresses, sizeof(*copy));

	*to = (struct cl_target){ arena_str(&t->arena, from->name), arena_str(&t->arena, from->id),
		                  copy, from->n_addresses };
	for (size_t i = 0; i < from->n_addresses; i++)
		copy[i] = from->addresses[i];
	hash_text(&t->hash, to->name);
	hash_text(&t->hash, to->id);
	hash_text(&t->hash, str_n((const char *)copy, from->n_addresses * sizeof(*copy)));
}

/* The first InternalIP of each family: node ports are reached there. */
static size_t
internal_ips(const struct node_ref *node, struct ip ret[CL_FAMILIES])
{
	size_t n = 0;
	struct ip ip;

	for (size_t i = 0; i < node->n_addresses && n < CL_FAMILIES; i++) {
		if (str_eq(node->addresses[i].type, STR("InternalIP")) &&
		    ip_parse(node->addresses[i].address, &ip) &&
		    (n == 0 || ip_family(&ip) != ip_family(&ret[0])))
			ret[n++] = ip;
	}
	return n;
}

struct cl_targets *
cl_targets_new(const struct node_ref nodes[], size_t n)
{
	struct cl_targets *t = xcalloc(1, sizeof(*t));
	struct ip ips[CL_FAMILIES];

	ref_init(&t->refs);
	t->items = arena_calloc(&t->arena, n + 1, sizeof(t->items[0]));
	for (size_t i = 0; i < n; i++) {
		struct cl_target target = { nodes[i].name, cl_machine_id(nodes[i].provider_id), ips,
			                    0 };

		if (nodes[i].provider_id.len == 0)
			continue;
		target.n_addresses = internal_ips(&nodes[i], ips);
		add_target(t, &target);
	}
	return t;
}

struct cl_targets *
cl_targets_ref(struct cl_targets *t)
{
	ref_take(&t->refs);
	return t;
}

void
cl_targets_unref(struct cl_targets *t)
{
	if (!t || !ref_drop(&t->refs))
		return;
	arena_fini(&t->arena);
	free(t);
}

static bool
target_eq(const struct cl_target *a, const struct cl_target *b)
{
	return str_eq(a->name, b->name) && str_eq(a->id, b->id) &&
	       a->n_addresses == b->n_addresses &&
	       (a->n_addresses == 0 ||
	        memcmp(a->addresses, b->addresses, a->n_addresses * sizeof(a->addresses[0])) == 0);
}

bool
cl_targets_eq(const struct cl_targets *a, const struct cl_targets *b)
{
	bool is_eq = a->n == b->n && a->hash == b->hash;

	for (size_t i = 0; a != b && is_eq && i < a->n; i++)
		is_eq = target_eq(&a->items[i], &b->items[i]);
	return is_eq;
}

/* ---- memory of a record ---- */

/* The i-th text of the record, NULL after the last: for the size of its memory, and for copying. */
static struct str *
each_text(struct cl_record *r, size_t i)
{
	struct str *const all[] = { &r->holding.namespace,
		                    &r->holding.service,
		                    &r->holding.uid,
		                    &r->holding.share_key,
		                    &r->cluster,
		                    &r->name,
		                    &r->pool,
		                    &r->hostname,
		                    &r->hook.error };

	return i < ARRAY_LEN(all) ? all[i] : NULL;
}

static size_t
texts_size(struct cl_record *r)
{
	struct str *text;
	size_t size = 0;

	for (size_t i = 0; (text = each_text(r, i)); i++)
		size += text->len;
	for (size_t i = 0; i < r->holding.n_ports; i++)
		size += r->holding.ports[i].name.len + r->holding.ports[i].protocol_text.len;
	for (size_t i = 0; i < r->n_source_ranges; i++)
		size += r->source_ranges[i].len;
	return size;
}

static const struct lb_port *
put_ports(struct lb_port *to, char **at, const struct lb_port *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = (struct lb_port){
			.name = str_pack(at, from[i].name),
			.app_protocol = STR_EMPTY,
			.protocol_text = str_pack(at, from[i].protocol_text),
			.protocol = from[i].protocol,
			.port = from[i].port,
			.node_port = from[i].node_port,
		};
	return to;
}

static const struct str *
put_texts(struct str *to, char **at, const struct str *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = str_pack(at, from[i]);
	return to;
}

struct cl_record *
cl_record_new(const struct cl_record *draft)
{
	struct cl_record *r = xcalloc(1, sizeof(*r));
	size_t n_ports = draft->holding.n_ports, n_ranges = draft->n_source_ranges;
	struct lb_port *ports;
	struct str *ranges, *text;
	char *at;

	*r = *draft;
	ref_init(&r->refs);
	r->memory = xmalloc(n_ports * sizeof(*ports) + n_ranges * sizeof(*ranges) + texts_size(r) +
	                    1);
	ports = r->memory;
	ranges = (void *)(ports + n_ports);
	at = (void *)(ranges + n_ranges);
	for (size_t i = 0; (text = each_text(r, i)); i++)
		*text = str_pack(&at, *text);
	r->holding.ports = put_ports(ports, &at, draft->holding.ports, n_ports);
	r->source_ranges = put_texts(ranges, &at, draft->source_ranges, n_ranges);
	cl_targets_ref(r->targets);
	return r;
}

struct cl_record *
cl_record_ref(struct cl_record *r)
{
	ref_take(&r->refs);
	return r;
}

void
cl_record_unref(struct cl_record *r)
{
	if (!r || !ref_drop(&r->refs))
		return;
	cl_targets_unref(r->targets);
	free(r->memory);
	free(r);
}

void
cl_records_free(struct cl_record **records, size_t n)
{
	for (size_t i = 0; i < n; i++)
		cl_record_unref(records[i]);
	free(records);
}

static int
by_name(const void *a, const void *b)
{
	const struct cl_record *const *x = a, *const *y = b;

	return str_cmp((*x)->name, (*y)->name);
}

void
cl_records_sort(struct cl_record **records, size_t n)
{
	if (n > 0)
		qsort(records, n, sizeof(struct cl_record *), by_name);
}

/* Copies all but the reference count, which other threads may be changing. */
struct cl_record
cl_record_draft(const struct cl_record *r)
{
	size_t from = offsetof(struct cl_record, holding);
	struct cl_record draft = { .memory = NULL };

	memcpy((char *)&draft + from, (const char *)r + from, sizeof(draft) - from);
	return draft;
}

/* ---- JSON, and its hash ---- */

void
cl_addresses_json(struct buf *b, const struct ip *ips, size_t n)
{
	buf_add_c(b, ",\"addresses\":[");
	for (size_t i = 0; i < n; i++) {
		buf_add_c(b, i > 0 ? ",\"" : "\"");
		ip_format(b, &ips[i]);
		buf_add_char(b, '"');
	}
	buf_add_char(b, ']');
}

static void
add_ports(struct buf *b, const struct cl_holding *h)
{
	json_begin_array(b, "ports");
	for (size_t i = 0; i < h->n_ports; i++) {
		json_begin_object(b, NULL);
		json_add_text(b, "name", h->ports[i].name);
		json_add_text(b, "protocol", h->ports[i].protocol_text);
		json_add_number(b, "port", h->ports[i].port);
		json_add_number(b, "nodePort", h->ports[i].node_port);
		json_end_object(b);
	}
	json_end_array(b);
}

void
cl_targets_json(struct buf *b, const struct cl_targets *t)
{
	buf_add_char(b, '[');
	for (size_t i = 0; i < t->n; i++) {
		json_begin_object(b, NULL);
		json_add_text(b, "name", t->items[i].name);
		json_add_text(b, "id", t->items[i].id);
		cl_addresses_json(b, t->items[i].addresses, t->items[i].n_addresses);
		json_end_object(b);
	}
	json_end_array(b);
}

static void
add_policies(struct buf *b, const struct cl_record *r)
{
	static const char *const proxies[] = { "", "v1", "v2" };

	json_add_text(b, "externalTrafficPolicy",
	              r->traffic == LB_TRAFFIC_LOCAL ? STR("Local") : STR("Cluster"));
	json_add_number(b, "healthCheckNodePort", r->health_check_node_port);
	json_add_text(b, "sessionAffinity",
	              r->has_client_ip_affinity ? STR("ClientIP") : STR("None"));
	json_add_number(b, "sessionAffinityTimeoutSeconds", r->affinity_timeout_s);
	json_add_text(b, "ipMode", r->ip_mode == CL_IP_MODE_PROXY ? STR("Proxy") : STR("VIP"));
	json_add_text(b, "proxyProtocol", str_c(proxies[r->proxy]));
}

static void
add_content(struct buf *b, const struct cl_record *r)
{
	json_add_text(b, "cluster", r->cluster);
	json_add_text(b, "namespace", r->holding.namespace);
	json_add_text(b, "name", r->holding.service);
	json_add_text(b, "uid", r->holding.uid);
	json_add_text(b, "pool", r->pool);
	cl_addresses_json(b, r->holding.addresses, r->holding.n_addresses);
	json_add_text(b, "hostname", r->hostname);
	json_add_text(b, "shareKey", r->holding.share_key);
	add_ports(b, &r->holding);
	add_policies(b, r);
	json_add_texts(b, "sourceRanges", r->source_ranges, r->n_source_ranges);
	json_add_flag(b, "deleting", r->is_deleting);
}

/* 53 bits: a program that edits the state file and reads all numbers as doubles does not change
 * them. */
int64_t
cl_record_hash(const struct cl_record *r)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(LIMIT_STATE_FILE);
	uint64_t hash = r->targets->hash;

	buf_add_char(&b, ','); /* a part of the hashes in state files */
	add_content(&b, r);
	hash_text(&hash, buf_str(&b));
	if (r->is_left_out)
		hash_text(&hash, STR("left out"));
	return (int64_t)(hash >> 11 | 1);
}

bool
cl_record_needs_hook(const struct cl_record *r)
{
	return r->hook.done != r->hook.generation || r->hook.error.len > 0;
}

void
cl_record_json(struct buf *b, const struct cl_record *r)
{
	add_content(b, r);
	json_add_number(b, "generation", r->hook.generation);
	json_begin_object(b, "hook");
	json_add_number(b, "generation", r->hook.done);
	json_add_text(b, "error", r->hook.error);
	json_end_object(b);
}
