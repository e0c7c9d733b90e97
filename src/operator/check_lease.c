/* operator/check_lease.c: the leader, and other cloud controller managers, which are found by what
 * they have written, by their Deployments and DaemonSets, and by their Leases.
 *
 * The controller's account may not list the latter objects, nor may most users, so a refused list
 * only skips the check; the report says so.
 */
#include <string.h>

#include "base/json.h"
#include "base/words.h"
#include "operator/doctor.h"
#include "operator/workload.h"

enum {
	/* When ccmd takes over the Lease of another controller, the last writes of that controller
	 * may be a little newer than the election. */
	HANDOVER_S = 60,
	/* Without an election, a write that is older than this may be from before a migration. */
	RECENT_S = 600,
	MAX_AHEAD_S = 10,
};

/* ---- the Lease of ccmd ---- */

static bool
is_of_other_program(const struct view_lease *l)
{
	return l->manager.len > 0 && !str_eq_c(l->manager, "ccmd");
}

void
check_leader(struct doctor *d, struct report *r)
{
	const struct view_lease *l = &d->view->lease;

	if (l->has_holder)
		return;
	report_find(r, "lease", l->name, "%s",
	            l->exists ? "it has no holder" : "it does not exist");
	report_fix(
		r,
		"start ccmd, or read its log: kubectl -n kube-system logs deploy/ccmd; journalctl -u ccmd");
}

void
check_renewal(struct doctor *d, struct report *r)
{
	const struct view_lease *l = &d->view->lease;
	bool is_other = is_of_other_program(l);

	if (!l->has_holder) {
		report_skip(r, "no replica leads");
		return;
	}
	if (l->late_s <= 0)
		return;
	report_find(r, "lease", l->name,
	            "%" STR_FMT "%s%" STR_FMT " holds it and should have renewed it %lld s ago",
	            STR_ARG(l->lease.holder), is_other ? " of " : "",
	            STR_ARG(is_other ? l->manager : STR_EMPTY), (long long)l->late_s);
	if (is_other)
		report_fix(
			r,
			"start ccmd, if no replica runs: that program has exited without releasing the Lease, and ccmd takes it within %lld s of its start",
			(long long)l->wait_s);
	else
		report_fix(
			r,
			"read the log of that replica, or start another replica, which then takes over");
}

void
check_lease_owner(struct doctor *d, struct report *r)
{
	const struct view_lease *l = &d->view->lease;

	if (!l->has_holder) {
		report_skip(r, "no replica leads");
	} else if (l->late_s > 0) {
		report_skip(r, "the holder of the Lease does not renew it");
	} else if (is_of_other_program(l)) {
		report_find(r, "lease", l->name,
		            "it was last written by %" STR_FMT " (holder %" STR_FMT ")",
		            STR_ARG(l->manager), STR_ARG(l->lease.holder));
		report_fix(
			r,
			"to let ccmd lead, scale that controller to 0 replicas; ccmd then takes over the Lease");
	}
}

/* The elector measures the Lease of another replica by its own clock, so an election works with any
 * clocks; times in logs, events and certificates do not. */
void
check_leader_clock(struct doctor *d, struct report *r)
{
	const struct view_lease *l = &d->view->lease;

	if (!l->has_holder || (l->ahead_s <= MAX_AHEAD_S && l->behind_s == 0))
		return;
	report_find(r, "lease", l->name,
	            "the clock of its holder, %" STR_FMT
	            ", is %lld s %s the API server's: it writes times that lie in the %s",
	            STR_ARG(l->lease.holder), (long long)(l->behind_s ? l->behind_s : l->ahead_s),
	            l->behind_s ? "behind" : "ahead of", l->behind_s ? "past" : "future");
	report_fix(
		r,
		"on the machine of the holder: timedatectl; then start a time service such as chrony");
}

/* ---- writes of others ---- */

/* The time from which on writes count: older ones may be from before a migration to ccmd. */
static int64_t
first_write_s(const struct view *v)
{
	const struct view_lease *l = &v->lease;
	int64_t acquired_ns;

	if (v->options->election.is_enabled && l->has_holder && str_eq_c(l->manager, "ccmd") &&
	    clock_parse_rfc3339(l->lease.acquired, &acquired_ns))
		return acquired_ns / NS_PER_SEC + HANDOVER_S;
	return view_now_s(v) - RECENT_S;
}

void
check_other_controllers(struct doctor *d, struct report *r)
{
	struct view *v = d->view;
	int64_t first_s;

	if (v->options->election.is_enabled && !doctor_needs(d, r, VIEW_LEASE))
		return;
	first_s = first_write_s(v);
	for (size_t i = 0; i < v->n_writers; i++) {
		const struct view_writer *w = &v->writers[i];

		if (str_eq_c(w->manager, "ccmd") || w->time_s < first_s)
			continue;
		report_find(r, w->kind, w->name, "%" STR_FMT " wrote to it %lld s ago",
		            STR_ARG(w->manager), (long long)(view_now_s(v) - w->time_s));
		report_fix(
			r,
			"kubectl -A get deploy,daemonset | grep cloud-controller-manager; then scale it to 0 replicas or delete it");
	}
}

/* ---- Deployments and DaemonSets of others ---- */

struct workload_kind {
	const char *kind, *kinds;
	const char *n_pods; /* the member with the number of pods */
	int64_t pods_if_absent;
};

/* A list of objects, among which the check finds those of other controllers. */
struct search {
	struct doctor *d;
	struct report *r;
	const struct workload_kind *of; /* NULL: Leases */
	bool is_of_ccmd; /* only objects of ccmd; other checks say that the right is missing */
	/* Reports the object, unless it is harmless. */
	void (*each)(const struct search *, yyjson_val *object);
};

static bool
search_item(void *arg, yyjson_val *item, struct error *err)
{
	const struct search *s = arg;

	(void)err;
	s->each(s, item);
	return true;
}

/* False: the check is skipped or could not run. */
static bool
search(struct search *s, const char *path)
{
	const char *what = s->of ? s->of->kinds : "Leases";
	struct error err;

	if (view_list(s->d->view, path, search_item, s, &err))
		return true;
	if (err.code == ERR_FORBIDDEN && s->is_of_ccmd)
		report_skip(s->r, "these credentials may not list %s", what);
	else if (err.code == ERR_FORBIDDEN)
		report_skip_refused(s->r, what);
	else
		report_unknown(s->r, &err);
	return false;
}

/* Is it a cloud controller manager, but not ccmd? The image decides, because ccmd may run under the
 * name of the controller that it replaced. */
static bool
is_other_workload(yyjson_val *object, struct str name)
{
	bool is_controller = view_is_controller(name);
	yyjson_val *containers = json_at(object, "spec.template.spec.containers"), *container;
	size_t i, n;

	yyjson_arr_foreach(containers, i, n, container)
	{
		is_controller |= view_is_controller(workload_image_name(json_view(container,
		                                                                  "image")));
	}
	return is_controller && !workload_container(object);
}

static struct str
full_name(const struct search *s, yyjson_val *object)
{
	return arena_printf(&s->d->view->arena, "%" STR_FMT "/%" STR_FMT,
	                    STR_ARG(json_view(object, "metadata.namespace")),
	                    STR_ARG(json_view(object, "metadata.name")));
}

/* A Deployment that is scaled to 0, and a DaemonSet without pods, do nothing. */
static void
report_workload(const struct search *s, yyjson_val *object)
{
	struct str name = json_view(object, "metadata.name");
	int64_t n_pods = json_i64_or(object, s->of->n_pods, s->of->pods_if_absent);

	/* k3s has one for each Service of type LoadBalancer */
	if (n_pods > 0 && str_starts(name, STR("svclb-"))) {
		report_find(
			s->r, s->of->kind, full_name(s, object),
			"it belongs to the service load balancer of k3s, which serves the same Service");
		report_fix(s->r, "start k3s with --disable=servicelb");
		return;
	}
	if (n_pods == 0 || !is_other_workload(object, name))
		return;
	report_find(s->r, s->of->kind, full_name(s, object),
	            "it runs another cloud controller manager (pods: %lld)", (long long)n_pods);
	report_fix(s->r, "if ccmd replaces it: kubectl -n %" STR_FMT " delete %s %" STR_FMT,
	           STR_ARG(json_view(object, "metadata.namespace")), s->of->kind, STR_ARG(name));
}

/* Reports the workload of ccmd if nothing tolerates the taint of new nodes. */
static void
report_toleration(const struct search *s, yyjson_val *object)
{
	yyjson_val *tolerations = json_at(object, "spec.template.spec.tolerations"), *one;
	size_t i, n;

	if (!workload_container(object))
		return;
	yyjson_arr_foreach(tolerations, i, n, one)
	{
		struct str key = json_view(one, "key");

		if (key.len == 0 || str_eq_c(key, NODE_TAINT_UNINITIALIZED))
			return;
	}
	report_find(s->r, s->of->kind, full_name(s, object),
	            "it has no toleration for " NODE_TAINT_UNINITIALIZED);
	report_fix(s->r, "add to its pods: tolerations: [{key: " NODE_TAINT_UNINITIALIZED
	                 ", operator: Exists}]");
}

/* ---- the workloads of ccmd ---- */

/* Reports replicas that all work at the same time. */
static void
report_replicas(const struct search *s, yyjson_val *object)
{
	yyjson_val *args = json_at(workload_container(object), "args"), *arg;
	int64_t n_pods = json_i64_or(object, s->of->n_pods, s->of->pods_if_absent);
	bool is_elected = true;
	size_t i, n;

	yyjson_arr_foreach(args, i, n, arg)
		is_elected &= !str_eq_c(json_view(arg, ""), "--leader-elect=false");
	if (is_elected || n_pods <= 1)
		return;
	report_find(s->r, s->of->kind, full_name(s, object),
	            "its %lld replicas all work at the same time, because of --leader-elect=false",
	            (long long)n_pods);
	report_fix(s->r, "remove the flag, or scale it to one replica");
}

/* Reports the flags of the controller that this command does not have. */
static void
report_flags(const struct search *s, yyjson_val *object)
{
	CLEANUP(buf_fini) struct buf missing = BUF_INIT(KIB(4));
	CLEANUP(buf_fini) struct buf ignored = BUF_INIT(KIB(64));
	struct arena *arena = &s->d->view->arena;
	yyjson_val *container = workload_container(object);
	struct running running;

	if (!container)
		return;
	workload_take(container, arena, &running, &ignored);
	for (int i = 1; i < running.argc; i++) {
		if (!words_have((const char *const *)s->d->argv + 1, str_c(running.argv[i])))
			buf_addf(&missing, " %s", running.argv[i]);
	}
	if (missing.len == 0)
		return;
	report_note(s->r, s->of->kind, full_name(s, object),
	            "it has flags that this command was not given, so other checks may be wrong:%s",
	            missing.ptr);
	report_fix(
		s->r,
		"give the command these flags, or run it as kubectl ccmd without --cloud-provider, which takes all of them");
}

/* Searches the Deployments, then the DaemonSets, with that selector ("?labelSelector=…") or of all.
 */
static void
search_workloads(struct doctor *d, struct report *r, const char *selector,
                 void (*each)(const struct search *, yyjson_val *))
{
	static const struct workload_kind kinds[] = {
		{ "deployment", "deployments", "spec.replicas", 1 },
		{ "daemonset", "daemonsets", "status.desiredNumberScheduled", 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		struct search s = { d, r, &kinds[i], .is_of_ccmd = selector[0], .each = each };
		struct str path = arena_printf(&d->view->arena, "/apis/apps/v1/%s%s",
		                               kinds[i].kinds, selector);

		if (!search(&s, path.ptr))
			return;
	}
}

void
check_other_workloads(struct doctor *d, struct report *r)
{
	search_workloads(d, r, "", report_workload);
}

void
check_tolerations(struct doctor *d, struct report *r)
{
	search_workloads(d, r, "", report_toleration);
}

/* Replicas are also found by their events, which credentials may not be allowed to list. */
void
check_replicas(struct doctor *d, struct report *r)
{
	const struct view_conflict *c = &d->view->conflict;
	struct error err;

	if (!view_need(d->view, VIEW_EVENTS, &err) && err.code != ERR_FORBIDDEN)
		report_unknown(r, &err);
	if (c->kind && view_now_s(d->view) - c->last_s < RECENT_S) {
		report_find(
			r, c->kind, c->name,
			"two processes of ccmd have acted on it by turns, the last time %lld s ago: %" STR_FMT
			" and %" STR_FMT,
			(long long)(view_now_s(d->view) - c->last_s), STR_ARG(c->first),
			STR_ARG(c->second));
		report_fix(
			r,
			"stop one of them: the first part of the name is its pod or machine; or give both the same --leader-elect-resource-name and -namespace");
		return;
	}
	search_workloads(d, r, WORKLOAD_SELECTOR, report_replicas);
}

void
check_same_flags(struct doctor *d, struct report *r)
{
	search_workloads(d, r, WORKLOAD_SELECTOR, report_flags);
}

/* ---- Leases of others ---- */

/* A Lease counts if its holder has renewed it, and may still rely on it. The Lease of ccmd itself
 * is left to the checks above. */
static void
report_lease(const struct search *s, yyjson_val *lease)
{
	const struct election_options *own = &s->d->view->options->election;
	struct str name = json_view(lease, "metadata.name");
	struct str holder = json_view(lease, "spec.holderIdentity");
	struct arena *arena = &s->d->view->arena;
	int64_t renewed_s = view_time_s(lease, "spec.renewTime"), ignored;
	int64_t ago_s = view_now_s(s->d->view) - renewed_s;
	bool is_ccmd = str_eq_c(view_last_manager(lease, "", arena, &ignored), "ccmd");

	if ((own->is_enabled && str_eq_c(name, own->resource_name)) ||
	    (!is_ccmd && !view_is_controller(name)) || holder.len == 0 || renewed_s == 0 ||
	    ago_s > json_i64_or(lease, "spec.leaseDurationSeconds", 0))
		return;
	name = arena_printf(arena, "%s/%" STR_FMT, own->resource_namespace, STR_ARG(name));
	if (is_ccmd) {
		/* as intended if the two are for different clouds */
		report_note(s->r, "lease", name,
		            "another ccmd, %" STR_FMT
		            ", holds this Lease and renewed it %lld s ago",
		            STR_ARG(holder), (long long)ago_s);
		report_fix(
			s->r,
			"if both are for the same cloud, stop one of them, or give both the same --leader-elect-resource-name");
		return;
	}
	report_find(s->r, "lease", name, "%" STR_FMT " renewed it %lld s ago", STR_ARG(holder),
	            (long long)ago_s);
	report_fix(
		s->r,
		"stop that controller: scale it to 0 replicas, or disable the one of the distribution (k3s: --disable-cloud-controller)");
}

void
check_other_leases(struct doctor *d, struct report *r)
{
	CLEANUP(buf_fini) struct buf path = BUF_INIT(KIB(2));
	struct search leases = { .d = d, .r = r, .each = report_lease };

	lease_add_path(&path, str_c(d->view->options->election.resource_namespace), STR_EMPTY);
	(void)search(&leases, path.ptr);
}
