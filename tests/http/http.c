#include "http/http.h"

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/thread.h"
#include "http/world.h"

/* ---- requests ---- */

static void
reads_an_answer(void **state)
{
	WORLD(w);

	(void)state;
	start(&w, echo, NULL);
	must_get(&w);
	assert_int_equal(w.response.status, 200);
	assert_false(w.response.is_reused);
	assert_non_null(strstr(w.response.body.ptr, "GET /path?q=1 HTTP/1.1\r\n"));
	assert_non_null(strstr(w.response.body.ptr, "User-Agent: ccmd/test\r\n"));
	assert_non_null(strstr(w.response.body.ptr, "Accept: application/json\r\n"));
	assert_null(strstr(w.response.body.ptr, "Content-Type"));
	assert_null(strstr(w.response.body.ptr, "Accept-Encoding"));
	must_get(&w);
	assert_true(w.response.is_reused);
	assert_int_equal(loopback_connections(w.server), 1);
}

static void
sends_a_body(void **state)
{
	static const enum http_method methods[] = { HTTP_POST, HTTP_PUT, HTTP_PATCH, HTTP_DELETE };
	WORLD(w);

	(void)state;
	start(&w, echo, NULL);
	for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
		assert_true(send_request(&w, methods[i], "{\"a\":1}", false));
		assert_true(str_starts(buf_str(&w.response.body),
		                       str_c(http_method_name(methods[i]))));
		assert_non_null(strstr(w.response.body.ptr, "Content-Type: application/json\r\n"));
		assert_non_null(strstr(w.response.body.ptr, "Content-Length: 7\r\n"));
		assert_non_null(strstr(w.response.body.ptr, "\r\n\r\n{\"a\":1}"));
	}
	assert_int_equal(loopback_connections(w.server), 1);
}

static void
sends_none(void **state)
{
	WORLD(w);

	(void)state;
	start(&w, echo, NULL);
	assert_true(send_request(&w, HTTP_POST, "{\"a\":1}", false));
	assert_true(send_request(&w, HTTP_POST, NULL, false));
	assert_non_null(strstr(w.response.body.ptr, "Content-Length: 0\r\n"));
	assert_null(strstr(w.response.body.ptr, "Content-Type"));
	assert_true(send_request(&w, HTTP_DELETE, NULL, false));
	assert_true(str_starts(buf_str(&w.response.body), STR("DELETE ")));
	assert_null(strstr(w.response.body.ptr, "Content-"));
	must_get(&w);
	assert_true(str_starts(buf_str(&w.response.body), STR("GET ")));
}

static bool
body_size(struct visit *v)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(100);

	buf_addf(&b, "%zu %d", v->body.len, visit_has(v, "Expect: 100-continue"));
	return visit_reply(v, "200 OK", "", b.ptr);
}

static void
sends_a_large_body(void **state)
{
	size_t size = 3 << 20;
	char *body = malloc(size + 1);
	WORLD(w);

	(void)state;
	memset(body, 'x', size);
	body[size] = '\0';
	start_server(&w, body_size, NULL, &identity);
	start_client(&w);
	assert_true(send_request(&w, HTTP_POST, body, false));
	assert_string_equal(w.response.body.ptr, "3145728 0");
	free(body);
}

static bool
many_headers(struct visit *v)
{
	return visit_reply(v, "503 Service Unavailable",
	                   "retry-after: 7\r\nRateLimit-Limit: 3600\r\nRateLimit-Remaining:3599\r\n"
	                   "RateLimit-Reset: 1700000000\r\nRateLimit: x\r\n"
	                   "x-correlation-id: 4d17a7\r\nDate: Tue, 14 Nov 2023 22:13:20 GMT\r\n",
	                   "later");
}

static void
reads_headers(void **state)
{
	WORLD(w);

	(void)state;
	start(&w, many_headers, NULL);
	must_get(&w);
	assert_int_equal(w.response.status, 503);
	assert_int_equal(w.response.retry_after_ms, 7000);
	assert_int_equal(w.response.ratelimit_limit, 3600);
	assert_int_equal(w.response.ratelimit_remaining, 3599);
	assert_int_equal(w.response.ratelimit_reset, 1700000000);
	assert_string_equal(w.response.correlation_id, "4d17a7");
	assert_int_equal(w.response.date_s, 1700000000);
	assert_string_equal(w.response.body.ptr, "later");
}

static void
sends_further_headers(void **state)
{
	const char *const headers[] = { "Impersonate-User: jane", "Impersonate-Group: a",
		                        "Impersonate-Group: b", NULL };
	WORLD(w);

	(void)state;
	w.config.headers = headers;
	start(&w, echo, NULL);
	for (int i = 0; i < 2; i++) {
		must_get(&w);
		for (size_t j = 0; headers[j]; j++)
			assert_non_null(strstr(w.response.body.ptr, headers[j]));
		assert_non_null(strstr(w.response.body.ptr, "Accept: application/json"));
	}
}

static bool
three_warnings(struct visit *v)
{
	return visit_reply(v, "200 OK",
	                   "Warning: 299 - \"old\"\r\nwarning: 299 - \"older\"\r\n"
	                   "Warning: 199 - \"misc\"\r\nWarning:\r\n",
	                   "");
}

static void
keep_warning(void *arg, struct str value)
{
	buf_add_str(arg, value);
	buf_add_char(arg, '|');
}

static void
warnings_are_reported(void **state)
{
	CLEANUP(buf_fini) struct buf all = BUF_INIT(1000);
	WORLD(w);

	(void)state;
	w.config.warned = keep_warning;
	w.config.callback_arg = &all;
	start(&w, three_warnings, NULL);
	must_get(&w);
	http_client_free(TAKE(w.client)); /* its thread has written what is read now */
	assert_string_equal(all.ptr, "299 - \"old\"|299 - \"older\"|");
}

static void
keep_name(void *arg, struct str name, int64_t took_ns)
{
	buf_addf(arg, "%" STR_FMT "%s|", STR_ARG(name), took_ns < 0 ? " in the past" : "");
}

/* One of two names does not exist; an address is not looked up. */
static void
lookups_of_names_are_reported(void **state)
{
	CLEANUP(buf_fini) struct buf all = BUF_INIT(1000);
	WORLD(w);
	char url[64];

	(void)state;
	w.config.resolved = keep_name;
	w.config.callback_arg = &all;
	start(&w, echo, NULL);
	must_get(&w);
	http_client_free(TAKE(w.client));
	snprintf(url, sizeof(url), "http://localhost:%d", loopback_port(w.server));
	w.config.base_url = str_c(url);
	start_client(&w);
	must_get(&w);
	must_get(&w); /* by the same connection */
	http_client_free(TAKE(w.client));
	w.config.base_url = STR("http://nobody.invalid");
	start_client(&w);
	must_fail(&w, HTTP_GET, ERR_UNAVAILABLE, "nobody.invalid");
	http_client_free(TAKE(w.client));
	assert_string_equal(all.ptr, "localhost|nobody.invalid|");
}

static bool
odd_headers(struct visit *v)
{
	visit_writes(v, "HTTP/1.1 103 Early Hints\r\nRateLimit-Limit: 1\r\n\r\n");
	return visit_reply(v, "200 OK",
	                   "Retry-After: Wed, 21 Oct 2026 07:28:00 GMT\r\nRateLimit-Reset: -1\r\n"
	                   "X-Correlation-Id: two words\r\n",
	                   "");
}

static void
takes_odd_headers(void **state)
{
	WORLD(w);

	(void)state;
	start(&w, odd_headers, NULL);
	must_get(&w);
	assert_int_equal(w.response.status, 200);
	assert_int_equal(w.response.retry_after_ms, 0);
	assert_int_equal(w.response.ratelimit_remaining, -1);
	assert_int_equal(w.response.ratelimit_reset, -1);
	assert_string_equal(w.response.correlation_id, "");
	assert_int_equal(w.response.body.len, 0);
}

static bool
redirect(struct visit *v)
{
	return visit_reply(v, "302 Found", "Location: /other\r\n", "");
}

static void
follows_no_redirect(void **state)
{
	WORLD(w);

	(void)state;
	start(&w, redirect, NULL);
	must_get(&w);
	assert_int_equal(w.response.status, 302);
	assert_int_equal(loopback_requests(w.server), 1);
}

/* ---- bounds and broken answers ---- */

static bool
raw(struct visit *v)
{
	visit_writes(v, v->arg);
	return false;
}

static void
check_raw(const char *answer, enum err_code code, const char *text)
{
	WORLD(w);

	start(&w, raw, (void *)answer);
	must_fail(&w, HTTP_GET, code, text);
}

static void
refuses_broken_answers(void **state)
{
	(void)state;
	check_raw("", ERR_UNAVAILABLE,
	          "/path: the server closed the connection without a response");
	check_raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", ERR_UNAVAILABLE,
	          "the connection ended in the middle of the response");
	check_raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe", ERR_UNAVAILABLE,
	          "middle");
	check_raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
	          ERR_UNAVAILABLE, "/path: ");
	check_raw("HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nabc", ERR_INVALID, "/path: ");
	check_raw("SSH-2.0-OpenSSH\r\n", ERR_INVALID, "/path: ");
	check_raw("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", ERR_INVALID,
	          "the response is larger than allowed");
}

static bool
endless_headers(struct visit *v)
{
	visit_writes(v, "HTTP/1.1 200 OK\r\n");
	while (visit_writes(v, "X-Padding: 0123456789012345678901234567890123456789\r\n"))
		;
	return false;
}

static void
bounds_headers(void **state)
{
	WORLD(w);

	(void)state;
	start(&w, endless_headers, NULL);
	must_fail(&w, HTTP_GET, ERR_INVALID, "headers of the response are larger than allowed");
}

static void
bounds_bodies(void **state)
{
	const struct http_request request = { .target = STR("/"), .max_body = 100000 };
	WORLD(w);

	(void)state;
	start(&w, endless_body, NULL);
	assert_false(http_do(w.client, &w.call, &request, &w.response, &w.err));
	assert_int_equal(w.err.code, ERR_INVALID);
	assert_non_null(strstr(w.err.msg, "the response is larger than allowed"));
}

static void
refuses_bad_targets(void **state)
{
	static const char *const targets[] = { "/a b", "/a\r\nX: y", "nodes", "/\x7f", "@evil/" };
	WORLD(w);

	(void)state;
	start(&w, echo, NULL);
	for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
		const struct http_request request = { .target = str_c(targets[i]) };

		assert_false(http_do(w.client, &w.call, &request, &w.response, &w.err));
		assert_int_equal(w.err.code, ERR_INVALID);
	}
	assert_int_equal(loopback_requests(w.server), 0);
}

static void
reports_that_the_connection_was_refused(void **state)
{
	WORLD(w);

	(void)state;
	w.config.base_url = STR("http://127.0.0.1:1");
	start_client(&w);
	must_fail(&w, HTTP_GET, ERR_UNAVAILABLE, "GET http://127.0.0.1:1/path: connection refused");
}

/* ---- deadlines and cancelling ---- */

static void
times_out(void **state)
{
	const struct http_request request = { .target = STR("/"), .timeout_ms = 50 };
	int64_t started_ns;
	WORLD(w);

	(void)state;
	start(&w, silent, NULL);
	started_ns = now_ns();
	assert_false(http_do(w.client, &w.call, &request, &w.response, &w.err));
	assert_int_equal(w.err.code, ERR_TIMEOUT);
	assert_in_range(now_ns() - started_ns, 50 * MS, 5000 * MS);
	wait_for(w.server, loopback_open, 0); /* and the connection is gone */
}

static void
obeys_the_calls_deadline(void **state)
{
	WORLD(w);

	(void)state;
	start(&w, silent, NULL);
	w.call.deadline_mono_ns = now_ns() + 100 * MS;
	must_fail(&w, HTTP_GET, ERR_TIMEOUT, "");
	assert_true(now_ns() >= w.call.deadline_mono_ns);
	must_fail(&w, HTTP_GET, ERR_TIMEOUT,
	          "timed out while waiting for its turn"); /* it is past */
	/* none, where connecting took that long */
	assert_in_range(loopback_requests(w.server), 0, 1);
}

static void
is_cancelled(void **state)
{
	pthread_t thread;
	WORLD(w);
	struct later later = { .w = &w, .n_requests = 1 };

	(void)state;
	start(&w, silent, NULL);
	thread_start(&thread, "later", fire_later, &later);
	must_fail(&w, HTTP_PATCH, ERR_CANCELLED, "cancelled");
	thread_join(thread);
	assert_in_range(now_ns() - later.fired_ns, 0,
	                5000 * MS); /* and not at the time-out, after 30 s */
	must_fail(&w, HTTP_PATCH, ERR_CANCELLED, "cancelled"); /* before it starts */
	assert_int_equal(loopback_requests(w.server), 1);
}

static void
past_the_fence_only_reads(void **state)
{
	struct fence fence = FENCE_CLOSED;
	struct http_request event = {
		.method = HTTP_POST,
		.class = HTTP_BACKGROUND,
		.target = STR("/events"),
	};
	WORLD(w);

	(void)state;
	w.config.fence = &fence;
	start(&w, echo, NULL);
	must_fail(&w, HTTP_PATCH, ERR_CANCELLED, "no longer the leader");
	must_fail(&w, HTTP_DELETE, ERR_CANCELLED, "no longer the leader");
	assert_int_equal(loopback_requests(w.server), 0);
	must_get(&w);
	assert_true(http_do(w.client, &w.call, &event, &w.response, &w.err));
	fence_renew(&fence, CLOCK_FOREVER);
	assert_true(send_request(&w, HTTP_PATCH, "{}", false));
}

static void
nothing_lasts_beyond_the_fence(void **state)
{
	struct fence fence = FENCE_CLOSED;
	int64_t started_ns;
	WORLD(w);

	(void)state;
	w.config.fence = &fence;
	start(&w, silent, NULL);
	started_ns = now_ns();
	fence_renew(&fence, clock_boot(&clock_real) + 80 * MS);
	must_fail(&w, HTTP_PATCH, ERR_CANCELLED, "no longer the leader");
	assert_in_range(now_ns() - started_ns, 70 * MS, 5000 * MS);
}

/* ---- sent once, sent twice ---- */

/* Answers the first request of each connection, and dies after having read the second. */
static bool
dies_at_the_second(struct visit *v)
{
	return v->connection == 1 && v->request == 2 ? false : visit_reply(v, "200 OK", "", "");
}

static void
a_get_is_sent_again(void **state)
{
	WORLD(w);

	(void)state;
	start(&w, dies_at_the_second, NULL);
	must_get(&w);
	must_get(&w);
	assert_false(w.response.is_reused);
	assert_int_equal(loopback_requests(w.server), 3);
	assert_true(send_request(&w, HTTP_POST, "{}", false));
}

static void
nothing_else_is(void **state)
{
	static const enum http_method methods[] = { HTTP_POST, HTTP_PUT, HTTP_PATCH, HTTP_DELETE };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
		WORLD(w);

		start(&w, dies_at_the_second, NULL);
		must_get(&w);
		must_fail(&w, methods[i], ERR_UNAVAILABLE,
		          "closed the connection without a response");
		assert_int_equal(loopback_requests(w.server), 2);
		assert_true(send_request(&w, methods[i], NULL, false));
	}
}

static void
but_for_what_can_be_replayed(void **state)
{
	WORLD(w);

	(void)state;
	start(&w, dies_at_the_second, NULL);
	must_get(&w);
	assert_true(send_request(&w, HTTP_PATCH, "{}", true));
	assert_int_equal(loopback_requests(w.server), 3);
}

static bool
always_dies(struct visit *v)
{
	return v->all == 1 ? visit_reply(v, "200 OK", "", "") : false;
}

static void
and_only_once(void **state)
{
	WORLD(w);

	(void)state;
	start(&w, always_dies, NULL);
	must_get(&w);
	must_fail(&w, HTTP_GET, ERR_UNAVAILABLE, "");
	assert_int_equal(loopback_requests(w.server), 3);
	must_fail(&w, HTTP_GET, ERR_UNAVAILABLE,
	          ""); /* on a fresh connection it is the server's fault */
	assert_int_equal(loopback_requests(w.server), 4);
}

/* ---- credentials ---- */

static void
a_newer_credential_is_tried(void **state)
{
	struct badge badge = badge_new("Bearer token-", 2);
	WORLD(w);

	(void)state;
	w.config.auth = &badge.auth;
	start(&w, wants_token_2, NULL);
	assert_true(send_request(&w, HTTP_POST, "{}", false));
	assert_int_equal(w.response.status, 200);
	assert_string_equal(w.response.body.ptr, "welcome\n");
	assert_int_equal(loopback_requests(w.server), 2);
}

static void
once(void **state)
{
	struct badge badge = badge_new("Bearer wrong-", 10);
	WORLD(w);

	(void)state;
	w.config.auth = &badge.auth;
	start(&w, wants_token_2, NULL);
	must_get(&w);
	assert_int_equal(w.response.status, 401);
	assert_int_equal(loopback_requests(w.server), 2);
	assert_int_equal(badge.n_rejected, 2);
}

static void
no_credential_no_request(void **state)
{
	struct badge badge = badge_new(NULL, 1);
	WORLD(w);

	(void)state;
	w.config.auth = &badge.auth;
	start(&w, echo, NULL);
	must_fail(&w, HTTP_GET, ERR_UNAUTHORIZED, "no token");
	badge.text = "Bearer a\r\nX: ";
	must_fail(&w, HTTP_GET, ERR_UNAUTHORIZED, "line break");
	assert_int_equal(loopback_requests(w.server), 0);
	badge.text = "";
	must_get(&w);
	assert_null(strstr(w.response.body.ptr, "Authorization"));
}

static void
a_credential_may_have_a_header_of_its_own(void **state)
{
	struct badge badge = badge_new("key-", 1);
	WORLD(w);

	(void)state;
	badge.auth.header = "X-Key";
	w.config.auth = &badge.auth;
	start(&w, echo, NULL);
	must_get(&w);
	assert_non_null(strstr(w.response.body.ptr, "X-Key: key-1\r\n"));
	assert_null(strstr(w.response.body.ptr, "Authorization"));
}

static bool
echo_as_error(struct visit *v)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(100000);

	buf_add_str(&b, v->head);
	return visit_reply(v, "502 Bad Gateway", "", b.ptr);
}

static void
an_error_page_does_not_show_the_credential(void **state)
{
	struct badge badge = badge_new("Basic dXNlcjpwYXNzd29yZA-", 1);
	WORLD(w);

	(void)state;
	w.config.auth = &badge.auth;
	start(&w, echo_as_error, NULL);
	must_get(&w);
	assert_int_equal(w.response.status, 502);
	assert_string_equal(w.response.body.ptr,
	                    "the response repeats the credentials of the request");
}

/* ---- the gate ---- */

struct crowd {
	atomic_int n_now, n_most;
	atomic_int n_failed;
	struct world *w;
	int n_each;
};

static bool
counts_visitors(struct visit *v)
{
	struct crowd *crowd = v->arg;
	int n = atomic_fetch_add(&crowd->n_now, 1) + 1;

	if (n > atomic_load(&crowd->n_most))
		atomic_store(&crowd->n_most, n);
	usleep(200);
	atomic_fetch_sub(&crowd->n_now, 1);
	return visit_reply(v, "200 OK", "", "ok");
}

static void *
visit_often(void *arg)
{
	struct crowd *crowd = arg;

	for (int i = 0; i < crowd->n_each; i++) {
		CLEANUP(http_response_fini) struct http_response response = HTTP_RESPONSE_INIT;
		const struct http_request request = {
			.method = i % 2 ? HTTP_GET : HTTP_PATCH,
			.target = STR("/"),
			.content_type = "application/json",
			.body = STR("{}"),
		};
		struct error err;

		if (!http_do(crowd->w->client, &crowd->w->call, &request, &response, &err) ||
		    response.status != 200 || !str_eq_c(buf_str(&response.body), "ok"))
			atomic_fetch_add(&crowd->n_failed, 1);
	}
	return NULL;
}

static void
many_callers_share_few_connections(void **state)
{
	pthread_t threads[32];
	WORLD(w);
	struct crowd crowd = { .w = &w, .n_each = 50 };

	(void)state;
	start_server(&w, counts_visitors, &crowd, &identity);
	start_client(&w);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		thread_start(&threads[i], "caller", visit_often, &crowd);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		thread_join(threads[i]);
	assert_int_equal(crowd.n_failed, 0);
	assert_int_equal(loopback_requests(w.server), 1600);
	assert_in_range(crowd.n_most, 4, 8);
	assert_in_range(loopback_connections(w.server), 4, 8);
}

static bool
throttles_first(struct visit *v)
{
	if (v->all == 1)
		return visit_reply(v, "429 Too Many Requests", "Retry-After: 1\r\n", "");
	return visit_reply(v, "200 OK", "", "");
}

static void
a_throttled_client_waits(void **state)
{
	const struct http_request hasty = { .target = STR("/"), .timeout_ms = 30 };
	int64_t started_ns;
	WORLD(w);

	(void)state;
	start(&w, throttles_first, NULL);
	started_ns = now_ns();
	must_get(&w);
	assert_int_equal(w.response.status, 429);
	assert_int_equal(w.response.retry_after_ms, 1000);
	assert_false(http_do(w.client, &w.call, &hasty, &w.response, &w.err));
	assert_int_equal(w.err.code, ERR_TIMEOUT);
	must_get(&w);
	assert_in_range(now_ns() - started_ns, 1000 * MS, 8000 * MS);
	assert_int_equal(loopback_requests(w.server), 2);
}

static sem_t answers; /* how many requests for work may be answered */

static bool
answers_when_told(struct visit *v)
{
	if (!str_starts(v->head, STR("POST /events ")))
		sem_wait(&answers);
	return visit_reply(v, "200 OK", "", "");
}

static void *
send_event(void *arg)
{
	struct world *w = arg;
	CLEANUP(http_response_fini) struct http_response response = HTTP_RESPONSE_INIT;
	const struct http_request event = {
		.method = HTTP_POST,
		.class = HTTP_BACKGROUND,
		.target = STR("/events"),
		.timeout_ms = PATIENCE_MS,
	};
	struct error err;

	return http_do(w->client, &w->call, &event, &response, &err) ? w : NULL;
}

static void *
send_work(void *arg)
{
	struct world *w = arg;
	CLEANUP(http_response_fini) struct http_response response = HTTP_RESPONSE_INIT;
	const struct http_request request = { .target = STR("/"), .timeout_ms = PATIENCE_MS };
	struct error err;

	return http_do(w->client, &w->call, &request, &response, &err) ? w : NULL;
}

static void *
open_stream(void *arg)
{
	struct world *w = arg;
	const struct http_request list = { .target = STR("/list"), .timeout_ms = PATIENCE_MS };
	struct http_stream *stream;
	struct error err;

	if (!http_stream_open(w->client, &w->call, &list, &stream, &err))
		return NULL;
	http_stream_close(stream);
	return w;
}

/* Who opens a stream is waited for as well. */
static void
events_do_not_delay_a_list(void **state)
{
	pthread_t list, event;
	void *result;
	WORLD(w);

	(void)state;
	sem_init(&answers, 0, 0);
	start(&w, answers_when_told, NULL);
	thread_start(&list, "list", open_stream, &w);
	wait_for(w.server, loopback_requests, 1);
	thread_start(&event, "event", send_event, &w);
	usleep(20000);
	assert_int_equal(loopback_requests(w.server), 1);
	sem_post(&answers);
	pthread_join(list, &result);
	assert_ptr_equal(result, &w);
	pthread_join(event, &result);
	assert_ptr_equal(result, &w);
}

static bool
answers_events_alone(struct visit *v)
{
	if (str_contains(v->head, STR("/events")))
		return visit_reply(v, "201 Created", "", "{}");
	visit_wait_gone(v);
	return false;
}

/* Some proxies hold the headers of a watch back until its first event. */
static void
events_do_not_wait_long_for_a_stream(void **state)
{
	struct cancel *gone = cancel_new();
	pthread_t watch, event;
	int64_t begun_ns;
	void *result;
	WORLD(w);

	(void)state;
	w.call.cancel = gone;
	start(&w, answers_events_alone, NULL);
	begun_ns = now_ns();
	thread_start(&watch, "watch", open_stream, &w);
	wait_for(w.server, loopback_requests, 1);
	thread_start(&event, "event", send_event, &w);
	pthread_join(event, &result);
	assert_ptr_equal(result, &w);
	assert_in_range(now_ns() - begun_ns, 900 * MS, PATIENCE_MS * MS / 2);
	cancel_fire(gone);
	pthread_join(watch, &result);
	assert_null(result);
	w.call.cancel = NULL;
	cancel_free(gone);
}

static void
events_never_delay_other_requests(void **state)
{
	pthread_t work, event;
	void *result;
	WORLD(w);

	(void)state;
	sem_init(&answers, 0, 0);
	start(&w, answers_when_told, NULL);
	thread_start(&work, "work", send_work, &w);
	wait_for(w.server, loopback_requests, 1);
	thread_start(&event, "event", send_event, &w);
	usleep(20000);
	assert_int_equal(loopback_requests(w.server),
	                 1); /* it waits, as long as work is under way */
	sem_post(&answers);
	sem_post(&answers);
	must_get(&w);
	MUST(pthread_join(event, &result));
	assert_non_null(result);
	assert_int_equal(loopback_requests(w.server), 3);
	thread_join(work);
}

static bool
sends_events_away(struct visit *v)
{
	if (str_starts(v->head, STR("POST /events ")))
		return visit_reply(v, "429 Too Many Requests", "Retry-After: 20\r\n", "");
	return visit_reply(v, "200 OK", "", "");
}

static void
a_server_that_takes_no_events_delays_no_work(void **state)
{
	int64_t started_ns;
	WORLD(w);

	(void)state;
	start(&w, sends_events_away, NULL);
	assert_ptr_equal(send_event(&w), &w);
	started_ns = now_ns();
	for (int i = 0; i < 10; i++)
		must_get(&w);
	assert_in_range(now_ns() - started_ns, 0, 8000 * MS);
}

static void
idle_connections_are_closed(void **state)
{
	const struct http_request watch = { .target = STR("/watch") };
	struct http_stream *stream;
	WORLD(w);

	(void)state;
	start_server(&w, endless_body, NULL, &identity);
	start_client(&w);
	assert_true(http_stream_open(w.client, &w.call, &watch, &stream, &w.err));
	loopback_free(TAKE(w.server));
	http_stream_close(stream);
	http_client_free(TAKE(w.client));

	start(&w, echo, NULL);
	must_get(&w);
	must_get(&w);
	assert_int_equal(loopback_open(w.server), 1);
	assert_true(http_client_set_tls(w.client, &(struct tls_config){ .trusts_nothing = true },
	                                /*ends_streams=*/false, &w.err));
	wait_for(w.server, loopback_open, 0);
	must_get(&w);
	assert_false(w.response.is_reused);
}

/* ---- the rest ---- */

static void
statuses_become_errors(void **state)
{
	static const struct {
		int status;
		enum err_code code;
	} statuses[] = {
		{ 400, ERR_INVALID },     { 401, ERR_UNAUTHORIZED }, { 403, ERR_FORBIDDEN },
		{ 404, ERR_NOT_FOUND },   { 408, ERR_TIMEOUT },      { 409, ERR_CONFLICT },
		{ 410, ERR_GONE },        { 422, ERR_INVALID },      { 429, ERR_THROTTLED },
		{ 500, ERR_UNAVAILABLE }, { 501, ERR_UNSUPPORTED },  { 503, ERR_UNAVAILABLE },
		{ 504, ERR_TIMEOUT },     { 302, ERR_INVALID },
	};
	const struct http_request request = { .method = HTTP_POST, .target = STR("/servers") };
	struct error err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
		assert_false(http_status_error(&err, &request, statuses[i].status, 5, STR_EMPTY));
		assert_int_equal(err.code, statuses[i].code);
		assert_int_equal(err.http_status, statuses[i].status);
		assert_int_equal(err.retry_after_ms, 5);
	}
	assert_false(http_status_error(&err, &request, 429, 0,
	                               STR(" rate\r\n\x1b[0mlimit \xff\xc3\xa4 ")));
	assert_string_equal(err.msg, "POST /servers: 429 rate   [0mlimit ?\xc3\xa4");
	assert_false(http_status_error(&err, &request, 500, 0, STR_EMPTY));
	assert_string_equal(err.msg, "POST /servers: 500");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_an_answer),
		cmocka_unit_test(sends_a_body),
		cmocka_unit_test(sends_none),
		cmocka_unit_test(sends_a_large_body),
		cmocka_unit_test(reads_headers),
		cmocka_unit_test(sends_further_headers),
		cmocka_unit_test(warnings_are_reported),
		cmocka_unit_test(lookups_of_names_are_reported),
		cmocka_unit_test(takes_odd_headers),
		cmocka_unit_test(follows_no_redirect),
		cmocka_unit_test(refuses_broken_answers),
		cmocka_unit_test(bounds_headers),
		cmocka_unit_test(bounds_bodies),
		cmocka_unit_test(refuses_bad_targets),
		cmocka_unit_test(reports_that_the_connection_was_refused),
		cmocka_unit_test(times_out),
		cmocka_unit_test(obeys_the_calls_deadline),
		cmocka_unit_test(is_cancelled),
		cmocka_unit_test(past_the_fence_only_reads),
		cmocka_unit_test(nothing_lasts_beyond_the_fence),
		cmocka_unit_test(a_get_is_sent_again),
		cmocka_unit_test(nothing_else_is),
		cmocka_unit_test(but_for_what_can_be_replayed),
		cmocka_unit_test(and_only_once),
		cmocka_unit_test(a_newer_credential_is_tried),
		cmocka_unit_test(once),
		cmocka_unit_test(no_credential_no_request),
		cmocka_unit_test(a_credential_may_have_a_header_of_its_own),
		cmocka_unit_test(an_error_page_does_not_show_the_credential),
		cmocka_unit_test(many_callers_share_few_connections),
		cmocka_unit_test(a_throttled_client_waits),
		cmocka_unit_test(events_never_delay_other_requests),
		cmocka_unit_test(events_do_not_delay_a_list),
		cmocka_unit_test(events_do_not_wait_long_for_a_stream),
		cmocka_unit_test(a_server_that_takes_no_events_delays_no_work),
		cmocka_unit_test(idle_connections_are_closed),
		cmocka_unit_test(statuses_become_errors),
	};

	return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
