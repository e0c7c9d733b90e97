/* base/health.c: see health.h.
 *
 * Checks are only appended, to an array that does not move. A request therefore reads the number of
 * checks under the lock and runs those without it: checks take locks of their own.
 */
#include "base/health.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/thread.h"

METRIC_FAMILY(last_result, METRIC_GAUGE, "kubernetes_healthcheck",
              "[STABLE] The last result of a health check: 1 success, 0 failure.",
              .page = METRICS_SLIS, .labels = { "name", "type" });
METRIC_FAMILY(results_total, METRIC_COUNTER, "kubernetes_healthchecks_total",
              "[STABLE] Runs of a health check, by result.", .page = METRICS_SLIS,
              .labels = { "name", "status", "type" });

enum {
	MAX_REASON = 1024,
};

struct check {
	const char *name;
	unsigned kinds;
	health_check *check; /* NULL: always passes */
	void *arg;
	bool is_failing; /* mu; the result of the last run */
};

struct health {
	pthread_mutex_t mu;
	size_t n; /* mu; entries below n never change, except is_failing */
	struct check checks[LIMIT_HEALTH_CHECKS];
};

/* Runs for a kind without any registered check, as in Kubernetes. */
static struct check ping = { .name = "ping",
	                     .kinds = HEALTH_HEALTHZ | HEALTH_LIVEZ | HEALTH_READYZ };

struct health *
health_new(void)
{
	struct health *h = xcalloc(1, sizeof(*h));

	mutex_init(&h->mu);
	return h;
}

void
health_free(struct health *h)
{
	if (!h)
		return;
	mutex_destroy(&h->mu);
	free(h);
}

void
health_add(struct health *h, const char *name, unsigned kinds, health_check *check, void *arg)
{
	WITH_LOCK(&h->mu);
	assert(h->n < LIMIT_HEALTH_CHECKS);
	h->checks[h->n++] = (struct check){ name, kinds, check, arg, false };
}

const char *
health_kind_name(enum health_kind kind)
{
	return kind == HEALTH_HEALTHZ ? "healthz" : kind == HEALTH_LIVEZ ? "livez" : "readyz";
}

static size_t
n_checks(struct health *h)
{
	WITH_LOCK(&h->mu);
	return h->n;
}

/* Logs a changed result only, because probes run every few seconds. */
static void
note_change(struct health *h, struct check *c, bool is_well, struct str reason)
{
	bool has_changed;

	mutex_lock(&h->mu);
	has_changed = c->is_failing == is_well;
	c->is_failing = !is_well;
	mutex_unlock(&h->mu);
	if (has_changed && is_well)
		log_info("health check passes again", LOG_CSTR("check", c->name));
	else if (has_changed)
		log_warn("health check failed", LOG_CSTR("check", c->name),
		         LOG_STR("reason", reason));
}

static bool
run_check(struct health *h, struct check *c, enum health_kind kind, struct buf *reason)
{
	const char *type = health_kind_name(kind);
	size_t before = reason->len;
	bool is_well = !c->check || c->check(c->arg, reason);

	metric_set(metric_of(&last_result, c->name, type), is_well);
	metric_inc(metric_of(&results_total, c->name, is_well ? "success" : "error", type));
	note_change(h, c, is_well, str_skip(buf_str(reason), before));
	return is_well;
}

/* Returns the first check of a kind at or after *at and moves *at past it. Returns the ping check
 * when the kind has no checks. */
static struct check *
next_check(struct health *h, size_t n, enum health_kind kind, size_t *at, bool is_first)
{
	while (*at < n) {
		struct check *c = &h->checks[(*at)++];

		if (c->kinds & (unsigned)kind)
			return c;
	}
	return is_first ? &ping : NULL;
}

static bool
is_listed(const char *name, const struct str list[], size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (str_eq_c(list[i], name))
			return true;
	}
	return false;
}

static bool
has_check(struct health *h, size_t n, enum health_kind kind, struct str name)
{
	size_t at = 0;

	for (struct check *c = next_check(h, n, kind, &at, true); c;
	     c = next_check(h, n, kind, &at, false)) {
		if (str_eq_c(name, c->name))
			return true;
	}
	return false;
}

/* Appends a warning about excluded names that no check has. */
static void
warn_unmatched(struct health *h, size_t n, enum health_kind kind, const struct str exclude[],
               size_t n_exclude, struct buf *text)
{
	size_t n_unmatched = 0;

	for (size_t i = 0; i < n_exclude; i++) {
		if (has_check(h, n, kind, exclude[i]))
			continue;
		buf_add_c(text,
		          n_unmatched++
		                  ? ", "
		                  : "warn: some health checks cannot be excluded: no matches for ");
		json_add_str(text, exclude[i]);
	}
	if (n_unmatched)
		buf_add_char(text, '\n');
}

static bool
add_result(struct health *h, struct check *c, enum health_kind kind, struct buf *text)
{
	CLEANUP(buf_fini) struct buf reason = BUF_INIT(MAX_REASON);
	bool is_well = run_check(h, c, kind, &reason);

	if (is_well)
		buf_addf(text, "[+]%s ok\n", c->name);
	else
		buf_addf(text, "[-]%s failed: reason withheld\n", c->name);
	return is_well;
}

/* Appends one line per check. */
static bool
run_all(struct health *h, enum health_kind kind, const struct str exclude[], size_t n_exclude,
        struct buf *text)
{
	bool is_well = true;
	size_t n = n_checks(h), at = 0;

	for (struct check *c = next_check(h, n, kind, &at, true); c;
	     c = next_check(h, n, kind, &at, false)) {
		if (is_listed(c->name, exclude, n_exclude))
			buf_addf(text, "[+]%s excluded: ok\n", c->name);
		else
			is_well = add_result(h, c, kind, text) && is_well;
	}
	warn_unmatched(h, n, kind, exclude, n_exclude, text);
	return is_well;
}

bool
health_run(struct health *h, enum health_kind kind, const struct str exclude[], size_t n_exclude,
           bool is_verbose, struct buf *text)
{
	size_t before = text->len;
	bool is_well = run_all(h, kind, exclude, n_exclude, text);

	if (is_well && !is_verbose) {
		buf_truncate(text, before);
		buf_add_c(text, "ok");
	} else {
		buf_addf(text, "%s check %s\n", health_kind_name(kind),
		         is_well ? "passed" : "failed");
	}
	return is_well;
}

enum health_found
health_run_one(struct health *h, enum health_kind kind, struct str name, struct buf *reason)
{
	size_t n = n_checks(h), at = 0;

	for (struct check *c = next_check(h, n, kind, &at, true); c;
	     c = next_check(h, n, kind, &at, false)) {
		if (str_eq_c(name, c->name))
			return run_check(h, c, kind, reason) ? HEALTH_WELL : HEALTH_FAILED;
	}
	return HEALTH_UNKNOWN;
}
