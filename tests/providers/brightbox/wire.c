/* Objects of the API, read from JSON: section "Requests" of docs/spec/brightbox.md. */
#include "providers/brightbox/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"

struct answer {
	struct arena arena;
	yyjson_doc *doc;
	struct error err;
};

static yyjson_val *
parse(struct answer *a, const char *text)
{
	if (!json_parse(str_c(text), &a->doc, &a->err))
		fail_msg("%s", a->err.msg);
	return yyjson_doc_get_root(a->doc);
}

static void
answer_fini(struct answer *a)
{
	yyjson_doc_free(a->doc);
	arena_fini(&a->arena);
}

/* Elements are counted before memory for all of them is allocated. */
static void
bounds_the_length_of_a_list(void **state)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(MIB(1));
	CLEANUP(answer_fini) struct answer a = { 0 };
	void *servers;
	size_t n;

	(void)state;
	buf_add_c(&text, "[0");
	for (size_t i = 0; i < LIMIT_MACHINES; i++)
		buf_add_c(&text, ",0");
	buf_add_char(&text, ']');
	assert_false(bb_list_read(parse(&a, text.ptr), &bb_server_object, &a.arena, &servers, &n,
	                          &a.err));
	assert_int_equal(a.err.code, ERR_UNAVAILABLE);
	assert_non_null(strstr(a.err.msg, "100001 of one list's elements (server)"));
	assert_false(bb_list_read(yyjson_doc_get_root(a.doc), &bb_lb_object, &a.arena, &servers, &n,
	                          &a.err));
	assert_non_null(strstr(a.err.msg, "(load balancer), more than 10000"));
}

static void
reads_a_balancer(void **state)
{
	CLEANUP(answer_fini) struct answer a = { 0 };
	struct bb_lb lb;

	(void)state;
	assert_true(bb_object_read(
		parse(&a, "{\"id\":\"lba-aaaaa\",\"name\":\"web\",\"status\":\"creating\","
	                  "\"policy\":\"round-robin\",\"https_redirect\":true,"
	                  "\"nodes\":[{\"id\":\"srv-aaaaa\"},{\"id\":\"srv-bbbbb\"}],"
	                  "\"listeners\":[{\"protocol\":\"https\",\"in\":443,\"out\":30443,"
	                  "\"timeout\":50000,\"proxy_protocol\":null}],"
	                  "\"healthcheck\":{\"type\":\"tcp\",\"port\":30443,\"request\":\"/\","
	                  "\"interval\":4000,\"timeout\":3000,\"threshold_up\":2,"
	                  "\"threshold_down\":1},"
	                  "\"acme\":{\"domains\":[{\"identifier\":\"a.example\","
	                  "\"status\":\"pending\",\"last_message\":null}]},"
	                  "\"cloud_ips\":[{\"id\":\"cip-aaaaa\",\"status\":\"mapped\"}]}"),
		&bb_lb_object, &a.arena, &lb, &a.err));
	assert_true(bb_lb_is_alive(&lb));
	assert_true(lb.redirects_to_https && lb.n_domains == 1);
	assert_int_equal(lb.n_nodes, 2);
	assert_true(str_eq_c(lb.nodes[1], "srv-bbbbb"));
	assert_int_equal(lb.listeners[0].out, 30443);
	assert_int_equal(lb.listeners[0].proxy_protocol.len, 0);
	assert_int_equal(lb.check.threshold_down, 1);
	assert_true(str_eq_c(lb.domains[0].status, "pending"));
	assert_true(str_eq_c(lb.cloud_ips[0].status, "mapped"));
}

/* An answer that is not what the API documents proves nothing. */
static void
refuses_what_it_does_not_know(void **state)
{
	static const struct {
		const char *text, *msg;
	} rows[] = {
		{ "[]", "a load balancer is not an object" },
		{ "{}", "a load balancer has no id" },
		{ "{\"id\":7}", "load balancer: id cannot be understood" },
		{ "{\"id\":\"l\",\"status\":\"asleep\"}",
		  "load balancer: status cannot be understood" },
		{ "{\"id\":\"l\",\"nodes\":{}}", "load balancer: nodes cannot be understood" },
		{ "{\"id\":\"l\",\"nodes\":[{}]}", "load balancer: nodes cannot be understood" },
		{ "{\"id\":\"l\",\"listeners\":[7]}",
		  "load balancer: a listener is not an object" },
		{ "{\"id\":\"l\",\"listeners\":[{\"in\":65536}]}",
		  "load balancer: listener: in cannot be understood" },
		{ "{\"id\":\"l\",\"healthcheck\":{\"interval\":-1}}",
		  "load balancer: healthcheck.interval cannot be understood" },
		{ "{\"id\":\"l\",\"https_redirect\":\"no\"}",
		  "load balancer: https_redirect cannot be understood" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(answer_fini) struct answer a = { 0 };
		struct bb_lb lb = { 0 };

		assert_false(bb_object_read(parse(&a, rows[i].text), &bb_lb_object, &a.arena, &lb,
		                            &a.err));
		assert_int_equal(a.err.code, ERR_UNAVAILABLE);
		assert_string_equal(a.err.msg, rows[i].msg);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bounds_the_length_of_a_list),
		cmocka_unit_test(reads_a_balancer),
		cmocka_unit_test(refuses_what_it_does_not_know),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
