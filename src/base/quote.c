/* base/quote.c: see quote.h. */
#include "base/quote.h"

enum {
	QUOTE_MAX = 300, /* names and ids have at most 253 bytes */
};

static void
quote_ascii(struct buf *b, char c)
{
	static const char plain[] = "\a\b\f\n\r\t\v\"\\";
	static const char letters[] = "abfnrtv\"\\";
	const char *at = c ? strchr(plain, c) : NULL;

	if (at)
		buf_addf(b, "\\%c", letters[at - plain]);
	else if (c < 0x20 || c == 0x7f)
		buf_addf(b, "\\x%02x", (unsigned)(unsigned char)c);
	else
		buf_add_char(b, c);
}

/* The control characters U+0080 to U+009F are two bytes in UTF-8; the first byte is 0xc2. */
static bool
is_c1_control(struct str sequence)
{
	return sequence.len == 2 && (unsigned char)sequence.ptr[0] == 0xc2 &&
	       (unsigned char)sequence.ptr[1] < 0xa0;
}

void
quote_add(struct buf *b, struct str text)
{
	struct str rest = str_utf8_head(text, QUOTE_MAX);

	buf_add_char(b, '"');
	while (rest.len > 0) {
		size_t len = str_utf8_len(rest);

		if (len == 0)
			buf_addf(b, "\\x%02x", (unsigned)(unsigned char)rest.ptr[0]);
		else if (len == 1)
			quote_ascii(b, rest.ptr[0]);
		else if (is_c1_control(str_head(rest, len)))
			buf_addf(b, "\\u%04x", (unsigned)(unsigned char)rest.ptr[1]);
		else
			buf_add(b, rest.ptr, len);
		rest = str_skip(rest, len ? len : 1);
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
