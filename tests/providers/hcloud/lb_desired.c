#include "providers/hcloud/lb_desired.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/limits.h"
#include "lb_case.h"
#include "providers/hcloud/lb_wire.h"

enum {
	NETWORK = 4711,
};

#define SHAPE "hcops/LoadBalancerOps.ReconcileHCLB: hcops/LoadBalancerOps."
#define SERVICES "hcops/LoadBalancerOps.ReconcileHCLBServices: "
#define BUILDER "hcops/hclbServiceOptsBuilder."
#define OPTIONS SERVICES BUILDER "buildAddServiceOpts: " BUILDER "extract: "
#define CHECKS SERVICES BUILDER "buildAddServiceOpts: " BUILDER "extractHealthCheck: "
#define TARGETS "hcops/LoadBalancerOps.ReconcileHCLBTargets: "
#define KEY "load-balancer.hetzner.cloud/"

static void
check_str(struct str is, const char *wanted)
{
	if (!str_eq_c(is, wanted))
		fail_msg("\"%" STR_FMT "\" and not \"%s\"", STR_ARG(is), wanted);
}

/* An annotation and what it makes of a Service, or says. */
static struct hz_lb_desired
desired_with(struct lb_case *c, const char *key, const char *value)
{
	lb_case_init(c);
	lb_case_note(c, key, value);
	return lb_case_desired(c, NETWORK);
}

static void
check_refused(const char *key, const char *value, const char *msg)
{
	CLEANUP(lb_case_fini) struct lb_case c;

	lb_case_init(&c);
	lb_case_note(&c, key, value);
	lb_case_refused(&c, NETWORK, msg);
}

/* ---- the balancer as a whole ---- */

static void
check_place(const char *env_location, const char *env_zone, const char *location, const char *zone,
            const char *want_location, const char *want_zone)
{
	CLEANUP(lb_case_fini) struct lb_case c;
	struct hz_lb_desired desired;
	struct error err;

	lb_case_init(&c);
	c.config.lb.location = str_c(env_location);
	c.config.lb.network_zone = str_c(env_zone);
	if (location)
		lb_case_note(&c, "location", location);
	if (zone)
		lb_case_note(&c, "network-zone", zone);
	desired = lb_case_desired(&c, 0);
	check_str(desired.location, want_location);
	check_str(desired.network_zone, want_zone);
	if (hz_lb_desired_has_place(&desired, &err) != (want_location[0] || want_zone[0]))
		fail_msg("%s, %s", want_location, want_zone);
}

static void
is_made_at_one_place(void **state)
{
	(void)state;
	check_place("fsn1", "", NULL, NULL, "fsn1", "");
	check_place("", "eu-central", NULL, NULL, "", "eu-central");
	check_place("fsn1", "", "nbg1", NULL, "nbg1", "");
	check_place("", "eu-central", NULL, "us-east", "", "us-east");
	check_place("", "eu-central", "nbg1", NULL, "nbg1", ""); /* the location wins */
	check_place("fsn1", "", NULL, "us-east", "fsn1", "");
	check_place("fsn1", "", "", "us-east", "", "us-east"); /* unless it is taken back */
	check_place("", "eu-central", NULL, "", "", "");
	check_place("", "", NULL, NULL, "", "");
}

static void
says_that_a_place_is_missing(void **state)
{
	CLEANUP(lb_case_fini) struct lb_case c;
	struct hz_lb_desired desired = desired_with(&c, "location", "");
	struct error err;

	(void)state;
	assert_false(hz_lb_desired_has_place(&desired, &err));
	assert_int_equal(err.code, ERR_INVALID);
	assert_string_equal(err.msg, "hcops/LoadBalancerOps.Create: neither " KEY
	                             "location nor " KEY "network-zone set");
}

static void
check_type(const char *env, const char *annotation, const char *type, bool is_chosen)
{
	CLEANUP(lb_case_fini) struct lb_case c;
	struct hz_lb_desired desired;

	lb_case_init(&c);
	c.config.lb.type = str_c(env);
	if (annotation)
		lb_case_note(&c, "type", annotation);
	desired = lb_case_desired(&c, 0);
	check_str(desired.type, type);
	assert_int_equal(desired.is_type_chosen, is_chosen);
}

static void
has_a_type(void **state)
{
	(void)state;
	check_type("", NULL, "lb11", false);
	check_type("lb21", NULL, "lb21", true);
	check_type("lb21", "lb31", "lb31", true);
	check_type("", "lb11", "lb11", true);
	check_type("lb21", "", "lb11", false);
}

static void
check_algorithm(const char *env, const char *annotation, const char *algorithm)
{
	CLEANUP(lb_case_fini) struct lb_case c;

	lb_case_init(&c);
	c.config.lb.algorithm = str_c(env);
	if (annotation)
		lb_case_note(&c, "algorithm-type", annotation);
	check_str(lb_case_desired(&c, 0).algorithm, algorithm);
}

static void
has_an_algorithm(void **state)
{
	(void)state;
	check_algorithm("", NULL, "");
	check_algorithm("", "least_connections", "least_connections");
	check_algorithm("", "Round_Robin", "round_robin");
	check_algorithm("round_robin", "least_connections", "least_connections");
	check_algorithm(" Round_Robin\n", NULL, "round_robin");
	check_refused("algorithm-type", "Random",
	              SHAPE "changeAlgorithm: annotation/Name.LBAlgorithmTypeFromService: "
	                    "annotation/validateAlgorithmType: invalid: random (" KEY
	                    "algorithm-type)");
	check_refused("algorithm-type", "",
	              SHAPE "changeAlgorithm: annotation/Name.LBAlgorithmTypeFromService: "
	                    "annotation/validateAlgorithmType: invalid:  (" KEY "algorithm-type)");
}

static void
check_public(enum hz_opt_bool env, const char *annotation, enum hz_opt_bool is_public)
{
	CLEANUP(lb_case_fini) struct lb_case c;

	lb_case_init(&c);
	c.config.lb.hides_public = env;
	if (annotation)
		lb_case_note(&c, "disable-public-network", annotation);
	assert_int_equal(lb_case_desired(&c, 0).is_public, is_public);
}

static void
the_public_interface_has_three_states(void **state)
{
	(void)state;
	check_public(HZ_UNSET, NULL, HZ_UNSET);
	check_public(HZ_YES, NULL, HZ_NO);
	check_public(HZ_NO, NULL, HZ_YES);
	check_public(HZ_UNSET, "true", HZ_NO);
	check_public(HZ_YES, "F", HZ_YES);
	check_public(HZ_NO, "1", HZ_NO);
	check_refused("disable-public-network", "",
	              SHAPE
	              "togglePublicInterface: annotation/Name.BoolFromService: " KEY
	              "disable-public-network: strconv.ParseBool: parsing \"\": invalid syntax");
}

static void
asks_for_an_address_in_its_network(void **state)
{
	CLEANUP(lb_case_fini) struct lb_case c, off;
	struct hz_lb_desired desired = desired_with(&c, "private-ipv4", "10.0.0.5");

	(void)state;
	assert_true(desired.private_ip.is_set);
	check_str(desired.private_ip.value, "10.0.0.5");
	assert_int_equal(desired.network, NETWORK);
	check_refused("private-ipv4", "ten",
	              SHAPE "attachToNetwork: could not parse private IPv4 'ten'");
	check_refused("private-ipv4", "", SHAPE "attachToNetwork: could not parse private IPv4 ''");
	lb_case_init(&off);
	lb_case_note(&off, "private-ipv4", "ten"); /* it is not read */
	assert_false(lb_case_desired(&off, 0).private_ip.is_set);
}

static void
check_subnet(const char *env, const char *annotation, const char *subnet)
{
	CLEANUP(lb_case_fini) struct lb_case c;
	struct hz_lb_desired desired;

	lb_case_init(&c);
	c.config.lb.private_subnet = str_c(env);
	if (annotation)
		lb_case_note(&c, "private-subnet-ip-range", annotation);
	desired = lb_case_desired(&c, NETWORK);
	assert_int_equal(desired.subnet.is_set, subnet != NULL);
	if (subnet)
		check_str(desired.subnet.value, subnet);
}

static void
asks_for_a_subnet(void **state)
{
	(void)state;
	check_subnet("", NULL, NULL);
	check_subnet("10.0.0.0/24", NULL, "10.0.0.0/24");
	check_subnet("10.0.0.0/24", "10.0.1.77/24", "10.0.1.0/24");
	check_subnet("10.0.0.0/24", "", NULL);
	check_subnet("", "fd00::1/64", "fd00::/64");
	check_refused("private-subnet-ip-range", "10.0.0.0/33",
	              SHAPE "attachToNetwork: could not parse private subnet IP range "
	                    "'10.0.0.0/33'");
}

static void
check_private(bool env, const char *annotation, bool uses_private_ip)
{
	CLEANUP(lb_case_fini) struct lb_case c;

	lb_case_init(&c);
	c.config.lb.uses_private_ip = env;
	if (annotation)
		lb_case_note(&c, "use-private-ip", annotation);
	assert_int_equal(lb_case_desired(&c, NETWORK).uses_private_ip, uses_private_ip);
	if (uses_private_ip)
		lb_case_refused(&c, 0,
		                TARGETS
		                "use private ip: missing network id: HCLOUD_NETWORK is not set");
}

static void
private_targets_need_a_network(void **state)
{
	(void)state;
	check_private(false, NULL, false);
	check_private(true, NULL, true);
	check_private(false, "true", true);
	check_private(true, "false", false);
	check_refused("use-private-ip", "yes",
	              TARGETS "annotation/Name.BoolFromService: " KEY
	                      "use-private-ip: strconv.ParseBool: parsing \"yes\": invalid syntax");
}

/* ---- certificates ---- */

static void
names_certificates_by_id_or_name(void **state)
{
	CLEANUP(lb_case_fini) struct lb_case c, empty;
	struct hz_lb_desired desired = desired_with(&c, "http-certificates",
	                                            "7, web ,,9007199254740993,0");

	(void)state;
	assert_int_equal(desired.n_certificates, 4);
	assert_int_equal(desired.certificates[0].id, 7);
	assert_int_equal(desired.certificates[1].id, 0);
	check_str(desired.certificates[1].name, "web");
	assert_int_equal(desired.certificates[2].id, INT64_C(9007199254740993));
	assert_int_equal(desired.certificates[3].id, 0);
	check_str(desired.certificates[3].name, "0");
	assert_true(desired.services[0].has_http && desired.services[0].http.has_certificates);
	desired = desired_with(&empty, "http-certificates", "");
	assert_int_equal(desired.n_certificates, 0);
	assert_true(desired.services[0].http.has_certificates);
}

static void
orders_a_managed_certificate(void **state)
{
	CLEANUP(lb_case_fini) struct lb_case c;
	struct hz_lb_desired desired;

	(void)state;
	lb_case_init(&c);
	lb_case_note(&c, "certificate-type", "managed");
	lb_case_note(&c, "http-managed-certificate-domains", "example.com, *.example.com");
	lb_case_note(&c, "http-certificates", "7");
	desired = lb_case_desired(&c, 0);
	assert_true(desired.is_managed);
	assert_false(desired.is_staging);
	check_str(desired.certificate_name, "ccm-managed-certificate-" CASE_UID);
	assert_int_equal(desired.n_domains, 2);
	check_str(desired.domains[0], "example.com");
	check_str(desired.domains[1], "*.example.com");
	assert_int_equal(desired.n_certificates, 0);
	assert_true(desired.services[0].has_http && desired.services[0].http.has_certificates);
	lb_case_note(&c, "http-managed-certificate-name", "mine");
	lb_case_note(&c, "http-managed-certificate-acme-staging", "true");
	desired = lb_case_desired(&c, 0);
	check_str(desired.certificate_name, "mine");
	assert_true(desired.is_staging);
	lb_case_note(&c, "http-managed-certificate-name", "");
	lb_case_note(&c, "http-managed-certificate-acme-staging", "please");
	desired = lb_case_desired(&c, 0);
	check_str(desired.certificate_name, "ccm-managed-certificate-" CASE_UID);
	assert_false(desired.is_staging);
}

static void
a_managed_certificate_needs_domains(void **state)
{
	CLEANUP(lb_case_fini) struct lb_case c, other;

	(void)state;
#define NO_DOMAINS                                                     \
	SERVICES "hcops/LoadBalancerOps.reconcileManagedCertificate: " \
		 "no domains for managed certificate"
	check_refused("certificate-type", "managed", NO_DOMAINS);
	lb_case_init(&c);
	lb_case_note(&c, "certificate-type", "managed");
	lb_case_note(&c, "http-managed-certificate-domains", " ,");
	lb_case_refused(&c, 0, NO_DOMAINS);
	assert_false(desired_with(&other, "certificate-type", "Managed").is_managed);
}

/* ---- services ---- */

/* The body of the first service. */
static void
check_body(struct lb_case *c, const char *body)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(LIMIT_HTTP_REQUEST);
	struct hz_lb_desired desired = lb_case_desired(c, 0);

	hz_body_service(&b, &desired.services[0]);
	assert_string_equal(b.ptr, body);
}

static void
check_service(const char *const notes[][2], size_t n, const char *body)
{
	CLEANUP(lb_case_fini) struct lb_case c;

	lb_case_init(&c);
	for (size_t i = 0; i < n; i++)
		lb_case_note(&c, notes[i][0], notes[i][1]);
	check_body(&c, body);
}

#define CHECK(body, ...)                                                \
	do {                                                            \
		static const char *const notes_[][2] = { __VA_ARGS__ }; \
		check_service(notes_, ARRAY_LEN(notes_), body);         \
	} while (0)

#define PORTS "\"listen_port\":80,\"destination_port\":30080"
#define TCP_CHECK "\"health_check\":{\"protocol\":\"tcp\",\"port\":30080}}"
#define TCP(rest) "{\"protocol\":\"tcp\"," PORTS "," rest
#define WITH_CHECK(members) TCP("\"health_check\":{" members "}}")

static void
a_service_has_a_protocol(void **state)
{
	(void)state;
	check_service(NULL, 0, TCP(TCP_CHECK));
	CHECK("{\"protocol\":\"http\"," PORTS "," TCP_CHECK, { "protocol", "HTTP" });
	CHECK("{\"protocol\":\"https\"," PORTS "," TCP_CHECK, { "protocol", "https" });
	CHECK(TCP("\"proxyprotocol\":true," TCP_CHECK), { "uses-proxyprotocol", "true" });
	CHECK(TCP("\"proxyprotocol\":false," TCP_CHECK), { "uses-proxyprotocol", "false" });
	check_refused("protocol", "UDP",
	              OPTIONS "annotation/Name.LBSvcProtocolFromService: "
	                      "annotation/validateServiceProtocol: invalid: udp (" KEY "protocol)");
	check_refused("uses-proxyprotocol", "yes",
	              OPTIONS
	              "annotation/Name.BoolFromService: " KEY
	              "uses-proxyprotocol: strconv.ParseBool: parsing \"yes\": invalid syntax");
}

static void
the_proxy_protocol_may_be_configured(void **state)
{
	CLEANUP(lb_case_fini) struct lb_case c;

	(void)state;
	lb_case_init(&c);
	c.config.lb.uses_proxy_protocol = HZ_YES;
	check_body(&c, TCP("\"proxyprotocol\":true," TCP_CHECK));
	lb_case_note(&c, "uses-proxyprotocol", "false");
	check_body(&c, TCP("\"proxyprotocol\":false," TCP_CHECK));
}

static void
a_service_may_have_http_details(void **state)
{
	(void)state;
#define WITH_HTTP(members) TCP("\"http\":{" members "}," TCP_CHECK)
	CHECK(WITH_HTTP("\"cookie_name\":\"C\""), { "http-cookie-name", "C" });
	CHECK(WITH_HTTP("\"cookie_lifetime\":90"), { "http-cookie-lifetime", "1m30s" });
	CHECK(WITH_HTTP("\"cookie_lifetime\":300"), { "http-cookie-lifetime", "300" });
	CHECK(WITH_HTTP("\"cookie_lifetime\":1"), { "http-cookie-lifetime", "1900ms" });
	CHECK(WITH_HTTP("\"timeout_idle\":60"), { "http-timeout-idle", "1m" });
	CHECK(WITH_HTTP("\"redirect_http\":true"), { "http-redirect-http", "t" });
	CHECK(WITH_HTTP("\"sticky_sessions\":false"), { "http-sticky-sessions", "0" });
	CHECK("{\"protocol\":\"http\"," PORTS
	      ",\"http\":{\"cookie_name\":\"C\",\"cookie_lifetime\":5,\"redirect_http\":false,"
	      "\"sticky_sessions\":true,\"timeout_idle\":60}," TCP_CHECK,
	      { "protocol", "http" }, { "http-cookie-name", "C" }, { "http-cookie-lifetime", "5s" },
	      { "http-redirect-http", "false" }, { "http-sticky-sessions", "true" },
	      { "http-timeout-idle", "60s" });
}

static void
says_which_http_detail_is_wrong(void **state)
{
	(void)state;
	check_refused("http-cookie-lifetime", "biweekly",
	              OPTIONS "annotation/Name.DurationFromService: time: invalid duration "
	                      "\"biweekly\" (" KEY "http-cookie-lifetime)");
	check_refused("http-timeout-idle", "5 m",
	              OPTIONS "annotation/Name.DurationFromService: time: unknown unit \" m\" in "
	                      "duration \"5 m\" (" KEY "http-timeout-idle)");
	check_refused("http-redirect-http", "yes",
	              OPTIONS
	              "annotation/Name.BoolFromService: " KEY
	              "http-redirect-http: strconv.ParseBool: parsing \"yes\": invalid syntax");
	check_refused("http-sticky-sessions", "",
	              OPTIONS
	              "annotation/Name.BoolFromService: " KEY
	              "http-sticky-sessions: strconv.ParseBool: parsing \"\": invalid syntax");
}

static void
a_service_may_have_a_check_of_its_own(void **state)
{
	(void)state;
	CHECK(WITH_CHECK("\"protocol\":\"tcp\",\"port\":8080"), { "health-check-port", "8080" });
	CHECK(WITH_CHECK("\"protocol\":\"tcp\",\"port\":30080,\"interval\":15"),
	      { "health-check-interval", "15s" });
	CHECK(WITH_CHECK("\"protocol\":\"tcp\",\"port\":30080,\"timeout\":10"),
	      { "health-check-timeout", "10" });
	CHECK(WITH_CHECK("\"protocol\":\"tcp\",\"port\":30080,\"retries\":0"),
	      { "health-check-retries", "0" });
	CHECK(WITH_CHECK("\"protocol\":\"http\",\"port\":30080,\"http\":{\"tls\":false}"),
	      { "health-check-protocol", "http" });
	CHECK(WITH_CHECK("\"protocol\":\"http\",\"port\":30080,\"http\":{\"domain\":\"a.example\","
	                 "\"path\":\"/healthz\",\"status_codes\":[\"200\",\"3??\"],\"tls\":true}"),
	      { "health-check-protocol", "http" }, { "health-check-http-domain", "a.example" },
	      { "health-check-http-path", "/healthz" }, { "http-status-codes", "200, 3??" },
	      { "health-check-http-validate-certificate", "true" });
}

/* An API that knows tcp and http only. */
static void
a_check_over_https_is_one_over_http(void **state)
{
	(void)state;
	CHECK(WITH_CHECK("\"protocol\":\"http\",\"port\":30080,\"http\":{\"tls\":true}"),
	      { "health-check-protocol", "https" });
	CHECK(WITH_CHECK("\"protocol\":\"http\",\"port\":30080,\"http\":{\"tls\":true}"),
	      { "health-check-protocol", "https" },
	      { "health-check-http-validate-certificate", "false" });
	/* the balancer ends TLS: its targets speak http */
	CHECK("{\"protocol\":\"https\"," PORTS ",\"health_check\":{\"protocol\":\"http\","
	      "\"port\":30080,\"interval\":5,\"http\":{}}}",
	      { "protocol", "https" }, { "health-check-interval", "5s" });
	CHECK("{\"protocol\":\"http\"," PORTS ",\"health_check\":{\"protocol\":\"http\","
	      "\"port\":30080,\"retries\":2,\"http\":{\"path\":\"/x\"}}}",
	      { "protocol", "http" }, { "health-check-retries", "2" },
	      { "health-check-http-path", "/x" });
}

/* docs/spec/hcloud.md, "Services": they are no reason for another check, and are not read for one
 * over tcp. */
static void
details_of_http_alone_make_no_check(void **state)
{
	(void)state;
	CHECK("{\"protocol\":\"http\"," PORTS "," TCP_CHECK, { "protocol", "http" },
	      { "health-check-http-path", "/x" }, { "http-status-codes", "200" });
	CHECK(TCP(TCP_CHECK), { "health-check-http-validate-certificate", "nonsense" });
}

static void
says_which_check_detail_is_wrong(void **state)
{
	CLEANUP(lb_case_fini) struct lb_case c;

	(void)state;
	check_refused("health-check-protocol", "icmp",
	              CHECKS "annotation/Name.LBSvcProtocolFromService: "
	                     "annotation/validateServiceProtocol: invalid: icmp (" KEY
	                     "health-check-protocol)");
	check_refused("health-check-port", "http",
	              CHECKS "annotation/Name.IntFromService: " KEY
	                     "health-check-port: strconv.Atoi: parsing \"http\": invalid syntax");
	check_refused("health-check-interval", "often",
	              CHECKS "annotation/Name.DurationFromService: time: invalid duration "
	                     "\"often\" (" KEY "health-check-interval)");
	check_refused("health-check-timeout", "",
	              CHECKS
	              "annotation/Name.DurationFromService: time: invalid duration \"\" (" KEY
	              "health-check-timeout)");
	check_refused("health-check-retries", "99999999999999999999",
	              CHECKS
	              "annotation/Name.IntFromService: " KEY
	              "health-check-retries: strconv.Atoi: parsing \"99999999999999999999\": "
	              "value out of range");
	lb_case_init(&c);
	lb_case_note(&c, "health-check-protocol", "http");
	lb_case_note(&c, "health-check-http-validate-certificate", "yes");
	lb_case_refused(&c, 0,
	                CHECKS "annotation/Name.BoolFromService: " KEY
	                       "health-check-http-validate-certificate: strconv.ParseBool: parsing "
	                       "\"yes\": invalid syntax");
}

static void
checks_may_be_configured(void **state)
{
	CLEANUP(lb_case_fini) struct lb_case c;

	(void)state;
	lb_case_init(&c);
	c.config.lb.health_interval_ns = 7 * NS_PER_SEC;
	c.config.lb.health_timeout_ns = 2500 * NS_PER_MS;
	c.config.lb.health_retries = 4;
	check_body(&c,
	           WITH_CHECK("\"protocol\":\"tcp\",\"port\":30080,\"interval\":7,\"timeout\":2,"
	                      "\"retries\":4"));
	lb_case_note(&c, "health-check-interval", "9s");
	lb_case_note(&c, "health-check-timeout", "3s");
	lb_case_note(&c, "health-check-retries", "1");
	check_body(&c,
	           WITH_CHECK("\"protocol\":\"tcp\",\"port\":30080,\"interval\":9,\"timeout\":3,"
	                      "\"retries\":1"));
}

/* As with the official controller, which reads them port by port. */
static void
without_ports_their_annotations_do_not_count(void **state)
{
	CLEANUP(lb_case_fini) struct lb_case c;

	(void)state;
	lb_case_init(&c);
	c.spec.n_ports = 0;
	lb_case_note(&c, "protocol", "nonsense");
	assert_int_equal(lb_case_desired(&c, 0).n_services, 0);
}

/* ---- nodes ---- */

static const struct label web = { STR("pool"), STR("web") };
static const struct label *const web_labels[] = { &web };

static bool
selects_web(const char *selector)
{
	CLEANUP(lb_case_fini) struct lb_case c;
	struct node_ref node = { .labels = web_labels, .n_labels = 1 };

	lb_case_init(&c);
	if (selector)
		lb_case_note(&c, "node-selector", selector);
	return hz_lb_selects(hz_lb_selection(&c.spec, &c.arena), &node);
}

static void
selects_nodes_by_their_labels(void **state)
{
	(void)state;
	assert_true(selects_web(NULL));
	assert_true(selects_web(""));
	assert_true(selects_web("pool in (web,db),!gpu"));
	assert_false(selects_web("pool=db"));
	assert_false(selects_web("pool=web,gpu"));
	assert_true(selects_web(
		"pool in")); /* cannot be read: its error comes from hz_lb_desired_read() */
	check_refused("node-selector", "pool in",
	              "unable to parse the node-selector annotation: selector \"pool in\", "
	              "position 8: expected '('");
}

/* ---- the list of annotations ---- */

static void
check_listed(struct str key)
{
	for (const char *const *listed = hz_lb_annotations; *listed; listed++) {
		if (str_eq_c(key, *listed))
			return;
	}
	fail_msg("hz_lb_annotations lacks %" STR_FMT, STR_ARG(key));
}

/* Whatever the sources read is in the list, which ccmd doctor uses to find mistakes in names. */
static void
all_annotations_are_listed(void **state UNUSED)
{
	static const char *const sources[] = { "src/providers/hcloud/lb_desired.c",
		                               "src/providers/hcloud/balancers.c" };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
		CLEANUP(buf_fini) struct buf text = BUF_INIT(MIB(1));
		struct error err;

		assert_true(file_read(sources[i], &text, &err));
		for (const char *at = text.ptr; (at = strstr(at, "HZ_LB_PREFIX"));) {
			struct str key, rest;

			at += strlen("HZ_LB_PREFIX");
			at += strspn(at, " \t\n");
			if (*at != '"' || !str_cut(str_c(at + 1), '"', &key, &rest) ||
			    str_index(key, ' ') >= 0)
				continue;
			check_listed(key);
			n++;
		}
	}
	assert_true(n > 30);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_made_at_one_place),
		cmocka_unit_test(says_that_a_place_is_missing),
		cmocka_unit_test(has_a_type),
		cmocka_unit_test(has_an_algorithm),
		cmocka_unit_test(the_public_interface_has_three_states),
		cmocka_unit_test(asks_for_an_address_in_its_network),
		cmocka_unit_test(asks_for_a_subnet),
		cmocka_unit_test(private_targets_need_a_network),
		cmocka_unit_test(names_certificates_by_id_or_name),
		cmocka_unit_test(orders_a_managed_certificate),
		cmocka_unit_test(a_managed_certificate_needs_domains),
		cmocka_unit_test(a_service_has_a_protocol),
		cmocka_unit_test(the_proxy_protocol_may_be_configured),
		cmocka_unit_test(a_service_may_have_http_details),
		cmocka_unit_test(says_which_http_detail_is_wrong),
		cmocka_unit_test(a_service_may_have_a_check_of_its_own),
		cmocka_unit_test(a_check_over_https_is_one_over_http),
		cmocka_unit_test(details_of_http_alone_make_no_check),
		cmocka_unit_test(says_which_check_detail_is_wrong),
		cmocka_unit_test(checks_may_be_configured),
		cmocka_unit_test(without_ports_their_annotations_do_not_count),
		cmocka_unit_test(selects_nodes_by_their_labels),
		cmocka_unit_test(all_annotations_are_listed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
