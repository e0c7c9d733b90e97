/* operator/check_deletions.c: nodes that are not Ready and stay, because their machine is gone but
 * the proof is incomplete, or because the cloud does not say whether it exists.
 */
#include "controllers/lifecycle/lifecycle.h"
#include "flags/flags.h"
#include "operator/doctor.h"

/* Is the node not Ready, and was this the answer about its machine? New nodes are reported by
 * check_new_nodes(). */
static bool
is_down(const struct node *node, const struct instance *instance, enum presence presence)
{
	return node->ready != NODE_READY_TRUE && !node_is_new(node) &&
	       instance->presence == presence;
}

/* Finds what is missing for the deletion of one node. */
static void
find_missing_proof(struct report *r, const struct guard_config *g, struct str name,
                   const struct lifecycle_foresight *f, size_t n_nodes)
{
	struct finding *finding = NULL;

	switch (f->outcome) {
	case GUARD_NO_WITNESS:
		if (f->n_others == 0)
			finding = report_find(
				r, "node", name,
				"a witness is missing: no other node has a provider ID by which the cloud could find its machine");
		else
			finding = report_find(
				r, "node", name,
				"a witness is missing: the cloud has none of the machines of the %u other nodes either",
				f->n_others);
		report_fix(
			r, finding,
			"check that the credentials are those of the cluster's project; if the machine is really gone: kubectl delete node %" STR_FMT,
			STR_ARG(name));
		return;
	case GUARD_KUBELET_ALIVE:
		finding = report_find(
			r, "node", name,
			"its kubelet renewed its Lease %lld s ago, so a machine runs that the cloud does not know",
			(long long)f->renewed_ago_s);
		break;
	case GUARD_NAMELESS:
		finding = report_find(
			r, "node", name,
			"it has no provider ID, so its machine must be absent for %lld s",
			(long long)(g->nameless_ns / NS_PER_SEC));
		break;
	case GUARD_BREAKER:
		finding = report_find(
			r, "node", name,
			"%u of %zu nodes would be deleted together: all of them wait until their machines have been absent for %lld s",
			f->n_going, n_nodes, (long long)(g->breaker_agree_ns / NS_PER_SEC));
		break;
	default: /* nothing is missing, or the node is still too young */
		return;
	}
	report_fix(r, finding, "if its machine is really gone: kubectl delete node %" STR_FMT,
	           STR_ARG(name));
}

/* The leader decides by a history of looks. Here each node has the best one, so what is missing is
 * not there now (controllers/lifecycle/lifecycle.h). */
static void
check_proofs(struct doctor *d, struct report *r, struct cloud *cloud,
             const struct view_nodes *nodes, const struct look *look)
{
	const struct guard_config *guard = &view_options(d->view)->guard;
	struct lifecycle_view v = { .guard = guard,
		                    .cloud = cloud,
		                    .nodes = nodes->list,
		                    .look = look,
		                    .now_wall_ns = view_now_s(d->view) * NS_PER_SEC };
	struct lifecycle_foresight *found;
	struct error err;
	size_t n;

	if (!view_client(d->view, &v.kube, &err)) {
		report_unknown(r, &err);
		return;
	}
	if (!lifecycle_foresee(&v, view_call(d->view), &found, &n, &err))
		report_unknown(r, &err);
	for (size_t i = 0; i < n; i++)
		find_missing_proof(r, guard, node_name(nodes->items[found[i].node]), &found[i],
		                   nodes->n);
}

void
check_held_deletions(struct doctor *d, struct report *r)
{
	const struct options *o = view_options(d->view);
	bool deletes = controllers_enabled(o, "cloud-node-lifecycle-controller");
	const struct view_nodes *nodes;
	const struct look *look;
	struct cloud *cloud;
	struct error err;

	if (!view_nodes(d->view, &nodes, &err) || !view_cloud(d->view, &cloud, &err) ||
	    !view_look(d->view, &look, &err)) {
		report_unknown(r, &err);
		return;
	}
	if (deletes)
		check_proofs(d, r, cloud, nodes, look);
	for (size_t i = 0; i < nodes->n; i++) {
		struct str name = node_name(nodes->items[i]);

		/* Unless the machine is known to be gone, its node is never deleted, and no event
		 * says so. If the cloud cannot be used at all, the look has failed, and
		 * check_cloud() reports that once. */
		if (deletes && is_down(nodes->items[i], &look->instances[i], PRESENCE_UNKNOWN))
			report_fix(
				r,
				report_find(
					r, "node", name,
					"the cloud does not say whether its machine exists: %" STR_FMT,
					STR_ARG(look->instances[i].error)),
				"correct what the message names; if its machine is really gone: kubectl delete node %" STR_FMT,
				STR_ARG(name));
		if (!deletes && is_down(nodes->items[i], &look->instances[i], PRESENCE_ABSENT))
			report_command(
				r,
				report_find(
					r, "node", name,
					"ccmd deletes no node, because --controllers switches that off"),
				"kubectl delete node %" STR_FMT, STR_ARG(name));
	}
}
