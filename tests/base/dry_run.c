/* The log goes to a file, whose lines are counted. */
#include "base/dry_run.h"

#include <setjmp.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/limits.h"
#include "base/log.h"

static struct dry_run *dry;
static int file;
static char text[1 << 16];

static int
set_up(void **state)
{
	(void)state;
	dry = dry_log_new();
	file = memfd_create("log", MFD_CLOEXEC);
	log_set_fd(file);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	log_set_fd(STDERR_FILENO);
	close(file);
	dry_log_free(dry);
	return 0;
}

/* The lines so far, without their times. */
static const char *
logged(void)
{
	memset(text, '\0', sizeof(text));
	assert_true(pread(file, text, sizeof(text) - 1, 0) >= 0);
	return text;
}

static size_t
count_lines(void)
{
	size_t n = 0;

	for (const char *c = logged(); *c; c++)
		n += *c == '\n';
	return n;
}

static void
note(const char *node, const char *version, const char *label)
{
	struct dry_item item = { dry, "node", str_c(node), str_c(version) };
	struct dry_field field = { STR("label a"), STR("x"), str_c(label) };

	dry_note(&item, &(struct dry_change){ .verb = DRY_CHANGE,
	                                      .what = "node",
	                                      .request = STR("PATCH /api/v1/nodes/n1"),
	                                      .fields = &field,
	                                      .n_fields = 1 });
}

static void
a_line_says_what_would_be_changed_and_how(void **state)
{
	struct dry_item item = { dry, "service", STR("default/web"), STR("7") };
	const struct dry_field fields[] = { { STR("algorithm"), STR("a"), STR("b") },
		                            { STR("target n1"), STR_EMPTY, STR("7") },
		                            { STR("target n2"), STR("8"), STR_EMPTY } };

	(void)state;
	dry_note(&item, &(struct dry_change){ .verb = DRY_CREATE,
	                                      .what = "load balancer",
	                                      .name = STR("web-1"),
	                                      .request = STR("POST /load_balancers"),
	                                      .is_cloud = true,
	                                      .fields = fields,
	                                      .n_fields = 3 });
	assert_non_null(strstr(
		logged(),
		"info  would create what=\"load balancer\" name=web-1 "
		"request=\"POST /load_balancers\" to=cloud for=\"service default/web\" "
		"changes=\"algorithm: a -> b; target n1: 7 (new); target n2: 8 (removed)\"\n"));
}

static void
a_change_is_logged_once_for_each_version_of_its_object(void **state)
{
	(void)state;
	note("n1", "1", "y");
	note("n1", "1", "y");
	assert_int_equal(count_lines(), 1);
	note("n1", "2", "y");
	note("n1", "2", "y");
	assert_int_equal(count_lines(), 2);
	note("n2", "2", "y");
	assert_int_equal(count_lines(), 3);
}

static void
another_change_of_the_same_version_is_logged(void **state)
{
	(void)state;
	note("n1", "1", "y");
	note("n1", "1", "z");
	note("n1", "1", "y");
	assert_int_equal(count_lines(), 2);
}

static void
the_object_that_was_seen_first_is_forgotten_first(void **state)
{
	char name[16];

	(void)state;
	note("first", "1", "y");
	log_set_fd(open("/dev/null", O_WRONLY));
	for (unsigned i = 0; i < LIMIT_DRY_OBJECTS; i++) {
		(void)snprintf(name, sizeof(name), "n%u", i);
		note(name, "1", "y");
	}
	log_set_fd(file);
	note("n1", "1", "y");
	assert_int_equal(count_lines(), 1);
	note("first", "1", "y");
	assert_int_equal(count_lines(), 2);
}

static void
the_first_of_too_many_changes_is_forgotten(void **state)
{
	char label[16];

	(void)state;
	for (unsigned i = 0; i <= LIMIT_DRY_CHANGES; i++) {
		(void)snprintf(label, sizeof(label), "v%u", i);
		note("n1", "1", label);
	}
	assert_int_equal(count_lines(), LIMIT_DRY_CHANGES + 1);
	note("n1", "1", "v1");
	assert_int_equal(count_lines(), LIMIT_DRY_CHANGES + 1);
	note("n1", "1", "v0");
	assert_int_equal(count_lines(), LIMIT_DRY_CHANGES + 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_line_says_what_would_be_changed_and_how),
		TEST(a_change_is_logged_once_for_each_version_of_its_object),
		TEST(another_change_of_the_same_version_is_logged),
		TEST(the_object_that_was_seen_first_is_forgotten_first),
		TEST(the_first_of_too_many_changes_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
