/* tests/kube/fake_http.c: see fake_http.h. */
#include "kube/fake_http.h"

#include "base/array.h"
#include "base/limits.h"
#include "base/thread.h"

enum {
	PATIENCE_S = 60, /* far more than a busy machine takes */
};

struct fake_http {
	struct http_client client;
	pthread_mutex_t mu;
	pthread_cond_t arrived;          /* mu */
	struct fake_answer *answers;     /* mu */
	size_t n_answers, cap_answers;   /* mu */
	size_t next;                     /* mu; the answer to give */
	struct fake_request **requests;  /* mu */
	size_t n_requests, cap_requests; /* mu */
};

static struct fake_request *
copy_request(const struct http_request *request)
{
	struct fake_request *copy = xcalloc(1, sizeof(*copy));

	copy->method = request->method;
	copy->class = request->class;
	copy->can_replay = request->can_replay;
	copy->target = xstrndup(request->target.ptr, request->target.len);
	copy->accept = xstrdup(request->accept ? request->accept : "");
	copy->content_type = xstrdup(request->content_type ? request->content_type : "");
	copy->body = request->content_type ? xstrndup(request->body.ptr, request->body.len)
	                                   : xstrdup("");
	return copy;
}

static struct fake_answer
take_answer(struct fake_http *f, const struct http_request *request)
{
	struct fake_answer answer = { .status = 200, .body = "{}" };
	WITH_LOCK(&f->mu);

	ARRAY_PUSH(f->requests, f->n_requests, f->cap_requests, copy_request(request));
	cond_broadcast(&f->arrived);
	if (f->n_answers)
		answer = f->answers[f->next < f->n_answers ? f->next : f->n_answers - 1];
	f->next++;
	return answer;
}

static bool
do_request(struct http_client *client, struct call *call, const struct http_request *request,
           struct http_response *response, struct error *err)
{
	struct fake_answer answer = take_answer(CONTAINER_OF(client, struct fake_http, client),
	                                        request);

	if (cancel_is_fired(call->cancel))
		return err_set(err, ERR_CANCELLED, "cancelled");
	if (answer.hangs)
		return cancel_sleep(call->cancel, call->clock, CLOCK_FOREVER, err);
	if (answer.status == 0)
		return err_set(err, answer.code, "scripted failure");
	response->status = answer.status;
	response->retry_after_ms = answer.retry_after_ms;
	response->body = BUF_INIT(LIMIT_HTTP_BODY);
	buf_add_c(&response->body, answer.body ? answer.body : "");
	return true;
}

struct fake_http *
fake_http_new(void)
{
	static const struct http_ops ops = { .do_request = do_request };
	struct fake_http *f = xcalloc(1, sizeof(*f));

	f->client.ops = &ops;
	mutex_init(&f->mu);
	cond_init(&f->arrived);
	return f;
}

void
fake_http_free(struct fake_http *f)
{
	for (size_t i = 0; i < f->n_requests; i++) {
		free(f->requests[i]->target);
		free(f->requests[i]->accept);
		free(f->requests[i]->content_type);
		free(f->requests[i]->body);
		free(f->requests[i]);
	}
	free(f->requests);
	free(f->answers);
	cond_destroy(&f->arrived);
	mutex_destroy(&f->mu);
	free(f);
}

struct http_client *
fake_http_client(struct fake_http *f)
{
	return &f->client;
}

void
fake_http_add(struct fake_http *f, struct fake_answer answer)
{
	WITH_LOCK(&f->mu);

	ARRAY_PUSH(f->answers, f->n_answers, f->cap_answers, answer);
}

void
fake_http_answer(struct fake_http *f, int status, const char *body)
{
	fake_http_add(f, (struct fake_answer){ .status = status, .body = body });
}

size_t
fake_http_count(struct fake_http *f)
{
	WITH_LOCK(&f->mu);

	return f->n_requests;
}

const struct fake_request *
fake_http_request(struct fake_http *f, size_t i)
{
	WITH_LOCK(&f->mu);

	if (i < f->n_requests)
		return f->requests[i];
	(void)fprintf(stderr, "request %zu was never sent\n", i);
	abort();
}

void
fake_http_wait(struct fake_http *f, size_t n)
{
	struct timespec end;
	WITH_LOCK(&f->mu);

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += PATIENCE_S;
	while (f->n_requests < n) {
		if (pthread_cond_timedwait(&f->arrived, &f->mu, &end) == 0)
			continue;
		(void)fprintf(stderr, "waited in vain for request %zu\n", n);
		abort();
	}
}
