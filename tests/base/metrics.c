#include "base/metrics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"
#include "base/thread.h"

METRIC_FAMILY(static_b, METRIC_COUNTER, "static_b_total", "[ALPHA] B.", .labels = { "kind" });
METRIC_FAMILY(static_a, METRIC_GAUGE, "static_a", "[ALPHA] A.");
METRIC_FAMILY(static_c, METRIC_HISTOGRAM, "static_c_seconds", "[ALPHA] C.",
              .labels = { "verb", "code", "mode" });
METRIC_FAMILY(apart_by_kind, METRIC_COUNTER, "apart_by_kind_total", "[ALPHA] On the other page.",
              .page = METRICS_SLIS, .labels = { "kind" });
METRIC_FAMILY(apart, METRIC_GAUGE, "apart", "[ALPHA] On the other page.", .page = METRICS_SLIS);

static const double durations[] = { 1e-8, 0.005, 1, 10 };
static const double two[] = { 2 };
static const double half_and_two[] = { 0.5, 2 };

METRIC_FAMILY(requests, METRIC_COUNTER, "requests_total", "Requests.",
              .labels = { "code", "method" });
METRIC_FAMILY(depth, METRIC_GAUGE, "depth", "Keys that wait.");
METRIC_FAMILY(duration, METRIC_HISTOGRAM, "duration_seconds", "Time.", .labels = { "verb" },
              METRIC_BUCKETS(durations));
METRIC_FAMILY(without_labels, METRIC_HISTOGRAM, "h", "H.", METRIC_BUCKETS(two));
METRIC_FAMILY(escaped, METRIC_GAUGE, "escaped", "a \"b\" \\ c\nd", .labels = { "text" });
METRIC_FAMILY(number, METRIC_GAUGE, "number", "N.");
METRIC_FAMILY(unseen, METRIC_COUNTER, "unseen_total", "U.", .labels = { "a" });
METRIC_FAMILY(many, METRIC_COUNTER, "many_total", "M.", .labels = { "a", "b" });
METRIC_FAMILY(replaced, METRIC_GAUGE, "replaced", "R.", .labels = { "service" });
METRIC_FAMILY(shared, METRIC_COUNTER, "shared_total", "S.", .labels = { "kind" });
METRIC_FAMILY(om_seconds, METRIC_HISTOGRAM, "om_seconds", "O \"m\".", METRIC_BUCKETS(half_and_two));

static struct buf *
written(void)
{
	static struct buf b = { 0 };

	if (!b.ptr)
		b = BUF_INIT(KIB(256));
	buf_reset(&b);
	metrics_write_page(&b, METRICS_MAIN, METRICS_TEXT);
	return &b;
}

/* What was written of a family, from "# HELP", ends with the text. */
static void
check_ends(const char *name, const char *expected)
{
	struct buf *b = written();
	char head[100];
	const char *begin, *next;

	snprintf(head, sizeof(head), "# HELP %s ", name);
	begin = strstr(b->ptr, head);
	assert_non_null(begin);
	next = strstr(begin + 1, "# HELP ");
	if (!str_ends(str_n(begin, next ? (size_t)(next - begin) : strlen(begin)), str_c(expected)))
		fail_msg("%s", b->ptr);
}

static void
check_has_line(const char *line)
{
	struct buf *b = written();

	if (!str_contains(buf_str(b), str_c(line)))
		fail_msg("no %s in %s", line, b->ptr);
}

static void
writes_counters(void **state)
{
	(void)state;
	metric_inc(metric_of(&requests, "200", "GET"));
	metric_add(metric_of(&requests, "429", "POST"), 2.5);
	metric_inc(metric_of(&requests, "200", "GET"));
	assert_ptr_equal(metric_of(&requests, "200", "GET"), metric_of(&requests, "200", "GET"));
	check_ends("requests_total", "# HELP requests_total Requests.\n"
	                             "# TYPE requests_total counter\n"
	                             "requests_total{code=\"200\",method=\"GET\"} 2\n"
	                             "requests_total{code=\"429\",method=\"POST\"} 2.5\n");
	assert_true(metric_value(metric_of(&requests, "200", "GET")) == 2);
}

static void
writes_gauges(void **state)
{
	(void)state;
	check_ends("depth", "# TYPE depth gauge\ndepth 0\n");
	metric_set(metric_of(&depth), 7);
	metric_add(metric_of(&depth), -9);
	check_ends("depth", "\ndepth -2\n");
}

static void
writes_histograms(void **state)
{
	struct metric *m = metric_of(&duration, "GET");

	(void)state;
	metric_observe(m, 0.25);
	metric_observe(m, 1);
	metric_observe(m, 10.5);
	metric_observe(m, 0);
	assert_true(metric_value(m) == 4);
	check_ends("duration_seconds", "# HELP duration_seconds Time.\n"
	                               "# TYPE duration_seconds histogram\n"
	                               "duration_seconds_bucket{verb=\"GET\",le=\"1e-08\"} 1\n"
	                               "duration_seconds_bucket{verb=\"GET\",le=\"0.005\"} 1\n"
	                               "duration_seconds_bucket{verb=\"GET\",le=\"1\"} 3\n"
	                               "duration_seconds_bucket{verb=\"GET\",le=\"10\"} 3\n"
	                               "duration_seconds_bucket{verb=\"GET\",le=\"+Inf\"} 4\n"
	                               "duration_seconds_sum{verb=\"GET\"} 11.75\n"
	                               "duration_seconds_count{verb=\"GET\"} 4\n");
}

static void
a_histogram_without_labels_has_le_alone(void **state)
{
	(void)state;
	check_ends("h", "h_bucket{le=\"2\"} 0\nh_bucket{le=\"+Inf\"} 0\nh_sum 0\nh_count 0\n");
}

static void
escapes_labels_and_help(void **state)
{
	(void)state;
	metric_set(metric_of(&escaped, "a \"b\" \\ c\nd"), 1);
	check_ends("escaped", "# HELP escaped a \"b\" \\\\ c\\nd\n"
	                      "# TYPE escaped gauge\n"
	                      "escaped{text=\"a \\\"b\\\" \\\\ c\\nd\"} 1\n");
}

static void
check_number(struct metric *m, double v, const char *text)
{
	char line[100];

	snprintf(line, sizeof(line), "\nnumber %s\n", text);
	metric_set(m, v);
	check_has_line(line);
}

static void
writes_numbers_in_full(void **state)
{
	struct metric *m = metric_of(&number);

	(void)state;
	check_number(m, 1e6, "1000000");
	check_number(m, 1785000000, "1785000000");
	check_number(m, -0.0, "0");
	check_number(m, 1e15, "1e+15");
	check_number(m, 0.1, "0.1");
	check_number(m, 0.1 + 0.2, "0.30000000000000004");
	check_number(m, 1785000000.123456, "1785000000.123456");
	check_number(m, 1e-8, "1e-08");
	check_number(m, INFINITY, "+Inf");
	check_number(m, -INFINITY, "-Inf");
	check_number(m, NAN, "NaN");
}

static void
a_family_without_series_is_not_shown(void **state)
{
	(void)state;
	assert_int_equal(unseen.n_series, 0);
	assert_false(str_contains(buf_str(written()), STR("unseen_total")));
}

static void
bounds_the_series(void **state)
{
	char value[20];

	(void)state;
	for (int i = 0; i < LIMIT_METRIC_SERIES + 5; i++) {
		snprintf(value, sizeof(value), "%d", i);
		metric_inc(metric_of(&many, value, "x"));
	}
	metric_inc(metric_of(&many, "3", "x"));
	check_has_line("\nmany_total{a=\"3\",b=\"x\"} 2\n");
	check_has_line("\nmany_total{a=\"199\",b=\"x\"} 1\n");
	check_has_line("\nmany_total{a=\"other\",b=\"other\"} 5\n");
	assert_false(str_contains(buf_str(written()), STR("a=\"200\"")));
}

static void
replaced_series_are_gone(void **state)
{
	const struct metric_row first[] = { { { "a" }, 1 }, { { "b" }, 2 } };
	const struct metric_row second[] = { { { "b" }, 3 } };

	(void)state;
	metrics_replace(&replaced, first, ARRAY_LEN(first));
	check_ends("replaced", "replaced{service=\"a\"} 1\nreplaced{service=\"b\"} 2\n");
	metrics_replace(&replaced, second, ARRAY_LEN(second));
	check_ends("replaced", "# TYPE replaced gauge\nreplaced{service=\"b\"} 3\n");
	metrics_replace(&replaced, NULL, 0);
	assert_null(strstr(written()->ptr, "replaced"));
}

static void *
count(void *arg)
{
	(void)arg;
	for (int i = 0; i < 1000; i++)
		metric_inc(metric_of(&shared, i % 2 ? "odd" : "even"));
	return NULL;
}

static void
threads_count_together(void **state)
{
	pthread_t threads[4];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		thread_start(&threads[i], "count", count, NULL);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
		written();
		thread_join(threads[i]);
	}
	assert_true(metric_value(metric_of(&shared, "odd")) == 2000);
	assert_true(metric_value(metric_of(&shared, "even")) == 2000);
}

static void
families_of_a_file_are_listed_by_name_with_nothing_to_call(void **state)
{
	const struct metric_family *family = metrics_next(NULL);

	(void)state;
	while (family != &static_a) /* others of this layer may come before */
		family = metrics_next(family);
	assert_ptr_equal(metrics_next(family), &static_b);
	check_has_line("# TYPE static_a gauge\nstatic_a 0\n");
	assert_false(str_contains(buf_str(written()), STR("static_b")));
	metric_inc(metric_of(&static_b, "x"));
	check_has_line(
		"static_a 0\n# HELP static_b_total [ALPHA] B.\n# TYPE static_b_total counter\n"
		"static_b_total{kind=\"x\"} 1\n");
}

static void
a_page_is_shown_and_reset_by_itself(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(4));

	(void)state;
	metric_set(metric_of(&apart), 3);
	assert_false(str_contains(buf_str(written()), STR("apart")));
	metrics_write_page(&b, METRICS_SLIS, METRICS_TEXT);
	assert_non_null(strstr(b.ptr, "# HELP apart [ALPHA] On the other page.\n"
	                              "# TYPE apart gauge\napart 3\n"));
	metrics_reset(METRICS_SLIS);
	assert_true(metric_value(metric_of(&apart)) == 0);
	check_has_line("static_b_total{kind=\"x\"} 1\n");
}

/* A thread that looked a series up just before the reset counts in it just after. */
static void
a_series_outlives_a_reset_and_is_shown_when_it_is_counted_again(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(4));
	struct metric *kept = metric_of(&apart_by_kind, "x");

	(void)state;
	metric_add(kept, 5);
	metrics_reset(METRICS_SLIS);
	metrics_write_page(&b, METRICS_SLIS, METRICS_TEXT);
	assert_false(str_contains(buf_str(&b), STR("apart_by_kind")));
	metric_inc(kept);
	assert_ptr_equal(metric_of(&apart_by_kind, "x"), kept);
	buf_reset(&b);
	metrics_write_page(&b, METRICS_SLIS, METRICS_TEXT);
	assert_non_null(strstr(b.ptr, "\napart_by_kind_total{kind=\"x\"} 1\n"));
}

/* As Prometheus' own libraries write them, whatever the order of the definition; "le" is always the
 * last. */
static void
labels_are_written_in_alphabetical_order(void **state)
{
	(void)state;
	metric_observe(metric_of(&static_c, "GET", "200", "fast"), 1);
	check_has_line(
		"static_c_seconds_bucket{code=\"200\",mode=\"fast\",verb=\"GET\",le=\"+Inf\"} 1\n"
		"static_c_seconds_sum{code=\"200\",mode=\"fast\",verb=\"GET\"} 1\n");
}

static void
set_seven(void *arg)
{
	metric_set(metric_of(arg), 7);
}

static void
hooks_compute_values_when_they_are_scraped(void **state)
{
	(void)state;
	metrics_on_scrape(set_seven, &static_a);
	check_has_line("static_a 7\n");
	metrics_off_scrape(set_seven, &static_a);
	metric_set(metric_of(&static_a), 1);
	check_has_line("static_a 1\n");
}

/* A counter's family has no _total there, bounds are written as fractions, and the end is
 * marked. */
static void
speaks_openmetrics(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(256));

	(void)state;
	metrics_write_page(&b, METRICS_MAIN, METRICS_OPENMETRICS);
	assert_non_null(strstr(b.ptr, "# HELP static_b [ALPHA] B.\n# TYPE static_b counter\n"
	                              "static_b_total{kind=\"x\"} 1\n"));
	assert_true(str_contains(buf_str(&b),
	                         STR("# HELP om_seconds O \\\"m\\\".\n# TYPE om_seconds histogram\n"
	                             "om_seconds_bucket{le=\"0.5\"} 0\n"
	                             "om_seconds_bucket{le=\"2.0\"} 0\n"
	                             "om_seconds_bucket{le=\"+Inf\"} 0\n"
	                             "om_seconds_sum 0\nom_seconds_count 0\n# HELP ")));
	assert_true(str_ends(buf_str(&b), STR("\n# EOF\n")));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_counters),
		cmocka_unit_test(writes_gauges),
		cmocka_unit_test(writes_histograms),
		cmocka_unit_test(a_histogram_without_labels_has_le_alone),
		cmocka_unit_test(escapes_labels_and_help),
		cmocka_unit_test(writes_numbers_in_full),
		cmocka_unit_test(a_family_without_series_is_not_shown),
		cmocka_unit_test(bounds_the_series),
		cmocka_unit_test(replaced_series_are_gone),
		cmocka_unit_test(threads_count_together),
		cmocka_unit_test(families_of_a_file_are_listed_by_name_with_nothing_to_call),
		cmocka_unit_test(a_page_is_shown_and_reset_by_itself),
		cmocka_unit_test(a_series_outlives_a_reset_and_is_shown_when_it_is_counted_again),
		cmocka_unit_test(labels_are_written_in_alphabetical_order),
		cmocka_unit_test(hooks_compute_values_when_they_are_scraped),
		cmocka_unit_test(speaks_openmetrics),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
