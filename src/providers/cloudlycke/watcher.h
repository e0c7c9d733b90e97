/* watcher.h: a thread that notices changes of the inventory file and has it loaded.
 *
 * It watches the file's folder, since files are replaced by renaming others over them and a
 * ConfigMap's by turning a symbolic link, and it compares the file's stamp now and then, for file
 * systems without notification. It waits until the file has been quiet for a while, so that one
 * being written is not read. At rest it sleeps in poll().
 *
 * Threads: cl_watcher_reload() and cl_watcher_check() from any.
 */
#ifndef CCMD_CLOUDLYCKE_WATCHER_H
#define CCMD_CLOUDLYCKE_WATCHER_H

#include "providers/cloudlycke/loader.h"

struct cl_watcher;

/** Watches the folder from here on; to be called before the first load, so that no change falls
 * between. The loader outlives the watcher. */
struct cl_watcher *cl_watcher_new(struct cl_loader *loader);
/** Ends the thread. NULL is fine. */
void cl_watcher_free(struct cl_watcher *);
DEFINE_CLEANUP(struct cl_watcher, cl_watcher_free)

/** Starts the thread. Without reload.enabled it loads only after cl_watcher_reload(). */
void cl_watcher_start(struct cl_watcher *, const struct cl_reload *reload);

/** Loads the file soon, changed or not. */
void cl_watcher_reload(struct cl_watcher *);
/** Looks soon whether the file has changed, and loads it once it is quiet. */
void cl_watcher_check(struct cl_watcher *);

#endif
