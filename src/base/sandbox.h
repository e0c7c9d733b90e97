/* base/sandbox.h: what this process may still do, once it has started.
 *
 * seccomp: the system calls that we and our libraries make; any other gives ENOSYS, since a C library that finds a newer
 * call missing falls back to an older one. Landlock: reading the folders of our configuration, the system's trust store,
 * name service files and libraries (getaddrinfo loads some at run time); writing only where a flag names a file of ours.
 * Rules name folders, since files are replaced by rename. Both are inherited by children, so with exec plugins or hooks
 * they are off. An old kernel has less, or nothing, of it: one line in the log, no failure.
 *
 * Called once, in main, before the first thread.
 */
#ifndef CCMD_BASE_SANDBOX_H
#define CCMD_BASE_SANDBOX_H

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"

struct sandbox_config {
	const struct str *read_paths; /* files (their folder is meant) and folders */
	size_t n_read_paths;
	const struct str *write_paths;
	size_t n_write_paths;
};

enum sandbox_result {
	SANDBOX_NONE = 0,
	SANDBOX_SECCOMP = 1,
	SANDBOX_LANDLOCK = 2,
};

/** Applies what the kernel offers; returns which of it, or-ed. Why something is missing is appended to notes. */
unsigned sandbox_enter(const struct sandbox_config *config, struct buf *notes);

/** Not dumpable, no core files, no new privileges, umask 077: whether or not there is a sandbox. */
void sandbox_harden(void);

#endif
