/* base/buf.c: see buf.h.
 *
 * An addition that exceeds the bound is cut off, and later additions are dropped: the content is
 * always a prefix of the complete text.
 */
#include "base/buf.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"

enum {
	BUF_FIRST = 64,
};

char buf_empty[1];

/* Leaves b as it was after its initialisation. */
static void
forget(struct buf *b)
{
	*b = (struct buf){ .ptr = buf_empty, .max = b->max, .is_secret = b->is_secret };
}

void
buf_fini(struct buf *b)
{
	if (b->is_secret && b->cap > 0)
		explicit_bzero(b->ptr, b->cap);
	if (b->cap > 0)
		free(b->ptr);
	forget(b);
}

void
buf_reset(struct buf *b)
{
	b->is_over = false;
	buf_truncate(b, 0);
}

/* Allocates room for len bytes (len <= max) and the terminator. */
static void
grow(struct buf *b, size_t len)
{
	size_t cap = b->cap ? b->cap : BUF_FIRST;

	if (len < b->cap)
		return;
	while (cap <= len && cap <= SIZE_MAX / 2)
		cap *= 2;
	if (cap > b->max)
		cap = b->max + 1;
	if (b->is_secret) {
		/* copied by hand, because realloc() could leave a copy in the old memory */
		char *memory = xmalloc(cap);

		memcpy(memory, b->ptr, b->len);
		if (b->cap > 0) {
			explicit_bzero(b->ptr, b->cap);
			free(b->ptr);
		}
		b->ptr = memory;
	} else {
		b->ptr = xreallocarray(b->cap ? b->ptr : NULL, cap, 1);
	}
	b->cap = cap;
	b->ptr[b->len] = '\0';
}

/* Allocates room for n bytes, or for as many of them as the bound allows. */
static size_t
reserve_some(struct buf *b, size_t n)
{
	size_t left = b->max - b->len;

	if (b->is_over)
		return 0;
	if (n > left) {
		b->is_over = true;
		n = left;
	}
	if (n > 0)
		grow(b, b->len + n);
	return n;
}

void
buf_add(struct buf *b, const void *bytes, size_t len)
{
	size_t n = reserve_some(b, len);

	if (n == 0)
		return;
	memcpy(b->ptr + b->len, bytes, n);
	buf_grown(b, n);
}

void
buf_add_str(struct buf *b, struct str s)
{
	buf_add(b, s.ptr, s.len);
}

void
buf_add_c(struct buf *b, const char *text)
{
	buf_add(b, text, strlen(text));
}

void
buf_add_char(struct buf *b, char c)
{
	buf_add(b, &c, 1);
}

void
buf_add_clean(struct buf *b, struct str text)
{
	for (struct str_char c; str_next_char(&text, &c);) {
		if (c.is_valid && !c.is_control)
			buf_add_str(b, c.bytes);
		else
			buf_add_char(b, c.is_valid ? ' ' : '?');
	}
}

/* Returns how many bytes of text go on a line: up to the last space within width or, without such a
 * space, up to the first one after it. */
static size_t
line_len(struct str text, size_t width)
{
	size_t len = text.len;

	if (text.len <= width)
		return text.len;
	for (size_t i = 0; i < text.len; i++) {
		if (text.ptr[i] != ' ')
			continue;
		if (i > width)
			return len < text.len ? len : i;
		len = i;
	}
	return len;
}

void
buf_add_wrapped(struct buf *b, struct str text, size_t column, size_t width)
{
	size_t room = width > column ? width - column : SIZE_MAX;

	for (;;) {
		size_t len = line_len(text, room);

		buf_add_str(b, str_head(text, len));
		buf_add_char(b, '\n');
		text = str_skip(text, len + 1);
		if (text.len == 0)
			return;
		buf_addf(b, "%*s", (int)column, "");
	}
}

void
buf_addf(struct buf *b, const char *fmt, ...)
{
	BUF_ADD_ARGS(b, fmt);
}

void
buf_addv(struct buf *b, const char *fmt, va_list args)
{
	va_list again;
	size_t room = b->is_over ? 0 : b->cap - b->len, n;
	int len;

	/* mostly the text fits into the memory that is there */
	va_copy(again, args);
	len = vsnprintf(room > 0 ? b->ptr + b->len : NULL, room, fmt, args);
	assert(len >= 0);
	n = reserve_some(b, (size_t)len);
	if (n > 0 && (size_t)len >= room)
		(void)vsnprintf(b->ptr + b->len, n + 1, fmt, again);
	va_end(again);
	b->len += n;
}

bool
buf_reserve(struct buf *b, size_t n)
{
	if (b->is_over || n > b->max - b->len)
		return false;
	if (n > 0)
		grow(b, b->len + n);
	return true;
}

void
buf_grown(struct buf *b, size_t n)
{
	assert(n == 0 || n < b->cap - b->len);
	b->len += n;
	if (b->cap > 0)
		b->ptr[b->len] = '\0';
}

void
buf_consume(struct buf *b, size_t n)
{
	if (n > b->len)
		n = b->len;
	if (n == 0)
		return;
	memmove(b->ptr, b->ptr + n, b->len - n);
	buf_truncate(b, b->len - n);
}

void
buf_truncate(struct buf *b, size_t len)
{
	if (len >= b->len)
		return;
	b->len = len;
	b->ptr[len] = '\0';
}

struct str
buf_str(const struct buf *b)
{
	return (struct str){ b->ptr, b->len };
}

bool
buf_ok(const struct buf *b)
{
	return !b->is_over;
}

char *
buf_take(struct buf *b)
{
	char *memory = b->cap ? b->ptr : xstrdup("");

	forget(b);
	return memory;
}

void
buf_wipe(struct buf *b)
{
	bool is_secret = b->is_secret;

	b->is_secret = true;
	buf_fini(b);
	b->is_secret = is_secret;
}

/* ---- quoted text ---- */

enum {
	QUOTE_MAX = 300, /* names and ids have at most 253 bytes */
};

void
quote_add(struct buf *b, struct str text)
{
	static const char plain[] = "\a\b\f\n\r\t\v\"\\", letters[] = "abfnrtv\"\\";
	struct str rest = str_utf8_head(text, QUOTE_MAX);

	buf_add_char(b, '"');
	for (struct str_char c; str_next_char(&rest, &c);) {
		const char *at = c.code > 0 && c.code < 0x80 ? strchr(plain, (int)c.code) : NULL;

		if (at && c.is_valid)
			buf_addf(b, "\\%c", letters[at - plain]);
		else if (!c.is_valid || (c.is_control && c.code < 0x80))
			buf_addf(b, "\\x%02x", (unsigned)c.code);
		else if (c.is_control)
			buf_addf(b, "\\u%04x", (unsigned)c.code);
		else
			buf_add_str(b, c.bytes);
	}
	buf_add_c(b, text.len > QUOTE_MAX ? "…\"" : "\"");
}

const char *
quote_z(struct arena *arena, struct str text)
{
	char memory[4 * QUOTE_MAX + 8] = "";
	struct buf b = BUF_FIXED(memory);

	quote_add(&b, text);
	return arena_strz(arena, buf_str(&b));
}

/* ---- Base64 ---- */

static const char base64_digits[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void
base64_add(struct buf *b, struct str bytes)
{
	for (; bytes.len; bytes = str_skip(bytes, 3)) {
		size_t n = bytes.len < 3 ? bytes.len : 3;
		unsigned bits = 0;

		for (size_t i = 0; i < 3; i++)
			bits = bits << 8 | (i < n ? (unsigned char)bytes.ptr[i] : 0);
		for (size_t i = 0; i < 4; i++)
			buf_add_char(b, i <= n ? base64_digits[bits >> (18 - 6 * i) & 63] : '=');
	}
}

bool
base64_decode(struct str text, struct buf *b)
{
	unsigned bits = 0, n_digits = 0, n_padding = 0;

	for (size_t i = 0; i < text.len; i++) {
		char c = text.ptr[i];

		if (char_is_in(c, " \t\n\r"))
			continue;
		if (c == '=') {
			n_padding++;
			continue;
		}
		if (!char_is_in(c, base64_digits) || n_padding)
			return false;
		bits = bits << 6 | (unsigned)(strchr(base64_digits, c) - base64_digits);
		if (n_digits++ % 4)
			buf_add_char(b, (char)(bits >> (6 - 2 * ((n_digits - 1) % 4))));
	}
	return n_padding <= 2 && (n_digits + n_padding) % 4 == 0;
}
