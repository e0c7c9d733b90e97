/* journal.h: the records by UID, in memory and in the state file alike. Only for allocations.c.
 *
 * A change is made in both places or in neither. Changes of several Services share a write: the
 * first caller writes all changes that are waiting, and callers that arrive during a write wait for
 * the next one. Until a change is written, the journal holds the old and the new record: readers
 * see the old one, and the addresses of both are taken.
 *
 * Threads: all functions are called with `mu` held, which is also the lock of struct
 * cl_allocations. Changes of one UID are made one after the other.
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
	uint64_t version;          /* mu: counts changes of what balancers do */
	uint64_t n_freed;          /* mu: counts changes that made an address free */
};

void cl_journal_init(struct cl_journal *, struct cl_state *state, struct clock *clock);
void cl_journal_fini(struct cl_journal *);
/** Removes all records; no change may be in progress. */
void cl_journal_clear(struct cl_journal *);

/** The written record of that UID, or NULL. Borrowed until it is changed. */
struct cl_record *cl_journal_get(const struct cl_journal *, struct str uid);
/** All records that hold addresses: the written ones and those being written. Borrowed until they
 * are changed; free() the array. */
const struct cl_record **cl_journal_all(const struct cl_journal *, size_t *ret_n);
/** The written records, one reference each: cl_records_free(). */
struct cl_record **cl_journal_list(const struct cl_journal *, size_t *ret_n);

/** Replaces the record of that UID without writing. Takes the reference. */
void cl_journal_set(struct cl_journal *, struct cl_record *record);
/** Replaces the record of that UID (NULL: removes it), in memory and in the file, or in neither.
 * Takes the reference. is_visible: the change concerns what balancers do. Releases the lock while
 * it waits. */
NODISCARD bool cl_journal_change(struct cl_journal *, struct str uid, struct cl_record *record,
                                 bool is_visible, struct error *err);
/** Writes all records. */
NODISCARD bool cl_journal_save(struct cl_journal *, struct error *err);

/** Is a change being written or waiting to be written? */
bool cl_journal_is_busy(const struct cl_journal *);

#endif
