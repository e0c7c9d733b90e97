/* base/dry_run.h: a dry run, in which changes are noted and not made.
 *
 * With --dry-run, and in `ccmd plan`, the controllers run as always, with the same decisions from
 * the same state. Only the last step differs: code that is about to send a write to the API server
 * or to a cloud, and finds call->dry set, notes the change here and continues as if the write had
 * succeeded. If it needs the answer (the ID of something new), it makes one up from the request.
 *
 * This is not what prevents writes: http_set_read_only() makes every HTTP client refuse them, and a
 * closed read-only fence (base/fence.h) stops hooks and file writes. Code that forgets to check
 * call->dry fails there, and `ccmd plan` then ends with an error that names the change.
 *
 * Threads: any.
 */
#ifndef CCMD_BASE_DRY_RUN_H
#define CCMD_BASE_DRY_RUN_H

#include "base/error.h"
#include "base/str.h"

enum dry_verb {
	DRY_CREATE,
	DRY_CHANGE,
	DRY_DELETE,
};

/** A member that differs. */
struct dry_field {
	struct str name;     /* "taint node.kubernetes.io/x", "algorithm" */
	struct str old, new; /* empty: it is not there before, or not there afterwards */
};

/** One write. All views are borrowed for the length of dry_note(). */
struct dry_change {
	enum dry_verb verb;
	const char *what; /* "node", "load balancer", "route"; a constant */
	struct str name;  /* the name or ID of that thing; empty: the cluster object's own */
	/* "PATCH /api/v1/nodes/n1": method and path. "{id}" in it stands for an ID that does not
	 * exist yet. Empty: the change is not one HTTP request */
	struct str request;
	/* the request goes to the cloud, not to the API server */
	bool is_cloud;
	const struct dry_field *fields;
	size_t n_fields;
	struct str body; /* of a PATCH of a node; empty: not given */
};

/** A deletion that a guard holds. */
struct dry_hold {
	int64_t wait_ns;       /* until it is due; CLOCK_FOREVER: until something is corrected */
	const char *verdict;   /* "too_many"; a constant */
	const char *condition; /* completes "if …"; without a time, "held: …"; a constant */
};

struct dry_item;

/** The receiver of the changes. Embedded in the receiver's own struct (CONTAINER_OF). */
struct dry_run {
	void (*note)(struct dry_run *, const struct dry_item *, const struct dry_change *);
	/* Work on the item ended in an error, so what it would have changed is not known. The work
	 * is retried as always, and may fail again. NULL: errors are ignored */
	void (*failed)(struct dry_run *, const struct dry_item *, const struct error *);
	/* The item asks for something that the cloud can never change, so that stays as it is.
	 * NULL: as failed */
	void (*kept)(struct dry_run *, const struct dry_item *, const struct error *);
	/* NULL: held deletions are ignored */
	void (*held)(struct dry_run *, const struct dry_item *, const struct dry_hold *);
};

/** The cluster object that a work item is about. The worker that makes the struct call sets it. */
struct dry_item {
	struct dry_run *run;
	const char *kind; /* "node", "service", "route"; a constant */
	/* "n1", "namespace/name", a route's destination; empty: all objects of that kind, for work
	 * that is not about a single one, such as listing the cloud's routes */
	struct str name;
	struct str version; /* its resource version; empty: it has none */
};

/** Notes a change. item: call->dry, not NULL. */
static inline void
dry_note(const struct dry_item *item, const struct dry_change *change)
{
	item->run->note(item->run, item, change);
}

/** Notes that work ended in an error, unless item is NULL or the work was cancelled. */
static inline void
dry_failed(const struct dry_item *item, const struct error *err)
{
	if (item && item->run->failed && err->code != ERR_CANCELLED)
		item->run->failed(item->run, item, err);
}

/** Notes that something stays different from what the item asks for. item: not NULL. */
static inline void
dry_kept(const struct dry_item *item, const struct error *why)
{
	if (item->run->kept)
		item->run->kept(item->run, item, why);
	else
		dry_failed(item, why);
}

/** Notes that the deletion of the item is held. item: not NULL. */
static inline void
dry_held(const struct dry_item *item, const struct dry_hold *hold)
{
	if (item->run->held)
		item->run->held(item->run, item, hold);
}

/* ---- the receiver for --dry-run, which logs the changes ----
 *
 * A dry run does not carry out decisions, so a controller makes the same ones again and again.
 * Therefore a change is logged once for each version of the object that it is noted for, and again
 * if its fields differ. Up to LIMIT_DRY_OBJECTS objects are remembered; then the one that was seen
 * first is forgotten, and its changes may be logged a second time. */

struct dry_run *dry_log_new(void);
void dry_log_free(struct dry_run *); /* NULL is fine */

#endif
