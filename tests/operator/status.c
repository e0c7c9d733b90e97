#include "operator/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"

static const char metrics[] =
	"leader_election_master_status{name=\"cloud-controller-manager\"} 1\n"
	"process_start_time_seconds 400\n"
	"process_resident_memory_bytes 1.25e+07\n"
	"ccmd_reflector_objects{kind=\"Node\"} 12\n"
	"ccmd_reflector_objects{kind=\"Service\"} 3\n"
	"ccmd_reflector_synced{kind=\"Node\"} 1\n"
	"ccmd_reflector_synced{kind=\"Service\"} 0\n"
	"ccmd_reflector_synced_since_timestamp_seconds{kind=\"Node\"} 880\n"
	"ccmd_reflector_synced_since_timestamp_seconds{kind=\"Service\"} 0\n"
	"ccmd_reflector_last_event_timestamp_seconds{kind=\"Node\"} 990\n"
	"ccmd_reflector_last_event_timestamp_seconds{kind=\"Service\"} 0\n"
	"workqueue_depth{name=\"node\"} 2\n"
	"ccmd_workqueue_oldest_due_seconds{name=\"node\"} 4\n"
	"rest_client_requests_total{code=\"200\",method=\"GET\",host=\"h\"} 90\n"
	"rest_client_requests_total{code=\"503\",method=\"GET\",host=\"h\"} 4\n"
	"rest_client_requests_total{code=\"<error>\",method=\"GET\",host=\"h\"} 6\n"
	"hcloud_api_requests_total{code=\"200\",method=\"get\"} 30\n"
	"hcloud_api_requests_total{code=\"429\",method=\"get\"} 1\n"
	"hcloud_api_rate_limit_remaining 3540\n"
	"ccmd_recent_requests{result=\"ok\",server=\"api_server\"} 7\n"
	"ccmd_recent_requests{result=\"failed\",server=\"api_server\"} 2\n"
	"ccmd_recent_requests{result=\"ok\",server=\"cloud\"} 3\n"
	"ccmd_recent_requests{result=\"failed\",server=\"cloud\"} 1\n"
	"ccmd_nodes_held 1\n"
	"ccmd_node_last_deletion_timestamp_seconds 940\n"
	"ccmd_node_deletion_decisions_total{outcome=\"delete\"} 2\n";

static struct view_lease lease;

static struct status
well(void)
{
	lease = (struct view_lease){
		.exists = true,
		.has_holder = true,
		.late_s = -13,
		.lease = { .holder = STR("host_1"),
		           .acquired = STR("2026-01-02T03:04:05.000000Z"),
		           .duration_s = 15,
		           .transitions = 4 },
		.renewed_s = 998,
	};
	return (struct status){
		.has_election = true,
		.lease_name = STR("kube-system/cloud-controller-manager"),
		.lease = &lease,
		.now_s = 1000,
		.has_server = true,
		.is_reached = true,
		.is_healthy = true,
		.is_ready = true,
		.checks = STR("[+]progress ok\nhealthz check passed\n"),
		.has_metrics = true,
		.metrics = str_c(metrics),
		.totals = { .start = 400, .api_server = 100, .cloud = 31 },
	};
}

static void
check(const struct status *s, int code, const char *text)
{
	CLEANUP(buf_fini) struct buf out = BUF_INIT(KIB(16));

	assert_int_equal(status_exit_code(s), code);
	status_print(s, &out);
	assert_string_equal(out.ptr, text);
}

static void
shows_everything(void **state UNUSED)
{
	struct status s = well();

	check(&s, 0,
	      "Leader      host_1 since 2026-01-02T03:04:05.000000Z, renewed 2s ago\n"
	      "Process     healthy, ready\n"
	      "            it leads, started 10m0s ago, 12.5 MB of memory\n"
	      "Objects     Node: 12, in sync for 2m0s, last event 10s ago\n"
	      "            Service: 3, not in sync, last event 16m40s ago\n"
	      "Queues      node: 2 waiting, the oldest for 4 s\n"
	      "Requests    API server: 9 in 5 min, 2 failed; 100 since the start, 10 failed\n"
	      "            cloud: 4 in 5 min, 1 failed; 31 since the start, 1 failed; 3540 left of the rate limit\n"
	      "Deletions   the last node 1m0s ago; held now: 1 (kubectl get events -A --field-selector reason=NodeDeletionHeld)\n");
}

static void
assert_shows(const struct status *s, const char *line)
{
	CLEANUP(buf_fini) struct buf out = BUF_INIT(KIB(16));

	status_print(s, &out);
	if (!strstr(out.ptr, line))
		fail_msg("no \"%s\" in:\n%s", line, out.ptr);
}

/* An older ccmd does not have all metrics, and another program may answer on the port. */
static void
an_absent_sample_is_not_zero(void **state UNUSED)
{
	CLEANUP(buf_fini) struct buf json = BUF_INIT(KIB(16));
	struct status s = well();

	s.totals = (struct status_totals){ 0 };
	s.metrics =
		STR("ccmd_reflector_objects{kind=\"Node\"} 3\nworkqueue_depth{name=\"node\"} 0\n");
	check(&s, 0,
	      "Leader      host_1 since 2026-01-02T03:04:05.000000Z, renewed 2s ago\n"
	      "Process     healthy, ready\n"
	      "            start unknown\n"
	      "Objects     Node: 3, unknown whether in sync, last event unknown\n"
	      "Queues      node: 0 waiting\n"
	      "Requests    unknown\n");
	status_print_json(&s, &json);
	assert_null(strstr(json.ptr, "startTime"));
	assert_null(strstr(json.ptr, "apiServerRecent"));

	s.metrics = STR(
		"ccmd_reflector_objects{kind=\"Node\"} 3\nccmd_reflector_synced{kind=\"Node\"} 1\n"
		"ccmd_reflector_synced_since_timestamp_seconds{kind=\"Node\"} 0\n"
		"ccmd_nodes_held 0\n");
	assert_shows(&s, "Node: 3, NOT in sync any more, last event unknown\n");
	assert_shows(&s, "Deletions   no node since the start; held now: 0\n");
	s.metrics = STR("process_start_time_seconds 990\n");
	assert_shows(&s, "Objects     none: a replica that stands by reads no objects\n");
}

static void
shows_the_replicas(void **state UNUSED)
{
	struct status s = well();

	s.is_in_pod = true;
	s.pod_name = STR("ccmd-1");
	s.pod_namespace = STR("kube-system");
	assert_shows(&s, "Replicas    this one is ccmd-1, others are unknown to this account; "
	                 "kubectl -n kube-system get pods -l app.kubernetes.io/name=ccmd\n");
	s.has_pods = true;
	s.n_pods = 2;
	s.n_ready_pods = 1;
	assert_shows(&s, "Replicas    1 of 2 ready\n");
}

static void
names_nodes_that_may_be_held(void **state UNUSED)
{
	CLEANUP(buf_fini) struct buf json = BUF_INIT(KIB(16));
	struct status s = well();

	s.not_ready = STR("a, b\033");
	assert_shows(
		&s,
		"held now: 1, among the nodes that are not Ready: a, b  (ccmd explain node NAME)\n");
	status_print_json(&s, &json);
	assert_non_null(strstr(json.ptr, "\"notReadyNodes\":\"a, b"));
}

/* --watch */
static void
shows_what_is_new(void **state UNUSED)
{
	struct status_totals before = { .start = 400, .api_server = 88, .cloud = 30 };
	struct status s = well();

	s.totals_before = &before;
	assert_shows(&s, "100 since the start, 10 failed; +12\n");
	assert_shows(&s, "31 since the start, 1 failed; +1;");
	before.start = 399; /* another process */
	assert_shows(&s, "100 since the start, 10 failed\n");
}

static void
says_what_is_wrong(void **state UNUSED)
{
	struct status s = well();

	s.has_metrics = false;
	err_set(&s.metrics_err, ERR_FORBIDDEN, "GET /metrics: 403");
	s.is_healthy = s.is_ready = false;
	s.checks = STR("[+]progress ok\n[-]leaderElection failed: reason withheld\n"
	               "healthz check failed\n");
	lease.renewed_s = 900;
	lease.late_s = 85;
	check(&s, 1,
	      "Leader      host_1 since 2026-01-02T03:04:05.000000Z, EXPIRED, renewed 1m40s ago\n"
	      "Process     NOT healthy, leaderElection failed: reason withheld, not ready\n"
	      "Metrics     not read: GET /metrics: 403\n");
}

static void
says_what_it_could_not_find_out(void **state UNUSED)
{
	struct status s = well();

	s.has_metrics = s.is_reached = false;
	s.lease = NULL;
	err_set(&s.lease_err, ERR_UNAVAILABLE, "connection\033refused");
	s.server_err = s.metrics_err = s.lease_err;
	check(&s, 2,
	      "Leader      unknown: connection refused\n"
	      "Process     unknown: connection refused\n"
	      "Metrics     not read: connection refused\n");
}

static void
no_leader(void **state UNUSED)
{
	struct status s = well();

	s.has_metrics = s.has_server = false;
	err_set(&s.metrics_err, ERR_UNSUPPORTED, "none");
	lease.has_holder = false;
	check(&s, 1,
	      "Leader      none: the Lease kube-system/cloud-controller-manager has no holder\n"
	      "Process     unknown: --secure-port=0\n"
	      "Metrics     not read: none\n");
	lease.exists = false;
	s.has_election = false;
	s.lease = NULL;
	check(&s, 0,
	      "Leader      no election (--leader-elect=false)\n"
	      "Process     unknown: --secure-port=0\n"
	      "Metrics     not read: none\n");
}

static void
prints_json(void **state UNUSED)
{
	CLEANUP(buf_fini) struct buf out = BUF_INIT(KIB(16));
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct status s = well();
	struct error err;
	int64_t number;

	status_print_json(&s, &out);
	assert_true(json_parse(buf_str(&out), &doc, &err));
	assert_int_equal(json_i64(yyjson_doc_get_root(doc), "metrics.cloudFailures", &number),
	                 JSON_FOUND);
	assert_int_equal(number, 1);
	assert_int_equal(json_i64(yyjson_doc_get_root(doc), "lease.renewedSecondsAgo", &number),
	                 JSON_FOUND);
	assert_int_equal(number, 2);
	assert_non_null(strstr(out.ptr, "\"objects\":[{\"kind\":\"Node\",\"value\":12},"));
}

/* Another server may answer on the port. */
static void
bounds_what_it_reads(void **state UNUSED)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(16));
	CLEANUP(buf_fini) struct buf json = BUF_INIT(KIB(16));
	struct status s = well();

	s.metrics = STR("process_start_time_seconds -1e300\n"
	                "process_resident_memory_bytes 1e300\n"
	                "workqueue_depth{name=\"node\"} -1e300\n");
	status_print(&s, &text);
	assert_non_null(strstr(text.ptr, "started 2562047h47m16s ago"));
	status_print_json(&s, &json);
	assert_non_null(strstr(json.ptr, "\"startTime\":-1000000000000000,"));
	assert_non_null(strstr(json.ptr, "\"memoryBytes\":1000000000000000,"));
	assert_non_null(strstr(json.ptr, "{\"name\":\"node\",\"value\":-1000000000000000}"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shows_everything),
		cmocka_unit_test(an_absent_sample_is_not_zero),
		cmocka_unit_test(shows_the_replicas),
		cmocka_unit_test(names_nodes_that_may_be_held),
		cmocka_unit_test(shows_what_is_new),
		cmocka_unit_test(says_what_is_wrong),
		cmocka_unit_test(says_what_it_could_not_find_out),
		cmocka_unit_test(no_leader),
		cmocka_unit_test(prints_json),
		cmocka_unit_test(bounds_what_it_reads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
