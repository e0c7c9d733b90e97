/* loader.h: reads the inventory file, and holds the inventory in effect.
 *
 * The file is read again on request. Its inventory replaces the one in effect only when the file
 * has no problems and cl_guard() admits it. The loader knows whether the inventory in
 * effect is still what the file has: only then does "not listed" prove that a machine is gone.
 *
 * Threads: cl_loader_open() and cl_loader_reload() from one thread at a time; all others from any.
 */
#ifndef CCMD_CLOUDLYCKE_LOADER_H
#define CCMD_CLOUDLYCKE_LOADER_H

#include "base/call.h"
#include "base/limits.h"
#include "cloud/host.h"
#include "providers/cloudlycke/inventory.h"

/** Distinguishes states of a file without reading it; all zero when the file does not exist. */
struct cl_stamp {
	bool exists;
	uint64_t device, inode;
	int64_t size, mtime_ns;
};

struct cl_stamp cl_stamp_of(const char *path);
bool cl_stamp_eq(const struct cl_stamp *a, const struct cl_stamp *b);

/** The result of reading the file. */
enum cl_outcome {
	CL_UNCHANGED, /* the same text as last time */
	CL_ACCEPTED,
	CL_REJECTED, /* it has problems */
	CL_REFUSED,  /* the guard did not admit it */
	CL_UNREADABLE,
	CL_BUSY, /* it changed while it was read: try again */
};

struct cl_loader;

/** path is copied. */
struct cl_loader *cl_loader_new(const char *path);
void cl_loader_free(struct cl_loader *);
DEFINE_CLEANUP(struct cl_loader, cl_loader_free)

/** The first load; any problem is an error. A file that is being written is read again, for 5 s at
 * most. ERR_INVALID: the file's content. ERR_UNAVAILABLE: it was still being written then. */
NODISCARD bool cl_loader_open(struct cl_loader *, struct clock *clock, struct error *err);
/** Sets the host that later loads are reported to, before the first; it outlives the loader. */
void cl_loader_set_host(struct cl_loader *, const struct cloud_host *host);

/** Reads the file and puts its inventory into effect, or reports in log, event and metric why not.
 * is_forced: also when the text is the same as last time. */
enum cl_outcome cl_loader_reload(struct cl_loader *, bool is_forced);

/** The inventory in effect; unref it. *ret_is_current (may be NULL): it is what the file had when
 * it was read last. */
struct cl_inventory *cl_loader_inventory(struct cl_loader *, bool *ret_is_current);

/** Does the stamp of the file differ from that of the last read? Costs a stat(). */
bool cl_loader_has_changed(struct cl_loader *);

/** Waits until the file has been read and has not changed since; at most until the deadline, or
 * until the call is cancelled. False: its present state has not been read. */
bool cl_loader_wait(struct cl_loader *, struct call *call, int64_t deadline_mono_ns);

const char *cl_loader_path(const struct cl_loader *);

/* ---- may a changed file take effect? ----
 *
 * A file that can delete nodes is edited by people and written by programs that crash. A change
 * that removes many machines together, or that removes machines and the end of the file, counts as
 * an accident. */

struct cl_changes {
	size_t n_before; /* machines that were there and not terminated */
	size_t n_added;
	size_t n_removed; /* not listed any more, or terminated */
	size_t n_changed;
};

void cl_compare(const struct cl_inventory *before, const struct cl_inventory *after,
                struct cl_changes *ret);

/** False with the reason, "would remove …". The limit is that of the new file, so that one edit can
 * both raise it and use it. */
NODISCARD bool cl_guard(const struct cl_inventory *before, const struct cl_inventory *after,
                        const struct cl_changes *changes, struct buf *why);

/** Appends the names, "a,b", of fields that differ and that are fixed at start. */
void cl_changes_at_restart(const struct cl_schema *before, const struct cl_schema *after,
                           struct buf *b);

#endif
