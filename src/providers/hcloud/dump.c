/* dump.c: see dump.h. */
#include "providers/hcloud/dump.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static const char *const secret_members[] = { "\"private_key\"", "\"root_password\"",
	                                      "\"password\"" };

static struct str
skip_space(struct str s)
{
	while (s.len > 0 && strchr(" \t\r\n", s.ptr[0]))
		s = str_skip(s, 1);
	return s;
}

/* s is behind an opening quote; gives what is left from the closing one on, or nothing. */
static struct str
skip_string(struct str s)
{
	while (s.len > 0 && s.ptr[0] != '"')
		s = str_skip(s, s.ptr[0] == '\\' ? 2 : 1);
	return s;
}

/* Where s begins with a member that is a secret: gives the length up to its value's opening quote, that included; else 0. */
static size_t
secret_head(struct str s)
{
	struct str rest;

	for (size_t i = 0; i < ARRAY_LEN(secret_members); i++) {
		if (!str_starts(s, str_c(secret_members[i])))
			continue;
		rest = skip_space(str_skip(s, strlen(secret_members[i])));
		if (rest.len == 0 || rest.ptr[0] != ':')
			return 0;
		rest = skip_space(str_skip(rest, 1));
		return rest.len > 0 && rest.ptr[0] == '"' ? s.len - rest.len + 1 : 0;
	}
	return 0;
}

void
hz_dump_body(struct buf *b, struct str body)
{
	while (body.len > 0) {
		size_t head = body.ptr[0] == '"' ? secret_head(body) : 0;

		if (head > 0) {
			buf_add_str(b, str_head(body, head));
			buf_add_c(b, "REDACTED");
			body = skip_string(str_skip(body, head));
		} else {
			buf_add_char(b, body.ptr[0]);
			body = str_skip(body, 1);
		}
	}
}

void
hz_dump_request(struct buf *b, struct str base_url, const struct http_request *request)
{
	buf_addf(b, "--- Request:\n%s %" STR_FMT "%" STR_FMT " HTTP/1.1\n",
	         http_method_name(request->method), STR_ARG(base_url), STR_ARG(request->target));
	buf_add_c(b, "Accept: application/json\nAuthorization: REDACTED\n");
	if (request->content_type)
		buf_addf(b, "Content-Type: %s\n", request->content_type);
	buf_add_char(b, '\n');
	hz_dump_body(b, request->body);
	buf_add_c(b, "\n\n\n");
}

static void
add_number(struct buf *b, const char *name, int64_t value)
{
	if (value >= 0)
		buf_addf(b, "%s: %" PRId64 "\n", name, value);
}

void
hz_dump_response(struct buf *b, const struct http_response *response)
{
	buf_addf(b, "--- Response:\nHTTP/1.1 %d\n", response->status);
	add_number(b, "RateLimit-Limit", response->ratelimit_limit);
	add_number(b, "RateLimit-Remaining", response->ratelimit_remaining);
	add_number(b, "RateLimit-Reset", response->ratelimit_reset);
	buf_add_char(b, '\n');
	hz_dump_body(b, buf_str(&response->body));
	buf_add_c(b, "\n\n\n");
}

void
hz_dump_write(const struct buf *b)
{
	struct str rest = buf_str(b);

	while (rest.len > 0) {
		ssize_t n = write(STDERR_FILENO, rest.ptr, rest.len);

		if (n <= 0)
			return;
		rest = str_skip(rest, (size_t)n);
	}
}
