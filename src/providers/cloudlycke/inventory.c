/* inventory.c: see inventory.h. */
#include "providers/cloudlycke/inventory.h"

#include "base/alloc.h"

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

static void
look_at_end(struct cl_inventory *inventory, struct str text)
{
	struct str end = str_trim(text);

	inventory->ends_with_line = str_ends(text, STR("\n"));
	inventory->ends_with_mark = str_ends(end, STR("\n..."));
}

struct cl_inventory *
cl_inventory_parse(struct str text, struct cl_problems *problems)
{
	CLEANUP(cl_inventory_unrefp)
	struct cl_inventory *inventory = xcalloc(1, sizeof(*inventory));

	atomic_init(&inventory->n_refs, 1);
	cl_read_schema(text, &inventory->arena, problems, &inventory->names, &inventory->schema);
	if (problems->n > 0)
		return NULL;
	index_hosts(inventory);
	look_at_end(inventory, text);
	return TAKE(inventory);
}

struct cl_inventory *
cl_inventory_ref(struct cl_inventory *inventory)
{
	atomic_fetch_add_explicit(&inventory->n_refs, 1, memory_order_relaxed);
	return inventory;
}

void
cl_inventory_unref(struct cl_inventory *inventory)
{
	if (!inventory ||
	    atomic_fetch_sub_explicit(&inventory->n_refs, 1, memory_order_acq_rel) > 1)
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
