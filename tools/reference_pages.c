/* reference_pages.c: see reference_pages.h. */
#include "reference_pages.h"

#include "base/event_kind.h"
#include "base/metrics.h"
#include "serve/endpoints.h"

/* A cell of a table ends at '|', and '<' would begin HTML. */
static void
add_cell(struct buf *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '<') {
			buf_add_c(out, "&lt;");
			continue;
		}
		if (*text == '|')
			buf_add_char(out, '\\');
		buf_add_char(out, *text);
	}
	buf_add_c(out, " | ");
}

/* ---- metrics ---- */

static void
add_labels(struct buf *out, const struct metric_family *family)
{
	for (size_t i = 0; family->labels[i]; i++)
		buf_addf(out, "%s`%s`", i ? ", " : "", family->labels[i]);
	buf_add_c(out, " | ");
}

static void
add_buckets(struct buf *out, const struct metric_family *family)
{
	for (size_t i = 0; i < family->n_buckets; i++)
		buf_addf(out, "%s%g", i ? ", " : "", family->buckets[i]);
	buf_add_c(out, " |\n");
}

static void
add_family(struct buf *out, const struct metric_family *family)
{
	static const char *const types[] = { "counter", "gauge", "histogram" };

	buf_addf(out, "| `%s` | %s | ", family->name, types[family->type]);
	add_labels(out, family);
	add_cell(out, family->help);
	add_buckets(out, family);
}

static void
add_page(struct buf *out, enum metric_page page)
{
	buf_add_c(out, "| name | type | labels | meaning | buckets |\n|---|---|---|---|---|\n");
	for (const struct metric_family *family = metrics_next(NULL); family;
	     family = metrics_next(family)) {
		if (family->page == page)
			add_family(out, family);
	}
}

void
metrics_reference(struct buf *out)
{
	buf_add_c(
		out,
		"# Metrics\n\n"
		"What `/metrics` shows. Names without `ccmd_` or a cloud's name in front are those of the Go programs, "
		"with the same types and labels, so that dashboards and alerts go on working; what has no counterpart "
		"here (`go_*`, for one) is not there. A family without a series yet is left out of the answer. `[ALPHA]`, "
		"`[BETA]` and `[STABLE]` mean what they do in Kubernetes. Labels have few values, and never the names of "
		"objects; beyond 200 series of one family, further ones are counted in one whose labels are `other`.\n\n"
		"Made by `tools/reference` from the tables that also count.\n\n");
	add_page(out, METRICS_MAIN);
	buf_add_c(out, "\n## /metrics/slis\n\n");
	add_page(out, METRICS_SLIS);
}

/* ---- events ---- */

void
events_reference(struct buf *out)
{
	size_t n;
	const struct event_kind *const *kinds = event_kinds(&n);

	buf_add_c(
		out,
		"# Events\n\n"
		"What `kubectl describe` shows at the end. Events about nodes and about the program are stored in "
		"namespace `default` (or the Pod's, if the environment has `POD_NAME` and `POD_NAMESPACE`).\n\n"
		"Repeats raise the count of the first. Ten different messages for one object and reason within 10 minutes "
		"become one event, `(combined from similar events)`. Of one object and type 25 events are written, and one "
		"more every 5 minutes. Writing waits for all other work; 1,000 events may wait, what does not fit is "
		"dropped; `ccmd_events_dropped_total` counts what was not written.\n\n"
		"Made by `tools/reference` from the tables that also send.\n\n"
		"| source | type | reason | object | when |\n|---|---|---|---|---|\n");
	for (size_t i = 0; i < n; i++) {
		buf_addf(out, "| `%s` | %s | `%s` | %s | ", kinds[i]->component,
		         kinds[i]->is_warning ? "Warning" : "Normal", kinds[i]->reason,
		         kinds[i]->about);
		buf_addf(out, "%s |\n", kinds[i]->when);
	}
}

/* ---- endpoints ---- */

static void
add_methods(struct buf *out, unsigned methods)
{
	static const struct {
		enum server_method method;
		const char *text;
	} names[] = {
		{ SERVER_GET, "GET, HEAD" },
		{ SERVER_PUT, "PUT" },
		{ SERVER_DELETE, "DELETE" },
	};
	bool is_first = true;

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (!(methods & (1u << names[i].method)))
			continue;
		buf_addf(out, "%s%s", is_first ? "" : ", ", names[i].text);
		is_first = false;
	}
	buf_add_c(out, " | ");
}

static void
add_endpoint(struct buf *out, const struct endpoint *e)
{
	size_t len = strlen(e->path);

	buf_addf(out, "| `%s%s` | ", e->path, e->path[len - 1] == '/' ? "NAME" : "");
	add_methods(out, e->methods);
	buf_addf(out, "%s%s |\n", e->about, e->needs_profiling ? " Only with `--profiling`." : "");
}

void
endpoints_reference(struct buf *out)
{
	buf_add_c(
		out,
		"# Endpoints\n\n"
		"What the HTTPS server on `--secure-port` answers. `/healthz`, `/livez` and `/readyz` are open to everybody "
		"(`--authorization-always-allow-paths`); all else needs a caller whom the API server lets `get` the path, or "
		"`put` and `delete` it. Callers are checked first: who may not gets 401 or 403 with a Status object, for "
		"paths that do not exist, too. Other paths are 404, other methods 405.\n\n"
		"Health takes `?verbose` and `?exclude=NAME`, as Kubernetes' endpoints do. Why a check fails is in the log, "
		"and under its own path. Unlike the Go programs there are `/livez`, `/readyz`, `/version`, and one path a "
		"check: they have nothing there.\n\n"
		"Made by `tools/reference` from the table that also answers.\n\n"
		"| path | methods | what it gives |\n|---|---|---|\n");
	for (size_t i = 0; i < n_endpoints; i++)
		add_endpoint(out, &endpoints[i]);
}
