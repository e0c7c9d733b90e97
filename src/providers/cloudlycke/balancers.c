/* balancers.c: see balancers.h.
 *
 * ensure: addresses are allocated and written to the state file, with a new generation where the
 * hook has to run; the hook runs; its result is written; HAProxy's file is written and loaded.
 * remove: HAProxy first, then the hook's `delete`; only then is the entry in the file removed,
 * which frees the addresses. Each step may be run twice, so a process that ends between two of them
 * does no harm: the next attempt, or the next start, begins with the first.
 */
#include "providers/cloudlycke/balancers.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "providers/cloudlycke/cloudlycke.h"
#include "providers/cloudlycke/dry.h"
#include "providers/cloudlycke/haproxy.h"
#include "providers/cloudlycke/hook.h"

struct cl_balancers_run {
	struct cl_loader *loader;
	struct cl_allocations *allocations;
	struct cl_hook *hook;       /* NULL: none */
	struct cl_haproxy *haproxy; /* NULL: none */
};

/* ---- life cycle ---- */

/* HAProxy runs on the same host as ccmd, so another leader would serve the addresses on another
 * host. */
static bool
check_place(const struct cl_balancers *config, const struct cloud_config *cloud, struct error *err)
{
	if (!config->haproxy.is_present || config->is_local_only || !cloud->has_election)
		return true;
	return err_set(
		err, ERR_UNSUPPORTED,
		"cloudlycke: loadBalancers.haproxy acts on the host that ccmd runs on: run one replica "
		"with --leader-elect=false there, or set loadBalancers.localOnly: true");
}

static bool
open_run(const struct cl_balancers *config, const struct cloud_config *cloud,
         const struct cloud_host *host, struct cl_state *state, struct cl_balancers_run *run,
         struct error *err)
{
	if (!check_place(config, cloud, err))
		return false;
	run->allocations = cl_allocations_new(state, config->hook.len > 0,
	                                      config->haproxy.is_present, host);
	if (config->hook.len > 0)
		run->hook = cl_hook_new(config->hook, config->hook_timeout_ns, "load balancer",
		                        host);
	if (config->haproxy.is_present)
		run->haproxy = cl_haproxy_new(config, run->allocations, host);
	return true;
}

bool
cl_balancers_open(const struct cloud_config *config, const struct cloud_host *host,
                  struct cl_loader *loader, struct cl_state *state, struct cl_balancers_run **ret,
                  struct error *err)
{
	CLEANUP(cl_inventory_unrefp) struct cl_inventory *inventory = NULL;
	struct cl_balancers_run *run;
	bool is_current;

	inventory = cl_loader_inventory(loader, &is_current);
	*ret = NULL;
	if (!inventory->schema.balancers.is_present)
		return true;
	run = xcalloc(1, sizeof(*run));
	run->loader = loader;
	if (!open_run(&inventory->schema.balancers, config, host, state, run, err)) {
		cl_balancers_close(run);
		return false;
	}
	*ret = run;
	return true;
}

void
cl_balancers_close(struct cl_balancers_run *run)
{
	if (!run)
		return;
	cl_haproxy_free(run->haproxy);
	cl_hook_free(run->hook);
	cl_allocations_free(run->allocations);
	free(run);
}

/* ---- hook and HAProxy ---- */

/* The hook counts as run for a generation only after it succeeded; a failure is recorded for the
 * next attempt. */
static bool
run_hook(struct cl_balancers_run *run, struct call *call, const struct cl_record *record,
         struct error *err)
{
	struct error ignored;
	bool is_done;

	if (!run->hook || !cl_record_needs_hook(record))
		return true;
	is_done = cl_hook_run(run->hook, call, "ensure", record, err);
	if (is_done)
		return cl_allocations_set_hook_result(run->allocations, record, STR_EMPTY, err);
	if (err->code != ERR_CANCELLED &&
	    !cl_allocations_set_hook_result(run->allocations, record, str_c(err->msg), &ignored))
		log_debug("the hook's failure cannot be written to the state file, ignoring",
		          LOG_ERR(&ignored));
	return false;
}

static bool
apply_record(struct cl_balancers_run *run, struct call *call, const struct cl_record *record,
             struct error *err)
{
	return run_hook(run, call, record, err) &&
	       (!run->haproxy || cl_haproxy_apply(run->haproxy, call, err));
}

static void
status_of(const struct cl_record *record, struct arena *arena, struct lb_status *ret)
{
	size_t n = record->holding.n_addresses;
	struct lb_ingress *ingress = arena_calloc(arena, n, sizeof(*ingress));

	for (size_t i = 0; i < n; i++)
		ingress[i] = (struct lb_ingress){
			.ip = str_c(cl_ip_text(&record->holding.addresses[i], arena)),
			.hostname = arena_str(arena, record->hostname),
			.ip_mode = record->ip_mode == CL_IP_MODE_PROXY ? LB_IP_MODE_PROXY
			                                               : LB_IP_MODE_VIP,
		};
	*ret = (struct lb_status){ ingress, n };
}

/* ---- a dry run ---- */

/* The same steps as those of ensure, with notes in place of changes. */
static bool
note_ensure(struct cl_balancers_run *run, const struct cl_schema *schema, struct call *call,
            const struct lb_spec *spec, const struct cl_request *request,
            struct lb_status *ret_status, struct error *err)
{
	const struct cl_balancers *config = &schema->balancers;
	CLEANUP(cl_record_unrefp) struct cl_record *record = NULL;
	struct cl_grant before;
	bool is_noted;

	if (!cl_allocations_foresee(run->allocations, request, spec, call->arena, &before, &record,
	                            err))
		return false;
	cl_dry_note_addresses(call, before.addresses, before.n_addresses, record);
	if (run->hook && cl_record_needs_hook(record))
		cl_dry_note_hook(call, record->hook.generation > 1 ? DRY_CHANGE : DRY_CREATE,
		                 config->hook, "ensure", record);
	status_of(record, call->arena, ret_status);
	return !run->haproxy ||
	       cl_dry_note_haproxy(call, &config->haproxy, spec->name, record, &is_noted, err);
}

static bool
note_removal(struct cl_balancers_run *run, const struct cl_schema *schema, struct call *call,
             const struct lb_spec *spec, bool *ret_found, struct error *err)
{
	const struct cl_balancers *config = &schema->balancers;
	CLEANUP(cl_record_unrefp) struct cl_record *record = NULL;

	*ret_found = false;
	if (run->haproxy &&
	    !cl_dry_note_haproxy(call, &config->haproxy, spec->name, NULL, ret_found, err))
		return false;
	record = cl_allocations_get(run->allocations, spec->uid);
	if (!record)
		return true;
	*ret_found = true;
	if (run->hook)
		cl_dry_note_hook(call, DRY_DELETE, config->hook, "delete", record);
	cl_dry_note_addresses(call, record->holding.addresses, record->holding.n_addresses, NULL);
	return true;
}

/* ---- what the controller calls ---- */

static bool
cl_balancers_adopt(struct cloud *cloud, struct call *call, const struct lb_spec *const specs[],
                   size_t n, struct error *err)
{
	struct cl_balancers_run *run = cloudlycke_of(cloud)->balancers;
	CLEANUP(cl_inventory_unrefp) struct cl_inventory *inventory = NULL;
	bool is_current;

	inventory = cl_loader_inventory(run->loader, &is_current);
	return cl_allocations_adopt(run->allocations, &inventory->schema, specs, n, call->arena,
	                            err);
}

static bool
cl_balancers_ensure(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
                    enum lb_outcome *ret, struct lb_status *ret_status, struct error *err)
{
	struct cl_balancers_run *run = cloudlycke_of(cloud)->balancers;
	CLEANUP(cl_inventory_unrefp) struct cl_inventory *inventory = NULL;
	CLEANUP(cl_record_unrefp) struct cl_record *record = NULL;
	struct cl_request request;
	bool is_current;

	inventory = cl_loader_inventory(run->loader, &is_current);
	if (!cl_request_read(&inventory->schema, spec, call->arena, &request, err) ||
	    (run->haproxy && !cl_haproxy_accepts(&request.draft, err)))
		return false;
	if (call->dry) {
		*ret = LB_DONE;
		return note_ensure(run, &inventory->schema, call, spec, &request, ret_status, err);
	}
	if (!cl_allocations_ensure(run->allocations, &request, spec->nodes, spec->n_nodes,
	                           call->arena, &record, err) ||
	    !apply_record(run, call, record, err))
		return false;
	status_of(record, call->arena, ret_status);
	*ret = LB_DONE;
	return true;
}

static bool
cl_balancers_check(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
                   struct error *err)
{
	struct cl_balancers_run *run = cloudlycke_of(cloud)->balancers;
	CLEANUP(cl_inventory_unrefp) struct cl_inventory *inventory = NULL;
	struct cl_request request;
	bool is_current;

	inventory = cl_loader_inventory(run->loader, &is_current);
	return cl_request_read(&inventory->schema, spec, call->arena, &request, err) &&
	       (!run->haproxy || cl_haproxy_accepts(&request.draft, err));
}

static bool
cl_balancers_update(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
                    struct error *err)
{
	struct cl_balancers_run *run = cloudlycke_of(cloud)->balancers;
	CLEANUP(cl_record_unrefp) struct cl_record *record = NULL;
	struct lb_status ignored;
	enum lb_outcome outcome;

	if (call->dry)
		return cl_balancers_ensure(cloud, call, spec, &outcome, &ignored, err);
	if (!cl_allocations_retarget(run->allocations, spec->uid, spec->nodes, spec->n_nodes,
	                             &record, err))
		return err->code == ERR_NOT_FOUND
		               ? err_wrap(err, "load balancer \"%" STR_FMT "\" not found",
		                          STR_ARG(spec->name))
		               : false;
	return apply_record(run, call, record, err);
}

/* The addresses are freed only when HAProxy and the hook no longer use them. */
static bool
cl_balancers_remove(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
                    bool *ret_found, struct error *err)
{
	struct cl_balancers_run *run = cloudlycke_of(cloud)->balancers;
	CLEANUP(cl_inventory_unrefp) struct cl_inventory *inventory = NULL;
	CLEANUP(cl_record_unrefp) struct cl_record *record = NULL;
	bool is_current;

	inventory = cl_loader_inventory(run->loader, &is_current);
	if (call->dry)
		return note_removal(run, &inventory->schema, call, spec, ret_found, err);
	if (!cl_allocations_mark_deleting(run->allocations, spec->uid, &record, err))
		return false;
	*ret_found = record != NULL;
	if (!record)
		return true;
	return (!run->haproxy || cl_haproxy_apply(run->haproxy, call, err)) &&
	       (!run->hook || cl_hook_run(run->hook, call, "delete", record, err)) &&
	       cl_allocations_remove(run->allocations, spec->uid, err);
}

/* ---- for commands that change nothing ---- */

static bool
list_haproxy(const struct cl_haproxy_config *config, struct call *call, struct lb_listed **ret,
             size_t *ret_n, struct error *err)
{
	CLEANUP(buf_fini) struct buf file = BUF_INIT(LIMIT_HAPROXY_FILE);

	if (!file_read(arena_strz(call->arena, config->file), &file, err) &&
	    err->code != ERR_NOT_FOUND)
		return err_wrap(err, "HAProxy's configuration");
	cl_haproxy_list(buf_str(&file), call->arena, ret, ret_n);
	return true;
}

/* The nodes of a balancer are not in the state file. */
static void
list_records(struct cl_allocations *allocations, struct call *call, struct lb_listed **ret,
             size_t *ret_n)
{
	struct cl_record **records;
	uint64_t ignored;

	records = cl_allocations_list(allocations, ret_n, &ignored);
	*ret = arena_calloc(call->arena, *ret_n + 1, sizeof((*ret)[0]));
	for (size_t i = 0; i < *ret_n; i++) {
		const struct cl_holding *h = &records[i]->holding;
		struct str *addresses = arena_calloc(call->arena, CL_FAMILIES, sizeof(*addresses));

		for (size_t k = 0; k < h->n_addresses; k++)
			addresses[k] = str_c(cl_ip_text(&h->addresses[k], call->arena));
		(*ret)[i] = (struct lb_listed){
			.what = "load balancer",
			.is_balancer = true,
			.id = arena_str(call->arena, records[i]->name),
			.uid = arena_str(call->arena, h->uid),
			.service = STR_EMPTY,
			.cluster = STR_EMPTY,
			.cost = STR_EMPTY,
			.addresses = addresses,
			.n_addresses = h->n_addresses,
		};
	}
	cl_records_free(records, *ret_n);
}

/* What HAProxy is configured to do; without HAProxy, what the state file has for the hook. */
static bool
cl_balancers_list_local(struct cloud *cloud, struct call *call, struct lb_listed **ret,
                        size_t *ret_n, struct error *err)
{
	struct cloudlycke *cl = cloudlycke_of(cloud);
	CLEANUP(cl_inventory_unrefp) struct cl_inventory *inventory = NULL;
	bool is_current;

	inventory = cl_loader_inventory(cl->loader, &is_current);
	if (cl->balancers->haproxy)
		return list_haproxy(&inventory->schema.balancers.haproxy, call, ret, ret_n, err);
	if (inventory->schema.state.file.len == 0)
		return err_set(
			err, ERR_UNSUPPORTED,
			"without state.file, only the leader's memory has the load balancers");
	if (!cl_state_take(cl->state, err))
		return false;
	list_records(cl->balancers->allocations, call, ret, ret_n);
	return true;
}

/* cl_targets_new() leaves nodes without a provider ID out; selects() would be called for every node
 * of every Service instead. */
static const char *const cl_annotations[] = { "pool",           "addresses", "hostname",
	                                      "proxy-protocol", "share",     NULL };

const struct balancer_ops cl_balancer_ops = {
	/* What can be done depends on the inventory: a hook gets everything, and
	 * cl_haproxy_accepts() refuses ports with a text that recommends a hook. */
	.features = {
		LB_PASSES_ALL,
	},
	.uses_addresses = true,
	.ensure = cl_balancers_ensure,
	.update_nodes = cl_balancers_update,
	.remove = cl_balancers_remove,
	.adopt = cl_balancers_adopt,
	.annotation_prefix = CL_ANNOTATION(""),
	.annotations = cl_annotations,
	.check = cl_balancers_check,
	.list_local = cl_balancers_list_local,
};
