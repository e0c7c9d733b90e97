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
	struct cl_state *state;
	struct cl_hook *hook;       /* NULL: none */
	struct cl_haproxy *haproxy; /* NULL: none */
};

/* ---- life cycle ---- */

bool
cl_balancers_open(const struct cloud_config *config, const struct cloud_host *host,
                  struct cl_loader *loader, struct cl_state *state, struct cl_balancers_run **ret,
                  struct error *err)
{
	CLEANUP(cl_inventory_unrefp) struct cl_inventory *inventory = NULL;
	const struct cl_balancers *balancers;
	struct cl_balancers_run *run;
	bool is_current;

	inventory = cl_loader_inventory(loader, &is_current);
	balancers = &inventory->schema.balancers;
	*ret = NULL;
	if (!balancers->is_present)
		return true;
	/* HAProxy runs on the same host as ccmd, so another leader would serve the addresses on
	 * another host. */
	if (balancers->haproxy.is_present && !balancers->is_local_only && config->has_election)
		return err_set(
			err, ERR_UNSUPPORTED,
			"cloudlycke: loadBalancers.haproxy acts on the host that ccmd runs on: run one replica "
			"with --leader-elect=false there, or set loadBalancers.localOnly: true");
	run = xcalloc(1, sizeof(*run));
	run->loader = loader;
	run->state = state;
	if (balancers->hook.len > 0)
		run->hook = cl_hook_new(balancers->hook, balancers->hook_timeout_ns,
		                        "load balancer", host);
	if (balancers->haproxy.is_present)
		run->haproxy = cl_haproxy_new(balancers, state, host);
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
	free(run);
}

/* ---- hook and HAProxy ---- */

static bool
run_hook(struct cl_balancers_run *run, struct call *call, const char *action,
         const struct cl_record *record, struct error *err)
{
	CLEANUP(buf_fini) struct buf input = BUF_INIT(LIMIT_STATE_FILE);

	cl_record_hook_input(&input, record, action);
	if (!buf_ok(&input))
		return err_set(err, ERR_INTERNAL, "load balancer hook failed: too many nodes");
	return cl_hook_run(run->hook, call, action, buf_str(&input), err);
}

/* The hook counts as run for a generation only after it succeeded; a failure is recorded for the
 * next attempt. */
static bool
apply_record(struct cl_balancers_run *run, struct call *call, const struct cl_record *record,
             struct error *err)
{
	struct error ignored;

	if (run->hook && cl_record_needs_hook(record)) {
		if (!run_hook(run, call, "ensure", record, err)) {
			if (err->code != ERR_CANCELLED &&
			    !cl_state_set_hook_result(run->state, record, str_c(err->msg),
			                              &ignored))
				log_debug(
					"the hook's failure cannot be written to the state file, ignoring",
					LOG_ERR(&ignored));
			return false;
		}
		if (!cl_state_set_hook_result(run->state, record, STR_EMPTY, err))
			return false;
	}
	return !run->haproxy || cl_haproxy_apply(run->haproxy, call, err);
}

static void
status_of(const struct cl_record *record, struct arena *arena, struct lb_status *ret)
{
	const struct cl_addresses *addresses = &record->values.allocation.addresses;
	struct lb_ingress *ingress = arena_calloc(arena, addresses->n, sizeof(*ingress));

	for (size_t i = 0; i < addresses->n; i++)
		ingress[i] = (struct lb_ingress){
			.ip = str_c(cl_ip_text(&addresses->items[i], arena)),
			.hostname = arena_str(arena, record->values.hostname),
			.ip_mode = record->values.ip_mode == CL_IP_MODE_PROXY ? LB_IP_MODE_PROXY
			                                                      : LB_IP_MODE_VIP,
		};
	*ret = (struct lb_status){ ingress, addresses->n };
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
	struct cl_addresses before;
	bool is_noted;

	if (!cl_state_foresee(run->state, request, spec, call->arena, &before, &record, err))
		return false;
	cl_dry_note_addresses(call, &before, record);
	if (run->hook && cl_record_needs_hook(record))
		cl_dry_note_hook(call, record->values.hook.generation > 1 ? DRY_CHANGE : DRY_CREATE,
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
	record = cl_state_get(run->state, spec->uid);
	if (!record)
		return true;
	*ret_found = true;
	if (run->hook)
		cl_dry_note_hook(call, DRY_DELETE, config->hook, "delete", record);
	cl_dry_note_addresses(call, &record->values.allocation.addresses, NULL);
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
	return cl_state_adopt(run->state, &inventory->schema, specs, n, call->arena, err);
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
	    (run->haproxy && !cl_haproxy_accepts(&request.values.allocation, err)))
		return false;
	if (call->dry) {
		*ret = LB_DONE;
		return note_ensure(run, &inventory->schema, call, spec, &request, ret_status, err);
	}
	if (!cl_state_allocate(run->state, &request, spec->nodes, spec->n_nodes, call->arena,
	                       &record, err) ||
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
	       (!run->haproxy || cl_haproxy_accepts(&request.values.allocation, err));
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
	if (!cl_state_set_nodes(run->state, spec->uid, spec->nodes, spec->n_nodes, &record, err)) {
		if (err->code == ERR_NOT_FOUND)
			(void)err_wrap(err, "load balancer \"%" STR_FMT "\" not found",
			               STR_ARG(spec->name));
		return false;
	}
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
	if (!cl_state_mark_deleting(run->state, spec->uid, &record, err))
		return false;
	*ret_found = record != NULL;
	if (!record)
		return true;
	if (run->haproxy && !cl_haproxy_apply(run->haproxy, call, err))
		return false;
	if (run->hook && !run_hook(run, call, "delete", record, err))
		return false;
	return cl_state_remove(run->state, spec->uid, err);
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
list_records(struct cl_state *state, struct call *call, struct lb_listed **ret, size_t *ret_n)
{
	struct cl_record **records;
	uint64_t ignored;

	records = cl_state_list(state, ret_n, &ignored);
	*ret = arena_calloc(call->arena, *ret_n + 1, sizeof((*ret)[0]));
	for (size_t i = 0; i < *ret_n; i++) {
		const struct cl_allocation *a = &records[i]->values.allocation;
		struct str *addresses = arena_calloc(call->arena, CL_FAMILIES, sizeof(*addresses));

		for (size_t k = 0; k < a->addresses.n; k++)
			addresses[k] = str_c(cl_ip_text(&a->addresses.items[k], call->arena));
		(*ret)[i] = (struct lb_listed){
			.what = "load balancer",
			.is_balancer = true,
			.id = arena_str(call->arena, records[i]->values.name),
			.uid = arena_str(call->arena, a->uid),
			.service = STR_EMPTY,
			.cluster = STR_EMPTY,
			.cost = STR_EMPTY,
			.addresses = addresses,
			.n_addresses = a->addresses.n,
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
	list_records(cl->state, call, ret, ret_n);
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
