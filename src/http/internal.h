/* http/internal.h: what the files behind http/http.h share.
 *
 * 	http.c    clients, their configuration, statuses
 * 	job.c     a request from its caller's side
 * 	stream.c  a stream from its reader's side
 * 	loop.c    the I/O thread: queue, gate, deadlines, curl_multi
 * 	gate.c    how many requests may run at the same time
 * 	events.c  which sockets are ready: epoll for curl_multi
 * 	curl.c    one transfer: every libcurl setting, the callbacks, errors
 * 	tls.c     certificates and keys, parsed once
 * A job is one request or stream on its way through the I/O thread. Its memory is the caller's (its
 * stack for a request, the heap for a stream), and it belongs to the I/O thread from loop_submit()
 * until is_done. The flags that other threads set in between are atomic, and each is followed by
 * loop_poke().
 *
 * Locks: a job's mu and the client's mu are never held together, and no function of libcurl is
 * called under either.
 */
#ifndef CCMD_HTTP_INTERNAL_H
#define CCMD_HTTP_INTERNAL_H

#include <curl/curl.h>
#include <sys/queue.h>

#include "base/limits.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "http/http.h"
#include "http/tls.h"

struct job;
struct transfer;

/* ---- gate.c ---- */

/* Plain values and functions without locks: the I/O thread owns them. Streams bypass the gate. */

struct gate {
	unsigned limit;
	unsigned n_running;
	unsigned n_successes;    /* since the limit last changed */
	int64_t halved_ns;       /* mono */
	int64_t closed_until_ns; /* Retry-After of a throttled answer: nothing starts earlier */
	double qps;              /* 0: no cap */
	double burst;
	double tokens;
	int64_t tokens_ns; /* mono: the time for which tokens was computed */
};

enum gate_outcome {
	GATE_SUCCESS,
	GATE_FAILURE,   /* failed without a sign of overload */
	GATE_THROTTLED, /* 429, 503, or a time-out */
};

/** qps 0: no rate cap; burst is at least 1. */
void gate_init(struct gate *g, double qps, double burst, int64_t now_ns);
/** Lets one more request start if that is allowed now; it then counts as running. If not,
 * *ret_at_ns is the moment (mono) to try again, or CLOCK_FOREVER if a running request must end
 * first. */
bool gate_enter(struct gate *g, int64_t now_ns, int64_t *ret_at_ns);
void gate_leave(struct gate *g, enum gate_outcome outcome, int64_t retry_after_ns, int64_t now_ns);

/* ---- the client ---- */

struct job_list {
	TAILQ_HEAD(, job) jobs;
	unsigned n;
};

struct curl_client {
	struct http_client base;

	/* settings: constant */
	struct http_auth *auth;
	struct clock *clock;
	struct fence *fence;
	char *scheme;
	char *origin; /* "https://host:port", for libcurl; the host is the name that TLS checks */
	char *shown_url;   /* as configured; messages append the target */
	char *prefix;      /* what the request line has before the target */
	char *host_header; /* "Host: …"; NULL: the URL's */
	char *user_agent;
	char *proxy;                   /* "": none */
	struct curl_slist *connect_to; /* NULL: the URL's host */
	struct curl_slist *headers;    /* sent with every request; NULL: none */
	char *looked_up;               /* the DNS name that connections look up; NULL: an address */
	void (*warned)(void *arg, struct str value);
	void (*resolved)(void *arg, struct str name, int64_t took_ns);
	void *callback_arg;
	bool is_insecure;
	int64_t connect_timeout_ms;

	pthread_t thread;
	CURLM *multi;

	pthread_mutex_t mu;
	struct job_list inbox; /* mu */
	bool is_poked;         /* mu: another thread has set a flag or queued a job */
	bool is_polling;       /* mu: the I/O thread sleeps, or is about to */
	bool is_stopping;      /* mu */
	struct tls tls;        /* mu */
	bool wants_retire;     /* mu: tls was replaced */
	bool ends_streams;     /* mu: streams are to end as well when wants_retire is set */

	/* the I/O thread's own */
	struct gate gate;
	struct job_list work;       /* HTTP_WORK that waits at the gate */
	struct job_list background; /* HTTP_BACKGROUND that waits */
	struct job_list running;
	bool is_background_running;
	struct transfer *spare; /* unused handles, kept for later requests */
	CURL *sweeper;          /* closes idle connections; NULL: not running */
	int epoll_fd, wake_fd;
	/* the next moments when the loop has something to do; CLOCK_FOREVER: nothing */
	int64_t timer_ns;  /* libcurl's own timer */
	int64_t gate_ns;   /* the first waiting job may start */
	int64_t trim_ns;   /* spare handles are freed */
	int64_t sweep_ns;  /* idle connections are closed */
	int64_t retire_ns; /* connections made before tls was replaced are closed */
	bool is_retiring;  /* such idle connections may exist, so each request uses a new connection
	                    */

	struct metric *limit, *n_requests, *n_work, *n_background;
};

/* ---- a job ---- */

enum {
	JOB_HEADERS = 6,
};

struct job {
	struct curl_client *client;
	TAILQ_ENTRY(job) link;      /* in the list it is in */
	struct http_stream *stream; /* NULL: a request */

	/* what to send; owned by the caller, constant while the I/O thread has the job */
	enum http_method method;
	enum http_class class;
	bool can_replay;
	bool is_endless;
	struct str body;
	bool has_body;
	size_t max_body;         /* 0: no bound */
	struct buf path;         /* the client's prefix and the target */
	struct str target;       /* the part of path behind the prefix */
	struct buf header_lines; /* each ends with a zero byte; the credential is the last */
	size_t secret_at;        /* where the credential starts in header_lines */
	struct curl_slist headers[JOB_HEADERS];

	_Atomic bool is_cancelled;
	_Atomic bool wants_resume; /* the stream's reader has taken bytes from the full buffer */
	_Atomic bool wants_close;  /* the stream's reader has closed the stream */

	/* the I/O thread's own */
	struct transfer *transfer;
	int64_t submitted_ns; /* on clock_real */
	int64_t deadline_ns;  /* on clock_real */
	bool is_replayed;
	bool is_retired;       /* a stream that is to end because tls was replaced */
	bool must_wake_reader; /* bytes of the stream came since its reader was last woken */

	/* of the I/O thread until is_done (a stream's status until has_headers) */
	struct http_response *response;
	size_t n_header_bytes;
	size_t n_body_bytes;
	const char *refused; /* why a callback stopped the transfer; ERR_INVALID */
	bool is_tls_failure; /* no answer arrived because the TLS handshake failed */

	pthread_mutex_t mu;
	pthread_cond_t cond;
	bool is_done;      /* mu: the I/O thread no longer uses the job */
	bool is_ok;        /* mu */
	bool has_headers;  /* mu; only the I/O thread sets it: a stream is open */
	struct error *err; /* filled before is_done when !is_ok */
};

/* ---- job.c ---- */

/** The earlier of the request's time-out and the call's deadline, on the I/O thread's clock. */
int64_t job_deadline(const struct call *call, const struct http_request *request);
void job_init(struct job *job, struct curl_client *client, const struct http_request *request,
              int64_t deadline_ns);
void job_fini(struct job *job);
/** Sets *err to "METHOD URL: why". Returns false. */
bool job_error(const struct job *job, struct error *err, enum err_code code, const char *why);
/** Builds the path and the headers. cancel ends waiting for a credential. ERR_INVALID, or the error
 * of the credential's source. */
NODISCARD bool job_build(struct job *job, struct cancel *cancel, const struct http_request *request,
                         uint64_t *ret_generation, struct error *err);
/** A cancel hook; arg is the job. */
void job_cancel(void *arg);
void job_wait(struct job *job);
/** Replaces the body of a failed request if it repeats the credential that was sent. */
void job_hide_credential(const struct job *job, struct http_response *response);
/** Reports a job that is done to the credential's source, if the TLS handshake failed, or if the
 * status is 401; it is 0 without an answer. Returns true if a newer credential is available, with
 * which the request may be sent once more. */
bool job_report(const struct job *job, int status, uint64_t generation);
/** Empties *response for a new answer, of at most max_body bytes. */
void response_init(struct http_response *response, size_t max_body);

bool request_do(struct http_client *client, struct call *call, const struct http_request *request,
                struct http_response *response, struct error *err);

/* ---- stream.c ---- */

bool stream_open(struct http_client *client, struct call *call, const struct http_request *request,
                 struct http_stream **ret, struct error *err);
/** Takes a stream's bytes, on the I/O thread. False: the buffer is full, so the transfer pauses. */
NODISCARD bool stream_take(struct http_stream *stream, struct str bytes);
/** The headers have arrived, with a status that means success. On the I/O thread. */
void stream_opened(struct http_stream *stream);

/* ---- loop.c ---- */

void loop_start(struct curl_client *client, const char *name, double qps, double burst);
/** Ends the thread and frees the I/O thread's part of the client. */
void loop_stop(struct curl_client *client);
void loop_submit(struct job *job);
/** Makes the I/O thread look at the flags of the client and of its jobs. */
void loop_poke(struct curl_client *client);

/* ---- events.c ---- */

void events_start(struct curl_client *client);
void events_stop(struct curl_client *client);
/** Ends events_wait(), now or as soon as it is called. Any thread. */
void events_wake(struct curl_client *client);
/** Waits until something is ready and passes ready sockets to libcurl. */
void events_wait(struct curl_client *client, int timeout_ms);
/** Runs libcurl's timer if it is due. */
void events_run_timer(struct curl_client *client);

/* ---- curl.c ---- */

/* One easy handle. It is used for one request after the other. */
struct transfer {
	struct transfer *next; /* in the client's spare list */
	CURL *easy;
	struct job *job;
	int n_sends; /* how often libcurl was about to send the request */
	char error[CURL_ERROR_SIZE];
};

struct transfer *transfer_new(struct curl_client *client);
void transfer_free(struct transfer *transfer);
/** Sets what differs from request to request. */
void transfer_prepare(struct transfer *transfer, struct job *job, bool wants_fresh);
/** Fills job->err from libcurl's result. */
void transfer_error(struct transfer *transfer, CURLcode code);

/** A handle whose only effect is that libcurl closes idle connections. */
CURL *sweeper_new(void);

#endif
