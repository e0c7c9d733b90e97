/* Each test runs what it tries in a child, since there is no way out of a sandbox. The child's exit
 * code says the line of the first expectation that failed, in its lower 8 bits, never 0. */
#include "base/sandbox.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"

static char folder[] = "/tmp/ccmd-sandbox.XXXXXX";
static char readable[64], written[64], outside[64]; /* files in folders of their own */

#define EXPECT(claim)                              \
	do {                                       \
		if (!(claim))                      \
			_exit(__LINE__ % 255 + 1); \
	} while (0)

/* Refused by seccomp: the call is not there. */
#define EXPECT_NO_CALL(call) EXPECT((call) == -1 && errno == ENOSYS)

static unsigned
enter(void)
{
	CLEANUP(buf_fini) struct buf notes = BUF_INIT(4096);
	const struct str reads[] = { str_c(readable), STR("") }, writes[] = { str_c(written) };

	return sandbox_enter(&(struct sandbox_config){ reads, ARRAY_LEN(reads), writes,
	                                               ARRAY_LEN(writes) },
	                     &notes);
}

/* What this machine offers, tried out in a child of its own. */
static unsigned
offered(void)
{
	pid_t child = fork();
	int status;

	if (child == 0)
		_exit((int)enter());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return (unsigned)WEXITSTATUS(status);
}

static void
in_child(void (*attempt)(void), unsigned needed)
{
	pid_t child;
	int status;

	if ((offered() & needed) != needed)
		skip();
	child = fork();
	if (child == 0) {
		EXPECT((enter() & needed) == needed);
		attempt();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0); /* or 256 * (line % 255 + 1) */
}

/* ---- seccomp ---- */

static void
try_programs(void)
{
	char *const argv[] = { "true", NULL };
	pid_t child;

	EXPECT_NO_CALL(execve("/bin/true", argv, environ));
	EXPECT_NO_CALL(fork());
	EXPECT_NO_CALL(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
	EXPECT_NO_CALL(syscall(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0, 0, 0));
	EXPECT_NO_CALL(syscall(SYS_clone3, NULL, 0));
	EXPECT(posix_spawn(&child, "/bin/true", NULL, NULL, argv, environ) == ENOSYS);
}

static void
no_program_is_started(void **state)
{
	(void)state;
	in_child(try_programs, SANDBOX_SECCOMP);
}

static void
try_powers(void)
{
	char c = 'x';

	EXPECT_NO_CALL(socket(AF_PACKET, SOCK_RAW, 0));
	EXPECT_NO_CALL(socket(AF_VSOCK, SOCK_STREAM, 0));
	EXPECT_NO_CALL(socket(AF_ALG, SOCK_SEQPACKET, 0));
	EXPECT_NO_CALL(kill(getppid(), 0));
	EXPECT_NO_CALL((int)syscall(SYS_tgkill, getppid(), getppid(), 0));
	EXPECT_NO_CALL(ioctl(0, TIOCSTI, &c));
	EXPECT_NO_CALL(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0));
	EXPECT_NO_CALL(chmod(readable, 0777));
	EXPECT_NO_CALL(symlink("/", "/tmp/ccmd-sandbox-link"));
	EXPECT_NO_CALL(setuid(0));
	EXPECT_NO_CALL(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 1, 1 }));
	EXPECT_NO_CALL((int)syscall(SYS_ptrace, 0, 0, 0, 0));
	EXPECT_NO_CALL((int)syscall(SYS_memfd_create, "x", 0));
	EXPECT_NO_CALL((int)syscall(SYS_bpf, 0, NULL, 0));
	EXPECT_NO_CALL((int)syscall(SYS_io_uring_setup, 1, NULL));
	EXPECT_NO_CALL((int)syscall(SYS_unshare, CLONE_NEWUSER));
	EXPECT_NO_CALL((int)syscall(SYS_process_vm_readv, 1, NULL, 0, NULL, 0, 0));
	EXPECT_NO_CALL((int)syscall(SYS_mount, "a", "b", "c", 0, NULL));
}

static void
nothing_is_done_that_we_do_not_need(void **state)
{
	(void)state;
	in_child(try_powers, SANDBOX_SECCOMP);
}

static void
try_code(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *data = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	EXPECT(data != MAP_FAILED);
	EXPECT_NO_CALL(mprotect(data, page, PROT_READ | PROT_EXEC));
	EXPECT(mprotect(data, page, PROT_READ) == 0);
	EXPECT_NO_CALL(syscall(SYS_mmap, NULL, page, PROT_WRITE | PROT_EXEC,
	                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	EXPECT_NO_CALL((intptr_t)mmap(NULL, page, PROT_READ | PROT_EXEC,
	                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	EXPECT(munmap(data, page) == 0);
}

static void
data_does_not_become_code(void **state)
{
	(void)state;
	in_child(try_code, SANDBOX_SECCOMP);
}

static void *
add_one(void *arg)
{
	++*(int *)arg;
	return NULL;
}

static void
try_libraries(void)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM }, *found;
	pthread_t thread;
	int n = 0, pair[2];
	void *library;

	EXPECT(pthread_create(&thread, NULL, add_one, &n) == 0);
	EXPECT(pthread_setname_np(pthread_self(), "name") == 0);
	EXPECT(pthread_join(thread, NULL) == 0 && n == 1);
	EXPECT(getaddrinfo("localhost", "80", &hints, &found) == 0);
	freeaddrinfo(found);
	library = dlopen("libnss_compat.so.2", RTLD_NOW);
	EXPECT(library);
	EXPECT(dlclose(library) == 0);
	EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	EXPECT(eventfd(0, EFD_NONBLOCK) >= 0);
	EXPECT(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0 || errno == EAFNOSUPPORT);
	EXPECT(!isatty(pair[0]) && errno == ENOTTY);
	EXPECT(raise(SIGURG) == 0); /* ignored by default; as abort() does it */
}

static void
libraries_still_work(void **state)
{
	(void)state;
	in_child(try_libraries, SANDBOX_NONE);
}

static void
try_abort(void)
{
	pid_t child = fork();
	int status;

	EXPECT(child >= 0);
	if (child == 0) {
		(void)enter();
		abort();
	}
	EXPECT(waitpid(child, &status, 0) == child);
	EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void
it_can_still_abort(void **state)
{
	pid_t child = fork();
	int status;

	(void)state;
	if (child == 0) {
		try_abort();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* ---- Landlock ---- */

static bool
can_read(const char *path)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(1 << 20);
	struct error err;

	return file_read(path, &text, &err);
}

static bool
can_replace(const char *path)
{
	struct error err;

	return file_replace(path, STR("new"), 0600, &err);
}

static void
try_reading(void)
{
	CLEANUP(buf_fini) struct buf sibling = BUF_INIT(256);

	EXPECT(can_read(readable));
	EXPECT(can_read(written));
	EXPECT(!can_read(outside) && errno == EACCES);
	EXPECT(open("/", O_RDONLY | O_DIRECTORY) == -1 && errno == EACCES);
	EXPECT(open("/usr/bin/env", O_RDONLY) == -1 && errno == EACCES);
	EXPECT(can_read("/etc/passwd"));
	EXPECT(can_read("/proc/self/stat"));
	EXPECT(open("/dev/urandom", O_RDONLY) >= 0);
	EXPECT(open("/dev/null", O_WRONLY) >= 0);
	/* what others will have renamed there */
	buf_add_str(&sibling, file_folder(str_c(readable)));
	buf_add_c(&sibling, "/other");
	EXPECT(can_read(sibling.ptr));
}

static void
only_what_is_configured_is_read(void **state)
{
	(void)state;
	in_child(try_reading, SANDBOX_LANDLOCK);
}

static void
try_writing(void)
{
	EXPECT(can_replace(written));
	EXPECT(open(written, O_WRONLY | O_TRUNC) >= 0);
	EXPECT(!can_replace(readable));
	EXPECT(!can_replace(outside));
	EXPECT(open(readable, O_WRONLY) == -1 && errno == EACCES);
	EXPECT(unlink(readable) == -1 && errno == EACCES);
	EXPECT(open("/etc/ccmd-sandbox-test", O_WRONLY | O_CREAT, 0600) == -1 && errno == EACCES);
}

static void
only_what_a_flag_names_is_written(void **state)
{
	(void)state;
	in_child(try_writing, SANDBOX_LANDLOCK);
}

static char target[sizeof(readable)];

static void
try_link(void)
{
	EXPECT(can_read(readable));
	EXPECT(can_read(target));
	EXPECT(!can_read(outside));
}

/* The configuration names a link in one folder to a file in another. */
static void
links_are_followed_to_their_folder(void **state)
{
	CLEANUP(buf_fini) struct buf link = BUF_INIT(256);

	(void)state;
	memcpy(target, readable, sizeof(target));
	buf_addf(&link, "%s/links/link", folder);
	memcpy(readable, link.ptr, link.len + 1);
	in_child(try_link, SANDBOX_LANDLOCK);
	memcpy(readable, target, sizeof(target));
}

static void
a_file_in_the_root_folder_is_reported(void **state)
{
	CLEANUP(buf_fini) struct buf notes = BUF_INIT(4096);
	int ends[2], status;
	pid_t child;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		(void)sandbox_enter(&(struct sandbox_config){ &STR("/kubeconfig"), 1, NULL, 0 },
		                    &notes);
		_exit(write(ends[1], notes.ptr, notes.len) < 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	close(ends[1]);
	assert_true(buf_reserve(&notes, 2048));
	buf_grown(&notes, (size_t)read(ends[0], notes.ptr, 2048));
	close(ends[0]);
	assert_true(str_contains(buf_str(&notes), STR("/kubeconfig is in /")) ||
	            str_contains(buf_str(&notes), STR("Landlock is not in force")));
}

/* ---- what holds without a sandbox ---- */

static void
try_hardened(void)
{
	struct rlimit core;
	struct stat st;

	sandbox_no_cores();
	sandbox_harden();
	EXPECT(getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_cur == 0 && core.rlim_max == 0);
	EXPECT(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0);
	EXPECT(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
	EXPECT(close(creat(written, 0666)) == 0 && stat(written, &st) == 0);
	EXPECT((umask(0) & 0777) == 077);
}

static void
it_keeps_to_itself(void **state)
{
	pid_t child = fork();
	int status;

	(void)state;
	if (child == 0) {
		try_hardened();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void
results_have_names(void **state)
{
	(void)state;
	assert_string_equal(sandbox_result_name(SANDBOX_NONE), "none");
	assert_string_equal(sandbox_result_name(SANDBOX_SECCOMP | SANDBOX_LANDLOCK),
	                    "seccomp+landlock");
}

/* ---- the files ---- */

static bool
put(const char *subfolder, const char *name, char *ret_path, size_t size)
{
	struct buf path = { .ptr = ret_path, .cap = size, .max = size - 1 };
	struct error err;

	ret_path[0] = '\0';
	buf_addf(&path, "%s/%s", folder, subfolder);
	if (mkdir(ret_path, 0700) < 0 && errno != EEXIST)
		return false;
	buf_addf(&path, "/%s", name);
	return file_replace(ret_path, STR("text"), 0600, &err);
}

static bool
make_files(void)
{
	char other[64], link[64];

	if (!mkdtemp(folder))
		return false;
	if (!put("read", "other", other, sizeof(other)) ||
	    !put("read", "file", readable, sizeof(readable)) ||
	    !put("write", "file", written, sizeof(written)) ||
	    !put("outside", "file", outside, sizeof(outside)) ||
	    !put("links", "link", link, sizeof(link)))
		return false;
	return unlink(link) == 0 && symlink(readable, link) == 0;
}

static int
forget(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_program_is_started),
		cmocka_unit_test(nothing_is_done_that_we_do_not_need),
		cmocka_unit_test(data_does_not_become_code),
		cmocka_unit_test(libraries_still_work),
		cmocka_unit_test(it_can_still_abort),
		cmocka_unit_test(only_what_is_configured_is_read),
		cmocka_unit_test(only_what_a_flag_names_is_written),
		cmocka_unit_test(links_are_followed_to_their_folder),
		cmocka_unit_test(a_file_in_the_root_folder_is_reported),
		cmocka_unit_test(it_keeps_to_itself),
		cmocka_unit_test(results_have_names),
	};
	int failed;

	if (!make_files())
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	(void)nftw(folder, forget, 8, FTW_DEPTH | FTW_PHYS);
	return failed;
}
