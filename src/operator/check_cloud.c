/* operator/check_cloud.c: the cloud as a whole. */
#include "operator/doctor.h"
#include "operator/local.h"
#include "operator/samples.h"

#define BUDGET_FIX                                                                                \
	"find the program that sends so many requests with credentials of the same project, and " \
	"stop it; the limit recovers by itself"

static void
find_failure(struct report *r, const struct error *err)
{
	const char *fix;

	switch (err->code) {
	case ERR_UNAUTHORIZED:
	case ERR_FORBIDDEN:
		fix = "replace the credentials of the cloud";
		break;
	case ERR_THROTTLED:
		fix = BUDGET_FIX;
		break;
	default:
		fix = "check the cloud's configuration, and that this machine reaches its API";
	}
	report_fix(r, report_find(r, "", STR_EMPTY, "%s", err->msg), "%s", fix);
}

/* Some clouds send no request when they start, so this check also looks for the machines of the
 * nodes. If the nodes cannot be listed, that is not possible, and the result is unknown. */
void
check_cloud(struct doctor *d, struct report *r)
{
	const struct view_nodes *nodes;
	const struct look *look;
	struct cloud *cloud;
	struct error err;

	if (!view_cloud(d->view, &cloud, &err)) {
		find_failure(r, &err);
		return;
	}
	if (!view_nodes(d->view, &nodes, &err)) {
		report_unknown(r, &err);
		return;
	}
	if (!view_look(d->view, &look, &err))
		find_failure(r, &err);
}

/* The other checks of the cloud run before this one, so the budget already has their requests. */
void
check_budget(struct doctor *d, struct report *r)
{
	struct cloud_budget budget;
	struct cloud *cloud;
	struct error err;

	if (!view_cloud(d->view, &cloud, &err)) {
		report_unknown(r, &err);
		return;
	}
	if (!cloud->ops->get_budget || !cloud->ops->get_budget(cloud, &budget)) {
		report_skip(r, "this cloud reports no rate limit");
		return;
	}
	/* A request is postponed if too few would be left after it. */
	if (budget.left - 1 >= budget.postpones_below)
		return;
	report_fix(
		r,
		report_find(r, "", STR_EMPTY,
	                    "%.0f of %.0f requests are left, and ccmd postpones requests that can "
	                    "wait while fewer than %.0f are left",
	                    budget.left, budget.limit, budget.postpones_below),
		BUDGET_FIX);
}

static bool
counts_for_project(struct cloud *cloud, const struct node_ref *ref)
{
	unsigned realm;

	return ref->provider_id.len > 0 && cloud_can_find(cloud, ref->provider_id, &realm);
}

/* One machine that is found proves that the project is the right one. */
void
check_project(struct doctor *d, struct report *r)
{
	const struct view_nodes *nodes;
	const struct look *look;
	struct cloud *cloud;
	size_t n_absent = 0, unknown = SIZE_MAX;
	struct error err;

	if (!view_nodes(d->view, &nodes, &err) || !view_cloud(d->view, &cloud, &err) ||
	    !view_look(d->view, &look, &err)) {
		report_unknown(r, &err);
		return;
	}
	for (size_t i = 0; i < nodes->n; i++) {
		if (!counts_for_project(cloud, &nodes->refs[i]))
			continue;
		if (look->instances[i].presence == PRESENCE_PRESENT)
			return;
		n_absent += look->instances[i].presence == PRESENCE_ABSENT;
		if (look->instances[i].presence == PRESENCE_UNKNOWN)
			unknown = i;
	}
	if (unknown != SIZE_MAX) {
		(void)doctor_is_unanswered(r, nodes->items[unknown], &look->instances[unknown]);
		return;
	}
	if (n_absent == 0 || look->n_anchors > 0)
		return;
	if (look->anchors_error.len > 0) {
		err_set(&err, ERR_UNAVAILABLE, "%" STR_FMT, STR_ARG(look->anchors_error));
		report_unknown(r, &err);
		return;
	}
	report_fix(r,
	           report_find(r, "", STR_EMPTY,
	                       "none of the machines of %zu nodes exists in the cloud", n_absent),
	           "check that the credentials are those of the cluster's project");
}

static void
skip_rights(struct doctor *d, struct report *r, struct str why)
{
	report_skip(r, arena_printf(view_call(d->view)->arena,
	                            "the leader could not be asked: %" STR_FMT, STR_ARG(why))
	                       .ptr);
}

/* Only a change that was refused shows that credentials may only read, and doctor makes none. So
 * the process of this machine is asked, if it is the leader. Where that is not possible, the check
 * is skipped and not unknown: the exit code is that of the other checks. */
void
check_cloud_rights(struct doctor *d, struct report *r)
{
	double leads, is_read_only;
	struct str metrics;
	struct error err;

	if (!local_get_metrics(d->view, &metrics, &err)) {
		skip_rights(d, r, str_c(err.msg));
		return;
	}
	if (samples_find(metrics, "leader_election_master_status", NULL, STR_EMPTY, &leads) &&
	    leads == 0) {
		skip_rights(d, r, STR("the process on this machine stands by"));
		return;
	}
	if (!samples_find(metrics, "ccmd_cloud_credentials_read_only", NULL, STR_EMPTY,
	                  &is_read_only)) {
		report_skip(r, "this cloud does not say why it refuses a change");
		return;
	}
	if (is_read_only > 0)
		report_fix(r,
		           report_find(r, "", STR_EMPTY,
		                       "the cloud refused the last change of the leader, because "
		                       "its credentials may only read"),
		           "give ccmd credentials that may also write");
}
