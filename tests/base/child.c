#include "base/child.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/thread.h"

static pid_t cannot_be_killed; /* the group that was to be killed, where the test wants that */
static bool is_in_kernel;

/* Replaces the C library's: with is_in_kernel, signals have no effect. */
int
kill(pid_t pid, int signal)
{
	if (is_in_kernel) {
		cannot_be_killed = -pid;
		return 0;
	}
	return (int)syscall(SYS_kill, pid, signal);
}

struct world {
	char folder[32];
	struct arena arena;
	struct call call;
	struct child_result result;
	struct error err;
};

static size_t
n_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static struct world
world_new(void)
{
	struct world w = {
		.folder = "/tmp/ccmd-child-XXXXXX",
		.call = { &clock_real, NULL, CLOCK_FOREVER, NULL },
		.result = CHILD_RESULT_INIT,
	};

	assert_non_null(mkdtemp(w.folder));
	return w;
}

static const char *
path_in(struct world *w, const char *name)
{
	return arena_printf(&w->arena, "%s/%s", w->folder, name).ptr;
}

static void
world_fini(struct world *w)
{
	const char *rm[] = { "rm", "-r", w->folder, NULL };

	child_result_fini(&w->result);
	w->call.cancel = NULL;
	assert_true(child_run(&w->call, &(struct child_spec){ .argv = rm }, &w->result, &w->err));
	child_result_fini(&w->result);
	arena_fini(&w->arena);
	/* nothing is left to be reaped */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

/* Runs `sh -c script` with what else spec says. */
static bool
run_script(struct world *w, const char *script, struct child_spec spec)
{
	const char *argv[] = { "sh", "-c", script, NULL };
	size_t before = n_descriptors();
	bool is_ok;

	spec.argv = argv;
	is_ok = child_run(&w->call, &spec, &w->result, &w->err);
	assert_int_equal(n_descriptors(), before);
	return is_ok;
}

static bool
run_file(struct world *w, const char *name, const char *text, unsigned mode)
{
	const char *argv[] = { path_in(w, name), NULL };
	struct child_spec spec = { .argv = argv };

	assert_true(file_replace(argv[0], str_c(text), mode, &w->err));
	return child_run(&w->call, &spec, &w->result, &w->err);
}

static void
assert_out(const struct world *w, const char *text)
{
	assert_string_equal(w->result.out.ptr, text);
}

/* Reads the number that a script left in a file. */
static pid_t
pid_in(struct world *w, const char *name)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(100);
	int64_t pid;

	assert_true(file_read(path_in(w, name), &text, &w->err));
	assert_true(str_to_i64(str_trim(buf_str(&text)), 1, INT32_MAX, &pid));
	return (pid_t)pid;
}

/* Gone, or dead and waiting for its parent, which after ours died is not us. */
static bool
is_alive(pid_t pid)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(4));
	char path[40];
	struct error err;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	/* X: its parent is reaping it at this moment */
	return file_read(path, &text, &err) && !str_contains(buf_str(&text), STR(") Z ")) &&
	       !str_contains(buf_str(&text), STR(") X "));
}

static void
assert_dies(pid_t pid)
{
	struct error err;

	for (int i = 0; i < 500 && is_alive(pid); i++)
		(void)!cancel_sleep(NULL, &clock_real, 10 * NS_PER_MS, &err);
	assert_false(is_alive(pid));
}

static void
output_and_exit_code_come_back(void **state)
{
	CLEANUP(world_fini) struct world w = world_new();

	(void)state;
	assert_true(run_script(&w, "echo hello; exit 3", (struct child_spec){ 0 }));
	assert_out(&w, "hello\n");
	assert_int_equal(w.result.exit_code, 3);
	assert_int_equal(w.result.signal, 0);
}

static void
a_signal_is_reported(void **state)
{
	CLEANUP(world_fini) struct world w = world_new();

	(void)state;
	assert_true(run_script(&w, "kill -TERM $$", (struct child_spec){ 0 }));
	assert_int_equal(w.result.exit_code, -1);
	assert_int_equal(w.result.signal, SIGTERM);
}

static void
arguments_are_no_shell_words(void **state)
{
	CLEANUP(world_fini) struct world w = world_new();
	const char *argv[] = { "printf", "%s|", "a b", "$HOME;ls", "", NULL };

	(void)state;
	assert_true(child_run(&w.call, &(struct child_spec){ .argv = argv }, &w.result, &w.err));
	assert_out(&w, "a b|$HOME;ls||");
}

static void
later_variables_win(void **state)
{
	CLEANUP(world_fini) struct world w = world_new();
	const char *const env[] = { "CHILD_A=1", "CHILD_B=2", "CHILD_A=3", NULL };

	(void)state;
	assert_int_equal(setenv("CHILD_B", "ours", 1), 0);
	assert_int_equal(setenv("CHILD_C", "kept", 1), 0);
	assert_true(run_script(&w, "env | grep ^CHILD_ | sort", (struct child_spec){ .env = env }));
	assert_out(&w, "CHILD_A=3\nCHILD_B=2\nCHILD_C=kept\n");
}

static void
input_larger_than_a_pipe_arrives(void **state)
{
	CLEANUP(world_fini) struct world w = world_new();
	CLEANUP(buf_fini) struct buf input = BUF_INIT(MIB(1));

	(void)state;
	for (int i = 0; i < 100000; i++)
		buf_add_c(&input, "1234567\n");
	assert_true(run_script(&w, "wc -c", (struct child_spec){ .input = buf_str(&input) }));
	assert_out(&w, "800000\n");
}

static void
a_child_need_not_read_its_input(void **state)
{
	CLEANUP(world_fini) struct world w = world_new();
	CLEANUP(buf_fini) struct buf input = BUF_INIT(MIB(1));

	(void)state;
	assert_true(buf_reserve(&input, MIB(1)));
	memset(input.ptr, 'x', MIB(1));
	buf_grown(&input, MIB(1));
	assert_true(run_script(&w, "exit 0", (struct child_spec){ .input = buf_str(&input) }));
	assert_int_equal(w.result.exit_code, 0);
}

static void
without_input_there_is_its_end(void **state)
{
	CLEANUP(world_fini) struct world w = world_new();

	(void)state;
	assert_true(run_script(&w, "wc -c", (struct child_spec){ 0 }));
	assert_out(&w, "0\n");
}

static void
too_much_output_ends_it(void **state)
{
	CLEANUP(world_fini) struct world w = world_new();
	struct child_spec spec = { .timeout_ms = 30000 };

	(void)state;
	assert_false(run_script(&w, "head -c 5242880 /dev/zero; sleep 100", spec));
	assert_int_equal(w.err.code, ERR_INVALID);
	assert_string_equal(w.err.msg, "sh: wrote more than 1048576 bytes");
}

static void
exactly_as_much_as_allowed_is_fine(void **state)
{
	CLEANUP(world_fini) struct world w = world_new();
	const char *script = "head -c 100000 /dev/zero | tr '\\0' x";

	(void)state;
	assert_true(run_script(&w, script, (struct child_spec){ .max_output = 100000 }));
	assert_int_equal(w.result.out.len, 100000);
	assert_false(run_script(&w, script, (struct child_spec){ .max_output = 99999 }));
	assert_int_equal(w.err.code, ERR_INVALID);
}

/* ---- children that do not end ---- */

/* The real clock, but an hour passes as soon as the script has made the file "begun". It says so on
 * its output then, which wakes the thread that waits for it. */
static struct {
	int64_t (*mono_ns)(struct clock *);
	const char *path;
	int64_t jumped_ns; /* real; 0: not yet */
} jump;

static int64_t
jumping_mono_ns(struct clock *c)
{
	int64_t now_ns = jump.mono_ns(c);

	if (jump.jumped_ns == 0 && access(jump.path, F_OK) == 0)
		jump.jumped_ns = now_ns;
	return jump.jumped_ns == 0 ? now_ns : now_ns + 3600 * NS_PER_SEC;
}

/* How long a machine takes to start a shell is no concern of these tests, so the script's time is
 * over when it has begun. */
static bool
run_until_begun(struct world *w, const char *script, int64_t grace_ms)
{
	const char *text = arena_printf(&w->arena, "cd %s; %s", w->folder, script).ptr;
	bool is_ok;

	jump.mono_ns = clock_real.mono_ns;
	jump.path = path_in(w, "begun");
	jump.jumped_ns = 0;
	clock_real.mono_ns = jumping_mono_ns;
	is_ok = run_script(w, text,
	                   (struct child_spec){ .timeout_ms = 600000, .grace_ms = grace_ms });
	clock_real.mono_ns = jump.mono_ns;
	return is_ok;
}

static void
assert_killed_in_time(const struct world *w)
{
	assert_int_equal(w->err.code, ERR_TIMEOUT);
	assert_string_equal(w->err.msg, "sh: did not end in time and was killed");
	assert_true(clock_mono(&clock_real) - jump.jumped_ns < 20 * NS_PER_SEC);
}

static void
a_child_that_hangs_is_killed_with_its_group(void **state)
{
	CLEANUP(world_fini) struct world w = world_new();

	(void)state;
	assert_false(run_until_begun(&w,
	                             "sleep 100 & echo $! >grandchild; trap '' TERM INT; "
	                             ": >begun; echo begun; wait; sleep 100",
	                             /*grace_ms=*/0));
	assert_killed_in_time(&w);
	assert_dies(pid_in(&w, "grandchild"));
	assert_out(&w, "");
}

static void
a_child_that_gets_sigterm_may_clean_up(void **state)
{
	CLEANUP(world_fini) struct world w = world_new();

	(void)state;
	assert_false(run_until_begun(&w,
	                             "trap 'echo $$ >asked; exit 0' TERM; : >begun; echo begun; "
	                             "sleep 100 & wait",
	                             /*grace_ms=*/20000));
	assert_int_equal(w.err.code, ERR_TIMEOUT);
	assert_true(pid_in(&w, "asked") > 0);
}

static void
a_child_that_ignores_sigterm_is_killed(void **state)
{
	CLEANUP(world_fini) struct world w = world_new();

	(void)state;
	assert_false(
		run_until_begun(&w, "trap '' TERM; : >begun; echo begun; while :; do sleep 1; done",
	                        /*grace_ms=*/200));
	assert_killed_in_time(&w);
	assert_true(clock_mono(&clock_real) - jump.jumped_ns >= 200 * NS_PER_MS);
}

/* Like a process that waits in the kernel for a file server that is gone. */
static void
a_child_that_cannot_be_killed_is_left_and_reaped_later(void **state)
{
	CLEANUP(world_fini) struct world w = world_new();
	siginfo_t info;

	(void)state;
	is_in_kernel = true;
	assert_false(run_script(&w, "exec sleep 100", (struct child_spec){ .timeout_ms = 50 }));
	is_in_kernel = false;
	assert_int_equal(w.err.code, ERR_TIMEOUT);
	assert_true(cannot_be_killed > 0);
	assert_int_equal(kill(cannot_be_killed, SIGKILL), 0);
	assert_int_equal(waitid(P_PID, (id_t)cannot_be_killed, &info, WEXITED | WNOWAIT), 0);
	/* the next call reaps it, which world_fini() checks */
}

static void
the_calls_deadline_cuts_it_short(void **state)
{
	CLEANUP(world_fini) struct world w = world_new();

	(void)state;
	w.call.deadline_mono_ns = clock_mono(&clock_real) + 200 * NS_PER_MS;
	assert_false(run_script(&w, "sleep 100", (struct child_spec){ 0 }));
	assert_int_equal(w.err.code, ERR_TIMEOUT);
	w.call.deadline_mono_ns = CLOCK_FOREVER;
}

/* A background process that keeps the pipe does not keep us. */
static void
grandchildren_may_keep_the_pipe(void **state)
{
	CLEANUP(world_fini) struct world w = world_new();
	struct child_spec spec = { .timeout_ms = 50000, .take_stderr = true };
	int64_t before_ns = clock_mono(&clock_real), pid;

	(void)state;
	assert_true(run_script(&w, "sleep 60 & echo $!", spec));
	assert_true(clock_mono(&clock_real) - before_ns < 30 * NS_PER_SEC);
	assert_int_equal(w.result.exit_code, 0);
	assert_true(str_to_i64(str_trim(buf_str(&w.result.out)), 1, INT32_MAX, &pid));
	assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
}

static void
endless_writers_left_behind_do_not_hold_us(void **state)
{
	CLEANUP(world_fini) struct world w = world_new();
	struct child_spec spec = { .timeout_ms = 50000, .take_stderr = true };
	const char *script = arena_printf(&w.arena,
	                                  "yes | head -c 100000 >&2; (exec yes) >&2 & "
	                                  "echo $! >%s/writer; "
	                                  "until grep -qx yes /proc/$!/comm; do sleep 0.01; done",
	                                  w.folder)
	                             .ptr;

	(void)state;
	assert_true(run_script(&w, script, spec));
	assert_int_equal(w.result.err.len, LIMIT_CHILD_STDERR);
	kill(pid_in(&w, "writer"), SIGKILL); /* or its closed pipe was faster */
}

static void
last_words_are_kept(void **state)
{
	CLEANUP(world_fini) struct world w = world_new();
	const char *script = "for i in $(seq 5000); do echo line $i >&2; done; echo out; exit 1";

	(void)state;
	assert_true(run_script(&w, script, (struct child_spec){ .take_stderr = true }));
	assert_out(&w, "out\n");
	assert_int_equal(w.result.err.len, LIMIT_CHILD_STDERR);
	assert_true(str_ends(buf_str(&w.result.err), STR("\nline 5000\n")));
}

static void
a_missing_program_is_not_found(void **state)
{
	CLEANUP(world_fini) struct world w = world_new();
	const char *const paths[] = { "no-such-program", path_in(&w, "missing"),
		                      "/etc/passwd/program" };
	size_t before = n_descriptors();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		const char *argv[] = { paths[i], NULL };

		assert_false(child_run(&w.call, &(struct child_spec){ .argv = argv }, &w.result,
		                       &w.err));
		assert_int_equal(w.err.code, ERR_NOT_FOUND);
		assert_non_null(strstr(w.err.msg, paths[i]));
	}
	assert_int_equal(n_descriptors(), before);
}

static void
a_missing_interpreter_is_not_found(void **state)
{
	CLEANUP(world_fini) struct world w = world_new();

	(void)state;
	assert_false(run_file(&w, "script", "#!/no/such/interpreter\n", 0755));
	assert_int_equal(w.err.code, ERR_NOT_FOUND);
}

static void
what_cannot_be_executed_is_forbidden(void **state)
{
	CLEANUP(world_fini) struct world w = world_new();

	(void)state;
	assert_false(run_file(&w, "script", "#!/bin/sh\n", 0644));
	assert_int_equal(w.err.code, ERR_FORBIDDEN);
	assert_false(run_file(&w, "garbage", "garbage\n", 0755));
	assert_int_equal(w.err.code, ERR_FORBIDDEN);
}

struct canceller {
	const char *begun; /* a file that the script makes */
	struct cancel *token;
};

static void *
cancel_when_begun(void *arg)
{
	struct canceller *c = arg;
	struct error err;

	for (int i = 0; i < 2000 && access(c->begun, F_OK) != 0; i++)
		(void)!cancel_sleep(NULL, &clock_real, 10 * NS_PER_MS, &err);
	cancel_fire(c->token);
	return NULL;
}

static void
cancelling_kills_it(void **state)
{
	CLEANUP(cancel_freep) struct cancel *token = cancel_new();
	CLEANUP(world_fini) struct world w = world_new();
	const char *script =
		arena_printf(&w.arena, "cd %s; echo $$ >pid; : >begun; sleep 100", w.folder).ptr;
	struct canceller canceller = { path_in(&w, "begun"), token };
	pthread_t thread;

	(void)state;
	w.call.cancel = token;
	thread_start(&thread, "cancel", cancel_when_begun, &canceller);
	assert_false(run_script(&w, script, (struct child_spec){ 0 }));
	thread_join(thread);
	assert_int_equal(w.err.code, ERR_CANCELLED);
	assert_false(is_alive(pid_in(&w, "pid")));
	assert_false(run_script(&w, "exit 0", (struct child_spec){ 0 }));
	assert_int_equal(w.err.code, ERR_CANCELLED);
}

/* Signals as any program expects them, a session of its own, and no descriptors of ours. */
static void
nothing_of_ours_is_inherited(void **state)
{
	CLEANUP(world_fini) struct world w = world_new();
	sigset_t all, before;
	int fd = dup(STDIN_FILENO); /* without CLOEXEC */
	const char *script =
		"grep '^SigBlk' /proc/self/status | tr -s '0\\t\\n' '0  '; "
		"ls /proc/self/fd | wc -l; ps -o sid= -p $$ | grep -cx \" *$$\"; kill -PIPE $$";

	(void)state;
	assert_true(fd > 2);
	signal(SIGPIPE, SIG_IGN);
	sigfillset(&all);
	assert_int_equal(pthread_sigmask(SIG_SETMASK, &all, &before), 0);
	assert_true(run_script(&w, script, (struct child_spec){ 0 }));
	assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
	close(fd);
	/* 0, 1, 2 and the folder that ls reads */
	assert_out(&w, "SigBlk: 0 4\n1\n");
	assert_int_equal(w.result.signal, SIGPIPE);
}

static void *
run_many(void *failed)
{
	struct call call = { .clock = &clock_real, .deadline_mono_ns = CLOCK_FOREVER };
	const char *argv[] = { "cat", NULL };
	struct child_spec spec = { .argv = argv, .input = STR("text") };

	for (int i = 0; i < 20; i++) {
		CLEANUP(child_result_fini) struct child_result result = CHILD_RESULT_INIT;
		struct error err;

		if (!child_run(&call, &spec, &result, &err) ||
		    !str_eq(buf_str(&result.out), STR("text")))
			return failed;
	}
	return NULL;
}

static void
threads_do_not_get_in_each_others_way(void **state)
{
	pthread_t threads[4];
	void *result;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		thread_start(&threads[i], "many", run_many, threads);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
		assert_int_equal(pthread_join(threads[i], &result), 0);
		assert_null(result);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(output_and_exit_code_come_back),
		cmocka_unit_test(a_signal_is_reported),
		cmocka_unit_test(arguments_are_no_shell_words),
		cmocka_unit_test(later_variables_win),
		cmocka_unit_test(input_larger_than_a_pipe_arrives),
		cmocka_unit_test(a_child_need_not_read_its_input),
		cmocka_unit_test(without_input_there_is_its_end),
		cmocka_unit_test(too_much_output_ends_it),
		cmocka_unit_test(exactly_as_much_as_allowed_is_fine),
		cmocka_unit_test(a_child_that_hangs_is_killed_with_its_group),
		cmocka_unit_test(a_child_that_gets_sigterm_may_clean_up),
		cmocka_unit_test(a_child_that_ignores_sigterm_is_killed),
		cmocka_unit_test(a_child_that_cannot_be_killed_is_left_and_reaped_later),
		cmocka_unit_test(the_calls_deadline_cuts_it_short),
		cmocka_unit_test(grandchildren_may_keep_the_pipe),
		cmocka_unit_test(endless_writers_left_behind_do_not_hold_us),
		cmocka_unit_test(last_words_are_kept),
		cmocka_unit_test(a_missing_program_is_not_found),
		cmocka_unit_test(a_missing_interpreter_is_not_found),
		cmocka_unit_test(what_cannot_be_executed_is_forbidden),
		cmocka_unit_test(cancelling_kills_it),
		cmocka_unit_test(nothing_of_ours_is_inherited),
		cmocka_unit_test(threads_do_not_get_in_each_others_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
