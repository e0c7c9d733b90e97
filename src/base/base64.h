/* base/base64.h: Base64 encoding and decoding (RFC 4648, the standard alphabet with padding).
 *
 * Threads: every function may be called from any thread; the buffer belongs to the caller.
 */
#ifndef CCMD_BASE_BASE64_H
#define CCMD_BASE_BASE64_H

#include "base/buf.h"

void base64_add(struct buf *b, struct str bytes);

/** Appends the decoded bytes. White space is allowed anywhere, because long values are often
 * folded. Surplus bits before the padding are ignored, as in Go. Returns false when the text is
 * not Base64; b then holds the bytes that were decoded before the error. */
NODISCARD bool base64_decode(struct str text, struct buf *b);

#endif
