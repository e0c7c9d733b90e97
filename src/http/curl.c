/* http/curl.c: one transfer of libcurl: its settings, its callbacks, its errors.
 *
 * All settings that libcurl needs are made here, once for each handle, apart from the few that
 * differ from request to request (transfer_prepare()). All callbacks run on the I/O thread. A
 * callback that wants to stop a transfer sets job->refused and returns a short count.
 *
 * Requests are not sent twice. When a kept connection breaks before any byte of the answer, libcurl
 * (7.88 to 8.x, Curl_retry_request() in lib/transfer.c) sends the request again on another
 * connection, up to five times and whatever its method: a POST that the server carried out just
 * before it died would be carried out again. on_send() is called before each attempt and forbids
 * the second. http/loop.c repeats what may be repeated, once and on a fresh connection.
 *
 * CURLOPT_REQUEST_TARGET: libcurl parses the URL byte by byte for each request, which took a tenth
 * of its time. The URL is therefore only the origin, and the target is sent as it is.
 *
 * server_name: TLS checks the host of the URL. The URL's host is therefore the expected name of the
 * server, and CURLOPT_CONNECT_TO leads to the address. The Host header stays that of the address,
 * as with tls-server-name in client-go.
 */
#include <assert.h>
#include <ctype.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "http/internal.h"

enum {
	RECEIVE_BUFFER = 16 << 10, /* one TLS record: OpenSSL never returns more in one read */
	UPLOAD_BUFFER = 16 << 10,  /* allocated for any request over TLS; the default is 64 kB */
	KEEP_IDLE_S = 30,          /* a connection that was idle for longer is not used again */
	SWEEP_IDLE_S = 1,          /* the same, while idle connections are closed */
	FIRST_BODY = 256 << 10,    /* at most this much is allocated because of a Content-Length */
	ERROR_BODY = 64 << 10,     /* bytes that are kept of an answer that refuses a stream */
	DATE_MAX = 64,             /* a longer Date is not read */
};

/* All these options exist since libcurl 7.85, so a setting fails only by a bug in this program. */
#define SET(easy, option, value)                                       \
	do {                                                           \
		CURLcode set_ = curl_easy_setopt(easy, option, value); \
		assert(set_ == CURLE_OK);                              \
		(void)set_;                                            \
	} while (0)

/* ---- callbacks, on the I/O thread ---- */

/* With keep-alive and TCP_USER_TIMEOUT the kernel detects within 45 s that the peer is gone,
 * whether this side waits for data or has unacknowledged data. The sweeper gets no socket. */
static curl_socket_t
on_socket(void *sweeper, curlsocktype purpose, struct curl_sockaddr *addr)
{
	static const struct {
		int level, name, value;
	} options[] = {
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },          { IPPROTO_TCP, TCP_KEEPIDLE, 15 },
		{ IPPROTO_TCP, TCP_KEEPINTVL, 10 },       { IPPROTO_TCP, TCP_KEEPCNT, 3 },
		{ IPPROTO_TCP, TCP_USER_TIMEOUT, 45000 },
	};
	int fd;

	(void)purpose;
	if (sweeper)
		return CURL_SOCKET_BAD;
	fd = socket(addr->family, addr->socktype | SOCK_CLOEXEC, addr->protocol);
	if (fd < 0)
		return CURL_SOCKET_BAD;
	for (size_t i = 0; i < ARRAY_LEN(options); i++)
		(void)setsockopt(fd, options[i].level, options[i].name, &options[i].value,
		                 sizeof(int));
	return fd;
}

static CURLcode
on_ssl_ctx(CURL *easy, void *ctx, void *client)
{
	struct curl_client *c = client;
	const struct tls *tls = &c->tls;
	bool is_ok = true;
	WITH_LOCK(&c->mu);

	(void)easy;
	/* saves 34 kB for each idle connection */
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set1_cert_store(ctx, tls->store);
	if (tls->cert)
		is_ok = SSL_CTX_use_certificate(ctx, tls->cert) == 1 &&
		        SSL_CTX_use_PrivateKey(ctx, tls->key) == 1 &&
		        (!tls->chain || SSL_CTX_set1_chain(ctx, tls->chain) == 1);
	return is_ok ? CURLE_OK : CURLE_SSL_CERTPROBLEM;
}

/* in_us: the CURLINFO that holds the duration of the look-up, in microseconds. */
static void
transfer_report_lookup(const struct transfer *transfer, CURLINFO in_us)
{
	const struct curl_client *client = transfer->job->client;
	curl_off_t took_us = 0;

	if (!client->resolved || !client->looked_up)
		return;
	(void)curl_easy_getinfo(transfer->easy, in_us, &took_us);
	client->resolved(client->callback_arg, str_c(client->looked_up), took_us * 1000);
}

/* CURLOPT_PREREQFUNCTION: called when a connection is ready, before the request is sent on it. */
static int
on_send(void *arg, char *primary_ip, char *local_ip, int primary_port, int local_port)
{
	struct transfer *transfer = arg;
	long n_connects = 0;

	(void)primary_ip;
	(void)local_ip;
	(void)primary_port;
	(void)local_port;
	if (++transfer->n_sends > 1)
		return CURL_PREREQFUNC_ABORT;
	(void)curl_easy_getinfo(transfer->easy, CURLINFO_NUM_CONNECTS, &n_connects);
	if (n_connects > 0)
		transfer_report_lookup(transfer, CURLINFO_NAMELOOKUP_TIME_T);
	return CURL_PREREQFUNC_OK;
}

/* Reserves memory once instead of growing step by step. The server may announce any length, so no
 * more than FIRST_BODY is reserved before bytes have arrived. */
static bool
expect_body(struct job *job, int64_t length)
{
	if (job->max_body > 0 && length > (int64_t)job->max_body) {
		job->refused = "the response is larger than allowed";
		return false;
	}
	if (!job->stream)
		(void)!buf_reserve(&job->response->body,
		                   length < FIRST_BODY ? (size_t)length : FIRST_BODY);
	return true;
}

/* Returns false when the answer is refused. A number that cannot be read counts as absent. */
static bool
read_header(struct job *job, struct str name, struct str value)
{
	const struct curl_client *client = job->client;
	struct http_response *response = job->response;
	char date[DATE_MAX] = "";
	int64_t n, date_s;
	bool is_number = str_to_i64(value, 0, INT64_MAX, &n);

	if (is_number && str_eq_nocase(name, STR("Content-Length")))
		return expect_body(job, n);
	if (is_number && str_eq_nocase(name, STR("Retry-After")))
		response->retry_after_ms = clock_earlier(n, LIMIT_RETRY_AFTER_S) * MS_PER_SEC;
	if (is_number && str_eq_nocase(name, STR("RateLimit-Limit")))
		response->ratelimit_limit = n;
	if (is_number && str_eq_nocase(name, STR("RateLimit-Remaining")))
		response->ratelimit_remaining = n;
	if (is_number && str_eq_nocase(name, STR("RateLimit-Reset")))
		response->ratelimit_reset = n;

	/* curl_getdate() reads the three formats of RFC 9110, section 5.6.7. */
	if (str_eq_nocase(name, STR("Date")) && value.len < sizeof(date)) {
		memcpy(date, value.ptr, value.len);
		date_s = curl_getdate(date, NULL);
		if (date_s > 0)
			response->date_s = date_s;
	}
	/* foreign text that is shown in messages: only visible characters are accepted */
	if (str_eq_nocase(name, STR("X-Correlation-Id")) && value.len < HTTP_CORRELATION_MAX &&
	    str_is_visible(value))
		snprintf(response->correlation_id, HTTP_CORRELATION_MAX, "%" STR_FMT,
		         STR_ARG(value));

	/* "299 - \"text\"": a message of the API server to users, e.g. about a deprecated API */
	if (client->warned && str_eq_nocase(name, STR("Warning")) && str_starts(value, STR("299 ")))
		client->warned(client->callback_arg, value);
	return true;
}

/* Called for the status line, for each header, and for the empty line after them. */
static size_t
on_header(char *bytes, size_t size, size_t n, void *arg)
{
	struct job *job = ((struct transfer *)arg)->job;
	struct str line = str_trim(str_n(bytes, size * n));
	struct str name, value;
	int64_t status;

	job->n_header_bytes += size * n;
	if (job->n_header_bytes > LIMIT_HTTP_HEADERS) {
		job->refused = "the headers of the response are larger than allowed";
		return 0;
	}
	if (str_starts(line, STR("HTTP/"))) {
		/* "HTTP/1.1 200 OK"; an interim 100 may come before it */
		if (str_cut(line, ' ', &name, &value) &&
		    str_to_i64(str_head(value, 3), 100, 999, &status))
			job->response->status = (int)status;
	} else if (str_cut(line, ':', &name, &value)) {
		if (!read_header(job, name, str_trim(value)))
			return 0;
	} else if (line.len == 0 && job->stream && job->response->status >= 200 &&
	           job->response->status < 300) {
		stream_opened(job->stream);
	}
	return size * n;
}

/* Bytes of a stream go to its buffer; if that is full, libcurl keeps them and calls again with the
 * same bytes after the transfer was resumed. Of an answer that refuses a stream only the beginning
 * is kept, for the error message. */
static size_t
on_body(char *bytes, size_t size, size_t n, void *arg)
{
	struct job *job = ((struct transfer *)arg)->job;
	struct str part = str_n(bytes, size * n);
	bool is_stream = job->has_headers;

	if (job->max_body > 0 && part.len > job->max_body - job->n_body_bytes)
		job->refused = "the response is larger than allowed";
	if (job->refused)
		return 0;
	if (is_stream && !stream_take(job->stream, part))
		return CURL_WRITEFUNC_PAUSE;
	job->n_body_bytes += part.len;
	if (job->stream && !is_stream)
		buf_add_str(&job->response->body,
		            str_head(part, ERROR_BODY - job->response->body.len));
	if (!job->stream)
		buf_add_str(&job->response->body, part);
	return part.len;
}

/* ---- settings ---- */

struct transfer *
transfer_new(struct curl_client *client)
{
	struct transfer *transfer = xcalloc(1, sizeof(*transfer));
	CURL *easy = curl_easy_init();

	if (!easy)
		alloc_fail(1, sizeof(easy));
	transfer->easy = easy;

	/* transport */
	SET(easy, CURLOPT_NOSIGNAL, 1L);
	/* without it, a name server that does not answer blocks the whole loop for seconds */
	SET(easy, CURLOPT_QUICK_EXIT, 1L);
	SET(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	SET(easy, CURLOPT_PROTOCOLS_STR, client->scheme);
	SET(easy, CURLOPT_URL, client->origin);
	SET(easy, CURLOPT_FOLLOWLOCATION, 0L);
	SET(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)client->connect_timeout_ms);
	SET(easy, CURLOPT_TCP_NODELAY, 1L);
	SET(easy, CURLOPT_OPENSOCKETFUNCTION, on_socket);
	SET(easy, CURLOPT_USERAGENT, client->user_agent);
	SET(easy, CURLOPT_CONNECT_TO, client->connect_to);
	SET(easy, CURLOPT_UPLOAD_BUFFERSIZE, (long)UPLOAD_BUFFER);
	SET(easy, CURLOPT_BUFFERSIZE, (long)RECEIVE_BUFFER);

	/* The proxy was chosen by the rules of http/url.c. An empty text prevents libcurl from
	 * reading the environment itself, by other rules. */
	SET(easy, CURLOPT_PROXY, client->proxy);
	SET(easy, CURLOPT_NOPROXY, "");
	SET(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);

	/* TLS. The trust anchors are in tls.store, so libcurl must not read its default bundle. It
	 * must not keep a store for later connections either, because the trust anchors may be
	 * replaced. A resumed session keeps the identities of its first handshake, on both sides,
	 * so replaced certificates would have no effect. */
	SET(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	SET(easy, CURLOPT_SSL_VERIFYPEER, client->is_insecure ? 0L : 1L);
	SET(easy, CURLOPT_SSL_VERIFYHOST, client->is_insecure ? 0L : 2L);
	SET(easy, CURLOPT_CAINFO, NULL);
	SET(easy, CURLOPT_CAPATH, NULL);
	SET(easy, CURLOPT_CA_CACHE_TIMEOUT, 0L);
	SET(easy, CURLOPT_SSL_SESSIONID_CACHE, 0L);
	SET(easy, CURLOPT_SSL_CTX_FUNCTION, on_ssl_ctx);
	SET(easy, CURLOPT_SSL_CTX_DATA, client);

	/* callbacks */
	SET(easy, CURLOPT_PRIVATE, transfer);
	SET(easy, CURLOPT_ERRORBUFFER, transfer->error);
	SET(easy, CURLOPT_WRITEFUNCTION, on_body);
	SET(easy, CURLOPT_WRITEDATA, transfer);
	SET(easy, CURLOPT_HEADERFUNCTION, on_header);
	SET(easy, CURLOPT_HEADERDATA, transfer);
	SET(easy, CURLOPT_PREREQFUNCTION, on_send);
	SET(easy, CURLOPT_PREREQDATA, transfer);
	return transfer;
}

void
transfer_free(struct transfer *transfer)
{
	curl_easy_cleanup(transfer->easy);
	free(transfer);
}

void
transfer_prepare(struct transfer *transfer, struct job *job, bool wants_fresh)
{
	CURL *easy = transfer->easy;

	transfer->job = job;
	transfer->n_sends = 0;
	transfer->error[0] = '\0';
	job->transfer = transfer;
	job->n_header_bytes = 0;
	job->n_body_bytes = 0;
	/* libcurl does not copy the body, which lives with the caller */
	if (job->has_body || job->method == HTTP_POST || job->method == HTTP_PUT ||
	    job->method == HTTP_PATCH) {
		SET(easy, CURLOPT_POSTFIELDS, job->body.len > 0 ? job->body.ptr : "");
		SET(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)job->body.len);
	} else {
		SET(easy, CURLOPT_HTTPGET, 1L);
	}
	SET(easy, CURLOPT_CUSTOMREQUEST, http_method_name(job->method));
	SET(easy, CURLOPT_REQUEST_TARGET, job->path.ptr);
	SET(easy, CURLOPT_HTTPHEADER, &job->headers[0]);
	SET(easy, CURLOPT_FRESH_CONNECT, wants_fresh || job->is_endless ? 1L : 0L);
	SET(easy, CURLOPT_FORBID_REUSE, job->is_endless ? 1L : 0L);
	SET(easy, CURLOPT_MAXAGE_CONN,
	    job->client->is_retiring ? (long)SWEEP_IDLE_S : (long)KEEP_IDLE_S);
}

/* ---- the sweeper ---- */

/* libcurl (up to 8.x) closes idle connections only when another transfer searches for a connection
 * that it can use. This transfer searches, with a short MAXAGE_CONN, and then gets no socket: no
 * name is resolved, and nothing is connected or sent. */
CURL *
sweeper_new(void)
{
	CURL *easy = curl_easy_init();

	if (!easy)
		alloc_fail(1, sizeof(easy));
	SET(easy, CURLOPT_URL, "http://127.0.0.1:9/");
	SET(easy, CURLOPT_NOSIGNAL, 1L);
	SET(easy, CURLOPT_PROXY, "");
	SET(easy, CURLOPT_MAXAGE_CONN, (long)SWEEP_IDLE_S);
	SET(easy, CURLOPT_OPENSOCKETFUNCTION, on_socket);
	SET(easy, CURLOPT_OPENSOCKETDATA, easy);
	return easy;
}

/* ---- outcomes ---- */

/* The kernel's reason is preferred where there is one, e.g. "connection refused". The result is
 * valid as long as memory and the transfer. */
static const char *
transfer_reason(struct transfer *transfer, CURLcode code, char *memory, size_t size)
{
	struct buf text = { .ptr = memory, .cap = size, .max = size - 1 };
	const char *system;
	long number = 0;

	(void)curl_easy_getinfo(transfer->easy, CURLINFO_OS_ERRNO, &number);
	system = err_errno_text((int)number);
	if (transfer->job->refused)
		return transfer->job->refused;
	if (transfer->n_sends > 1 || code == CURLE_GOT_NOTHING)
		return "the server closed the connection without a response";
	if (code == CURLE_PARTIAL_FILE)
		return "the connection ended in the middle of the response";
	if (code == CURLE_COULDNT_CONNECT && number != 0 && system) {
		buf_add_c(&text, system);
		text.ptr[0] = (char)tolower((unsigned char)text.ptr[0]);
		return text.ptr;
	}
	return transfer->error[0] ? transfer->error : curl_easy_strerror(code);
}

static enum err_code
transfer_code(const struct transfer *transfer, CURLcode code)
{
	if (transfer->job->refused)
		return ERR_INVALID;
	switch (code) {
	case CURLE_OPERATION_TIMEDOUT: /* while connecting; http/loop.c keeps all other deadlines */
		return ERR_TIMEOUT;
	case CURLE_UNSUPPORTED_PROTOCOL: /* an answer without a status line */
	case CURLE_WEIRD_SERVER_REPLY:
	case CURLE_BAD_CONTENT_ENCODING:
	case CURLE_URL_MALFORMAT:
		return ERR_INVALID;
	default:
		return ERR_UNAVAILABLE;
	}
}

/* With TLS 1.3 the server checks our certificate after the handshake is complete on our side, so
 * its refusal arrives as an alert when the first bytes are sent or received. */
static bool
is_tls_failure(const struct transfer *transfer, CURLcode code)
{
	switch (code) {
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_ISSUER_ERROR:
		return true;
	case CURLE_RECV_ERROR:
	case CURLE_SEND_ERROR:
		return str_contains(str_c(transfer->error), STR("alert"));
	default:
		return false;
	}
}

void
transfer_error(struct transfer *transfer, CURLcode code)
{
	struct job *job = transfer->job;
	struct str path = job->target;
	char memory[80] = "";
	ptrdiff_t query = str_index(path, '?');

	if (code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY)
		transfer_report_lookup(transfer, CURLINFO_TOTAL_TIME_T);
	job->is_tls_failure = is_tls_failure(transfer, code);
	job->response->is_untrusted = code == CURLE_PEER_FAILED_VERIFICATION;

	/* the message omits the query, which is long and rarely helps */
	if (query >= 0)
		path = str_head(path, (size_t)query);
	err_set(job->err, transfer_code(transfer, code), "%s %s%" STR_FMT ": %s",
	        http_method_name(job->method), job->client->shown_url, STR_ARG(path),
	        transfer_reason(transfer, code, memory, sizeof(memory)));
}
