/* Balancers of the provider as a whole, against a small account: sections "Load balancers", "Cloud
 * IPs", "The firewall", "The status" and "Deletion" of docs/spec/brightbox.md. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "cloud/login.h"
#include "providers/brightbox/account.h"

#define KEY(name) STR("service.beta.kubernetes.io/brightbox-load-balancer-" name)

enum {
	RUNS_MAX = 12, /* after which a Service has to be settled */
	OLD_NS = 11,   /* seconds after which a view is too old */
};

/* For process.before. */
static bool
note_write(struct process *p, const struct http_request *request, struct error *err)
{
	struct account_rig *rig = CONTAINER_OF(p, struct account_rig, process);

	(void)err;
	if (request->method != HTTP_GET)
		buf_addf(&rig->noted, "%s %" STR_FMT " %" STR_FMT "\n",
		         http_method_name(request->method), STR_ARG(request->target),
		         STR_ARG(request->body));
	return true;
}

static void
check_writes(struct account_rig *rig, const char *writes)
{
	assert_string_equal(rig->noted.ptr, writes);
	buf_reset(&rig->noted);
}

/* Lets the pause pass after a run that found the Service unsettled. */
static void
rest(struct account_rig *rig)
{
	rig->process.fake.now_ns += OLD_NS * NS_PER_SEC;
}

static void
check_event(struct account_rig *rig, const char *text)
{
	if (!str_contains(buf_str(&rig->process.fake.events), str_c(text)))
		fail_msg("no event \"%s\" in: %s", text, rig->process.fake.events.ptr);
}

static void
check_asked(struct account_rig *rig, const char *asked)
{
	assert_string_equal(rig->process.asked.ptr, asked);
}

/* One balancer with one cloud IP, a group with both servers, and a policy with its rule. */
static void
check_whole(const struct account *a)
{
	assert_int_equal(a->n_lbs, 1);
	assert_int_equal(a->n_ips, 1);
	assert_string_equal(a->ips[0].lb, a->lbs[0].id);
	assert_int_equal(a->n_groups, 1);
	assert_int_equal(a->groups[0].n_servers, 2);
	assert_int_equal(a->n_policies, 1);
	assert_string_equal(a->policies[0].group, a->groups[0].id);
	assert_true(str_contains(a->policies[0].rule, STR("\"destination_port\":\"30080\"")));
}

static void
check_empty(const struct account *a)
{
	assert_int_equal(a->n_lbs + a->n_ips + a->n_groups + a->n_policies, 0);
}

/* ---- creating, changing, removing ---- */

static void
a_service_gets_all_it_needs_and_the_names_of_its_cloud_ip(void **state)
{
	struct account_rig *rig = *state;

	rig_settle(rig);
	check_whole(&rig->account);
	assert_int_equal(rig->status.n_ingress, 2);
	assert_true(str_eq_c(rig->status.ingress[0].hostname, "cip-00001.reverse.example"));
	assert_true(str_eq_c(rig->status.ingress[1].hostname, "cip-00001.gb1.example"));
	assert_int_equal(rig->status.ingress[0].ip.len, 0);
}

static void
each_change_is_one_request(void **state)
{
	static const struct lb_port port = { STR("a"), STR_EMPTY, STR("TCP"), LB_TCP, 80, 30081 };
	static const struct node_ref nodes[] = {
		{ .name = STR("srv-aaaaa"), .provider_id = STR("brightbox://srv-aaaaa") },
		{ .name = STR("srv-ccccc"), .provider_id = STR("brightbox://srv-ccccc") },
	};
	struct account_rig *rig = *state;
	bool was_found;

	rig->account.reverses_nodes = true; /* requests have them in order nevertheless */
	rig->process.before = note_write;
	rig_settle(rig);
	check_writes(
		rig,
		"POST /cloud_ips {\"name\":\"web.default.k\"}\n"
		"POST /server_groups {\"name\":\"web.default.k\"}\n"
		"POST /server_groups/grp-00002/add_servers "
		"{\"servers\":[{\"server\":\"srv-aaaaa\"},{\"server\":\"srv-bbbbb\"}]}\n"
		"POST /firewall_policies "
		"{\"name\":\"web.default.k\",\"server_group\":\"grp-00002\"}\n"
		"POST /firewall_rules {\"firewall_policy\":\"fwp-00003\",\"protocol\":\"tcp\","
		"\"source\":\"10.0.0.0/8\",\"destination_port\":\"30080\","
		"\"description\":\"web.default.k\"}\n"
		"POST /load_balancers {\"name\":\"web.default.k\",\"nodes\":[{\"node\":\"srv-aaaaa\"},"
		"{\"node\":\"srv-bbbbb\"}],\"listeners\":[{\"protocol\":\"http\",\"in\":80,\"out\":30080}],"
		"\"healthcheck\":{\"type\":\"http\",\"port\":30080,\"request\":\"/healthz\"},"
		"\"https_redirect\":false}\n"
		"POST /cloud_ips/cip-00001/map {\"destination\":\"lba-00004\"}\n");
	snprintf(rig->account.policies[0].group, sizeof(rig->account.policies[0].group), "grp-0");
	rig->spec.ports = &port;
	rig->spec.nodes = nodes;
	rig->spec.is_changed = true;
	rig_settle(rig);
	check_writes(
		rig,
		"POST /server_groups/grp-00002/add_servers "
		"{\"servers\":[{\"server\":\"srv-ccccc\"}]}\n"
		"POST /server_groups/grp-00002/remove_servers "
		"{\"servers\":[{\"server\":\"srv-bbbbb\"}]}\n"
		"POST /firewall_policies/fwp-00003/apply_to {\"server_group\":\"grp-00002\"}\n"
		"PUT /firewall_rules/fwr-fwp-00003 {\"firewall_policy\":\"fwp-00003\","
		"\"protocol\":\"tcp\",\"source\":\"10.0.0.0/8\",\"destination_port\":\"30081\","
		"\"description\":\"web.default.k\"}\n"
		"PUT /load_balancers/lba-00004 {\"name\":\"web.default.k\",\"nodes\":[{\"node\":\"srv-aaaaa\"},"
		"{\"node\":\"srv-ccccc\"}],\"listeners\":[{\"protocol\":\"http\",\"in\":80,\"out\":30081}],"
		"\"healthcheck\":{\"type\":\"http\",\"port\":30081,\"request\":\"/healthz\"},"
		"\"https_redirect\":false}\n");
	assert_true(process_remove(&rig->process, &rig->spec, &was_found, &rig->err));
	check_writes(rig, "POST /server_groups/grp-00002/remove_servers "
	                  "{\"servers\":[{\"server\":\"srv-aaaaa\"},{\"server\":\"srv-ccccc\"}]}\n"
	                  "DELETE /server_groups/grp-00002 \n"
	                  "DELETE /firewall_policies/fwp-00003 \n"
	                  "DELETE /load_balancers/lba-00004 \n"
	                  "DELETE /cloud_ips/cip-00001 \n");
}

/* An operator chooses the name of the cluster. */
static void
names_are_escaped_in_bodies(void **state)
{
	struct account_rig *rig = *state;

	rig->process.before = note_write;
	rig->spec.cluster = STR("a\"},{\\");
	(void)rig_ensure(
		rig); /* the account does not escape names in its lists, so the rest fails */
	assert_true(str_starts(buf_str(&rig->noted),
	                       STR("POST /cloud_ips {\"name\":\"web.default.a\\\"},{\\\\\"}\n")));
}

static void
a_cloud_ip_without_a_reverse_name_has_one_name_in_the_status(void **state)
{
	struct account_rig *rig = *state;

	rig->account.has_no_reverse_names = true;
	rig_settle(rig);
	assert_int_equal(rig->status.n_ingress, 1);
	assert_true(str_eq_c(rig->status.ingress[0].hostname, "cip-00001.gb1.example"));
}

static void
a_settled_service_costs_nothing_and_four_lists_with_an_old_view(void **state)
{
	struct account_rig *rig = *state;

	rig_settle(rig);
	rig_settle(rig);
	process_forget(&rig->process);
	rig_settle(rig);
	check_asked(rig, "");
	rig->process.fake.now_ns += OLD_NS * NS_PER_SEC;
	rig_settle(rig);
	check_asked(rig, "GET /load_balancers\nGET /cloud_ips\nGET /server_groups\n"
	                 "GET /firewall_policies\n");
}

static void
nodes_are_added_before_others_are_removed(void **state)
{
	struct node_ref third = { .name = STR("srv-ccccc"),
		                  .provider_id = STR("brightbox://srv-ccccc") };
	struct account_rig *rig = *state;
	const char *asked;

	rig_settle(rig);
	process_forget(&rig->process);
	rig->spec.nodes = &third;
	rig->spec.n_nodes = 1;
	rig_settle(rig);
	asked = rig->process.asked.ptr;
	assert_true(strstr(asked, "add_servers") < strstr(asked, "remove_servers"));
	assert_null(strstr(asked, "GET /load_balancers/")); /* the lists show that all is done */
	assert_int_equal(rig->account.groups[0].n_servers, 1);
	assert_true(str_contains(rig->account.lbs[0].body, STR("[{\"node\":\"srv-ccccc\"}]")));
}

static void
without_nodes_the_balancer_is_emptied_once(void **state)
{
	struct account_rig *rig = *state;

	rig_settle(rig);
	rig->spec.n_nodes = 0;
	rig_settle(rig);
	assert_true(str_contains(rig->account.lbs[0].body, STR("\"nodes\":[]")));
	process_forget(&rig->process);
	rig_settle(rig);
	assert_int_equal(rig->process.n_writes, 0);
}

static void
removal_leaves_nothing_and_may_run_twice(void **state)
{
	struct account_rig *rig = *state;
	bool was_found;

	rig->process.fake.nodes = (struct node_ref *)(uintptr_t)rig->spec.nodes;
	rig->process.fake.n_nodes = rig->spec.n_nodes;
	rig_settle(rig);
	assert_true(process_remove(&rig->process, &rig->spec, &was_found, &rig->err));
	assert_true(was_found);
	check_empty(&rig->account);
	assert_true(process_remove(&rig->process, &rig->spec, &was_found, &rig->err));
	assert_false(was_found);
}

static void
removal_begins_with_the_firewall_and_ends_with_the_cloud_ip(void **state)
{
	struct account_rig *rig = *state;
	bool was_found;

	rig_settle(rig);
	rig_settle(rig);
	process_forget(&rig->process);
	assert_true(process_remove(&rig->process, &rig->spec, &was_found, &rig->err));
	buf_reset(&rig->process.fake.events);
	check_asked(rig, "GET /load_balancers\nGET /cloud_ips\nGET /server_groups\n"
	                 "GET /firewall_policies\n"
	                 "POST /server_groups/grp-00002/remove_servers\n"
	                 "DELETE /server_groups/grp-00002\nDELETE /firewall_policies/fwp-00003\n"
	                 "DELETE /load_balancers/lba-00004\n"
	                 "GET /load_balancers\nGET /cloud_ips\nGET /server_groups\n"
	                 "GET /firewall_policies\nDELETE /cloud_ips/cip-00001\n"
	                 "GET /load_balancers\nGET /cloud_ips\nGET /server_groups\n"
	                 "GET /firewall_policies\n");
}

/* A balancer that is being deleted holds its cloud IPs for some seconds. */
static void
cloud_ips_of_a_balancer_that_is_being_deleted_are_waited_for(void **state)
{
	struct account_rig *rig = *state;
	bool was_found;

	rig_settle(rig);
	rig->account.lbs[0].status = "deleting";
	rig->process.fake.now_ns += OLD_NS * NS_PER_SEC;
	assert_false(process_remove(&rig->process, &rig->spec, &was_found, &rig->err));
	assert_int_equal(rig->err.code, ERR_PENDING);
	assert_true(rig->err.retry_after_ms > 0);
	assert_int_equal(rig->account.n_ips, 1);
}

static void
the_order_of_nodes_is_no_difference(void **state)
{
	struct account_rig *rig = *state;

	rig->account.reverses_nodes = true;
	rig_settle(rig);
	process_forget(&rig->process);
	rig->process.fake.now_ns += OLD_NS * NS_PER_SEC;
	rig_settle(rig);
	assert_int_equal(rig->process.n_writes, 0);
}

/* ---- cloud IPs ---- */

static void
add_ip(struct account_rig *rig, const char *id, const char *name, const char *lb)
{
	struct account_ip *ip = &rig->account.ips[rig->account.n_ips++];

	*ip = (struct account_ip){ .number = (unsigned)strtoul(id + 4, NULL, 10),
		                   .name = str_c(name) };
	snprintf(ip->id, sizeof(ip->id), "%s", id);
	snprintf(ip->lb, sizeof(ip->lb), "%s", lb);
	rig->account.n_ids += 10;
}

static void
a_chosen_cloud_ip_takes_the_place_of_our_own(void **state)
{
	struct account_rig *rig = *state;

	rig_settle(rig);
	add_ip(rig, "cip-00050", "mine", "");
	rig_annotate(rig, KEY("cloudip-allocations"), "cip-00050");
	rig_settle(rig);
	assert_int_equal(rig->account.n_ips, 1);
	assert_string_equal(rig->account.ips[0].id, "cip-00050");
	assert_string_equal(rig->account.ips[0].lb, rig->account.lbs[0].id);
}

static void
a_chosen_cloud_ip_is_never_destroyed(void **state)
{
	struct account_rig *rig = *state;
	bool was_found;

	add_ip(rig, "cip-00050", "mine", "");
	rig_annotate(rig, KEY("cloudip-allocations"), "cip-00050");
	rig_settle(rig);
	assert_true(process_remove(&rig->process, &rig->spec, &was_found, &rig->err));
	assert_int_equal(rig->account.n_ips, 1);
	assert_string_equal(rig->account.ips[0].lb, "");
}

/* Although the list shows the other one first. */
static void
a_service_keeps_its_cloud_ip_when_another_one_is_mapped(void **state)
{
	struct account_rig *rig = *state;
	struct account *a = &rig->account;

	rig_settle(rig);
	a->ips[1] = a->ips[0];
	a->ips[0] = (struct account_ip){ .id = "cip-00090", .number = 90, .name = STR("other") };
	snprintf(a->ips[0].lb, sizeof(a->ips[0].lb), "%s", a->lbs[0].id);
	a->n_ips = 2;
	rest(rig);
	rig_settle(rig);
	assert_int_equal(a->n_ips, 2);
	assert_string_equal(a->ips[0].lb, "");
	assert_string_equal(a->ips[1].lb, a->lbs[0].id);
}

static void
a_cloud_ip_that_is_mapped_elsewhere_stays_there(void **state)
{
	struct account_rig *rig = *state;

	add_ip(rig, "cip-00050", "mine", "srv-other");
	rig_annotate(rig, KEY("cloudip-allocations"), "cip-00050");
	assert_false(rig_ensure(rig));
	assert_int_equal(rig->err.code, ERR_UNAVAILABLE);
	assert_string_equal(rig->err.msg,
	                    "Mapping of CloudIP \"cip-00050\" to \"lba-00013\" not complete");
	check_event(rig, "CloudIPMappedElsewhere: CloudIP \"cip-00050\" (203.0.113.50) is mapped "
	                 "elsewhere. Unmap the Cloud IP and reapply this manifest, or map manually "
	                 "to \"lba-00013\"");
	assert_string_equal(rig->account.ips[0].lb, "srv-other");
}

static void
a_cloud_ip_is_chosen_by_its_address(void **state)
{
	struct account_rig *rig = *state;

	add_ip(rig, "cip-00050", "mine", "");
	rig->spec.wanted_ip = STR("2001:0db8:0::50");
	rig_settle(rig);
	assert_string_equal(rig->account.ips[0].lb, rig->account.lbs[0].id);
	assert_int_equal(rig->account.n_ips, 1);
}

static void
a_wrong_choice_of_a_cloud_ip_changes_nothing(void **state)
{
	struct account_rig *rig = *state;

	rig->spec.wanted_ip = STR("not-an-ip");
	assert_false(rig_ensure(rig));
	assert_string_equal(rig->err.msg, "cloud IP: Invalid LoadBalancerIP: \"not-an-ip\"");
	rig->spec.wanted_ip = STR("203.0.113.9");
	assert_false(rig_ensure(rig));
	assert_string_equal(
		rig->err.msg,
		"cloud IP: Could not find allocated Cloud IP with address \"203.0.113.9\"");
	rig->spec.wanted_ip = STR_EMPTY;
	rig_annotate(rig, KEY("cloudip-allocations"), "cip-00050");
	assert_false(rig_ensure(rig));
	assert_string_equal(rig->err.msg,
	                    "cloud IP: GET /cloud_ips/cip-00050: 404 missing_resource: "
	                    "Resource not found");
	check_empty(&rig->account);
}

/* The official controller takes the first cloud IP of the name, and destroys the others. */
static void
other_cloud_ips_of_the_name_are_destroyed(void **state)
{
	struct account_rig *rig = *state;

	add_ip(rig, "cip-00050", "web.default.k", "");
	add_ip(rig, "cip-00051", "web.default.k", "");
	rig_settle(rig);
	assert_int_equal(rig->account.n_ips, 1);
	assert_string_equal(rig->account.ips[0].id, "cip-00050");
}

/* It may be in use there, and an address that is destroyed is lost. */
static void
a_cloud_ip_of_the_name_that_is_mapped_to_something_else_is_left(void **state)
{
	struct account_rig *rig = *state;
	bool was_found;

	add_ip(rig, "cip-00050", "web.default.k", "");
	add_ip(rig, "cip-00051", "web.default.k", "srv-other");
	rig_settle(rig);
	check_event(rig,
	            "CloudIPMappedElsewhere: CloudIP \"cip-00051\" (203.0.113.51) has the name of "
	            "this Service and is mapped elsewhere. It is left there");
	assert_int_equal(rig->account.n_ips, 2);
	buf_reset(&rig->process.fake.events);
	assert_true(process_remove(&rig->process, &rig->spec, &was_found, &rig->err));
	check_event(rig, "CloudIPMappedElsewhere: CloudIP \"cip-00051\"");
	assert_int_equal(rig->account.n_ips, 1);
	assert_string_equal(rig->account.ips[0].id, "cip-00051");
}

/* ---- lists that were read while a cloud IP was being mapped ---- */

static bool
lose_second_ip(struct process *p, const struct http_request *request, struct error *err)
{
	(void)err;
	if (str_eq_c(request->target, "/cloud_ips"))
		p->account->n_ips = 1;
	return true;
}

static void
every_cloud_ip_of_the_balancer_is_in_the_status(void **state)
{
	struct account_rig *rig = *state;

	rig_settle(rig);
	add_ip(rig, "cip-00050", "mine", rig->account.lbs[0].id);
	rig->process.before = lose_second_ip; /* else it would be unmapped */
	rig->process.fake.now_ns += OLD_NS * NS_PER_SEC;
	rig_settle(rig);
	assert_int_equal(rig->status.n_ingress, 4);
	assert_true(str_eq_c(rig->status.ingress[2].hostname, "cip-00050.reverse.example"));
	assert_true(str_eq_c(rig->status.ingress[3].hostname, "cip-00050.gb1.example"));
}

/* Only the list of cloud IPs shows that it is mapped. */
static bool
map_for_one_list(struct process *p, const struct http_request *request, struct error *err)
{
	bool is_mapped = str_eq_c(request->target, "/cloud_ips");
	struct account_ip *ip = &p->account->ips[0];

	(void)err;
	snprintf(ip->lb, sizeof(ip->lb), "%s", is_mapped ? p->account->lbs[0].id : "");
	return true;
}

static void
a_balancer_without_a_cloud_ip_has_no_status_yet(void **state)
{
	struct account_rig *rig = *state;

	rig_settle(rig);
	rig->status.n_ingress = 7;
	rig->process.before = map_for_one_list;
	rig->process.fake.now_ns += OLD_NS * NS_PER_SEC;
	assert_false(rig_ensure(rig));
	assert_int_equal(rig->err.code, ERR_PENDING);
	assert_string_equal(rig->err.msg,
	                    "Mapping of CloudIP \"cip-00001\" to \"lba-00004\" not complete");
	assert_int_equal(rig->status.n_ingress, 7); /* it was left alone */
	rig->process.before = NULL;
	rest(rig);
	rig_settle(rig);
	assert_int_equal(rig->status.n_ingress, 2);
}

/* ---- certificates ---- */

static void
a_certificate_that_is_not_valid_is_named(void **state)
{
	struct lb_port port = { STR("https"), STR_EMPTY, STR("TCP"), LB_TCP, 443, 30443 };
	struct account_rig *rig = *state;

	rig->spec.ports = &port;
	rig->account.acme_status = "invalid";
	assert_false(rig_ensure(rig));
	assert_int_equal(rig->err.code, ERR_UNAVAILABLE);
	assert_string_equal(rig->err.msg, "Domain \"cip-00001.gb1.example\" has not yet been "
	                                  "validated for SSL use (\"invalid\":\"\")");
	rig->account.acme_status = "pending";
	rest(rig);
	assert_false(rig_ensure(rig));
	assert_int_equal(rig->err.code, ERR_PENDING);
	rig->account.acme_status = "valid";
	rest(rig);
	rig_settle(rig);
}

static void
a_domain_that_leads_elsewhere_stops_before_a_change(void **state)
{
	struct lb_port port = { STR("https"), STR_EMPTY, STR("TCP"), LB_TCP, 443, 30443 };
	struct account_rig *rig = *state;

	rig->spec.ports = &port;
	rig_annotate(rig, KEY("ssl-domains"), "192.0.2.1");
	assert_false(rig_ensure(rig));
	assert_int_equal(rig->err.code, ERR_INVALID);
	assert_string_equal(rig->err.msg, "Failed to resolve \"192.0.2.1\" to load balancer "
	                                  "address (203.0.113.1,2001:db8::1)");
	assert_int_equal(rig->account.n_lbs, 0);
}

/* ---- whose balancer ---- */

static void
a_service_with_a_status_is_held_in_another_account(void **state)
{
	struct lb_ingress ingress = { STR_EMPTY, STR("cip-00009.gb1.example"), LB_IP_MODE_NONE };
	struct account_rig *rig = *state;
	bool was_found;

	rig->process.fake.nodes = (struct node_ref *)(uintptr_t)rig->spec.nodes;
	rig->process.fake.n_nodes = rig->spec.n_nodes;
	rig->spec.status = (struct lb_status){ &ingress, 1 };
	rig->account.has_no_servers = true;
	assert_false(rig_ensure(rig));
	assert_int_equal(rig->err.code, ERR_PENDING);
	assert_true(rig->err.is_held);
	check_empty(&rig->account);
	assert_false(process_remove(&rig->process, &rig->spec, &was_found, &rig->err));
	assert_int_equal(rig->err.code, ERR_PENDING);
	rig->account.has_no_servers = false;
	rig->process.fake.now_ns += 60 * NS_PER_SEC;
	rig_settle(rig);
}

static struct account own_account;

/* The credentials become the right ones between the lists and the search for evidence. */
static bool
correct_credentials(struct process *p, const struct http_request *request, struct error *err)
{
	(void)err;
	if (str_starts(request->target, STR("/servers")))
		*p->account = own_account;
	return true;
}

/* The lists show another, empty account. */
static void
use_wrong_credentials(struct account_rig *rig)
{
	static struct lb_ingress ingress = { STR(""), STR("cip-00001.gb1.example"),
		                             LB_IP_MODE_NONE };

	own_account = rig->account;
	rig->account = (struct account){ .n_ids = 50 };
	rig->spec.status = (struct lb_status){ &ingress, 1 };
	rig->process.fake.nodes = (struct node_ref *)(uintptr_t)rig->spec.nodes;
	rig->process.fake.n_nodes = rig->spec.n_nodes;
	rig->process.fake.now_ns += OLD_NS * NS_PER_SEC;
	rig->process.before = correct_credentials;
}

static void
a_balancer_is_not_doubled_by_lists_from_before_the_evidence(void **state)
{
	struct account_rig *rig = *state;

	rig_settle(rig);
	use_wrong_credentials(rig);
	process_forget(&rig->process);
	rig_settle(rig);
	assert_int_equal(rig->process.n_writes, 0);
	check_whole(&rig->account);
}

static void
a_removal_does_not_rely_on_lists_from_before_the_evidence(void **state)
{
	struct account_rig *rig = *state;
	bool was_found = false;

	rig_settle(rig);
	use_wrong_credentials(rig);
	assert_true(process_remove(&rig->process, &rig->spec, &was_found, &rig->err));
	assert_true(was_found);
	check_empty(&rig->account);
}

/* The credentials are replaced by those of another account, which is empty. */
static void
replace_credentials(struct process *p)
{
	login_note_replaced();
	if (p->account->n_lbs > 0)
		own_account = *p->account;
	*p->account = (struct account){ .n_ids = 50, .has_no_servers = true };
}

static void
restore_credentials(struct account_rig *rig)
{
	login_note_replaced();
	rig->account = own_account;
	rig->process.before = NULL;
	rig->process.fake.now_ns += 60 * NS_PER_SEC;
}

/* The right credentials are back after the first list. */
static void
restore_after_balancers(struct process *p, const struct http_request *request,
                        const struct buf *answer)
{
	(void)answer;
	if (!str_starts(request->target, STR("/load_balancers")) || p->account->n_lbs > 0)
		return;
	login_note_replaced();
	*p->account = own_account;
}

static void
a_balancer_is_not_doubled_by_lists_of_two_accounts(void **state)
{
	struct account_rig *rig = *state;

	rig_settle(rig);
	replace_credentials(&rig->process);
	rig->process.fake.now_ns += OLD_NS * NS_PER_SEC;
	rig->process.after = restore_after_balancers;
	process_forget(&rig->process);
	assert_false(rig_ensure(rig));
	rig->process.after = NULL;
	rig->process.fake.now_ns += 60 * NS_PER_SEC;
	rig_settle(rig);
	assert_int_equal(rig->process.n_writes, 0);
	check_whole(&rig->account);
}

static bool
replace_before_deletion(struct process *p, const struct http_request *request, struct error *err)
{
	(void)err;
	if (request->method == HTTP_DELETE && str_starts(request->target, STR("/load_balancers")) &&
	    p->account->n_lbs > 0)
		replace_credentials(p);
	return true;
}

/* The first account has the balancer, and the second one answers 404 to its deletion. */
static void
a_removal_does_not_rely_on_two_accounts(void **state)
{
	struct account_rig *rig = *state;
	bool was_found = false;

	rig_settle(rig);
	rig->process.before = replace_before_deletion;
	assert_false(process_remove(&rig->process, &rig->spec, &was_found, &rig->err));
	restore_credentials(rig);
	assert_true(process_remove(&rig->process, &rig->spec, &was_found, &rig->err));
	assert_true(was_found);
	check_empty(&rig->account);
}

/* The same, but nothing shows that the credentials are now those of another account. */
static bool
move_before_deletion(struct process *p, const struct http_request *request, struct error *err)
{
	(void)err;
	if (request->method != HTTP_DELETE ||
	    !str_starts(request->target, STR("/load_balancers")) || p->account->n_lbs == 0)
		return true;
	own_account = *p->account;
	*p->account = (struct account){ .n_ids = 50, .has_no_servers = true };
	return true;
}

static void
a_deletion_of_what_is_not_there_is_no_evidence(void **state)
{
	struct account_rig *rig = *state;
	bool was_found = false;

	rig_settle(rig);
	rig->process.fake.now_ns += OLD_NS * NS_PER_SEC;
	rig->process.before = move_before_deletion;
	assert_false(process_remove(&rig->process, &rig->spec, &was_found, &rig->err));
	assert_true(rig->err.is_held);
}

static void
several_balancers_of_a_name_are_reported_and_left(void **state)
{
	struct account_rig *rig = *state;

	rig_settle(rig);
	rig->account.lbs[1] = rig->account.lbs[0];
	snprintf(rig->account.lbs[1].id, sizeof(rig->account.lbs[1].id), "lba-00099");
	rig->account.n_lbs = 2;
	rig->process.fake.now_ns += OLD_NS * NS_PER_SEC;
	rig_settle(rig);
	assert_int_equal(rig->account.n_lbs, 2);
	check_event(rig, "LoadBalancerDuplicate: There are 2 load balancers named "
	                 "\"web.default.k\"; lba-00004 is used. Delete the others.");
}

static void
a_balancer_that_the_list_lacks_is_not_created_again(void **state)
{
	struct account_rig *rig = *state;

	rig->account.lists_no_lbs = true;
	for (int i = 0; i < 3; i++) {
		assert_false(rig_ensure(rig));
		assert_int_equal(rig->err.code, ERR_PENDING);
		assert_int_equal(rig->account.n_lbs, 1);
		rig->process.fake.now_ns += 300 * NS_PER_SEC;
	}
	rig->account.lists_no_lbs = false;
	rig_settle(rig);
	assert_int_equal(rig->account.n_lbs, 1);
}

/* Another process, which knows these nodes and finds a balancer of the default name. */
static void
start_other(struct process *other, struct account_rig *rig, struct node_ref *nodes)
{
	rig->spec.cluster = STR("kubernetes");
	rig_settle(rig);
	assert_null(strstr(rig->process.fake.events.ptr, "LoadBalancerMayBeForeign"));
	process_start(other, &rig->account);
	other->fake.nodes = nodes;
	other->fake.n_nodes = 1;
}

/* The nodes of the other cluster are other servers, and its Service has no status yet. */
static void
a_balancer_of_another_cluster_with_the_default_name_is_left_alone(void **state)
{
	struct node_ref node = { .name = STR("srv-ccccc"),
		                 .provider_id = STR("brightbox://srv-ccccc") };
	struct lb_spec spec;
	struct process other;
	struct account_rig *rig = *state;
	bool was_found;

	start_other(&other, rig, &node);
	spec = rig->spec;
	spec.nodes = &node;
	spec.n_nodes = 1;
	assert_false(process_ensure(&other, &spec, &rig->status, &rig->arena, &rig->err));
	assert_int_equal(rig->err.code, ERR_PENDING);
	assert_true(str_starts(buf_str(&other.fake.events),
	                       STR("default/web LoadBalancerMayBeForeign: Load balancer lba-00004 "
	                           "has the name of this Service, \"web.default.kubernetes\"")));
	assert_true(process_remove(&other, &spec, &was_found, &rig->err));
	assert_false(was_found);
	assert_int_equal(other.n_writes, 0);
	rig->spec.n_annotations = 0;
	rig_annotate(rig, KEY("cloudip-allocations"), "cip-00001"); /* as the event suggests */
	spec.annotations = rig->annotations;
	spec.n_annotations = 1;
	assert_true(process_ensure(&other, &spec, &rig->status, &rig->arena, &rig->err));
	process_end(&other);
}

/* The process that made it ended before it could write the status. */
static void
a_balancer_with_servers_of_this_cluster_is_ours(void **state)
{
	struct account_rig *rig = *state;
	struct process other;

	start_other(&other, rig, (struct node_ref *)(uintptr_t)rig->spec.nodes);
	assert_true(process_ensure(&other, &rig->spec, &rig->status, &rig->arena, &rig->err));
	assert_int_equal(other.n_writes, 0);
	process_end(&other);
}

static void
a_balancer_of_the_default_name_is_reported_if_the_status_is_another(void **state)
{
	struct lb_ingress ingress = { STR_EMPTY, STR("cip-00009.gb1.example"), LB_IP_MODE_NONE };
	struct account_rig *rig = *state;
	struct process other;

	start_other(&other, rig, (struct node_ref *)(uintptr_t)rig->spec.nodes);
	rig->spec.status = (struct lb_status){ &ingress, 1 };
	assert_true(process_ensure(&other, &rig->spec, &rig->status, &rig->arena, &rig->err));
	assert_non_null(strstr(other.fake.events.ptr, "LoadBalancerMayBeForeign"));
	buf_reset(&other.fake.events);
	other.fake.service_address = "cip-00001.gb1.example";
	assert_true(process_ensure(&other, &rig->spec, &rig->status, &rig->arena, &rig->err));
	assert_string_equal(other.fake.events.ptr, "");
	process_end(&other);
}

static void
a_balancer_in_a_status_is_an_anchor(void **state)
{
	struct node_ref gone = { .name = STR("srv-zzzzz"),
		                 .provider_id = STR("brightbox://srv-zzzzz") };
	struct account_rig *rig = *state;
	struct call call = fake_host_call(&rig->process.fake, &rig->arena);

	rig_settle(rig);
	for (unsigned i = 0; i < 3; i++) {
		static const char *const addresses[] = { NULL, "cip-00001.reverse.example",
			                                 "cip-00001.gb1.example" };
		CLEANUP(look_unrefp) struct look *look = NULL;

		rig->process.fake.service_address = addresses[i];
		assert_true(cloud_look(rig->process.cloud, &call, &gone, 1, 0, &look, &rig->err));
		assert_int_equal(look->instances[0].presence, PRESENCE_ABSENT);
		assert_int_equal(look->n_anchors, i == 2);
	}
}

/* ---- listing ---- */

/* A balancer of our own that is gone, and what others made, are not listed. */
static void
all_that_was_made_for_a_service_is_listed(void **state)
{
	static const char *const kinds[] = { "load balancer", "cloud IP", "server group",
		                             "firewall policy" };
	struct account_rig *rig = *state;
	struct account *a = &rig->account;
	struct cloud *cloud = rig->process.cloud;
	struct call call = fake_host_call(&rig->process.fake, &rig->arena);
	struct lb_listed *listed;
	size_t n;

	rig_settle(rig);
	a->groups[a->n_groups++] = (struct account_group){ .id = "grp-others",
		                                           .name = STR("default") };
	a->policies[a->n_policies++] = (struct account_policy){ .id = "fwp-others",
		                                                .name = STR("web.default"),
		                                                .rule = STR_EMPTY };
	rig->process.fake.now_ns += OLD_NS * NS_PER_SEC;
	assert_true(cloud->balancers->list(cloud, &call, &listed, &n, &rig->err));
	assert_int_equal(n, ARRAY_LEN(kinds));
	for (size_t i = 0; i < n; i++) {
		assert_string_equal(listed[i].what, kinds[i]);
		assert_true(str_eq_c(listed[i].service, "default/web"));
		assert_true(str_eq_c(listed[i].cluster, "k"));
		assert_int_equal(listed[i].uid.len + listed[i].cost.len, 0);
		assert_int_equal(listed[i].is_balancer, i == 0);
	}
	assert_true(str_eq_c(listed[2].id, a->groups[0].id));
	assert_true(str_eq_c(listed[3].id, a->policies[0].id));
	a->lbs[0].status = "deleted";
	rig->process.fake.now_ns += OLD_NS * NS_PER_SEC;
	assert_true(cloud->balancers->list(cloud, &call, &listed, &n, &rig->err));
	assert_string_equal(listed[0].what, "cloud IP");
}

/* ---- every request fails once ---- */

/* Runs until the Service is settled, as its controller does. */
static void
converge(struct account_rig *rig)
{
	for (int i = 0; i < RUNS_MAX; i++) {
		if (rig_ensure(rig))
			return;
		rig->process.fake.now_ns += 40 * NS_PER_SEC; /* past pauses after a failure */
	}
	fail_msg("not settled: %s", rig->err.msg);
}

static void
check_each_failure_of_creation(enum failure failure)
{
	for (unsigned n = 1;; n++) {
		struct account_rig *rig;
		unsigned n_asked;

		assert_int_equal(rig_setup((void **)&rig), 0);
		rig->process.n_asked = 0;
		rig->process.fail_at = n;
		rig->process.failure = failure;
		(void)!rig_ensure(rig);
		n_asked = rig->process.n_asked;
		rig->process.fake.now_ns += 40 * NS_PER_SEC;
		converge(rig);
		check_whole(&rig->account);
		rig_teardown((void **)&rig);
		if (n_asked < n)
			break;
		assert_true(n < 100);
	}
}

static void
each_request_of_a_creation_may_fail(void **state)
{
	(void)state;
	check_each_failure_of_creation(FAILURE_REFUSED);
}

static void
each_answer_of_a_creation_may_be_lost(void **state)
{
	(void)state;
	check_each_failure_of_creation(FAILURE_LOST);
}

static void
each_request_of_a_removal_may_fail(void **state)
{
	(void)state;
	for (unsigned n = 1;; n++) {
		struct account_rig *rig;
		bool was_found, is_gone = false;

		assert_int_equal(rig_setup((void **)&rig), 0);
		rig->process.fake.nodes = (struct node_ref *)(uintptr_t)rig->spec.nodes;
		rig->process.fake.n_nodes = rig->spec.n_nodes;
		rig_settle(rig);
		process_forget(&rig->process);
		rig->process.fail_at = n;
		rig->process.failure = n % 2 ? FAILURE_REFUSED : FAILURE_LOST;
		for (int i = 0; i < RUNS_MAX && !is_gone; i++) {
			is_gone = process_remove(&rig->process, &rig->spec, &was_found, &rig->err);
			rig->process.fake.now_ns += 40 * NS_PER_SEC;
		}
		assert_true(is_gone);
		check_empty(&rig->account);
		is_gone = rig->process.n_asked < n;
		rig_teardown((void **)&rig);
		if (is_gone)
			break;
		assert_true(n < 100);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
		TEST(a_service_gets_all_it_needs_and_the_names_of_its_cloud_ip),
		TEST(each_change_is_one_request),
		TEST(names_are_escaped_in_bodies),
		TEST(a_cloud_ip_without_a_reverse_name_has_one_name_in_the_status),
		TEST(a_settled_service_costs_nothing_and_four_lists_with_an_old_view),
		TEST(nodes_are_added_before_others_are_removed),
		TEST(without_nodes_the_balancer_is_emptied_once),
		TEST(removal_leaves_nothing_and_may_run_twice),
		TEST(removal_begins_with_the_firewall_and_ends_with_the_cloud_ip),
		TEST(cloud_ips_of_a_balancer_that_is_being_deleted_are_waited_for),
		TEST(the_order_of_nodes_is_no_difference),
		TEST(a_chosen_cloud_ip_takes_the_place_of_our_own),
		TEST(a_chosen_cloud_ip_is_never_destroyed),
		TEST(a_service_keeps_its_cloud_ip_when_another_one_is_mapped),
		TEST(a_cloud_ip_that_is_mapped_elsewhere_stays_there),
		TEST(a_cloud_ip_is_chosen_by_its_address),
		TEST(a_wrong_choice_of_a_cloud_ip_changes_nothing),
		TEST(other_cloud_ips_of_the_name_are_destroyed),
		TEST(a_cloud_ip_of_the_name_that_is_mapped_to_something_else_is_left),
		TEST(every_cloud_ip_of_the_balancer_is_in_the_status),
		TEST(a_balancer_without_a_cloud_ip_has_no_status_yet),
		TEST(a_certificate_that_is_not_valid_is_named),
		TEST(a_domain_that_leads_elsewhere_stops_before_a_change),
		TEST(a_service_with_a_status_is_held_in_another_account),
		TEST(a_balancer_is_not_doubled_by_lists_from_before_the_evidence),
		TEST(a_removal_does_not_rely_on_lists_from_before_the_evidence),
		TEST(a_balancer_is_not_doubled_by_lists_of_two_accounts),
		TEST(a_removal_does_not_rely_on_two_accounts),
		TEST(a_deletion_of_what_is_not_there_is_no_evidence),
		TEST(a_balancer_that_the_list_lacks_is_not_created_again),
		TEST(several_balancers_of_a_name_are_reported_and_left),
		TEST(a_balancer_of_another_cluster_with_the_default_name_is_left_alone),
		TEST(a_balancer_with_servers_of_this_cluster_is_ours),
		TEST(a_balancer_of_the_default_name_is_reported_if_the_status_is_another),
		TEST(a_balancer_in_a_status_is_an_anchor),
		TEST(all_that_was_made_for_a_service_is_listed),
		cmocka_unit_test(each_request_of_a_creation_may_fail),
		cmocka_unit_test(each_answer_of_a_creation_may_be_lost),
		cmocka_unit_test(each_request_of_a_removal_may_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
