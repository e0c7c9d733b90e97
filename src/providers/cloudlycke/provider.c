/* provider.c: machines without a cloud API, described in one inventory file.
 *
 * The provider to copy for a cloud of your own (docs/adding-a-cloud.md): load() reads the
 * inventory, start() begins to watch it, look() answers for nodes, and the table is last.
 */
#include "base/alloc.h"
#include "base/limits.h"
#include "base/quote.h"
#include "cloud/host.h"
#include "providers/cloudlycke/balancers.h"
#include "providers/cloudlycke/cloudlycke.h"
#include "providers/cloudlycke/routes.h"
#include "providers/cloudlycke/watcher.h"

#define SETTLE_NS (2 * NS_PER_SEC) /* longest wait of a look for a file that is being changed */

extern const struct cloud_ops cloudlycke_cloud;

/* ---- finding a machine ---- */

/* One node's question and what is needed to answer it. */
struct asking {
	const struct cl_inventory *inventory;
	bool is_current; /* not being listed proves something */
	struct look *look;
	struct arena scratch;
};

static void
answer_error(struct asking *ask, size_t i, enum err_code code, struct str text)
{
	look_set_error(ask->look, i, PRESENCE_UNKNOWN, code, text);
}

/* `machine "x": power state unknown` and the like. */
static void
answer_about(struct asking *ask, size_t i, enum err_code code, const char *before, struct str what,
             const char *after)
{
	answer_error(ask, i, code,
	             arena_printf(&ask->scratch, "%s %s%s", before, quote_z(&ask->scratch, what),
	                          after));
}

/* It is an answer only if the file says so now. */
static void
answer_absent(struct asking *ask, size_t i, struct str what)
{
	if (!ask->is_current) {
		answer_about(
			ask, i, ERR_UNAVAILABLE, "machine", what,
			" is not in the inventory as loaded, but the file has changed since and is not accepted yet");
		return;
	}
	ask->look->instances[i].presence = PRESENCE_ABSENT;
	ask->look->instances[i].error_code = ERR_NONE;
	ask->look->instances[i].error = STR_EMPTY;
}

static void
answer_not_listed(struct asking *ask, size_t i, struct str what)
{
	if (ask->inventory->schema.cloud.unknown_machines == CL_UNKNOWN_ERROR)
		answer_about(ask, i, ERR_INVALID, "machine", what, " is not in the inventory");
	else
		answer_absent(ask, i, what);
}

static void
answer_present(struct asking *ask, size_t i, const struct cl_machine *machine)
{
	ask->look->instances[i] = (struct instance){
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
answer(struct asking *ask, size_t i, const struct cl_machine *machine)
{
	if (machine->fault.len > 0)
		answer_error(ask, i, ERR_UNAVAILABLE, machine->fault);
	else if (machine->power == CL_POWER_UNKNOWN)
		answer_about(ask, i, ERR_UNAVAILABLE, "machine", machine->id,
		             ": power state unknown");
	else if (machine->power == CL_POWER_TERMINATED)
		answer_absent(ask, i, machine->id);
	else
		answer_present(ask, i, machine);
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
look_by_id(struct asking *ask, size_t i, struct str provider_id)
{
	const struct cl_machine *machine;
	struct str id;

	if (!parse_provider_id(provider_id, &id)) {
		look_set_error(ask->look, i, PRESENCE_FOREIGN, ERR_INVALID,
		               arena_printf(&ask->scratch,
		                            "providerID %s is not a cloudlycke:// id",
		                            quote_z(&ask->scratch, provider_id)));
		return;
	}
	if (id.len == 0) {
		answer_about(ask, i, ERR_INVALID, "providerID", provider_id, " has no machine id");
		return;
	}
	machine = cl_inventory_by_id(ask->inventory, id);
	if (machine)
		answer(ask, i, machine);
	else
		answer_not_listed(ask, i, id);
}

static void
look_by_name(struct asking *ask, size_t i, struct str name)
{
	CLEANUP(buf_fini) struct buf ids = BUF_INIT(ERR_MSG_SIZE);
	const struct cl_machine *machine;

	if (!cl_inventory_by_name(ask->inventory, name, &machine, &ids))
		answer_error(ask, i, ERR_INVALID,
		             arena_printf(&ask->scratch, "node %s matches several machines: %s",
		                          quote_z(&ask->scratch, name), ids.ptr));
	else if (machine)
		answer(ask, i, machine);
	else
		answer_not_listed(ask, i, name);
}

/* ---- a look ---- */

/* Answers must not be older than the question, and memory is as old as the last load: when the file
 * looks other than it did then, have it loaded first. Not here: only the watcher knows whether it
 * is still being written. */
static bool
settle(struct cloudlycke *cl, struct call *call)
{
	int64_t deadline_ns;

	if (!cl->is_watched || !cl_loader_has_changed(cl->loader))
		return true;
	deadline_ns = clock_deadline(clock_mono(call->clock), SETTLE_NS);
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

/* The instances point into the inventory, which the look keeps: nothing is copied. */
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
	int64_t started_boot_ns =
		clock_boot(call->clock); /* what follows is seen no earlier than asked for */
	bool is_settled = settle(cl, call), is_current;
	struct cl_inventory *inventory = cl_loader_inventory(cl->loader, &is_current);
	struct asking ask = {
		.inventory = inventory,
		.is_current = is_settled && is_current,
		.look = look_new_at(inventory, n, started_boot_ns),
	};

	(void)not_before_boot_ns;
	(void)err;
	for (size_t i = 0; i < n; i++) {
		if (refs[i].provider_id.len > 0)
			look_by_id(&ask, i, refs[i].provider_id);
		else
			look_by_name(&ask, i, refs[i].name);
	}
	arena_fini(&ask.scratch);
	*ret = ask.look;
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
set_needs(struct cloudlycke *cl)
{
	CLEANUP(cl_inventory_unrefp) struct cl_inventory *inventory = NULL;
	struct cloud_needs *needs = &cl->cloud.needs;
	const struct cl_schema *schema;
	bool is_current;

	inventory = cl_loader_inventory(cl->loader, &is_current);
	schema = &inventory->schema;
	needs->runs_programs = schema->balancers.hook.len > 0 ||
	                       schema->balancers.haproxy.is_present || schema->routes.hook.len > 0;
	if (schema->state.file.len > 0)
		needs->writes[needs->n_writes++] = arena_str(&cl->arena, schema->state.file);
}

/* The folder is watched before the file is read, so that no change falls between. */
static bool
load(const struct cloud_config *config, struct cloud **ret, struct error *err)
{
	CLEANUP(close_cloudp) struct cloud *cloud = NULL;
	struct cloudlycke *cl;

	if (!config->path || !config->path[0])
		return err_set(
			err, ERR_INVALID,
			"cloudlycke: --cloud-config is required (an inventory file); see the example inventory");
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

/* With an election the state file is for the leader: it is taken with the first Services or
 * routes. */
static bool
open_parts(struct cloudlycke *cl, const struct cl_schema *schema, const struct cloud_host *host,
           struct error *err)
{
	if (!schema->balancers.is_present && !schema->routes.is_present)
		return true;
	if (!cl_state_open(schema->state.file, /*is_alone=*/!cl->config.has_election, host,
	                   &cl->state, err) ||
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
	alloc_trim(); /* of what parsing the inventory took; not in load(), since it starts a thread
	               */
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
