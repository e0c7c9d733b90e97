/* routes.c: see routes.h.
 *
 * A route that the controller asked for is in one of these states:
 *
 *   pending, not made    written before the hook runs the first time
 *   made                 the hook has succeeded
 *   pending and made     the machine has other addresses, and the hook has to run again
 *
 * A pending route is listed as unfinished, and the controller asks for it again. "pending" is
 * written before `route-ensure` runs and removed after it, and the record is removed after
 * `route-delete`: what a crash interrupts is run again.
 *
 * The state file has all that `route-delete` is given, since the node, its UID (in the name) and
 * the machine's former addresses may be unknown by then. It is one JSON object by cluster; the
 * routes of other clusters are kept.
 */
#include "providers/cloudlycke/routes.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/quote.h"
#include "base/thread.h"
#include "providers/cloudlycke/cloudlycke.h"
#include "providers/cloudlycke/hook.h"

/* A route that the controller asked for. Only is_pending and is_made change, under the lock. */
struct recorded {
	struct arena arena; /* of all texts */
	struct str cluster, name, target_node, destination;
	struct str machine;    /* its id; empty: an older record */
	struct str *addresses; /* the machine's InternalIPs */
	size_t n_addresses;
	bool is_pending; /* its hook has not succeeded yet */
	bool is_made;    /* its hook has succeeded at least once, with these or other addresses */
};

struct cl_routes_run {
	struct str cluster;
	struct arena arena;
	struct cl_loader *loader;
	struct cl_state *state;
	struct cl_hook *hook;               /* NULL: none */
	const struct ip_net *cluster_cidrs; /* in the arena */
	size_t n_cluster_cidrs;

	pthread_mutex_t mu;
	struct recorded **all; /* mu; sorted by name, then destination, when listed */
	size_t n, cap;         /* mu */
	bool is_read;          /* mu; `all` has what the state file has */
};

/* ---- recorded routes ---- */

static void
recorded_free(struct recorded *r)
{
	struct arena arena;

	if (!r)
		return;
	arena = r->arena;
	arena_fini(&arena);
	free(r);
}

DEFINE_CLEANUP(struct recorded, recorded_free)

/* Compared as text: destinations are returned as they were asked for (docs/spec/framework.md,
 * "Routes"). */
static struct recorded *
find_recorded(const struct cl_routes_run *run, struct str destination)
{
	for (size_t i = 0; i < run->n; i++) {
		if (str_eq(run->all[i]->destination, destination) &&
		    str_eq(run->all[i]->cluster, run->cluster))
			return run->all[i];
	}
	return NULL;
}

static void
add_recorded(struct cl_routes_run *run, struct recorded *r)
{
	ARRAY_PUSH(run->all, run->n, run->cap, r);
}

static void
take_recorded_out(struct cl_routes_run *run, const struct recorded *r)
{
	size_t i = 0;

	while (run->all[i] != r)
		i++;
	run->all[i] = run->all[--run->n];
}

static int
by_name(const void *a, const void *b)
{
	const struct recorded *const *x = a, *const *y = b;
	int order = str_cmp((*x)->cluster, (*y)->cluster);

	if (order == 0)
		order = str_cmp((*x)->name, (*y)->name);
	return order != 0 ? order : str_cmp((*x)->destination, (*y)->destination);
}

static void
sort_recorded(struct cl_routes_run *run)
{
	if (run->n > 0)
		qsort(run->all, run->n, sizeof(run->all[0]), by_name);
}

/* ---- as JSON ---- */

/* The members, without braces; hooks get them, too. */
static void
add_json(struct buf *b, const struct recorded *r)
{
	json_add_text(b, "name", r->name);
	json_add_text(b, "targetNode", r->target_node);
	json_add_text(b, "machine", r->machine);
	json_add_text(b, "destinationCIDR", r->destination);
	json_add_texts(b, "addresses", r->addresses, r->n_addresses);
}

static void
add_all(struct buf *b, const struct cl_routes_run *run)
{
	struct str cluster = STR_EMPTY;

	buf_add_char(b, '{');
	for (size_t i = 0; i < run->n; i++) {
		const struct recorded *r = run->all[i];
		bool is_first = i == 0 || !str_eq(r->cluster, cluster);

		if (is_first) {
			if (i > 0)
				json_end_array(b);
			json_add_name(b, r->cluster);
			json_begin_array(b, NULL);
		}
		cluster = r->cluster;
		json_begin_object(b, NULL);
		add_json(b, r);
		if (r->is_pending)
			json_add_flag(b, "pending", true);
		json_end_object(b);
	}
	buf_add_c(b, run->n > 0 ? "]}" : "}");
}

static bool
save_recorded(struct cl_routes_run *run, struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(LIMIT_STATE_FILE);

	sort_recorded(run);
	add_all(&b, run);
	if (!buf_ok(&b))
		return err_set(err, ERR_INTERNAL, "too many routes for the state file");
	return cl_state_write_routes(run->state, buf_str(&b), err);
}

static struct str
read_text(struct recorded *r, yyjson_val *obj, const char *field)
{
	struct str text = STR_EMPTY;

	(void)json_str(obj, field, &text);
	return arena_str(&r->arena, text);
}

static void
read_addresses(struct recorded *r, yyjson_val *obj)
{
	yyjson_val *list = NULL, *item;
	yyjson_arr_iter iter;

	if (json_array(obj, "addresses", &list) != JSON_FOUND)
		return;
	iter = yyjson_arr_iter_with(list);
	r->addresses = arena_calloc(&r->arena, yyjson_arr_size(list), sizeof(*r->addresses));
	while ((item = yyjson_arr_iter_next(&iter))) {
		if (yyjson_is_str(item))
			r->addresses[r->n_addresses++] = arena_str(&r->arena, json_text(item));
	}
}

/* A route without target or destination is ignored; the controller asks for it again. */
static void
read_one(struct cl_routes_run *run, struct str cluster, yyjson_val *obj)
{
	CLEANUP(recorded_freep) struct recorded *r = xcalloc(1, sizeof(*r));

	r->cluster = arena_str(&r->arena, cluster);
	r->name = read_text(r, obj, "name");
	r->target_node = read_text(r, obj, "targetNode");
	r->machine = read_text(r, obj, "machine");
	r->destination = read_text(r, obj, "destinationCIDR");
	read_addresses(r, obj);
	(void)json_bool(obj, "pending", &r->is_pending);
	r->is_made = !r->is_pending;
	if (r->target_node.len > 0 && r->destination.len > 0)
		add_recorded(run, TAKE(r));
}

static bool
read_recorded(struct cl_routes_run *run, struct error *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_STATE_FILE);
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	yyjson_obj_iter iter;
	yyjson_val *key, *item;

	cl_state_routes(run->state, &text);
	if (text.len == 0)
		return true;
	if (!json_parse(buf_str(&text), &doc, err))
		return err_wrap(err, "routes of the state file");
	iter = yyjson_obj_iter_with(yyjson_doc_get_root(doc));
	while ((key = yyjson_obj_iter_next(&iter))) {
		yyjson_arr_iter list = yyjson_arr_iter_with(yyjson_obj_iter_get_val(key));

		while ((item = yyjson_arr_iter_next(&list)))
			read_one(run, json_text(key), item);
	}
	return true;
}

/* The state file is read at the first call, because only the leader is called. */
static bool
need_state(struct cl_routes_run *run, struct error *err)
{
	if (run->is_read)
		return true;
	if (!cl_state_take(run->state, err) || !read_recorded(run, err))
		return false;
	run->is_read = true;
	return true;
}

/* ---- machines ---- */

static const struct cl_machine *
machine_by_name(const struct cl_inventory *inventory, struct str name)
{
	CLEANUP(buf_fini) struct buf ids = BUF_INIT(ERR_MSG_SIZE);
	const struct cl_machine *machine = NULL;

	return cl_inventory_by_name(inventory, name, &machine, &ids) ? machine : NULL;
}

static const struct cl_machine *
machine_of(const struct cl_inventory *inventory, const struct node_ref *node)
{
	if (node->provider_id.len == 0)
		return machine_by_name(inventory, node->name);
	return cl_inventory_by_id(inventory, cl_machine_id(node->provider_id));
}

static bool
is_internal(const struct address *address)
{
	return str_eq_c(address->type, "InternalIP");
}

/* Does the record have the machine's addresses? */
static bool
has_addresses(const struct recorded *r, const struct cl_machine *machine)
{
	size_t n = 0;

	for (uint32_t i = 0; i < machine->n_addresses; i++) {
		if (!is_internal(&machine->addresses[i]))
			continue;
		if (n == r->n_addresses || !str_eq(r->addresses[n], machine->addresses[i].address))
			return false;
		n++;
	}
	return n == r->n_addresses;
}

/* Did the hook get the machine as it is now? Older records do not say, and count as up to date. */
static bool
is_up_to_date(const struct recorded *r, const struct cl_machine *machine)
{
	return r->machine.len == 0 ||
	       (str_eq(r->machine, machine->id) && has_addresses(r, machine));
}

/* ---- listing ---- */

static void
list_static(const struct cl_inventory *inventory, struct arena *arena, struct route_list *ret)
{
	const struct cl_routes *routes = &inventory->schema.routes;

	for (size_t i = 0; i < routes->n_fixed; i++) {
		const struct cl_route *fixed = &routes->fixed[i];
		CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(1));

		ip_net_format(&b, &fixed->destination);
		ret->routes[ret->n++] = (struct route){
			.name = arena_str(arena, fixed->name),
			.target_node = arena_str(arena, fixed->target_node),
			.destination_cidr = arena_str(arena, buf_str(&b)),
			.is_blackhole = !cl_machine_is_there(machine_by_name(inventory,
			                                                     fixed->target_node)),
			.is_fixed = true,
		};
	}
}

/* A route made for former addresses of the machine is unfinished, so that the controller asks for
 * it again. */
static struct route
recorded_route(const struct cl_inventory *inventory, const struct recorded *r, struct arena *arena)
{
	const struct cl_machine *machine = r->machine.len > 0
	                                           ? cl_inventory_by_id(inventory, r->machine)
	                                           : machine_by_name(inventory, r->target_node);

	return (struct route){
		.name = arena_str(arena, r->name),
		.target_node = arena_str(arena, r->target_node),
		.destination_cidr = arena_str(arena, r->destination),
		.is_blackhole = !cl_machine_is_there(machine),
		.is_unfinished = r->is_pending ||
		                 (cl_machine_is_there(machine) && !is_up_to_date(r, machine)),
	};
}

static void
list_recorded(const struct cl_routes_run *run, const struct cl_inventory *inventory,
              struct arena *arena, struct route_list *ret)
{
	for (size_t i = 0; i < run->n; i++) {
		const struct recorded *r = run->all[i];

		if (!str_eq(r->cluster, run->cluster))
			continue;
		ret->routes[ret->n++] = recorded_route(inventory, r, arena);
	}
}

static bool
cl_routes_list(struct cloud *cloud, struct call *call, struct route_list *ret, struct error *err)
{
	struct cl_routes_run *run = cloudlycke_of(cloud)->routes;
	CLEANUP(cl_inventory_unrefp) struct cl_inventory *inventory = NULL;
	struct route_list list = { .n = 0 };
	bool is_current;
	WITH_LOCK(&run->mu);

	if (!need_state(run, err))
		return false;
	inventory = cl_loader_inventory(run->loader, &is_current);
	sort_recorded(run);
	list.routes = arena_calloc(call->arena, inventory->schema.routes.n_fixed + run->n,
	                           sizeof(list.routes[0]));
	list_static(inventory, call->arena, &list);
	list_recorded(run, inventory, call->arena, &list);
	*ret = list;
	return true;
}

/* ---- hook ---- */

/* The hook's input, made before other threads have the record. */
static struct str
hook_input(struct arena *arena, const char *action, const struct recorded *r)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(LIMIT_STATE_FILE);

	buf_add_char(&b, '{');
	json_add_text(&b, "action", str_c(action));
	json_add_text(&b, "cluster", r->cluster);
	add_json(&b, r);
	buf_add_c(&b, "}\n");
	return arena_str(arena, buf_str(&b));
}

static bool
run_hook(struct cl_routes_run *run, struct call *call, const char *action, struct str input,
         struct error *err)
{
	return !run->hook || cl_hook_run(run->hook, call, action, input, err);
}

/* ---- creating ---- */

static void
keep_addresses(struct recorded *r, const struct cl_machine *machine)
{
	r->addresses = arena_calloc(&r->arena, machine->n_addresses, sizeof(*r->addresses));
	for (uint32_t i = 0; i < machine->n_addresses; i++) {
		if (is_internal(&machine->addresses[i]))
			r->addresses[r->n_addresses++] = arena_str(&r->arena,
			                                           machine->addresses[i].address);
	}
}

static struct recorded *
recorded_new(const struct cl_routes_run *run, const struct node_ref *node,
             const struct cl_machine *machine, struct str hint, struct str destination)
{
	struct recorded *r = xcalloc(1, sizeof(*r));

	r->cluster = arena_str(&r->arena, run->cluster);
	r->name = arena_printf(&r->arena, "%" STR_FMT "-%" STR_FMT, STR_ARG(run->cluster),
	                       STR_ARG(hint));
	r->target_node = arena_str(&r->arena, node->name);
	r->machine = arena_str(&r->arena, machine->id);
	r->destination = arena_str(&r->arena, destination);
	r->is_pending = run->hook != NULL;
	keep_addresses(r, machine);
	return r;
}

static bool
fail_taken(struct arena *arena, struct str destination, struct str by, struct error *err)
{
	return err_set(err, ERR_EXISTS, "destination %s is already routed to %s",
	               quote_z(arena, destination), quote_z(arena, by));
}

/* The route controller only asks for checked destinations. They are checked here again, because a
 * hook may change any route of the host. */
static bool
check_destination(const struct cl_routes_run *run, struct arena *arena, struct str destination,
                  struct error *err)
{
	struct ip_net net;

	if (!ip_net_parse(destination, &net))
		return err_set(err, ERR_INVALID, "destination %s is not a CIDR",
		               quote_z(arena, destination));
	if (ip_net_has_host_bits(&net))
		return err_set(err, ERR_INVALID, "destination %s has host bits set",
		               quote_z(arena, destination));
	return ip_net_is_within_any(&net, run->cluster_cidrs, run->n_cluster_cidrs) ||
	       err_set(err, ERR_INVALID, "destination %s is not contained within the cluster CIDR",
	               quote_z(arena, destination));
}

/* False when a static route leads to another node. *ret_is_done: a static route is what is asked
 * for. */
static bool
check_static(const struct cl_inventory *inventory, const struct node_ref *node,
             struct str destination, struct arena *arena, bool *ret_is_done, struct error *err)
{
	const struct cl_routes *routes = &inventory->schema.routes;
	struct route_list list = { .routes = arena_calloc(arena, routes->n_fixed,
		                                          sizeof(struct route)) };

	list_static(inventory, arena, &list);
	for (size_t i = 0; i < list.n; i++) {
		if (!str_eq(list.routes[i].destination_cidr, destination))
			continue;
		*ret_is_done = str_eq(list.routes[i].target_node, node->name);
		return *ret_is_done ||
		       fail_taken(arena, destination, list.routes[i].target_node, err);
	}
	return true;
}

/* The route of another node whose destination overlaps. NULL: none. */
static const struct recorded *
find_rival(const struct cl_routes_run *run, const struct recorded *wanted)
{
	struct ip_net net, other;

	if (!ip_net_parse(wanted->destination, &net))
		return NULL;
	for (size_t i = 0; i < run->n; i++) {
		const struct recorded *r = run->all[i];

		if (str_eq(r->cluster, run->cluster) &&
		    !str_eq(r->target_node, wanted->target_node) &&
		    ip_net_parse(r->destination, &other) &&
		    (ip_net_is_within(&net, &other) || ip_net_is_within(&other, &net)))
			return r;
	}
	return NULL;
}

/* Puts `wanted` in the place of `old` (NULL: none), and frees `old`, if that can be written. */
static bool
replace_recorded(struct cl_routes_run *run, struct recorded *old, struct recorded *wanted,
                 struct error *err)
{
	if (old) {
		wanted->is_made = old->is_made;
		take_recorded_out(run, old);
	}
	add_recorded(run, wanted);
	if (save_recorded(run, err)) {
		recorded_free(old);
		return true;
	}
	take_recorded_out(run, wanted);
	if (old)
		add_recorded(run, old);
	return false;
}

/* Takes ownership of `wanted`. Records it, unless the same route is recorded already: then
 * *ret_is_done says whether its hook has succeeded. */
static bool
record_wanted(struct cl_routes_run *run, struct arena *arena, struct recorded *wanted,
              const struct cl_machine *machine, bool *ret_is_done, struct error *err)
{
	CLEANUP(recorded_freep) struct recorded *unused = wanted;
	const struct recorded *rival;
	struct recorded *there;
	WITH_LOCK(&run->mu);

	if (!need_state(run, err))
		return false;
	rival = find_rival(run, wanted);
	if (rival)
		return fail_taken(arena, wanted->destination, rival->target_node, err);
	there = find_recorded(run, wanted->destination);
	if (there && is_up_to_date(there, machine)) {
		*ret_is_done = !there->is_pending;
		return true;
	}
	if (!replace_recorded(run, there, wanted, err))
		return false;
	unused = NULL;
	return true;
}

/* After success the route counts as made. After a failure its record is removed, unless the route
 * was made before: then the former route may still exist, and the record is needed for its
 * `route-delete`. */
static bool
set_hook_result(struct cl_routes_run *run, struct str destination, bool is_good, struct error *err)
{
	CLEANUP(recorded_freep) struct recorded *gone = NULL;
	struct recorded *r;
	WITH_LOCK(&run->mu);

	r = find_recorded(run, destination);
	if (!r)
		return true;
	r->is_pending = !is_good;
	r->is_made |= is_good;
	if (!r->is_made) {
		take_recorded_out(run, r);
		gone = r;
	}
	if (save_recorded(run, err))
		return true;
	r->is_pending = true; /* so that the controller asks for it again */
	return false;
}

static bool
run_ensure_hook(struct cl_routes_run *run, struct call *call, struct str destination,
                struct str input, struct error *err)
{
	struct error ignored;

	if (run_hook(run, call, "route-ensure", input, err))
		return !run->hook || set_hook_result(run, destination, /*is_good=*/true, err);
	if (err->code != ERR_CANCELLED &&
	    !set_hook_result(run, destination, /*is_good=*/false, &ignored))
		log_debug("a route hook's failure cannot be written to the state file, ignoring",
		          LOG_ERR(&ignored));
	return false;
}

static bool
cl_routes_create(struct cloud *cloud, struct call *call, const struct node_ref *node,
                 struct str hint, struct str destination, struct error *err)
{
	struct cl_routes_run *run = cloudlycke_of(cloud)->routes;
	CLEANUP(cl_inventory_unrefp) struct cl_inventory *inventory = NULL;
	const struct cl_machine *machine;
	bool is_current, is_done = false;
	struct recorded *wanted;
	struct str input;

	inventory = cl_loader_inventory(run->loader, &is_current);
	machine = machine_of(inventory, node);
	if (!cl_machine_is_there(machine))
		return err_set(err, ERR_INVALID, "target node %s is not a machine",
		               quote_z(call->arena, node->name));
	if (!check_static(inventory, node, destination, call->arena, &is_done, err))
		return false;
	if (is_done)
		return true;
	if (!check_destination(run, call->arena, destination, err))
		return false;
	wanted = recorded_new(run, node, machine, hint, destination);
	input = hook_input(call->arena, "route-ensure", wanted);
	if (!record_wanted(run, call->arena, wanted, machine, &is_done, err))
		return false;
	return is_done || run_ensure_hook(run, call, destination, input, err);
}

/* ---- removing ---- */

/* False: no record exists, or it belongs to another node. */
static bool
has_record(struct cl_routes_run *run, struct arena *arena, const struct route *route,
           struct str *ret_input)
{
	const struct recorded *r;
	WITH_LOCK(&run->mu);

	r = find_recorded(run, route->destination_cidr);
	if (!r || !str_eq(r->target_node, route->target_node))
		return false;
	*ret_input = hook_input(arena, "route-delete", r);
	return true;
}

static bool
delete_recorded(struct cl_routes_run *run, struct str destination, struct error *err)
{
	struct recorded *r;
	WITH_LOCK(&run->mu);

	r = find_recorded(run, destination);
	if (!r)
		return true;
	take_recorded_out(run, r);
	if (!save_recorded(run, err)) {
		add_recorded(run, r);
		return false;
	}
	recorded_free(r);
	return true;
}

static bool
cl_routes_remove(struct cloud *cloud, struct call *call, const struct route *route,
                 struct error *err)
{
	struct cl_routes_run *run = cloudlycke_of(cloud)->routes;
	struct str input;

	if (route->is_fixed)
		return err_set(err, ERR_INVALID, "route %s is static",
		               quote_z(call->arena, route->name));
	if (!has_record(run, call->arena, route, &input))
		return true;
	return run_hook(run, call, "route-delete", input, err) &&
	       delete_recorded(run, route->destination_cidr, err);
}

/* ---- life cycle ---- */

struct cl_routes_run *
cl_routes_open(const struct cloud_config *config, const struct cloud_host *host,
               struct cl_loader *loader, struct cl_state *state)
{
	CLEANUP(cl_inventory_unrefp) struct cl_inventory *inventory = NULL;
	const struct cl_routes *routes;
	struct cl_routes_run *run;
	struct ip_net *cidrs;
	bool is_current;

	inventory = cl_loader_inventory(loader, &is_current);
	routes = &inventory->schema.routes;
	if (!routes->is_present)
		return NULL;
	run = xcalloc(1, sizeof(*run));
	run->cluster = arena_str(&run->arena, str_c(config->cluster_name));
	run->n_cluster_cidrs = config->n_cluster_cidrs;
	cidrs = arena_calloc(&run->arena, run->n_cluster_cidrs + 1, sizeof(*cidrs));
	for (size_t i = 0; i < run->n_cluster_cidrs; i++)
		cidrs[i] = config->cluster_cidrs[i];
	run->cluster_cidrs = cidrs;
	run->loader = loader;
	run->state = state;
	if (routes->hook.len > 0)
		run->hook = cl_hook_new(routes->hook, routes->hook_timeout_ns, "route", host);
	mutex_init(&run->mu);
	return run;
}

void
cl_routes_close(struct cl_routes_run *run)
{
	if (!run)
		return;
	cl_hook_free(run->hook);
	for (size_t i = 0; i < run->n; i++)
		recorded_free(run->all[i]);
	free(run->all);
	arena_fini(&run->arena);
	mutex_destroy(&run->mu);
	free(run);
}

/* ---- the table ---- */

static unsigned
cl_routes_families(struct cloud *cloud)
{
	(void)cloud;
	return 3;
}

const struct route_ops cl_route_ops = {
	.families = cl_routes_families,
	.list = cl_routes_list,
	.create = cl_routes_create,
	.remove = cl_routes_remove,
};
