/* kube/elector.c: see elector.h.
 *
 * One thread runs three phases in order: acquire, lead, release. An attempt takes at most two
 * requests and has one of four outcomes (enum outcome); the rest of the file decides when to try
 * again and when it is too late.
 *
 * Waits use the monotonic clock, because condition variables support no other. Whether a deadline
 * has passed is decided on the boot clock, after each wait and after each request, because the
 * machine may have been suspended meanwhile.
 */
#include "kube/elector.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/backoff.h"
#include "base/event_kind.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/rand.h"
#include "base/thread.h"
#include "kube/lease.h"
#include "kube/object.h"

#define COMPONENT "cloud-controller-manager"

EVENT_KIND(election_event, COMPONENT, "LeaderElection", false, "Lease",
           "A replica became the leader, or stopped leading.");

#define FENCE_MARGIN_NS NS_PER_SEC /* how long before the end of the lease the fence closes */
#define HEALTH_MARGIN_NS (20 * NS_PER_SEC) /* added to the lease duration, as in client-go */
#define RELEASE_PAUSE_NS (50 * NS_PER_MS)
/* Without a renewal, we wait for another holder for no longer than this, or twice our own lease
 * duration if that is longer: a holder that has ended may have published a duration of days. */
#define LONGEST_WAIT_NS (300 * NS_PER_SEC)

enum {
	RELEASED_DURATION_S = 1, /* a released Lease has no holder to wait for; the API refuses 0 */
	MAX_IDENTITY = 512,      /* of a holder, in logs */
};

enum outcome {
	WON,    /* the Lease is ours, counted from the start of the request */
	HELD,   /* another replica holds it, or changed it during our attempt */
	FAILED, /* unknown: no usable answer, or it came too late */
	LOST,   /* we led, and the Lease is not ours any more; why_lost says why */
};

static const char restored[] =
	"the data of the API server was restored from a backup: the Lease is older than when it was last "
	"read, so all other cached objects may be newer than the restored data; exiting, to start with empty caches";

struct elector {
	struct elector_config config;
	int64_t duration_s;
	struct metric *leads, *slow_renewals;
	struct cancel *cancel; /* fired by elector_stop() */
	pthread_t thread;

	pthread_mutex_t mu;
	pthread_cond_t ended;     /* mu: is_done */
	struct elector_term term; /* mu; only the thread writes it, and may read it without mu */
	int64_t renewed_boot_ns;  /* mu; the start of the last good renewal */
	bool is_stopped;          /* mu */
	bool wants_release;       /* mu */
	int64_t release_until_ns; /* mu; mono */
	bool is_done;             /* mu */

	/* the thread's own */
	struct arena arena;
	struct lease seen;
	int64_t seen_boot_ns;     /* when its spec was first seen, or its absence */
	bool is_missing;          /* the Lease last seen does not exist any more */
	int64_t unknown_until_ns; /* boot: until then, a holder may act that was not seen */
	int64_t deadline_boot_ns; /* while leading: when it is too late to renew */
	int64_t n_failures;       /* in a row */
	const char *wait_logged;  /* the last logged reason to wait for the holder; NULL: none */
	bool is_unordered;        /* its versions are not decimal, so they cannot be compared */
	struct attempts attempts; /* while leading: failed renewals since the last good one */
	char why_lost[ERR_MSG_SIZE];
};

/* ---- metrics ---- */

METRIC_FAMILY(master_status, METRIC_GAUGE, "leader_election_master_status",
              "[ALPHA] 1 if this process holds the lease of that name, 0 if it stands by.",
              .labels = { "name" });
METRIC_FAMILY(slowpath_total, METRIC_COUNTER, "leader_election_slowpath_total",
              "[ALPHA] Renewals that had to read the Lease before they wrote it.",
              .labels = { "name" });

/* ---- the Lease as last seen ---- */

static bool
is_ours(const struct elector *e)
{
	return e->seen.doc && str_eq(e->seen.holder, e->config.identity);
}

int64_t
elector_wait_ns(int64_t own_ns, int64_t published_s)
{
	int64_t wait_ns = published_s > 0 ? published_s * NS_PER_SEC : own_ns;
	int64_t longest_ns = own_ns > LONGEST_WAIT_NS / 2 ? 2 * own_ns : LONGEST_WAIT_NS;

	return clock_earlier(wait_ns, longest_ns);
}

/* When the lease last seen may be taken, counted on our clock from when we first saw it. The times
 * in the Lease are ignored, because clocks may differ (docs/spec/kube-client.md, "Lease
 * validity"). */
static int64_t
seen_until_ns(const struct elector *e)
{
	int64_t wait_ns = elector_wait_ns(e->duration_s * NS_PER_SEC, e->seen.duration_s);

	return clock_deadline(e->seen_boot_ns, wait_ns);
}

static bool
is_held_by_other(const struct elector *e)
{
	return e->seen.doc && e->seen.holder.len > 0 && !is_ours(e) &&
	       clock_boot(e->config.clock) < seen_until_ns(e);
}

/* Moves fresh into the place of the Lease last seen, and leaves fresh empty. */
static void
keep_seen(struct elector *e, struct lease *fresh)
{
	bool is_new_holder = !str_eq(e->seen.holder, fresh->holder);

	if (e->is_missing || lease_spec_differs(&e->seen, fresh))
		e->seen_boot_ns = clock_boot(e->config.clock);
	e->is_missing = false;
	lease_fini(&e->seen);
	e->seen = *fresh;
	*fresh = LEASE_INIT;
	if (!is_new_holder)
		return;
	e->wait_logged = NULL;
	if (e->seen.holder.len > 0 && !is_ours(e))
		log_info("another replica leads", LOG_CSTR("lease", e->config.name),
		         LOG_STR("holder", str_utf8_head(e->seen.holder, MAX_IDENTITY)));
}

/* ---- restored data ---- */

static bool
has_order(struct elector *e, const struct lease *fresh)
{
	bool is_decimal = object_version_is_decimal(e->seen.version) &&
	                  object_version_is_decimal(fresh->version);

	if (!is_decimal && !e->is_unordered) {
		e->is_unordered = true;
		log_info(
			"resource versions are not decimal numbers here: a restore of the API server's data "
			"cannot be detected by the lease",
			LOG_CSTR("lease", e->config.name), LOG_STR("version", fresh->version));
	}
	return !e->is_unordered;
}

/* Is fresh an older state of the Lease than the one seen last? The API server reads a single object
 * from etcd, not from its cache, and versions are revisions of etcd, which only grow. So its data
 * was restored, or the answer comes from another etcd. A Lease with another UID is another
 * Lease. */
static bool
is_older_than_seen(struct elector *e, const struct lease *fresh)
{
	return e->seen.doc && str_eq(e->seen.uid, fresh->uid) && has_order(e, fresh) &&
	       object_version_is_older(fresh->version, e->seen.version);
}

/* ---- requests ---- */

/* A request may take half of the renew deadline, so one that hangs leaves time for a second. It
 * never continues past the moment when a renewal would be too late. */
static struct call
begin_call(struct elector *e)
{
	int64_t longest_ns = clock_later(e->config.renew_deadline_ns / 2, NS_PER_SEC);

	if (e->term.is_leader)
		longest_ns = clock_earlier(longest_ns,
		                           e->deadline_boot_ns - clock_boot(e->config.clock));
	arena_reset(&e->arena);
	return (struct call){ .clock = e->config.clock,
		              .cancel = e->cancel,
		              .deadline_mono_ns = clock_deadline(clock_mono(e->config.clock),
		                                                 longest_ns),
		              .arena = &e->arena };
}

/* ret must be LEASE_INIT. */
static bool
get_lease(struct elector *e, struct call *call, struct lease *ret, struct error *err)
{
	CLEANUP(buf_fini) struct buf path = BUF_INIT(LIMIT_HTTP_URL);
	struct str body = STR_EMPTY;

	lease_add_path(&path, str_c(e->config.namespace), str_c(e->config.name));
	return kube_get(e->config.kube, call, buf_str(&path), &body, err) &&
	       lease_parse(body, ret, err);
}

/* Reads the Lease. If the answer is older than the state seen before, the Lease is read once more,
 * and the second answer counts: a single outdated API server must not end the leader. */
static bool
read_lease(struct elector *e, struct lease *ret, struct error *err)
{
	struct call call = begin_call(e);

	if (!get_lease(e, &call, ret, err))
		return false;
	if (!is_older_than_seen(e, ret))
		return true;
	lease_fini(ret);
	call = begin_call(e);
	return get_lease(e, &call, ret, err);
}

static bool
keep_response(struct elector *e, struct str body, struct error *err)
{
	struct lease fresh = LEASE_INIT;

	if (!lease_parse(body, &fresh, err))
		return false;
	keep_seen(e, &fresh);
	return true;
}

static bool
post_lease(struct elector *e, struct call *call, const struct lease_claim *claim, struct error *err)
{
	CLEANUP(buf_fini)
	struct buf path = BUF_INIT(LIMIT_HTTP_URL), lease = BUF_INIT(LIMIT_HTTP_REQUEST);
	struct str body = STR_EMPTY;

	lease_add_path(&path, str_c(e->config.namespace), STR_EMPTY);
	lease_add_new(&lease, str_c(e->config.namespace), str_c(e->config.name), claim);
	if (!kube_post(e->config.kube, call, buf_str(&path), HTTP_WORK, buf_str(&lease), &body,
	               err))
		return false;
	return keep_response(e, body, err);
}

/* The response is not compared with the state seen before: the server accepted the PUT because the
 * Lease had exactly that version. */
static bool
put_lease(struct elector *e, struct call *call, enum lease_change change,
          const struct lease_claim *claim, struct error *err)
{
	CLEANUP(buf_fini)
	struct buf path = BUF_INIT(LIMIT_HTTP_URL), lease = BUF_INIT(LIMIT_HTTP_REQUEST);
	struct str body = STR_EMPTY;

	lease_add_path(&path, str_c(e->config.namespace), str_c(e->config.name));
	lease_add_update(&lease, &e->seen, change, claim);
	if (!buf_ok(&lease))
		return err_set(err, ERR_INVALID, "Lease %s is too large to be written",
		               e->config.name);
	if (!kube_put(e->config.kube, call, buf_str(&path), buf_str(&lease), &body, err))
		return false;
	return keep_response(e, body, err);
}

/* ---- an attempt ---- */

/* The outcome of a failed write. A conflict means that another replica was faster. */
static enum outcome
outcome_of_refusal(const struct error *err)
{
	return err->code == ERR_CONFLICT || err->code == ERR_EXISTS ? HELD : FAILED;
}

/* The server accepted our claim, whose request began at start_ns: the lease counts from there. If
 * the deadline has passed since, the claim has failed nevertheless: a process that was suspended
 * during the request may find another leader. */
static enum outcome
accept_claim(struct elector *e, const char *method, int64_t start_ns, struct error *err)
{
	int64_t fence_ns = start_ns + e->duration_s * NS_PER_SEC - FENCE_MARGIN_NS;
	int64_t now_ns = clock_boot(e->config.clock);

	if (!is_ours(e)) {
		err_set(err, ERR_INTERNAL,
		        "the response to our %s of the Lease names another holder", method);
		return FAILED;
	}
	if (now_ns >= fence_ns || (e->term.is_leader && now_ns >= e->deadline_boot_ns))
		return FAILED;
	mutex_lock(&e->mu);
	e->renewed_boot_ns = start_ns;
	mutex_unlock(&e->mu);
	fence_renew(e->config.fence, fence_ns);
	if (e->config.renewed)
		e->config.renewed(e->config.arg, fence_ns);
	return WON;
}

/* Takes or renews the Lease by a PUT that names the version last seen. */
static enum outcome
claim_seen(struct elector *e, enum lease_change change, struct error *err)
{
	int64_t start_ns = clock_boot(e->config.clock);
	struct lease_claim claim = { e->config.identity, e->duration_s,
		                     clock_wall(e->config.clock) };
	struct call call = begin_call(e);

	if (!put_lease(e, &call, change, &claim, err))
		return outcome_of_refusal(err);
	return accept_claim(e, "PUT", start_ns, err);
}

/* Called before the Lease is taken, because a PUT may succeed although its response is lost. */
static void
note_former_holder(struct elector *e)
{
	WITH_LOCK(&e->mu);

	e->term.was_handed_over = !e->seen.doc || (e->seen.holder.len == 0 && !e->is_missing);
}

/* Logs, once for each holder and reason, how long we wait for the holder, and why. */
static enum outcome
wait_for_holder(struct elector *e, const char *why)
{
	CLEANUP(buf_fini) struct buf until = BUF_INIT(LIMIT_NAME);
	int64_t until_ns = clock_later(e->unknown_until_ns,
	                               is_held_by_other(e) ? seen_until_ns(e) : 0);
	int64_t left_ns = until_ns - clock_boot(e->config.clock);

	if (e->wait_logged == why)
		return HELD;
	e->wait_logged = why;
	clock_format_rfc3339(&until, clock_deadline(clock_wall(e->config.clock), left_ns),
	                     /*micros=*/false);
	log_info("waiting until the lease of another replica has ended",
	         LOG_CSTR("lease", e->config.name),
	         LOG_STR("holder", str_utf8_head(e->seen.holder, MAX_IDENTITY)),
	         LOG_STR("until", buf_str(&until)), LOG_CSTR("why", why));
	return HELD;
}

/* Notes that the Lease last seen is gone: it was deleted, and maybe created again, or the data was
 * restored. Its holder may not have noticed yet, and may be another one than the one seen. So a
 * whole lease duration is awaited. */
static void
note_gone(struct elector *e)
{
	int64_t wait_ns = elector_wait_ns(e->duration_s * NS_PER_SEC, e->seen.duration_s);

	wait_ns = clock_later(wait_ns, e->duration_s * NS_PER_SEC);
	e->unknown_until_ns = clock_deadline(clock_boot(e->config.clock), wait_ns);
}

static bool
may_unknown_act(const struct elector *e)
{
	return clock_boot(e->config.clock) < e->unknown_until_ns;
}

/* The Lease does not exist. */
static enum outcome
claim_absent(struct elector *e, struct error *err)
{
	int64_t start_ns = clock_boot(e->config.clock);
	struct lease_claim claim = { e->config.identity, e->duration_s,
		                     clock_wall(e->config.clock) };
	struct call call;

	if (e->seen.doc && !e->is_missing) {
		e->is_missing = true;
		note_gone(e);
	}
	if (may_unknown_act(e))
		return wait_for_holder(e, "the Lease was deleted, which its holder may not know");
	note_former_holder(e);
	call = begin_call(e);
	if (!post_lease(e, &call, &claim, err))
		return outcome_of_refusal(err);
	return accept_claim(e, "POST", start_ns, err);
}

/* Stores the reason why the lease is lost. */
static enum outcome
lose(struct elector *e, const char *why)
{
	snprintf(e->why_lost, sizeof(e->why_lost), "%" STR_FMT,
	         STR_ARG(str_utf8_head(str_c(why), sizeof(e->why_lost) - 1)));
	return LOST;
}

/* The Lease was just read, and is in e->seen: docs/spec/kube-client.md, "Claiming a Lease". */
static enum outcome
claim_read(struct elector *e, struct error *err)
{
	if (is_ours(e) && (e->term.is_leader || !may_unknown_act(e))) {
		if (e->term.is_leader)
			metric_inc(e->slow_renewals);
		return claim_seen(e, LEASE_RENEW, err);
	}
	if (e->term.is_leader)
		return lose(e, e->seen.holder.len > 0 ? "another replica took the Lease"
		                                      : "the Lease was released by another client");
	if (is_held_by_other(e) &&
	    clock_boot(e->config.clock) - e->seen_boot_ns >= e->duration_s * NS_PER_SEC)
		return wait_for_holder(e, "its holder does not renew it, and published a duration "
		                          "longer than ours");
	if (is_held_by_other(e))
		return HELD;
	if (may_unknown_act(e))
		return wait_for_holder(e,
		                       "the Lease was created again, or the data of the API server "
		                       "was restored, which a former holder may not know");
	note_former_holder(e);
	return claim_seen(e, LEASE_TAKE, err);
}

/* The Lease that was read is older than the one seen before. A leader ends, because the watches
 * that fill its stores wait for versions that may never come. A standby replica has no state except
 * the Lease and continues with the older one. */
static enum outcome
claim_restored(struct elector *e, struct lease *fresh, struct error *err)
{
	log_warn("the data of the API server was restored", LOG_CSTR("lease", e->config.name),
	         LOG_STR("version", fresh->version), LOG_STR("seen_before", e->seen.version));
	if (e->term.is_leader)
		return lose(e, restored);
	note_gone(e);
	keep_seen(e, fresh);
	return claim_read(e, err);
}

/* Reads the Lease, and claims it if it is ours or free. */
static enum outcome
read_and_claim(struct elector *e, struct error *err)
{
	struct lease fresh = LEASE_INIT;
	enum outcome outcome;

	if (!read_lease(e, &fresh, err)) {
		if (err->code != ERR_NOT_FOUND)
			return FAILED;
		return e->term.is_leader ? lose(e, "the Lease was deleted") : claim_absent(e, err);
	}
	if (is_older_than_seen(e, &fresh)) {
		outcome = claim_restored(e, &fresh, err);
		lease_fini(&fresh);
		return outcome;
	}
	if (e->seen.doc && !e->is_missing && !str_eq(e->seen.uid, fresh.uid))
		note_gone(e);
	keep_seen(e, &fresh);
	return claim_read(e, err);
}

/* A leader renews what it wrote last with a single PUT, and reads the Lease only if that fails. An
 * outage is logged when it begins and when it is over. */
static enum outcome
attempt_claim(struct elector *e)
{
	struct error err = { .code = ERR_TIMEOUT, .msg = "the response came too late" };
	enum outcome outcome = e->term.is_leader ? claim_seen(e, LEASE_RENEW, &err) : FAILED;
	bool is_late = e->term.is_leader && clock_boot(e->config.clock) >= e->deadline_boot_ns;

	if (outcome != WON && !is_late && !cancel_is_fired(e->cancel))
		outcome = read_and_claim(e, &err);
	if (outcome == FAILED) {
		attempts_note(&e->attempts, &err);
		if (!cancel_is_fired(e->cancel) && e->n_failures++ == 0)
			log_warn("cannot get or renew the lease, trying again",
			         LOG_CSTR("lease", e->config.name), LOG_ERR(&err));
		return outcome;
	}
	if (e->n_failures > 1)
		log_info("the Lease can be used again", LOG_CSTR("lease", e->config.name));
	e->n_failures = 0;
	return outcome;
}

/* ---- acquire ---- */

/* False when the elector was stopped. */
static bool
wait_for(struct elector *e, int64_t duration_ns)
{
	struct error err;

	return cancel_sleep(e->cancel, e->config.clock, duration_ns, &err);
}

/* Tries at random times, a retry period to 2.2 times as much apart, but immediately after the other
 * holder's lease has ended: reading the Lease then shows whether it was renewed, and of several
 * replicas that claim it at the same time the server accepts one. False when the elector was
 * stopped. */
static bool
acquire(struct elector *e)
{
	int64_t period_ns = e->config.retry_period_ns;

	while (attempt_claim(e) != WON) {
		int64_t pause_ns = rand_between(period_ns, period_ns + period_ns / 5 * 6);
		int64_t until_ns = is_held_by_other(e) ? seen_until_ns(e) : e->unknown_until_ns;
		int64_t left_ns = until_ns - clock_boot(e->config.clock);

		if (left_ns > 0 && left_ns < pause_ns)
			pause_ns = left_ns;
		if (!wait_for(e, pause_ns))
			return false;
	}
	return true;
}

/* ---- lead ---- */

static void
send_event(struct elector *e, const char *what)
{
	CLEANUP(buf_fini) struct buf message = BUF_INIT(LIMIT_EVENT_MESSAGE);
	const struct event_object lease = { "coordination.k8s.io/v1", "Lease",
		                            str_c(e->config.namespace), str_c(e->config.name),
		                            e->seen.uid };

	buf_addf(&message, "%" STR_FMT " %s", STR_ARG(e->config.identity), what);
	if (e->config.recorder)
		recorder_event_first(e->config.recorder, COMPONENT, &lease, EVENT_NORMAL,
		                     election_event.reason, buf_str(&message));
}

static void
set_leader(struct elector *e, bool is_leader)
{
	mutex_lock(&e->mu);
	e->term.is_leader = is_leader;
	if (is_leader)
		snprintf(e->term.version, sizeof(e->term.version), "%" STR_FMT,
		         STR_ARG(e->seen.version));
	mutex_unlock(&e->mu);
	metric_set(e->leads, is_leader ? 1 : 0);
}

/* Renews the Lease before the renew deadline, counted from now, and before the fence closes.
 * Returns WON, LOST, or HELD if the elector was stopped. */
static enum outcome
renew(struct elector *e)
{
	int64_t fence_ns = e->renewed_boot_ns + e->duration_s * NS_PER_SEC - FENCE_MARGIN_NS;
	struct error err;

	e->deadline_boot_ns = clock_earlier(fence_ns, clock_deadline(clock_boot(e->config.clock),
	                                                             e->config.renew_deadline_ns));
	e->attempts = (struct attempts){ .begun_ns = clock_mono(e->config.clock) };
	while (clock_boot(e->config.clock) < e->deadline_boot_ns) {
		enum outcome outcome = attempt_claim(e);
		int64_t left_ns = e->deadline_boot_ns - clock_boot(e->config.clock);

		if (outcome == WON || outcome == LOST)
			return outcome;
		if (!wait_for(e, clock_earlier(left_ns, e->config.retry_period_ns)))
			return HELD;
	}

	if (e->attempts.n == 0)
		return lose(e, "not renewed in time");
	err = e->attempts.why;
	(void)attempts_end(&e->attempts, clock_mono(e->config.clock), &err);
	err_wrap(&err, "not renewed in time");
	return lose(e, err.msg);
}

/* Leads until the elector is stopped or the lease is lost. The event is sent a retry period later,
 * because immediately it would compete for connections with the controllers' first requests. */
static void
lead(struct elector *e)
{
	enum outcome outcome = WON;
	bool may_continue, is_stopped;

	set_leader(e, true);
	log_info("became leader", LOG_CSTR("lease", e->config.name),
	         LOG_STR("identity", e->config.identity));
	e->config.started(e->config.arg);
	may_continue = wait_for(e, e->config.retry_period_ns);
	send_event(e, "became leader");
	while (may_continue) {
		outcome = renew(e);
		may_continue = outcome == WON && wait_for(e, e->config.retry_period_ns);
	}
	if (outcome != LOST)
		return;

	/* The loss is reported, unless a stop was requested before: the process is then shutting
	 * down already. No event is sent, because the process ends before one could be written, and
	 * it would be a write of a former leader. */
	fence_renew(e->config.fence, 0);
	set_leader(e, false);
	mutex_lock(&e->mu);
	is_stopped = e->is_stopped;
	mutex_unlock(&e->mu);
	if (!is_stopped)
		e->config.lost(e->config.arg, e->why_lost);
}

/* ---- release ---- */

/* True when the Lease has no holder or is not ours. It is read first, because a PUT of ours whose
 * answer was lost may have changed its version. */
static bool
release_once(struct elector *e, struct call *call, struct error *err)
{
	struct lease_claim claim = { STR_EMPTY, RELEASED_DURATION_S, clock_wall(e->config.clock) };
	struct lease fresh = LEASE_INIT;

	if (!get_lease(e, call, &fresh, err))
		return err->code == ERR_NOT_FOUND;
	keep_seen(e, &fresh);
	if (!is_ours(e))
		return true;
	return put_lease(e, call, LEASE_RELEASE, &claim, err);
}

/* See docs/spec/kube-client.md, "Releasing a Lease". The elector's token has been fired by now, so
 * these requests are bounded only by their deadline. */
static void
release(struct elector *e, int64_t until_ns)
{
	struct call call = { .clock = e->config.clock,
		             .deadline_mono_ns = until_ns,
		             .arena = &e->arena };
	struct error err;

	fence_renew(e->config.fence, 0);
	set_leader(e, false);
	while (!release_once(e, &call, &err)) {
		int64_t left_ns = until_ns - clock_mono(e->config.clock);

		if (left_ns <= RELEASE_PAUSE_NS) {
			log_warn("cannot release the lease, leaving it to expire",
			         LOG_CSTR("lease", e->config.name), LOG_ERR(&err));
			return;
		}
		if (!cancel_sleep(NULL, e->config.clock, RELEASE_PAUSE_NS, &err))
			return;
	}
	log_info("stopped leading", LOG_CSTR("lease", e->config.name),
	         LOG_STR("identity", e->config.identity));
	send_event(e, "stopped leading");
}

static void *
elector_run(void *arg)
{
	struct elector *e = arg;
	bool must_release;
	int64_t until_ns;

	if (acquire(e))
		lead(e);
	mutex_lock(&e->mu);
	must_release = e->term.is_leader && e->wants_release;
	until_ns = e->release_until_ns;
	mutex_unlock(&e->mu);
	if (must_release)
		release(e, until_ns);
	WITH_LOCK(&e->mu);
	e->is_done = true;
	cond_signal(&e->ended);
	return NULL;
}

/* ---- the public side ---- */

bool
elector_validate(int64_t lease_duration_ns, int64_t renew_deadline_ns, int64_t retry_period_ns,
                 struct buf *problems)
{
	const struct {
		const char *name;
		int64_t value_ns;
	} flags[] = {
		{ "--leader-elect-lease-duration", lease_duration_ns },
		{ "--leader-elect-renew-deadline", renew_deadline_ns },
		{ "--leader-elect-retry-period", retry_period_ns },
	};
	size_t n = problems->len;
	int64_t whole_ns = lease_duration_ns / NS_PER_SEC * NS_PER_SEC;

	for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
		if (flags[i].value_ns <= 0)
			buf_addf(problems, "%s must be greater than zero\n", flags[i].name);
	}
	if (problems->len > n)
		return false;
	if (lease_duration_ns <= renew_deadline_ns) {
		buf_add_c(problems, "--leader-elect-lease-duration (");
		clock_format_duration(problems, lease_duration_ns);
		buf_add_c(problems, ") must be greater than --leader-elect-renew-deadline (");
		clock_format_duration(problems, renew_deadline_ns);
		buf_add_c(problems, ")\n");
	}
	if (renew_deadline_ns - retry_period_ns <= retry_period_ns / 5)
		buf_add_c(problems, "--leader-elect-renew-deadline must be greater than 1.2 times "
		                    "--leader-elect-retry-period\n");
	if (whole_ns - FENCE_MARGIN_NS <= retry_period_ns)
		buf_add_c(problems, "--leader-elect-lease-duration, in whole seconds, must exceed "
		                    "--leader-elect-retry-period by more than 1s\n");
	return problems->len == n;
}

void
elector_identity(struct buf *b)
{
	char host[HOST_NAME_MAX + 1] = "";

	if (gethostname(host, sizeof(host) - 1) != 0)
		host[0] = '\0';
	buf_addf(b, "%s_", host[0] ? host : "unknown");
	rand_uuid(b);
}

struct elector *
elector_new(const struct elector_config *config)
{
	struct elector *e = xcalloc(1, sizeof(*e));

	assert(config->identity.len > 0);
	*e = (struct elector){
		.config = *config,
		.duration_s = config->lease_duration_ns / NS_PER_SEC,
		.leads = metric_of(&master_status, config->name),
		.slow_renewals = metric_of(&slowpath_total, config->name),
		.cancel = cancel_new(),
		.arena = ARENA_INIT,
		.seen = LEASE_INIT,
	};
	e->config.identity = str_c(xstrndup(config->identity.ptr, config->identity.len));
	metric_set(e->leads, 0);
	mutex_init(&e->mu);
	cond_init(&e->ended);
	thread_start(&e->thread, "elector", elector_run, e);
	return e;
}

void
elector_stop(struct elector *e, bool release, int64_t timeout_ms)
{
	int64_t until_ns = clock_deadline(clock_mono(e->config.clock), timeout_ms * NS_PER_MS);
	bool is_late = false;

	mutex_lock(&e->mu);
	e->is_stopped = true;
	e->wants_release = release;
	e->release_until_ns = until_ns;
	mutex_unlock(&e->mu);
	cancel_fire(e->cancel);
	WITH_LOCK(&e->mu);
	while (!e->is_done && !is_late)
		is_late = !clock_wait(e->config.clock, &e->ended, &e->mu, until_ns);
}

void
elector_free(struct elector *e)
{
	if (!e)
		return;
	mutex_lock(&e->mu);
	e->is_stopped = true;
	mutex_unlock(&e->mu);
	cancel_fire(e->cancel);
	thread_join(e->thread);
	lease_fini(&e->seen);
	arena_fini(&e->arena);
	cond_destroy(&e->ended);
	mutex_destroy(&e->mu);
	cancel_free(e->cancel);
	free((char *)(uintptr_t)e->config.identity.ptr);
	free(e);
}

struct elector_term
elector_term(const struct elector *e)
{
	struct elector_term term;

	WITH_LOCK((pthread_mutex_t *)(uintptr_t)&e->mu);
	term = e->term;
	term.was_handed_over &= term.is_leader;
	return term;
}

bool
elector_health(void *arg, struct buf *reason)
{
	struct elector *e = arg;
	WITH_LOCK(&e->mu);

	if (!e->term.is_leader || clock_boot(e->config.clock) - e->renewed_boot_ns <=
	                                  e->config.lease_duration_ns + HEALTH_MARGIN_NS)
		return true;
	buf_addf(reason, "failed election to renew leadership on lease %s", e->config.name);
	return false;
}
