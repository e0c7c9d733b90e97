/* provider.c: machines without a cloud API, described in one inventory file.
 *
 * load() reads the inventory, start() begins to watch the file, and look() answers for nodes. An
 * answer must not be older than its question. So if the file has changed since it was loaded, a
 * lookup first waits until it has been read again. If that takes too long, or if the changed file
 * is not admitted (cl_guard()), a machine that is not listed is unknown, not absent.
 */
#include "base/alloc.h"
#include "base/limits.h"
#include "base/buf.h"
#include "base/thread.h"
#include "cloud/host.h"
#include "providers/cloudlycke/cloudlycke.h"

#define RELOAD_WAIT_NS (2 * NS_PER_SEC) /* the longest wait of a lookup for a changed file */

extern const struct cloud_ops cloudlycke_cloud;

/* ---- finding a machine ---- */

/* A lookup of several nodes. */
struct query {
	struct cl_inventory *inventory;
	bool is_current; /* a machine that is not listed is absent */
	struct look *look;
	struct arena scratch;
};

/* machine NULL: none has that id or name. It is absent only if the file, as it is now, does not
 * list it. */
static void
answer_absent(struct query *query, size_t i, const struct cl_machine *machine, struct str what)
{
	if (!machine && query->inventory->schema.cloud.unknown_machines == CL_UNKNOWN_ERROR)
		look_set_error(query->look, i, PRESENCE_UNKNOWN, ERR_INVALID,
		               arena_printf(&query->scratch, "machine %s is not in the inventory",
		                            quote_z(&query->scratch, what)));
	else if (!query->is_current)
		look_set_error(
			query->look, i, PRESENCE_UNKNOWN, ERR_UNAVAILABLE,
			arena_printf(
				&query->scratch,
				"machine %s is not in the inventory as loaded, but the file has changed since and is not accepted yet",
				quote_z(&query->scratch, what)));
	else
		query->look->instances[i] = (struct instance){ .presence = PRESENCE_ABSENT,
			                                       .error = STR_EMPTY };
}

static struct instance
instance_of(const struct cl_machine *machine)
{
	return (struct instance){
		.presence = PRESENCE_PRESENT,
		.power = machine->power == CL_POWER_ON ? POWER_ON : POWER_OFF,
		.error = STR_EMPTY,
		.provider_id = cl_machine_provider_id(machine),
		.type = machine->type,
		.zone = machine->zone,
		.region = machine->region,
		.addresses = machine->addresses,
		.n_addresses = machine->n_addresses,
		.labels = machine->labels,
		.n_labels = machine->n_labels,
	};
}

static void
answer(struct query *query, size_t i, const struct cl_machine *machine, struct str id_or_name)
{
	struct str what = machine ? machine->id : id_or_name;

	if (machine && machine->fault.len > 0)
		look_set_error(query->look, i, PRESENCE_UNKNOWN, ERR_UNAVAILABLE, machine->fault);
	else if (machine && machine->power == CL_POWER_UNKNOWN)
		look_set_error(query->look, i, PRESENCE_UNKNOWN, ERR_UNAVAILABLE,
		               arena_printf(&query->scratch, "machine %s: power state unknown",
		                            quote_z(&query->scratch, what)));
	else if (cl_machine_is_there(machine))
		query->look->instances[i] = instance_of(machine);
	else
		answer_absent(query, i, machine, what);
}

/* Does the ID belong to another cloud? A kubelet may have been given a bare id, without
 * "cloudlycke://". */
static bool
is_foreign(struct str provider_id)
{
	return !str_starts(provider_id, STR(CL_PROVIDER_ID_PREFIX)) &&
	       str_contains(provider_id, STR("://"));
}

static bool
can_find(struct cloud *cloud, struct str provider_id, unsigned *ret_realm)
{
	(void)cloud;
	*ret_realm = 0;
	return !is_foreign(provider_id) && cl_machine_id(provider_id).len > 0;
}

static void
look_for(struct query *query, size_t i, const struct node_ref *ref)
{
	CLEANUP(buf_fini) struct buf ids = BUF_INIT(ERR_MSG_SIZE);
	struct str provider_id = ref->provider_id, id = cl_machine_id(provider_id);
	const struct cl_machine *machine;

	if (provider_id.len == 0) {
		if (cl_inventory_by_name(query->inventory, ref->name, &machine, &ids))
			answer(query, i, machine, ref->name);
		else
			look_set_error(query->look, i, PRESENCE_UNKNOWN, ERR_INVALID,
			               arena_printf(&query->scratch,
			                            "node %s matches several machines: %s",
			                            quote_z(&query->scratch, ref->name), ids.ptr));
	} else if (is_foreign(provider_id)) {
		look_set_error(query->look, i, PRESENCE_FOREIGN, ERR_INVALID,
		               arena_printf(&query->scratch,
		                            "providerID %s is not a cloudlycke:// id",
		                            quote_z(&query->scratch, provider_id)));
	} else if (id.len == 0) {
		look_set_error(query->look, i, PRESENCE_UNKNOWN, ERR_INVALID,
		               arena_printf(&query->scratch, "providerID %s has no machine id",
		                            quote_z(&query->scratch, provider_id)));
	} else {
		answer(query, i, map_get(&query->inventory->names.by_id, id), id);
	}
}

/* ---- a look ---- */

static void
release_inventory(void *inventory)
{
	cl_inventory_unref(inventory);
}

static bool
look(struct cloud *cloud, struct call *call, const struct node_ref refs[], size_t n,
     int64_t not_before_boot_ns, struct look **ret, struct error *err)
{
	struct cloudlycke *cl = cloudlycke_of(cloud);
	/* begun before the first read: see cloud/cloud.h */
	struct query query = { .look = look_new(n, clock_boot(call->clock)) };
	int64_t deadline_ns = clock_deadline(clock_mono(call->clock), RELOAD_WAIT_NS);
	bool is_read = true, is_current;

	(void)not_before_boot_ns;
	(void)err;
	/* A changed file is read first. The watcher reads it, because only the watcher knows
	 * whether it is still being written. */
	if (cl->is_watched && cl_loader_has_changed(cl->loader)) {
		cl_watcher_request(cl->watcher, CL_WATCHER_CHECK);
		is_read = cl_loader_wait(cl->loader, call,
		                         clock_earlier(deadline_ns, call->deadline_mono_ns));
	}
	query.inventory = cl_loader_inventory(cl->loader, &is_current);
	query.is_current = is_read && is_current;
	/* The look holds the reference to the inventory, so its instances can point into it instead
	 * of copying. */
	query.look->owner = query.inventory;
	query.look->release = release_inventory;
	for (size_t i = 0; i < n; i++)
		look_for(&query, i, &refs[i]);
	arena_fini(&query.scratch);
	*ret = query.look;
	return true;
}

/* The inventory may be replaced, so its texts are copied. */
static bool
list_machines(struct cloud *cloud, struct call *call, struct machine_list *ret, struct error *err)
{
	CLEANUP(cl_inventory_unrefp)
	struct cl_inventory *inventory = cl_loader_inventory(cloudlycke_of(cloud)->loader, NULL);

	(void)err;
	for (size_t i = 0; i < inventory->schema.n_machines; i++) {
		const struct cl_machine *from = &inventory->schema.machines[i];
		struct address *addresses = arena_calloc(call->arena, from->n_addresses,
		                                         sizeof(*addresses));

		if (!cl_machine_is_there(from))
			continue;
		for (size_t k = 0; k < from->n_addresses; k++)
			addresses[k] = (struct address){
				arena_str(call->arena, from->addresses[k].type),
				arena_str(call->arena, from->addresses[k].address)
			};
		*machine_list_add(ret) = (struct machine){
			.name = arena_str(call->arena, from->name),
			.instance = { .provider_id = arena_str(call->arena,
			                                       cl_machine_provider_id(from)),
			              .addresses = addresses,
			              .n_addresses = from->n_addresses },
		};
	}
	return true;
}

static void
reload(struct cloud *cloud)
{
	cl_watcher_request(cloudlycke_of(cloud)->watcher, CL_WATCHER_RELOAD);
}

/* ---- life cycle ---- */

static void
close_cloud(struct cloud *cloud)
{
	struct cloudlycke *cl;

	if (!cloud)
		return;
	cl = cloudlycke_of(cloud);
	cl_watcher_free(cl->watcher);
	cl_haproxy_free(cl->haproxy);
	cl_hook_free(cl->balancer_hook);
	cl_routes_close(cl->routes);
	cl_state_free(cl->state);
	cl_loader_free(cl->loader);
	arena_fini(&cl->arena);
	free(cl);
}

DEFINE_CLEANUP(struct cloud, close_cloud)

/* The folder is watched before the file is read, so that no change between the two is missed. */
static bool
load(const struct cloud_config *config, struct cloud **ret, struct error *err)
{
	CLEANUP(close_cloudp) struct cloud *cloud = NULL;
	CLEANUP(cl_inventory_unrefp) struct cl_inventory *inventory = NULL;
	struct str state_file, haproxy_file;
	struct cloud_needs *needs;
	struct cloudlycke *cl;

	if (!config->path || !config->path[0])
		return err_set(
			err, ERR_INVALID,
			"cloudlycke: --cloud-config is required: an inventory file with apiVersion: cloudlycke.io/v1alpha1, kind: Inventory and a list of machines");
	cl = xcalloc(1, sizeof(*cl));
	cloud = &cl->cloud;
	cloud->ops = &cloudlycke_cloud;
	cl->config = *config;
	cl->loader = cl_loader_new(config->path);
	cl->watcher = cl_watcher_new(cl->loader);
	if (!cl_loader_open(cl->loader, config->clock, err))
		return false;

	inventory = cl_loader_inventory(cl->loader, NULL);
	needs = &cloud->needs;
	state_file = arena_str(&cl->arena, inventory->schema.state.file);
	haproxy_file = arena_str(&cl->arena, inventory->schema.balancers.haproxy.file);
	if (config->is_read_only) {
		if (state_file.len > 0)
			needs->reads[needs->n_reads++] = state_file;
		if (haproxy_file.len > 0) {
			needs->reads_are_public[needs->n_reads] = true; /* HAProxy reads it, too */
			needs->reads[needs->n_reads++] = haproxy_file;
		}
	} else {
		needs->runs_programs = inventory->schema.balancers.hook.len > 0 ||
		                       inventory->schema.balancers.haproxy.is_present ||
		                       inventory->schema.routes.hook.len > 0;
		if (state_file.len > 0)
			needs->writes[needs->n_writes++] = state_file;
	}
	*ret = TAKE(cloud);
	return true;
}

static bool
start(struct cloud *cloud, const struct cloud_host *host, struct error *err)
{
	struct cloudlycke *cl = cloudlycke_of(cloud);
	CLEANUP(cl_inventory_unrefp)
	struct cl_inventory *inventory = cl_loader_inventory(cl->loader, NULL);
	const struct cl_schema *schema = &inventory->schema;
	enum cl_state_use use = CL_STATE_NOW;

	cl_loader_set_host(cl->loader, host);
	/* With an election only the leader may use the state file, so it is taken later, with the
	 * first Services or routes. */
	if (cl->config.is_read_only)
		use = CL_STATE_READ_ONLY;
	else if (cl->config.has_election)
		use = CL_STATE_LATER;
	if ((schema->balancers.is_present || schema->routes.is_present) &&
	    !cl_state_open(schema, use, host, &cl->state, err))
		return false;
	if (!cl_balancers_open(cl, &schema->balancers, host, err))
		return false;
	cl_routes_open(cl, &schema->routes, host);
	cl->is_watched = schema->reload.is_enabled;
	cl_watcher_start(cl->watcher, &schema->reload);
	/* Returns the memory that parsing took. Not in load(), because it starts a thread. */
	thread_trim();
	return true;
}

/* No provider_id_prefix: a kubelet may have been given a bare id, and nodes of other clouds are
 * targets of load balancers, since these lead to addresses. look() is not made by cloud/look.c from
 * a list, because the inventory is in memory, indexed, and its texts need not be copied. */
const struct cloud_ops cloudlycke_cloud = {
	.name = "cloudlycke",
	.load = load,
	.start = start,
	.close = close_cloud,
	.look = look,
	.list_machines = list_machines,
	.can_find = can_find,
	.reload = reload,
};
