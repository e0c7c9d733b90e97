/* base/child.c: see child.h.
 *
 * The program is started by posix_spawn(): after fork() in a process with threads, only
 * async-signal-safe functions may be called. posix_spawn() also reports why exec failed. The input
 * is a file in memory rather than a pipe: it holds any size without a writer that waits, and a
 * program that does not read its input causes no SIGPIPE. The group is signalled before its leader
 * is reaped, because the kernel may reuse the process id after that.
 *
 * Background processes of the program may keep its pipes open without limit. Its end is therefore
 * the end of the process (a pidfd), not the end of file on the pipes.
 */
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/thread.h"
#include "base/wake.h"

enum {
	DEFAULT_TIMEOUT_MS = 60000,
	/* Time from SIGKILL to the end of the process; a process blocked in the kernel takes
	 * longer. */
	KILL_MS = 2000,
	MAX_LINGERING = 16, /* processes that survived SIGKILL and are reaped later */
	READ_SIZE = 4096,   /* per read(); at most LIMIT_CHILD_STDERR */
};

struct child {
	const struct child_spec *spec;
	const char **env;
	int in;             /* becomes its standard input */
	int out[2], err[2]; /* this process reads [0]; -1: not open */
	int cancelled;      /* a wake descriptor (base/wake.h), rung when the call is cancelled */
	int exited;         /* a pidfd */
	pid_t pid;
	int64_t deadline_ns; /* on clock_real, because poll() cannot wait on another clock */
	bool is_too_long;    /* more output than allowed */
	struct child_result result;
};

void
child_result_fini(struct child_result *r)
{
	buf_fini(&r->out);
	buf_fini(&r->err);
}

/* ---- input, output and environment ---- */

/* Only the reading end is non-blocking: the program expects ordinary blocking output. */
static bool
open_pipe(int fds[2])
{
	return pipe2(fds, O_CLOEXEC) == 0 && fcntl(fds[0], F_SETFL, O_NONBLOCK) == 0;
}

static bool
open_all(struct child *c, struct error *err)
{
	struct str input = c->spec->input;

	c->cancelled = wake_open();
	c->in = input.len > 0 ? memfd_create("input", MFD_CLOEXEC)
	                      : open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (c->cancelled < 0 || c->in < 0 || !fd_write_all(c->in, input) ||
	    (input.len > 0 && lseek(c->in, 0, SEEK_SET) != 0) || !open_pipe(c->out) ||
	    (c->spec->take_stderr && !open_pipe(c->err)))
		return err_errno(err, errno, "descriptors");
	return true;
}

static struct str
variable_name(const char *variable)
{
	return str_n(variable, strcspn(variable, "="));
}

/* Does an entry after `at` have the same name? */
static bool
is_replaced(const char *const *env, size_t n, size_t at)
{
	for (size_t later = at + 1; later < n; later++) {
		if (str_eq(variable_name(env[later]), variable_name(env[at])))
			return true;
	}
	return false;
}

/* This process's variables, then `more`. Of several with one name, only the last is kept. */
static const char **
environment(const char *const *more)
{
	const char *const *lists[] = { (const char *const *)environ, more };
	size_t n = 0, cap = 0, n_kept = 0;
	const char **env = NULL;

	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		for (const char *const *variable = lists[i]; variable && *variable; variable++)
			ARRAY_PUSH(env, n, cap, *variable);
	}
	for (size_t i = 0; i < n; i++) {
		if (!is_replaced(env, n, i))
			env[n_kept++] = env[i];
	}
	n = n_kept;
	ARRAY_PUSH(env, n, cap, NULL);
	return env;
}

/* ---- starting ---- */

static int
spawn(struct child *c)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int result;

	/* The program gets no other descriptor. Those of ccmd are closed on exec anyway; this is
	 * for those that ccmd inherited. musl has no such action, so they are marked as
	 * close-on-exec instead, which only kernels before 5.11 refuse. */
	MUST(posix_spawn_file_actions_init(&actions));
	MUST(posix_spawn_file_actions_adddup2(&actions, c->in, STDIN_FILENO));
	MUST(posix_spawn_file_actions_adddup2(&actions, c->out[1], STDOUT_FILENO));
	if (c->err[1] >= 0)
		MUST(posix_spawn_file_actions_adddup2(&actions, c->err[1], STDERR_FILENO));
#ifdef __GLIBC__
	MUST(posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1));
#else
	(void)syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
#endif

	/* the defaults that programs expect: the threads of this process block all signals, and the
	 * process ignores some */
	sigemptyset(&none);
	sigfillset(&all);
	MUST(posix_spawnattr_init(&attr));
	MUST(posix_spawnattr_setsigmask(&attr, &none));
	MUST(posix_spawnattr_setsigdefault(&attr, &all));
	MUST(posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
	                                             POSIX_SPAWN_SETSIGDEF));

	result = posix_spawnp(&c->pid, c->spec->argv[0], &actions, &attr,
	                      (char *const *)(uintptr_t)c->spec->argv,
	                      (char *const *)(uintptr_t)c->env);
	MUST(posix_spawnattr_destroy(&attr));
	MUST(posix_spawn_file_actions_destroy(&actions));
	return result;
}

/* ---- killing and reaping ---- */

static void
kill_group(const struct child *c, int signal)
{
	(void)kill(-c->pid, signal);
}

/* Processes that did not end within KILL_MS after SIGKILL, e.g. because they are blocked in the
 * kernel on a file server that does not answer. They are reaped when another program is run after
 * their end. If there are more than MAX_LINGERING, the others remain zombies. */
static pthread_mutex_t lingering_mu = PTHREAD_MUTEX_INITIALIZER;
static pid_t lingering[MAX_LINGERING]; /* lingering_mu; 0: none */

static void
leave_behind(pid_t pid)
{
	WITH_LOCK(&lingering_mu);

	for (size_t i = 0; i < ARRAY_LEN(lingering); i++) {
		if (lingering[i] == 0) {
			lingering[i] = pid;
			return;
		}
	}
}

static void
reap_lingering(void)
{
	WITH_LOCK(&lingering_mu);

	for (size_t i = 0; i < ARRAY_LEN(lingering); i++) {
		siginfo_t info = { 0 };

		if (lingering[i] != 0 &&
		    (waitid(P_PID, (id_t)lingering[i], &info, WEXITED | WNOHANG) != 0 ||
		     info.si_pid))
			lingering[i] = 0;
	}
}

/* Waits for the process and reaps it. The caller has either seen the process end or has killed it.
 */
static bool
reap(struct child *c, struct error *err)
{
	int64_t left_ns, deadline_ns = clock_mono(&clock_real) + KILL_MS * NS_PER_MS;
	siginfo_t info = { 0 };

	while (!info.si_pid) {
		struct pollfd end = { .fd = c->exited, .events = POLLIN };

		if (waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG) != 0 && errno != EINTR)
			return err_errno(err, errno, "its end is not known");
		left_ns = deadline_ns - clock_mono(&clock_real);
		if (!info.si_pid && left_ns <= 0) {
			leave_behind(c->pid);
			return err_set(err, ERR_TIMEOUT, "was killed and does not end");
		}
		if (!info.si_pid)
			(void)poll(&end, 1, c->exited >= 0 ? (int)(left_ns / NS_PER_MS) + 1 : 1);
	}
	c->result.exit_code = info.si_code == CLD_EXITED ? info.si_status : -1;
	c->result.signal = info.si_code == CLD_EXITED ? 0 : info.si_status;
	return true;
}

static bool
start(struct child *c, struct error *err)
{
	int result = spawn(c);

	if (result != 0) {
		err_errno(err, result, "cannot be started");
		if (result == ENOTDIR)
			err->code = ERR_NOT_FOUND;
		else if (result == ENOEXEC || result == EISDIR)
			err->code = ERR_FORBIDDEN;
		return false;
	}
	fd_close(&c->out[1]);
	fd_close(&c->err[1]);
	c->exited = (int)syscall(SYS_pidfd_open, c->pid, 0);
	if (c->exited >= 0)
		return true;
	err_errno(err, errno, "pidfd_open");
	kill_group(c, SIGKILL);
	(void)reap(c, &(struct error){ 0 });
	return false;
}

/* ---- output ---- */

/* Reads once. Returns false when no (more) bytes are available now; at end of file it also closes
 * the descriptor. */
static bool
read_some(int *fd, char bytes[READ_SIZE], size_t *ret)
{
	ssize_t n;

	if (*fd < 0)
		return false;
	do
		n = read(*fd, bytes, READ_SIZE);
	while (n < 0 && errno == EINTR);
	if (n > 0) {
		*ret = (size_t)n;
		return true;
	}
	if (n == 0 || errno != EAGAIN)
		fd_close(fd);
	return false;
}

/* Returns true when more bytes may be available. */
static bool
take_out(struct child *c)
{
	struct buf *out = &c->result.out;
	char bytes[READ_SIZE];
	size_t n;

	if (c->is_too_long || !read_some(&c->out[0], bytes, &n))
		return false;
	buf_add(out, bytes, n);
	explicit_bzero(bytes, n);
	c->is_too_long = !buf_ok(out);
	return true;
}

static bool
take_err(struct child *c)
{
	struct buf *text = &c->result.err;
	char bytes[READ_SIZE];
	size_t n;

	if (!read_some(&c->err[0], bytes, &n))
		return false;
	if (text->len + n > text->max)
		buf_consume(text, text->len + n - text->max);
	buf_add(text, bytes, n);
	return true;
}

/* Reads the output that the program wrote before it ended. The amount of standard error is bounded,
 * because a background process may continue to write. */
static void
take_rest(struct child *c)
{
	for (size_t n = 0; n < MIB(1) && take_err(c); n += READ_SIZE)
		;
	while (take_out(c))
		;
}

/* ---- waiting ---- */

static void
cancel(void *fd)
{
	wake_ring(*(int *)fd);
}

/* Collects output until the program ends. Returns false when the program has to be killed. */
static bool
wait_for_end(struct child *c, struct error *err)
{
	for (;;) {
		struct pollfd fds[] = { { c->cancelled, POLLIN, 0 },
			                { c->exited, POLLIN, 0 },
			                { c->out[0], POLLIN, 0 },
			                { c->err[0], POLLIN, 0 } };
		int64_t left_ns = c->deadline_ns - clock_mono(&clock_real);

		if (left_ns <= 0)
			return err_set(err, ERR_TIMEOUT, "did not end in time and was killed");
		/* rounded up; at most a minute, because poll() takes an int */
		if (left_ns > 60 * NS_PER_SEC)
			left_ns = 60 * NS_PER_SEC;
		(void)poll(fds, ARRAY_LEN(fds), (int)((left_ns + NS_PER_MS - 1) / NS_PER_MS));
		if (fds[0].revents)
			return err_set(err, ERR_CANCELLED, "cancelled");
		if (fds[1].revents)
			return true;
		if (fds[2].revents)
			take_out(c);
		if (fds[3].revents)
			take_err(c);
		if (c->is_too_long)
			return true;
	}
}

static bool
attend(struct child *c, struct call *call, struct error *err)
{
	struct error ignored;
	bool is_ok;

	cancel_hook(call->cancel, cancel, &c->cancelled);
	is_ok = wait_for_end(c, err);
	/* output during the grace period is still collected */
	if (!is_ok && err->code == ERR_TIMEOUT && c->spec->grace_ms > 0) {
		kill_group(c, SIGTERM);
		c->deadline_ns = clock_deadline(clock_mono(&clock_real),
		                                c->spec->grace_ms * NS_PER_MS);
		if (wait_for_end(c, &ignored))
			take_rest(c);
	}
	cancel_unhook(call->cancel, cancel, &c->cancelled);
	if (is_ok)
		take_rest(c);
	if (!is_ok || c->is_too_long)
		kill_group(c, SIGKILL);
	if (!reap(c, is_ok ? err : &ignored) || !is_ok)
		return false;
	if (c->is_too_long)
		return err_set(err, ERR_INVALID, "wrote more than %zu bytes", c->result.out.max);
	return true;
}

/* ---- the complete run ---- */

static void
fini(struct child *c)
{
	fd_close(&c->in);
	fd_close(&c->out[0]);
	fd_close(&c->out[1]);
	fd_close(&c->err[0]);
	fd_close(&c->err[1]);
	fd_close(&c->cancelled);
	fd_close(&c->exited);
	free(c->env);
	child_result_fini(&c->result);
}

bool
child_run(struct call *call, const struct child_spec *spec, struct child_result *ret,
          struct error *err)
{
	int64_t timeout_ms = spec->timeout_ms > 0 ? spec->timeout_ms : DEFAULT_TIMEOUT_MS;
	CLEANUP(fini) struct child c = {
		.spec = spec,
		.env = environment(spec->env),
		.in = -1,
		.out = { -1, -1 },
		.err = { -1, -1 },
		.cancelled = -1,
		.exited = -1,
		.deadline_ns = call_deadline_real(call, timeout_ms * NS_PER_MS),
		.result = {
			/* the output usually contains credentials */
			.out = BUF_SECRET(spec->max_output ? spec->max_output : LIMIT_CHILD_OUTPUT),
			.err = BUF_INIT(LIMIT_CHILD_STDERR),
		},
	};

	if (cancel_is_fired(call->cancel))
		return err_set(err, ERR_CANCELLED, "%s: cancelled", spec->argv[0]);
	reap_lingering();
	if (!open_all(&c, err) || !start(&c, err) || !attend(&c, call, err))
		return err_wrap(err, "%s", spec->argv[0]);
	child_result_fini(ret);
	*ret = c.result;
	c.result = CHILD_RESULT_INIT;
	return true;
}
