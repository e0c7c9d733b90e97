/* operator/check_lease.c: the leader, and writes of other cloud controller managers. */
#include "kube/elector.h"
#include "operator/doctor.h"

enum {
	/* When ccmd takes over the Lease of another controller, the last writes of that controller
	 * may be a little newer than the election. */
	HANDOVER_S = 60,
	/* Without an election, a write that is older than this may be from before a migration. */
	RECENT_S = 600,
};

#define ELECTION_IS_OFF "--leader-elect=false, so there is no Lease"

/* True with *ret, unless the check is skipped or could not run. */
static bool
get_lease(struct doctor *d, struct report *r, const struct view_lease **ret)
{
	struct error err;

	if (!view_options(d->view)->election.is_enabled) {
		report_skip(r, ELECTION_IS_OFF);
		return false;
	}
	if (!view_lease(d->view, ret, &err)) {
		report_unknown(r, &err);
		return false;
	}
	return true;
}

static bool
has_holder(const struct view_lease *l)
{
	return l->exists && l->lease.holder.len > 0;
}

static struct str
lease_name(struct doctor *d)
{
	const struct election_options *o = &view_options(d->view)->election;

	return arena_printf(view_call(d->view)->arena, "%s/%s", o->resource_namespace,
	                    o->resource_name);
}

void
check_leader(struct doctor *d, struct report *r)
{
	const struct view_lease *l;
	struct finding *finding;

	if (!get_lease(d, r, &l) || has_holder(l))
		return;
	finding = report_find(r, "lease", lease_name(d), "%s",
	                      l->exists ? "it has no holder" : "it does not exist");
	report_fix(
		r, finding,
		"start ccmd, or read its log: kubectl -n kube-system logs deploy/ccmd; journalctl -u ccmd");
}

/* How long a replica of ccmd waits for the holder, from its last renewal on. */
static int64_t
wait_s(struct doctor *d, const struct view_lease *l)
{
	int64_t own_ns = view_options(d->view)->election.lease_duration_ns;

	return elector_wait_ns(own_ns, l->lease.duration_s) / NS_PER_SEC;
}

/* For how long the Lease could have been taken; negative: its holder renews it. */
static int64_t
late_by_s(struct doctor *d, const struct view_lease *l)
{
	return view_now_s(d->view) - l->renewed_s - wait_s(d, l);
}

static bool
is_of_other_program(const struct view_lease *l)
{
	return l->manager.len > 0 && !str_eq_c(l->manager, "ccmd");
}

void
check_renewal(struct doctor *d, struct report *r)
{
	const struct view_lease *l;
	struct finding *finding;

	if (!get_lease(d, r, &l))
		return;
	if (!has_holder(l)) {
		report_skip(r, "no replica leads");
		return;
	}
	if (late_by_s(d, l) <= 0)
		return;
	finding = report_find(r, "lease", lease_name(d),
	                      "%" STR_FMT "%s%" STR_FMT
	                      " holds it and should have renewed it %lld s ago",
	                      STR_ARG(l->lease.holder), is_of_other_program(l) ? " of " : "",
	                      STR_ARG(is_of_other_program(l) ? l->manager : STR_EMPTY),
	                      (long long)late_by_s(d, l));
	if (is_of_other_program(l))
		report_fix(
			r, finding,
			"start ccmd, if no replica runs: that program has ended without releasing the Lease, and ccmd takes it within %lld s of its start",
			(long long)wait_s(d, l));
	else
		report_fix(
			r, finding,
			"read the log of that replica, or start another replica, which then takes over");
}

void
check_lease_owner(struct doctor *d, struct report *r)
{
	const struct view_lease *l;

	if (!get_lease(d, r, &l))
		return;
	if (!has_holder(l))
		report_skip(r, "no replica leads");
	else if (late_by_s(d, l) > 0)
		report_skip(r, "the holder of the Lease does not renew it");
	else if (is_of_other_program(l))
		report_fix(
			r,
			report_find(r, "lease", lease_name(d),
		                    "it was last written by %" STR_FMT " (holder %" STR_FMT ")",
		                    STR_ARG(l->manager), STR_ARG(l->lease.holder)),
			"to let ccmd lead, scale that controller to 0 replicas; ccmd then takes over the Lease");
}

/* Finds the time from which on writes count: older ones may be from before a migration to ccmd. */
static bool
find_first_time(struct doctor *d, int64_t *ret_s, struct error *err)
{
	const struct view_lease *l;
	int64_t acquired_ns;

	*ret_s = view_now_s(d->view) - RECENT_S;
	if (!view_options(d->view)->election.is_enabled)
		return true;
	if (!view_lease(d->view, &l, err))
		return false;
	if (has_holder(l) && str_eq_c(l->manager, "ccmd") &&
	    clock_parse_rfc3339(l->lease.acquired, &acquired_ns))
		*ret_s = acquired_ns / NS_PER_SEC + HANDOVER_S;
	return true;
}

void
check_other_controllers(struct doctor *d, struct report *r)
{
	const struct view_writer *writers;
	int64_t first_s;
	size_t n;
	struct error err;

	if (!view_writers(d->view, &writers, &n, &err) || !find_first_time(d, &first_s, &err)) {
		report_unknown(r, &err);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		const struct view_writer *w = &writers[i];

		if (str_eq_c(w->manager, "ccmd") || w->time_s < first_s)
			continue;
		report_fix(
			r,
			report_find(r, w->kind, w->name, "%" STR_FMT " wrote to it %lld s ago",
		                    STR_ARG(w->manager),
		                    (long long)(view_now_s(d->view) - w->time_s)),
			"kubectl -A get deploy,daemonset | grep cloud-controller-manager; then scale it to 0 replicas or delete it");
	}
}
