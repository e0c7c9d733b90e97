#include "base/recent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/metrics.h"

static void
forgets_after_five_minutes(void **state UNUSED)
{
	struct recent r = { 0 };

	recent_add(&r, 1000 * NS_PER_SEC);
	recent_add(&r, 1009 * NS_PER_SEC);
	recent_add(&r, 1010 * NS_PER_SEC);
	assert_int_equal(recent_sum(&r, 1010 * NS_PER_SEC), 3);
	assert_int_equal(recent_sum(&r, 1299 * NS_PER_SEC), 3);
	assert_int_equal(recent_sum(&r, 1300 * NS_PER_SEC), 1);
	recent_add(&r, 1300 * NS_PER_SEC);
	assert_int_equal(recent_sum(&r, 1309 * NS_PER_SEC), 2);
	assert_int_equal(recent_sum(&r, 1310 * NS_PER_SEC), 1);
	assert_int_equal(recent_sum(&r, 99999 * NS_PER_SEC), 0);
	assert_int_equal(recent_sum(&r, 99998 * NS_PER_SEC), 0);
}

static void
counts_by_server_and_result(void **state UNUSED)
{
	CLEANUP(buf_fini) struct buf page = BUF_INIT(LIMIT_METRICS_TEXT);
	static const int statuses[] = { 200, 399, 400, 0 };

	for (size_t i = 0; i < ARRAY_LEN(statuses); i++)
		recent_count(RECENT_CLOUD, statuses[i]);
	recent_count(RECENT_API_SERVER, 503);
	metrics_write_page(&page, METRICS_MAIN, METRICS_TEXT);
	assert_non_null(strstr(page.ptr, "{result=\"ok\",server=\"cloud\"} 2\n"));
	assert_non_null(strstr(page.ptr, "{result=\"failed\",server=\"cloud\"} 2\n"));
	assert_non_null(strstr(page.ptr, "{result=\"ok\",server=\"api_server\"} 0\n"));
	assert_non_null(strstr(page.ptr, "{result=\"failed\",server=\"api_server\"} 1\n"));
}

static void
remembers_when_the_cloud_accepted_a_request(void **state UNUSED)
{
	int64_t ago_ns = -1;

	assert_false(recent_cloud_ago(&ago_ns));
	recent_note_cloud();
	assert_true(recent_cloud_ago(&ago_ns));
	assert_in_range(ago_ns, 0, 10 * NS_PER_SEC);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forgets_after_five_minutes),
		cmocka_unit_test(counts_by_server_and_result),
		cmocka_unit_test(remembers_when_the_cloud_accepted_a_request),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
