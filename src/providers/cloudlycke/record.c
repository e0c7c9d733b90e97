/* record.c: see record.h.
 *
 * A record is one piece of memory of exactly its size: there may be many, and most are small.
 */
#include "providers/cloudlycke/record.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/limits.h"
#include "providers/cloudlycke/inventory.h"

/* ---- addresses ---- */

bool
cl_addresses_have(const struct cl_addresses *addresses, const struct ip *ip)
{
	for (size_t i = 0; i < addresses->n; i++) {
		if (ip_eq(&addresses->items[i], ip))
			return true;
	}
	return false;
}

const struct ip *
cl_addresses_of(const struct cl_addresses *addresses, enum ip_family family)
{
	for (size_t i = 0; i < addresses->n; i++) {
		if (ip_family(&addresses->items[i]) == family)
			return &addresses->items[i];
	}
	return NULL;
}

bool
cl_addresses_eq(const struct cl_addresses *a, const struct cl_addresses *b)
{
	bool is_eq = a->n == b->n;

	for (size_t i = 0; is_eq && i < a->n; i++)
		is_eq = ip_eq(&a->items[i], &b->items[i]);
	return is_eq;
}

/* ---- targets ---- */

static void
hash_text(uint64_t *hash, struct str text)
{
	*hash = (*hash ^ str_hash(text)) * UINT64_C(0x100000001b3);
}

struct cl_targets *
cl_targets_new(const struct node_ref nodes[], size_t n)
{
	struct cl_targets *t = xcalloc(1, sizeof(*t));

	ref_init(&t->refs);
	t->items = arena_calloc(&t->arena, n + 1, sizeof(t->items[0]));
	for (size_t i = 0; i < n; i++) {
		struct cl_target *target = &t->items[t->n];
		struct cl_addresses *ips = &target->addresses;
		const struct node_ref *node = &nodes[i];

		if (node->provider_id.len == 0)
			continue;
		t->n++;
		target->name = arena_str(&t->arena, node->name);
		target->id = arena_str(&t->arena, cl_machine_id(node->provider_id));
		for (size_t k = 0; k < node->n_addresses && ips->n < CL_FAMILIES; k++) {
			struct ip *ip = &ips->items[ips->n];

			if (str_eq(node->addresses[k].type, STR("InternalIP")) &&
			    ip_parse(node->addresses[k].address, ip) &&
			    !cl_addresses_of(ips, ip_family(ip)))
				ips->n++;
		}
		hash_text(&t->hash, target->name);
		hash_text(&t->hash, target->id);
		hash_text(&t->hash,
		          str_n((const char *)ips->items, ips->n * sizeof(ips->items[0])));
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

bool
cl_targets_eq(const struct cl_targets *a, const struct cl_targets *b)
{
	bool is_eq = a->n == b->n && a->hash == b->hash;

	for (size_t i = 0; a != b && is_eq && i < a->n; i++)
		is_eq = str_eq(a->items[i].name, b->items[i].name) &&
		        str_eq(a->items[i].id, b->items[i].id) &&
		        cl_addresses_eq(&a->items[i].addresses, &b->items[i].addresses);
	return is_eq;
}

/* ---- memory of a record ---- */

/* Where a record has its texts, except those of its ports and its ranges. */
static const size_t texts[] = {
	offsetof(struct cl_record_values, allocation.namespace),
	offsetof(struct cl_record_values, allocation.service),
	offsetof(struct cl_record_values, allocation.uid),
	offsetof(struct cl_record_values, allocation.share_key),
	offsetof(struct cl_record_values, cluster),
	offsetof(struct cl_record_values, name),
	offsetof(struct cl_record_values, pool),
	offsetof(struct cl_record_values, hostname),
	offsetof(struct cl_record_values, hook.error),
};

/* The size of all that the values point to. */
static size_t
memory_size(const struct cl_record_values *values)
{
	const struct cl_allocation *a = &values->allocation;
	size_t size = a->n_ports * sizeof(struct lb_port) +
	              values->n_source_ranges * sizeof(struct str);

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		size += ((const struct str *)((const char *)values + texts[i]))->len;
	for (size_t i = 0; i < a->n_ports; i++)
		size += a->ports[i].name.len + a->ports[i].protocol_text.len;
	for (size_t i = 0; i < values->n_source_ranges; i++)
		size += values->source_ranges[i].len;
	return size;
}

struct cl_record *
cl_record_new(const struct cl_record_values *from)
{
	struct cl_record *r = xcalloc(1, sizeof(*r) + memory_size(from));
	size_t n_ports = from->allocation.n_ports, n_ranges = from->n_source_ranges;
	struct lb_port *ports;
	struct str *ranges;
	char *at;

	ref_init(&r->refs);
	r->values = *from;
	cl_targets_ref(r->values.targets);
	ports = (void *)r->memory;
	ranges = (void *)(ports + n_ports);
	at = (void *)(ranges + n_ranges);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct str *text = (void *)((char *)&r->values + texts[i]);

		*text = str_pack(&at, *text);
	}
	for (size_t i = 0; i < n_ports; i++) {
		ports[i] = from->allocation.ports[i];
		ports[i].name = str_pack(&at, ports[i].name);
		ports[i].app_protocol = STR_EMPTY;
		ports[i].protocol_text = str_pack(&at, ports[i].protocol_text);
	}
	for (size_t i = 0; i < n_ranges; i++)
		ranges[i] = str_pack(&at, from->source_ranges[i]);
	r->values.allocation.ports = ports;
	r->values.source_ranges = ranges;
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
	cl_targets_unref(r->values.targets);
	free(r);
}

void
cl_records_free(struct cl_record **records, size_t n)
{
	for (size_t i = 0; i < n; i++)
		cl_record_unref(records[i]);
	free(records);
}

/* ---- JSON, and its hash ---- */

void
cl_addresses_json(struct buf *b, const struct cl_addresses *addresses)
{
	json_begin_array(b, "addresses");
	for (size_t i = 0; i < addresses->n; i++) {
		buf_add_c(b, i > 0 ? ",\"" : "\"");
		ip_format(b, &addresses->items[i]);
		buf_add_char(b, '"');
	}
	json_end_array(b);
}

static void
add_content(struct buf *b, const struct cl_record_values *r)
{
	static const char *const proxies[] = { "", "v1", "v2" };
	const struct cl_allocation *a = &r->allocation;

	json_add_members(b, JSON_TEXT("cluster", r->cluster), JSON_TEXT("namespace", a->namespace),
	                 JSON_TEXT("name", a->service), JSON_TEXT("uid", a->uid),
	                 JSON_TEXT("pool", r->pool));
	cl_addresses_json(b, &a->addresses);
	json_add_members(b, JSON_TEXT("hostname", r->hostname),
	                 JSON_TEXT("shareKey", a->share_key));
	json_begin_array(b, "ports");
	for (size_t i = 0; i < a->n_ports; i++) {
		const struct lb_port *port = &a->ports[i];

		json_add_object(b, NULL, JSON_TEXT("name", port->name),
		                JSON_TEXT("protocol", port->protocol_text),
		                JSON_NUMBER("port", port->port),
		                JSON_NUMBER("nodePort", port->node_port));
	}
	json_end_array(b);
	json_add_members(b,
	                 JSON_TEXT("externalTrafficPolicy",
	                           r->traffic == LB_TRAFFIC_LOCAL ? STR("Local") : STR("Cluster")),
	                 JSON_NUMBER("healthCheckNodePort", r->health_check_node_port),
	                 JSON_TEXT("sessionAffinity",
	                           r->has_client_ip_affinity ? STR("ClientIP") : STR("None")),
	                 JSON_NUMBER("sessionAffinityTimeoutSeconds", r->affinity_timeout_s),
	                 JSON_TEXT("ipMode",
	                           r->ip_mode == CL_IP_MODE_PROXY ? STR("Proxy") : STR("VIP")),
	                 JSON_TEXT("proxyProtocol", str_c(proxies[r->proxy])));
	json_add_texts(b, "sourceRanges", r->source_ranges, r->n_source_ranges);
	json_add_flag(b, "deleting", r->is_deleting);
}

/* 53 bits: a program that edits the state file and reads all numbers as doubles does not change
 * them. */
int64_t
cl_record_hash(const struct cl_record_values *r)
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
	const struct cl_progress *hook = &r->values.hook;

	return hook->done != hook->generation || hook->error.len > 0;
}

void
cl_record_hook_input(struct buf *b, const struct cl_record *record, const char *action)
{
	const struct cl_record_values *r = &record->values;

	json_begin_object(b, NULL);
	json_add_members(b, JSON_TEXT("action", str_c(action)), JSON_TEXT("loadBalancer", r->name));
	add_content(b, r);
	json_add_number(b, "generation", r->hook.generation);
	json_add_object(b, "hook", JSON_NUMBER("generation", r->hook.done),
	                JSON_TEXT("error", r->hook.error));
	json_begin_array(b, "nodes");
	for (size_t i = 0; i < r->targets->n; i++) {
		const struct cl_target *target = &r->targets->items[i];

		json_begin_object(b, NULL);
		json_add_members(b, JSON_TEXT("name", target->name), JSON_TEXT("id", target->id));
		cl_addresses_json(b, &target->addresses);
		json_end_object(b);
	}
	json_end_array(b);
	json_end_object(b);
	buf_add_char(b, '\n');
}
