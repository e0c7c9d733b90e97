/* Who shares which look. Askers are threads; looks are held until a test releases them. */
#include "controllers/rig.h"

#include "base/thread.h"
#include "fake_clock.h"

enum {
	MAX_NODES = 4,
};

struct caller {
	pthread_t thread;
	struct call call;
	struct arena arena;
	struct node *nodes[MAX_NODES]; /* references */
	size_t n;
	int64_t not_before_ns;
	bool ok; /* the rest is for after join() */
	enum presence presences[MAX_NODES];
	int64_t started_boot_ns;
	struct error err;
};

static struct rig *rig;
static struct lookup *lookup;

static int
set_up(void **state)
{
	(void)state;
	rig = rig_new();
	lookup = rig->env.lookup;
	fake_cloud_set(rig->cloud, "a", MACHINE_ON);
	fake_cloud_set(rig->cloud, "b", MACHINE_ON);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	rig_free(rig);
	return 0;
}

/* ---- askers ---- */

static void *
run(void *arg)
{
	CLEANUP(lookup_result_fini) struct lookup_result answer = LOOKUP_RESULT_INIT;
	struct caller *a = arg;

	a->ok = lookup_machines(lookup, &a->call, a->nodes, a->n, a->not_before_ns, &answer,
	                        &a->err);
	for (size_t i = 0; a->ok && i < a->n; i++)
		a->presences[i] = lookup_result_at(&answer, i)->presence;
	a->started_boot_ns = a->ok ? answer.look->started_boot_ns : 0;
	return NULL;
}

static void
add(struct caller *a, const char *name)
{
	a->nodes[a->n++] = rig_parse(rig, &(struct rig_node){ .name = name });
}

/* name NULL: nodes were added. */
static void
start(struct caller *a, const char *name, int64_t not_before_ns)
{
	if (name)
		add(a, name);
	if (!a->call.clock)
		a->call = (struct call){ .clock = rig->clock,
			                 .cancel = rig->cancel,
			                 .deadline_mono_ns = CLOCK_FOREVER };
	a->call.arena = &a->arena;
	a->not_before_ns = not_before_ns;
	thread_start(&a->thread, "asker", run, a);
}

static void
join(struct caller *a)
{
	thread_join(a->thread);
	arena_fini(&a->arena);
	for (size_t i = 0; i < a->n; i++)
		object_unref(&a->nodes[i]->object);
}

static int64_t
now_ns(void)
{
	return clock_boot(rig->clock);
}

/* Asks from one asker alone, to the end. */
static struct caller
ask(const char *name, int64_t not_before_ns)
{
	struct caller a = { 0 };

	start(&a, name, not_before_ns);
	join(&a);
	return a;
}

static size_t
looks(void)
{
	return fake_cloud_looks(rig->cloud);
}

/* ---- sharing ---- */

static void
an_answer_is_in_the_order_asked(void **state)
{
	struct caller a = { 0 };

	(void)state;
	add(&a, "gone");
	add(&a, "a");
	fake_cloud_set(rig->cloud, "odd", (struct fake_machine){ .presence = PRESENCE_FOREIGN });
	add(&a, "odd");
	start(&a, NULL, now_ns());
	join(&a);
	assert_true(a.ok);
	assert_int_equal(a.presences[0], PRESENCE_ABSENT);
	assert_int_equal(a.presences[1], PRESENCE_PRESENT);
	assert_int_equal(a.presences[2], PRESENCE_FOREIGN);
	assert_int_equal(looks(), 1);
}

static void
later_askers_share_the_next_look(void **state)
{
	struct caller first = { 0 }, second = { 0 }, third = { 0 };

	(void)state;
	fake_cloud_hold(rig->cloud);
	start(&first, "a", now_ns());
	rig_settle_with(rig, 1);
	fake_clock_advance(rig->fake, NS_PER_SEC);
	start(&second, "a", now_ns());
	start(&third, "gone", now_ns());
	rig_settle_with(rig, 3);
	assert_int_equal(looks(), 1);
	fake_cloud_release(rig->cloud, 1);
	join(&first);
	rig_settle_with(rig, 2);
	assert_int_equal(looks(), 2);
	fake_cloud_release(rig->cloud, 1);
	join(&second);
	join(&third);
	assert_int_equal(looks(), 2);
	assert_int_equal(fake_cloud_asked(rig->cloud, 0), 1);
	assert_int_equal(fake_cloud_asked(rig->cloud, 1), 2);
	assert_int_equal(second.started_boot_ns - first.started_boot_ns, NS_PER_SEC);
	assert_int_equal(third.started_boot_ns, second.started_boot_ns);
	assert_int_equal(third.presences[0], PRESENCE_ABSENT);
}

static void
the_same_node_is_asked_for_once(void **state)
{
	struct caller first = { 0 }, others[5] = { 0 };

	(void)state;
	fake_cloud_hold(rig->cloud);
	start(&first, "a", now_ns());
	rig_settle_with(rig, 1);
	fake_clock_advance(rig->fake, NS_PER_SEC);
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		start(&others[i], "b", now_ns());
	rig_settle_with(rig, 6);
	fake_cloud_let_go(rig->cloud);
	join(&first);
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		join(&others[i]);
		assert_true(others[i].ok);
	}
	assert_int_equal(looks(), 2);
	assert_int_equal(fake_cloud_asked(rig->cloud, 1), 1);
}

/* Callers whom the running look may answer wait for it; if it does not, they share one or two
 * more. */
static void
askers_of_the_same_age_need_two_more_at_most(void **state)
{
	static const char *const names[] = { "a", "b", "c", "d", "e", "f" };
	struct caller askers[ARRAY_LEN(names)] = { 0 };

	(void)state;
	fake_cloud_hold(rig->cloud);
	start(&askers[0], names[0], now_ns());
	rig_settle_with(rig, 1);
	for (size_t i = 1; i < ARRAY_LEN(askers); i++)
		start(&askers[i], names[i], now_ns());
	rig_settle_with(rig, ARRAY_LEN(askers));
	assert_int_equal(looks(), 1);
	fake_cloud_release(rig->cloud, 1);
	rig_settle_with(rig, ARRAY_LEN(askers) - 1);
	assert_int_equal(looks(), 2); /* the first caller has a look of its own, and the others
	                                 share the next */
	fake_cloud_let_go(rig->cloud);
	for (size_t i = 0; i < ARRAY_LEN(askers); i++) {
		join(&askers[i]);
		assert_true(askers[i].ok);
	}
	assert_in_range(looks(), 2, 3);
}

/* Look after look must not keep a caller waiting whom the first one answered. */
static void
a_caller_with_an_answer_does_not_wait_for_the_next_look(void **state)
{
	struct caller first = { 0 }, same = { 0 }, later = { 0 };

	(void)state;
	fake_cloud_hold(rig->cloud);
	start(&first, "a", now_ns());
	rig_settle_with(rig, 1);
	start(&same, "a", now_ns());
	rig_settle_with(rig, 2);
	fake_clock_advance(rig->fake, NS_PER_SEC);
	start(&later, "b", now_ns());
	rig_settle_with(rig, 3);
	fake_cloud_release(rig->cloud, 1);
	join(&first);
	join(&same);
	assert_true(same.ok);
	fake_cloud_release(rig->cloud, 1);
	join(&later);
	assert_int_equal(looks(), 2);
}

/* ---- what is kept ---- */

static void
a_young_answer_is_given_again(void **state)
{
	int64_t before_ns = now_ns();

	(void)state;
	assert_true(ask("a", before_ns).ok);
	rig_advance_ms(rig, 1);
	assert_int_equal(ask("a", before_ns).started_boot_ns, before_ns);
	assert_int_equal(ask("a", before_ns - 1).started_boot_ns, before_ns);
	assert_int_equal(looks(), 1);
	assert_int_equal(ask("a", before_ns + 1).started_boot_ns, before_ns + NS_PER_MS);
	assert_int_equal(looks(), 2);
}

static void
an_answer_about_others_is_not_enough(void **state)
{
	(void)state;
	assert_true(ask("a", now_ns()).ok);
	assert_int_equal(ask("gone", now_ns()).presences[0], PRESENCE_ABSENT);
	assert_int_equal(looks(), 2);
}

static struct caller
ask_for(const struct rig_node *wanted, int64_t not_before_ns)
{
	struct caller a = { .nodes = { rig_parse(rig, wanted) }, .n = 1 };

	start(&a, NULL, not_before_ns);
	join(&a);
	return a;
}

/* A newer snapshot of the node will do, but not another machine, or another node of the name. */
static void
an_answer_is_for_a_uid_and_a_machine(void **state)
{
	int64_t before_ns = now_ns();

	(void)state;
	assert_true(ask("a", before_ns).ok);
	assert_true(ask_for(&(struct rig_node){ .name = "a", .version = "8" }, before_ns).ok);
	assert_int_equal(looks(), 1);
	assert_true(ask_for(&(struct rig_node){ .name = "a", .provider_id = "fake://a" }, before_ns)
	                    .ok);
	assert_int_equal(looks(), 2);
	assert_true(ask_for(&(struct rig_node){ .name = "a", .uid = "u-2" }, before_ns).ok);
	assert_int_equal(looks(), 3);
}

/* One asker has seen the provider ID, the other not yet: found by name, the machine might seem
 * absent. */
static void
the_newer_snapshot_is_asked_for(void **state)
{
	struct caller first = { 0 }, second = { 0 };
	struct caller third = {
		.nodes = { rig_parse(rig, &(struct rig_node){ .name = "a",
		                                              .provider_id = "fake://a" }) },
		.n = 1
	};

	(void)state;
	fake_cloud_hold(rig->cloud);
	start(&first, "b", now_ns());
	rig_settle_with(rig, 1);
	fake_clock_advance(rig->fake, NS_PER_SEC);
	start(&second, "a", now_ns());
	rig_settle_with(rig, 2);
	start(&third, NULL, now_ns());
	rig_settle_with(rig, 3);
	fake_cloud_let_go(rig->cloud);
	join(&first);
	join(&second);
	join(&third);
	assert_true(second.ok && third.ok);
	assert_int_equal(looks(), 2);
	assert_int_equal(fake_cloud_asked(rig->cloud, 1), 1);
	assert_true(fake_cloud_has_asked(rig->cloud, 1, "fake://a"));
}

static void
what_is_forgotten_is_asked_again(void **state)
{
	int64_t before_ns = now_ns();

	(void)state;
	assert_true(ask("a", before_ns).ok);
	lookup_forget(lookup);
	lookup_forget(lookup);
	assert_true(ask("a", before_ns).ok);
	assert_int_equal(looks(), 2);
}

/* The answer that an asker has in hand outlives what is kept. */
static void
an_answer_in_use_is_not_taken_away(void **state)
{
	CLEANUP(lookup_result_fini) struct lookup_result answer = LOOKUP_RESULT_INIT;
	struct node *node = rig_parse(rig, &(struct rig_node){ .name = "a" });
	struct error err;

	(void)state;
	assert_true(lookup_machines(lookup, &rig->call, &node, 1, now_ns(), &answer, &err));
	lookup_forget(lookup);
	assert_true(ask("b", now_ns()).ok);
	assert_true(str_eq_c(lookup_result_at(&answer, 0)->provider_id, "fake://a"));
	object_unref(&node->object);
}

/* ---- new nodes ---- */

static void
new_nodes_are_added(void **state)
{
	int64_t before_ns = now_ns();

	(void)state;
	rig_put(rig, &(struct rig_node){ .name = "a", .taints = RIG_UNINITIALIZED });
	rig_put(rig, &(struct rig_node){ .name = "b", .taints = RIG_UNINITIALIZED });
	rig_put(rig, &(struct rig_node){ .name = "old" });
	assert_true(ask("a", before_ns).ok);
	assert_int_equal(fake_cloud_asked(rig->cloud, 0), 2);
	assert_true(ask("b", before_ns).ok);
	assert_int_equal(looks(), 1);
	assert_true(ask("c", before_ns).ok);
	assert_int_equal(fake_cloud_asked(rig->cloud, 1), 3);
}

/* ---- failures ---- */

static void
assert_failed(struct caller *a, enum err_code code)
{
	join(a);
	assert_false(a->ok);
	assert_int_equal(a->err.code, code);
}

static void
a_failed_look_fails_for_all_who_share_it(void **state)
{
	struct caller first = { 0 }, others[3] = { 0 };

	(void)state;
	fake_cloud_hold(rig->cloud);
	start(&first, "a", now_ns());
	rig_settle_with(rig, 1);
	fake_clock_advance(rig->fake, NS_PER_SEC);
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		start(&others[i], "b", now_ns());
	rig_settle_with(rig, 4);
	fake_cloud_release(rig->cloud, 1);
	join(&first);
	assert_true(first.ok);
	rig_settle_with(rig, 3);
	fake_cloud_fail(rig->cloud, ERR_UNAUTHORIZED);
	fake_cloud_release(rig->cloud, 1);
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		assert_failed(&others[i], ERR_UNAUTHORIZED);
	assert_int_equal(looks(), 2);
}

static void
a_failure_is_not_kept_and_takes_nothing_away(void **state)
{
	int64_t before_ns = now_ns();

	(void)state;
	assert_true(ask("a", before_ns).ok);
	rig_advance_ms(rig, 1);
	fake_cloud_fail(rig->cloud, ERR_UNAVAILABLE);
	assert_false(ask("a", now_ns()).ok);
	assert_true(ask("a", before_ns).ok);
	assert_int_equal(looks(), 2);
	fake_cloud_fail(rig->cloud, ERR_NONE);
	assert_true(ask("a", now_ns()).ok);
	assert_int_equal(looks(), 3);
}

/* The second waits for the running look, the third for the pending one: both end. */
static void
cancelled_while_waiting(void **state)
{
	struct cancel *mine = cancel_new();
	struct caller first = { 0 }, second = { .call = { rig->clock, mine, CLOCK_FOREVER, NULL } },
		      third = second;

	(void)state;
	fake_cloud_hold(rig->cloud);
	start(&first, "a", now_ns());
	rig_settle_with(rig, 1);
	start(&second, "b", now_ns());
	fake_clock_advance(rig->fake, NS_PER_SEC);
	start(&third, "b", now_ns());
	rig_settle_with(rig, 3);
	cancel_fire(mine);
	assert_failed(&second, ERR_CANCELLED);
	assert_failed(&third, ERR_CANCELLED);
	fake_cloud_let_go(rig->cloud);
	join(&first);
	assert_true(first.ok);
	cancel_free(mine);
	assert_int_equal(looks(), 1);
}

static void
cancelled_while_running(void **state)
{
	struct caller a = { 0 };

	(void)state;
	fake_cloud_hold(rig->cloud);
	start(&a, "a", now_ns());
	rig_settle_with(rig, 1);
	cancel_fire(rig->cancel);
	assert_failed(&a, ERR_CANCELLED);
}

static void
timed_out_while_waiting(void **state)
{
	int64_t deadline_ns = clock_mono(rig->clock) + 2 * NS_PER_SEC;
	struct caller first = { 0 }, second = { .call = { rig->clock, NULL, deadline_ns, NULL } },
		      third = second;

	(void)state;
	fake_cloud_hold(rig->cloud);
	start(&first, "a", now_ns());
	rig_settle_with(rig, 1);
	start(&second, "b", now_ns());
	fake_clock_advance(rig->fake, NS_PER_SEC);
	start(&third, "b", now_ns());
	rig_settle_with(rig, 3);
	fake_clock_advance(rig->fake, NS_PER_SEC);
	assert_failed(&second, ERR_TIMEOUT);
	assert_failed(&third, ERR_TIMEOUT);
	fake_cloud_let_go(rig->cloud);
	join(&first);
	assert_true(first.ok);
}

/* ---- one machine for two nodes ---- */

/* Node b, whose machine the cloud finds by that ID. */
static void
put_b(const char *provider_id, const char *found_id)
{
	rig_put(rig, &(struct rig_node){ .name = "b", .provider_id = provider_id });
	fake_cloud_set(rig->cloud, "b",
	               (struct fake_machine){ .presence = PRESENCE_PRESENT,
	                                      .provider_id = found_id });
}

static void
put_twins(void)
{
	rig_put(rig, &(struct rig_node){ .name = "a", .provider_id = "fake://a" });
	put_b("fake://a", "fake://a");
}

static struct caller
ask_stored(void)
{
	struct caller a = { 0 };

	for (size_t i = 0; i < 2; i++)
		a.nodes[a.n++] = node_of(store_get(rig->env.nodes, i == 0 ? STR("a") : STR("b")));
	start(&a, NULL, now_ns());
	join(&a);
	rig_advance_ms(rig, 1);
	return a;
}

static void
two_nodes_with_one_provider_id_are_unknown(void **state)
{
	(void)state;
	put_twins();
	for (int i = 0; i < 5; i++) {
		struct caller a = ask_stored();

		assert_true(a.ok);
		assert_int_equal(a.presences[0], PRESENCE_UNKNOWN);
		assert_int_equal(a.presences[1], PRESENCE_UNKNOWN);
	}
	assert_int_equal(fake_api_events(rig->api, "DuplicateProviderID", "a"), 1);
	assert_int_equal(fake_api_events(rig->api, "DuplicateProviderID", "b"), 1);
	assert_int_equal(fake_api_count(rig->api, HTTP_PATCH, "/events/"), 0);
}

/* A new node is asked about when it joins, and the other one perhaps much later. */
static void
both_nodes_are_warned_when_one_is_looked_at(void **state)
{
	struct caller a = { 0 };

	(void)state;
	put_twins();
	a.nodes[a.n++] = node_of(store_get(rig->env.nodes, STR("b")));
	start(&a, NULL, now_ns());
	join(&a);
	rig_advance_ms(rig, 1);
	assert_int_equal(a.presences[0], PRESENCE_UNKNOWN);
	assert_int_equal(fake_api_events(rig->api, "DuplicateProviderID", "a"), 1);
	assert_int_equal(fake_api_events(rig->api, "DuplicateProviderID", "b"), 1);
}

/* Also when their machine is gone: ABSENT would delete both. */
static void
twins_are_unknown_although_their_machine_is_gone(void **state)
{
	struct caller a;

	(void)state;
	put_twins();
	fake_cloud_set(rig->cloud, "a", MACHINE_GONE);
	fake_cloud_set(rig->cloud, "b", MACHINE_GONE);
	a = ask_stored();
	assert_int_equal(a.presences[0], PRESENCE_UNKNOWN);
	assert_int_equal(a.presences[1], PRESENCE_UNKNOWN);
}

/* A new node without a provider ID whose machine is another's already. */
static void
a_machine_that_belongs_to_another_node_is_unknown(void **state)
{
	struct caller a;

	(void)state;
	put_twins();
	put_b(NULL, "fake://a");
	a = ask_stored();
	assert_int_equal(a.presences[0], PRESENCE_PRESENT);
	assert_int_equal(a.presences[1], PRESENCE_UNKNOWN);
	assert_int_equal(fake_api_events(rig->api, "DuplicateProviderID", "b"), 1);
}

static void
twins_that_were_resolved_may_be_reported_again(void **state)
{
	(void)state;
	put_twins();
	ask_stored();
	put_b("fake://b", "fake://b");
	assert_int_equal(ask_stored().presences[0], PRESENCE_PRESENT);
	put_b("fake://a", "fake://a");
	assert_int_equal(ask_stored().presences[0], PRESENCE_UNKNOWN);
	assert_int_equal(fake_api_count(rig->api, HTTP_POST, "/events") +
	                         fake_api_count(rig->api, HTTP_PATCH, "/events/"),
	                 4);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_answer_is_in_the_order_asked),
		TEST(later_askers_share_the_next_look),
		TEST(the_same_node_is_asked_for_once),
		TEST(askers_of_the_same_age_need_two_more_at_most),
		TEST(a_caller_with_an_answer_does_not_wait_for_the_next_look),
		TEST(a_young_answer_is_given_again),
		TEST(an_answer_about_others_is_not_enough),
		TEST(an_answer_is_for_a_uid_and_a_machine),
		TEST(the_newer_snapshot_is_asked_for),
		TEST(what_is_forgotten_is_asked_again),
		TEST(an_answer_in_use_is_not_taken_away),
		TEST(new_nodes_are_added),
		TEST(a_failed_look_fails_for_all_who_share_it),
		TEST(a_failure_is_not_kept_and_takes_nothing_away),
		TEST(cancelled_while_waiting),
		TEST(cancelled_while_running),
		TEST(timed_out_while_waiting),
		TEST(two_nodes_with_one_provider_id_are_unknown),
		TEST(both_nodes_are_warned_when_one_is_looked_at),
		TEST(twins_are_unknown_although_their_machine_is_gone),
		TEST(a_machine_that_belongs_to_another_node_is_unknown),
		TEST(twins_that_were_resolved_may_be_reported_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
