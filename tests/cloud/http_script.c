#include "cloud/http_script.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/limits.h"
#include "cloud/login.h"

/* A star at the end stands for whatever follows. */
static bool
is_for(const struct http_script_answer *answer, const struct http_request *request)
{
	struct str pattern = str_c(answer->target), target = request->target, method;

	if (str_cut(pattern, ' ', &method, &pattern) &&
	    !str_eq_c(method, http_method_name(request->method)))
		return false;
	if (str_ends(pattern, STR("*")))
		return str_starts(target, str_head(pattern, pattern.len - 1));
	return str_eq(target, pattern);
}

static struct http_script_answer *
answer_for(struct http_script *s, const struct http_request *request)
{
	struct http_script_answer *last = NULL;

	for (size_t i = 0; i < s->n_answers; i++) {
		if (!is_for(&s->answers[i], request))
			continue;
		last = &s->answers[i];
		if (!last->is_used)
			break;
	}
	if (!last) {
		fail_msg("unexpected request: %s %" STR_FMT, http_method_name(request->method),
		         STR_ARG(request->target));
		abort();
	}
	last->is_used = true;
	return last;
}

static void
fill(struct http_response *response, const struct http_script_answer *answer)
{
	bool is_limited = answer->limit > 0;

	response->status = answer->status;
	response->retry_after_ms = answer->retry_after_ms;
	response->ratelimit_limit = is_limited ? answer->limit : -1;
	response->ratelimit_remaining = is_limited ? answer->remaining : -1;
	response->ratelimit_reset = is_limited ? answer->reset_s : -1;
	buf_add_c(&response->body, answer->body ? answer->body : "");
}

static void
note(struct http_script *s, const struct http_request *request)
{
	s->n_asked++;
	if (request->method != HTTP_GET)
		buf_addf(&s->asked, "%s ", http_method_name(request->method));
	buf_add_str(&s->asked, request->target);
	if (request->body.len > 0)
		buf_addf(&s->asked, " %" STR_FMT, STR_ARG(request->body));
	buf_add_char(&s->asked, '\n');
}

static bool
do_request(struct http_client *client, struct call *call, const struct http_request *request,
           struct http_response *response, struct error *err)
{
	struct http_script *s = CONTAINER_OF(client, struct http_script, client);
	const struct http_script_answer *answer = answer_for(s, request);

	(void)call;
	note(s, request);
	if (answer->replaces_credentials)
		login_note_replaced();
	if (answer->status == 0)
		return err_set(err, answer->code, "scripted failure");
	fill(response, answer);
	if (!buf_ok(&response->body))
		return err_set(err, ERR_INVALID, "the response is larger than allowed");
	if (s->correlation_id)
		snprintf(response->correlation_id, HTTP_CORRELATION_MAX, "%s", s->correlation_id);
	return true;
}

void
http_script_add(struct http_script *s, struct http_script_answer answer)
{
	if (s->n_answers == HTTP_SCRIPT_ANSWERS)
		abort();
	s->answers[s->n_answers++] = answer;
}

void
http_script_answer(struct http_script *s, const char *target, int status, const char *body)
{
	http_script_add(s, (struct http_script_answer){
				   .target = target, .status = status, .body = body });
}

void
http_script_check_asked(struct http_script *s, const char *targets)
{
	assert_string_equal(s->asked.ptr, targets);
	buf_reset(&s->asked);
}

void
http_script_init(struct http_script *s)
{
	static const struct http_ops ops = { .do_request = do_request };

	*s = (struct http_script){ .client = { &ops }, .asked = BUF_INIT(100000) };
}

void
http_script_fini(struct http_script *s)
{
	buf_fini(&s->asked);
}
