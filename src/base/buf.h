/* base/buf.h: a byte buffer that grows up to a bound.
 *
 * ptr is never NULL and always terminated; len does not count the terminator. The content can
 * therefore be used as a C string when it contains no NUL. An addition beyond the bound is cut off
 * and sets is_over, which stays set until buf_reset(). Callers check it once, after the last
 * addition, with buf_ok(): code that builds a text needs no error handling, and hostile input
 * cannot make the buffer grow past its bound.
 *
 * Threads: a buffer has no lock; one thread uses it at a time.
 */
#ifndef CCMD_BASE_BUF_H
#define CCMD_BASE_BUF_H

#include <stdarg.h>

#include "base/error.h"
#include "base/str.h"

struct arena;

struct buf {
	char *ptr;
	size_t len;
	size_t cap;     /* 0: ptr is the shared empty string */
	size_t max;     /* largest content in bytes, without the terminator */
	bool is_over;   /* an addition exceeded max */
	bool is_secret; /* memory is overwritten before it is freed, also when the buffer grows */
};

extern char buf_empty[1];

#define BUF_INIT(max_bytes) ((struct buf){ .ptr = buf_empty, .max = (max_bytes) })

/** A buffer in a char array that starts with "". It never allocates, and must not be passed to
 * buf_fini(), buf_take() or buf_wipe(). */
#define BUF_FIXED(array) \
	((struct buf){ .ptr = (array), .cap = sizeof(array), .max = sizeof(array) - 1 })

/** A buffer for secrets, which must not remain in freed memory. */
#define BUF_SECRET(max_bytes) \
	((struct buf){ .ptr = buf_empty, .max = (max_bytes), .is_secret = true })

/** Frees the memory and leaves an empty buffer of the same kind. For CLEANUP(buf_fini). */
void buf_fini(struct buf *b);
/** Removes the content and keeps the memory. */
void buf_reset(struct buf *b);

void buf_add(struct buf *b, const void *bytes, size_t len);
void buf_add_str(struct buf *b, struct str s);
void buf_add_c(struct buf *b, const char *text);
void buf_add_char(struct buf *b, char c);
/** Appends foreign text to a one-line message: a control character (str_next_char()) becomes a
 * blank, a byte that is not valid UTF-8 becomes '?'. */
void buf_add_clean(struct buf *b, struct str text);
/** Appends a text and a line break. The text begins at the column of the first line, which the
 * caller has filled up to there. Lines end at blanks, so that they are no longer than width where
 * that is possible, and further lines begin at the same column. width 0: the text is one line. */
void buf_add_wrapped(struct buf *b, struct str text, size_t column, size_t width);
void buf_addf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
void buf_addv(struct buf *b, const char *fmt, va_list args) PRINTF_LIKE(2, 0);
/** buf_addv() with the arguments after fmt, the last named parameter of the calling function. */
#define BUF_ADD_ARGS(b, fmt)             \
	do {                             \
		va_list args_;           \
		va_start(args_, fmt);    \
		buf_addv(b, fmt, args_); \
		va_end(args_);           \
	} while (0)

/** Reserves n more bytes after the content, for a caller that writes them in place and then calls
 * buf_grown(). Returns false when the bound does not allow it. */
NODISCARD bool buf_reserve(struct buf *b, size_t n);
void buf_grown(struct buf *b, size_t n);

/** Removes the first n bytes. Cost: moves the rest. */
void buf_consume(struct buf *b, size_t n);
/** Truncates the content to len bytes; has no effect when it is shorter. */
void buf_truncate(struct buf *b, size_t len);

struct str buf_str(const struct buf *b);
/** Returns true when every addition was stored in full. */
bool buf_ok(const struct buf *b);
/** Hands the terminated memory to the caller, who frees it, and leaves an empty buffer. */
char *buf_take(struct buf *b);

/** Overwrites the memory, then frees it: for a secret in a buffer that was not created with
 * BUF_SECRET(). */
void buf_wipe(struct buf *b);

/** Appends foreign text in quotes, in the format of Go's %q, so that messages equal those of the Go
 * controllers: escapes for quotes, backslashes, control characters and bytes that are not valid
 * UTF-8. Quoted text cannot forge a log line. A long text is truncated to 300 bytes and "…". */
void quote_add(struct buf *b, struct str text);
/** Returns the quoted text as a terminated string in the arena, for a %s. */
const char *quote_z(struct arena *arena, struct str text);

/** Appends bytes as Base64 (RFC 4648, the standard alphabet with padding). */
void base64_add(struct buf *b, struct str bytes);
/** Appends the decoded bytes. White space is allowed anywhere, because long values are often
 * folded. Surplus bits before the padding are ignored, as in Go. Returns false when the text is
 * not Base64; b then holds the bytes that were decoded before the error. */
NODISCARD bool base64_decode(struct str text, struct buf *b);

#endif
