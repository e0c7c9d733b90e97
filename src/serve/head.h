/* serve/head.h: the head of an HTTP/1.1 request (RFC 9112), read strictly.
 *
 * A pure function over bytes: it keeps nothing and allocates nothing. Input that two programs could
 * read in two ways (a bare line feed, white space before a colon, folded lines, two lengths,
 * control characters) is refused.
 */
#ifndef CCMD_SERVE_HEAD_H
#define CCMD_SERVE_HEAD_H

#include "base/limits.h"
#include "serve/server.h"

enum {
	HEAD_WHOLE = 0,
	HEAD_MORE = -1, /* its end has not arrived yet */
};

struct head_field {
	struct str name, value;
};

/* Views into the bytes that were read. */
struct head {
	enum server_method method;
	struct str path;  /* as sent, from '/' on */
	struct str query; /* as sent */
	bool keeps_alive;
	bool expects_continue;
	size_t len;      /* of the head, including its empty line */
	size_t body_len; /* at most LIMIT_SERVER_BODY */
	struct head_field fields[LIMIT_SERVER_FIELDS];
	size_t n_fields;
};

/** HEAD_WHOLE with *ret filled, HEAD_MORE, or the status to refuse the request with: 400, 411, 413,
 * 431, 505. n_searched: if an earlier call with that many bytes returned HEAD_MORE, these are not
 * searched again for the end, so that a head that arrives byte by byte does not cost quadratic
 * time; else 0. */
NODISCARD int head_parse(struct str bytes, size_t n_searched, struct head *ret);

/** The n-th field of that name, in any case. */
bool head_field(const struct head *h, struct str name, size_t n, struct str *ret);

/** Decodes %XX, and with is_form '+' as a space. room has in.len bytes and may be in.ptr. False for
 * a broken escape and for %00: no name here contains a NUL, and it would end a C string early. */
NODISCARD bool percent_decode(struct str in, bool is_form, char *room, size_t *ret_len);

#endif
