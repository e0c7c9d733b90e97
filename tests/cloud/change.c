#include "cloud/change.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/log.h"
#include "cloud/dry_notes.h"
#include "cloud/fake_host.h"
#include "cloud/http_script.h"

struct world {
	struct fake_host fake;
	struct http_script script;
	struct dry_notes notes;
	struct rest *rest;
	struct arena arena;
	struct call call;
	struct error err;
};

static int
setup(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));
	struct rest_config config = { .host = &w->fake.host,
		                      .name = "toy",
		                      .base_url = STR("https://toy.example/v1") };

	log_set_fd(-1);
	fake_host_init(&w->fake);
	http_script_init(&w->script);
	dry_notes_init(&w->notes);
	w->fake.host.http = &w->script.client;
	w->call = fake_host_call(&w->fake, &w->arena);
	assert_true(rest_new(&config, &w->rest, &w->err));
	*state = w;
	return 0;
}

static int
teardown(void **state)
{
	struct world *w = *state;

	rest_free(w->rest);
	dry_notes_fini(&w->notes);
	http_script_fini(&w->script);
	fake_host_fini(&w->fake);
	arena_fini(&w->arena);
	free(w);
	return 0;
}

/* ---- what differs ---- */

/* Each difference is "NAME: OLD -> NEW". */
static const struct {
	const char *present, *body, *fields;
} rows[] = {
	/* something new: all that it has */
	{ "", "{\"name\":\"web\"}", "name:  -> web\n" },
	{ "", "{\"name\":\"web\",\"n\":0,\"flag\":false}",
	  "name:  -> web\nn:  -> 0\nflag:  -> false\n" },
	{ "", "{\"name\":\"\",\"nodes\":[],\"none\":null,\"check\":{}}", "" },
	{ "", "{\"check\":{\"port\":80,\"http\":{\"path\":\"/\"}}}",
	  "check.port:  -> 80\ncheck.http.path:  -> /\n" },
	{ "", "", "" },
	/* something that exists: what differs, in the order of the body */
	{ "{\"name\":\"web\"}", "{\"name\":\"web\"}", "" },
	{ "{\"b\":1,\"a\":2}", "{\"a\":3,\"b\":4}", "a: 2 -> 3\nb: 1 -> 4\n" },
	{ "{\"name\":\"web\"}", "{\"name\":\"\"}", "name: web -> \n" },
	{ "{\"name\":\"web\",\"other\":7}", "{\"name\":\"web\"}", "" },
	{ "{}", "{\"name\":\"web\"}", "name:  -> web\n" },
	{ "{\"name\":null}", "{\"name\":\"web\"}", "name:  -> web\n" },
	{ "{\"a\":\"80\"}", "{\"a\":80}", "a: 80 -> 80\n" },
	/* an absent member equals false, an empty text and an empty list, but not 0 */
	{ "{}", "{\"a\":false,\"b\":\"\",\"c\":[],\"d\":null}", "" },
	{ "{\"a\":false,\"b\":\"\",\"c\":[]}", "{\"a\":\"\",\"b\":[],\"c\":false}", "" },
	{ "{\"a\":true}", "{\"a\":false}", "a: true -> false\n" },
	{ "{\"a\":[1]}", "{\"a\":[]}", "a: 1 -> \n" },
	{ "{}", "{\"a\":0}", "a:  -> 0\n" },
	/* an object within is compared by its members */
	{ "{\"check\":{\"port\":80,\"path\":\"/\"}}", "{\"check\":{\"port\":81}}",
	  "check.port: 80 -> 81\n" },
	{ "{\"check\":7}", "{\"check\":{\"port\":81}}", "check.port:  -> 81\n" },
	{ "{\"check\":{\"port\":81}}", "{\"check\":{\"port\":81},\"list\":[{\"a\":1}]}",
	  "list:  -> 1\n" },
	/* a list is compared as a whole, in its order */
	{ "{\"list\":[\"a\",\"b\"]}", "{\"list\":[\"a\",\"b\"]}", "" },
	{ "{\"list\":[\"a\",\"b\"]}", "{\"list\":[\"b\",\"a\"]}", "list: a, b -> b, a\n" },
	{ "{\"list\":[\"a, b\"]}", "{\"list\":[\"a\",\"b\"]}", "list: a, b -> a, b\n" },
	{ "{\"list\":[{\"a\":1,\"b\":2}]}", "{\"list\":[{\"b\":2,\"a\":1}]}", "" },
	{ "{\"list\":[{\"a\":1,\"b\":2}]}", "{\"list\":[{\"a\":1}]}", "list: a 1 b 2 -> 1\n" },
	{ "{\"list\":[{\"in\":80,\"out\":1},{\"in\":443,\"out\":2}]}", "{\"list\":[{\"in\":80}]}",
	  "list: in 80 out 1, in 443 out 2 -> 80\n" },
};

static struct str
fields_of(struct world *w, const struct change *change)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(4));
	const struct dry_field *fields;
	size_t n = change_fields(change, &w->arena, &fields);

	for (size_t i = 0; i < n; i++)
		buf_addf(&text, "%" STR_FMT ": %" STR_FMT " -> %" STR_FMT "\n",
		         STR_ARG(fields[i].name), STR_ARG(fields[i].old), STR_ARG(fields[i].new));
	return arena_str(&w->arena, buf_str(&text));
}

static void
the_members_that_differ_are_fields(void **state)
{
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct change change = { .present = str_c(rows[i].present),
			                 .body = str_c(rows[i].body) };

		if (!str_eq_c(fields_of(w, &change), rows[i].fields))
			fail_msg("%s and %s: %s", rows[i].present, rows[i].body,
			         fields_of(w, &change).ptr);
		assert_int_equal(change_is_needed(&change, &w->arena),
		                 change.present.len == 0 || rows[i].fields[0] != '\0');
	}
}

static void
fields_may_have_a_prefix_or_another_form(void **state)
{
	static const struct dry_field field = { STR("algorithm"), STR("a"), STR("b") };
	struct world *w = *state;
	struct change change = { .present = STR("{\"check\":{\"port\":80}}"),
		                 .body = STR("{\"check\":{\"port\":81}}"),
		                 .prefix = "service 80 " };

	assert_string_equal(fields_of(w, &change).ptr, "service 80 check.port: 80 -> 81\n");
	change.fields = &field;
	change.n_fields = 1;
	assert_string_equal(fields_of(w, &change).ptr, "algorithm: a -> b\n");
	change = (struct change){ .body = STR("{\"servers\":[\"a\",\"b\"]}"), .is_removal = true };
	assert_string_equal(fields_of(w, &change).ptr, "servers: a, b -> \n");
}

/* ---- requests and notes ---- */

/* Sends the change, and notes it in a dry run. */
static void
check_request(struct world *w, const struct change *change, const char *request, const char *note)
{
	struct change_sender sender = { w->rest, "/v1", "?account=a-1" };

	w->script.n_answers = 0;
	http_script_answer(&w->script, "/*", 200, "not JSON, and not wanted");
	w->call.dry = NULL;
	assert_true(change_send(&sender, &w->call, change, NULL, &w->err));
	http_script_check_asked(&w->script, request);
	w->call.dry = &w->notes.item;
	assert_true(change_send(&sender, &w->call, change, NULL, &w->err));
	http_script_check_asked(&w->script, "");
	dry_notes_check(&w->notes, note);
}

static void
a_request_and_its_note(void **state)
{
	struct world *w = *state;

	check_request(w,
	              &(struct change){ .what = "server group",
	                                .request = "POST /groups",
	                                .name = STR("web"),
	                                .body = STR("{\"name\":\"web\"}") },
	              "POST /groups?account=a-1 {\"name\":\"web\"}\n",
	              "create server group web: POST /v1/groups\n  name:  -> web\n");
	check_request(w,
	              &(struct change){ .what = "server group",
	                                .request = "POST /groups/{id}/remove",
	                                .id = STR("g/1"),
	                                .body = STR("{\"servers\":[\"s1\"]}"),
	                                .is_removal = true },
	              "POST /groups/g%2F1/remove?account=a-1 {\"servers\":[\"s1\"]}\n",
	              "change server group g/1: POST /v1/groups/g/1/remove\n  servers: s1 -> \n");
	check_request(w,
	              &(struct change){ .what = "server group",
	                                .request = "PUT /groups/{id}",
	                                .id = STR("g1"),
	                                .name = STR("web"),
	                                .body = STR("{\"name\":\"web\",\"n\":2}"),
	                                .present = STR("{\"name\":\"web\",\"n\":1}") },
	              "PUT /groups/g1?account=a-1 {\"name\":\"web\",\"n\":2}\n",
	              "change server group web: PUT /v1/groups/g1\n  n: 1 -> 2\n");
	check_request(w,
	              &(struct change){ .what = "server group",
	                                .request = "DELETE /groups/{id}",
	                                .id = STR("g1") },
	              "DELETE /groups/g1?account=a-1\n",
	              "delete server group g1: DELETE /v1/groups/g1\n");
}

static void
the_id_is_that_of_the_answer(void **state)
{
	struct world *w = *state;
	struct change_sender sender = { w->rest, "", "" };
	struct change change = { .what = "server group",
		                 .request = "POST /groups",
		                 .new_id = "g-new" };
	struct str id = STR("before");

	http_script_answer(&w->script, "/groups", 201, "{\"id\":\"g7\"}");
	http_script_answer(&w->script, "/groups", 201, "{}");
	http_script_answer(&w->script, "/groups", 204, NULL);
	assert_true(change_send(&sender, &w->call, &change, &id, &w->err));
	assert_true(str_eq_c(id, "g7"));
	for (int i = 0; i < 2; i++) {
		assert_false(change_send(&sender, &w->call, &change, &id, &w->err));
		assert_int_equal(w->err.code, ERR_UNAVAILABLE);
		assert_string_equal(w->err.msg, "POST /groups: the response has no id");
		assert_true(str_eq_c(id, "g7"));
	}
	w->call.dry = &w->notes.item;
	assert_true(change_send(&sender, &w->call, &change, &id, &w->err));
	assert_true(str_eq_c(id, "g-new"));
}

static void
a_refusal_is_the_error(void **state)
{
	struct world *w = *state;
	struct change_sender sender = { w->rest, "", "" };
	struct change change = { .request = "DELETE /groups/{id}", .id = STR("g1") };

	http_script_answer(&w->script, "/groups/g1", 409, "{\"message\":\"busy\"}");
	assert_false(change_send(&sender, &w->call, &change, NULL, &w->err));
	assert_int_equal(w->err.code, ERR_CONFLICT);
	assert_string_equal(w->err.msg, "DELETE /groups/g1: 409 busy");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(the_members_that_differ_are_fields),
		TEST(fields_may_have_a_prefix_or_another_form),
		TEST(a_request_and_its_note),
		TEST(the_id_is_that_of_the_answer),
		TEST(a_refusal_is_the_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
