/* operator/facts.c: see facts.h. */
#include "operator/facts.h"

#include <string.h>

#include "base/ip.h"
#include "base/limits.h"
#include "controllers/describe.h"
#include "controllers/service/service.h"
#include "controllers/service/targets.h"

enum {
	MAX_DIFFERENCES = 5, /* in one text */
};

/* ---- nodes ---- */

struct node_facts
facts_of_node(const struct node *node, const struct instance *machine, struct arena *arena)
{
	struct node_facts ret = {
		.node = node,
		.machine = machine,
		.labels = { { "type", "node.kubernetes.io/instance-type",
		              "beta.kubernetes.io/instance-type",
		              .wanted = machine ? machine->type : STR_EMPTY },
		            { "zone", "topology.kubernetes.io/zone",
		              "failure-domain.beta.kubernetes.io/zone",
		              .wanted = machine ? machine->zone : STR_EMPTY },
		            { "region", "topology.kubernetes.io/region",
		              "failure-domain.beta.kubernetes.io/region",
		              .wanted = machine ? machine->region : STR_EMPTY } },
	};

	if (machine && machine->presence == PRESENCE_PRESENT &&
	    addresses_plan(node, machine, arena, &ret.wanted, &ret.addresses_err))
		ret.has_other_addresses = ret.wanted.n > 0 &&
		                          !addresses_equal(ret.wanted.items, ret.wanted.n,
		                                           node->addresses, node->n_addresses);
	for (size_t i = 0; i < FACTS_LABELS; i++) {
		struct label_facts *label = &ret.labels[i];
		const struct str *has = node_label(node, str_c(label->key));

		label->has = has ? *has : STR_EMPTY;
		label->differs = label->wanted.len > 0 && !(has && str_eq(*has, label->wanted));
	}
	return ret;
}

struct str
facts_addresses(struct arena *arena, const struct address *addresses, size_t n)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(8));

	for (size_t i = 0; i < n; i++)
		buf_addf(&text, "%s%" STR_FMT " %" STR_FMT, i > 0 ? ", " : "",
		         STR_ARG(addresses[i].type), STR_ARG(addresses[i].address));
	return arena_str(arena, buf_str(&text));
}

/* ---- near misses ---- */

/* Is the machine found by the provider ID of a node? */
static bool
is_of_node(const struct view *v, const struct machine *machine)
{
	for (size_t i = 0; i < v->nodes.n; i++) {
		if (str_eq(node_provider_id(v->nodes.items[i]), machine->instance.provider_id))
			return true;
	}
	return false;
}

/* The address of the node that is one of the machine's, too; empty: none is. */
static struct str
common_address(const struct node *node, const struct machine *machine)
{
	const struct str *provided = node_annotation(node, STR(NODE_ANNOTATION_PROVIDED_IP));

	for (size_t i = 0; i < machine->instance.n_addresses; i++) {
		struct str address = machine->instance.addresses[i].address;
		struct ip ip;

		if (!ip_parse(address, &ip))
			continue;
		if (provided && str_eq(*provided, address))
			return address;
		for (uint32_t j = 0; j < node->n_addresses; j++) {
			if (str_eq(node->addresses[j].address, address))
				return address;
		}
	}
	return STR_EMPTY;
}

/* Is one name the other one within a domain, or does it have dashes in place of dots? */
static bool
is_similar_name(struct str a, struct str b)
{
	struct str label, rest;
	size_t i = 0;

	if ((str_cut(a, '.', &label, &rest) && str_eq(label, b)) ||
	    (str_cut(b, '.', &label, &rest) && str_eq(label, a)))
		return true;
	while (i < a.len && i < b.len &&
	       (a.ptr[i] == b.ptr[i] ||
	        (strchr(".-_", a.ptr[i]) != NULL && strchr(".-_", b.ptr[i]) != NULL)))
		i++;
	return i == a.len && i == b.len;
}

bool
facts_find_near_machine(struct view *v, const struct node *node, struct near_machine *ret)
{
	struct str name = node_name(node);

	*ret = (struct near_machine){ .why = STR_EMPTY };
	for (size_t i = 0; i < v->machines.n; i++) {
		const struct machine *machine = &v->machines.machines[i];
		struct str address = common_address(node, machine);
		bool has_name = str_eq(machine->name, name);

		if ((address.len == 0 && !has_name && !is_similar_name(machine->name, name)) ||
		    is_of_node(v, machine))
			continue;
		if (address.len > 0) {
			*ret = (struct near_machine){
				machine, arena_printf(&v->arena, "has its address %" STR_FMT,
				                      STR_ARG(address))
			};
			return true;
		}
		if (has_name || !ret->machine)
			*ret = (struct near_machine){ machine,
				                      has_name ? STR("has its name")
				                               : STR("has a similar name") };
	}
	return ret->machine != NULL;
}

const struct machine *
facts_machine_at(const struct view *v, struct str address)
{
	for (size_t i = 0; i < v->machines.n; i++) {
		const struct machine *machine = &v->machines.machines[i];

		for (size_t j = 0; j < machine->instance.n_addresses; j++) {
			if (str_eq(machine->instance.addresses[j].address, address))
				return machine;
		}
	}
	return NULL;
}

/* ---- Services ---- */

/* Collects the changes of one trial. */
struct collector {
	struct dry_run run;
	struct service_trial *trial;
	struct buf text;
	struct arena *arena; /* for texts that stay */
	size_t n;            /* differences */
};

static void
collect(struct dry_run *run, const struct dry_item *item, const struct dry_change *change)
{
	static const char *const verbs[] = {
		[DRY_CREATE] = "created", [DRY_CHANGE] = "changed", [DRY_DELETE] = "deleted"
	};
	struct collector *c = CONTAINER_OF(run, struct collector, run);
	bool is_balancer = str_eq_c(str_c(change->what), "load balancer");
	struct buf *b = &c->text;

	(void)item;
	if (!change->is_cloud)
		return;
	c->trial->is_new |= is_balancer && change->verb == DRY_CREATE;
	for (size_t i = 0; i < change->n_fields; i++) {
		struct str name = change->fields[i].name, old = change->fields[i].old,
			   new = change->fields[i].new;

		c->trial->has_values |= old.len > 0 && new.len > 0;
		if (c->n++ >= MAX_DIFFERENCES)
			continue;
		buf_add_c(b, b->len > 0 ? "; " : "");
		if (!is_balancer)
			buf_addf(b, "%s: ", change->what);
		if (old.len == 0)
			buf_addf(b, "%" STR_FMT " %" STR_FMT " is missing", STR_ARG(name),
			         STR_ARG(new));
		else if (new.len == 0)
			buf_addf(b, "%" STR_FMT " %" STR_FMT " is not requested", STR_ARG(name),
			         STR_ARG(old));
		else
			buf_addf(b, "%" STR_FMT " is %" STR_FMT " instead of %" STR_FMT,
			         STR_ARG(name), STR_ARG(old), STR_ARG(new));
	}
	if (change->n_fields == 0)
		buf_addf(b, "%s%s would be %s", b->len > 0 ? "; " : "", change->what,
		         verbs[change->verb]);
}

/* If there are several, only the first is kept: one is enough to report. */
static void
collect_kept(struct dry_run *run, const struct dry_item *item, const struct error *why)
{
	struct collector *c = CONTAINER_OF(run, struct collector, run);

	(void)item;
	if (c->trial->kept.len == 0)
		c->trial->kept = arena_str(c->arena, str_c(why->msg));
}

/* A part that the cloud would refuse is left out of the changes. Any other failure means that they
 * are not all known. */
static void
collect_failed(struct dry_run *run, const struct dry_item *item, const struct error *err)
{
	struct collector *c = CONTAINER_OF(run, struct collector, run);

	(void)item;
	if (err->code == ERR_INVALID || err->code == ERR_NOT_FOUND)
		return;
	c->trial->code = err->code;
	c->trial->error = arena_str(c->arena, str_c(err->msg));
}

static struct target_list
select_targets(struct view *v, const struct lb_spec *spec, struct arena *arena)
{
	if (!v->targets)
		v->targets = targets_new(v->nodes.store);
	return targets_select(v->targets, v->cloud, spec, arena);
}

static void
try_service(struct view *v, struct service_trial *trial)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct collector c = {
		.run = { .note = collect, .failed = collect_failed, .kept = collect_kept },
		.trial = trial,
		.text = BUF_INIT(LIMIT_EVENT_MESSAGE),
		.arena = &v->arena
	};
	struct dry_item item = { .run = &c.run,
		                 .kind = "service",
		                 .name = trial->service->object.key,
		                 .version = STR_EMPTY };
	struct lb_spec spec = service_spec(trial->service, v->options->cluster_name, &arena);
	CLEANUP(target_list_fini)
	struct target_list nodes = select_targets(v, &spec, &arena);
	struct call call = v->call;
	struct lb_status status;
	enum lb_outcome outcome;
	struct error err = { .code = ERR_NONE };

	call.arena = &arena;
	call.dry = &item;
	spec.nodes = nodes.refs;
	spec.n_nodes = nodes.n;
	trial->error = trial->kept = STR_EMPTY;
	if (!balancer_ensure(v->cloud, &call, &spec, &outcome, &status, &err)) {
		trial->code = err.code;
		trial->error = arena_str(&v->arena, str_c(err.msg));
	}
	if (c.n > MAX_DIFFERENCES)
		buf_addf(&c.text, "; and %zu more", c.n - MAX_DIFFERENCES);
	trial->changes = arena_str(&v->arena, buf_str(&c.text));
	buf_fini(&c.text);
}

bool
facts_try_services(struct view *v, struct error *err)
{
	if (!view_need(v, VIEW_CLOUD | VIEW_SERVICES | VIEW_NODES, err) ||
	    !service_adopt_all(v->cloud, &v->call, v->services.store, v->options->cluster_name,
	                       err))
		return false;
	v->trials = arena_calloc(&v->arena, v->services.n + 1, sizeof(*v->trials));
	for (size_t i = 0; i < v->services.n; i++) {
		const struct service *s = v->services.items[i];

		if (!service_wants_balancer(s) || s->is_deleting ||
		    (v->ask.what && !str_eq(v->ask.what->key, s->object.key)))
			continue;
		v->trials[v->n_trials].service = s;
		try_service(v, &v->trials[v->n_trials++]);
	}
	return true;
}

size_t
facts_count_targets(struct view *v, const struct service *s, const struct view_endpoints *endpoints)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct lb_spec spec = service_spec(s, v->options->cluster_name, &arena);
	CLEANUP(target_list_fini)
	struct target_list targets = select_targets(v, &spec, &arena);
	size_t n = 0;

	/* both are sorted by name */
	for (size_t i = 0, next = 0; i < v->nodes.n && next < targets.n; i++) {
		if (!str_eq(v->nodes.refs[i].name, targets.refs[next].name))
			continue;
		next++;
		n += !v->nodes.refs[i].is_new && (!endpoints || endpoints->is_on_node[i]);
	}
	return n;
}

bool
facts_is_of_service(const struct lb_listed *one, const struct service *s)
{
	return one->uid.len > 0 ? str_eq(one->uid, s->object.uid)
	                        : str_eq(one->service, s->object.key);
}

bool
facts_releases_service(struct view *v, const struct service *s)
{
	const struct balancer_ops *ops = v->cloud->balancers;
	struct error ignored;

	if (!s->has_class)
		return true;
	/* what cannot be seen may exist */
	if (!ops || (!ops->list && !ops->list_local) || !view_need(v, VIEW_BALANCERS, &ignored))
		return ops != NULL;
	for (size_t i = 0; i < v->n_balancers; i++) {
		if (facts_is_of_service(&v->balancers[i], s))
			return true;
	}
	return false;
}

/* ---- routes ---- */

const struct node *
facts_owner_of_cidr(const struct view *v, struct str cidr)
{
	const struct route_node *routed = v->route_run.nodes;
	const struct node *owner = NULL;

	for (size_t i = 0; i < v->nodes.n; i++) {
		const struct node *node = v->nodes.items[i];

		for (size_t j = 0; routed && j < routed[i].n_pod_cidrs; j++) {
			if (str_eq(routed[i].pod_cidrs[j], cidr))
				return node;
		}
		for (uint32_t j = 0; j < node->n_pod_cidrs; j++) {
			if (str_eq(node->pod_cidrs[j], cidr) &&
			    (!owner || node->created_wall_ns < owner->created_wall_ns))
				owner = node;
		}
	}
	return owner;
}

const struct route *
facts_route_to(const struct view *v, struct str cidr)
{
	for (size_t i = 0; i < v->routes.n; i++) {
		if (str_eq(v->routes.routes[i].destination_cidr, cidr))
			return &v->routes.routes[i];
	}
	return NULL;
}
