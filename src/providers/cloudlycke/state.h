/* state.h: what each Service and each route was given, in memory and in the state file alike.
 *
 * The file has what cannot be read from anywhere else. For each Service, by its UID, these are its
 * name, its addresses, and what its hook was last run for, with the result; and there are the
 * routes. Everything else about a balancer is made again from its Service at the next start. A
 * balancer whose Service is gone stays in the file, and so its addresses stay reserved.
 *
 * A change is made in memory and in the file, or in neither. Changes that arrive during a write
 * share the next one. Until a change is written there are two records of that Service, the old and
 * the new one: readers see the old one, and the addresses of both are taken.
 *
 * The file is replaced as a whole; the previous content is kept as FILE.bak. FILE.lock is held for
 * the life of the process, so one process uses the file at a time. A file of a newer version is not
 * read and not written: the process then works without one.
 *
 * Threads: any. Functions that say so are called with `mu` held. Changes of one Service are made
 * one after the other.
 */
#ifndef CCMD_CLOUDLYCKE_STATE_H
#define CCMD_CLOUDLYCKE_STATE_H

#include <pthread.h>
#include <sys/queue.h>

#include "base/map.h"
#include "cloud/host.h"
#include "providers/cloudlycke/record.h"

struct cl_change;

struct cl_state {
	const struct cloud_host *host;
	char *path, *backup, *lock_path; /* NULL: in memory only */
	struct cl_targets *no_targets;   /* of records that were read from the file */
	bool is_read_only;               /* as in struct cloud_config */

	pthread_mutex_t mu;
	pthread_cond_t written; /* mu: a write ended */
	int lock_fd;            /* mu; -1: not locked */
	bool is_taken;          /* mu: cl_state_take() succeeded */
	bool is_newer;          /* mu: the file has a version that we do not know */
	bool has_file;   /* mu, or the writer's: there is a good one, to be kept as FILE.bak */
	bool is_writing; /* mu */
	SLIST_HEAD(, cl_change) waiting; /* mu: changes for the next write */
	struct map entries;              /* mu: by UID */
	struct buf routes;               /* mu: JSON as it was read or last written; or empty */
	struct str next_routes;          /* mu: during a change: what replaces it; ptr NULL: none */
	uint64_t version;                /* mu: counts changes of what balancers do */
	uint64_t n_freed;                /* mu: counts changes that made an address free */
};

/** When the file is taken, as by cl_state_take(). */
enum cl_state_use {
	CL_STATE_NOW,      /* by cl_state_open(): no other process can hold the lock */
	CL_STATE_LATER,    /* only the leader may use it */
	CL_STATE_READ_ONLY /* it is read later, but neither locked nor written */
};

/** Reads the file, to see whether it is valid. path empty: a state that is only in memory. host
 * outlives it. */
NODISCARD bool cl_state_open(struct str path, enum cl_state_use use, const struct cloud_host *host,
                             struct cl_state **ret, struct error *err);
/** Releases the lock. NULL is fine. No change may be in progress. */
void cl_state_free(struct cl_state *);
DEFINE_CLEANUP(struct cl_state, cl_state_free)

/** Locks the file and reads what the former leader wrote; does nothing when run again. A file that
 * does not exist counts as empty. ERR_CONFLICT: another process has it; ERR_INVALID: it is
 * damaged. */
NODISCARD bool cl_state_take(struct cl_state *, struct error *err);

/* ---- balancers; all are called with `mu` held ---- */

/** The written record of that UID, or NULL. Borrowed until it is changed. */
struct cl_record *cl_state_get(const struct cl_state *, struct str uid);
/** All records that hold addresses: the written ones and those being written. Borrowed until they
 * are changed; free() the array. */
const struct cl_record **cl_state_all(const struct cl_state *, size_t *ret_n);
/** The written records, sorted by name, one reference each: cl_records_free(). */
struct cl_record **cl_state_list(const struct cl_state *, size_t *ret_n);
/** Is a change being written or waiting to be written? */
bool cl_state_is_busy(const struct cl_state *);

/** Replaces the record of that UID (NULL: removes it), in memory and in the file, or in neither.
 * Takes the reference. Writes nothing when the file would say the same. Checks the fence. Releases
 * the lock while it writes or waits. */
NODISCARD bool cl_state_change(struct cl_state *, struct str uid, struct cl_record *record,
                               struct error *err);

/** For a start: removes all records; adds or replaces one (takes the reference), in memory only;
 * writes all, unless the state is read-only. */
void cl_state_clear(struct cl_state *);
void cl_state_set(struct cl_state *, struct cl_record *record);
NODISCARD bool cl_state_save(struct cl_state *, struct error *err);

/* ---- routes ---- */

/** Appends them as they were read or last written: a JSON object, or nothing. */
void cl_state_routes(struct cl_state *, struct buf *b);
/** Replaces them, in memory and in the file, or in neither. One caller at a time. */
NODISCARD bool cl_state_write_routes(struct cl_state *, struct str routes, struct error *err);

#endif
