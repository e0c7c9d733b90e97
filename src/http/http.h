/* http/http.h: HTTP requests that block their caller, on one I/O thread per client.
 * A client instance owns a thread that runs libcurl's multi interface: all sockets, connection
 * reuse, the gate (http/gate.c), time-outs. http_do() hands a request over and returns when the
 * answer is there, the deadline has passed, or the call was cancelled. The request, its buffers and
 * the response are the caller's memory; the I/O thread uses them until http_do() returns. Several
 * clients are isolated from each other: a huge list on one cannot delay a lease renewal on another.
 *
 * Only HTTP/1.1 is used, with a pool of connections for requests and for streams that end by
 * themselves, and a connection for each endless stream. HTTP/2 was tried: libcurl 7.88 stalls the
 * session when one stream is paused, and the API server ends watches that share a session with
 * writes. Redirects are not followed, nothing is compressed, and plain http is used only if the
 * base URL says so.
 *
 * A GET that fails on a *reused* connection before any response is sent once more on a fresh one.
 * Other methods are repeated only if can_replay is set, because the server may have executed the
 * request. A 401 is the exception: the request was not executed, and is sent once more with a newer
 * credential.
 *
 * Threads: every function may be called from any thread. The client must outlive its calls.
 */
#ifndef CCMD_HTTP_HTTP_H
#define CCMD_HTTP_HTTP_H

#include "base/buf.h"
#include "base/call.h"
#include "base/error.h"
#include "base/fence.h"
#include "base/limits.h"
#include "base/secret.h"

/** A source of credentials; called on the thread that makes the request. */
struct http_auth {
	/* Appends the value of the header ("Bearer …") to ret, or nothing if there is no
	 * credential. *ret_generation changes whenever the credential does. It may block until the
	 * call's deadline; the call has no arena. */
	bool (*authorize)(struct http_auth *, const struct call *call, struct buf *ret,
	                  uint64_t *ret_generation, struct error *err);
	/* The server answered 401 to a request with that generation. True when a newer credential
	 * is available; the request is then sent once more. NULL: there never is one. */
	bool (*rejected)(struct http_auth *, uint64_t generation);
	/* A TLS handshake failed: certificates may have been replaced. May be NULL. */
	void (*tls_failed)(struct http_auth *);
	/* The header that carries the credential: "X-Key"; NULL: "Authorization". */
	const char *header;
};

/** TLS settings, as PEM text in memory: keys are never written to a file. All may be empty. */
struct tls_config {
	struct str ca_pem;   /* the only trust anchors; empty: the system's */
	bool trusts_nothing; /* no trust anchors: a CA was configured, but is empty */
	struct str cert_pem; /* our certificate, then its chain */
	const struct secret *key_pem;
	/* expected in the certificate, and sent as SNI; empty: the URL's host */
	struct str server_name;
	bool is_insecure; /* the server's certificate is not verified */
};

struct http_config {
	const char *name;    /* of the thread, and in logs and metrics; at most 15 bytes */
	struct str base_url; /* "https://host:port[/prefix]", without user name and password */
	struct str user_agent;
	struct str proxy_url; /* empty: proxy_from_environment() decides; "-": no proxy */
	struct tls_config tls;
	struct http_auth *auth;     /* NULL: no credential; must outlive the client */
	const char *const *headers; /* "Name: value", for every request; NULL at the end, or NULL */
	/* An answer has the header "Warning: 299 - text". value is foreign text. Called on the I/O
	 * thread. May be NULL. */
	void (*warned)(void *callback_arg, struct str value);
	/* The name of the server or the proxy was looked up for a new connection, successfully or
	 * not. An answer from libcurl's cache, which lasts a minute, counts as a look-up of no
	 * duration. Called on the I/O thread. May be NULL. */
	void (*resolved)(void *callback_arg, struct str name, int64_t took_ns);
	void *callback_arg;
	struct clock *clock;
	struct fence *fence;        /* NULL: none. Behind a closed fence only GET is allowed */
	double qps, burst;          /* 0: automatic (http/gate.c) */
	int64_t connect_timeout_ms; /* 0: 10 s */
};

#define HTTP_LONGEST_WAIT_NS (5 * NS_PER_SEC)

enum http_method {
	HTTP_GET,
	HTTP_POST,
	HTTP_PUT,
	HTTP_PATCH,
	HTTP_DELETE,
};

/** The priority of a request. */
enum http_class {
	HTTP_WORK, /* a worker waits for the answer */
	/* Events. A background request starts only while no HTTP_WORK request waits or runs, and no
	 * stream began to open within the last second, so that events never delay work. It is
	 * exempt from the fence, because events change no state that is reconciled. */
	HTTP_BACKGROUND,
};

struct http_request {
	enum http_method method;
	enum http_class class;
	struct str target; /* path and query, appended to the base URL: "/api/v1/nodes?limit=1" */
	const char *user_agent;   /* NULL: the client's */
	const char *accept;       /* NULL: application/json */
	const char *content_type; /* NULL: no body */
	struct str body;
	/* From the call to the whole answer, waiting at the gate included; 0: 30 s. The call's
	 * deadline and the fence may end it earlier. */
	int64_t timeout_ms;
	/* 0: LIMIT_HTTP_BODY. Streams are not bounded: LIMIT_STREAM_BUFFER is in memory. */
	size_t max_body;
	bool can_replay; /* may be sent twice after a connection was lost, like a GET */
	/* a stream that does not end by itself (a watch): needs its own connection */
	bool is_endless;
};

#define HTTP_CORRELATION_MAX 65

struct http_response {
	int status;
	int64_t retry_after_ms; /* Retry-After in seconds, at most LIMIT_RETRY_AFTER_S; 0: none */
	int64_t date_s;         /* the server's time (Date), as Unix time; 0: absent */
	int64_t ratelimit_limit, ratelimit_remaining, ratelimit_reset; /* RateLimit-*; -1: absent */
	/* X-Correlation-Id, which a cloud's support needs to find the request; "": absent, too long
	 * or not printable */
	char correlation_id[HTTP_CORRELATION_MAX];
	struct buf body;   /* whatever the status is */
	bool is_reused;    /* the connection was not new */
	bool is_untrusted; /* no answer arrived, because the server's certificate could not be
	                      verified */
	int64_t waited_ns; /* waiting for its turn at the gate */
};

#define HTTP_RESPONSE_INIT ((struct http_response){ .body = BUF_INIT(LIMIT_HTTP_BODY) })
/** Frees the body. For CLEANUP(http_response_fini). */
void http_response_fini(struct http_response *);

struct http_client;
struct http_stream;

/** What a client can do. Tests replace the transport by a client with another table
 * (tests/cloud/http_script.h). A test's client gets the response as HTTP_RESPONSE_INIT leaves it,
 * so it can append up to LIMIT_HTTP_BODY bytes to the body; the real client replaces that limit by
 * the request's max_body. */
struct http_ops {
	bool (*do_request)(struct http_client *, struct call *, const struct http_request *,
	                   struct http_response *, struct error *);
	bool (*stream_open)(struct http_client *, struct call *, const struct http_request *,
	                    struct http_stream **, struct error *);
	void (*free)(struct http_client *);
};

struct http_stream_ops {
	bool (*read)(struct http_stream *, int64_t deadline_mono_ns, struct str *, struct error *);
	void (*close)(struct http_stream *);
};

/* A transport embeds these first. http_stream_next() is built on read(), with `line` as its memory.
 */
struct http_stream {
	const struct http_stream_ops *ops;
	struct buf line;    /* a line that arrived in several pieces, or the beginning of one */
	struct str pending; /* bytes lent by read() that are not yet part of a line */
	bool is_line_lent;  /* line is complete and was lent to the caller; the next call empties it
	                     */
};

struct http_client {
	const struct http_ops *ops;
};

/** From now on this process changes nothing: requests of all clients that are neither a GET nor one
 * of the permitted POSTs, which only ask something (an access review, or the request for a token),
 * fail with ERR_FORBIDDEN. The commands for operators (operator/command.h) and --dry-run look at a
 * cluster and its cloud, and must never change them, whatever code they share with the controllers;
 * so the rule is enforced where every request of every client passes.
 *
 * @param posts  targets, compared byte by byte, NULL at the end; must live as long as the process.
 *               NULL: no restriction, as at the start of the process
 *
 * Threads: called before the first client is made. */
void http_set_read_only(const char *const posts[]);

/** Makes a client and starts its I/O thread. config is copied. ERR_INVALID when the URL, a
 * certificate or a key cannot be used. */
NODISCARD bool http_client_new(const struct http_config *config, struct http_client **ret,
                               struct error *err);

/** Replaces certificates and keys for new connections. Idle connections are closed soon, busy ones
 * when their request ends. Streams continue unless ends_streams is set: then they fail with
 * ERR_UNAVAILABLE. server_name and is_insecure cannot be changed. On ERR_INVALID nothing changes.
 */
NODISCARD bool http_client_set_tls(struct http_client *, const struct tls_config *tls,
                                   bool ends_streams, struct error *err);

/** Checks whether a client can use these settings. ERR_INVALID says what is wrong. */
NODISCARD bool http_tls_check(const struct tls_config *tls, struct error *err);
/** The validity of the first certificate of a PEM text. False when it cannot be read. */
NODISCARD bool http_certificate_validity(struct str pem, int64_t *ret_begin_wall_ns,
                                         int64_t *ret_end_wall_ns);
/** Appends a host name, or else an address, for which the first certificate of a PEM text is valid.
 * False when it names none, apart from wildcards. */
NODISCARD bool http_certificate_name(struct str pem, struct buf *ret);

/** Ends the thread and frees the client. All calls must have returned. NULL is allowed. */
void http_client_free(struct http_client *);
DEFINE_CLEANUP(struct http_client, http_client_free)

/** Sends a request and waits for the whole answer, of any status. False only when none arrived.
 *
 * @param response  HTTP_RESPONSE_INIT, or with body.is_secret; filled on success; the caller
 *                  frees its body
 * @return  On false, err->code is
 *          ERR_TIMEOUT       the time-out or deadline passed, waiting included
 *          ERR_CANCELLED     the call was cancelled, or the fence is down
 *          ERR_UNAVAILABLE   no connection, or it broke, or the certificate cannot be verified
 *                            (the rotation of certificates repairs that)
 *          ERR_UNAUTHORIZED  the source has no credential
 *          ERR_INVALID       the answer is larger than allowed or not HTTP, or the target is
 *                            not a URL
 */
NODISCARD bool http_do(struct http_client *, struct call *call, const struct http_request *request,
                       struct http_response *response, struct error *err);

/** Opens a stream: returns when the status line and headers have arrived. Streams bypass the gate.
 * timeout_ms bounds the time to the headers; after that the deadlines of http_stream_read() apply.
 * call->cancel must outlive the stream, because it also ends its reads. A status other than 2xx is
 * a failure, with err->http_status and the code of http_status_error(). */
NODISCARD bool http_stream_open(struct http_client *, struct call *call,
                                const struct http_request *request, struct http_stream **ret,
                                struct error *err);

/** Waits for bytes and lends all that have arrived; they are valid until the next call on this
 * stream. While LIMIT_STREAM_BUFFER bytes are unread, the transfer is paused.
 *
 * @return  true with *ret; an empty view is the regular end of the answer. On false, err->code is
 *          ERR_TIMEOUT      nothing arrived until deadline_mono_ns
 *          ERR_CANCELLED
 *          ERR_UNAVAILABLE  the connection broke; all bytes before that were handed out
 */
NODISCARD bool http_stream_read(struct http_stream *, int64_t deadline_mono_ns, struct str *ret,
                                struct error *err);

/** Waits for a whole line and lends it without its '\n'; it is valid until the next call on this
 * stream. An unfinished line at the end of the answer is dropped. ERR_INVALID when a line is longer
 * than max_line; the stream can then only be closed. Otherwise like http_stream_read(), with which
 * it must not be mixed; at the regular end ret->ptr is NULL. */
NODISCARD bool http_stream_next(struct http_stream *, int64_t deadline_mono_ns, size_t max_line,
                                struct str *ret, struct error *err);

/** Ends the transfer and its connection, and frees the stream. NULL is allowed. */
void http_stream_close(struct http_stream *);
DEFINE_CLEANUP(struct http_stream, http_stream_close)

/** Appends the value of a header for basic authentication to ret. */
NODISCARD bool http_add_basic(struct buf *ret, struct str user, struct str password,
                              struct error *err);

/** Turns a status that means failure into an error: 401 UNAUTHORIZED, 403 FORBIDDEN, 404 NOT_FOUND,
 * 408 and 504 TIMEOUT, 409 CONFLICT, 410 GONE, 422 and other 4xx INVALID, 429 THROTTLED, 5xx
 * UNAVAILABLE (501 UNSUPPORTED). The message is "METHOD target: STATUS text". text may be foreign:
 * it is shortened, and control characters are removed. Returns false. */
bool http_status_error(struct error *err, const struct http_request *request, int status,
                       int64_t retry_after_ms, struct str text);

const char *http_method_name(enum http_method);

/** What a status means. */
struct http_status {
	/* of the status line, as Go's http.StatusText() writes it: "Unauthorized" for 401; "" for a
	 * status that has no text */
	const char *text;
	enum err_code code; /* of http_status_error() */
};

struct http_status http_status(int number);

#endif
