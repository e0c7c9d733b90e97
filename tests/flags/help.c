/* tests/flags/help.c: --help. */
#include "line.h"

#include <unistd.h>

#include "flags/flags.h"
#include "flags/table.h"

static struct buf text = { .ptr = buf_empty, .max = KIB(64) };

static void
print(unsigned width)
{
	buf_reset(&text);
	help_print(&text, width);
	assert_true(buf_ok(&text));
}

static size_t
longest_line(void)
{
	size_t longest = 0;

	for (struct str line, rest = buf_str(&text); str_split(&rest, '\n', &line);) {
		if (line.len > longest)
			longest = line.len;
	}
	return longest;
}

static void
descriptions_stand_in_a_column(void **state)
{
	(void)state;
	print(0);
	assert_non_null(strstr(
		text.ptr,
		"\nService controller flags:\n\n"
		"      --concurrent-service-syncs int          Number of Services that are worked on at the same time. (default auto)\n"
		"      --load-balancer-drift-period duration   How often"));
	assert_non_null(strstr(
		text.ptr,
		"\n      --logging-format string   text (logfmt) or json. (default \"text\")\n"));
	assert_non_null(strstr(
		text.ptr,
		"\n  -v, --v int                   Verbosity of the log; from 1 on, debug lines are shown.\n"));
	assert_non_null(strstr(text.ptr, "\n  -h, --help                     Print this"));
	assert_non_null(strstr(text.ptr, "No effect: requests are always JSON. (default"));
	assert_non_null(strstr(text.ptr, "\nClouds:\n\n  brightbox"));
}

static void
flags_without_effect_come_last(void **state)
{
	const char *heading;

	(void)state;
	print(0);
	heading = strstr(text.ptr, "\nFlags without effect, ");
	assert_non_null(heading);
	assert_true(strstr(text.ptr, "No effect: ") > heading);
	assert_true(strstr(text.ptr, "--kube-api-content-type ") > heading);
	assert_null(strstr(heading, "--cloud-config "));
}

static void
deprecated_flags_are_left_out(void **state)
{
	(void)state;
	print(0);
	assert_null(strstr(text.ptr, "--allow-untagged-cloud"));
	assert_null(strstr(text.ptr, "Deprecated flags"));
}

static void
a_terminal_gets_wrapped_lines(void **state)
{
	(void)state;
	print(100);
	assert_true(longest_line() <= 100);
	assert_non_null(strstr(
		text.ptr,
		"\n      --bind-address ip                 Address that --secure-port listens on; :: means all\n"
		"                                        addresses of both families. (default 0.0.0.0)\n"));
	print(80);
	assert_true(longest_line() <= 100); /* the name of a feature gate cannot be wrapped */
	assert_non_null(strstr(
		text.ptr,
		"\n      --authorization-webhook-cache-authorized-ttl duration\n                How long a permission is cached. (default 10s)\n"));
	print(0);
	assert_true(longest_line() > 200);
}

static void
what_is_no_terminal_has_no_width(void **state)
{
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(help_width(ends[1]), 0);
	close(ends[0]);
	close(ends[1]);
}

static int
fini(void **state)
{
	buf_fini(&text);
	return line_fini(state);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(descriptions_stand_in_a_column),
		cmocka_unit_test(flags_without_effect_come_last),
		cmocka_unit_test(deprecated_flags_are_left_out),
		cmocka_unit_test(a_terminal_gets_wrapped_lines),
		cmocka_unit_test(what_is_no_terminal_has_no_width),
	};

	return cmocka_run_group_tests(tests, NULL, fini);
}
