/* http/http.c: see http.h. Clients are made, configured and freed here, and statuses are turned
 * into errors.
 *
 * A client's configuration is constant after http_client_new(), apart from its certificates.
 * Callers' threads run http/job.c and http/stream.c, the I/O thread runs http/loop.c.
 *
 * Public functions go through the client's table, so that tests can replace the transport.
 */
#include "http/internal.h"

#include <assert.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/ip.h"
#include "base/words.h"
#include "http/url.h"

enum {
	DEFAULT_CONNECT_MS = 10000,
	TEXT_SHOWN = 512, /* bytes of foreign text in a message */
};

static const struct http_ops curl_ops;

/* ---- the client ---- */

static char *
url_text(const struct url *url, struct str host, struct str path)
{
	struct buf b = BUF_INIT(LIMIT_HTTP_URL);

	buf_addf(&b, "%" STR_FMT "://" URL_HOST_FMT ":%d%" STR_FMT, STR_ARG(url->scheme),
	         URL_HOST_ARG(host), url->port, STR_ARG(path));
	return buf_take(&b);
}

static void
add_line(struct curl_slist **list, const char *line)
{
	struct curl_slist *longer = curl_slist_append(*list, line);

	if (!longer)
		alloc_fail(1, strlen(line));
	*list = longer;
}

/* The URL gets the name that the server's certificate must have, while connections go to the
 * configured host, and the Host header keeps that host. */
static bool
set_server_name(struct curl_client *c, const struct url *url, struct str name, struct error *err)
{
	CLEANUP(buf_fini) struct buf connect_to = BUF_INIT(LIMIT_HTTP_URL);
	struct buf header = BUF_INIT(LIMIT_HTTP_URL);
	struct url checked;

	free(c->origin);
	c->origin = url_text(url, name, STR_EMPTY);
	if (!url_parse(str_c(c->origin), &checked, err))
		return err_set(err, ERR_INVALID,
		               "the TLS server name is not a DNS name or an address");

	/* "name:port:host:port": libcurl connects to the host when the URL has the name */
	buf_addf(&connect_to, URL_HOST_FMT ":%d:" URL_HOST_FMT ":%d", URL_HOST_ARG(name), url->port,
	         URL_HOST_ARG(url->host), url->port);
	add_line(&c->connect_to, connect_to.ptr);

	buf_addf(&header, URL_HOST_FMT, URL_HOST_ARG(url->host));
	if (url->port != 443)
		buf_addf(&header, ":%d", url->port);
	c->host_header = buf_take(&header);
	return true;
}

static bool
set_url(struct curl_client *c, const struct http_config *config, struct url *ret, struct error *err)
{
	struct url url;
	bool is_https;

	if (!url_parse(config->base_url, &url, err))
		return false;
	is_https = str_eq(url.scheme, STR("https"));
	if (!is_https && !str_eq(url.scheme, STR("http")))
		return err_set(err, ERR_INVALID,
		               "the server's URL does not start with https:// or http://");
	if (url.has_userinfo)
		return err_set(err, ERR_INVALID,
		               "the server's URL contains a user name or password");
	if (config->base_url.len > LIMIT_HTTP_URL / 2)
		return err_set(err, ERR_INVALID,
		               "the server's URL has %zu bytes, more than the allowed %zu",
		               config->base_url.len, LIMIT_HTTP_URL / 2);
	*ret = url;
	c->scheme = xstrndup(url.scheme.ptr, url.scheme.len);
	c->origin = url_text(&url, url.host, STR_EMPTY);
	c->shown_url = url_text(&url, url.host, url.path);
	if (is_https && config->tls.server_name.len > 0)
		return set_server_name(c, &url, config->tls.server_name, err);
	return true;
}

/* With the scheme "socks5" libcurl resolves the server's name itself. Go leaves that to the proxy,
 * which may be the only one that can resolve it; libcurl calls this "socks5h". */
static char *
proxy_for_libcurl(struct str url)
{
	struct str socks = STR("socks5://");
	struct buf b = BUF_INIT(LIMIT_HTTP_URL);

	if (!str_eq_nocase(str_head(url, socks.len), socks))
		return xstrndup(url.ptr, url.len);
	buf_add_c(&b, "socks5h://");
	buf_add_str(&b, str_skip(url, socks.len));
	return buf_take(&b);
}

static bool
set_proxy(struct curl_client *c, const struct http_config *config, const struct url *server,
          struct error *err)
{
	struct str text = config->proxy_url;
	struct url ignored;

	if (text.len == 0)
		text = str_c(proxy_from_environment(server));
	else if (str_eq(text, STR("-")))
		text = STR_EMPTY;
	else if (!url_parse(text, &ignored, err))
		return err_wrap(err, "proxy");
	c->proxy = proxy_for_libcurl(text);
	return true;
}

/* The name of the proxy is looked up, if there is one, and not the server's. */
static void
set_looked_up(struct curl_client *c, const struct url *server)
{
	struct str name = server->host;
	struct error ignored;
	struct url proxy;
	struct ip ip;

	if (c->proxy[0])
		name = url_parse(str_c(c->proxy), &proxy, &ignored) ? proxy.host : STR_EMPTY;
	if (name.len > 0 && !ip_parse(name, &ip))
		c->looked_up = xstrndup(name.ptr, name.len);
}

static bool
client_configure(struct curl_client *c, const struct http_config *config, struct error *err)
{
	struct url url;

	*c = (struct curl_client){
		.base.ops = &curl_ops,
		.auth = config->auth,
		.clock = config->clock,
		.fence = config->fence,
		.warned = config->warned,
		.resolved = config->resolved,
		.callback_arg = config->callback_arg,
		.user_agent = xstrndup(config->user_agent.ptr ? config->user_agent.ptr : "",
		                       config->user_agent.len),
		.is_insecure = config->tls.is_insecure,
		.connect_timeout_ms = config->connect_timeout_ms > 0 ? config->connect_timeout_ms
		                                                     : DEFAULT_CONNECT_MS,
	};
	for (const char *const *h = config->headers; h && *h; h++)
		add_line(&c->headers, *h);
	if (!set_url(c, config, &url, err) || !set_proxy(c, config, &url, err))
		return false;
	set_looked_up(c, &url);

	/* An HTTP proxy needs the whole URL in the request line of a plain http request (RFC 9112,
	 * section 3.2.2). For https and SOCKS it only forwards bytes. */
	if (c->proxy[0] && str_eq_c(STR("http"), c->scheme) &&
	    !str_starts(str_c(c->proxy), STR("socks")))
		c->prefix = xstrdup(c->shown_url);
	else
		c->prefix = xstrndup(url.path.ptr, url.path.len);
	return tls_init(&c->tls, &config->tls, err);
}

/* Frees a client, also one that could not be configured and has no I/O thread. */
static void
client_free(struct http_client *client)
{
	struct curl_client *c = CONTAINER_OF(client, struct curl_client, base);

	if (c->multi)
		loop_stop(c);
	curl_slist_free_all(c->connect_to);
	curl_slist_free_all(c->headers);
	tls_fini(&c->tls);
	free(c->scheme);
	free(c->origin);
	free(c->shown_url);
	free(c->prefix);
	free(c->host_header);
	free(c->looked_up);
	free(c->user_agent);
	if (c->proxy)
		explicit_bzero(c->proxy, strlen(c->proxy)); /* may have a password */
	free(c->proxy);
	free(c);
}

static const struct http_ops curl_ops = {
	.do_request = request_do,
	.stream_open = stream_open,
	.free = client_free,
};

/* libcurl does not overwrite memory before it frees it, and the requests in it contain the token.
 */
static void
wipe_free(void *memory)
{
	if (memory)
		explicit_bzero(memory, malloc_usable_size(memory));
	free(memory);
}

static void *
wipe_realloc(void *memory, size_t size)
{
	size_t old = memory ? malloc_usable_size(memory) : 0;
	void *moved = malloc(size);

	if (!moved)
		return NULL;
	if (old > 0)
		memcpy(moved, memory, old < size ? old : size);
	wipe_free(memory);
	return moved;
}

static void
init_library(void)
{
	CURLcode code = curl_global_init_mem(CURL_GLOBAL_DEFAULT, malloc, wipe_free, wipe_realloc,
	                                     strdup, calloc);

	assert(code == CURLE_OK);
	(void)code;
}

bool
http_client_new(const struct http_config *config, struct http_client **ret, struct error *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct curl_client *c = xcalloc(1, sizeof(*c));

	MUST(pthread_once(&once, init_library));
	if (!client_configure(c, config, err)) {
		client_free(&c->base);
		return false;
	}
	loop_start(c, config->name, config->qps, config->burst);
	*ret = &c->base;
	return true;
}

bool
http_client_set_tls(struct http_client *client, const struct tls_config *config, bool ends_streams,
                    struct error *err)
{
	struct curl_client *c = CONTAINER_OF(client, struct curl_client, base);
	struct tls old, fresh;

	if (client->ops != &curl_ops) /* a scripted client of a test */
		return true;
	if (!tls_init(&fresh, config, err))
		return false;
	mutex_lock(&c->mu);
	old = c->tls;
	c->tls = fresh;
	c->wants_retire = true;
	c->ends_streams |= ends_streams;
	mutex_unlock(&c->mu);
	tls_fini(&old); /* open connections hold references of their own */
	loop_poke(c);
	return true;
}

void
http_client_free(struct http_client *client)
{
	if (client)
		client->ops->free(client);
}

/* ---- requests ---- */

static const char *const *permitted_posts; /* of a process that changes nothing; else NULL */

void
http_set_read_only(const char *const posts[])
{
	permitted_posts = posts;
}

/* Fails with ERR_FORBIDDEN, and notes the request, if it must not be sent. */
static bool
check_read_only(const struct http_request *request, struct error *err)
{
	CLEANUP(buf_fini) struct buf what = BUF_INIT(LIMIT_HTTP_URL);

	if (!permitted_posts || request->method == HTTP_GET)
		return true;
	if (request->method == HTTP_POST && words_have(permitted_posts, request->target))
		return true;
	buf_addf(&what, "%s %" STR_FMT, http_method_name(request->method),
	         STR_ARG(str_head(request->target, 200)));
	fence_note_refused(buf_str(&what));
	return err_set(err, ERR_FORBIDDEN, "%s: not sent, because this process changes nothing",
	               what.ptr);
}

bool
http_do(struct http_client *client, struct call *call, const struct http_request *request,
        struct http_response *response, struct error *err)
{
	if (!check_read_only(request, err))
		return false;
	return client->ops->do_request(client, call, request, response, err);
}

bool
http_stream_open(struct http_client *client, struct call *call, const struct http_request *request,
                 struct http_stream **ret, struct error *err)
{
	if (!check_read_only(request, err))
		return false;
	return client->ops->stream_open(client, call, request, ret, err);
}

void
http_response_fini(struct http_response *response)
{
	buf_fini(&response->body);
}

/* ---- names and statuses ---- */

bool
http_add_basic(struct buf *ret, struct str user, struct str password, struct error *err)
{
	CLEANUP(buf_fini) struct buf plain = BUF_SECRET(LIMIT_CREDENTIAL);

	buf_add_str(&plain, user);
	buf_add_char(&plain, ':');
	buf_add_str(&plain, password);
	buf_add_c(ret, "Basic ");
	base64_add(ret, buf_str(&plain));
	if (!buf_ok(&plain) || !buf_ok(ret))
		return err_set(err, ERR_UNAUTHORIZED, "user name and password are too long");
	return true;
}

const char *
http_method_name(enum http_method method)
{
	static const char *const names[] = {
		[HTTP_GET] = "GET",     [HTTP_POST] = "POST",     [HTTP_PUT] = "PUT",
		[HTTP_PATCH] = "PATCH", [HTTP_DELETE] = "DELETE",
	};

	return names[method];
}

struct http_status
http_status(int number)
{
	static const struct {
		int number;
		struct http_status status;
	} rows[] = {
		{ 200, { "OK", ERR_INVALID } },
		{ 204, { "No Content", ERR_INVALID } },
		{ 400, { "Bad Request", ERR_INVALID } },
		{ 401, { "Unauthorized", ERR_UNAUTHORIZED } },
		{ 403, { "Forbidden", ERR_FORBIDDEN } },
		{ 404, { "Not Found", ERR_NOT_FOUND } },
		{ 405, { "Method Not Allowed", ERR_INVALID } },
		{ 406, { "Not Acceptable", ERR_INVALID } },
		{ 408, { "Request Timeout", ERR_TIMEOUT } },
		{ 409, { "Conflict", ERR_CONFLICT } },
		{ 410, { "Gone", ERR_GONE } },
		{ 411, { "Length Required", ERR_INVALID } },
		{ 413, { "Request Entity Too Large", ERR_INVALID } },
		{ 415, { "Unsupported Media Type", ERR_INVALID } },
		{ 422, { "Unprocessable Entity", ERR_INVALID } },
		{ 429, { "Too Many Requests", ERR_THROTTLED } },
		{ 431, { "Request Header Fields Too Large", ERR_INVALID } },
		{ 500, { "Internal Server Error", ERR_UNAVAILABLE } },
		{ 501, { "Not Implemented", ERR_UNSUPPORTED } },
		{ 502, { "Bad Gateway", ERR_UNAVAILABLE } },
		{ 503, { "Service Unavailable", ERR_UNAVAILABLE } },
		{ 504, { "Gateway Timeout", ERR_TIMEOUT } },
		{ 505, { "HTTP Version Not Supported", ERR_UNAVAILABLE } },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (rows[i].number == number)
			return rows[i].status;
	}
	return (struct http_status){ "", number >= 500 ? ERR_UNAVAILABLE : ERR_INVALID };
}

bool
http_status_error(struct error *err, const struct http_request *request, int status,
                  int64_t retry_after_ms, struct str text)
{
	char memory[TEXT_SHOWN + 1] = "";
	struct buf clean = BUF_FIXED(memory);

	buf_add_clean(&clean, str_trim(str_utf8_head(text, TEXT_SHOWN)));
	err_set(err, http_status(status).code, "%s %" STR_FMT ": %d%s%s",
	        http_method_name(request->method), STR_ARG(str_head(request->target, 200)), status,
	        clean.len > 0 ? " " : "", clean.ptr);
	err->http_status = status;
	err->retry_after_ms = retry_after_ms;
	return false;
}
