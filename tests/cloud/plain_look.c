/* A look made of list_machines() and get_machine(). */
#include "cloud/cloud.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "cloud/fake_host.h"
#include "cloud/login.h"

struct world {
	struct cloud cloud;
	struct fake_host fake;
	struct arena arena;
	const char *listed[8];                  /* "id name", NULL at the end */
	const char *existing;                   /* " id id " */
	struct error failure;                   /* of get_machine(); code ERR_NONE: it answers */
	bool is_incomplete, has_token_replaced; /* the latter: before the list is answered */
	unsigned n_lists, n_gets;
	unsigned anchors, n_counts;
	struct call_answers answers; /* to requests for a machine that does not exist */
};

static bool
list_machines(struct cloud *cloud, struct call *call, struct machine_list *ret, struct error *err)
{
	struct world *w = CONTAINER_OF(cloud, struct world, cloud);

	(void)err;
	w->n_lists++;
	if (w->has_token_replaced)
		login_note_replaced();
	for (size_t i = 0; w->listed[i]; i++) {
		struct machine *machine = machine_list_add(ret);
		struct str id, name;

		assert_true(str_cut(str_c(w->listed[i]), ' ', &id, &name));
		machine->id = arena_str(call->arena, id);
		machine->name = arena_str(call->arena, name);
		machine->instance.power = POWER_ON;
		machine->instance.zone = STR("z1");
	}
	ret->is_complete = !w->is_incomplete;
	return true;
}

static bool
get_machine(struct cloud *cloud, struct call *call, struct str id, struct machine *ret,
            struct error *err)
{
	struct world *w = CONTAINER_OF(cloud, struct world, cloud);
	struct str key = arena_printf(call->arena, " %" STR_FMT " ", STR_ARG(id));

	w->n_gets++;
	if (w->failure.code != ERR_NONE) {
		*err = w->failure;
		return false;
	}
	call->answers = w->answers;
	if (!str_contains(str_c(w->existing), key))
		return err_set(err, ERR_NOT_FOUND, "no machine %" STR_FMT, STR_ARG(id));
	ret->instance.zone = STR("z2");
	return true;
}

static const struct cloud_ops ops = {
	.name = "toy",
	.provider_id_prefix = "toy://",
	.list_machines = list_machines,
	.get_machine = get_machine,
};

static int
setup(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));

	fake_host_init(&w->fake);
	w->cloud.ops = &ops;
	w->existing = " ";
	w->answers.last_status = 404;
	*state = w;
	return 0;
}

static int
teardown(void **state)
{
	struct world *w = *state;

	fake_host_fini(&w->fake);
	arena_fini(&w->arena);
	free(w);
	return 0;
}

static struct node_ref
by_id(const char *provider_id)
{
	return (struct node_ref){ .name = STR("some"), .provider_id = str_c(provider_id) };
}

static struct node_ref
by_name(const char *name)
{
	return (struct node_ref){ .name = str_c(name), .provider_id = STR_EMPTY };
}

static struct look *
look_at(struct world *w, const struct node_ref refs[], size_t n)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT; /* what is kept must not be in it */
	struct call call = fake_host_call(&w->fake, &arena);
	struct look *look = NULL;
	struct error err;

	if (!cloud_look(&w->cloud, &call, refs, n, 42, &look, &err))
		fail_msg("%s", err.msg);
	assert_int_equal(look->n, n);
	assert_int_equal(look->started_boot_ns, 42);
	return look;
}

static void
check(const struct look *look, size_t i, enum presence presence, const char *text)
{
	const struct instance *instance = &look->instances[i];
	struct str seen = presence == PRESENCE_PRESENT ? instance->provider_id : instance->error;

	assert_int_equal(instance->presence, presence);
	if (!str_contains(seen, str_c(text)))
		fail_msg("\"%" STR_FMT "\" lacks \"%s\"", STR_ARG(seen), text);
}

static void
machines_are_found_by_id_and_else_by_name(void **state)
{
	struct node_ref refs[] = { by_name("n2"), by_id("toy://1"), by_id("toy://2"),
		                   by_name("n1") };
	struct world *w = *state;
	CLEANUP(look_unrefp) struct look *look = NULL;

	w->listed[0] = "1 n1";
	w->listed[1] = "2 n2";
	look = look_at(w, refs, 4);
	check(look, 0, PRESENCE_PRESENT, "toy://2");
	check(look, 1, PRESENCE_PRESENT, "toy://1");
	check(look, 2, PRESENCE_PRESENT, "toy://2");
	check(look, 3, PRESENCE_PRESENT, "toy://1");
	assert_int_equal(look->instances[3].power, POWER_ON);
	assert_true(str_eq_c(look->instances[3].zone, "z1"));
	assert_non_null(look->instances[3].type.ptr);
	assert_int_equal(w->n_lists, 1);
	assert_int_equal(w->n_gets, 0);
}

static void
a_few_ids_are_asked_for_without_the_list(void **state)
{
	struct node_ref refs[] = { by_id("toy://1"), by_id("toy://2"), by_id("other://3") };
	struct world *w = *state;
	CLEANUP(look_unrefp) struct look *look = NULL;

	w->existing = " 1 ";
	look = look_at(w, refs, 3);
	check(look, 0, PRESENCE_PRESENT, "toy://1");
	check(look, 1, PRESENCE_ABSENT, "");
	check(look, 2, PRESENCE_FOREIGN, "\"other://3\" does not begin with toy://");
	assert_int_equal(w->n_lists, 0);
	assert_int_equal(w->n_gets, 2);
}

/* A page may have been shifted while the list was read. */
static void
an_absence_in_the_list_is_confirmed_by_id(void **state)
{
	struct node_ref refs[] = { by_id("toy://1"), by_id("toy://2"), by_id("toy://3"),
		                   by_id("toy://4") };
	struct world *w = *state;
	CLEANUP(look_unrefp) struct look *look = NULL;

	w->listed[0] = "1 n1";
	w->listed[1] = "2 n2";
	w->existing = " 3 ";
	look = look_at(w, refs, 4);
	check(look, 0, PRESENCE_PRESENT, "toy://1");
	check(look, 2, PRESENCE_PRESENT, "toy://3");
	check(look, 3, PRESENCE_ABSENT, "");
	assert_int_equal(w->n_gets, 2);
}

static void
what_cannot_be_confirmed_is_unknown(void **state)
{
	struct node_ref refs[] = { by_id("toy://1"), by_name("n2") };
	struct world *w = *state;
	CLEANUP(look_unrefp) struct look *look = NULL;

	err_set(&w->failure, ERR_UNAVAILABLE, "it is away");
	w->failure.is_outage = true;
	w->listed[0] = "2 n2";
	look = look_at(w, refs, 2);
	check(look, 0, PRESENCE_UNKNOWN, "it is away");
	assert_true(look->instances[0].is_outage);
	check(look, 1, PRESENCE_PRESENT, "toy://2");
}

static void
without_get_machine_no_machine_is_absent(void **state)
{
	struct cloud_ops listing = ops;
	struct node_ref refs[] = { by_id("toy://1") };
	struct world *w = *state;
	CLEANUP(look_unrefp) struct look *look = NULL;

	listing.get_machine = NULL;
	w->cloud.ops = &listing;
	look = look_at(w, refs, 1);
	check(look, 0, PRESENCE_UNKNOWN, "was not requested");
}

static void
a_name_is_absent_only_from_a_complete_list(void **state)
{
	struct node_ref refs[] = { by_name("n9") };
	struct world *w = *state;
	CLEANUP(look_unrefp) struct look *complete = look_at(w, refs, 1), *other = NULL;

	check(complete, 0, PRESENCE_ABSENT, "");
	w->is_incomplete = true;
	other = look_at(w, refs, 1);
	check(other, 0, PRESENCE_UNKNOWN, "may be incomplete");
}

/* Such an item says that there is more than could be read. */
static void
a_machine_without_an_id_makes_the_list_incomplete(void **state)
{
	struct node_ref refs[] = { by_name("n9"), by_name("n1") };
	struct world *w = *state;
	CLEANUP(look_unrefp) struct look *look = NULL;

	w->listed[0] = " n9";
	w->listed[1] = "1 n1";
	look = look_at(w, refs, 2);
	check(look, 0, PRESENCE_UNKNOWN, "may be incomplete");
	check(look, 1, PRESENCE_PRESENT, "toy://1");
}

static void
machines_of_one_name_are_ambiguous(void **state)
{
	struct node_ref refs[] = { by_name("n1"), by_name("n3"), by_id("toy://2") };
	struct world *w = *state;
	CLEANUP(look_unrefp) struct look *look = NULL;

	w->listed[0] = "1 n1";
	w->listed[1] = "2 n1";
	w->listed[2] = "3 n3";
	w->listed[3] = "3 n3"; /* it was on two pages */
	look = look_at(w, refs, 3);
	check(look, 0, PRESENCE_UNKNOWN, "matches several machines: 1, 2");
	check(look, 1, PRESENCE_PRESENT, "toy://3");
	check(look, 2, PRESENCE_PRESENT, "toy://2");
}

static void
an_id_without_a_machine_is_unknown(void **state)
{
	struct node_ref refs[] = { by_id("toy://") };
	struct world *w = *state;
	CLEANUP(look_unrefp) struct look *look = look_at(w, refs, 1);

	check(look, 0, PRESENCE_UNKNOWN, "has no machine id");
}

static void
few_absences_are_confirmed_immediately(void **state)
{
	struct node_ref refs[150];
	struct world *w = *state;
	CLEANUP(look_unrefp) struct look *look = NULL;
	size_t n_absent = 0;

	for (size_t i = 0; i < ARRAY_LEN(refs); i++)
		refs[i] = by_id("toy://9");
	look = look_at(w, refs, ARRAY_LEN(refs));
	for (size_t i = 0; i < ARRAY_LEN(refs); i++)
		n_absent += look->instances[i].presence == PRESENCE_ABSENT;
	assert_int_equal(n_absent, 100);
	assert_int_equal(w->n_gets, 100);
}

/* ---- provider IDs ---- */

static void
the_prefix_says_whose_a_node_is(void **state)
{
	struct world *w = *state;
	unsigned realm = 7;

	assert_true(cloud_can_find(&w->cloud, STR("toy://1"), &realm));
	assert_int_equal(realm, 0);
	assert_false(cloud_can_find(&w->cloud, STR("toy://"), &realm));
	assert_false(cloud_can_find(&w->cloud, STR("other://1"), &realm));
	assert_true(str_eq_c(cloud_machine_id(&w->cloud, STR("toy://a/b")), "a/b"));
	assert_int_equal(cloud_machine_id(&w->cloud, STR("toys://a")).len, 0);
	assert_false(cloud_is_foreign(&w->cloud, STR("toy://1")));
	assert_true(cloud_is_foreign(&w->cloud, STR("other://1")));
	assert_true(cloud_is_foreign(&w->cloud, STR_EMPTY));
}

/* ---- a provider with look() ---- */

static bool
look_itself(struct cloud *cloud, struct call *call, const struct node_ref refs[], size_t n,
            int64_t not_before_boot_ns, struct look **ret, struct error *err)
{
	struct world *w = CONTAINER_OF(cloud, struct world, cloud);

	(void)call;
	(void)err;
	w->n_lists++;
	*ret = look_new(n, not_before_boot_ns);
	for (size_t i = 0; i < n; i++)
		look_set_error(*ret, i, PRESENCE_UNKNOWN, ERR_INVALID, refs[i].provider_id);
	return true;
}

static void
a_provider_with_a_prefix_gets_its_own_nodes_only(void **state)
{
	static const struct cloud_ops with_look = { .name = "toy",
		                                    .provider_id_prefix = "toy://",
		                                    .look = look_itself };
	struct node_ref refs[] = { by_id("toy://1"), by_id("other://2"), by_id("toy://3"),
		                   by_id("x") };
	struct world *w = *state;
	CLEANUP(look_unrefp) struct look *look = NULL, *none = NULL;

	w->cloud.ops = &with_look;
	look = look_at(w, refs, 4);
	check(look, 0, PRESENCE_UNKNOWN, "toy://1");
	check(look, 1, PRESENCE_FOREIGN, "other://2");
	check(look, 2, PRESENCE_UNKNOWN, "toy://3");
	check(look, 3, PRESENCE_FOREIGN, "x");
	none = look_at(w, &refs[1], 1);
	check(none, 0, PRESENCE_FOREIGN, "other://2");
	assert_int_equal(w->n_lists, 1);
}

static void
a_provider_without_a_prefix_gets_all_nodes(void **state)
{
	static const struct cloud_ops with_look = { .name = "toy", .look = look_itself };
	struct node_ref refs[] = { by_id("toy://1"), by_id("other://2") };
	struct world *w = *state;
	CLEANUP(look_unrefp) struct look *look = NULL;

	w->cloud.ops = &with_look;
	look = look_at(w, refs, 2);
	check(look, 1, PRESENCE_UNKNOWN, "other://2");
	assert_false(cloud_is_foreign(&w->cloud, STR("other://2")));
	assert_false(cloud_is_foreign(&w->cloud, STR_EMPTY));
}

/* ---- mistakes of a provider ---- */

/* get_machine() says that the machine does not exist: what shows that? */
static void
only_the_clouds_answer_shows_that_a_machine_does_not_exist(void **state)
{
	static const struct {
		struct call_answers answers;
		enum presence presence;
		const char *text;
	} rows[] = {
		{ { 404, false, false }, PRESENCE_ABSENT, "" },
		{ { 200, true, true }, PRESENCE_ABSENT, "" },
		{ { 0, false, true }, PRESENCE_ABSENT, "" },
		{ { 503, false, false },
		  PRESENCE_UNKNOWN,
		  "not believed after a 503: no machine 2" },
		{ { 401, false, false }, PRESENCE_UNKNOWN, "not believed after a 401" },
		{ { 200, true, false }, PRESENCE_UNKNOWN, "not believed after a 200" },
		{ { 404, true, false }, PRESENCE_UNKNOWN, "after a success and a 404" },
		{ { -1, false, false }, PRESENCE_UNKNOWN, "without a response" },
		{ { 0, false, false }, PRESENCE_UNKNOWN, "without a response" },
		{ { 503, false, true }, PRESENCE_UNKNOWN, "not believed after a 503" },
		{ { -1, false, true }, PRESENCE_UNKNOWN, "without a response" },
	};
	struct node_ref ref = by_id("toy://2");
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(look_unrefp) struct look *look = NULL;

		w->answers = rows[i].answers;
		look = look_at(w, &ref, 1);
		check(look, 0, rows[i].presence, rows[i].text);
	}
}

/* ---- names that are ids ---- */

static const struct cloud_ops with_ids_as_names = {
	.name = "toy",
	.provider_id_prefix = "toy://",
	.list_machines = list_machines,
	.get_machine = get_machine,
	.names_are_ids = true,
};

/* A node without a provider ID is asked for by its name, so that a machine which the list leaves
 * out is not reported as absent. */
static void
a_name_that_is_an_id_is_asked_for(void **state)
{
	struct node_ref refs[] = { by_name("1"), by_name("2"), by_name("3"), by_name("4") };
	struct world *w = *state;
	CLEANUP(look_unrefp) struct look *one = NULL;
	CLEANUP(look_unrefp) struct look *many = NULL;

	w->cloud.ops = &with_ids_as_names;
	w->listed[0] = "1 other";
	w->existing = " 1 2 ";
	one = look_at(w, refs, 1);
	check(one, 0, PRESENCE_PRESENT, "toy://1");
	assert_int_equal(w->n_lists, 0);
	many = look_at(w, refs, 4);
	check(many, 0, PRESENCE_PRESENT, "toy://1");
	check(many, 1, PRESENCE_PRESENT, "toy://2");
	check(many, 2, PRESENCE_ABSENT, "");
	assert_int_equal(w->n_lists, 1);
}

/* ---- anchors ---- */

static bool
count_anchors(struct cloud *cloud, struct call *call, unsigned *ret, struct error *err)
{
	struct world *w = CONTAINER_OF(cloud, struct world, cloud);

	(void)call;
	w->n_counts++;
	*ret = w->anchors;
	return w->failure.code == ERR_NONE || err_set(err, w->failure.code, "no");
}

static const struct cloud_ops with_anchors = {
	.name = "toy",
	.provider_id_prefix = "toy://",
	.list_machines = list_machines,
	.get_machine = get_machine,
	.count_anchors = count_anchors,
};

static void
anchors_count_where_no_machine_is_left(void **state)
{
	struct node_ref refs[] = { by_id("toy://1"), by_id("toy://2") };
	struct world *w = *state;
	CLEANUP(look_unrefp) struct look *witnessed = NULL;
	CLEANUP(look_unrefp) struct look *empty = NULL;

	w->cloud.ops = &with_anchors;
	w->existing = " 1 ";
	w->anchors = 3;
	witnessed = look_at(w, refs, 2);
	assert_int_equal(witnessed->n_anchors, 0);
	assert_int_equal(w->n_counts, 0);
	empty = look_at(w, &refs[1], 1);
	assert_int_equal(empty->n_anchors, 3);
	assert_int_equal(empty->anchors_error.len, 0);
}

static void
anchors_that_cannot_be_counted_are_none(void **state)
{
	struct node_ref ref = by_name("1");
	struct world *w = *state;
	CLEANUP(look_unrefp) struct look *look = NULL;

	w->cloud.ops = &with_anchors;
	w->anchors = 3;
	err_set(&w->failure, ERR_UNAVAILABLE, "no");
	look = look_at(w, &ref, 1);
	check(look, 0, PRESENCE_ABSENT, "");
	assert_int_equal(w->n_counts, 1);
	assert_int_equal(look->n_anchors, 0);
	assert_true(str_eq_c(look->anchors_error, "no"));
}

/* The machine may be the witness of one project, and the other one absent from another project. */
static void
a_look_that_may_have_seen_two_projects_counts_as_nothing(void **state)
{
	const struct node_ref refs[] = { by_id("toy://1"), by_id("toy://2"), by_id("toy://3"),
		                         by_id("toy://4") };
	struct world *w = *state;
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct call call = fake_host_call(&w->fake, &arena);
	struct look *look = NULL;
	struct error err;

	w->listed[0] = "1 a";
	w->has_token_replaced = true;
	assert_false(cloud_look(&w->cloud, &call, refs, 4, 42, &look, &err));
	assert_null(look);
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	assert_non_null(strstr(err.msg, "two projects"));
	w->has_token_replaced = false;
	look = look_at(w, refs, 4);
	check(look, 0, PRESENCE_PRESENT, "toy://1");
	check(look, 1, PRESENCE_ABSENT, "");
	look_unref(look);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(machines_are_found_by_id_and_else_by_name),
		TEST(a_few_ids_are_asked_for_without_the_list),
		TEST(an_absence_in_the_list_is_confirmed_by_id),
		TEST(what_cannot_be_confirmed_is_unknown),
		TEST(without_get_machine_no_machine_is_absent),
		TEST(a_name_is_absent_only_from_a_complete_list),
		TEST(a_machine_without_an_id_makes_the_list_incomplete),
		TEST(machines_of_one_name_are_ambiguous),
		TEST(an_id_without_a_machine_is_unknown),
		TEST(few_absences_are_confirmed_immediately),
		TEST(the_prefix_says_whose_a_node_is),
		TEST(a_provider_with_a_prefix_gets_its_own_nodes_only),
		TEST(a_provider_without_a_prefix_gets_all_nodes),
		TEST(only_the_clouds_answer_shows_that_a_machine_does_not_exist),
		TEST(a_name_that_is_an_id_is_asked_for),
		TEST(anchors_count_where_no_machine_is_left),
		TEST(anchors_that_cannot_be_counted_are_none),
		TEST(a_look_that_may_have_seen_two_projects_counts_as_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
