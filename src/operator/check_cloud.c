/* operator/check_cloud.c: the cloud as a whole. */
#include <string.h>

#include "base/limits.h"
#include "base/metrics.h"
#include "http/tls.h"
#include "operator/doctor.h"
#include "operator/leader.h"
#include "operator/local.h"

#define SLOW_S 1.0 /* an answer of a cloud takes a tenth of this */

#define BUDGET_FIX                                                                                \
	"find the program that sends so many requests with credentials of the same project, and " \
	"stop it; the limit recovers by itself"

/* Some clouds send no request when they start, so this check also looks for the machines of the
 * nodes. If the nodes cannot be listed, that is not possible, and the result is unknown. */
void
check_cloud(struct doctor *d, struct report *r)
{
	CLEANUP(buf_fini) struct buf files = BUF_INIT(KIB(4));
	const char *prefix;
	struct error err;

	if (view_need(d->view, VIEW_CLOUD, &err)) {
		const struct error *machine_err = &d->view->cloud->machine_err;

		if (machine_err->code != ERR_NONE) {
			report_note(r, "", STR_EMPTY, "%s", machine_err->msg);
			report_fix(
				r,
				"if ccmd runs here, attach this machine to the network; if it runs on another machine, there is nothing to do");
		}
		if (!doctor_needs(d, r, VIEW_NODES) || view_need(d->view, VIEW_LOOK, &err))
			return;
	}
	prefix = cloud_find(str_c(d->view->options->cloud_provider))->variables[0];
	report_find(r, "", STR_EMPTY, "%s%" STR_FMT, err.msg, STR_ARG(leader_cloud(d->view)));
	switch (err.code) {
	case ERR_UNAUTHORIZED:
	case ERR_FORBIDDEN:
		for (size_t i = 0; d->view->cloud && i < d->view->cloud->needs.n_reads; i++)
			buf_addf(&files, "%s%" STR_FMT, files.len > 0 ? ", " : ", or in the file ",
			         STR_ARG(d->view->cloud->needs.reads[i]));
		report_fix(r, "replace the credentials of the cloud%s%s%s%s",
		           prefix ? ": those in the variables " : "", prefix ? prefix : "",
		           prefix ? "…" : "", files.ptr);
		break;
	case ERR_INVALID:
		report_fix(r, "correct the configuration of the cloud");
		break;
	case ERR_THROTTLED:
		report_fix(r, BUDGET_FIX);
		break;
	default:
		if (strstr(err.msg, "certificate"))
			report_fix(
				r,
				"add the authority that has signed the certificate of the cloud's API to those of this machine: %s",
				tls_system_anchors(/*store=*/NULL));
		else
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
		"%.0f of %.0f requests are left. ccmd postpones requests that can wait while "
		"fewer than %.0f are left. Without further requests, the rate limit is full again in %lld s",
		budget.left, budget.limit, budget.postpones_below, (long long)budget.full_in_s);
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
	report_find(r, "", STR_EMPTY,
	            "the project of these credentials has none of the machines of %zu node%s",
	            n_absent, n_absent == 1 ? "" : "s");
	report_fix(
		r,
		"give ccmd the credentials of the cluster's project; if it has them, and all machines were deleted, delete the nodes by hand");
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

/* How long the cloud has taken for the requests of this command. */
void
check_cloud_latency(struct doctor *d, struct report *r)
{
	static const char *const families[][2] = {
		{ "ccmd_cloud_request_duration_seconds_sum",
		  "ccmd_cloud_request_duration_seconds_count" },
		{ "hcloud_api_request_duration_seconds_sum",
		  "hcloud_api_request_duration_seconds_count" },
	};
	CLEANUP(buf_fini) struct buf page = BUF_INIT(LIMIT_REPORT);
	double took_s = 0, n = 0;

	(void)d;
	metrics_write_page(&page, METRICS_MAIN, METRICS_TEXT);
	for (size_t i = 0; i < ARRAY_LEN(families); i++) {
		took_s += samples_sum(buf_str(&page), families[i][0], NULL, NULL);
		n += samples_sum(buf_str(&page), families[i][1], NULL, NULL);
	}
	if (n == 0)
		report_skip(r, "no request was sent to this cloud over HTTP");
	if (n == 0 || took_s / n < SLOW_S)
		return;
	report_find(r, "", STR_EMPTY,
	            "the cloud takes %.1f s to respond (average of %.0f requests)", took_s / n, n);
	report_fix(
		r,
		"see whether the cloud reports an outage, and whether a proxy or the name servers are slow; meanwhile, new nodes and changes of Services are delayed");
}
