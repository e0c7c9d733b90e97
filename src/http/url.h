/* http/url.h: the parts of an http(s) URL, and which hosts go through a proxy.
 */
#ifndef CCMD_HTTP_URL_H
#define CCMD_HTTP_URL_H

#include "base/buf.h"
#include "base/error.h"

struct url {
	struct str scheme; /* "https", in lower case as written */
	struct str host;   /* without brackets */
	int port;          /* 1 to 65535; 443 or 80 when not written */
	struct str path;   /* "" or "/…", without trailing slashes */
	bool has_userinfo;
};

/** Reads an absolute URL; the views point into text. Query and fragment are dropped. ERR_INVALID
 * for anything but http, https, socks5 with a host, for white space and control characters, and
 * for a bad port. */
NODISCARD bool url_parse(struct str text, struct url *ret, struct error *err);

/** Appends s percent-encoded as a query value or a path segment: all but RFC 3986's unreserved
 * characters. */
void url_add_escaped(struct buf *b, struct str s);

/** Appends "name=value", after '&' or '?' as needed. */
void url_add_query(struct buf *b, const char *name, struct str value);

/** Which proxy the environment asks for. The variables of both cases are looked at, lower case
 * first, as curl and Go do: https_proxy/HTTPS_PROXY for https, http_proxy/HTTP_PROXY for http. The
 * result of getenv, or NULL: none, or `no_proxy` covers the host.
 *
 * no_proxy/NO_PROXY as Go reads it: "*"; host suffixes with or without a leading dot; host:port; IP
 * addresses; CIDRs of both families. "localhost" and loopback addresses never go through a
 * proxy. */
const char *proxy_from_environment(const struct url *url);

/** The pure rule behind it: does this no_proxy list cover host:port? */
bool proxy_is_excluded(struct str no_proxy, struct str host, int port);

#endif
