/* base/sandbox_internal.h: the two halves of sandbox.c. */
#ifndef CCMD_BASE_SANDBOX_INTERNAL_H
#define CCMD_BASE_SANDBOX_INTERNAL_H

#include "base/sandbox.h"

/** False with a line in notes when the kernel has none. */
bool seccomp_enter(struct buf *notes);
bool landlock_enter(const struct sandbox_config *config, struct buf *notes);

#endif
