/* Replicas with clocks of their own making, before an API server that holds one Lease and fails
 * when it is told to. */
#include "kube/elector.h"

#include <setjmp.h>
#include <stdarg.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "kube/fake_http.h"
#include "kube/lease.h"
#include "fake_clock.h"

#define WALL_NS (INT64_C(1767322800) * NS_PER_SEC) /* 2026-01-02T03:00:00Z */
#define STEP_NS (100 * NS_PER_MS)
#define SECONDS(n) ((n) * NS_PER_SEC)
#define STATUS(reason, code) \
	"{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":\"" reason "\",\"code\":" #code "}"

enum {
	MAX_REPLICAS = 3,
	MAX_FAULTS = 8,
	MAX_SENT = 4096,
};

/* ---- the API server ---- */

enum fault {
	NONE,
	REFUSED,  /* nothing is done, and the connection breaks */
	CONFLICT, /* nothing is done, and the answer is 409 */
	BROKEN,   /* nothing is done, and the answer is 500 */
	CUT,      /* it is done, and the connection breaks */
	HANGS,    /* nothing is done, and no answer comes */
	SLOW,     /* it is done after 3 s */
	GARBAGE,  /* it is done, and the answer is nonsense */
};

struct sent {
	unsigned replica;
	enum http_method method;
	int64_t boot_ns;
};

/* One Lease, or none. */
static struct {
	pthread_mutex_t mu;
	bool exists;                /* mu */
	int uid;                    /* mu */
	int version;                /* mu */
	unsigned n_old_reads;       /* mu: so many answers to GETs come from another, older etcd */
	bool is_opaque;             /* mu: versions are no numbers */
	struct buf labels;          /* mu */
	struct buf spec;            /* mu */
	struct sent sent[MAX_SENT]; /* mu */
	size_t n_sent;              /* mu */
} server;

/* A clock that runs faster than the others by some percent. */
struct fast_clock {
	struct clock clock;
	int64_t percent;
};

struct replica {
	struct http_client transport;
	struct fast_clock fast;
	unsigned number;
	struct kube_client kube;
	struct fence fence;
	struct elector *elector;
	char identity[16];
	enum fault faults[MAX_FAULTS]; /* server.mu; of the next writes */
	size_t n_faults, next_fault;   /* server.mu */
	enum fault reads;              /* server.mu; of all reads */
	unsigned next_read_fails;      /* server.mu; the n-th read from now on breaks; 0: none */
	enum fault outage;             /* server.mu; of what has no other fault */
	_Atomic int n_started, n_lost;
	_Atomic int64_t renewed_ns, lost_boot_ns;
	char why[256];
	bool is_over;         /* the test has ended it */
	struct cancel *ended; /* where a real one would end the process */
};

static struct fake_clock *fake;
static struct replica replicas[MAX_REPLICAS];
static unsigned n_replicas;
static int64_t percents_faster[MAX_REPLICAS];

static int64_t
faster_ns(struct clock *c, int64_t ns)
{
	int64_t percent = CONTAINER_OF(c, struct fast_clock, clock)->percent;

	return ns + ns / 100 * percent;
}

static int64_t
fast_mono(struct clock *c)
{
	return faster_ns(c, clock_mono(fake_clock_clock(fake)));
}

static int64_t
fast_boot(struct clock *c)
{
	return faster_ns(c, clock_boot(fake_clock_clock(fake)));
}

static int64_t
fast_wall(struct clock *c)
{
	(void)c;
	return clock_wall(fake_clock_clock(fake));
}

static bool
fast_wait(struct clock *c, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t deadline_ns)
{
	int64_t percent = CONTAINER_OF(c, struct fast_clock, clock)->percent;
	bool is_to_scale = percent > 0 && deadline_ns != CLOCK_FOREVER;

	if (is_to_scale) /* a little later rather than earlier */
		deadline_ns = deadline_ns / (100 + percent) * 100 + 100;
	return clock_wait(fake_clock_clock(fake), cond, mutex, deadline_ns);
}

static void
answer_lease(struct http_response *response, int status)
{
	response->status = status;
	buf_addf(
		&response->body,
		"{\"kind\":\"Lease\",\"apiVersion\":\"coordination.k8s.io/v1\",\"metadata\":{\"name\":\"ccm\","
		"\"namespace\":\"kube-system\",\"uid\":\"u-%d\",\"resourceVersion\":\"%s%d\",\"labels\":{%s}},"
		"\"spec\":%s}",
		server.uid, server.is_opaque ? "v" : "", server.version, server.labels.ptr,
		server.spec.ptr);
}

static void
answer_status(struct http_response *response, int status, const char *body)
{
	response->status = status;
	buf_add_c(&response->body, body);
}

static void
store_spec(yyjson_val *root)
{
	yyjson_val *spec = json_at(root, "spec");

	buf_reset(&server.spec);
	if (spec)
		json_add_value(&server.spec, spec);
	else
		buf_add_c(&server.spec, "{}");
	server.version++;
}

static bool
names_what_is_there(yyjson_val *root)
{
	CLEANUP(buf_fini) struct buf uid = BUF_INIT(64), version = BUF_INIT(64);
	struct str sent_uid = STR_EMPTY, sent_version = STR_EMPTY;

	buf_addf(&uid, "u-%d", server.uid);
	buf_addf(&version, "%s%d", server.is_opaque ? "v" : "", server.version);
	(void)json_str(root, "metadata.uid", &sent_uid);
	(void)json_str(root, "metadata.resourceVersion", &sent_version);
	return server.exists && str_eq(sent_uid, buf_str(&uid)) &&
	       str_eq(sent_version, buf_str(&version));
}

/* Called with server.mu held. */
static void
serve(const struct http_request *request, struct http_response *response)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct error err;

	if (request->method == HTTP_GET && !server.exists) {
		answer_status(response, 404, STATUS("NotFound", 404));
	} else if (request->method == HTTP_GET && server.n_old_reads > 0) {
		server.n_old_reads--;
		server.version -= 50;
		answer_lease(response, 200);
		server.version += 50;
	} else if (request->method == HTTP_GET) {
		answer_lease(response, 200);
	} else if (!json_parse(request->body, &doc, &err)) {
		answer_status(response, 400, STATUS("BadRequest", 400));
	} else if (request->method == HTTP_POST && server.exists) {
		answer_status(response, 409, STATUS("AlreadyExists", 409));
	} else if (request->method == HTTP_PUT && !names_what_is_there(yyjson_doc_get_root(doc))) {
		answer_status(response, 409, STATUS("Conflict", 409));
	} else {
		server.uid += server.exists ? 0 : 1;
		server.exists = true;
		store_spec(yyjson_doc_get_root(doc));
		answer_lease(response, request->method == HTTP_POST ? 201 : 200);
	}
}

static enum fault
take_request(struct replica *r, const struct http_request *request)
{
	WITH_LOCK(&server.mu);

	assert_true(server.n_sent < MAX_SENT);
	server.sent[server.n_sent++] = (struct sent){ r->number, request->method,
		                                      clock_boot(fake_clock_clock(fake)) };
	if (request->method == HTTP_GET && r->next_read_fails > 0 && --r->next_read_fails == 0)
		return BROKEN;
	if (request->method == HTTP_GET)
		return r->reads != NONE ? r->reads : r->outage;
	return r->next_fault < r->n_faults ? r->faults[r->next_fault++] : r->outage;
}

/* Waits on the clock. False when the call ends before that. */
static bool
take_time(struct call *call, int64_t duration_ns, struct error *err)
{
	int64_t left_ns = call->deadline_mono_ns - clock_mono(call->clock);
	bool is_late = left_ns <= duration_ns;

	if (!cancel_sleep(call->cancel, call->clock, is_late ? left_ns : duration_ns, err))
		return false;
	return !is_late || err_set(err, ERR_TIMEOUT, "no answer in time");
}

static bool
do_request(struct http_client *transport, struct call *call, const struct http_request *request,
           struct http_response *response, struct error *err)
{
	enum fault fault = take_request(CONTAINER_OF(transport, struct replica, transport),
	                                request);

	response->body = BUF_INIT(LIMIT_HTTP_BODY);
	if (cancel_is_fired(call->cancel))
		return err_set(err, ERR_CANCELLED, "cancelled");
	if (fault == HANGS)
		return take_time(call, CLOCK_FOREVER, err);
	if (fault == SLOW && !take_time(call, SECONDS(3), err))
		return false;
	if (fault == REFUSED)
		return err_set(err, ERR_UNAVAILABLE, "connection refused");
	if (fault == CONFLICT || fault == BROKEN) {
		answer_status(response, fault == CONFLICT ? 409 : 500,
		              fault == CONFLICT ? STATUS("Conflict", 409)
		                                : STATUS("InternalError", 500));
		return true;
	}
	mutex_lock(&server.mu);
	serve(request, response);
	mutex_unlock(&server.mu);
	if (fault == CUT)
		return err_set(err, ERR_UNAVAILABLE, "connection reset");
	if (fault == GARBAGE)
		buf_truncate(&response->body, response->body.len / 2);
	return true;
}

/* ---- what others do to the Lease ---- */

static void
someone_writes(const char *spec)
{
	WITH_LOCK(&server.mu);

	server.uid += server.exists ? 0 : 1;
	server.exists = true;
	server.version++;
	buf_reset(&server.spec);
	buf_add_c(&server.spec, spec);
}

#define HELD_BY(name, seconds, renewed)                                                   \
	"{\"holderIdentity\":\"" name "\",\"leaseDurationSeconds\":" #seconds             \
	",\"acquireTime\":\"2026-01-02T03:00:00.000000Z\",\"renewTime\":\"" renewed "\"," \
	"\"leaseTransitions\":3}"

static void
someone_deletes(void)
{
	WITH_LOCK(&server.mu);

	server.exists = false;
}

static void
someone_labels(void)
{
	WITH_LOCK(&server.mu);

	buf_reset(&server.labels);
	buf_addf(&server.labels, "\"n\":\"%d\"", server.version);
	server.version++;
}

static void
someone_restores(int version, const char *spec)
{
	WITH_LOCK(&server.mu);

	server.exists = true;
	server.version = version;
	if (!spec)
		return;
	buf_reset(&server.spec);
	buf_add_c(&server.spec, spec);
}

static void
read_old_state(unsigned n)
{
	WITH_LOCK(&server.mu);

	server.n_old_reads = n;
}

static struct lease
stored(void)
{
	CLEANUP(http_response_fini) struct http_response response = HTTP_RESPONSE_INIT;
	struct lease l = LEASE_INIT;
	struct error err;
	WITH_LOCK(&server.mu);

	response.body = BUF_INIT(LIMIT_HTTP_BODY);
	answer_lease(&response, 200);
	if (!lease_parse(buf_str(&response.body), &l, &err))
		fail_msg("%s", err.msg);
	return l;
}

static void
check_stored(const char *holder, int64_t duration_s, int64_t transitions)
{
	CLEANUP(lease_fini) struct lease l = stored();

	assert_int_equal(l.holder.len, strlen(holder));
	assert_memory_equal(l.holder.ptr, holder, l.holder.len);
	assert_int_equal(l.duration_s, duration_s);
	assert_int_equal(l.transitions, transitions);
}

/* ---- replicas ---- */

static void
on_started(void *arg)
{
	struct replica *r = arg;

	assert_true(fence_remaining_ns(&r->fence, &r->fast.clock) > 0);
	r->n_started++;
}

static void
on_lost(void *arg, const char *why)
{
	struct replica *r = arg;
	struct buf b = BUF_FIXED(r->why);
	struct error err;

	assert_true(fence_remaining_ns(&r->fence, &r->fast.clock) == 0);
	buf_add_c(&b, why);
	r->lost_boot_ns = clock_boot(fake_clock_clock(fake));
	r->n_lost++;
	assert_false(cancel_sleep(r->ended, fake_clock_clock(fake), CLOCK_FOREVER, &err));
}

static void
on_renewed(void *arg, int64_t deadline_boot_ns)
{
	struct replica *r = arg;

	assert_true(r->fence.deadline_boot_ns == deadline_boot_ns);
	r->renewed_ns = deadline_boot_ns;
}

static void
start_with(unsigned number, struct recorder *recorder)
{
	static const struct http_ops ops = { .do_request = do_request };
	struct replica *r = &replicas[number];
	struct buf identity = BUF_FIXED(r->identity);

	r->transport.ops = &ops;
	r->number = number;
	r->fence = FENCE_CLOSED;
	r->ended = cancel_new();
	r->fast.clock = (struct clock){ fast_mono, fast_boot, fast_wall, fast_wait };
	r->fast.percent = percents_faster[number];
	r->kube = (struct kube_client){ .http = &r->transport,
		                        .clock = &r->fast.clock,
		                        .host = "api:6443" };
	buf_addf(&identity, "me-%u", number);
	if (number >= n_replicas)
		n_replicas = number + 1;
	r->elector = elector_new(&(struct elector_config){
		.kube = &r->kube,
		.clock = &r->fast.clock,
		.fence = &r->fence,
		.recorder = recorder,
		.namespace = "kube-system",
		.name = "ccm",
		.identity = buf_str(&identity),
		.lease_duration_ns = SECONDS(15),
		.renew_deadline_ns = SECONDS(10),
		.retry_period_ns = SECONDS(2),
		.started = on_started,
		.lost = on_lost,
		.renewed = on_renewed,
		.arg = r,
	});
}

static void
settle(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < n_replicas; i++)
		n += replicas[i].elector && !replicas[i].is_over;
	fake_clock_settle(fake, n);
}

static void
start(unsigned number)
{
	start_with(number, /*recorder=*/NULL);
	settle();
}

static struct replica *
me(void)
{
	return &replicas[0];
}

static int64_t
left_ns(const struct replica *r)
{
	return fence_remaining_ns((struct fence *)(uintptr_t)&r->fence,
	                          (struct clock *)(uintptr_t)&r->fast.clock);
}

/* There are never two leaders at the same time, whatever happens. */
static void
check_fences(void)
{
	unsigned n_open = 0;

	for (unsigned i = 0; i < n_replicas; i++)
		n_open += replicas[i].elector && left_ns(&replicas[i]) > 0;
	assert_true(n_open <= 1);
}

static void
pass(int64_t ns)
{
	for (; ns > 0; ns -= STEP_NS) {
		fake_clock_advance(fake, ns < STEP_NS ? ns : STEP_NS);
		settle();
		check_fences();
	}
}

static void
script(unsigned number, enum fault fault)
{
	struct replica *r = &replicas[number];
	WITH_LOCK(&server.mu);

	if (r->n_faults < MAX_FAULTS)
		r->faults[r->n_faults++] = fault;
	else
		fail();
}

static void
set_outage(unsigned number, enum fault fault)
{
	WITH_LOCK(&server.mu);

	replicas[number].outage = fault;
}

static size_t
count_sent(void)
{
	WITH_LOCK(&server.mu);

	return server.n_sent;
}

/* The methods sent since the first n, a letter each: G, O for POST, U for PUT. */
static const char *
methods_since(size_t n)
{
	static char text[256];
	struct buf b = BUF_FIXED(text);
	WITH_LOCK(&server.mu);

	text[0] = '\0';
	for (; n < server.n_sent; n++)
		buf_add_char(&b, server.sent[n].method == HTTP_GET   ? 'G'
		                 : server.sent[n].method == HTTP_PUT ? 'U'
		                                                     : 'O');
	return text;
}

static void
stop(struct replica *r, bool release)
{
	r->is_over = true;
	elector_stop(r->elector, release, /*timeout_ms=*/60000);
}

static int
set_up(void **state)
{
	(void)state;
	memset(replicas, 0, sizeof(replicas));
	memset(percents_faster, 0, sizeof(percents_faster));
	n_replicas = 0;
	mutex_init(&server.mu);
	server.exists = false;
	server.uid = 0;
	server.version = 100;
	server.n_old_reads = 0;
	server.is_opaque = false;
	server.n_sent = 0;
	server.labels = BUF_INIT(KIB(64));
	server.spec = BUF_INIT(KIB(64));
	buf_add_c(&server.spec, "{}");
	fake = fake_clock_new(WALL_NS);
	return 0;
}

static void
end(struct replica *r)
{
	if (r->ended)
		cancel_fire(r->ended);
	elector_free(r->elector);
	cancel_free(r->ended);
	memset(r, 0, sizeof(*r));
}

static int
tear_down(void **state)
{
	(void)state;
	for (unsigned i = 0; i < n_replicas; i++)
		end(&replicas[i]);
	fake_clock_free(fake);
	buf_fini(&server.labels);
	buf_fini(&server.spec);
	mutex_destroy(&server.mu);
	return 0;
}

static void
begin_anew(void)
{
	tear_down(NULL);
	set_up(NULL);
}

static void
check_leads(const struct replica *r)
{
	assert_int_equal(r->n_started, 1);
	assert_int_equal(r->n_lost, 0);
	assert_true(elector_term(r->elector).is_leader);
	assert_true(left_ns(r) > 0);
}

static void
check_stands_by(const struct replica *r)
{
	assert_int_equal(r->n_started, 0);
	assert_int_equal(r->n_lost, 0);
	assert_false(elector_term(r->elector).is_leader);
	assert_true(left_ns(r) == 0);
}

static void
check_lost(const struct replica *r, const char *why)
{
	assert_int_equal(r->n_lost, 1);
	assert_false(elector_term(r->elector).is_leader);
	assert_true(left_ns(r) == 0);
	if (strncmp(r->why, why, strlen(why)) != 0)
		assert_string_equal(r->why, why);
}

static void
start_leading(void)
{
	start(0);
	check_leads(me());
}

/* ---- timings ---- */

static void
timings_are_validated(void **state)
{
	static const struct {
		int64_t lease_ms, renew_ms, retry_ms;
		const char *problem; /* NULL: none */
	} cases[] = {
		{ 15000, 10000, 2000, NULL },
		{ 3000, 2000, 500, NULL },
		{ 137000, 107000, 26000, NULL },
		{ 10000, 10000, 2000, "lease-duration (10s) must be greater than" },
		{ 15000, 2400, 2000, "renew-deadline must be greater than 1.2" },
		{ 15000, 2401, 2000, NULL },
		{ 0, 10000, 2000, "lease-duration must be greater than zero" },
		{ 15000, -1, 2000, "renew-deadline must be greater than zero" },
		{ 15000, 10000, 0, "retry-period must be greater than zero" },
		{ 2000, 1500, 1000, "by more than 1s" },
		{ 2999, 1500, 1000, "by more than 1s" },
		{ 3000, 1500, 1000, NULL },
		{ 1000, 900, 100, "by more than 1s" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		CLEANUP(buf_fini) struct buf problems = BUF_INIT(KIB(4));
		bool is_good = elector_validate(cases[i].lease_ms * NS_PER_MS,
		                                cases[i].renew_ms * NS_PER_MS,
		                                cases[i].retry_ms * NS_PER_MS, &problems);

		assert_int_equal(is_good, cases[i].problem == NULL);
		if (cases[i].problem)
			assert_non_null(strstr(problems.ptr, cases[i].problem));
		else
			assert_int_equal(problems.len, 0);
	}
}

static void
all_problems_are_reported(void **state)
{
	CLEANUP(buf_fini) struct buf problems = BUF_INIT(KIB(4));

	(void)state;
	assert_false(elector_validate(0, -1, 0, &problems));
	assert_non_null(strstr(problems.ptr, "lease-duration"));
	assert_non_null(strstr(problems.ptr, "renew-deadline"));
	assert_non_null(strstr(problems.ptr, "retry-period"));
}

static void
identities_differ(void **state)
{
	CLEANUP(buf_fini) struct buf a = BUF_INIT(KIB(1)), b = BUF_INIT(KIB(1));
	char host[256] = "";

	(void)state;
	elector_identity(&a);
	elector_identity(&b);
	assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
	assert_true(str_starts(buf_str(&a), str_c(host)));
	assert_int_equal(a.len, strlen(host) + 1 + 36);
	assert_int_equal(a.ptr[strlen(host)], '_');
	assert_string_not_equal(a.ptr, b.ptr);
}

/* ---- acquiring ---- */

static void
an_immediate_refusal_does_not_shorten_the_pause(void **state)
{
	(void)state;
	set_outage(0, BROKEN);
	replicas[0].reads = BROKEN;
	start(0);
	pass(SECONDS(10));
	assert_in_range(count_sent(), 3, 6);
}

static void
the_first_makes_the_lease(void **state)
{
	int64_t start_ns = clock_boot(fake_clock_clock(fake));

	(void)state;
	start(0);
	check_leads(me());
	assert_string_equal(methods_since(0), "GO");
	assert_true(elector_term(me()->elector).was_handed_over);
	assert_true(left_ns(me()) == SECONDS(14));
	assert_true(me()->renewed_ns == start_ns + SECONDS(14));
	check_stored("me-0", 15, 0);
}

static void
a_leader_renews_by_one_request_each_period(void **state)
{
	size_t n;

	(void)state;
	start_leading();
	n = count_sent();
	pass(SECONDS(60));
	assert_string_equal(methods_since(n), "UUUUUUUUUUUUUUUUUUUUUUUUUUUUUU");
	assert_true(left_ns(me()) == SECONDS(14));
	check_leads(me());
	check_stored("me-0", 15, 0);
}

static void
a_lease_without_a_holder_is_taken_immediately(void **state)
{
	(void)state;
	someone_writes(HELD_BY("", 15, "2026-01-02T03:00:00.000000Z"));
	start(0);
	check_leads(me());
	assert_string_equal(methods_since(0), "GU");
	check_stored("me-0", 15, 4);
}

/* However long ago the holder says that it renewed, and whatever our clock says. */
static void
another_is_waited_for_as_long_as_it_asked(void **state)
{
	static const struct {
		const char *spec;
		int64_t seconds;
	} cases[] = {
		{ HELD_BY("you", 15, "2001-01-01T00:00:00.000000Z"), 15 },
		{ HELD_BY("you", 15, "2099-01-01T00:00:00.000000Z"), 15 },
		{ HELD_BY("you", 40, "2026-01-02T03:00:00.000000Z"), 40 },
		{ HELD_BY("you", 1, "2026-01-02T03:00:00.000000Z"), 1 },
		{ HELD_BY("you", 300, "2026-01-02T03:00:00.000000Z"), 300 },
		{ "{\"holderIdentity\":\"you\"}", 15 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		begin_anew();
		someone_writes(cases[i].spec);
		start(0);
		fake_clock_jump_wall(fake, i % 2 ? SECONDS(3600) : -SECONDS(3600));
		pass(SECONDS(cases[i].seconds) - STEP_NS);
		check_stands_by(me());
		pass(2 * STEP_NS);
		check_leads(me());
		assert_false(elector_term(me()->elector).was_handed_over);
	}
}

static void
a_renewal_prolongs_and_a_label_does_not(void **state)
{
	(void)state;
	someone_writes(HELD_BY("you", 15, "1"));
	start(0);
	pass(SECONDS(10));
	someone_writes(HELD_BY("you", 15, "1.0"));
	pass(SECONDS(14));
	someone_labels();
	check_stands_by(me());
	pass(SECONDS(6)); /* 20 s after the renewal, which was seen after at most 4.4 s */
	check_leads(me());
	check_stored("me-0", 15, 4);
}

static void
asks_every_2_to_4_4_seconds(void **state)
{
	int64_t last_ns;
	bool differ = false;

	(void)state;
	someone_writes(HELD_BY("you", 3600, "1"));
	start(0);
	last_ns = server.sent[0].boot_ns;
	for (int i = 0; i < 3; i++) {
		pass(SECONDS(200));
		someone_writes(i % 2 ? HELD_BY("you", 3600, "1") : HELD_BY("you", 3600, "2"));
	}
	for (size_t i = 1; i < count_sent(); i++) {
		int64_t gap_ns = server.sent[i].boot_ns - last_ns;

		assert_in_range(gap_ns, SECONDS(2), 4500 * NS_PER_MS);
		differ = differ || gap_ns / STEP_NS != 30;
		last_ns = server.sent[i].boot_ns;
	}
	assert_true(differ);
	assert_in_range(count_sent(), 136, 301);
}

/* Its holder may not know yet. */
static void
a_deleted_lease_is_respected_by_who_has_seen_it(void **state)
{
	(void)state;
	someone_writes(HELD_BY("you", 15, "1"));
	start(0);
	someone_deletes();
	pass(SECONDS(15) - STEP_NS);
	check_stands_by(me());
	pass(SECONDS(5));
	check_leads(me());
	assert_false(elector_term(me()->elector).was_handed_over);
	check_stored("me-0", 15, 0);
}

/* Another replica may have taken it since it was last read. */
static void
the_absence_of_a_lease_begins_a_duration(void **state)
{
	(void)state;
	someone_writes(HELD_BY("you", 15, "1"));
	start(0);
	pass(SECONDS(12));
	someone_deletes();
	pass(SECONDS(15) - STEP_NS);
	check_stands_by(me());
	pass(SECONDS(5));
	check_leads(me());
	assert_false(elector_term(me()->elector).was_handed_over);
}

/* Returns how many lines of the log contain the text, and begins a new log. */
static unsigned
count_logged(FILE *log, const char *text)
{
	char lines[65536] = "";
	unsigned n = 0;

	assert_true(pread(fileno(log), lines, sizeof(lines) - 1, 0) >= 0);
	for (const char *at = lines; (at = strstr(at, text)); at++)
		n++;
	assert_int_equal(ftruncate(fileno(log), 0), 0);
	assert_int_equal(lseek(fileno(log), 0, SEEK_SET), 0);
	return n;
}

/* It is dead, for all that the others can see. */
static void
a_holder_of_a_day_is_waited_for_for_5_min(void **state)
{
	FILE *log = tmpfile();

	(void)state;
	assert_non_null(log);
	log_set_fd(fileno(log));
	someone_writes(HELD_BY("you", 86400, "1"));
	start(0);
	pass(SECONDS(200));
	assert_int_equal(count_logged(log, "holder=you until=2026-01-02T03:05:00Z"), 1);
	someone_writes(HELD_BY("you", 86400, "2"));
	pass(SECONDS(300) - STEP_NS);
	check_stands_by(me());
	pass(SECONDS(5));
	check_leads(me());
	assert_int_equal(count_logged(log, " until="), 0);

	begin_anew();
	someone_writes(HELD_BY("you", 86400, "1"));
	start(0);
	pass(SECONDS(5));
	assert_int_equal(count_logged(log, " until="), 0);
	someone_deletes();
	pass(SECONDS(300) - STEP_NS);
	check_stands_by(me());
	assert_int_equal(count_logged(log, "holder=you until=2026-01-02T03:05:0"), 1);
	pass(SECONDS(5));
	check_leads(me());
	log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	assert_int_equal(fclose(log), 0);
}

static void
a_lost_answer_is_found_again(void **state)
{
	(void)state;
	someone_writes(HELD_BY("", 15, "1"));
	script(0, CUT);
	start(0);
	check_stands_by(me());
	check_stored("me-0", 15, 4);
	assert_false(elector_term(me()->elector).was_handed_over);
	pass(SECONDS(5));
	check_leads(me());
	assert_true(elector_term(me()->elector).was_handed_over);
	check_stored("me-0", 15, 4);
}

static void
the_fence_counts_from_the_start_of_the_request(void **state)
{
	(void)state;
	someone_writes(HELD_BY("", 15, "1"));
	script(0, SLOW);
	start(0);
	pass(SECONDS(3));
	check_leads(me());
	assert_true(left_ns(me()) == SECONDS(11));
}

/* ---- every state, Lease and answer ---- */

enum content {
	ABSENT,
	ABSENT_AFTER_OTHERS,
	NOBODYS,
	OTHERS,
	OTHERS_EXPIRED,
	OURS,
	OURS_LABELLED,
};

enum what_fails {
	NOTHING,
	FIRST_WRITE_CONFLICT,
	FIRST_WRITE_BROKEN,
	FIRST_WRITE_CUT,
	FIRST_WRITE_GARBAGE,
	READ_BROKEN,
	READ_GARBAGE,
	N_FAILS,
};

static void
put_content(enum content content)
{
	switch (content) {
	case ABSENT:
	case ABSENT_AFTER_OTHERS:
		someone_deletes();
		break;
	case NOBODYS:
		someone_writes(HELD_BY("", 1, "2"));
		break;
	case OTHERS:
	case OTHERS_EXPIRED:
		someone_writes(HELD_BY("you", 15, "1"));
		break;
	case OURS:
		break;
	case OURS_LABELLED:
		someone_labels();
		break;
	}
}

static void
put_failure(enum what_fails what)
{
	static const enum fault faults[N_FAILS] = {
		[FIRST_WRITE_CONFLICT] = CONFLICT,
		[FIRST_WRITE_BROKEN] = BROKEN,
		[FIRST_WRITE_CUT] = CUT,
		[FIRST_WRITE_GARBAGE] = GARBAGE,
		[READ_BROKEN] = BROKEN,
		[READ_GARBAGE] = GARBAGE,
	};
	WITH_LOCK(&server.mu);

	if (what >= READ_BROKEN)
		me()->reads = faults[what];
	else if (what != NOTHING)
		me()->faults[me()->n_faults++] = faults[what];
}

static char
state_of(const struct replica *r)
{
	if (r->n_lost)
		return 'X';
	return elector_term(r->elector).is_leader ? 'L' : 's';
}

/* A replica that stands by takes its first look, or, where it was to have seen another's Lease, its
 * next one. */
static void
standby_looks(enum content content, enum what_fails what)
{
	bool has_seen = content == OTHERS || content == OTHERS_EXPIRED ||
	                content == ABSENT_AFTER_OTHERS;

	if (content == OURS)
		someone_writes(HELD_BY("me-0", 15, "1"));
	else
		put_content(has_seen ? OTHERS : content);
	if (!has_seen)
		put_failure(what);
	start(0);
	if (!has_seen)
		return;
	pass(content == OTHERS_EXPIRED ? SECONDS(15) - STEP_NS : STEP_NS);
	put_content(content);
	put_failure(what);
	pass(content == OTHERS_EXPIRED ? STEP_NS : 4500 * NS_PER_MS);
}

static void
leader_renews(enum content content, enum what_fails what)
{
	start_leading();
	put_content(content);
	put_failure(what);
	pass(SECONDS(2));
}

static void
check_row(bool is_leader, enum content content, const char *expected)
{
	for (int what = 0; what < N_FAILS; what++) {
		char is;

		begin_anew();
		if (is_leader)
			leader_renews(content, (enum what_fails)what);
		else
			standby_looks(content, (enum what_fails)what);
		is = state_of(me());
		if (is != expected[what])
			fail_msg("%s, content %d, failure %d: %c instead of %c",
			         is_leader ? "leader" : "standby", (int)content, what, is,
			         expected[what]);
	}
}

/* Columns: nothing fails; the first write fails with 409, with 500, after it was applied, with a
 * cut answer; reads fail with 500, with cut answers. L leads, s stands by, X lost. */
static void
every_state_lease_and_answer(void **state)
{
	(void)state;
	check_row(/*is_leader=*/false, ABSENT, "LsssssL");
	check_row(/*is_leader=*/false, ABSENT_AFTER_OTHERS, "sssssss");
	check_row(/*is_leader=*/false, NOBODYS, "Lssssss");
	check_row(/*is_leader=*/false, OTHERS, "sssssss");
	check_row(/*is_leader=*/false, OTHERS_EXPIRED, "Lssssss");
	check_row(/*is_leader=*/false, OURS, "Lssssss");
	check_row(/*is_leader=*/true, OURS, "LLLLLLL");
	check_row(/*is_leader=*/true, OURS_LABELLED, "LLLLLLL");
	check_row(/*is_leader=*/true, ABSENT, "XXXXXLX"); /* 404 has no Lease to cut */
	check_row(/*is_leader=*/true, OTHERS, "XXXXXLL");
	check_row(/*is_leader=*/true, NOBODYS, "XXXXXLL");
}

/* ---- renewing ---- */

static int64_t
metric(const char *name)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(MIB(1));
	int64_t value = -1;

	metrics_write_page(&text, METRICS_MAIN, METRICS_TEXT);
	for (struct str line, rest = buf_str(&text); str_split(&rest, '\n', &line);) {
		struct str before, after;

		if (str_cut(line, ' ', &before, &after) && str_eq_c(before, name))
			assert_true(str_to_i64(after, 0, INT64_MAX, &value));
	}
	return value;
}

static void
a_change_by_others_costs_a_look(void **state)
{
	int64_t before;
	size_t n;

	(void)state;
	start_leading();
	before = metric("leader_election_slowpath_total{name=\"ccm\"}");
	someone_labels();
	n = count_sent();
	pass(SECONDS(4));
	assert_string_equal(methods_since(n), "UGUU");
	assert_true(metric("leader_election_slowpath_total{name=\"ccm\"}") == before + 1);
	check_leads(me());
	check_stored("me-0", 15, 0);
	assert_non_null(strstr(server.labels.ptr, "\"n\":"));
}

static void
a_lost_answer_to_a_renewal_does_not_confuse(void **state)
{
	(void)state;
	start_leading();
	script(0, CUT);
	pass(SECONDS(2));
	check_leads(me());
	assert_true(left_ns(me()) == SECONDS(14));
	check_stored("me-0", 15, 0);
}

static void
changes_of_the_lease_are_noticed_immediately(void **state)
{
	(void)state;
	start_leading();
	someone_writes(HELD_BY("you", 15, "1"));
	pass(SECONDS(2));
	check_lost(me(), "another replica took the Lease");

	begin_anew();
	start_leading();
	someone_deletes();
	pass(SECONDS(2));
	check_lost(me(), "the Lease was deleted");
	assert_false(server.exists);

	begin_anew();
	start_leading();
	someone_writes(HELD_BY("", 1, "1"));
	pass(SECONDS(2));
	check_lost(me(), "the Lease was released by another client");
}

/* ---- data that was restored ---- */

#define RESTORED                                                                               \
	"the data of the API server was restored from a backup: the Lease is older than when " \
	"it was last read, so all other cached objects may be newer than the restored data; "  \
	"exiting, to start with empty caches"

static void
a_leader_ends_when_the_data_was_restored(void **state)
{
	size_t n;

	(void)state;
	start_leading();
	pass(SECONDS(60));
	n = count_sent();
	someone_restores(99, NULL);
	pass(SECONDS(2));
	check_lost(me(), RESTORED);
	assert_string_equal(methods_since(n), "UGG"); /* the second GET confirms the first */
	assert_int_equal(server.version, 99);

	begin_anew();
	start_leading();
	someone_restores(99, HELD_BY("", 1, "1"));
	pass(SECONDS(2));
	check_lost(me(), RESTORED);
}

static void
one_old_answer_ends_no_leader(void **state)
{
	size_t n;

	(void)state;
	start_leading();
	pass(SECONDS(10));
	n = count_sent();
	script(0, CONFLICT);
	read_old_state(1);
	pass(SECONDS(2));
	assert_string_equal(methods_since(n), "UGGU");
	pass(SECONDS(20));
	check_leads(me());
}

static void
a_restore_that_cannot_be_confirmed_is_looked_at_again(void **state)
{
	(void)state;
	start_leading();
	pass(SECONDS(10));
	mutex_lock(&server.mu);
	me()->next_read_fails = 2;
	mutex_unlock(&server.mu);
	someone_restores(99, NULL);
	pass(SECONDS(2));
	check_leads(me());
	pass(SECONDS(2));
	check_lost(me(), RESTORED);
}

/* For example one that was created again in the data of another cluster: its versions cannot be
 * compared with the former ones. */
static void
versions_of_another_lease_are_not_compared(void **state)
{
	(void)state;
	start_leading();
	pass(SECONDS(10));
	mutex_lock(&server.mu);
	server.uid++;
	server.version = 7;
	mutex_unlock(&server.mu);
	pass(SECONDS(20));
	check_leads(me());
}

static void
versions_that_are_no_numbers_are_not_compared(void **state)
{
	FILE *log = tmpfile();
	char text[65536] = "";
	const char *at;

	(void)state;
	assert_non_null(log);
	log_set_fd(fileno(log));
	mutex_lock(&server.mu);
	server.is_opaque = true;
	mutex_unlock(&server.mu);
	start_leading();
	pass(SECONDS(10));
	someone_restores(50, NULL);
	pass(SECONDS(20));
	check_leads(me());
	someone_restores(50, NULL);
	pass(SECONDS(20));
	check_leads(me());
	assert_true(pread(fileno(log), text, sizeof(text) - 1, 0) > 0);
	log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	at = strstr(text, "resource versions are not decimal");
	assert_non_null(at);
	assert_null(strstr(at + 1, "resource versions are not decimal"));
	assert_int_equal(fclose(log), 0);
}

/* The holder does not know of the restore yet, and may act. */
static void
a_holder_from_before_the_restore_is_respected(void **state)
{
	(void)state;
	someone_writes(HELD_BY("you", 15, "1"));
	start(0);
	someone_restores(99, HELD_BY("", 1, "0"));
	pass(SECONDS(16));
	check_stands_by(me());
	pass(SECONDS(4));
	check_leads(me());
	pass(SECONDS(30));
	check_leads(me());
	assert_true(server.version < 150);
}

/* Somebody has deleted it and created another one, or restored an older one. */
static void
a_lease_that_was_created_again_is_not_taken_immediately(void **state)
{
	(void)state;
	someone_writes(HELD_BY("you", 15, "1"));
	start(0);
	mutex_lock(&server.mu);
	server.uid++;
	mutex_unlock(&server.mu);
	someone_writes(HELD_BY("", 1, "0"));
	pass(SECONDS(16));
	check_stands_by(me());
	pass(SECONDS(4));
	check_leads(me());
}

static void
a_renewal_that_was_not_seen_before_the_restore_is_respected(void **state)
{
	(void)state;
	someone_writes(HELD_BY("you", 15, "1"));
	start(0);
	pass(SECONDS(14));
	someone_writes(HELD_BY("you", 15, "2"));
	someone_restores(99, HELD_BY("", 1, "0"));
	pass(SECONDS(14));
	check_stands_by(me());
	pass(SECONDS(6));
	check_leads(me());
}

static void
a_holder_in_the_restored_data_is_respected(void **state)
{
	(void)state;
	someone_writes(HELD_BY("you", 15, "1"));
	start(0);
	someone_restores(99, HELD_BY("him", 20, "0"));
	pass(SECONDS(21));
	check_stands_by(me());
	pass(SECONDS(4));
	check_leads(me());
}

static void
the_version_of_the_lease_that_was_taken_is_known(void **state)
{
	(void)state;
	someone_writes(HELD_BY("you", 15, "1"));
	start(0);
	assert_string_equal(elector_term(me()->elector).version, "");
	pass(SECONDS(16));
	check_leads(me());
	assert_string_equal(elector_term(me()->elector).version, "102");
}

static void
short_outages_are_survived(void **state)
{
	static const enum fault outages[] = { REFUSED, BROKEN, CONFLICT };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(outages); i++) {
		start_leading();
		set_outage(0, outages[i]);
		pass(SECONDS(8));
		set_outage(0, NONE);
		pass(SECONDS(5));
		check_leads(me());
		assert_true(left_ns(me()) > SECONDS(10));
		begin_anew();
	}
}

/* Half of the renew deadline for the one, and then there is another. */
static void
one_request_that_hangs_is_survived(void **state)
{
	(void)state;
	start_leading();
	script(0, HANGS);
	pass(SECONDS(7) - STEP_NS);
	assert_true(left_ns(me()) < SECONDS(8));
	pass(2 * STEP_NS);
	assert_true(left_ns(me()) > SECONDS(13));
	check_leads(me());
}

/* 2 s until the renewal that fails and 10 s of trying; the fence would close 2 s later. */
static void
long_outages_are_not(void **state)
{
	static const enum fault outages[] = { REFUSED, BROKEN, HANGS };
	static const char *const whys[] = { "connection refused (5 attempts in 10s)", "GET /apis/",
		                            "no answer in time" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(outages); i++) {
		start_leading();
		set_outage(0, outages[i]);
		pass(SECONDS(12) - STEP_NS);
		check_leads(me());
		pass(2 * STEP_NS);
		check_lost(me(), "not renewed in time: ");
		assert_non_null(strstr(me()->why, whys[i]));
		assert_true(me()->lost_boot_ns < me()->renewed_ns);
		begin_anew();
	}
}

/* The renew deadline may lie behind the fence's: the fence's counts then, even while a request is
 * under way. */
static void
nothing_goes_on_past_the_fence(void **state)
{
	struct replica *r = me();

	(void)state;
	start_leading();
	script(0, SLOW); /* begun at 2 s, done at 5 s: the fence closes at 16 s, the next renewal
	                    begins at 7 s */
	set_outage(0, HANGS);
	pass(SECONDS(16) - STEP_NS);
	check_leads(r);
	pass(STEP_NS);
	check_lost(r, "not renewed in time");
	assert_true(r->lost_boot_ns == r->renewed_ns);
}

static void
jumps_of_the_wall_clock_change_nothing(void **state)
{
	size_t n;

	(void)state;
	start_leading();
	start(1);
	for (int i = 0; i < 20; i++) {
		fake_clock_jump_wall(fake, i % 2 ? SECONDS(3600) : -SECONDS(3600));
		n = count_sent();
		pass(SECONDS(7));
		check_leads(&replicas[0]);
		check_stands_by(&replicas[1]);
		assert_true(left_ns(me()) > SECONDS(11));
		assert_in_range(count_sent() - n, 4, 8);
	}
	check_stored("me-0", 15, 0);
}

static void
a_suspended_leader_wakes_as_a_former_one(void **state)
{
	size_t n;

	(void)state;
	start_leading();
	pass(SECONDS(1));
	n = count_sent();
	fake_clock_suspend(fake, SECONDS(20));
	assert_true(left_ns(me()) == 0);
	pass(SECONDS(2));
	check_lost(me(), "not renewed in time");
	assert_string_equal(methods_since(n), "");
}

/* Even if the lease would run on by its new start: by the old one others may have begun. */
static void
a_renewal_that_spans_a_suspension_is_none(void **state)
{
	static const int64_t suspensions_ms[] = { 9500, 20000 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(suspensions_ms); i++) {
		begin_anew();
		start_leading();
		script(0, SLOW);
		pass(SECONDS(3)); /* the request is under way */
		fake_clock_suspend(fake, suspensions_ms[i] * NS_PER_MS);
		pass(SECONDS(2));
		check_lost(me(), "not renewed in time");
	}
}

static void
a_short_suspension_is_survived(void **state)
{
	(void)state;
	start_leading();
	pass(SECONDS(1));
	fake_clock_suspend(fake, SECONDS(8));
	pass(SECONDS(2));
	check_leads(me());
	assert_true(left_ns(me()) > SECONDS(12));
}

static void
a_suspended_standby_looks_before_it_takes(void **state)
{
	(void)state;
	start_leading();
	start(1);
	fake_clock_suspend(fake, SECONDS(10));
	pass(SECONDS(2));
	fake_clock_suspend(fake, SECONDS(10));
	pass(SECONDS(20));
	check_leads(&replicas[0]);
	check_stands_by(&replicas[1]);
}

/* ---- the end ---- */

static void
a_release_lets_the_next_begin(void **state)
{
	size_t n;

	(void)state;
	start_leading();
	start(1);
	n = count_sent();
	stop(me(), /*release=*/true);
	assert_string_equal(methods_since(n), "GU");
	check_stored("", 1, 0);
	assert_true(left_ns(me()) == 0);
	assert_false(elector_term(me()->elector).is_leader);
	assert_int_equal(me()->n_lost, 0);
	pass(4500 * NS_PER_MS);
	check_leads(&replicas[1]);
	assert_true(elector_term(replicas[1].elector).was_handed_over);
	check_stored("me-1", 15, 1);
}

struct stopping {
	struct replica *replica;
	int64_t timeout_ms;
	atomic_bool is_done;
};

static void *
stop_on_thread(void *arg)
{
	struct stopping *s = arg;

	elector_stop(s->replica->elector, /*release=*/true, s->timeout_ms);
	elector_free(TAKE(s->replica->elector));
	s->is_done = true;
	return NULL;
}

static void
stop_while_time_passes(struct replica *r, int64_t timeout_ms)
{
	struct stopping s = { r, timeout_ms, false };
	size_t n = count_sent();
	pthread_t thread;

	r->is_over = true;
	thread_start(&thread, "stopping", stop_on_thread, &s);
	while (!s.is_done &&
	       count_sent() == n) /* until the release has begun: else it would renew first */
		sched_yield();
	while (!s.is_done) {
		fake_clock_advance(fake, NS_PER_MS);
		sched_yield();
	}
	thread_join(thread);
}

static void
a_release_begins_again_after_a_conflict(void **state)
{
	size_t n;

	(void)state;
	start_leading();
	script(0, CONFLICT);
	n = count_sent();
	stop_while_time_passes(me(), 3600000);
	assert_string_equal(methods_since(n), "GUGU");
	check_stored("", 1, 0);
}

static void
a_release_is_not_waited_for_for_ever(void **state)
{
	(void)state;
	start_leading();
	set_outage(0, HANGS);
	stop_while_time_passes(me(), 500);
	check_stored("me-0", 15, 0);
	assert_true(left_ns(me()) == 0);
}

static void
only_a_leader_releases(void **state)
{
	size_t n;

	(void)state;
	someone_writes(HELD_BY("you", 15, "1"));
	start(0);
	n = count_sent();
	stop(me(), /*release=*/true);
	assert_string_equal(methods_since(n), "");
	check_stored("you", 15, 3);
}

static void
what_another_took_is_not_released(void **state)
{
	size_t n;

	(void)state;
	start_leading();
	someone_writes(HELD_BY("you", 15, "1"));
	n = count_sent();
	stop(me(), /*release=*/true);
	assert_string_equal(methods_since(n), "G");
	check_stored("you", 15, 3);
	assert_int_equal(me()->n_lost, 0);
}

static void
without_a_release_the_lease_runs_out(void **state)
{
	size_t n;

	(void)state;
	start_leading();
	start(1);
	n = count_sent();
	stop(me(), /*release=*/false);
	assert_string_equal(methods_since(n), "");
	assert_true(left_ns(me()) > 0);
	pass(SECONDS(14));
	check_stands_by(&replicas[1]);
	pass(SECONDS(6));
	check_leads(&replicas[1]);
	assert_false(elector_term(replicas[1].elector).was_handed_over);
}

static void
a_stop_ends_a_request_that_hangs(void **state)
{
	(void)state;
	start_leading();
	set_outage(0, HANGS);
	pass(SECONDS(3));
	stop(me(), /*release=*/false);
	assert_int_equal(me()->n_lost, 0);
}

/* ---- events, metrics and health ---- */

static void
check_event(struct fake_http *events, size_t i, const char *message)
{
	const struct fake_request *r = fake_http_request(events, i);

	assert_string_equal(r->target, "/api/v1/namespaces/kube-system/events");
	assert_int_equal(r->class, HTTP_BACKGROUND);
	assert_non_null(strstr(
		r->body,
		"\"involvedObject\":{\"kind\":\"Lease\",\"namespace\":\"kube-system\",\"name\":\"ccm\","
		"\"uid\":\"u-1\",\"apiVersion\":\"coordination.k8s.io/v1\"},\"reason\":\"LeaderElection\""));
	assert_non_null(strstr(r->body, "\"source\":{\"component\":\"cloud-controller-manager\"}"));
	assert_non_null(strstr(r->body, "\"type\":\"Normal\""));
	assert_non_null(strstr(r->body, message));
}

static void
events_report_the_beginning_and_the_end(void **state)
{
	struct fake_http *events = fake_http_new();
	struct kube_client client = { .http = fake_http_client(events),
		                      .clock = fake_clock_clock(fake) };
	struct recorder *recorder = recorder_new(&client, "", fake_clock_clock(fake));

	(void)state;
	start_with(0, recorder);
	while (me()->n_started == 0)
		usleep(1000);
	stop(me(), /*release=*/true); /* sooner than the first is written otherwise */
	fake_http_wait(events, 2);
	check_event(events, 0, "\"message\":\"me-0 became leader\"");
	check_event(events, 1, "\"message\":\"me-0 stopped leading\"");
	recorder_free(recorder, /*flush_ms=*/60000);
	fake_http_free(events);
}

static void
a_metric_tells_who_leads(void **state)
{
	static const char name[] = "leader_election_master_status{name=\"ccm\"}";

	(void)state;
	someone_writes(HELD_BY("you", 15, "1"));
	start(0);
	assert_true(metric(name) == 0);
	pass(SECONDS(15));
	assert_true(metric(name) == 1);
	someone_deletes();
	pass(SECONDS(2));
	assert_true(metric(name) == 0);
}

static bool
is_healthy(struct replica *r, struct buf *reason)
{
	buf_reset(reason);
	return elector_health(r->elector, reason);
}

static void
only_a_leader_that_hangs_is_unhealthy(void **state)
{
	CLEANUP(buf_fini) struct buf reason = BUF_INIT(KIB(1));

	(void)state;
	start_leading();
	start(1);
	assert_true(is_healthy(&replicas[1], &reason));
	fake_clock_suspend(fake, SECONDS(35)); /* its thread does not get to run */
	assert_true(is_healthy(me(), &reason));
	fake_clock_suspend(fake, 1);
	assert_false(is_healthy(me(), &reason));
	assert_string_equal(reason.ptr, "failed election to renew leadership on lease ccm");
	assert_true(is_healthy(&replicas[1], &reason));
}

/* ---- anything ---- */

static uint64_t seed;

static uint64_t
dice(uint64_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return n > 0 ? (seed >> 33) % n : 0;
}

static void
restart_lost(void)
{
	for (unsigned i = 0; i < n_replicas; i++) {
		if (!replicas[i].n_lost)
			continue;
		end(&replicas[i]);
		start(i);
	}
}

static void
make_trouble(void)
{
	unsigned who = (unsigned)dice(n_replicas);

	switch (dice(8)) {
	case 0:
		fake_clock_jump_wall(fake, SECONDS(3600) * ((int64_t)dice(3) - 1));
		break;
	case 1:
		someone_labels();
		break;
	case 2:
		fake_clock_suspend(fake, SECONDS((int64_t)dice(20)));
		break;
	case 3:
	case 4:
		set_outage(who, (enum fault)dice(GARBAGE + 1));
		break;
	default:
		set_outage(who, NONE);
	}
}

/* A Lease that is deleted or forced is left out: who comes fresh cannot know that another acts for
 * two seconds more. */
static int
live_through(uint64_t story)
{
	int n_leaders = 0;

	seed = story;
	for (unsigned i = 0; i < MAX_REPLICAS; i++)
		start(i);
	for (int round = 0; round < 60; round++) {
		make_trouble();
		if (dice(4) == 0)
			restart_lost();
		mutex_lock(&server.mu);
		server.n_sent = 0;
		mutex_unlock(&server.mu);
		pass(SECONDS((int64_t)dice(8)));
		for (unsigned i = 0; i < n_replicas; i++)
			n_leaders += left_ns(&replicas[i]) > 0;
	}
	return n_leaders;
}

static void
never_two_at_the_same_time(void **state)
{
	int n_leaders = 0;

	(void)state;
	for (uint64_t story = 1; story <= 3; story++) {
		begin_anew();
		n_leaders += live_through(story);
	}
	assert_true(n_leaders > 120); /* and usually there is one */
}

/* The last good renewal is at most retry period + renew deadline old when a leader gives up: 12 s,
 * while others wait 15. */
static void
clocks_may_run_a_fifth_faster(void **state)
{
	(void)state;
	for (uint64_t story = 11; story <= 13; story++) {
		begin_anew();
		percents_faster[1] = 10;
		percents_faster[2] = 20;
		assert_true(live_through(story) > 30);
	}
}

#define ON_SERVER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(timings_are_validated),
		cmocka_unit_test(all_problems_are_reported),
		cmocka_unit_test(identities_differ),
		ON_SERVER(an_immediate_refusal_does_not_shorten_the_pause),
		ON_SERVER(the_first_makes_the_lease),
		ON_SERVER(a_leader_renews_by_one_request_each_period),
		ON_SERVER(a_lease_without_a_holder_is_taken_immediately),
		ON_SERVER(another_is_waited_for_as_long_as_it_asked),
		ON_SERVER(a_renewal_prolongs_and_a_label_does_not),
		ON_SERVER(asks_every_2_to_4_4_seconds),
		ON_SERVER(a_deleted_lease_is_respected_by_who_has_seen_it),
		ON_SERVER(the_absence_of_a_lease_begins_a_duration),
		ON_SERVER(a_holder_of_a_day_is_waited_for_for_5_min),
		ON_SERVER(a_lost_answer_is_found_again),
		ON_SERVER(the_fence_counts_from_the_start_of_the_request),
		ON_SERVER(every_state_lease_and_answer),
		ON_SERVER(a_change_by_others_costs_a_look),
		ON_SERVER(a_lost_answer_to_a_renewal_does_not_confuse),
		ON_SERVER(changes_of_the_lease_are_noticed_immediately),
		ON_SERVER(a_leader_ends_when_the_data_was_restored),
		ON_SERVER(one_old_answer_ends_no_leader),
		ON_SERVER(a_restore_that_cannot_be_confirmed_is_looked_at_again),
		ON_SERVER(versions_of_another_lease_are_not_compared),
		ON_SERVER(versions_that_are_no_numbers_are_not_compared),
		ON_SERVER(a_holder_from_before_the_restore_is_respected),
		ON_SERVER(a_lease_that_was_created_again_is_not_taken_immediately),
		ON_SERVER(a_renewal_that_was_not_seen_before_the_restore_is_respected),
		ON_SERVER(a_holder_in_the_restored_data_is_respected),
		ON_SERVER(the_version_of_the_lease_that_was_taken_is_known),
		ON_SERVER(short_outages_are_survived),
		ON_SERVER(one_request_that_hangs_is_survived),
		ON_SERVER(long_outages_are_not),
		ON_SERVER(nothing_goes_on_past_the_fence),
		ON_SERVER(jumps_of_the_wall_clock_change_nothing),
		ON_SERVER(a_suspended_leader_wakes_as_a_former_one),
		ON_SERVER(a_renewal_that_spans_a_suspension_is_none),
		ON_SERVER(a_short_suspension_is_survived),
		ON_SERVER(a_suspended_standby_looks_before_it_takes),
		ON_SERVER(a_release_lets_the_next_begin),
		ON_SERVER(a_release_begins_again_after_a_conflict),
		ON_SERVER(a_release_is_not_waited_for_for_ever),
		ON_SERVER(only_a_leader_releases),
		ON_SERVER(what_another_took_is_not_released),
		ON_SERVER(without_a_release_the_lease_runs_out),
		ON_SERVER(a_stop_ends_a_request_that_hangs),
		ON_SERVER(events_report_the_beginning_and_the_end),
		ON_SERVER(a_metric_tells_who_leads),
		ON_SERVER(only_a_leader_that_hangs_is_unhealthy),
		ON_SERVER(never_two_at_the_same_time),
		ON_SERVER(clocks_may_run_a_fifth_faster),
	};

	log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
