/* watcher.h: a thread that notices changes of the inventory file and loads it.
 *
 * It watches the file's folder, because files are replaced by renaming others over them, and those
 * of a ConfigMap by changing a symbolic link. It also compares the file's stamp periodically, for
 * file systems without notification. It waits until the file has been quiet for a while, so that a
 * file that is being written is not read. At rest it sleeps in poll().
 *
 * Threads: cl_watcher_request() from any.
 */
#ifndef CCMD_CLOUDLYCKE_WATCHER_H
#define CCMD_CLOUDLYCKE_WATCHER_H

#include "providers/cloudlycke/loader.h"

struct cl_watcher;

/** Watches the folder from now on. Must be called before the first load, so that no change in
 * between is missed. The loader outlives the watcher. */
struct cl_watcher *cl_watcher_new(struct cl_loader *loader);
/** Ends the thread. NULL is fine. */
void cl_watcher_free(struct cl_watcher *);
DEFINE_CLEANUP(struct cl_watcher, cl_watcher_free)

/** Starts the thread. Without reload.enabled it loads only after CL_WATCHER_RELOAD. */
void cl_watcher_start(struct cl_watcher *, const struct cl_reload *reload);

enum cl_watcher_request {
	CL_WATCHER_STOP = 1, /* by cl_watcher_free() */
	/* to load the file, changed or not */
	CL_WATCHER_RELOAD = 2,
	/* to compare the file's stamp and, if it has changed, load the file once it is quiet */
	CL_WATCHER_CHECK = 4,
};

/** Wakes the thread. */
void cl_watcher_request(struct cl_watcher *, enum cl_watcher_request request);

#endif
