/* With a dry run the controllers send nothing, and report what they would change. */
#include "controllers/rig.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "controllers/settling.h"

enum {
	MAX_LINES = 50,
};

static struct rig *rig;

/* What the dry run was given, as lines; those of failures begin with "failed". */
static struct {
	struct dry_run run;
	pthread_mutex_t mu;
	char *lines[MAX_LINES]; /* mu */
	size_t n;               /* mu */
} seen = { .mu = PTHREAD_MUTEX_INITIALIZER };

static void
keep_line(struct buf *line)
{
	WITH_LOCK(&seen.mu);

	if (seen.n == MAX_LINES)
		abort();
	seen.lines[seen.n++] = xstrndup(line->ptr, line->len);
}

static void
on_failed(struct dry_run *run, const struct dry_item *item, const struct error *err)
{
	CLEANUP(buf_fini) struct buf line = BUF_INIT(KIB(4));

	(void)run;
	buf_addf(&line, "failed %s \"%" STR_FMT "\" %" STR_FMT ": %d", item->kind,
	         STR_ARG(item->name), STR_ARG(item->version), (int)err->code);
	keep_line(&line);
}

static const char *
line_at(size_t i)
{
	WITH_LOCK(&seen.mu);

	return i < seen.n ? seen.lines[i] : "";
}

static size_t
count_lines(const char *line)
{
	size_t n = 0;
	WITH_LOCK(&seen.mu);

	for (size_t i = 0; i < seen.n; i++)
		n += strcmp(seen.lines[i], line) == 0;
	return n;
}

static int
set_up(void **state)
{
	(void)state;
	rig = rig_new();
	seen.run.failed = on_failed;
	rig->env.dry = &seen.run;
	rig->env.settling = settling_new(rig->clock);
	return 0;
}

static int
tear_down(void **state)
{
	struct settling *settling = rig->env.settling;

	(void)state;
	rig_free(rig);
	settling_free(settling);
	for (size_t i = 0; i < seen.n; i++)
		free(seen.lines[i]);
	seen.n = 0;
	return 0;
}

/* ---- failures ---- */

static const struct rig_node new_node = {
	.name = "n1",
	.version = "41",
	.taints = RIG_UNINITIALIZED,
};

static void
a_node_whose_machine_is_not_found_is_reported(void **state)
{
	(void)state;
	rig_start_nodes(rig, 1);
	rig_put(rig, &new_node);
	rig_sync(rig);
	assert_string_equal(line_at(0), "failed node \"n1\" 41: 8"); /* ERR_NOT_FOUND */
}

static void
a_look_that_fails_is_reported_for_each_node_that_is_not_ready(void **state)
{
	struct guard_config guard = guard_defaults;

	(void)state;
	fake_cloud_fail(rig->cloud, ERR_UNAUTHORIZED);
	rig_start_lifecycle(rig, &guard);
	for (const char *const *name = (const char *[]){ "a", "b", NULL }; *name; name++)
		rig_put(rig, &(struct rig_node){ .name = *name, .ready = "False" });
	rig_sync(rig);
	assert_int_equal(count_lines("failed node \"a\" 7: 6"), 1);
	assert_int_equal(count_lines("failed node \"b\" 7: 6"), 1);
}

static void
a_held_service_is_reported(void **state)
{
	(void)state;
	rig_start_services(rig, 1, /*selects=*/false);
	fake_services_put(rig->services, &(struct fake_service){ .name = "web" });
	fake_balancers_fault(rig->balancers,
	                     (struct fake_fault){ "ensure", ERR_PENDING, 1000, 1, false, false });
	rig_sync_services(rig);
	assert_string_equal(line_at(0), "failed service \"default/web\" 101: 5");
}

static void
a_route_table_that_cannot_be_listed_is_reported(void **state)
{
	(void)state;
	rig_start_routes(rig, 10, (struct fake_routes_config){ .families = 1 });
	fake_routes_fault(rig->routes,
	                  (struct fake_fault){ "list", ERR_FORBIDDEN, 0, 1, false, false });
	rig_sync(rig);
	rig_run(rig, 1);
	assert_int_equal(count_lines("failed route \"\" : 7"), 1);
}

/* ---- the first runs ---- */

static bool
is_settled(unsigned parts)
{
	struct error err;

	return settling_wait(rig->env.settling, parts, clock_mono(rig->clock), &err);
}

/* A look that fails ends the first run as well. */
static void
every_loop_reports_the_end_of_its_first_run(void **state)
{
	struct guard_config guard = guard_defaults;

	(void)state;
	fake_cloud_fail(rig->cloud, ERR_UNAVAILABLE);
	rig_start_nodes(rig, 1);
	rig_start_lifecycle(rig, &guard);
	rig_start_services(rig, 1, /*selects=*/false);
	rig_start_routes(rig, 10, (struct fake_routes_config){ .families = 1 });
	rig_put(rig, &(struct rig_node){ .name = "a", .ready = "False" });
	assert_false(is_settled(SETTLING_ADDRESSES));
	assert_false(is_settled(SETTLING_LIFECYCLE));
	assert_false(is_settled(SETTLING_ADOPTION));
	assert_false(is_settled(SETTLING_ROUTES));
	rig_sync_services(rig);
	rig_run(rig, 1);
	assert_true(is_settled(SETTLING_ADDRESSES));
	assert_true(is_settled(SETTLING_LIFECYCLE));
	assert_true(is_settled(SETTLING_ADOPTION));
	assert_true(is_settled(SETTLING_ROUTES));
}

static void
the_end_of_the_wait_says_what_is_missing(void **state)
{
	struct error err;

	(void)state;
	settling_note(rig->env.settling, SETTLING_LIFECYCLE);
	assert_false(settling_wait(rig->env.settling, SETTLING_LIFECYCLE | SETTLING_ROUTES,
	                           clock_mono(rig->clock), &err));
	assert_int_equal(err.code, ERR_TIMEOUT);
	assert_string_equal(err.msg, "compare the routes: not done in time");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_node_whose_machine_is_not_found_is_reported),
		TEST(a_look_that_fails_is_reported_for_each_node_that_is_not_ready),
		TEST(a_held_service_is_reported),
		TEST(a_route_table_that_cannot_be_listed_is_reported),
		TEST(every_loop_reports_the_end_of_its_first_run),
		TEST(the_end_of_the_wait_says_what_is_missing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
