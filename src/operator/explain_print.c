/* operator/explain_print.c: an explanation as text and as JSON; see explain.h. */
#include "base/limits.h"
#include "operator/explain.h"

enum {
	LABEL_WIDTH = 15,
	COLUMN = 2 + LABEL_WIDTH, /* of the texts */
	MAX_SHOWN_EVENTS = 20,    /* the last ones; JSON has all */
	WIDEST = 60,              /* of the column "cluster" */
};

#define RED "\033[31m"
#define YELLOW "\033[33m"
#define PLAIN "\033[0m"

static const char *const kinds[] = {
	[DESCRIBED_NODE] = "node", [DESCRIBED_SERVICE] = "service", [DESCRIBED_ROUTE] = "route"
};

/* ---- text ---- */

static void
print_line(struct buf *out, const char *label, struct str text, unsigned width)
{
	CLEANUP(buf_fini) struct buf clean = BUF_INIT(LIMIT_REPORT);

	if (text.len == 0)
		return;
	buf_addf(out, "  %-*s", LABEL_WIDTH, label);
	buf_add_clean(&clean, text);
	buf_add_wrapped(out, buf_str(&clean), COLUMN, width);
}

static void
print_problems(const struct explanation *e, bool has_colours, unsigned width, struct buf *out)
{
	if (report_count(&e->problems, RESULT_PROBLEM) == 0)
		return;
	buf_add_c(out, "\nProblems\n");
	for (size_t i = 0; i < e->problems.n; i++) {
		const struct check_result *result = &e->problems.results[i];

		for (size_t j = 0; j < result->n_findings; j++) {
			const struct finding *f = &result->findings[j];

			buf_addf(out, "  %s%-*s%s", has_colours ? RED : "", LABEL_WIDTH,
			         result->check->code, has_colours ? PLAIN : "");
			buf_add_wrapped(out, f->message, COLUMN, width);
			if (f->fix.len == 0)
				continue;
			buf_addf(out, "%*s%s: ", COLUMN, "", f->is_command ? "run" : "fix");
			buf_add_wrapped(out, f->fix, COLUMN + strlen("fix: "),
			                f->is_command ? 0 : width);
		}
	}
}

/* The number of columns that a text takes, if each character takes one. */
static int
width_of(struct str text)
{
	int width = 0;

	for (size_t i = 0; i < text.len; i++)
		width += ((unsigned char)text.ptr[i] & 0xc0) != 0x80;
	return width;
}

static struct str
or_dash(struct str text)
{
	return text.len > 0 ? text : STR("-");
}

static void
print_rows(const struct explanation *e, bool has_colours, struct buf *out)
{
	int width = (int)strlen("cluster");

	if (e->n_rows == 0)
		return;
	for (size_t i = 0; i < e->n_rows; i++) {
		int own = width_of(e->rows[i].cluster);

		if (own > width && own <= WIDEST)
			width = own;
	}
	buf_addf(out, "\n  %-*s%-*s  %s\n", LABEL_WIDTH, "", width, "cluster", "cloud");
	for (size_t i = 0; i < e->n_rows; i++) {
		const struct explain_row *row = &e->rows[i];
		struct str cluster = or_dash(row->cluster);
		int padding = width - width_of(cluster);

		buf_addf(out, "  %-*s", LABEL_WIDTH, row->name);
		buf_add_clean(out, cluster);
		buf_addf(out, "%*s  %s", padding > 0 ? padding : 0, "",
		         has_colours && row->differs ? YELLOW : "");
		buf_add_clean(out, or_dash(row->cloud));
		buf_addf(out, "%s\n", has_colours && row->differs ? PLAIN : "");
	}
}

static void
print_events(const struct explanation *e, bool has_colours, struct buf *out)
{
	size_t first = e->n_events > MAX_SHOWN_EVENTS ? e->n_events - MAX_SHOWN_EVENTS : 0;

	if (e->n_events == 0)
		return;
	buf_add_c(out, "\nEvents\n");
	if (first > 0)
		buf_addf(out, "  %zu earlier ones are not shown\n", first);
	for (size_t i = first; i < e->n_events; i++) {
		const struct leader_event *event = &e->events[i];
		bool is_red = has_colours && str_eq_c(event->type, "Warning");

		buf_add_c(out, "  ");
		if (event->time_s > 0)
			clock_format_rfc3339(out, event->time_s * NS_PER_SEC, /*micros=*/false);
		buf_addf(out, "  %s", is_red ? RED : "");
		buf_add_clean(out, event->reason);
		buf_add_c(out, is_red ? PLAIN : "");
		if (event->count > 1)
			buf_addf(out, " (%lld times)", (long long)event->count);
		buf_add_c(out, ": ");
		buf_add_clean(out, event->message);
		buf_add_char(out, '\n');
	}
}

static void
print_gaps(const struct explanation *e, struct buf *out)
{
	bool has_title = e->n_gaps > 0;

	if (e->n_gaps > 0)
		buf_add_c(out, "\nNot known\n");
	for (size_t i = 0; i < e->n_gaps; i++) {
		buf_addf(out, "  - %s: ", e->gaps[i].what);
		buf_add_clean(out, e->gaps[i].why);
		buf_add_char(out, '\n');
	}
	for (size_t i = 0; i < e->problems.n; i++) {
		const struct check_result *result = &e->problems.results[i];
		bool is_gap = false;

		/* a check that could not run for the reason of a gap is not repeated */
		for (size_t j = 0; j < e->n_gaps; j++)
			is_gap |= str_eq(e->gaps[j].why, result->reason);
		if (!report_is_incomplete(result) || result->cause || is_gap)
			continue;
		buf_addf(out, "%s  - %s: %" STR_FMT "\n", has_title ? "" : "\nNot known\n",
		         result->check->code, STR_ARG(result->reason));
		has_title = true;
	}
}

void
explain_print(const struct explanation *e, bool has_colours, unsigned width, struct buf *out)
{
	buf_addf(out, "%s ", kinds[e->what.kind]);
	buf_add_clean(out, e->what.key);
	buf_add_char(out, '\n');
	print_line(out, "is", e->identity, width);
	print_line(out, "state", e->state, width);
	print_line(out, "waits for", e->waits_for, width);
	print_line(out, "next", e->next, width);
	print_problems(e, has_colours, width, out);
	print_rows(e, has_colours, out);
	print_events(e, has_colours, out);
	print_gaps(e, out);
}

/* ---- JSON ---- */

void
explain_print_json(const struct explanation *e, struct buf *out)
{
	yyjson_val *leader = explain_leader(e);

	json_begin_object(out, NULL);
	if (e->view)
		view_add_json(e->view, out);
	json_add_members(out, JSON_NUMBER("exitCode", explain_exit_code(e)),
	                 JSON_TEXT("kind", str_c(kinds[e->what.kind])),
	                 JSON_TEXT("name", e->what.key), JSON_FLAG("exists", e->exists),
	                 JSON_TEXT("identity", e->identity), JSON_TEXT("state", e->state),
	                 JSON_TEXT("waitsFor", e->waits_for), JSON_TEXT("next", e->next));

	json_begin_array(out, "problems");
	for (size_t i = 0; i < e->problems.n; i++) {
		const struct check_result *result = &e->problems.results[i];

		for (size_t j = 0; j < result->n_findings; j++) {
			const struct finding *f = &result->findings[j];

			json_add_object(out, NULL, JSON_TEXT("code", str_c(result->check->code)),
			                JSON_TEXT("message", f->message), JSON_TEXT("fix", f->fix),
			                JSON_FLAG("fixIsCommand", f->is_command));
		}
	}
	json_end_array(out);

	json_begin_array(out, "comparison");
	for (size_t i = 0; i < e->n_rows; i++) {
		const struct explain_row *row = &e->rows[i];

		json_add_object(out, NULL, JSON_TEXT("name", str_c(row->name)),
		                JSON_TEXT("cluster", row->cluster), JSON_TEXT("cloud", row->cloud),
		                JSON_FLAG("differs", row->differs));
	}
	json_end_array(out);

	json_begin_array(out, "events");
	for (size_t i = 0; i < e->n_events; i++) {
		const struct leader_event *event = &e->events[i];

		json_add_object(out, NULL, JSON_NUMBER("time", event->time_s),
		                JSON_TEXT("type", event->type), JSON_TEXT("reason", event->reason),
		                JSON_TEXT("source", event->source),
		                JSON_TEXT("message", event->message),
		                JSON_NUMBER("count", event->count));
	}
	json_end_array(out);

	if (leader) {
		json_add_name(out, STR("leader"));
		json_add_value(out, leader);
	}

	json_begin_array(out, "notKnown");
	for (size_t i = 0; i < e->n_gaps; i++)
		json_add_object(out, NULL, JSON_TEXT("what", str_c(e->gaps[i].what)),
		                JSON_TEXT("why", e->gaps[i].why));
	for (size_t i = 0; i < e->problems.n; i++) {
		const struct check_result *result = &e->problems.results[i];

		if (report_is_incomplete(result))
			json_add_object(out, NULL, JSON_TEXT("what", str_c(result->check->code)),
			                JSON_TEXT("why", result->reason));
	}
	json_end_array(out);
	json_end_object(out);
	buf_add_char(out, '\n');
}
