/* operator/reference.h: the checks and the commands as documents show them. Used by tools/reference
 * only. */
#ifndef CCMD_OPERATOR_REFERENCE_H
#define CCMD_OPERATOR_REFERENCE_H

#include "base/buf.h"

/** Appends the page docs/reference/checks.md, as Markdown. */
void checks_reference(struct buf *out);

/** Appends the commands of the man page docs/ccmd.8, as mdoc(7). */
void commands_man(struct buf *out);

#endif
