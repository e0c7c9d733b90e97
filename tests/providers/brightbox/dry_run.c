/* Dry runs of the provider as a whole: the changes that are noted are the requests that a real run
 * of the same Service sends then, in that order, and nothing of them is sent or kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/limits.h"
#include "providers/brightbox/account.h"

#define KEY(name) STR("service.beta.kubernetes.io/brightbox-load-balancer-" name)

enum {
	OLD_S = 11, /* after which a view is too old */
	ID_DIGITS = 5,
};

/* ---- life cycle ---- */

static void
note(struct dry_run *run, const struct dry_item *item, const struct dry_change *change)
{
	static const char *const verbs[] = { "create", "change", "delete" };
	struct account_rig *rig = CONTAINER_OF(run, struct account_rig, run);
	const char *sep = ": ";

	assert_ptr_equal(item, &rig->item);
	assert_true(change->is_cloud);
	buf_addf(&rig->noted, "%s %s %" STR_FMT, verbs[change->verb], change->what,
	         STR_ARG(change->name));
	for (size_t i = 0; i < change->n_fields; i++, sep = "; ")
		buf_addf(&rig->noted, "%s%" STR_FMT " %" STR_FMT " > %" STR_FMT, sep,
		         STR_ARG(change->fields[i].name), STR_ARG(change->fields[i].old),
		         STR_ARG(change->fields[i].new));
	buf_add_c(&rig->noted, "\n");
	for (struct str word, rest = change->request; str_split(&rest, ' ', &word);) {
		if (str_starts(word, STR("/1.0")))
			buf_addf(&rig->requests, " %" STR_FMT "\n", STR_ARG(str_skip(word, 4)));
		else
			buf_add_str(&rig->requests, word);
	}
}

static int
setup(void **state)
{
	struct account_rig *rig;

	rig_setup(state);
	rig = *state;
	rig->run.note = note;
	return 0;
}

/* ---- runs ---- */

static bool
remove_balancer(struct account_rig *rig)
{
	bool was_found;

	return process_remove(&rig->process, &rig->spec, &was_found, &rig->err);
}

/* The views of earlier runs are too old from now on. */
static void
drop_views(struct account_rig *rig)
{
	rig->process.fake.now_ns += OLD_S * NS_PER_SEC;
	process_forget(&rig->process);
}

/* Nothing may be sent, waited for or reported as done. */
static bool
run_dry(struct account_rig *rig, bool (*run)(struct account_rig *))
{
	CLEANUP(buf_fini) struct buf before = BUF_INIT(MIB(1)), after = BUF_INIT(MIB(1));
	int64_t now_ns;
	bool is_done;

	drop_views(rig);
	now_ns = rig->process.fake.now_ns;
	buf_reset(&rig->noted);
	buf_reset(&rig->requests);
	rig->n_ids = rig->account.n_ids;
	account_write(&rig->account, &before);
	rig->process.dry = &rig->item;
	is_done = run(rig);
	rig->process.dry = NULL;
	account_write(&rig->account, &after);
	assert_string_equal(before.ptr, after.ptr);
	assert_int_equal(rig->process.n_writes, 0);
	assert_int_equal(rig->process.fake.now_ns, now_ns);
	return is_done;
}

/* The writes among the requests, with "cip-new" for the id of an object that was made since. */
static void
collect_writes(const struct account_rig *rig, struct buf *ret)
{
	for (struct str line, rest = buf_str(&rig->process.asked); str_split(&rest, '\n', &line);) {
		if (line.len == 0 || str_starts(line, STR("GET ")))
			continue;
		while (line.len > 0) {
			int64_t number;

			if (line.ptr[0] == '-' && line.len > ID_DIGITS &&
			    str_to_i64(str_n(line.ptr + 1, ID_DIGITS), rig->n_ids + 1, INT64_MAX,
			               &number)) {
				buf_add_c(ret, "-new");
				line = str_skip(line, 1 + ID_DIGITS);
			} else {
				buf_add_char(ret, line.ptr[0]);
				line = str_skip(line, 1);
			}
		}
		buf_add_c(ret, "\n");
	}
}

/* A dry run notes exactly what a real run does next, and the run after that has nothing to note. */
static void
check_foretold(struct account_rig *rig, bool (*run)(struct account_rig *))
{
	CLEANUP(buf_fini) struct buf sent = BUF_INIT(MIB(1));
	bool is_done = run_dry(rig, run);

	if (!is_done)
		fail_msg("%s", rig->err.msg);
	drop_views(rig);
	assert_true(run(rig));
	collect_writes(rig, &sent);
	assert_string_equal(rig->requests.ptr, sent.ptr);
	assert_true(run_dry(rig, run));
	assert_string_equal(rig->requests.ptr, "");
}

static void
add_ip(struct account_rig *rig, unsigned number, const char *name, const char *lb)
{
	struct account_ip *ip = &rig->account.ips[rig->account.n_ips++];

	*ip = (struct account_ip){ .number = number, .name = str_c(name) };
	snprintf(ip->id, sizeof(ip->id), "cip-%05u", number);
	snprintf(ip->lb, sizeof(ip->lb), "%s", lb);
	rig->account.n_ids += 100;
}

/* ---- what is noted ---- */

static void
a_new_service_is_planned_to_its_end(void **state)
{
	struct account_rig *rig = *state;

	check_foretold(rig, rig_ensure);
	assert_int_equal(rig->account.n_lbs, 1);
	account_fini(&rig->account);
	rig->account = (struct account){ .n_ids = 50 };
	assert_true(run_dry(rig, rig_ensure));
	assert_string_equal(
		rig->noted.ptr,
		"create cloud IP web.default.k: name  > web.default.k\n"
		"create server group web.default.k: name  > web.default.k\n"
		"change server group grp-new: servers  > srv-aaaaa, srv-bbbbb\n"
		"create firewall policy web.default.k: name  > web.default.k; "
		"server_group  > grp-new\n"
		"create firewall rule web.default.k: firewall_policy  > fwp-new; "
		"protocol  > tcp; source  > 10.0.0.0/8; destination_port  > 30080; "
		"description  > web.default.k\n"
		"create load balancer web.default.k: name  > web.default.k; "
		"nodes  > srv-aaaaa, srv-bbbbb; listeners  > protocol http in 80 out 30080; "
		"healthcheck.type  > http; healthcheck.port  > 30080; "
		"healthcheck.request  > /healthz; https_redirect  > false\n"
		"change cloud IP cip-new: destination  > lba-new\n");
}

static void
the_status_of_a_new_service_has_a_placeholder(void **state)
{
	struct account_rig *rig = *state;

	assert_true(run_dry(rig, rig_ensure));
	assert_int_equal(rig->status.n_ingress, 1);
	assert_true(str_eq_c(rig->status.ingress[0].hostname, "(new address)"));
}

static void
the_status_with_a_cloud_ip_that_exists_is_known(void **state)
{
	struct account_rig *rig = *state;

	add_ip(rig, 50, "mine", "");
	rig_annotate(rig, KEY("cloudip-allocations"), "cip-00050");
	assert_true(run_dry(rig, rig_ensure));
	assert_int_equal(rig->status.n_ingress, 2);
	assert_true(str_eq_c(rig->status.ingress[0].hostname, "cip-00050.reverse.example"));
	assert_true(str_eq_c(rig->status.ingress[1].hostname, "cip-00050.gb1.example"));
}

static void
a_settled_service_has_nothing_to_note(void **state)
{
	struct account_rig *rig = *state;

	rig_settle(rig);
	assert_true(run_dry(rig, rig_ensure));
	assert_string_equal(rig->noted.ptr, "");
	assert_int_equal(rig->status.n_ingress, 2);
}

static void
changed_nodes_are_shown_with_those_before(void **state)
{
	struct node_ref other = { .name = STR("srv-ccccc"),
		                  .provider_id = STR("brightbox://srv-ccccc") };
	struct account_rig *rig = *state;

	rig_settle(rig);
	rig->spec.nodes = &other;
	rig->spec.n_nodes = 1;
	assert_true(run_dry(rig, rig_ensure));
	assert_string_equal(rig->noted.ptr,
	                    "change server group grp-00002: servers  > srv-ccccc\n"
	                    "change server group grp-00002: servers srv-aaaaa, srv-bbbbb > \n"
	                    "change load balancer lba-00004: nodes srv-aaaaa, srv-bbbbb > "
	                    "srv-ccccc\n");
	check_foretold(rig, rig_ensure);
}

static void
a_changed_port_is_shown_in_the_rule_and_the_balancer(void **state)
{
	struct lb_port port = { STR("http"), STR_EMPTY, STR("TCP"), LB_TCP, 80, 30081 };
	struct account_rig *rig = *state;

	rig_settle(rig);
	rig->spec.ports = &port;
	assert_true(run_dry(rig, rig_ensure));
	assert_string_equal(rig->noted.ptr,
	                    "change firewall rule fwr-fwp-00003: destination_port 30080 > 30081\n"
	                    "change load balancer lba-00004: listeners protocol http in 80 out "
	                    "30080 > protocol http in 80 out 30081; healthcheck.port 30080 > "
	                    "30081\n");
	check_foretold(rig, rig_ensure);
}

/* The API's default of a time-out, and of an interval, is no difference. */
static void
what_the_service_leaves_open_is_not_shown(void **state)
{
	struct account_rig *rig = *state;

	rig_settle(rig);
	rig->account.lbs[0].body = STR(
		"{\"name\":\"web.default.k\",\"nodes\":[{\"node\":\"srv-aaaaa\"},"
		"{\"node\":\"srv-bbbbb\"}],\"listeners\":[{\"protocol\":\"http\",\"in\":80,"
		"\"out\":30080,\"timeout\":50000}],\"healthcheck\":{\"type\":\"http\","
		"\"port\":30080,\"request\":\"/x\",\"interval\":5000},\"https_redirect\":false}");
	assert_true(run_dry(rig, rig_ensure));
	assert_string_equal(rig->noted.ptr,
	                    "change load balancer lba-00004: healthcheck.request /x > /healthz\n");
}

static void
a_certificate_for_a_new_cloud_ip_is_planned(void **state)
{
	struct lb_port port = { STR("https"), STR_EMPTY, STR("TCP"), LB_TCP, 443, 30443 };
	struct account_rig *rig = *state;

	rig->spec.ports = &port;
	check_foretold(rig, rig_ensure);
}

/* No domain of the user's can lead to an address that is not assigned, so a real run ends there. */
static void
a_domain_for_a_new_cloud_ip_ends_the_plan(void **state)
{
	struct lb_port port = { STR("https"), STR_EMPTY, STR("TCP"), LB_TCP, 443, 30443 };
	struct account_rig *rig = *state;

	rig->spec.ports = &port;
	rig_annotate(rig, KEY("ssl-domains"), "192.0.2.1");
	assert_false(run_dry(rig, rig_ensure));
	assert_int_equal(rig->err.code, ERR_INVALID);
	assert_string_equal(rig->err.msg, "Failed to resolve \"192.0.2.1\" to load balancer "
	                                  "address, which is not assigned yet");
	assert_string_equal(rig->requests.ptr, "POST /cloud_ips\n");
	assert_false(rig_ensure(rig));
	assert_int_equal(rig->process.n_writes, 1);
}

static void
what_exists_already_is_not_planned_again(void **state)
{
	struct account_rig *rig = *state;

	rig_settle(rig);
	rig->account.n_policies = 0;
	rig->account.n_lbs = 0;
	rig->account.ips[0].lb[0] = '\0';
	check_foretold(rig, rig_ensure);
}

static void
a_policy_of_another_group_and_other_members_are_corrected(void **state)
{
	struct account_rig *rig = *state;

	rig_settle(rig);
	snprintf(rig->account.policies[0].group, sizeof(rig->account.policies[0].group), "grp-0");
	rig->account.groups[0].servers[1] = STR("srv-ccccc");
	rig->account.policies[0].rule = STR_EMPTY;
	check_foretold(rig, rig_ensure);
}

static void
a_cloud_ip_that_is_replaced_is_unmapped_and_destroyed(void **state)
{
	struct account_rig *rig = *state;

	rig_settle(rig);
	add_ip(rig, 50, "mine", "");
	rig_annotate(rig, KEY("cloudip-allocations"), "cip-00050");
	check_foretold(rig, rig_ensure);
	assert_int_equal(rig->account.n_ips, 1);
}

static void
other_cloud_ips_of_the_name_are_destroyed(void **state)
{
	struct account_rig *rig = *state;

	add_ip(rig, 50, "web.default.k", "");
	add_ip(rig, 51, "web.default.k", "");
	check_foretold(rig, rig_ensure);
	assert_int_equal(rig->account.n_ips, 1);
}

static void
a_cloud_ip_that_is_mapped_elsewhere_is_an_error_after_the_changes(void **state)
{
	struct account_rig *rig = *state;
	unsigned n_noted = 0;

	add_ip(rig, 50, "mine", "srv-other");
	rig_annotate(rig, KEY("cloudip-allocations"), "cip-00050");
	assert_false(run_dry(rig, rig_ensure));
	assert_int_equal(rig->err.code, ERR_UNAVAILABLE);
	for (const char *at = rig->requests.ptr; *at; at++)
		n_noted += *at == '\n';
	assert_false(rig_ensure(rig));
	assert_int_equal(rig->err.code, ERR_UNAVAILABLE);
	assert_int_equal(rig->process.n_writes, n_noted);
}

static void
a_removal_is_planned_to_its_end(void **state)
{
	struct account_rig *rig = *state;

	rig->process.fake.nodes = (struct node_ref *)(uintptr_t)rig->spec.nodes;
	rig->process.fake.n_nodes = rig->spec.n_nodes;
	rig_settle(rig);
	check_foretold(rig, remove_balancer);
	assert_int_equal(rig->account.n_lbs + rig->account.n_ips + rig->account.n_groups, 0);
}

static void
a_removal_leaves_a_chosen_cloud_ip(void **state)
{
	struct account_rig *rig = *state;

	add_ip(rig, 50, "mine", "");
	rig_annotate(rig, KEY("cloudip-allocations"), "cip-00050");
	rig->process.fake.nodes = (struct node_ref *)(uintptr_t)rig->spec.nodes;
	rig->process.fake.n_nodes = rig->spec.n_nodes;
	rig_settle(rig);
	check_foretold(rig, remove_balancer);
	assert_int_equal(rig->account.n_ips, 1);
}

/* ---- what is not kept ---- */

static void
another_run_starts_from_the_account(void **state)
{
	CLEANUP(buf_fini) struct buf first = BUF_INIT(MIB(1));
	struct account_rig *rig = *state;

	assert_true(run_dry(rig, rig_ensure));
	buf_add_str(&first, buf_str(&rig->noted));
	assert_true(run_dry(rig, rig_ensure));
	assert_string_equal(rig->noted.ptr, first.ptr);
	buf_reset(&rig->noted);
	process_forget(&rig->process);
	rig->process.dry = &rig->item;
	assert_true(rig_ensure(rig)); /* with the view of the run before */
	assert_string_equal(rig->noted.ptr, first.ptr);
	assert_int_equal(rig->process.n_asked, 0);
}

/* ---- waiting ---- */

static void
a_balancer_that_is_being_built_is_not_waited_for(void **state)
{
	struct account_rig *rig = *state;

	rig_settle(rig);
	rig->account.acme_status = "pending";
	rig->account.lbs[0].status = "creating";
	rig->account.ips[0].lb[0] = '\0';
	assert_true(run_dry(rig, rig_ensure));
	assert_string_equal(rig->requests.ptr, "POST /cloud_ips/cip-00001/map\n");
	rig->account.lbs[0].status = "deleting";
	snprintf(rig->account.ips[0].lb, sizeof(rig->account.ips[0].lb), "lba-00004");
	assert_false(run_dry(rig, remove_balancer));
	assert_int_equal(rig->err.code, ERR_PENDING);
}

/* With lists that show nothing of the Service, its project has to be proven first. */
static void
a_service_is_planned_after_the_evidence(void **state)
{
	struct lb_ingress ingress = { STR_EMPTY, STR("cip-00009.gb1.example"), LB_IP_MODE_NONE };
	struct account_rig *rig = *state;

	rig->process.fake.nodes = (struct node_ref *)(uintptr_t)rig->spec.nodes;
	rig->process.fake.n_nodes = rig->spec.n_nodes;
	rig->spec.status = (struct lb_status){ &ingress, 1 };
	rig->account.has_no_servers = true;
	assert_false(run_dry(rig, rig_ensure));
	assert_int_equal(rig->err.code, ERR_PENDING);
	assert_string_equal(rig->noted.ptr, "");
	rig->account.has_no_servers = false;
	rig->process.fake.now_ns += 60 * NS_PER_SEC; /* that long it is not asked for again */
	check_foretold(rig, rig_ensure);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, rig_teardown)
		TEST(a_new_service_is_planned_to_its_end),
		TEST(the_status_of_a_new_service_has_a_placeholder),
		TEST(the_status_with_a_cloud_ip_that_exists_is_known),
		TEST(a_settled_service_has_nothing_to_note),
		TEST(changed_nodes_are_shown_with_those_before),
		TEST(a_changed_port_is_shown_in_the_rule_and_the_balancer),
		TEST(what_the_service_leaves_open_is_not_shown),
		TEST(a_certificate_for_a_new_cloud_ip_is_planned),
		TEST(a_domain_for_a_new_cloud_ip_ends_the_plan),
		TEST(what_exists_already_is_not_planned_again),
		TEST(a_policy_of_another_group_and_other_members_are_corrected),
		TEST(a_cloud_ip_that_is_replaced_is_unmapped_and_destroyed),
		TEST(other_cloud_ips_of_the_name_are_destroyed),
		TEST(a_cloud_ip_that_is_mapped_elsewhere_is_an_error_after_the_changes),
		TEST(a_removal_is_planned_to_its_end),
		TEST(a_removal_leaves_a_chosen_cloud_ip),
		TEST(another_run_starts_from_the_account),
		TEST(a_balancer_that_is_being_built_is_not_waited_for),
		TEST(a_service_is_planned_after_the_evidence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
