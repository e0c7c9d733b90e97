/* base/sandbox.h: restricts what this process may do after its start.
 *
 * seccomp allows only the system calls that this program and its libraries make. Any other call
 * fails with ENOSYS, because a C library that finds a newer call missing falls back to an older
 * one. The process cannot start programs or create processes, memory cannot become executable
 * except that of a file (dlopen), and sockets are limited to IPv4, IPv6, UNIX and netlink. Landlock
 * allows reading only in the folders of the configuration, the system's trust store, name service
 * files and libraries (getaddrinfo loads some at run time), and writing only where a flag names an
 * output file. Where the kernel supports it, Landlock also denies signals to and abstract sockets
 * of other processes. The rules name folders, because files are replaced by rename. Not restricted
 * are the network (the addresses of API servers and clouds change) and UNIX sockets that have a
 * path.
 *
 * Child processes inherit both, so sandbox_enter() is not called when exec plugins or hooks are
 * configured. An older kernel supports less or nothing: that adds a line to the notes and is not a
 * failure. A build with a sanitizer has no seccomp filter, because its runtime needs more calls.
 *
 * Threads: main() calls these functions before the first thread starts, in this order:
 * sandbox_no_cores(); unless --sandbox=off, sandbox_harden(); then everything that has to be opened
 * first (notify_setup()); then sandbox_enter(). With --sandbox=off a debugger, perf and strace work
 * as on any program, and only core files are still refused. The commands for operators call
 * sandbox_harden() before they read their flags, and sandbox_enter() without a config when they
 * have read the configuration; seccomp then applies to all threads.
 */
#ifndef CCMD_BASE_SANDBOX_H
#define CCMD_BASE_SANDBOX_H

#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"

struct sandbox_config {
	/* Folders, and files, whose folder is allowed as well as the folder of their present link
	 * target. Empty paths are skipped. */
	const struct str *read_paths;
	size_t n_read_paths;
	const struct str *write_paths; /* the same; these may also be read */
	size_t n_write_paths;
};

enum sandbox_result {
	SANDBOX_NONE = 0,
	SANDBOX_SECCOMP = 1,
	SANDBOX_LANDLOCK = 2,
};

/** config may be NULL: files are not restricted then. Applies what the kernel supports and returns
 * the applied parts, combined with |. A line is added to notes for each part that is missing or
 * weaker than intended. */
unsigned sandbox_enter(const struct sandbox_config *config, struct buf *notes);

/** "seccomp+landlock", "seccomp", "landlock" or "none": for the log. */
const char *sandbox_result_name(unsigned result);

/** Disables core files, which would contain secrets, for this process and its children. */
void sandbox_no_cores(void);
/** Makes the process not dumpable (only root can attach a debugger or read /proc/PID/mem), prevents
 * new privileges through set-uid programs, and makes files that it creates readable by their owner
 * only. Children inherit the last two. */
void sandbox_harden(void);

#endif
