/* routes.c: routes to the pods of machines: the inventory's static ones, and those that the
 * controller asked for.
 *
 * A route that the controller asks for is written to the state file and then passed to a hook.
 * Without a hook, the routes are only for other programs that read the state file. A route is in
 * one of these states:
 *
 *   pending, not made    written before the hook runs the first time
 *   made                 the hook has succeeded
 *   pending and made     the machine has other addresses, and the hook has to run again
 *
 * A pending route is listed as unfinished, and the controller asks for it again. "pending" is
 * written before `route-ensure` runs and removed after it, and the route is removed after
 * `route-delete`: what a crash interrupts is run again.
 *
 * The state file has all that `route-delete` is given, since the node, its UID (in the name) and
 * the machine's former addresses may be unknown by then. It is one JSON object by cluster; the
 * routes of other clusters are kept.
 */
#include "providers/cloudlycke/cloudlycke.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/buf.h"
#include "base/thread.h"
#include "cloud/route.h"

/* A route that the controller asked for. Only is_pending and is_made change, under the lock. */
struct saved_route {
	struct arena arena; /* of all texts */
	struct str cluster, name, target_node, destination;
	struct str machine;    /* its id; empty: a route of an older version */
	struct str *addresses; /* the machine's InternalIPs */
	size_t n_addresses;
	bool is_pending; /* its hook has not succeeded yet */
	bool is_made;    /* its hook has succeeded at least once, with these or other addresses */
};

struct cl_routes_run {
	struct cloudlycke *cl;
	struct str cluster;
	struct cl_hook *hook; /* NULL: none */

	pthread_mutex_t mu;
	struct saved_route **all; /* mu; sorted by name, then destination, when listed */
	size_t n, cap;            /* mu */
	bool is_read;             /* mu; `all` has what the state file has */
};

/* ---- saved routes ---- */

static void
route_free(struct saved_route *r)
{
	if (!r)
		return;
	arena_fini(&r->arena);
	free(r);
}

DEFINE_CLEANUP(struct saved_route, route_free)

/* Compared as text: destinations are returned as they were asked for (docs/spec/framework.md,
 * "Routes"). */
static struct saved_route *
find_route(const struct cl_routes_run *run, struct str destination)
{
	for (size_t i = 0; i < run->n; i++) {
		if (str_eq(run->all[i]->destination, destination) &&
		    str_eq(run->all[i]->cluster, run->cluster))
			return run->all[i];
	}
	return NULL;
}

static void
unlink_route(struct cl_routes_run *run, const struct saved_route *r)
{
	size_t i = 0;

	while (run->all[i] != r)
		i++;
	run->all[i] = run->all[--run->n];
}

static int
by_name(const void *a, const void *b)
{
	const struct saved_route *const *x = a, *const *y = b;
	int order = str_cmp((*x)->cluster, (*y)->cluster);

	if (order == 0)
		order = str_cmp((*x)->name, (*y)->name);
	return order != 0 ? order : str_cmp((*x)->destination, (*y)->destination);
}

static void
sort_routes(struct cl_routes_run *run)
{
	if (run->n > 0)
		qsort(run->all, run->n, sizeof(run->all[0]), by_name);
}

/* ---- in the state file ---- */

/* The members, without braces; hooks get them, too. */
static void
add_json(struct buf *b, const struct saved_route *r)
{
	json_add_members(b, JSON_TEXT("name", r->name), JSON_TEXT("targetNode", r->target_node),
	                 JSON_TEXT("machine", r->machine),
	                 JSON_TEXT("destinationCIDR", r->destination));
	json_add_texts(b, "addresses", r->addresses, r->n_addresses);
}

static bool
save_routes(struct cl_routes_run *run, struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(LIMIT_STATE_FILE);

	sort_routes(run);
	json_begin_object(&b, NULL);
	for (size_t i = 0; i < run->n; i++) {
		const struct saved_route *r = run->all[i];

		if (i == 0 || !str_eq(r->cluster, run->all[i - 1]->cluster)) {
			if (i > 0)
				json_end_array(&b);
			json_add_name(&b, r->cluster);
			json_begin_array(&b, NULL);
		}
		json_begin_object(&b, NULL);
		add_json(&b, r);
		if (r->is_pending)
			json_add_flag(&b, "pending", true);
		json_end_object(&b);
	}
	if (run->n > 0)
		json_end_array(&b);
	json_end_object(&b);
	if (!buf_ok(&b))
		return err_set(err, ERR_INTERNAL, "too many routes for the state file");
	return cl_state_write_routes(run->cl->state, buf_str(&b), err);
}

/* Puts a route in the place of another one (NULL: none), in memory and in the state file, or in
 * neither, and frees the one that is not needed any more. */
static bool
replace_route(struct cl_routes_run *run, struct saved_route *former, struct saved_route *wanted,
              struct error *err)
{
	if (former)
		unlink_route(run, former);
	ARRAY_PUSH(run->all, run->n, run->cap, wanted);
	if (save_routes(run, err)) {
		route_free(former);
		return true;
	}
	unlink_route(run, wanted);
	if (former)
		ARRAY_PUSH(run->all, run->n, run->cap, former);
	route_free(wanted);
	return false;
}

/* Removes it from memory and from the state file, or from neither. */
static bool
remove_route(struct cl_routes_run *run, struct saved_route *r, struct error *err)
{
	unlink_route(run, r);
	if (save_routes(run, err)) {
		route_free(r);
		return true;
	}
	ARRAY_PUSH(run->all, run->n, run->cap, r);
	return false;
}

/* A route without target or destination is ignored; the controller asks for it again. */
static void
read_route(struct cl_routes_run *run, struct str cluster, yyjson_val *obj)
{
	CLEANUP(route_freep) struct saved_route *r = xcalloc(1, sizeof(*r));
	yyjson_val *list = NULL, *item;
	yyjson_arr_iter iter;

	r->cluster = arena_str(&r->arena, cluster);
	r->name = json_text_at(&r->arena, obj, "name");
	r->target_node = json_text_at(&r->arena, obj, "targetNode");
	r->machine = json_text_at(&r->arena, obj, "machine");
	r->destination = json_text_at(&r->arena, obj, "destinationCIDR");
	(void)json_array(obj, "addresses", &list);
	r->addresses = arena_calloc(&r->arena, yyjson_arr_size(list), sizeof(*r->addresses));
	iter = yyjson_arr_iter_with(list);
	while ((item = yyjson_arr_iter_next(&iter))) {
		if (yyjson_is_str(item))
			r->addresses[r->n_addresses++] = arena_str(&r->arena, json_text(item));
	}
	(void)json_bool(obj, "pending", &r->is_pending);
	r->is_made = !r->is_pending;
	if (r->target_node.len > 0 && r->destination.len > 0)
		ARRAY_PUSH(run->all, run->n, run->cap, TAKE(r));
}

/* The state file is read at the first call, because only the leader is called. */
static bool
load_state_once(struct cl_routes_run *run, struct error *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_STATE_FILE);
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	yyjson_obj_iter iter;
	yyjson_val *key, *item;

	if (run->is_read)
		return true;
	if (!cl_state_take(run->cl->state, err))
		return false;
	cl_state_routes(run->cl->state, &text);
	if (text.len > 0 && !json_parse(buf_str(&text), &doc, err))
		return err_wrap(err, "routes of the state file");
	iter = yyjson_obj_iter_with(yyjson_doc_get_root(doc));
	while ((key = yyjson_obj_iter_next(&iter))) {
		yyjson_arr_iter list = yyjson_arr_iter_with(yyjson_obj_iter_get_val(key));

		while ((item = yyjson_arr_iter_next(&list)))
			read_route(run, json_text(key), item);
	}
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
machine_of_node(const struct cl_inventory *inventory, const struct node_ref *node)
{
	if (node->provider_id.len == 0)
		return machine_by_name(inventory, node->name);
	return map_get(&inventory->names.by_id, cl_machine_id(node->provider_id));
}

/* Did the hook get the machine as it is now? Routes of older versions do not say, and count as up
 * to date. */
static bool
is_up_to_date(const struct saved_route *r, const struct cl_machine *machine)
{
	size_t n = 0;

	if (r->machine.len == 0)
		return true;
	if (!str_eq(r->machine, machine->id))
		return false;
	for (size_t i = 0; i < machine->n_addresses; i++) {
		if (!str_eq_c(machine->addresses[i].type, "InternalIP"))
			continue;
		if (n == r->n_addresses || !str_eq(r->addresses[n], machine->addresses[i].address))
			return false;
		n++;
	}
	return n == r->n_addresses;
}

/* ---- listing ---- */

static bool
cl_routes_list(struct cloud *cloud, struct call *call, struct route_list *ret, struct error *err)
{
	struct cl_routes_run *run = cloudlycke_of(cloud)->routes;
	CLEANUP(cl_inventory_unrefp)
	struct cl_inventory *inventory = cl_loader_inventory(run->cl->loader, NULL);
	const struct cl_routes *routes = &inventory->schema.routes;
	struct arena *arena = call->arena;
	struct route_list list = { .n = 0 };
	WITH_LOCK(&run->mu);

	if (!load_state_once(run, err))
		return false;
	sort_routes(run);
	list.routes = arena_calloc(arena, routes->n_fixed + run->n, sizeof(list.routes[0]));
	for (size_t i = 0; i < routes->n_fixed; i++) {
		const struct cl_route *fixed = &routes->fixed[i];

		list.routes[list.n++] = (struct route){
			.name = arena_str(arena, fixed->name),
			.target_node = arena_str(arena, fixed->target_node),
			.destination_cidr = cl_net_text(&fixed->destination, arena),
			.is_blackhole = !cl_machine_is_there(machine_by_name(inventory,
			                                                     fixed->target_node)),
			.is_fixed = true,
		};
	}
	for (size_t i = 0; i < run->n; i++) {
		const struct saved_route *r = run->all[i];
		const struct cl_machine *machine;

		if (!str_eq(r->cluster, run->cluster))
			continue;
		machine = r->machine.len > 0 ? map_get(&inventory->names.by_id, r->machine)
		                             : machine_by_name(inventory, r->target_node);
		if (!cl_machine_is_there(machine))
			machine = NULL;
		list.routes[list.n++] = (struct route){
			.name = arena_str(arena, r->name),
			.target_node = arena_str(arena, r->target_node),
			.destination_cidr = arena_str(arena, r->destination),
			.is_blackhole = !machine,
			/* also one for former addresses of the machine, so that the controller asks
			 * for it again */
			.is_unfinished = r->is_pending || (machine && !is_up_to_date(r, machine)),
		};
	}
	*ret = list;
	return true;
}

/* ---- hook ---- */

/* The hook's input, made before other threads have the route. */
static struct str
hook_input(struct arena *arena, const char *action, const struct saved_route *r)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(LIMIT_STATE_FILE);

	json_begin_object(&b, NULL);
	json_add_members(&b, JSON_TEXT("action", str_c(action)), JSON_TEXT("cluster", r->cluster));
	add_json(&b, r);
	json_end_object(&b);
	buf_add_char(&b, '\n');
	return arena_str(arena, buf_str(&b));
}

/* ---- creating ---- */

static struct saved_route *
route_new(const struct cl_routes_run *run, const struct node_ref *node,
          const struct cl_machine *machine, struct str hint, struct str destination)
{
	struct saved_route *r = xcalloc(1, sizeof(*r));

	r->cluster = arena_str(&r->arena, run->cluster);
	r->name = arena_printf(&r->arena, "%" STR_FMT "-%" STR_FMT, STR_ARG(run->cluster),
	                       STR_ARG(hint));
	r->target_node = arena_str(&r->arena, node->name);
	r->machine = arena_str(&r->arena, machine->id);
	r->destination = arena_str(&r->arena, destination);
	r->is_pending = run->hook != NULL;
	r->addresses = arena_calloc(&r->arena, machine->n_addresses, sizeof(*r->addresses));
	for (size_t i = 0; i < machine->n_addresses; i++) {
		const struct address *address = &machine->addresses[i];

		if (str_eq_c(address->type, "InternalIP"))
			r->addresses[r->n_addresses++] = arena_str(&r->arena, address->address);
	}
	return r;
}

static bool
fail_taken(struct arena *arena, struct str destination, struct str by, struct error *err)
{
	return err_set(err, ERR_EXISTS, "destination %s is already routed to %s",
	               quote_z(arena, destination), quote_z(arena, by));
}

static const struct cl_route *
find_static(const struct cl_inventory *inventory, struct str destination, struct arena *arena)
{
	const struct cl_routes *routes = &inventory->schema.routes;

	for (size_t i = 0; i < routes->n_fixed; i++) {
		if (str_eq(cl_net_text(&routes->fixed[i].destination, arena), destination))
			return &routes->fixed[i];
	}
	return NULL;
}

/* The route controller only asks for checked destinations. They are checked here again, because a
 * hook may change any route of the host. */
static bool
check_destination(const struct cl_routes_run *run, struct arena *arena, struct str destination,
                  struct ip_net *ret, struct error *err)
{
	const struct cloud_config *config = &run->cl->config;
	const char *quoted = quote_z(arena, destination);

	if (!ip_net_parse(destination, ret))
		return err_set(err, ERR_INVALID, "destination %s is not a CIDR", quoted);
	if (ip_net_has_host_bits(ret))
		return err_set(err, ERR_INVALID, "destination %s has host bits set", quoted);
	if (!ip_net_is_within_any(ret, config->cluster_cidrs, config->n_cluster_cidrs))
		return err_set(err, ERR_INVALID,
		               "destination %s is not contained within the cluster CIDR", quoted);
	return true;
}

/* The route of another node whose destination overlaps `net`; NULL: none. */
static const struct saved_route *
find_overlap(const struct cl_routes_run *run, struct str target_node, const struct ip_net *net)
{
	struct ip_net other;

	for (size_t i = 0; i < run->n; i++) {
		const struct saved_route *r = run->all[i];

		if (str_eq(r->cluster, run->cluster) && !str_eq(r->target_node, target_node) &&
		    ip_net_parse(r->destination, &other) &&
		    (ip_net_is_within(net, &other) || ip_net_is_within(&other, net)))
			return r;
	}
	return NULL;
}

/* Takes ownership of `wanted`, whose destination is `net`. Saves it in the place of a route to the
 * same destination, unless that one is the same already: then *ret_is_done says whether its hook
 * has succeeded. Refused if the route of another node overlaps. */
static bool
save_wanted(struct cl_routes_run *run, struct arena *arena, struct saved_route *wanted,
            const struct ip_net *net, const struct cl_machine *machine, bool *ret_is_done,
            struct error *err)
{
	CLEANUP(route_freep) struct saved_route *unused = wanted;
	const struct saved_route *overlap;
	struct saved_route *former;
	WITH_LOCK(&run->mu);

	if (!load_state_once(run, err))
		return false;
	overlap = find_overlap(run, wanted->target_node, net);
	if (overlap)
		return fail_taken(arena, wanted->destination, overlap->target_node, err);
	former = find_route(run, wanted->destination);
	if (former && is_up_to_date(former, machine)) {
		*ret_is_done = !former->is_pending;
		return true;
	}
	wanted->is_made = former && former->is_made;
	return replace_route(run, former, TAKE(unused), err);
}

/* After success the route counts as made. After a failure it is removed, unless it was made before:
 * then the former route may still exist, and what was saved is needed for its `route-delete`. */
static bool
set_hook_result(struct cl_routes_run *run, struct str destination, bool is_good, struct error *err)
{
	struct saved_route *r;
	bool is_saved;
	WITH_LOCK(&run->mu);

	r = find_route(run, destination);
	if (!r)
		return true;
	r->is_pending = !is_good;
	r->is_made |= is_good;
	if (r->is_made)
		is_saved = save_routes(run, err);
	else
		is_saved = remove_route(run, r, err);
	if (!is_saved)
		r->is_pending = true; /* so that the controller asks for it again */
	return is_saved;
}

static bool
run_ensure_hook(struct cl_routes_run *run, struct call *call, struct str destination,
                struct str input, struct error *err)
{
	struct error ignored;

	if (cl_hook_run(run->hook, call, "route-ensure", input, err))
		return set_hook_result(run, destination, /*is_good=*/true, err);
	if (err->code != ERR_CANCELLED &&
	    !set_hook_result(run, destination, /*is_good=*/false, &ignored))
		log_debug("a route hook's failure cannot be written to the state file, ignoring",
		          LOG_ERR(&ignored));
	return false;
}

/* ERR_INVALID: the node is not a machine of the inventory, or the destination is not within
 * --cluster-cidr. ERR_EXISTS: another node has a route to an overlapping destination. */
static bool
cl_routes_create(struct cloud *cloud, struct call *call, const struct node_ref *node,
                 struct str hint, struct str destination, struct error *err)
{
	struct cl_routes_run *run = cloudlycke_of(cloud)->routes;
	CLEANUP(cl_inventory_unrefp)
	struct cl_inventory *inventory = cl_loader_inventory(run->cl->loader, NULL);
	const struct cl_machine *machine = machine_of_node(inventory, node);
	const struct cl_route *fixed = find_static(inventory, destination, call->arena);
	struct saved_route *wanted;
	bool is_done = false;
	struct ip_net net;
	struct str input;

	if (!cl_machine_is_there(machine))
		return err_set(err, ERR_INVALID, "target node %s is not a machine",
		               quote_z(call->arena, node->name));
	if (fixed && str_eq(fixed->target_node, node->name))
		return true;
	if (fixed)
		return fail_taken(call->arena, destination, fixed->target_node, err);
	if (!check_destination(run, call->arena, destination, &net, err))
		return false;
	wanted = route_new(run, node, machine, hint, destination);
	input = hook_input(call->arena, "route-ensure", wanted);
	if (!save_wanted(run, call->arena, wanted, &net, machine, &is_done, err))
		return false;
	if (is_done || !run->hook)
		return true;
	return run_ensure_hook(run, call, destination, input, err);
}

/* ---- removing ---- */

static bool
cl_routes_remove(struct cloud *cloud, struct call *call, const struct route *route,
                 struct error *err)
{
	struct cl_routes_run *run = cloudlycke_of(cloud)->routes;
	struct str input = STR_EMPTY;
	struct saved_route *r;
	bool is_there;

	if (route->is_fixed)
		return err_set(err, ERR_INVALID, "route %s is static",
		               quote_z(call->arena, route->name));
	mutex_lock(&run->mu);
	r = find_route(run, route->destination_cidr);
	is_there = r && str_eq(r->target_node, route->target_node); /* or it is another node's */
	if (is_there)
		input = hook_input(call->arena, "route-delete", r);
	mutex_unlock(&run->mu);
	if (!is_there)
		return true;
	if (run->hook && !cl_hook_run(run->hook, call, "route-delete", input, err))
		return false;

	WITH_LOCK(&run->mu);
	r = find_route(run, route->destination_cidr);
	return !r || remove_route(run, r, err);
}

/* ---- the table ---- */

static unsigned
cl_routes_families(struct cloud *cloud)
{
	(void)cloud;
	return 3;
}

static const struct route_ops route_ops = {
	.families = cl_routes_families,
	.list = cl_routes_list,
	.create = cl_routes_create,
	.remove = cl_routes_remove,
};

/* ---- life cycle ---- */

void
cl_routes_open(struct cloudlycke *cl, const struct cl_routes *config, const struct cloud_host *host)
{
	struct cl_routes_run *run;

	if (!config->is_present)
		return;
	run = xcalloc(1, sizeof(*run));
	*run = (struct cl_routes_run){ .cl = cl, .cluster = str_c(cl->config.cluster_name) };
	if (config->hook.len > 0)
		run->hook = cl_hook_new(config->hook, config->hook_timeout_ns, "route", host);
	mutex_init(&run->mu);
	cl->routes = run;
	cl->cloud.routes = &route_ops;
}

void
cl_routes_close(struct cl_routes_run *run)
{
	if (!run)
		return;
	cl_hook_free(run->hook);
	for (size_t i = 0; i < run->n; i++)
		route_free(run->all[i]);
	free(run->all);
	mutex_destroy(&run->mu);
	free(run);
}
