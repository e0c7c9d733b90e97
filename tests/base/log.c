#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/thread.h"

#define TIME_LEN (sizeof("2026-01-02T03:04:05.678901Z ") - 1)
#define LINE_MAX_LEN 8192

static int fd;
static char *seen; /* all lines since open_log() */

static int
open_log(void **state)
{
	(void)state;
	fd = memfd_create("log", 0);
	log_set_fd(fd);
	log_setup(LOG_LOGFMT, 0);
	return fcntl(fd, F_SETFL, O_APPEND); /* its position is not shared safely between threads */
}

static int
close_log(void **state)
{
	(void)state;
	log_set_fd(STDERR_FILENO);
	free(seen);
	seen = NULL;
	return close(fd);
}

static char *
lines(void)
{
	off_t len = lseek(fd, 0, SEEK_END);

	free(seen);
	seen = xcalloc((size_t)len + 1, 1);
	assert_int_equal(pread(fd, seen, (size_t)len, 0), len);
	return seen;
}

static void
check_last(const char *expected)
{
	const char *text = lines();
	size_t len = strlen(text);

	assert_int_equal(ftruncate(fd, 0), 0);
	assert_true(len > TIME_LEN);
	assert_int_equal(text[len - 1], '\n');
	assert_null(memchr(text, '\n', len - 1));
	seen[len - 1] = '\0';
	assert_string_equal(seen + TIME_LEN, expected);
}

static void
check_value(struct str value, const char *expected)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(1));

	log_info("m", LOG_STR("k", value));
	buf_addf(&b, "info  m k=%s", expected);
	check_last(b.ptr);
}

static void
lines_have_levels_and_fields(void **state)
{
	struct error err;

	(void)state;
	err_set(&err, ERR_NOT_FOUND, "no such machine");
	log_info("node initialised", LOG_CSTR("node", "worker-1"), LOG_I64("addresses", 2));
	check_last("info  node initialised node=worker-1 addresses=2");
	log_warn("ready");
	check_last("warn  ready");
	log_error("look failed, ignoring", LOG_ERR(&err), LOG_DURATION("after", 90 * NS_PER_SEC));
	check_last("error look failed, ignoring err=\"no such machine\" after=1m30s");
	log_info("m", LOG_I64("min", INT64_MIN), LOG_DURATION("d", INT64_MIN),
	         LOG_I64("max", INT64_MAX));
	check_last(
		"info  m min=-9223372036854775808 d=-2562047h47m16.854775808s max=9223372036854775807");
}

static void
lines_have_the_time(void **state)
{
	int64_t before = clock_wall(&clock_real);
	int64_t wall;

	(void)state;
	log_info("m");
	assert_true(clock_parse_rfc3339(str_n(lines(), TIME_LEN - 1), &wall));
	assert_true(wall >= before - 1000);
	assert_true(wall <= clock_wall(&clock_real));
}

static int n_evaluated;

static int
costly(void)
{
	return ++n_evaluated;
}

static void
debug_is_silent_unless_wanted(void **state)
{
	(void)state;
	n_evaluated = 0;
	assert_false(log_is_debug());
	log_debug("m", LOG_I64("n", costly()));
	log_write(LOG_DEBUG, "m", NULL, 0);
	assert_int_equal(n_evaluated, 0);
	assert_string_equal(lines(), "");
	log_setup(LOG_LOGFMT, 1);
	assert_true(log_is_debug());
	log_debug("m", LOG_I64("n", costly()));
	check_last("debug m n=1");
}

static void
values_cannot_forge_a_line(void **state)
{
	(void)state;
	check_value(STR("plain/1.2:3-x\\y'"), "plain/1.2:3-x\\y'");
	check_value(STR(""), "\"\"");
	check_value((struct str){ NULL, 0 }, "\"\"");
	check_value(STR("two words"), "\"two words\"");
	check_value(STR("a=b"), "\"a=b\"");
	check_value(STR("say \"hi\" \\"), "\"say \\\"hi\\\" \\\\\"");
	check_value(STR("a\nlevel=error"), "\"a\\nlevel=error\"");
	check_value(STR("\t\r\b\f"), "\"\\t\\r\\b\\f\"");
	check_value(STR("\0\x1b[2J\x7f"), "\"\\u0000\\u001b[2J\\u007f\"");
	check_value(STR("\xc2\x80\xc2\x9b\xc2\x9f"), "\"\\u0080\\u009b\\u009f\"");
	check_value(STR("\xc2\xa0"), "\xc2\xa0");
	check_value(STR("\xe2\x80\xa8\xe2\x80\xae"), "\"\\u2028\\u202e\"");
}

static void
what_is_no_utf8_is_replaced(void **state)
{
	(void)state;
	check_value(STR("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
	check_value(STR("a\xffz"), "a\xef\xbf\xbdz");
	check_value(STR("a\xc3"), "a\xef\xbf\xbd");
	check_value(STR("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
	check_value(STR("\xff \xff"), "\"\xef\xbf\xbd \xef\xbf\xbd\"");
	log_info("bad\xff\nmessage");
	check_last("info  bad\xef\xbf\xbd\\nmessage");
}

static void
json_is_one_object_a_line(void **state)
{
	char *text;

	(void)state;
	log_setup(LOG_JSON, 0);
	log_info("say \"hi\"\n", LOG_CSTR("node", "a\tb"), LOG_I64("n", -1),
	         LOG_DURATION("d", NS_PER_MS));
	text = lines();
	assert_memory_equal(text, "{\"ts\":\"2", 8);
	text += sizeof("{\"ts\":\"") - 1 + TIME_LEN - 1;
	assert_string_equal(text, "\",\"level\":\"info\",\"msg\":\"say \\\"hi\\\"\\n\","
	                          "\"node\":\"a\\tb\",\"n\":-1,\"d\":\"1ms\"}\n");
}

/* The line ends right behind the text that starts at its last mark, and no escape is cut. */
static void
check_closed(const char *line, const char *mark, const char *closing)
{
	const char *at = strstr(line, mark);

	assert_non_null(at);
	for (at += strlen(mark); *at && *at != '"'; at++)
		at += *at == '\\';
	assert_string_equal(at, closing);
	assert_true(strlen(line) <= LINE_MAX_LEN);
	assert_true(strlen(line) > LINE_MAX_LEN - 12);
}

static void
check_cut(const char *unit)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(64));

	while (b.len < 2 * LINE_MAX_LEN)
		buf_add_c(&b, unit);
	for (int i = 0; i < 8; i++) { /* the cut falls on each byte of the unit */
		log_setup(i % 2 ? LOG_JSON : LOG_LOGFMT, 0);
		log_info(&"xxxxxxxx"[i / 2], LOG_STR("k", buf_str(&b)), LOG_CSTR("lost", "x"));
		check_closed(lines(), i % 2 ? "\"k\":\"" : "k=\"", i % 2 ? "\"}\n" : "\"\n");
		assert_int_equal(ftruncate(fd, 0), 0);
	}
}

static void
long_lines_are_cut_well_formed(void **state)
{
	(void)state;
	check_cut("= ");
	check_cut("\n");
	check_cut("\"");
	check_cut("\x1b");
	check_cut("=\xe2\x82\xac");
}

static void
long_messages_are_cut(void **state)
{
	char message[2 * LINE_MAX_LEN];

	(void)state;
	memset(message, 'm', sizeof(message) - 1);
	message[sizeof(message) - 1] = '\0';
	log_setup(LOG_JSON, 0);
	log_info(message, LOG_I64("k", 1));
	check_closed(lines(), "\"msg\":\"", "\"}\n");
}

/* The value ends at each of the last bytes, and behind it comes another field. */
static void
fields_that_do_not_fit_are_left_out(void **state)
{
	char value[LINE_MAX_LEN + 1] = "";

	(void)state;
	log_setup(LOG_JSON, 0);
	for (size_t len = LINE_MAX_LEN - 120; len < LINE_MAX_LEN; len++) {
		const char *rest;

		memset(value, 'v', len);
		log_info("m", LOG_CSTR("k", value), LOG_CSTR("last", "x y"), LOG_I64("n", 5));
		rest = strstr(lines(), "\"k\":\"") + 5;
		rest = strchr(rest, '"');
		if (strncmp(rest, "\",\"last\":\"", 10) == 0)
			rest = strchr(rest + 10, '"');
		if (strcmp(rest, "\",\"n\":5}\n") != 0)
			assert_string_equal(rest, "\"}\n");
		assert_true(strlen(seen) <= LINE_MAX_LEN);
		assert_int_equal(ftruncate(fd, 0), 0);
	}
}

static void
each_line_of_a_text_is_logged(void **state)
{
	(void)state;
	log_setup(LOG_LOGFMT, 0);
	log_lines(LOG_WARN, "m", "why", STR("a\n\nb c"));
	log_lines(LOG_WARN, "m", "why", STR_EMPTY);
	lines();
	assert_non_null(strstr(seen, " warn  m why=a\n"));
	assert_non_null(strstr(seen, " warn  m why=\"b c\"\n"));
	assert_int_equal(strlen(seen),
	                 2 * TIME_LEN + strlen("warn  m why=a\nwarn  m why=\"b c\"\n"));
}

static void
errno_survives(void **state)
{
	(void)state;
	log_set_fd(-1);
	errno = ENOENT;
	log_info("m");
	assert_int_equal(errno, ENOENT);
}

static void *
log_much(void *arg)
{
	(void)arg;
	for (int i = 0; i < 200; i++)
		log_info("m", LOG_CSTR("k", "a value with spaces"), LOG_I64("end", 1));
	return NULL;
}

static void
lines_of_threads_do_not_mix(void **state)
{
	pthread_t threads[4];
	int n = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		thread_start(&threads[i], "logger", log_much, NULL);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		thread_join(threads[i]);
	for (struct str rest = str_c(lines()), line; rest.len > 0; n++) {
		assert_true(str_split(&rest, '\n', &line));
		assert_true(str_eq_c(str_skip(line, TIME_LEN),
		                     "info  m k=\"a value with spaces\" end=1"));
	}
	assert_int_equal(n, 800);
}

#define LOG_TEST(name) cmocka_unit_test_setup_teardown(name, open_log, close_log)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		LOG_TEST(lines_have_levels_and_fields),
		LOG_TEST(lines_have_the_time),
		LOG_TEST(debug_is_silent_unless_wanted),
		LOG_TEST(values_cannot_forge_a_line),
		LOG_TEST(what_is_no_utf8_is_replaced),
		LOG_TEST(json_is_one_object_a_line),
		LOG_TEST(long_lines_are_cut_well_formed),
		LOG_TEST(long_messages_are_cut),
		LOG_TEST(fields_that_do_not_fit_are_left_out),
		LOG_TEST(errno_survives),
		LOG_TEST(each_line_of_a_text_is_logged),
		LOG_TEST(lines_of_threads_do_not_mix),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
