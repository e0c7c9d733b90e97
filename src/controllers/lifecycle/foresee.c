/* controllers/lifecycle/foresee.c: what is against the deletion of a node, without a history; see
 * lifecycle.h.
 *
 * The controller decides by a history of looks, which only the leader has. A command assumes the
 * best case: two looks, as far apart as they must be, that have both found the machine absent. A
 * condition that still prevents the deletion is one that is not met now. The witnesses, the Lease
 * of the kubelet and the decision are those of the controller.
 */
#include "controllers/lifecycle/internal.h"

enum {
	/* A kubelet renews its Lease every 10 s. After 40 s without, its node is not Ready. */
	LEASE_FRESH_S = 40,
	/* The number of Leases that are read, each by a request. If more machines are absent, the
	 * other kubelets count as silent: what is found about the first nodes is enough. */
	MAX_LEASES = 50,
};

/* Fills in everything but the breaker, which depends on all nodes. */
static bool
foresee_one(const struct lifecycle_view *v, struct call *call, const struct witnesses *witnesses,
            bool reads_lease, struct lifecycle_foresight *f, struct guard_facts *ret,
            struct error *err)
{
	const struct node *node = node_of(v->nodes->objects[f->node]);
	struct asked_witnesses others;
	enum witness witness = lifecycle_find_witness(witnesses, node,
	                                              v->look->instances[f->node].realm, &others);
	struct guard_observation seen = { .presence = PRESENCE_ABSENT,
		                          .has_witness = witness == WITNESS_FOUND };
	struct str renewal = STR_EMPTY;
	int64_t renewed_ns;

	if (witness == WITNESS_UNKNOWN)
		return err_set(err, ERR_UNAVAILABLE, "%" STR_FMT, STR_ARG(v->look->anchors_error));
	if (reads_lease && !lifecycle_read_renewal(v->kube, call, node, &renewal, err))
		return false;
	f->n_others = others.n_asked;
	f->renewed_ago_s = INT64_MAX;
	if (clock_parse_rfc3339(renewal, &renewed_ns))
		f->renewed_ago_s = v->now_wall_ns / NS_PER_SEC - renewed_ns / NS_PER_SEC;
	*ret = (struct guard_facts){
		.has_new_heartbeat = f->renewed_ago_s < LEASE_FRESH_S,
		.has_provider_id = node_provider_id(node).len > 0,
		.is_announced = node_is_leaving(node),
		.age_ns = v->now_wall_ns - node->created_wall_ns,
		.n_nodes = (unsigned)v->nodes->n,
	};
	/* two looks that found the machine absent, as far apart as they must be */
	guard_observe(&ret->track, v->guard, &seen);
	seen.started_boot_ns = v->guard->confirm_ns;
	guard_observe(&ret->track, v->guard, &seen);
	return true;
}

bool
lifecycle_foresee(const struct lifecycle_view *v, struct call *call,
                  struct lifecycle_foresight **ret, size_t *ret_n, struct error *err)
{
	struct witnesses witnesses = { .cloud = v->cloud, .all = v->nodes, .look = v->look };
	size_t n_nodes = v->nodes->n, n = 0;
	struct lifecycle_foresight *all = arena_calloc(call->arena, n_nodes + 1, sizeof(*all));
	struct guard_facts *facts = arena_calloc(call->arena, n_nodes + 1, sizeof(*facts));
	unsigned n_going = 0; /* without announced ones */
	bool is_complete = true;

	for (size_t i = 0; i < n_nodes; i++)
		lifecycle_add_witness(&witnesses, node_of(v->nodes->objects[i]),
		                      &v->look->instances[i]);
	for (size_t i = 0; i < n_nodes; i++) {
		const struct node *node = node_of(v->nodes->objects[i]);

		if (node->ready == NODE_READY_TRUE || node_is_new(node) ||
		    v->look->instances[i].presence != PRESENCE_ABSENT)
			continue;
		all[n].node = i;
		is_complete = foresee_one(v, call, &witnesses, n < MAX_LEASES, &all[n], &facts[n],
		                          err);
		if (!is_complete)
			break;
		n_going += !facts[n].is_announced &&
		           guard_prove(v->guard, &facts[n]) == GUARD_DELETE;
		n++;
	}
	for (size_t i = 0; i < n; i++) {
		facts[i].n_going = all[i].n_going = n_going;
		all[i].outcome = guard_decide(v->guard, &facts[i]);
	}
	*ret = all;
	*ret_n = n;
	return is_complete;
}
