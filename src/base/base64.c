/* base/base64.c: see base64.h. */
#include "base/base64.h"

void
base64_add(struct buf *b, struct str bytes)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (; bytes.len; bytes = str_skip(bytes, 3)) {
		size_t n = bytes.len < 3 ? bytes.len : 3;
		unsigned bits = 0;

		for (size_t i = 0; i < 3; i++)
			bits = bits << 8 | (i < n ? (unsigned char)bytes.ptr[i] : 0);
		for (size_t i = 0; i < 4; i++)
			buf_add_char(b, i <= n ? digits[bits >> (18 - 6 * i) & 63] : '=');
	}
}

/* Returns the value of a Base64 digit, or -1 for any other character. */
static int
value_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+')
		return 62;
	return c == '/' ? 63 : -1;
}

static bool
is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

bool
base64_decode(struct str text, struct buf *b)
{
	unsigned bits = 0, n_digits = 0, n_padding = 0;

	for (size_t i = 0; i < text.len; i++) {
		int value = value_of(text.ptr[i]);

		if (is_space(text.ptr[i]))
			continue;
		if (text.ptr[i] == '=') {
			n_padding++;
			continue;
		}
		if (value < 0 || n_padding)
			return false;
		bits = bits << 6 | (unsigned)value;
		if (n_digits++ % 4)
			buf_add_char(b, (char)(bits >> (6 - 2 * ((n_digits - 1) % 4))));
	}
	return n_padding <= 2 && (n_digits + n_padding) % 4 == 0;
}
