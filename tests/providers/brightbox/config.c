/* The environment variables: section "Configuration" of docs/spec/brightbox.md. */
#include "providers/brightbox/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

struct rig {
	struct bb_config config;
	struct cloud_needs needs;
	struct error err;
};

static int
setup(void **state)
{
	static struct rig rig;

	clearenv();
	rig = (struct rig){ 0 };
	*state = &rig;
	return 0;
}

static int
teardown(void **state)
{
	struct rig *rig = *state;

	bb_config_fini(&rig->config);
	clearenv();
	return 0;
}

static bool
load(struct rig *rig)
{
	bb_config_fini(&rig->config);
	rig->config = (struct bb_config){ 0 };
	rig->needs = (struct cloud_needs){ 0 };
	return bb_config_load(&rig->config, &rig->needs, &rig->err);
}

static void
check_loads(struct rig *rig)
{
	if (!load(rig))
		fail_msg("%s", rig->err.msg);
}

static void
check_refused(struct rig *rig, const char *msg)
{
	assert_false(load(rig));
	assert_int_equal(rig->err.code, ERR_INVALID);
	assert_string_equal(rig->err.msg, msg);
}

static void
check_secret(const struct login_secret *secret, const char *text)
{
	assert_true(str_eq_c(secret_expose(&secret->value), text));
}

/* ---- which identity ---- */

#define NO_ACCOUNT                                                                \
	"must specify Account with User Credentials: set BRIGHTBOX_ACCOUNT with " \
	"BRIGHTBOX_USER_NAME and BRIGHTBOX_PASSWORD, or BRIGHTBOX_CLIENT and "    \
	"BRIGHTBOX_CLIENT_SECRET"

static void
without_credentials_nothing_starts(void **state)
{
	check_refused(*state, NO_ACCOUNT);
	setenv("BRIGHTBOX_USER_NAME", "me@example.com", 1);
	check_refused(*state, NO_ACCOUNT);
	setenv("BRIGHTBOX_PASSWORD", "pw", 1);
	check_refused(*state, NO_ACCOUNT);
}

static void
a_user_needs_an_account(void **state)
{
	struct rig *rig = *state;

	setenv("BRIGHTBOX_USER_NAME", "me@example.com", 1);
	setenv("BRIGHTBOX_PASSWORD", "pw", 1);
	setenv("BRIGHTBOX_ACCOUNT", "acc-aaaaa", 1);
	check_loads(rig);
	assert_true(rig->config.has_user);
	check_secret(&rig->config.client, "app-dkmch");
	check_secret(&rig->config.client_secret, "uogoelzgt0nwawb");
	assert_true(str_eq_c(rig->config.account, "acc-aaaaa"));
}

/* A password alone chooses the grant of a user, too, and the API refuses it then. */
static void
one_of_user_and_password_is_enough_for_the_grant(void **state)
{
	struct rig *rig = *state;

	setenv("BRIGHTBOX_PASSWORD", "pw", 1);
	setenv("BRIGHTBOX_ACCOUNT", "acc-aaaaa", 1);
	check_loads(rig);
	assert_true(rig->config.has_user);
}

static void
the_default_application_needs_a_user(void **state)
{
	setenv("BRIGHTBOX_ACCOUNT", "acc-aaaaa", 1);
	check_refused(*state,
	              "must specify User Credentials with Account: set BRIGHTBOX_USER_NAME and "
	              "BRIGHTBOX_PASSWORD, or BRIGHTBOX_CLIENT and BRIGHTBOX_CLIENT_SECRET");
}

static void
an_api_client_is_no_user(void **state)
{
	struct rig *rig = *state;

	setenv("BRIGHTBOX_CLIENT", "cli-aaaaa", 1);
	setenv("BRIGHTBOX_CLIENT_SECRET", "s", 1);
	check_loads(rig);
	assert_false(rig->config.has_user);
	setenv("BRIGHTBOX_ACCOUNT", "acc-aaaaa", 1);
	check_loads(rig);
	setenv("BRIGHTBOX_PASSWORD", "pw", 1);
	check_refused(rig, "User Credentials not used with API Client");
	unsetenv("BRIGHTBOX_PASSWORD");
	setenv("BRIGHTBOX_USER_NAME", "me", 1);
	check_refused(rig, "User Credentials not used with API Client");
}

/* With one of the two other than the default it is not the default identity any more. */
static void
half_of_the_default_identity_is_an_api_client(void **state)
{
	struct rig *rig = *state;

	setenv("BRIGHTBOX_CLIENT_SECRET", "s", 1);
	setenv("BRIGHTBOX_USER_NAME", "me", 1);
	check_refused(rig, "User Credentials not used with API Client");
}

/* Only a variable that is not set has its default. */
static void
an_empty_variable_is_set(void **state)
{
	struct rig *rig = *state;

	setenv("BRIGHTBOX_CLIENT", "", 1);
	check_loads(rig);
	check_secret(&rig->config.client, "");
	check_secret(&rig->config.client_secret, "uogoelzgt0nwawb");
}

/* ---- the other variables ---- */

static void
the_url_has_a_default_where_it_is_empty(void **state)
{
	struct rig *rig = *state;

	setenv("BRIGHTBOX_CLIENT", "cli-aaaaa", 1);
	check_loads(rig);
	assert_true(str_eq_c(rig->config.api_url, "https://api.gb1.brightbox.com/"));
	setenv("BRIGHTBOX_API_URL", "", 1);
	check_loads(rig);
	assert_true(str_eq_c(rig->config.api_url, "https://api.gb1.brightbox.com/"));
	setenv("BRIGHTBOX_API_URL", "https://api.gb1s.brightbox.com", 1);
	check_loads(rig);
	assert_true(str_eq_c(rig->config.api_url, "https://api.gb1s.brightbox.com"));
}

static void
hosts_of_tests_may_be_read_again(void **state)
{
	struct rig *rig = *state;

	setenv("BRIGHTBOX_CLIENT", "cli-aaaaa", 1);
	setenv("BRIGHTBOX_HOSTS_FILE", "/etc/hosts", 1);
	check_loads(rig);
	assert_int_equal(rig->needs.n_reads, 1);
	assert_true(str_eq_c(rig->needs.reads[0], "/etc/hosts"));
}

/* ---- files ---- */

static void
write_file(char path[], const char *text)
{
	FILE *file = fdopen(mkstemp(path), "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void
credentials_come_from_files_too(void **state)
{
	static const char *const names[] = { "BRIGHTBOX_CLIENT_FILE",
		                             "BRIGHTBOX_CLIENT_SECRET_FILE" };
	char paths[2][32] = { "/tmp/ccmd-bb-XXXXXX", "/tmp/ccmd-bb-XXXXXX" };
	struct rig *rig = *state;

	write_file(paths[0], "cli-aaaaa\n");
	write_file(paths[1], " secret\n");
	for (size_t i = 0; i < 2; i++)
		setenv(names[i], paths[i], 1);
	check_loads(rig);
	check_secret(&rig->config.client, "cli-aaaaa");
	check_secret(&rig->config.client_secret, "secret");
	assert_int_equal(rig->needs.n_reads, 2);
	setenv("BRIGHTBOX_CLIENT", "cli-bbbbb", 1);
	check_loads(rig);
	check_secret(&rig->config.client, "cli-bbbbb");
	for (size_t i = 0; i < 2; i++)
		unlink(paths[i]);
}

static void
a_file_that_cannot_be_read_is_named(void **state)
{
	struct rig *rig = *state;

	setenv("BRIGHTBOX_PASSWORD_FILE", "/nonexistent/password", 1);
	assert_false(load(rig));
	assert_true(str_contains(str_c(rig->err.msg), STR("BRIGHTBOX_PASSWORD_FILE")));
	assert_true(str_contains(str_c(rig->err.msg), STR("/nonexistent/password")));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(without_credentials_nothing_starts),
		TEST(a_user_needs_an_account),
		TEST(one_of_user_and_password_is_enough_for_the_grant),
		TEST(the_default_application_needs_a_user),
		TEST(an_api_client_is_no_user),
		TEST(half_of_the_default_identity_is_an_api_client),
		TEST(an_empty_variable_is_set),
		TEST(the_url_has_a_default_where_it_is_empty),
		TEST(hosts_of_tests_may_be_read_again),
		TEST(credentials_come_from_files_too),
		TEST(a_file_that_cannot_be_read_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
