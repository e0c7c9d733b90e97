/* http/job.c: a request from its caller's side.
 *
 * http_do() puts a job on its own stack, hands it to the I/O thread (http/loop.c) and sleeps until
 * the I/O thread sets is_done. From loop_submit() until then the I/O thread may touch the job, the
 * request, its buffers and the response at any time, so nothing here may return earlier, not even
 * after a cancellation: cancelling only asks the I/O thread to end the job.
 *
 * The credential is fetched on the caller's thread, because that may take a request of its own or a
 * child process. A 401 for a credential that was replaced in the meantime is answered by sending
 * the request once more.
 */
#include "base/watchdog.h"
#include "http/internal.h"

#include <assert.h>

#include "base/log.h"
#include "http/url.h"

enum {
	DEFAULT_TIMEOUT_MS = 30000,
	/* enough for most requests: a service account's token has about 1 kB */
	HEADER_ROOM = 4 << 10,
};

/* ---- building a job ---- */

/* The call's deadline is on the clock of the caller, which tests replace; the I/O thread uses the
 * real clock only. The deadline is therefore converted by way of the remaining time. */
int64_t
job_deadline(const struct call *call, const struct http_request *request)
{
	int64_t timeout_ms = request->timeout_ms > 0 ? request->timeout_ms : DEFAULT_TIMEOUT_MS;

	return call_deadline_real(call, timeout_ms * NS_PER_MS);
}

void
job_init(struct job *job, struct curl_client *c, const struct http_request *request,
         int64_t deadline_ns)
{
	*job = (struct job){
		.client = c,
		.method = request->method,
		.class = request->class,
		.can_replay = request->can_replay,
		.is_endless = request->is_endless,
		.body = request->content_type ? request->body : STR_EMPTY,
		.has_body = request->content_type != NULL,
		.max_body = request->max_body,
		.path = BUF_INIT(LIMIT_HTTP_URL),
		.header_lines = BUF_SECRET(LIMIT_HTTP_HEADERS),
		.deadline_ns = deadline_ns,
	};
	mutex_init(&job->mu);
	cond_init(&job->cond);
}

void
job_fini(struct job *job)
{
	buf_fini(&job->path);
	buf_fini(&job->header_lines);
	cond_destroy(&job->cond);
	mutex_destroy(&job->mu);
}

static void
job_add_header(struct job *job, const char *name, const char *value)
{
	buf_add_c(&job->header_lines, name);
	buf_add_c(&job->header_lines, value);
	buf_add_char(&job->header_lines, '\0');
}

/* Appends the Authorization header. It is the last one added: if the buffer grew afterwards, the
 * credential would stay behind in freed memory. An empty credential adds no header. */
static bool
job_add_credential(struct job *job, struct cancel *cancel, uint64_t *ret_generation,
                   struct error *err)
{
	struct call call = { .clock = &clock_real,
		             .cancel = cancel,
		             .deadline_mono_ns = job->deadline_ns };
	struct http_auth *auth = job->client->auth;
	struct buf *lines = &job->header_lines;
	size_t start = lines->len;

	job->secret_at = start;
	*ret_generation = 0;
	if (!auth)
		return true;
	buf_addf(lines, "%s: ", auth->header ? auth->header : "Authorization");
	job->secret_at = lines->len;
	if (!auth->authorize(auth, &call, lines, ret_generation, err))
		return false;
	for (size_t i = job->secret_at; i < lines->len; i++) {
		if ((unsigned char)lines->ptr[i] < ' ')
			return err_set(
				err, ERR_UNAUTHORIZED,
				"the credential contains a line break or another control character");
	}
	if (lines->len > job->secret_at) {
		buf_add_char(lines, '\0');
		return true;
	}
	buf_truncate(lines, start);
	job->secret_at = start;
	return true;
}

/* Links the header lines into the list that libcurl expects. curl_slist_append() would copy each
 * line to the heap, the credential included. */
static void
job_link_headers(struct job *job)
{
	struct str rest = buf_str(&job->header_lines);
	size_t n = 0;

	while (rest.len > 0 && n < JOB_HEADERS) {
		char *line = job->header_lines.ptr + (job->header_lines.len - rest.len);

		if (n > 0)
			job->headers[n - 1].next = &job->headers[n];
		job->headers[n++] = (struct curl_slist){ .data = line };
		rest = str_skip(rest, strlen(line) + 1);
	}
	assert(rest.len == 0);
	job->headers[n - 1].next = job->client->headers; /* shared by all requests of the client */
}

bool
job_build(struct job *job, struct cancel *cancel, const struct http_request *request,
          uint64_t *ret_generation, struct error *err)
{
	size_t prefix_len = strlen(job->client->prefix);

	if (request->body.len > LIMIT_HTTP_REQUEST)
		return err_set(err, ERR_INVALID,
		               "the body of a request has %zu bytes, more than the allowed %zu",
		               request->body.len, LIMIT_HTTP_REQUEST);

	/* The target goes into the request line as it is: white space or a line break in it would
	 * let foreign text add headers or a second request. */
	if (url_has_space_or_control(request->target) ||
	    (request->target.len > 0 && request->target.ptr[0] != '/'))
		return err_set(err, ERR_INVALID, "\"%" STR_FMT "\" is not the path of a URL",
		               STR_ARG(str_head(request->target, 200)));
	buf_add(&job->path, job->client->prefix, prefix_len);
	buf_add_str(&job->path, request->target);
	if (!buf_ok(&job->path))
		return err_set(err, ERR_INVALID, "the URL of a request is longer than %zu bytes",
		               LIMIT_HTTP_URL);
	job->target = str_skip(buf_str(&job->path), prefix_len);

	if (!buf_reserve(&job->header_lines, HEADER_ROOM))
		return err_set(err, ERR_INTERNAL,
		               "cannot reserve memory for the headers of a request");
	job_add_header(job, "Accept: ", request->accept ? request->accept : "application/json");
	/* A header without a value is left out by libcurl. Otherwise it would send its defaults:
	 * the content type of an HTML form, and "Expect: 100-continue", which costs a round trip
	 * before a large body. */
	job_add_header(job, "Content-Type: ", request->content_type ? request->content_type : "");
	job_add_header(job, "Expect: ", "");
	if (request->user_agent)
		job_add_header(job, "User-Agent: ", request->user_agent);
	if (job->client->host_header)
		job_add_header(job, "Host: ", job->client->host_header);
	if (!job_add_credential(job, cancel, ret_generation, err))
		return false;
	if (!buf_ok(&job->header_lines))
		return err_set(err, ERR_INVALID,
		               "the headers of a request are longer than %zu bytes",
		               LIMIT_HTTP_HEADERS);
	job_link_headers(job);
	return true;
}

void
job_cancel(void *arg)
{
	struct job *job = arg;

	atomic_store(&job->is_cancelled, true);
	loop_poke(job->client);
}

void
response_init(struct http_response *response, size_t max_body)
{
	buf_fini(&response->body);
	response->body.max = max_body;
	*response = (struct http_response){
		.ratelimit_limit = -1,
		.ratelimit_remaining = -1,
		.ratelimit_reset = -1,
		.body = response->body,
	};
}

bool
job_report(const struct job *job, int status, uint64_t generation)
{
	struct http_auth *auth = job->client->auth;

	if (job->is_tls_failure && auth && auth->tls_failed)
		auth->tls_failed(auth);
	return status == 401 && auth && auth->rejected && auth->rejected(auth, generation);
}

/* Error pages get into logs and Events, and some proxies repeat the request in theirs. With Basic,
 * the credential is the base64 form. */
void
job_hide_credential(const struct job *job, struct http_response *response)
{
	struct str value = str_skip(buf_str(&job->header_lines), job->secret_at), scheme, rest;

	value = str_head(value, strnlen(value.ptr, value.len));
	if (str_cut(value, ' ', &scheme, &rest))
		value = rest;
	if (response->status < 400 || value.len == 0 ||
	    !str_contains(buf_str(&response->body), value))
		return;
	buf_wipe(&response->body);
	buf_add_c(&response->body, "the response repeats the credentials of the request");
}

bool
job_error(const struct job *job, struct error *err, enum err_code code, const char *why)
{
	return err_set(err, code, "%s %s%" STR_FMT ": %s", http_method_name(job->method),
	               job->client->shown_url, STR_ARG(job->target), why);
}

/* ---- requests ---- */

/* This wait has no deadline: the I/O thread ends late jobs, and this function must not return
 * before it has done so. */
void
job_wait(struct job *job)
{
	WITH_LOCK(&job->mu);

	while (!job->is_done)
		(void)clock_wait(&clock_real, &job->cond, &job->mu, CLOCK_FOREVER);
}

/* Sends a job once and waits until the I/O thread no longer uses it. */
static bool
job_send(struct job *job, struct call *call, const struct http_request *request,
         struct http_response *response, uint64_t *ret_generation, struct error *err)
{
	if (!job_build(job, call->cancel, request, ret_generation, err))
		return false;
	if (job->max_body == 0)
		job->max_body = LIMIT_HTTP_BODY;
	response_init(response, job->max_body);
	job->response = response;
	job->err = err;
	cancel_hook(call->cancel, job_cancel, job);
	loop_submit(job);
	job_wait(job);
	cancel_unhook(call->cancel, job_cancel, job);
	return job->is_ok;
}

bool
request_do(struct http_client *client, struct call *call, const struct http_request *request,
           struct http_response *response, struct error *err)
{
	struct curl_client *c = CONTAINER_OF(client, struct curl_client, base);
	int64_t started_ns = clock_mono(&clock_real), deadline_ns = job_deadline(call, request);
	uint64_t generation = 0;

	watchdog_extend(deadline_ns);
	for (bool is_first = true;; is_first = false) {
		struct job job;
		bool is_ok, may_repeat;

		job_init(&job, c, request, deadline_ns);
		is_ok = job_send(&job, call, request, response, &generation, err);
		if (is_ok) {
			job_hide_credential(&job, response);
			log_debug("http", LOG_CSTR("method", http_method_name(job.method)),
			          LOG_STR("target", job.target),
			          LOG_I64("status", response->status),
			          LOG_DURATION("took", clock_mono(&clock_real) - started_ns));
		} else {
			/* the part of a response that arrived before the failure is dropped */
			bool is_untrusted = response->is_untrusted;

			response_init(response, 0);
			response->is_untrusted = is_untrusted;
		}
		may_repeat = job_report(&job, response->status, generation) && is_first;
		job_fini(&job);
		if (!may_repeat)
			return is_ok;
	}
}
