#include "operator/running.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "operator/command.h"

/* A folder with the files of /proc that are read, and the processes of the unit. */
static struct arena arena;
static char folder[] = "/tmp/ccmd-running-XXXXXX";
static const char *group;
static char self[PATH_MAX]; /* this program */

static const char *
path_of(const char *name)
{
	return arena_printf(&arena, "%s/%s", folder, name).ptr;
}

static void
write_file(const char *name, struct str content)
{
	struct error err;

	assert_true(file_replace(path_of(name), content, 0600, &err));
}

static void
write_status(const char *number, unsigned uid, unsigned gid)
{
	write_file(arena_printf(&arena, "%s/status", number).ptr,
	           arena_printf(&arena,
	                        "Name:\tUid:\\n\nUmask:\t0077\nUid:\t%u\t%u\t%u\t%u\n"
	                        "Gid:\t%u\t%u\t%u\t%u\nFDSize:\t64\nGroups:\t%u 7 \n",
	                        uid, uid, uid, uid, gid, gid, gid, gid, gid));
}

/* The arguments have a ',' in place of the NUL after each. */
static void
add_process(const char *number, const char *arguments, const char *environment)
{
	const char *texts[] = { arguments, environment }, *files[] = { "cmdline", "environ" };

	(void)mkdir(path_of(number), 0700);
	write_status(number, geteuid(), getegid());
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		char *text = arena_strz(&arena, str_c(texts[i]));

		for (char *c = text; *c; c++)
			*c = *c == ',' ? '\0' : *c;
		write_file(arena_printf(&arena, "%s/%s", number, files[i]).ptr,
		           str_n(text, str_c(texts[i]).len));
	}
}

static const char *
as_self(const char *arguments)
{
	return arena_printf(&arena, "%s,%s", self, arguments).ptr;
}

static bool
find(struct running *ret)
{
	struct error err;
	bool is_found = running_find(folder, group, &arena, ret, &err);

	assert_true(is_found || err.code == ERR_NOT_FOUND);
	return is_found;
}

static int
set_up(void **state UNUSED)
{
	assert_non_null(realpath("/proc/self/exe", self));
	assert_non_null(mkdtemp(folder));
	group = path_of("group");
	return 0;
}

static int
tear_down(void **state UNUSED)
{
	static const char *const names[] = { "1/cmdline", "1/environ", "1/status",
		                             "1",         "7/cmdline", "7/environ",
		                             "7/status",  "7",         "group" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		(void)remove(path_of(names[i]));
	assert_int_equal(rmdir(folder), 0);
	arena_fini(&arena);
	return 0;
}

static void
process_1_is_the_controller(void **state UNUSED)
{
	struct running running;

	add_process("1", as_self("--cloud-provider=hcloud,-v,1,"), "RUNNING_A=x,");
	assert_true(find(&running));
	assert_int_equal(running.argc, 4);
	assert_string_equal(running.argv[1], "--cloud-provider=hcloud");
	assert_string_equal(running.argv[3], "1");
	assert_null(running.argv[4]);

	/* a name without a folder, as in a container's command */
	add_process("1", arena_printf(&arena, "%s,--a,", strrchr(self, '/') + 1).ptr, "");
	assert_true(find(&running));
	assert_int_equal(running.argc, 2);
}

/* An unprivileged user can start a process anywhere, and choose its flags. */
static void
other_processes_do_not_count(void **state UNUSED)
{
	struct running running;

	add_process("1", "/sbin/init,splash,", "");
	add_process("7", as_self("--kubeconfig=/tmp/of-any-user,"), "");
	assert_false(find(&running));
	add_process("1", as_self("doctor,"), ""); /* a container that runs a command */
	assert_false(find(&running));
	add_process("1", "", ""); /* not readable */
	assert_false(find(&running));
}

static void
the_unit_is_the_controller(void **state UNUSED)
{
	struct running running;

	add_process("1", "/sbin/init,", "");
	add_process("7", as_self("--cloud-provider=brightbox,"), "");
	write_file("group", STR("12\nx/../7\n7\n"));
	assert_true(find(&running));
	assert_string_equal(running.argv[1], "--cloud-provider=brightbox");
}

static void
the_environment_is_completed(void **state UNUSED)
{
	struct running running;

	add_process("1", as_self(""), "HCLOUD_A=new,HCLOUD_B=x=y,POD_UID=,none,=z,");
	assert_true(find(&running));
	setenv("HCLOUD_A", "mine", 1);
	unsetenv("HCLOUD_B");
	running_import(&running, &arena);
	assert_string_equal(getenv("HCLOUD_A"), "mine");
	assert_string_equal(getenv("HCLOUD_B"), "x=y");
	assert_string_equal(getenv("POD_UID"), "");
}

/* Some change what the C library or a program that ccmd starts does. */
static void
variables_of_other_programs_are_not_taken(void **state UNUSED)
{
	struct running running;

	unsetenv("LD_PRELOAD");
	add_process("1", as_self(""),
	            "LD_PRELOAD=/x.so,OPENSSL_CONF=/x,PATH=/x,HOME=/x,HTTPS_PROXY=http://x,");
	assert_true(find(&running));
	running_import(&running, &arena);
	assert_null(getenv("LD_PRELOAD"));
	assert_null(getenv("OPENSSL_CONF"));
	assert_string_not_equal(getenv("PATH"), "/x");
	assert_string_equal(getenv("HTTPS_PROXY"), "http://x");
}

/* Runs running_find() in a child process, because it may change its user. Returns the code of its
 * error, or -1 if it found the controller and has the user and groups of the status. */
static int
find_in_child(uid_t caller, uid_t expected)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		struct running running;
		struct error err;
		gid_t groups[3];

		if (caller != 0 && setresuid(caller, caller, caller) != 0)
			_exit(99);
		if (!running_find(folder, group, &arena, &running, &err))
			_exit((int)err.code);
		_exit(running.uid == expected && getuid() == expected && setuid(0) != 0 &&
		                      getegid() == expected && getgroups(3, groups) == 2 &&
		                      groups[1] == expected
		              ? 98
		              : 97);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return WEXITSTATUS(status) == 98 ? -1 : WEXITSTATUS(status);
}

/* Another user does not reach a program below /root, for example, and so cannot recognise it. */
static bool
is_reached_by(uid_t user)
{
	pid_t child = fork();
	int status;

	if (child == 0)
		_exit(setresuid(user, user, user) == 0 && access(self, F_OK) == 0 ? 0 : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	return status == 0;
}

static void
root_takes_over_the_rights_of_the_controller(void **state UNUSED)
{
	if (geteuid() != 0 || !is_reached_by(65532))
		skip();
	(void)remove(group);
	(void)chmod(folder, 0755);
	add_process("1", as_self("--cloud-provider=hcloud,"), "");
	(void)chmod(path_of("1"), 0755);
	(void)chmod(path_of("1/cmdline"), 0644);
	write_status("1", 65532, 65532);
	(void)chmod(path_of("1/status"), 0644);
	assert_int_equal(find_in_child(0, 65532), -1);
	/* another user cannot, and would run what the controller's user chooses */
	assert_int_equal(find_in_child(65531, 65531), ERR_FORBIDDEN);
	/* a process that is changing its rights */
	write_file("1/status", STR("Name:\tccmd\nUid:\t65532\t0\t0\t0\nGid:\t0\t0\t0\t0\n"));
	assert_int_equal(find_in_child(0, 0), ERR_NOT_FOUND);
}

static void
given_flags_come_last(void **state UNUSED)
{
	CLEANUP(buf_fini) struct buf problems = BUF_INIT(1000);
	char *argv[] = { "ccmd", "status", "-v=2", "--watch", NULL };
	struct command_line line;
	struct running running;

	add_process("1", as_self("--cloud-provider=hcloud,-v=1,"), "");
	assert_true(find(&running));
	assert_true(command_parse(4, argv, &arena, &line, &problems));
	assert_false(line.has_cloud);
	command_use_running(&line, &running);
	assert_true(line.has_cloud && line.is_watch);
	assert_int_equal(line.argc, 4);
	assert_string_equal(line.argv[0], "ccmd");
	assert_string_equal(line.argv[1], "--cloud-provider=hcloud");
	assert_string_equal(line.argv[2], "-v=1");
	assert_string_equal(line.argv[3], "-v=2");
	assert_null(line.argv[4]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(process_1_is_the_controller),
		cmocka_unit_test(other_processes_do_not_count),
		cmocka_unit_test(the_unit_is_the_controller),
		cmocka_unit_test(the_environment_is_completed),
		cmocka_unit_test(variables_of_other_programs_are_not_taken),
		cmocka_unit_test(root_takes_over_the_rights_of_the_controller),
		cmocka_unit_test(given_flags_come_last),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
