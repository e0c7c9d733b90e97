#include "providers/hcloud/lb_body.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/limits.h"
#include "lb_case.h"

enum {
	NETWORK = 4711,
};

static const struct hz_lb_type lb11 = { .id = 1, .name = STR("lb11"), .max_targets = 2 };

static const struct hz_lb_target targets[] = {
	{ .type = HZ_TARGET_SERVER, .server = 5, .uses_private_ip = true },
	{ .type = HZ_TARGET_IP, .ip = STR("203.0.113.9") },
	{ .type = HZ_TARGET_SERVER, .server = 6 },
};

static void
check_create(struct lb_case *c, int64_t network, size_t n_targets, bool without_parts,
             const char *wanted)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(LIMIT_HTTP_REQUEST);
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct hz_lb_wish wish = lb_case_wish(c, network);
	struct error err;

	hz_body_create(&b, &wish, &lb11, targets, n_targets, without_parts);
	assert_string_equal(b.ptr, wanted);
	assert_true(json_parse(buf_str(&b), &doc, &err));
}

#define HEAD(name, rest)                                        \
	"{\"name\":\"" name "\",\"load_balancer_type\":1," rest \
	"\"labels\":{\"hcloud-ccm/service-uid\":\"" CASE_UID "\"}"
#define FSN1 HEAD(CASE_NAME, "\"location\":\"fsn1\",")
#define WITH_SERVICES                                                                         \
	",\"services\":[{\"protocol\":\"tcp\",\"listen_port\":80,\"destination_port\":30080," \
	"\"health_check\":{\"protocol\":\"tcp\",\"port\":30080}}]"
#define SERVER(id, is_private) \
	"{\"type\":\"server\",\"server\":{\"id\":" id "},\"use_private_ip\":" is_private "}"
#define IP "{\"type\":\"ip\",\"ip\":{\"ip\":\"203.0.113.9\"}}"

static void
a_new_balancer_comes_with_its_parts(void **state UNUSED)
{
	CLEANUP(lb_case_fini) struct lb_case c;

	lb_case_init(&c);
	check_create(&c, 0, 1, false, FSN1 WITH_SERVICES ",\"targets\":[" SERVER("5", "true") "]}");
	check_create(&c, 0, 0, false, FSN1 WITH_SERVICES "}");
	check_create(&c, 0, 1, true, FSN1 "}");
	check_create(&c, NETWORK, 0, false, FSN1 ",\"network\":4711" WITH_SERVICES "}");
	check_create(&c, NETWORK, 1, true, FSN1 "}");
	c.ports[0].protocol = LB_UDP;
	check_create(&c, 0, 0, false, FSN1 "}");
}

static void
check_cluster(const char *cluster, const char *label)
{
	CLEANUP(lb_case_fini) struct lb_case c;
	CLEANUP(buf_fini) struct buf wanted = BUF_INIT(1000);

	lb_case_init(&c);
	c.spec.cluster = str_c(cluster);
	buf_addf(&wanted,
	         "{\"name\":\"" CASE_NAME "\",\"load_balancer_type\":1,\"location\":\"fsn1\","
	         "\"labels\":{\"hcloud-ccm/service-uid\":\"" CASE_UID "\"%s}}",
	         label);
	check_create(&c, 0, 0, true, wanted.ptr);
}

/* The API refuses the request for any other value. */
static void
a_new_balancer_names_its_cluster_where_a_label_can(void **state UNUSED)
{
	check_cluster("kubernetes", ",\"ccmd.io/cluster\":\"kubernetes\"");
	check_cluster("a.b_c-1", ",\"ccmd.io/cluster\":\"a.b_c-1\"");
	check_cluster("a23456789012345678901234567890123456789012345678901234567890123",
	              ",\"ccmd.io/cluster\":"
	              "\"a23456789012345678901234567890123456789012345678901234567890123\"");
	check_cluster("", "");
	check_cluster("a23456789012345678901234567890123456789012345678901234567890123x", "");
	check_cluster("prod/eu", "");
	check_cluster("-prod", "");
	check_cluster("prod.", "");
	check_cluster("h\xc3\xb6he", "");
}

static void
more_ports_are_more_services(void **state UNUSED)
{
	CLEANUP(lb_case_fini) struct lb_case c;

	lb_case_init(&c);
	lb_case_port(&c, LB_TCP, 443, 30443);
	check_create(&c, 0, 0, false,
	             FSN1 ",\"services\":[{\"protocol\":\"tcp\",\"listen_port\":80,"
	                  "\"destination_port\":30080,"
	                  "\"health_check\":{\"protocol\":\"tcp\",\"port\":30080}},"
	                  "{\"protocol\":\"tcp\",\"listen_port\":443,\"destination_port\":30443,"
	                  "\"health_check\":{\"protocol\":\"tcp\",\"port\":30443}}]}");
}

static void
as_many_targets_as_the_type_has_room_for(void **state UNUSED)
{
	CLEANUP(lb_case_fini) struct lb_case c;

	lb_case_init(&c);
	check_create(&c, 0, 3, false,
	             FSN1 WITH_SERVICES ",\"targets\":[" SERVER("5", "true") "," IP "]}");
}

static void
a_new_balancer_has_all_that_is_asked_for(void **state UNUSED)
{
	CLEANUP(lb_case_fini) struct lb_case c;

	lb_case_init(&c);
	lb_case_note(&c, "name", "Web \"1\"");
	lb_case_note(&c, "location", "");
	lb_case_note(&c, "network-zone", "eu-central");
	lb_case_note(&c, "algorithm-type", "least_connections");
	lb_case_note(&c, "disable-public-network", "true");
	check_create(&c, 0, 0, true,
	             HEAD("Web \\\"1\\\"",
	                  "\"algorithm\":{\"type\":\"least_connections\"},"
	                  "\"network_zone\":\"eu-central\",") ",\"public_interface\":false}");
	lb_case_note(&c, "disable-public-network", "false");
	lb_case_note(&c, "algorithm-type", "round_robin");
	lb_case_note(&c, "name", "w");
	check_create(&c, 0, 0, true,
	             HEAD("w", "\"algorithm\":{\"type\":\"round_robin\"},"
	                       "\"network_zone\":\"eu-central\",") ",\"public_interface\":true}");
}

static void
targets_wait_for_their_way(void **state UNUSED)
{
	CLEANUP(lb_case_fini) struct lb_case c, other;

	lb_case_init(&c);
	lb_case_note(&c, "disable-public-network", "true");
	check_create(&c, 0, 1, false, FSN1 ",\"public_interface\":false" WITH_SERVICES "}");
	lb_case_note(&c, "use-private-ip", "true");
	check_create(&c, NETWORK, 1, false,
	             FSN1 ",\"public_interface\":false,\"network\":4711" WITH_SERVICES
	                  ",\"targets\":[" SERVER("5", "true") "]}");
	lb_case_init(&other);
	lb_case_note(&other, "use-private-ip", "true");
	lb_case_note(&other, "private-ipv4", "10.0.0.5"); /* for which it is attached later */
	check_create(&other, NETWORK, 1, false, FSN1 WITH_SERVICES "}");
	other.annotations[1].key = STR(HZ_LB_PREFIX "private-subnet-ip-range");
	other.annotations[1].value = STR("10.0.0.0/24");
	check_create(&other, NETWORK, 1, false, FSN1 WITH_SERVICES "}");
}

/* Even the longest: 200 ports with three texts of 16 KiB. */
static void
what_is_too_long_is_seen(void **state UNUSED)
{
	static char text[LIMIT_BALANCER_TEXT + 1];
	static struct lb_port ports[LIMIT_BALANCER_PORTS];
	CLEANUP(buf_fini) struct buf b = BUF_INIT(LIMIT_HTTP_REQUEST);
	CLEANUP(lb_case_fini) struct lb_case c;
	struct hz_lb_wish wish;

	memset(text, '\x01', LIMIT_BALANCER_TEXT);
	lb_case_init(&c);
	lb_case_note(&c, "http-cookie-name", text);
	c.spec.ports = ports;
	c.spec.n_ports = ARRAY_LEN(ports);
	wish = lb_case_wish(&c, 0);
	hz_body_create(&b, &wish, &lb11, NULL, 0, false);
	assert_false(buf_ok(&b));
	buf_reset(&b);
	hz_body_create(&b, &wish, &lb11, NULL, 0, true);
	assert_true(buf_ok(&b));
	buf_reset(&b);
	hz_body_service(&b, &wish.services[0]);
	assert_true(buf_ok(&b));
}

static void
check_certificate(struct lb_case *c, const char *wanted)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(LIMIT_HTTP_REQUEST);
	struct hz_lb_wish wish = lb_case_wish(c, 0);

	hz_body_certificate(&b, &wish);
	assert_string_equal(b.ptr, wanted);
}

static void
a_managed_certificate_is_ordered(void **state UNUSED)
{
	CLEANUP(lb_case_fini) struct lb_case c;

	lb_case_init(&c);
	lb_case_note(&c, "certificate-type", "managed");
	lb_case_note(&c, "http-managed-certificate-domains", "a.example,*.a.example");
	check_certificate(&c,
	                  "{\"name\":\"ccm-managed-certificate-" CASE_UID "\",\"type\":\"managed\","
	                  "\"domain_names\":[\"a.example\",\"*.a.example\"],"
	                  "\"labels\":{\"hcloud-ccm/service-uid\":\"" CASE_UID "\"}}");
	lb_case_note(&c, "http-managed-certificate-name", "web");
	lb_case_note(&c, "http-managed-certificate-acme-staging", "1");
	check_certificate(&c, "{\"name\":\"web\",\"type\":\"managed\","
	                      "\"domain_names\":[\"a.example\",\"*.a.example\"],"
	                      "\"labels\":{\"hcloud-ccm/service-uid\":\"" CASE_UID
	                      "\",\"HC-Use-Staging-CA\":\"true\"}}");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_balancer_comes_with_its_parts),
		cmocka_unit_test(a_new_balancer_names_its_cluster_where_a_label_can),
		cmocka_unit_test(more_ports_are_more_services),
		cmocka_unit_test(as_many_targets_as_the_type_has_room_for),
		cmocka_unit_test(a_new_balancer_has_all_that_is_asked_for),
		cmocka_unit_test(targets_wait_for_their_way),
		cmocka_unit_test(what_is_too_long_is_seen),
		cmocka_unit_test(a_managed_certificate_is_ordered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
