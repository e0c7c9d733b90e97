/* base/buf.h: a byte buffer that grows up to a bound.
 *
 * ptr is never NULL and always terminated (the terminator is not counted), so it can be used as a C
 * string when the content has no NUL. Adding past the bound drops what does not fit and sets
 * is_over, which stays set until buf_reset(): check it once, at the end, with buf_ok(). That keeps
 * builders free of error handling while memory stays bounded whatever comes in.
 */
#ifndef CCMD_BASE_BUF_H
#define CCMD_BASE_BUF_H

#include <stdarg.h>

#include "base/error.h"
#include "base/str.h"

struct buf {
	char *ptr;
	size_t len;
	size_t cap;     /* 0: ptr is the shared empty string */
	size_t max;     /* most bytes it will hold, without the terminator */
	bool is_over;   /* something did not fit */
	bool is_secret; /* memory is overwritten before it is freed, also what it grew out of */
};

extern char buf_empty[1];

#define BUF_INIT(max_bytes) ((struct buf){ .ptr = buf_empty, .max = (max_bytes) })

/** A buffer in a char array that starts with "": it never allocates, and must not be given to
 * buf_fini(), buf_take() or buf_wipe(). */
#define BUF_FIXED(array) \
	((struct buf){ .ptr = (array), .cap = sizeof(array), .max = sizeof(array) - 1 })

/** For what must not stay behind in freed memory. */
#define BUF_SECRET(max_bytes) \
	((struct buf){ .ptr = buf_empty, .max = (max_bytes), .is_secret = true })

void buf_init(struct buf *b, size_t max_bytes);
/** Frees the memory and leaves an empty buffer of the same kind. For CLEANUP(buf_fini). */
void buf_fini(struct buf *b);
/** Empties it and keeps the memory. */
void buf_reset(struct buf *b);

void buf_add(struct buf *b, const void *bytes, size_t len);
void buf_add_str(struct buf *b, struct str s);
void buf_add_c(struct buf *b, const char *text);
void buf_add_char(struct buf *b, char c);
/** Appends foreign text to a message of one line: a control character becomes a blank, a byte that
 * is not UTF-8 becomes '?'. */
void buf_add_clean(struct buf *b, struct str text);
void buf_addf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
void buf_addv(struct buf *b, const char *fmt, va_list args) PRINTF_LIKE(2, 0);

/** Makes room for n more bytes behind len, so that they can be written in place; then buf_grown().
 * False when the bound does not allow it. */
NODISCARD bool buf_reserve(struct buf *b, size_t n);
void buf_grown(struct buf *b, size_t n);

/** Removes the first n bytes. Cost: moves the rest. */
void buf_consume(struct buf *b, size_t n);
/** Cuts to len bytes (no effect when shorter). */
void buf_truncate(struct buf *b, size_t len);

struct str buf_str(const struct buf *b);
/** True when everything that was added fits. */
bool buf_ok(const struct buf *b);
/** Hands over the terminated memory, free() it; leaves an empty buffer. */
char *buf_take(struct buf *b);

/** Overwrites the memory before freeing it, where a secret got into a buffer that was not made for
 * one. */
void buf_wipe(struct buf *b);

#endif
