/* http/stream.c: a stream from its reader's side.
 *
 * A stream is a job on the heap with two buffers: the I/O thread fills one while the reader parses
 * the other. They are swapped when the reader asks for more, so bytes are copied once and the lock
 * is held only for the swap.
 *
 * Memory is bounded by back-pressure: when the buffer that is filled has LIMIT_STREAM_BUFFER bytes,
 * the transfer pauses, the kernel's window closes, and the server waits. The next read resumes it.
 *
 * The stream is freed only by http_stream_close(), after the I/O thread has ended the job.
 */
#include "base/watchdog.h"
#include "http/internal.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/json.h"

enum {
	LINE_KEPT = 64 << 10,   /* a line's buffer up to this size is kept for the next line */
	STREAM_KEPT = 32 << 10, /* larger buffers are freed while nothing arrives */
};

#define CALM_NS (200 * NS_PER_MS) /* the time without a byte after which they are freed */

struct curl_stream {
	struct http_stream base;
	struct job job;
	struct http_response response;
	struct error err;      /* the job's; valid when the job has failed */
	struct cancel *cancel; /* may be NULL */
	struct buf lent;       /* the reader's: its bytes are lent by stream_read() */
	struct buf fill;       /* job.mu: the I/O thread appends to it */
	bool is_paused;        /* job.mu: fill was full */
};

/* ---- the I/O thread's side ---- */

bool
stream_take(struct http_stream *stream, struct str bytes)
{
	struct curl_stream *s = CONTAINER_OF(stream, struct curl_stream, base);
	WITH_LOCK(&s->job.mu);

	if (!buf_reserve(&s->fill, bytes.len)) {
		s->is_paused = true;
		return false;
	}
	buf_add_str(&s->fill, bytes);
	s->job.must_wake_reader = true;
	return true;
}

void
stream_opened(struct http_stream *stream)
{
	struct curl_stream *s = CONTAINER_OF(stream, struct curl_stream, base);
	struct job *job = &s->job;
	WITH_LOCK(&job->mu);

	job->deadline_ns = CLOCK_FOREVER;
	/* the credential was sent, and a watch may stay open for hours */
	explicit_bzero(job->header_lines.ptr + job->secret_at,
	               job->header_lines.len - job->secret_at);
	job->has_headers = true;
	cond_signal(&job->cond);
}

/* ---- the reader's side ---- */

static bool
stream_is_readable(const struct curl_stream *s)
{
	return s->fill.len > 0 || s->job.is_done || s->job.is_cancelled;
}

/* Called with job.mu. False when the deadline passed. Large buffers are freed when nothing arrives
 * for CALM_NS: after its list, a watch may be silent for hours. */
static bool
stream_wait(struct curl_stream *s, int64_t deadline_ns)
{
	struct clock *clock = s->job.client->clock;

	while (!stream_is_readable(s)) {
		bool is_large = s->fill.cap > STREAM_KEPT || s->lent.cap > STREAM_KEPT;
		int64_t calm_ns = is_large ? clock_mono(clock) + CALM_NS : CLOCK_FOREVER;
		int64_t until_ns = clock_earlier(calm_ns, deadline_ns);

		if (clock_wait(clock, &s->job.cond, &s->job.mu, until_ns) || stream_is_readable(s))
			continue;
		if (until_ns == deadline_ns)
			return false;
		buf_fini(&s->fill);
		buf_fini(&s->lent);
	}
	return true;
}

/* Called with job.mu. Bytes that arrived before a connection broke come before its error. */
static bool
stream_take_bytes(struct curl_stream *s, int64_t deadline_ns, struct str *ret, struct error *err)
{
	struct buf filled;

	if (!stream_wait(s, deadline_ns))
		return job_error(&s->job, err, ERR_TIMEOUT, "no data arrived in time");
	if (s->job.is_cancelled)
		return job_error(&s->job, err, ERR_CANCELLED, "cancelled");
	if (s->fill.len > 0) {
		filled = s->fill;
		buf_reset(&s->lent);
		s->fill = s->lent;
		s->lent = filled;
		*ret = buf_str(&s->lent);
		return true;
	}
	if (!s->job.is_ok) {
		*err = s->err;
		return false;
	}
	*ret = STR_EMPTY; /* the regular end */
	return true;
}

static bool
stream_read(struct http_stream *stream, int64_t deadline_ns, struct str *ret, struct error *err)
{
	struct curl_stream *s = CONTAINER_OF(stream, struct curl_stream, base);
	bool is_ok, must_resume;

	mutex_lock(&s->job.mu);
	watchdog_extend(deadline_ns);
	is_ok = stream_take_bytes(s, deadline_ns, ret, err);
	must_resume = is_ok && s->is_paused;
	if (is_ok)
		s->is_paused = false;
	mutex_unlock(&s->job.mu);
	if (must_resume) {
		atomic_store(&s->job.wants_resume, true);
		loop_poke(s->job.client);
	}
	return is_ok;
}

static void
stream_free(struct curl_stream *s)
{
	job_fini(&s->job);
	buf_fini(&s->fill);
	buf_fini(&s->lent);
	http_response_fini(&s->response);
	free(s);
}

static void
stream_close(struct http_stream *stream)
{
	struct curl_stream *s = CONTAINER_OF(stream, struct curl_stream, base);

	atomic_store(&s->job.wants_close, true);
	loop_poke(s->job.client);
	job_wait(&s->job);
	cancel_unhook(s->cancel, job_cancel, &s->job);
	stream_free(s);
}

static const struct http_stream_ops curl_stream_ops = {
	.read = stream_read,
	.close = stream_close,
};

/* True when the stream is open; otherwise the job is done. */
static bool
stream_wait_until_open(struct curl_stream *s)
{
	WITH_LOCK(&s->job.mu);

	while (!s->job.is_done && !s->job.has_headers)
		(void)clock_wait(&clock_real, &s->job.cond, &s->job.mu, CLOCK_FOREVER);
	return s->job.has_headers;
}

/* The text of the error is the field "message" of a JSON answer, which Kubernetes' Status has, else
 * the answer itself. */
static bool
stream_refused(const struct http_request *request, const struct http_response *response,
               struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct str text = buf_str(&response->body);
	struct error ignored;

	if (json_parse(text, &doc, &ignored))
		(void)json_str(yyjson_doc_get_root(doc), "message", &text);
	return http_status_error(err, request, response->status, response->retry_after_ms, text);
}

/* Tries to open the stream once. After a failure the job is done. If the answer's status means
 * failure, *ret_status is that status; 0 when there is no answer. */
static bool
stream_open_once(struct curl_stream *s, const struct http_request *request,
                 uint64_t *ret_generation, int *ret_status, struct error *err)
{
	*ret_status = 0;
	if (!job_build(&s->job, s->cancel, request, ret_generation, err))
		return false;
	cancel_hook(s->cancel, job_cancel, &s->job);
	loop_submit(&s->job);
	if (stream_wait_until_open(s))
		return true;
	cancel_unhook(s->cancel, job_cancel, &s->job);
	if (!s->job.is_ok) {
		*err = s->err;
		return false;
	}
	job_hide_credential(&s->job, &s->response);
	*ret_status = s->response.status;
	return stream_refused(request, &s->response, err);
}

bool
stream_open(struct http_client *client, struct call *call, const struct http_request *request,
            struct http_stream **ret, struct error *err)
{
	struct curl_client *c = CONTAINER_OF(client, struct curl_client, base);
	int64_t deadline_ns = job_deadline(call, request);
	uint64_t generation = 0;
	bool may_repeat;
	int status;

	watchdog_extend(deadline_ns);
	for (bool is_first = true;; is_first = false) {
		struct curl_stream *s = xcalloc(1, sizeof(*s));

		*s = (struct curl_stream){ .base = { .ops = &curl_stream_ops, .line = BUF_INIT(0) },
			                   .response = HTTP_RESPONSE_INIT,
			                   .cancel = call->cancel,
			                   .lent = BUF_INIT(LIMIT_STREAM_BUFFER),
			                   .fill = BUF_INIT(LIMIT_STREAM_BUFFER) };
		response_init(&s->response, LIMIT_STREAM_BUFFER);
		job_init(&s->job, c, request, deadline_ns);
		s->job.stream = &s->base;
		s->job.response = &s->response;
		s->job.err = &s->err;
		if (stream_open_once(s, request, &generation, &status, err)) {
			*ret = &s->base;
			return true;
		}
		may_repeat = job_report(&s->job, status, generation) && is_first;
		stream_free(s);
		if (!may_repeat)
			return false;
	}
}

/* ---- lines ---- */

/* Moves the first n pending bytes to the end of the line. */
static bool
stream_keep_piece(struct http_stream *s, size_t n, size_t max_line, struct error *err)
{
	if (n > max_line - s->line.len)
		return err_set(err, ERR_INVALID, "a line of the response is longer than %zu bytes",
		               max_line);
	buf_add(&s->line, s->pending.ptr, n);
	s->pending = str_skip(s->pending, n);
	return true;
}

bool
http_stream_next(struct http_stream *s, int64_t deadline_mono_ns, size_t max_line, struct str *ret,
                 struct error *err)
{
	ptrdiff_t end;
	size_t n;

	/* drop the line that was lent before */
	s->line.max = max_line;
	if (s->is_line_lent && s->line.cap > LINE_KEPT)
		buf_fini(&s->line);
	else if (s->is_line_lent)
		buf_reset(&s->line);
	s->is_line_lent = false;

	/* keep pieces of the line until its end is among the pending bytes */
	for (;;) {
		end = s->pending.len > 0 ? str_index(s->pending, '\n') : -1;
		if (end >= 0)
			break;
		if (s->pending.len > 0 && !stream_keep_piece(s, s->pending.len, max_line, err))
			return false;
		s->pending = STR_EMPTY;
		if (!http_stream_read(s, deadline_mono_ns, &s->pending, err))
			return false;
		if (s->pending.len == 0) {
			*ret = (struct str){ 0 };
			return true;
		}
	}

	/* usually the whole line is there, and nothing is copied */
	n = (size_t)end;
	if (s->line.len == 0 && n <= max_line) {
		*ret = str_head(s->pending, n);
		s->pending = str_skip(s->pending, n + 1);
		return true;
	}
	if (!stream_keep_piece(s, n, max_line, err))
		return false;
	s->pending = str_skip(s->pending, 1);
	s->is_line_lent = true;
	*ret = buf_str(&s->line);
	return true;
}

bool
http_stream_read(struct http_stream *s, int64_t deadline_mono_ns, struct str *ret,
                 struct error *err)
{
	return s->ops->read(s, deadline_mono_ns, ret, err);
}

void
http_stream_close(struct http_stream *s)
{
	if (!s)
		return;
	buf_fini(&s->line);
	s->ops->close(s);
}
