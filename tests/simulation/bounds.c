/* tests/simulation/bounds.c: how many requests and how much memory a replica may need.
 *
 * - A server that refuses a write gets the same write again at most MAX_REFUSED times in an hour,
 *   and once more for each event of the history, because what has changed may be tried again.
 *   Where the rate limit, a lock, a conflict or the token is the reason, others limit the retries.
 * - When faults are over, a write is sent at most MAX_REPEATED times in an hour, whether or not it
 *   succeeds, and MAX_BUSY times if others change the same thing: nothing is retried for ever, and
 * no two parts undo each other's work.
 * - A write to the API server that changes nothing is sent at most MAX_VAIN times in an hour.
 * - The requests to the cloud, and those about one object, within ten minutes are limited by what
 * has happened in this time: struct costs. The figures are above the highest of 3,500 histories.
 * After a refusal because of the rate limit, at most MAX_OVER further requests are refused for this
 * reason in a minute.
 * - While the cloud's API does not answer a replica, that sends a probe every 30 s, and nothing
 * beside it. It reports that the API is unavailable only if two requests have failed that began
 * after the last answer (docs/errors.md, "Outages").
 * - When everything has settled, the replicas send what the design allows to an idle program, and
 *   their memory does not grow. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "controllers/pace.h"
#include "system.h"
#include "world.h"

enum {
	MAX_REFUSED = 5,
	MAX_REPEATED = 6,
	/* What others change or lock is tried again after growing pauses; a balancer that stays
	 * locked 55 times in its first hour (tests/providers/hcloud/lb_hour.c). */
	MAX_BUSY = 60,
	/* So many more than one in 50 seconds. A Node that is not ready has four checks in the
	 * first minute, then one in 65 seconds (docs/deletion.md). */
	MAX_OFTEN = 8,
	FIRST_CHECKS = 4,
	MAX_REFUSED_OFTEN = 6, /* likewise */
	MAX_VAIN = 6,          /* the highest of 400 histories is 4 */
	MAX_OVER = 8,          /* those that were under way at the refusal */
	MAX_IDLE_KUBE = 16,    /* watches and probes */
	MAX_GROWTH = 32 << 10, /* bytes: what a request holds that is under way at the end */
	MAX_MEMORY = 4 << 20,  /* of a replica, at any time */
};

struct refused {
	uint64_t key;
	int64_t first_ns;
	unsigned n;
	unsigned n_events; /* at first_ns */
};

/* How often something has happened since a time. */
struct counter {
	uint64_t key;
	int64_t since_ns;
	unsigned n;
};

static struct refused refused[512];
static struct counter repeated[512], vain[512], checked[512], refused_often[512], over;
static int64_t n_changes; /* of the API server's objects */
static uint64_t n_idle[N_HOSTS], n_writes;
static uint64_t n_leases, n_idle_leases; /* requests about the Lease */
static uint64_t n_served;                /* by the cloud */
static size_t n_bytes[N_REPLICAS];

static bool
is_final(int status)
{
	return status >= 400 && status < 500 && status != 401 && status != 404 && status != 409 &&
	       status != 423 && status != 429;
}

static uint64_t
key_of(const struct net_request *n)
{
	uint64_t key = hash_bytes(n->incarnation * N_REPLICAS + n->replica->index + 1,
	                          n->request->method, strlen(n->request->method));

	key = hash_bytes(key, n->request->target.ptr, n->request->target.len);
	return hash_bytes(key, n->request->body.ptr, n->request->body.len);
}

/* Counts within spans of that length; another key, or the next span, begins at 1. */
static unsigned
count(struct counter *c, uint64_t key, int64_t span_ns)
{
	if (c->n == 0 || c->key != key || schedule_now_ns() - c->since_ns >= span_ns)
		*c = (struct counter){ .key = key, .since_ns = schedule_now_ns() };
	return ++c->n;
}

/* How many times more than once in 50 seconds. */
static unsigned
count_often(struct counter *c, uint64_t key)
{
	const int64_t often_ns = 50 * NS_PER_SEC;
	int64_t n_passed;

	if (c->key != key)
		*c = (struct counter){ .key = key, .since_ns = schedule_now_ns() };
	n_passed = (schedule_now_ns() - c->since_ns) / often_ns;
	c->since_ns += n_passed * often_ns;
	c->n = n_passed > c->n ? 1 : c->n - (unsigned)n_passed + 1;
	return c->n;
}

static void
check_repetition(const struct net_request *n, int status)
{
	/* while the cache is outdated, each attempt for a Service adds the finalizer again */
	bool is_busy = status == 409 || status == 423 || status == 429 ||
	               str_contains(n->request->body, STR("\"finalizers\""));
	uint64_t key = key_of(n) + is_busy;
	unsigned times = count(&repeated[key % ARRAY_LEN(repeated)], key, 60 * MINUTE_NS);

	if (times > (is_busy ? MAX_BUSY : MAX_REPEATED))
		fail("replica %s has sent %u times within an hour, after faults ended: %s "
		     "%" STR_FMT,
		     n->replica->name, times, n->request->method, STR_ARG(n->request->target));
}

/* The object of "/v1/load_balancers/7/actions/add_target" is "/v1/load_balancers/7". */
static struct str
object_of(struct str target)
{
	size_t n = 0;

	for (size_t i = 0; i < target.len && n < 4 && target.ptr[i] != '?'; i++) {
		n += target.ptr[i] == '/';
		if (n == 4)
			return str_head(target, i);
	}
	return target;
}

/* Requests since a time. */
struct window {
	uint64_t key;
	int64_t since_ns;
	uint64_t n_sent; /* by net_count(), at since_ns */
	unsigned n, n_served, n_changes;
	unsigned n_events, n_starts; /* at since_ns */
};

static struct window objects[512], all;

static unsigned
n_starts(void)
{
	return replica_at(0)->incarnation + replica_at(1)->incarnation;
}

static struct window *
count_request(struct window *w, uint64_t key, bool is_served, bool is_change)
{
	if (w->n == 0 || w->key != key || schedule_now_ns() - w->since_ns >= 10 * MINUTE_NS)
		*w = (struct window){ .key = key,
			              .since_ns = schedule_now_ns(),
			              .n_sent = net_count(HOST_CLOUD) - 1,
			              .n_events = world.n_events,
			              .n_starts = n_starts() };
	w->n++;
	w->n_served += is_served;
	w->n_changes += is_served && is_change;
	return w;
}

static bool
is_too_much(const struct window *w, unsigned n, const struct costs *costs)
{
	return n > costs->base + costs->event * (world.n_events - w->n_events) +
	                   costs->start * (n_starts() - w->n_starts) +
	                   costs->change * w->n_changes + costs->failure * (n - w->n_served);
}

/* Does a Node have the provider ID of another machine? */
static bool
is_any_copied(void)
{
	for (size_t i = 0; i < world.n_machines; i++) {
		if (world.machines[i].copied_until_ns > 0)
			return true;
	}
	return false;
}

/* A Node that alternates between ready and not ready has its first check, and PACE_FREE without a
 * pause (controllers/pace.h), where others have FIRST_CHECKS. */
static unsigned
most_checks(struct str target)
{
	for (size_t i = 0; i < world.n_machines; i++) {
		const struct machine *m = &world.machines[i];
		char text[40];

		if (m->flaps_until_ns == 0)
			continue;
		(void)snprintf(text, sizeof(text), "/v1/servers/%lld", (long long)m->server);
		if (str_eq(target, str_c(text)))
			return MAX_OFTEN - FIRST_CHECKS + 1 + PACE_FREE;
	}
	return MAX_OFTEN;
}

/* A process asks for one machine that exists, or for the list of types. One that the list lacks is
 * asked for in each check of another one, because it may be a witness. One
 * whose ID several Nodes have is asked for by each. */
static void
check_machine(const struct net_request *n)
{
	struct str target = n->request->target;
	uint64_t key = hash_bytes(n->incarnation * N_REPLICAS + n->replica->index + 1, target.ptr,
	                          target.len);

	if (hetzner_settings(world.cloud)->unlisted_server == 0 && !is_any_copied() &&
	    count_often(&checked[key % ARRAY_LEN(checked)], key) > most_checks(target))
		fail("replica %s asks too often for %" STR_FMT, n->replica->name, STR_ARG(target));
}

static void
check_budget(const struct net_request *n, int status)
{
	struct str object = object_of(n->request->target);
	uint64_t key = hash_bytes(1, object.ptr, object.len);
	bool is_served = status < 300, is_change = checks_is_write(n);
	const struct window *w = count_request(&all, 0, is_served, is_change);
	/* also those that did not arrive */
	unsigned n_sent = (unsigned)(net_count(HOST_CLOUD) - w->n_sent);

	if (is_too_much(w, n_sent, &world.sim->of_all))
		fail("%u requests to the cloud in ten minutes", n_sent);
	w = count_request(&objects[key % ARRAY_LEN(objects)], key, is_served, is_change);
	if (is_too_much(w, w->n, &world.sim->of_one))
		fail("%u requests about %" STR_FMT " in ten minutes", w->n, STR_ARG(object));
	if (status == 429 && count(&over, 0, MINUTE_NS) > MAX_OVER)
		fail("%u requests in a minute beyond the cloud's limit", over.n);
}

/* A write to the API server may change nothing after an answer that was lost, or while the cache is
 * outdated. Finalizers do not count: check_repetition(). */
static void
check_effect(const struct net_request *n, int status)
{
	struct str target = n->request->target;
	uint64_t key = hash_bytes(n->replica->index + 1, target.ptr, target.len);
	int64_t n_before = n_changes;
	unsigned times;

	n_changes = 0;
	for (size_t i = 0; i < kube_model_n_clients(world.kube); i++) {
		const struct kube_model_client *c = kube_model_client(world.kube, i);

		if (str_starts(c->token, STR("kube-")))
			n_changes += c->n_changes;
	}
	if (status >= 300 || n_changes > n_before || !checks_is_write(n) ||
	    str_contains(n->request->body, STR("\"finalizers\"")))
		return;
	times = count(&vain[key % ARRAY_LEN(vain)], key, 60 * MINUTE_NS);
	if (times > MAX_VAIN)
		fail("replica %s has sent %u times within an hour what changes nothing: %s "
		     "%" STR_FMT,
		     n->replica->name, times, n->request->method, STR_ARG(target));
}

void
bounds_acted(const struct net_request *n, const struct server_response *r)
{
	struct refused *one;
	uint64_t key;

	n_leases += election_is_lease(n);
	n_served += n->host == HOST_CLOUD && r->status < 300;
	if (n->host == HOST_CLOUD && world.cloud && r->status == 200 &&
	    (str_starts(n->request->target, STR("/v1/servers/")) ||
	     str_starts(n->request->target, STR("/v1/load_balancer_types"))))
		check_machine(n);
	if (n->host == HOST_CLOUD)
		check_budget(n, r->status);
	else
		check_effect(n, r->status);
	if (checks_is_write(n) && world.is_settling && !world.is_changing)
		check_repetition(n, r->status);
	if (!checks_is_write(n) || !is_final(r->status) ||
	    (n->host == HOST_CLOUD && world.sim->repeats_refused))
		return;
	key = key_of(n);
	if (n->host == HOST_CLOUD &&
	    count_often(&refused_often[key % ARRAY_LEN(refused_often)], key) > MAX_REFUSED_OFTEN)
		fail("replica %s sends too often what is refused with %d: %s %" STR_FMT,
		     n->replica->name, r->status, n->request->method, STR_ARG(n->request->target));
	one = &refused[key % ARRAY_LEN(refused)];
	if (one->key != key || schedule_now_ns() - one->first_ns > 60 * MINUTE_NS)
		*one = (struct refused){ .key = key,
			                 .first_ns = schedule_now_ns(),
			                 .n_events = world.n_events };
	/* after a restore, until the replica notices that the objects are others */
	if (++one->n >
	    MAX_REFUSED * (world.was_restored ? 3U : 1U) + world.n_events - one->n_events)
		fail("replica %s has sent %u times within an hour what is refused with %d: %s "
		     "%" STR_FMT,
		     n->replica->name, one->n, r->status, n->request->method,
		     STR_ARG(n->request->target));
}

uint64_t
bounds_n_served(void)
{
	return n_served;
}

/* ---- outages ---- */

enum {
	MIN_FAILED = 8, /* more than the attempts of two requests */
	MAX_PROBES = 6, /* the pauses of the first ones are shorter */
	PER_MINUTE = 2,
	N_SPANS = 32,
};

/* After the first failure, all requests that began before the outage end. */
#define CERTAIN_NS (2 * MINUTE_NS)
/* A thread may take in an answer so much later. */
#define TAKEN_IN_NS NS_PER_SEC

struct span {
	int64_t sent_ns, ended_ns;
};

/* What a process has got from the cloud. */
static struct outage {
	unsigned incarnation;
	bool has_begun;       /* the process has had an answer */
	unsigned n_failed;    /* since the last answer */
	int64_t failed_ns;    /* the first of them */
	int64_t certain_ns;   /* since when it knows of the outage; 0: it may not know of it */
	unsigned n_probes;    /* since then */
	unsigned n_under_way; /* of these */
	struct span answered[N_SPANS], failed[N_SPANS]; /* rings */
	unsigned n_answered, n_all_failed;
} outages[N_REPLICAS];

static struct outage *
outage_of(const struct replica *r)
{
	struct outage *o = &outages[r->index];

	if (o->incarnation != r->incarnation)
		*o = (struct outage){ .incarnation = r->incarnation };
	return o;
}

/* Is that surely an answer of the API, or surely none? Others may be either. */
static bool
is_answer(int status)
{
	return (status >= 200 && status < 300) || status == 404 || status == 422;
}

static bool
is_failure(int status)
{
	return status == 0 || status == 401 || status >= 500;
}

void
bounds_sent(const struct net_request *n)
{
	struct outage *o = outage_of(n->replica);
	int64_t now_ns = schedule_now_ns();

	if (!world.project || n->host != HOST_CLOUD || !o->has_begun || world.is_inspected)
		return;
	if (o->certain_ns == 0 && o->n_failed >= MIN_FAILED && now_ns - o->failed_ns > CERTAIN_NS)
		o->certain_ns = now_ns;
	if (o->certain_ns == 0)
		return;
	if (++o->n_under_way > 1)
		fail("replica %s probes the cloud with two requests together", n->replica->name);
	if (++o->n_probes > MAX_PROBES + PER_MINUTE * (now_ns - o->certain_ns) / MINUTE_NS)
		fail("replica %s has sent %u requests in an outage of the cloud", n->replica->name,
		     o->n_probes);
}

void
bounds_ended(const struct net_request *n, int status)
{
	struct outage *o = outage_of(n->replica);
	struct span span = { n->sent_ns, schedule_now_ns() };

	if (n->host != HOST_CLOUD || n->incarnation != n->replica->incarnation)
		return;
	if (status == 200 && world.project)
		foreign_note_answer(n);
	if (o->certain_ns > 0 && n->sent_ns >= o->certain_ns)
		o->n_under_way--;
	/* a replica that is stopped may take its requests for too late */
	if (!is_answer(status) || n->replica->is_paused)
		o->failed[o->n_all_failed++ % N_SPANS] = span;
	if (is_failure(status)) {
		if (o->n_failed++ == 0)
			o->failed_ns = schedule_now_ns();
		return;
	}
	o->has_begun = true;
	o->n_failed = o->n_probes = o->n_under_way = 0;
	o->certain_ns = 0;
	if (is_answer(status) && !n->replica->is_paused)
		o->answered[o->n_answered++ % N_SPANS] = span;
}

/* How many of the failed requests began after the last answer? */
static unsigned
n_failed_since_answer(const struct outage *o)
{
	int64_t last_ns = 0, now_ns = schedule_now_ns();
	unsigned n = 0;

	for (size_t i = 0; i < N_SPANS; i++) {
		if (now_ns - o->answered[i].ended_ns > TAKEN_IN_NS)
			last_ns = clock_later(last_ns, o->answered[i].ended_ns);
	}
	for (size_t i = 0; i < N_SPANS; i++)
		n += o->failed[i].ended_ns > 0 && o->failed[i].sent_ns >= last_ns;
	return n;
}

void
bounds_logged(const struct replica *r, struct str line)
{
	/* at Brightbox, one failed request for a token counts for all requests that need the token
	 */
	if (world.project && str_contains(line, STR("a cloud API is unavailable")) &&
	    n_failed_since_answer(outage_of(r)) < 2)
		fail("replica %s reports an outage, and the cloud has answered", r->name);
}

/* ---- when everything has settled ---- */

void
bounds_quiet_begins(void)
{
	n_writes = checks_n_writes();
	for (unsigned host = 0; host < N_HOSTS; host++)
		n_idle[host] = net_count(host);
	n_idle_leases = n_leases;
	for (unsigned i = 0; i < N_REPLICAS; i++)
		n_bytes[i] = system_n_bytes(i);
}

void
bounds_quiet_ends(struct buf *why)
{
	uint64_t n_lease = n_leases - n_idle_leases;
	/* one about the Lease may have been under way at the beginning */
	int64_t n_kube = (int64_t)(net_count(HOST_KUBE) - n_idle[HOST_KUBE] - n_lease);
	uint64_t n_cloud = net_count(HOST_CLOUD) - n_idle[HOST_CLOUD];
	uint64_t max_lease = N_REPLICAS * QUIET_MINUTES * 60 / world.retry_s;
	uint64_t max_cloud = world.sim->max_idle;

	if (world.has_network)
		max_cloud += 3; /* the table of routes */
	if (world.cloud && hetzner_settings(world.cloud)->per_page_max > 0)
		max_cloud *= 3; /* a list has up to three pages */
	if (checks_n_writes() > n_writes)
		buf_addf(why, "%d writes. ", (int)(checks_n_writes() - n_writes));
	if (n_lease > max_lease || n_kube > MAX_IDLE_KUBE || n_cloud > max_cloud)
		buf_addf(why,
		         "%d requests about the Lease, %d others to the API server, and %d to the "
		         "cloud. ",
		         (int)n_lease, (int)n_kube, (int)n_cloud);
	for (unsigned i = 0; i < N_REPLICAS; i++) {
		if (system_n_bytes(i) > n_bytes[i] + MAX_GROWTH)
			buf_addf(why, "the memory of replica %s has grown from %zu to %zu bytes. ",
			         replica_at(i)->name, n_bytes[i], system_n_bytes(i));
		if (system_max_bytes(i) > MAX_MEMORY)
			fail("replica %s had %zu bytes of memory", replica_at(i)->name,
			     system_max_bytes(i));
	}
}
