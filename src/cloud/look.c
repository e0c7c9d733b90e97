/* cloud/look.c: the answer of a look: made by a provider with look(), or here from the machines
 * that another provider lists, and read by any number of controllers.
 *
 * Every instance starts as UNKNOWN with an error, so that a provider that forgets one cannot get a
 * node deleted.
 */
#include "cloud/cloud.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/rand.h"
#include "cloud/host.h"
#include "cloud/rest.h"

/* ---- an answer ---- */

struct look *
look_new(size_t n, int64_t started_boot_ns)
{
	struct look *look = xcalloc(1, sizeof(*look));

	ref_init(&look->refs);
	look->instances = arena_calloc(&look->arena, n, sizeof(look->instances[0]));
	look->n = n;
	look->started_boot_ns = started_boot_ns;
	for (size_t i = 0; i < n; i++) {
		look->instances[i] = (struct instance){
			.presence = PRESENCE_UNKNOWN,
			.error_code = ERR_INTERNAL,
			.error = STR("the cloud provider gave no result"),
			.provider_id = STR_EMPTY,
			.type = STR_EMPTY,
			.zone = STR_EMPTY,
			.region = STR_EMPTY,
		};
	}
	return look;
}

struct look *
look_ref(struct look *look)
{
	ref_take(&look->refs);
	return look;
}

void
look_unref(struct look *look)
{
	if (!look || !ref_drop(&look->refs))
		return;
	if (look->release)
		look->release(look->owner);
	arena_fini(&look->arena);
	free(look);
}

void
look_set_error(struct look *look, size_t i, enum presence presence, enum err_code code,
               struct str text)
{
	struct instance *instance = &look->instances[i];

	instance->presence = presence;
	instance->error_code = code;
	instance->error = arena_str(&look->arena, text);
}

/* ---- provider IDs ---- */

struct str
cloud_machine_id(const struct cloud *cloud, struct str provider_id)
{
	struct str prefix = str_c(cloud->ops->provider_id_prefix);

	return str_starts(provider_id, prefix) ? str_skip(provider_id, prefix.len) : STR_EMPTY;
}

bool
cloud_is_foreign(const struct cloud *cloud, struct str provider_id)
{
	return cloud->ops->provider_id_prefix && cloud_machine_id(cloud, provider_id).len == 0;
}

bool
cloud_can_find(struct cloud *cloud, struct str provider_id, unsigned *ret_realm)
{
	if (cloud->ops->can_find)
		return cloud->ops->can_find(cloud, provider_id, ret_realm);
	*ret_realm = 0;
	return !cloud_is_foreign(cloud, provider_id);
}

/* Does the provider ID have another prefix than those of this cloud? */
static bool
has_other_prefix(const struct cloud *cloud, const struct node_ref *ref)
{
	return cloud->ops->provider_id_prefix && ref->provider_id.len > 0 &&
	       !str_starts(ref->provider_id, str_c(cloud->ops->provider_id_prefix));
}

static void
set_foreign(struct look *look, size_t i, const struct cloud *cloud, const struct node_ref *ref)
{
	struct instance *instance = &look->instances[i];

	instance->presence = PRESENCE_FOREIGN;
	instance->error_code = ERR_INVALID;
	instance->error = arena_printf(&look->arena,
	                               "provider ID \"%" STR_FMT "\" does not begin with %s",
	                               STR_ARG(str_head(ref->provider_id, 200)),
	                               cloud->ops->provider_id_prefix);
}

/* ---- looks of a provider that lists its machines ---- */

enum {
	SINGLE_MAX = 3,     /* machines that are asked for one by one instead of by the list */
	CONFIRMED_MAX = 100 /* machines missing from a list that are asked for in one look */
};

struct list_look {
	struct cloud *cloud;
	struct call *call;
	const struct node_ref *refs;
	size_t n;
	struct look *look;
	struct machine_list list;
	struct map by_id, by_name;  /* of the list */
	struct map duplicate_names; /* a second machine with that name */
	size_t n_asked;             /* by id, so far */
};

struct machine *
machine_list_add(struct machine_list *list)
{
	ARRAY_PUSH(list->machines, list->n, list->cap, (struct machine){ 0 });
	return &list->machines[list->n - 1];
}

static void
set_present(struct list_look *p, size_t i, const struct machine *machine)
{
	const struct instance *from = &machine->instance;
	struct arena *arena = &p->look->arena;
	struct address *addresses = arena_calloc(arena, from->n_addresses, sizeof(*addresses));
	struct label *labels = arena_calloc(arena, from->n_labels, sizeof(*labels));

	for (size_t k = 0; k < from->n_addresses; k++)
		addresses[k] = (struct address){ arena_str(arena, from->addresses[k].type),
			                         arena_str(arena, from->addresses[k].address) };
	for (size_t k = 0; k < from->n_labels; k++)
		labels[k] = (struct label){ arena_str(arena, from->labels[k].key),
			                    arena_str(arena, from->labels[k].value) };
	p->look->instances[i] = (struct instance){
		.presence = PRESENCE_PRESENT,
		.power = from->power,
		.error = STR_EMPTY,
		.provider_id = arena_printf(arena, "%s%" STR_FMT, p->cloud->ops->provider_id_prefix,
		                            STR_ARG(machine->id)),
		.type = arena_str(arena, from->type),
		.zone = arena_str(arena, from->zone),
		.region = arena_str(arena, from->region),
		.addresses = addresses,
		.n_addresses = from->n_addresses,
		.labels = labels,
		.n_labels = from->n_labels,
	};
}

static void set_unknown(struct list_look *p, size_t i, enum err_code code, const char *fmt, ...)
	PRINTF_LIKE(4, 5);

static void
set_unknown(struct list_look *p, size_t i, enum err_code code, const char *fmt, ...)
{
	CLEANUP(buf_fini) struct buf why = BUF_INIT(ERR_MSG_SIZE);

	BUF_ADD_ARGS(&why, fmt);
	look_set_error(p->look, i, PRESENCE_UNKNOWN, code, buf_str(&why));
}

/* Asks the cloud for the machine with that id: only this shows that it does not exist. */
static void
ask_for(struct list_look *p, size_t i, struct str id)
{
	struct machine machine = { 0 };
	struct error err;

	if (!p->cloud->ops->get_machine || p->n_asked == CONFIRMED_MAX) {
		set_unknown(p, i, ERR_UNAVAILABLE,
		            "machine \"%" STR_FMT
		            "\" is not in the cloud's list, and was not requested",
		            STR_ARG(id));
		return;
	}
	p->n_asked++;
	rest_forget_answers(p->call);
	if (p->cloud->ops->get_machine(p->cloud, p->call, id, &machine, &err)) {
		machine.id = id;
		set_present(p, i, &machine);
		return;
	}
	rest_check_absence(p->call, /*is_search=*/false, &err);
	if (err.code == ERR_NOT_FOUND) {
		look_set_error(p->look, i, PRESENCE_ABSENT, ERR_NONE, STR_EMPTY);
		return;
	}
	set_unknown(p, i, err.code, "%s", err.msg);
	p->look->instances[i].is_outage = err.is_outage;
}

/* Has the node nothing but its name to find its machine by? */
static bool
is_named_only(const struct list_look *p, const struct node_ref *ref)
{
	return ref->provider_id.len == 0 && !p->cloud->ops->names_are_ids;
}

static void
find_by_id(struct list_look *p, size_t i)
{
	const struct node_ref *ref = &p->refs[i];
	struct str id = ref->provider_id.len > 0 ? cloud_machine_id(p->cloud, ref->provider_id)
	                                         : ref->name;
	const struct machine *machine = map_get(&p->by_id, id);

	if (id.len == 0)
		set_unknown(p, i, ERR_INVALID, "provider ID \"%" STR_FMT "\" has no machine id",
		            STR_ARG(ref->provider_id));
	else if (machine)
		set_present(p, i, machine);
	else
		ask_for(p, i, id);
}

static void
find_by_name(struct list_look *p, size_t i)
{
	struct str name = p->refs[i].name;
	const struct machine *machine = map_get(&p->by_name, name);
	const struct machine *second = map_get(&p->duplicate_names, name);

	if (second) /* which of them is the node's cannot be known */
		set_unknown(p, i, ERR_INVALID,
		            "node \"%" STR_FMT "\" matches several machines: %" STR_FMT
		            ", %" STR_FMT,
		            STR_ARG(name), STR_ARG(machine->id), STR_ARG(second->id));
	else if (machine)
		set_present(p, i, machine);
	else if (p->list.is_complete)
		look_set_error(p->look, i, PRESENCE_ABSENT, ERR_NONE, STR_EMPTY);
	else
		set_unknown(
			p, i, ERR_UNAVAILABLE,
			"no machine is named \"%" STR_FMT
			"\", but the cloud's list may be incomplete, since it changed meanwhile",
			STR_ARG(name));
}

static bool
read_list(struct list_look *p, struct error *err)
{
	const struct machine *other;
	bool has_named_only = false;
	size_t n_ids = 0;

	/* Asking for a few machines by id is cheaper than the list. Nodes that have only a name
	 * need it. */
	for (size_t i = 0; i < p->n; i++) {
		has_named_only |= is_named_only(p, &p->refs[i]);
		n_ids += !has_other_prefix(p->cloud, &p->refs[i]);
	}
	if (!has_named_only && (n_ids == 0 || (n_ids <= SINGLE_MAX && p->cloud->ops->get_machine)))
		return true;
	if (!p->cloud->ops->list_machines(p->cloud, p->call, &p->list, err))
		return err_wrap(err, "list machines");
	for (size_t i = 0; i < p->list.n; i++) {
		struct machine *machine = &p->list.machines[i];

		if (machine->id.len == 0) {
			p->list.is_complete = false;
			continue;
		}
		map_put(&p->by_id, machine->id, machine);
		other = map_get(&p->by_name, machine->name);
		if (!other)
			map_put(&p->by_name, machine->name, machine);
		else if (!str_eq(other->id, machine->id))
			map_put(&p->duplicate_names, machine->name, machine);
	}
	return true;
}

/* Anchors matter only where nothing else shows that the credentials are the right ones. */
static void
count_anchors(struct list_look *p)
{
	size_t n_absent = 0;
	struct error err;
	unsigned n;

	for (size_t i = 0; i < p->n; i++) {
		if (p->look->instances[i].presence == PRESENCE_PRESENT)
			return;
		n_absent += p->look->instances[i].presence == PRESENCE_ABSENT;
	}
	if (n_absent == 0 || !p->cloud->ops->count_anchors)
		return;
	if (p->cloud->ops->count_anchors(p->cloud, p->call, &n, &err))
		p->look->n_anchors = n;
	else
		p->look->anchors_error = arena_str(&p->look->arena, str_c(err.msg));
}

static bool
look_by_list(struct cloud *cloud, struct call *call, const struct node_ref refs[], size_t n,
             int64_t started_boot_ns, struct look **ret, struct error *err)
{
	struct list_look p = { .cloud = cloud,
		               .call = call,
		               .refs = refs,
		               .n = n,
		               .by_id = MAP_INIT,
		               .by_name = MAP_INIT,
		               .duplicate_names = MAP_INIT };
	/* One look asks for at most CONFIRMED_MAX machines by id. It begins with a random node,
	 * because in a large cluster a fixed order would never reach the last ones. */
	size_t first = n > 0 ? (size_t)rand_between(0, (int64_t)n) : 0;
	bool ok = read_list(&p, err);

	if (ok) {
		p.look = look_new(n, started_boot_ns);
		for (size_t k = 0; k < n; k++) {
			size_t i = (first + k) % n;

			if (has_other_prefix(cloud, &refs[i]))
				set_foreign(p.look, i, cloud, &refs[i]);
			else if (is_named_only(&p, &refs[i]))
				find_by_name(&p, i);
			else
				find_by_id(&p, i);
		}
		count_anchors(&p);
		*ret = p.look;
	}
	map_fini(&p.by_id);
	map_fini(&p.by_name);
	map_fini(&p.duplicate_names);
	free(p.list.machines);
	return ok;
}

/* ---- looks of a provider with look() ---- */

/* The provider gets the nodes of its cloud only; its answers are moved to the places that the nodes
 * have in refs. */
static bool
look_without_foreign(struct cloud *cloud, struct call *call, const struct node_ref refs[], size_t n,
                     int64_t not_before_boot_ns, struct look **ret, struct error *err)
{
	struct node_ref *own = arena_calloc(call->arena, n, sizeof(*own));
	struct instance *answers;
	size_t n_own = 0;
	struct look *look;

	for (size_t i = 0; i < n; i++) {
		if (!has_other_prefix(cloud, &refs[i]))
			own[n_own++] = refs[i];
	}
	if (n_own == 0)
		look = look_new(0, not_before_boot_ns);
	else if (!cloud->ops->look(cloud, call, own, n_own, not_before_boot_ns, &look, err))
		return false;
	answers = look->instances;
	look->instances = arena_calloc(&look->arena, n, sizeof(*answers));
	look->n = n;
	for (size_t i = 0, next = 0; i < n; i++) {
		if (has_other_prefix(cloud, &refs[i]))
			set_foreign(look, i, cloud, &refs[i]);
		else
			look->instances[i] = answers[next++];
	}
	*ret = look;
	return true;
}

/* Services are held until there is evidence of the right project. Any look that finds a machine by
 * its provider ID is such evidence. */
static bool
look_is_evidence(const struct look *look, const struct node_ref refs[], size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (refs[i].provider_id.len > 0 && look->instances[i].presence == PRESENCE_PRESENT)
			return true;
	}
	return false;
}

bool
cloud_look(struct cloud *cloud, struct call *call, const struct node_ref refs[], size_t n,
           int64_t not_before_boot_ns, struct look **ret, struct error *err)
{
	uint64_t since = login_count_replaced();
	bool is_good;

	if (!cloud->ops->look)
		is_good = look_by_list(cloud, call, refs, n, not_before_boot_ns, ret, err);
	else if (cloud->ops->provider_id_prefix)
		is_good = look_without_foreign(cloud, call, refs, n, not_before_boot_ns, ret, err);
	else
		is_good = cloud->ops->look(cloud, call, refs, n, not_before_boot_ns, ret, err);
	if (!is_good)
		return false;
	if (!login_check_same(since, err)) {
		look_unref(TAKE(*ret));
		return false;
	}
	if (!cloud->host || !look_is_evidence(*ret, refs, n))
		return true;
	atomic_store(&cloud->unproven_until_boot_ns, 0);
	if (atomic_exchange(&cloud->holds_services, false))
		cloud->host->requeue(cloud->host, HOST_REQUEUE_SERVICES, STR_EMPTY);
	return true;
}
