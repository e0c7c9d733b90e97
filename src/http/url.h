/* http/url.h: the parts of an http(s) URL, and which hosts are reached through a proxy.
 *
 * Pure functions on views, apart from proxy_from_environment(), which reads the environment. No
 * message repeats a URL, since it may hold a password.
 */
#ifndef CCMD_HTTP_URL_H
#define CCMD_HTTP_URL_H

#include "base/buf.h"
#include "base/error.h"

struct url {
	struct str scheme; /* "https", "http" or "socks5", in lower case */
	struct str host;   /* without brackets */
	int port;          /* 1 to 65535; the scheme's own port if the URL has none */
	struct str path;   /* "" or "/…", without trailing slashes */
	bool has_userinfo; /* the URL has a user name or password, which is skipped */
};

/** Such bytes could end a request line, a header or a line of the log. */
bool url_has_space_or_control(struct str s);

/** Reads an absolute URL; the views point into text. Query and fragment are dropped. ERR_INVALID
 * for anything but http, https, socks5 with a host, for white space and control characters, and
 * for a bad port. */
NODISCARD bool url_parse(struct str text, struct url *ret, struct error *err);

/** Prints a host as a URL has it, an IPv6 address in brackets: buf_addf(&b, "http://" URL_HOST_FMT,
 * URL_HOST_ARG(host)). The argument is evaluated several times. */
#define URL_HOST_FMT "%s%" STR_FMT "%s"
#define URL_HOST_ARG(host) \
	str_index(host, ':') >= 0 ? "[" : "", STR_ARG(host), str_index(host, ':') >= 0 ? "]" : ""

/** Appends s as a query value or a path segment. All characters but the unreserved ones of RFC
 * 3986, section 2.3, are percent-encoded. */
void url_add_escaped(struct buf *b, struct str s);

/** Appends "?name=value", or "&name=value" if b has a query already. */
void url_add_query(struct buf *b, const char *name, struct str value);

/** The proxy that the environment names for a URL: https_proxy or HTTPS_PROXY for https, http_proxy
 * or HTTP_PROXY for http, the lower case first as in curl and Go. NULL when none is set or no_proxy
 * covers the host; otherwise a result of getenv().
 *
 * no_proxy and NO_PROXY are read as in Go (golang.org/x/net/http/httpproxy): "*", host suffixes
 * with or without a leading dot, host:port, IP addresses, CIDRs of both families. "localhost" and
 * loopback addresses are never reached through a proxy. */
const char *proxy_from_environment(const struct url *url);

/** Does this no_proxy list cover host:port? */
bool proxy_is_excluded(struct str no_proxy, struct str host, int port);

#endif
