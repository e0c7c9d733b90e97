#include "providers/hcloud/lb_wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/limits.h"
#include "lb_case.h"

/* ---- reading ---- */

static struct arena arena;

static int
forget(void **state)
{
	(void)state;
	arena_fini(&arena);
	return 0;
}

static struct hz_lb
read_lb(const char *text)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct hz_lb lb;
	struct error err;

	assert_true(json_parse(str_c(text), &doc, &err));
	assert_true(hz_lb_read(yyjson_doc_get_root(doc), &arena, &lb, &err));
	return lb;
}

static void
check_text(struct str text, const char *expected)
{
	assert_string_equal(text.ptr, expected);
}

/* As the API shows it. */
#define BALANCER                                                                                  \
	"{\"id\":4300000007,\"name\":\"web\",\"labels\":{\"a\":\"b\",\"hcloud-ccm/service-uid\":" \
	"\"u-1\"},\"load_balancer_type\":{\"id\":1,\"name\":\"lb11\",\"max_targets\":25,"         \
	"\"deprecation\":null},\"algorithm\":{\"type\":\"round_robin\"},\"protection\":{"         \
	"\"delete\":true},\"public_net\":{\"enabled\":true,\"ipv4\":{\"ip\":\"198.18.0.1\","      \
	"\"dns_ptr\":\"web.example\"},\"ipv6\":{\"ip\":\"2001:db8::1\",\"dns_ptr\":null}},"       \
	"\"private_net\":[{\"network\":4711,\"ip\":\"10.0.0.5\"}],\"services\":[" SERVICES        \
	"],\"targets\":[" TARGETS "]}"
#define SERVICES                                                                                   \
	"{\"protocol\":\"tcp\",\"listen_port\":80,\"destination_port\":30080,\"proxyprotocol\":"   \
	"false,\"health_check\":{\"protocol\":\"tcp\",\"port\":30080,\"interval\":15,\"timeout\":" \
	"10,\"retries\":3}},{\"protocol\":\"https\",\"listen_port\":443,\"destination_port\":"     \
	"30443,\"proxyprotocol\":true,\"http\":{\"cookie_name\":\"C\",\"cookie_lifetime\":300,"    \
	"\"certificates\":[897,9],\"redirect_http\":true,\"sticky_sessions\":false,"               \
	"\"timeout_idle\":60},\"health_check\":{\"protocol\":\"http\",\"port\":8080,\"interval\":" \
	"5,\"timeout\":4,\"retries\":2,\"http\":{\"domain\":\"\",\"path\":\"/ok\",\"response\":"   \
	"\"\",\"status_codes\":[\"2\?\?\",\"301\"],\"tls\":false}}}"
#define TARGETS                                                                                    \
	"{\"type\":\"server\",\"server\":{\"id\":7},\"use_private_ip\":true,\"health_status\":[]}" \
	",{\"type\":\"ip\",\"ip\":{\"ip\":\"203.0.113.9\"}},{\"type\":\"label_selector\","         \
	"\"label_selector\":{\"selector\":\"a\"},\"targets\":[],\"use_private_ip\":true}"

/* Only the price at the location of the balancer counts. */
static void
reads_the_price_at_its_location(void **state)
{
#define PRICED(location)                                                                       \
	"{\"id\":7,\"location\":{\"name\":\"" location "\"},\"load_balancer_type\":{\"id\":1," \
	"\"prices\":[{\"location\":\"fsn1\",\"price_monthly\":{\"net\":\"5.3900000000\"}},"    \
	"{\"location\":\"ash\",\"price_monthly\":{\"net\":\"6.4100000000\"}}]}}"
	(void)state;
	check_text(read_lb(PRICED("ash")).monthly_price, "6.4100000000");
	check_text(read_lb(PRICED("sin")).monthly_price, "");
	check_text(read_lb(BALANCER).monthly_price, "");
}

static void
reads_a_balancer(void **state)
{
	struct hz_lb lb = read_lb(BALANCER);

	(void)state;
	assert_int_equal(lb.id, 4300000007);
	check_text(lb.name, "web");
	check_text(lb.uid, "u-1");
	assert_int_equal(lb.n_labels, 2);
	check_text(lb.labels[0].key, "a");
	check_text(lb.labels[0].value, "b");
	assert_int_equal(lb.type.id, 1);
	check_text(lb.type.name, "lb11");
	assert_int_equal(lb.type.max_targets, 25);
	assert_false(lb.type.is_deprecated);
	check_text(lb.algorithm, "round_robin");
	assert_true(lb.is_protected && lb.is_public);
	check_text(lb.ipv4.ip, "198.18.0.1");
	check_text(lb.ipv4.dns_ptr, "web.example");
	check_text(lb.ipv6.ip, "2001:db8::1");
	check_text(lb.ipv6.dns_ptr, "");
	assert_int_equal(lb.nets.n, 1);
	assert_int_equal(lb.nets.items[0].network, 4711);
	check_text(lb.nets.items[0].ip, "10.0.0.5");
}

static void
reads_services(void **state)
{
	struct hz_lb lb = read_lb(BALANCER);
	const struct hz_lb_service *tcp = &lb.services[0], *https = &lb.services[1];

	(void)state;
	assert_int_equal(lb.n_services, 2);
	assert_int_equal(tcp->listen_port, 80);
	assert_int_equal(tcp->destination_port, 30080);
	assert_int_equal(tcp->proxy_protocol, HZ_NO);
	assert_false(tcp->has_http);
	assert_int_equal(tcp->check.port, 30080);
	assert_int_equal(tcp->check.interval_s.value, 15);
	assert_false(tcp->check.path.is_set || tcp->check.has_status_codes);
	assert_int_equal(tcp->check.is_tls, HZ_UNSET);
	check_text(https->protocol, "https");
	assert_int_equal(https->proxy_protocol, HZ_YES);
}

static void
reads_http(void **state)
{
	struct hz_lb lb = read_lb(BALANCER);
	const struct hz_lb_http *http = &lb.services[1].http;
	const struct hz_lb_check *check = &lb.services[1].check;

	(void)state;
	assert_true(lb.services[1].has_http);
	check_text(http->cookie_name.value, "C");
	assert_int_equal(http->cookie_lifetime_s.value, 300);
	assert_int_equal(http->timeout_idle_s.value, 60);
	assert_int_equal(http->redirects, HZ_YES);
	assert_int_equal(http->is_sticky, HZ_NO);
	assert_int_equal(http->n_certificates, 2);
	assert_int_equal(http->certificates[0], 897);
	assert_true(check->domain.is_set);
	check_text(check->domain.value, "");
	check_text(check->path.value, "/ok");
	assert_int_equal(check->is_tls, HZ_NO);
	assert_int_equal(check->n_status_codes, 2);
	check_text(check->status_codes[1], "301");
}

/* A target of an unknown type is not ours either. */
static void
reads_targets(void **state)
{
	struct hz_lb lb = read_lb(BALANCER);

	(void)state;
	assert_int_equal(lb.n_targets, 3);
	assert_int_equal(lb.targets[0].type, HZ_TARGET_SERVER);
	assert_int_equal(lb.targets[0].server, 7);
	assert_true(lb.targets[0].uses_private_ip);
	assert_int_equal(lb.targets[1].type, HZ_TARGET_IP);
	check_text(lb.targets[1].ip, "203.0.113.9");
	assert_false(lb.targets[1].uses_private_ip);
	assert_int_equal(lb.targets[2].type, HZ_TARGET_SELECTOR);
	lb = read_lb("{\"id\":1,\"targets\":[{\"type\":\"moon\"},{\"type\":\"server\"},7]}");
	assert_int_equal(lb.n_targets, 3);
	for (size_t i = 0; i < lb.n_targets; i++)
		assert_int_equal(lb.targets[i].type, HZ_TARGET_SELECTOR);
}

static void
a_target_is_healthy_at_all_ports(void **state)
{
	struct hz_lb lb = read_lb(
		"{\"id\":1,\"targets\":["
		"{\"type\":\"server\",\"server\":{\"id\":1},\"health_status\":["
		"{\"listen_port\":80,\"status\":\"healthy\",\"detail\":null},"
		"{\"listen_port\":443,\"status\":\"healthy\",\"http_status_code\":null}]},"
		"{\"type\":\"ip\",\"ip\":{\"ip\":\"203.0.113.9\"},\"health_status\":["
		"{\"listen_port\":80,\"status\":\"healthy\"},"
		"{\"listen_port\":443,\"status\":\"unhealthy\",\"detail\":\"unexpected_http_status\","
		"\"http_status_code\":503}]},"
		"{\"type\":\"server\",\"server\":{\"id\":2},\"health_status\":["
		"{\"listen_port\":80,\"status\":\"healthy\"},"
		"{\"listen_port\":443,\"status\":\"unknown\"}]},"
		"{\"type\":\"label_selector\",\"label_selector\":{\"selector\":\"a\"},\"targets\":["
		"{\"type\":\"server\",\"server\":{\"id\":3},\"health_status\":["
		"{\"listen_port\":80,\"status\":\"healthy\"}]},7]}]}");

	(void)state;
	assert_int_equal(lb.n_targets, 4);
	assert_int_equal(lb.targets[0].health, HZ_HEALTHY);
	assert_int_equal(lb.targets[1].health, HZ_UNHEALTHY);
	assert_int_equal(lb.targets[1].failing_port, 443);
	check_text(lb.targets[1].detail, "unexpected_http_status");
	assert_int_equal(lb.targets[1].http_status, 503);
	assert_int_equal(lb.targets[2].health, HZ_HEALTH_UNKNOWN);
	assert_int_equal(lb.n_of_health[HZ_HEALTHY], 2);
	assert_int_equal(lb.n_of_health[HZ_UNHEALTHY], 1);
	assert_int_equal(lb.n_of_health[HZ_HEALTH_UNKNOWN], 2);
}

static void
addresses_may_be_blocked(void **state)
{
	struct hz_lb lb = read_lb("{\"id\":1,\"public_net\":{\"ipv4\":{\"id\":42,\"ip\":"
	                          "\"203.0.113.7\",\"blocked\":true},\"ipv6\":{\"ip\":null}}}");

	(void)state;
	assert_int_equal(lb.ipv4.id, 42);
	assert_true(lb.ipv4.is_blocked);
	assert_int_equal(lb.ipv6.id, 0);
	assert_false(lb.ipv6.is_blocked);
}

static void
what_is_missing_is_empty(void **state)
{
	struct hz_lb lb = read_lb("{\"id\":1}");

	(void)state;
	check_text(lb.name, "");
	check_text(lb.uid, "");
	check_text(lb.type.name, "");
	check_text(lb.ipv4.ip, "");
	assert_true(lb.is_public);
	assert_false(lb.is_protected);
	assert_int_equal(lb.n_labels + lb.nets.n + lb.n_services + lb.n_targets, 0);
}

static void
what_is_mistyped_is_left_out(void **state)
{
	struct hz_lb lb = read_lb(
		"{\"id\":1,\"name\":7,\"labels\":[\"hcloud-ccm/service-uid\"],\"services\":[7,{},"
		"{\"listen_port\":80,\"http\":7,\"health_check\":[]},{\"listen_port\":81,\"http\":{"
		"\"certificates\":[\"x\",5,1.5]}}],\"private_net\":[{\"ip\":\"10.0.0.5\"}]}");

	(void)state;
	check_text(lb.name, "");
	assert_int_equal(lb.n_labels, 0);
	assert_int_equal(lb.nets.n, 0);
	assert_int_equal(lb.n_services, 2);
	assert_false(lb.services[0].has_http);
	assert_int_equal(lb.services[1].http.n_certificates, 1);
	assert_int_equal(lb.services[1].http.certificates[0], 5);
}

static void
without_an_id_it_is_none(void **state)
{
	static const char *const texts[] = { "{}", "7", "{\"id\":\"7\"}", "{\"id\":0}",
		                             "{\"id\":-7}" };
	struct hz_certificate certificate;
	struct hz_lb_type type;
	struct hz_lb lb;
	struct error err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
		yyjson_val *val;

		assert_true(json_parse(str_c(texts[i]), &doc, &err));
		val = yyjson_doc_get_root(doc);
		assert_false(hz_lb_read(val, &arena, &lb, &err));
		assert_int_equal(err.code, ERR_UNAVAILABLE);
		assert_false(hz_lb_type_read(val, &arena, &type, &err));
		assert_false(hz_certificate_read(val, &arena, &certificate, &err));
	}
}

/* ---- types and certificates ---- */

static void
check_type(const char *deprecation, bool is_deprecated, int64_t unavailable_wall_s)
{
	struct str text = arena_printf(&arena,
	                               "{\"id\":1,\"load_balancer_type\":{\"deprecation\":%s}}",
	                               deprecation);
	struct hz_lb lb = read_lb(text.ptr);

	assert_int_equal(lb.type.is_deprecated, is_deprecated);
	assert_int_equal(lb.type.unavailable_wall_s, unavailable_wall_s);
}

static void
a_type_may_be_deprecated(void **state)
{
	(void)state;
	check_type("null", false, 0);
	check_type("{\"announced\":\"2026-06-01T00:00:00+00:00\",\"unavailable_after\":"
	           "\"2026-09-01T00:00:00+00:00\"}",
	           true, 1788220800);
	check_type("{\"announced\":\"2026-06-01T00:00:00+00:00\"}", true, INT64_MAX);
}

static struct hz_certificate
read_certificate(const char *text)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct hz_certificate certificate;
	struct error err;

	assert_true(json_parse(str_c(text), &doc, &err));
	assert_true(hz_certificate_read(yyjson_doc_get_root(doc), &arena, &certificate, &err));
	return certificate;
}

static void
reads_certificates(void **state)
{
	struct hz_certificate one =
		read_certificate("{\"id\":9,\"name\":\"c\",\"type\":\"uploaded\",\"labels\":{},"
	                         "\"status\":null}");

	(void)state;
	assert_int_equal(one.id, 9);
	check_text(one.name, "c");
	check_text(one.uid, "");
	assert_false(one.is_managed || one.is_failed);
	one = read_certificate("{\"id\":9,\"type\":\"managed\",\"labels\":{"
	                       "\"hcloud-ccm/service-uid\":\"u-1\"},\"status\":{\"issuance\":"
	                       "\"failed\"}}");
	check_text(one.uid, "u-1");
	assert_true(one.is_managed && one.is_failed);
}

/* ---- writing ---- */

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
	struct hz_lb_desired desired = lb_case_desired(c, network);
	struct error err;

	hz_body_create(&b, &desired, &lb11, targets, n_targets, without_parts);
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
a_new_balancer_comes_with_its_parts(void **state)
{
	CLEANUP(lb_case_fini) struct lb_case c;

	(void)state;
	lb_case_init(&c);
	check_create(&c, 0, 1, false, FSN1 WITH_SERVICES ",\"targets\":[" SERVER("5", "true") "]}");
	check_create(&c, 0, 0, false, FSN1 WITH_SERVICES "}");
	check_create(&c, 0, 1, true, FSN1 "}");
	check_create(&c, NETWORK, 0, false, FSN1 ",\"network\":4711" WITH_SERVICES "}");
	check_create(&c, NETWORK, 1, true, FSN1 "}");
	c.spec.n_ports = 0;
	check_create(&c, 0, 0, false, FSN1 "}");
}

static void
a_new_balancer_gets_its_primary_ips_with_and_without_its_parts(void **state)
{
	CLEANUP(lb_case_fini) struct lb_case c;

	(void)state;
	lb_case_init(&c);
	lb_case_note(&c, "public-net-ipv6", "43");
	check_create(&c, 0, 0, false, FSN1 ",\"public_net\":{\"ipv6\":43}" WITH_SERVICES "}");
	lb_case_note(&c, "public-net-ipv4", "42");
	check_create(&c, 0, 1, true, FSN1 ",\"public_net\":{\"ipv4\":42,\"ipv6\":43}}");
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
a_new_balancer_names_its_cluster_where_a_label_can(void **state)
{
	(void)state;
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
more_ports_are_more_services(void **state)
{
	CLEANUP(lb_case_fini) struct lb_case c;

	(void)state;
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
as_many_targets_as_the_type_has_room_for(void **state)
{
	CLEANUP(lb_case_fini) struct lb_case c;

	(void)state;
	lb_case_init(&c);
	check_create(&c, 0, 3, false,
	             FSN1 WITH_SERVICES ",\"targets\":[" SERVER("5", "true") "," IP "]}");
}

static void
a_new_balancer_has_all_that_is_asked_for(void **state)
{
	CLEANUP(lb_case_fini) struct lb_case c;

	(void)state;
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
targets_wait_for_their_way(void **state)
{
	CLEANUP(lb_case_fini) struct lb_case c, other;

	(void)state;
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
what_is_too_long_is_seen(void **state)
{
	static char text[LIMIT_BALANCER_TEXT + 1];
	static struct lb_port ports[LIMIT_BALANCER_PORTS];
	CLEANUP(buf_fini) struct buf b = BUF_INIT(LIMIT_HTTP_REQUEST);
	CLEANUP(lb_case_fini) struct lb_case c;
	struct hz_lb_desired desired;

	(void)state;
	memset(text, '\x01', LIMIT_BALANCER_TEXT);
	lb_case_init(&c);
	lb_case_note(&c, "http-cookie-name", text);
	c.spec.ports = ports;
	c.spec.n_ports = ARRAY_LEN(ports);
	desired = lb_case_desired(&c, 0);
	hz_body_create(&b, &desired, &lb11, NULL, 0, false);
	assert_false(buf_ok(&b));
	buf_reset(&b);
	hz_body_create(&b, &desired, &lb11, NULL, 0, true);
	assert_true(buf_ok(&b));
	buf_reset(&b);
	hz_body_service(&b, &desired.services[0]);
	assert_true(buf_ok(&b));
}

static void
check_certificate(struct lb_case *c, const char *wanted)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(LIMIT_HTTP_REQUEST);
	struct hz_lb_desired desired = lb_case_desired(c, 0);

	hz_body_certificate(&b, &desired);
	assert_string_equal(b.ptr, wanted);
}

static void
a_managed_certificate_is_ordered(void **state)
{
	CLEANUP(lb_case_fini) struct lb_case c;

	(void)state;
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
		cmocka_unit_test_teardown(reads_a_balancer, forget),
		cmocka_unit_test_teardown(reads_the_price_at_its_location, forget),
		cmocka_unit_test_teardown(reads_services, forget),
		cmocka_unit_test_teardown(reads_http, forget),
		cmocka_unit_test_teardown(reads_targets, forget),
		cmocka_unit_test_teardown(a_target_is_healthy_at_all_ports, forget),
		cmocka_unit_test_teardown(addresses_may_be_blocked, forget),
		cmocka_unit_test_teardown(what_is_missing_is_empty, forget),
		cmocka_unit_test_teardown(what_is_mistyped_is_left_out, forget),
		cmocka_unit_test_teardown(without_an_id_it_is_none, forget),
		cmocka_unit_test_teardown(a_type_may_be_deprecated, forget),
		cmocka_unit_test_teardown(reads_certificates, forget),
		cmocka_unit_test(a_new_balancer_comes_with_its_parts),
		cmocka_unit_test(a_new_balancer_gets_its_primary_ips_with_and_without_its_parts),
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
