/* base/quote.h: foreign text made fit for a message.
 *
 * As Go's %q does it, so that our messages are those of other controllers: in double quotes, with
 * escapes for quotes, backslashes, control characters and bytes that are not UTF-8. What is quoted
 * can forge no log line.
 */
#ifndef CCMD_BASE_QUOTE_H
#define CCMD_BASE_QUOTE_H

#include "base/arena.h"
#include "base/buf.h"

/** Appends the quoted text; of long ones the first 300 bytes and "…". */
void quote_add(struct buf *b, struct str text);

/** The same as a terminated string in the arena, for a %s. */
const char *quote_z(struct arena *arena, struct str text);

#endif
