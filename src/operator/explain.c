/* operator/explain.c: what an explanation reads for all kinds of objects, and how it is printed;
 * see explain.h. */
#include "operator/explain.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "http/url.h"
#include "operator/doctor.h"

enum {
	MAX_EVENTS = 500, /* that are read; the API server forgets them after an hour */
	LABEL_WIDTH = 15,
	COLUMN = 2 + LABEL_WIDTH, /* of the texts */
	MAX_SHOWN_EVENTS = 20,    /* the last ones; JSON has all */
	WIDEST = 60,              /* of the column "cluster" */
};

#define RED "\033[31m"
#define YELLOW "\033[33m"
#define PLAIN "\033[0m"

/* ---- for explain_objects.c ---- */

void
explain_note_gap(struct explanation *e, const char *what, const struct error *err)
{
	if (e->n_gaps < EXPLAIN_MAX_GAPS)
		e->gaps[e->n_gaps++] = (struct explain_gap){ what, arena_str(&e->view->arena,
			                                                     str_c(err->msg)) };
}

void
explain_add_row(struct explanation *e, const char *name, struct str cluster, struct str cloud,
                bool differs)
{
	if (cluster.len + cloud.len > 0 && e->n_rows < EXPLAIN_MAX_ROWS)
		e->rows[e->n_rows++] = (struct explain_row){ name, cluster, cloud, differs };
}

struct str
explain_since(struct explanation *e, struct str rfc3339)
{
	CLEANUP(buf_fini) struct buf ago = BUF_INIT(LIMIT_NAME);
	int64_t wall_ns;

	if (!clock_parse_rfc3339(rfc3339, &wall_ns) || wall_ns / NS_PER_SEC > e->now_s)
		return rfc3339;
	clock_format_duration(&ago, (e->now_s - wall_ns / NS_PER_SEC) * NS_PER_SEC);
	return arena_printf(&e->view->arena, "%" STR_FMT " (%s ago)", STR_ARG(rfc3339), ago.ptr);
}

/* Not a GET of the object: the controller's own account may list Services, but not get one. */
yyjson_val *
explain_raw(struct explanation *e, const char *list_path, struct str name)
{
	CLEANUP(buf_fini) struct buf path = BUF_INIT(LIMIT_HTTP_URL);
	struct error ignored;
	yyjson_val *items;

	buf_addf(&path, "%s?fieldSelector=metadata.name%%3D", list_path);
	url_add_escaped(&path, name);
	return view_get_items(e->view, buf_str(&path), &items, &ignored)
	               ? yyjson_arr_get_first(items)
	               : NULL;
}

/* ---- the leader ---- */

yyjson_val *
explain_leader(const struct explanation *e)
{
	return e->view ? leader_about(e->view, e->what.kind, e->what.key) : NULL;
}

/* ---- events ---- */

static int
compare_events(const void *a, const void *b)
{
	const struct leader_event *x = a, *y = b;

	return (x->time_s > y->time_s) - (x->time_s < y->time_s);
}

/* Is the event about this object, rather than an earlier one of the same name? The kubelet and
 * other controllers write a node's name as its UID; then the time decides. */
static bool
is_about_this(const struct explanation *e, yyjson_val *event, int64_t time_s)
{
	struct str uid = json_view(event, "involvedObject.uid");

	if (e->uid.len == 0 || str_eq(uid, e->uid))
		return true;
	return e->what.kind == DESCRIBED_NODE && (uid.len == 0 || str_eq(uid, e->what.key)) &&
	       time_s >= e->created_s;
}

/* Events about a node are in the namespace default. */
static void
read_events(struct explanation *e)
{
	CLEANUP(buf_fini) struct buf path = BUF_INIT(LIMIT_HTTP_URL);
	struct str namespace = STR("default"), name = e->what.key;
	struct view *v = e->view;
	yyjson_val *items, *item;
	struct error err;
	size_t i, n;

	if (e->what.kind == DESCRIBED_SERVICE)
		(void)str_cut(e->what.key, '/', &namespace, &name);
	buf_add_c(&path, "/api/v1/namespaces/");
	url_add_escaped(&path, namespace);
	buf_addf(&path, "/events?limit=%d&fieldSelector=involvedObject.kind%%3D%s%%2C", MAX_EVENTS,
	         e->what.kind == DESCRIBED_SERVICE ? "Service" : "Node");
	buf_add_c(&path, "involvedObject.name%3D");
	url_add_escaped(&path, name);
	if (!view_get_items(v, buf_str(&path), &items, &err)) {
		explain_note_gap(e, "events", &err);
		return;
	}
	e->events = arena_calloc(&v->arena, yyjson_arr_size(items) + 1, sizeof(e->events[0]));
	yyjson_arr_foreach(items, i, n, item)
	{
		struct leader_event event = leader_event_of(item, &v->arena);

		if (is_about_this(e, item, event.time_s))
			e->events[e->n_events++] = event;
	}
	qsort(e->events, e->n_events, sizeof(e->events[0]), compare_events);
}

/* ---- the checks ---- */

/* Runs the doctor's checks, of which only findings about this object are kept. (For a route,
 * explain_route() has said which one it is.) If something is wrong, it may be the consequence of
 * something that is wrong with the cluster as a whole. */
static void
run_checks(struct explanation *e)
{
	struct doctor d = { .view = e->view, .flag_notes = STR_EMPTY, .flag_warnings = STR_EMPTY };
	bool is_node = e->what.kind == DESCRIBED_NODE, is_route = e->what.kind == DESCRIBED_ROUTE;

	if (!is_route) {
		e->problems.only_kind = is_node ? "node" : "service";
		e->problems.only_name = e->what.key;
	}
	for (size_t i = 0; i < doctor_n_checks; i++) {
		const struct check *check = &doctor_checks[i];

		if (is_route ? (check->needs & NEEDS_ROUTES) != 0
		             : strcmp(check->group, is_node ? "Nodes" : "Services") == 0)
			doctor_run_check(&d, check, &e->problems);
	}
	if (report_exit_code(&e->problems) == 0)
		return;
	for (size_t i = 0; i < doctor_n_checks; i++) {
		if (doctor_checks[i].subject)
			doctor_run_check(&d, &doctor_checks[i], &e->problems);
	}
	report_find_causes(&e->problems);
}

/* ---- all of it ---- */

void
explain_read(struct view *v, const struct described *what, struct explanation *ret)
{
	static void (*const readers[])(struct explanation *) = {
		[DESCRIBED_NODE] = explain_node,
		[DESCRIBED_SERVICE] = explain_service,
		[DESCRIBED_ROUTE] = explain_route,
	};
	struct error err;
	bool has_leader;

	*ret = (struct explanation){ .view = v, .what = *what };
	if (!view_need(v, VIEW_SERVER, &err)) {
		explain_note_gap(ret, "the cluster", &err);
		ret->is_unknown = true;
		return;
	}
	ret->now_s = view_now_s(v);
	has_leader = view_need(v, VIEW_LEADER, &err);
	readers[what->kind](ret);
	/* the leader waits for nothing about an object that does not exist */
	if (!has_leader && (ret->exists || ret->is_unknown))
		explain_note_gap(ret, "what the leader waits for, and when it acts", &err);
	if (ret->exists)
		run_checks(ret);
	if (what->kind != DESCRIBED_ROUTE)
		read_events(ret);
}

void
explanation_fini(struct explanation *e)
{
	report_fini(&e->problems);
}

int
explain_exit_code(const struct explanation *e)
{
	if (e->is_unknown || report_exit_code(&e->problems) == 2)
		return 2;
	return e->exists && report_count(&e->problems, RESULT_PROBLEM) == 0 ? 0 : 1;
}

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
	CLEANUP(buf_fini) struct buf lines = BUF_INIT(LIMIT_REPORT);

	for (size_t i = 0; i < e->n_gaps; i++) {
		buf_addf(&lines, "  - %s: ", e->gaps[i].what);
		buf_add_clean(&lines, e->gaps[i].why);
		buf_add_char(&lines, '\n');
	}
	for (size_t i = 0; i < e->problems.n; i++) {
		const struct check_result *result = &e->problems.results[i];
		bool is_gap = false;

		/* a check that could not run for the reason of a gap is not repeated */
		for (size_t j = 0; j < e->n_gaps; j++)
			is_gap |= str_eq(e->gaps[j].why, result->reason);
		if (report_is_incomplete(result) && !result->cause && !is_gap)
			buf_addf(&lines, "  - %s: %" STR_FMT "\n", result->check->code,
			         STR_ARG(result->reason));
	}
	if (lines.len > 0)
		buf_addf(out, "\nNot known\n%s", lines.ptr);
}

void
explain_print(const struct explanation *e, bool has_colours, unsigned width, struct buf *out)
{
	buf_addf(out, "%s ", leader_kinds[e->what.kind]);
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
	                 JSON_TEXT("kind", str_c(leader_kinds[e->what.kind])),
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
