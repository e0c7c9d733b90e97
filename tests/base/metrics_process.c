#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/metrics.h"

static double
value(const char *name)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(64));
	char line[100];
	double number = 0;
	const char *at;

	metrics_write_page(&text, METRICS_MAIN, METRICS_TEXT);
	snprintf(line, sizeof(line), "\n%s ", name);
	at = strstr(text.ptr, line);
	if (!at)
		fail_msg("no %s in %s", name, text.ptr);
	if (sscanf(at + strlen(line), "%lf", &number) != 1)
		fail_msg("no number at %s", name);
	return number;
}

static void
counts_descriptors(void **state)
{
	double before = value("process_open_fds");
	int fd = open("/dev/null", O_RDONLY);

	(void)state;
	assert_true(before >= 4);
	assert_true(value("process_open_fds") == before + 1);
	close(fd);
	assert_true(value("process_open_fds") == before);
	assert_true(value("process_max_fds") > before);
}

static void
measures_memory(void **state)
{
	double before = value("process_resident_memory_bytes");
	char *much = malloc(MIB(32));

	(void)state;
	assert_non_null(much);
	memset(much, 1, MIB(32));
	assert_true(before > 1e5);
	assert_true(value("process_resident_memory_bytes") > before + 30e6);
	assert_true(value("process_virtual_memory_bytes") > value("process_resident_memory_bytes"));
	free(much);
}

static void
knows_when_it_began(void **state)
{
	double now_s = (double)clock_wall(&clock_real) / 1e9,
	       start_s = value("process_start_time_seconds");

	(void)state;
	assert_true(start_s <= now_s + 0.1);
	assert_true(start_s > now_s - 100);
}

static void
cpu_time_only_grows(void **state)
{
	double before = value("process_cpu_seconds_total");

	(void)state;
	assert_true(before > 0);
	assert_true(value("process_cpu_seconds_total") > before);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_descriptors),
		cmocka_unit_test(measures_memory),
		cmocka_unit_test(knows_when_it_began),
		cmocka_unit_test(cpu_time_only_grows),
	};

	metrics_process_setup();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
