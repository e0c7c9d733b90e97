#include "providers/hcloud/lb_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/limits.h"
#include "lb_case.h"

enum {
	NETWORK = 4711,
};

/* A balancer as the cloud answers for it, which is all that lb_case wants. */
struct made {
	struct label labels[3];
	struct hz_private_net nets[3];
	struct hz_lb_service services[3];
	struct hz_lb_target targets[8];
	struct hz_lb lb;
	struct hz_lb_type type; /* the wanted one */
	struct lb_case c;
};

static struct hz_lb_service
service_of(int64_t listen_port, int64_t destination_port)
{
	return (struct hz_lb_service){
		.listen_port = listen_port,
		.destination_port = destination_port,
		.protocol = STR("tcp"),
		.proxy_protocol = HZ_NO,
		.check = { .protocol = STR("tcp"),
		           .port = destination_port,
		           .interval_s = { true, 15 },
		           .timeout_s = { true, 10 },
		           .retries = { true, 3 } },
	};
}

static void
made_init(struct made *m)
{
	*m = (struct made){ .type = { .id = 1, .name = STR("lb11"), .max_targets = 25 } };
	lb_case_init(&m->c);
	m->labels[0] = (struct label){ STR(HZ_LABEL_UID), STR(CASE_UID) };
	m->services[0] = service_of(80, 30080);
	m->lb = (struct hz_lb){
		.id = 7,
		.name = STR(CASE_NAME),
		.labels = m->labels,
		.n_labels = 1,
		.uid = STR(CASE_UID),
		.type = m->type,
		.algorithm = STR("round_robin"),
		.is_public = true,
		.ipv4 = { .ip = STR("203.0.113.7"), .dns_ptr = STR("old.example.com") },
		.ipv6 = { .ip = STR("2001:db8::1") },
		.nets.items = m->nets,
		.services = m->services,
		.n_services = 1,
		.targets = m->targets,
	};
}

static void
made_fini(struct made *m)
{
	lb_case_fini(&m->c);
}

/* The service as the API gives one over http: with its defaults. */
static void
make_http(struct hz_lb_service *s)
{
	s->protocol = STR("http");
	s->has_http = true;
	s->http = (struct hz_lb_http){
		.cookie_name = { true, STR("HCLBSTICKY") },
		.cookie_lifetime_s = { true, 300 },
		.timeout_idle_s = { true, 60 },
		.redirects = HZ_NO,
		.is_sticky = HZ_NO,
		.has_certificates = true,
	};
}

static void
make_http_check(struct made *m, struct hz_lb_service *s)
{
	s->check.protocol = STR("http");
	s->check.domain = (struct hz_opt_str){ true, STR_EMPTY };
	s->check.path = (struct hz_opt_str){ true, STR("/") };
	s->check.has_status_codes = true;
	s->check.status_codes = arena_calloc(&m->c.arena, 2, sizeof(struct str));
	s->check.status_codes[0] = STR("2??");
	s->check.status_codes[1] = STR("3??");
	s->check.n_status_codes = 2;
	s->check.is_tls = HZ_NO;
}

/* Steps as "verb body" in lines; each body must be JSON. */
static void
check_steps(const struct hz_steps *steps, const char *wanted)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(16));

	for (size_t i = 0; i < steps->n; i++) {
		const struct hz_step *step = &steps->steps[i];
		CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
		struct error err;

		buf_addf(&b, "%s %" STR_FMT "\n", step->verb ? step->verb : "PUT",
		         STR_ARG(step->body));
		if (step->body.len > 0 && !json_parse(step->body, &doc, &err))
			fail_msg("%" STR_FMT ": %s", STR_ARG(step->body), err.msg);
	}
	assert_string_equal(b.ptr, wanted);
}

/* The result of the steps, as a dry run computes it, must need no further steps. */
static void
check_shape(struct made *m, int64_t network, const char *wanted)
{
	struct hz_lb_desired desired = lb_case_desired(&m->c, network);
	struct hz_steps steps;
	struct hz_lb result, same;

	hz_plan_shape(&desired, &m->type, &m->lb, &m->c.arena, &steps, &result);
	check_steps(&steps, wanted);
	hz_plan_shape(&desired, &m->type, &result, &m->c.arena, &steps, &same);
	check_steps(&steps, "");
}

static void
check_services(struct made *m, const char *wanted)
{
	struct hz_lb_desired desired = lb_case_desired(&m->c, 0);
	struct hz_steps steps;

	hz_plan_services(&desired, &m->lb, &m->c.arena, &steps);
	check_steps(&steps, wanted);
}

/* ---- shape ---- */

static void
a_settled_balancer_has_no_step(void **state)
{
	CLEANUP(made_fini) struct made m;

	(void)state;
	made_init(&m);
	check_shape(&m, 0, "");
	check_services(&m, "");
	lb_case_note(&m.c, "name", CASE_NAME);
	lb_case_note(&m.c, "ipv4-rdns", "OLD.example.com");
	lb_case_note(&m.c, "algorithm-type", "round_robin");
	lb_case_note(&m.c, "type", "lb11");
	lb_case_note(&m.c, "disable-public-network", "false");
	lb_case_note(&m.c, "location", "hel1"); /* only for new ones */
	check_shape(&m, 0, "");
}

static void
our_label_joins_the_others(void **state)
{
	CLEANUP(made_fini) struct made m;

	(void)state;
	made_init(&m);
	m.labels[0] = (struct label){ STR("team"), STR("a\"b") };
	m.labels[1] = (struct label){ STR(HZ_LABEL_UID), STR("stale") };
	m.labels[2] = (struct label){ STR("tier"), STR_EMPTY };
	m.lb.n_labels = 3;
	m.lb.uid = STR("stale");
	check_shape(&m, 0,
	            "PUT {\"labels\":{\"team\":\"a\\\"b\",\"tier\":\"\","
	            "\"hcloud-ccm/service-uid\":\"" CASE_UID "\"}}\n");
	m.lb.n_labels = 0;
	m.lb.uid = STR_EMPTY;
	check_shape(&m, 0, "PUT {\"labels\":{\"hcloud-ccm/service-uid\":\"" CASE_UID "\"}}\n");
}

/* Otherwise the first start of a version that writes it would change every balancer. */
static void
the_cluster_is_written_with_another_label_and_never_alone(void **state)
{
	CLEANUP(made_fini) struct made m;

	(void)state;
	made_init(&m);
	m.c.spec.cluster = STR("blue");
	check_shape(&m, 0, "");
	m.labels[1] = (struct label){ STR(HZ_LABEL_CLUSTER), STR("green") };
	m.lb.n_labels = 2;
	check_shape(&m, 0, "");
	lb_case_note(&m.c, "name", "web");
	check_shape(&m, 0, "PUT {\"name\":\"web\"}\n");
	m.lb.name = STR("web");
	m.lb.uid = STR("stale");
	check_shape(&m, 0,
	            "PUT {\"labels\":{\"hcloud-ccm/service-uid\":\"" CASE_UID
	            "\",\"ccmd.io/cluster\":\"blue\"}}\n");
}

static void
an_annotated_name_renames(void **state)
{
	CLEANUP(made_fini) struct made m;

	(void)state;
	made_init(&m);
	m.lb.name = STR("by hand");
	check_shape(&m, 0, ""); /* a default name never does */
	lb_case_note(&m.c, "name", "");
	check_shape(&m, 0, "");
	m.c.annotations[0].value = STR("web");
	check_shape(&m, 0, "PUT {\"name\":\"web\"}\n");
	m.lb.uid = STR_EMPTY;
	m.lb.n_labels = 0;
	check_shape(&m, 0,
	            "PUT {\"name\":\"web\",\"labels\":{\"hcloud-ccm/service-uid\":\"" CASE_UID
	            "\"}}\n");
}

static void
rdns_is_set_where_there_is_an_address(void **state)
{
	CLEANUP(made_fini) struct made m;

	(void)state;
	made_init(&m);
	lb_case_note(&m.c, "ipv4-rdns", "web.example.com");
	lb_case_note(&m.c, "ipv6-rdns", "web6.example.com");
	check_shape(&m, 0,
	            "change_dns_ptr {\"ip\":\"203.0.113.7\",\"dns_ptr\":\"web.example.com\"}\n"
	            "change_dns_ptr {\"ip\":\"2001:db8::1\",\"dns_ptr\":\"web6.example.com\"}\n");
	m.lb.ipv4.dns_ptr = STR("web.example.com");
	m.lb.ipv6.ip = STR_EMPTY;
	check_shape(&m, 0, "");
	m.c.annotations[0].value = STR(""); /* the entry stays */
	check_shape(&m, 0, "");
}

static void
changes_the_algorithm(void **state)
{
	CLEANUP(made_fini) struct made m;

	(void)state;
	made_init(&m);
	m.lb.algorithm = STR("least_connections");
	check_shape(&m, 0, "");
	lb_case_note(&m.c, "algorithm-type", "round_robin");
	check_shape(&m, 0, "change_algorithm {\"type\":\"round_robin\"}\n");
}

static void
changes_a_chosen_type(void **state)
{
	CLEANUP(made_fini) struct made m;

	(void)state;
	made_init(&m);
	m.lb.type.name = STR("lb21");
	check_shape(&m, 0, ""); /* never down to the default */
	lb_case_note(&m.c, "type", "lb31");
	m.type = (struct hz_lb_type){ .id = 3, .name = STR("lb31") };
	check_shape(&m, 0, "change_type {\"load_balancer_type\":3}\n");
}

static void
leaves_other_networks(void **state)
{
	CLEANUP(made_fini) struct made m;

	(void)state;
	made_init(&m);
	m.nets[0] = (struct hz_private_net){ 4712, STR("10.1.0.5") };
	m.nets[1] = (struct hz_private_net){ NETWORK, STR("10.0.0.5") };
	m.lb.nets.n = 2;
	check_shape(&m, NETWORK, "detach_from_network {\"network\":4712}\n");
	check_shape(&m, 0,
	            "detach_from_network {\"network\":4712}\n"
	            "detach_from_network {\"network\":4711}\n");
	m.lb.nets.n = 1;
	check_shape(
		&m, NETWORK,
		"detach_from_network {\"network\":4712}\nattach_to_network {\"network\":4711}\n");
}

static void
joins_its_network(void **state)
{
	CLEANUP(made_fini) struct made m;

	(void)state;
	made_init(&m);
	check_shape(&m, NETWORK, "attach_to_network {\"network\":4711}\n");
	lb_case_note(&m.c, "private-subnet-ip-range", "10.0.0.9/24");
	check_shape(&m, NETWORK,
	            "attach_to_network {\"network\":4711,\"ip_range\":\"10.0.0.0/24\"}\n");
	lb_case_note(&m.c, "private-ipv4", "10.0.0.5");
	check_shape(&m, NETWORK,
	            "attach_to_network {\"network\":4711,\"ip\":\"10.0.0.5\","
	            "\"ip_range\":\"10.0.0.0/24\"}\n");
	m.nets[0] = (struct hz_private_net){ NETWORK, STR("10.0.0.5") };
	m.lb.nets.n = 1;
	check_shape(&m, NETWORK, "");
}

static void
another_private_address_is_attached_again(void **state)
{
	CLEANUP(made_fini) struct made m;

	(void)state;
	made_init(&m);
	m.nets[0] = (struct hz_private_net){ NETWORK, STR("10.0.0.5") };
	m.lb.nets.n = 1;
	lb_case_note(&m.c, "private-ipv4", "10.0.0.6");
	check_shape(&m, NETWORK,
	            "detach_from_network {\"network\":4711}\n"
	            "attach_to_network {\"network\":4711,\"ip\":\"10.0.0.6\"}\n");
}

static void
another_subnet_is_not(void **state)
{
	CLEANUP(made_fini) struct made m;

	(void)state;
	made_init(&m);
	m.nets[0] = (struct hz_private_net){ NETWORK, STR("10.0.0.5") };
	m.lb.nets.n = 1;
	lb_case_note(&m.c, "private-subnet-ip-range", "10.0.9.0/24");
	check_shape(&m, NETWORK, "");
}

static void
switches_the_public_interface(void **state)
{
	CLEANUP(made_fini) struct made m;

	(void)state;
	made_init(&m);
	lb_case_note(&m.c, "disable-public-network", "true");
	check_shape(&m, 0, "disable_public_interface \n");
	m.lb.is_public = false;
	check_shape(&m, 0, "");
	lb_case_note(&m.c, "disable-public-network", "false");
	check_shape(&m, 0, "enable_public_interface \n");
}

static void
steps_have_the_official_order(void **state)
{
	CLEANUP(made_fini) struct made m;

	(void)state;
	made_init(&m);
	m.lb.uid = STR_EMPTY;
	m.lb.n_labels = 0;
	m.type = (struct hz_lb_type){ .id = 2, .name = STR("lb21") };
	m.nets[0] = (struct hz_private_net){ 4712, STR("10.1.0.5") };
	m.lb.nets.n = 1;
	lb_case_note(&m.c, "ipv4-rdns", "web.example.com");
	lb_case_note(&m.c, "ipv6-rdns", "web.example.com");
	lb_case_note(&m.c, "algorithm-type", "least_connections");
	lb_case_note(&m.c, "type", "lb21");
	lb_case_note(&m.c, "disable-public-network", "true");
	check_shape(&m, NETWORK,
	            "PUT {\"labels\":{\"hcloud-ccm/service-uid\":\"" CASE_UID "\"}}\n"
	            "change_dns_ptr {\"ip\":\"203.0.113.7\",\"dns_ptr\":\"web.example.com\"}\n"
	            "change_dns_ptr {\"ip\":\"2001:db8::1\",\"dns_ptr\":\"web.example.com\"}\n"
	            "change_algorithm {\"type\":\"least_connections\"}\n"
	            "change_type {\"load_balancer_type\":2}\n"
	            "detach_from_network {\"network\":4712}\n"
	            "attach_to_network {\"network\":4711}\n"
	            "disable_public_interface \n");
}

/* ---- services ---- */

#define TCP_BODY(listen, node)                                                        \
	"{\"protocol\":\"tcp\",\"listen_port\":" listen ",\"destination_port\":" node \
	",\"health_check\":{\"protocol\":\"tcp\",\"port\":" node "}}\n"

static void
services_come_and_go(void **state)
{
	CLEANUP(made_fini) struct made m;
	struct hz_lb_desired desired;
	struct hz_steps steps;

	(void)state;
	made_init(&m);
	m.services[0] = service_of(8080, 30080);
	m.services[1] = service_of(53, 30053);
	m.lb.n_services = 2;
	lb_case_port(&m.c, LB_TCP, 443, 30443);
	check_services(&m, "add_service " TCP_BODY("80", "30080") "add_service " TCP_BODY(
				   "443", "30443") "delete_service {\"listen_port\":8080}\n"
	                                           "delete_service {\"listen_port\":53}\n");
	desired = lb_case_desired(&m.c, 0);
	hz_plan_services(&desired, &m.lb, &m.c.arena, &steps);
	assert_int_equal(steps.steps[0].listen_port, 80);
	assert_int_equal(steps.steps[3].listen_port, 53);
}

/* The API refuses a service beyond the limit of the type, also if another one is about to go. */
static void
services_are_removed_first_where_the_type_has_no_room(void **state)
{
	CLEANUP(made_fini) struct made m;

	(void)state;
	made_init(&m);
	m.services[0] = service_of(8080, 30080);
	m.services[1] = service_of(8443, 30443);
	m.lb.n_services = 2;
	lb_case_port(&m.c, LB_TCP, 443, 30443);
	m.lb.type.max_services = 3;
	check_services(&m, "delete_service {\"listen_port\":8080}\n"
	                   "delete_service {\"listen_port\":8443}\n"
	                   "add_service " TCP_BODY("80", "30080") "add_service " TCP_BODY("443",
	                                                                                  "30443"));
	m.lb.type.max_services = 4;
	check_services(&m, "add_service " TCP_BODY("80", "30080") "add_service " TCP_BODY(
				   "443", "30443") "delete_service {\"listen_port\":8080}\n"
	                                           "delete_service {\"listen_port\":8443}\n");
}

/* What serves already stays, then the lowest ports are served. */
static void
services_beyond_the_limit_are_left_out(void **state)
{
	CLEANUP(made_fini) struct made m;
	CLEANUP(buf_fini) struct buf left_out = BUF_INIT(KIB(1));
	struct hz_lb_desired desired;

	(void)state;
	made_init(&m);
	lb_case_port(&m.c, LB_TCP, 8443, 30444);
	lb_case_port(&m.c, LB_TCP, 443, 30443);
	lb_case_port(&m.c, LB_TCP, 53, 30053);
	m.services[0] = service_of(8443, 30444);
	desired = lb_case_desired(&m.c, 0);
	hz_plan_fit_services(&desired, 4, &m.lb, &m.c.arena, &left_out);
	hz_plan_fit_services(&desired, 0, &m.lb, &m.c.arena, &left_out);
	assert_int_equal(desired.n_services, 4);
	assert_int_equal(left_out.len, 0);
	hz_plan_fit_services(&desired, 3, &m.lb, &m.c.arena, &left_out);
	assert_int_equal(desired.n_services, 3);
	assert_int_equal(desired.services[0].listen_port, 80);
	assert_int_equal(desired.services[1].listen_port, 8443);
	assert_int_equal(desired.services[2].listen_port, 53);
	assert_string_equal(left_out.ptr, "443");
	hz_plan_fit_services(&desired, 1, NULL, &m.c.arena, &left_out);
	assert_int_equal(desired.services[0].listen_port, 53);
	assert_string_equal(left_out.ptr, "44380, 8443");
}

/* Something of the balancer's one service is changed by hand, and comes back. */
static void
check_corrected(void (*change)(struct hz_lb_service *))
{
	CLEANUP(made_fini) struct made m;

	made_init(&m);
	change(&m.services[0]);
	check_services(&m, "update_service " TCP_BODY("80", "30080"));
}

static void
to_another_node_port(struct hz_lb_service *s)
{
	s->destination_port = 30081;
}

static void
to_a_stale_check(struct hz_lb_service *s)
{
	s->check.port = 30081;
}

static void
to_an_http_check(struct hz_lb_service *s)
{
	s->check.protocol = STR("http");
}

static void
to_http(struct hz_lb_service *s)
{
	make_http(s);
}

static void
what_is_always_owned_is_corrected(void **state)
{
	(void)state;
	check_corrected(to_another_node_port);
	check_corrected(to_a_stale_check);
	check_corrected(to_an_http_check);
	check_corrected(to_http);
}

/* Set by hand, or left behind by an annotation: lb_plan.h says why. */
static void
settings_without_an_annotation_are_left_unchanged(void **state)
{
	CLEANUP(made_fini) struct made m;
	struct hz_lb_service *s = &m.services[0];

	(void)state;
	made_init(&m);
	s->proxy_protocol = HZ_YES;
	s->check.interval_s.value = 99;
	s->check.timeout_s.value = 98;
	s->check.retries.value = 9;
	check_services(&m, "");
	lb_case_note(&m.c, "protocol", "http");
	make_http(s);
	s->http.is_sticky = HZ_YES;
	s->http.redirects = HZ_YES;
	s->http.cookie_name.value = STR("MINE");
	s->http.cookie_lifetime_s.value = 1;
	s->http.timeout_idle_s.value = 2;
	check_services(&m, "");
	lb_case_note(&m.c, "health-check-retries", "9");
	make_http_check(&m, s);
	s->check.path.value = STR("/mine");
	s->check.domain.value = STR("mine");
	s->check.is_tls = HZ_YES;
	s->check.n_status_codes = 1;
	check_services(&m, "");
}

/* An annotation for a service with the cloud's defaults: a step, and none when the cloud has it
 * so. */
static void
check_asked(const char *key, const char *value, void (*change)(struct hz_lb_service *))
{
	CLEANUP(made_fini) struct made m;
	struct hz_lb_desired desired;
	struct hz_steps steps;

	made_init(&m);
	lb_case_note(&m.c, "protocol", "http");
	lb_case_note(&m.c, "health-check-protocol", "http");
	lb_case_note(&m.c, key, value);
	make_http(&m.services[0]);
	make_http_check(&m, &m.services[0]);
	desired = lb_case_desired(&m.c, 0);
	hz_plan_services(&desired, &m.lb, &m.c.arena, &steps);
	if (steps.n != 1 || !str_eq_c(str_c(steps.steps[0].verb), "update_service"))
		fail_msg("%s=%s makes %zu steps", key, value, steps.n);
	change(&m.services[0]);
	hz_plan_services(&desired, &m.lb, &m.c.arena, &steps);
	if (steps.n > 0)
		fail_msg("%s=%s is never reached", key, value);
}

#define CHANGE(name, ...)                         \
	static void name(struct hz_lb_service *s) \
	{                                         \
		__VA_ARGS__;                      \
	}

CHANGE(proxied, s->proxy_protocol = HZ_YES)
CHANGE(named_cookie, s->http.cookie_name.value = STR("C"))
CHANGE(long_cookie, s->http.cookie_lifetime_s.value = 60)
CHANGE(patient, s->http.timeout_idle_s.value = 90)
CHANGE(redirecting, s->http.redirects = HZ_YES)
CHANGE(sticky, s->http.is_sticky = HZ_YES)
CHANGE(checked_elsewhere, s->check.port = 8080)
CHANGE(checked_often, s->check.interval_s.value = 5)
CHANGE(checked_briefly, s->check.timeout_s.value = 4)
CHANGE(checked_once, s->check.retries.value = 1)
CHANGE(checked_by_name, s->check.domain.value = STR("a.example"))
CHANGE(checked_there, s->check.path.value = STR("/healthz"))
CHANGE(checked_with_tls, s->check.is_tls = HZ_YES)
CHANGE(checked_for_less, s->check.n_status_codes = 1)

static void
every_member_that_is_asked_for_counts(void **state)
{
	(void)state;
	check_asked("uses-proxyprotocol", "true", proxied);
	check_asked("http-cookie-name", "C", named_cookie);
	check_asked("http-cookie-lifetime", "60s", long_cookie);
	check_asked("http-timeout-idle", "90s", patient);
	check_asked("http-redirect-http", "true", redirecting);
	check_asked("http-sticky-sessions", "true", sticky);
	check_asked("health-check-port", "8080", checked_elsewhere);
	check_asked("health-check-interval", "5s", checked_often);
	check_asked("health-check-timeout", "4s", checked_briefly);
	check_asked("health-check-retries", "1", checked_once);
	check_asked("health-check-http-domain", "a.example", checked_by_name);
	check_asked("health-check-http-path", "/healthz", checked_there);
	check_asked("health-check-http-validate-certificate", "true", checked_with_tls);
	check_asked("health-check-protocol", "https", checked_with_tls);
	check_asked("http-status-codes", "2??", checked_for_less);
}

static void
lists_are_sets(void **state)
{
	CLEANUP(made_fini) struct made m;
	int64_t wanted[] = { 7, 8 }, actual[] = { 8, 7, 9 };
	struct hz_lb_http *http = &m.services[0].http;
	struct hz_lb_desired desired;
	struct hz_steps steps;

	(void)state;
	made_init(&m);
	lb_case_note(&m.c, "protocol", "https");
	lb_case_note(&m.c, "http-certificates", "7,8");
	lb_case_note(&m.c, "health-check-protocol", "http");
	lb_case_note(&m.c, "http-status-codes", "3??,2??,2??");
	make_http(&m.services[0]);
	make_http_check(&m, &m.services[0]);
	m.services[0].protocol = STR("https");
	desired = lb_case_desired(&m.c, 0);
	desired.services[0].http.certificates = wanted;
	desired.services[0].http.n_certificates = 2;
	http->certificates = actual;
	for (http->n_certificates = 0; http->n_certificates <= 3; http->n_certificates++) {
		hz_plan_services(&desired, &m.lb, &m.c.arena, &steps);
		assert_int_equal(steps.n, http->n_certificates == 2 ? 0 : 1);
	}
	check_steps(&steps, "update_service {\"protocol\":\"https\",\"listen_port\":80,"
	                    "\"destination_port\":30080,\"http\":{\"certificates\":[7,8]},"
	                    "\"health_check\":{\"protocol\":\"http\",\"port\":30080,\"http\":{"
	                    "\"status_codes\":[\"3??\",\"2??\",\"2??\"],\"tls\":false}}}\n");
}

/* The API keeps none for tcp, and one that is older says nothing of timeout_idle: both would never
 * settle. */
static void
values_that_the_cloud_does_not_name_are_not_compared(void **state)
{
	CLEANUP(made_fini) struct made m;

	(void)state;
	made_init(&m);
	lb_case_note(&m.c, "http-timeout-idle", "90s");
	lb_case_note(&m.c, "http-sticky-sessions", "true");
	check_services(&m, "");
	lb_case_note(&m.c, "http-sticky-sessions", "false");
	lb_case_note(&m.c, "protocol", "http");
	make_http(&m.services[0]);
	m.services[0].http.timeout_idle_s.is_set = false;
	check_services(&m, "");
}

/* ---- targets ---- */

static struct hz_lb_target
server(int64_t id, bool uses_private_ip)
{
	return (struct hz_lb_target){
		.type = HZ_TARGET_SERVER,
		.server = id,
		.ip = STR_EMPTY,
		.uses_private_ip = uses_private_ip,
	};
}

static struct hz_lb_target
address(const char *ip)
{
	return (struct hz_lb_target){ .type = HZ_TARGET_IP, .ip = str_c(ip) };
}

static void
check_targets(const struct hz_lb_target wanted[], size_t n_wanted, struct hz_lb_target actual[],
              size_t n_actual, const char *steps_wanted)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct hz_lb lb = { .targets = actual, .n_targets = n_actual };
	struct hz_steps steps;

	hz_plan_targets(wanted, n_wanted, &lb, &arena, &steps);
	check_steps(&steps, steps_wanted);
}

#define ADD_SERVER(id, is_private)                                    \
	"add_target {\"type\":\"server\",\"server\":{\"id\":" id "}," \
	"\"use_private_ip\":" is_private "}\n"
#define ADD_IP(ip) "add_target {\"type\":\"ip\",\"ip\":{\"ip\":\"" ip "\"}}\n"
#define REMOVE_SERVER(id) "remove_target {\"type\":\"server\",\"server\":{\"id\":" id "}}\n"
#define REMOVE_IP(ip) "remove_target {\"type\":\"ip\",\"ip\":{\"ip\":\"" ip "\"}}\n"

static void
the_same_targets_need_nothing(void **state)
{
	const struct hz_lb_target wanted[] = { server(3, true), server(1, true),
		                               address("203.0.113.9") };
	struct hz_lb_target actual[] = { server(1, true), address("203.0.113.9"), server(3, true) };

	(void)state;
	check_targets(NULL, 0, NULL, 0, "");
	check_targets(wanted, 3, actual, 3, "");
}

static void
targets_are_removed_before_others_are_added(void **state)
{
	const struct hz_lb_target wanted[] = { server(5, false), address("203.0.113.9"),
		                               server(2, false) };
	struct hz_lb_target actual[] = { server(9, false), address("203.0.113.8"),
		                         server(2, false) };

	(void)state;
	check_targets(wanted, 3, actual, 3,
	              REMOVE_SERVER("9") REMOVE_IP("203.0.113.8") ADD_SERVER("5", "false")
	                      ADD_IP("203.0.113.9"));
	check_targets(wanted, 3, NULL, 0,
	              ADD_SERVER("5", "false") ADD_IP("203.0.113.9") ADD_SERVER("2", "false"));
	check_targets(NULL, 0, actual, 3,
	              REMOVE_SERVER("9") REMOVE_IP("203.0.113.8") REMOVE_SERVER("2"));
}

static void
another_way_there_is_another_target(void **state)
{
	const struct hz_lb_target wanted[] = { server(5, true) };
	struct hz_lb_target actual[] = { server(5, false) };

	(void)state;
	check_targets(wanted, 1, actual, 1, REMOVE_SERVER("5") ADD_SERVER("5", "true"));
}

/* The public address can only be given up before the private one is added, so the pairs go one by
 * one. */
static void
a_server_that_changes_its_address_is_back_before_the_next_one_goes(void **state)
{
	const struct hz_lb_target wanted[] = { server(7, false), server(5, true), server(6, true) };
	struct hz_lb_target actual[] = { server(6, false), server(9, false), server(5, false) };

	(void)state;
	check_targets(wanted, 3, actual, 3,
	              REMOVE_SERVER("6") ADD_SERVER("6", "true") REMOVE_SERVER("9")
	                      REMOVE_SERVER("5") ADD_SERVER("5", "true") ADD_SERVER("7", "false"));
}

/* A hostile or broken API may repeat a target as often as an answer has room for. */
static void
a_target_that_the_cloud_repeats_is_removed_once(void **state)
{
	static struct hz_lb_target actual[3000];
	const struct hz_lb_target wanted[] = { server(5, true) };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(actual); i++)
		actual[i] = server(5, false);
	check_targets(wanted, 1, actual, ARRAY_LEN(actual),
	              REMOVE_SERVER("5") ADD_SERVER("5", "true"));
	check_targets(NULL, 0, actual, ARRAY_LEN(actual), REMOVE_SERVER("5"));
}

/* A server's id may be the number of a dedicated one. */
static void
selectors_are_left_alone(void **state)
{
	const struct hz_lb_target wanted[] = { server(5, false) };
	struct hz_lb_target actual[] = { { .type = HZ_TARGET_SELECTOR, .ip = STR_EMPTY },
		                         { .type = HZ_TARGET_SELECTOR, .ip = STR_EMPTY } };

	(void)state;
	check_targets(wanted, 1, actual, 2, ADD_SERVER("5", "false"));
}

static void
one_target_is_added_once(void **state)
{
	const struct hz_lb_target wanted[] = { server(5, false), address("2001:DB8::1"),
		                               server(5, false), address("2001:db8:0::1"),
		                               address("not an address") };
	struct hz_lb_target actual[] = { address("2001:db8::0:1") };

	(void)state;
	check_targets(wanted, 5, NULL, 0,
	              ADD_SERVER("5", "false") ADD_IP("2001:DB8::1") ADD_IP("not an address"));
	check_targets(wanted, 4, actual, 1, ADD_SERVER("5", "false"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_settled_balancer_has_no_step),
		cmocka_unit_test(our_label_joins_the_others),
		cmocka_unit_test(the_cluster_is_written_with_another_label_and_never_alone),
		cmocka_unit_test(an_annotated_name_renames),
		cmocka_unit_test(rdns_is_set_where_there_is_an_address),
		cmocka_unit_test(changes_the_algorithm),
		cmocka_unit_test(changes_a_chosen_type),
		cmocka_unit_test(leaves_other_networks),
		cmocka_unit_test(joins_its_network),
		cmocka_unit_test(another_private_address_is_attached_again),
		cmocka_unit_test(another_subnet_is_not),
		cmocka_unit_test(switches_the_public_interface),
		cmocka_unit_test(steps_have_the_official_order),
		cmocka_unit_test(services_come_and_go),
		cmocka_unit_test(services_are_removed_first_where_the_type_has_no_room),
		cmocka_unit_test(services_beyond_the_limit_are_left_out),
		cmocka_unit_test(what_is_always_owned_is_corrected),
		cmocka_unit_test(settings_without_an_annotation_are_left_unchanged),
		cmocka_unit_test(every_member_that_is_asked_for_counts),
		cmocka_unit_test(lists_are_sets),
		cmocka_unit_test(values_that_the_cloud_does_not_name_are_not_compared),
		cmocka_unit_test(the_same_targets_need_nothing),
		cmocka_unit_test(targets_are_removed_before_others_are_added),
		cmocka_unit_test(another_way_there_is_another_target),
		cmocka_unit_test(
			a_server_that_changes_its_address_is_back_before_the_next_one_goes),
		cmocka_unit_test(a_target_that_the_cloud_repeats_is_removed_once),
		cmocka_unit_test(selectors_are_left_alone),
		cmocka_unit_test(one_target_is_added_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
