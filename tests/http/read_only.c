#include "http/http.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/fence.h"

/* A client that counts what reaches it. */
struct counter {
	struct http_client client;
	unsigned n_requests, n_streams;
};

static bool
count_request(struct http_client *client, struct call *call UNUSED,
              const struct http_request *request UNUSED, struct http_response *response UNUSED,
              struct error *err UNUSED)
{
	CONTAINER_OF(client, struct counter, client)->n_requests++;
	return true;
}

static bool
count_stream(struct http_client *client, struct call *call UNUSED,
             const struct http_request *request UNUSED, struct http_stream **ret,
             struct error *err UNUSED)
{
	CONTAINER_OF(client, struct counter, client)->n_streams++;
	*ret = NULL;
	return true;
}

static const struct http_ops counting = { .do_request = count_request,
	                                  .stream_open = count_stream };

static const char *const posts[] = { "/reviews", "/token/", NULL };

static const struct {
	enum http_method method;
	const char *target;
	bool is_sent;
} table[] = {
	{ HTTP_GET, "/nodes", true },
	{ HTTP_GET, "/reviews", true },
	{ HTTP_POST, "/reviews", true },
	{ HTTP_POST, "/token/", true },
	{ HTTP_POST, "/token", false },
	{ HTTP_POST, "/reviews/1", false },
	{ HTTP_POST, "/reviews?dryRun=All", false },
	{ HTTP_POST, "/nodes", false },
	{ HTTP_POST, "", false },
	{ HTTP_PUT, "/reviews", false },
	{ HTTP_PATCH, "/reviews", false },
	{ HTTP_DELETE, "/token/", false },
};

static void
only_asks(void **state UNUSED)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct call call = { .clock = &clock_real,
		             .deadline_mono_ns = CLOCK_FOREVER,
		             .arena = &arena };
	struct error first;

	assert_false(fence_find_refused(&first));
	http_set_read_only(posts);
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		struct counter counter = { .client = { &counting } };
		struct http_request request = { .method = table[i].method,
			                        .target = str_c(table[i].target) };
		struct http_response response = HTTP_RESPONSE_INIT;
		struct http_stream *stream;
		struct error err = { 0 };
		bool is_sent = http_do(&counter.client, &call, &request, &response, &err);
		bool is_open = http_stream_open(&counter.client, &call, &request, &stream, &err);

		assert_int_equal(is_sent, table[i].is_sent);
		assert_int_equal(is_open, table[i].is_sent);
		assert_int_equal(counter.n_requests, table[i].is_sent);
		assert_int_equal(counter.n_streams, table[i].is_sent);
		if (!table[i].is_sent)
			assert_int_equal(err.code, ERR_FORBIDDEN);
	}
	http_set_read_only(NULL);
	assert_true(fence_find_refused(&first));
	assert_non_null(strstr(first.msg, "POST /token"));
}

static void
changes_unless_told_otherwise(void **state UNUSED)
{
	struct http_request request = { .method = HTTP_DELETE, .target = STR("/nodes/n1") };
	struct counter counter = { .client = { &counting } };
	struct http_response response = HTTP_RESPONSE_INIT;
	struct call call = { .clock = &clock_real, .deadline_mono_ns = CLOCK_FOREVER };
	struct error err;

	assert_true(http_do(&counter.client, &call, &request, &response, &err));
	assert_int_equal(counter.n_requests, 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_asks),
		cmocka_unit_test(changes_unless_told_otherwise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
