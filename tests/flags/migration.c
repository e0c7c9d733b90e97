/* tests/flags/migration.c: --leader-migration-config. */
#include "line.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "flags/table.h"

#define HEAD "kind: LeaderMigrationConfiguration\napiVersion: controllermanager.config.k8s.io/v1\n"

static const char warning[] =
	"--enable-leader-migration: the configuration is checked, but no controller is migrated: all run "
	"under the one lock; turn those off in kube-controller-manager, or here with --controllers\n";

static void
parse_text(const char *text)
{
	buf_reset(&line_problems);
	options_fini(&line_options);
	migration_parse(&line_options, str_c(text), "m.yaml", &line_problems);
}

static void
expect_problem(const char *text, const char *wanted)
{
	parse_text(text);
	assert_string_equal(line_problems.ptr, wanted);
}

static void
a_good_file_is_read(void **state)
{
	const struct migration_options *m = &line_options.migration;

	(void)state;
	parse_text(
		HEAD
		"leaderName: move\ncontrollerLeaders:\n- name: route-controller\n  component: '*'\n"
		"- {name: service-controller, component: kube-controller-manager}\n");
	assert_string_equal(line_problems.ptr, "");
	assert_true(str_eq_c(m->leader_name, "move"));
	assert_true(str_eq_c(m->resource_lock, "leases"));
	assert_int_equal(m->n_rules, 2);
	assert_true(str_eq_c(m->rules[0].controller, "route-controller"));
	assert_true(str_eq_c(m->rules[0].component, "*"));
	assert_true(str_eq_c(m->rules[1].component, "kube-controller-manager"));
	parse_text("{\"kind\": \"LeaderMigrationConfiguration\", \"leaderName\": \"x\", "
	           "\"apiVersion\": \"controllermanager.config.k8s.io/v1beta1\", "
	           "\"resourceLock\": \"endpoints\"}");
	assert_string_equal(line_problems.ptr, "");
	assert_true(str_eq_c(m->resource_lock, "endpoints"));
}

static void
each_mistake_is_named_with_its_line(void **state)
{
	(void)state;
	expect_problem("", "--leader-migration-config: m.yaml:1: must be a map, not a null\n");
	expect_problem(HEAD "leaderName: a\nleaderNames: b\n",
	               "--leader-migration-config: m.yaml:4: unknown field \"leaderNames\"\n");
	expect_problem(
		HEAD "leaderName: a\nleaderName: b\n",
		"--leader-migration-config: m.yaml:4: field \"leaderName\" is there twice\n");
	expect_problem(
		"kind: Pod\napiVersion: v1\nresourceLock: configmaps\n",
		"--leader-migration-config: m.yaml:1: kind must be LeaderMigrationConfiguration\n"
		"--leader-migration-config: m.yaml:1: apiVersion must be controllermanager.config.k8s.io/v1, "
		"v1beta1 or v1alpha1\n"
		"--leader-migration-config: m.yaml:1: leaderName must be set\n"
		"--leader-migration-config: m.yaml:1: resourceLock must be leases or endpoints\n");
	expect_problem(
		HEAD
		"leaderName: [a]\ncontrollerLeaders:\n- name: a\n- b\n- component: c\n  extra: d\n",
		"--leader-migration-config: m.yaml:3: leaderName must be a string, not a list\n"
		"--leader-migration-config: m.yaml:1: leaderName must be set\n"
		"--leader-migration-config: m.yaml:5: controllerLeaders: component must be set\n"
		"--leader-migration-config: m.yaml:6: an entry of controllerLeaders must be a map, not a string\n"
		"--leader-migration-config: m.yaml:8: unknown field \"extra\"\n"
		"--leader-migration-config: m.yaml:7: controllerLeaders: name must be set\n");
	expect_problem(
		HEAD "leaderName: a\ncontrollerLeaders: b\n",
		"--leader-migration-config: m.yaml:4: controllerLeaders must be a list, not a string\n");
}

static void
without_a_file_the_built_in_rules_are_shown(void **state)
{
	const struct migration_options *m = &line_options.migration;

	(void)state;
	EXPECT_WARNINGS("", "--leader-migration-config=/nowhere"); /* not enabled: not read */
	assert_int_equal(m->n_rules, 0);
	EXPECT_WARNINGS(warning, "--enable-leader-migration");
	assert_true(str_eq_c(m->leader_name, "cloud-provider-extraction-migration"));
	assert_int_equal(m->n_rules, 3);
}

static void
a_file_is_read_when_it_is_enabled(void **state)
{
	char path[] = "/tmp/test-migration-XXXXXX";
	int fd = mkstemp(path);
	struct error err;

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	EXPECT_PROBLEMS("--leader-migration-config: /nowhere: No such file or directory",
	                "--enable-leader-migration", "--leader-migration-config=/nowhere");
	assert_true(file_replace(path, STR(HEAD "leaderName: x\n"), 0600, &err));
	EXPECT_WARNINGS(warning, "--enable-leader-migration", "--leader-migration-config", path);
	assert_true(str_eq_c(line_options.migration.leader_name, "x"));
	assert_true(file_replace(path, STR("kind: [\n"), 0600, &err));
	assert_int_equal(PARSE("--enable-leader-migration", "--leader-migration-config", path,
	                       "--x"),
	                 FLAGS_BAD);
	assert_true(str_starts(buf_str(&line_problems), STR("unknown flag: --x\n")));
	assert_non_null(strstr(line_problems.ptr, "\n--leader-migration-config: "));
	unlink(path);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_good_file_is_read),
		cmocka_unit_test(each_mistake_is_named_with_its_line),
		cmocka_unit_test(without_a_file_the_built_in_rules_are_shown),
		cmocka_unit_test(a_file_is_read_when_it_is_enabled),
	};

	return cmocka_run_group_tests(tests, NULL, line_fini);
}
