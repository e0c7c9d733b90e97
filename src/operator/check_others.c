/* operator/check_others.c: other cloud controller managers, found by their Deployments, DaemonSets
 * and Leases.
 *
 * check_lease.c finds them by what they have written. The controller's account may not list these
 * objects, nor may most users, so a refused list only skips the check; the report says so.
 */
#include "base/json.h"
#include "operator/doctor.h"

/* Reads a list, unless the check is skipped or could not run. */
static bool
list_others(struct doctor *d, struct report *r, const char *path, const char *what,
            bool (*each)(void *arg, struct str item, struct error *err), void *arg)
{
	struct error err;

	if (view_list(d->view, path, each, arg, &err))
		return true;
	if (err.code == ERR_FORBIDDEN)
		report_skip_refused(r, what);
	else
		report_unknown(r, &err);
	return false;
}

/* ---- Deployments and DaemonSets ---- */

struct workload_list {
	struct doctor *d;
	struct report *r;
	const char *kind;   /* "deployment" */
	const char *n_pods; /* the member with the number of pods */
	int64_t pods_if_absent;
};

/* "cloud-controller-manager" of "registry.k8s.io/x/cloud-controller-manager:v1.30@sha256:…". */
static struct str
image_name(struct str image)
{
	struct str name = image, folder, rest;

	if (str_cut(name, '@', &rest, &folder))
		name = rest;
	while (str_cut(name, '/', &folder, &rest))
		name = rest;
	if (str_cut(name, ':', &rest, &folder))
		name = rest;
	return name;
}

/* Is it a cloud controller manager, but not ccmd? The image decides, because ccmd may run under the
 * name of the controller that it replaced. */
static bool
is_other_workload(yyjson_val *object, struct str name)
{
	bool is_controller = view_is_controller(name);
	yyjson_val *containers = NULL, *container;
	size_t i, n;

	(void)json_array(object, "spec.template.spec.containers", &containers);
	yyjson_arr_foreach(containers, i, n, container)
	{
		struct str image = STR_EMPTY;

		(void)json_str(container, "image", &image);
		if (str_eq_c(image_name(image), "ccmd"))
			return false;
		is_controller |= view_is_controller(image_name(image));
	}
	return is_controller;
}

static bool
check_workload(void *arg, struct str item, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct workload_list *list = arg;
	struct str namespace = STR_EMPTY, name = STR_EMPTY;
	int64_t n_pods = list->pods_if_absent;
	struct finding *finding;
	yyjson_val *object;

	if (!json_parse(item, &doc, err))
		return false;
	object = yyjson_doc_get_root(doc);
	(void)json_str(object, "metadata.namespace", &namespace);
	(void)json_str(object, "metadata.name", &name);
	(void)json_i64(object, list->n_pods, &n_pods);
	if (n_pods == 0 || !is_other_workload(object, name))
		return true;
	finding = report_find(list->r, list->kind,
	                      arena_printf(view_call(list->d->view)->arena,
	                                   "%" STR_FMT "/%" STR_FMT, STR_ARG(namespace),
	                                   STR_ARG(name)),
	                      "it runs another cloud controller manager (pods: %lld)",
	                      (long long)n_pods);
	report_fix(list->r, finding,
	           "if ccmd replaces it: kubectl -n %" STR_FMT " delete %s %" STR_FMT,
	           STR_ARG(namespace), list->kind, STR_ARG(name));
	return true;
}

/* A Deployment that is scaled to 0, and a DaemonSet without pods, do nothing, so they are not
 * reported. */
void
check_other_workloads(struct doctor *d, struct report *r)
{
	struct workload_list deployments = { d, r, "deployment", "spec.replicas", 1 };
	struct workload_list daemonsets = { d, r, "daemonset", "status.desiredNumberScheduled", 0 };

	if (list_others(d, r, "/apis/apps/v1/deployments", "deployments", check_workload,
	                &deployments))
		(void)list_others(d, r, "/apis/apps/v1/daemonsets", "daemonsets", check_workload,
		                  &daemonsets);
}

/* ---- Leases ---- */

struct lease_list {
	struct doctor *d;
	struct report *r;
};

/* The holder has renewed it, and may still rely on it. */
static bool
is_held(struct doctor *d, yyjson_val *lease, int64_t *ret_ago_s)
{
	struct str renewed = STR_EMPTY;
	int64_t duration_s = 0, renewed_ns;

	(void)json_str(lease, "spec.renewTime", &renewed);
	(void)json_i64(lease, "spec.leaseDurationSeconds", &duration_s);
	if (!clock_parse_rfc3339(renewed, &renewed_ns))
		return false;
	*ret_ago_s = view_now_s(d->view) - renewed_ns / NS_PER_SEC;
	return *ret_ago_s <= duration_s;
}

/* The Lease of ccmd itself is left to the checks in check_lease.c. */
static bool
check_other_lease(void *arg, struct str item, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct lease_list *list = arg;
	const struct election_options *own = &view_options(list->d->view)->election;
	struct str name = STR_EMPTY, holder = STR_EMPTY;
	struct finding *finding;
	yyjson_val *lease;
	int64_t ago_s;

	if (!json_parse(item, &doc, err))
		return false;
	lease = yyjson_doc_get_root(doc);
	(void)json_str(lease, "metadata.name", &name);
	(void)json_str(lease, "spec.holderIdentity", &holder);
	if ((own->is_enabled && str_eq_c(name, own->resource_name)) || !view_is_controller(name) ||
	    holder.len == 0 || !is_held(list->d, lease, &ago_s))
		return true;
	finding = report_find(list->r, "lease",
	                      arena_printf(view_call(list->d->view)->arena, "%s/%" STR_FMT,
	                                   own->resource_namespace, STR_ARG(name)),
	                      "%" STR_FMT " renewed it %lld s ago", STR_ARG(holder),
	                      (long long)ago_s);
	report_fix(
		list->r, finding,
		"stop that controller: scale it to 0 replicas, or disable the one of the distribution (k3s: --disable-cloud-controller)");
	return true;
}

void
check_other_leases(struct doctor *d, struct report *r)
{
	CLEANUP(buf_fini) struct buf path = BUF_INIT(KIB(2));
	struct lease_list list = { d, r };

	lease_add_path(&path, str_c(view_options(d->view)->election.resource_namespace), STR_EMPTY);
	(void)list_others(d, r, path.ptr, "Leases", check_other_lease, &list);
}
