/* Nodes whose machine is off or gone: when the cloud is asked, and when a node is deleted. */
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "controllers/pace.h"
#include "controllers/rig.h"
#include "fake_clock.h"

static struct rig *rig;

static int
set_up(void **state)
{
	(void)state;
	rig = rig_new();
	rig_start_lifecycle(rig, &guard_defaults);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	rig_free(rig);
	return 0;
}

static const char *
id_of(const char *name)
{
	return arena_printf(&rig->arena, "fake://%s", name).ptr;
}

/* With a provider ID, an hour old. */
static struct rig_node
node_of_name(const char *name, const char *ready)
{
	return (struct rig_node){ .name = name, .provider_id = id_of(name), .ready = ready };
}

static void
put(const char *name, const char *ready)
{
	struct rig_node node = node_of_name(name, ready);

	rig_put(rig, &node);
}

/* A Ready node whose machine is there: a witness. */
static void
put_witness(const char *name)
{
	fake_cloud_set(rig->cloud, name, MACHINE_ON);
	put(name, "True");
}

/* The usual: node a is NotReady and its machine is gone, w is well. */
static void
begin_with_a_gone(void)
{
	put_witness("w");
	put("a", "Unknown");
	rig_sync(rig);
}

static size_t
looks(void)
{
	return fake_cloud_looks(rig->cloud);
}

static size_t
deletions(void)
{
	return fake_api_count(rig->api, HTTP_DELETE, "/api/v1/nodes/");
}

static size_t
deletions_of(const char *name)
{
	return fake_api_count(rig->api, HTTP_DELETE,
	                      arena_printf(&rig->arena, "/api/v1/nodes/%s", name).ptr);
}

static size_t
patches(void)
{
	return fake_api_count(rig->api, HTTP_PATCH, "/api/v1/nodes/");
}

static size_t
events(const char *reason)
{
	return fake_api_events(rig->api, reason, NULL);
}

static void
assert_told(const char *reason, const char *part)
{
	const char *text = fake_api_last_event(rig->api, reason);

	if (!strstr(text, part))
		fail_msg("%s\nis not in\n%s", part, text);
}

/* ---- when it looks ---- */

/* Since the first look. */
static void
assert_looked_at(size_t i, int64_t seconds)
{
	int64_t since_ns = fake_cloud_started_ns(rig->cloud, i) -
	                   fake_cloud_started_ns(rig->cloud, 0);

	assert_int_equal(since_ns / NS_PER_MS, seconds * MS_PER_SEC);
}

static void
ready_nodes_cost_nothing(void **state)
{
	(void)state;
	put_witness("a");
	put_witness("b");
	rig_sync(rig);
	rig_run(rig, 3600);
	assert_int_equal(looks(), 0);
	assert_int_equal(fake_api_count(rig->api, HTTP_GET, NULL), 0);
}

static void
looks_come_at_0_12_30_60_and_every_65_s(void **state)
{
	static const int64_t at_s[] = { 0, 12, 30, 60, 125, 190, 255 };

	(void)state;
	fake_cloud_set(rig->cloud, "a", MACHINE_ON);
	put_witness("w");
	put("a", "False");
	rig_sync(rig);
	rig_run(rig, 260);
	assert_int_equal(looks(), ARRAY_LEN(at_s));
	for (size_t i = 0; i < ARRAY_LEN(at_s); i++) {
		assert_looked_at(i, at_s[i]);
		assert_int_equal(fake_cloud_asked(rig->cloud, i), 1); /* no witness is needed */
	}
	assert_int_equal(deletions() + patches(), 0);
}

static void
an_hour_costs_sixty_looks(void **state)
{
	(void)state;
	fake_cloud_set(rig->cloud, "a", MACHINE_ON);
	put("a", "False");
	rig_sync(rig);
	rig_run(rig, 3600);
	assert_in_range(looks(), 55, 60);
}

static void
nodes_that_fail_together_share_their_looks(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) {
		const char *name = arena_printf(&rig->arena, "n%d", i).ptr;

		fake_cloud_set(rig->cloud, name, MACHINE_ON);
		put(name, "Unknown");
	}
	rig_sync(rig);
	rig_run(rig, 60);
	assert_int_equal(looks(), 4);
	assert_int_equal(fake_cloud_asked(rig->cloud, 3), 20);
}

static void
a_node_that_becomes_not_ready_is_looked_at_soon(void **state)
{
	(void)state;
	put_witness("a");
	rig_sync(rig);
	rig_run(rig, 600);
	put("a", "Unknown");
	rig_settle(rig);
	assert_int_equal(looks(), 1);
	put("a", "True");
	rig_run(rig, 600);
	assert_int_equal(looks(), 1);
	put("a", "Unknown"); /* the steps begin again */
	rig_run(rig, 13);
	assert_int_equal(looks(), 3);
}

static void
a_wake_up_looks_immediately(void **state)
{
	(void)state;
	fake_cloud_set(rig->cloud, "a", MACHINE_ON);
	put("a", "Unknown");
	rig_sync(rig);
	rig_run(rig, 70);
	assert_int_equal(looks(), 4);
	lifecycle_controller_wake(rig->lifecycle, LIFECYCLE_ALL_DUE);
	rig_settle(rig);
	assert_int_equal(looks(), 5);
}

/* ---- machines that are off ---- */

static void
a_machine_that_is_off_gets_the_taint(void **state)
{
	struct rig_node node = node_of_name("a", "Unknown");

	(void)state;
	fake_cloud_set(rig->cloud, "a", MACHINE_OFF);
	rig_put(rig, &node);
	rig_sync(rig);
	assert_int_equal(patches(), 1);
	assert_string_equal(
		fake_api_nth(rig->api, HTTP_PATCH, "/nodes/", 0)->body,
		"{\"metadata\":{\"uid\":\"u-a\",\"resourceVersion\":\"7\"},\"spec\":{\"taints\":[" RIG_SHUTDOWN
		"]}}");
	node.taints = RIG_SHUTDOWN;
	node.version = "2000";
	rig_put(rig, &node);
	rig_run(rig, 600);
	assert_int_equal(patches(), 1);
	assert_int_equal(deletions(), 0);
}

/* The node controller has not initialised it yet, e.g. because its addresses do not fit. */
static void
a_node_that_is_not_initialised_gets_the_taint_too(void **state)
{
	struct rig_node node = node_of_name("a", "Unknown");

	(void)state;
	node.taints = RIG_UNINITIALIZED;
	fake_cloud_set(rig->cloud, "a", MACHINE_OFF);
	rig_put(rig, &node);
	rig_sync(rig);
	assert_int_equal(patches(), 1);
	assert_non_null(strstr(fake_api_nth(rig->api, HTTP_PATCH, "/nodes/", 0)->body,
	                       "\"taints\":[" RIG_UNINITIALIZED "," RIG_SHUTDOWN "]"));
}

static void
the_taint_stays_while_not_ready_and_goes_with_ready(void **state)
{
	struct rig_node node = node_of_name("a", "Unknown");

	(void)state;
	fake_cloud_set(rig->cloud, "a", MACHINE_ON);
	node.taints = RIG_SHUTDOWN;
	rig_put(rig, &node);
	rig_sync(rig);
	rig_run(rig, 300);
	assert_int_equal(patches(), 0);
	node.ready = "True";
	node.version = "8";
	rig_put(rig, &node);
	rig_settle(rig);
	assert_int_equal(patches(), 1);
	assert_string_equal(
		fake_api_nth(rig->api, HTTP_PATCH, "/nodes/", 0)->body,
		"{\"metadata\":{\"uid\":\"u-a\",\"resourceVersion\":\"8\"},\"spec\":{\"taints\":null}}");
}

/* Another client adds the taint again every second, for an hour. */
static void
a_taint_that_comes_back_is_removed_less_and_less_often(void **state)
{
	struct rig_node node = node_of_name("a", "True");
	char version[16];

	(void)state;
	rig_put(rig, &node);
	rig_sync(rig);
	for (int i = 0; i < 3600; i++) {
		(void)snprintf(version, sizeof(version), "%d", 100000 + i);
		node.version = version;
		node.taints = i % 2 ? NULL : RIG_SHUTDOWN;
		rig_put(rig, &node);
		rig_run(rig, 1);
	}
	assert_in_range(patches(), 5, PACE_HOUR);
}

static void
a_node_whose_readiness_alternates_is_looked_at_no_more_often(void **state)
{
	struct rig_node node = node_of_name("a", "True");
	char version[16];

	(void)state;
	fake_cloud_set(rig->cloud, "a", MACHINE_ON);
	rig_put(rig, &node);
	rig_sync(rig);
	for (int i = 0; i < 3600; i++) {
		(void)snprintf(version, sizeof(version), "%d", 100000 + i);
		node.version = version;
		node.ready = i % 2 ? "True" : "Unknown";
		rig_put(rig, &node);
		rig_run(rig, 1);
	}
	assert_in_range(fake_cloud_looks(rig->cloud), 5, 60);
}

static void
a_taint_that_cannot_be_written_is_tried_again(void **state)
{
	(void)state;
	fake_api_rule(rig->api, (struct api_rule){ .method = HTTP_PATCH,
	                                           .part = "/nodes/a",
	                                           .times = 2,
	                                           .status = 500 });
	fake_cloud_set(rig->cloud, "a", MACHINE_OFF);
	put("a", "Unknown");
	rig_sync(rig);
	rig_run(rig, 11);
	assert_int_equal(patches(), 3);
	rig_run(rig, 40);
	assert_int_equal(patches(), 3); /* the store has not heard of it yet, but we know */
	rig_run(rig, 30);
	assert_int_equal(patches(), 4); /* the watch lags for no longer than a minute */
}

static void
a_taint_that_cannot_be_removed_is_tried_again(void **state)
{
	struct rig_node node = node_of_name("a", "True");

	(void)state;
	fake_api_rule(rig->api, (struct api_rule){ .method = HTTP_PATCH,
	                                           .part = "/nodes/a",
	                                           .times = 2,
	                                           .status = 500 });
	node.taints = RIG_SHUTDOWN;
	rig_put(rig, &node);
	rig_sync(rig);
	rig_run(rig, 11);
	assert_int_equal(patches(), 3);
	rig_run(rig, 600);
	assert_in_range(patches(), 3, 3); /* the store has not heard of it yet, but we know */
}

/* ---- machines that are gone ---- */

static void
a_node_goes_after_two_absences_12_s_apart(void **state)
{
	const struct api_request *r;

	(void)state;
	begin_with_a_gone();
	rig_advance_ms(rig, 11900);
	assert_int_equal(deletions(), 0);
	rig_run(rig, 1);
	assert_int_equal(deletions(), 1);
	r = fake_api_nth(rig->api, HTTP_DELETE, NULL, 0);
	assert_string_equal(r->target, "/api/v1/nodes/a");
	assert_non_null(strstr(r->body,
	                       "\"preconditions\":{\"uid\":\"u-a\",\"resourceVersion\":\"7\"}"));
	assert_int_equal(fake_api_events(rig->api, "DeletingNode", "a"), 1);
	rig_remove(rig, "a");
	rig_run(rig, 3600);
	assert_int_equal(deletions(), 1);
	assert_int_equal(looks(), 3); /* plain, with witnesses, and again with them */
	assert_false(fake_cloud_has_asked(rig->cloud, 0, "w"));
	assert_true(fake_cloud_has_asked(rig->cloud, 1, "w"));
	assert_true(fake_cloud_has_asked(rig->cloud, 2, "w"));
}

static void
a_ready_node_is_never_deleted(void **state)
{
	(void)state;
	put_witness("w");
	put("a", "True");
	rig_sync(rig);
	for (int i = 0; i < 20; i++) {
		lifecycle_controller_wake(rig->lifecycle, LIFECYCLE_ALL_DUE);
		rig_run(rig, 60);
	}
	assert_int_equal(deletions(), 0);
	assert_int_equal(looks(), 0);
}

static void
a_node_that_comes_back_between_is_kept(void **state)
{
	(void)state;
	begin_with_a_gone();
	rig_run(rig, 6);
	put("a", "True");
	rig_run(rig, 10);
	put("a", "Unknown");
	rig_run(rig, 11);
	assert_int_equal(deletions(), 0);
	rig_run(rig, 2);
	assert_int_equal(deletions(), 1);
}

static void
a_machine_that_is_seen_again_is_kept(void **state)
{
	(void)state;
	begin_with_a_gone();
	rig_run(rig, 6);
	fake_cloud_set(rig->cloud, "a", MACHINE_ON);
	rig_run(rig, 3600);
	assert_int_equal(deletions(), 0);
	fake_cloud_set(rig->cloud, "a", MACHINE_GONE); /* the count begins again */
	lifecycle_controller_wake(rig->lifecycle, LIFECYCLE_ALL_DUE);
	rig_run(rig, 11);
	assert_int_equal(deletions(), 0);
	rig_run(rig, 2);
	assert_int_equal(deletions(), 1);
}

static void
wake_ups_do_not_hurry_a_deletion(void **state)
{
	(void)state;
	begin_with_a_gone();
	for (int i = 0; i < 11; i++) {
		lifecycle_controller_wake(rig->lifecycle, LIFECYCLE_ALL_DUE);
		rig_run(rig, 1);
	}
	assert_in_range(looks(), 12, 14);
	assert_int_equal(deletions(), 0);
	rig_run(rig, 13);
	assert_int_equal(deletions_of("a"), 1 + (deletions() > 1));
}

static void
a_re_created_node_begins_without_a_history(void **state)
{
	struct rig_node node = node_of_name("a", "Unknown");

	(void)state;
	begin_with_a_gone();
	rig_run(rig, 6);
	node.uid = "u-new";
	rig_remove(rig, "a");
	rig_put(rig, &node);
	rig_run(rig, 11);
	assert_int_equal(deletions(), 0);
	rig_run(rig, 2);
	assert_int_equal(deletions(), 1);
	assert_non_null(strstr(fake_api_nth(rig->api, HTTP_DELETE, NULL, 0)->body,
	                       "\"uid\":\"u-new\""));
}

/* ---- witnesses ---- */

static void
without_a_witness_it_stays_for_ever(void **state)
{
	(void)state;
	put("a", "Unknown");
	put("b", "Unknown");
	put("c", "True");
	rig_sync(rig);
	rig_run(rig, 3600);
	assert_int_equal(deletions(), 0);
	assert_int_equal(fake_api_events(rig->api, "NodeDeletionHeld", "a"), 1);
	assert_int_equal(fake_api_events(rig->api, "NodeDeletionHeld", "b"), 1);
	assert_int_equal(events("NodeDeletionHeld"), 2);
	assert_int_equal(fake_api_count(rig->api, HTTP_PATCH, "/events/"), 0);
	assert_told("NodeDeletionHeld", "wrong token");
	assert_told("NodeDeletionHeld", "kubectl delete node ");
}

static void
a_witness_that_appears_lets_it_go(void **state)
{
	(void)state;
	put("a", "Unknown");
	put("w", "True");
	rig_sync(rig);
	rig_run(rig, 600);
	fake_cloud_set(rig->cloud, "w", MACHINE_ON);
	lifecycle_controller_wake(rig->lifecycle, LIFECYCLE_ALL_DUE);
	rig_run(rig, 11); /* looks without a witness have not counted */
	assert_int_equal(deletions(), 0);
	rig_run(rig, 2);
	assert_int_equal(deletions_of("a"), 1);
}

/* A machine found by name proves nothing: a node without a provider ID is no witness. */
static void
a_node_without_a_provider_id_is_no_witness(void **state)
{
	(void)state;
	fake_cloud_set(rig->cloud, "w", MACHINE_ON);
	rig_put(rig, &(struct rig_node){ .name = "w" });
	put("a", "Unknown");
	rig_sync(rig);
	rig_run(rig, 1200);
	assert_int_equal(deletions(), 0);
}

static void
a_node_that_is_not_ready_either_is_a_witness(void **state)
{
	(void)state;
	fake_cloud_set(rig->cloud, "b", MACHINE_ON);
	put("a", "Unknown");
	put("b", "Unknown");
	rig_sync(rig);
	rig_run(rig, 70);
	assert_int_equal(deletions_of("a"), deletions());
	assert_in_range(deletions(), 1, 20);
}

static void
an_anchor_serves_where_no_other_node_is(void **state)
{
	(void)state;
	fake_cloud_anchors(rig->cloud, 1);
	put("a", "Unknown");
	rig_sync(rig);
	rig_run(rig, 13);
	assert_int_equal(deletions(), 1);
}

static void
an_anchor_is_not_enough_where_another_node_should_be(void **state)
{
	(void)state;
	fake_cloud_anchors(rig->cloud, 1);
	put("a", "Unknown");
	put("w", "True"); /* and its machine is gone as well */
	rig_sync(rig);
	rig_run(rig, 600);
	assert_int_equal(deletions(), 0);
}

/* Machines that are looked for elsewhere, with another credential, say nothing about ours. */
static void
a_machine_of_another_realm_is_no_witness(void **state)
{
	struct fake_machine elsewhere = MACHINE_ON, gone_elsewhere = MACHINE_GONE;

	(void)state;
	elsewhere.realm = gone_elsewhere.realm = 1;
	fake_cloud_anchors(rig->cloud, 1);
	fake_cloud_set(rig->cloud, "w", elsewhere);
	put("w", "True");
	put("a", "Unknown");
	rig_sync(rig);
	rig_run(rig, 1200);
	assert_int_equal(deletions(), 0);
	/* but for one that was looked for there */
	fake_cloud_set(rig->cloud, "a", gone_elsewhere);
	rig_run(rig, 65 + 13);
	assert_in_range(deletions_of("a"), 1, 20);
}

static void
an_anchor_is_of_the_first_realm(void **state)
{
	struct fake_machine gone_elsewhere = MACHINE_GONE;

	(void)state;
	gone_elsewhere.realm = 1;
	fake_cloud_anchors(rig->cloud, 1);
	fake_cloud_set(rig->cloud, "a", gone_elsewhere);
	put("a", "Unknown");
	rig_sync(rig);
	rig_run(rig, 1200);
	assert_int_equal(deletions(), 0);
}

static void
put_foreign(const char *name)
{
	fake_cloud_set(rig->cloud, name,
	               (struct fake_machine){ .presence = PRESENCE_FOREIGN,
	                                      .error_code = ERR_INVALID });
	put(name, "True");
}

static void
foreign_nodes_take_no_place_of_a_witness(void **state)
{
	(void)state;
	for (int i = 0; i < 12; i++)
		put_foreign(arena_printf(&rig->arena, "foreign-%d", i).ptr);
	begin_with_a_gone();
	rig_run(rig, 13);
	assert_int_equal(deletions_of("a"), 1);
	assert_int_equal(fake_cloud_asked(rig->cloud, 1), 2);
}

static void
where_the_only_ready_node_is_foreign_others_are_witnesses(void **state)
{
	(void)state;
	put_foreign("foreign");
	fake_cloud_set(rig->cloud, "b", MACHINE_ON);
	put("a", "Unknown");
	put("b", "Unknown");
	rig_sync(rig);
	rig_run(rig, 13);
	assert_int_equal(deletions_of("a"), 1);
	assert_int_equal(deletions(), 1);
}

static void
where_all_other_nodes_are_foreign_an_anchor_serves(void **state)
{
	(void)state;
	fake_cloud_anchors(rig->cloud, 1);
	put_foreign("foreign");
	put("a", "Unknown");
	rig_sync(rig);
	rig_run(rig, 13);
	assert_int_equal(deletions_of("a"), 1);
}

/* Its kubelet still sends heartbeats, but its machine is gone as well: other nodes are asked for
 * all the same. */
static void
a_ready_node_without_a_machine_is_not_the_only_one_asked(void **state)
{
	(void)state;
	put("gone", "True");
	fake_cloud_set(rig->cloud, "b", MACHINE_ON);
	put("a", "Unknown");
	put("b", "Unknown");
	rig_sync(rig);
	rig_run(rig, 13);
	assert_int_equal(deletions_of("a"), 1);
	assert_int_equal(deletions(), 1);
}

static void
nodes_of_another_realm_take_no_place_of_a_witness(void **state)
{
	struct fake_machine elsewhere = MACHINE_ON;

	(void)state;
	elsewhere.realm = 1;
	for (int i = 0; i < 12; i++) {
		const char *name = arena_printf(&rig->arena, "elsewhere-%d", i).ptr;

		fake_cloud_set(rig->cloud, name, elsewhere);
		put(name, "True");
	}
	begin_with_a_gone();
	rig_run(rig, 13);
	assert_int_equal(deletions_of("a"), 1);
	assert_int_equal(fake_cloud_asked(rig->cloud, 1), 2);
}

/* Each realm has its own witnesses. A witness of one realm does not end the search in the other. */
static void
machines_of_two_realms_that_go_together_have_a_witness_each(void **state)
{
	struct fake_machine elsewhere = MACHINE_ON, gone_elsewhere = MACHINE_GONE;

	(void)state;
	elsewhere.realm = gone_elsewhere.realm = 1;
	fake_cloud_set(rig->cloud, "e", elsewhere);
	put("e", "True");
	fake_cloud_set(rig->cloud, "gone-e", gone_elsewhere);
	put("gone-e", "Unknown");
	for (int i = 0; i < 5; i++)
		put_witness(arena_printf(&rig->arena, "w%d", i).ptr);
	begin_with_a_gone();
	rig_run(rig, 13);
	assert_int_equal(deletions_of("a"), 1);
	assert_int_equal(deletions_of("gone-e"), 1);
}

/* If the nodes that were asked for are gone as well, the next look asks for others. */
static void
other_nodes_are_asked_for_when_no_witness_was_found(void **state)
{
	(void)state;
	for (int i = 0; i < 12; i++)
		put(arena_printf(&rig->arena, "gone-%d", i).ptr, "True");
	begin_with_a_gone();
	assert_int_equal(fake_cloud_asked(rig->cloud, 1), 1 + 3);
	rig_run(rig, 3600);
	assert_in_range(deletions_of("a"), 1, 10000);
}

static void
the_event_says_how_many_were_asked_and_what_was_found(void **state)
{
	(void)state;
	put_foreign("foreign");
	fake_cloud_set(rig->cloud, "b",
	               (struct fake_machine){ .presence = PRESENCE_UNKNOWN,
	                                      .error_code = ERR_TIMEOUT });
	put("a", "Unknown");
	put("b", "True");
	put("c", "True");
	rig_sync(rig);
	assert_told("NodeDeletionHeld", "(checked: 2, absent: 1, unknown: 1)");
	assert_told("NodeDeletionHeld", "wrong token");
	fake_cloud_set(rig->cloud, "b", MACHINE_GONE); /* no reason for another event */
	rig_run(rig, 3600);
	assert_int_equal(events("NodeDeletionHeld"), 1);
}

static void
the_event_says_that_no_node_could_be_asked_for(void **state)
{
	(void)state;
	put_foreign("foreign");
	put("a", "Unknown");
	rig_sync(rig);
	assert_told("NodeDeletionHeld", "no other node has a provider ID by which");
}

static void
witnesses_can_be_waived(void **state)
{
	struct guard_config guard = guard_defaults;

	(void)state;
	guard.require_witness = false;
	rig_free(rig);
	rig = rig_new();
	rig_start_lifecycle(rig, &guard);
	put("a", "Unknown");
	rig_sync(rig);
	rig_run(rig, 13);
	assert_int_equal(deletions(), 1);
}

static void
without_the_guard_the_first_look_deletes(void **state)
{
	struct guard_config guard = guard_defaults;

	(void)state;
	guard.is_enabled = false;
	rig_free(rig);
	rig = rig_new();
	rig_start_lifecycle(rig, &guard);
	put("a", "Unknown");
	rig_sync(rig);
	assert_int_equal(deletions(), 1);
}

/* ---- the kubelet's signs of life ---- */

#define LEASE "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/a"

static void
lease_is(unsigned times, int status, const char *body)
{
	fake_api_rule(rig->api, (struct api_rule){ .method = HTTP_GET,
	                                           .part = LEASE,
	                                           .times = times,
	                                           .status = status,
	                                           .body = body });
}

static const char *
renewed(int i)
{
	return arena_printf(&rig->arena,
	                    "{\"spec\":{\"renewTime\":\"2026-01-02T03:%02d:00.000000Z\"}}", i % 60)
	        .ptr;
}

static void
a_lease_that_stands_still_lets_it_go(void **state)
{
	(void)state;
	lease_is(0, 200, renewed(1));
	begin_with_a_gone();
	rig_run(rig, 13);
	assert_int_equal(deletions(), 1);
	assert_int_equal(fake_api_count(rig->api, HTTP_GET, LEASE), 2);
}

static void
a_lease_that_is_renewed_holds_it(void **state)
{
	(void)state;
	for (int i = 0; i < 55; i++)
		lease_is(1, 200, renewed(i));
	lease_is(0, 200, renewed(55));
	begin_with_a_gone();
	rig_run(rig, 600);
	assert_int_equal(deletions(), 0);
	assert_int_equal(events("NodeDeletionHeld"), 1);
	assert_told("NodeDeletionHeld", "kubelet");
	rig_run(rig, 120); /* it falls silent */
	assert_int_equal(deletions_of("a"), deletions());
	assert_in_range(deletions(), 1, 20);
}

static void
a_heartbeat_holds_it(void **state)
{
	struct rig_node node = node_of_name("a", "Unknown");

	(void)state;
	begin_with_a_gone();
	rig_run(rig, 6);
	node.heartbeat = "2026-01-02T03:00:05Z";
	node.version = "8";
	rig_put(rig, &node);
	rig_run(rig, 7);
	assert_int_equal(deletions(), 0);
	rig_run(rig, 12);
	assert_int_equal(deletions(), 1);
}

static void
a_lease_that_is_not_there_or_not_ours_to_read_says_nothing(void **state)
{
	(void)state;
	lease_is(1, 403, NULL);
	begin_with_a_gone();
	rig_run(rig, 13); /* then 404 */
	assert_int_equal(deletions(), 1);
}

static void
a_look_does_not_count_when_the_lease_cannot_be_read(void **state)
{
	(void)state;
	lease_is(0, 500, NULL);
	begin_with_a_gone();
	rig_run(rig, 600);
	assert_int_equal(deletions(), 0);
	fake_api_forget_rules(rig->api);
	rig_run(rig, 65 + 13);
	assert_in_range(deletions(), 1, 20);
}

static void
a_lease_that_is_nonsense_does_not_count_either(void **state)
{
	(void)state;
	lease_is(0, 200, "{\"spec\":");
	begin_with_a_gone();
	rig_run(rig, 600);
	assert_int_equal(deletions(), 0);
}

/* ---- age, and the wall clock ---- */

static void
a_young_node_waits(void **state)
{
	struct rig_node node = node_of_name("a", "Unknown");

	(void)state;
	node.age_s = 10;
	put_witness("w");
	rig_put(rig, &node);
	rig_sync(rig);
	rig_run(rig, 49);
	assert_int_equal(deletions(), 0);
	rig_run(rig, 2);
	assert_int_equal(deletions(), 1);
}

/* Hundreds join, and none of them is ready at first: until two looks can prove anything the cloud
 * is left alone. */
static void
a_new_node_is_not_looked_at_before_it_could_go(void **state)
{
	struct rig_node node = node_of_name("a", "Unknown");

	(void)state;
	node.age_s = 1;
	node.taints = RIG_UNINITIALIZED;
	put_witness("w");
	rig_put(rig, &node);
	rig_sync(rig);
	rig_run(rig, 46);
	assert_int_equal(looks(), 0);
	rig_run(rig, 12 + 2);
	assert_in_range(deletions(), 1, 2);
}

static void
a_node_from_the_future_is_young(void **state)
{
	struct rig_node node = node_of_name("a", "Unknown");

	(void)state;
	node.age_s = -3600;
	put_witness("w");
	rig_put(rig, &node);
	rig_sync(rig);
	rig_run(rig, 3600 + 55);
	assert_int_equal(deletions(), 0);
	rig_run(rig, 70);
	assert_in_range(deletions(), 1, 20);
}

static void
jumps_of_the_wall_clock_hurry_nothing(void **state)
{
	(void)state;
	begin_with_a_gone();
	for (int i = 0; i < 11; i++) {
		fake_clock_jump_wall(rig->fake, (i % 2 ? -2 : 1) * 3600 * NS_PER_SEC);
		lifecycle_controller_wake(rig->lifecycle, LIFECYCLE_ALL_DUE);
		rig_run(rig, 1);
	}
	assert_int_equal(deletions(), 0);
}

/* An hour back makes every node of an hour young, and nothing else late. */
static void
a_wall_clock_that_is_behind_makes_nodes_young(void **state)
{
	(void)state;
	begin_with_a_gone();
	fake_clock_jump_wall(rig->fake, -3600 * NS_PER_SEC);
	rig_run(rig, 30);
	assert_int_equal(deletions(), 0);
	fake_clock_jump_wall(rig->fake, 3600 * NS_PER_SEC);
	rig_run(rig, 65);
	assert_in_range(deletions(), 1, 20);
}

static void
a_nameless_node_waits_for_15_minutes(void **state)
{
	(void)state;
	put_witness("w");
	rig_put(rig, &(struct rig_node){ .name = "a", .ready = "Unknown" });
	rig_sync(rig);
	rig_run(rig, 899);
	assert_int_equal(deletions(), 0);
	assert_int_equal(events("NodeDeletionHeld"), 1);
	assert_told("NodeDeletionHeld", "provider ID");
	rig_run(rig, 66);
	assert_in_range(deletions(), 1, 20);
}

/* ---- what changes while the cloud is asked ---- */

/* The look that would complete the proof against node a is under way. */
static void
begin_the_last_look(void)
{
	begin_with_a_gone();
	fake_cloud_hold(rig->cloud);
	rig_run(rig, 13);
	assert_int_equal(looks(), 3);
}

static void
end_the_look(void)
{
	fake_cloud_let_go(rig->cloud);
	rig_settle(rig);
}

static void
a_node_that_becomes_ready_during_the_look_is_kept(void **state)
{
	struct rig_node node = node_of_name("a", "True");

	(void)state;
	begin_the_last_look();
	node.version = "8";
	rig_put(rig, &node);
	end_the_look();
	assert_int_equal(deletions(), 0);
	rig_run(rig, 3600);
	assert_int_equal(deletions(), 0);
}

static void
a_heartbeat_during_the_look_keeps_it(void **state)
{
	struct rig_node node = node_of_name("a", "Unknown");

	(void)state;
	begin_the_last_look();
	node.version = "8";
	node.heartbeat = "2026-01-02T03:00:05Z";
	rig_put(rig, &node);
	end_the_look();
	assert_int_equal(deletions(), 0);
	rig_run(rig, 12 + 12 + 2); /* silent from then on */
	assert_int_equal(deletions(), 1);
}

static void
a_node_that_goes_during_the_look_is_not_deleted(void **state)
{
	(void)state;
	begin_the_last_look();
	rig_remove(rig, "a");
	end_the_look();
	assert_int_equal(deletions(), 0);
}

static void
a_node_re_created_during_the_look_is_not_deleted(void **state)
{
	struct rig_node node = node_of_name("a", "Unknown");

	(void)state;
	begin_the_last_look();
	node.provider_id = id_of("other"); /* or both would claim one machine */
	node.uid = "u-new";
	node.version = "8";
	rig_remove(rig, "a");
	rig_put(rig, &node);
	end_the_look();
	assert_int_equal(deletions(), 0);
}

/* The API server refuses the DELETE if it knows of a change that we do not know yet, such as a
 * kubelet that came back. */
static void
a_deletion_names_the_version_that_it_was_decided_by(void **state)
{
	struct rig_node node = node_of_name("a", "Unknown");

	(void)state;
	begin_the_last_look();
	node.version = "8";
	node.labels = "\"changed\":\"yes\"";
	rig_put(rig, &node);
	end_the_look();
	assert_int_equal(deletions(), 1);
	assert_non_null(strstr(fake_api_nth(rig->api, HTTP_DELETE, NULL, 0)->body,
	                       "\"preconditions\":{\"uid\":\"u-a\",\"resourceVersion\":\"8\"}"));
}

static void
a_node_that_changed_meanwhile_is_looked_at_again(void **state)
{
	(void)state;
	fake_api_rule(rig->api,
	              (struct api_rule){ .method = HTTP_DELETE, .times = 2, .status = 409 });
	begin_with_a_gone();
	rig_run(rig, 12 + 5 + 10 + 1);
	assert_int_equal(deletions(), 3);
	assert_int_equal(looks(), 3 + 2);
	assert_int_equal(events("DeletingNode"), 1);
	assert_int_equal(events("DeletingNodeFailed"), 0);
}

/* The kubelet has reported after the proof, so the DELETE was refused. The next look says nothing,
 * and the former ones are not enough any more. */
static void
a_heartbeat_before_a_look_that_fails_holds_it(void **state)
{
	struct rig_node node = node_of_name("a", "Unknown");

	(void)state;
	fake_api_rule(rig->api,
	              (struct api_rule){ .method = HTTP_DELETE, .times = 1, .status = 409 });
	begin_with_a_gone();
	rig_run(rig, 12 + 1);
	assert_int_equal(deletions(), 1);
	node.heartbeat = "2026-01-02T03:00:05Z";
	node.version = "8";
	rig_put(rig, &node);
	fake_cloud_set(rig->cloud, "a",
	               (struct fake_machine){ .presence = PRESENCE_UNKNOWN,
	                                      .error_code = ERR_TIMEOUT });
	rig_run(rig, 10);
	assert_int_equal(looks(), 3 + 1);
	assert_int_equal(deletions(), 1);
}

/* Another client writes the node faster than the watch reports it. */
static void
a_node_that_changes_all_the_time_is_reported(void **state)
{
	(void)state;
	fake_api_rule(rig->api, (struct api_rule){ .method = HTTP_DELETE, .status = 409 });
	begin_with_a_gone();
	rig_run(rig, 12 + 5 + 1);
	assert_int_equal(deletions(), 2);
	assert_int_equal(events("DeletingNode") + events("DeletingNodeFailed"), 0);
	rig_run(rig, 3600);
	assert_in_range(deletions(), 50, 62);
	assert_int_equal(events("DeletingNodeFailed"), 1);
}

/* ---- the breaker ---- */

static const char *
numbered(int i)
{
	return arena_printf(&rig->arena, "n%d", i).ptr;
}

static void
put_gone_and_well(int n_gone, int n_well)
{
	for (int i = 0; i < n_gone; i++)
		put(numbered(i), "Unknown");
	for (int i = 0; i < n_well; i++)
		put_witness(numbered(n_gone + i));
	rig_sync(rig);
}

/* With three deletions, one more of these ten nodes is too many, and waits for five minutes. */
static void
assert_a_fourth_waits(void)
{
	fake_cloud_set(rig->cloud, "n3", MACHINE_GONE);
	put("n3", "Unknown");
	rig_run(rig, 250);
	assert_int_equal(deletions_of("n3"), 0);
	rig_run(rig, 120);
	assert_in_range(deletions_of("n3"), 1, 30);
}

static void
three_are_deleted_immediately(void **state)
{
	(void)state;
	put_gone_and_well(3, 2);
	rig_run(rig, 13);
	assert_int_equal(deletions(), 3);
}

/* The sixth goes later, and all wait for it: they go together. */
static void
six_of_24_go_after_five_minutes_together(void **state)
{
	(void)state;
	put_gone_and_well(5, 19); /* more than a fifth of 24 */
	rig_run(rig, 100);
	fake_cloud_set(rig->cloud, "n5", MACHINE_GONE);
	put("n5", "Unknown");
	rig_run(rig, 299);
	assert_int_equal(deletions(), 0);
	assert_int_equal(events("NodeDeletionHeld"), 6);
	assert_told("NodeDeletionHeld", "too many");
	rig_run(rig, 66);
	for (int i = 0; i < 6; i++) {
		assert_in_range(deletions_of(numbered(i)), 1, 20);
		assert_int_equal(fake_api_events(rig->api, "DeletingNode", numbered(i)), 1);
	}
}

static void
five_of_25_are_deleted_immediately(void **state)
{
	(void)state;
	put_gone_and_well(5, 20); /* a fifth is not too many */
	rig_run(rig, 13);
	assert_int_equal(deletions(), 5);
}

/* Three go, and count: with the next one it is four of ten within ten minutes. */
static void
deletions_count_for_ten_minutes(void **state)
{
	(void)state;
	put_gone_and_well(3, 7);
	rig_run(rig, 13);
	assert_int_equal(deletions(), 3);
	for (int i = 0; i < 3; i++)
		rig_remove(rig, numbered(i));
	assert_a_fourth_waits();
}

/* A proxy answers in place of the API server, which deletes the three nodes all the same. */
static void
deletions_that_seem_to_fail_count_as_well(void **state)
{
	(void)state;
	fake_api_rule(rig->api,
	              (struct api_rule){ .method = HTTP_DELETE, .status = 502, .times = 3 });
	put_gone_and_well(3, 7);
	rig_run(rig, 13);
	assert_int_equal(events("DeletingNodeFailed"), 3);
	for (int i = 0; i < 3; i++)
		rig_remove(rig, numbered(i));
	assert_a_fourth_waits();
}

/* The responses of the first requests were lost, and the repeated ones conflict with them. */
static void
deletions_that_conflict_with_themselves_count_as_well(void **state)
{
	(void)state;
	fake_api_rule(rig->api,
	              (struct api_rule){ .method = HTTP_DELETE, .status = 409, .times = 3 });
	put_gone_and_well(3, 7);
	rig_run(rig, 13);
	assert_int_equal(deletions(), 3);
	for (int i = 0; i < 3; i++) {
		struct rig_node node = node_of_name(numbered(i), "Unknown");

		node.version = "8";
		node.is_deleting = true;
		rig_put(rig, &node);
	}
	assert_a_fourth_waits();
}

static void
follow_a_crash(void)
{
	rig_free(rig);
	rig = rig_new();
	rig_start_lifecycle_after_crash(rig, &guard_defaults);
}

/* Leaders that change every minute do not delete a few nodes each: one node of ten, with those that
 * the former leader may have deleted, counts as four of ten. */
static void
after_a_crash_a_node_waits_for_five_minutes(void **state)
{
	(void)state;
	follow_a_crash();
	put_gone_and_well(1, 9);
	rig_run(rig, 299);
	assert_int_equal(deletions(), 0);
	assert_int_equal(events("NodeDeletionHeld"), 1);
	assert_told("NodeDeletionHeld", "the previous leader exited");
	rig_run(rig, 66);
	assert_int_equal(deletions_of("n0"), deletions());
	assert_in_range(deletions(), 1, 20);
}

static void
after_a_crash_one_of_many_is_deleted_immediately(void **state)
{
	(void)state;
	follow_a_crash();
	put_gone_and_well(1, 29);
	rig_run(rig, 13);
	assert_int_equal(deletions(), 1);
}

static void
ten_minutes_after_a_crash_it_is_forgotten(void **state)
{
	(void)state;
	follow_a_crash();
	put_gone_and_well(0, 5);
	rig_run(rig, 601);
	fake_cloud_set(rig->cloud, "n0", MACHINE_GONE);
	put("n0", "Unknown");
	rig_run(rig, 13);
	assert_int_equal(deletions(), 1);
}

/* Four in each way: if one way were not known, the breaker would hold those, and the single one
 * with them. */
static void
announced_nodes_neither_count_nor_wait(void **state)
{
	static const char *const taints[] = {
		NULL,
		"{\"key\":\"ToBeDeletedByClusterAutoscaler\",\"effect\":\"NoSchedule\"}",
		"{\"key\":\"karpenter.sh/disrupted\",\"effect\":\"NoSchedule\"}",
	};

	(void)state;
	for (int i = 0; i < 12; i++) {
		struct rig_node node = node_of_name(numbered(i), "Unknown");

		node.taints = taints[i % 3];
		node.is_deleting = !node.taints;
		rig_put(rig, &node);
	}
	put("single", "Unknown");
	put_witness("w");
	rig_sync(rig);
	rig_run(rig, 13);
	assert_int_equal(deletions(), 9); /* the four that are marked already go by themselves */
	assert_int_equal(deletions_of("single"), 1);
}

/* Five are too many, unless they are announced. */
static void
an_announcement_that_ends_during_the_look_does_not_count(void **state)
{
	struct rig_node nodes[5];

	(void)state;
	for (int i = 0; i < 5; i++) {
		nodes[i] = node_of_name(numbered(i), "Unknown");
		nodes[i].taints = "{\"key\":\"ToBeDeletedByClusterAutoscaler\","
				  "\"effect\":\"NoSchedule\"}";
		rig_put(rig, &nodes[i]);
	}
	put_witness("w");
	rig_sync(rig);
	fake_cloud_hold(rig->cloud);
	rig_run(rig, 13);
	for (int i = 0; i < 5; i++) {
		nodes[i].taints = NULL;
		nodes[i].version = "8";
		rig_put(rig, &nodes[i]);
	}
	end_the_look();
	assert_int_equal(deletions(), 0);
	rig_run(rig, 400);
	assert_int_equal(deletions_of(nodes[4].name), deletions() / 5);
	assert_true(deletions() > 0);
}

/* A finalizer holds it: it is marked, and that is all there is to do. */
static void
a_node_that_is_held_is_deleted_once(void **state)
{
	struct rig_node node = node_of_name("a", "Unknown");

	(void)state;
	begin_with_a_gone();
	rig_run(rig, 13);
	assert_int_equal(deletions(), 1);
	node.is_deleting = true;
	node.version = "9";
	rig_put(rig, &node);
	rig_run(rig, 3600);
	assert_int_equal(deletions(), 1);
	assert_int_equal(events("DeletingNode"), 1);
	assert_int_equal(fake_api_count(rig->api, HTTP_PATCH, "/events/"), 0);
	assert_in_range(looks(), 50, 60);
}

/* How often the log in this file has the text. */
static size_t
count_logged(int fd, const char *text)
{
	char log[16384] = { 0 };
	ssize_t n_bytes = pread(fd, log, sizeof(log) - 1, 0);
	size_t n = 0;

	assert_in_range(n_bytes, 1, sizeof(log) - 2);
	for (const char *at = log; (at = strstr(at, text)); at++)
		n++;
	return n;
}

static void
a_deletion_that_is_sent_again_is_logged_once(void **state)
{
	int fd = memfd_create("log", MFD_CLOEXEC);

	(void)state;
	log_set_fd(fd);
	begin_with_a_gone();
	rig_run(rig, 60);
	log_set_fd(STDERR_FILENO);
	assert_in_range(deletions(), 2, 10);
	assert_int_equal(count_logged(fd, "node deleted"), 1);
	close(fd);
}

/* The store does not hear of it. */
static void
a_deletion_is_sent_again_at_longer_and_longer_intervals(void **state)
{
	(void)state;
	begin_with_a_gone();
	rig_run(rig, 13);
	rig_run(rig, 5 + 10 + 20 + 40 + 1);
	assert_int_equal(deletions(), 5);
	rig_run(rig, 650);
	assert_int_equal(deletions(), 15);
	assert_int_equal(events("DeletingNode"), 1);
}

/* ---- when things go wrong ---- */

static void
a_deletion_that_fails_is_reported_and_tried_again(void **state)
{
	(void)state;
	fake_api_rule(rig->api, (struct api_rule){ .method = HTTP_DELETE,
	                                           .times = 2,
	                                           .status = 403,
	                                           .body = "{\"kind\":\"Status\",\"status\":"
	                                                   "\"Failure\",\"code\":403,"
	                                                   "\"message\":\"not today\"}" });
	begin_with_a_gone();
	rig_run(rig, 13);
	assert_int_equal(deletions(), 1);
	assert_int_equal(fake_api_events(rig->api, "DeletingNodeFailed", "a"), 1);
	assert_told("DeletingNodeFailed", "Failed deleting node a: ");
	assert_told("DeletingNodeFailed", "not today");
	rig_run(rig, 15);
	assert_int_equal(deletions(), 3);
	assert_int_equal(events("DeletingNode"), 1);
	assert_int_equal(events("DeletingNodeFailed"), 1);
}

/* The server refuses: another node has the name. The store hears of it, and what was learnt of the
 * old one is void. */
static void
another_node_of_that_name_is_not_deleted(void **state)
{
	struct rig_node node = node_of_name("a", "Unknown");

	(void)state;
	fake_api_rule(rig->api, (struct api_rule){ .method = HTTP_DELETE, .status = 409 });
	begin_with_a_gone();
	rig_run(rig, 13);
	assert_int_equal(deletions(), 1);
	assert_int_equal(events("DeletingNodeFailed"), 0);
	node.uid = "u-new";
	fake_cloud_set(rig->cloud, "a", MACHINE_ON);
	rig_put(rig, &node);
	rig_run(rig, 3600);
	assert_int_equal(deletions(), 1);
}

static void
a_foreign_node_is_never_deleted(void **state)
{
	(void)state;
	fake_cloud_set(rig->cloud, "a",
	               (struct fake_machine){ .presence = PRESENCE_FOREIGN,
	                                      .error_code = ERR_INVALID });
	begin_with_a_gone();
	rig_run(rig, 3600);
	assert_int_equal(deletions() + patches(), 0);
	assert_int_equal(fake_api_events(rig->api, "ForeignProviderID", "a"), 1);
	assert_told("ForeignProviderID", "fake://a");
	assert_int_equal(fake_api_count(rig->api, HTTP_PATCH, "/events/"), 0);
}

static void
an_unknown_node_is_never_deleted(void **state)
{
	(void)state;
	fake_cloud_set(rig->cloud, "a",
	               (struct fake_machine){ .presence = PRESENCE_UNKNOWN,
	                                      .error_code = ERR_TIMEOUT });
	begin_with_a_gone();
	rig_run(rig, 3600);
	assert_int_equal(deletions() + patches(), 0);
}

/* One of several APIs was away: the look succeeded, but says nothing about this node. */
static void
an_unknown_node_is_looked_at_when_the_cloud_recovers(void **state)
{
	size_t n_before;

	(void)state;
	fake_cloud_set(rig->cloud, "a",
	               (struct fake_machine){ .presence = PRESENCE_UNKNOWN,
	                                      .error_code = ERR_UNAVAILABLE });
	begin_with_a_gone();
	rig_run(rig, 600);
	n_before = looks();
	rig_run(rig, 2);
	assert_int_equal(looks(), n_before);
	lifecycle_controller_wake(rig->lifecycle, LIFECYCLE_FAILED_DUE);
	rig_run(rig, 2);
	assert_true(looks() > n_before);
}

static void
an_hour_without_the_cloud_changes_nothing(void **state)
{
	(void)state;
	fake_cloud_fail(rig->cloud, ERR_UNAVAILABLE);
	begin_with_a_gone();
	rig_run(rig, 3600);
	assert_int_equal(deletions() + patches(), 0);
	assert_int_equal(fake_api_count(rig->api, HTTP_POST, "/events"), 0);
	assert_in_range(looks(), 55, 60); /* slower and slower */
	fake_cloud_fail(rig->cloud, ERR_NONE);
	rig_run(rig, 65 + 12 + 2);
	assert_true(deletions() > 0);
}

static void
twins_are_never_deleted(void **state)
{
	struct rig_node node = node_of_name("b", "Unknown");

	(void)state;
	node.provider_id = "fake://a";
	rig_put(rig, &node);
	begin_with_a_gone();
	rig_run(rig, 3600);
	assert_int_equal(deletions(), 0);
	assert_int_equal(events("DuplicateProviderID"), 2);
}

static void
nothing_happens_before_the_first_list(void **state)
{
	(void)state;
	put_witness("w");
	put("a", "Unknown");
	rig_run(rig, 600);
	assert_int_equal(looks(), 0);
}

static void
it_ends_in_the_middle_of_a_look(void **state)
{
	(void)state;
	fake_cloud_hold(rig->cloud);
	begin_with_a_gone();
	assert_int_equal(looks(), 1);
}

/* ---- what other threads see ---- */

static struct lifecycle_candidate
candidate(const char *name)
{
	struct lifecycle_candidate found;

	if (!lifecycle_controller_candidate(rig->lifecycle, &rig->arena, str_c(name), &found))
		fail_msg("%s is no candidate", name);
	return found;
}

static void
candidates_show_what_the_guard_waits_for(void **state)
{
	struct lifecycle_candidate a, *all;

	(void)state;
	begin_with_a_gone();
	rig_advance_ms(rig, 3000);
	a = candidate("a");
	assert_true(str_eq_c(a.name, "a") && str_eq_c(a.uid, "u-a"));
	assert_int_equal(a.outcome, GUARD_UNCONFIRMED);
	assert_int_equal(a.presence, PRESENCE_ABSENT);
	assert_int_equal(a.n_looks, 1);
	assert_int_equal(a.n_absent, 1);
	assert_int_equal(a.absent_for_ns, 3 * NS_PER_SEC);
	assert_int_equal(a.looked_ago_ns, 3 * NS_PER_SEC);
	assert_int_equal(a.next_look_in_ns, 9 * NS_PER_SEC);
	assert_int_equal(a.deletable_in_ns, 9 * NS_PER_SEC);
	assert_null(a.hold_reason);
	assert_int_equal(lifecycle_controller_candidates(rig->lifecycle, &rig->arena, &all), 1);
	assert_true(str_eq_c(all[0].name, "a"));
	rig_run(rig, 10);
	a = candidate("a");
	assert_int_equal(deletions(), 1);
	assert_int_equal(a.outcome, GUARD_DELETE);
	assert_true(a.is_deleted);
	rig_remove(rig, "a");
	rig_run(rig, 1);
	assert_int_equal(lifecycle_controller_candidates(rig->lifecycle, &rig->arena, &all), 0);
	assert_false(lifecycle_controller_candidate(rig->lifecycle, &rig->arena, STR("a"), &a));
}

static void
candidates_show_why_a_deletion_is_held(void **state)
{
	struct lifecycle_candidate a;

	(void)state;
	put("a", "Unknown");
	rig_sync(rig);
	rig_run(rig, 1);
	a = candidate("a");
	assert_int_equal(a.outcome, GUARD_NO_WITNESS);
	assert_non_null(strstr(a.hold_reason, "no other node has a provider ID"));
	assert_int_equal(a.deletable_in_ns, CLOCK_FOREVER);
	assert_int_equal(a.n_absent, 0);
}

static void
nodes_that_are_ready_or_were_not_looked_at_are_no_candidates(void **state)
{
	struct rig_node young = node_of_name("young", "False");
	struct lifecycle_candidate found, *all;

	(void)state;
	put_witness("w");
	young.taints = RIG_UNINITIALIZED;
	young.age_s = 1;
	rig_put(rig, &young);
	fake_cloud_set(rig->cloud, "a", MACHINE_ON);
	put("a", "Unknown");
	rig_sync(rig);
	assert_int_equal(lifecycle_controller_candidates(rig->lifecycle, &rig->arena, &all), 1);
	assert_true(str_eq_c(all[0].name, "a"));
	assert_int_equal(all[0].outcome, GUARD_KEEP);
	assert_false(lifecycle_controller_candidate(rig->lifecycle, &rig->arena, STR("w"), &found));
	assert_false(lifecycle_controller_candidate(rig->lifecycle, &rig->arena, STR("young"),
	                                            &found));
}

static void
candidates_can_be_read_while_the_cloud_is_asked(void **state)
{
	struct lifecycle_candidate *all;

	(void)state;
	fake_cloud_hold(rig->cloud);
	begin_with_a_gone();
	assert_int_equal(looks(), 1); /* and it waits */
	assert_int_equal(lifecycle_controller_candidates(rig->lifecycle, &rig->arena, &all), 0);
	fake_cloud_let_go(rig->cloud);
	rig_run(rig, 1);
	assert_int_equal(lifecycle_controller_candidates(rig->lifecycle, &rig->arena, &all), 1);
}

static void
candidates_show_looks_that_failed(void **state)
{
	struct lifecycle_candidate a;

	(void)state;
	begin_with_a_gone();
	fake_cloud_fail(rig->cloud, ERR_UNAVAILABLE);
	rig_run(rig, 13);
	a = candidate("a");
	assert_int_equal(a.n_looks, 1);
	assert_int_equal(a.n_failures, 1);
	assert_in_range(a.next_look_in_ns, 1, 30 * NS_PER_SEC);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ready_nodes_cost_nothing),
		TEST(looks_come_at_0_12_30_60_and_every_65_s),
		TEST(an_hour_costs_sixty_looks),
		TEST(nodes_that_fail_together_share_their_looks),
		TEST(a_node_that_becomes_not_ready_is_looked_at_soon),
		TEST(a_wake_up_looks_immediately),
		TEST(a_machine_that_is_off_gets_the_taint),
		TEST(a_node_that_is_not_initialised_gets_the_taint_too),
		TEST(the_taint_stays_while_not_ready_and_goes_with_ready),
		TEST(a_taint_that_comes_back_is_removed_less_and_less_often),
		TEST(a_node_whose_readiness_alternates_is_looked_at_no_more_often),
		TEST(a_taint_that_cannot_be_written_is_tried_again),
		TEST(a_taint_that_cannot_be_removed_is_tried_again),
		TEST(a_node_goes_after_two_absences_12_s_apart),
		TEST(a_ready_node_is_never_deleted),
		TEST(a_node_that_comes_back_between_is_kept),
		TEST(a_machine_that_is_seen_again_is_kept),
		TEST(wake_ups_do_not_hurry_a_deletion),
		TEST(a_re_created_node_begins_without_a_history),
		TEST(without_a_witness_it_stays_for_ever),
		TEST(a_witness_that_appears_lets_it_go),
		TEST(a_node_without_a_provider_id_is_no_witness),
		TEST(a_node_that_is_not_ready_either_is_a_witness),
		TEST(an_anchor_serves_where_no_other_node_is),
		TEST(an_anchor_is_not_enough_where_another_node_should_be),
		TEST(a_machine_of_another_realm_is_no_witness),
		TEST(an_anchor_is_of_the_first_realm),
		TEST(foreign_nodes_take_no_place_of_a_witness),
		TEST(where_the_only_ready_node_is_foreign_others_are_witnesses),
		TEST(where_all_other_nodes_are_foreign_an_anchor_serves),
		TEST(a_ready_node_without_a_machine_is_not_the_only_one_asked),
		TEST(nodes_of_another_realm_take_no_place_of_a_witness),
		TEST(machines_of_two_realms_that_go_together_have_a_witness_each),
		TEST(other_nodes_are_asked_for_when_no_witness_was_found),
		TEST(the_event_says_how_many_were_asked_and_what_was_found),
		TEST(the_event_says_that_no_node_could_be_asked_for),
		TEST(witnesses_can_be_waived),
		TEST(without_the_guard_the_first_look_deletes),
		TEST(a_lease_that_stands_still_lets_it_go),
		TEST(a_lease_that_is_renewed_holds_it),
		TEST(a_heartbeat_holds_it),
		TEST(a_lease_that_is_not_there_or_not_ours_to_read_says_nothing),
		TEST(a_look_does_not_count_when_the_lease_cannot_be_read),
		TEST(a_lease_that_is_nonsense_does_not_count_either),
		TEST(a_young_node_waits),
		TEST(a_new_node_is_not_looked_at_before_it_could_go),
		TEST(a_node_from_the_future_is_young),
		TEST(jumps_of_the_wall_clock_hurry_nothing),
		TEST(a_wall_clock_that_is_behind_makes_nodes_young),
		TEST(a_nameless_node_waits_for_15_minutes),
		TEST(a_node_that_becomes_ready_during_the_look_is_kept),
		TEST(a_heartbeat_during_the_look_keeps_it),
		TEST(a_node_that_goes_during_the_look_is_not_deleted),
		TEST(a_node_re_created_during_the_look_is_not_deleted),
		TEST(a_deletion_names_the_version_that_it_was_decided_by),
		TEST(a_node_that_changed_meanwhile_is_looked_at_again),
		TEST(a_heartbeat_before_a_look_that_fails_holds_it),
		TEST(a_node_that_changes_all_the_time_is_reported),
		TEST(three_are_deleted_immediately),
		TEST(six_of_24_go_after_five_minutes_together),
		TEST(five_of_25_are_deleted_immediately),
		TEST(deletions_count_for_ten_minutes),
		TEST(deletions_that_seem_to_fail_count_as_well),
		TEST(deletions_that_conflict_with_themselves_count_as_well),
		TEST(after_a_crash_a_node_waits_for_five_minutes),
		TEST(after_a_crash_one_of_many_is_deleted_immediately),
		TEST(ten_minutes_after_a_crash_it_is_forgotten),
		TEST(announced_nodes_neither_count_nor_wait),
		TEST(an_announcement_that_ends_during_the_look_does_not_count),
		TEST(a_deletion_that_fails_is_reported_and_tried_again),
		TEST(a_node_that_is_held_is_deleted_once),
		TEST(a_deletion_that_is_sent_again_is_logged_once),
		TEST(a_deletion_is_sent_again_at_longer_and_longer_intervals),
		TEST(another_node_of_that_name_is_not_deleted),
		TEST(a_foreign_node_is_never_deleted),
		TEST(an_unknown_node_is_never_deleted),
		TEST(an_unknown_node_is_looked_at_when_the_cloud_recovers),
		TEST(an_hour_without_the_cloud_changes_nothing),
		TEST(twins_are_never_deleted),
		TEST(nothing_happens_before_the_first_list),
		TEST(it_ends_in_the_middle_of_a_look),
		TEST(candidates_show_what_the_guard_waits_for),
		TEST(candidates_show_why_a_deletion_is_held),
		TEST(nodes_that_are_ready_or_were_not_looked_at_are_no_candidates),
		TEST(candidates_can_be_read_while_the_cloud_is_asked),
		TEST(candidates_show_looks_that_failed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
