/* The provider's names and its start: sections "Configuration" and "Authentication" of
 * docs/spec/brightbox.md. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/log.h"
#include "cloud/fake_host.h"
#include "cloud/http_script.h"

#define LOGIN                                                                              \
	"POST /token/ grant_type=password&password=p&scope=infrastructure+orbit&username=" \
	"me%40example.com\n"

extern const struct cloud_ops brightbox_cloud;

struct world {
	struct http_script script;
	struct fake_host fake;
	struct cloud *cloud;
	struct error err;
};

static int
setup(void **state)
{
	static const char *const names[] = { "BRIGHTBOX_CLIENT", "BRIGHTBOX_CLIENT_SECRET",
		                             "BRIGHTBOX_USER_NAME", "BRIGHTBOX_PASSWORD",
		                             "BRIGHTBOX_ACCOUNT" };
	struct world *w = *state = xcalloc(1, sizeof(*w));

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		unsetenv(names[i]);
	log_set_fd(-1);
	http_script_init(&w->script);
	fake_host_init(&w->fake);
	w->fake.host.http = &w->script.client;
	return 0;
}

static int
teardown(void **state)
{
	struct world *w = *state;

	brightbox_cloud.close(w->cloud);
	fake_host_fini(&w->fake);
	http_script_fini(&w->script);
	free(w);
	return 0;
}

static void
set_client(void)
{
	setenv("BRIGHTBOX_CLIENT", "cli-aaaaa", 1);
	setenv("BRIGHTBOX_CLIENT_SECRET", "s", 1);
}

static void
set_user(void)
{
	setenv("BRIGHTBOX_USER_NAME", "me@example.com", 1);
	setenv("BRIGHTBOX_PASSWORD", "p", 1);
	setenv("BRIGHTBOX_ACCOUNT", "acc-aaaaa", 1);
}

static bool
start(struct world *w)
{
	struct cloud_config config = { .path = NULL };

	if (!brightbox_cloud.load(&config, &w->cloud, &w->err))
		fail_msg("%s", w->err.msg);
	w->cloud->host = &w->fake.host;
	return brightbox_cloud.start(w->cloud, &w->fake.host, &w->err);
}

static void
it_offers_load_balancers_and_no_routes(void **state)
{
	struct world *w = *state;

	set_client();
	setenv("BRIGHTBOX_ACCOUNT", "acc-aaaaa", 1);
	assert_true(start(w));
	assert_string_equal(brightbox_cloud.name, "brightbox");
	assert_string_equal(brightbox_cloud.provider_id_prefix, "brightbox://");
	assert_true(brightbox_cloud.names_are_ids);
	assert_non_null(w->cloud->balancers);
	assert_null(w->cloud->routes);
}

static void
an_api_client_with_an_account_makes_no_request_at_the_start(void **state)
{
	struct world *w = *state;

	set_client();
	setenv("BRIGHTBOX_ACCOUNT", "acc-aaaaa", 1);
	assert_true(start(w));
	http_script_check_asked(&w->script, "");
}

static void
an_api_client_without_an_account_has_to_see_one(void **state)
{
	struct world *w = *state;

	set_client();
	http_script_answer(&w->script, "/accounts", 200, "[{\"id\":\"acc-aaaaa\"}]");
	assert_true(start(w));
	http_script_check_asked(&w->script, "/accounts\n");
}

static void
it_does_not_start_where_no_account_is_visible(void **state)
{
	struct world *w = *state;

	set_client();
	http_script_answer(&w->script, "/accounts", 200, "[]");
	assert_false(start(w));
	assert_string_equal(w->err.msg, "no accounts visible to these credentials");
}

static void
a_user_logs_in_at_the_start(void **state)
{
	struct world *w = *state;

	set_user();
	http_script_answer(&w->script, "POST /token/", 200,
	                   "{\"access_token\":\"t1\",\"expires_in\":7200}");
	assert_true(start(w));
	http_script_check_asked(&w->script, LOGIN);
}

static void
it_does_not_start_with_a_wrong_password(void **state)
{
	struct world *w = *state;

	set_user();
	http_script_answer(&w->script, "POST /token/", 401, "{\"error\":\"invalid_client\"}");
	assert_false(start(w));
	assert_string_equal(w->err.msg, "oauth2: \"invalid_client\"");
	assert_int_equal(w->err.code, ERR_UNAUTHORIZED);
}

static void
the_file_of_cloud_config_is_not_read(void **state)
{
	struct cloud_config config = { .path = "/nonexistent/cloud.conf" };
	char path[] = "/tmp/ccmd-bb-log-XXXXXX", lines[1000] = "";
	int fd = mkstemp(path);
	struct world *w = *state;

	unlink(path);
	set_client();
	log_set_fd(fd);
	assert_true(brightbox_cloud.load(&config, &w->cloud, &w->err));
	log_set_fd(-1);
	assert_true(pread(fd, lines, sizeof(lines) - 1, 0) > 0);
	close(fd);
	assert_non_null(strstr(lines, "supplied config is not read by this version. Using "
	                              "environment"));
	assert_int_equal(w->cloud->needs.n_reads, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(it_offers_load_balancers_and_no_routes),
		TEST(an_api_client_with_an_account_makes_no_request_at_the_start),
		TEST(an_api_client_without_an_account_has_to_see_one),
		TEST(it_does_not_start_where_no_account_is_visible),
		TEST(a_user_logs_in_at_the_start),
		TEST(it_does_not_start_with_a_wrong_password),
		TEST(the_file_of_cloud_config_is_not_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
