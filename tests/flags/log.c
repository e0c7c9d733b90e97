/* tests/flags/log.c: the flags in the log. */
#include "line.h"

#include <unistd.h>

static void
every_flag_is_logged_with_its_value(void **state)
{
	char memory[KIB(32)];
	int ends[2];
	ssize_t n;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	log_set_fd(ends[1]);
	assert_int_equal(PARSE("--controllers=*", "--controllers=-route", "--cluster-name=a \"b\""),
	                 FLAGS_RUN);
	flags_log(&line_options); /* not at verbosity 0 */
	log_setup(LOG_LOGFMT, 1);
	flags_log(&line_options);
	close(ends[1]);
	n = read(ends[0], memory, sizeof(memory) - 1);
	close(ends[0]);
	log_setup(LOG_LOGFMT, 0);
	log_set_fd(2);
	assert_true(n > 0);
	memory[n] = '\0';
	assert_non_null(strstr(memory, "debug FLAG: --cloud-provider=\"cloudlycke\"\n"));
	assert_non_null(strstr(memory, "FLAG: --controllers=\"*,-route\"\n"));
	assert_non_null(strstr(memory, "FLAG: --kube-api-qps=\"auto\"\n"));
	assert_non_null(strstr(memory, "FLAG: --v=\"0\"\n"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_flag_is_logged_with_its_value),
	};

	return cmocka_run_group_tests(tests, NULL, line_fini);
}
