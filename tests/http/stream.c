/* Streams of http/http.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>
#include <curl/curl.h>

#include "base/thread.h"
#include "http/world.h"

static struct http_stream *
must_open(struct world *w)
{
	const struct http_request request = { .target = STR("/watch?watch=1"),
		                              .timeout_ms = PATIENCE_MS,
		                              .is_endless = true };
	struct http_stream *stream = NULL;

	if (!http_stream_open(w->client, &w->call, &request, &stream, &w->err))
		fail_msg("%s", w->err.msg);
	return stream;
}

static struct str
must_next(struct world *w, struct http_stream *stream)
{
	struct str line;

	if (!http_stream_next(stream, now_ns() + PATIENCE_MS * MS, 1000, &line, &w->err))
		fail_msg("%s", w->err.msg);
	return line;
}

static void
next_fails(struct world *w, struct http_stream *stream, int64_t deadline_ns, enum err_code code)
{
	struct str line;

	assert_false(http_stream_next(stream, deadline_ns, 1000, &line, &w->err));
	if (w->err.code != code)
		fail_msg("%s", w->err.msg);
}

static bool
lines_in_pieces(struct visit *v)
{
	static const char *const pieces[] = { "one\ntw", "o", "\n\nfour\n", "five\nun", "ended" };

	visit_writes(v, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
	for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
		CLEANUP(buf_fini) struct buf b = BUF_INIT(100);

		buf_addf(&b, "%zx\r\n%s\r\n", strlen(pieces[i]), pieces[i]);
		visit_write(v, buf_str(&b));
		usleep(2000);
	}
	return visit_writes(v, "0\r\n\r\n");
}

static void
reads_lines(void **state)
{
	CLEANUP(http_stream_closep) struct http_stream *stream = NULL;
	struct str line;
	WORLD(w);

	(void)state;
	start(&w, lines_in_pieces, NULL);
	stream = must_open(&w);
	assert_true(str_eq_c(must_next(&w, stream), "one"));
	assert_true(str_eq_c(must_next(&w, stream), "two"));
	line = must_next(&w, stream);
	assert_non_null(line.ptr);
	assert_int_equal(line.len, 0);
	assert_true(str_eq_c(must_next(&w, stream), "four"));
	assert_true(str_eq_c(must_next(&w, stream), "five"));
	assert_null(must_next(&w, stream).ptr);
	assert_null(must_next(&w, stream).ptr);
	http_stream_close(TAKE(stream));
}

static bool
a_list_or_a_watch(struct visit *v)
{
	if (!str_starts(v->head, STR("GET /watch ")))
		return visit_reply(v, "200 OK", "", "one\n");
	visit_writes(v, "HTTP/1.1 200 OK\r\n\r\none\n");
	visit_wait_gone(v);
	return false;
}

static struct http_stream *
must_open_for(struct world *w, const char *target, bool is_endless)
{
	const struct http_request request = { .target = str_c(target),
		                              .timeout_ms = PATIENCE_MS,
		                              .is_endless = is_endless };
	struct http_stream *stream = NULL;

	if (!http_stream_open(w->client, &w->call, &request, &stream, &w->err))
		fail_msg("%s", w->err.msg);
	return stream;
}

static void
must_list(struct world *w)
{
	struct http_stream *stream = must_open_for(w, "/list", /*is_endless=*/false);

	assert_true(str_eq_c(must_next(w, stream), "one"));
	assert_null(must_next(w, stream).ptr);
	http_stream_close(stream);
}

static void
what_ends_by_itself_shares_a_connection(void **state)
{
	struct http_stream *stream;
	WORLD(w);

	(void)state;
	start(&w, a_list_or_a_watch, NULL);
	must_get(&w);
	must_list(&w);
	stream = must_open_for(&w, "/watch", /*is_endless=*/true);
	must_next(&w, stream);
	must_get(&w);
	assert_true(w.response.is_reused);
	must_list(&w);
	assert_int_equal(loopback_connections(w.server), 2);
	http_stream_close(stream);
	wait_for(w.server, loopback_open, 1);
	assert_true(http_client_set_tls(w.client, &(struct tls_config){ .trusts_nothing = true },
	                                /*ends_streams=*/false, &w.err));
	wait_for(w.server, loopback_open, 0);
}

static bool
dies_at_the_second(struct visit *v)
{
	return v->connection == 1 && v->request == 2 ? false
	                                             : visit_reply(v, "200 OK", "", "one\n");
}

static void
a_connection_that_was_dead_already_is_replaced(void **state)
{
	WORLD(w);

	(void)state;
	start(&w, dies_at_the_second, NULL);
	must_get(&w);
	must_list(&w);
	assert_int_equal(loopback_requests(w.server), 3);
}

static bool
long_line(struct visit *v)
{
	visit_writes(v, "HTTP/1.1 200 OK\r\n\r\n");
	for (int i = 0; i < 60; i++)
		visit_writes(v, "0123456789");
	usleep(10000);
	for (int i = 0; i < 40; i++)
		visit_writes(v, "0123456789");
	visit_writes(v, v->arg);
	visit_wait_gone(v);
	return false;
}

static void
bounds_lines(void **state)
{
	struct http_stream *stream;
	WORLD(w);

	(void)state;
	start(&w, long_line, "\n");
	stream = must_open(&w);
	assert_int_equal(must_next(&w, stream).len, 1000);
	http_stream_close(stream);
	http_client_free(TAKE(w.client));
	loopback_free(TAKE(w.server));
	start(&w, long_line, "x\n");
	stream = must_open(&w);
	next_fails(&w, stream, now_ns() + PATIENCE_MS * MS, ERR_INVALID);
	http_stream_close(stream);
}

static bool
one_line(struct visit *v)
{
	visit_writes(v, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nline\nha");
	if (v->arg)
		visit_wait_gone(v);
	return false;
}

static void
a_stream_that_breaks_says_so(void **state)
{
	struct http_stream *stream;
	WORLD(w);

	(void)state;
	start(&w, one_line, NULL);
	stream = must_open(&w);
	assert_true(str_eq_c(must_next(&w, stream), "line"));
	next_fails(&w, stream, CLOCK_FOREVER, ERR_UNAVAILABLE);
	assert_string_equal(strstr(w.err.msg, "/watch"),
	                    "/watch: the connection ended in the middle of the response");
	next_fails(&w, stream, CLOCK_FOREVER, ERR_UNAVAILABLE);
	http_stream_close(stream);
}

static void
waits_for_as_long_as_was_said(void **state)
{
	struct http_stream *stream;
	WORLD(w);

	(void)state;
	start(&w, one_line, "wait");
	stream = must_open(&w);
	assert_true(str_eq_c(must_next(&w, stream), "line"));
	next_fails(&w, stream, now_ns() + 20 * MS, ERR_TIMEOUT);
	next_fails(&w, stream, 0, ERR_TIMEOUT);
	http_stream_close(stream);
	wait_for(w.server, loopback_open, 0); /* closing ends the connection */
}

static void
a_stream_is_cancelled(void **state)
{
	struct http_stream *stream;
	pthread_t thread;
	WORLD(w);
	struct later later = { .w = &w, .n_requests = 1 };
	const struct http_request request = { .target = STR("/") };

	(void)state;
	start(&w, one_line, "wait");
	stream = must_open(&w);
	must_next(&w, stream);
	thread_start(&thread, "later", fire_later, &later);
	next_fails(&w, stream, CLOCK_FOREVER, ERR_CANCELLED);
	thread_join(thread);
	assert_in_range(now_ns() - later.fired_ns, 0, 5000 * MS);
	http_stream_close(stream);
	assert_false(http_stream_open(w.client, &w.call, &request, &stream, &w.err));
	assert_int_equal(w.err.code, ERR_CANCELLED);
}

static void
no_headers_in_time(void **state)
{
	const struct http_request request = { .target = STR("/"), .timeout_ms = 30 };
	struct http_stream *stream;
	WORLD(w);

	(void)state;
	start(&w, silent, NULL);
	assert_false(http_stream_open(w.client, &w.call, &request, &stream, &w.err));
	assert_int_equal(w.err.code, ERR_TIMEOUT);
}

static bool
gone(struct visit *v)
{
	return visit_reply(v, "410 Gone", "Retry-After: 2\r\n",
	                   "{\"kind\":\"Status\",\"message\":\"too old\\nresource version\"}");
}

static void
a_refusal_is_no_stream(void **state)
{
	const struct http_request request = { .target = STR("/nodes?resourceVersion=1") };
	struct http_stream *stream;
	WORLD(w);

	(void)state;
	start(&w, gone, NULL);
	assert_false(http_stream_open(w.client, &w.call, &request, &stream, &w.err));
	assert_int_equal(w.err.code, ERR_GONE);
	assert_int_equal(w.err.http_status, 410);
	assert_int_equal(w.err.retry_after_ms, 2000);
	assert_string_equal(w.err.msg,
	                    "GET /nodes?resourceVersion=1: 410 too old resource version");
}

enum {
	FLOOD_LINES = 200000,
	FLOOD_LINE = 100,
};

struct flood {
	atomic_size_t n_sent;
};

static bool
flood(struct visit *v)
{
	struct flood *f = v->arg;
	char line[FLOOD_LINE];
	CLEANUP(buf_fini) struct buf part = BUF_INIT(FLOOD_LINE * 100);

	visit_writes(v, "HTTP/1.1 200 OK\r\n\r\n");
	for (int i = 0; i < FLOOD_LINES; i++) {
		memset(line, 'a' + i % 26, sizeof(line));
		line[FLOOD_LINE - 1] = '\n';
		buf_add(&part, line, sizeof(line));
		if (part.len < part.max)
			continue;
		if (!visit_write(v, buf_str(&part)))
			return false;
		atomic_fetch_add(&f->n_sent, part.len);
		buf_reset(&part);
	}
	return false;
}

/* 20 MB: the server gets rid of what fits our buffer and those of two sockets, no more. */
static void
a_stream_that_is_not_read_is_paused(void **state)
{
	struct flood f = { 0 };
	struct http_stream *stream;
	size_t before;
	WORLD(w);

	(void)state;
	/* libcurl 8.5.0 reads on while a transfer is paused, up to 64 MB (curl, issue 12632) */
	if (curl_version_info(CURLVERSION_NOW)->version_num == 0x080500)
		skip();
	start_server(&w, flood, &f, &identity);
	start_client(&w);
	stream = must_open(&w);
	do {
		before = f.n_sent;
		usleep(100000);
	} while (before == 0 || f.n_sent != before);
	assert_in_range(f.n_sent, 1, FLOOD_LINES * FLOOD_LINE - 1);
	for (int i = 0; i < FLOOD_LINES; i++) {
		struct str line = must_next(&w, stream);

		assert_int_equal(line.len, FLOOD_LINE - 1);
		assert_int_equal(line.ptr[0], 'a' + i % 26);
		assert_int_equal(line.ptr[FLOOD_LINE - 2], 'a' + i % 26);
	}
	assert_null(must_next(&w, stream).ptr);
	http_stream_close(stream);
}

static void
a_paused_stream_is_closed(void **state)
{
	struct flood f = { 0 };
	struct http_stream *stream;
	WORLD(w);

	(void)state;
	start(&w, flood, &f);
	stream = must_open(&w);
	usleep(20000);
	http_stream_close(stream);
	wait_for(w.server, loopback_open, 0);
}

static void
a_stream_may_be_bounded(void **state)
{
	const struct http_request request = { .target = STR("/"), .max_body = 1000000 };
	struct http_stream *stream;
	struct str bytes = STR_EMPTY;
	size_t n = 0;
	WORLD(w);

	(void)state;
	start(&w, endless_body, NULL);
	assert_true(http_stream_open(w.client, &w.call, &request, &stream, &w.err));
	while (http_stream_read(stream, CLOCK_FOREVER, &bytes, &w.err))
		n += bytes.len;
	assert_int_equal(w.err.code, ERR_INVALID);
	assert_in_range(n, 1, 1000000);
	http_stream_close(stream);
}

static void
a_newer_credential_is_tried(void **state)
{
	struct badge badge = badge_new("Bearer token-", 2);
	const struct http_request request = { .target = STR("/nodes") };
	struct http_stream *stream;
	struct str line;
	WORLD(w);

	(void)state;
	w.config.auth = &badge.auth;
	start(&w, wants_token_2, NULL);
	assert_true(http_stream_open(w.client, &w.call, &request, &stream, &w.err));
	assert_true(http_stream_next(stream, CLOCK_FOREVER, 100, &line, &w.err));
	assert_true(str_eq_c(line, "welcome"));
	http_stream_close(stream);
	badge = badge_new("Bearer wrong-", 1);
	assert_false(http_stream_open(w.client, &w.call, &request, &stream, &w.err));
	assert_int_equal(w.err.code, ERR_UNAUTHORIZED);
	assert_string_equal(w.err.msg, "GET /nodes: 401 who are you");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_newer_credential_is_tried),
		cmocka_unit_test(reads_lines),
		cmocka_unit_test(what_ends_by_itself_shares_a_connection),
		cmocka_unit_test(a_connection_that_was_dead_already_is_replaced),
		cmocka_unit_test(bounds_lines),
		cmocka_unit_test(a_stream_that_breaks_says_so),
		cmocka_unit_test(waits_for_as_long_as_was_said),
		cmocka_unit_test(a_stream_is_cancelled),
		cmocka_unit_test(no_headers_in_time),
		cmocka_unit_test(a_refusal_is_no_stream),
		cmocka_unit_test(a_stream_that_is_not_read_is_paused),
		cmocka_unit_test(a_paused_stream_is_closed),
		cmocka_unit_test(a_stream_may_be_bounded),
	};

	return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
