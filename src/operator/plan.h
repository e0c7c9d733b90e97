/* operator/plan.h: what the controllers would do now, for `ccmd plan`.
 *
 * The command runs the controllers in this process, with a struct dry_run that collects their
 * changes here (base/dry_run.h). So the plan and the controllers decide by the same code. When the
 * controllers have worked on everything once, the result is printed: first the nodes, then the
 * Services, then the routes, each by name, with the differences of each.
 *
 * A change that depends on the time is no difference yet, but a step for later: a node is deleted
 * only after two looks at the cloud. An object for which the controllers would fail until somebody
 * corrects something stays as it is, for that reason: that is a result. An object that could not be
 * computed is listed with its error; what is printed about the other objects is complete.
 *
 * Memory is bounded: beyond LIMIT_PLAN bytes, changes are only counted.
 *
 * Threads: the functions that note something, any; the others, one, when the controllers have
 * ended.
 */
#ifndef CCMD_OPERATOR_PLAN_H
#define CCMD_OPERATOR_PLAN_H

#include <pthread.h>
#include <sys/queue.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/dry_run.h"
#include "base/error.h"
#include "base/map.h"

struct plan;
struct plan_object;
struct view;

struct plan *plan_new(void);
void plan_free(struct plan *); /* NULL is fine */
DEFINE_CLEANUP(struct plan, plan_free)

/** For the controllers: collects their changes. A change that is noted again counts once, and
 * replaces the one that was computed from an older version of the object. */
struct dry_run *plan_dry_run(struct plan *);

/** The object could not be computed, or stays as it is until somebody corrects something. kind is a
 * constant; an empty name: all objects of the kind. Of several errors of one object the last one
 * counts, of several reasons to stay the first one. */
void plan_note_failure(struct plan *, const char *kind, struct str name, const struct error *err);

/** A change that depends on the time. */
struct plan_step {
	enum dry_verb verb;
	int64_t not_before_wall_ns; /* 0: it waits for somebody to correct something */
	const char *verdict;        /* "unconfirmed"; a constant */
	struct str condition;       /* completes "if …"; without a time, "held: …" */
};
void plan_note_step(struct plan *, const char *kind, struct str name, const struct plan_step *step);

/** For an object with changes: what the leader's last attempt at it ended in. */
void plan_note_last_failure(struct plan *, struct plan_object *, struct str text);

/** The controller of these objects ("routes") does not run, and why not; both are constants. */
void plan_note_skipped(struct plan *, const char *what, const char *reason);

/** 0: there is nothing to do; 1: there is, or will be; 2: something could not be computed. */
int plan_exit_code(const struct plan *);

/** Appends the text. With colours: for a terminal. now_wall_ns: for the steps that wait. */
void plan_print(const struct plan *, bool has_colours, int64_t now_wall_ns, struct buf *out);
/** Appends the JSON object and a line feed (docs/plan.md, "JSON"). */
void plan_print_json(const struct plan *, struct buf *out);

/* ---- plan_run.c ---- */

enum plan_scope {
	PLAN_NODES = 1,
	PLAN_SERVICES = 2,
	PLAN_ROUTES = 4,
	PLAN_ALL = PLAN_NODES | PLAN_SERVICES | PLAN_ROUTES,
};

/** "nodes", "services", "routes" or "all". False: it is none of these. */
NODISCARD bool plan_parse_scope(struct str text, unsigned *ret);

/** Runs the controllers of these objects until they have handled all of them once, and collects
 * what they would change. What could not be computed is noted. scope: of enum plan_scope. */
void plan_run(struct plan *, struct view *, unsigned scope);

/* ---- what a plan consists of, for plan.c and plan_print.c ---- */

/* A request. */
struct plan_change {
	STAILQ_ENTRY(plan_change) next;
	enum dry_verb verb;
	bool is_cloud;
	const char *what;
	struct str name, request, version;
	struct dry_field *fields;
	size_t n_fields;
};
STAILQ_HEAD(plan_changes, plan_change);

/* A cluster object, and all that is known about it. */
struct plan_object {
	struct str key; /* "node n1" */
	const char *kind;
	struct str name;
	struct plan_changes changes;
	struct str error;        /* empty: none */
	struct str last_failure; /* of the leader; empty: none */
	/* why it, or a part of it, stays as it is: the first reason, and the number of reasons */
	struct str stays;
	size_t n_stays;
	bool has_step;
	struct plan_step step;
};

enum {
	PLAN_MAX_SKIPPED = 4, /* one for each controller */
};

struct plan {
	struct dry_run dry;
	pthread_mutex_t mu;
	/* everything below: mu */
	struct arena arena;
	struct map by_key;
	struct plan_object **objects;
	size_t n, cap;
	size_t n_cloud, n_server; /* requests */
	size_t n_left_out;        /* requests beyond LIMIT_PLAN, which are counted as well */
	struct {
		const char *what, *reason;
	} skipped[PLAN_MAX_SKIPPED];
	size_t n_skipped;
};

#endif
