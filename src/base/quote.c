/* base/quote.c: see quote.h. */
#include "base/quote.h"

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
