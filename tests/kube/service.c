/* tests/kube/service.c: what is kept of a Service, and which of its changes matter to a
 * balancer. */
#include "kube/service.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"

static struct service *
parse(const char *json)
{
	struct object *object;
	struct error err;

	if (!object_parse(&service_kind.kind, str_c(json), &object, &err))
		fail_msg("%s", err.msg);
	return service_of(object);
}

static void
release(struct service *s)
{
	object_unref(&s->object);
}

#define META \
	"\"metadata\":{\"namespace\":\"shop\",\"name\":\"web\",\"uid\":\"u-1\",\"resourceVersion\":\"7\""

/* A Service with this spec, of type LoadBalancer. */
static struct service *
with_spec(const char *spec)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(8));

	buf_addf(&text, "{" META "},\"spec\":{\"type\":\"LoadBalancer\"%s}}", spec);
	return parse(text.ptr);
}

static void
everything_a_balancer_needs_is_kept(void **state)
{
	(void)state;
	struct service *s = parse(
		"{" META
		",\"deletionTimestamp\":\"2026-01-02T03:04:05Z\",\"finalizers\":[\"a/b\",\"" SERVICE_FINALIZER
		"\"],\"annotations\":{\"k\":\"v\",\"none\":null}},"
		"\"spec\":{\"type\":\"LoadBalancer\",\"ipFamilies\":[\"IPv4\",\"IPv6\"],\"ipFamilyPolicy\":\"PreferDualStack\","
		"\"externalTrafficPolicy\":\"Local\",\"healthCheckNodePort\":31000,\"loadBalancerIP\":\"192.0.2.1\","
		"\"loadBalancerSourceRanges\":[\"10.0.0.0/8\"],\"externalIPs\":[\"192.0.2.9\"],\"sessionAffinity\":\"ClientIP\","
		"\"sessionAffinityConfig\":{\"clientIP\":{\"timeoutSeconds\":600}},"
		"\"ports\":[{\"name\":\"http\",\"port\":80,\"nodePort\":30080,\"targetPort\":\"web\",\"appProtocol\":\"h2c\"},"
		"{\"port\":53,\"protocol\":\"UDP\",\"targetPort\":53}]},"
		"\"status\":{\"loadBalancer\":{\"ingress\":[{\"ip\":\"192.0.2.1\",\"ipMode\":\"VIP\",\"ports\":[{\"port\":80}]},"
		"{\"hostname\":\"lb.example\"}]}}}");

	assert_true(str_eq_c(s->object.key, "shop/web"));
	assert_true(str_eq_c(s->namespace, "shop") && str_eq_c(s->name, "web"));
	assert_true(s->is_load_balancer && s->is_deleting && s->has_finalizer && !s->has_class);
	assert_int_equal(s->n_finalizers, 2);
	assert_true(str_eq_c(*service_annotation(s, STR("k")), "v"));
	assert_int_equal(service_annotation(s, STR("none"))->len, 0);
	assert_null(service_annotation(s, STR("other")));
	assert_int_equal(s->n_ports, 2);
	assert_true(str_eq_c(s->ports[0].name, "http") && str_eq_c(s->ports[0].protocol, "TCP"));
	assert_true(str_eq_c(s->ports[0].target_port, "\"web\"") &&
	            str_eq_c(s->ports[1].target_port, "53"));
	assert_true(s->ports[0].has_app_protocol && !s->ports[1].has_app_protocol);
	assert_int_equal(s->ports[0].port, 80);
	assert_int_equal(s->ports[0].node_port, 30080);
	assert_int_equal(s->health_check_node_port, 31000);
	assert_int_equal(s->affinity_timeout_s, 600);
	assert_true(str_eq_c(s->families[1], "IPv6") &&
	            str_eq_c(s->family_policy, "PreferDualStack"));
	assert_true(str_eq_c(s->source_ranges[0], "10.0.0.0/8") &&
	            str_eq_c(s->external_ips[0], "192.0.2.9"));
	assert_true(str_eq_c(s->load_balancer_ip, "192.0.2.1") &&
	            str_eq_c(s->traffic_policy, "Local"));
	assert_int_equal(s->n_ingress, 2);
	assert_true(str_eq_c(s->ingress[0].ip, "192.0.2.1") &&
	            str_eq_c(s->ingress[0].ip_mode, "VIP"));
	assert_true(str_eq_c(s->ingress[1].hostname, "lb.example"));
	release(s);
}

static void
of_other_services_a_husk_is_kept(void **state)
{
	(void)state;
	struct service *s =
		parse("{" META ",\"annotations\":{\"k\":\"v\"}},\"spec\":{\"type\":\"ClusterIP\","
	              "\"ports\":[{\"port\":80}]}}");

	assert_false(s->is_load_balancer);
	assert_int_equal(s->n_annotations + s->n_ports, 0);
	assert_true(str_eq_c(s->object.uid, "u-1"));
	release(s);
}

static void
bad_fields_are_named(void **state)
{
	static const struct {
		const char *spec, *wanted;
	} cases[] = {
		{ ",\"ports\":[{\"port\":70000}]",
		  "service shop/web: port: not a number from 0 to 65535" },
		{ ",\"ports\":[{\"port\":-1}]",
		  "service shop/web: port: not a number from 0 to 65535" },
		{ ",\"ports\":{}", "spec.ports" },
		{ ",\"ipFamilies\":[4]", "service shop/web: spec.ipFamilies[]: not a string" },
		{ ",\"healthCheckNodePort\":\"x\"", "healthCheckNodePort: not a number" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(8));
		struct object *object;
		struct error err;

		buf_addf(&text, "{" META "},\"spec\":{\"type\":\"LoadBalancer\"%s}}",
		         cases[i].spec);
		assert_false(object_parse(&service_kind.kind, buf_str(&text), &object, &err));
		assert_int_equal(err.code, ERR_INVALID);
		assert_non_null(strstr(err.msg, cases[i].wanted));
	}
}

static void
what_wants_a_balancer(void **state)
{
	static const struct {
		const char *metadata, *spec;
		bool wants, needs_cleanup;
	} cases[] = {
		{ "", "\"type\":\"LoadBalancer\"", true, false },
		{ "", "\"type\":\"ClusterIP\"", false, false },
		{ "", "\"type\":\"LoadBalancer\",\"loadBalancerClass\":\"x/y\"", false, false },
		{ "", "\"type\":\"LoadBalancer\",\"loadBalancerClass\":\"\"", false, false },
		{ "", "\"type\":\"LoadBalancer\",\"loadBalancerClass\":null", true, false },
		{ ",\"finalizers\":[\"" SERVICE_FINALIZER "\"]", "\"type\":\"LoadBalancer\"", true,
		  false },
		{ ",\"finalizers\":[\"" SERVICE_FINALIZER "\"]", "\"type\":\"NodePort\"", false,
		  true },
		{ ",\"finalizers\":[\"other\"]", "\"type\":\"NodePort\"", false, false },
		{ ",\"finalizers\":[\"" SERVICE_FINALIZER
		  "\"],\"deletionTimestamp\":\"2026-01-02T03:04:05Z\"",
		  "\"type\":\"LoadBalancer\"", true, true },
		{ ",\"finalizers\":[\"" SERVICE_FINALIZER "\"]",
		  "\"type\":\"LoadBalancer\",\"loadBalancerClass\":\"x\"", false, false },
		{ ",\"deletionTimestamp\":\"2026-01-02T03:04:05Z\"", "\"type\":\"LoadBalancer\"",
		  true, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(8));
		struct service *s;

		buf_addf(&text, "{" META "%s},\"spec\":{%s}}", cases[i].metadata, cases[i].spec);
		s = parse(text.ptr);
		assert_int_equal(service_wants_balancer(s), cases[i].wants);
		assert_int_equal(service_needs_cleanup(s), cases[i].needs_cleanup);
		release(s);
	}
}

/* docs/spec/framework.md, "Service changes": each of these alone leads to a sync; those of the
 * second list never do. */
static void
changes_that_matter_and_changes_that_do_not(void **state)
{
	static const char *const matter[] = {
		",\"loadBalancerSourceRanges\":[\"10.0.0.0/8\"]",
		",\"ports\":[{\"port\":80}]",
		",\"ports\":[{\"port\":80,\"name\":\"x\"}]",
		",\"ports\":[{\"port\":80,\"protocol\":\"UDP\"}]",
		",\"ports\":[{\"port\":80,\"nodePort\":30001}]",
		",\"ports\":[{\"port\":80,\"targetPort\":80}]",
		",\"ports\":[{\"port\":80,\"targetPort\":\"80\"}]",
		",\"ports\":[{\"port\":80,\"appProtocol\":\"\"}]",
		",\"ports\":[{\"port\":80},{\"port\":81}]",
		",\"sessionAffinity\":\"ClientIP\"",
		",\"sessionAffinityConfig\":{\"clientIP\":{\"timeoutSeconds\":1}}",
		",\"loadBalancerIP\":\"192.0.2.1\"",
		",\"externalIPs\":[\"192.0.2.1\"]",
		",\"externalTrafficPolicy\":\"Local\"",
		",\"healthCheckNodePort\":1",
		",\"ipFamilies\":[\"IPv4\",\"IPv6\"]",
		",\"loadBalancerClass\":\"x\"",
	};
	static const char *const do_not[] = {
		"",
		",\"clusterIP\":\"10.0.0.1\"",
		",\"selector\":{\"a\":\"b\"}",
		",\"internalTrafficPolicy\":\"Local\"",
		",\"allocateLoadBalancerNodePorts\":false",
		",\"ipFamilyPolicy\":\"SingleStack\"",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(matter); i++) {
		for (size_t j = 0; j < ARRAY_LEN(matter); j++) {
			struct service *a = with_spec(matter[i]), *b = with_spec(matter[j]);

			if (service_needs_update(a, b) != (i != j))
				fail_msg("%s -> %s", matter[i], matter[j]);
			release(a);
			release(b);
		}
	}
	for (size_t i = 0; i < ARRAY_LEN(do_not); i++) {
		struct service *a = with_spec(""), *b = with_spec(do_not[i]);

		if (service_needs_update(a, b))
			fail_msg("%s", do_not[i]);
		release(a);
		release(b);
	}
}

static void
families_count_by_number_only(void **state)
{
	struct service *a = with_spec(",\"ipFamilies\":[\"IPv4\"]"),
		       *b = with_spec(",\"ipFamilies\":[\"IPv6\"]");

	(void)state;
	assert_false(service_needs_update(a, b));
	release(a);
	release(b);
}

static void
annotations_matter_in_any_order(void **state)
{
	static const char *const texts[] = { "\"a\":\"1\",\"b\":\"2\"", "\"b\":\"2\",\"a\":\"1\"",
		                             "\"a\":\"2\",\"b\":\"1\"", "\"a\":\"1\"",
		                             "\"a\":\"1b\",\"\":\"2\"", "\"a\":\"1\",\"b\":\"3\"",
		                             "\"a\":\"1\",\"c\":\"2\"" };
	struct service *s[ARRAY_LEN(texts)];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(8));

		buf_addf(&text,
		         "{" META ",\"annotations\":{%s}},\"spec\":{\"type\":\"LoadBalancer\"}}",
		         texts[i]);
		s[i] = parse(text.ptr);
	}
	assert_false(service_needs_update(s[0], s[1]));
	for (size_t i = 2; i < ARRAY_LEN(texts); i++)
		assert_true(service_needs_update(s[0], s[i]));
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		release(s[i]);
}

/* Anybody may annotate a Service with thousands of texts that nobody reads. */
static void
only_annotations_that_are_read_are_kept(void **state)
{
	static const char *const ours[] = { "ccmd.io/mark", NULL };
	static const char *const others[] = { "other.example/interval", NULL };
	struct service_kind kind = service_kind;
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(64));
	struct object *object;
	const struct service *s;
	struct error err;

	(void)state;
	kind.annotations = ours;
	kind.cloud_annotations = others;
	kind.annotation_prefix = "lb.example/";
	buf_add_c(&text, "{" META ",\"annotations\":{\"lb.example\":\"\"");
	for (int i = 0; i < 2 * LIMIT_BALANCER_ANNOTATIONS; i++)
		buf_addf(&text, ",\"lb.example/%d\":\"\",\"app.example/%d\":\"\"", i, i);
	buf_add_c(&text,
	          ",\"ccmd.io/mark\":\"1\",\"ccmd.io/marks\":\"2\",\"other.example/interval\":"
	          "\"3\"}},\"spec\":{\"type\":\"LoadBalancer\"}}");
	assert_true(object_parse(&kind.kind, buf_str(&text), &object, &err));
	s = service_of(object);
	assert_int_equal(s->n_annotations, LIMIT_BALANCER_ANNOTATIONS + 1 + 2);
	assert_non_null(service_annotation(s, STR("lb.example/0")));
	assert_non_null(service_annotation(s, STR("ccmd.io/mark")));
	assert_non_null(service_annotation(s, STR("other.example/interval")));
	assert_null(service_annotation(s, STR("ccmd.io/marks")));
	assert_null(service_annotation(s, STR("app.example/0")));
	assert_null(service_annotation(s, STR("lb.example")));
	object_unref(object);
}

static void
services_without_a_balancer_never_need_one(void **state)
{
	(void)state;
	struct service *a = parse("{" META "},\"spec\":{\"type\":\"ClusterIP\"}}");
	struct service *b = parse("{" META
	                          "},\"spec\":{\"type\":\"NodePort\",\"ports\":[{\"port\":1}]}}");
	struct service *c = with_spec("");

	assert_false(service_needs_update(a, b));
	assert_true(service_needs_update(a, c));
	assert_true(service_needs_update(c, a));
	release(a);
	release(b);
	release(c);
}

/* The store hands on what differs: all that the controller acts on, and nothing else. */
static void
what_the_store_calls_a_difference(void **state)
{
	(void)state;
	struct service *plain = with_spec("");
	struct service *same =
		parse("{\"metadata\":{\"namespace\":\"shop\",\"name\":\"web\",\"uid\":\"u-1\","
	              "\"resourceVersion\":\"8\"},\"spec\":{\"type\":\"LoadBalancer\"}}");
	struct service *held =
		parse("{" META ",\"finalizers\":[\"x\"]},\"spec\":{\"type\":\"LoadBalancer\"}}");
	struct service *served = parse(
		"{" META "},\"spec\":{\"type\":\"LoadBalancer\"},\"status\":{\"loadBalancer\":"
		"{\"ingress\":[{\"ip\":\"192.0.2.1\"}]}}}");

	assert_false(service_kind.kind.differs(&plain->object, &same->object));
	assert_true(service_kind.kind.differs(&plain->object, &held->object));
	assert_true(service_kind.kind.differs(&plain->object, &served->object));
	release(plain);
	release(same);
	release(held);
	release(served);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everything_a_balancer_needs_is_kept),
		cmocka_unit_test(of_other_services_a_husk_is_kept),
		cmocka_unit_test(bad_fields_are_named),
		cmocka_unit_test(what_wants_a_balancer),
		cmocka_unit_test(changes_that_matter_and_changes_that_do_not),
		cmocka_unit_test(families_count_by_number_only),
		cmocka_unit_test(annotations_matter_in_any_order),
		cmocka_unit_test(only_annotations_that_are_read_are_kept),
		cmocka_unit_test(services_without_a_balancer_never_need_one),
		cmocka_unit_test(what_the_store_calls_a_difference),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
