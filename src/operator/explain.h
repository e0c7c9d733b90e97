/* operator/explain.h: `ccmd explain`: why one node, Service or route is in its state.
 *
 * It uses what doctor uses: the same view, and the same checks, of which only findings about this
 * object are kept. The leader is asked for what only it knows (operator/leader.h). Without an
 * answer the lines that need it are missing, and a gap says why.
 *
 * 	explain.c          what is read for all kinds of objects; text and JSON
 * 	explain_objects.c  the sentences about nodes, Services and routes
 *
 * Threads: one.
 */
#ifndef CCMD_OPERATOR_EXPLAIN_H
#define CCMD_OPERATOR_EXPLAIN_H

#include "operator/leader.h"
#include "operator/report.h"

enum {
	EXPLAIN_MAX_ROWS = 12,
	EXPLAIN_MAX_GAPS = 8,
};

/** A property of the object, as the cluster and as the cloud has it. */
struct explain_row {
	const char *name; /* a constant */
	struct str cluster, cloud;
	bool differs; /* and that is worth attention */
};

/** Something that could not be found out. */
struct explain_gap {
	const char *what; /* a constant */
	struct str why;
};

/** Texts live as long as the view. They may be foreign; printing cleans them. */
struct explanation {
	struct view *view;
	struct described what;
	int64_t now_s;
	bool exists; /* in the cluster; a route: in the cluster or in the cloud */
	/* of the object that exists now; no UID: it does not exist, or is a route */
	struct str uid;
	int64_t created_s;
	/* Sentences without a full stop. Empty: there is nothing to say. */
	struct str identity; /* what the object is to ccmd */
	struct str state;    /* and since when */
	struct str waits_for;
	struct str next; /* what happens next, and when */
	struct report problems;
	struct explain_row rows[EXPLAIN_MAX_ROWS];
	size_t n_rows;
	struct leader_event *events; /* the oldest first */
	size_t n_events;
	struct explain_gap gaps[EXPLAIN_MAX_GAPS];
	size_t n_gaps;
	bool is_unknown; /* a gap concerns the state in the cluster or in the cloud */
};

/** Reads everything. what->key must outlive *ret. view->ask is about this object, or about all in
 * trouble. */
void explain_read(struct view *, const struct described *what, struct explanation *ret);
void explanation_fini(struct explanation *);

/** 0: nothing to do; 1: there are problems, or the object does not exist; 2: a part of its state
 * could not be found out. */
int explain_exit_code(const struct explanation *);
/** width: of the terminal; 0: lines are not wrapped. */
void explain_print(const struct explanation *, bool has_colours, unsigned width, struct buf *out);
/** Appends one JSON object and a line feed (docs/explain.md, "JSON"). */
void explain_print_json(const struct explanation *, struct buf *out);

/* ---- for explain_objects.c ---- */

/** Notes what could not be found out. */
void explain_note_gap(struct explanation *, const char *what, const struct error *err);
/** Adds a row of the comparison, unless neither side has anything. */
void explain_add_row(struct explanation *, const char *name, struct str cluster, struct str cloud,
                     bool differs);
/** "2026-01-02T03:04:05Z (5m ago)"; the text alone if it is no time, or in the future. */
struct str explain_since(struct explanation *, struct str rfc3339);
/** The root of the leader's answer; NULL: there is none, or the process does not lead. */
yyjson_val *explain_leader(const struct explanation *);
/** Reads the object as the API server has it, for members that the projections leave out; at most
 * once. NULL: it does not exist, or could not be read. */
yyjson_val *explain_raw(struct explanation *, const char *list_path, struct str name);

/** Each fills identity, state, waits_for, next and rows. The leader was asked before. */
void explain_node(struct explanation *);
void explain_service(struct explanation *);
void explain_route(struct explanation *);

#endif
