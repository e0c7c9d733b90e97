/* operator/check_cloud.c: the cloud as a whole. */
#include "operator/doctor.h"
#include "operator/local.h"

#define BUDGET_FIX                                                                                \
	"find the program that sends so many requests with credentials of the same project, and " \
	"stop it; the limit recovers by itself"

/* Some clouds send no request when they start, so this check also looks for the machines of the
 * nodes. If the nodes cannot be listed, that is not possible, and the result is unknown. */
void
check_cloud(struct doctor *d, struct report *r)
{
	struct error err;

	if (view_need(d->view, VIEW_CLOUD, &err)) {
		if (!doctor_needs(d, r, VIEW_NODES) || view_need(d->view, VIEW_LOOK, &err))
			return;
	}
	report_find(r, "", STR_EMPTY, "%s", err.msg);
	switch (err.code) {
	case ERR_UNAUTHORIZED:
	case ERR_FORBIDDEN:
		report_fix(r, "replace the credentials of the cloud");
		break;
	case ERR_THROTTLED:
		report_fix(r, BUDGET_FIX);
		break;
	default:
		report_fix(
			r,
			"check the cloud's configuration, and that this machine reaches its API");
	}
}

/* The other checks of the cloud run before this one, so the budget already has their requests. */
void
check_budget(struct doctor *d, struct report *r)
{
	struct cloud *cloud = d->view->cloud;
	struct cloud_budget budget;

	if (!cloud->ops->get_budget || !cloud->ops->get_budget(cloud, &budget)) {
		report_skip(r, "this cloud reports no rate limit");
		return;
	}
	/* A request is postponed if too few would be left after it. */
	if (budget.left - 1 >= budget.postpones_below)
		return;
	report_find(
		r, "", STR_EMPTY,
		"%.0f of %.0f requests are left, and ccmd postpones requests that can wait while "
		"fewer than %.0f are left",
		budget.left, budget.limit, budget.postpones_below);
	report_fix(r, BUDGET_FIX);
}

/* One machine that is found proves that the project is the right one. */
void
check_project(struct doctor *d, struct report *r)
{
	size_t n_absent = 0, unknown = SIZE_MAX;
	const struct view_nodes *nodes = &d->view->nodes;
	const struct look *look = d->view->look;
	struct error err;

	for (size_t i = 0; i < nodes->n; i++) {
		struct str id = nodes->refs[i].provider_id;
		unsigned realm;

		if (id.len == 0 || !cloud_can_find(d->view->cloud, id, &realm))
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
	report_find(r, "", STR_EMPTY, "none of the machines of %zu nodes exists in the cloud",
	            n_absent);
	report_fix(r, "check that the credentials are those of the cluster's project");
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
		report_skip(r, "the leader could not be asked: %s", err.msg);
		return;
	}
	if (samples_find(metrics, "leader_election_master_status", NULL, STR_EMPTY, &leads) &&
	    leads == 0) {
		report_skip(r,
		            "the leader could not be asked: the process on this machine stands by");
		return;
	}
	if (!samples_find(metrics, "ccmd_cloud_credentials_read_only", NULL, STR_EMPTY,
	                  &is_read_only)) {
		report_skip(r, "this cloud does not say why it refuses a change");
		return;
	}
	if (is_read_only <= 0)
		return;
	report_find(r, "", STR_EMPTY,
	            "the cloud refused the last change of the leader, because its credentials may "
	            "only read");
	report_fix(r, "give ccmd credentials that may also write");
}
