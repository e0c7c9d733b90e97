/* http/url.c: see url.h.
 *
 * This reads only the parts of RFC 3986 that are needed here. It is strict about the host, which is
 * a DNS name or an address: if this parser and libcurl disagreed about the host of a URL,
 * credentials would go to the wrong server.
 */
#include "http/url.h"

#include <stdlib.h>

#include "base/ip.h"
#include "base/limits.h"
#include "base/names.h"

static const struct {
	struct str name;
	int port;
} schemes[] = {
	{ { "https", 5 }, 443 },
	{ { "http", 4 }, 80 },
	{ { "socks5", 6 }, 1080 },
};

bool
url_has_space_or_control(struct str s)
{
	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.ptr[i];

		if (c <= ' ' || c == 0x7f)
			return true;
	}
	return false;
}

/* Takes "https://" off *rest. url->scheme is a view of the table above, so it is in lower case. */
static bool
take_scheme(struct str *rest, struct url *url)
{
	for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
		struct str name = schemes[i].name;

		if (str_eq_nocase(str_head(*rest, name.len), name) &&
		    str_starts(str_skip(*rest, name.len), STR("://"))) {
			url->scheme = name;
			url->port = schemes[i].port;
			*rest = str_skip(*rest, name.len + 3);
			return true;
		}
	}
	return false;
}

/* The number of bytes of s before the first of the bytes in any. A zero byte never matches. */
static size_t
length_before(struct str s, const char *any)
{
	size_t n = 0;

	while (n < s.len && (s.ptr[n] == '\0' || !strchr(any, s.ptr[n])))
		n++;
	return n;
}

/* Takes a name or an address in brackets off *rest. */
static bool
take_host(struct str *rest, struct str *ret)
{
	ptrdiff_t end;
	struct ip ip;

	if (!str_starts(*rest, STR("["))) {
		*ret = str_head(*rest, length_before(*rest, ":"));
		*rest = str_skip(*rest, ret->len);
		/* a DNS name as resolvers accept it: RFC 1123 does not allow '_', but it is in use
		 */
		return ret->len > 0 && ret->len <= LIMIT_NAME && name_has_only(*ret, "-._");
	}
	end = str_index(*rest, ']');
	if (end < 0)
		return false;
	*ret = str_n(rest->ptr + 1, (size_t)end - 1);
	*rest = str_skip(*rest, (size_t)end + 1);
	return str_index(*ret, ':') >= 0 && ip_parse(*ret, &ip);
}

/* Reads ":6443". "host:" means the scheme's own port, as in Go and curl. */
static bool
read_port(struct str text, int *port)
{
	int64_t value;

	if (text.len == 0 || str_eq(text, STR(":")))
		return true;
	if (!str_starts(text, STR(":")) || !str_to_i64(str_skip(text, 1), 1, 65535, &value))
		return false;
	*port = (int)value;
	return true;
}

/* The text may hold a password, so no message repeats it. */
bool
url_parse(struct str text, struct url *ret, struct error *err)
{
	struct str rest = text, authority, userinfo;
	struct url url = { 0 };

	if (url_has_space_or_control(text))
		return err_set(err, ERR_INVALID,
		               "a URL must not contain spaces or control characters");
	if (!take_scheme(&rest, &url))
		return err_set(err, ERR_INVALID,
		               "the URL does not start with https://, http:// or socks5://");

	authority = str_head(rest, length_before(rest, "/?#"));
	rest = str_skip(rest, authority.len);
	url.path = str_head(rest, length_before(rest, "?#"));
	while (str_ends(url.path, STR("/")))
		url.path = str_head(url.path, url.path.len - 1);

	/* the last '@' ends user name and password: a password may contain '@' unescaped */
	url.has_userinfo = str_cut_last(authority, '@', &userinfo, &authority);
	if (!take_host(&authority, &url.host))
		return err_set(err, ERR_INVALID, "the URL's host is not a name or an address");
	if (!read_port(authority, &url.port))
		return err_set(err, ERR_INVALID, "the URL's port is not a number from 1 to 65535");
	*ret = url;
	return true;
}

void
url_add_escaped(struct buf *b, struct str s)
{
	static const char hex[] = "0123456789ABCDEF";

	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.ptr[i];

		if (char_is_alnum((char)c) || char_is_in((char)c, "-._~"))
			buf_add_char(b, (char)c);
		else
			buf_add(b, (char[]){ '%', hex[c >> 4], hex[c & 15] }, 3);
	}
}

void
url_add_query(struct buf *b, const char *name, struct str value)
{
	buf_add_char(b, str_index(buf_str(b), '?') < 0 ? '?' : '&');
	buf_add_c(b, name);
	buf_add_char(b, '=');
	url_add_escaped(b, value);
}

static const char *
get_proxy_variable(const char *lower, const char *upper)
{
	const char *value = getenv(lower);

	if (!value || !*value)
		value = getenv(upper);
	return value && *value ? value : NULL;
}

const char *
proxy_from_environment(const struct url *url)
{
	static const struct ip_net loopback_v4 = { { { [10] = 0xff, 0xff, 127 } }, 104 };
	static const struct ip loopback_v6 = { { [15] = 1 } };
	const char *proxy = NULL;
	struct ip ip;

	if (str_eq_nocase(url->host, STR("localhost")))
		return NULL;
	if (ip_parse(url->host, &ip) &&
	    (ip_net_contains(&loopback_v4, &ip) || ip_eq(&ip, &loopback_v6)))
		return NULL;
	if (str_eq(url->scheme, STR("https")))
		proxy = get_proxy_variable("https_proxy", "HTTPS_PROXY");
	else if (str_eq(url->scheme, STR("http")))
		proxy = get_proxy_variable("http_proxy", "HTTP_PROXY");
	if (proxy && proxy_is_excluded(str_c(get_proxy_variable("no_proxy", "NO_PROXY")), url->host,
	                               url->port))
		return NULL;
	return proxy;
}

/* Splits "host:port" and "[address]:port"; *ret_port is 0 if the text has no port. Other text, such
 * as an IPv6 address without brackets, is taken as a host. */
static void
split_port(struct str entry, struct str *ret_host, int *ret_port)
{
	bool is_bracketed = str_starts(entry, STR("["));
	size_t end = length_before(entry, is_bracketed ? "]" : ":");
	struct str host = str_head(entry, end), rest = str_skip(entry, end);
	int64_t port = 0;

	if (is_bracketed) {
		host = str_skip(host, 1);
		rest = str_skip(rest, 1);
	}
	*ret_host = entry;
	*ret_port = 0;
	if (rest.len == 0 ||
	    (str_starts(rest, STR(":")) && str_to_i64(str_skip(rest, 1), 1, 65535, &port))) {
		*ret_host = host;
		*ret_port = (int)port;
	}
}

/* "a.b" covers a.b and all names below it; ".a.b" and "*.a.b" cover only the names below it. */
static bool
proxy_entry_covers_name(struct str pattern, struct str host)
{
	struct str end;

	if (str_starts(pattern, STR("*.")))
		pattern = str_skip(pattern, 1);
	if (pattern.len == 0 || host.len < pattern.len)
		return false;
	end = str_skip(host, host.len - pattern.len);
	if (!str_eq_nocase(end, pattern))
		return false;
	if (pattern.ptr[0] == '.')
		return host.len > pattern.len;
	return host.len == pattern.len || host.ptr[host.len - pattern.len - 1] == '.';
}

static bool
proxy_entry_covers(struct str entry, struct str host, int port)
{
	struct ip_net net;
	struct ip ip, entry_ip;
	struct str entry_host;
	int entry_port;

	if (ip_net_parse(entry, &net))
		return ip_parse(host, &ip) && ip_net_contains(&net, &ip);
	split_port(entry, &entry_host, &entry_port);
	if (entry_port != 0 && entry_port != port)
		return false;
	if (ip_parse(entry_host, &entry_ip))
		return ip_parse(host, &ip) && ip_eq(&ip, &entry_ip);
	return proxy_entry_covers_name(entry_host, host);
}

bool
proxy_is_excluded(struct str no_proxy, struct str host, int port)
{
	for (struct str part, rest = no_proxy; str_split(&rest, ',', &part);) {
		struct str entry = str_trim(part);

		if (str_eq(entry, STR("*")))
			return true;
		if (entry.len > 0 && proxy_entry_covers(entry, host, port))
			return true;
	}
	return false;
}
