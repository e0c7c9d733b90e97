/* base/sandbox_internal.h: the two parts of the sandbox, for sandbox.c only.
 *
 * Threads: as in base/sandbox.h, before the first thread starts.
 */
#ifndef CCMD_BASE_SANDBOX_INTERNAL_H
#define CCMD_BASE_SANDBOX_INTERNAL_H

#include "base/sandbox.h"

/** Returns false and adds a line to notes when the kernel does not support it. */
bool seccomp_enter(struct buf *notes);
bool landlock_enter(const struct sandbox_config *config, struct buf *notes);

#endif
