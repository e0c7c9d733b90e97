#include "providers/hcloud/balancers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "providers/hcloud/lab.h"

#define OF_U \
	"/load_balancers?label_selector=hcloud-ccm%2Fservice-uid%3Du-1&page=1&per_page=50&sort=id%3Aasc"
#define NONE \
	"{\"load_balancers\":[],\"meta\":{\"pagination\":{\"next_page\":null,\"total_entries\":0}}}"
#define LISTED(lb)                                                                           \
	"{\"load_balancers\":[" lb "],\"meta\":{\"pagination\":{\"next_page\":null,\"total_" \
	"entries\":1}}}"
#define OWN_LABEL "\"hcloud-ccm/service-uid\":\"u-1\""
#define LB_OF(name, labels, nets, ipv4, algorithm)                                                \
	"{\"id\":7,\"name\":\"" name "\",\"labels\":{" labels "},"                                \
	"\"public_net\":{\"enabled\":true,\"ipv4\":{\"ip\":" ipv4                                 \
	",\"dns_ptr\":null},\"ipv6\":{\"ip\":null,\"dns_ptr\":null}},\"private_net\":[" nets "]," \
	"\"load_balancer_type\":{\"id\":1,\"name\":\"lb11\",\"max_targets\":25},"                 \
	"\"algorithm\":{\"type\":\"" algorithm "\"},\"protection\":{\"delete\":false},"           \
	"\"services\":[{\"protocol\":\"tcp\",\"listen_port\":80,\"destination_port\":30080,"      \
	"\"proxyprotocol\":false,\"health_check\":{\"protocol\":\"tcp\",\"port\":30080,"          \
	"\"interval\":15,\"timeout\":10,\"retries\":3}}],\"targets\":[]}"
#define LB_WITH(ipv4, algorithm) LB_OF("au1", OWN_LABEL, "", ipv4, algorithm)
#define LB LB_WITH("\"203.0.113.1\"", "round_robin")
#define LB_LABELLED(name, labels) LB_OF(name, labels, "", "\"203.0.113.1\"", "round_robin")
#define LB_IN_NETWORK                                                                            \
	LB_OF("lab-a-b-c", OWN_LABEL, "{\"network\":4711,\"ip\":\"10.0.0.3\",\"alias_ips\":[]}", \
	      "\"203.0.113.1\"", "round_robin")
#define TYPES                                                                         \
	"{\"load_balancer_types\":[{\"id\":1,\"name\":\"lb11\",\"max_targets\":25}]," \
	"\"meta\":{\"pagination\":{\"next_page\":null,\"total_entries\":1}}}"
#define RUNNING "{\"action\":{\"id\":70,\"status\":\"running\"}}"
#define STILL "{\"actions\":[{\"id\":70,\"status\":\"running\"}]}"
#define OVER "{\"actions\":[{\"id\":70,\"status\":\"success\"}]}"

extern const struct cloud_ops hcloud_cloud;

static struct {
	struct lab *lab;
	struct arena arena;
	struct hcloud cloud;
	struct hz_actions *actions;
	struct hz_lb_cache *cache;
	struct hz_balancers *balancers;
	struct lb_spec spec;
	struct lb_wait wait; /* of the Service, as the service controller notes it */
	enum lb_outcome outcome;
	struct lb_status status;
	struct error err;
} story;

static const struct lb_port port = { .name = { "p", 1 },
	                             .protocol_text = { "TCP", 3 },
	                             .protocol = LB_TCP,
	                             .port = 80,
	                             .node_port = 30080 };
static const struct label algorithm_annotation[] = {
	{ { "load-balancer.hetzner.cloud/algorithm-type", 42 }, { "least_connections", 17 } }
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
		.config = story.lab->config,
		.host = &story.lab->fake.host,
		.api = story.lab->api,
		.cache = story.cache,
		.balancers = story.balancers,
		.network = network,
		.is_network_ours = network != 0,
	};
	story.wait = (struct lb_wait){ 0 };
}

/* Opens the provider again, with the present environment. */
static void
reopen(void)
{
	open_dialect(&hz_official, 0);
}

static int
setup(void **state)
{
	int result = lab_setup(state);

	story.lab = *state;
	story.lab->fake.host.service_event = lab_record_service_event;
	setenv("HCLOUD_LOAD_BALANCERS_LOCATION", "fsn1", 1);
	setenv("HCLOUD_LOAD_BALANCERS_TYPE", "lb11", 1);
	reopen();
	story.spec = (struct lb_spec){ .cluster = STR("kubernetes"),
		                       .namespace = STR("default"),
		                       .service = STR("web"),
		                       .uid = STR("u-1"),
		                       .name = STR("au1"),
		                       .ports = &port,
		                       .n_ports = 1 };
	return result;
}

static int
teardown(void **state)
{
	close_all();
	arena_fini(&story.arena);
	return lab_teardown(state);
}

static void
answer(const char *target, int status, const char *body)
{
	lab_answer(story.lab, target, status, body);
}

static void
track(const char *namespace, const char *service, const char *uid)
{
	hz_lb_cache_track(story.cache, &(struct lb_spec){ .namespace = str_c(namespace),
	                                                  .service = str_c(service),
	                                                  .uid = str_c(uid) });
}

static unsigned
n_asked(void)
{
	unsigned n = story.lab->script.n_asked;

	story.lab->script.n_asked = 0;
	buf_reset(&story.lab->script.asked);
	return n;
}

/* As the service controller does after each run. */
static void
note_wait(bool is_complete)
{
	if (is_complete)
		story.wait = (struct lb_wait){ 0 };
	else
		balancer_note_wait(&story.cloud.cloud, &story.spec, &story.wait,
		                   story.lab->fake.now_ns, &story.err);
}

static bool
ensure(void)
{
	struct call call = lab_call(story.lab, &story.arena);
	bool ok = hz_balancer_ops.ensure(&story.cloud.cloud, &call, &story.spec, &story.outcome,
	                                 &story.status, &story.err);

	note_wait(ok && story.outcome == LB_DONE);
	return ok;
}

static bool
remove_it(bool *ret_found)
{
	struct call call = lab_call(story.lab, &story.arena);
	bool ok = hz_balancer_ops.remove(&story.cloud.cloud, &call, &story.spec, ret_found,
	                                 &story.err);

	note_wait(ok);
	return ok;
}

static void
check_failure(enum err_code code, const char *text)
{
	assert_false(ensure());
	assert_int_equal(story.err.code, code);
	if (!strstr(story.err.msg, text))
		fail_msg("\"%s\" does not say \"%s\"", story.err.msg, text);
}

/* ---- settled ---- */

static void
what_is_settled_costs_nothing(void **state)
{
	(void)state;
	answer(OF_U, 200, LISTED(LB));
	assert_true(ensure());
	assert_int_equal(story.outcome, LB_DONE);
	assert_int_equal(story.status.n_ingress, 1);
	assert_true(str_eq_c(story.status.ingress[0].ip, "203.0.113.1"));
	assert_int_equal(n_asked(), 1);
	assert_true(ensure());
	assert_int_equal(n_asked(), 0);
	story.spec.is_changed = true; /* somebody may have deleted it since */
	assert_true(ensure());
	lab_check_asked(story.lab, OF_U "\n");
}

static void
several_with_its_label_are_left_to_a_person(void **state)
{
	(void)state;
	answer(OF_U, 200,
	       "{\"load_balancers\":[" LB
	       ",{\"id\":8,\"labels\":{\"hcloud-ccm/service-uid\":\"u-1\"}}],"
	       "\"meta\":{\"pagination\":{\"next_page\":null,\"total_entries\":2}}}");
	check_failure(ERR_EXISTS, "non-unique result");
	assert_int_equal(n_asked(), 1);
}

/* ---- made ---- */

static void
a_lost_answer_is_followed_by_a_look(void **state)
{
	(void)state;
	answer(OF_U, 200, NONE);
	answer("/load_balancer_types*", 200, TYPES);
	lab_add(story.lab,
	        (struct http_script_answer){ .target = "/load_balancers", .code = ERR_TIMEOUT });
	check_failure(ERR_TIMEOUT, "hcops/LoadBalancerOps.Create");
	n_asked();
	answer(OF_U, 200, LISTED(LB));
	if (!ensure())
		fail_msg("%s", story.err.msg);
	lab_check_asked(story.lab, OF_U "\n");
}

/* Neither the address is asked for nor a balancer made. */
static void
a_primary_ip_that_the_annotations_rule_out_costs_no_request(void **state)
{
	static const struct label no_id[] = {
		{ STR("load-balancer.hetzner.cloud/public-net-ipv6"), STR("web-ip") },
	};
	static const struct label hidden[] = {
		{ STR("load-balancer.hetzner.cloud/public-net-ipv4"), STR("7") },
		{ STR("load-balancer.hetzner.cloud/disable-public-network"), STR("true") },
	};

	(void)state;
	answer(OF_U, 200, NONE);
	answer("/load_balancer_types*", 200, TYPES);
	story.spec.annotations = no_id;
	story.spec.n_annotations = ARRAY_LEN(no_id);
	check_failure(ERR_INVALID, "public-net-ipv6: \"web-ip\" is not the ID of a Primary IP");
	story.spec.annotations = hidden;
	story.spec.n_annotations = ARRAY_LEN(hidden);
	check_failure(ERR_INVALID, "a load balancer whose public interface is disabled cannot have "
	                           "a Primary IP");
	assert_null(strstr(story.lab->script.asked.ptr, "/primary_ips"));
	assert_null(strstr(story.lab->script.asked.ptr, "POST"));
}

/* The Service has no status, so it needs no evidence. */
static void
none_is_created_if_the_token_was_replaced_since_the_search(void **state)
{
	(void)state;
	answer(OF_U, 200, NONE);
	lab_add(story.lab, (struct http_script_answer){ .target = "/load_balancer_types*",
	                                                .status = 200,
	                                                .body = TYPES,
	                                                .replaces_credentials = true });
	check_failure(ERR_UNAVAILABLE, "credentials of the cloud were replaced");
	assert_null(strstr(story.lab->script.asked.ptr, "POST"));
}

static void
one_without_addresses_is_waited_for(void **state)
{
	(void)state;
	answer(OF_U, 200, LISTED(LB_WITH("null", "round_robin")));
	answer("/load_balancers/7", 200, "{\"load_balancer\":" LB "}");
	check_failure(ERR_PENDING, "has no addresses yet");
	story.lab->fake.now_ns += 11 * NS_PER_SEC;
	assert_true(ensure());
}

/* ---- creations that fail ---- */

#define CREATION_FAILED \
	"{\"actions\":[{\"id\":70,\"status\":\"error\",\"error\":{\"code\":\"failed\",\"message\":\"no\"}}]}"
#define BARE LB_WITH("null", "round_robin")

/* Each balancer is created without addresses, and the action fails. */
static void
begin_failing(void)
{
	answer(OF_U, 200, NONE);
	answer("/load_balancer_types*", 200, TYPES);
	answer("POST /load_balancers", 201,
	       "{\"load_balancer\":" BARE ",\"action\":{\"id\":70,\"status\":\"running\"}}");
	answer("/actions?*", 200, CREATION_FAILED);
	check_failure(ERR_INVALID, "no (failed, 70)");
}

/* The next run deletes it, and the one after that creates another. */
static void
check_replaced(void)
{
	answer("/load_balancers/7", 200, "{\"load_balancer\":" BARE "}");
	answer(OF_U, 200, LISTED(BARE));
	answer("DELETE /load_balancers/7", 204, "");
	check_failure(ERR_UNAVAILABLE, "the cloud has failed to create load balancer 7");
	answer("/load_balancers/7", 404, LAB_ERROR("not_found"));
	answer(OF_U, 200, NONE);
	check_failure(ERR_INVALID, "no (failed, 70)");
}

static void
one_that_the_cloud_fails_to_create_is_replaced(void **state)
{
	(void)state;
	begin_failing();
	check_replaced();
	answer("/load_balancers/7", 200, "{\"load_balancer\":" LB "}");
	assert_true(ensure());
}

static void
failed_creations_are_bounded(void **state)
{
	(void)state;
	begin_failing();
	for (unsigned i = 1; i < 5; i++)
		check_replaced();
	answer("/load_balancers/7", 200, "{\"load_balancer\":" BARE "}");
	n_asked();
	for (unsigned minutes = 0; minutes < 59; minutes++) {
		check_failure(ERR_INVALID, "failed to create a load balancer 5 times");
		story.lab->fake.now_ns += 60 * NS_PER_SEC;
	}
	assert_null(strstr(story.lab->script.asked.ptr, "DELETE"));
	story.lab->fake.now_ns += 61 * NS_PER_SEC;
	check_replaced();
	answer("/load_balancers/7", 200, "{\"load_balancer\":" BARE "}");
	check_failure(ERR_INVALID, "failed to create a load balancer 6 times");
	story.spec.is_changed = true;
	answer(OF_U, 200, LISTED(BARE));
	answer("DELETE /load_balancers/7", 204, "");
	check_failure(ERR_UNAVAILABLE, "the cloud has failed to create load balancer 7");
}

/* Whether its action has failed is not known. */
static void
a_former_leaders_failed_creation_is_replaced_after_a_while(void **state)
{
	(void)state;
	answer(OF_U, 200, LISTED(BARE));
	answer("/load_balancers/7", 200, "{\"load_balancer\":" BARE "}");
	answer("DELETE /load_balancers/7", 423, LAB_ERROR("locked"));
	for (unsigned i = 0; i < 5; i++) {
		check_failure(ERR_PENDING, "has no addresses yet");
		story.lab->fake.now_ns += 59 * NS_PER_SEC;
	}
	assert_null(strstr(story.lab->script.asked.ptr, "DELETE"));
	story.lab->fake.now_ns += 6 * NS_PER_SEC;
	check_failure(ERR_TIMEOUT, "delete load balancer 7"); /* it is still being created */
	answer("DELETE /load_balancers/7", 204, "");
	check_failure(ERR_UNAVAILABLE, "the cloud has failed to create load balancer 7");
}

/* It is read once more before the DELETE. */
static void
one_that_gets_addresses_at_last_is_kept(void **state)
{
	(void)state;
	begin_failing();
	answer("/load_balancers/7", 200, "{\"load_balancer\":" BARE "}");
	answer(OF_U, 200, LISTED(LB));
	n_asked();
	if (!ensure())
		fail_msg("%s", story.err.msg);
	assert_null(strstr(story.lab->script.asked.ptr, "DELETE"));
}

/* ---- adopted ---- */

static const struct label named[] = {
	{ { "load-balancer.hetzner.cloud/name", 32 }, { "web-lb", 6 } },
};

/* With HCLOUD_LOAD_BALANCERS_ADOPTION=mode (NULL: unset), in the cluster "blue", by its name. */
static void
ask_for(const char *mode, const char *body)
{
	if (mode)
		setenv("HCLOUD_LOAD_BALANCERS_ADOPTION", mode, 1);
	reopen();
	story.spec.cluster = STR("blue");
	story.spec.annotations = named;
	story.spec.n_annotations = 1;
	answer(OF_U, 200, NONE);
	answer("/load_balancers?name=web-lb*", 200, body);
}

static void
check_adopted(const char *put)
{
	answer("PUT /load_balancers/7", 200, "{\"load_balancer\":" LB "}");
	answer("/load_balancers/7", 200,
	       "{\"load_balancer\":" LB_LABELLED("web-lb", OWN_LABEL) "}");
	if (!ensure())
		fail_msg("%s", story.err.msg);
	assert_non_null(strstr(story.lab->fake.events.ptr, "web LoadBalancerAdopted: "));
	if (!strstr(story.lab->script.asked.ptr, put))
		fail_msg("%s is not in:\n%s", put, story.lab->script.asked.ptr);
}

static void
check_left_alone(const char *text)
{
	const char *event;

	check_failure(ERR_EXISTS, text);
	check_failure(ERR_EXISTS, text); /* of the same reason, there is one event */
	event = strstr(story.lab->fake.events.ptr, "web LoadBalancerNameTaken: ");
	assert_non_null(event);
	assert_null(strstr(event + 1, "web LoadBalancerNameTaken: "));
	assert_null(strstr(story.lab->script.asked.ptr, "PUT"));
}

#define PUT_BLUE(others) \
	"PUT /load_balancers/7 {\"labels\":{" others OWN_LABEL ",\"ccmd.io/cluster\":\"blue\"}}\n"

static void
a_balancer_without_labels_is_adopted_by_name(void **state)
{
	(void)state;
	ask_for(NULL, LISTED(LB_LABELLED("web-lb", "\"team\":\"a\"")));
	check_adopted(PUT_BLUE("\"team\":\"a\","));
}

/* Its creation may have failed. It cannot be replaced before it has the label. */
static void
one_without_addresses_gets_the_label_first(void **state)
{
	(void)state;
	ask_for(NULL, LISTED(LB_OF("web-lb", "\"team\":\"a\"", "", "null", "round_robin")));
	check_adopted(PUT_BLUE("\"team\":\"a\","));
}

static void
one_without_addresses_is_waited_for_after_its_adoption(void **state)
{
	(void)state;
	ask_for(NULL, LISTED(LB_OF("web-lb", "\"team\":\"a\"", "", "null", "round_robin")));
	answer("/load_balancers/7", 200,
	       "{\"load_balancer\":" LB_OF("web-lb", OWN_LABEL, "", "null", "round_robin") "}");
	check_failure(ERR_PENDING, "has no addresses yet");
}

static void
a_balancer_of_a_cluster_without_a_name_of_its_own_is_adopted_by_name(void **state)
{
	(void)state;
	ask_for("by-name", LISTED(LB_LABELLED("web-lb", "\"ccmd.io/cluster\":\"kubernetes\"")));
	check_adopted(PUT_BLUE(""));
}

static void
a_cluster_without_a_name_of_its_own_adopts_by_name(void **state)
{
	(void)state;
	ask_for("by-name", LISTED(LB_LABELLED("web-lb", "\"ccmd.io/cluster\":\"green\"")));
	story.spec.cluster = STR("kubernetes");
	check_adopted("\"ccmd.io/cluster\":\"kubernetes\"}}\n");
}

static void
a_balancer_of_another_cluster_is_left_alone(void **state)
{
	(void)state;
	ask_for("by-name", LISTED(LB_LABELLED("web-lb", "\"ccmd.io/cluster\":\"green\"")));
	check_left_alone("belongs to the cluster \"green\" by its label ccmd.io/cluster. If this "
	                 "cluster should adopt it, remove that label: hcloud load-balancer "
	                 "remove-label 7 ccmd.io/cluster");
}

static void
labelled_requires_the_label_with_the_name_of_the_cluster(void **state)
{
	(void)state;
	ask_for("labelled", LISTED(LB_LABELLED("web-lb", "\"ccmd.io/adopt\":\"green\"")));
	check_left_alone(
		"HCLOUD_LOAD_BALANCERS_ADOPTION=labelled requires the label "
		"ccmd.io/adopt with the name of this cluster. If this cluster should "
		"adopt it: hcloud load-balancer add-label --overwrite 7 ccmd.io/adopt=blue");
}

/* Terraform, or an operator, has made the balancer; the Service names it. Nobody is asked by name.
 */
static void
a_balancer_made_by_terraform_is_adopted_with_the_label(void **state)
{
	(void)state;
	ask_for("labelled", LISTED(LB_LABELLED("web-lb", "\"managed-by\":\"terraform\"")));
	check_left_alone("hcloud load-balancer add-label --overwrite 7 ccmd.io/adopt=blue");
	buf_reset(&story.lab->fake.events);
	answer("/load_balancers?name=web-lb*", 200,
	       LISTED(LB_LABELLED("web-lb", "\"managed-by\":\"terraform\","
	                                    "\"ccmd.io/adopt\":\"blue\"")));
	check_adopted(PUT_BLUE("\"managed-by\":\"terraform\",\"ccmd.io/adopt\":\"blue\","));
}

/* The balancer has the UID that the Service had before the cluster was restored. */
#define RESTORED "\"hcloud-ccm/service-uid\":\"u-before\",\"ccmd.io/cluster\":\"blue\""

static void
a_restored_cluster_adopts_by_name(void **state)
{
	(void)state;
	ask_for("by-name", LISTED(LB_LABELLED("web-lb", RESTORED)));
	check_adopted(PUT_BLUE(""));
	assert_non_null(strstr(story.lab->fake.events.ptr,
	                       "labelled for the Service with UID u-before that no longer exists"));
}

static void
a_restored_cluster_adopts_with_the_label_where_that_is_required(void **state)
{
	(void)state;
	ask_for("labelled", LISTED(LB_LABELLED("web-lb", RESTORED)));
	check_left_alone("hcloud load-balancer add-label --overwrite 7 ccmd.io/adopt=blue");
	buf_reset(&story.lab->fake.events);
	answer("/load_balancers?name=web-lb*", 200,
	       LISTED(LB_LABELLED("web-lb", RESTORED ",\"ccmd.io/adopt\":\"blue\"")));
	check_adopted(",\"ccmd.io/cluster\":\"blue\"}}\n");
}

static void
labelled_adopts_nothing_for_a_cluster_with_an_empty_name(void **state)
{
	(void)state;
	ask_for("labelled", LISTED(LB_LABELLED("web-lb", "")));
	story.spec.cluster = STR_EMPTY;
	check_left_alone("with the name of this cluster, but --cluster-name is empty");
}

static void
labelled_adopts_with_the_label_whichever_cluster_had_it(void **state)
{
	(void)state;
	ask_for("labelled", LISTED(LB_LABELLED("web-lb", "\"ccmd.io/adopt\":\"blue\","
	                                                 "\"ccmd.io/cluster\":\"green\"")));
	check_adopted(PUT_BLUE("\"ccmd.io/adopt\":\"blue\","));
}

static void
the_label_gives_away_no_balancer_of_a_live_service(void **state)
{
	(void)state;
	ask_for("labelled", LISTED(LB_LABELLED("web-lb", "\"ccmd.io/adopt\":\"blue\","
	                                                 "\"hcloud-ccm/service-uid\":\"u-2\"")));
	track("default", "other", "u-2");
	check_left_alone("belongs to the Service with UID u-2");
}

static void
never_adopts_nothing_by_an_annotated_name(void **state)
{
	(void)state;
	ask_for("never", LISTED(LB_LABELLED("web-lb", "\"ccmd.io/adopt\":\"blue\"")));
	check_left_alone("is not adopted: HCLOUD_LOAD_BALANCERS_ADOPTION=never");
}

/* The annotated name is in use by the Service's own balancer, made by a request whose answer was
 * lost. */
static void
its_own_balancer_is_found_in_all_modes(void **state)
{
	(void)state;
	ask_for("never", LISTED(LB_LABELLED("web-lb", OWN_LABEL)));
	if (!ensure())
		fail_msg("%s", story.err.msg);
	assert_null(strstr(story.lab->script.asked.ptr, "PUT"));
	assert_int_equal(story.lab->fake.events.len, 0);
}

/* Somebody removed the label. The default name contains the UID, and no Service can choose that. */
static void
a_balancer_with_the_default_name_is_taken_back_in_all_modes(void **state)
{
	(void)state;
	ask_for("never", NONE);
	story.spec.n_annotations = 0;
	answer("/load_balancer_types*", 200, TYPES);
	answer("POST /load_balancers", 409, LAB_ERROR("uniqueness_error"));
	answer("/load_balancers?name=au1*", 200,
	       LISTED(LB_LABELLED("au1", "\"ccmd.io/cluster\":\"green\"")));
	check_adopted(PUT_BLUE(""));
}

/* ---- targets ---- */

static void
a_node_is_a_target_when_it_has_a_provider_id(void **state)
{
	struct node_ref node = { .name = STR("n1") };
	struct cloud *cloud = &story.cloud.cloud;
	const void *selection;

	(void)state;
	selection = hz_balancer_ops.prepare_selection(cloud, &story.spec, &story.arena);
	assert_false(hz_balancer_ops.selects(cloud, selection, &node));
	node.provider_id = STR("hcloud://1");
	assert_true(hz_balancer_ops.selects(cloud, selection, &node));
}

/* ---- events ---- */

static void
a_type_that_is_not_chosen_is_reported_beside_another_mistake(void **state)
{
	static const struct label wrong[] = {
		{ { "load-balancer.hetzner.cloud/use-private-ip", 42 }, { "maybe", 5 } },
	};

	(void)state;
	unsetenv("HCLOUD_LOAD_BALANCERS_TYPE");
	reopen();
	story.spec.annotations = wrong;
	story.spec.n_annotations = 1;
	check_failure(ERR_INVALID, "maybe");
	assert_non_null(strstr(story.lab->fake.events.ptr, "web LoadBalancerTypeUnconfigured: "));
	assert_non_null(strstr(story.lab->fake.events.ptr, "HCLOUD_LOAD_BALANCERS_TYPE"));
}

/* ---- waiting ---- */

static void
begin_waiting(void)
{
	story.spec.annotations = algorithm_annotation;
	story.spec.n_annotations = 1;
	answer(OF_U, 200, LISTED(LB));
	answer("POST /load_balancers/7/actions/change_algorithm", 201, RUNNING);
	answer("/actions*", 200, STILL);
	check_failure(ERR_PENDING, "action 70 is still under way");
	assert_int_equal(story.err.retry_after_ms, 1000);
}

static void
an_action_is_waited_for_before_all_else(void **state)
{
	(void)state;
	begin_waiting();
	n_asked();
	check_failure(ERR_PENDING, "action 70 is still under way");
	assert_null(strstr(story.lab->script.asked.ptr, "/load_balancers"));
	answer("/actions*", 200, OVER);
	answer("/load_balancers/7", 200,
	       "{\"load_balancer\":" LB_WITH("\"203.0.113.1\"", "least_connections") "}");
	assert_true(ensure());
}

/* Less and less often, then with an event; after that the waiting begins again. */
static void
an_action_without_end_is_reported(void **state)
{
	int64_t begun_ns, last_ms = 0;
	unsigned n = 0;

	(void)state;
	begin_waiting();
	begun_ns = story.lab->fake.now_ns;
	for (; !ensure() && story.err.code == ERR_PENDING; n++) {
		assert_true(story.err.retry_after_ms >= last_ms);
		last_ms = story.err.retry_after_ms;
		story.lab->fake.now_ns += last_ms * NS_PER_MS;
	}
	assert_int_equal(last_ms, 15000);
	assert_true(n < 40);
	assert_int_equal(story.err.code, ERR_TIMEOUT);
	assert_non_null(strstr(story.err.msg, "for more than 5 minutes"));
	assert_in_range((story.lab->fake.now_ns - begun_ns) / NS_PER_SEC, 290, 330);
	n_asked();
	answer("/load_balancers/7", 200, "{\"load_balancer\":" LB "}");
	answer("POST /load_balancers/7/actions/change_algorithm", 423, LAB_ERROR("locked"));
	check_failure(ERR_PENDING, "locked");
}

/* For ten minutes nothing can be found out about the action. */
static void
patience_with_an_action_outlasts_an_outage(void **state)
{
	(void)state;
	begin_waiting();
	assert_false(ensure());
	assert_int_equal(story.err.code, ERR_PENDING);
	answer("/actions*", 503, LAB_ERROR("unavailable"));
	for (int i = 0; i < 60; i++) {
		story.lab->fake.now_ns += 10 * NS_PER_SEC;
		assert_false(ensure());
	}
	assert_true(story.err.is_outage);
	answer("/actions*", 200, STILL);
	story.lab->fake.now_ns += 30 * NS_PER_SEC;
	check_failure(ERR_PENDING, "action 70 is still under way");
	answer("/actions*", 200, OVER);
	answer("/load_balancers/7", 200,
	       "{\"load_balancer\":" LB_WITH("\"203.0.113.1\"", "least_connections") "}");
	story.lab->fake.now_ns += 5 * NS_PER_SEC;
	assert_true(ensure());
}

/* ---- certificates ---- */

#define CERTIFICATES_OF_U \
	"/certificates?label_selector=hcloud-ccm%2Fservice-uid%3Du-1&page=1&per_page=50&sort=id%3Aasc"

static const struct label secure[] = {
	{ { "load-balancer.hetzner.cloud/protocol", 36 }, { "https", 5 } },
	{ { "load-balancer.hetzner.cloud/certificate-type", 44 }, { "managed", 7 } },
	{ { "load-balancer.hetzner.cloud/http-managed-certificate-domains", 60 },
	  { "example.com", 11 } },
};

static void
order_a_certificate(const char *actions)
{
	story.spec.annotations = secure;
	story.spec.n_annotations = ARRAY_LEN(secure);
	answer(OF_U, 200, LISTED(LB));
	answer(CERTIFICATES_OF_U, 200,
	       "{\"certificates\":[],\"meta\":{\"pagination\":{\"next_page\":null,"
	       "\"total_entries\":0}}}");
	answer("POST /certificates", 201,
	       "{\"certificate\":{\"id\":9,\"name\":\"c\",\"type\":\"managed\"},"
	       "\"action\":{\"id\":70,\"status\":\"running\"}}");
	answer("/actions*", 200, actions);
}

#define FAILED(code)                                                                      \
	"{\"actions\":[{\"id\":70,\"status\":\"error\",\"error\":{\"code\":\"" code "\"," \
	"\"message\":\"the reason\"}}]}"

/* Success would leave the Service without its ports, and it would not be tried again. */
static void
a_certificate_that_fails_to_be_issued_is_a_failure(void **state)
{
	(void)state;
	order_a_certificate(FAILED("action_failed"));
	check_failure(ERR_UNAVAILABLE, "managed certificate");
	assert_non_null(strstr(story.err.msg, "the reason"));
}

static void
a_certificate_that_is_refused_is_a_failure(void **state)
{
	(void)state;
	order_a_certificate(FAILED("invalid_input"));
	check_failure(ERR_INVALID, "managed certificate");
}

static void
a_certificate_that_is_still_issued_leaves_the_rest_in_place(void **state)
{
	(void)state;
	order_a_certificate(STILL);
	assert_true(ensure());
	assert_int_equal(story.outcome, LB_PARTIAL);
	assert_int_equal(story.err.code, ERR_PENDING);
}

/* ---- removed ---- */

static void
what_is_gone_is_gone(void **state)
{
	bool was_there = true;

	(void)state;
	answer(OF_U, 200, NONE);
	assert_true(remove_it(&was_there));
	assert_false(was_there);
	lab_check_asked(story.lab, OF_U "\n");
}

static void
all_that_carry_its_label_go(void **state)
{
	bool was_there = false;

	(void)state;
	answer(OF_U, 200,
	       "{\"load_balancers\":[" LB
	       ",{\"id\":8,\"labels\":{\"hcloud-ccm/service-uid\":\"u-1\"}}],"
	       "\"meta\":{\"pagination\":{\"next_page\":null,\"total_entries\":2}}}");
	answer("DELETE /load_balancers/7", 204, NULL);
	answer("DELETE /load_balancers/8", 204, NULL);
	assert_true(remove_it(&was_there));
	assert_true(was_there);
	assert_int_equal(n_asked(), 3);
}

/* The balancer was listed with the right token, and the DELETE was sent with another project's. */
static void
a_balancer_that_disappears_before_its_deletion_is_searched_again(void **state)
{
	bool was_there = false;

	(void)state;
	story.spec.is_leaving = true;
	answer(OF_U, 200, LISTED(LB));
	answer("DELETE /load_balancers/7", 404, LAB_NOT_FOUND);
	assert_false(remove_it(&was_there));
	assert_int_equal(story.err.code, ERR_PENDING);
	lab_check_asked(story.lab, OF_U "\nDELETE /load_balancers/7\n");
}

static void
a_deletion_that_is_refused_or_fails_is_sent_again(void **state)
{
	bool was_there = false;

	(void)state;
	answer(OF_U, 200, LISTED(LB));
	answer("DELETE /load_balancers/7", 423, LAB_ERROR("locked"));
	answer("DELETE /load_balancers/7", 201, RUNNING);
	answer("/actions*", 200, FAILED("server_error"));
	assert_false(remove_it(&was_there));
	assert_int_equal(story.err.code, ERR_PENDING); /* no warning */
	assert_false(remove_it(&was_there));
	assert_int_equal(story.err.code, ERR_UNAVAILABLE);
	assert_non_null(strstr(story.err.msg, "the reason (server_error, 70)"));
	answer("DELETE /load_balancers/7", 204, NULL);
	assert_true(remove_it(&was_there));
	assert_true(was_there);
}

/* The API promises an action. */
static void
a_deletion_that_is_answered_without_its_action_is_searched_again(void **state)
{
	bool was_there = false;

	(void)state;
	answer(OF_U, 200, LISTED(LB));
	answer("DELETE /load_balancers/7", 201, "{}");
	assert_false(remove_it(&was_there));
	assert_non_null(strstr(story.err.msg, "the response has no action"));
	n_asked();
	answer(OF_U, 200, NONE);
	assert_true(remove_it(&was_there));
	lab_check_asked(story.lab, OF_U "\n");
}

static void
a_protected_one_stays(void **state)
{
	bool was_there = false;

	(void)state;
	answer(OF_U, 200,
	       LISTED("{\"id\":7,\"name\":\"au1\",\"labels\":{" OWN_LABEL
	              "},\"protection\":{\"delete\":true}}"));
	assert_true(remove_it(&was_there));
	assert_non_null(strstr(story.lab->fake.events.ptr, "protected against deletion"));
	lab_check_asked(story.lab, OF_U "\n");
}

static void
what_became_protected_meanwhile_stays(void **state)
{
	bool was_there = false;

	(void)state;
	answer(OF_U, 200, LISTED(LB));
	answer("DELETE /load_balancers/7", 423, LAB_ERROR("protected"));
	assert_true(remove_it(&was_there));
	assert_non_null(strstr(story.lab->fake.events.ptr, "web LoadBalancerProtected: "));
}

/* Less and less often, without another DELETE, then with an event. */
static void
a_deletion_without_end_is_reported(void **state)
{
	int64_t last_ms = 0;
	bool was_there, ok;
	unsigned n = 0;

	(void)state;
	answer(OF_U, 200, LISTED(LB));
	answer("DELETE /load_balancers/7", 201, RUNNING);
	answer("/actions*", 200, STILL);
	assert_false(remove_it(&was_there));
	n_asked();
	for (; !(ok = remove_it(&was_there)) && story.err.code == ERR_PENDING; n++) {
		assert_true(story.err.retry_after_ms >= last_ms);
		last_ms = story.err.retry_after_ms;
		story.lab->fake.now_ns += last_ms * NS_PER_MS;
		assert_null(strstr(story.lab->script.asked.ptr, "DELETE"));
	}
	assert_false(ok);
	assert_true(n < 40);
	assert_int_equal(story.err.code, ERR_TIMEOUT);
	assert_non_null(strstr(story.err.msg, "for more than 5 minutes"));
}

/* ---- not found, perhaps because the token is another project's ---- */

#define ALL \
	"/load_balancers?label_selector=hcloud-ccm%2Fservice-uid&page=1&per_page=50&sort=id%3Aasc"
#define NETWORK "{\"network\":{\"id\":4711,\"name\":\"net\"}}"

static struct lb_ingress ingress = { .ip = { "203.0.113.1", 11 } };
static struct node_ref machines[] = {
	{ .name = STR("foreign"), .provider_id = STR("aws:///i-1"), .is_ready = true },
	{ .name = STR("robot"), .provider_id = STR("hrobot://9"), .is_ready = true },
	{ .name = STR("new"), .provider_id = STR_EMPTY, .is_ready = true },
	{ .name = STR("n1"), .provider_id = STR("hcloud://1") },
	{ .name = STR("n2"), .provider_id = STR("hcloud://2"), .is_ready = true },
	{ .name = STR("n3"), .provider_id = STR("hcloud://3") },
	{ .name = STR("n4"), .provider_id = STR("hcloud://4") },
};

/* A Service that has a status, and nothing that carries its label. */
static void
lose_balancer(int64_t network)
{
	open_dialect(&hz_official, network);
	story.spec.status = (struct lb_status){ &ingress, 1 };
	story.lab->fake.nodes = machines;
	story.lab->fake.n_nodes = ARRAY_LEN(machines);
	answer(OF_U, 200, NONE);
}

static void
see_another_project(void)
{
	answer(LAB_PAGE_1, 200, LAB_LIST("", "null", "0"));
	answer("/servers/*", 404, LAB_NOT_FOUND);
	answer("/networks/*", 404, LAB_NOT_FOUND);
	answer(ALL, 200, NONE);
}

/* This error shows that a request to create a balancer was made. */
static void
check_made(const char *asked)
{
	answer("/load_balancer_types*", 200, TYPES);
	lab_add(story.lab,
	        (struct http_script_answer){ .target = "/load_balancers", .code = ERR_TIMEOUT });
	check_failure(ERR_TIMEOUT, "hcops/LoadBalancerOps.Create");
	if (!str_starts(buf_str(&story.lab->script.asked), str_c(asked)))
		fail_msg("asked:\n%s", story.lab->script.asked.ptr);
	assert_int_equal(story.lab->fake.events.len, 0);
}

#define TYPES_PAGE "/load_balancer_types"

static void
in_another_project_no_second_balancer_is_made(void **state)
{
	(void)state;
	lose_balancer(4711);
	see_another_project();
	story.spec.annotations = named;
	story.spec.n_annotations = 1;
	check_failure(ERR_PENDING, LB_ANNOTATION_GONE);
	assert_int_equal(story.err.retry_after_ms, 5000);
	assert_non_null(strstr(story.lab->fake.events.ptr, "web LoadBalancerHeld: "));
	lab_check_asked(story.lab,
	                OF_U "\n" LAB_PAGE_1
	                     "\n/servers/2\n/servers/1\n/servers/3\n/networks/4711\n" ALL "\n");
}

static const struct label managed[] = {
	{ { "load-balancer.hetzner.cloud/certificate-type", 44 }, { "managed", 7 } },
	{ { "load-balancer.hetzner.cloud/http-managed-certificate-domains", 60 },
	  { "a.example", 9 } },
	{ { "load-balancer.hetzner.cloud/protocol", 36 }, { "https", 5 } },
};

static void
in_another_project_no_certificate_is_ordered(void **state)
{
	(void)state;
	lose_balancer(0);
	see_another_project();
	story.spec.annotations = managed;
	story.spec.n_annotations = ARRAY_LEN(managed);
	check_failure(ERR_PENDING, LB_ANNOTATION_GONE);
	assert_null(strstr(story.lab->script.asked.ptr, "/certificates"));
}

static void
in_another_project_no_service_is_released(void **state)
{
	bool was_there = false;

	(void)state;
	lose_balancer(0);
	see_another_project();
	assert_false(remove_it(&was_there));
	assert_int_equal(story.err.code, ERR_PENDING);
	assert_non_null(strstr(story.lab->fake.events.ptr, "web LoadBalancerHeld: "));
}

/* Of many Services that are held, each asks for its own balancer, and one of them asks for the
 * evidence, once a minute. */
static void
missing_evidence_is_not_asked_for_again_and_again(void **state)
{
	(void)state;
	lose_balancer(0);
	see_another_project();
	check_failure(ERR_PENDING, "");
	n_asked();
	story.lab->fake.now_ns += 59 * NS_PER_SEC;
	check_failure(ERR_PENDING, "");
	lab_check_asked(story.lab, OF_U "\n");
	story.lab->fake.now_ns += NS_PER_SEC;
	check_failure(ERR_PENDING, "");
	assert_int_equal(n_asked(), 7);
}

/* Unlike other waits, it lasts until an operator acts. */
static void
a_hold_is_looked_at_and_reported_less_and_less_often(void **state)
{
	int64_t begun_ns, now_ns;
	unsigned n_looks = 0, n_events = 0;

	(void)state;
	lose_balancer(0);
	see_another_project();
	begun_ns = now_ns = story.lab->fake.now_ns;
	for (; now_ns < begun_ns + 3600 * NS_PER_SEC; n_looks++) {
		check_failure(ERR_PENDING, "");
		assert_in_range(story.err.retry_after_ms, 5000, 300000);
		now_ns = story.lab->fake.now_ns += story.err.retry_after_ms * NS_PER_MS;
	}
	for (const char *at = story.lab->fake.events.ptr; (at = strstr(at, "LoadBalancerHeld"));
	     at++)
		n_events++;
	assert_in_range(n_looks, 15, 30);
	assert_in_range(n_events, 6, 13);
}

static void
the_right_token_ends_a_hold(void **state)
{
	(void)state;
	lose_balancer(0);
	see_another_project();
	check_failure(ERR_PENDING, "");
	n_asked();
	answer(OF_U, 200, LISTED(LB));
	assert_true(ensure());
	lab_check_asked(story.lab, OF_U "\n");
	buf_reset(&story.lab->fake.events);
	story.lab->fake.now_ns += 11 * NS_PER_SEC;
	answer("/load_balancers/7", 404, LAB_NOT_FOUND);
	answer(OF_U, 200, NONE);
	check_failure(ERR_PENDING, "");
	assert_non_null(strstr(story.lab->fake.events.ptr, "LoadBalancerHeld")); /* another hold */
}

static void
a_machine_of_a_node_is_evidence(void **state)
{
	(void)state;
	lose_balancer(0);
	answer(LAB_PAGE_1, 200, LAB_LIST(LAB_SERVER(1, "n1"), "null", "1"));
	answer("/servers/*", 404, LAB_NOT_FOUND);
	check_made(OF_U "\n" LAB_PAGE_1 "\n/servers/2\n/servers/3\n" TYPES_PAGE);
}

static void
the_network_by_its_id_is_evidence(void **state)
{
	(void)state;
	lose_balancer(4711);
	story.lab->fake.n_nodes = 0;
	answer("/networks/4711", 200, NETWORK);
	check_made(OF_U "\n/networks/4711\n" TYPES_PAGE);
}

static void
a_balancer_that_serves_another_service_is_evidence(void **state)
{
	(void)state;
	lose_balancer(0);
	story.lab->fake.n_nodes = 0;
	story.lab->fake.service_address = "203.0.113.1";
	answer(ALL, 200, LISTED(LB_LABELLED("other", "\"hcloud-ccm/service-uid\":\"u-2\"")));
	check_made(OF_U "\n" ALL "\n" TYPES_PAGE);
}

static void
a_balancer_of_another_cluster_is_no_evidence(void **state)
{
	(void)state;
	lose_balancer(0);
	story.lab->fake.n_nodes = 0;
	answer(ALL, 200, LISTED(LB_LABELLED("other", "\"hcloud-ccm/service-uid\":\"u-2\"")));
	check_failure(ERR_PENDING, LB_ANNOTATION_GONE);
}

static void
a_failed_look_is_neither_evidence_nor_its_absence(void **state)
{
	(void)state;
	lose_balancer(0);
	answer(LAB_PAGE_1, 500, LAB_ERROR("service_error"));
	check_failure(ERR_UNAVAILABLE,
	              "check that the credentials are those of the cluster's project");
	assert_int_equal(story.lab->fake.events.len, 0);
}

static const struct label gone[] = { { STR(LB_ANNOTATION_GONE), { "true", 4 } } };

static void
an_annotation_releases_a_service_that_is_held(void **state)
{
	bool was_there = true;

	(void)state;
	lose_balancer(0);
	story.spec.annotations = gone;
	story.spec.n_annotations = 1;
	check_made(OF_U "\n" TYPES_PAGE);
	buf_reset(&story.lab->script.asked);
	assert_true(remove_it(&was_there));
	assert_false(was_there);
	lab_check_asked(story.lab, OF_U "\n");
}

static void
a_service_without_a_status_is_not_held(void **state)
{
	bool was_there = true;

	(void)state;
	lose_balancer(0);
	story.spec.status.n_ingress = 0;
	check_made(OF_U "\n" TYPES_PAGE);
	buf_reset(&story.lab->script.asked);
	assert_true(remove_it(&was_there));
	lab_check_asked(story.lab, OF_U "\n");
}

static void
find_machines(void)
{
	answer(LAB_PAGE_1, 200,
	       LAB_LIST(LAB_SERVER(1, "n1") "," LAB_SERVER(2, "n2") "," LAB_SERVER(3, "n3"), "null",
	                "3"));
}

static void
a_balancer_that_the_right_project_lacks_is_gone(void **state)
{
	bool was_there = true;

	(void)state;
	lose_balancer(0);
	find_machines();
	assert_true(remove_it(&was_there));
	assert_false(was_there);
	lab_check_asked(story.lab, OF_U "\n" LAB_PAGE_1 "\n");
}

/* The searches of Services that wait use up the rate limit, so evidence that waited for it as
 * periodic looks do might never be found. */
static void
evidence_is_not_postponed_for_the_rate_limit(void **state)
{
	bool was_there = true;

	(void)state;
	lose_balancer(0);
	story.lab->script.n_answers = 0;
	lab_add(story.lab, (struct http_script_answer){ .target = OF_U,
	                                                .status = 200,
	                                                .body = NONE,
	                                                .limit = 3600,
	                                                .remaining = 300,
	                                                .reset_s = 1800000000 + 3300 });
	find_machines();
	if (!remove_it(&was_there))
		fail_msg("%s", story.err.msg);
	lab_check_asked(story.lab, OF_U "\n" LAB_PAGE_1 "\n");
}

/* The first search is made with a wrong token, the evidence is found with the right one. */
static void
replace_the_token_between_search_and_evidence(void)
{
	lose_balancer(0);
	story.lab->script.n_answers = 0;
	lab_add(story.lab, (struct http_script_answer){ .target = OF_U,
	                                                .status = 200,
	                                                .body = NONE,
	                                                .replaces_credentials = true });
	answer(OF_U, 200, LISTED(LB));
	find_machines();
}

static void
a_balancer_that_only_the_next_token_shows_is_kept(void **state)
{
	(void)state;
	replace_the_token_between_search_and_evidence();
	check_failure(ERR_UNAVAILABLE, "credentials of the cloud were replaced meanwhile");
	lab_check_asked(story.lab, OF_U "\n" LAB_PAGE_1 "\n");
	if (!ensure())
		fail_msg("%s", story.err.msg);
	lab_check_asked(story.lab, OF_U "\n");
}

static void
a_balancer_that_only_the_next_token_shows_is_deleted(void **state)
{
	struct call call = lab_call(story.lab, &story.arena);
	struct cloud *cloud = &story.cloud.cloud;
	bool was_there = false;

	(void)state;
	replace_the_token_between_search_and_evidence();
	answer("DELETE /load_balancers/7", 204, NULL);
	cloud->balancers = &hz_balancer_ops;
	assert_false(balancer_remove(cloud, &call, &story.spec, &was_there, &story.err));
	assert_int_equal(story.err.code, ERR_UNAVAILABLE);
	lab_check_asked(story.lab, OF_U "\n" LAB_PAGE_1 "\n");
	assert_true(balancer_remove(cloud, &call, &story.spec, &was_there, &story.err));
	assert_true(was_there);
	lab_check_asked(story.lab, OF_U "\nDELETE /load_balancers/7\n");
}

/* ---- the tutorial's dialect ---- */

/* The Service "a-b/c" in the cluster "lab". */
static void
open_tutorial(const char *balancers_with_its_label)
{
	setenv("HCLOUD_NETWORK", "4711", 1);
	open_dialect(&hz_tutorial, 4711);
	story.spec.cluster = STR("lab");
	story.spec.namespace = STR("a-b");
	story.spec.service = STR("c");
	answer(OF_U, 200, balancers_with_its_label);
}

static void
a_name_that_two_live_services_share_is_refused(void **state)
{
	(void)state;
	open_tutorial(NONE);
	track("a", "b-c", "u-2");
	check_failure(ERR_EXISTS, "the load balancer name \"lab-a-b-c\" belongs to two Services, "
	                          "a-b/c and a/b-c: rename one of them");
	assert_non_null(strstr(story.lab->fake.events.ptr, "\nb-c LoadBalancerNameTaken: "));
	assert_true(strstr(story.lab->fake.events.ptr, "c LoadBalancerNameTaken: ") ==
	            story.lab->fake.events.ptr);
	lab_check_asked(story.lab, OF_U "\n");
}

static void
a_service_that_has_its_balancer_keeps_it_beside_a_namesake(void **state)
{
	(void)state;
	open_tutorial(LISTED(LB_IN_NETWORK));
	track("a", "b-c", "u-2");
	assert_true(ensure());
	assert_int_equal(story.lab->fake.events.len, 0);
}

/* This once failed for ever, since the balancer of that name is the other Service's. */
static void
a_service_goes_without_the_balancer_of_its_namesake(void **state)
{
	bool was_there = true;

	(void)state;
	open_tutorial(NONE);
	answer("/load_balancers?name=lab-a-b-c*", 200,
	       LISTED(LB_LABELLED("lab-a-b-c", "\"hcloud-ccm/service-uid\":\"u-2\"")));
	assert_true(remove_it(&was_there));
	assert_false(was_there);
	assert_null(strstr(story.lab->script.asked.ptr, "DELETE"));
}

static void
an_unlabelled_balancer_is_left_to_the_namesake_that_remains(void **state)
{
	bool was_there = true;

	(void)state;
	open_tutorial(NONE);
	track("a", "b-c", "u-2");
	assert_true(remove_it(&was_there));
	assert_false(was_there);
	lab_check_asked(story.lab, OF_U "\n");
}

static void
an_unlabelled_balancer_goes_with_its_service(void **state)
{
	bool was_there = false;

	(void)state;
	open_tutorial(NONE);
	story.spec.n_ports = 100000; /* nothing of the spec but its names matters */
	answer("/load_balancers?name=lab-a-b-c*", 200, LISTED(LB_LABELLED("lab-a-b-c", "")));
	answer("DELETE /load_balancers/7", 204, NULL);
	assert_true(remove_it(&was_there));
	assert_true(was_there);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_settled_costs_nothing),
		TEST(several_with_its_label_are_left_to_a_person),
		TEST(a_lost_answer_is_followed_by_a_look),
		TEST(a_primary_ip_that_the_annotations_rule_out_costs_no_request),
		TEST(none_is_created_if_the_token_was_replaced_since_the_search),
		TEST(one_without_addresses_is_waited_for),
		TEST(one_that_the_cloud_fails_to_create_is_replaced),
		TEST(one_that_gets_addresses_at_last_is_kept),
		TEST(failed_creations_are_bounded),
		TEST(a_former_leaders_failed_creation_is_replaced_after_a_while),
		TEST(a_balancer_without_labels_is_adopted_by_name),
		TEST(one_without_addresses_gets_the_label_first),
		TEST(one_without_addresses_is_waited_for_after_its_adoption),
		TEST(a_balancer_of_a_cluster_without_a_name_of_its_own_is_adopted_by_name),
		TEST(a_cluster_without_a_name_of_its_own_adopts_by_name),
		TEST(a_balancer_of_another_cluster_is_left_alone),
		TEST(labelled_requires_the_label_with_the_name_of_the_cluster),
		TEST(a_balancer_made_by_terraform_is_adopted_with_the_label),
		TEST(a_restored_cluster_adopts_by_name),
		TEST(a_restored_cluster_adopts_with_the_label_where_that_is_required),
		TEST(labelled_adopts_nothing_for_a_cluster_with_an_empty_name),
		TEST(labelled_adopts_with_the_label_whichever_cluster_had_it),
		TEST(the_label_gives_away_no_balancer_of_a_live_service),
		TEST(never_adopts_nothing_by_an_annotated_name),
		TEST(its_own_balancer_is_found_in_all_modes),
		TEST(a_balancer_with_the_default_name_is_taken_back_in_all_modes),
		TEST(a_node_is_a_target_when_it_has_a_provider_id),
		TEST(a_type_that_is_not_chosen_is_reported_beside_another_mistake),
		TEST(an_action_is_waited_for_before_all_else),
		TEST(an_action_without_end_is_reported),
		TEST(patience_with_an_action_outlasts_an_outage),
		TEST(a_certificate_that_fails_to_be_issued_is_a_failure),
		TEST(a_certificate_that_is_refused_is_a_failure),
		TEST(a_certificate_that_is_still_issued_leaves_the_rest_in_place),
		TEST(what_is_gone_is_gone),
		TEST(all_that_carry_its_label_go),
		TEST(a_balancer_that_disappears_before_its_deletion_is_searched_again),
		TEST(a_deletion_that_is_refused_or_fails_is_sent_again),
		TEST(a_deletion_that_is_answered_without_its_action_is_searched_again),
		TEST(a_protected_one_stays),
		TEST(what_became_protected_meanwhile_stays),
		TEST(a_deletion_without_end_is_reported),
		TEST(in_another_project_no_second_balancer_is_made),
		TEST(in_another_project_no_certificate_is_ordered),
		TEST(in_another_project_no_service_is_released),
		TEST(missing_evidence_is_not_asked_for_again_and_again),
		TEST(a_hold_is_looked_at_and_reported_less_and_less_often),
		TEST(the_right_token_ends_a_hold),
		TEST(a_machine_of_a_node_is_evidence),
		TEST(the_network_by_its_id_is_evidence),
		TEST(a_balancer_that_serves_another_service_is_evidence),
		TEST(a_balancer_of_another_cluster_is_no_evidence),
		TEST(a_failed_look_is_neither_evidence_nor_its_absence),
		TEST(an_annotation_releases_a_service_that_is_held),
		TEST(a_service_without_a_status_is_not_held),
		TEST(a_balancer_that_the_right_project_lacks_is_gone),
		TEST(evidence_is_not_postponed_for_the_rate_limit),
		TEST(a_balancer_that_only_the_next_token_shows_is_kept),
		TEST(a_balancer_that_only_the_next_token_shows_is_deleted),
		TEST(a_name_that_two_live_services_share_is_refused),
		TEST(a_service_that_has_its_balancer_keeps_it_beside_a_namesake),
		TEST(a_service_goes_without_the_balancer_of_its_namesake),
		TEST(an_unlabelled_balancer_is_left_to_the_namesake_that_remains),
		TEST(an_unlabelled_balancer_goes_with_its_service),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
