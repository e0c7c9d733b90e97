/* What a provider is given: events, wake-ups, nodes. */
#include "controllers/rig.h"

#include <stdlib.h>

#include "base/limits.h"
#include "controllers/host.h"
#include "kube/service.h"

static struct rig *rig;
static struct host *host;
static const struct cloud_host *given;
static struct fence fence = FENCE_OPEN;

static int
set_up(void **state)
{
	(void)state;
	rig = rig_new();
	host = host_new(&(struct host_config){ .clock = rig->clock,
	                                       .fence = &fence,
	                                       .nodes = rig->env.nodes,
	                                       .recorder = rig->env.recorder });
	given = host_cloud_host(host);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	unsetenv("POD_NAME");
	unsetenv("POD_NAMESPACE");
	unsetenv("POD_UID");
	host_free(host);
	rig_free(rig);
	return 0;
}

static const struct api_request *
event(const struct node_ref *ref, enum host_event type)
{
	given->event(given, ref, type, "InventoryReloaded", STR("seven machines"));
	rig_settle(rig);
	return fake_api_nth(rig->api, HTTP_POST, "/events", 0);
}

static void
assert_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("%s\nis not in\n%s", part, text);
}

static void
clock_and_fence_are_ours(void **state)
{
	(void)state;
	assert_ptr_equal(given->clock, rig->clock);
	assert_ptr_equal(given->fence, &fence);
}

static void
an_event_on_a_node_names_it(void **state)
{
	const struct node_ref ref = { .name = STR("a"), .uid = STR("u-a") };
	const struct api_request *r = event(&ref, HOST_EVENT_WARNING);

	(void)state;
	assert_string_equal(r->target, "/api/v1/namespaces/default/events");
	assert_has(
		r->body,
		"\"involvedObject\":{\"kind\":\"Node\",\"name\":\"a\",\"uid\":\"u-a\",\"apiVersion\":\"v1\"}");
	assert_has(r->body, "\"reason\":\"InventoryReloaded\"");
	assert_has(r->body, "\"message\":\"seven machines\"");
	assert_has(r->body, "\"type\":\"Warning\"");
}

static void
an_event_about_ourselves_is_on_our_pod(void **state)
{
	const struct api_request *r;

	(void)state;
	setenv("POD_NAME", "ccmd-0", 1);
	setenv("POD_NAMESPACE", "system", 1);
	setenv("POD_UID", "u-pod", 1);
	r = event(NULL, HOST_EVENT_NORMAL);
	assert_string_equal(r->target, "/api/v1/namespaces/system/events");
	assert_has(
		r->body,
		"\"involvedObject\":{\"kind\":\"Pod\",\"namespace\":\"system\",\"name\":\"ccmd-0\",\"uid\":\"u-pod\"");
	assert_has(r->body, "\"type\":\"Normal\"");
}

static void
without_a_pod_it_is_on_the_namespace(void **state)
{
	const struct api_request *r;

	(void)state;
	setenv("POD_NAME", "ccmd-0", 1);
	r = event(NULL, HOST_EVENT_NORMAL);
	assert_string_equal(r->target, "/api/v1/namespaces/default/events");
	assert_has(
		r->body,
		"\"involvedObject\":{\"kind\":\"Namespace\",\"name\":\"kube-system\",\"apiVersion\":\"v1\"}");
}

/* ---- wake-ups ---- */

struct heard {
	int n;
	enum host_requeue what;
	char key[16];
};

static void
hear(void *arg, enum host_requeue what, struct str key)
{
	struct heard *heard = arg;

	heard->n++;
	heard->what = what;
	snprintf(heard->key, sizeof(heard->key), "%" STR_FMT, STR_ARG(key));
}

static void
a_wake_up_reaches_a_registered_handler(void **state)
{
	struct heard heard = { 0 };

	(void)state;
	given->requeue(given, HOST_REQUEUE_NODES, STR_EMPTY);
	host_set_requeue(host, hear, &heard);
	assert_int_equal(heard.n, 0);
	given->requeue(given, HOST_REQUEUE_NODES, STR_EMPTY);
	given->requeue(given, HOST_REQUEUE_SERVICE, STR("shop/web"));
	assert_int_equal(heard.n, 2);
	assert_int_equal(heard.what, HOST_REQUEUE_SERVICE);
	assert_string_equal(heard.key, "shop/web");
	host_set_requeue(host, NULL, NULL);
	given->requeue(given, HOST_REQUEUE_NODES, STR_EMPTY);
	assert_int_equal(heard.n, 2);
}

/* ---- nodes ---- */

static void
no_nodes_are_none(void **state)
{
	struct node_ref *refs;
	size_t n = 7;

	(void)state;
	given->nodes(given, &rig->arena, &refs, &n);
	assert_int_equal(n, 0);
}

static void
assert_label(const struct label *label, const char *key, const char *value)
{
	assert_true(str_eq_c(label->key, key));
	assert_true(str_eq_c(label->value, value));
}

/* The snapshot is a copy: the store may change. */
static void
nodes_come_with_all_that_a_ref_has(void **state)
{
	struct node_ref *refs;
	size_t n;

	(void)state;
	rig_put(rig, &(struct rig_node){
			     .name = "a",
			     .provider_id = "fake://a",
			     .labels = "\"pool\":\"one\"",
			     .annotations = "\"alpha.kubernetes.io/provided-node-ip\":\"10.0.0.1\"",
			     .addresses = "{\"type\":\"InternalIP\",\"address\":\"10.0.0.1\"}",
		     });
	given->nodes(given, &rig->arena, &refs, &n);
	rig_remove(rig, "a");
	assert_int_equal(n, 1);
	assert_true(str_eq_c(refs[0].name, "a"));
	assert_true(str_eq_c(refs[0].uid, "u-a"));
	assert_true(str_eq_c(refs[0].provider_id, "fake://a"));
	assert_int_equal(refs[0].n_labels, 1);
	assert_label(refs[0].labels[0], "pool", "one");
	assert_int_equal(refs[0].n_annotations, 1);
	assert_label(&refs[0].annotations[0], "alpha.kubernetes.io/provided-node-ip", "10.0.0.1");
	assert_int_equal(refs[0].n_addresses, 1);
	assert_true(str_eq_c(refs[0].addresses[0].type, "InternalIP"));
	assert_true(str_eq_c(refs[0].addresses[0].address, "10.0.0.1"));
}

/* ---- addresses of Services ---- */

static bool
is_service_address(const char *ip)
{
	return given->is_service_address(given, str_c(ip));
}

static void
put_service(struct store *services, const char *name, const char *metadata, const char *spec,
            const char *ingress)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(4));
	struct object *service;
	struct error err;

	buf_addf(&text,
	         "{\"metadata\":{\"name\":\"%s\",\"namespace\":\"default\",\"uid\":\"u-%s\","
	         "\"resourceVersion\":\"7\"%s},\"spec\":{%s},"
	         "\"status\":{\"loadBalancer\":{\"ingress\":[%s]}}}",
	         name, name, metadata, spec, ingress);
	assert_true(object_parse(&service_kind.kind, buf_str(&text), &service, &err));
	assert_true(store_put(services, service, &err));
}

/* An address is ours only if a live Service of ours has it in its status, and only while Services
 * are known. */
static void
an_address_is_ours_by_the_status_of_a_live_service(void **state)
{
	CLEANUP(store_freep) struct store *services = store_new(&service_kind.kind, rig->clock);

	(void)state;
	store_begin_list(services, /*is_newest=*/false);
	put_service(
		services, "web", "", "\"type\":\"LoadBalancer\"",
		"{\"ip\":\"192.0.2.1\"},{\"ip\":\"2001:db8::1\"},{\"hostname\":\"web.example\"}");
	put_service(services, "dying",
	            ",\"deletionTimestamp\":\"2026-01-02T03:00:00Z\",\"finalizers\":[\"a/b\"]",
	            "\"type\":\"LoadBalancer\"", "{\"ip\":\"192.0.2.2\"}");
	put_service(services, "theirs", "",
	            "\"type\":\"LoadBalancer\",\"loadBalancerClass\":\"example.com/lb\"",
	            "{\"ip\":\"192.0.2.3\"}");
	put_service(services, "inner", "", "\"type\":\"ClusterIP\"",
	            "{\"ip\":\"192.0.2.4\"},{\"hostname\":\"inner.example\"}");
	assert_false(is_service_address("192.0.2.1"));
	host_set_services(host, services);
	assert_true(is_service_address("192.0.2.1"));
	assert_true(is_service_address("2001:0db8:0::1"));
	assert_false(is_service_address("192.0.2.2"));
	assert_false(is_service_address("192.0.2.3"));
	assert_false(is_service_address("192.0.2.4"));
	assert_false(is_service_address("192.0.2.5"));
	assert_false(is_service_address(""));
	assert_true(is_service_address("Web.example"));
	assert_false(is_service_address("inner.example"));
	host_set_services(host, NULL);
	assert_false(is_service_address("192.0.2.1"));
}

static void
nothing_made_is_freed(void **state)
{
	(void)state;
	host_free(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(clock_and_fence_are_ours),
		TEST(an_event_on_a_node_names_it),
		TEST(an_event_about_ourselves_is_on_our_pod),
		TEST(without_a_pod_it_is_on_the_namespace),
		TEST(a_wake_up_reaches_a_registered_handler),
		TEST(no_nodes_are_none),
		TEST(nodes_come_with_all_that_a_ref_has),
		TEST(an_address_is_ours_by_the_status_of_a_live_service),
		TEST(nothing_made_is_freed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
