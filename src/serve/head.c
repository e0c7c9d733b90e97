/* serve/head.c: see head.h.
 *
 * The end of the head is found first; everything after that is parsed from complete lines, in
 * views into the caller's bytes. Each parser returns HEAD_WHOLE or the status of a refusal, so the
 * first problem decides.
 */
#include "serve/head.h"

#include "base/names.h"

enum {
	MAX_EMPTY_LINES = 4, /* before a request line (RFC 9112 2.2) */
	BAD_REQUEST = 400,
	LENGTH_REQUIRED = 411,
	CONTENT_TOO_LARGE = 413,
	FIELDS_TOO_LARGE = 431,
	VERSION_NOT_SUPPORTED = 505,
};

static const struct {
	struct str name;
	enum server_method method;
} methods[] = {
	{ { "GET", 3 }, SERVER_GET },       { { "HEAD", 4 }, SERVER_HEAD },
	{ { "POST", 4 }, SERVER_POST },     { { "PUT", 3 }, SERVER_PUT },
	{ { "DELETE", 6 }, SERVER_DELETE },
};

static bool
is_token(struct str s)
{
	return s.len > 0 && name_has_only(s, "!#$%&'*+-.^_`|~");
}

/* No control character except the tab. */
static bool
is_text(struct str s)
{
	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.ptr[i];

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return false;
	}
	return true;
}

static struct str
trim_blanks(struct str s)
{
	while (s.len > 0 && char_is_in(s.ptr[0], " \t"))
		s = str_skip(s, 1);
	while (s.len > 0 && char_is_in(s.ptr[s.len - 1], " \t"))
		s.len--;
	return s;
}

/* Returns a line without its end; false if the line has not arrived completely. A line feed alone
 * does not end a line: a proxy that disagrees would see other headers than we do. */
static bool
next_line(struct str *rest, struct str *ret)
{
	const char *end = memmem(rest->ptr, rest->len, "\r\n", 2);

	if (!end)
		return false;
	*ret = str_n(rest->ptr, (size_t)(end - rest->ptr));
	*rest = str_skip(*rest, ret->len + 2);
	return true;
}

/* "/path?query", "http://host/path?query", or "*", for which there is no endpoint. */
static bool
parse_target(struct str target, struct head *h)
{
	const char *authority = memmem(target.ptr, target.len, "://", 3);

	if (target.len == 0 || !is_text(target) || str_index(target, '\t') >= 0)
		return false;
	if (target.ptr[0] != '/' && authority) {
		target = str_skip(target, (size_t)(authority - target.ptr) + 3);
		target = str_skip(target,
		                  (size_t)(str_index(target, '/') >= 0 ? str_index(target, '/')
		                                                       : (ptrdiff_t)target.len));
	}
	h->path = target;
	h->query = STR_EMPTY;
	(void)str_cut(target, '?', &h->path, &h->query);
	if (h->path.len == 0)
		h->path = STR("/");
	return h->path.ptr[0] == '/' || str_eq(h->path, STR("*"));
}

static int
parse_request_line(struct str line, struct head *h, bool *ret_is_11)
{
	struct str method, target, version, more, rest = line;

	if (!str_split(&rest, ' ', &method) || !str_split(&rest, ' ', &target) ||
	    !str_split(&rest, ' ', &version) || str_split(&rest, ' ', &more))
		return BAD_REQUEST;
	if (!is_token(method) || version.len != 8 || !str_starts(version, STR("HTTP/")) ||
	    !parse_target(target, h))
		return BAD_REQUEST;
	*ret_is_11 = str_eq(version, STR("HTTP/1.1"));
	if (!*ret_is_11 && !str_eq(version, STR("HTTP/1.0")))
		return VERSION_NOT_SUPPORTED;
	h->method = SERVER_OTHER;
	for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
		if (str_eq(method, methods[i].name))
			h->method = methods[i].method;
	}
	return HEAD_WHOLE;
}

static int
parse_field(struct str line, struct head *h)
{
	struct head_field field;

	if (!str_cut(line, ':', &field.name, &field.value))
		return BAD_REQUEST;
	field.value = trim_blanks(field.value);
	if (!is_token(field.name) || !is_text(field.value))
		return BAD_REQUEST;
	if (h->n_fields == ARRAY_LEN(h->fields))
		return FIELDS_TOO_LARGE;
	h->fields[h->n_fields++] = field;
	return HEAD_WHOLE;
}

/* Does one of the fields of that name contain the word in its list? */
static bool
field_lists(const struct head *h, struct str name, struct str word)
{
	struct str value;

	for (size_t n = 0; head_field(h, name, n, &value); n++) {
		for (struct str part; str_split(&value, ',', &part);) {
			if (str_eq_nocase(trim_blanks(part), word))
				return true;
		}
	}
	return false;
}

/* What the fields say about the connection and the body. The few bodies that are accepted are
 * small, so chunks are not supported: RFC 9112 6.3 allows refusing them with 411. Two lengths are
 * refused even if they agree. */
static int
read_fields(struct head *h, bool is_11)
{
	struct str host, value, other;
	bool has_host = head_field(h, STR("Host"), 0, &host);
	int64_t len;

	if ((is_11 && !has_host) || head_field(h, STR("Host"), 1, &host))
		return BAD_REQUEST;
	h->keeps_alive = is_11 && !field_lists(h, STR("Connection"), STR("close"));
	h->expects_continue = is_11 && field_lists(h, STR("Expect"), STR("100-continue"));
	if (head_field(h, STR("Transfer-Encoding"), 0, &value))
		return LENGTH_REQUIRED;
	if (!head_field(h, STR("Content-Length"), 0, &value))
		return HEAD_WHOLE;
	if (head_field(h, STR("Content-Length"), 1, &other) || !str_is_digits(value))
		return BAD_REQUEST;
	if (!str_to_i64(value, 0, (int64_t)LIMIT_SERVER_BODY, &len))
		return CONTENT_TOO_LARGE;
	h->body_len = (size_t)len;
	return HEAD_WHOLE;
}

int
head_parse(struct str bytes, size_t n_searched, struct head *ret)
{
	struct str rest = bytes, line;
	size_t from, n_skipped;
	const char *end;
	bool is_11;
	int status;

	for (int i = 0; i < MAX_EMPTY_LINES && str_starts(rest, STR("\r\n")); i++)
		rest = str_skip(rest, 2);

	/* Up to three of the four bytes that end the head may be among those that were searched
	 * before. */
	n_skipped = (size_t)(rest.ptr - bytes.ptr);
	from = n_searched > n_skipped + 3 ? n_searched - 3 : n_skipped;
	end = memmem(bytes.ptr + from, bytes.len - from, "\r\n\r\n", 4);
	ret->n_fields = ret->body_len = 0;
	ret->len = end ? (size_t)(end - bytes.ptr) + 4 : bytes.len;
	if (ret->len > LIMIT_SERVER_HEADERS)
		return FIELDS_TOO_LARGE;
	if (!end)
		return HEAD_MORE;

	rest = str_n(rest.ptr, (size_t)(end - rest.ptr) + 4);
	if (!next_line(&rest, &line))
		return BAD_REQUEST;
	status = parse_request_line(line, ret, &is_11);
	while (status == HEAD_WHOLE && next_line(&rest, &line) && line.len > 0)
		status = parse_field(line, ret);
	if (status != HEAD_WHOLE)
		return status;
	return read_fields(ret, is_11);
}

bool
head_field(const struct head *h, struct str name, size_t n, struct str *ret)
{
	for (size_t i = 0; i < h->n_fields; i++) {
		if (str_eq_nocase(h->fields[i].name, name) && n-- == 0) {
			*ret = h->fields[i].value;
			return true;
		}
	}
	return false;
}

bool
percent_decode(struct str in, bool is_form, char *room, size_t *ret_len)
{
	size_t n = 0;

	for (size_t i = 0; i < in.len; i++) {
		int byte = (unsigned char)in.ptr[i];

		if (byte == '%') {
			int high = i + 2 < in.len ? str_hex_digit(in.ptr[i + 1]) : -1;
			int low = high >= 0 ? str_hex_digit(in.ptr[i + 2]) : -1;

			if (low < 0 || high + low == 0)
				return false;
			byte = high * 16 + low;
			i += 2;
		} else if (byte == '+' && is_form) {
			byte = ' ';
		}
		room[n++] = (char)byte;
	}
	*ret_len = n;
	return true;
}
