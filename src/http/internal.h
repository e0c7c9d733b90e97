/* http/internal.h: what the files behind http/http.h share.
 *
 * 	http.c    clients, their configuration, statuses
 * 	job.c     a request from its caller's side
 * 	stream.c  a stream from its reader's side
 * 	loop.c    the I/O thread: queue, gate, deadlines, curl_multi
 * 	events.c  which sockets are ready: epoll for curl_multi
 * 	curl.c    one transfer: every libcurl setting, the callbacks, errors
 * 	tls.c     certificates and keys, parsed once
 *
 * A job is one request or stream on its way through the I/O thread. It lives with whoever waits for
 * it and belongs to the I/O thread from loop_submit() until is_done. Flags that others raise
 * meanwhile are atomic, followed by loop_poke().
 */
#ifndef CCMD_HTTP_INTERNAL_H
#define CCMD_HTTP_INTERNAL_H

#include <curl/curl.h>
#include <openssl/ssl.h>

#include "base/limits.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "http/gate.h"
#include "http/http.h"

struct job;
struct transfer;

/* ---- http_tls.c ---- */

struct tls {
	X509_STORE *store; /* trust anchors */
	X509 *cert;        /* NULL: none */
	STACK_OF(X509) * chain;
	EVP_PKEY *key;
};

/** All NULL before. ERR_INVALID with what is wrong. */
NODISCARD bool tls_init(struct tls *tls, const struct tls_config *config, struct error *err);
void tls_fini(struct tls *tls);
/** Puts it all into a new connection's context. False when OpenSSL refuses. */
NODISCARD bool tls_apply(const struct tls *tls, SSL_CTX *ctx);

/* ---- the client ---- */

struct job_list {
	struct job *head;
	struct job **tail;
	unsigned n;
};

/* What the I/O thread knows, for those who ask for metrics. */
struct loop_shown {
	_Atomic unsigned limit, n_running, n_work, n_background;
};

struct curl_client {
	struct http_client base;

	/* settings: constant */
	struct http_auth *auth;
	struct clock *clock;
	struct fence *fence;
	char *scheme;
	char *origin; /* "https://host:port", for libcurl; the host is the name that TLS checks */
	char *shown_url;   /* as configured, for messages: a target is put behind it */
	char *prefix;      /* what a target is put behind to be sent */
	char *host_header; /* "Host: …"; NULL: the URL's */
	char *user_agent;
	char *proxy;                   /* "": none */
	struct curl_slist *connect_to; /* NULL: the URL's host */
	struct curl_slist *headers;    /* further ones; NULL: none */
	char *looked_up;               /* the name that connections look up; NULL: they need none */
	void (*warned)(void *arg, struct str value);
	void (*resolved)(void *arg, struct str name, int64_t took_ns);
	void *callback_arg;
	bool is_insecure;
	int64_t connect_timeout_ms;

	pthread_t thread;
	CURLM *multi;
	_Atomic int64_t last_turn_ns; /* by clock */

	pthread_mutex_t mu;
	struct job_list inbox; /* mu */
	bool is_poked;         /* mu: there is something to look at */
	bool is_polling;       /* mu: the I/O thread sleeps, or is about to */
	bool is_stopping;      /* mu */
	bool wants_sweep;      /* mu: http_client_close_idle() */
	struct tls tls;        /* mu */
	bool wants_retire;     /* mu: tls was replaced */
	bool ends_streams;     /* mu: … and streams are to end as well */

	/* the I/O thread's own */
	struct gate gate;
	struct job_list work;       /* HTTP_WORK that waits at the gate */
	struct job_list background; /* HTTP_BACKGROUND that waits */
	struct job_list running;
	unsigned n_running_work;
	bool is_telling;        /* a background job is running */
	struct transfer *spare; /* handles to be used again */
	CURL *sweeper;          /* NULL: not under way */
	int epoll_fd, wake_fd;
	int64_t timer_ns; /* when libcurl wants a turn of its own accord */
	int64_t gate_ns;  /* when to ask the gate again */
	int64_t rest_ns;  /* when memory of the last burst is to go; CLOCK_FOREVER: it has gone */
	int64_t sweep_ns; /* when idle connections are to be closed; CLOCK_FOREVER: none are kept */
	int64_t retire_ns; /* when those made before tls was replaced are; CLOCK_FOREVER: not
	                      planned */
	bool is_retiring;  /* such connections may be idle: none is to be used */

	struct loop_shown shown;
	struct metric *limit, *n_requests, *n_work, *n_background;
};

/* ---- a job ---- */

enum {
	JOB_HEADERS = 6,
};

struct job {
	struct curl_client *client;
	struct job *next;           /* in the list it is in */
	struct http_stream *stream; /* NULL: a request */

	/* what to send; owned by whoever waits, constant */
	enum http_method method;
	enum http_class class;
	bool can_replay;
	bool is_endless;
	struct str body;
	bool has_body;
	size_t max_body;         /* 0: no bound */
	struct buf path;         /* the client's prefix and the target */
	struct str target;       /* its end */
	struct buf header_lines; /* each terminated; holds the credential, last */
	size_t secret_at;        /* where the credential starts in it */
	struct curl_slist headers[JOB_HEADERS];

	_Atomic bool is_cancelled;
	_Atomic bool wants_resume; /* the stream's reader made room */
	_Atomic bool wants_close;  /* the stream's reader is gone */

	/* the I/O thread's own */
	struct transfer *transfer;
	int64_t submitted_ns; /* by clock_real, and so the next */
	int64_t deadline_ns;
	bool is_replayed;
	bool is_retired; /* a stream that is to end since tls was replaced */

	/* the answer: the I/O thread's until is_done (a stream's status: until has_headers) */
	struct http_response *response;
	size_t n_header_bytes;
	size_t n_body_bytes;
	const char *refused; /* why a callback stopped the transfer; ERR_INVALID */
	bool is_tls_failure; /* no answer, for reasons of TLS */

	pthread_mutex_t mu;
	pthread_cond_t cond;
	bool is_done;      /* mu: the I/O thread let go of it */
	bool is_ok;        /* mu */
	struct error *err; /* filled before is_done when !is_ok */
};

/* ---- http.c ---- */

/** The client behind the one that callers see; not for a scripted one. */
struct curl_client *curl_client(struct http_client *client);

/* ---- http_job.c ---- */

/** The earlier of the request's time-out and the call's deadline, on the clock of the I/O
 * thread. */
int64_t job_deadline(const struct call *call, const struct http_request *request);
void job_init(struct job *job, struct curl_client *client, const struct http_request *request,
              int64_t deadline_ns);
void job_fini(struct job *job);
/** Lays out the URL and the headers; cancel ends waiting for a credential. ERR_INVALID, or what the
 * credential's source says. */
NODISCARD bool job_build(struct job *job, struct cancel *cancel, const struct http_request *request,
                         uint64_t *ret_generation, struct error *err);
/** A cancel hook; arg is the job. */
void job_cancel(void *arg);
void job_wait(struct job *job);
/** Overwrites the credential once it was sent. */
void job_wipe(struct job *job);
/** Tells the credential's source when the job failed for reasons of TLS. */
void job_report_tls_failure(const struct job *job);
/** Was it refused for a credential that has been replaced meanwhile? */
bool job_is_replaced(struct curl_client *client, int status, uint64_t generation);
/** Empties it, for a new answer of at most max_body bytes. */
void response_init(struct http_response *response, size_t max_body);

bool request_do(struct http_client *client, struct call *call, const struct http_request *request,
                struct http_response *response, struct error *err);

/* ---- http_stream.c ---- */

bool stream_open(struct http_client *client, struct call *call, const struct http_request *request,
                 struct http_stream **ret, struct error *err);
/** Takes bytes of a stream's answer. False when its buffer is full: pause. On the I/O thread. */
NODISCARD bool stream_take(struct http_stream *stream, struct str bytes);
/** Wakes the reader if bytes came since. At the end of a turn, not with every piece: an event comes
 * in several. */
void stream_notify(struct http_stream *stream);
/** The status line and headers are there, and they are a success. On the I/O thread. */
void stream_opened(struct http_stream *stream);

/* ---- http_loop.c ---- */

void loop_start(struct curl_client *client, const char *name, double qps, double burst);
/** Ends the thread and frees what is its own. */
void loop_stop(struct curl_client *client);
void loop_submit(struct job *job);
/** Makes the I/O thread look at the flags of its jobs. */
void loop_poke(struct curl_client *client);

/* ---- http_events.c ---- */

void events_start(struct curl_client *client);
void events_stop(struct curl_client *client);
/** Ends events_wait(), now or as soon as it is called. Any thread. */
void events_wake(struct curl_client *client);
/** Waits until something is ready, and has libcurl deal with it. */
void events_wait(struct curl_client *client, int timeout_ms);
/** Gives libcurl its turn if that is due. */
void events_run_timer(struct curl_client *client);

/* ---- http_curl.c ---- */

/* One easy handle. */
struct transfer {
	struct transfer *next; /* in the client's spare ones */
	CURL *easy;
	struct job *job;
	int n_sends; /* how often libcurl was about to send the request */
	char error[CURL_ERROR_SIZE];
};

struct transfer *transfer_new(struct curl_client *client);
void transfer_free(struct transfer *transfer);
/** Sets what differs from request to request. */
void transfer_prepare(struct transfer *transfer, struct job *job, bool wants_fresh);
/** The connection was in use before and broke before any of the answer came. */
bool transfer_broke_on_reuse(struct transfer *transfer, CURLcode code);
/** Its connection is not used again. */
void transfer_forbid_reuse(struct transfer *transfer);
/** Fills job->err from what libcurl says. */
void transfer_error(struct transfer *transfer, CURLcode code);
/** Fills what is known at the end only. */
void transfer_done(struct transfer *transfer);

/** A handle whose only effect is that idle connections are closed; its private pointer is NULL. */
CURL *sweeper_new(void);

#endif
