/* base/metrics.c: see metrics.h.
 *
 * All families are in one list, each with its series and its lock. The series of a family are
 * searched linearly: they are few, and hot paths keep the pointer.
 */
#include "base/metrics.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>

#include "base/array.h"
#include "base/limits.h"
#include "base/thread.h"

struct metric {
	struct metric_family *family;
	double value;      /* mu; counter, gauge; a histogram's sum */
	uint64_t count;    /* mu; a histogram's observations */
	uint64_t *buckets; /* mu; observations up to each bound, not cumulated */
	bool is_hidden;    /* mu; reset, and unchanged since then */
	char *labels[];    /* values, as many as the family has */
};

struct hook {
	void (*fn)(void *arg);
	void *arg;
};

static pthread_mutex_t families_mu = PTHREAD_MUTEX_INITIALIZER;
static struct metric_family *families; /* families_mu */

static pthread_mutex_t hooks_mu = PTHREAD_MUTEX_INITIALIZER; /* held while the hooks run */
static struct hook *hooks;                                   /* hooks_mu */
static size_t n_hooks, cap_hooks;                            /* hooks_mu */

/* ---- families ---- */

/* The linker defines these symbols at both ends of the section; both are NULL in a program without
 * any METRIC_FAMILY(). */
extern struct metric_family *__start_metric_families[] __attribute__((weak));
extern struct metric_family *__stop_metric_families[] __attribute__((weak));

static int
compare_names(const void *a, const void *b)
{
	return strcmp((*(struct metric_family *const *)a)->name,
	              (*(struct metric_family *const *)b)->name);
}

/* The Prometheus libraries write labels in the order of their names. METRIC_FAMILY() lists them in
 * the order that reads best in calls of metric_of(). */
static void
sort_labels(struct metric_family *family)
{
	for (size_t i = 0; family->labels[i]; i++) {
		size_t at = i;

		for (;
		     at > 0 && strcmp(family->labels[family->order[at - 1]], family->labels[i]) > 0;
		     at--)
			family->order[at] = family->order[at - 1];
		family->order[at] = (unsigned char)i;
	}
}

/* Lists the families by name, because the order of the linker is arbitrary. Called with families_mu
 * held. */
static void
gather_families(void)
{
	struct metric_family **tail = &families;
	/* The subtraction uses integers, because in C these are two unrelated objects, not two ends
	 * of one array. */
	size_t n = ((uintptr_t)__stop_metric_families - (uintptr_t)__start_metric_families) /
	           sizeof(__start_metric_families[0]);

	if (families || n == 0)
		return;
	qsort(__start_metric_families, n, sizeof(__start_metric_families[0]), compare_names);
	for (size_t i = 0; i < n; i++) {
		sort_labels(__start_metric_families[i]);
		*tail = __start_metric_families[i];
		tail = &(*tail)->next;
	}
}

static struct metric_family *
lock_families(void)
{
	mutex_lock(&families_mu);
	gather_families();
	return families;
}

static size_t
n_labels(const struct metric_family *family)
{
	size_t n = 0;

	while (family->labels[n])
		n++;
	return n;
}

static struct metric *
series_new(struct metric_family *family, const char *const *labels)
{
	size_t n = n_labels(family);
	struct metric *m = xcalloc(1, sizeof(*m) + n * sizeof(m->labels[0]));

	m->family = family;
	for (size_t i = 0; i < n; i++)
		m->labels[i] = xstrdup(labels[i]);
	if (family->n_buckets)
		m->buckets = xcalloc(family->n_buckets, sizeof(m->buckets[0]));
	ARRAY_PUSH(family->series, family->n_series, family->cap_series, m);
	return m;
}

const struct metric_family *
metrics_next(const struct metric_family *family)
{
	const struct metric_family *next = lock_families();

	if (family)
		next = family->next;
	mutex_unlock(&families_mu);
	return next;
}

/* ---- series ---- */

static struct metric *
series_find(struct metric_family *family, const char *const *labels)
{
	size_t n = n_labels(family);

	for (size_t i = 0; i < family->n_series; i++) {
		struct metric *m = family->series[i];
		size_t same = 0;

		assert(m); /* clang's analyzer supposes that it may be NULL */
		while (same < n && strcmp(m->labels[same], labels[same]) == 0)
			same++;
		if (same == n)
			return m;
	}
	return NULL;
}

struct metric *
metric_of(struct metric_family *family, ...)
{
	static const char *const other[METRIC_MAX_LABELS] = {
		"other", "other", "other", "other", "other", "other", "other", "other", "other",
	};
	const char *labels[METRIC_MAX_LABELS];
	struct metric *m;
	va_list args;

	va_start(args, family);
	for (size_t i = 0; family->labels[i]; i++)
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
	m->is_hidden = false;
}

void
metric_set(struct metric *m, double v)
{
	WITH_LOCK(&m->family->mu);
	m->value = v;
	m->is_hidden = false;
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
	m->is_hidden = false;
}

double
metric_value(struct metric *m)
{
	WITH_LOCK(&m->family->mu);
	return m->family->type == METRIC_HISTOGRAM ? (double)m->count : m->value;
}

void
metrics_replace(struct metric_family *family, const struct metric_row rows[], size_t n)
{
	WITH_LOCK(&family->mu);

	assert(n <= LIMIT_METRIC_SERIES);
	while (family->n_series > 0) {
		struct metric *m = family->series[--family->n_series];

		for (size_t i = 0; family->labels[i]; i++)
			free(m->labels[i]);
		free(m);
	}
	for (size_t i = 0; i < n; i++)
		series_new(family, rows[i].labels)->value = rows[i].value;
}

/* ---- writing ---- */

/* A 64-bit number has at most 20 digits. */
static void
add_u64(struct buf *b, uint64_t v)
{
	char digits[20];
	size_t at = sizeof(digits);

	do
		digits[--at] = (char)('0' + v % 10);
	while (v /= 10);
	buf_add(b, digits + at, sizeof(digits) - at);
}

/* Appends integers without printf() and without an exponent: most values are integers, and printf()
 * would dominate the cost of a scrape. Of other numbers, the shortest text that reads back as the
 * same number. */
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
		if (v < 0)
			buf_add_char(b, '-');
		add_u64(b, (uint64_t)fabs(v));
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
	buf_add_char(b, is_first ? '{' : ',');
	buf_add_c(b, name);
	buf_add_c(b, "=\"");
	add_escaped(b, value, /*is_label=*/true);
	buf_add_char(b, '"');
}

/* le: the upper bound of a bucket; NULL: it is none */
static void
add_line(struct buf *b, const struct metric *m, const char *suffix, const char *le, double value)
{
	const struct metric_family *family = m->family;

	buf_add_c(b, family->name);
	buf_add_c(b, suffix);
	for (size_t n = 0; family->labels[n]; n++) {
		size_t i = family->order[n];

		add_label(b, family->labels[i], m->labels[i], n == 0);
	}
	if (le)
		add_label(b, "le", le, !family->labels[0]);
	buf_add_c(b, family->labels[0] || le ? "} " : " ");
	add_number(b, value);
	buf_add_char(b, '\n');
}

static void
add_histogram(struct buf *b, const struct metric *m, enum metric_format format)
{
	char text[64];
	uint64_t cumulated = 0;

	for (size_t i = 0; i < m->family->n_buckets; i++) {
		struct buf le = BUF_FIXED(text);
		double bound = m->family->buckets[i];

		text[0] = '\0';
		cumulated += m->buckets[i];
		add_number(&le, bound);
		/* OpenMetrics requires "1.0" where the older format has "1" */
		if (format == METRICS_OPENMETRICS && bound == floor(bound) && fabs(bound) < 1e15)
			buf_add_c(&le, ".0");
		add_line(b, m, "_bucket", le.ptr, (double)cumulated);
	}
	add_line(b, m, "_bucket", "+Inf", (double)m->count);
	add_line(b, m, "_sum", NULL, m->value);
	add_line(b, m, "_count", NULL, (double)m->count);
}

static void
add_family(struct buf *b, struct metric_family *family, enum metric_format format)
{
	static const char *const types[] = { "counter", "gauge", "histogram" };
	struct str name = str_c(family->name), total = STR("_total");
	bool has_head = false;

	/* in OpenMetrics, samples named x_total belong to a family named x */
	if (format == METRICS_OPENMETRICS && family->type == METRIC_COUNTER &&
	    str_ends(name, total))
		name.len -= total.len;
	WITH_LOCK(&family->mu);
	if (!family->labels[0] && family->n_series == 0)
		series_new(family, NULL);
	for (size_t i = 0; i < family->n_series; i++) {
		const struct metric *m = family->series[i];

		if (m->is_hidden)
			continue;
		if (!has_head) {
			buf_addf(b, "# HELP %" STR_FMT " ", STR_ARG(name));
			add_escaped(b, family->help, /*is_label=*/format == METRICS_OPENMETRICS);
			buf_addf(b, "\n# TYPE %" STR_FMT " %s\n", STR_ARG(name),
			         types[family->type]);
			has_head = true;
		}
		if (family->type == METRIC_HISTOGRAM)
			add_histogram(b, m, format);
		else
			add_line(b, m, "", NULL, m->value);
	}
}

void
metrics_on_scrape(void (*fn)(void *arg), void *arg)
{
	WITH_LOCK(&hooks_mu);
	ARRAY_PUSH(hooks, n_hooks, cap_hooks, (struct hook){ fn, arg });
}

void
metrics_off_scrape(void (*fn)(void *arg), void *arg)
{
	WITH_LOCK(&hooks_mu);

	for (size_t i = 0; i < n_hooks; i++) {
		if (hooks[i].fn == fn && hooks[i].arg == arg)
			hooks[i--] = hooks[--n_hooks];
	}
}

void
metrics_write_page(struct buf *b, enum metric_page page, enum metric_format format)
{
	mutex_lock(&hooks_mu);
	for (size_t i = 0; i < n_hooks; i++)
		hooks[i].fn(hooks[i].arg);
	mutex_unlock(&hooks_mu);
	for (struct metric_family *family = lock_families(); family; family = family->next) {
		if (family->page == page)
			add_family(b, family, format);
	}
	mutex_unlock(&families_mu);
	if (format == METRICS_OPENMETRICS)
		buf_add_c(b, "# EOF\n");
}

/* Series are reset in place, because another thread may be about to change one that it has looked
 * up. A family without labels always shows its one series. */
void
metrics_reset(enum metric_page page)
{
	for (struct metric_family *family = lock_families(); family; family = family->next) {
		if (family->page != page)
			continue;
		mutex_lock(&family->mu);
		for (size_t i = 0; i < family->n_series; i++) {
			struct metric *m = family->series[i];

			m->value = 0;
			m->count = 0;
			if (family->n_buckets > 0)
				memset(m->buckets, 0, family->n_buckets * sizeof(m->buckets[0]));
			m->is_hidden = family->labels[0];
		}
		mutex_unlock(&family->mu);
	}
	mutex_unlock(&families_mu);
}
