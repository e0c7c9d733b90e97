/* base/file.c: reading in bounds, replacing by rename.
 *
 * A crash at any point of file_replace() leaves the old content or the new, never a mixture; what may stay
 * is a temporary file ".NAME.XXXXXX". The order matters: content to disk, then the name, then the folder.
 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

static void
fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static ssize_t
read_retrying(int fd, void *bytes, size_t len)
{
	ssize_t n;

	do
		n = read(fd, bytes, len);
	while (n < 0 && errno == EINTR);
	return n;
}

static bool
too_large(const struct buf *b, struct error *err)
{
	return err_set(err, ERR_INVALID, "larger than %zu bytes", b->max);
}

/* The size that fstat() tells is only a hint: /proc and pipes tell 0. It lets most files be read into
 * memory that does not move, and refuses large ones before reading. */
static bool
read_start(int fd, struct buf *b, struct error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_errno(err, errno, "stat");
	if (S_ISDIR(st.st_mode))
		return err_set(err, ERR_INVALID, "is a directory");
	if (S_ISREG(st.st_mode) && st.st_size > 0) {
		if ((uint64_t)st.st_size > b->max - b->len || !buf_reserve(b, (size_t)st.st_size))
			return too_large(b, err);
	}
	return true;
}

static bool
read_chunks(int fd, char *bytes, size_t size, struct buf *b, struct error *err)
{
	ssize_t n;

	while ((n = read_retrying(fd, bytes, size)) > 0) {
		if ((size_t)n > b->max - b->len)
			return too_large(b, err);
		buf_add(b, bytes, (size_t)n);
	}
	return n == 0 || err_errno(err, errno, "read");
}

/* Most files are configuration, and many of those hold secrets: nothing stays on the stack. */
static bool
read_all(int fd, struct buf *b, struct error *err)
{
	char bytes[4096];
	bool is_ok = read_start(fd, b, err) && read_chunks(fd, bytes, sizeof(bytes), b, err);

	explicit_bzero(bytes, sizeof(bytes));
	return is_ok;
}

bool
file_read(const char *path, struct buf *b, struct error *err)
{
	CLEANUP(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	size_t len = b->len;

	if (fd < 0)
		return err_errno(err, errno, "%s", path);
	if (!read_all(fd, b, err)) {
		buf_truncate(b, len);
		return err_wrap(err, "%s", path);
	}
	return true;
}

static bool
write_all(int fd, struct str content, struct error *err)
{
	while (content.len) {
		ssize_t n = write(fd, content.ptr, content.len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, errno, "write");
		content = str_skip(content, (size_t)n);
	}
	return true;
}

static bool
write_temporary(int fd, struct str content, unsigned mode, struct error *err)
{
	if (fchmod(fd, (mode_t)mode) < 0)
		return err_errno(err, errno, "chmod");
	if (!write_all(fd, content, err))
		return false;
	if (fsync(fd) < 0)
		return err_errno(err, errno, "fsync");
	return true;
}

/* Makes the rename last. Some network file systems cannot sync a folder and say EINVAL, ignoring. */
static bool
sync_folder(const char *folder, struct error *err)
{
	CLEANUP(fd_close) int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return err_errno(err, errno, "open %s", folder);
	if (fsync(fd) < 0 && errno != EINVAL)
		return err_errno(err, errno, "fsync %s", folder);
	return true;
}

static bool
replace_in(const char *folder, const char *path, char *temporary, struct str content, unsigned mode,
           struct error *err)
{
	CLEANUP(fd_close) int fd = mkostemp(temporary, O_CLOEXEC);

	if (fd < 0)
		return err_errno(err, errno, "create a temporary file in %s", folder);
	if (!write_temporary(fd, content, mode, err)) {
		unlink(temporary);
		return false;
	}
	if (rename(temporary, path) < 0) {
		err_errno(err, errno, "rename");
		unlink(temporary);
		return false;
	}
	return sync_folder(folder, err);
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
