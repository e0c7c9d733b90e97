#include "kube/credentials.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/limits.h"
#include "base/log.h"
#include "fake_clock.h"

#define WALL_NS (INT64_C(1767322800) * NS_PER_SEC)

static char token_path[] = "/tmp/ccmd-token-XXXXXX";
static struct fake_clock *time_now;
static struct kube_config config;
static struct credentials *credentials;

static void
write_token(const char *text)
{
	FILE *file = fopen(token_path, "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static int
set_up(void **state)
{
	int fd;

	(void)state;
	memcpy(token_path + sizeof(token_path) - 7, "XXXXXX", 6);
	fd = mkstemp(token_path);
	if (fd < 0)
		return -1;
	close(fd);
	time_now = fake_clock_new(WALL_NS);
	config = (struct kube_config){
		.server = STR("https://api:6443"),
		.token_file = STR_EMPTY,
		.username = STR_EMPTY,
		.cert_pem = STR_EMPTY,
	};
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	credentials_free(credentials);
	credentials = NULL;
	secret_fini(&config.token);
	secret_fini(&config.password);
	fake_clock_free(time_now);
	return unlink(token_path);
}

static void
start(void)
{
	struct error err = { .msg = "" };

	if (!credentials_new(&config, fake_clock_clock(time_now), &credentials, &err))
		fail_msg("%s", err.msg);
}

static void
start_with_file(const char *text)
{
	write_token(text);
	config.token_file = str_c(token_path);
	start();
}

static enum err_code
start_fails(void)
{
	struct error err;

	assert_false(credentials_new(&config, fake_clock_clock(time_now), &credentials, &err));
	assert_null(credentials);
	return err.code;
}

/* Checks the header and returns its generation. */
static uint64_t
check_header(const char *expected)
{
	CLEANUP(buf_fini) struct buf header = BUF_INIT(KIB(4));
	struct http_auth *auth = credentials_auth(credentials);
	struct call call = { .clock = fake_clock_clock(time_now),
		             .deadline_mono_ns = CLOCK_FOREVER };
	uint64_t generation = 0;
	struct error err;

	assert_true(auth->authorize(auth, &call, &header, &generation, &err));
	assert_string_equal(header.ptr, expected);
	return generation;
}

static bool
rejected(uint64_t generation)
{
	struct http_auth *auth = credentials_auth(credentials);

	return auth->rejected(auth, generation);
}

/* ---- fixed credentials ---- */

static void
a_fixed_token_stays(void **state)
{
	(void)state;
	secret_set(&config.token, STR("fixed"));
	start();
	check_header("Bearer fixed");
	assert_false(rejected(check_header("Bearer fixed")));
}

static void
basic_is_base64(void **state)
{
	static const char *const cases[][3] = {
		{ "Aladdin", "open sesame", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==" },
		{ "a", "b", "Basic YTpi" },
		{ "ab", "c", "Basic YWI6Yw==" },
		{ "a", "\xc3\xbf\xc3\xbf", "Basic YTrDv8O/" },
		{ "me", "", "Basic bWU6" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		config.username = str_c(cases[i][0]);
		secret_set(&config.password, str_c(cases[i][1]));
		start();
		check_header(cases[i][2]);
		credentials_free(TAKE(credentials));
	}
}

static void
without_credentials_there_is_no_header(void **state)
{
	(void)state;
	start();
	check_header("");
	assert_false(rejected(1));
}

static void
nothing_is_sent_over_plain_http(void **state)
{
	(void)state;
	config.server = STR("http://api:8080");
	config.token_file = STR("/nowhere");
	config.username = STR("me");
	secret_set(&config.token, STR("fixed"));
	start();
	check_header("");
	assert_false(rejected(1));
}

static void
a_token_cannot_end_the_header(void **state)
{
	(void)state;
	secret_set(&config.token, STR("a\r\nX-Other: b"));
	assert_int_equal(start_fails(), ERR_INVALID);
}

/* ---- the token file ---- */

static void
the_first_read_must_succeed(void **state)
{
	(void)state;
	config.token_file = STR("/nowhere/token");
	assert_int_equal(start_fails(), ERR_NOT_FOUND);
	config.token_file = str_c(token_path);
	write_token(" \n");
	assert_int_equal(start_fails(), ERR_INVALID);
	write_token("a b");
	assert_int_equal(start_fails(), ERR_INVALID);
}

static void
the_file_is_read_again_after_50_s(void **state)
{
	uint64_t first;

	(void)state;
	start_with_file(" one\n");
	first = check_header("Bearer one");
	write_token("two\n");
	fake_clock_advance(time_now, 49 * NS_PER_SEC);
	assert_int_equal(check_header("Bearer one"), first);
	fake_clock_advance(time_now, NS_PER_SEC);
	assert_true(check_header("Bearer two") > first);
	write_token("three\n");
	fake_clock_advance(time_now, 49 * NS_PER_SEC);
	check_header("Bearer two");
}

static void
an_unchanged_token_keeps_its_generation(void **state)
{
	uint64_t first;

	(void)state;
	start_with_file("one");
	first = check_header("Bearer one");
	fake_clock_advance(time_now, 60 * NS_PER_SEC);
	assert_int_equal(check_header("Bearer one"), first);
}

static void
a_failed_read_keeps_the_last_token(void **state)
{
	(void)state;
	start_with_file("one");
	write_token("");
	fake_clock_advance(time_now, 50 * NS_PER_SEC);
	check_header("Bearer one");
	write_token("two");
	check_header("Bearer one");
	fake_clock_advance(time_now, 5 * NS_PER_SEC);
	check_header("Bearer two");
}

static void
a_rejected_token_is_read_again_immediately(void **state)
{
	uint64_t first;

	(void)state;
	start_with_file("one");
	first = check_header("Bearer one");
	assert_false(rejected(first));
	write_token("two");
	assert_true(rejected(first));
	check_header("Bearer two");
}

static void
a_token_that_was_replaced_meanwhile_counts_as_newer(void **state)
{
	uint64_t first, second;

	(void)state;
	start_with_file("one");
	first = check_header("Bearer one");
	write_token("two");
	assert_true(rejected(first));
	second = check_header("Bearer two");
	assert_true(rejected(first));
	assert_false(rejected(second));
}

static void
a_token_is_not_logged(void **state)
{
	int pipe_fds[2];
	char text[4096];
	ssize_t n;

	(void)state;
	assert_int_equal(pipe(pipe_fds), 0);
	log_set_fd(pipe_fds[1]);
	start_with_file("one");
	write_token("se cret");
	fake_clock_advance(time_now, 50 * NS_PER_SEC);
	check_header("Bearer one");
	fake_clock_advance(time_now, 5 * NS_PER_SEC);
	check_header("Bearer one");
	log_set_fd(2);
	n = read(pipe_fds[0], text, sizeof(text) - 1);
	assert_true(n > 0);
	text[n] = '\0';
	assert_non_null(strstr(text, "keeping the last one"));
	assert_ptr_equal(strchr(text, '\n'), text + n - 1); /* once a minute */
	assert_null(strstr(text, "cret"));
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}

/* ---- another configuration ---- */

static void
adopt(const struct kube_config *other)
{
	CLEANUP(credentials_freep) struct credentials *fresh = NULL;
	struct error err;

	assert_true(credentials_new(other, fake_clock_clock(time_now), &fresh, &err));
	credentials_adopt(credentials, fresh);
}

static void
adopt_token(const char *token)
{
	struct kube_config other = config;

	other.token_file = STR_EMPTY;
	other.token = SECRET_NONE;
	secret_set(&other.token, str_c(token));
	adopt(&other);
	secret_fini(&other.token);
}

static void
another_configuration_is_another_generation(void **state)
{
	uint64_t first, second;

	(void)state;
	start_with_file("one");
	first = check_header("Bearer one");
	adopt_token("two");
	second = check_header("Bearer two");
	assert_true(second > first);
	adopt_token("two");
	assert_true(check_header("Bearer two") == second);
	assert_true(rejected(first));
	assert_false(rejected(second));
}

/* ---- threads ---- */

static void *
ask_often(void *arg)
{
	struct call call = { .clock = fake_clock_clock(time_now),
		             .deadline_mono_ns = CLOCK_FOREVER };
	struct http_auth *auth = credentials_auth(credentials);
	struct buf header;
	struct error err;
	uint64_t generation;

	(void)arg;
	header = BUF_INIT(KIB(4));
	for (int i = 0; i < 200; i++) {
		buf_reset(&header);
		(void)auth->authorize(auth, &call, &header, &generation, &err);
		(void)auth->rejected(auth, generation);
	}
	buf_fini(&header);
	return NULL;
}

static void
many_threads_may_ask_while_the_configuration_changes(void **state)
{
	pthread_t threads[4];

	(void)state;
	start_with_file("one");
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask_often, NULL), 0);
	for (int i = 0; i < 50; i++) { /* the threads read each token from the file as well */
		write_token(i % 2 ? "odd" : "even");
		adopt(&config);
	}
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	check_header("Bearer odd");
}

static void
many_threads_may_ask(void **state)
{
	pthread_t threads[4];

	(void)state;
	start_with_file("one");
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask_often, NULL), 0);
	for (int i = 0; i < 50; i++) {
		write_token(i % 2 ? "odd" : "even");
		fake_clock_advance(time_now, 10 * NS_PER_SEC);
	}
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	fake_clock_advance(time_now, 50 * NS_PER_SEC);
	check_header("Bearer odd");
}

#define WITH_CLOCK(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_CLOCK(a_fixed_token_stays),
		WITH_CLOCK(basic_is_base64),
		WITH_CLOCK(without_credentials_there_is_no_header),
		WITH_CLOCK(nothing_is_sent_over_plain_http),
		WITH_CLOCK(a_token_cannot_end_the_header),
		WITH_CLOCK(the_first_read_must_succeed),
		WITH_CLOCK(the_file_is_read_again_after_50_s),
		WITH_CLOCK(an_unchanged_token_keeps_its_generation),
		WITH_CLOCK(a_failed_read_keeps_the_last_token),
		WITH_CLOCK(a_rejected_token_is_read_again_immediately),
		WITH_CLOCK(a_token_that_was_replaced_meanwhile_counts_as_newer),
		WITH_CLOCK(a_token_is_not_logged),
		WITH_CLOCK(another_configuration_is_another_generation),
		WITH_CLOCK(many_threads_may_ask),
		WITH_CLOCK(many_threads_may_ask_while_the_configuration_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
