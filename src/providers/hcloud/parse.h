/* parse.h: values as Go's strconv and time packages read them, with their words for what is wrong (hcloud.md 1.2, 1.4).
 *
 * Each returns false and appends the reason to `why` when the text is none; *ret stays as it was.
 *
 * Threads: pure.
 */
#ifndef CCMD_HCLOUD_PARSE_H
#define CCMD_HCLOUD_PARSE_H

#include "base/buf.h"

/** Exactly 1 t T TRUE true True 0 f F FALSE false False: the empty text is none. */
NODISCARD bool hz_parse_bool(struct str text, bool *ret, struct buf *why);
/** "1h30m", "250ms", "0"; the empty text is none. */
NODISCARD bool hz_parse_duration(struct str text, int64_t *ret_ns, struct buf *why);
NODISCARD bool hz_parse_int(struct str text, int64_t *ret, struct buf *why);
/** A listener as Go names it: ":8233", "127.0.0.1:8233", "[::1]:8233", "localhost:8233"; *ret_host empty: all addresses. */
NODISCARD bool hz_parse_listener(struct str text, struct str *ret_host, int *ret_port);

#endif
