/* state.h: the state file: what was done for whom, kept for hooks and for the next start (B.8).
 *
 * Addresses are rebuilt from the Services themselves, so the file is memory, not truth. It is replaced as a whole, never
 * changed; the content before is kept as FILE.bak. One process at a time has it: FILE.lock is held for the process's life.
 * A newer version than ours is read by nobody here: then there is no memory, and the file is left as it is.
 *
 * Balancers and routes have a part each, and write the whole with what the other wrote last.
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
/** The same, and looks whether the file can be used. is_alone: there is no other process that could have it, so the lock is
 * taken now. ERR_CONFLICT, ERR_INVALID: as below. */
NODISCARD bool cl_state_open(struct str path, bool is_alone, const struct cloud_host *host,
                             struct cl_state **ret, struct error *err);
/** Lets the lock go. NULL is fine. */
void cl_state_free(struct cl_state *);
DEFINE_CLEANUP(struct cl_state, cl_state_free)

/** ERR_CONFLICT: another process has it. Twice is fine. */
NODISCARD bool cl_state_lock(struct cl_state *, struct error *err);
/** Reads it; a file that is not there is empty. ERR_INVALID: damaged. Each record is yours; free() the array. */
NODISCARD bool cl_state_read(struct cl_state *, struct cl_record ***ret, size_t *ret_n,
                             struct error *err);
/** Writes it: these records, sorted by their names here, and whatever else was in the file. Asks the fence. */
NODISCARD bool cl_state_write(struct cl_state *, struct cl_record *records[], size_t n,
                              struct error *err);
/** cl_state_lock() and cl_state_read(), for whoever needs no balancers. */
NODISCARD bool cl_state_take(struct cl_state *, struct error *err);
/** The part of the routes, as cl_state_read() found it or as it was written since: a JSON object, or nothing. Appended. */
void cl_state_routes(struct cl_state *, struct buf *b);
/** Another one. */
NODISCARD bool cl_state_write_routes(struct cl_state *, struct str routes, struct error *err);
/** Is there a file, and may it be written? */
bool cl_state_is_kept(const struct cl_state *);

#endif
