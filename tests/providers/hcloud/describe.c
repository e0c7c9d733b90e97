#include "providers/hcloud/describe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* What a test varies, and what came of it as a text: "Hostname n1, ExternalIP 203.0.113.7". */
struct bench {
	struct arena arena;
	struct hz_config config;
	struct cloud_host host;
	struct hcloud hcloud;
	struct hz_server server;
	struct hz_robot_server robot;
	struct node_ref ref;
	struct instance found;
	struct buf events, addresses;
};

static struct bench *bench; /* cloud_host has no room for it */

static void
remember(const struct cloud_host *host, const struct node_ref *ref, enum host_event type,
         const char *reason, struct str message)
{
	(void)host;
	assert_non_null(ref);
	assert_int_equal(type, HOST_EVENT_WARNING);
	buf_addf(&bench->events, "%s: %" STR_FMT "\n", reason, STR_ARG(message));
}

static struct hz_private_net nets[] = { { 4711, { "10.0.0.2", 8 } }, { 99, { "10.9.0.2", 8 } } };

static int
setup(void **state)
{
	static struct bench fresh;

	fresh = (struct bench){ 0 };
	fresh.config = (struct hz_config){ .dialect = &hz_official,
		                           .families = HZ_IPV4,
		                           .has_zone_label = true,
		                           .forwards_internal_ips = true };
	fresh.host.event = remember;
	fresh.server = (struct hz_server){ .id = 1,
		                           .name = STR("n1"),
		                           .status = STR("running"),
		                           .type = STR("cx22"),
		                           .location = STR("fsn1"),
		                           .network_zone = STR("eu-central"),
		                           .ipv4 = STR("203.0.113.7"),
		                           .ipv6 = STR("2001:db8:1234::/64"),
		                           .private_nets = { nets, 2 } };
	fresh.robot = (struct hz_robot_server){ .number = 321,
		                                .name = STR("robot1"),
		                                .product = STR("Robot Server™ 1"),
		                                .dc = STR("FSN1-DC14"),
		                                .ipv4 = STR("123.123.123.123"),
		                                .ipv6_net = STR("2a01:4f8:111:4221::") };
	fresh.ref = (struct node_ref){ .name = STR("n1") };
	fresh.events = BUF_INIT(10000);
	fresh.addresses = BUF_INIT(10000);
	bench = *state = &fresh;
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	arena_fini(&bench->arena);
	buf_fini(&bench->events);
	buf_fini(&bench->addresses);
	return 0;
}

static void
check_text(struct str text, const char *wanted)
{
	if (!str_eq_c(text, wanted))
		fail_msg("\"%" STR_FMT "\" is not \"%s\"", STR_ARG(text), wanted);
}

static void
check_addresses(const char *wanted)
{
	buf_reset(&bench->addresses);
	for (size_t i = 0; i < bench->found.n_addresses; i++)
		buf_addf(&bench->addresses, "%s%" STR_FMT " %" STR_FMT, i > 0 ? ", " : "",
		         STR_ARG(bench->found.addresses[i].type),
		         STR_ARG(bench->found.addresses[i].address));
	assert_string_equal(bench->addresses.ptr, wanted);
}

static void
describe(int64_t network)
{
	bench->hcloud = (struct hcloud){ .config = &bench->config,
		                         .host = &bench->host,
		                         .network = network };
	hz_describe_cloud(&bench->hcloud, &bench->arena, &bench->ref, &bench->server,
	                  &bench->found);
}

static void
describe_robot(void)
{
	bench->hcloud = (struct hcloud){ .config = &bench->config, .host = &bench->host };
	hz_describe_robot(&bench->hcloud, &bench->arena, &bench->ref, &bench->robot, &bench->found);
}

/* ---- the cloud ---- */

/* docs/spec/hcloud.md, "Machine type and place" */
static void
a_server_of_the_cloud(void **state)
{
	(void)state;
	describe(4711);
	assert_int_equal(bench->found.presence, PRESENCE_PRESENT);
	assert_int_equal(bench->found.realm, HZ_REALM_CLOUD);
	check_text(bench->found.provider_id, "hcloud://1");
	check_text(bench->found.type, "cx22");
	check_text(bench->found.region, "fsn1");
	check_text(bench->found.zone, "fsn1-dc14");
	assert_int_equal(bench->found.n_labels, 1);
	check_text(bench->found.labels[0].key, "instance.hetzner.cloud/provided-by");
	check_text(bench->found.labels[0].value, "cloud");
	check_addresses("Hostname n1, ExternalIP 203.0.113.7, InternalIP 10.0.0.2");
}

static void
zones_follow_a_table(void **state)
{
	static const char *const zones[][2] = {
		{ "nbg1", "nbg1-dc3" },  { "hel1", "hel1-dc2" },
		{ "fsn1", "fsn1-dc14" }, { "ash", "ash-dc1" },
		{ "hil", "hil-dc1" },    { "sin", "sin-dc1" },
		{ "new1", "new1" },      { "", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(zones); i++) {
		bench->server.location = str_c(zones[i][0]);
		describe(0);
		check_text(bench->found.zone, zones[i][1]);
		check_text(bench->found.region, zones[i][0]);
	}
	bench->config.has_zone_label = false;
	describe(0);
	check_text(bench->found.zone, "");
}

static void
off_is_off(void **state)
{
	static const char *const on[] = { "running",  "initializing", "starting",   "stopping",
		                          "deleting", "migrating",    "rebuilding", "unknown" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(on); i++) {
		bench->server.status = str_c(on[i]);
		describe(0);
		assert_int_equal(bench->found.power, POWER_ON);
	}
	bench->server.status = STR("off");
	describe(0);
	assert_int_equal(bench->found.power, POWER_OFF);
	bench->server.status = STR_EMPTY;
	describe(0);
	assert_int_equal(bench->found.power, POWER_UNKNOWN);
}

static void
addresses_of_each_family(void **state)
{
	(void)state;
	describe(0);
	check_addresses("Hostname n1, ExternalIP 203.0.113.7");
	bench->config.families = HZ_IPV6;
	describe(0);
	check_addresses("Hostname n1, ExternalIP 2001:db8:1234::1");
	bench->config.families = HZ_DUALSTACK;
	describe(99);
	check_addresses("Hostname n1, ExternalIP 203.0.113.7, ExternalIP 2001:db8:1234::1, "
	                "InternalIP 10.9.0.2");
	describe(5);
	check_addresses("Hostname n1, ExternalIP 203.0.113.7, ExternalIP 2001:db8:1234::1");
}

static void
no_addresses_where_there_are_none(void **state)
{
	(void)state;
	bench->config.families = HZ_DUALSTACK;
	bench->server.ipv4 = STR_EMPTY;
	bench->server.ipv6 = STR_EMPTY;
	describe(0);
	check_addresses("Hostname n1");
	bench->server.ipv4 = STR("0.0.0.0");
	bench->server.ipv6 = STR("::/64");
	describe(0);
	check_addresses("Hostname n1");
	bench->server.ipv4 = STR("nonsense");
	bench->server.ipv6 = STR("2001:db8::");
	describe(0);
	check_addresses("Hostname n1");
}

static void
an_annotation_overrides_ipv6(void **state)
{
	static struct label annotation = { STR(HZ_ANNOTATION_IPV6), STR("2001:DB8:1234:0::5") };

	(void)state;
	bench->config.families = HZ_IPV6;
	bench->ref.annotations = &annotation;
	bench->ref.n_annotations = 1;
	describe(0);
	check_addresses("Hostname n1, ExternalIP 2001:db8:1234::5");
	annotation.value = STR("10.0.0.1");
	describe(0);
	check_addresses("Hostname n1, ExternalIP 2001:db8:1234::1");
}

/* docs/spec/hcloud.md, "Tutorial" */
static void
the_tutorial_sees_it_its_own_way(void **state)
{
	(void)state;
	bench->config.dialect = &hz_tutorial;
	bench->config.families = HZ_DUALSTACK;
	bench->server.status = STR("starting");
	describe(4711);
	check_text(bench->found.provider_id, "hcloud-from-scratch://1");
	check_text(bench->found.region, "eu-central");
	check_text(bench->found.zone, "fsn1");
	assert_int_equal(bench->found.power, POWER_OFF);
	assert_int_equal(bench->found.n_labels, 0);
	check_addresses("Hostname n1, ExternalIP 203.0.113.7, ExternalIP 2001:db8:1234::, "
	                "InternalIP 10.0.0.2");
	bench->config.dialect = &hz_tutorial_text;
	describe(4711);
	check_text(bench->found.provider_id, "ccm-from-scratch://1");
	assert_int_equal(bench->found.power, POWER_ON);
}

/* ---- Robot ---- */

static void
a_dedicated_server(void **state)
{
	(void)state;
	describe_robot();
	assert_int_equal(bench->found.realm, HZ_REALM_ROBOT);
	assert_int_equal(bench->found.power, POWER_UNKNOWN);
	check_text(bench->found.provider_id, "hrobot://321");
	check_text(bench->found.type, "Robot-Server-1");
	check_text(bench->found.region, "fsn1");
	check_text(bench->found.zone, "fsn1-dc14");
	check_text(bench->found.labels[0].value, "robot");
	check_addresses("Hostname robot1, ExternalIP 123.123.123.123");
}

/* The other way round than for the cloud's servers. */
static void
ipv6_comes_first(void **state)
{
	(void)state;
	bench->config.families = HZ_DUALSTACK;
	describe_robot();
	check_addresses("Hostname robot1, ExternalIP 2a01:4f8:111:4221::1, "
	                "ExternalIP 123.123.123.123");
	bench->robot.ipv4 = STR_EMPTY;
	bench->robot.dc = STR("odd");
	describe_robot();
	check_addresses("Hostname robot1, ExternalIP 2a01:4f8:111:4221::1");
	check_text(bench->found.region, "odd");
}

/* For a server without a network of its own, the annotation is the only source. */
static void
an_annotation_gives_a_dedicated_server_its_ipv6(void **state)
{
	static struct label annotation = { STR(HZ_ANNOTATION_IPV6), STR("2001:db8:1234::5") };

	(void)state;
	bench->config.families = HZ_IPV6;
	bench->ref.annotations = &annotation;
	bench->ref.n_annotations = 1;
	describe_robot();
	check_addresses("Hostname robot1, ExternalIP 2001:db8:1234::5");
	bench->robot.ipv6_net = STR_EMPTY;
	describe_robot();
	check_addresses("Hostname robot1, ExternalIP 2001:db8:1234::5");
	bench->ref.n_annotations = 0;
	describe_robot();
	check_addresses("Hostname robot1");
}

static void
internal_addresses_are_handed_on(void **state)
{
	static const struct address reported[] = {
		{ STR("Hostname"), STR("robot1") },
		{ STR("InternalIP"), STR("10.0.1.5") },
		{ STR("InternalIP"), STR("123.123.123.123") },
		{ STR("InternalIP"), STR("fd00::5") },
	};

	(void)state;
	bench->ref.addresses = reported;
	bench->ref.n_addresses = ARRAY_LEN(reported);
	describe_robot();
	check_addresses("Hostname robot1, ExternalIP 123.123.123.123, InternalIP 10.0.1.5");
	assert_string_equal(
		bench->events.ptr,
		"MisconfiguredInternalIP: Configured InternalIP already exists as an ExternalIP. As a "
		"result, 123.123.123.123 is not added as an InternalIP\n"
		"MisconfiguredInternalIP: Configured InternalIP is IPv6 even though IPv4 only is "
		"configured. As a result, fd00::5 is not added as an InternalIP\n");
	buf_reset(&bench->events);
	bench->config.families = HZ_IPV6;
	describe_robot();
	check_addresses("Hostname robot1, ExternalIP 2a01:4f8:111:4221::1, InternalIP fd00::5");
	assert_non_null(strstr(bench->events.ptr,
	                       "Configured InternalIP is IPv4 even though IPv6 only is configured. "
	                       "As a result, 10.0.1.5 is not added as an InternalIP\n"));
	bench->config.forwards_internal_ips = false;
	describe_robot();
	check_addresses("Hostname robot1, ExternalIP 2a01:4f8:111:4221::1");
}

#define ON_BENCH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BENCH(a_server_of_the_cloud),
		ON_BENCH(zones_follow_a_table),
		ON_BENCH(off_is_off),
		ON_BENCH(addresses_of_each_family),
		ON_BENCH(no_addresses_where_there_are_none),
		ON_BENCH(an_annotation_overrides_ipv6),
		ON_BENCH(the_tutorial_sees_it_its_own_way),
		ON_BENCH(a_dedicated_server),
		ON_BENCH(ipv6_comes_first),
		ON_BENCH(an_annotation_gives_a_dedicated_server_its_ipv6),
		ON_BENCH(internal_addresses_are_handed_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
