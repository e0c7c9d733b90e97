/* operator/check_cloud.c: the cloud as a whole. */
#include "operator/doctor.h"

static void
find_failure(struct report *r, const struct error *err)
{
	report_fix(
		r, report_find(r, "", STR_EMPTY, "%s", err->msg),
		err->code == ERR_UNAUTHORIZED || err->code == ERR_FORBIDDEN
			? "replace the credentials of the cloud"
			: "check the cloud's configuration, and that this machine reaches its API");
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
	size_t n_absent = 0;
	struct error err;

	if (!view_nodes(d->view, &nodes, &err) || !view_cloud(d->view, &cloud, &err) ||
	    !view_look(d->view, &look, &err)) {
		report_unknown(r, &err);
		return;
	}
	for (size_t i = 0; i < nodes->n; i++) {
		if (!counts_for_project(cloud, &nodes->refs[i]))
			continue;
		if (look->instances[i].presence != PRESENCE_ABSENT)
			return;
		n_absent++;
	}
	if (n_absent == 0 || look->n_anchors > 0)
		return;
	report_fix(r,
	           report_find(r, "", STR_EMPTY,
	                       "none of the machines of %zu nodes exists in the cloud", n_absent),
	           "check that the credentials are those of the cluster's project");
}
