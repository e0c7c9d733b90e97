/* lb_adopt.c: see lb_adopt.h.
 *
 * The search for evidence has three states: no search is running; a thread is searching
 * (is_asking), and others get ERR_PENDING instead of sending the same requests; the last search
 * found nothing (is_missing), which is valid for MISSING_NS. A search that found something leaves
 * no state behind.
 */
#include "providers/hcloud/lb_adopt.h"

#include <assert.h>
#include <inttypes.h>

#include "base/alloc.h"
#include "base/event_kind.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/thread.h"
#include "providers/hcloud/client.h"

#define ADOPTION "HCLOUD_LOAD_BALANCERS_ADOPTION"
#define DEFAULT_CLUSTER "kubernetes" /* the default of --cluster-name */

/* How long a search without result is valid. A Service whose own balancer is found again does not
 * wait for its end. */
#define MISSING_NS (60 * NS_PER_SEC)

enum {
	MACHINES_ASKED = 3, /* one or two machines may have been deleted, rarely all three */
	OTHERS_PAUSE_MS = 1000,
};

struct hz_evidence {
	struct hz_evidence_config config;
	pthread_mutex_t mu;
	bool is_asking;           /* mu; a thread is searching */
	bool is_missing;          /* mu; the last search found nothing */
	int64_t missing_until_ns; /* mu; mono: until when is_missing is valid */
};

EVENT_KIND(
	adopted_event, HZ_COMPONENT, "LoadBalancerAdopted", false, "Service",
	"hcloud: a load balancer that has the name in the Service's annotation, and belonged to no other Service, belongs to this Service from now on.");
EVENT_KIND(
	taken_event, HZ_COMPONENT, "LoadBalancerNameTaken", true, "Service",
	"hcloud: the load balancer that has the name in the Service's annotation belongs to another Service or cluster, or must not be adopted; it is not changed.");

/* ---- adopting ---- */

struct str
hz_lb_label_of(const struct hz_lb *lb, const char *key)
{
	for (size_t i = 0; i < lb->n_labels; i++) {
		if (str_eq_c(lb->labels[i].key, key))
			return lb->labels[i].value;
	}
	return STR_EMPTY;
}

/* The default name proves nothing, because all clusters have it whose operators chose no name. */
static bool
hz_lb_is_of_another_cluster(struct str theirs, struct str ours)
{
	return theirs.len > 0 && !str_eq(theirs, ours) && !str_eq_c(theirs, DEFAULT_CLUSTER) &&
	       !str_eq_c(ours, DEFAULT_CLUSTER);
}

/* Does HCLOUD_LOAD_BALANCERS_ADOPTION permit the adoption? If not, appends the reason to *why. */
static bool
hz_lb_is_adoption_permitted(const struct hz_lb_run *run, const struct hz_lb *lb, struct buf *why)
{
	struct str theirs = hz_lb_label_of(lb, HZ_LABEL_CLUSTER), ours = run->spec->cluster;

	switch (run->tools->config->lb.adoption) {
	case HZ_ADOPT_BY_NAME:
		if (hz_lb_is_of_another_cluster(theirs, ours))
			buf_addf(why,
			         "belongs to the cluster \"%" STR_FMT
			         "\" by its label " HZ_LABEL_CLUSTER
			         ". If this cluster should adopt it, remove that label: hcloud "
			         "load-balancer remove-label %" PRId64 " " HZ_LABEL_CLUSTER,
			         STR_ARG(str_head(theirs, 64)), lb->id);
		break;
	case HZ_ADOPT_LABELLED:
		if (ours.len > 0 && str_eq(hz_lb_label_of(lb, HZ_LABEL_ADOPT), ours))
			break;
		buf_add_c(why,
		          "is not adopted: " ADOPTION "=labelled requires the label " HZ_LABEL_ADOPT
		          " with the name of this cluster");
		if (ours.len > 0)
			buf_addf(why,
			         ". If this cluster should adopt it: hcloud load-balancer "
			         "add-label --overwrite %" PRId64 " " HZ_LABEL_ADOPT "=%" STR_FMT,
			         lb->id, STR_ARG(str_head(ours, 64)));
		else
			buf_add_c(why, ", but --cluster-name is empty");
		break;
	case HZ_ADOPT_NEVER:
		buf_add_c(why, "is not adopted: " ADOPTION "=never");
		break;
	}
	return why->len == 0;
}

/* The default name contains the UID of the Service, so a balancer with that name may always be
 * adopted, unless it belongs to another live Service. */
static bool
hz_lb_may_adopt(const struct hz_lb_run *run, const struct hz_lb *lb, struct buf *why)
{
	if (str_eq(lb->uid, run->spec->uid))
		return true;
	if (lb->uid.len > 0 && hz_lb_cache_is_live(run->tools->cache, lb->uid)) {
		buf_addf(why, "belongs to the Service with UID %" STR_FMT,
		         STR_ARG(str_head(lb->uid, 64)));
		return false;
	}
	return !run->desired.is_named || hz_lb_is_adoption_permitted(run, lb, why);
}

/* The Service is tried again and again; the same refusal is not reported each time. */
static bool
hz_lb_should_report_taken(const struct hz_lb_run *run, const struct error *why)
{
	return hz_lb_cache_should_report(run->tools->cache, run->spec->uid, HZ_NOTICE_REFUSAL,
	                                 str_hash(str_c(why->msg)));
}

static bool
hz_lb_refuse_to_adopt(const struct hz_lb_run *run, const struct hz_lb *lb, const struct buf *why,
                      struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(ERR_MSG_SIZE);

	err_set(err, ERR_EXISTS, "the load balancer named \"%" STR_FMT "\" (%" PRId64 ") %s",
	        STR_ARG(str_head(lb->name, 200)), lb->id, why->ptr);
	if (!hz_lb_should_report_taken(run, err))
		return false;
	buf_add_c(&b, err->msg);
	hz_lb_notify(run, &taken_event, &b);
	return false;
}

static void
hz_lb_notify_adopted(const struct hz_lb_run *run, const struct hz_lb *lb)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(ERR_MSG_SIZE);

	buf_addf(&b, "Adopted the load balancer named \"%" STR_FMT "\" (%" PRId64 ")",
	         STR_ARG(str_head(lb->name, 200)), lb->id);
	if (lb->uid.len > 0)
		buf_addf(&b,
		         ", which was labelled for the Service with UID %" STR_FMT
		         " that no longer exists",
		         STR_ARG(str_head(lb->uid, 64)));
	hz_lb_notify(run, &adopted_event, &b);
	log_info("load balancer adopted", LOG_STR("name", lb->name), LOG_I64("id", lb->id));
}

/* Names in the tutorial dialect are ambiguous: for "a-b/c" and "a/b-c" the name is CLUSTER-a-b-c.
 * Each of the two Services would take over the balancer of the other, so a name that two live
 * Services share is refused for both. */
static bool
hz_lb_refuse_shared_name(const struct hz_lb_run *run, const struct lb_spec *other,
                         struct error *err)
{
	const struct cloud_host *host = run->tools->host;
	CLEANUP(buf_fini) struct buf b = BUF_INIT(ERR_MSG_SIZE);

	err_set(err, ERR_EXISTS,
	        "the load balancer name \"%" STR_FMT "\" belongs to two Services, %" STR_FMT
	        "/%" STR_FMT " and %" STR_FMT "/%" STR_FMT ": rename one of them",
	        STR_ARG(run->desired.name), STR_ARG(run->spec->namespace),
	        STR_ARG(run->spec->service), STR_ARG(other->namespace), STR_ARG(other->service));
	if (!hz_lb_should_report_taken(run, err))
		return false;
	buf_add_c(&b, err->msg);
	hz_lb_notify(run, &taken_event, &b);
	host->service_event(host, other, HOST_EVENT_WARNING, taken_event.reason, buf_str(&b));
	return false;
}

bool
hz_lb_check_name(const struct hz_lb_run *run, struct error *err)
{
	struct lb_spec other;

	if (!run->tools->config->dialect->is_tutorial ||
	    !hz_lb_cache_find_namesake(run->tools->cache, run->spec, run->call->arena, &other))
		return true;
	return hz_lb_refuse_shared_name(run, &other, err);
}

bool
hz_lb_adopt(struct hz_lb_run *run, struct error *err)
{
	const struct hz_lb_tools *t = run->tools;
	struct hz_lb *lb = ARENA_NEW(run->call->arena, struct hz_lb);
	CLEANUP(buf_fini) struct buf why = BUF_INIT(ERR_MSG_SIZE);

	hz_count_operations("hcops/LoadBalancerOps.GetByName", 1);
	if (!hz_find_lb(t->api, run->call, run->call->arena, run->desired.name, lb, err))
		return false;
	if (!hz_lb_may_adopt(run, lb, &why))
		return hz_lb_refuse_to_adopt(run, lb, &why, err);
	run->lb = lb;
	if (run->call->dry)
		return true; /* it is adopted by the step that sets the label */
	if (!str_eq(lb->uid, run->spec->uid))
		hz_lb_notify_adopted(run, lb);
	hz_lb_cache_note_change(t->cache, run->spec->uid, lb->id);
	return true;
}

/* ---- evidence: one search ---- */

/* An answer that the resource does not exist is not a failure: *ret_is_found is false then. */
static bool
hz_evidence_note_answer(bool is_found, bool *ret_is_found, struct error *err)
{
	*ret_is_found = is_found;
	return is_found || err->code == ERR_NOT_FOUND;
}

static bool
hz_evidence_find_network(struct hz_evidence *ev, struct call *call, struct lb_evidence *found,
                         struct error *err)
{
	const struct hz_evidence_config *c = &ev->config;
	struct hz_network network;
	bool is_found;

	if (c->network == 0)
		return true;
	if (!hz_api_admit(c->api, HZ_URGENT, 1, err) ||
	    !hz_evidence_note_answer(hz_get_network(c->api, call, call->arena, c->network, false,
	                                            &network, err),
	                             &is_found, err))
		return err_wrap(err, "look for the network");
	found->n_networks += is_found && network.id == c->network;
	return true;
}

/* Chooses the ids of up to MACHINES_ASKED cloud servers that are nodes, Ready nodes first. */
static size_t
hz_evidence_choose_machines(const struct hz_evidence *ev, struct arena *arena,
                            int64_t ret[MACHINES_ASKED])
{
	const struct cloud_host *host = ev->config.host;
	struct node_ref *nodes;
	struct error ignored;
	size_t n_nodes, n = 0;

	host->nodes(host, arena, &nodes, &n_nodes);
	for (int is_ready = 1; is_ready >= 0; is_ready--) {
		for (size_t i = 0; i < n_nodes && n < MACHINES_ASKED; i++) {
			struct hz_id id;

			if (nodes[i].is_ready == (is_ready != 0) && nodes[i].provider_id.len > 0 &&
			    hz_id_parse(ev->config.config->dialect, nodes[i].provider_id, &id,
			                &ignored) &&
			    id.kind == HZ_CLOUD)
				ret[n++] = id.number;
		}
	}
	return n;
}

static bool
hz_evidence_find_machines(struct hz_evidence *ev, struct call *call, struct lb_evidence *found,
                          struct error *err)
{
	struct hz_api *api = ev->config.api;
	int64_t ids[MACHINES_ASKED];
	size_t n = hz_evidence_choose_machines(ev, call->arena, ids);

	assert(n <= MACHINES_ASKED);
	for (size_t i = 0; i < n && found->n_machines == 0; i++) {
		struct hz_server server;
		bool is_found;

		if (!hz_api_admit(api, HZ_URGENT, 1, err) ||
		    !hz_evidence_note_answer(hz_get_server(api, call, call->arena, ids[i], &server,
		                                           err),
		                             &is_found, err))
			return err_wrap(err, "look for the machine of a node");
		found->n_machines += is_found;
	}
	return true;
}

static bool
hz_evidence_has_any(const struct lb_evidence *found)
{
	return found->n_networks + found->n_machines + found->n_balancers > 0;
}

/* The cheapest request comes first; the first result ends the search. */
static bool
hz_evidence_search(struct hz_evidence *ev, struct call *call, struct lb_evidence *found,
                   struct error *err)
{
	if (!hz_evidence_find_network(ev, call, found, err))
		return false;
	if (!hz_evidence_has_any(found) && !hz_evidence_find_machines(ev, call, found, err))
		return false;
	return hz_evidence_has_any(found) ||
	       hz_lb_cache_count_ours(ev->config.cache, call, &found->n_balancers, err) ||
	       err_wrap(err, "look for load balancers of this cluster");
}

/* ---- evidence: one search at a time ---- */

enum turn {
	TURN_OURS,
	TURN_OTHERS,
	TURN_NEEDLESS, /* the last search found nothing, and is still valid */
};

static enum turn
hz_evidence_take_turn(struct hz_evidence *ev)
{
	WITH_LOCK(&ev->mu);

	if (ev->is_missing && clock_mono(ev->config.host->clock) < ev->missing_until_ns)
		return TURN_NEEDLESS;
	if (ev->is_asking)
		return TURN_OTHERS;
	ev->is_asking = true;
	return TURN_OURS;
}

static void
hz_evidence_end_turn(struct hz_evidence *ev, bool is_missing)
{
	WITH_LOCK(&ev->mu);

	ev->is_asking = false;
	ev->is_missing = is_missing;
	ev->missing_until_ns = clock_deadline(clock_mono(ev->config.host->clock), MISSING_NS);
}

/* Looks for evidence in requests that begin now, and so after the one that found no balancer.
 *
 * @return  On false the result is unknown. ERR_PENDING: another thread is searching. */
static bool
hz_evidence_find(struct hz_evidence *ev, struct call *call, struct lb_evidence *ret,
                 struct error *err)
{
	struct lb_evidence found = { 0 };
	enum turn turn = hz_evidence_take_turn(ev);
	bool is_known;

	if (turn == TURN_OTHERS) {
		err_set(err, ERR_PENDING,
		        "the check whether this is the project of the cluster is running for another Service");
		err->retry_after_ms = OTHERS_PAUSE_MS;
		return false;
	}
	if (turn == TURN_OURS) {
		is_known = hz_evidence_search(ev, call, &found, err);
		hz_evidence_end_turn(ev, is_known && !hz_evidence_has_any(&found));
		if (!is_known)
			return false;
	}
	*ret = found;
	return true;
}

/* ---- a balancer that is not found ---- */

/* The project is checked before a balancer is looked for by name, because another project may have
 * one of that name. */
bool
hz_lb_check_project(const struct hz_lb_run *run, struct error *err)
{
	struct lb_evidence found;

	if (!lb_needs_evidence(run->spec))
		return true;
	if (!hz_evidence_find(run->tools->evidence, run->call, &found, err))
		return err_wrap(err, "check that the token opens the project of this cluster");
	return lb_check_evidence(&found, err);
}

/* ---- life cycle ---- */

struct hz_evidence *
hz_evidence_new(const struct hz_evidence_config *config)
{
	struct hz_evidence *ev = xcalloc(1, sizeof(*ev));

	ev->config = *config;
	mutex_init(&ev->mu);
	return ev;
}

void
hz_evidence_free(struct hz_evidence *ev)
{
	if (!ev)
		return;
	mutex_destroy(&ev->mu);
	free(ev);
}
