/* controllers/lifecycle/look.c: what is asked of the cloud about nodes that are not Ready.
 *
 * A question goes to the cloud in one look. For machines that exist it needs nothing else. An
 * absence counts only if the same look also found the machine of another node, a *witness*: a wrong
 * token, another project or an empty inventory would not have found that one either. So nodes are
 * looked at without witnesses first, and those whose machine seems absent are asked for again
 * together with witnesses.
 *
 * A cloud may consist of several *realms* (cloud/cloud.h): APIs or projects with credentials of
 * their own. A machine of one realm proves nothing about another, so each realm needs witnesses of
 * its own.
 */
#include <assert.h>

#include "base/backoff.h"
#include "base/limits.h"
#include "base/log.h"
#include "controllers/pace.h"
#include "controllers/lifecycle/internal.h"
#include "controllers/lookup.h"
#include "controllers/node_errors.h"
#include "http/url.h"

enum {
	/* Ready nodes that are asked for, per realm; one found machine is enough */
	WITNESSES_READY = 3,
	/* together with nodes that are not Ready, where fewer nodes are Ready */
	WITNESSES_MAX = 10,
};

METRIC_FAMILY(
	calls, METRIC_COUNTER, "cloud_node_lifecycle_controller_cloud_provider_calls_total",
	"[ALPHA] Lookups of machines of nodes that are not ready. operation: instance_exists, and instance_shutdown for a machine that exists; the Go framework makes a call for each of them, ccmd one for all. result: success, instance_not_found or error.",
	.labels = { "operation", "result" });

/* ---- the heartbeat of the kubelet ---- */

bool
lifecycle_read_renewal(struct kube_client *kube, struct call *call, const struct node *node,
                       struct str *ret, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	CLEANUP(buf_fini) struct buf path = BUF_INIT(LIMIT_HTTP_URL);
	struct str body;

	*ret = STR_EMPTY;
	buf_add_c(&path, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/");
	url_add_escaped(&path, node_name(node));
	if (!kube_get(kube, call, buf_str(&path), &body, err))
		return err->code == ERR_NOT_FOUND || err->code == ERR_FORBIDDEN;
	if (!json_parse(body, &doc, err))
		return err_wrap(err, "GET %" STR_FMT, STR_ARG(buf_str(&path)));
	*ret = json_text_at(call->arena, yyjson_doc_get_root(doc), "spec.renewTime");
	return true;
}

/* ---- questions and their witnesses ---- */

/* What one look asks for: the machines of the nodes that are checked, and of their witnesses. */
struct question {
	const struct node_check *checks;
	size_t n_checks;
	struct node **nodes; /* the nodes of the checks, index by index, then the witnesses */
	size_t n_nodes;
};

static struct question
question_about(struct round *r, const struct node_check *checks, size_t n)
{
	struct question q = { .checks = checks, .n_checks = n, .n_nodes = n };

	q.nodes = arena_calloc(r->call->arena, n + CLOUD_REALMS_MAX * WITNESSES_MAX,
	                       sizeof(*q.nodes));
	for (size_t i = 0; i < n; i++)
		q.nodes[i] = checks[i].node;
	return q;
}

/* Finds the realm in which the cloud can find the node's machine by its provider ID. False: no
 * realm can. */
static bool
find_realm(struct cloud *cloud, const struct node *node, unsigned *ret)
{
	struct str id = node_provider_id(node);

	*ret = 0;
	if (id.len == 0 || !cloud_can_find(cloud, id, ret))
		return false;
	assert(*ret < CLOUD_REALMS_MAX);
	return true;
}

/* Can the node's machine be a witness for a machine that was looked for in this realm? */
static bool
can_witness(struct cloud *cloud, const struct node *node, unsigned realm)
{
	unsigned own;

	return find_realm(cloud, node, &own) && own == realm;
}

/* Adds up to max witnesses of one realm: nodes that are Ready, or nodes that are not Ready and not
 * part of the question already. The search begins at first_witness, so that another look may take
 * others. */
static size_t
add_witnesses_of_realm(struct round *r, struct question *q, unsigned realm, bool is_ready,
                       size_t max)
{
	size_t n_added = 0;

	for (size_t i = 0; i < r->all.n && n_added < max; i++) {
		struct node *node = node_of(r->all.objects[(r->c->first_witness + i) % r->all.n]);
		bool is_asked = false;

		if ((node->ready == NODE_READY_TRUE) != is_ready ||
		    !can_witness(r->c->env->cloud, node, realm))
			continue;
		for (size_t j = 0; !is_ready && j < q->n_checks; j++)
			is_asked |= q->checks[j].node == node;
		if (!is_asked) {
			q->nodes[q->n_nodes++] = node;
			n_added++;
		}
	}
	return n_added;
}

/* Nodes that are Ready come first, because their machines very probably exist. Nodes of other
 * clouds are never taken: the cloud cannot find their machines, and they would use up the places of
 * nodes that it can find. */
static void
add_witnesses(struct round *r, struct question *q)
{
	bool is_wanted[CLOUD_REALMS_MAX] = { false };

	for (size_t i = 0; i < q->n_checks; i++) {
		unsigned realm;

		/* a node without a provider ID is looked for by name, in realm 0 */
		if (find_realm(r->c->env->cloud, q->nodes[i], &realm) ||
		    node_provider_id(q->nodes[i]).len == 0)
			is_wanted[realm] = true;
	}
	for (unsigned realm = 0; realm < CLOUD_REALMS_MAX; realm++) {
		size_t n_ready;

		if (!is_wanted[realm])
			continue;
		n_ready = add_witnesses_of_realm(r, q, realm, /*is_ready=*/true, WITNESSES_READY);
		if (n_ready < WITNESSES_READY)
			add_witnesses_of_realm(r, q, realm, /*is_ready=*/false,
			                       WITNESSES_MAX - n_ready);
	}
}

void
lifecycle_add_witness(struct witnesses *w, const struct node *node, const struct instance *found)
{
	unsigned realm;

	if (!find_realm(w->cloud, node, &realm))
		return;
	w->realms[realm].n_asked++;
	w->realms[realm].n_absent += found->presence == PRESENCE_ABSENT;
	w->realms[realm].n_present += found->presence == PRESENCE_PRESENT && found->realm == realm;
}

/* Where no other node can be a witness, because the cloud can find none by its provider ID, an
 * anchor of the provider is enough: something else of this project that was found by its id. */
enum witness
lifecycle_find_witness(const struct witnesses *w, const struct node *absent, unsigned realm,
                       struct asked_witnesses *ret)
{
	bool is_counted = can_witness(w->cloud, absent, realm);
	unsigned other;

	ret->n_asked = w->realms[realm].n_asked - is_counted;
	ret->n_absent = w->realms[realm].n_absent - is_counted;
	if (w->realms[realm].n_present > 0)
		return WITNESS_FOUND;
	if (realm != 0 || (w->look->n_anchors == 0 && w->look->anchors_error.len == 0))
		return WITNESS_MISSING;
	for (size_t i = 0; i < w->all->n; i++) {
		const struct node *node = node_of(w->all->objects[i]);

		if (node != absent && find_realm(w->cloud, node, &other))
			return WITNESS_MISSING;
	}
	return w->look->n_anchors > 0 ? WITNESS_FOUND : WITNESS_UNKNOWN;
}

/* ---- looking ---- */

/* Notes why a look failed for this node. In a dry run, that means that it cannot be found out what
 * would be changed. */
static void
note_failed(struct round *r, const struct node *node, const struct error *err)
{
	node_errors_note(r->c->env->node_errors, NODE_WORK_LIFECYCLE, node_name(node), err,
	                 CLOCK_FOREVER);
	dry_failed(dry_item_new(r->c->env, "node", node_name(node), node->object.resource_version,
	                        r->call->arena),
	           err);
}

/* Sets the next look of checks whose look failed. All candidates whose looks failed, now or before,
 * become due at the same time, so that they share one question. */
static void
lifecycle_postpone(struct round *r, const struct node_check *checks, size_t n,
                   const struct error *err)
{
	int64_t now_ns = clock_mono(r->c->env->clock), delay_ns, last_ns = 0;

	for (size_t i = 0; i < n; i++) {
		struct candidate *candidate = checks[i].candidate;

		/* A cloud that is unavailable or limits our rate says when it wants to be asked
		 * again. */
		delay_ns = err->is_outage
		                   ? failure_outage_ns(err)
		                   : backoff_ns(LIFECYCLE_RETRY_NS, candidate->now.n_failures,
		                                LIFECYCLE_RETRY_MAX_NS);
		delay_ns = clock_later(delay_ns, err->retry_after_ms * NS_PER_MS);
		delay_ns = clock_earlier(delay_ns, LIFECYCLE_RETRY_MAX_NS);
		candidate->now.n_failures++;
		candidate->now.due_mono_ns = clock_deadline(now_ns, delay_ns);
	}
	for (size_t i = 0; i < r->n_checks; i++) {
		if (r->checks[i].candidate->now.n_failures > 0)
			last_ns = clock_later(last_ns, r->checks[i].candidate->now.due_mono_ns);
	}
	for (size_t i = 0; i < r->n_checks; i++) {
		if (r->checks[i].candidate->now.n_failures > 0)
			r->checks[i].candidate->now.due_mono_ns = last_ns;
	}
}

/* False: the look failed, and all checks of the question are postponed. */
static bool
lifecycle_ask(struct round *r, const struct question *q, struct lookup_result *ret)
{
	struct error err;

	if (lookup_machines(r->c->env->lookup, r->call, q->nodes, q->n_nodes,
	                    clock_boot(r->c->env->clock), ret, &err))
		return true;
	if (err.code != ERR_CANCELLED && !err.is_outage)
		log_warn("the cloud does not report about nodes that are not ready",
		         LOG_I64("nodes", (int64_t)q->n_checks), LOG_ERR(&err));
	for (size_t i = 0; i < q->n_checks; i++)
		note_failed(r, q->checks[i].node, &err);
	lifecycle_postpone(r, q->checks, q->n_checks, &err);
	return false;
}

static void
count_look(enum presence presence)
{
	static const char *const results[] = { [PRESENCE_UNKNOWN] = "error",
		                               [PRESENCE_PRESENT] = "success",
		                               [PRESENCE_ABSENT] = "instance_not_found",
		                               [PRESENCE_FOREIGN] = "error" };

	metric_inc(metric_of(&calls, "instance_exists", results[presence]));
	if (presence == PRESENCE_PRESENT)
		metric_inc(metric_of(&calls, "instance_shutdown", "success"));
}

/* Reports a failed read, and returns false. */
static bool
read_heartbeat(struct round *r, const struct node *node, uint64_t *ret)
{
	struct str renewal;
	struct error err;

	if (lifecycle_read_renewal(r->c->env->kube, r->call, node, &renewal, &err)) {
		*ret = node->heartbeat * 31 + str_hash(renewal);
		return true;
	}
	err_wrap(&err, "lease of node %" STR_FMT, STR_ARG(node_name(node)));
	log_warn("kubelet's heartbeat cannot be read, this check does not count",
	         LOG_STR("node", node_name(node)), LOG_ERR(&err));
	note_failed(r, node, &err);
	return false;
}

static void
report_unknown(struct round *r, const struct node *node, const struct instance *found)
{
	struct error err;

	err_set(&err, found->error_code, "%" STR_FMT, STR_ARG(found->error));
	err.is_outage = found->is_outage;
	note_failed(r, node, &err);
	if (!found->is_outage)
		log_warn("cannot find out whether the machine of a node exists",
		         LOG_STR("node", node_name(node)), LOG_STR("err", found->error));
}

/* Adds what the look found for the i-th check to the track that the guard decides on. */
static void
record_look_result(struct round *r, const struct question *q, const struct lookup_result *answer,
                   size_t i, enum witness witness)
{
	const struct node_check *check = &q->checks[i];
	struct candidate *candidate = check->candidate;
	struct instance found = *lookup_result_at(answer, i);
	struct guard_observation seen = {
		.has_witness = witness == WITNESS_FOUND,
		.started_boot_ns = answer->look->started_boot_ns,
	};

	/* The search for a witness failed: the look proves neither that the machine is gone nor
	 * that a witness is missing. */
	if (witness == WITNESS_UNKNOWN) {
		found.presence = PRESENCE_UNKNOWN;
		found.error_code = ERR_UNAVAILABLE;
		found.error = answer->look->anchors_error;
	}
	candidate->now.n_looks++;
	candidate->now.looked_boot_ns = answer->look->started_boot_ns;
	candidate->now.n_failures = 0;
	node_errors_clear(r->c->env->node_errors, NODE_WORK_LIFECYCLE, node_name(check->node));
	count_look(found.presence);

	/* The heartbeat is read only for an absence, after it: at that time the cloud has already
	 * said that the machine is gone, so a kubelet that still reports shows that the answer is
	 * wrong. */
	seen.presence = found.presence;
	if (found.presence == PRESENCE_ABSENT && !read_heartbeat(r, check->node, &seen.heartbeat))
		seen.presence = PRESENCE_UNKNOWN;
	if (found.presence == PRESENCE_UNKNOWN)
		report_unknown(r, check->node, &found);
	candidate->now.presence = seen.presence;
	if (seen.presence == PRESENCE_ABSENT)
		candidate->now.heartbeat = check->node->heartbeat;
	guard_observe(&candidate->now.track, &r->c->config.guard, &seen);
	if (found.presence == PRESENCE_PRESENT && found.power == POWER_OFF)
		lifecycle_add_shutdown_taint(r, check);
}

/* A look without witnesses, which is enough for machines that exist. An absence does not count
 * here: checks whose machine seems absent are copied to ret_absent, and their number is returned.
 */
static size_t
look_without_witnesses(struct round *r, const struct node_check *checks, size_t n,
                       struct node_check *ret_absent)
{
	CLEANUP(lookup_result_fini) struct lookup_result answer = LOOKUP_RESULT_INIT;
	struct question q = question_about(r, checks, n);
	size_t n_absent = 0;

	if (!lifecycle_ask(r, &q, &answer))
		return 0;
	for (size_t i = 0; i < n; i++) {
		if (lookup_result_at(&answer, i)->presence == PRESENCE_ABSENT)
			ret_absent[n_absent++] = checks[i];
		else
			record_look_result(r, &q, &answer, i, WITNESS_MISSING);
	}
	return n_absent;
}

/* A look that also asks for witnesses, without which an absence proves nothing. */
static void
look_with_witnesses(struct round *r, const struct node_check *checks, size_t n)
{
	CLEANUP(lookup_result_fini) struct lookup_result answer = LOOKUP_RESULT_INIT;
	struct question q = question_about(r, checks, n);
	struct witnesses witnesses = { .cloud = r->c->env->cloud, .all = &r->all };
	bool lacks_witness = false;

	add_witnesses(r, &q);
	if (!lifecycle_ask(r, &q, &answer))
		return;
	witnesses.look = answer.look;
	for (size_t i = 0; i < q.n_nodes; i++)
		lifecycle_add_witness(&witnesses, q.nodes[i], lookup_result_at(&answer, i));
	for (size_t i = 0; i < n; i++) {
		const struct instance *found = lookup_result_at(&answer, i);
		enum witness witness = WITNESS_MISSING;

		if (found->presence == PRESENCE_ABSENT) {
			witness = lifecycle_find_witness(&witnesses, checks[i].node, found->realm,
			                                 &checks[i].candidate->asked);
			lacks_witness |= witness != WITNESS_FOUND;
		}
		record_look_result(r, &q, &answer, i, witness);
	}
	/* The machines of those witnesses may be gone as well: the next look takes others. */
	if (lacks_witness)
		r->c->first_witness += WITNESSES_READY;
}

void
lifecycle_check_candidates(struct round *r, const struct node_check *due, size_t n)
{
	struct node_check *plain = arena_calloc(r->call->arena, n, sizeof(*plain));
	struct node_check *suspect = arena_calloc(r->call->arena, n, sizeof(*suspect));
	size_t n_plain = 0, n_suspect = 0;

	for (size_t i = 0; i < n; i++) {
		const struct guard_track *track = &due[i].candidate->now.track;

		if (track->n_absent > 0 || track->lacks_witness) /* the last look did not find it */
			suspect[n_suspect++] = due[i];
		else
			plain[n_plain++] = due[i];
	}
	if (n_plain > 0)
		n_suspect += look_without_witnesses(r, plain, n_plain, suspect + n_suspect);
	if (n_suspect > 0)
		look_with_witnesses(r, suspect, n_suspect);
}
