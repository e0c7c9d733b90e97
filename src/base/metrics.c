/* base/metrics.c: all families in one list, each with its series and its lock.
 *
 * A family's series are searched one by one: there are few, and whoever counts often keeps the pointer.
 */
#include "base/metrics.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>

#include "base/array.h"
#include "base/limits.h"
#include "base/thread.h"

enum {
	MAX_LABELS = 4,
};

struct metric {
	struct metric_family *family;
	char *labels[MAX_LABELS]; /* values */
	double value;             /* mu; counter, gauge; a histogram's sum */
	uint64_t count;           /* mu; a histogram's observations */
	uint64_t *buckets;        /* mu; observations up to each bound, not cumulated */
};

struct metric_family {
	enum metric_type type;
	const char *name;
	const char *help;
	const char *const *labels;
	size_t n_labels;
	const double *buckets;
	size_t n_buckets;
	pthread_mutex_t mu;
	struct metric **series;     /* mu */
	size_t n_series;            /* mu */
	size_t cap_series;          /* mu */
	struct metric_family *next; /* families_mu */
};

static pthread_mutex_t families_mu = PTHREAD_MUTEX_INITIALIZER;
static struct metric_family *families;                   /* families_mu */
static struct metric_family **families_tail = &families; /* families_mu */

static struct metric *
series_new(struct metric_family *family, const char *const *labels)
{
	struct metric *m = xcalloc(1, sizeof(*m));

	m->family = family;
	for (size_t i = 0; i < family->n_labels; i++)
		m->labels[i] = xstrdup(labels[i]);
	if (family->n_buckets)
		m->buckets = xcalloc(family->n_buckets, sizeof(m->buckets[0]));
	ARRAY_PUSH(family->series, family->n_series, family->cap_series, m);
	return m;
}

struct metric_family *
metric_family_new(enum metric_type type, const char *name, const char *help,
                  const char *const *labels, size_t n_labels, const double *buckets,
                  size_t n_buckets)
{
	struct metric_family *family = xcalloc(1, sizeof(*family));

	assert(n_labels <= MAX_LABELS);
	*family = (struct metric_family){
		.type = type,
		.name = name,
		.help = help,
		.labels = labels,
		.n_labels = n_labels,
		.buckets = buckets,
		.n_buckets = type == METRIC_HISTOGRAM ? n_buckets : 0,
		.mu = PTHREAD_MUTEX_INITIALIZER,
	};
	if (n_labels == 0)
		series_new(family, NULL);
	WITH_LOCK(&families_mu);
	*families_tail = family;
	families_tail = &family->next;
	return family;
}

static struct metric *
series_find(struct metric_family *family, const char *const *labels)
{
	for (size_t i = 0; i < family->n_series; i++) {
		struct metric *m = family->series[i];
		size_t same = 0;

		while (same < family->n_labels && strcmp(m->labels[same], labels[same]) == 0)
			same++;
		if (same == family->n_labels)
			return m;
	}
	return NULL;
}

struct metric *
metric_of(struct metric_family *family, ...)
{
	static const char *const other[MAX_LABELS] = { "other", "other", "other", "other" };
	const char *labels[MAX_LABELS];
	struct metric *m;
	va_list args;

	va_start(args, family);
	for (size_t i = 0; i < family->n_labels; i++)
		labels[i] = va_arg(args, const char *);
	va_end(args);

	WITH_LOCK(&family->mu);
	m = series_find(family, labels);
	if (m)
		return m;
	if (family->n_series < LIMIT_METRIC_SERIES)
		return series_new(family, labels);
	m = series_find(family, other);
	return m ? m : series_new(family, other);
}

void
metric_inc(struct metric *m)
{
	metric_add(m, 1);
}

void
metric_add(struct metric *m, double v)
{
	WITH_LOCK(&m->family->mu);
	m->value += v;
}

void
metric_set(struct metric *m, double v)
{
	WITH_LOCK(&m->family->mu);
	m->value = v;
}

void
metric_observe(struct metric *m, double v)
{
	struct metric_family *family = m->family;
	size_t i = 0;

	while (i < family->n_buckets && v > family->buckets[i])
		i++;
	WITH_LOCK(&family->mu);
	if (i < family->n_buckets)
		m->buckets[i]++;
	m->count++;
	m->value += v;
}

double
metric_value(struct metric *m)
{
	WITH_LOCK(&m->family->mu);
	return m->family->type == METRIC_HISTOGRAM ? (double)m->count : m->value;
}

/* Whole numbers without exponent; else the shortest text that reads back as the same number. */
static void
add_number(struct buf *b, double v)
{
	char text[40];
	double back;

	if (isnan(v) || isinf(v)) {
		buf_add_c(b, isnan(v) ? "NaN" : v > 0 ? "+Inf" : "-Inf");
		return;
	}
	if (fabs(v) < 1e15 && v == floor(v)) {
		buf_addf(b, "%.0f", v + 0.0); /* no "-0" */
		return;
	}
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, v);
		if (sscanf(text, "%lf", &back) == 1 && back == v)
			break;
	}
	buf_add_c(b, text);
}

static void
add_escaped(struct buf *b, const char *text, bool is_label)
{
	for (; *text; text++) {
		if (*text == '\n')
			buf_add_c(b, "\\n");
		else if (*text == '\\')
			buf_add_c(b, "\\\\");
		else if (*text == '"' && is_label)
			buf_add_c(b, "\\\"");
		else
			buf_add_char(b, *text);
	}
}

static void
add_label(struct buf *b, const char *name, const char *value, bool is_first)
{
	buf_addf(b, "%c%s=\"", is_first ? '{' : ',', name);
	add_escaped(b, value, /*is_label=*/true);
	buf_add_char(b, '"');
}

/* The start of a line: name, suffix and labels; le may be NULL. */
static void
add_series_name(struct buf *b, const struct metric *m, const char *suffix, const char *le)
{
	const struct metric_family *family = m->family;

	buf_addf(b, "%s%s", family->name, suffix);
	for (size_t i = 0; i < family->n_labels; i++)
		add_label(b, family->labels[i], m->labels[i], i == 0);
	if (le)
		add_label(b, "le", le, family->n_labels == 0);
	buf_add_c(b, family->n_labels || le ? "} " : " ");
}

static void
add_line(struct buf *b, const struct metric *m, const char *suffix, const char *le, double value)
{
	add_series_name(b, m, suffix, le);
	add_number(b, value);
	buf_add_char(b, '\n');
}

static void
add_histogram(struct buf *b, const struct metric *m)
{
	CLEANUP(buf_fini) struct buf le = BUF_INIT(64);
	uint64_t cumulated = 0;

	for (size_t i = 0; i < m->family->n_buckets; i++) {
		cumulated += m->buckets[i];
		buf_reset(&le);
		add_number(&le, m->family->buckets[i]);
		add_line(b, m, "_bucket", le.ptr, (double)cumulated);
	}
	add_line(b, m, "_bucket", "+Inf", (double)m->count);
	add_line(b, m, "_sum", /*le=*/NULL, m->value);
	add_line(b, m, "_count", /*le=*/NULL, (double)m->count);
}

static void
add_family(struct buf *b, struct metric_family *family)
{
	static const char *const types[] = { "counter", "gauge", "histogram" };

	WITH_LOCK(&family->mu);
	if (family->n_series == 0)
		return;
	buf_addf(b, "# HELP %s ", family->name);
	add_escaped(b, family->help, /*is_label=*/false);
	buf_addf(b, "\n# TYPE %s %s\n", family->name, types[family->type]);
	for (size_t i = 0; i < family->n_series; i++) {
		if (family->type == METRIC_HISTOGRAM)
			add_histogram(b, family->series[i]);
		else
			add_line(b, family->series[i], "", /*le=*/NULL, family->series[i]->value);
	}
}

void
metrics_write(struct buf *b)
{
	WITH_LOCK(&families_mu);
	for (struct metric_family *family = families; family; family = family->next)
		add_family(b, family);
}
