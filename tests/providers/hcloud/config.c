#include "providers/hcloud/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/log.h"

#define TOKEN "jr5g7ZHpPptyhJzZyHw2Pqu4g9gTqDvEceYpngPf79jNZXCeTYQ4uArypFM3nh75"

static int
clean(void **state)
{
	(void)state;
	clearenv();
	log_set_fd(-1);
	setenv("HCLOUD_TOKEN", TOKEN, 1);
	return 0;
}

static struct hz_config *
load(const struct hz_dialect *dialect)
{
	struct hz_config *config = NULL;
	struct error err;

	if (!hz_config_load(dialect, /*reserve_percent=*/5, &config, &err))
		fail_msg("%s", err.msg);
	return config;
}

static void
check_problems(const struct hz_dialect *dialect, const char *problems)
{
	struct hz_config *config = NULL;
	struct error err;

	assert_false(hz_config_load(dialect, /*reserve_percent=*/5, &config, &err));
	assert_int_equal(err.code, ERR_INVALID);
	assert_string_equal(err.msg, problems);
}

/* One variable more, then gone again. */
static void
check_bad(const char *name, const char *value, const char *problems)
{
	setenv(name, value, 1);
	check_problems(&hz_official, problems);
	unsetenv(name);
}

static void
assert_text(struct str text, const char *wanted)
{
	if (!str_eq_c(text, wanted))
		fail_msg("\"%" STR_FMT "\" is not \"%s\"", STR_ARG(text), wanted);
}

/* ---- values ---- */

static void
a_token_is_enough(void **state)
{
	CLEANUP(hz_config_freep) struct hz_config *c = load(&hz_official);

	(void)state;
	assert_text(secret_expose(&c->token.value), TOKEN);
	assert_text(c->endpoint, "https://api.hetzner.cloud/v1");
	assert_text(c->robot_endpoint, "https://robot-ws.your-server.de");
	assert_text(c->metadata_endpoint, "http://169.254.169.254/hetzner/v1/metadata");
	assert_int_equal(c->network.len, 0);
	assert_false(c->is_debug || c->has_routes || c->has_robot || c->skips_attached_check);
	assert_int_equal(c->families, HZ_IPV4);
	assert_true(c->has_zone_label && c->forwards_internal_ips && c->has_metrics);
	assert_int_equal(c->metrics_port, 8233);
	assert_int_equal(c->metrics_host.len, 0);
	assert_int_equal(c->cache_mode, HZ_CACHE_ALL);
	assert_int_equal(c->cache_max_age_ns, 10 * NS_PER_SEC);
	assert_int_equal(c->robot_cache_ns, 300 * NS_PER_SEC);
	assert_int_equal(c->robot_pause_ns, 0);
	assert_int_equal(c->reserve_percent, 5);
	assert_false(c->lb.is_disabled);
	assert_int_equal(c->lb.adoption, HZ_ADOPT_BY_NAME);
	assert_int_equal(c->lb.hides_public, HZ_UNSET);
	assert_int_equal(c->lb.uses_proxy_protocol, HZ_UNSET);
	assert_int_equal(c->lb.health_interval_ns, 0);
}

static void
reads_everything(void **state)
{
	static const char *const values[][2] = {
		{ "HCLOUD_ENDPOINT", "http://127.0.0.1:4711/v1//" },
		{ "HCLOUD_DEBUG", "t" },
		{ "HCLOUD_NETWORK", " 4345735\n" },
		{ "HCLOUD_INSTANCES_ADDRESS_FAMILY", "dualstack" },
		{ "HCLOUD_INSTANCES_ZONE_LABEL_ENABLED", "False" },
		{ "HCLOUD_SERVER_CACHE_MODE", "one" },
		{ "HCLOUD_SERVER_CACHE_MAX_AGE", "1m30s" },
		{ "HCLOUD_METRICS_ADDRESS", "[::1]:9000" },
		{ "HCLOUD_LOAD_BALANCERS_ENABLED", "0" },
		{ "HCLOUD_LOAD_BALANCERS_ADOPTION", "labelled" },
		{ "HCLOUD_LOAD_BALANCERS_LOCATION", "hel1" },
		{ "HCLOUD_LOAD_BALANCERS_ALGORITHM_TYPE", " Round_Robin" },
		{ "HCLOUD_LOAD_BALANCERS_DISABLE_PUBLIC_NETWORK", "false" },
		{ "HCLOUD_LOAD_BALANCERS_USES_PROXYPROTOCOL", "1" },
		{ "HCLOUD_LOAD_BALANCERS_PRIVATE_SUBNET_IP_RANGE", "10.0.0.0/24" },
		{ "HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_INTERVAL", "30s" },
		{ "HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_TIMEOUT", "" },
		{ "HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_RETRIES", "5" },
		{ "ROBOT_CACHE_TIMEOUT", "1m" },
		{ "ROBOT_RATE_LIMIT_WAIT_TIME", "5m" },
		{ "HCLOUD_RATE_LIMIT_RESERVE", "0" },
	};
	CLEANUP(hz_config_freep) struct hz_config *c = NULL;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(values); i++)
		setenv(values[i][0], values[i][1], 1);
	c = load(&hz_official);
	assert_text(c->endpoint, "http://127.0.0.1:4711/v1");
	assert_text(c->network, "4345735");
	assert_true(c->is_debug && c->has_routes && !c->has_zone_label && c->lb.is_disabled);
	assert_int_equal(c->families, HZ_DUALSTACK);
	assert_int_equal(c->cache_mode, HZ_CACHE_ONE);
	assert_int_equal(c->cache_max_age_ns, 90 * NS_PER_SEC);
	assert_text(c->metrics_host, "::1");
	assert_int_equal(c->metrics_port, 9000);
	assert_int_equal(c->lb.adoption, HZ_ADOPT_LABELLED);
	assert_text(c->lb.location, "hel1");
	assert_text(c->lb.algorithm, " Round_Robin");
	assert_int_equal(c->lb.hides_public, HZ_NO);
	assert_int_equal(c->lb.uses_proxy_protocol, HZ_YES);
	assert_int_equal(c->lb.health_interval_ns, 30 * NS_PER_SEC);
	assert_int_equal(c->lb.health_timeout_ns, 0);
	assert_int_equal(c->lb.health_retries, 5);
	assert_int_equal(c->robot_cache_ns, 60 * NS_PER_SEC);
	assert_int_equal(c->robot_pause_ns, 300 * NS_PER_SEC);
	assert_int_equal(c->reserve_percent, 0);
}

static void
routes_need_a_network(void **state)
{
	CLEANUP(hz_config_freep) struct hz_config *none = NULL, *off = NULL;

	(void)state;
	setenv("HCLOUD_NETWORK_ROUTES_ENABLED", "true", 1);
	none = load(&hz_official);
	assert_false(none->has_routes);
	setenv("HCLOUD_NETWORK", "nw", 1);
	setenv("HCLOUD_NETWORK_ROUTES_ENABLED", "false", 1);
	off = load(&hz_official);
	assert_false(off->has_routes);
}

static void
robot_may_lack_credentials(void **state)
{
	CLEANUP(hz_config_freep) struct hz_config *without = NULL, *with = NULL;

	(void)state;
	setenv("ROBOT_ENABLED", "true", 1);
	without = load(&hz_official);
	assert_true(without->has_robot);
	assert_false(hz_config_has_robot_login(without));
	setenv("ROBOT_USER", "u", 1);
	setenv("ROBOT_PASSWORD", "p", 1);
	with = load(&hz_official);
	assert_true(hz_config_has_robot_login(with));
}

static void
no_listener_where_the_address_is_none(void **state)
{
	CLEANUP(hz_config_freep) struct hz_config *c = NULL;

	(void)state;
	setenv("HCLOUD_METRICS_ADDRESS", "nowhere", 1);
	c = load(&hz_official);
	assert_false(c->has_metrics);
}

static void
a_listener_may_be_a_name(void **state)
{
	CLEANUP(hz_config_freep) struct hz_config *c = NULL;

	(void)state;
	setenv("HCLOUD_METRICS_ADDRESS", "localhost:8233", 1);
	c = load(&hz_official);
	assert_true(c->has_metrics);
	assert_true(str_eq_c(c->metrics_host, "localhost"));
	assert_int_equal(c->metrics_port, 8233);
}

static void
no_listener_where_the_port_is_part_of_the_address(void **state)
{
	CLEANUP(hz_config_freep) struct hz_config *c = NULL;

	(void)state;
	setenv("HCLOUD_METRICS_ADDRESS", "a:b:8233", 1);
	c = load(&hz_official);
	assert_false(c->has_metrics);
}

/* ---- what is wrong (docs/spec/hcloud.md, "Validation") ---- */

static void
a_token_is_required(void **state)
{
	(void)state;
	unsetenv("HCLOUD_TOKEN");
	check_problems(&hz_official, "environment variable \"HCLOUD_TOKEN\" is required");
	setenv("HCLOUD_TOKEN_FILE", "/dev/null", 1);
	check_problems(&hz_official, "environment variable \"HCLOUD_TOKEN\" is required");
	/* an empty variable hides the file */
	setenv("HCLOUD_TOKEN", "", 1);
	setenv("HCLOUD_TOKEN_FILE", "/nowhere", 1);
	check_problems(&hz_official, "environment variable \"HCLOUD_TOKEN\" is required");
}

static void
missing_files_are_reported_together(void **state)
{
	(void)state;
	unsetenv("HCLOUD_TOKEN");
	setenv("HCLOUD_TOKEN_FILE", "/tmp/hetzner-token", 1);
	setenv("ROBOT_USER_FILE", "/tmp/hetzner-user", 1);
	setenv("ROBOT_PASSWORD_FILE", "/tmp/hetzner-password", 1);
	check_problems(
		&hz_official,
		"failed to read HCLOUD_TOKEN_FILE: open /tmp/hetzner-token: no such file or directory\n"
		"failed to read ROBOT_USER_FILE: open /tmp/hetzner-user: no such file or directory\n"
		"failed to read ROBOT_PASSWORD_FILE: open /tmp/hetzner-password: no such file or directory");
}

static void
values_are_read_as_go_does(void **state)
{
	(void)state;
	check_bad(
		"HCLOUD_DEBUG", "foo",
		"failed to parse HCLOUD_DEBUG: strconv.ParseBool: parsing \"foo\": invalid syntax");
	check_bad("HCLOUD_DEBUG", "",
	          "failed to parse HCLOUD_DEBUG: strconv.ParseBool: parsing \"\": invalid syntax");
	check_bad(
		"HCLOUD_DEBUG", "yes",
		"failed to parse HCLOUD_DEBUG: strconv.ParseBool: parsing \"yes\": invalid syntax");
	check_bad("ROBOT_CACHE_TIMEOUT", "biweekly",
	          "failed to parse ROBOT_CACHE_TIMEOUT: time: invalid duration \"biweekly\"");
	check_bad("ROBOT_CACHE_TIMEOUT", "42fortnights",
	          "failed to parse ROBOT_CACHE_TIMEOUT: time: unknown unit \"fortnights\" in "
	          "duration \"42fortnights\"");
	check_bad("ROBOT_CACHE_TIMEOUT", "10",
	          "failed to parse ROBOT_CACHE_TIMEOUT: time: missing unit in duration \"10\"");
	check_bad("HCLOUD_SERVER_CACHE_MAX_AGE", "",
	          "invalid value for \"HCLOUD_SERVER_CACHE_MAX_AGE\": time: invalid duration \"\"");
	check_bad("HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_RETRIES", "x",
	          "failed to parse HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_RETRIES: strconv.Atoi: "
	          "parsing \"x\": invalid syntax");
	check_bad("HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_RETRIES", "99999999999999999999",
	          "failed to parse HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_RETRIES: strconv.Atoi: "
	          "parsing \"99999999999999999999\": value out of range");
}

static void
values_must_make_sense(void **state)
{
	(void)state;
	check_bad("HCLOUD_INSTANCES_ADDRESS_FAMILY", "IPv4",
	          "invalid value for \"HCLOUD_INSTANCES_ADDRESS_FAMILY\", expect one of: "
	          "ipv4,ipv6,dualstack");
	check_bad("HCLOUD_SERVER_CACHE_MODE", "",
	          "invalid value for \"HCLOUD_SERVER_CACHE_MODE\", expect one of: all,one,off");
	check_bad("HCLOUD_LOAD_BALANCERS_ADOPTION", "none",
	          "invalid value for \"HCLOUD_LOAD_BALANCERS_ADOPTION\", expect one of: "
	          "by-name,labelled,never");
	check_bad("HCLOUD_LOAD_BALANCERS_ADOPTION", "",
	          "invalid value for \"HCLOUD_LOAD_BALANCERS_ADOPTION\", expect one of: "
	          "by-name,labelled,never");
	check_bad("HCLOUD_LOAD_BALANCERS_PRIVATE_SUBNET_IP_RANGE", "10.0.0.0/33",
	          "invalid value for \"HCLOUD_LOAD_BALANCERS_PRIVATE_SUBNET_IP_RANGE\": must be a "
	          "valid CIDR: invalid CIDR address: 10.0.0.0/33");
	check_bad("HCLOUD_LOAD_BALANCERS_ALGORITHM_TYPE", "Invalid",
	          "invalid value for \"HCLOUD_LOAD_BALANCERS_ALGORITHM_TYPE\": unsupported value "
	          "\"invalid\"");
	check_bad(
		"HCLOUD_RATE_LIMIT_RESERVE", "51",
		"invalid value for \"HCLOUD_RATE_LIMIT_RESERVE\", expect a percentage from 0 to 50");
}

/* The variable is for this cloud, the flag for any. */
static void
the_reserve_is_the_flags_unless_the_variable_is_set(void **state)
{
	CLEANUP(hz_config_freep) struct hz_config *flag = NULL, *variable = NULL;
	struct error err;

	(void)state;
	assert_true(hz_config_load(&hz_official, 12, &flag, &err));
	assert_int_equal(flag->reserve_percent, 12);
	setenv("HCLOUD_RATE_LIMIT_RESERVE", "3", 1);
	assert_true(hz_config_load(&hz_official, 12, &variable, &err));
	assert_int_equal(variable->reserve_percent, 3);
}

static void
values_that_exclude_each_other(void **state)
{
	(void)state;
	setenv("HCLOUD_LOAD_BALANCERS_LOCATION", "hel1", 1);
	check_bad("HCLOUD_LOAD_BALANCERS_NETWORK_ZONE", "eu-central",
	          "invalid value for \"HCLOUD_LOAD_BALANCERS_LOCATION\"/"
	          "\"HCLOUD_LOAD_BALANCERS_NETWORK_ZONE\", only one of them can be set");
	setenv("ROBOT_ENABLED", "true", 1);
	check_bad("ROBOT_USER", "u",
	          "both \"ROBOT_USER\" and \"ROBOT_PASSWORD\" must be provided, or neither");
	check_bad("ROBOT_PASSWORD", "p",
	          "both \"ROBOT_USER\" and \"ROBOT_PASSWORD\" must be provided, or neither");
	check_bad(
		"HCLOUD_NETWORK", "nw",
		"using Routes with Robot is not supported: set HCLOUD_NETWORK_ROUTES_ENABLED=false or ROBOT_ENABLED=false");
}

static void
first_what_cannot_be_read_then_the_rest(void **state)
{
	(void)state;
	unsetenv("HCLOUD_TOKEN");
	setenv("HCLOUD_INSTANCES_ADDRESS_FAMILY", "ipv5", 1);
	check_problems(&hz_official, "environment variable \"HCLOUD_TOKEN\" is required\n"
	                             "invalid value for \"HCLOUD_INSTANCES_ADDRESS_FAMILY\", "
	                             "expect one of: ipv4,ipv6,dualstack");
	setenv("HCLOUD_DEBUG", "x", 1);
	setenv("ROBOT_ENABLED", "y", 1);
	check_problems(&hz_official,
	               "failed to parse HCLOUD_DEBUG: strconv.ParseBool: parsing \"x\": invalid "
	               "syntax\n"
	               "failed to parse ROBOT_ENABLED: strconv.ParseBool: parsing \"y\": invalid "
	               "syntax");
}

/* ---- files ---- */

static void
a_file_is_read_again(void **state)
{
	char path[] = "/tmp/ccmd-hcloud-XXXXXX";
	CLEANUP(hz_config_freep) struct hz_config *c = NULL;
	struct error err;

	(void)state;
	close(mkstemp(path));
	assert_true(file_replace(path, STR("  first\n"), 0600, &err));
	unsetenv("HCLOUD_TOKEN");
	setenv("HCLOUD_TOKEN_FILE", path, 1);
	c = load(&hz_official);
	assert_text(secret_expose(&c->token.value), "first");
	assert_string_equal(c->token.path, path);
	assert_null(c->robot_user.path);
	assert_false(login_secret_refresh(&c->token));
	assert_true(file_replace(path, STR("second\n"), 0600, &err));
	assert_true(login_secret_refresh(&c->token));
	assert_text(secret_expose(&c->token.value), "second");
	/* while it is replaced, the last one serves */
	assert_true(file_replace(path, STR(""), 0600, &err));
	assert_false(login_secret_refresh(&c->token));
	unlink(path);
	assert_false(login_secret_refresh(&c->token));
	assert_text(secret_expose(&c->token.value), "second");
}

/* ---- the tutorial ---- */

static void
the_tutorial_has_few_variables(void **state)
{
	CLEANUP(hz_config_freep) struct hz_config *c = NULL;

	(void)state;
	check_problems(&hz_tutorial,
	               "environment variable \"HCLOUD_NETWORK\" must be the ID of a network");
	setenv("HCLOUD_NETWORK", "nw", 1);
	check_problems(&hz_tutorial,
	               "environment variable \"HCLOUD_NETWORK\" must be the ID of a network");
	setenv("HCLOUD_NETWORK", "4711", 1);
	setenv("HCLOUD_DEBUG", "please", 1);
	setenv("ROBOT_ENABLED", "nonsense", 1);
	c = load(&hz_tutorial);
	assert_true(c->is_debug && c->has_routes && c->skips_attached_check);
	assert_false(c->has_robot || c->has_metrics);
	assert_int_equal(c->families, HZ_DUALSTACK);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_token_is_enough, clean),
		cmocka_unit_test_setup(reads_everything, clean),
		cmocka_unit_test_setup(routes_need_a_network, clean),
		cmocka_unit_test_setup(robot_may_lack_credentials, clean),
		cmocka_unit_test_setup(no_listener_where_the_address_is_none, clean),
		cmocka_unit_test_setup(a_listener_may_be_a_name, clean),
		cmocka_unit_test_setup(no_listener_where_the_port_is_part_of_the_address, clean),
		cmocka_unit_test_setup(a_token_is_required, clean),
		cmocka_unit_test_setup(missing_files_are_reported_together, clean),
		cmocka_unit_test_setup(values_are_read_as_go_does, clean),
		cmocka_unit_test_setup(values_must_make_sense, clean),
		cmocka_unit_test_setup(the_reserve_is_the_flags_unless_the_variable_is_set, clean),
		cmocka_unit_test_setup(values_that_exclude_each_other, clean),
		cmocka_unit_test_setup(first_what_cannot_be_read_then_the_rest, clean),
		cmocka_unit_test_setup(a_file_is_read_again, clean),
		cmocka_unit_test_setup(the_tutorial_has_few_variables, clean),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
