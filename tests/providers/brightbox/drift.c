/* The comparison of all Services with the account, as the service controller makes it once an hour:
 * what is repaired after another client has changed the account, and what that costs. Section
 * "What other clients change" of docs/brightbox.md. */
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
	SERVICES = 20,
	HOUR_S = 3600,
};

#define LISTS "GET /load_balancers\nGET /cloud_ips\nGET /server_groups\nGET /firewall_policies\n"

struct rig {
	struct account account;
	struct process process;
	struct arena arena;
	struct lb_spec specs[SERVICES];
	const struct lb_spec *all[SERVICES];
	char names[SERVICES][8];
	struct buf repairs; /* "s3: create load balancer", each with a new line */
};

static void
ensure(struct rig *rig, size_t i)
{
	struct lb_status status;
	struct error err;

	if (!process_ensure(&rig->process, &rig->specs[i], &status, &rig->arena, &err))
		fail_msg("%s: %s", rig->names[i], err.msg);
	assert_int_equal(status.n_ingress, 2);
}

/* An hour passes before it. */
static void
compare(struct rig *rig)
{
	CLEANUP(buf_fini) struct buf changes = BUF_INIT(LIMIT_EVENT_MESSAGE);
	struct error err;

	rig->process.fake.now_ns += HOUR_S * NS_PER_SEC;
	process_forget(&rig->process);
	buf_reset(&rig->repairs);
	rig->process.changes = &changes;
	if (!process_adopt(&rig->process, rig->all, SERVICES, &err))
		fail_msg("%s", err.msg);
	for (size_t i = 0; i < SERVICES; i++) {
		ensure(rig, i);
		if (changes.len > 0)
			buf_addf(&rig->repairs, "%s: %s\n", rig->names[i], changes.ptr);
		buf_reset(&changes);
	}
	rig->process.changes = NULL;
}

/* 20 Services whose balancers are as they should be. */
static int
setup(void **state)
{
	struct rig *rig = xcalloc(1, sizeof(*rig));

	process_start(&rig->process, &rig->account);
	rig->repairs = BUF_INIT(KIB(64));
	for (size_t i = 0; i < SERVICES; i++) {
		snprintf(rig->names[i], sizeof(rig->names[i]), "s%zu", i);
		rig->specs[i] = account_service();
		rig->specs[i].service = rig->specs[i].uid = str_c(rig->names[i]);
		rig->all[i] = &rig->specs[i];
		ensure(rig, i);
	}
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
	buf_fini(&rig->repairs);
	free(rig);
	return 0;
}

/* ---- other clients ---- */

/* Its cloud IP stays. */
static void
delete_last_balancer(struct rig *rig)
{
	struct account *a = &rig->account;

	for (size_t i = 0; i < a->n_ips; i++) {
		if (strcmp(a->ips[i].lb, a->lbs[a->n_lbs - 1].id) == 0)
			a->ips[i].lb[0] = '\0';
	}
	a->n_lbs--;
}

/* Replaces a text in the first balancer. */
static void
edit_balancer(struct rig *rig, const char *is, const char *becomes)
{
	struct account_lb *lb = &rig->account.lbs[0];
	const char *at = strstr(lb->body.ptr, is);

	assert_non_null(at);
	lb->body = arena_printf(&rig->account.arena, "%.*s%s%s", (int)(at - lb->body.ptr),
	                        lb->body.ptr, becomes, at + strlen(is));
}

/* ---- the comparison ---- */

static void
one_set_of_lists_shows_that_nothing_differs(void **state)
{
	CLEANUP(buf_fini) struct buf before = BUF_INIT(MIB(1));
	CLEANUP(buf_fini) struct buf after = BUF_INIT(MIB(1));
	struct rig *rig = *state;

	account_write(&rig->account, &before);
	compare(rig);
	account_write(&rig->account, &after);
	assert_string_equal(rig->process.asked.ptr, LISTS);
	assert_int_equal(rig->repairs.len, 0);
	assert_int_equal(rig->process.fake.events.len, 0);
	assert_string_equal(before.ptr, after.ptr);
}

static void
without_services_nothing_is_read(void **state)
{
	struct rig *rig = *state;
	struct error err;

	process_forget(&rig->process);
	assert_true(process_adopt(&rig->process, NULL, 0, &err));
	assert_int_equal(rig->process.n_asked, 0);
}

static void
a_deleted_balancer_is_made_again_with_its_cloud_ip(void **state)
{
	struct rig *rig = *state;
	struct account *a = &rig->account;

	delete_last_balancer(rig);
	compare(rig);
	assert_string_equal(rig->repairs.ptr, "s19: create load balancer, map cloud IP\n");
	assert_int_equal(a->n_lbs, SERVICES);
	assert_int_equal(a->n_ips, SERVICES);
	assert_string_equal(a->ips[SERVICES - 1].lb, a->lbs[SERVICES - 1].id);
	assert_int_equal(rig->process.n_writes, 2);
	compare(rig);
	assert_string_equal(rig->process.asked.ptr, LISTS);
	assert_int_equal(rig->repairs.len, 0);
}

/* Also what belongs to the balancer: its group and the policy. */
static void
a_changed_listener_and_a_changed_group_are_repaired(void **state)
{
	struct rig *rig = *state;
	struct account *a = &rig->account;

	edit_balancer(rig, "30080", "30099");
	a->groups[1].n_servers--;
	compare(rig);
	assert_string_equal(rig->repairs.ptr, "s0: update load balancer\ns1: add servers\n");
	assert_int_equal(rig->process.n_writes, 2);
	assert_false(str_contains(a->lbs[0].body, STR("30099")));
	assert_int_equal(a->groups[1].n_servers, 2);
}

/* The policy, which no annotation names, and cloud IPs: ours, and one of the user's. */
static void
addresses_and_unmentioned_settings_stay(void **state)
{
	struct rig *rig = *state;
	struct account *a = &rig->account;
	struct account_ip ours = a->ips[0];

	a->ips[a->n_ips++] = (struct account_ip){ .id = "cip-00150",
		                                  .number = 150,
		                                  .name = STR("mine") };
	edit_balancer(rig, "{", "{\"policy\":\"round-robin\",");
	compare(rig);
	assert_int_equal(rig->process.n_writes, 0);
	edit_balancer(rig, "30080", "30099");
	compare(rig);
	assert_int_equal(rig->process.n_writes, 1);
	assert_false(str_contains(a->lbs[0].body, STR("\"policy\""))); /* of the update */
	assert_memory_equal(&a->ips[0], &ours, sizeof(ours));
	assert_int_equal(a->n_ips, SERVICES + 1);
}

/* As each run of the Service does: its annotation names the cloud IP, or it has one of its own. */
static void
a_service_keeps_one_cloud_ip(void **state)
{
	struct rig *rig = *state;
	struct account *a = &rig->account;

	a->ips[1].lb[0] = '\0';
	a->ips[a->n_ips++] = (struct account_ip){ .id = "cip-00150",
		                                  .number = 150,
		                                  .name = STR("mine") };
	memcpy(a->ips[SERVICES].lb, a->lbs[0].id, sizeof(a->lbs[0].id));
	compare(rig);
	assert_string_equal(rig->repairs.ptr, "s0: unmap cloud IP\ns1: map cloud IP\n");
	assert_string_equal(a->ips[1].lb, a->lbs[1].id);
	assert_int_equal(a->n_ips, SERVICES + 1);
	a->n_ips = 0;
	compare(rig);
	assert_int_equal(a->n_ips, SERVICES);
	assert_non_null(strstr(rig->repairs.ptr, "s3: create cloud IP, map cloud IP\n"));
}

/* ---- a Service that has changed ---- */

static void
a_changed_service_is_compared_with_a_view_that_began_later(void **state)
{
	struct rig *rig = *state;

	ensure(rig, SERVICES - 1);
	delete_last_balancer(rig);
	ensure(rig, SERVICES - 1); /* the view is a moment old */
	assert_int_equal(rig->account.n_lbs, SERVICES - 1);
	rig->specs[SERVICES - 1].is_changed = true;
	ensure(rig, SERVICES - 1);
	assert_int_equal(rig->account.n_lbs, SERVICES);
	process_forget(&rig->process);
	ensure(rig, SERVICES - 1);
	assert_string_equal(rig->process.asked.ptr, LISTS); /* once, also if nothing differs */
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(one_set_of_lists_shows_that_nothing_differs),
		TEST(without_services_nothing_is_read),
		TEST(a_deleted_balancer_is_made_again_with_its_cloud_ip),
		TEST(a_changed_listener_and_a_changed_group_are_repaired),
		TEST(addresses_and_unmentioned_settings_stay),
		TEST(a_service_keeps_one_cloud_ip),
		TEST(a_changed_service_is_compared_with_a_view_that_began_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
