/* base/sandbox.h: what this process may still do, once it has started.
 *
 * seccomp: the system calls that we and our libraries make; any other gives ENOSYS, since a C
 * library that finds a newer call missing falls back to an older one. No program can be started, no
 * process made, no memory made executable but that of a file (dlopen), no socket opened but of
 * IPv4, IPv6, UNIX and netlink. Landlock: reading the folders of our configuration, the system's
 * trust store, name service files and libraries (getaddrinfo loads some at run time); writing only
 * where a flag names a file of ours; no signals to and no abstract sockets of others, where the
 * kernel knows how. Rules name folders, since files are replaced by rename. What stays open: the
 * network (the addresses of API servers and clouds change), and UNIX sockets that have a path.
 *
 * Both are inherited by children: with exec plugins or hooks, sandbox_enter() is not called. An old
 * kernel has less of it, or nothing: a line in notes, no failure. A build with a sanitizer has no
 * seccomp, as its runtime needs more calls.
 *
 * In main, before the first thread, and in this order: sandbox_no_cores(); unless --sandbox=off:
 * sandbox_harden(); what has to be opened first (notify_setup()); sandbox_enter(). With
 * --sandbox=off a debugger, perf and strace work as on any program, and only core files are still
 * refused.
 */
#ifndef CCMD_BASE_SANDBOX_H
#define CCMD_BASE_SANDBOX_H

#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"

struct sandbox_config {
	/* Files (their folder is meant, and that of what they link to now) and folders; empty ones
	 * are skipped. */
	const struct str *read_paths;
	size_t n_read_paths;
	const struct str *write_paths; /* the same; may be read too */
	size_t n_write_paths;
};

enum sandbox_result {
	SANDBOX_NONE = 0,
	SANDBOX_SECCOMP = 1,
	SANDBOX_LANDLOCK = 2,
};

/** Applies what the kernel offers; returns which of it, or-ed. A line is added to notes for each
 * thing that is missing or weaker than meant. */
unsigned sandbox_enter(const struct sandbox_config *config, struct buf *notes);

/** "seccomp+landlock", "seccomp", "landlock" or "none": for the log. */
const char *sandbox_result_name(unsigned result);

/** No core files, for us and our children: they would hold secrets. */
void sandbox_no_cores(void);
/** Not dumpable (no debugger and no reading of /proc/PID/mem, but by root), no new privileges by
 * set-uid programs, files of ours readable by us only. Children inherit the last two. */
void sandbox_harden(void);

#endif
