#include "operator/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/limits.h"
#include "base/macros.h"

/* 2026-01-02T16:39:40Z */
#define NOW_NS (INT64_C(1767371980) * NS_PER_SEC)

#define PLAN(p)                                          \
	CLEANUP(plan_freep) struct plan *p = plan_new(); \
	CLEANUP(buf_fini) struct buf out = BUF_INIT(MIB(64))

static struct dry_item
item_of(struct plan *p, const char *kind, struct str name, struct str version)
{
	return (struct dry_item){ plan_dry_run(p), kind, name, version };
}

/* Notes a request that changes up to two members; a member without a name ends the list. */
static void
note(struct plan *p, const char *kind, const char *name, const struct dry_change *change,
     struct dry_field first, struct dry_field second)
{
	struct dry_item item = item_of(p, kind, str_c(name), STR("1"));
	struct dry_field fields[] = { first, second };
	struct dry_change copy = *change;

	copy.fields = fields;
	copy.n_fields = second.name.len > 0 ? 2 : first.name.len > 0 ? 1 : 0;
	dry_note(&item, &copy);
}

#define FIELD(n, o, w) ((struct dry_field){ STR(n), STR(o), STR(w) })
#define NO_FIELD FIELD("", "", "")

static const struct dry_change patch_n1 = { .verb = DRY_CHANGE,
	                                    .what = "node",
	                                    .request = STR("PATCH /api/v1/nodes/n1") };
static const struct dry_change create_balancer = { .verb = DRY_CREATE,
	                                           .what = "load balancer",
	                                           .name = STR("web"),
	                                           .request = STR("POST /v1/load_balancers"),
	                                           .is_cloud = true };
static const struct dry_change add_service = {
	.verb = DRY_CHANGE,
	.what = "load balancer",
	.name = STR("web"),
	.request = STR("POST /v1/load_balancers/ID/actions/add_service"),
	.is_cloud = true
};
static const struct dry_change create_route = {
	.verb = DRY_CREATE,
	.what = "route",
	.request = STR("POST /v1/networks/1/actions/add_route"),
	.is_cloud = true
};

static void
nothing_to_do(void **state UNUSED)
{
	PLAN(p);

	plan_print(p, false, NOW_NS, &out);
	assert_string_equal(out.ptr, "Nothing to do.\n");
	assert_int_equal(plan_exit_code(p), 0);
	buf_reset(&out);
	plan_print_json(p, &out);
	assert_string_equal(
		out.ptr,
		"{\"exitCode\":0,\"objects\":[],\"skipped\":[],\"toCreate\":0,\"toChange\":0,\"toDelete\":0,"
		"\"cloudRequests\":0,\"serverWrites\":0,\"leftOut\":0}\n");
}

static void
prints_a_difference_of_each_object(void **state UNUSED)
{
	PLAN(p);

	note(p, "route", "10.244.1.0/24", &create_route, FIELD("node", "", "n1"), NO_FIELD);
	note(p, "service", "default/web", &create_balancer, FIELD("algorithm", "", "round_robin"),
	     FIELD("type", "", "lb11"));
	note(p, "service", "default/web", &add_service, FIELD("port 80", "", "30080"), NO_FIELD);
	note(p, "node", "n2", &patch_n1, FIELD("address InternalIP", "10.0.0.1", "10.0.0.2"),
	     NO_FIELD);
	note(p, "node", "n1", &patch_n1, FIELD("label zone", "", "fsn1"),
	     FIELD("taint uninitialized", "NoSchedule", ""));
	plan_print(p, false, NOW_NS, &out);
	assert_string_equal(
		out.ptr,
		"~ node n1\n"
		"    + label zone: fsn1\n"
		"    - taint uninitialized: NoSchedule\n"
		"~ node n2\n"
		"    ~ address InternalIP: 10.0.0.1 -> 10.0.0.2\n"
		"  service default/web\n"
		"    + load balancer web (may be refused: quota)\n"
		"        + algorithm: round_robin\n"
		"        + type: lb11\n"
		"        + port 80: 30080\n"
		"+ route 10.244.1.0/24 (may be refused: quota)\n"
		"    + node: n1\n"
		"\n"
		"2 to create, 2 to change, 0 to delete: 3 requests that change the cloud, 2 writes to the API server.\n");
	assert_int_equal(plan_exit_code(p), 1);
}

/* A work item may run several times while the plan is made. */
static void
counts_a_repeated_change_once(void **state UNUSED)
{
	PLAN(p);
	struct dry_item newer = item_of(p, "node", STR("n1"), STR("2"));
	struct dry_field field = FIELD("label zone", "", "nbg1");
	struct dry_change change = patch_n1;

	note(p, "node", "n1", &patch_n1, FIELD("label zone", "", "fsn1"), NO_FIELD);
	note(p, "node", "n1", &patch_n1, FIELD("label zone", "", "fsn1"), NO_FIELD);
	change.fields = &field;
	change.n_fields = 1;
	dry_note(&newer, &change);
	plan_print(p, false, NOW_NS, &out);
	assert_string_equal(
		out.ptr,
		"~ node n1\n"
		"    + label zone: nbg1\n"
		"\n"
		"0 to create, 1 to change, 0 to delete: 0 requests that change the cloud, 1 write to the API server.\n");
}

static void
keeps_requests_that_differ_in_a_value(void **state UNUSED)
{
	PLAN(p);

	note(p, "service", "default/web", &add_service, FIELD("target", "", "n1"), NO_FIELD);
	note(p, "service", "default/web", &add_service, FIELD("target", "", "n2"), NO_FIELD);
	plan_print(p, false, NOW_NS, &out);
	assert_non_null(strstr(out.ptr, "        + target: n1\n        + target: n2\n"));
	assert_non_null(strstr(out.ptr,
	                       "1 to change, 0 to delete: 2 requests that change the cloud"));
}

static void
deleted_things_have_no_lines_below(void **state UNUSED)
{
	struct dry_change change = { .verb = DRY_DELETE,
		                     .what = "node",
		                     .request = STR("DELETE /api/v1/nodes/n1") };
	PLAN(p);

	note(p, "node", "n1", &change, NO_FIELD, NO_FIELD);
	plan_print(p, false, NOW_NS, &out);
	assert_string_equal(
		out.ptr,
		"- node n1\n"
		"\n"
		"0 to create, 0 to change, 1 to delete: 0 requests that change the cloud, 1 write to the API server.\n");
}

static void
steps_that_wait(void **state UNUSED)
{
	struct plan_step later = { DRY_DELETE, NOW_NS + 29 * NS_PER_SEC + 1, "unconfirmed",
		                   STR("its machine is still absent at two looks") };
	struct plan_step held = { DRY_DELETE, 0, "no_witness",
		                  STR("no machine of another node was found") };
	PLAN(p);

	plan_note_step(p, "node", STR("n2"), &later);
	plan_note_step(p, "node", STR("n3"), &held);
	plan_print(p, false, NOW_NS, &out);
	assert_string_equal(
		out.ptr,
		"- node n2: not before 16:40:09 UTC (in 30s), if its machine is still absent at two looks (unconfirmed)\n"
		"- node n3: held: no machine of another node was found (no_witness)\n"
		"\n"
		"2 deletions have to wait.\n");
	assert_int_equal(plan_exit_code(p), 1);
}

static void
what_could_not_be_computed(void **state UNUSED)
{
	struct error err;
	PLAN(p);
	struct dry_item n2 = item_of(p, "node", STR("n2"), STR("1"));

	note(p, "node", "n1", &patch_n1, FIELD("label zone", "", "fsn1"), NO_FIELD);
	err_set(&err, ERR_UNAVAILABLE, "connection refused");
	dry_failed(&n2, &err);
	plan_note_failure(p, "route", STR_EMPTY, &err);
	plan_print(p, false, NOW_NS, &out);
	assert_string_equal(
		out.ptr,
		"~ node n1\n"
		"    + label zone: fsn1\n"
		"! node n2: could not be computed: connection refused\n"
		"! all routes: could not be computed: connection refused\n"
		"\n"
		"0 to create, 1 to change, 0 to delete: 0 requests that change the cloud, 1 write to the API server.\n"
		"2 could not be computed.\n");
	assert_int_equal(plan_exit_code(p), 2);
}

/* It is a result, and does not change the exit code. */
static void
what_stays_as_it_is(void **state UNUSED)
{
	struct error err;
	PLAN(p);
	struct dry_item n2 = item_of(p, "node", STR("n2"), STR("1"));
	struct dry_item all = item_of(p, "route", STR_EMPTY, STR_EMPTY);

	err_set(&err, ERR_NOT_FOUND, "no machine");
	dry_failed(&n2, &err);
	plan_print(p, false, NOW_NS, &out);
	assert_string_equal(out.ptr, "! node n2: stays as it is: no machine\n"
	                             "\n"
	                             "Nothing to do.\n"
	                             "1 stays as it is until somebody corrects something.\n");
	assert_int_equal(plan_exit_code(p), 0);
	dry_failed(&n2, &err);
	note(p, "node", "n2", &patch_n1, FIELD("label zone", "", "fsn1"), NO_FIELD);
	buf_reset(&out);
	plan_print(p, false, NOW_NS, &out);
	assert_non_null(strstr(out.ptr,
	                       "! node n2: partly stays as it is: no machine (and 1 more)\n"));
	assert_int_equal(plan_exit_code(p), 1);
	dry_failed(&all, &err); /* nothing is known about any of them */
	assert_int_equal(plan_exit_code(p), 2);
}

static void
what_is_left_out(void **state UNUSED)
{
	PLAN(p);

	plan_note_skipped(p, "routes", "controller is disabled");
	plan_print(p, false, NOW_NS, &out);
	assert_string_equal(out.ptr, "  routes are left out: controller is disabled\n"
	                             "\n"
	                             "Nothing to do.\n");
	assert_int_equal(plan_exit_code(p), 0);
}

static void
colours_only_the_marks(void **state UNUSED)
{
	PLAN(p);

	note(p, "node", "n1", &patch_n1, FIELD("label zone", "", "fsn1"), NO_FIELD);
	plan_print(p, true, NOW_NS, &out);
	assert_non_null(strstr(
		out.ptr, "\033[33m~\033[0m node n1\n    \033[32m+\033[0m label zone: fsn1\n"));
}

static void
cleans_foreign_text(void **state UNUSED)
{
	PLAN(p);

	note(p, "node", "n\0331", &patch_n1, FIELD("label a\nb", "\033[31m", "\xff"), NO_FIELD);
	plan_print(p, false, NOW_NS, &out);
	assert_non_null(strstr(out.ptr, "~ node n 1\n    ~ label a b:  [31m -> ?\n"));
}

static void
prints_json(void **state UNUSED)
{
	struct plan_step later = { DRY_DELETE, NOW_NS, "unconfirmed", STR("it is \"gone\"") };
	struct error err;
	PLAN(p);

	plan_note_skipped(p, "routes", "controller is disabled");
	note(p, "node", "n1", &patch_n1, FIELD("label zone", "", "fsn1"), NO_FIELD);
	plan_note_step(p, "node", STR("n2"), &later);
	err_set(&err, ERR_UNAVAILABLE, "connection refused");
	plan_note_failure(p, "service", STR("default/web"), &err);
	plan_print_json(p, &out);
	assert_string_equal(
		out.ptr,
		"{\"exitCode\":2,\"objects\":["
		"{\"kind\":\"node\",\"name\":\"n1\",\"changes\":[{\"action\":\"change\",\"what\":\"node\",\"name\":\"\","
		"\"fields\":[{\"name\":\"label zone\",\"old\":\"\",\"new\":\"fsn1\"}],"
		"\"request\":\"PATCH /api/v1/nodes/n1\",\"isCloud\":false,\"mayExceedQuota\":false}],\"staysBecause\":\"\",\"error\":\"\",\"lastFailure\":\"\"},"
		"{\"kind\":\"node\",\"name\":\"n2\",\"changes\":[],\"later\":{\"action\":\"delete\","
		"\"notBefore\":\"2026-01-02T16:39:40Z\",\"verdict\":\"unconfirmed\",\"condition\":\"it is \\\"gone\\\"\"},"
		"\"staysBecause\":\"\",\"error\":\"\",\"lastFailure\":\"\"},"
		"{\"kind\":\"service\",\"name\":\"default/web\",\"changes\":[],\"staysBecause\":\"\","
		"\"error\":\"connection refused\",\"lastFailure\":\"\"}],"
		"\"skipped\":[{\"what\":\"routes\",\"reason\":\"controller is disabled\"}],"
		"\"toCreate\":0,\"toChange\":1,\"toDelete\":0,\"cloudRequests\":0,\"serverWrites\":1,\"leftOut\":0}\n");
}

/* A change of 4 kB for each of more nodes than fit. */
static void
bounds_its_memory(void **state UNUSED)
{
	enum { N_NODES = 10000 };
	CLEANUP(buf_fini) struct buf long_text = BUF_INIT(KIB(8));
	struct dry_field field = { STR("label zone"), STR_EMPTY, STR_EMPTY };
	struct dry_change change = patch_n1;
	char total[32], left_out[32];
	size_t n_shown = 0;
	PLAN(p);

	for (unsigned i = 0; i < KIB(4); i++)
		buf_add_char(&long_text, 'x');
	field.new = buf_str(&long_text);
	change.fields = &field;
	change.n_fields = 1;
	for (unsigned i = 0; i < N_NODES; i++) {
		char name[16];
		struct dry_item item;

		snprintf(name, sizeof(name), "n%05u", i);
		item = item_of(p, "node", str_c(name), STR("1"));
		dry_note(&item, &change);
	}
	plan_print(p, false, NOW_NS, &out);
	assert_true(out.len < LIMIT_PLAN + KIB(64));
	/* not by strstr(): under a sanitizer each call reads up to the end of the text */
	for (struct str line, rest = buf_str(&out); str_split(&rest, '\n', &line);)
		n_shown += str_starts(line, STR("~ node"));
	assert_true(n_shown > 1000 && n_shown < N_NODES);
	snprintf(total, sizeof(total), " %d writes to the API", N_NODES);
	assert_non_null(strstr(out.ptr, total));
	snprintf(left_out, sizeof(left_out), "\n%zu more, which are not", N_NODES - n_shown);
	assert_non_null(strstr(out.ptr, left_out));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_to_do),
		cmocka_unit_test(prints_a_difference_of_each_object),
		cmocka_unit_test(counts_a_repeated_change_once),
		cmocka_unit_test(keeps_requests_that_differ_in_a_value),
		cmocka_unit_test(deleted_things_have_no_lines_below),
		cmocka_unit_test(steps_that_wait),
		cmocka_unit_test(what_could_not_be_computed),
		cmocka_unit_test(what_stays_as_it_is),
		cmocka_unit_test(what_is_left_out),
		cmocka_unit_test(colours_only_the_marks),
		cmocka_unit_test(cleans_foreign_text),
		cmocka_unit_test(prints_json),
		cmocka_unit_test(bounds_its_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
