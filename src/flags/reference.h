/* flags/reference.h: the flags as documents show them. Used by tools/reference only. */
#ifndef CCMD_FLAGS_REFERENCE_H
#define CCMD_FLAGS_REFERENCE_H

#include "base/buf.h"

/** Appends the page docs/reference/flags.md, as Markdown: each flag with its type, its default and
 * its effect. */
void flags_reference(struct buf *out);

/** Appends the options of the man page docs/ccmd.8, as mdoc(7). */
void flags_man(struct buf *out);

/** Appends sentences of a help text, as mdoc(7). */
void man_add_text(struct buf *out, const char *text);

#endif
