/* http/http.h: HTTP requests that block their caller, on one I/O thread per client.
 *
 * A client instance owns a thread that runs libcurl's multi interface: all sockets, connection
 * reuse, the gate (http/gate.h), time-outs. http_do() hands a request over and returns when the
 * answer is there, the deadline has passed, or the call was cancelled; the request, its buffers and
 * the response live with the caller, who gets them back only then. Several clients are isolated
 * from each other: a huge list on one cannot delay a renewal on another.
 *
 * HTTP/1.1 only: a pool of connections for requests and for streams that end by themselves, and one
 * for each that does not (design: libcurl 7.88 stalls HTTP/2 sessions when one stream is paused,
 * and the API server ends watches that share a session with writes). No redirects are followed,
 * nothing is compressed, plain http only where the base URL says so.
 *
 * A GET that fails on a *reused* connection before any response is sent once more on a fresh one.
 * libcurl by itself would do so for every method; we do not let it, so nothing else is ever sent
 * twice unless can_replay says so (a 401 excepted, which was not executed).
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

/** Where credentials come from; called on the thread of whoever makes the request. */
struct http_auth {
	/* Appends the value of the header ("Bearer …") to ret; appends nothing when there is none.
	 * *ret_generation changes whenever the credential does. It may take its time, within the
	 * call's, which has no arena. */
	bool (*authorize)(struct http_auth *, const struct call *call, struct buf *ret,
	                  uint64_t *ret_generation, struct error *err);
	/* The server answered 401 to a request with that generation: true when a newer credential
	 * is at hand, and the request is sent once more. */
	bool (*rejected)(struct http_auth *, uint64_t generation);
	/* A connection failed for reasons of TLS: certificates may have been replaced. NULL: not
	 * wanted. */
	void (*tls_failed)(struct http_auth *);
	/* The header that carries the credential: "X-Key"; NULL: "Authorization". */
	const char *header;
};

/** TLS as PEM bytes in memory: no key ever goes to a file of ours. All may be empty. */
struct tls_config {
	struct str ca_pem;   /* the only trust anchors; empty: the system's */
	bool trusts_nothing; /* … or none at all: what was configured is empty */
	struct str cert_pem;
	const struct secret *key_pem;
	struct str
		server_name; /* for SNI and the check of the certificate; empty: the URL's host */
	bool is_insecure;    /* no verification at all */
};

struct http_config {
	const char *name;    /* of the thread, in logs and metrics; at most 15 bytes */
	struct str base_url; /* "https://host:port[/prefix]"; no user name or password in it */
	struct str user_agent;
	struct str proxy_url; /* empty: as the environment says; "-": none */
	struct tls_config tls;
	struct http_auth *auth; /* NULL: no credential; must outlive the client */
	const char *const
		*headers; /* further ones, "Name: value"; NULL at the end, or NULL: none */
	/* "Warning: 299 - text" came with an answer; foreign bytes, on the I/O thread. NULL: not
	 * wanted */
	void (*warned)(void *callback_arg, struct str value);
	/* the URL's name, or the proxy's, was looked up for a new connection, in vain or not; on
	 * the I/O thread. What libcurl remembers, for a minute, takes no time. NULL: not wanted */
	void (*resolved)(void *callback_arg, struct str name, int64_t took_ns);
	void *callback_arg;
	struct clock *clock;
	struct fence *fence;        /* NULL: open. Past it anything but a GET is refused */
	double qps, burst;          /* 0: automatic (http/gate.h) */
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

/** Who goes first. */
enum http_class {
	HTTP_WORK, /* somebody waits for it */
	/* Events. A background request starts only while no HTTP_WORK request waits or runs, and no
	 * stream began to open within the last second, so that events never delay work. It is
	 * exempt from the fence, because events change nothing that is reconciled. */
	HTTP_BACKGROUND,
};

struct http_request {
	enum http_method method;
	enum http_class class;
	struct str target;        /* path and query, behind the base URL: "/api/v1/nodes?limit=1" */
	const char *user_agent;   /* NULL: the client's */
	const char *accept;       /* NULL: application/json */
	const char *content_type; /* NULL: no body */
	struct str body;
	int64_t timeout_ms; /* from start to the whole answer, waiting at the gate included; 0: 30
	                     * s. The call's deadline and the fence cut it short */
	size_t max_body;    /* 0: LIMIT_HTTP_BODY; for a stream: no bound, since only little of it
	                       waits */
	bool can_replay;    /* as if it were a GET: may be sent twice after a connection was lost */
	bool is_endless;    /* a stream that somebody has to end, as a watch: on a connection of its
	                       own */
};

#define HTTP_CORRELATION_MAX 65

struct http_response {
	int status;
	int64_t retry_after_ms; /* 0: none; at most LIMIT_RETRY_AFTER_S; only whole seconds are read
	                         */
	int64_t ratelimit_limit, ratelimit_remaining, ratelimit_reset; /* RateLimit-*; -1: absent */
	char correlation_id[HTTP_CORRELATION_MAX]; /* X-Correlation-Id, for support; "": absent or
	                                              odd */
	struct buf body;                           /* of any status */
	bool is_reused;                            /* the connection was not new */
	bool is_untrusted; /* there is no answer, since the server's certificate does not verify */
	int64_t waited_ns; /* for its turn, at the gate */
};

#define HTTP_RESPONSE_INIT ((struct http_response){ .body = BUF_INIT(LIMIT_HTTP_BODY) })
/** Frees the body. For CLEANUP(http_response_fini). */
void http_response_fini(struct http_response *);

struct http_client;
struct http_stream;

/** The seam for tests: a scripted transport is a client with another table. It finds the response
 * as HTTP_RESPONSE_INIT leaves it, so it can append to the body up to LIMIT_HTTP_BODY bytes; the
 * real client replaces that limit by the request's max_body. tests/cloud/http_script.h is one. */
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

/* A transport embeds these first. http_stream_next() is made of read(), with `line` as its
 * memory. */
struct http_stream {
	const struct http_stream_ops *ops;
	struct buf line;    /* a line that arrived in several pieces, or the beginning of one */
	struct str pending; /* bytes lent by read() that are not yet part of a line */
	bool is_line_lent;  /* line is whole and was handed out: it makes room at the next call */
};

struct http_client {
	const struct http_ops *ops;
};

/** Starts the I/O thread. Copies what it needs of config. ERR_INVALID when the URL, a certificate
 * or a key cannot be used. */
NODISCARD bool http_client_new(const struct http_config *config, struct http_client **ret,
                               struct error *err);

/** Other certificates and keys, for all new connections; idle ones are closed soon, others when
 * their request ends, and streams go on, unless ends_streams: then they fail with ERR_UNAVAILABLE.
 * server_name and is_insecure stay what they were. On ERR_INVALID everything stays. */
NODISCARD bool http_client_set_tls(struct http_client *, const struct tls_config *tls,
                                   bool ends_streams, struct error *err);

/** Would it work? ERR_INVALID with what is wrong. */
NODISCARD bool http_tls_check(const struct tls_config *tls, struct error *err);
/** When the first certificate of a PEM text begins to be valid. */
NODISCARD bool http_certificate_begins(struct str pem, int64_t *ret_wall_ns);

/** Ends the thread; all calls must have returned. NULL is fine. */
void http_client_free(struct http_client *);
DEFINE_CLEANUP(struct http_client, http_client_free)

/** Sends a request and waits for the whole answer, of any status: false only when none arrived.
 *
 * @param response  HTTP_RESPONSE_INIT, or with body.is_secret; filled on success; its body is yours
 * @return  On false, err->code is
 *          ERR_TIMEOUT       the time-out or deadline passed, waiting included
 *          ERR_CANCELLED     the call was cancelled, or the fence is down
 *          ERR_UNAVAILABLE   no connection, or it broke; also a certificate that does not verify,
 *                            because rotating certificates repairs that
 *          ERR_UNAUTHORIZED  no credential could be had
 *          ERR_INVALID       the answer is larger than allowed or not HTTP, or the target is not a
 *                            URL
 */
NODISCARD bool http_do(struct http_client *, struct call *call, const struct http_request *request,
                       struct http_response *response, struct error *err);

/** Opens a stream: returns when the status line and headers are there. Not subject to the gate.
 * timeout_ms bounds the time to the headers; after that the deadlines of http_stream_read() apply.
 * call->cancel must outlive the stream, whose reads it ends too. An answer that is not 2xx is not
 * a stream: false, with err->http_status and the code http_status_error() gives. */
NODISCARD bool http_stream_open(struct http_client *, struct call *call,
                                const struct http_request *request, struct http_stream **ret,
                                struct error *err);

/** Waits for bytes and lends all that have arrived; they are valid until the next call on this
 * stream. At most LIMIT_STREAM_BUFFER bytes wait; then the transfer is paused until they are read.
 *
 * @return  true with *ret; an empty view is the regular end of the answer. On false, err->code is
 *          ERR_TIMEOUT      nothing arrived until deadline_mono_ns
 *          ERR_CANCELLED
 *          ERR_UNAVAILABLE  the connection broke; bytes before that were handed out
 */
NODISCARD bool http_stream_read(struct http_stream *, int64_t deadline_mono_ns, struct str *ret,
                                struct error *err);

/** Waits for a whole line and lends it without its end; valid until the next call on this stream. A
 * last line without its end is dropped. ERR_INVALID when it is longer than max_line, and the
 * stream is good for closing only; otherwise as http_stream_read(), with the regular end as an
 * empty view whose ptr is NULL. Not to be mixed with http_stream_read(). */
NODISCARD bool http_stream_next(struct http_stream *, int64_t deadline_mono_ns, size_t max_line,
                                struct str *ret, struct error *err);

/** Ends the transfer and its connection; returns when the I/O thread let go of it. NULL is fine. */
void http_stream_close(struct http_stream *);
DEFINE_CLEANUP(struct http_stream, http_stream_close)

/** Turns a status that means failure into an error: 401 UNAUTHORIZED, 403 FORBIDDEN, 404 NOT_FOUND,
 * 408 and 504 TIMEOUT, 409 CONFLICT, 410 GONE, 422 and other 4xx INVALID, 429 THROTTLED, 5xx
 * UNAVAILABLE (501 UNSUPPORTED). The message is "METHOD target: STATUS text". text may come from
 * outside; it is cut and cleaned of control characters. Returns false. */
bool http_status_error(struct error *err, const struct http_request *request, int status,
                       int64_t retry_after_ms, struct str text);

/** When the I/O loop last turned (mono), for the watchdog. It turns at least every
 * HTTP_LONGEST_WAIT_NS. */
int64_t http_client_last_turn_ns(struct http_client *);

/** Closes connections that are idle, about 2 s after the last request ended: memory goes back after
 * a burst. Those idle for 30 s are closed without being asked. */
void http_client_close_idle(struct http_client *);

const char *http_method_name(enum http_method);

#endif
