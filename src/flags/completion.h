/* flags/completion.h: the commands and flags for the completion of shells. Used by tools/reference
 * only.
 *
 * Flags without effect are left out. A flag with few values offers these, any other one with a
 * value offers files.
 */
#ifndef CCMD_FLAGS_COMPLETION_H
#define CCMD_FLAGS_COMPLETION_H

#include "base/buf.h"

/** Each appends the whole file for one shell. */
void completion_bash(struct buf *out);
void completion_zsh(struct buf *out);
void completion_fish(struct buf *out);

#endif
