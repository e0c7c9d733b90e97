#include "providers/cloudlycke/loader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define HEAD "apiVersion: cloudlycke.io/v1alpha1\nkind: Inventory\n"

/* A file with machines n0 to n<n-1> but for the first `gone`, which are terminated when
 * is_terminated. */
static struct cl_inventory *
make(unsigned n, unsigned gone, bool is_terminated, const char *rest)
{
	CLEANUP(cl_problems_fini) struct cl_problems problems = CL_PROBLEMS_INIT("f");
	CLEANUP(buf_fini) struct buf text = BUF_INIT(100000);
	struct cl_inventory *inventory;

	buf_addf(&text, HEAD "machines: [");
	for (unsigned i = is_terminated ? 0 : gone; i < n; i++)
		buf_addf(&text, "{name: n%u, id: m%u, power: %s}, ", i, i,
		         i < gone ? "terminated" : "on");
	buf_addf(&text, "]\n%s", rest);
	inventory = cl_inventory_parse(buf_str(&text), &problems);
	if (!inventory)
		fail_msg("%s", problems.kept[0].text);
	return inventory;
}

/* NULL: allowed. */
static void
check(struct cl_inventory *before_taken, struct cl_inventory *after_taken, const char *expected)
{
	CLEANUP(cl_inventory_unrefp)
	struct cl_inventory *before = before_taken, *after = after_taken;
	CLEANUP(buf_fini) struct buf why = BUF_INIT(1000);
	struct cl_changes changes;

	cl_compare(before, after, &changes);
	assert_int_equal(cl_guard(before, after, &changes, &why), expected == NULL);
	assert_string_equal(why.ptr, expected ? expected : "");
}

static void
refuses_removals_above_the_limit(void **state)
{
	(void)state;
	check(make(10, 0, false, ""), make(10, 5, false, ""), NULL);
	check(make(10, 0, false, ""), make(10, 6, false, ""),
	      "would remove 6 of 10 machines (limit 50%); set reload.maxRemoval to allow");
	check(make(10, 0, false, ""), make(10, 6, true, ""),
	      "would remove 6 of 10 machines (limit 50%); set reload.maxRemoval to allow");
	check(make(3, 0, false, ""), make(3, 2, false, ""),
	      "would remove 2 of 3 machines (limit 50%); set reload.maxRemoval to allow");
	check(make(4, 0, false, ""), make(4, 4, false, ""),
	      "would remove 4 of 4 machines (limit 50%); set reload.maxRemoval to allow");
}

static void
admits_the_removal_of_one_machine(void **state)
{
	(void)state;
	check(make(1, 0, false, ""), make(1, 1, false, ""), NULL);
	check(make(1, 0, false, ""), make(1, 1, true, ""), NULL);
	check(make(10, 0, false, ""), make(10, 1, false, "reload: {maxRemoval: 0%}\n"), NULL);
}

/* Machines that were terminated before count neither as machines nor as removed. */
static void
counts_machines_that_were_there(void **state)
{
	(void)state;
	check(make(10, 7, true, ""), make(10, 7, false, ""), NULL);
	check(make(10, 7, true, ""), make(10, 9, true, ""),
	      "would remove 2 of 3 machines (limit 50%); set reload.maxRemoval to allow");
}

static void
takes_the_limit_of_the_new_file(void **state)
{
	(void)state;
	check(make(10, 0, false, ""), make(10, 10, false, "reload: {maxRemoval: 100%}\n"), NULL);
	check(make(10, 0, false, ""), make(10, 9, false, "reload: {maxRemoval: 90%}\n"), NULL);
	check(make(10, 0, false, "reload: {maxRemoval: 100%}\n"), make(10, 6, false, ""),
	      "would remove 6 of 10 machines (limit 50%); set reload.maxRemoval to allow");
	check(make(100, 0, false, ""), make(100, 11, false, "reload: {maxRemoval: 10%}\n"),
	      "would remove 11 of 100 machines (limit 10%); set reload.maxRemoval to allow");
}

static void
refuses_removals_by_a_file_that_lost_its_end(void **state)
{
	(void)state;
	check(make(10, 0, false, "\n"), make(10, 1, false, "cloud: {}"),
	      "would remove 1 of 10 machines, and the file seems cut short: it does not end with a line break any more");
	check(make(10, 0, false, "...\n"), make(10, 1, false, "\n"),
	      "would remove 1 of 10 machines, and the file seems cut short: it does not end with \"...\" any more");
	check(make(10, 0, false, "\n"), make(10, 0, false, "cloud: {}"), NULL);
	check(make(10, 0, false, "cloud: {}"), make(10, 1, false, "cloud: {}"), NULL);
	check(make(10, 0, false, "\n"), make(10, 1, false, "...\n"), NULL);
}

static struct cl_inventory *
parse(const char *rest)
{
	CLEANUP(cl_problems_fini) struct cl_problems problems = CL_PROBLEMS_INIT("f");
	CLEANUP(buf_fini) struct buf text = BUF_INIT(100000);
	struct cl_inventory *inventory;

	buf_addf(&text, HEAD "%s", rest);
	inventory = cl_inventory_parse(buf_str(&text), &problems);
	if (!inventory)
		fail_msg("%s", problems.kept[0].text);
	return inventory;
}

static void
check_changed(const char *fields, size_t n_changed)
{
	CLEANUP(cl_inventory_unrefp)
	struct cl_inventory *before = parse(
		"machines: [{name: a, id: m, type: t, zone: z, labels: {x: y}, aliases: [b], addresses: [{type: "
		"Hostname, address: h}]}]");
	CLEANUP(buf_fini) struct buf text = BUF_INIT(1000);
	CLEANUP(cl_inventory_unrefp) struct cl_inventory *after = NULL;
	struct cl_changes changes;

	buf_addf(&text, "machines: [{%s}]", fields);
	after = parse(text.ptr);
	cl_compare(before, after, &changes);
	assert_int_equal(changes.n_changed, n_changed);
	assert_int_equal(changes.n_added, 0);
	assert_int_equal(changes.n_removed, 0);
}

static void
counts_what_changed(void **state)
{
	static const char host[] = "addresses: [{type: Hostname, address: h}]";
	CLEANUP(buf_fini) struct buf fields = BUF_INIT(1000);

	(void)state;
#define CHANGED(n, ...) \
	(buf_reset(&fields), buf_addf(&fields, __VA_ARGS__), check_changed(fields.ptr, (n)))
	CHANGED(0,
	        "id: m, name: a, labels: {x: y}, zone: z, type: t, aliases: [b], power: 'on', %s",
	        host);
	CHANGED(1, "id: m, name: c, labels: {x: y}, zone: z, type: t, aliases: [b], %s", host);
	CHANGED(1, "id: m, name: a, labels: {x: z}, zone: z, type: t, aliases: [b], %s", host);
	CHANGED(1, "id: m, name: a, zone: z, type: t, aliases: [b], %s", host);
	CHANGED(1, "id: m, name: a, labels: {x: y}, zone: y, type: t, aliases: [b], %s", host);
	CHANGED(1, "id: m, name: a, labels: {x: y}, zone: z, type: s, aliases: [b], %s", host);
	CHANGED(1, "id: m, name: a, labels: {x: y}, zone: z, type: t, aliases: [c], %s", host);
	CHANGED(1, "id: m, name: a, labels: {x: y}, zone: z, type: t, aliases: [b], power: off, %s",
	        host);
	CHANGED(1, "id: m, name: a, labels: {x: y}, zone: z, type: t, aliases: [b], fault: x, %s",
	        host);
	CHANGED(1, "id: m, name: a, labels: {x: y}, zone: z, region: r, type: t, aliases: [b], %s",
	        host);
	CHANGED(1, "id: m, name: a, labels: {x: y}, zone: z, type: t, aliases: [b]");
#undef CHANGED
}

static void
counts_returned_machines_as_added(void **state)
{
	CLEANUP(cl_inventory_unrefp)
	struct cl_inventory *before = make(5, 2, true, ""), *after = make(6, 1, true, "");
	struct cl_changes changes;

	(void)state;
	cl_compare(before, after, &changes);
	assert_int_equal(changes.n_before, 3);
	assert_int_equal(changes.n_added, 2); /* n1, which was terminated, and n5 */
	assert_int_equal(changes.n_removed, 0);
	assert_int_equal(changes.n_changed, 0);
}

static void
names_what_is_fixed_at_start(void **state)
{
	CLEANUP(cl_inventory_unrefp) struct cl_inventory *before = parse("machines: []");
	CLEANUP(cl_inventory_unrefp)
	struct cl_inventory *after = parse(
		"machines: []\nstate: {file: /s}\nreload: {enabled: false, debounce: 1s, poll: 1s, maxRemoval: 1%}\n"
		"loadBalancers: {hook: /h, hookTimeout: 1s}\nroutes: {hook: /h, hookTimeout: 1s}\n");
	CLEANUP(buf_fini) struct buf fields = BUF_INIT(1000);

	(void)state;
	cl_changes_at_restart(&before->schema, &before->schema, &fields);
	assert_string_equal(fields.ptr, "");
	cl_changes_at_restart(&before->schema, &after->schema, &fields);
	assert_string_equal(fields.ptr,
	                    "state.file,reload.enabled,reload.debounce,reload.poll,loadBalancers,"
	                    "loadBalancers.hook,loadBalancers.hookTimeout,routes,routes.hook,"
	                    "routes.hookTimeout");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refuses_removals_above_the_limit),
		cmocka_unit_test(admits_the_removal_of_one_machine),
		cmocka_unit_test(counts_machines_that_were_there),
		cmocka_unit_test(takes_the_limit_of_the_new_file),
		cmocka_unit_test(refuses_removals_by_a_file_that_lost_its_end),
		cmocka_unit_test(counts_what_changed),
		cmocka_unit_test(counts_returned_machines_as_added),
		cmocka_unit_test(names_what_is_fixed_at_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
