/* base/metrics.h: counters, gauges and histograms in the Prometheus text format.
 *
 * A family is defined once, as a static table of names, help and label names; its series are found by the
 * values of the labels. Label values come from fixed sets, never from object names: LIMIT_METRIC_SERIES
 * bounds what a family can hold, further series are counted in one named "other".
 *
 * Counting takes one short lock a family; look a series up once and keep the pointer where it is hot.
 * Threads: every function may be called from any thread. Series live as long as the process.
 */
#ifndef CCMD_BASE_METRICS_H
#define CCMD_BASE_METRICS_H

#include "base/buf.h"

enum metric_type {
	METRIC_COUNTER,
	METRIC_GAUGE,
	METRIC_HISTOGRAM,
};

struct metric_family;
struct metric; /* one series */

/** Defines a family; call once at start. buckets: upper bounds, ascending, without +Inf, for histograms;
 * n_labels <= 4. All pointers must live for ever. */
struct metric_family *metric_family_new(enum metric_type type, const char *name, const char *help,
                                        const char *const *labels, size_t n_labels,
                                        const double *buckets, size_t n_buckets);

/** The series with these label values (as many as the family has labels), made when new. */
struct metric *metric_of(struct metric_family *family, ...);

void metric_inc(struct metric *m);
void metric_add(struct metric *m, double v);
void metric_set(struct metric *m, double v);
/** For histograms. */
void metric_observe(struct metric *m, double v);
double metric_value(struct metric *m); /* counter, gauge; a histogram's count */

/** Appends all families, in order of definition, in the text format 0.0.4. */
void metrics_write(struct buf *b);

#endif
