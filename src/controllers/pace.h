/* controllers/pace.h: how often we react to changes of one object.
 *
 * Whoever else writes to an object, another controller or a person's loop, may undo what we wrote as soon as it sees it. Each
 * reaction that such a writer can cause is counted here: the first PACE_FREE are immediate, the next ones wait for 10 s,
 * 20 s, … up to 5 min since the one before, so that an hour of fighting costs PACE_HOUR reactions. After 10 min without
 * one it begins afresh. docs/errors.md lists the reactions.
 *
 * Threads: any, for struct paces; struct pace is its owner's.
 */
#ifndef CCMD_CONTROLLERS_PACE_H
#define CCMD_CONTROLLERS_PACE_H

#include "base/clock.h"
#include "base/str.h"

enum {
	PACE_FREE = 5,
	PACE_HOUR = 21, /* at most so many in the first hour; 12 in each that follows */
};

/** Of one object and one reaction; zeroed: none yet. */
struct pace {
	int64_t last_mono_ns; /* the last reaction */
	unsigned n;           /* so far, without 10 min of quiet between two */
};

/** 0: react now, which is counted. Else how long to wait before asking again. */
int64_t pace_take(struct pace *, int64_t now_mono_ns);

/** Of objects that nobody keeps a record of. Those that have been quiet are forgotten, all where there are too many. */
struct paces;

struct paces *paces_new(struct clock *clock);
void paces_free(struct paces *); /* NULL is fine */
/** The same, for the object with that UID. reaction is a literal. */
int64_t paces_take(struct paces *, struct str uid, const char *reaction);
/** Counts one that comes after the time returned, without asking again; until then further ones are part of it. */
int64_t paces_reserve(struct paces *, struct str uid, const char *reaction);
/** The same as paces_take() without counting, for reactions that are counted by paces_take() once they have succeeded. */
int64_t paces_look(struct paces *, struct str uid, const char *reaction);
/** How many are remembered. */
size_t paces_count(struct paces *);

#endif
