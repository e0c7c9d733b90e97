/* Which Services get a balancer, in what order things are written, and what happens when something
 * goes wrong. */
#include "controllers/pace.h"
#include "controllers/rig.h"

#include "base/limits.h"

enum {
	HOUR_S = 3600,
};

static struct rig *rig;

static const struct fake_service web = { .name = "web" };
static const struct fake_service plain = { .name = "web", .type = "ClusterIP" };
static const struct rig_node node_a = { .name = "a", .provider_id = "fake://a" };
static const struct rig_node node_b = { .name = "b", .provider_id = "fake://b" };

static int
set_up_with(unsigned n_workers, bool selects)
{
	rig = rig_new();
	rig_start_services(rig, n_workers, selects);
	rig_put(rig, &node_a);
	return 0;
}

static int
set_up(void **state)
{
	(void)state;
	return set_up_with(2, /*selects=*/false);
}

static int
set_up_comparing(void **state)
{
	(void)state;
	rig = rig_new();
	rig->drift_period_ns = HOUR_S * NS_PER_SEC;
	rig_start_services(rig, 2, /*selects=*/false);
	rig_put(rig, &node_a);
	return 0;
}

static int
set_up_selecting(void **state)
{
	(void)state;
	return set_up_with(2, /*selects=*/true);
}

static int
tear_down(void **state)
{
	(void)state;
	rig_free(rig);
	return 0;
}

/* ---- looking ---- */

static size_t
calls(const char *begin)
{
	return fake_balancers_calls(rig->balancers, begin);
}

static void
forget_calls(void)
{
	fake_balancers_forget_calls(rig->balancers);
	fake_api_forget_requests(rig->api);
}

static size_t
n_patches(void)
{
	return fake_api_count(rig->api, HTTP_PATCH, "/services/");
}

static const char *
patch(size_t i)
{
	return fake_api_nth(rig->api, HTTP_PATCH, "/services/", i)->body;
}

/* Sent once or again: a repetition is a PATCH of the first. */
static size_t
events(const char *reason)
{
	return fake_api_events(rig->api, reason, "web");
}

static size_t
n_event_writes(void)
{
	return fake_api_count(rig->api, HTTP_POST, "/events") +
	       fake_api_count(rig->api, HTTP_PATCH, "/events/");
}

static struct fake_service_state
service(void)
{
	return fake_services_get(rig->services, "web");
}

static struct fake_balancer_state
balancer(const char *uid)
{
	return fake_balancers_get(rig->balancers, uid);
}

static void
assert_balanced(const char *uid, const char *nodes)
{
	struct fake_balancer_state b = balancer(uid);
	struct fake_service_state s = service();

	assert_true(b.exists);
	assert_string_equal(b.nodes, nodes);
	assert_string_equal(s.uid, uid);
	assert_true(s.is_claimed);
	assert_non_null(strstr(s.ingress, b.address));
	assert_int_equal(fake_balancers_count_of(rig->balancers, "web"), 1);
}

static void
assert_quiet(void)
{
	assert_int_equal(calls(NULL), 0);
	assert_int_equal(n_patches(), 0);
	assert_int_equal(n_event_writes(), 0);
}

/* ---- doing ---- */

static void
put(const struct fake_service *s)
{
	fake_services_put(rig->services, s);
	rig_deliver(rig);
}

static void
begin_with(const struct fake_service *s)
{
	if (s)
		fake_services_put(rig->services, s);
	rig_sync_services(rig);
	rig_deliver(rig);
}

/* A failure is tried again after 5 s and up to two fifths. */
enum {
	RETRY_S = 7,
};

/* A settled Service, and nothing remembered of how it came. */
static void
begin_settled(void)
{
	begin_with(&web);
	rig_run(rig, 2);
	assert_balanced("web-1", "a=fake://a,");
	forget_calls();
}

static void
run(int64_t seconds)
{
	rig_run(rig, seconds);
	rig_deliver(rig);
}

static void
fault(struct fake_fault f)
{
	fake_balancers_fault(rig->balancers, f);
}

static void
crash(void)
{
	rig_restart_services(rig, 2);
	forget_calls();
	begin_with(NULL);
}

/* ---- what leads to a balancer ---- */

static void
a_service_gets_a_finalizer_a_balancer_and_a_status_in_this_order(void **state)
{
	(void)state;
	begin_with(&web);
	assert_balanced("web-1", "a=fake://a,");
	assert_int_equal(calls("ensure web web-1 a,"), 1);
	assert_int_equal(calls(NULL), 2); /* with adopt */
	assert_int_equal(n_patches(), 2);
	assert_string_equal(patch(0),
	                    "{\"metadata\":{\"uid\":\"web-1\",\"$setElementOrder/finalizers\":"
	                    "[\"service.kubernetes.io/load-balancer-cleanup\"],"
	                    "\"finalizers\":[\"service.kubernetes.io/load-balancer-cleanup\"]}}");
	assert_string_equal(patch(1),
	                    "{\"metadata\":{\"uid\":\"web-1\"},\"status\":{\"loadBalancer\":{"
	                    "\"ingress\":[{\"ip\":\"192.0.2.1\",\"ipMode\":\"VIP\"}]}}}");
	assert_int_equal(events("EnsuringLoadBalancer"), 1);
	assert_int_equal(events("EnsuredLoadBalancer"), 1);
	assert_int_equal(n_event_writes(), 2);
}

static void
no_balancer_is_made_before_the_finalizer_is_on(void **state)
{
	(void)state;
	fake_api_rule(rig->api, (struct api_rule){ .method = HTTP_PATCH,
	                                           .part = "/services/",
	                                           .status = 500 });
	begin_with(&web);
	assert_int_equal(calls("ensure"), 0);
	assert_true(events("SyncLoadBalancerFailed") >=
	            1); /* the first pass over the nodes may come second */
	fake_api_forget_rules(rig->api);
	run(30);
	assert_balanced("web-1", "a=fake://a,");
}

static void
services_that_want_none_are_left_alone(void **state)
{
	(void)state;
	fake_services_put(rig->services,
	                  &(struct fake_service){ .name = "one", .type = "ClusterIP" });
	fake_services_put(rig->services,
	                  &(struct fake_service){ .name = "two", .type = "NodePort" });
	fake_services_put(rig->services, &(struct fake_service){ .name = "three", .class = "x" });
	begin_with(&(struct fake_service){ .name = "four", .class = "" });
	run(600);
	assert_int_equal(calls(NULL), 1); /* adopt */
	assert_int_equal(n_patches(), 0);
}

#define OURS "service.kubernetes.io/load-balancer-cleanup"

/* All controllers made with k8s.io/cloud-provider use the same finalizer. If we removed it, the
 * other's balancer would be left. */
static void
the_finalizer_of_another_class_is_left_to_its_controller(void **state)
{
	struct fake_service theirs = { .name = "web", .class = "x", .finalizers = OURS };

	(void)state;
	begin_with(&theirs);
	run(60);
	service_controller_wake(rig->balancing, STR_EMPTY);
	service_controller_wake(rig->balancing, STR("default/web"));
	rig_deliver(rig);
	assert_int_equal(calls(NULL), 2); /* adopt, and once the search for a balancer of ours */
	assert_int_equal(calls("remove web web-1"), 1);
	fake_services_delete(rig->services, "web");
	rig_deliver(rig);
	assert_int_equal(calls("remove web web-1"), 2);
	theirs.annotations = "\"k\":\"v\""; /* whatever others write meanwhile */
	put(&theirs);
	fake_services_set_status(rig->services, "web", "[{\"ip\":\"192.0.2.99\"}]");
	rig_deliver(rig);
	service_controller_wake(rig->balancing, STR_EMPTY);
	run(600);
	assert_int_equal(calls(NULL), 3);
	assert_true(service().is_claimed);
	assert_int_equal(n_patches(), 0);
	assert_int_equal(n_event_writes(), 0);
	fake_services_strip(rig->services, "web", OURS);
	rig_deliver(rig);
	assert_false(service().exists);

	theirs.finalizers = NULL; /* the next one of that name is looked at again */
	theirs.class = NULL;
	put(&theirs);
	assert_balanced("web-2", "a=fake://a,");
}

/* The Service gets another class while no leader looks; the API permits that only by way of another
 * type. */
static void
begin_reclassed(const char *status)
{
	begin_settled();
	rig_restart_services(rig, 2);
	fake_services_put(rig->services,
	                  &(struct fake_service){ .name = "web", .type = "ClusterIP" });
	fake_services_put(rig->services, &(struct fake_service){ .name = "web", .class = "x" });
	if (status)
		fake_services_set_status(rig->services, "web", status);
	begin_with(NULL);
	run(60);
}

static void
a_balancer_left_under_another_class_is_removed(void **state)
{
	(void)state;
	begin_reclassed(NULL);
	assert_int_equal(calls("remove web web-1"), 1);
	assert_false(balancer("web-1").exists);
	assert_false(service().is_claimed);
	run(600);
	assert_int_equal(calls(NULL), 2); /* with adopt */
}

/* That controller uses the same finalizer, and is at work. */
static void
a_class_that_is_served_keeps_finalizer_and_status(void **state)
{
	(void)state;
	begin_reclassed("[{\"ip\":\"192.0.2.99\"}]");
	assert_false(balancer("web-1").exists);
	assert_true(service().is_claimed);
	assert_string_equal(service().ingress, "[{\"ip\":\"192.0.2.99\"}]");
	assert_int_equal(n_patches(), 0);
}

/* Without a class its finalizer is ours to remove, and its former controller ignores it. */
static void
a_service_that_loses_its_class_is_released(void **state)
{
	(void)state;
	begin_with(&(struct fake_service){ .name = "web", .class = "x", .finalizers = OURS });
	run(60);
	fake_services_delete(rig->services, "web");
	rig_deliver(rig);
	assert_true(service().is_claimed);
	put(&(struct fake_service){ .name = "web", .type = "ClusterIP" });
	assert_false(service().exists);
}

/* It was ours before its type was changed and changed back, as the balancer in the cloud shows. */
static void
a_service_of_another_class_is_released_where_it_had_our_balancer(void **state)
{
	(void)state;
	begin_settled();
	rig_restart_services(rig, 2);
	fake_services_put(rig->services,
	                  &(struct fake_service){ .name = "web", .type = "ClusterIP" });
	fake_services_put(rig->services, &(struct fake_service){ .name = "web", .class = "x" });
	fake_services_delete(rig->services, "web");
	fake_api_rule(rig->api, (struct api_rule){ .method = HTTP_PATCH,
	                                           .part = "/services/",
	                                           .status = 500 });
	begin_with(NULL);
	fake_api_forget_rules(rig->api);
	assert_true(service().is_claimed);
	run(60);
	assert_int_equal(calls("remove web web-1"), 2); /* the second one finds nothing */
	assert_false(balancer("web-1").exists);
	assert_false(service().exists);
}

/* Its address may be another Service's by now, whichever finalizer holds it. */
static void
a_service_held_by_another_finalizer_loses_its_status(void **state)
{
	(void)state;
	begin_with(&(struct fake_service){ .name = "web", .finalizers = "example.com/hold" });
	run(2);
	assert_balanced("web-1", "a=fake://a,");
	fake_services_delete(rig->services, "web");
	rig_deliver(rig);
	assert_false(balancer("web-1").exists);
	assert_true(service().exists && service().is_deleting);
	assert_false(service().is_claimed);
	assert_string_equal(service().ingress, "");
	forget_calls();
	crash();
	run(60);
	assert_int_equal(calls(NULL), 1); /* adopt, of none */
	assert_string_equal(fake_balancers_last(rig->balancers), "adopt -  ");
}

/* docs/spec/framework.md, "Service changes" */
static void
what_concerns_the_balancer_leads_to_a_sync(void **state)
{
	static const struct fake_service changed[] = {
		{ .name = "web", .annotations = "\"k\":\"v\"" },
		{ .name = "web", .spec = "\"ports\":[{\"port\":80}]" },
		{ .name = "web", .spec = "\"ports\":[{\"port\":80,\"targetPort\":\"80\"}]" },
		{ .name = "web", .spec = "\"ports\":[{\"port\":80,\"appProtocol\":\"\"}]" },
		{ .name = "web", .spec = "\"loadBalancerSourceRanges\":[\"10.0.0.0/8\"]" },
		{ .name = "web", .spec = "\"sessionAffinity\":\"ClientIP\"" },
		{ .name = "web", .spec = "\"loadBalancerIP\":\"192.0.2.7\"" },
		{ .name = "web", .spec = "\"externalIPs\":[\"192.0.2.7\"]" },
		{ .name = "web", .spec = "\"externalTrafficPolicy\":\"Local\"" },
		{ .name = "web", .spec = "\"healthCheckNodePort\":30000" },
		{ .name = "web", .spec = "\"ipFamilies\":[\"IPv4\"]" },
	};

	(void)state;
	begin_settled();
	for (size_t i = 0; i < ARRAY_LEN(changed); i++) {
		put(&changed[i]);
		assert_int_equal(calls("ensure web web-1"), i + 1);
	}
	put(&(struct fake_service){ .name = "web", .spec = "\"ipFamilies\":[\"IPv6\"]" });
	put(&(struct fake_service){ .name = "web",
	                            .spec = "\"ipFamilies\":[\"IPv6\"],\"selector\":{}" });
	assert_int_equal(calls(NULL), ARRAY_LEN(changed)); /* neither contents nor selector count */
	fake_services_set_status(rig->services, "web", "[{\"ip\":\"192.0.2.99\"}]");
	rig_deliver(rig);
	assert_int_equal(calls(NULL), ARRAY_LEN(changed));
}

static void
nothing_is_written_when_all_is_right(void **state)
{
	(void)state;
	begin_settled();
	run(3600);
	assert_quiet();
	service_controller_wake(rig->balancing, STR("default/web"));
	rig_deliver(rig);
	assert_int_equal(calls("ensure web"), 1);
	assert_int_equal(n_patches(), 0);
	assert_int_equal(balancer("web-1").n_changes, 1); /* its nodes, at first */
}

static void
a_restart_changes_and_reports_nothing(void **state)
{
	(void)state;
	begin_settled();
	crash();
	run(60);
	assert_int_equal(calls("adopt - web-1,"), 1);
	assert_int_equal(calls("ensure web web-1 a,"), 1);
	assert_int_equal(calls(NULL), 2);
	assert_int_equal(n_patches(), 0);
	assert_int_equal(n_event_writes(), 0);
	assert_int_equal(balancer("web-1").n_changes, 1);
}

static void
an_api_server_without_ip_modes_is_not_written_to_for_ever(void **state)
{
	(void)state;
	fake_services_drop_modes(rig->services);
	begin_settled();
	assert_string_equal(service().ingress, "[{\"ip\":\"192.0.2.1\"}]");
	service_controller_wake(rig->balancing, STR_EMPTY);
	rig_deliver(rig);
	assert_int_equal(calls("ensure web"), 1);
	assert_int_equal(n_patches(), 0);
}

static void
a_status_is_never_emptied_by_a_failure(void **state)
{
	(void)state;
	begin_settled();
	fault((struct fake_fault){ .call = "ensure", .code = ERR_UNAVAILABLE });
	put(&(struct fake_service){ .name = "web", .annotations = "\"k\":\"v\"" });
	crash();
	run(600);
	assert_int_equal(n_patches(), 0);
	assert_non_null(strstr(service().ingress, "192.0.2.1"));
}

/* ---- waiting, failing ---- */

static void
a_cloud_that_is_still_at_it_is_asked_again_in_time(void **state)
{
	(void)state;
	fault((struct fake_fault){ .call = "ensure",
	                           .code = ERR_PENDING,
	                           .retry_after_ms = 4000,
	                           .times = 3,
	                           .is_late = true });
	begin_with(&web);
	assert_int_equal(calls("ensure"), 1);
	run(3);
	assert_int_equal(calls("ensure"), 1);
	run(1);
	assert_int_equal(calls("ensure"), 2);
	assert_string_equal(service().ingress, "");
	run(8);
	assert_balanced("web-1", "a=fake://a,");
	assert_int_equal(calls("ensure"), 4);
	assert_int_equal(n_event_writes(), 2); /* ensuring, ensured */
	assert_int_equal(events("SyncLoadBalancerFailed"), 0);
}

static void
a_rate_limit_is_waited_for_without_a_warning(void **state)
{
	(void)state;
	fault((struct fake_fault){
		.call = "ensure", .code = ERR_THROTTLED, .retry_after_ms = 60000, .times = 1 });
	begin_with(&web);
	rig_put(rig, &node_b); /* no reason to hurry */
	run(59);
	assert_int_equal(calls("ensure"), 1);
	run(1);
	assert_balanced("web-1", "a=fake://a,b=fake://b,");
	assert_int_equal(calls("ensure"), 2);
	assert_int_equal(events("SyncLoadBalancerFailed"), 0);
}

/* As in the Go controllers, and no sooner: the cause of a failure may need a moment to pass. */
static void
a_failure_is_tried_again_after_five_to_seven_seconds(void **state)
{
	(void)state;
	fault((struct fake_fault){ .call = "ensure", .code = ERR_UNAVAILABLE, .times = 1 });
	begin_with(&web);
	rig_advance_ms(rig, 4990);
	assert_int_equal(calls("ensure"), 1);
	rig_run(rig, 2);
	rig_advance_ms(rig, 10);
	assert_int_equal(calls("ensure"), 2);
}

static void
what_cannot_be_is_said_and_tried_every_five_minutes(void **state)
{
	(void)state;
	fault((struct fake_fault){ .call = "ensure", .code = ERR_INVALID });
	begin_with(&web);
	assert_int_equal(events("SyncLoadBalancerFailed"), 1);
	assert_non_null(strstr(fake_api_last_event(rig->api, "SyncLoadBalancerFailed"),
	                       "Error syncing load balancer: failed to ensure load balancer: "
	                       "the fake cloud fails"));
	run(1200); /* 5, 10, 20 … 300 */
	forget_calls();
	run(1800);
	assert_in_range(calls("ensure"), 6, 8);
	rig_assert_metric(rig, "ccmd_services_failing", 1);
	rig_assert_metric(rig, "ccmd_services_failing_longest_seconds", 1200 + 1800);
	fake_balancers_forget_faults(rig->balancers);
	put(&(struct fake_service){ .name = "web", .annotations = "\"k\":\"v\"" }); /* at once */
	assert_balanced("web-1", "a=fake://a,");
	rig_assert_metric(rig, "ccmd_services_failing", 0);
	rig_assert_metric(rig, "ccmd_services_failing_longest_seconds", 0);
}

static void
another_node_may_be_what_a_failure_waited_for(void **state)
{
	(void)state;
	fault((struct fake_fault){ .call = "ensure", .code = ERR_INVALID, .times = 8 });
	begin_with(&web);
	run(1200);
	fake_balancers_forget_faults(rig->balancers);
	rig_put(rig, &node_b);
	run(2);
	assert_balanced("web-1", "a=fake://a,b=fake://b,");
}

/* ---- the way out ---- */

static void
a_deleted_service_loses_its_balancer_before_its_finalizer(void **state)
{
	(void)state;
	begin_settled();
	fault((struct fake_fault){ .call = "remove", .code = ERR_UNAVAILABLE, .times = 1 });
	fake_services_delete(rig->services, "web");
	rig_deliver(rig);
	assert_true(service().is_claimed);
	assert_int_equal(events("SyncLoadBalancerFailed"), 1);
	run(RETRY_S);
	assert_false(service().exists);
	assert_int_equal(fake_balancers_count(rig->balancers), 0);
	assert_int_equal(n_patches(), 1);
	assert_int_equal(events("DeletingLoadBalancer"), 1);
	assert_int_equal(events("DeletedLoadBalancer"), 1);
	run(600);
	assert_int_equal(calls(NULL), 2);
}

/* docs/spec/framework.md, "Service retries" */
static void
a_clean_up_is_tried_every_30_seconds_at_least(void **state)
{
	(void)state;
	begin_settled();
	fault((struct fake_fault){ .call = "remove", .code = ERR_UNAVAILABLE });
	fake_services_delete(rig->services, "web");
	rig_deliver(rig);
	run(120);
	forget_calls();
	rig_put(rig, &node_b); /* no concern of it any more */
	run(300);
	assert_in_range(calls("remove"), 10, 14);
	assert_int_equal(calls("update"), 0);
	fake_balancers_forget_faults(rig->balancers);
	run(30);
	assert_false(service().exists);
}

static void
a_balancer_already_gone_releases_the_service(void **state)
{
	(void)state;
	begin_settled();
	fake_balancers_drop(rig->balancers, "web-1");
	fake_services_delete(rig->services, "web");
	rig_deliver(rig);
	assert_false(service().exists);
}

static void
another_type_takes_balancer_status_and_finalizer_away(void **state)
{
	(void)state;
	begin_settled();
	put(&plain);
	assert_int_equal(fake_balancers_count(rig->balancers), 0);
	assert_false(service().is_claimed);
	assert_string_equal(service().ingress, "");
	assert_int_equal(n_patches(), 1); /* one write for both */
	assert_int_equal(calls("remove"), 1);
	assert_int_equal(n_event_writes(), 2);
	put(&web);
	assert_balanced("web-1", "a=fake://a,");
}

static void
another_type_while_we_were_away_is_cleaned_up(void **state)
{
	(void)state;
	begin_settled();
	fake_services_put(rig->services, &plain);
	crash();
	assert_int_equal(fake_balancers_count(rig->balancers), 0);
	assert_false(service().is_claimed);
	assert_string_equal(service().ingress, "");
}

static void
other_finalizers_stay(void **state)
{
	(void)state;
	begin_with(&(struct fake_service){ .name = "web", .finalizers = "example.com/other" });
	fake_services_delete(rig->services, "web");
	rig_deliver(rig);
	assert_true(service().exists);
	assert_false(service().is_claimed);
	assert_int_equal(service().n_finalizers, 1);
	forget_calls();
	run(600); /* and it is not claimed again, which could not succeed */
	rig_put(rig, &node_b);
	run(10);
	assert_quiet();
}

/* Its balancer is there, no call tried to remove it, the provider was notified, and one Warning
 * names it. */
static void
assert_kept(const char *uid)
{
	CLEANUP(buf_fini) struct buf call = BUF_INIT(KIB(1));
	const char *message = fake_api_last_event(rig->api, "LoadBalancerKept");

	assert_int_equal(events("LoadBalancerKept"), 1);
	assert_non_null(strstr(message, uid));
	assert_non_null(strstr(message, balancer(uid).address));
	assert_true(balancer(uid).exists);
	buf_addf(&call, "remove web %s", uid);
	assert_int_equal(calls(call.ptr), 0);
	buf_reset(&call);
	buf_addf(&call, "forget - %s", uid);
	assert_int_equal(calls(call.ptr), 1);
}

static void
a_service_that_vanishes_with_our_finalizer_keeps_its_balancer(void **state)
{
	(void)state;
	begin_settled();
	store_begin_list(rig->env.services, /*is_newest=*/true); /* of an empty etcd */
	store_end_list(rig->env.services);
	run(600);
	assert_int_equal(calls(NULL), 1);
	assert_kept("web-1");
}

/* The API server is that of a rebuilt or cloned cluster: the Services have the same names and other
 * UIDs. */
static void
a_service_that_returns_under_another_uid_keeps_the_former_balancer(void **state)
{
	(void)state;
	begin_settled();
	fake_services_replace(rig->services, &web);
	rig_deliver(rig);
	run(600);
	assert_string_equal(service().uid, "web-2");
	assert_true(balancer("web-2").exists);
	assert_non_null(strstr(service().ingress, balancer("web-2").address));
	assert_kept("web-1");
	assert_int_equal(events("EnsuringLoadBalancer"), 1);
	fake_services_delete(rig->services, "web");
	rig_deliver(rig);
	assert_false(service().exists);
	assert_kept("web-1");
}

static void
a_service_that_returns_without_wanting_a_balancer_keeps_the_former_one(void **state)
{
	(void)state;
	begin_settled();
	fake_services_replace(rig->services, &plain);
	rig_deliver(rig);
	run(600);
	assert_kept("web-1");
	assert_int_equal(calls(NULL), 1);
}

/* The watch reports both changes, one after the other, before a worker gets to the Service. */
static void
a_service_that_vanishes_and_returns_at_the_same_moment_keeps_the_former_balancer(void **state)
{
	CLEANUP(object_unrefp) struct object *former = NULL;

	(void)state;
	begin_settled();
	fault((struct fake_fault){ .call = "update", .code = ERR_UNAVAILABLE, .hangs = true });
	rig_put(rig, &node_b);
	rig_settle(rig);
	former = store_get(rig->env.services, STR("default/web"));
	store_remove(rig->env.services, former);
	fake_services_replace(rig->services, &web);
	fake_services_deliver(rig->services, rig->env.services, 1);
	fake_services_replace(rig->services, &web); /* web-2 was never seen by a worker */
	fake_services_deliver(rig->services, rig->env.services, 1);
	fake_balancers_forget_faults(rig->balancers);
	rig_deliver(rig);
	run(60);
	assert_string_equal(service().uid, "web-3");
	assert_kept("web-1");
	assert_int_equal(fake_balancers_count(rig->balancers), 2);
}

static void
a_service_that_vanishes_without_it_loses_its_balancer(void **state)
{
	(void)state;
	begin_settled();
	fault((struct fake_fault){ .call = "remove", .code = ERR_UNAVAILABLE, .times = 2 });
	fake_services_strip(rig->services, "web", "service.kubernetes.io/load-balancer-cleanup");
	fake_services_delete(rig->services, "web");
	rig_deliver(rig);
	assert_int_equal(events("DeleteLoadBalancerFailed"), 1);
	run(60);
	assert_false(balancer("web-1").exists);
	assert_int_equal(calls("remove"), 3);
	assert_int_equal(events("DeletedLoadBalancer"), 1);
}

static void
retry_becomes_due(void)
{
	rig_run(rig, 10);
}

/* The Service is replaced while a worker looks for it: the store has the new one and has not
 * reported it yet. */
static void
a_service_that_returns_under_a_worker_keeps_the_former_balancer(void **state)
{
	(void)state;
	begin_settled();
	fault((struct fake_fault){ .call = "update", .code = ERR_UNAVAILABLE, .times = 1 });
	rig_put(rig, &node_b);
	rig_settle(rig);
	rig->on_removal = retry_becomes_due;
	fake_services_replace(rig->services, &web);
	rig_deliver(rig);
	run(60);
	assert_kept("web-1");
}

static void
a_service_that_returns_under_a_worker_after_its_deletion_loses_its_balancer(void **state)
{
	(void)state;
	begin_settled();
	fake_services_strip(rig->services, "web", "service.kubernetes.io/load-balancer-cleanup");
	fake_services_replace(rig->services, &web);
	fake_services_deliver(rig->services, rig->env.services, 1);
	rig_settle(rig);
	rig->on_removal = retry_becomes_due;
	rig_deliver(rig);
	run(60);
	assert_false(balancer("web-1").exists);
	assert_balanced("web-2", "a=fake://a,");
}

/* A worker looks for the Service just when it goes: the store is without it, and has not told so
 * yet. */
static void
a_service_that_vanishes_under_a_worker_loses_its_balancer(void **state)
{
	(void)state;
	begin_settled();
	fault((struct fake_fault){ .call = "update", .code = ERR_UNAVAILABLE, .times = 1 });
	rig_put(rig, &node_b);
	rig_settle(rig);
	fake_services_strip(rig->services, "web", "service.kubernetes.io/load-balancer-cleanup");
	fake_services_delete(rig->services, "web");
	rig->on_removal = retry_becomes_due;
	rig_deliver(rig);
	assert_int_equal(fake_balancers_count(rig->balancers), 0);
}

static void
a_service_of_the_same_name_waits_for_the_former_ones_balancer(void **state)
{
	(void)state;
	begin_settled();
	fault((struct fake_fault){ .call = "remove web web-1", .code = ERR_UNAVAILABLE });
	fake_services_strip(rig->services, "web", "service.kubernetes.io/load-balancer-cleanup");
	fake_services_delete(rig->services, "web");
	put(&web);
	assert_string_equal(service().uid, "web-2");
	run(2);
	assert_int_equal(calls("ensure web web-2"), 0);
	fake_balancers_forget_faults(rig->balancers);
	run(20);
	assert_false(balancer("web-1").exists);
	assert_balanced("web-2", "a=fake://a,");
	assert_int_equal(events("EnsuringLoadBalancer"), 1);
}

/* The one whose balancer is left is not the one that was seen last. */
static void
two_services_that_vanish_one_after_the_other_leave_nothing(void **state)
{
	(void)state;
	begin_settled();
	fault((struct fake_fault){
		.call = "remove web web-1", .code = ERR_UNAVAILABLE, .times = 3 });
	fake_services_strip(rig->services, "web", "service.kubernetes.io/load-balancer-cleanup");
	fake_services_delete(rig->services, "web");
	put(&web);
	fake_services_delete(rig->services, "web");
	rig_deliver(rig);
	run(120);
	assert_int_equal(fake_balancers_count(rig->balancers), 0);
	assert_false(service().exists);
}

/* ---- others write at the same time ---- */

static void
a_service_gone_before_it_was_claimed_gets_nothing(void **state)
{
	(void)state;
	fake_services_put(rig->services, &web);
	rig_sync_services(rig);
	fake_services_put(rig->services, &(struct fake_service){ .name = "late" });
	fake_services_deliver(rig->services, rig->env.services, 10);
	fake_services_delete(rig->services, "late");
	rig_deliver(rig);
	run(60);
	assert_int_equal(fake_balancers_count_of(rig->balancers, "late"), 0);
	assert_int_equal(fake_api_events(rig->api, "SyncLoadBalancerFailed", NULL), 0);
}

static void
a_conflict_is_tried_again_without_a_warning(void **state)
{
	(void)state;
	fake_api_rule(rig->api, (struct api_rule){ .method = HTTP_PATCH,
	                                           .part = "/services/",
	                                           .times = 1,
	                                           .status = 409 });
	begin_with(&web);
	assert_int_equal(calls("ensure"), 0);
	run(1);
	assert_balanced("web-1", "a=fake://a,");
	assert_int_equal(events("SyncLoadBalancerFailed"), 0);
}

/* An admission webhook answers 409. The first two answers are treated like conflicts between
 * writers. */
static void
a_conflict_that_lasts_is_a_failure_like_others(void **state)
{
	(void)state;
	fake_api_rule(rig->api, (struct api_rule){ .method = HTTP_PATCH,
	                                           .part = "/services/",
	                                           .status = 409 });
	begin_with(&web);
	run(1);
	assert_int_equal(n_patches(), 2);
	assert_int_equal(events("SyncLoadBalancerFailed"), 0);
	run(1);
	assert_int_equal(n_patches(), 3);
	assert_int_equal(events("SyncLoadBalancerFailed"), 1);
	assert_non_null(strstr(fake_api_last_event(rig->api, "SyncLoadBalancerFailed"), "409"));
	run(1200);
	forget_calls();
	run(1800);
	assert_in_range(n_patches(), 5, 8); /* every five minutes */
	fake_api_forget_rules(rig->api);
	run(400);
	assert_balanced("web-1", "a=fake://a,");
}

/* The finalizer can be written, so one write succeeds in each run. */
static int
refuse_status(void *services, const struct api_request *request, struct buf *body)
{
	return strstr(request->body, "\"ingress\"") ? 409
	                                            : fake_services_answer(services, request, body);
}

static void
a_conflict_about_the_status_alone_is_a_failure_when_it_lasts(void **state)
{
	(void)state;
	fake_api_answer_with(rig->api, refuse_status, rig->services);
	begin_with(&web);
	run(2);
	assert_int_equal(events("SyncLoadBalancerFailed"), 1);
	run(1200);
	forget_calls();
	run(1800);
	assert_in_range(calls("ensure"), 5, 8);
	fake_api_answer_with(rig->api, fake_services_answer, rig->services);
	run(400);
	assert_balanced("web-1", "a=fake://a,");
	forget_calls();
	fake_api_rule(rig->api, (struct api_rule){ .method = HTTP_PATCH,
	                                           .part = "/services/",
	                                           .times = 2,
	                                           .status = 409 });
	put(&plain);
	run(2); /* the count begins again */
	assert_false(service().is_claimed);
	assert_int_equal(events("SyncLoadBalancerFailed"), 0);
}

/* The watch of Services lags: a new Service has the name, and the store still shows the former
 * one. */
static void
a_watch_that_lags_for_long_is_reported(void **state)
{
	(void)state;
	begin_settled();
	fake_services_set_status(rig->services, "web", "[{\"ip\":\"192.0.2.99\"}]");
	rig_deliver(rig);
	fake_services_replace(rig->services, &web);
	service_controller_wake(rig->balancing, STR("default/web"));
	rig_run(rig, 3);
	assert_int_equal(events("SyncLoadBalancerFailed"), 1);
	rig_run(rig, 600);
	assert_in_range(n_patches(), 6, 12);
	run(10);
	assert_true(balancer("web-2").exists);
}

/* The store lags: what it shows has been replaced by another of the same name. */
static void
a_status_is_not_written_to_anothers_name(void **state)
{
	(void)state;
	begin_settled();
	fault((struct fake_fault){ .call = "ensure web web-1", .hangs = true });
	fake_services_put(rig->services,
	                  &(struct fake_service){ .name = "web", .annotations = "\"k\":\"v\"" });
	fake_services_deliver(rig->services, rig->env.services, 1);
	rig_settle(rig);
	fake_services_strip(rig->services, "web", "service.kubernetes.io/load-balancer-cleanup");
	fake_services_delete(rig->services, "web");
	fake_services_put(rig->services, &web);
	fake_balancers_forget_faults(rig->balancers);
	rig_settle(rig);
	assert_string_equal(service().ingress, "");
	rig_deliver(rig);
	run(5);
	assert_balanced("web-2", "a=fake://a,");
	assert_int_equal(fake_balancers_count(rig->balancers), 1);
}

/* Else the balancer would be left when the Service is deleted. */
static void
a_finalizer_that_was_taken_off_is_put_back(void **state)
{
	(void)state;
	begin_settled();
	fake_services_strip(rig->services, "web", "service.kubernetes.io/load-balancer-cleanup");
	rig_deliver(rig);
	assert_balanced("web-1", "a=fake://a,");
	assert_int_equal(n_patches(), 1);
}

static void
a_finalizer_that_is_taken_off_for_an_hour_costs_little(void **state)
{
	(void)state;
	begin_settled();
	for (int i = 0; i < 600; i++) {
		fake_services_strip(rig->services, "web",
		                    "service.kubernetes.io/load-balancer-cleanup");
		rig_deliver(rig);
		run(6);
	}
	assert_in_range(fake_balancers_calls(rig->balancers, "ensure"), 5, PACE_HOUR);
	assert_in_range(n_patches(), 5, PACE_HOUR);
}

/* For an hour, another client labels a node and removes the label again, every six seconds. */
static void
a_node_that_alternates_as_a_target_costs_little(void **state)
{
	(void)state;
	begin_settled();
	for (int i = 0; i < 600; i++) {
		char version[16];

		(void)snprintf(version, sizeof(version), "%d", 100000 + i);
		rig_put(rig,
		        &(struct rig_node){
				.name = "a",
				.version = version,
				.provider_id = "fake://a",
				.labels =
					i % 2 ? NULL
					      : "\"node.kubernetes.io/exclude-from-external-load-balancers\":\"\"" });
		run(6);
	}
	assert_in_range(fake_balancers_calls(rig->balancers, "update"), 5, PACE_HOUR);
}

/* The change is made, but its answer is lost. */
static int
answer_lost(void *services, const struct api_request *request, struct buf *body)
{
	return fake_services_answer(services, request, body) == 200 ? 500 : 0;
}

static void
a_release_whose_answer_was_lost_may_have_happened(void **state)
{
	(void)state;
	begin_settled();
	fake_services_put(rig->services, &plain);
	fake_api_answer_with(rig->api, answer_lost, rig->services);
	fake_services_deliver(rig->services, rig->env.services, 1);
	rig_settle(rig);
	fake_api_answer_with(rig->api, fake_services_answer, rig->services);
	assert_false(service().is_claimed);
	put(&web);
	assert_balanced("web-1", "a=fake://a,");
}

/* It is not released by what the store showed before. */
static void
a_service_that_wants_its_balancer_back_keeps_its_finalizer(void **state)
{
	(void)state;
	begin_settled();
	fake_services_put(rig->services, &plain);
	fake_services_put(rig->services, &web);
	fake_services_deliver(rig->services, rig->env.services, 1);
	rig_settle(rig);
	assert_true(service().is_claimed);
	fake_services_deliver(rig->services, rig->env.services, 1);
	rig_settle(rig);
	assert_balanced("web-1", "a=fake://a,");
	rig_deliver(rig);
	assert_balanced("web-1", "a=fake://a,");
}

/* ---- nodes ---- */

static void
new_nodes_are_passed_on_immediately(void **state)
{
	(void)state;
	begin_settled();
	rig_put(rig, &node_b);
	rig_settle(rig);
	assert_string_equal(fake_balancers_last(rig->balancers), "update web web-1 a,b,");
	assert_balanced("web-1", "a=fake://a,b=fake://b,");
	assert_int_equal(events("UpdatedLoadBalancer"), 1);
	assert_int_equal(n_patches(), 0);
	run(5);
	rig_remove(rig, "a");
	rig_settle(rig);
	assert_balanced("web-1", "b=fake://b,");
	assert_int_equal(calls(NULL), 2);
}

/* docs/spec/framework.md, "Targets" */
static void
only_another_set_of_nodes_is_passed_on(void **state)
{
	static const struct rig_node versions[] = {
		{ .name = "a", .version = "8", .provider_id = "fake://a", .ready = "False" },
		{ .name = "a", .version = "9", .provider_id = "fake://a", .labels = "\"x\":\"y\"" },
		{ .name = "a",
		  .version = "10",
		  .provider_id = "fake://a",
		  .labels =
		          "\"node.kubernetes.io/exclude-from-external-load-balancers\":\"false\"" },
		{ .name = "a",
		  .version = "11",
		  .uid = "u-other",
		  .provider_id = "fake://a" }, /* re-created, the same machine */
	};

	(void)state;
	begin_settled();
	for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
		rig_put(rig, &versions[i]);
		run(2);
		assert_int_equal(calls(NULL), 0);
	}
	rig_put(rig, &(struct rig_node){ .name = "a", .version = "12", .provider_id = "fake://c" });
	run(2);
	assert_int_equal(calls("update"), 1);
	assert_balanced("web-1", "a=fake://c,");
}

/* Only the older of the two is a target, as before. */
static void
a_node_with_the_provider_id_of_a_target_changes_nothing(void **state)
{
	(void)state;
	begin_settled();
	rig_put(rig, &(struct rig_node){ .name = "b", .provider_id = "fake://a" });
	run(2);
	assert_int_equal(calls(NULL), 0);
	rig_put(rig, &(struct rig_node){ .name = "c", .provider_id = "fake://c" });
	run(2);
	assert_balanced("web-1", "a=fake://a,c=fake://c,");
	rig_remove(rig, "a");
	run(2);
	assert_balanced("web-1", "b=fake://a,c=fake://c,");
}

static void
excluded_nodes_are_no_targets(void **state)
{
	(void)state;
	begin_settled();
	rig_put(rig, &node_b);
	run(2);
	rig_put(rig,
	        &(struct rig_node){
			.name = "b",
			.version = "8",
			.provider_id = "fake://b",
			.labels =
				"\"node.kubernetes.io/exclude-from-external-load-balancers\":\"\"" });
	run(2);
	assert_balanced("web-1", "a=fake://a,");
	assert_int_equal(calls("update"), 2);
	/* the autoscaler's taint alone leads to nothing (docs/spec/framework.md, "Targets") … */
	rig_put(rig,
	        &(struct rig_node){
			.name = "a",
			.version = "9",
			.provider_id = "fake://a",
			.taints =
				"{\"key\":\"ToBeDeletedByClusterAutoscaler\",\"effect\":\"NoSchedule\"}" });
	run(2);
	assert_int_equal(calls(NULL), 2);
	/* … but the next sync takes the node out */
	rig_put(rig, &(struct rig_node){ .name = "c", .provider_id = "fake://c" });
	run(2);
	assert_balanced("web-1", "c=fake://c,");
	/* and the node returns if the autoscaler keeps it */
	rig_put(rig, &(struct rig_node){ .name = "a", .version = "10", .provider_id = "fake://a" });
	run(2);
	assert_balanced("web-1", "a=fake://a,c=fake://c,");
}

/* A cloud that does not name its prefix gets them, as cloudlycke, which serves by addresses, and
 * hcloud, which reports them. */
static void
nodes_of_other_clouds_are_targets_only_where_no_prefix_is_named(void **state)
{
	(void)state;
	begin_settled();
	rig_put(rig, &(struct rig_node){ .name = "b", .provider_id = "other://b" });
	run(2);
	assert_balanced("web-1", "a=fake://a,b=other://b,");
	fake_cloud_name_prefix(rig->cloud);
	rig_put(rig, &(struct rig_node){ .name = "c", .provider_id = "fake://c" });
	rig_put(rig, &(struct rig_node){ .name = "d" });
	run(2);
	assert_balanced("web-1", "a=fake://a,c=fake://c,");
}

static void
churn_of_nodes_changes_targets_once_a_second(void **state)
{
	(void)state;
	begin_settled();
	for (int i = 0; i < 100; i++) { /* 10 seconds */
		struct rig_node flapping = node_b;
		char version[16];

		(void)snprintf(version, sizeof(version), "%d", 10 + i);
		flapping.version = version;
		if (i % 2 == 0)
			rig_put(rig, &flapping);
		else
			rig_remove(rig, "b");
		rig_advance_ms(rig, 100);
	}
	run(2);
	assert_in_range(calls("update"), 1, 11);
	assert_balanced("web-1", "a=fake://a,");
}

static void
flap(unsigned seconds)
{
	struct rig_node flapping = node_b;
	static unsigned turn = 100;
	char version[16];

	for (unsigned i = 0; i < seconds; i++, turn++) {
		(void)snprintf(version, sizeof(version), "%u", turn);
		flapping.version = version;
		if (turn % 2 == 0)
			rig_put(rig, &flapping);
		else
			rig_remove(rig, "b");
		rig_run(rig, 1);
	}
}

/* Else a node that flaps would use up the 25 events that an object may have, and its deletion would
 * not be told. */
static void
flapping_is_reported_less_and_less_often(void **state)
{
	(void)state;
	begin_settled();
	flap(50);
	assert_in_range(calls("update"), 45, 51);
	assert_int_equal(events("UpdatedLoadBalancer"), 1);
	assert_int_equal(n_event_writes(), 1);
	run(30);
	assert_int_equal(n_event_writes(), 2); /* the last change is reported too */
	flap(600);
	assert_in_range(n_event_writes(), 4, 5);
	run(900);
	forget_calls();
	flap(2);
	assert_int_equal(n_event_writes(), 1);
}

static void
targets_that_take_the_cloud_some_time_are_reported(void **state)
{
	(void)state;
	begin_settled();
	fault((struct fake_fault){
		.call = "update", .code = ERR_PENDING, .retry_after_ms = 500, .times = 1 });
	rig_put(rig, &node_b);
	rig_settle(rig);
	assert_int_equal(events("UpdatedLoadBalancer"), 0);
	run(2);
	assert_balanced("web-1", "a=fake://a,b=fake://b,");
	assert_int_equal(events("UpdatedLoadBalancer"), 1);
	assert_int_equal(n_event_writes(), 1);
}

static void
a_balancer_that_is_missing_is_made_again(void **state)
{
	(void)state;
	begin_settled();
	fake_balancers_drop(rig->balancers, "web-1");
	rig_put(rig, &node_b);
	rig_deliver(rig);
	assert_balanced("web-1", "a=fake://a,b=fake://b,");
	assert_int_equal(calls("update"), 1);
	assert_int_equal(calls("ensure"), 1);
	assert_int_equal(events("UpdateLoadBalancerFailed"), 0);
}

static void
an_update_that_fails_leads_to_a_full_sync(void **state)
{
	(void)state;
	begin_settled();
	fault((struct fake_fault){ .call = "update", .code = ERR_UNAVAILABLE, .times = 1 });
	rig_put(rig, &node_b);
	rig_settle(rig);
	assert_int_equal(events("UpdateLoadBalancerFailed"), 1);
	assert_int_equal(events("SyncLoadBalancerFailed"), 0);
	assert_non_null(
		strstr(fake_api_last_event(rig->api, "UpdateLoadBalancerFailed"),
	               "Error updating load balancer with new hosts [a b] [node names limited, "
	               "total number of nodes: 2], error: the fake cloud fails"));
	run(RETRY_S);
	assert_balanced("web-1", "a=fake://a,b=fake://b,");
	assert_int_equal(calls("ensure"), 1);
}

static void
no_nodes_are_said_once(void **state)
{
	(void)state;
	begin_settled();
	rig_remove(rig, "a");
	run(2);
	assert_balanced("web-1", "");
	assert_int_equal(events("UnAvailableLoadBalancer"), 1);
	assert_int_equal(events("UpdatedLoadBalancer"), 0);
	service_controller_wake(rig->balancing, STR_EMPTY);
	run(5);
	assert_int_equal(n_event_writes(), 3); /* with ensuring, ensured */
	assert_int_equal(events("UnAvailableLoadBalancer"), 1);
}

/* The first node has another address now. */
static struct rig_node
move_node_a(void)
{
	struct rig_node moved = node_a;

	moved.version = "8";
	moved.addresses = "{\"type\":\"InternalIP\",\"address\":\"10.0.0.9\"}";
	rig_put(rig, &moved);
	run(2);
	return moved;
}

static void
addresses_matter_where_the_cloud_uses_them(void **state)
{
	struct rig_node moved;

	(void)state;
	begin_settled();
	moved = move_node_a();
	assert_int_equal(calls("update web web-1 a,"), 1);
	moved.version = "9";
	moved.ready = "False";
	rig_put(rig, &moved);
	run(2);
	assert_int_equal(calls(NULL), 1);
}

static void
addresses_are_nothing_to_other_clouds(void **state)
{
	(void)state;
	begin_settled();
	move_node_a();
	assert_int_equal(calls(NULL), 0);
}

static void
labels_matter_where_the_cloud_selects(void **state)
{
	(void)state;
	begin_with(&(struct fake_service){ .name = "web", .annotations = "\"pool\":\"x\"" });
	assert_balanced("web-1", "");
	run(2);
	rig_put(rig, &(struct rig_node){ .name = "a",
	                                 .version = "8",
	                                 .provider_id = "fake://a",
	                                 .labels = "\"pool\":\"x\"" });
	run(2);
	assert_balanced("web-1", "a=fake://a,");
	forget_calls();
	rig_put(rig, &(struct rig_node){ .name = "a",
	                                 .version = "9",
	                                 .provider_id = "fake://a",
	                                 .labels = "\"pool\":\"x\",\"other\":\"y\"" });
	run(2);
	assert_int_equal(calls(NULL), 0);
}

/* ---- another controller's ---- */

static void
what_is_handled_elsewhere_gets_no_status(void **state)
{
	(void)state;
	begin_with(&(struct fake_service){ .name = "web", .annotations = "\"elsewhere\":\"\"" });
	assert_int_equal(calls("ensure"), 1);
	assert_true(service().is_claimed); /* docs/spec/framework.md, "Implemented elsewhere" */
	assert_string_equal(service().ingress, "");
	assert_int_equal(events("EnsuredLoadBalancer"), 0);
	rig_put(rig, &node_b);
	run(60);
	assert_int_equal(calls(NULL), 2); /* with adopt */
	put(&web);
	assert_balanced("web-1", "a=fake://a,b=fake://b,");
	assert_int_equal(events("EnsuredLoadBalancer"), 1);
}

static void
what_is_partial_has_its_status_and_is_tried_again(void **state)
{
	(void)state;
	begin_with(&(struct fake_service){ .name = "web", .annotations = "\"partial\":\"\"" });
	assert_int_equal(calls("ensure"), 1);
	assert_non_null(strstr(service().ingress, "192.0.2.1"));
	assert_int_equal(events("SyncLoadBalancerFailed"), 1);
	assert_int_equal(events("EnsuredLoadBalancer"), 0);
	run(RETRY_S);
	assert_int_equal(calls("ensure"), 2);
	put(&web);
	assert_int_equal(events("EnsuredLoadBalancer"), 1);
	forget_calls();
	run(600);
	assert_int_equal(calls("ensure"), 0);
}

/* ---- many Services together ---- */

static int
set_up_many(void **state)
{
	(void)state;
	return set_up_with(3, /*selects=*/false);
}

static void
a_slow_service_delays_no_other(void **state)
{
	char name[16];

	(void)state;
	fault((struct fake_fault){ .call = "ensure slow", .hangs = true });
	fake_services_put(rig->services, &(struct fake_service){ .name = "slow" });
	fake_services_put(rig->services, &(struct fake_service){ .name = "slow2" });
	for (int i = 0; i < 20; i++) {
		(void)snprintf(name, sizeof(name), "s%d", i);
		fake_services_put(rig->services, &(struct fake_service){ .name = name });
	}
	begin_with(NULL);
	assert_int_equal(fake_balancers_count(rig->balancers), 20);
	rig_put(rig, &node_b); /* what hangs is not disturbed: the fake ends the program */
	run(2);
	assert_int_equal(calls("update"), 20);
	fake_balancers_forget_faults(rig->balancers);
	run(5);
	assert_int_equal(fake_balancers_count(rig->balancers), 22);
}

static void
existing_ones_are_adopted_before_all_else(void **state)
{
	(void)state;
	fault((struct fake_fault){ .call = "adopt", .code = ERR_UNAVAILABLE, .times = 2 });
	fake_services_put(rig->services, &web);
	begin_with(&(struct fake_service){ .name = "none", .type = "ClusterIP" });
	assert_string_equal(fake_balancers_last(rig->balancers), "adopt - web-1, ");
	assert_int_equal(calls(NULL), 1);
	run(40);
	assert_int_equal(calls("adopt"), 3);
	assert_balanced("web-1", "a=fake://a,");
}

/* The status of the others is not about our balancers: it is another controller's, or about a
 * balancer that is gone. */
static void
only_services_of_this_controller_are_adopted(void **state)
{
	const char *last;

	(void)state;
	fake_services_put(rig->services, &web);
	fake_services_put(rig->services,
	                  &(struct fake_service){ "theirs", .class = "x", .finalizers = OURS });
	fake_services_put(rig->services,
	                  &(struct fake_service){ "dying", .finalizers = "example.com/hold" });
	fake_services_put(rig->services, &(struct fake_service){ "going", .finalizers = OURS });
	fake_services_put(rig->services,
	                  &(struct fake_service){ "was", .type = "ClusterIP", .finalizers = OURS });
	fake_services_delete(rig->services, "dying");
	fake_services_delete(rig->services, "going");
	fault((struct fake_fault){ .call = "adopt", .hangs = true });
	begin_with(NULL);
	last = fake_balancers_last(rig->balancers); /* in any order */
	assert_int_equal(strlen(last), strlen("adopt - web-1,leaving:going-4,leaving:was-5, "));
	assert_non_null(strstr(last, "web-1,"));
	assert_non_null(strstr(last, "leaving:going-4,"));
	assert_non_null(strstr(last, "leaving:was-5,"));
	fake_balancers_forget_faults(rig->balancers);
}

/* A Service of any tenant may be too large: that concerns no other Service. */
static void
a_service_beyond_the_limits_concerns_no_other(void **state)
{
	CLEANUP(buf_fini) struct buf spec = BUF_INIT(MIB(1));

	(void)state;
	buf_add_c(&spec,
	          "\"ports\":[{\"port\":80,\"nodePort\":30080}],\"loadBalancerSourceRanges\":[");
	for (int i = 0; i <= LIMIT_BALANCER_RANGES; i++)
		buf_addf(&spec, "%s\"10.%d.%d.0/24\"", i > 0 ? "," : "", i / 256, i % 256);
	buf_add_c(&spec, "]");
	fake_services_put(rig->services, &web);
	fake_services_put(rig->services, &(struct fake_service){ "large", .spec = spec.ptr });
	fault((struct fake_fault){ .call = "adopt", .hangs = true });
	begin_with(NULL);
	assert_int_equal(calls("adopt - web-1,bare:large-2,") +
	                         calls("adopt - bare:large-2,web-1,"),
	                 1);
	fake_balancers_forget_faults(rig->balancers);
	run(40);
	assert_balanced("web-1", "a=fake://a,");
	assert_int_equal(calls("ensure large"), 0);
	assert_true(fake_api_events(rig->api, "SyncLoadBalancerFailed", "large") > 0);
	assert_int_equal(fake_api_events(rig->api, "SyncLoadBalancerFailed", "web"), 0);
	fake_services_delete(rig->services, "large");
	rig_deliver(rig);
	run(40);
	assert_int_equal(calls("remove large large-2"), 1);
	assert_false(fake_services_get(rig->services, "large").exists);
}

static void
what_prevents_adoption_is_reported_now_and_then(void **state)
{
	(void)state;
	fault((struct fake_fault){ .call = "adopt", .code = ERR_UNAVAILABLE });
	begin_with(&web);
	run(240);
	assert_in_range(calls("adopt"), 5, 12); /* more and more seldom */
	assert_int_equal(fake_api_events(rig->api, "AdoptLoadBalancersFailed", "kube-system"), 1);
	assert_non_null(strstr(fake_api_last_event(rig->api, "AdoptLoadBalancersFailed"),
	                       "Load balancers that exist cannot be taken over: the fake cloud"));
	assert_int_equal(n_event_writes(), 1);
	run(300);
	assert_int_equal(n_event_writes(), 2);
	fake_balancers_forget_faults(rig->balancers);
	run(120);
	assert_balanced("web-1", "a=fake://a,");
}

/* Waiting for a rate limit is no trouble, and as long as the cloud says. */
static void
adopting_waits_for_the_time_that_the_provider_names(void **state)
{
	(void)state;
	fault((struct fake_fault){
		.call = "adopt", .code = ERR_THROTTLED, .retry_after_ms = 20000, .times = 1 });
	begin_with(&web);
	run(18);
	assert_int_equal(calls("adopt"), 1);
	run(4);
	assert_int_equal(calls("adopt"), 2);
	assert_int_equal(fake_api_events(rig->api, "AdoptLoadBalancersFailed", "kube-system"), 0);
	assert_balanced("web-1", "a=fake://a,");
}

static void
all_are_compared_once_an_hour_and_a_failed_list_is_retried_soon(void **state)
{
	(void)state;
	begin_settled();
	run(HOUR_S - 10);
	assert_quiet();
	fault((struct fake_fault){ .call = "adopt", .code = ERR_UNAVAILABLE, .times = 2 });
	run(40);
	assert_int_equal(calls("adopt"), 3);
	assert_int_equal(calls("ensure web web-1 a,"), 1);
	assert_int_equal(n_event_writes() + n_patches(), 0);
	run(HOUR_S - 100);
	assert_int_equal(calls(NULL), 4);
	run(100);
	assert_int_equal(calls("adopt"), 4);
	assert_int_equal(calls("ensure web web-1 a,"), 2);
}

static void
a_comparison_of_which_the_list_keeps_failing_costs_little(void **state)
{
	(void)state;
	begin_settled();
	fault((struct fake_fault){ .call = "adopt", .code = ERR_UNAVAILABLE });
	run(2 * HOUR_S);
	assert_in_range(calls("adopt"), 12, 20);
	assert_int_equal(calls("ensure"), 0);
	fake_balancers_forget_faults(rig->balancers);
	run(HOUR_S);
	assert_int_equal(calls("ensure"), 1);
}

static void
stopping_lets_what_runs_finish(void **state)
{
	(void)state;
	fault((struct fake_fault){ .call = "ensure", .hangs = true });
	begin_with(&web);
	queue_shut_down(service_controller_queue(rig->balancing));
	assert_false(queue_wait_idle(service_controller_queue(rig->balancing),
	                             clock_mono(rig->clock)));
	fake_balancers_forget_faults(rig->balancers);
	assert_true(queue_wait_idle(service_controller_queue(rig->balancing), CLOCK_FOREVER));
	assert_balanced("web-1", "a=fake://a,");
}

static void
what_does_not_finish_is_cancelled(void **state)
{
	(void)state;
	fault((struct fake_fault){ .call = "ensure", .hangs = true });
	begin_with(&web);
	crash(); /* joins */
	fake_balancers_forget_faults(rig->balancers);
	run(5);
	assert_balanced("web-1", "a=fake://a,");
}

static void
stopping_while_adopting_ends_all_workers(void **state)
{
	(void)state;
	fault((struct fake_fault){ .call = "adopt", .hangs = true });
	begin_with(&web);
	crash(); /* joins */
	fake_balancers_forget_faults(rig->balancers);
	run(5);
	assert_balanced("web-1", "a=fake://a,");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_service_gets_a_finalizer_a_balancer_and_a_status_in_this_order),
		TEST(no_balancer_is_made_before_the_finalizer_is_on),
		TEST(services_that_want_none_are_left_alone),
		TEST(the_finalizer_of_another_class_is_left_to_its_controller),
		TEST(a_balancer_left_under_another_class_is_removed),
		TEST(a_class_that_is_served_keeps_finalizer_and_status),
		TEST(a_service_that_loses_its_class_is_released),
		TEST(a_service_of_another_class_is_released_where_it_had_our_balancer),
		TEST(a_service_held_by_another_finalizer_loses_its_status),
		TEST(what_concerns_the_balancer_leads_to_a_sync),
		TEST(nothing_is_written_when_all_is_right),
		TEST(a_restart_changes_and_reports_nothing),
		TEST(an_api_server_without_ip_modes_is_not_written_to_for_ever),
		TEST(a_status_is_never_emptied_by_a_failure),
		TEST(a_cloud_that_is_still_at_it_is_asked_again_in_time),
		TEST(a_rate_limit_is_waited_for_without_a_warning),
		TEST(a_failure_is_tried_again_after_five_to_seven_seconds),
		TEST(what_cannot_be_is_said_and_tried_every_five_minutes),
		TEST(another_node_may_be_what_a_failure_waited_for),
		TEST(a_deleted_service_loses_its_balancer_before_its_finalizer),
		TEST(a_clean_up_is_tried_every_30_seconds_at_least),
		TEST(a_balancer_already_gone_releases_the_service),
		TEST(another_type_takes_balancer_status_and_finalizer_away),
		TEST(another_type_while_we_were_away_is_cleaned_up),
		TEST(other_finalizers_stay),
		TEST(a_service_that_vanishes_with_our_finalizer_keeps_its_balancer),
		TEST(a_service_that_returns_under_another_uid_keeps_the_former_balancer),
		TEST(a_service_that_returns_without_wanting_a_balancer_keeps_the_former_one),
		TEST(a_service_that_vanishes_and_returns_at_the_same_moment_keeps_the_former_balancer),
		TEST(a_service_that_returns_under_a_worker_keeps_the_former_balancer),
		TEST(a_service_that_returns_under_a_worker_after_its_deletion_loses_its_balancer),
		TEST(a_service_that_vanishes_without_it_loses_its_balancer),
		TEST(a_service_that_vanishes_under_a_worker_loses_its_balancer),
		TEST(a_service_of_the_same_name_waits_for_the_former_ones_balancer),
		TEST(two_services_that_vanish_one_after_the_other_leave_nothing),
		TEST(a_service_gone_before_it_was_claimed_gets_nothing),
		TEST(a_conflict_is_tried_again_without_a_warning),
		TEST(a_conflict_that_lasts_is_a_failure_like_others),
		TEST(a_conflict_about_the_status_alone_is_a_failure_when_it_lasts),
		TEST(a_watch_that_lags_for_long_is_reported),
		TEST(a_status_is_not_written_to_anothers_name),
		TEST(a_finalizer_that_was_taken_off_is_put_back),
		TEST(a_finalizer_that_is_taken_off_for_an_hour_costs_little),
		TEST(a_node_that_alternates_as_a_target_costs_little),
		TEST(a_release_whose_answer_was_lost_may_have_happened),
		TEST(a_service_that_wants_its_balancer_back_keeps_its_finalizer),
		TEST(new_nodes_are_passed_on_immediately),
		TEST(only_another_set_of_nodes_is_passed_on),
		TEST(a_node_with_the_provider_id_of_a_target_changes_nothing),
		TEST(excluded_nodes_are_no_targets),
		TEST(nodes_of_other_clouds_are_targets_only_where_no_prefix_is_named),
		TEST(churn_of_nodes_changes_targets_once_a_second),
		TEST(flapping_is_reported_less_and_less_often),
		TEST(targets_that_take_the_cloud_some_time_are_reported),
		TEST(a_balancer_that_is_missing_is_made_again),
		TEST(an_update_that_fails_leads_to_a_full_sync),
		TEST(no_nodes_are_said_once),
		TEST(addresses_are_nothing_to_other_clouds),
		cmocka_unit_test_setup_teardown(addresses_matter_where_the_cloud_uses_them,
		                                set_up_selecting, tear_down),
		cmocka_unit_test_setup_teardown(labels_matter_where_the_cloud_selects,
		                                set_up_selecting, tear_down),
		TEST(what_is_handled_elsewhere_gets_no_status),
		TEST(what_is_partial_has_its_status_and_is_tried_again),
		cmocka_unit_test_setup_teardown(a_slow_service_delays_no_other, set_up_many,
		                                tear_down),
		TEST(existing_ones_are_adopted_before_all_else),
		TEST(only_services_of_this_controller_are_adopted),
		TEST(a_service_beyond_the_limits_concerns_no_other),
		TEST(what_prevents_adoption_is_reported_now_and_then),
		TEST(adopting_waits_for_the_time_that_the_provider_names),
		cmocka_unit_test_setup_teardown(
			all_are_compared_once_an_hour_and_a_failed_list_is_retried_soon,
			set_up_comparing, tear_down),
		cmocka_unit_test_setup_teardown(
			a_comparison_of_which_the_list_keeps_failing_costs_little, set_up_comparing,
			tear_down),
		TEST(stopping_lets_what_runs_finish),
		TEST(what_does_not_finish_is_cancelled),
		TEST(stopping_while_adopting_ends_all_workers),
	};

	return cmocka_run_group_tests_name("service", tests, NULL, NULL);
}
