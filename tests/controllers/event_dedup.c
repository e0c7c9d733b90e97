/* A lasting state makes one event. */
#include "controllers/rig.h"

#include "base/limits.h"

static struct rig *rig;
static struct node *node;

static int
set_up(void **state)
{
	(void)state;
	rig = rig_new();
	node = rig_parse(rig, &(struct rig_node){ .name = "a" });
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	object_unref(&node->object);
	rig_free(rig);
	return 0;
}

static void
warn(const struct node *about, const char *reason, const char *text)
{
	event_dedup_warn(rig->env.event_dedup, "cloud-node-controller", about, reason, str_c(text));
	rig_settle(rig);
}

static size_t
events(void)
{
	return fake_api_count(rig->api, HTTP_POST, "/events") +
	       fake_api_count(rig->api, HTTP_PATCH, "/events/");
}

static void
the_same_again_is_silent(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++)
		warn(node, "Held", "no witness");
	assert_int_equal(events(), 1);
	assert_int_equal(fake_api_events(rig->api, "Held", "a"), 1);
}

static void
another_text_is_heard(void **state)
{
	(void)state;
	warn(node, "Held", "no witness");
	warn(node, "Held", "its kubelet lives");
	warn(node, "Held", "no witness");
	assert_int_equal(fake_api_count(rig->api, HTTP_POST, "/events"), 2);
	assert_int_equal(events(), 3); /* the third raises the count of the first */
}

static void
another_reason_is_heard(void **state)
{
	(void)state;
	warn(node, "Held", "text");
	warn(node, "Foreign", "text");
	assert_int_equal(fake_api_events(rig->api, "Held", "a"), 1);
	assert_int_equal(fake_api_events(rig->api, "Foreign", "a"), 1);
}

static void
a_node_re_created_is_another(void **state)
{
	struct node *other = rig_parse(rig, &(struct rig_node){ .name = "a", .uid = "u-2" });

	(void)state;
	warn(node, "Held", "text");
	warn(other, "Held", "text");
	assert_int_equal(fake_api_events(rig->api, "Held", "a"), 2);
	object_unref(&other->object);
}

static void
what_has_passed_is_heard_again(void **state)
{
	(void)state;
	event_dedup_clear(rig->env.event_dedup, node, "Held");
	warn(node, "Held", "text");
	warn(node, "Foreign", "text");
	event_dedup_clear(rig->env.event_dedup, node, "Held");
	warn(node, "Held", "text");
	warn(node, "Foreign", "text");
	assert_int_equal(events(), 3);
}

static void
warn_of_others(size_t n)
{
	static size_t serial;

	for (size_t i = 0; i < n; i++) {
		const char *uid = arena_printf(&rig->arena, "uid-%zu", serial++).ptr;
		struct node *other = rig_parse(rig, &(struct rig_node){ .name = "b", .uid = uid });

		event_dedup_warn(rig->env.event_dedup, "cloud-node-controller", other, "Held",
		                 STR("text"));
		object_unref(&other->object);
	}
	rig_settle(rig);
}

static size_t
events_of_a(void)
{
	return fake_api_events(rig->api, "Held", "a") +
	       fake_api_count(rig->api, HTTP_PATCH, "/events/a.");
}

/* With one more than there is room for, all are forgotten. */
static void
memory_is_bounded(void **state)
{
	(void)state;
	warn(node, "Held", "text");
	warn_of_others(LIMIT_EVENT_DEDUP - 1);
	warn(node, "Held", "text");
	assert_int_equal(events_of_a(), 1);
	warn_of_others(1);
	warn(node, "Held", "text");
	warn(node, "Held", "text");
	assert_int_equal(events_of_a(), 2);
}

static void
events_that_are_not_deduplicated_are_always_sent(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		node_event(rig->env.recorder, "cloud-node-controller", node, EVENT_NORMAL, "Synced",
		           STR("text"));
	rig_settle(rig);
	assert_int_equal(events(), 2);
	assert_non_null(strstr(fake_api_nth(rig->api, HTTP_POST, "/events", 0)->body,
	                       "\"uid\":\"u-a\""));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_same_again_is_silent),
		TEST(another_text_is_heard),
		TEST(another_reason_is_heard),
		TEST(a_node_re_created_is_another),
		TEST(what_has_passed_is_heard_again),
		TEST(memory_is_bounded),
		TEST(events_that_are_not_deduplicated_are_always_sent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
