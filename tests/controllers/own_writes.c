/* After a write, its result is waited for, but not for ever. */
#include "controllers/writes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"
#include "fake_clock.h"

static struct fake_clock *fake;
static struct controller_memory *memory;
static struct own_writes *writes;

static int
set_up(void **state)
{
	struct controller_env env = { 0 };

	(void)state;
	fake = fake_clock_new(INT64_C(1767322800) * NS_PER_SEC);
	env.clock = fake_clock_clock(fake);
	memory = controller_memory_new(&env);
	writes = env.own_writes;
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	controller_memory_free(memory);
	fake_clock_free(fake);
	return 0;
}

static struct object *
node_at(const char *uid, const char *version)
{
	CLEANUP(buf_fini) struct buf json = BUF_INIT(KIB(1));
	struct object *object = NULL;
	struct error err;

	buf_addf(&json,
	         "{\"kind\":\"Node\",\"metadata\":{\"name\":\"a\",\"uid\":\"%s\","
	         "\"resourceVersion\":\"%s\"}}",
	         uid, version);
	if (!object_parse(&node_kind.kind, buf_str(&json), &object, &err))
		fail_msg("%s", err.msg);
	return object;
}

static void
note(const char *uid, const char *version)
{
	CLEANUP(object_unrefp) struct object *object = node_at(uid, "1");

	own_writes_note(writes, node_of(object), str_c(version));
}

static bool
are_ahead(const char *uid, const char *version)
{
	CLEANUP(object_unrefp) struct object *object = node_at(uid, version);

	return own_writes_are_ahead(writes, node_of(object));
}

static void
an_older_state_is_not_acted_on(void **state)
{
	(void)state;
	note("u", "100");
	assert_true(are_ahead("u", "99"));
	assert_true(are_ahead("u", "99"));
	assert_false(are_ahead("u", "100"));
	assert_false(are_ahead("u", "99")); /* it is forgotten */
}

static void
another_node_of_that_name_is_acted_on(void **state)
{
	(void)state;
	note("u", "100");
	assert_false(are_ahead("v", "99"));
}

/* The API server's data was restored: version 100 is gone, and the node is at 50. */
static void
a_write_that_never_appears_is_forgotten(void **state)
{
	(void)state;
	note("u", "100");
	fake_clock_advance(fake, 59 * NS_PER_SEC);
	assert_true(are_ahead("u", "50"));
	fake_clock_advance(fake, NS_PER_SEC);
	assert_false(are_ahead("u", "50"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_older_state_is_not_acted_on),
		TEST(another_node_of_that_name_is_acted_on),
		TEST(a_write_that_never_appears_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
