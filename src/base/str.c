/* base/str.c: see str.h. */
#include "base/str.h"

#include <string.h>

struct str
str_c(const char *text)
{
	return text ? (struct str){ text, strlen(text) } : STR_EMPTY;
}

struct str
str_n(const char *ptr, size_t len)
{
	return ptr ? (struct str){ ptr, len } : STR_EMPTY;
}

struct str
str_pack(char **at, struct str s)
{
	struct str copy = { *at, s.len };

	if (s.len > 0)
		memcpy(*at, s.ptr, s.len);
	*at += s.len;
	return copy;
}

bool
str_eq(struct str a, struct str b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

bool
str_eq_c(struct str a, const char *b)
{
	return str_eq(a, str_c(b));
}

bool
str_is_among(struct str s, const struct str list[], size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (str_eq(s, list[i]))
			return true;
	}
	return false;
}

static char
lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool
str_eq_nocase(struct str a, struct str b)
{
	if (a.len != b.len)
		return false;
	for (size_t i = 0; i < a.len; i++) {
		if (lower(a.ptr[i]) != lower(b.ptr[i]))
			return false;
	}
	return true;
}

int
str_cmp(struct str a, struct str b)
{
	size_t len = a.len < b.len ? a.len : b.len;
	int order = len > 0 ? memcmp(a.ptr, b.ptr, len) : 0;

	if (order != 0)
		return order;
	return (a.len > b.len) - (a.len < b.len);
}

bool
str_starts(struct str s, struct str prefix)
{
	return s.len >= prefix.len && str_eq(str_head(s, prefix.len), prefix);
}

bool
str_ends(struct str s, struct str suffix)
{
	return s.len >= suffix.len && str_eq(str_skip(s, s.len - suffix.len), suffix);
}

ptrdiff_t
str_index(struct str s, char c)
{
	const char *at = s.len > 0 ? memchr(s.ptr, c, s.len) : NULL;

	return at ? at - s.ptr : -1;
}

bool
str_contains(struct str s, struct str part)
{
	if (part.len == 0)
		return true;
	return s.len > 0 && memmem(s.ptr, s.len, part.ptr, part.len);
}

struct str
str_skip(struct str s, size_t n)
{
	if (n > s.len)
		n = s.len;
	return n > 0 ? (struct str){ s.ptr + n, s.len - n } : s;
}

struct str
str_head(struct str s, size_t n)
{
	return (struct str){ s.ptr, n < s.len ? n : s.len };
}

static bool
is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

struct str
str_trim(struct str s)
{
	while (s.len > 0 && is_space(s.ptr[0]))
		s = str_skip(s, 1);
	while (s.len > 0 && is_space(s.ptr[s.len - 1]))
		s.len--;
	return s;
}

bool
str_split(struct str *rest, char sep, struct str *ret)
{
	if (!rest->ptr)
		return false;
	if (!str_cut(*rest, sep, ret, rest)) {
		*ret = *rest;
		*rest = (struct str){ NULL, 0 };
	}
	return true;
}

bool
str_cut(struct str s, char sep, struct str *ret_before, struct str *ret_after)
{
	ptrdiff_t at = str_index(s, sep);

	if (at < 0)
		return false;
	*ret_before = str_head(s, (size_t)at);
	*ret_after = str_skip(s, (size_t)at + 1);
	return true;
}

bool
str_cut_last(struct str s, char sep, struct str *ret_before, struct str *ret_after)
{
	const char *at = s.len > 0 ? memrchr(s.ptr, sep, s.len) : NULL;

	if (!at)
		return false;
	*ret_before = str_head(s, (size_t)(at - s.ptr));
	*ret_after = str_skip(s, (size_t)(at - s.ptr) + 1);
	return true;
}

static bool
is_digit(struct str s)
{
	return s.len > 0 && s.ptr[0] >= '0' && s.ptr[0] <= '9';
}

bool
str_to_i64(struct str s, int64_t min, int64_t max, int64_t *ret)
{
	bool is_negative = s.len > 0 && s.ptr[0] == '-';
	int64_t value = 0;

	s = str_skip(s, is_negative);
	if (s.len == 0)
		return false;
	for (; is_digit(s); s = str_skip(s, 1)) {
		int digit = s.ptr[0] - '0';

		/* A negative number is accumulated as a negative value, because INT64_MIN has no
		 * positive counterpart. */
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, is_negative ? -digit : digit, &value))
			return false;
	}
	if (s.len > 0 || value < min || value > max)
		return false;
	*ret = value;
	return true;
}

/* ---- durations: the rules, and the limits, of Go's time.ParseDuration ---- */

#define DURATION_MAX (UINT64_C(1) << 63) /* magnitude of INT64_MIN */

static const struct {
	struct str name;
	uint64_t ns;
} duration_units[] = {
	/* The first matching unit is taken, so "ms" precedes "m". The two micro signs are U+00B5
	 * and U+03BC. */
	{ STR("ns"), 1 },
	{ STR("us"), 1000 },
	{ STR("\xc2\xb5s"), 1000 },
	{ STR("\xce\xbcs"), 1000 },
	{ STR("ms"), NS_PER_MS },
	{ STR("s"), NS_PER_SEC },
	{ STR("m"), 60 * NS_PER_SEC },
	{ STR("h"), 3600 * NS_PER_SEC },
};

static bool
take_whole(struct str *s, uint64_t *ret)
{
	uint64_t value = 0;

	for (; is_digit(*s); *s = str_skip(*s, 1)) {
		uint64_t digit = (uint64_t)(s->ptr[0] - '0');

		if (value > (DURATION_MAX - digit) / 10)
			return false;
		value = value * 10 + digit;
	}
	*ret = value;
	return true;
}

/* Digits after the 18th are accepted and ignored. */
static double
take_fraction(struct str *s)
{
	double fraction = 0, scale = 1;

	for (int n = 0; is_digit(*s); *s = str_skip(*s, 1), n++) {
		if (n >= 18)
			continue;
		fraction = fraction * 10 + (s->ptr[0] - '0');
		scale *= 10;
	}
	return fraction / scale;
}

static bool
take_unit(struct str *s, uint64_t *ret_ns)
{
	for (size_t i = 0; i < ARRAY_LEN(duration_units); i++) {
		if (str_starts(*s, duration_units[i].name)) {
			*s = str_skip(*s, duration_units[i].name.len);
			*ret_ns = duration_units[i].ns;
			return true;
		}
	}
	return false;
}

/* Parses one number with its unit, such as "1.5h", and adds it to *sum. */
static bool
take_term(struct str *s, uint64_t *sum)
{
	size_t before = s->len, n_digits;
	double fraction = 0;
	uint64_t value, unit;

	if (!take_whole(s, &value))
		return false;
	n_digits = before - s->len;
	if (str_starts(*s, STR("."))) {
		*s = str_skip(*s, 1);
		fraction = take_fraction(s);
		n_digits = before - s->len - 1;
	}
	if (n_digits == 0 || !take_unit(s, &unit) || value > DURATION_MAX / unit)
		return false;
	value = value * unit + (uint64_t)(fraction * (double)unit);
	*sum += value;
	return value <= DURATION_MAX && *sum <= DURATION_MAX;
}

bool
str_to_duration_ns(struct str s, int64_t *ret)
{
	bool is_negative = str_starts(s, STR("-"));
	uint64_t sum = 0;

	if (is_negative || str_starts(s, STR("+")))
		s = str_skip(s, 1);
	if (s.len == 0)
		return false;
	if (str_eq(s, STR("0"))) {
		*ret = 0;
		return true;
	}
	while (s.len > 0) {
		if (!take_term(&s, &sum))
			return false;
	}
	if (!is_negative && sum >= DURATION_MAX)
		return false;
	*ret = is_negative ? (int64_t)(0 - sum) : (int64_t)sum;
	return true;
}

/* ---- characters, and words ---- */

bool
str_to_bool(struct str s, bool *ret)
{
	static const char *const yes[] = { "1", "t", "T", "TRUE", "true", "True" };
	static const char *const no[] = { "0", "f", "F", "FALSE", "false", "False" };

	for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
		if (str_eq_c(s, yes[i]) || str_eq_c(s, no[i])) {
			*ret = str_eq_c(s, yes[i]);
			return true;
		}
	}
	return false;
}

bool
str_is_digits(struct str s)
{
	for (size_t i = 0; i < s.len; i++) {
		if (s.ptr[i] < '0' || s.ptr[i] > '9')
			return false;
	}
	return s.len > 0;
}

bool
str_is_visible(struct str s)
{
	for (size_t i = 0; i < s.len; i++) {
		if (s.ptr[i] <= ' ' || s.ptr[i] > '~')
			return false;
	}
	return true;
}

bool
char_is_in(char c, const char *set)
{
	return c != '\0' && strchr(set, c);
}

int
str_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

uint64_t
str_hash(struct str s)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < s.len; i++) {
		hash ^= (unsigned char)s.ptr[i];
		hash *= UINT64_C(0x100000001b3);
	}
	return hash;
}

/* ---- UTF-8 ---- */

static bool
is_continuation(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

size_t
str_utf8_len(struct str s)
{
	unsigned char first, second, low, high;
	size_t len;

	if (s.len == 0)
		return 0;
	first = (unsigned char)s.ptr[0];
	if (first < 0x80)
		return 1;
	if (first < 0xc2 || first > 0xf4)
		return 0;
	len = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
	if (len > s.len)
		return 0;
	/* the valid range of the second byte (RFC 3629, section 4), which excludes overlong forms
	 * and surrogates */
	low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
	high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
	second = (unsigned char)s.ptr[1];
	if (second < low || second > high)
		return 0;
	for (size_t i = 2; i < len; i++) {
		if (!is_continuation(s.ptr[i]))
			return 0;
	}
	return len;
}

bool
str_next_char(struct str *rest, struct str_char *ret)
{
	static const struct {
		uint32_t first, last;
	} controls[] = {
		{ 0x00, 0x1f },     { 0x7f, 0x9f },     { 0x061c, 0x061c },
		{ 0x200e, 0x200f }, { 0x2028, 0x202e }, { 0x2066, 0x2069 },
	};
	size_t len = str_utf8_len(*rest);

	if (rest->len == 0)
		return false;
	*ret = (struct str_char){ .bytes = str_head(*rest, len ? len : 1), .is_valid = len > 0 };
	ret->code = (unsigned char)rest->ptr[0];
	if (len > 1)
		ret->code &= 0x7fU >> len;
	for (size_t i = 1; i < len; i++)
		ret->code = ret->code << 6 | ((unsigned char)rest->ptr[i] & 0x3f);
	for (size_t i = 0; i < ARRAY_LEN(controls) && ret->is_valid; i++)
		ret->is_control |= ret->code >= controls[i].first && ret->code <= controls[i].last;
	*rest = str_skip(*rest, ret->bytes.len);
	return true;
}

struct str
str_utf8_head(struct str s, size_t max)
{
	size_t len = max;

	if (s.len <= max)
		return s;
	while (len > 0 && max - len < 3 && is_continuation(s.ptr[len]))
		len--;
	/* More than three continuation bytes in a row are not UTF-8, so no sequence needs
	 * protection. */
	return str_head(s, is_continuation(s.ptr[len]) ? max : len);
}
