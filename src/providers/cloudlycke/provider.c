/* provider.c: machines without a cloud API, described in one inventory file.
 *
 * load() reads the inventory, start() begins to watch the file, and look() answers for nodes. An
 * answer must not be older than its question. So if the file has changed since it was loaded, a
 * lookup first waits until it has been read again. If that takes too long, or if the changed file
 * is not admitted (guard.h), a machine that is not listed is unknown, not absent.
 */
#include "base/alloc.h"
#include "base/limits.h"
#include "base/quote.h"
#include "cloud/host.h"
#include "providers/cloudlycke/balancers.h"
#include "providers/cloudlycke/cloudlycke.h"
#include "providers/cloudlycke/routes.h"
#include "providers/cloudlycke/watcher.h"

#define RELOAD_WAIT_NS (2 * NS_PER_SEC) /* the longest wait of a lookup for a changed file */

extern const struct cloud_ops cloudlycke_cloud;

/* ---- finding a machine ---- */

/* A lookup of several nodes. */
struct query {
	const struct cl_inventory *inventory;
	bool is_current; /* a machine that is not listed is absent */
	struct look *look;
	struct arena scratch;
};

static void
answer_error(struct query *query, size_t i, enum err_code code, struct str text)
{
	look_set_error(query->look, i, PRESENCE_UNKNOWN, code, text);
}

/* `machine "x": power state unknown` and the like. */
static void
answer_about(struct query *query, size_t i, enum err_code code, const char *before, struct str what,
             const char *after)
{
	answer_error(query, i, code,
	             arena_printf(&query->scratch, "%s %s%s", before,
	                          quote_z(&query->scratch, what), after));
}

/* A machine is absent only if the file, as it is now, does not list it. */
static void
answer_absent(struct query *query, size_t i, struct str what)
{
	if (!query->is_current) {
		answer_about(
			query, i, ERR_UNAVAILABLE, "machine", what,
			" is not in the inventory as loaded, but the file has changed since and is not accepted yet");
		return;
	}
	query->look->instances[i].presence = PRESENCE_ABSENT;
	query->look->instances[i].error_code = ERR_NONE;
	query->look->instances[i].error = STR_EMPTY;
}

static void
answer_not_listed(struct query *query, size_t i, struct str what)
{
	if (query->inventory->schema.cloud.unknown_machines == CL_UNKNOWN_ERROR)
		answer_about(query, i, ERR_INVALID, "machine", what, " is not in the inventory");
	else
		answer_absent(query, i, what);
}

static void
answer_present(struct query *query, size_t i, const struct cl_machine *machine)
{
	query->look->instances[i] = (struct instance){
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
answer(struct query *query, size_t i, const struct cl_machine *machine)
{
	if (machine->fault.len > 0)
		answer_error(query, i, ERR_UNAVAILABLE, machine->fault);
	else if (machine->power == CL_POWER_UNKNOWN)
		answer_about(query, i, ERR_UNAVAILABLE, "machine", machine->id,
		             ": power state unknown");
	else if (machine->power == CL_POWER_TERMINATED)
		answer_absent(query, i, machine->id);
	else
		answer_present(query, i, machine);
}

/* A kubelet may have been given a bare id, without "cloudlycke://". False: the id belongs to
 * another cloud. */
static bool
parse_provider_id(struct str provider_id, struct str *ret)
{
	const struct str prefix = STR(CL_PROVIDER_ID_PREFIX);
	bool has_prefix = str_starts(provider_id, prefix);

	*ret = has_prefix ? str_skip(provider_id, prefix.len) : provider_id;
	return has_prefix || !str_contains(provider_id, STR("://"));
}

static bool
can_find(struct cloud *cloud, struct str provider_id, unsigned *ret_realm)
{
	struct str id;

	(void)cloud;
	*ret_realm = 0;
	return parse_provider_id(provider_id, &id) && id.len > 0;
}

static void
look_by_id(struct query *query, size_t i, struct str provider_id)
{
	const struct cl_machine *machine;
	struct str id;

	if (!parse_provider_id(provider_id, &id)) {
		look_set_error(query->look, i, PRESENCE_FOREIGN, ERR_INVALID,
		               arena_printf(&query->scratch,
		                            "providerID %s is not a cloudlycke:// id",
		                            quote_z(&query->scratch, provider_id)));
		return;
	}
	if (id.len == 0) {
		answer_about(query, i, ERR_INVALID, "providerID", provider_id,
		             " has no machine id");
		return;
	}
	machine = cl_inventory_by_id(query->inventory, id);
	if (machine)
		answer(query, i, machine);
	else
		answer_not_listed(query, i, id);
}

static void
look_by_name(struct query *query, size_t i, struct str name)
{
	CLEANUP(buf_fini) struct buf ids = BUF_INIT(ERR_MSG_SIZE);
	const struct cl_machine *machine;

	if (!cl_inventory_by_name(query->inventory, name, &machine, &ids))
		answer_error(query, i, ERR_INVALID,
		             arena_printf(&query->scratch, "node %s matches several machines: %s",
		                          quote_z(&query->scratch, name), ids.ptr));
	else if (machine)
		answer(query, i, machine);
	else
		answer_not_listed(query, i, name);
}

/* ---- a look ---- */

/* Waits until a changed file has been read. The watcher reads it, because only the watcher knows
 * whether it is still being written. False: it was not read in time. */
static bool
wait_for_reload(struct cloudlycke *cl, struct call *call)
{
	int64_t deadline_ns;

	if (!cl->is_watched || !cl_loader_has_changed(cl->loader))
		return true;
	deadline_ns = clock_deadline(clock_mono(call->clock), RELOAD_WAIT_NS);
	if (deadline_ns > call->deadline_mono_ns)
		deadline_ns = call->deadline_mono_ns;
	cl_watcher_check(cl->watcher);
	return cl_loader_wait(cl->loader, call, deadline_ns);
}

static void
release_inventory(void *inventory)
{
	cl_inventory_unref(inventory);
}

/* The look holds a reference to the inventory, so its instances can point into it instead of
 * copying. */
static struct look *
look_new_at(struct cl_inventory *inventory, size_t n, int64_t started_boot_ns)
{
	struct look *look = look_new(n, started_boot_ns);

	look->owner = inventory;
	look->release = release_inventory;
	return look;
}

static bool
look(struct cloud *cloud, struct call *call, const struct node_ref refs[], size_t n,
     int64_t not_before_boot_ns, struct look **ret, struct error *err)
{
	struct cloudlycke *cl = cloudlycke_of(cloud);
	/* before the first read: see cloud/cloud.h */
	int64_t started_boot_ns = clock_boot(call->clock);
	bool is_read = wait_for_reload(cl, call), is_current;
	struct cl_inventory *inventory = cl_loader_inventory(cl->loader, &is_current);
	struct query query = {
		.inventory = inventory,
		.is_current = is_read && is_current,
		.look = look_new_at(inventory, n, started_boot_ns),
	};

	(void)not_before_boot_ns;
	(void)err;
	for (size_t i = 0; i < n; i++) {
		if (refs[i].provider_id.len > 0)
			look_by_id(&query, i, refs[i].provider_id);
		else
			look_by_name(&query, i, refs[i].name);
	}
	arena_fini(&query.scratch);
	*ret = query.look;
	return true;
}

static void
reload(struct cloud *cloud)
{
	cl_watcher_reload(cloudlycke_of(cloud)->watcher);
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
	cl_balancers_close(cl->balancers);
	cl_routes_close(cl->routes);
	cl_state_free(cl->state);
	cl_loader_free(cl->loader);
	arena_fini(&cl->arena);
	free(cl);
}

DEFINE_CLEANUP(struct cloud, close_cloud)

static void
add_read(struct cloudlycke *cl, struct str file)
{
	struct cloud_needs *needs = &cl->cloud.needs;

	if (file.len > 0)
		needs->reads[needs->n_reads++] = arena_str(&cl->arena, file);
}

static void
set_needs(struct cloudlycke *cl)
{
	CLEANUP(cl_inventory_unrefp) struct cl_inventory *inventory = NULL;
	struct cloud_needs *needs = &cl->cloud.needs;
	const struct cl_schema *schema;
	bool is_current;

	inventory = cl_loader_inventory(cl->loader, &is_current);
	schema = &inventory->schema;
	if (cl->config.is_read_only) {
		add_read(cl, schema->state.file);
		add_read(cl, schema->balancers.haproxy.file);
		return;
	}
	needs->runs_programs = schema->balancers.hook.len > 0 ||
	                       schema->balancers.haproxy.is_present || schema->routes.hook.len > 0;
	if (schema->state.file.len > 0)
		needs->writes[needs->n_writes++] = arena_str(&cl->arena, schema->state.file);
}

/* The folder is watched before the file is read, so that no change between the two is missed. */
static bool
load(const struct cloud_config *config, struct cloud **ret, struct error *err)
{
	CLEANUP(close_cloudp) struct cloud *cloud = NULL;
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
	set_needs(cl);
	*ret = TAKE(cloud);
	return true;
}

/* With an election only the leader may use the state file, so it is taken later, with the first
 * Services or routes. */
static bool
open_parts(struct cloudlycke *cl, const struct cl_schema *schema, const struct cloud_host *host,
           struct error *err)
{
	enum cl_state_use use = cl->config.is_read_only   ? CL_STATE_READ_ONLY
	                        : cl->config.has_election ? CL_STATE_LATER
	                                                  : CL_STATE_NOW;

	if (!schema->balancers.is_present && !schema->routes.is_present)
		return true;
	if (!cl_state_open(schema, use, host, &cl->state, err) ||
	    !cl_balancers_open(&cl->config, host, cl->loader, cl->state, &cl->balancers, err))
		return false;
	cl->routes = cl_routes_open(&cl->config, host, cl->loader, cl->state);
	cl->cloud.balancers = cl->balancers ? &cl_balancer_ops : NULL;
	cl->cloud.routes = cl->routes ? &cl_route_ops : NULL;
	return true;
}

static bool
start(struct cloud *cloud, const struct cloud_host *host, struct error *err)
{
	CLEANUP(cl_inventory_unrefp) struct cl_inventory *inventory = NULL;
	struct cloudlycke *cl = cloudlycke_of(cloud);
	bool is_current;

	cl_loader_set_host(cl->loader, host);
	inventory = cl_loader_inventory(cl->loader, &is_current);
	if (!open_parts(cl, &inventory->schema, host, err))
		return false;
	cl->is_watched = inventory->schema.reload.is_enabled;
	cl_watcher_start(cl->watcher, &inventory->schema.reload);
	/* Returns the memory that parsing took. Not in load(), because it starts a thread. */
	alloc_trim();
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
	.can_find = can_find,
	.reload = reload,
};
