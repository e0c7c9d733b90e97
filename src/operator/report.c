/* operator/report.c: see report.h. */
#include "operator/report.h"

#include <assert.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/names.h"

enum {
	MARK_WIDTH = 8, /* "problem" and a blank */
	MAX_SHOWN = 10, /* findings of one check */
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
	return r->only_kind && (strcmp(kind, r->only_kind) != 0 || !str_eq(name, r->only_name));
}

/* A text that may have foreign parts, as one line without control characters. */
static struct str
clean_str(struct report *r, struct str text)
{
	CLEANUP(buf_fini) struct buf clean = BUF_INIT(LONGEST_TEXT);

	buf_add_clean(&clean, text);
	return arena_str(&r->arena, buf_str(&clean));
}

static struct str
clean_text(struct report *r, const char *fmt, va_list args)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LONGEST_TEXT);

	buf_addv(&text, fmt, args);
	return clean_str(r, buf_str(&text));
}

void
report_begin(struct report *r, const struct check *check)
{
	ARRAY_PUSH(r->results, r->n, r->cap, (struct check_result){ .check = check });
	r->last = NULL;
}

static void
add_finding(struct report *r, bool is_note, const char *kind, struct str name, const char *fmt,
            va_list args)
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
	finding.message = clean_text(r, fmt, args);
	ARRAY_PUSH(result->findings, result->n_findings, result->cap, finding);
	r->last = &result->findings[result->n_findings - 1];
}

void
report_find(struct report *r, const char *kind, struct str name, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	add_finding(r, /*is_note=*/false, kind, name, fmt, args);
	va_end(args);
}

void
report_note(struct report *r, const char *kind, struct str name, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	add_finding(r, /*is_note=*/true, kind, name, fmt, args);
	va_end(args);
}

void
report_fix(struct report *r, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	if (r->last)
		r->last->fix = clean_text(r, fmt, args);
	va_end(args);
}

void
report_command(struct report *r, const char *fmt, ...)
{
	va_list args;

	assert(current(r)->check->fix != FIX_BY_HAND);
	va_start(args, fmt);
	if (r->last) {
		r->last->fix = clean_text(r, fmt, args);
		r->last->is_command = true;
	}
	va_end(args);
}

bool
report_is_plain(struct str text)
{
	return text.len > 0 && name_has_only(text, "-_./:,");
}

const char *
report_fix_word(const struct finding *finding)
{
	return finding->is_command ? "run" : "fix";
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
	va_list args;

	va_start(args, fmt);
	current(r)->reason = clean_text(r, fmt, args);
	va_end(args);
	current(r)->result = RESULT_SKIPPED;
}

void
report_skip_refused(struct report *r, const char *what)
{
	report_skip(r,
	            "these credentials may not list %s; the ClusterRole ccmd-operator permits it "
	            "(docs/helm.md, \"Rights\")",
	            what);
	current(r)->is_refused = true;
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

static void
print_findings(const struct check_result *result, bool shows_all, struct buf *out)
{
	size_t n_all = result->n_findings + result->n_dropped, n = result->n_findings;

	if (!shows_all && n > MAX_SHOWN)
		n = MAX_SHOWN;
	for (size_t i = 0; i < n; i++) {
		const struct finding *f = &result->findings[i];

		buf_addf(out, "           - %s%" STR_FMT "%s%" STR_FMT "%s%" STR_FMT "\n",
		         result->result == RESULT_PROBLEM && f->is_note ? "note: " : "",
		         STR_ARG(f->kind), f->name.len > 0 ? " " : "", STR_ARG(f->name),
		         f->kind.len > 0 ? ": " : "", STR_ARG(f->message));
		if (f->fix.len > 0)
			buf_addf(out, "             %s: %" STR_FMT "\n", report_fix_word(f),
			         STR_ARG(f->fix));
	}
	if (n < n_all)
		buf_addf(out, "           and %zu more%s\n", n_all - n,
		         shows_all ? "" : "; --all shows them");
	buf_addf(out, "           Why: %s\n", result->check->why);
	buf_addf(out, "           More: docs/doctor.md, \"%s\"\n", result->check->code);
}

/* Where many checks could not run for one reason, only the first one shows it. */
static void
print_reason(const struct report *r, const struct check_result *result, struct buf *out)
{
	const struct check_result *first = r->results;

	while (!str_eq(first->reason, result->reason))
		first++;
	buf_addf(out, "           %s: ",
	         result->result == RESULT_SKIPPED ? "not checked" : "could not check");
	if (first < result && result->result == RESULT_UNKNOWN)
		buf_addf(out, "see %s\n", first->check->code);
	else
		buf_addf(out, "%" STR_FMT "\n", STR_ARG(result->reason));
}

void
report_print(const struct report *r, bool has_colours, bool shows_all, struct buf *out)
{
	size_t n_notes = report_count(r, RESULT_NOTE);
	const char *group = "";

	for (size_t i = 0; i < r->n; i++) {
		const struct check_result *result = &r->results[i];

		if (!str_eq_c(str_c(group), result->check->group)) {
			buf_addf(out, "%s%s\n", i > 0 ? "\n" : "", result->check->group);
			group = result->check->group;
		}
		if (result->result == RESULT_SKIPPED && !result->is_refused && !shows_all)
			continue;
		buf_addf(out, "  %s%-*s%s %s  %s\n",
		         has_colours ? marks[result->result].colour : "", MARK_WIDTH,
		         marks[result->result].name, has_colours ? "\033[0m" : "",
		         result->check->code,
		         result->n_findings > 0 ? result->check->fault : result->check->title);
		if (result->reason.len > 0)
			print_reason(r, result, out);
		if (result->n_findings > 0)
			print_findings(result, shows_all, out);
	}
	buf_addf(out, "\n%zu of %zu checks found a problem, %zu could not run, %zu did not apply.",
	         report_count(r, RESULT_PROBLEM), r->n, report_count(r, RESULT_UNKNOWN),
	         report_count(r, RESULT_SKIPPED));
	if (n_notes > 0)
		buf_addf(out, " %zu found only notes, which need no attention.", n_notes);
	buf_add_char(out, '\n');
}

/* ---- JSON ---- */

void
report_print_json(const struct report *r, struct buf *out)
{
	json_begin_object(out, NULL);
	json_add_number(out, "exitCode", report_exit_code(r));
	json_begin_array(out, "checks");
	for (size_t i = 0; i < r->n; i++) {
		const struct check_result *result = &r->results[i];

		json_begin_object(out, NULL);
		json_add_text(out, "code", str_c(result->check->code));
		json_add_text(out, "group", str_c(result->check->group));
		json_add_text(out, "title", str_c(result->check->title));
		json_add_text(out, "why", str_c(result->check->why));
		json_add_text(out, "result", str_c(marks[result->result].name));
		json_add_text(out, "reason", result->reason);
		json_begin_array(out, "findings");
		for (size_t j = 0; j < result->n_findings; j++) {
			const struct finding *finding = &result->findings[j];

			json_begin_object(out, NULL);
			json_add_text(out, "kind", finding->kind);
			json_add_text(out, "name", finding->name);
			json_add_text(out, "message", finding->message);
			json_add_text(out, "fix", finding->fix);
			json_add_flag(out, "fixIsCommand", finding->is_command);
			json_add_flag(out, "isNote", finding->is_note);
			json_end_object(out);
		}
		json_end_array(out);
		json_add_number(out, "findingsLeftOut", (int64_t)result->n_dropped);
		json_end_object(out);
	}
	json_end_array(out);
	json_end_object(out);
	buf_add_char(out, '\n');
}
