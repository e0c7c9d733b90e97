/* state.h: the state file: load balancers and routes as they were passed to hooks, for the next
 * start.
 *
 * Addresses are rebuilt from the status of Services, so the file is not authoritative. It is
 * replaced as a whole; the previous content is kept as FILE.bak. FILE.lock is held for the life of
 * the process, so one process uses the file at a time. A file of a newer version is not read and
 * not written: the process then works without one.
 *
 * Balancers and routes have a part each; a write by one includes what the other wrote last.
 *
 * Threads: any.
 */
#ifndef CCMD_CLOUDLYCKE_STATE_H
#define CCMD_CLOUDLYCKE_STATE_H

#include "cloud/host.h"
#include "providers/cloudlycke/record.h"

struct cl_state;

/** path empty: a state that is only in memory. Copied. */
struct cl_state *cl_state_new(struct str path, const struct cloud_host *host);
/** The same, and reads the file to see whether it is valid. is_alone: no other process can hold the
 * lock, so it is taken now. ERR_CONFLICT, ERR_INVALID: as below. */
NODISCARD bool cl_state_open(struct str path, bool is_alone, const struct cloud_host *host,
                             struct cl_state **ret, struct error *err);
/** Releases the lock. NULL is fine. */
void cl_state_free(struct cl_state *);
DEFINE_CLEANUP(struct cl_state, cl_state_free)

/** ERR_CONFLICT: another process holds it. May be called again. */
NODISCARD bool cl_state_lock(struct cl_state *, struct error *err);
/** A file that does not exist counts as empty. ERR_INVALID: damaged. Free the records with
 * cl_records_free(). */
NODISCARD bool cl_state_read(struct cl_state *, struct cl_record ***ret, size_t *ret_n,
                             struct error *err);
/** Sorts the records by name and writes them, together with the routes. Checks the fence. */
NODISCARD bool cl_state_write(struct cl_state *, struct cl_record *records[], size_t n,
                              struct error *err);
/** cl_state_lock() and cl_state_read(), for callers that need no balancers. */
NODISCARD bool cl_state_take(struct cl_state *, struct error *err);
/** Appends the routes' part, as it was read or last written: a JSON object, or nothing. */
void cl_state_routes(struct cl_state *, struct buf *b);
/** Replaces that part and writes the file. */
NODISCARD bool cl_state_write_routes(struct cl_state *, struct str routes, struct error *err);
/** Is there a file, and may it be written? */
bool cl_state_is_kept(const struct cl_state *);

#endif
