/* operator/report.h: what the checks of a command found, and how it is printed.
 *
 * Each check has one result. A check that ran without a problem is OK; one that found problems has
 * one finding for each affected object; one that could not run is UNKNOWN, with the reason,
 * and does not keep the others from running; one that does not apply here is SKIPPED. A finding
 * that an installation may live with, such as a flag without effect, is a note: it does not change
 * the exit code.
 *
 * The text is for people: groups, one line for each check, and below it the findings. The JSON has
 * the same content, and its members are only ever added to (docs/doctor.md, "JSON").
 *
 * Threads: one.
 */
#ifndef CCMD_OPERATOR_REPORT_H
#define CCMD_OPERATOR_REPORT_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"

struct checked_node;
struct checked_service;
struct doctor;
struct report;
struct view;

enum result {
	RESULT_OK,
	RESULT_NOTE, /* there are findings, and all of them are notes */
	RESULT_PROBLEM,
	RESULT_UNKNOWN, /* the check could not run */
	RESULT_SKIPPED, /* the check does not apply */
};

/** How the findings of a check are put right. */
enum check_fix {
	FIX_BY_HAND, /* somebody has to decide, or to act outside of the cluster */
	FIX_EITHER,  /* by the command that the finding has, or by hand if it has none */
};

enum {
	MAX_CAUSES = 5,
};

/** A check: a row of a table. All texts are constants. */
struct check {
	const char *code;  /* "CCMD001"; never given to another check */
	const char *group; /* "Nodes"; checks of one group are neighbours */
	const char *title; /* what is true if nothing is wrong: "The API server responds" */
	const char *fault; /* what is true if something is: "The API server does not respond" */
	const char *why;   /* why it matters, a sentence */
	void (*run)(struct doctor *, struct report *);
	enum check_fix fix;
	/* parts of the view, VIEW_NODES: if they cannot be read, it is UNKNOWN; and of enum
	 * check_condition */
	unsigned needs;
	const char *causes[MAX_CAUSES + 1]; /* the codes of checks; NULL at the end */
	const char *subject; /* of a cause: what the other checks need, "the API server" */
	/* in place of run(), for each node, or for each Service of any type */
	void (*each_node)(struct doctor *, struct report *, const struct checked_node *);
	void (*each_service)(struct doctor *, struct report *, const struct checked_service *);
};

/** All texts are in the report's arena. */
struct finding {
	struct str kind;    /* "node", "service", "lease", "flag"…; empty: the cluster as a whole */
	struct str name;    /* "worker-1", "default/web"; empty like kind */
	struct str message; /* what is wrong, a sentence without a full stop at its end */
	struct str fix;     /* what to do */
	bool is_command;    /* fix is a command that can be run as it is, and after which nothing is
	                       wrong */
	bool is_note;
};

struct check_result {
	const struct check *check;
	enum result result;
	/* UNKNOWN, SKIPPED: why. NOTE, PROBLEM: why there may be further findings; empty: there are
	 * none */
	struct str reason;
	/* UNKNOWN, SKIPPED: the check of which it is a consequence; NULL: none */
	const struct check *cause;
	struct finding *findings;
	size_t n_findings, cap;
	size_t n_dropped; /* findings beyond LIMIT_FINDINGS */
	bool is_refused;  /* SKIPPED for lack of a right, which the report always shows */
};

struct report {
	struct arena arena;
	struct check_result *results;
	size_t n, cap;
	struct finding *last; /* that was added; NULL: it was not kept */
	/* If set, only findings about this object and about the cluster as a whole are kept. */
	const char *only_kind; /* a constant */
	struct str only_name;
};

#define REPORT_INIT ((struct report){ 0 })
void report_fini(struct report *); /* for CLEANUP */

/** Begins the next check; the functions below are about it until the next one begins. */
void report_begin(struct report *, const struct check *check);
/** Adds a finding. kind and name are copied. */
void report_find(struct report *, const char *kind, struct str name, const char *fmt, ...)
	PRINTF_LIKE(4, 5);
/** The same for a note. */
void report_note(struct report *, const char *kind, struct str name, const char *fmt, ...)
	PRINTF_LIKE(4, 5);
/** Sets what somebody has to do about the finding that was added last. */
void report_fix(struct report *, const char *fmt, ...) PRINTF_LIKE(2, 3);
/** The same for a command. Foreign parts must be names of Kubernetes objects, or values that
 * report_is_plain(). tests/scenario/test_doctor_fixes.py runs those of each check. */
void report_command(struct report *, const char *fmt, ...) PRINTF_LIKE(2, 3);
/** Does the text mean itself in a shell, without quotation marks? */
bool report_is_plain(struct str text);
/** The check could not run, or only for a part of the objects: it is UNKNOWN, unless it has
 * findings. Of several reasons the first is kept. */
void report_unknown(struct report *, const struct error *err);
/** The check could not run for this object. */
void report_unknown_about(struct report *, const char *kind, struct str name,
                          const struct error *err);
/** Drops what an earlier check found about this object, because the present one found its cause. */
void report_replace(struct report *, const char *code, const char *kind, struct str name);
/** The check does not apply. The text completes "not checked: ". */
void report_skip(struct report *, const char *fmt, ...) PRINTF_LIKE(2, 3);
/** The same if these credentials may not list what the check needs, such as "Leases": the check
 * does not apply to them, and the report says what was not read. */
void report_skip_refused(struct report *, const char *what);

size_t report_count(const struct report *, enum result result);
/** Could the check not run, or only for a part of the objects? The reason says why. */
bool report_is_incomplete(const struct check_result *);
/** 0: nothing to do; 1: there are problems; 2: a check could not run, or only for a part of the
 * objects, so there may be problems besides those that were found. */
int report_exit_code(const struct report *);

/** To be called after all checks: of each check that is a consequence, the findings are dropped. It
 * is then UNKNOWN, or SKIPPED if its cause has a finding. */
void report_find_causes(struct report *);

/** Appends the text. With colours: for a terminal. shows_all: also the checks that are OK or were
 * skipped, and each finding by itself. width: of the terminal; 0: lines are not wrapped. */
void report_print(const struct report *, bool has_colours, bool shows_all, unsigned width,
                  struct buf *out);
/** Appends the JSON object and a line feed. NULL: without what identifies the report. */
void report_print_json(const struct report *, struct view *, struct buf *out);

#endif
