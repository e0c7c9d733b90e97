/* flags/reference.h: the page docs/reference/flags.md; not in the program. */
#ifndef CCMD_FLAGS_REFERENCE_H
#define CCMD_FLAGS_REFERENCE_H

#include "base/buf.h"

/** Appends the page, as Markdown: each flag with its type, its default and what becomes of it. */
void flags_reference(struct buf *out);

#endif
