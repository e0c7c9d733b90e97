#include "providers/hcloud/lb_read.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static struct arena arena;

static int
forget(void **state UNUSED)
{
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

static void
reads_a_balancer(void **state UNUSED)
{
	struct hz_lb lb = read_lb(BALANCER);

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
reads_services(void **state UNUSED)
{
	struct hz_lb lb = read_lb(BALANCER);
	const struct hz_lb_service *tcp = &lb.services[0], *https = &lb.services[1];

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
reads_http(void **state UNUSED)
{
	struct hz_lb lb = read_lb(BALANCER);
	const struct hz_lb_http *http = &lb.services[1].http;
	const struct hz_lb_check *check = &lb.services[1].check;

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

/* A kind of target that is not known is somebody else's, too. */
static void
reads_targets(void **state UNUSED)
{
	struct hz_lb lb = read_lb(BALANCER);

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
what_is_missing_is_empty(void **state UNUSED)
{
	struct hz_lb lb = read_lb("{\"id\":1}");

	check_text(lb.name, "");
	check_text(lb.uid, "");
	check_text(lb.type.name, "");
	check_text(lb.ipv4.ip, "");
	assert_true(lb.is_public);
	assert_false(lb.is_protected);
	assert_int_equal(lb.n_labels + lb.nets.n + lb.n_services + lb.n_targets, 0);
}

static void
what_is_mistyped_is_left_out(void **state UNUSED)
{
	struct hz_lb lb = read_lb(
		"{\"id\":1,\"name\":7,\"labels\":[\"hcloud-ccm/service-uid\"],\"services\":[7,{},"
		"{\"listen_port\":80,\"http\":7,\"health_check\":[]},{\"listen_port\":81,\"http\":{"
		"\"certificates\":[\"x\",5,1.5]}}],\"private_net\":[{\"ip\":\"10.0.0.5\"}]}");

	check_text(lb.name, "");
	assert_int_equal(lb.n_labels, 0);
	assert_int_equal(lb.nets.n, 0);
	assert_int_equal(lb.n_services, 2);
	assert_false(lb.services[0].has_http);
	assert_int_equal(lb.services[1].http.n_certificates, 1);
	assert_int_equal(lb.services[1].http.certificates[0], 5);
}

static void
without_an_id_it_is_none(void **state UNUSED)
{
	static const char *const texts[] = { "{}", "7", "{\"id\":\"7\"}", "{\"id\":0}",
		                             "{\"id\":-7}" };
	struct hz_certificate certificate;
	struct hz_lb_type type;
	struct hz_lb lb;
	struct error err;

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

/* ---- types and certificates -------------------------------------------------------------------------- */

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
a_type_may_be_deprecated(void **state UNUSED)
{
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
reads_certificates(void **state UNUSED)
{
	struct hz_certificate one =
		read_certificate("{\"id\":9,\"name\":\"c\",\"type\":\"uploaded\",\"labels\":{},"
	                         "\"status\":null}");

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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(reads_a_balancer, forget),
		cmocka_unit_test_teardown(reads_services, forget),
		cmocka_unit_test_teardown(reads_http, forget),
		cmocka_unit_test_teardown(reads_targets, forget),
		cmocka_unit_test_teardown(what_is_missing_is_empty, forget),
		cmocka_unit_test_teardown(what_is_mistyped_is_left_out, forget),
		cmocka_unit_test_teardown(without_an_id_it_is_none, forget),
		cmocka_unit_test_teardown(a_type_may_be_deprecated, forget),
		cmocka_unit_test_teardown(reads_certificates, forget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
