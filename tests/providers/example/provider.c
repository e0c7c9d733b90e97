#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "cloud/dry_notes.h"
#include "cloud/fake_host.h"
#include "cloud/http_script.h"

#define MACHINES "/machines?page=1&size=50"
#define MACHINE                                                                             \
	"{\"id\":\"7\",\"name\":\"n1\",\"ip\":\"10.0.0.7\",\"state\":\"running\",\"type\":" \
	"\"small\",\"zone\":\"a\"}"
#define BALANCERS "/balancers?page=1&size=50"
#define NO_BALANCER "{\"balancers\":[],\"total\":0}"
#define WIRING "\"ports\":[\"80:30080\"],\"targets\":[\"7\"]"
#define NAMES "\"name\":\"lb\",\"label\":\"u\""
#define BALANCER "{\"id\":\"9\"," NAMES ",\"ip\":\"198.51.100.9\"," WIRING "}"
#define ONE_BALANCER "{\"balancers\":[" BALANCER "],\"total\":1}"

extern const struct cloud_ops example_cloud;

struct world {
	struct http_script script;
	struct fake_host fake;
	struct arena arena;
	struct call call;
	struct cloud *cloud;
	struct look *look;
	struct error err;
};

static int
set_up(void **state)
{
	struct world *w = *state = xcalloc(1, sizeof(*w));

	setenv("EXAMPLE_URL", "http://127.0.0.1:1", 1);
	setenv("EXAMPLE_TOKEN", "secret", 1);
	http_script_init(&w->script);
	fake_host_init(&w->fake);
	w->fake.host.http = &w->script.client;
	w->call = fake_host_call(&w->fake, &w->arena);
	assert_ok(example_cloud.load(&(struct cloud_config){ 0 }, &w->cloud, &w->err), &w->err);
	w->cloud->host = &w->fake.host;
	assert_ok(example_cloud.start(w->cloud, &w->fake.host, &w->err), &w->err);
	return 0;
}

static int
tear_down(void **state)
{
	struct world *w = *state;

	example_cloud.close(w->cloud);
	look_unref(w->look);
	arena_fini(&w->arena);
	fake_host_fini(&w->fake);
	http_script_fini(&w->script);
	free(w);
	return 0;
}

static void
wants_url_and_token(void **state)
{
	struct world *w = *state;
	struct cloud *none = NULL;

	unsetenv("EXAMPLE_TOKEN");
	assert_false(example_cloud.load(&(struct cloud_config){ 0 }, &none, &w->err));
	assert_null(none);
	assert_int_equal(w->err.code, ERR_INVALID);
	assert_non_null(strstr(w->err.msg, "EXAMPLE_TOKEN"));
}

static void
may_read_the_token_from_a_file(void **state)
{
	char path[] = "/tmp/ccmd-test-XXXXXX";
	struct cloud *cloud = NULL;
	struct world *w = *state;
	int fd = mkstemp(path);

	assert_int_equal(write(fd, "secret\n", 7), 7);
	close(fd);
	unsetenv("EXAMPLE_TOKEN");
	setenv("EXAMPLE_TOKEN_FILE", path, 1);
	assert_ok(example_cloud.load(&(struct cloud_config){ 0 }, &cloud, &w->err), &w->err);
	assert_int_equal(cloud->needs.n_reads, 1);
	assert_true(str_eq_c(cloud->needs.reads[0], path));
	example_cloud.close(cloud);
	unlink(path);
	assert_false(example_cloud.load(&(struct cloud_config){ 0 }, &cloud, &w->err));
	assert_non_null(strstr(w->err.msg, "EXAMPLE_TOKEN_FILE: "));
	unsetenv("EXAMPLE_TOKEN_FILE");
}

/* ---- machines ---- */

static const struct instance *
look_at(struct world *w, const char *name, const char *provider_id, enum presence presence)
{
	const struct instance *found;
	struct node_ref ref = { .name = str_c(name), .provider_id = str_c(provider_id) };

	assert_ok(cloud_look(w->cloud, &w->call, &ref, 1, 0, &w->look, &w->err), &w->err);
	found = &w->look->instances[0];
	if (found->presence != presence)
		fail_msg("presence %d instead of %d: %" STR_FMT, found->presence, presence,
		         STR_ARG(found->error));
	return found;
}

static void
finds_a_new_node_by_name(void **state)
{
	struct world *w = *state;
	const struct instance *found;

	http_script_answer(&w->script, MACHINES, 200, "{\"machines\":[" MACHINE "],\"total\":1}");
	found = look_at(w, "n1", "", PRESENCE_PRESENT);
	assert_int_equal(found->power, POWER_ON);
	assert_true(str_eq_c(found->provider_id, "example://7"));
	assert_true(str_eq_c(found->type, "small") && str_eq_c(found->zone, "a"));
	assert_int_equal(found->n_addresses, 1);
	assert_true(str_eq_c(found->addresses[0].type, "InternalIP"));
	assert_true(str_eq_c(found->addresses[0].address, "10.0.0.7"));
}

static void
finds_a_node_on_the_second_page(void **state)
{
	struct world *w = *state;

	http_script_answer(&w->script, MACHINES, 200, "{\"machines\":[" MACHINE "],\"total\":2}");
	http_script_answer(&w->script, "/machines?page=2&size=50", 200,
	                   "{\"machines\":[{\"id\":\"8\",\"name\":\"n2\",\"ip\":\"10.0.0.8\"}],"
	                   "\"total\":2}");
	assert_true(str_eq_c(look_at(w, "n2", "", PRESENCE_PRESENT)->provider_id, "example://8"));
}

static void
sees_that_a_machine_is_off(void **state)
{
	struct world *w = *state;

	http_script_answer(&w->script, "/machines/7", 200,
	                   "{\"id\":\"7\",\"name\":\"n1\",\"ip\":\"10.0.0.7\","
	                   "\"state\":\"stopped\"}");
	assert_int_equal(look_at(w, "n1", "example://7", PRESENCE_PRESENT)->power, POWER_OFF);
}

static void
believes_only_a_404_that_a_machine_is_gone(void **state)
{
	static const struct {
		int status;
		const char *body;
		enum presence presence;
	} rows[] = {
		{ 404, "{\"message\":\"no machine 7\"}", PRESENCE_ABSENT },
		{ 404, "<html>", PRESENCE_UNKNOWN },
		{ 401, "{\"message\":\"the token is wrong\"}", PRESENCE_UNKNOWN },
		{ 500, "{}", PRESENCE_UNKNOWN },
		{ 200, "{}", PRESENCE_UNKNOWN },
		{ 200, "", PRESENCE_UNKNOWN },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (i > 0)
			set_up(state);
		struct world *w = *state;

		http_script_answer(&w->script, "/machines/7", rows[i].status, rows[i].body);
		look_at(w, "n1", "example://7", rows[i].presence);
		if (i + 1 < ARRAY_LEN(rows))
			tear_down(state);
	}
}

static void
an_incomplete_machine_makes_the_list_unknown(void **state)
{
	struct node_ref ref = { .name = STR("n1"), .provider_id = STR_EMPTY };
	struct world *w = *state;

	http_script_answer(&w->script, MACHINES, 200,
	                   "{\"machines\":[{\"id\":\"7\"}],\"total\":1}");
	assert_false(cloud_look(w->cloud, &w->call, &ref, 1, 0, &w->look, &w->err));
	assert_int_equal(w->err.code, ERR_UNAVAILABLE);
}

/* ---- load balancers ---- */

static const struct lb_port port_80 = {
	.name = STR_EMPTY,
	.app_protocol = STR_EMPTY,
	.protocol_text = STR("TCP"),
	.protocol = LB_TCP,
	.port = 80,
	.node_port = 30080,
};
static const struct node_ref nodes[] = {
	{ .name = STR("n1"), .provider_id = STR("example://7") },
	{ .name = STR("n2"), .provider_id = STR("example://8") },
};
static const enum ip_family ipv4 = IP_V4;

static struct lb_spec
spec_of(size_t n_nodes)
{
	return (struct lb_spec){
		.namespace = STR("default"),
		.service = STR("web"),
		.uid = STR("u"),
		.name = STR("lb"),
		.ports = &port_80,
		.n_ports = 1,
		.families = &ipv4,
		.n_families = 1,
		.nodes = nodes,
		.n_nodes = n_nodes,
	};
}

static void
check_ensured(struct world *w, size_t n_nodes)
{
	struct lb_spec spec = spec_of(n_nodes);
	struct lb_status status = { 0 };
	enum lb_outcome outcome;

	assert_ok(balancer_ensure(w->cloud, &w->call, &spec, &outcome, &status, &w->err), &w->err);
	assert_int_equal(status.n_ingress, 1);
	assert_true(str_eq_c(status.ingress[0].ip, "198.51.100.9"));
}

static void
makes_a_balancer(void **state)
{
	struct world *w = *state;

	http_script_answer(&w->script, BALANCERS, 200, NO_BALANCER);
	http_script_answer(&w->script, "POST /balancers", 201, BALANCER);
	check_ensured(w, 1);
	http_script_check_asked(&w->script, BALANCERS "\nPOST /balancers {" NAMES "," WIRING "}\n");
}

static void
leaves_the_balancer_of_another_service_alone(void **state)
{
	struct world *w = *state;

	http_script_answer(&w->script, BALANCERS, 200,
	                   "{\"balancers\":[{\"id\":\"8\",\"name\":\"other\"," WIRING "}],"
	                   "\"total\":1}");
	http_script_answer(&w->script, "POST /balancers", 201, BALANCER);
	check_ensured(w, 1);
	http_script_check_asked(&w->script, BALANCERS "\nPOST /balancers {" NAMES "," WIRING "}\n");
}

static void
uses_the_balancer_that_another_process_made_meanwhile(void **state)
{
	struct world *w = *state;

	http_script_answer(&w->script, BALANCERS, 200, NO_BALANCER);
	http_script_answer(&w->script, BALANCERS, 200, ONE_BALANCER);
	http_script_answer(&w->script, "POST /balancers", 409, "{\"message\":\"in use\"}");
	check_ensured(w, 1);
}

static void
changes_nothing_that_is_right(void **state)
{
	struct world *w = *state;

	http_script_answer(&w->script, BALANCERS, 200, ONE_BALANCER);
	check_ensured(w, 1);
	http_script_check_asked(&w->script, BALANCERS "\n");
}

static void
adds_a_target(void **state)
{
	struct world *w = *state;

	http_script_answer(&w->script, BALANCERS, 200, ONE_BALANCER);
	http_script_answer(&w->script, "PUT /balancers/9", 200, BALANCER);
	check_ensured(w, 2);
	http_script_check_asked(&w->script,
	                        BALANCERS "\nPUT /balancers/9 {" NAMES ","
	                                  "\"ports\":[\"80:30080\"],\"targets\":[\"7\",\"8\"]}\n");
}

static void
finds_a_balancer_on_the_second_page(void **state)
{
	struct world *w = *state;

	http_script_answer(&w->script, BALANCERS, 200,
	                   "{\"balancers\":[{\"id\":\"8\",\"name\":\"other\"," WIRING "}],"
	                   "\"total\":2}");
	http_script_answer(&w->script, "/balancers?page=2&size=50", 200,
	                   "{\"balancers\":[" BALANCER "],\"total\":2}");
	check_ensured(w, 1);
	http_script_check_asked(&w->script, BALANCERS "\n/balancers?page=2&size=50\n");
}

static void
makes_none_while_the_list_changes(void **state)
{
	struct lb_spec spec = spec_of(1);
	struct lb_status status = { 0 };
	struct world *w = *state;
	enum lb_outcome outcome;

	http_script_answer(&w->script, BALANCERS, 200, "{\"balancers\":[],\"total\":1}");
	http_script_answer(&w->script, "/balancers?page=2&size=50", 200, NO_BALANCER);
	assert_false(balancer_ensure(w->cloud, &w->call, &spec, &outcome, &status, &w->err));
	assert_int_equal(w->err.code, ERR_UNAVAILABLE);
}

static void
an_incomplete_balancer_is_not_changed(void **state)
{
	struct lb_spec spec = spec_of(1);
	struct lb_status status = { 0 };
	struct world *w = *state;
	enum lb_outcome outcome;

	http_script_answer(&w->script, BALANCERS, 200,
	                   "{\"balancers\":[{\"id\":\"9\"," NAMES ",\"ports\":[]}],\"total\":1}");
	assert_false(balancer_ensure(w->cloud, &w->call, &spec, &outcome, &status, &w->err));
	assert_int_equal(w->err.code, ERR_UNAVAILABLE);
}

static void
refuses_what_its_balancers_cannot_do(void **state)
{
	struct str range = STR("192.0.2.0/24");
	struct lb_spec spec = spec_of(1);
	struct lb_status status = { 0 };
	struct world *w = *state;
	enum lb_outcome outcome;

	spec.source_ranges = &range;
	spec.n_source_ranges = 1;
	assert_false(balancer_ensure(w->cloud, &w->call, &spec, &outcome, &status, &w->err));
	assert_int_equal(w->err.code, ERR_UNSUPPORTED);
}

static void
removes_a_balancer_once(void **state)
{
	struct lb_spec spec = spec_of(0);
	struct world *w = *state;
	bool found;

	http_script_answer(&w->script, BALANCERS, 200, ONE_BALANCER);
	http_script_answer(&w->script, BALANCERS, 200, NO_BALANCER);
	http_script_answer(&w->script, "DELETE /balancers/9", 204, NULL);
	http_script_answer(&w->script, "/machines/7", 200, MACHINE);
	w->fake.nodes = (struct node_ref *)(uintptr_t)nodes;
	w->fake.n_nodes = 1;
	assert_ok(balancer_remove(w->cloud, &w->call, &spec, &found, &w->err), &w->err);
	assert_true(found);
	assert_ok(balancer_remove(w->cloud, &w->call, &spec, &found, &w->err), &w->err);
	assert_false(found);
	http_script_check_asked(&w->script,
	                        BALANCERS "\nDELETE /balancers/9\n" BALANCERS "\n/machines/7\n");
}

static void
lists_the_balancers_of_services(void **state)
{
	struct lb_listed *listed = NULL;
	struct world *w = *state;
	size_t n = 0;

	http_script_answer(&w->script, BALANCERS, 200,
	                   "{\"balancers\":[{\"id\":\"8\",\"name\":\"other\"}," BALANCER "],"
	                   "\"total\":2}");
	assert_ok(w->cloud->balancers->list(w->cloud, &w->call, &listed, &n, &w->err), &w->err);
	assert_int_equal(n, 1);
	assert_true(str_eq_c(listed[0].id, "9") && str_eq_c(listed[0].uid, "u"));
	assert_true(str_eq_c(listed[0].addresses[0], "198.51.100.9"));
	assert_int_equal(listed[0].n_targets, 1);
}

/* ---- dry runs ---- */

static void
a_dry_run_notes_a_change(void **state)
{
	CLEANUP(dry_notes_fini) struct dry_notes notes;
	struct world *w = *state;

	dry_notes_init(&notes);
	w->call.dry = &notes.item;
	http_script_answer(&w->script, BALANCERS, 200, ONE_BALANCER);
	check_ensured(w, 1);
	dry_notes_check(&notes, "");
	check_ensured(w, 2);
	dry_notes_check(&notes, "change load balancer 9: PUT /balancers/9\n"
	                        "  settings: {" NAMES "," WIRING "} -> "
	                        "{" NAMES ",\"ports\":[\"80:30080\"],"
	                        "\"targets\":[\"7\",\"8\"]}\n");
	http_script_check_asked(&w->script, BALANCERS "\n" BALANCERS "\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(wants_url_and_token),
		TEST(may_read_the_token_from_a_file),
		TEST(finds_a_new_node_by_name),
		TEST(finds_a_node_on_the_second_page),
		TEST(sees_that_a_machine_is_off),
		TEST(believes_only_a_404_that_a_machine_is_gone),
		TEST(an_incomplete_machine_makes_the_list_unknown),
		TEST(makes_a_balancer),
		TEST(leaves_the_balancer_of_another_service_alone),
		TEST(uses_the_balancer_that_another_process_made_meanwhile),
		TEST(changes_nothing_that_is_right),
		TEST(adds_a_target),
		TEST(finds_a_balancer_on_the_second_page),
		TEST(makes_none_while_the_list_changes),
		TEST(an_incomplete_balancer_is_not_changed),
		TEST(refuses_what_its_balancers_cannot_do),
		TEST(removes_a_balancer_once),
		TEST(lists_the_balancers_of_services),
		TEST(a_dry_run_notes_a_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
