/* guard.c: see guard.h.
 *
 * Machines are compared by id: one that is renamed has changed, one with another id is another
 * machine. A terminated machine counts as one that is not listed.
 */
#include "providers/cloudlycke/guard.h"

static bool
strings_eq(const struct str_list *a, const struct str_list *b)
{
	bool is_eq = a->n == b->n;

	for (size_t i = 0; is_eq && i < a->n; i++)
		is_eq = str_eq(a->items[i], b->items[i]);
	return is_eq;
}

static bool
addresses_eq(const struct cl_machine *a, const struct cl_machine *b)
{
	bool is_eq = a->n_addresses == b->n_addresses;

	for (size_t i = 0; is_eq && i < a->n_addresses; i++)
		is_eq = str_eq(a->addresses[i].type, b->addresses[i].type) &&
		        str_eq(a->addresses[i].address, b->addresses[i].address);
	return is_eq;
}

static bool
labels_eq(const struct cl_machine *a, const struct cl_machine *b)
{
	bool is_eq = a->n_labels == b->n_labels;

	for (size_t i = 0; is_eq && i < a->n_labels; i++)
		is_eq = str_eq(a->labels[i].key, b->labels[i].key) &&
		        str_eq(a->labels[i].value, b->labels[i].value);
	return is_eq;
}

static bool
machine_eq(const struct cl_machine *a, const struct cl_machine *b)
{
	return str_eq(a->name, b->name) && str_eq(a->type, b->type) && str_eq(a->zone, b->zone) &&
	       str_eq(a->region, b->region) && str_eq(a->fault, b->fault) && a->power == b->power &&
	       strings_eq(&a->aliases, &b->aliases) && addresses_eq(a, b) && labels_eq(a, b);
}

void
cl_compare(const struct cl_inventory *before, const struct cl_inventory *after,
           struct cl_changes *ret)
{
	*ret = (struct cl_changes){ 0 };
	for (size_t i = 0; i < before->schema.n_machines; i++) {
		const struct cl_machine *old = &before->schema.machines[i];
		const struct cl_machine *new = cl_inventory_by_id(after, old->id);

		ret->n_before += cl_machine_is_there(old);
		if (cl_machine_is_there(old) && !cl_machine_is_there(new))
			ret->n_removed++;
		else if (cl_machine_is_there(old) && !machine_eq(old, new))
			ret->n_changed++;
	}
	for (size_t i = 0; i < after->schema.n_machines; i++) {
		const struct cl_machine *new = &after->schema.machines[i];

		ret->n_added += cl_machine_is_there(new) &&
		                !cl_machine_is_there(cl_inventory_by_id(before, new->id));
	}
}

bool
cl_guard(const struct cl_inventory *before, const struct cl_inventory *after,
         const struct cl_changes *changes, struct buf *why)
{
	int64_t limit = after->schema.reload.max_removal_percent;
	bool has_lost_end = (before->ends_with_line && !after->ends_with_line) ||
	                    (before->ends_with_mark && !after->ends_with_mark);

	if (changes->n_removed >= 2 && changes->n_removed * 100 > (size_t)limit * changes->n_before)
		buf_addf(
			why,
			"would remove %zu of %zu machines (limit %d%%); set reload.maxRemoval to allow",
			changes->n_removed, changes->n_before, (int)limit);
	else if (changes->n_removed > 0 && has_lost_end)
		buf_addf(
			why,
			"would remove %zu of %zu machines, and the file seems cut short: it does not end with %s any more",
			changes->n_removed, changes->n_before,
			after->ends_with_line || !before->ends_with_line ? "\"...\""
									 : "a line break");
	else
		return true;
	return false;
}

/* ---- pools ---- */

static bool
blocks_eq(const struct cl_blocks *a, const struct cl_blocks *b)
{
	bool is_eq = a->n == b->n;

	for (size_t i = 0; is_eq && i < a->n; i++)
		is_eq = ip_eq(&a->items[i].first, &b->items[i].first) &&
		        ip_eq(&a->items[i].last, &b->items[i].last) &&
		        a->items[i].has_edges == b->items[i].has_edges;
	return is_eq;
}

static bool
pool_eq(const struct cl_pool *a, const struct cl_pool *b)
{
	return str_eq(a->name, b->name) && blocks_eq(&a->addresses, &b->addresses) &&
	       blocks_eq(&a->avoid, &b->avoid) && a->avoids_edges == b->avoids_edges &&
	       a->is_default == b->is_default && strings_eq(&a->namespaces, &b->namespaces) &&
	       str_eq(a->hostname_template, b->hostname_template) && a->ip_mode == b->ip_mode;
}

bool
cl_pools_eq(const struct cl_schema *a, const struct cl_schema *b)
{
	bool is_eq = a->n_pools == b->n_pools;

	for (size_t i = 0; is_eq && i < a->n_pools; i++)
		is_eq = pool_eq(&a->pools[i], &b->pools[i]);
	return is_eq;
}

/* ---- what is fixed at start ---- */

static void
add_if(struct buf *b, bool differs, const char *field)
{
	if (differs)
		buf_addf(b, "%s%s", b->len > 0 ? "," : "", field);
}

static bool
haproxy_eq(const struct cl_haproxy_config *a, const struct cl_haproxy_config *b)
{
	return a->is_present == b->is_present && str_eq(a->file, b->file) &&
	       str_eq(a->stats_socket, b->stats_socket) && strings_eq(&a->check, &b->check) &&
	       strings_eq(&a->reload, &b->reload);
}

void
cl_changes_at_restart(const struct cl_schema *before, const struct cl_schema *after, struct buf *b)
{
	const struct cl_reload *reload = &before->reload;
	const struct cl_balancers *balancers = &before->balancers;
	const struct cl_routes *routes = &before->routes;

	add_if(b, !str_eq(before->state.file, after->state.file), "state.file");
	add_if(b, reload->is_enabled != after->reload.is_enabled, "reload.enabled");
	add_if(b, reload->debounce_ns != after->reload.debounce_ns, "reload.debounce");
	add_if(b, reload->poll_ns != after->reload.poll_ns, "reload.poll");
	add_if(b, balancers->is_present != after->balancers.is_present, "loadBalancers");
	add_if(b, !str_eq(balancers->hook, after->balancers.hook), "loadBalancers.hook");
	add_if(b, balancers->hook_timeout_ns != after->balancers.hook_timeout_ns,
	       "loadBalancers.hookTimeout");
	add_if(b, balancers->is_local_only != after->balancers.is_local_only,
	       "loadBalancers.localOnly");
	add_if(b, !haproxy_eq(&balancers->haproxy, &after->balancers.haproxy),
	       "loadBalancers.haproxy");
	add_if(b, routes->is_present != after->routes.is_present, "routes");
	add_if(b, !str_eq(routes->hook, after->routes.hook), "routes.hook");
	add_if(b, routes->hook_timeout_ns != after->routes.hook_timeout_ns, "routes.hookTimeout");
}
