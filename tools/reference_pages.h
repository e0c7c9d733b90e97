/* reference_pages.h: what tools/reference makes of the program's tables. Each function appends a
 * whole page, or the part of one. */
#ifndef CCMD_REFERENCE_PAGES_H
#define CCMD_REFERENCE_PAGES_H

#include "base/buf.h"

/* Pages as Markdown. */
void metrics_reference(struct buf *out);
void events_reference(struct buf *out);
void endpoints_reference(struct buf *out);
void flags_reference(struct buf *out);
void checks_reference(struct buf *out);

/* Parts of the man page docs/ccmd.8, as mdoc(7). */
void flags_man(struct buf *out);
void commands_man(struct buf *out);
/** Appends sentences of a help text, as mdoc(7). */
void man_add_text(struct buf *out, const char *text);

/* The file for one shell. */
void completion_bash(struct buf *out);
void completion_zsh(struct buf *out);
void completion_fish(struct buf *out);

#endif
