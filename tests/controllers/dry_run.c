/* With a dry run the controllers send nothing, and report what they would change. */
#include "controllers/rig.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "base/limits.h"
#include "controllers/dry_write.h"
#include "controllers/env.h"
#include "kube/service.h"

enum {
	MAX_LINES = 500,
};

static struct rig *rig;

/* What the dry run was given, as lines; those of failures begin with "failed". */
static struct {
	struct dry_run run;
	pthread_mutex_t mu;
	char *lines[MAX_LINES]; /* mu */
	size_t n;               /* mu */
} seen = { .mu = PTHREAD_MUTEX_INITIALIZER };

static void
keep_line(struct buf *line)
{
	WITH_LOCK(&seen.mu);

	if (seen.n == MAX_LINES)
		abort();
	seen.lines[seen.n++] = xstrndup(line->ptr, line->len);
}

/* "change node "n1" 41: PATCH /api/v1/nodes/n1; label a: x -> y; …" */
static void
on_note(struct dry_run *run, const struct dry_item *item, const struct dry_change *change)
{
	static const char *const verbs[] = { "create", "change", "delete" };
	CLEANUP(buf_fini) struct buf line = BUF_INIT(KIB(4));

	(void)run;
	buf_addf(&line, "%s %s \"%" STR_FMT "\" %" STR_FMT ": %" STR_FMT, verbs[change->verb],
	         item->kind, STR_ARG(item->name), STR_ARG(item->version), STR_ARG(change->request));
	for (size_t i = 0; i < change->n_fields; i++)
		buf_addf(&line, "; %" STR_FMT ": %" STR_FMT " -> %" STR_FMT,
		         STR_ARG(change->fields[i].name), STR_ARG(change->fields[i].old),
		         STR_ARG(change->fields[i].new));
	keep_line(&line);
}

static void
on_failed(struct dry_run *run, const struct dry_item *item, const struct error *err)
{
	CLEANUP(buf_fini) struct buf line = BUF_INIT(KIB(4));

	(void)run;
	buf_addf(&line, "failed %s \"%" STR_FMT "\" %" STR_FMT ": %d", item->kind,
	         STR_ARG(item->name), STR_ARG(item->version), (int)err->code);
	keep_line(&line);
}

static const char *
line_at(size_t i)
{
	WITH_LOCK(&seen.mu);

	return i < seen.n ? seen.lines[i] : "";
}

static size_t
count_lines(const char *line)
{
	size_t n = 0;
	WITH_LOCK(&seen.mu);

	for (size_t i = 0; i < seen.n; i++)
		n += strcmp(seen.lines[i], line) == 0;
	return n;
}

static int
set_up(void **state)
{
	(void)state;
	rig = rig_new();
	seen.run = (struct dry_run){ .note = on_note, .failed = on_failed };
	rig->env.dry = &seen.run;
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	rig_free(rig);
	for (size_t i = 0; i < seen.n; i++)
		free(seen.lines[i]);
	seen.n = 0;
	return 0;
}

/* ---- failures ---- */

static const struct rig_node new_node = {
	.name = "n1",
	.version = "41",
	.taints = RIG_UNINITIALIZED,
};

static void
a_node_whose_machine_is_not_found_is_reported(void **state)
{
	(void)state;
	rig_start_nodes(rig, 1);
	rig_put(rig, &new_node);
	rig_sync(rig);
	assert_string_equal(line_at(0), "failed node \"n1\" 41: 8"); /* ERR_NOT_FOUND */
}

static void
a_look_that_fails_is_reported_for_each_node_that_is_not_ready(void **state)
{
	struct guard_config guard = guard_defaults;

	(void)state;
	fake_cloud_fail(rig->cloud, ERR_UNAUTHORIZED);
	rig_start_lifecycle(rig, &guard);
	for (const char *const *name = (const char *[]){ "a", "b", NULL }; *name; name++)
		rig_put(rig, &(struct rig_node){ .name = *name, .ready = "False" });
	rig_sync(rig);
	assert_int_equal(count_lines("failed node \"a\" 7: 6"), 1);
	assert_int_equal(count_lines("failed node \"b\" 7: 6"), 1);
}

static void
a_held_service_is_reported(void **state)
{
	(void)state;
	rig_start_services(rig, 1, /*selects=*/false);
	fake_services_put(rig->services, &(struct fake_service){ .name = "web" });
	fake_balancers_fault(rig->balancers,
	                     (struct fake_fault){ "ensure", ERR_PENDING, 1000, 1, false, false });
	rig_sync_services(rig);
	assert_string_equal(line_at(1), "failed service \"default/web\" 101: 5");
}

static void
a_route_table_that_cannot_be_listed_is_reported(void **state)
{
	(void)state;
	rig_start_routes(rig, 10, (struct fake_routes_config){ .families = 1 });
	fake_routes_fault(rig->routes,
	                  (struct fake_fault){ "list", ERR_FORBIDDEN, 0, 1, false, false });
	rig_sync(rig);
	rig_run(rig, 1);
	assert_int_equal(count_lines("failed route \"\" : 7"), 1);
}

/* ---- changes ---- */

/* Without events, which the rig's recorder writes. */
static size_t
count_writes(void)
{
	return fake_api_count(rig->api, HTTP_PATCH, "/api/v1/nodes") +
	       fake_api_count(rig->api, HTTP_PATCH, "/services") +
	       fake_api_count(rig->api, HTTP_DELETE, NULL);
}

static void
set_machine(const char *name)
{
	static const struct address addresses[] = { { STR("InternalIP"), STR("10.0.0.9") },
		                                    { STR("ExternalIP"), STR("192.0.2.9") } };
	struct fake_machine machine = MACHINE_ON;

	machine.type = "cx22";
	machine.zone = "fsn1-dc14";
	machine.addresses = addresses;
	machine.n_addresses = ARRAY_LEN(addresses);
	fake_cloud_set(rig->cloud, name, machine);
}

static void
the_initialisation_of_a_node_is_noted(void **state)
{
	(void)state;
	rig_start_nodes(rig, 1);
	set_machine("n1");
	rig_put(rig,
	        &(struct rig_node){
			.name = "n1",
			.version = "41",
			.labels = "\"node.kubernetes.io/instance-type\":\"old\"",
			.taints = RIG_UNINITIALIZED
			",{\"key\":\"mine\",\"effect\":\"NoExecute\",\"timeAdded\":\"2026-01-01T00:00:00Z\"}",
			.addresses = "{\"type\":\"InternalIP\",\"address\":\"10.0.0.1\"}",
		});
	rig_sync(rig);
	assert_string_equal(
		line_at(0),
		"change node \"n1\" 41: PATCH /api/v1/nodes/n1/status; address InternalIP: 10.0.0.1 -> 10.0.0.9; "
		"address ExternalIP:  -> 192.0.2.9");
	assert_string_equal(line_at(1),
	                    "change node \"n1\" 41: PATCH /api/v1/nodes/n1; "
	                    "label failure-domain.beta.kubernetes.io/zone:  -> fsn1-dc14; "
	                    "label topology.kubernetes.io/zone:  -> fsn1-dc14; "
	                    "label beta.kubernetes.io/instance-type:  -> cx22; "
	                    "label node.kubernetes.io/instance-type: old -> cx22; "
	                    "provider ID:  -> fake://n1; taint " NODE_TAINT_UNINITIALIZED
	                    ": true:NoSchedule -> ");
	assert_int_equal(count_writes(), 0);
}

static void
another_order_of_addresses_is_noted(void **state)
{
	static const struct address addresses[] = { { STR("ExternalIP"), STR("192.0.2.9") },
		                                    { STR("ExternalIP"), STR("2001:db8::9") } };
	struct fake_machine machine = MACHINE_ON;

	(void)state;
	machine.addresses = addresses;
	machine.n_addresses = ARRAY_LEN(addresses);
	rig_start_nodes(rig, 1);
	fake_cloud_set(rig->cloud, "n1", machine);
	rig_put(rig, &(struct rig_node){
			     .name = "n1",
			     .provider_id = "fake://n1",
			     .addresses = "{\"type\":\"ExternalIP\",\"address\":\"2001:db8::9\"},"
					  "{\"type\":\"ExternalIP\",\"address\":\"192.0.2.9\"}" });
	rig_sync(rig);
	assert_string_equal(line_at(0),
	                    "change node \"n1\" 7: PATCH /api/v1/nodes/n1/status; "
	                    "addresses: 2001:db8::9, 192.0.2.9 -> 192.0.2.9, 2001:db8::9");
}

static void
labels_are_noted_one_by_one(void **state)
{
	(void)state;
	rig_start_nodes(rig, 1);
	rig_put(rig, &(struct rig_node){
			     .name = "n1",
			     .labels = "\"beta.kubernetes.io/instance-type\":\"new\","
				       "\"node.kubernetes.io/instance-type\":\"old\","
				       "\"failure-domain.beta.kubernetes.io/zone\":\"z1\"" });
	rig_sync(rig);
	assert_string_equal(line_at(0), "change node \"n1\" 7: PATCH /api/v1/nodes/n1; "
	                                "label topology.kubernetes.io/zone:  -> z1; "
	                                "label node.kubernetes.io/instance-type: old -> new");
	assert_int_equal(count_writes(), 0);
}

static void
the_shutdown_taint_is_noted(void **state)
{
	struct guard_config guard = guard_defaults;

	(void)state;
	rig_start_lifecycle(rig, &guard);
	fake_cloud_set(rig->cloud, "off", MACHINE_OFF);
	rig_put(rig,
	        &(struct rig_node){
			.name = "off",
			.ready = "False",
			.taints = "{\"key\":\"k\",\"value\":\"v\",\"effect\":\"NoExecute\"}" });
	rig_put(rig, &(struct rig_node){ .name = "on", .taints = RIG_SHUTDOWN });
	rig_sync(rig);
	assert_int_equal(
		count_lines(
			"change node \"off\" 7: PATCH /api/v1/nodes/off; taint " NODE_TAINT_SHUTDOWN
			":  -> NoSchedule"),
		1);
	assert_int_equal(
		count_lines(
			"change node \"on\" 7: PATCH /api/v1/nodes/on; taint " NODE_TAINT_SHUTDOWN
			": NoSchedule -> "),
		1);
	assert_int_equal(count_writes(), 0);
}

/* The guard takes its time, and counts each deletion once, although the node stays. */
static void
deletions_are_noted_after_the_proof(void **state)
{
	struct guard_config guard = guard_defaults;
	const char *line = "delete node \"gone\" 7: DELETE /api/v1/nodes/gone";

	(void)state;
	rig_start_lifecycle(rig, &guard);
	fake_cloud_name_prefix(rig->cloud);
	fake_cloud_set(rig->cloud, "a", MACHINE_ON);
	rig_put(rig, &(struct rig_node){ .name = "a", .provider_id = "fake://a" });
	rig_put(rig, &(struct rig_node){
			     .name = "gone", .provider_id = "fake://gone", .ready = "False" });
	rig_sync(rig);
	rig_run(rig, 11);
	assert_int_equal(count_lines(line), 0);
	rig_run(rig, 5);
	assert_true(count_lines(line) > 0);
	rig_run(rig, 600);
	assert_int_equal(count_lines(line), seen.n);
	assert_int_equal(count_writes(), 0);
}

static void
what_becomes_of_a_service_is_noted(void **state)
{
	(void)state;
	rig_start_services(rig, 1, /*selects=*/false);
	fake_services_put(rig->services, &(struct fake_service){ .name = "web" });
	rig_sync_services(rig);
	assert_string_equal(
		line_at(0),
		"change service \"default/web\" 101: PATCH /api/v1/namespaces/default/services/web/status; "
		"finalizer:  -> " SERVICE_FINALIZER);
	assert_string_equal(
		line_at(1),
		"change service \"default/web\" 101: PATCH /api/v1/namespaces/default/services/web/status; "
		"status ingress:  -> 192.0.2.1");
	assert_int_equal(count_writes(), 0);
}

static void
the_release_of_a_service_is_noted(void **state)
{
	(void)state;
	rig_start_services(rig, 1, /*selects=*/false);
	fake_services_put(rig->services, &(struct fake_service){ .name = "web",
	                                                         .type = "ClusterIP",
	                                                         .finalizers = SERVICE_FINALIZER });
	fake_services_set_status(
		rig->services, "web",
		"[{\"ip\":\"192.0.2.1\",\"ipMode\":\"Proxy\"},{\"hostname\":\"h\"}]");
	rig_sync_services(rig);
	assert_string_equal(
		line_at(0),
		"change service \"default/web\" 102: PATCH /api/v1/namespaces/default/services/web/status; "
		"finalizer: " SERVICE_FINALIZER " -> ; status ingress: 192.0.2.1 (Proxy) -> ; "
		"status ingress: h -> ");
	assert_int_equal(count_writes(), 0);
}

/* Each run notes the same changes again. That does not make removals look like too many. */
static void
routes_and_conditions_are_noted(void **state)
{
	(void)state;
	rig_start_routes(rig, 10, (struct fake_routes_config){ .families = 1 });
	fake_routes_add(rig->routes, (struct route){ .name = STR("r1"),
	                                             .destination_cidr = STR("10.244.9.0/24") });
	rig_put(rig, &(struct rig_node){ .name = "a", .pod_cidrs = "\"10.244.1.0/24\"" });
	rig_sync(rig);
	rig_run(rig, 100);
	assert_int_equal(
		count_lines("create route \"10.244.1.0/24\" 7: create route; target:  -> a"), 10);
	assert_int_equal(
		count_lines("delete route \"10.244.9.0/24\" : remove route; target: r1 -> "), 10);
	assert_true(count_lines("change node \"a\" 7: PATCH /api/v1/nodes/a/status; condition "
	                        "NetworkUnavailable:  -> False (RouteCreated)") > 0);
	assert_int_equal(count_writes(), 0);
	assert_int_equal(fake_routes_calls(rig->routes, "create") +
	                         fake_routes_calls(rig->routes, "remove"),
	                 0);
}

static void
members_that_stay_are_not_noted(void **state)
{
	struct dry_item item = { .run = &seen.run, .kind = "node" };
	struct node *node = rig_parse(
		rig, &(struct rig_node){ .name = "n1",
	                                 .labels = "\"a\":\"1\",\"b\":\"2\"",
	                                 .taints = "{\"key\":\"k\",\"effect\":\"NoExecute\","
	                                           "\"timeAdded\":\"2026-01-01T00:00:00Z\"}" });

	(void)state;
	rig->call.dry = &item;
	dry_write_node(&rig->call, node, STR("/api/v1/nodes/n1"),
	               STR("{\"metadata\":{\"labels\":{\"a\":\"1\",\"b\":null}},"
	                   "\"spec\":{\"taints\":[{\"key\":\"k\",\"effect\":\"NoExecute\"}]}}"));
	assert_string_equal(line_at(0),
	                    "change node \"n1\" 7: PATCH /api/v1/nodes/n1; label b: 2 -> ; "
	                    "taint k: NoExecute since 2026-01-01T00:00:00Z -> NoExecute");
	object_unref(&node->object);
}

/* ---- the first runs ---- */

static bool
is_settled(unsigned parts)
{
	struct error err;

	return settling_wait(rig->env.settling, parts, clock_mono(rig->clock), &err);
}

/* A look that fails ends the first run as well. */
static void
every_loop_reports_the_end_of_its_first_run(void **state)
{
	struct guard_config guard = guard_defaults;

	(void)state;
	fake_cloud_fail(rig->cloud, ERR_UNAVAILABLE);
	rig_start_nodes(rig, 1);
	rig_start_lifecycle(rig, &guard);
	rig_start_services(rig, 1, /*selects=*/false);
	rig_start_routes(rig, 10, (struct fake_routes_config){ .families = 1 });
	rig_put(rig, &(struct rig_node){ .name = "a", .ready = "False" });
	assert_false(is_settled(SETTLING_ADDRESSES));
	assert_false(is_settled(SETTLING_LIFECYCLE));
	assert_false(is_settled(SETTLING_ADOPTION));
	assert_false(is_settled(SETTLING_ROUTES));
	rig_sync_services(rig);
	rig_run(rig, 1);
	assert_true(is_settled(SETTLING_ADDRESSES));
	assert_true(is_settled(SETTLING_LIFECYCLE));
	assert_true(is_settled(SETTLING_ADOPTION));
	assert_true(is_settled(SETTLING_ROUTES));
}

static void
the_end_of_the_wait_says_what_is_missing(void **state)
{
	struct error err;

	(void)state;
	settling_note(rig->env.settling, SETTLING_LIFECYCLE);
	assert_false(settling_wait(rig->env.settling, SETTLING_LIFECYCLE | SETTLING_ROUTES,
	                           clock_mono(rig->clock), &err));
	assert_int_equal(err.code, ERR_TIMEOUT);
	assert_string_equal(err.msg, "compare the routes: not done in time");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_initialisation_of_a_node_is_noted),
		TEST(another_order_of_addresses_is_noted),
		TEST(labels_are_noted_one_by_one),
		TEST(the_shutdown_taint_is_noted),
		TEST(deletions_are_noted_after_the_proof),
		TEST(what_becomes_of_a_service_is_noted),
		TEST(the_release_of_a_service_is_noted),
		TEST(routes_and_conditions_are_noted),
		TEST(members_that_stay_are_not_noted),
		TEST(a_node_whose_machine_is_not_found_is_reported),
		TEST(a_look_that_fails_is_reported_for_each_node_that_is_not_ready),
		TEST(a_held_service_is_reported),
		TEST(a_route_table_that_cannot_be_listed_is_reported),
		TEST(every_loop_reports_the_end_of_its_first_run),
		TEST(the_end_of_the_wait_says_what_is_missing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
