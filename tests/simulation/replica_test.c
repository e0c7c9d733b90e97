/* Tests that the program runs as a replica of the simulation: the same seed gives the same history,
 * and a crash leaves nothing behind. Each history runs in a process of its own. */
#include "replica.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "hetzner.h"
#include "net.h"
#include "system.h"

#define SECOND_NS INT64_C(1000000000)

/* ---- an API server without objects ---- */

static void
stub_handle(struct server *server, const struct server_request *q, struct server_response *r)
{
	(void)server;
	r->status = 200;
	r->is_stream = str_contains(q->target, STR("watch=true"));
	if (r->is_stream)
		return;
	if (str_starts(q->target, STR("/api/v1/")))
		buf_addf(&r->body,
		         "{\"kind\":\"%s\",\"apiVersion\":\"v1\",\"metadata\":"
		         "{\"resourceVersion\":\"5\"},\"items\":[]}",
		         str_contains(q->target, STR("/nodes")) ? "NodeList" : "ServiceList");
}

static void
stub_closed(struct server *server, uint64_t stream)
{
	(void)server;
	(void)stream;
}

static void
stub_advance(struct server *server, int64_t wall_ns)
{
	(void)server;
	(void)wall_ns;
}

static int64_t
stub_next_ns(const struct server *server)
{
	(void)server;
	return CLOCK_FOREVER;
}

static const struct server_ops stub_ops = { stub_handle, stub_closed, stub_advance, stub_next_ns,
	                                    NULL };
static struct server stub = { .ops = &stub_ops };

/* ---- one history ---- */

static unsigned n_lists; /* of nodes */

static void
on_arrived(const struct net_request *r)
{
	if (str_starts(r->request->target, STR("/api/v1/nodes")) &&
	    !str_contains(r->request->target, STR("watch=true")))
		n_lists++;
}

static void
on_acted(const struct net_request *r, const struct server_response *answer)
{
	(void)r;
	(void)answer;
}

static struct replica *
begin(uint64_t seed)
{
	static const char *const environment[] = { "HCLOUD_TOKEN=token",
		                                   "HCLOUD_ENDPOINT=http://192.0.2.2/v1",
		                                   "HCLOUD_METRICS_ENABLED=false", NULL };
	struct hetzner *hetzner = hetzner_new(WALL_START_NS, seed);
	struct replica *r = replica_at(0);

	schedule_start(seed);
	schedule_set_yields(200);
	system_seed(seed);
	net_start(seed, &(struct net_hooks){ .arrived = on_arrived, .acted = on_acted });
	hetzner_add_project(hetzner, STR("token"));
	net_set_server(HOST_KUBE, &stub);
	net_set_server(HOST_CLOUD, hetzner_server(hetzner));
	replica_set_environment(r, environment);
	return r;
}

static void
start(struct replica *r)
{
	char flag[200];
	const char *const arguments[] = { "--cloud-provider=hcloud", flag, "--secure-port=0",
		                          "--leader-elect=false", NULL };

	snprintf(flag, sizeof(flag), "--kubeconfig=%s", replica_kubeconfig(r));
	replica_start(r, arguments);
}

/* 0 for a history as it should be, with its hash in *ret. */
static int
live_and_stop(uint64_t seed, uint64_t *ret)
{
	struct replica *r = begin(seed);

	start(r);
	schedule_run_until(60 * SECOND_NS);
	replica_signal(r, SIGTERM);
	schedule_run_until(63 * SECOND_NS);
	*ret = trace_hash();
	return failure() || r->is_running || r->exit_status != 0 || n_lists != 1;
}

static int
crash_with_lock(uint64_t seed, uint64_t *ret)
{
	struct replica *r = begin(seed);
	int64_t at_ns = 0;

	start(r);
	while (!fiber_holds_lock(r) && at_ns < 60 * SECOND_NS)
		schedule_run_until(at_ns += 1000);
	if (!fiber_holds_lock(r))
		return 1;
	replica_crash(r);
	schedule_run_until(at_ns + SECOND_NS);
	n_lists = 0;
	start(r);
	schedule_run_until(at_ns + 20 * SECOND_NS);
	replica_signal(r, SIGTERM);
	schedule_run_until(at_ns + 23 * SECOND_NS);
	*ret = trace_hash();
	return failure() || r->is_running || r->exit_status != 0 || n_lists != 1;
}

/* Returns the hash of a history that ran in a process of its own. */
static uint64_t
history(int (*run)(uint64_t seed, uint64_t *ret), uint64_t seed)
{
	uint64_t hash = 0;
	int status, ends[2];
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		status = run(seed, &hash);
		if (failure())
			(void)fprintf(stderr, "%s\n", failure());
		_exit(write(ends[1], &hash, sizeof(hash)) == sizeof(hash) ? status : 1);
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], &hash, sizeof(hash)), sizeof(hash));
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	return hash;
}

static void
the_seed_decides_the_history(void **state)
{
	uint64_t first = history(live_and_stop, 1);

	(void)state;
	assert_true(history(live_and_stop, 1) == first);
	assert_false(history(live_and_stop, 2) == first);
}

static void
a_crash_with_a_lock_held_leaves_nothing_behind(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++)
		(void)history(crash_with_lock, seed);
}

static int
load(void **state)
{
	(void)state;
	replicas_load(getenv("REPLICAS"));
	return 0;
}

static int
unload(void **state)
{
	(void)state;
	replicas_unload();
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_seed_decides_the_history),
		cmocka_unit_test(a_crash_with_a_lock_held_leaves_nothing_behind),
	};

	return cmocka_run_group_tests(tests, load, unload);
}
