/* Servers as machines of nodes, as a look shows them: section "Instances" of
 * docs/spec/brightbox.md. */
#include "providers/brightbox/servers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/log.h"
#include "cloud/fake_host.h"
#include "cloud/http_script.h"

#define PLACE "\"zone\":{\"handle\":\"gb1-a\"},\"server_type\":{\"handle\":\"1gb.ssd\"}"
#define SERVER(members) "{\"id\":\"srv-11111\",\"status\":\"active\"," PLACE members "}"

extern const struct cloud_ops brightbox_cloud;

struct world {
	struct http_script script;
	struct fake_host fake;
	struct arena arena;
	struct cloud *cloud;
	struct look *look;
	struct machine_list list;
	struct error err;
};

static void
close_cloud(struct world *w)
{
	look_unref(TAKE(w->look));
	brightbox_cloud.close(TAKE(w->cloud));
}

/* A new one, since failures in a row count as an outage. */
static void
open_cloud(struct world *w)
{
	close_cloud(w);
	assert_true(brightbox_cloud.load(&(struct cloud_config){ 0 }, &w->cloud, &w->err));
	w->cloud->host = &w->fake.host;
	assert_true(brightbox_cloud.start(w->cloud, &w->fake.host, &w->err));
	w->script.n_answers = 0;
}

static int
setup(void **state)
{
	struct world *w = *state = xcalloc(1, sizeof(*w));

	setenv("BRIGHTBOX_CLIENT", "cli-aaaaa", 1);
	setenv("BRIGHTBOX_CLIENT_SECRET", "secret", 1);
	setenv("BRIGHTBOX_ACCOUNT", "acc-aaaaa", 1);
	log_set_fd(-1);
	http_script_init(&w->script);
	fake_host_init(&w->fake);
	w->fake.host.http = &w->script.client;
	open_cloud(w);
	return 0;
}

static int
teardown(void **state)
{
	struct world *w = *state;

	close_cloud(w);
	free(w->list.machines);
	arena_fini(&w->arena);
	fake_host_fini(&w->fake);
	http_script_fini(&w->script);
	free(w);
	return 0;
}

static const struct instance *
look_at(struct world *w, const char *name, const char *provider_id)
{
	struct node_ref ref = { .name = str_c(name), .provider_id = str_c(provider_id) };
	struct call call = fake_host_call(&w->fake, &w->arena);

	look_unref(TAKE(w->look));
	if (!cloud_look(w->cloud, &call, &ref, 1, 0, &w->look, &w->err))
		fail_msg("%s", w->err.msg);
	return &w->look->instances[0];
}

/* The node of a server that the API describes so. */
static const struct instance *
look_at_server(struct world *w, const char *server)
{
	open_cloud(w);
	http_script_answer(&w->script, "/servers/srv-11111", 200, server);
	return look_at(w, "srv-11111", "brightbox://srv-11111");
}

static void
check_unknown(const struct instance *instance, const char *error)
{
	assert_int_equal(instance->presence, PRESENCE_UNKNOWN);
	assert_int_equal(instance->error_code, ERR_UNAVAILABLE);
	assert_true(str_eq_c(instance->error, error));
}

/* ---- finding ---- */

static void
a_node_is_found_by_its_provider_id(void **state)
{
	struct world *w = *state;
	const struct instance *instance;

	http_script_answer(&w->script, "/servers/srv-11111", 200, SERVER());
	instance = look_at(w, "worker-1", "brightbox://srv-11111");
	assert_int_equal(instance->presence, PRESENCE_PRESENT);
	assert_true(str_eq_c(instance->provider_id, "brightbox://srv-11111"));
	http_script_check_asked(&w->script, "/servers/srv-11111\n");
}

static void
a_new_node_is_named_after_its_server(void **state)
{
	struct world *w = *state;
	const struct instance *instance;

	http_script_answer(&w->script, "/servers/srv-11111", 200, SERVER());
	instance = look_at(w, "srv-11111", "");
	assert_int_equal(instance->presence, PRESENCE_PRESENT);
	assert_true(str_eq_c(instance->provider_id, "brightbox://srv-11111"));
}

static void
a_node_of_another_cloud_is_asked_for_nowhere(void **state)
{
	struct world *w = *state;

	assert_int_equal(look_at(w, "n", "k3s://srv-11111")->presence, PRESENCE_FOREIGN);
	assert_int_equal(look_at(w, "n", "brightbox://")->presence, PRESENCE_UNKNOWN);
	http_script_check_asked(&w->script, "");
}

static void
only_a_404_means_that_a_server_is_gone(void **state)
{
	struct world *w = *state;

	http_script_answer(&w->script, "/load_balancers", 200, "[]");
	http_script_answer(&w->script, "/servers/srv-11111", 404,
	                   "{\"error_name\":\"missing_resource\"}");
	assert_int_equal(look_at(w, "n", "brightbox://srv-11111")->presence, PRESENCE_ABSENT);
	w->script.n_answers = 0;
	http_script_answer(&w->script, "/servers/srv-11111", 500, "{}");
	check_unknown(look_at(w, "n", "brightbox://srv-11111"),
	              "GET /servers/srv-11111: 500 Internal Server Error");
}

/* ---- states ---- */

static void
a_state_says_whether_a_server_exists_and_runs(void **state)
{
	static const struct {
		const char *status;
		enum presence presence;
		enum power power;
	} rows[] = {
		{ "creating", PRESENCE_PRESENT, POWER_ON },
		{ "active", PRESENCE_PRESENT, POWER_ON },
		{ "inactive", PRESENCE_PRESENT, POWER_OFF },
		{ "unavailable", PRESENCE_PRESENT, POWER_OFF },
		{ "deleting", PRESENCE_PRESENT, POWER_ON },
		{ "deleted", PRESENCE_ABSENT, POWER_UNKNOWN },
		{ "failed", PRESENCE_ABSENT, POWER_UNKNOWN },
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct instance *instance;
		char server[200];

		snprintf(server, sizeof(server),
		         "{\"id\":\"srv-11111\",\"status\":\"%s\"," PLACE "}", rows[i].status);
		open_cloud(w);
		http_script_answer(&w->script, "/load_balancers", 200, "[]");
		http_script_answer(&w->script, "/servers/srv-11111", 200, server);
		instance = look_at(w, "srv-11111", "brightbox://srv-11111");
		assert_int_equal(instance->presence, rows[i].presence);
		assert_int_equal(instance->power, rows[i].power);
	}
}

static void
a_server_in_an_unknown_state_is_neither_there_nor_gone(void **state)
{
	struct world *w = *state;

	check_unknown(look_at_server(w, "{\"id\":\"srv-11111\",\"status\":\"asleep\"," PLACE "}"),
	              "Instance srv-11111: Unrecognised status \"asleep\"");
	check_unknown(look_at_server(w, "{\"id\":\"srv-11111\",\"status\":null," PLACE "}"),
	              "Instance srv-11111: Unrecognised status \"\"");
}

/* ---- addresses ---- */

static void
check_addresses(const struct instance *instance, const char *wanted)
{
	CLEANUP(buf_fini) struct buf seen = BUF_INIT(KIB(4));

	if (instance->presence != PRESENCE_PRESENT)
		fail_msg("%" STR_FMT, STR_ARG(instance->error));
	for (size_t i = 0; i < instance->n_addresses; i++)
		buf_addf(&seen, "%" STR_FMT " %" STR_FMT "\n", STR_ARG(instance->addresses[i].type),
		         STR_ARG(instance->addresses[i].address));
	assert_string_equal(seen.ptr, wanted);
}

static void
addresses_have_the_order_of_the_official_controller(void **state)
{
	struct world *w = *state;

	check_addresses(
		look_at_server(
			w, SERVER(",\"hostname\":\"srv-11111\",\"fqdn\":\"srv-11111.gb1.example\","
	                          "\"interfaces\":[{\"ipv4_address\":\"10.1.2.3\","
	                          "\"ipv6_address\":\"2A02:1348:0:0::0001\"},"
	                          "{\"ipv4_address\":\"::ffff:10.1.2.4\","
	                          "\"ipv6_address\":\"2a02:1348::2\"}],"
	                          "\"cloud_ips\":[{\"id\":\"cip-11111\","
	                          "\"public_ip\":\"109.107.35.1\","
	                          "\"public_ipv6\":\"2a02:1348:ffff:ffff::6d6b:2301\","
	                          "\"fqdn\":\"cip-11111.gb1.example\","
	                          "\"reverse_dns\":\"www.example\"},"
	                          "{\"id\":\"cip-22222\",\"public_ip\":\"109.107.35.2\","
	                          "\"fqdn\":\"cip-22222.gb1.example\"}]")),
		"Hostname srv-11111\n"
		"ExternalDNS srv-11111.gb1.example\n"
		"ExternalIP 10.1.2.3\n"
		"ExternalIP 2a02:1348::1\n"
		"ExternalIP 10.1.2.4\n"
		"ExternalIP 2a02:1348::2\n"
		"ExternalIP 109.107.35.1\n"
		"ExternalDNS cip-11111.gb1.example\n"
		"ExternalIP 109.107.35.2\n"
		"ExternalDNS cip-22222.gb1.example\n");
}

static void
a_server_without_interfaces_has_its_names(void **state)
{
	struct world *w = *state;

	check_addresses(look_at_server(w, SERVER(",\"hostname\":\"srv-11111\"")),
	                "Hostname srv-11111\n");
}

static void
an_address_that_cannot_be_read_fails_the_node(void **state)
{
	struct world *w = *state;

	check_unknown(look_at_server(w, SERVER(",\"interfaces\":[{\"ipv4_address\":\"10.1.2\","
	                                       "\"ipv6_address\":\"2a02:1348::1\"}]")),
	              "Server has invalid IPv4 address: srv-11111 (\"10.1.2\")");
	check_unknown(look_at_server(w, SERVER(",\"interfaces\":[{\"ipv4_address\":\"10.1.2.3\","
	                                       "\"ipv6_address\":\"2a02::1348::1\"}]")),
	              "Server has invalid IPv6 address: srv-11111 (\"2a02::1348::1\")");
	check_unknown(look_at_server(w, SERVER(",\"interfaces\":[{\"ipv4_address\":\"10.1.2.3\","
	                                       "\"ipv6_address\":null}]")),
	              "Server has invalid IPv6 address: srv-11111 (\"\")");
	check_unknown(look_at_server(w, SERVER(",\"cloud_ips\":[{\"id\":\"cip-11111\","
	                                       "\"public_ip\":\"none\"}]")),
	              "Cloud IP has invalid IPv4 address: cip-11111 (\"none\")");
}

/* ---- type, zone and region ---- */

static void
a_region_is_the_zone_up_to_its_last_hyphen(void **state)
{
	static const struct {
		const char *zone, *region;
	} rows[] = {
		{ "gb1-a", "gb1" },   { "gb1-b", "gb1" },   { "gb1s-a", "gb1s" },
		{ "gb1s-b", "gb1s" }, { "eu-2-c", "eu-2" }, { "-a", "" },
		{ "dummy", NULL },
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct instance *instance;
		char server[200], msg[100];

		snprintf(server, sizeof(server),
		         "{\"id\":\"srv-11111\",\"status\":\"active\",\"zone\":{\"handle\":\"%s\"},"
		         "\"server_type\":{\"handle\":\"1gb.ssd\"}}",
		         rows[i].zone);
		instance = look_at_server(w, server);
		if (rows[i].region) {
			assert_int_equal(instance->presence, PRESENCE_PRESENT);
			assert_true(str_eq_c(instance->type, "1gb.ssd"));
			assert_true(str_eq_c(instance->zone, rows[i].zone));
			assert_true(str_eq_c(instance->region, rows[i].region));
		} else {
			snprintf(msg, sizeof(msg), "unexpected zone: %s", rows[i].zone);
			check_unknown(instance, msg);
		}
	}
}

static void
a_server_without_zone_or_type_fails_its_node(void **state)
{
	struct world *w = *state;

	check_unknown(look_at_server(w, "{\"id\":\"srv-11111\",\"status\":\"active\","
	                                "\"server_type\":{\"handle\":\"1gb.ssd\"}}"),
	              "server srv-11111 has no zone");
	check_unknown(look_at_server(w, "{\"id\":\"srv-11111\",\"status\":\"active\","
	                                "\"zone\":{\"handle\":\"gb1-a\"},\"server_type\":null}"),
	              "server srv-11111 has no server type");
}

/* ---- the list ---- */

/* They are asked for by their ids, and so affect only their own nodes. */
static void
a_list_leaves_out_servers_that_it_cannot_describe(void **state)
{
	struct world *w = *state;
	struct call call = fake_host_call(&w->fake, &w->arena);

	http_script_answer(&w->script, "/servers", 200,
	                   "[{\"id\":\"srv-22222\",\"status\":\"deleted\"," PLACE "},"
	                   "{\"id\":\"srv-33333\",\"status\":\"asleep\"," PLACE "},"
	                   "{\"id\":\"srv-44444\",\"status\":\"active\"},"
	                   "{\"id\":\"srv-55555\",\"status\":\"failed\"," PLACE "}," SERVER() "]");
	assert_true(brightbox_cloud.list_machines(w->cloud, &call, &w->list, &w->err));
	assert_true(w->list.is_complete);
	assert_int_equal(w->list.n, 1);
	assert_true(str_eq_c(w->list.machines[0].id, "srv-11111"));
	assert_true(str_eq_c(w->list.machines[0].name, "srv-11111"));
}

static void
a_list_that_cannot_be_read_shows_nothing(void **state)
{
	static const char *const lists[] = { "{}", "[{}]", "[{\"id\":7}]", "[" };
	struct world *w = *state;
	struct call call = fake_host_call(&w->fake, &w->arena);

	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		open_cloud(w);
		http_script_answer(&w->script, "/servers", 200, lists[i]);
		assert_false(brightbox_cloud.list_machines(w->cloud, &call, &w->list, &w->err));
		assert_int_equal(w->err.code, ERR_UNAVAILABLE);
	}
	assert_int_equal(w->list.n, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(a_node_is_found_by_its_provider_id),
		TEST(a_new_node_is_named_after_its_server),
		TEST(a_node_of_another_cloud_is_asked_for_nowhere),
		TEST(only_a_404_means_that_a_server_is_gone),
		TEST(a_state_says_whether_a_server_exists_and_runs),
		TEST(a_server_in_an_unknown_state_is_neither_there_nor_gone),
		TEST(addresses_have_the_order_of_the_official_controller),
		TEST(a_server_without_interfaces_has_its_names),
		TEST(an_address_that_cannot_be_read_fails_the_node),
		TEST(a_region_is_the_zone_up_to_its_last_hyphen),
		TEST(a_server_without_zone_or_type_fails_its_node),
		TEST(a_list_leaves_out_servers_that_it_cannot_describe),
		TEST(a_list_that_cannot_be_read_shows_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
