/* Services that the cloud does not finish: how often they are looked at, what is sent, and which
 * events say so. Sections "Cloud IPs", "The status" and "Deletion" of docs/spec/brightbox.md.
 *
 * An hour passes on the host's clock. Services come back as their controller lets them: after the
 * time that ERR_PENDING names, and else after pauses that double. One worker serves all.
 */
#include "providers/brightbox/unsettled.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "providers/brightbox/account.h"

enum {
	SERVICES_MAX = 30,
	MINUTE_S = 60,
	HOUR_S = 3600,
	/* what the official controller sends for a Service that it cannot finish: its controller
	 * runs 18 times in the first hour, with 6 requests each */
	OFFICIAL_HOUR = 108,
};

struct one {
	struct lb_spec spec;
	char name[16], uid[16];
	struct lb_wait wait;
	bool is_removed; /* remove() is called */
	bool is_done;
	int64_t due_ns;
	unsigned n_failures;
	struct error err;
};

struct rig {
	struct account account;
	struct process process;
	struct arena arena;
	struct one services[SERVICES_MAX];
	size_t n;
	unsigned n_minute; /* requests of the first minute */
};

static int
setup(void **state)
{
	struct rig *rig = xcalloc(1, sizeof(*rig));

	process_start(&rig->process, &rig->account);
	*state = rig;
	return 0;
}

static int
teardown(void **state)
{
	struct rig *rig = *state;

	process_end(&rig->process);
	account_fini(&rig->account);
	arena_fini(&rig->arena);
	free(rig);
	return 0;
}

/* Services "web", "s1", "s2" … */
static void
add_services(struct rig *rig, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct one *one = &rig->services[rig->n];

		one->spec = account_service();
		snprintf(one->name, sizeof(one->name), rig->n == 0 ? "web" : "s%zu", rig->n);
		snprintf(one->uid, sizeof(one->uid), "u%zu", rig->n);
		one->spec.service = str_c(one->name);
		one->spec.uid = str_c(one->uid);
		one->due_ns = rig->process.fake.now_ns;
		rig->n++;
	}
}

static void
use_https(struct rig *rig)
{
	static struct lb_port port = { STR("https"), STR_EMPTY, STR("TCP"), LB_TCP, 443, 30443 };

	for (size_t i = 0; i < rig->n; i++)
		rig->services[i].spec.ports = &port;
}

static void
remove_all(struct rig *rig)
{
	for (size_t i = 0; i < rig->n; i++) {
		rig->services[i].is_removed = true;
		rig->services[i].is_done = false;
		rig->services[i].n_failures = 0;
		rig->services[i].due_ns = rig->process.fake.now_ns;
	}
}

/* One run, as by the worker of controllers/service/service.c. */
static void
run_one(struct rig *rig, struct one *one)
{
	struct error *err = &one->err;
	struct lb_status status;
	int64_t begun_ns = rig->process.fake.now_ns, max_s;
	bool was_found;

	one->is_done = one->is_removed ? process_remove(&rig->process, &one->spec, &was_found, err)
	                               : process_ensure(&rig->process, &one->spec, &status,
	                                                &rig->arena, err);
	assert_int_equal(rig->process.fake.now_ns, begun_ns); /* no worker waits */
	if (one->is_done) {
		one->wait = (struct lb_wait){ 0 };
		return;
	}
	balancer_note_wait(rig->process.cloud, &one->spec, &one->wait, begun_ns, err);
	if (err->code == ERR_PENDING) {
		assert_true(err->retry_after_ms > 0);
		one->due_ns = rig->process.fake.now_ns + err->retry_after_ms * NS_PER_MS;
		return;
	}
	max_s = one->is_removed ? 30 : err->code == ERR_UNAVAILABLE ? 60 : 300;
	if (5 << one->n_failures < max_s)
		max_s = 5 << one->n_failures++;
	one->due_ns = rig->process.fake.now_ns + max_s * NS_PER_SEC;
}

static struct one *
next_of(struct rig *rig)
{
	struct one *next = NULL;

	for (size_t i = 0; i < rig->n; i++) {
		struct one *one = &rig->services[i];

		if (!one->is_done && (!next || one->due_ns < next->due_ns))
			next = one;
	}
	return next;
}

static void
run_for(struct rig *rig, int64_t seconds)
{
	int64_t end_ns = rig->process.fake.now_ns + seconds * NS_PER_SEC;
	struct one *one;

	while ((one = next_of(rig)) && one->due_ns < end_ns) {
		if (one->due_ns > rig->process.fake.now_ns)
			rig->process.fake.now_ns = one->due_ns;
		run_one(rig, one);
	}
	rig->process.fake.now_ns = end_ns;
}

/* An hour from now on; the requests before it do not count. */
static void
run_hour(struct rig *rig, const char *what)
{
	process_forget(&rig->process);
	run_for(rig, MINUTE_S);
	rig->n_minute = rig->process.n_asked;
	run_for(rig, HOUR_S - MINUTE_S);
	print_message(
		"%s, %zu Services: %u requests in the first minute, %u in an hour, of which %u "
		"changes\n",
		what, rig->n, rig->n_minute, rig->process.n_asked, rig->process.n_writes);
}

static unsigned
count(const struct buf *text, const char *wanted)
{
	unsigned n = 0;

	for (const char *at = text->ptr; (at = strstr(at, wanted)); at++)
		n++;
	return n;
}

static unsigned
count_asked(const struct rig *rig, const char *wanted)
{
	return count(&rig->process.asked, wanted);
}

static unsigned
count_events(const struct rig *rig, const char *wanted)
{
	return count(&rig->process.fake.events, wanted);
}

/* ---- what needs time ---- */

static void
a_certificate_that_is_not_validated(void **state)
{
	struct rig *rig = *state;
	struct one *one = &rig->services[0];

	add_services(rig, 1);
	use_https(rig);
	rig->account.acme_status = "pending";
	run_hour(rig, "a certificate");
	assert_true(rig->process.n_asked <= OFFICIAL_HOUR);
	assert_int_equal(one->err.code, ERR_PENDING);
	assert_int_equal(one->err.retry_after_ms, 300 * 1000);
	assert_int_equal(count_events(rig, "\n"), 1);
	assert_int_equal(count_events(rig,
	                              "default/web LoadBalancerUnfinished: Waiting for Brightbox "
	                              "for 80 s: Domain \"cip-00001.gb1.example\" has not yet "
	                              "been validated for SSL use (\"pending\":\"\"). Check that"),
	                 1);
	rig->account.acme_status = "valid";
	run_for(rig, 5 * MINUTE_S);
	assert_true(one->is_done);
}

static void
thirty_certificates_share_the_views(void **state)
{
	struct rig *rig = *state;

	add_services(rig, SERVICES_MAX);
	use_https(rig);
	rig->account.acme_status = "pending";
	run_for(rig, 4);
	assert_int_equal(rig->account.n_lbs, SERVICES_MAX);
	run_hour(rig, "a certificate");
	assert_int_equal(rig->process.n_writes, 0);
	assert_true(rig->process.n_asked <= 2 * OFFICIAL_HOUR);
	assert_int_equal(count_events(rig, "\n"), SERVICES_MAX);
	/* Services that wait at different times share them as well */
	for (size_t i = 0; i < rig->n; i++)
		rig->services[i].due_ns += (int64_t)(i * 10) * NS_PER_SEC;
	run_for(rig, 10 * MINUTE_S);
	run_hour(rig, "a certificate, at different times");
	assert_true(rig->process.n_asked <= 2 * OFFICIAL_HOUR);
}

static void
a_new_service_does_not_wait_for_those_that_do(void **state)
{
	struct rig *rig = *state;
	struct one *new = &rig->services[SERVICES_MAX - 1];

	add_services(rig, SERVICES_MAX - 1);
	rig->account.never_maps = true;
	run_for(rig, 20);
	rig->account.never_maps = false;
	add_services(rig, 1);
	run_one(rig, new); /* does not let time pass */
	assert_true(new->is_done);
}

static void
a_mapping_that_never_completes(void **state)
{
	struct rig *rig = *state;

	add_services(rig, 1);
	rig->account.never_maps = true;
	run_hour(rig, "a mapping");
	assert_true(count_asked(rig, "/map\n") <=
	            5); /* after a minute, then every twenty minutes */
	assert_true(rig->process.n_asked <=
	            OFFICIAL_HOUR + 20); /* which asks for the mapping each time */
	assert_int_equal(count_events(rig,
	                              "LoadBalancerUnfinished: Waiting for Brightbox for 64 s: "
	                              "Mapping of CloudIP \"cip-00001\" to \"lba-00004\" not "
	                              "complete. Check it at Brightbox"),
	                 1);
}

static void
a_changed_service_is_looked_at_immediately(void **state)
{
	static struct lb_port port = { STR("http"), STR_EMPTY, STR("TCP"), LB_TCP, 80, 30081 };
	struct rig *rig = *state;
	struct one *one = &rig->services[0];

	add_services(rig, 1);
	rig->account.acme_status = "pending";
	use_https(rig);
	run_for(rig, HOUR_S);
	process_forget(&rig->process);
	run_one(rig, one); /* for another reason: nothing is sent until the pause is over */
	assert_int_equal(rig->process.n_asked, 0);
	one->spec.ports = &port;
	run_one(rig, one);
	assert_true(str_contains(rig->account.lbs[0].body, STR("30081")));
}

/* A person has to do something about the one, while the other only needs time. */
static void
an_invalid_domain_is_reported_before_a_pending_one(void **state)
{
	struct rig *rig = *state;

	add_services(rig, 1);
	use_https(rig);
	rig->account.acme_status = "pending";
	rig->account.last_acme_status = "invalid";
	run_hour(rig, "an invalid domain");
	assert_int_equal(rig->services[0].err.code, ERR_UNAVAILABLE);
	assert_string_equal(
		rig->services[0].err.msg,
		"Domain \"cip-00001.reverse.example\" has not yet been validated for SSL "
		"use (\"invalid\":\"\")");
	assert_true(rig->process.n_asked <= OFFICIAL_HOUR);
}

/* ---- what has no effect ---- */

static void
a_difference_that_survives_our_change_is_a_failure(void **state)
{
	static struct lb_port port = { STR("http"), STR_EMPTY, STR("TCP"), LB_TCP, 8080, 30080 };
	struct rig *rig = *state;
	struct one *one = &rig->services[0];

	add_services(rig, 1);
	run_for(rig, 1);
	assert_true(one->is_done);
	rig->account.ignores_updates = true;
	one->spec.ports = &port;
	one->is_done = false;
	one->due_ns = rig->process.fake.now_ns;
	run_hour(rig, "an update without effect");
	assert_int_equal(one->err.code, ERR_UNAVAILABLE);
	assert_string_equal(one->err.msg,
	                    "Load balancer lba-00004 still shows other listeners than "
	                    "those that were set");
	assert_true(count_asked(rig, "PUT /load_balancers/") <= 5);
	assert_true(rig->process.n_asked <= OFFICIAL_HOUR);
	rig->account.ignores_updates = false;
	run_for(rig, 30 * MINUTE_S);
	assert_true(one->is_done);
}

static void
an_api_with_its_own_order(void **state)
{
	struct rig *rig = *state;

	rig->account.reverses_nodes = true;
	add_services(rig, 1);
	run_hour(rig, "an order of its own");
	assert_true(rig->services[0].is_done);
	assert_int_equal(count_asked(rig, "PUT /load_balancers/"), 0);
}

/* ---- balancers that fail ---- */

static void
a_balancer_that_fails_is_replaced_three_times_in_an_hour(void **state)
{
	struct rig *rig = *state;
	struct one *one = &rig->services[0];

	add_services(rig, 1);
	rig->account.new_lb_status = "failed";
	run_for(rig, 1);
	assert_int_equal(one->err.code, ERR_UNAVAILABLE);
	assert_string_equal(one->err.msg,
	                    "Load balancer lba-00004 has failed at Brightbox. If it stays "
	                    "so for a minute, it is deleted and created again, 3 times in "
	                    "an hour at most");
	run_hour(rig, "a balancer that fails");
	assert_int_equal(count_asked(rig, "POST /load_balancers\n"), 2);
	assert_true(rig->account.n_lbs <= 1);
	assert_string_equal(
		one->err.msg,
		"3 load balancers were created for this Service within an hour, and none of "
		"them works. Check the Service, or ask Brightbox; the next one is created "
		"an hour after the first");
	rig->account.new_lb_status = NULL;
	run_for(rig, 10 * MINUTE_S);
	assert_true(one->is_done);
	assert_string_equal(rig->account.ips[0].lb, rig->account.lbs[0].id);
}

/* It served until then, and this process knows nothing about it. */
static void
a_balancer_that_has_failed_is_replaced_with_its_cloud_ip(void **state)
{
	struct rig *rig = *state;
	struct one *one = &rig->services[0];

	add_services(rig, 1);
	run_for(rig, 1);
	rig->account.lbs[0].status = "failed";
	one->is_done = false;
	one->due_ns = rig->process.fake.now_ns += 11 * NS_PER_SEC;
	run_for(rig, 30);
	assert_int_equal(rig->account.n_lbs, 1);
	assert_string_equal(rig->account.lbs[0].status, "failed");
	run_for(rig, 5 * MINUTE_S);
	assert_true(one->is_done);
	assert_int_equal(rig->account.n_lbs, 1);
	assert_int_equal(rig->account.n_ips, 1);
	assert_string_equal(rig->account.ips[0].lb, rig->account.lbs[0].id);
}

static void
a_removal_deletes_balancers_that_have_failed(void **state)
{
	struct rig *rig = *state;

	add_services(rig, 1);
	run_for(rig, 1);
	rig->account.lbs[0].status = "failing";
	remove_all(rig);
	run_for(rig, MINUTE_S);
	assert_true(rig->services[0].is_done);
	assert_int_equal(rig->account.n_lbs + rig->account.n_ips, 0);
}

/* ---- removals ---- */

static void
balancers_that_never_go_away(void **state)
{
	struct rig *rig = *state;

	add_services(rig, SERVICES_MAX);
	run_for(rig, 1);
	rig->account.never_deletes = true;
	remove_all(rig);
	run_for(rig, 4);
	run_hour(rig, "a balancer that stays");
	assert_int_equal(rig->process.n_writes, 0);
	assert_true(rig->process.n_asked <= 2 * OFFICIAL_HOUR);
	assert_int_equal(count_events(rig, "LoadBalancerUnfinished"), SERVICES_MAX);
}

/* The last run finds nothing of the Service, as with credentials of another account. A node is
 * evidence of the right one. */
static void
a_slow_removal_ends_with_evidence(void **state)
{
	static struct label chosen = {
		STR("service.beta.kubernetes.io/brightbox-load-balancer-cloudip-allocations"),
		STR("cip-00050")
	};
	struct rig *rig = *state;

	add_services(rig, 1);
	rig->services[0].spec.annotations = &chosen;
	rig->services[0].spec.n_annotations = 1;
	rig->account.ips[rig->account.n_ips++] = (struct account_ip){ .id = "cip-00050",
		                                                      .number = 50,
		                                                      .name = STR("mine") };
	run_for(rig, 1);
	assert_true(rig->services[0].is_done);
	rig->account.never_deletes = true;
	remove_all(rig);
	run_for(rig, MINUTE_S);
	assert_int_equal(rig->services[0].err.code, ERR_PENDING);
	rig->account.n_lbs = 0;
	rig->account.ips[0].lb[0] = '\0';
	run_for(rig, 2 * MINUTE_S);
	assert_false(rig->services[0].is_done);
	assert_true(count_events(rig, "LoadBalancerHeld") > 0);
	rig->process.fake.nodes = (struct node_ref *)(uintptr_t)rig->services[0].spec.nodes;
	rig->process.fake.n_nodes = 1;
	run_for(rig, 5 * MINUTE_S);
	assert_true(rig->services[0].is_done);
}

static void
a_cloud_ip_that_cannot_be_destroyed(void **state)
{
	struct rig *rig = *state;

	add_services(rig, 1);
	run_for(rig, 1);
	rig->account.keeps_ips = true;
	remove_all(rig);
	run_hour(rig, "a cloud IP that stays");
	assert_true(count_asked(rig, "DELETE /cloud_ips/") <= 5);
	assert_true(rig->process.n_asked <= OFFICIAL_HOUR);
	assert_int_equal(rig->services[0].err.code, ERR_CONFLICT);
	rig->account.keeps_ips = false;
	run_for(rig, 30 * MINUTE_S);
	assert_true(rig->services[0].is_done);
}

/* ---- refusals ---- */

static void
a_limit_of_the_account_is_met_once_for_all_services(void **state)
{
	struct rig *rig = *state;

	add_services(rig, SERVICES_MAX);
	rig->account.has_no_room = true;
	run_hour(rig, "no room for balancers");
	assert_int_equal(count_asked(rig, "POST /load_balancers\n"), 1);
	assert_int_equal(rig->services[7].err.code, ERR_FORBIDDEN);
	rig->account.has_no_room = false;
	run_for(rig, 15 * MINUTE_S);
	for (size_t i = 0; i < rig->n; i++)
		assert_true(rig->services[i].is_done);
}

/* One of another kind would be refused for each Service, with the servers that exist. */
static void
a_node_without_a_server_keeps_no_service_waiting(void **state)
{
	static struct node_ref nodes[] = {
		{ .name = STR("srv-aaaaa"), .provider_id = STR("brightbox://srv-aaaaa") },
		{ .name = STR("srv-zzzzz"), .provider_id = STR("brightbox://srv-zzzzz") },
	};
	struct rig *rig = *state;

	add_services(rig, SERVICES_MAX);
	for (size_t i = 0; i < rig->n; i++)
		rig->services[i].spec.nodes = nodes;
	rig->account.knows_servers = true;
	run_for(rig, 1);
	for (size_t i = 0; i < rig->n; i++) {
		assert_true(rig->services[i].is_done);
		assert_int_equal(rig->account.groups[i].n_servers, 1);
	}
	assert_int_equal(count_asked(rig, "/add_servers\n"), 1 + SERVICES_MAX);
	assert_int_equal(count_asked(rig, "GET /servers\n"), 1);
}

/* The server was deleted with the balancer, after both had been set up. */
static void
a_balancer_is_created_again_without_a_server_that_is_gone(void **state)
{
	static struct node_ref nodes[] = {
		{ .name = STR("srv-aaaaa"), .provider_id = STR("brightbox://srv-aaaaa") },
		{ .name = STR("srv-zzzzz"), .provider_id = STR("brightbox://srv-zzzzz") },
	};
	struct rig *rig = *state;

	add_services(rig, 1);
	rig->services[0].spec.nodes = nodes;
	run_for(rig, 1);
	assert_true(rig->services[0].is_done);
	rig->account.knows_servers = true;
	rig->account.n_lbs = 0;
	rig->account.ips[0].lb[0] = '\0';
	rig->services[0].is_done = false;
	rig->services[0].spec.is_changed = true;
	process_forget(&rig->process);
	run_for(rig, 1);
	assert_true(rig->services[0].is_done);
	assert_int_equal(rig->account.n_lbs, 1);
	assert_int_equal(count_asked(rig, "POST /load_balancers\n"), 2);
	assert_int_equal(count_asked(rig, "GET /load_balancers/"), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(a_certificate_that_is_not_validated),
		TEST(thirty_certificates_share_the_views),
		TEST(a_new_service_does_not_wait_for_those_that_do),
		TEST(a_mapping_that_never_completes),
		TEST(a_changed_service_is_looked_at_immediately),
		TEST(an_invalid_domain_is_reported_before_a_pending_one),
		TEST(a_difference_that_survives_our_change_is_a_failure),
		TEST(an_api_with_its_own_order),
		TEST(a_balancer_that_fails_is_replaced_three_times_in_an_hour),
		TEST(a_balancer_that_has_failed_is_replaced_with_its_cloud_ip),
		TEST(a_removal_deletes_balancers_that_have_failed),
		TEST(balancers_that_never_go_away),
		TEST(a_slow_removal_ends_with_evidence),
		TEST(a_cloud_ip_that_cannot_be_destroyed),
		TEST(a_limit_of_the_account_is_met_once_for_all_services),
		TEST(a_node_without_a_server_keeps_no_service_waiting),
		TEST(a_balancer_is_created_again_without_a_server_that_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
