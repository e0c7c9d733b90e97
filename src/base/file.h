/* base/file.h: reads and replaces whole files, within bounds.
 *
 * Every read is bounded in size by the buffer and in time by LIMIT_FILE_WAIT_MS. A replaced file
 * has either its old or its new content, also after a crash.
 *
 * Threads: every function may be called from any thread.
 */
#ifndef CCMD_BASE_FILE_H
#define CCMD_BASE_FILE_H

#include "base/buf.h"
#include "base/error.h"

/** Appends the content of a regular file, pipe or /dev/stdin to b. Fails with ERR_NOT_FOUND,
 * ERR_FORBIDDEN, ERR_INVALID when path is a directory or larger than the buffer allows,
 * ERR_TIMEOUT when the writer of a pipe does not close it within LIMIT_FILE_WAIT_MS. The message
 * contains the path and the reason. On failure the content of b is unchanged. */
NODISCARD bool file_read(const char *path, struct buf *b, struct error *err);

/** Replaces path: writes a temporary file in the same folder, calls fsync, renames it, and calls
 * fsync on the folder. mode is as in chmod. Fails with ERR_FORBIDDEN, ERR_NOT_FOUND when the
 * folder does not exist, or ERR_INTERNAL. On failure the old content stays and no temporary file
 * is left. If only the last step fails, the file is replaced nevertheless: the function logs a
 * warning and returns true. A symbolic link is replaced, not followed. */
NODISCARD bool file_replace(const char *path, struct str content, unsigned mode, struct error *err);

/** Writes all bytes, also after interruptions by signals. Returns false with errno on failure. */
NODISCARD bool fd_write_all(int fd, struct str bytes);
/** Writes to standard output what a command prints. If that is not possible, standard error says
 * why, and false is returned. */
NODISCARD bool fd_print(struct str text);
/** Closes *fd unless it is negative, and sets it to -1; also for CLEANUP(). */
void fd_close(int *fd);

/** Appends `path`, made absolute against `folder` when it is relative. */
void file_join(struct buf *b, struct str folder, struct str path);
/** Returns the part before the last '/', or "." when there is no '/'. */
struct str file_folder(struct str path);

#endif
