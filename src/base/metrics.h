/* base/metrics.h: counters, gauges and histograms in the Prometheus text format.
 *
 * METRIC_FAMILY() defines a family as a static table in the file that counts it, without any call
 * at start. The linker gathers all families into one list, from which the reference page is
 * generated as well. A series is identified by the values of its labels. Label values come from
 * fixed sets, not from object names: LIMIT_METRIC_SERIES bounds the series of a family, and
 * further series are counted in one named "other". The exception are gauges for each of a few
 * objects that are replaced as a whole (metrics_replace()), so that series of objects that are gone
 * disappear.
 *
 * Counting takes one lock per family for a short time; hot paths look a series up once and keep the
 * pointer. Values that have to be computed (ages, sizes, counters of the kernel) are set by a hook
 * before each scrape.
 *
 * Threads: every function may be called from any thread. Series live as long as the process, except
 * those of metrics_replace().
 */
#ifndef CCMD_BASE_METRICS_H
#define CCMD_BASE_METRICS_H

#include <pthread.h>

#include "base/buf.h"

enum metric_type {
	METRIC_COUNTER,
	METRIC_GAUGE,
	METRIC_HISTOGRAM,
};

/** Which endpoint shows a family. */
enum metric_page {
	METRICS_MAIN, /* /metrics */
	METRICS_SLIS, /* /metrics/slis */
};

enum metric_format {
	METRICS_TEXT,        /* text/plain; version=0.0.4 */
	METRICS_OPENMETRICS, /* application/openmetrics-text; version=1.0.0 */
};

enum {
	METRIC_MAX_LABELS = 9, /* kubernetes_build_info */
};

struct metric; /* one series */

struct metric_family {
	enum metric_type type;
	enum metric_page page;
	const char *name;
	const char *help; /* begins with the stability level, as in Kubernetes: "[ALPHA] " */
	const char *labels[METRIC_MAX_LABELS + 1]; /* names; NULL at the end */
	const double *buckets; /* of histograms: upper bounds, ascending, without +Inf */
	size_t n_buckets;

	/* private */
	pthread_mutex_t mu;
	unsigned char order[METRIC_MAX_LABELS]; /* set once: labels[order[0]] is written first */
	struct metric **series;                 /* mu */
	size_t n_series;                        /* mu */
	size_t cap_series;                      /* mu */
	struct metric_family *next;             /* set once */
};

/** Defines a family for this file:
 *
 * 	METRIC_FAMILY(dropped_total, METRIC_COUNTER, "ccmd_events_dropped_total",
 * 	              "[ALPHA] Events that were not written.", .labels = { "reason" });
 *
 * Its address is kept in a section of its own, which the linker gathers from all files of the
 * program. */
#define METRIC_FAMILY(id, type_, name_, help_, ...)                         \
	static struct metric_family id = { .type = (type_),                 \
		                           .name = (name_),                 \
		                           .help = (help_),                 \
		                           .mu = PTHREAD_MUTEX_INITIALIZER, \
		                           ##__VA_ARGS__ };                 \
	static struct metric_family *id##_entry                             \
		__attribute__((section("metric_families"), used, aligned(sizeof(void *)))) = &id

/** For .buckets and .n_buckets of METRIC_FAMILY(). */
#define METRIC_BUCKETS(array) .buckets = (array), .n_buckets = ARRAY_LEN(array)

/** Returns the series with these label values (one per label of the family), and creates it when it
 * does not exist. */
struct metric *metric_of(struct metric_family *family, ...);

void metric_inc(struct metric *m);
void metric_add(struct metric *m, double v);
void metric_set(struct metric *m, double v);
/** For histograms. */
void metric_observe(struct metric *m, double v);
double metric_value(struct metric *m); /* counter, gauge; a histogram's count */

/** A series of metrics_replace(). */
struct metric_row {
	const char *labels[METRIC_MAX_LABELS]; /* one per label of the family */
	double value;
};

/** Replaces all series of a family of gauges in one step. Of such a family no series is looked up
 * with metric_of(). n <= LIMIT_METRIC_SERIES. */
void metrics_replace(struct metric_family *family, const struct metric_row rows[], size_t n);

/** Calls fn(arg) before the families are written, each time, on the writing thread. The hook may
 * count, and may take locks that are not held by callers of the two functions below. */
void metrics_on_scrape(void (*fn)(void *arg), void *arg);
/** When this returns, the hook is not running and will not run. */
void metrics_off_scrape(void (*fn)(void *arg), void *arg);

/** Appends all families of a page that have a series, by name. Labels are written in
 * alphabetical order. */
void metrics_write_page(struct buf *b, enum metric_page page, enum metric_format format);
/** Sets all series of a page to zero, for DELETE /metrics/slis. A series with labels is hidden
 * until it changes again. */
void metrics_reset(enum metric_page page);

/** Iterates over all families in the order of the output. NULL gives the first family; the last one
 * is followed by NULL. */
const struct metric_family *metrics_next(const struct metric_family *);

/** Adds the process_* metrics to every scrape (base/metrics_process.c). The main thread calls it
 * once, before the sandbox is entered: it opens the files of /proc that each scrape reads. A metric
 * whose file cannot be opened is shown as 0. */
void metrics_process_setup(void);

#endif
