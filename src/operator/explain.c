/* operator/explain.c: what an explanation reads for all kinds of objects; see explain.h. */
#include "operator/explain.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "http/url.h"
#include "operator/doctor.h"

enum {
	MAX_EVENTS = 500, /* that are read; the API server forgets them after an hour */
};

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
	struct view *v = e->view;
	struct error ignored;
	struct str body;

	buf_addf(&path, "%s?fieldSelector=metadata.name%%3D", list_path);
	url_add_escaped(&path, name);
	if (!view_need(v, VIEW_SERVER, &ignored) ||
	    !kube_get(v->kube, &v->call, buf_str(&path), &body, &ignored) ||
	    !json_parse(body, &e->raw, &ignored))
		return NULL;
	return yyjson_arr_get_first(json_at(yyjson_doc_get_root(e->raw), "items"));
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
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct str namespace = STR("default"), name = e->what.key, body;
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
	if (!view_need(v, VIEW_SERVER, &err) ||
	    !kube_get(v->kube, &v->call, buf_str(&path), &body, &err) ||
	    !json_parse(body, &doc, &err)) {
		explain_note_gap(e, "events", &err);
		return;
	}
	items = json_at(yyjson_doc_get_root(doc), "items");
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
	static void (*const kinds[])(struct explanation *) = {
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
	kinds[what->kind](ret);
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
	yyjson_doc_free(e->raw);
}

int
explain_exit_code(const struct explanation *e)
{
	if (e->is_unknown || report_exit_code(&e->problems) == 2)
		return 2;
	return e->exists && report_count(&e->problems, RESULT_PROBLEM) == 0 ? 0 : 1;
}
