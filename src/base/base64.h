/* base/base64.h: bytes as text (RFC 4648, the standard alphabet with padding). */
#ifndef CCMD_BASE_BASE64_H
#define CCMD_BASE_BASE64_H

#include "base/buf.h"

void base64_add(struct buf *b, struct str bytes);

/** Appends the bytes; white space may stand anywhere, as long values are often folded. Bits left
 * over before the padding are not looked at, as in Go. False when it is not base64; what was
 * decoded by then is in b. */
NODISCARD bool base64_decode(struct str text, struct buf *b);

#endif
