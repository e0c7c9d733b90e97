/* Dry runs note the requests that a real run sends, and leave nothing behind. */
#include "providers/hcloud/lb_converge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cloud/dry_notes.h"
#include "providers/hcloud/balancers.h"
#include "providers/hcloud/lab.h"

#define OF_U \
	"/load_balancers?label_selector=hcloud-ccm%2Fservice-uid%3Du-1&page=1&per_page=50&sort=id%3Aasc"
#define META(total) "\"meta\":{\"pagination\":{\"next_page\":null,\"total_entries\":" total "}}"
#define NONE "{\"load_balancers\":[]," META("0") "}"
#define LISTED(lb) "{\"load_balancers\":[" lb "]," META("1") "}"
#define ONE(lb) "{\"load_balancer\":" lb "}"
#define OWN_LABEL "\"hcloud-ccm/service-uid\":\"u-1\""
#define CHECK(interval)                                                                \
	"\"health_check\":{\"protocol\":\"tcp\",\"port\":30080,\"interval\":" interval \
	",\"timeout\":10,\"retries\":3}"
#define SERVICE(port, interval)                                                      \
	"{\"protocol\":\"tcp\",\"listen_port\":" port ",\"destination_port\":30080," \
	"\"proxyprotocol\":false,\"http\":{\"certificates\":[]}," CHECK(interval) "}"
#define LB_OF(labels, net, services, targets)                                                  \
	"{\"id\":7,\"name\":\"au1\",\"labels\":{" labels "},\"public_net\":{\"enabled\":true," \
	"\"ipv4\":{\"ip\":\"203.0.113.1\",\"dns_ptr\":\"old.example.com\"},"                   \
	"\"ipv6\":{\"ip\":\"2001:db8::1\",\"dns_ptr\":null}},\"private_net\":[" net "],"       \
	"\"load_balancer_type\":{\"id\":1,\"name\":\"lb11\",\"max_targets\":25},"              \
	"\"algorithm\":{\"type\":\"round_robin\"},\"protection\":{\"delete\":false},"          \
	"\"services\":[" services "],\"targets\":[" targets "]}"
#define LB LB_OF(OWN_LABEL, "", SERVICE("80", "15"), "")
#define LB_IN(network, ip) \
	LB_OF(OWN_LABEL, "{\"network\":" network ",\"ip\":\"" ip "\"}", SERVICE("80", "15"), "")
#define LB_NAMED(labels) LB_OF(labels, "", SERVICE("80", "15"), "")
#define TARGET(id, is_private)                                  \
	"{\"type\":\"server\",\"server\":{\"id\":" id "},\"use" \
	"_private_ip\":" is_private "}"
#define TYPES                                                                                  \
	"{\"load_balancer_types\":[{\"id\":1,\"name\":\"lb11\",\"max_targets\":25},{\"id\":2," \
	"\"name\":\"lb21\",\"max_targets\":75}]," META("2") "}"

extern const struct cloud_ops hcloud_cloud;

static struct {
	struct lab *lab;
	struct arena arena;
	struct hz_actions *actions;
	struct hz_lb_cache *cache;
	struct hz_balancers *balancers;
	struct hcloud cloud;
	struct lb_spec spec;
	struct label annotations[8];
	enum lb_outcome outcome;
	struct lb_status status;
	struct dry_notes notes;
	struct error err;
} story;

static const struct lb_port ports[] = {
	{ .protocol_text = STR("TCP"), .protocol = LB_TCP, .port = 80, .node_port = 30080 },
	{ .protocol_text = STR("TCP"), .protocol = LB_TCP, .port = 443, .node_port = 30443 },
};
static struct node_ref nodes[] = {
	{ .name = STR("n1"), .provider_id = STR("hcloud://1"), .is_ready = true },
	{ .name = STR("n2"), .provider_id = STR("hcloud://2"), .is_ready = true },
};

static void
close_all(void)
{
	hz_balancers_free(TAKE(story.balancers));
	hz_actions_free(TAKE(story.actions));
	hz_lb_cache_free(TAKE(story.cache));
}

static void
open_dialect(const struct hz_dialect *dialect, int64_t network)
{
	close_all();
	lab_open(story.lab, dialect, network);
	story.cache = hz_lb_cache_new(story.lab->api, &story.lab->fake.clock);
	story.actions = hz_actions_new(story.lab->api, &story.lab->fake.clock);
	story.balancers = hz_balancers_new(&(struct hz_balancers_config){
		.config = story.lab->config,
		.host = &story.lab->fake.host,
		.api = story.lab->api,
		.actions = story.actions,
		.cache = story.cache,
		.network = network,
	});
	story.cloud = (struct hcloud){
		.cloud = { .ops = &hcloud_cloud, .host = &story.lab->fake.host },
		.balancers = story.balancers,
		.config = story.lab->config,
		.host = &story.lab->fake.host,
		.api = story.lab->api,
		.servers_known = story.lab->servers_known,
		.network = network,
		.is_network_ours = network != 0,
	};
}

static int
setup(void **state)
{
	int result = lab_setup(state);

	memset(&story, 0, sizeof(story));
	story.lab = *state;
	story.lab->fake.host.service_event = lab_record_service_event;
	story.lab->fake.nodes = nodes;
	story.lab->fake.n_nodes = ARRAY_LEN(nodes);
	dry_notes_init(&story.notes);
	setenv("HCLOUD_LOAD_BALANCERS_LOCATION", "fsn1", 1);
	setenv("HCLOUD_LOAD_BALANCERS_TYPE", "lb11", 1);
	open_dialect(&hz_official, 0);
	lab_answer(story.lab, LAB_PAGE_1, 200,
	           LAB_LIST(LAB_SERVER(1, "n1") "," LAB_SERVER(2, "n2"), "null", "2"));
	story.spec = (struct lb_spec){ .cluster = STR("blue"),
		                       .namespace = STR("default"),
		                       .service = STR("web"),
		                       .uid = STR("u-1"),
		                       .name = STR("au1"),
		                       .annotations = story.annotations,
		                       .ports = ports,
		                       .n_ports = 1 };
	return result;
}

static int
teardown(void **state)
{
	close_all();
	dry_notes_fini(&story.notes);
	arena_fini(&story.arena);
	return lab_teardown(state);
}

static void
answer(const char *target, int status, const char *body)
{
	lab_answer(story.lab, target, status, body);
}

static void
annotate(const char *key, const char *value)
{
	story.annotations[story.spec.n_annotations++] = (struct label){
		arena_printf(&story.arena, "load-balancer.hetzner.cloud/%s", key),
		str_c(value),
	};
}

static void
select_nodes(size_t n)
{
	story.spec.nodes = nodes;
	story.spec.n_nodes = n;
}

static bool
ensure(bool is_dry)
{
	struct call call = lab_call(story.lab, &story.arena);

	call.dry = is_dry ? &story.notes.item : NULL;
	story.status = (struct lb_status){ 0 };
	return hz_balancer_ops.ensure(&story.cloud.cloud, &call, &story.spec, &story.outcome,
	                              &story.status, &story.err);
}

static bool
remove_it(bool is_dry, bool *ret_found)
{
	struct call call = lab_call(story.lab, &story.arena);

	call.dry = is_dry ? &story.notes.item : NULL;
	return hz_balancer_ops.remove(&story.cloud.cloud, &call, &story.spec, ret_found,
	                              &story.err);
}

/* The requests that were sent and are no GET: method and target, each with a new line. Forgets
 * them. */
static struct str
sent(void)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(10));
	struct str result;

	for (struct str line, rest = buf_str(&story.lab->script.asked);
	     str_split(&rest, '\n', &line);) {
		struct str method, target, body;

		if (!str_cut(line, ' ', &method, &target))
			continue; /* a GET */
		str_cut(target, ' ', &target, &body);
		buf_addf(&b, "%" STR_FMT " %" STR_FMT "\n", STR_ARG(method), STR_ARG(target));
	}
	result = arena_str(&story.arena, buf_str(&b));
	buf_reset(&story.lab->script.asked);
	return result;
}

static void
ensure_dry(void)
{
	if (!ensure(/*is_dry=*/true))
		fail_msg("%s", story.err.msg);
	assert_int_equal(sent().len, 0);
	assert_int_equal(story.lab->fake.events.len, 0);
}

/* Notes twice what is then done: the first dry run must not change the second one, and both not
 * the real run. What is new has the id 7. */
static void
check_cost(const char *wanted)
{
	CLEANUP(buf_fini) struct buf noted = BUF_INIT(KIB(10));

	ensure_dry();
	dry_notes_forget(&story.notes);
	ensure_dry();
	for (struct str line, rest = buf_str(&story.notes.requests);
	     str_split(&rest, '\n', &line) && line.len > 0;) {
		struct str before, after;

		if (str_cut(line, '{', &before, &after))
			buf_addf(&noted, "%" STR_FMT "7%" STR_FMT "\n", STR_ARG(before),
			         STR_ARG(str_skip(after, strlen("id}"))));
		else
			buf_addf(&noted, "%" STR_FMT "\n", STR_ARG(line));
	}
	assert_string_equal(noted.ptr, wanted);
	if (!ensure(/*is_dry=*/false))
		fail_msg("%s", story.err.msg);
	assert_string_equal(sent().ptr, wanted);
}

static void
check_ingress(size_t i, const char *ip)
{
	assert_true(i < story.status.n_ingress);
	assert_true(str_eq_c(story.status.ingress[i].ip, ip));
}

#define ACTION "POST /load_balancers/7/actions/"

/* ---- new balancers ---- */

static void
one_request_makes_a_plain_balancer(void **state)
{
	(void)state;
	select_nodes(2);
	answer(OF_U, 200, NONE);
	answer("/load_balancer_types*", 200, TYPES);
	ensure_dry();
	assert_int_equal(story.outcome, LB_DONE);
	assert_int_equal(story.status.n_ingress, 2);
	check_ingress(0, "(new IPv4 address)");
	check_ingress(1, "(new IPv6 address)");
	dry_notes_check(&story.notes, "create load balancer au1: POST /load_balancers\n"
	                              "  type:  -> lb11\n"
	                              "  location:  -> fsn1\n"
	                              "  label hcloud-ccm/service-uid:  -> u-1\n"
	                              "  label ccmd.io/cluster:  -> blue\n"
	                              "  service 80:  -> protocol tcp, listen_port 80, "
	                              "destination_port 30080, "
	                              "health_check.protocol tcp, health_check.port 30080\n"
	                              "  target node n1:  -> server 1\n"
	                              "  target node n2:  -> server 2\n");
	answer("POST /load_balancers", 201,
	       ONE(LB_OF(OWN_LABEL, "", SERVICE("80", "15"),
	                 TARGET("1", "false") "," TARGET("2", "false"))));
	answer("/load_balancers/7", 200,
	       ONE(LB_OF(OWN_LABEL, "", SERVICE("80", "15"),
	                 TARGET("1", "false") "," TARGET("2", "false"))));
	check_cost("POST /load_balancers\n");
}

/* The API would answer 422. */
static void
no_target_without_its_server(void **state)
{
	static struct node_ref gone[] = {
		{ .name = STR("n1"), .provider_id = STR("hcloud://1"), .is_ready = true },
		{ .name = STR("n3"), .provider_id = STR("hcloud://3"), .is_ready = true },
	};

	(void)state;
	story.spec.nodes = gone;
	story.spec.n_nodes = ARRAY_LEN(gone);
	answer(OF_U, 200, LISTED(LB));
	ensure_dry();
	dry_notes_check(&story.notes, "change load balancer au1: " ACTION
	                              "add_target\n  target node n1:  -> server 1\n");
}

/* An address in the network can be asked for only after the balancer was created, and targets by
 * their private address need the network. */
static void
parts_that_the_first_request_cannot_have_follow_it(void **state)
{
	(void)state;
	open_dialect(&hz_official, 4711);
	select_nodes(2);
	annotate("private-ipv4", "10.0.0.5");
	annotate("use-private-ip", "true");
	annotate("ipv4-rdns", "web.example.com");
	answer(OF_U, 200, NONE);
	answer("/load_balancer_types*", 200, TYPES);
	answer("POST /load_balancers", 201, ONE(LB));
	answer("POST *", 201, "{}");
	answer("/load_balancers/7", 200, ONE(LB));
	answer("/load_balancers/7", 200, ONE(LB_IN("4711", "10.0.0.5")));
	check_cost("POST /load_balancers\n"
	           "POST /load_balancers/7/actions/change_dns_ptr\n"
	           "POST /load_balancers/7/actions/attach_to_network\n"
	           "POST /load_balancers/7/actions/add_target\n"
	           "POST /load_balancers/7/actions/add_target\n");
	assert_int_equal(story.status.n_ingress, 3);
	check_ingress(2, "10.0.0.5");
}

#define CERTIFICATES_OF_U \
	"/certificates?label_selector=hcloud-ccm%2Fservice-uid%3Du-1&page=1&per_page=50&sort=id%3Aasc"
#define NO_CERTIFICATE "{\"certificates\":[]," META("0") "}"

static void
ask_for_a_certificate(void)
{
	annotate("protocol", "https");
	annotate("certificate-type", "managed");
	annotate("http-managed-certificate-domains", "example.com,www.example.com");
	answer(CERTIFICATES_OF_U, 200, NO_CERTIFICATE);
}

/* Services wait until their certificate is issued. */
static void
services_follow_a_managed_certificate(void **state)
{
	(void)state;
	ask_for_a_certificate();
	story.spec.n_ports = 2;
	answer(OF_U, 200, NONE);
	answer("/load_balancer_types*", 200, TYPES);
	answer("POST /certificates", 201,
	       "{\"certificate\":{\"id\":9,\"name\":\"c\",\"type\":\"managed\"},"
	       "\"action\":{\"id\":70,\"status\":\"running\"}}");
	answer("POST /load_balancers", 201, ONE(LB_OF(OWN_LABEL, "", "", "")));
	answer("/load_balancers/7", 200, ONE(LB_OF(OWN_LABEL, "", "", "")));
	answer("/actions*", 200, "{\"actions\":[{\"id\":70,\"status\":\"success\"}]}");
	answer("POST /load_balancers/7/actions/add_service", 201, "{}");
	check_cost("POST /certificates\n"
	           "POST /load_balancers\n"
	           "POST /load_balancers/7/actions/add_service\n"
	           "POST /load_balancers/7/actions/add_service\n");
}

static void
an_order_is_noted_with_its_domains(void **state)
{
	(void)state;
	ask_for_a_certificate();
	answer(OF_U, 200, LISTED(LB));
	ensure_dry();
	dry_notes_check(&story.notes,
	                "create certificate ccm-managed-certificate-u-1: POST /certificates\n"
	                "  domain names:  -> example.com, www.example.com\n"
	                "change load balancer au1: "
	                "POST /load_balancers/7/actions/update_service\n"
	                "  service 80 protocol: tcp -> https\n"
	                "  service 80 http.certificates:  -> (to be issued)\n");
}

/* ---- balancers that exist ---- */

struct difference {
	const char *annotation, *value; /* NULL: none */
	const char *listed;             /* the answer with the balancer */
	size_t n_ports, n_nodes;
	int64_t network;
	const char *noted; /* after "change load balancer au1: " */
};

static const struct difference differences[] = {
	{ .listed = LISTED(LB), .noted = NULL },
	{ .annotation = "algorithm-type",
	  .value = "least_connections",
	  .listed = LISTED(LB),
	  .noted = ACTION "change_algorithm\n  algorithm: round_robin -> least_connections\n" },
	{ .annotation = "type",
	  .value = "lb21",
	  .listed = LISTED(LB),
	  .noted = ACTION "change_type\n  type: lb11 -> lb21\n" },
	{ .annotation = "name",
	  .value = "web",
	  .listed = LISTED(LB),
	  .noted = "PUT /load_balancers/7\n  name: au1 -> web\n" },
	{ .annotation = "ipv4-rdns",
	  .value = "new.example.com",
	  .listed = LISTED(LB),
	  .noted = ACTION "change_dns_ptr\n"
	                  "  dns_ptr of 203.0.113.1: old.example.com -> new.example.com\n" },
	{ .annotation = "ipv6-rdns",
	  .value = "new.example.com",
	  .listed = LISTED(LB),
	  .noted = ACTION "change_dns_ptr\n  dns_ptr of 2001:db8::1:  -> new.example.com\n" },
	{ .annotation = "disable-public-network",
	  .value = "true",
	  .listed = LISTED(LB),
	  .noted = ACTION "disable_public_interface\n  public interface: enabled -> disabled\n" },
	{ .listed = LISTED(LB),
	  .network = 4711,
	  .noted = ACTION "attach_to_network\n  network 4711:  -> (new private address)\n" },
	{ .listed = LISTED(LB_IN("99", "10.9.0.3")),
	  .noted = ACTION "detach_from_network\n  network 99: 10.9.0.3 -> \n" },
	/* a target by its public address stays */
	{ .listed = LISTED(LB_OF(OWN_LABEL, "{\"network\":99,\"ip\":\"10.9.0.3\"}",
	                         SERVICE("80", "15"), TARGET("1", "false"))),
	  .n_nodes = 1,
	  .noted = ACTION "detach_from_network\n  network 99: 10.9.0.3 -> \n" },
	{ .annotation = "uses-proxyprotocol",
	  .value = "true",
	  .listed = LISTED(LB),
	  .noted = ACTION "update_service\n  service 80 proxyprotocol: false -> true\n" },
	{ .annotation = "health-check-retries",
	  .value = "0",
	  .listed = LISTED(LB),
	  .noted = ACTION "update_service\n  service 80 health_check.retries: 3 -> 0\n" },
	{ .annotation = "health-check-interval",
	  .value = "30s",
	  .listed = LISTED(LB),
	  .noted = ACTION "update_service\n  service 80 health_check.interval: 15 -> 30\n" },
	{ .listed = LISTED(LB),
	  .n_ports = 2,
	  .noted = ACTION "add_service\n"
	                  "  service 443:  -> protocol tcp, listen_port 443, "
	                  "destination_port 30443, "
	                  "health_check.protocol tcp, health_check.port 30443\n" },
	{ .listed = LISTED(LB_OF(OWN_LABEL, "", SERVICE("80", "15") "," SERVICE("8080", "15"), "")),
	  .noted = ACTION "delete_service\n"
	                  "  service 8080: protocol tcp, listen_port 8080, "
	                  "destination_port 30080, proxyprotocol false, "
	                  "health_check.protocol tcp, health_check.port 30080, "
	                  "health_check.interval 15, health_check.timeout 10, "
	                  "health_check.retries 3 -> \n" },
	{ .listed = LISTED(LB),
	  .n_nodes = 1,
	  .noted = ACTION "add_target\n  target node n1:  -> server 1\n" },
	{ .listed = LISTED(LB_OF(OWN_LABEL, "", SERVICE("80", "15"), TARGET("2", "true"))),
	  .noted = ACTION "remove_target\n  target node n2: server 2, private address -> \n" },
	{ .listed = LISTED(LB_OF(OWN_LABEL, "", SERVICE("80", "15"), TARGET("99", "false"))),
	  .noted = ACTION "remove_target\n  target server 99: server 99 -> \n" },
	{ .listed = LISTED(LB_OF(OWN_LABEL, "", SERVICE("80", "15"),
	                         "{\"type\":\"ip\",\"ip\":{\"ip\":\"192.0.2.7\"}}")),
	  .noted = ACTION "remove_target\n  target 192.0.2.7: 192.0.2.7 -> \n" },
};

static void
each_difference_is_one_request(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(differences); i++) {
		const struct difference *d = &differences[i];
		CLEANUP(buf_fini) struct buf wanted = BUF_INIT(KIB(2));

		if (i > 0) {
			teardown(state);
			setup(state);
		}
		open_dialect(&hz_official, d->network);
		if (d->annotation)
			annotate(d->annotation, d->value);
		if (d->n_ports > 0)
			story.spec.n_ports = d->n_ports;
		select_nodes(d->n_nodes);
		answer(OF_U, 200, d->listed);
		answer("/load_balancer_types*", 200, TYPES);
		ensure_dry();
		if (d->noted)
			buf_addf(&wanted, "change load balancer au1: %s", d->noted);
		dry_notes_check(&story.notes, wanted.ptr);
	}
}

/* The balancer is read again only by a real run. */
static void
several_differences_cost_what_was_noted(void **state)
{
	(void)state;
	open_dialect(&hz_official, 4711);
	story.spec.n_ports = 2;
	select_nodes(2);
	annotate("algorithm-type", "least_connections");
	annotate("type", "lb21");
	annotate("use-private-ip", "true");
	answer(OF_U, 200, LISTED(LB_OF(OWN_LABEL, "", SERVICE("80", "15"), TARGET("1", "false"))));
	answer("/load_balancer_types*", 200, TYPES);
	answer("/load_balancers/7", 200,
	       ONE(LB_OF(OWN_LABEL, "{\"network\":4711,\"ip\":\"10.0.0.3\"}", SERVICE("80", "15"),
	                 TARGET("1", "false"))));
	answer("POST *", 201, "{}");
	check_cost(ACTION "change_algorithm\n" ACTION "change_type\n" ACTION
	                  "attach_to_network\n" ACTION "remove_target\n" ACTION
	                  "add_target\n" ACTION "add_target\n" ACTION "add_service\n");
}

/* The public interface is disabled when no target uses it any more. */
static void
the_public_interface_follows_the_targets(void **state)
{
	(void)state;
	open_dialect(&hz_official, 4711);
	select_nodes(1);
	annotate("use-private-ip", "true");
	annotate("disable-public-network", "true");
	answer(OF_U, 200,
	       LISTED(LB_OF(OWN_LABEL, "{\"network\":4711,\"ip\":\"10.0.0.3\"}",
	                    SERVICE("80", "15"), TARGET("1", "false"))));
	answer("/load_balancers/7", 200, ONE(LB_IN("4711", "10.0.0.3")));
	answer("POST *", 201, "{}");
	check_cost(ACTION "remove_target\n" ACTION "add_target\n" ACTION
	                  "disable_public_interface\n");
}

/* The API removes them with the network. */
static void
targets_of_a_network_that_is_left_are_added_again(void **state)
{
	(void)state;
	open_dialect(&hz_official, 4711);
	select_nodes(2);
	annotate("use-private-ip", "true");
	annotate("private-ipv4", "10.0.0.5");
	answer(OF_U, 200,
	       LISTED(LB_OF(OWN_LABEL, "{\"network\":4711,\"ip\":\"10.0.0.3\"}",
	                    SERVICE("80", "15"), TARGET("1", "true") "," TARGET("2", "true"))));
	answer("/load_balancers/7", 200, ONE(LB_IN("4711", "10.0.0.5")));
	answer("POST *", 201, "{}");
	check_cost(ACTION "detach_from_network\n" ACTION "attach_to_network\n" ACTION
	                  "add_target\n" ACTION "add_target\n");
}

/* The type that the balancer will have, not the one that it has, says what fits. */
static void
what_the_new_type_has_no_room_for_is_noted(void **state)
{
	(void)state;
	annotate("type", "lb21");
	story.spec.n_ports = 2;
	select_nodes(2);
	answer(OF_U, 200, LISTED(LB_OF(OWN_LABEL, "", SERVICE("80", "15"), TARGET("1", "false"))));
	answer("/load_balancer_types*", 200,
	       "{\"load_balancer_types\":[{\"id\":2,\"name\":\"lb21\",\"max_targets\":1,"
	       "\"max_services\":1}]," META("1") "}");
	ensure_dry();
	dry_notes_check(&story.notes,
	                "change load balancer au1: " ACTION "change_type\n  type: lb11 -> lb21\n"
	                "stays: a load balancer of type \"lb21\" has at most 1 targets: "
	                "these nodes are left out: n2\n"
	                "stays: a load balancer of type \"lb21\" has at most 1 services: "
	                "these ports are not served: 443\n");
}

static void
targets_alone_are_updated(void **state)
{
	struct call call = lab_call(story.lab, &story.arena);

	(void)state;
	call.dry = &story.notes.item;
	select_nodes(1);
	answer(OF_U, 200, LISTED(LB));
	assert_true(hz_balancer_ops.update_nodes(&story.cloud.cloud, &call, &story.spec,
	                                         &story.err));
	dry_notes_check(&story.notes, "change load balancer au1: " ACTION
	                              "add_target\n  target node n1:  -> server 1\n");
}

/* ---- adopted ---- */

static void
an_adopted_balancer_gets_its_label(void **state)
{
	(void)state;
	annotate("name", "au1");
	answer(OF_U, 200, NONE);
	answer("/load_balancers?name=au1*", 200,
	       LISTED(LB_NAMED("\"team\":\"a\",\"ccmd.io/cluster\":\"kubernetes\"")));
	ensure_dry();
	check_ingress(0, "203.0.113.1");
	dry_notes_check(&story.notes, "change load balancer au1: PUT /load_balancers/7\n"
	                              "  label hcloud-ccm/service-uid:  -> u-1\n"
	                              "  label ccmd.io/cluster: kubernetes -> blue\n");
	answer("PUT /load_balancers/7", 200, "{}");
	answer("/load_balancers/7", 200, ONE(LB));
	ensure_dry();
	dry_notes_forget(&story.notes);
	assert_true(ensure(/*is_dry=*/false));
	assert_string_equal(sent().ptr, "PUT /load_balancers/7\n");
}

/* ---- nothing to note ---- */

static void
what_a_real_run_refuses_is_not_noted(void **state)
{
	(void)state;
	annotate("type", "lb99");
	answer(OF_U, 200, NONE);
	answer("/load_balancer_types*", 200, TYPES);
	assert_false(ensure(/*is_dry=*/true));
	assert_int_equal(story.err.code, ERR_INVALID);
	dry_notes_check(&story.notes, "");
}

static void
in_another_project_nothing_is_noted(void **state)
{
	static struct lb_ingress ingress = { .ip = STR("203.0.113.1") };
	bool found;

	(void)state;
	ask_for_a_certificate();
	story.lab->script.n_answers = 0; /* the list of servers of this project */
	story.spec.status = (struct lb_status){ &ingress, 1 };
	answer(OF_U, 200, NONE);
	answer("/load_balancer_types*", 200, TYPES);
	answer(LAB_PAGE_1, 200, LAB_LIST("", "null", "0"));
	answer("/servers/*", 404, LAB_NOT_FOUND);
	assert_false(ensure(/*is_dry=*/true));
	assert_int_equal(story.err.code, ERR_PENDING);
	assert_false(remove_it(/*is_dry=*/true, &found));
	assert_int_equal(story.err.code, ERR_PENDING);
	dry_notes_check(&story.notes, "");
	assert_int_equal(sent().len, 0);
}

/* ---- removed ---- */

/* The Service is still there, so its balancer is not free for others. */
static void
a_removal_is_noted_and_forgets_nothing(void **state)
{
	bool found = false;

	(void)state;
	answer(OF_U, 200, LISTED(LB));
	ensure_dry();
	assert_true(remove_it(/*is_dry=*/true, &found));
	assert_true(found);
	dry_notes_check(&story.notes, "delete load balancer au1: DELETE /load_balancers/7\n");
	assert_true(hz_lb_cache_state(story.cache, STR("u-1")).is_live);
	answer("DELETE /load_balancers/7", 204, NULL);
	assert_int_equal(sent().len, 0);
	assert_true(remove_it(/*is_dry=*/false, &found));
	assert_string_equal(sent().ptr, "DELETE /load_balancers/7\n");
	assert_false(hz_lb_cache_state(story.cache, STR("u-1")).is_live);
}

static void
a_protected_balancer_is_not_noted_as_removed(void **state)
{
	bool found = false;

	(void)state;
	answer(OF_U, 200,
	       LISTED("{\"id\":7,\"name\":\"au1\",\"labels\":{" OWN_LABEL
	              "},\"protection\":{\"delete\":true}}"));
	assert_true(remove_it(/*is_dry=*/true, &found));
	dry_notes_check(&story.notes, "");
}

static void
the_tutorials_unlabelled_balancer_is_noted_as_removed(void **state)
{
	bool found = false;

	(void)state;
	setenv("HCLOUD_NETWORK", "4711", 1);
	open_dialect(&hz_tutorial, 4711);
	answer(OF_U, 200, NONE);
	answer("/load_balancers?name=blue-default-web*", 200,
	       LISTED("{\"id\":7,\"name\":\"blue-default-web\"}"));
	assert_true(remove_it(/*is_dry=*/true, &found));
	assert_true(found);
	dry_notes_check(&story.notes,
	                "delete load balancer blue-default-web: DELETE /load_balancers/7\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_request_makes_a_plain_balancer),
		TEST(no_target_without_its_server),
		TEST(parts_that_the_first_request_cannot_have_follow_it),
		TEST(services_follow_a_managed_certificate),
		TEST(an_order_is_noted_with_its_domains),
		TEST(each_difference_is_one_request),
		TEST(several_differences_cost_what_was_noted),
		TEST(the_public_interface_follows_the_targets),
		TEST(targets_of_a_network_that_is_left_are_added_again),
		TEST(what_the_new_type_has_no_room_for_is_noted),
		TEST(targets_alone_are_updated),
		TEST(an_adopted_balancer_gets_its_label),
		TEST(what_a_real_run_refuses_is_not_noted),
		TEST(in_another_project_nothing_is_noted),
		TEST(a_removal_is_noted_and_forgets_nothing),
		TEST(a_protected_balancer_is_not_noted_as_removed),
		TEST(the_tutorials_unlabelled_balancer_is_noted_as_removed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
