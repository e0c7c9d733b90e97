/* operator/reference.h: the checks and the commands as documents show them, and the completion of
 * shells. Used by tools/reference only. */
#ifndef CCMD_OPERATOR_REFERENCE_H
#define CCMD_OPERATOR_REFERENCE_H

#include "base/buf.h"

/** Appends the page docs/reference/checks.md, as Markdown. */
void checks_reference(struct buf *out);

/** Appends the commands of the man page docs/ccmd.8, as mdoc(7). */
void commands_man(struct buf *out);

/** Each appends the whole file for one shell: the commands and the flags of the controller. */
void completion_bash(struct buf *out);
void completion_zsh(struct buf *out);
void completion_fish(struct buf *out);

#endif
