/* An accepted machine can be found under each of its names. A refused file has problems with line
 * numbers. */
#include "providers/cloudlycke/inventory.h"

#include <assert.h>

#include "providers/cloudlycke/loader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_found(const struct cl_inventory *inventory, struct str name)
{
	CLEANUP(buf_fini) struct buf ids = BUF_INIT(1000);
	const struct cl_machine *machine = NULL;

	if (cl_inventory_by_name(inventory, name, &machine, &ids))
		assert(machine);
	else
		assert(ids.len > 0);
}

static void
check_machine(const struct cl_inventory *inventory, const struct cl_machine *machine)
{
	assert(map_get(&inventory->names.by_id, machine->id) == machine);
	assert(str_starts(cl_machine_provider_id(machine), STR(CL_PROVIDER_ID_PREFIX)));
	assert(machine->type.ptr && machine->zone.ptr && machine->region.ptr);
	check_found(inventory, machine->name);
	for (size_t i = 0; i < machine->aliases.n; i++)
		check_found(inventory, machine->aliases.items[i]);
	for (size_t i = 0; i < machine->n_addresses; i++) {
		if (str_eq(machine->addresses[i].type, STR("Hostname")))
			check_found(inventory, machine->addresses[i].address);
	}
}

static void
check_inventory(const struct cl_inventory *inventory)
{
	CLEANUP(buf_fini) struct buf why = BUF_INIT(1000);
	struct cl_changes changes;

	for (size_t i = 0; i < inventory->schema.n_machines; i++)
		check_machine(inventory, &inventory->schema.machines[i]);
	cl_compare(inventory, inventory, &changes);
	assert(changes.n_added + changes.n_removed + changes.n_changed == 0);
	assert(cl_guard(inventory, inventory, &changes, &why));
}

static void
check_problems(const struct cl_problems *problems)
{
	assert(problems->n > 0 && problems->n_kept > 0);
	for (size_t i = 0; i < problems->n_kept; i++) {
		assert(str_starts(str_c(problems->kept[i].text), STR("f:")));
		for (const char *c = problems->kept[i].text; *c; c++)
			assert((unsigned char)*c >= 0x20 && *c != 0x7f);
		assert(i == 0 || problems->kept[i].line >= problems->kept[i - 1].line);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(cl_problems_fini) struct cl_problems problems = CL_PROBLEMS_INIT("f");
	CLEANUP(cl_inventory_unrefp) struct cl_inventory *inventory = NULL;

	inventory = cl_inventory_parse(str_n((const char *)data, size), &problems);
	if (inventory)
		check_inventory(inventory);
	else
		check_problems(&problems);
	return 0;
}
