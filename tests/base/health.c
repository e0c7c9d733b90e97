#include "base/health.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/metrics.h"

static bool is_well, is_ready;

static bool
leads(void *arg, struct buf *reason)
{
	(void)arg;
	if (!is_well)
		buf_add_c(reason, "the lease is stale");
	return is_well;
}

static bool
synced(void *arg, struct buf *reason)
{
	(void)arg;
	if (!is_ready)
		buf_add_c(reason, "nodes are not known yet");
	return is_ready;
}

static int
set_up(void **state)
{
	struct health *h = health_new();

	health_add(h, "leaderElection", HEALTH_HEALTHZ | HEALTH_LIVEZ, leads, NULL);
	health_add(h, "cloud-node", HEALTH_HEALTHZ, NULL, NULL);
	health_add(h, "caches", HEALTH_READYZ, synced, NULL);
	is_well = is_ready = true;
	metrics_reset(METRICS_SLIS);
	*state = h;
	return 0;
}

static int
tear_down(void **state)
{
	health_free(*state);
	return 0;
}

static void
check_excluding(struct health *h, enum health_kind kind, bool is_verbose, const struct str *exclude,
                size_t n_exclude, bool passes, const char *expected)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(4));

	assert_int_equal(health_run(h, kind, exclude, n_exclude, is_verbose, &text), passes);
	assert_string_equal(text.ptr, expected);
}

static void
check(struct health *h, enum health_kind kind, bool is_verbose, bool passes, const char *expected)
{
	check_excluding(h, kind, is_verbose, NULL, 0, passes, expected);
}

static void
well_is_ok(void **state)
{
	check(*state, HEALTH_HEALTHZ, false, true, "ok");
	check(*state, HEALTH_LIVEZ, false, true, "ok");
	check(*state, HEALTH_READYZ, false, true, "ok");
}

static void
verbose_names_the_checks_of_the_kind_in_order(void **state)
{
	check(*state, HEALTH_HEALTHZ, true, true,
	      "[+]leaderElection ok\n[+]cloud-node ok\nhealthz check passed\n");
	check(*state, HEALTH_LIVEZ, true, true, "[+]leaderElection ok\nlivez check passed\n");
	check(*state, HEALTH_READYZ, true, true, "[+]caches ok\nreadyz check passed\n");
}

static void
a_failure_is_verbose_and_withholds_the_reason(void **state)
{
	is_well = false;
	check(*state, HEALTH_HEALTHZ, false, false,
	      "[-]leaderElection failed: reason withheld\n[+]cloud-node ok\nhealthz check failed\n");
	check(*state, HEALTH_READYZ, false, true, "ok");
}

static void
what_is_excluded_does_not_run(void **state)
{
	const struct str exclude[] = { STR("leaderElection"), STR("no \"such\""), STR("caches") };

	is_well = false;
	check_excluding(*state, HEALTH_HEALTHZ, false, exclude, 1, true, "ok");
	check_excluding(*state, HEALTH_HEALTHZ, true, exclude, 3, true,
	                "[+]leaderElection excluded: ok\n[+]cloud-node ok\n"
	                "warn: some health checks cannot be excluded: no matches for "
	                "\"no \\\"such\\\"\", \"caches\"\nhealthz check passed\n");
}

static void
without_checks_there_is_a_ping(void **state)
{
	struct health *h = health_new();

	(void)state;
	check(h, HEALTH_READYZ, true, true, "[+]ping ok\nreadyz check passed\n");
	health_free(h);
}

static void
one_check_reports_why_it_fails(void **state)
{
	CLEANUP(buf_fini) struct buf reason = BUF_INIT(KIB(4));

	assert_int_equal(health_run_one(*state, HEALTH_LIVEZ, STR("leaderElection"), &reason),
	                 HEALTH_WELL);
	assert_int_equal(health_run_one(*state, HEALTH_LIVEZ, STR("cloud-node"), &reason),
	                 HEALTH_UNKNOWN);
	is_well = false;
	assert_int_equal(health_run_one(*state, HEALTH_LIVEZ, STR("leaderElection"), &reason),
	                 HEALTH_FAILED);
	assert_string_equal(reason.ptr, "the lease is stale");
}

static void
counts_each_run_until_reset(void **state)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(4)), slis = BUF_INIT(KIB(4));

	health_run(*state, HEALTH_READYZ, NULL, 0, false, &text);
	is_ready = false;
	health_run(*state, HEALTH_READYZ, NULL, 0, false, &text);
	metrics_write_page(&slis, METRICS_SLIS, METRICS_TEXT);
	assert_non_null(strstr(slis.ptr,
	                       "\nkubernetes_healthcheck{name=\"caches\",type=\"readyz\"} 0\n"));
	assert_non_null(strstr(slis.ptr,
	                       "{name=\"caches\",status=\"success\",type=\"readyz\"} 1\n"));
	assert_non_null(strstr(slis.ptr, "{name=\"caches\",status=\"error\",type=\"readyz\"} 1\n"));
	metrics_reset(METRICS_SLIS);
	buf_reset(&slis);
	metrics_write_page(&slis, METRICS_SLIS, METRICS_TEXT);
	assert_string_equal(slis.ptr, "");
}

/* Probes come every few seconds; the log is for what changed. */
static void
a_failure_is_logged_once_with_its_reason(void **state)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(4));
	char logged[1024] = "";
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	log_set_fd(ends[1]);
	is_well = false;
	for (int i = 0; i < 3; i++)
		health_run(*state, HEALTH_LIVEZ, NULL, 0, false, &text);
	is_well = true;
	health_run(*state, HEALTH_LIVEZ, NULL, 0, false, &text);
	log_set_fd(STDERR_FILENO);
	assert_true(read(ends[0], logged, sizeof(logged) - 1) > 0);
	assert_non_null(strstr(logged, "check=leaderElection reason=\"the lease is stale\"\n"));
	assert_null(strstr(strstr(logged, "failed") + 1, "failed"));
	assert_non_null(strstr(logged, "passes again check=leaderElection\n"));
	close(ends[0]);
	close(ends[1]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(well_is_ok, set_up, tear_down),
		cmocka_unit_test_setup_teardown(verbose_names_the_checks_of_the_kind_in_order,
		                                set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_failure_is_verbose_and_withholds_the_reason,
		                                set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_excluded_does_not_run, set_up, tear_down),
		cmocka_unit_test(without_checks_there_is_a_ping),
		cmocka_unit_test_setup_teardown(one_check_reports_why_it_fails, set_up, tear_down),
		cmocka_unit_test_setup_teardown(counts_each_run_until_reset, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_failure_is_logged_once_with_its_reason, set_up,
		                                tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
