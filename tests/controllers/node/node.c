/* What is written to a new node, in which order, and what is kept right afterwards. */
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/thread.h"
#include "controllers/node_errors.h"
#include "controllers/pace.h"
#include "controllers/rig.h"

#define PATH "/api/v1/nodes/a"

static const struct address internal[] = { { STR("InternalIP"), STR("10.0.0.1") } };
static const struct address moved[] = { { STR("InternalIP"), STR("10.0.0.9") } };
static const struct label pool[] = { { STR("example.com/pool"), STR("one") } };

/* Everything that a cloud can say. */
static const struct fake_machine machine = {
	.presence = PRESENCE_PRESENT,
	.power = POWER_ON,
	.type = "t1",
	.zone = "z1",
	.region = "r1",
	.addresses = internal,
	.n_addresses = 1,
	.labels = pool,
	.n_labels = 1,
};

#define HOSTNAME "{\"type\":\"Hostname\",\"address\":\"a\"}"
#define INTERNAL "{\"type\":\"InternalIP\",\"address\":\"10.0.0.1\"}"

/* As a kubelet registers itself. */
static const struct rig_node fresh = { .name = "a",
	                               .taints = RIG_UNINITIALIZED,
	                               .addresses = HOSTNAME };

/* As it is afterwards. */
static const struct rig_node done = {
	.name = "a",
	.version = "2000",
	.provider_id = "fake://a",
	.addresses = INTERNAL "," HOSTNAME,
};

#define ALL_LABELS                                                                                              \
	"\"labels\":{\"failure-domain.beta.kubernetes.io/zone\":\"z1\",\"topology.kubernetes.io/zone\":\"z1\"," \
	"\"failure-domain.beta.kubernetes.io/region\":\"r1\",\"topology.kubernetes.io/region\":\"r1\","         \
	"\"beta.kubernetes.io/instance-type\":\"t1\",\"node.kubernetes.io/instance-type\":\"t1\","              \
	"\"example.com/pool\":\"one\"}"

/* The two writes, by what they were computed from. */
#define ADDRESSES_OF(version)                                           \
	"{\"metadata\":{\"uid\":\"u-a\",\"resourceVersion\":\"" version \
	"\"},\"status\":{\"addresses\":[" INTERNAL "," HOSTNAME "]}}"
#define REST_OF(version, spec)                                                           \
	"{\"metadata\":{\"uid\":\"u-a\",\"resourceVersion\":\"" version "\"," ALL_LABELS \
	"},\"spec\":{" spec "}}"
#define PROVIDER_ID "\"providerID\":\"fake://a\""

static struct rig *rig;

static int
set_up(void **state)
{
	(void)state;
	rig = rig_new();
	rig_start_nodes(rig, 1);
	fake_cloud_set(rig->cloud, "a", machine);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	rig_free(rig);
	return 0;
}

static void
begin_with(const struct rig_node *node)
{
	rig_put(rig, node);
	rig_sync(rig);
}

static size_t
n_patches(void)
{
	return fake_api_count(rig->api, HTTP_PATCH, "/api/v1/nodes/");
}

static void
assert_patch(size_t i, const char *target, const char *body)
{
	const struct api_request *r = fake_api_nth(rig->api, HTTP_PATCH, "/api/v1/nodes/", i);

	assert_string_equal(r->target, target);
	assert_string_equal(r->body, body);
}

static void
assert_no_patch(void)
{
	assert_int_equal(n_patches(), 0);
}

static void
conflict_once(const char *target, const struct rig_node *live)
{
	fake_api_rule(rig->api,
	              (struct api_rule){
			      .method = HTTP_PATCH, .part = target, .times = 1, .status = 409 });
	fake_api_rule(rig->api, (struct api_rule){ .method = HTTP_GET,
	                                           .part = PATH,
	                                           .status = 200,
	                                           .body = rig_json(rig, live) });
}

static size_t
events(const char *reason)
{
	return fake_api_events(rig->api, reason, "a");
}

/* ---- initialisation ---- */

static void
addresses_come_first_then_all_the_rest(void **state)
{
	(void)state;
	begin_with(&fresh);
	assert_int_equal(n_patches(), 2);
	assert_patch(0, PATH "/status", ADDRESSES_OF("7"));
	assert_patch(1, PATH, REST_OF("1001", PROVIDER_ID ",\"taints\":null"));
	assert_int_equal(fake_api_count(rig->api, HTTP_GET, NULL), 0);
	assert_int_equal(fake_cloud_looks(rig->cloud), 1);
	assert_int_equal(events("Synced"), 1);
}

static void
a_node_that_appears_later_is_initialised_too(void **state)
{
	(void)state;
	rig_sync(rig);
	assert_no_patch();
	rig_put(rig, &fresh);
	rig_settle(rig);
	assert_int_equal(n_patches(), 2);
}

static void
nothing_happens_before_the_first_list(void **state)
{
	(void)state;
	rig_put(rig, &fresh);
	rig_settle(rig);
	assert_no_patch();
	assert_int_equal(fake_cloud_looks(rig->cloud), 0);
}

static void
one_write_does_where_addresses_match(void **state)
{
	struct rig_node node = fresh;

	(void)state;
	node.addresses = HOSTNAME "," INTERNAL;
	begin_with(&node);
	assert_int_equal(n_patches(), 1);
	assert_patch(0, PATH, REST_OF("7", PROVIDER_ID ",\"taints\":null"));
}

static void
a_provider_id_is_not_written_over(void **state)
{
	struct rig_node node = fresh;

	(void)state;
	node.provider_id = "other://b";
	begin_with(&node);
	assert_patch(1, PATH, REST_OF("1001", "\"taints\":null"));
}

#define TAINT_A \
	"{\"key\":\"a\",\"value\":\"1\",\"effect\":\"NoExecute\",\"timeAdded\":\"2026-01-01T00:00:00Z\"}"
#define TAINT_B \
	"{\"effect\":\"NoSchedule\",\"key\":\"b/c\",\"future\":{\"deep\":[1,true,null,\"\\\"\"]}}"
#define UNINITIALIZED_TOO \
	"{\"key\":\"node.cloudprovider.kubernetes.io/uninitialized\",\"effect\":\"NoExecute\"}"

static void
other_taints_are_kept_as_they_are(void **state)
{
	struct rig_node node = fresh;

	(void)state;
	node.taints = TAINT_A "," RIG_UNINITIALIZED "," TAINT_B "," UNINITIALIZED_TOO;
	begin_with(&node);
	assert_patch(1, PATH, REST_OF("1001", PROVIDER_ID ",\"taints\":[" TAINT_A "," TAINT_B "]"));
}

static void
the_key_of_the_taint_alone_decides(void **state)
{
#define KEY "{\"key\":\"node.cloudprovider.kubernetes.io/uninitialized\","
	static const char *const taints[] = { KEY "\"value\":\"false\",\"effect\":\"NoSchedule\"}",
		                              KEY
		                              "\"value\":\"x\",\"effect\":\"PreferNoSchedule\"}",
		                              UNINITIALIZED_TOO };

	for (size_t i = 0; i < ARRAY_LEN(taints); i++) {
		struct rig_node node = fresh;

		if (i > 0) {
			tear_down(state);
			set_up(state);
		}
		node.taints = taints[i];
		begin_with(&node);
		assert_patch(1, PATH, REST_OF("1001", PROVIDER_ID ",\"taints\":null"));
	}
}

static void
a_machine_without_addresses_leaves_those_of_the_kubelet(void **state)
{
	struct fake_machine bare = machine;

	(void)state;
	bare.n_addresses = 0;
	fake_cloud_set(rig->cloud, "a", bare);
	begin_with(&fresh);
	assert_int_equal(n_patches(), 1);
	assert_patch(0, PATH, REST_OF("7", PROVIDER_ID ",\"taints\":null"));
}

static void
labels_that_are_right_are_not_sent(void **state)
{
	struct rig_node node = fresh;

	(void)state;
	node.labels =
		"\"failure-domain.beta.kubernetes.io/zone\":\"z1\",\"topology.kubernetes.io/zone\":\"z1\","
		"\"failure-domain.beta.kubernetes.io/region\":\"r1\",\"topology.kubernetes.io/region\":\"r1\","
		"\"beta.kubernetes.io/instance-type\":\"t1\",\"node.kubernetes.io/instance-type\":\"t1\","
		"\"example.com/pool\":\"two\"";
	begin_with(&node);
	assert_patch(
		1, PATH,
		"{\"metadata\":{\"uid\":\"u-a\",\"resourceVersion\":\"1001\"},\"spec\":{" PROVIDER_ID
		",\"taints\":null}}");
}

static void
an_address_that_the_cloud_does_not_know_stops_it(void **state)
{
	struct rig_node node = fresh;

	(void)state;
	node.annotations = "\"alpha.kubernetes.io/provided-node-ip\":\"10.0.0.2\"";
	begin_with(&node);
	rig_run(rig, 2 * RIG_REFRESH_S);
	assert_no_patch();
	assert_int_equal(events("FailedToInitializeNode"), 1);
	assert_non_null(strstr(fake_api_last_event(rig->api, "FailedToInitializeNode"),
	                       "10.0.0.2"));
}

/* Until the store has heard of our write, the node looks as if nothing had been done. */
static void
what_was_just_written_is_not_written_again(void **state)
{
	struct rig_node node = fresh;

	(void)state;
	begin_with(&fresh);
	node.labels = "\"noise\":\"1\"";
	node.version = "8";
	rig_put(rig, &node);
	rig_run(rig, 20);
	assert_int_equal(n_patches(), 2);
	rig_put(rig, &done);
	rig_run(rig, 20);
	assert_int_equal(n_patches(), 2);
	assert_int_equal(events("Synced"), 1);
}

/* The API server's data was restored: the versions of our writes are gone, and the node is older.
 */
static void
a_write_that_never_appears_is_forgotten(void **state)
{
	struct rig_node node = fresh;

	(void)state;
	begin_with(&fresh);
	rig_run(rig, 59);
	node.labels = "\"noise\":\"1\"";
	node.version = "8";
	rig_put(rig, &node);
	rig_settle(rig);
	assert_int_equal(n_patches(), 2);
	rig_run(rig, 2);
	node.labels = "\"noise\":\"2\"";
	node.version = "9";
	rig_put(rig, &node);
	rig_run(rig, 1);
	assert_int_equal(n_patches(), 4);
}

static void
what_was_written_says_nothing_about_another_node_of_that_name(void **state)
{
	struct rig_node node = fresh;

	(void)state;
	begin_with(&fresh);
	node.uid = "u-2";
	node.version = "8";
	rig_put(rig, &node);
	rig_settle(rig);
	assert_int_equal(n_patches(), 4);
}

/* Somebody put the taint back: that is a node to initialise again. */
static void
a_taint_that_comes_back_is_taken_off_again(void **state)
{
	struct rig_node node = done;

	(void)state;
	begin_with(&fresh);
	rig_put(rig, &done);
	rig_settle(rig);
	node.version = "2001";
	node.taints = RIG_UNINITIALIZED;
	rig_put(rig, &node);
	rig_settle(rig);
	assert_int_equal(n_patches(), 3);
	assert_patch(2, PATH, REST_OF("2001", "\"taints\":null"));
}

static const char *
numbered(int i)
{
	return arena_printf(&rig->arena, "node-%d", i).ptr;
}

static void
many_nodes_cost_few_looks(void **state)
{
	(void)state;
	rig_free(rig);
	rig = rig_new();
	rig_start_nodes(rig, 8);
	for (int i = 0; i < 50; i++) {
		struct rig_node node = fresh;

		node.name = numbered(i);
		fake_cloud_set(rig->cloud, node.name, machine);
		rig_put(rig, &node);
	}
	rig_sync(rig);
	assert_int_equal(n_patches(), 100);
	assert_in_range(fake_cloud_looks(rig->cloud), 1, 2);
}

/* ---- others write, too ---- */

static void
a_conflict_in_the_first_write(void **state)
{
	struct rig_node live = fresh;

	(void)state;
	live.version = "9";
	live.taints = RIG_UNINITIALIZED "," TAINT_A;
	conflict_once(PATH "/status", &live);
	begin_with(&fresh);
	assert_int_equal(n_patches(), 1);
	rig_advance_ms(rig, 100);
	assert_int_equal(n_patches(), 3);
	assert_patch(0, PATH "/status", ADDRESSES_OF("7"));
	assert_patch(1, PATH "/status", ADDRESSES_OF("9"));
	assert_patch(2, PATH, REST_OF("1001", PROVIDER_ID ",\"taints\":[" TAINT_A "]"));
	assert_int_equal(fake_api_count(rig->api, HTTP_GET, PATH), 1);
	assert_int_equal(events("Synced"), 1);
}

/* Addresses are written by then, and a taint was added meanwhile. */
static void
a_conflict_in_the_second_write(void **state)
{
	struct rig_node live = fresh;

	(void)state;
	live.version = "1005";
	live.addresses = INTERNAL "," HOSTNAME;
	live.taints = RIG_UNINITIALIZED "," TAINT_B;
	fake_api_rule(rig->api, (struct api_rule){ .method = HTTP_PATCH,
	                                           .part = PATH "/status",
	                                           .times = 1,
	                                           .status = 200 });
	conflict_once(PATH, &live);
	begin_with(&fresh);
	rig_advance_ms(rig, 100);
	assert_int_equal(n_patches(), 3);
	assert_patch(0, PATH "/status", ADDRESSES_OF("7"));
	assert_patch(1, PATH, REST_OF("1001", PROVIDER_ID ",\"taints\":null"));
	assert_patch(2, PATH, REST_OF("1005", PROVIDER_ID ",\"taints\":[" TAINT_B "]"));
	assert_int_equal(fake_cloud_looks(rig->cloud), 1);
}

static void
somebody_else_initialised_it(void **state)
{
	(void)state;
	conflict_once(PATH "/status", &done);
	begin_with(&fresh);
	rig_run(rig, 2);
	assert_int_equal(n_patches(), 1);
	assert_int_equal(events("Synced"), 0);
}

static void
a_node_that_goes_meanwhile_is_no_failure(void **state)
{
	(void)state;
	fake_api_rule(rig->api,
	              (struct api_rule){ .method = HTTP_PATCH, .part = PATH, .status = 404 });
	begin_with(&fresh);
	rig_remove(rig, "a");
	rig_run(rig, 10);
	assert_int_equal(n_patches(), 1);
	assert_int_equal(events("Synced"), 0);
}

static void
a_server_that_fails_is_tried_again(void **state)
{
	(void)state;
	fake_api_rule(rig->api,
	              (struct api_rule){
			      .method = HTTP_PATCH, .part = PATH, .times = 2, .status = 500 });
	begin_with(&fresh);
	assert_int_equal(n_patches(), 1);
	rig_advance_ms(rig, 140); /* 100 ms and up to two fifths */
	assert_int_equal(n_patches(), 2);
	rig_advance_ms(rig, 280);
	assert_int_equal(n_patches(), 4);
	assert_patch(3, PATH, REST_OF("1001", PROVIDER_ID ",\"taints\":null"));
	assert_int_equal(events("FailedToInitializeNode"), 0);
}

/* ---- machines that are not there ---- */

static void
begin_without_machine(enum presence presence, enum err_code code)
{
	fake_cloud_set(rig->cloud, "a",
	               (struct fake_machine){ .presence = presence, .error_code = code });
	begin_with(&fresh);
	rig_run(rig, 60);
	assert_no_patch();
	assert_in_range(fake_cloud_looks(rig->cloud), 6, 12); /* 100 ms, doubling */
}

static void
an_absent_machine_is_waited_for(void **state)
{
	(void)state;
	begin_without_machine(PRESENCE_ABSENT, ERR_NONE);
	rig_assert_metric(rig, "ccmd_nodes_uninitialized", 1);
	rig_assert_metric(rig, "ccmd_nodes_uninitialized_oldest_seconds", 3600 + 60);
	assert_int_equal(events("FailedToInitializeNode"), 1);
	assert_int_equal(fake_api_count(rig->api, HTTP_PATCH, "/events/"), 0);
}

/* A cloud may list a machine a moment after its kubelet has registered. */
static void
a_machine_that_comes_a_moment_late_makes_no_event(void **state)
{
	struct rig_node node = fresh;

	(void)state;
	node.age_s = 1;
	fake_cloud_set(rig->cloud, "a", MACHINE_GONE);
	begin_with(&node);
	rig_run(rig, 20);
	fake_cloud_set(rig->cloud, "a", MACHINE_ON);
	rig_run(rig, 30);
	assert_in_range(fake_api_count(rig->api, HTTP_PATCH, PATH), 1, 10);
	assert_int_equal(events("FailedToInitializeNode"), 0);
}

static void
a_machine_that_does_not_come_makes_one_event(void **state)
{
	struct rig_node node = fresh;

	(void)state;
	node.age_s = 1;
	fake_cloud_set(rig->cloud, "a", MACHINE_GONE);
	begin_with(&node);
	rig_run(rig, 28);
	assert_int_equal(events("FailedToInitializeNode"), 0);
	rig_run(rig, 60);
	assert_int_equal(events("FailedToInitializeNode"), 1);
}

/* The creation time is from another machine's clock. If that is far off, the node's age says
 * nothing. */
static void
a_node_from_the_future_is_not_young_for_long(void **state)
{
	struct rig_node node = fresh;

	(void)state;
	node.age_s = -3600;
	fake_cloud_set(rig->cloud, "a", MACHINE_GONE);
	begin_with(&node);
	assert_int_equal(events("FailedToInitializeNode"), 1);
}

static void
what_people_must_fix_is_reported_on_a_young_node_too(void **state)
{
	struct rig_node node = fresh;

	(void)state;
	fake_cloud_set(rig->cloud, "a",
	               (struct fake_machine){ .presence = PRESENCE_UNKNOWN,
	                                      .error_code = ERR_INVALID });
	node.age_s = 1;
	begin_with(&node);
	assert_int_equal(events("FailedToInitializeNode"), 1);
}

static void
a_foreign_machine_is_never_written(void **state)
{
	(void)state;
	begin_without_machine(PRESENCE_FOREIGN, ERR_INVALID);
	assert_int_equal(events("FailedToInitializeNode"), 1);
	assert_int_equal(fake_api_count(rig->api, HTTP_PATCH, "/events/"), 0);
}

/* Nobody needs to mend anything. */
static void
an_unknown_machine_is_asked_for_again_in_silence(void **state)
{
	(void)state;
	begin_without_machine(PRESENCE_UNKNOWN, ERR_UNAVAILABLE);
	assert_int_equal(events("FailedToInitializeNode"), 0);
}

/* Such as an answer that the provider does not understand. */
static void
a_failure_that_lasts_makes_one_event(void **state)
{
	(void)state;
	begin_without_machine(PRESENCE_UNKNOWN, ERR_UNAVAILABLE);
	assert_int_equal(events("FailedToInitializeNode"), 0);
	rig_run(rig, 180);
	assert_int_equal(events("FailedToInitializeNode"), 1);
	rig_run(rig, 600);
	assert_int_equal(events("FailedToInitializeNode"), 1);
}

/* Neither of them says when to come back, and neither may be asked for without a pause. */
static void
pending_and_throttled_machines_do_not_spin(void **state)
{
	(void)state;
	begin_without_machine(PRESENCE_UNKNOWN, ERR_PENDING);
	fake_cloud_set(rig->cloud, "a", machine);
	rig_run(rig, 120);
	assert_int_equal(n_patches(), 2);
}

static void
a_throttled_machine_is_requested_again(void **state)
{
	(void)state;
	begin_without_machine(PRESENCE_UNKNOWN, ERR_THROTTLED);
	fake_cloud_set(rig->cloud, "a", machine);
	rig_run(rig, 120);
	assert_int_equal(n_patches(), 2);
}

static void
a_look_that_fails_is_made_again(void **state)
{
	(void)state;
	fake_cloud_fail(rig->cloud, ERR_UNAUTHORIZED);
	begin_with(&fresh);
	rig_run(rig, 60);
	assert_no_patch();
	assert_in_range(fake_cloud_looks(rig->cloud), 6, 12);
	assert_int_equal(events("FailedToInitializeNode"), 1); /* a token is for people to mend */
	fake_cloud_fail(rig->cloud, ERR_NONE);
	rig_run(rig, 150); /* 102.4 s and up to two fifths */
	assert_int_equal(n_patches(), 2);
}

static void
a_machine_that_appears_is_found_at_the_next_retry(void **state)
{
	(void)state;
	begin_without_machine(PRESENCE_ABSENT, ERR_NONE);
	fake_cloud_set(rig->cloud, "a", machine);
	rig_settle(rig);
	assert_no_patch();
	rig_run(rig, 150);
	assert_int_equal(n_patches(), 2);
	assert_int_equal(events("Synced"), 1);
}

static void
a_machine_that_appears_is_found_when_woken(void **state)
{
	(void)state;
	begin_without_machine(PRESENCE_ABSENT, ERR_NONE);
	fake_cloud_set(rig->cloud, "a", machine);
	node_controller_wake(rig->nodes);
	rig_settle(rig);
	assert_int_equal(n_patches(), 2);
}

static void
retries_come_at_least_every_five_minutes(void **state)
{
	size_t before;

	(void)state;
	begin_without_machine(PRESENCE_ABSENT, ERR_NONE);
	rig_run(rig, 1200);
	for (int i = 0; i < 3; i++) {
		before = fake_cloud_looks(rig->cloud);
		rig_run(rig, 301);
		assert_in_range(fake_cloud_looks(rig->cloud) - before, 1, 2);
	}
}

/* ---- afterwards ---- */

static void
ga_labels_follow_the_beta_ones(void **state)
{
	struct rig_node node = done;

	(void)state;
	node.labels =
		"\"failure-domain.beta.kubernetes.io/zone\":\"z2\",\"topology.kubernetes.io/zone\":\"z1\","
		"\"beta.kubernetes.io/instance-type\":\"t2\",\"topology.kubernetes.io/region\":\"r1\"";
	begin_with(&node);
	assert_int_equal(n_patches(), 1);
	assert_patch(
		0, PATH,
		"{\"metadata\":{\"uid\":\"u-a\",\"labels\":{\"topology.kubernetes.io/zone\":\"z2\","
		"\"node.kubernetes.io/instance-type\":\"t2\"}}}");
}

static void
labels_in_order_are_left_alone(void **state)
{
	struct rig_node node = done;

	(void)state;
	node.labels =
		"\"failure-domain.beta.kubernetes.io/zone\":\"z1\",\"topology.kubernetes.io/zone\":\"z1\"";
	begin_with(&node);
	node.labels =
		"\"failure-domain.beta.kubernetes.io/zone\":\"z1\",\"topology.kubernetes.io/zone\":\"z1\",\"x\":\"y\"";
	node.version = "2001";
	rig_put(rig, &node);
	rig_settle(rig);
	assert_no_patch();
}

#define NEW_ADDRESSES                                                                              \
	"{\"metadata\":{\"uid\":\"u-a\",\"resourceVersion\":\"2000\"},\"status\":{\"addresses\":[" \
	"{\"type\":\"InternalIP\",\"address\":\"10.0.0.9\"}," HOSTNAME "]}}"

static void
move_machine(void)
{
	struct fake_machine m = machine;

	m.addresses = moved;
	fake_cloud_set(rig->cloud, "a", m);
}

static void
addresses_are_compared_at_the_start(void **state)
{
	(void)state;
	move_machine();
	begin_with(&done);
	assert_int_equal(n_patches(), 1);
	assert_patch(0, PATH "/status", NEW_ADDRESSES);
	assert_int_equal(fake_cloud_looks(rig->cloud), 1);
}

static void
addresses_are_compared_every_few_minutes(void **state)
{
	(void)state;
	begin_with(&done);
	move_machine();
	rig_run(rig, RIG_REFRESH_S - 1);
	assert_no_patch();
	rig_run(rig, 1);
	assert_int_equal(n_patches(), 1);
	assert_patch(0, PATH "/status", NEW_ADDRESSES);
	assert_int_equal(fake_cloud_looks(rig->cloud), 2);
}

static void
equal_addresses_are_not_written(void **state)
{
	(void)state;
	begin_with(&done);
	rig_run(rig, 3 * RIG_REFRESH_S);
	assert_no_patch();
	assert_int_equal(fake_cloud_looks(rig->cloud), 4);
}

/* The first look only. */
static bool
refuse_once(void *arg, struct look *look, struct error *err)
{
	bool *was_refused = arg;

	(void)look;
	if (*was_refused)
		return true;
	*was_refused = true;
	return err_later(err, ERR_THROTTLED, 40000, "the rate limit is nearly used up");
}

static void
addresses_are_compared_when_the_rate_limit_permits(void **state)
{
	bool was_refused = false;

	(void)state;
	fake_cloud_mood(rig->cloud, refuse_once, &was_refused);
	move_machine();
	begin_with(&done);
	assert_true(was_refused);
	rig_run(rig, 39);
	assert_no_patch();
	rig_run(rig, 1);
	assert_int_equal(n_patches(), 1);
	assert_patch(0, PATH "/status", NEW_ADDRESSES);
}

/* Status is never written from a failed read; nor is anything taken away because a machine seems
 * absent. */
static void
addresses_stay_when_the_machine_cannot_be_found(void **state)
{
	static const enum presence presences[] = { PRESENCE_ABSENT, PRESENCE_UNKNOWN,
		                                   PRESENCE_FOREIGN };

	(void)state;
	begin_with(&done);
	for (size_t i = 0; i < ARRAY_LEN(presences); i++) {
		fake_cloud_set(rig->cloud, "a",
		               (struct fake_machine){ .presence = presences[i],
		                                      .error_code = ERR_INTERNAL });
		rig_run(rig, RIG_REFRESH_S);
	}
	fake_cloud_fail(rig->cloud, ERR_UNAVAILABLE);
	rig_run(rig, RIG_REFRESH_S);
	fake_cloud_fail(rig->cloud, ERR_NONE);
	fake_cloud_set(rig->cloud, "a", MACHINE_ON); /* without any address */
	rig_run(rig, RIG_REFRESH_S);
	assert_no_patch();
}

/* Runs a comparison, and says whether the log has its failure. */
static bool
a_comparison_fails(void)
{
	int fd = memfd_create("log", MFD_CLOEXEC);
	char log[16384] = { 0 };

	log_set_fd(fd);
	rig_run(rig, RIG_REFRESH_S);
	log_set_fd(STDERR_FILENO);
	assert_true(pread(fd, log, sizeof(log) - 1, 0) >= 0);
	close(fd);
	return strstr(log, "addresses cannot be refreshed, will retry") != NULL;
}

static void
a_look_that_fails_is_logged_and_made_again(void **state)
{
	(void)state;
	begin_with(&done);
	fake_cloud_fail(rig->cloud, ERR_UNAUTHORIZED);
	assert_true(a_comparison_fails());
	assert_no_patch();
	fake_cloud_fail(rig->cloud, ERR_NONE);
	move_machine();
	assert_false(a_comparison_fails());
	assert_patch(0, PATH "/status", NEW_ADDRESSES);
}

/* As `ccmd explain` shows it. */
static bool
has_failed_comparison(void)
{
	struct node_error found;

	return node_errors_get(rig->env.node_errors, NODE_WORK_ADDRESSES, STR("a"), &rig->arena,
	                       &found);
}

static void
twins_are_no_failure_of_the_comparison(void **state)
{
	struct rig_node twin = done;

	(void)state;
	twin.name = "b";
	rig_put(rig, &twin);
	begin_with(&done);
	move_machine();
	rig_run(rig, RIG_REFRESH_S);
	assert_no_patch();
	assert_int_equal(events("DuplicateProviderID"), 1);
	assert_false(has_failed_comparison());
	rig_remove(rig, "b");
	fake_cloud_set(rig->cloud, "a",
	               (struct fake_machine){ .presence = PRESENCE_UNKNOWN,
	                                      .error_code = ERR_UNAVAILABLE });
	rig_run(rig, RIG_REFRESH_S);
	assert_true(has_failed_comparison());
}

static void
a_conflict_in_the_refresh(void **state)
{
	struct rig_node live = done;

	(void)state;
	live.version = "2005";
	conflict_once(PATH "/status", &live);
	move_machine();
	begin_with(&done);
	rig_advance_ms(rig, 200);
	assert_int_equal(n_patches(), 2);
	assert_non_null(strstr(fake_api_nth(rig->api, HTTP_PATCH, PATH, 1)->body,
	                       "\"resourceVersion\":\"2005\""));
}

/* Between the comparison and the write somebody else did it. */
static void
a_refresh_that_is_not_needed_any_more(void **state)
{
	struct rig_node live = done;

	(void)state;
	live.version = "2005";
	live.addresses = "{\"type\":\"InternalIP\",\"address\":\"10.0.0.9\"}," HOSTNAME;
	conflict_once(PATH "/status", &live);
	move_machine();
	begin_with(&done);
	rig_run(rig, 5);
	assert_int_equal(n_patches(), 1);
}

/* ---- the end ---- */

static void
nothing_is_begun_after_a_stop(void **state)
{
	(void)state;
	rig_sync(rig);
	queue_shut_down(node_controller_queue(rig->nodes));
	rig_put(rig, &fresh);
	assert_true(queue_wait_idle(node_controller_queue(rig->nodes), CLOCK_FOREVER));
	assert_no_patch();
}

static void
what_runs_may_go_on_until_it_is_cancelled(void **state)
{
	(void)state;
	fake_api_rule(rig->api, (struct api_rule){ .method = HTTP_PATCH,
	                                           .part = PATH "/status",
	                                           .hangs = true });
	begin_with(&fresh);
	assert_int_equal(n_patches(), 1);
	queue_shut_down(node_controller_queue(rig->nodes));
	assert_false(queue_wait_idle(node_controller_queue(rig->nodes), clock_mono(rig->clock)));
	cancel_fire(rig->cancel);
	assert_true(queue_wait_idle(node_controller_queue(rig->nodes), CLOCK_FOREVER));
	assert_int_equal(n_patches(), 1);
	assert_int_equal(events("FailedToInitializeNode"), 0);
}

static void
a_look_ends_with_the_token(void **state)
{
	(void)state;
	fake_cloud_hold(rig->cloud);
	begin_with(&fresh);
	queue_shut_down(node_controller_queue(rig->nodes));
	cancel_fire(rig->cancel);
	assert_true(queue_wait_idle(node_controller_queue(rig->nodes), CLOCK_FOREVER));
	assert_no_patch();
}

/* For an hour, the node is shown every second as we leave it and as another client changes it. */
static void
fight(const struct rig_node *other)
{
	char version[16];

	for (int i = 0; i < 3600; i++) {
		struct rig_node node = i % 2 ? *other : done;

		(void)snprintf(version, sizeof(version), "%d", 100000 + i);
		node.version = version;
		rig_put(rig, &node);
		rig_run(rig, 1);
	}
}

static void
a_cloud_taint_that_comes_back_is_removed_less_and_less_often(void **state)
{
	struct rig_node node = done;

	(void)state;
	node.taints = RIG_UNINITIALIZED;
	rig_sync(rig);
	fight(&node);
	assert_in_range(fake_api_count(rig->api, HTTP_PATCH, PATH), 5, 2 * PACE_HOUR);
	assert_int_equal(events("Synced"), 1);
	assert_in_range(fake_cloud_looks(rig->cloud), 1, PACE_HOUR + 3600 / RIG_REFRESH_S + 1);
}

/* A table with an entry for each node that joins would cost 0.5 MB for 5,000 nodes. */
static void
the_first_initialisation_takes_no_memory(void **state)
{
	size_t n;

	(void)state;
	begin_with(&fresh);
	assert_int_equal(events("Synced"), 1);
	mutex_lock(&rig->env.paces->mu);
	n = rig->env.paces->all.count;
	mutex_unlock(&rig->env.paces->mu);
	assert_int_equal(n, 0);
}

static void
a_label_that_is_changed_back_is_written_less_and_less_often(void **state)
{
	struct rig_node node = done;

	(void)state;
	node.labels =
		"\"failure-domain.beta.kubernetes.io/zone\":\"z1\",\"topology.kubernetes.io/zone\":\"z2\"";
	rig_sync(rig);
	fight(&node);
	assert_in_range(fake_api_count(rig->api, HTTP_PATCH, PATH), 5, PACE_HOUR);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(addresses_come_first_then_all_the_rest),
		TEST(a_node_that_appears_later_is_initialised_too),
		TEST(nothing_happens_before_the_first_list),
		TEST(one_write_does_where_addresses_match),
		TEST(a_provider_id_is_not_written_over),
		TEST(other_taints_are_kept_as_they_are),
		TEST(the_key_of_the_taint_alone_decides),
		TEST(a_machine_without_addresses_leaves_those_of_the_kubelet),
		TEST(labels_that_are_right_are_not_sent),
		TEST(an_address_that_the_cloud_does_not_know_stops_it),
		TEST(what_was_just_written_is_not_written_again),
		TEST(a_write_that_never_appears_is_forgotten),
		TEST(what_was_written_says_nothing_about_another_node_of_that_name),
		TEST(a_taint_that_comes_back_is_taken_off_again),
		TEST(many_nodes_cost_few_looks),
		TEST(a_conflict_in_the_first_write),
		TEST(a_conflict_in_the_second_write),
		TEST(somebody_else_initialised_it),
		TEST(a_node_that_goes_meanwhile_is_no_failure),
		TEST(a_server_that_fails_is_tried_again),
		TEST(an_absent_machine_is_waited_for),
		TEST(a_machine_that_comes_a_moment_late_makes_no_event),
		TEST(a_machine_that_does_not_come_makes_one_event),
		TEST(a_node_from_the_future_is_not_young_for_long),
		TEST(what_people_must_fix_is_reported_on_a_young_node_too),
		TEST(a_foreign_machine_is_never_written),
		TEST(an_unknown_machine_is_asked_for_again_in_silence),
		TEST(a_failure_that_lasts_makes_one_event),
		TEST(pending_and_throttled_machines_do_not_spin),
		TEST(a_throttled_machine_is_requested_again),
		TEST(a_look_that_fails_is_made_again),
		TEST(a_machine_that_appears_is_found_at_the_next_retry),
		TEST(a_machine_that_appears_is_found_when_woken),
		TEST(retries_come_at_least_every_five_minutes),
		TEST(ga_labels_follow_the_beta_ones),
		TEST(labels_in_order_are_left_alone),
		TEST(addresses_are_compared_at_the_start),
		TEST(addresses_are_compared_every_few_minutes),
		TEST(equal_addresses_are_not_written),
		TEST(addresses_are_compared_when_the_rate_limit_permits),
		TEST(addresses_stay_when_the_machine_cannot_be_found),
		TEST(a_look_that_fails_is_logged_and_made_again),
		TEST(twins_are_no_failure_of_the_comparison),
		TEST(a_conflict_in_the_refresh),
		TEST(a_refresh_that_is_not_needed_any_more),
		TEST(nothing_is_begun_after_a_stop),
		TEST(what_runs_may_go_on_until_it_is_cancelled),
		TEST(a_look_ends_with_the_token),
		TEST(a_cloud_taint_that_comes_back_is_removed_less_and_less_often),
		TEST(the_first_initialisation_takes_no_memory),
		TEST(a_label_that_is_changed_back_is_written_less_and_less_often),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
