/* operator/check_nodes.c: the nodes, compared with their machines. */
#include "base/map.h"
#include "base/names.h"
#include "controllers/node/addresses.h"
#include "operator/doctor.h"

enum {
	NEW_S = 60, /* an uninitialised node is reported when it is older */
};

/* The nodes, and the look for their machines. */
struct machines {
	const struct view_nodes *nodes;
	const struct look *look;
	struct cloud *cloud;
};

bool
doctor_get_nodes(struct doctor *d, struct report *r, const struct view_nodes **ret)
{
	struct error err;

	if (view_nodes(d->view, ret, &err))
		return true;
	report_unknown(r, &err);
	return false;
}

bool
doctor_is_unanswered(struct report *r, const struct node *node, const struct instance *instance)
{
	struct error err;

	if (instance->presence != PRESENCE_UNKNOWN || instance->error_code == ERR_INVALID)
		return false;
	if (instance->error_code == ERR_EXISTS)
		return true; /* reported by check_duplicate_ids() */
	err_set(&err, instance->error_code, "%" STR_FMT, STR_ARG(instance->error));
	report_unknown_about(r, "node", node_name(node), &err);
	return true;
}

static bool
get_machines(struct doctor *d, struct report *r, struct machines *ret)
{
	struct error err;

	if (view_nodes(d->view, &ret->nodes, &err) && view_cloud(d->view, &ret->cloud, &err) &&
	    view_look(d->view, &ret->look, &err))
		return true;
	report_unknown(r, &err);
	return false;
}

/* The machine of an initialised node; NULL: its machine was not found, or the node is not
 * initialised. check_new_nodes() and check_kubelets() report such nodes, and their initialisation
 * sets what is missing. */
static const struct instance *
instance_of(const struct machines *m, struct report *r, size_t i)
{
	const struct instance *instance = &m->look->instances[i];
	const struct node *node = m->nodes->items[i];

	if (node_is_new(node) || node_provider_id(node).len == 0 ||
	    doctor_is_unanswered(r, node, instance) || instance->presence != PRESENCE_PRESENT)
		return NULL;
	return instance;
}

static int64_t
age_s(struct doctor *d, const struct node *node)
{
	return view_now_s(d->view) - node->created_wall_ns / NS_PER_SEC;
}

static void
find_wrong_node_ip(struct report *r, const struct node *node, const struct error *err)
{
	report_fix(r, report_find(r, "node", node_name(node), "%s", err->msg),
	           "start its kubelet with a --node-ip that the machine has in the cloud");
}

/* ---- kubelets ---- */

void
check_kubelets(struct doctor *d, struct report *r)
{
	const struct view_nodes *nodes;

	if (!doctor_get_nodes(d, r, &nodes))
		return;
	for (size_t i = 0; i < nodes->n; i++) {
		const struct node *node = nodes->items[i];

		if (node_provider_id(node).len > 0 || node_is_new(node))
			continue;
		report_fix(
			r,
			report_find(r, "node", node_name(node),
		                    "it has neither a provider ID nor the taint of new nodes"),
			"start its kubelet with --cloud-provider=external, then: kubectl taint node %" STR_FMT
			" " NODE_TAINT_UNINITIALIZED "=true:NoSchedule",
			STR_ARG(node_name(node)));
	}
}

/* ---- new nodes ---- */

static void
find_new_node(struct doctor *d, struct report *r, const struct node *node,
              const struct instance *instance)
{
	struct call *call = view_call(d->view);
	struct address_list addresses;
	struct finding *finding;
	struct error err;

	switch (instance->presence) {
	case PRESENCE_ABSENT:
		finding = report_find(r, "node", node_name(node),
		                      "the cloud has no machine for it");
		report_fix(
			r, finding,
			"give the machine the name of the node, or start the kubelet with --hostname-override or --provider-id");
		return;
	case PRESENCE_FOREIGN:
	case PRESENCE_UNKNOWN:
		report_find(r, "node", node_name(node), "%" STR_FMT, STR_ARG(instance->error));
		return;
	case PRESENCE_PRESENT:
		break;
	}
	if (!addresses_plan(node, instance, call->arena, &addresses, &err)) {
		find_wrong_node_ip(r, node, &err);
	} else if (age_s(d, node) > NEW_S) {
		finding = report_find(
			r, "node", node_name(node),
			"its machine is found, but nothing has initialised it for %lld s",
			(long long)age_s(d, node));
		report_fix(r, finding, "see the checks of the leader election and of the rights");
	}
}

void
check_new_nodes(struct doctor *d, struct report *r)
{
	struct machines m;

	if (!get_machines(d, r, &m))
		return;
	for (size_t i = 0; i < m.nodes->n; i++) {
		const struct node *node = m.nodes->items[i];
		const struct instance *instance = &m.look->instances[i];

		if (node_is_new(node) && !doctor_is_unanswered(r, node, instance))
			find_new_node(d, r, node, instance);
	}
}

/* ---- provider IDs ---- */

void
check_foreign_ids(struct doctor *d, struct report *r)
{
	struct machines m;

	if (!get_machines(d, r, &m))
		return;
	for (size_t i = 0; i < m.nodes->n; i++) {
		const struct node *node = m.nodes->items[i];

		if (node_is_new(node) || m.look->instances[i].presence != PRESENCE_FOREIGN)
			continue;
		report_fix(
			r,
			report_find(r, "node", node_name(node),
		                    "its provider ID %" STR_FMT " belongs to another cloud",
		                    STR_ARG(node_provider_id(node))),
			"if that is not intended, delete the node, correct --provider-id, and start its kubelet again");
	}
}

void
check_duplicate_ids(struct doctor *d, struct report *r)
{
	CLEANUP(map_fini) struct map first = MAP_INIT;
	const struct view_nodes *nodes;

	if (!doctor_get_nodes(d, r, &nodes))
		return;
	for (size_t i = 0; i < nodes->n; i++) {
		const struct node *node = nodes->items[i], *other;

		if (node_provider_id(node).len == 0)
			continue;
		other = map_get(&first, node_provider_id(node));
		if (!other) {
			map_put(&first, node_provider_id(node), (void *)(uintptr_t)node);
			continue;
		}
		report_fix(
			r,
			report_find(r, "node", node_name(node),
		                    "it has the provider ID %" STR_FMT " of node %" STR_FMT,
		                    STR_ARG(node_provider_id(node)), STR_ARG(node_name(other))),
			"if one of the two nodes is not Ready, delete it: kubectl delete node NAME; "
			"if both are, one of their kubelets has the wrong --provider-id: correct it, "
			"delete its node, and start it again");
	}
}

void
check_absent_machines(struct doctor *d, struct report *r)
{
	struct finding *finding;
	struct machines m;
	bool has_any;

	if (!get_machines(d, r, &m))
		return;
	has_any = m.look->n_anchors > 0;
	for (size_t i = 0; i < m.look->n; i++)
		has_any |= m.look->instances[i].presence == PRESENCE_PRESENT;
	for (size_t i = 0; i < m.nodes->n; i++) {
		const struct node *node = m.nodes->items[i];

		if (node_is_new(node) || node_provider_id(node).len == 0 ||
		    doctor_is_unanswered(r, node, &m.look->instances[i]) ||
		    m.look->instances[i].presence != PRESENCE_ABSENT)
			continue;
		finding = report_find(r, "node", node_name(node), "its machine is gone%s",
		                      node->ready == NODE_READY_TRUE
		                              ? ", but its kubelet reports it as Ready"
		                              : "; ccmd deletes the node when that is proven");
		if (has_any)
			report_fix(
				r, finding,
				"wait for some minutes; if the node stays although its machine is gone: kubectl delete node %" STR_FMT,
				STR_ARG(node_name(node)));
		else
			report_fix(
				r, finding,
				"delete no node before it is certain that these credentials are those of the cluster's project: they find no machine of any node (CCMD031)");
	}
}

void
check_stopped_machines(struct doctor *d, struct report *r)
{
	struct machines m;

	if (!get_machines(d, r, &m))
		return;
	for (size_t i = 0; i < m.nodes->n; i++) {
		const struct instance *instance = instance_of(&m, r, i);
		const struct node *node = m.nodes->items[i];

		if (!instance || instance->power != POWER_OFF || node->ready == NODE_READY_TRUE)
			continue;
		report_fix(
			r,
			report_find(r, "node", node_name(node),
		                    "it is not Ready, and its machine is switched off"),
			"start the machine, or delete it if it is not needed any more: ccmd then deletes the node");
	}
}

/* ---- addresses and labels ---- */

static void
add_addresses(struct buf *b, const struct address *addresses, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_addf(b, "%s%" STR_FMT " %" STR_FMT, i > 0 ? ", " : "",
		         STR_ARG(addresses[i].type), STR_ARG(addresses[i].address));
	if (n == 0)
		buf_add_c(b, "none");
}

static void
compare_addresses(struct doctor *d, struct report *r, const struct node *node,
                  const struct instance *instance)
{
	CLEANUP(buf_fini) struct buf has = BUF_INIT(KIB(1));
	CLEANUP(buf_fini) struct buf wanted = BUF_INIT(KIB(1));
	struct address_list list;
	struct error err;

	if (!addresses_plan(node, instance, view_call(d->view)->arena, &list, &err)) {
		find_wrong_node_ip(r, node, &err);
		return;
	}
	if (list.n == 0 || addresses_equal(list.items, list.n, node->addresses, node->n_addresses))
		return;
	add_addresses(&has, node->addresses, node->n_addresses);
	add_addresses(&wanted, list.items, list.n);
	report_fix(
		r,
		report_find(r, "node", node_name(node), "it has %s; the cloud says %s", has.ptr,
	                    wanted.ptr),
		"wait for the next comparison (--node-status-update-frequency); if the difference stays, read ccmd's log");
}

void
check_addresses(struct doctor *d, struct report *r)
{
	struct machines m;

	if (!get_machines(d, r, &m))
		return;
	for (size_t i = 0; i < m.nodes->n; i++) {
		const struct instance *instance = instance_of(&m, r, i);

		if (instance)
			compare_addresses(d, r, m.nodes->items[i], instance);
	}
}

/* ccmd sets a label to the value of its beta name, if the node has that one, so both are set. */
static void
compare_label(struct report *r, const struct node *node, const char *beta, const char *key,
              struct str wanted)
{
	const struct str *has = node_label(node, str_c(key));
	struct finding *finding;

	if (wanted.len == 0 || (has && str_eq(*has, wanted)))
		return;
	finding = report_find(r, "node", node_name(node),
	                      "label %s is \"%" STR_FMT "\"; the cloud says \"%" STR_FMT "\"", key,
	                      STR_ARG(has ? *has : STR_EMPTY), STR_ARG(wanted));
	if (!name_is_label_value(wanted))
		report_fix(r, finding, "no label can have this value: change it in the cloud");
	else if (node_label(node, str_c(beta)))
		report_command(r, finding,
		               "kubectl label node %" STR_FMT " --overwrite %s=%" STR_FMT
		               " %s=%" STR_FMT,
		               STR_ARG(node_name(node)), beta, STR_ARG(wanted), key,
		               STR_ARG(wanted));
	else
		report_command(r, finding,
		               "kubectl label node %" STR_FMT " --overwrite %s=%" STR_FMT,
		               STR_ARG(node_name(node)), key, STR_ARG(wanted));
}

void
check_labels(struct doctor *d, struct report *r)
{
	struct machines m;

	if (!get_machines(d, r, &m))
		return;
	for (size_t i = 0; i < m.nodes->n; i++) {
		const struct instance *instance = instance_of(&m, r, i);
		const struct node *node = m.nodes->items[i];

		if (!instance)
			continue;
		compare_label(r, node, "beta.kubernetes.io/instance-type",
		              "node.kubernetes.io/instance-type", instance->type);
		compare_label(r, node, "failure-domain.beta.kubernetes.io/zone",
		              "topology.kubernetes.io/zone", instance->zone);
		compare_label(r, node, "failure-domain.beta.kubernetes.io/region",
		              "topology.kubernetes.io/region", instance->region);
	}
}
