/* base/health.c: see health.h.
 *
 * Checks are only appended, to an array that does not move. A request therefore collects its checks
 * under the lock and runs them without it: checks take locks of their own.
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

static const char *
health_kind_name(enum health_kind kind)
{
	return kind == HEALTH_HEALTHZ ? "healthz" : kind == HEALTH_LIVEZ ? "livez" : "readyz";
}

/* The checks of a kind, in their order. Returns their number, at least 1. */
static size_t
checks_of(struct health *h, enum health_kind kind, struct check *ret[LIMIT_HEALTH_CHECKS])
{
	size_t n = 0;
	WITH_LOCK(&h->mu);

	for (size_t i = 0; i < h->n; i++) {
		if (h->checks[i].kinds & (unsigned)kind)
			ret[n++] = &h->checks[i];
	}
	if (n == 0)
		ret[n++] = &ping;
	return n;
}

static struct check *
find_check(struct check *const checks[], size_t n, struct str name)
{
	for (size_t i = 0; i < n; i++) {
		if (str_eq_c(name, checks[i]->name))
			return checks[i];
	}
	return NULL;
}

static bool
run_check(struct health *h, struct check *c, enum health_kind kind, struct buf *reason)
{
	const char *type = health_kind_name(kind);
	size_t before = reason->len;
	bool is_well = !c->check || c->check(c->arg, reason), has_changed;

	metric_set(metric_of(&last_result, c->name, type), is_well);
	metric_inc(metric_of(&results_total, c->name, is_well ? "success" : "error", type));
	mutex_lock(&h->mu);
	has_changed = c->is_failing == is_well;
	c->is_failing = !is_well;
	mutex_unlock(&h->mu);
	/* only a changed result is logged, because probes run every few seconds */
	if (has_changed && is_well)
		log_info("health check passes again", LOG_CSTR("check", c->name));
	else if (has_changed)
		log_warn("health check failed", LOG_CSTR("check", c->name),
		         LOG_STR("reason", str_skip(buf_str(reason), before)));
	return is_well;
}

/* Appends a warning about excluded names that no check has. */
static void
warn_unmatched(struct check *const checks[], size_t n, const struct str exclude[], size_t n_exclude,
               struct buf *text)
{
	size_t n_unmatched = 0;

	for (size_t i = 0; i < n_exclude; i++) {
		if (find_check(checks, n, exclude[i]))
			continue;
		if (n_unmatched++ == 0)
			buf_add_c(text,
			          "warn: some health checks cannot be excluded: no matches for ");
		else
			buf_add_c(text, ", ");
		json_add_str(text, exclude[i]);
	}
	if (n_unmatched > 0)
		buf_add_char(text, '\n');
}

bool
health_run(struct health *h, enum health_kind kind, const struct str exclude[], size_t n_exclude,
           bool is_verbose, struct buf *text)
{
	struct check *checks[LIMIT_HEALTH_CHECKS];
	size_t before = text->len, n = checks_of(h, kind, checks);
	bool is_well = true;

	for (size_t i = 0; i < n; i++) {
		CLEANUP(buf_fini) struct buf reason = BUF_INIT(MAX_REASON);
		struct check *c = checks[i];

		if (str_is_among(str_c(c->name), exclude, n_exclude)) {
			buf_addf(text, "[+]%s excluded: ok\n", c->name);
		} else if (run_check(h, c, kind, &reason)) {
			buf_addf(text, "[+]%s ok\n", c->name);
		} else {
			buf_addf(text, "[-]%s failed: reason withheld\n", c->name);
			is_well = false;
		}
	}
	warn_unmatched(checks, n, exclude, n_exclude, text);

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
	struct check *checks[LIMIT_HEALTH_CHECKS];
	struct check *c = find_check(checks, checks_of(h, kind, checks), name);

	if (!c)
		return HEALTH_UNKNOWN;
	return run_check(h, c, kind, reason) ? HEALTH_WELL : HEALTH_FAILED;
}
