/* base/file.c: bounded reads, and replacement by rename.
 *
 * A crash at any point of file_replace() leaves the old content or the new content, never a
 * mixture; a temporary file ".NAME.XXXXXX" may remain. The order is essential: the content must be
 * on disk before the rename, and the rename before the fsync of the folder.
 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"

void
fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

bool
fd_write_all(int fd, struct str bytes)
{
	while (bytes.len > 0) {
		ssize_t n = write(fd, bytes.ptr, bytes.len);

		if (n < 0 && errno != EINTR)
			return false;
		bytes = str_skip(bytes, n > 0 ? (size_t)n : 0);
	}
	return true;
}

bool
fd_print(struct str text)
{
	if (fd_write_all(STDOUT_FILENO, text))
		return true;
	dprintf(STDERR_FILENO, "standard output cannot be written: %s\n", strerror(errno));
	return false;
}

/* A regular file is read without waiting. A pipe or terminal (/dev/stdin, /dev/fd/63 of a shell's
 * <(command)) is read until its writers have closed it, for a limited time: a FIFO in the place of
 * a credential file must not block the reading thread without limit. A FIFO without a writer counts
 * as empty. After the deadline, errno is EAGAIN. */
static ssize_t
read_retrying(int fd, void *bytes, size_t len, int64_t deadline_ns)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int64_t left_ns;
	ssize_t n;

	for (;;) {
		n = read(fd, bytes, len);
		if (n >= 0 || (errno != EINTR && errno != EAGAIN))
			return n;
		if (errno == EINTR)
			continue;
		left_ns = deadline_ns - clock_mono(&clock_real);
		if (left_ns <= 0 || poll(&p, 1, (int)(left_ns / NS_PER_MS) + 1) == 0)
			return n;
	}
}

static bool
too_large(const struct buf *b, struct error *err)
{
	return err_set(err, ERR_INVALID, "larger than %zu bytes", b->max);
}

static bool
read_all(int fd, struct buf *b, struct error *err)
{
	int64_t deadline_ns = clock_mono(&clock_real) + LIMIT_FILE_WAIT_MS * NS_PER_MS;
	char bytes[4096];
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st) < 0)
		return err_errno(err, errno, "stat");
	if (S_ISDIR(st.st_mode))
		return err_set(err, ERR_INVALID, "is a directory");
	/* The size is only a hint: it is 0 for pipes and for files of /proc. It allows most files
	 * to be read without moving the buffer, and large files to be refused before they are
	 * read. */
	if (S_ISREG(st.st_mode) && st.st_size > 0 &&
	    ((uint64_t)st.st_size > b->max - b->len || !buf_reserve(b, (size_t)st.st_size)))
		return too_large(b, err);

	while ((n = read_retrying(fd, bytes, sizeof(bytes), deadline_ns)) > 0 &&
	       (size_t)n <= b->max - b->len)
		buf_add(b, bytes, (size_t)n);
	explicit_bzero(bytes, sizeof(bytes)); /* many files contain secrets */
	if (n > 0)
		return too_large(b, err);
	if (n < 0 && errno == EAGAIN)
		return err_set(err, ERR_TIMEOUT,
		               "is a pipe whose writer did not close it within %d s",
		               LIMIT_FILE_WAIT_MS / 1000);
	return n == 0 || err_errno(err, errno, "read");
}

bool
file_read(const char *path, struct buf *b, struct error *err)
{
	CLEANUP(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	size_t len = b->len;

	if (fd < 0)
		return err_errno(err, errno, "%s", path);
	if (!read_all(fd, b, err)) {
		buf_truncate(b, len);
		return err_wrap(err, "%s", path);
	}
	return true;
}

/* Makes the rename durable. Some network file systems cannot sync a folder and return EINVAL, which
 * is ignored. Other failures are only logged: readers of the file already see the new content, so a
 * caller that continued with the old content would contradict the file. */
static void
sync_folder(const char *folder, const char *path)
{
	CLEANUP(fd_close) int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct error err;

	if (fd >= 0 && (fsync(fd) == 0 || errno == EINVAL))
		return;
	err_errno(&err, errno, "sync %s", folder);
	log_warn("a file was replaced, but a power failure may bring its old content back",
	         LOG_CSTR("file", path), LOG_ERR(&err));
}

static bool
replace_in(const char *folder, const char *path, char *temporary, struct str content, unsigned mode,
           struct error *err)
{
	CLEANUP(fd_close) int fd = mkostemp(temporary, O_CLOEXEC);

	if (fd < 0)
		return err_errno(err, errno, "create a temporary file in %s", folder);
	if (fchmod(fd, (mode_t)mode) < 0) {
		err_errno(err, errno, "chmod");
	} else if (!fd_write_all(fd, content)) {
		err_errno(err, errno, "write");
	} else if (fsync(fd) < 0) {
		err_errno(err, errno, "fsync");
	} else if (rename(temporary, path) < 0) {
		err_errno(err, errno, "rename");
	} else {
		sync_folder(folder, path);
		return true;
	}
	unlink(temporary);
	return false;
}

bool
file_replace(const char *path, struct str content, unsigned mode, struct error *err)
{
	CLEANUP(buf_fini) struct buf folder = BUF_INIT(PATH_MAX), temporary = BUF_INIT(PATH_MAX);
	const char *slash = strrchr(path, '/');

	buf_add_str(&folder, file_folder(str_c(path)));
	buf_addf(&temporary, "%s/.%s.XXXXXX", folder.ptr, slash ? slash + 1 : path);
	if (!buf_ok(&temporary))
		return err_set(err, ERR_INVALID, "%s: the path is too long", path);
	if (!replace_in(folder.ptr, path, temporary.ptr, content, mode, err))
		return err_wrap(err, "replace %s", path);
	return true;
}

void
file_join(struct buf *b, struct str folder, struct str path)
{
	if (!str_starts(path, STR("/")) && folder.len) {
		buf_add_str(b, folder);
		if (!str_ends(folder, STR("/")))
			buf_add_char(b, '/');
	}
	buf_add_str(b, path);
}

struct str
file_folder(struct str path)
{
	const char *slash = memrchr(path.ptr, '/', path.len);

	if (!slash)
		return STR(".");
	if (slash == path.ptr)
		return str_head(path, 1);
	return str_head(path, (size_t)(slash - path.ptr));
}
