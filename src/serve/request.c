/* serve/request.c: what a handler sees of a request, and the bytes of its answer.
 *
 * A request owns a copy of everything that it shows, certificates included. So a handler may read
 * it on any thread, and it outlives its connection.
 */
#include "base/alloc.h"
#include "http/http.h"
#include "http/tls.h"
#include "serve/internal.h"

enum {
	FIELDS_BYTES = 4096, /* room for the head of an answer; all are shorter */
};

/* ---- life cycle ---- */

/* Decodes the path in place: it never gets longer. A path that parse_target() made up ("/" for
 * "http://host") is not in r->bytes, and has nothing to decode. */
static int
request_decode_path(struct server_request *r)
{
	const char *path = r->head.path.ptr;

	r->path = r->head.path;
	if (path < r->bytes || path >= r->bytes + r->head.len)
		return 0;
	return percent_decode(r->path, /*is_form=*/false, r->bytes + (path - r->bytes),
	                      &r->path.len)
	               ? 0
	               : 400;
}

int
request_new(struct connection *c, struct server_request **ret)
{
	STACK_OF(X509) *chain = c->ssl ? SSL_get_peer_cert_chain(c->ssl) : NULL;
	struct server_request *r = xcalloc(1, sizeof(*r));
	int status;

	*r = (struct server_request){
		.server = c->server,
		.outbox = c->server->outbox,
		.clock = c->server->clock,
		.connection = c,
		.answer = BUF_INIT(SIZE_MAX / 2),
		.bytes = xstrndup(c->in.ptr, c->wanted),
		.certificate = c->ssl ? SSL_get1_peer_certificate(c->ssl) : NULL,
		.chain = chain ? X509_chain_up_ref(chain) : NULL,
	};
	ref_take(&r->outbox->refs);
	memcpy(r->peer, c->peer, sizeof(r->peer));
	status = head_parse(str_n(r->bytes, c->wanted), 0, &r->head);
	if (status == HEAD_WHOLE)
		status = request_decode_path(r);
	r->body = str_skip(str_n(r->bytes, c->wanted), r->head.len);
	if (status != 0)
		request_free(r);
	else
		*ret = r;
	return status;
}

void
request_free(struct server_request *r)
{
	outbox_unref(r->outbox);
	X509_free(r->certificate);
	sk_X509_pop_free(r->chain, X509_free);
	buf_fini(&r->answer);
	free(r->bytes);
	free(r);
}

/* ---- what a handler sees ---- */

enum server_method
server_request_method(const struct server_request *r)
{
	return r->head.method;
}

struct str
server_request_path(const struct server_request *r)
{
	return r->path;
}

static bool
request_decode_form(struct str text, struct arena *arena, struct str *ret)
{
	char *room = arena_alloc(arena, text.len + 1);

	ret->ptr = room;
	return percent_decode(text, /*is_form=*/true, room, &ret->len);
}

bool
server_request_parameter(const struct server_request *r, const char *name, size_t n,
                         struct arena *arena, struct str *ret)
{
	for (struct str part, rest = r->head.query; str_split(&rest, '&', &part);) {
		ptrdiff_t equals = str_index(part, '=');
		size_t name_len = equals < 0 ? part.len : (size_t)equals;
		struct str raw = equals < 0 ? STR_EMPTY : str_skip(part, name_len + 1);
		struct str key, value;

		if (!request_decode_form(str_head(part, name_len), arena, &key) ||
		    !str_eq_c(key, name) || !request_decode_form(raw, arena, &value))
			continue;
		if (n-- == 0) {
			*ret = value;
			return true;
		}
	}
	return false;
}

bool
server_request_header(const struct server_request *r, const char *name, size_t n, struct str *ret)
{
	return head_field(&r->head, str_c(name), n, ret);
}

struct str
server_request_body(const struct server_request *r)
{
	return r->body;
}

struct str
server_request_peer(const struct server_request *r)
{
	return str_c(r->peer);
}

bool
server_request_has_certificate(const struct server_request *r)
{
	return r->certificate;
}

/* ---- answers ---- */

/* Control characters become spaces: a line end in a value that a handler took from a request would
 * add a header of the client's choice. */
static void
answer_add_field(struct buf *b, const char *name, const char *value)
{
	buf_addf(b, "%s: ", name);
	for (; *value; value++)
		buf_add_char(b, (unsigned char)*value < 0x20 ? ' ' : *value);
	buf_add_c(b, "\r\n");
}

void
answer_write(struct buf *b, const struct server_response *response, int64_t wall_ns, bool is_head,
             bool closes)
{
	time_t now = (time_t)(wall_ns / NS_PER_SEC);
	char date[64];
	struct tm tm;

	if (!buf_reserve(b, FIELDS_BYTES + response->body.len))
		alloc_fail(1, response->body.len);
	buf_addf(b, "HTTP/1.1 %d %s\r\n", response->status, http_status(response->status).text);
	/* the locale is C: the program sets none */
	if (gmtime_r(&now, &tm) &&
	    strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &tm) > 0)
		buf_addf(b, "Date: %s\r\n", date);
	answer_add_field(b, "Content-Type",
	                 response->content_type ? response->content_type
	                                        : "text/plain; charset=utf-8");
	buf_addf(b, "Content-Length: %zu\r\n", response->body.len);
	buf_add_c(b, "Cache-Control: no-cache, private\r\nX-Content-Type-Options: nosniff\r\n");
	for (const char *const *h = response->headers; h && h[0] && h[1]; h += 2)
		answer_add_field(b, h[0], h[1]);
	buf_add_c(b, closes ? "Connection: close\r\n\r\n" : "\r\n");
	if (!is_head)
		buf_add_str(b, response->body);
}
