/* inventory.c: see inventory.h.
 *
 * To add a field: a member in inventory.h, a line in a table here, a line in docs/cloudlycke.md, a
 * test.
 */
#include "providers/cloudlycke/inventory.h"

#include "base/alloc.h"
#include "base/quote.h"
#include "providers/cloudlycke/check.h"

enum {
	ADDRESSES_MAX = 64, /* of a machine */
	TYPES_MAX = 1000,
	POOLS_MAX = 1000,
	ROUTES_MAX = 10000,
};

/* The file while it is read, with what the check of one section needs of others. */
struct file_reader {
	struct cl_reader r;
	struct cl_schema *schema;
	struct cl_names *names;
	struct map types;    /* declared instance types */
	struct map pools;    /* by name */
	struct map routes;   /* static ones by name */
	struct map networks; /* static routes by destination */
	bool has_default_pool;
};

/* For tables: `IN(cl_machine, id)` is where a field's value goes. */
#define IN(type, member) .offset = offsetof(struct type, member)
/* The fields of the map, or of each map of the list. */
#define FIELDS(table) .fields = (table), .n_fields = ARRAY_LEN(table)

static inline struct file_reader *
file_of(struct cl_reader *r)
{
	return CONTAINER_OF(r, struct file_reader, r);
}

const char *
cl_ip_text(const struct ip *ip, struct arena *arena)
{
	char memory[64] = "";
	struct buf b = BUF_FIXED(memory);

	ip_format(&b, ip);
	return arena_strz(arena, buf_str(&b));
}

struct cl_machine *
cl_names_find(const struct cl_names *names, struct str name_or_alias)
{
	struct cl_machine *machine = map_get(&names->by_name, name_or_alias);

	return machine ? machine : map_get(&names->by_alias, name_or_alias);
}

/* Adds a problem and returns true if the item `before` (NULL: none) has the name already. The list
 * is an array of items of `size` bytes that starts at `first`; `list` is its name in the file. */
static bool
is_name_taken(struct cl_reader *r, const struct yaml_node *node, struct str name,
              const void *before, const char *list, const void *first, size_t size)
{
	if (before)
		cl_complain(r, node, "%s already used by %s[%zu]", quote_z(&r->scratch, name), list,
		            (size_t)((const char *)before - (const char *)first) / size);
	return before != NULL;
}

/* Adds a name that must be unique in its list, or a problem. */
static void
claim_name(struct cl_reader *r, const struct yaml_node *node, struct map *names, struct str name,
           void *item, const char *list, const void *first, size_t size)
{
	if (!is_name_taken(r, node, name, map_get(names, name), list, first, size))
		map_put(names, name, item);
}

/* ---- apiVersion, kind ---- */

static void
read_exactly(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
             void *into)
{
	struct str text;

	(void)into;
	if (!cl_expect_string(r, node, &text))
		return;
	if (!str_eq_c(text, field->rule->complaint))
		cl_complain(r, node, "unsupported %s %s (want \"%s\")", field->name,
		            quote_z(&r->scratch, text), field->rule->complaint);
}

/* ---- cloud, reload, state ---- */

static const struct cl_field cloud_fields[] = {
	{ "region", cl_read_string, IN(cl_cloud, region), .rule = &cl_rule_label_value },
	{ "zone", cl_read_string, IN(cl_cloud, zone), .rule = &cl_rule_label_value },
	{ "self", cl_read_string, IN(cl_cloud, self) },
	{ "clusterID", cl_read_string, IN(cl_cloud, cluster_id) },
	{ "requireClusterID", cl_read_bool, IN(cl_cloud, requires_cluster_id) },
	{ "unknownMachines", cl_read_choice, IN(cl_cloud, unknown_machines),
	  .rule = &cl_rule_unknown_machines },
};

static const struct cl_field reload_fields[] = {
	{ "enabled", cl_read_bool, IN(cl_reload, is_enabled) },
	{ "debounce", cl_read_duration, IN(cl_reload, debounce_ns), .rule = &cl_rule_debounce },
	{ "poll", cl_read_duration, IN(cl_reload, poll_ns), .rule = &cl_rule_poll },
	{ "maxRemoval", cl_read_percent, IN(cl_reload, max_removal_percent) },
};

static const struct cl_field state_fields[] = {
	{ "file", cl_read_string, IN(cl_state_config, file) },
};

/* ---- instanceTypes ---- */

static void
read_type_name(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
               void *into)
{
	struct cl_schema *schema = file_of(r)->schema;
	struct str *name = into;

	cl_read_string(r, field, node, name);
	if (name->len > 0)
		claim_name(r, node, &file_of(r)->types, *name, into, "instanceTypes", schema->types,
		           sizeof(schema->types[0]));
}

static const struct cl_field type_fields[] = {
	{ "name", read_type_name, IN(cl_instance_type, name), .rule = &cl_rule_label_value,
	  .is_required = true },
	{ "cpus", .read = cl_read_count },
	{ "memory", .read = cl_read_quantity },
};

static void
read_types(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
           void *into)
{
	struct cl_schema *schema = file_of(r)->schema;

	(void)into;
	schema->has_types = true;
	schema->types = cl_new_list(r, node, TYPES_MAX, sizeof(schema->types[0]), &schema->n_types);
	cl_read_items(r, field, node, schema->n_types, schema->types, sizeof(schema->types[0]),
	              cl_read_struct);
}

/* ---- machines ---- */

/* Names and aliases of machines are one set: a node that is found by either must mean one machine.
 */
static void
claim_machine(struct cl_reader *r, const struct yaml_node *node, struct map *names, struct str name,
              struct cl_machine *machine)
{
	struct file_reader *f = file_of(r);

	if (name.len > 0 && !is_name_taken(r, node, name, cl_names_find(f->names, name), "machines",
	                                   f->schema->machines, sizeof(*machine)))
		map_put(names, name, machine);
}

static void
read_machine_name(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                  void *into)
{
	struct cl_machine *machine = CONTAINER_OF((struct str *)into, struct cl_machine, name);

	cl_read_string(r, field, node, into);
	claim_machine(r, node, &file_of(r)->names->by_name, machine->name, machine);
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
	struct str id;

	if (!cl_expect_string(r, node, &id))
		return;
	if (!field->rule->is_valid(id)) {
		cl_complain_of(r, node, id, field->rule->complaint);
		return;
	}
	machine->id = str_skip(arena_printf(r->keep, CL_PROVIDER_ID_PREFIX "%" STR_FMT,
	                                    STR_ARG(id)),
	                       sizeof(CL_PROVIDER_ID_PREFIX) - 1);
	before = map_get(&f->names->by_id, id);
	if (before)
		cl_complain(r, node, "id %s already used by machines[%zu]",
		            quote_z(&r->scratch, id), (size_t)(before - f->schema->machines));
	else
		map_put(&f->names->by_id, machine->id, machine);
}

static void
read_aliases(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
             void *into)
{
	struct cl_machine *machine = CONTAINER_OF((struct str_list *)into, struct cl_machine,
	                                          aliases);

	cl_read_strings(r, field, node, into);
	for (size_t i = 0; i < machine->aliases.n; i++) {
		size_t len = cl_enter_item(r, i);

		claim_machine(r, &node->items[i], &file_of(r)->names->by_alias,
		              machine->aliases.items[i], machine);
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
	if (f->schema->has_types && type->len > 0 && !map_get(&f->types, *type))
		cl_complain(r, node, "instance type %s is not declared",
		            quote_z(&r->scratch, *type));
}

static const struct cl_field address_fields[] = {
	{ "type", cl_read_string, IN(address, type), .rule = &cl_rule_address_type,
	  .is_required = true },
	{ "address", cl_read_address, IN(address, address), .is_required = true },
};

static bool
is_repeated(const struct address *addresses, size_t i)
{
	for (size_t k = 0; k < i; k++) {
		if (str_eq(addresses[k].type, addresses[i].type) &&
		    str_eq(addresses[k].address, addresses[i].address))
			return true;
	}
	return false;
}

static void
read_addresses(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
               void *into)
{
	struct cl_machine *machine = CONTAINER_OF((struct address **)into, struct cl_machine,
	                                          addresses);
	size_t n;

	machine->addresses = cl_new_list(r, node, ADDRESSES_MAX, sizeof(machine->addresses[0]), &n);
	machine->n_addresses = (uint32_t)n;
	cl_read_items(r, field, node, machine->n_addresses, machine->addresses,
	              sizeof(machine->addresses[0]), cl_read_struct);
	for (size_t i = 0; i < machine->n_addresses; i++) {
		const struct address *address = &machine->addresses[i];
		size_t len = cl_enter_item(r, i);

		if (address->address.len > 0 && is_repeated(machine->addresses, i))
			cl_complain(r, &node->items[i], "duplicate %" STR_FMT " %s",
			            STR_ARG(address->type), quote_z(&r->scratch, address->address));
		cl_leave(r, len);
	}
}

static const struct cl_field machine_fields[] = {
	{ "name", read_machine_name, IN(cl_machine, name), .rule = &cl_rule_node_name,
	  .is_required = true },
	{ "id", read_machine_id, IN(cl_machine, id), .rule = &cl_rule_machine_id,
	  .is_required = true },
	{ "aliases", read_aliases, IN(cl_machine, aliases), .rule = &cl_rule_node_name },
	{ "type", read_machine_type, IN(cl_machine, type), .rule = &cl_rule_label_value },
	{ "zone", cl_read_string, IN(cl_machine, zone), .rule = &cl_rule_label_value },
	{ "region", cl_read_string, IN(cl_machine, region), .rule = &cl_rule_label_value },
	{ "power", cl_read_power, IN(cl_machine, power), .rule = &cl_rule_power },
	{ "addresses", read_addresses, IN(cl_machine, addresses), FIELDS(address_fields) },
	{ "labels", cl_read_labels, IN(cl_machine, labels) },
	{ "fault", cl_read_string, IN(cl_machine, fault) },
};

static void
read_machine(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
             void *item)
{
	struct cl_machine *machine = item;

	machine->type = machine->zone = machine->region = machine->fault = STR_EMPTY;
	cl_read_struct(r, field, node, machine);
}

static void
read_machines(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
              void *into)
{
	struct cl_schema *schema = file_of(r)->schema;

	(void)into;
	schema->machines = cl_new_list(r, node, LIMIT_MACHINES, sizeof(schema->machines[0]),
	                               &schema->n_machines);
	cl_read_items(r, field, node, schema->n_machines, schema->machines,
	              sizeof(schema->machines[0]), read_machine);
}

/* ---- addressPools ---- */

static void
read_pool_name(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
               void *into)
{
	struct cl_schema *schema = file_of(r)->schema;
	struct cl_pool *pool = CONTAINER_OF((struct str *)into, struct cl_pool, name);

	cl_read_string(r, field, node, into);
	if (pool->name.len > 0)
		claim_name(r, node, &file_of(r)->pools, pool->name, pool, "addressPools",
		           schema->pools, sizeof(*pool));
}

static void
read_pool_default(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                  void *into)
{
	const struct cl_pool *pool = CONTAINER_OF((bool *)into, struct cl_pool, is_default);
	struct file_reader *f = file_of(r);

	cl_read_bool(r, field, node, into);
	if (pool->is_default && f->has_default_pool)
		cl_complain(r, node, "pool %s: another pool is already the default",
		            quote_z(&r->scratch, pool->name));
	f->has_default_pool = f->has_default_pool || pool->is_default;
}

static const struct cl_field pool_fields[] = {
	{ "name", read_pool_name, IN(cl_pool, name), .rule = &cl_rule_pool_name,
	  .is_required = true },
	{ "addresses", cl_read_blocks, IN(cl_pool, addresses), .is_required = true },
	{ "avoid", cl_read_blocks, IN(cl_pool, avoid) },
	{ "avoidEdges", cl_read_bool, IN(cl_pool, avoids_edges) },
	{ "default", read_pool_default, IN(cl_pool, is_default) },
	{ "namespaces", cl_read_strings, IN(cl_pool, namespaces), .rule = &cl_rule_namespace },
	{ "hostnameTemplate", cl_read_string, IN(cl_pool, hostname_template),
	  .rule = &cl_rule_hostname_template },
	{ "ipMode", cl_read_choice, IN(cl_pool, ip_mode), .rule = &cl_rule_ip_mode },
};

static void
read_pool(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
          void *item)
{
	struct cl_pool *pool = item;

	pool->avoids_edges = true;
	cl_read_struct(r, field, node, pool);
}

static void
read_pools(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
           void *into)
{
	struct cl_schema *schema = file_of(r)->schema;

	(void)into;
	schema->pools = cl_new_list(r, node, POOLS_MAX, sizeof(schema->pools[0]), &schema->n_pools);
	cl_read_items(r, field, node, schema->n_pools, schema->pools, sizeof(schema->pools[0]),
	              read_pool);
	cl_check_pools(r, node, schema);
}

/* ---- loadBalancers, routes ---- */

static const struct cl_field haproxy_fields[] = {
	{ "file", cl_read_plain_path, IN(cl_haproxy_config, file), .is_required = true },
	{ "statsSocket", cl_read_plain_path, IN(cl_haproxy_config, stats_socket) },
	{ "check", cl_read_command, IN(cl_haproxy_config, check) },
	{ "reload", cl_read_command, IN(cl_haproxy_config, reload), .is_required = true },
};

static void
read_haproxy(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
             void *into)
{
	static struct str check[] = { { "haproxy", 7 }, { "-c", 2 }, { "-f", 2 } };
	struct cl_haproxy_config *haproxy = into;

	haproxy->is_present = true;
	haproxy->check = (struct str_list){ check, ARRAY_LEN(check) };
	cl_read_struct(r, field, node, haproxy);
}

static const struct cl_field balancer_fields[] = {
	{ "hook", cl_read_hook, IN(cl_balancers, hook) },
	{ "hookTimeout", cl_read_duration, IN(cl_balancers, hook_timeout_ns),
	  .rule = &cl_rule_hook_timeout },
	{ "class", cl_read_string, IN(cl_balancers, class_name) },
	{ "localOnly", cl_read_bool, IN(cl_balancers, is_local_only) },
	{ "haproxy", read_haproxy, IN(cl_balancers, haproxy), FIELDS(haproxy_fields) },
};

static void
read_balancers(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
               void *into)
{
	struct cl_balancers *balancers = into;

	balancers->is_present = true;
	cl_read_struct(r, field, node, balancers);
}

static void
read_route_name(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                void *into)
{
	struct cl_routes *routes = &file_of(r)->schema->routes;
	struct cl_route *route = CONTAINER_OF((struct str *)into, struct cl_route, name);

	cl_read_string(r, field, node, into);
	if (route->name.len > 0)
		claim_name(r, node, &file_of(r)->routes, route->name, route, "routes.static",
		           routes->fixed, sizeof(*route));
}

static void
read_target(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
            void *into)
{
	struct str text;

	(void)field;
	if (!cl_expect_string(r, node, &text))
		return;
	if (!cl_names_find(file_of(r)->names, text))
		cl_complain(r, node, "target node %s is not a machine", quote_z(&r->scratch, text));
	else
		*(struct str *)into = cl_keep(r, text);
}

/* Two routes to one network would contradict each other, in whatever form it is written. */
static void
claim_network(struct cl_reader *r, const struct yaml_node *node, struct str text,
              struct cl_route *route)
{
	char spelling[80] = "";
	struct buf b = BUF_FIXED(spelling);
	struct cl_route *before;

	ip_net_format(&b, &route->destination);
	before = map_get(&file_of(r)->networks, buf_str(&b));
	if (before)
		cl_complain(r, node, "destination %s is already routed to %s",
		            quote_z(&r->scratch, text), quote_z(&r->scratch, before->target_node));
	else
		map_put(&file_of(r)->networks, arena_str(&r->scratch, buf_str(&b)), route);
}

static void
read_destination(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                 void *into)
{
	struct cl_route *route = CONTAINER_OF((struct ip_net *)into, struct cl_route, destination);
	struct ip_net net;
	struct str text;

	(void)field;
	if (!cl_expect_string(r, node, &text))
		return;
	if (!ip_net_parse(text, &net)) {
		cl_complain_of(r, node, text, "is not a CIDR");
	} else if (ip_net_has_host_bits(&net)) {
		cl_complain(r, node, "destination %s has host bits set",
		            quote_z(&r->scratch, text));
	} else {
		route->destination = net;
		claim_network(r, node, text, route);
	}
}

static const struct cl_field route_fields[] = {
	{ "name", read_route_name, IN(cl_route, name), .is_required = true },
	{ "targetNode", read_target, IN(cl_route, target_node), .is_required = true },
	{ "destinationCIDR", read_destination, IN(cl_route, destination), .is_required = true },
};

static void
read_static_routes(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                   void *into)
{
	struct cl_routes *routes = CONTAINER_OF((struct cl_route **)into, struct cl_routes, fixed);

	routes->fixed = cl_new_list(r, node, ROUTES_MAX, sizeof(routes->fixed[0]),
	                            &routes->n_fixed);
	cl_read_items(r, field, node, routes->n_fixed, routes->fixed, sizeof(routes->fixed[0]),
	              cl_read_struct);
}

static const struct cl_field routes_fields[] = {
	{ "static", read_static_routes, IN(cl_routes, fixed), FIELDS(route_fields) },
	{ "hook", cl_read_hook, IN(cl_routes, hook) },
	{ "hookTimeout", cl_read_duration, IN(cl_routes, hook_timeout_ns),
	  .rule = &cl_rule_hook_timeout },
};

static void
read_routes(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
            void *into)
{
	struct cl_routes *routes = into;

	routes->is_present = true;
	cl_read_struct(r, field, node, routes);
}

/* ---- the whole file ---- */

static const struct cl_rule api_version = { .complaint = "cloudlycke.io/v1alpha1" };
static const struct cl_rule kind = { .complaint = "Inventory" };

/* Machines come before the sections that refer to them. */
static const struct cl_field file_fields[] = {
	{ "apiVersion", read_exactly, .rule = &api_version, .is_required = true },
	{ "kind", read_exactly, .rule = &kind, .is_required = true },
	{ "cloud", cl_read_struct, IN(cl_schema, cloud), FIELDS(cloud_fields) },
	{ "reload", cl_read_struct, IN(cl_schema, reload), FIELDS(reload_fields) },
	{ "state", cl_read_struct, IN(cl_schema, state), FIELDS(state_fields) },
	{ "instanceTypes", read_types, IN(cl_schema, types), FIELDS(type_fields) },
	{ "machines", read_machines, IN(cl_schema, machines), FIELDS(machine_fields),
	  .is_required = true },
	{ "addressPools", read_pools, IN(cl_schema, pools), FIELDS(pool_fields) },
	{ "loadBalancers", read_balancers, IN(cl_schema, balancers), FIELDS(balancer_fields) },
	{ "routes", read_routes, IN(cl_schema, routes), FIELDS(routes_fields) },
};

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
	.balancers = { .hook_timeout_ns = 30 * NS_PER_SEC },
	.routes = { .hook_timeout_ns = 30 * NS_PER_SEC },
};

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

static void
check_self(struct file_reader *f, const struct yaml_node *root)
{
	struct str self = f->schema->cloud.self;
	size_t len;

	if (self.len == 0 || cl_names_find(f->names, self))
		return;
	len = cl_enter(&f->r, "cloud.self");
	cl_complain(&f->r, yaml_get(yaml_get(root, STR("cloud")), STR("self")),
	            "self %s is not a machine", quote_z(&f->r.scratch, self));
	cl_leave(&f->r, len);
}

static void
file_fini(struct file_reader *f)
{
	map_fini(&f->types);
	map_fini(&f->pools);
	map_fini(&f->routes);
	map_fini(&f->networks);
	map_fini(&f->r.interned);
	buf_fini(&f->r.path);
	arena_fini(&f->r.scratch);
}

static void
read_schema(struct str text, struct arena *keep, struct cl_problems *problems,
            struct cl_names *names, struct cl_schema *ret)
{
	CLEANUP(file_fini)
	struct file_reader f = {
		.r = { .problems = problems, .keep = keep, .path = BUF_INIT(KIB(4)) },
		.schema = ret,
		.names = names,
	};
	struct yaml_node root;
	struct error err;
	int line = 0;

	*ret = defaults;
	*names = (struct cl_names){ .by_name = MAP_OF(struct cl_machine, name),
		                    .by_id = MAP_OF(struct cl_machine, id) };
	if (!yaml_parse(text, &f.r.scratch, &root, &line, &err)) {
		cl_problems_add(problems, line, STR_EMPTY, "invalid YAML: %s", err.msg);
		return;
	}
	cl_read_map(&f.r, &root, file_fields, ARRAY_LEN(file_fields), ret);
	apply_zone(ret);
	check_self(&f, &root);
}

/* ---- the index ---- */

/* In by_host for a Hostname that several machines have. */
static const struct cl_machine several;

static void
index_host(struct cl_inventory *inventory, struct cl_machine *machine, struct str host)
{
	if (cl_names_find(&inventory->names, host))
		return;
	if (map_put(&inventory->by_host, host, machine))
		map_put(&inventory->by_host, host, (void *)(uintptr_t)&several);
}

static bool
is_host(const struct address *address)
{
	return str_eq(address->type, STR("Hostname"));
}

/* A machine cannot have the same Hostname twice: that is a problem of the file. */
static void
index_hosts(struct cl_inventory *inventory)
{
	for (size_t i = 0; i < inventory->schema.n_machines; i++) {
		struct cl_machine *machine = &inventory->schema.machines[i];

		for (size_t k = 0; k < machine->n_addresses; k++) {
			if (is_host(&machine->addresses[k]))
				index_host(inventory, machine, machine->addresses[k].address);
		}
	}
}

struct cl_inventory *
cl_inventory_parse(struct str text, struct cl_problems *problems)
{
	CLEANUP(cl_inventory_unrefp)
	struct cl_inventory *inventory = xcalloc(1, sizeof(*inventory));

	ref_init(&inventory->refs);
	read_schema(text, &inventory->arena, problems, &inventory->names, &inventory->schema);
	if (problems->n > 0)
		return NULL;
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

const struct cl_machine *
cl_inventory_by_id(const struct cl_inventory *inventory, struct str id)
{
	return map_get(&inventory->names.by_id, id);
}

static bool
has_host(const struct cl_machine *machine, struct str host)
{
	for (size_t i = 0; i < machine->n_addresses; i++) {
		if (is_host(&machine->addresses[i]) && str_eq(machine->addresses[i].address, host))
			return true;
	}
	return false;
}

static void
list_ids(const struct cl_inventory *inventory, struct str host, struct buf *ids)
{
	for (size_t i = 0; i < inventory->schema.n_machines; i++) {
		const struct cl_machine *machine = &inventory->schema.machines[i];

		if (has_host(machine, host))
			buf_addf(ids, "%s%" STR_FMT, ids->len > 0 ? ", " : "",
			         STR_ARG(machine->id));
	}
}

bool
cl_inventory_by_name(const struct cl_inventory *inventory, struct str name,
                     const struct cl_machine **ret, struct buf *ids)
{
	const struct cl_machine *machine = cl_names_find(&inventory->names, name);

	if (!machine)
		machine = map_get(&inventory->by_host, name);
	if (machine == &several) {
		list_ids(inventory, name, ids);
		return false;
	}
	*ret = machine;
	return true;
}
