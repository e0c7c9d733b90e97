/* The calls that write are defined here, in front of the C library's, so that the n-th one can
 * fail. */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"

static int fail_at; /* counts down to the call that fails; 0: none does */
static int fail_errno;
static bool is_short; /* write() takes one byte at a time and is interrupted in between */
static bool interrupt_next;
static char folder[] = "/tmp/ccmd-file-XXXXXX";

static bool
fails_now(void)
{
	if (fail_at == 0 || --fail_at > 0)
		return false;
	errno = fail_errno;
	return true;
}

int
fchmod(int fd, mode_t mode)
{
	return fails_now() ? -1 : (int)syscall(SYS_fchmod, fd, mode);
}

ssize_t
write(int fd, const void *bytes, size_t len)
{
	if (is_short) {
		interrupt_next = !interrupt_next;
		if (interrupt_next) {
			errno = EINTR;
			return -1;
		}
		len = len > 1 ? 1 : len;
	}
	return fails_now() ? -1 : syscall(SYS_write, fd, bytes, len);
}

int
fsync(int fd)
{
	return fails_now() ? -1 : (int)syscall(SYS_fsync, fd);
}

int
rename(const char *from, const char *to)
{
	return fails_now() ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

static const char *
in_folder(const char *name)
{
	static char path[100];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static unsigned
count_files(void)
{
	DIR *dir = opendir(folder);
	unsigned n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 2; /* "." and ".." */
}

static int
make_folder(void **state)
{
	(void)state;
	memcpy(folder + sizeof(folder) - 7, "XXXXXX", 6);
	return mkdtemp(folder) ? 0 : -1;
}

static int
remove_folder(void **state)
{
	(void)state;
	unlink(in_folder("f"));
	rmdir(in_folder("d"));
	return rmdir(folder);
}

static void
put(struct str content)
{
	struct error err = { 0 };

	if (!file_replace(in_folder("f"), content, 0600, &err))
		fail_msg("%s", err.msg);
}

static void
check_content(const char *content)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1000);
	struct error err = { 0 };

	if (!file_read(in_folder("f"), &b, &err))
		fail_msg("%s", err.msg);
	assert_string_equal(b.ptr, content);
}

static void
replaces_whole_files(void **state)
{
	struct stat st;

	(void)state;
	put(STR("one"));
	check_content("one");
	put(STR("something longer"));
	check_content("something longer");
	put(STR(""));
	check_content("");
	assert_int_equal(count_files(), 1);
	assert_int_equal(stat(in_folder("f"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

static void
the_mode_does_not_depend_on_the_umask(void **state)
{
	mode_t before = umask(0777);
	struct error err;
	struct stat st;
	bool ok = file_replace(in_folder("f"), STR("x"), 0644, &err);

	(void)state;
	umask(before);
	assert_true(ok);
	assert_int_equal(stat(in_folder("f"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0644);
}

static void
short_and_interrupted_writes_go_on(void **state)
{
	(void)state;
	is_short = true;
	put(STR("all of it"));
	is_short = false;
	check_content("all of it");
}

/* fchmod, write, fsync and rename, each at its turn. */
static void
keeps_the_old_content_when_a_step_fails(void **state)
{
	struct error err;

	(void)state;
	put(STR("old"));
	for (int n = 1; n <= 4; n++) {
		fail_at = n;
		fail_errno = n % 2 ? EIO : EACCES;
		assert_false(file_replace(in_folder("f"), STR("new"), 0600, &err));
		assert_int_equal(fail_at, 0);
		assert_int_equal(err.code, n % 2 ? ERR_INTERNAL : ERR_FORBIDDEN);
		assert_non_null(strstr(err.msg, "/f: "));
		check_content("old");
		assert_int_equal(count_files(), 1);
	}
}

/* Replaces "f" while the fifth step fails. Returns what is logged. */
static const char *
replace_without_sync(int errnum)
{
	static char logged[1024];
	struct error err;
	int ends[2];

	memset(logged, 0, sizeof(logged));
	assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
	log_set_fd(ends[1]);
	fail_at = 5;
	fail_errno = errnum;
	assert_true(file_replace(in_folder("f"), STR("new"), 0600, &err));
	assert_int_equal(fail_at, 0);
	(void)!read(ends[0], logged, sizeof(logged) - 1);
	log_set_fd(STDERR_FILENO);
	close(ends[0]);
	close(ends[1]);
	return logged;
}

/* The file is replaced all the same: after an error, the caller would go on with the old
 * content. */
static void
warns_when_the_folder_was_not_synced(void **state)
{
	(void)state;
	assert_non_null(strstr(replace_without_sync(EIO), "warn  a file was replaced, but "));
	check_content("new");
	assert_string_equal(replace_without_sync(EINVAL), "");
	assert_int_equal(count_files(), 1);
}

static void
does_not_replace_a_folder(void **state)
{
	struct error err;

	(void)state;
	assert_int_equal(mkdir(in_folder("d"), 0700), 0);
	assert_false(file_replace(in_folder("d"), STR("x"), 0600, &err));
	assert_int_equal(err.code, ERR_INTERNAL);
	assert_int_equal(count_files(), 1);
	assert_false(file_replace(in_folder("none/f"), STR("x"), 0600, &err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
}

static void
reading_appends_within_the_bound(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(10);
	struct error err;

	(void)state;
	put(STR("12345"));
	assert_true(file_read(in_folder("f"), &b, &err));
	assert_true(file_read(in_folder("f"), &b, &err));
	assert_string_equal(b.ptr, "1234512345");
	assert_false(file_read(in_folder("f"), &b, &err));
	assert_int_equal(err.code, ERR_INVALID);
	assert_non_null(strstr(err.msg, "/f: larger than 10 bytes"));
	assert_string_equal(b.ptr, "1234512345");
	assert_true(buf_ok(&b));
}

static void
reading_says_what_is_wrong(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(10);
	struct error err;

	(void)state;
	assert_false(file_read(in_folder("none"), &b, &err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_non_null(strstr(err.msg, "/none: No such file"));
	assert_false(file_read(folder, &b, &err));
	assert_int_equal(err.code, ERR_INVALID);
	assert_non_null(strstr(err.msg, "is a directory"));
}

/* fstat() reports size 0 for them. */
static void
reads_files_without_a_size(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(10000), small = BUF_INIT(3);
	struct error err;

	(void)state;
	assert_true(file_read("/proc/self/stat", &b, &err));
	assert_true(b.len > 10);
	assert_false(file_read("/proc/self/stat", &small, &err));
	assert_int_equal(err.code, ERR_INVALID);
	assert_int_equal(small.len, 0);
}

static bool
read_pipe(const char *content, size_t len, struct buf *b, struct error *err)
{
	char path[40];
	int ends[2];
	bool ok;

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], content, len), len);
	close(ends[1]);
	snprintf(path, sizeof(path), "/dev/fd/%d", ends[0]);
	ok = file_read(path, b, err);
	close(ends[0]);
	return ok;
}

static void
reads_a_pipe(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(5000);
	struct error err;
	char large[5000] = { 'a' };

	(void)state;
	assert_true(read_pipe("hello", 5, &b, &err));
	assert_string_equal(b.ptr, "hello");
	assert_false(read_pipe(large, sizeof(large), &b, &err));
	assert_int_equal(err.code, ERR_INVALID);
	assert_int_equal(b.len, 5);
	assert_string_equal(b.ptr, "hello");
}

static bool is_time_over; /* poll() finds that all of the time has passed */

int
poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	struct timespec left = { .tv_sec = timeout_ms / 1000 };

	if (is_time_over)
		return 0;
	return (int)syscall(SYS_ppoll, fds, n, &left, NULL, 0);
}

static void *
write_late(void *arg)
{
	usleep(20 * 1000);
	(void)!write(*(int *)arg, "late", 4);
	close(*(int *)arg);
	return NULL;
}

/* Like that of a shell's <(command), which takes a moment. */
static void
waits_for_the_writer_of_a_pipe(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(5000);
	struct error err;
	pthread_t thread;
	char path[40];
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	snprintf(path, sizeof(path), "/dev/fd/%d", ends[0]);
	assert_int_equal(pthread_create(&thread, NULL, write_late, &ends[1]), 0);
	assert_true(file_read(path, &b, &err));
	assert_string_equal(b.ptr, "late");
	pthread_join(thread, NULL);
	close(ends[0]);
}

static void
a_pipe_is_not_waited_for_without_end(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(5000);
	struct error err;
	int fd;

	(void)state;
	assert_int_equal(mkfifo(in_folder("f"), 0600), 0);
	assert_true(file_read(in_folder("f"), &b, &err)); /* no process has it open for writing */
	assert_int_equal(b.len, 0);
	fd = open(in_folder("f"), O_RDWR | O_NONBLOCK);
	is_time_over = true;
	assert_false(file_read(in_folder("f"), &b, &err)); /* somebody has, and writes nothing */
	is_time_over = false;
	assert_int_equal(err.code, ERR_TIMEOUT);
	assert_non_null(strstr(err.msg, "/f: is a pipe whose writer did not close it within 10 s"));
	close(fd);
}

static void
check_join(struct str base, struct str path, const char *expected)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(100);

	file_join(&b, base, path);
	assert_string_equal(b.ptr, expected);
}

static void
joins_and_cuts_paths(void **state)
{
	(void)state;
	check_join(STR("/etc"), STR("ca.crt"), "/etc/ca.crt");
	check_join(STR("/"), STR("ca.crt"), "/ca.crt");
	check_join(STR("/etc"), STR("/run/ca.crt"), "/run/ca.crt");
	check_join(STR(""), STR("ca.crt"), "ca.crt");
	assert_true(str_eq(file_folder(STR("/etc/ca.crt")), STR("/etc")));
	assert_true(str_eq(file_folder(STR("a/b/c")), STR("a/b")));
	assert_true(str_eq(file_folder(STR("/ca.crt")), STR("/")));
	assert_true(str_eq(file_folder(STR("ca.crt")), STR(".")));
	assert_true(str_eq(file_folder(STR("")), STR(".")));
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		IN_FOLDER(replaces_whole_files),
		IN_FOLDER(the_mode_does_not_depend_on_the_umask),
		IN_FOLDER(short_and_interrupted_writes_go_on),
		IN_FOLDER(keeps_the_old_content_when_a_step_fails),
		IN_FOLDER(warns_when_the_folder_was_not_synced),
		IN_FOLDER(does_not_replace_a_folder),
		IN_FOLDER(reading_appends_within_the_bound),
		IN_FOLDER(reading_says_what_is_wrong),
		cmocka_unit_test(reads_files_without_a_size),
		cmocka_unit_test(reads_a_pipe),
		cmocka_unit_test(waits_for_the_writer_of_a_pipe),
		IN_FOLDER(a_pipe_is_not_waited_for_without_end),
		cmocka_unit_test(joins_and_cuts_paths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
