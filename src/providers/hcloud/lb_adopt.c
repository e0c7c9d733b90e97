/* lb_adopt.c: may a Service that has no balancer with its label adopt one that has the right name?
 * See lb_converge.h. */
#include "providers/hcloud/lb_converge.h"

#include <inttypes.h>

#include "base/event_kind.h"
#include "base/limits.h"
#include "base/log.h"
#include "providers/hcloud/client.h"

#define ADOPTION "HCLOUD_LOAD_BALANCERS_ADOPTION"
#define DEFAULT_CLUSTER "kubernetes" /* the default of --cluster-name */

EVENT_KIND(
	adopted_event, HZ_COMPONENT, "LoadBalancerAdopted", false, "Service",
	"hcloud: a load balancer that has the name in the Service's annotation, and belonged to no other Service, belongs to this Service from now on.");
EVENT_KIND(
	taken_event, HZ_COMPONENT, "LoadBalancerNameTaken", true, "Service",
	"hcloud: the load balancer that has the name in the Service's annotation belongs to another Service or cluster, or must not be adopted; it is not changed.");

/* ---- adopting ---- */

/* Does HCLOUD_LOAD_BALANCERS_ADOPTION permit the adoption? If not, appends the reason to *why. */
static bool
hz_lb_is_adoption_permitted(const struct hz_lb_run *run, const struct hz_lb *lb, struct buf *why)
{
	struct str theirs = hz_lb_label_of(lb, HZ_LABEL_CLUSTER), ours = run->spec->cluster;

	switch (run->tools->config->lb.adoption) {
	case HZ_ADOPT_BY_NAME:
		/* The default name proves nothing, because all clusters have it whose operators
		 * chose no name. */
		if (theirs.len == 0 || str_eq(theirs, ours) || str_eq_c(theirs, DEFAULT_CLUSTER) ||
		    str_eq_c(ours, DEFAULT_CLUSTER))
			return true;
		buf_addf(why,
		         "belongs to the cluster \"%" STR_FMT "\" by its label " HZ_LABEL_CLUSTER
		         ". If this cluster should adopt it, remove that label: hcloud "
		         "load-balancer remove-label %" PRId64 " " HZ_LABEL_CLUSTER,
		         STR_ARG(str_head(theirs, 64)), lb->id);
		break;
	case HZ_ADOPT_LABELLED:
		if (ours.len > 0 && str_eq(hz_lb_label_of(lb, HZ_LABEL_ADOPT), ours))
			return true;
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
	return false;
}

/* If not, appends the reason to *why. The default name contains the UID of the Service, so a
 * balancer with that name may always be adopted, unless it belongs to another live Service. */
static bool
hz_lb_may_adopt(const struct hz_lb_run *run, const struct hz_lb *lb, struct buf *why)
{
	if (str_eq(lb->uid, run->spec->uid))
		return true;
	if (lb->uid.len > 0 && hz_lb_cache_state(run->tools->cache, lb->uid).is_live) {
		buf_addf(why, "belongs to the Service with UID %" STR_FMT,
		         STR_ARG(str_head(lb->uid, 64)));
		return false;
	}
	return !run->desired.is_named || hz_lb_is_adoption_permitted(run, lb, why);
}

/* The Service is tried again and again; the same refusal is not reported each time. */
static bool
hz_lb_should_report_taken(const struct hz_lb_run *run, const struct error *refusal)
{
	return hz_lb_cache_should_report(run->tools->cache, run->spec->uid, HZ_NOTICE_REFUSAL,
	                                 str_hash(str_c(refusal->msg)));
}

static void
hz_lb_report_adopted(const struct hz_lb_run *run, const struct hz_lb *lb)
{
	struct str former = STR_EMPTY;

	if (lb->uid.len > 0)
		former = arena_printf(run->call->arena,
		                      ", which was labelled for the Service with UID %" STR_FMT
		                      " that no longer exists",
		                      STR_ARG(str_head(lb->uid, 64)));
	host_report_service(run->tools->host, run->spec, &adopted_event,
	                    "Adopted the load balancer named \"%" STR_FMT "\" (%" PRId64
	                    ")%" STR_FMT,
	                    STR_ARG(str_head(lb->name, 200)), lb->id, STR_ARG(former));
	log_info("load balancer adopted", LOG_STR("name", lb->name), LOG_I64("id", lb->id));
}

/* Names in the tutorial dialect are ambiguous: for "a-b/c" and "a/b-c" the name is CLUSTER-a-b-c.
 * Each of the two Services would take over the balancer of the other, so a name that two live
 * Services share is refused for both. */
bool
hz_lb_check_name(const struct hz_lb_run *run, struct error *err)
{
	const struct cloud_host *host = run->tools->host;
	struct lb_spec other;

	if (!run->tools->config->dialect->is_tutorial ||
	    !hz_lb_cache_find_namesake(run->tools->cache, run->spec, run->call->arena, &other))
		return true;
	err_set(err, ERR_EXISTS,
	        "the load balancer name \"%" STR_FMT "\" belongs to two Services, %" STR_FMT
	        "/%" STR_FMT " and %" STR_FMT "/%" STR_FMT ": rename one of them",
	        STR_ARG(run->desired.name), STR_ARG(run->spec->namespace),
	        STR_ARG(run->spec->service), STR_ARG(other.namespace), STR_ARG(other.service));
	if (hz_lb_should_report_taken(run, err)) {
		host_report_service(host, run->spec, &taken_event, "%s", err->msg);
		host_report_service(host, &other, &taken_event, "%s", err->msg);
	}
	return false;
}

bool
hz_lb_adopt(struct hz_lb_run *run, struct error *err)
{
	const struct hz_lb_tools *t = run->tools;
	struct hz_lb *lb = ARENA_NEW(run->call->arena, struct hz_lb);
	CLEANUP(buf_fini) struct buf why = BUF_INIT(ERR_MSG_SIZE);

	hz_count_operations("hcops/LoadBalancerOps.GetByName", 1);
	if (!hz_find_lb(t->api, run->call, run->call->arena, HZ_BY_NAME(run->desired.name), lb,
	                err))
		return false;
	if (!hz_lb_may_adopt(run, lb, &why)) {
		err_set(err, ERR_EXISTS,
		        "the load balancer named \"%" STR_FMT "\" (%" PRId64 ") %s",
		        STR_ARG(str_head(lb->name, 200)), lb->id, why.ptr);
		if (hz_lb_should_report_taken(run, err))
			host_report_service(t->host, run->spec, &taken_event, "%s", err->msg);
		return false;
	}
	run->lb = lb;
	if (run->call->dry)
		return true; /* it is adopted by the step that sets the label */
	if (!str_eq(lb->uid, run->spec->uid))
		hz_lb_report_adopted(run, lb);
	hz_lb_cache_note_change(t->cache, run->spec->uid, lb->id);
	return true;
}
