/* operator/check_deletions.c: nodes that are not Ready and stay, because their machine is gone but
 * the proof is incomplete, or because the cloud does not say whether it exists.
 *
 * The controller decides by a history of looks (controllers/lifecycle/guard.h), which only the
 * leader has. This check calls the same functions with the best case: two looks, far enough apart,
 * that have both found the machine absent. A condition that still prevents the deletion is one that
 * is not met now, and is reported.
 */
#include "base/json.h"
#include "base/limits.h"
#include "flags/flags.h"
#include "http/url.h"
#include "operator/doctor.h"

enum {
	/* A kubelet renews its Lease every 10 s. After 40 s without, its node is not Ready. */
	LEASE_FRESH_S = 40,
	/* The number of Leases that are read, each by a request. If more machines are absent, the
	 * other kubelets count as silent: findings about the first nodes are enough. */
	MAX_LEASES = 50,
};

/* Of one realm (struct instance): nodes whose machine the cloud can find by the provider ID. */
struct realm {
	unsigned n_findable, n_present;
};

struct deletions {
	struct doctor *d;
	struct report *r;
	const struct guard_config *guard;
	const struct view_nodes *nodes;
	const struct look *look;
	struct realm realms[CLOUD_REALMS_MAX];
	unsigned n_findable; /* in all realms */
	unsigned n_leases_read;
	unsigned n_going; /* nodes that would be deleted, without announced ones; for the breaker */
};

/* A node that may be waiting for its deletion. */
struct suspect {
	size_t i; /* of nodes and of look */
	struct guard_facts facts;
	int64_t renewed_ago_s; /* if facts.has_new_heartbeat */
};

/* Is the node not Ready, and was this the answer about its machine? New nodes are reported by
 * check_new_nodes(). */
static bool
is_down(const struct deletions *x, size_t i, enum presence presence)
{
	const struct node *node = x->nodes->items[i];

	return node->ready != NODE_READY_TRUE && !node_is_new(node) &&
	       x->look->instances[i].presence == presence;
}

static void
count_witnesses(struct deletions *x, struct cloud *cloud)
{
	for (size_t i = 0; i < x->nodes->n; i++) {
		unsigned realm = 0;

		if (x->nodes->refs[i].provider_id.len == 0 ||
		    !cloud_can_find(cloud, x->nodes->refs[i].provider_id, &realm))
			continue;
		x->n_findable++;
		x->realms[realm].n_findable++;
		x->realms[realm].n_present += x->look->instances[i].presence == PRESENCE_PRESENT &&
		                              x->look->instances[i].realm == realm;
	}
}

/* Counts the other nodes that could be a witness. */
static unsigned
count_others(const struct deletions *x, const struct node *node, unsigned realm)
{
	return x->realms[realm].n_findable - (node_provider_id(node).len > 0);
}

/* An anchor counts as in controllers/lifecycle/look.c, find_witness(). */
static bool
may_have_anchor(const struct deletions *x, const struct node *node, unsigned realm)
{
	return realm == 0 && x->n_findable == (node_provider_id(node).len > 0);
}

/* n_present does not count the absent node itself. False with *err: the cloud did not answer
 * whether there is an anchor. */
static bool
find_witness(const struct deletions *x, const struct node *node, unsigned realm, bool *ret,
             struct error *err)
{
	bool is_present = x->realms[realm].n_present > 0,
	     by_anchor = may_have_anchor(x, node, realm);

	if (!is_present && by_anchor && x->look->anchors_error.len > 0)
		return err_set(err, ERR_UNAVAILABLE, "%" STR_FMT, STR_ARG(x->look->anchors_error));
	*ret = is_present || (by_anchor && x->look->n_anchors > 0);
	return true;
}

/* Finds how long ago the kubelet renewed its Lease: INT64_MAX if it has none, or if the Lease may
 * not be read; the controller ignores it then as well. */
static bool
read_renewal(struct deletions *x, const struct node *node, int64_t *ret_ago_s, struct error *err)
{
	CLEANUP(buf_fini) struct buf path = BUF_INIT(LIMIT_HTTP_URL);
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct str body, renewed = STR_EMPTY;
	struct kube_client *kube;
	int64_t renewed_ns;

	*ret_ago_s = INT64_MAX;
	buf_add_c(&path, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/");
	url_add_escaped(&path, node_name(node));
	if (!view_client(x->d->view, &kube, err))
		return false;
	if (!kube_get(kube, view_call(x->d->view), buf_str(&path), &body, err))
		return err->code == ERR_NOT_FOUND || err->code == ERR_FORBIDDEN;
	if (!json_parse(body, &doc, err))
		return err_wrap(err, "GET %" STR_FMT, STR_ARG(buf_str(&path)));
	(void)json_str(yyjson_doc_get_root(doc), "spec.renewTime", &renewed);
	if (clock_parse_rfc3339(renewed, &renewed_ns))
		*ret_ago_s = view_now_s(x->d->view) - renewed_ns / NS_PER_SEC;
	return true;
}

/* The track after two looks that found the machine absent, as far apart as they must be. */
static struct guard_track
track_of(const struct deletions *x, bool is_witnessed)
{
	struct guard_observation seen = { .presence = PRESENCE_ABSENT,
		                          .has_witness = is_witnessed };
	struct guard_track track = { 0 };

	guard_observe(&track, x->guard, &seen);
	seen.started_boot_ns = x->guard->confirm_ns;
	guard_observe(&track, x->guard, &seen);
	return track;
}

static bool
examine(struct deletions *x, size_t i, struct suspect *ret, struct error *err)
{
	const struct node *node = x->nodes->items[i];
	unsigned realm = x->look->instances[i].realm;
	bool has_witness = false;

	*ret = (struct suspect){ .i = i };
	ret->renewed_ago_s = INT64_MAX;
	if (!find_witness(x, node, realm, &has_witness, err))
		return false;
	if (x->n_leases_read++ < MAX_LEASES && !read_renewal(x, node, &ret->renewed_ago_s, err))
		return false;
	ret->facts = (struct guard_facts){
		.has_new_heartbeat = ret->renewed_ago_s < LEASE_FRESH_S,
		.has_provider_id = node_provider_id(node).len > 0,
		.is_announced = node_is_leaving(node),
		.age_ns = view_now_s(x->d->view) * NS_PER_SEC - node->created_wall_ns,
		.track = track_of(x, has_witness),
		.n_nodes = (unsigned)x->nodes->n,
	};
	x->n_going += !ret->facts.is_announced &&
	              guard_prove(x->guard, &ret->facts) == GUARD_DELETE;
	return true;
}

/* ---- what is missing ---- */

static void
find_no_witness(const struct deletions *x, const struct suspect *s)
{
	const struct node *node = x->nodes->items[s->i];
	unsigned n = count_others(x, node, x->look->instances[s->i].realm);
	struct finding *finding;

	if (n == 0)
		finding = report_find(
			x->r, "node", node_name(node),
			"a witness is missing: no other node has a provider ID by which the cloud could find its machine");
	else
		finding = report_find(
			x->r, "node", node_name(node),
			"a witness is missing: the cloud has none of the machines of the %u other nodes either",
			n);
	report_fix(
		x->r, finding,
		"check that the credentials are those of the cluster's project; if the machine is really gone: kubectl delete node %" STR_FMT,
		STR_ARG(node_name(node)));
}

static void
find_missing_proof(const struct deletions *x, const struct suspect *s)
{
	const struct guard_config *g = x->guard;
	struct str name = node_name(x->nodes->items[s->i]);
	struct finding *finding = NULL;

	switch (guard_decide(g, &s->facts)) {
	case GUARD_NO_WITNESS:
		find_no_witness(x, s);
		return;
	case GUARD_KUBELET_ALIVE:
		finding = report_find(
			x->r, "node", name,
			"its kubelet renewed its Lease %lld s ago, so a machine runs that the cloud does not know",
			(long long)s->renewed_ago_s);
		break;
	case GUARD_NAMELESS:
		finding = report_find(
			x->r, "node", name,
			"it has no provider ID, so its machine must be absent for %lld s",
			(long long)(g->nameless_ns / NS_PER_SEC));
		break;
	case GUARD_BREAKER:
		finding = report_find(
			x->r, "node", name,
			"%u of %u nodes would be deleted together: all of them wait until their machines have been absent for %lld s",
			s->facts.n_going, s->facts.n_nodes,
			(long long)(g->breaker_agree_ns / NS_PER_SEC));
		break;
	default: /* nothing is missing, or the node is still too young */
		return;
	}
	report_fix(x->r, finding, "if its machine is really gone: kubectl delete node %" STR_FMT,
	           STR_ARG(name));
}

static void
find_switched_off(const struct deletions *x, const struct node *node)
{
	report_command(x->r,
	               report_find(x->r, "node", node_name(node),
	                           "ccmd deletes no node, because --controllers switches that off"),
	               "kubectl delete node %" STR_FMT, STR_ARG(node_name(node)));
}

/* ---- the check ---- */

/* The breaker depends on all suspects, so they are examined before the first is reported. */
static void
check_suspects(struct deletions *x)
{
	struct suspect *suspects = arena_calloc(view_call(x->d->view)->arena, x->nodes->n + 1,
	                                        sizeof(*suspects));
	size_t n = 0;
	struct error err;

	for (size_t i = 0; i < x->nodes->n; i++) {
		if (!is_down(x, i, PRESENCE_ABSENT))
			continue;
		if (!examine(x, i, &suspects[n], &err)) {
			report_unknown(x->r, &err);
			break;
		}
		n++;
	}
	for (size_t i = 0; i < n; i++) {
		suspects[i].facts.n_going = x->n_going;
		find_missing_proof(x, &suspects[i]);
	}
}

/* Unless the machine is known to be gone, its node is never deleted, and no event says so. If the
 * cloud cannot be used at all, the look has failed, and check_cloud() reports that once. */
static void
find_unknown_machines(const struct deletions *x)
{
	for (size_t i = 0; i < x->nodes->n; i++) {
		struct str name = node_name(x->nodes->items[i]);

		if (!is_down(x, i, PRESENCE_UNKNOWN))
			continue;
		report_fix(
			x->r,
			report_find(x->r, "node", name,
		                    "the cloud does not say whether its machine exists: %" STR_FMT,
		                    STR_ARG(x->look->instances[i].error)),
			"correct what the message names; if its machine is really gone: kubectl delete node %" STR_FMT,
			STR_ARG(name));
	}
}

void
check_held_deletions(struct doctor *d, struct report *r)
{
	const struct options *o = view_options(d->view);
	struct deletions x = { .d = d, .r = r, .guard = &o->guard };
	struct cloud *cloud;
	struct error err;

	if (!view_nodes(d->view, &x.nodes, &err) || !view_cloud(d->view, &cloud, &err) ||
	    !view_look(d->view, &x.look, &err)) {
		report_unknown(r, &err);
		return;
	}
	if (controllers_enabled(o, "cloud-node-lifecycle-controller")) {
		count_witnesses(&x, cloud);
		check_suspects(&x);
		find_unknown_machines(&x);
		return;
	}
	for (size_t i = 0; i < x.nodes->n; i++) {
		if (is_down(&x, i, PRESENCE_ABSENT))
			find_switched_off(&x, x.nodes->items[i]);
	}
}
