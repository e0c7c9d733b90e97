/* tests/kube/fake_streams.c: see fake_streams.h. */
#include "kube/fake_streams.h"

#include "base/array.h"
#include "base/limits.h"
#include "base/thread.h"

struct step {
	int64_t after_ns;
	char *text; /* NULL: the end, or a break */
	bool breaks;
};

struct answer {
	struct error refusal; /* ERR_NONE: it opens */
	struct step *steps;
	size_t n_steps, cap_steps;
};

struct fake_streams {
	struct http_client client;
	struct clock *clock;
	struct answer *answers; /* complete before the first stream */
	size_t n_answers, cap_answers;
	pthread_mutex_t mu;
	char **targets;                /* mu */
	size_t n_targets, cap_targets; /* mu */
};

struct fake_stream {
	struct http_stream stream;
	struct clock *clock;
	struct cancel *cancel;
	const struct answer *answer;
	size_t next_step;
	int64_t since_ns; /* when the last step was made; the next one is timed from there */
};

static bool
stream_read(struct http_stream *stream, int64_t deadline_ns, struct str *ret, struct error *err)
{
	struct fake_stream *s = CONTAINER_OF(stream, struct fake_stream, stream);
	const struct step *step = s->next_step < s->answer->n_steps
	                                  ? &s->answer->steps[s->next_step]
	                                  : NULL;
	int64_t now_ns = clock_mono(s->clock);
	int64_t due_ns = step ? clock_deadline(s->since_ns, step->after_ns) : CLOCK_FOREVER;

	if (!step || due_ns > deadline_ns) {
		if (!cancel_sleep(s->cancel, s->clock, deadline_ns - now_ns, err))
			return false;
		return err_set(err, ERR_TIMEOUT, "silent");
	}
	if (!cancel_sleep(s->cancel, s->clock, due_ns > now_ns ? due_ns - now_ns : 0, err))
		return false;
	s->since_ns = due_ns;
	s->next_step++;
	if (step->breaks)
		return err_set(err, ERR_UNAVAILABLE, "broken");
	*ret = str_c(step->text);
	return true;
}

static void
stream_close(struct http_stream *stream)
{
	free(CONTAINER_OF(stream, struct fake_stream, stream));
}

static const struct http_stream_ops stream_ops = { .read = stream_read, .close = stream_close };

/* The place of the answer to this request. */
static size_t
keep_target(struct fake_streams *f, struct str target)
{
	WITH_LOCK(&f->mu);

	ARRAY_PUSH(f->targets, f->n_targets, f->cap_targets, xstrndup(target.ptr, target.len));
	return f->n_targets - 1;
}

static bool
stream_open(struct http_client *client, struct call *call, const struct http_request *request,
            struct http_stream **ret, struct error *err)
{
	struct fake_streams *f = CONTAINER_OF(client, struct fake_streams, client);
	size_t place = keep_target(f, request->target);
	struct fake_stream *s;

	if (place >= f->n_answers)
		return cancel_sleep(call->cancel, call->clock, CLOCK_FOREVER, err);
	if (f->answers[place].refusal.code != ERR_NONE) {
		*err = f->answers[place].refusal;
		return false;
	}
	s = xcalloc(1, sizeof(*s));
	s->stream = (struct http_stream){ .ops = &stream_ops, .line = BUF_INIT(LIMIT_WATCH_LINE) };
	s->clock = call->clock;
	s->cancel = call->cancel;
	s->answer = &f->answers[place];
	s->since_ns = clock_mono(call->clock);
	*ret = &s->stream;
	return true;
}

struct fake_streams *
fake_streams_new(struct clock *clock)
{
	static const struct http_ops ops = { .stream_open = stream_open };
	struct fake_streams *f = xcalloc(1, sizeof(*f));

	f->client.ops = &ops;
	f->clock = clock;
	mutex_init(&f->mu);
	return f;
}

void
fake_streams_free(struct fake_streams *f)
{
	for (size_t i = 0; i < f->n_answers; i++) {
		for (size_t k = 0; k < f->answers[i].n_steps; k++)
			free(f->answers[i].steps[k].text);
		free(f->answers[i].steps);
	}
	free(f->answers);
	for (size_t i = 0; i < f->n_targets; i++)
		free(f->targets[i]);
	free(f->targets);
	mutex_destroy(&f->mu);
	free(f);
}

struct http_client *
fake_streams_client(struct fake_streams *f)
{
	return &f->client;
}

void
fake_streams_refuse(struct fake_streams *f, enum err_code code, int http_status,
                    int64_t retry_after_ms)
{
	struct answer answer = { 0 };

	(void)err_set(&answer.refusal, code, "scripted refusal");
	answer.refusal.http_status = http_status;
	answer.refusal.retry_after_ms = retry_after_ms;
	ARRAY_PUSH(f->answers, f->n_answers, f->cap_answers, answer);
}

void
fake_streams_open(struct fake_streams *f)
{
	ARRAY_PUSH(f->answers, f->n_answers, f->cap_answers, (struct answer){ 0 });
}

static void
add_step(struct fake_streams *f, struct step step)
{
	struct answer *answer = &f->answers[f->n_answers - 1];

	ARRAY_PUSH(answer->steps, answer->n_steps, answer->cap_steps, step);
}

void
fake_streams_send(struct fake_streams *f, int64_t after_ns, struct str text)
{
	add_step(f, (struct step){ .after_ns = after_ns, .text = xstrndup(text.ptr, text.len) });
}

void
fake_streams_end(struct fake_streams *f, int64_t after_ns)
{
	add_step(f, (struct step){ .after_ns = after_ns });
}

void
fake_streams_break(struct fake_streams *f, int64_t after_ns)
{
	add_step(f, (struct step){ .after_ns = after_ns, .breaks = true });
}

size_t
fake_streams_count(struct fake_streams *f)
{
	WITH_LOCK(&f->mu);

	return f->n_targets;
}

const char *
fake_streams_target(struct fake_streams *f, size_t i)
{
	WITH_LOCK(&f->mu);

	return i < f->n_targets ? f->targets[i] : "";
}
