/* Half an hour without the cloud, with all controllers: how many requests are sent meanwhile, which
 * events are written, and how soon everything is done once the cloud answers again. */
#include "controllers/rig.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/thread.h"
#include "cloud/endpoint.h"

enum {
	NEW_NODES = 6,
	SILENT_NODES = 2, /* with pod CIDRs */
	SERVICES = 4,
	MORE_SERVICES = 2,
	LONG_S = 1800,
	SHORT_S = 300,
	PROBE_S = 30,
	BEGINNING_S = 60, /* probes come sooner at first */
	PERIOD_S = 10,
	SOON_S = 5, /* from the first answer to everything done */
	MAX_SENT = 10000,
};

static struct rig *rig;

/* The API that everything goes through. */
static struct {
	struct cloud_host host;
	struct endpoint *endpoint;
	pthread_mutex_t mu;
	struct error trouble;      /* mu; ERR_NONE: it answers */
	int64_t sent_ns[MAX_SENT]; /* mu */
	size_t n_sent;             /* mu */
	int64_t answered_ns;       /* mu; first; 0: not yet */
	int log;                   /* a file */
} api = { .mu = PTHREAD_MUTEX_INITIALIZER };

static void
note_sent(bool is_answered)
{
	if (api.n_sent == MAX_SENT)
		abort();
	api.sent_ns[api.n_sent++] = clock_mono(rig->clock);
	if (is_answered && api.answered_ns == 0)
		api.answered_ns = clock_mono(rig->clock);
}

static enum endpoint_outcome
request(struct error *err)
{
	WITH_LOCK(&api.mu);

	note_sent(api.trouble.code == ERR_NONE);
	if (api.trouble.code == ERR_NONE)
		return ENDPOINT_ANSWERED;
	*err = api.trouble;
	return ENDPOINT_FAILED;
}

static bool
reach(void *arg, struct error *err)
{
	struct endpoint_pass pass;
	enum endpoint_outcome outcome;

	(void)arg;
	if (!endpoint_enter(api.endpoint, &pass, err))
		return false;
	outcome = request(err);
	endpoint_leave(api.endpoint, &pass, outcome, err);
	return outcome == ENDPOINT_ANSWERED;
}

static bool
reach_for_look(void *arg, struct look *look, struct error *err)
{
	(void)look;
	return reach(arg, err);
}

/* As in manager.c. */
static void
release(const struct cloud_host *host, enum host_requeue what, struct str key)
{
	(void)host;
	(void)key;
	if (what != HOST_REQUEUE_RECOVERED)
		return;
	node_controller_release(rig->nodes);
	lifecycle_controller_wake(rig->lifecycle, LIFECYCLE_FAILED_DUE);
	service_controller_release(rig->balancing);
	route_controller_wake(rig->routing, /*is_outage_over=*/true);
}

static void
set_trouble(enum err_code code, int status, const char *text)
{
	WITH_LOCK(&api.mu);

	err_set(&api.trouble, code, "%s", text);
	api.trouble.http_status = status;
	api.answered_ns = 0;
	api.n_sent = 0;
}

/* ---- the cluster ---- */

static const char *
named(const char *kind, unsigned i)
{
	return arena_printf(&rig->arena, "%s%u", kind, i).ptr;
}

static void
put_nodes(void)
{
	for (unsigned i = 0; i < NEW_NODES; i++) {
		fake_cloud_set(rig->cloud, named("new", i), MACHINE_ON);
		rig_put(rig,
		        &(struct rig_node){ .name = named("new", i), .taints = RIG_UNINITIALIZED });
	}
	for (unsigned i = 0; i < SILENT_NODES; i++) {
		fake_cloud_set(rig->cloud, named("silent", i), MACHINE_ON);
		rig_put(rig, &(struct rig_node){
				     .name = named("silent", i),
				     .ready = "Unknown",
				     .provider_id = named("fake://silent", i),
				     .pod_cidrs = arena_printf(&rig->arena, "\"10.244.%u.0/24\"", i)
		                                          .ptr });
	}
}

static void
put_services(unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++)
		fake_services_put(rig->services, &(struct fake_service){ .name = named("web", i) });
}

static void
begin(void)
{
	rig = rig_new();
	api.host = (struct cloud_host){ .clock = rig->clock, .requeue = release };
	api.endpoint = endpoint_new(&(struct endpoint_config){ "the lab", &api.host });
	fake_cloud_mood(rig->cloud, reach_for_look, NULL);
	rig_start_nodes(rig, 1);
	rig_start_lifecycle(rig, &guard_defaults);
	rig_start_services(rig, 1, /*selects=*/false);
	fake_balancers_reach(rig->balancers, reach, NULL);
	rig_start_routes(rig, PERIOD_S,
	                 (struct fake_routes_config){ .families = 3,
	                                              .idle_period_ns = 3600 * NS_PER_SEC });
	fake_routes_reach(rig->routes, reach, NULL);
}

/* An empty list. */
static void
begin_empty(void)
{
	set_trouble(ERR_NONE, 0, "");
	begin();
	rig_sync_services(rig);
	rig_run(rig, 2);
}

static void
put_all(void)
{
	put_nodes();
	put_services(0, SERVICES);
	rig_deliver(rig);
}

static int
tear_down(void **state)
{
	(void)state;
	log_set_fd(-1);
	rig_free(TAKE(rig));
	endpoint_free(TAKE(api.endpoint));
	return 0;
}

/* The store gets what was written to Services. */
static void
run(int64_t seconds)
{
	rig_deliver(rig);
	rig_run(rig, seconds);
	rig_deliver(rig);
}

/* ---- looking ---- */

static unsigned
n_initialised(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < NEW_NODES; i++)
		n += fake_api_events(rig->api, "Synced", named("new", i)) > 0;
	return n;
}

static bool
is_all_done(unsigned n_services)
{
	return n_initialised() == NEW_NODES && fake_routes_count(rig->routes) == SILENT_NODES &&
	       fake_balancers_count(rig->balancers) == n_services;
}

static void
check_probes(int64_t outage_s)
{
	int64_t begun_ns = api.sent_ns[0];
	unsigned n_late = 0;

	for (size_t i = 1; i < api.n_sent; i++) {
		if (api.sent_ns[i] - begun_ns < BEGINNING_S * NS_PER_SEC)
			continue;
		n_late++;
		assert_true(api.sent_ns[i] - api.sent_ns[i - 1] >= PROBE_S * NS_PER_SEC);
	}
	print_message("%zu requests in %d s\n", api.n_sent, (int)outage_s);
	assert_in_range(n_late, (outage_s - BEGINNING_S) / (2 * PROBE_S), outage_s / PROBE_S);
	assert_in_range(api.n_sent, n_late, n_late + 40);
}

static off_t
log_size(void)
{
	return lseek(api.log, 0, SEEK_END);
}

/* How soon everything is done, counted from the first answer. */
static void
check_recovery(unsigned n_services)
{
	int64_t waited_s = 0;

	set_trouble(ERR_NONE, 0, "");
	while (api.answered_ns == 0) {
		run(1);
		assert_in_range(++waited_s, 1, PROBE_S + 2);
	}
	for (int64_t i = 0; i < SOON_S; i++)
		run(1);
	assert_int_equal(n_initialised(), NEW_NODES);
	assert_int_equal(fake_routes_count(rig->routes), SILENT_NODES);
	assert_int_equal(fake_balancers_count(rig->balancers), n_services);
}

/* ---- outages ---- */

static void
live_through(int64_t outage_s, enum err_code code, int status, const char *why)
{
	off_t size;

	api.log = memfd_create("log", MFD_CLOEXEC);
	assert_true(api.log >= 0);
	log_set_fd(api.log);
	begin_empty();
	set_trouble(code, status, why);
	put_all();
	run(BEGINNING_S);
	size = log_size();
	run(outage_s - BEGINNING_S);
	assert_int_equal(log_size(), size); /* it was logged before */
	log_set_fd(-1);
	close(api.log);
	check_probes(outage_s);
	assert_false(is_all_done(SERVICES));
	check_recovery(SERVICES);
}

static void
connections_are_refused_for_half_an_hour(void **state)
{
	(void)state;
	live_through(LONG_S, ERR_UNAVAILABLE, 0, "connection refused");
	assert_int_equal(fake_api_events(rig->api, "FailedToInitializeNode", NULL), 0);
}

static void
nothing_answers(void **state)
{
	(void)state;
	live_through(SHORT_S, ERR_TIMEOUT, 0, "no answer in time");
}

static void
all_is_503(void **state)
{
	(void)state;
	live_through(SHORT_S, ERR_UNAVAILABLE, 503, "503");
}

/* The events say what it is: one for each node, and one for each attempt of a Service that failed
 * in another way. */
static void
the_token_is_refused(void **state)
{
	(void)state;
	live_through(SHORT_S, ERR_UNAUTHORIZED, 401, "unable to authenticate");
	assert_non_null(strstr(fake_api_last_event(rig->api, "FailedToInitializeNode"),
	                       "unable to authenticate"));
	assert_in_range(fake_api_events(rig->api, "FailedToInitializeNode", NULL), NEW_NODES,
	                2 * NEW_NODES);
	assert_in_range(fake_api_events(rig->api, "SyncLoadBalancerFailed", NULL), SERVICES,
	                2 * SERVICES);
}

/* The list of balancers, which is read before any Service is worked on, cannot be read either. */
static void
a_start_during_an_outage_catches_up_as_soon(void **state)
{
	(void)state;
	set_trouble(ERR_UNAVAILABLE, 0, "connection refused");
	begin();
	put_nodes();
	put_services(0, SERVICES);
	rig_sync_services(rig);
	run(SHORT_S);
	put_services(SERVICES, SERVICES + MORE_SERVICES);
	run(SHORT_S);
	check_recovery(SERVICES + MORE_SERVICES);
}

/* A settled cluster goes through an outage, and there is work afterwards. */
static void
a_short_outage_costs_little_more_than_its_length(void **state)
{
	(void)state;
	begin_empty();
	put_all();
	for (int64_t i = 0; i < 10; i++)
		run(1);
	assert_true(is_all_done(SERVICES));
	set_trouble(ERR_UNAVAILABLE, 0, "connection refused");
	put_services(SERVICES, SERVICES + MORE_SERVICES);
	rig_deliver(rig);
	run(5);
	set_trouble(ERR_NONE, 0, "");
	for (int64_t i = 0; i < 12; i++)
		run(1);
	assert_true(is_all_done(SERVICES + MORE_SERVICES));
}

#define TEST(name) cmocka_unit_test_teardown(name, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(connections_are_refused_for_half_an_hour),
		TEST(nothing_answers),
		TEST(all_is_503),
		TEST(the_token_is_refused),
		TEST(a_start_during_an_outage_catches_up_as_soon),
		TEST(a_short_outage_costs_little_more_than_its_length),
	};

	log_set_fd(-1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
