/* operator/check_nodes.c: the nodes, compared with their machines. */
#include "base/map.h"
#include "base/names.h"
#include "controllers/lifecycle/lifecycle.h"
#include "flags/flags.h"
#include "operator/doctor.h"
#include "operator/facts.h"
#include "operator/leader.h"

enum {
	NEW_S = 60, /* an uninitialised node, or one that is not Ready, is reported when it is older
	             */
	MAX_RENEWALS = 20, /* Leases of kubelets that are read, with a request for each */
};

#define TAINT_CLUSTER_API "node.cluster.x-k8s.io/uninitialized"

bool
doctor_is_unanswered(struct report *r, const struct node *node, const struct instance *machine)
{
	struct error err;

	if (machine->presence != PRESENCE_UNKNOWN || machine->error_code == ERR_INVALID)
		return false;
	if (machine->error_code == ERR_EXISTS)
		return true; /* reported by check_duplicate_ids() */
	err_set(&err, machine->error_code, "%" STR_FMT, STR_ARG(machine->error));
	report_unknown_about(r, "node", node_name(node), &err);
	return true;
}

/* Is the node's machine present, or absent? False for nodes that are not initialised:
 * check_new_nodes() and check_kubelets() report them, and their initialisation sets what is
 * missing. */
static bool
machine_is(struct report *r, const struct checked_node *c, enum presence presence)
{
	return !node_is_new(c->node) && node_provider_id(c->node).len > 0 &&
	       !doctor_is_unanswered(r, c->node, c->machine) && c->machine->presence == presence;
}

/* ---- kubelets and new nodes ---- */

void
check_kubelets(struct doctor *d, struct report *r, const struct checked_node *c)
{
	(void)d;
	if (node_provider_id(c->node).len > 0 || node_is_new(c->node))
		return;
	report_find(r, "node", c->name, "it has neither a provider ID nor the taint of new nodes");
	report_fix(
		r,
		"start its kubelet with --cloud-provider=external, then: kubectl taint node %" STR_FMT
		" " NODE_TAINT_UNINITIALIZED "=true:NoSchedule",
		STR_ARG(c->name));
}

bool
doctor_has_machines(struct doctor *d, struct report *r)
{
	struct error err;

	if (view_need(d->view, VIEW_MACHINES, &err))
		return true;
	if (err.code != ERR_UNSUPPORTED)
		report_unknown(r, &err);
	return false;
}

/* "; ", and what else decides about the machine or the address; empty: nothing does. */
static struct str
hint_text(struct doctor *d, const char *hint)
{
	return hint ? arena_printf(&d->view->arena, "; %s", hint) : STR_EMPTY;
}

/* The node asks for an address that its machine does not have. */
static void
report_wrong_node_ip(struct doctor *d, struct report *r, const struct node_facts *f)
{
	const struct str *wanted = node_annotation(f->node, STR(NODE_ANNOTATION_PROVIDED_IP));
	struct str hint = hint_text(d, d->view->cloud->ops->address_hint);
	const struct machine *other = NULL;
	struct str has;

	if (wanted && doctor_has_machines(d, r))
		other = facts_machine_at(d->view, *wanted);
	if (other) {
		report_find(r, "node", node_name(f->node),
		            "%s, which is that of another machine: %" STR_FMT " (%" STR_FMT ")",
		            f->addresses_err.msg, STR_ARG(other->name),
		            STR_ARG(other->instance.provider_id));
		report_fix(
			r,
			"if the node runs on that machine, its name or its --provider-id is wrong: correct it, delete the node, and start its kubelet again");
		return;
	}
	has = facts_addresses(&d->view->arena, f->machine->addresses, f->machine->n_addresses);
	report_find(r, "node", node_name(f->node), "%s; the cloud has %" STR_FMT,
	            f->addresses_err.msg,
	            STR_ARG(has.len > 0 ? has : STR("no address of its machine")));
	report_fix(r,
	           "start its kubelet with a --node-ip that the machine has in the cloud%" STR_FMT,
	           STR_ARG(hint));
}

/* Finds the machine that the node probably means. */
static bool
find_near(struct doctor *d, struct report *r, const struct node *node, struct near_machine *ret)
{
	return doctor_has_machines(d, r) && facts_find_near_machine(d->view, node, ret);
}

static void
report_without_machine(struct doctor *d, struct report *r, const struct node *node)
{
	struct str hint = hint_text(d, d->view->cloud->ops->machine_hint);
	struct near_machine near;

	if (!find_near(d, r, node, &near)) {
		report_find(r, "node", node_name(node), "the cloud has no machine for it");
		report_fix(
			r,
			"if the machine exists, give it the name of the node, or start the kubelet with --hostname-override or --provider-id; otherwise create it, or delete the node%" STR_FMT,
			STR_ARG(hint));
		return;
	}
	report_find(r, "node", node_name(node),
	            "the cloud has no machine of this name; machine %" STR_FMT " (%" STR_FMT
	            ") %" STR_FMT,
	            STR_ARG(near.machine->name), STR_ARG(near.machine->instance.provider_id),
	            STR_ARG(near.why));
	report_fix(r,
	           "rename the machine to %" STR_FMT
	           "; or delete the node, and start its kubelet with --hostname-override=%" STR_FMT,
	           STR_ARG(node_name(node)), STR_ARG(near.machine->name));
}

static void
report_not_initialised(struct doctor *d, struct report *r, const struct checked_node *c)
{
	struct node_facts facts = facts_of_node(c->node, c->machine, &d->view->arena);
	struct str why;

	if (facts.addresses_err.code != ERR_NONE) {
		report_wrong_node_ip(d, r, &facts);
		return;
	}
	if (c->age_s <= NEW_S)
		return;
	why = leader_failure(d->view, r, DESCRIBED_NODE, c->name, c->node->object.uid);
	report_find(
		r, "node", c->name,
		"its machine is found, but the node has not been initialised for %lld s%" STR_FMT,
		(long long)c->age_s, STR_ARG(why));
	leader_report_fix(
		d->view, r, why.len > 0,
		"see whether a replica leads (CCMD020), and whether it has all rights (CCMD010)");
}

void
check_new_nodes(struct doctor *d, struct report *r, const struct checked_node *c)
{
	const struct node *node = c->node;

	if (!node_is_new(node) && node_taint(node, STR(TAINT_CLUSTER_API))) {
		report_note(r, "node", c->name,
		            "it has the taint " TAINT_CLUSTER_API
		            ", which Cluster API has to remove: ccmd does not");
		report_fix(r, "read the log of Cluster API's controllers");
	}
	if (!node_is_new(node) || doctor_is_unanswered(r, node, c->machine))
		return;
	switch (c->machine->presence) {
	case PRESENCE_ABSENT:
		report_without_machine(d, r, node);
		break;
	case PRESENCE_FOREIGN:
	case PRESENCE_UNKNOWN:
		report_find(r, "node", c->name, "%" STR_FMT, STR_ARG(c->machine->error));
		report_fix(r, "correct what the message names%" STR_FMT,
		           STR_ARG(hint_text(d, d->view->cloud->ops->machine_hint)));
		break;
	case PRESENCE_PRESENT:
		report_not_initialised(d, r, c);
		break;
	}
}

/* ---- provider IDs and machines ---- */

/* Who writes such provider IDs? */
static const char *
foreign_id_origin(struct str id)
{
	static const struct {
		const char *scheme, *origin;
	} known[] = {
		{ "k3s://", "is that of the cloud controller of k3s, which "
		            "--disable-cloud-controller switches off" },
		{ "rke2://", "is that of the cloud controller of RKE2, which "
		             "disable-cloud-controller: true switches off" },
		{ "talos://", "is that of the Talos cloud controller manager" },
		{ "hrobot://", "is that of a dedicated server, for which ccmd has no credentials" },
	};

	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		if (str_starts(id, str_c(known[i].scheme)))
			return known[i].origin;
	}
	return str_contains(id, STR("://"))
	               ? "belongs to another cloud"
	               : "has no scheme, so no cloud controller manager has set it";
}

void
check_foreign_ids(struct doctor *d, struct report *r, const struct checked_node *c)
{
	struct str id = node_provider_id(c->node);

	if (node_is_new(c->node) || c->machine->presence != PRESENCE_FOREIGN)
		return;
	report_find(r, "node", c->name, "its provider ID %" STR_FMT " %s", STR_ARG(id),
	            foreign_id_origin(id));
	report_fix(
		r,
		"if that is not intended, switch off what has set it, or correct --provider-id; then delete the node, and start its kubelet again%" STR_FMT,
		STR_ARG(hint_text(d, d->view->cloud->ops->machine_hint)));
}

void
check_duplicate_ids(struct doctor *d, struct report *r)
{
	CLEANUP(map_fini) struct map first = MAP_INIT;
	const struct view_nodes *nodes = &d->view->nodes;

	for (size_t i = 0; i < nodes->n; i++) {
		const struct node *node = nodes->items[i], *other;

		if (node_provider_id(node).len == 0)
			continue;
		other = map_get(&first, node_provider_id(node));
		if (!other) {
			map_put(&first, node_provider_id(node), (void *)(uintptr_t)node);
			continue;
		}
		report_find(r, "node", node_name(node),
		            "it has the provider ID %" STR_FMT " of node %" STR_FMT,
		            STR_ARG(node_provider_id(node)), STR_ARG(node_name(other)));
		if ((node->ready == NODE_READY_TRUE) == (other->ready == NODE_READY_TRUE))
			report_fix(
				r,
				"the kubelet of one of the two has the wrong --provider-id: correct it, delete its node, and start the kubelet again");
		else
			report_fix(
				r,
				"if the machine was registered under another name, delete the node that is not Ready: kubectl delete node %" STR_FMT,
				STR_ARG(node_name(node->ready == NODE_READY_TRUE ? other : node)));
	}
}

/* That the credentials are those of the cluster's project is certain here (CCMD031). */
void
check_absent_machines(struct doctor *d, struct report *r, const struct checked_node *c)
{
	struct str guard = STR(", but its kubelet reports it as Ready");
	struct near_machine near;

	if (!machine_is(r, c, PRESENCE_ABSENT))
		return;
	if (c->node->ready != NODE_READY_TRUE)
		guard = leader_guard(d->view, c->name);
	if (find_near(d, r, c->node, &near)) {
		report_find(r, "node", c->name,
		            "its machine %" STR_FMT " is gone%" STR_FMT "; machine %" STR_FMT
		            " (%" STR_FMT ") %" STR_FMT,
		            STR_ARG(node_provider_id(c->node)), STR_ARG(guard),
		            STR_ARG(near.machine->name),
		            STR_ARG(near.machine->instance.provider_id), STR_ARG(near.why));
		report_fix(
			r,
			"if that is the machine of this node now, delete the node, and restart the kubelet of the machine, which registers it again: kubectl delete node %" STR_FMT,
			STR_ARG(c->name));
	} else {
		report_find(r, "node", c->name, "its machine is gone%" STR_FMT, STR_ARG(guard));
		report_fix(
			r,
			"wait for some minutes; if the node stays although its machine is gone: kubectl delete node %" STR_FMT,
			STR_ARG(c->name));
	}
}

/* Reports a node that is not Ready although nothing is wrong with its machine. */
static void
report_silent_kubelet(struct doctor *d, struct report *r, const struct node *node, bool is_asked)
{
	struct view *v = d->view;
	struct str renewed = STR_EMPTY;
	struct error err;
	int64_t wall_ns;

	if (is_asked && !lifecycle_read_renewal(v->kube, &v->call, node, &renewed, &err))
		report_unknown_about(r, "node", node_name(node), &err);
	if (node->ready == NODE_READY_FALSE)
		report_find(r, "node", node_name(node),
		            "it is not Ready; its machine runs, and its kubelet reports a problem");
	else if (clock_parse_rfc3339(renewed, &wall_ns))
		report_find(
			r, "node", node_name(node),
			"it is not Ready; its machine runs, but its kubelet has been silent for %lld s",
			(long long)(view_now_s(v) - wall_ns / NS_PER_SEC));
	else
		report_find(r, "node", node_name(node),
		            "it is not Ready; its machine runs, but its kubelet is silent");
	report_fix(
		r,
		"look at the conditions of the node and, on its machine, at journalctl -u kubelet; ccmd keeps the node as long as the machine exists");
}

/* Nodes whose machine is gone, or about which the cloud does not answer, are reported by
 * check_absent_machines() and check_held_deletions(). */
void
check_down_nodes(struct doctor *d, struct report *r)
{
	const struct view *v = d->view;
	size_t n_asked = 0;

	for (size_t i = 0; i < v->nodes.n; i++) {
		const struct instance *machine = &v->look->instances[i];
		const struct node *node = v->nodes.items[i];
		int64_t age_s = view_now_s(v) - node->created_wall_ns / NS_PER_SEC;

		if (node->ready == NODE_READY_TRUE || node_is_new(node) ||
		    doctor_is_unanswered(r, node, machine))
			continue;
		if (machine->presence == PRESENCE_PRESENT && machine->power == POWER_OFF) {
			report_find(r, "node", node_name(node),
			            "it is not Ready, and its machine is switched off");
			report_fix(
				r,
				"start the machine, or delete it if it is not needed any more: ccmd then deletes the node");
		} else if (machine->presence == PRESENCE_PRESENT && age_s > NEW_S) {
			report_silent_kubelet(d, r, node, n_asked++ < MAX_RENEWALS);
		} else if (machine->presence == PRESENCE_FOREIGN && age_s > NEW_S) {
			report_find(r, "node", node_name(node),
			            "it is not Ready; its machine is not in this cloud, so ccmd "
			            "does not delete the node");
			report_fix(r, "if its machine is gone: kubectl delete node %" STR_FMT,
			           STR_ARG(node_name(node)));
		}
	}
}

/* ---- addresses and labels ---- */

void
check_addresses(struct doctor *d, struct report *r, const struct checked_node *c)
{
	struct view *v = d->view;
	struct str has, why;
	struct node_facts f;

	if (!machine_is(r, c, PRESENCE_PRESENT))
		return;
	f = facts_of_node(c->node, c->machine, &v->arena);
	if (f.addresses_err.code != ERR_NONE)
		report_wrong_node_ip(d, r, &f);
	if (!f.has_other_addresses)
		return;
	why = leader_failure(v, r, DESCRIBED_NODE, c->name, c->node->object.uid);
	has = facts_addresses(&v->arena, c->node->addresses, c->node->n_addresses);
	report_find(r, "node", c->name, "it has %" STR_FMT "; the cloud says %" STR_FMT "%" STR_FMT,
	            STR_ARG(has.len > 0 ? has : STR("none")),
	            STR_ARG(facts_addresses(&v->arena, f.wanted.items, f.wanted.n)), STR_ARG(why));
	leader_report_fix(
		v, r, why.len > 0,
		"wait for the next comparison (--node-status-update-frequency); if the difference stays, read ccmd's log");
}

/* ccmd sets a label to the value of its beta name, if the node has that one, so both are set. */
void
check_labels(struct doctor *d, struct report *r, const struct checked_node *c)
{
	struct node_facts f;

	if (!machine_is(r, c, PRESENCE_PRESENT))
		return;
	f = facts_of_node(c->node, c->machine, &d->view->arena);
	for (size_t i = 0; i < FACTS_LABELS; i++) {
		const struct label_facts *l = &f.labels[i];

		if (!l->differs)
			continue;
		report_find(r, "node", c->name,
		            "label %s is \"%" STR_FMT "\"; the cloud says \"%" STR_FMT "\"", l->key,
		            STR_ARG(l->has), STR_ARG(l->wanted));
		if (!name_is_label_value(l->wanted))
			report_fix(r, "no label can have this value: change it in the cloud");
		else if (node_label(c->node, str_c(l->beta)))
			report_command(r,
			               "kubectl label node %" STR_FMT " --overwrite %s=%" STR_FMT
			               " %s=%" STR_FMT,
			               STR_ARG(c->name), l->beta, STR_ARG(l->wanted), l->key,
			               STR_ARG(l->wanted));
		else
			report_command(r,
			               "kubectl label node %" STR_FMT " --overwrite %s=%" STR_FMT,
			               STR_ARG(c->name), l->key, STR_ARG(l->wanted));
	}
}

/* ---- deletions ---- */

/* Is the node not Ready, and was this the answer about its machine? New nodes are reported by
 * check_new_nodes(). */
static bool
is_down(const struct view *v, size_t i, enum presence presence)
{
	const struct node *node = v->nodes.items[i];

	return node->ready != NODE_READY_TRUE && !node_is_new(node) &&
	       v->look->instances[i].presence == presence;
}

/* Reports what is missing for the deletion of one node; false: nothing is. */
static bool
report_missing_proof(const struct view *v, struct report *r, const struct lifecycle_foresight *f)
{
	const struct guard_config *guard = &v->options->guard;
	struct str name = node_name(v->nodes.items[f->node]);

	switch (f->outcome) {
	case GUARD_NO_WITNESS:
		if (f->n_others == 0)
			report_find(
				r, "node", name,
				"a witness is missing: no other node has a provider ID by which the cloud could find its machine");
		else
			report_find(
				r, "node", name,
				"a witness is missing: the cloud has none of the machines of the %u other nodes either",
				f->n_others);
		report_fix(
			r,
			"check that the credentials are those of the cluster's project; if the machine is really gone: kubectl delete node %" STR_FMT,
			STR_ARG(name));
		return true;
	case GUARD_KUBELET_ALIVE:
		report_find(
			r, "node", name,
			"its kubelet renewed its Lease %lld s ago, so a machine runs that the cloud does not know",
			(long long)f->renewed_ago_s);
		break;
	case GUARD_NAMELESS:
		report_find(r, "node", name,
		            "it has no provider ID, so its machine must be absent for %lld s",
		            (long long)(guard->nameless_ns / NS_PER_SEC));
		break;
	case GUARD_BREAKER:
		report_find(
			r, "node", name,
			"%u of %zu nodes would be deleted together: all of them wait until their machines have been absent for %lld s",
			f->n_going, v->nodes.n, (long long)(guard->breaker_agree_ns / NS_PER_SEC));
		break;
	default: /* nothing is missing, or the node is still too young */
		return false;
	}
	report_fix(r, "if its machine is really gone: kubectl delete node %" STR_FMT,
	           STR_ARG(name));
	return true;
}

/* What only the leader knows, such as that many nodes were deleted shortly before. */
static void
report_held_by_leader(struct view *v, struct report *r, struct str name)
{
	yyjson_val *about = leader_about(v, DESCRIBED_NODE, name);

	if (json_view(about, "guard.heldBecause").len == 0)
		return;
	report_find(r, "node", name, "its machine is gone%" STR_FMT,
	            STR_ARG(leader_guard(v, name)));
	report_fix(r, "wait; if its machine is really gone: kubectl delete node %" STR_FMT,
	           STR_ARG(name));
}

/* The leader decides by a history of looks. Here each node has the best one, so what is missing is
 * not there now (controllers/lifecycle/lifecycle.h). */
static void
report_absent_machines(struct view *v, struct report *r)
{
	struct lifecycle_view seen = { .guard = &v->options->guard,
		                       .cloud = v->cloud,
		                       .kube = v->kube,
		                       .nodes = &v->nodes.list,
		                       .look = v->look,
		                       .now_wall_ns = view_now_s(v) * NS_PER_SEC };
	struct lifecycle_foresight *found;
	struct error err;
	size_t n = 0;

	if (!lifecycle_foresee(&seen, &v->call, &found, &n, &err))
		report_unknown(r, &err);
	for (size_t i = 0; i < n; i++) {
		if (!report_missing_proof(v, r, &found[i]))
			report_held_by_leader(v, r, node_name(v->nodes.items[found[i].node]));
	}
}

static void
report_switched_off(const struct view *v, struct report *r)
{
	for (size_t i = 0; i < v->nodes.n; i++) {
		struct str name = node_name(v->nodes.items[i]);

		if (!is_down(v, i, PRESENCE_ABSENT))
			continue;
		report_find(r, "node", name,
		            "ccmd deletes no node, because --controllers switches that off");
		report_command(r, "kubectl delete node %" STR_FMT, STR_ARG(name));
	}
}

/* A node whose machine is not known to be gone is never deleted, and no event says so. If the cloud
 * cannot be used at all, the look has failed, and check_cloud() reports that once. */
void
check_held_deletions(struct doctor *d, struct report *r)
{
	struct view *v = d->view;

	if (!controllers_enabled(v->options, "cloud-node-lifecycle-controller")) {
		report_switched_off(v, r);
		return;
	}
	report_absent_machines(v, r);
	for (size_t i = 0; i < v->nodes.n; i++) {
		struct str name = node_name(v->nodes.items[i]);

		if (!is_down(v, i, PRESENCE_UNKNOWN))
			continue;
		report_find(r, "node", name,
		            "the cloud does not say whether its machine exists: %" STR_FMT,
		            STR_ARG(v->look->instances[i].error));
		report_fix(
			r,
			"correct what the message names; if its machine is really gone: kubectl delete node %" STR_FMT,
			STR_ARG(name));
	}
}
