/* journal.h: the records by UID, in memory and in the state file alike. Only for allocations.c.
 *
 * A change is made in both, or in neither. Changes of several Services share a write: the first who comes writes for all
 * that have come until then, and who comes meanwhile waits for the next. Until a change is written the journal has both, what
 * was and what is to be: others see what is written, and neither's addresses are free.
 *
 * Threads: the journal's lock is the allocations'; all functions are called with it held. Of one UID, one change after the other.
 */
#ifndef CCMD_CLOUDLYCKE_JOURNAL_H
#define CCMD_CLOUDLYCKE_JOURNAL_H

#include <pthread.h>

#include "base/map.h"
#include "providers/cloudlycke/state.h"

struct cl_change;

struct cl_journal {
	struct cl_state *state;
	struct clock *clock;
	pthread_mutex_t mu;
	pthread_cond_t written;    /* mu: a write ended */
	struct map entries;        /* mu: by UID */
	struct cl_change *waiting; /* mu: for the next write */
	bool is_writing;           /* mu */
	uint64_t version;          /* mu: counts what balancers do otherwise */
	uint64_t n_freed;          /* mu: counts changes that made an address free */
};

void cl_journal_init(struct cl_journal *, struct cl_state *state, struct clock *clock);
void cl_journal_fini(struct cl_journal *);
/** Forgets all; nothing may be under way. */
void cl_journal_clear(struct cl_journal *);

/** What is written of that UID, or NULL. Borrowed until it is changed. */
struct cl_record *cl_journal_get(const struct cl_journal *, struct str uid);
/** All that have addresses: what is written, and what is to be. Borrowed like that; free() the array. */
const struct cl_record **cl_journal_all(const struct cl_journal *, size_t *ret_n);
/** What is written: one reference each; free() the array. */
struct cl_record **cl_journal_list(const struct cl_journal *, size_t *ret_n);

/** Puts it in the place of what is there, without writing. Takes the reference. */
void cl_journal_set(struct cl_journal *, struct cl_record *record);
/** Puts the record (NULL: none) in the place of what is there for that UID, here and in the file, or nowhere. Takes the
 * reference. is_visible: it makes balancers do something else. Lets the lock go while it waits. */
NODISCARD bool cl_journal_change(struct cl_journal *, struct str uid, struct cl_record *record,
                                 bool is_visible, struct error *err);
/** Writes all that is there. */
NODISCARD bool cl_journal_save(struct cl_journal *, struct error *err);

/** Is a change being written, or does one wait for that? */
bool cl_journal_is_busy(const struct cl_journal *);

#endif
