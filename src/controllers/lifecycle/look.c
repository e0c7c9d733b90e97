/* controllers/lifecycle/look.c: asking the cloud about nodes that are not Ready. */
#include <assert.h>

#include "base/backoff.h"
#include "base/limits.h"
#include "base/log.h"
#include "controllers/failure.h"
#include "controllers/lifecycle/internal.h"
#include "controllers/lookup.h"
#include "http/url.h"

enum {
	WITNESSES_READY =
		3, /* Ready nodes taken along, of each realm; any of them found is enough */
	WITNESSES_MAX = 10, /* where fewer are Ready: together with others */
};

/* ---- the heartbeat of the kubelet ---- */

/* A hash of the last heartbeat and of the Lease's renewTime. A Lease that is not there, or not to be read, says
 * nothing; any other failure is an error, since silence was not observed then. */
static bool
read_heartbeat(struct round *r, const struct node *node, uint64_t *ret, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	CLEANUP(buf_fini) struct buf path = BUF_INIT(LIMIT_HTTP_URL);
	struct str renewal = STR_EMPTY;
	struct str body;

	buf_add_c(&path, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/");
	url_add_escaped(&path, node_name(node));
	if (kube_get(r->c->env->kube, r->call, buf_str(&path), &body, err)) {
		if (!json_parse(body, &doc, err))
			return err_wrap(err, "lease of node %" STR_FMT, STR_ARG(node_name(node)));
		json_str(yyjson_doc_get_root(doc), "spec.renewTime", &renewal);
	} else if (err->code != ERR_NOT_FOUND && err->code != ERR_FORBIDDEN) {
		return err_wrap(err, "lease of node %" STR_FMT, STR_ARG(node_name(node)));
	}
	*ret = node->heartbeat * 31 + str_hash(renewal);
	return true;
}

/* ---- looking ---- */

static bool
is_suspect(const struct check *check)
{
	return check->candidate->track.n_absent > 0 || check->candidate->track.lacks_witness;
}

static bool
is_checked(const struct check *checks, size_t n, const struct node *node)
{
	for (size_t i = 0; i < n; i++) {
		if (checks[i].node == node)
			return true;
	}
	return false;
}

static struct node *
nth_node(struct round *r, size_t i)
{
	return node_of(r->all.objects[(r->c->first_witness + i) % r->all.n]);
}

/* In which realm can the cloud find the node's machine by its provider ID? False: in none. */
static bool
find_realm(const struct round *r, const struct node *node, unsigned *ret)
{
	struct cloud *cloud = r->c->env->cloud;
	struct str id = node_provider_id(node);

	*ret = 0;
	if (id.len == 0 || (cloud->ops->can_find && !cloud->ops->can_find(cloud, id, ret)))
		return false;
	assert(*ret < CLOUD_REALMS_MAX);
	return true;
}

/* Can the node's machine be a witness for one that was looked for in that realm? */
static bool
can_witness(const struct round *r, const struct node *node, unsigned realm)
{
	unsigned own;

	return find_realm(r, node, &own) && own == realm;
}

/* Appends witnesses of one realm, up to max of them: Ready ones, or those that are neither Ready nor asked for anyway. */
static size_t
add_witnesses_of_realm(struct round *r, const struct check *checks, size_t n, unsigned realm,
                       bool is_ready, size_t max, struct node **ret)
{
	size_t n_added = 0;

	for (size_t i = 0; i < r->all.n && n_added < max; i++) {
		struct node *node = nth_node(r, i);

		if ((node->ready == NODE_READY_TRUE) == is_ready && can_witness(r, node, realm) &&
		    (is_ready || !is_checked(checks, n, node)))
			ret[n_added++] = node;
	}
	return n_added;
}

/* A node that the cloud cannot find anyway takes no place from one that it can: another cloud's, or one of another realm. */
static size_t
add_witnesses(struct round *r, const struct check *checks, size_t n, struct node **nodes)
{
	bool is_wanted[CLOUD_REALMS_MAX] = { false };
	size_t n_nodes = n;

	for (size_t i = 0; i < n; i++) {
		unsigned realm;

		/* without a provider ID it is absent in realm 0 */
		if (find_realm(r, checks[i].node, &realm) ||
		    node_provider_id(checks[i].node).len == 0)
			is_wanted[realm] = true;
	}
	for (unsigned realm = 0; realm < CLOUD_REALMS_MAX; realm++) {
		size_t n_ready;

		if (!is_wanted[realm])
			continue;
		n_ready = add_witnesses_of_realm(r, checks, n, realm, /*is_ready=*/true,
		                                 WITNESSES_READY, nodes + n_nodes);
		n_nodes += n_ready;
		if (n_ready < WITNESSES_READY)
			n_nodes += add_witnesses_of_realm(r, checks, n, realm, /*is_ready=*/false,
			                                  WITNESSES_MAX - n_ready, nodes + n_nodes);
	}
	return n_nodes;
}

/* Is there nobody who could be a witness if asked? */
static bool
is_only_findable(const struct round *r, const struct node *me)
{
	unsigned realm;

	for (size_t i = 0; i < r->all.n; i++) {
		const struct node *node = node_of(r->all.objects[i]);

		if (node != me && find_realm(r, node, &realm))
			return false;
	}
	return true;
}

/* Did the look find the machine of another node, by provider ID, where this one was looked for? Where no other node can be
 * found by its provider ID, an anchor serves. */
static bool
find_witness(struct round *r, const struct look_answer *answer, struct node *const nodes[],
             size_t n, size_t me, struct asked_witnesses *ret)
{
	unsigned realm = look_answer_at(answer, me)->realm;

	*ret = (struct asked_witnesses){ 0 };
	for (size_t i = 0; i < n; i++) {
		const struct instance *found = look_answer_at(answer, i);

		if (i == me || !can_witness(r, nodes[i], realm))
			continue;
		if (found->presence == PRESENCE_PRESENT && found->realm == realm)
			return true;
		ret->n_asked++;
		ret->n_absent += found->presence == PRESENCE_ABSENT;
	}
	return answer->look->n_anchors > 0 && realm == 0 && is_only_findable(r, nodes[me]);
}

static void
observe(struct round *r, const struct check *check, const struct instance *found, bool has_witness,
        int64_t started_boot_ns)
{
	struct guard_observation seen = {
		.presence = found->presence,
		.has_witness = has_witness,
		.started_boot_ns = started_boot_ns,
	};
	struct error err;

	if (seen.presence == PRESENCE_ABSENT &&
	    !read_heartbeat(r, check->node, &seen.heartbeat, &err)) {
		log_warn("kubelet's signs of life cannot be read, this look does not count",
		         LOG_STR("node", node_name(check->node)), LOG_ERR(&err));
		seen.presence = PRESENCE_UNKNOWN;
	}
	if (found->presence == PRESENCE_UNKNOWN && !found->is_outage)
		log_warn("it cannot be found out whether the machine of a node exists",
		         LOG_STR("node", node_name(check->node)), LOG_STR("err", found->error));
	check->candidate->presence = seen.presence;
	guard_observe(&check->candidate->track, &r->c->config.guard, &seen);
}

int64_t
lifecycle_back_off_ns(int64_t first_ns, unsigned n_attempts)
{
	return backoff_ns(first_ns, n_attempts, LIFECYCLE_RETRY_MAX_NS);
}

/* A cloud that is away, or has enough of us, is not helped by more questions. */
static int64_t
retry_delay_ns(unsigned n_failures, const struct error *err)
{
	int64_t delay_ns = err->is_outage ? failure_outage_ns(err)
	                                  : lifecycle_back_off_ns(LIFECYCLE_RETRY_NS, n_failures);

	if (err->retry_after_ms * NS_PER_MS > delay_ns)
		delay_ns = err->retry_after_ms * NS_PER_MS;
	return delay_ns < LIFECYCLE_RETRY_MAX_NS ? delay_ns : LIFECYCLE_RETRY_MAX_NS;
}

/* Notes the failure. Returns when the last of all that failed is to be asked for again. */
static int64_t
note_failure(struct round *r, const struct check *checks, size_t n, const struct error *err)
{
	int64_t now_ns = clock_mono(r->c->env->clock), last_ns = 0;

	for (size_t i = 0; i < n; i++) {
		struct candidate *candidate = checks[i].candidate;

		candidate->due_mono_ns = clock_deadline(now_ns,
		                                        retry_delay_ns(candidate->n_failures++,
		                                                       err));
	}
	for (size_t i = 0; i < r->n_checks; i++) {
		const struct candidate *candidate = r->checks[i].candidate;

		if (candidate->n_failures > 0 && candidate->due_mono_ns > last_ns)
			last_ns = candidate->due_mono_ns;
	}
	return last_ns;
}

/* All that failed, now or before, ask again together, with one question. */
static void
postpone(struct round *r, const struct check *checks, size_t n, const struct error *err)
{
	int64_t due_ns = note_failure(r, checks, n, err);

	for (size_t i = 0; i < r->n_checks; i++) {
		if (r->checks[i].candidate->n_failures > 0)
			r->checks[i].candidate->due_mono_ns = due_ns;
	}
}

/* One question for n checks. Without witnesses an ABSENT does not count: those are moved to the front of `checks`, and
 * their number is returned, to be asked for again. */
static size_t
look_at(struct round *r, struct check *checks, size_t n, bool with_witnesses)
{
	CLEANUP(look_answer_fini) struct look_answer answer = LOOK_ANSWER_INIT;
	struct node **nodes = arena_calloc(r->call->arena, n + CLOUD_REALMS_MAX * WITNESSES_MAX,
	                                   sizeof(*nodes));
	int64_t now = clock_boot(r->c->env->clock);
	size_t n_nodes = n, n_absent = 0;
	bool lacks_witness = false;
	struct error err;

	for (size_t i = 0; i < n; i++)
		nodes[i] = checks[i].node;
	if (with_witnesses)
		n_nodes = add_witnesses(r, checks, n, nodes);
	if (!lookup_ask(r->c->env->lookup, r->call, nodes, n_nodes, now, &answer, &err)) {
		if (err.code != ERR_CANCELLED && !err.is_outage)
			log_warn("the cloud cannot be asked about nodes that are not ready",
			         LOG_I64("nodes", (int64_t)n), LOG_ERR(&err));
		postpone(r, checks, n, &err);
		return 0;
	}
	for (size_t i = 0; i < n; i++) {
		const struct instance *found = look_answer_at(&answer, i);
		struct check check = checks[i];
		bool is_witnessed;

		if (found->presence == PRESENCE_ABSENT && !with_witnesses) {
			checks[n_absent++] = check;
			continue;
		}
		check.candidate->n_looks++;
		check.candidate->n_failures = 0;
		is_witnessed = find_witness(r, &answer, nodes, n_nodes, i, &check.candidate->asked);
		lacks_witness |= found->presence == PRESENCE_ABSENT && !is_witnessed;
		observe(r, &check, found, is_witnessed, answer.look->started_boot_ns);
		lifecycle_sync_shutdown_taint(r, &check, found);
	}
	/* the machines of those asked for may be gone as well: others next time */
	if (lacks_witness)
		r->c->first_witness += WITNESSES_READY;
	return n_absent;
}

/* First the plain question, then the one with witnesses for all that seem absent. */
void
lifecycle_check_candidates(struct round *r, const struct check *due, size_t n)
{
	struct check *plain = arena_calloc(r->call->arena, n, sizeof(*plain));
	struct check *suspect = arena_calloc(r->call->arena, n, sizeof(*suspect));
	size_t n_plain = 0, n_suspect = 0, n_absent;

	for (size_t i = 0; i < n; i++) {
		if (is_suspect(&due[i]))
			suspect[n_suspect++] = due[i];
		else
			plain[n_plain++] = due[i];
	}
	n_absent = n_plain > 0 ? look_at(r, plain, n_plain, false) : 0;
	for (size_t i = 0; i < n_absent; i++)
		suspect[n_suspect++] = plain[i];
	if (n_suspect > 0)
		look_at(r, suspect, n_suspect, true);
}
