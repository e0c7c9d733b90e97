/* inventory.c: see inventory.h.
 *
 * The rules are Kubernetes' own where a value ends up there: a name or label that the API server
 * would refuse must not get past this file.
 *
 * To add a field: a member in inventory.h, a line in a table here, a line in docs/cloudlycke.md, a
 * test.
 */
#include "providers/cloudlycke/inventory.h"

#include "base/alloc.h"
#include "base/names.h"
#include "base/buf.h"
#include "providers/cloudlycke/pools.h"

enum {
	ADDRESSES_MAX = 64, /* of a machine */
	LABELS_MAX = 64,    /* of a machine */
	TYPES_MAX = 1000,
	POOLS_MAX = 1000,
	BLOCKS_MAX = 1000, /* of a pool */
	ROUTES_MAX = 10000,
	STRINGS_MAX = 256, /* aliases of a machine, namespaces of a pool */
	PATH_LENGTH_MAX = 1024,
};

/* Lists whose items have unique names. */
enum {
	UNIQUE_TYPES,
	UNIQUE_POOLS,
	UNIQUE_ROUTES,
	N_UNIQUE,
};

static const char *const unique_lists[N_UNIQUE] = { "instanceTypes", "addressPools",
	                                            "routes.static" };

/* The file while it is read, with what the check of one section needs of others. */
struct file_reader {
	struct cl_reader r;
	struct cl_schema *schema;
	struct cl_names *names;
	struct map unique[N_UNIQUE]; /* items by name */
	struct map networks;         /* static routes by destination */
	bool has_default_pool;
};

static inline struct file_reader *
file_of(struct cl_reader *r)
{
	return CONTAINER_OF(r, struct file_reader, r);
}

/* For tables: `IN(cl_machine, id)` is where a field's value goes. */
#define IN(type, member) .offset = offsetof(struct type, member)
/* The fields of the map, or of each map of the list. */
#define FIELDS(table) .fields = (table), .n_fields = ARRAY_LEN(table)
/* Where the items of a list and their number go, how many there may be, and how each is read. */
#define LIST(type, list, count, max, each)                                               \
	.offset = offsetof(struct type, list), .n_offset = offsetof(struct type, count), \
	.item_size = sizeof(((struct type *)NULL)->list[0]), .most = (max), .read_item = (each)
#define STRINGS(type, member) LIST(type, member.items, member.n, STRINGS_MAX, cl_read_string)

const char *
cl_ip_text(const struct ip *ip, struct arena *arena)
{
	char memory[64] = "";
	struct buf b = BUF_FIXED(memory);

	ip_format(&b, ip);
	return arena_strz(arena, buf_str(&b));
}

struct str
cl_net_text(const struct ip_net *net, struct arena *arena)
{
	char memory[80] = "";
	struct buf b = BUF_FIXED(memory);

	ip_net_format(&b, net);
	return arena_str(arena, buf_str(&b));
}

/* The machine with that name or alias, or NULL. */
static struct cl_machine *
find_machine(const struct cl_names *names, struct str name_or_alias)
{
	struct cl_machine *machine = map_get(&names->by_name, name_or_alias);

	return machine ? machine : map_get(&names->by_alias, name_or_alias);
}

/* ---- rules ---- */

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
	return s.len > 0 && s.len <= LIMIT_NAME && char_is_alnum(s.ptr[0]) &&
	       name_has_only(s, "._/-");
}

static bool
is_absolute(struct str s)
{
	return str_starts(s, STR("/"));
}

/* Fit for the files of other programs. */
static bool
is_plain_path(struct str s)
{
	return is_absolute(s) && !str_ends(s, STR("/")) && s.len <= PATH_LENGTH_MAX &&
	       name_has_only(s, "._-/");
}

/* With "x" for each value, the shortest that it can become. */
static bool
is_hostname_template(struct str text)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(LIMIT_NAME);

	cl_fill_template(&b, text, STR("x"), STR("x"));
	return buf_ok(&b) && name_is_dns_subdomain(buf_str(&b));
}

static const char *const address_types[] = {
	"Hostname", "InternalIP", "ExternalIP", "InternalDNS", "ExternalDNS", NULL,
};
static const char *const powers[] = { "on", "off", "suspended", "terminated", "unknown", NULL };
static const char *const unknown_machines[] = { "absent", "error", NULL };
static const char *const ip_modes[] = { "VIP", "Proxy", NULL };

static const struct cl_rule rule_node_name = { .is_valid = name_is_dns_subdomain,
	                                       .complaint = "is not a valid node name" };
static const struct cl_rule rule_machine_id = { .is_valid = is_machine_id,
	                                        .complaint = "is not a valid machine id" };
static const struct cl_rule rule_label_value = { .is_valid = name_is_label_value,
	                                         .complaint = "is not a valid label value" };
static const struct cl_rule rule_pool_name = { .is_valid = name_is_dns_label,
	                                       .complaint = "is not a valid pool name" };
static const struct cl_rule rule_namespace = { .is_valid = name_is_dns_label,
	                                       .complaint = "is not a valid namespace" };
static const struct cl_rule rule_address_type = {
	.choices = address_types,
	.complaint = "is not one of Hostname, InternalIP, ExternalIP, InternalDNS, ExternalDNS",
};
static const struct cl_rule rule_hostname_template = {
	.is_valid = is_hostname_template,
	.complaint = "is not a valid hostname template",
};
static const struct cl_rule rule_plain_path = {
	.is_valid = is_plain_path,
	.complaint = "is not an absolute path of letters, digits and ._-/",
};

static const struct cl_rule rule_hook = { .is_valid = is_absolute,
	                                  .complaint = "is not an absolute path",
	                                  .what = "hook " };

static const struct cl_rule rule_power = {
	.choices = powers,
	.complaint = "is not one of on, off, suspended, terminated, unknown",
};
static const struct cl_rule rule_unknown_machines = {
	.choices = unknown_machines,
	.complaint = "is not one of absent, error",
};
static const struct cl_rule rule_ip_mode = {
	.choices = ip_modes,
	.complaint = "is not one of VIP, Proxy",
};

static const struct cl_rule rule_debounce = {
	.min = 0,
	.max = 60 * NS_PER_SEC,
	.complaint = "is not within 0s and 1m",
};
static const struct cl_rule rule_poll = {
	.min = 0,
	.max = 24 * 60 * 60 * NS_PER_SEC,
	.complaint = "is not within 0s and 24h",
};
static const struct cl_rule rule_hook_timeout = {
	.min = NS_PER_MS,
	.max = 60 * 60 * NS_PER_SEC,
	.complaint = "is not within 1ms and 1h",
};

/* ---- values of several sections ---- */

/* Puts the item into `names`, or adds a problem if the item `before` has the name already. Items
 * are those of the list that is being read; `list` is its name in the file. */
static void
claim_name(struct cl_reader *r, const struct yaml_node *node, struct map *names, struct str name,
           void *item, const void *before, const char *list)
{
	if (before)
		cl_add_problem(r, node, "%s already used by %s[%zu]", quote_z(&r->scratch, name),
		               list, (size_t)((const char *)before - r->items) / r->item_size);
	else if (name.len > 0)
		map_put(names, name, item);
}

/* The name of an item, which must be unique in its list. */
static void
read_unique_name(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                 void *into)
{
	struct map *names = &file_of(r)->unique[field->unique_in];
	const struct str *name = into;

	cl_read_string(r, field, node, into);
	claim_name(r, node, names, *name, into, map_get(names, *name),
	           unique_lists[field->unique_in]);
}

_Static_assert(offsetof(struct cl_haproxy_config, is_present) == 0 &&
                       offsetof(struct cl_balancers, is_present) == 0 &&
                       offsetof(struct cl_routes, is_present) == 0,
               "read_section() writes it");

/* A map whose struct begins with `bool is_present`. */
static void
read_section(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
             void *into)
{
	*(bool *)into = true;
	cl_read_struct(r, field, node, into);
}

/* ---- apiVersion, kind ---- */

static void
read_exactly(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
             void *into)
{
	(void)into;
	if (cl_expect(r, node, "string") && !str_eq_c(node->text, field->rule->complaint))
		cl_add_problem(r, node, "unsupported %s %s (want \"%s\")", field->name,
		               quote_z(&r->scratch, node->text), field->rule->complaint);
}

/* ---- cloud, reload, state ---- */

static const struct cl_field cloud_fields[] = {
	{ "region", cl_read_string, IN(cl_cloud, region), .rule = &rule_label_value },
	{ "zone", cl_read_string, IN(cl_cloud, zone), .rule = &rule_label_value },
	{ "self", cl_read_string, IN(cl_cloud, self) },
	{ "clusterID", cl_read_string, IN(cl_cloud, cluster_id) },
	{ "requireClusterID", cl_read_bool, IN(cl_cloud, requires_cluster_id) },
	{ "unknownMachines", cl_read_choice, IN(cl_cloud, unknown_machines),
	  .rule = &rule_unknown_machines },
};

static const struct cl_field reload_fields[] = {
	{ "enabled", cl_read_bool, IN(cl_reload, is_enabled) },
	{ "debounce", cl_read_duration, IN(cl_reload, debounce_ns), .rule = &rule_debounce },
	{ "poll", cl_read_duration, IN(cl_reload, poll_ns), .rule = &rule_poll },
	{ "maxRemoval", cl_read_percent, IN(cl_reload, max_removal_percent) },
};

static const struct cl_field state_fields[] = {
	{ "file", cl_read_string, IN(cl_state_config, file) },
};

/* ---- instanceTypes ---- */

static const struct cl_field type_fields[] = {
	{ "name", read_unique_name, IN(cl_instance_type, name), .rule = &rule_label_value,
	  .unique_in = UNIQUE_TYPES, .is_required = true },
	{ "cpus", .read = cl_read_count },
	{ "memory", .read = cl_read_quantity },
};

static void
read_types(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
           void *into)
{
	file_of(r)->schema->has_types = true;
	cl_read_list(r, field, node, into);
}

/* ---- machines ---- */

/* Names and aliases of machines are one set: a node that is found by either must mean one machine.
 */
static void
read_machine_name(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                  void *into)
{
	struct cl_machine *machine = CONTAINER_OF((struct str *)into, struct cl_machine, name);
	struct cl_names *names = file_of(r)->names;

	cl_read_string(r, field, node, into);
	claim_name(r, node, &names->by_name, machine->name, machine,
	           find_machine(names, machine->name), "machines");
}

/* The id is stored behind "cloudlycke://", so that the provider ID, which every lookup returns,
 * needs no memory of its own (cl_machine_provider_id()). */
static void
read_machine_id(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                void *into)
{
	struct cl_machine *machine = CONTAINER_OF((struct str *)into, struct cl_machine, id),
			  *before;
	struct file_reader *f = file_of(r);
	struct str id = node->text;

	if (!cl_expect(r, node, "string"))
		return;
	if (!field->rule->is_valid(id)) {
		cl_add_value_problem(r, node, id, field->rule->complaint);
		return;
	}
	machine->id = str_skip(arena_printf(r->keep, CL_PROVIDER_ID_PREFIX "%" STR_FMT,
	                                    STR_ARG(id)),
	                       sizeof(CL_PROVIDER_ID_PREFIX) - 1);
	before = map_get(&f->names->by_id, id);
	if (before)
		cl_add_problem(r, node, "id %s already used by machines[%zu]",
		               quote_z(&r->scratch, id), (size_t)(before - f->schema->machines));
	else
		map_put(&f->names->by_id, machine->id, machine);
}

static void
read_aliases(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
             void *into)
{
	struct cl_machine *machine = CONTAINER_OF((struct str **)into, struct cl_machine,
	                                          aliases.items);
	struct cl_names *names = file_of(r)->names;

	cl_read_list(r, field, node, into);
	for (size_t i = 0; i < machine->aliases.n; i++) {
		struct str alias = machine->aliases.items[i];
		size_t len = cl_enter_item(r, i);

		claim_name(r, &node->items[i], &names->by_alias, alias, machine,
		           find_machine(names, alias), "machines");
		cl_leave(r, len);
	}
}

static void
read_machine_type(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                  void *into)
{
	struct file_reader *f = file_of(r);
	struct str *type = into;

	cl_read_string(r, field, node, type);
	if (f->schema->has_types && type->len > 0 && !map_get(&f->unique[UNIQUE_TYPES], *type))
		cl_add_problem(r, node, "instance type %s is not declared",
		               quote_z(&r->scratch, *type));
}

static void
read_address(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
             void *into)
{
	struct address *address = CONTAINER_OF((struct str *)into, struct address, address);
	struct str text = node->text;
	struct ip ip;

	(void)field;
	if (!cl_expect(r, node, "string") || address->type.len == 0)
		return;
	if (!str_ends(address->type, STR("IP"))) {
		if (is_dns_name(text))
			address->address = cl_keep(r, text);
		else
			cl_add_value_problem(r, node, text, "is not a DNS name");
	} else if (ip_parse(text, &ip)) {
		address->address = cl_keep(r, str_c(cl_ip_text(&ip, &r->scratch)));
	} else {
		cl_add_value_problem(r, node, text, "is not an IP address");
	}
}

static const struct cl_field address_fields[] = {
	{ "type", cl_read_string, IN(address, type), .rule = &rule_address_type,
	  .is_required = true },
	{ "address", read_address, IN(address, address), .is_required = true },
};

static void
read_addresses(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
               void *into)
{
	const struct cl_machine *machine = CONTAINER_OF((struct address **)into, struct cl_machine,
	                                                addresses);

	cl_read_list(r, field, node, into);
	for (size_t i = 0; i < machine->n_addresses; i++) {
		const struct address *address = &machine->addresses[i];
		size_t len = cl_enter_item(r, i), k = 0;

		while (k < i && !address_eq(&machine->addresses[k], address))
			k++;
		if (address->address.len > 0 && k < i)
			cl_add_problem(r, &node->items[i], "duplicate %" STR_FMT " %s",
			               STR_ARG(address->type),
			               quote_z(&r->scratch, address->address));
		cl_leave(r, len);
	}
}

/* Of node.kubernetes.io, only the labels that Kubernetes sets itself (docs/cloudlycke.md). */
static bool
is_reserved_label(struct str key)
{
	if (str_starts(key, STR("node.kubernetes.io/")))
		return str_eq_c(key, "node.kubernetes.io/instance-type") ||
		       str_eq_c(key, "node.kubernetes.io/windows-build");
	return name_is_reserved_label(key);
}

static void
read_labels(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
            void *into)
{
	static const struct cl_field value = { .rule = &rule_label_value };
	struct cl_machine *machine = CONTAINER_OF((struct label **)into, struct cl_machine, labels);

	(void)field;
	if (!cl_expect(r, node, "map"))
		return;
	if (node->n > LABELS_MAX) {
		cl_add_problem(r, node, "has more than %d elements", LABELS_MAX);
		return;
	}
	machine->labels = arena_calloc(r->keep, node->n, sizeof(machine->labels[0]));
	for (size_t i = 0; i < node->n; i++) {
		const struct yaml_node at = { .line = node->keys[i].line };
		struct str key = node->keys[i].text;
		struct label *label;
		size_t len, k = 0;

		while (k < machine->n_labels && !str_eq(machine->labels[k].key, key))
			k++;
		if (!name_is_label_key(key)) {
			cl_add_value_problem(r, &at, key, "is not a valid label key");
		} else if (is_reserved_label(key)) {
			cl_add_problem(r, &at, "label %s is reserved", quote_z(&r->scratch, key));
		} else if (k < machine->n_labels) {
			cl_add_problem(r, &at, "duplicate field %s", quote_z(&r->scratch, key));
		} else {
			label = &machine->labels[machine->n_labels++];
			*label = (struct label){ cl_keep(r, key), STR_EMPTY };
			len = cl_enter(r, label->key.ptr);
			cl_read_string(r, &value, &node->items[i], &label->value);
			cl_leave(r, len);
		}
	}
}

/* A file that went through a YAML 1.1 program has true for on and false for off. */
static void
read_power(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
           void *into)
{
	bool is_on;

	if (yaml_to_bool(node, /*allow_yaml11=*/true, &is_on))
		*(int *)into = is_on ? CL_POWER_ON : CL_POWER_OFF;
	else
		cl_read_choice(r, field, node, into);
}

static const struct cl_field machine_fields[] = {
	{ "name", read_machine_name, IN(cl_machine, name), .rule = &rule_node_name,
	  .is_required = true },
	{ "id", read_machine_id, IN(cl_machine, id), .rule = &rule_machine_id,
	  .is_required = true },
	{ "aliases", read_aliases, STRINGS(cl_machine, aliases), .rule = &rule_node_name },
	{ "type", read_machine_type, IN(cl_machine, type), .rule = &rule_label_value },
	{ "zone", cl_read_string, IN(cl_machine, zone), .rule = &rule_label_value },
	{ "region", cl_read_string, IN(cl_machine, region), .rule = &rule_label_value },
	{ "power", read_power, IN(cl_machine, power), .rule = &rule_power },
	{ "addresses", read_addresses,
	  LIST(cl_machine, addresses, n_addresses, ADDRESSES_MAX, cl_read_struct),
	  FIELDS(address_fields) },
	{ "labels", read_labels, IN(cl_machine, labels) },
	{ "fault", cl_read_string, IN(cl_machine, fault) },
};

/* ---- addressPools ---- */

static void
read_pool_default(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                  void *into)
{
	const struct cl_pool *pool = CONTAINER_OF((bool *)into, struct cl_pool, is_default);
	struct file_reader *f = file_of(r);

	cl_read_bool(r, field, node, into);
	if (pool->is_default && f->has_default_pool)
		cl_add_problem(r, node, "pool %s: another pool is already the default",
		               quote_z(&r->scratch, pool->name));
	f->has_default_pool = f->has_default_pool || pool->is_default;
}

static const struct cl_field pool_fields[] = {
	{ "name", read_unique_name, IN(cl_pool, name), .rule = &rule_pool_name,
	  .unique_in = UNIQUE_POOLS, .is_required = true },
	{ "addresses", cl_read_list,
	  LIST(cl_pool, addresses.items, addresses.n, BLOCKS_MAX, cl_read_block),
	  .is_required = true, .is_not_empty = true },
	{ "avoid", cl_read_list, LIST(cl_pool, avoid.items, avoid.n, BLOCKS_MAX, cl_read_block) },
	{ "avoidEdges", cl_read_bool, IN(cl_pool, avoids_edges) },
	{ "default", read_pool_default, IN(cl_pool, is_default) },
	{ "namespaces", cl_read_list, STRINGS(cl_pool, namespaces), .rule = &rule_namespace },
	{ "hostnameTemplate", cl_read_string, IN(cl_pool, hostname_template),
	  .rule = &rule_hostname_template },
	{ "ipMode", cl_read_choice, IN(cl_pool, ip_mode), .rule = &rule_ip_mode },
};

static void
read_pools(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
           void *into)
{
	cl_read_list(r, field, node, into);
	cl_check_pools(r, node, file_of(r)->schema);
}

/* ---- loadBalancers, routes ---- */

static const struct cl_field haproxy_fields[] = {
	{ "file", cl_read_string, IN(cl_haproxy_config, file), .rule = &rule_plain_path,
	  .is_required = true },
	{ "statsSocket", cl_read_string, IN(cl_haproxy_config, stats_socket),
	  .rule = &rule_plain_path },
	{ "check", cl_read_list, STRINGS(cl_haproxy_config, check), .is_not_empty = true },
	{ "reload", cl_read_list, STRINGS(cl_haproxy_config, reload), .is_required = true,
	  .is_not_empty = true },
};

static const struct cl_field balancer_fields[] = {
	{ "hook", cl_read_string, IN(cl_balancers, hook), .rule = &rule_hook },
	{ "hookTimeout", cl_read_duration, IN(cl_balancers, hook_timeout_ns),
	  .rule = &rule_hook_timeout },
	{ "class", cl_read_string, IN(cl_balancers, class_name) },
	{ "localOnly", cl_read_bool, IN(cl_balancers, is_local_only) },
	{ "haproxy", read_section, IN(cl_balancers, haproxy), FIELDS(haproxy_fields) },
};

static void
read_target(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
            void *into)
{
	(void)field;
	if (!cl_expect(r, node, "string"))
		return;
	if (!find_machine(file_of(r)->names, node->text))
		cl_add_problem(r, node, "target node %s is not a machine",
		               quote_z(&r->scratch, node->text));
	else
		*(struct str *)into = cl_keep(r, node->text);
}

/* Two routes to one network would contradict each other, in whatever form it is written. */
static void
read_destination(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                 void *into)
{
	struct cl_route *route = CONTAINER_OF((struct ip_net *)into, struct cl_route, destination);
	struct map *networks = &file_of(r)->networks;
	const struct cl_route *before;
	struct str text = node->text, canonical;
	struct ip_net net;

	(void)field;
	if (!cl_expect(r, node, "string"))
		return;
	if (!ip_net_parse(text, &net)) {
		cl_add_value_problem(r, node, text, "is not a CIDR");
		return;
	}
	if (ip_net_has_host_bits(&net)) {
		cl_add_problem(r, node, "destination %s has host bits set",
		               quote_z(&r->scratch, text));
		return;
	}
	route->destination = net;
	canonical = cl_net_text(&net, &r->scratch);
	before = map_get(networks, canonical);
	if (before)
		cl_add_problem(r, node, "destination %s is already routed to %s",
		               quote_z(&r->scratch, text),
		               quote_z(&r->scratch, before->target_node));
	else
		map_put(networks, canonical, route);
}

static const struct cl_field route_fields[] = {
	{ "name", read_unique_name, IN(cl_route, name), .unique_in = UNIQUE_ROUTES,
	  .is_required = true },
	{ "targetNode", read_target, IN(cl_route, target_node), .is_required = true },
	{ "destinationCIDR", read_destination, IN(cl_route, destination), .is_required = true },
};

static const struct cl_field routes_fields[] = {
	{ "static", cl_read_list, LIST(cl_routes, fixed, n_fixed, ROUTES_MAX, cl_read_struct),
	  FIELDS(route_fields) },
	{ "hook", cl_read_string, IN(cl_routes, hook), .rule = &rule_hook },
	{ "hookTimeout", cl_read_duration, IN(cl_routes, hook_timeout_ns),
	  .rule = &rule_hook_timeout },
};

/* ---- the whole file ---- */

static const struct cl_machine new_machine = {
	.type = { "", 0 }, .zone = { "", 0 }, .region = { "", 0 }, .fault = { "", 0 }
};
static const struct cl_pool new_pool = { .avoids_edges = true };

static const struct cl_rule api_version = { .complaint = "cloudlycke.io/v1alpha1" };
static const struct cl_rule kind = { .complaint = "Inventory" };

/* Machines come before the sections that refer to them. */
static const struct cl_field file_fields[] = {
	{ "apiVersion", read_exactly, .rule = &api_version, .is_required = true },
	{ "kind", read_exactly, .rule = &kind, .is_required = true },
	{ "cloud", cl_read_struct, IN(cl_schema, cloud), FIELDS(cloud_fields) },
	{ "reload", cl_read_struct, IN(cl_schema, reload), FIELDS(reload_fields) },
	{ "state", cl_read_struct, IN(cl_schema, state), FIELDS(state_fields) },
	{ "instanceTypes", read_types, LIST(cl_schema, types, n_types, TYPES_MAX, cl_read_struct),
	  FIELDS(type_fields) },
	{ "machines", cl_read_list,
	  LIST(cl_schema, machines, n_machines, LIMIT_MACHINES, cl_read_struct),
	  FIELDS(machine_fields), .initial = &new_machine, .is_required = true },
	{ "addressPools", read_pools, LIST(cl_schema, pools, n_pools, POOLS_MAX, cl_read_struct),
	  FIELDS(pool_fields), .initial = &new_pool },
	{ "loadBalancers", read_section, IN(cl_schema, balancers), FIELDS(balancer_fields) },
	{ "routes", read_section, IN(cl_schema, routes), FIELDS(routes_fields) },
};

static const struct cl_field whole_file = { FIELDS(file_fields) };

static struct str haproxy_check[] = { { "haproxy", 7 }, { "-c", 2 }, { "-f", 2 } };

static const struct cl_schema defaults = {
	.cloud = {
		.region = { "", 0 },
		.zone = { "", 0 },
	},
	.reload = {
		.is_enabled = true,
		.debounce_ns = 250 * NS_PER_MS,
		.poll_ns = 5 * NS_PER_SEC,
		.max_removal_percent = 50,
	},
	.balancers = {
		.hook_timeout_ns = 30 * NS_PER_SEC,
		.haproxy.check = { haproxy_check, ARRAY_LEN(haproxy_check) },
	},
	.routes = { .hook_timeout_ns = 30 * NS_PER_SEC },
};

static void
file_fini(struct file_reader *f)
{
	for (size_t i = 0; i < N_UNIQUE; i++)
		map_fini(&f->unique[i]);
	map_fini(&f->networks);
	map_fini(&f->r.interned);
	buf_fini(&f->r.path);
	arena_fini(&f->r.scratch);
}

static void
check_self(struct file_reader *f, const struct yaml_node *root)
{
	struct str self = f->schema->cloud.self;

	if (self.len == 0 || find_machine(f->names, self))
		return;
	cl_enter(&f->r, "cloud.self");
	cl_add_problem(&f->r, yaml_get(yaml_get(root, STR("cloud")), STR("self")),
	               "self %s is not a machine", quote_z(&f->r.scratch, self));
}

/* Machines without a zone or region of their own have those of `cloud`. */
static void
apply_zone(struct cl_schema *schema)
{
	for (size_t i = 0; i < schema->n_machines; i++) {
		struct cl_machine *machine = &schema->machines[i];

		if (machine->zone.len == 0)
			machine->zone = schema->cloud.zone;
		if (machine->region.len == 0)
			machine->region = schema->cloud.region;
	}
}

/* ---- the index ---- */

/* In by_host for a Hostname that several machines have. */
static const struct cl_machine ambiguous_host;

static bool
is_host(const struct address *address)
{
	return str_eq_c(address->type, "Hostname");
}

/* A machine cannot have the same Hostname twice: that is a problem of the file. */
static void
index_hosts(struct cl_inventory *inventory)
{
	for (size_t i = 0; i < inventory->schema.n_machines; i++) {
		struct cl_machine *machine = &inventory->schema.machines[i];

		for (size_t k = 0; k < machine->n_addresses; k++) {
			struct str host = machine->addresses[k].address;

			if (!is_host(&machine->addresses[k]) ||
			    find_machine(&inventory->names, host))
				continue;
			if (map_put(&inventory->by_host, host, machine))
				map_put(&inventory->by_host, host,
				        (void *)(uintptr_t)&ambiguous_host);
		}
	}
}

struct cl_inventory *
cl_inventory_parse(struct str text, struct cl_problems *problems)
{
	CLEANUP(cl_inventory_unrefp)
	struct cl_inventory *inventory = xcalloc(1, sizeof(*inventory));
	struct cl_schema *schema = &inventory->schema;
	struct cl_names *names = &inventory->names;
	CLEANUP(file_fini)
	struct file_reader f = {
		.r = { .problems = problems, .keep = &inventory->arena, .path = BUF_INIT(KIB(4)) },
		.schema = schema,
		.names = names,
	};
	struct yaml_node root = { .line = 0 };
	struct error err;

	ref_init(&inventory->refs);
	*schema = defaults;
	*names = (struct cl_names){ .by_name = MAP_OF(struct cl_machine, name),
		                    .by_id = MAP_OF(struct cl_machine, id) };
	if (!yaml_parse(text, &f.r.scratch, &root, &root.line, &err)) {
		cl_add_problem(&f.r, &root, "invalid YAML: %s", err.msg);
		return NULL;
	}
	cl_read_struct(&f.r, &whole_file, &root, schema);
	check_self(&f, &root);
	if (problems->n > 0)
		return NULL;
	apply_zone(schema);
	index_hosts(inventory);
	inventory->ends_with_line = str_ends(text, STR("\n"));
	inventory->ends_with_mark = str_ends(str_trim(text), STR("\n..."));
	return TAKE(inventory);
}

struct cl_inventory *
cl_inventory_ref(struct cl_inventory *inventory)
{
	ref_take(&inventory->refs);
	return inventory;
}

void
cl_inventory_unref(struct cl_inventory *inventory)
{
	if (!inventory || !ref_drop(&inventory->refs))
		return;
	map_fini(&inventory->names.by_name);
	map_fini(&inventory->names.by_alias);
	map_fini(&inventory->names.by_id);
	map_fini(&inventory->by_host);
	arena_fini(&inventory->arena);
	free(inventory);
}

bool
cl_inventory_by_name(const struct cl_inventory *inventory, struct str name,
                     const struct cl_machine **ret, struct buf *ids)
{
	const struct cl_machine *machine = find_machine(&inventory->names, name);

	if (!machine)
		machine = map_get(&inventory->by_host, name);
	if (machine != &ambiguous_host) {
		*ret = machine;
		return true;
	}
	for (size_t i = 0; i < inventory->schema.n_machines; i++) {
		machine = &inventory->schema.machines[i];
		for (size_t k = 0; k < machine->n_addresses; k++) {
			if (is_host(&machine->addresses[k]) &&
			    str_eq(machine->addresses[k].address, name))
				buf_addf(ids, "%s%" STR_FMT, ids->len > 0 ? ", " : "",
				         STR_ARG(machine->id));
		}
	}
	return false;
}
