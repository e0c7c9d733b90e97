/* base/file.h: whole files, bounded. */
#ifndef CCMD_BASE_FILE_H
#define CCMD_BASE_FILE_H

#include "base/buf.h"
#include "base/error.h"

/** Appends a regular file, pipe or /dev/stdin to b; ERR_NOT_FOUND, ERR_FORBIDDEN, ERR_INVALID when
 * it is larger than the buffer's bound or a directory, ERR_TIMEOUT when a pipe is not closed by
 * its writer within LIMIT_FILE_WAIT_MS. The message names the path and the reason. On failure b
 * holds what it held before. */
NODISCARD bool file_read(const char *path, struct buf *b, struct error *err);

/** Replaces path by a temporary file in the same folder, fsync, rename, fsync of the folder. mode
 * as in chmod. ERR_FORBIDDEN, ERR_NOT_FOUND without the folder, ERR_INTERNAL. On failure the old
 * content stays and no temporary file is left. If only the last step fails, the file is replaced
 * nevertheless: the function returns true and logs a warning. A symbolic link is replaced, not
 * followed. */
NODISCARD bool file_replace(const char *path, struct str content, unsigned mode, struct error *err);

/** Writes all of it, whatever a signal interrupts; false with errno otherwise. */
NODISCARD bool fd_write_all(int fd, struct str bytes);
/** Closes *fd unless it is negative, and leaves -1; also for CLEANUP(). */
void fd_close(int *fd);

/** Appends `path`, made absolute against `folder` when it is relative. */
void file_join(struct buf *b, struct str folder, struct str path);
/** The part before the last '/', "." without one. */
struct str file_folder(struct str path);

#endif
