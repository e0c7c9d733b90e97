/* parse.c: see parse.h. */
#include "providers/hcloud/parse.h"

#include <string.h>

#include "base/ip.h"
#include "base/quote.h"

enum {
	HTTP_PORT = 80, /* what Go listens on for an empty text */
};

static bool
is_one_of(struct str text, const char *const words[], size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (str_eq_c(text, words[i]))
			return true;
	}
	return false;
}

bool
hz_parse_bool(struct str text, bool *ret, struct buf *why)
{
	if (str_to_bool(text, ret))
		return true;
	buf_add_c(why, "strconv.ParseBool: parsing ");
	quote_add(why, text);
	buf_add_c(why, ": invalid syntax");
	return false;
}

/* ---- durations --------------------------------------------------------------------------------------- */

static bool
is_digit(struct str s)
{
	return s.len > 0 && s.ptr[0] >= '0' && s.ptr[0] <= '9';
}

static bool
skip_digits(struct str *s)
{
	bool has_any = is_digit(*s);

	while (is_digit(*s))
		*s = str_skip(*s, 1);
	return has_any;
}

/* "1", "1.5", ".5", "1."; not "." */
static bool
skip_number(struct str *s)
{
	bool has_digits = skip_digits(s);

	if (s->len > 0 && s->ptr[0] == '.') {
		*s = str_skip(*s, 1);
		has_digits |= skip_digits(s);
	}
	return has_digits;
}

static struct str
take_unit(struct str *s)
{
	struct str unit = *s;

	unit.len = 0;
	while (s->len > 0 && s->ptr[0] != '.' && !is_digit(*s)) {
		unit.len++;
		*s = str_skip(*s, 1);
	}
	return unit;
}

static bool
is_unit(struct str unit)
{
	static const char *const units[] = { "ns", "us", "µs", "μs", "ms", "s", "m", "h" };

	return is_one_of(unit, units, ARRAY_LEN(units));
}

/* The first thing that is wrong with a text that is no duration, in Go's words before its quotation. */
static void
explain_duration(struct str text, struct buf *why)
{
	struct str rest = text, unit;

	if (rest.len > 0 && (rest.ptr[0] == '-' || rest.ptr[0] == '+'))
		rest = str_skip(rest, 1);
	while (rest.len > 0 && skip_number(&rest)) {
		unit = take_unit(&rest);
		if (unit.len == 0) {
			buf_add_c(why, "time: missing unit in duration ");
			return;
		}
		if (!is_unit(unit)) {
			buf_add_c(why, "time: unknown unit ");
			quote_add(why, unit);
			buf_add_c(why, " in duration ");
			return;
		}
	}
	buf_add_c(why, "time: invalid duration ");
}

bool
hz_parse_duration(struct str text, int64_t *ret_ns, struct buf *why)
{
	if (str_to_duration_ns(text, ret_ns))
		return true;
	explain_duration(text, why);
	quote_add(why, text);
	return false;
}

/* ---- the rest ---------------------------------------------------------------------------------------- */

bool
hz_parse_int(struct str text, int64_t *ret, struct buf *why)
{
	struct str digits = text;

	if (digits.len > 1 && digits.ptr[0] == '+' && digits.ptr[1] != '-')
		digits = str_skip(digits, 1);
	if (str_to_i64(digits, INT64_MIN, INT64_MAX, ret))
		return true;
	if (digits.len > 0 && digits.ptr[0] == '-')
		digits = str_skip(digits, 1);
	buf_add_c(why, "strconv.Atoi: parsing ");
	quote_add(why, text);
	buf_add_c(why, skip_digits(&digits) && digits.len == 0 ? ": value out of range"
	                                                       : ": invalid syntax");
	return false;
}

static ptrdiff_t
last_colon(struct str text)
{
	ptrdiff_t at = -1;

	for (size_t i = 0; i < text.len; i++) {
		if (text.ptr[i] == ':')
			at = (ptrdiff_t)i;
	}
	return at;
}

static bool
parse_host(struct str host, struct str *ret)
{
	struct ip ip;

	if (str_starts(host, STR("[")) && str_ends(host, STR("]")))
		host = str_n(host.ptr + 1, host.len - 2);
	/* A text with a colon can only be an address. Names are resolved by the listener. */
	if (str_index(host, ':') >= 0 && !ip_parse(host, &ip))
		return false;
	*ret = host;
	return true;
}

bool
hz_parse_listener(struct str text, struct str *ret_host, int *ret_port)
{
	ptrdiff_t colon = last_colon(text);
	int64_t port = HTTP_PORT;

	if (text.len > 0 &&
	    (colon < 0 || !str_to_i64(str_skip(text, (size_t)colon + 1), 1, 65535, &port)))
		return false;
	if (!parse_host(str_head(text, colon < 0 ? 0 : (size_t)colon), ret_host))
		return false;
	*ret_port = (int)port;
	return true;
}
