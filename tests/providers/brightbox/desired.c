/* What a Service needs: sections "Load balancers", "Annotations" and "The desired load balancer" of
 * docs/spec/brightbox.md. */
#include "providers/brightbox/desired.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "cloud/change.h"

#define AWS_KEY "service.beta.kubernetes.io/aws-load-balancer-healthcheck-interval"

/* ---- a Service ---- */

struct service {
	struct arena arena;
	struct label annotations[8];
	struct lb_port ports[3];
	struct node_ref refs[3];
	struct lb_spec spec;
};

static void
service_fini(struct service *s)
{
	arena_fini(&s->arena);
}

static void
add_port(struct service *s, const char *name, int32_t port, int32_t node_port)
{
	s->ports[s->spec.n_ports++] = (struct lb_port){ str_c(name), STR_EMPTY, STR("TCP"),
		                                        LB_TCP,      port,      node_port };
}

static void
add_node(struct service *s, const char *provider_id)
{
	size_t i = s->spec.n_nodes++;

	s->refs[i] = (struct node_ref){ .name = STR("n"), .provider_id = str_c(provider_id) };
}

/* key: without the prefix, or a whole one. */
static void
annotate(struct service *s, const char *key, const char *value)
{
	const char *prefix = strchr(key, '/') ? "" : BB_PREFIX;

	s->annotations[s->spec.n_annotations++] = (struct label){
		arena_printf(&s->arena, "%s%s", prefix, key), str_c(value)
	};
}

/* Port 80 at the nodes' 30080, and one node. */
static void
service_init(struct service *s)
{
	*s = (struct service){ 0 };
	s->spec = (struct lb_spec){
		.cluster = STR("k"),
		.namespace = STR("default"),
		.service = STR("web"),
		.uid = STR("u"),
		.name = STR("au"),
		.annotations = s->annotations,
		.ports = s->ports,
		.wanted_ip = STR_EMPTY,
		.nodes = s->refs,
	};
	add_port(s, "http", 80, 30080);
	add_node(s, "brightbox://srv-aaaaa");
}

static struct bb_desired
read_desired(struct service *s)
{
	struct bb_desired desired;
	struct error err;

	if (!bb_desired_read(&s->spec, &s->arena, &desired, &err))
		fail_msg("%s", err.msg);
	return desired;
}

static void
check_refused(struct service *s, const char *msg)
{
	struct bb_desired desired;
	struct error err;

	if (bb_desired_read(&s->spec, &s->arena, &desired, &err))
		fail_msg("taken, and not refused with: %s", msg);
	assert_int_equal(err.code, ERR_INVALID);
	assert_string_equal(err.msg, msg);
}

static void
check_body(struct service *s, bool is_update, const char *wanted)
{
	struct bb_desired desired = read_desired(s);
	struct str body = bb_desired_body(&desired, desired.domains, desired.n_domains, is_update,
	                                  &s->arena);

	assert_string_equal(body.ptr, wanted);
}

/* ---- names ---- */

static void
names(void **state)
{
	CLEANUP(service_fini) struct service s;

	(void)state;
	service_init(&s);
	assert_true(str_eq_c(bb_name(&s.spec, &s.arena), "web.default.k"));
	s.spec.namespace = s.spec.service = STR_EMPTY;
	assert_true(str_eq_c(bb_name(&s.spec, &s.arena), "au.default.k"));
}

static void
finds_the_service_in_a_name(void **state)
{
	CLEANUP(service_fini) struct service s;
	struct str service, cluster;

	(void)state;
	service_init(&s);
	assert_true(bb_name_parse(STR("web.default.k.example"), &s.arena, &service, &cluster));
	assert_true(str_eq_c(service, "default/web"));
	assert_true(str_eq_c(cluster, "k.example"));
	assert_false(bb_name_parse(STR("web.default"), &s.arena, &service, &cluster));
	assert_false(bb_name_parse(STR("web.default."), &s.arena, &service, &cluster));
	assert_false(bb_name_parse(STR("My balancer.of.k"), &s.arena, &service, &cluster));
	assert_false(bb_name_parse(STR(""), &s.arena, &service, &cluster));
}

/* The rest of a provider ID with another scheme proves nothing about a server. */
static void
only_nodes_of_this_cloud_are_members(void **state)
{
	CLEANUP(service_fini) struct service s;
	struct bb_desired desired;

	(void)state;
	service_init(&s);
	s.spec.n_nodes = 0;
	add_node(&s, "k3s://srv-gdqms");
	add_node(&s, "brightbox://");
	add_node(&s, "brightbox://srv-bbbbb");
	desired = read_desired(&s);
	assert_int_equal(desired.n_servers, 1);
	assert_true(str_eq_c(desired.servers[0], "srv-bbbbb"));
}

/* ---- refusals ---- */

static void
refuses_annotations(void **state)
{
	static const struct {
		const char *key, *value, *msg;
	} rows[] = {
		{ "policy", "magic",
		  "Invalid Load Balancer Policy \"magic\": magic is not a valid balancingpolicy.Enum" },
		{ "listener-protocol", "http+ws",
		  "Invalid Load Balancer Listener Protocol \"http+ws\": http+ws is not a valid "
		  "listenerprotocol.Enum" },
		{ "listener-protocol", "TCP",
		  "Invalid Load Balancer Listener Protocol \"TCP\": TCP is not a valid "
		  "listenerprotocol.Enum" },
		{ "listener-proxy-protocol", "v3",
		  "Invalid Load Balancer Listener Proxy Protocol \"v3\": v3 is not a valid "
		  "proxyprotocol.Enum" },
		{ "healthcheck-protocol", "https",
		  "Invalid Load Balancer Healthcheck Protocol \"https\": https is not a valid "
		  "healthchecktype.Enum" },
		{ "healthcheck-timeout", "-1",
		  "\"" BB_PREFIX "healthcheck-timeout\" needs to be a positive number "
		  "(strconv.ParseUint: parsing \"-1\": invalid syntax)" },
		{ "healthcheck-healthy-threshold", "0x56",
		  "\"" BB_PREFIX "healthcheck-healthy-threshold\" needs to be a positive number "
		  "(strconv.ParseUint: parsing \"0x56\": invalid syntax)" },
		{ "healthcheck-unhealthy-threshold", "4294967296",
		  "\"" BB_PREFIX "healthcheck-unhealthy-threshold\" needs to be a positive number "
		  "(strconv.ParseUint: parsing \"4294967296\": value out of range)" },
		{ "listener-idle-timeout", "",
		  "\"" BB_PREFIX "listener-idle-timeout\" needs to be a positive number "
		  "(strconv.ParseUint: parsing \"\": invalid syntax)" },
		{ AWS_KEY, " 1",
		  "\"" AWS_KEY
		  "\" needs to be a positive number (strconv.ParseUint: parsing \" 1\": "
		  "invalid syntax)" },
		{ "healthcheck-request", "healthz",
		  "\"" BB_PREFIX "healthcheck-request\" needs to be a valid Url request path" },
		{ "healthcheck-request", "/a?b",
		  "\"" BB_PREFIX "healthcheck-request\" needs to be a valid Url request path" },
		{ "healthcheck-request", "/a\n",
		  "\"" BB_PREFIX "healthcheck-request\" needs to be a valid Url request path" },
		{ "cloudip-allocations", "cip-abc",
		  "\"" BB_PREFIX
		  "cloudip-allocations\" needs to match the pattern \"^cip-[0-9a-z]{5,}$\"" },
		{ "cloudip-allocations", "cip-ABCDE",
		  "\"" BB_PREFIX
		  "cloudip-allocations\" needs to match the pattern \"^cip-[0-9a-z]{5,}$\"" },
		{ "ssl-ports", "8443", "SSL support requires a Port definition for 443" },
		{ "ssl-domains", "a.example", "SSL support requires a Port definition for 443" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(service_fini) struct service s;

		service_init(&s);
		annotate(&s, rows[i].key, rows[i].value);
		check_refused(&s, rows[i].msg);
	}
}

static void
refuses_services(void **state)
{
	CLEANUP(service_fini) struct service s;

	(void)state;
	service_init(&s);
	s.spec.wanted_ip = STR("109.107.35.1");
	annotate(&s, "cloudip-allocations", "cip-abcde");
	check_refused(&s, "Remove obsolete field: spec.loadBalancerIP");
	s.ports[0].protocol = LB_SCTP;
	check_refused(&s, "UDP nodeports are not supported");
	s.spec.n_ports = 0;
	check_refused(&s, "requested load balancer with no ports");
	s.spec.has_client_ip_affinity = true;
	check_refused(&s, "unsupported load balancer affinity: ClientIP");
}

static void
refuses_certificates_where_tls_does_not_end(void **state)
{
	CLEANUP(service_fini) struct service s;

	(void)state;
	service_init(&s);
	add_port(&s, "https", 443, 30443);
	annotate(&s, "ssl-ports", "8443");
	check_refused(&s, "SSL needs a list of domains to certify. Add the \"" BB_PREFIX
	                  "ssl-domains\" annotation");
	annotate(&s, "listener-protocol", "tcp");
	annotate(&s, "ssl-domains", "a.example");
	check_refused(&s, "SSL Ports are not supported with the tcp protocol");
	s.annotations[0] = s.annotations[2];
	s.spec.n_annotations = 2;
	check_refused(&s, "SSL Domains are not supported with the tcp protocol");
}

static void
of_two_mistakes_the_first_key_is_named(void **state)
{
	CLEANUP(service_fini) struct service s;

	(void)state;
	service_init(&s);
	annotate(&s, "policy", "magic");
	annotate(&s, "healthcheck-protocol", "magic");
	check_refused(&s, "Invalid Load Balancer Healthcheck Protocol \"magic\": magic is not a "
	                  "valid healthchecktype.Enum");
}

/* ---- bodies ---- */

static void
a_plain_service(void **state)
{
	CLEANUP(service_fini) struct service s;

	(void)state;
	service_init(&s);
	check_body(&s, false,
	           "{\"name\":\"web.default.k\",\"nodes\":[{\"node\":\"srv-aaaaa\"}],"
	           "\"listeners\":[{\"protocol\":\"http\",\"in\":80,\"out\":30080}],"
	           "\"healthcheck\":{\"type\":\"http\",\"port\":30080,\"request\":\"/healthz\"},"
	           "\"https_redirect\":false}");
}

static void
every_annotation(void **state)
{
	CLEANUP(service_fini) struct service s;

	(void)state;
	service_init(&s);
	annotate(&s, "policy", "round-robin");
	annotate(&s, "listener-protocol", "tcp");
	annotate(&s, "listener-idle-timeout", "100000");
	annotate(&s, "listener-proxy-protocol", "v2-ssl-cn");
	annotate(&s, "healthcheck-protocol", "http");
	annotate(&s, "healthcheck-request", "/up");
	annotate(&s, "healthcheck-unhealthy-threshold", "4");
	annotate(&s, AWS_KEY, "4000");
	check_body(&s, false,
	           "{\"name\":\"web.default.k\",\"nodes\":[{\"node\":\"srv-aaaaa\"}],"
	           "\"policy\":\"round-robin\",\"listeners\":[{\"protocol\":\"tcp\",\"in\":80,"
	           "\"out\":30080,\"timeout\":100000,\"proxy_protocol\":\"v2-ssl-cn\"}],"
	           "\"healthcheck\":{\"type\":\"http\",\"port\":30080,\"request\":\"/up\","
	           "\"interval\":4000,\"threshold_down\":4},\"https_redirect\":false}");
}

static void
our_interval_goes_before_the_one_of_another_cloud(void **state)
{
	CLEANUP(service_fini) struct service s;

	(void)state;
	service_init(&s);
	annotate(&s, AWS_KEY, "4000");
	annotate(&s, "healthcheck-interval", "2000");
	assert_int_equal(read_desired(&s).check.interval_ms, 2000);
}

static void
ports_with_tls(void **state)
{
	CLEANUP(service_fini) struct service s;
	struct bb_desired desired;

	(void)state;
	service_init(&s);
	add_port(&s, "secure", 8443, 30844);
	add_port(&s, "", 443, 30443);
	annotate(&s, "ssl-ports", "secure,81");
	annotate(&s, "ssl-domains", "a.example,,b.example");
	desired = read_desired(&s);
	assert_true(desired.is_https);
	assert_true(str_eq_c(desired.listeners[0].protocol, "http"));
	assert_true(str_eq_c(desired.listeners[1].protocol, "https"));
	assert_true(str_eq_c(desired.listeners[2].protocol, "https"));
	assert_int_equal(desired.n_domains, 2);
	s.annotations[0].value = STR("*");
	assert_true(str_eq_c(read_desired(&s).listeners[1].protocol, "http"));
	s.annotations[0] = (struct label){ STR(BB_PREFIX "listener-protocol"), STR("https") };
	assert_true(str_eq_c(read_desired(&s).listeners[0].protocol, "https"));
}

static void
nodes_with_endpoints_only(void **state)
{
	CLEANUP(service_fini) struct service s;
	struct bb_desired desired;

	(void)state;
	service_init(&s);
	s.spec.traffic = LB_TRAFFIC_LOCAL;
	s.spec.health_check_node_port = 31000;
	annotate(&s, "listener-protocol", "tcp");
	desired = read_desired(&s);
	assert_true(str_eq_c(desired.check.type, "http"));
	assert_int_equal(desired.check.port, 31000);
	assert_true(str_eq_c(desired.firewall_ports, "30080,31000"));
	s.spec.traffic = LB_TRAFFIC_CLUSTER;
	desired = read_desired(&s);
	assert_true(str_eq_c(desired.check.type, "tcp"));
	assert_true(str_eq_c(desired.check.request, "/"));
	assert_int_equal(desired.check.port, 30080);
	assert_true(str_eq_c(desired.firewall_ports, "30080,31000"));
}

static void
no_nodes(void **state)
{
	CLEANUP(service_fini) struct service s;

	(void)state;
	service_init(&s);
	s.refs[0].provider_id = STR("other://srv-aaaaa");
	check_body(&s, true,
	           "{\"name\":\"web.default.k\",\"nodes\":[],"
	           "\"listeners\":[{\"protocol\":\"http\",\"in\":80,\"out\":30080}],"
	           "\"healthcheck\":{\"type\":\"http\",\"port\":30080,\"request\":\"/healthz\"},"
	           "\"https_redirect\":false}");
}

static void
domains_are_sorted_and_single(void **state)
{
	CLEANUP(service_fini) struct service s;
	struct bb_cloud_ip ip = { .fqdn = STR("cip.example"), .reverse_dns = STR_EMPTY };
	struct bb_desired desired;
	struct str *domains;
	size_t n;

	(void)state;
	service_init(&s);
	add_port(&s, "", 443, 30443);
	annotate(&s, "ssl-domains", "www.example,cip.example,a.example");
	desired = read_desired(&s);
	bb_desired_domains(&desired, &ip, &s.arena, &domains, &n);
	assert_int_equal(n, 3);
	assert_true(str_eq_c(domains[0], "a.example"));
	assert_true(str_eq_c(domains[1], "cip.example"));
	assert_true(str_eq_c(domains[2], "www.example"));
}

/* ---- the comparison ---- */

/* The balancer that the plain Service with https gets. */
static struct bb_lb
settled_lb(struct service *s, const struct bb_desired *desired)
{
	struct bb_lb lb = {
		.id = STR("lba-aaaaa"),
		.name = desired->name,
		.status = STR("active"),
		.policy = STR("least-connections"),
		.redirects_to_https = desired->is_https,
		.check = desired->check,
		.n_nodes = desired->n_servers,
		.nodes = desired->servers,
		.n_listeners = desired->n_listeners,
		.n_domains = desired->n_domains,
	};

	lb.check.interval_ms = lb.check.timeout_ms = 5000;
	lb.listeners = arena_calloc(&s->arena, lb.n_listeners, sizeof(*lb.listeners));
	for (size_t i = 0; i < lb.n_listeners; i++) {
		lb.listeners[i] = desired->listeners[i];
		lb.listeners[i].timeout_ms = 50000;
	}
	lb.domains = arena_calloc(&s->arena, lb.n_domains, sizeof(*lb.domains));
	for (size_t i = 0; i < lb.n_domains; i++)
		lb.domains[i].identifier = desired->domains[lb.n_domains - 1 - i];
	return lb;
}

/* The member of the body that differs first, or NULL. */
static const char *
difference(struct service *s, const struct bb_desired *desired, const struct bb_lb *lb)
{
	const struct dry_field *fields;
	struct change change = {
		.body = bb_desired_body(desired, desired->domains, desired->n_domains,
		                        /*is_update=*/true, &s->arena),
		.present = bb_desired_present(desired, lb, &s->arena),
	};

	return change_fields(&change, &s->arena, &fields) > 0 ? fields[0].name.ptr : NULL;
}

static void
a_settled_balancer_does_not_differ(void **state)
{
	CLEANUP(service_fini) struct service s;
	struct bb_desired desired;
	struct bb_lb lb;

	(void)state;
	service_init(&s);
	add_port(&s, "", 443, 30443);
	annotate(&s, "ssl-domains", "a.example,b.example");
	desired = read_desired(&s);
	lb = settled_lb(&s, &desired);
	assert_null(difference(&s, &desired, &lb));
}

/* The API may have an order of its own, and the official controller sends another one than we do.
 */
static void
order_is_no_difference(void **state)
{
	CLEANUP(service_fini) struct service s;
	struct str nodes[] = { STR("srv-bbbbb"), STR("srv-ccccc"), STR("srv-aaaaa") };
	struct bb_listener swap;
	struct bb_desired desired;
	struct bb_lb lb;

	(void)state;
	service_init(&s);
	add_port(&s, "", 443, 30443);
	add_node(&s, "brightbox://srv-bbbbb");
	add_node(&s, "brightbox://srv-ccccc");
	annotate(&s, "ssl-domains", "a.example,b.example");
	desired = read_desired(&s);
	lb = settled_lb(&s, &desired);
	lb.nodes = nodes;
	swap = lb.listeners[0];
	lb.listeners[0] = lb.listeners[1];
	lb.listeners[1] = swap;
	assert_null(difference(&s, &desired, &lb));
	lb.n_domains = 0;
	assert_string_equal(difference(&s, &desired, &lb), "domains");
	desired.is_https = false; /* no domains in the bodies */
	lb.redirects_to_https = false;
	lb.check.interval_ms = lb.check.timeout_ms = 0;
	assert_null(difference(&s, &desired, &lb));
}

/* Each row makes one difference. */
static void
each_difference_is_seen(void **state)
{
	enum {
		NAME,
		POLICY,
		REDIRECT,
		CHECK_TYPE,
		CHECK_PORT,
		CHECK_PATH,
		CHECK_INTERVAL,
		NODE,
		FEWER_NODES,
		PROTOCOL,
		OUT,
		PROXY,
		TIMEOUT,
		FEWER_LISTENERS,
		DOMAIN,
		FEWER_DOMAINS,
		NO_ACME,
		N_ROWS
	};

	(void)state;
	for (int row = 0; row < N_ROWS; row++) {
		CLEANUP(service_fini) struct service s;
		struct str other = STR("srv-bbbbb");
		struct bb_desired desired;
		struct bb_lb lb;

		service_init(&s);
		add_port(&s, "", 443, 30443);
		annotate(&s, "ssl-domains", "a.example,b.example");
		annotate(&s, "policy", "least-connections");
		annotate(&s, "healthcheck-interval", "5000");
		annotate(&s, "listener-idle-timeout", "50000");
		desired = read_desired(&s);
		lb = settled_lb(&s, &desired);
		assert_null(difference(&s, &desired, &lb));
		switch (row) {
		case NAME:
			lb.name = other;
			break;
		case POLICY:
			lb.policy = STR("round-robin");
			break;
		case REDIRECT:
			lb.redirects_to_https = false;
			break;
		case CHECK_TYPE:
			lb.check.type = STR("tcp");
			break;
		case CHECK_PORT:
			lb.check.port++;
			break;
		case CHECK_PATH:
			lb.check.request = STR("/");
			break;
		case CHECK_INTERVAL:
			lb.check.interval_ms++;
			break;
		case NODE:
			lb.nodes = &other;
			break;
		case FEWER_NODES:
			lb.n_nodes = 0;
			break;
		case PROTOCOL:
			lb.listeners[0].protocol = STR("tcp");
			break;
		case OUT:
			lb.listeners[1].out++;
			break;
		case PROXY:
			lb.listeners[0].proxy_protocol = STR("v1");
			break;
		case TIMEOUT:
			lb.listeners[0].timeout_ms++;
			break;
		case FEWER_LISTENERS:
			lb.n_listeners--;
			break;
		case DOMAIN:
			lb.domains[0].identifier = other;
			break;
		case FEWER_DOMAINS:
			lb.n_domains--;
			break;
		case NO_ACME:
			lb.n_domains = 0;
			break;
		default:
			fail();
		}
		if (!difference(&s, &desired, &lb))
			fail_msg("difference %d is not seen", row);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(finds_the_service_in_a_name),
		cmocka_unit_test(only_nodes_of_this_cloud_are_members),
		cmocka_unit_test(refuses_annotations),
		cmocka_unit_test(refuses_services),
		cmocka_unit_test(refuses_certificates_where_tls_does_not_end),
		cmocka_unit_test(of_two_mistakes_the_first_key_is_named),
		cmocka_unit_test(a_plain_service),
		cmocka_unit_test(every_annotation),
		cmocka_unit_test(our_interval_goes_before_the_one_of_another_cloud),
		cmocka_unit_test(ports_with_tls),
		cmocka_unit_test(nodes_with_endpoints_only),
		cmocka_unit_test(no_nodes),
		cmocka_unit_test(domains_are_sorted_and_single),
		cmocka_unit_test(a_settled_balancer_does_not_differ),
		cmocka_unit_test(order_is_no_difference),
		cmocka_unit_test(each_difference_is_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
