/* machines.c: the sections `instanceTypes` and `machines` of an inventory. */
#include "providers/cloudlycke/check.h"
#include "providers/cloudlycke/file.h"
#include "providers/cloudlycke/quote.h"

enum {
	ADDRESSES_MAX = 64, /* of a machine */
	TYPES_MAX = 1000,
};

/* ---- instanceTypes ----------------------------------------------------------------------------------- */

static void
read_type_name(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
               void *into)
{
	struct cl_schema *schema = cl_file_of(r)->schema;
	struct str *name = into;

	cl_read_string(r, field, node, name);
	if (name->len > 0)
		cl_claim(r, node, &cl_file_of(r)->types, *name, into, "instanceTypes",
		         schema->types, sizeof(schema->types[0]));
}

static const struct cl_field type_fields[] = {
	{ "name", read_type_name, IN(cl_instance_type, name), .rule = &cl_rule_label_value,
	  .is_required = true },
	{ "cpus", .read = cl_read_count },
	{ "memory", .read = cl_read_quantity },
};

static void
read_type(struct cl_reader *r, UNUSED const struct cl_field *field, const struct yaml_node *node,
          void *item)
{
	cl_read_map(r, node, type_fields, ARRAY_LEN(type_fields), item);
}

void
cl_read_types(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
              UNUSED void *into)
{
	struct cl_schema *schema = cl_file_of(r)->schema;

	schema->has_types = true;
	schema->types = cl_new_list(r, node, TYPES_MAX, sizeof(schema->types[0]), &schema->n_types);
	cl_read_items(r, field, node, schema->n_types, schema->types, sizeof(schema->types[0]),
	              read_type);
}

/* ---- machines ---------------------------------------------------------------------------------------- */

static void
claim_machine(struct cl_reader *r, const struct yaml_node *node, struct map *names, struct str name,
              struct cl_machine *machine)
{
	struct cl_file *f = cl_file_of(r);

	if (name.len > 0 && !cl_is_taken(r, node, name, cl_names_find(f->names, name), "machines",
	                                 f->schema->machines, sizeof(*machine)))
		map_put(names, name, machine);
}

static void
read_machine_name(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                  void *into)
{
	struct cl_machine *machine = CONTAINER_OF((struct str *)into, struct cl_machine, name);

	cl_read_string(r, field, node, into);
	claim_machine(r, node, &cl_file_of(r)->names->by_name, machine->name, machine);
}

static void
read_machine_id(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                void *into)
{
	struct cl_machine *machine = CONTAINER_OF((struct str *)into, struct cl_machine, id),
			  *before;
	struct cl_file *f = cl_file_of(r);
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
		cl_complain(r, node, "id %s already used by machines[%zu]", cl_q(&r->scratch, id),
		            (size_t)(before - f->schema->machines));
	else
		map_put(&f->names->by_id, machine->id, machine);
}

static void
read_aliases(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
             void *into)
{
	struct cl_machine *machine = CONTAINER_OF((struct cl_strings *)into, struct cl_machine,
	                                          aliases);

	cl_read_strings(r, field, node, into);
	for (size_t i = 0; i < machine->aliases.n; i++) {
		size_t len = cl_enter_item(r, i);

		claim_machine(r, &node->items[i], &cl_file_of(r)->names->by_alias,
		              machine->aliases.items[i], machine);
		cl_leave(r, len);
	}
}

static void
read_machine_type(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                  void *into)
{
	struct cl_file *f = cl_file_of(r);
	struct str *type = into;

	cl_read_string(r, field, node, type);
	if (f->schema->has_types && type->len > 0 && !map_get(&f->types, *type))
		cl_complain(r, node, "instance type %s is not declared", cl_q(&r->scratch, *type));
}

static const struct cl_field address_fields[] = {
	{ "type", cl_read_string, IN(address, type), .rule = &cl_rule_address_type,
	  .is_required = true },
	{ "address", cl_read_address, IN(address, address), .is_required = true },
};

static void
read_address(struct cl_reader *r, UNUSED const struct cl_field *field, const struct yaml_node *node,
             void *item)
{
	cl_read_map(r, node, address_fields, ARRAY_LEN(address_fields), item);
}

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
	              sizeof(machine->addresses[0]), read_address);
	for (size_t i = 0; i < machine->n_addresses; i++) {
		const struct address *address = &machine->addresses[i];
		size_t len = cl_enter_item(r, i);

		if (address->address.len > 0 && is_repeated(machine->addresses, i))
			cl_complain(r, &node->items[i], "duplicate %" STR_FMT " %s",
			            STR_ARG(address->type), cl_q(&r->scratch, address->address));
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
	{ "addresses", read_addresses, IN(cl_machine, addresses) },
	{ "labels", cl_read_labels, IN(cl_machine, labels) },
	{ "fault", cl_read_string, IN(cl_machine, fault) },
};

static void
read_machine(struct cl_reader *r, UNUSED const struct cl_field *field, const struct yaml_node *node,
             void *item)
{
	struct cl_machine *machine = item;

	machine->type = machine->zone = machine->region = machine->fault = STR_EMPTY;
	cl_read_map(r, node, machine_fields, ARRAY_LEN(machine_fields), machine);
}

void
cl_read_machines(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                 UNUSED void *into)
{
	struct cl_schema *schema = cl_file_of(r)->schema;

	schema->machines = cl_new_list(r, node, LIMIT_MACHINES, sizeof(schema->machines[0]),
	                               &schema->n_machines);
	cl_read_items(r, field, node, schema->n_machines, schema->machines,
	              sizeof(schema->machines[0]), read_machine);
}
