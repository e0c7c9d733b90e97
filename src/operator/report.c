/* operator/report.c: see report.h. */
#include "operator/report.h"

#include <assert.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/names.h"
#include "operator/view.h"

enum {
	MARK_WIDTH = 8, /* "problem" and a blank */
	MAX_SHOWN = 10, /* findings of one check */
	MAX_ALIKE = 3,  /* findings that differ only in their objects, and are shown one by one */
	COLUMN = 11,    /* of the texts below a check */
	LONGEST_TEXT = 4096,
};

static const struct {
	const char *name, *colour;
} marks[] = {
	[RESULT_OK] = { "ok", "\033[32m" },           [RESULT_NOTE] = { "note", "\033[36m" },
	[RESULT_PROBLEM] = { "problem", "\033[31m" }, [RESULT_UNKNOWN] = { "unknown", "\033[33m" },
	[RESULT_SKIPPED] = { "skipped", "\033[2m" },
};

void
report_fini(struct report *r)
{
	for (size_t i = 0; i < r->n; i++)
		free(r->results[i].findings);
	free(r->results);
	arena_fini(&r->arena);
	*r = REPORT_INIT;
}

/* ---- collecting ---- */

static struct check_result *
current(struct report *r)
{
	return &r->results[r->n - 1];
}

/* Is it about an object whose findings are not kept? */
static bool
is_about_other(const struct report *r, const char *kind, struct str name)
{
	return r->only_kind && kind[0] &&
	       (strcmp(kind, r->only_kind) != 0 || !str_eq(name, r->only_name));
}

/* A text that may have foreign parts, as one line without control characters. */
static struct str
clean_str(struct report *r, struct str text)
{
	CLEANUP(buf_fini) struct buf clean = BUF_INIT(LONGEST_TEXT);

	buf_add_clean(&clean, text);
	return arena_str(&r->arena, buf_str(&clean));
}

void
report_begin(struct report *r, const struct check *check)
{
	ARRAY_PUSH(r->results, r->n, r->cap, (struct check_result){ .check = check });
	r->last = NULL;
}

static void
add_finding(struct report *r, bool is_note, const char *kind, struct str name, struct str message)
{
	struct check_result *result = current(r);
	struct finding finding = { .kind = str_c(kind), .is_note = is_note };

	r->last = NULL;
	if (is_about_other(r, kind, name))
		return;
	if (!is_note || result->result != RESULT_PROBLEM)
		result->result = is_note ? RESULT_NOTE : RESULT_PROBLEM;
	if (result->n_findings == LIMIT_FINDINGS) {
		result->n_dropped++;
		return;
	}
	finding.name = clean_str(r, name);
	finding.message = clean_str(r, message);
	ARRAY_PUSH(result->findings, result->n_findings, result->cap, finding);
	r->last = &result->findings[result->n_findings - 1];
}

void
report_find(struct report *r, const char *kind, struct str name, const char *fmt, ...)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LONGEST_TEXT);

	BUF_ADD_ARGS(&text, fmt);
	add_finding(r, /*is_note=*/false, kind, name, buf_str(&text));
}

void
report_note(struct report *r, const char *kind, struct str name, const char *fmt, ...)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LONGEST_TEXT);

	BUF_ADD_ARGS(&text, fmt);
	add_finding(r, /*is_note=*/true, kind, name, buf_str(&text));
}

void
report_fix(struct report *r, const char *fmt, ...)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LONGEST_TEXT);

	BUF_ADD_ARGS(&text, fmt);
	if (r->last)
		r->last->fix = clean_str(r, buf_str(&text));
}

void
report_command(struct report *r, const char *fmt, ...)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LONGEST_TEXT);

	assert(current(r)->check->fix != FIX_BY_HAND);
	BUF_ADD_ARGS(&text, fmt);
	report_fix(r, "%s", text.ptr);
	if (r->last)
		r->last->is_command = true;
}

bool
report_is_plain(struct str text)
{
	return text.len > 0 && name_has_only(text, "-_./:,");
}

void
report_unknown(struct report *r, const struct error *err)
{
	struct check_result *result = current(r);

	if (result->reason.len == 0)
		result->reason = clean_str(r, str_c(err->msg));
	if (result->result == RESULT_OK)
		result->result = RESULT_UNKNOWN;
}

void
report_unknown_about(struct report *r, const char *kind, struct str name, const struct error *err)
{
	struct error about = *err;

	if (is_about_other(r, kind, name))
		return;
	err_wrap(&about, "%s %" STR_FMT, kind, STR_ARG(name));
	report_unknown(r, &about);
}

void
report_skip(struct report *r, const char *fmt, ...)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LONGEST_TEXT);

	BUF_ADD_ARGS(&text, fmt);
	current(r)->reason = clean_str(r, buf_str(&text));
	current(r)->result = RESULT_SKIPPED;
}

void
report_skip_refused(struct report *r, const char *what)
{
	report_skip(r,
	            "these credentials may not list %s; the ClusterRole ccmd-operator permits it",
	            what);
	current(r)->is_refused = true;
}

/* ---- causes ---- */

static struct check_result *
find_result(const struct report *r, const char *code)
{
	for (size_t i = 0; i < r->n; i++) {
		if (strcmp(r->results[i].check->code, code) == 0)
			return &r->results[i];
	}
	return NULL;
}

void
report_replace(struct report *r, const char *code, const char *kind, struct str name)
{
	struct check_result *earlier = find_result(r, code);
	size_t n = 0;

	for (size_t i = 0; earlier && i < earlier->n_findings; i++) {
		const struct finding *f = &earlier->findings[i];

		if (!str_eq_c(f->kind, kind) || !str_eq(f->name, name))
			earlier->findings[n++] = *f;
	}
	if (!earlier || n == earlier->n_findings)
		return;
	earlier->n_findings = n;
	if (n + earlier->n_dropped > 0)
		return;
	earlier->result = earlier->reason.len > 0 ? RESULT_UNKNOWN : RESULT_SKIPPED;
	if (earlier->reason.len == 0)
		earlier->reason = arena_printf(&r->arena, "what it found is a consequence of %s",
		                               current(r)->check->code);
}

/* A check may name a later one as its cause: the cloud cannot be used because a setting names no
 * network. If that one could not run, the earlier check is the reason, so only a finding counts. */
static const struct check_result *
find_cause(const struct report *r, const struct check_result *result)
{
	const struct check *check = result->check;

	for (size_t i = 0; check->causes[i]; i++) {
		const struct check_result *above = find_result(r, check->causes[i]);

		if (!above)
			continue;
		if (strcmp(above->check->code, check->code) > 0) {
			if (above->result == RESULT_PROBLEM)
				return above;
		} else if (above->result == RESULT_PROBLEM || above->result == RESULT_UNKNOWN) {
			return find_cause(r, above);
		}
	}
	return result;
}

/* Of checks without a common cause that could not run for one reason, the first is the cause. */
static const struct check_result *
find_same_reason(const struct report *r, const struct check_result *result)
{
	const struct check_result *first = r->results;

	while (result->result == RESULT_UNKNOWN &&
	       (first->result != RESULT_UNKNOWN || !str_eq(first->reason, result->reason)))
		first++;
	return result->result == RESULT_UNKNOWN ? first : result;
}

void
report_find_causes(struct report *r)
{
	for (size_t i = 0; i < r->n; i++) {
		struct check_result *result = &r->results[i];
		const struct check_result *cause = result;

		if (result->result == RESULT_PROBLEM || result->result == RESULT_UNKNOWN)
			cause = find_cause(r, result);
		if (cause == result)
			cause = find_same_reason(r, result);
		if (cause != result)
			result->cause = cause->cause ? cause->cause : cause->check;
	}

	/* what a consequence has found is dropped */
	for (size_t i = 0; i < r->n; i++) {
		struct check_result *result = &r->results[i];
		const struct check_result *cause;

		if (!result->cause)
			continue;
		cause = find_result(r, result->cause->code);
		if (result->result == RESULT_PROBLEM) {
			result->reason = arena_printf(&r->arena, "%s: %" STR_FMT,
			                              cause->check->code,
			                              STR_ARG(cause->n_findings > 0
			                                              ? cause->findings[0].message
			                                              : cause->reason));
			result->result = cause->n_findings > 0 ? RESULT_SKIPPED : RESULT_UNKNOWN;
		}
		result->n_findings = result->n_dropped = 0;
	}
}

/* ---- the outcome ---- */

size_t
report_count(const struct report *r, enum result result)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n; i++)
		n += r->results[i].result == result;
	return n;
}

bool
report_is_incomplete(const struct check_result *result)
{
	return result->result == RESULT_UNKNOWN ||
	       (result->result != RESULT_SKIPPED && result->reason.len > 0);
}

int
report_exit_code(const struct report *r)
{
	for (size_t i = 0; i < r->n; i++) {
		if (report_is_incomplete(&r->results[i]))
			return 2;
	}
	return report_count(r, RESULT_PROBLEM) > 0 ? 1 : 0;
}

/* ---- text ---- */

/* Appends a text that begins at that column of a new line. */
static void print_text(struct buf *out, int column, unsigned width, const char *fmt, ...)
	PRINTF_LIKE(4, 5);

static void
print_text(struct buf *out, int column, unsigned width, const char *fmt, ...)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(2 * LONGEST_TEXT);

	BUF_ADD_ARGS(&text, fmt);
	buf_addf(out, "%*s", column, "");
	buf_add_wrapped(out, buf_str(&text), (size_t)column, width);
}

static void
print_count(struct buf *out, const char *before, size_t n, const char *one, const char *many)
{
	if (n > 0)
		buf_addf(out, "%s%zu %s", before, n, n == 1 ? one : many);
}

/* "3 problems, 1 note; 36 checks are ok, 2 could not run." */
static void
print_summary(const struct report *r, bool shows_all, struct buf *out)
{
	size_t n_problems = report_count(r, RESULT_PROBLEM), n_notes = report_count(r, RESULT_NOTE),
	       n_ok = report_count(r, RESULT_OK);

	if (n_problems == 0)
		buf_add_c(out, "No problems");
	print_count(out, "", n_problems, "problem", "problems");
	print_count(out, ", ", n_notes, "note", "notes");
	buf_addf(out, "; %zu check%s ok", n_ok, n_ok == 1 ? " is" : "s are");
	print_count(out, ", ", report_count(r, RESULT_UNKNOWN), "could not run", "could not run");
	buf_addf(out, ".%s\n", shows_all ? "" : " --all shows them.");
}

/* The number of findings from that one on that differ only in the names of their objects. */
static size_t
count_alike(const struct check_result *result, size_t first)
{
	const struct finding *f = &result->findings[first];
	size_t n = 1;

	while (first + n < result->n_findings && str_eq(f[n].kind, f->kind) &&
	       str_eq(f[n].message, f->message) && f[n].is_note == f->is_note)
		n++;
	return n;
}

/* "- node n1: it is gone", or for several "- 300 nodes: node-1 … node-300: it is gone", with the
 * fix of the first. */
static void
print_finding(const struct check_result *result, const struct finding *f, size_t n, unsigned width,
              struct buf *out)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(2 * LONGEST_TEXT);
	bool has_y = str_ends(f->kind, STR("y"));

	buf_add_c(&text, result->result == RESULT_PROBLEM && f->is_note ? "note: " : "");
	if (n > 1)
		buf_addf(&text, "%zu %" STR_FMT "%s: %" STR_FMT " … %" STR_FMT, n,
		         STR_ARG(str_head(f->kind, f->kind.len - has_y)), has_y ? "ies" : "s",
		         STR_ARG(f->name), STR_ARG(f[n - 1].name));
	else
		buf_addf(&text, "%" STR_FMT "%s%" STR_FMT, STR_ARG(f->kind),
		         f->name.len > 0 ? " " : "", STR_ARG(f->name));
	buf_addf(&text, "%s%" STR_FMT, f->kind.len > 0 ? ": " : "", STR_ARG(f->message));
	buf_addf(out, "%*s- ", COLUMN, "");
	buf_add_wrapped(out, buf_str(&text), COLUMN + 2, width);
	if (f->fix.len > 0)
		print_text(out, COLUMN + 2, f->is_command ? 0 : width,
		           "%s%s%" STR_FMT ": %" STR_FMT, f->is_command ? "run" : "fix",
		           n > 1 ? ", for " : "", STR_ARG(n > 1 ? f->name : STR_EMPTY),
		           STR_ARG(f->fix));
}

static void
print_findings(const struct check_result *result, bool shows_all, unsigned width, struct buf *out)
{
	size_t n_left = result->n_dropped;

	print_text(out, COLUMN, width, "%s", result->check->why);
	for (size_t i = 0, n, n_shown = 0; i < result->n_findings; i += n, n_shown++) {
		n = shows_all ? 1 : count_alike(result, i);
		if (n <= MAX_ALIKE)
			n = 1;
		if (!shows_all && n_shown >= MAX_SHOWN)
			n_left += n;
		else
			print_finding(result, &result->findings[i], n, width, out);
	}
	if (n_left > 0)
		print_text(out, COLUMN, width, "and %zu more%s", n_left,
		           shows_all ? "" : "; --all shows them");
}

/* One line for all checks that follow from this one. */
static void
print_followers(const struct report *r, const struct check_result *result, unsigned width,
                struct buf *out)
{
	const struct check *check = result->check;
	size_t n = 0;

	for (size_t i = 0; i < r->n; i++)
		n += r->results[i].cause == check;
	if (n > 0 && check->subject)
		print_text(out, COLUMN, width, "%zu check%s %s (%s)", n,
		           n == 1 ? " needs" : "s need", check->subject, check->code);
	else if (n > 0)
		print_text(out, COLUMN, width, "%zu more check%s could not run for this reason", n,
		           n == 1 ? "" : "s");
}

static void
print_result(const struct report *r, const struct check_result *result, bool has_colours,
             bool shows_all, unsigned width, struct buf *out)
{
	const struct check *check = result->check;

	assert(result->result < ARRAY_LEN(marks));
	buf_addf(out, "  %s%-*s%s %s  %s\n", has_colours ? marks[result->result].colour : "",
	         MARK_WIDTH, marks[result->result].name, has_colours ? "\033[0m" : "", check->code,
	         result->n_findings > 0 ? check->fault : check->title);
	if (result->reason.len > 0)
		print_text(out, COLUMN, width, "%s: %" STR_FMT,
		           result->result == RESULT_SKIPPED ? "not checked" : "could not check",
		           STR_ARG(result->reason));
	if (result->n_findings > 0)
		print_findings(result, shows_all, width, out);
	print_followers(r, result, width, out);
}

static bool
is_notable(const struct check_result *result)
{
	if (result->cause || result->result == RESULT_OK)
		return false;
	return result->result != RESULT_SKIPPED || result->is_refused;
}

void
report_print(const struct report *r, bool has_colours, bool shows_all, unsigned width,
             struct buf *out)
{
	const char *group = "";

	print_summary(r, shows_all, out);
	for (size_t i = 0; i < r->n; i++) {
		const struct check_result *result = &r->results[i];

		if (!shows_all && !is_notable(result))
			continue;
		if (!str_eq_c(str_c(group), result->check->group)) {
			buf_addf(out, "\n%s\n", result->check->group);
			group = result->check->group;
		}
		print_result(r, result, has_colours, shows_all, width, out);
	}
}

/* ---- JSON ---- */

static void
add_finding_json(const struct finding *f, struct buf *out)
{
	json_add_object(out, NULL, JSON_TEXT("kind", f->kind), JSON_TEXT("name", f->name),
	                JSON_TEXT("message", f->message), JSON_TEXT("fix", f->fix),
	                JSON_FLAG("fixIsCommand", f->is_command), JSON_FLAG("isNote", f->is_note));
}

static void
add_result_json(const struct check_result *result, struct buf *out)
{
	const struct check *check = result->check, *cause = result->cause;

	json_begin_object(out, NULL);
	json_add_members(out, JSON_TEXT("code", str_c(check->code)),
	                 JSON_TEXT("group", str_c(check->group)),
	                 JSON_TEXT("title", str_c(check->title)),
	                 JSON_TEXT("fault", str_c(check->fault)),
	                 JSON_TEXT("why", str_c(check->why)),
	                 JSON_TEXT("result", str_c(marks[result->result].name)),
	                 JSON_TEXT("reason", result->reason),
	                 JSON_TEXT("cause", cause ? str_c(cause->code) : STR_EMPTY));
	json_begin_array(out, "findings");
	for (size_t i = 0; i < result->n_findings; i++)
		add_finding_json(&result->findings[i], out);
	json_end_array(out);
	json_add_number(out, "findingsLeftOut", (int64_t)result->n_dropped);
	json_end_object(out);
}

void
report_print_json(const struct report *r, struct view *view, struct buf *out)
{
	json_begin_object(out, NULL);
	if (view)
		view_add_json(view, out);
	json_add_number(out, "exitCode", report_exit_code(r));
	json_begin_array(out, "checks");
	for (size_t i = 0; i < r->n; i++)
		add_result_json(&r->results[i], out);
	json_end_array(out);
	json_end_object(out);
	buf_add_char(out, '\n');
}
