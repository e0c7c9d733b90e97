/* base/quote.h: quotes foreign text for messages.
 *
 * The format is that of Go's %q, so that messages equal those of the Go controllers: double quotes,
 * with escapes for quotes, backslashes, control characters and bytes that are not valid UTF-8.
 * Quoted text cannot forge a log line.
 *
 * Threads: every function may be called from any thread; buffer and arena belong to the caller.
 */
#ifndef CCMD_BASE_QUOTE_H
#define CCMD_BASE_QUOTE_H

#include "base/arena.h"
#include "base/buf.h"

/** Appends the quoted text; a long text is truncated to 300 bytes and "…". */
void quote_add(struct buf *b, struct str text);

/** Returns the quoted text as a terminated string in the arena, for a %s. */
const char *quote_z(struct arena *arena, struct str text);

#endif
