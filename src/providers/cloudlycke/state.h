/* state.h: what each Service and each route was given, in memory and in the state file alike.
 *
 * There is one record per Service, by UID. A change is made in memory and in the file, or in
 * neither. Changes that arrive during a write share the next one. Until a change is written there
 * are two records of that Service, the old and the new one: readers see the old one, and the
 * addresses of both are taken.
 *
 * The file has what cannot be read from anywhere else. For each Service these are its name, its
 * addresses, and what its hook was last run for, with the result; and there are the routes. After a
 * start, records are made from the Services and the addresses in their status (cl_state_adopt()),
 * so that a new leader on another machine gives the same addresses. The file adds what hooks were
 * run for, addresses that no status has yet, and addresses that no pool has any more. A balancer
 * whose Service is gone stays in the file, and so its addresses stay reserved.
 *
 * The file is replaced as a whole; the previous content is kept as FILE.bak. FILE.lock is held for
 * the life of the process, so one process uses the file at a time. A file of a newer version is not
 * read and not written: the process then works without one.
 *
 * Threads: any; for one Service, one call after the other.
 */
#ifndef CCMD_CLOUDLYCKE_STATE_H
#define CCMD_CLOUDLYCKE_STATE_H

#include <pthread.h>

#include "base/map.h"
#include "cloud/host.h"
#include "providers/cloudlycke/allocate.h"

struct cl_state {
	const struct cloud_host *host;
	struct arena arena;                    /* of the following texts */
	const char *path, *backup, *lock_path; /* NULL: in memory only */
	const char *quoted;                    /* the path, for messages */
	struct cl_targets *no_targets;         /* of records that were read from the file */
	bool is_read_only;                     /* as in struct cloud_config */
	bool has_hook;                         /* its runs are recorded */
	bool has_haproxy;                      /* its file must have room for each Service */

	pthread_mutex_t mu;
	pthread_cond_t written; /* mu: a write ended */
	int lock_fd;            /* mu; -1: not locked */
	bool is_taken;          /* mu: cl_state_take() succeeded */
	bool is_newer;          /* mu: the file has a version that we do not know */
	bool has_file;      /* mu, or the writer's: there is a good one, to be kept as FILE.bak */
	bool is_writing;    /* mu */
	uint64_t n_begun;   /* mu: changes that were begun */
	uint64_t n_written; /* mu: those of them that the file has */
	size_t n_changing;  /* mu: changes in progress */
	struct map records; /* mu: struct cl_record by UID; the written ones */
	size_t file_size;   /* mu: bytes of HAProxy's file that all records may take */
	struct cl_change *changes; /* mu: those in progress, on the stacks of their callers */
	struct buf routes;         /* mu: JSON as it was read or last written; or empty */
	struct str next_routes;    /* mu: during a change: what replaces it; ptr NULL: none */
	uint64_t version;          /* mu: counts changes of what balancers do */
	bool has_waiting;          /* mu: a Service was refused because of what others have */
};

/** When the file is taken, as by cl_state_take(). */
enum cl_state_use {
	CL_STATE_NOW,      /* by cl_state_open(), which may wait 2 s for a child of a killed ccmd */
	CL_STATE_LATER,    /* only the leader may use it */
	CL_STATE_READ_ONLY /* it is read later, but neither locked nor written */
};

/** Reads the schema's state.file, to see whether it is valid. Without one the state is only in
 * memory. host outlives it. */
NODISCARD bool cl_state_open(const struct cl_schema *schema, enum cl_state_use use,
                             const struct cloud_host *host, struct cl_state **ret,
                             struct error *err);
/** Releases the lock. NULL is fine. No change may be in progress. */
void cl_state_free(struct cl_state *);
DEFINE_CLEANUP(struct cl_state, cl_state_free)

/** Locks the file and reads what the former leader wrote; does nothing when run again. A file that
 * does not exist counts as empty. ERR_CONFLICT: another process has it; ERR_INVALID: it is
 * damaged. */
NODISCARD bool cl_state_take(struct cl_state *, struct error *err);

/* ---- balancers (allocations.c) ---- */

/** Rebuilds all records from the existing Services and the state file. A status alone is no proof:
 * an address that no pool could have given to the Service is not taken over, unless the state file
 * has it for that Service. It stays in the status until another one is allocated, and an event
 * names it. If two Services claim one address, the one for which the state file has it keeps it,
 * else the one with the lower UID; a Service that is leaving comes last. The other one gets an
 * event, and another address when it is ensured. ERR_CONFLICT: another process has the state file;
 * ERR_INVALID: it is damaged. */
NODISCARD bool cl_state_adopt(struct cl_state *, const struct cl_schema *schema,
                              const struct lb_spec *const specs[], size_t n, struct arena *arena,
                              struct error *err);

/** Allocates addresses and writes the record. The address that a Service gives up is free only
 * after its new one is written. Unref *ret. ERR_INVALID: the request cannot be met. */
NODISCARD bool cl_state_allocate(struct cl_state *, const struct cl_request *request,
                                 const struct node_ref nodes[], size_t n_nodes, struct arena *arena,
                                 struct cl_record **ret, struct error *err);
/** For a dry run: the record that cl_state_allocate() would write, which is neither written nor
 * kept, so two Services may be promised the same address. Addresses in the Service's status count
 * as its own: another process may have allocated them since the start. Unref *ret. *ret_before: the
 * addresses that the Service has now. */
NODISCARD bool cl_state_foresee(struct cl_state *, const struct cl_request *request,
                                const struct lb_spec *spec, struct arena *arena,
                                struct cl_addresses *ret_before, struct cl_record **ret,
                                struct error *err);
/** Replaces the nodes. ERR_NOT_FOUND; ERR_INVALID: HAProxy's file has no room for them, and the
 * nodes stay as they were. */
NODISCARD bool cl_state_set_nodes(struct cl_state *, struct str uid, const struct node_ref nodes[],
                                  size_t n_nodes, struct cl_record **ret, struct error *err);
/** *ret is NULL when the Service has no record. */
NODISCARD bool cl_state_mark_deleting(struct cl_state *, struct str uid, struct cl_record **ret,
                                      struct error *err);
/** Frees its addresses; Services that wait for one are requeued. */
NODISCARD bool cl_state_remove(struct cl_state *, struct str uid, struct error *err);
/** The result of the hook that was run for this record; error empty: it succeeded. */
NODISCARD bool cl_state_set_hook_result(struct cl_state *, const struct cl_record *record,
                                        struct str error, struct error *err);

/** The record of that UID, or NULL. Unref it. */
struct cl_record *cl_state_get(struct cl_state *, struct str uid);
/** All records, sorted by name: cl_records_free(). *ret_version changes with every change of what
 * balancers do. */
struct cl_record **cl_state_list(struct cl_state *, size_t *ret_n, uint64_t *ret_version);
/** The version of all changes made so far. *ret_is_busy (may be NULL): more are being written. */
uint64_t cl_state_version(struct cl_state *, bool *ret_is_busy);

/* ---- routes ---- */

/** Appends them as they were read or last written: a JSON object, or nothing. */
void cl_state_routes(struct cl_state *, struct buf *b);
/** Replaces them, in memory and in the file, or in neither. One caller at a time. */
NODISCARD bool cl_state_write_routes(struct cl_state *, struct str routes, struct error *err);

/* ---- for allocations.c; all are called with `mu` held ---- */

/** A change of one Service's record in progress: both addresses are taken. */
struct cl_change {
	struct str uid;
	struct cl_record *next; /* takes the place of the written record; NULL: removes it */
	struct cl_change *older;
};

/** The written records, or (is_next) those after the changes in progress; sorted by name, one
 * reference each: cl_records_free(). */
struct cl_record **cl_state_sorted(const struct cl_state *, bool is_next, size_t *ret_n);

/** Replaces the record of that UID (NULL: removes it), in memory and in the file, or in neither.
 * Takes the reference. Writes nothing when the file would say the same. Checks the fence. Releases
 * the lock while it writes or waits. */
NODISCARD bool cl_state_change(struct cl_state *, struct str uid, struct cl_record *record,
                               struct error *err);

/** For a start: removes all; adds or replaces one (takes the reference), in memory; writes all. */
void cl_state_clear(struct cl_state *);
void cl_state_set(struct cl_state *, struct cl_record *record);
NODISCARD bool cl_state_commit(struct cl_state *, struct error *err);

#endif
