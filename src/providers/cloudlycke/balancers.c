/* balancers.c: load balancers of an inventory: addresses from a pool, which a hook, HAProxy, both
 * or neither serve.
 *
 * ensure: addresses are allocated and written to the state file, with a new generation where the
 * hook has to run; the hook runs; its result is written; HAProxy's file is written and loaded.
 * remove: HAProxy first, then the hook's `delete`; only then is the entry in the file removed,
 * which frees the addresses. Each step may be run twice, so a process that ends between two of them
 * does no harm: the next attempt, or the next start, begins with the first.
 */
#include "providers/cloudlycke/cloudlycke.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"

/* ---- hook and HAProxy ---- */

static bool
run_hook(struct cloudlycke *cl, struct call *call, const char *action,
         const struct cl_record *record, struct error *err)
{
	CLEANUP(buf_fini) struct buf input = BUF_INIT(LIMIT_STATE_FILE);

	cl_record_hook_input(&input, record, action);
	if (!buf_ok(&input))
		return err_set(err, ERR_INTERNAL, "load balancer hook failed: too many nodes");
	return cl_hook_run(cl->balancer_hook, call, action, buf_str(&input), err);
}

/* The hook counts as run for a generation only after it succeeded; a failure is recorded for the
 * next attempt. */
static bool
apply_record(struct cloudlycke *cl, struct call *call, const struct cl_record *record,
             struct error *err)
{
	struct error ignored;

	if (cl->balancer_hook && cl_record_needs_hook(record)) {
		if (!run_hook(cl, call, "ensure", record, err)) {
			if (err->code != ERR_CANCELLED &&
			    !cl_state_set_hook_result(cl->state, record, str_c(err->msg), &ignored))
				log_debug(
					"the hook's failure cannot be written to the state file, ignoring",
					LOG_ERR(&ignored));
			return false;
		}
		if (!cl_state_set_hook_result(cl->state, record, STR_EMPTY, err))
			return false;
	}
	if (cl->haproxy)
		return cl_haproxy_apply(cl->haproxy, call, err);
	return true;
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

/* ---- what a dry run notes ----
 *
 * The addresses that a Service would get or lose are compared with those that it has. HAProxy's
 * frontends are compared with its configuration file as it is now, so a dry run beside a running
 * controller sees what that one has done. A frontend stands for its backend, too. */

static void
note_change(struct call *call, enum dry_verb verb, const char *what, struct str name,
            struct str request, const struct dry_field fields[], size_t n)
{
	dry_note(call->dry, &(struct dry_change){
				    .verb = verb,
				    .what = what,
				    .name = name,
				    .request = request,
				    .is_cloud = true,
				    .fields = fields,
				    .n_fields = n,
			    });
}

/* record NULL: the Service would lose all addresses in `before`. */
static void
note_addresses(struct call *call, const struct cl_addresses *before, const struct cl_record *record)
{
	static const struct cl_addresses none = { .n = 0 };
	const struct cl_addresses *after = record ? &record->values.allocation.addresses : &none;

	for (size_t i = 0; i < before->n; i++) {
		const struct ip *ip = &before->items[i];

		if (!cl_addresses_have(after, ip))
			note_change(call, DRY_DELETE, "address", str_c(cl_ip_text(ip, call->arena)),
			            STR_EMPTY, NULL, 0);
	}
	for (size_t i = 0; i < after->n; i++) {
		const struct ip *ip = &after->items[i];
		const struct dry_field pool = { STR("pool"), STR_EMPTY, record->values.pool };

		if (!cl_addresses_have(before, ip))
			note_change(call, DRY_CREATE, "address", str_c(cl_ip_text(ip, call->arena)),
			            STR_EMPTY, &pool, 1);
	}
}

/* What the hook was given the last time is only known as a hash, so fields have no old values. */
static void
note_hook(struct call *call, enum dry_verb verb, struct str path, const char *action,
          const struct cl_record *record)
{
	CLEANUP(buf_fini) struct buf addresses = BUF_INIT(KIB(1));
	CLEANUP(buf_fini) struct buf ports = BUF_INIT(LIMIT_HTTP_REQUEST);
	CLEANUP(buf_fini) struct buf targets = BUF_INIT(LIMIT_HTTP_REQUEST);
	const struct cl_record_values *r = &record->values;
	const struct cl_allocation *a = &r->allocation;
	struct dry_field fields[3];

	for (size_t i = 0; i < a->addresses.n; i++)
		buf_addf(&addresses, "%s%s", i > 0 ? ", " : "",
		         cl_ip_text(&a->addresses.items[i], call->arena));
	for (size_t i = 0; i < a->n_ports; i++)
		buf_addf(&ports, "%s%d to %d", i > 0 ? ", " : "", (int)a->ports[i].port,
		         (int)a->ports[i].node_port);
	for (size_t i = 0; i < r->targets->n; i++)
		buf_addf(&targets, "%s%" STR_FMT, i > 0 ? ", " : "",
		         STR_ARG(r->targets->items[i].name));
	fields[0] = (struct dry_field){ STR("addresses"), STR_EMPTY, buf_str(&addresses) };
	fields[1] = (struct dry_field){ STR("ports"), STR_EMPTY, buf_str(&ports) };
	fields[2] = (struct dry_field){ STR("targets"), STR_EMPTY, buf_str(&targets) };
	note_change(call, verb, "load balancer hook", r->name,
	            arena_printf(call->arena, "%" STR_FMT " %s", STR_ARG(path), action), fields,
	            verb == DRY_DELETE ? 0 : ARRAY_LEN(fields));
}

/* All lines of a frontend and its backend that begin with the same word: "server", for example. */
struct setting {
	struct str frontend, word;
	struct buf before, after; /* the rest of these lines, with commas; empty: there are none */
};

struct settings {
	struct setting *items;
	size_t n, cap;
};

static void
settings_fini(struct settings *s)
{
	for (size_t i = 0; i < s->n; i++) {
		buf_fini(&s->items[i].before);
		buf_fini(&s->items[i].after);
	}
	free(s->items);
}

/* Those of sections whose names begin with the prefix. A line of a section begins with a tab, the
 * head of a section does not: "frontend NAME". */
static void
read_settings(struct settings *s, struct str text, struct str prefix, bool is_after)
{
	struct str frontend = STR_EMPTY; /* empty: the section belongs to another balancer */
	size_t i = 0;

	for (struct str line, rest = text; str_split(&rest, '\n', &line);) {
		bool is_head = !str_starts(line, STR("\t"));
		struct str value = is_head ? line : str_skip(line, 1), word = STR_EMPTY;
		struct buf *to;

		(void)str_split(&value, ' ', &word);
		if (is_head && line.len > 0) {
			frontend = STR_EMPTY;
			if ((str_eq_c(word, "frontend") || str_eq_c(word, "backend")) &&
			    str_starts(value, prefix))
				frontend = value;
		}
		if (is_head || frontend.len == 0)
			continue;
		/* usually that of the line before: there may be thousands of servers */
		if (i == s->n || !str_eq(s->items[i].frontend, frontend) ||
		    !str_eq(s->items[i].word, word)) {
			for (i = 0; i < s->n; i++) {
				if (str_eq(s->items[i].frontend, frontend) &&
				    str_eq(s->items[i].word, word))
					break;
			}
		}
		if (i == s->n)
			ARRAY_PUSH(s->items, s->n, s->cap,
			           (struct setting){ frontend, word, BUF_INIT(LIMIT_HAPROXY_FILE),
			                             BUF_INIT(LIMIT_HAPROXY_FILE) });
		to = is_after ? &s->items[i].after : &s->items[i].before;
		buf_add_c(to, to->len > 0 ? ", " : "");
		buf_add_str(to, value);
	}
}

/* The two words that everybody reads have plain names. */
static struct str
setting_name(struct str word)
{
	if (str_eq_c(word, "bind"))
		return STR("address");
	return str_eq_c(word, "server") ? STR("targets") : word;
}

/* is_lost: those that are no longer wanted, or else the others that differ. Returns how many. */
static size_t
list_changes(const struct settings *s, struct str frontend, bool is_lost, struct dry_field *fields)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++) {
		const struct setting *one = &s->items[i];
		struct str was = buf_str(&one->before), is = buf_str(&one->after);

		if (str_eq(one->frontend, frontend) && (is.len == 0) == is_lost && !str_eq(was, is))
			fields[n++] = (struct dry_field){ setting_name(one->word), was, is };
	}
	return n;
}

/* Notes the frontend, if it changes. True if it was noted. */
static bool
note_frontend(struct call *call, const struct settings *s, struct str frontend)
{
	struct dry_field *fields = arena_calloc(call->arena, s->n, sizeof(*fields));
	bool is_there = false, is_wanted = false;
	enum dry_verb verb = DRY_CHANGE;
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++) {
		bool is_same = str_eq(s->items[i].frontend, frontend);

		is_there |= is_same && s->items[i].before.len > 0;
		is_wanted |= is_same && s->items[i].after.len > 0;
	}
	if (!is_there)
		verb = DRY_CREATE;
	else if (!is_wanted)
		verb = DRY_DELETE;
	if (is_wanted) {
		n = list_changes(s, frontend, /*is_lost=*/true, fields);
		n += list_changes(s, frontend, /*is_lost=*/false, fields + n);
	}
	if (verb == DRY_CHANGE && n == 0)
		return false;
	note_change(call, verb, "HAProxy frontend", frontend, STR_EMPTY, fields, n);
	return true;
}

/* Notes the frontends of the balancer with that name that would change. record NULL: it is removed.
 * *ret_is_noted: there are some. False: the file cannot be read. */
static bool
note_haproxy(struct call *call, const struct cl_haproxy_config *config, struct str name,
             struct cl_record *record, bool *ret_is_noted, struct error *err)
{
	CLEANUP(buf_fini) struct buf file = BUF_INIT(LIMIT_HAPROXY_FILE);
	CLEANUP(buf_fini) struct buf wanted = BUF_INIT(LIMIT_HAPROXY_FILE);
	CLEANUP(buf_fini) struct buf prefix = BUF_INIT(KIB(1));
	CLEANUP(settings_fini) struct settings s = { .n = 0 };

	if (!file_read(arena_strz(call->arena, config->file), &file, err) &&
	    err->code != ERR_NOT_FOUND)
		return err_wrap(err, "HAProxy's configuration");
	cl_haproxy_add_name(&prefix, name);
	buf_add_c(&prefix, "-");
	if (record)
		cl_haproxy_file(&wanted, &record, 1, config->stats_socket);
	/* the frontends that are wanted come first */
	read_settings(&s, buf_str(&wanted), buf_str(&prefix), /*is_after=*/true);
	read_settings(&s, buf_str(&file), buf_str(&prefix), /*is_after=*/false);
	*ret_is_noted = false;
	for (size_t i = 0; i < s.n; i++) {
		bool is_first = true;

		for (size_t k = 0; k < i; k++)
			is_first &= !str_eq(s.items[k].frontend, s.items[i].frontend);
		if (is_first)
			*ret_is_noted |= note_frontend(call, &s, s.items[i].frontend);
	}
	return true;
}

/* The same steps as those of ensure, with notes in place of changes. */
static bool
note_ensure(struct cloudlycke *cl, const struct cl_schema *schema, struct call *call,
            const struct lb_spec *spec, const struct cl_request *request,
            struct lb_status *ret_status, struct error *err)
{
	const struct cl_balancers *config = &schema->balancers;
	CLEANUP(cl_record_unrefp) struct cl_record *record = NULL;
	struct cl_addresses before;
	bool is_noted;

	if (!cl_state_foresee(cl->state, request, spec, call->arena, &before, &record, err))
		return false;
	note_addresses(call, &before, record);
	if (cl->balancer_hook && cl_record_needs_hook(record))
		note_hook(call, record->values.hook.generation > 1 ? DRY_CHANGE : DRY_CREATE,
		          config->hook, "ensure", record);
	status_of(record, call->arena, ret_status);
	if (cl->haproxy)
		return note_haproxy(call, &config->haproxy, spec->name, record, &is_noted, err);
	return true;
}

static bool
note_removal(struct cloudlycke *cl, const struct cl_schema *schema, struct call *call,
             const struct lb_spec *spec, bool *ret_found, struct error *err)
{
	const struct cl_balancers *config = &schema->balancers;
	CLEANUP(cl_record_unrefp) struct cl_record *record = NULL;

	*ret_found = false;
	if (cl->haproxy && !note_haproxy(call, &config->haproxy, spec->name, NULL, ret_found, err))
		return false;
	record = cl_state_get(cl->state, spec->uid);
	if (!record)
		return true;
	*ret_found = true;
	if (cl->balancer_hook)
		note_hook(call, DRY_DELETE, config->hook, "delete", record);
	note_addresses(call, &record->values.allocation.addresses, NULL);
	return true;
}

/* ---- what the controller calls ---- */

static bool
cl_balancers_adopt(struct cloud *cloud, struct call *call, const struct lb_spec *const specs[],
                   size_t n, struct error *err)
{
	struct cloudlycke *cl = cloudlycke_of(cloud);
	CLEANUP(cl_inventory_unrefp)
	struct cl_inventory *inventory = cl_loader_inventory(cl->loader, NULL);

	if (!cl_state_adopt(cl->state, &inventory->schema, specs, n, call->arena, err))
		return false;
	/* A former process may have made frontends for Services that are gone. The first change of
	 * a Service replaces them, if there is a Service. */
	return n > 0 || !cl->haproxy || call->dry || cl_haproxy_apply(cl->haproxy, call, err);
}

static bool
cl_balancers_ensure(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
                    enum lb_outcome *ret, struct lb_status *ret_status, struct error *err)
{
	struct cloudlycke *cl = cloudlycke_of(cloud);
	CLEANUP(cl_inventory_unrefp)
	struct cl_inventory *inventory = cl_loader_inventory(cl->loader, NULL);
	CLEANUP(cl_record_unrefp) struct cl_record *record = NULL;
	struct cl_request request;

	if (!cl_request_read(&inventory->schema, spec, call->arena, &request, err) ||
	    (cl->haproxy && !cl_haproxy_accepts(&request.values.allocation, err)))
		return false;
	if (call->dry) {
		*ret = LB_DONE;
		return note_ensure(cl, &inventory->schema, call, spec, &request, ret_status, err);
	}
	if (!cl_state_allocate(cl->state, &request, spec->nodes, spec->n_nodes, call->arena,
	                       &record, err) ||
	    !apply_record(cl, call, record, err))
		return false;
	status_of(record, call->arena, ret_status);
	*ret = LB_DONE;
	return true;
}

static bool
cl_balancers_check(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
                   struct error *err)
{
	struct cloudlycke *cl = cloudlycke_of(cloud);
	CLEANUP(cl_inventory_unrefp)
	struct cl_inventory *inventory = cl_loader_inventory(cl->loader, NULL);
	struct cl_request request;

	return cl_request_read(&inventory->schema, spec, call->arena, &request, err) &&
	       (!cl->haproxy || cl_haproxy_accepts(&request.values.allocation, err));
}

static bool
cl_balancers_update(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
                    struct error *err)
{
	struct cloudlycke *cl = cloudlycke_of(cloud);
	CLEANUP(cl_record_unrefp) struct cl_record *record = NULL;
	struct lb_status ignored;
	enum lb_outcome outcome;

	if (call->dry)
		return cl_balancers_ensure(cloud, call, spec, &outcome, &ignored, err);
	if (!cl_state_set_nodes(cl->state, spec->uid, spec->nodes, spec->n_nodes, &record, err)) {
		if (err->code == ERR_NOT_FOUND)
			(void)err_wrap(err, "load balancer \"%" STR_FMT "\" not found",
			               STR_ARG(spec->name));
		return false;
	}
	return apply_record(cl, call, record, err);
}

/* The addresses are freed only when HAProxy and the hook no longer use them. */
static bool
cl_balancers_remove(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
                    bool *ret_found, struct error *err)
{
	struct cloudlycke *cl = cloudlycke_of(cloud);
	CLEANUP(cl_inventory_unrefp)
	struct cl_inventory *inventory = cl_loader_inventory(cl->loader, NULL);
	CLEANUP(cl_record_unrefp) struct cl_record *record = NULL;

	if (call->dry)
		return note_removal(cl, &inventory->schema, call, spec, ret_found, err);
	if (!cl_state_mark_deleting(cl->state, spec->uid, &record, err))
		return false;
	*ret_found = record != NULL;
	/* a former process may have made its frontends: the first file of this one is without them
	 */
	if (!record)
		return !cl->haproxy || cl_haproxy_apply(cl->haproxy, call, err);
	if (cl->haproxy && !cl_haproxy_apply(cl->haproxy, call, err))
		return false;
	if (cl->balancer_hook && !run_hook(cl, call, "delete", record, err))
		return false;
	return cl_state_remove(cl->state, spec->uid, err);
}

/* ---- for commands that change nothing ---- */

/* What HAProxy is configured to do; without HAProxy, what the state file has for the hook, which
 * are not the nodes. */
static bool
cl_balancers_list_local(struct cloud *cloud, struct call *call, struct lb_listed **ret,
                        size_t *ret_n, struct error *err)
{
	struct cloudlycke *cl = cloudlycke_of(cloud);
	CLEANUP(cl_inventory_unrefp)
	struct cl_inventory *inventory = cl_loader_inventory(cl->loader, NULL);
	CLEANUP(buf_fini) struct buf file = BUF_INIT(LIMIT_HAPROXY_FILE);
	struct arena *arena = call->arena;
	struct cl_record **records;
	uint64_t ignored;
	size_t n;

	if (cl->haproxy) {
		struct str path = inventory->schema.balancers.haproxy.file;

		if (!file_read(arena_strz(arena, path), &file, err) && err->code != ERR_NOT_FOUND)
			return err_wrap(err, "HAProxy's configuration");
		cl_haproxy_list(buf_str(&file), arena, ret, ret_n);
		return true;
	}
	if (inventory->schema.state.file.len == 0)
		return err_set(
			err, ERR_UNSUPPORTED,
			"without state.file, only the leader's memory has the load balancers");
	if (!cl_state_take(cl->state, err))
		return false;
	records = cl_state_list(cl->state, &n, &ignored);
	*ret = arena_calloc(arena, n + 1, sizeof((*ret)[0]));
	for (size_t i = 0; i < n; i++) {
		const struct cl_allocation *a = &records[i]->values.allocation;
		struct str *addresses = arena_calloc(arena, CL_FAMILIES, sizeof(*addresses));

		for (size_t k = 0; k < a->addresses.n; k++)
			addresses[k] = str_c(cl_ip_text(&a->addresses.items[k], arena));
		(*ret)[i] = (struct lb_listed){
			.what = "load balancer",
			.is_balancer = true,
			.id = arena_str(arena, records[i]->values.name),
			.uid = arena_str(arena, a->uid),
			.service = STR_EMPTY,
			.cluster = STR_EMPTY,
			.cost = STR_EMPTY,
			.addresses = addresses,
			.n_addresses = a->addresses.n,
		};
	}
	cl_records_free(records, n);
	*ret_n = n;
	return true;
}

/* cl_targets_new() leaves nodes without a provider ID out; selects() would be called for every node
 * of every Service instead. */
static const char *const cl_annotations[] = { "pool",           "addresses", "hostname",
	                                      "proxy-protocol", "share",     NULL };

static const struct balancer_ops balancer_ops = {
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

/* ---- start ---- */

bool
cl_balancers_open(struct cloudlycke *cl, const struct cl_balancers *config,
                  const struct cloud_host *host, struct error *err)
{
	if (!config->is_present)
		return true;
	/* HAProxy runs on the same host as ccmd, so another leader would serve the addresses on
	 * another host. */
	if (config->haproxy.is_present && !config->is_local_only && cl->config.has_election)
		return err_set(
			err, ERR_UNSUPPORTED,
			"cloudlycke: loadBalancers.haproxy acts on the host that ccmd runs on: run one replica "
			"with --leader-elect=false there, or set loadBalancers.localOnly: true");
	if (config->hook.len > 0)
		cl->balancer_hook = cl_hook_new(config->hook, config->hook_timeout_ns,
		                                "load balancer", host);
	if (config->haproxy.is_present)
		cl->haproxy = cl_haproxy_new(config, cl->state, host);
	cl->cloud.balancers = &balancer_ops;
	return true;
}
